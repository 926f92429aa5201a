//! States of an accumulator over blocks of a partition's rows, over pairs of these, over pairs of those, and so on: what any range of rows gives is
//! put together of some of them and of the rows at its ends.
//!
//! A frame that leaves rows out in its middle, or has other bounds for each row, costs the logarithm of its length so. Nothing is subtracted, so that
//! infinities and rounding are those of the rows of the frame. It serves aggregates whose state is a few numbers, whatever the order of the rows.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{concat, take};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// Rows of a block.
const BLOCK_ROWS: usize = 32;

/// Rows of a frame from which on it is put together.
pub(super) const ROWS_MIN: usize = 4 * BLOCK_ROWS;

/// The states of all nodes: those of blocks, then those of pairs of blocks, and so on.
pub(super) struct Blocks {
    /// By column of the state.
    states: Vec<ArrayRef>,
    /// Where the nodes of each level begin among all.
    starts: Vec<usize>,
    /// Rows that full blocks have.
    rows: usize,
}

impl Blocks {
    /// The blocks of `rows` rows. `new` makes an accumulator, and `take_in` adds some of the rows to one.
    pub fn new(
        rows: usize,
        new: impl Fn() -> Result<Box<dyn Accumulator>>,
        take_in: impl Fn(Range<usize>, &mut dyn Accumulator) -> Result<()>,
    ) -> Result<Blocks> {
        let blocks = rows / BLOCK_ROWS;
        let mut level = Vec::with_capacity(blocks);
        for block in 0..blocks {
            let mut state = new()?;
            take_in(block * BLOCK_ROWS..(block + 1) * BLOCK_ROWS, state.as_mut())?;
            level.push(state.state()?);
        }
        let (mut levels, mut starts, mut nodes) = (Vec::new(), Vec::new(), 0);
        while !level.is_empty() {
            let states = columns(&level)?;
            starts.push(nodes);
            nodes += level.len();
            let mut above = Vec::with_capacity(level.len() / 2);
            for pair in 0..level.len() / 2 {
                let mut state = new()?;
                let of_pair: Vec<ArrayRef> = states.iter().map(|column| column.slice(2 * pair, 2)).collect();
                state.merge_batch(&of_pair)?;
                above.push(state.state()?);
            }
            levels.push(states);
            level = above;
        }
        let fields = levels.first().map_or(0, Vec::len);
        let of_field = |field: usize| {
            let levels: Vec<&dyn arrow::array::Array> = levels.iter().map(|columns| columns[field].as_ref()).collect();
            concat(&levels)
        };
        let states = (0..fields).map(of_field).collect::<std::result::Result<_, _>>()?;
        Ok(Blocks { states, starts, rows: blocks * BLOCK_ROWS })
    }

    /// Has an accumulator take in the nodes within some rows; the ranges of those rows that no node has.
    pub fn merge_into(&self, state: &mut dyn Accumulator, rows: Range<usize>) -> Result<[Range<usize>; 2]> {
        let first = rows.start.div_ceil(BLOCK_ROWS);
        let end = rows.end.min(self.rows) / BLOCK_ROWS;
        if first >= end {
            return Ok([rows, 0..0]);
        }
        let nodes = UInt32Array::from(self.nodes(first, end));
        let states = self.states.iter().map(|column| take(column, &nodes, None)).collect::<Result<Vec<_>, _>>()?;
        state.merge_batch(&states)?;
        Ok([rows.start..first * BLOCK_ROWS, end * BLOCK_ROWS..rows.end])
    }

    /// The nodes that have the blocks from one up to another.
    fn nodes(&self, mut from: usize, mut to: usize) -> Vec<u32> {
        let mut nodes = Vec::new();
        for start in &self.starts {
            let number = |node: usize| u32::try_from(start + node).unwrap_or(u32::MAX);
            if from >= to {
                break;
            }
            if from % 2 == 1 {
                nodes.push(number(from));
                from += 1;
            }
            if to % 2 == 1 && from < to {
                to -= 1;
                nodes.push(number(to));
            }
            (from, to) = (from / 2, to / 2);
        }
        nodes
    }
}

/// States as columns.
fn columns(states: &[Vec<ScalarValue>]) -> Result<Vec<ArrayRef>> {
    let fields = states.first().map_or(0, Vec::len);
    let of_field = |field: usize| ScalarValue::iter_to_array(states.iter().map(|state| state[field].clone()));
    (0..fields).map(of_field).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    /// A sum that counts how often it was asked to take something in.
    #[derive(Debug, Default)]
    struct Sum {
        sum: i64,
        batches: usize,
    }

    impl Accumulator for Sum {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            self.batches += 1;
            self.sum += values[0].as_primitive::<Int64Type>().values().iter().sum::<i64>();
            Ok(())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::from(self.sum))
        }

        fn size(&self) -> usize {
            size_of::<Sum>()
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(vec![ScalarValue::from(self.sum)])
        }

        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
            self.update_batch(states)
        }
    }

    proptest! {
        #[test]
        fn any_range_is_put_together(rows in 0usize..900, bounds in prop::collection::vec((0usize..900, 0usize..900), 1..20)) {
            let values: ArrayRef = Arc::new((0..900i64).map(|row| Some(row * row % 101)).collect::<Int64Array>());
            let take_in = |rows: Range<usize>, state: &mut dyn Accumulator| {
                state.update_batch(&[values.slice(rows.start, rows.len())])
            };
            let blocks = Blocks::new(rows, || Ok(Box::new(Sum::default())), take_in).unwrap();
            for (one, other) in bounds {
                let range = one.min(other).min(rows)..one.max(other).min(rows);
                let mut state = Sum::default();
                let rest = blocks.merge_into(&mut state, range.clone()).unwrap();
                let remaining: usize = rest.iter().map(ExactSizeIterator::len).sum();
                prop_assert!(remaining < ROWS_MIN, "{remaining} rows of {range:?}");
                rest.into_iter().for_each(|rows| take_in(rows, &mut state).unwrap());
                let naive: i64 = range.map(|row| values.as_primitive::<Int64Type>().value(row)).sum();
                prop_assert_eq!(state.sum, naive);
            }
        }
    }
}
