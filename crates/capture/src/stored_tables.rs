//! Tables in files, as capture needs them: how far captured rows are in them, and new ones without rows.

use splay_store::{Database, LoadOptions, TableSpec, WriteDownPosition};

/// Which rows that were captured under a name are in files: those of the table that has it, else of tables that had it. Nothing of one that
/// is damaged.
pub(crate) fn captured_of(database: &Database, name: &str) -> WriteDownPosition {
    match database.table(name).and_then(|table| table.stored()) {
        Ok(stored) => stored.captured(),
        Err(splay_store::Error::NoSuchTable { .. }) => database.former(name).ok().flatten().unwrap_or_default(),
        Err(_) => WriteDownPosition::default(),
    }
}

/// An existing table, or one that is created now, by a commit without rows.
pub(crate) fn create_table(database: &Database, spec: &TableSpec) -> splay_store::Result<splay_store::Table> {
    match database.table(&spec.name) {
        Ok(table) => Ok(table),
        Err(splay_store::Error::NoSuchTable { .. }) => {
            database.load_as_capture(spec, LoadOptions::default())?.commit()?;
            database.table(&spec.name)
        }
        Err(error) => Err(error),
    }
}
