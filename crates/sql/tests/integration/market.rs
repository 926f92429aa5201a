//! A small market for tests: tables with ties, nulls, two dates and several symbols.

use std::sync::Arc;

use arrow::array::TimestampNanosecondArray;
use arrow::array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use splay_capture::{Append, Capture, CaptureSettings};
use splay_sql::{Session, SessionSettings};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

/// 2019-10-07T13:30:00Z, the opening in New York.
pub const OPENING: i64 = 1_570_455_000_000_000_000;

const SECOND: i64 = 1_000_000_000;

pub fn trade_spec() -> TableSpec {
    TableSpec::new(
        "trade",
        vec![
            ColumnSpec::new("Time", ColumnType::Timestamp),
            ColumnSpec::new("Symbol", ColumnType::Symbol),
            ColumnSpec::new("Exchange", ColumnType::Symbol),
            ColumnSpec::new("Trade_Price", ColumnType::Float64),
            ColumnSpec::new("Trade_Volume", ColumnType::Int64),
            ColumnSpec::new("Note", ColumnType::Text),
        ],
        "Time",
        Some("Symbol"),
    )
    .with_time_zone("America/New_York")
}

fn symbols<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<DictionaryArray<Int32Type>>())
}

/// Six trades of `AAPL`, `IBM` and a null symbol on two dates; two of `IBM` share their time.
pub fn trades() -> RecordBatch {
    let day = 24 * 3600 * SECOND;
    let rows: [(i64, Option<&str>, &str, Option<f64>, i64, Option<&str>); 8] = [
        (0, Some("IBM"), "N", Some(140.0), 100, Some("open")),
        (0, Some("AAPL"), "Q", Some(220.5), 200, None),
        (1, Some("IBM"), "P", Some(140.25), 300, None),
        (1, Some("IBM"), "N", Some(140.5), 50, Some("tie")),
        (61, Some("AAPL"), "P", None, 10, None),
        (62, None, "N", Some(1.0), 1, Some("no symbol")),
        (day / SECOND, Some("IBM"), "N", Some(141.0), 400, None),
        (day / SECOND + 1, Some("AAPL"), "Q", Some(f64::NAN), 500, None),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| OPENING + row.0 * SECOND))
                .with_timezone("UTC"),
        ),
        symbols(rows.iter().map(|row| row.1)),
        symbols(rows.iter().map(|row| Some(row.2))),
        Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.4))),
        Arc::new(rows.iter().map(|row| row.5).collect::<StringArray>()),
    ];
    RecordBatch::try_new(trade_spec().arrow(), columns).unwrap()
}

pub fn quote_spec() -> TableSpec {
    TableSpec::new(
        "quote",
        vec![
            ColumnSpec::new("Time", ColumnType::Timestamp),
            ColumnSpec::new("Symbol", ColumnType::Symbol),
            ColumnSpec::new("Exchange", ColumnType::Symbol),
            ColumnSpec::new("Bid", ColumnType::Float64),
            ColumnSpec::new("Seq", ColumnType::Int64),
        ],
        "Time",
        Some("Symbol"),
    )
    .with_time_zone("America/New_York")
}

/// Ten quotes around the trades, with a tie of `IBM`, a symbol without trades and one quote without a symbol.
pub fn quotes() -> RecordBatch {
    let day = 24 * 3600;
    let rows: [(i64, Option<&str>, &str, Option<f64>, i64); 10] = [
        (-1, Some("IBM"), "N", Some(139.0), 1),
        (1, Some("IBM"), "N", Some(140.1), 2),
        (1, Some("IBM"), "P", Some(140.2), 3),
        (60, Some("IBM"), "N", Some(140.6), 4),
        (day, Some("IBM"), "N", Some(141.5), 5),
        (0, Some("AAPL"), "Q", Some(220.0), 6),
        (30, Some("AAPL"), "P", None, 7),
        (day + 1, Some("AAPL"), "Q", Some(221.0), 8),
        (0, None, "N", Some(9.0), 9),
        (0, Some("MSFT"), "Q", Some(50.0), 10),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| OPENING + row.0 * SECOND))
                .with_timezone("UTC"),
        ),
        symbols(rows.iter().map(|row| row.1)),
        symbols(rows.iter().map(|row| Some(row.2))),
        Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.4))),
    ];
    RecordBatch::try_new(quote_spec().arrow(), columns).unwrap()
}

