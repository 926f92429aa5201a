//! From a scan's bounds to its rows: partitions by date and time, symbols by the directory, times by binary search.

use std::ops::Range;
use std::sync::Arc;

use splay_store::{BLOCK_ROWS, Bounds, ColumnReader, ColumnSummaries, Partition, Segment, SegmentIndex, TableSnapshot};

use super::RowSelection;
use super::cover::{Cover, Span, times_of};
use super::prefetch::open;
use crate::error::{Error, Result};
use crate::parallel;
use crate::search::partition_from;
use crate::vector::vectorized;

/// Spans with no more rows than this between them are read together. It is also the number of rows that the store checks at
/// a time, so reading the rows between costs no checks that aren't made anyway.
const GAP_ROWS_MAX: usize = 8192;

/// Pieces that the search for a range of times in a run counts for: it misses the cache some ten times.
const SEARCH_PIECES: usize = 2;

/// Rows of a run up to which its times are read with those of its neighbours: of longer ones a search touches few blocks.
const SHORT_ROWS_MAX: usize = 1_024;

/// Rows whose times are read at once.
const TOGETHER_ROWS_MAX: usize = 65_536;

/// Rows from which on a search for a time begins where it would be if times were evenly spread.
const GUESSED_ROWS_MIN: usize = 64;

/// An end of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableEnd {
    First,
    Last,
}

/// The wanted rows in the order of the table. With `by_symbol` each span is of one symbol.
pub(crate) fn find(
    snapshot: &TableSnapshot,
    selection: &RowSelection,
    by_symbol: bool,
    threads: usize,
) -> Result<Vec<Cover>> {
    let mut covers = Vec::new();
    if selection.times.is_empty() || selection.dates.is_empty() {
        return Ok(covers);
    }
    let dated = || snapshot.partitions().iter().filter(|partition| selection.dates.contains(partition.date));
    let in_time = |segment: &&Arc<Segment>| {
        segment.entry().time_max >= selection.times.min && segment.entry().time_min <= selection.times.max
    };
    open(dated().flat_map(|partition| partition.segments.iter()).filter(in_time));
    for partition in dated() {
        for stretch in stretches(partition) {
            find_in(&SegmentSearch { snapshot, selection, by_symbol, threads }, partition.date, stretch, &mut covers)?;
        }
    }
    Ok(covers)
}

/// Segments of a partition whose rows follow each other one by one, or all of them together if symbols are spread over them.
fn stretches(partition: &Partition) -> Vec<&[Arc<Segment>]> {
    let size = if partition.is_in_sequence() { 1 } else { partition.segments.len().max(1) };
    partition.segments.chunks(size).collect()
}

/// Covers of the selected rows, in the order of the table, that contain the first or the last one by time or by that order. Segments that can't
/// contain it aren't opened.
pub(crate) fn find_end(
    snapshot: &TableSnapshot,
    selection: &RowSelection,
    end: TableEnd,
    by_time: bool,
) -> Result<Vec<Cover>> {
    let mut all: Vec<(i32, &[Arc<Segment>])> = snapshot
        .partitions()
        .iter()
        .filter(|partition| selection.dates.contains(partition.date))
        .flat_map(|partition| stretches(partition).into_iter().map(move |segments| (partition.date, segments)))
        .collect();
    if end == TableEnd::Last {
        all.reverse();
    }
    let mut covers = Vec::new();
    let mut best: Option<i64> = None;
    for (date, segments) in all {
        let entries = || segments.iter().map(|segment| segment.entry());
        let is_beaten = best.is_some_and(|best| match end {
            _ if !by_time => true,
            TableEnd::First => entries().all(|entry| entry.time_min >= best),
            TableEnd::Last => entries().all(|entry| entry.time_max <= best),
        });
        if is_beaten {
            continue;
        }
        let mut segment_covers: Vec<Cover> = Vec::new();
        find_in(
            &SegmentSearch { snapshot, selection, by_symbol: by_time, threads: 1 },
            date,
            segments,
            &mut segment_covers,
        )?;
        for cover in &segment_covers {
            let times = cover.segment.column(snapshot.spec(), snapshot.spec().time_position())?;
            for span in &cover.spans {
                let row = if end == TableEnd::First { span.rows.start } else { span.rows.end - 1 };
                let time = times_of(&times.read(row..row + 1)?)?[0];
                let is_better = best.is_none_or(|best| if end == TableEnd::First { time < best } else { time > best });
                if is_better {
                    best = Some(time);
                }
            }
        }
        if end == TableEnd::Last {
            segment_covers.reverse();
        }
        covers.extend(segment_covers);
    }
    if end == TableEnd::Last {
        covers.reverse();
    }
    Ok(covers)
}

