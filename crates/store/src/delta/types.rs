//! The types of a published table: in its Parquet files and in Delta's schema. Readers of Delta tables accept a
//! file's column only in the type of the table's schema, so each column has one type in all files.

use std::collections::BTreeMap;

use arrow::datatypes::{Field, Schema};
use chrono::DateTime;
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Encoding, LogicalType, TimeUnit as ParquetUnit};
use parquet::file::metadata::ParquetMetaData;
use serde_json::{Value, json};

use crate::error::Result;
use crate::manifest::FileEntry;
use crate::partition::date;
use crate::publish::Publish;
use crate::schema::{ColumnSpec, ColumnType, DATE_COLUMN, TableSpec};
use crate::segment::Segment;

/// Signs that Delta has in no name of a column.
const REFUSED_SIGNS: [char; 9] = [' ', ',', ';', '{', '}', '(', ')', '\t', '='];

/// The published columns: those that people see.
fn columns(spec: &TableSpec) -> &[ColumnSpec] {
    spec.shown_columns()
}

/// Refuses columns that a Delta table can't have, with the reason.
pub(crate) fn check_names(spec: &TableSpec) -> Result<(), String> {
    match columns(spec).iter().find(|column| column.name.contains(REFUSED_SIGNS)) {
        None => Ok(()),
        Some(column) => Err(format!(
            "Delta tables have no column with a space or one of ,;{{}}()= in its name: rename {:?} first",
            column.name
        )),
    }
}

/// The table's schema as Delta writes it.
pub(super) fn schema(spec: &TableSpec) -> Result<String> {
    check_names(spec).map_err(|reason| spec.error(reason))?;
    let publish = spec.publish.unwrap_or(Publish::Delta);
    let mut fields = Vec::new();
    for column in columns(spec) {
        let comment = match (&column.column_type, publish) {
            (ColumnType::Timestamp, Publish::DeltaNanos) => json!({"comment": "nanoseconds since 1970-01-01 UTC"}),
            (ColumnType::Time, _) => json!({"comment": "nanoseconds since midnight"}),
            _ => json!({}),
        };
        let of_delta = delta_type(&column.column_type, publish);
        fields.push(json!({"name": column.name, "type": of_delta, "nullable": true, "metadata": comment}));
    }
    if is_partitioned(spec) {
        fields.push(json!({"name": DATE_COLUMN, "type": "date", "nullable": true, "metadata": {}}));
    }
    Ok(json!({"type": "struct", "fields": fields}).to_string())
}

fn delta_type(column_type: &ColumnType, publish: Publish) -> Value {
    Value::from(match column_type {
        ColumnType::Bool => "boolean",
        ColumnType::Int8 => "byte",
        ColumnType::Int16 | ColumnType::UInt8 => "short",
        ColumnType::Int32 | ColumnType::UInt16 => "integer",
        ColumnType::Int64 | ColumnType::UInt32 | ColumnType::Time => "long",
        ColumnType::UInt64 => "decimal(20,0)",
        ColumnType::Float32 => "float",
        ColumnType::Float64 => "double",
        ColumnType::Decimal { precision, scale } => return format!("decimal({precision},{scale})").into(),
        ColumnType::Date => "date",
        ColumnType::Timestamp => match publish {
            Publish::Delta => "timestamp",
            Publish::DeltaNanos => "long",
        },
        ColumnType::Symbol | ColumnType::Text => "string",
        ColumnType::Levels { .. } => return json!({"type": "array", "elementType": "double", "containsNull": true}),
    })
}

/// Whether the Delta table has the dates as partitions. Otherwise a date isn't that of a partition, or a column of its own.
fn is_partitioned(spec: &TableSpec) -> bool {
    spec.has_virtual_date() && spec.partition.is_day()
}

/// The value of the partition column of a date; nothing where there is no such column.
pub(super) fn partition_values(spec: &TableSpec, day: i32) -> BTreeMap<String, Option<String>> {
    is_partitioned(spec).then(|| (DATE_COLUMN.to_owned(), Some(date(day).to_string()))).into_iter().collect()
}

/// Why a segment isn't in the form that others read, with the way out; `None` if it is.
pub(crate) fn refusal(spec: &TableSpec, segment: &Segment) -> Result<Option<String>> {
    Ok(mismatch(spec, segment)?.map(|mismatch| match mismatch {
        Mismatch::Form(what) => format!(
            "was written before the table was to be published, or before a change of its columns ({what}): `splay compact` writes it anew"
        ),
        Mismatch::Nanoseconds(column) => format!(
            "has times of parts of a microsecond in {column:?}, which Delta's timestamps don't have: publish the table as delta-nanos, with \
             times as whole numbers of nanoseconds, and compact it"
        ),
    }))
}

