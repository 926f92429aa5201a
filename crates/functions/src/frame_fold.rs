//! The state of an aggregate over a moving window frame: rows are added at the end and removed at the front.
//!
//! Nothing is ever subtracted: a queue of two stacks keeps partial folds, so a frame's answer does not drift, and a NaN, an
//! infinity or a number that swallows all others is gone once its row has left. Each row costs a constant number of joins over its life.

use std::mem::size_of_val;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::Accumulator;

use crate::folds::{Fold, FoldRule};

/// One window frame.
#[derive(Debug)]
pub(super) struct FrameFold<R: FoldRule> {
    rule: R,
    /// The result's type: floats, or a number of rows.
    result: DataType,
    /// Folds from each older row to the end of the older part; that of the front row is last.
    older: Vec<R::Fold>,
    newer: Vec<R::Fold>,
    of_newer: R::Fold,
}

impl<R: FoldRule> FrameFold<R> {
    pub(super) fn new(rule: R, result: DataType) -> Self {
        Self { rule, result, older: Vec::new(), newer: Vec::new(), of_newer: R::Fold::default() }
    }

    fn pop(&mut self) {
        if self.older.is_empty() {
            let mut behind = R::Fold::default();
            for mut fold in self.newer.drain(..).rev() {
                fold.join(&behind);
                self.older.push(fold);
                behind = fold;
            }
            self.of_newer = R::Fold::default();
        }
        self.older.pop();
    }

    fn total(&self) -> R::Fold {
        let mut total = self.older.last().copied().unwrap_or_default();
        total.join(&self.of_newer);
        total
    }
}

impl<R: FoldRule> Accumulator for FrameFold<R> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let FrameFold { rule, newer, of_newer, .. } = self;
        rule.fold_each(values, |fold| {
            of_newer.join(&fold);
            newer.push(fold);
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values.first().map_or(0, |column| column.len())).for_each(|_| self.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.rule.answer(&self.total())).cast_to(&self.result)
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<R::Fold>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        exec_err!("a window frame has no partial states")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        exec_err!("a window frame has no partial states to merge")
    }
}
