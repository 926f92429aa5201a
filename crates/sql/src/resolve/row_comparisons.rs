//! Rewrites comparisons with the rows of a query: `x = ANY (SELECT …)`, `(a, b) IN (SELECT …)` and the like.
//!
//! | Written | Planned as |
//! | --- | --- |
//! | `x = ANY (SELECT y …)`, `x <> ALL (SELECT y …)` | `x IN (SELECT y …)`, `x NOT IN (SELECT y …)` |
//! | `x < ANY (SELECT y …)` and its kin | the comparison with the least or greatest value of the query, with the result that its nulls require |
//! | `(a, b) IN (SELECT x, y …)` as a condition | `EXISTS (SELECT … WHERE x = a AND y = b)` |
//! | `(a, b) IN (SELECT x, y …)` as a value | true if there is such a row, null if there is one that may be equal, else false |
//! | `x IN (VALUES …)` | `x IN (SELECT value FROM (VALUES …) …)`: the planner has no name for the column of `VALUES` |
//!
//! DataFusion 55.2 compares each row with each row of the query.

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, LimitClause, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::nothing;
use crate::error::{Error, Result, fault};
use crate::function_calls::is_aggregate;
use crate::walk::{any_expression, change_expressions};

/// The value of a comparison that no row decides: `$2` if there are no rows, null if one of them or the value itself is null, else `$2`.
const UNDECIDED: &str =
    "CASE $rows WHEN 0 THEN $2 WHEN 1 THEN NULL ELSE CASE WHEN $x IS NULL THEN NULL ELSE $2 END END";

/// 0 if there is no row, 1 if one is null, otherwise 2.
const ROWS: &str = "CASE WHEN count(*) = 0 THEN 0 WHEN count(*) > count($y) THEN 1 ELSE 2 END";

/// Rewrites comparisons with queries; each gets a number.
pub(super) struct Comparisons<'a> {
    pub(super) state: &'a SessionState,
    pub(super) number: usize,
}

