//! `SAMPLE BY` as `GROUP BY time_bucket(…)`, and with `FILL` as a gap fill.
//!
//! - The time is that of the table, or of the left table of a join; of a query its only timestamp, or the one that `TIMESTAMP(column)` names. Outside
//!   of aggregates it means the start of its bucket. Items without an aggregate are keys, or the columns that they read beside the time.
//! - `first` and `last` without an `ORDER BY` are ordered by the time.
//! - Buckets are those of `time_bucket`. `ALIGN TO CALENDAR` cuts them on the clock of the zone, shifted by the offset; `FROM` is the start of one;
//!   `ALIGN TO FIRST OBSERVATION` counts them from the first row that passes `WHERE`.
//! - `FROM` and `TO` leave out rows outside of them.
//! - With `FILL` every combination of keys has a row for each bucket, from the first to the last of all combinations, or from `FROM` to `TO`.
//!   Only rows that the gap fill adds get the fill value of an aggregate.
//! - Rows are ordered by time if the query has no `ORDER BY` and is the whole statement or has a `LIMIT`.

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, Value,
};
use splay_functions::SAMPLE_FILL;

use super::column_selection::text_of;
use super::expression_of;
use super::fills::{Fills, aliases};
use super::relation::{FromColumn, Relation};
use crate::error::{Result, fault};
use crate::function_calls::is_aggregate;
use crate::syntax::SAMPLE;
use crate::walk::{any_expression, change_expressions, each_expression};

/// The `SAMPLE BY` of a select.
pub(super) struct SampleClause {
    time: Expr,
    bucket: Expr,
    keys: Vec<Expr>,
    /// Names of its output columns.
    names: Vec<String>,
    /// Whether the select is `DISTINCT`.
    is_distinct: bool,
}

/// The arguments of the clause.
struct Clause {
    width: String,
    time: Option<String>,
    zone: Option<String>,
    offset: Option<String>,
    start: Option<Expr>,
    finish: Option<Expr>,
    is_first: bool,
    fills: Vec<(String, Expr)>,
}

/// Whether a select is sampled.
pub(super) fn is_sampled(select: &Select) -> bool {
    call_of(select).is_some()
}

fn call_of(select: &Select) -> Option<&Function> {
    match &select.group_by {
        GroupByExpr::Expressions(keys, _) => match keys.as_slice() {
            [Expr::Function(call)] if call.name.to_string() == SAMPLE => Some(call),
            _ => None,
        },
        GroupByExpr::All(_) => None,
    }
}

/// Rewrites the clause as a grouping.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) if the time isn't known, and for fills that don't fit the aggregates.
pub(super) fn write_out(select: &mut Select, relation: &Relation, state: &SessionState) -> Result<SampleClause> {
    let clause = Clause::of(select)?;
    let column = time_of(&clause, relation)?;
    let time = column.expression();
    let is_filled = clause.fills.iter().any(|(kind, _)| kind != "none");
    if is_filled && clause.fills.iter().any(|(kind, _)| kind == "none") {
        return fault("SAMPLE BY: FILL(NONE) stands alone");
    }
    let bucket = clause.bucket(&time, select, is_filled)?;
    clause.narrow(select, &time)?;
    let is_time = |expr: &Expr| match expr {
        Expr::Identifier(name) => name.value.to_lowercase() == column.name,
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., relation, name] => {
                name.value.to_lowercase() == column.name && column.is_of(&relation.value.to_lowercase())
            }
            _ => false,
        },
        _ => false,
    };
    let mut keys = Vec::new();
    let mut names = Vec::new();
    let mut fills = Fills { fills: &clause.fills, next: 0, aliases: aliases(select) };
    for item in &mut select.projection {
        let (expression, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            other => return fault(format!("SAMPLE BY takes a list of columns and aggregates, not {other}")),
        };
        let name = match (&alias, &*expression) {
            (Some(alias), _) => alias.value.to_lowercase(),
            (None, Expr::Identifier(name)) => name.value.to_lowercase(),
            (None, Expr::CompoundIdentifier(parts)) => {
                parts.last().map_or_else(String::new, |name| name.value.to_lowercase())
            }
            (None, other) => other.to_string().to_lowercase(),
        };
        let is_aggregated = any_expression(expression, |inner| is_aggregate_call(inner, state));
        let others = columns_beside(expression, is_time);
        let reads_time = any_expression(expression, is_time);
        order_by_time(expression, &time, state);
        replace(expression, &is_time, &bucket, state);
        if is_aggregated {
            fills.fill(expression, is_filled)?;
        } else if !has_window(expression) {
            match reads_time {
                true => keys.extend(others),
                false if others.is_empty() => {}
                false => keys.push(expression.clone()),
            }
        }
        let expr = std::mem::replace(expression, Expr::Identifier(Ident::new("")));
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name.clone()) };
        names.push(name);
    }
    fills.check(is_filled)?;
    for condition in select.having.iter_mut().chain(&mut select.qualify) {
        order_by_time(condition, &time, state);
        replace(condition, &is_time, &bucket, state);
    }
    let mut groups = vec![bucket.clone()];
    keys.iter().for_each(|key| {
        if !groups.contains(key) {
            groups.push(key.clone());
        }
    });
    select.group_by = GroupByExpr::Expressions(groups, Vec::new());
    let is_distinct = select.distinct.is_some();
    Ok(SampleClause { time, bucket, keys, names, is_distinct })
}