/// A search in the segments of a table.
#[derive(Clone, Copy)]
struct SegmentSearch<'a> {
    snapshot: &'a TableSnapshot,
    selection: &'a RowSelection,
    by_symbol: bool,
    threads: usize,
}

fn find_in(search: &SegmentSearch<'_>, date: i32, segments: &[Arc<Segment>], covers: &mut Vec<Cover>) -> Result<()> {
    if let [segment] = segments {
        gather(segment, date, search.spans(segment)?, covers);
        return Ok(());
    }
    // Symbols are spread over the segments: one after the other, each through all segments.
    let by_symbol = SegmentSearch { by_symbol: true, ..*search };
    let mut all = Vec::new();
    for (number, segment) in segments.iter().enumerate() {
        for span in by_symbol.spans(segment)? {
            let symbol = span.run.map(|run| segment.index()?.symbol(run)).transpose()?.flatten();
            all.push((symbol, number, span));
        }
    }
    all.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    let mut all = all.into_iter().peekable();
    while let Some((_, number, span)) = all.next() {
        let mut together = vec![span];
        while let Some((_, _, span)) = all.next_if(|(_, next, _)| *next == number) {
            together.push(span);
        }
        gather(&segments[number], date, together, covers);
    }
    Ok(())
}

impl SegmentSearch<'_> {
    /// The wanted rows of a segment, ascending. With `by_symbol` each span is of one symbol.
    fn spans(&self, segment: &Segment) -> Result<Vec<Span>> {
        let (selection, entry) = (self.selection, segment.entry());
        if entry.time_max < selection.times.min || entry.time_min > selection.times.max || segment.rows() == 0 {
            return Ok(Vec::new());
        }
        if let (Some(symbols), Some((first, last))) = (&selection.symbols, &entry.symbols)
            && !symbols.iter().any(|symbol| first <= symbol && symbol <= last)
        {
            return Ok(Vec::new());
        }
        let whole_time = entry.time_min >= selection.times.min && entry.time_max <= selection.times.max;
        if whole_time && selection.symbols.is_none() && selection.condition.is_none() && !self.by_symbol {
            let rows = segment.ranges()?.into_iter().map(|rows| to_usize(rows.start)..to_usize(rows.end));
            return Ok(rows.map(|rows| Span { rows, run: None }).collect());
        }
        let index = segment.index()?;
        let narrowing =
            if whole_time { None } else { Some(TimeSearch::new(self.snapshot, selection, segment, index)?) };
        if let (Some(condition), None) = (&selection.condition, &selection.symbols) {
            let runs = condition.runs(index)?;
            return self.each(index, runs.len(), narrowing.as_ref(), |number| Ok(Some(runs[number])));
        }
        match &selection.symbols {
            None => self.each(index, index.symbols()?, narrowing.as_ref(), |run| Ok(Some(run))),
            Some(symbols) => {
                self.each(index, symbols.len(), narrowing.as_ref(), |number| Ok(index.find_symbol(&symbols[number])?))
            }
        }
    }

    /// The spans of some runs, by threads where they are searched for times.
    fn each(
        &self,
        index: &SegmentIndex,
        runs: usize,
        narrowing: Option<&TimeSearch<'_>>,
        run: impl Fn(usize) -> Result<Option<usize>> + Sync,
    ) -> Result<Vec<Span>> {
        let pieces = if narrowing.is_some() { SEARCH_PIECES * runs } else { 0 };
        let threads = parallel::threads_for(0, pieces, self.threads);
        let share = runs.div_ceil(threads.max(1)).max(1);
        let whole = |number: usize| -> Result<Option<Span>> {
            let Some(run) = run(number)? else { return Ok(None) };
            let rows = index.symbol_rows(run)?;
            Ok(Some(Span { rows: to_usize(rows.start)..to_usize(rows.end), run: Some(run) }))
        };
        let parts = parallel::each(runs.div_ceil(share), threads, |part| {
            let own = part * share..runs.min((part + 1) * share);
            let own = own.filter_map(|number| whole(number).transpose()).collect::<Result<Vec<Span>>>()?;
            let mut own = match narrowing {
                Some(narrowing) => narrowing.cut_to_times(own)?,
                None => own,
            };
            own.retain(|span| !span.rows.is_empty());
            Ok::<_, Error>(own)
        })?;
        let mut parts = parts.into_iter();
        let mut spans = parts.next().unwrap_or_default();
        parts.for_each(|more| spans.extend(more));
        Ok(spans)
    }
}

