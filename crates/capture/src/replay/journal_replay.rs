//! Batches of the journal in the order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::{Database, Dates, TableSpec};

use super::{ReplayBatch, ReplayRequest, date, instant};
use crate::error::{Error, Result};
use crate::journal::{JournalBatch, JournalCursor};
use crate::subscription_filter::SubscriptionFilter;

/// What the journal has of some tables.
#[derive(Debug)]
pub(super) struct JournalReplay {
    cursor: JournalCursor,
    specs: Vec<Arc<TableSpec>>,
    /// By table: its wanted symbols, and the instants within which batches were received.
    chosen: Vec<RowFilter>,
    date: Option<i32>,
    /// The first batch, which was looked at for its time.
    ahead: VecDeque<ReplayBatch>,
}

#[derive(Debug)]
struct RowFilter {
    filter: SubscriptionFilter,
    dates: Dates,
    from: i64,
    to: i64,
}

impl JournalReplay {
    pub(super) fn open(
        database: &Database,
        request: &ReplayRequest,
        specs: &[Arc<TableSpec>],
        after: u64,
    ) -> Result<JournalReplay> {
        let (cursor, first) = JournalCursor::over_all(database.raw_storage(), after)?;
        if after > 0 && after.saturating_add(1) < first {
            return Err(Error::Gone { table: specs[0].name.clone(), after, oldest: first });
        }
        let chosen = specs.iter().map(|spec| {
            Ok(RowFilter {
                filter: SubscriptionFilter::new(spec, request.symbols.as_deref(), None)?,
                dates: spec.dates()?,
                from: instant(spec, request, request.from.as_ref())?.unwrap_or(i64::MIN),
                to: instant(spec, request, request.to.as_ref())?.unwrap_or(i64::MAX),
            })
        });
        let chosen = chosen.collect::<Result<_>>()?;
        let (specs, ahead, date) = (specs.to_vec(), VecDeque::new(), date(request)?);
        let mut recorded = JournalReplay { cursor, specs, chosen, date, ahead };
        recorded.ahead = recorded.next()?.into_iter().collect();
        Ok(recorded)
    }

    /// When its first batch came in.
    pub(super) fn begins(&self) -> Option<i64> {
        self.ahead.front().map(|next_batch| next_batch.due)
    }

    pub(super) fn next(&mut self) -> Result<Option<ReplayBatch>> {
        if let Some(next_batch) = self.ahead.pop_front() {
            return Ok(Some(next_batch));
        }
        loop {
            let specs = &self.specs;
            let place = |name: &str| specs.iter().position(|spec| spec.name.eq_ignore_ascii_case(name));
            let next = self.cursor.next(|name| place(name).is_some()).map_err(|error| error.about(&specs[0].name));
            let Some(batch) = next? else { return Ok(None) };
            let Some(table) = place(&batch.spec.name) else { continue };
            if let Some(rows) = self.chosen_rows(table, &batch)? {
                return Ok(Some(ReplayBatch { table, sequence: batch.sequence, due: batch.received, rows }));
            }
        }
    }

    fn chosen_rows(&mut self, table: usize, batch: &JournalBatch) -> Result<Option<RecordBatch>> {
        let (chosen, received) = (&mut self.chosen[table], batch.received);
        let is_of_date = self.date.is_none_or(|date| chosen.dates.of(received) == date);
        if !is_of_date || received < chosen.from || received >= chosen.to {
            return Ok(None);
        }
        chosen.filter.of(&self.specs[table], &batch.rows)
    }
}
