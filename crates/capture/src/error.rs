//! Errors of capture, one variant for each case in which a caller would act differently.

use std::path::PathBuf;

/// Result of a capture operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a capture operation. Rows that were refused are in no file and no table.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room, on disk or in memory, or another writer holds the database. Nothing was lost: send the rows again later.
    #[error("no room for now: {reason}; send the rows again")]
    Full {
        /// What is full.
        reason: String,
    },

    /// Their sender sends more rows than it may. Nothing was taken: send them again later. Said by those who hand rows on to capture.
    #[error("{reason}")]
    TooFast {
        /// What it may, and when again.
        reason: String,
        /// When it may send again.
        after: std::time::Duration,
    },

    /// The rows don't fit the table, or may not be captured. Sending them again won't help.
    #[error("{}{reason}", of_table(table))]
    Rejected {
        /// The table; empty where no table is to blame.
        table: String,
        /// What doesn't fit.
        reason: String,
    },

    /// The batch names a previous batch that isn't its producer's last one. Nothing was stored: ask for the last number, and continue from there.
    #[error(
        "the last number of producer {producer:?} is {last}, but the rows name {previous} as the number before theirs"
    )]
    OutOfTurn {
        /// The name of the producer.
        producer: String,
        /// The number that the batch names as the one before it; 0 for none.
        previous: u64,
        /// The last number; 0 for none.
        last: u64,
    },

    /// There is no such table, and the request doesn't create one: the settings forbid it, or it has no rows.
    #[error("no table {table:?}; rows for it would create it, if create_tables allows that")]
    NoSuchTable {
        /// The name asked for.
        table: String,
    },

    /// The journal no longer has the updates after this sequence number. Ask for a snapshot.
    #[error("updates of {table:?} after number {after} are no longer kept; the oldest is {oldest}")]
    Gone {
        /// The table.
        table: String,
        /// The requested sequence number.
        after: u64,
        /// The first sequence number that exists.
        oldest: u64,
    },

    /// A subscriber was slower than its table, and asked to be disconnected then. It has received all updates up to this number; subscribe again after it.
    #[error(
        "the subscriber is too slow for the updates of {table:?}: all up to number {after} were sent; subscribe again after {after}"
    )]
    Slow {
        /// The table.
        table: String,
        /// Sequence number of the last batch that was given.
        after: u64,
    },

    /// Another process captures into this database.
    #[error("{} is locked: another process captures into this database", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// This database follows another one, and accepts rows from that one only.
    #[error("this database follows {leader} and accepts no rows from senders; splay promote makes it the leader")]
    Following {
        /// Its leader's address.
        leader: String,
    },

    /// Another copy of this database was promoted, and would never get rows that are accepted here. Send rows there;
    /// let this copy follow.
    #[error(
        "another copy of this database was promoted to epoch {epoch}, so this one accepts no more rows: send them to that copy, and let this one follow it"
    )]
    Fenced {
        /// The higher epoch.
        epoch: u64,
    },

    /// This database can't become the leader. Nothing has changed.
    #[error("this database can't be promoted: {reason}")]
    NotPromoted {
        /// The reason.
        reason: &'static str,
    },

    /// Too few followers are connected to acknowledge rows as `replica`. Nothing was taken: send the rows again later.
    #[error("rows can't be acknowledged as replica for now: {reason}; send the rows again")]
    Unreplicated {
        /// What is missing.
        reason: String,
    },

    /// The rows are in this database, but followers didn't say in time that they have them. Rows that have a producer's number may be sent again.
    #[error(
        "the rows are on the leader's disk, but followers didn't confirm them in time: if the leader is lost, the rows may be lost"
    )]
    Unconfirmed,

    /// This database has something that its leader doesn't have, and that following would lose.
    #[error(
        "this database can't follow: it has {what}, which {than} lacks; splay serve --follow URL --aside FOLDER first copies the whole database to FOLDER"
    )]
    Diverged {
        /// What it has.
        what: String,
        /// What lacks it.
        than: String,
    },

    /// A leader isn't this database's: it leads another one, or an earlier epoch of it.
    #[error("this database can't follow that leader: {reason}")]
    OtherLeader {
        /// The reason.
        reason: String,
    },

    /// A leader doesn't answer, or not as a leader. The follower tries again by itself.
    #[error("the leader can't be followed now: {reason}")]
    Leader {
        /// The reason.
        reason: String,
    },

    /// Capture has been closed.
    #[error("capture is closed")]
    Closed,

    /// The journal can't be written any more: a sync failed, and what is on disk is unknown. End the process; the next start
    /// recovers by itself.
    #[error("capture has failed and must be restarted: {reason}")]
    Failed {
        /// What failed.
        reason: String,
    },

    /// Bytes of the journal aren't what was written. The file is kept.
    #[error("{} is damaged at byte {offset}: expected {expected}, found {found}", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What a sound file has there.
        expected: String,
        /// What this file has.
        found: String,
    },

    /// The store refused an operation.
    #[error("{0}")]
    Store(std::sync::Arc<splay_store::Error>),
}

/// The table at the beginning of a message.
fn of_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!("table {table:?}: ") }
}

impl Error {
    /// Whether the same rows may be taken if they are sent again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Full { .. } | Error::TooFast { .. } | Error::Unreplicated { .. })
    }

    /// This error of the journal, which knows no table by itself, as one of a table.
    pub(crate) fn about(self, name: &str) -> Error {
        match self {
            Error::Gone { after, oldest, .. } => Error::Gone { table: name.to_owned(), after, oldest },
            other => other,
        }
    }

    pub(crate) fn rejected(table: &str, reason: impl Into<String>) -> Error {
        Error::Rejected { table: table.to_owned(), reason: reason.into() }
    }
}

impl From<splay_store::Error> for Error {
    fn from(error: splay_store::Error) -> Error {
        match error {
            splay_store::Error::Locked { .. } => Error::Full { reason: error.to_string() },
            splay_store::Error::Io { ref source, .. } if is_full(source) => Error::Full { reason: error.to_string() },
            other => Error::Store(std::sync::Arc::new(other)),
        }
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Error {
        Error::from(splay_store::Error::Arrow(error))
    }
}

/// Whether a file system has no room.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_names_a_table_without_a_name() {
        assert_eq!(Error::rejected("", "there are no rows").to_string(), "there are no rows");
        assert_eq!(Error::rejected("trade", "x").to_string(), "table \"trade\": x");
        let gone = Error::Gone { table: String::new(), after: 3, oldest: 9 }.about("trade");
        assert_eq!(gone.to_string(), "updates of \"trade\" after number 3 are no longer kept; the oldest is 9");
    }
}
