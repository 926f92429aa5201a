//! Evaluates filters, keys and arguments over blocks of rows that stay in cache.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;

use super::columns::{BlockColumns, ends_of_runs, filtered};
use super::cuts::TimeCut;
use super::{AggregateSlot, TableGroups};
use crate::aggregate::accumulate::{NO_GROUP, RowGroups, update};
use crate::aggregate::group_slots::{GroupSlots, RowSlots, RowsByGroup, runs_as_they_stand};
use crate::aggregate::keys::ValueKey;
use crate::aggregate::picks::Positions;
use crate::aggregate::pivot::RowCells;
use crate::aggregate::{AggregateFunction, Buckets, Key};
use crate::error::{Error, Result};
use crate::expr::InputColumns;
use crate::expr::codes::{self, TextResults};
use crate::filter_mask::FilterMask;
use crate::table::{Cover, CoverColumns, RowBlock, Span};

/// Places of a stretch for each of its rows, on average, up to which groups are looked up by place.
const PLACES_OF_ROW_MAX: usize = 4;

/// Rows for each place from which on that is done where groups may be looked up by places of the whole table, too: each place of a block is
/// looked up there by hash.
const ROWS_OF_PLACE_MIN: usize = 8;

/// If a filter drops at most one of this many rows, the dropped rows become nulls. If it drops more, kernels are faster with a list of the rows
/// that pass.
const NULLS_OF_ROWS: usize = 3;

/// Rows of a block that differ only in keys that are looked at row by row: of one symbol and stretch of time.
struct BlockSpan<'a> {
    /// Rows of those that are kept.
    rows: Range<usize>,
    span: &'a Span,
    cut: Option<TimeCut>,
}

