//! Materialized views whose rows are groups of a table's rows: their keys, and their aggregates.

use std::collections::{HashMap, HashSet};

use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Expr, GroupByExpr, Select, SelectItem, SetExpr, Value};
use splay_functions::{self as functions, Timeline};
use splay_store::{DATE_COLUMN, TableSpec, Tz, View};

use super::super::Query;
use super::super::definition;
use super::scope::{Scope, conjuncts, unnested};
use crate::dialect;
use crate::function_calls::is_aggregate;
use crate::names::Spellings;
use crate::walk::any_expression;

pub(super) use definition::FLOORS;

/// A materialized view of groups.
#[derive(Debug)]
pub(in crate::materialized) struct GroupedView {
    /// The view.
    pub(super) view: String,
    /// The table whose rows are grouped.
    pub(super) table: String,
    /// Its columns, its time and its symbol in lower case.
    pub(super) columns: HashSet<String>,
    pub(super) time: String,
    pub(super) symbol: Option<String>,
    /// Whether the table's date follows from its time; else it is a column like others, or there is none.
    has_virtual_date: bool,
    /// Clock of the table's dates, and the time of day at which they begin.
    pub(super) zone: Tz,
    pub(super) day_start: Option<String>,
    day_start_ns: i64,
    /// Names of the view's columns.
    pub(super) names: Vec<String>,
    /// Keys by spelling, with their columns.
    pub(super) keys: HashMap<String, usize>,
    /// Values of a group by spelling, with their columns.
    pub(super) values: HashMap<String, usize>,
    /// Conditions that all rows of the groups meet, by spelling.
    pub(super) conditions: HashSet<String>,
    /// The column of the key that is a bucket of the time, with its buckets.
    pub(super) bucket: Option<(usize, Timeline)>,
}

impl GroupedView {
    /// Looks at the query of a view over tables. `None` if its rows aren't groups of one table's rows, or not all keys are among its columns.
    pub(in crate::materialized) fn of(
        view: &View,
        query: &Query,
        tables: &[TableSpec],
        state: &SessionState,
    ) -> Option<GroupedView> {
        let [table] = tables else { return None };
        let (folded, _) = Spellings::fold(&view.query).ok()?;
        let Statement::Statement(statement) = dialect::parse(&folded, state).ok()? else { return None };
        let ast::Statement::Query(parsed) = *statement else { return None };
        let SetExpr::Select(select) = parsed.body.as_ref() else { return None };
        let has_more =
            parsed.with.is_some() || select.distinct.is_some() || select.having.is_some() || select.qualify.is_some();
        if has_more {
            return None;
        }
        let mut columns: HashSet<String> = table.columns.iter().map(|column| column.name.to_lowercase()).collect();
        if table.has_virtual_date() {
            columns.insert(DATE_COLUMN.to_owned());
        }
        let time = table.time.to_lowercase();
        let scope = Scope::of(select, &table.name, &columns, &time)?;
        let groups = keys_of(select, &scope, state)?;
        let groups: HashSet<String> = groups.iter().map(|key| scope.spelling(key)).collect();
        let (mut keys, mut values, mut bucket) = (HashMap::new(), HashMap::new(), None);
        for (place, item) in select.projection.iter().enumerate() {
            let expr = expression_of(item)?;
            let spelling = scope.spelling(expr);
            if !groups.contains(&spelling) {
                values.entry(spelling).or_insert(place);
                continue;
            }
            if bucket.is_none() {
                bucket = scope.timeline(expr, state).map(|timeline| (place, timeline));
            }
            keys.entry(spelling).or_insert(place);
        }
        let conditions =
            select.selection.iter().flat_map(conjuncts).map(|condition| scope.spelling(condition)).collect();
        let day_start = table.day_start;
        let is_whole = !groups.is_empty() && keys.len() == groups.len();
        is_whole.then(|| GroupedView {
            view: view.name.clone(),
            table: table.name.clone(),
            time: time.clone(),
            symbol: table.symbol.as_ref().map(|symbol| symbol.to_lowercase()),
            has_virtual_date: table.has_virtual_date(),
            zone: table.zone().unwrap_or(Tz::UTC),
            day_start: (!day_start.is_midnight()).then(|| day_start.to_string()),
            day_start_ns: -day_start.lead(),
            names: query.names(),
            columns: columns.clone(),
            keys,
            values,
            conditions,
            bucket,
        })
    }

    /// The column of its buckets, if the table's dates are made of whole ones from an instant on.
    pub(super) fn has_dates(&self, from: i64) -> Option<usize> {
        let (place, timeline) = self.bucket.as_ref().filter(|_| self.has_virtual_date)?;
        functions::dates_are_made_of(self.zone, self.day_start_ns, timeline, from).then_some(*place)
    }
}

/// The group keys of a select, with aliases and numbers resolved; none if it has no such clause.
pub(super) fn keys_of(select: &Select, scope: &Scope<'_>, state: &SessionState) -> Option<Vec<Expr>> {
    match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => {
            keys.iter().map(|key| key_of(key, select, scope)).collect()
        }
        GroupByExpr::All(modifiers) if modifiers.is_empty() => {
            let items = select.projection.iter().map(expression_of).collect::<Option<Vec<&Expr>>>()?;
            Some(items.into_iter().filter(|item| !aggregates(item, state)).cloned().collect())
        }
        _ => None,
    }
}

fn key_of(key: &Expr, select: &Select, scope: &Scope<'_>) -> Option<Expr> {
    let name = match unnested(key) {
        Expr::Value(value) => {
            let Value::Number(number, _) = &value.value else { return None };
            let place = number.to_string().parse::<usize>().ok()?.checked_sub(1)?;
            return expression_of(select.projection.get(place)?).cloned();
        }
        Expr::Identifier(name) => name,
        _ => return Some(key.clone()),
    };
    let alias = select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value.eq_ignore_ascii_case(&name.value) => Some(expr),
        _ => None,
    });
    match (scope.column(key), alias) {
        // If the name and the alias are the same expression, either may be meant.
        (Some(column), Some(expr)) => (scope.spelling(expr) == column).then(|| key.clone()),
        (Some(_), None) => Some(key.clone()),
        (None, Some(expr)) => Some(expr.clone()),
        (None, None) => None,
    }
}

/// Whether an expression aggregates rows.
pub(super) fn aggregates(expr: &Expr, state: &SessionState) -> bool {
    any_expression(
        expr,
        |inner| matches!(inner, Expr::Function(call) if call.over.is_none() && is_aggregate(call, state)),
    )
}

pub(super) fn expression_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
