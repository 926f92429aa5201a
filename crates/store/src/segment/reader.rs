//! Opens segments and reads ranges of their rows as record batches of the table's schema.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{Schema, SchemaRef};

use super::arrow_file::ArrowFile;
use super::checksum::{self, CheckedFile};
use super::column::ColumnReader;
use super::parquet_file::{ParquetBatches, ParquetFile};
use crate::error::{Error, Result};
use crate::index::{self, SegmentIndex};
use crate::manifest::{FileEntry, SegmentFormat};
use crate::schema::TableSpec;
use crate::storage::Storage;

/// One segment of a snapshot. Nothing is opened before it is used.
#[derive(Debug)]
pub struct Segment {
    storage: Arc<dyn Storage>,
    table: String,
    entry: FileEntry,
    checks_data: bool,
    opened: OnceLock<(SegmentIndex, Opened)>,
}

#[derive(Debug)]
enum Opened {
    Arrow(ArrowFile),
    Parquet(ParquetFile),
}

impl Segment {
    pub(crate) fn new(storage: Arc<dyn Storage>, table: String, entry: FileEntry, checks_data: bool) -> Segment {
        Segment { storage, table, entry, checks_data, opened: OnceLock::new() }
    }

    /// What the manifest says of it.
    #[must_use]
    pub fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.entry.rows
    }

    /// Its index.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`], as every call here.
    pub fn index(&self) -> Result<&SegmentIndex> {
        self.opened().map(|(index, _)| index)
    }

    /// Reads a range of rows in batches of at most `batch_rows`: the columns of `spec` at the given ascending positions,
    /// in the type that `spec` says. A column that is younger than the segment is null.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the bytes are not what was written.
    pub fn batches(
        &self,
        spec: &TableSpec,
        columns: &[usize],
        rows: Range<u64>,
        batch_rows: usize,
    ) -> Result<SegmentBatches<'_>> {
        let to_usize = |row: u64| usize::try_from(row.min(self.entry.rows)).unwrap_or(usize::MAX);
        let rows = to_usize(rows.start)..to_usize(rows.end.max(rows.start));
        let (_, opened) = self.opened()?;
        let stored = opened.schema();
        let positions: Vec<Option<usize>> = columns
            .iter()
            .map(|column| {
                let name = &spec.columns[*column].name;
                stored.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name))
            })
            .collect();
        let batch_rows = batch_rows.max(1);
        let source = match opened {
            Opened::Arrow(file) => Source::Arrow { file, next: rows.start },
            Opened::Parquet(_) if rows.is_empty() || positions.iter().all(Option::is_none) => {
                Source::Nothing { next: rows.start }
            }
            Opened::Parquet(file) => {
                let found: Vec<usize> = positions.iter().flatten().copied().collect();
                Source::Parquet { batches: Box::new(file.read(&found, rows.clone(), batch_rows)?) }
            }
        };
        let schema = Arc::new(spec.arrow().project(columns)?);
        Ok(SegmentBatches { schema, positions, source, end: rows.end, batch_rows })
    }

    /// One column, for many reads of it. `column` is its position in `spec`.
    ///
    /// # Errors
    /// As [`Segment::batches`].
    pub fn column(&self, spec: &TableSpec, column: usize) -> Result<ColumnReader<'_>> {
        let wanted = &spec.columns[column];
        let (rows, data_type) = (usize::try_from(self.entry.rows).unwrap_or(usize::MAX), wanted.column_type.arrow());
        let (_, opened) = self.opened()?;
        let is_wanted = |field: &arrow::datatypes::FieldRef| field.name().eq_ignore_ascii_case(&wanted.name);
        let position = opened.schema().fields().iter().position(is_wanted);
        Ok(match (opened, position) {
            (_, None) => ColumnReader::absent(data_type, rows),
            (Opened::Arrow(file), Some(position)) => ColumnReader::of_arrow(file, position, data_type, rows),
            (Opened::Parquet(file), Some(position)) => ColumnReader::of_parquet(file, position, data_type, rows),
        })
    }

    /// Reads a range of rows as one batch.
    ///
    /// # Errors
    /// As [`Segment::batches`].
    pub fn read(&self, spec: &TableSpec, columns: &[usize], rows: Range<u64>) -> Result<RecordBatch> {
        let length = usize::try_from(rows.end.saturating_sub(rows.start)).unwrap_or(usize::MAX);
        let batches = self.batches(spec, columns, rows, length)?;
        let schema = Arc::clone(&batches.schema);
        let mut parts = batches.collect::<Result<Vec<_>>>()?;
        Ok(match parts.len() {
            0 => RecordBatch::new_empty(schema),
            1 => parts.swap_remove(0),
            _ => arrow::compute::concat_batches(&schema, &parts)?,
        })
    }

    /// Checks every byte of the segment and of its index against the manifest.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for the first that differs.
    pub fn verify(&self, spec: &TableSpec) -> Result<()> {
        let path = self.path();
        let bytes = self.storage.map(&path)?;
        let shown = self.storage.display_path(&path);
        if bytes.len() as u64 != self.entry.bytes {
            let expected = format!("{} bytes", self.entry.bytes);
            return Err(Error::corrupt(shown, bytes.len() as u64, expected, format!("{} bytes", bytes.len())));
        }
        let checksums = checksum::of(&bytes);
        if checksum::digest(&checksums) != self.entry.digest {
            return Err(Error::corrupt(shown, 0, "the digest in the manifest", "another"));
        }
        let index = self.open_index().map_err(|error| self.without_index(error))?;
        index.verify()?;
        if index.checksums()?[..] != checksums[..] {
            let shown = self.storage.display_path(&self.index_path());
            return Err(Error::corrupt(shown, 0, "the checksums of the segment", "others"));
        }
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        self.batches(spec, &all, 0..self.entry.rows, 1 << 16)?.try_for_each(|batch| batch.map(|_| ()))
    }

    /// A missing index, with the segment that it belongs to.
    fn without_index(&self, error: Error) -> Error {
        if error.is_not_found() {
            let shown = self.storage.display_path(&self.index_path());
            Error::corrupt(shown, 0, format!("the index of {}", self.entry.path), "no file")
        } else {
            error
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.table, self.entry.path)
    }

    fn index_path(&self) -> String {
        format!("{}/{}", self.table, self.entry.index_path())
    }

    fn opened(&self) -> Result<&(SegmentIndex, Opened)> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let bytes = self.storage.map(&self.path())?;
        let shown = self.storage.display_path(&self.path());
        if bytes.len() as u64 != self.entry.bytes {
            let expected = format!("{} bytes", self.entry.bytes);
            return Err(Error::corrupt(shown, bytes.len() as u64, expected, format!("{} bytes", bytes.len())));
        }
        let (index, rebuilt) = match self.open_index() {
            Ok(index) => (index, false),
            Err(error) if error.is_not_found() || matches!(error, Error::Corrupt { .. }) => {
                tracing::warn!(%error, "index is unusable; made anew in memory");
                (self.rebuild_index(&bytes)?, true)
            }
            Err(error) => return Err(error),
        };
        let file = match index.checksums() {
            Ok(checksums) => (index, checksums),
            Err(error) if !rebuilt => {
                tracing::warn!(%error, "index is unusable; made anew in memory");
                let index = self.rebuild_index(&bytes)?;
                let checksums = index.checksums()?;
                (index, checksums)
            }
            Err(error) => return Err(error),
        };
        let (index, checksums) = file;
        let file = CheckedFile::new(bytes, shown, checksums, self.checks_data)?;
        let opened = (index, self.open_file(file)?);
        Ok(self.opened.get_or_init(|| opened))
    }

    fn open_file(&self, file: CheckedFile) -> Result<Opened> {
        Ok(match self.entry.format {
            SegmentFormat::Arrow => Opened::Arrow(ArrowFile::open(file, self.entry.rows)?),
            SegmentFormat::Parquet => Opened::Parquet(ParquetFile::open(file, self.entry.rows)?),
        })
    }

    fn open_index(&self) -> Result<SegmentIndex> {
        let path = self.index_path();
        let shown = self.storage.display_path(&path);
        SegmentIndex::open(self.storage.map(&path)?.into(), &self.entry.index_digest, self.entry.rows, shown)
    }

    /// Makes the index from the segment, after checking the segment against the manifest's digest.
    fn rebuild_index(&self, bytes: &bytes::Bytes) -> Result<SegmentIndex> {
        let checksums = checksum::of(bytes);
        let shown = self.storage.display_path(&self.path());
        if checksum::digest(&checksums) != self.entry.digest {
            return Err(Error::corrupt(shown, 0, "the digest in the manifest", "another"));
        }
        let file = CheckedFile::new(bytes.clone(), shown, checksums.clone().into(), true)?;
        let opened = self.open_file(file)?;
        let stored = Arc::clone(opened.schema());
        let spec = self.stored_spec(&stored)?;
        let rows = opened.read_all(&stored, self.entry.rows)?;
        let (index, digest) = index::build(&spec, &rows, &checksums);
        let path = self.storage.display_path(&self.index_path());
        let mut aligned = arrow::buffer::MutableBuffer::new(index.len());
        aligned.extend_from_slice(&index);
        SegmentIndex::open(aligned.into(), &digest, self.entry.rows, path)
    }

    /// A schema good enough for an index: the symbol column is the first one by which the rows are ordered.
    fn stored_spec(&self, stored: &Schema) -> Result<TableSpec> {
        let text = stored.metadata().get("splay.table").cloned().unwrap_or_default();
        serde_json::from_str(&text).map_err(|error| {
            Error::corrupt(self.storage.display_path(&self.path()), 0, "the table's schema", error.to_string())
        })
    }
}

