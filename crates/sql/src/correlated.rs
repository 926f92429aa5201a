//! Correlated scalar sub-queries that DataFusion 55.2 can't plan: correlated by more than equalities, in their select
//! list, with `LIMIT 1`, or without an aggregate.
//!
//! ```sql
//! SELECT *, (SELECT avg(price) FROM trade b WHERE b.symbol = a.symbol AND b.time < a.time) FROM trade a
//! ```
//!
//! Idea: the outer columns that the query reads are its *domain*: their distinct rows. The domain is joined inside
//! the query, which turns each outer reference into a column; the aggregates are grouped by it, and the outer rows
//! look their values up by it, with null equal to null. A row without a match has the aggregates' result for no rows.
//! `LIMIT 1` is the aggregate `first_value`; a query without an aggregate has that of its only row.
//!
//! A query that is bound by equalities alone is left to DataFusion, which groups it by the columns that they name. Of
//! `b.time::date = a.time::date` it takes the column `b.time`, and so gives each row as many times as that has values
//! in a day: what the query computes for an equality becomes a column first. So does a column that is compared in
//! another type than its own, `b.number = a.price`.
//!
//! Source: Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Aggregate, FetchType, Limit, SkipType, Subquery};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::only_row;
use splay_functions::walk::{Walk, WalkPlan};

use crate::correlated_in::correlated_membership;
use crate::correlated_order::sort_by_columns;
use crate::correlation_domain::Domain;
use crate::nested_correlation::has_nested_correlation;
use crate::plan_rewrite::rewritten;
use crate::pushdown::is_text;
use crate::subquery_plans::{has_column_of, is_aggregate, is_volatile};

/// Joins values by what their queries read from around them, before types are coerced.
#[derive(Debug)]
pub(crate) struct JoinCorrelated;

impl AnalyzerRule for JoinCorrelated {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut number = 0;
        let plan = plan.rewrite_steps_up(correlated_membership)?.data;
        let plan = plan.rewrite_steps_up(sort_by_columns)?.data;
        let plan = rewritten(plan, |node, _| lateral_bound_by_columns(node), |expr, _| value_bound_by_columns(expr))?;
        Ok(plan.rewrite_steps_up(|node| join_correlated(node, &mut number))?.data)
    }

    fn name(&self) -> &str {
        "join_correlated"
    }
}

/// A query, as a value, whose equalities with outer columns are of its own columns.
fn value_bound_by_columns(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(query) => bound_by_columns(query)?.map_data(|query| Ok(Expr::ScalarSubquery(query))),
        other => Ok(Transformed::no(other)),
    }
}

/// The same of a query in `FROM` that reads columns of what stands before it.
fn lateral_bound_by_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Subquery(query) => bound_by_columns(query)?.map_data(|query| Ok(LogicalPlan::Subquery(query))),
        other => Ok(Transformed::no(other)),
    }
}

fn bound_by_columns(query: Subquery) -> Result<Transformed<Subquery>> {
    if query.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(query));
    }
    let plan = query.subquery.as_ref().clone().rewrite_steps_up(with_equal_columns)?;
    Ok(plan.update_data(|plan| query.with_plan(Arc::new(plan))))
}

/// A filter over further columns, which are what the query's side of its equalities computes.
fn with_equal_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
    let schema = filter.input.schema();
    let mut computed: Vec<Expr> = Vec::new();
    let mut column_of = |own: &Expr| {
        let place = computed.iter().position(|one| one == own).unwrap_or_else(|| {
            computed.push(own.clone());
            computed.len() - 1
        });
        Expr::Column(Column::from_name(format!("__equal_{place}")))
    };
    let conditions = split_conjunction(&filter.predicate).into_iter().map(|condition| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_equality(condition) => {
            match (computed_side(left, right, schema), computed_side(right, left, schema)) {
                (Some(left), _) => column_of(&left).eq(right.as_ref().clone()),
                (_, Some(right)) => left.as_ref().clone().eq(column_of(&right)),
                _ => condition.clone(),
            }
        }
        other => other.clone(),
    });
    let conditions: Vec<Expr> = conditions.collect();
    if computed.is_empty() {
        return Ok(Transformed::no(node));
    }
    let columns = schema.columns().into_iter().map(Expr::Column);
    let computed = computed.into_iter().enumerate().map(|(place, own)| own.alias(format!("__equal_{place}")));
    let input = LogicalPlanBuilder::from(filter.input.as_ref().clone()).project(columns.chain(computed))?;
    match conjunction(conditions) {
        Some(predicate) => Ok(Transformed::yes(input.filter(predicate)?.build()?)),
        None => Ok(Transformed::no(node)),
    }
}

