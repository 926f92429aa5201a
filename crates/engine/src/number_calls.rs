//! Functions of one number as loops that the compiler vectorises. DataFusion's functions call a library function for
//! each number, compiled for any processor.
//!
//! Results equal those of DataFusion's functions to the last bit. If DataFusion's function would fail for a value,
//! nothing is computed here, so that DataFusion's function runs and reports the error.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};

use crate::compare::are_nan;
use crate::vector::map_vectorized;

/// The values of a function of the numbers; `None` if it is another function, of other types, or fails.
pub(crate) fn computed(function: &str, numbers: &ArrayRef) -> Option<ArrayRef> {
    macro_rules! each {
        ($numbers:expr, $value:ident => $result:expr) => {
            Some(mapped(
                $numbers,
                #[inline(always)]
                |$value| $result,
            ))
        };
    }
    macro_rules! float {
        ($type:ty) => {{
            let floats = numbers.as_primitive::<$type>();
            match function {
                "floor" => each!(floats, value => value.floor()),
                "ceil" => each!(floats, value => value.ceil()),
                "trunc" => each!(floats, value => if value == 0.0 { 0.0 } else { value.trunc() }),
                "abs" => each!(floats, value => value.abs()),
                "signum" => each!(floats, value => if value == 0.0 { 0.0 } else { value.signum() }),
                "sqrt" if !has(floats, |value| value < 0.0) => each!(floats, value => value.sqrt()),
                "isnan" => Some(Arc::new(BooleanArray::new(are_nan(numbers)?, floats.nulls().cloned()))),
                _ => None,
            }
        }};
    }
    macro_rules! whole {
        ($type:ty) => {{
            let whole = numbers.as_primitive::<$type>();
            let least = <$type as ArrowPrimitiveType>::Native::MIN;
            match function {
                "abs" if !has(whole, |value| value == least) => each!(whole, value => value.wrapping_abs()),
                _ => None,
            }
        }};
    }
    match numbers.data_type() {
        DataType::Float64 => float!(Float64Type),
        DataType::Float32 => float!(Float32Type),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        _ => None,
    }
}

/// Whether a value is one of which the function fails.
fn has<T: ArrowPrimitiveType>(numbers: &PrimitiveArray<T>, fails: impl Fn(T::Native) -> bool) -> bool {
    numbers.values().iter().fold(false, |any, value| any | fails(*value))
}

fn mapped<T: ArrowPrimitiveType>(numbers: &PrimitiveArray<T>, result: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    let results = map_vectorized(
        numbers.values().iter(),
        #[inline(always)]
        |value| result(*value),
    );
    Arc::new(PrimitiveArray::<T>::new(results.into(), numbers.nulls().cloned()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use arrow::array::{Float32Array, Float64Array, Int32Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn functions_of_floats_are_exact() {
        let values =
            [0.0, -0.0, 0.4, -0.4, 1.5, -1.5, 2.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, 4503599627370497.5];
        let array: ArrayRef = Arc::new(Float64Array::from_iter(values.iter().map(|value| Some(*value)).chain([None])));
        let by: [(&str, fn(f64) -> f64); 5] = [
            ("floor", f64::floor),
            ("ceil", f64::ceil),
            ("trunc", |value| if value == 0.0 { 0.0 } else { value.trunc() }),
            ("abs", f64::abs),
            ("signum", |value| if value == 0.0 { 0.0 } else { value.signum() }),
        ];
        for (name, function) in by {
            let results = computed(name, &array).unwrap();
            let results = results.as_primitive::<Float64Type>();
            assert!(results.is_null(values.len()));
            for (row, value) in values.iter().enumerate() {
                assert_eq!(results.value(row).to_bits(), function(*value).to_bits(), "{name}({value})");
            }
        }
        let squares: ArrayRef = Arc::new(Float32Array::from(vec![Some(9.0), None, Some(-0.0), Some(f32::NAN)]));
        let roots = computed("sqrt", &squares).unwrap();
        assert_eq!(roots.as_primitive::<Float32Type>().value(0), 3.0);
        assert!(roots.is_null(1) && roots.as_primitive::<Float32Type>().value(3).is_nan());
        let are_nan = computed("isnan", &squares).unwrap();
        assert_eq!(are_nan.as_boolean().iter().collect::<Vec<_>>(), [Some(false), None, Some(false), Some(true)]);
    }

    #[test]
    fn what_fails_and_other_types_are_left_to_others() {
        let negative: ArrayRef = Arc::new(Float64Array::from(vec![1.0, -1.0]));
        let least: ArrayRef = Arc::new(Int64Array::from(vec![1, i64::MIN]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
        assert!(computed("sqrt", &negative).is_none() && computed("abs", &least).is_none());
        assert!(computed("abs", &text).is_none() && computed("round", &negative).is_none());
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(-7), None, Some(i32::MAX), Some(0)]));
        let expected: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(i32::MAX), Some(0)]));
        assert_eq!(&computed("abs", &numbers).unwrap(), &expected);
    }
}
