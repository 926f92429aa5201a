//! Errors in starting and running a server. Errors of a request go to the client as a
//! [`Problem`](crate::problem::Problem).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Result of starting or running a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure to start or run a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value it can't have.
    #[error("{setting}: {reason}")]
    Setting {
        /// Its name.
        setting: String,
        /// The fault.
        reason: String,
    },

    /// An address that other machines reach, without what protects it. Name an address of this machine, or set up what is
    /// missing.
    #[error("{listener} would listen on {address}, which other machines reach: {missing}")]
    Open {
        /// The listener: "http", "flight", "postgres" or "line".
        listener: &'static str,
        /// The address.
        address: SocketAddr,
        /// The missing part.
        missing: &'static str,
    },

    /// The address can't be had; usually another process has it.
    #[error("{listener} can't listen on {address}: {source}")]
    Bind {
        /// The listener: "http", "flight", "postgres" or "line".
        listener: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },

    /// A file can't be read.
    #[error("{act} {}: {source}", path.display())]
    Io {
        /// The act that failed, as a verb.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// Certificate or key can't be used.
    #[error("{}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },

    /// A server doesn't answer. It is unknown whether it has carried out the request.
    #[error("{url} doesn't answer: {reason}")]
    Unreachable {
        /// Its address.
        url: String,
        /// The reason.
        reason: String,
    },

    /// A server answered, but its certificate isn't trusted, or it speaks another protocol. It did nothing.
    #[error("{url} answered, but {reason}")]
    Protocol {
        /// Its address.
        url: String,
        /// The reason.
        reason: String,
    },

    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {reason}")]
    Random {
        /// The system's reason.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { act, path, source }
    }
}
