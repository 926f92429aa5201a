//! Columns that a sub-query reads from more than one query around it. DataFusion 55.2 plans those of the query next around it alone.
//!
//! ```sql
//! SELECT name FROM desk d WHERE NOT EXISTS (
//!     SELECT 1 FROM venue v WHERE NOT EXISTS (
//!         SELECT 1 FROM trade t WHERE t.venue = v.venue AND t.desk = d.desk))
//! ```
//!
//! Idea: the query between takes the outer columns into its own rows. Its rows are joined with the distinct values of these columns (`v` with all
//! `d.desk`), of which only those of the outer row count, and the inner query reads them there. What the query between compares with the outer columns
//! it then compares within its own rows, so that the join is one by these equalities.
//!
//! A condition that compares with outer columns and has several queries besides, `b.x = a.x OR EXISTS (…) OR b.y IN (…)`, gets these as columns of its
//! rows first: DataFusion calls the columns that tell their results alike, and takes one for all once the condition has left its query.
//!
//! Cost: without such an equality, as many rows as the query between has, for each of the distinct values.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::{Walk, WalkPlan};

use crate::correlation_domain::Domain;
use crate::plan_rewrite::{named, schema_below};
use crate::subquery_plans::is_volatile;

/// Binds each such column in the query next around, before sub-queries are joined.
#[derive(Debug)]
pub(crate) struct BindNestedCorrelation;

impl AnalyzerRule for BindNestedCorrelation {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut number = 0;
        let plan = plan.rewrite_steps_down(|node| bind_in_queries(node, &mut number))?.data;
        Ok(plan.rewrite_steps_down(|node| results_as_columns(node, &mut number))?.data)
    }

    fn name(&self) -> &str {
        "bind_nested_correlation"
    }
}

