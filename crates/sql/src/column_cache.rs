//! A cache of columns of files that earlier statements decoded.
//!
//! - An entry belongs to a state of its file: device, inode, length, modification time (mtime) and change time (ctime).
//!   It is used only while the file has this state.
//! - Columns of a file that was modified within the last two seconds aren't cached, because a further write might leave
//!   its times unchanged.
//! - The least recently used columns are evicted first.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use lru::LruCache;
use splay_store::{FileError, FileSlice, FileState, FilesInPlace, GroupStatistics};

/// Most columns of parts.
const COLUMNS_MAX: NonZeroUsize = NonZeroUsize::new(1 << 16).unwrap();

/// A column of a part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// The state of the file; of all files that decided how its text is read.
    states: Vec<FileState>,
    /// Path or pattern of these, and the file's number among them; `None` for a file that says of itself how it is read.
    text: Option<(Arc<str>, usize)>,
    groups: Option<Vec<usize>>,
    column: String,
    data_type: DataType,
}

/// Decoded columns, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct ColumnCache {
    columns: Mutex<Columns>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Columns {
    by_key: LruCache<Key, Vec<ArrayRef>>,
    bytes: usize,
}

impl ColumnCache {
    pub fn new(bytes_max: usize) -> ColumnCache {
        let columns = Mutex::new(Columns { by_key: LruCache::new(COLUMNS_MAX), bytes: 0 });
        ColumnCache { columns, bytes_max }
    }

    fn get(&self, key: &Key) -> Option<Vec<ArrayRef>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner).by_key.get(key).cloned()
    }

    fn put(&self, key: Key, batches: &[ArrayRef]) {
        let bytes = bytes_of(batches);
        if bytes > self.bytes_max / 2 {
            return;
        }
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        columns.bytes += bytes;
        if let Some((_, replaced)) = columns.by_key.push(key, batches.to_vec()) {
            columns.bytes -= bytes_of(&replaced);
        }
        while columns.bytes > self.bytes_max
            && let Some((_, oldest)) = columns.by_key.pop_lru()
        {
            columns.bytes -= bytes_of(&oldest);
        }
    }
}

fn bytes_of(batches: &[ArrayRef]) -> usize {
    let bytes =
        |batch: &ArrayRef| batch.to_data().get_slice_memory_size().unwrap_or_else(|_| batch.get_array_memory_size());
    batches.iter().map(bytes).sum()
}

/// Files whose decoded columns are cached.
#[derive(Debug)]
pub(crate) struct CachedFiles {
    files: Arc<dyn FilesInPlace>,
    path: Arc<str>,
    cache: Arc<ColumnCache>,
    /// The state of each file when it was opened; `None` if it may be written again without another one.
    states: Vec<Option<FileState>>,
}

impl CachedFiles {
    /// Files that were just opened by a path or pattern.
    pub fn new(files: Arc<dyn FilesInPlace>, path: &str, cache: Arc<ColumnCache>) -> CachedFiles {
        let settled = |file| files.state(file).filter(FileState::is_settled);
        let states = (0..files.files()).map(settled).collect();
        CachedFiles { files, path: path.into(), cache, states }
    }

    fn key(&self, part: &FileSlice, column: usize) -> Option<Key> {
        let field = self.files.schema().fields().get(column)?;
        let (states, text) = match part.groups {
            Some(_) => (vec![(*self.states.get(part.file)?)?], None),
            None => (self.states.iter().copied().collect::<Option<_>>()?, Some((Arc::clone(&self.path), part.file))),
        };
        let (groups, column, data_type) = (part.groups.clone(), field.name().clone(), field.data_type().clone());
        Some(Key { states, text, groups, column, data_type })
    }
}

impl FilesInPlace for CachedFiles {
    fn schema(&self) -> &SchemaRef {
        self.files.schema()
    }

    fn files(&self) -> usize {
        self.files.files()
    }

    fn state(&self, file: usize) -> Option<FileState> {
        self.files.state(file)
    }

    fn rows_estimate(&self) -> u64 {
        self.files.rows_estimate()
    }

    fn groups(&self) -> usize {
        self.files.groups()
    }

    fn statistics(&self, column: &str) -> Option<GroupStatistics> {
        self.files.statistics(column)
    }

    fn parts(&self, count: usize, is_wanted: &dyn Fn(usize) -> bool) -> Vec<Vec<FileSlice>> {
        self.files.parts(count, is_wanted)
    }

    fn read(
        &self,
        part: &FileSlice,
        columns: &[usize],
        batch_rows: usize,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), FileError> {
        self.files.read(part, columns, batch_rows, sink)
    }

    fn cached_column(&self, part: &FileSlice, column: usize) -> Option<Vec<ArrayRef>> {
        self.cache.get(&self.key(part, column)?)
    }

    fn cache_column(&self, part: &FileSlice, column: usize, batches: &[ArrayRef]) {
        let Some(key) = self.key(part, column) else { return };
        // What was read between two looks at the same state is of that state.
        if self.files.state(part.file) == self.states[part.file] {
            self.cache.put(key, batches);
        }
    }
}
