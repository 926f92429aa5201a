//! Aggregates over moving frames that depend on the order of the values in them: medians, quantiles, modes, numbers of different values, and the
//! first and last values by another column.
//!
//! The values of a partition are sorted once, and each row has the rank of its value. A tree counts how often each rank occurs in the frame. Adding a
//! row, removing one and answering a query each cost the logarithm of the number of different values, whatever the frame's length.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, Int64Array, PrimitiveArray, UInt32Array,
    downcast_primitive_array,
};
use arrow::compute::{SortOptions, partition, sort_to_indices, take};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, exec_err};
use splay_store::canonical;

use crate::percentile::on_line;

/// A statistic of a frame's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RankStatistic {
    /// The mean of the middle two values, or the middle one.
    Median,
    /// The value at a share of the way from the least to the greatest, between two of them on the line.
    Continuous(f64),
    /// The first value that a share of the values doesn't exceed.
    Discrete(f64),
    /// The most frequent value; of several the least.
    Mode,
    /// How many different values there are.
    CountDistinct,
}

impl RankStatistic {
    /// Whether it is computed so of values of a type.
    pub fn takes(self, data_type: &DataType) -> bool {
        match self {
            RankStatistic::Median => data_type.is_floating() || data_type.is_decimal(),
            RankStatistic::Continuous(_) => data_type.is_floating(),
            _ => !data_type.is_nested() && !data_type.is_null(),
        }
    }

    /// The results for frames of the values, of those rows alone that pass.
    pub fn over(
        self,
        values: &ArrayRef,
        passes: Option<&BooleanArray>,
        frames: impl Iterator<Item = Range<usize>>,
    ) -> Result<ArrayRef> {
        let ranks = ValueRanks::of(values, passes)?;
        match self {
            RankStatistic::CountDistinct => {
                let mut frame = RankFrequencies::new(&ranks);
                let count = |rows| i64::try_from(frame.moved(rows).different).unwrap_or(i64::MAX);
                Ok(Arc::new(frames.map(count).collect::<Int64Array>()))
            }
            RankStatistic::Median => downcast_primitive_array!(
                values => Ok(between(&ranks, values, frames, 0.5, |low, high, _| middle(low, high))),
                other => exec_err!("a median of {other}"),
            ),
            RankStatistic::Continuous(share) => match values.data_type() {
                DataType::Float16 => Ok(between(&ranks, values.as_primitive::<Float16Type>(), frames, share, on_line)),
                DataType::Float32 => Ok(between(&ranks, values.as_primitive::<Float32Type>(), frames, share, on_line)),
                DataType::Float64 => Ok(between(&ranks, values.as_primitive::<Float64Type>(), frames, share, on_line)),
                other => exec_err!("a percentile of {other}"),
            },
            RankStatistic::Discrete(_) | RankStatistic::Mode => {
                let mut frame = RankFrequencies::new(&ranks);
                let row = |rows| {
                    let frame = frame.moved(rows);
                    let rank = match self {
                        _ if frame.rows == 0 => return None,
                        RankStatistic::Discrete(share) => frame.rank_at(place(frame.rows, share)),
                        _ => frame.most_frequent(),
                    };
                    Some(ranks.firsts[rank])
                };
                Ok(take(values, &frames.map(row).collect::<UInt32Array>(), None)?)
            }
        }
    }
}

/// For each frame the value of its first row, or its last, by the `places` of rows in some order, of those that count.
pub(super) fn picked(
    values: &ArrayRef,
    places: &[u32],
    counts: impl Fn(usize) -> bool,
    picks_last: bool,
    frames: impl Iterator<Item = Range<usize>>,
) -> Result<ArrayRef> {
    let mut ranks = ValueRanks { of_rows: Vec::with_capacity(places.len()), firsts: vec![0; places.len()] };
    for (row, place) in (0u32..).zip(places) {
        ranks.firsts[*place as usize] = row;
        ranks.of_rows.push(counts(row as usize).then_some(*place));
    }
    let mut frame = RankFrequencies::new(&ranks);
    let row = |rows| {
        let frame = frame.moved(rows);
        let last = frame.rows.checked_sub(1)?;
        Some(ranks.firsts[frame.rank_at(if picks_last { last } else { 0 })])
    };
    Ok(take(values, &frames.map(row).collect::<UInt32Array>(), None)?)
}

