//! Batches of a frame into batches of a table.
//!
//! - Columns are matched by name without regard to case; those the frame lacks are null.
//! - A value that would change, such as 1.5 into an integer or an instant outside 1677 to 2262, is an error.
//! - Timestamps without a zone are UTC; a date as time is midnight in the table's time zone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use splay_store::{ColumnType, Error, Result, TableSpec};

use crate::columns::natural;

const STRICT: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// Fits batches to a table.
#[derive(Debug)]
pub(crate) struct Fitter<'a> {
    spec: &'a TableSpec,
    schema: SchemaRef,
}

impl<'a> Fitter<'a> {
    pub(crate) fn new(spec: &'a TableSpec) -> Fitter<'a> {
        Fitter { spec, schema: spec.arrow() }
    }

    /// The batch in the table's schema; nulls in the time column are left for the store to refuse.
    ///
    /// # Errors
    /// [`Error::Schema`] for a column whose values would change.
    pub(crate) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let own = batch.schema_ref().fields();
        let mut fields = Vec::with_capacity(self.spec.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.spec.columns.len());
        for (column, field) in self.spec.columns.iter().zip(self.schema.fields()) {
            let found = own.iter().position(|own| own.name().eq_ignore_ascii_case(&column.name));
            arrays.push(match found {
                Some(place) => self.cast(batch.column(place), &column.column_type, &column.name)?,
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
            fields.push(field.as_ref().clone().with_nullable(true));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    fn cast(&self, array: &ArrayRef, target: &ColumnType, name: &str) -> Result<ArrayRef> {
        let (from, to) = (array.data_type(), target.arrow());
        if *from == to && !is_dictionary_with_nulls(array) {
            return Ok(Arc::clone(array));
        }
        let wrong = |reason: &dyn std::fmt::Display| Error::Schema {
            table: self.spec.name.clone(),
            reason: format!("column {name:?} from {from} to {target}: {reason}"),
        };
        let own = natural(from);
        if let (Some(ColumnType::Text | ColumnType::Symbol), false) = (&own, is_text(target)) {
            return Err(wrong(&"text doesn't become anything else; parse it first"));
        }
        let cast = match (&own, target) {
            (Some(ColumnType::Text | ColumnType::Symbol), _) => through(array, &[DataType::Utf8, to]),
            (Some(ColumnType::Date), ColumnType::Timestamp) => self.midnight(array, &to),
            _ => through(array, &[to]),
        };
        let cast = cast.map_err(|error| wrong(&error))?;
        let is_exact = match &own {
            Some(ColumnType::Timestamp | ColumnType::Date) if *target == ColumnType::Timestamp => true,
            // Levels may come as integers or decimals that floats don't hold.
            Some(ColumnType::Levels { .. }) | None => is_same_after(array, &cast),
            Some(own) => own == target || own.widens_to(target) || is_same_after(array, &cast),
        };
        if is_exact { Ok(cast) } else { Err(wrong(&"some values would change")) }
    }

    /// The instant at which a date begins in the table's time zone.
    fn midnight(&self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
        let local = DataType::Timestamp(TimeUnit::Second, None);
        let zoned = DataType::Timestamp(TimeUnit::Second, Some(self.spec.time_zone.as_str().into()));
        through(array, &[local, zoned, to.clone()])
    }
}

fn through(array: &ArrayRef, types: &[DataType]) -> Result<ArrayRef, ArrowError> {
    types.iter().try_fold(Arc::clone(array), |array, to| cast_with_options(&array, to, &STRICT))
}

fn is_text(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Text | ColumnType::Symbol)
}

fn is_dictionary_with_nulls(array: &ArrayRef) -> bool {
    use arrow::array::AsArray;
    array.as_any_dictionary_opt().is_some_and(|dictionary| dictionary.values().null_count() > 0)
}

fn is_same_after(array: &ArrayRef, cast: &ArrayRef) -> bool {
    cast_with_options(cast, array.data_type(), &STRICT).is_ok_and(|back| back.as_ref() == array.as_ref())
}
