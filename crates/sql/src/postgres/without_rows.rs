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
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => null_like(expr),
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    (select.from, select.distinct) = (Vec::new(), None);
    select.selection = Some(Expr::Value(Value::Boolean(false).into()));
}

/// A null of the type of an expression: for a column its type in the catalogue, for items of a list a number, otherwise a text.
fn null_like(expr: &Expr) -> Expr {
    let is_of_items = matches!(
        expr,
        Expr::Function(call)
            if ["unnest", "generate_subscripts"].iter().any(|of| call.name.to_string().eq_ignore_ascii_case(of))
    );
    let data_type = match expr {
        Expr::Identifier(name) => data_type(&name.value),
        Expr::CompoundIdentifier(names) => names.last().and_then(|name| data_type(&name.value)),
        _ => is_of_items.then_some(DataType::BigInt(None)),
    };
    typed_null(data_type.unwrap_or(DataType::Varchar(None)))
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
