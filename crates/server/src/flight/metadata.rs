//! Flight SQL's metadata requests about the server and its tables.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{GetCatalogsBuilder, SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction,
};
use splay_sql::Session;
use splay_store::View;

use super::texts;
use crate::problem::{Code, Outcome, Problem};

/// The catalogue that all tables are in.
const CATALOG: &str = "splay";
/// The schema that all tables are in.
const SCHEMA: &str = "public";
/// The type of tables and views.
const TABLE_TYPE: &str = "TABLE";
const VIEW_TYPE: &str = "VIEW";

/// Whether names of a catalogue and a schema, where given, are those of the tables.
pub(super) fn is_place(catalog: Option<&str>, schema: Option<&str>) -> bool {
    let is = |filter: Option<&str>, name: &str| filter.is_none_or(|filter| filter.is_empty() || filter == name);
    is(catalog, CATALOG) && is(schema, SCHEMA)
}

pub(super) fn cant_write(error: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Internal, format!("metadata can't be written: {error}"))
}

/// The properties of the server, for `GetSqlInfo`.
pub(super) static INFO: LazyLock<Result<SqlInfoData, String>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "SplayDB");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.4");
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    dialect(&mut info);
    info.build().map_err(|error: FlightError| error.to_string())
});

/// The properties of the dialect, for tools that write statements by themselves: names, clauses, bounds. A bound of zero means none, or an unknown
/// one.
fn dialect(info: &mut SqlInfoDataBuilder) {
    // Names match without regard to case and are kept as written; nulls sort last when ascending, first when descending.
    info.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32);
    info.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    );
    info.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlExtraNameCharacters, "");
    info.append(SqlInfo::SqlCatalogTerm, "catalog");
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlProcedureTerm, "procedure");
    for list in [
        SqlInfo::SqlKeywords,
        SqlInfo::SqlNumericFunctions,
        SqlInfo::SqlStringFunctions,
        SqlInfo::SqlSystemFunctions,
        SqlInfo::SqlDatetimeFunctions,
    ] {
        info.append(list, Vec::<String>::new());
    }
    for yes in [
        SqlInfo::SqlAllTablesAreSelectable,
        SqlInfo::SqlSupportsColumnAliasing,
        SqlInfo::SqlNullPlusNullIsNull,
        SqlInfo::SqlSupportsTableCorrelationNames,
        SqlInfo::SqlSupportsExpressionsInOrderBy,
        SqlInfo::SqlSupportsOrderByUnrelated,
        SqlInfo::SqlSupportsLikeEscapeClause,
        SqlInfo::SqlCatalogAtStart,
        SqlInfo::SqlCorrelatedSubqueriesSupported,
        SqlInfo::SqlNamedParametersSupported,
    ] {
        info.append(yes, true);
    }
    for no in [
        SqlInfo::SqlDdlCatalog,
        SqlInfo::SqlDdlSchema,
        SqlInfo::SqlDdlTable,
        SqlInfo::SqlSupportsDifferentTableCorrelationNames,
        SqlInfo::SqlSupportsNonNullableColumns,
        SqlInfo::SqlSupportsIntegrityEnhancementFacility,
        SqlInfo::SqlSelectForUpdateSupported,
        SqlInfo::SqlStoredProceduresSupported,
        SqlInfo::SqlMaxRowSizeIncludesBlobs,
        SqlInfo::SqlTransactionsSupported,
        SqlInfo::SqlDataDefinitionCausesTransactionCommit,
        SqlInfo::SqlDataDefinitionsInTransactionsIgnored,
        SqlInfo::SqlBatchUpdatesSupported,
        SqlInfo::SqlSavepointsSupported,
        SqlInfo::SqlLocatorsUpdateCopy,
        SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported,
    ] {
        info.append(no, false);
    }
    // From SqlMaxBinaryLiteralLength to SqlMaxUsernameLength.
    for bound in (541..=561u32).filter(|bound| *bound != SqlInfo::SqlMaxRowSizeIncludesBlobs as u32) {
        info.append(bound, 0i64);
    }
    info.append(SqlInfo::SqlMaxColumnNameLength, 128i64);
    info.append(SqlInfo::SqlMaxColumnsInTable, 4096i64);
    info.append(SqlInfo::SqlMaxTableNameLength, 128i64);
    info.append(SqlInfo::SqlDefaultTransactionIsolation, 0i64);
    // Groups by any expression; entry-level grammar; inner and outer joins; sub-queries in comparisons, EXISTS, IN and with ANY;
    // UNION and UNION ALL; results that are read once, forwards.
    info.append(SqlInfo::SqlSupportedGroupBy, 0b11i32);
    info.append(SqlInfo::SqlSupportedGrammar, 0b001i32);
    info.append(SqlInfo::SqlOuterJoinsSupportLevel, 0b10i32);
    info.append(SqlInfo::SqlSupportedSubqueries, 0b1111i32);
    info.append(SqlInfo::SqlSupportedUnions, 0b11i32);
    info.append(SqlInfo::SqlSupportedResultSetTypes, 0b010i32);
    for none in [
        SqlInfo::SqlSchemasSupportedActions,
        SqlInfo::SqlCatalogsSupportedActions,
        SqlInfo::SqlSupportedPositionedCommands,
        SqlInfo::SqlSupportedTransactionsIsolationLevels,
    ] {
        info.append(none, 0i32);
    }
}

