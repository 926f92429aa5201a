//! Timestamps and dates plus or minus intervals. Arrow's kernel builds a date and a time of day for each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampNanosecondType,
};
use splay_store::CivilDate;

use crate::value::Value;

/// Nanoseconds of a day of UTC.
pub(crate) const DAY: i64 = 86_400_000_000_000;

/// The times or dates of `left` plus or minus the intervals of `right`. `None` for other types, for days and months in other zones than UTC, for parts of
/// a day with dates, and for sums that overflow.
pub(crate) fn shifted(left: &Value, right: &Value, before: bool) -> Option<Value> {
    if *right.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return None;
    }
    match left.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let is_utc = zone.as_deref().is_none_or(|zone| zone == "UTC");
            each::<TimestampNanosecondType>(left, right, |instant, by| {
                (is_utc || plain(by).is_some()).then(|| later_time(instant, signed(by, before)?))?
            })
        }
        DataType::Date32 => each::<Date32Type>(left, right, |date, by| later_date(date, signed(by, before)?)),
        _ => None,
    }
}

/// The results of a function of a time or date and an interval, if it has one for each row.
fn each<T: ArrowPrimitiveType>(
    left: &Value,
    right: &Value,
    sum: impl Fn(T::Native, IntervalMonthDayNano) -> Option<T::Native>,
) -> Option<Value> {
    let (Value::Array(times) | Value::Scalar(times), Value::Array(steps) | Value::Scalar(steps)) = (left, right);
    let (times, steps) = (times.as_primitive::<T>(), steps.as_primitive::<IntervalMonthDayNanoType>());
    let (sums, nulls) = match (left, right) {
        (_, Value::Scalar(_)) => {
            let step = steps.is_valid(0).then(|| steps.value(0))?;
            let nulls = times.nulls().cloned();
            (times.values().iter().map(|time| sum(*time, step)).collect::<Option<Vec<_>>>()?, nulls)
        }
        (Value::Array(_), Value::Array(_)) => {
            let pairs = times.values().iter().zip(steps.values());
            let nulls = NullBuffer::union(times.nulls(), steps.nulls());
            (pairs.map(|(time, step)| sum(*time, *step)).collect::<Option<Vec<_>>>()?, nulls)
        }
        (Value::Scalar(_), Value::Array(_)) => return None,
    };
    let result = PrimitiveArray::<T>::new(sums.into(), nulls).with_data_type(left.data_type().clone());
    let result: ArrayRef = Arc::new(result);
    Some(if matches!(left, Value::Array(_)) { Value::Array(result) } else { Value::Scalar(result) })
}

/// An interval, or the one that undoes it.
fn signed(by: IntervalMonthDayNano, before: bool) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = by;
    Some(match before {
        false => by,
        true => IntervalMonthDayNano {
            months: months.checked_neg()?,
            days: days.checked_neg()?,
            nanoseconds: nanoseconds.checked_neg()?,
        },
    })
}

/// First the months, then the days, then the rest, as Arrow adds them.
#[inline]
fn later_time(instant: i64, by: IntervalMonthDayNano) -> Option<i64> {
    let instant = match by.months {
        0 => instant,
        months => {
            let (day, of_day) = (instant.div_euclid(DAY), instant.rem_euclid(DAY));
            later_day(day, months)?.checked_mul(DAY)?.checked_add(of_day)?
        }
    };
    instant.checked_add(i64::from(by.days).checked_mul(DAY)?)?.checked_add(by.nanoseconds)
}

#[inline]
fn later_date(date: i32, by: IntervalMonthDayNano) -> Option<i32> {
    if by.nanoseconds % DAY != 0 {
        return None;
    }
    let day = match by.months {
        0 => i64::from(date),
        months => later_day(i64::from(date), months)?,
    };
    i32::try_from(day + i64::from(by.days) + by.nanoseconds / DAY).ok()
}

#[inline]
fn later_day(day: i64, months: i32) -> Option<i64> {
    CivilDate::of(day).months_later(i64::from(months)).days()
}

