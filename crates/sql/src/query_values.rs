//! Queries as values, where DataFusion 55.2 has no plan for them or a wrong one.
//!
//! - `EXISTS (…)` in a select list, in the argument of an aggregate or in a sort key becomes
//!   `(SELECT count(*) > 0 FROM …)`. DataFusion plans `EXISTS` only as a condition of `WHERE`, and an uncorrelated one
//!   there as a comparison of all rows with all rows of the query.
//! - `EXISTS (SELECT max(x) FROM …)` is true, because a query of aggregates without `GROUP BY` always has a row.
//!   DataFusion tests whether there are rows to aggregate.
//! - A correlated `x IN (SELECT …)` is planned as a value (`correlated_in.rs`).
//! - `(SELECT time FROM …)` is null if the query returns no row, even if the column itself has no nulls. DataFusion
//!   infers from the column that the value is never null, so that `coalesce((SELECT time …), x)` was null and
//!   `(SELECT time …) IS NULL` false. A query that may return no row is therefore read by the aggregate of its only
//!   row, which may be null.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::only_row;
use splay_functions::walk::{Walk, WalkPlan};

use crate::correlated_in::{is_correlated, membership_value};
use crate::plan_rewrite::{named, schema_below};
use crate::subquery_plans::{has_row, is_any};

/// Rewrites queries as values, before they are joined and types are coerced.
#[derive(Debug)]
pub(crate) struct QueryValues;

impl AnalyzerRule for QueryValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.rewrite_steps_up(rewritten)?.data)
    }

    fn name(&self) -> &str {
        "query_values"
    }
}

fn rewritten(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_queries = false;
    node.walk_expressions(|expr| {
        let is_query =
            |expr: &Expr| Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_)));
        has_queries |= expr.exists(is_query)?;
        Ok(if has_queries { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_queries {
        return Ok(Transformed::no(node));
    }
    let has_values = matches!(
        node,
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_)
    );
    let schema = schema_below(&node);
    let names = NamePreserver::new(&node);
    let value = |expr: Expr| match expr {
        Expr::Exists(exists) if has_row(&exists.subquery.subquery) => Ok(Transformed::yes(lit(!exists.negated))),
        Expr::InSubquery(membership) if has_values && is_correlated(&membership) => {
            membership_value(&membership, &schema).map(Transformed::yes)
        }
        // As a condition, too, DataFusion compares all rows with all rows of the query.
        Expr::Exists(exists) if has_values || exists.subquery.outer_ref_columns.is_empty() => {
            is_any(&exists).map(|query| Transformed::yes(Expr::ScalarSubquery(query)))
        }
        Expr::ScalarSubquery(query) => match may_be_missing(&query)? {
            true => or_null(query).map(Transformed::yes),
            false => Ok(Transformed::no(Expr::ScalarSubquery(query))),
        },
        other => Ok(Transformed::no(other)),
    };
    node.rewrite_expressions(|expr| named(expr, &names, |expr| expr.transform_down(value)))
}

/// Whether a scalar sub-query may return no row although its column is declared without nulls.
fn may_be_missing(query: &Subquery) -> Result<bool> {
    let fields = query.subquery.schema().fields();
    let is_required = fields.first().is_some_and(|field| !field.is_nullable());
    Ok(is_required && query.outer_ref_columns.is_empty() && !has_row(&query.subquery))
}

/// The query with null in place of no row.
fn or_null(query: Subquery) -> Result<Expr> {
    let (relation, field) = query.subquery.schema().qualified_field(0);
    let (relation, name) = (relation.cloned(), field.name().clone());
    let value = only_row(Expr::Column(Column::new(relation.clone(), name.clone())));
    let value = value.alias("value");
    let plan = LogicalPlanBuilder::from(query.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), [value])?
        .project([Expr::Column(Column::from_name("value")).alias_qualified(relation, name)])?
        .build()?;
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..query }))
}
