//! Window functions: a value for each row from the rows around it.
//!
//! - Rows mostly stand in the order of the windows. Then each frame is worked on by itself, and nothing is sorted, copied or put
//!   together (`in_order.rs`).
//! - Otherwise they are brought into the order of the partition keys and the order keys, each partition is worked on as slices,
//!   and the results go back to where the rows stood.
//! - Where few rows of each partition are wanted, the others are left out before (`first.rs`).

mod first;
mod framed;
mod in_order;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{partition, take};
use arrow::datatypes::DataType;

use self::first::{first_rows, wants_few};
use self::framed::framed;
use self::in_order::in_order;
use crate::aggregate::{Aggregate, AggregateFunction, at_each_row};
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Expr};
use crate::frame::{Frame, SortKey, joined, sorted_indices};
use crate::run::{Setting, check_memory, over_frames, whole};

/// Widest frame whose rows are gone through for every row. Wider ones would need sums that are added to and taken from,
/// which drift and which a NaN spoils for good.
pub const FRAME_ROWS_MAX: usize = 64;

/// A function over a window.
#[derive(Debug, Clone)]
pub struct WindowCall {
    /// What is computed.
    pub function: WindowFunction,
    /// Of what.
    pub arguments: Vec<Expr>,
    /// Rows that are equal in all of these are looked at together.
    pub partition_by: Vec<Expr>,
    /// Their order.
    pub order_by: Vec<SortKey>,
    /// Type of the result.
    pub data_type: DataType,
    /// Of row numbers: how they must compare with a constant. Rows whose number doesn't may be left out.
    pub first: Option<(BinaryOp, usize)>,
}

impl WindowCall {
    /// Whether its results are the numbers of the rows in their partition.
    #[must_use]
    pub fn numbers_rows(&self) -> bool {
        matches!(&self.function, WindowFunction::Partition(function) if function.numbers_rows())
    }
}

/// What is computed of a window.
#[derive(Debug, Clone)]
pub enum WindowFunction {
    /// Anything that looks at a whole partition.
    Partition(Arc<dyn PartitionFunction>),
    /// An aggregate over the rows of a frame.
    Frame(FrameFunction, FrameRows),
}

/// A window function from outside the engine.
pub trait PartitionFunction: Debug + Send + Sync {
    /// The values for the rows of one partition, which are in order.
    ///
    /// # Errors
    /// [`Error::Function`] with the function's own words.
    fn call(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef>;

    /// Whether the values are the numbers of the rows, from 1.
    fn numbers_rows(&self) -> bool {
        false
    }
}

/// Aggregates over frames, of floats or (sums, extremes) of 64-bit integers. Nulls are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFunction {
    /// Number of values, or of rows without an argument.
    Count,
    /// Sum.
    Sum,
    /// Mean.
    Average,
    /// Least.
    Min,
    /// Greatest.
    Max,
}

impl FrameFunction {
    fn over_groups(self, has_argument: bool) -> AggregateFunction {
        match self {
            FrameFunction::Count if has_argument => AggregateFunction::Count,
            FrameFunction::Count => AggregateFunction::CountRows,
            FrameFunction::Sum => AggregateFunction::Sum,
            FrameFunction::Average => AggregateFunction::Average,
            FrameFunction::Min => AggregateFunction::Min,
            FrameFunction::Max => AggregateFunction::Max,
        }
    }
}

/// Which rows a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameRows {
    /// All of the partition.
    Whole,
    /// From the first of the partition to the row itself.
    Running,
    /// The row itself and as many before it.
    Last(usize),
}

