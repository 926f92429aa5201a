//! The journal's rows for processes that only read: a reader sees every acknowledged row, whether the capturing
//! process runs, has ended, or was killed.
//!
//! - The journal is read first and the table's manifest afterwards. Rows that move to files in between are in the
//!   files, and the manifest's [`WriteDownPosition`] excludes them from the rows that were read from the journal. In the other
//!   order they would be lost.
//! - If the manifest names batches after the last one that was read, both are read again, so that no message is seen
//!   in part.
//! - Only batches that their table's files don't contain are retained: their position in the journal, and, for tables
//!   that statements use, their rows as segments in memory, built by the same code as in a capture.
//!
//! Reasons: docs/adr/0024-readers-follow-the-journal.md.

mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use splay_store::{Database, FollowedRows, Table, TableSnapshot, WriteDownPosition};

use crate::error::Result;
use crate::journal::{JournalEntry, TailRead, TailReader};
use crate::live::into_store;
use crate::stored_tables::captured_of;
use table::PendingRows;

/// Bytes of rows that a reader of a journal holds in memory, unless it says otherwise: as many as a capture does that has its own settings
/// as usual, before it refuses rows.
pub const FOLLOWED_BYTES: u64 = 2 << 30;

/// How often journal and manifest are read again while rows are written down all the time.
const TRIES: usize = 10_000;

/// Settings of a process that follows a journal.
#[derive(Debug, Clone)]
pub struct FollowSettings {
    /// Bytes of rows in memory. With more in the journal, statements on the table fail. Default [`FOLLOWED_BYTES`].
    pub bytes_max: u64,
}

impl Default for FollowSettings {
    fn default() -> FollowSettings {
        FollowSettings { bytes_max: FOLLOWED_BYTES }
    }
}

/// From now on snapshots of the database have the rows of its journal, too, until this process captures into it. Reads nothing itself, and
/// never takes a lock or changes a byte. Each snapshot costs a look at the journal's folder and at its last file; the first reads the
/// whole journal.
pub fn follow(database: &Database, settings: FollowSettings) {
    let state = FollowState { journal: TailReader::new(database.raw_storage()), tables: HashMap::new(), forgotten: 0 };
    database.follow(Some(Arc::new(JournalFollower { settings, state: Mutex::new(state) })));
}

/// Follows a journal that another process writes: position, and rows that are in no file yet.
#[derive(Debug)]
struct JournalFollower {
    settings: FollowSettings,
    state: Mutex<FollowState>,
}

#[derive(Debug)]
struct FollowState {
    journal: TailReader,
    /// Batches that aren't in their table's files, by the table's lower-case name.
    tables: HashMap<String, PendingRows>,
    /// How often batches were read anew, possibly with other rows under the same numbers.
    forgotten: u64,
}

impl FollowedRows for JournalFollower {
    fn over(
        &self,
        table: &Table,
        stored: &dyn Fn() -> splay_store::Result<TableSnapshot>,
    ) -> splay_store::Result<TableSnapshot> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = None;
        for _ in 0..TRIES {
            state.look(table.database()).map_err(into_store)?;
            let files = stored()?;
            let captured = files.captured();
            // The journal that was read had all that this manifest names, or it isn't there any more.
            if captured.sequence <= state.journal.last() || before == Some(captured) {
                return state.over(&table.name().to_lowercase(), files, self.settings.bytes_max).map_err(into_store);
            }
            before = Some(captured);
        }
        Err(splay_store::Error::Locked { path: table.database().path() })
    }
}

impl FollowState {
    /// Takes what has come since the last look.
    fn look(&mut self, database: &Database) -> Result<()> {
        let (tables, forgotten) = (&mut self.tables, &mut self.forgotten);
        let (mut seen, mut is_new) = (HashMap::new(), false);
        let has_captured = || {
            let names = database.tables().unwrap_or_default();
            names.iter().any(|name| {
                database.table(name).and_then(|table| table.stored()).is_ok_and(|stored| stored.captured().sequence > 0)
            })
        };
        let looked = self.journal.look(has_captured, &mut |news| match news {
            TailRead::Batch(batch) => {
                is_new = true;
                note(tables, &mut seen, database, batch);
            }
            TailRead::Forgotten(file) => {
                is_new = true;
                *forgotten += 1;
                tables.values_mut().for_each(|table| table.forget(file));
            }
        });
        if is_new {
            for (name, table) in &mut *tables {
                table.leave_out(stored(&mut seen, database, name));
            }
            tables.retain(|_, table| !table.is_empty());
            self.journal.keep(|file| tables.values().any(|table| table.needs(file)));
        }
        looked
    }

    /// A table's files with what waits over them.
    fn over(&mut self, name: &str, files: TableSnapshot, bytes_max: u64) -> Result<TableSnapshot> {
        let Some(table) = self.tables.get_mut(name) else { return Ok(files) };
        table.leave_out(files.captured());
        let built = table.build(files.spec(), &self.journal, bytes_max);
        let has_room = match built {
            Ok(true) => self.make_room(name, bytes_max),
            built => built.map(|_| ()),
        };
        if let Err(error) = has_room {
            self.tables.get_mut(name).into_iter().for_each(PendingRows::rebuild);
            return Err(error);
        }
        match self.tables.get_mut(name) {
            Some(table) => table.over(&files, self.forgotten),
            None => Ok(files),
        }
    }

    /// Drops the segments of other tables if all together take too much memory; they are built again when a statement needs them.
    fn make_room(&mut self, table_name: &str, bytes_max: u64) -> Result<()> {
        let own = self.tables.get(table_name).map_or(0, PendingRows::bytes);
        let all: u64 = self.tables.values().map(PendingRows::bytes).sum();
        if all + self.journal.bytes() > bytes_max {
            let others = self.tables.iter_mut().filter(|(name, _)| name.as_str() != table_name);
            others.for_each(|(_, table)| table.rebuild());
        }
        table::check_room(own + self.journal.bytes(), bytes_max)
    }
}

/// Keeps a batch unless its table's files have it.
fn note(
    tables: &mut HashMap<String, PendingRows>,
    seen: &mut HashMap<String, WriteDownPosition>,
    database: &Database,
    batch: JournalEntry,
) {
    let name = batch.spec.name.to_lowercase();
    let has = stored(seen, database, &name);
    if batch.sequence > has.sequence || batch.times.1 > has.cut {
        tables.entry(name).or_default().push(batch);
    }
}

/// The position of a table's files, read once. An older position does no harm: the snapshot itself reads the manifest later.
fn stored(seen: &mut HashMap<String, WriteDownPosition>, database: &Database, name: &str) -> WriteDownPosition {
    if let Some(has) = seen.get(name) {
        return *has;
    }
    let has = captured_of(database, name);
    seen.insert(name.to_owned(), has);
    has
}
