//! Batches of a file's own schema into batches of the table's.
//!
//! - Columns are matched by name without regard to case; those the file lacks are null.
//! - A value that would change, such as 1.5 into an integer or an instant outside 1677 to 2262, is an error.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef};
use splay_store::{ColumnType, TableSpec};

use crate::error::{Error, Result};
use crate::input::InputFile;

const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

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
        let time = &arrays[self.spec.time_position()];
        if let Some(row) = (0..rows).find(|&row| time.is_null(row)).filter(|_| time.null_count() > 0) {
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
        let (from, to) = (array.data_type(), target.arrow());
        if *from == to {
            return Ok(ArrayRef::clone(array));
        }
        let wrong =
            |reason: &dyn std::fmt::Display| self.misfit(format!("column {name}: {from} into {target}: {reason}"));
        let through = |array: &ArrayRef, to: &DataType| cast_with_options(array, to, &STRICT).map_err(|e| wrong(&e));
        let is_text = matches!(ColumnType::from_arrow(from), Some(ColumnType::Text | ColumnType::Symbol));
        if is_text && matches!(target, ColumnType::Text | ColumnType::Symbol) {
            let plain = through(array, &DataType::Utf8)?;
            return through(&plain, &to);
        }
        let casted = through(array, &to)?;
        let exact = match ColumnType::from_arrow(from) {
            // Every instant of a coarser unit is an instant in nanoseconds; overflow was refused by the cast.
            Some(ColumnType::Timestamp | ColumnType::Date) if *target == ColumnType::Timestamp => true,
            Some(own) => own == *target || own.widens_to(target) || is_same_after(array, &casted),
            None => is_same_after(array, &casted),
        };
        if exact { Ok(casted) } else { Err(wrong(&"some values would change")) }
    }
}

fn is_same_after(array: &ArrayRef, casted: &ArrayRef) -> bool {
    cast_with_options(casted, array.data_type(), &STRICT).is_ok_and(|back| back.as_ref() == array.as_ref())
}
