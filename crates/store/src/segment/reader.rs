//! Opens segments and reads ranges of their rows as record batches of the table's schema.
//!
//! A segment is a file, an object (`object.rs`), or rows in memory that aren't in a file yet; readers treat all three
//! alike.

mod object;
mod tier_encoding;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::buffer::{Buffer, MutableBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef, TimestampNanosecondType};
use parquet::file::metadata::ParquetMetaData;

use super::arrow_file::ArrowFile;
use super::checksum::{self, CheckedFile};
use super::column::ColumnReader;
use super::dense::DenseFile;
use super::parquet::{ParquetBatches, ParquetFile};
use super::writer::end_symbols;
use crate::encryption::{self, EncryptionKeys};
use crate::error::{Error, Result};
use crate::index::{self, SegmentIndex};
use crate::manifest::FileEntry;
use crate::object::ObjectPlace;
use crate::row_order::in_order;
use crate::schema::{ColumnSpec, TableSpec};
use crate::storage::{MappedBytes, Storage, unreadable};
use crate::tier::Tier;

pub(crate) use object::checksums_of_object;

/// Bytes of an index that are read ahead when it is opened: its directory, and the summaries of a table that isn't wide.
const INDEX_BYTES_AHEAD: usize = 256 << 10;

/// Bytes at each end of a segment's file that are read ahead when it is opened.
const ENDS_BYTES_AHEAD: usize = 64 << 10;

/// Rows in memory from which on all their columns are summarised when they are put in order: with fewer, the first reader of a
/// column does so in a fraction of a millisecond.
const SUMMARISED_ROWS_MIN: usize = 1 << 17;

/// One segment of a snapshot. Nothing is opened before it is used.
#[derive(Debug)]
pub struct Segment {
    /// The storage of its file; `None` for rows in memory.
    storage: Option<Arc<dyn Storage>>,
    table: String,
    entry: FileEntry,
    /// The place of its object, if its file is in the object store.
    objects: Option<Arc<ObjectPlace>>,
    keys: Arc<EncryptionKeys>,
    checks_data: bool,
    /// Rows that don't count.
    hidden: u64,
    opened: OnceLock<SegmentContent>,
}

/// Where the segments of a database are, and the keys of the encrypted ones.
#[derive(Debug)]
pub(crate) struct SegmentPlace<'a> {
    pub(crate) storage: &'a Arc<dyn Storage>,
    pub(crate) objects: &'a Arc<ObjectPlace>,
    pub(crate) keys: &'a Arc<EncryptionKeys>,
}

/// The storage of a column in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnStorage {
    /// Its name in the table.
    pub column: String,
    /// Bytes in the file, its lists of pages among them.
    pub bytes: u64,
    /// How many of the bytes are dictionaries. These grow with the number of different values, not with the rows.
    pub dictionary_bytes: u64,
    /// Bytes of its values in memory, where all have one width.
    pub plain_bytes: Option<u64>,
    /// How it is kept: type in the file, encodings, codec.
    pub encoding: String,
}

/// The opened index and columns of a segment.
#[derive(Debug)]
struct SegmentContent {
    index: SegmentIndex,
    file: Arc<DataFile>,
    /// The index's file, as far as it is used.
    index_bytes: Option<MappedBytes>,
}

/// The rows' file. One in the object store is opened when a column is first asked for, which is behind all that its index rules out.
#[derive(Debug)]
struct DataFile {
    opened: OnceLock<OpenSegment>,
    /// The object to open, if the segment is in the object store.
    remote: Option<Arc<CheckedFile>>,
}

impl From<OpenSegment> for DataFile {
    fn from(opened: OpenSegment) -> DataFile {
        DataFile { opened: OnceLock::from(opened), remote: None }
    }
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each open file")]
enum OpenSegment {
    Arrow(ArrowFile),
    Parquet(ParquetFile),
    Dense(DenseFile),
    Memory(RecordBatch),
}

impl Segment {
    pub(crate) fn new(place: &SegmentPlace<'_>, table: String, entry: FileEntry, checks_data: bool) -> Segment {
        let objects = entry.object.is_some().then(|| Arc::clone(place.objects));
        let (storage, keys) = (Some(Arc::clone(place.storage)), Arc::clone(place.keys));
        Segment { storage, table, entry, objects, keys, checks_data, hidden: 0, opened: OnceLock::new() }
    }

