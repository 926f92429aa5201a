//! One column of a batch, grown value by value.
//!
//! - A column is only as long as its last value; [`Column::array`] fills the rest with nulls.
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

use super::symbols::Symbols;
use super::value::{Value, float};

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
pub(super) enum Fault {
    Conflict(&'static str),
    NotUtf8,
}

#[derive(Debug)]
enum Values {
    Float(Vec<f64>),
    Int(Vec<i64>),
    UInt(Vec<u64>),
    Bool(Vec<bool>),
    Time(Vec<i64>),
    Symbol(Box<Symbols>),
    Text { ends: Vec<i32>, bytes: Vec<u8> },
    Levels { size: usize, items: Vec<f64>, valid: NullBufferBuilder },
}

/// A column of a batch.
#[derive(Debug)]
pub(super) struct Column {
    pub name: String,
    values: Values,
    nulls: NullBufferBuilder,
}

impl Column {
    /// A column for values of a table's type, or `None` where the value decides: for types that lines have no form for.
    pub fn of_type(name: String, column_type: &ColumnType) -> Option<Column> {
        use ColumnType as T;
        let values = match column_type {
            T::Float32 | T::Float64 | T::Decimal { .. } => Values::Float(Vec::new()),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 => Values::Int(Vec::new()),
            T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => Values::UInt(Vec::new()),
            T::Bool => Values::Bool(Vec::new()),
            T::Timestamp => Values::Time(Vec::new()),
            T::Symbol => Values::Symbol(Box::new(Symbols::new())),
            T::Text => text(),
            T::Levels { size } => levels(usize::try_from(*size).ok()?)?,
            T::Date | T::Time => return None,
        };
        Some(Column::new(name, values))
    }

    /// A column for values like this one; tags make a symbol column.
    pub fn for_value(name: String, value: &Value<'_>, tag: bool) -> Option<Column> {
        let values = match value {
            Value::Null => return None,
            Value::Text(_) if tag => Values::Symbol(Box::new(Symbols::new())),
            Value::Text(_) | Value::Id(_) => text(),
            Value::Float(_) => Values::Float(Vec::new()),
            Value::Int(..) => Values::Int(Vec::new()),
            Value::UInt(..) => Values::UInt(Vec::new()),
            Value::Bool(_) => Values::Bool(Vec::new()),
            Value::Time(_) => Values::Time(Vec::new()),
            Value::Levels(bytes) => levels(bytes.len() / 8)?,
        };
        Some(Column::new(name, values))
    }

    fn new(name: String, values: Values) -> Column {
        Column { name, values, nulls: NullBufferBuilder::new(0) }
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
            Values::Levels { size, .. } => size * 9 + 1,
            _ => WIDTH,
        }
    }

