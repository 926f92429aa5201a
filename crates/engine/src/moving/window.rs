//! Sums, averages, deviations and counts of the last `n` rows.

use arrow::array::{Array, ArrowPrimitiveType, Float64Array, Int64Array, PrimitiveArray};

use super::slide::slide;
use crate::moments::Moments;

/// The value of a row, or `None` if it is null.
pub(super) fn value_at<T: ArrowPrimitiveType>(x: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    x.is_valid(row).then(|| x.value(row))
}

/// The sum of the last `n` rows; 0 where there is no value.
#[must_use]
pub fn moving_sum(x: &Float64Array, n: usize) -> Float64Array {
    let mut sums = Vec::with_capacity(x.len());
    let at = |row| value_at(x, row).unwrap_or(0.0);
    slide(x.len(), n, 0.0, at, |older, newer| older + newer, |sum| sums.push(sum));
    sums.into()
}

/// The exact sum of the last `n` rows of whole numbers or decimals; 0 where there is no value.
///
/// `None` if one of the sums doesn't fit the type.
#[must_use]
pub fn moving_sum_exact<T: ArrowPrimitiveType>(x: &PrimitiveArray<T>, n: usize) -> Option<PrimitiveArray<T>>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    let mut sums = Vec::with_capacity(x.len());
    let mut fits = true;
    let at = |row| Some(value_at(x, row).map_or(0, Into::into));
    // A partial sum that overflows spoils only the windows that it is a part of.
    let join = |older: Option<i128>, newer: Option<i128>| older?.checked_add(newer?);
    slide(x.len(), n, Some(0), at, join, |sum| {
        let sum = sum.and_then(|sum| T::Native::try_from(sum).ok());
        fits &= sum.is_some();
        sums.push(sum.unwrap_or_default());
    });
    fits.then(|| PrimitiveArray::new(sums.into(), None).with_data_type(x.data_type().clone()))
}

/// The average of the last `n` rows; null where there is no value.
#[must_use]
pub fn moving_average(x: &Float64Array, n: usize) -> Float64Array {
    let mut averages = Vec::with_capacity(x.len());
    let at = |row| value_at(x, row).map_or((0.0, 0.0), |x| (x, 1.0));
    let join = |older: (f64, f64), newer: (f64, f64)| (older.0 + newer.0, older.1 + newer.1);
    slide(x.len(), n, (0.0, 0.0), at, join, |(sum, count)| {
        averages.push((count > 0.0).then(|| sum / count));
    });
    averages.into()
}

/// The number of values among the last `n` rows of a column with these nulls.
#[must_use]
pub fn moving_count(rows: usize, is_valid: impl Fn(usize) -> bool, n: usize) -> Int64Array {
    let mut counts = Vec::with_capacity(rows);
    let mut count = 0_i64;
    for row in 0..rows {
        if n > 0 {
            count += i64::from(is_valid(row));
            count -= row.checked_sub(n).map_or(0, |dropped_row| i64::from(is_valid(dropped_row)));
        }
        counts.push(count);
    }
    counts.into()
}

/// The population deviation of the last `n` rows; null where there is no value, 0 for one.
#[must_use]
pub fn moving_deviation(x: &Float64Array, n: usize) -> Float64Array {
    let mut deviations = Vec::with_capacity(x.len());
    let at = |row| value_at(x, row).map(Moments::one).unwrap_or_default();
    let join = |mut older: Moments, newer| {
        older.join(newer);
        older
    };
    slide(x.len(), n, Moments::default(), at, join, |moments| deviations.push(moments.spread(false, true)));
    deviations.into()
}
