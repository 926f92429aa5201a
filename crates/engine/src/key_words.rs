//! Values of keys as words of 64 bits, which are equal if and only if the values are.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use splay_store::canonical;

use crate::error::{Error, Result};
use crate::shift::plain;
use crate::vector::map_vectorized;

/// A word of each value.
fn converted<V: Copy>(values: &[V], word: impl Fn(&V) -> u64) -> Vec<u64> {
    map_vectorized(values.iter(), word)
}

/// The words of a column of numbers.
pub(crate) fn words_of(array: &ArrayRef) -> Result<ScalarBuffer<u64>> {
    let formed = canonical(array);
    let array = formed.as_ref().unwrap_or(array);
    macro_rules! words {
        ($type:ty, $word:expr) => {
            converted(AsArray::as_primitive::<$type>(array.as_ref()).values(), $word).into()
        };
        // The words are the values, wherever they stand.
        ($type:ty) => {
            AsArray::as_primitive::<$type>(array.as_ref()).values().inner().clone().into()
        };
    }
    Ok(match array.data_type() {
        DataType::Boolean => AsArray::as_boolean(array.as_ref()).values().iter().map(u64::from).collect(),
        DataType::Int8 => words!(Int8Type, |value| *value as u64),
        DataType::Int16 => words!(Int16Type, |value| *value as u64),
        DataType::Int32 => words!(Int32Type, |value| *value as u64),
        DataType::Date32 => words!(Date32Type, |value| *value as u64),
        DataType::Int64 => words!(Int64Type),
        DataType::Time64(TimeUnit::Nanosecond) => words!(Time64NanosecondType),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => words!(TimestampSecondType),
            TimeUnit::Millisecond => words!(TimestampMillisecondType),
            TimeUnit::Microsecond => words!(TimestampMicrosecondType),
            TimeUnit::Nanosecond => words!(TimestampNanosecondType),
        },
        DataType::UInt8 => words!(UInt8Type, |value| u64::from(*value)),
        DataType::UInt16 => words!(UInt16Type, |value| u64::from(*value)),
        DataType::UInt32 => words!(UInt32Type, |value| u64::from(*value)),
        DataType::UInt64 => words!(UInt64Type),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = AsArray::as_primitive::<IntervalMonthDayNanoType>(array.as_ref()).values();
            let words = intervals.iter().map(|interval| plain(*interval).map(i64::cast_unsigned));
            let refused = || Error::Unsupported("groups by intervals of days or months".to_owned());
            words.collect::<Option<_>>().ok_or_else(refused)?
        }
        DataType::Decimal128(_, _) => {
            let values = AsArray::as_primitive::<Decimal128Type>(array.as_ref());
            #[expect(clippy::cast_possible_truncation, reason = "what doesn't fit is seen by what comes back")]
            let (low, fits) = (|value: i128| value as i64, |value: i128| i128::from(value as i64) == value);
            if values.values().iter().fold(true, |all, value| all & fits(*value)) {
                return Ok(values.values().iter().map(|value| low(*value).cast_unsigned()).collect());
            }
            // What stands for null may be any number.
            let word = |(row, value): (usize, &i128)| match i64::try_from(*value) {
                Ok(value) => Some(value.cast_unsigned()),
                Err(_) => values.is_null(row).then_some(0),
            };
            let words = values.values().iter().enumerate().map(word).collect::<Option<_>>();
            words.ok_or_else(|| Error::Unsupported("decimals of more than 18 digits as words".to_owned()))?
        }
        DataType::Float32 => words!(Float32Type, |value| u64::from(value.to_bits())),
        DataType::Float64 => words!(Float64Type),
        other => return Err(Error::Unsupported(format!("groups by a {other}"))),
    })
}
