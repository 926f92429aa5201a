//! `information_schema.columns` in PostgreSQL's form: its types, numbers from 1, and names in their own spelling,
//! which its clients quote. Columns without a right to see them are missing. And its tables of constraints, rights and others, without rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;

use super::tables::{CatalogueSchema, Value, table};
use super::types::{self, Type, item};
use crate::syntax::snapshot_of;

/// Tables of `information_schema` that are always empty here, with the columns that clients read, as in `columns.rs`.
const EMPTY: [(&str, &str); 14] = [
    ("check_constraints", "constraint_catalog:t constraint_schema:t constraint_name:t check_clause:t"),
    (
        "column_privileges",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t column_name:t privilege_type:t is_grantable:t",
    ),
    (
        "constraint_column_usage",
        "table_catalog:t table_schema:t table_name:t column_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    (
        "constraint_table_usage",
        "table_catalog:t table_schema:t table_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    ("domains", "domain_catalog:t domain_schema:t domain_name:t data_type:t"),
    ("foreign_tables", "foreign_table_catalog:t foreign_table_schema:t foreign_table_name:t foreign_server_name:t"),
    (
        "key_column_usage",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t column_name:t \
         ordinal_position:i position_in_unique_constraint:i",
    ),
    (
        "referential_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t unique_constraint_catalog:t unique_constraint_schema:t \
         unique_constraint_name:t match_option:t update_rule:t delete_rule:t",
    ),
    (
        "role_table_grants",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t is_grantable:t with_hierarchy:t",
    ),
    (
        "sequences",
        "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t start_value:t minimum_value:t maximum_value:t increment:t",
    ),
    (
        "table_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t constraint_type:t \
         is_deferrable:t initially_deferred:t enforced:t",
    ),
    (
        "table_privileges",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t is_grantable:t with_hierarchy:t",
    ),
    (
        "triggers",
        "trigger_catalog:t trigger_schema:t trigger_name:t event_manipulation:t event_object_catalog:t event_object_schema:t \
         event_object_table:t action_statement:t action_orientation:t action_timing:t",
    ),
    ("user_defined_types", "user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t"),
];

const CHARACTER_SETS: (&str, &str) = (
    "character_sets",
    "character_set_catalog:t character_set_schema:t character_set_name:t character_repertoire:t form_of_use:t default_collate_catalog:t",
);

/// Whether a table is only in PostgreSQL's `information_schema`.
pub(crate) fn is_information(name: &str) -> bool {
    EMPTY.iter().any(|(table, _)| *table == name) || name == CHARACTER_SETS.0
}

/// A table that is only in PostgreSQL's `information_schema`.
pub(crate) fn information_table(name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let of_utf8 = || {
        let values = [("character_set_name", "UTF8"), ("character_repertoire", "UCS"), ("form_of_use", "UTF8")];
        values.map(|(column, value)| (column, Value::from(value))).to_vec()
    };
    let memory_table = match EMPTY.iter().find(|(table, _)| *table == name) {
        Some((_, columns)) => table(columns, &[])?,
        None if name == CHARACTER_SETS.0 => table(CHARACTER_SETS.1, &[of_utf8()])?,
        None => return Ok(None),
    };
    Ok(Some(Arc::new(memory_table)))
}

/// Columns of tables, column by column.
#[derive(Default)]
struct Columns {
    schemas: Vec<&'static str>,
    tables: Vec<String>,
    names: Vec<String>,
    numbers: Vec<i32>,
    nullable: Vec<bool>,
    /// The type of each column, and whether it is an array.
    types: Vec<(Type, bool)>,
}

impl CatalogueSchema {
    /// The table.
    pub(crate) async fn information_columns(&self) -> Result<Arc<dyn TableProvider>> {
        let mut columns = Columns::default();
        for name in self.public.table_names() {
            // A table that can't be read shows no columns. A statement that reads it gets the error.
            let Ok(Some(table)) = self.public.table(&name).await else { continue };
            let spelled = snapshot_of(&self.database, &name).ok().map(|snapshot| snapshot.spec().shown_arrow());
            columns.add("public", &name, &table.schema(), spelled.as_ref());
        }
        for name in self.table_names() {
            if let Some(table) = self.table(&name).await? {
                columns.add("pg_catalog", &name, &table.schema(), None);
            }
        }
        let rows = columns.rows()?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}

impl Columns {
    /// Adds the columns of a table, in their original spelling.
    fn add(&mut self, schema: &'static str, table: &str, fields: &SchemaRef, spelled: Option<&SchemaRef>) {
        for (number, field) in (1..).zip(fields.fields()) {
            let shown = spelled.iter().flat_map(|spelled| spelled.fields().iter());
            let shown = shown.map(|field| field.name()).find(|name| name.to_lowercase() == field.name().to_lowercase());
            self.schemas.push(schema);
            self.tables.push(table.to_owned());
            self.names.push(shown.unwrap_or(field.name()).clone());
            self.numbers.push(number);
            self.nullable.push(field.is_nullable());
            self.types.push((Type::of(field.data_type()), item(field.data_type()).is_some()));
        }
    }

    fn rows(self) -> Result<RecordBatch> {
        let rows = self.names.len();
        let same = |text: Option<&str>| Arc::new(StringArray::from(vec![text; rows])) as ArrayRef;
        let no_number = || Arc::new(Int32Array::from(vec![None; rows])) as ArrayRef;
        let numbers = |of: fn(Type) -> Option<i32>| {
            Arc::new(self.types.iter().map(|(data_type, _)| of(*data_type)).collect::<Int32Array>()) as ArrayRef
        };
        let nullable = self.nullable.iter().map(|is| Some(if *is { "YES" } else { "NO" }));
        let shown = self.types.iter().map(|(data_type, is_array)| match is_array {
            true => "ARRAY".to_owned(),
            false => types::shown(i64::from(data_type.oid), None),
        });
        let type_names = self.types.iter().map(|(data_type, _)| types::name(data_type.oid));
        let shown = StringArray::from_iter_values(shown);
        let type_names = StringArray::from_iter_values(type_names);
        let nullable = nullable.collect::<StringArray>();
        let columns: [(&str, ArrayRef); 21] = [
            ("table_catalog", same(Some("splay"))),
            ("table_schema", Arc::new(StringArray::from(self.schemas))),
            ("table_name", Arc::new(StringArray::from(self.tables))),
            ("column_name", Arc::new(StringArray::from(self.names))),
            ("ordinal_position", Arc::new(Int32Array::from(self.numbers))),
            ("column_default", same(None)),
            ("is_nullable", Arc::new(nullable)),
            ("data_type", Arc::new(shown)),
            ("character_maximum_length", no_number()),
            ("character_octet_length", no_number()),
            ("numeric_precision", numbers(precision)),
            ("numeric_precision_radix", numbers(radix)),
            ("numeric_scale", numbers(scale)),
            ("datetime_precision", numbers(time_digits)),
            ("interval_type", same(None)),
            ("udt_catalog", same(Some("splay"))),
            ("udt_schema", same(Some("pg_catalog"))),
            ("udt_name", Arc::new(type_names)),
            ("is_identity", same(Some("NO"))),
            ("is_generated", same(Some("NEVER"))),
            ("is_updatable", same(Some("YES"))),
        ];
        Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))?)
    }
}