/// For each frame the value at a share of the way from its least to its greatest, where `join` gives what lies between two values, so far from the
/// first to the second.
fn between<T: ArrowPrimitiveType>(
    ranks: &ValueRanks,
    values: &PrimitiveArray<T>,
    frames: impl Iterator<Item = Range<usize>>,
    share: f64,
    join: impl Fn(T::Native, T::Native, f64) -> T::Native,
) -> ArrayRef {
    let mut frame = RankFrequencies::new(ranks);
    let value = |rank: usize| values.value(ranks.firsts[rank] as usize);
    let result = |rows| {
        let frame = frame.moved(rows);
        let (place, weight) = parts(frame.rows.checked_sub(1)? as f64 * share);
        let low = value(frame.rank_at(place));
        if weight == 0.0 {
            return Some(low);
        }
        let high = value(frame.rank_at(place + 1));
        // Between two infinities interpolation would give NaN.
        Some(if low.is_eq(high) { low } else { join(low, high, weight) })
    };
    Arc::new(frames.map(result).collect::<PrimitiveArray<T>>().with_data_type(values.data_type().clone()))
}

/// The mean of two values as DataFusion's `median` rounds it: towards zero.
fn middle<N: ArrowNativeTypeOp>(low: N, high: N) -> N {
    let two = N::usize_as(2);
    match low.add_checked(high) {
        Ok(sum) => sum.div_wrapping(two),
        Err(_) => {
            let rests = low.mod_wrapping(two).add_wrapping(high.mod_wrapping(two));
            low.div_wrapping(two).add_wrapping(high.div_wrapping(two)).add_wrapping(rests.div_wrapping(two))
        }
    }
}

/// The whole part of a place, and the rest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place lies among the values")]
fn parts(place: f64) -> (usize, f64) {
    (place.floor() as usize, place - place.floor())
}

/// The place of the first value that at least a share of all values doesn't exceed.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place lies among the values")]
pub(super) fn place(rows: usize, share: f64) -> usize {
    // 0.07 * 100 is 7.000000000000001.
    let place = (rows as f64 * share - 1e-9).ceil() as usize;
    place.clamp(1, rows) - 1
}

/// The order of the values of some rows.
struct ValueRanks {
    /// The rank of each row's value; `None` of rows that don't count.
    of_rows: Vec<Option<u32>>,
    /// A row with the value of each rank.
    firsts: Vec<u32>,
}

impl ValueRanks {
    fn of(values: &ArrayRef, passes: Option<&BooleanArray>) -> Result<ValueRanks> {
        let values = canonical(values).unwrap_or_else(|| Arc::clone(values));
        let order = sort_to_indices(&values, Some(SortOptions { descending: false, nulls_first: false }), None)?;
        let in_order = take(&values, &order, None)?;
        let mut ranks = ValueRanks { of_rows: vec![None; values.len()], firsts: Vec::new() };
        if values.is_empty() {
            return Ok(ranks);
        }
        let nulls = values.logical_nulls();
        let counts = |row: usize| {
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && passes.is_none_or(|passes| passes.is_valid(row) && passes.value(row))
        };
        for equal in partition(&[in_order])?.ranges() {
            let rank = u32::try_from(ranks.firsts.len()).ok();
            ranks.firsts.push(order.value(equal.start));
            let rows = order.values()[equal].iter().map(|row| *row as usize).filter(|row| counts(*row));
            rows.for_each(|row| ranks.of_rows[row] = rank);
        }
        Ok(ranks)
    }
}

/// How often each rank is in a range of rows.
struct RankFrequencies<'a> {
    ranks: &'a ValueRanks,
    range: Range<usize>,
    /// Rows that count.
    rows: usize,
    /// Ranks that are there.
    different: usize,
    /// Ranks below a power of two, and that.
    leaves: usize,
    /// By node, the root being 1 and the children of `n` being `2n` and `2n + 1`: rows of all ranks below, and of the most frequent one.
    sums: Vec<u32>,
    greatest: Vec<u32>,
}

