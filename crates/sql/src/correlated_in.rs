//! `x IN (SELECT y …)` of queries that read columns from around them. DataFusion 55.2 looks for a null among all rows of such a query, or
//! for none, and takes the aggregates of no rows for no row.
//!
//! | | in its place |
//! | --- | --- |
//! | `x IN (SELECT max(y) …)`, of one row, and `NOT IN` | `x = (SELECT max(y) …)`, `<>` |
//! | `x NOT IN (SELECT y …)` as a condition | no row of the query for which `x = y` isn't false |
//! | either as a value | an aggregate of the query: true if a row has `x = y`; else null if that is null for a row; else false |
//!
//! `x IN (SELECT y …)` as a condition is right as it is.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{Distinct, Filter, Subquery};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};
use splay_functions::walk::Walk;

use crate::correlated::is_aggregate;

/// A filter with its memberships in such queries in other words.
pub(crate) fn correlated_membership(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
    let values = values_within(&filter.predicate)?;
    let schema = Arc::clone(filter.input.schema());
    let rewritten = filter.predicate.transform_down(|expr| {
        let (membership, negated) = match &expr {
            Expr::InSubquery(membership) => (membership, membership.negated),
            Expr::Not(inner) => match inner.as_ref() {
                Expr::InSubquery(membership) => (membership, !membership.negated),
                _ => return Ok(Transformed::no(expr)),
            },
            _ => return Ok(Transformed::no(expr)),
        };
        if !is_correlated(membership) {
            return Ok(Transformed::no(expr));
        }
        if values.contains(membership) || is_aggregate(&membership.subquery.subquery) {
            let value = membership_value(membership, &schema)?;
            let is_inverted = negated != membership.negated;
            return Ok(Transformed::yes(if is_inverted { Expr::Not(Box::new(value)) } else { value }));
        }
        if !negated {
            // `NOT (x NOT IN …)`, too, and what is within it isn't a condition by itself.
            let membership = Expr::InSubquery(InSubquery { negated: false, ..membership.clone() });
            return Ok(Transformed::new(membership, true, TreeNodeRecursion::Jump));
        }
        check_rows(&membership.subquery.subquery)?;
        Ok(Transformed::yes(no_row_may_equal(membership, &schema)?))
    })?;
    let filter = |predicate| Filter::try_new(predicate, Arc::clone(&filter.input)).map(LogicalPlan::Filter);
    rewritten.map_data(filter)
}

/// Refuses a query that can't be asked for one of its rows: of these a condition that is added to it may leave others than its steps do.
fn check_rows(plan: &LogicalPlan) -> Result<()> {
    let refused =
        |step: &str| plan_err!("IN of a query that reads columns from around it has no {step} where a null counts");
    plan.apply(|step| match step {
        step if step.all_out_ref_exprs().is_empty() => Ok(TreeNodeRecursion::Jump),
        LogicalPlan::Limit(_) => refused("LIMIT"),
        LogicalPlan::Union(_) => refused("UNION"),
        LogicalPlan::Window(_) => refused("window function"),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => refused("HAVING without GROUP BY"),
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}

/// Whether the query of a membership reads columns from around it, and the value that it looks for is one for each row.
pub(crate) fn is_correlated(membership: &InSubquery) -> bool {
    !membership.subquery.outer_ref_columns.is_empty()
        && !membership.expr.is_volatile()
        && !membership.expr.contains_outer()
}

/// A membership in a correlated query as a value: the query's own equality if it has one row, else an aggregate of the equalities of its rows.
pub(crate) fn membership_value(membership: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery { expr, subquery, negated } = membership;
    if is_aggregate(&subquery.subquery) {
        let (x, row) = (expr.as_ref().clone(), Expr::ScalarSubquery(subquery.clone()));
        return Ok(if *negated { x.not_eq(row) } else { x.eq(row) });
    }
    let (equal, outer_ref_columns) = equality(membership, schema)?;
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let value = when(column("is_found"), lit(true))
        .when(column("equalities").lt(column("all_rows")), lit(ScalarValue::Boolean(None)))
        .otherwise(lit(false))?;
    let value = if *negated { Expr::Not(Box::new(value)) } else { value };
    let aggregates = [
        bool_or(equal.clone()).alias("is_found"),
        count(equal).alias("equalities"),
        count(lit(1i64)).alias("all_rows"),
    ];
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), aggregates)?
        .project([value.alias("is_member")])?
        .build()?;
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() }))
}