/// What a query computes for its side of an equality with an outer column; `None` if that is a column of the type in which the two are compared.
fn computed_side(own: &Expr, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !other.contains_outer() || own.column_refs().is_empty() || own.is_volatile() {
        return None;
    }
    let own_type = own.get_type(schema).ok()?;
    let compared = comparison_coercion(&own_type, &other.get_type(schema).ok()?)?;
    match own {
        // A symbol and a text are compared as they are.
        Expr::Column(_) if compared == own_type || is_text(&own_type) => None,
        Expr::Column(_) => own.clone().cast_to(&compared, schema).ok(),
        computed => Some(computed.clone()),
    }
}

fn join_correlated(node: LogicalPlan, number: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let has_columns_of_input = match node {
        LogicalPlan::Filter(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => false,
        _ => return Ok(Transformed::no(node)),
    };
    let subqueries = queries(&node)?;
    let mut input = match node.inputs().as_slice() {
        [input] if !subqueries.is_empty() => (*input).clone(),
        _ => return Ok(Transformed::no(node)),
    };
    let columns = input.schema().columns();
    let mut values = Vec::with_capacity(subqueries.len());
    for query in subqueries {
        *number += 1;
        match looked_up(&input, &query, *number)? {
            Some((with_value, value)) => {
                input = with_value;
                values.push((Expr::ScalarSubquery(query), value));
            }
            // DataFusion reports the fault.
            None => return Ok(Transformed::no(node)),
        }
    }
    let names = NamePreserver::new(&node);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|expr| {
            Ok(match values.iter().find(|(query, _)| *query == expr) {
                Some((_, value)) => Transformed::yes(value.clone()),
                None => Transformed::no(expr),
            })
        });
        Ok(name.restore(replaced?.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let node = node.with_new_exprs(exprs, vec![input])?;
    let node = match has_columns_of_input {
        true => LogicalPlanBuilder::from(node).project(columns.into_iter().map(Expr::Column))?.build()?,
        false => node,
    };
    Ok(Transformed::yes(node))
}

/// The queries of a step that DataFusion can't plan, each once; within aggregates all queries.
fn queries(node: &LogicalPlan) -> Result<Vec<Subquery>> {
    let is_aggregated = matches!(node, LogicalPlan::Aggregate(_));
    let mut subqueries: Vec<Subquery> = Vec::new();
    node.walk_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::ScalarSubquery(query) = expr
                && !query.outer_ref_columns.is_empty()
                && !subqueries.contains(query)
                && (is_aggregated
                    || !is_aggregate(&query.subquery)
                    || !is_bound_by_equalities(&query.subquery)?
                    || has_outer_names(query)?)
            {
                subqueries.push(query.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(subqueries)
}

/// Whether a query has columns by the names of those that it reads from around it: DataFusion would confuse them.
fn has_outer_names(query: &Subquery) -> Result<bool> {
    let mut outer = query.outer_ref_columns.iter().filter_map(|reference| match reference {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    has_column_of(&query.subquery, &mut outer)
}

/// Whether every outer column is equated with a column of the query, by which DataFusion can group it.
fn is_bound_by_equalities(plan: &LogicalPlan) -> Result<bool> {
    let mut is_bound = true;
    plan.walk_steps(|step| {
        is_bound &= match step {
            LogicalPlan::Limit(_) => false,
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate).into_iter().all(is_equality),
            step => !step.contains_outer_reference(),
        };
        Ok(if is_bound { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_bound)
}

/// Whether a condition reads no outer column, or equates one with a column of the query.
fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return !condition.contains_outer();
    };
    match (left.contains_outer(), right.contains_outer()) {
        (true, true) => false,
        (true, false) => left.column_refs().is_empty(),
        (false, true) => right.column_refs().is_empty(),
        (false, false) => true,
    }
}

/// The outer rows joined with the query's value for each, and the expression of that value; `None` for unsupported forms.
fn looked_up(input: &LogicalPlan, query: &Subquery, number: usize) -> Result<Option<(LogicalPlan, Expr)>> {
    let mut outer: Vec<Column> = Vec::new();
    for reference in &query.outer_ref_columns {
        match reference {
            Expr::OuterReferenceColumn(_, column) if input.schema().has_column(column) => {
                if !outer.contains(column) {
                    outer.push(column.clone());
                }
            }
            _ => return Ok(None),
        }
    }
    let relation = format!("__correlated_{number}");
    if outer.is_empty() || has_nested_correlation(&query.subquery)? || is_volatile(input)? {
        return Ok(None);
    }
    let Some(Value { input: below, aggregates, columns }) = value_of(&query.subquery, &relation)? else {
        return Ok(None);
    };
    let [value] = columns.as_slice() else { return Ok(None) };
    let domain = Domain::new(input, outer, format!("__outer_{number}"))?;
    let Some(below) = domain.below(&below)? else { return Ok(None) };
    let aggregates = aggregates.into_iter().map(|aggregate| domain.bound(aggregate)).collect::<Result<Vec<_>>>()?;
    let grouped = LogicalPlanBuilder::from(below).aggregate(domain.columns(), aggregates)?.build()?;
    let keys = domain.outer.len();
    let named = grouped.schema().columns().into_iter().enumerate().map(|(place, column)| {
        let name = if place < keys { key(place) } else { result(place - keys) };
        Expr::Column(column).alias(name)
    });
    let named: Vec<Expr> = named.collect();
    let values = LogicalPlanBuilder::from(grouped).project(named)?.alias(relation.clone())?.build()?;
    let own: Vec<Column> = (0..keys).map(|place| Column::new(Some(relation.clone()), key(place))).collect();
    let with_value = LogicalPlanBuilder::from(input.clone())
        .join_detailed(values, JoinType::Left, (domain.outer, own), None, NullEquality::NullEqualsNull)?
        .build()?;
    Ok(Some((with_value, value.clone())))
}

fn key(place: usize) -> String {
    format!("c{place}")
}

fn result(place: usize) -> String {
    format!("v{place}")
}

/// A query of one row: aggregates of the rows of a plan, and expressions over them.
struct Value {
    input: LogicalPlan,
    aggregates: Vec<Expr>,
    /// Columns of the query, over the outer rows with the aggregates.
    columns: Vec<Expr>,
}

fn value_of(plan: &LogicalPlan, relation: &str) -> Result<Option<Value>> {
    match plan {
        plan if !is_aggregate(plan) && !is_first(plan)? => Ok(Some(only(plan, relation))),
        LogicalPlan::SubqueryAlias(alias) => value_of(&alias.input, relation),
        LogicalPlan::Projection(projection) => {
            let Some(value) = value_of(&projection.input, relation)? else { return Ok(None) };
            let over = |expr: &Expr| over(expr.clone(), projection.input.schema(), &value.columns);
            let columns = projection.expr.iter().map(over).collect::<Result<_>>()?;
            Ok(Some(Value { columns, ..value }))
        }
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            of_aggregate(aggregate, relation).map(Some)
        }
        LogicalPlan::Limit(limit) if is_of_one(limit)? => first_row(&limit.input, relation).map(Some),
        _ => Ok(None),
    }
}

/// An expression over other columns, with the query's outer columns in place.
fn over(expr: Expr, schema: &DFSchema, columns: &[Expr]) -> Result<Expr> {
    let replaced = expr.unalias().transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(columns[schema.index_of_column(&column)?].clone()),
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    });
    Ok(replaced?.data)
}

fn of_aggregate(aggregate: &Aggregate, relation: &str) -> Result<Value> {
    let columns =
        aggregate.aggr_expr.iter().zip(aggregate.schema.fields()).enumerate().map(|(place, (expr, field))| {
            let column = Expr::Column(Column::new(Some(relation.to_owned()), result(place)));
            let of_no_rows = match expr.clone().unalias() {
                Expr::AggregateFunction(call) => call.func.default_value(field.data_type())?,
                _ => return Ok(column),
            };
            match of_no_rows.is_null() {
                true => Ok(column),
                false => when(column.clone().is_null(), lit(of_no_rows)).otherwise(column),
            }
        });
    let columns = columns.collect::<Result<_>>()?;
    Ok(Value { input: aggregate.input.as_ref().clone(), aggregates: aggregate.aggr_expr.clone(), columns })
}

fn is_of_one(limit: &Limit) -> Result<bool> {
    let skips_none = matches!(limit.get_skip_type()?, SkipType::Literal(0));
    Ok(skips_none && matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1))))
}

