//! Batches whose columns come, go and change their types, against a list of rows: a batch that is taken keeps each of its values, one that is
//! refused leaves neither rows nor columns, and both stay so over write-downs, compactions, wider columns and starts.
//!
//! `SPLAY_DRIFTS` says how many sequences are tried, `SPLAY_DRIFT_SEED` with which they begin.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::Int32Type;
use arrow::util::display::array_value_to_string;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{Append, Capture, CaptureSettings};
use splay_store::storage::fault::FaultStorage;
use splay_store::{ColumnType, CompactOptions, Database, Selection, Settings, Tier};

use crate::rows::{DAY, SECOND, START, TestClock, settings};

/// A row's values as text, by column; what it lacks is null.
type Values = BTreeMap<String, String>;

fn set(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn any_drift_of_columns_keeps_values_or_refuses_batches_whole() {
    let first = set("SPLAY_DRIFT_SEED", 1);
    let (mut accepted, mut refused) = (0, 0);
    for seed in first..first + set("SPLAY_DRIFTS", 150) {
        let (more_accepted, more_refused) = drift(seed);
        (accepted, refused) = (accepted + more_accepted, refused + more_refused);
    }
    assert!(accepted > 100 && refused > 10, "{accepted} batches taken, {refused} refused");
    println!("{accepted} batches taken, {refused} refused");
}

/// A column of a type by number, of small values, large ones, and nulls.
fn column(kind: usize, rows: usize, random: &mut ChaCha8Rng) -> ArrayRef {
    let mut numbers = (0..rows)
        .map(|_| {
            let large = [1 << 20, (1 << 53) + 1, i64::from(i32::MAX), -5][random.random_range(0..4)];
            let is_large = random.random_range(0..8) == 0;
            (random.random_range(0..5) > 0).then(|| if is_large { large } else { random.random_range(0..9) })
        })
        .collect::<Vec<Option<i64>>>();
    match kind {
        0 => {
            numbers.iter_mut().for_each(|number| *number = number.map(|n| n.clamp(-9, i64::from(i32::MAX))));
            Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Int32Array>())
        }
        1 => Arc::new(Int64Array::from(numbers)),
        2 => Arc::new(numbers.iter().map(|n| n.map(|n| n.unsigned_abs())).collect::<UInt64Array>()),
        3 => Arc::new(
            numbers.iter().map(|n| n.map(|n| n as f64 / [1.0, 2.0][(n & 1) as usize])).collect::<Float64Array>(),
        ),
        4 => Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        5 => Arc::new(
            numbers
                .iter()
                .map(|n| n.map(|n| if n == 3 { "three".to_owned() } else { n.to_string() }))
                .collect::<StringArray>(),
        ),
        _ => {
            let texts: Vec<Option<String>> = numbers.iter().map(|n| n.map(|n| format!("s{n}"))).collect();
            Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())
        }
    }
}

fn text(array: &dyn Array, row: usize) -> Option<String> {
    array.is_valid(row).then(|| array_value_to_string(array, row).unwrap())
}

/// Numbers of any type that are equal have one text.
fn canonical(text: &str) -> String {
    match text {
        "true" => "1".to_owned(),
        "false" => "0".to_owned(),
        _ => match text.parse::<f64>() {
            // Whole numbers that floats don't hold are compared as they are.
            Ok(number) if text.parse::<i128>().is_err() || number.abs() < 9e15 => number.to_string(),
            _ => text.to_owned(),
        },
    }
}

