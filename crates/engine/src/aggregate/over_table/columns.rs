//! Columns of blocks of rows: as they stand, in the order of their groups, without those that a filter leaves out.

use std::cell::RefCell;
use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::DataType;
use hashbrown::HashMap;
use splay_store::TableSnapshot;

use crate::aggregate::Aggregate;
use crate::aggregate::accumulate::{Assigned, NO_GROUP, Run};
use crate::error::Result;
use crate::expr::{Columns, Value, holds};
use crate::table::{CoverColumns, date_position};

/// Rows of a group, on average, from which on a block is put in the order of its groups.
const RUN_ROWS_MIN: usize = 16;

/// The rows of a block by group.
pub(super) struct Grouped {
    pub runs: Vec<Run>,
    /// The rows in the order of the runs; `None` if they stand so.
    pub order: Option<UInt32Array>,
}

impl Grouped {
    /// `None` if there are so many groups that runs would be short.
    pub fn new(rows: &[u32], groups: usize) -> Option<Grouped> {
        let changes = rows.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if changes * RUN_ROWS_MIN < rows.len() {
            let mut runs: Vec<Run> = Vec::with_capacity(changes + 1);
            for (row, group) in rows.iter().enumerate() {
                match runs.last_mut().filter(|run| run.group == *group) {
                    Some(run) => run.end = row + 1,
                    None => runs.push(Run { group: *group, start: row, end: row + 1 }),
                }
            }
            runs.retain(|run| run.group != NO_GROUP);
            return Some(Grouped { runs, order: None });
        }
        if groups * RUN_ROWS_MIN > rows.len() {
            return None;
        }
        let mut ends = vec![0u32; groups + 1];
        // Rows without a group come last, and are in no run.
        let place = |group: u32| (group as usize).min(groups);
        rows.iter().for_each(|group| ends[place(*group)] += 1);
        let mut runs = Vec::new();
        let mut start = 0;
        for (group, end) in (0u32..).zip(&mut ends) {
            let count = std::mem::replace(end, start);
            if count > 0 && (group as usize) < groups {
                runs.push(Run { group, start: start as usize, end: (start + count) as usize });
            }
            start += count;
        }
        let mut order = vec![0u32; rows.len()];
        for (row, group) in (0u32..).zip(rows) {
            let next = &mut ends[place(*group)];
            order[*next as usize] = row;
            *next += 1;
        }
        Some(Grouped { runs, order: Some(order.into()) })
    }
}

/// Columns of a block in another order.
pub(super) struct OrderedColumns<'a> {
    pub block: &'a BlockColumns<'a>,
    pub order: &'a UInt32Array,
    /// What was put in order before, for several aggregates ask for it.
    pub taken: RefCell<HashMap<usize, Value>>,
}

impl Columns for OrderedColumns<'_> {
    fn rows(&self) -> usize {
        self.order.len()
    }

    fn column(&self, position: usize) -> Result<Value> {
        if let Some(value) = self.taken.borrow().get(&position) {
            return Ok(value.clone());
        }
        let value = match self.block.column(position)? {
            Value::Array(array) => Value::Array(take(&array, self.order, None)?),
            scalar => scalar,
        };
        self.taken.borrow_mut().insert(position, value.clone());
        Ok(value)
    }
}

/// The groups of the rows that an aggregate's filter keeps; `None` without a filter.
pub(super) fn filtered(
    aggregate: &Aggregate,
    chunk: &dyn Columns,
    assigned: Assigned<'_>,
    constants: &[ArrayRef],
) -> Result<Option<Vec<u32>>> {
    let Some(filter) = &aggregate.filter else { return Ok(None) };
    let mask = filter.evaluate(chunk, constants)?.into_array(chunk.rows())?;
    Ok(Some(masked(assigned, &holds(&mask)?)))
}

/// The same groups without the rows that a mask leaves out.
fn masked(assigned: Assigned<'_>, mask: &BooleanArray) -> Vec<u32> {
    let mut groups = vec![NO_GROUP; mask.len()];
    let mut runs: &[Run] = &[];
    for row in mask.values().set_indices() {
        groups[row] = match assigned {
            Assigned::Rows(rows) => rows[row],
            Assigned::Runs(all) => {
                if runs.is_empty() {
                    runs = all;
                }
                while let [run, rest @ ..] = runs
                    && run.end <= row
                    && !rest.is_empty()
                {
                    runs = rest;
                }
                match runs {
                    [run, ..] if run.start <= row && row < run.end => run.group,
                    _ => NO_GROUP,
                }
            }
        };
    }
    groups
}

/// Columns of a block, of the rows that a mask keeps.
pub(super) struct BlockColumns<'a> {
    pub columns: &'a CoverColumns<'a>,
    /// Rows of the segment.
    pub rows: Range<usize>,
    pub mask: Option<BooleanArray>,
    pub kept: usize,
}

impl BlockColumns<'_> {
    /// How many of some rows of the block are kept.
    pub fn kept_of(&self, rows: Range<usize>) -> usize {
        match &self.mask {
            None => rows.len(),
            Some(mask) => mask.values().slice(rows.start, rows.len()).count_set_bits(),
        }
    }
}

impl Columns for BlockColumns<'_> {
    fn rows(&self) -> usize {
        self.kept
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == self.columns.date_position() {
            return Ok(Value::Scalar(self.columns.date()));
        }
        let start = self.rows.start - self.columns.cover().rows.start;
        let column = self.columns.column(position)?.slice(start, self.rows.len());
        Ok(Value::Array(match &self.mask {
            None => column,
            Some(mask) => filter(&column, mask)?,
        }))
    }
}

/// Columns of no rows, to learn types.
pub(super) struct EmptyColumns<'a> {
    pub snapshot: &'a TableSnapshot,
}

impl Columns for EmptyColumns<'_> {
    fn rows(&self) -> usize {
        0
    }

    fn column(&self, position: usize) -> Result<Value> {
        let data_type = if position == date_position(self.snapshot) {
            DataType::Date32
        } else {
            self.snapshot.spec().columns[position].column_type.arrow()
        };
        Ok(Value::Array(arrow::array::new_empty_array(&data_type)))
    }
}
