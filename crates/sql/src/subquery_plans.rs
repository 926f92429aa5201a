//! Sub-queries as plans: how many rows they return, what they read, and `EXISTS` as a query of one value.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::logical_plan::{Distinct, FetchType, SkipType, Subquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use splay_functions::walk::{Walk, WalkPlan};

/// Whether a query returns aggregates over all its rows.
pub(crate) fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_aggregate(&alias.input),
        LogicalPlan::Projection(projection) => is_aggregate(&projection.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// Whether a step of a plan gives other values each time that it is computed.
pub(crate) fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut is_volatile = false;
    plan.walk_steps(|step| {
        step.walk_expressions(|expr| {
            is_volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_volatile)
}

/// Whether a step of a plan has one of these columns, by relation and name.
pub(crate) fn has_column_of(plan: &LogicalPlan, columns: &mut dyn Iterator<Item = &Column>) -> Result<bool> {
    let columns: Vec<&Column> = columns.collect();
    plan.exists(|step| Ok(columns.iter().any(|column| step.schema().has_column(column))))
}

/// Whether a plan always returns a row.
pub(crate) fn has_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch != Some(0) && has_row(&sort.input),
        LogicalPlan::Window(window) => has_row(&window.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(values) => !values.values.is_empty(),
        _ => false,
    }
}

/// A scalar query that says whether a query returns a row or, on request, whether it returns none.
pub(crate) fn is_any(exists: &Exists) -> Result<Subquery> {
    let rows = LogicalPlanBuilder::from(some_rows(&exists.subquery.subquery)?.clone());
    let rows = match exists.subquery.outer_ref_columns.is_empty() {
        true => rows.limit(0, Some(1))?,
        false => rows,
    };
    let number = Expr::Column(Column::from_name("rows"));
    let is_any = if exists.negated { number.eq(lit(0i64)) } else { number.gt(lit(0i64)) };
    let plan = rows
        .aggregate(Vec::<Expr>::new(), [count(lit(1i64)).alias("rows")])?
        .project([is_any.alias("is_any")])?
        .build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..exists.subquery.clone() })
}

/// The rows of a query without steps that only change their number or order, as long as one row remains.
fn some_rows(plan: &LogicalPlan) -> Result<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => some_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => some_rows(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => some_rows(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => some_rows(input),
        LogicalPlan::Limit(limit)
            if matches!(limit.get_skip_type()?, SkipType::Literal(0))
                && matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1..))) =>
        {
            some_rows(&limit.input)
        }
        plan => Ok(plan),
    }
}
