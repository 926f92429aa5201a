//! Chooses the period of a new table's partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Load;
use crate::error::Result;
use crate::partition::Period;

/// Dates of a new table from which on what its partitions span is chosen; tables of fewer have one for each.
const CHOOSING_DATES_MIN: usize = 32;

/// Rows that a partition has, on average, if its period is long enough.
const PARTITION_ROWS_MIN: u64 = 1 << 18;

/// Rows that a symbol has in it.
const RUN_ROWS_MIN: u64 = 64;

/// Rows of a partition that are enough however few each symbol has.
const PARTITION_ROWS_MAX: u64 = 1 << 24;

impl Load {
    /// Chooses what a partition of a new table spans: the shortest period whose partitions have rows enough, and each symbol rows enough in
    /// them, judged by these rows.
    pub(super) fn choose_partition(&mut self) -> Result<()> {
        let dates = self.partitions.len();
        let Some(fullest) = self.partitions.values().max_by_key(|incoming| incoming.batches.len()) else {
            return Ok(());
        };
        if dates < CHOOSING_DATES_MIN {
            return Ok(());
        }
        let symbols = fullest.symbols(&self.spec)?;
        let is_enough = |period: &Period| {
            let firsts: BTreeSet<i32> = self.partitions.keys().map(|date| period.first(*date)).collect();
            let rows = self.rows / firsts.len() as u64;
            rows >= PARTITION_ROWS_MIN && rows / symbols >= RUN_ROWS_MIN || rows >= PARTITION_ROWS_MAX
        };
        let period = [Period::Day, Period::Month].into_iter().find(is_enough).unwrap_or(Period::Year);
        if period.is_day() {
            return Ok(());
        }
        self.spec.partition = period;
        self.dates = self.spec.partitions()?;
        let storage = Arc::clone(self.writer.storage());
        for (date, incoming) in std::mem::take(&mut self.partitions) {
            let together = self.partitions.entry(period.first(date)).or_default();
            together.add(incoming);
            together.merge_runs(&self.spec, &storage, &mut self.runs)?;
        }
        Ok(())
    }
}