/// Whether a query returns only its first row.
fn is_first(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_first(&alias.input),
        LogicalPlan::Projection(projection) => is_first(&projection.input),
        LogicalPlan::Limit(limit) => is_of_one(limit),
        _ => Ok(false),
    }
}

/// The only row of a plan of one column.
fn only(plan: &LogicalPlan, relation: &str) -> Value {
    let value = Expr::Column(plan.schema().columns().swap_remove(0));
    let columns = vec![Expr::Column(Column::new(Some(relation.to_owned()), result(0)))];
    Value { input: plan.clone(), aggregates: vec![only_row(value)], columns }
}

/// The first row of a plan of one column.
fn first_row(plan: &LogicalPlan, relation: &str) -> Result<Value> {
    let (value, sorted) = match plan {
        LogicalPlan::Projection(projection) if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) => {
            (projection.expr.first().cloned().map(Expr::unalias), projection.input.as_ref())
        }
        plan => (None, plan),
    };
    let (input, keys) = match sorted {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.input.as_ref(), sort.expr.clone()),
        plan => (plan, Vec::new()),
    };
    let value = value.unwrap_or_else(|| Expr::Column(input.schema().columns().swap_remove(0)));
    let columns = vec![Expr::Column(Column::new(Some(relation.to_owned()), result(0)))];
    Ok(Value { input: input.clone(), aggregates: vec![first_value(value, keys)], columns })
}
