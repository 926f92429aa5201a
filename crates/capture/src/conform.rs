//! Rows as they come in, as rows of their table.
//!
//! - Columns are matched by name without regard to case; missing ones are null.
//! - A cast is made only where it gives every value back; else the whole batch is refused.
//! - Columns that the table lacks are named, so that the table can be given them first.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int32Type, TimestampNanosecondType};
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use crate::error::{Error, Result};

fn column_type(table: &str, name: &str, data_type: &DataType) -> Result<ColumnType> {
    ColumnType::from_arrow(data_type)
        .ok_or_else(|| Error::rejected(table, format!("column {name:?} is {data_type}, which a table can't hold")))
}

/// Columns of the rows that the table lacks.
pub(crate) fn new_columns(spec: &TableSpec, rows: &RecordBatch) -> Result<Vec<ColumnSpec>> {
    let fields = rows.schema_ref().fields().iter().filter(|field| spec.position(field.name()).is_none());
    let column = |field: &arrow::datatypes::FieldRef| {
        Ok(ColumnSpec::new(field.name().clone(), column_type(&spec.name, field.name(), field.data_type())?))
    };
    fields.map(column).collect()
}

/// The rows with the table's columns, in its order and types.
pub(crate) fn conform(spec: &TableSpec, rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = spec.arrow();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let found = rows.schema_ref().fields().iter().position(|f| f.name().eq_ignore_ascii_case(field.name()));
        columns.push(match found {
            Some(position) => fit(spec, field.name(), rows.column(position), field.data_type())?,
            None if !field.is_nullable() => {
                return Err(Error::rejected(&spec.name, format!("the rows lack the column {:?}", field.name())));
            }
            None => new_null_array(field.data_type(), rows.num_rows()),
        });
    }
    let time = columns[spec.time_position()].as_primitive::<TimestampNanosecondType>();
    if let Some(row) = (0..time.len()).find(|row| time.is_null(*row)) {
        return Err(Error::rejected(&spec.name, format!("row {row} of the batch has no {}", spec.time)));
    }
    RecordBatch::try_new(schema, columns).map_err(|error| Error::rejected(&spec.name, error.to_string()))
}

/// A column in the type of the table, if that gives every value back.
fn fit(spec: &TableSpec, name: &str, column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if let Some(dictionary) = column.as_any_dictionary_opt()
        && column.data_type() == wanted
        && dictionary.values().null_count() == 0
    {
        return Ok(Arc::clone(column));
    }
    if column.data_type() == wanted && !matches!(wanted, DataType::Dictionary(_, _)) {
        return Ok(Arc::clone(column));
    }
    let refused =
        |why: String| Error::rejected(&spec.name, format!("column {name:?} is {wanted}, the rows have {why}"));
    let options = CastOptions { safe: false, ..CastOptions::default() };
    // By way of text, so that a null in a dictionary becomes a null row.
    let plain = match (column.data_type(), wanted) {
        (DataType::Dictionary(_, _), DataType::Dictionary(_, _)) => {
            cast_with_options(column, &DataType::Utf8, &options).map_err(|error| refused(error.to_string()))?
        }
        _ => Arc::clone(column),
    };
    let fitted = cast_with_options(&plain, wanted, &options).map_err(|error| refused(error.to_string()))?;
    let is_text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(_, _))
    };
    if is_text(plain.data_type()) != is_text(wanted) {
        return Err(refused(plain.data_type().to_string()));
    }
    if !is_text(wanted) {
        let back =
            cast_with_options(&fitted, plain.data_type(), &options).map_err(|error| refused(error.to_string()))?;
        if back.to_data() != plain.to_data() {
            return Err(refused(format!("{} with values that it can't hold", plain.data_type())));
        }
    }
    Ok(fitted)
}

/// The texts that rows of a dictionary column use, each once, and each row's place among them.
pub(crate) fn used_texts(column: &ArrayRef) -> (Vec<&str>, Vec<u32>) {
    let column = column.as_dictionary::<Int32Type>();
    let texts = column.values().as_string::<i32>();
    let mut places: Vec<Option<u32>> = vec![None; texts.len()];
    let (mut used, mut codes) = (Vec::new(), Vec::with_capacity(column.len()));
    for row in 0..column.len() {
        if column.is_null(row) {
            codes.push(0);
            continue;
        }
        let key = usize::try_from(column.keys().value(row)).unwrap_or(0);
        let place = *places[key].get_or_insert_with(|| {
            used.push(texts.value(key));
            u32::try_from(used.len() - 1).unwrap_or(u32::MAX)
        });
        codes.push(place);
    }
    (used, codes)
}
