//! Restores columns that a commit dropped: files written before it still have their values.
//!
//! Files written since have none. So a column can be restored only while each row of that time is in a file of that
//! time, or is deleted.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::manifest::{FileEntry, Operation, TableState, added_by};
use crate::partition;
use crate::schema::{ColumnSpec, TableSpec};

/// The columns that a commit dropped, with the places that they had.
pub(super) fn dropped_by(state: &TableState, epoch: u64) -> Vec<(usize, ColumnSpec)> {
    let history = &state.history;
    let is_schema = history.commits().get(&epoch).is_some_and(|note| note.operation == Operation::Schema);
    let specs = (history.spec_at(epoch.saturating_sub(1)), history.spec_at(epoch));
    let (true, (Some(before), Some(after))) = (is_schema, specs) else { return Vec::new() };
    let has_gone = |column: &ColumnSpec| after.dropped.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
    let columns = before.columns.iter().enumerate().filter(|(_, column)| has_gone(column));
    columns.map(|(place, column)| (place, column.clone())).collect()
}

/// Why the values of columns that a commit dropped are gone; `None` if none are.
pub(super) fn why_not(state: &TableState, epoch: u64) -> Result<Option<String>> {
    let dates: BTreeSet<i32> = state.files.values().map(|entry| entry.date).collect();
    for date in dates {
        let is_whole = match state.files_at(date, epoch)? {
            Some(files) => are_there(state, &files)?,
            None => false,
        };
        if !is_whole {
            return Ok(Some(format!(
                "rows of {} were written anew since, without the column",
                partition::folder(date)
            )));
        }
    }
    Ok(None)
}

/// Whether files of a date are there still, but for those whose rows have gone.
fn are_there(state: &TableState, files: &[FileEntry]) -> Result<bool> {
    for entry in files {
        let is_same = |other: &FileEntry| other.date == entry.date && other.digest == entry.digest;
        if state.files.values().any(is_same) {
            continue;
        }
        let removed = state.history.retired().get(&entry.path).map(|retired| retired.removed);
        if removed.is_none() || has_added(state, removed.unwrap_or_default(), entry.date)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a commit added files to a date.
fn has_added(state: &TableState, epoch: u64, date: i32) -> Result<bool> {
    let retired = state.history.retired().values().map(|retired| &retired.entry);
    for entry in state.files.values().chain(retired).filter(|entry| entry.date == date) {
        if added_by(entry)? == epoch {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The table with columns that were dropped, at their places where it has as many others.
pub(super) fn with(spec: &TableSpec, columns: Vec<(usize, ColumnSpec)>) -> TableSpec {
    let mut spec = spec.clone();
    for (place, column) in columns {
        let is_of =
            |name: &String| column.formerly.iter().chain([&column.name]).any(|own| own.eq_ignore_ascii_case(name));
        spec.dropped.retain(|name| !is_of(name));
        spec.columns.insert(place.min(spec.columns.len()), column);
    }
    spec
}
