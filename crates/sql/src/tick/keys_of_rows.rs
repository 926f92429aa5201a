//! Queries that are asked for each row, and groups that rows are joined with, narrowed to the keys of those rows.
//!
//! `SELECT … FROM orders o WHERE o.state = 'open' AND o.quantity < (SELECT avg(f.quantity) FROM fill f WHERE f.order_id
//! = o.id)` needs the groups of open orders only. If these are few compared with the rows that are grouped, the query
//! gets the condition `f.order_id IN (SELECT o.id FROM orders o WHERE o.state = 'open')`, a semi-join ahead of the
//! grouping (magic sets: Mumick, Finkelstein, Pirahesh and Ramakrishnan, Magic is relevant, 1990). The same holds for
//! `EXISTS`, and for the groups of `trade t JOIN (SELECT … GROUP BY order_id) f ON t.order_id = f.order_id`. Rows of a table are read twice for that;
//! those of a join are read once, and kept.
//!
//! A condition on such a key alone, as `o.id BETWEEN 5 AND 9`, is one on the query's own key, too.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, JoinType, Spans};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{Filter, Projection, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use splay_functions::walk::Walk;

use super::asof::as_text;
use super::combine::{is_of, unsupported};
use super::convert::UnsupportedExpr;
use super::narrow::narrow_groups;
use super::sizes::Size;
use crate::pushdown::is_text;

/// Rows of a query for each row whose keys narrow it. Reading these rows twice costs less.
const ROWS_OF_KEY_MIN: f64 = 8.0;

/// Rows of a query from which on it is narrowed.
const ROWS_MIN: f64 = 65_536.0;

/// A condition on rows of a plan whose correlated queries are narrowed to keys of these rows; `None` if none is. Rows that `are_read` once and kept may
/// be those of any plan.
pub(super) fn with_narrowed_queries(
    predicate: &Expr,
    input: &LogicalPlan,
    are_read: bool,
) -> Result<Option<Expr>, UnsupportedExpr> {
    if !asks_for_each_row(predicate)? {
        return Ok(None);
    }
    let rows = match are_read {
        true => Rows::Read(input),
        false => {
            let rows = Filter::try_new(predicate.clone(), Arc::new(input.clone())).map_err(unsupported)?;
            Rows::OfTable(LogicalPlan::Filter(rows))
        }
    };
    let conditions: Vec<&Expr> = split_conjunction(predicate).into_iter().filter(|one| compares_column(one)).collect();
    let narrowed = predicate.clone().transform_down(|expr| {
        let Some(query) = correlated(&expr) else { return Ok(Transformed::no(expr)) };
        let Some(query) = narrowed_query(query, &rows, &conditions)? else { return Ok(Transformed::no(expr)) };
        let narrowed = match expr {
            Expr::Exists(of) => Expr::Exists(Exists { subquery: query, negated: of.negated }),
            _ => Expr::ScalarSubquery(query),
        };
        Ok(Transformed::new(narrowed, true, TreeNodeRecursion::Jump))
    });
    let narrowed = narrowed.map_err(unsupported)?;
    Ok(narrowed.transformed.then_some(narrowed.data))
}

/// The rows whose keys narrow a query.
enum Rows<'a> {
    /// Those of a table that pass the conditions of a plan.
    OfTable(LogicalPlan),
    /// Those of a plan that is read once.
    Read(&'a LogicalPlan),
}

impl Rows<'_> {
    fn plan(&self) -> &LogicalPlan {
        match self {
            Rows::OfTable(plan) => plan,
            Rows::Read(plan) => plan,
        }
    }

    /// A plan and one of its columns, which contains all values of a column of these rows.
    fn source(&self, column: &Column) -> Result<Option<(LogicalPlan, Column)>, DataFusionError> {
        match self {
            Rows::OfTable(plan) => source(plan, column),
            Rows::Read(plan) => Ok(Some(((*plan).clone(), column.clone()))),
        }
    }
}

/// Whether an expression has queries that refer to the rows around them.
pub(super) fn asks_for_each_row(expr: &Expr) -> Result<bool, UnsupportedExpr> {
    expr.exists(|expr| Ok(correlated(expr).is_some())).map_err(unsupported)
}

/// The query of an expression, if it refers to the rows around it.
fn correlated(expr: &Expr) -> Option<&Subquery> {
    let query = match expr {
        Expr::ScalarSubquery(query) => query,
        Expr::Exists(of) => &of.subquery,
        _ => return None,
    };
    (!query.outer_ref_columns.is_empty()).then_some(query)
}

