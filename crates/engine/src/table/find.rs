//! From what is wanted to the rows: partitions by date and time, symbols by the directory, times by binary search.

use std::ops::Range;
use std::sync::Arc;

use splay_store::{BLOCK_ROWS, ColumnReader, ColumnSummaries, Partition, Segment, SegmentIndex, TableSnapshot};

use super::Wanted;
use super::cover::{Cover, Span, times_of};
use crate::error::Result;

/// Spans with no more rows than this between them are read together. It is also the number of rows that the store checks at
/// a time, so reading the rows between costs no checks that aren't made anyway.
const GAP_ROWS_MAX: usize = 8192;

/// An end of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    First,
    Last,
}

/// The wanted rows in the order of the table. With `by_symbol` each span is of one symbol.
pub(crate) fn find(snapshot: &TableSnapshot, wanted: &Wanted, by_symbol: bool) -> Result<Vec<Cover>> {
    let mut covers = Vec::new();
    if wanted.times.is_empty() || wanted.dates.is_empty() {
        return Ok(covers);
    }
    for partition in snapshot.partitions() {
        if wanted.dates.contains(partition.date) {
            for segment in &partition.segments {
                find_in(snapshot, wanted, by_symbol, partition, segment, &mut covers)?;
            }
        }
    }
    Ok(covers)
}

/// Those of the wanted rows, in the order of the table, among which the one is that comes first or last, by time or in that
/// order. Segments that can't have it aren't looked into.
pub(crate) fn find_end(snapshot: &TableSnapshot, wanted: &Wanted, end: End, by_time: bool) -> Result<Vec<Cover>> {
    let mut segments: Vec<(&Partition, &Arc<Segment>)> = snapshot
        .partitions()
        .iter()
        .filter(|partition| wanted.dates.contains(partition.date))
        .flat_map(|partition| partition.segments.iter().map(move |segment| (partition, segment)))
        .collect();
    if end == End::Last {
        segments.reverse();
    }
    let mut covers = Vec::new();
    let mut best: Option<i64> = None;
    for (partition, segment) in segments {
        let entry = segment.entry();
        let is_beaten = best.is_some_and(|best| match end {
            _ if !by_time => true,
            End::First => entry.time_min >= best,
            End::Last => entry.time_max <= best,
        });
        if is_beaten {
            continue;
        }
        let mut found = Vec::new();
        find_in(snapshot, wanted, by_time, partition, segment, &mut found)?;
        let times = segment.column(snapshot.spec(), snapshot.spec().time_position())?;
        for span in found.iter().flat_map(|cover: &Cover| &cover.spans) {
            let row = if end == End::First { span.rows.start } else { span.rows.end - 1 };
            let time = times_of(&times.read(row..row + 1)?)?[0];
            let is_better = best.is_none_or(|best| if end == End::First { time < best } else { time > best });
            if is_better {
                best = Some(time);
            }
        }
        if end == End::Last {
            found.reverse();
        }
        covers.extend(found);
    }
    if end == End::Last {
        covers.reverse();
    }
    Ok(covers)
}

fn find_in(
    snapshot: &TableSnapshot,
    wanted: &Wanted,
    by_symbol: bool,
    partition: &Partition,
    segment: &Arc<Segment>,
    covers: &mut Vec<Cover>,
) -> Result<()> {
    let entry = segment.entry();
    if entry.time_max < wanted.times.min || entry.time_min > wanted.times.max || segment.rows() == 0 {
        return Ok(());
    }
    if let (Some(symbols), Some((first, last))) = (&wanted.symbols, &entry.symbols)
        && !symbols.iter().any(|symbol| first <= symbol && symbol <= last)
    {
        return Ok(());
    }
    let whole_time = entry.time_min >= wanted.times.min && entry.time_max <= wanted.times.max;
    let mut spans = Vec::new();
    if whole_time && wanted.symbols.is_none() && !by_symbol {
        spans.push(Span { rows: 0..to_usize(segment.rows()), run: None });
    } else {
        let index = segment.index()?;
        let narrowing = if whole_time { None } else { Some(Narrowing::new(snapshot, wanted, segment, index)?) };
        let mut add = |run: usize| -> Result<()> {
            let rows = index.symbol_rows(run)?;
            let rows = to_usize(rows.start)..to_usize(rows.end);
            let rows = match &narrowing {
                Some(narrowing) => narrowing.within(rows)?,
                None => rows,
            };
            if !rows.is_empty() {
                spans.push(Span { rows, run: Some(run) });
            }
            Ok(())
        };
        match &wanted.symbols {
            None => (0..index.symbols()?).try_for_each(&mut add)?,
            Some(symbols) => {
                for symbol in symbols {
                    if let Some(run) = index.find_symbol(symbol)? {
                        add(run)?;
                    }
                }
            }
        }
    }
    gather(segment, partition.date, spans, covers);
    Ok(())
}

