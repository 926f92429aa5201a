//! The state of a weighted aggregate over a moving window frame: rows are added at the end and removed at the front.
//!
//! Nothing is ever subtracted: a queue of two stacks keeps partial sums, so a frame's answer does not drift and a NaN is
//! gone once its row has left. Each row costs a constant number of additions over its life.

use std::mem::size_of_val;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::Accumulator;

use super::weighted::{Rule, Sums};

/// One window frame.
#[derive(Debug)]
pub(super) struct WeightedFrame {
    rule: Rule,
    /// Sums from each older row to the end of the older part; the front row is last.
    older: Vec<Sums>,
    newer: Vec<Sums>,
    newer_sum: Sums,
}

impl WeightedFrame {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, older: Vec::new(), newer: Vec::new(), newer_sum: Sums::default() }
    }

    fn pop(&mut self) {
        if self.older.is_empty() {
            let mut sum = Sums::default();
            for row in self.newer.drain(..).rev() {
                sum.add(&row);
                self.older.push(sum);
            }
            self.newer_sum = Sums::default();
        }
        self.older.pop();
    }

    fn total(&self) -> Sums {
        let mut total = self.older.last().copied().unwrap_or_default();
        total.add(&self.newer_sum);
        total
    }
}

impl Accumulator for WeightedFrame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (weight, x, both) = self.rule.columns(values)?;
        for row in 0..weight.len() {
            let mut sums = Sums::default();
            if both.as_ref().is_none_or(|both| both.is_valid(row)) {
                sums.add_pair(weight.value(row), x.value(row));
            }
            self.newer_sum.add(&sums);
            self.newer.push(sums);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values.first().map_or(0, |column| column.len())).for_each(|_| self.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.rule.answer(&self.total())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<Sums>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = self.total();
        Ok(vec![total.weighted.into(), total.weight.into(), total.pairs.into()])
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        exec_err!("a window frame has no partial states to merge")
    }
}
