//! Arithmetic of whole numbers and of decimals.
//!
//! - One loop computes all rows modulo 2^bits with vector instructions, and notes whether any row overflows. Arrow's
//!   kernels check each row before the next. If a row overflows, they compute the operation again: they know which row
//!   it is, and ignore the numbers behind nulls.
//! - Decimals have 128 bits, but prices and amounts rarely need more than 64. The product of two such numbers is one
//!   instruction, and no sum or product of them overflows.
//! - A division by a constant is a multiplication by its reciprocal.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::binary_op::BinaryOp;
use crate::value::Value;
use crate::vector::map_vectorized;

/// The sum, difference or product of whole numbers of one type, or the quotient or remainder by a constant. `None` for other operations and types, for
/// two constants, for a null constant, and if a row overflows.
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

/// The result of arithmetic on decimals, of the type that Arrow gives it. `None` for other operations and types, for two constants, for a null constant,
/// if a number has more than 64 bits, and for a division by zero.
pub(crate) fn decimals(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    let (&DataType::Decimal128(_, of_left), &DataType::Decimal128(_, of_right)) = (left.data_type(), right.data_type())
    else {
        return None;
    };
    let kernel = match op {
        BinaryOp::Add => numeric::add,
        BinaryOp::Subtract => numeric::sub,
        BinaryOp::Multiply => numeric::mul,
        BinaryOp::Divide => numeric::div,
        BinaryOp::Remainder => numeric::rem,
        _ => return None,
    };
    let [no_left, no_right] = [left, right].map(|value| new_empty_array(value.data_type()));
    let data_type = kernel(&no_left, &no_right).ok()?.data_type().clone();
    let DataType::Decimal128(_, scale) = data_type else { return None };
    let power = |digits: i8| u32::try_from(digits).ok().and_then(|digits| 10i64.checked_pow(digits));
    let array = match op {
        BinaryOp::Multiply => by_row::<Decimal128Type, u64>(
            left,
            right,
            #[inline(always)]
            |left, right| (product(left, word_of(right)), beyond_word(left) | beyond_word(right)),
        )?,
        BinaryOp::Divide => {
            // As many digits behind the point as the result has, and those of the divisor.
            let more = scale.checked_sub(of_left)?.checked_add(of_right)?;
            quotients(op, (left, power(more.max(0))?), (right, power(more.min(0).checked_neg()?)?))?
        }
        // The same digits behind the point.
        BinaryOp::Remainder => quotients(op, (left, power(scale - of_left)?), (right, power(scale - of_right)?))?,
        _ => {
            let (of_left, of_right) = (power(scale - of_left)?, power(scale - of_right)?);
            let of_right = if op == BinaryOp::Subtract { -of_right } else { of_right };
            by_row::<Decimal128Type, u64>(
                left,
                right,
                #[inline(always)]
                |left, right| {
                    let sum = product(left, of_left) + product(right, of_right);
                    (sum, beyond_word(left) | beyond_word(right))
                },
            )?
        }
    };
    Some(Arc::new(array.with_data_type(data_type)))
}

/// Quotients or remainders of decimals, which are multiplied by factors before.
fn quotients(
    op: BinaryOp,
    (left, of_left): (&Value, i64),
    (right, of_right): (&Value, i64),
) -> Option<PrimitiveArray<Decimal128Type>> {
    let is_quotient = op == BinaryOp::Divide;
    if let Value::Scalar(constant) = right {
        let constant = constant.as_primitive_opt::<Decimal128Type>().filter(|constant| constant.is_valid(0))?.value(0);
        let divisor = Divisor::new(i64::try_from(constant.checked_mul(i128::from(of_right))?).ok()?)?;
        return by_row(
            left,
            right,
            #[inline(always)]
            |left, _| {
                let scaled = product(left, of_left);
                let word = word_of(scaled);
                let result = if is_quotient { divisor.quotient(word) } else { divisor.remainder(word) };
                (i128::from(result), beyond_word(left) | beyond_word(scaled))
            },
        );
    }
    by_row(
        left,
        right,
        #[inline(always)]
        |left, right| {
            let scaled = (product(left, of_left), product(right, of_right));
            let (word, divisor) = (word_of(scaled.0), word_of(scaled.1));
            let result = if is_quotient { word.checked_div(divisor) } else { word.checked_rem(divisor) };
            let beyond = beyond_word(left) | beyond_word(right) | beyond_word(scaled.0) | beyond_word(scaled.1);
            (i128::from(result.unwrap_or_default()), beyond | u64::from(result.is_none()))
        },
    )
}

