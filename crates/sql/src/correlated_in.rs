//! `x IN (SELECT y …)` of queries that read columns from around them. DataFusion 55.2 looks for a null among all rows of such a query, or
//! for none, and takes the aggregates of no rows for no row.
//!
//! | | in its place |
//! | --- | --- |
//! | `x IN (SELECT max(y) …)`, of one row, and `NOT IN` | `x = (SELECT max(y) …)`, `<>` |
//! | `x NOT IN (SELECT y …)` as a condition | no row of the query with `y = x`, none with `y IS NULL`, and none at all if `x IS NULL` |
//! | either as a value | true if a row has `y = x`; else null if one has `y IS NULL`, or there is one and `x IS NULL`; else false |
//!
//! If a relation of the query has the name of one around it that `x` is a column of, `y = x` would be read as an equality within the query, once the
//! two are joined. Such memberships are values, whose outer columns get other names (`correlated.rs`).
//!
//! Each of these looks rows up by what they equal, where a comparison that may be null would have to meet all rows of the query.
//! `x IN (SELECT y …)` as a condition is right as it is.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{Distinct, Filter, Subquery};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};
use splay_functions::walk::Walk;

use crate::subquery_plans::{has_column_of, is_aggregate, is_any};

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
        let reads_outer = !negated && reads_outer_value(membership)?;
        let is_hidden = (negated || reads_outer) && is_hidden_within(membership)?;
        if values.contains(membership) || is_aggregate(&membership.subquery.subquery) || is_hidden {
            let value = membership_value(membership, &schema)?;
            let is_inverted = negated != membership.negated;
            return Ok(Transformed::yes(if is_inverted { Expr::Not(Box::new(value)) } else { value }));
        }
        if !negated {
            // `NOT (x NOT IN …)`, too, and what is within it isn't a condition by itself.
            let membership = match reads_outer {
                true => Expr::Exists(rows_that_count(membership, &schema)?.equal),
                false => Expr::InSubquery(with_named_value(membership)?),
            };
            return Ok(Transformed::new(membership, true, TreeNodeRecursion::Jump));
        }
        check_rows(&membership.subquery.subquery)?;
        Ok(Transformed::yes(no_row_may_equal(membership, &schema)?))
    })?;
    let filter = |predicate| Filter::try_new(predicate, Arc::clone(&filter.input)).map(LogicalPlan::Filter);
    rewritten.map_data(filter)
}

/// Whether a column of the value looked for has the name of a column within the query.
fn is_hidden_within(membership: &InSubquery) -> Result<bool> {
    let columns = membership.expr.column_refs();
    has_column_of(&membership.subquery.subquery, &mut columns.into_iter())
}

/// Whether the select list of a membership's query computes its value with columns from around it.
fn reads_outer_value(membership: &InSubquery) -> Result<bool> {
    Ok(selected(&membership.subquery.subquery)?.is_some_and(|(_, value)| value.contains_outer()))
}

