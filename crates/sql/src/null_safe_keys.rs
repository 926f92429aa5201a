//! Equalities beside keys of a join that null equals null by.
//!
//! DataFusion 55.2 makes `ON a.k IS NOT DISTINCT FROM b.k` keys of which null equals null, and then takes `WHERE a.v = b.v` for another such key, so
//! that rows come whose `v` are null. Where the join has such keys, each equality in its condition also says that its value isn't null. Can go once
//! `extract_equijoin_predicate.rs` leaves equalities of such a join in its condition.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Keeps null from equalling null where a statement says `=`.
#[derive(Debug)]
pub(crate) struct NullSafeKeys;

impl OptimizerRule for NullSafeKeys {
    fn name(&self) -> &str {
        "null_safe_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let Some(filter) = join.filter.take_if(|_| join.null_equality == NullEquality::NullEqualsNull) else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        let mut conditions = split_conjunction_owned(filter);
        let said = |conditions: &[Expr], value: &Expr| {
            conditions.iter().any(|condition| matches!(condition, Expr::IsNotNull(inner) if inner.as_ref() == value))
        };
        let mut added = Vec::new();
        for condition in &conditions {
            if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, .. }) = condition
                && !said(&conditions, left)
                && !said(&added, left)
            {
                added.push(left.as_ref().clone().is_not_null());
            }
        }
        let is_changed = !added.is_empty();
        conditions.extend(added);
        join.filter = conjunction(conditions);
        let join = LogicalPlan::Join(join);
        Ok(if is_changed { Transformed::yes(join) } else { Transformed::no(join) })
    }
}
