//! Batches of a file's own schema into batches of the table's.
//!
//! Columns are matched by name without regard to case; those the file lacks are null. Values stay the same (`exact.rs`).

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use splay_store::{ColumnType, TableSpec};

use crate::error::{Error, Result};
use crate::exact::cast_exactly;
use crate::input::InputFile;

/// Fits batches of one file to a table.
pub(crate) struct Fitter<'a> {
    spec: &'a TableSpec,
    file: &'a InputFile,
    schema: SchemaRef,
    rows: u64,
}

impl<'a> Fitter<'a> {
    pub fn new(spec: &'a TableSpec, file: &'a InputFile) -> Fitter<'a> {
        Fitter { spec, file, schema: spec.arrow(), rows: 0 }
    }

    fn misfit(&self, reason: String) -> Error {
        Error::Misfit { file: self.file.name.clone(), table: self.spec.name.clone(), reason }
    }

    /// The batch in the table's schema.
    pub fn fit(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let own = batch.schema();
        let extra: Vec<&str> =
            own.fields().iter().map(|f| f.name().as_str()).filter(|n| self.spec.position(n).is_none()).collect();
        if !extra.is_empty() {
            return Err(self.misfit(format!("there is no place for its columns {}", extra.join(", "))));
        }
        let rows = batch.num_rows();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.spec.columns.len());
        for (column, field) in self.spec.columns.iter().zip(self.schema.fields()) {
            let found = own.fields().iter().position(|f| f.name().eq_ignore_ascii_case(&column.name));
            arrays.push(match found {
                Some(index) => self.cast(batch.column(index), &column.column_type, &column.name)?,
                None => new_null_array(field.data_type(), rows),
            });
        }
        let time = self.spec.position(&self.spec.time).map(|position| &arrays[position]);
        let null = |time: &ArrayRef| (0..rows).find(|&row| time.is_null(row)).filter(|_| time.null_count() > 0);
        if let Some(row) = time.and_then(null) {
            return Err(Error::Row {
                file: self.file.name.clone(),
                line: self.rows + row as u64 + 1,
                column: self.spec.time.clone(),
                reason: "the time is null; choose another time column with --time, or drop such rows".to_owned(),
                excerpt: "row counted from 1".to_owned(),
            });
        }
        self.rows += rows as u64;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), arrays, &options)
            .map_err(|e| self.misfit(e.to_string()))
    }

    fn cast(&self, array: &ArrayRef, target: &ColumnType, name: &str) -> Result<ArrayRef> {
        cast_exactly(array, target, &self.spec.time_zone)
            .map_err(|reason| self.misfit(format!("column {name}: {} into {target}: {reason}", array.data_type())))
    }
}
