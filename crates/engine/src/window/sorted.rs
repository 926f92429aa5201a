//! Windows over rows that are brought into the order of the windows first.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{partition, take};
use arrow::datatypes::DataType;
use splay_store::in_form;

use super::in_order::has_same_order;
use super::{WindowCall, of_partitions};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::frame::{Frame, SortKey, sorted_indices};
use crate::run::{Setting, check_memory};

/// The results of each call for the rows of a frame, as these stand.
pub(super) fn in_sorted_order(frame: &Frame, calls: &[WindowCall], setting: &Setting<'_>) -> Result<Vec<ArrayRef>> {
    // The results, what one call looks at, and the rows in order.
    let inputs = calls.iter().map(|call| call.inputs().count() + 1).max().unwrap_or(0);
    let types = calls.iter().map(|call| &call.data_type).chain(std::iter::repeat_n(&DataType::Float64, inputs));
    check_memory(frame.len(), types, setting.memory_bytes / 2)?;
    let mut orders: Vec<(&WindowCall, WindowOrder)> = Vec::new();
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        setting.stop.check()?;
        if call.is_of_partition() {
            match of_partitions(std::slice::from_ref(frame), call, setting) {
                Ok(whole) => {
                    results.extend(whole);
                    continue;
                }
                // Keys that aren't hashed can be sorted.
                Err(Error::Unsupported(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let place = orders.iter().position(|(other, _)| has_same_order(call, other, setting.constants));
        let place = match place {
            Some(place) => place,
            None => {
                orders.push((call, WindowOrder::of(frame, call, setting)?));
                orders.len() - 1
            }
        };
        results.push(orders[place].1.values(frame, call, setting)?);
    }
    Ok(results)
}

/// Where the rows of a frame stand in the order of a window.
struct WindowOrder {
    /// The rows in order, and the place of each row in it, unless they stand in order.
    moved: Option<(UInt32Array, UInt32Array)>,
    /// In that order.
    partitions: Vec<Range<usize>>,
}

impl WindowOrder {
    fn of(frame: &Frame, call: &WindowCall, setting: &Setting<'_>) -> Result<WindowOrder> {
        let by_partition =
            call.partition_by.iter().map(|expr| SortKey { expr: expr.clone(), descending: false, nulls_first: true });
        let keys: Vec<SortKey> = by_partition.chain(call.order_by.iter().cloned()).collect();
        let order = sorted_indices(frame, &keys, None, setting.constants)?;
        let moved = order.map(|order| {
            let places = inverse(&order);
            (order, places)
        });
        let mut order = WindowOrder { moved, partitions: Vec::new() };
        if frame.len() > 0 {
            let keys = order.inputs(frame, call.partition_by.iter(), setting)?;
            order.partitions = match keys.as_slice() {
                [] => std::iter::once(0..frame.len()).collect(),
                keys => partition(&keys.iter().cloned().map(in_form).collect::<Vec<_>>())?.ranges(),
            };
        }
        Ok(order)
    }

    /// The values of some expressions in order.
    fn inputs<'a>(
        &self,
        frame: &Frame,
        exprs: impl Iterator<Item = &'a Expr>,
        setting: &Setting<'_>,
    ) -> Result<Vec<ArrayRef>> {
        let input = |expr: &Expr| {
            let values = expr.evaluate(frame, setting.constants)?.into_array(frame.len())?;
            Ok(match &self.moved {
                None => values,
                Some((order, _)) => take(&values, order, None)?,
            })
        };
        exprs.map(input).collect()
    }

    /// The values of a call for the rows as they stand.
    fn values(&self, frame: &Frame, call: &WindowCall, setting: &Setting<'_>) -> Result<ArrayRef> {
        let inputs = self.inputs(frame, call.inputs(), setting)?;
        let values = call.values(&inputs, &self.partitions, setting.stop)?;
        if values.len() != frame.len() {
            return Err(Error::Function("a result of another length".to_owned()));
        }
        Ok(match &self.moved {
            None => values,
            Some((_, places)) => take(&values, places, None)?,
        })
    }
}

/// For each row where it went.
fn inverse(order: &UInt32Array) -> UInt32Array {
    let mut places = vec![0; order.len()];
    for (place, row) in (0..).zip(order.values()) {
        places[*row as usize] = place;
    }
    places.into()
}