    /// Rows in memory, put into the table's order: those of equal symbol and time stay in the order of the batches.
    /// Batches have the columns of `spec`, or only the first of them, if columns were added since they were written.
    /// `None` if there are no rows.
    ///
    /// The name tells it from others of the table; it names no file.
    ///
    /// # Errors
    /// [`Error::Schema`] for batches of other columns.
    pub fn in_memory(spec: &TableSpec, date: i32, name: String, batches: &[RecordBatch]) -> Result<Option<Segment>> {
        let rows = in_order(spec, batches)?;
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        let index = SegmentIndex::of_rows(spec, rows.clone());
        if rows.num_rows() >= SUMMARISED_ROWS_MIN {
            index.summarise_all()?;
        }
        let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
        let entry = FileEntry {
            path: name,
            tier: Tier::Mapped,
            date,
            rows: rows.num_rows() as u64,
            bytes: rows.get_array_memory_size() as u64,
            digest: String::new(),
            index_bytes: 0,
            index_digest: String::new(),
            time_min: times.iter().copied().min().unwrap_or_default(),
            time_max: times.iter().copied().max().unwrap_or_default(),
            symbols: end_symbols(spec, &rows),
            object: None,
            key: None,
        };
        let opened = OnceLock::from(SegmentContent {
            index,
            file: Arc::new(OpenSegment::Memory(rows).into()),
            index_bytes: None,
        });
        let table = spec.name.clone();
        let (objects, keys) = (None, Arc::default());
        Ok(Some(Segment { storage: None, table, entry, objects, keys, checks_data: false, hidden: 0, opened }))
    }

    /// This segment without the last rows of some runs of equal symbols: `ends` has the numbers of the runs, ascending,
    /// and the row at which each shall end.
    ///
    /// # Errors
    /// As [`Segment::index`].
    pub fn cut(&self, ends: &[(usize, u64)]) -> Result<Segment> {
        let opened = self.opened()?;
        let index = &opened.index;
        let mut all: std::collections::BTreeMap<usize, u64> = index.ends().iter().copied().collect();
        let mut hidden = self.hidden;
        for (run, end) in ends {
            let rows = index.symbol_rows(*run)?;
            let end = (*end).clamp(rows.start, rows.end);
            hidden += rows.end - end;
            all.insert(*run, end);
        }
        let opened = OnceLock::from(SegmentContent {
            index: index.cut(all.into_iter().collect()),
            file: Arc::clone(&opened.file),
            index_bytes: opened.index_bytes.clone(),
        });
        let (storage, table, entry) = (self.storage.clone(), self.table.clone(), self.entry.clone());
        Ok(Segment {
            storage,
            table,
            entry,
            objects: self.objects.clone(),
            keys: Arc::clone(&self.keys),
            checks_data: self.checks_data,
            hidden,
            opened,
        })
    }

    /// Whether its rows are in no file.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.storage.is_none()
    }

