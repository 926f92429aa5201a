//! Rows whose filters, keys and arguments have to be evaluated, in blocks that stay in cache.

use std::cell::RefCell;
use std::ops::Range;

use arrow::array::ArrayRef;

use super::columns::{BlockColumns, Grouped, OrderedColumns, filtered};
use super::direct::{bucket_of, gallop};
use super::{Slot, State};
use crate::aggregate::Key;
use crate::aggregate::accumulate::{Assigned, NO_GROUP};
use crate::aggregate::keys::ValueKey;
use crate::aggregate::picks::Positions;
use crate::error::Result;
use crate::expr::{Columns, holds};
use crate::gather::position;
use crate::table::{Block, CoverColumns};

impl State<'_> {
    /// Aggregates a block of rows whose filter, keys and arguments are evaluated.
    pub(super) fn block(&mut self, columns: &CoverColumns<'_>, number: u32, block: &Block) -> Result<()> {
        let cover = columns.cover();
        let mut chunk = BlockColumns { columns, rows: block.rows.clone(), mask: None, kept: block.rows.len() };
        let mut positions: Option<Vec<u64>> = None;
        if let Some(predicate) = self.asked.predicate {
            let mask = predicate.evaluate(&chunk, self.asked.constants)?.into_array(block.rows.len())?;
            let mask = holds(&mask)?;
            chunk.kept = mask.true_count();
            if chunk.kept == 0 {
                return Ok(());
            }
            if chunk.kept < block.rows.len() {
                let start = block.rows.start - cover.rows.start;
                positions = Some(mask.values().set_indices().map(|row| position(number, start + row)).collect());
                chunk.mask = Some(mask);
            }
        }
        let times = match self.needs_times() {
            true => Some(chunk.column(self.asked.snapshot.spec().time_position())?.into_array(chunk.kept)?),
            false => None,
        };
        let times = times.as_ref().map(crate::table::times_of).transpose()?;
        let values = self.value_keys(&chunk)?;
        let places = ValueKey::places(&values, chunk.kept);
        self.runs.clear();
        self.rows.clear();
        let mut start = 0;
        for span in &block.spans {
            self.set_symbol(cover, span.run)?;
            let end = start + chunk.kept_of(span.rows.start - block.rows.start..span.rows.end - block.rows.start);
            if values.is_empty() {
                self.cut(start..end, times)?;
            } else {
                self.cut_by_values(start..end, times, &values, places.as_ref())?;
            }
            start = end;
        }
        self.grow();
        let runs = std::mem::take(&mut self.runs);
        let rows = std::mem::take(&mut self.rows);
        let positions = match &positions {
            Some(positions) => Positions::Listed(positions),
            None => Positions::From(position(number, block.rows.start - cover.rows.start)),
        };
        let as_they_stand = if values.is_empty() { Assigned::Runs(&runs) } else { Assigned::Rows(&rows) };
        self.pick(&chunk, as_they_stand, positions, times)?;
        let grouped =
            if values.is_empty() || !self.gains_by_order { None } else { Grouped::new(&rows, self.groups.len()) };
        match &grouped {
            Some(Grouped { runs, order: Some(order) }) => {
                self.keep(&OrderedColumns { block: &chunk, order, taken: RefCell::default() }, Assigned::Runs(runs))?;
            }
            Some(Grouped { runs, order: None }) => self.keep(&chunk, Assigned::Runs(runs))?,
            None => self.keep(&chunk, as_they_stand)?,
        }
        (self.runs, self.rows) = (runs, rows);
        Ok(())
    }

    /// Offers the rows of a block to those slots that pick some.
    fn pick(
        &mut self,
        chunk: &BlockColumns<'_>,
        assigned: Assigned<'_>,
        positions: Positions<'_>,
        times: Option<&[i64]>,
    ) -> Result<()> {
        for (slot, aggregate) in self.slots.iter_mut().zip(self.asked.aggregates) {
            if let Slot::Picked(picks) = slot {
                let only;
                let assigned = match filtered(aggregate, chunk, assigned, self.asked.constants)? {
                    Some(rows) => {
                        only = rows;
                        Assigned::Rows(&only)
                    }
                    None => assigned,
                };
                picks.update(assigned, positions, times);
            }
        }
        Ok(())
    }

    /// Takes the rows of a block into the other slots.
    fn keep(&mut self, chunk: &dyn Columns, assigned: Assigned<'_>) -> Result<()> {
        let mut evaluated: Vec<Option<ArrayRef>> = vec![None; self.same.iter().map(Vec::len).sum()];
        for ((slot, aggregate), same) in self.slots.iter_mut().zip(self.asked.aggregates).zip(&self.same) {
            if let Slot::Kept(accumulator) = slot {
                let only;
                let assigned = match filtered(aggregate, chunk, assigned, self.asked.constants)? {
                    Some(rows) => {
                        only = rows;
                        Assigned::Rows(&only)
                    }
                    None => assigned,
                };
                let mut arguments = Vec::with_capacity(same.len());
                for (argument, number) in aggregate.arguments.iter().zip(same) {
                    let array = match &evaluated[*number] {
                        Some(known) => known,
                        None => {
                            let value = argument.evaluate(chunk, self.asked.constants)?.into_array(chunk.rows())?;
                            evaluated[*number].insert(value)
                        }
                    };
                    arguments.push(ArrayRef::clone(array));
                }
                accumulator.update(&arguments, assigned)?;
            }
        }
        Ok(())
    }

    /// The words of the keys that are values, row by row.
    fn value_keys(&mut self, chunk: &BlockColumns<'_>) -> Result<Vec<ValueKey>> {
        let mut keys = Vec::new();
        for (position, key) in self.asked.keys.iter().enumerate() {
            if let Key::Value(expr) = key {
                let array = match expr.evaluate_coded(chunk, self.asked.constants)? {
                    Some(coded) => coded,
                    None => expr.evaluate(chunk, self.asked.constants)?.into_array(chunk.kept)?,
                };
                let (texts, numbered) = (&mut self.texts[position], &mut self.numbered[position]);
                keys.push(ValueKey::new(position, &array, texts, numbered)?);
            }
        }
        Ok(keys)
    }

    /// Finds the group of each row of a span. `places` has a small number for the values of each row, and how many there are.
    fn cut_by_values(
        &mut self,
        rows: Range<usize>,
        times: Option<&[i64]>,
        values: &[ValueKey],
        places: Option<&(Vec<u32>, usize)>,
    ) -> Result<()> {
        self.rows.resize(rows.start, NO_GROUP);
        let mut local: Vec<u32> = Vec::new();
        let mut start = rows.start;
        while start < rows.end {
            let mut end = rows.end;
            if let (Some((key, buckets)), Some(times)) = (self.bucket, times) {
                let (bucket, bucket_end) = bucket_of(buckets, times[start])?;
                self.words[key] = bucket.cast_unsigned();
                end = gallop(times, start + 1..rows.end, bucket_end);
            }
            // With few choices the groups of this stretch are looked up in a small table, each found by hash but once.
            match places.filter(|(_, choices)| *choices <= (end - start).max(64)) {
                Some((places, choices)) => {
                    local.clear();
                    local.resize(*choices, NO_GROUP);
                    for (row, place) in (start..end).zip(&places[start..end]) {
                        let mut group = local[*place as usize];
                        if group == NO_GROUP {
                            group = self.find_row(values, row);
                            local[*place as usize] = group;
                        }
                        self.rows.push(group);
                    }
                }
                None => {
                    for row in start..end {
                        let group = self.find_row(values, row);
                        self.rows.push(group);
                    }
                }
            }
            start = end;
        }
        Ok(())
    }

    fn find_row(&mut self, values: &[ValueKey], row: usize) -> u32 {
        let nulls = self.asked.keys.len();
        for value in values {
            let word = value.word(row);
            self.words[value.key] = word.unwrap_or(0);
            self.words[nulls] &= !(1 << value.key);
            self.words[nulls] |= u64::from(word.is_none()) << value.key;
        }
        self.groups.find(&self.words)
    }
}
