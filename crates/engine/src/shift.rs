//! Timestamps plus or minus intervals of nanoseconds, as integer sums: Arrow's kernel goes through the calendar for
//! each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampNanosecondType,
};

use crate::expr::Value;

/// The instants of `left` plus or minus the intervals of `right`. `None` for other types, intervals with days or months, and sums that overflow.
pub(crate) fn shifted(left: &Value, right: &Value, before: bool) -> Option<Value> {
    let (DataType::Timestamp(TimeUnit::Nanosecond, _), DataType::Interval(IntervalUnit::MonthDayNano)) =
        (left.data_type(), right.data_type())
    else {
        return None;
    };
    let sum = |instant: i64, step: IntervalMonthDayNano| {
        let step = plain(step)?;
        if before { instant.checked_sub(step) } else { instant.checked_add(step) }
    };
    let (Value::Array(instants) | Value::Scalar(instants), Value::Array(steps) | Value::Scalar(steps)) = (left, right);
    let instants = instants.as_primitive::<TimestampNanosecondType>();
    let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
    let (sums, nulls) = match (left, right) {
        (_, Value::Scalar(_)) => {
            let step = steps.is_valid(0).then(|| steps.value(0))?;
            (
                instants.values().iter().map(|instant| sum(*instant, step)).collect::<Option<Vec<_>>>()?,
                instants.nulls().cloned(),
            )
        }
        (Value::Array(_), Value::Array(_)) => {
            let pairs = instants.values().iter().zip(steps.values());
            let nulls = NullBuffer::union(instants.nulls(), steps.nulls());
            (pairs.map(|(instant, step)| sum(*instant, *step)).collect::<Option<Vec<_>>>()?, nulls)
        }
        (Value::Scalar(_), Value::Array(_)) => return None,
    };
    let result = PrimitiveArray::<TimestampNanosecondType>::new(sums.into(), nulls);
    let result: ArrayRef = Arc::new(result.with_data_type(left.data_type().clone()));
    Some(if matches!(left, Value::Array(_)) { Value::Array(result) } else { Value::Scalar(result) })
}

/// The nanoseconds of an interval that has neither months nor days.
pub(crate) fn plain(interval: <IntervalMonthDayNanoType as ArrowPrimitiveType>::Native) -> Option<i64> {
    (interval.months == 0 && interval.days == 0).then_some(interval.nanoseconds)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use arrow::array::{Datum, IntervalMonthDayNanoArray, Scalar, TimestampNanosecondArray};
    use arrow::compute::kernels::numeric;

    use super::*;

    #[test]
    fn plain_intervals_move_instants_as_the_calendar_does() {
        let instants: ArrayRef =
            Arc::new(TimestampNanosecondArray::from(vec![Some(0), None, Some(-7)]).with_timezone("UTC"));
        let step = |months, days, nanoseconds| Some(IntervalMonthDayNano { months, days, nanoseconds });
        let each: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![step(0, 0, 5), step(0, 0, 6), None]));
        let one: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![step(0, 0, -11)]));
        for steps in [Value::Array(each), Value::Scalar(one)] {
            for before in [false, true] {
                let moved = shifted(&Value::Array(Arc::clone(&instants)), &steps, before).unwrap();
                let kernel = if before { numeric::sub_wrapping } else { numeric::add_wrapping };
                let datum: Box<dyn Datum> = match &steps {
                    Value::Array(steps) => Box::new(Arc::clone(steps)),
                    Value::Scalar(one) => Box::new(Scalar::new(Arc::clone(one))),
                };
                assert_eq!(&moved.into_array(3).unwrap(), &kernel(&instants, datum.as_ref()).unwrap());
            }
        }
        let refused = |step| {
            let steps: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![step]));
            shifted(&Value::Array(Arc::clone(&instants)), &Value::Scalar(steps), true).is_none()
        };
        assert!(refused(step(1, 0, 0)) && refused(step(0, 1, 0)) && refused(step(0, 0, i64::MAX)) && refused(None));
    }
}