/// A filter whose conditions with outer columns have the results of several queries as columns of its rows.
fn results_as_columns(node: LogicalPlan, number: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(Filter { predicate, input, .. }) = &node else { return Ok(Transformed::no(node)) };
    let mut queries: Vec<Expr> = Vec::new();
    for condition in split_conjunction(predicate).into_iter().filter(|condition| condition.contains_outer()) {
        condition.apply(|expr| {
            if query_of(expr).is_some() && !queries.contains(expr) {
                queries.push(expr.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if queries.len() < 2 {
        return Ok(Transformed::no(node));
    }
    let name = |query| {
        *number += 1;
        (query, format!("__result_{number}"))
    };
    let results: Vec<(Expr, String)> = queries.into_iter().map(name).collect();
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let named = results.iter().map(|(query, name)| query.clone().alias(name));
    let rows =
        LogicalPlanBuilder::from(input.as_ref().clone()).project(columns.iter().cloned().chain(named))?.build()?;
    let predicate = predicate.clone().transform_down(|expr| {
        Ok(match results.iter().find(|(query, _)| *query == expr) {
            Some((_, name)) => Transformed::yes(Expr::Column(Column::from_name(name))),
            None => Transformed::no(expr),
        })
    })?;
    let filtered = LogicalPlanBuilder::from(rows).filter(predicate.data)?.project(columns)?.build()?;
    Ok(Transformed::yes(filtered))
}

/// Binds columns of a step's rows which queries within its queries read.
fn bind_in_queries(node: LogicalPlan, number: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let rows = match node.inputs().as_slice() {
        [input] if has_query(&node)? => (*input).clone(),
        _ => return Ok(Transformed::no(node)),
    };
    let names = NamePreserver::new(&node);
    node.rewrite_expressions(|expr| {
        named(expr, &names, |expr| {
            expr.transform_down(|expr| {
                let Some(query) = query_of(&expr) else { return Ok(Transformed::no(expr)) };
                let mut bound: Vec<Expr> = Vec::new();
                let plan = query
                    .subquery
                    .as_ref()
                    .clone()
                    .transform_down(|step| bind_in_step(step, &rows, number, &mut bound))?;
                if !plan.transformed {
                    return Ok(Transformed::no(expr));
                }
                let mut outer_ref_columns = query.outer_ref_columns.clone();
                bound.retain(|column| !outer_ref_columns.contains(column));
                outer_ref_columns.extend(bound);
                let plan = Arc::new(plan.data);
                let query = Subquery { subquery: plan, outer_ref_columns, spans: query.spans.clone() };
                Ok(Transformed::yes(with_query(expr, query)))
            })
        })
    })
}

/// A step of a query whose own queries read columns of `rows`, over rows with these columns; `bound` takes what the step reads of `rows` now.
fn bind_in_step(
    step: LogicalPlan,
    rows: &LogicalPlan,
    number: &mut usize,
    bound: &mut Vec<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    let input = match step.inputs().as_slice() {
        [input] => (*input).clone(),
        _ => return Ok(Transformed::no(step)),
    };
    let (mut outer, mut read) = (Vec::new(), Vec::new());
    read_by_queries(&step, &mut outer)?;
    outer.retain(|column| rows.schema().has_column(column));
    // The rows are read twice, and have to be the same.
    if outer.is_empty() || is_volatile(rows)? {
        return Ok(Transformed::no(step));
    }
    // What the step itself reads is the same value.
    read_by_step(&step, &mut read)?;
    read.retain(|column| rows.schema().has_column(column) && !outer.contains(column));
    outer.extend(read);
    *number += 1;
    let domain = Domain::new(rows, outer, format!("__around_{number}"))?;
    let conditions = domain.outer.iter().enumerate().map(|(place, column)| {
        let field = Arc::clone(rows.schema().field_from_column(column)?);
        let op = if field.is_nullable() { Operator::IsNotDistinctFrom } else { Operator::Eq };
        let reference = Expr::OuterReferenceColumn(field, column.clone());
        bound.push(reference.clone());
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(domain.column(place)), op, Box::new(reference))))
    });
    let mut conditions = conditions.collect::<Result<Vec<_>>>()?;
    let columns = step.schema().columns();
    let with_outer = LogicalPlanBuilder::from(input).cross_join(domain.rows.clone())?.build()?;
    let bind =
        |expr: Expr| domain.bound(expr)?.transform_down(|expr| bind_query(expr, &domain, &[])).map(|bound| bound.data);
    let filter = |predicate, input| Filter::try_new(predicate, Arc::new(input)).map(LogicalPlan::Filter);
    if let LogicalPlan::Filter(Filter { predicate, .. }) = step {
        conditions.insert(0, bind(predicate)?);
        let filtered = filter(conjunction(conditions).expect("there is one"), with_outer)?;
        let filtered = LogicalPlanBuilder::from(filtered).project(columns.into_iter().map(Expr::Column))?.build()?;
        return Ok(Transformed::new(filtered, true, TreeNodeRecursion::Continue));
    }
    let filtered = filter(conjunction(conditions).expect("there is one"), with_outer)?;
    let names = NamePreserver::new(&step);
    let exprs = step.expressions().into_iter().map(|expr| Ok(names.save(&expr).restore(bind(expr)?)));
    let step = step.with_new_exprs(exprs.collect::<Result<Vec<_>>>()?, vec![filtered])?;
    let step = match step {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => step,
        other => LogicalPlanBuilder::from(other).project(columns.into_iter().map(Expr::Column))?.build()?,
    };
    Ok(Transformed::yes(step))
}

/// A query as an expression, which reads columns of the domain in place of the outer columns with these values. Relations between the two may hide some.
fn bind_query(expr: Expr, domain: &Domain, hidden: &[Arc<DFSchema>]) -> Result<Transformed<Expr>> {
    let Some(query) = query_of(&expr) else { return Ok(Transformed::no(expr)) };
    let of_domain = |reference: Expr| match &reference {
        Expr::OuterReferenceColumn(_, column) if !hidden.iter().any(|schema| schema.has_column(column)) => {
            let place = domain.outer.iter().position(|outer| outer == column);
            place.map_or(reference, |place| domain.outer_column(place))
        }
        _ => reference,
    };
    let plan = query.subquery.as_ref().clone().transform_down(|step| {
        let names = NamePreserver::new(&step);
        let hidden: Vec<Arc<DFSchema>> = hidden.iter().cloned().chain([schema_below(&step)]).collect();
        step.rewrite_expressions(|expr| {
            named(expr, &names, |expr| {
                expr.transform_down(|expr| match &expr {
                    Expr::OuterReferenceColumn(..) => Ok(Transformed::yes(of_domain(expr))),
                    _ => bind_query(expr, domain, &hidden),
                })
            })
        })
    })?;
    let bound = Subquery {
        subquery: Arc::new(plan.data),
        outer_ref_columns: query.outer_ref_columns.iter().cloned().map(of_domain).collect(),
        spans: query.spans.clone(),
    };
    Ok(Transformed::new(with_query(expr, bound), true, TreeNodeRecursion::Jump))
}

/// Whether a query within a plan reads columns from around the plan.
pub(crate) fn has_nested_correlation(plan: &LogicalPlan) -> Result<bool> {
    let mut columns = Vec::new();
    plan.apply(|step| {
        read_by_queries(step, &mut columns)?;
        Ok(if columns.is_empty() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(!columns.is_empty())
}

/// The columns that a plan reads from around it, its queries' included.
fn read_by(plan: &LogicalPlan, columns: &mut Vec<Column>) -> Result<()> {
    read_by_step(plan, columns)?;
    read_by_queries(plan, columns)?;
    for (place, input) in plan.inputs().into_iter().enumerate() {
        let mut below = Vec::new();
        read_by(input, &mut below)?;
        // The right side of a join may read columns of the left one.
        if let (LogicalPlan::Join(join), 1) = (plan, place) {
            below.retain(|column| !join.left.schema().has_column(column));
        }
        columns.extend(below);
    }
    Ok(())
}

/// The columns from around its plan that a step reads outside of its queries.
fn read_by_step(step: &LogicalPlan, columns: &mut Vec<Column>) -> Result<()> {
    step.walk_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::OuterReferenceColumn(_, column) = expr
                && !columns.contains(column)
            {
                columns.push(column.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// The columns from around its plan that the queries of a step read.
fn read_by_queries(step: &LogicalPlan, columns: &mut Vec<Column>) -> Result<()> {
    let own: Arc<DFSchema> = schema_below(step);
    step.walk_expressions(|expr| {
        expr.apply(|expr| {
            if let Some(query) = query_of(expr) {
                let mut read = Vec::new();
                read_by(&query.subquery, &mut read)?;
                for column in read {
                    if !own.has_column(&column) && !columns.contains(&column) {
                        columns.push(column);
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

fn has_query(node: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    node.walk_expressions(|expr| {
        has |= expr.exists(|expr| Ok(query_of(expr).is_some()))?;
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

fn query_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        Expr::ScalarSubquery(query) => Some(query),
        _ => None,
    }
}

fn with_query(expr: Expr, query: Subquery) -> Expr {
    match expr {
        Expr::Exists(exists) => Expr::Exists(Exists { subquery: query, ..exists }),
        Expr::InSubquery(membership) => Expr::InSubquery(InSubquery { subquery: query, ..membership }),
        _ => Expr::ScalarSubquery(query),
    }
}
