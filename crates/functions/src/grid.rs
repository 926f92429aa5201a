//! Grids of time buckets on one even timeline, in nanoseconds.
//!
//! Invariants:
//! - a bucket is half open, `start <= t < end`, and buckets tile the timeline without gaps,
//! - `start` never exceeds `t`, so times before the origin go to the bucket below,
//! - nothing wraps: a bucket whose start cannot be written as an `i64` is no bucket.
//!
//! Source of the default origins: DuckDB and TimescaleDB count weeks from Monday 2000-01-03 and months from
//! 2000-01-01; kdb+ counts everything from 2000-01-01 (code.kx.com/q/ref/xbar).

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{DateTime, Datelike, Months};
use datafusion::common::{Result, exec_datafusion_err, exec_err};

/// Nanoseconds of one day of 24 hours.
pub const DAY_NS: i64 = 86_400_000_000_000;
/// Nanoseconds of a minute.
pub(super) const MINUTE_NS: i64 = 60_000_000_000;
/// 2000-01-01T00:00:00, the zero of kdb+ and of month buckets.
pub(super) const YEAR_2000_NS: i64 = 10_957 * DAY_NS;
/// Monday 2000-01-03T00:00:00, where weeks are counted from.
pub(super) const MONDAY_NS: i64 = YEAR_2000_NS + 2 * DAY_NS;

/// One bucket: `start <= t < end`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    pub start: i64,
    pub end: i64,
}

/// Where buckets are counted from when the call names no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultOrigin {
    /// 1970-01-01; whole weeks from Monday 2000-01-03; months from 2000-01-01.
    Epoch,
    /// 2000-01-01 for every width, as kdb+ does.
    Kdb,
}

/// Buckets of one width, counted from an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// `width > 0` nanoseconds; `0 <= origin < width`.
    Fixed { width: i64, origin: i64 },
    /// `months > 0` calendar months from `origin`, a day past the end of a month being that month's last.
    Months { months: i32, origin: i64 },
}

impl Grid {
    /// The grid of `interval`, from `origin` or else from the default one.
    ///
    /// # Errors
    /// If the interval is zero or negative, too long for nanoseconds, or mixes months with days or time.
    pub(super) fn new(interval: IntervalMonthDayNano, origin: Option<i64>, default: DefaultOrigin) -> Result<Self> {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        if months != 0 && (days != 0 || nanoseconds != 0) {
            return exec_err!("a bucket of months cannot also have days or time: {interval:?}");
        }
        if months != 0 {
            if months < 0 {
                return exec_err!("the bucket width must be above zero, got {months} months");
            }
            return Ok(Self::Months { months, origin: origin.unwrap_or(YEAR_2000_NS) });
        }
        let width = i64::from(days)
            .checked_mul(DAY_NS)
            .and_then(|days| days.checked_add(nanoseconds))
            .ok_or_else(|| exec_datafusion_err!("the bucket width does not fit in nanoseconds: {interval:?}"))?;
        if width <= 0 {
            return exec_err!("the bucket width must be above zero, got {width} nanoseconds");
        }
        let origin = origin.unwrap_or(match default {
            DefaultOrigin::Kdb => YEAR_2000_NS,
            DefaultOrigin::Epoch if width % (7 * DAY_NS) == 0 => MONDAY_NS,
            DefaultOrigin::Epoch => 0,
        });
        Ok(Self::Fixed { width, origin: origin.rem_euclid(width) })
    }

    /// The bucket of `t`, or `None` if its start lies before the first representable nanosecond.
    #[inline]
    pub(super) fn bucket(&self, t: i64) -> Option<Bucket> {
        match *self {
            Self::Fixed { width, origin } => {
                let start = t.checked_sub(t.checked_sub(origin)?.rem_euclid(width))?;
                Some(Bucket { start, end: start.saturating_add(width) })
            }
            Self::Months { months, origin } => month_bucket(t, i64::from(months), origin),
        }
    }

    /// Whether each bucket is made of whole buckets of a grid on the same timeline.
    pub(super) fn is_made_of(&self, finer: &Grid) -> bool {
        match (*self, *finer) {
            (Self::Fixed { width, origin }, Self::Fixed { width: finer, origin: of_finer }) => {
                width % finer == 0 && (origin - of_finer) % finer == 0
            }
            // Months begin at the origin's time of day.
            (Self::Months { origin, .. }, Self::Fixed { width: finer, origin: of_finer }) => {
                DAY_NS % finer == 0 && origin.checked_sub(of_finer).is_some_and(|distance| distance % finer == 0)
            }
            (Self::Months { months, origin }, Self::Months { months: finer, origin: of_finer }) => {
                months % finer == 0 && origin == of_finer
            }
            (Self::Fixed { .. }, Self::Months { .. }) => false,
        }
    }

    /// The width if it is fixed, or `None` for months.
    pub(super) fn width(&self) -> Option<i64> {
        match *self {
            Self::Fixed { width, .. } => Some(width),
            Self::Months { .. } => None,
        }
    }

    /// A time that is at least one bucket long, in nanoseconds.
    pub(super) fn width_max(&self) -> i64 {
        match *self {
            Self::Fixed { width, .. } => width,
            Self::Months { months, .. } => i64::from(months).saturating_mul(31 * DAY_NS),
        }
    }
}

fn month_bucket(t: i64, months: i64, origin: i64) -> Option<Bucket> {
    let distance = month_index(t) - month_index(origin);
    let mut steps = distance.div_euclid(months) * months;
    let mut start = shift_months(origin, steps);
    // An origin late in its month: the month of `t` may begin in the bucket before.
    if start.is_none_or(|start| start > t) {
        steps -= months;
        start = shift_months(origin, steps);
    }
    Some(Bucket { start: start?, end: shift_months(origin, steps + months).unwrap_or(i64::MAX) })
}

fn month_index(t: i64) -> i64 {
    let date = DateTime::from_timestamp_nanos(t);
    i64::from(date.year()) * 12 + i64::from(date.month0())
}

fn shift_months(origin: i64, months: i64) -> Option<i64> {
    let distance = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    let origin = DateTime::from_timestamp_nanos(origin);
    let shifted = if months < 0 { origin.checked_sub_months(distance) } else { origin.checked_add_months(distance) };
    shifted?.timestamp_nanos_opt()
}
