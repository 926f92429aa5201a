//! Window functions over rows that are first sorted into the order of the windows.
//!
//! Idea: rows are distributed to their partitions by hash and sorted within each by the order keys. The functions run over the sorted columns,
//! and their results are put back to the rows' places. Calls with the same order share one sort.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{SortColumn, partition, take};
use arrow::datatypes::DataType;
use splay_store::in_form;

use super::in_order::has_same_order;
use super::{WindowCall, of_partitions};
use crate::aggregate::key_numbers;
use crate::error::{Error, Result};
use crate::execution_context::{ExecutionContext, check_memory};
use crate::expr::Expr;
use crate::frame::{Frame, SortKey, sort_columns, sorted_indices};
use crate::order::{order_by, stand_in_order_at};
use crate::parallel::{each_of, threads_for};

/// The results of each call for the rows of a frame, as these stand.
pub(super) fn in_sorted_order(
    frame: &Frame,
    calls: &[WindowCall],
    context: &ExecutionContext<'_>,
) -> Result<Vec<ArrayRef>> {
    // The results, what one call looks at, and the rows in order.
    let inputs = calls.iter().map(|call| call.inputs().count() + 1).max().unwrap_or(0);
    let types = calls.iter().map(|call| &call.data_type).chain(std::iter::repeat_n(&DataType::Float64, inputs));
    check_memory(frame.len(), types, context.memory_bytes / 2)?;
    let mut orders: Vec<(&WindowCall, WindowOrder)> = Vec::new();
    let mut places = Vec::with_capacity(calls.len());
    for call in calls {
        context.stop.check()?;
        if call.is_of_partition() {
            match of_partitions(std::slice::from_ref(frame), call, context) {
                Ok(whole) => {
                    places.push(ResultSource::Computed(whole));
                    continue;
                }
                // Keys that aren't hashed can be sorted.
                Err(Error::Unsupported(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let place = orders.iter().position(|(other, _)| has_same_order(call, other, context.constants));
        let place = match place {
            Some(place) => place,
            None => {
                orders.push((call, WindowOrder::of(frame, call, context)?));
                orders.len() - 1
            }
        };
        places.push(ResultSource::In(place));
    }
    let threads = threads_for(frame.len().saturating_mul(calls.len()), 0, context.threads);
    let results = each_of(calls.iter().zip(places), threads, |(call, place)| match place {
        ResultSource::Computed(whole) => Ok(whole),
        ResultSource::In(place) => Ok(vec![orders[place].1.values(frame, call, context)?]),
    })?;
    Ok(results.into_iter().flatten().collect())
}

/// Where the results of a call come from.
enum ResultSource {
    Computed(Vec<ArrayRef>),
    /// The order with a number.
    In(usize),
}

/// The order of a frame's rows in a window.
struct WindowOrder {
    /// The row numbers in that order, and the place of each row in it; `None` if the rows are in order already.
    moved: Option<(UInt32Array, UInt32Array)>,
    /// In that order.
    partitions: Vec<Range<usize>>,
}

impl WindowOrder {
    fn of(frame: &Frame, call: &WindowCall, context: &ExecutionContext<'_>) -> Result<WindowOrder> {
        let keys = sort_columns(frame, &call.order_by, context.constants)?;
        let (groups, count) = match key_numbers(frame, &call.partition_by, context.constants) {
            Ok(grouped) => grouped,
            // Keys that aren't hashed can be sorted.
            Err(Error::Unsupported(_)) => return WindowOrder::by_sort(frame, call, context),
            Err(error) => return Err(error),
        };
        let (mut order, partitions) = dealt(&groups, count);
        if !stand_in_order_at(&keys, &order, &partitions) {
            let of_groups = SortColumn { values: Arc::new(UInt32Array::from(groups)), options: None };
            let columns: Vec<SortColumn> = std::iter::once(of_groups).chain(keys).collect();
            order = order_by(&columns, None, context.threads, context.stop)?.unwrap_or_else(|| all_rows(frame.len()));
        }
        Ok(WindowOrder { moved: moved(order.into()), partitions })
    }

    /// Where the partition keys are sorted, too.
    fn by_sort(frame: &Frame, call: &WindowCall, context: &ExecutionContext<'_>) -> Result<WindowOrder> {
        let by_partition =
            call.partition_by.iter().map(|expr| SortKey { expr: expr.clone(), descending: false, nulls_first: true });
        let keys: Vec<SortKey> = by_partition.chain(call.order_by.iter().cloned()).collect();
        let order = sorted_indices(frame, &keys, None, context.constants)?;
        let mut order = WindowOrder { moved: order.and_then(moved), partitions: Vec::new() };
        if frame.len() > 0 {
            let keys = order.inputs(frame, call.partition_by.iter(), context)?;
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
        context: &ExecutionContext<'_>,
    ) -> Result<Vec<ArrayRef>> {
        let input = |expr: &Expr| {
            let values = expr.evaluate(frame, context.constants)?.into_array(frame.len())?;
            Ok(match &self.moved {
                None => values,
                Some((order, _)) => take(&values, order, None)?,
            })
        };
        exprs.map(input).collect()
    }

    /// The values of a call, in the frame's own order.
    fn values(&self, frame: &Frame, call: &WindowCall, context: &ExecutionContext<'_>) -> Result<ArrayRef> {
        let inputs = self.inputs(frame, call.inputs(), context)?;
        let values = call.values(&inputs, &self.partitions, context.stop)?;
        if values.len() != frame.len() {
            return Err(Error::Function("a result of another length".to_owned()));
        }
        Ok(match &self.moved {
            None => values,
            Some((_, places)) => take(&values, places, None)?,
        })
    }
}

/// Row numbers sorted by group, with the old order within each group, and the range of each group.
fn dealt(groups: &[u32], count: usize) -> (Vec<u32>, Vec<Range<usize>>) {
    let mut next = vec![0usize; count];
    groups.iter().for_each(|group| next[*group as usize] += 1);
    let mut start = 0;
    let partitions = next.iter_mut().map(|next| {
        let rows = std::mem::replace(next, start);
        start += rows;
        start - rows..start
    });
    let partitions: Vec<Range<usize>> = partitions.filter(|rows| !rows.is_empty()).collect();
    let mut order = vec![0; groups.len()];
    for (row, group) in (0..).zip(groups) {
        let next = &mut next[*group as usize];
        order[*next] = row;
        *next += 1;
    }
    (order, partitions)
}

fn all_rows(rows: usize) -> Vec<u32> {
    (0..).take(rows).collect()
}

/// An order of rows, and the place of each row in it; `None` if the rows are in that order already.
fn moved(order: UInt32Array) -> Option<(UInt32Array, UInt32Array)> {
    let stands = order.values().iter().zip(0..).all(|(row, place)| *row == place);
    (!stands).then(|| {
        let places = inverse(&order);
        (order, places)
    })
}

/// The new position of each row.
fn inverse(order: &UInt32Array) -> UInt32Array {
    let mut places = vec![0; order.len()];
    for (place, row) in (0..).zip(order.values()) {
        places[*row as usize] = place;
    }
    places.into()
}
