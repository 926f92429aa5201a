//! Tables of quotes and trades with what tables have: ties, nulls, late rows, dates without rows.

use std::sync::Arc;

use arrow::array::TimestampNanosecondArray;
use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::Int32Type;
use splay_capture::{Append, Capture};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use super::Numbers;
use crate::market::{self, OPENING};

/// Rows with ties, nulls in every column but the time, and four dates, of which one is loaded apart.
pub(crate) fn rows(numbers: &mut Numbers, spec: &TableSpec, count: i64, first_day: i64, days: u64) -> RecordBatch {
    let day = 86_400_000_000_000;
    let mut times: Vec<i64> = (0..count)
        .map(|_| {
            let at = first_day + i64::try_from(numbers.below(days)).unwrap();
            OPENING + at * day + i64::try_from(numbers.below(4000)).unwrap() * 5_000_000_000
        })
        .collect();
    times.sort_unstable();
    let names: Vec<String> = (0..12).map(|name| format!("S{name:02}")).collect();
    // Most rows are of few symbols.
    let symbol = |numbers: &mut Numbers| {
        let place = numbers.below(12) * numbers.below(12) / 12;
        (!numbers.happens(2)).then(|| names[usize::try_from(place).unwrap()].clone())
    };
    let symbols: Vec<Option<String>> = (0..count).map(|_| symbol(numbers)).collect();
    let venues: Vec<Option<&str>> =
        (0..count).map(|_| (!numbers.happens(3)).then(|| numbers.one(&["N", "P", "Q", "Z"]))).collect();
    let price = |numbers: &mut Numbers| 100.0 + numbers.below(1600) as f64 / 16.0;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
        Arc::new(symbols.iter().map(|symbol| symbol.as_deref()).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(venues.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new((0..count).map(|_| Some(price(numbers))).collect::<Float64Array>()),
        Arc::new((0..count).map(|_| (!numbers.happens(4)).then(|| price(numbers))).collect::<Float64Array>()),
        Arc::new((0..count).map(|_| Some(i32::try_from(numbers.below(500)).unwrap())).collect::<Int32Array>()),
        Arc::new(
            (0..count)
                .map(|_| (!numbers.happens(5)).then(|| i64::try_from(numbers.below(100_000)).unwrap() - 50_000))
                .collect::<Int64Array>(),
        ),
        Arc::new((0..count).map(|_| (!numbers.happens(5)).then(|| numbers.happens(50))).collect::<BooleanArray>()),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

pub(crate) fn spec(name: &str) -> TableSpec {
    TableSpec::new(
        name,
        vec![
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("venue", ColumnType::Symbol),
            ColumnSpec::new("bid", ColumnType::Float64),
            ColumnSpec::new("ask", ColumnType::Float64),
            ColumnSpec::new("size", ColumnType::Int32),
            ColumnSpec::new("seq", ColumnType::Int64),
            ColumnSpec::new("firm", ColumnType::Bool),
        ],
        "ts",
        Some("sym"),
    )
}

/// Quotes and trades in segments that follow each other, and late quotes in segments that overlap.
pub(crate) fn database(format: Tier) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    for (spec, rows) in all_rows() {
        let mut load = database.load(&spec, LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
        load.append(&rows).unwrap();
        load.commit().unwrap();
    }
    (folder, database)
}

/// The same rows as captured: symbols spread over segments on disk, over rows in memory, and late rows that belong before those.
pub(crate) fn captured() -> (tempfile::TempDir, Database, Capture) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let capture = market::capture(&database);
    let mut numbers = Numbers(11);
    for (spec, rows) in all_rows() {
        let mut start = 0;
        while start < rows.num_rows() {
            let size = usize::try_from(1 + numbers.below(700)).unwrap().min(rows.num_rows() - start);
            let append = Append { spec: Some(spec.clone()), ..Append::new(&spec.name, rows.slice(start, size)) };
            capture.append(append).unwrap();
            start += size;
            // The later half of a load stays in memory until the next.
            if numbers.happens(20) && start < rows.num_rows() / 2 {
                capture.write_down(Some(&spec.name)).unwrap();
            }
            // A look puts what came in into a layer of its own.
            drop(database.table(&spec.name).unwrap().snapshot().unwrap());
        }
    }
    (folder, database, capture)
}

/// All tables' rows, load by load.
pub(crate) fn all_rows() -> Vec<(TableSpec, RecordBatch)> {
    let mut numbers = Numbers(7);
    let loads = [
        ("quote", 30_000, 0, 3),
        ("quote", 500, 5, 1),
        ("quote", 9_000, 6, 1),
        ("trade", 1_500, 0, 8),
        ("late", 8_000, 1, 3),
        ("late", 400, 0, 3),
        ("late", 7_000, 2, 5),
    ];
    let rows = |(table, count, first_day, days)| {
        let spec = spec(table);
        let rows = rows(&mut numbers, &spec, count, first_day, days);
        (spec, rows)
    };
    let mut all: Vec<_> = loads.into_iter().map(rows).collect();
    all.push(reference());
    all
}

/// A symbol a row: its kind and its number, neither of which all have.
fn reference() -> (TableSpec, RecordBatch) {
    let spec = TableSpec::new(
        "reference",
        vec![
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("kind", ColumnType::Text),
            ColumnSpec::new("number", ColumnType::Int32),
        ],
        "ts",
        Some("sym"),
    );
    let symbols = (0..10).map(|number| (number != 3).then(|| format!("S{number:02}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(vec![OPENING; 10]).with_timezone("UTC")),
        Arc::new(symbols.collect::<Vec<_>>().iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
        Arc::new((0..10).map(|number| (number != 5).then_some(["x", "y", "z"][number % 3])).collect::<StringArray>()),
        Arc::new((0..10).map(|number| (number != 4).then_some(number * 3)).collect::<Int32Array>()),
    ];
    let rows = RecordBatch::try_new(spec.arrow(), columns).unwrap();
    (spec, rows)
}
