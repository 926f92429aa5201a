//! Converts one value of a line to the type of its column. A value that the column can't hold exactly is refused, not
//! rounded, except for floats, where a text means the nearest float.

use std::borrow::Cow;

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{ArrowNativeTypeOp, Date32Type, Decimal128Type, DecimalType, Time64NanosecondType};
use splay_store::ColumnType;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextCell<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Decimal(i128),
    Text(Cow<'a, str>),
    Levels(Vec<Option<f64>>),
}

/// How many of a unit are a second, for times that are written as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeUnit {
    /// Nanoseconds since the epoch.
    #[default]
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl std::str::FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeUnit, String> {
        match text {
            "ns" => Ok(TimeUnit::Nanoseconds),
            "us" => Ok(TimeUnit::Microseconds),
            "ms" => Ok(TimeUnit::Milliseconds),
            "s" => Ok(TimeUnit::Seconds),
            _ => Err(format!("{text:?} is no unit of time; there are ns, us, ms, s")),
        }
    }
}

impl std::fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["ns", "us", "ms", "s"][usize::try_from(self.digits() / 3).unwrap_or(0)])
    }
}

impl TimeUnit {
    /// Decimal digits between the unit and nanoseconds.
    fn digits(self) -> u32 {
        match self {
            TimeUnit::Nanoseconds => 0,
            TimeUnit::Microseconds => 3,
            TimeUnit::Milliseconds => 6,
            TimeUnit::Seconds => 9,
        }
    }
}

/// A text as a value of a column's type.
///
/// # Errors
/// What the text isn't.
pub(super) fn of_text<'a>(
    text: Cow<'a, str>,
    column_type: &ColumnType,
    unit: TimeUnit,
) -> Result<TextCell<'a>, String> {
    let isnt = || format!("{:?} is no {column_type}", shown(&text));
    let whole = |least: i64, greatest: i64| {
        let number = text.parse().ok().filter(|number| (least..=greatest).contains(number));
        number.map(TextCell::Int).ok_or_else(isnt)
    };
    let positive =
        |greatest: u64| text.parse().ok().filter(|number| *number <= greatest).map(TextCell::UInt).ok_or_else(isnt);
    match column_type {
        ColumnType::Bool => match &*text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(TextCell::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(TextCell::Bool(false)),
            _ => Err(isnt()),
        },
        ColumnType::Int8 => whole(i8::MIN.into(), i8::MAX.into()),
        ColumnType::Int16 => whole(i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => whole(i32::MIN.into(), i32::MAX.into()),
        ColumnType::Int64 => whole(i64::MIN, i64::MAX),
        ColumnType::UInt8 => positive(u8::MAX.into()),
        ColumnType::UInt16 => positive(u16::MAX.into()),
        ColumnType::UInt32 => positive(u32::MAX.into()),
        ColumnType::UInt64 => positive(u64::MAX),
        ColumnType::Float32 => text.parse::<f32>().map(|number| TextCell::Float(number.into())).map_err(|_| isnt()),
        ColumnType::Float64 => fast_float2::parse(text.as_bytes()).map(TextCell::Float).map_err(|_| isnt()),
        ColumnType::Decimal { precision, scale } => {
            decimal(&text, *precision, *scale).map(TextCell::Decimal).ok_or_else(isnt)
        }
        ColumnType::Date => Date32Type::parse(&text).map(|days| TextCell::Int(days.into())).ok_or_else(isnt),
        ColumnType::Time => Time64NanosecondType::parse(&text).map(TextCell::Int).ok_or_else(isnt),
        ColumnType::Timestamp => instant(&text, unit).map(TextCell::Int).ok_or_else(isnt),
        ColumnType::Symbol | ColumnType::Text => Ok(TextCell::Text(text)),
        ColumnType::Levels { size } => {
            let items: Vec<Option<f64>> = serde_json::from_str(&text).map_err(|_| isnt())?;
            levels(items, *size)
        }
    }
}

/// Levels of a row; fewer than the column has are filled up with nulls.
pub(super) fn levels(mut items: Vec<Option<f64>>, size: i32) -> Result<TextCell<'static>, String> {
    let size = usize::try_from(size).unwrap_or(0);
    if items.len() > size {
        return Err(format!("{} levels are more than {size}", items.len()));
    }
    items.resize(size, None);
    Ok(TextCell::Levels(items))
}

/// An instant in nanoseconds: a number in the unit, or a date and time, in UTC unless it says otherwise.
fn instant(text: &str, unit: TimeUnit) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return decimal(text, 38, i8::try_from(unit.digits()).ok()?).and_then(|at| i64::try_from(at).ok());
    }
    let utc: Tz = "UTC".parse().ok()?;
    string_to_datetime(&utc, text).ok()?.timestamp_nanos_opt()
}

/// A decimal number, scaled; none if it has more digits than the column.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let scale_digits = usize::try_from(scale).ok()?;
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // Zeros at the end say nothing.
    let fraction = fraction.trim_end_matches('0');
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && !digits.contains('.')) || digits == "." || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    if fraction.len() > scale_digits {
        return None;
    }
    let mut value: i128 = 0;
    let zeros = std::iter::repeat_n(b'0', scale_digits - fraction.len());
    for digit in whole.bytes().chain(fraction.bytes()).chain(zeros) {
        value = value.mul_checked(10).ok()?.add_checked((digit - b'0').into()).ok()?;
    }
    Decimal128Type::is_valid_decimal_precision(value, precision).then_some(if is_negative { -value } else { value })
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