impl<'a> RankFrequencies<'a> {
    fn new(ranks: &'a ValueRanks) -> RankFrequencies<'a> {
        let leaves = ranks.firsts.len().max(1).next_power_of_two();
        let nodes = || vec![0; 2 * leaves];
        RankFrequencies { ranks, range: 0..0, rows: 0, different: 0, leaves, sums: nodes(), greatest: nodes() }
    }

    /// The frame over another range: rows that are in both stay.
    fn moved(&mut self, to: Range<usize>) -> &RankFrequencies<'a> {
        let to = if to.is_empty() { self.range.end..self.range.end } else { to };
        let from = std::mem::replace(&mut self.range, to.clone());
        let overlaps = from.start < to.end && to.start < from.end;
        if !overlaps {
            from.for_each(|row| self.count(row, false));
            to.for_each(|row| self.count(row, true));
            return self;
        }
        (from.start..to.start).chain(to.end..from.end).for_each(|row| self.count(row, false));
        (to.start..from.start).chain(from.end..to.end).for_each(|row| self.count(row, true));
        self
    }

    fn count(&mut self, row: usize, comes: bool) {
        let Some(rank) = self.ranks.of_rows[row] else { return };
        let mut node = self.leaves + rank as usize;
        let step = |count: u32| if comes { count + 1 } else { count.saturating_sub(1) };
        self.rows = if comes { self.rows + 1 } else { self.rows.saturating_sub(1) };
        let before = self.sums[node];
        self.sums[node] = step(before);
        self.greatest[node] = self.sums[node];
        match (before, self.sums[node]) {
            (0, 1..) => self.different += 1,
            (1.., 0) => self.different = self.different.saturating_sub(1),
            _ => {}
        }
        while node > 1 {
            node /= 2;
            self.sums[node] = step(self.sums[node]);
            self.greatest[node] = self.greatest[2 * node].max(self.greatest[2 * node + 1]);
        }
    }

    /// The rank of the value at a place in the order of the frame's values.
    fn rank_at(&self, place: usize) -> usize {
        let (mut node, mut place) = (1, u32::try_from(place).unwrap_or(u32::MAX));
        while node < self.leaves {
            node *= 2;
            if place >= self.sums[node] {
                place -= self.sums[node];
                node += 1;
            }
        }
        node - self.leaves
    }

