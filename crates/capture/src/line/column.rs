//! One column of a batch, grown value by value.
//!
//! - A column is only as long as its last value; [`LineColumn::array`] fills the rest with nulls.
//! - A column takes a value of another type where it holds exactly that value: a float column takes integers and an
//!   integer column floats without a fraction, up to 2^53; signed and unsigned columns take each other's within range;
//!   text columns take tags and integers as written, as ids of venues are numbers today and letters tomorrow.
//!   All else is a conflict.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, Int32Array, Int64Array,
    NullBufferBuilder, StringArray, TimestampNanosecondArray, UInt64Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};
use splay_store::ColumnType;

use super::symbols::LineSymbols;
use super::value::{LineValue, float};

/// Most items of a list, as of [`ColumnType::Levels`].
const LEVELS_MAX: usize = 1024;

/// Largest whole number up to which floats have every one.
const EXACT_MAX: u64 = 1 << 53;

/// Bytes of a row in a column that isn't one of lists, texts left out.
const WIDTH: usize = 9;

/// Bytes that a row takes in a column of a table's type.
pub(super) fn width_of(column_type: &ColumnType) -> usize {
    match column_type {
        ColumnType::Levels { size } => usize::try_from(*size).unwrap_or(0).saturating_mul(9) + 1,
        _ => WIDTH,
    }
}

/// Why a value doesn't go into a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueFault {
    Conflict(&'static str),
    NotUtf8,
}

#[derive(Debug)]
enum LineValues {
    Float(Vec<f64>),
    Int(Vec<i64>),
    UInt(Vec<u64>),
    Bool(Vec<bool>),
    Time(Vec<i64>),
    Symbol(Box<LineSymbols>),
    Text { ends: Vec<i32>, bytes: Vec<u8> },
    Levels { size: usize, items: Vec<f64>, valid: NullBufferBuilder },
}

/// A column of a batch.
#[derive(Debug)]
pub(super) struct LineColumn {
    pub name: String,
    values: LineValues,
    nulls: NullBufferBuilder,
}

impl LineColumn {
    /// A column for values of a table's type, or `None` where the value decides: for types that lines have no form for.
    pub fn of_type(name: String, column_type: &ColumnType) -> Option<LineColumn> {
        use ColumnType as T;
        let values = match column_type {
            T::Float32 | T::Float64 | T::Decimal { .. } => LineValues::Float(Vec::new()),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 => LineValues::Int(Vec::new()),
            T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => LineValues::UInt(Vec::new()),
            T::Bool => LineValues::Bool(Vec::new()),
            T::Timestamp => LineValues::Time(Vec::new()),
            T::Symbol => LineValues::Symbol(Box::new(LineSymbols::new())),
            T::Text => text(),
            T::Levels { size } => levels(usize::try_from(*size).ok()?)?,
            T::Date | T::Time => return None,
        };
        Some(LineColumn::new(name, values))
    }

    /// A column for values like this one; tags make a symbol column.
    pub fn for_value(name: String, value: &LineValue<'_>, tag: bool) -> Option<LineColumn> {
        let values = match value {
            LineValue::Null => return None,
            LineValue::Text(_) if tag => LineValues::Symbol(Box::new(LineSymbols::new())),
            LineValue::Text(_) | LineValue::Id(_) => text(),
            LineValue::Float(_) => LineValues::Float(Vec::new()),
            LineValue::Int(..) => LineValues::Int(Vec::new()),
            LineValue::UInt(..) => LineValues::UInt(Vec::new()),
            LineValue::Bool(_) => LineValues::Bool(Vec::new()),
            LineValue::Time(_) => LineValues::Time(Vec::new()),
            LineValue::Levels(bytes) => levels(bytes.len() / 8)?,
        };
        Some(LineColumn::new(name, values))
    }

    fn new(name: String, values: LineValues) -> LineColumn {
        LineColumn { name, values, nulls: NullBufferBuilder::new(0) }
    }

