//! Intervals from numbers (`to_seconds(1.5)`, `to_days(3)` and their kin), and spans between times.
//!
//! - `age(to, from)` is the interval in months, days and time between two times, as in PostgreSQL: days are those of the earlier time's month.
//! - `date_sub(unit, from, to)` is how many whole units lie between two times, where `date_diff` counts boundaries.
//! - `make_timestamp(year, month, day, hour, minute, seconds)` is that time, `make_time(hour, minute, seconds)` that time of day. Seconds may have a part, to
//!   the microsecond.
//!
//! Source: <https://duckdb.org/docs/stable/sql/functions/interval>.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, Time64NanosecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TIME: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// What a call gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// An interval of so many months, days or nanoseconds for each unit.
    Months(i32),
    Days(i32),
    Nanoseconds(i64),
    /// Nanoseconds of units that may have a part.
    Parts(i64),
    Age,
    DateSub,
    MakeTimestamp,
    MakeTime,
}

/// The scalar functions of this file.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SpanFunction {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl SpanFunction {
    pub(super) fn all() -> Vec<SpanFunction> {
        let kinds = [
            ("to_millennia", Kind::Months(12_000)),
            ("to_centuries", Kind::Months(1_200)),
            ("to_decades", Kind::Months(120)),
            ("to_years", Kind::Months(12)),
            ("to_quarters", Kind::Months(3)),
            ("to_months", Kind::Months(1)),
            ("to_weeks", Kind::Days(7)),
            ("to_days", Kind::Days(1)),
            ("to_hours", Kind::Nanoseconds(3_600_000_000_000)),
            ("to_minutes", Kind::Nanoseconds(60_000_000_000)),
            ("to_seconds", Kind::Parts(1_000_000_000)),
            ("to_milliseconds", Kind::Parts(1_000_000)),
            ("to_microseconds", Kind::Nanoseconds(1_000)),
            ("age", Kind::Age),
            ("date_sub", Kind::DateSub),
            ("make_timestamp", Kind::MakeTimestamp),
            ("make_time", Kind::MakeTime),
        ];
        let span = |(name, kind): (&'static str, Kind)| SpanFunction {
            name,
            aliases: if kind == Kind::DateSub { vec!["datesub".to_owned()] } else { Vec::new() },
            kind,
            signature: Signature::user_defined(Volatility::Immutable),
        };
        kinds.map(span).into()
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Null)
        || is_text(data_type)
}

