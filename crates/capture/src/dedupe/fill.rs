//! Fills a window from a table's rows.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::TimestampNanosecondType;
use splay_store::{Bounds, LiveRows, Selection};

use super::window::DedupeWindow;
use crate::dedupe_rules::DedupeRule;
use crate::error::Result;
use crate::live::LiveTable;

/// Rows that are read at once.
const CHUNK_ROWS: usize = 4096;

/// The window of a table as its files and its live rows are now.
///
/// # Errors
/// Those of reading the table; [`Error::Rejected`](crate::Error::Rejected) if it lacks a column of the key.
pub(super) fn window(live: &LiveTable, rule: &Arc<DedupeRule>, clock: i64) -> Result<DedupeWindow> {
    let snapshot = live.over(&|| live.table().stored())?;
    let segments = || snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
    let latest = segments().map(|segment| segment.entry().time_max).max().unwrap_or(i64::MIN);
    let spec = Arc::new(snapshot.spec().clone());
    let mut window =
        DedupeWindow::new(rule, Arc::clone(&spec), (Arc::clone(snapshot.folder()), snapshot.epoch()), latest, clock)?;
    let digests = Arc::clone(window.row_digests());
    let selection = Selection { time: Bounds { min: window.from(), max: i64::MAX }, ..Selection::default() };
    for piece in snapshot.select(&selection)?.0 {
        for rows in piece.segment.batches(&spec, digests.columns(), piece.rows.clone(), CHUNK_ROWS)? {
            let rows = rows?;
            let times = rows.column(digests.time()).as_primitive::<TimestampNanosecondType>();
            for (key, time) in digests.of(&rows)?.into_iter().zip(times.values()) {
                key.into_iter().for_each(|key| window.hold(key, *time));
            }
        }
    }
    snapshot.watch().check()?;
    // The next group starts with the bounds that the window has now.
    window.forget_group();
    window.tell();
    Ok(window)
}
