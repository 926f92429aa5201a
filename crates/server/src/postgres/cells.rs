//! Values of a column in PostgreSQL's text and binary formats.
//!
//! - Times are truncated to microseconds.
//! - A text with a zero byte can't be sent, because clients would cut it there.

use std::io::{Error, Result, Write};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::compute::{cast, kernels::arity::unary};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, DurationNanosecondType, Int64Type, IntervalUnit, Time64NanosecondType, TimeUnit,
    TimestampNanosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::encode::set_length;
use super::times::{self, MICROS_A_DAY};
use super::types::{self, Type};
use crate::counted_bytes::CountedBuffer;
use crate::problem::{Code, Outcome, Problem};

/// A column of one of the types that are written.
#[derive(Debug)]
pub(super) enum Cells {
    Null,
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Decimal(Decimal128Array),
    Decimal256(Decimal256Array),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp {
        values: TimestampMicrosecondArray,
        is_zoned: bool,
    },
    Interval(IntervalMonthDayNanoArray),
    /// Microseconds.
    Duration(Int64Array),
    Text(StringArray),
    Bytes(BinaryArray),
    List {
        lists: ArrayRef,
        ends: Vec<(usize, usize)>,
        items: Box<Cells>,
        item: u32,
    },
}

impl Cells {
    /// The values of a column, converted.
    pub(super) fn of(column: &ArrayRef) -> Outcome<Cells> {
        let cant = |error: arrow::error::ArrowError| {
            Problem::new(Code::Unsupported, format!("a column of {} can't be sent: {error}", column.data_type()))
        };
        let to = |data_type: DataType| cast(column, &data_type).map_err(cant);
        Ok(match column.data_type() {
            DataType::Null => Cells::Null,
            DataType::Boolean => Cells::Bool(column.as_boolean().clone()),
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => {
                Cells::Int2(to(DataType::Int16)?.as_primitive().clone())
            }
            DataType::UInt16 | DataType::Int32 => Cells::Int4(to(DataType::Int32)?.as_primitive().clone()),
            DataType::UInt32 | DataType::Int64 => Cells::Int8(to(DataType::Int64)?.as_primitive().clone()),
            DataType::UInt64 => Cells::Decimal(to(DataType::Decimal128(20, 0))?.as_primitive().clone()),
            DataType::Float16 | DataType::Float32 => Cells::Float4(to(DataType::Float32)?.as_primitive().clone()),
            DataType::Float64 => Cells::Float8(column.as_primitive().clone()),
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                Cells::Decimal(to(DataType::Decimal128(*precision, *scale))?.as_primitive().clone())
            }
            DataType::Decimal128(_, _) => Cells::Decimal(column.as_primitive().clone()),
            DataType::Decimal256(_, _) => Cells::Decimal256(column.as_primitive().clone()),
            DataType::Date32 | DataType::Date64 => Cells::Date(to(DataType::Date32)?.as_primitive().clone()),
            DataType::Time32(_) | DataType::Time64(_) => {
                let nanos = to(DataType::Time64(TimeUnit::Nanosecond))?;
                Cells::Time(unary(nanos.as_primitive::<Time64NanosecondType>(), |nanos| nanos.div_euclid(1000)))
            }
            DataType::Timestamp(unit, zone) => {
                let values = match unit {
                    TimeUnit::Nanosecond => {
                        unary(column.as_primitive::<TimestampNanosecondType>(), |nanos| nanos.div_euclid(1000))
                    }
                    _ => to(DataType::Timestamp(TimeUnit::Microsecond, None))?.as_primitive().clone(),
                };
                Cells::Timestamp { values, is_zoned: zone.is_some() }
            }
            DataType::Interval(_) => {
                Cells::Interval(to(DataType::Interval(IntervalUnit::MonthDayNano))?.as_primitive().clone())
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                let nanos = column.as_primitive::<DurationNanosecondType>();
                Cells::Duration(unary::<_, _, Int64Type>(nanos, |nanos| nanos.div_euclid(1000)))
            }
            DataType::Duration(_) => {
                let micros = to(DataType::Duration(TimeUnit::Microsecond))?;
                Cells::Duration(unary::<_, _, Int64Type>(micros.as_primitive::<DurationMicrosecondType>(), |micros| {
                    micros
                }))
            }
            DataType::Utf8 => Cells::Text(column.as_string().clone()),
            DataType::LargeUtf8 | DataType::Utf8View => Cells::Text(to(DataType::Utf8)?.as_string().clone()),
            DataType::Binary => Cells::Bytes(column.as_binary().clone()),
            DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Cells::Bytes(to(DataType::Binary)?.as_binary().clone())
            }
            DataType::Dictionary(_, values) => return Cells::of(&to(values.as_ref().clone())?),
            data_type => match types::item(data_type) {
                Some(item) => return Cells::of_lists(column, Type::of(item).oid),
                None => Cells::Text(nested_text(column).map_err(cant)?),
            },
        })
    }

    /// Lists with the items of these rows alone.
    fn of_lists(lists: &ArrayRef, item: u32) -> Outcome<Cells> {
        let ends = |offsets: &mut dyn Iterator<Item = (usize, usize)>| offsets.collect::<Vec<_>>();
        let (values, mut ends) = if let Some(list) = lists.as_list_opt::<i32>() {
            let pairs = list.value_offsets().windows(2);
            let at = |offset: i32| usize::try_from(offset).unwrap_or(0);
            (Arc::clone(list.values()), ends(&mut pairs.map(|pair| (at(pair[0]), at(pair[1])))))
        } else if let Some(list) = lists.as_list_opt::<i64>() {
            let pairs = list.value_offsets().windows(2);
            let at = |offset: i64| usize::try_from(offset).unwrap_or(0);
            (Arc::clone(list.values()), ends(&mut pairs.map(|pair| (at(pair[0]), at(pair[1])))))
        } else if let Some(list) = lists.as_fixed_size_list_opt() {
            let size = usize::try_from(list.value_length()).unwrap_or(0);
            (Arc::clone(list.values()), ends(&mut (0..list.len()).map(|row| (row * size, (row + 1) * size))))
        } else {
            return Err(Problem::new(Code::Internal, "a list is none"));
        };
        let first = ends.first().map_or(0, |(start, _)| *start);
        let last = ends.last().map_or(first, |(_, end)| *end);
        ends.iter_mut().for_each(|(start, end)| (*start, *end) = (*start - first, *end - first));
        let items = Box::new(Cells::of(&values.slice(first, last - first))?);
        Ok(Cells::List { lists: Arc::clone(lists), ends, items, item })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Cells::Null => true,
            Cells::Bool(values) => values.is_null(row),
            Cells::Int2(values) => values.is_null(row),
            Cells::Int4(values) => values.is_null(row),
            Cells::Int8(values) | Cells::Duration(values) => values.is_null(row),
            Cells::Float4(values) => values.is_null(row),
            Cells::Float8(values) => values.is_null(row),
            Cells::Decimal(values) => values.is_null(row),
            Cells::Decimal256(values) => values.is_null(row),
            Cells::Date(values) => values.is_null(row),
            Cells::Time(values) => values.is_null(row),
            Cells::Timestamp { values, .. } => values.is_null(row),
            Cells::Interval(values) => values.is_null(row),
            Cells::Text(values) => values.is_null(row),
            Cells::Bytes(values) => values.is_null(row),
            Cells::List { lists, .. } => lists.is_null(row),
        }
    }

    /// A value that isn't null as text.
    pub(super) fn write_text(&self, out: &mut CountedBuffer, row: usize) -> Result<()> {
        match self {
            Cells::Null => Ok(()),
            Cells::Bool(values) => out.write_all(if values.value(row) { b"t" } else { b"f" }),
            Cells::Int2(values) => write!(out, "{}", values.value(row)),
            Cells::Int4(values) => write!(out, "{}", values.value(row)),
            Cells::Int8(values) => write!(out, "{}", values.value(row)),
            Cells::Float4(values) => {
                let value = values.value(row);
                float(
                    out,
                    f64::from(value),
                    |out, plain| if plain { write!(out, "{value}") } else { write!(out, "{value:e}") },
                )
            }
            Cells::Float8(values) => {
                let value = values.value(row);
                float(out, value, |out, plain| if plain { write!(out, "{value}") } else { write!(out, "{value:e}") })
            }
            Cells::Decimal(values) => out.write_all(values.value_as_string(row).as_bytes()),
            Cells::Decimal256(values) => out.write_all(values.value_as_string(row).as_bytes()),
            Cells::Date(values) => times::write_date(out, i64::from(values.value(row))),
            Cells::Time(values) => times::write_time(out, values.value(row)),
            Cells::Timestamp { values, is_zoned } => {
                times::write_timestamp(out, values.value(row))?;
                out.write_all(if *is_zoned { b"+00" } else { b"" })
            }
            Cells::Interval(values) => {
                let value = values.value(row);
                times::write_interval(out, value.months, i64::from(value.days), value.nanoseconds.div_euclid(1000))
            }
            Cells::Duration(values) => times::write_interval(out, 0, 0, values.value(row)),
            Cells::Text(values) => out.write_all(whole(values.value(row))?.as_bytes()),
            Cells::Bytes(values) => {
                out.write_all(b"\\x")?;
                values.value(row).iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            Cells::List { ends, items, .. } => {
                let (start, end) = ends[row];
                write_array_text(out, items, start..end)
            }
        }
    }

    /// A value that isn't null in binary.
    pub(super) fn write_binary(&self, out: &mut CountedBuffer, row: usize) -> Result<()> {
        match self {
            Cells::Null => Ok(()),
            Cells::Bool(values) => out.write_all(&[u8::from(values.value(row))]),
            Cells::Int2(values) => out.write_all(&values.value(row).to_be_bytes()),
            Cells::Int4(values) => out.write_all(&values.value(row).to_be_bytes()),
            Cells::Int8(values) => out.write_all(&values.value(row).to_be_bytes()),
            Cells::Float4(values) => out.write_all(&values.value(row).to_be_bytes()),
            Cells::Float8(values) => out.write_all(&values.value(row).to_be_bytes()),
            Cells::Decimal(values) => write_numeric(out, &values.value_as_string(row)),
            Cells::Decimal256(values) => write_numeric(out, &values.value_as_string(row)),
            Cells::Date(values) => {
                let days = i64::from(values.value(row)) - times::DAYS_TO_2000;
                let days = i32::try_from(days).map_err(|_| Error::other("a date is out of PostgreSQL's range"))?;
                out.write_all(&days.to_be_bytes())
            }
            Cells::Time(values) => out.write_all(&values.value(row).to_be_bytes()),
            Cells::Timestamp { values, .. } => {
                let micros = values.value(row).checked_sub(times::DAYS_TO_2000 * MICROS_A_DAY);
                let micros = micros.ok_or_else(|| Error::other("a time is out of PostgreSQL's range"))?;
                out.write_all(&micros.to_be_bytes())
            }
            Cells::Interval(values) => {
                let value = values.value(row);
                write_interval(out, value.months, value.days, value.nanoseconds.div_euclid(1000))
            }
            Cells::Duration(values) => write_interval(out, 0, 0, values.value(row)),
            Cells::Text(values) => out.write_all(whole(values.value(row))?.as_bytes()),
            Cells::Bytes(values) => out.write_all(values.value(row)),
            Cells::List { ends, items, item, .. } => {
                let (start, end) = ends[row];
                write_array_binary(out, items, *item, start..end)
            }
        }
    }
}

