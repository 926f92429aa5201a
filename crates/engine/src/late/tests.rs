//! Late columns have the same values as others, whatever steps do with them.

use arrow::array::{BooleanArray, DictionaryArray, Int64Array, StringArray};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;

use super::*;
use crate::frame::Frame;

/// A step over the rows of a frame.
#[derive(Debug, Clone)]
enum Step {
    Keep(Vec<bool>),
    Take(Vec<usize>),
    Slice(usize, usize),
    /// Looks at the column with a number.
    Look(usize),
    /// Puts copies one behind the other.
    Join(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        prop::collection::vec(any::<bool>(), 1..200).prop_map(Step::Keep),
        prop::collection::vec(any::<usize>(), 0..300).prop_map(Step::Take),
        (any::<usize>(), any::<usize>()).prop_map(|(start, rows)| Step::Slice(start, rows)),
        (0..3usize).prop_map(Step::Look),
        (1..5usize).prop_map(Step::Join),
    ];
    prop::collection::vec(step, 0..8)
}

fn columns(from: i64, rows: i64) -> Vec<ArrayRef> {
    let text = |row: i64| (row % 5 > 0).then(|| ["N", "Q", "Z", "A"][usize::try_from(row % 4).unwrap()]);
    vec![
        Arc::new((from..from + rows).map(|row| (row % 7 > 0).then_some(row)).collect::<Int64Array>()),
        // Each frame has a dictionary of its own.
        Arc::new((from..from + rows).map(text).collect::<DictionaryArray<Int32Type>>()),
        Arc::new((from..from + rows).map(text).collect::<StringArray>()),
    ]
}

fn frame(from: i64, rows: i64, are_late: bool) -> Frame {
    let rows_of = usize::try_from(rows).unwrap();
    let all = Arc::new(RowChoice::all(rows_of).unwrap());
    let column = |values: ArrayRef| match are_late {
        true => FrameColumn::Late(LateColumn::of_part(ColumnPart::Mapped(values), &all)),
        false => FrameColumn::Array(values),
    };
    Frame::of(columns(from, rows).into_iter().map(column).collect(), rows_of)
}

fn after(frame: Frame, step: &Step) -> Frame {
    let rows = frame.len();
    match step {
        Step::Keep(bits) => {
            let mask: BooleanArray = (0..rows).map(|row| Some(bits[row % bits.len()])).collect();
            frame.filter_mask(FilterMask::new(mask)).unwrap()
        }
        Step::Take(_) if rows == 0 => frame,
        Step::Take(places) => {
            let places = places.iter().map(|place| u32::try_from(place % rows).unwrap());
            frame.take(&places.collect::<Vec<u32>>().into()).unwrap()
        }
        Step::Slice(start, length) => {
            let start = start % (rows + 1);
            frame.slice(start, length % (rows - start + 1))
        }
        Step::Look(column) => {
            frame.columns()[*column].values().unwrap();
            frame
        }
        Step::Join(copies) => {
            let types: Vec<DataType> = frame.types().cloned().collect();
            Frame::concat(vec![frame; *copies], &types).unwrap()
        }
    }
}

fn texts(frame: Frame) -> Vec<ArrayRef> {
    let plain = |column: ArrayRef| match column.data_type() {
        DataType::Dictionary(_, of) => arrow::compute::cast(&column, of).unwrap(),
        _ => column,
    };
    frame.into_columns().unwrap().into_iter().map(plain).collect()
}

proptest! {
    #[test]
    fn late_columns_have_the_values_of_others(parts in prop::collection::vec((1..150i64, prop::bool::weighted(0.7)), 1..6), steps in steps()) {
        let frames = |are_late: bool| {
            let begins = parts.iter().scan(0, |next, (rows, _)| Some(std::mem::replace(next, *next + rows)));
            let frames = begins.zip(&parts).map(|(from, (rows, may_be_late))| frame(from, *rows, are_late && *may_be_late));
            let all = frames.collect::<Vec<_>>();
            let types: Vec<DataType> = all[0].types().cloned().collect();
            Frame::concat(all, &types).unwrap()
        };
        let (mut late, mut made) = (frames(true), frames(false));
        for step in &steps {
            (late, made) = (after(late, step), after(made, step));
            prop_assert_eq!(late.len(), made.len());
        }
        prop_assert_eq!(texts(late), texts(made));
    }
}

#[test]
fn values_are_taken_out_once_and_slices_are_not_copied() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let all = Arc::new(RowChoice::all(100).unwrap());
    let column = FrameColumn::Late(LateColumn::of_part(ColumnPart::Mapped(Arc::clone(&values)), &all));
    assert!(!column.is_to_be_copied());
    assert!(Arc::ptr_eq(&column.values().unwrap(), &values));
    let late_column = Choices::default().take(&column, &UInt32Array::from(vec![7, 3])).unwrap();
    assert!(late_column.is_to_be_copied() && late_column.memory_arrays().len() == 1);
    let first = late_column.values().unwrap();
    assert!(!late_column.is_to_be_copied());
    assert!(Arc::ptr_eq(&first, &late_column.clone().values().unwrap()));
}
