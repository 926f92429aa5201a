//! How much of a table is read, for those who want to know what a statement cost.

use std::collections::HashSet;
use std::sync::Arc;

use splay_store::{BLOCK_ROWS, SelectionStats, TableSnapshot};

use super::cover::Cover;
use crate::error::Result;

/// What covers hold of what the table has.
pub(crate) fn count(snapshot: &TableSnapshot, covers: &[Cover]) -> Result<SelectionStats> {
    let mut stats = SelectionStats::default();
    for partition in snapshot.partitions() {
        stats.partitions.total += 1;
        for segment in partition.segments.iter() {
            stats.rows.total += segment.rows();
            stats.blocks.total += segment.rows().div_ceil(BLOCK_ROWS as u64);
        }
    }
    let (mut date, mut segments) = (None, HashSet::new());
    for cover in covers {
        stats.partitions.kept += u64::from(date.replace(cover.date) != Some(cover.date));
        if segments.insert(Arc::as_ptr(&cover.segment)) && cover.spans.iter().any(|span| span.run.is_some()) {
            stats.symbols.total += cover.segment.index()?.symbols()? as u64;
        }
        for span in &cover.spans {
            stats.rows.kept += span.rows.len() as u64;
            stats.symbols.kept += u64::from(span.run.is_some());
            stats.blocks.kept += (span.rows.end.div_ceil(BLOCK_ROWS) - span.rows.start / BLOCK_ROWS) as u64;
        }
    }
    Ok(stats)
}
