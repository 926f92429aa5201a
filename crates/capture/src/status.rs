//! The state of capture, for people and for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use splay_store::Counted;

use crate::disk::DiskStatus;
use crate::journal::JournalLoss;
use crate::measure::{Latencies, Quality};
use crate::receipt::ClockStatus;

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
    /// Rows left out as duplicates of others.
    pub duplicate_rows: u64,
    /// Rows of tables whose duplicates are left out that weren't compared, as they were older than what rows are compared with.
    pub uncompared_rows: u64,
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
    /// The queues of the subscribers.
    pub subscriber_lags: Vec<SubscriberStatus>,
    /// Producers that are remembered.
    pub producers: u64,
    /// The producers that sent last, latest first, at most 100.
    pub producers_latest: Vec<ProducerStatus>,
    /// Whether rows are refused for lack of room, or found none in the journal when they last came.
    pub full: bool,
    /// Losses of the journal that the operator hasn't accepted.
    pub journal_losses: Vec<JournalLoss>,
    /// Room on the disk.
    pub disk: DiskStatus,
    /// Steps of the clock.
    pub clock: ClockStatus,
    /// Why capture takes nothing more, if it doesn't.
    pub failed: Option<String>,
}

impl Status {
    /// The state as a JSON object, with the names of the fields.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialising plain data to memory can't fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// State of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableStatus {
    /// Name.
    pub table: String,
    /// Rows in memory.
    pub live_rows: u64,
    /// Their bytes, about.
    pub live_bytes: u64,
    /// Number of the last batch.
    pub last_sequence: u64,
    /// Number of the last batch of which rows were written down.
    pub written_sequence: u64,
    /// When the oldest of the rows in memory came in, in nanoseconds since the epoch.
    pub live_since: Option<i64>,
    /// When rows were last written down since the start, in nanoseconds since the epoch.
    pub written_at: Option<i64>,
    /// When dates were last rolled since the start, in nanoseconds since the epoch.
    pub rolled_at: Option<i64>,
    /// The latencies of its rows.
    pub latencies: Latencies,
    /// The quality of its feed.
    pub quality: Quality,
    /// Its duplicates, if they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<DedupeStatus>,
}

/// Duplicates of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DedupeStatus {
    /// Rows left out.
    pub duplicate_rows: u64,
    /// Rows that weren't compared, as they were older than `from`.
    pub uncompared_rows: u64,
    /// Keys in memory.
    pub keys: u64,
    /// Rows from this time on are compared, in nanoseconds since the epoch.
    pub from: Option<i64>,
    /// Whether there are too many keys for the window, so that rows are compared from later on than it says.
    pub is_limited: bool,
}

/// A producer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProducerStatus {
    /// Its name.
    pub name: String,
    /// Number of the last of its batches that was taken.
    pub sequence: u64,
    /// When that came in, in nanoseconds since the epoch.
    pub at: i64,
}

/// The queue of a subscriber.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SubscriberStatus {
    /// The table, in lower case.
    pub table: String,
    /// Batches that it has not been given yet.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether there was no room for more, so that it will be given a snapshot, catch up, or be cut off, as it asked.
    pub is_lost: bool,
}

/// What a start has recovered, and what was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryStatus {
    /// Files of the journal.
    pub files: u64,
    /// Batches that were restored to memory.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes cut off the journal's end, and where they are kept.
    pub torn: Option<(u64, String)>,
    /// Rows in the journal of tables that are damaged, where they stay until a start finds these whole. Some may be in the files, too.
    pub rows_withheld: u64,
    /// Losses of the journal since the last start.
    pub losses: Vec<JournalLoss>,
}

impl std::fmt::Display for RecoveryStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, batches) = (Counted(self.rows, "row"), Counted(self.batches, "batch"));
        write!(f, "recovered {rows} in {batches} from {}", Counted(self.files, "journal file"))?;
        if let Some((bytes, path)) = &self.torn {
            write!(f, "; cut {bytes} bytes of a torn end off, kept in {path}")?;
        }
        if self.rows_withheld > 0 {
            write!(f, "; in the journal stay {} of damaged tables", Counted(self.rows_withheld, "row"))?;
        }
        self.losses.iter().try_for_each(|loss| write!(f, "\nthe journal has lost something: {loss}"))
    }
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
