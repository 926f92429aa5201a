//! Columns as whole numbers of 64 bits, and back.
//!
//! - Integers, times and booleans are their values.
//! - Floats are decimal: x = n / 10^k, if one k of at most 9 gives each value back bit for bit. Otherwise their bits are taken as a number, as
//!   with NaN, infinities and negative zero.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use std::sync::Arc;

use super::column::{Column, unsupported};
use super::plain_bytes;
use crate::{Error, Result};

/// How numbers stand for values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumericForm {
    /// The values, or the bits of floats.
    Bits,
    /// Floats times a power of ten.
    Decimal(u8),
}

/// More digits behind the point are not looked for.
const DIGITS_MAX: u8 = 9;
/// The largest number of which each smaller one is a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

impl NumericForm {
    /// The code of the form in files.
    pub fn byte(self) -> u8 {
        match self {
            NumericForm::Bits => u8::MAX,
            NumericForm::Decimal(digits) => digits,
        }
    }

    /// From a byte.
    pub fn from_byte(byte: u8) -> Result<NumericForm> {
        match byte {
            u8::MAX => Ok(NumericForm::Bits),
            0..=DIGITS_MAX => Ok(NumericForm::Decimal(byte)),
            _ => Err(Error::damaged(0, format!("{byte} digits behind the point"))),
        }
    }
}

/// Bytes of a value, and whether it has a sign.
pub fn layout(data_type: &DataType) -> Option<(usize, bool)> {
    use DataType::{
        Boolean, Date32, Date64, Duration, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Time32, Time64,
        Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    Some(match data_type {
        Boolean | UInt8 => (1, false),
        UInt16 | Float16 => (2, false),
        UInt32 | Float32 => (4, false),
        UInt64 | Float64 => (8, false),
        Int8 => (1, true),
        Int16 => (2, true),
        Int32 | Date32 | Time32(_) => (4, true),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => (8, true),
        _ => return None,
    })
}

/// The numbers of a column; those of null rows repeat the number before.
///
/// # Errors
/// [`Error::Unsupported`] for texts, binaries and decimals.
pub fn of(column: &Column) -> Result<(Vec<i64>, NumericForm)> {
    let values = column.values();
    let refused = || unsupported("numbers", column, "its values are no numbers of at most 64 bits");
    let (width, is_signed) = layout(column.data_type()).ok_or_else(refused)?;
    let mut numbers = match decimals(column) {
        Some((numbers, digits)) => (numbers, NumericForm::Decimal(digits)),
        None => {
            let mut bytes = plain_bytes::of(column)?.bytes;
            bytes.truncate(width * column.rows());
            (bytes.chunks_exact(width).map(|value| number(value, is_signed)).collect(), NumericForm::Bits)
        }
    };
    repeat_at_nulls(&mut numbers.0, values);
    Ok(numbers)
}

/// Puts the number of the row before where there is no value.
fn repeat_at_nulls(numbers: &mut [i64], values: &ArrayRef) {
    if values.null_count() > 0 {
        let mut last = 0;
        for (row, number) in numbers.iter_mut().enumerate() {
            if values.is_null(row) {
                *number = last;
            }
            last = *number;
        }
    }
}

/// The number in at most eight bytes.
pub fn number(value: &[u8], is_signed: bool) -> i64 {
    let sign = if is_signed && value.last().is_some_and(|byte| *byte > 127) { 255 } else { 0 };
    let mut bytes = [sign; 8];
    bytes[..value.len()].copy_from_slice(value);
    i64::from_le_bytes(bytes)
}

/// Floats as decimal numbers with the fewest digits behind the point that are exact for all.
pub fn decimals(column: &Column) -> Option<(Vec<i64>, u8)> {
    let values = column.values();
    match values.data_type() {
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>();
            scaled(
                floats.len(),
                |row| floats.is_valid(row).then(|| floats.value(row)),
                |x, y| x.to_bits() == y.to_bits(),
            )
        }
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>();
            let value = |row| floats.is_valid(row).then(|| f64::from(floats.value(row)));
            #[expect(clippy::cast_possible_truncation, reason = "that is how it is read back")]
            scaled(floats.len(), value, |x, y| (x as f32).to_bits() == (y as f32).to_bits())
        }
        _ => None,
    }
}

fn scaled(
    rows: usize,
    value: impl Fn(usize) -> Option<f64>,
    is_same: impl Fn(f64, f64) -> bool,
) -> Option<(Vec<i64>, u8)> {
    let mut digits = 0;
    let mut row = 0;
    // Digits that the rows before need are enough for them with more digits, too, unless rounding says otherwise: then all rows are
    // looked at anew below.
    while row < rows {
        match value(row) {
            Some(x) if decimal(x, digits).is_none_or(|n| !is_same(undecimal(n, digits), x)) => {
                digits += 1;
                if digits > DIGITS_MAX {
                    return None;
                }
            }
            _ => row += 1,
        }
    }
    let number = |row| match value(row) {
        None => Some(0),
        Some(x) => decimal(x, digits).filter(|n| is_same(undecimal(*n, digits), x)),
    };
    Some(((0..rows).map(number).collect::<Option<Vec<i64>>>()?, digits))
}

#[expect(clippy::cast_possible_truncation, reason = "its range was looked at")]
fn decimal(x: f64, digits: u8) -> Option<i64> {
    let number = (x * 10_f64.powi(i32::from(digits))).round();
    (number.abs() < EXACT_MAX).then_some(number as i64)
}

#[expect(clippy::cast_precision_loss, reason = "numbers are below 2^53, or damaged")]
fn undecimal(number: i64, digits: u8) -> f64 {
    number as f64 / 10_f64.powi(i32::from(digits))
}

/// The values that numbers stand for.
///
/// # Errors
/// [`Error::Damaged`] for a number beyond the type.
pub fn to_values(numbers: &[i64], form: NumericForm, data_type: &DataType) -> Result<ArrayRef> {
    let refused = || Error::damaged(0, format!("numbers stand for no {data_type}"));
    let (width, is_signed) = layout(data_type).ok_or_else(refused)?;
    let bytes: Vec<u8> = match (form, data_type) {
        (NumericForm::Decimal(digits), DataType::Float64) => {
            numbers.iter().flat_map(|n| undecimal(*n, digits).to_le_bytes()).collect()
        }
        #[expect(clippy::cast_possible_truncation, reason = "that is how it was checked")]
        (NumericForm::Decimal(digits), DataType::Float32) => {
            numbers.iter().flat_map(|n| (undecimal(*n, digits) as f32).to_le_bytes()).collect()
        }
        (NumericForm::Decimal(_), _) => return Err(refused()),
        (NumericForm::Bits, DataType::Boolean) => {
            if numbers.iter().any(|number| !(0..=1).contains(number)) {
                return Err(Error::damaged(0, "a number stands for no boolean"));
            }
            return Ok(Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| Some(*number == 1)))));
        }
        (NumericForm::Bits, _) => narrow(numbers, width, is_signed).ok_or_else(refused)?,
    };
    plain_bytes::of_fixed(bytes, numbers.len(), None, data_type)
}

fn narrow(numbers: &[i64], width: usize, is_signed: bool) -> Option<Vec<u8>> {
    if width == 8 {
        return Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
    }
    let mut bytes = Vec::with_capacity(numbers.len() * width);
    for value in numbers {
        let low_bytes = &value.to_le_bytes()[..width];
        if number(low_bytes, is_signed) != *value {
            return None;
        }
        bytes.extend_from_slice(low_bytes);
    }
    Some(bytes)
}
