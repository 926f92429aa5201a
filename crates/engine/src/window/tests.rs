//! Frames that are worked on one by one give what all rows together do.

use arrow::array::{
    Array, AsArray, DictionaryArray, Float64Array, Int64Array, IntervalMonthDayNanoArray, TimestampNanosecondArray,
};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type, IntervalMonthDayNano};
use proptest::prelude::*;

use super::*;
use crate::reads::Reads;
use crate::stop::Stop;

/// Numbers of the rows, each with the sum of all values before it: what a function sees of a whole partition.
#[derive(Debug)]
struct SumsBefore;

impl PartitionFunction for SumsBefore {
    fn call(&self, arguments: &[ArrayRef], rows: usize, _peers: &[Range<usize>]) -> Result<ArrayRef> {
        let values = arguments[0].as_primitive::<Int64Type>();
        let sums = (0..rows).scan(0, |sum: &mut i64, row| {
            let before = *sum;
            *sum += if values.is_valid(row) { values.value(row) } else { 0 };
            Some(before * 1000 + i64::try_from(row).unwrap())
        });
        Ok(Arc::new(sums.collect::<Int64Array>()))
    }
}

fn column(position: usize) -> Expr {
    Expr::Column(position)
}

fn call(function: WindowFunction, argument: usize, data_type: DataType, by: &[usize], order: &[usize]) -> WindowCall {
    let key = |position: &usize| SortKey { expr: column(*position), descending: false, nulls_first: false };
    WindowCall {
        function,
        arguments: vec![column(argument)],
        partition_by: by.iter().map(|position| column(*position)).collect(),
        order_by: order.iter().map(key).collect(),
        data_type,
        first: None,
    }
}

const SYMBOL: usize = 0;
const TIME: usize = 1;
const FLOAT: usize = 2;
const WHOLE: usize = 3;
const WITH_NULLS: usize = 4;

/// Numbers of the groups of peers, from 1.
#[derive(Debug)]
struct PeerNumbers;

impl PartitionFunction for PeerNumbers {
    fn call(&self, _arguments: &[ArrayRef], _rows: usize, peers: &[Range<usize>]) -> Result<ArrayRef> {
        let numbers = (1..).zip(peers).flat_map(|(number, peers)| std::iter::repeat_n(number, peers.len()));
        Ok(Arc::new(numbers.collect::<Int64Array>()))
    }

    fn needs_peers(&self) -> bool {
        true
    }
}

fn frames_of_all_kinds() -> Vec<WindowFrame> {
    let distance = |by: i64, preceding| {
        let by = IntervalMonthDayNano { months: 0, days: 0, nanoseconds: by };
        FrameBound::Distance { by: Arc::new(IntervalMonthDayNanoArray::from(vec![by])), preceding }
    };
    let rows = |start, end| WindowFrame { start: FrameBound::Rows(start), end: FrameBound::Rows(end) };
    vec![
        WindowFrame::WHOLE,
        WindowFrame::RUNNING,
        rows(0, 0),
        rows(-3, 0),
        rows(-40, 0),
        rows(-90, 0),
        rows(-5, -2),
        rows(-2, 3),
        rows(1, 4),
        WindowFrame { start: FrameBound::Rows(-1), end: FrameBound::Unbounded },
        WindowFrame { start: FrameBound::Unbounded, end: FrameBound::Peers(0) },
        WindowFrame { start: FrameBound::Peers(-1), end: FrameBound::Peers(1) },
        WindowFrame { start: FrameBound::Peers(0), end: FrameBound::Unbounded },
        WindowFrame { start: distance(4, true), end: FrameBound::Peers(0) },
        WindowFrame { start: distance(9, true), end: distance(3, true) },
        WindowFrame { start: distance(1, false), end: distance(7, false) },
    ]
}

