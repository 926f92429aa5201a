//! Batches of a file's own schema into batches of the table's.
//!
//! Columns are matched by name without regard to case; those the file lacks are null. Values stay the same (`exact.rs`);
//! texts and whole numbers that shall be of other types are read (`typed_times.rs`).

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::array_value_to_string;
use splay_store::{ColumnSpec, TableSpec};

use crate::csv::parse::MalformedRow;
use crate::error::{Error, Result, listed};
use crate::input::InputFile;
use crate::typed_times::TypedTimes;

/// Fits batches of one file to a table.
pub(crate) struct Fitter<'a> {
    spec: &'a TableSpec,
    file: &'a InputFile,
    schema: SchemaRef,
    rows: u64,
    times: &'a TypedTimes,
    /// Whether rows that don't fit are handed back.
    sets_aside: bool,
}

impl<'a> Fitter<'a> {
    pub fn new(spec: &'a TableSpec, file: &'a InputFile, times: &'a TypedTimes, sets_aside: bool) -> Fitter<'a> {
        Fitter { spec, file, schema: spec.arrow(), rows: 0, times, sets_aside }
    }

    fn misfit(&self, reason: String) -> Error {
        Error::Misfit { file: self.file.name.clone(), table: self.spec.name.clone(), reason }
    }

    /// The batch in the table's schema, and the rows that don't fit, if these are set aside.
    pub fn fit(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, Vec<MalformedRow>)> {
        let own = batch.schema();
        let extra: Vec<&str> =
            own.fields().iter().map(|f| f.name().as_str()).filter(|n| self.spec.position(n).is_none()).collect();
        if !extra.is_empty() {
            return Err(self.misfit(format!("there is no place for its columns {}", listed(&extra))));
        }
        let faults = if self.sets_aside { self.faults(batch) } else { Vec::new() };
        let fitted = if faults.is_empty() {
            self.fit_all(batch)?
        } else {
            let mut fits = vec![true; batch.num_rows()];
            faults.iter().for_each(|(row, _)| fits[*row] = false);
            let rest = filter_record_batch(batch, &BooleanArray::from(fits)).map_err(|e| self.misfit(e.to_string()))?;
            self.fit_all(&rest)?
        };
        self.rows += batch.num_rows() as u64;
        Ok((fitted, faults.into_iter().map(|(_, fault)| fault).collect()))
    }

    /// Columns of the table with those of a batch.
    fn pairs<'b>(&self, batch: &'b RecordBatch) -> Vec<(&'a ColumnSpec, Option<&'b ArrayRef>)> {
        let own = batch.schema();
        let position =
            |column: &ColumnSpec| own.fields().iter().position(|f| f.name().eq_ignore_ascii_case(&column.name));
        self.spec.columns.iter().map(|column| (column, position(column).map(|place| batch.column(place)))).collect()
    }

    fn fit_all(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.spec.columns.len());
        for ((column, array_of_batch), field) in self.pairs(batch).into_iter().zip(self.schema.fields()) {
            arrays.push(match array_of_batch {
                Some(array) => {
                    let cast = self.cast(array, column);
                    cast.map_err(|reason| self.misfit(self.first_misfit(array, column, &reason)))?
                }
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
                reason: "the time is null; choose another time column with --time, or put such rows into quarantine"
                    .to_owned(),
                excerpt: "row counted from 1".to_owned(),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), arrays, &options)
            .map_err(|e| self.misfit(e.to_string()))
    }

    /// Where a column doesn't fit, in words.
    fn first_misfit(&self, array: &ArrayRef, column: &ColumnSpec, reason: &str) -> String {
        let text = format!("column {}: {} into {}: {reason}", column.name, array.data_type(), column.column_type);
        match self.unfit(array, column, 1).first() {
            Some((row, _)) => {
                format!("{text}; the first such value is {} in row {}", value(array, *row), self.rows + *row as u64 + 1)
            }
            None => text,
        }
    }

    /// Rows that don't fit, each with one reason, in order.
    fn faults(&self, batch: &RecordBatch) -> Vec<(usize, MalformedRow)> {
        let mut first_faults: BTreeMap<usize, (String, String)> = BTreeMap::new();
        for (place, (column, array)) in self.pairs(batch).into_iter().enumerate() {
            let Some(array) = array else { continue };
            for (row, reason) in self.unfit(array, column, usize::MAX) {
                let reason = format!("{} is not {}: {reason}", value(array, row), column.column_type);
                first_faults.entry(row).or_insert((column.name.clone(), reason));
            }
            if place == self.spec.time_position() && array.logical_null_count() > 0 {
                let nulls = array.logical_nulls();
                let is_null = |row: &usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row));
                (0..array.len()).filter(is_null).for_each(|row| {
                    first_faults.entry(row).or_insert((column.name.clone(), "the time is null".to_owned()));
                });
            }
        }
        let fault = |(row, (column, reason)): (usize, (String, String))| {
            let text = batch.columns().iter().map(|array| value(array, row)).collect::<Vec<_>>().join(",").into_bytes();
            (row, MalformedRow { line: self.rows + row as u64, column, reason, text })
        };
        first_faults.into_iter().map(fault).collect()
    }

    /// The first `most` rows whose value can't be cast, by halving what can't.
    fn unfit(&self, array: &ArrayRef, column: &ColumnSpec, most: usize) -> Vec<(usize, String)> {
        let mut misfits = Vec::new();
        let mut pending = vec![0..array.len()];
        while let Some(rows) = pending.pop() {
            if misfits.len() >= most {
                break;
            }
            match self.cast(&array.slice(rows.start, rows.len()), column) {
                Ok(_) => {}
                Err(reason) if rows.len() <= 1 => misfits.push((rows.start, reason)),
                Err(_) => {
                    let middle = rows.start + rows.len() / 2;
                    pending.push(middle..rows.end);
                    pending.push(rows.start..middle);
                }
            }
        }
        misfits.retain(|(row, _)| *row < array.len());
        misfits
    }

    fn cast(&self, array: &ArrayRef, column: &ColumnSpec) -> Result<ArrayRef, String> {
        self.times.cast(array, column, &self.spec.time_zone)
    }
}

fn value(array: &ArrayRef, row: usize) -> String {
    array_value_to_string(array, row).unwrap_or_default()
}
