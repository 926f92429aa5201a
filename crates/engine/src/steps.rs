//! The cost of each step of a plan that ran.
//!
//! - A step is identified by its address: a plan doesn't move while it runs, nor while the statement that it belongs to is cached.
//! - A step's time includes that of its inputs; `StepCosts::own` subtracts it.
//! - Memory counts each buffer of a step's rows once, and none that lies in a mapped file. It is measured only on request, because
//!   that visits each column of each piece of rows.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use arrow::array::ArrayData;

use crate::frame::Frame;
use crate::late::FrameColumn;

/// The cost of one step of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCost {
    /// Rows that it produced.
    pub rows: u64,
    /// Its duration, including that of its inputs.
    pub elapsed: Duration,
    /// The size of its rows in bytes, apart from mapped files; `None` if that wasn't measured.
    pub memory_bytes: Option<u64>,
}

/// Identifies a step of a plan, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepId(usize);

impl StepId {
    pub(crate) fn at(address: usize) -> StepId {
        StepId(address)
    }
}

/// The costs of the steps of plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepCosts {
    costs: Vec<(StepId, StepCost)>,
}

impl StepCosts {
    pub(crate) fn add(&mut self, step: StepId, cost: StepCost) {
        self.costs.push((step, cost));
    }

    /// The cost of a step; `None` if another step did its work.
    pub(crate) fn get(&self, step: StepId) -> Option<StepCost> {
        self.costs.iter().find(|(other, _)| *other == step).map(|(_, cost)| *cost)
    }
}

/// The size of frames in bytes: each buffer once, without those in `mapped`, whose ranges are ascending.
pub(crate) fn memory_bytes(frames: &[Frame], mapped: &[Range<usize>]) -> u64 {
    let mut seen = HashSet::new();
    let memory_arrays = frames.iter().flat_map(Frame::columns).flat_map(FrameColumn::memory_arrays);
    memory_arrays.map(|column| data_bytes(&column.to_data(), mapped, &mut seen)).sum()
}

fn data_bytes(data: &ArrayData, mapped: &[Range<usize>], seen: &mut HashSet<usize>) -> u64 {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let own: u64 = data
        .buffers()
        .iter()
        .chain(nulls)
        .filter(|buffer| {
            let start = buffer.data_ptr().as_ptr() as usize;
            !is_within(start, mapped) && seen.insert(start)
        })
        .map(|buffer| buffer.capacity() as u64)
        .sum();
    own + data.child_data().iter().map(|child| data_bytes(child, mapped, seen)).sum::<u64>()
}

/// Whether one of the ranges contains an address.
fn is_within(address: usize, ranges: &[Range<usize>]) -> bool {
    let behind = ranges.partition_point(|range| range.start <= address);
    behind.checked_sub(1).is_some_and(|number| ranges[number].contains(&address))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn a_buffer_counts_once_and_not_at_all_within_a_mapping() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1024));
        let halves = Frame::new(vec![column.slice(0, 512)], 512);
        let rest = Frame::new(vec![column.slice(512, 512), Arc::clone(&column)], 512);
        let frames = [halves, rest];
        assert_eq!(memory_bytes(&frames, &[]), 8192);
        let start = column.to_data().buffers()[0].data_ptr().as_ptr() as usize;
        assert_eq!(memory_bytes(&frames, &[0..1, start..start + 8192]), 0);
        assert_eq!(memory_bytes(&frames, &[start + 8..start + 8192]), 8192);
    }
}
