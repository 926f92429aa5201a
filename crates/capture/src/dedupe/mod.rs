//! Deduplication of captured rows: those that a second feed also sends, or a feed sends again after it reconnected.
//!
//! - The journal's thread decides which rows are duplicates, before it writes them. The journal contains only the
//!   other rows, so replays, subscribers and readers decide nothing.
//! - A row is compared with the rows of its table that are at most a window older than the table's latest row, by
//!   digests of the columns that make rows equal ([`RowDigests`](splay_store::RowDigests)), which senders' threads
//!   compute.
//! - The keys of a group become final once the group is written. If the write fails, none of its rows counts as seen.
//! - A window is filled from the table at a start, and whenever a commit may have changed the table otherwise: a
//!   deleted row is no duplicate when it arrives again.
//!
//! Reasons: docs/adr/0061-duplicates-are-left-out-before-the-journal.md.

mod fill;
mod keys;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
mod window;

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::TimestampNanosecondType;

use window::DedupeWindow;

use crate::dedupe_rules::{BatchDigests, DedupeRules};
use crate::error::{Error, Result};
use crate::live::LiveTable;
use crate::queue::PendingBatch;

/// Finds the duplicates among rows on their way to the journal. Belongs to the journal's thread.
pub(crate) struct Deduplicator {
    rules: Arc<DedupeRules>,
    /// By the number of the rule.
    windows: Vec<Option<DedupeWindow>>,
    /// Rules whose windows were looked at for the group that is being written, with the reason where one can't be had.
    looked: Vec<(usize, Result<()>)>,
}

impl Deduplicator {
    pub(crate) fn new(rules: &Arc<DedupeRules>) -> Deduplicator {
        let windows = rules.all().iter().map(|_| None).collect();
        Deduplicator { rules: Arc::clone(rules), windows, looked: Vec::new() }
    }

    /// Fills the windows of tables that are there, so that the first rows don't wait for it. One that can't be filled now is tried again when
    /// rows come.
    pub(crate) fn prepare(&mut self, live_of: impl Fn(&str) -> Option<Arc<LiveTable>>, clock: i64) {
        for (number, rule) in self.rules.all().iter().enumerate() {
            let Some(live) = live_of(&rule.table) else { continue };
            match fill::window(&live, rule, clock) {
                Ok(window) => self.windows[number] = Some(window),
                Err(error) => tracing::warn!(table = %rule.table, %error, "rows to find duplicates by can't be read"),
            }
        }
    }

    /// Looks at the tables of a group, before anything is decided about its rows.
    pub(crate) fn begin(&mut self, group: &[Vec<PendingBatch>]) {
        self.looked.clear();
        for waiting in group.iter().flatten() {
            let Some(digests) = &waiting.digests else { continue };
            let number = digests.rule.number;
            if !self.looked.iter().any(|(looked, _)| *looked == number) {
                let result = self.look(waiting, digests);
                self.looked.push((number, result));
            }
        }
    }

    /// Takes care that a window has the rows that its table has.
    fn look(&mut self, waiting: &PendingBatch, digests: &BatchDigests) -> Result<()> {
        let window = &mut self.windows[digests.rule.number];
        let result = (|| {
            let stored = waiting.live.table().stored()?;
            let is_current = window.as_mut().map_or(Ok(false), |window| window.is_current(&stored))?;
            if !is_current {
                // The old window is dropped first: nothing of it can be used, and two would take twice the memory.
                *window = None;
                *window = Some(fill::window(&waiting.live, &digests.rule, waiting.clock)?);
            }
            Ok(())
        })();
        result.map_err(|error| match error {
            Error::Store(error) if !error.is_damage() => {
                let table = &digests.rule.table;
                Error::Full { reason: format!("the rows of {table} to find duplicates by can't be read: {error}") }
            }
            other => other,
        })
    }

    /// Leaves the duplicates out of a message, and gives their number.
    ///
    /// # Errors
    /// If it can't be told which rows are duplicates. No row of the message counts as seen then.
    pub(crate) fn leave_out(&mut self, together: &mut [PendingBatch]) -> Result<u64> {
        let number = |waiting: &PendingBatch| Some((waiting.digests.as_ref()?.rule.number, waiting.clock));
        let numbers: Vec<(usize, i64)> = together.iter().filter_map(number).collect();
        for (number, _) in &numbers {
            if let Some((_, Err(error))) = self.looked.iter().find(|(looked, _)| looked == number) {
                return Err(error.clone());
            }
        }
        for (number, clock) in &numbers {
            self.windows[*number].iter_mut().for_each(|window| window.begin_message(*clock));
        }
        let left_out = together.iter_mut().try_fold(0, |sum, waiting| Ok(sum + self.leave_out_of(waiting)?));
        if left_out.is_err() {
            for (number, _) in &numbers {
                self.windows[*number].iter_mut().for_each(DedupeWindow::forget_message);
            }
        }
        left_out
    }

    fn leave_out_of(&mut self, waiting: &mut PendingBatch) -> Result<u64> {
        let Some(digests) = waiting.digests.take() else { return Ok(0) };
        let Some(window) = &mut self.windows[digests.rule.number] else { return Ok(0) };
        let digests = if window.fits(&waiting.spec) { digests.of_rows } else { window.digests_of(&waiting.rows)? };
        let times = waiting.rows.column(waiting.spec.time_position()).as_primitive::<TimestampNanosecondType>();
        let is_new = window.new_rows(&digests, times.values());
        let left_out = is_new.iter().filter(|is_new| !**is_new).count();
        if left_out > 0 {
            waiting.keep(is_new)?;
        }
        Ok(left_out as u64)
    }

    /// The group is in the journal.
    pub(crate) fn written(&mut self) {
        for (number, _) in &self.looked {
            self.windows[*number].iter_mut().for_each(DedupeWindow::take_group);
        }
    }

    /// The group isn't in the journal.
    pub(crate) fn not_written(&mut self) {
        for (number, _) in &self.looked {
            self.windows[*number].iter_mut().for_each(DedupeWindow::forget_group);
        }
    }
}
