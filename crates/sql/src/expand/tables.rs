//! The columns of a `FROM` of tables alone, by their schemas: the planner's work grows with the square of the columns of `*`.

use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator, Query, SetExpr, TableAlias, TableFactor};

use super::relation::Relation;
use crate::files::FileTable;
use crate::names::Spellings;
use crate::provider::TickTable;

/// A table of a `FROM`, with the qualifier of its columns.
pub(super) struct Named {
    table: TableReference,
    qualifier: TableReference,
}

/// The tables of `SELECT * FROM …` in their order; `None` if it reads something else or merges columns of joins.
pub(super) fn named(query: &Query) -> Option<Vec<Named>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let hidden = query.with.iter().flat_map(|with| &with.cte_tables).map(|table| table.alias.name.value.to_lowercase());
    let hidden: Vec<String> = hidden.collect();
    let mut tables: Vec<Named> = Vec::new();
    for from in &select.from {
        if !from.joins.iter().all(|join| keeps_columns(&join.join_operator)) {
            return None;
        }
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            let table = Named::of(factor)?;
            let is_bare = matches!(table.table, TableReference::Bare { .. });
            let is_taken = tables.iter().any(|other| other.qualifier.table() == table.qualifier.table());
            if is_taken || is_bare && hidden.iter().any(|name| name == table.table.table()) {
                return None;
            }
            tables.push(table);
        }
    }
    Some(tables)
}

/// Whether `*` over a join has all columns of both sides.
fn keeps_columns(join: &JoinOperator) -> bool {
    use JoinOperator as J;
    let constraint = match join {
        J::Join(constraint) | J::Inner(constraint) | J::Left(constraint) | J::LeftOuter(constraint) => constraint,
        J::Right(constraint) | J::RightOuter(constraint) | J::FullOuter(constraint) => constraint,
        J::CrossJoin(constraint) => constraint,
        _ => return false,
    };
    matches!(constraint, JoinConstraint::On(_) | JoinConstraint::None)
}

impl Named {
    fn of(factor: &TableFactor) -> Option<Named> {
        let TableFactor::Table { name, alias, args: None, version: None, sample: None, json_path: None, .. } = factor
        else {
            return None;
        };
        let table = object_name_to_table_reference(name.clone(), true).ok()?;
        let qualifier = match alias {
            None => table.clone(),
            Some(TableAlias { name, columns, .. }) if columns.is_empty() => {
                object_name_to_table_reference(name.clone().into(), true).ok()?
            }
            Some(_) => return None,
        };
        Some(Named { table, qualifier })
    }
}

/// The columns of tables of the store and of files, with the time of the first; `None` if one is of another kind.
///
/// # Errors
/// Those of the store, and those of files that can't be read.
pub(super) async fn relation(tables: &[Named], state: &SessionState) -> Result<Option<Relation>> {
    let mut columns = DFSchema::empty();
    let mut spellings = Spellings::default();
    let mut time = None;
    for (number, Named { table, qualifier }) in tables.iter().enumerate() {
        let Ok(schema) = state.schema_for_ref(table.clone()) else { return Ok(None) };
        let Some(provider) = schema.table(table.table()).await? else { return Ok(None) };
        let shown = DFSchema::try_from_qualified_schema(qualifier.clone(), &provider.schema())?;
        if let Some(table) = provider.downcast_ref::<TickTable>() {
            let spec = table.spec();
            if number == 0 {
                time = shown.fields().iter().position(|field| *field.name() == spec.time.to_lowercase());
            }
            spellings.add_table(qualifier.table(), spec.columns.iter().map(|column| column.name.as_str()));
        } else if let Some(files) = provider.downcast_ref::<FileTable>() {
            spellings.add_table(qualifier.table(), files.names());
        } else {
            return Ok(None);
        }
        columns = columns.join(&shown)?;
    }
    Ok(Some(Relation::spelt(&columns, &spellings, time)))
}
