//! The state of aggregates per group: counts, sums, weighted sums. `extremes.rs` and `spread.rs` have the others.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, Float64Array, Int64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Float64Type};
use splay_store::{Summary, ValueKind};

use super::distinct::DistinctCount;
use super::external::External;
use super::extremes::extreme;
use super::group_slots::{GroupSlots, filtered_runs};
use super::list::GroupLists;
use super::pivot::PivotCells;
use super::spread::{Median, PairStatistic, Variance};
use super::{Aggregate, AggregateFunction};
use crate::error::{Error, Result};
use crate::natives::{array_of, natives, with_native};
use crate::sums;
use crate::vector::vectorized;

/// Rows that stand together and belong to one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupRun {
    pub group: u32,
    pub start: usize,
    pub end: usize,
}

/// Which rows belong to which groups.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowGroups<'a> {
    /// Runs of rows; what is in none of them belongs to no group.
    Runs(&'a [GroupRun]),
    /// The group of each row, or [`NO_GROUP`].
    Rows(&'a [u32]),
    /// Groups by a small number for each row.
    Places(&'a GroupSlots),
    /// Some rows and the group of each: ascending, but where runs overlap (windows), each run's ascending.
    Listed(&'a [(u32, u32)]),
}

/// Group of a row that belongs to none.
pub(crate) const NO_GROUP: u32 = u32::MAX;

impl RowGroups<'_> {
    /// Calls `visit` with group and row of each row that isn't null.
    pub fn each(&self, nulls: Option<&NullBuffer>, mut visit: impl FnMut(usize, usize)) {
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        match self {
            RowGroups::Runs(runs) => {
                for run in *runs {
                    (run.start..run.end).filter(|row| is_valid(*row)).for_each(|row| visit(run.group as usize, row));
                }
            }
            RowGroups::Rows(groups) => {
                for (row, group) in groups.iter().enumerate() {
                    if *group != NO_GROUP && is_valid(row) {
                        visit(*group as usize, row);
                    }
                }
            }
            RowGroups::Places(parted) => parted.each(|row, group| {
                if is_valid(row) {
                    visit(group as usize, row);
                }
            }),
            RowGroups::Listed(rows) => {
                for (row, group) in *rows {
                    if is_valid(*row as usize) {
                        visit(*group as usize, *row as usize);
                    }
                }
            }
        }
    }

    /// The given rows that belong to a group, each with its group. The rows ascend, and no row occurs in two runs or twice in the list.
    pub fn of(&self, rows: impl Iterator<Item = usize>) -> Vec<(u32, u32)> {
        // What is behind a row is behind all that follow.
        let mut behind = 0;
        let mut group = |row: usize| match self {
            RowGroups::Runs(runs) => {
                behind += runs[behind..].iter().take_while(|run| run.end <= row).count();
                runs.get(behind).filter(|run| run.start <= row).map(|run| run.group)
            }
            RowGroups::Rows(groups) => Some(groups[row]),
            RowGroups::Places(parted) => parted.group(row, &mut behind),
            RowGroups::Listed(listed) => {
                behind += listed[behind..].iter().take_while(|(other, _)| (*other as usize) < row).count();
                listed.get(behind).filter(|(other, _)| *other as usize == row).map(|(_, group)| *group)
            }
        };
        let with_group = |(row, group): (usize, Option<u32>)| {
            Some((u32::try_from(row).ok()?, group.filter(|group| *group != NO_GROUP)?))
        };
        rows.map(|row| (row, group(row))).filter_map(with_group).collect()
    }
}

/// The state of one aggregate for all groups.
pub(crate) trait Accumulator: Send {
    /// Grows the state to `groups` groups.
    fn grow(&mut self, groups: usize);

    /// Adds rows. `assigned` says which group each row belongs to.
    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()>;

    /// Adds the rows that a summary describes to a group, without reading them. Returns false, and adds nothing, if the
    /// summary doesn't determine their effect.
    fn update_summary(&mut self, _group: u32, _kind: ValueKind, _summary: &Summary) -> bool {
        false
    }

    /// Whether it can use the summary of a block instead of the block's rows.
    fn takes_summaries(&self) -> bool {
        false
    }

    /// Bytes in memory, without the few words that each group takes anyway.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Merges another accumulator of the same aggregate into this one. Its group `n` is group `groups[n]` here.
    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()>;

    /// The results, one for each group.
    fn finish(self: Box<Self>) -> Result<ArrayRef>;

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Adds rows. Nulls are removed from runs of numbers first if the remaining rows form runs too, so that kernels needn't check for nulls.
pub(crate) fn update(
    accumulator: &mut dyn Accumulator,
    aggregate: &Aggregate,
    arguments: &[ArrayRef],
    assigned: RowGroups<'_>,
) -> Result<()> {
    if let RowGroups::Runs(runs) = assigned
        && aggregate.pivot.is_none()
        && aggregate.function.leaves_nulls_out()
        && let Some((arguments, runs)) = without_nulls(arguments, runs)
    {
        return accumulator.update(&arguments, RowGroups::Runs(&runs));
    }
    accumulator.update(arguments, assigned)
}

/// Arguments that are numbers, as if none were null, and the runs of rows in which none is.
fn without_nulls(arguments: &[ArrayRef], runs: &[GroupRun]) -> Option<(Vec<ArrayRef>, Vec<GroupRun>)> {
    let mut nulls: Option<NullBuffer> = None;
    for argument in arguments {
        nulls = NullBuffer::union(nulls.as_ref(), argument.nulls());
    }
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    let plain = |argument: &ArrayRef| {
        let data_type = argument.data_type();
        with_native!(data_type, N => array_of(natives::<N>(argument), None, data_type).ok(), _ => None)
    };
    let runs = filtered_runs(runs, nulls.inner())?;
    Some((arguments.iter().map(plain).collect::<Option<_>>()?, runs))
}

/// The other side of a merge, which is of the same kind.
pub(super) fn same<A: 'static>(other: Box<dyn Accumulator>) -> Result<Box<A>> {
    other.into_any().downcast::<A>().map_err(|_| Error::Unsupported("a merge of two kinds of aggregates".to_owned()))
}

/// The accumulator of an aggregate whose arguments have these types, which finishes by some threads. First and last have none:
/// see `picks.rs`.
pub(crate) fn accumulator(
    aggregate: &Aggregate,
    arguments: &[DataType],
    threads: usize,
) -> Result<Box<dyn Accumulator>> {
    if let Some(pivot) = &aggregate.pivot {
        let arguments = arguments.split_last().map_or(arguments, |(_, arguments)| arguments);
        let of_cells = Aggregate { pivot: None, ..aggregate.clone() };
        return Ok(Box::new(PivotCells::new(accumulator(&of_cells, arguments, threads)?, pivot.width())));
    }
    let refused = || Error::Unsupported(format!("{:?} of {arguments:?}", aggregate.function));
    let is_float = |position: usize| arguments.get(position) == Some(&DataType::Float64);
    // A sum has as wide numbers as its values: only decimals get more digits.
    let result = || match (&aggregate.data_type, arguments) {
        (DataType::Decimal128(_, _), [DataType::Decimal128(_, _)]) => Ok(aggregate.data_type.clone()),
        (result, [argument]) if result == argument => Ok(argument.clone()),
        _ => Err(refused()),
    };
    Ok(match aggregate.function {
        AggregateFunction::CountRows | AggregateFunction::Count => Box::new(Count::default()),
        AggregateFunction::CountDistinct => {
            let counts = arguments.first().and_then(|of| DistinctCount::of(of, threads));
            Box::new(counts.ok_or_else(refused)?)
        }
        AggregateFunction::External(ref aggregate) => Box::new(External::new(aggregate)?),
        AggregateFunction::Sum => match arguments.first() {
            Some(DataType::Float64) => Box::new(FloatSum::default()),
            Some(DataType::Int64 | DataType::Duration(_)) => Box::new(ExactSum::<i64>::new(None, result()?)),
            Some(DataType::UInt64) => Box::new(ExactSum::<u64>::new(None, result()?)),
            Some(DataType::Decimal128(_, _)) => Box::new(ExactSum::<i128>::new(None, result()?)),
            _ => return Err(refused()),
        },
        AggregateFunction::Average => match arguments.first() {
            Some(DataType::Float64) => Box::new(FloatSum { average: true, ..FloatSum::default() }),
            Some(of @ DataType::Duration(_)) => Box::new(ExactSum::<i64>::new(Mean::of(of, &result()?), result()?)),
            Some(of @ DataType::Decimal128(_, _)) => {
                let mean = Mean::of(of, &aggregate.data_type).ok_or_else(refused)?;
                Box::new(ExactSum::<i128>::new(Some(mean), result()?))
            }
            _ => return Err(refused()),
        },
        AggregateFunction::Min | AggregateFunction::Max => {
            let greatest = aggregate.function == AggregateFunction::Max;
            arguments.first().and_then(|data_type| extreme(data_type, greatest)).ok_or_else(refused)?
        }
        AggregateFunction::WeightedAverage if is_float(0) && is_float(1) => {
            Box::new(WeightedState { average: true, ..WeightedState::default() })
        }
        AggregateFunction::WeightedSum if is_float(0) && is_float(1) => Box::new(WeightedState::default()),
        AggregateFunction::Variance { sample } if is_float(0) => Box::new(Variance::new(sample, false)),
        AggregateFunction::Deviation { sample } if is_float(0) => Box::new(Variance::new(sample, true)),
        AggregateFunction::Median => match arguments.first() {
            Some(DataType::Float64) => Box::new(Median::<f64>::new(threads)),
            Some(DataType::Float32) => Box::new(Median::<f32>::new(threads)),
            _ => return Err(refused()),
        },
        AggregateFunction::List(ref listing) => {
            Box::new(GroupLists::new(listing, &aggregate.data_type, arguments, threads).ok_or_else(refused)?)
        }
        AggregateFunction::Correlation | AggregateFunction::Covariance { .. } if is_float(0) && is_float(1) => {
            Box::new(PairStatistic::new(aggregate.function.clone()))
        }
        _ => return Err(refused()),
    })
}

/// Nulls where a group had no values.
pub(super) fn present(counts: &[u64]) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(counts.len(), |group| counts[group] > 0));
    (nulls.null_count() > 0).then_some(nulls)
}

