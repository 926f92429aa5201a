//! Conversions of numbers and timestamps that can't fail, without a check per value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64NanosecondType, TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::shift::DAY;
use crate::vector::map_vectorized;

/// Converts numbers to a wider type (floats round to the nearest), and instants in UTC to dates and times of day; `None` for other conversions.
pub(crate) fn widen(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    fn into<F: ArrowPrimitiveType, T: ArrowPrimitiveType>(
        array: &ArrayRef,
        value: impl Fn(F::Native) -> T::Native,
    ) -> Option<ArrayRef> {
        let array = array.as_primitive::<F>();
        let wide = map_vectorized(
            array.values().iter(),
            #[inline(always)]
            |from| value(*from),
        );
        Some(Arc::new(PrimitiveArray::<T>::new(wide.into(), array.nulls().cloned())))
    }
    match (array.data_type(), to) {
        (DataType::Int8, DataType::Float64) => into::<Int8Type, Float64Type>(array, f64::from),
        (DataType::Int16, DataType::Float64) => into::<Int16Type, Float64Type>(array, f64::from),
        (DataType::Int32, DataType::Float64) => into::<Int32Type, Float64Type>(array, f64::from),
        (DataType::Int64, DataType::Float64) => into::<Int64Type, Float64Type>(array, |value| value as f64),
        (DataType::UInt8, DataType::Float64) => into::<UInt8Type, Float64Type>(array, f64::from),
        (DataType::UInt16, DataType::Float64) => into::<UInt16Type, Float64Type>(array, f64::from),
        (DataType::UInt32, DataType::Float64) => into::<UInt32Type, Float64Type>(array, f64::from),
        (DataType::UInt64, DataType::Float64) => into::<UInt64Type, Float64Type>(array, |value| value as f64),
        (DataType::Float32, DataType::Float64) => into::<Float32Type, Float64Type>(array, f64::from),
        (DataType::Int8, DataType::Int64) => into::<Int8Type, Int64Type>(array, i64::from),
        (DataType::Int16, DataType::Int64) => into::<Int16Type, Int64Type>(array, i64::from),
        (DataType::Int32, DataType::Int64) => into::<Int32Type, Int64Type>(array, i64::from),
        (DataType::UInt8, DataType::Int64) => into::<UInt8Type, Int64Type>(array, i64::from),
        (DataType::UInt16, DataType::Int64) => into::<UInt16Type, Int64Type>(array, i64::from),
        (DataType::UInt32, DataType::Int64) => into::<UInt32Type, Int64Type>(array, i64::from),
        (DataType::UInt8, DataType::UInt64) => into::<UInt8Type, UInt64Type>(array, u64::from),
        (DataType::UInt16, DataType::UInt64) => into::<UInt16Type, UInt64Type>(array, u64::from),
        (DataType::UInt32, DataType::UInt64) => into::<UInt32Type, UInt64Type>(array, u64::from),
        (DataType::Int8, DataType::Int32) => into::<Int8Type, Int32Type>(array, i32::from),
        (DataType::Int16, DataType::Int32) => into::<Int16Type, Int32Type>(array, i32::from),
        (DataType::Decimal128(_, scale), DataType::Float64) => {
            // As Arrow does it. A number of 64 bits is converted by one instruction.
            let divisor = 10f64.powi(i32::from(*scale));
            into::<Decimal128Type, Float64Type>(
                array,
                #[inline(always)]
                |number| match i64::try_from(number) {
                    Ok(word) => word as f64 / divisor,
                    Err(_) => number as f64 / divisor,
                },
            )
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, zone), DataType::Time64(TimeUnit::Nanosecond)) if is_utc(zone) => {
            into::<TimestampNanosecondType, Time64NanosecondType>(array, |instant| instant.rem_euclid(DAY))
        }
        #[expect(clippy::cast_possible_truncation, reason = "64 bits of nanoseconds have fewer days than 32 bits hold")]
        (DataType::Timestamp(TimeUnit::Nanosecond, zone), DataType::Date32) if is_utc(zone) => {
            into::<TimestampNanosecondType, Date32Type>(array, |instant| instant.div_euclid(DAY) as i32)
        }
        _ => None,
    }
}

fn is_utc(zone: &Option<Arc<str>>) -> bool {
    zone.as_deref().is_none_or(|zone| zone == "UTC")
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal128Array, Float32Array, Int8Array, Int32Array, Int64Array, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::compute::cast;

    use super::*;

    #[test]
    fn wide_numbers_are_those_of_the_general_conversion() {
        let decimals = [
            Some(0),
            Some(-5),
            None,
            Some(i128::from(i64::MAX)),
            Some(i128::from(i64::MIN) - 1),
            Some(10i128.pow(37) + 1),
        ];
        let decimals = Decimal128Array::from(decimals.to_vec()).with_precision_and_scale(38, 7).unwrap();
        let arrays: [ArrayRef; 6] = [
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(-1), Some(i32::MAX)])),
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some((1 << 53) + 1), None, Some(i64::MAX)])),
            Arc::new(UInt64Array::from(vec![0, (1 << 53) + 3, u64::MAX])),
            Arc::new(Float32Array::from(vec![f32::MIN_POSITIVE, -0.0, f32::INFINITY, f32::MAX])),
            Arc::new(decimals),
            Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        ];
        for array in &arrays {
            for to in [DataType::Float64, DataType::Int32, DataType::Int64, DataType::UInt64] {
                if let Some(wide) = widen(array, &to) {
                    assert_eq!(&wide, &cast(array, &to).unwrap(), "{} to {to}", array.data_type());
                }
            }
        }
        let instants = [Some(i64::MIN), Some(-DAY - 1), Some(-1), None, Some(0), Some(DAY - 1), Some(i64::MAX)];
        let instants = TimestampNanosecondArray::from(instants.to_vec());
        for instants in [instants.clone(), instants.with_timezone("UTC")] {
            let instants: ArrayRef = Arc::new(instants);
            for to in [DataType::Date32, DataType::Time64(TimeUnit::Nanosecond)] {
                assert_eq!(&widen(&instants, &to).unwrap(), &cast(&instants, &to).unwrap(), "{to}");
            }
        }
        assert!(widen(&arrays[1], &DataType::Int32).is_none());
        assert!(widen(&arrays[0], &DataType::UInt64).is_none());
    }
}
