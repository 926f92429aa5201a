//! What the store asks of a capture before it changes a table that has captured rows.

use std::sync::{PoisonError, Weak};

use splay_store::{CapturedRows, ReleasedName};

use crate::capture_state::{CaptureState, leaves_unknown};
use crate::live::into_store;
use crate::write_down::write_all_down;

/// The tables of a capture, as the store sees them.
#[derive(Debug)]
pub(crate) struct CapturedTables(pub(crate) Weak<CaptureState>);

impl CapturedRows for CapturedTables {
    fn takes(&self, table: &str) -> bool {
        let shared = self.0.upgrade();
        shared.is_some_and(|shared| shared.all_live().iter().any(|live| live.spec().name.eq_ignore_ascii_case(table)))
    }

    fn settle(&self, table: &str) -> splay_store::Result<()> {
        self.0.upgrade().map_or(Ok(()), |shared| write_all_down(&shared, table))
    }

    fn release_name(
        &self,
        name: ReleasedName<'_>,
        commit: &mut dyn FnMut() -> splay_store::Result<()>,
    ) -> splay_store::Result<()> {
        match self.0.upgrade() {
            Some(shared) => shared.release_name(name, commit),
            None => commit(),
        }
    }
}

impl CaptureState {
    /// Runs a commit that takes a name from a table, behind every batch that was taken for the table before ([`CapturedRows::release_name`]).
    ///
    /// 1. The table's rows in memory are written down. Rows may come in.
    /// 2. Senders wait from here on, until the queue is empty: all that was taken is in memory.
    /// 3. What came meanwhile is written down. The manifest names the last batch under this name, so that no start takes its rows from the
    ///    journal for those of another table.
    /// 4. The commit. From here on there is a table with all its rows, or none; or all rows of the table are under the column's new name, in its
    ///    files, and batches have the columns that the table has now.
    ///
    /// [`CapturedRows::release_name`]: splay_store::CapturedRows::release_name
    fn release_name(
        &self,
        name: ReleasedName<'_>,
        commit: &mut dyn FnMut() -> splay_store::Result<()>,
    ) -> splay_store::Result<()> {
        let table = name.table();
        if let ReleasedName::Column { column, .. } = name {
            self.dedupe.refuse_release(table, column)?;
        }
        let write_down = || write_all_down(self, table);
        write_down()?;
        let _names = self.table_names.write().unwrap_or_else(PoisonError::into_inner);
        self.queue.drained().map_err(into_store)?;
        write_down()?;
        let _changes = self.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.check().map_err(into_store)?;
        commit().inspect_err(|error| {
            if leaves_unknown(error) {
                self.fail(error.to_string());
            }
        })?;
        let key = table.to_lowercase();
        match name {
            ReleasedName::Table { .. } => {
                let live = self.tables.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
                live.iter().for_each(|live| live.retire());
                self.subscribers.end(table, "the table was dropped or has another name now");
            }
            ReleasedName::Column { column, .. } => {
                // The next batch looks at the columns in any case: a failure to read them now is none of the commit.
                let live = self.tables.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
                live.iter().for_each(|live| drop(live.refresh_spec()));
                self.subscribers.end(table, &format!("the column {column:?} has another name now"));
            }
        }
        Ok(())
    }
}
