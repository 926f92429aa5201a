//! What Flight SQL clients ask about a server and its tables.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{GetCatalogsBuilder, SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, SqlInfo, SqlSupportedTransaction,
};
use splay_store::Database;

use crate::problem::{Code, Outcome, Problem};

/// The catalogue that all tables are in.
const CATALOG: &str = "splay";
/// The schema that all tables are in.
const SCHEMA: &str = "public";
/// The kind that all tables are.
const TABLE_TYPE: &str = "TABLE";

fn cant_write(error: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Internal, format!("metadata can't be written: {error}"))
}

/// What the server is and can do.
pub(super) static INFO: LazyLock<Result<SqlInfoData, String>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "SplayDB");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.4");
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.build().map_err(|error: FlightError| error.to_string())
});

pub(super) fn info(asked: Vec<u32>) -> Outcome<RecordBatch> {
    INFO.as_ref().map_err(cant_write)?.record_batch(asked).map_err(cant_write)
}

pub(super) fn catalogs() -> Outcome<RecordBatch> {
    let mut builder = GetCatalogsBuilder::new();
    builder.append(CATALOG);
    builder.build().map_err(cant_write)
}

pub(super) fn schemas(asked: CommandGetDbSchemas) -> Outcome<RecordBatch> {
    let mut builder = asked.into_builder();
    builder.append(CATALOG, SCHEMA);
    builder.build().map_err(cant_write)
}

pub(super) fn table_types() -> Outcome<RecordBatch> {
    let mut builder = CommandGetTableTypes {}.into_builder();
    builder.append(TABLE_TYPE);
    builder.build().map_err(cant_write)
}

/// Tables, with their columns if asked for. Reads what each table is; not for the network's threads.
pub(super) fn tables(asked: CommandGetTables, database: &Database) -> Outcome<RecordBatch> {
    let mut builder = asked.into_builder();
    for name in database.tables()? {
        let spec = database.table(&name).and_then(|table| table.snapshot())?.spec().clone();
        builder.append(CATALOG, SCHEMA, &spec.name, TABLE_TYPE, &spec.arrow()).map_err(cant_write)?;
    }
    builder.build().map_err(cant_write)
}

/// Keys: no table has any, in the columns that Flight SQL gives them.
pub(super) fn no_primary_keys() -> RecordBatch {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let fields = vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("key_name", true),
    ];
    RecordBatch::new_empty(Arc::new(Schema::new(fields)))
}
