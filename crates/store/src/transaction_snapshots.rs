//! Snapshots of tables for the statements of a transaction, which all read the same rows, live ones included.
//!
//! - A table's snapshot is taken at its first use. [`TransactionSnapshots::take_all`] takes those of all tables at once, so that a transaction
//!   sees the tables as they are when it begins, and no later commit of any.
//! - A snapshot keeps its files from removal and its live rows in memory, so transactions should be short.
//! - Definitions aren't part of it. A table that is dropped meanwhile isn't found, and the snapshot of a new one is taken at its first use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::database::{Database, SnapshotSource, Table, TableSnapshot};
use crate::error::Result;

/// The snapshots of tables, each taken at the table's first use.
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
}

impl SnapshotSource for TransactionSnapshots {
    /// The snapshot of a table, taken now if there is none yet.
    fn snapshot(&self, table: &Table) -> Result<TableSnapshot> {
        let snapshot = |tables: &BTreeMap<String, TableSnapshot>| tables.get(table.folder()).cloned();
        if let Some(snapshot) = snapshot(&self.tables.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(snapshot);
        }
        let newest = table.newest()?;
        // Another thread may have taken it meanwhile: all statements read that one.
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.entry(table.folder().to_owned()).or_insert(newest).clone())
    }
}

impl Database {
    /// This database, with tables read from snapshots.
    #[must_use]
    pub fn with_snapshots(&self, snapshots: Arc<TransactionSnapshots>) -> Database {
        Database { snapshots: Some(snapshots), ..self.clone() }
    }
}