    /// Whether some of its rows don't count, so that not all rows between two that do count too.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.hidden > 0
    }

    /// The rows that count, ascending, neighbours joined.
    ///
    /// # Errors
    /// As [`Segment::index`].
    pub fn ranges(&self) -> Result<Vec<Range<u64>>> {
        if self.hidden == 0 {
            return Ok(std::iter::once(0..self.entry.rows).filter(|rows| !rows.is_empty()).collect());
        }
        let index = &self.opened()?.index;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut start = 0;
        for (run, end) in index.ends() {
            // A run begins where the one before it would end if that weren't cut.
            ranges.push(start..*end);
            start = index.full_end(*run)?;
        }
        ranges.push(start..self.entry.rows);
        ranges.retain(|rows| !rows.is_empty());
        Ok(ranges)
    }

    /// The keys of its database.
    pub(crate) fn keys(&self) -> &Arc<EncryptionKeys> {
        &self.keys
    }

    /// The manifest's entry of the segment.
    #[must_use]
    pub fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// Rows that count: all that its entry names but those that were cut.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.entry.rows - self.hidden
    }

    /// Whether its files are open, or it has none. One that isn't is opened when it is first used, which waits for the disk.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    /// Its index.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`], as every call here.
    pub fn index(&self) -> Result<&SegmentIndex> {
        self.opened().map(|opened| &opened.index)
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
        let opened = self.file()?;
        let stored = opened.schema();
        let positions: Vec<Option<usize>> =
            columns.iter().map(|column| spec.columns[*column].position_in(stored)).collect();
        let batch_rows = batch_rows.max(1);
        let source = match opened {
            OpenSegment::Arrow(file) => SegmentRowsSource::Arrow { file, next: rows.start },
            OpenSegment::Memory(batch) => SegmentRowsSource::Memory { batch, next: rows.start },
            OpenSegment::Dense(file) => SegmentRowsSource::Dense { file, next: rows.start },
            OpenSegment::Parquet(_) if rows.is_empty() || positions.iter().all(Option::is_none) => {
                SegmentRowsSource::Nothing { next: rows.start }
            }
            OpenSegment::Parquet(file) => {
                let mut others = Vec::new();
                for position in positions.iter().flatten() {
                    if !file.decodes(*position)? {
                        others.push(*position);
                    }
                }
                // The `parquet` crate gives columns in the file's order.
                others.sort_unstable();
                let batches = match others[..] {
                    [] => None,
                    _ => Some(Box::new(file.read(&others, rows.clone(), batch_rows)?)),
                };
                SegmentRowsSource::Parquet { file, next: rows.start, others, batches }
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
        Ok(self.file()?.column(spec, column, self.entry.rows))
    }

    /// The Parquet file's footer; `None` for a segment that is no such file.
    pub(crate) fn footer(&self) -> Result<Option<&ParquetMetaData>> {
        Ok(match self.file()? {
            OpenSegment::Parquet(file) => Some(file.footer()),
            OpenSegment::Arrow(_) | OpenSegment::Dense(_) | OpenSegment::Memory(_) => None,
        })
    }

    /// Whether reading a range of a column costs about as much as its rows. It doesn't for lists in Parquet, where each
    /// range creates a reader. `column` is its position in `spec`.
    ///
    /// # Errors
    /// As [`Segment::batches`].
    pub fn reads_by_range(&self, spec: &TableSpec, column: usize) -> Result<bool> {
        match self.file()? {
            OpenSegment::Arrow(_) | OpenSegment::Dense(_) | OpenSegment::Memory(_) => Ok(true),
            OpenSegment::Parquet(file) => match spec.columns[column].position_in(file.schema()) {
                Some(position) => file.decodes(position),
                None => Ok(true),
            },
        }
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

    /// Reads all rows that count as one batch.
    ///
    /// # Errors
    /// As [`Segment::batches`].
    pub fn read_all(&self, spec: &TableSpec, columns: &[usize]) -> Result<RecordBatch> {
        let mut parts = Vec::new();
        for rows in self.ranges()? {
            parts.push(self.read(spec, columns, rows)?);
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => arrow::compute::concat_batches(&Arc::new(spec.arrow().project(columns)?), &parts)?,
        })
    }

    /// The storage of each column in the file, in the order of `spec`; columns that are younger than the file are left out.
    ///
    /// # Errors
    /// As [`Segment::batches`].
    pub fn storage(&self, spec: &TableSpec) -> Result<Vec<ColumnStorage>> {
        self.storage_of(spec.shown_columns())
    }

    /// Like [`Self::storage`], for these columns, which may include a column that is hidden from users.
    pub(crate) fn storage_of(&self, columns: &[ColumnSpec]) -> Result<Vec<ColumnStorage>> {
        let file = self.file()?;
        let rows = self.entry.rows;
        let of = |column: &ColumnSpec| {
            let position = column.position_in(file.schema())?;
            let (bytes, dictionary_bytes, description) = match file {
                OpenSegment::Arrow(file) => (file.column_bytes(position), 0, "as in memory".to_owned()),
                OpenSegment::Memory(batch) => {
                    (batch.column(position).get_array_memory_size() as u64, 0, "in memory".to_owned())
                }
                OpenSegment::Parquet(file) => file.column_storage(position),
                OpenSegment::Dense(file) => file.column_storage(position),
            };
            let description = match &self.entry.key {
                Some(key) => format!("{description}, encrypted under {key}"),
                None => description,
            };
            let width = match column.column_type.arrow() {
                DataType::Boolean => None,
                DataType::Dictionary(..) => Some(4),
                DataType::FixedSizeList(_, size) => Some(u64::from(size.unsigned_abs()) * 8),
                other => other.primitive_width().map(|width| width as u64),
            };
            let (column, plain_bytes) = (column.name.clone(), width.map(|width| width * rows));
            Some(ColumnStorage { column, bytes, dictionary_bytes, plain_bytes, encoding: description })
        };
        Ok(columns.iter().filter_map(of).collect())
    }

    /// Checks every byte of the segment and of its index against the manifest, and that its rows can be read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for the first that differs.
    pub fn verify(&self, spec: &TableSpec) -> Result<()> {
        self.verify_bytes()?;
        if self.storage.is_none() {
            return Ok(());
        }
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        self.batches(spec, &all, 0..self.entry.rows, 1 << 16)?.try_for_each(|batch| batch.map(|_| ()))
    }

    /// Checks the index against the manifest and the checksums of the segment's blocks.
    pub(crate) fn verify_index(&self, checksums: &[u32]) -> Result<()> {
        let Some(storage) = &self.storage else { return Ok(()) };
        let (index, bytes) = self.open_index(storage.as_ref())?;
        index.verify()?;
        if index.checksums()?[..] != *checksums {
            let shown = storage.display_path(&self.index_path());
            return Err(Error::corrupt(shown, 0, "the checksums of the segment", "others"));
        }
        match bytes.unreadable_at() {
            Some(offset) => Err(unreadable(&storage.display_path(&self.index_path()), offset)),
            None => Ok(()),
        }
    }

    /// Checks every byte of the segment and of its index against the manifest.
    pub(crate) fn verify_bytes(&self) -> Result<()> {
        let Some(storage) = &self.storage else { return Ok(()) };
        if let Some((tier, key)) = self.object(storage.as_ref())? {
            return self.verify_object(tier, key);
        }
        let path = self.path();
        let bytes = storage.map(&path)?;
        let shown = storage.display_path(&path);
        if bytes.len() as u64 != self.entry.bytes {
            let expected = format!("{} bytes", self.entry.bytes);
            return Err(Error::corrupt(shown, bytes.len() as u64, expected, format!("{} bytes", bytes.len())));
        }
        let checksums = checksum::of(&bytes);
        if checksum::digest(&checksums) != self.entry.digest {
            return Err(Error::corrupt(shown, 0, "the digest in the manifest", "another"));
        }
        let index = self.open_index(storage.as_ref()).map_err(|error| self.without_index(storage.as_ref(), error))?;
        let (index, index_bytes) = index;
        index.verify()?;
        if index.checksums()?[..] != checksums[..] {
            let shown = storage.display_path(&self.index_path());
            return Err(Error::corrupt(shown, 0, "the checksums of the segment", "others"));
        }
        // Zeros in the place of pages that can't be read differ from what was written; this tells it by its name.
        let read = [(bytes.unreadable_at(), self.path()), (index_bytes.unreadable_at(), self.index_path())];
        match read.into_iter().find_map(|(offset, path)| offset.map(|offset| (offset, path))) {
            Some((offset, path)) => Err(unreadable(&storage.display_path(&path), offset)),
            None => Ok(()),
        }
    }

    /// A missing index, with the segment that it belongs to.
    fn without_index(&self, storage: &dyn Storage, error: Error) -> Error {
        if error.is_not_found() {
            let shown = storage.display_path(&self.index_path());
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

    /// Whether a page of its files couldn't be read. Then nothing is read of it any more, and who wants it opens it anew.
    #[must_use]
    pub(crate) fn is_unreadable(&self) -> bool {
        self.opened.get().is_some_and(|opened| self.refuse_unreadable(opened).is_err())
    }

    fn refuse_unreadable(&self, opened: &SegmentContent) -> Result<()> {
        let Some(storage) = &self.storage else { return Ok(()) };
        let refuse = |path: &str, offset| Err(unreadable(&storage.display_path(path), offset));
        if let Some(offset) =
            opened.file.opened.get().and_then(OpenSegment::mapped).and_then(MappedBytes::unreadable_at)
        {
            return refuse(&self.path(), offset);
        }
        match opened.index_bytes.as_ref().and_then(MappedBytes::unreadable_at) {
            Some(offset) => refuse(&self.index_path(), offset),
            None => Ok(()),
        }
    }

    fn opened(&self) -> Result<&SegmentContent> {
        if let Some(opened) = self.opened.get() {
            self.refuse_unreadable(opened)?;
            return Ok(opened);
        }
        // Rows in memory are open from the beginning.
        let Some(storage) = &self.storage else { return Err(Error::Poisoned) };
        let storage = storage.as_ref();
        if let Some((tier, key)) = self.object(storage)? {
            let opened = self.open_object(storage, tier, key)?;
            return Ok(self.opened.get_or_init(|| opened));
        }
        let mut bytes = storage.map(&self.path())?;
        // Of the paged tiers each place is checked, and requested before, if data is checked.
        if self.entry.tier != Tier::Mapped && self.checks_data {
            bytes = bytes.read_in_places();
        }
        // The description of the columns is at both ends of the file.
        bytes.read_ahead(0..ENDS_BYTES_AHEAD);
        bytes.read_ahead(bytes.len().saturating_sub(ENDS_BYTES_AHEAD)..bytes.len());
        let shown = storage.display_path(&self.path());
        if bytes.len() as u64 != self.entry.bytes {
            let expected = format!("{} bytes", self.entry.bytes);
            return Err(Error::corrupt(shown, bytes.len() as u64, expected, format!("{} bytes", bytes.len())));
        }
        let (index, checksums, index_bytes) = self.sound_index(storage, &|| Ok(bytes.clone()))?;
        let file = CheckedFile::new(bytes, shown, checksums, self.checks_data)?;
        let opened = SegmentContent { index, file: Arc::new(self.open_file(file)?.into()), index_bytes };
        let opened = self.opened.get_or_init(|| opened);
        self.refuse_unreadable(opened)?;
        Ok(opened)
    }

    /// The index, with the checksums in it. One that is lost, damaged or can't be read is made anew in memory, of the segment's bytes.
    fn sound_index(
        &self,
        storage: &dyn Storage,
        bytes: &dyn Fn() -> Result<MappedBytes>,
    ) -> Result<(SegmentIndex, ScalarBuffer<u32>, Option<MappedBytes>)> {
        let result = self.open_index(storage).and_then(|(index, mapped)| {
            // The sections that aren't verified here are summaries, which a statement can do without.
            index.verify_directory()?;
            let checksums = index.checksums()?;
            match mapped.unreadable_at() {
                Some(offset) => Err(unreadable(&storage.display_path(&self.index_path()), offset)),
                None => Ok((index, checksums, Some(mapped))),
            }
        });
        match result {
            Err(error) if error.is_not_found() || error.is_damage() => {
                tracing::warn!(%error, "index is unusable; made anew in memory");
                let index = self.rebuild_index(storage, &bytes()?)?;
                let checksums = index.checksums()?;
                Ok((index, checksums, None))
            }
            result => result,
        }
    }

    fn open_file(&self, file: CheckedFile) -> Result<OpenSegment> {
        let file = Arc::new(file);
        Ok(match self.entry.tier {
            Tier::Mapped => OpenSegment::Arrow(ArrowFile::open(file, self.entry.rows)?),
            Tier::Fast | Tier::Small | Tier::Object => {
                OpenSegment::Parquet(ParquetFile::open(file, self.entry.rows, &self.keys)?)
            }
            Tier::Dense if self.entry.key.is_some() => {
                let file = Arc::new(CheckedFile::sealed(file, &self.keys)?);
                OpenSegment::Dense(DenseFile::open(file, self.entry.rows)?)
            }
            Tier::Dense => OpenSegment::Dense(DenseFile::open(file, self.entry.rows)?),
        })
    }

    fn open_index(&self, storage: &dyn Storage) -> Result<(SegmentIndex, MappedBytes)> {
        let path = self.index_path();
        let shown = storage.display_path(&path);
        let index = storage.map(&path)?;
        index.read_ahead(0..INDEX_BYTES_AHEAD);
        let opened = match &self.entry.key {
            Some(_) => self.open_sealed_index(&index, shown)?,
            None => SegmentIndex::open(index.bytes().clone().into(), &self.entry.index_digest, self.entry.rows, shown)?,
        };
        Ok((opened, index))
    }

    /// An index that is encrypted: all of it is decrypted at once, into memory.
    fn open_sealed_index(&self, sealed: &[u8], shown: std::path::PathBuf) -> Result<SegmentIndex> {
        if encryption::digest(sealed) != self.entry.index_digest {
            return Err(Error::corrupt(shown, 0, "the index of this segment", "another"));
        }
        let plain = encryption::open(sealed, &self.keys, &shown)?;
        SegmentIndex::open_plain(copy_aligned(&plain), self.entry.rows, shown)
    }

    /// Makes the index from the segment, after checking the segment against the manifest's digest.
    fn rebuild_index(&self, storage: &dyn Storage, bytes: &MappedBytes) -> Result<SegmentIndex> {
        let checksums = checksum::of(bytes);
        let shown = storage.display_path(&self.path());
        if checksum::digest(&checksums) != self.entry.digest {
            return Err(Error::corrupt(shown, 0, "the digest in the manifest", "another"));
        }
        let file = CheckedFile::new(bytes.clone(), shown, checksums.clone().into(), true)?;
        let opened = self.open_file(file)?;
        let spec = self.stored_spec(storage, opened.schema())?;
        let rows = opened.read_all(&spec, self.entry.rows)?;
        let (index, digest) = index::build(&spec, &rows, &checksums);
        let path = storage.display_path(&self.index_path());
        SegmentIndex::open(copy_aligned(&index), &digest, self.entry.rows, path)
    }

    /// A schema good enough for an index: the symbol column is the first one by which the rows are ordered.
    fn stored_spec(&self, storage: &dyn Storage, stored: &Schema) -> Result<TableSpec> {
        let text = stored.metadata().get("splay.table").cloned().unwrap_or_default();
        serde_json::from_str(&text).map_err(|error| {
            Error::corrupt(storage.display_path(&self.path()), 0, "the table's schema", error.to_string())
        })
    }
}

/// A copy at an address where words may be read.
fn copy_aligned(bytes: &[u8]) -> Buffer {
    let mut aligned = MutableBuffer::new(bytes.len());
    aligned.extend_from_slice(bytes);
    aligned.into()
}

impl OpenSegment {
    /// The file's bytes, where there is a file.
    fn mapped(&self) -> Option<&MappedBytes> {
        match self {
            OpenSegment::Arrow(file) => Some(file.mapped()),
            OpenSegment::Parquet(file) => file.mapped(),
            OpenSegment::Dense(file) => file.mapped(),
            OpenSegment::Memory(_) => None,
        }
    }

    fn schema(&self) -> &SchemaRef {
        match self {
            OpenSegment::Arrow(file) => file.schema(),
            OpenSegment::Parquet(file) => file.schema(),
            OpenSegment::Dense(file) => file.schema(),
            OpenSegment::Memory(batch) => batch.schema_ref(),
        }
    }

    /// All rows, in the types of the table that the file was written for.
    fn read_all(&self, spec: &TableSpec, rows: u64) -> Result<RecordBatch> {
        let schema = spec.arrow();
        let columns = (0..spec.columns.len()).map(|column| self.column(spec, column, rows).read(0..usize::MAX));
        Ok(RecordBatch::try_new(schema, columns.collect::<Result<Vec<_>>>()?)?)
    }

    /// A column in the type that a table gives it, by its position there.
    fn column(&self, spec: &TableSpec, column: usize, rows: u64) -> ColumnReader<'_> {
        let column_spec = &spec.columns[column];
        let (rows, data_type) = (usize::try_from(rows).unwrap_or(usize::MAX), column_spec.column_type.arrow());
        let position = column_spec.position_in(self.schema());
        match (self, position) {
            (_, None) => ColumnReader::absent(data_type, rows),
            (OpenSegment::Arrow(file), Some(position)) => ColumnReader::of_arrow(file, position, data_type, rows),
            (OpenSegment::Parquet(file), Some(position)) => ColumnReader::of_pages(file, position, data_type, rows),
            (OpenSegment::Dense(file), Some(position)) => ColumnReader::of_pages(file, position, data_type, rows),
            (OpenSegment::Memory(batch), Some(position)) => ColumnReader::of_memory(batch.column(position), data_type),
        }
    }
}

/// Batches of a range of a segment, in order.
pub struct SegmentBatches<'a> {
    schema: SchemaRef,
    /// The position of each requested column in the file.
    positions: Vec<Option<usize>>,
    source: SegmentRowsSource<'a>,
    end: usize,
    batch_rows: usize,
}

enum SegmentRowsSource<'a> {
    Arrow {
        file: &'a ArrowFile,
        next: usize,
    },
    Dense {
        file: &'a DenseFile,
        next: usize,
    },
    Memory {
        batch: &'a RecordBatch,
        next: usize,
    },
    Parquet {
        file: &'a ParquetFile,
        next: usize,
        /// Positions of the columns that the `parquet` crate reads, ascending, and their batches.
        others: Vec<usize>,
        batches: Option<Box<ParquetBatches>>,
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
    fn fit(&self, mut stored: impl FnMut(usize, &DataType) -> Result<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.positions.len());
        for (field, position) in self.schema.fields().iter().zip(&self.positions) {
            let column = match position {
                None => new_null_array(field.data_type(), rows),
                Some(position) => {
                    let column = stored(*position, field.data_type())?;
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
            SegmentRowsSource::Arrow { file, next } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                let file = *file;
                Some(self.fit(|column, _| file.read(column, rows.clone()), rows.len()))
            }
            SegmentRowsSource::Dense { file, next } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                let file = *file;
                Some(self.fit(|column, data_type| file.decode(column, rows.clone(), data_type), rows.len()))
            }
            SegmentRowsSource::Memory { batch: memory_batch, next } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                let memory_batch = *memory_batch;
                Some(self.fit(|column, _| Ok(memory_batch.column(column).slice(rows.start, rows.len())), rows.len()))
            }
            SegmentRowsSource::Nothing { next } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                Some(self.fit(|_, _| Err(Error::Poisoned), rows.len()))
            }
            SegmentRowsSource::Parquet { file, next, others, batches } => {
                let rows = *next..(next.saturating_add(self.batch_rows)).min(self.end);
                if rows.is_empty() {
                    return None;
                }
                *next = rows.end;
                let other = match batches.as_mut().map(|batches| batches.next()) {
                    None => None,
                    Some(Some(Ok(batch))) if batch.num_rows() == rows.len() => Some(batch),
                    Some(Some(Err(error))) => return Some(Err(error)),
                    Some(batch_result) => {
                        let batch_result = batch_result.and_then(Result::ok).map_or(0, |batch| batch.num_rows());
                        return Some(Err(file.short(rows.len(), batch_result)));
                    }
                };
                let (file, others) = (*file, others.clone());
                let stored = |position: usize, data_type: &DataType| {
                    if let Ok(at) = others.binary_search(&position) {
                        return other.as_ref().map(|batch| Arc::clone(batch.column(at))).ok_or(Error::Poisoned);
                    }
                    file.decode(position, rows.clone(), data_type)?.ok_or(Error::Poisoned)
                };
                Some(self.fit(stored, rows.len()))
            }
        }
    }
}
