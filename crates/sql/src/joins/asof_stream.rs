//! One stream of an as-of join: a merge of both sides, left batch by left batch, within it group by group.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use datafusion::common::{JoinType, Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use splay_engine::asof::{Direction, MatchRule, match_rows};

use super::asof_join::AsofSettings;
use super::picks::PickedRows;
use super::right_side::{KeyedBatch, RightSide, comparators, locate, window_times};

/// One stream of an as-of join.
pub(super) struct AsofStream {
    left: SendableRecordBatchStream,
    right: RightSide,
    settings: Arc<AsofSettings>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    left_batches: u64,
    picks: PickedRows,
}

impl AsofStream {
    /// The answer's stream.
    pub(super) fn start(
        left: SendableRecordBatchStream,
        right: SendableRecordBatchStream,
        settings: Arc<AsofSettings>,
        reservation: MemoryReservation,
        metrics: BaselineMetrics,
    ) -> SendableRecordBatchStream {
        let schema = Arc::clone(&settings.schema);
        let right = RightSide::new(right, settings.right.clone(), !settings.is_order_complete);
        let picks = PickedRows::default();
        let stream = AsofStream { left, right, settings, reservation, metrics, left_batches: 0, picks };
        let batches = futures::stream::try_unfold(stream, |mut stream| async move {
            Ok(stream.next_batch().await?.map(|batch| (batch, stream)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// The next batch with rows.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(rows) = self.left.next().await.transpose()? {
            if rows.num_rows() == 0 {
                continue;
            }
            self.left_batches += 1;
            let left = KeyedBatch::new(&self.settings.left, rows, false)?;
            self.picks.clear();
            let same = comparators(&left.keys, &left.keys)?;
            let mut from = 0;
            while from < left.len() {
                let end = left.group_end(&same, from);
                self.match_group(&left, from, end).await?;
                from = end;
            }
            let batch = self.joined(&left.rows)?;
            if batch.num_rows() > 0 {
                self.metrics.output_rows().add(batch.num_rows());
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Finds the right rows of the left rows `from..end`, whose keys are equal.
    async fn match_group(&mut self, left: &KeyedBatch, from: usize, end: usize) -> Result<()> {
        let timed = if left.has_null_key(from) { from } else { left.times_end(from, end) };
        if timed > from {
            self.right.skip_to(left, self.left_batches, from).await?;
            let mut next = from;
            while next < timed {
                next = self.match_loaded(left, next, timed)?;
                if next < timed {
                    self.right.load().await?;
                    self.reserve()?;
                }
            }
        }
        self.picks.rows.resize(end, None);
        Ok(())
    }

    /// Finds the right rows of as many left rows as the held rows decide; lets go of those that no later one can need.
    /// Returns the first row left over.
    fn match_loaded(&mut self, left: &KeyedBatch, from: usize, end: usize) -> Result<usize> {
        let rule = self.settings.rule;
        let group = self.right.group(left, self.left_batches, from)?;
        let mut copied = Vec::new();
        let window = window_times(&self.right, &group, &mut copied);
        let times = &left.times.values()[from..end];
        let decided = match window.last() {
            _ if group.is_closed => times.len(),
            // Further rows with the time of the last held row may still come.
            Some(last) => times.partition_point(|time| time < last),
            None => 0,
        };
        let mut matches = Vec::with_capacity(decided);
        match_rows(rule, &times[..decided], window, |row| matches.push(row));
        if !self.settings.is_order_complete && !group.is_closed {
            // Whether the last row held ties with the next one isn't known yet.
            let last = window.last();
            let undecided = matches.iter().position(|row| row.is_some_and(|row| window.get(row) == last));
            matches.truncate(undecided.unwrap_or(matches.len()));
        }
        let next = from + matches.len();
        let keep = times.get(matches.len()).map(|time| first_needed(rule, window, *time));
        for row in &matches {
            let Some(row) = row else {
                self.picks.rows.push(None);
                continue;
            };
            let (position, batch_row) = locate(&group, *row)?;
            if !self.settings.is_order_complete {
                self.refuse_tie(&group, *row, times[self.picks.rows.len() - from])?;
            }
            let right_batch = &self.right.batches[position];
            self.picks.push(right_batch.number, &right_batch.batch.rows, &self.settings.visible, batch_row)?;
        }
        if let (Some(keep), false) = (keep, group.is_closed) {
            self.right.release(&group, keep);
        }
        Ok(next)
    }

    /// An error if the match ties with a row that might as well be the match.
    fn refuse_tie(&self, group: &super::right_side::RightGroup, row: usize, left_time: i64) -> Result<()> {
        let (position, batch_row) = locate(group, row)?;
        let looked_back = self.right.batches[position].batch.times.value(batch_row) <= left_time
            && self.settings.rule.direction != Direction::Forward;
        let ties = if looked_back {
            self.right.ties_with_row_before(position, batch_row)?
        } else {
            match locate(group, row + 1) {
                Ok((position, batch_row)) => self.right.ties_with_row_before(position, batch_row)?,
                Err(_) => false,
            }
        };
        if ties {
            return exec_err!(
                "several right rows of an ASOF JOIN have the same keys and the same time, and nothing says which came \
                 first; give the sub-query on its right an ORDER BY that does"
            );
        }
        Ok(())
    }

    fn reserve(&mut self) -> Result<()> {
        self.reservation.try_resize(self.right.bytes + self.picks.bytes)
    }

    /// Left rows with the columns of their right rows.
    fn joined(&mut self, left: &RecordBatch) -> Result<RecordBatch> {
        self.reserve()?;
        let settings = &self.settings;
        let left_columns = left.num_columns();
        let types: Vec<&DataType> =
            settings.schema.fields()[left_columns..].iter().map(|field| field.data_type()).collect();
        let (left, rows) = if settings.join_type == JoinType::Inner && self.picks.rows.iter().any(Option::is_none) {
            let has_match = BooleanArray::from_iter(self.picks.rows.iter().map(|row| Some(row.is_some())));
            let rows = self.picks.rows.iter().copied().filter(Option::is_some).collect();
            (filter_record_batch(left, &has_match)?, rows)
        } else {
            (left.clone(), std::mem::take(&mut self.picks.rows))
        };
        let mut columns = left.columns().to_vec();
        for (column, data_type) in types.into_iter().enumerate() {
            columns.push(self.picks.column(column, data_type, &rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&settings.schema), columns, &options)?)
    }
}

/// How many leading rows of a window can't match `time` or anything later.
fn first_needed(rule: MatchRule, window: &[i64], time: i64) -> usize {
    let before = window.partition_point(|other| *other < time);
    let up_to = window.partition_point(|other| *other <= time);
    match (rule.direction, rule.inclusive) {
        (Direction::Backward, true) => up_to.saturating_sub(1),
        (Direction::Backward, false) | (Direction::Nearest, _) => before.saturating_sub(1),
        (Direction::Forward, true) => before,
        (Direction::Forward, false) => up_to,
    }
}
