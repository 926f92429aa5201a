//! The journal: every batch of rows, in the order of acceptance, written before anything else happens to it.
//!
//! - Files `.journal/00000001.jnl`, ... follow each other. All but the last are synced completely before the next one
//!   begins, which names the previous one with its length and checksum. The catalog lists the files that must exist.
//! - Missing or changed bytes are reported and listed until the operator accepts the loss. Whole batches after damage
//!   count.
//! - Bytes after the last whole frame of the last file that weren't synced were never acknowledged as `disk`; they
//!   are truncated, saved as `.torn`, and reported.
//! - A file is removed when its rows are in the tables' files and it isn't retained for subscribers that reconnect.
//!
//! Bytes: docs/format/journal.md. Reasons: docs/adr/0014-live-rows-are-segments-over-the-files.md,
//! docs/adr/0023-the-journal-accounts-for-itself.md.

mod account;
mod catalog;
mod copy;
mod cursor;
pub(crate) mod format;
mod frame_cursor;
mod inspect;
mod lock;
mod loss;
mod position;
mod presence;
mod reader;
mod recover;
mod scan;
mod settle;
mod tail_reader;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod unstored_rows;
mod writer;

use std::collections::HashMap;

pub(crate) use catalog::{Catalog, CatalogContent, pack, replace, unpack};
pub(crate) use copy::{CopiedBytes, copy, each_batch, is_stored, others};
pub(crate) use cursor::JournalCursor;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use cursor::read;
pub(crate) use format::{FRAME_BYTES_MAX, JournalFrame, PRODUCER_BYTES_MAX, PreviousFile};
pub use inspect::{JournalFileReport, JournalReport, JournalTableReport};
pub(crate) use lock::{lock, take_lock};
pub use loss::{JournalLoss, LossKind, MissingNumbers};
pub use position::Position;
pub(crate) use position::SyncListener;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use reader::JournalContent;
pub(crate) use reader::{JournalBatch, numbers, numbers_in, replay};
pub use recover::RecoveredBatch;
pub(crate) use tail_reader::{JournalEntry, TailRead, TailReader, holds_a_frame};
pub(crate) use unstored_rows::{is_locked, look};
pub(crate) use writer::{JournalWriter, RowsToWrite};

use splay_store::{Database, TableSpec};

use crate::codec;

/// The last batch of each producer: its number, and when it came in, in nanoseconds since the epoch.
pub(crate) type Producers = HashMap<String, (u64, i64)>;

/// The producers that a file lists, without the entry with an empty name, which has the time at which rows last came in.
fn named(listed: Vec<(String, u64, i64)>) -> Producers {
    let named = listed.into_iter().filter(|(name, ..)| !name.is_empty());
    named.map(|(name, number, at)| (name, (number, at))).collect()
}

/// Folder of the journal within the database's.
pub(crate) const FOLDER: &str = ".journal";

/// The file that the capturing process locks.
pub(crate) const LOCK: &str = ".journal/lock";

/// A file in the journal's folder that occupies space for writes that must succeed on a full disk.
pub(crate) const RESERVE_FILE: &str = "reserve";

/// A file in the journal's folder with the identity and the epoch of the database, for its copies.
pub(crate) const REPLICA_FILE: &str = "replica";

/// No file has this number: others can follow each one.
pub(crate) const NUMBER_MAX: u64 = u64::MAX >> 1;

/// One file of the journal.
#[derive(Debug, Clone)]
pub(crate) struct JournalFile {
    pub(crate) number: u64,
    /// Sequence number of the first batch that it may hold.
    pub(crate) first: u64,
    /// Length of its whole frames and its header.
    pub(crate) bytes: u64,
    /// Number of its last batch; without one, the number before `first`.
    pub(crate) last: u64,
    /// CRC32C of these bytes.
    crc: u32,
    /// Bytes that a start passed over.
    damage: Vec<scan::DamagedBytes>,
    /// Whether batches are lost between the file before and this one.
    is_behind_loss: bool,
    /// What it has of each table.
    tables: HashMap<String, TableExtent>,
}

/// Rows of a table in a file.
#[derive(Debug, Clone, Copy, Default)]
struct TableExtent {
    /// The last sequence number.
    sequence: u64,
    /// The latest time.
    latest: i64,
    batches: u64,
    rows: u64,
}

impl JournalFile {
    fn new(number: u64, first: u64) -> JournalFile {
        let last = first.saturating_sub(1);
        let (damage, tables) = (Vec::new(), HashMap::new());
        JournalFile { number, first, bytes: 0, last, crc: 0, damage, is_behind_loss: false, tables }
    }

    /// Takes bytes that were written behind the others.
    fn grow(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
    }

    fn link(&self) -> format::PreviousFile {
        format::PreviousFile { number: self.number, bytes: self.bytes, sequence: self.last, crc: self.crc }
    }

    /// Notes a batch, whose rows are these bytes.
    fn note(&mut self, table: &str, sequence: u64, latest: i64, rows: &[u8]) {
        if !self.tables.contains_key(table) {
            self.tables.insert(table.to_owned(), TableExtent { latest: i64::MIN, ..TableExtent::default() });
        }
        let Some(of_table) = self.tables.get_mut(table) else { return };
        of_table.sequence = of_table.sequence.max(sequence);
        of_table.latest = of_table.latest.max(latest);
        of_table.batches += 1;
        of_table.rows += codec::rows(rows);
    }

    /// Whether all its rows are in the tables' files.
    fn is_stored(&self, is_stored: &impl Fn(&str, u64, i64) -> bool) -> bool {
        self.tables.iter().all(|(table, of_table)| is_stored(table, of_table.sequence, of_table.latest))
    }
}

/// Name of a file.
pub(crate) fn name(number: u64) -> String {
    format!("{number:08}.jnl")
}

pub(crate) fn path(number: u64) -> String {
    format!("{FOLDER}/{}", name(number))
}

/// The tables of a database that can be read.
pub(crate) fn tables(database: &Database) -> Vec<TableSpec> {
    let names = database.tables().unwrap_or_default();
    let stored = names.iter().filter_map(|name| database.table(name).and_then(|table| table.stored()).ok());
    stored.map(|stored| stored.spec().clone()).collect()
}
