//! Bounds constants that are repeated for each row of a batch.
//!
//! `select 'a long text' from trade` copies the text for each row of a batch, and so does a function of a constant
//! and a column. The optimiser folds constant expressions, so this is the last of its rules.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use splay_functions::walk::{Walk, WalkPlan};

use super::growth::constant_bytes;

/// Copies of a batch that may exist at a time: in several streams, and in the operators above them.
const COPIES: u64 = 8;

/// Bytes of constants that are always allowed.
const SMALL: u64 = 1024;

/// Refuses constants that are too large.
#[derive(Debug)]
pub(super) struct BoundConstants;

impl OptimizerRule for BoundConstants {
    fn name(&self) -> &str {
        "bound_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let limit = match super::pool().map(|pool| pool.memory_limit()) {
            Some(MemoryLimit::Finite(limit)) => limit as u64,
            _ => return Ok(Transformed::no(plan)),
        };
        let batch_rows = config.options().execution.batch_size.get();
        let rows = plan.inputs().iter().map(|input| input.max_rows().unwrap_or(batch_rows)).max().unwrap_or(1);
        let bytes_max = limit / COPIES / rows.clamp(1, batch_rows) as u64;
        let mut bytes = 0;
        plan.walk_expressions(|expr| {
            bytes += constants(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        // Constants of a few bytes are allowed in any statement.
        if bytes <= bytes_max.max(SMALL) {
            return Ok(Transformed::no(plan));
        }
        let text = format!("constants of {bytes} bytes stand in each row of a batch, where they may have {bytes_max}");
        Err(DataFusionError::ResourcesExhausted(text))
    }
}

/// Bytes of the constants of an expression, except those that a column is compared with, which aren't repeated.
fn constants(expr: &Expr) -> Result<u64> {
    if let Expr::Literal(value, _) = expr {
        return Ok(wide_bytes(value));
    }
    let (compares, mut bytes) = (compares(expr), 0);
    expr.apply_children(|child| {
        if !(compares && matches!(child, Expr::Literal(_, _))) {
            bytes += constants(child)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

fn compares(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => binary.op != Operator::StringConcat,
        Expr::InList(_) | Expr::Like(_) | Expr::SimilarTo(_) | Expr::Between(_) => true,
        _ => false,
    }
}

/// Bytes of a text or a list; 0 for values that are always small.
fn wide_bytes(value: &ScalarValue) -> u64 {
    match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            text.len() as u64
        }
        value if is_wide(&value.data_type()) => constant_bytes(value),
        _ => 0,
    }
}

fn is_wide(data_type: &DataType) -> bool {
    data_type.is_nested() || data_type.is_binary()
}
