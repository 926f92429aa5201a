//! The first or last rows by time, without reading the others.
//!
//! A symbol's rows ascend in time, so only the first (or last) n rows of each run are candidates, and only those not
//! beyond the n-th best so far. Partitions that can't contain one aren't opened. If rows of each symbol are
//! requested, any partition may contain one, and runs that can't are skipped.

use std::collections::BinaryHeap;
use std::ops::Range;

use hashbrown::HashMap;
use splay_store::{Bounds, ColumnReader, Partition, Segment, TableSnapshot};

use super::RowSelection;
use super::cover::{Cover, times_of};
use super::find::{find, gather};
use crate::error::Result;
use crate::search::partition_from;

/// Rows that are read at a time in search of further rows with the same time.
const TIES: usize = 1024;

/// The first or the last rows by time, and how many of them to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeEnds {
    /// The last rows if true, otherwise the first.
    pub latest: bool,
    /// The number of rows.
    pub count: usize,
    /// Whether the count holds for each symbol; otherwise it holds for all rows together.
    pub of_each_symbol: bool,
}

/// Covers that contain the rows at an end of time, in the order of the table: all rows that have fewer than `count` rows strictly nearer to that end.
pub(crate) fn find_by_time(
    snapshot: &TableSnapshot,
    selection: &RowSelection,
    ends: TimeEnds,
    threads: usize,
) -> Result<Vec<Cover>> {
    let latest = ends.latest;
    let mut partitions: Vec<&Partition> = snapshot
        .partitions()
        .iter()
        .filter(|partition| selection.dates.contains(partition.date) && !partition.segments.is_empty())
        .collect();
    partitions.sort_by_key(|partition| distance(latest, time_at_end(partition, latest)));
    let mut nearests = Nearests { ends, of_all: NearestRows::new(ends.count), of_symbols: HashMap::new() };
    let mut covers_by_date: Vec<(i32, Vec<Cover>)> = Vec::new();
    for partition in partitions {
        let least = distance(latest, time_at_end(partition, latest));
        if !ends.of_each_symbol && nearests.of_all.excludes(least) {
            break;
        }
        let dates = Bounds { min: partition.date, max: partition.date };
        let covers = find(snapshot, &RowSelection { dates, ..selection.clone() }, true, threads)?;
        let mut nearest_covers = Vec::new();
        for cover in covers {
            let times = cover.segment.column(snapshot.spec(), snapshot.spec().time_position())?;
            let mut spans = Vec::with_capacity(cover.spans.len());
            for mut span in cover.spans {
                let nearest = nearests.of(&cover.segment, span.run)?;
                if nearest.excludes(least) {
                    continue;
                }
                span.rows = nearest.of_run(&times, span.rows, latest)?;
                if !span.rows.is_empty() {
                    spans.push(span);
                }
            }
            gather(&cover.segment, cover.date, spans, &mut nearest_covers);
        }
        covers_by_date.push((partition.date, nearest_covers));
    }
    covers_by_date.sort_by_key(|(date, _)| *date);
    Ok(covers_by_date.into_iter().flat_map(|(_, covers)| covers).collect())
}

/// The time at an end of a partition.
pub(crate) fn time_at_end(partition: &Partition, latest: bool) -> i64 {
    let entries = partition.segments.iter().map(|segment| segment.entry());
    let time =
        if latest { entries.map(|entry| entry.time_max).max() } else { entries.map(|entry| entry.time_min).min() };
    time.unwrap_or_default()
}

/// The distance of a time from the end that is searched for.
pub(crate) fn distance(latest: bool, time: i64) -> i64 {
    // `!` reverses the order of all times; a negative sign would overflow for the least.
    if latest { !time } else { time }
}

/// The nearest rows so far: of all symbols together, which includes rows without a symbol, or of each symbol.
struct Nearests {
    ends: TimeEnds,
    of_all: NearestRows,
    of_symbols: HashMap<String, NearestRows>,
}

impl Nearests {
    /// The nearest rows against which the rows of a run are compared.
    fn of(&mut self, segment: &Segment, run: Option<usize>) -> Result<&mut NearestRows> {
        let (Some(run), true) = (run, self.ends.of_each_symbol) else { return Ok(&mut self.of_all) };
        let Some(symbol) = segment.index()?.symbol(run)? else { return Ok(&mut self.of_all) };
        Ok(self.of_symbols.entry_ref(symbol).or_insert_with(|| NearestRows::new(self.ends.count)))
    }
}

/// Distances of the nearest rows that were seen.
struct NearestRows {
    count: usize,
    distances: BinaryHeap<i64>,
}

impl NearestRows {
    fn new(count: usize) -> NearestRows {
        NearestRows { count, distances: BinaryHeap::new() }
    }

    /// Whether enough rows are nearer than this.
    fn excludes(&self, distance: i64) -> bool {
        self.distances.len() >= self.count && self.distances.peek().is_none_or(|farthest| distance > *farthest)
    }

    fn add(&mut self, distance: i64) {
        if self.distances.len() < self.count {
            self.distances.push(distance);
        } else if let Some(mut farthest) = self.distances.peek_mut()
            && distance < *farthest
        {
            *farthest = distance;
        }
    }

    /// The candidates among the rows of a run.
    fn of_run(&mut self, times: &ColumnReader<'_>, run: Range<usize>, latest: bool) -> Result<Range<usize>> {
        let near = match latest {
            true => run.end.saturating_sub(self.count).max(run.start)..run.end,
            false => run.start..run.start.saturating_add(self.count).min(run.end),
        };
        let values = times.read(near.clone())?;
        let values = times_of(&values)?;
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return Ok(run.start..run.start) };
        if self.excludes(distance(latest, if latest { *last } else { *first })) {
            return Ok(run.start..run.start);
        }
        values.iter().for_each(|time| self.add(distance(latest, *time)));
        match latest {
            true => Ok(ties_before(times, run.start, near.start, *first)?..run.end),
            false => Ok(run.start..ties_behind(times, near.end, run.end, *last)?),
        }
    }
}

/// The first of the rows before `row` that have its time.
fn ties_before(times: &ColumnReader<'_>, start: usize, mut row: usize, time: i64) -> Result<usize> {
    while row > start {
        let from = row.saturating_sub(TIES).max(start);
        let values = times.read(from..row)?;
        let values = times_of(&values)?;
        let before = partition_from(values, values.len(), |one| one < time);
        row = from + before;
        if before > 0 {
            break;
        }
    }
    Ok(row)
}

/// The end of the rows from `row` on that have the time of the one before it.
fn ties_behind(times: &ColumnReader<'_>, mut row: usize, end: usize, time: i64) -> Result<usize> {
    while row < end {
        let to = (row + TIES).min(end);
        let values = times.read(row..to)?;
        let ties = partition_from(times_of(&values)?, 0, |one| one <= time);
        row += ties;
        if row < to {
            break;
        }
    }
    Ok(row)
}