impl Comparisons<'_> {
    /// Rewrites the comparisons of a condition in which null has the same effect as false.
    ///
    /// # Errors
    /// [`Error::Internal`] if the replacement can't be parsed.
    pub(super) fn of_condition(&mut self, condition: &mut Expr) -> Result<()> {
        match condition {
            Expr::Nested(inner) => self.of_condition(inner),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                let Some(inverse) = inverse_membership(expr) else { return Ok(()) };
                *condition = inverse;
                self.of_condition(condition)
            }
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.of_condition(left)?;
                self.of_condition(right)
            }
            Expr::InSubquery { expr, subquery, negated } => {
                let Expr::Tuple(values) = expr.as_mut() else { return Ok(()) };
                self.number += 1;
                *condition = row_among(std::mem::take(values), subquery, *negated, self.number)?;
                Ok(())
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                let (Some(extreme), Expr::Subquery(query)) = (extreme(compare_op, true), right.as_mut()) else {
                    return Ok(());
                };
                let extreme = self.rows(query).value(&format!("{extreme}($y)"))?;
                *condition =
                    fill_placeholders(&format!("$x {compare_op} $extreme"), &[("$x", left), ("$extreme", &extreme)])?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Rewrites a comparison with a query into a form that the planner accepts.
    ///
    /// # Errors
    /// [`Error::Statement`] for an operator that isn't a comparison.
    pub(super) fn write_out(&mut self, expression: &mut Expr) -> Result<()> {
        if let Expr::InSubquery { subquery, .. } = expression
            && matches!(subquery.body.as_ref(), SetExpr::Values(_))
        {
            **subquery = self.rows(subquery).over_relation("$y")?;
        }
        if let Expr::InSubquery { expr, subquery, negated } = expression
            && let Expr::Tuple(values) = expr.as_ref()
        {
            self.number += 2;
            let is_equal = row_among(values.clone(), subquery, false, self.number - 1)?;
            let no_equal = row_among(values.clone(), subquery, true, self.number)?;
            let text = format!("CASE WHEN $equal THEN {} WHEN $none THEN {negated} ELSE NULL END", !*negated);
            *expression = fill_placeholders(&text, &[("$equal", &is_equal), ("$none", &no_equal)])?;
            return Ok(());
        }
        let is_any = matches!(expression, Expr::AnyOp { .. });
        let (Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right }) = expression else {
            return Ok(());
        };
        let Expr::Subquery(query) = right.as_mut() else { return Ok(()) };
        if matches!((&*compare_op, is_any), (BinaryOperator::Eq, true) | (BinaryOperator::NotEq, false)) {
            let subquery = std::mem::replace(query, empty()?);
            let expr = std::mem::replace(left, Box::new(nothing()));
            *expression = Expr::InSubquery { expr, subquery, negated: !is_any };
            return Ok(());
        }
        let (least, greatest) = match (extreme(compare_op, is_any), &*compare_op) {
            (Some(extreme), _) => (extreme, extreme),
            // Some row differs from x exactly if the least or the greatest does.
            (None, BinaryOperator::Eq | BinaryOperator::NotEq) => ("min", "max"),
            (None, op) => return fault(format!("ANY and ALL compare with the rows of a query, and not by {op}")),
        };
        let both = match (least == greatest, is_any) {
            (true, _) => format!("$x {compare_op} $least"),
            (false, true) => format!("$x {compare_op} $least OR $x {compare_op} $greatest"),
            (false, false) => format!("$x {compare_op} $least AND $x {compare_op} $greatest"),
        };
        let decided = if is_any { both } else { format!("NOT ({both})") };
        let text = format!("CASE WHEN {decided} THEN {is_any} ELSE {UNDECIDED} END");
        let text = text.replace("$2", if is_any { "false" } else { "true" });
        let rows = self.rows(query);
        let least = rows.value(&format!("{least}($y)"))?;
        let greatest = rows.value(&format!("{greatest}($y)"))?;
        let parts = [("$x", &**left), ("$least", &least), ("$greatest", &greatest), ("$rows", &rows.value(ROWS)?)];
        *expression = fill_placeholders(&text, &parts)?;
        Ok(())
    }

    fn rows<'q>(&mut self, query: &'q Query) -> Rows<'q> {
        self.number += 1;
        Rows { query, item: only_item(query, self.state), number: self.number }
    }
}

/// A membership of rows behind `NOT`, as the other membership.
fn inverse_membership(expression: &Expr) -> Option<Expr> {
    match expression {
        Expr::Nested(inner) => inverse_membership(inner),
        Expr::InSubquery { expr, subquery, negated } if matches!(expr.as_ref(), Expr::Tuple(_)) => {
            Some(Expr::InSubquery { expr: expr.clone(), subquery: subquery.clone(), negated: !negated })
        }
        _ => None,
    }
}

/// The aggregate whose value decides a comparison with all rows.
fn extreme(op: &BinaryOperator, is_any: bool) -> Option<&'static str> {
    let is_less = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => true,
        BinaryOperator::Gt | BinaryOperator::GtEq => false,
        _ => return None,
    };
    Some(if is_less == is_any { "max" } else { "min" })
}

/// The single item of a query with one row for each row that it reads, whose aggregate can be computed directly.
fn only_item<'q>(query: &'q Query, state: &SessionState) -> Option<&'q Expr> {
    let is_whole = query.with.is_none() && query.order_by.is_none() && query.fetch.is_none();
    let has_limit =
        !matches!(&query.limit_clause, None | Some(LimitClause::LimitOffset { limit: None, offset: None, .. }));
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !is_whole || has_limit || is_grouped || select.distinct.is_some() {
        return None;
    }
    if select.having.is_some() || select.qualify.is_some() {
        return None;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = select.projection.as_slice()
    else {
        return None;
    };
    let makes_rows = |call: &str| call.eq_ignore_ascii_case("unnest");
    let is_of_rows = any_expression(item, |inner| match inner {
        Expr::Function(call) => call.over.is_some() || is_aggregate(call, state) || makes_rows(&call.name.to_string()),
        _ => false,
    });
    (!is_of_rows).then_some(item)
}