impl SampleClause {
    /// Orders the rows of the query by the bucket, unless it has an order, in which the time means the bucket.
    pub(super) fn order(&self, query: &mut Query, is_outermost: bool) {
        match &mut query.order_by {
            Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) => {
                for key in keys {
                    let is_time = match (&key.expr, &self.time) {
                        (Expr::Identifier(name), Expr::Identifier(time)) => {
                            name.value.eq_ignore_ascii_case(&time.value)
                                && !self.names.contains(&name.value.to_lowercase())
                        }
                        (name, time) => name == time,
                    };
                    if is_time {
                        key.expr = self.bucket.clone();
                    }
                }
            }
            Some(_) => {}
            // A distinct select has no order by a bucket that its select list lacks.
            None if self.is_distinct => {}
            None if is_outermost || query.limit_clause.is_some() || query.fetch.is_some() => {
                let options = OrderByOptions { asc: None, nulls_first: None };
                let keys = std::iter::once(&self.bucket).chain(&self.keys);
                let keys = keys.map(|expr| OrderByExpr { expr: expr.clone(), options, with_fill: None });
                query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(keys.collect()), interpolate: None });
            }
            None => {}
        }
    }
}

impl Clause {
    fn of(select: &Select) -> Result<Clause> {
        let wrong = || fault("SAMPLE BY isn't complete");
        let Some(FunctionArguments::List(list)) = call_of(select).map(|call| &call.args) else { return wrong() };
        let args: Vec<Expr> = list
            .args
            .iter()
            .filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect();
        let [width, time, zone, offset, start, finish, alignment, fills @ ..] = args.as_slice() else {
            return wrong();
        };
        let unless_null = |expr: &Expr| (!is_null(expr)).then(|| expr.clone());
        let written = |expr: &Expr| unless_null(expr).map(|expr| expr.to_string());
        let fills = fills.chunks_exact(2).map(|pair| (text_of(&pair[0]).unwrap_or_default(), pair[1].clone()));
        Ok(Clause {
            width: width.to_string(),
            time: match time {
                Expr::Identifier(name) => Some(name.value.to_lowercase()),
                _ => None,
            },
            zone: written(zone),
            offset: text_of(offset),
            start: unless_null(start),
            finish: unless_null(finish),
            is_first: text_of(alignment).as_deref() == Some("first"),
            fills: fills.collect(),
        })
    }

    /// The start of the bucket of a time.
    fn bucket(&self, time: &Expr, select: &Select, is_filled: bool) -> Result<Expr> {
        let origin = self.origin(time, select)?;
        let or_null = |argument: Option<String>| argument.unwrap_or_else(|| "NULL".to_owned());
        if !is_filled {
            let args = [Some(self.width.clone()), Some(time.to_string()), self.zone.clone(), origin];
            let args: Vec<String> = args.into_iter().flatten().collect();
            return expression_of(&format!("time_bucket({})", args.join(", ")));
        }
        let bound = |argument: &Option<Expr>| or_null(argument.as_ref().map(|at| self.instant(at)));
        let args = [
            self.width.clone(),
            time.to_string(),
            or_null(self.zone.clone()),
            or_null(origin),
            bound(&self.start),
            bound(&self.finish),
        ];
        expression_of(&format!("{SAMPLE_FILL}({})", args.join(", ")))
    }

    /// The origin of the buckets, if it isn't that of `time_bucket`.
    fn origin(&self, time: &Expr, select: &Select) -> Result<Option<String>> {
        if self.is_first {
            let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
            let condition = select.selection.as_ref().map_or_else(String::new, |filter| format!(" WHERE {filter}"));
            return Ok(Some(format!("(SELECT min({time}) FROM {}{condition})", from.join(", "))));
        }
        let minutes = match &self.offset {
            Some(offset) => minutes(offset)?,
            None if self.start.is_none() => return Ok(None),
            None => 0,
        };
        let from = match &self.start {
            Some(start) => wall_clock(start),
            None if self.width.ends_with("weeks'") => "TIMESTAMP '2000-01-03T00:00:00'".to_owned(),
            None if self.width.ends_with("months'") || self.width.ends_with("years'") => {
                "TIMESTAMP '2000-01-01T00:00:00'".to_owned()
            }
            None => "TIMESTAMP '1970-01-01T00:00:00'".to_owned(),
        };
        Ok(Some(if minutes == 0 { from } else { format!("({from} + INTERVAL '{minutes} minutes')") }))
    }

    /// A local time of the zone as an instant.
    fn instant(&self, at: &Expr) -> String {
        let clock = wall_clock(at);
        match &self.zone {
            Some(zone) => format!("({clock} AT TIME ZONE {zone})"),
            None => clock,
        }
    }

