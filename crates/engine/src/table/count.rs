//! Counts what is read of a table, for the statement's costs.

use std::collections::HashSet;
use std::sync::Arc;

use splay_store::{BlocksRead, SelectionStats, TableSnapshot, blocks_of};

use super::cover::Cover;
use crate::error::Result;

/// Counts the partitions, runs and blocks that covers select, and those of the table.
pub(crate) fn count(snapshot: &TableSnapshot, covers: &[Cover]) -> Result<SelectionStats> {
    let mut stats = SelectionStats::default();
    for partition in snapshot.partitions() {
        stats.partitions.total += 1;
        for segment in partition.segments.iter() {
            stats.rows.total += segment.rows();
            stats.blocks.total += blocks_of(segment);
        }
    }
    let (mut dates, mut segments, mut blocks) = (HashSet::new(), HashSet::new(), BlocksRead::default());
    for cover in covers {
        dates.insert(cover.date);
        if segments.insert(Arc::as_ptr(&cover.segment)) && cover.spans.iter().any(|span| span.run.is_some()) {
            stats.symbols.total += cover.segment.index()?.symbols()? as u64;
        }
        for span in &cover.spans {
            stats.rows.selected += span.rows.len() as u64;
            stats.symbols.selected += u64::from(span.run.is_some());
            blocks.mark(&cover.segment, &(span.rows.start as u64..span.rows.end as u64));
        }
    }
    stats.partitions.selected = dates.len() as u64;
    stats.blocks.selected = blocks.count();
    Ok(stats)
}
