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
//! - Rows of `VALUES` with queries are queries without a table. DataFusion computes such rows while it plans, before any query has run.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, Values, cast, lit};
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
        has_queries |= has_query(expr)?;
        Ok(if has_queries { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_queries {
        return Ok(Transformed::no(node));
    }
    if let LogicalPlan::Values(values) = node {
        return rows_apart(values).map(Transformed::yes);
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

fn has_query(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))))
}

/// The same rows, those with queries each as a query of its own.
fn rows_apart(Values { schema, values }: Values) -> Result<LogicalPlan> {
    let mut inputs: Vec<Arc<LogicalPlan>> = Vec::new();
    let mut plain = Vec::new();
    let with_plain = |plain: &mut Vec<Vec<Expr>>, inputs: &mut Vec<Arc<LogicalPlan>>| {
        if !plain.is_empty() {
            let (schema, values) = (Arc::clone(&schema), std::mem::take(plain));
            inputs.push(Arc::new(LogicalPlan::Values(Values { schema, values })));
        }
    };
    for row in values {
        let mut has_queries = false;
        for value in &row {
            has_queries = has_queries || has_query(value)?;
        }
        if !has_queries {
            plain.push(row);
            continue;
        }
        with_plain(&mut plain, &mut inputs);
        let columns = row.into_iter().zip(schema.fields()).map(|(value, field)| {
            let value = if value.get_type(&schema)? == *field.data_type() {
                value
            } else {
                cast(value, field.data_type().clone())
            };
            Ok(value.alias(field.name()))
        });
        let query = LogicalPlanBuilder::empty(true).project(columns.collect::<Result<Vec<_>>>()?)?.build()?;
        inputs.push(Arc::new(rewritten(query)?.data));
    }
    with_plain(&mut plain, &mut inputs);
    match inputs.as_slice() {
        [one] => Ok(one.as_ref().clone()),
        _ => Ok(LogicalPlan::Union(Union { inputs, schema })),
    }
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
