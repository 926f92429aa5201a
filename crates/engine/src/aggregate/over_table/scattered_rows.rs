//! The second pass of two-pass grouping: groups one part, and combines the parts.

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::key_layout::KeyLayout;
use super::scatter::{ScatterPlan, in_order, key_values};
use super::{AggregateSlot, TableAggregate, slot};
use crate::aggregate::Key;
use crate::aggregate::accumulate::{NO_GROUP, RowGroups};
use crate::aggregate::groups::{Groups, column_of};
use crate::aggregate::keys::{TextWords, ValueKey};
use crate::aggregate::picks::Positions;
use crate::aggregate::pivot::{self, check_cells};
use crate::dictionaries::concat_arrays;
use crate::error::{Error, Result};
use crate::expr::InputColumns;
use crate::gather::place;
use crate::parallel;
use crate::table::{Cover, CoverColumns, PickedColumns};
use crate::texts::Texts;

/// Rows for each group up to which the order of groups is found by a place for each row.
const ROWS_OF_GROUP_MAX: usize = 16;

/// Rows of a group for which there is room before they come.
const ROWS_OF_GROUP_EXPECTED: usize = 2;

/// Rows of a block in the order of their parts.
pub(super) struct PartitionedBlock {
    /// Where the rows of each part begin, and where those of the last end.
    pub starts: Vec<u32>,
    /// The words of the keys, those of texts left out, and the hashes of all.
    pub words: Vec<u64>,
    pub hashes: Vec<u32>,
    /// Keys that are texts, with their position.
    pub texts: Vec<(usize, ArrayRef)>,
    /// By the number of the argument, those that are the first with their values.
    pub arguments: Vec<Option<ArrayRef>>,
    /// By the number of the filter.
    pub masks: Vec<Option<BooleanArray>>,
    /// Where rows stand: the number of the cover, and the row in it.
    pub positions: Vec<u64>,
    /// The times of these rows, if a later step orders by them.
    pub times: Vec<i64>,
}

impl PartitionedBlock {
    /// Rows of a part.
    pub fn rows_of(&self, part: usize) -> usize {
        (self.starts[part + 1] - self.starts[part]) as usize
    }
}

/// The groups of a part.
pub(super) struct PartState {
    groups: Groups,
    /// By key.
    texts: Vec<Texts>,
    text_words: Vec<TextWords>,
    slots: Vec<AggregateSlot>,
    /// Cells of a group, over all aggregates.
    cells: usize,
    /// Where the first row of each group stands.
    firsts: Vec<u64>,
    /// Scratch: the groups of the rows of a block.
    rows: Vec<u32>,
}

