//! Values as the numbers that they are stored as, for which kernels are written: a date is an `i32`.

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::error::Result;

/// Evaluates an expression with `$N` as the native type of a data type whose numbers have its order; evaluates the other expression for all other
/// types.
macro_rules! with_native {
    ($data_type:expr, $N:ident => $body:expr, _ => $other:expr) => {{
        use arrow::datatypes::DataType as Type;
        macro_rules! of {
            ($native:ty) => {{
                type $N = $native;
                $body
            }};
        }
        match $data_type {
            Type::Int8 => of!(i8),
            Type::Int16 => of!(i16),
            Type::Int32 | Type::Date32 | Type::Time32(_) => of!(i32),
            Type::Int64 | Type::Date64 | Type::Time64(_) | Type::Timestamp(_, _) | Type::Duration(_) => of!(i64),
            Type::Decimal128(_, _) => of!(i128),
            Type::UInt8 => of!(u8),
            Type::UInt16 => of!(u16),
            Type::UInt32 => of!(u32),
            Type::UInt64 => of!(u64),
            Type::Float32 => of!(f32),
            Type::Float64 => of!(f64),
            _ => $other,
        }
    }};
}
pub(crate) use with_native;

/// The numbers of an array whose type has `N` as its native type.
pub(crate) fn natives<N: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<N> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// An array of a type whose native type is `N`.
pub(crate) fn array_of<N: ArrowNativeType>(
    values: impl Into<ScalarBuffer<N>>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let values: ScalarBuffer<N> = values.into();
    let data = ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls);
    Ok(make_array(data.add_buffer(values.into_inner()).build()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Decimal128Array, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn arrays_come_back_with_their_types() {
        let arrays: [ArrayRef; 3] = [
            Arc::new(Date32Array::from(vec![Some(1), None, Some(-7)])),
            Arc::new(TimestampMillisecondArray::from(vec![Some(5), None, Some(6)]).with_timezone("UTC")),
            Arc::new(Decimal128Array::from(vec![Some(5), None, Some(6)]).with_precision_and_scale(9, 2).unwrap()),
        ];
        for array in arrays {
            let array = array.slice(1, 2);
            let rebuilt = with_native!(array.data_type(), N => {
                array_of::<N>(natives::<N>(&array).to_vec(), array.nulls().cloned(), array.data_type()).unwrap()
            }, _ => panic!("no numbers"));
            assert_eq!(&rebuilt, &array);
        }
    }
}
