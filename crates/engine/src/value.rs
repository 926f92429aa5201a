//! Values of a chunk of rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Scalar, UInt32Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;

use crate::error::Result;

/// Values of a chunk.
#[derive(Debug, Clone)]
pub enum Value {
    /// An array with a value for each row.
    Array(ArrayRef),
    /// An array of one value, which holds for all rows.
    Scalar(ArrayRef),
}

impl Value {
    /// The values as an array of `rows` rows.
    ///
    /// # Errors
    /// [`Error::Arrow`](crate::Error::Arrow).
    pub fn into_array(self, rows: usize) -> Result<ArrayRef> {
        match self {
            Value::Array(array) => Ok(array),
            Value::Scalar(one) if *one.data_type() == DataType::Null => Ok(new_null_array(&DataType::Null, rows)),
            Value::Scalar(one) => {
                let zeros = UInt32Array::from(vec![0; rows]);
                Ok(take(&one, &zeros, None)?)
            }
        }
    }

    /// Type of the values.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        match self {
            Value::Array(array) | Value::Scalar(array) => array.data_type(),
        }
    }

    pub(crate) fn with_datum<T>(&self, use_it: impl FnOnce(&dyn Datum) -> T) -> T {
        match self {
            Value::Array(array) => use_it(array),
            Value::Scalar(one) => use_it(&Scalar::new(Arc::clone(one))),
        }
    }

    pub(crate) fn map(&self, apply: impl FnOnce(&ArrayRef) -> Result<ArrayRef>) -> Result<Value> {
        Ok(match self {
            Value::Array(array) => Value::Array(apply(array)?),
            Value::Scalar(one) => Value::Scalar(apply(one)?),
        })
    }
}

/// The texts of a constant that aren't null.
pub(crate) fn texts_of(constant: &ArrayRef) -> Result<Vec<String>> {
    let array = if *constant.data_type() == DataType::Utf8 {
        ArrayRef::clone(constant)
    } else {
        cast(constant, &DataType::Utf8)?
    };
    Ok(array.as_string::<i32>().iter().flatten().map(str::to_owned).collect())
}