/// The rows of the query that is compared with.
struct Rows<'q> {
    query: &'q Query,
    item: Option<&'q Expr>,
    number: usize,
}

impl Rows<'_> {
    /// A query of an aggregate over all rows; the text of the aggregate names their value `$y`.
    fn value(&self, aggregate: &str) -> Result<Expr> {
        let query = match self.item {
            Some(item) => {
                let value = fill_placeholders(aggregate, &[("$y", item)])?;
                let mut query = self.query.clone();
                if let SetExpr::Select(select) = query.body.as_mut() {
                    select.projection = vec![SelectItem::UnnamedExpr(value)];
                }
                query
            }
            None => self.over_relation(aggregate)?,
        };
        Ok(Expr::Subquery(Box::new(query)))
    }

    /// An expression over the compared rows, which become a relation with a name that the statement doesn't use.
    fn over_relation(&self, item: &str) -> Result<Query> {
        let name = format!("compared_{}", self.number);
        let item = item.replace("$y", &format!("{name}.value"));
        let mut named = query(&format!("SELECT {item} FROM (SELECT 1) AS {name} (value)"))?;
        if let SetExpr::Select(select) = named.body.as_mut() {
            replace_source(self.query.clone(), select);
        }
        Ok(named)
    }
}

/// Replaces the first query in `FROM`.
fn replace_source(query: Query, select: &mut Select) {
    if let Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) = select.from.first_mut() {
        **subquery = query;
    }
}

fn internal(error: &impl ToString) -> Error {
    Error::Internal { message: error.to_string() }
}

fn query(text: &str) -> Result<Query> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_query());
    parsed.map(|query| *query).map_err(|error| internal(&error))
}

fn empty() -> Result<Box<Query>> {
    query("SELECT 1").map(Box::new)
}

fn expression(text: &str) -> Result<Expr> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| internal(&error))
}

/// Parses the text of an expression, and replaces its placeholders by other expressions.
fn fill_placeholders(text: &str, parts: &[(&str, &Expr)]) -> Result<Expr> {
    let mut whole = expression(text)?;
    change_expressions(&mut whole, |inner| {
        if let Expr::Value(value) = &*inner
            && let Value::Placeholder(name) = &value.value
            && let Some((_, part)) = parts.iter().find(|(part_name, _)| part_name == name)
        {
            *inner = Expr::Nested(Box::new((*part).clone()));
        }
    });
    Ok(Expr::Nested(Box::new(whole)))
}

/// `(a, b) IN (SELECT x, y …)` and `NOT IN` as conditions, where null has the same effect as false: some row is equal, or every row certainly
/// differs.
fn row_among(values: Vec<Expr>, rows: &Query, negated: bool, number: usize) -> Result<Expr> {
    let name = format!("compared_{number}");
    let columns: Vec<String> = (1..=values.len()).map(|place| format!("value_{place}")).collect();
    let text = format!("SELECT 1 FROM (SELECT 1) AS {name} ({})", columns.join(", "));
    let mut exists_query = query(&text)?;
    let mut condition: Option<Expr> = None;
    for (value, column) in values.into_iter().zip(&columns) {
        let column = Box::new(expression(&format!("{name}.{column}"))?);
        let value = Box::new(Expr::Nested(Box::new(value)));
        let equal = Expr::BinaryOp { left: column, op: BinaryOperator::Eq, right: value };
        condition = Some(match condition {
            Some(others) => Expr::BinaryOp { left: Box::new(others), op: BinaryOperator::And, right: Box::new(equal) },
            None => equal,
        });
    }
    if let SetExpr::Select(select) = exists_query.body.as_mut() {
        replace_source(rows.clone(), select);
        select.selection = match negated {
            true => condition.map(|condition| Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(condition))))),
            false => condition,
        };
    }
    let exists = Expr::Exists { subquery: Box::new(exists_query), negated: false };
    Ok(match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(exists) },
        false => exists,
    })
}
