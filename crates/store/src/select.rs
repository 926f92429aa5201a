//! Selection: finds the rows that may match, in partitions by date and time, by symbol through the directory, in
//! blocks by summary.
//!
//! Invariant: excluded rows don't match; the others may or may not, so filters must still be evaluated on them. Only
//! indexes are read.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::database::{Partition, TableSnapshot};
use crate::error::Result;
use crate::index::{BLOCK_ROWS, ColumnSummaries, SegmentIndex, ValueKind, sortable};
use crate::schema::TableSpec;
use crate::segment::Segment;

/// Inclusive bounds of a value; the default lets everything pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds<T> {
    /// Least value that passes.
    pub min: T,
    /// Greatest value that passes.
    pub max: T,
}

impl Default for Bounds<i64> {
    fn default() -> Bounds<i64> {
        Bounds { min: i64::MIN, max: i64::MAX }
    }
}

impl Default for Bounds<i32> {
    fn default() -> Bounds<i32> {
        Bounds { min: i32::MIN, max: i32::MAX }
    }
}

impl<T: Ord + Copy> Bounds<T> {
    /// Narrows to what passes both.
    pub fn intersect(&mut self, other: Bounds<T>) {
        self.min = self.min.max(other.min);
        self.max = self.max.min(other.max);
    }

    /// Whether nothing passes.
    pub fn is_empty(&self) -> bool {
        self.min > self.max
    }

    /// Whether a value passes.
    pub fn contains(&self, value: T) -> bool {
        self.min <= value && value <= self.max
    }
}

/// Bounds on the rows to read. A row must fulfil all of them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Bounds of the date. Partitions that reach into them are kept whole.
    pub date: Bounds<i32>,
    /// Bounds of the time, in nanoseconds since the epoch.
    pub time: Bounds<i64>,
    /// Symbols; `None` for all. Rows without a symbol are left out by any list.
    pub symbols: Option<Vec<String>>,
    /// Bounds of other numeric columns.
    pub columns: Vec<ColumnBounds>,
}

/// Bounds of a numeric column. Rows where it is null don't pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnBounds {
    /// Name of the column.
    pub column: String,
    /// How values are ordered.
    pub kind: ValueKind,
    /// Least and greatest value as [`sortable`] bits.
    pub bounds: (u64, u64),
}

/// Rows of a segment that may match.
#[derive(Debug, Clone)]
pub struct SegmentRows {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Partition of the segment.
    pub date: i32,
    /// Rows within it.
    pub rows: Range<u64>,
}

/// How many partitions, symbols, blocks and rows a selection leaves, and of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SelectionStats {
    /// Partitions.
    pub partitions: SelectedCount,
    /// Runs of equal symbols, of the partitions that were kept.
    pub symbols: SelectedCount,
    /// Blocks of 1,024 rows, of all partitions.
    pub blocks: SelectedCount,
    /// Rows.
    pub rows: SelectedCount,
}

/// Kept of total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SelectedCount {
    /// How many were selected.
    pub selected: u64,
    /// How many there are in all.
    pub total: u64,
}

impl TableSnapshot {
    /// The pieces that hold all selected rows, in the table's order within each date.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) for a damaged index whose segment is damaged too.
    pub fn select(&self, selection: &Selection) -> Result<(Vec<SegmentRows>, SelectionStats)> {
        let (mut pieces, mut stats) = (Vec::new(), SelectionStats::default());
        for partition in self.partitions() {
            let pieces_before = pieces.len();
            let last = self.spec().partition.last(partition.date);
            let is_selected = partition.date <= selection.date.max && last >= selection.date.min;
            for segment in partition.segments.iter() {
                stats.rows.total += segment.rows();
                stats.blocks.total += blocks_of(segment);
                if is_selected && partition.is_in_sequence() {
                    self.select_segment(selection, partition, segment, &mut pieces, &mut stats)?;
                }
            }
            if is_selected && !partition.is_in_sequence() {
                self.select_symbols(selection, partition, &mut pieces, &mut stats)?;
            }
            stats.partitions.total += 1;
            stats.partitions.selected += u64::from(pieces.len() > pieces_before);
        }
        stats.rows.selected = pieces.iter().map(|piece| piece.rows.end - piece.rows.start).sum();
        let mut read = BlocksRead::default();
        pieces.iter().for_each(|piece| read.mark(&piece.segment, &piece.rows));
        stats.blocks.selected = read.count();
        Ok((pieces, stats))
    }