impl PartState {
    pub fn new(aggregation: &TableAggregate<'_>, layout: &KeyLayout) -> Result<PartState> {
        let keys = aggregation.keys.len();
        Ok(PartState {
            groups: Groups::of_hashed(layout.words()),
            texts: (0..keys).map(|_| Texts::default()).collect(),
            text_words: (0..keys).map(|_| TextWords::default()).collect(),
            slots: aggregation
                .aggregates
                .iter()
                .map(|aggregate| slot(aggregation, aggregate))
                .collect::<Result<_>>()?,
            cells: aggregation.aggregates.iter().map(crate::aggregate::Aggregate::width).sum(),
            firsts: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Bytes that it takes, more or less.
    pub fn bytes(&self) -> usize {
        let width = 8 * self.groups.stride() + 24 + 24 * self.cells;
        let slot_bytes = self.slots.iter().map(AggregateSlot::heap_bytes).sum::<usize>();
        width * self.groups.len() + slot_bytes + self.texts.iter().map(Texts::bytes).sum::<usize>()
    }

    /// Makes room for the groups of so many rows, of which nearly each may be one: a table that grows finds a place for all groups anew.
    pub fn expect_rows(&mut self, rows: usize) {
        self.groups.reserve(rows / ROWS_OF_GROUP_EXPECTED);
    }

    /// Takes in the rows of a block that are the part's.
    pub fn take(&mut self, dealing: &ScatterPlan<'_>, block: &PartitionedBlock, part: usize) -> Result<()> {
        let (start, end) = (block.starts[part] as usize, block.starts[part + 1] as usize);
        if start == end {
            return Ok(());
        }
        let (aggregation, layout, stride, count) =
            (dealing.aggregation, &dealing.layout, dealing.layout.words(), end - start);
        let mut words = &block.words[start * stride..end * stride];
        let with_texts;
        if !block.texts.is_empty() {
            let mut own = words.to_vec();
            for (key, array) in &block.texts {
                let (texts, text_words) = (&mut self.texts[*key], &mut self.text_words[*key]);
                let numbers = ValueKey::new(*key, &array.slice(start, count), texts, text_words)?;
                for (row, words) in own.chunks_exact_mut(stride).enumerate() {
                    layout.add_number(*key, numbers.word(row).unwrap_or(0), words);
                }
            }
            with_texts = own;
            words = &with_texts;
        }
        let PartState { groups, firsts, rows, .. } = self;
        rows.clear();
        groups.find_hashed(words, &block.hashes[start..end], |group| {
            if group as usize == firsts.len() {
                firsts.push(block.positions[start + rows.len()]);
            }
            rows.push(group);
        });
        check_cells(aggregation.aggregates, self.groups.len(), aggregation.memory_bytes / 2)?;
        for (number, (slot, aggregate)) in self.slots.iter_mut().zip(aggregation.aggregates).enumerate() {
            let (same, filter) = (&dealing.same[number], dealing.same_filters[number]);
            let only: Vec<u32>;
            let rows = match (&aggregate.filter, &block.masks[filter]) {
                (Some(_), Some(mask)) => {
                    let passing = |(row, group): (usize, &u32)| if mask.value(start + row) { *group } else { NO_GROUP };
                    only = self.rows.iter().enumerate().map(passing).collect();
                    &only
                }
                _ => &self.rows,
            };
            match slot {
                AggregateSlot::Accumulator(accumulator) => {
                    let argument = |number: &usize| {
                        let missing = || Error::Unsupported("an argument that wasn't computed".to_owned());
                        Ok(block.arguments[*number].as_ref().ok_or_else(missing)?.slice(start, count))
                    };
                    let arguments = same.iter().map(argument).collect::<Result<Vec<_>>>()?;
                    accumulator.grow(self.groups.len());
                    accumulator.update(&arguments, RowGroups::Rows(rows))?;
                }
                AggregateSlot::Picks(picks) => {
                    picks.grow(self.groups.len());
                    let times = block.times.get(start..end);
                    picks.update(RowGroups::Rows(rows), Positions::Listed(&block.positions[start..end]), times);
                }
            }
        }
        Ok(())
    }

    /// Keys and results, a row for each group. A key that is read of the groups' first rows isn't among them.
    fn columns(
        self,
        aggregation: &TableAggregate<'_>,
        layout: &KeyLayout,
        covers: &[&Cover],
        read: &[bool],
    ) -> Result<Vec<Option<ArrayRef>>> {
        let key = |key: usize| match read[key] {
            true => Ok(None),
            false => {
                let (words, nulls) = layout.words_of(&self.groups, key);
                column_of(&words, nulls, &self.texts[key], &aggregation.key_types[key]).map(Some)
            }
        };
        let mut columns = (0..read.len()).map(key).collect::<Result<Vec<_>>>()?;
        for (slot, aggregate) in self.slots.into_iter().zip(aggregation.aggregates) {
            let results = match slot {
                AggregateSlot::Accumulator(accumulator) => accumulator.finish()?,
                AggregateSlot::Picks(picks) => picks.finish(&aggregate.data_type, |number, rows| {
                    let columns = &CoverColumns::new(aggregation.snapshot, covers[number as usize]);
                    let picked = PickedColumns { columns, rows: rows.rows() };
                    aggregate.arguments[0].evaluate(&picked, aggregation.constants)?.into_array(picked.rows())
                })?,
            };
            columns.extend(pivot::columns(aggregate, results, aggregation.constants)?.into_iter().map(Some));
        }
        Ok(columns)
    }
}

/// Whether a key's values are read of the first rows of groups, rather than made of the words.
fn is_read(key: &Key, data_type: &DataType) -> bool {
    // Intervals of equal length may be written in several ways.
    matches!(key, Key::Symbol | Key::Value(_)) && !matches!(data_type, DataType::Interval(_))
}

/// The groups of all parts in the order of their first rows.
pub(super) fn put_together(
    aggregation: &TableAggregate<'_>,
    layout: &KeyLayout,
    parts: Vec<PartState>,
    covers: &[&Cover],
) -> Result<Vec<ArrayRef>> {
    let firsts: Vec<u64> = parts.iter().flat_map(|part| part.firsts.iter().copied()).collect();
    let lengths: Vec<usize> = covers.iter().map(|cover| cover.rows.len()).collect();
    let order = UInt32Array::from(order_of(&firsts, &lengths)?);
    let firsts: Vec<u64> = order.values().iter().map(|group| firsts[*group as usize]).collect();
    let read: Vec<bool> =
        aggregation.keys.iter().zip(aggregation.key_types).map(|(key, of)| is_read(key, of)).collect();
    let columns = parallel::each_of(parts.into_iter(), aggregation.threads, |part| {
        part.columns(aggregation, layout, covers, &read)
    })?;
    let width = columns.first().map_or(0, Vec::len);
    parallel::each(width, aggregation.threads, |number| {
        aggregation.stop.check()?;
        if read.get(number).copied().unwrap_or(false) {
            return key_of_firsts(aggregation, number, &firsts, covers);
        }
        in_order(&columns.iter().filter_map(|columns| columns[number].clone()).collect::<Vec<_>>(), &order)
    })
}

/// The values of a key in the first rows of all groups, which ascend.
fn key_of_firsts(aggregation: &TableAggregate<'_>, key: usize, firsts: &[u64], covers: &[&Cover]) -> Result<ArrayRef> {
    let data_type = &aggregation.key_types[key];
    let mut parts = Vec::new();
    for of_cover in firsts.chunk_by(|one, next| place(*one).0 == place(*next).0) {
        aggregation.stop.check()?;
        let columns = &CoverColumns::new(aggregation.snapshot, covers[place(of_cover[0]).0 as usize]);
        let rows = &of_cover.iter().map(|first| place(*first).1).collect::<Vec<u32>>().into();
        let values = key_values(aggregation, key, &PickedColumns { columns, rows })?;
        let values = values.ok_or_else(|| Error::Unsupported("a key that isn't read".to_owned()))?;
        parts.push(if values.data_type() == data_type { values } else { cast(&values, data_type)? });
    }
    concat_arrays(parts, data_type)
}

/// The numbers of different rows in their order; `lengths` are the rows of each cover.
fn order_of(firsts: &[u64], lengths: &[usize]) -> Result<Vec<u32>> {
    let places = u32::try_from(firsts.len()).ok().filter(|places| *places < u32::MAX);
    let places = places.ok_or(Error::Memory { needed: firsts.len(), limit: u32::MAX as usize })?;
    // Where the rows of each cover begin among those of all.
    let mut rows = 0;
    let mut begins = Vec::with_capacity(lengths.len());
    for length in lengths {
        begins.push(rows);
        rows += length;
    }
    if rows > firsts.len().saturating_mul(ROWS_OF_GROUP_MAX) {
        let mut order: Vec<u32> = (0..places).collect();
        order.sort_unstable_by_key(|group| firsts[*group as usize]);
        return Ok(order);
    }
    let mut by_row = vec![u32::MAX; rows];
    for (group, first) in (0..places).zip(firsts) {
        let (cover, row) = place(*first);
        by_row[begins[cover as usize] + row as usize] = group;
    }
    by_row.retain(|group| *group != u32::MAX);
    Ok(by_row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::position;

    #[test]
    fn groups_come_in_the_order_of_their_first_rows() {
        let firsts = [(1, 7), (0, 3), (2, 90), (0, 0), (1, 41)].map(|(cover, row)| position(cover, row));
        for lengths in [[4, 42, 91], [4, 100_000, 91]] {
            assert_eq!(order_of(&firsts, &lengths).unwrap(), [3, 1, 0, 4, 2]);
        }
        assert!(order_of(&[], &[10]).unwrap().is_empty());
    }
}
