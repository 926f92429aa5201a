//! Aggregates over the frames of rows that stand in order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{Float64Type, Int64Type};

use super::{FrameFunction, FrameRows};
use crate::error::{Error, Result};

/// Rows whose frames are worked on together.
const FRAME_CHUNK_ROWS: usize = 4096;

/// The values for the rows of partitions, which follow each other from the first row on.
pub(super) fn framed(
    function: FrameFunction,
    frame: FrameRows,
    argument: Option<&ArrayRef>,
    partitions: &[Range<usize>],
) -> Result<ArrayRef> {
    let rows = partitions.last().map_or(0, |last| last.end);
    if function == FrameFunction::Count {
        let valid = argument.and_then(|array| array.logical_nulls());
        let counts = over_frames(frame, partitions, 0i64, |count, row| {
            count + i64::from(valid.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
        });
        return Ok(Arc::new(Int64Array::from(counts)));
    }
    let Some(argument) = argument else { return Err(Error::Unsupported(format!("{function:?} of nothing"))) };
    if let Some(values) = argument.as_primitive_opt::<Float64Type>()
        && values.null_count() == 0
    {
        let mut results = Vec::with_capacity(rows);
        for partition in partitions {
            floats(function, frame, &values.values()[partition.clone()], &mut results);
        }
        return Ok(Arc::new(Float64Array::from(results)));
    }
    if let Some(values) = argument.as_primitive_opt::<Float64Type>() {
        let start = (0.0f64, 0u64);
        let pick = |state: (f64, u64), value: f64| match function {
            FrameFunction::Min if state.1 == 0 || value.total_cmp(&state.0).is_lt() => value,
            FrameFunction::Max if state.1 == 0 || value.total_cmp(&state.0).is_gt() => value,
            FrameFunction::Min | FrameFunction::Max => state.0,
            _ => state.0 + value,
        };
        let states = over_frames(frame, partitions, start, |state, row| {
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
    let pick = |known: i64, value: i64| match function {
        FrameFunction::Min => known.min(value),
        FrameFunction::Max => known.max(value),
        _ => known.wrapping_add(value),
    };
    if values.null_count() == 0 && function == FrameFunction::Sum {
        let sums = over_frames(frame, partitions, 0, |sum: i64, row| sum.wrapping_add(values.value(row)));
        return Ok(Arc::new(Int64Array::from(sums)));
    }
    let states = over_frames(frame, partitions, None, |state: Option<i64>, row| {
        if values.is_null(row) {
            return state;
        }
        Some(state.map_or(values.value(row), |known| pick(known, values.value(row))))
    });
    Ok(Arc::new(states.into_iter().collect::<Int64Array>()))
}

/// Adds the values for the rows of one partition, whose floats are no nulls.
fn floats(function: FrameFunction, frame: FrameRows, values: &[f64], results: &mut Vec<f64>) {
    let Some((first, rest)) = values.split_first() else { return };
    let pick: fn(f64, f64) -> f64 = match function {
        FrameFunction::Min => |one, other| if other.total_cmp(&one).is_lt() { other } else { one },
        FrameFunction::Max => |one, other| if other.total_cmp(&one).is_gt() { other } else { one },
        _ => |one, other| one + other,
    };
    let begin = results.len();
    match frame {
        FrameRows::Whole => {
            let whole = rest.iter().fold(*first, |state, value| pick(state, *value));
            results.resize(begin + values.len(), whole);
        }
        FrameRows::Running => {
            let mut state = *first;
            results.push(state);
            results.extend(rest.iter().map(|value| {
                state = pick(state, *value);
                state
            }));
        }
        FrameRows::Last(before) => {
            // One pass for each place in the frame, over rows that stay in cache: neighbours are independent of each other, so
            // they are added at once.
            results.extend_from_slice(values);
            let states = &mut results[begin..];
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
        }
    }
    if function == FrameFunction::Average {
        // From some row on all frames have as many rows.
        let (growing, full) = match frame {
            FrameRows::Whole => (0, values.len()),
            FrameRows::Running => (values.len(), values.len()),
            FrameRows::Last(before) => (before.min(values.len()), before.saturating_add(1)),
        };
        let (grow, same) = results[begin..].split_at_mut(growing);
        grow.iter_mut().enumerate().for_each(|(row, result)| *result /= (row + 1) as f64);
        same.iter_mut().for_each(|result| *result /= full as f64);
    }
}

/// Folds the rows of each row's frame.
fn over_frames<S: Copy>(
    frame: FrameRows,
    partitions: &[Range<usize>],
    start: S,
    mut fold: impl FnMut(S, usize) -> S,
) -> Vec<S> {
    let mut results = Vec::with_capacity(partitions.last().map_or(0, |last| last.end));
    for partition in partitions {
        match frame {
            FrameRows::Whole => {
                let all = partition.clone().fold(start, &mut fold);
                results.resize(results.len() + partition.len(), all);
            }
            FrameRows::Running => {
                let mut state = start;
                results.extend(partition.clone().map(|row| {
                    state = fold(state, row);
                    state
                }));
            }
            // The nearest first, as floats without nulls are added: frames with and without them give the same sums.
            FrameRows::Last(before) => results.extend(partition.clone().map(|row| {
                let first = row.saturating_sub(before).max(partition.start);
                (first..=row).rev().fold(start, &mut fold)
            })),
        }
    }
    results
}