    fn select_segment(
        &self,
        selection: &Selection,
        partition: &Partition,
        segment: &Arc<Segment>,
        pieces: &mut Vec<SegmentRows>,
        stats: &mut SelectionStats,
    ) -> Result<()> {
        if is_outside(selection, segment) {
            return Ok(());
        }
        let rows = if selection.symbols.is_some() || !within_time(selection, segment) || !selection.columns.is_empty() {
            let narrowing = SegmentNarrowing::new(self.spec(), segment, selection)?;
            let runs = narrowing.runs()?;
            stats.symbols.total += segment.index()?.symbols()? as u64;
            stats.symbols.selected += runs.len() as u64;
            narrowing.rows(runs.into_iter().map(|run| run.1))
        } else {
            segment.ranges()?
        };
        pieces.extend(rows.into_iter().map(|rows| SegmentRows {
            segment: Arc::clone(segment),
            date: partition.date,
            rows,
        }));
        Ok(())
    }

    /// Selects from a partition whose symbols are spread over its segments: symbol by symbol, each through all segments.
    fn select_symbols(
        &self,
        selection: &Selection,
        partition: &Partition,
        pieces: &mut Vec<SegmentRows>,
        stats: &mut SelectionStats,
    ) -> Result<()> {
        let mut narrowings = Vec::new();
        for segment in partition.segments.iter().filter(|segment| !is_outside(selection, segment)) {
            narrowings.push((segment, SegmentNarrowing::new(self.spec(), segment, selection)?));
        }
        let mut runs = Vec::new();
        for (number, (segment, narrowing)) in narrowings.iter().enumerate() {
            stats.symbols.total += segment.index()?.symbols()? as u64;
            for (run, rows) in narrowing.runs()? {
                runs.push((segment.index()?.symbol(run)?, number, rows));
            }
        }
        stats.symbols.selected += runs.len() as u64;
        runs.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
        for (_, number, rows) in runs {
            let (segment, narrowing) = &narrowings[number];
            for rows in narrowing.rows(std::iter::once(rows)) {
                match pieces
                    .last_mut()
                    .filter(|last| Arc::ptr_eq(&last.segment, segment) && last.rows.end == rows.start)
                {
                    Some(last) => last.rows.end = rows.end,
                    None => pieces.push(SegmentRows { segment: Arc::clone(segment), date: partition.date, rows }),
                }
            }
        }
        Ok(())
    }
}

/// Whether the manifest alone shows that a segment has no wanted row.
fn is_outside(selection: &Selection, segment: &Segment) -> bool {
    let entry = segment.entry();
    let in_time = entry.time_max >= selection.time.min && entry.time_min <= selection.time.max;
    !in_time || selection.time.is_empty() || outside_symbols(selection, segment)
}

/// Whether the manifest alone shows that the bounds of time leave no row out.
fn within_time(selection: &Selection, segment: &Segment) -> bool {
    let entry = segment.entry();
    entry.time_min >= selection.time.min && entry.time_max <= selection.time.max
}

/// Whether the manifest alone shows that a segment has none of the symbols.
fn outside_symbols(selection: &Selection, segment: &Segment) -> bool {
    let (Some(symbols), Some((first, last))) = (&selection.symbols, &segment.entry().symbols) else { return false };
    !symbols.iter().any(|symbol| first <= symbol && symbol <= last)
}

struct SegmentNarrowing<'a> {
    index: &'a SegmentIndex,
    selection: &'a Selection,
    /// The summaries of the time column, if bounds of time exclude rows.
    times: Option<&'a ColumnSummaries>,
    filters: Vec<(&'a ColumnBounds, &'a ColumnSummaries)>,
}

