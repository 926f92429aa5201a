//! Batches as bytes, and back: the journal's encoding of rows.
//!
//! - Columns follow each other in the order of the table; the table's layout gives their types.
//! - A dictionary is written with only the texts that its rows use, so one row of a table of many symbols stays
//!   small.
//! - A column of only nulls is a mark; a column of mostly nulls is written as its values alone.
//! - The decoder trusts nothing: it checks lengths before it allocates, and builds arrays with full validation.
//!
//! Bytes: docs/format/journal.md.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, Int32Type};
use splay_store::TableSpec;

use crate::conform::used_texts;
use crate::error::Result;
use crate::nulls::NullColumns;
use crate::size_estimate;

/// Most bytes of a batch's rows, encoded or in memory.
pub(crate) const ROWS_BYTES_MAX: usize = 1 << 30;

/// All rows have a value.
const ALL: u8 = 0;
/// A bitmap says which rows have a value; there is a place for each row.
const BITMAP: u8 = 1;
/// No row has a value; nothing follows.
const NONE: u8 = 2;
/// A bitmap says which rows have a value; there is a place for each of these.
const FEW: u8 = 3;

/// Why bytes are no rows.
pub(crate) type DecodeFault = &'static str;

/// Appends rows that have the columns of their table.
pub(crate) fn encode(rows: &RecordBatch, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&u32::try_from(rows.num_rows()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(rows.num_columns()).unwrap_or(u32::MAX).to_le_bytes());
    for column in rows.columns() {
        encode_column(column, bytes);
    }
}

fn encode_column(column: &ArrayRef, bytes: &mut Vec<u8>) {
    let Some(nulls) = column.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        bytes.push(ALL);
        return encode_values(column, bytes);
    };
    if nulls.null_count() == column.len() {
        return bytes.push(NONE);
    }
    let values = (nulls.null_count() > column.len() / 2)
        .then(|| filter(column, &BooleanArray::new(nulls.inner().clone(), None)).ok())
        .flatten();
    bytes.push(if values.is_some() { FEW } else { BITMAP });
    put(bytes, nulls.inner().sliced().as_slice(), column.len());
    encode_values(values.as_ref().unwrap_or(column), bytes);
}

/// A place for each row, whether it has a value or not.
fn encode_values(column: &ArrayRef, bytes: &mut Vec<u8>) {
    match column.data_type() {
        DataType::Boolean => put(bytes, column.as_boolean().values().sliced().as_slice(), column.len()),
        DataType::Utf8 => {
            let column = column.as_string::<i32>();
            put_texts(bytes, (0..column.len()).map(|row| if column.is_valid(row) { column.value(row) } else { "" }));
        }
        DataType::Dictionary(_, _) => {
            let (texts, codes) = used_texts(column);
            bytes.extend_from_slice(&u32::try_from(texts.len()).unwrap_or(u32::MAX).to_le_bytes());
            put_texts(bytes, texts.iter().copied());
            bytes.extend(codes.iter().flat_map(|code| code.to_le_bytes()));
        }
        DataType::FixedSizeList(_, size) => {
            let list = column.as_fixed_size_list();
            let size = usize::try_from(*size).unwrap_or(0);
            encode_column(&list.values().slice(list.offset() * size, list.len() * size), bytes);
        }
        _ => {
            let data = column.to_data();
            let width = data.data_type().primitive_width().unwrap_or(0);
            let start = data.offset() * width;
            bytes.extend_from_slice(&data.buffers()[0][start..start + data.len() * width]);
        }
    }
}

/// A bit for each row; those behind the last row are 0, so that equal rows are equal bytes. The buffer may be shorter than that only if
/// it is empty.
fn put(bytes: &mut Vec<u8>, bits: &[u8], rows: usize) {
    bytes.extend_from_slice(&bits[..rows.div_ceil(8).min(bits.len())]);
    if let Some(last) = bytes.last_mut().filter(|_| !rows.is_multiple_of(8) && !bits.is_empty()) {
        *last &= (1 << (rows % 8)) - 1;
    }
}

fn put_texts<'a>(bytes: &mut Vec<u8>, texts: impl Iterator<Item = &'a str>) {
    for text in texts {
        bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
}

/// How many rows encoded bytes say that they hold.
pub(crate) fn rows(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |rows| u64::from(u32::from_le_bytes(*rows)))
}