/// A side of a join with only those groups whose keys the rows of the other side have, if these rows are few compared with those that are grouped; `None`
/// if it has no groups by such keys. In `pairs` the key of the rows is first.
pub(super) fn with_groups_of_keys(
    rows: &LogicalPlan,
    groups: &LogicalPlan,
    pairs: &[(Expr, Expr)],
) -> Result<Option<LogicalPlan>, UnsupportedExpr> {
    let Some(grouped) = grouped_rows(groups) else { return Ok(None) };
    let (schema, rows) = (rows.schema(), Rows::OfTable(rows.clone()));
    let mut conditions = Vec::new();
    for pair in pairs {
        if let (Expr::Column(key), Expr::Column(column)) = pair
            && schema.has_column(key)
        {
            conditions.extend(is_key_of_rows((column, groups), grouped, key, &rows).map_err(unsupported)?);
        }
    }
    let Some(condition) = conjunction(conditions) else { return Ok(None) };
    let narrowed = narrow_groups(groups, &condition).map_err(unsupported)?;
    Ok(narrowed.filter(|(_, others)| others.is_none()).map(|(narrowed, _)| narrowed))
}

/// How many rows the groups of a plan are made of.
fn grouped_rows(plan: &LogicalPlan) -> Option<Size> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => grouped_rows(&alias.input),
        LogicalPlan::Projection(projection) => grouped_rows(&projection.input),
        LogicalPlan::Filter(filter) => grouped_rows(&filter.input),
        LogicalPlan::Aggregate(aggregate) => Some(Size::of(&aggregate.input)),
        _ => None,
    }
}

fn narrowed_query(query: &Subquery, rows: &Rows<'_>, of_rows: &[&Expr]) -> Result<Option<Subquery>, DataFusionError> {
    let narrowed = query.subquery.as_ref().clone().transform_down(|plan| {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let mut conditions = Vec::new();
        for condition in split_conjunction(&filter.predicate) {
            if let Some((inner, outer)) = equality(condition, filter.input.schema(), rows.plan().schema()) {
                conditions.extend(is_key(inner, &filter.input, outer, rows)?);
            }
            conditions.extend(conditions_on_key(condition, filter.input.schema(), of_rows)?);
        }
        let Some(conditions) = conjunction(conditions) else { return Ok(Transformed::no(plan)) };
        let filter = Filter::try_new(filter.predicate.clone().and(conditions), Arc::clone(&filter.input))?;
        Ok(Transformed::new(LogicalPlan::Filter(filter), true, TreeNodeRecursion::Jump))
    })?;
    let of = |plan| Subquery { subquery: Arc::new(plan), ..query.clone() };
    Ok(narrowed.transformed.then(|| of(narrowed.data)))
}

/// What conditions on a column of the rows around a query say of the query's value that equals it. Equal floats may be zeros of two signs.
fn conditions_on_key(equality: &Expr, schema: &DFSchema, of_rows: &[&Expr]) -> Result<Vec<Expr>, DataFusionError> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = equality else { return Ok(Vec::new()) };
    let (field, outer, own) = match (left.as_ref(), right.as_ref()) {
        (Expr::OuterReferenceColumn(field, outer), own) | (own, Expr::OuterReferenceColumn(field, outer)) => {
            (field, outer, own)
        }
        _ => return Ok(Vec::new()),
    };
    // Of whole numbers a wider type has all values.
    let is_column = match own {
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Column(_)) && cast.expr.get_type(schema)?.is_integer(),
        own => matches!(own, Expr::Column(_)),
    };
    if !is_column || field.data_type().is_floating() || own.get_type(schema)? != *field.data_type() {
        return Ok(Vec::new());
    }
    let is_of_column = |condition: &&&Expr| condition.column_refs().into_iter().all(|column| column == outer);
    let of_own = |condition: &&Expr| {
        let replaced = (*condition).clone().transform_up(|part| match part {
            Expr::Column(_) => Ok(Transformed::yes(own.clone())),
            other => Ok(Transformed::no(other)),
        });
        Ok(replaced?.data)
    };
    of_rows.iter().filter(is_of_column).map(of_own).collect()
}

/// Whether a condition compares one column with literals, so that it has a result for any value.
fn compares_column(condition: &Expr) -> bool {
    let is_other = |expr: &Expr| {
        Ok(match expr {
            Expr::Column(_) | Expr::Literal(_, _) | Expr::Between(_) | Expr::InList(_) | Expr::Not(_) => false,
            Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => false,
            Expr::BinaryExpr(BinaryExpr { op, .. }) => !matches!(
                op,
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            ),
            _ => true,
        })
    };
    condition.column_refs().len() == 1 && !condition.exists(is_other).unwrap_or(true)
}

