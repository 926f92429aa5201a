//! Errors of servers and of their client.

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of servers and of their client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting can't be used. Change it.
    #[error("{reason}")]
    Settings {
        /// Why.
        reason: String,
    },

    /// A statement failed. The message is the server's.
    #[error("{reason}")]
    Statement {
        /// Why.
        reason: String,
    },

    /// A server can't be reached, or broke off.
    #[error("{server}: {reason}")]
    Server {
        /// Its URL.
        server: String,
        /// Why.
        reason: String,
    },

    /// The database can't be opened.
    #[error(transparent)]
    Database(#[from] splay_sql::Error),

    /// The system refused something.
    #[error("{act}: {source}")]
    Io {
        /// The operation.
        act: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn settings(reason: impl Into<String>) -> Error {
        Error::Settings { reason: reason.into() }
    }
}
