//! Variances, medians and correlations.

use std::any::Any;
use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Float64Type};

use super::AggregateFunction;
use super::accumulate::{Accumulator, RowGroups, same};
use crate::error::Result;
use crate::moments::{Moments, Pair};
use crate::natives::{array_of, natives};
use crate::parallel;
use crate::total_order::TotalOrder;

/// Variance or deviation.
#[derive(Debug)]
pub(super) struct Variance {
    groups: Vec<Moments>,
    sample: bool,
    root: bool,
}

impl Variance {
    pub fn new(sample: bool, root: bool) -> Variance {
        Variance { groups: Vec::new(), sample, root }
    }
}

impl Accumulator for Variance {
    fn grow(&mut self, groups: usize) {
        self.groups.resize(groups, Moments::default());
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let array = arguments[0].as_primitive::<Float64Type>();
        let (values, nulls) = (array.values(), array.nulls().filter(|nulls| nulls.null_count() > 0));
        match (assigned, nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs.iter().filter(|run| run.start < run.end) {
                    self.groups[run.group as usize].join(Moments::of(&values[run.start..run.end]));
                }
            }
            _ => assigned.each(nulls, |group, row| self.groups[group].add(values[row])),
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<Variance>(other)?;
        groups.iter().zip(&other.groups).for_each(|(group, moments)| self.groups[*group as usize].join(*moments));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        let result = |moments: &Moments| moments.spread(self.sample, self.root);
        Ok(Arc::new(self.groups.iter().map(result).collect::<Float64Array>()))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Shares of the values that each thread may look for medians in.
const SHARES: usize = 8;

/// Median: holds the values of all groups.
#[derive(Debug)]
pub(super) struct Median<F> {
    groups: Vec<Vec<F>>,
    values: usize,
    /// Threads that may look for medians at once.
    threads: usize,
}

/// Floats of either width.
pub(super) trait MedianFloat: ArrowNativeType + TotalOrder {
    const DATA_TYPE: DataType;

    /// The mean of the middle two.
    fn middle(self, other: Self) -> Self;
}

impl MedianFloat for f64 {
    const DATA_TYPE: DataType = DataType::Float64;

    fn middle(self, other: f64) -> f64 {
        (self + other) / 2.0
    }
}

impl MedianFloat for f32 {
    const DATA_TYPE: DataType = DataType::Float32;

    fn middle(self, other: f32) -> f32 {
        (self + other) / 2.0
    }
}

impl<F> Median<F> {
    pub fn new(threads: usize) -> Median<F> {
        Median { groups: Vec::new(), values: 0, threads }
    }
}

impl<F: MedianFloat> Accumulator for Median<F> {
    fn grow(&mut self, groups: usize) {
        self.groups.resize_with(groups, Vec::new);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let values = natives::<F>(&arguments[0]);
        let nulls = arguments[0].nulls().filter(|nulls| nulls.null_count() > 0);
        match (assigned, nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs {
                    self.groups[run.group as usize].extend_from_slice(&values[run.start..run.end]);
                    self.values += run.end - run.start;
                }
            }
            _ => assigned.each(nulls, |group, row| {
                self.groups[group].push(values[row]);
                self.values += 1;
            }),
        }
        Ok(())
    }

    fn heap_bytes(&self) -> usize {
        // A list that grows holds up to twice what is in it.
        2 * size_of::<F>() * self.values
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<Median<F>>(other)?;
        self.values += other.values;
        for (group, values) in groups.iter().zip(other.groups) {
            let ours = &mut self.groups[*group as usize];
            if ours.is_empty() {
                *ours = values;
            } else {
                ours.extend(values);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        let threads = parallel::threads_for(self.values, 0, self.threads);
        let nulls = NullBuffer::from_iter(self.groups.iter().map(|values| !values.is_empty()));
        let mut groups: Vec<(usize, Vec<F>)> = self.groups.into_iter().enumerate().collect();
        if threads > 1 {
            // The largest first, so that no thread is left with one at the end.
            groups.sort_by_key(|(_, values)| Reverse(values.len()));
        }
        let mut medians = vec![F::default(); groups.len()];
        let found =
            parallel::each_of(shares(groups, self.values / (SHARES * threads)).into_iter(), threads, |groups| {
                Ok(groups.into_iter().map(|(group, values)| (group, median(values))).collect::<Vec<_>>())
            })?;
        found.into_iter().flatten().for_each(|(group, median)| medians[group] = median.unwrap_or_default());
        array_of(medians, Some(nulls).filter(|nulls| nulls.null_count() > 0), &F::DATA_TYPE)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Splits groups into shares of more than `values` values each.
fn shares<F>(groups: Vec<(usize, Vec<F>)>, values: usize) -> Vec<Vec<(usize, Vec<F>)>> {
    let mut shares: Vec<Vec<(usize, Vec<F>)>> = Vec::new();
    let mut share_values = usize::MAX;
    for group in groups {
        if share_values > values {
            share_values = 0;
            shares.push(Vec::new());
        }
        share_values += group.1.len();
        if let Some(share) = shares.last_mut() {
            share.push(group);
        }
    }
    shares
}

fn median<F: MedianFloat>(values: Vec<F>) -> Option<F> {
    // Whole numbers with the order of the floats are compared faster.
    let mut keys: Vec<F::Key> = values.into_iter().map(TotalOrder::key).collect();
    let middle = keys.len() / 2;
    if keys.is_empty() {
        return None;
    }
    let odd = keys.len() % 2 == 1;
    let (below, upper, _) = keys.select_nth_unstable(middle);
    let upper = F::from_key(*upper);
    if odd {
        return Some(upper);
    }
    below.iter().max().map(|lower| F::from_key(*lower).middle(upper))
}

impl Pair {
    /// Correlation or covariance; `None` of too few pairs.
    pub(crate) fn relation(&self, function: &AggregateFunction) -> Option<f64> {
        match function {
            AggregateFunction::Covariance { sample } => self.covariance(*sample),
            _ => self.correlation(),
        }
    }
}

/// Pearson's correlation, or covariance. A pair with a null on either side is left out.
#[derive(Debug)]
pub(super) struct PairStatistic {
    groups: Vec<Pair>,
    function: AggregateFunction,
}

impl PairStatistic {
    pub fn new(function: AggregateFunction) -> PairStatistic {
        PairStatistic { groups: Vec::new(), function }
    }
}

impl Accumulator for PairStatistic {
    fn grow(&mut self, groups: usize) {
        self.groups.resize(groups, Pair::default());
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let (left, right) = (arguments[0].as_primitive::<Float64Type>(), arguments[1].as_primitive::<Float64Type>());
        let nulls = NullBuffer::union(left.nulls(), right.nulls()).filter(|nulls| nulls.null_count() > 0);
        match (assigned, &nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs.iter().filter(|run| run.start < run.end) {
                    let rows = run.start..run.end;
                    self.groups[run.group as usize].join(Pair::of(&left.values()[rows.clone()], &right.values()[rows]));
                }
            }
            _ => assigned.each(nulls.as_ref(), |group, row| self.groups[group].add(left.value(row), right.value(row))),
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<PairStatistic>(other)?;
        groups.iter().zip(&other.groups).for_each(|(group, pair)| self.groups[*group as usize].join(*pair));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(self.groups.iter().map(|pair| pair.relation(&self.function)).collect::<Float64Array>()))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Float64Array};

    use super::*;

    /// Threads take the largest groups first; a group without values keeps its place.
    #[test]
    fn medians_of_threads_are_those_of_one() {
        let groups: Vec<u32> = (0..200_000).map(|row| if row % 3 == 0 { 5 } else { 1 + row % 4 }).collect();
        let values: ArrayRef = Arc::new(groups.iter().map(|group| Some(f64::from(*group))).collect::<Float64Array>());
        for threads in [1, 4] {
            let mut medians = Median::<f64>::new(threads);
            medians.grow(7);
            medians.update(&[Arc::clone(&values)], RowGroups::Rows(&groups)).unwrap();
            let found = Box::new(medians).finish().unwrap();
            let expected = [None, Some(1.0), Some(2.0), Some(3.0), Some(4.0), Some(5.0), None];
            assert_eq!(found.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), expected, "{threads}");
        }
    }

    #[test]
    fn moments_join_as_if_seen_together() {
        let values: Vec<f64> = (0..100).map(|value| 1e5 + f64::from(value % 7)).collect();
        let mut joined = Moments::of(&values[..13]);
        joined.join(Moments::of(&values[13..]));
        let mut single = Moments::default();
        values.iter().for_each(|value| single.add(*value));
        assert!((joined.squares() - single.squares()).abs() / single.squares() < 1e-9);
    }

    #[test]
    fn pairs_join_as_if_seen_together() {
        let left: Vec<f64> = (0..100).map(|value| 1e5 + f64::from(value % 7)).collect();
        let right: Vec<f64> = (0..100).map(|value| f64::from(value % 11) - 3.0).collect();
        let mut joined = Pair::of(&left[..13], &right[..13]);
        joined.join(Pair::of(&left[13..], &right[13..]));
        let mut single = Pair::default();
        left.iter().zip(&right).for_each(|(left, right)| single.add(*left, *right));
        assert!((joined.products() - single.products()).abs() < 1e-8);
        assert!((joined.correlation().unwrap() - single.correlation().unwrap()).abs() < 1e-12);
    }

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert_eq!(median::<f64>(vec![]), None);
        assert_eq!(median(vec![1.5f32, 4.0]), Some(2.75));
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(vec![9.0, 1.0, 4.0, 2.0]), Some(3.0));
    }
}