/// The columns of a query and of the rows around it that an equality compares.
fn equality<'e>(condition: &'e Expr, inner: &DFSchema, outer: &DFSchema) -> Option<(&'e Column, &'e Column)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let sides = |one: &'e Expr, other: &'e Expr| match (as_text(one, inner), outer_column(other)) {
        (Expr::Column(one), Some(other)) if outer.has_column(other) => Some((one, other)),
        _ => None,
    };
    sides(left, right).or_else(|| sides(right, left))
}

/// The column that an outer reference is of. A text may be cast to another kind of text.
fn outer_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        Expr::Cast(cast) if is_text(cast.field.data_type()) => match cast.expr.as_ref() {
            Expr::OuterReferenceColumn(field, column) if is_text(field.data_type()) => Some(column),
            _ => None,
        },
        _ => None,
    }
}

/// That a column of a plan is one of the keys of some rows, if these are few.
fn is_key(column: &Column, plan: &LogicalPlan, key: &Column, rows: &Rows<'_>) -> Result<Option<Expr>, DataFusionError> {
    is_key_of_rows((column, plan), Size::of(plan), key, rows)
}

/// The same, where so many rows are read for the plan.
fn is_key_of_rows(
    (column, plan): (&Column, &LogicalPlan),
    size: Size,
    key: &Column,
    rows: &Rows<'_>,
) -> Result<Option<Expr>, DataFusionError> {
    let own = plan.schema().field(plan.schema().index_of_column(column)?).data_type();
    let around = rows.plan().schema();
    let of = around.field(around.index_of_column(key)?).data_type();
    // Equal floats may be zeros of two signs.
    let are_alike = own == of && !own.is_floating() || is_text(own) && is_text(of);
    if !are_alike {
        return Ok(None);
    }
    if size.rows < ROWS_MIN {
        return Ok(None);
    }
    let Some((keys, key)) = rows.source(key)?.filter(|(keys, _)| is_few(keys, size)) else { return Ok(None) };
    let keys = Projection::try_new(vec![Expr::Column(key)], Arc::new(keys))?;
    let keys = Arc::new(LogicalPlan::Projection(keys));
    let subquery = Subquery { subquery: keys, outer_ref_columns: Vec::new(), spans: Spans::new() };
    Ok(Some(Expr::InSubquery(InSubquery::new(Box::new(Expr::Column(column.clone())), subquery, false))))
}

fn is_few(keys: &LogicalPlan, of: Size) -> bool {
    Size::of(keys).rows * ROWS_OF_KEY_MIN <= of.rows
}

/// Rows of one table, with a column that has all values of a column of a plan. Conditions of the plan that read this table alone hold for them.
fn source(plan: &LogicalPlan, column: &Column) -> Result<Option<(LogicalPlan, Column)>, DataFusionError> {
    Ok(match plan {
        plan if is_table(plan) => Some((plan.clone(), column.clone())),
        LogicalPlan::Filter(filter) => {
            let Some((rows, column)) = source(&filter.input, column)? else { return Ok(None) };
            let is_own = |condition: &&Expr| is_plain(condition) && is_of(condition, rows.schema()).unwrap_or(false);
            let own = split_conjunction(&filter.predicate).into_iter().filter(is_own).cloned();
            let rows = match conjunction(own) {
                Some(own) => LogicalPlan::Filter(Filter::try_new(own, Arc::new(rows))?),
                None => rows,
            };
            Some((rows, column))
        }
        LogicalPlan::Projection(projection) => match projection.expr.get(projection.schema.index_of_column(column)?) {
            Some(Expr::Column(below)) => source(&projection.input, below)?,
            _ => None,
        },
        LogicalPlan::Join(join) => {
            let is_left = join.left.schema().has_column(column);
            match join.join_type {
                JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti if is_left => {
                    source(&join.left, column)?
                }
                JoinType::Inner => source(&join.right, column)?,
                _ => None,
            }
        }
        _ => None,
    })
}

/// Whether a plan has the rows of a table, perhaps by other names.
fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        LogicalPlan::Projection(projection) => {
            is_table(&projection.input) && !projection.expr.iter().any(Expr::is_volatile)
        }
        _ => false,
    }
}

/// Whether a condition has the same result whenever it is evaluated, and asks no query for each row.
fn is_plain(condition: &Expr) -> bool {
    let is_other = |expr: &Expr| {
        let is_bound = matches!(expr, Expr::OuterReferenceColumn(_, _) | Expr::SetComparison(_));
        let asks = match expr {
            Expr::InSubquery(of) => !of.subquery.outer_ref_columns.is_empty(),
            _ => correlated(expr).is_some(),
        };
        Ok(is_bound || asks || expr.is_volatile_node())
    };
    !condition.exists(is_other).unwrap_or(true)
}
