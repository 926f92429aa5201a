//! Builds Arrow arrays from the numbers of pages.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder, DictionaryArray, PrimitiveArray,
    StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use parquet::basic::Type;

use super::exact;
use super::unpack::GROUP;

/// Whether columns of a type in the file become arrays here.
pub(super) fn is_decoded(physical: Type, stored: &DataType) -> bool {
    use DataType::{Boolean, Date32, Decimal128, Dictionary, Float32, Float64, Int8, Int16, Int32, Int64};
    use DataType::{Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8};
    match physical {
        Type::BOOLEAN => *stored == Boolean,
        Type::INT32 => matches!(stored, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 | Date32 | Decimal128(..)),
        Type::INT64 => matches!(stored, Int64 | UInt64 | Time64(_) | Timestamp(..) | Decimal128(..)),
        Type::FLOAT => *stored == Float32,
        Type::DOUBLE => *stored == Float64,
        Type::BYTE_ARRAY => {
            *stored == Utf8 || matches!(stored, Dictionary(keys, texts) if **keys == Int32 && **texts == Utf8)
        }
        Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => false,
    }
}

/// An array in the making.
pub(in crate::segment) enum ValueBuilder {
    Bool(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>, DataType),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Date32(Vec<i32>),
    Decimal(Vec<i128>, u8, i8),
    /// Whole numbers that are a power of ten times a float.
    Scaled32(Vec<f32>, f64),
    Scaled64(Vec<f64>, f64),
    /// Times in another unit.
    Multiplied(Vec<i64>, i64, DataType),
    Codes(Vec<i32>, Arc<StringArray>),
    /// Texts, and those that codes stand for.
    Texts {
        ends: Vec<usize>,
        bytes: Vec<u8>,
        coded: Arc<StringArray>,
        /// The texts padded with zeros, each with its length, if all are short and fewer than the rows.
        padded: Vec<([u8; PADDED_BYTES], u8)>,
    },
}

/// Bytes that are copied at once for a short text.
const PADDED_BYTES: usize = 16;

