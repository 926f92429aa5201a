//! `pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive`: a table of the functions of types beside the types. `pg_proc` itself has no rows;
//! functions are known by name here.

use datafusion::sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, SetExpr, TableFactor};
use datafusion::sql::sqlparser::parser::Parser;

use super::rewrite::parts;
use crate::dialect::BoundedDialect;

/// Columns that name functions of types.
const FUNCTIONS: [&str; 4] = ["typinput", "typoutput", "typreceive", "typsend"];

/// Writes such joins of a query body.
pub(super) fn join_names(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
            joins.for_each(|join| {
                if let Some(names) = names(join) {
                    join.relation = names;
                }
            });
        }
        SetExpr::SetOperation { left, right, .. } => {
            join_names(left);
            join_names(right);
        }
        _ => {}
    }
}

/// The names of the functions that a join with `pg_proc` looks up.
fn names(join: &Join) -> Option<TableFactor> {
    let TableFactor::Table { name, alias, args: None, .. } = &join.relation else { return None };
    let is_functions = match parts(name).as_slice() {
        [table] => table.eq_ignore_ascii_case("pg_proc"),
        [schema, table] => schema.eq_ignore_ascii_case("pg_catalog") && table.eq_ignore_ascii_case("pg_proc"),
        _ => false,
    };
    let (JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::Left(on) | JoinOperator::LeftOuter(on)) =
        &join.join_operator
    else {
        return None;
    };
    let JoinConstraint::On(condition) = on else { return None };
    let condition = condition.to_string().to_lowercase();
    let function = FUNCTIONS.into_iter().find(|function| is_functions && condition.contains(function))?;
    let called = alias.as_ref().map_or("pg_proc".to_owned(), |alias| alias.name.to_string());
    let text =
        format!("(SELECT DISTINCT {function} AS oid, {function} AS proname FROM pg_catalog.pg_type) AS {called}");
    let dialect = BoundedDialect::of_postgres(&text);
    Parser::new(&dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_table_factor()).ok()
}
