//! Window functions: a value for each row from the rows around it.
//!
//! Rows are brought into the order of the partition keys and the order keys (they mostly stand in it), each partition is
//! worked on as slices, and the results go back to where the rows stood.

use std::collections::BinaryHeap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt32Array};
use arrow::compute::{cast, partition, take};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::aggregate::{Aggregate, AggregateFunction, at_each_row, group_rows};
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Expr};
use crate::frame::{Frame, SortKey, joined, sort_columns, sorted_indices};
use crate::order::leading_keys;
use crate::run::Setting;

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

/// Rows whose frames are worked on together.
const FRAME_CHUNK_ROWS: usize = 4096;

/// Most rows of each partition that are picked instead of sorting all.
const FIRST_ROWS_MAX: i64 = 64;

impl WindowCall {
    /// Whether its results are the numbers of the rows in their partition.
    #[must_use]
    pub fn numbers_rows(&self) -> bool {
        matches!(&self.function, WindowFunction::Partition(function) if function.numbers_rows())
    }

    /// How many rows of each partition are wanted, where that is known and few.
    fn first_rows(&self, constants: &[ArrayRef]) -> Option<usize> {
        let (op, constant) = self.first?;
        let data_type = constants[constant].data_type();
        if !data_type.is_integer() && !matches!(data_type, DataType::Decimal128(_, 0)) {
            return None;
        }
        let value = cast(&constants[constant], &DataType::Int64).ok()?;
        let value = value.as_primitive::<Int64Type>().iter().next().flatten()?;
        let rows = match op {
            BinaryOp::Equal | BinaryOp::LessOrEqual => value,
            BinaryOp::Less => value.checked_sub(1)?,
            _ => return None,
        };
        usize::try_from(rows).ok().filter(|_| (1..=FIRST_ROWS_MAX).contains(&rows))
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

/// Whether no call depends on an order of rows.
pub(crate) fn over_partitions(calls: &[WindowCall]) -> bool {
    calls.iter().all(|call| matches!(call.function, WindowFunction::Frame(_, FrameRows::Whole)))
}

/// The frames with a column more for each call, none of which depends on an order.
pub(crate) fn windows_of_partitions(
    mut frames: Vec<Frame>,
    calls: &[WindowCall],
    setting: &Setting<'_>,
) -> Result<Vec<Frame>> {
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        setting.stop.check()?;
        let WindowFunction::Frame(function, _) = call.function else {
            return Err(Error::Unsupported("a window that depends on an order".to_owned()));
        };
        let aggregate = Aggregate {
            function: function.over_groups(!call.arguments.is_empty()),
            arguments: call.arguments.clone(),
            filter: None,
            data_type: call.data_type.clone(),
        };
        results.push(at_each_row(&frames, &call.partition_by, &aggregate, setting.constants)?);
    }
    for result in results {
        frames.iter_mut().zip(result).for_each(|(frame, column)| frame.push(column));
    }
    Ok(frames)
}

/// The frame with a column more for each call.
pub(crate) fn windows(mut frame: Frame, calls: &[WindowCall], setting: &Setting<'_>) -> Result<Frame> {
    let width = frame.columns().len();
    let mut results = Vec::with_capacity(calls.len());
    frame = first_rows(frame, calls, setting.constants)?;
    let input = frame.clone();
    for call in calls {
        results.push(window(&input, call, setting)?);
    }
    debug_assert_eq!(width, frame.columns().len());
    results.into_iter().for_each(|result| frame.push(result));
    Ok(frame)
}

/// Whether a few rows of each partition are all that is wanted.
pub(crate) fn wants_few(calls: &[WindowCall], constants: &[ArrayRef]) -> bool {
    matches!(calls, [call] if call.first_rows(constants).is_some())
}

/// The frame without rows that can't be among the first of their partition, where those are all that is wanted.
pub(crate) fn first_rows(frame: Frame, calls: &[WindowCall], constants: &[ArrayRef]) -> Result<Frame> {
    if let [call] = calls
        && let Some(first) = call.first_rows(constants)
        && let Some(candidates) = candidates(&frame, call, first, constants)?
    {
        return frame.take(&candidates);
    }
    Ok(frame)
}

/// Rows among which those are that come first in their partition, with all that come before them; `None` if all may be.
fn candidates(frame: &Frame, call: &WindowCall, first: usize, constants: &[ArrayRef]) -> Result<Option<UInt32Array>> {
    let columns = sort_columns(frame, &call.order_by, constants)?;
    let Some(keys) = leading_keys(&columns) else { return Ok(None) };
    let (groups, count) = group_rows(frame, &call.partition_by, constants)?;
    // The greatest key that may still be among the first ones.
    let mut bounds = vec![u64::MAX; count];
    if first == 1 {
        groups.iter().zip(&keys).for_each(|(group, key)| bounds[*group as usize] = bounds[*group as usize].min(*key));
    } else {
        let mut least: Vec<BinaryHeap<u64>> = vec![BinaryHeap::new(); count];
        for (group, key) in groups.iter().zip(&keys) {
            let least = &mut least[*group as usize];
            if least.len() < first {
                least.push(*key);
            } else if let Some(mut greatest) = least.peek_mut()
                && *key < *greatest
            {
                *greatest = *key;
            }
        }
        for (bound, least) in bounds.iter_mut().zip(&least) {
            *bound = if least.len() < first { u64::MAX } else { least.peek().copied().unwrap_or(u64::MAX) };
        }
    }
    let rows = groups.iter().zip(&keys).zip(0..).filter(|((group, key), _)| **key <= bounds[**group as usize]);
    Ok(Some(rows.map(|(_, row)| row).collect::<Vec<u32>>().into()))
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
            WindowFunction::Frame(function, frame) => framed(*function, *frame, arguments.first(), range.len())?,
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

fn framed(function: FrameFunction, frame: FrameRows, argument: Option<&ArrayRef>, rows: usize) -> Result<ArrayRef> {
    if function == FrameFunction::Count {
        let valid = argument.and_then(|array| array.logical_nulls());
        let counts = over_frames(frame, rows, 0i64, |count, row| {
            count + i64::from(valid.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
        });
        return Ok(Arc::new(Int64Array::from(counts)));
    }
    let Some(argument) = argument else { return Err(Error::Unsupported(format!("{function:?} of nothing"))) };
    if let Some(values) = argument.as_primitive_opt::<Float64Type>()
        && values.null_count() == 0
        && rows > 0
    {
        return Ok(Arc::new(Float64Array::from(floats(function, frame, values.values()))));
    }
    if let Some(values) = argument.as_primitive_opt::<Float64Type>() {
        let start = (0.0f64, 0u64);
        let pick = |state: (f64, u64), value: f64| match function {
            FrameFunction::Min if state.1 == 0 || value.total_cmp(&state.0).is_lt() => value,
            FrameFunction::Max if state.1 == 0 || value.total_cmp(&state.0).is_gt() => value,
            FrameFunction::Min | FrameFunction::Max => state.0,
            _ => state.0 + value,
        };
        let states = over_frames(frame, rows, start, |state, row| {
            if values.is_null(row) { state } else { (pick(state, values.value(row)), state.1 + 1) }
        });
        let average = function == FrameFunction::Average;
        let result = states.into_iter().map(|(value, count)| match count {
            0 => None,
            _ if average => Some(value / count as f64),
            _ => Some(value),
        });
        return Ok(Arc::new(result.collect::<Float64Array>()));
    }
    let Some(values) = argument.as_primitive_opt::<Int64Type>().filter(|_| function != FrameFunction::Average) else {
        return Err(Error::Unsupported(format!("a window's {function:?} of {}", argument.data_type())));
    };
    let states = over_frames(frame, rows, None, |state: Option<i64>, row| {
        if values.is_null(row) {
            return state;
        }
        let value = values.value(row);
        Some(state.map_or(value, |known| match function {
            FrameFunction::Min => known.min(value),
            FrameFunction::Max => known.max(value),
            _ => known.wrapping_add(value),
        }))
    });
    Ok(Arc::new(states.into_iter().collect::<Int64Array>()))
}

/// A function over frames of floats of which none is null.
fn floats(function: FrameFunction, frame: FrameRows, values: &[f64]) -> Vec<f64> {
    let pick: fn(f64, f64) -> f64 = match function {
        FrameFunction::Min => |one, other| if other.total_cmp(&one).is_lt() { other } else { one },
        FrameFunction::Max => |one, other| if other.total_cmp(&one).is_gt() { other } else { one },
        _ => |one, other| one + other,
    };
    let mut results = match frame {
        FrameRows::Whole => {
            let whole = values[1..].iter().fold(values[0], |state, value| pick(state, *value));
            vec![whole; values.len()]
        }
        FrameRows::Running => {
            let mut state = values[0];
            let rest = values[1..].iter().map(|value| {
                state = pick(state, *value);
                state
            });
            std::iter::once(values[0]).chain(rest).collect()
        }
        FrameRows::Last(before) => {
            // One pass for each place in the frame, over rows that stay in cache: neighbours are independent of each other, so
            // they are added at once.
            let mut states = values.to_vec();
            for start in (0..values.len()).step_by(FRAME_CHUNK_ROWS) {
                let end = values.len().min(start + FRAME_CHUNK_ROWS);
                for back in 1..=before.min(end - 1) {
                    let first = start.max(back);
                    let pairs = states[first..end].iter_mut().zip(&values[first - back..end - back]);
                    match function {
                        FrameFunction::Min | FrameFunction::Max => {
                            pairs.for_each(|(state, value)| *state = pick(*state, *value));
                        }
                        _ => pairs.for_each(|(state, value)| *state += value),
                    }
                }
            }
            states
        }
    };
    if function == FrameFunction::Average {
        for (row, result) in results.iter_mut().enumerate() {
            let count = match frame {
                FrameRows::Whole => values.len(),
                FrameRows::Running => row + 1,
                FrameRows::Last(before) => row.min(before) + 1,
            };
            *result /= count as f64;
        }
    }
    results
}

/// Folds the rows of each row's frame.
fn over_frames<S: Copy>(frame: FrameRows, rows: usize, start: S, mut fold: impl FnMut(S, usize) -> S) -> Vec<S> {
    match frame {
        FrameRows::Whole => {
            let all = (0..rows).fold(start, &mut fold);
            vec![all; rows]
        }
        FrameRows::Running => (0..rows)
            .scan(start, |state, row| {
                *state = fold(*state, row);
                Some(*state)
            })
            .collect(),
        FrameRows::Last(before) => {
            (0..rows).map(|row| (row.saturating_sub(before)..=row).fold(start, &mut fold)).collect()
        }
    }
}
