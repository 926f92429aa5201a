//! Correlated queries in `ORDER BY`: `SELECT price FROM trade t ORDER BY (SELECT max(bid) FROM quote q WHERE q.symbol = t.symbol)`.
//!
//! DataFusion 55.2 takes them in the select list alone, and adds no columns to it that only such a query reads. Here the query's value becomes a column
//! below the sort, beside the columns that it reads, and both are left out above it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::logical_plan::{Projection, Sort, Subquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use splay_functions::walk::{Walk, WalkPlan};

/// A sort by columns in the place of correlated queries.
///
/// # Errors
/// A plan error for a query that reads a column which can't be added to what is sorted.
pub(crate) fn sort_by_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(sort) = &node else { return Ok(Transformed::no(node)) };
    let queries = queries(sort)?;
    if queries.is_empty() {
        return Ok(Transformed::no(node));
    }
    let missing = missing(&queries, sort);
    let input = with_columns(&sort.input, &missing)?;
    let mut columns = input.schema().columns();
    let named = |place: usize| format!("__order_{place}");
    let values = queries
        .iter()
        .enumerate()
        .map(|(place, query)| Ok(Expr::ScalarSubquery(reading(query.clone(), &missing)?).alias(named(place))));
    let values = values.collect::<Result<Vec<_>>>()?;
    let mut keys = sort.expr.clone();
    for key in &mut keys {
        let replaced = std::mem::take(&mut key.expr).transform_down(|expr| {
            let place = match &expr {
                Expr::ScalarSubquery(query) => queries.iter().position(|other| other == query),
                _ => None,
            };
            Ok(match place {
                Some(place) => Transformed::yes(Expr::Column(Column::from_name(named(place)))),
                None => Transformed::no(expr),
            })
        })?;
        key.expr = replaced.data;
    }
    let below = LogicalPlanBuilder::from(input).project(columns.iter().cloned().map(Expr::Column).chain(values))?;
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(below.build()?), fetch: sort.fetch });
    columns.truncate(sort.input.schema().fields().len());
    let shown = LogicalPlanBuilder::from(sorted).project(columns.into_iter().map(Expr::Column))?;
    Ok(Transformed::yes(shown.build()?))
}

/// The correlated queries in the keys of a sort, each once.
fn queries(sort: &Sort) -> Result<Vec<Subquery>> {
    let mut queries: Vec<Subquery> = Vec::new();
    for key in &sort.expr {
        key.expr.apply(|expr| {
            if let Expr::ScalarSubquery(query) = expr
                && !query.outer_ref_columns.is_empty()
                && !queries.contains(query)
            {
                queries.push(query.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(queries)
}

/// The columns that queries read and that aren't sorted with.
fn missing(queries: &[Subquery], sort: &Sort) -> Vec<Column> {
    let mut missing: Vec<Column> = Vec::new();
    for reference in queries.iter().flat_map(|query| &query.outer_ref_columns) {
        if let Expr::OuterReferenceColumn(_, column) = reference
            && !sort.input.schema().has_column(column)
            && !missing.contains(column)
        {
            missing.push(column.clone());
        }
    }
    missing
}

fn name_of_missing(place: usize) -> String {
    format!("__read_{place}")
}

/// The rows of a select list with further columns behind it.
fn with_columns(plan: &LogicalPlan, missing: &[Column]) -> Result<LogicalPlan> {
    let Some(first) = missing.first() else { return Ok(plan.clone()) };
    let LogicalPlan::Projection(projection) = plan else { return unknown(first) };
    if let Some(unread) = missing.iter().find(|column| !projection.input.schema().has_column(column)) {
        return unknown(unread);
    }
    let mut columns = projection.expr.clone();
    columns.extend(
        missing.iter().enumerate().map(|(place, column)| Expr::Column(column.clone()).alias(name_of_missing(place))),
    );
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(&projection.input))?))
}

fn unknown<T>(column: &Column) -> Result<T> {
    let name = &column.name;
    plan_err!("a query in ORDER BY reads {name} from around it, which isn't in the select list: select it, too")
}

/// The query with the names that the added columns have.
fn reading(query: Subquery, missing: &[Column]) -> Result<Subquery> {
    if missing.is_empty() {
        return Ok(query);
    }
    let renamed = |expr: Expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(field, column) => match missing.iter().position(|other| *other == column) {
                Some(place) => {
                    let column = Column::from_name(name_of_missing(place));
                    Transformed::yes(Expr::OuterReferenceColumn(field, column))
                }
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            },
            other => Transformed::no(other),
        })
    };
    let references = query.outer_ref_columns.iter().map(|reference| Ok(reference.clone().transform_up(renamed)?.data));
    let outer_ref_columns = references.collect::<Result<Vec<_>>>()?;
    let plan = query.subquery.as_ref().clone();
    let plan = plan.rewrite_steps_up(|step| step.rewrite_expressions(|expr| expr.transform_up(renamed)))?.data;
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, ..query })
}
