//! Errors of a running tick plan.

/// Result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a tick plan. The caller may run the statement in another way, except after [`Error::Store`] and [`Error::Stopped`].
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

    /// The kernels don't support the plan's operation for values of this type.
    #[error("the engine has no kernel for {0}")]
    Unsupported(String),

    /// A side of a join has a key twice, but the plan is for unique keys.
    #[error("the plan assumes that each key of the join's right side is unique, and a key occurs twice")]
    RepeatedKey,

    /// The statement was cancelled.
    #[error("stopped")]
    Stopped,

    /// The plan needs more memory than its limit.
    #[error("the statement needs {needed} bytes of memory at a time, and its limit is {limit}")]
    Memory {
        /// Bytes that the plan needs.
        needed: usize,
        /// The limit in bytes.
        limit: usize,
    },
}
