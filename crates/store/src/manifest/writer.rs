//! Writes the manifest. Only one process does so at a time: the caller holds the writer lock.
//!
//! - A table is named by its folder here.
//! - A commit is: append the record, sync the log, replace HEAD. Before the last step nothing has happened.
//! - A failed sync, or a failure to rename HEAD, leaves it unknown what is on disk; the caller stops writing. After any other
//!   failure the table is as before.

use std::sync::Arc;

use super::format::{Commit, Head, LOG_HEADER_BYTES, log_header};
use super::state::TableState;
use super::{FOLDER, created_path, head_path, log_path, was_created};
use crate::error::Result;
use crate::storage::{self, Storage};

/// A log longer than this and four times its snapshot is replaced by the snapshot.
const LOG_BYTES_MIN: u64 = 256 * 1024;

/// Creates a table by its first commit.
pub(crate) fn create(storage: &dyn Storage, table: &str, commit: Commit) -> Result<(Head, Arc<TableState>)> {
    let path = log_path(table, 1);
    let state = TableState::first(commit.clone(), &storage.display_path(&path))?;
    storage.create_dir(table)?;
    storage.sync_dir("")?;
    storage.create_dir(&format!("{table}/{FOLDER}"))?;
    storage.sync_dir(table)?;
    let head = write_log(storage, table, (1, &commit), &state)?;
    put_head(storage, table, &head)?;
    mark_created(storage, table);
    Ok((head, Arc::new(state)))
}

/// Makes the file that tells a lost HEAD from one that never was. HEAD must be durable. The file only helps to find damage, so
/// a failure is none of the commit's: the next writer tries again.
pub(crate) fn mark_created(storage: &dyn Storage, table: &str) {
    if let Ok(false) = was_created(storage, table) {
        let _ = storage.create(&created_path(table));
    }
}

/// Appends a commit to a table.
pub(crate) fn commit(
    storage: &dyn Storage,
    table: &str,
    current: &(Head, Arc<TableState>),
    commit: Commit,
) -> Result<(Head, Arc<TableState>)> {
    let (head, state) = current;
    let path = log_path(table, head.log);
    let mut next_state = TableState::clone(state);
    next_state.apply(commit.clone(), &storage.display_path(&path))?;
    let frame = commit.encode();
    let length = head.length + frame.len() as u64;
    let next = if length > LOG_BYTES_MIN && is_worth_replacing(length, &next_state) {
        write_log(storage, table, (head.log + 1, &next_state.snapshot(commit.at)), &next_state)?
    } else {
        let mut file = storage.open_append(&path, head.length)?;
        file.write(&frame)?;
        file.sync()?;
        next_state.head(table, head.log, length)
    };
    put_head(storage, table, &next)?;
    if next.log != head.log {
        // The old log is garbage now; if it can't be removed the sweep does it later.
        let _ = storage.remove(&path);
    }
    Ok((next, Arc::new(next_state)))
}

/// Estimated without serialising the state: a record of one file takes some 400 bytes.
fn is_worth_replacing(length: u64, state: &TableState) -> bool {
    let history = &state.history;
    let entries = state.files.len() + state.sources.len() + history.retired().len() + history.unloaded();
    let snapshot = entries as u64 * 400 + history.commits().len() as u64 * 100 + 4096;
    length > 4 * snapshot
}

/// Writes a log of one record, which makes the state.
fn write_log(storage: &dyn Storage, table: &str, (number, first): (u64, &Commit), state: &TableState) -> Result<Head> {
    let path = log_path(table, number);
    let folder = storage::parent(&path);
    // A log that HEAD doesn't name is left from a commit that never was.
    let name = path.rsplit('/').next().unwrap_or_default();
    if storage.list(folder)?.iter().any(|entry| entry.name == name) {
        storage.remove(&path)?;
    }
    let mut file = storage.create(&path)?;
    file.write(&log_header())?;
    let frame = first.encode();
    file.write(&frame)?;
    file.sync()?;
    storage.sync_dir(folder)?;
    Ok(state.head(table, number, (LOG_HEADER_BYTES + frame.len()) as u64))
}

fn put_head(storage: &dyn Storage, table: &str, head: &Head) -> Result<()> {
    storage::replace(storage, &head_path(table), &head.encode())
}
