//! `epoch_ms(time)`, `epoch_us`, `epoch_ns`, and `date_diff(unit, from, to)`: how many boundaries of a unit lie between two times.
//!
//! - `epoch_ms` of a time is the number of milliseconds since 1970, downwards; of a whole number it is the time. `epoch_us` and `epoch_ns` count
//!   microseconds and nanoseconds, of times alone. A difference of times is counted towards 0.
//! - `date_diff('hour', 09:59, 10:01)` is 1. Weeks begin on Monday, centuries with the years 1900 and 2000. Units are those of `date_trunc`, and milliseconds to nanoseconds.
//! - Times with a zone label count as UTC.
//!
//! Source: duckdb.org/docs/stable/sql/functions/timestamp.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, TimestampMillisecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, DurationNanosecondType, Int64Type, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err, utils::take_function_args};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use splay_store::CivilDate;

const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const DAY: i64 = 86_400_000_000_000;

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Null)
        || data_type.is_string()
}

/// The scalar functions `epoch_ms`, `epoch_us` and `epoch_ns`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Epoch {
    name: &'static str,
    /// Nanoseconds of a unit.
    unit: i64,
    signature: Signature,
}

impl Epoch {
    pub(super) fn all() -> [Epoch; 3] {
        [("epoch_ms", 1_000_000), ("epoch_us", 1_000), ("epoch_ns", 1)].map(|(name, unit)| Epoch {
            name,
            unit,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for Epoch {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [x] if x.is_integer() && self.name == "epoch_ms" => Ok(vec![DataType::Int64]),
            [DataType::Duration(_)] => Ok(vec![DataType::Duration(TimeUnit::Nanosecond)]),
            [DataType::Timestamp(_, zone)] => Ok(vec![DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())]),
            [x] if is_time(x) => Ok(vec![NANOSECONDS]),
            _ if self.name == "epoch_ms" => {
                plan_err!("epoch_ms takes a time, a difference of times, or a whole number of milliseconds")
            }
            _ => plan_err!("{} takes a time or a difference of times", self.name),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [x] = take_function_args(self.name(), arg_types)?;
        Ok(if x.is_integer() { NANOSECONDS } else { DataType::Int64 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [x] = take_function_args(self.name(), args.args)?;
        let is_scalar = matches!(x, ColumnarValue::Scalar(_));
        let x = x.into_array(rows)?;
        let result: ArrayRef = if x.data_type().is_integer() {
            let milliseconds = x.as_primitive::<Int64Type>();
            let largest = i64::MAX / 1_000_000;
            if milliseconds.iter().flatten().any(|value| !(-largest..=largest).contains(&value)) {
                return exec_err!("a number of milliseconds is out of the range of times");
            }
            let times: TimestampMillisecondArray = milliseconds.reinterpret_cast();
            cast(&times, &NANOSECONDS)?
        } else if let Some(spans) = x.as_primitive_opt::<DurationNanosecondType>() {
            Arc::new(spans.unary::<_, Int64Type>(|span| span / self.unit))
        } else {
            let times = x.as_primitive::<TimestampNanosecondType>();
            Arc::new(times.unary::<_, Int64Type>(|time| time.div_euclid(self.unit)))
        };
        scalar_if(is_scalar, result)
    }
}

fn scalar_if(is_scalar: bool, result: ArrayRef) -> Result<ColumnarValue> {
    Ok(match is_scalar && !result.is_empty() {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

/// The scalar function `date_diff`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateDiff {
    aliases: Vec<String>,
    signature: Signature,
}

impl DateDiff {
    pub(super) fn new() -> DateDiff {
        DateDiff { aliases: vec!["datediff".to_owned()], signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateDiff {
    fn name(&self) -> &str {
        "date_diff"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [unit, from, to] if unit.is_string() && is_time(from) && is_time(to) => {
                Ok(vec![DataType::Utf8, NANOSECONDS, NANOSECONDS])
            }
            _ => plan_err!("date_diff takes (unit, from, to), as in date_diff('hour', a, b)"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [unit, from, to] = take_function_args(self.name(), args.args)?;
        let ColumnarValue::Scalar(ScalarValue::Utf8(unit)) = unit else {
            return exec_err!("the unit of date_diff is a constant");
        };
        let Some(unit) = unit else { return Ok(ColumnarValue::Scalar(ScalarValue::Int64(None))) };
        let number = boundary(&unit)?;
        let is_scalar = matches!((&from, &to), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let (from, to) = (from.into_array(rows)?, to.into_array(rows)?);
        let (from, to) = (from.as_primitive::<TimestampNanosecondType>(), to.as_primitive::<TimestampNanosecondType>());
        let result: Int64Array = arrow::compute::binary(from, to, |from, to| number(to) - number(from))?;
        scalar_if(is_scalar, Arc::new(result))
    }
}

/// How many boundaries of a unit lie before a time.
fn boundary(unit: &str) -> Result<Box<dyn Fn(i64) -> i64>> {
    let months = |months: i64| move |time: i64| months_of(time).div_euclid(months);
    let length = |length: i64| move |time: i64| time.div_euclid(length);
    Ok(match unit.to_lowercase().as_str() {
        "millennium" | "millennia" => Box::new(months(12_000)),
        "century" | "centuries" => Box::new(months(1_200)),
        "decade" | "decades" => Box::new(months(120)),
        "year" | "years" => Box::new(months(12)),
        "quarter" | "quarters" => Box::new(months(3)),
        "month" | "months" => Box::new(months(1)),
        // 1970-01-01 was a Thursday.
        "week" | "weeks" => Box::new(|time| (time.div_euclid(DAY) + 3).div_euclid(7)),
        "day" | "days" => Box::new(length(DAY)),
        "hour" | "hours" => Box::new(length(DAY / 24)),
        "minute" | "minutes" => Box::new(length(60_000_000_000)),
        "second" | "seconds" => Box::new(length(1_000_000_000)),
        "millisecond" | "milliseconds" => Box::new(length(1_000_000)),
        "microsecond" | "microseconds" => Box::new(length(1_000)),
        "nanosecond" | "nanoseconds" => Box::new(length(1)),
        other => return exec_err!("date_diff doesn't know the unit {other}"),
    })
}

/// Months since year 0, by the civil calendar.
fn months_of(time: i64) -> i64 {
    CivilDate::of(time.div_euclid(DAY)).months()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_calendar() {
        let month = |days: i64| months_of(days * DAY);
        let start = month(0);
        assert_eq!(start, 1970 * 12);
        // 1970-01-31, 1970-02-01, 1969-12-31, 2000-02-29, 2000-03-01, 1900-03-01.
        let months = [30, 31, -1, 11_016, 11_017, -25_508].map(|day| month(day) - start);
        assert_eq!(months, [0, 1, -1, 361, 362, -838]);
    }

    #[test]
    fn boundaries_are_counted_not_lengths() {
        let hours = boundary("hour").unwrap();
        assert_eq!(hours(3_600_000_000_000) - hours(3_599_999_999_999), 1);
        assert_eq!(boundary("week").unwrap()(4 * DAY) - boundary("week").unwrap()(3 * DAY), 1);
    }
}