impl TableGroups<'_> {
    /// Aggregates a block of rows whose filter, keys and arguments are evaluated.
    pub(super) fn block(&mut self, columns: &CoverColumns<'_>, number: u32, block: &RowBlock) -> Result<()> {
        let cover = columns.cover();
        let mut chunk = BlockColumns::new(columns, block);
        if let Some(predicate) = self.aggregation.predicate {
            let mask = self.conditions.hold(predicate, &chunk, self.aggregation.constants)?;
            let filter = FilterMask::new(mask);
            if filter.rows() == 0 {
                return Ok(());
            }
            if filter.rows() < chunk.selected_rows() {
                chunk.filter = Some(filter);
            }
        }
        // Nothing else asks where rows stand.
        let picks = self.slots.iter().any(|slot| matches!(slot, AggregateSlot::Picks(_)));
        let positions = if picks { chunk.positions(number) } else { None };
        let positions = match &positions {
            Some(positions) => Positions::Listed(positions),
            None => Positions::From(chunk.first_position(number)),
        };
        let times = match self.needs_times() {
            true => Some(chunk.column(self.aggregation.snapshot.spec().time_position())?.into_array(chunk.rows())?),
            false => None,
        };
        let times = times.as_ref().map(crate::table::times_of).transpose()?;
        let values = self.value_keys(&chunk)?;
        if values.is_empty() {
            self.runs.clear();
            for (span, rows) in filtered_spans(block, &chunk).filter(|(_, rows)| !rows.is_empty()) {
                self.set_symbol(cover, span.run)?;
                self.cut(rows, times)?;
            }
            self.grow()?;
            let runs = std::mem::take(&mut self.runs);
            self.pick(&chunk, RowGroups::Runs(&runs), positions, times)?;
            self.keep(&chunk, RowGroups::Runs(&runs), None)?;
            self.runs = runs;
            return Ok(());
        }
        // Neither symbol nor time is a key, and no row is picked by its time, which rises within a symbol alone.
        let all_by_value = values.len() == self.aggregation.keys.len() && times.is_none();
        let stretches = match all_by_value {
            true => vec![BlockSpan { rows: 0..chunk.rows(), span: &block.spans[0], cut: None }],
            false => self.stretches(block, &chunk, times)?,
        };
        let places_max = match all_by_value {
            true => chunk.rows() / ROWS_OF_PLACE_MIN,
            false => PLACES_OF_ROW_MAX * chunk.rows() / stretches.len().max(1),
        };
        if let Some(places) = ValueKey::places(&values, chunk.rows(), places_max) {
            let parted = self.parted(cover, &stretches, &values, places)?;
            self.grow()?;
            self.pick(&chunk, RowGroups::Places(&parted), positions, times)?;
            let ordered = if self.gains_by_order { parted.ordered() } else { None };
            return self.keep(&chunk, RowGroups::Places(&parted), ordered.as_ref());
        }
        let rows = self.rows(cover, &stretches, &values, chunk.rows())?;
        self.grow()?;
        self.pick(&chunk, RowGroups::Rows(&rows), positions, times)?;
        if self.gains_by_order {
            if let Some(runs) = runs_as_they_stand(&rows) {
                return self.keep(&chunk, RowGroups::Runs(&runs), None);
            }
            if let Some(ordered) = GroupSlots::of_groups(&rows, self.groups.len()).and_then(|parted| parted.ordered()) {
                return self.keep(&chunk, RowGroups::Rows(&rows), Some(&ordered));
            }
        }
        self.keep(&chunk, RowGroups::Rows(&rows), None)
    }

    /// The group of each row.
    fn rows(
        &mut self,
        cover: &Cover,
        stretches: &[BlockSpan<'_>],
        values: &[ValueKey],
        count: usize,
    ) -> Result<Vec<u32>> {
        let mut rows = Vec::with_capacity(count);
        if values.len() == self.aggregation.keys.len() {
            let mut dense = std::mem::take(&mut self.dense);
            let group_count = self.groups.len();
            let find = |row: usize, is_new: bool| {
                self.set_words(values, row);
                if is_new { self.groups.add_new(&self.words) } else { self.groups.find(&self.words) }
            };
            let is_dense = dense.rows(values, count, group_count, find, |group| rows.push(group));
            self.dense = dense;
            if is_dense {
                return Ok(rows);
            }
        }
        self.hashed += count;
        let (mut last, stride) = (None, self.words.len());
        let mut words = std::mem::take(&mut self.row_words);
        words.clear();
        for stretch in stretches {
            self.set_stretch(cover, last.replace(stretch), stretch)?;
            values.iter().for_each(|value| self.words[stride - 1] &= !(1 << value.key));
            words.resize(stretch.rows.start * stride, 0);
            stretch.rows.clone().for_each(|_| words.extend_from_slice(&self.words));
        }
        words.resize(count * stride, 0);
        values.iter().for_each(|value| value.write(0, &mut words, stride));
        for stretch in stretches {
            rows.resize(stretch.rows.start, NO_GROUP);
            let words = &words[stretch.rows.start * stride..stretch.rows.end * stride];
            self.groups.find_rows(words, |group| rows.push(group));
        }
        rows.resize(count, NO_GROUP);
        self.row_words = words;
        Ok(rows)
    }

    /// Cuts the rows of a block where the symbol changes, and where keys change with time.
    fn stretches<'b>(
        &self,
        block: &'b RowBlock,
        chunk: &BlockColumns<'_>,
        times: Option<&[i64]>,
    ) -> Result<Vec<BlockSpan<'b>>> {
        let mut stretches = Vec::with_capacity(block.spans.len());
        for (span, rows) in filtered_spans(block, chunk) {
            match times.filter(|_| !self.cuts.is_empty()) {
                Some(times) => self.cuts.each(rows, times, |rows, cut| {
                    stretches.push(BlockSpan { rows, span, cut: Some(cut) });
                    Ok(())
                })?,
                None if rows.is_empty() => {}
                None => stretches.push(BlockSpan { rows, span, cut: None }),
            }
        }
        Ok(stretches)
    }

    /// Sets the words of a stretch's symbol and time, given the stretch that they are set to.
    fn set_stretch(&mut self, cover: &Cover, last: Option<&BlockSpan<'_>>, stretch: &BlockSpan<'_>) -> Result<()> {
        if let Some(cut) = stretch.cut {
            self.cuts.set(cut, &mut self.words, &mut self.texts, self.aggregation.constants)?;
        }
        match last.is_some_and(|last| std::ptr::eq(last.span, stretch.span)) {
            true => Ok(()),
            false => self.set_symbol(cover, stretch.span.run),
        }
    }

    /// Looks groups up by place, each found by hash but once in a stretch.
    fn parted(
        &mut self,
        cover: &Cover,
        stretches: &[BlockSpan<'_>],
        values: &[ValueKey],
        places: RowSlots,
    ) -> Result<GroupSlots> {
        let mut last: Option<usize> = None;
        let rows = stretches.iter().map(|stretch| stretch.rows.clone()).collect();
        GroupSlots::new(places, rows, |stretch, row| {
            if last != Some(stretch) {
                self.set_stretch(cover, last.map(|last| &stretches[last]), &stretches[stretch])?;
                last = Some(stretch);
            }
            Ok(self.find_row(values, row))
        })
    }

    /// Offers the rows of a block to those slots that pick some.
    fn pick(
        &mut self,
        chunk: &BlockColumns<'_>,
        assigned: RowGroups<'_>,
        positions: Positions<'_>,
        times: Option<&[i64]>,
    ) -> Result<()> {
        for (slot, aggregate) in self.slots.iter_mut().zip(self.aggregation.aggregates) {
            if let AggregateSlot::Picks(picks) = slot {
                let only;
                let constants = self.aggregation.constants;
                if let Some(places) = aggregate.pivot.as_ref().and(aggregate.arguments.last()) {
                    only = filtered(aggregate, chunk, assigned, constants, &mut self.conditions)?;
                    let places = places.evaluate(chunk, constants)?.into_array(chunk.rows())?;
                    let assigned = only.as_deref().map_or(assigned, RowGroups::Listed);
                    let cells = RowCells::new(assigned, &places, aggregate.width())?;
                    picks.update(cells.assigned(), positions, times);
                    continue;
                }
                let assigned = match (assigned, aggregate.function.picks()) {
                    (RowGroups::Runs(runs), Some((last, _))) => {
                        only = ends_of_runs(aggregate, chunk, runs, last, constants, &mut self.conditions)?;
                        only.as_deref().map_or(assigned, RowGroups::Listed)
                    }
                    _ => {
                        only = filtered(aggregate, chunk, assigned, constants, &mut self.conditions)?;
                        only.as_deref().map_or(assigned, RowGroups::Listed)
                    }
                };
                picks.update(assigned, positions, times);
            }
        }
        Ok(())
    }

    /// Takes the rows of a block into the other slots: in the order of their groups, where there is one.
    fn keep(&mut self, chunk: &dyn InputColumns, assigned: RowGroups<'_>, order: Option<&RowsByGroup>) -> Result<()> {
        let arguments = self.same.iter().map(Vec::len).sum();
        let (mut as_they_stand, mut in_order) = (vec![None; arguments], vec![None; arguments]);
        let mut masks: Vec<Option<BooleanArray>> = vec![None; self.same_filters.len()];
        let slots = self.slots.iter_mut().zip(self.aggregation.aggregates).zip(&self.same).zip(&self.same_filters);
        for (((slot, aggregate), same), same_filter) in slots {
            let AggregateSlot::Accumulator(accumulator) = slot else { continue };
            let mask = match (&aggregate.filter, &mut masks[*same_filter]) {
                (None, _) => None,
                (Some(_), Some(cached)) => Some(&*cached),
                (Some(filter), unknown) => {
                    Some(&*unknown.insert(self.conditions.hold(filter, chunk, self.aggregation.constants)?))
                }
            };
            let only = FilteredRows::of(mask, &aggregate.function, assigned);
            let order = order.filter(|_| !matches!(only, FilteredRows::Listed(_)));
            let mut arguments = Vec::with_capacity(same.len());
            for (argument, number) in aggregate.arguments.iter().zip(same) {
                let array = match &as_they_stand[*number] {
                    Some(cached) => cached,
                    None => {
                        let value = argument.evaluate(chunk, self.aggregation.constants)?.into_array(chunk.rows())?;
                        as_they_stand[*number].insert(value)
                    }
                };
                let array = match (order, &in_order[*number]) {
                    // In the order of groups once the others are null.
                    (Some(_), _) if matches!(only, FilteredRows::NotNull(_)) => array,
                    (None, _) => array,
                    (Some(_), Some(cached)) => cached,
                    (Some(order), None) => in_order[*number].insert(order.put(array)?),
                };
                arguments.push(ArrayRef::clone(array));
            }
            if let FilteredRows::NotNull(mask) = only {
                arguments = not_null(mask, arguments)?;
                if let Some(order) = order {
                    arguments = arguments.iter().map(|array| order.put(array)).collect::<Result<_>>()?;
                }
            }
            match (&only, order) {
                (FilteredRows::Listed(rows), _) => accumulator.update(&arguments, RowGroups::Listed(rows))?,
                (_, Some(order)) => update(accumulator.as_mut(), aggregate, &arguments, RowGroups::Runs(&order.runs))?,
                (_, None) => update(accumulator.as_mut(), aggregate, &arguments, assigned)?,
            }
        }
        Ok(())
    }

    /// The words of the keys that are values, row by row.
    fn value_keys(&mut self, chunk: &BlockColumns<'_>) -> Result<Vec<ValueKey>> {
        let (aggregation, mut keys) = (self.aggregation, Vec::new());
        for (position, key) in aggregation.keys.iter().enumerate() {
            let expr = match key {
                Key::Value(expr) if !self.cuts.is_step(position) && !self.symbol_keys.has(position) => expr,
                Key::Bucket(buckets) if aggregation.by_rows => {
                    let times = chunk.column(aggregation.snapshot.spec().time_position())?.into_array(chunk.rows())?;
                    let starts: ArrayRef = Arc::new(starts_of(buckets.as_ref(), crate::table::times_of(&times)?)?);
                    keys.push(ValueKey::new(
                        position,
                        &starts,
                        &mut self.texts[position],
                        &mut self.text_words[position],
                    )?);
                    continue;
                }
                _ => continue,
            };
            let (texts, cached) = (&mut self.texts[position], &mut self.text_words[position]);
            // As many rows of the cover as this block's filter lets one expect.
            let blocks = TextResults::rows_in_all(chunk) / chunk.selected_rows().max(1);
            let coded = codes::coded_column(expr, chunk, blocks.max(1).saturating_mul(chunk.rows()))?;
            if let Some((column, dictionary)) = coded.filter(|(_, coded)| !cached.has_refused(coded.values())) {
                let values = || codes::over_texts(expr, column, &dictionary, aggregation.constants);
                let key = ValueKey::of_codes(position, &dictionary, texts, cached, values);
                if let Some(key) = codes::unless_refused(key)? {
                    keys.push(key);
                    continue;
                }
                cached.refuse(dictionary.values());
            }
            let array = expr.evaluate_key(chunk, aggregation.constants)?;
            keys.push(ValueKey::new(position, &array, texts, cached)?);
        }
        Ok(keys)
    }

    fn find_row(&mut self, values: &[ValueKey], row: usize) -> u32 {
        self.set_words(values, row);
        self.groups.find(&self.words)
    }

    /// Sets the words of the keys that are values.
    fn set_words(&mut self, values: &[ValueKey], row: usize) {
        let nulls = self.aggregation.keys.len();
        for value in values {
            let word = value.word(row);
            self.words[value.key] = word.unwrap_or(0);
            self.words[nulls] &= !(1 << value.key);
            self.words[nulls] |= u64::from(word.is_none()) << value.key;
        }
    }
}

