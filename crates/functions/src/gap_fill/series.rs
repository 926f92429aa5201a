//! One series: the rows of one combination of keys, and those that are made between them.
//!
//! Rows come in the order of time, those without a time at the end. Batches are made when they are requested.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, TimestampNanosecondArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Float64Type, SchemaRef, TimestampNanosecondType};
use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_err};
use splay_calendar::Calendar;

use super::calls::FillKind;
use super::node::Fill;
use crate::time_bucket::Timeline;

/// Rows that one gap fill may make, beyond which a mistake is likelier than a wish.
pub(super) const MADE_ROWS_MAX: u64 = 100_000_000;

/// Buckets and bounds of a gap fill, which are known before the first row.
#[derive(Debug, Clone)]
pub(super) struct FillSpan {
    pub timeline: Timeline,
    /// In whose sessions buckets are made, if not everywhere.
    pub calendar: Option<Arc<Calendar>>,
    /// The first instant of the range.
    pub from: Option<i64>,
    /// The first instant behind the range.
    pub to: Option<i64>,
}

/// What every series of a plan is filled by.
#[derive(Debug)]
pub(super) struct SeriesFill {
    pub schema: SchemaRef,
    pub span: FillSpan,
    pub time: usize,
    pub groups: usize,
    pub fills: Vec<Fill>,
    /// Rows made so far, by all streams.
    pub made: Arc<AtomicU64>,
}

/// Rows of a series that are being given out.
pub(super) struct OutputSeries {
    rows: RecordBatch,
    times: TimestampNanosecondArray,
    /// Rows that have a time; those behind them haven't.
    timed: usize,
    next_row: usize,
    /// Start of the next bucket that is made unless there is a row for it.
    next_bucket: Option<i64>,
    /// The first instant at which no row is made any more.
    end: i64,
    tracks: Vec<Track>,
}

/// Where a filled column has values.
struct Track {
    /// For each row with a time, the first row from there on that has a value.
    values_from: Vec<Option<usize>>,
    /// The last row with a value among those given out.
    before: Option<usize>,
    /// The next row to be given out.
    next_row: usize,
}

/// One row of the output: a row of the input or a made one, and its time.
#[derive(Clone, Copy)]
struct OutputRow {
    row: Option<usize>,
    time: Option<i64>,
}

impl OutputSeries {
    pub(super) fn new(rows: RecordBatch, filling: &SeriesFill) -> Result<OutputSeries> {
        let times = rows.column(filling.time).as_primitive::<TimestampNanosecondType>().clone();
        let timed = times.len() - times.null_count();
        let tracks = filling.fills.iter().map(|fill| Track::new(rows.column(fill.column), timed)).collect();
        let first = (timed > 0).then(|| times.value(0));
        let start = match filling.span.from {
            Some(from) => Some(bucket_start(&filling.span, from)?),
            None => first,
        };
        let end = filling.span.to.or_else(|| timed.checked_sub(1).map(|last| times.value(last)));
        Ok(OutputSeries { timed, next_row: 0, next_bucket: start, end: end.unwrap_or(i64::MIN), tracks, times, rows })
    }

    /// The next rows, at most so many; `None` at the end.
    pub(super) fn next_batch(&mut self, filling: &SeriesFill, rows_max: usize) -> Result<Option<RecordBatch>> {
        let mut slots = Vec::new();
        let mut made = 0;
        while slots.len() < rows_max
            && let Some(slot) = self.next_slot(filling)?
        {
            made += u64::from(slot.row.is_none());
            slots.push(slot);
        }
        if filling.made.fetch_add(made, Ordering::Relaxed) + made > MADE_ROWS_MAX {
            return too_many();
        }
        if slots.is_empty() {
            return Ok(None);
        }
        let picked: UInt64Array = slots.iter().map(|slot| slot.row.map(|row| row as u64)).collect();
        let mut columns = Vec::with_capacity(self.rows.num_columns());
        for (position, column) in self.rows.columns().iter().enumerate() {
            columns.push(if position == filling.time {
                let times: TimestampNanosecondArray = slots.iter().map(|slot| slot.time).collect();
                Arc::new(times.with_data_type(column.data_type().clone())) as ArrayRef
            } else if position < filling.groups {
                // All rows of a series share their keys. Without keys this column isn't reached.
                take(column, &UInt64Array::from(vec![0; slots.len()]), None)?
            } else {
                take(column, &picked, None)?
            });
        }
        for (fill, track) in filling.fills.iter().zip(&mut self.tracks) {
            columns[fill.column] =
                track.fill(fill.kind, &columns[fill.column], self.rows.column(fill.column), &slots, &self.times)?;
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(&filling.schema), columns)?))
    }

    fn next_slot(&mut self, filling: &SeriesFill) -> Result<Option<OutputRow>> {
        let next_time = (self.next_row < self.timed).then(|| self.times.value(self.next_row));
        let bucket = self.next_bucket.filter(|bucket| *bucket < self.end);
        if let Some(bucket) = bucket.filter(|bucket| next_time.is_none_or(|next| *bucket < next)) {
            match bucket_in_session(&filling.span, bucket)? {
                Some(in_session) if in_session == bucket => {
                    self.next_bucket = following(&filling.span, bucket);
                    return Ok(Some(OutputRow { row: None, time: Some(bucket) }));
                }
                other => {
                    self.next_bucket = other;
                    return self.next_slot(filling);
                }
            }
        }
        let row = self.next_row;
        if row == self.rows.num_rows() {
            return Ok(None);
        }
        self.next_row += 1;
        if let Some(time) = next_time
            && self.next_bucket.is_some_and(|bucket| bucket <= time)
        {
            self.next_bucket = following(&filling.span, time);
        }
        Ok(Some(OutputRow { row: Some(row), time: next_time }))
    }
}

