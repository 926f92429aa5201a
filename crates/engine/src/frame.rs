//! Frames: rows in memory after a table has been read, and their filters, sorts and slices. Columns that no step
//! reads stay in place (`late.rs`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, take};
use arrow::datatypes::DataType;
use splay_store::in_form;

use crate::dictionaries::concat_arrays;
use crate::error::Result;
use crate::expr::codes::condition;
use crate::expr::{Expr, InputColumns};
use crate::filter_mask::FilterMask;
use crate::late::{Choices, FrameColumn, JoinedChoices, is_of_any_length};
use crate::order::{order, order_by};
use crate::parallel::{each, threads_for};
use crate::stop::Stop;
use crate::value::Value;

/// Rows that are evaluated at once.
pub(crate) const BLOCK_ROWS_MAX: usize = 65_536;

/// Rows in memory.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    columns: Vec<FrameColumn>,
    rows: usize,
}

/// A sort key.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// The value.
    pub expr: Expr,
    /// Greatest first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
}

/// Spare bytes of a column that are kept: fewer aren't worth a copy.
const SPARE_BYTES_MAX: usize = 64 << 10;

/// Gives back the room that a function reserved for texts or lists and didn't need, where that is more than they take: kernels grow their buffers
/// by doubling, those of nested lists on each level.
fn release_spare_room(values: &mut ArrayRef) {
    if !is_of_any_length(values.data_type()) {
        return;
    }
    let held = values.get_array_memory_size();
    if held > SPARE_BYTES_MAX && values.to_data().get_slice_memory_size().is_ok_and(|used| used < held / 2) {
        values.shrink_to_fit();
    }
}

impl Frame {
    pub fn new(columns: Vec<ArrayRef>, rows: usize) -> Frame {
        Frame::of(columns.into_iter().map(FrameColumn::Array).collect(), rows)
    }

    /// A frame of columns, which may be late.
    pub fn of(columns: Vec<FrameColumn>, rows: usize) -> Frame {
        Frame { columns, rows }
    }

    /// Concatenates frames with the same columns.
    pub fn concat(frames: Vec<Frame>, types: &[DataType]) -> Result<Frame> {
        Frame::concat_by(frames, types, 1)
    }

    /// Like [`Frame::concat`], with the columns distributed to threads.
    pub fn concat_by(mut frames: Vec<Frame>, types: &[DataType], threads: usize) -> Result<Frame> {
        if frames.len() == 1 {
            return Ok(frames.swap_remove(0));
        }
        let rows = frames.iter().map(|frame| frame.rows).sum();
        let threads = threads_for(rows, 0, threads);
        let mut choices = JoinedChoices::default();
        let mut later = |position: usize| {
            let columns: Vec<&FrameColumn> = frames.iter().map(|frame| &frame.columns[position]).collect();
            if columns.is_empty() { None } else { choices.concat(&columns) }
        };
        let later: Vec<Option<FrameColumn>> = (0..types.len()).map(&mut later).collect();
        let column = |position: usize| match &later[position] {
            Some(late) => Ok(late.clone()),
            None => concat_arrays(parts_of(&frames, position)?, &types[position]).map(FrameColumn::Array),
        };
        Ok(Frame { columns: each(types.len(), threads, column)?, rows })
    }

    /// Sorts the rows of several frames, stably. The sort reads only the keys; threads then gather the other columns,
    /// one each.
    pub(crate) fn sorted(
        frames: Vec<Frame>,
        keys: &[SortKey],
        constants: &[ArrayRef],
        threads: usize,
        stop: Stop<'_>,
    ) -> Result<Frame> {
        let types: Vec<DataType> = frames.first().map(|frame| frame.types().cloned().collect()).unwrap_or_default();
        let rows = frames.iter().map(Frame::len).sum();
        let threads = threads_for(rows, 0, threads);
        let of_keys = each(keys.len(), threads, |key| match &keys[key].expr {
            Expr::Column(column) => concat_arrays(parts_of(&frames, *column)?, &types[*column]),
            expr => {
                let parts = frames.iter().map(|frame| expr.evaluate(frame, constants)?.into_array(frame.rows));
                let parts = parts.collect::<Result<Vec<_>>>()?;
                let data_type = parts.first().map_or(DataType::Null, |part| part.data_type().clone());
                concat_arrays(parts, &data_type)
            }
        })?;
        let columns =
            keys.iter().zip(&of_keys).map(|(key, values)| sort_column(key, Arc::clone(values))).collect::<Vec<_>>();
        let Some(indices) = order_by(&columns, None, threads, stop)?.map(UInt32Array::from) else {
            return Frame::concat_by(frames, &types, threads);
        };
        let columns = each(types.len(), threads, |position| {
            stop.check()?;
            let is_it = |key: &SortKey| matches!(key.expr, Expr::Column(column) if column == position);
            let column = match keys.iter().position(is_it) {
                Some(key) => Arc::clone(&of_keys[key]),
                None => concat_arrays(parts_of(&frames, position)?, &types[position])?,
            };
            Ok(FrameColumn::Array(take(&column, &indices, None)?))
        })?;
        Ok(Frame { columns, rows })
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn into_columns(self) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(FrameColumn::values).collect()
    }

