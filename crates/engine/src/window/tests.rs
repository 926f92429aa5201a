//! Frames that are worked on one by one give what all rows together do.

use arrow::array::{AsArray, DictionaryArray, Float64Array, Int64Array, TimestampNanosecondArray};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use proptest::prelude::*;

use super::*;
use crate::reads::Reads;
use crate::stop::Stop;

/// Numbers of the rows, each with the sum of all values before it: what a function sees of a whole partition.
#[derive(Debug)]
struct SumsBefore;

impl PartitionFunction for SumsBefore {
    fn call(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
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

fn calls(by: &[usize]) -> Vec<WindowCall> {
    let mut calls = Vec::new();
    for function in
        [FrameFunction::Count, FrameFunction::Sum, FrameFunction::Average, FrameFunction::Min, FrameFunction::Max]
    {
        for rows in [FrameRows::Whole, FrameRows::Running, FrameRows::Last(0), FrameRows::Last(3), FrameRows::Last(40)]
        {
            for argument in [FLOAT, WHOLE, WITH_NULLS] {
                let is_float = argument != WHOLE;
                let data_type = match function {
                    FrameFunction::Average if !is_float => continue,
                    FrameFunction::Count => DataType::Int64,
                    _ if is_float => DataType::Float64,
                    _ => DataType::Int64,
                };
                calls.push(call(WindowFunction::Frame(function, rows), argument, data_type, by, &[TIME]));
            }
        }
    }
    calls.push(call(WindowFunction::Partition(Arc::new(SumsBefore)), WHOLE, DataType::Int64, by, &[TIME]));
    calls.push(call(WindowFunction::Partition(Arc::new(SumsBefore)), WHOLE, DataType::Int64, by, &[TIME, WHOLE]));
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
    let setting = Setting {
        tables: &[],
        constants: &[],
        threads: 2,
        memory_bytes: usize::MAX,
        stop: Stop::default(),
        reads: Reads::default(),
    };
    let all = frame(rows);
    for call in calls(by) {
        let one = std::slice::from_ref(&call);
        let Some(mut found) = in_order(&frames, one, &setting).unwrap() else {
            let several_keys = call.order_by.len() > 1;
            assert!(!is_in_order || several_keys, "{call:?}");
            continue;
        };
        let types = [call.data_type.clone()];
        let columns = found.remove(0).into_iter().map(|column| Frame::new(vec![column.clone()], column.len()));
        let found = Frame::concat(columns.collect(), &types).unwrap().into_columns().remove(0);
        let expected = window(&all, &call, &setting).unwrap();
        assert_eq!(found.len(), expected.len());
        match call.data_type {
            DataType::Float64 => {
                for (one, other) in
                    found.as_primitive::<Float64Type>().iter().zip(expected.as_primitive::<Float64Type>())
                {
                    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * (1.0 + other.abs());
                    assert!(one.is_some() == other.is_some(), "{call:?}: {found:?} for {expected:?}");
                    assert!(
                        one.zip(other).is_none_or(|(one, other)| near(one, other)),
                        "{call:?}: {found:?} for {expected:?}"
                    );
                }
            }
            _ => assert_eq!(&found, &expected, "{call:?}"),
        }
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let symbol = prop::sample::select(vec![Some("A"), Some("B"), Some("C"), Some("D"), None]);
    let row = (symbol, 0..30i64, -9.0..9.0f64, -5..5i64, prop::option::weighted(0.8, -9.0..9.0f64));
    prop::collection::vec(row, 0..120)
}

proptest! {
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
