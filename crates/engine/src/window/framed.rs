//! Aggregates over the frames of ordered rows.
//!
//! Each takes a constant number of steps per row, whatever the frames are. Counts and exact sums are differences of
//! running sums. Results that round, and extremes, are folds over ranges of rows (`moving::fold_ranges`) from which
//! nothing is subtracted. Short frames of numbers without nulls are added position by position instead, many rows at
//! once.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt32Array, make_comparator};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{SortColumn, SortOptions, take};
use arrow::datatypes::{ArrowNativeType, DataType, Float64Type};

use super::FrameFunction;
use super::bounds::{FrameRanges, WindowFrame};
use crate::aggregate::{AggregateFunction, Exact, Mean, check_sums, magnitudes, weighted};
use crate::error::{Error, Result};
use crate::moments::{Moments, Pair};
use crate::moving::fold_ranges;
use crate::natives::{array_of, natives, with_native};
use crate::total_order::TotalOrder;

/// Most rows before a row whose frames are gone through place by place.
const PLACES_MAX: usize = 63;

/// Rows whose frames are worked on together.
const FRAME_CHUNK_ROWS: usize = 4096;

/// The values for the rows of partitions, which follow each other from the first row on. `order` are the order keys of all rows, for
/// frames that need them.
pub(super) fn framed(
    function: &FrameFunction,
    frame: &WindowFrame,
    arguments: &[ArrayRef],
    order: &[SortColumn],
    partitions: &[Range<usize>],
    data_type: &DataType,
) -> Result<ArrayRef> {
    let frames = PartitionFrames::of(frame, order, partitions)?;
    let function = match function {
        FrameFunction::Value { nth, ignore_nulls } => return nth_values(*nth, *ignore_nulls, arguments, &frames),
        FrameFunction::Aggregate(function) => function,
    };
    let refused = || Error::Unsupported(format!("{function:?} over frames"));
    let floats = |position: usize| arguments.get(position).and_then(|array| array.as_primitive_opt::<Float64Type>());
    Ok(match *function {
        AggregateFunction::CountRows => counts(None, &frames),
        AggregateFunction::Count => counts(arguments.first().and_then(|array| array.logical_nulls()), &frames),
        AggregateFunction::Sum | AggregateFunction::Average => {
            let argument = arguments.first().ok_or_else(refused)?;
            let average = *function == AggregateFunction::Average;
            match argument.data_type() {
                DataType::Float64 => float_sums(argument, average, frame, &frames)?,
                DataType::Int64 | DataType::Duration(_) => exact_sums::<i64>(argument, average, &frames, data_type)?,
                DataType::UInt64 => exact_sums::<u64>(argument, average, &frames, data_type)?,
                DataType::Decimal128(_, _) => exact_sums::<i128>(argument, average, &frames, data_type)?,
                _ => return Err(refused()),
            }
        }
        AggregateFunction::Min | AggregateFunction::Max => {
            let argument = arguments.first().ok_or_else(refused)?;
            let greatest = *function == AggregateFunction::Max;
            with_native!(argument.data_type(), N => extremes::<N>(argument, greatest, frame, &frames)?,
                _ => other_extremes(argument, greatest, &frames)?)
        }
        AggregateFunction::Variance { sample } => {
            spreads(floats(0).ok_or_else(refused)?, &frames, |moments| moments.spread(sample, false))
        }
        AggregateFunction::Deviation { sample } => {
            spreads(floats(0).ok_or_else(refused)?, &frames, |moments| moments.spread(sample, true))
        }
        AggregateFunction::Correlation | AggregateFunction::Covariance { .. } => {
            let (Some(left), Some(right)) = (floats(0), floats(1)) else { return Err(refused()) };
            let at = |row: usize| Pair::one(left.value(row), right.value(row));
            let join = |mut older: Pair, newer: Pair| {
                older.join(newer);
                older
            };
            pairs(left, right, &frames, Pair::default(), at, join, |pair| pair.relation(function))
        }
        AggregateFunction::WeightedAverage | AggregateFunction::WeightedSum => {
            let (Some(weights), Some(values)) = (floats(0), floats(1)) else { return Err(refused()) };
            let average = *function == AggregateFunction::WeightedAverage;
            let at = |row: usize| (weights.value(row) * values.value(row), weights.value(row), 1u64);
            let join =
                |one: (f64, f64, u64), other: (f64, f64, u64)| (one.0 + other.0, one.1 + other.1, one.2 + other.2);
            let result = |(product, weight, count): (f64, f64, u64)| weighted(product, weight, count, average);
            pairs(weights, values, &frames, (0.0, 0.0, 0), at, join, result)
        }
        _ => return Err(refused()),
    })
}