/// The start of the bucket of each time.
pub(super) fn starts_of(buckets: &dyn Buckets, times: &[i64]) -> Result<Int64Array> {
    let (mut start, mut end) = (i64::MAX, i64::MIN);
    let mut starts = Vec::with_capacity(times.len());
    for time in times {
        if !(start..end).contains(time) {
            let none = || Error::Function(format!("the instant {time} ns has no bucket"));
            (start, end) = buckets.bucket(*time).ok_or_else(none)?;
        }
        starts.push(start);
    }
    Ok(starts.into())
}

/// The rows of a block that an aggregate's filter keeps.
enum FilteredRows<'m> {
    All,
    /// With their groups.
    Listed(Vec<(u32, u32)>),
    /// Those of a mask, most of the block's: what isn't kept counts as null.
    NotNull(&'m BooleanArray),
}

impl<'m> FilteredRows<'m> {
    fn of(mask: Option<&'m BooleanArray>, function: &AggregateFunction, assigned: RowGroups<'_>) -> FilteredRows<'m> {
        let Some(mask) = mask else { return FilteredRows::All };
        match mask.true_count() {
            passing if passing == mask.len() => FilteredRows::All,
            passing if function.leaves_nulls_out() && passing * NULLS_OF_ROWS >= mask.len() * (NULLS_OF_ROWS - 1) => {
                FilteredRows::NotNull(mask)
            }
            _ => FilteredRows::Listed(assigned.of(mask.values().set_indices())),
        }
    }
}

/// The arguments of an aggregate that leaves nulls out, null in the rows that a mask leaves out; of one without arguments the mask itself.
fn not_null(mask: &BooleanArray, mut arguments: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    match arguments.first_mut() {
        Some(first) => *first = nullif(first, &BooleanArray::new(!mask.values(), None))?,
        None => {
            let valid = NullBuffer::new(mask.values().clone());
            arguments.push(Arc::new(BooleanArray::new(mask.values().clone(), Some(valid))));
        }
    }
    Ok(arguments)
}

/// The spans of a block, and which of the rows that pass the filter are theirs.
fn filtered_spans<'a>(block: &'a RowBlock, chunk: &BlockColumns<'_>) -> impl Iterator<Item = (&'a Span, Range<usize>)> {
    let (mut selected, mut start) = (0, 0);
    block.spans.iter().map(move |span| {
        let end = start + chunk.filtered_of(selected..selected + span.rows.len());
        selected += span.rows.len();
        (span, std::mem::replace(&mut start, end)..end)
    })
}
