//! Sums, differences and products of whole numbers.
//!
//! A loop computes all rows modulo 2^bits by vector instructions, and notes whether one of them overflows. Arrow's
//! kernels check each row before they go on to the next. They compute again what overflows, because they know which row
//! does, and that the number behind a null doesn't matter.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::expr::{BinaryOp, Value};
use crate::vector::map_vectorized;

/// The sum, difference or product of whole numbers of one type. `None` for other operations and types, for two constants, for a null constant, and if
/// a row overflows.
pub(crate) fn whole_numbers(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    match left.data_type() {
        DataType::Int8 => of_type::<Int8Type>(op, left, right),
        DataType::Int16 => of_type::<Int16Type>(op, left, right),
        DataType::Int32 => of_type::<Int32Type>(op, left, right),
        DataType::Int64 => of_type::<Int64Type>(op, left, right),
        DataType::UInt8 => of_type::<UInt8Type>(op, left, right),
        DataType::UInt16 => of_type::<UInt16Type>(op, left, right),
        DataType::UInt32 => of_type::<UInt32Type>(op, left, right),
        DataType::UInt64 => of_type::<UInt64Type>(op, left, right),
        _ => None,
    }
}

fn of_type<T: ArrowPrimitiveType<Native: WholeNumber>>(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    match op {
        BinaryOp::Add => by_row::<T>(left, right, T::Native::sum),
        BinaryOp::Subtract => by_row::<T>(left, right, T::Native::difference),
        BinaryOp::Multiply => by_row::<T>(left, right, T::Native::product),
        _ => None,
    }
}

