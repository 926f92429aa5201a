//! Count, extremes, sum, first and last of some rows of a numeric column.
//!
//! - Values are kept as 8 bytes: `i64` for signed integers, dates, times and timestamps, `u64` for unsigned, `f64` for floats.
//! - Floats are ordered as Arrow's kernels order them, by IEEE 754 total order: -0 before 0, NaN of positive sign last.
//! - Sums of integers are exact; one that leaves 64 bits is marked as unknown. Sums of floats may be formed in any order.

use std::ops::{Add, Range};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::format::BLOCK_ROWS;
use crate::background;

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

/// Maps the bits of a value to an integer with the same order, so values of any kind are compared as integers.
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

/// Summaries of a column by block of [`BLOCK_ROWS`] rows; `None` if the type isn't summarised.
pub(crate) fn summarise(array: &ArrayRef) -> Option<Vec<Summary>> {
    Some(match array.data_type() {
        DataType::Int8 => summaries_of::<Int8Type>(array),
        DataType::Int16 => summaries_of::<Int16Type>(array),
        DataType::Int32 => summaries_of::<Int32Type>(array),
        DataType::Int64 => summaries_of::<Int64Type>(array),
        DataType::Date32 => summaries_of::<Date32Type>(array),
        DataType::Time64(_) => summaries_of::<Time64NanosecondType>(array),
        DataType::Timestamp(_, _) => summaries_of::<TimestampNanosecondType>(array),
        DataType::UInt8 => summaries_of::<UInt8Type>(array),
        DataType::UInt16 => summaries_of::<UInt16Type>(array),
        DataType::UInt32 => summaries_of::<UInt32Type>(array),
        DataType::UInt64 => summaries_of::<UInt64Type>(array),
        DataType::Float32 => summaries_of::<Float32Type>(array),
        DataType::Float64 => summaries_of::<Float64Type>(array),
        _ => return None,
    })
}

fn summaries_of<T>(array: &ArrayRef) -> Vec<Summary>
where
    T: ArrowPrimitiveType,
    T::Native: SummarisedValue,
{
    let array = array.as_primitive::<T>();
    let of_block = |start: usize| {
        let rows = start..array.len().min(start + BLOCK_ROWS);
        background::did(rows.len());
        match array.nulls() {
            None => RowsSummary::of(&array.values()[rows]),
            Some(nulls) => RowsSummary::of_nullable(array.values(), nulls, rows),
        }
    };
    (0..array.len()).step_by(BLOCK_ROWS).map(|start| of_block(start).summary()).collect()
}

/// Some rows, at least one of them. Without a value among them the extremes are of no meaning.
#[derive(Debug, Clone, Copy)]
struct RowsSummary<V: SummarisedValue> {
    count: u64,
    min: V,
    max: V,
    sum: V::Sum,
    first: Option<V>,
    last: Option<V>,
}

impl<V: SummarisedValue> RowsSummary<V> {
    fn of(values: &[V]) -> RowsSummary<V> {
        let (min, max, sum) = V::extremes_and_sum(values);
        RowsSummary {
            count: values.len() as u64,
            min,
            max,
            sum,
            first: values.first().copied(),
            last: values.last().copied(),
        }
    }

    fn of_nullable(values: &[V], nulls: &NullBuffer, rows: Range<usize>) -> RowsSummary<V> {
        let value = |row: usize| nulls.is_valid(row).then(|| values[row]);
        let present: Vec<V> = rows.clone().filter_map(value).collect();
        let ends = (value(rows.start), value(rows.end - 1));
        let part = if present.is_empty() {
            RowsSummary { count: 0, ..RowsSummary::of(&[V::default()]) }
        } else {
            RowsSummary::of(&present)
        };
        RowsSummary { first: ends.0, last: ends.1, ..part }
    }

    fn summary(self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        Summary {
            count: self.count,
            min: self.min.bits(),
            max: self.max.bits(),
            sum: V::sum_bits(self.sum),
            first: self.first.map(V::bits),
            last: self.last.map(V::bits),
        }
    }
}

/// Chains of operations that don't wait for each other.
const LANES: usize = 4;

/// A native value of a summarised column.
trait SummarisedValue: Copy + Default {
    /// A sum that no number of rows makes overflow.
    type Sum: Copy + Add<Output = Self::Sum>;
    fn bits(self) -> u64;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    /// Least value, greatest value and sum. There must be at least one value.
    fn extremes_and_sum(values: &[Self]) -> (Self, Self, Self::Sum);
    fn sum_bits(sum: Self::Sum) -> Option<u64>;
}

/// Folds values in lanes, then the lanes.
#[inline(always)]
fn in_lanes<V: Copy, A: Copy>(values: &[V], start: A, step: impl Fn(A, V) -> A, join: impl Fn(A, A) -> A) -> A {
    let mut lanes = [start; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = step(lanes[lane], chunk[lane]);
        }
    }
    let folded = rest.iter().fold(start, |folded, value| step(folded, *value));
    lanes.into_iter().fold(folded, join)
}