fn drift(seed: u64) -> (u64, u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut storage = FaultStorage::new();
    let mut database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let settings = CaptureSettings {
        journal_segment_bytes: 1 << random.random_range(9..13),
        journal_keep_bytes: 0,
        late_s: 0,
        ..settings()
    };
    let open = |database: &Database| {
        Capture::open_with(database.clone(), settings.clone(), TestClock::at(START + 9 * DAY)).unwrap().0
    };
    let mut capture = open(&database);
    let (mut rows, mut accepted, mut refused): (BTreeMap<i64, Values>, u64, u64) = (BTreeMap::new(), 0, 0);
    let mut next = 0;
    for step in 0..random.random_range(5..30) {
        let what = format!("seed {seed}, step {step}");
        match random.random_range(0..14) {
            0 => drop(capture.write_down(None).unwrap()),
            1 => drop(capture.roll(Some(START + 5 * DAY)).unwrap()),
            2 => {
                if let Ok(table) = database.table("t") {
                    let format = [None, Some(Tier::Small), Some(Tier::Mapped)][random.random_range(0..3)];
                    table
                        .compact(&CompactOptions { tier: format, ..CompactOptions::default() }, &mut |_| {
                            ControlFlow::Continue(())
                        })
                        .unwrap();
                }
            }
            3 => {
                capture.close().unwrap();
                drop(capture);
                storage = storage.copy();
                database = Database::open_on(Arc::new(storage.clone())).unwrap();
                capture = open(&database);
            }
            4 => {
                // Another writer widens a column, or can't: the values are the same.
                let name = format!("c{}", random.random_range(0..4));
                let wider = [ColumnType::Int64, ColumnType::Float64][random.random_range(0..2)].clone();
                if let Ok(table) = database.table("t") {
                    drop(table.widen_column(&name, wider));
                }
            }
            _ => {
                let count = random.random_range(1..6);
                let times = TimestampNanosecondArray::from_iter_values(
                    (0..count).map(|at| START + random.random_range(0..3) * DAY + at * SECOND),
                );
                let mut columns: Vec<(String, ArrayRef)> = vec![
                    ("time".to_owned(), Arc::new(times.with_timezone("UTC"))),
                    ("id".to_owned(), Arc::new(Int64Array::from_iter_values(next..next + count))),
                ];
                for name in 0..5 {
                    if random.random_range(0..3) > 0 {
                        // Mostly the type that it had before.
                        let kind = if random.random_range(0..4) == 0 {
                            random.random_range(0..7)
                        } else {
                            (name + seed as usize) % 7
                        };
                        columns.push((format!("c{name}"), column(kind, count as usize, &mut random)));
                    }
                }
                for place in (1..columns.len()).rev() {
                    columns.swap(place, random.random_range(0..=place));
                }
                let batch = RecordBatch::try_from_iter_with_nullable(
                    columns.into_iter().map(|(name, column)| (name, column, true)),
                )
                .unwrap();
                let before = database.table("t").ok().map(|table| table.snapshot().unwrap().spec().clone());
                match capture.append(Append::new("t", batch.clone())) {
                    Ok(ack) => {
                        assert_eq!(ack.quarantined, 0, "{what}");
                        for row in 0..batch.num_rows() {
                            let mut values = Values::new();
                            for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                                if let (true, Some(value)) = (field.name().starts_with('c'), text(column, row)) {
                                    values.insert(field.name().clone(), canonical(&value));
                                }
                            }
                            rows.insert(next + row as i64, values);
                        }
                        accepted += 1;
                    }
                    Err(error) => {
                        assert!(!error.is_retryable(), "{what}: {error}");
                        let after = database.table("t").ok().map(|table| table.snapshot().unwrap().spec().clone());
                        assert_eq!(before, after, "{what}: a refused batch changes the table: {error}");
                        refused += 1;
                    }
                }
                next += count;
            }
        }
        assert_eq!(stored_rows(&database), rows, "{what}");
    }
    capture.close().unwrap();
    (accepted, refused)
}

/// All rows by their number, as text.
fn stored_rows(database: &Database) -> BTreeMap<i64, Values> {
    let mut rows = BTreeMap::new();
    let Ok(table) = database.table("t") else { return rows };
    let snapshot = table.snapshot().unwrap();
    let spec = snapshot.spec();
    let columns: Vec<usize> = (0..spec.columns.len()).collect();
    for piece in snapshot.select(&Selection::default()).unwrap().0 {
        for batch in piece.segment.batches(spec, &columns, piece.rows.clone(), 100).unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let mut values = Values::new();
                let mut id = 0;
                for (column, array) in spec.columns.iter().zip(batch.columns()) {
                    match (column.name.as_str(), text(array, row)) {
                        ("id", Some(text)) => id = text.parse().unwrap(),
                        (name, Some(text)) if name.starts_with('c') => {
                            drop(values.insert(name.to_owned(), canonical(&text)))
                        }
                        _ => {}
                    }
                }
                assert!(rows.insert(id, values).is_none(), "row {id} twice");
            }
        }
    }
    rows
}
