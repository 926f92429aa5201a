//! What capture has done and holds, for people and for metrics.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// State of capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// Tables, by name.
    pub tables: Vec<TableStatus>,
    /// Number of the last batch.
    pub sequence: u64,
    /// Batches taken.
    pub batches: u64,
    /// Rows taken.
    pub rows: u64,
    /// Repeats, acknowledged and not taken again.
    pub duplicates: u64,
    /// Rows in quarantine.
    pub quarantined: u64,
    /// Batches and messages refused.
    pub rejected: u64,
    /// Bytes of the journal's files.
    pub journal_bytes: u64,
    /// Groups written to the journal, and syncs of it.
    pub groups: u64,
    /// See `groups`.
    pub syncs: u64,
    /// Bytes that wait for the journal.
    pub queue_bytes: u64,
    /// Write-downs done, and those that failed.
    pub write_downs: u64,
    /// See `write_downs`.
    pub write_downs_failed: u64,
    /// Subscribers.
    pub subscribers: u64,
    /// Why capture takes nothing more, if it doesn't.
    pub failed: Option<String>,
}

/// State of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TableStatus {
    /// Name.
    pub table: String,
    /// Rows in memory.
    pub live_rows: u64,
    /// Their bytes, about.
    pub live_bytes: u64,
    /// Number of the last batch of which rows were written down.
    pub written_sequence: u64,
}

/// What was found at a start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Files of the journal.
    pub files: u64,
    /// Batches that went back to memory.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes cut off the journal's end, and where they are kept.
    pub torn: Option<(u64, String)>,
}

impl std::fmt::Display for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "recovered {} rows in {} batches from {} journal files", self.rows, self.batches, self.files)?;
        match &self.torn {
            Some((bytes, path)) => write!(f, "; cut {bytes} bytes of a torn end off, kept in {path}"),
            None => Ok(()),
        }
    }
}

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// When, in nanoseconds since the epoch.
    pub at: i64,
    /// By which way it came.
    pub way: &'static str,
    /// Why it was refused.
    pub reason: String,
    /// Its beginning.
    pub sample: String,
}

/// Counts things. Relaxed throughout: counters order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: Counter,
    pub(crate) rows: Counter,
    pub(crate) duplicates: Counter,
    pub(crate) quarantined: Counter,
    pub(crate) rejected: Counter,
    pub(crate) groups: Counter,
    pub(crate) syncs: Counter,
    pub(crate) write_downs: Counter,
    pub(crate) write_downs_failed: Counter,
    pub(crate) sequence: Counter,
    pub(crate) journal_bytes: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