/// The digits of a number, to its radix.
fn precision(data_type: Type) -> Option<i32> {
    match data_type.oid {
        types::INT2 => Some(16),
        types::INT4 => Some(32),
        types::INT8 => Some(64),
        types::FLOAT4 => Some(24),
        types::FLOAT8 => Some(53),
        types::NUMERIC if data_type.modifier >= 4 => Some((data_type.modifier - 4) >> 16),
        _ => None,
    }
}

fn radix(data_type: Type) -> Option<i32> {
    match data_type.oid {
        types::INT2 | types::INT4 | types::INT8 | types::FLOAT4 | types::FLOAT8 => Some(2),
        types::NUMERIC => Some(10),
        _ => None,
    }
}

/// The digits of a number behind its point.
fn scale(data_type: Type) -> Option<i32> {
    match data_type.oid {
        types::INT2 | types::INT4 | types::INT8 => Some(0),
        types::NUMERIC if data_type.modifier >= 4 => Some((data_type.modifier - 4) & 0xffff),
        _ => None,
    }
}

/// The digits of a second.
fn time_digits(data_type: Type) -> Option<i32> {
    match data_type.oid {
        types::DATE => Some(0),
        types::TIME | types::TIMESTAMP | types::TIMESTAMPTZ | types::INTERVAL => Some(6),
        _ => None,
    }
}
