//! What can go wrong while a tick plan runs.

/// Result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a tick plan. Whoever runs it may run the statement another way, but for [`Error::Store`] and
/// [`Error::Stopped`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes can't be read.
    #[error(transparent)]
    Store(#[from] splay_store::Error),

    /// A kernel refused its input: a division of integers by zero, a text that is no number.
    #[error("{0}")]
    Arrow(#[from] arrow::error::ArrowError),

    /// A function refused its arguments.
    #[error("{0}")]
    Function(String),

    /// The plan asks for something that its kernels don't do with values of this type.
    #[error("the engine has no kernel for {0}")]
    Unsupported(String),

    /// A key is there twice in a side of a join, whose plan is for keys that are there once.
    #[error("the engine has no kernel for a join to a table in which a key occurs twice")]
    RepeatedKey,

    /// The statement was cancelled.
    #[error("stopped")]
    Stopped,

    /// The plan would hold more bytes than its limit.
    #[error("the statement needs {needed} bytes of memory at a time, and its limit is {limit}")]
    Memory {
        /// Bytes.
        needed: usize,
        /// Bytes.
        limit: usize,
    },
}