/// Reads rows of a table. A table that was given columns since has more of them than the rows; those are left out.
pub(crate) fn decode(spec: &TableSpec, bytes: &[u8]) -> Result<RecordBatch, DecodeFault> {
    let mut cursor = EncodedRows { bytes, nulls: None };
    let (rows, columns) = (cursor.number()?, cursor.number()?);
    let schema = spec.arrow();
    if columns != schema.fields().len() {
        return Err("another number of columns");
    }
    // Each row has its time: that column is never null.
    if rows > bytes.len() / 8 {
        return Err("more rows than bytes");
    }
    // Nulls take no bytes here, but they do in memory.
    if size_estimate::of_all_columns(spec, rows) > ROWS_BYTES_MAX {
        return Err("more values than a batch may have");
    }
    cursor.nulls = Some(NullColumns::new(rows));
    let mut arrays = Vec::with_capacity(columns);
    for field in schema.fields() {
        arrays.push(make_array(cursor.column(field.data_type(), rows)?));
    }
    if !cursor.bytes.is_empty() {
        return Err("bytes behind the last column");
    }
    RecordBatch::try_new(schema, arrays).map_err(|_| "nulls where there may be none")
}

struct EncodedRows<'a> {
    bytes: &'a [u8],
    /// Columns without a value, for the number of rows that the batch has.
    nulls: Option<NullColumns>,
}