impl ScalarUDFImpl for SpanFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_whole = |data_type: &DataType| data_type.is_integer() || data_type.is_null();
        let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
        match (self.kind, arg_types) {
            (Kind::Parts(_), [number]) if is_number(number) && !is_whole(number) => Ok(vec![DataType::Float64]),
            (Kind::Months(_) | Kind::Days(_) | Kind::Nanoseconds(_) | Kind::Parts(_), [number]) if is_whole(number) => {
                Ok(vec![DataType::Int64])
            }
            (Kind::Age, [to, from]) if is_time(to) && is_time(from) => Ok(vec![TIME, TIME]),
            (Kind::DateSub, [unit, from, to]) if is_text(unit) && is_time(from) && is_time(to) => {
                Ok(vec![DataType::Utf8, TIME, TIME])
            }
            (Kind::MakeTimestamp, [parts @ .., seconds])
                if parts.len() == 5 && parts.iter().all(is_whole) && is_number(seconds) =>
            {
                let mut types = vec![DataType::Int64; 5];
                types.push(DataType::Float64);
                Ok(types)
            }
            (Kind::MakeTime, [parts @ .., seconds])
                if parts.len() == 2
                    && parts.iter().all(|part| is_whole(part) || is_text(part))
                    && (is_number(seconds) || is_text(seconds)) =>
            {
                Ok(vec![DataType::Int64, DataType::Int64, DataType::Float64])
            }
            (Kind::MakeTime, _) => plan_err!("make_time takes (hour, minute, seconds)"),
            (Kind::Age, _) => plan_err!("age takes (to, from), two times"),
            (Kind::DateSub, _) => plan_err!("date_sub takes (unit, from, to), as in date_sub('hour', a, b)"),
            (Kind::MakeTimestamp, _) => {
                plan_err!("make_timestamp takes (year, month, day, hour, minute, seconds), or microseconds since 1970")
            }
            (Kind::Parts(_), _) => plan_err!("{} takes a number", self.name),
            _ => plan_err!("{} takes a whole number", self.name),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::DateSub => DataType::Int64,
            Kind::MakeTimestamp => TIME,
            Kind::MakeTime => DataType::Time64(TimeUnit::Nanosecond),
            _ => INTERVAL,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = match self.kind {
            Kind::Age => ages(&arrays)?,
            Kind::DateSub => whole_units(&arrays)?,
            Kind::MakeTimestamp => made(&arrays)?,
            Kind::MakeTime => made_times_of_day(&arrays)?,
            kind => intervals(kind, self.name, &arrays[0])?,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

fn intervals(kind: Kind, name: &str, numbers: &ArrayRef) -> Result<ArrayRef> {
    let out_of_range = || exec_err!("{name}: the interval is out of range");
    if let (Kind::Parts(unit), Some(numbers)) = (kind, numbers.as_primitive_opt::<Float64Type>()) {
        let intervals = numbers.iter().map(|number| {
            let Some(number) = number else { return Ok(None) };
            #[expect(clippy::cast_precision_loss, reason = "a unit is exact")]
            let nanoseconds = (number * unit as f64).round();
            #[expect(clippy::cast_possible_truncation, reason = "it is within the range of whole numbers")]
            match nanoseconds.abs() < 9.2e18 {
                true => Ok(Some(IntervalMonthDayNano::new(0, 0, nanoseconds as i64))),
                false => out_of_range(),
            }
        });
        return Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?));
    }
    let of = |number: i64| {
        let small = |unit: i32| i32::try_from(number).ok().and_then(|number| number.checked_mul(unit));
        Some(match kind {
            Kind::Months(unit) => IntervalMonthDayNano::new(small(unit)?, 0, 0),
            Kind::Days(unit) => IntervalMonthDayNano::new(0, small(unit)?, 0),
            Kind::Nanoseconds(unit) | Kind::Parts(unit) => IntervalMonthDayNano::new(0, 0, number.checked_mul(unit)?),
            Kind::Age | Kind::DateSub | Kind::MakeTimestamp | Kind::MakeTime => return None,
        })
    };
    let intervals = numbers.as_primitive::<Int64Type>().iter().map(|number| match number {
        None => Ok(None),
        Some(number) => of(number).map_or_else(out_of_range, |interval| Ok(Some(interval))),
    });
    Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn clock(time: i64) -> NaiveDateTime {
    DateTime::from_timestamp_nanos(time).naive_utc()
}

/// Months, days and nanoseconds from one time to a later one.
fn between(from: i64, to: i64) -> (i32, i32, i64) {
    let (early, late) = (clock(from), clock(to));
    let of_day = |time: &NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let mut months = (late.year() - early.year()) * 12 + late.month().cast_signed() - early.month().cast_signed();
    let mut days = late.day().cast_signed() - early.day().cast_signed();
    let mut nanoseconds = of_day(&late) - of_day(&early);
    if nanoseconds < 0 {
        nanoseconds += 86_400_000_000_000;
        days -= 1;
    }
    if days < 0 {
        days += days_of_month(early.date());
        months -= 1;
    }
    (months, days, nanoseconds)
}

fn days_of_month(date: NaiveDate) -> i32 {
    let first = date.with_day(1).unwrap_or(date);
    let next = first.checked_add_months(Months::new(1)).unwrap_or(first);
    i32::try_from((next - first).num_days()).unwrap_or(30)
}

fn ages(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [to, from] = [0, 1].map(|place: usize| arrays[place].as_primitive::<TimestampNanosecondType>());
    let ages = to.iter().zip(from).map(|(to, from)| {
        let (to, from) = (to?, from?);
        let (months, days, nanoseconds) = between(from.min(to), from.max(to));
        let sign = if to < from { -1 } else { 1 };
        Some(IntervalMonthDayNano::new(sign * months, sign * days, i64::from(sign) * nanoseconds))
    });
    Ok(Arc::new(ages.collect::<IntervalMonthDayNanoArray>()))
}

/// Whole months from one time to a later one. The last day of a month is as late as any day of a longer one.
fn whole_months(from: i64, to: i64) -> i64 {
    let (early, late) = (clock(from), clock(to));
    let last = days_of_month(late.date()).cast_unsigned();
    let is_at_end = late.day() == last;
    let is_later_in_month = early.day() > last || (early.day() == last && early.time() < late.time());
    let months = match is_at_end && is_later_in_month {
        true => {
            let day = early.date().with_day(last).unwrap_or(early.date());
            let moved = NaiveDateTime::new(day, early.time()).and_utc().timestamp_nanos_opt().unwrap_or(from);
            between(moved, to).0
        }
        false => between(from, to).0,
    };
    i64::from(months)
}

fn whole_units(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let units = arrays[0].as_string::<i32>();
    let [from, to] = [1, 2].map(|place: usize| arrays[place].as_primitive::<TimestampNanosecondType>());
    let mut last_unit: Option<(String, Unit)> = None;
    let mut counts = Vec::with_capacity(from.len());
    for row in 0..from.len() {
        if units.is_null(row) || from.is_null(row) || to.is_null(row) {
            counts.push(None);
            continue;
        }
        let name = units.value(row);
        if last_unit.as_ref().is_none_or(|(last_unit, _)| last_unit != name) {
            last_unit = Some((name.to_owned(), Unit::of(name)?));
        }
        let (from, to) = (from.value(row), to.value(row));
        counts.push(last_unit.as_ref().map(|(_, unit)| match unit {
            Unit::Months(months) if from > to => -(whole_months(to, from) / months),
            Unit::Months(months) => whole_months(from, to) / months,
            Unit::Nanoseconds(length) => {
                let units = (i128::from(to) - i128::from(from)) / i128::from(*length);
                i64::try_from(units).unwrap_or(i64::MAX)
            }
        }));
    }
    Ok(Arc::new(Int64Array::from(counts)))
}

enum Unit {
    Months(i64),
    Nanoseconds(i64),
}

impl Unit {
    fn of(name: &str) -> Result<Unit> {
        const DAY: i64 = 86_400_000_000_000;
        let name = name.to_lowercase();
        Ok(match name.strip_suffix('s').unwrap_or(&name) {
            "millennium" => Unit::Months(12_000),
            "century" => Unit::Months(1_200),
            "decade" => Unit::Months(120),
            "year" => Unit::Months(12),
            "quarter" => Unit::Months(3),
            "month" => Unit::Months(1),
            "week" => Unit::Nanoseconds(7 * DAY),
            "day" => Unit::Nanoseconds(DAY),
            "hour" => Unit::Nanoseconds(DAY / 24),
            "minute" => Unit::Nanoseconds(60_000_000_000),
            "second" => Unit::Nanoseconds(1_000_000_000),
            "millisecond" => Unit::Nanoseconds(1_000_000),
            "microsecond" => Unit::Nanoseconds(1_000),
            "nanosecond" => Unit::Nanoseconds(1),
            _ => return exec_err!("date_sub doesn't know the unit {name}"),
        })
    }
}

fn made(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let whole: Vec<&Int64Array> = arrays[..5].iter().map(|array| array.as_primitive::<Int64Type>()).collect();
    let seconds = arrays[5].as_primitive::<Float64Type>();
    let times = (0..seconds.len()).map(|row| {
        if seconds.is_null(row) || whole.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let parts: [i64; 5] = std::array::from_fn(|place| whole[place].value(row));
        match time_of_parts(parts, seconds.value(row)) {
            Some(time) => Ok(Some(time)),
            None => exec_err!("make_timestamp: {parts:?} and {} seconds are no time", seconds.value(row)),
        }
    });
    Ok(Arc::new(times.collect::<Result<TimestampNanosecondArray>>()?))
}

fn made_times_of_day(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let (hours, minutes) = (arrays[0].as_primitive::<Int64Type>(), arrays[1].as_primitive::<Int64Type>());
    let seconds = arrays[2].as_primitive::<Float64Type>();
    let times = (0..seconds.len()).map(|row| {
        if hours.is_null(row) || minutes.is_null(row) || seconds.is_null(row) {
            return Ok(None);
        }
        let (hour, minute, seconds) = (hours.value(row), minutes.value(row), seconds.value(row));
        match microseconds_of_day(hour, minute, seconds).filter(|of_day| *of_day < 86_400_000_000) {
            Some(of_day) => Ok(Some(of_day * 1_000)),
            None => exec_err!("make_time: {hour}:{minute} and {seconds} seconds are no time of day"),
        }
    });
    Ok(Arc::new(times.collect::<Result<Time64NanosecondArray>>()?))
}

/// To the microsecond, as the number of seconds is read there; the rest of it is the noise of its digits.
fn microseconds_of_day(hour: i64, minute: i64, seconds: f64) -> Option<i64> {
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than a minute")]
    let microseconds = (seconds * 1e6).round() as i64;
    Some((hour * 60 + minute) * 60_000_000 + microseconds)
}

/// The end of a day, 24:00:00, is the begin of the next one.
fn time_of_parts([year, month, day, hour, minute]: [i64; 5], seconds: f64) -> Option<i64> {
    let small = |part: i64| u32::try_from(part).ok();
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, small(month)?, small(day)?)?;
    let of_day = microseconds_of_day(hour, minute, seconds)?;
    if hour == 24 && of_day > 86_400_000_000 {
        return None;
    }
    let begin = date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_nanos_opt();
    match begin {
        Some(begin) => begin.checked_add(of_day * 1_000),
        // The day before the first whole one.
        None => {
            let next = date.checked_add_days(Days::new(1))?.and_hms_opt(0, 0, 0)?.and_utc().timestamp_nanos_opt()?;
            next.checked_sub((86_400_000_000 - of_day) * 1_000)
        }
    }
}