/// Rows, or values that aren't null.
#[derive(Debug, Default)]
struct Count {
    counts: Vec<u64>,
}

impl Accumulator for Count {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let nulls = arguments.first().and_then(|array| array.logical_nulls()).filter(|nulls| nulls.null_count() > 0);
        match (assigned, &nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs {
                    self.counts[run.group as usize] += (run.end - run.start) as u64;
                }
            }
            (RowGroups::Runs(runs), Some(nulls)) => {
                for run in runs {
                    let valid = vectorized(
                        #[inline(always)]
                        || nulls.inner().slice(run.start, run.end - run.start).count_set_bits(),
                    );
                    self.counts[run.group as usize] += valid as u64;
                }
            }
            (RowGroups::Places(parted), None) => parted.counts(|group, count| self.counts[group] += count),
            _ => assigned.each(nulls.as_ref(), |group, _| self.counts[group] += 1),
        }
        Ok(())
    }

    fn update_summary(&mut self, group: u32, _kind: ValueKind, summary: &Summary) -> bool {
        self.counts[group as usize] += summary.count;
        true
    }

    fn takes_summaries(&self) -> bool {
        true
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<Count>(other)?;
        groups.iter().zip(&other.counts).for_each(|(group, count)| self.counts[*group as usize] += count);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(self.counts.into_iter().map(u64::cast_signed))))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Sum or mean of floats.
