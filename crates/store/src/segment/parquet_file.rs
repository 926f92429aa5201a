//! Reads a Parquet segment by ranges of rows, from mapped bytes that are checked as they are touched.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::reader::{ChunkReader, Length};

use super::checksum::CheckedFile;
use super::guarded;
use crate::error::{Error, Result};
use crate::storage::Mapped;

/// An opened file.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    file: Arc<CheckedFile>,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(crate) fn open(file: CheckedFile, rows: u64) -> Result<ParquetFile> {
        let file = Arc::new(file);
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let load = || ArrowReaderMetadata::load(&Chunks(Arc::clone(&file)), options).map_err(|e| unpack(e, &file));
        let metadata = guarded(&file.path, load)?;
        let found = metadata.metadata().file_metadata().num_rows();
        if u64::try_from(found).ok() != Some(rows) {
            return Err(Error::corrupt(&file.path, 0, format!("{rows} rows"), format!("{found} rows")));
        }
        Ok(ParquetFile { file, metadata })
    }

    pub(crate) fn mapped(&self) -> &Mapped {
        &self.file.bytes
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Reads columns, given by ascending position, of a range of rows in batches of at most `batch_rows`.
    pub(crate) fn read(&self, columns: &[usize], rows: Range<usize>, batch_rows: usize) -> Result<ParquetBatches> {
        let (groups, first) = self.row_groups(&rows);
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(Chunks(Arc::clone(&self.file)), self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let selection =
            RowSelection::from(vec![RowSelector::skip(rows.start - first), RowSelector::select(rows.len())]);
        let builder = builder.with_row_groups(groups).with_projection(mask).with_row_selection(selection);
        let build = || builder.with_batch_size(batch_rows).build().map_err(|e| unpack(e, &self.file));
        let reader = guarded(&self.file.path, build)?;
        Ok(ParquetBatches { file: Arc::clone(&self.file), reader: Some(reader) })
    }

    /// What a file is that gave another number of rows than its metadata says.
    pub(crate) fn short(&self, expected: usize, found: usize) -> Error {
        Error::corrupt(&self.file.path, 0, format!("{expected} rows"), format!("{found} rows"))
    }

    /// The row groups that hold a range, and the first row of the first of them.
    fn row_groups(&self, rows: &Range<usize>) -> (Vec<usize>, usize) {
        let (mut groups, mut first, mut start) = (Vec::new(), 0, 0);
        for (number, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let end = start + usize::try_from(group.num_rows()).unwrap_or(0);
            if start < rows.end && end > rows.start {
                if groups.is_empty() {
                    first = start;
                }
                groups.push(number);
            }
            start = end;
        }
        (groups, first)
    }
}

/// Batches of a Parquet segment.
pub(crate) struct ParquetBatches {
    file: Arc<CheckedFile>,
    /// Gone behind the last batch, and where it gave up.
    reader: Option<ParquetRecordBatchReader>,
}

impl Iterator for ParquetBatches {
    type Item = Result<arrow::array::RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let batch = match guarded(&self.file.path, || Ok(reader.next())) {
            Ok(batch) => batch?,
            Err(error) => return Some(Err(error)),
        };
        self.reader = Some(reader);
        Some(batch.map_err(|error| match error {
            arrow::error::ArrowError::ParquetError(text) => Error::corrupt(&self.file.path, 0, "sound pages", text),
            other => Error::Arrow(other),
        }))
    }
}

/// Parquet's view of a checked file.
struct Chunks(Arc<CheckedFile>);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.bytes.len() as u64
    }
}

impl ChunkReader for Chunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let start = usize::try_from(start).map_err(|e| ParquetError::External(Box::new(e)))?;
        // How far the caller reads isn't known: the rest of the file is checked only where pages say their length.
        let bytes = self.get_bytes(start as u64, self.0.bytes.len().saturating_sub(start))?;
        Ok(bytes.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let start = usize::try_from(start).map_err(|e| ParquetError::External(Box::new(e)))?;
        let end = start.checked_add(length).ok_or_else(|| ParquetError::EOF("a length beyond the file".to_owned()))?;
        self.0.check(start..end).map_err(|e| ParquetError::External(Box::new(e)))?;
        Ok(self.0.bytes.bytes().slice(start..end))
    }
}

fn unpack(error: ParquetError, file: &CheckedFile) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::corrupt(&file.path, 0, "a Parquet file", other.to_string()),
        },
        other => Error::corrupt(&file.path, 0, "a Parquet file", other.to_string()),
    }
}