fn calls(by: &[usize]) -> Vec<WindowCall> {
    let mut calls = Vec::new();
    for function in [
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Average,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Variance { sample: true },
    ] {
        for frame in frames_of_all_kinds() {
            for argument in [FLOAT, WHOLE, WITH_NULLS] {
                let is_float = argument != WHOLE;
                let data_type = match function.clone() {
                    AggregateFunction::Average | AggregateFunction::Variance { .. } if !is_float => continue,
                    AggregateFunction::Count => DataType::Int64,
                    _ if is_float => DataType::Float64,
                    _ => DataType::Int64,
                };
                let function = WindowFunction::Frame(FrameFunction::Aggregate(function.clone()), frame.clone());
                calls.push(call(function, argument, data_type, by, &[TIME]));
            }
        }
    }
    for (nth, ignore_nulls) in [(1, false), (-1, false), (1, true), (-1, true), (3, true), (-2, false)] {
        for frame in frames_of_all_kinds() {
            let function = WindowFunction::Frame(FrameFunction::Value { nth, ignore_nulls }, frame);
            calls.push(call(function, WITH_NULLS, DataType::Float64, by, &[TIME]));
        }
    }
    calls.push(call(WindowFunction::Partition(Arc::new(SumsBefore)), WHOLE, DataType::Int64, by, &[TIME]));
    calls.push(call(WindowFunction::Partition(Arc::new(SumsBefore)), WHOLE, DataType::Int64, by, &[TIME, WHOLE]));
    calls.push(call(WindowFunction::Partition(Arc::new(PeerNumbers)), WHOLE, DataType::Int64, by, &[TIME]));
    calls
}

type Row = (Option<&'static str>, i64, f64, i64, Option<f64>);

fn frame(rows: &[Row]) -> Frame {
    let columns: Vec<ArrayRef> = vec![
        // A dictionary of its own for each frame.
        Arc::new(rows.iter().map(|row| row.0).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<TimestampNanosecondArray>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.3)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.4).collect::<Float64Array>()),
    ];
    Frame::new(columns, rows.len())
}

fn check(rows: &[Row], cuts: &[usize], by: &[usize], is_in_order: bool) {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).collect();
    ends.push(rows.len());
    ends.sort_unstable();
    let mut start = 0;
    let frames: Vec<Frame> =
        ends.into_iter().map(|end| frame(&rows[std::mem::replace(&mut start, end)..end])).collect();
    let context = ExecutionContext {
        tables: &[],
        files: &[],
        constants: &[],
        threads: 2,
        memory_bytes: usize::MAX,
        stop: Stop::default(),
        reads: Reads::default(),
    };
    let all = frame(rows);
    for call in calls(by) {
        let one = std::slice::from_ref(&call);
        let Some(mut actual) = in_order(&frames, one, &context).unwrap() else {
            let several_keys = call.order_by.len() > 1;
            assert!(!is_in_order || several_keys, "{call:?}");
            continue;
        };
        let types = [call.data_type.clone()];
        let columns = actual.remove(0).into_iter().map(|column| Frame::new(vec![column.clone()], column.len()));
        let actual = Frame::concat(columns.collect(), &types).unwrap().into_columns().unwrap().remove(0);
        let expected = in_sorted_order(&all, one, &context).unwrap().remove(0);
        assert_eq!(actual.len(), expected.len());
        match call.data_type {
            DataType::Float64 => {
                for (one, other) in
                    actual.as_primitive::<Float64Type>().iter().zip(expected.as_primitive::<Float64Type>())
                {
                    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * (1.0 + other.abs());
                    assert!(one.is_some() == other.is_some(), "{call:?}: {actual:?} for {expected:?}");
                    assert!(
                        one.zip(other).is_none_or(|(one, other)| near(one, other)),
                        "{call:?}: {actual:?} for {expected:?}"
                    );
                }
            }
            _ => assert_eq!(&actual, &expected, "{call:?}"),
        }
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let symbol = prop::sample::select(vec![Some("A"), Some("B"), Some("C"), Some("D"), None]);
    let row = (symbol, 0..30i64, -9.0..9.0f64, -5..5i64, prop::option::weighted(0.8, -9.0..9.0f64));
    prop::collection::vec(row, 0..120)
}

