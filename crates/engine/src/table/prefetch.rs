//! Prefetches columns ahead of the work, so that requests to the disk overlap.
//!
//! Bytes that were read before aren't requested again; this check reads a few bits per cover and column.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use splay_store::{BLOCK_ROWS, Segment, TableSnapshot};

use super::cover::{Cover, Span};
use crate::error::Result;
use crate::reads::{Reads, column_bytes};

/// Rows that are requested ahead of the work.
const ROWS_AHEAD: usize = 1 << 20;

/// Ranges with at most this many rows between them are requested as one.
const NEIGHBOUR_ROWS: usize = 64;

/// Segments that are opened at once: a disk serves that many requests in little more than the time of one.
const OPENERS: usize = 16;

/// The part of a column that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrefetchPart {
    /// All rows of a cover.
    Whole,
    /// The rows outside of whole blocks: of whole blocks the summaries are read instead.
    Edges,
}

/// Asks for the columns of covers that are worked on one after the other.
pub(crate) struct Prefetch<'a> {
    snapshot: &'a TableSnapshot,
    covers: &'a [Cover],
    columns: Vec<(usize, PrefetchPart)>,
    reads: &'a Reads,
    next: usize,
    rows: usize,
}

impl<'a> Prefetch<'a> {
    /// `reads` gets the bytes to read, once for all covers.
    pub fn new(
        snapshot: &'a TableSnapshot,
        covers: &'a [Cover],
        columns: Vec<(usize, PrefetchPart)>,
        reads: &'a Reads,
    ) -> Prefetch<'a> {
        let ahead = Prefetch { snapshot, covers, columns, reads, next: 0, rows: 0 };
        ahead.count();
        covers.iter().take(OPENERS).for_each(|cover| cover.segment.open_ahead());
        ahead
    }

    fn count(&self) {
        let row_bytes = |kind: PrefetchPart| -> u64 {
            let columns = self.columns.iter().filter(|(_, part)| *part == kind);
            columns.map(|(column, _)| column_bytes(self.snapshot, *column)).sum()
        };
        let rows: usize = self.covers.iter().map(Cover::selected_rows).sum();
        let mut bytes = rows as u64 * row_bytes(PrefetchPart::Whole);
        let of_edges = row_bytes(PrefetchPart::Edges);
        if of_edges > 0 {
            let rows: usize = self.covers.iter().flat_map(edges_of_cover).map(|rows| rows.len()).sum();
            bytes += rows as u64 * of_edges;
        }
        self.reads.add_bytes(bytes);
    }

    /// Called before each cover, with its number.
    pub fn before(&mut self, number: usize) -> Result<()> {
        if number > 0 {
            self.rows = self.rows.saturating_sub(self.covers[number - 1].selected_rows());
        }
        while self.next < self.covers.len() && (self.next <= number || self.rows < ROWS_AHEAD) {
            let cover = &self.covers[self.next];
            for (column, part) in &self.columns {
                let reader = cover.segment.column(self.snapshot.spec(), *column)?;
                match part {
                    PrefetchPart::Whole => reader.read_ahead(cover.rows.clone()),
                    PrefetchPart::Edges => edges_of_cover(cover).for_each(|rows| reader.read_ahead(rows)),
                }
            }
            self.rows += cover.selected_rows();
            self.next += 1;
            if let Some(later) = self.covers.get(self.next + OPENERS) {
                later.segment.open_ahead();
            }
        }
        Ok(())
    }
}

/// The rows of a cover that are in no whole block of a span. Neighbours are one range: a system call costs more than a few rows.
fn edges_of_cover(cover: &Cover) -> impl Iterator<Item = Range<usize>> {
    let mut edges = cover.spans.iter().flat_map(edges_of).filter(|rows| !rows.is_empty()).peekable();
    std::iter::from_fn(move || {
        let mut rows = edges.next()?;
        while let Some(next) = edges.next_if(|next| next.start <= rows.end + NEIGHBOUR_ROWS) {
            rows.end = next.end;
        }
        Some(rows)
    })
}

/// The rows of a span that are in no whole block.
fn edges_of(span: &Span) -> [Range<usize>; 2] {
    let (start, end) = (span.rows.start.next_multiple_of(BLOCK_ROWS), span.rows.end / BLOCK_ROWS * BLOCK_ROWS);
    if start < end { [span.rows.start..start, end..span.rows.end] } else { [span.rows.clone(), 0..0] }
}

/// Opens segments that are wanted and weren't used before, many at once.
pub(crate) fn open<'a>(segments: impl Iterator<Item = &'a Arc<Segment>>) {
    let closed: Vec<&Arc<Segment>> = segments.filter(|segment| !segment.is_open()).collect();
    if closed.len() < 2 {
        return;
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..closed.len().min(OPENERS) {
            // Relaxed: the numbers only have to differ. An error is ignored here: the reader of the segment gets it again.
            scope.spawn(|| {
                while let Some(segment) = closed.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _ = segment.index();
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_whole_blocks_make_up_a_span() {
        for (start, end) in
            [(0, 0), (0, 1024), (1, 1023), (1, 1024), (1000, 1030), (1000, 2048), (1000, 5000), (1024, 5000)]
        {
            let mut remaining: Vec<Range<usize>> = edges_of(&Span { rows: start..end, run: None }).into();
            remaining.retain(|rows| !rows.is_empty());
            let rows: usize = remaining.iter().map(ExactSizeIterator::len).sum();
            assert_eq!((end - start - rows) % BLOCK_ROWS, 0, "{start}..{end}");
            assert!(
                rows < 2 * BLOCK_ROWS && remaining.iter().all(|rows| start <= rows.start && rows.end <= end),
                "{start}..{end}: {remaining:?}"
            );
        }
    }
}
