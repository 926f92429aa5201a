//! The canonical form of floats: one bit pattern for values that SQL treats as one.
//!
//! Arrow's kernels order and compare floats by their bits, in which a zero has a sign and a NaN a sign and a payload.
//! Processors produce NaNs with the sign set (x86, for the difference of two infinities), which Arrow orders below
//! all numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};

/// Values that are compared together.
const LOOK_ROWS: usize = 1_024;

// Values whose bits, as `$bits`, are those of a NaN other than the one, or of a zero with a sign, written in one form.
macro_rules! of_type {
    ($array:expr, $type:ty, $bits:ty, $infinity:expr, $nan:expr, $with_zeros:expr) => {{
        type Native = <$type as ArrowPrimitiveType>::Native;
        const SIGN: $bits = 1 << (<$bits>::BITS - 1);
        let is_nan = |bits: $bits| (bits & !SIGN > $infinity) & (bits != $nan);
        let form = |value: Native| Native::from_bits(if value.to_bits() == SIGN { 0 } else { $nan });
        if $with_zeros {
            rewritten::<$type>($array, |value| is_nan(value.to_bits()) | (value.to_bits() == SIGN), form)
        } else {
            rewritten::<$type>($array, |value| is_nan(value.to_bits()), form)
        }
    }};
}

/// The values with one zero and one NaN, neither with a sign; `None` if they are in this form already.
#[must_use]
pub fn canonical(values: &ArrayRef) -> Option<ArrayRef> {
    in_one_form(values, true)
}

/// The values with one NaN; `None` if they are in this form already. Stored floats have this form, and keep the signs
/// of their zeros.
#[must_use]
pub fn one_nan(values: &ArrayRef) -> Option<ArrayRef> {
    in_one_form(values, false)
}

/// The values in canonical form; the same array if nothing changes.
#[must_use]
pub fn in_form(values: ArrayRef) -> ArrayRef {
    canonical(&values).unwrap_or(values)
}

fn in_one_form(values: &ArrayRef, with_zeros: bool) -> Option<ArrayRef> {
    match values.data_type() {
        DataType::Float64 => {
            of_type!(values, Float64Type, u64, 0x7ff0_0000_0000_0000, 0x7ff8_0000_0000_0000, with_zeros)
        }
        DataType::Float32 => of_type!(values, Float32Type, u32, 0x7f80_0000, 0x7fc0_0000, with_zeros),
        DataType::Float16 => of_type!(values, Float16Type, u16, 0x7c00, 0x7e00, with_zeros),
        _ => None,
    }
}

fn rewritten<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    is_other: impl Fn(T::Native) -> bool,
    form: impl Fn(T::Native) -> T::Native,
) -> Option<ArrayRef> {
    let array = array.as_primitive::<T>();
    // The loop has no early exit within a stretch, so that one instruction compares several values.
    let has_one = |values: &[T::Native]| values.iter().fold(false, |any, value| any | is_other(*value));
    if !array.values().chunks(LOOK_ROWS).any(has_one) {
        return None;
    }
    let rewritten: PrimitiveArray<T> = array.unary(|value| if is_other(value) { form(value) } else { value });
    Some(Arc::new(rewritten.with_data_type(array.data_type().clone())))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array, Int64Array};

    use super::*;

    fn bits(values: &ArrayRef) -> Vec<Option<u64>> {
        values.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect()
    }

    #[test]
    fn zeros_lose_their_sign_and_nans_become_one() {
        let payload = f64::from_bits(0x7ff0_0000_0000_0001);
        let floats = [Some(-0.0), None, Some(-1.0), Some(-f64::NAN), Some(0.0), Some(payload), Some(f64::NEG_INFINITY)];
        let values: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        let (nan, less, least) = (f64::NAN.to_bits(), (-1.0f64).to_bits(), f64::NEG_INFINITY.to_bits());
        let result = canonical(&values).unwrap();
        assert_eq!(bits(&result), [Some(0), None, Some(less), Some(nan), Some(0), Some(nan), Some(least)]);
        assert!(canonical(&result).is_none(), "nothing is copied where all are in form");
        let stored = one_nan(&values).unwrap();
        assert_eq!(bits(&stored), [Some(1 << 63), None, Some(less), Some(nan), Some(0), Some(nan), Some(least)]);
        assert!(one_nan(&stored).is_none());
    }

    #[test]
    fn other_types_have_one_form() {
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![1.0, -0.0, -f32::NAN]));
        let result = canonical(&narrow).unwrap();
        let result: Vec<u32> =
            result.as_primitive::<Float32Type>().values().iter().map(|value| value.to_bits()).collect();
        assert_eq!(result, [1.0f32.to_bits(), 0, f32::NAN.to_bits()]);
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        assert!(canonical(&whole).is_none() && one_nan(&whole).is_none());
    }
}
