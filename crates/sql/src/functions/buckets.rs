//! The buckets of a call, for those who cut time by them without making a column of them.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use splay_engine::Buckets;

use super::grid::{DAY_NS, DefaultOrigin, Grid};
use super::time_bucket::{Placement, Timeline};

/// The buckets into which a call of `time_bucket`, `xbar`, `date_bin` or `date_trunc` cuts a time. `arguments` are those
/// beside the time, in their order; `None` for other functions, and for arguments that no bucket can be made of.
pub(crate) fn buckets(function: &str, arguments: &[ScalarValue]) -> Option<Box<dyn Buckets>> {
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
    timeline.ok().flatten().map(|timeline| Box::new(timeline) as Box<dyn Buckets>)
}

/// `date_bin` counts every width but months from 1970-01-01.
fn bins(width: &ScalarValue) -> Option<Box<dyn Buckets>> {
    match width {
        ScalarValue::IntervalMonthDayNano(Some(width)) if width.months == 0 => even(*width),
        _ => None,
    }
}

/// Units of `date_trunc` that are of one length.
fn truncated(unit: &ScalarValue) -> Option<Box<dyn Buckets>> {
    let unit = unit.try_as_str().flatten()?.to_lowercase();
    let nanoseconds = match unit.as_str() {
        "millisecond" => 1_000_000,
        "second" => 1_000_000_000,
        "minute" => 60_000_000_000,
        "hour" => 3_600_000_000_000,
        "day" => DAY_NS,
        _ => return None,
    };
    even(IntervalMonthDayNano::new(0, 0, nanoseconds))
}

fn even(width: IntervalMonthDayNano) -> Option<Box<dyn Buckets>> {
    let grid = Grid::new(width, Some(0), DefaultOrigin::Epoch).ok()?;
    Some(Box::new(Timeline::Even(grid)))
}

impl Buckets for Timeline {
    fn bucket(&self, instant: i64) -> Option<(i64, i64)> {
        self.bucket(instant).map(|bucket| (bucket.start, bucket.end))
    }
}
