//! Lists as rows: repeats each row as often as its longest list has values.
//!
//! The row numbers are computed first, and each column is gathered once. Rows whose lists are all empty or null are
//! dropped; shorter lists are filled with nulls.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::frame::Frame;
use crate::frame_steps::{in_blocks, over_frames};
use crate::late::FrameColumn;
use crate::row_count::RowCount;

/// Approximate size of a value in bytes.
const VALUE_BYTES: usize = 16;

/// Repeats the rows of frames, with the values of the lists of some columns in place of the lists.
pub(crate) fn unnest(input: Vec<Frame>, columns: &[usize], context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let bytes = |data_type: &DataType| item(data_type).unwrap_or(data_type).primitive_width().unwrap_or(VALUE_BYTES);
    let row_bytes = input.first().map_or(0, |frame| frame.types().map(bytes).sum());
    let rows = RowCount::new(row_bytes, context.memory_bytes / 2);
    over_frames(in_blocks(&input), context, |frame| unnest_frame(&frame, columns, &rows))
}

/// The type of a list's values.
#[must_use]
pub fn item(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item.data_type()),
        _ => None,
    }
}

fn unnest_frame(frame: &Frame, columns: &[usize], count: &RowCount) -> Result<Frame> {
    let lists = columns.iter().map(|column| ColumnLists::of(&frame.columns()[*column])).collect::<Result<Vec<_>>>()?;
    let length = |row: usize| lists.iter().map(|list| list.places[row].len()).max().unwrap_or(0);
    let lengths: Vec<usize> = (0..frame.len()).map(length).collect();
    let rows = lengths.iter().fold(0usize, |rows, length| rows.saturating_add(*length));
    count.add(rows)?;
    let mut of_rows: Vec<u32> = Vec::with_capacity(rows);
    for (row, length) in (0u32..).zip(&lengths) {
        of_rows.resize(of_rows.len() + length, row);
    }
    // Lists aren't repeated.
    let others = frame.columns().iter().enumerate().filter(|(place, _)| !columns.contains(place));
    let others = Frame::of(others.map(|(_, column)| column.clone()).collect(), frame.len());
    let mut others = others.take(&of_rows.into())?.columns().to_vec().into_iter();
    let mut values = Vec::with_capacity(lists.len());
    for list in &lists {
        values.push(list.spread(&lengths, rows)?);
    }
    let place = |column: usize| match columns.iter().position(|list| *list == column) {
        Some(list) => Some(FrameColumn::Array(Arc::clone(&values[list]))),
        None => others.next(),
    };
    Ok(Frame::of((0..frame.columns().len()).filter_map(place).collect(), rows))
}

/// The lists of a column.
struct ColumnLists {
    values: ArrayRef,
    /// The range of each row's values; empty for null.
    places: Vec<Range<usize>>,
}

impl ColumnLists {
    fn of(column: &FrameColumn) -> Result<ColumnLists> {
        fn of_offsets<O: OffsetSizeTrait>(array: &ArrayRef) -> ColumnLists {
            let lists = array.as_list::<O>();
            let places = lists.value_offsets().windows(2).map(|ends| ends[0].as_usize()..ends[1].as_usize());
            ColumnLists { values: Arc::clone(lists.values()), places: places.collect() }
        }
        let array = column.values()?;
        let mut lists = match array.data_type() {
            DataType::List(_) => of_offsets::<i32>(&array),
            DataType::LargeList(_) => of_offsets::<i64>(&array),
            DataType::FixedSizeList(_, length) => {
                let (lists, length) = (array.as_fixed_size_list(), usize::try_from(*length).unwrap_or(0));
                // Values of a slice begin with its first list.
                let places = (0..array.len()).map(|row| row * length..(row + 1) * length).collect();
                ColumnLists { values: Arc::clone(lists.values()), places }
            }
            other => return Err(Error::Unsupported(format!("the rows of a {other}"))),
        };
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            lists.places.iter_mut().zip(nulls).filter(|(_, is_valid)| !is_valid).for_each(|(place, _)| *place = 0..0);
        }
        Ok(lists)
    }

    /// The values, as many for each row as `lengths` says; null beyond the end of its list.
    fn spread(&self, lengths: &[usize], rows: usize) -> Result<ArrayRef> {
        let follow = self.places.windows(2).all(|pair| pair[0].end == pair[1].start);
        let are_all = self.places.iter().zip(lengths).all(|(place, length)| place.len() == *length);
        if let (true, true, Some(first)) = (follow, are_all, self.places.first()) {
            return Ok(self.values.slice(first.start, rows));
        }
        let mut places: Vec<Option<u32>> = Vec::with_capacity(rows);
        for (place, length) in self.places.iter().zip(lengths) {
            let end = places.len() + length;
            places.extend(place.clone().map(|value| u32::try_from(value).ok()));
            places.resize(end, None);
        }
        Ok(take(&self.values, &UInt32Array::from(places), None)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{FixedSizeListArray, Int64Array, ListArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    type Row = (Option<Vec<Option<i64>>>, Option<[i64; 2]>);

    fn row() -> impl Strategy<Value = Row> {
        let list = prop::collection::vec(prop::option::weighted(0.8, 0i64..9), 0..4);
        (prop::option::weighted(0.8, list), prop::option::weighted(0.8, prop::array::uniform2(0i64..9)))
    }

    proptest! {
        #[test]
        fn rows_come_as_often_as_their_longest_list(rows in prop::collection::vec(row(), 0..30), skipped in 0usize..5) {
            let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(|row| row.0.clone()));
            let pairs = rows.iter().map(|row| row.1.map(|pair| pair.map(Some).to_vec()));
            let pairs = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(pairs, 2);
            let numbers: Int64Array = (0i64..).take(rows.len()).map(Some).collect();
            let frame = Frame::new(vec![Arc::new(lists), Arc::new(numbers), Arc::new(pairs)], rows.len());
            // A part of it, whose values don't begin where the arrays do.
            let skipped = skipped.min(rows.len());
            let frame = frame.slice(skipped, rows.len() - skipped);
            for columns in [&[0][..], &[2], &[0, 2]] {
                let spread_rows = unnest_frame(&frame, columns, &RowCount::new(8, usize::MAX)).unwrap();
                let mut expected = Vec::new();
                for (number, (list, pair)) in (0i64..).zip(&rows).skip(skipped) {
                    let list = list.clone().unwrap_or_default();
                    let pair: Vec<Option<i64>> = pair.map_or(Vec::new(), |pair| pair.map(Some).to_vec());
                    let has = |column: usize, length: usize| if columns.contains(&column) { length } else { 0 };
                    for place in 0..has(0, list.len()).max(has(2, pair.len())) {
                        let of = |values: &[Option<i64>]| values.get(place).copied().flatten();
                        expected.push((of(&list), number, of(&pair)));
                    }
                }
                prop_assert_eq!(spread_rows.len(), expected.len());
                let arrays = spread_rows.into_columns().unwrap();
                let numbers = arrays[1].as_primitive::<Int64Type>();
                prop_assert!(numbers.values().iter().eq(expected.iter().map(|row| &row.1)));
                for column in columns {
                    let values = arrays[*column].as_primitive::<Int64Type>();
                    let own = expected.iter().map(|row| if *column == 0 { row.0 } else { row.2 });
                    prop_assert!(values.iter().eq(own), "{columns:?} {column}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let frame = Frame::new(vec![Arc::new(Int64Array::from(vec![1]))], 1);
        assert!(unnest_frame(&frame, &[0], &RowCount::new(8, 100)).is_err());
    }
}
