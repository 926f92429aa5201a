//! Measurements of incoming rows for operators: latencies and feed quality.
//!
//! - The journal's thread measures each row once, after its acknowledgement; repeats aren't measured.
//! - Latencies compare this machine's clock, which gives the receive time, with the venue's, which is a column of the
//!   rows.
//!
//! Names and units: docs/reference/metrics.md.

mod columns;
mod days;
mod latency;
mod quality;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_sign_loss, reason = "tests")]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use serde::Serialize;
use splay_store::TableSpec;

use crate::calendar::TableCalendars;
use crate::settings::QualitySettings;
use days::Days;
pub(crate) use days::LateDays;
pub(crate) use latency::Histogram;
pub use latency::{LATENCY_BOUNDS, Latency, latency_bounds};
pub use quality::{Defects, Quality, SeriesQuality};
use quality::{SeriesLimit, Watch};

/// Latencies of a table's rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// From the venue's clock to ours.
    pub received: Latency,
    /// From there until queries see the rows.
    pub visible: Latency,
    /// From there until the journal is synced.
    pub durable: Latency,
}

/// Measures the rows of one table.
#[derive(Debug)]
pub(crate) struct Meter {
    received: Histogram,
    pub(crate) visible: Histogram,
    durable: Histogram,
    watch: Mutex<Watch>,
}

impl Meter {
    /// Looks at rows that came in at `now`.
    pub(crate) fn look(&self, spec: &Arc<TableSpec>, rows: &RecordBatch, now: i64) {
        let mut watch = self.watch();
        if let Some(event) = watch.places(spec).event.filter(|event| *event < rows.num_columns()) {
            let times = columns::times(rows, event);
            let mut gathered = latency::BatchLatencies::default();
            // A time column has no nulls; another one's say nothing.
            for time in times.values().iter().enumerate().filter(|(row, _)| !is_null(times, *row)).map(|(_, time)| time)
            {
                gathered.note(now.saturating_sub(*time), 1);
            }
            self.received.add(&gathered);
        }
        watch.look(spec, rows, now);
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of ended dates.
    pub(crate) fn late_days(&self) -> LateDays {
        self.watch().late_days()
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies { received: self.received.read(), visible: self.visible.read(), durable: self.durable.read() }
    }

    pub(crate) fn quality(&self) -> Quality {
        self.watch().quality()
    }
}

#[inline]
fn is_null(array: &arrow::array::TimestampNanosecondArray, row: usize) -> bool {
    use arrow::array::Array;
    array.is_null(row)
}

/// Makes the meters of tables.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    room: Arc<SeriesLimit>,
    /// By lower-case name of the table.
    settings: BTreeMap<String, QualitySettings>,
    calendars: TableCalendars,
}

impl Meters {
    pub(crate) fn new(settings: &BTreeMap<String, QualitySettings>, calendars: TableCalendars) -> Meters {
        let settings = settings.iter().map(|(table, settings)| (table.to_lowercase(), settings.clone())).collect();
        Meters { room: Arc::default(), settings, calendars }
    }

    pub(crate) fn of(&self, table: &str) -> Arc<Meter> {
        let settings = self.settings.get(&table.to_lowercase()).cloned().unwrap_or_default();
        let days = Days::new(self.calendars.of(table).roll_delay);
        Arc::new(Meter {
            received: Histogram::default(),
            visible: Histogram::default(),
            durable: Histogram::default(),
            watch: Mutex::new(Watch::new(settings, Arc::clone(&self.room), days)),
        })
    }
}

/// Batches that are in the journal and not synced yet.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedBatches(Vec<(Arc<Meter>, i64, u64)>);

impl UnsyncedBatches {
    /// Batches that are remembered. Of more between two syncs the time to the sync isn't measured.
    const MAX: usize = 1 << 16;

    pub(crate) fn push(&mut self, meter: &Arc<Meter>, received: i64, rows: u64) {
        if self.0.len() < UnsyncedBatches::MAX {
            self.0.push((Arc::clone(meter), received, rows));
        }
    }

    /// All of them are synced now.
    pub(crate) fn synced(&mut self, now: i64) {
        for (meter, received, rows) in self.0.drain(..) {
            meter.durable.note(now.saturating_sub(received), rows);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
