//! Incoming rows as their table stores them: its columns, in its order, with one form of NaN.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

use crate::error::{Error, Result};
use crate::floats::one_nan;
use crate::schema::{TableSpec, reference};

/// Checks names and types. A batch may lack columns that may be null, and have them in any order.
pub(crate) fn conform(spec: &TableSpec, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in &schema.fields()[..spec.shown_columns().len()] {
        let position = batch.schema_ref().fields().iter().position(|f| f.name().eq_ignore_ascii_case(field.name()));
        let Some(position) = position else {
            if !field.is_nullable() {
                return Err(spec.error(format!("the batch lacks the column {:?}", field.name())));
            }
            columns.push(arrow::array::new_null_array(field.data_type(), batch.num_rows()));
            continue;
        };
        let column = batch.column(position);
        if column.data_type() != field.data_type() {
            return Err(spec.error(format!(
                "column {:?} is {}, the batch has {}",
                field.name(),
                field.data_type(),
                column.data_type()
            )));
        }
        columns.push(in_stored_form(column));
    }
    let has_column = |name: &str| spec.position(name).is_some();
    if let Some(extra) = batch.schema_ref().fields().iter().find(|field| !has_column(field.name())) {
        return Err(spec.error(format!("it has no column {:?}, which the batch has", extra.name())));
    }
    if spec.has_hidden_time() {
        columns.push(spec.hidden_times(&columns, batch.num_rows()));
    }
    reference::refuse_nulls(spec, &columns)?;
    let time = &columns[spec.time_position()];
    if time.null_count() > 0 {
        // Reported by row in `append`; the schema would refuse it without one.
        let row = (0..time.len()).find(|row| time.is_null(*row)).unwrap_or(0) as u64;
        let reason = format!("has no {}", spec.time);
        return Err(Error::Row { table: spec.name.clone(), row, reason });
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// A column with every NaN as the canonical one, because block bounds and orders compare bits.
fn in_stored_form(column: &ArrayRef) -> ArrayRef {
    one_nan(column).unwrap_or_else(|| Arc::clone(column))
}