/// Whether no row of a membership's query has a value that equals the one looked for, or may do so for a null.
fn no_row_may_equal(membership: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let query = &membership.subquery;
    let (equal, outer_ref_columns) = equality(membership, schema)?;
    let rows = LogicalPlanBuilder::from(query.subquery.as_ref().clone()).filter(equal.is_not_false())?.build()?;
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans: query.spans.clone() };
    Ok(Expr::Exists(Exists { subquery, negated: true }))
}

/// A predicate in which each `x IN (SELECT y …)` of a query that reads columns from around it is `EXISTS (SELECT … WHERE … AND y = x)`, for a plan that
/// knows only this one. Where null isn't as good as false, and of queries that do more than select, it stays.
pub(crate) fn as_exists(predicate: &Expr, schema: &DFSchema) -> Result<Expr> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (as_exists(left, schema)?, as_exists(right, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
        }
        Expr::InSubquery(membership) if !membership.negated && is_correlated(membership) => {
            Ok(exists_equal(membership, schema)?.unwrap_or_else(|| predicate.clone()))
        }
        other => Ok(other.clone()),
    }
}

/// Whether a row of a membership's query has the value looked for, as a condition on the rows that its select list reads; `None` if that isn't all.
fn exists_equal(membership: &InSubquery, schema: &DFSchema) -> Result<Option<Expr>> {
    let mut plan = membership.subquery.subquery.as_ref();
    let mut value = Expr::Column(plan.schema().columns().swap_remove(0));
    let filter = loop {
        let below: Vec<Expr> = match plan {
            LogicalPlan::Projection(projection) => projection.expr.iter().map(|expr| expr.clone().unalias()).collect(),
            LogicalPlan::SubqueryAlias(alias) => alias.input.schema().columns().into_iter().map(Expr::Column).collect(),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                plan = input;
                continue;
            }
            LogicalPlan::Filter(filter) => break filter,
            _ => return Ok(None),
        };
        let of = plan.schema();
        value = value
            .transform_up(|part| match part {
                Expr::Column(column) => Ok(Transformed::yes(below[of.index_of_column(&column)?].clone())),
                other => Ok(Transformed::no(other)),
            })?
            .data;
        plan = plan.inputs()[0];
    };
    if value.is_volatile() || value.contains_outer() {
        return Ok(None);
    }
    let (outer, outer_ref_columns) = as_outer(membership, schema)?;
    let rows = Filter::try_new(filter.predicate.clone().and(value.eq(outer)), Arc::clone(&filter.input))?;
    let spans = membership.subquery.spans.clone();
    let subquery = Subquery { subquery: Arc::new(LogicalPlan::Filter(rows)), outer_ref_columns, spans };
    Ok(Some(Expr::Exists(Exists { subquery, negated: false })))
}

/// The comparison of a row of a membership's query with the value looked for, and the outer columns that both read.
fn equality(membership: &InSubquery, schema: &DFSchema) -> Result<(Expr, Vec<Expr>)> {
    let (outer, outer_ref_columns) = as_outer(membership, schema)?;
    let value = Expr::Column(membership.subquery.subquery.schema().columns().swap_remove(0));
    Ok((value.eq(outer), outer_ref_columns))
}

/// The value looked for as the query of a membership reads it, and the outer columns that both read.
fn as_outer(membership: &InSubquery, schema: &DFSchema) -> Result<(Expr, Vec<Expr>)> {
    let InSubquery { expr, subquery, .. } = membership;
    let mut outer_ref_columns = subquery.outer_ref_columns.clone();
    let outer = expr.as_ref().clone().transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let reference = Expr::OuterReferenceColumn(field, column);
            if !outer_ref_columns.contains(&reference) {
                outer_ref_columns.push(reference.clone());
            }
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok((outer.data, outer_ref_columns))
}

/// The memberships within a predicate whose null isn't as good as false: all but those that are conditions by themselves.
pub(crate) fn values_within(predicate: &Expr) -> Result<Vec<InSubquery>> {
    let mut values = Vec::new();
    let mut conditions = vec![(predicate, false)];
    while let Some((condition, is_beside_or)) = conditions.pop() {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let is_beside_or = is_beside_or || *op == Operator::Or;
                conditions.extend([(left.as_ref(), is_beside_or), (right.as_ref(), is_beside_or)]);
            }
            Expr::InSubquery(membership) if !(membership.negated && is_beside_or) => {}
            Expr::Not(inner) if !is_beside_or && matches!(inner.as_ref(), Expr::InSubquery(_)) => {}
            other => {
                other.apply(|part| {
                    if let Expr::InSubquery(membership) = part {
                        values.push(membership.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
    }
    Ok(values)
}
