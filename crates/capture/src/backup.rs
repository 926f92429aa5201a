//! Backups while rows arrive: journal and tables in one consistent cut.
//!
//! - The journal is copied first, and the tables' commits are taken afterwards, so rows that move to files in between
//!   are in at least one of both copies. A row in both is excluded from the journal by the manifest, as at any start.
//! - A commit may contain part of a batch that arrived after the journal was copied, because late rows stay in
//!   memory. Then the rest of the journal is copied and the commits are taken again, until the journal has all
//!   batches that they name. Both are quick. Segments are copied last, while a lease prevents their removal.
//! - Of the newest journal file only whole frames are copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use splay_store::storage::Storage;
use splay_store::{BackupReport, BackupWriter, Database, TableCommit, WriteDownPosition};

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::journal::{self, CopiedBytes};

/// How often the copy is tried again while rows are written down all the time.
const TRIES: usize = 1_000;

/// Copies a database into a folder of backups: all rows that were acknowledged before it began, of later ones whole batches. A process may
/// capture meanwhile.
///
/// # Errors
/// [`Error::Damaged`] for a journal that isn't sound; those of the store. The backup before stays then.
pub fn back_up(database: &Database, at: Arc<dyn Storage>) -> Result<BackupReport> {
    back_up_with(database, at, false)
}

/// Like [`back_up`]. With `links`, segments and indexes are hard-linked instead of copied, where both are on one file system.
///
/// # Errors
/// As [`back_up`].
pub fn back_up_with(database: &Database, at: Arc<dyn Storage>, links: bool) -> Result<BackupReport> {
    let source = database.raw_storage();
    let mut backup = BackupWriter::begin(at, SystemClock::default().now()).map_err(as_is)?.linking(links);
    let mut copied = Journal::default();
    let mut before = Vec::new();
    for _ in 0..TRIES {
        copied.copy(source.as_ref(), &mut backup)?;
        let commits = database.commits().map_err(as_is)?;
        let captured: Vec<WriteDownPosition> = commits.iter().map(|table| table.captured).collect();
        let is_covered = |table: &TableCommit| table.captured.sequence <= copied.last;
        if commits.iter().all(is_covered) || captured == before {
            backup.put_tables(database, &commits).map_err(as_is)?;
            return backup.finish().map_err(as_is);
        }
        before = captured;
    }
    Err(too_fast(source.as_ref()))
}

/// A failure of the backup has nothing to do with rows that may be sent again.
fn as_is(error: splay_store::Error) -> Error {
    Error::Store(Arc::new(error))
}

fn too_fast(source: &dyn Storage) -> Error {
    let reason = "it changes faster than it is copied; try again when fewer rows come in";
    let reason = std::io::Error::new(std::io::ErrorKind::WouldBlock, reason);
    as_is(splay_store::Error::Io { act: "back up", path: source.display_path(journal::FOLDER), source: reason })
}

/// A copy of a journal.
#[derive(Debug, Default)]
struct Journal {
    /// Files, and whether nothing more will come.
    files: BTreeMap<u64, bool>,
    /// Others, by name.
    others: BTreeMap<String, Vec<u8>>,
    /// Number of the last batch.
    last: u64,
}

impl Journal {
    /// Copies what has come since the last time; what went is in the tables' files, whose commits are taken later.
    fn copy(&mut self, source: &dyn Storage, backup: &mut BackupWriter) -> Result<()> {
        for _ in 0..TRIES {
            let others = journal::others(source)?;
            self.copy_files(source, backup)?;
            // The list of files is the same before and after the copy, so the copy is consistent.
            if journal::others(source)? == others {
                return self.put_others(others, backup);
            }
        }
        Err(too_fast(source))
    }

    fn copy_files(&mut self, source: &dyn Storage, backup: &mut BackupWriter) -> Result<()> {
        let numbers = journal::numbers(source)?;
        let removed_files: Vec<u64> = self.files.keys().copied().filter(|number| !numbers.contains(number)).collect();
        for number in removed_files {
            self.files.remove(&number);
            backup.take_out(&journal::path(number)).map_err(as_is)?;
        }
        for (place, number) in numbers.iter().enumerate() {
            let is_last = place + 1 == numbers.len();
            if self.files.get(number) == Some(&true) {
                continue;
            }
            let Some(CopiedBytes { bytes, last }) = journal::copy(source, *number, is_last)? else { continue };
            backup.put(&journal::path(*number), &bytes).map_err(as_is)?;
            self.files.insert(*number, !is_last);
            self.last = self.last.max(last);
        }
        Ok(())
    }

    fn put_others(&mut self, others: BTreeMap<String, Vec<u8>>, backup: &mut BackupWriter) -> Result<()> {
        for name in self.others.keys().filter(|name| !others.contains_key(*name)) {
            backup.take_out(name).map_err(as_is)?;
        }
        for (name, bytes) in &others {
            backup.put(name, bytes).map_err(as_is)?;
        }
        self.others = others;
        Ok(())
    }
}