/// The wanted rows of one symbol in a segment; of a table without symbols all wanted rows. Dates aren't looked at.
pub(crate) fn rows_of_symbol(
    snapshot: &TableSnapshot,
    segment: &Segment,
    symbol: Option<&str>,
    selection: &RowSelection,
) -> Result<Range<usize>> {
    let entry = segment.entry();
    if entry.time_max < selection.times.min || entry.time_min > selection.times.max {
        return Ok(0..0);
    }
    let index = segment.index()?;
    let rows = match symbol {
        None => 0..segment.ranges()?.last().map_or(0, |rows| rows.end),
        Some(symbol) => match index.find_symbol(symbol)? {
            Some(run) => index.symbol_rows(run)?,
            None => return Ok(0..0),
        },
    };
    let rows = to_usize(rows.start)..to_usize(rows.end);
    if entry.time_min >= selection.times.min && entry.time_max <= selection.times.max {
        return Ok(rows);
    }
    TimeSearch::new(snapshot, selection, segment, index)?.within(rows)
}

/// Puts spans that are close together into one cover.
pub(super) fn gather(segment: &Arc<Segment>, date: i32, spans: Vec<Span>, covers: &mut Vec<Cover>) {
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
struct TimeSearch<'a> {
    selection: &'a RowSelection,
    times: ColumnReader<'a>,
    samples: Option<&'a ColumnSummaries>,
}