/// Columns of structures, maps and lists of lists as text.
fn nested_text(column: &ArrayRef) -> std::result::Result<StringArray, arrow::error::ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let value = |row| if column.is_null(row) { Ok(None) } else { formatter.value(row).try_to_string().map(Some) };
    (0..column.len()).map(value).collect()
}

fn whole(text: &str) -> Result<&str> {
    if text.as_bytes().contains(&0) {
        return Err(Error::other("a text has a zero byte in it, which PostgreSQL's clients can't take"));
    }
    Ok(text)
}

/// The shortest digits that give the same float again, with an exponent where PostgreSQL has one.
fn float(
    out: &mut CountedBuffer,
    value: f64,
    write: impl FnOnce(&mut CountedBuffer, bool) -> Result<()>,
) -> Result<()> {
    if value.is_nan() {
        return out.write_all(b"NaN");
    }
    if value.is_infinite() {
        return out.write_all(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    write(out, value == 0.0 || (1e-5..1e16).contains(&value.abs()))
}

fn write_interval(out: &mut CountedBuffer, months: i32, days: i32, micros: i64) -> Result<()> {
    out.write_all(&micros.to_be_bytes())?;
    out.write_all(&days.to_be_bytes())?;
    out.write_all(&months.to_be_bytes())
}

/// A decimal in groups of four digits, as PostgreSQL's `numeric` is sent.
fn write_numeric(out: &mut CountedBuffer, text: &str) -> Result<()> {
    let (sign, digits) = text.strip_prefix('-').map_or((0u16, text), |digits| (0x4000, digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let (before, behind) = (whole.len().next_multiple_of(4), part.len().next_multiple_of(4));
    let padded = format!("{whole:0>before$}{part:0<behind$}");
    let mut groups: Vec<u16> = padded
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |number, digit| number * 10 + u16::from(digit.wrapping_sub(b'0'))))
        .collect();
    let mut weight = i64::try_from(whole.len().div_ceil(4)).unwrap_or(0) - 1;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight = if groups.is_empty() { 0 } else { weight - i64::try_from(zeros).unwrap_or(0) };
    let sign = if groups.is_empty() { 0 } else { sign };
    out.write_all(&u16::try_from(groups.len()).unwrap_or(0).to_be_bytes())?;
    out.write_all(&i16::try_from(weight).unwrap_or(0).to_be_bytes())?;
    out.write_all(&sign.to_be_bytes())?;
    out.write_all(&u16::try_from(part.len()).unwrap_or(0).to_be_bytes())?;
    groups.iter().try_for_each(|group| out.write_all(&group.to_be_bytes()))
}

/// `{1,2,NULL}`, with quotes around texts.
fn write_array_text(out: &mut CountedBuffer, items: &Cells, range: std::ops::Range<usize>) -> Result<()> {
    out.write_all(b"{")?;
    for (at, row) in range.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        if items.is_null(row) {
            out.write_all(b"NULL")?;
            continue;
        }
        match items {
            Cells::Text(values) => {
                let escaped = whole(values.value(row))?.replace('\\', "\\\\").replace('"', "\\\"");
                write!(out, "\"{escaped}\"")?;
            }
            Cells::Bytes(_) => {
                out.write_all(b"\"\\")?;
                items.write_text(out, row)?;
                out.write_all(b"\"")?;
            }
            Cells::Timestamp { .. } | Cells::Interval(_) | Cells::Duration(_) => {
                out.write_all(b"\"")?;
                items.write_text(out, row)?;
                out.write_all(b"\"")?;
            }
            _ => items.write_text(out, row)?,
        }
    }
    out.write_all(b"}")
}

fn write_array_binary(out: &mut CountedBuffer, items: &Cells, item: u32, range: std::ops::Range<usize>) -> Result<()> {
    let has_nulls = range.clone().any(|row| items.is_null(row));
    let count = i32::try_from(range.len()).map_err(|_| Error::other("a list is too long"))?;
    // An empty list has no dimension.
    out.write_all(&i32::from(count > 0).to_be_bytes())?;
    out.write_all(&i32::from(has_nulls).to_be_bytes())?;
    out.write_all(&item.to_be_bytes())?;
    if count > 0 {
        out.write_all(&count.to_be_bytes())?;
        out.write_all(&1i32.to_be_bytes())?;
    }
    for row in range {
        if items.is_null(row) {
            out.write_all(&[0xff; 4])?;
            continue;
        }
        let at = out.bytes_mut().len();
        out.write_all(&[0; 4])?;
        items.write_binary(out, row)?;
        set_length(out, at, 4)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "cells_tests.rs"]
mod tests;
