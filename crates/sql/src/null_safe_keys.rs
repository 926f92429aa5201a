//! Excludes nulls from equalities above joins whose keys compare null as equal to null.
//!
//! - **The rule.** In a condition of a join by `IS NOT DISTINCT FROM`, or above such a join, each equality `a.v = b.v`
//!   gets the further condition that its value isn't null.
//! - **The reason.** DataFusion 55.2 makes `ON a.k IS NOT DISTINCT FROM b.k` a join key for which null equals null. It
//!   then makes `WHERE a.v = b.v` another key of the same join, and so returns rows whose `v` are both null.
//! - **It can go** once `extract_equijoin_predicate.rs` and `eliminate_cross_join.rs` of DataFusion keep equalities out
//!   of the keys of such a join.
//!
//! All keys of one join compare nulls in the same way. If a join has an equality beside `a.k IS NOT DISTINCT FROM b.k`,
//! or is one of several joins, which DataFusion may merge, the latter is therefore rewritten to two equalities of
//! values that are never null: `(a.k IS NULL) = (b.k IS NULL) AND coalesce(a.k, 0) = coalesce(b.k, 0)`. Tick plans use
//! these two equalities for every such join, because null equals no key of theirs.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, NullEquality, Result, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::WalkPlan;

/// Keeps null from equalling null in a condition with `=`.
#[derive(Debug)]
pub(crate) struct NullSafeKeys;

impl AnalyzerRule for NullSafeKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        keep_apart(plan)
    }

    fn name(&self) -> &str {
        "null_safe_keys"
    }
}

/// The plan with joins whose keys all compare null in one way. Its types are coerced.
pub(crate) fn keep_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    if has_null_safe_keys(&plan)? { Ok(plan.rewrite_steps_up(kept_apart)?.data) } else { Ok(plan) }
}

fn kept_apart(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match node {
        LogicalPlan::Filter(filter) if has_null_safe_keys(&filter.input)? => match strict(&filter.predicate) {
            Some(predicate) => Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)),
            None => Transformed::no(LogicalPlan::Filter(filter)),
        },
        LogicalPlan::Join(mut join) if join.null_equality == NullEquality::NullEqualsNull => {
            let predicate = join.filter.as_ref().and_then(strict);
            let is_changed = predicate.is_some();
            join.filter = predicate.or(join.filter);
            Transformed::new_transformed(LogicalPlan::Join(join), is_changed)
        }
        LogicalPlan::Join(mut join) => {
            let is_chained =
                join.join_type == JoinType::Inner && (is_inner_join(&join.left) || is_inner_join(&join.right));
            let is_equality =
                |condition: &Expr| matches!(condition, Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }));
            let has_equality = !join.on.is_empty()
                || join.filter.as_ref().is_some_and(|filter| split_conjunction(filter).into_iter().any(is_equality));
            if !is_chained && !has_equality {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            join.filter = join.filter.map(|filter| as_equalities(filter, &join.left, &join.right)).transpose()?;
            if is_chained {
                for side in [&mut join.left, &mut join.right] {
                    if is_inner_join(side) {
                        *side = Arc::new(without_keys(side.as_ref().clone())?);
                    }
                }
            }
            Transformed::yes(LogicalPlan::Join(join))
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

/// An inner join whose conditions that treat nulls as equal are equalities.
fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Filter(filter) => {
            let (left, right) = match filter.input.as_ref() {
                LogicalPlan::Join(join) => (Arc::clone(&join.left), Arc::clone(&join.right)),
                _ => (Arc::clone(&filter.input), Arc::clone(&filter.input)),
            };
            let predicate = as_equalities(filter.predicate, &left, &right)?;
            LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(without_keys(filter.input.as_ref().clone())?))?)
        }
        LogicalPlan::Join(mut join) => {
            join.filter = join.filter.map(|filter| as_equalities(filter, &join.left, &join.right)).transpose()?;
            LogicalPlan::Join(join)
        }
        other => other,
    })
}

/// A condition of a join with equalities in place of `IS NOT DISTINCT FROM`.
fn as_equalities(condition: Expr, left: &LogicalPlan, right: &LogicalPlan) -> Result<Expr> {
    let schema = left.schema().join(right.schema())?;
    let as_equality = |condition| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) => {
            Ok(match null_safe_pairs((&left, &schema), (&right, &schema))? {
                Some([(is_null, other_is_null), (value, other)]) => is_null.eq(other_is_null).and(value.eq(other)),
                // A type without a default: a value, and not a key.
                None => {
                    let are_null = left.clone().is_null().and(right.clone().is_null());
                    coalesce(vec![Expr::eq(*left, *right), are_null])
                }
            })
        }
        other => Ok(other),
    };
    let conditions = split_conjunction_owned(condition).into_iter().map(as_equality).collect::<Result<Vec<_>>>()?;
    Ok(conditions.into_iter().reduce(Expr::and).unwrap_or_else(|| lit(true)))
}

/// Two pairs of values without nulls, both of which are equal where `left IS NOT DISTINCT FROM right`; each expression comes with its schema. `None` for
/// a type that has no value to stand for null.
pub(crate) fn null_safe_pairs(
    (left, of_left): (&Expr, &DFSchema),
    (right, of_right): (&Expr, &DFSchema),
) -> Result<Option<[(Expr, Expr); 2]>> {
    let (left, right) = match left.get_type(of_left)? {
        DataType::Dictionary(_, value) => {
            (left.clone().cast_to(&value, of_left)?, right.clone().cast_to(&value, of_right)?)
        }
        _ => (left.clone(), right.clone()),
    };
    // Any value will do for null: the other pair tells it from itself.
    let Ok(some) = ScalarValue::new_default(&left.get_type(of_left)?) else { return Ok(None) };
    let value = |side: &Expr| coalesce(vec![side.clone(), lit(some.clone())]);
    let values = (value(&left), value(&right));
    Ok(Some([(left.is_null(), right.is_null()), values]))
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
    for value in equated_values(condition) {
        if !has_not_null(&conditions, value) && !has_not_null(&added, value) {
            added.push(value.clone().is_not_null());
        }
    }
    if added.is_empty() {
        return None;
    }
    conditions.extend(added);
    conjunction(conditions)
}

/// The values that a condition holds for only if they equal others, also as `NOT (a <> b OR …)`, which DataFusion writes as equalities.
fn equated_values(condition: &Expr) -> Vec<&Expr> {
    let mut values = Vec::new();
    let mut conditions = vec![(condition, false)];
    while let Some((condition, is_negated)) = conditions.pop() {
        match condition {
            Expr::Not(inner) => conditions.push((inner, !is_negated)),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (op, is_negated) {
                (Operator::And, false) | (Operator::Or, true) => {
                    conditions.extend([(right.as_ref(), is_negated), (left.as_ref(), is_negated)]);
                }
                (Operator::Eq, false) | (Operator::NotEq, true) => values.push(left.as_ref()),
                _ => {}
            },
            _ => {}
        }
    }
    values
}