/// The texts padded with zeros, each with its length; none if one is too long, or if there are more than `most`.
fn pad_texts(texts: &StringArray, most: usize) -> Vec<([u8; PADDED_BYTES], u8)> {
    let padded = |text: Option<&str>| {
        let text = text.unwrap_or_default().as_bytes();
        let mut bytes = [0; PADDED_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some((bytes, u8::try_from(text.len()).ok()?))
    };
    let all: Option<Vec<_>> = if texts.len() <= most { texts.iter().map(padded).collect() } else { None };
    all.unwrap_or_default()
}

impl ValueBuilder {
    /// Values for a page. They have the target type if numbers of the stored type can be converted to it here, and else the stored type. `None`
    /// for a type that isn't decoded here.
    pub(in crate::segment) fn new(
        stored: &DataType,
        target_type: &DataType,
        rows: usize,
        texts: Option<Arc<StringArray>>,
    ) -> Option<ValueBuilder> {
        let nanoseconds = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        };
        Some(match (stored, target_type) {
            (DataType::Decimal128(_, scale), DataType::Float64) => {
                ValueBuilder::Scaled64(Vec::with_capacity(rows), exact::power(*scale)?)
            }
            (DataType::Decimal128(_, scale), DataType::Float32) => {
                ValueBuilder::Scaled32(Vec::with_capacity(rows), exact::power(*scale)?)
            }
            (DataType::Timestamp(unit, _), DataType::Timestamp(TimeUnit::Nanosecond, _))
            | (DataType::Time64(unit), DataType::Time64(TimeUnit::Nanosecond))
                if *unit != TimeUnit::Nanosecond =>
            {
                ValueBuilder::Multiplied(Vec::with_capacity(rows), nanoseconds(unit), target_type.clone())
            }
            (DataType::Boolean, _) => ValueBuilder::Bool(BooleanBufferBuilder::new(rows)),
            (DataType::Int8, _) => ValueBuilder::Int8(Vec::with_capacity(rows)),
            (DataType::Int16, _) => ValueBuilder::Int16(Vec::with_capacity(rows)),
            (DataType::Int32, _) => ValueBuilder::Int32(Vec::with_capacity(rows)),
            (DataType::UInt8, _) => ValueBuilder::UInt8(Vec::with_capacity(rows)),
            (DataType::UInt16, _) => ValueBuilder::UInt16(Vec::with_capacity(rows)),
            (DataType::UInt32, _) => ValueBuilder::UInt32(Vec::with_capacity(rows)),
            (DataType::UInt64, _) => ValueBuilder::UInt64(Vec::with_capacity(rows)),
            (DataType::Float32, _) => ValueBuilder::Float32(Vec::with_capacity(rows)),
            (DataType::Float64, _) => ValueBuilder::Float64(Vec::with_capacity(rows)),
            (DataType::Date32, _) => ValueBuilder::Date32(Vec::with_capacity(rows)),
            (DataType::Decimal128(precision, scale), _) => {
                ValueBuilder::Decimal(Vec::with_capacity(rows), *precision, *scale)
            }
            (DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..), _) => {
                ValueBuilder::Int64(Vec::with_capacity(rows), stored.clone())
            }
            (DataType::Dictionary(..), _) => ValueBuilder::Codes(Vec::with_capacity(rows), texts?),
            (DataType::Utf8, _) => {
                let (coded, ends) = (texts?, Vec::with_capacity(rows));
                let padded = pad_texts(&coded, rows);
                ValueBuilder::Texts { ends, bytes: Vec::new(), coded, padded }
            }
            _ => return None,
        })
    }

    /// Adds numbers as they are in a page. Those of floats are their bits.
    #[expect(clippy::cast_possible_truncation, reason = "numbers in a file have the width of its type")]
    pub(in crate::segment) fn push(&mut self, some: &[i64]) {
        match self {
            ValueBuilder::Bool(bits) => some.iter().for_each(|value| bits.append(*value != 0)),
            ValueBuilder::Int8(values) => values.extend(some.iter().map(|value| *value as i8)),
            ValueBuilder::Int16(values) => values.extend(some.iter().map(|value| *value as i16)),
            ValueBuilder::Int32(values) | ValueBuilder::Date32(values) | ValueBuilder::Codes(values, _) => {
                values.extend(some.iter().map(|value| *value as i32));
            }
            ValueBuilder::Int64(values, _) => values.extend_from_slice(some),
            ValueBuilder::UInt8(values) => values.extend(some.iter().map(|value| value.cast_unsigned() as u8)),
            ValueBuilder::UInt16(values) => values.extend(some.iter().map(|value| value.cast_unsigned() as u16)),
            ValueBuilder::UInt32(values) => values.extend(some.iter().map(|value| value.cast_unsigned() as u32)),
            ValueBuilder::UInt64(values) => values.extend(some.iter().map(|value| value.cast_unsigned())),
            ValueBuilder::Float32(values) => {
                values.extend(some.iter().map(|value| f32::from_bits(value.cast_unsigned() as u32)));
            }
            ValueBuilder::Float64(values) => {
                values.extend(some.iter().map(|value| f64::from_bits(value.cast_unsigned())))
            }
            ValueBuilder::Decimal(values, ..) => values.extend(some.iter().map(|value| i128::from(*value))),
            ValueBuilder::Scaled32(values, power) => {
                values.extend(some.iter().map(|value| exact::float(*value, *power) as f32));
            }
            ValueBuilder::Scaled64(values, power) => {
                values.extend(some.iter().map(|value| exact::float(*value, *power)))
            }
            ValueBuilder::Multiplied(values, by, _) => values.extend(some.iter().map(|value| value.wrapping_mul(*by))),
            ValueBuilder::Texts { ends, bytes, padded, .. } if !padded.is_empty() => {
                for code in some {
                    let (text, length) = &padded[*code as usize];
                    let end = bytes.len() + usize::from(*length);
                    bytes.extend_from_slice(text);
                    bytes.truncate(end);
                    ends.push(end);
                }
            }
            ValueBuilder::Texts { ends, bytes, coded, .. } => {
                for code in some {
                    bytes.extend_from_slice(coded.value(*code as usize).as_bytes());
                    ends.push(bytes.len());
                }
            }
        }
    }

    /// Whether it is made of texts, of which a null one has no code.
    pub(in crate::segment) fn is_text(&self) -> bool {
        matches!(self, ValueBuilder::Texts { .. })
    }

    /// Adds a text as it is in a page.
    pub(in crate::segment) fn push_text(&mut self, text: &[u8]) {
        if let ValueBuilder::Texts { ends, bytes, .. } = self {
            bytes.extend_from_slice(text);
            ends.push(bytes.len());
        }
    }

    /// Adds a value that is null.
    pub(in crate::segment) fn push_null(&mut self) {
        match self {
            ValueBuilder::Texts { ends, bytes, .. } => ends.push(bytes.len()),
            _ => self.push(&[0]),
        }
    }

    /// Adds the values of some rows: for those that aren't null one number after the other.
    pub(in crate::segment) fn push_with_nulls(&mut self, valid: &[bool], numbers: &[i64], nulls: &mut Nulls) {
        let mut numbers = numbers.iter();
        for some in valid.chunks(GROUP) {
            nulls.extend(some);
            if self.is_text() {
                for is_valid in some {
                    match if *is_valid { numbers.next() } else { None } {
                        Some(number) => self.push(&[*number]),
                        None => self.push_null(),
                    }
                }
                continue;
            }
            let mut spread = [0; GROUP];
            for (number, is_valid) in spread.iter_mut().zip(some) {
                if *is_valid {
                    *number = numbers.next().copied().unwrap_or_default();
                }
            }
            self.push(&spread[..some.len()]);
        }
    }

    /// The array.
    pub(in crate::segment) fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        fn array<T: ArrowPrimitiveType>(
            values: Vec<T::Native>,
            nulls: Option<NullBuffer>,
        ) -> Result<PrimitiveArray<T>, ArrowError> {
            PrimitiveArray::try_new(values.into(), nulls)
        }
        Ok(match self {
            ValueBuilder::Bool(mut bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            ValueBuilder::Int8(values) => Arc::new(array::<Int8Type>(values, nulls)?),
            ValueBuilder::Int16(values) => Arc::new(array::<Int16Type>(values, nulls)?),
            ValueBuilder::Int32(values) => Arc::new(array::<Int32Type>(values, nulls)?),
            ValueBuilder::UInt8(values) => Arc::new(array::<UInt8Type>(values, nulls)?),
            ValueBuilder::UInt16(values) => Arc::new(array::<UInt16Type>(values, nulls)?),
            ValueBuilder::UInt32(values) => Arc::new(array::<UInt32Type>(values, nulls)?),
            ValueBuilder::UInt64(values) => Arc::new(array::<UInt64Type>(values, nulls)?),
            ValueBuilder::Float32(values) | ValueBuilder::Scaled32(values, _) => {
                Arc::new(array::<Float32Type>(values, nulls)?)
            }
            ValueBuilder::Float64(values) | ValueBuilder::Scaled64(values, _) => {
                Arc::new(array::<Float64Type>(values, nulls)?)
            }
            ValueBuilder::Date32(values) => Arc::new(array::<Date32Type>(values, nulls)?),
            ValueBuilder::Decimal(values, precision, scale) => {
                Arc::new(array::<Decimal128Type>(values, nulls)?.with_precision_and_scale(precision, scale)?)
            }
            ValueBuilder::Int64(values, data_type) | ValueBuilder::Multiplied(values, _, data_type) => {
                match data_type {
                    DataType::Int64 => Arc::new(array::<Int64Type>(values, nulls)?),
                    DataType::Time64(TimeUnit::Microsecond) => Arc::new(array::<Time64MicrosecondType>(values, nulls)?),
                    DataType::Time64(_) => Arc::new(array::<Time64NanosecondType>(values, nulls)?),
                    DataType::Timestamp(unit, zone) => match unit {
                        TimeUnit::Second => {
                            Arc::new(array::<TimestampSecondType>(values, nulls)?.with_timezone_opt(zone))
                        }
                        TimeUnit::Millisecond => {
                            Arc::new(array::<TimestampMillisecondType>(values, nulls)?.with_timezone_opt(zone))
                        }
                        TimeUnit::Microsecond => {
                            Arc::new(array::<TimestampMicrosecondType>(values, nulls)?.with_timezone_opt(zone))
                        }
                        TimeUnit::Nanosecond => {
                            Arc::new(array::<TimestampNanosecondType>(values, nulls)?.with_timezone_opt(zone))
                        }
                    },
                    other => return Err(ArrowError::CastError(format!("64-bit numbers of type {other}"))),
                }
            }
            ValueBuilder::Texts { ends, bytes, .. } => {
                let too_long = |_| ArrowError::OffsetOverflowError(bytes.len());
                let offsets = std::iter::once(Ok(0)).chain(ends.iter().map(|end| i32::try_from(*end)));
                let offsets: Vec<i32> = offsets.collect::<Result<_, _>>().map_err(too_long)?;
                Arc::new(StringArray::try_new(OffsetBuffer::new(offsets.into()), bytes.into(), nulls)?)
            }
            ValueBuilder::Codes(codes, texts) => {
                let codes = array::<Int32Type>(codes, nulls)?;
                Arc::new(DictionaryArray::try_new(codes, texts)?)
            }
        })
    }
}

