//! What can go wrong while a file or stream is read.

use arrow::error::ArrowError;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A file or stream that can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(#[from] std::io::Error),

    /// A part that is missing or lies outside what holds it. The file may be cut short.
    #[error("{0}")]
    Damaged(&'static str),

    /// A message that unpacks to more than allowed, or than there is memory for.
    #[error("a message unpacks to {bytes} bytes, more than {}", limit.map_or_else(|| "there is memory for".to_owned(), |limit| limit.to_string()))]
    TooLarge {
        /// What it unpacks to, at least.
        bytes: usize,
        /// What is allowed, if there is a limit.
        limit: Option<usize>,
    },

    /// Arrow's reader refused the file.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}
