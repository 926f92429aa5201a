//! Comparisons of floats: both zeros are equal, all NaN are equal and above all numbers, whatever their bits.
//!
//! The processor's own comparison takes zeros so, and no NaN for less, greater or equal. With a number on one side, one comparison
//! or its opposite is all there is to do: NaN is greater than the number, as what isn't less or equal.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use crate::expr::{BinaryOp, Value};

/// Values whose comparisons become a word.
const WORD: usize = 64;

trait Float: Copy + PartialOrd {
    fn is_nan(self) -> bool;
}

impl Float for f32 {
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Float for f64 {
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

/// The comparison of two sides that are floats of one type, at least one of them of as many rows as there are; `None` of others, and
/// of operations that aren't comparisons.
pub(crate) fn floats(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    let of = |value: &Value| match value {
        Value::Array(array) | Value::Scalar(array) => array.data_type().clone(),
    };
    match (of(left), of(right)) {
        (DataType::Float64, DataType::Float64) => compared::<Float64Type>(op, left, right),
        (DataType::Float32, DataType::Float32) => compared::<Float32Type>(op, left, right),
        _ => None,
    }
}

fn compared<T: ArrowPrimitiveType<Native: Float>>(op: BinaryOp, left: &Value, right: &Value) -> Option<ArrayRef> {
    let (found, nulls) = match (left, right) {
        (Value::Array(left), Value::Scalar(right)) => with_one::<T>(op, left.as_primitive(), right.as_primitive())?,
        (Value::Scalar(left), Value::Array(right)) => {
            with_one::<T>(op.swapped(), right.as_primitive(), left.as_primitive())?
        }
        (Value::Array(left), Value::Array(right)) | (Value::Scalar(left), Value::Scalar(right)) => {
            let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
            let nulls = NullBuffer::union(left.nulls(), right.nulls());
            (with_each(op, left.values(), right.values())?, nulls)
        }
    };
    Some(Arc::new(BooleanArray::new(found, nulls)))
}

fn with_one<T: ArrowPrimitiveType<Native: Float>>(
    op: BinaryOp,
    values: &PrimitiveArray<T>,
    one: &PrimitiveArray<T>,
) -> Option<(BooleanBuffer, Option<NullBuffer>)> {
    if one.is_null(0) {
        let nulls = NullBuffer::new_null(values.len());
        return op.is_comparison().then(|| (BooleanBuffer::new_unset(values.len()), Some(nulls)));
    }
    let one = one.value(0);
    let values_of = values.values();
    // NaN is equal to NaN alone, and nothing is above it.
    let found = match (op, one.is_nan()) {
        (BinaryOp::Equal, false) => each(values_of, |value| value == one),
        (BinaryOp::NotEqual, false) => each(values_of, |value| value != one),
        (BinaryOp::Less, false) => each(values_of, |value| value < one),
        (BinaryOp::LessOrEqual, false) => each(values_of, |value| value <= one),
        (BinaryOp::Greater, false) => !&each(values_of, |value| value <= one),
        (BinaryOp::GreaterOrEqual, false) => !&each(values_of, |value| value < one),
        (BinaryOp::Equal | BinaryOp::GreaterOrEqual, true) => each(values_of, Float::is_nan),
        (BinaryOp::NotEqual | BinaryOp::Less, true) => !&each(values_of, Float::is_nan),
        (BinaryOp::LessOrEqual, true) => BooleanBuffer::new_set(values.len()),
        (BinaryOp::Greater, true) => BooleanBuffer::new_unset(values.len()),
        _ => return None,
    };
    Some((found, values.nulls().cloned()))
}

fn with_each<F: Float>(op: BinaryOp, left: &[F], right: &[F]) -> Option<BooleanBuffer> {
    let less = |one: F, other: F| (one < other) | (other.is_nan() & !one.is_nan());
    let equal = |one: F, other: F| (one == other) | (one.is_nan() & other.is_nan());
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

fn each<F: Float>(values: &[F], test: impl Fn(F) -> bool) -> BooleanBuffer {
    let words = values.chunks(WORD).map(|values| {
        let mut flags = [0; WORD];
        flags.iter_mut().zip(values).for_each(|(flag, value)| *flag = u8::from(test(*value)));
        word(&flags)
    });
    BooleanBuffer::new(Buffer::from_iter(words), 0, values.len())
}

fn pairs<F: Float>(left: &[F], right: &[F], test: impl Fn(F, F) -> bool) -> BooleanBuffer {
    let words = left.chunks(WORD).zip(right.chunks(WORD)).map(|(left, right)| {
        let mut flags = [0; WORD];
        flags
            .iter_mut()
            .zip(left.iter().zip(right))
            .for_each(|(flag, (one, other))| *flag = u8::from(test(*one, *other)));
        word(&flags)
    });
    BooleanBuffer::new(Buffer::from_iter(words), 0, left.len())
}

/// A bit for each flag, the first one lowest: eight flags are brought together by one product.
fn word(flags: &[u8; WORD]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().rev().fold(0, |word, eight| word << 8 | bits(eight))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use arrow::array::{Float32Array, Float64Array};

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
            let found = floats(op, &one, &other).unwrap();
            assert_eq!(found.as_boolean(), &BooleanArray::from(expected), "{op:?} {one:?} {other:?}");
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
        assert!(floats(BinaryOp::Add, &Value::Array(wide(&left)), &Value::Array(wide(&right))).is_none());
    }
}
