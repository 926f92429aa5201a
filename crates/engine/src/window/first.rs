//! The first rows of each partition, selected without sorting the others.

use std::collections::BinaryHeap;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use super::WindowCall;
use crate::aggregate::group_rows;
use crate::error::Result;
use crate::expr::BinaryOp;
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
    let rows: Vec<u32> = rows.map(|(_, row)| row).collect();
    Ok(Some(rows).filter(|rows| rows.len() < frame.len()).map(UInt32Array::from))
}