/// Whether writing a segment anew would give it the form that others read.
pub(crate) fn is_outdated(spec: &TableSpec, segment: &Segment) -> Result<bool> {
    Ok(spec.publish.is_some() && matches!(mismatch(spec, segment)?, Some(Mismatch::Form(_))))
}

/// A fault in the form of a segment.
enum Mismatch {
    /// The stored type is another one. Rewriting the rows helps.
    Form(String),
    /// A column's times have no place in it.
    Nanoseconds(String),
}

/// Whether a column has an encoding that Spark doesn't read, and DuckDB 1.5 for some types only.
fn has_rare_encoding(footer: &ParquetMetaData) -> bool {
    let mut chunks = footer.row_groups().iter().flat_map(|group| group.columns());
    chunks.any(|chunk| chunk.encodings().any(|encoding| encoding == Encoding::BYTE_STREAM_SPLIT))
}

/// Compares the types that the file has, as Parquet says them, with those that it would be written with. A column that the file hasn't is
/// null, as in Delta.
fn mismatch(spec: &TableSpec, segment: &Segment) -> Result<Option<Mismatch>> {
    let Some(footer) = segment.footer()? else { return Ok(Some(Mismatch::Form("it is mapped".to_owned()))) };
    if has_rare_encoding(footer) {
        return Ok(Some(Mismatch::Form("it has an encoding that some engines don't read".to_owned())));
    }
    let parquet_schema = footer.file_metadata().schema_descr();
    let publish = spec.publish.unwrap_or(Publish::Delta);
    let of_table = spec.arrow();
    let stored =
        |field: &std::sync::Arc<Field>| field.as_ref().clone().with_data_type(publish.stored_type(field.data_type()));
    let expected = Schema::new(of_table.fields().iter().map(stored).collect::<Vec<_>>());
    let expected = ArrowSchemaConverter::new().convert(&expected)?;
    let expected = expected.root_schema().get_fields();
    for (column, expected) in columns(spec).iter().zip(expected) {
        let fields = parquet_schema.root_schema().get_fields();
        let is_former = |name: &str| {
            let is_name = |other_name: &String| other_name.eq_ignore_ascii_case(name);
            is_name(&column.name) || column.formerly.iter().any(is_name)
        };
        let Some(field) = fields.iter().find(|field| field.name() == column.name) else {
            match fields.iter().find(|field| is_former(field.name())) {
                Some(former) => {
                    let text = format!("the column {:?} is {:?} there", column.name, former.name());
                    return Ok(Some(Mismatch::Form(text)));
                }
                None => continue,
            }
        };
        if field == expected {
            continue;
        }
        let is_nanoseconds = column.column_type == ColumnType::Timestamp
            && publish == Publish::Delta
            && field.is_primitive()
            && matches!(
                field.get_basic_info().logical_type_ref(),
                Some(LogicalType::Timestamp(time)) if time.unit == ParquetUnit::NANOS
            );
        return Ok(Some(match is_nanoseconds {
            true => Mismatch::Nanoseconds(column.name.clone()),
            false => Mismatch::Form(format!("the column {:?} has another type there", column.name)),
        }));
    }
    Ok(None)
}

/// The statistics of a file for Delta: the number of rows, and the least and greatest time and symbol, by which readers skip files. Times are rounded
/// outwards to the milliseconds that Delta writes.
pub(super) fn statistics(spec: &TableSpec, entry: &FileEntry) -> String {
    let (mut least, mut greatest, mut nulls) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    if let (Some(symbol), Some((first, last))) = (spec.symbol_position(), &entry.symbols) {
        let name = spec.columns[symbol].name.clone();
        least.insert(name.clone(), Value::from(first.as_str()));
        greatest.insert(name.clone(), Value::from(last.as_str()));
        // Rows without a symbol come first.
        nulls.insert(name, 0);
    }
    if !spec.has_hidden_time() {
        let name = spec.columns[spec.time_position()].name.clone();
        let value = |time: i64, up: bool| match spec.publish {
            Some(Publish::DeltaNanos) => Value::from(time),
            _ => {
                let whole = time.div_euclid(1_000_000);
                let up = up && time.rem_euclid(1_000_000) > 0;
                let text = DateTime::from_timestamp_millis(whole + i64::from(up)).unwrap_or_default();
                Value::from(text.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
            }
        };
        least.insert(name.clone(), value(entry.time_min, false));
        greatest.insert(name.clone(), value(entry.time_max, true));
        nulls.insert(name, 0);
    }
    json!({"numRecords": entry.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}).to_string()
}