/// A membership whose value has a name of its own. DataFusion compares it in another type under its name, and then finds two columns of one name.
fn with_named_value(membership: &InSubquery) -> Result<InSubquery> {
    let query = &membership.subquery;
    let value = Expr::Column(query.subquery.schema().columns().swap_remove(0)).alias("__member");
    let plan = LogicalPlanBuilder::from(query.subquery.as_ref().clone()).project([value])?.build()?;
    Ok(InSubquery { negated: false, subquery: query.with_plan(Arc::new(plan)), ..membership.clone() })
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

/// A membership in a correlated query as a value: the query's own equality if it has one row; else whether there are rows that make it true or null.
pub(crate) fn membership_value(membership: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery { expr, subquery, negated } = membership;
    if is_aggregate(&subquery.subquery) {
        let (x, row) = (expr.as_ref().clone(), Expr::ScalarSubquery(subquery.clone()));
        return Ok(if *negated { x.not_eq(row) } else { x.eq(row) });
    }
    if check_rows(&subquery.subquery).is_err() || is_hidden_within(membership)? {
        return value_of_all_rows(membership, schema);
    }
    let Rows { equal, unknown } = rows_that_count(membership, schema)?;
    let is_any = |exists| is_any(&exists).map(Expr::ScalarSubquery);
    let null = lit(ScalarValue::Boolean(None));
    let mut value = when(is_any(equal)?, lit(!negated));
    for (condition, rows) in unknown {
        let is_any = is_any(rows)?;
        value.when(condition.map_or(is_any.clone(), |condition| condition.and(is_any)), null.clone());
    }
    value.otherwise(lit(*negated))
}

/// The same by an aggregate of the equalities of all rows of a query, also of one that can't be asked for some of its rows.
fn value_of_all_rows(membership: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery { subquery, negated, .. } = membership;
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
    let Rows { equal, unknown } = rows_that_count(membership, schema)?;
    let none = |rows: Exists| Expr::Exists(Exists { negated: true, ..rows });
    let unknown = unknown.into_iter().map(|(condition, rows)| match condition {
        Some(condition) => Expr::Not(Box::new(condition)).or(none(rows)),
        None => none(rows),
    });
    Ok(unknown.fold(none(equal), Expr::and))
}

/// Rows of a membership's query that decide it.
struct Rows {
    /// Those with the value looked for.
    equal: Exists,
    /// Those for which it is null, and under which condition.
    unknown: Vec<(Option<Expr>, Exists)>,
}

fn rows_that_count(membership: &InSubquery, schema: &DFSchema) -> Result<Rows> {
    let query = &membership.subquery;
    let (rows, value) = match selected(&query.subquery)? {
        Some((rows, value)) => (rows.clone(), value),
        None => (query.subquery.as_ref().clone(), Expr::Column(query.subquery.schema().columns().swap_remove(0))),
    };
    let exists = |plan, outer_ref_columns| {
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: query.spans.clone() };
        Exists { subquery, negated: false }
    };
    let (outer, all_outer_ref_columns) = as_outer(membership, schema)?;
    let mut unknown = Vec::new();
    if value.nullable(rows.schema())? {
        unknown.push((None, exists(filtered(&rows, value.clone().is_null())?, query.outer_ref_columns.clone())));
    }
    if membership.expr.nullable(schema)? {
        let is_null = membership.expr.as_ref().clone().is_null();
        unknown.push((Some(is_null), exists(rows.clone(), query.outer_ref_columns.clone())));
    }
    Ok(Rows { equal: exists(filtered(&rows, value.eq(outer))?, all_outer_ref_columns), unknown })
}

/// The rows of a plan for which a condition holds, too.
fn filtered(rows: &LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    let (condition, input) = match rows {
        LogicalPlan::Filter(filter) => (filter.predicate.clone().and(condition), Arc::clone(&filter.input)),
        rows => (condition, Arc::new(rows.clone())),
    };
    Filter::try_new(condition, input).map(LogicalPlan::Filter)
}

/// A predicate in which each `x IN (SELECT y …)` and `NOT IN` of a query that reads columns from around it is an `EXISTS`, for a plan that knows only
/// this one. Where null isn't as good as false, and of queries that do more than select, it stays.
pub(crate) fn as_exists(predicate: &Expr, schema: &DFSchema) -> Result<Expr> {
    let (membership, negated) = match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (as_exists(left, schema)?, as_exists(right, schema)?);
            return Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))));
        }
        Expr::InSubquery(membership) => (membership, membership.negated),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(membership) => (membership, !membership.negated),
            _ => return Ok(predicate.clone()),
        },
        _ => return Ok(predicate.clone()),
    };
    let is_selection = is_correlated(membership) && selected(&membership.subquery.subquery)?.is_some();
    if !is_selection || is_hidden_within(membership)? {
        return Ok(predicate.clone());
    }
    match negated {
        true => no_row_may_equal(membership, schema),
        false => Ok(Expr::Exists(rows_that_count(membership, schema)?.equal)),
    }
}

/// The rows that a query selects from, if it does no more, with its filter; and its first column in terms of these rows.
fn selected(mut plan: &LogicalPlan) -> Result<Option<(&LogicalPlan, Expr)>> {
    let mut value = Expr::Column(plan.schema().columns().swap_remove(0));
    loop {
        let below: Vec<Expr> = match plan {
            LogicalPlan::Projection(projection) => projection.expr.iter().map(|expr| expr.clone().unalias()).collect(),
            LogicalPlan::Filter(_) | LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::Join(_) => break,
            LogicalPlan::SubqueryAlias(alias) if matches!(*alias.input, LogicalPlan::TableScan(_)) => break,
            LogicalPlan::SubqueryAlias(alias) => alias.input.schema().columns().into_iter().map(Expr::Column).collect(),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                plan = input;
                continue;
            }
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
    }
    Ok((!value.is_volatile()).then_some((plan, value)))
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