/// The frames with a column more for each call. Rows that only few are wanted of may be left out.
pub(crate) fn windows(mut frames: Vec<Frame>, calls: &[WindowCall], setting: &Setting<'_>) -> Result<Vec<Frame>> {
    if wants_few(calls, setting.constants) {
        let taken = AtomicUsize::new(0);
        frames = over_frames(frames, setting, |frame| match first_rows(&frame, calls, setting.constants)? {
            Some(rows) => {
                // Relaxed: nothing but the sum matters.
                let all = taken.fetch_add(rows.len(), Ordering::Relaxed).saturating_add(rows.len());
                check_memory(all, frame.columns().iter().map(|column| column.data_type()), setting.memory_bytes / 2)?;
                frame.take(&rows)
            }
            None => Ok(frame),
        })?;
    } else if let Some(results) = in_order(&frames, calls, setting)? {
        return Ok(with_columns(frames, results));
    } else if calls.iter().all(|call| matches!(call.function, WindowFunction::Frame(_, FrameRows::Whole))) {
        let results = calls.iter().map(|call| {
            setting.stop.check()?;
            at_each_row(&frames, &call.partition_by, &over_partition(call)?, setting.constants)
        });
        let results = results.collect::<Result<Vec<_>>>()?;
        return Ok(with_columns(frames, results));
    }
    let mut frame = whole(frames, setting)?;
    if let Some(rows) = first_rows(&frame, calls, setting.constants)? {
        frame = frame.take(&rows)?;
    }
    let results = calls.iter().map(|call| window(&frame, call, setting)).collect::<Result<Vec<_>>>()?;
    results.into_iter().for_each(|result| frame.push(result));
    Ok(vec![frame])
}

/// The frames with further columns, by column and frame.
fn with_columns(mut frames: Vec<Frame>, columns: Vec<Vec<ArrayRef>>) -> Vec<Frame> {
    for column in columns {
        frames.iter_mut().zip(column).for_each(|(frame, column)| frame.push(column));
    }
    frames
}

/// The aggregate that a call computes of each partition, where it looks at all of its rows.
fn over_partition(call: &WindowCall) -> Result<Aggregate> {
    let WindowFunction::Frame(function, FrameRows::Whole) = call.function else {
        return Err(Error::Unsupported("a window that depends on an order".to_owned()));
    };
    Ok(Aggregate {
        function: function.over_groups(!call.arguments.is_empty()),
        arguments: call.arguments.clone(),
        filter: None,
        data_type: call.data_type.clone(),
    })
}

fn window(frame: &Frame, call: &WindowCall, setting: &Setting<'_>) -> Result<ArrayRef> {
    let constants = setting.constants;
    let by_partition =
        call.partition_by.iter().map(|expr| SortKey { expr: expr.clone(), descending: false, nulls_first: true });
    let keys: Vec<SortKey> = by_partition.chain(call.order_by.iter().cloned()).collect();
    let order = sorted_indices(frame, &keys, None, constants)?;
    let sorted;
    let rows = match &order {
        None => frame,
        Some(order) => {
            sorted = frame.take(order)?;
            &sorted
        }
    };
    let mut arguments = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        arguments.push(argument.evaluate(rows, constants)?.into_array(rows.len())?);
    }
    let mut parts = Vec::new();
    for range in partitions(rows, &call.partition_by, constants)? {
        setting.stop.check()?;
        let arguments: Vec<ArrayRef> = arguments.iter().map(|array| array.slice(range.start, range.len())).collect();
        parts.push(match &call.function {
            WindowFunction::Partition(function) => function.call(&arguments, range.len())?,
            WindowFunction::Frame(function, frame) => framed(*function, *frame, arguments.first(), &[0..range.len()])?,
        });
    }
    let result = joined(parts, &call.data_type)?;
    Ok(match order {
        None => result,
        Some(order) => take(&result, &inverse(&order), None)?,
    })
}

/// Stretches of rows with equal keys.
fn partitions(rows: &Frame, keys: &[Expr], constants: &[ArrayRef]) -> Result<Vec<Range<usize>>> {
    if rows.len() == 0 {
        return Ok(Vec::new());
    }
    if keys.is_empty() {
        return Ok(std::iter::once(0..rows.len()).collect());
    }
    let columns = keys.iter().map(|key| key.evaluate(rows, constants)?.into_array(rows.len()));
    Ok(partition(&columns.collect::<Result<Vec<_>>>()?)?.ranges())
}

/// For each row where it went.
fn inverse(order: &UInt32Array) -> UInt32Array {
    let mut places = vec![0; order.len()];
    for (place, row) in order.values().iter().enumerate() {
        places[*row as usize] = u32::try_from(place).unwrap_or(u32::MAX);
    }
    places.into()
}
