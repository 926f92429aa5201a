//! A market with ties, nulls and NaN, in tables of each kind.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, Period, Reference, TableSpec};

/// 2024-03-04T14:30:00Z.
const OPENING: i64 = 1_709_562_600_000_000_000;
const SECOND: i64 = 1_000_000_000;
const DAYS: i64 = 5;

/// Symbols: some with many rows, one with few.
const SYMBOLS: [&str; 12] = ["A", "AAPL", "B", "BRK.A", "C", "IBM", "MSFT", "N", "T", "TSLA", "X", "ZZ"];

/// Fixed arithmetic instead of a generator: every run has the same rows.
fn mix(n: i64) -> i64 {
    (n.wrapping_mul(2_654_435_761) >> 7) & 0xffff
}

fn symbol(n: i64) -> Option<&'static str> {
    match mix(n) % 97 {
        0 => None,
        1 => Some("ZZ"),
        other => SYMBOLS.get(usize::try_from(other % 11).unwrap()).copied(),
    }
}

fn price(n: i64) -> Option<f64> {
    match mix(n + 7) % 101 {
        0 => None,
        1 => Some(f64::NAN),
        other => Some(100.0 + f64::from(i32::try_from(other).unwrap()) / 8.0),
    }
}

fn times(rows: i64, step: i64) -> ArrayRef {
    // Three rows share each instant.
    let of = |n: i64| {
        let by_day = rows / DAYS;
        OPENING + n / by_day * 24 * 3600 * SECOND + n % by_day / 3 * step
    };
    Arc::new(TimestampNanosecondArray::from_iter_values((0..rows).map(of)).with_timezone("UTC"))
}

fn symbols<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<DictionaryArray<Int32Type>>())
}

fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn series(name: &str, first: &str, second: &str) -> TableSpec {
    TableSpec::new(
        name,
        vec![
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("Sym", ColumnType::Symbol),
            ColumnSpec::new("venue", ColumnType::Symbol),
            ColumnSpec::new(first, ColumnType::Float64),
            ColumnSpec::new(second, ColumnType::Float64),
            ColumnSpec::new("size", ColumnType::Int64),
            ColumnSpec::new("seq", ColumnType::Int64),
        ],
        "ts",
        Some("Sym"),
    )
}

fn series_rows(spec: &TableSpec, rows: i64, step: i64, salt: i64) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        times(rows, step),
        symbols((0..rows).map(|n| symbol(n + salt))),
        symbols((0..rows).map(|n| Some(["N", "P", "Q"][usize::try_from(mix(n * 3 + salt) % 3).unwrap()]))),
        Arc::new((0..rows).map(|n| price(n + salt)).collect::<Float64Array>()),
        Arc::new((0..rows).map(|n| price(n * 5 + salt)).collect::<Float64Array>()),
        numbers((0..rows).map(|n| mix(n * 11 + salt) % 500 - 100)),
        numbers(0..rows),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

/// Trades, of which the later days may be loaded by a commit of their own.
pub fn trades(rows: i64) -> (TableSpec, RecordBatch) {
    let spec = series("trade", "price", "fee");
    let batch = series_rows(&spec, rows, SECOND, 0);
    (spec, batch)
}

/// Loads rows in one commit.
pub fn load(database: &Database, spec: &TableSpec, rows: &RecordBatch, partition: Option<Period>) {
    let mut load = database.load(spec, LoadOptions { partition, ..LoadOptions::default() }).unwrap();
    load.append(rows).unwrap();
    load.commit().unwrap();
}

/// Creates the market in a folder.
pub fn create(folder: &Path) -> Database {
    let database = Database::create(folder).unwrap();
    let day = Some(Period::Day);
    let (spec, rows) = trades(30_000);
    // In two commits, so that some dates have two segments.
    load(&database, &spec, &rows.slice(0, 17_000), day);
    load(&database, &spec, &rows.slice(17_000, 13_000), None);
    let spec = series("quote", "bid", "ask");
    load(&database, &spec, &series_rows(&spec, 45_000, SECOND * 2 / 3, 5), day);

    // A table without symbols, one of months, and a reference table.
    let columns = vec![ColumnSpec::new("ts", ColumnType::Timestamp), ColumnSpec::new("level", ColumnType::Float64)];
    let spec = TableSpec::new("market_index", columns, "ts", None);
    let level: ArrayRef = Arc::new((0..3000).map(|n| price(n * 13)).collect::<Float64Array>());
    load(&database, &spec, &RecordBatch::try_new(spec.arrow(), vec![times(3000, SECOND * 7), level]).unwrap(), day);
    let spec = series("monthly", "open", "close");
    load(&database, &spec, &series_rows(&spec, 4000, SECOND * 9, 3), Some(Period::Month));
    let columns = vec![
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("sector", ColumnType::Text),
        ColumnSpec::new("listed", ColumnType::Timestamp),
    ];
    let reference =
        Reference { key: vec!["sym".to_owned(), "listed".to_owned()], effective: Some("listed".to_owned()) };
    let spec = TableSpec::of_reference("instrument", columns, reference);
    let names: ArrayRef = symbols(SYMBOLS.iter().map(|symbol| Some(*symbol)));
    let sectors: ArrayRef =
        Arc::new((0..SYMBOLS.len()).map(|n| Some(format!("sector {}", n % 3))).collect::<StringArray>());
    let since = (0..SYMBOLS.len()).map(|_| OPENING - 24 * 3600 * SECOND);
    let listed: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(since).with_timezone("UTC"));
    load(&database, &spec, &RecordBatch::try_new(spec.arrow(), vec![names, sectors, listed]).unwrap(), None);
    database
}
