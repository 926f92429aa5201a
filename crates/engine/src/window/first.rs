//! The first rows of each partition, selected without sorting the others.

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use super::WindowCall;
use crate::aggregate::key_numbers;
use crate::binary_op::BinaryOp;
use crate::error::Result;
use crate::frame::{Frame, sort_columns};
use crate::order::first_keys;

/// Most rows of each partition that are picked instead of sorting all.
const FIRST_ROWS_MAX: i64 = 64;

impl WindowCall {
    /// How many rows of each partition are wanted, where that is known and few.
    pub(crate) fn first_rows(&self, constants: &[ArrayRef]) -> Option<usize> {
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

/// Whether a few rows of each partition are all that is wanted.
pub(super) fn wants_few(calls: &[WindowCall], constants: &[ArrayRef]) -> bool {
    matches!(calls, [call] if call.first_rows(constants).is_some())
}

/// The rows that may be among the first of their partition, where those are all that is wanted; `None` if all may be.
pub(super) fn first_rows(frame: &Frame, calls: &[WindowCall], constants: &[ArrayRef]) -> Result<Option<UInt32Array>> {
    match calls {
        [call] => call.first_rows(constants).map_or(Ok(None), |first| candidates(frame, call, first, constants)),
        _ => Ok(None),
    }
}

/// Rows among which those are that come first in their partition, with all that come before them; `None` if all may be.
fn candidates(frame: &Frame, call: &WindowCall, first: usize, constants: &[ArrayRef]) -> Result<Option<UInt32Array>> {
    let columns = sort_columns(frame, &call.order_by, constants)?;
    let Some(keys) = first_keys(&columns) else { return Ok(None) };
    let (groups, count) = key_numbers(frame, &call.partition_by, constants)?;
    // Where groups have fewer rows on average, nearly all of them pass.
    if count.saturating_mul(first) > frame.len() {
        return Ok(None);
    }
    let bounds = bounds(&groups, &keys, count, first);
    let rows = groups.iter().zip(&keys).zip(0..).filter(|((group, key), _)| **key <= bounds[**group as usize]);
    let rows: Vec<u32> = rows.map(|(_, row)| row).collect();
    Ok(Some(rows).filter(|rows| rows.len() < frame.len()).map(UInt32Array::from))
}

/// For each group the greatest of its `first` least keys, or the greatest number if it has fewer rows.
fn bounds(groups: &[u32], keys: &[u64], count: usize, first: usize) -> Vec<u64> {
    let mut bounds = vec![u64::MAX; count];
    // Side by side, because most keys are compared with the bound alone.
    let mut least = vec![u64::MAX; count * first];
    for (group, key) in groups.iter().zip(keys) {
        let (group, bound) = (*group as usize, &mut bounds[*group as usize]);
        if key < bound {
            let least = &mut least[group * first..(group + 1) * first];
            if let Some(greatest) = least.iter_mut().max() {
                *greatest = *key;
            }
            *bound = least.iter().copied().max().unwrap_or(u64::MAX);
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::bounds;

    proptest! {
        #[test]
        fn bounds_are_the_last_of_the_least_keys(
            rows in prop::collection::vec((0u32..4, prop_oneof![0u64..9, Just(u64::MAX)]), 0..60),
            first in 1usize..5,
        ) {
            let (groups, keys): (Vec<u32>, Vec<u64>) = rows.iter().copied().unzip();
            let bounds = bounds(&groups, &keys, 4, first);
            for group in 0..4 {
                let mut own: Vec<u64> = rows.iter().filter(|row| row.0 == group).map(|row| row.1).collect();
                own.sort_unstable();
                prop_assert_eq!(bounds[group as usize], own.get(first - 1).copied().unwrap_or(u64::MAX));
            }
        }
    }
}