impl Opened {
    fn schema(&self) -> &SchemaRef {
        match self {
            Opened::Arrow(file) => file.schema(),
            Opened::Parquet(file) => file.schema(),
        }
    }

    fn read_all(&self, schema: &SchemaRef, rows: u64) -> Result<RecordBatch> {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        match self {
            Opened::Arrow(file) => {
                let columns = (0..schema.fields().len()).map(|column| file.read(column, 0..rows));
                Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<Vec<_>>>()?)?)
            }
            Opened::Parquet(file) => {
                let all: Vec<usize> = (0..schema.fields().len()).collect();
                let parts = file.read(&all, 0..rows, 1 << 16)?.collect::<Result<Vec<_>>>()?;
                Ok(arrow::compute::concat_batches(schema, &parts)?)
            }
        }
    }
}

/// Batches of a range of a segment, in order.
pub struct SegmentBatches<'a> {
    schema: SchemaRef,
    /// Where each wanted column is in the file.
    positions: Vec<Option<usize>>,
    source: Source<'a>,
    end: usize,
    batch_rows: usize,
}

enum Source<'a> {
    Arrow {
        file: &'a ArrowFile,
        next: usize,
    },
    Parquet {
        batches: Box<ParquetBatches>,
    },
    /// No stored column is wanted.
    Nothing {
        next: usize,
    },
}