    /// Rows up to the last value.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.nulls.len()
    }

    /// Bytes that a row takes, nulls included and texts left out.
    #[inline(always)]
    pub fn width(&self) -> usize {
        match &self.values {
            LineValues::Levels { size, .. } => size * 9 + 1,
            _ => WIDTH,
        }
    }

    /// What the column holds, for errors.
    pub fn kind(&self) -> &'static str {
        match &self.values {
            LineValues::Float(_) => "floats",
            LineValues::Int(_) => "integers",
            LineValues::UInt(_) => "unsigned integers",
            LineValues::Bool(_) => "booleans",
            LineValues::Time(_) => "timestamps",
            LineValues::Symbol(_) => "symbols",
            LineValues::Text { .. } => "text",
            LineValues::Levels { .. } => "arrays",
        }
    }

    /// The type by which a new table gets the column.
    pub fn column_type(&self) -> ColumnType {
        match &self.values {
            LineValues::Float(_) => ColumnType::Float64,
            LineValues::Int(_) => ColumnType::Int64,
            LineValues::UInt(_) => ColumnType::UInt64,
            LineValues::Bool(_) => ColumnType::Bool,
            LineValues::Time(_) => ColumnType::Timestamp,
            LineValues::Symbol(_) => ColumnType::Symbol,
            LineValues::Text { .. } => ColumnType::Text,
            LineValues::Levels { size, .. } => ColumnType::Levels { size: i32::try_from(*size).unwrap_or(i32::MAX) },
        }
    }

    /// Sets the value of a row, which has none yet. Gives the bytes of text that were added.
    #[inline(always)]
    pub fn set(
        &mut self,
        row: usize,
        value: &LineValue<'_>,
        tag: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, ValueFault> {
        if self.rows() < row {
            self.resize(row);
        }
        let mut bytes = 0;
        match (&mut self.values, value) {
            (LineValues::Float(values), LineValue::Float(value)) => values.push(*value),
            (LineValues::Symbol(symbols), LineValue::Text(name)) => {
                let before = symbols.bytes.len();
                if !symbols.push(name.plain(!tag, scratch)) {
                    return Err(ValueFault::NotUtf8);
                }
                bytes = symbols.bytes.len() - before;
            }
            (LineValues::Int(values), LineValue::Int(value, _)) => values.push(*value),
            (LineValues::Time(values), LineValue::Time(value)) => values.push(*value),
            (LineValues::Bool(values), LineValue::Bool(value)) => values.push(*value),
            (LineValues::UInt(values), LineValue::UInt(value, _)) => values.push(*value),
            (LineValues::Text { .. }, LineValue::Text(name)) => bytes = self.set_text(name.plain(!tag, scratch))?,
            _ => bytes = self.set_other(value, scratch)?,
        }
        self.nulls.append_non_null();
        Ok(bytes)
    }

    /// A value of another type than the column's, or one that comes seldom.
    #[inline(never)]
    fn set_other(&mut self, value: &LineValue<'_>, scratch: &mut Vec<u8>) -> Result<usize, ValueFault> {
        let conflict = Err(ValueFault::Conflict(value.kind()));
        match (&mut self.values, value) {
            (LineValues::Float(values), LineValue::Int(value, _)) => {
                match exact_float(value.unsigned_abs(), *value < 0) {
                    Some(float) => values.push(float),
                    None => return conflict,
                }
            }
            (LineValues::Float(values), LineValue::UInt(value, _)) => match exact_float(*value, false) {
                Some(float) => values.push(float),
                None => return conflict,
            },
            (LineValues::Int(values), LineValue::Float(value)) => match exact_int(*value) {
                Some(int) => values.push(int),
                None => return conflict,
            },
            (LineValues::Int(values), LineValue::UInt(value, _)) => match i64::try_from(*value) {
                Ok(int) => values.push(int),
                Err(_) => return conflict,
            },
            (LineValues::UInt(values), LineValue::Int(value, _)) => match u64::try_from(*value) {
                Ok(int) => values.push(int),
                Err(_) => return conflict,
            },
            (LineValues::Text { .. }, LineValue::Id(text) | LineValue::Int(_, text) | LineValue::UInt(_, text)) => {
                return self.set_text(text);
            }
            (LineValues::Symbol(symbols), LineValue::Id(text) | LineValue::Int(_, text) | LineValue::UInt(_, text)) => {
                let before = symbols.bytes.len();
                scratch.clear();
                return if symbols.push(text) { Ok(symbols.bytes.len() - before) } else { Err(ValueFault::NotUtf8) };
            }
            (LineValues::Levels { size, items, valid }, LineValue::Levels(bytes)) => {
                let length = bytes.len() / 8;
                if length > *size {
                    return Err(ValueFault::Conflict("a longer array"));
                }
                items.extend(bytes.chunks_exact(8).map(float));
                items.resize(items.len() + *size - length, 0.0);
                valid.append_n_non_nulls(length);
                valid.append_n_nulls(*size - length);
            }
            _ => return conflict,
        }
        Ok(0)
    }

    #[inline]
    fn set_text(&mut self, text: &[u8]) -> Result<usize, ValueFault> {
        let LineValues::Text { ends, bytes } = &mut self.values else { return Ok(0) };
        if std::str::from_utf8(text).is_err() {
            return Err(ValueFault::NotUtf8);
        }
        // The batch's limit keeps the offset far below 31 bits.
        let end = i32::try_from(bytes.len() + text.len())
            .map_err(|_| ValueFault::Conflict("more text than a batch holds"))?;
        bytes.extend_from_slice(text);
        ends.push(end);
        Ok(text.len())
    }

    /// Cuts the column to a number of rows, or fills it with nulls up to it.
    #[cold]
    pub fn resize(&mut self, rows: usize) {
        let before = self.rows();
        match &mut self.values {
            LineValues::Float(values) => values.resize(rows, 0.0),
            LineValues::Int(values) | LineValues::Time(values) => values.resize(rows, 0),
            LineValues::UInt(values) => values.resize(rows, 0),
            LineValues::Bool(values) => values.resize(rows, false),
            LineValues::Symbol(symbols) => symbols.resize(rows),
            LineValues::Text { ends, bytes } => {
                let last = ends.get(rows.min(before)).copied().unwrap_or(0);
                ends.resize(rows + 1, last);
                bytes.truncate(usize::try_from(last).unwrap_or(0));
            }
            LineValues::Levels { size, items, valid } => {
                items.resize(rows * *size, 0.0);
                valid.truncate(rows * *size);
                valid.append_n_nulls((rows * *size).saturating_sub(valid.len()));
            }
        }
        self.nulls.truncate(rows);
        self.nulls.append_n_nulls(rows.saturating_sub(before));
    }

    /// The column's field and its values, with nulls up to a number of rows. The column is empty afterwards.
    pub fn array(&mut self, rows: usize) -> (Field, ArrayRef) {
        if self.rows() != rows {
            self.resize(rows);
        }
        let column_type = self.column_type();
        let nulls = std::mem::replace(&mut self.nulls, NullBufferBuilder::new(0)).finish();
        let array: ArrayRef = match &mut self.values {
            LineValues::Float(values) => Arc::new(Float64Array::new(std::mem::take(values).into(), nulls)),
            LineValues::Int(values) => Arc::new(Int64Array::new(std::mem::take(values).into(), nulls)),
            LineValues::UInt(values) => Arc::new(UInt64Array::new(std::mem::take(values).into(), nulls)),
            LineValues::Time(values) => times(std::mem::take(values), nulls),
            LineValues::Bool(values) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(std::mem::take(values).as_slice()), nulls))
            }
            LineValues::Symbol(symbols) => {
                let LineSymbols { codes, offsets, bytes, .. } = std::mem::replace(&mut **symbols, LineSymbols::new());
                let keys = Int32Array::new(codes.into(), nulls);
                let texts = strings(offsets, bytes, None);
                let array = DictionaryArray::try_new(keys, Arc::new(texts));
                // Codes come from `LineSymbols`, so there is no error; were there one, the column would be null.
                debug_assert!(array.is_ok(), "{array:?}");
                array.map_or_else(|_| new_null_array(&column_type.arrow(), rows), |array| Arc::new(array))
            }
            LineValues::Text { ends, bytes } => {
                Arc::new(strings(std::mem::replace(ends, vec![0]), std::mem::take(bytes), nulls))
            }
            LineValues::Levels { size, items, valid } => {
                let items = Float64Array::new(std::mem::take(items).into(), valid.finish());
                let field = Arc::new(Field::new("item", DataType::Float64, true));
                let size = i32::try_from(*size).unwrap_or(i32::MAX);
                Arc::new(FixedSizeListArray::new(field, size, Arc::new(items), nulls))
            }
        };
        (Field::new(&self.name, column_type.arrow(), true), array)
    }
}

/// Nanoseconds since 1970 as a column in UTC.
pub(super) fn times(values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::new(values.into(), nulls).with_timezone("UTC"))
}

fn text() -> LineValues {
    LineValues::Text { ends: vec![0], bytes: Vec::new() }
}

fn levels(size: usize) -> Option<LineValues> {
    (1..=LEVELS_MAX).contains(&size).then(|| LineValues::Levels {
        size,
        items: Vec::new(),
        valid: NullBufferBuilder::new(0),
    })
}

fn strings(offsets: Vec<i32>, bytes: Vec<u8>, nulls: Option<NullBuffer>) -> StringArray {
    // SAFETY: offsets begin with zero, grow, and end with the number of bytes; each text was checked to be UTF-8 when it
    // was added.
    unsafe {
        StringArray::new_unchecked(
            OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets)),
            Buffer::from_vec(bytes),
            nulls,
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
fn exact_float(value: u64, negative: bool) -> Option<f64> {
    (value <= EXACT_MAX).then(|| if negative { -(value as f64) } else { value as f64 })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked to be whole and in range")]
fn exact_int(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= EXACT_MAX as f64).then_some(value as i64)
}