impl<'a> SegmentNarrowing<'a> {
    fn new(spec: &TableSpec, segment: &'a Segment, selection: &'a Selection) -> Result<SegmentNarrowing<'a>> {
        let index = segment.index()?;
        let times = if within_time(selection, segment) { None } else { index.by_block(&spec.time)? };
        let mut filters = Vec::new();
        for bounds in &selection.columns {
            // Summaries of a column that was widened since are of another kind, and of no use here.
            if let Some(summaries) = index.by_block(&bounds.column)?.filter(|s| s.kind() == bounds.kind) {
                filters.push((bounds, summaries));
            }
        }
        Ok(SegmentNarrowing { index, selection, times, filters })
    }

    /// The matching rows of runs, as ascending ranges that neither overlap nor touch.
    fn rows(&self, runs: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let (times, filters) = (self.times, &self.filters);
        let mut rows: Vec<Range<u64>> = Vec::new();
        for run in runs {
            let run = match times {
                Some(times) => self.within_time(run, times),
                None => run,
            };
            let mut start = run.start;
            while start < run.end {
                let end = if filters.is_empty() { run.end } else { next_block(start).min(run.end) };
                let block = to_usize(start) / BLOCK_ROWS;
                let may_pass = filters.iter().all(|(bounds, summaries)| may_match(bounds, summaries, block));
                match rows.last_mut().filter(|last| last.end == start) {
                    Some(last) if may_pass => last.end = end,
                    _ if may_pass => rows.push(start..end),
                    _ => {}
                }
                start = end;
            }
        }
        rows
    }

    /// The runs of the wanted symbols, with their rows.
    fn runs(&self) -> Result<Vec<(usize, Range<u64>)>> {
        match &self.selection.symbols {
            None => (0..self.index.symbols()?).map(|run| Ok((run, self.index.symbol_rows(run)?))).collect(),
            Some(symbols) => {
                let mut runs = Vec::new();
                let sorted: std::collections::BTreeSet<&String> = symbols.iter().collect();
                for symbol in sorted {
                    if let Some(run) = self.index.find_symbol(symbol)? {
                        runs.push((run, self.index.symbol_rows(run)?));
                    }
                }
                Ok(runs)
            }
        }
    }

    /// Narrows a run of one symbol, in which time never falls, to the blocks that reach into the bounds.
    fn within_time(&self, run: Range<u64>, times: &ColumnSummaries) -> Range<u64> {
        let firsts = times.firsts();
        // Blocks that begin within the run, so that their first time is one of the run.
        let (low, high) = (to_usize(run.start).div_ceil(BLOCK_ROWS), to_usize(run.end).div_ceil(BLOCK_ROWS));
        if low >= high {
            return run;
        }
        let starts = &firsts[low..high.min(firsts.len())];
        // The last block whose first time is before the bound may hold rows at it; those before it can't.
        let before = starts.partition_point(|time| time.cast_signed() < self.selection.time.min);
        let until = starts.partition_point(|time| time.cast_signed() <= self.selection.time.max);
        let start = if before == 0 { run.start } else { ((low + before - 1) * BLOCK_ROWS) as u64 };
        let end = if until == starts.len() { run.end } else { ((low + until) * BLOCK_ROWS) as u64 };
        start.max(run.start)..end.min(run.end).max(start)
    }
}

fn may_match(filter: &ColumnBounds, summaries: &ColumnSummaries, block: usize) -> bool {
    let summary = summaries.get(block);
    let (min, max) = filter.bounds;
    summary.count > 0 && sortable(filter.kind, summary.max) >= min && sortable(filter.kind, summary.min) <= max
}

fn next_block(row: u64) -> u64 {
    (row / BLOCK_ROWS as u64 + 1) * BLOCK_ROWS as u64
}

/// Blocks of a segment, those of rows that were cut from it among them.
#[must_use]
pub fn blocks_of(segment: &Segment) -> u64 {
    segment.entry().rows.div_ceil(BLOCK_ROWS as u64)
}

/// Blocks that are read. One that several ranges of rows touch, since symbols share it, counts once.
#[derive(Debug, Default)]
pub struct BlocksRead {
    by_segment: HashMap<*const Segment, Vec<bool>>,
}

impl BlocksRead {
    /// Marks the blocks of some rows.
    pub fn mark(&mut self, segment: &Arc<Segment>, rows: &Range<u64>) {
        if rows.is_empty() {
            return;
        }
        let blocks =
            self.by_segment.entry(Arc::as_ptr(segment)).or_insert_with(|| vec![false; to_usize(blocks_of(segment))]);
        blocks[to_usize(rows.start) / BLOCK_ROWS..to_usize(rows.end).div_ceil(BLOCK_ROWS)].fill(true);
    }

    /// How many are marked.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.by_segment.values().flatten().filter(|is_read| **is_read).count() as u64
    }
}

fn to_usize(row: u64) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}