/// A constant that numbers are divided by: they are multiplied by a reciprocal of 65 bits instead (Granlund and Montgomery, Division by Invariant Integers
/// using Multiplication, 1994, figure 4.1).
#[derive(Debug, Clone, Copy)]
struct Divisor {
    magnitude: u64,
    is_negative: bool,
    /// The lower 64 bits of the reciprocal.
    reciprocal: u64,
    /// How far products are shifted, in two steps.
    shifts: (u32, u32),
}

impl Divisor {
    /// `None` for zero, and for -1, by which the least number has no quotient.
    fn new(number: i64) -> Option<Divisor> {
        Divisor::of_magnitude(number.unsigned_abs(), number < 0).filter(|_| number != -1)
    }

    fn of_unsigned(number: u64) -> Option<Divisor> {
        Divisor::of_magnitude(number, false)
    }

    fn of_magnitude(magnitude: u64, is_negative: bool) -> Option<Divisor> {
        let bits = u64::BITS - magnitude.checked_sub(1)?.leading_zeros();
        let excess = ((1u128 << bits) - u128::from(magnitude)) << u64::BITS;
        let reciprocal = u64::try_from(excess / u128::from(magnitude) + 1).ok()?;
        Some(Divisor { magnitude, is_negative, reciprocal, shifts: (bits.min(1), bits.saturating_sub(1)) })
    }

    #[inline(always)]
    fn quotient_of_magnitude(self, number: u64) -> u64 {
        let upper = ((u128::from(self.reciprocal) * u128::from(number)) >> u64::BITS) as u64;
        (upper + ((number - upper) >> self.shifts.0)) >> self.shifts.1
    }

    #[inline(always)]
    fn remainder_of_magnitude(self, number: u64) -> u64 {
        number - self.quotient_of_magnitude(number) * self.magnitude
    }

    #[inline(always)]
    fn quotient(self, number: i64) -> i64 {
        let quotient = self.quotient_of_magnitude(number.unsigned_abs()).cast_signed();
        if (number < 0) == self.is_negative { quotient } else { quotient.wrapping_neg() }
    }

    #[inline(always)]
    fn remainder(self, number: i64) -> i64 {
        let remainder = self.remainder_of_magnitude(number.unsigned_abs()).cast_signed();
        if number < 0 { -remainder } else { remainder }
    }
}

/// The lowest 64 bits.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the bits beyond are asked for, too")]
fn word_of(number: i128) -> i64 {
    number as i64
}

/// Bits that show whether a number has more than 64 bits.
#[inline(always)]
fn beyond_word(number: i128) -> u64 {
    (word_of(number >> 64) ^ (word_of(number) >> 63)).cast_unsigned()
}

/// The product of a number of at most 64 bits with another, which has at most 127 bits.
#[inline(always)]
fn product(number: i128, factor: i64) -> i128 {
    i128::from(word_of(number)) * i128::from(factor)
}

