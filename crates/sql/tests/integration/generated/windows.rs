//! A table with columns of every type, and statements of window functions over it.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, Time64NanosecondArray, TimestampNanosecondArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::Int32Type;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use super::Numbers;
use crate::market::OPENING;

/// Columns of whole numbers.
pub(crate) const WHOLE: [&str; 8] = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"];
/// Columns of floats that are neither infinite nor NaN.
pub(crate) const FLOATS: [&str; 2] = ["f32", "f64"];
/// Columns of everything else that has an order.
pub(crate) const OTHERS: [&str; 7] = ["day", "clock", "money", "truth", "note", "odd", "odd32"];
/// Durations, which no column holds.
pub(crate) const DURATION: &str = "(ts - timestamp '2019-10-07T10:00:00Z')";

fn spec() -> TableSpec {
    let columns = [
        ("ts", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("venue", ColumnType::Symbol),
        // Each row's own number, in the order of time, and another one in no order.
        ("n", ColumnType::Int64),
        ("m", ColumnType::Int64),
        ("f64", ColumnType::Float64),
        ("f32", ColumnType::Float32),
        ("i8", ColumnType::Int8),
        ("i16", ColumnType::Int16),
        ("i32", ColumnType::Int32),
        ("i64", ColumnType::Int64),
        ("u8", ColumnType::UInt8),
        ("u16", ColumnType::UInt16),
        ("u32", ColumnType::UInt32),
        ("u64", ColumnType::UInt64),
        ("day", ColumnType::Date),
        ("clock", ColumnType::Time),
        ("money", ColumnType::Decimal { precision: 12, scale: 3 }),
        ("truth", ColumnType::Bool),
        ("note", ColumnType::Text),
        // Floats with NaN, infinities and zeros of both signs.
        ("odd", ColumnType::Float64),
        ("odd32", ColumnType::Float32),
    ];
    let columns = columns.into_iter().map(|(name, column_type)| ColumnSpec::new(name, column_type)).collect();
    TableSpec::new("typed", columns, "ts", Some("sym"))
}

fn rows(numbers: &mut Numbers, first: i64, count: i64) -> RecordBatch {
    let day = 86_400_000_000_000;
    let instant = |number: i64| OPENING + (number / 300) * day + (number % 300) / 2 * 1_000_000_000;
    let places: Vec<i64> = (first..first + count).collect();
    fn column<T>(numbers: &mut Numbers, count: i64, value: impl Fn(&mut Numbers) -> T) -> Vec<Option<T>> {
        (0..count).map(|_| (!numbers.happens(12)).then(|| value(numbers))).collect()
    }
    fn small<T: TryFrom<u64>>(numbers: &mut Numbers) -> T {
        T::try_from(numbers.below(40)).ok().unwrap()
    }
    let near = |numbers: &mut Numbers| i64::try_from(numbers.below(60)).unwrap() - 30;
    let odd = |numbers: &mut Numbers| {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.5, -2.25, 7.0];
        odd[usize::try_from(numbers.below(8)).unwrap()]
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            places.iter().map(|place| Some(instant(*place))).collect::<TimestampNanosecondArray>().with_timezone("UTC"),
        ),
        Arc::new(
            (0..count)
                .map(|_| (!numbers.happens(4)).then(|| numbers.one(&["A", "B", "C", "D"])))
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(
            column(numbers, count, |numbers| numbers.one(&["N", "P", "Q"]))
                .into_iter()
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(Int64Array::from(places.clone())),
        Arc::new(places.iter().map(|place| Some(place * 7919 % 10_007)).collect::<Int64Array>()),
        Arc::new(column(numbers, count, |n| 100.0 + n.below(800) as f64 / 16.0).into_iter().collect::<Float64Array>()),
        Arc::new(column(numbers, count, |n| 100.0 + n.below(800) as f32 / 16.0).into_iter().collect::<Float32Array>()),
        Arc::new(column(numbers, count, |n| i8::try_from(near(n)).unwrap()).into_iter().collect::<Int8Array>()),
        Arc::new(
            column(numbers, count, |n| i16::try_from(near(n) * 1000).unwrap()).into_iter().collect::<Int16Array>(),
        ),
        Arc::new(column(numbers, count, |n| i32::try_from(near(n)).unwrap()).into_iter().collect::<Int32Array>()),
        Arc::new(column(numbers, count, |n| near(n) + (1 << 53)).into_iter().collect::<Int64Array>()),
        Arc::new(column(numbers, count, small::<u8>).into_iter().collect::<UInt8Array>()),
        Arc::new(column(numbers, count, small::<u16>).into_iter().collect::<UInt16Array>()),
        Arc::new(column(numbers, count, small::<u32>).into_iter().collect::<UInt32Array>()),
        Arc::new(column(numbers, count, |n| (1 << 55) + n.below(90)).into_iter().collect::<UInt64Array>()),
        Arc::new(
            column(numbers, count, |n| i32::try_from(18_170 + near(n)).unwrap()).into_iter().collect::<Date32Array>(),
        ),
        Arc::new(
            column(numbers, count, |n| small::<i64>(n) * 60_000_000_000).into_iter().collect::<Time64NanosecondArray>(),
        ),
        Arc::new(
            column(numbers, count, |n| i128::from(near(n)) * 1_001)
                .into_iter()
                .collect::<Decimal128Array>()
                .with_precision_and_scale(12, 3)
                .unwrap(),
        ),
        Arc::new(column(numbers, count, |n| n.happens(50)).into_iter().collect::<BooleanArray>()),
        Arc::new(column(numbers, count, |n| format!("t{}", n.below(30))).into_iter().collect::<StringArray>()),
        Arc::new(column(numbers, count, odd).into_iter().collect::<Float64Array>()),
        Arc::new(column(numbers, count, |n| odd(n) as f32).into_iter().collect::<Float32Array>()),
    ];
    RecordBatch::try_new(spec().arrow(), columns).unwrap()
}

/// The table `typed`, in segments that follow each other and ones that overlap.
pub(crate) fn typed_database(format: Tier) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let mut numbers = Numbers(23);
    for (first, count) in [(0, 300), (300, 210), (510, 120)] {
        let mut load = database.load(&spec(), LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
        load.append(&rows(&mut numbers, first, count)).unwrap();
        load.commit().unwrap();
    }
    (folder, database)
}

/// A window over `typed`: its keys, its order and its frame.
#[derive(Debug)]
struct Window {
    /// What stands in `OVER (…)`.
    text: String,
    /// Whether no two rows of a partition are equal in the order.
    is_strict: bool,
    /// Whether rows leave a frame at its start.
    slides: bool,
    /// Whether each frame is the whole partition.
    is_whole: bool,
}

fn window(numbers: &mut Numbers) -> Window {
    let keys =
        numbers.one(&["", "partition by sym", "partition by sym", "partition by venue, truth", "partition by i32"]);
    if numbers.happens(12) {
        return Window { text: keys.to_owned(), is_strict: false, slides: false, is_whole: true };
    }
    let (frame, slides, distance) = frame(numbers);
    let (order, is_strict) = match distance {
        Some("interval") => (numbers.one(&["ts", "ts desc", "day", "day desc nulls last"]), false),
        Some(_) => (numbers.one(&["n", "n desc", "m", "i32", "i8 desc", "i16 nulls first", "u8", "odd", "f32"]), false),
        None if frame.starts_with("rows") => {
            (numbers.one(&["n", "m", "n desc", "ts, n", "sym, n", "f32, m desc", "odd desc nulls first, n"]), true)
        }
        None => (numbers.one(&["n", "m", "ts", "ts desc", "i32", "odd", "venue, u8 desc", "truth nulls first"]), false),
    };
    let is_whole = frame.contains("unbounded preceding and unbounded following");
    Window { text: format!("{keys} order by {order} {frame}"), is_strict, slides, is_whole }
}

/// A frame, whether rows leave it, and the kind of its distances, if it has any.
fn frame(numbers: &mut Numbers) -> (String, bool, Option<&'static str>) {
    let units = numbers.one(&["rows", "rows", "rows", "range", "groups"]);
    if numbers.happens(30) {
        let bounds = numbers.one(&[
            "unbounded preceding and current row",
            "current row and unbounded following",
            "unbounded preceding and unbounded following",
            "current row and current row",
        ]);
        return (format!("{units} between {bounds}"), bounds.starts_with("current"), None);
    }
    if units == "range" && numbers.happens(25) {
        return (String::new(), false, None);
    }
    let (one, other) = (numbers.below(9), numbers.below(9));
    let (less, more) = (one.min(other), one.max(other));
    let interval = units == "range" && numbers.happens(50);
    let unit = numbers.one(&["second", "second", "day", "minute"]);
    let value = |number: u64| if interval { format!("interval '{number} {unit}'") } else { number.to_string() };
    let bounds = match numbers.below(6) {
        0 => format!("{} preceding and {} preceding", value(more), value(less)),
        1 => format!("{} following and {} following", value(less), value(more)),
        2 => format!("{} preceding and {} following", value(one), value(other)),
        3 => format!("{} preceding and unbounded following", value(one)),
        4 => format!("unbounded preceding and {} {}", value(one), numbers.one(&["preceding", "following"])),
        _ => format!("{} preceding and current row", value(one * if units == "rows" { 12 } else { 1 })),
    };
    let distance = (units == "range").then_some(if interval { "interval" } else { "number" });
    let slides = !bounds.starts_with("unbounded");
    (format!("{units} between {bounds}"), slides, distance)
}

/// A call of a function over a window.
fn call(numbers: &mut Numbers, window: &Window) -> String {
    let float = numbers.one(&FLOATS);
    let number = if numbers.happens(50) { numbers.one(&WHOLE) } else { float };
    let any = match numbers.below(3) {
        0 => numbers.one(&OTHERS),
        1 => numbers.one(&["ts", "sym", "venue"]),
        _ => number,
    };
    let ignored = numbers.one(&["", "", " ignore nulls"]);
    match numbers.below(16) {
        0 => numbers.one(&["count(*)", "count(1)"]).to_owned(),
        1 => format!("count({any})"),
        2 | 3 => format!("{}({any})", numbers.one(&["min", "max"])),
        4 | 5 => format!("{}({number})", numbers.one(&["sum", "avg"])),
        6 => numbers.one(&["sum(money)", "avg(money)", "sum(u64)", "sum(i64)"]).to_owned(),
        7 => format!("{}({DURATION})", numbers.one(&["sum", "min", "max", "avg"])),
        8 => format!("{}({float})", numbers.one(&["var", "var_pop"])),
        // What is subtracted from a sum leaves an error that a root makes large, and NaN for good.
        9 if !window.slides => format!("{}({float})", numbers.one(&["stddev", "stddev_pop"])),
        9 => format!("vwap({float}, u16)"),
        10 => format!("{}(f32, f64)", numbers.one(&["covar_pop", "covar_samp", "wavg", "wsum"])),
        11 if window.is_whole => {
            format!(
                "{}({})",
                numbers.one(&["median", "med"]),
                numbers.one(&["f32", "f64", "i32", "u8", "odd", "odd32"])
            )
        }
        11 if !window.slides => numbers.one(&["sum(odd)", "avg(odd)", "corr(f32, f64)", "var(odd)"]).to_owned(),
        12 if window.is_strict => {
            let call = match numbers.below(3) {
                0 => format!("first_value({any})"),
                1 => format!("last_value({any})"),
                _ => format!("nth_value({any}, {})", numbers.one(&["1", "2", "3", "7"])),
            };
            format!("{call}{ignored}")
        }
        13 if window.is_strict => format!("{}({any}){ignored}", numbers.one(&["first", "last"])),
        14 => format!(
            "{}({number}) filter (where {})",
            numbers.one(&["sum", "max", "count"]),
            numbers.one(&["truth", "i32 > 3"])
        ),
        _ => format!("{}(odd)", numbers.one(&["min", "max", "count"])),
    }
}

/// A function over whole partitions in an order.
fn over_partitions(numbers: &mut Numbers) -> String {
    let number = if numbers.happens(50) { numbers.one(&WHOLE[..7]) } else { numbers.one(&FLOATS) };
    let any = if numbers.happens(50) { numbers.one(&OTHERS) } else { number };
    let call = match numbers.below(13) {
        0 => "row_number()".to_owned(),
        1 => format!("ntile({})", 1 + numbers.below(9)),
        2 => format!("lag({any}, {})", numbers.below(4)),
        3 => format!("lead({any}) ignore nulls"),
        4 => format!("{}({number}, {})", numbers.one(&["msum", "mavg", "mdev"]), numbers.below(9)),
        5 => format!("{}({any}, {})", numbers.one(&["mmax", "mmin", "mcount"]), numbers.below(9)),
        6 => format!("{}({any})", numbers.one(&["maxs", "mins", "fills", "differ"])),
        7 => format!("{}({number})", numbers.one(&["sums", "prds", "avgs", "deltas", "ratios", "log_return"])),
        8 => format!("ema({number}, {})", numbers.one(&["0.25", "2.0 / 21", "1.0 / (1 + u8)"])),
        9 => format!("wilder({number}, {})", 1 + numbers.below(5)),
        10 => format!("{}({any})", numbers.one(&["prev", "next"])),
        _ => {
            // Of equal rows all have the same.
            let order = numbers.one(&["i32", "odd desc", "ts", "venue, u8", "day desc nulls last"]);
            let rank = numbers.one(&["rank", "dense_rank", "percent_rank", "cume_dist"]);
            return format!(
                "{rank}() over ({} order by {order})",
                numbers.one(&["", "partition by sym", "partition by truth"])
            );
        }
    };
    let keys = numbers.one(&["", "partition by sym", "partition by sym", "partition by venue, truth"]);
    format!("{call} over ({keys} order by {})", numbers.one(&["n", "m", "n desc", "ts, n", "i32, n"]))
}

/// A statement of window functions over every type, every frame, and rows of which there are many, one or none.
pub(crate) fn window_statement(numbers: &mut Numbers) -> String {
    let mut calls = String::new();
    for number in 0..=numbers.below(3) {
        let call = if numbers.happens(25) {
            over_partitions(numbers)
        } else {
            let window = window(numbers);
            let call = call(numbers, &window);
            format!("{call} over ({})", window.text)
        };
        write!(calls, ", {call} as a{number}").unwrap();
    }
    let filter = numbers.one(&[
        "",
        "",
        "",
        "",
        " where sym = 'B'",
        " where i32 > 0",
        " where n = 17",
        " where n < 0",
        " where f64 is null",
        " where date = '2019-10-08'",
    ]);
    format!("select n{calls} from typed{filter}")
}
