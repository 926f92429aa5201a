//! The bytes of a column's values as a tick database holds them in memory, which is what blocks of bytes are compressed from.
//!
//! - Numbers, times and fixed binaries: little-endian, one after the other. Booleans: a byte each.
//! - Texts: each followed by a zero byte. If one contains a zero byte or the column is binary: the lengths, 4 bytes each, then the bytes.
//! - A column with nulls: a bitmap behind that, a bit a row, set where there is a value. The values of null rows are zero.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::column::{Column, unsupported};
use crate::{Error, Result};

/// Bytes, and what is needed to read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainBytes {
    pub bytes: Vec<u8>,
    pub form: u8,
}

/// The form of a column with nulls.
const NULLS: u8 = 1;
/// The form of texts with lengths.
const LENGTHS: u8 = 2;

/// The bytes of a column.
///
/// # Errors
/// [`Error::Unsupported`] if a text is longer than 4 GiB.
pub fn of(column: &Column) -> Result<PlainBytes> {
    let values = column.values();
    let mut form = 0;
    let mut bytes = match values.data_type() {
        DataType::Boolean => booleans(values.as_boolean()),
        DataType::Utf8 | DataType::Binary => {
            let is_terminated = values.data_type() == &DataType::Utf8 && !has_zero(values);
            form |= if is_terminated { 0 } else { LENGTHS };
            texts(column, is_terminated)?
        }
        _ => fixed(values, width(column)?),
    };
    if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
        form |= NULLS;
        bytes.extend(bitmap(nulls));
    }
    Ok(PlainBytes { bytes, form })
}

/// A bit a row, set where there is a value.
pub fn bitmap(nulls: &NullBuffer) -> Vec<u8> {
    nulls.inner().sliced().as_slice()[..nulls.len().div_ceil(8)].to_vec()
}

/// The nulls that a bitmap stands for.
pub fn nulls(bitmap: Vec<u8>, rows: usize) -> Result<NullBuffer> {
    if bitmap.len() != rows.div_ceil(8) {
        return Err(Error::damaged(0, format!("{} bytes of null bits for {rows} rows", bitmap.len())));
    }
    Ok(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bitmap), 0, rows)))
}

fn booleans(values: &BooleanArray) -> Vec<u8> {
    (0..values.len()).map(|row| u8::from(values.is_valid(row) && values.value(row))).collect()
}

fn fixed(values: &ArrayRef, width: usize) -> Vec<u8> {
    let data = values.to_data();
    let start = data.offset() * width;
    let mut bytes = data.buffers()[0].as_slice()[start..start + data.len() * width].to_vec();
    if values.null_count() > 0 {
        for row in (0..values.len()).filter(|row| values.is_null(*row)) {
            bytes[row * width..][..width].fill(0);
        }
    }
    bytes
}

