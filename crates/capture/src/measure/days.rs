//! Rows that arrive for a date that has ended: they go to files of a date that may have been rolled, which is then
//! rolled again.

use std::sync::Arc;

use splay_store::{Dates, TableSpec};

/// Rows of ended dates that came in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LateDays {
    /// Their number.
    pub(crate) rows: u64,
    /// When the last of them came, in nanoseconds since the epoch.
    pub(crate) at: i64,
}

/// Tells dates that have ended from others, in a table's zone.
#[derive(Debug)]
pub(super) struct Days {
    /// Nanoseconds after its end for which a date counts as going on.
    delay: i64,
    zone: Option<DayZone>,
}

#[derive(Debug)]
struct DayZone {
    /// The table whose zone it is.
    spec: Arc<TableSpec>,
    /// Each remembers the last date that it was asked for.
    today: Dates,
    rows: Dates,
}

impl Days {
    pub(super) fn new(delay: i64) -> Days {
        Days { delay, zone: None }
    }

    /// How many of the times are of dates that had ended at `now`.
    pub(super) fn ended(&mut self, spec: &Arc<TableSpec>, times: &[i64], now: i64) -> u64 {
        if self.zone.as_ref().is_none_or(|zone| !Arc::ptr_eq(&zone.spec, spec)) {
            let (Ok(today), Ok(rows)) = (spec.dates(), spec.dates()) else { return 0 };
            self.zone = Some(DayZone { spec: Arc::clone(spec), today, rows });
        }
        let (Some(zone), Some(earliest)) = (&mut self.zone, times.iter().min()) else { return 0 };
        let today = zone.today.of(now.saturating_sub(self.delay));
        // Dates don't go back with time but for an hour when a clock is put back over midnight, whose rows aren't late.
        if zone.rows.of(*earliest) >= today {
            return 0;
        }
        times.iter().filter(|time| zone.rows.of(**time) < today).count() as u64
    }
}
