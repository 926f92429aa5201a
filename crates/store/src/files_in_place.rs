//! The interface by which statements read files that aren't in a table.
//!
//! It is here, so that `sql` and `engine` don't depend on `import`, which knows the formats of files and implements it.

use std::error::Error;
use std::fmt::Debug;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;

use crate::schema::TableSpec;

/// What is wrong with a file, in words for the user.
pub type FileError = Box<dyn Error + Send + Sync>;

/// What the values of files are read for.
#[derive(Debug, Clone, Copy)]
pub struct FileTarget<'a> {
    /// A table: columns of text files that it has are read as values of its types, those of files without names in its order.
    pub table: &'a TableSpec,
    /// Whether each text file with names must have all of its columns.
    pub is_listed: bool,
}

/// Opens files for statements.
pub trait OpenFiles: Debug + Send + Sync {
    /// The files of a path, or of a pattern of paths. `threads` parse text.
    ///
    /// # Errors
    /// For no such file, and for files that can't be read or have other columns than the first.
    fn open(
        &self,
        pattern: &str,
        threads: usize,
        target: Option<FileTarget<'_>>,
    ) -> Result<Arc<dyn FilesInPlace>, FileError>;
}

/// Files as one table.
pub trait FilesInPlace: Debug + Send + Sync {
    /// The columns.
    fn schema(&self) -> &SchemaRef;

    /// How many files there are.
    fn files(&self) -> usize;

    /// The present state of a file; `None` if it isn't known.
    fn state(&self, file: usize) -> Option<FileState>;

    /// About how many rows all files have.
    fn rows_estimate(&self) -> u64;

    /// Row groups of all files, or batches of Arrow files; files, where there are neither.
    fn groups(&self) -> usize;

    /// What the files say of a column, by row group; nothing where they say nothing.
    fn statistics(&self, column: &str) -> Option<GroupStatistics>;

    /// The row groups (or files) for which `is_selected` holds, in at most `count` parts.
    fn parts(&self, count: usize, is_selected: &dyn Fn(usize) -> bool) -> Vec<Vec<FileSlice>>;

    /// Reads a part: the columns at these places of the schema, in order, in batches of at most so many rows. Batches with texts or lists may have
    /// fewer. `sink` answers whether it wants more.
    ///
    /// # Errors
    /// What is wrong with the file, or with the place of a value in it.
    fn read(
        &self,
        part: &FileSlice,
        columns: &[usize],
        batch_rows: usize,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), FileError>;

    /// The batches of a column in a part, if they were cached when it was read before.
    fn cached_column(&self, _part: &FileSlice, _column: usize) -> Option<Vec<ArrayRef>> {
        None
    }

    /// Caches the batches of a column that was read whole, for [`FilesInPlace::cached_column`].
    fn cache_column(&self, _part: &FileSlice, _column: usize, _batches: &[ArrayRef]) {}
}

/// What tells whether a file was written since: a copy of another file over it that keeps the time of the last write changes the status time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileState {
    volume: u64,
    number: u64,
    length: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// A file that was written so lately may be written again without another time: clocks of file systems tick some hundred times a second.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

impl FileState {
    /// The state by a file's metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> FileState {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        FileState {
            volume: metadata.dev(),
            number: metadata.ino(),
            length: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether a file that is written from now on gets another state.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = self.modified_ns.max(self.changed_ns);
        now.checked_sub(SETTLED_AFTER).is_some_and(|before| i128::try_from(before.as_nanos()).is_ok_and(|ns| last < ns))
    }
}

/// A part of the files that is read for itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileSlice {
    /// The number of the file.
    pub file: usize,
    /// Its row groups, or batches, to read; `None` if it has neither.
    pub groups: Option<Vec<usize>>,
}

impl FileSlice {
    /// Its row groups, each by itself.
    #[must_use]
    pub fn one_by_one(self) -> Vec<FileSlice> {
        let FileSlice { file, groups } = self;
        match groups {
            Some(groups) => groups.into_iter().map(|group| FileSlice { file, groups: Some(vec![group]) }).collect(),
            None => vec![FileSlice { file, groups: None }],
        }
    }
}

/// Least and greatest values and counts of nulls of a column, by row group.
#[derive(Debug, Clone)]
pub struct GroupStatistics {
    /// Least values; null where the file says none.
    pub min: ArrayRef,
    /// Greatest values; null where the file says none.
    pub max: ArrayRef,
    /// Counts of nulls; null where the file says none.
    pub nulls: UInt64Array,
}
