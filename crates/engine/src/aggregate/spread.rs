//! Variances, medians and correlations.
//!
//! Variance and correlation accumulate means and sums of squared distances, and merge two parts by the formulas of
//! Chan, Golub and LeVeque (1979), so values far from zero don't cancel.

use std::any::Any;
use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Float64Type};

use super::AggregateFunction;
use super::accumulate::{Accumulator, RowGroups, same};
use super::kernels::{self, TotalOrder};
use crate::error::Result;
use crate::natives::{array_of, natives};
use crate::parallel;

/// Count, mean and sum of squared distances from it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of a single value.
    pub fn one(value: f64) -> Moments {
        // The distance of an infinity from itself is no number, nor is that of NaN.
        Moments { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    /// The variance or its root; `None` of too few values.
    pub fn spread(&self, sample: bool, root: bool) -> Option<f64> {
        let least = if sample { 2.0 } else { 1.0 };
        (self.count >= least).then(|| {
            let variance = self.squares / (self.count - if sample { 1.0 } else { 0.0 });
            if root { variance.sqrt() } else { variance }
        })
    }

    /// How many values.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Their mean; zero of none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The sum of their squared distances from the mean.
    pub fn squares(&self) -> f64 {
        self.squares
    }

    #[inline]
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    fn of(values: &[f64]) -> Moments {
        let count = values.len() as f64;
        let mean = kernels::sum(values) / count;
        Moments { count, mean, squares: kernels::squares(values, mean) }
    }

    /// Joins those of other values.
    #[inline]
    pub fn join(&mut self, other: Moments) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = other;
            return;
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        self.squares += other.squares + distance * distance * self.count * other.count / count;
        self.mean += distance * other.count / count;
        self.count = count;
    }
}

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
pub(super) trait Float: ArrowNativeType + TotalOrder {
    const DATA_TYPE: DataType;

    /// The mean of the middle two.
    fn middle(self, other: Self) -> Self;
}

impl Float for f64 {
    const DATA_TYPE: DataType = DataType::Float64;

    fn middle(self, other: f64) -> f64 {
        (self + other) / 2.0
    }
}

impl Float for f32 {
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

impl<F: Float> Accumulator for Median<F> {
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

    fn held_bytes(&self) -> usize {
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
    let mut held = usize::MAX;
    for group in groups {
        if held > values {
            held = 0;
            shares.push(Vec::new());
        }
        held += group.1.len();
        if let Some(share) = shares.last_mut() {
            share.push(group);
        }
    }
    shares
}

fn median<F: Float>(values: Vec<F>) -> Option<F> {
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

/// Moments of two columns together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pair {
    left: Moments,
    right: Moments,
    products: f64,
}

impl Pair {
    /// That of one row.
    pub fn one(left: f64, right: f64) -> Pair {
        let (left, right) = (Moments::one(left), Moments::one(right));
        Pair { left, right, products: left.squares + right.squares }
    }

    /// The moments of the left column.
    pub fn left(&self) -> &Moments {
        &self.left
    }

    /// The moments of the right column.
    pub fn right(&self) -> &Moments {
        &self.right
    }

    /// The sum of the products of their distances from the means.
    pub fn products(&self) -> f64 {
        self.products
    }

    /// What it is made of: rows, mean and squares of the left column, mean and squares of the right one, products.
    pub fn numbers(&self) -> [f64; 6] {
        let Pair { left, right, products } = self;
        [left.count, left.mean, left.squares, right.mean, right.squares, *products]
    }

    /// That of [`Pair::numbers`].
    pub fn of_numbers([count, left_mean, left_squares, right_mean, right_squares, products]: [f64; 6]) -> Pair {
        let left = Moments { count, mean: left_mean, squares: left_squares };
        Pair { left, right: Moments { count, mean: right_mean, squares: right_squares }, products }
    }

    /// Correlation or covariance; `None` of too few pairs.
    pub(crate) fn relation(&self, function: &AggregateFunction) -> Option<f64> {
        match function {
            AggregateFunction::Covariance { sample } => self.covariance(*sample),
            _ => self.correlation(),
        }
    }

    /// The covariance; `None` of too few pairs.
    pub fn covariance(&self, sample: bool) -> Option<f64> {
        let least = if sample { 2.0 } else { 1.0 };
        (self.left.count >= least).then(|| self.products / (self.left.count - if sample { 1.0 } else { 0.0 }))
    }

    #[inline]
    fn add(&mut self, left: f64, right: f64) {
        let distance = left - self.left.mean;
        self.left.add(left);
        self.right.add(right);
        self.products += distance * (right - self.right.mean);
    }

    fn of(left: &[f64], right: &[f64]) -> Pair {
        let (of_left, of_right) = (Moments::of(left), Moments::of(right));
        let products = kernels::products(left, of_left.mean, right, of_right.mean);
        Pair { left: of_left, right: of_right, products }
    }

    /// Joins that of other rows.
    #[inline]
    pub fn join(&mut self, other: Pair) {
        if other.left.count == 0.0 {
            return;
        }
        if self.left.count > 0.0 {
            let count = self.left.count + other.left.count;
            let distances = (other.left.mean - self.left.mean) * (other.right.mean - self.right.mean);
            self.products += distances * self.left.count * other.left.count / count;
        }
        self.products += other.products;
        self.left.join(other.left);
        self.right.join(other.right);
    }

    /// `None` of fewer than two pairs, or where a column doesn't vary.
    pub fn correlation(&self) -> Option<f64> {
        if self.left.count < 2.0 {
            return None;
        }
        let spread = self.left.squares.sqrt() * self.right.squares.sqrt();
        (spread != 0.0).then(|| self.products / spread)
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
        assert!((joined.squares - single.squares).abs() / single.squares < 1e-9);
    }

    #[test]
    fn pairs_join_as_if_seen_together() {
        let left: Vec<f64> = (0..100).map(|value| 1e5 + f64::from(value % 7)).collect();
        let right: Vec<f64> = (0..100).map(|value| f64::from(value % 11) - 3.0).collect();
        let mut joined = Pair::of(&left[..13], &right[..13]);
        joined.join(Pair::of(&left[13..], &right[13..]));
        let mut single = Pair::default();
        left.iter().zip(&right).for_each(|(left, right)| single.add(*left, *right));
        assert!((joined.products - single.products).abs() < 1e-8);
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
