//! Sorted runs on disk, for loads that are larger than memory.
//!
//! A run is a sequence of chunks, each an Arrow IPC stream of its own, whose offsets are in memory. Runs are in the
//! folder `.spill`, which every writer empties before it starts; nothing in it needs to survive a crash.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use crate::error::{Error, Result};
use crate::folder_layout::SPILL_FOLDER;
use crate::storage::{Storage, StorageFile};

/// Bytes of rows in a chunk: a merge holds one chunk of each run.
const CHUNK_BYTES: usize = 4 << 20;

/// A run being written.
#[derive(Debug)]
pub(crate) struct RunWriter {
    path: String,
    file: Box<dyn StorageFile>,
    chunks: Vec<(u64, usize)>,
    offset: u64,
}

/// A written run.
#[derive(Debug, Clone)]
pub(crate) struct SpilledRun {
    path: String,
    chunks: Vec<(u64, usize)>,
}

impl RunWriter {
    pub(crate) fn create(storage: &dyn Storage, number: usize) -> Result<RunWriter> {
        storage.create_dir(SPILL_FOLDER)?;
        let path = format!("{SPILL_FOLDER}/{number:06}.run");
        Ok(RunWriter { file: storage.create(&path)?, path, chunks: Vec::new(), offset: 0 })
    }

    /// How many rows of this width make a chunk.
    pub(crate) fn chunk_rows(row_bytes: usize) -> usize {
        (CHUNK_BYTES / row_bytes.max(1)).clamp(64, 1 << 16)
    }

    pub(crate) fn write(&mut self, chunk: &RecordBatch) -> Result<()> {
        let mut writer = StreamWriter::try_new(Vec::new(), chunk.schema_ref())?;
        writer.write(chunk)?;
        let bytes = writer.into_inner()?;
        self.file.write(&bytes)?;
        self.chunks.push((self.offset, bytes.len()));
        self.offset += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn finish(self) -> SpilledRun {
        SpilledRun { path: self.path, chunks: self.chunks }
    }
}

impl SpilledRun {
    /// Its chunks, read one at a time.
    pub(crate) fn read(self, storage: Arc<dyn Storage>) -> impl Iterator<Item = Result<RecordBatch>> {
        let path = self.path;
        self.chunks.into_iter().map(move |(offset, length)| {
            let bytes = storage.read_at(&path, offset, length)?;
            let mut batches = StreamReader::try_new(std::io::Cursor::new(bytes), None)?;
            let missing = || Error::corrupt(storage.display_path(&path), offset, "a chunk", "none");
            Ok(batches.next().ok_or_else(missing)??)
        })
    }

    pub(crate) fn remove(&self, storage: &dyn Storage) -> Result<()> {
        storage.remove(&self.path)
    }
}
