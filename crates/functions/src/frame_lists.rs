//! Lists and texts of all rows of each frame, made for all frames of a partition at once: the numbers of the rows first, then their values in one pass.

use std::sync::Arc;

use arrow::array::builder::GenericStringBuilder;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, OffsetSizeTrait, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;

/// Bytes that the number of a row takes.
const NUMBER_BYTES: usize = size_of::<u32>();

/// The form in which the values of a frame are returned.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ListResult {
    /// A list with such items.
    List(FieldRef),
    /// One text, with another one between the values.
    Text(String),
}

impl ListResult {
    /// Whether it is made of values of a type as a result of a type.
    pub fn gives(&self, values: &DataType, result: &DataType) -> bool {
        let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8);
        match (self, result) {
            (ListResult::List(item), DataType::List(of)) => item == of && item.data_type() == values,
            (ListResult::Text(_), of) => is_text(of) && is_text(values),
            _ => false,
        }
    }
}

/// The rows of some frames, one frame behind the other.
#[derive(Debug, Default)]
pub(super) struct FrameLists {
    rows: Vec<u32>,
    lengths: Vec<usize>,
}

impl FrameLists {
    /// Adds a frame with these rows, and says how many bytes its result takes.
    pub fn add(&mut self, gathered: &ListResult, values: &ArrayRef, rows: impl Iterator<Item = u32>) -> usize {
        let before = self.rows.len();
        self.rows.extend(rows);
        let own = &self.rows[before..];
        self.lengths.push(own.len());
        let bytes = |row: &u32| bytes_of(values, *row as usize);
        let between = match gathered {
            ListResult::List(_) => 0,
            ListResult::Text(separator) => separator.len() * own.len(),
        };
        own.iter().map(bytes).sum::<usize>() + own.len() * NUMBER_BYTES + between
    }

    /// The results, null of frames without rows.
    pub fn finish(self, gathered: ListResult, values: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
        let FrameLists { rows, lengths } = self;
        match gathered {
            ListResult::List(item) => {
                let values = take(values, &UInt32Array::from(rows), None)?;
                let nulls: NullBuffer = lengths.iter().map(|length| *length > 0).collect();
                Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, Some(nulls))?))
            }
            ListResult::Text(separator) => Ok(match (values.data_type(), result) {
                (DataType::Utf8, DataType::Utf8) => texts::<i32, i32>(&rows, &lengths, values, &separator),
                (DataType::Utf8, _) => texts::<i32, i64>(&rows, &lengths, values, &separator),
                (_, DataType::Utf8) => texts::<i64, i32>(&rows, &lengths, values, &separator),
                _ => texts::<i64, i64>(&rows, &lengths, values, &separator),
            }),
        }
    }
}

/// Bytes of a value.
fn bytes_of(values: &ArrayRef, row: usize) -> usize {
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value_length(row).unsigned_abs() as usize,
        DataType::LargeUtf8 => usize::try_from(values.as_string::<i64>().value_length(row)).unwrap_or(usize::MAX),
        other => other
            .primitive_width()
            .unwrap_or_else(|| values.slice(row, 1).to_data().get_slice_memory_size().unwrap_or(usize::MAX / 2)),
    }
}

/// Concatenates texts, each from a number of consecutive rows; null if from none.
fn texts<I: OffsetSizeTrait, O: OffsetSizeTrait>(
    rows: &[u32],
    lengths: &[usize],
    values: &ArrayRef,
    separator: &str,
) -> ArrayRef {
    let values = values.as_string::<I>();
    let mut all = GenericStringBuilder::<O>::with_capacity(lengths.len(), rows.len());
    let mut rest = rows;
    let mut text = String::new();
    for length in lengths {
        let (own, behind) = rest.split_at(*length);
        rest = behind;
        text.clear();
        for (place, row) in own.iter().enumerate() {
            if place > 0 {
                text.push_str(separator);
            }
            text.push_str(values.value(*row as usize));
        }
        all.append_option((!own.is_empty()).then_some(text.as_str()));
    }
    Arc::new(all.finish())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Int64Type};

    use super::*;

    #[test]
    fn frames_without_rows_are_null() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(4), None, Some(6)]));
        let list = ListResult::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        let mut lists = FrameLists::default();
        assert_eq!(lists.add(&list, &values, [2, 1].into_iter()), 24);
        assert_eq!(lists.add(&list, &values, std::iter::empty()), 0);
        lists.add(&list, &values, 0..1);
        let of = DataType::new_list(DataType::Int64, true);
        assert!(list.gives(values.data_type(), &of));
        let actual = lists.finish(list, &values, &of).unwrap();
        let actual = actual.as_list::<i32>();
        assert_eq!(actual.value(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(6), None]);
        assert!(actual.is_null(1));
        assert_eq!(actual.value(2).len(), 1);
    }

    #[test]
    fn separators_stand_between_texts() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "", "c"]));
        let text = ListResult::Text(", ".to_owned());
        let mut texts = FrameLists::default();
        assert_eq!(texts.add(&text, &values, 0..3), 2 + 3 * NUMBER_BYTES + 6);
        texts.add(&text, &values, std::iter::empty());
        texts.add(&text, &values, std::iter::once(1));
        let actual = texts.finish(text, &values, &DataType::LargeUtf8).unwrap();
        assert_eq!(actual.as_string::<i64>().iter().collect::<Vec<_>>(), [Some("a, , c"), None, Some("")]);
    }
}