#[test]
fn an_end_of_a_partition_is_the_value_of_its_frames() {
    let value = |number: u8| (number % 3 > 0).then_some(f64::from(number));
    let rows: Vec<Row> =
        [1, 1, 2, 5, 5, 5, 9].into_iter().zip(0..).map(|(time, n)| (None, time, 0.0, 0, value(n))).collect();
    let columns = frame(&rows).into_columns().unwrap();
    let (values, times) = (ArrayRef::clone(&columns[WITH_NULLS]), ArrayRef::clone(&columns[TIME]));
    let partitions = [0..3, 3..rows.len()];
    for nth in [1, -1] {
        for frame in frames_of_all_kinds() {
            let value = FrameFunction::Value { nth, ignore_nulls: false };
            let order = SortColumn { values: ArrayRef::clone(&times), options: None };
            let arguments = [ArrayRef::clone(&values)];
            let expected = framed(&value, &frame, &arguments, &[order], &partitions, &DataType::Float64).unwrap();
            let call = call(WindowFunction::Frame(value, frame), WITH_NULLS, DataType::Float64, &[], &[TIME]);
            let inputs = [&values, &times].map(ArrayRef::clone);
            let actual = call.values(&inputs[..call.inputs().count()], &partitions, Stop::default()).unwrap();
            assert_eq!(&actual, &expected, "{call:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn frames_one_by_one_give_what_all_rows_do(
        mut rows in rows(),
        cuts in prop::collection::vec(0..121usize, 0..7),
    ) {
        // As they came: mostly not in order.
        check(&rows, &cuts, &[SYMBOL], false);
        rows.sort_by_key(|row| (row.0, row.1));
        check(&rows, &cuts, &[SYMBOL], true);
        check(&rows, &cuts, &[SYMBOL, TIME], true);
        // As of three dates, each by symbol.
        rows.sort_by_key(|row| (row.1 / 10, row.0, row.1));
        check(&rows, &cuts, &[SYMBOL], true);
        rows.sort_by_key(|row| row.1);
        check(&rows, &cuts, &[], true);
        check(&rows, &cuts, &[SYMBOL], false);
    }
}

/// What a frame holds, by its definition.
fn naive(frame: &WindowFrame, keys: &[Option<i64>], row: usize) -> Vec<usize> {
    let rows = keys.len();
    let mut groups: Vec<Option<i64>> = keys.to_vec();
    groups.dedup();
    let group = |row: usize| i64::try_from(groups.iter().position(|key| *key == keys[row]).unwrap()).unwrap();
    let place = |row: usize| i64::try_from(row).unwrap();
    // Nulls come first, and are as far from everything as can be.
    let key = |row: usize| keys[row].map_or(i64::MIN, |key| key);
    let reached = |row: usize, by: &ArrayRef, preceding: bool| {
        let by = by.as_primitive::<Int64Type>().value(0);
        keys[row].map_or(i64::MIN, |key| if preceding { key - by } else { key + by })
    };
    let begins = |other: usize| match &frame.start {
        FrameBound::Unbounded => true,
        FrameBound::Rows(by) => place(other) >= place(row) + by,
        FrameBound::Peers(by) => group(other) >= group(row) + by,
        FrameBound::Distance { by, preceding } => key(other) >= reached(row, by, *preceding),
    };
    let ends = |other: usize| match &frame.end {
        FrameBound::Unbounded => true,
        FrameBound::Rows(by) => place(other) <= place(row) + by,
        FrameBound::Peers(by) => group(other) <= group(row) + by,
        FrameBound::Distance { by, preceding } => key(other) <= reached(row, by, *preceding),
    };
    (0..rows).filter(|other| begins(*other) && ends(*other)).collect()
}

fn bounds() -> impl Strategy<Value = WindowFrame> {
    let distance = |by: i64| FrameBound::Distance { by: Arc::new(Int64Array::from(vec![by.abs()])), preceding: by < 0 };
    let bound = move |kind: u8, by: i64| match kind {
        0 => FrameBound::Unbounded,
        1 => FrameBound::Rows(by),
        2 => FrameBound::Peers(by),
        _ => distance(by),
    };
    // Neither bound is of a kind that the other could lie behind.
    (0..4u8, 0..4u8, -9..9i64, -9..9i64).prop_filter_map("a frame with an end", move |(one, other, first, last)| {
        let is_sound = one == 0 || other == 0 || (one == other && first <= last);
        is_sound.then(|| WindowFrame { start: bound(one, first), end: bound(other, last) })
    })
}

proptest! {
    #[test]
    fn frames_hold_the_rows_of_their_definition(
        mut keys in prop::collection::vec(prop::option::weighted(0.9, -20..20i64), 1..50),
        values in prop::collection::vec(prop::option::weighted(0.8, -900..900i64), 50),
        frame in bounds(),
    ) {
        keys.sort_unstable();
        let values = &values[..keys.len()];
        let rows = keys.len();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(values.to_vec())),
            Arc::new(Int64Array::from(keys.clone())),
            Arc::new(values.iter().map(|value| value.map(|value| value as f64)).collect::<Float64Array>()),
        ];
        let all = std::iter::once(0..rows).collect::<Vec<_>>();
        let of = |function: FrameFunction, argument: usize, data_type: DataType| {
            let key = SortKey { expr: column(1), descending: false, nulls_first: true };
            let call = WindowCall {
                function: WindowFunction::Frame(function, frame.clone()),
                arguments: vec![column(argument)],
                partition_by: Vec::new(),
                order_by: vec![key],
                data_type,
                first: None,
            };
            let mut inputs = vec![columns[argument].clone()];
            if call.needs_order() {
                inputs.push(columns[1].clone());
            }
            call.values(&inputs, &all, Stop::default()).unwrap()
        };
        let whole = |function| of(FrameFunction::Aggregate(function), 0, DataType::Int64);
        let (count, sum) = (whole(AggregateFunction::Count), whole(AggregateFunction::Sum));
        let (min, max) = (whole(AggregateFunction::Min), whole(AggregateFunction::Max));
        let float_sum = of(FrameFunction::Aggregate(AggregateFunction::Sum), 2, DataType::Float64);
        let second = of(FrameFunction::Value { nth: 2, ignore_nulls: true }, 0, DataType::Int64);
        let last = of(FrameFunction::Value { nth: -1, ignore_nulls: false }, 0, DataType::Int64);
        let at = |array: &ArrayRef, row: usize| array.is_valid(row).then(|| array.as_primitive::<Int64Type>().value(row));
        for row in 0..rows {
            let expected = naive(&frame, &keys, row);
            let valid: Vec<i64> = expected.iter().filter_map(|other| values[*other]).collect();
            let total = (!valid.is_empty()).then(|| valid.iter().sum::<i64>());
            prop_assert_eq!(at(&count, row), Some(i64::try_from(valid.len()).unwrap()));
            prop_assert_eq!(at(&sum, row), total);
            prop_assert_eq!(at(&min, row), valid.iter().min().copied());
            prop_assert_eq!(at(&max, row), valid.iter().max().copied());
            prop_assert_eq!(at(&second, row), valid.get(1).copied());
            prop_assert_eq!(at(&last, row), expected.last().and_then(|other| values[*other]));
            let float_sum = float_sum.as_primitive::<Float64Type>();
            prop_assert_eq!(float_sum.is_valid(row).then(|| float_sum.value(row)), total.map(|total| total as f64));
        }
    }
}
