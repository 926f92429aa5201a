//! `local_date(time, zone)`: the date that the clock of a time zone shows at an instant.
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
use splay_store::{Dates, Tz, start_of_date};

use super::arguments::is_text;

/// Name of the function.
pub(crate) const LOCAL_DATE: &str = "local_date";

/// The function.
pub(crate) fn local_date() -> ScalarUDF {
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
            [DataType::Timestamp(_, label), zone] if is_text(zone) || zone.is_null() => label.clone(),
            [time, zone] if (time.is_null() || is_text(time)) && (is_text(zone) || zone.is_null()) => None,
            _ => return plan_err!("local_date takes (time, zone), such as local_date(time, 'America/New_York')"),
        };
        Ok(vec![DataType::Timestamp(TimeUnit::Nanosecond, label), DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [time, ColumnarValue::Scalar(ScalarValue::Utf8(zone))] = args.args.as_slice() else {
            return exec_err!("the zone of local_date must be a constant");
        };
        let Some(zone) = zone else { return Ok(ColumnarValue::Scalar(ScalarValue::Date32(None))) };
        let zone = parsed(zone)?;
        Ok(match time {
            ColumnarValue::Array(times) => ColumnarValue::Array(dates(times, zone)),
            ColumnarValue::Scalar(time) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&dates(&time.to_array()?, zone), 0)?)
            }
        })
    }

    fn preimage(&self, args: &[Expr], lit_expr: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        let [time, zone] = args else { return Ok(PreimageResult::None) };
        let (Some(ScalarValue::Utf8(Some(zone))), Some(ScalarValue::Date32(Some(day)))) =
            (zone.as_literal(), lit_expr.as_literal())
        else {
            return Ok(PreimageResult::None);
        };
        let DataType::Timestamp(TimeUnit::Nanosecond, label) = info.get_data_type(time)? else {
            return Ok(PreimageResult::None);
        };
        let zone = parsed(zone)?;
        let start = |day: Option<i32>| start_of_date(zone, day?);
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

fn dates(times: &ArrayRef, zone: Tz) -> ArrayRef {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let mut dates = Dates::new(zone);
    let of_rows: Vec<i32> = times.values().iter().map(|time| dates.of(*time)).collect();
    Arc::new(Date32Array::new(of_rows.into(), times.nulls().cloned()))
}

fn parsed(zone: &str) -> Result<Tz> {
    match zone.parse() {
        Ok(zone) => Ok(zone),
        Err(_) => exec_err!("unknown time zone '{zone}': zones have names such as 'America/New_York'"),
    }
}
