//! Excludes nulls from equalities above joins whose keys compare null as equal to null.
//!
//! DataFusion 55.2 makes `ON a.k IS NOT DISTINCT FROM b.k` keys of which null equals null, and then takes `WHERE a.v = b.v` for another such key, so
//! that rows come whose `v` are null. If a condition is above such a join, or is its own, each equality in it also says that its value isn't
//! null. Can go once `extract_equijoin_predicate.rs` and `eliminate_cross_join.rs` leave equalities out of the keys of such a join.
//!
//! The other way round it puts inner joins of inner joins together under the keys of the uppermost one, and null doesn't equal null any more. There
//! such a condition is a value, `coalesce(a.k = b.k, a.k IS NULL AND b.k IS NULL)`, which is no key.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::WalkPlan;

/// Keeps null from equalling null in a condition with `=`.
#[derive(Debug)]
pub(crate) struct NullSafeKeys;

impl AnalyzerRule for NullSafeKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_null_safe_keys(&plan)? {
            return Ok(plan);
        }
        Ok(plan.rewrite_steps_up(kept_apart)?.data)
    }

    fn name(&self) -> &str {
        "null_safe_keys"
    }
}

fn kept_apart(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match node {
        LogicalPlan::Filter(filter) if has_null_safe_keys(&filter.input)? => match strict(&filter.predicate) {
            Some(predicate) => Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)),
            None => Transformed::no(LogicalPlan::Filter(filter)),
        },
        LogicalPlan::Join(mut join) => {
            let is_chained =
                join.join_type == JoinType::Inner && (is_inner_join(&join.left) || is_inner_join(&join.right));
            if is_chained {
                join.filter = join.filter.map(as_values);
                for side in [&mut join.left, &mut join.right] {
                    if is_inner_join(side) {
                        *side = Arc::new(without_keys(side.as_ref().clone())?);
                    }
                }
            }
            match join.filter.as_ref().and_then(strict) {
                Some(predicate) => {
                    join.filter = Some(predicate);
                    Transformed::yes(LogicalPlan::Join(join))
                }
                None => Transformed::new_transformed(LogicalPlan::Join(join), is_chained),
            }
        }
        other => Transformed::no(other),
    })
}

/// Whether a side of a join is an inner join, possibly filtered, that DataFusion merges with it.
fn is_inner_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => is_inner_join(&filter.input),
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
        _ => false,
    }
}

/// Rewrites an inner join so that conditions that treat nulls as equal are values instead of keys.
fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Filter(filter) => {
            let input = Arc::new(without_keys(filter.input.as_ref().clone())?);
            LogicalPlan::Filter(Filter::try_new(as_values(filter.predicate), input)?)
        }
        LogicalPlan::Join(join) => LogicalPlan::Join(Join { filter: join.filter.map(as_values), ..join }),
        other => other,
    })
}

/// A condition without such keys.
fn as_values(condition: Expr) -> Expr {
    let as_value = |condition| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) => {
            let are_null = left.as_ref().clone().is_null().and(right.as_ref().clone().is_null());
            coalesce(vec![Expr::BinaryExpr(BinaryExpr::new(left, Operator::Eq, right)), are_null])
        }
        other => other,
    };
    let conditions = split_conjunction_owned(condition).into_iter().map(as_value);
    conditions.reduce(Expr::and).unwrap_or_else(|| lit(true))
}

/// Whether some join of a plan has a key that compares null as equal, or would get one from its condition.
fn has_null_safe_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    plan.walk_steps(|step| {
        let is_null_safe = |condition: &Expr| {
            matches!(condition, Expr::BinaryExpr(BinaryExpr { op: Operator::IsNotDistinctFrom, .. }))
        };
        has |= match step {
            LogicalPlan::Join(join) => {
                join.null_equality == NullEquality::NullEqualsNull
                    || join
                        .filter
                        .as_ref()
                        .is_some_and(|filter| split_conjunction(filter).into_iter().any(is_null_safe))
            }
            // A filter's condition may become the condition of a join below it.
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate).into_iter().any(is_null_safe),
            _ => false,
        };
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

/// A condition whose equalities also require that their values aren't null; `None` if all of them do already.
fn strict(condition: &Expr) -> Option<Expr> {
    let mut conditions = split_conjunction_owned(condition.clone());
    let has_not_null = |conditions: &[Expr], value: &Expr| {
        conditions.iter().any(|condition| matches!(condition, Expr::IsNotNull(inner) if inner.as_ref() == value))
    };
    let mut added = Vec::new();
    for condition in &conditions {
        if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, .. }) = condition
            && !has_not_null(&conditions, left)
            && !has_not_null(&added, left)
        {
            added.push(left.as_ref().clone().is_not_null());
        }
    }
    if added.is_empty() {
        return None;
    }
    conditions.extend(added);
    conjunction(conditions)
}
