//! One column of a segment, found once and then read by ranges of rows without looking anything up again.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::arrow_file::ArrowFile;
use super::parquet_file::ParquetFile;
use crate::error::Result;

/// Rows of a Parquet batch. Ranges are put together from such batches.
const PARQUET_BATCH_ROWS: usize = 1 << 16;

/// Reads ranges of a column in the type that the table gives it.
#[derive(Debug)]
pub struct ColumnReader<'a> {
    source: Source<'a>,
    data_type: DataType,
    rows: usize,
}

#[derive(Debug)]
enum Source<'a> {
    Arrow {
        file: &'a ArrowFile,
        position: usize,
    },
    Parquet {
        file: &'a ParquetFile,
        position: usize,
    },
    /// The column is younger than the segment.
    Absent,
}

impl<'a> ColumnReader<'a> {
    pub(crate) fn of_arrow(file: &'a ArrowFile, position: usize, data_type: DataType, rows: usize) -> ColumnReader<'a> {
        ColumnReader { source: Source::Arrow { file, position }, data_type, rows }
    }

    pub(crate) fn of_parquet(
        file: &'a ParquetFile,
        position: usize,
        data_type: DataType,
        rows: usize,
    ) -> ColumnReader<'a> {
        ColumnReader { source: Source::Parquet { file, position }, data_type, rows }
    }

    pub(crate) fn absent(data_type: DataType, rows: usize) -> ColumnReader<'a> {
        ColumnReader { source: Source::Absent, data_type, rows }
    }

    /// Whether reading a range costs no more than its rows, without decoding its neighbours.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        !matches!(self.source, Source::Parquet { .. })
    }

    /// Rows of the segment.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A range of rows, cut to those there are. A column that is younger than the segment is null.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the bytes are not what was written.
    pub fn read(&self, rows: Range<usize>) -> Result<ArrayRef> {
        let rows = rows.start.min(self.rows)..rows.end.clamp(rows.start.min(self.rows), self.rows);
        let stored = match &self.source {
            Source::Absent => return Ok(new_null_array(&self.data_type, rows.len())),
            Source::Arrow { file, position } => file.read(*position, rows)?,
            Source::Parquet { file, position } => decode(file, *position, rows)?,
        };
        Ok(if *stored.data_type() == self.data_type { stored } else { cast(&stored, &self.data_type)? })
    }
}

fn decode(file: &ParquetFile, position: usize, rows: Range<usize>) -> Result<ArrayRef> {
    let data_type = file.schema().field(position).data_type();
    if rows.is_empty() {
        return Ok(arrow::array::new_empty_array(data_type));
    }
    let expected = rows.len();
    let parts = file
        .read(&[position], rows, PARQUET_BATCH_ROWS)?
        .map(|batch| batch.map(|batch| Arc::clone(batch.column(0))))
        .collect::<Result<Vec<_>>>()?;
    let column = match parts.as_slice() {
        [one] => Arc::clone(one),
        several => arrow::compute::concat(&several.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
    };
    if column.len() == expected { Ok(column) } else { Err(file.short(expected, column.len())) }
}
