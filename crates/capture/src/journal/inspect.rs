//! Reports what a journal contains and what it has lost, without changing a byte; and accepts losses on the
//! operator's behalf.

use serde::Serialize;
use splay_store::Database;
use splay_store::storage::{LockMode, Storage};

use super::catalog::Catalog;
use super::loss::JournalLoss;
use super::reader::{JournalContent, replay};
use super::{FOLDER, JournalFile, LOCK, is_locked, name, tables};
use crate::error::{Error, Result};

/// How often files that another process changes meanwhile are read again before missing ones are reported.
const LOOKS_MAX: usize = 3;

/// A journal as its files have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalReport {
    /// Whether a process captures: then the end may be one that it is writing.
    pub is_written: bool,
    /// Whether the catalog exists and is sound.
    pub has_catalog: bool,
    /// Files, oldest first.
    pub files: Vec<JournalFileReport>,
    /// Losses in the catalog that the operator hasn't accepted.
    pub losses: Vec<JournalLoss>,
    /// Losses that aren't in the catalog yet: the next start lists them.
    pub losses_found: Vec<JournalLoss>,
    /// Bytes behind the last whole frame of the newest file, which the next start cuts off.
    pub torn_bytes: u64,
    /// Files that starts have put aside, and their bytes.
    pub set_aside: Vec<(String, u64)>,
}

/// A file of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalFileReport {
    /// Its name in the journal's folder.
    pub file: String,
    /// Bytes that count.
    pub bytes: u64,
    /// Number of the first batch that it may hold.
    pub first_sequence: u64,
    /// Number of its last batch; `first_sequence` - 1 if it has none.
    pub last_sequence: u64,
    /// What it has of each table, by name.
    pub tables: Vec<JournalTableReport>,
}

/// Rows of a table in a file of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalTableReport {
    /// The table.
    pub table: String,
    /// Its batches.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
}

impl JournalReport {
    /// Inspects the journal of a database. Reads every byte and decodes every batch.
    ///
    /// # Errors
    /// Those of the store; [`Error::Damaged`] for files of a later release and for pages that can't be read.
    pub fn of(database: &Database) -> Result<JournalReport> {
        let storage = database.raw_storage();
        let is_written = is_locked(storage.as_ref())?;
        let mut outcome = look(database, storage.as_ref());
        for _ in 1..LOOKS_MAX {
            let is_doubtful = outcome.as_ref().is_ok_and(|content| !content.losses.is_empty())
                || matches!(&outcome, Err(Error::Store(error)) if error.is_not_found());
            if !is_written || !is_doubtful {
                break;
            }
            outcome = look(database, storage.as_ref());
        }
        let content = outcome?;
        let mut set_aside = Vec::new();
        for entry in storage.list(FOLDER)? {
            if entry.name.ends_with(".torn") || entry.name.ends_with(".damaged") {
                let length = storage.identity(&format!("{FOLDER}/{}", entry.name))?.length;
                set_aside.push((entry.name, length));
            }
        }
        Ok(JournalReport {
            is_written,
            has_catalog: content.has_catalog,
            files: content.files.iter().map(of_file).collect(),
            losses: content.catalog.open_losses().cloned().collect(),
            torn_bytes: content.torn.as_ref().map_or(0, |(bytes, _)| *bytes),
            losses_found: content.losses,
            set_aside,
        })
    }

    /// Whether nothing is lost but what the operator has accepted.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.losses.is_empty() && self.losses_found.is_empty()
    }

    /// Notes that the operator knows of all losses there are: they are listed no longer. Gives them.
    ///
    /// # Errors
    /// [`Error::Locked`] while a process captures.
    pub fn accept(database: &Database) -> Result<Vec<JournalLoss>> {
        let storage = database.raw_storage();
        storage.create_dir(FOLDER)?;
        if !storage.list(FOLDER)?.iter().any(|entry| entry.name == "lock") {
            drop(storage.create(LOCK)?);
        }
        let Some(lock) = storage.try_lock(LOCK, LockMode::Exclusive)? else {
            return Err(Error::Locked { path: storage.display_path(LOCK) });
        };
        let mut content = look(database, storage.as_ref())?;
        content.settle(storage.as_ref())?;
        let accepted: Vec<JournalLoss> = content.catalog.open_losses().cloned().collect();
        let mut catalog = content.catalog;
        catalog.losses.iter_mut().for_each(|loss| loss.accepted = true);
        catalog.forget();
        Catalog::store(&catalog, storage.as_ref())?;
        drop(lock);
        Ok(accepted)
    }
}

/// The findings of a start, without its changes.
pub(super) fn look(database: &Database, storage: &dyn Storage) -> Result<JournalContent> {
    let mut content = replay(storage, &|| tables(database), |_, _, _| true, |_| Ok(()))?;
    let mut captured = 0;
    for table in database.tables()? {
        // A table that can't be read is skipped: its reader gets the error.
        let stored = database.table(&table).and_then(|table| table.stored());
        captured = captured.max(stored.map_or(0, |stored| stored.captured().sequence));
    }
    content.tell_missing_journal(captured);
    Ok(content)
}

fn of_file(file: &JournalFile) -> JournalFileReport {
    let mut tables: Vec<JournalTableReport> = file
        .tables
        .iter()
        .map(|(table, of)| JournalTableReport { table: table.clone(), batches: of.batches, rows: of.rows })
        .collect();
    tables.sort_by(|one, other| one.table.cmp(&other.table));
    JournalFileReport {
        file: name(file.number),
        bytes: file.bytes,
        first_sequence: file.first,
        last_sequence: file.last,
        tables,
    }
}
