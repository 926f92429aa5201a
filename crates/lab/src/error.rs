//! What can go wrong in this crate.

use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be used. Check the path, its permissions and the free space, then start again: files
    /// written so far are incomplete.
    #[error("cannot {act} {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as an infinitive: `create the folder`, `write`.
        act: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A setting is outside its range. Correct it; nothing was written.
    #[error("setting {setting} is {value}, expected {expected}")]
    Setting {
        /// The name of the field.
        setting: &'static str,
        /// The value it had.
        value: String,
        /// The values it may have.
        expected: &'static str,
    },
    /// A Parquet file could not be encoded or written. Check the free space, then start again.
    #[error("cannot write {} as parquet: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The encoder's answer.
        source: ParquetError,
    },
    /// A scheme can't hold a column, because of its type or its values. The other schemes can; leave this one out.
    #[error("{scheme} can't hold column {column:?} of type {data_type}: {reason}")]
    Unsupported {
        /// The scheme.
        scheme: String,
        /// The column.
        column: String,
        /// Its Arrow type.
        data_type: String,
        /// What prevents it.
        reason: String,
    },
    /// Compressed bytes aren't what was written. Write them again.
    #[error("damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where the damaged part begins.
        offset: u64,
        /// What was found.
        reason: String,
    },
    /// A scheme gave back other values than it was given: a mistake of its codec. Report it, and leave the scheme out.
    #[error("{scheme} gives back other values of column {column:?} from row {row} on")]
    Mismatch {
        /// The scheme.
        scheme: String,
        /// The column.
        column: String,
        /// The first row that differs.
        row: usize,
    },
    /// A codec failed to compress. Leave the scheme out.
    #[error("{scheme} can't compress: {reason}")]
    Codec {
        /// The codec.
        scheme: String,
        /// The codec's answer.
        reason: String,
    },
    /// A file of results can't be used: it is none, or it is of other data. Name another file.
    #[error("{} can't be used as results: {reason}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The statement that is measured failed. Correct it.
    #[error("the statement failed: {reason}")]
    Statement {
        /// The runner's answer.
        reason: String,
    },
    /// Arrow refused rows or columns. Check what was passed in.
    #[error("cannot use the rows: {0}")]
    Arrow(#[from] ArrowError),
    /// The caller stopped the work. Results so far are kept.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Names the path and the act of an I/O error, for `map_err`.
    pub(crate) fn io(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_path_buf(), act, source }
    }

    /// Names the path of a Parquet error, for `map_err`.
    pub(crate) fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> Self {
        move |source| Self::Parquet { path: path.to_path_buf(), source }
    }

    /// Says where compressed bytes are damaged.
    pub(crate) fn damaged(offset: u64, reason: impl ToString) -> Self {
        Self::Damaged { offset, reason: reason.to_string() }
    }

    /// Says that a codec failed, for `map_err`.
    pub(crate) fn codec<E: ToString>(scheme: impl ToString) -> impl FnOnce(E) -> Self {
        move |source| Self::Codec { scheme: scheme.to_string(), reason: source.to_string() }
    }
}
