//! Keys of an order that the planner takes for ambiguous: `SELECT n AS size, size AS x FROM t ORDER BY t.size`. It would add the column `t.size` to
//! the select list, beside the alias `size`.
//!
//! Such keys become columns of their own of a query in `FROM`, around which they are left out.
//!
//! And places of items that it doesn't find: `SELECT max(x) - min(x) FROM t ORDER BY 1`; and expressions of a distinct query:
//! `SELECT DISTINCT x % 2 FROM t ORDER BY x % 2`.

use std::collections::HashSet;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::function_calls::is_aggregate;
use crate::names::{title, titled};
use crate::walk::any_expression;

/// Gives sort keys of a query their own names, if one is a column whose name an alias has.
pub(super) fn name_apart(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    // A distinct query can only be sorted by its own columns.
    if select.distinct.is_some() || !keys.iter().any(|key| is_hidden(&key.expr, select)) {
        return;
    }
    let mut names = Vec::new();
    for key in keys {
        if is_of_list(&key.expr, select) {
            continue;
        }
        let name = Ident::with_quote('"', format!("__key_{}", names.len() + 1));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(name.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
        names.push(name.to_string());
    }
    let text = format!("SELECT * EXCLUDE ({}) FROM (SELECT 1)", names.join(", "));
    // The text parses: without a relation to fill, the query would stay as it is.
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let Ok(mut around) = parsed else { return };
    if let SetExpr::Select(outer) = around.body.as_mut()
        && let Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) = outer.from.first_mut()
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
        query.body = around.body;
    }
}

/// Replaces the keys of a distinct query that repeat an expression of its select list by the name of that column, by which alone it can be sorted.
pub(super) fn name_repeated(select: &Select, keys: &mut [OrderByExpr]) {
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    // A number is the position of an item.
    for key in keys.iter_mut().filter(|key| !matches!(key.expr, Expr::Value(_))) {
        let Some(text) = title(&key.expr) else { continue };
        let name = select.projection.iter().find_map(|item| match item {
            SelectItem::UnnamedExpr(expr) => (title(expr).as_ref() == Some(&text)).then(|| titled(text.clone())),
            SelectItem::ExprWithAlias { expr, alias } => (title(expr).as_ref() == Some(&text)).then(|| alias.clone()),
            _ => None,
        });
        if let Some(name) = name {
            key.expr = Expr::Identifier(name);
        }
    }
}

/// Replaces the number of an item without an alias by its expression, if the select aggregates: the planner looks for its column only among keys and
/// aggregates.
pub(super) fn write_places_out(select: &Select, keys: &mut [OrderByExpr], state: &SessionState) {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let aggregates = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => any_expression(
            expr,
            |inner| matches!(inner, Expr::Function(call) if call.over.is_none() && is_aggregate(call, state)),
        ),
        _ => false,
    };
    let is_plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    // A distinct query can only be sorted by its own columns, and a `*` may stand for any number of them.
    if select.distinct.is_some()
        || !select.projection.iter().all(is_plain)
        || !(is_grouped || select.projection.iter().any(aggregates))
    {
        return;
    }
    for key in keys {
        if let Expr::Value(value) = &key.expr
            && let Value::Number(place, _) = &value.value
            && let Some(place) = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1))
            && let Some(SelectItem::UnnamedExpr(expr)) = select.projection.get(place)
            && !is_found(expr, place, select, state)
        {
            // In brackets, because a number would be a position again.
            key.expr = Expr::Nested(Box::new(expr.clone()));
        }
    }
}

/// Whether the planner finds the column of an item: it is a group key, or a plain aggregate.
fn is_found(expr: &Expr, place: usize, select: &Select, state: &SessionState) -> bool {
    let is_place = |key: &Expr| match key {
        Expr::Value(value) => matches!(&value.value, Value::Number(number, _) if *number == (place + 1).to_string()),
        _ => false,
    };
    let is_key = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter().any(|key| key == expr || is_place(key)),
        GroupByExpr::All(_) => false,
    };
    let is_aggregate = matches!(expr, Expr::Function(call) if call.over.is_none() && is_aggregate(call, state));
    is_key || is_aggregate || column_of(expr).is_some()
}

fn folded_name(name: &Ident) -> String {
    name.value.to_lowercase()
}

/// The last name of a column.
fn column_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(name) => Some(folded_name(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded_name),
        _ => None,
    }
}

/// Whether a key reads a column whose name is the alias of another expression.
fn is_hidden(key: &Expr, select: &Select) -> bool {
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((column_of(expr), folded_name(alias))),
        _ => None,
    });
    let others: HashSet<String> =
        aliases.filter(|(column, alias)| column.as_ref() != Some(alias)).map(|(_, alias)| alias).collect();
    // A column that the select list contains already isn't added.
    let is_listed = |parts: &[Ident]| {
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(others)) => {
                others.len() == parts.len()
                    && others.iter().zip(parts).all(|(one, other)| folded_name(one) == folded_name(other))
            }
            _ => false,
        })
    };
    any_expression(key, |inner| match inner {
        Expr::CompoundIdentifier(parts) => {
            parts.last().is_some_and(|name| others.contains(&folded_name(name))) && !is_listed(parts)
        }
        _ => false,
    })
}

/// Whether a key is a position in the select list, or the name of a column of it.
fn is_of_list(key: &Expr, select: &Select) -> bool {
    let is_named = |name: &String| {
        select.projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => folded_name(alias) == *name,
            SelectItem::UnnamedExpr(expr) => column_of(expr).as_ref() == Some(name),
            _ => false,
        })
    };
    match key {
        Expr::Value(value) => matches!(value.value, Value::Number(_, _)),
        Expr::Identifier(name) => is_named(&folded_name(name)),
        _ => false,
    }
}
