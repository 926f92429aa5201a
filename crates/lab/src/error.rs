//! What can go wrong in this crate.

use std::io;
use std::path::{Path, PathBuf};

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
}
