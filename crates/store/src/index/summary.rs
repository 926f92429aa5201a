//! Count, extremes, sum, first and last of some rows of a numeric column.
//!
//! - Values are kept as 8 bytes: `i64` for signed integers, dates, times and timestamps, `u64` for unsigned, `f64` for floats.
//! - Floats are ordered as Arrow's kernels order them, by IEEE 754 total order: -0 before 0, NaN of positive sign last.
//! - Sums of integers are exact; one that leaves 64 bits is marked as unknown. Sums of floats may be formed in any order.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// How the 8 bytes of a summary are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueKind {
    /// `i64`.
    Signed = 0,
    /// `u64`.
    Unsigned = 1,
    /// `f64`.
    Float = 2,
}

impl ValueKind {
    pub(super) fn from_number(number: u32) -> Option<ValueKind> {
        [ValueKind::Signed, ValueKind::Unsigned, ValueKind::Float].into_iter().find(|kind| *kind as u32 == number)
    }

    /// The kind in which a column of this type is summarised, or `None` if it isn't.
    #[must_use]
    pub fn of(data_type: &DataType) -> Option<ValueKind> {
        Some(match data_type {
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(_, _) => ValueKind::Signed,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => ValueKind::Unsigned,
            DataType::Float32 | DataType::Float64 => ValueKind::Float,
            _ => return None,
        })
    }
}

/// Summary of some rows of one column. Values are raw bits, to be read by the column's [`ValueKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Rows that aren't null.
    pub count: u64,
    /// Least value; meaningless if `count` is 0.
    pub min: u64,
    /// Greatest value; meaningless if `count` is 0.
    pub max: u64,
    /// Sum, or `None` if an integer sum left 64 bits.
    pub sum: Option<u64>,
    /// Value of the first row, `None` if that is null.
    pub first: Option<u64>,
    /// Value of the last row, `None` if that is null.
    pub last: Option<u64>,
}

/// Maps the bits of a value to an integer with the same order, so that values of any kind compare by it.
#[must_use]
pub fn sortable(kind: ValueKind, bits: u64) -> u64 {
    const SIGN: u64 = 1 << 63;
    match kind {
        ValueKind::Signed => bits ^ SIGN,
        ValueKind::Unsigned => bits,
        ValueKind::Float => {
            if bits & SIGN == 0 {
                bits ^ SIGN
            } else {
                !bits
            }
        }
    }
}

/// Summarises `rows` of a column, one summary for each range; `None` if the type isn't summarised.
pub(crate) fn summarise(
    array: &ArrayRef,
    ranges: impl Iterator<Item = std::ops::Range<usize>>,
) -> Option<Vec<Summary>> {
    Some(match array.data_type() {
        DataType::Int8 => typed::<Int8Type>(array, ranges),
        DataType::Int16 => typed::<Int16Type>(array, ranges),
        DataType::Int32 => typed::<Int32Type>(array, ranges),
        DataType::Int64 => typed::<Int64Type>(array, ranges),
        DataType::Date32 => typed::<Date32Type>(array, ranges),
        DataType::Time64(_) => typed::<Time64NanosecondType>(array, ranges),
        DataType::Timestamp(_, _) => typed::<TimestampNanosecondType>(array, ranges),
        DataType::UInt8 => typed::<UInt8Type>(array, ranges),
        DataType::UInt16 => typed::<UInt16Type>(array, ranges),
        DataType::UInt32 => typed::<UInt32Type>(array, ranges),
        DataType::UInt64 => typed::<UInt64Type>(array, ranges),
        DataType::Float32 => typed::<Float32Type>(array, ranges),
        DataType::Float64 => typed::<Float64Type>(array, ranges),
        _ => return None,
    })
}

fn typed<T>(array: &ArrayRef, ranges: impl Iterator<Item = std::ops::Range<usize>>) -> Vec<Summary>
where
    T: ArrowPrimitiveType,
    T::Native: Value,
{
    let array = array.as_primitive::<T>();
    let values = array.values();
    ranges
        .map(|range| match array.nulls() {
            None => of_values(&values[range]),
            Some(nulls) => of_nullable(values, nulls, range),
        })
        .collect()
}

