//! Records as lines, and the fields that chain them.

use serde::{Deserialize, Serialize};

use super::event::AuditEvent;
use super::seal::{Seal, SealedLine};
use super::time_text;

/// Version of files that this release writes and reads.
pub(super) const VERSION: u32 = 1;

/// The first record of a chain has this in place of the digest of its predecessor.
pub(super) const NONE_BEFORE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The kind of the record that each file begins with.
pub(super) const FILE: &str = "file";

/// The kind of the record that says what a start has found.
pub(super) const RECOVERED: &str = "recovered";

/// The kind of the record that says which files were removed because of their age.
pub(super) const REMOVED: &str = "removed";

/// The first record of a file, which describes the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileOpening {
    pub(super) version: u32,
    /// Random digits, the same in all files of a chain.
    pub(super) chain: String,
    /// Whether the chain begins with it.
    pub(super) is_first: bool,
    /// The id of the key that its digests are made with; `None` without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// Says that files up to a record were removed because of their age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemovalRecord {
    pub(super) file: String,
    /// Number of the last record that was removed.
    pub(super) through: u64,
    /// Its digest.
    pub(super) digest: String,
}

/// Bytes behind the last whole record that a crash left, and that were cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TornEnd {
    pub(super) bytes: u64,
    /// BLAKE3 of them.
    pub(super) blake3: String,
}

/// The position of a chain: its last record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChainPosition {
    /// Number of the last record; 0 before the first.
    pub(super) n: u64,
    /// Its digest.
    pub(super) digest: String,
}

impl ChainPosition {
    pub(super) fn first() -> ChainPosition {
        ChainPosition { n: 0, digest: NONE_BEFORE.to_owned() }
    }
}

/// The common fields of records about the log itself.
#[derive(Debug, Default, Serialize)]
pub(super) struct LogRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<FileOpening>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) removed: Option<RemovalRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) torn: Option<TornEnd>,
}

#[derive(Serialize)]
struct ChainRecord<'a> {
    n: u64,
    time: String,
    #[serde(flatten)]
    event: &'a AuditEvent,
    #[serde(flatten)]
    of_log: &'a LogRecord,
    before: &'a str,
}

/// Adds the line of the next record, which becomes the last one of the chain.
pub(super) fn push(
    lines: &mut Vec<u8>,
    position: &mut ChainPosition,
    event: &AuditEvent,
    of_log: &LogRecord,
    seal: Seal<'_>,
) {
    let n = position.n.saturating_add(1);
    let record = ChainRecord { n, time: time_text(event.time), event, of_log, before: &position.digest };
    // Texts, numbers and names of members alone: nothing of it can't be written.
    let object = serde_json::to_vec(&record).unwrap_or_else(|_| format!("{{\"n\":{n}}}").into_bytes());
    let (line, digest) = seal.seal(object);
    lines.extend_from_slice(&line);
    lines.push(b'\n');
    *position = ChainPosition { n, digest };
}

/// The fields of a record that link it to its predecessor.
#[derive(Debug, Deserialize)]
pub(super) struct ChainLink {
    pub(super) n: u64,
    pub(super) time: String,
    pub(super) kind: String,
    pub(super) before: String,
    #[serde(default)]
    pub(super) file: Option<FileOpening>,
    #[serde(default)]
    pub(super) removed: Option<RemovalRecord>,
    #[serde(default)]
    pub(super) about: String,
}

/// A line of a file.
#[derive(Debug)]
pub(super) struct LinkedLine {
    pub(super) link: ChainLink,
    pub(super) sealed: SealedLine,
}

impl LinkedLine {
    /// `None` if the line is no record.
    pub(super) fn of(line: &[u8]) -> Option<LinkedLine> {
        let sealed = SealedLine::of(line)?;
        let link: ChainLink = serde_json::from_slice(&sealed.object).ok()?;
        Some(LinkedLine { link, sealed })
    }

    pub(super) fn position(&self) -> ChainPosition {
        ChainPosition { n: self.link.n, digest: self.sealed.digest.clone() }
    }

    /// Whether it comes next.
    pub(super) fn follows(&self, position: &ChainPosition) -> bool {
        self.link.n == position.n.saturating_add(1) && self.link.before == position.digest
    }
}
