//! Instants of what a zone's clock shows, where the clock changes.
//!
//! - A time that the clock skips is as much later as it skips: half past two is half past three on the day on which New York's clock goes from two to three.
//! - Of a time that the clock shows twice, it is the second.
//! - A day and a month after an instant, the clock shows the same time, by the same rules.
//!
//! As in PostgreSQL. Arrow refuses such times, and with one the statement. Source: <https://www.postgresql.org/docs/current/datetime-invalid-input.html>.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use chrono::{DateTime, Days, MappedLocalTime, Months, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NAIVE: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY: i64 = 86_400_000_000_000;

/// The zone of a type of instants, if its clock may change.
fn changing(data_type: &DataType) -> Option<(Arc<str>, Tz)> {
    let DataType::Timestamp(_, Some(label)) = data_type else { return None };
    let zone: Tz = label.parse().ok()?;
    let is_steady = matches!(zone, Tz::UTC | Tz::GMT | Tz::Zulu | Tz::Etc__UTC | Tz::Etc__GMT);
    (!is_steady).then(|| (Arc::clone(label), zone))
}

/// Whether a type is that of instants in a zone whose clock may change.
#[must_use]
pub fn clock_changes(data_type: &DataType) -> bool {
    changing(data_type).is_some()
}

/// The instants of times on the clock of the zone of a type; none if its clock never changes, or what is cast is no such time.
///
/// # Errors
/// For instants out of range.
pub fn as_instants(times: &ArrayRef, to: &DataType) -> Option<Result<ArrayRef>> {
    let (DataType::Timestamp(_, None), Some((_, zone))) = (times.data_type(), changing(to)) else { return None };
    Some(instants(times, zone, to))
}

fn instants(times: &ArrayRef, zone: Tz, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let times = cast_with_options(times, &NAIVE, &options)?;
    let utc_times =
        times.as_primitive::<TimestampNanosecondType>().try_unary::<_, TimestampNanosecondType, _>(|time| {
            instant(zone, time).ok_or_else(|| exec_datafusion_err!("a time in {zone} is out of range"))
        })?;
    let DataType::Timestamp(_, label) = to else { return exec_err!("{to} has no zone") };
    let utc_times: ArrayRef = Arc::new(utc_times.with_timezone_opt(label.clone()));
    Ok(cast_with_options(&utc_times, to, &options)?)
}

/// The instant at which a clock shows a time, both in nanoseconds.
fn instant(zone: Tz, time: i64) -> Option<i64> {
    let clock = clock(time);
    let behind = |offset: <Tz as TimeZone>::Offset| i64::from(offset.fix().local_minus_utc()) * 1_000_000_000;
    let offset = match zone.offset_from_local_datetime(&clock) {
        MappedLocalTime::Single(offset) => behind(offset),
        MappedLocalTime::Ambiguous(one, other) => behind(one).min(behind(other)),
        MappedLocalTime::None => offset_at(zone, time.checked_sub(DAY)?),
    };
    time.checked_sub(offset)
}

/// What the clock is ahead of UTC by at an instant, in nanoseconds.
fn offset_at(zone: Tz, instant: i64) -> i64 {
    i64::from(zone.offset_from_utc_datetime(&clock(instant)).fix().local_minus_utc()) * 1_000_000_000
}

fn clock(time: i64) -> NaiveDateTime {
    DateTime::from_timestamp_nanos(time).naive_utc()
}

/// The instant after an interval, or before it.
fn moved(zone: Tz, from: i64, by: IntervalMonthDayNano, before: bool) -> Option<i64> {
    let sign = if before { -1 } else { 1 };
    let (months, days) = (i64::from(by.months) * sign, i64::from(by.days) * sign);
    let nanoseconds = if before { by.nanoseconds.checked_neg()? } else { by.nanoseconds };
    let mut target = from;
    if months != 0 || days != 0 {
        let shown = clock(target.checked_add(offset_at(zone, target))?);
        let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
        let shown = if months < 0 { shown.checked_sub_months(count) } else { shown.checked_add_months(count) }?;
        let count = Days::new(days.unsigned_abs());
        let shown = if days < 0 { shown.checked_sub_days(count) } else { shown.checked_add_days(count) }?;
        target = instant(zone, shown.and_utc().timestamp_nanos_opt()?)?;
    }
    target.checked_add(nanoseconds)
}

/// An expression that gives instants in the type of a zone for times on its clock; none as for [`as_instants`].
#[must_use]
pub fn instants_of(times: Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    let (DataType::Timestamp(_, None), Some((label, zone))) = (from, changing(to)) else { return None };
    let kind = Kind::Instants(to.clone());
    let name = format!("at_time_zone_{label}");
    let signature = Signature::exact(vec![from.clone()], Volatility::Immutable);
    Some(ScalarUDF::from(ClockFunction { name, zone, kind, signature }).call(vec![times]))
}