/// Bytes of a value of a fixed width.
pub fn width(column: &Column) -> Result<usize> {
    match column.data_type() {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
    .ok_or_else(|| unsupported("plain bytes", column, "its values have no fixed width"))
}

/// The text of each row, empty where there is none.
pub fn text_rows(values: &ArrayRef) -> Vec<&[u8]> {
    let row = |row: usize| match values.data_type() {
        _ if values.is_null(row) => &[],
        DataType::Utf8 => values.as_string::<i32>().value(row).as_bytes(),
        _ => values.as_binary::<i32>().value(row),
    };
    (0..values.len()).map(row).collect()
}

fn has_zero(values: &ArrayRef) -> bool {
    text_rows(values).iter().any(|text| text.contains(&0))
}

fn texts(column: &Column, is_terminated: bool) -> Result<Vec<u8>> {
    let rows = text_rows(column.values());
    let mut bytes = Vec::new();
    if is_terminated {
        for text in rows {
            bytes.extend_from_slice(text);
            bytes.push(0);
        }
        return Ok(bytes);
    }
    for text in &rows {
        let length =
            u32::try_from(text.len()).map_err(|_| unsupported("plain bytes", column, "a value is too long"))?;
        bytes.extend_from_slice(&length.to_le_bytes());
    }
    rows.iter().for_each(|text| bytes.extend_from_slice(text));
    Ok(bytes)
}

/// The values that bytes stand for.
///
/// # Errors
/// [`Error::Damaged`] if there are too few or too many bytes, or they are no values of the type.
pub fn to_values(plain: PlainBytes, rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let PlainBytes { mut bytes, form } = plain;
    let nulls = match form & NULLS {
        0 => None,
        _ => Some(nulls(split_off_end(&mut bytes, rows.div_ceil(8))?, rows)?),
    };
    match data_type {
        DataType::Boolean => to_booleans(&bytes, rows, nulls),
        DataType::Utf8 | DataType::Binary => {
            let texts = match form & LENGTHS {
                0 => terminated(&bytes, rows)?,
                _ => with_lengths(&bytes, rows)?,
            };
            of_texts(&texts, nulls, data_type)
        }
        _ => of_fixed(bytes, rows, nulls, data_type),
    }
}

fn split_off_end(bytes: &mut Vec<u8>, length: usize) -> Result<Vec<u8>> {
    let start = bytes.len().checked_sub(length);
    let start = start.ok_or_else(|| Error::damaged(0, "fewer bytes than the bits of its nulls"))?;
    Ok(bytes.split_off(start))
}

fn to_booleans(bytes: &[u8], rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    if bytes.len() != rows || bytes.iter().any(|byte| *byte > 1) {
        return Err(Error::damaged(0, format!("{} bytes are no {rows} booleans", bytes.len())));
    }
    let bits: BooleanBuffer = bytes.iter().map(|byte| *byte == 1).collect();
    Ok(Arc::new(BooleanArray::new(bits, nulls)))
}

/// An array of values of a fixed width.
pub fn of_fixed(bytes: Vec<u8>, rows: usize, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls).add_buffer(Buffer::from_vec(bytes));
    let data = data.align_buffers(true).build().map_err(|error| Error::damaged(0, error))?;
    Ok(make_array(data))
}

fn terminated(bytes: &[u8], rows: usize) -> Result<Vec<&[u8]>> {
    let Some(bytes) = bytes.strip_suffix(&[0]) else {
        return if rows == 0 && bytes.is_empty() {
            Ok(Vec::new())
        } else {
            Err(Error::damaged(0, "a text has no end"))
        };
    };
    let texts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    if texts.len() != rows {
        return Err(Error::damaged(0, format!("{} texts instead of {rows}", texts.len())));
    }
    Ok(texts)
}

fn with_lengths(bytes: &[u8], rows: usize) -> Result<Vec<&[u8]>> {
    let short = || Error::damaged(0, "texts are shorter than their lengths");
    let (lengths, mut rest) = rows.checked_mul(4).and_then(|at| bytes.split_at_checked(at)).ok_or_else(short)?;
    let mut texts = Vec::with_capacity(rows);
    for length in lengths.chunks_exact(4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let (text, behind) = rest.split_at_checked(length).ok_or_else(short)?;
        texts.push(text);
        rest = behind;
    }
    if rest.is_empty() { Ok(texts) } else { Err(Error::damaged(0, "texts are longer than their lengths")) }
}

/// An array of texts or binaries.
pub fn of_texts(texts: &[&[u8]], nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let mut offsets: Vec<i32> = Vec::with_capacity(texts.len() + 1);
    let mut end = 0_i32;
    offsets.push(0);
    for text in texts {
        let next = i32::try_from(text.len()).ok().and_then(|length| end.checked_add(length));
        end = next.ok_or_else(|| Error::damaged(0, "texts of more than 2 GiB"))?;
        offsets.push(end);
    }
    let data = ArrayData::builder(data_type.clone()).len(texts.len()).nulls(nulls);
    let data = data.add_buffer(Buffer::from_vec(offsets)).add_buffer(Buffer::from_vec(texts.concat()));
    Ok(make_array(data.build().map_err(|error| Error::damaged(0, error))?))
}