    /// Excludes rows outside of `FROM` and `TO`.
    fn narrow(&self, select: &mut Select, time: &Expr) -> Result<()> {
        for (at, comparison) in [(&self.start, ">="), (&self.finish, "<")] {
            let Some(at) = at else { continue };
            let condition = expression_of(&format!("{time} {comparison} {}", self.instant(at)))?;
            select.selection = Some(match select.selection.take() {
                None => condition,
                Some(filter) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(filter))),
                    op: BinaryOperator::And,
                    right: Box::new(condition),
                },
            });
        }
        Ok(())
    }
}

/// A local time, without a zone.
fn wall_clock(at: &Expr) -> String {
    match text_of(at) {
        Some(text) => {
            let text = if text.len() == 10 { format!("{text}T00:00:00") } else { text };
            format!("TIMESTAMP {}", Value::SingleQuotedString(text))
        }
        None => format!("CAST({at} AS TIMESTAMP)"),
    }
}

/// The minutes of an offset such as `-01:30`.
fn minutes(offset: &str) -> Result<i64> {
    let (sign, clock) = match offset.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let parts = clock.split_once(':').map(|(hours, minutes)| (hours.parse::<u8>(), minutes.parse::<u8>()));
    match parts {
        Some((Ok(hours), Ok(minutes))) if hours < 24 && minutes < 60 => {
            Ok(sign * (i64::from(hours) * 60 + i64::from(minutes)))
        }
        _ => fault(format!("SAMPLE BY: an offset is hours and minutes such as '00:30' or '-02:00', not '{offset}'")),
    }
}

fn time_of<'a>(clause: &Clause, relation: &'a Relation) -> Result<&'a FromColumn> {
    let time_column = match &clause.time {
        Some(name) => match relation.columns.iter().find(|column| column.name == *name) {
            Some(column) => Some(column),
            None => return fault(format!("SAMPLE BY … TIMESTAMP({name}): there is no such column")),
        },
        None => relation.time.map(|time| &relation.columns[time]),
    };
    match time_column {
        Some(column) if column.is_instant => Ok(column),
        Some(column) => fault(format!("SAMPLE BY needs a timestamp, which {} is not", column.name)),
        None => fault("SAMPLE BY: FROM has no timestamp, or several: name one by FROM (…) TIMESTAMP(column)"),
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

fn is_aggregate_call(expr: &Expr, state: &SessionState) -> bool {
    matches!(expr, Expr::Function(call) if call.over.is_none() && is_aggregate(call, state))
}

pub(super) fn has_window(expr: &Expr) -> bool {
    any_expression(expr, |inner| matches!(inner, Expr::Function(call) if call.over.is_some()))
}

/// The columns that an expression reads, except the time.
fn columns_beside(expr: &Expr, is_time: impl Fn(&Expr) -> bool) -> Vec<Expr> {
    let mut columns = Vec::new();
    each_expression(expr, |inner| {
        if matches!(inner, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && !is_time(inner) {
            columns.push(inner.clone());
        }
    });
    columns
}

/// Orders `first` and `last` by time, if they have no order.
fn order_by_time(expr: &mut Expr, time: &Expr, state: &SessionState) {
    change_expressions(expr, |inner| {
        if is_aggregate_call(inner, state)
            && let Expr::Function(Function { name, args: FunctionArguments::List(list), within_group, .. }) = inner
            && ["first", "last", "first_value", "last_value"].contains(&name.to_string().to_lowercase().as_str())
            && !list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
            && within_group.is_empty()
        {
            let options = OrderByOptions { asc: None, nulls_first: None };
            let key = OrderByExpr { expr: time.clone(), options, with_fill: None };
            list.clauses.push(FunctionArgumentClause::OrderBy(vec![key]));
        }
    });
}

/// Replaces the time by the bucket, except within aggregates.
fn replace(expr: &mut Expr, is_time: &dyn Fn(&Expr) -> bool, bucket: &Expr, state: &SessionState) {
    let mut places = BucketPlaces { is_time, bucket, state, within: 0 };
    let _ = crate::walk::visit_mut(expr, &mut places);
}

struct BucketPlaces<'a> {
    is_time: &'a dyn Fn(&Expr) -> bool,
    bucket: &'a Expr,
    state: &'a SessionState,
    /// Aggregates and queries around the place.
    within: usize,
}

impl datafusion::sql::sqlparser::ast::VisitorMut for BucketPlaces<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> std::ops::ControlFlow<()> {
        self.within += 1;
        std::ops::ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> std::ops::ControlFlow<()> {
        self.within -= 1;
        std::ops::ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        self.within += usize::from(is_aggregate_call(expr, self.state));
        std::ops::ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if is_aggregate_call(expr, self.state) {
            self.within -= 1;
        } else if self.within == 0 && (self.is_time)(expr) {
            *expr = self.bucket.clone();
        }
        std::ops::ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_hours_and_minutes() {
        assert_eq!(minutes("00:30").unwrap(), 30);
        assert_eq!(minutes("-02:15").unwrap(), -135);
        assert_eq!(minutes("+10:00").unwrap(), 600);
        for wrong in ["30", "1:99", "--01:00", "24:00", ""] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
