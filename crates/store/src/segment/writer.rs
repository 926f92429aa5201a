//! Writes segments.

use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::{Int32Type, TimestampNanosecondType};
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use bytes::Bytes;

use super::checksum::{self, BlockChecksums};
use super::dense;
use super::parquet::{self, Strength};
use crate::background;
use crate::encryption::{self, EncryptionKeys, FileKey, SealingWrite};
use crate::error::{Error, Result};
use crate::index;
use crate::manifest::FileEntry;
use crate::schema::TableSpec;
use crate::storage::{CountingWrite, Storage, StorageFile, into_io, out_of_io};
use crate::tier::Tier;

/// Format of files for other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Arrow IPC file, uncompressed.
    Arrow,
    /// Parquet: floats as floats, zstd.
    Parquet,
}

impl FileFormat {
    /// Extension of the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            FileFormat::Arrow => "arrow",
            FileFormat::Parquet => "parquet",
        }
    }
}

/// The place and the properties of a new segment.
pub(crate) struct SegmentTarget<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) keys: &'a EncryptionKeys,
    /// The table's folder.
    pub(crate) table: &'a str,
    /// Path of the file within it. It is written as `.tmp` beside that; the caller renames it before the commit.
    pub(crate) path: String,
    pub(crate) tier: Tier,
    pub(crate) date: i32,
}

/// Writes rows that are in the table's order, and their index, and syncs both. The files have `.tmp` behind their names.
pub(crate) fn write(target: &SegmentTarget<'_>, spec: &TableSpec, rows: &RecordBatch) -> Result<FileEntry> {
    if !is_ordered(spec, rows) {
        return Err(spec.error("rows reached a segment out of order".to_owned()));
    }
    let path = format!("{}/{}", target.table, target.path);
    let shown = target.storage.display_path(&path);
    let file_key = target.keys.file_key_of(target.tier)?;
    let mut file = target.storage.create(&format!("{path}.tmp"))?;
    let (checksums, bytes) = write_tier(target.tier, &shown, file.as_mut(), spec, rows, file_key.as_ref())?;
    let (mut index, mut index_digest) = index::build(spec, rows, &checksums);
    if let Some(key) = target.keys.file_key_of(target.tier)? {
        index = encryption::seal(&index, &key).map_err(out_of_io("encrypt", &shown))?;
        // The digest is that of the encrypted bytes. A digest of the plain bytes would confirm a guess of their content.
        index_digest = encryption::digest(&index);
    }
    file.sync()?;
    drop(file);

    let time = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let mut entry = FileEntry {
        path: target.path.clone(),
        tier: target.tier,
        date: target.date,
        rows: rows.num_rows() as u64,
        bytes,
        digest: checksum::digest(&checksums),
        index_bytes: index.len() as u64,
        index_digest,
        time_min: time.values().iter().copied().min().unwrap_or_default(),
        time_max: time.values().iter().copied().max().unwrap_or_default(),
        symbols: None,
        object: None,
        key: file_key.map(|key| key.id),
    };
    entry.symbols = end_symbols(spec, rows);
    let mut file = target.storage.create(&format!("{}/{}.tmp", target.table, entry.index_path()))?;
    file.write(&index)?;
    file.sync()?;
    Ok(entry)
}

/// A file in memory. Its bytes are aligned as those of mapped files are.
#[derive(Debug)]
struct FileInMemory(MutableBuffer);