/// A table of 40 symbols and 200,000 rows over three dates, so that blocks and symbols can be passed over.
pub fn ticks() -> (TableSpec, RecordBatch) {
    let spec = TableSpec::new(
        "tick",
        vec![
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("price", ColumnType::Float64),
            ColumnSpec::new("size", ColumnType::Int32),
        ],
        "ts",
        Some("sym"),
    );
    let rows = 200_000i64;
    let names: Vec<String> = (0..40).map(|n| format!("S{n:02}")).collect();
    // Fixed arithmetic instead of a generator: every run has the same rows.
    let mix = |n: i64| (n.wrapping_mul(2_654_435_761) >> 7) & 0xffff;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values((0..rows).map(|n| OPENING + n / 3 * 3_000_000_000))
                .with_timezone("UTC"),
        ),
        symbols((0..rows).map(|n| Some(names[usize::try_from(mix(n) % 40).unwrap()].as_str()))),
        Arc::new(
            (0..rows)
                .map(|n| {
                    (mix(n + 7) % 97 != 0).then(|| 100.0 + f64::from(i32::try_from(mix(n * 3) % 1000).unwrap()) / 8.0)
                })
                .collect::<Float64Array>(),
        ),
        Arc::new(arrow::array::Int32Array::from_iter_values(
            (0..rows).map(|n| i32::try_from(mix(n * 5) % 2000).unwrap() - 1000),
        )),
    ];
    let batch = RecordBatch::try_new(spec.arrow(), columns).unwrap();
    (spec, batch)
}

/// A database with the tables, and the folder that holds it.
pub fn database(format: Tier) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let (tick_spec, tick_rows) = ticks();
    for (spec, rows) in [(trade_spec(), trades()), (quote_spec(), quotes()), (tick_spec, tick_rows)] {
        let mut load = database.load(&spec, LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
        load.append(&rows).unwrap();
        load.commit().unwrap();
    }
    (folder, database)
}

/// Capture that does nothing by itself.
pub fn capture(database: &Database) -> Capture {
    let settings = CaptureSettings { automatic: false, ..CaptureSettings::default() };
    Capture::open(database.clone(), settings).unwrap().0
}

/// The same tables, captured: a part of the rows on disk, the others in memory.
pub fn captured() -> (tempfile::TempDir, Database, Capture) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let capture = capture(&database);
    let (tick_spec, tick_rows) = ticks();
    for (spec, rows, size) in [(trade_spec(), trades(), 1), (quote_spec(), quotes(), 2), (tick_spec, tick_rows, 7_001)]
    {
        for (number, start) in (0..rows.num_rows()).step_by(size).enumerate() {
            let part = rows.slice(start, size.min(rows.num_rows() - start));
            capture.append(Append { spec: Some(spec.clone()), ..Append::new(&spec.name, part) }).unwrap();
            if number % 5 == 2 {
                capture.write_down(Some(&spec.name)).unwrap();
            }
        }
    }
    (folder, database, capture)
}

pub fn session(database: &Database, threads: usize, batch_rows: usize) -> Session {
    let settings = SessionSettings { threads, batch_rows, ..SessionSettings::default() };
    Session::new(database.clone(), settings).unwrap()
}

pub fn session_without_tick_plans(database: &Database) -> Session {
    Session::new(database.clone(), SessionSettings { threads: 2, tick_plans: false, ..SessionSettings::default() })
        .unwrap()
}