/// Partitions with the frames of their rows.
struct PartitionFrames {
    of_partitions: Vec<(Range<usize>, FrameRanges)>,
    rows: usize,
}

impl PartitionFrames {
    fn of(frame: &WindowFrame, order: &[SortColumn], partitions: &[Range<usize>]) -> Result<PartitionFrames> {
        let of_partition = |rows: &Range<usize>| {
            let slice = |key: &SortColumn| SortColumn {
                values: key.values.slice(rows.start, rows.len()),
                options: key.options,
            };
            let order: Vec<SortColumn> = order.iter().map(slice).collect();
            Ok((rows.clone(), FrameRanges::of(frame, &order, rows.len())?))
        };
        let of_partitions = partitions.iter().map(of_partition).collect::<Result<_>>()?;
        Ok(PartitionFrames { of_partitions, rows: partitions.last().map_or(0, |last| last.end) })
    }

    /// Calls `visit` with the first row of each row's frame and the row behind it.
    fn each(&self, mut visit: impl FnMut(usize, usize)) {
        for (rows, ranges) in &self.of_partitions {
            for row in 0..rows.len() {
                let (first, behind) = ranges.at(row);
                visit(rows.start + first, rows.start + behind);
            }
        }
    }

    /// Folds the rows of each row's frame.
    fn fold<S: Copy>(&self, nothing: S, at: impl Fn(usize) -> S, join: impl Fn(S, S) -> S, mut emit: impl FnMut(S)) {
        for (rows, ranges) in &self.of_partitions {
            fold_ranges(rows.len(), |row| ranges.at(row), nothing, |row| at(rows.start + row), &join, &mut emit);
        }
    }
}

/// For each row how many before it are valid, and so for the row behind the last.
fn valid_before(nulls: &NullBuffer) -> Vec<u32> {
    let mut valid = 0;
    let mut before = Vec::with_capacity(nulls.len() + 1);
    before.push(0);
    before.extend(nulls.iter().map(|is_valid| {
        valid += u32::from(is_valid);
        valid
    }));
    before
}

fn counts(nulls: Option<NullBuffer>, frames: &PartitionFrames) -> ArrayRef {
    let mut counts = Vec::with_capacity(frames.rows);
    match nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| valid_before(&nulls)) {
        None => frames.each(|first, behind| counts.push((behind - first) as i64)),
        Some(valid) => frames.each(|first, behind| counts.push(i64::from(valid[behind] - valid[first]))),
    }
    Arc::new(Int64Array::from(counts))
}

/// Sums of numbers whose sums wrap: those to the end of a frame without those to its start.
fn exact_sums<N: Exact>(
    argument: &ArrayRef,
    average: bool,
    frames: &PartitionFrames,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let mean = match (average, Mean::<N>::of(argument.data_type(), data_type)) {
        (true, None) => return Err(Error::Unsupported(format!("a mean of {}", argument.data_type()))),
        (true, mean) => mean,
        (false, _) => None,
    };
    let values = natives::<N>(argument);
    // What stands for nulls counts, too, which only makes the check stricter.
    if check_sums::<N>(magnitudes(&values), values.len() as u64).is_err() {
        return wide_sums::<N>(argument, mean, frames, data_type);
    }
    let valid = argument.nulls().filter(|nulls| nulls.null_count() > 0);
    let mut sum = N::ZERO;
    let mut before = Vec::with_capacity(values.len() + 1);
    before.push(sum);
    before.extend(values.iter().enumerate().map(|(row, value)| {
        if valid.is_none_or(|valid| valid.is_valid(row)) {
            sum = sum.add_wrapping(*value);
        }
        sum
    }));
    let valid = valid.map(valid_before);
    let mut sums = Vec::with_capacity(frames.rows);
    let mut present = Vec::with_capacity(frames.rows);
    let mut failed = None;
    frames.each(|first, behind| {
        let count = valid.as_ref().map_or(behind - first, |valid| (valid[behind] - valid[first]) as usize);
        let sum = before[behind].sub_wrapping(before[first]);
        present.push(count > 0);
        let result = mean.map_or(Ok(sum), |mean| mean.of_sum(sum, count as u64));
        sums.push(result.unwrap_or_else(|error| {
            failed = Some(error);
            N::ZERO
        }));
    });
    match failed {
        None => array_of(sums, some_nulls(present), data_type),
        Some(error) => Err(error),
    }
}

