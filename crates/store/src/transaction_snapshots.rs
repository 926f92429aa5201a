//! Snapshots of tables that several statements read alike: what a transaction sees, live rows included.
//!
//! - Each table is held as it is when it is first looked at. [`TransactionSnapshots::take_all`] looks at all of them at once, so that a transaction sees
//!   the tables as they are when it begins, and no later commit of any.
//! - A held snapshot keeps its files from removal and its live rows in memory: who holds one lets go of it soon.
//! - Definitions aren't held. A table that is dropped meanwhile isn't found, one that is made meanwhile is held from its first look on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::database::{Database, Table, TableSnapshot};
use crate::error::Result;

/// Tables as they were when they were first looked at.
#[derive(Debug, Default)]
pub struct TransactionSnapshots {
    /// By folder, which stays when a table is renamed.
    tables: Mutex<BTreeMap<String, TableSnapshot>>,
}

impl TransactionSnapshots {
    /// Takes the snapshot of every table as it is now. A table that can't be read is left out: its reader gets the error.
    ///
    /// # Errors
    /// Those of [`Database::tables`].
    pub fn take_all(&self, database: &Database) -> Result<()> {
        for name in database.tables()? {
            if let Ok(table) = database.table(&name) {
                let _ = self.snapshot(&table);
            }
        }
        Ok(())
    }

    /// The table as it is held.
    pub(crate) fn snapshot(&self, table: &Table) -> Result<TableSnapshot> {
        let snapshot = |tables: &BTreeMap<String, TableSnapshot>| tables.get(table.folder()).cloned();
        if let Some(snapshot) = snapshot(&self.tables.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(snapshot);
        }
        let newest = table.newest()?;
        // Another thread may hold it by now: all statements read that.
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.entry(table.folder().to_owned()).or_insert(newest).clone())
    }
}

impl Database {
    /// This database with tables as they are held.
    #[must_use]
    pub fn with_snapshots(&self, snapshots: Arc<TransactionSnapshots>) -> Database {
        Database { snapshots: Some(snapshots), ..self.clone() }
    }
}