#[derive(Debug, Default)]
struct FloatSum {
    sums: Vec<f64>,
    counts: Vec<u64>,
    average: bool,
}

impl Accumulator for FloatSum {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0.0);
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let array = arguments[0].as_primitive::<Float64Type>();
        let (values, nulls) = (array.values(), array.nulls().filter(|nulls| nulls.null_count() > 0));
        match (assigned, nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs {
                    self.sums[run.group as usize] += sums::sum(&values[run.start..run.end]);
                    self.counts[run.group as usize] += (run.end - run.start) as u64;
                }
            }
            (RowGroups::Rows(groups), None) => {
                for (group, value) in groups.iter().zip(values) {
                    // No group has the number of none.
                    let group = *group as usize;
                    if let (Some(sum), Some(count)) = (self.sums.get_mut(group), self.counts.get_mut(group)) {
                        *sum += value;
                        *count += 1;
                    }
                }
            }
            (RowGroups::Places(parted), None) => {
                let of_rows = |rows: Range<usize>| values[rows].iter().copied();
                parted.sums(
                    of_rows,
                    |one, other| one + other,
                    |group, sum, count| {
                        self.sums[group] += sum;
                        self.counts[group] += count;
                    },
                );
            }
            _ => assigned.each(nulls, |group, row| {
                self.sums[group] += values[row];
                self.counts[group] += 1;
            }),
        }
        Ok(())
    }

    fn update_summary(&mut self, group: u32, kind: ValueKind, summary: &Summary) -> bool {
        let Some(sum) = summary.sum else { return summary.count == 0 };
        self.sums[group as usize] += match kind {
            ValueKind::Float => f64::from_bits(sum),
            ValueKind::Signed => sum.cast_signed() as f64,
            ValueKind::Unsigned => sum as f64,
        };
        self.counts[group as usize] += summary.count;
        true
    }

    fn takes_summaries(&self) -> bool {
        true
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<FloatSum>(other)?;
        for (from, group) in groups.iter().enumerate() {
            self.sums[*group as usize] += other.sums[from];
            self.counts[*group as usize] += other.counts[from];
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        let nulls = present(&self.counts);
        let mut sums = self.sums;
        if self.average {
            sums.iter_mut().zip(&self.counts).for_each(|(sum, count)| *sum /= *count as f64);
        }
        Ok(Arc::new(Float64Array::new(sums.into(), nulls)))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// How the mean of exact numbers is computed from their sum. The sum is multiplied by a power of ten before the
/// division, because a mean of decimals has more decimal places. Further digits are either rounded, half away from
/// zero, or truncated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mean<N> {
    factor: N,
    is_rounded: bool,
}

/// Most digits of decimals whose means are computed. The sum of a billion such values, times the factor, still fits.
const MEAN_DIGITS_MAX: u8 = 25;

/// Digits behind the point that a mean of decimals has more than they have themselves, at most.
const MEAN_DIGITS_MORE: i8 = 4;

impl<N: Exact> Mean<N> {
    /// The mean of values of a type; `None` where it isn't computed here.
    pub fn of(values: &DataType, mean: &DataType) -> Option<Mean<N>> {
        let (DataType::Decimal128(digits, scale), DataType::Decimal128(_, more)) = (values, mean) else {
            return Some(Mean { factor: N::from_bits(1), is_rounded: false });
        };
        let more = more.checked_sub(*scale)?;
        let is_exact = *digits <= MEAN_DIGITS_MAX && (0..=MEAN_DIGITS_MORE).contains(&more);
        is_exact.then(|| Mean { factor: N::from_bits(10u64.pow(u32::from(more.unsigned_abs()))), is_rounded: true })
    }

    /// The mean of `count` numbers; 0 if there are none. Fails if it doesn't fit.
    pub fn of_sum(self, sum: N, count: u64) -> Result<N> {
        let sum = sum.mul_checked(self.factor)?;
        if count == 0 {
            return Ok(sum);
        }
        let count = N::from_bits(count);
        let mean = sum.div_wrapping(count);
        if !self.is_rounded {
            return Ok(mean);
        }
        let rest = sum.mod_wrapping(count).wide();
        let away = if 2 * rest.abs() >= count.wide() { rest.signum() } else { 0 };
        N::narrow(mean.wide() + away).ok_or_else(|| Error::Unsupported("a mean that has no place".to_owned()))
    }
}

/// Sum or mean of whole numbers, decimals or durations. Refused where 64 bits might not hold it.
#[derive(Debug)]
struct ExactSum<N> {
    sums: Vec<N>,
    counts: Vec<u64>,
    /// The magnitudes of all values, joined by OR.
    magnitudes: u64,
    /// How the mean follows from sum and count; `None` if the aggregate is a sum.
    mean: Option<Mean<N>>,
    data_type: DataType,
}

impl<N> ExactSum<N> {
    /// `data_type` is that of the result.
    fn new(mean: Option<Mean<N>>, data_type: DataType) -> Self {
        ExactSum { sums: Vec::new(), counts: Vec::new(), magnitudes: 0, mean, data_type }
    }

    fn has_summaries(&self) -> bool {
        matches!(self.data_type, DataType::Int64 | DataType::UInt64)
    }
}

impl<N: Exact> Accumulator for ExactSum<N> {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, N::ZERO);
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let values = natives::<N>(&arguments[0]);
        let nulls = arguments[0].nulls().filter(|nulls| nulls.null_count() > 0);
        match (assigned, nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs {
                    let values = &values[run.start..run.end];
                    let (sum, magnitudes) = sum_and_magnitudes(values);
                    self.magnitudes |= magnitudes;
                    let group = run.group as usize;
                    self.sums[group] = self.sums[group].add_wrapping(sum);
                    self.counts[group] += (run.end - run.start) as u64;
                }
            }
            (RowGroups::Places(parted), None) => {
                self.magnitudes |= magnitudes(&values);
                let of_rows = |rows: Range<usize>| values[rows].iter().copied();
                parted.sums(of_rows, N::add_wrapping, |group, sum, count| {
                    self.sums[group] = self.sums[group].add_wrapping(sum);
                    self.counts[group] += count;
                });
            }
            (RowGroups::Rows(groups), None) => {
                for (group, value) in groups.iter().zip(values.iter()) {
                    // No group has the number of none.
                    let group = *group as usize;
                    if let (Some(sum), Some(count)) = (self.sums.get_mut(group), self.counts.get_mut(group)) {
                        *sum = sum.add_wrapping(*value);
                        *count += 1;
                        self.magnitudes |= value.magnitude();
                    }
                }
            }
            _ => assigned.each(nulls, |group, row| {
                self.sums[group] = self.sums[group].add_wrapping(values[row]);
                self.magnitudes |= values[row].magnitude();
                self.counts[group] += 1;
            }),
        }
        Ok(())
    }

    fn update_summary(&mut self, group: u32, kind: ValueKind, summary: &Summary) -> bool {
        let (Some(sum), true, true) = (summary.sum, kind != ValueKind::Float, self.has_summaries()) else {
            return summary.count == 0;
        };
        let group = group as usize;
        self.sums[group] = self.sums[group].add_wrapping(N::from_bits(sum));
        if summary.count > 0 {
            self.magnitudes |= N::from_bits(summary.min).magnitude() | N::from_bits(summary.max).magnitude();
        }
        self.counts[group] += summary.count;
        true
    }

    fn takes_summaries(&self) -> bool {
        self.has_summaries()
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<ExactSum<N>>(other)?;
        self.magnitudes |= other.magnitudes;
        for (from, group) in groups.iter().enumerate() {
            let group = *group as usize;
            self.sums[group] = self.sums[group].add_wrapping(other.sums[from]);
            self.counts[group] += other.counts[from];
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        check_sums::<N>(self.magnitudes, self.counts.iter().copied().max().unwrap_or(0))?;
        let nulls = present(&self.counts);
        let mut sums = self.sums;
        if let Some(mean) = self.mean {
            for (sum, count) in sums.iter_mut().zip(self.counts) {
                *sum = mean.of_sum(*sum, count)?;
            }
        }
        array_of(sums, nulls, &self.data_type)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn sum_and_magnitudes<N: Exact>(values: &[N]) -> (N, u64) {
    vectorized(
        #[inline(always)]
        || values.iter().fold((N::ZERO, 0), |(sum, all), value| (sum.add_wrapping(*value), all | value.magnitude())),
    )
}

/// The magnitudes of the values, joined by OR.
pub(crate) fn magnitudes<N: Exact>(values: &[N]) -> u64 {
    vectorized(
        #[inline(always)]
        || values.iter().fold(0, |magnitudes, value| magnitudes | value.magnitude()),
    )
}

/// Fails if the sum of `rows` values of these magnitudes may have wrapped.
pub(crate) fn check_sums<N: Exact>(magnitudes: u64, rows: u64) -> Result<()> {
    let bits = |number: u64| u64::BITS - number.leading_zeros();
    if bits(magnitudes) + bits(rows) > N::SUM_BITS && rows > 1 {
        return Err(Error::Unsupported("a sum that might need more than 64 bits".to_owned()));
    }
    Ok(())
}

/// Numbers whose sums are exact as long as they don't wrap.
pub(crate) trait Exact: ArrowNativeTypeOp + ArrowNativeType {
    /// Bits of the magnitude of a sum.
    const SUM_BITS: u32;

    /// The bits of the value without its sign: the value, or `-1 - value` if it is negative.
    fn magnitude(self) -> u64;

    /// The value in a type so wide that no sum over the rows of a table wraps.
    fn wide(self) -> i128;

    /// Converts a wide number back; `None` if it is out of range.
    fn narrow(wide: i128) -> Option<Self>;

    /// A number from the 64 bits of a whole one.
    fn from_bits(bits: u64) -> Self;
}

impl Exact for i64 {
    const SUM_BITS: u32 = 63;

    fn wide(self) -> i128 {
        i128::from(self)
    }

    fn narrow(wide: i128) -> Option<i64> {
        i64::try_from(wide).ok()
    }

    #[inline(always)]
    fn magnitude(self) -> u64 {
        (self ^ (self >> 63)).cast_unsigned()
    }

    fn from_bits(bits: u64) -> i64 {
        bits.cast_signed()
    }
}

impl Exact for u64 {
    const SUM_BITS: u32 = 64;

    fn wide(self) -> i128 {
        i128::from(self)
    }

    fn narrow(wide: i128) -> Option<u64> {
        u64::try_from(wide).ok()
    }

    #[inline(always)]
    fn magnitude(self) -> u64 {
        self
    }

    fn from_bits(bits: u64) -> u64 {
        bits
    }
}

impl Exact for i128 {
    /// Decimals aren't looked at: their type has no more digits than it holds.
    const SUM_BITS: u32 = u32::MAX;

    fn wide(self) -> i128 {
        self
    }

    fn narrow(wide: i128) -> Option<i128> {
        Some(wide)
    }

    #[inline(always)]
    fn magnitude(self) -> u64 {
        0
    }

    fn from_bits(bits: u64) -> i128 {
        i128::from(bits.cast_signed())
    }
}

/// Weighted sum or mean: the first argument is the weight. A pair with a null on either side is left out.
#[derive(Debug, Default)]
struct WeightedState {
    products: Vec<f64>,
    weights: Vec<f64>,
    counts: Vec<u64>,
    average: bool,
}

impl Accumulator for WeightedState {
    fn grow(&mut self, groups: usize) {
        self.products.resize(groups, 0.0);
        self.weights.resize(groups, 0.0);
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let (weights, values) =
            (arguments[0].as_primitive::<Float64Type>(), arguments[1].as_primitive::<Float64Type>());
        let nulls = NullBuffer::union(weights.nulls(), values.nulls()).filter(|nulls| nulls.null_count() > 0);
        let (weights, values) = (weights.values(), values.values());
        match (assigned, &nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs {
                    let (group, rows) = (run.group as usize, run.start..run.end);
                    self.products[group] += sums::dot(&weights[rows.clone()], &values[rows.clone()]);
                    self.weights[group] += sums::sum(&weights[rows.clone()]);
                    self.counts[group] += rows.len() as u64;
                }
            }
            (RowGroups::Places(parted), None) => {
                let pair = |(weight, value): (&f64, &f64)| (weight * value, *weight);
                let of_rows = |rows: Range<usize>| weights[rows.clone()].iter().zip(&values[rows]).map(pair);
                let add = |one: (f64, f64), other: (f64, f64)| (one.0 + other.0, one.1 + other.1);
                parted.sums(of_rows, add, |group, (product, weight), count| {
                    self.products[group] += product;
                    self.weights[group] += weight;
                    self.counts[group] += count;
                });
            }
            _ => assigned.each(nulls.as_ref(), |group, row| {
                self.products[group] += weights[row] * values[row];
                self.weights[group] += weights[row];
                self.counts[group] += 1;
            }),
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<WeightedState>(other)?;
        for (from, group) in groups.iter().enumerate() {
            let group = *group as usize;
            self.products[group] += other.products[from];
            self.weights[group] += other.weights[from];
            self.counts[group] += other.counts[from];
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        let sums = self.products.iter().zip(&self.weights).zip(&self.counts);
        let results = sums.map(|((product, weight), count)| weighted(*product, *weight, *count, self.average));
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The weighted sum or mean of `count` pairs. Weights whose sum is zero have no mean.
pub(crate) fn weighted(product: f64, weight: f64, count: u64, average: bool) -> Option<f64> {
    match (count, average) {
        (0, _) => None,
        (_, false) => Some(product),
        (_, true) => (weight != 0.0).then(|| product / weight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::group_slots::RowSlots;

    #[test]
    fn means_of_decimals_are_rounded_half_away_from_zero() {
        let decimal = DataType::Decimal128;
        let mean = Mean::<i128>::of(&decimal(10, 0), &decimal(14, 4)).unwrap();
        for (sum, count, expected) in
            [(2, 3, 6_667), (-2, 3, -6_667), (1, 3, 3_333), (1, 32, 313), (-1, 32, -313), (7, 1, 70_000), (0, 0, 0)]
        {
            assert_eq!(mean.of_sum(sum, count).unwrap(), expected, "{sum} / {count}");
        }
        let most = 10i128.pow(25) - 1;
        let mean = Mean::<i128>::of(&decimal(25, 2), &decimal(29, 6)).unwrap();
        assert_eq!(mean.of_sum(most * 1_000_000_000, 1_000_000_000).unwrap(), most * 10_000);
        assert!(mean.of_sum(i128::MAX, 2).is_err(), "it has no place before it is divided");
        assert!(Mean::<i128>::of(&decimal(26, 2), &decimal(30, 6)).is_none());
        // Averages of durations are cut off, not rounded.
        let seconds = DataType::Duration(arrow::datatypes::TimeUnit::Nanosecond);
        assert_eq!(Mean::<i64>::of(&seconds, &seconds).unwrap().of_sum(-5, 3).unwrap(), -1);
    }

    #[test]
    fn nulls_are_left_out_of_runs() {
        let is_null = |row: i64| row % 20 == 7 || (60..90).contains(&row);
        let values: ArrayRef = Arc::new((0..200).map(|row| (!is_null(row)).then_some(row)).collect::<Int64Array>());
        let runs = [
            GroupRun { group: 1, start: 3, end: 70 },
            GroupRun { group: 0, start: 80, end: 85 },
            GroupRun { group: 1, start: 90, end: 200 },
        ];
        let aggregate = |function| Aggregate {
            function,
            arguments: vec![crate::Expr::Column(0)],
            filter: None,
            pivot: None,
            data_type: DataType::Int64,
        };
        for function in
            [AggregateFunction::Sum, AggregateFunction::Count, AggregateFunction::Min, AggregateFunction::CountDistinct]
        {
            let aggregate = aggregate(function);
            let mut of_all = accumulator(&aggregate, &[DataType::Int64], 1).unwrap();
            let mut of_each = accumulator(&aggregate, &[DataType::Int64], 1).unwrap();
            of_all.grow(2);
            of_each.grow(2);
            update(of_all.as_mut(), &aggregate, &[Arc::clone(&values)], RowGroups::Runs(&runs)).unwrap();
            let rows: Vec<(u32, u32)> =
                runs.iter().flat_map(|run| (run.start..run.end).map(|row| (row as u32, run.group))).collect();
            of_each.update(&[Arc::clone(&values)], RowGroups::Listed(&rows)).unwrap();
            assert_eq!(&of_all.finish().unwrap(), &of_each.finish().unwrap(), "{:?}", aggregate.function);
        }
        assert!(without_nulls(&[Arc::new(Int64Array::from(vec![1, 2]))], &runs).is_none(), "there are none");
    }

    #[test]
    fn some_rows_have_the_groups_that_all_rows_have() {
        let runs = [
            GroupRun { group: 4, start: 2, end: 5 },
            GroupRun { group: 1, start: 5, end: 9 },
            GroupRun { group: 4, start: 12, end: 20 },
        ];
        let rows: Vec<u32> = (0..20).map(|row| if row % 5 == 0 { NO_GROUP } else { row % 3 }).collect();
        let places = RowSlots { of_rows: (0..20).map(|row| row % 3).collect(), choices: 3 };
        let found = |stretch: usize, row: usize| Ok(u32::try_from(stretch * 100 + row).unwrap());
        let parted = GroupSlots::new(places, vec![0..3, 3..4, 6..18], found).unwrap();
        let listed = [(1, 7), (2, 3), (9, 7), (18, 0)];
        for assigned in
            [RowGroups::Runs(&runs), RowGroups::Rows(&rows), RowGroups::Places(&parted), RowGroups::Listed(&listed)]
        {
            let mut all = Vec::new();
            assigned.each(None, |group, row| all.push((u32::try_from(row).unwrap(), u32::try_from(group).unwrap())));
            assert_eq!(assigned.of(0..20), all);
            for step in 1..7 {
                let some: Vec<(u32, u32)> =
                    all.iter().copied().filter(|(row, _)| row % step == 0 && *row > 1).collect();
                assert_eq!(assigned.of((2..20).filter(|row| row % step as usize == 0)), some);
            }
        }
    }
}