/// Like [`exact_sums`], for numbers whose sums may need more than 64 bits. Fails if the sum of a frame doesn't fit.
fn wide_sums<N: Exact>(
    argument: &ArrayRef,
    mean: Option<Mean<N>>,
    frames: &PartitionFrames,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let values = natives::<N>(argument);
    let valid = argument.nulls().filter(|nulls| nulls.null_count() > 0);
    let is_valid = |row: usize| valid.is_none_or(|valid| valid.is_valid(row));
    let mut before = vec![(0i128, 0i128)];
    before.extend(values.iter().enumerate().scan((0, 0), |(sum, count), (row, value)| {
        if is_valid(row) {
            (*sum, *count) = (*sum + value.wide(), *count + 1);
        }
        Some((*sum, *count))
    }));
    let (mut sums, mut present, mut fits) = (Vec::with_capacity(frames.rows), Vec::with_capacity(frames.rows), true);
    frames.each(|first, behind| {
        let (sum, count) = (before[behind].0 - before[first].0, before[behind].1 - before[first].1);
        // No mean of such numbers is multiplied: those of decimals are never that wide.
        let result = N::narrow(if mean.is_some() && count > 0 { sum / count } else { sum });
        fits &= result.is_some();
        sums.push(result.unwrap_or(N::ZERO));
        present.push(count > 0);
    });
    match fits {
        true => array_of(sums, some_nulls(present), data_type),
        false => Err(Error::Unsupported("a sum that needs more than 64 bits".to_owned())),
    }
}

fn some_nulls(present: Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(present)).filter(|nulls| nulls.null_count() > 0)
}

fn float_sums(argument: &ArrayRef, average: bool, frame: &WindowFrame, frames: &PartitionFrames) -> Result<ArrayRef> {
    let values = argument.as_primitive::<Float64Type>();
    if values.null_count() == 0
        && let Some(before) = frame.last_rows().filter(|before| *before <= PLACES_MAX)
    {
        let mut sums = place_by_place(values.values(), before, frames, |sum, value| sum + value);
        if average {
            let mut row = 0;
            frames.each(|first, behind| {
                sums[row] /= (behind - first) as f64;
                row += 1;
            });
        }
        return Ok(Arc::new(Float64Array::from(sums)));
    }
    let at = |row: usize| if values.is_null(row) { (0.0, 0u64) } else { (values.value(row), 1) };
    let join = |one: (f64, u64), other: (f64, u64)| (one.0 + other.0, one.1 + other.1);
    let mut results = Vec::with_capacity(frames.rows);
    frames.fold((0.0, 0), at, join, |(sum, count)| {
        results.push((count > 0).then(|| if average { sum / count as f64 } else { sum }));
    });
    Ok(Arc::new(Float64Array::from(results)))
}

/// Least or greatest numbers, in the order of their kind.
fn extremes<N: ArrowNativeType + TotalOrder>(
    argument: &ArrayRef,
    greatest: bool,
    frame: &WindowFrame,
    frames: &PartitionFrames,
) -> Result<ArrayRef> {
    let values: ScalarBuffer<N> = natives(argument);
    let nulls = argument.nulls().filter(|nulls| nulls.null_count() > 0);
    let better = |one: N::Key, other: N::Key| if greatest { one.max(other) } else { one.min(other) };
    if nulls.is_none()
        && let Some(before) = frame.last_rows().filter(|before| *before <= PLACES_MAX)
    {
        let keys: Vec<N::Key> = values.iter().map(|value| value.key()).collect();
        let keys_by_row = if greatest {
            place_by_place(&keys, before, frames, Ord::max)
        } else {
            place_by_place(&keys, before, frames, Ord::min)
        };
        return array_of(keys_by_row.into_iter().map(N::from_key).collect::<Vec<_>>(), None, argument.data_type());
    }
    let at = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row)).then(|| values[row].key());
    let join = |one: Option<N::Key>, other: Option<N::Key>| match (one, other) {
        (Some(one), Some(other)) => Some(better(one, other)),
        (one, other) => one.or(other),
    };
    let mut keys_by_row = Vec::with_capacity(frames.rows);
    let mut present = Vec::with_capacity(frames.rows);
    frames.fold(None, at, join, |key| {
        present.push(key.is_some());
        keys_by_row.push(key.map_or(N::default(), N::from_key));
    });
    array_of(keys_by_row, some_nulls(present), argument.data_type())
}