macro_rules! integer {
    ($($native:ty => $wide:ty),*) => {$(
        impl SummarisedValue for $native {
            type Sum = i128;
            fn bits(self) -> u64 {
                <$wide>::from(self).cast_unsigned_bits()
            }
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
            fn extremes_and_sum(values: &[Self]) -> (Self, Self, i128) {
                let min = in_lanes(values, values[0], Self::least, Self::least);
                let max = in_lanes(values, values[0], Self::greatest, Self::greatest);
                let (least, rows) = (<$wide>::from(min), values.len() as i128);
                let spread = i128::from(max) - i128::from(min);
                if spread * rows > i128::from(u64::MAX) {
                    return (min, max, values.iter().map(|value| i128::from(*value)).sum());
                }
                // How far they are above the least of them, which is little for times.
                let above = |sum: u64, value: Self| {
                    sum.wrapping_add(<$wide>::from(value).wrapping_sub(least).cast_unsigned_bits())
                };
                let above = in_lanes(values, 0, above, u64::wrapping_add);
                (min, max, i128::from(min) * rows + i128::from(above))
            }
            fn sum_bits(sum: i128) -> Option<u64> {
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
        impl SummarisedValue for $native {
            type Sum = f64;
            fn bits(self) -> u64 {
                f64::from(self).to_bits()
            }
            fn least(self, other: Self) -> Self {
                if other.total_cmp(&self).is_lt() { other } else { self }
            }
            fn greatest(self, other: Self) -> Self {
                if other.total_cmp(&self).is_gt() { other } else { self }
            }
            fn extremes_and_sum(values: &[Self]) -> (Self, Self, f64) {
                let sum = in_lanes(values, 0.0, |sum, value| sum + f64::from(value), |left, right| left + right);
                let less = |left: Self, right: Self| if right < left { right } else { left };
                let more = |left: Self, right: Self| if right > left { right } else { left };
                let (min, max) = (in_lanes(values, values[0], less, less), in_lanes(values, values[0], more, more));
                // Comparisons know no order of zeros nor of NaN, of which a sum tells.
                if sum.is_nan() || min == 0.0 || max == 0.0 {
                    let of = |step: fn(Self, Self) -> Self| values.iter().copied().fold(values[0], step);
                    return (of(Self::least), of(Self::greatest), sum);
                }
                (min, max, sum)
            }
            fn sum_bits(sum: f64) -> Option<u64> {
                Some(sum.to_bits())
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
    use proptest::prelude::*;
    use std::sync::Arc;

    fn one(array: ArrayRef) -> Summary {
        summarise(&array).unwrap()[0]
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

    /// The summary by a plain loop over the rows.
    fn plainly<T: ArrowPrimitiveType>(rows: &[Option<T::Native>]) -> Summary
    where
        T::Native: SummarisedValue,
    {
        let mut present = rows.iter().flatten().copied();
        let Some(one) = present.next() else { return Summary::default() };
        let (mut min, mut max, mut sum) = (one, one, V0::<T>::extremes_and_sum(&[one]).2);
        for value in present {
            (min, max) = (min.least(value), max.greatest(value));
            sum = sum + V0::<T>::extremes_and_sum(&[value]).2;
        }
        let end = |row: Option<&Option<T::Native>>| row.copied().flatten().map(SummarisedValue::bits);
        Summary {
            count: rows.iter().flatten().count() as u64,
            min: min.bits(),
            max: max.bits(),
            sum: V0::<T>::sum_bits(sum),
            first: end(rows.first()),
            last: end(rows.last()),
        }
    }

    type V0<T> = <T as ArrowPrimitiveType>::Native;

    fn check<T: ArrowPrimitiveType>(rows: &[Option<T::Native>])
    where
        T::Native: SummarisedValue,
    {
        let array: ArrayRef = Arc::new(arrow::array::PrimitiveArray::<T>::from_iter(rows.iter().copied()));
        let by_block: Vec<Summary> = rows.chunks(BLOCK_ROWS).map(plainly::<T>).collect();
        assert_eq!(summarise(&array).unwrap(), by_block);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Floats are small multiples of a quarter, whose sums are exact in any order, and one odd one again and again.
        #[test]
        fn blocks_are_what_their_rows_say(
            numbers in prop::collection::vec(prop::option::weighted(0.9, -40..40i64), 0..3_000),
            odd in prop::option::of(prop::sample::select(vec![-0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY])),
            base in prop::sample::select(vec![0, 1_700_000_000_000_000_000, i64::MAX - 40, i64::MIN + 40]),
            has_nulls in any::<bool>(),
        ) {
            let numbers: Vec<Option<i64>> =
                numbers.into_iter().map(|number| if has_nulls { number } else { Some(number.unwrap_or(3)) }).collect();
            check::<Int64Type>(&numbers.iter().map(|row| row.map(|n| base + n)).collect::<Vec<_>>());
            check::<UInt64Type>(
                &numbers.iter().map(|row| row.map(|n| (base ^ n).cast_unsigned())).collect::<Vec<_>>());
            check::<Int8Type>(&numbers.iter().map(|row| row.map(|n| n as i8)).collect::<Vec<_>>());
            check::<UInt32Type>(&numbers.iter().map(|row| row.map(|n| n as u32)).collect::<Vec<_>>());
            let float = |n: i64| if n % 37 == 5 { odd.unwrap_or(1.0) } else { n as f64 / 4.0 + 20.5 };
            check::<Float64Type>(&numbers.iter().map(|row| row.map(float)).collect::<Vec<_>>());
            check::<Float32Type>(
                &numbers.iter().map(|row| row.map(|n| n as f32 / 4.0)).collect::<Vec<_>>());
        }
    }
}
