//! Write-downs: rows move from memory to the tables' files, in one commit; files and live rows switch in one instant for
//! every reader (see `live`).
//!
//! Rows later than a cut, by their own time, stay live, so slightly late rows are merged in memory and no file is
//! rewritten for them.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::capture_state::CaptureState;
use crate::clock::seconds;
use crate::error::{Error, Result};
use crate::live::LiveTable;
use crate::stored_tables::captured_of;

/// Which rows are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteDownScope {
    /// All.
    All,
    /// All but the latest.
    Settled,
    /// All but those of the last moments by the clock.
    Past,
}

/// The outcome of a write-down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WriteDownReport {
    /// Rows written to files.
    pub rows: u64,
    /// Segments written.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Writes all rows of a table down, before the store changes the table.
pub(crate) fn write_all_down(shared: &CaptureState, table: &str) -> splay_store::Result<()> {
    let live = shared.all_live().into_iter().find(|live| live.spec().name.eq_ignore_ascii_case(table));
    let Some(live) = live else { return Ok(()) };
    let failed = |error: Error| splay_store::Error::Io {
        act: "write captured rows down before a change of",
        path: table.into(),
        source: std::io::Error::other(error.to_string()),
    };
    write_down(shared, &live, WriteDownScope::All).map(drop).map_err(failed)
}

/// Writes rows down; once more where a reserve on the disk made room for it.
pub(crate) fn write_down(shared: &CaptureState, live: &LiveTable, how: WriteDownScope) -> Result<WriteDownReport> {
    let had_reserve = shared.disk.has_reserve();
    match write_down_once(shared, live, how) {
        Err(Error::Full { .. }) if had_reserve && !shared.disk.has_reserve() => write_down_once(shared, live, how),
        done => done,
    }
}

fn write_down_once(shared: &CaptureState, live: &LiveTable, how: WriteDownScope) -> Result<WriteDownReport> {
    let _changes = shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
    // If it is unknown whether a commit reached the disk, both states stay as they are.
    shared.check()?;
    if live.is_retired() {
        return Ok(WriteDownReport::default());
    }
    let now = shared.clock.now();
    let late = seconds(shared.settings.late_s);
    let cut = |latest: i64| match how {
        WriteDownScope::All => latest,
        WriteDownScope::Settled => latest.min(now).saturating_sub(late),
        WriteDownScope::Past => now.saturating_sub(late),
    };
    let before = live.size().rows;
    let mut down = live.begin_write_down(cut)?;
    let count = |down: &crate::live::WriteDown| -> u64 {
        down.rows.iter().flat_map(|(_, segments)| segments).map(|segment| segment.rows()).sum()
    };
    if how == WriteDownScope::Settled && count(&down) < before / 2 {
        // A burst: most of what is here is new, and must go all the same.
        live.give_up_write_down();
        down = live.begin_write_down(|latest| latest)?;
    }
    // The last batches may have no rows, as all were duplicates: who empties a table's journal records them, too.
    let is_recorded = how != WriteDownScope::All || down.captured.sequence <= live.captured().sequence;
    if count(&down) == 0 && is_recorded {
        live.give_up_write_down();
        return Ok(WriteDownReport::default());
    }
    let (name, database) = (live.spec().name.clone(), &shared.database);
    // The journal is synced first. Otherwise, after a power cut, the files could have rows whose producer learns that they were not taken.
    if let Err(error) = shared.sync_journal() {
        live.give_up_write_down();
        return Err(error);
    }
    let report = match shared.settled(database.write_down(&name, down.captured, &down.rows)) {
        Ok(report) => report,
        // Perhaps the rows are on disk, perhaps not: both states stay, and readers take the one that fits.
        Err(error @ Error::Failed { .. }) => return Err(error),
        Err(error) => {
            live.give_up_write_down();
            return Err(error);
        }
    };
    live.finish_write_down();
    shared.counters.write_downs.add(1);
    live.written_at.store(now, Ordering::Relaxed);
    release(shared)?;
    tracing::info!(table = %name, rows = report.rows, segments = report.segments, bytes = report.bytes, "rows written down");
    Ok(WriteDownReport { rows: report.rows, segments: report.segments, bytes: report.bytes })
}

/// Removes journal files that are no longer needed.
fn release(shared: &CaptureState) -> Result<()> {
    let captured: HashMap<String, splay_store::WriteDownPosition> =
        shared.all_live().iter().map(|live| (live.spec().name.to_lowercase(), live.captured())).collect();
    let is_stored = |table: &str, sequence: u64, latest: i64| {
        // For a table that was dropped or renamed, the journal may still have rows under the old name, which another table may have now.
        let of_name = || captured_of(&shared.database, table);
        let captured = captured.get(&table.to_lowercase()).copied().unwrap_or_else(of_name);
        sequence <= captured.sequence && latest <= captured.cut
    };
    let mut journal = shared.journal.lock().unwrap_or_else(PoisonError::into_inner);
    let released = journal.release(shared.settings.journal_keep_bytes, is_stored);
    shared.counters.journal_bytes.set(journal.bytes());
    released
}