/// Least or greatest values of a type whose values are no numbers.
fn other_extremes(argument: &ArrayRef, greatest: bool, frames: &PartitionFrames) -> Result<ArrayRef> {
    let compare = make_comparator(argument, argument, SortOptions::default())?;
    let nulls = argument.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let at = |row: usize| {
        let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        u32::try_from(row).ok().filter(|_| is_valid)
    };
    let join = |one: Option<u32>, other: Option<u32>| match (one, other) {
        (Some(one), Some(other)) => {
            let takes_other = compare(other as usize, one as usize);
            Some(if if greatest { takes_other.is_gt() } else { takes_other.is_lt() } { other } else { one })
        }
        (one, other) => one.or(other),
    };
    let mut picked = Vec::with_capacity(frames.rows);
    frames.fold(None, at, join, |row| picked.push(row));
    Ok(take(argument, &UInt32Array::from(picked), None)?)
}

fn spreads(values: &Float64Array, frames: &PartitionFrames, result: impl Fn(Moments) -> Option<f64>) -> ArrayRef {
    let at = |row: usize| if values.is_null(row) { Moments::default() } else { Moments::one(values.value(row)) };
    let join = |mut older: Moments, newer: Moments| {
        older.join(newer);
        older
    };
    let mut results = Vec::with_capacity(frames.rows);
    frames.fold(Moments::default(), at, join, |moments| results.push(result(moments)));
    Arc::new(Float64Array::from(results))
}

/// Folds of pairs, of which none has a null on either side.
fn pairs<S: Copy>(
    left: &Float64Array,
    right: &Float64Array,
    frames: &PartitionFrames,
    nothing: S,
    at: impl Fn(usize) -> S,
    join: impl Fn(S, S) -> S,
    result: impl Fn(S) -> Option<f64>,
) -> ArrayRef {
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    let at = |row: usize| if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) { at(row) } else { nothing };
    let mut results = Vec::with_capacity(frames.rows);
    frames.fold(nothing, at, join, |state| results.push(result(state)));
    Arc::new(Float64Array::from(results))
}

/// The values of the nth rows of frames, counted from the first if `nth` is above zero, from the last if it is below.
fn nth_values(nth: i64, ignore_nulls: bool, arguments: &[ArrayRef], frames: &PartitionFrames) -> Result<ArrayRef> {
    let Some(argument) = arguments.first() else { return Err(Error::Unsupported("a row of nothing".to_owned())) };
    let place = |first: usize, behind: usize| {
        let place = match nth {
            0 => None,
            1.. => usize::try_from(nth - 1).ok().and_then(|nth| first.checked_add(nth)),
            _ => usize::try_from(nth.unsigned_abs()).ok().and_then(|nth| behind.checked_sub(nth)),
        };
        place.filter(|place| (first..behind).contains(place))
    };
    let number = |row: usize| u32::try_from(row).ok();
    let (mut picked, mut present) = (Vec::with_capacity(frames.rows), Vec::with_capacity(frames.rows));
    let mut pick = |row: Option<u32>| {
        picked.push(row.unwrap_or(0));
        present.push(row.is_some());
    };
    match argument.logical_nulls().filter(|nulls| ignore_nulls && nulls.null_count() > 0) {
        None => frames.each(|first, behind| pick(place(first, behind).and_then(number))),
        Some(nulls) => {
            let valid: Vec<u32> = nulls.valid_indices().filter_map(number).collect();
            let before = valid_before(&nulls);
            frames.each(|first, behind| {
                pick(place(before[first] as usize, before[behind] as usize).map(|place| valid[place]));
            });
        }
    }
    Ok(take(argument, &UInt32Array::new(picked.into(), some_nulls(present)), None)?)
}

/// Folds of a row and up to `before` rows before it: one pass for each place in the frame, over rows that stay in cache. Neighbours
/// don't depend on each other, so several are worked on by one instruction.
fn place_by_place<V: Copy>(values: &[V], before: usize, frames: &PartitionFrames, fold: impl Fn(V, V) -> V) -> Vec<V> {
    let mut results = values[..frames.rows].to_vec();
    for (rows, _) in &frames.of_partitions {
        let (values, states) = (&values[rows.clone()], &mut results[rows.clone()]);
        for start in (0..values.len()).step_by(FRAME_CHUNK_ROWS) {
            let end = values.len().min(start + FRAME_CHUNK_ROWS);
            for back in 1..=before.min(end - 1) {
                let first = start.max(back);
                let pairs = states[first..end].iter_mut().zip(&values[first - back..end - back]);
                pairs.for_each(|(state, value)| *state = fold(*state, *value));
            }
        }
    }
    results
}
