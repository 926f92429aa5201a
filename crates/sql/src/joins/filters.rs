//! Pushes filters above our joins into their inputs.
//!
//! - A filter on the left's columns alone is applied to the left: it doesn't affect which right row matches.
//! - If it reads only keys, it also holds for the right's keys, and is applied there as well. This lets both scans
//!   skip all other symbols.
//! - A filter that reads a column of the right stays above: below the join it would change which row matches.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::logical_plan::{Extension, Filter};
use datafusion::logical_expr::utils::{check_all_columns_from_schema, conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use splay_functions::walk::Walk;

use super::asof_node::AsofNode;
use super::window_node::WindowNode;

/// The optimizer rule.
#[derive(Debug)]
pub(super) struct FiltersThroughJoins;

impl OptimizerRule for FiltersThroughJoins {
    fn name(&self) -> &str {
        "filters_through_asof_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        through_join(plan)
    }
}

/// A filter above a join of ours, with the parts that can be applied to the inputs below it.
pub(super) fn through_join(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
    let LogicalPlan::Extension(extension) = filter.input.as_ref() else { return Ok(Transformed::no(plan)) };
    let (node, remaining): (Arc<dyn UserDefinedLogicalNode>, _) =
        if let Some(node) = extension.node.as_any().downcast_ref::<AsofNode>() {
            let Some(pushed) = push(&filter.predicate, &node.left, &node.right, &node.keys)? else {
                return Ok(Transformed::no(plan));
            };
            let node = AsofNode { left: pushed.left, right: pushed.right, ..node.clone() };
            (Arc::new(node.with_schema()?), pushed.remaining)
        } else if let Some(node) = extension.node.as_any().downcast_ref::<WindowNode>() {
            let Some(pushed) = push(&filter.predicate, &node.left, &node.right, &node.keys)? else {
                return Ok(Transformed::no(plan));
            };
            let node = WindowNode { left: pushed.left, right: pushed.right, ..node.clone() };
            (Arc::new(node.with_schema()?), pushed.remaining)
        } else {
            return Ok(Transformed::no(plan));
        };
    Ok(Transformed::yes(filtered(&LogicalPlan::Extension(Extension { node }), remaining)?))
}

/// Inputs with filters, and what has to stay above the join.
struct PushedFilters {
    left: LogicalPlan,
    right: LogicalPlan,
    remaining: Vec<Expr>,
}

/// The inputs with those parts of a filter that can be applied to them; `None` if there are none.
fn push(
    predicate: &Expr,
    left: &LogicalPlan,
    right: &LogicalPlan,
    keys: &[(Expr, Expr)],
) -> Result<Option<PushedFilters>> {
    let (mut of_left, mut of_keys, mut remaining) = (Vec::new(), Vec::new(), Vec::new());
    let keys = key_columns(keys);
    for expr in split_conjunction_owned(predicate.clone()) {
        let columns = expr.column_refs();
        let is_left = !columns.is_empty() && check_all_columns_from_schema(&columns, left.schema())?;
        if !is_left || expr.is_volatile() || expr.contains_outer() || has_subquery(&expr) {
            remaining.push(expr);
            continue;
        }
        if columns.iter().all(|column| keys.contains_key(*column)) {
            of_keys.push(with_right_keys(expr.clone(), &keys)?);
        }
        of_left.push(expr);
    }
    if of_left.is_empty() {
        return Ok(None);
    }
    Ok(Some(PushedFilters { left: filtered(left, of_left)?, right: filtered(right, of_keys)?, remaining }))
}

/// Whether an expression holds a sub-query, which may read more columns than can be seen from outside.
fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)))
    };
    // Nothing here fails; if it did, the filter would stay where it is.
    expr.exists(is_subquery).unwrap_or(true)
}

/// The right key of each left key, where both are plain columns.
fn key_columns(keys: &[(Expr, Expr)]) -> HashMap<Column, Expr> {
    let pairs = keys.iter().filter_map(|(left, right)| match (left, right) {
        (Expr::Column(left), Expr::Column(_)) => Some((left.clone(), right.clone())),
        _ => None,
    });
    pairs.collect()
}

fn with_right_keys(expr: Expr, keys: &HashMap<Column, Expr>) -> Result<Expr> {
    let replaced = expr.transform_up(|expr| match &expr {
        Expr::Column(column) => match keys.get(column) {
            Some(right) => Ok(Transformed::yes(right.clone())),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(replaced.data)
}

fn filtered(plan: &LogicalPlan, filters: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(match conjunction(filters) {
        Some(filter) => LogicalPlan::Filter(Filter::try_new(filter, Arc::new(plan.clone()))?),
        None => plan.clone(),
    })
}