impl<'a> TimeSearch<'a> {
    fn new(
        snapshot: &TableSnapshot,
        selection: &'a RowSelection,
        segment: &'a Segment,
        index: &'a SegmentIndex,
    ) -> Result<TimeSearch<'a>> {
        let spec = snapshot.spec();
        let times = segment.column(spec, spec.time_position())?;
        Ok(TimeSearch { selection, times, samples: index.by_block(&spec.time)? })
    }

    /// The spans cut to the range of time, which leaves nothing of some. Times of short ones side by side are read at once.
    fn cut_to_times(&self, mut spans: Vec<Span>) -> Result<Vec<Span>> {
        let mut first = 0;
        while first < spans.len() {
            let start = spans[first].rows.start;
            let is_short = |span: &Span| span.rows.len() <= SHORT_ROWS_MAX;
            let beside = |pair: &[Span]| {
                is_short(&pair[1])
                    && pair[0].rows.end == pair[1].rows.start
                    && pair[1].rows.end - start <= TOGETHER_ROWS_MAX
            };
            let more = spans[first..].windows(2).take_while(|pair| beside(pair)).count();
            let last = first + if is_short(&spans[first]) { more } else { 0 };
            let together = &mut spans[first..=last];
            first += together.len();
            if let [alone] = together {
                alone.rows = self.within(alone.rows.clone())?;
                continue;
            }
            let times = self.times.read(start..together[together.len() - 1].rows.end)?;
            let (times, bounds) = (times_of(&times)?, self.selection.times);
            for span in together {
                let own = times.get(span.rows.start - start..span.rows.end - start).unwrap_or_default();
                let (before, until) = places(own, bounds);
                span.rows = span.rows.start + before..span.rows.start + until.max(before);
            }
        }
        Ok(spans)
    }

    fn within(&self, run: Range<usize>) -> Result<Range<usize>> {
        let bounds = self.selection.times;
        let start = match bounds.min {
            i64::MIN => run.start,
            min => self.first(&run, min, false)?,
        };
        let end = match bounds.max {
            i64::MAX => run.end,
            max => self.end(start..run.end, max)?,
        };
        Ok(start..end)
    }

    /// The first row of a run after an instant, or its end: most ranges of time end in the block that they begin in.
    fn end(&self, run: Range<usize>, max: i64) -> Result<usize> {
        let near = run.start..run.end.min((run.start / BLOCK_ROWS + 1) * BLOCK_ROWS);
        let times = self.times.read(near.clone())?;
        let times = times_of(&times)?;
        let rows = partition_from(times, 0, |time| time <= max);
        if rows < times.len() || near.end == run.end {
            return Ok(near.start + rows);
        }
        self.first(&(near.end..run.end), max, true)
    }

    /// The first row of a run, or its end, whose time isn't before an instant, or with `after` is after it.
    fn first(&self, run: &Range<usize>, instant: i64, after: bool) -> Result<usize> {
        let is_before = |time: i64| if after { time <= instant } else { time < instant };
        // Times at the beginning of blocks that begin in the run tell which block to look into.
        let mut block = run.clone();
        let (mut earliest, mut latest) = (None, None);
        if let Some(samples) = &self.samples {
            let firsts = samples.firsts();
            let (low, high) = (run.start.div_ceil(BLOCK_ROWS), run.end.div_ceil(BLOCK_ROWS).min(firsts.len()));
            if low < high {
                let before = firsts[low..high].partition_point(|time| is_before(time.cast_signed()));
                if before > 0 {
                    block.start = (low + before - 1) * BLOCK_ROWS;
                    earliest = Some(firsts[low + before - 1].cast_signed());
                }
                if low + before < high {
                    block.end = (low + before) * BLOCK_ROWS;
                    latest = Some(firsts[low + before].cast_signed());
                }
            }
        }
        let rows = block.start.max(run.start)..block.end.min(run.end);
        let times = self.times.read(rows.clone())?;
        let times = times_of(&times)?;
        let guess = match (times.first(), times.last()) {
            (Some(first), Some(last)) if times.len() >= GUESSED_ROWS_MIN => {
                place_between(earliest.unwrap_or(*first), latest.unwrap_or(*last), instant, times.len())
            }
            _ => times.len() / 2,
        };
        Ok(rows.start + partition_from(times, guess, is_before))
    }
}

/// How many of a few ascending times are before some bounds, and how many aren't behind them. They are all looked at: a search waits for memory
/// at each step, and to read on is faster.
fn places(times: &[i64], bounds: Bounds<i64>) -> (usize, usize) {
    vectorized(
        #[inline(always)]
        || {
            let count = |(before, until): (usize, usize), time: &i64| {
                (before + usize::from(*time < bounds.min), until + usize::from(*time <= bounds.max))
            };
            times.iter().fold((0, 0), count)
        },
    )
}

/// The place where an instant would stand among `rows` evenly spaced times between two others.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the rows, and a guess at that")]
fn place_between(earliest: i64, latest: i64, instant: i64, rows: usize) -> usize {
    let share = instant.saturating_sub(earliest) as f64 / latest.saturating_sub(earliest).max(1) as f64;
    (share.clamp(0.0, 1.0) * rows as f64) as usize
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