pub(super) fn info(command: Vec<u32>) -> Outcome<RecordBatch> {
    INFO.as_ref().map_err(cant_write)?.record_batch(command).map_err(cant_write)
}

pub(super) fn catalogs() -> Outcome<RecordBatch> {
    let mut builder = GetCatalogsBuilder::new();
    builder.append(CATALOG);
    builder.build().map_err(cant_write)
}

pub(super) fn schemas(command: CommandGetDbSchemas) -> Outcome<RecordBatch> {
    let mut builder = command.into_builder();
    builder.append(CATALOG, SCHEMA);
    builder.build().map_err(cant_write)
}

pub(super) fn table_types() -> Outcome<RecordBatch> {
    let mut builder = CommandGetTableTypes {}.into_builder();
    builder.append(TABLE_TYPE);
    builder.append(VIEW_TYPE);
    builder.build().map_err(cant_write)
}

/// Tables and views, with their columns if asked for, in which symbols are texts with `as_texts`. Reads what each table is, and plans
/// each view; not for the network's threads.
pub(super) fn tables(command: CommandGetTables, session: &Session, as_texts: bool) -> Outcome<RecordBatch> {
    let mut builder = command.into_builder();
    let (database, shown) =
        (session.database(), |schema: &Schema| if as_texts { texts::schema(schema) } else { schema.clone() });
    let mut tables = database.tables()?;
    tables.retain(|name| session.sees(name));
    let is_hidden = |view: &&View| tables.iter().any(|name| name.eq_ignore_ascii_case(&view.name));
    // A damaged list of views doesn't hide the tables; statements that read a view get the error.
    for view in session.readable_views().iter().filter(|view| !is_hidden(view)) {
        // A view whose tables are gone is left out.
        let described = session.describe(&format!("SELECT * FROM \"{}\"", view.name));
        let schema = described.map_or_else(|_| Schema::empty(), |described| shown(&described.schema));
        builder.append(CATALOG, SCHEMA, &view.name, VIEW_TYPE, &schema).map_err(cant_write)?;
    }
    for name in tables {
        let snapshot = match database.table(&name).and_then(|table| table.snapshot()) {
            // A damaged table doesn't hide the others; statements that read it get the error.
            Err(error) if error.is_damage() => {
                builder.append(CATALOG, SCHEMA, &name, TABLE_TYPE, &Schema::empty()).map_err(cant_write)?;
                continue;
            }
            result => result?,
        };
        let spec = snapshot.spec();
        let visible = session.known_columns(&spec.name, &spec.arrow());
        builder.append(CATALOG, SCHEMA, &spec.name, TABLE_TYPE, &shown(&visible)).map_err(cant_write)?;
    }
    builder.build().map_err(cant_write)
}

/// Keys that point from a table to another: there are none, in the columns that Flight SQL gives them.
pub(super) fn no_foreign_keys() -> RecordBatch {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let mut fields = Vec::new();
    for side in ["pk", "fk"] {
        fields.push(text(&format!("{side}_catalog_name"), true));
        fields.push(text(&format!("{side}_db_schema_name"), true));
        fields.push(text(&format!("{side}_table_name"), false));
        fields.push(text(&format!("{side}_column_name"), false));
    }
    fields.push(Field::new("key_sequence", DataType::Int32, false));
    fields.push(text("fk_key_name", true));
    fields.push(text("pk_key_name", true));
    fields.push(Field::new("update_rule", DataType::UInt8, false));
    fields.push(Field::new("delete_rule", DataType::UInt8, false));
    RecordBatch::new_empty(Arc::new(Schema::new(fields)))
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
