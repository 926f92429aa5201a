//! One stream of a window join: for each left row the right rows of its window, batch by batch of the answer.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use splay_engine::asof::{WindowRule, window_rows};

use super::picks::PickedRows;
use super::right_side::{KeyedBatch, RightGroup, RightSide, comparators, locate, whole_numbers, window_times};
use super::window_join::WindowSettings;

/// Left rows that a stream can number.
const STREAM_ROW_BITS: u32 = 40;

/// One stream of a window join.
pub(super) struct WindowStream {
    left: SendableRecordBatchStream,
    right: RightSide,
    settings: Arc<WindowSettings>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    left_batches: u64,
    /// Number of the first row of the next left batch.
    next_number: i64,
    work: Option<LeftBatchState>,
    chunk: AnswerChunk,
}

/// A left batch at work.
struct LeftBatchState {
    batch: KeyedBatch,
    ends: Int64Array,
    first_number: i64,
    /// Rows before it have their windows.
    next: usize,
    run: Option<WindowRun>,
}

/// Left rows of one group with their windows, some of them handed on already.
struct WindowRun {
    group: RightGroup,
    /// The left row and its range within the group.
    windows: Vec<(usize, Range<usize>)>,
    at: usize,
}

/// Rows of the answer that aren't handed on yet; all of one left batch.
#[derive(Default)]
struct AnswerChunk {
    left_rows: Vec<u32>,
    picks: PickedRows,
    positions: Vec<Option<i64>>,
}

