//! Zeros without a sign: to SQL both are equal, while Arrow's kernels order one before the other.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};

/// Values that are looked at together.
const LOOK_ROWS: usize = 1_024;

/// The same values with zeros that have no sign; `None` if they are so already, or have none.
#[must_use]
pub fn unsigned(values: &ArrayRef) -> Option<ArrayRef> {
    match values.data_type() {
        DataType::Float64 => of(values.as_primitive::<Float64Type>(), |value| value.to_bits() == 1 << 63, 0.0),
        DataType::Float32 => of(values.as_primitive::<Float32Type>(), |value| value.to_bits() == 1 << 31, 0.0),
        DataType::Float16 => {
            let zero = <Float16Type as ArrowPrimitiveType>::Native::default();
            of(values.as_primitive::<Float16Type>(), |value| value.to_bits() == 1 << 15, zero)
        }
        _ => None,
    }
}

/// The same, as it is where nothing changes.
pub(crate) fn one_zero(values: ArrayRef) -> ArrayRef {
    unsigned(&values).unwrap_or(values)
}

/// Whether a value of one row is a zero of a type whose zeros have signs.
pub(crate) fn may_be(value: &ArrayRef) -> bool {
    match value.data_type() {
        DataType::Float64 => value.as_primitive::<Float64Type>().values().iter().any(|value| *value == 0.0),
        DataType::Float32 => value.as_primitive::<Float32Type>().values().iter().any(|value| *value == 0.0),
        DataType::Float16 => true,
        _ => false,
    }
}

fn of<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    is_negative: impl Fn(T::Native) -> bool,
    zero: T::Native,
) -> Option<ArrayRef> {
    // Without a way out among the values of a stretch, so that several are looked at by one instruction.
    let has_one = |values: &[T::Native]| values.iter().fold(false, |found, value| found | is_negative(*value));
    if !array.values().chunks(LOOK_ROWS).any(has_one) {
        return None;
    }
    let unsigned: PrimitiveArray<T> = array.unary(|value| if is_negative(value) { zero } else { value });
    Some(Arc::new(unsigned.with_data_type(array.data_type().clone())))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array, Int64Array};

    use super::*;

    #[test]
    fn only_zeros_lose_their_sign() {
        let values: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(-1.0), Some(-f64::NAN), Some(0.0)]));
        let found = unsigned(&values).unwrap();
        let bits: Vec<Option<u64>> = found.as_primitive::<Float64Type>().iter().map(|v| v.map(f64::to_bits)).collect();
        assert_eq!(bits, [Some(0), None, Some((-1.0f64).to_bits()), Some((-f64::NAN).to_bits()), Some(0)]);
        assert!(unsigned(&found).is_none(), "nothing is copied where there is none");
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![1.0, -0.0]));
        assert_eq!(unsigned(&narrow).unwrap().as_primitive::<Float32Type>().value(1).to_bits(), 0);
        assert!(unsigned(&(Arc::new(Int64Array::from(vec![0])) as ArrayRef)).is_none());
    }
}
