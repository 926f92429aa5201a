//! Plans `x IN (SELECT y …)` as a value: in a select list, in the argument of an aggregate, and in `ORDER BY`.
//!
//! DataFusion 55.2 plans it only as a condition of `WHERE`, where null has the effect of false. Conditions in which the
//! difference counts are therefore planned here, too: `(x IN (SELECT y …)) IS NULL`, `a OR x NOT IN (SELECT y …)`, and
//! `1 IN (SELECT y …)`, whose nulls DataFusion ignores.
//!
//! The rows are joined twice: with the values of the query, by a mark join, which keeps each row once; and with the
//! query's count of rows and its count of values that aren't null. These determine the result:
//!
//! | | |
//! | --- | --- |
//! | `x` is among the values | true |
//! | the query returns no row | false |
//! | `x` is null, or the query returns a null | null |
//! | otherwise | false |
//!
//! Correlated queries are refused here, and so is a value `x` that changes from call to call, such as `random()`. The
//! aggregates of one grouping may contain only one such expression: DataFusion would give the columns of two the same
//! name, and then refuse the plan.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit, when};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::{Walk, WalkPlan};

use crate::correlated_in::values_within;

/// Joins rows with the queries of their `IN (SELECT …)`, before types are coerced.
#[derive(Debug)]
pub(crate) struct JoinInSelect;

impl AnalyzerRule for JoinInSelect {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut number = 0;
        Ok(plan.rewrite_steps_up(|node| join_in_select(node, &mut number))?.data)
    }

    fn name(&self) -> &str {
        "join_in_select"
    }
}

fn join_in_select(node: LogicalPlan, number: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let is_filter = match node {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) => false,
        LogicalPlan::Filter(_) => true,
        _ => return Ok(Transformed::no(node)),
    };
    let mut subqueries: Vec<InSubquery> = Vec::new();
    let values = match &node {
        LogicalPlan::Filter(filter) => values_within(&filter.predicate)?,
        _ => Vec::new(),
    };
    node.walk_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::InSubquery(subquery) = expr
                && !subqueries.contains(subquery)
                && (!is_filter || is_joined_in_filter(subquery, &values))
            {
                subqueries.push(subquery.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if subqueries.is_empty() {
        return Ok(Transformed::no(node));
    }
    let mut input = match node.inputs().as_slice() {
        [input] => (*input).clone(),
        _ => return Ok(Transformed::no(node)),
    };
    let columns = input.schema().columns();
    let mut values = Vec::with_capacity(subqueries.len());
    for subquery in subqueries {
        *number += 1;
        let (with_mark, value) = looked_up(input, &subquery, *number)?;
        input = with_mark;
        values.push((Expr::InSubquery(subquery), value));
    }
    let names = NamePreserver::new(&node);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|expr| {
            Ok(match values.iter().find(|(subquery, _)| *subquery == expr) {
                Some((_, value)) => Transformed::yes(value.clone()),
                None => Transformed::no(expr),
            })
        });
        Ok(name.restore(replaced?.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    // Rows that are sorted or filtered have the columns of the others.
    let has_columns_of_input = is_filter || matches!(node, LogicalPlan::Sort(_));
    let node = node.with_new_exprs(exprs, vec![input])?;
    Ok(Transformed::yes(match has_columns_of_input {
        true => LogicalPlanBuilder::from(node).project(columns.into_iter().map(Expr::Column))?.build()?,
        false => node,
    }))
}

/// Whether a filter is joined with the values of a query: it needs the value, or looks for one value whatever the row. Only of a query that reads no
/// column from around it.
fn is_joined_in_filter(membership: &InSubquery, values: &[InSubquery]) -> bool {
    let InSubquery { expr, subquery, .. } = membership;
    subquery.outer_ref_columns.is_empty()
        && !expr.is_volatile()
        && !expr.contains_outer()
        && (expr.column_refs().is_empty() || values.contains(membership))
}

/// The input with what says whether its rows are found, and the value of the expression over it.
fn looked_up(input: LogicalPlan, membership: &InSubquery, number: usize) -> Result<(LogicalPlan, Expr)> {
    if !membership.subquery.outer_ref_columns.is_empty() {
        return plan_err!("IN in a select list takes a query that reads no column from around it");
    }
    if membership.expr.is_volatile() {
        return plan_err!("IN in a select list takes a value that stays the same, and not {}", membership.expr);
    }
    let query = membership.subquery.subquery.as_ref();
    let [column]: [Column; 1] = query
        .schema()
        .columns()
        .try_into()
        .or_else(|columns: Vec<Column>| plan_err!("IN takes a query of one column, not of {}", columns.len()))?;
    let (of_values, of_counts) = (format!("__in_{number}"), format!("__in_counts_{number}"));
    let value = Expr::Column(column.clone());
    let values = LogicalPlanBuilder::from(query.clone())
        .project([value.clone().alias("value")])?
        .distinct()?
        .alias(of_values.clone())?
        .build()?;
    let counts = [count(lit(1)).alias("all_rows"), count(value).alias("values")];
    let counts = LogicalPlanBuilder::from(query.clone())
        .aggregate(Vec::<Expr>::new(), counts)?
        .alias(of_counts.clone())?
        .build()?;
    let of = |table: &str, name: &str| Expr::Column(Column::new(Some(table.to_owned()), name));
    let x = membership.expr.as_ref().clone();
    let plan = LogicalPlanBuilder::from(input)
        .join_on(values, JoinType::LeftMark, [x.clone().eq(of(&of_values, "value"))])?
        .cross_join(counts)?
        .build()?;
    let (all, some) = (of(&of_counts, "all_rows"), of(&of_counts, "values"));
    let is_unknown = x.is_null().or(some.lt(all.clone()));
    let is_found = when(of(&of_values, "mark"), lit(true))
        .when(all.eq(lit(0i64)), lit(false))
        .when(is_unknown, lit(ScalarValue::Boolean(None)))
        .otherwise(lit(false))?;
    Ok((plan, if membership.negated { Expr::Not(Box::new(is_found)) } else { is_found }))
}
