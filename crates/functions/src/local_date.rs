//! `local_date(time, zone)`: the date that the clock of a time zone shows at an instant. `local_date(time, zone, '17:00')` is the next date from 17:00
//! on, as trading dates of futures are.
//!
//! A time without a zone label counts as UTC. A condition on it bounds the time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use splay_store::{Dates, DayStart, Tz, start_of_date};

use crate::arguments::is_text;

/// Name of the function.
pub const LOCAL_DATE: &str = "local_date";

/// The function.
pub fn local_date() -> ScalarUDF {
    ScalarUDF::from(LocalDate { signature: Signature::user_defined(Volatility::Immutable) })
}

/// The scalar function `local_date`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LocalDate {
    signature: Signature,
}

impl ScalarUDFImpl for LocalDate {
    fn name(&self) -> &str {
        LOCAL_DATE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let label = match arg_types {
            [DataType::Timestamp(_, label), rest @ ..] if are_texts(rest) => label.clone(),
            [time, rest @ ..] if (time.is_null() || is_text(time)) && are_texts(rest) => None,
            _ => {
                return plan_err!(
                    "local_date takes (time, zone) and may be the start of a day, such as local_date(time, 'America/Chicago', '17:00')"
                );
            }
        };
        let mut types = vec![DataType::Utf8; arg_types.len()];
        types[0] = DataType::Timestamp(TimeUnit::Nanosecond, label);
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [time, rest @ ..] = args.args.as_slice() else { return exec_err!("local_date takes a time") };
        let mut constants = Vec::with_capacity(rest.len());
        for constant in rest {
            match constant {
                ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) => constants.push(text.as_str()),
                ColumnarValue::Scalar(ScalarValue::Utf8(None)) => {
                    return Ok(ColumnarValue::Scalar(ScalarValue::Date32(None)));
                }
                _ => return exec_err!("the zone of local_date, and the start of its days, must be constants"),
            }
        }
        let (zone, start) = parsed(&constants)?;
        Ok(match time {
            ColumnarValue::Array(times) => ColumnarValue::Array(dates(times, zone, start)),
            ColumnarValue::Scalar(time) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&dates(&time.to_array()?, zone, start), 0)?)
            }
        })
    }

    fn preimage(&self, args: &[Expr], lit_expr: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        let [time, rest @ ..] = args else { return Ok(PreimageResult::None) };
        let text = |constant: &Expr| match constant.as_literal() {
            Some(ScalarValue::Utf8(Some(text))) => Some(text.clone()),
            _ => None,
        };
        let (Some(constants), Some(ScalarValue::Date32(Some(day)))) =
            (rest.iter().map(text).collect::<Option<Vec<String>>>(), lit_expr.as_literal())
        else {
            return Ok(PreimageResult::None);
        };
        let DataType::Timestamp(TimeUnit::Nanosecond, label) = info.get_data_type(time)? else {
            return Ok(PreimageResult::None);
        };
        let (zone, day_start) = parsed(&constants)?;
        let start = |day: Option<i32>| start_of_date(zone, day_start, day?);
        let (Some(start), Some(end)) = (start(Some(*day)), start(day.checked_add(1))) else {
            return Ok(PreimageResult::None);
        };
        // A date that a zone left out.
        if start >= end {
            return Ok(PreimageResult::None);
        }
        let bound = |instant| ScalarValue::TimestampNanosecond(Some(instant), label.clone());
        let interval = Box::new(Interval::try_new(bound(start), bound(end))?);
        Ok(PreimageResult::Range { expr: time.clone(), interval })
    }
}

fn are_texts(types: &[DataType]) -> bool {
    (1..=2).contains(&types.len()) && types.iter().all(|of| is_text(of) || of.is_null())
}

fn dates(times: &ArrayRef, zone: Tz, start: DayStart) -> ArrayRef {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let mut dates = Dates::new(zone).starting_at(start);
    let of_rows: Vec<i32> = times.values().iter().map(|time| dates.of(*time)).collect();
    Arc::new(Date32Array::new(of_rows.into(), times.nulls().cloned()))
}

/// The zone, and the start of its days.
fn parsed(constants: &[impl AsRef<str>]) -> Result<(Tz, DayStart)> {
    let zone = constants.first().map_or("", AsRef::as_ref);
    let Ok(zone) = zone.parse() else {
        return exec_err!("unknown time zone '{zone}': zones have names such as 'America/New_York'");
    };
    match constants.get(1).map_or(Ok(DayStart::default()), |start| start.as_ref().parse()) {
        Ok(start) => Ok((zone, start)),
        Err(reason) => exec_err!("{reason}"),
    }
}