impl WindowStream {
    /// The answer's stream.
    pub(super) fn start(
        left: SendableRecordBatchStream,
        right: SendableRecordBatchStream,
        settings: Arc<WindowSettings>,
        partition: usize,
        reservation: MemoryReservation,
        metrics: BaselineMetrics,
    ) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&settings.schema);
        let partition = i64::try_from(partition).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let stream = WindowStream {
            left,
            right: RightSide::new(right, settings.right.clone(), false),
            settings,
            reservation,
            metrics,
            left_batches: 0,
            next_number: partition << STREAM_ROW_BITS,
            work: None,
            chunk: AnswerChunk::default(),
        };
        let batches = futures::stream::try_unfold(stream, |mut stream| async move {
            Ok(stream.next_batch().await?.map(|batch| (batch, stream)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.chunk.left_rows.len() >= self.settings.batch_rows {
                return self.flush().map(Some);
            }
            let Some(work) = &mut self.work else {
                if !self.begin_batch().await? {
                    return Ok(None);
                }
                continue;
            };
            if work.run.is_some() {
                self.take_run()?;
            } else if work.next < work.batch.len() {
                self.begin_run().await?;
            } else if self.chunk.left_rows.is_empty() {
                self.work = None;
            } else {
                return self.flush().map(Some);
            }
        }
    }

    /// Takes the next left batch; false at the end.
    async fn begin_batch(&mut self) -> Result<bool> {
        loop {
            let Some(rows) = self.left.next().await.transpose()? else { return Ok(false) };
            if rows.num_rows() == 0 {
                continue;
            }
            let ends = whole_numbers(&self.settings.end.evaluate(&rows)?.into_array(rows.num_rows())?)?;
            let batch = KeyedBatch::new(&self.settings.left, rows, false)?;
            let first_number = self.next_number;
            self.next_number += i64::try_from(batch.len()).unwrap_or(i64::MAX);
            self.left_batches += 1;
            self.work = Some(LeftBatchState { batch, ends, first_number, next: 0, run: None });
            return Ok(true);
        }
    }

    /// Finds the windows of the next left rows of equal keys.
    async fn begin_run(&mut self) -> Result<()> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let (left, from) = (&work.batch, work.next);
        let end = left.group_end(&comparators(&left.keys, &left.keys)?, from);
        let settings = &self.settings;
        let has_null_key = left.has_null_key(from);
        let bounds: Vec<Option<(i64, i64)>> = (from..end)
            .map(|row| {
                if has_null_key || left.times.is_null(row) || work.ends.is_null(row) {
                    return None;
                }
                let begin = left.times.value(row).checked_add(i64::from(!settings.begin_inclusive))?;
                let end = work.ends.value(row).checked_sub(i64::from(!settings.end_inclusive))?;
                (begin <= end).then_some((begin, end))
            })
            .collect();
        let last = bounds.iter().flatten().map(|(_, end)| *end).max();
        let mut group = RightGroup { ranges: Vec::new(), is_closed: true };
        if let Some(last) = last {
            self.right.skip_to(left, self.left_batches, from).await?;
            loop {
                group = self.right.group(left, self.left_batches, from)?;
                let mut copied = Vec::new();
                let is_enough = window_times(&self.right, &group, &mut copied).last().is_some_and(|time| *time > last);
                if group.is_closed || is_enough {
                    break;
                }
                // What lies before the first window of the run is needed by no later one, but for the row that prevails.
                let first = bounds.iter().flatten().map(|(begin, _)| *begin).min().unwrap_or(i64::MAX);
                let times = window_times(&self.right, &group, &mut copied);
                let unneeded = times.partition_point(|time| *time < first).saturating_sub(1);
                self.right.release(&group, unneeded);
                self.right.load().await?;
                self.reservation.try_resize(self.right.bytes + self.chunk.picks.bytes)?;
            }
        }
        let mut copied = Vec::new();
        let times = window_times(&self.right, &group, &mut copied);
        let mut windows = Vec::with_capacity(bounds.len());
        let rule = WindowRule { prevailing: settings.prevailing };
        window_rows(rule, bounds.iter().copied(), times, |rows| windows.push((from + windows.len(), rows)));
        work.next = end;
        work.run = Some(WindowRun { group, windows, at: 0 });
        Ok(())
    }

    /// Takes rows of the run until it ends or the chunk is full.
    fn take_run(&mut self) -> Result<()> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let Some(run) = &mut work.run else { return Ok(()) };
        while let Some((left_row, rows)) = run.windows.get_mut(run.at) {
            if self.chunk.left_rows.len() >= self.settings.batch_rows {
                return Ok(());
            }
            let left_row = u32::try_from(*left_row).map_err(|error| DataFusionError::External(Box::new(error)))?;
            if rows.start >= rows.end {
                self.chunk.left_rows.push(left_row);
                self.chunk.picks.rows.push(None);
                self.chunk.positions.push(None);
                run.at += 1;
                continue;
            }
            let room = self.settings.batch_rows - self.chunk.left_rows.len();
            let row_range = rows.start..rows.end.min(rows.start + room);
            for row in row_range.clone() {
                let (position, batch_row) = locate(&run.group, row)?;
                let right_batch = &self.right.batches[position];
                self.chunk.left_rows.push(left_row);
                self.chunk.picks.push(
                    right_batch.number,
                    &right_batch.batch.rows,
                    &self.settings.visible,
                    batch_row,
                )?;
                self.chunk.positions.push(Some(position_number(right_batch.number, batch_row)));
            }
            // An emptied range means a window without rows, so the window is left behind instead.
            if row_range.end == rows.end {
                run.at += 1;
            } else {
                rows.start = row_range.end;
            }
        }
        work.run = None;
        Ok(())
    }

    /// The rows of the chunk as a batch.
    fn flush(&mut self) -> Result<RecordBatch> {
        let chunk = std::mem::take(&mut self.chunk);
        let Some(work) = &self.work else {
            return Err(DataFusionError::Internal("a window join lost its left rows".to_owned()));
        };
        self.reservation.try_resize(self.right.bytes + chunk.picks.bytes)?;
        let left_rows = UInt32Array::from(chunk.left_rows);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.settings.schema.fields().len());
        for column in work.batch.rows.columns() {
            columns.push(take(column, &left_rows, None)?);
        }
        let number = |row: &u32| work.first_number + i64::from(*row);
        columns.push(Arc::new(Int64Array::from_iter_values(left_rows.values().iter().map(number))));
        let first_right = columns.len();
        for column in 0..self.settings.visible.len() {
            let data_type = self.settings.schema.field(first_right + column).data_type();
            columns.push(chunk.picks.column(column, data_type, &chunk.picks.rows)?);
        }
        columns.push(Arc::new(BooleanArray::from_iter(chunk.picks.rows.iter().map(|row| Some(row.is_some())))));
        columns.push(Arc::new(Int64Array::from(chunk.positions)));
        let batch = RecordBatch::try_new(Arc::clone(&self.settings.schema), columns)?;
        self.metrics.output_rows().add(batch.num_rows());
        Ok(batch)
    }
}

/// A number that rises in the order of the right's rows.
fn position_number(batch: u64, row: usize) -> i64 {
    i64::try_from((batch << 32) | row as u64).unwrap_or(i64::MAX)
}
