//! The columns of an answer, by types of PostgreSQL.

use arrow::datatypes::Schema;
pub(super) use splay_sql::postgres::types::*;

use super::replies::Column;

/// The columns of an answer.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let fields = schema.fields().iter();
    fields.map(|field| Column { name: field.name().clone(), held: Type::of(field.data_type()) }).collect()
}