    /// What the column holds, for errors.
    pub fn kind(&self) -> &'static str {
        match &self.values {
            Values::Float(_) => "floats",
            Values::Int(_) => "integers",
            Values::UInt(_) => "unsigned integers",
            Values::Bool(_) => "booleans",
            Values::Time(_) => "timestamps",
            Values::Symbol(_) => "symbols",
            Values::Text { .. } => "text",
            Values::Levels { .. } => "arrays",
        }
    }

    /// The type by which a new table gets the column.
    pub fn column_type(&self) -> ColumnType {
        match &self.values {
            Values::Float(_) => ColumnType::Float64,
            Values::Int(_) => ColumnType::Int64,
            Values::UInt(_) => ColumnType::UInt64,
            Values::Bool(_) => ColumnType::Bool,
            Values::Time(_) => ColumnType::Timestamp,
            Values::Symbol(_) => ColumnType::Symbol,
            Values::Text { .. } => ColumnType::Text,
            Values::Levels { size, .. } => ColumnType::Levels { size: i32::try_from(*size).unwrap_or(i32::MAX) },
        }
    }

    /// Sets the value of a row, which has none yet. Gives the bytes of text that were added.
    #[inline(always)]
    pub fn set(&mut self, row: usize, value: &Value<'_>, tag: bool, scratch: &mut Vec<u8>) -> Result<usize, Fault> {
        if self.rows() < row {
            self.resize(row);
        }
        let mut bytes = 0;
        match (&mut self.values, value) {
            (Values::Float(values), Value::Float(value)) => values.push(*value),
            (Values::Symbol(symbols), Value::Text(name)) => {
                let before = symbols.bytes.len();
                if !symbols.push(name.plain(!tag, scratch)) {
                    return Err(Fault::NotUtf8);
                }
                bytes = symbols.bytes.len() - before;
            }
            (Values::Int(values), Value::Int(value, _)) => values.push(*value),
            (Values::Time(values), Value::Time(value)) => values.push(*value),
            (Values::Bool(values), Value::Bool(value)) => values.push(*value),
            (Values::UInt(values), Value::UInt(value, _)) => values.push(*value),
            (Values::Text { .. }, Value::Text(name)) => bytes = self.set_text(name.plain(!tag, scratch))?,
            _ => bytes = self.set_other(value, scratch)?,
        }
        self.nulls.append_non_null();
        Ok(bytes)
    }

    /// A value of another type than the column's, or one that comes seldom.
    #[inline(never)]
    fn set_other(&mut self, value: &Value<'_>, scratch: &mut Vec<u8>) -> Result<usize, Fault> {
        let conflict = Err(Fault::Conflict(value.kind()));
        match (&mut self.values, value) {
            (Values::Float(values), Value::Int(value, _)) => match exact_float(value.unsigned_abs(), *value < 0) {
                Some(float) => values.push(float),
                None => return conflict,
            },
            (Values::Float(values), Value::UInt(value, _)) => match exact_float(*value, false) {
                Some(float) => values.push(float),
                None => return conflict,
            },
            (Values::Int(values), Value::Float(value)) => match exact_int(*value) {
                Some(int) => values.push(int),
                None => return conflict,
            },
            (Values::Int(values), Value::UInt(value, _)) => match i64::try_from(*value) {
                Ok(int) => values.push(int),
                Err(_) => return conflict,
            },
            (Values::UInt(values), Value::Int(value, _)) => match u64::try_from(*value) {
                Ok(int) => values.push(int),
                Err(_) => return conflict,
            },
            (Values::Text { .. }, Value::Id(text) | Value::Int(_, text) | Value::UInt(_, text)) => {
                return self.set_text(text);
            }
            (Values::Symbol(symbols), Value::Id(text) | Value::Int(_, text) | Value::UInt(_, text)) => {
                let before = symbols.bytes.len();
                scratch.clear();
                return if symbols.push(text) { Ok(symbols.bytes.len() - before) } else { Err(Fault::NotUtf8) };
            }
            (Values::Levels { size, items, valid }, Value::Levels(bytes)) => {
                let length = bytes.len() / 8;
                if length > *size {
                    return Err(Fault::Conflict("a longer array"));
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
    fn set_text(&mut self, text: &[u8]) -> Result<usize, Fault> {
        let Values::Text { ends, bytes } = &mut self.values else { return Ok(0) };
        if std::str::from_utf8(text).is_err() {
            return Err(Fault::NotUtf8);
        }
        // The batch's limit keeps the offset far below 31 bits.
        let end =
            i32::try_from(bytes.len() + text.len()).map_err(|_| Fault::Conflict("more text than a batch holds"))?;
        bytes.extend_from_slice(text);
        ends.push(end);
        Ok(text.len())
    }

    /// Cuts the column to a number of rows, or fills it with nulls up to it.
    #[cold]
    pub fn resize(&mut self, rows: usize) {
        let before = self.rows();
        match &mut self.values {
            Values::Float(values) => values.resize(rows, 0.0),
            Values::Int(values) | Values::Time(values) => values.resize(rows, 0),
            Values::UInt(values) => values.resize(rows, 0),
            Values::Bool(values) => values.resize(rows, false),
            Values::Symbol(symbols) => symbols.resize(rows),
            Values::Text { ends, bytes } => {
                let last = ends.get(rows.min(before)).copied().unwrap_or(0);
                ends.resize(rows + 1, last);
                bytes.truncate(usize::try_from(last).unwrap_or(0));
            }
            Values::Levels { size, items, valid } => {
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
            Values::Float(values) => Arc::new(Float64Array::new(std::mem::take(values).into(), nulls)),
            Values::Int(values) => Arc::new(Int64Array::new(std::mem::take(values).into(), nulls)),
            Values::UInt(values) => Arc::new(UInt64Array::new(std::mem::take(values).into(), nulls)),
            Values::Time(values) => times(std::mem::take(values), nulls),
            Values::Bool(values) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(std::mem::take(values).as_slice()), nulls))
            }
            Values::Symbol(symbols) => {
                let Symbols { codes, offsets, bytes, .. } = std::mem::replace(&mut **symbols, Symbols::new());
                let keys = Int32Array::new(codes.into(), nulls);
                let texts = strings(offsets, bytes, None);
                let array = DictionaryArray::try_new(keys, Arc::new(texts));
                // Codes come from `Symbols`, so there is no error; were there one, the column would be null.
                debug_assert!(array.is_ok(), "{array:?}");
                array.map_or_else(|_| new_null_array(&column_type.arrow(), rows), |array| Arc::new(array))
            }
            Values::Text { ends, bytes } => {
                Arc::new(strings(std::mem::replace(ends, vec![0]), std::mem::take(bytes), nulls))
            }
            Values::Levels { size, items, valid } => {
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

fn text() -> Values {
    Values::Text { ends: vec![0], bytes: Vec::new() }
}

fn levels(size: usize) -> Option<Values> {
    (1..=LEVELS_MAX).contains(&size).then(|| Values::Levels {
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
