//! Files of no table, as statements read them where they lie. Here is what statements need of them, so that the crate of statements doesn't depend
//! on the one that knows their formats.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;

/// What is wrong with a file, in words for the user.
pub type FileError = Box<dyn Error + Send + Sync>;

/// Opens files for statements.
pub trait OpenFiles: Debug + Send + Sync {
    /// The files of a path, or of a pattern of paths. `threads` parse text.
    ///
    /// # Errors
    /// For no such file, and for files that can't be read or have other columns than the first.
    fn open(&self, pattern: &str, threads: usize) -> Result<Arc<dyn FilesInPlace>, FileError>;
}

/// Files as one table.
pub trait FilesInPlace: Debug + Send + Sync {
    /// The columns.
    fn schema(&self) -> &SchemaRef;

    /// About how many rows all files have.
    fn rows_estimate(&self) -> u64;

    /// Row groups of all files; files, where there are none.
    fn groups(&self) -> usize;

    /// What the files say of a column, by row group; nothing where they say nothing.
    fn statistics(&self, column: &str) -> Option<GroupStatistics>;

    /// The row groups (or files) for which `is_wanted` holds, in at most `count` parts.
    fn parts(&self, count: usize, is_wanted: &dyn Fn(usize) -> bool) -> Vec<Vec<FileSlice>>;

    /// Reads a part: the columns at these places of the schema, in order. `sink` answers whether it wants more.
    ///
    /// # Errors
    /// What is wrong with the file, or with the place of a value in it.
    fn read(
        &self,
        part: &FileSlice,
        columns: &[usize],
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), FileError>;
}

/// A part of the files that is read for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSlice {
    /// The number of the file.
    pub file: usize,
    /// Its row groups to read; `None` if it has none.
    pub groups: Option<Vec<usize>>,
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