/// The nulls among the rows so far. Nothing is stored before the first null.
#[derive(Default)]
pub(in crate::segment) struct Nulls {
    rows: usize,
    valid: Option<BooleanBufferBuilder>,
}

impl Nulls {
    pub(in crate::segment) fn all_valid(&mut self, rows: usize) {
        self.rows += rows;
        if let Some(valid) = &mut self.valid {
            valid.append_n(rows, true);
        }
    }

    pub(in crate::segment) fn push(&mut self, is_valid: bool) {
        if !is_valid && self.valid.is_none() {
            let mut valid = BooleanBufferBuilder::new(self.rows + 1024);
            valid.append_n(self.rows, true);
            self.valid = Some(valid);
        }
        self.rows += 1;
        if let Some(valid) = &mut self.valid {
            valid.append(is_valid);
        }
    }

    pub(in crate::segment) fn extend(&mut self, are_valid: &[bool]) {
        match &mut self.valid {
            Some(valid) => {
                valid.append_slice(are_valid);
                self.rows += are_valid.len();
            }
            None if are_valid.iter().all(|is_valid| *is_valid) => self.rows += are_valid.len(),
            None => are_valid.iter().for_each(|is_valid| self.push(*is_valid)),
        }
    }

    pub(in crate::segment) fn finish(self, rows: usize) -> Option<NullBuffer> {
        debug_assert_eq!(self.rows, rows);
        self.valid.map(|mut valid| NullBuffer::new(valid.finish()))
    }
}