fn by_row<T: ArrowPrimitiveType<Native: WholeNumber>>(
    left: &Value,
    right: &Value,
    compute: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> Option<ArrayRef> {
    let numbers = |value: &Value| match value {
        Value::Array(array) | Value::Scalar(array) => array.as_primitive_opt::<T>().cloned(),
    };
    let (lefts, rights) = (numbers(left)?, numbers(right)?);
    let constant = |numbers: &PrimitiveArray<T>| numbers.is_valid(0).then(|| numbers.value(0));
    let (values, nulls) = match (left, right) {
        (Value::Array(_), Value::Array(_)) => {
            let pairs = lefts.values().iter().copied().zip(rights.values().iter().copied());
            (computed(pairs, compute)?, NullBuffer::union(lefts.nulls(), rights.nulls()))
        }
        (Value::Array(_), Value::Scalar(_)) => {
            let right = constant(&rights)?;
            (computed(lefts.values().iter().map(|left| (*left, right)), compute)?, lefts.nulls().cloned())
        }
        (Value::Scalar(_), Value::Array(_)) => {
            let left = constant(&lefts)?;
            (computed(rights.values().iter().map(|right| (left, *right)), compute)?, rights.nulls().cloned())
        }
        (Value::Scalar(_), Value::Scalar(_)) => return None,
    };
    Some(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
}

/// The results for some pairs of numbers; `None` if one overflows.
fn computed<N: WholeNumber>(
    pairs: impl ExactSizeIterator<Item = (N, N)>,
    compute: impl Fn(N, N) -> (N, N),
) -> Option<Vec<N>> {
    let mut marks = N::default();
    let results = map_vectorized(
        pairs,
        #[inline(always)]
        |(left, right)| {
            let (value, mark) = compute(left, right);
            marks = marks.with(mark);
            value
        },
    );
    (!marks.overflow()).then_some(results)
}

/// Each operation gives the result modulo 2^bits and a mark, by whose bits an overflow shows.
trait WholeNumber: Copy + Default {
    fn sum(self, other: Self) -> (Self, Self);
    fn difference(self, other: Self) -> (Self, Self);
    fn product(self, other: Self) -> (Self, Self);
    /// The marks of several operations as one.
    fn with(self, mark: Self) -> Self;
    /// Whether marks show that an operation overflows.
    fn overflow(self) -> bool;
}

macro_rules! whole_numbers {
    ($native:ty, $marks:ident => $overflow:expr, ($left:ident, $right:ident, $result:ident) => sum $sum:expr, difference $difference:expr) => {
        impl WholeNumber for $native {
            #[inline(always)]
            fn sum(self, $right: $native) -> ($native, $native) {
                let ($left, $result) = (self, self.wrapping_add($right));
                ($result, $sum)
            }
            #[inline(always)]
            fn difference(self, $right: $native) -> ($native, $native) {
                let ($left, $result) = (self, self.wrapping_sub($right));
                ($result, $difference)
            }
            #[inline(always)]
            fn product(self, other: $native) -> ($native, $native) {
                let (product, overflows) = self.overflowing_mul(other);
                (product, if overflows { !0 } else { 0 })
            }
            #[inline(always)]
            fn with(self, mark: $native) -> $native {
                self | mark
            }
            #[inline(always)]
            fn overflow(self) -> bool {
                let $marks = self;
                $overflow
            }
        }
    };
}

/// The sign bit of a mark shows an overflow: the result has another sign than both numbers of a sum, or than the first of a difference of numbers with
/// different signs.
macro_rules! signed {
    ($($native:ty),*) => {$(
        whole_numbers!(
            $native,
            marks => marks < 0,
            (left, right, result) => sum (left ^ result) & (right ^ result), difference (left ^ right) & (left ^ result)
        );
    )*};
}

/// Any bit of a mark shows an overflow: a sum below one of its numbers, or a difference from a smaller number.
macro_rules! unsigned {
    ($($native:ty),*) => {$(
        whole_numbers!(
            $native,
            marks => marks != 0,
            (left, right, result) => sum <$native>::from(result < left), difference <$native>::from(left < right)
        );
    )*};
}

signed!(i8, i16, i32, i64);
unsigned!(u8, u16, u32, u64);

#[cfg(test)]
mod tests {
    use arrow::array::{Datum, Int64Array, UInt8Array};
    use arrow::compute::kernels::numeric::{add, mul, sub};
    use arrow::error::ArrowError;
    use proptest::prelude::*;

    use super::*;

    type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;

    fn number() -> impl Strategy<Value = Option<i64>> {
        prop_oneof![
            Just(None),
            (-9i64..10).prop_map(Some),
            prop::sample::select(vec![i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 1 << 31, 1 << 32]).prop_map(Some),
        ]
    }

    /// Checks results against Arrow's; what Arrow refuses has none here.
    fn compare<T: ArrowPrimitiveType<Native: WholeNumber>>(
        lefts: PrimitiveArray<T>,
        rights: PrimitiveArray<T>,
    ) -> Result<(), TestCaseError> {
        let scalar = |array: &PrimitiveArray<T>| Value::Scalar(Arc::new(array.slice(0, 1)));
        let whole = |array: &PrimitiveArray<T>| Value::Array(Arc::new(array.clone()));
        for (left, right) in
            [(whole(&lefts), whole(&rights)), (whole(&lefts), scalar(&rights)), (scalar(&lefts), whole(&rights))]
        {
            for (op, kernel) in [(BinaryOp::Add, add as Kernel), (BinaryOp::Subtract, sub), (BinaryOp::Multiply, mul)] {
                let expected = left.with_datum(|left| right.with_datum(|right| kernel(left, right)));
                if let Some(result) = whole_numbers(op, &left, &right) {
                    prop_assert_eq!(&result, &expected.unwrap());
                } else {
                    // A null constant, or an overflow, maybe behind a null.
                    let values = [&lefts, &rights].map(|numbers| numbers.null_count());
                    prop_assert!(expected.is_err() || values.iter().any(|nulls| *nulls > 0));
                }
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn results_are_those_of_arrow(pairs in prop::collection::vec((number(), number()), 1..20)) {
            let (lefts, rights): (Vec<Option<i64>>, Vec<Option<i64>>) = pairs.into_iter().unzip();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any numbers will do")]
            let bytes = |numbers: &[Option<i64>]| numbers.iter().map(|number| number.map(|number| number as u8)).collect::<UInt8Array>();
            compare(bytes(&lefts), bytes(&rights))?;
            compare(Int64Array::from(lefts), Int64Array::from(rights))?;
        }
    }
}
