//! Estimates how many bytes a batch will occupy in the columns of its table, without building them.
//!
//! A small batch can become large: a missing column becomes a value per row, and rows of a dictionary or of views
//! share texts that the table stores one by one. So a batch is measured before it is converted to its table's
//! columns.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use splay_store::TableSpec;

use crate::conform::is_text;

/// Bytes that rows take at least in memory and in files once they have the table's columns, nulls included.
pub(crate) fn bytes(spec: &TableSpec, rows: &RecordBatch) -> usize {
    let columns = spec.arrow();
    let fields_and_columns = rows.schema_ref().fields().iter().zip(rows.columns());
    let mut places = HashSet::new();
    let mut bytes = of_all_columns(spec, rows.num_rows());
    for (field, column) in fields_and_columns.filter(|(_, column)| is_text(column.data_type())) {
        let place = spec.position(field.name());
        let texts = place.filter(|place| *columns.field(*place).data_type() == DataType::Utf8 && places.insert(*place));
        bytes = bytes.saturating_add(texts.map_or(0, |_| self::texts(column)));
    }
    bytes
}

/// Bytes that rows take at least that have the table's columns.
pub(crate) fn of_rows(rows: &RecordBatch) -> usize {
    let columns = rows.columns().iter().map(|column| {
        let texts = if *column.data_type() == DataType::Utf8 { texts(column) } else { 0 };
        texts.saturating_add(rows.num_rows().saturating_mul(width(column.data_type())))
    });
    columns.fold(0, usize::saturating_add)
}

/// Bytes that so many rows take at least in the columns of a table, besides their texts.
pub(crate) fn of_all_columns(spec: &TableSpec, rows: usize) -> usize {
    let width = spec.columns.iter().map(|column| width(&column.column_type.arrow()));
    width.fold(0, usize::saturating_add).saturating_mul(rows)
}

/// Bytes of each row, besides its text.
fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8 | DataType::Dictionary(_, _) => 4,
        DataType::FixedSizeList(item, size) => {
            usize::try_from(*size).unwrap_or(0).saturating_mul(width(item.data_type()))
        }
        // Booleans take a bit; they are left out.
        other => other.primitive_width().unwrap_or(0),
    }
}

/// Bytes of the texts of all rows.
fn texts(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8 => span(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => span(column.as_string::<i64>().value_offsets()),
        DataType::Utf8View => {
            let lengths = column.as_string_view().lengths().enumerate().filter(|(row, _)| column.is_valid(*row));
            lengths.fold(0, |sum, (_, length)| sum.saturating_add(length as usize))
        }
        DataType::Dictionary(_, _) => of_dictionary(column),
        _ => 0,
    }
}

fn span<T: Copy + Into<i64>>(offsets: &[T]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    ends.map_or(0, |(first, last)| usize::try_from((*last).into() - (*first).into()).unwrap_or(0))
}

fn of_dictionary(column: &ArrayRef) -> usize {
    let dictionary = column.as_any_dictionary();
    let values = dictionary.values();
    if values.is_empty() {
        return 0;
    }
    let lengths: Vec<usize> = (0..values.len()).map(|place| texts(&values.slice(place, 1))).collect();
    let keys = dictionary.normalized_keys();
    let lengths = keys.iter().enumerate().filter(|(row, _)| column.is_valid(*row)).map(|(_, key)| lengths[*key]);
    lengths.fold(0, usize::saturating_add)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Int8Array, LargeStringArray, StringArray, StringViewArray, TimestampNanosecondArray,
    };
    use splay_store::{ColumnSpec, ColumnType};

    use super::*;

    /// Rows of two columns, in a table of these and more.
    fn measured(note: ArrayRef) -> usize {
        let column = |name: &str, column_type| ColumnSpec::new(name, column_type);
        let columns = vec![
            column("time", ColumnType::Timestamp),
            column("note", ColumnType::Text),
            column("sym", ColumnType::Symbol),
            column("bids", ColumnType::Levels { size: 10 }),
        ];
        let spec = TableSpec::new("t", columns, "time", None);
        let times = TimestampNanosecondArray::from(vec![1; note.len()]).with_timezone("UTC");
        let rows = RecordBatch::try_from_iter([("TIME", Arc::new(times) as ArrayRef), ("Note", note)]).unwrap();
        super::bytes(&spec, &rows) - rows.num_rows() * (8 + 4 + 4 + 80)
    }

    #[test]
    fn texts_count_as_often_as_they_are_used() {
        let texts = ["a", "", "four"];
        assert_eq!(measured(Arc::new(StringArray::from_iter_values(texts))), 5);
        assert_eq!(measured(Arc::new(StringArray::from_iter_values(texts).slice(1, 2))), 4);
        assert_eq!(measured(Arc::new(LargeStringArray::from_iter_values(texts))), 5);
        assert_eq!(measured(Arc::new(StringViewArray::from_iter_values(texts))), 5);
        let keys = Int8Array::from(vec![Some(2), Some(2), None, Some(0)]);
        let dictionary = DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(texts)));
        assert_eq!(measured(Arc::new(dictionary)), 9);
    }
}
