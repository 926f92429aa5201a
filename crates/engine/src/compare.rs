//! Comparisons of numbers and of types stored as numbers. For floats both zeros are equal, and all NaN are equal and
//! greater than all numbers, whatever their bits.
//!
//! The processor's comparison already treats zeros so, and is false for NaN. If one side is a constant number, each
//! operator is one comparison or the negation of its opposite: NaN is greater than the number because it isn't less
//! or equal.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::ArrowNativeType;

use crate::binary_op::BinaryOp;
use crate::natives::{natives, with_native};
use crate::value::Value;
use crate::vector::vectorized;

/// Values whose comparisons become a word.
const WORD: usize = 64;

trait ComparedNumber: ArrowNativeType + PartialOrd {
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! whole {
    ($($native:ty),*) => {$(
        impl ComparedNumber for $native {}
    )*};
}

whole!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl ComparedNumber for f32 {
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl ComparedNumber for f64 {
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

/// Compares two sides of one type that is stored as ordered numbers; at least one side has a value for each row. `None` for other types, and for
/// operations that aren't comparisons.
pub(crate) fn numbers(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    let data_type = left.data_type();
    if !op.is_comparison() || data_type != right.data_type() {
        return None;
    }
    with_native!(data_type, N => compare_numbers::<N>(op, left, right), _ => None)
}

fn compare_numbers<N: ComparedNumber>(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    let (bits, nulls) = match (left, right) {
        (Value::Array(left), Value::Scalar(right)) => with_one::<N>(op, left, right)?,
        (Value::Scalar(left), Value::Array(right)) => with_one::<N>(op.swapped(), right, left)?,
        (Value::Array(left), Value::Array(right)) | (Value::Scalar(left), Value::Scalar(right)) => {
            let nulls = NullBuffer::union(left.nulls(), right.nulls());
            (with_each(op, &natives::<N>(left), &natives::<N>(right))?, nulls)
        }
    };
    Some(Arc::new(BooleanArray::new(bits, nulls)))
}

fn with_one<N: ComparedNumber>(
    op: BinaryOp,
    values: &ArrayRef,
    one: &ArrayRef,
) -> Option<(BooleanBuffer, Option<NullBuffer>)> {
    if one.is_null(0) {
        let nulls = NullBuffer::new_null(values.len());
        return Some((BooleanBuffer::new_unset(values.len()), Some(nulls)));
    }
    let (one, of) = (natives::<N>(one)[0], natives::<N>(values));
    // NaN is equal to NaN alone, and nothing is above it.
    let bits = match (op, one.is_nan()) {
        (BinaryOp::Equal, false) => each(&of, |value| value == one),
        (BinaryOp::NotEqual, false) => !&each(&of, |value| value == one),
        (BinaryOp::Less, false) => each(&of, |value| value < one),
        (BinaryOp::LessOrEqual, false) => each(&of, |value| value <= one),
        (BinaryOp::Greater, false) => !&each(&of, |value| value <= one),
        (BinaryOp::GreaterOrEqual, false) => !&each(&of, |value| value < one),
        (BinaryOp::Equal | BinaryOp::GreaterOrEqual, true) => each(&of, ComparedNumber::is_nan),
        (BinaryOp::NotEqual | BinaryOp::Less, true) => !&each(&of, ComparedNumber::is_nan),
        (BinaryOp::LessOrEqual, true) => BooleanBuffer::new_set(values.len()),
        (BinaryOp::Greater, true) => BooleanBuffer::new_unset(values.len()),
        _ => return None,
    };
    Some((bits, values.nulls().cloned()))
}

/// Whether each value equals one of a short list of the same type; null equals none. `None` of types that aren't stored as numbers.
pub(crate) fn is_one_of(values: &ArrayRef, list: &ArrayRef) -> Option<BooleanBuffer> {
    if values.data_type() != list.data_type() {
        return None;
    }
    with_native!(values.data_type(), N => Some(one_of::<N>(values, list)), _ => None)
}

fn one_of<N: ComparedNumber>(values: &ArrayRef, list: &ArrayRef) -> BooleanBuffer {
    let (values, items) = (natives::<N>(values), natives::<N>(list));
    let items = (0..list.len()).filter(|item| list.is_valid(*item)).map(|item| items[item]);
    let (nans, items): (Vec<N>, Vec<N>) = items.partition(|item| item.is_nan());
    let (whole, rest) = values.as_chunks::<WORD>();
    let mut words: Vec<u64> = Vec::with_capacity(whole.len() + 1);
    // Values stay in registers and the nearest cache while they are compared with each item.
    vectorized(
        #[inline(always)]
        || {
            let equal = |values: &[N], item: N| word(values.iter().map(|value| *value == item));
            words.extend(whole.iter().map(|values| items.iter().fold(0, |bits, item| bits | equal(values, *item))));
            words.push(items.iter().fold(0, |bits, item| bits | equal(rest, *item)));
        },
    );
    let bits = BooleanBuffer::new(Buffer::from_vec(words), 0, values.len());
    if nans.is_empty() { bits } else { &bits | &each(&values, ComparedNumber::is_nan) }
}

/// Which floats are NaN; no number of another type is.
pub(crate) fn are_nan(numbers: &ArrayRef) -> Option<BooleanBuffer> {
    with_native!(numbers.data_type(), N => Some(each(&natives::<N>(numbers), ComparedNumber::is_nan)), _ => None)
}

fn with_each<N: ComparedNumber>(op: BinaryOp, left: &[N], right: &[N]) -> Option<BooleanBuffer> {
    let less = |one: N, other: N| (one < other) | (other.is_nan() & !one.is_nan());
    let equal = |one: N, other: N| (one == other) | (one.is_nan() & other.is_nan());
    Some(match op {
        BinaryOp::Equal => pairs(left, right, equal),
        BinaryOp::NotEqual => !&pairs(left, right, equal),
        BinaryOp::Less => pairs(left, right, less),
        BinaryOp::GreaterOrEqual => !&pairs(left, right, less),
        BinaryOp::Greater => pairs(right, left, less),
        BinaryOp::LessOrEqual => !&pairs(right, left, less),
        _ => return None,
    })
}

fn each<N: ComparedNumber>(values: &[N], test: impl Fn(N) -> bool) -> BooleanBuffer {
    let (whole, rest) = values.as_chunks::<WORD>();
    let mut words: Vec<u64> = Vec::with_capacity(whole.len() + 1);
    vectorized(
        #[inline(always)]
        || {
            let bits = whole.iter().map(|values| word(values.iter().map(|value| test(*value))));
            words.extend(bits);
            words.push(word(rest.iter().map(|value| test(*value))));
        },
    );
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

fn pairs<N: ComparedNumber>(left: &[N], right: &[N], test: impl Fn(N, N) -> bool) -> BooleanBuffer {
    let rows = left.len().min(right.len());
    let ((lefts, left), (rights, right)) = (left[..rows].as_chunks::<WORD>(), right[..rows].as_chunks::<WORD>());
    let mut words: Vec<u64> = Vec::with_capacity(lefts.len() + 1);
    vectorized(
        #[inline(always)]
        || {
            let bits = lefts
                .iter()
                .zip(rights)
                .map(|(left, right)| word(left.iter().zip(right).map(|(one, other)| test(*one, *other))));
            words.extend(bits);
            words.push(word(left.iter().zip(right).map(|(one, other)| test(*one, *other))));
        },
    );
    BooleanBuffer::new(Buffer::from_vec(words), 0, rows)
}

/// A word with a bit for each flag, the first one lowest.
#[inline(always)]
fn word(flags: impl Iterator<Item = bool>) -> u64 {
    flags.enumerate().fold(0, |word, (bit, flag)| word | u64::from(flag) << bit)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use arrow::array::{AsArray, Float32Array, Float64Array, Int64Array, UInt8Array};
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, TimeUnit};

    use super::*;

    const OPS: [BinaryOp; 6] = [
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::Less,
        BinaryOp::LessOrEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterOrEqual,
    ];

    /// The order of SQL, of two values.
    fn holds(op: BinaryOp, one: f64, other: f64) -> bool {
        let order = match (one.is_nan(), other.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => one.partial_cmp(&other).unwrap(),
        };
        match op {
            BinaryOp::Equal => order.is_eq(),
            BinaryOp::NotEqual => order.is_ne(),
            BinaryOp::Less => order.is_lt(),
            BinaryOp::LessOrEqual => order.is_le(),
            BinaryOp::Greater => order.is_gt(),
            _ => order.is_ge(),
        }
    }

    #[test]
    fn every_pair_compares_as_sql_orders() {
        let values = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1.5, f64::INFINITY, f64::NAN, -f64::NAN, 5e-324];
        // More than a word, and not a whole number of them.
        let some = |step: usize| -> Vec<Option<f64>> {
            (0..200).map(|row| (row % 11 != 3).then(|| values[row * step % values.len()])).collect()
        };
        let (left, right) = (some(1), some(7));
        let narrow = |values: &[Option<f64>]| -> ArrayRef {
            Arc::new(values.iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>())
        };
        let wide = |values: &[Option<f64>]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        let check = |op, one: Value, other: Value, expected: Vec<Option<bool>>| {
            let actual = numbers(op, &one, &other).unwrap();
            assert_eq!(actual.as_boolean(), &BooleanArray::from(expected), "{op:?} {one:?} {other:?}");
        };
        for op in OPS {
            let expect = |left: &[Option<f64>], right: &[Option<f64>]| -> Vec<Option<bool>> {
                left.iter().zip(right).map(|(one, other)| Some(holds(op, (*one)?, (*other)?))).collect()
            };
            check(op, Value::Array(wide(&left)), Value::Array(wide(&right)), expect(&left, &right));
            let near: Vec<Option<f64>> = left.iter().map(|v| v.map(|v| f64::from(v as f32))).collect();
            let far: Vec<Option<f64>> = right.iter().map(|v| v.map(|v| f64::from(v as f32))).collect();
            check(op, Value::Array(narrow(&left)), Value::Array(narrow(&right)), expect(&near, &far));
            for one in values.map(Some).into_iter().chain([None]) {
                let all = vec![one; left.len()];
                check(op, Value::Array(wide(&left)), Value::Scalar(wide(&[one])), expect(&left, &all));
                check(op, Value::Scalar(wide(&[one])), Value::Array(wide(&left)), expect(&all, &left));
                check(op, Value::Scalar(wide(&[one])), Value::Scalar(wide(&right[..1])), expect(&[one], &right[..1]));
            }
            let none: ArrayRef = Arc::new(Float64Array::from(Vec::<f64>::new()));
            check(op, Value::Array(Arc::clone(&none)), Value::Scalar(wide(&[Some(1.0)])), Vec::new());
        }
        assert!(numbers(BinaryOp::Add, &Value::Array(wide(&left)), &Value::Array(wide(&right))).is_none());
    }

    #[test]
    fn whole_numbers_and_what_is_stored_as_such_compare_as_numbers() {
        let numbers_of = |step: i64| (0..150i64).map(move |row| (row % 13 != 5).then_some(row * step % 100 - 50));
        let of = |data_type: &DataType, step: i64| {
            cast(&(Arc::new(numbers_of(step).collect::<Int64Array>()) as ArrayRef), data_type).unwrap()
        };
        let types = [
            DataType::Int8,
            DataType::Int32,
            DataType::Int64,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            DataType::Decimal128(20, 2),
        ];
        for data_type in types {
            let (left, right) = (of(&data_type, 7), of(&data_type, 11));
            for op in OPS {
                let expected = numbers_of(7).zip(numbers_of(11));
                let expected: BooleanArray =
                    expected.map(|(one, other)| Some(holds(op, one? as f64, other? as f64))).collect();
                let both = (Value::Array(Arc::clone(&left)), Value::Array(Arc::clone(&right)));
                assert_eq!(numbers(op, &both.0, &both.1).unwrap().as_boolean(), &expected, "{op:?} {data_type}");
                let one = Value::Scalar(right.slice(3, 1));
                let expected = numbers_of(7).map(|value| Some(holds(op, value? as f64, -17.0)));
                let actual = numbers(op, &both.0, &one).unwrap();
                assert_eq!(actual.as_boolean(), &expected.collect::<BooleanArray>(), "{op:?} {data_type}");
            }
        }
        let large: ArrayRef = Arc::new(UInt8Array::from(vec![200, 100]));
        let actual =
            numbers(BinaryOp::Greater, &Value::Array(large), &Value::Scalar(Arc::new(UInt8Array::from(vec![127]))));
        assert_eq!(actual.unwrap().as_boolean(), &BooleanArray::from(vec![true, false]), "without a sign");
        let texts: ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["a"]));
        assert!(numbers(BinaryOp::Less, &Value::Array(Arc::clone(&texts)), &Value::Array(texts)).is_none());
    }
}
