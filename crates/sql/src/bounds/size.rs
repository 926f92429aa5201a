//! Bytes of a slice of an array: the size of a copy of its values.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Bytes of one text or byte string; 0 for a null and for other types.
pub(super) fn text_length(array: &dyn Array, row: usize) -> u64 {
    if array.is_null(row) {
        return 0;
    }
    let length = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value_length(row).unsigned_abs() as usize,
        DataType::LargeUtf8 => usize::try_from(array.as_string::<i64>().value_length(row)).unwrap_or(0),
        DataType::Utf8View => array.as_string_view().value(row).len(),
        DataType::Binary => array.as_binary::<i32>().value_length(row).unsigned_abs() as usize,
        DataType::LargeBinary => usize::try_from(array.as_binary::<i64>().value_length(row)).unwrap_or(0),
        DataType::BinaryView => array.as_binary_view().value(row).len(),
        DataType::Dictionary(_, _) => return texts(array, row..row + 1),
        _ => 0,
    };
    length as u64
}

/// The elements of the lists in a range of rows; `None` if the array has no lists.
pub(super) fn elements(array: &dyn Array, rows: Range<usize>) -> Option<(ArrayRef, Range<usize>)> {
    let place = |from: usize, to: usize| from..to;
    Some(match array.data_type() {
        DataType::List(_) => {
            let (list, at) = (array.as_list::<i32>(), |row: usize| array.as_list::<i32>().value_offsets()[row]);
            (Arc::clone(list.values()), place(index(at(rows.start)), index(at(rows.end))))
        }
        DataType::LargeList(_) => {
            let (list, at) = (array.as_list::<i64>(), |row: usize| array.as_list::<i64>().value_offsets()[row]);
            (Arc::clone(list.values()), place(index(at(rows.start)), index(at(rows.end))))
        }
        DataType::FixedSizeList(_, _) => {
            let list = array.as_fixed_size_list();
            let length = index(list.value_length());
            (Arc::clone(list.values()), place(rows.start * length, rows.end * length))
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let at = |row: usize| index(map.value_offsets()[row]);
            (Arc::new(map.entries().clone()), place(at(rows.start), at(rows.end)))
        }
        _ => return None,
    })
}

fn index(offset: impl TryInto<usize>) -> usize {
    offset.try_into().unwrap_or(0)
}

/// Bytes that a copy of a range of rows takes.
pub(super) fn span_bytes(array: &dyn Array, rows: Range<usize>) -> u64 {
    let count = rows.len() as u64;
    if let Some((values, range)) = elements(array, rows.clone()) {
        return count * 4 + span_bytes(&values, range);
    }
    match array.data_type() {
        DataType::Utf8 | DataType::Binary => count * 4 + texts(array, rows),
        DataType::LargeUtf8 | DataType::LargeBinary => count * 8 + texts(array, rows),
        DataType::Utf8View | DataType::BinaryView => count * 16 + texts(array, rows),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| span_bytes(column, rows.clone())).sum::<u64>()
        }
        // Copied by their keys or as the values: the larger.
        DataType::Dictionary(_, _) => count * 8 + texts(array, rows),
        DataType::Boolean | DataType::Null => count,
        DataType::FixedSizeBinary(width) => count * u64::from(width.unsigned_abs()),
        other => match other.primitive_width() {
            Some(width) => count * width as u64,
            None => array.get_array_memory_size() as u64,
        },
    }
}

/// Like [`span_bytes`], but counts only the keys of a dictionary and the views of a view array: a join that takes rows copies nothing else.
pub(crate) fn repeated_bytes(array: &dyn Array, rows: Range<usize>) -> u64 {
    match array.data_type() {
        DataType::Dictionary(key, _) => rows.len() as u64 * key.primitive_width().unwrap_or(8) as u64,
        DataType::Utf8View | DataType::BinaryView => rows.len() as u64 * 16,
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| repeated_bytes(column, rows.clone())).sum()
        }
        _ => span_bytes(array, rows),
    }
}

/// Bytes of the widest row of a batch when it is written out, or more: of each column the longest value.
#[must_use]
pub fn widest_row_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(longest_value).sum()
}

fn longest_value(column: &ArrayRef) -> u64 {
    let longest = |lengths: &mut dyn Iterator<Item = u64>| lengths.max().unwrap_or(0);
    match column.data_type() {
        DataType::Dictionary(_, _) => longest_value(column.as_any_dictionary().values()),
        DataType::Utf8 => {
            let offsets = column.as_string::<i32>().value_offsets().windows(2);
            longest(&mut offsets.map(|pair| u64::from(pair[1].abs_diff(pair[0]))))
        }
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            longest(&mut (0..column.len()).map(|row| text_length(column, row)))
        }
        DataType::Boolean | DataType::Null => 1,
        DataType::FixedSizeList(_, length) => {
            u64::from(length.unsigned_abs()) * longest_value(column.as_fixed_size_list().values())
        }
        other => match other.primitive_width() {
            Some(width) => width as u64,
            None => longest(&mut (0..column.len()).map(|row| span_bytes(column, row..row + 1))),
        },
    }
}

fn texts(array: &dyn Array, rows: Range<usize>) -> u64 {
    match array.data_type() {
        DataType::Utf8 => u64::from(span(array.as_string::<i32>().value_offsets(), &rows)),
        DataType::Binary => u64::from(span(array.as_binary::<i32>().value_offsets(), &rows)),
        DataType::Dictionary(_, _) => {
            let part = array.slice(rows.start, rows.len());
            let dictionary = part.as_any_dictionary();
            let values = dictionary.values();
            if values.is_empty() {
                return 0;
            }
            dictionary.normalized_keys().into_iter().map(|key| text_length(values, key)).sum()
        }
        _ => rows.map(|row| text_length(array, row)).sum(),
    }
}

fn span(offsets: &[i32], rows: &Range<usize>) -> u32 {
    offsets[rows.end].abs_diff(offsets[rows.start])
}