/// The wanted rows of one symbol in a segment; of a table without symbols all wanted rows. Dates aren't looked at.
pub(crate) fn rows_of_symbol(
    snapshot: &TableSnapshot,
    segment: &Segment,
    symbol: Option<&str>,
    wanted: &Wanted,
) -> Result<Range<usize>> {
    let entry = segment.entry();
    if entry.time_max < wanted.times.min || entry.time_min > wanted.times.max {
        return Ok(0..0);
    }
    let index = segment.index()?;
    let rows = match symbol {
        None => 0..segment.rows(),
        Some(symbol) => match index.find_symbol(symbol)? {
            Some(run) => index.symbol_rows(run)?,
            None => return Ok(0..0),
        },
    };
    let rows = to_usize(rows.start)..to_usize(rows.end);
    if entry.time_min >= wanted.times.min && entry.time_max <= wanted.times.max {
        return Ok(rows);
    }
    Narrowing::new(snapshot, wanted, segment, index)?.within(rows)
}

/// Puts spans that are close together into one cover.
fn gather(segment: &Arc<Segment>, date: i32, spans: Vec<Span>, covers: &mut Vec<Cover>) {
    let mut open: Option<Cover> = None;
    for span in spans {
        match &mut open {
            Some(cover) if span.rows.start - cover.rows.end <= GAP_ROWS_MAX => {
                cover.rows.end = span.rows.end;
                cover.spans.push(span);
            }
            _ => {
                let rows = span.rows.clone();
                let next = Cover { segment: Arc::clone(segment), date, rows, spans: vec![span] };
                covers.extend(open.replace(next));
            }
        }
    }
    covers.extend(open);
}

/// Cuts runs of one symbol to a range of time.
struct Narrowing<'a> {
    wanted: &'a Wanted,
    times: ColumnReader<'a>,
    samples: Option<&'a ColumnSummaries>,
}

impl<'a> Narrowing<'a> {
    fn new(
        snapshot: &TableSnapshot,
        wanted: &'a Wanted,
        segment: &'a Segment,
        index: &'a SegmentIndex,
    ) -> Result<Narrowing<'a>> {
        let spec = snapshot.spec();
        let times = segment.column(spec, spec.time_position())?;
        Ok(Narrowing { wanted, times, samples: index.by_block(&spec.time)? })
    }

    fn within(&self, run: Range<usize>) -> Result<Range<usize>> {
        let bounds = self.wanted.times;
        let start = match bounds.min {
            i64::MIN => run.start,
            min => self.first(&run, |time| time < min)?,
        };
        let end = match bounds.max {
            i64::MAX => run.end,
            max => self.first(&(start..run.end), |time| time <= max)?,
        };
        Ok(start..end)
    }

    /// The first row of a run, or its end, of which `is_before` doesn't hold.
    fn first(&self, run: &Range<usize>, is_before: impl Fn(i64) -> bool) -> Result<usize> {
        // Times at the beginning of blocks that begin in the run tell which block to look into.
        let mut block = run.clone();
        if let Some(samples) = &self.samples {
            let firsts = samples.firsts();
            let (low, high) = (run.start.div_ceil(BLOCK_ROWS), run.end.div_ceil(BLOCK_ROWS).min(firsts.len()));
            if low < high {
                let before = firsts[low..high].partition_point(|time| is_before(time.cast_signed()));
                if before > 0 {
                    block.start = (low + before - 1) * BLOCK_ROWS;
                }
                if low + before < high {
                    block.end = (low + before) * BLOCK_ROWS;
                }
            }
        }
        let rows = block.start.max(run.start)..block.end.min(run.end);
        let times = self.times.read(rows.clone())?;
        Ok(rows.start + times_of(&times)?.partition_point(|time| is_before(*time)))
    }
}

fn to_usize(row: u64) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::cover::Cover;
    use super::*;

    #[test]
    fn blocks_hold_neighbours_and_cut_long_spans() {
        let spans = vec![
            Span { rows: 0..3, run: Some(0) },
            Span { rows: 3..12, run: Some(1) },
            Span { rows: 20..22, run: Some(2) },
        ];
        let parts = blocks_of(spans, 5);
        assert_eq!(parts, [(0..5, 2), (5..10, 1), (10..12, 1), (20..22, 1)]);
    }

    fn blocks_of(spans: Vec<Span>, rows_max: usize) -> Vec<(Range<usize>, usize)> {
        Cover::blocks_of(&spans, rows_max).into_iter().map(|block| (block.rows, block.spans.len())).collect()
    }
}