impl StorageFile for FileInMemory {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

impl AsRef<[u8]> for FileInMemory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes that rows have in a file of a tier, and the checksums of its blocks. Nothing is written to disk.
pub(super) fn encode(
    tier: Tier,
    spec: &TableSpec,
    rows: &RecordBatch,
    key: Option<&FileKey>,
) -> Result<(Bytes, Vec<u32>)> {
    let mut file = FileInMemory(MutableBuffer::new(0));
    let (checksums, _) = write_tier(tier, Path::new(&spec.name), &mut file, spec, rows, key)?;
    Ok((Bytes::from_owner(file), checksums))
}

/// Writes the bytes of a file of a tier and gives their checksums and number.
fn write_tier(
    tier: Tier,
    shown: &Path,
    file: &mut dyn StorageFile,
    spec: &TableSpec,
    rows: &RecordBatch,
    key: Option<&FileKey>,
) -> Result<(Vec<u32>, u64)> {
    write_file(shown, file, spec, rows, |file, checksums, rows| match tier {
        Tier::Mapped => write_arrow(file, checksums, rows),
        Tier::Fast => parquet::write(CountingWrite { file, observer: checksums }, spec, rows, Strength::Fast, key),
        Tier::Small | Tier::Object => {
            parquet::write(CountingWrite { file, observer: checksums }, spec, rows, Strength::Small, key)
        }
        Tier::Dense => {
            let sink = std::io::BufWriter::with_capacity(1 << 20, CountingWrite { file, observer: checksums });
            let Some(key) = key else { return dense::write(sink, spec, rows) };
            let mut sealing = SealingWrite::new(sink, key).map_err(out_of_io("encrypt", shown))?;
            dense::write(&mut sealing, spec, rows)?;
            sealing.finish().map_err(out_of_io("encrypt", shown))
        }
    })
}

/// Writes rows to a file for other tools, without an index, and gives its length. The path joins `written` once there is a
/// file.
pub(crate) fn export(
    storage: &dyn Storage,
    path: &str,
    format: FileFormat,
    spec: &TableSpec,
    rows: &RecordBatch,
    written: &mut Vec<String>,
) -> Result<u64> {
    storage.create_dir(crate::storage::parent(path))?;
    let mut file = storage.create(path)?;
    written.push(path.to_owned());
    let write = |file: &mut dyn StorageFile, checksums: &mut BlockChecksums, rows: &RecordBatch| match format {
        FileFormat::Arrow => write_arrow(file, checksums, rows),
        FileFormat::Parquet => parquet::write_plain(CountingWrite { file, observer: checksums }, spec, rows),
    };
    let bytes = write_file(&storage.display_path(path), file.as_mut(), spec, rows, write)?.1;
    file.sync()?;
    Ok(bytes)
}

/// Writes the file's bytes and gives their checksums and number.
fn write_file(
    shown: &Path,
    file: &mut dyn StorageFile,
    spec: &TableSpec,
    rows: &RecordBatch,
    write: impl FnOnce(&mut dyn StorageFile, &mut BlockChecksums, &RecordBatch) -> Result<()>,
) -> Result<(Vec<u32>, u64)> {
    let mut checksums = BlockChecksums::default();
    // The schema travels with the rows, so that an index can be made anew from the file alone.
    let table = serde_json::to_string(spec).unwrap_or_default();
    let metadata = [("splay.table".to_owned(), table)].into();
    let schema = rows.schema_ref().as_ref().clone().with_metadata(metadata);
    let rows = rows.clone().with_schema(std::sync::Arc::new(schema))?;
    write(file, &mut checksums, &rows).map_err(|error| unpack(error, shown))?;
    Ok(checksums.finish())
}

/// Whether rows are in the order (symbol, time), nulls first.
pub(crate) fn is_ordered(spec: &TableSpec, rows: &RecordBatch) -> bool {
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
    let Some(column) = spec.symbol_position() else { return times.is_sorted() };
    let ranks = symbol_ranks(rows.column(column));
    let symbols = rows.column(column).as_dictionary::<Int32Type>().keys();
    let key = |row: usize| {
        let rank = if symbols.is_valid(row) { ranks[symbols.value(row) as usize] } else { 0 };
        (rank, times[row])
    };
    background::pieces(rows.num_rows()).flatten().skip(1).all(|row| key(row - 1) <= key(row))
}

/// Rank of each dictionary entry in the order of texts, from 1; equal texts have equal ranks.
pub(crate) fn symbol_ranks(column: &ArrayRef) -> Vec<u32> {
    let texts = column.as_dictionary::<Int32Type>().values().as_string::<i32>();
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|code| texts.value(*code));
    let mut ranks = vec![0; texts.len()];
    let mut rank = 0;
    for (position, code) in order.iter().enumerate() {
        if position == 0 || texts.value(order[position - 1]) != texts.value(*code) {
            rank += 1;
        }
        ranks[*code] = rank;
    }
    ranks
}

pub(crate) fn end_symbols(spec: &TableSpec, rows: &RecordBatch) -> Option<(String, String)> {
    let column = rows.column(spec.symbol_position()?).as_dictionary::<Int32Type>();
    let texts = column.values().as_string::<i32>();
    let at =
        |row: usize| column.keys().is_valid(row).then(|| texts.value(column.keys().value(row) as usize).to_owned());
    Some((at(0)?, at(rows.num_rows().checked_sub(1)?)?))
}

fn write_arrow(file: &mut dyn StorageFile, checksums: &mut BlockChecksums, rows: &RecordBatch) -> Result<()> {
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?;
    let sink = std::io::BufWriter::with_capacity(1 << 20, CountingWrite { file, observer: checksums });
    let mut writer = FileWriter::try_new_with_options(sink, rows.schema_ref(), options)?;
    writer.write(rows)?;
    writer.finish()?;
    std::io::Write::flush(writer.get_mut()).map_err(|e| Error::Arrow(e.into()))
}

/// Gives back the storage error that Arrow or Parquet wrapped on its way.
fn unpack(error: Error, path: &Path) -> Error {
    use arrow::error::ArrowError;
    match error {
        Error::Arrow(ArrowError::IoError(_, io)) => out_of_io("write", path)(io),
        Error::Arrow(ArrowError::ExternalError(source)) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => out_of_io("write", path)(std::io::Error::other(other)),
        },
        Error::Parquet(::parquet::errors::ParquetError::External(source)) => {
            match source.downcast::<std::io::Error>() {
                Ok(io) => out_of_io("write", path)(*io),
                Err(other) => {
                    out_of_io("write", path)(into_io(Error::Parquet(::parquet::errors::ParquetError::External(other))))
                }
            }
        }
        other => other,
    }
}
