//! A column as the lab compresses it: named, without dictionary or view, of a type with values of its own.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, SchemaRef};

use super::plain_bytes;
use crate::{Error, Result};

/// A column of values.
#[derive(Debug, Clone)]
pub struct Column {
    name: String,
    values: ArrayRef,
}

impl Column {
    /// A column; codes of a dictionary and views are turned into what they stand for.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for lists, structures and other types without values of their own.
    pub fn new(name: &str, values: &ArrayRef) -> Result<Column> {
        let plain_type = value_type(values.data_type());
        let column = |values| Column { name: name.to_owned(), values };
        if !is_supported(&plain_type) {
            return Err(unsupported("the lab", &column(Arc::clone(values)), "it has no plain values"));
        }
        Ok(column(if values.data_type() == &plain_type { Arc::clone(values) } else { cast(values, &plain_type)? }))
    }

    /// The columns of a table, each in one piece.
    ///
    /// # Errors
    /// As [`Column::new`].
    pub fn all(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<Column>> {
        let column = |(place, field): (usize, &Arc<arrow::datatypes::Field>)| {
            let parts: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(place))).collect();
            Column::in_pieces(field.name(), field.data_type(), &parts)
        };
        schema.fields().iter().enumerate().map(column).collect()
    }

    fn in_pieces(name: &str, data_type: &DataType, pieces: &[ArrayRef]) -> Result<Column> {
        let pieces = pieces.iter().map(|piece| Ok(Column::new(name, piece)?.values)).collect::<Result<Vec<_>>>()?;
        Column::new(name, &joined(&pieces, &value_type(data_type))?)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// Its type.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        self.values.data_type()
    }

    /// How many values it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len()
    }

    /// The number of the type in q, which tables of results have as `dataType`; 0 where q has no such type.
    #[must_use]
    pub fn q_type(&self) -> i16 {
        match self.data_type() {
            DataType::Boolean => 1,
            DataType::Int8 | DataType::UInt8 => 4,
            DataType::Int16 | DataType::UInt16 => 5,
            DataType::Int32 | DataType::UInt32 => 6,
            DataType::Int64 | DataType::UInt64 => 7,
            DataType::Float16 | DataType::Float32 => 8,
            DataType::Float64 => 9,
            DataType::Utf8 => 11,
            DataType::Timestamp(..) => 12,
            DataType::Date32 | DataType::Date64 => 14,
            DataType::Duration(_) | DataType::Time64(_) => 16,
            DataType::Time32(_) => 19,
            _ => 0,
        }
    }

    /// Bytes of the values uncompressed: the fixed width of the type, a byte for a boolean, and texts with a zero behind each.
    ///
    /// # Errors
    /// As [`Column::new`].
    pub fn plain_bytes(&self) -> Result<u64> {
        Ok(plain_bytes::of(self)?.bytes.len() as u64)
    }
}

/// Arrays as one.
///
/// # Errors
/// [`Error::Arrow`] if they have different types.
pub fn joined(pieces: &[ArrayRef], data_type: &DataType) -> Result<ArrayRef> {
    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    Ok(if pieces.is_empty() { new_empty_array(data_type) } else { concat(&pieces)? })
}

/// The error for a column that a scheme can't hold.
pub fn unsupported(scheme: impl ToString, column: &Column, reason: impl ToString) -> Error {
    Error::Unsupported {
        scheme: scheme.to_string(),
        column: column.name.clone(),
        data_type: column.data_type().to_string(),
        reason: reason.to_string(),
    }
}

/// The type of the values that a dictionary, a view or a long offset stands for.
fn value_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

fn is_supported(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, FixedSizeBinary, Interval, Utf8};
    let is_fixed = data_type.primitive_width().is_some() && !matches!(data_type, Interval(_));
    is_fixed || matches!(data_type, Boolean | Utf8 | Binary) || matches!(data_type, FixedSizeBinary(1..))
}
