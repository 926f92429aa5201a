//! Rows for tests: each has a number of its own, so that any that is lost, doubled or out of place is seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{Array, AsArray, DictionaryArray, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampNanosecondType};
use splay_capture::{CaptureSettings, Clock};
use splay_store::{ColumnSpec, ColumnType, Database, Selection, TableSnapshot, TableSpec};

pub const SECOND: i64 = 1_000_000_000;
pub const DAY: i64 = 86_400 * SECOND;
/// 2024-03-10T00:00:00Z.
pub const START: i64 = 1_710_028_800 * SECOND;

/// A clock that stands where it is put.
#[derive(Debug)]
pub struct TestClock(pub AtomicI64);

impl TestClock {
    pub fn at(now: i64) -> Arc<TestClock> {
        Arc::new(TestClock(AtomicI64::new(now)))
    }
}

impl Clock for TestClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Nothing happens by itself, and the disk is used to its end.
pub fn settings() -> CaptureSettings {
    CaptureSettings { automatic: false, disk_free_bytes_min: 0, disk_reserve_bytes: 0, ..CaptureSettings::default() }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub symbol: Option<String>,
    pub time: i64,
    pub id: i64,
}

pub fn row(symbol: &str, time: i64, id: i64) -> Row {
    Row { symbol: (!symbol.is_empty()).then(|| symbol.to_owned()), time, id }
}

pub fn spec(zone: &str) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("id", ColumnType::Int64),
    ];
    TableSpec::new("trade", columns, "time", Some("sym")).with_time_zone(zone)
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.time)).with_timezone("UTC");
    let symbols: DictionaryArray<Int32Type> = rows.iter().map(|row| row.symbol.as_deref()).collect();
    let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.id));
    let columns: [(&str, Arc<dyn Array>); 3] =
        [("time", Arc::new(times)), ("sym", Arc::new(symbols)), ("id", Arc::new(ids))];
    // In any order of columns.
    let columns = if rows.len().is_multiple_of(2) {
        columns
    } else {
        let [a, b, c] = columns;
        [b, c, a]
    };
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// All rows of a snapshot, in its order, with their dates.
pub fn read(snapshot: &TableSnapshot, selection: &Selection) -> Vec<(i32, Row)> {
    let spec = snapshot.spec();
    let places: Vec<usize> = ["time", "sym", "id"].iter().map(|name| spec.position(name).unwrap()).collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    let at = |name: usize| sorted.iter().position(|place| *place == places[name]).unwrap();
    let mut rows = Vec::new();
    for piece in snapshot.select(selection).unwrap().0 {
        for batch in piece.segment.batches(spec, &sorted, piece.rows.clone(), 100).unwrap() {
            let batch = batch.unwrap();
            let times = batch.column(at(0)).as_primitive::<TimestampNanosecondType>();
            let symbols = batch.column(at(1)).as_dictionary::<Int32Type>();
            let ids = batch.column(at(2)).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let text = || symbols.values().as_string::<i32>().value(symbols.keys().value(row) as usize).to_owned();
                let symbol = symbols.is_valid(row).then(text);
                rows.push((piece.date, Row { symbol, time: times.value(row), id: ids.value(row) }));
            }
        }
    }
    rows
}

pub fn all(database: &Database) -> Vec<(i32, Row)> {
    read(&database.table("trade").unwrap().snapshot().unwrap(), &Selection::default())
}

/// Rows, given in order of arrival, in the order of the table.
pub fn in_order(rows: &[Row], zone: &str) -> Vec<(i32, Row)> {
    let mut dates = splay_store::Dates::new(zone.parse().unwrap());
    let mut by_date: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_date.entry(dates.of(row.time)).or_default().push(row.clone());
    }
    let mut ordered = Vec::new();
    for (date, mut rows) in by_date {
        rows.sort_by(|one, other| (&one.symbol, one.time).cmp(&(&other.symbol, other.time)));
        ordered.extend(rows.into_iter().map(|row| (date, row)));
    }
    ordered
}
