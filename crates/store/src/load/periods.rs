//! The period of partitions that fits a table's rows: chosen for a new table, advised for one that has grown.

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

/// The shortest period whose partitions have rows enough, and each of their symbols too. `dates` are those with rows, or the first ones of
/// longer partitions; days where there are too few of them to tell.
pub(crate) fn fitting_period(dates: &[i32], rows: u64, symbols: u64) -> Period {
    if dates.len() < CHOOSING_DATES_MIN {
        return Period::Day;
    }
    let is_enough = |period: &Period| {
        let firsts: BTreeSet<i32> = dates.iter().map(|date| period.first(*date)).collect();
        let rows = rows / firsts.len() as u64;
        rows >= PARTITION_ROWS_MIN && rows / symbols.max(1) >= RUN_ROWS_MIN || rows >= PARTITION_ROWS_MAX
    };
    [Period::Day, Period::Month].into_iter().find(is_enough).unwrap_or(Period::Year)
}

impl Load {
    /// Chooses what a partition of a new table spans, judged by these rows.
    pub(super) fn choose_partition(&mut self) -> Result<()> {
        let fullest = self.partitions.values().max_by_key(|incoming| incoming.batches.len());
        let Some(fullest) = fullest.filter(|_| self.partitions.len() >= CHOOSING_DATES_MIN) else { return Ok(()) };
        let dates: Vec<i32> = self.partitions.keys().copied().collect();
        let period = fitting_period(&dates, self.rows, fullest.symbols(&self.spec)?);
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
