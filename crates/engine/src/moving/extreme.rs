//! The greatest and the least value, running and moving, of any type with an order.
//!
//! NaN is above all numbers, as in the `max` and `min` of SQL. Nulls are left out.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::error::ArrowError;

use super::slide::slide;

/// The end of the order: minimum or maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extreme {
    /// The greatest value.
    Greatest,
    /// The least value.
    Least,
}

/// The extreme value among the last `n` rows, null where there is no value. The type is that of `x`.
///
/// # Errors
/// If the type of `x` has no order.
pub fn moving_extreme(x: &ArrayRef, n: usize, extreme: Extreme) -> Result<ArrayRef, ArrowError> {
    let compare = make_comparator(x, x, SortOptions::default())?;
    let better = match extreme {
        Extreme::Greatest => Ordering::Greater,
        Extreme::Least => Ordering::Less,
    };
    let nulls = x.logical_nulls();
    let at = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)).then_some(row);
    let join = |older: Option<usize>, newer: Option<usize>| match (older, newer) {
        (Some(older), Some(newer)) => Some(if compare(older, newer) == better { older } else { newer }),
        (older, newer) => older.or(newer),
    };
    let mut picked = Vec::with_capacity(x.len());
    slide(x.len(), n, None, at, join, |row| picked.push(row.map(|row| row as u64)));
    take(x, &UInt64Array::from(picked), None)
}

/// The extreme value among all rows up to each, null before the first value. The type is that of `x`.
///
/// # Errors
/// If the type of `x` has no order.
pub fn running_extreme(x: &ArrayRef, extreme: Extreme) -> Result<ArrayRef, ArrowError> {
    moving_extreme(x, x.len().max(1), extreme)
}
