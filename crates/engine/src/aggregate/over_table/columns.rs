//! Columns of a block of rows, without the rows that a filter removes.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use splay_store::TableSnapshot;

use crate::aggregate::Aggregate;
use crate::aggregate::accumulate::{GroupRun, RowGroups};
use crate::error::Result;
use crate::expr::InputColumns;
use crate::expr::codes::{BlockConditions, TextResults};
use crate::filter_mask::FilterMask;
use crate::gather::position;
use crate::table::{CoverColumns, RowBlock, date_position};
use crate::value::Value;

/// The rows that an aggregate's filter keeps, with their groups; `None` without a filter.
pub(super) fn filtered<'a>(
    aggregate: &'a Aggregate,
    chunk: &dyn InputColumns,
    assigned: RowGroups<'_>,
    constants: &[ArrayRef],
    conditions: &mut BlockConditions<'a>,
) -> Result<Option<Vec<(u32, u32)>>> {
    let Some(filter) = &aggregate.filter else { return Ok(None) };
    let mask = conditions.hold(filter, chunk, constants)?;
    Ok(Some(assigned.of(mask.values().set_indices())))
}

/// The first row of each run that an aggregate's filter keeps, or the last, with its group; `None` without a filter.
pub(super) fn ends_of_runs<'a>(
    aggregate: &'a Aggregate,
    chunk: &dyn InputColumns,
    runs: &[GroupRun],
    last: bool,
    constants: &[ArrayRef],
    conditions: &mut BlockConditions<'a>,
) -> Result<Option<Vec<(u32, u32)>>> {
    let Some(filter) = &aggregate.filter else { return Ok(None) };
    let mask = conditions.hold(filter, chunk, constants)?;
    let passes = |row: &usize| mask.value(*row);
    let end = |run: &GroupRun| {
        let mut rows = run.start..run.end;
        let row = if last { rows.rfind(passes) } else { rows.find(passes) };
        Some((u32::try_from(row?).ok()?, run.group))
    };
    Ok(Some(runs.iter().filter_map(end).collect()))
}

/// Columns of a block, of the rows that a mask keeps.
pub(super) struct BlockColumns<'a> {
    pub columns: &'a CoverColumns<'a>,
    /// Rows of the segment, from the first wanted one to the last.
    rows: Range<usize>,
    /// The wanted rows, counted from the first of the cover; `None` if all of `rows` are.
    picked: Option<UInt32Array>,
    /// Which of the wanted ones are kept; `None` if all are.
    pub filter: Option<FilterMask>,
}

impl<'a> BlockColumns<'a> {
    pub fn new(columns: &'a CoverColumns<'a>, block: &RowBlock) -> BlockColumns<'a> {
        let picked = block.picked(columns.cover().rows.start);
        BlockColumns { columns, rows: block.rows.clone(), picked, filter: None }
    }

    /// The columns of consecutive rows.
    pub fn of_rows(columns: &'a CoverColumns<'a>, rows: Range<usize>) -> BlockColumns<'a> {
        BlockColumns { columns, rows, picked: None, filter: None }
    }

    /// The wanted rows, whether they are kept or not.
    pub fn selected_rows(&self) -> usize {
        self.picked.as_ref().map_or(self.rows.len(), UInt32Array::len)
    }

    /// The position of the first wanted row, given the number of the cover.
    pub fn first_position(&self, number: u32) -> u64 {
        position(number, self.rows.start - self.columns.cover().rows.start)
    }

    /// The position of each row that passes the filter, given the number of the cover; `None` if they follow each other.
    pub fn positions(&self, number: u32) -> Option<Vec<u64>> {
        let first = self.first_position(number);
        let of_selected = |row: usize| match &self.picked {
            Some(picked) => position(number, picked.value(row) as usize),
            None => first + row as u64,
        };
        match &self.filter {
            Some(filter) => Some(filter.mask().values().set_indices().map(of_selected).collect()),
            None => self.picked.as_ref().map(|picked| (0..picked.len()).map(of_selected).collect()),
        }
    }

    /// How many of some of the selected rows pass the filter.
    pub fn filtered_of(&self, rows: Range<usize>) -> usize {
        match &self.filter {
            None => rows.len(),
            Some(filter) => filter.mask().values().slice(rows.start, rows.len()).count_set_bits(),
        }
    }
}

impl InputColumns for BlockColumns<'_> {
    fn rows(&self) -> usize {
        self.filter.as_ref().map_or_else(|| self.selected_rows(), FilterMask::rows)
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == self.columns.date_position() {
            return Ok(Value::Scalar(self.columns.date()));
        }
        let column = self.columns.column(position)?;
        let column = match &self.picked {
            Some(picked) => take(column, picked, None)?,
            None => column.slice(self.rows.start - self.columns.cover().rows.start, self.rows.len()),
        };
        Ok(Value::Array(match &self.filter {
            None => column,
            Some(filter) => filter.filter(&column)?,
        }))
    }

    fn may_be_coded(&self, position: usize) -> bool {
        self.columns.may_be_coded(position)
    }

    fn text_results(&self) -> Option<&TextResults> {
        Some(self.columns.text_results())
    }
}

/// Columns of no rows, to learn types.
pub(super) struct EmptyColumns<'a> {
    pub snapshot: &'a TableSnapshot,
}

impl InputColumns for EmptyColumns<'_> {
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
