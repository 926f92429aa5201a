//! Batches of a frame into batches of a table.
//!
//! Columns are matched by name without regard to case; those the frame lacks are null. Values stay the same, by the importer's
//! rules: a frame and a file make the same rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use splay_import::{cast_exactly, natural_type};
use splay_store::{ColumnType, DATE_COLUMN, Error, Result, TableSpec};

/// Fits batches to a table.
#[derive(Debug)]
pub(crate) struct Fitter<'a> {
    spec: &'a TableSpec,
    schema: SchemaRef,
}

impl<'a> Fitter<'a> {
    pub(crate) fn new(spec: &'a TableSpec) -> Fitter<'a> {
        Fitter { spec, schema: spec.shown_arrow() }
    }

    /// The batch in the table's schema; nulls in the time column are left for the store to refuse.
    ///
    /// # Errors
    /// [`Error::Schema`] for a column whose values would change.
    pub(crate) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let own = batch.schema_ref().fields();
        let mut fields = Vec::with_capacity(self.spec.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.spec.columns.len());
        for (column, field) in self.spec.shown_columns().iter().zip(self.schema.fields()) {
            let found = own.iter().position(|own| own.name().eq_ignore_ascii_case(&column.name));
            arrays.push(match found {
                Some(place) => self.cast(batch.column(place), &column.column_type, &column.name)?,
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
            fields.push(field.as_ref().clone().with_nullable(true));
        }
        if let Some(dates) = self.dates(batch)? {
            self.spec.check_dates(arrays[self.spec.time_position()].as_ref(), dates.as_ref())?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// The dates of rows whose table keeps none.
    fn dates(&self, batch: &RecordBatch) -> Result<Option<ArrayRef>> {
        let place = batch.schema_ref().fields().iter().position(|own| self.spec.is_virtual_date(own.name()));
        place.map(|place| self.cast(batch.column(place), &ColumnType::Date, DATE_COLUMN)).transpose()
    }

    /// Whether each row has a date, and that of its time.
    ///
    /// # Errors
    /// Those of [`Fitter::fit`] but for its dates.
    pub(crate) fn has_its_dates(&self, batch: &RecordBatch) -> Result<bool> {
        let Some(dates) = self.dates(batch)? else { return Ok(false) };
        match self.fit(batch) {
            Ok(_) => Ok(dates.logical_null_count() == 0),
            Err(Error::Row { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn cast(&self, array: &ArrayRef, target: &ColumnType, name: &str) -> Result<ArrayRef> {
        let wrong = |reason: String| Error::Schema {
            table: self.spec.name.clone(),
            reason: format!("column {name:?} from {} to {target}: {reason}", array.data_type()),
        };
        let is_text = |column_type: &ColumnType| matches!(column_type, ColumnType::Text | ColumnType::Symbol);
        if natural_type(array.data_type()).as_ref().is_some_and(is_text) && !is_text(target) {
            return Err(wrong("text doesn't become anything else; parse it first".to_owned()));
        }
        cast_exactly(array, target, &self.spec.time_zone).map_err(wrong)
    }
}
