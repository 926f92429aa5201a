//! Arrow IPC: a stream for each record, of any number of rows.
//!
//! Columns are sent in the types that they have. The server converts those that it can convert without loss, and refuses the rest. A record
//! whose columns have other types than the one before begins a new batch.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use splay_ipc::StreamReader;

use super::{DecodeFailure, Layout, Record};
use crate::columns::{Cell, Rows};
use crate::settings::{Source, UnknownFields};

/// Rows of one record. A column of nulls takes no bytes, so bytes alone bound nothing.
const ROWS_MAX: usize = 1 << 22;

/// Bytes that a record may unpack to.
const BYTES_MAX: usize = 64 << 20;

/// Adds a record's rows to those that wait. Returns their number, and the bytes that they unpack to.
pub(super) fn add(
    layout: &Layout,
    record: &Record<'_>,
    payload: &[u8],
    waiting: &mut Vec<RecordBatch>,
) -> Result<(usize, usize), DecodeFailure> {
    let (received, bytes) = read(payload)?;
    let mut batches = Vec::with_capacity(received.len());
    for batch in received.iter().filter(|batch| batch.num_rows() > 0) {
        batches.push(projected(layout, record, batch)?);
    }
    let schemas: Vec<SchemaRef> = waiting.first().into_iter().chain(&batches).map(RecordBatch::schema).collect();
    if let (Some(first), true) = (schemas.first(), !waiting.is_empty())
        && schemas.iter().any(|schema| schema != first)
    {
        return Err(DecodeFailure::OtherColumns);
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    waiting.append(&mut batches);
    Ok((rows, bytes))
}

fn unsound(reason: impl std::fmt::Display) -> String {
    format!("not a sound Arrow stream: {reason}")
}

fn too_large() -> String {
    format!("more than {ROWS_MAX} rows or {BYTES_MAX} bytes in a record")
}

/// The batches of a stream, and the bytes that they unpack to.
fn read(payload: &[u8]) -> Result<(Vec<RecordBatch>, usize), String> {
    let failure = |error: splay_ipc::Error| match error {
        splay_ipc::Error::TooLarge { limit: Some(_), .. } => too_large(),
        other => unsound(other),
    };
    // A damaged schema may panic in Arrow's reader.
    let read = catch_unwind(AssertUnwindSafe(|| {
        let (mut batches, mut rows) = (Vec::new(), 0_usize);
        let mut reader = StreamReader::with_bytes_max(Cursor::new(payload), BYTES_MAX).map_err(failure)?;
        for batch in reader.by_ref() {
            let batch = batch.map_err(failure)?;
            rows = rows.saturating_add(batch.num_rows());
            if rows > ROWS_MAX {
                return Err(too_large());
            }
            batches.push(batch);
        }
        Ok((batches, reader.bytes_unpacked()))
    }));
    read.unwrap_or_else(|_| Err(unsound("it breaks Arrow's reader")))
}

/// The table's columns of a batch, under their names there.
fn projected(layout: &Layout, record: &Record<'_>, batch: &RecordBatch) -> Result<RecordBatch, String> {
    let mut columns: Vec<Option<(Field, ArrayRef)>> = vec![None; layout.columns.len()];
    let (schema, mut next) = (batch.schema(), 0);
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        match layout.fields.find(field.name(), &mut next) {
            Some((_, target)) => {
                for column in &target.columns {
                    if columns[*column].is_some() {
                        return Err(format!("the column {:?} is there twice", field.name()));
                    }
                    let name = &layout.columns[*column].name;
                    let array = plain(array).map_err(|reason| format!("{name}: {reason}"))?;
                    columns[*column] = Some((Field::new(name, array.data_type().clone(), true), array));
                }
            }
            None if layout.unknown == UnknownFields::Refuse => {
                return Err(format!("no column takes the column {:?}", field.name()));
            }
            None => {}
        }
    }
    for from in &layout.from_record {
        let array = repeated(layout, from.column, &from.source, record, batch.num_rows())?;
        let field = Field::new(&layout.columns[from.column].name, array.data_type().clone(), true);
        columns[from.column] = Some((field, array));
    }
    if let Some(time) = layout.columns.iter().position(|column| column.is_time).filter(|time| columns[*time].is_none())
    {
        return Err(format!("{}: every row needs a time", layout.columns[time].name));
    }
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().flatten().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(unsound)
}

/// A column in a type that the server takes. It would refuse another one as a message that it can't understand, which no record is to blame
/// for. Keys of dictionaries are widened, so that they suffice for the values of many records together.
fn plain(array: &ArrayRef) -> Result<ArrayRef, String> {
    let target_type = match array.data_type() {
        DataType::Dictionary(_, values) if is_text(values) => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        plain => plain.clone(),
    };
    let is_level = |item: &DataType, size: i32| item.is_numeric() && (1..=1024).contains(&size);
    let is_taken = match &target_type {
        DataType::Dictionary(..) | DataType::Null | DataType::Boolean | DataType::Decimal128(..) => true,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
            true
        }
        DataType::FixedSizeList(item, size) => is_level(item.data_type(), *size),
        other => is_text(other) || other.is_integer() || other.is_floating(),
    };
    if !is_taken {
        return Err(format!("no column holds {}", array.data_type()));
    }
    if *array.data_type() == target_type {
        return Ok(Arc::clone(array));
    }
    cast_with_options(array, &target_type, &CastOptions { safe: false, ..CastOptions::default() })
        .map_err(|error| error.to_string())
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The record's metadata for a column, repeated for each of its rows.
fn repeated(
    layout: &Layout,
    column: usize,
    source: &Source,
    record: &Record<'_>,
    rows: usize,
) -> Result<ArrayRef, String> {
    let column = &layout.columns[column];
    let cell: Cell<'_> = layout.of_record(source, record)?;
    let value = column.value(cell)?;
    let mut built = Rows::new(std::slice::from_ref(column));
    (0..rows).for_each(|_| built.push(std::slice::from_ref(&value)));
    Ok(Arc::clone(built.take().map_err(unsound)?.column(0)))
}