/// The nanoseconds of an interval that has neither months nor days.
pub(crate) fn plain(interval: <IntervalMonthDayNanoType as ArrowPrimitiveType>::Native) -> Option<i64> {
    (interval.months == 0 && interval.days == 0).then_some(interval.nanoseconds)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use arrow::array::{Date32Array, Datum, IntervalMonthDayNanoArray, Scalar, TimestampNanosecondArray};
    use arrow::compute::kernels::numeric;

    use super::*;

    fn step(months: i32, days: i32, nanoseconds: i64) -> Option<IntervalMonthDayNano> {
        Some(IntervalMonthDayNano { months, days, nanoseconds })
    }

    fn assert_moved(times: &ArrayRef, steps: &[Option<IntervalMonthDayNano>]) {
        let one = |step| Value::Scalar(Arc::new(IntervalMonthDayNanoArray::from(vec![step])) as ArrayRef);
        let each = Value::Array(Arc::new(IntervalMonthDayNanoArray::from(steps.to_vec())));
        let steps =
            steps.iter().flatten().map(|step| one(Some(*step))).chain((steps.len() == times.len()).then_some(each));
        for steps in steps {
            for before in [false, true] {
                let moved = shifted(&Value::Array(Arc::clone(times)), &steps, before).unwrap();
                let kernel = if before { numeric::sub_wrapping } else { numeric::add_wrapping };
                let datum: Box<dyn Datum> = match &steps {
                    Value::Array(steps) => Box::new(Arc::clone(steps)),
                    Value::Scalar(one) => Box::new(Scalar::new(Arc::clone(one))),
                };
                let expected = kernel(times, datum.as_ref()).unwrap();
                assert_eq!(&moved.into_array(times.len()).unwrap(), &expected, "{before} {steps:?}");
            }
        }
    }

    #[test]
    fn intervals_move_times_and_dates_as_the_calendar_does() {
        let leap = 19_782 * DAY;
        let instants =
            TimestampNanosecondArray::from(vec![Some(0), None, Some(-7), Some(leap + 5), Some(-DAY), Some(30 * DAY)]);
        let steps = [step(0, 0, 5), step(0, 1, -6), None, step(12, 0, 0), step(1, -2, 3), step(-13, 40, DAY)];
        assert_moved(&(Arc::new(instants.clone()) as ArrayRef), &steps);
        assert_moved(&(Arc::new(instants.with_timezone("UTC")) as ArrayRef), &steps);
        let dates: ArrayRef =
            Arc::new(Date32Array::from(vec![Some(0), None, Some(-1), Some(19_782), Some(30), Some(-719_529)]));
        assert_moved(
            &dates,
            &[step(0, 1, 0), step(0, -400, 3 * DAY), None, step(12, 0, 0), step(1, -2, 0), step(-13, 40, 0)],
        );
    }

    #[test]
    fn what_needs_a_zone_or_overflows_is_left_to_others() {
        let instants: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![0, i64::MAX - 1]));
        let zoned = Arc::new(instants.as_primitive::<TimestampNanosecondType>().clone().with_timezone("Europe/Berlin"))
            as ArrayRef;
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![0, i32::MAX]));
        let refused = |times: &ArrayRef, step| {
            let steps: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![step]));
            shifted(&Value::Array(Arc::clone(times)), &Value::Scalar(steps), false).is_none()
        };
        assert!(
            refused(&instants, step(1, 0, 0)) && refused(&instants, step(0, 1, 0)) && refused(&instants, step(0, 0, 2))
        );
        assert!(
            refused(&instants, None) && refused(&instants, step(0, i32::MAX, 0)) && !refused(&instants, step(0, 0, 1))
        );
        assert!(refused(&zoned, step(0, -1, 0)) && refused(&zoned, step(-1, 0, 0)) && !refused(&zoned, step(0, 0, -1)));
        assert!(refused(&dates, step(0, 1, 0)) && refused(&dates, step(0, 0, 1)) && !refused(&dates, step(0, -1, 0)));
    }
}
