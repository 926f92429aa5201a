//! The columns of an answer, by types of PostgreSQL.

use arrow::datatypes::Schema;
pub(super) use splay_sql::postgres::types::*;

use super::replies::Column;

/// Lists of numbers of types, as asyncpg asks for them: it asks for the type of every list that it doesn't know by itself, and knows these.
const OIDS: u32 = 1028;
const INT8S: u32 = 1016;

/// The columns of an answer.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let data_type = |name: &str, data_type: Type| match data_type.oid {
        // There are no composite types with columns that it could name.
        INT8S if name == "attrtypoids" => Type { oid: OIDS, ..data_type },
        _ => data_type,
    };
    let fields = schema.fields().iter();
    fields
        .map(|field| Column {
            name: field.name().clone(),
            data_type: data_type(field.name(), Type::of(field.data_type())),
        })
        .collect()
}

/// The type of the placeholder `$at` of a statement, whose values are of a type of ours.
pub(super) fn of_placeholder(text: &str, at: usize, oid: u32) -> u32 {
    if oid == INT8S && text.contains(&format!("${at}::oid[]")) { OIDS } else { oid }
}
