//! The buckets of a call, for those who cut time by them without making a column of them.

use arrow::datatypes::IntervalMonthDayNano;
use chrono_tz::Tz;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use splay_engine::Buckets;

use crate::grid::{DefaultOrigin, Grid, MINUTE_NS};
use crate::time_bucket::{Placement, Timeline};
use crate::zone::ZonedGrid;

/// The buckets into which a call of `time_bucket`, `xbar`, `date_bin` or `date_trunc` cuts a time. `arguments` are those
/// beside the time, in their order; `None` for other functions, and for arguments that no bucket can be made of.
pub fn buckets(function: &str, arguments: &[ScalarValue]) -> Option<Box<dyn Buckets>> {
    timeline(function, arguments).map(|timeline| Box::new(timeline) as Box<dyn Buckets>)
}

/// The same as a timeline, which can be compared with others.
pub fn timeline(function: &str, arguments: &[ScalarValue]) -> Option<Timeline> {
    let (first, rest) = arguments.split_first()?;
    let default = match function {
        "time_bucket" => DefaultOrigin::Epoch,
        "xbar" => DefaultOrigin::Kdb,
        "date_bin" if rest.is_empty() => return bins(first),
        "date_trunc" if rest.is_empty() => return truncated(first),
        _ => return None,
    };
    let ScalarValue::IntervalMonthDayNano(Some(width)) = first else { return None };
    let rest: Vec<ColumnarValue> = rest.iter().cloned().map(ColumnarValue::Scalar).collect();
    let timeline: Result<Option<Timeline>> = Placement::from_constants(&rest)
        .and_then(|placement| placement.map(|p| p.timeline(*width, default)).transpose());
    timeline.ok().flatten()
}

/// Whether the dates of a zone, which begin at a time of day, are from an instant on made of whole buckets of a timeline.
pub fn dates_are_made_of(zone: Tz, day_start_ns: i64, finer: &Timeline, from: i64) -> bool {
    let Ok(grid) = Grid::new(IntervalMonthDayNano::new(0, 1, 0), Some(day_start_ns), DefaultOrigin::Epoch) else {
        return false;
    };
    // Longer buckets of a clock hold both passes of an hour that comes twice, in which the date may go back.
    let is_short = |grid: &Grid| grid.width().is_some_and(|width| width <= 30 * MINUTE_NS);
    let may_hold_both = matches!(finer, Timeline::Zoned(finer) if !is_short(&finer.grid));
    !may_hold_both && Timeline::Zoned(ZonedGrid { grid, zone }).is_made_of(finer, from)
}

/// `date_bin` counts every width but months from 1970-01-01.
fn bins(width: &ScalarValue) -> Option<Timeline> {
    match width {
        ScalarValue::IntervalMonthDayNano(Some(width)) if width.months == 0 => even(*width, Some(0)),
        _ => None,
    }
}

/// `date_trunc` cuts by the calendar: weeks begin on Monday.
fn truncated(unit: &ScalarValue) -> Option<Timeline> {
    let unit = unit.try_as_str().flatten()?.to_lowercase();
    let (months, days, nanoseconds) = match unit.as_str() {
        "millisecond" => (0, 0, 1_000_000),
        "second" => (0, 0, 1_000_000_000),
        "minute" => (0, 0, 60_000_000_000),
        "hour" => (0, 0, 3_600_000_000_000),
        "day" => (0, 1, 0),
        "week" => (0, 7, 0),
        "month" => (1, 0, 0),
        "quarter" => (3, 0, 0),
        "year" => (12, 0, 0),
        _ => return None,
    };
    even(IntervalMonthDayNano::new(months, days, nanoseconds), None)
}

fn even(width: IntervalMonthDayNano, origin: Option<i64>) -> Option<Timeline> {
    Some(Timeline::Even(Grid::new(width, origin, DefaultOrigin::Epoch).ok()?))
}

impl Buckets for Timeline {
    fn bucket(&self, instant: i64) -> Option<(i64, i64)> {
        self.bucket(instant).map(|bucket| (bucket.start, bucket.end))
    }
}