fn of_type<T: ArrowPrimitiveType<Native: WholeNumber>>(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    let results = match op {
        BinaryOp::Add => by_row::<T, _>(left, right, T::Native::sum),
        BinaryOp::Subtract => by_row::<T, _>(left, right, T::Native::difference),
        BinaryOp::Multiply => by_row::<T, _>(left, right, T::Native::product),
        BinaryOp::Divide | BinaryOp::Remainder => {
            let Value::Scalar(constant) = right else { return None };
            let constant = constant.as_primitive_opt::<T>().filter(|constant| constant.is_valid(0))?;
            let (divisor, is_quotient) = (constant.value(0).divisor()?, op == BinaryOp::Divide);
            by_row::<T, T::Native>(
                left,
                right,
                #[inline(always)]
                |number, _| {
                    let result = if is_quotient { number.quotient(divisor) } else { number.remainder(divisor) };
                    (result, T::Native::default())
                },
            )
        }
        _ => None,
    };
    results.map(|results| Arc::new(results) as ArrayRef)
}

fn by_row<T: ArrowPrimitiveType, M: WholeNumber>(
    left: &Value,
    right: &Value,
    compute: impl Fn(T::Native, T::Native) -> (T::Native, M),
) -> Option<PrimitiveArray<T>> {
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
    Some(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// The results for some pairs of numbers; `None` if one overflows.
fn computed<N, M: WholeNumber>(
    pairs: impl ExactSizeIterator<Item = (N, N)>,
    compute: impl Fn(N, N) -> (N, M),
) -> Option<Vec<N>> {
    let mut marks = M::default();
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

/// Numbers of which each operation gives the result modulo 2^bits and a mark, by whose bits an overflow shows.
trait WholeNumber: Copy + Default {
    fn sum(self, other: Self) -> (Self, Self);
    fn difference(self, other: Self) -> (Self, Self);
    fn product(self, other: Self) -> (Self, Self);
    /// The number to divide others by; `None` if Arrow has to.
    fn divisor(self) -> Option<Divisor>;
    fn quotient(self, divisor: Divisor) -> Self;
    fn remainder(self, divisor: Divisor) -> Self;
    /// The marks of several operations as one.
    fn with(self, mark: Self) -> Self;
    /// Whether marks show that an operation overflows.
    fn overflow(self) -> bool;
}

macro_rules! whole_numbers {
    ($native:ty, $wide:ty, ($divisor:path, $quotient:path, $remainder:path), $marks:ident => $overflow:expr, ($left:ident, $right:ident, $result:ident) => sum $sum:expr, difference $difference:expr) => {
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
            fn divisor(self) -> Option<Divisor> {
                $divisor(<$wide>::from(self))
            }
            #[inline(always)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                reason = "no result is greater than the number"
            )]
            fn quotient(self, divisor: Divisor) -> $native {
                $quotient(divisor, <$wide>::from(self)) as $native
            }
            #[inline(always)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                reason = "no result is greater than the number"
            )]
            fn remainder(self, divisor: Divisor) -> $native {
                $remainder(divisor, <$wide>::from(self)) as $native
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
            i64,
            (Divisor::new, Divisor::quotient, Divisor::remainder),
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
            u64,
            (Divisor::of_unsigned, Divisor::quotient_of_magnitude, Divisor::remainder_of_magnitude),
            marks => marks != 0,
            (left, right, result) => sum <$native>::from(result < left), difference <$native>::from(left < right)
        );
    )*};
}

signed!(i8, i16, i32, i64);
unsigned!(u8, u16, u32, u64);

#[cfg(test)]
mod tests {
    use arrow::array::{Datum, Decimal128Array, Int64Array, UInt8Array};
    use arrow::compute::kernels::numeric::{add, div, mul, rem, sub};
    use arrow::error::ArrowError;
    use proptest::prelude::*;

    use super::*;

    type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;

