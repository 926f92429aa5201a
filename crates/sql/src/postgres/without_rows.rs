//! Selects from tables of the catalogue that never have rows, and from queries of these: answered without planning their expressions, some of which have no plan.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, CastKind, DataType, Expr, GroupByExpr, Ident, JoinOperator, ObjectNamePart, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value,
};

use super::columns::{is_empty, kind_of};
use super::rewrite::parts;
use crate::walk::any_expression_outside_queries;

/// Whether all selects of a query body read tables that never have rows; these selects are simplified.
pub(super) fn without_rows(body: &mut SetExpr, queries: &[String]) -> bool {
    match body {
        SetExpr::Select(select) => {
            let is_so = never_has_rows(select, queries);
            if is_so {
                simplify(select);
            }
            is_so
        }
        SetExpr::SetOperation { left, right, .. } => {
            // Both sides must be visited.
            let (left, right) = (without_rows(left, queries), without_rows(right, queries));
            left && right
        }
        _ => false,
    }
}

/// Whether no select of a query body, in `FROM` of another one, returns a row.
fn is_empty_body(body: &SetExpr, queries: &[String]) -> bool {
    match body {
        SetExpr::Select(select) => never_has_rows(select, queries),
        SetExpr::Query(query) => query.with.is_none() && is_empty_body(&query.body, queries),
        SetExpr::SetOperation { left, right, .. } => is_empty_body(left, queries) && is_empty_body(right, queries),
        _ => false,
    }
}

/// Whether a select needs a row of a table that never has any.
fn never_has_rows(select: &Select, queries: &[String]) -> bool {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let is_aggregate = any_expression_outside_queries(&select.projection, is_call_of_aggregate);
    let is_plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if is_grouped || is_aggregate || !select.projection.iter().all(is_plain) {
        return false;
    }
    select.from.iter().any(|from| is_without_rows(from, queries))
}

/// Whether a table with its joins never returns a row.
fn is_without_rows(from: &TableWithJoins, queries: &[String]) -> bool {
    let has_needed = is_empty_table(&from.relation, queries)
        || from.joins.iter().any(|join| {
            let needs = matches!(
                join.join_operator,
                JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
            );
            needs && is_empty_table(&join.relation, queries)
        });
    // An outer join returns the rows of one side without a match.
    has_needed
        && from.joins.iter().all(|join| {
            !matches!(
                join.join_operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            )
        })
}

fn is_call_of_aggregate(expr: &Expr) -> bool {
    let names = ["count", "sum", "min", "max", "avg", "bool_and", "bool_or", "array_agg", "string_agg", "every"];
    let Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
    name.is_some_and(|name| names.iter().any(|aggregate| name.value.eq_ignore_ascii_case(aggregate)))
}

fn is_empty_table(factor: &TableFactor, queries: &[String]) -> bool {
    let name = match factor {
        TableFactor::Table { name, args: None, .. } => name,
        TableFactor::NestedJoin { table_with_joins, .. } => return is_without_rows(table_with_joins, queries),
        TableFactor::Derived { subquery, .. } => {
            return subquery.with.is_none() && is_empty_body(&subquery.body, queries);
        }
        _ => return false,
    };
    match parts(name).as_slice() {
        [table] => is_empty(table) && !queries.contains(&table.to_lowercase()),
        [schema, table] => schema.eq_ignore_ascii_case("pg_catalog") && is_empty(table),
        _ => false,
    }
}

/// The select with the same columns, all null, and no rows.
fn simplify(select: &mut Select) {
    let mut names: Vec<String> = Vec::new();
    for item in &mut select.projection {
        let alias = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            SelectItem::UnnamedExpr(expr) => Ident::with_quote('"', column_name(expr)),
            _ => continue,
        };
        let mut alias = alias;
        while names.contains(&alias.value) {
            alias.value.push('_');
        }
        names.push(alias.value.clone());
        let data_type = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => type_of(expr, &select.from),
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias { expr: typed_null(data_type.unwrap_or(DataType::Varchar(None))), alias };
    }
    (select.from, select.distinct) = (Vec::new(), None);
    select.selection = Some(Expr::Value(Value::Boolean(false).into()));
}

/// The type of an expression in a select from these tables: that of a column in the catalogue or in a query of `FROM`, a number for items of a list,
/// and none otherwise.
fn type_of(expr: &Expr, from: &[TableWithJoins]) -> Option<DataType> {
    match expr {
        Expr::Identifier(name) => type_of_column(&name.value, from),
        Expr::CompoundIdentifier(names) => type_of_column(&names.last()?.value, from),
        Expr::Nested(expr) => type_of(expr, from),
        // The items of a list and their places, as `_pg_expandarray` has them.
        Expr::CompoundFieldAccess { .. } if matches!(column_name(expr).as_str(), "n" | "x") => {
            Some(DataType::BigInt(None))
        }
        Expr::Function(call) => {
            let name = call.name.to_string();
            let is_of_items = ["unnest", "generate_subscripts"].iter().any(|of| name.eq_ignore_ascii_case(of));
            is_of_items.then_some(DataType::BigInt(None))
        }
        _ => None,
    }
}

fn type_of_column(column: &str, from: &[TableWithJoins]) -> Option<DataType> {
    let relations = from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let queries = relations.filter_map(|relation| match relation {
        TableFactor::Derived { subquery, .. } => Some(&*subquery.body),
        _ => None,
    });
    let mut found = queries.filter_map(|body| named_item(body, column));
    found.next().map_or_else(|| data_type(column), |(expr, from)| type_of(expr, from))
}

/// The expression of a query body's column, and the tables that it is of.
fn named_item<'a>(body: &'a SetExpr, column: &str) -> Option<(&'a Expr, &'a [TableWithJoins])> {
    match body {
        SetExpr::Select(select) => select.projection.iter().find_map(|item| {
            let (name, expr) = match item {
                SelectItem::ExprWithAlias { expr, alias } => (alias.value.clone(), expr),
                SelectItem::UnnamedExpr(expr) => (column_name(expr), expr),
                _ => return None,
            };
            name.eq_ignore_ascii_case(column).then_some((expr, select.from.as_slice()))
        }),
        SetExpr::Query(query) => named_item(&query.body, column),
        SetExpr::SetOperation { left, .. } => named_item(left, column),
        _ => None,
    }
}

fn data_type(column: &str) -> Option<DataType> {
    match kind_of(&column.to_ascii_lowercase())? {
        "i" => Some(DataType::BigInt(None)),
        "b" => Some(DataType::Boolean),
        "n" => Some(list_of(DataType::BigInt(None))),
        _ => None,
    }
}

/// The type of lists.
pub(super) fn list_of(item: DataType) -> DataType {
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None))
}

/// A null of a type.
pub(super) fn typed_null(data_type: DataType) -> Expr {
    let expr = Box::new(Expr::Value(Value::Null.into()));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// The name that PostgreSQL gives a column.
fn column_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => names.last().map_or_else(String::new, |name| name.value.clone()),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => column_name(expr),
        Expr::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(AccessExpr::Dot(field)) => column_name(field),
            _ => "?column?".to_owned(),
        },
        Expr::Function(function) => function
            .name
            .0
            .last()
            .and_then(ObjectNamePart::as_ident)
            .map_or_else(String::new, |name| name.value.clone()),
        Expr::Case { .. } => "case".to_owned(),
        _ => "?column?".to_owned(),
    }
}