/// The start of the bucket behind that of `time`, if there is one.
fn following(span: &FillSpan, time: i64) -> Option<i64> {
    span.timeline.bucket(time).map(|bucket| bucket.end).filter(|end| *end > time && *end < i64::MAX)
}

/// The first bucket from one on that shares an instant with a session; none behind the last session.
fn bucket_in_session(span: &FillSpan, start: i64) -> Result<Option<i64>> {
    let (Some(calendar), Some(bucket)) = (&span.calendar, span.timeline.bucket(start)) else { return Ok(Some(start)) };
    let session = calendar.search().session_or_next(start).map_err(|error| exec_datafusion_err!("{error}"))?;
    let Some(session) = session else { return Ok(None) };
    if session.open < bucket.end {
        return Ok(Some(start));
    }
    let next = span.timeline.bucket(session.open).map(|bucket| bucket.start);
    Ok(next.filter(|next| *next > start).or_else(|| following(span, start)))
}

fn bucket_start(span: &FillSpan, time: i64) -> Result<i64> {
    match span.timeline.bucket(time) {
        Some(bucket) => Ok(bucket.start),
        None => exec_err!("the first bucket of the range begins before the first representable time, 1677-09-21"),
    }
}

pub(super) fn too_many<T>() -> Result<T> {
    exec_err!(
        "filling the gaps would make more than {MADE_ROWS_MAX} rows: narrow the range of times or widen the buckets"
    )
}

impl Track {
    fn new(column: &ArrayRef, timed: usize) -> Track {
        let nulls = column.logical_nulls();
        let mut values_from = vec![None; timed];
        let mut next = None;
        for row in (0..timed).rev() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                next = Some(row);
            }
            values_from[row] = next;
        }
        Track { values_from, before: None, next_row: 0 }
    }

    /// The column of these slots, filled. `picked` has the values of the rows that are from the input.
    fn fill(
        &mut self,
        kind: FillKind,
        picked: &ArrayRef,
        source: &ArrayRef,
        slots: &[OutputRow],
        times: &TimestampNanosecondArray,
    ) -> Result<ArrayRef> {
        let around = self.around(slots);
        match kind {
            FillKind::Previous => {
                let rows = slots.iter().zip(&around).map(|(slot, around)| match (slot.time, around) {
                    // A row without a time is before or behind nothing.
                    (None, _) => slot.row,
                    (_, NeighbourRows { before, .. }) => *before,
                });
                Ok(take(source, &rows.map(|row| row.map(|row| row as u64)).collect::<UInt64Array>(), None)?)
            }
            FillKind::Linear => {
                let Some(values) = source.as_primitive_opt::<Float64Type>() else {
                    return internal_err!("interpolate works on Float64, not {}", picked.data_type());
                };
                let picked = picked.as_primitive::<Float64Type>();
                let rows = slots.iter().zip(&around).enumerate().map(|(position, (slot, around))| {
                    if picked.is_valid(position) {
                        return Some(picked.value(position));
                    }
                    let (time, before, behind) = (slot.time?, around.before?, around.behind?);
                    let whole = distance(times.value(before)..times.value(behind));
                    let share = distance(times.value(before)..time) / whole;
                    let (first, last) = (values.value(before), values.value(behind));
                    Some(first + (last - first) * share)
                });
                Ok(Arc::new(rows.collect::<Float64Array>()))
            }
        }
    }

    /// For each slot the last row with a value up to it, and the first one from it on.
    fn around(&mut self, slots: &[OutputRow]) -> Vec<NeighbourRows> {
        let around = slots.iter().map(|slot| {
            let behind = self.values_from.get(self.next_row).copied().flatten();
            if let Some(row) = slot.row {
                self.next_row = row + 1;
                if behind == Some(row) {
                    self.before = Some(row);
                }
            }
            NeighbourRows { before: self.before, behind }
        });
        around.collect()
    }
}

struct NeighbourRows {
    before: Option<usize>,
    behind: Option<usize>,
}

/// Nanoseconds between two times; two times may lie further apart than 64 bits count.
fn distance(times: Range<i64>) -> f64 {
    (i128::from(times.end) - i128::from(times.start)) as f64
}
