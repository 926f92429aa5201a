//! Time buckets on the wall clock of a time zone.
//!
//! A bucket is cut on local time and labelled with the instant at which it begins, so `1 day` begins at local midnight
//! on the days of 23 and 25 hours too. Invariants, each held by a test:
//! - the start of a bucket never exceeds the times in it and is in its own bucket,
//! - starts never go back as time goes on, so the output keeps the order of the input.
//!
//! Edges:
//! - a bucket that would begin in the hour the clock skips begins at the moment of the change,
//! - when the clock goes back, a bucket longer than the repeated stretch holds both passes; a bucket no longer than the
//!   stretch occurs twice, once per pass, and the two are told apart by their instants.
//!
//! Source of offsets: the IANA time zone database, through `chrono-tz`.

use chrono::{DateTime, MappedLocalTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::grid::{Bucket, DAY_NS, Grid};

const HOUR_NS: i64 = 3_600_000_000_000;
/// A clock has never gone back by more than this within the years that nanoseconds cover, date-line changes aside.
const REPEAT_NS_MAX: i64 = 3 * HOUR_NS;

/// A grid laid on the local time of a zone.
#[derive(Debug, Clone, Copy)]
pub struct ZonedGrid {
    pub grid: Grid,
    pub zone: Tz,
}

impl ZonedGrid {
    /// The bucket of the instant `t`, as instants, or `None` if its start is out of range.
    pub(super) fn bucket(&self, t: i64) -> Option<Bucket> {
        if let Some(bucket) = self.even_bucket(t) {
            return Some(bucket);
        }
        let start = self.start(t)?;
        Some(Bucket { start, end: self.end(t, start)? })
    }

    /// The bucket of `t` if the clock does not change in it nor shortly before, which is nearly always.
    fn even_bucket(&self, t: i64) -> Option<Bucket> {
        let width = self.grid.width().filter(|&width| width <= 7 * DAY_NS)?;
        let offset = self.offset(t);
        let local = self.grid.bucket(t.checked_add(offset)?)?;
        let start = local.start.checked_sub(offset)?;
        let end = start.checked_add(width)?;
        let before = if width <= HOUR_NS / 2 { start } else { start.checked_sub(REPEAT_NS_MAX)? };
        // A change exactly at the end counts: the next clock reading may fall back into this bucket.
        (self.offset(before) == offset && self.offset(start) == offset && self.offset(end) == offset)
            .then_some(Bucket { start, end })
    }

    /// The start of the bucket of `t`, for any clock.
    fn start(&self, t: i64) -> Option<i64> {
        let offset = self.offset(t);
        let local = t.checked_add(offset)?;
        let local_start = self.grid.bucket(local)?.start;
        let same_clock = local_start.checked_sub(offset)?;
        let start = match self.instants(local_start) {
            MappedLocalTime::Single(instant) => instant,
            MappedLocalTime::None => self.change_between(local_start - DAY_NS, local_start + DAY_NS),
            MappedLocalTime::Ambiguous(early, late) => {
                let repeated = late - early;
                let split = self.grid.width().is_some_and(|width| width <= repeated);
                if split && same_clock == late { late } else { early }
            }
        };
        // In the second pass of a repeated stretch the first pass may already have begun a later bucket.
        match self.instants(local) {
            MappedLocalTime::Ambiguous(early, late) if late == t => {
                let change = self.change_between(early, late);
                Some(start.max(self.start(change - 1)?))
            }
            _ => Some(start),
        }
    }

    /// The first instant after `t` that is in another bucket than `start`, by bisection.
    fn end(&self, t: i64, start: i64) -> Option<i64> {
        let mut inside = t;
        let mut outside = t.saturating_add(self.grid.width_max()).saturating_add(3 * DAY_NS);
        if self.start(outside).is_none_or(|other| other == start) {
            return t.checked_add(1);
        }
        while outside - inside > 1 {
            let middle = inside + (outside - inside) / 2;
            if self.start(middle)? == start {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        Some(outside)
    }

    /// The first instant in `(before, after]` whose offset is not that of `before`, or `after`.
    fn change_between(&self, before: i64, after: i64) -> i64 {
        let offset = self.offset(before);
        let (mut before, mut after) = (before, after);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self.offset(middle) == offset {
                before = middle;
            } else {
                after = middle;
            }
        }
        after
    }

    /// Local time minus UTC at the instant `t`, in nanoseconds.
    fn offset(&self, t: i64) -> i64 {
        let utc = DateTime::from_timestamp_nanos(t).naive_utc();
        i64::from(self.zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()) * 1_000_000_000
    }

    /// The instants at which the wall clock shows `local`: none in a skipped hour, two in a repeated one.
    fn instants(&self, local: i64) -> MappedLocalTime<i64> {
        let clock = DateTime::from_timestamp_nanos(local).naive_utc();
        self.zone
            .offset_from_local_datetime(&clock)
            .map(|offset| local.saturating_sub(i64::from(offset.fix().local_minus_utc()) * 1_000_000_000))
    }

    /// The local time at the instant `t`, as nanoseconds on the grid's timeline.
    pub(super) fn local(zone: Tz, t: i64) -> i64 {
        let any_grid = Grid::Fixed { width: 1, origin: 0 };
        t.saturating_add(Self { grid: any_grid, zone }.offset(t))
    }
}