/// An expression that moves instants of a type by intervals on the clock of its zone; none if that doesn't change, or doesn't matter.
#[must_use]
pub fn moved_on_clock(instants: &Expr, of: &DataType, by: &Expr, before: bool) -> Option<Expr> {
    let (label, zone) = changing(of)?;
    if let Expr::Literal(ScalarValue::IntervalMonthDayNano(by), None) = by
        && by.is_none_or(|by| by.months == 0 && by.days == 0)
    {
        return None;
    }
    let kind = Kind::Moved { of: of.clone(), before };
    let name = format!("{}_interval_in_{label}", if before { "subtract" } else { "add" });
    let signature = Signature::exact(vec![of.clone(), INTERVAL], Volatility::Immutable);
    Some(ScalarUDF::from(ClockFunction { name, zone, kind, signature }).call(vec![instants.clone(), by.clone()]))
}

/// Whether a function gives the instants of times on a clock, and nothing else.
#[must_use]
pub fn is_of_instants(function: &ScalarUDF) -> bool {
    let function = function.inner().downcast_ref::<ClockFunction>();
    function.is_some_and(|function| matches!(function.kind, Kind::Instants(_)))
}

/// What a function of a zone's clock gives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Instants(DataType),
    Moved { of: DataType, before: bool },
}

/// A function of the clock of a zone.
#[derive(Debug)]
struct ClockFunction {
    name: String,
    zone: Tz,
    kind: Kind,
    signature: Signature,
}

impl PartialEq for ClockFunction {
    fn eq(&self, other: &ClockFunction) -> bool {
        self.name == other.name && self.kind == other.kind
    }
}

impl Eq for ClockFunction {}

impl Hash for ClockFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, &self.kind).hash(state);
    }
}

impl ScalarUDFImpl for ClockFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let (Kind::Instants(result) | Kind::Moved { of: result, .. }) = &self.kind;
        Ok(result.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = match (&self.kind, arrays.as_slice()) {
            (Kind::Instants(to), [times]) => instants(times, self.zone, to)?,
            (Kind::Moved { of, before }, [times, by]) => self.moved(times, by, of, *before)?,
            _ => return exec_err!("{} has other arguments", self.name),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl ClockFunction {
    fn moved(&self, times: &ArrayRef, by: &ArrayRef, of: &DataType, before: bool) -> Result<ArrayRef> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let DataType::Timestamp(_, label) = of else { return exec_err!("{of} has no zone") };
        let exact = DataType::Timestamp(TimeUnit::Nanosecond, label.clone());
        let times = cast_with_options(times, &exact, &options)?;
        let times = times.as_primitive::<TimestampNanosecondType>().iter();
        let target = times.zip(by.as_primitive::<IntervalMonthDayNanoType>().iter()).map(|(time, by)| {
            let (Some(time), Some(by)) = (time, by) else { return Ok(None) };
            let target = moved(self.zone, time, by, before);
            target.map(Some).ok_or_else(|| exec_datafusion_err!("a time in {} is out of range", self.zone))
        });
        let target: TimestampNanosecondArray = target.collect::<Result<_, DataFusionError>>()?;
        let target: ArrayRef = Arc::new(target.with_timezone_opt(label.clone()));
        Ok(cast_with_options(&target, of, &options)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<NaiveDateTime>().unwrap().and_utc().timestamp_nanos_opt().unwrap()
    }

    #[test]
    fn skipped_and_repeated_times_have_one_instant() {
        let cases = [
            (Tz::America__New_York, "2024-03-10T01:59:59", "2024-03-10T06:59:59"),
            (Tz::America__New_York, "2024-03-10T02:30:00", "2024-03-10T07:30:00"),
            (Tz::America__New_York, "2024-03-10T03:00:00", "2024-03-10T07:00:00"),
            (Tz::America__New_York, "2024-11-03T01:30:00", "2024-11-03T06:30:00"),
            (Tz::America__New_York, "2024-11-03T00:59:59", "2024-11-03T04:59:59"),
            (Tz::Europe__London, "2024-03-31T01:30:00", "2024-03-31T01:30:00"),
            (Tz::Australia__Lord_Howe, "2024-10-06T02:15:00", "2024-10-05T15:45:00"),
        ];
        for (zone, local, expected) in cases {
            assert_eq!(instant(zone, at(local)).unwrap(), at(expected), "{zone} {local}");
        }
    }

    #[test]
    fn a_day_later_the_clock_shows_the_same() {
        let day = IntervalMonthDayNano::new(0, 1, 0);
        let cases = [
            ("2024-03-09T07:30:00", day, false, "2024-03-10T07:30:00"),
            ("2024-03-09T15:00:00", day, false, "2024-03-10T14:00:00"),
            ("2024-03-10T14:00:00", day, true, "2024-03-09T15:00:00"),
            ("2024-02-10T07:30:00", IntervalMonthDayNano::new(1, 0, 1), false, "2024-03-10T07:30:00.000000001"),
            ("2024-11-03T05:30:00", IntervalMonthDayNano::new(0, 0, 60), false, "2024-11-03T05:30:00.000000060"),
        ];
        for (from, by, before, expected) in cases {
            assert_eq!(moved(Tz::America__New_York, at(from), by, before).unwrap(), at(expected), "{from}");
        }
    }
}
