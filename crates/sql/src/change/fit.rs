//! Converts values to the types of a table's columns, without loss.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::FormatOptions;
use splay_store::{DATE_COLUMN, TableSpec};

use crate::error::{Error, Result};
use crate::times::full_time;

/// A column in the type of a table's column. Floats take the nearest value; whole numbers, times and texts stay what they are.
///
/// # Errors
/// [`Error::Execution`] for a value that has no equal in the type.
pub(super) fn fitted(column: &ArrayRef, to: &DataType, name: &str) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    let wrong = |reason: String| Error::Execution { message: format!("column {name:?}: {reason}") };
    let cast = |column: &ArrayRef, to: &DataType| cast_with_options(column, to, &options);
    let column = &in_full(column, to);
    let fitted = cast(column, to).map_err(|error| wrong(error.to_string()))?;
    let is_rounded = (column.data_type().is_floating() || column.data_type().is_decimal()) && !to.is_floating();
    if is_rounded && to.is_integer() {
        let back = cast(&fitted, column.data_type()).map_err(|error| wrong(error.to_string()))?;
        if let Some(row) = (0..column.len()).find(|row| column.slice(*row, 1) != back.slice(*row, 1)) {
            let shown = arrow::util::display::array_value_to_string(column, row).unwrap_or_default();
            return Err(wrong(format!("{shown} is no {to}")));
        }
    }
    if fitted.logical_null_count() > column.logical_null_count() {
        return Err(wrong(format!("some values are no {to}")));
    }
    Ok(fitted)
}

/// Texts of times in full, as everywhere in statements.
fn in_full(column: &ArrayRef, to: &DataType) -> ArrayRef {
    match (column.as_string_opt::<i32>(), to) {
        (Some(texts), DataType::Timestamp(_, _)) => {
            Arc::new(texts.iter().map(|text| text.map(full_time)).collect::<StringArray>())
        }
        _ => Arc::clone(column),
    }
}

/// Rows of a query as rows of a table: its columns are those at `positions`, the others are null. Behind a table's columns is the position
/// of its date, if that follows from the time; it is compared and not kept.
///
/// # Errors
/// [`Error::Execution`] for values that don't fit.
pub(super) fn fitted_rows(spec: &TableSpec, positions: &[usize], rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = spec.shown_arrow();
    let mut columns: Vec<Option<ArrayRef>> = vec![None; spec.shown_columns().len()];
    let mut dates = None;
    for (column, position) in rows.columns().iter().zip(positions) {
        if *position == columns.len() {
            dates = Some(fitted(column, &DataType::Date32, DATE_COLUMN)?);
            continue;
        }
        let field = schema.field(*position);
        columns[*position] = Some(fitted(column, field.data_type(), field.name())?);
    }
    refuse_nulls(spec, |position| columns[position].as_ref().is_none_or(|column| column.logical_null_count() > 0))?;
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| column.unwrap_or_else(|| new_null_array(field.data_type(), rows.num_rows())));
    let fitted = RecordBatch::try_new(Arc::clone(&schema), columns.collect());
    let fitted = fitted.map_err(|error| Error::Execution { message: error.to_string() })?;
    if let Some(dates) = dates {
        spec.check_dates(fitted.column(spec.time_position()).as_ref(), dates.as_ref()).map_err(
            |error| match error {
                splay_store::Error::Row { reason, .. } => Error::Execution { message: format!("a row {reason}") },
                other => other.into(),
            },
        )?;
    }
    Ok(fitted)
}

/// Refuses rows that have nulls in columns that may have none.
///
/// # Errors
/// [`Error::Execution`] for the first such column.
pub(super) fn refuse_nulls(spec: &TableSpec, has_nulls: impl Fn(usize) -> bool) -> Result<()> {
    let shown = spec.shown_columns();
    let Some(position) = spec.required().into_iter().find(|position| *position < shown.len() && has_nulls(*position))
    else {
        return Ok(());
    };
    let column = &shown[position].name;
    let message = match spec.reference {
        None => format!("column {column:?}: each row needs a time"),
        Some(_) => {
            format!("null value in column {column:?} of relation {:?} violates not-null constraint", spec.name)
        }
    };
    Err(Error::Execution { message })
}
