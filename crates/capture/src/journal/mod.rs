//! The journal: every batch of rows, in the order in which they were taken, before anything else is done with them.
//!
//! - Files `.journal/00000001.jnl`, ... follow each other. All but the last are synced whole before the next one begins.
//! - What stands behind the last whole frame of the last file was never acknowledged as `disk`; it is cut off, kept beside as
//!   `.torn`, and reported. A broken frame in an earlier file is damage.
//! - A file goes when its rows are in the tables' files and it is not kept for subscribers that come back.
//!
//! Bytes: docs/format/journal.md. Reasons: docs/adr/0014-one-journal-and-live-segments.md.

mod cursor;
pub(crate) mod format;
mod look;
mod reader;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod walk;
mod writer;

use std::collections::HashMap;

pub(crate) use cursor::Cursor;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use cursor::read;
pub(crate) use format::{FRAME_BYTES_MAX, PRODUCER_BYTES_MAX};
pub(crate) use look::{is_locked, look};
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use reader::Found;
pub(crate) use reader::{Batch, replay};
pub(crate) use writer::{Entry, JournalWriter};

/// The last batch of each producer: its number, and when it came in, in nanoseconds since the epoch.
pub(crate) type Producers = HashMap<String, (u64, i64)>;

/// Folder of the journal within the database's.
pub(crate) const FOLDER: &str = ".journal";

/// Held by the process that captures.
pub(crate) const LOCK: &str = ".journal/lock";

/// One file of the journal.
#[derive(Debug, Clone)]
pub(crate) struct JournalFile {
    pub(crate) number: u64,
    /// Sequence number of the first batch that it may hold.
    pub(crate) first: u64,
    /// Length of its whole frames and its header.
    pub(crate) bytes: u64,
    /// Layouts that it has more than tables.
    pub(crate) layouts: u32,
    /// For each table the last sequence number and the latest time of its rows.
    tables: HashMap<String, (u64, i64)>,
}

impl JournalFile {
    fn new(number: u64, first: u64) -> JournalFile {
        JournalFile { number, first, bytes: 0, layouts: 0, tables: HashMap::new() }
    }

    fn note(&mut self, table: &str, sequence: u64, latest: i64) {
        match self.tables.get_mut(table) {
            Some(last) => *last = (sequence.max(last.0), latest.max(last.1)),
            None => {
                self.tables.insert(table.to_owned(), (sequence, latest));
            }
        }
    }

    /// Whether all its rows are in the tables' files.
    fn is_stored(&self, is_stored: &impl Fn(&str, u64, i64) -> bool) -> bool {
        self.tables.iter().all(|(table, (sequence, latest))| is_stored(table, *sequence, *latest))
    }
}

fn name(number: u64) -> String {
    format!("{number:08}.jnl")
}

fn path(number: u64) -> String {
    format!("{FOLDER}/{}", name(number))
}