fn of_values<V: Value>(values: &[V]) -> Summary {
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return Summary::default() };
    let (mut min, mut max) = (*first, *first);
    for value in values {
        min = min.least(*value);
        max = max.greatest(*value);
    }
    Summary {
        count: values.len() as u64,
        min: min.bits(),
        max: max.bits(),
        sum: V::sum(values.iter().copied()),
        first: Some(first.bits()),
        last: Some(last.bits()),
    }
}

fn of_nullable<V: Value>(values: &[V], nulls: &arrow::buffer::NullBuffer, range: std::ops::Range<usize>) -> Summary {
    let present = || range.clone().filter(|row| nulls.is_valid(*row)).map(|row| values[row]);
    let Some(one) = present().next() else { return Summary::default() };
    let at = |row: usize| nulls.is_valid(row).then(|| values[row].bits());
    Summary {
        count: present().count() as u64,
        min: present().fold(one, Value::least).bits(),
        max: present().fold(one, Value::greatest).bits(),
        sum: V::sum(present()),
        first: at(range.start),
        last: at(range.end - 1),
    }
}

/// A native value of a summarised column.
trait Value: Copy {
    fn bits(self) -> u64;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    fn sum(values: impl Iterator<Item = Self>) -> Option<u64>;
}

macro_rules! integer {
    ($($native:ty => $wide:ty),*) => {$(
        impl Value for $native {
            fn bits(self) -> u64 {
                <$wide>::from(self).cast_unsigned_bits()
            }
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
            fn sum(values: impl Iterator<Item = Self>) -> Option<u64> {
                let sum: i128 = values.map(i128::from).sum();
                <$wide>::try_from(sum).ok().map(CastBits::cast_unsigned_bits)
            }
        }
    )*};
}

integer!(i8 => i64, i16 => i64, i32 => i64, i64 => i64, u8 => u64, u16 => u64, u32 => u64, u64 => u64);

trait CastBits {
    fn cast_unsigned_bits(self) -> u64;
}

impl CastBits for i64 {
    fn cast_unsigned_bits(self) -> u64 {
        self.cast_unsigned()
    }
}

impl CastBits for u64 {
    fn cast_unsigned_bits(self) -> u64 {
        self
    }
}

macro_rules! float {
    ($($native:ty),*) => {$(
        impl Value for $native {
            fn bits(self) -> u64 {
                f64::from(self).to_bits()
            }
            fn least(self, other: Self) -> Self {
                if other.total_cmp(&self).is_lt() { other } else { self }
            }
            fn greatest(self, other: Self) -> Self {
                if other.total_cmp(&self).is_gt() { other } else { self }
            }
            fn sum(values: impl Iterator<Item = Self>) -> Option<u64> {
                Some(values.map(f64::from).sum::<f64>().to_bits())
            }
        }
    )*};
}

float!(f32, f64);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use std::sync::Arc;

    fn one(array: ArrayRef) -> Summary {
        let rows = array.len();
        summarise(&array, std::iter::once(0..rows)).unwrap()[0]
    }

    #[test]
    fn nulls_are_left_out_and_marked_at_the_ends() {
        let summary = one(Arc::new(Int64Array::from(vec![None, Some(7), Some(-3), None])));
        assert_eq!(summary.count, 2);
        assert_eq!((summary.min.cast_signed(), summary.max.cast_signed()), (-3, 7));
        assert_eq!((summary.sum, summary.first, summary.last), (Some(4), None, None));
    }

    #[test]
    fn an_overflowing_sum_is_unknown() {
        assert_eq!(one(Arc::new(Int64Array::from(vec![i64::MAX, 1]))).sum, None);
        assert_eq!(one(Arc::new(Int64Array::from(vec![i64::MAX, 1, -1]))).sum, Some(i64::MAX.cast_unsigned()));
    }

    #[test]
    fn floats_follow_total_order() {
        let summary = one(Arc::new(Float64Array::from(vec![0.0, f64::NAN, -0.0, 2.0])));
        assert!(f64::from_bits(summary.min).is_sign_negative());
        assert!(f64::from_bits(summary.max).is_nan());
        let order = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.5, f64::INFINITY, f64::NAN];
        let keys: Vec<u64> = order.iter().map(|v| sortable(ValueKind::Float, v.to_bits())).collect();
        assert!(keys.is_sorted());
        let signed: Vec<u64> =
            [i64::MIN, -1, 0, 1, i64::MAX].iter().map(|v| sortable(ValueKind::Signed, v.cast_unsigned())).collect();
        assert!(signed.is_sorted());
    }
}