    /// The least of the most frequent ranks.
    fn most_frequent(&self) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node = if self.greatest[2 * node] == self.greatest[node] { 2 * node } else { 2 * node + 1 };
        }
        node - self.leaves
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{Decimal128Array, Float32Array, Float64Array};
    use arrow::datatypes::Decimal128Type;
    use proptest::prelude::*;

    use super::*;

    fn same(one: f64, other: f64) -> bool {
        one.total_cmp(&other).is_eq()
    }

    /// A statistic of a frame, by sorting its values.
    fn naive(ranked: RankStatistic, values: &[Option<f64>], rows: Range<usize>) -> Option<f64> {
        let mut sorted: Vec<f64> = values[rows].iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1);
        match ranked {
            RankStatistic::CountDistinct => {
                sorted.dedup_by(|one, other| same(*one, *other));
                Some(sorted.len() as f64)
            }
            RankStatistic::Median => {
                let last = last?;
                Some(if last % 2 == 0 { sorted[last / 2] } else { (sorted[last / 2] + sorted[last / 2 + 1]) / 2.0 })
            }
            RankStatistic::Continuous(share) => {
                let (place, weight) = parts(last? as f64 * share);
                let high = *sorted.get(place + 1).unwrap_or(&sorted[place]);
                let is_one = weight == 0.0 || same(sorted[place], high);
                Some(if is_one { sorted[place] } else { sorted[place] * (1.0 - weight) + high * weight })
            }
            RankStatistic::Discrete(share) => last.map(|last| sorted[place(last + 1, share)]),
            RankStatistic::Mode => {
                let often = |value: f64| sorted.iter().filter(|other| same(value, **other)).count();
                sorted.iter().rev().copied().max_by_key(|value| often(*value))
            }
        }
    }

    proptest! {
        #[test]
        fn frames_are_those_of_sorted_values(
            values in prop::collection::vec(prop::option::weighted(0.8, 0u8..9), 0..40),
            bounds in prop::collection::vec((0..40usize, 0..40usize), 0..40),
            share in 0.0..=1.0f64,
        ) {
            let number = |value: Option<u8>| value.map(|value| match value {
                8 => f64::NAN,
                7 => f64::INFINITY,
                value => f64::from(value) / 2.0,
            });
            let numbers: Vec<Option<f64>> = values.iter().copied().map(number).collect();
            let array: ArrayRef = Arc::new(Float64Array::from(numbers.clone()));
            let within = |(one, other): &(usize, usize)| {
                let (one, other) = ((*one).min(numbers.len()), (*other).min(numbers.len()));
                one.min(other)..one.max(other)
            };
            let frames: Vec<Range<usize>> = bounds.iter().map(within).collect();
            for ranked in
                [RankStatistic::Median, RankStatistic::Continuous(share), RankStatistic::Discrete(share), RankStatistic::Mode, RankStatistic::CountDistinct]
            {
                let actual = ranked.over(&array, None, frames.iter().cloned()).unwrap();
                let actual = arrow::compute::cast(&actual, &DataType::Float64).unwrap();
                let actual = actual.as_primitive::<Float64Type>();
                prop_assert_eq!(actual.len(), frames.len());
                for (row, rows) in frames.iter().enumerate() {
                    let expected = naive(ranked, &numbers, rows.clone());
                    let actual = actual.is_valid(row).then(|| actual.value(row));
                    prop_assert_eq!(actual.map(f64::to_bits), expected.map(f64::to_bits), "{:?} {:?}", ranked, rows);
                }
            }
        }
    }

    #[test]
    fn rows_that_do_not_pass_count_for_nothing() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(3), None, Some(1)]));
        let passes = BooleanArray::from(vec![Some(true), None, Some(true), Some(true)]);
        let counts = RankStatistic::CountDistinct.over(&values, Some(&passes), (0..4).map(|end| 0..end + 1)).unwrap();
        assert_eq!(counts.as_primitive::<arrow::datatypes::Int64Type>().values(), &[1, 1, 1, 2]);
        let modes = RankStatistic::Mode.over(&values, Some(&passes), [1..3, 0..4].into_iter()).unwrap();
        assert_eq!(modes.as_primitive::<arrow::datatypes::Int64Type>().iter().collect::<Vec<_>>(), [None, Some(1)]);
    }
    #[test]
    fn medians_and_quantiles_keep_the_type_of_their_values() {
        let singles: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.5), None, Some(0.25), Some(8.0)]));
        let medians = RankStatistic::Median.over(&singles, None, [0..1, 0..3, 0..4, 1..2].into_iter()).unwrap();
        let medians = medians.as_primitive::<Float32Type>();
        assert_eq!(medians.iter().collect::<Vec<_>>(), [Some(1.5), Some(0.875), Some(1.5), None]);
        let quarters = RankStatistic::Continuous(0.25).over(&singles, None, std::iter::once(0..4)).unwrap();
        assert_eq!(quarters.as_primitive::<Float32Type>().values(), &[0.875]);

        let greatest = 10i128.pow(38) - 1;
        let decimals = Decimal128Array::from(vec![Some(-300), Some(-1), None, Some(greatest), Some(greatest)]);
        let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(38, 2).unwrap());
        let medians = RankStatistic::Median.over(&decimals, None, [0..3, 1..4, 3..5].into_iter()).unwrap();
        assert_eq!(medians.data_type(), decimals.data_type());
        let medians = medians.as_primitive::<Decimal128Type>();
        assert_eq!(medians.values(), &[-150, (greatest - 1) / 2, greatest]);
        assert!(!RankStatistic::Continuous(0.5).takes(decimals.data_type()));
    }
}
