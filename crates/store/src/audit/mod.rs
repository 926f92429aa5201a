//! The audit log of a server: one record for each request and change of a user, appended and never changed.
//!
//! - Records are lines of JSON in files of bounded size. Each contains the digest of the previous record and its own,
//!   and each file continues the chain of the previous one: [`verify`] detects a record or file that was changed,
//!   omitted, moved or removed.
//! - `head.json` names the last record, at most a second old, which reveals a truncated end.
//! - With an [`AuditKey`] digests are keyed, so only its holders can compute them. Without a key, whoever may write
//!   all files can rebuild the whole chain.
//! - One thread writes records, many at once ([`AuditLog`]). A caller that waits is told once its record is synced.
//! - A start truncates what a crash has left of a record, and records this first.
//! - A failed write doesn't break the chain: it is truncated to the previous record, and repeated with the next
//!   records. A failed sync ends the log until the next start.
//!
//! Bytes: docs/format/audit.md. Reasons: docs/adr/0069-the-audit-log-is-a-chain-of-lines.md.

mod append;
mod chain;
mod event;
mod files;
mod head;
mod queue;
mod reader;
mod recovery;
mod seal;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

pub use self::event::{AuditEvent, STATEMENT_BYTES_MAX};
pub use self::reader::{AuditFilter, read};
pub use self::seal::{AuditKey, KEY_BYTES_MIN};
pub use self::verify::{AuditProblem, ExpectedRecord, PROBLEMS_MAX, Verification, verify};
pub use self::writer::{AuditLog, RecordCallback};

use crate::folder_layout::SETTINGS_FILE;

/// Folder of the log within that of its database. No table has a name that begins with a dot.
pub const FOLDER: &str = ".audit";

/// Bytes from which on a file is followed by another one.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Days after which files are removed.
pub const KEEP_DAYS: u32 = 365;

/// The time, in nanoseconds since the epoch.
pub type AuditClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Settings of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Bytes from which on a file is followed by another one; a file is of one day at most. Default [`FILE_BYTES_MAX`].
    pub file_bytes_max: u64,
    /// Days after which files are removed; 0: never. Default [`KEEP_DAYS`].
    pub keep_days: u32,
}

impl Default for AuditSettings {
    fn default() -> AuditSettings {
        AuditSettings { file_bytes_max: FILE_BYTES_MAX, keep_days: KEEP_DAYS }
    }
}

/// The status of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditStatus {
    /// Records written since the start.
    pub records: u64,
    /// Records that couldn't be written.
    pub lost: u64,
    /// Number of the last record.
    pub last: u64,
    /// Bytes of the file that is written.
    pub file_bytes: u64,
    /// Bytes of events that wait to be written.
    pub waiting_bytes: u64,
    /// Why the last records couldn't be written, if they couldn't.
    pub error: Option<String>,
    /// Whether nothing is written until the next start.
    pub is_failed: bool,
}

/// Why a record wasn't written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFailure {
    /// The queue is full.
    Busy,
    /// The file can't be written.
    Failed {
        /// Why.
        reason: Arc<str>,
    },
    /// The log was closed.
    Closed,
}

impl std::fmt::Display for RecordFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordFailure::Busy => f.write_str("too many records wait to be written"),
            RecordFailure::Failed { reason } => f.write_str(reason),
            RecordFailure::Closed => f.write_str("the server is stopping"),
        }
    }
}

/// The folder of a database's log, or the folder itself where settings put the log elsewhere and it is named.
#[must_use]
pub fn folder_of(path: &Path) -> PathBuf {
    let within = path.join(FOLDER);
    if within.is_dir() || path.join(SETTINGS_FILE).is_file() { within } else { path.to_path_buf() }
}

/// A time as records have it.
pub(crate) fn time_text(time: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(time).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
}

/// The time of a text that [`time_text`] has made.
pub(crate) fn time_of(text: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()
}
