//! `x IN (SELECT y …)` as a value: in a select list, in what is aggregated, and in `ORDER BY`. DataFusion 55.2 plans it as a condition of `WHERE`
//! alone, for which null is as good as false. So `(x IN (SELECT y …)) IS NULL` and `a OR x NOT IN (SELECT y …)` of a condition are joined here, too,
//! and so is `1 IN (SELECT y …)`, of which it forgets the nulls.
//!
//! The rows are joined with the values that the query gives (a mark join, which keeps each row once), and with how many there are and how many of
//! them aren't null, which determines the result for a value that isn't found:
//!
//! | | |
//! | --- | --- |
//! | it is found | true |
//! | the query gives no row | false |
//! | it is null, or the query gives a null | null |
//! | else | false |
//!
//! A query that reads columns from around it is refused, and so is a value that each reading gives anew. Of two in the calls of one group
//! DataFusion makes columns of one name, which it refuses.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::{Walk, WalkPlan};

/// Joins rows with the queries of their `IN (SELECT …)`, before types are coerced.
#[derive(Debug)]
pub(crate) struct JoinInSelect;

impl AnalyzerRule for JoinInSelect {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut number = 0;
        let plan = plan.rewrite_steps_up(correlated_as_exists)?.data;
        Ok(plan.rewrite_steps_up(|node| join_in_select(node, &mut number))?.data)
    }

    fn name(&self) -> &str {
        "join_in_select"
    }
}

/// A filter with `EXISTS` in place of `x NOT IN (SELECT y …)` of a query that reads columns from around it, and of `x IN (SELECT y …)` where null isn't
/// as good as false. DataFusion looks for a null among all rows of the query, or for none.
fn correlated_as_exists(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
    let mut of_conditions = Vec::new();
    conditions(&filter.predicate, false, &mut of_conditions);
    let schema = Arc::clone(filter.input.schema());
    let is_rewritten = |membership: &InSubquery| {
        !membership.subquery.outer_ref_columns.is_empty()
            && !membership.expr.is_volatile()
            && !membership.expr.contains_outer()
    };
    let mut is_changed = false;
    let mut rewritten = Vec::new();
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        let negated = match &condition {
            Expr::InSubquery(membership) if membership.negated => Some(membership),
            Expr::Not(inner) => match inner.as_ref() {
                Expr::InSubquery(membership) if !membership.negated => Some(membership),
                _ => None,
            },
            _ => None,
        };
        if let Some(membership) = negated.filter(|membership| is_rewritten(membership)) {
            is_changed = true;
            rewritten.push(exists(membership, &schema, Expr::is_not_false, true)?);
            continue;
        }
        let with_values = condition.transform_up(|expr| match expr {
            Expr::InSubquery(membership)
                if is_rewritten(&membership) && (membership.negated || !of_conditions.contains(&membership)) =>
            {
                let is_found = exists(&membership, &schema, |equal| equal, false)?;
                let is_unknown = exists(&membership, &schema, Expr::is_null, false)?;
                let value = when(is_found, lit(true))
                    .when(is_unknown, lit(ScalarValue::Boolean(None)))
                    .otherwise(lit(false))?;
                Ok(Transformed::yes(if membership.negated { Expr::Not(Box::new(value)) } else { value }))
            }
            other => Ok(Transformed::no(other)),
        })?;
        is_changed |= with_values.transformed;
        rewritten.push(with_values.data);
    }
    match conjunction(rewritten).filter(|_| is_changed) {
        Some(predicate) => {
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, Arc::clone(&filter.input))?)))
        }
        None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
    }
}

/// Whether the query of a membership has a row whose value, compared with the one looked for, passes a test; or has none.
fn exists(membership: &InSubquery, schema: &DFSchema, test: impl FnOnce(Expr) -> Expr, negated: bool) -> Result<Expr> {
    let InSubquery { expr, subquery, .. } = membership;
    let mut outer_ref_columns = subquery.outer_ref_columns.clone();
    let outer = expr.as_ref().clone().transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let reference = Expr::OuterReferenceColumn(field, column);
            outer_ref_columns.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let value = Expr::Column(subquery.subquery.schema().columns().swap_remove(0));
    let rows =
        LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).filter(test(value.eq(outer.data)))?.build()?;
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans: subquery.spans.clone() };
    Ok(Expr::Exists(Exists { subquery, negated }))
}

fn join_in_select(node: LogicalPlan, number: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let is_filter = match node {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) => false,
        LogicalPlan::Filter(_) => true,
        _ => return Ok(Transformed::no(node)),
    };
    let mut subqueries: Vec<InSubquery> = Vec::new();
    let mut of_conditions: Vec<InSubquery> = Vec::new();
    if let LogicalPlan::Filter(filter) = &node {
        conditions(&filter.predicate, false, &mut of_conditions);
    }
    node.walk_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::InSubquery(subquery) = expr
                && !subqueries.contains(subquery)
                && (!is_filter || is_joined_in_filter(subquery, &of_conditions))
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

/// Whether a filter needs the value of an expression that DataFusion plans as a condition, or plans so only if its value differs with the row. Only
/// of a query that reads no column from around it.
fn is_joined_in_filter(membership: &InSubquery, of_conditions: &[InSubquery]) -> bool {
    let InSubquery { expr, subquery, .. } = membership;
    let is_constant = expr.column_refs().is_empty() && !expr.contains_outer();
    subquery.outer_ref_columns.is_empty()
        && !expr.is_volatile()
        && !expr.contains_outer()
        && (is_constant || !of_conditions.contains(membership))
}

/// The expressions that are conditions by themselves: for these null is as good as false.
fn conditions(predicate: &Expr, is_beside_or: bool, of_conditions: &mut Vec<InSubquery>) {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conditions(left, is_beside_or, of_conditions);
            conditions(right, is_beside_or, of_conditions);
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            conditions(left, true, of_conditions);
            conditions(right, true, of_conditions);
        }
        Expr::InSubquery(membership) if !(membership.negated && is_beside_or) => of_conditions.push(membership.clone()),
        Expr::Not(inner) if !is_beside_or => {
            if let Expr::InSubquery(membership) = inner.as_ref() {
                of_conditions.push(membership.clone());
            }
        }
        _ => {}
    }
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