impl std::fmt::Debug for SegmentBatches<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentBatches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl SegmentBatches<'_> {
    /// The wanted columns from the stored ones that were found, in the order of the request.
    fn fit(&self, mut stored: impl FnMut(usize) -> Result<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.positions.len());
        for (field, position) in self.schema.fields().iter().zip(&self.positions) {
            let column = match position {
                None => new_null_array(field.data_type(), rows),
                Some(position) => {
                    let column = stored(*position)?;
                    if column.data_type() == field.data_type() { column } else { cast(&column, field.data_type())? }
                }
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Iterator for SegmentBatches<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.source {
            Source::Arrow { file, next } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                let file = *file;
                Some(self.fit(|column| file.read(column, rows.clone()), rows.len()))
            }
            Source::Nothing { next } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                Some(self.fit(|_| Err(Error::Poisoned), rows.len()))
            }
            Source::Parquet { batches } => {
                let batch = match batches.next()? {
                    Ok(batch) => batch,
                    Err(error) => return Some(Err(error)),
                };
                // Parquet gives the columns in the file's order; they were asked for by position in the table.
                let mut found: Vec<usize> = self.positions.iter().flatten().copied().collect();
                found.sort_unstable();
                let stored = |position: usize| {
                    let at = found.iter().position(|p| *p == position).unwrap_or_default();
                    Ok(Arc::clone(batch.column(at)))
                };
                Some(self.fit(stored, batch.num_rows()))
            }
        }
    }
}