    const KERNELS: [(BinaryOp, Kernel); 5] = [
        (BinaryOp::Add, add),
        (BinaryOp::Subtract, sub),
        (BinaryOp::Multiply, mul),
        (BinaryOp::Divide, div),
        (BinaryOp::Remainder, rem),
    ];

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
            for (op, kernel) in KERNELS {
                let expected = left.with_datum(|left| right.with_datum(|right| kernel(left, right)));
                if let Some(result) = whole_numbers(op, &left, &right) {
                    prop_assert_eq!(&result, &expected.unwrap());
                } else {
                    // A null constant, or an overflow, maybe behind a null; numbers that Arrow divides.
                    let values = [&lefts, &rights].map(|numbers| numbers.null_count());
                    let is_of_arrow = matches!(op, BinaryOp::Divide | BinaryOp::Remainder)
                        && (matches!(right, Value::Array(_)) || rights.value(0).divisor().is_none());
                    prop_assert!(is_of_arrow || expected.is_err() || values.iter().any(|nulls| *nulls > 0));
                }
            }
        }
        Ok(())
    }

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..20u64,
            (0..64u32, 0..3u64).prop_map(|(bits, more)| (1u64 << bits).wrapping_add(more).wrapping_sub(1)),
            Just(u64::MAX),
        ]
    }

    fn decimal() -> impl Strategy<Value = Option<i128>> {
        let words = [i64::MIN, i64::MAX, 1 << 40].map(i128::from);
        let wide = [i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1, 10i128.pow(37), -(10i128.pow(37))];
        prop_oneof![
            1 => Just(None),
            6 => (-99_999i128..100_000).prop_map(Some),
            2 => prop::sample::select(words.to_vec()).prop_map(Some),
            1 => prop::sample::select(wide.to_vec()).prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn decimals_are_those_of_arrow(
            pairs in prop::collection::vec((decimal(), decimal()), 1..12),
            scales in (0i8..20, 0i8..18),
            precisions in (20u8..38, 18u8..38),
        ) {
            let (lefts, rights): (Vec<Option<i128>>, Vec<Option<i128>>) = pairs.into_iter().unzip();
            let of = |values: &[Option<i128>], precision, scale| -> ArrayRef {
                Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap())
            };
            let (lefts, rights) = (of(&lefts, precisions.0, scales.0), of(&rights, precisions.1, scales.1));
            let fit = |array: &ArrayRef| {
                array.as_primitive::<Decimal128Type>().values().iter().all(|value| i64::try_from(*value).is_ok())
            };
            let whole = |array: &ArrayRef| Value::Array(Arc::clone(array));
            let scalar = |array: &ArrayRef| Value::Scalar(array.slice(0, 1));
            for (left, right) in
                [(whole(&lefts), whole(&rights)), (whole(&lefts), scalar(&rights)), (scalar(&lefts), whole(&rights))]
            {
                for (op, kernel) in KERNELS {
                    let expected = left.with_datum(|left| right.with_datum(|right| kernel(left, right)));
                    match decimals(op, &left, &right) {
                        Some(result) => prop_assert_eq!(&result, &expected.unwrap()),
                        None => {
                            let has_null = [&lefts, &rights].iter().any(|array| array.is_null(0));
                            let is_far = op != BinaryOp::Multiply && scales.0.abs_diff(scales.1) > 18;
                            let divides = matches!(op, BinaryOp::Divide | BinaryOp::Remainder);
                            prop_assert!(divides || has_null || is_far || expected.is_err() || !fit(&lefts) || !fit(&rights));
                        }
                    }
                }
            }
        }

        #[test]
        fn quotients_by_a_reciprocal_are_exact(numbers in prop::collection::vec((word(), word()), 1..50)) {
            for (number, by) in numbers {
                if let Some(divisor) = Divisor::of_unsigned(by) {
                    prop_assert_eq!(divisor.quotient_of_magnitude(number), number / by);
                    prop_assert_eq!(divisor.remainder_of_magnitude(number), number % by);
                }
                let (number, by) = (number.cast_signed(), by.cast_signed());
                if let Some(divisor) = Divisor::new(by) {
                    prop_assert_eq!(divisor.quotient(number), number / by);
                    prop_assert_eq!(divisor.remainder(number), number % by);
                } else {
                    prop_assert!(by == 0 || by == -1);
                }
            }
        }

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