    pub fn columns(&self) -> &[FrameColumn] {
        &self.columns
    }

    pub fn types(&self) -> impl Iterator<Item = &DataType> {
        self.columns.iter().map(FrameColumn::data_type)
    }

    pub fn push(&mut self, column: ArrayRef) {
        self.columns.push(FrameColumn::Array(column));
    }

    pub fn filter(&self, predicate: &Expr, constants: &[ArrayRef]) -> Result<Frame> {
        let mask = condition(predicate, self, constants)?;
        self.filter_mask(FilterMask::new(mask))
    }

    /// The rows that a mask keeps.
    pub fn filter_mask(&self, mask: FilterMask) -> Result<Frame> {
        if mask.rows() == self.rows {
            return Ok(self.clone());
        }
        let (mask, mut choices) = (Arc::new(mask), Choices::default());
        let columns = self.columns.iter().map(|column| choices.filter(column, &mask)).collect::<Result<Vec<_>>>()?;
        Ok(Frame { columns, rows: mask.rows() })
    }

    pub fn project(&self, outputs: &[Expr], constants: &[ArrayRef]) -> Result<Frame> {
        let columns = outputs.iter().map(|output| match output {
            Expr::Column(position) => Ok(self.columns[*position].clone()),
            computed => {
                let mut values = computed.evaluate(self, constants)?.into_array(self.rows)?;
                release_spare_room(&mut values);
                Ok(FrameColumn::Array(values))
            }
        });
        Ok(Frame { columns: columns.collect::<Result<Vec<_>>>()?, rows: self.rows })
    }

    pub fn slice(&self, start: usize, rows: usize) -> Frame {
        let start = start.min(self.rows);
        let rows = rows.min(self.rows - start);
        let mut choices = Choices::default();
        Frame { columns: self.columns.iter().map(|column| choices.slice(column, start, rows)).collect(), rows }
    }

    pub fn take(&self, indices: &UInt32Array) -> Result<Frame> {
        let mut choices = Choices::default();
        let columns = self.columns.iter().map(|column| choices.take(column, indices)).collect::<Result<Vec<_>>>()?;
        Ok(Frame { columns, rows: indices.len() })
    }

    /// The rows in sorted order, stable; with `fetch` only the first of them.
    pub fn sort(&self, keys: &[SortKey], fetch: Option<usize>, constants: &[ArrayRef]) -> Result<Frame> {
        match sorted_indices(self, keys, fetch, constants)? {
            None => Ok(self.slice(0, fetch.unwrap_or(self.rows))),
            Some(indices) => self.take(&indices),
        }
    }
}

fn parts_of(frames: &[Frame], column: usize) -> Result<Vec<ArrayRef>> {
    frames.iter().map(|frame| frame.columns[column].values()).collect()
}

/// The row numbers in sorted order, or `None` if the rows are sorted already.
pub(crate) fn sorted_indices(
    frame: &Frame,
    keys: &[SortKey],
    fetch: Option<usize>,
    constants: &[ArrayRef],
) -> Result<Option<UInt32Array>> {
    Ok(order(&sort_columns(frame, keys, constants)?, fetch)?.map(UInt32Array::from))
}

/// The values that rows are sorted by.
pub(crate) fn sort_columns(frame: &Frame, keys: &[SortKey], constants: &[ArrayRef]) -> Result<Vec<SortColumn>> {
    let columns = keys.iter().map(|key| {
        let values = key.expr.evaluate(frame, constants)?.into_array(frame.len())?;
        Ok(sort_column(key, values))
    });
    columns.collect()
}

fn sort_column(key: &SortKey, values: ArrayRef) -> SortColumn {
    let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
    SortColumn { values: in_form(values), options: Some(options) }
}

impl InputColumns for Frame {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, position: usize) -> Result<Value> {
        self.columns[position].values().map(Value::Array)
    }
}

/// The rows of some frames in pieces of at most so many; a frame without rows is one.
pub(crate) fn in_pieces(frames: &[Frame], rows: usize) -> Vec<Frame> {
    let pieces = |frame: &Frame| {
        let starts = (0..frame.len().max(1)).step_by(rows.max(1));
        starts.map(|start| frame.slice(start, rows)).collect::<Vec<_>>()
    };
    frames.iter().flat_map(pieces).collect()
}
