//! Removes repeated keys from the `ORDER BY` of an aggregate: `first(x ORDER BY t, t DESC)` becomes
//! `first(x ORDER BY t)`.
//!
//! - **The rule.** A key that occurred before is removed, whatever its direction: rows that tie by a key tie by the
//!   same key again.
//! - **The reason.** DataFusion 55.2 counts the keys before it removes repeated ones itself, and panics
//!   (`first_last.rs` of its aggregates), also for `DISTINCT ON`.
//! - **It can go** once DataFusion counts them afterwards.
//!
//! Runs last, when expressions have been simplified.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use splay_functions::walk::{Walk, WalkPlan};

/// Orders rows by each key once.
#[derive(Debug)]
pub(crate) struct OrderOnce;

impl OptimizerRule for OrderOnce {
    fn name(&self) -> &str {
        "order_once"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new_for_projection();
        plan.rewrite_expressions(|expr| {
            let name = names.save(&expr);
            Ok(ordered_once(expr)?.update_data(|expr| name.restore(expr)))
        })
    }
}

fn ordered_once(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let keys = call.params.order_by.len();
        let mut once: Vec<Sort> = Vec::with_capacity(keys);
        for key in call.params.order_by {
            if once.iter().all(|earlier| earlier.expr != key.expr) {
                once.push(key);
            }
        }
        let is_changed = once.len() < keys;
        call.params.order_by = once;
        let call = Expr::AggregateFunction(call);
        Ok(if is_changed { Transformed::yes(call) } else { Transformed::no(call) })
    })
}
