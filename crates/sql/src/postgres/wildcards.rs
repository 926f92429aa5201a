//! `SELECT c.oid, c.* FROM pg_class c`: the columns of a table of the catalogue are written out beside others, which may have the same names.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
};

use super::columns::columns;
use super::rewrite::parts;

/// Replaces the wildcards in the selects of a query body, except for queries of a `WITH`.
pub(super) fn write_out(body: &mut SetExpr, queries: &[String]) {
    match body {
        SetExpr::Select(select) if select.projection.len() > 1 => of_select(select, queries),
        SetExpr::SetOperation { left, right, .. } => {
            write_out(left, queries);
            write_out(right, queries);
        }
        _ => {}
    }
}

fn of_select(select: &mut Select, queries: &[String]) {
    let mut tables = Vec::new();
    select.from.iter().for_each(|from| add_tables(from, queries, &mut tables));
    let projection = std::mem::take(&mut select.projection);
    select.projection = projection.into_iter().flat_map(|item| written_out(item, &tables)).collect();
}

/// The names of the catalogue's tables in a `FROM`, and their columns.
fn add_tables(from: &TableWithJoins, queries: &[String], tables: &mut Vec<(String, &'static str)>) {
    for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => add_tables(table_with_joins, queries, tables),
            TableFactor::Table { name, alias, args: None, .. } => {
                let parts = parts(name);
                let is_of_catalogue = match parts.as_slice() {
                    [table] => !queries.contains(&table.to_lowercase()),
                    [schema, _] => schema.eq_ignore_ascii_case("pg_catalog"),
                    _ => false,
                };
                let Some(table) = parts.last().filter(|_| is_of_catalogue) else { continue };
                let called = alias.as_ref().map_or(*table, |alias| alias.name.value.as_str()).to_lowercase();
                tables.extend(columns(&table.to_ascii_lowercase()).map(|columns| (called, columns)));
            }
            _ => {}
        }
    }
}

fn written_out(item: SelectItem, tables: &[(String, &'static str)]) -> Vec<SelectItem> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = &item else {
        return vec![item];
    };
    let called = name.to_string();
    let table_columns = tables.iter().find(|(table, _)| table.eq_ignore_ascii_case(called.trim_matches('"')));
    let Some((_, columns)) = table_columns else { return vec![item] };
    let names = columns.split_whitespace().filter_map(|column| column.split_once(':'));
    let table = Ident::new(called);
    let column = |name: &str| SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![table.clone(), Ident::new(name)]));
    names.map(|(name, _)| column(name)).collect()
}