impl<'a> EncodedRows<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeFault> {
        if length > self.bytes.len() {
            return Err("the end of the rows");
        }
        let (head, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(head)
    }

    fn number(&mut self) -> Result<usize, DecodeFault> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }

    fn column(&mut self, data_type: &DataType, rows: usize) -> Result<ArrayData, DecodeFault> {
        match self.take(1)?[0] {
            ALL => self.values(data_type, rows, None),
            BITMAP => {
                let nulls = NullBuffer::new(self.bits(rows)?);
                self.values(data_type, rows, Some(nulls))
            }
            NONE => Ok(match &mut self.nulls {
                Some(nulls) if nulls.rows() == rows => nulls.of(data_type).to_data(),
                _ => ArrayData::new_null(data_type, rows),
            }),
            FEW => {
                let valid = self.bits(rows)?;
                let count = valid.count_set_bits();
                if count == 0 {
                    return Err("a column without values that says it has some");
                }
                let values = make_array(self.values(data_type, count, None)?);
                spread(&values, valid)
            }
            _ => Err("a mark from 0 to 3"),
        }
    }

    fn values(
        &mut self,
        data_type: &DataType,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayData, DecodeFault> {
        let builder = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
        let builder = match data_type {
            DataType::Boolean => builder.add_buffer(self.bits(rows)?.into_inner()),
            DataType::Utf8 => {
                let (offsets, texts) = self.texts(rows)?;
                builder.add_buffer(offsets).add_buffer(texts)
            }
            DataType::Dictionary(_, _) => {
                let used = self.number()?;
                let (offsets, texts) = self.texts(used)?;
                let values = ArrayData::builder(DataType::Utf8).len(used).add_buffer(offsets).add_buffer(texts);
                let values = values.build().map_err(|_| "texts that aren't UTF-8")?;
                let codes = aligned(self.take(length(rows, 4)?)?);
                builder.add_buffer(codes).add_child_data(values)
            }
            DataType::FixedSizeList(item, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                builder.add_child_data(self.column(item.data_type(), length(rows, size)?)?)
            }
            other => {
                let width = other.primitive_width().ok_or("a type that the journal doesn't hold")?;
                builder.add_buffer(aligned(self.take(length(rows, width)?)?))
            }
        };
        builder.build().map_err(|_| "values that their type doesn't have")
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer, DecodeFault> {
        Ok(BooleanBuffer::new(aligned(self.take(rows.div_ceil(8))?), 0, rows))
    }

    /// Offsets and bytes of texts.
    fn texts(&mut self, count: usize) -> Result<(Buffer, Buffer), DecodeFault> {
        // Each text has its length in front.
        if length(count, 4)? > self.bytes.len() {
            return Err("the end of the rows");
        }
        let mut offsets: Vec<i32> = Vec::with_capacity(count + 1);
        let mut texts = Vec::new();
        offsets.push(0);
        for _ in 0..count {
            let length = self.number()?;
            texts.extend_from_slice(self.take(length)?);
            offsets.push(i32::try_from(texts.len()).map_err(|_| "texts of more than 2 GiB")?);
        }
        Ok((Buffer::from_vec(offsets), Buffer::from_vec(texts)))
    }
}

/// Values in the places of the rows that have one, of which there are as many; the others are null.
fn spread(values: &ArrayRef, valid: BooleanBuffer) -> Result<ArrayData, DecodeFault> {
    let mut next = 0;
    let places: Vec<u32> = valid
        .iter()
        .map(|is_there| {
            let place = next;
            next += u32::from(is_there);
            if is_there { place } else { 0 }
        })
        .collect();
    let places = UInt32Array::new(places.into(), Some(NullBuffer::new(valid)));
    take(values, &places, None).map(|column| column.to_data()).map_err(|_| "values that can't be put in their places")
}

fn length(rows: usize, width: usize) -> Result<usize, DecodeFault> {
    rows.checked_mul(width).ok_or("more bytes than there can be")
}

/// Bytes where an array may begin.
fn aligned(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::new(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}

/// Rows in their smallest form: dictionaries without texts that no row uses.
pub(crate) fn compact(rows: &RecordBatch) -> RecordBatch {
    let is_wide = |column: &ArrayRef| {
        column.as_any_dictionary_opt().is_some_and(|dictionary| dictionary.values().len() > 2 * column.len() + 16)
    };
    if !rows.columns().iter().any(is_wide) {
        return rows.clone();
    }
    let columns = rows.columns().iter().map(|column| {
        if !is_wide(column) {
            return Arc::clone(column);
        }
        let (texts, codes) = used_texts(column);
        let keys: arrow::array::Int32Array = codes
            .iter()
            .enumerate()
            .map(|(row, code)| column.is_valid(row).then(|| i32::try_from(*code).unwrap_or(i32::MAX)))
            .collect();
        let texts = arrow::array::StringArray::from_iter_values(texts);
        Arc::new(arrow::array::DictionaryArray::<Int32Type>::new(keys, Arc::new(texts))) as ArrayRef
    });
    // The columns are those it had.
    RecordBatch::try_new(rows.schema(), columns.collect()).unwrap_or_else(|_| rows.clone())
}

/// The same rows in memory of their own, not in slices of mapped files.
pub(crate) fn owned(rows: &RecordBatch) -> Result<RecordBatch> {
    let rows = compact(rows);
    let columns = rows.columns().iter().map(|column| Ok(make_array(owned_data(&column.to_data())?)));
    Ok(RecordBatch::try_new(rows.schema(), columns.collect::<Result<_>>()?)?)
}

fn owned_data(data: &ArrayData) -> Result<ArrayData> {
    let copied = |buffer: &Buffer| Buffer::from(buffer.as_slice());
    let nulls = data
        .nulls()
        .map(|nulls| NullBuffer::new(BooleanBuffer::new(copied(nulls.buffer()), nulls.offset(), nulls.len())));
    let children = data.child_data().iter().map(owned_data).collect::<Result<_>>()?;
    let builder = ArrayData::builder(data.data_type().clone()).len(data.len()).offset(data.offset()).nulls(nulls);
    Ok(builder.buffers(data.buffers().iter().map(copied).collect()).child_data(children).build()?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, StringArray, TimestampNanosecondArray,
    };
    use splay_store::{ColumnSpec, ColumnType};

    fn spec() -> TableSpec {
        let column = |name: &str, column_type| ColumnSpec::new(name, column_type);
        TableSpec::new(
            "t",
            vec![
                column("time", ColumnType::Timestamp),
                column("sym", ColumnType::Symbol),
                column("price", ColumnType::Float64),
                column("note", ColumnType::Text),
                column("odd", ColumnType::Bool),
                column("bids", ColumnType::Levels { size: 2 }),
            ],
            "time",
            Some("sym"),
        )
    }

    /// Bits behind the last row were written as they stood in memory, and came back otherwise.
    #[test]
    fn bits_behind_the_last_row_are_zero() {
        let values = BooleanBuffer::new(Buffer::from_vec(vec![0xff_u8]), 0, 3);
        let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(vec![0b1111_1011_u8]), 0, 3));
        let mut bytes = Vec::new();
        encode_column(&(Arc::new(BooleanArray::new(values, Some(nulls))) as ArrayRef), &mut bytes);
        assert_eq!(bytes, [BITMAP, 0b011, 0b111]);
    }

    fn rows() -> RecordBatch {
        let item = Arc::new(arrow::datatypes::Field::new("item", DataType::Float64, true));
        let levels = Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(4.0), Some(5.0), Some(f64::NAN)]);
        RecordBatch::try_new(
            spec().arrow(),
            vec![
                Arc::new(TimestampNanosecondArray::from(vec![3, i64::MIN, i64::MAX]).with_timezone("UTC")),
                Arc::new([Some("IBM"), None, Some("")].into_iter().collect::<DictionaryArray<Int32Type>>()),
                Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::INFINITY)])),
                Arc::new(StringArray::from(vec![None, Some("ä"), Some("")])),
                Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
                Arc::new(FixedSizeListArray::new(item, 2, Arc::new(levels), None)),
            ],
        )
        .unwrap()
    }

    #[test]
    fn rows_come_back_as_they_were_also_from_a_slice() {
        for (start, length) in [(0, 3), (1, 2), (2, 1), (1, 0)] {
            let rows = rows().slice(start, length);
            let mut bytes = Vec::new();
            encode(&rows, &mut bytes);
            let back = decode(&spec(), &bytes).unwrap();
            let text = |rows: RecordBatch| arrow::util::pretty::pretty_format_batches(&[rows]).unwrap().to_string();
            assert_eq!(text(back), text(rows), "{start} {length}");
        }
    }

    /// A thousand rows of which each has its own column took a megabyte for each eight kilobytes of values.
    #[test]
    fn nulls_take_no_room_and_come_back() {
        let texts = ["IBM", "", "ä"];
        for valid in
            [vec![], vec![7], vec![0, 999], (0..500).collect(), (0..501).collect(), (0..1000).collect::<Vec<usize>>()]
        {
            let is_there = |row: usize| valid.binary_search(&row).is_ok();
            let number = |row: usize| is_there(row).then_some(row as f64);
            let text = |row: usize| is_there(row).then(|| texts[row % 3]);
            let item = Arc::new(arrow::datatypes::Field::new("item", DataType::Float64, true));
            let levels: Float64Array = (0..2000).map(|at| (at % 3 > 0).then_some(at as f64)).collect();
            let nulls = NullBuffer::from((0..1000).map(is_there).collect::<Vec<bool>>());
            let rows = RecordBatch::try_new(
                spec().arrow(),
                vec![
                    Arc::new(TimestampNanosecondArray::from_iter_values(0..1000).with_timezone("UTC")),
                    Arc::new((0..1000).map(text).collect::<DictionaryArray<Int32Type>>()),
                    Arc::new((0..1000).map(number).collect::<Float64Array>()),
                    Arc::new((0..1000).map(text).collect::<StringArray>()),
                    Arc::new((0..1000).map(|row| is_there(row).then_some(row % 2 == 0)).collect::<BooleanArray>()),
                    Arc::new(FixedSizeListArray::new(item, 2, Arc::new(levels), Some(nulls))),
                ],
            )
            .unwrap();
            for rows in [rows.clone(), rows.slice(3, 900)] {
                let mut bytes = Vec::new();
                encode(&rows, &mut bytes);
                let back = decode(&spec(), &bytes).unwrap();
                let shown = |rows: &RecordBatch| {
                    arrow::util::pretty::pretty_format_batches(&[rows.clone()]).unwrap().to_string()
                };
                assert_eq!(shown(&back), shown(&rows));
                let columns = bytes.len() - 8 * rows.num_rows();
                assert!(columns < 1_000 + 80 * valid.len(), "{columns} bytes for {} values", valid.len());
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut bytes = Vec::new();
        encode(&rows(), &mut bytes);
        for end in 0..bytes.len() {
            assert!(decode(&spec(), &bytes[..end]).is_err());
        }
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let _ = decode(&spec(), &damaged);
            }
        }
    }
}
