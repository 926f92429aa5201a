//! Rows for several tables that are taken together: all of them or none, by one commit for each table.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampNanosecondArray};
use splay_capture::{Ack, Append, Capture, CaptureSettings, Error, Producer, Result};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Settings};

use crate::basic::open;
use crate::rows::{DAY, SECOND, START, TestClock, settings};

/// Rows from a time on, with these columns beside it.
fn rows(first: i64, count: i64, columns: &[&str]) -> RecordBatch {
    let times = (first..first + count).map(|second| START + second * SECOND);
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"));
    let values = |_| Arc::new(Float64Array::from_iter_values((0..count).map(|row| row as f64))) as ArrayRef;
    let columns = columns.iter().enumerate().map(|(place, name)| (*name, values(place)));
    RecordBatch::try_from_iter(std::iter::once(("time", times)).chain(columns)).unwrap()
}

fn part(table: &str, first: i64, count: i64) -> Append {
    Append::new(table, rows(first, count, &["a"]))
}

fn submit(capture: &Capture, appends: Vec<Append>) -> Result<Ack> {
    let (sender, receiver) = std::sync::mpsc::channel();
    capture.submit_together(appends, move |acked| sender.send(acked).unwrap())?;
    receiver.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// Rows of each table, by name.
fn counts(database: &Database) -> Vec<(String, u64)> {
    let count = |table: &String| {
        let snapshot = database.table(table).unwrap().snapshot().unwrap();
        let segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        segments.map(|segment| segment.rows()).sum()
    };
    database.tables().unwrap().into_iter().map(|table| (table.clone(), count(&table))).collect()
}

fn named(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    counts.iter().map(|(table, rows)| ((*table).to_owned(), *rows)).collect()
}

/// A message of line protocol was a batch for each table and each 16 MB: after a kill some of them stood alone.
#[test]
fn after_a_power_cut_at_any_operation_all_parts_are_there_or_none() {
    let run = |storage: &FaultStorage, acknowledged: &mut u64| -> Result<()> {
        let database = Database::create_on(Arc::new(storage.clone()), &Settings::default())?;
        let small = CaptureSettings { journal_segment_bytes: 700, journal_keep_bytes: 0, ..settings() };
        let capture = Capture::open_with(database, small, TestClock::at(START + DAY))?.0;
        for message in 0..4 {
            let first = message * 10;
            submit(&capture, vec![part("b", first, 2), part("a", first, 1), part("b", first + 2, 3)])?;
            *acknowledged += 1;
        }
        capture.close()
    };
    let whole = FaultStorage::new();
    run(&whole, &mut 0).unwrap();
    for operation in 0..whole.operations() + 3 {
        let storage = FaultStorage::new();
        storage.stop_after(Some(operation));
        let mut acknowledged = 0;
        drop(run(&storage, &mut acknowledged));
        storage.stop_after(None);
        // Nothing of what wasn't synced, all of it, and something of it.
        for image in 0..4 {
            let crashed = storage.crash(&mut |bound| (bound - 1) * image / 3);
            let Ok(database) = Database::open_on(Arc::new(crashed)) else { continue };
            let capture = open(&database);
            let of =
                |table: &str| counts(&database).iter().find(|(name, _)| name == table).map_or(0, |(_, rows)| *rows);
            let (a, b) = (of("a"), of("b"));
            assert_eq!(b, a * 5, "operation {operation}, image {image}");
            assert!((acknowledged..=acknowledged + 1).contains(&a), "operation {operation}, image {image}: {a}");
            capture.close().unwrap();
        }
    }
}

/// A retry of a message stored its rows once more, for it had no number.
#[test]
fn a_message_of_several_tables_that_is_sent_again_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    for start in 0..2 {
        let database = Database::open_or_create(folder.path()).unwrap();
        let capture = open(&database);
        for sequence in [1, 2, 2, 1] {
            let mut appends = vec![part("a", 0, 2), part("b", 0, 3)];
            appends[0].producer = Some(Producer::new("feed".to_owned(), sequence));
            let is_repeat = start > 0 || capture.last_of("feed").unwrap().is_some_and(|last| sequence <= last);
            let ack = submit(&capture, appends).unwrap();
            assert_eq!((ack.rows, ack.duplicate), (5, is_repeat), "start {start}, {sequence}");
        }
        assert_eq!(counts(&database), named(&[("a", 4), ("b", 6)]), "start {start}");
        capture.close().unwrap();
    }
}

#[test]
fn a_part_that_does_not_fit_or_is_ahead_takes_the_others_along() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap().0;
    submit(&capture, vec![part("a", 0, 1), part("b", 0, 1)]).unwrap();
    let no_time = RecordBatch::try_from_iter([("a", Arc::new(Float64Array::from(vec![1.0])) as ArrayRef)]).unwrap();
    let refused = submit(&capture, vec![part("a", 0, 1), Append::new("b", no_time)]).unwrap_err();
    assert!(matches!(refused, Error::Rejected { .. }), "{refused}");
    assert_eq!(counts(&database), named(&[("a", 1), ("b", 1)]));
    // Both have rows too far ahead of the clock, and are acknowledged as one.
    let ack = submit(&capture, vec![part("b", 298, 4), part("a", 300, 2)]).unwrap();
    assert_eq!((ack.rows, ack.quarantined), (6, 2));
    assert!(submit(&capture, Vec::new()).is_err());
    let expected = [("a", 2), ("a_quarantine", 1), ("b", 4), ("b_quarantine", 1)];
    assert_eq!(counts(&database), named(&expected));
    capture.close().unwrap();
    drop(capture);
    let capture = open(&database);
    assert_eq!(counts(&database), named(&expected));
    capture.close().unwrap();
}

/// 500 new tables of one message took 34 s, and each new column was a commit.
#[test]
fn new_tables_and_columns_are_bounded_and_made_by_one_commit_each() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let bounds = CaptureSettings { new_tables_max: 3, new_columns_max: 40, ..settings() };
    let capture = Capture::open_with(database.clone(), bounds, TestClock::at(START)).unwrap().0;
    let many = (0..4).map(|table| part(&format!("t{table}"), 0, 1)).collect();
    let refused = submit(&capture, many).unwrap_err().to_string();
    assert!(refused.contains("4 new tables at once are more than 3 (new_tables_max)"), "{refused}");
    assert_eq!(database.tables().unwrap(), [""; 0]);
    // A table and its quarantine are two.
    let refused = submit(&capture, vec![part("t0", 0, 1), part("t1", 400, 1), part("t2", 400, 1)]).unwrap_err();
    assert!(refused.to_string().contains("new_tables_max"), "{refused}");

    submit(&capture, vec![part("t", 0, 1)]).unwrap();
    let names: Vec<String> = (0..41).map(|column| format!("c{column}")).collect();
    let wide = |columns: std::ops::Range<usize>| -> Vec<Append> {
        names[columns].iter().map(|name| Append::new("t", rows(1, 1, &[name]))).collect()
    };
    let refused = submit(&capture, wide(0..41)).unwrap_err().to_string();
    assert!(refused.contains("41 new columns at once are more than 40 (new_columns_max)"), "{refused}");
    let before = database.table("t").unwrap().stored().unwrap();
    submit(&capture, wide(0..40)).unwrap();
    let after = database.table("t").unwrap().stored().unwrap();
    assert_eq!(after.epoch(), before.epoch() + 1);
    assert_eq!(after.spec().columns.len(), before.spec().columns.len() + 40);
    capture.close().unwrap();
}

/// 540 KB of lines became 500 MB of journal: each row had a place in each column of its table.
#[test]
fn rows_that_name_few_of_many_columns_take_little_of_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    let names: Vec<String> = (0..1000).map(|column| format!("c{column}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    submit(&capture, vec![Append::new("t", rows(0, 1, &all))]).unwrap();
    let before = capture.status().journal_bytes;
    submit(&capture, vec![Append::new("t", rows(1, 1000, &["c7"]))]).unwrap();
    let grown = capture.status().journal_bytes - before;
    assert!(grown < 20_000, "{grown} bytes for 1,000 values in one of 1,000 columns");
    // In memory they count with all their nulls, as they do once they are put together.
    assert!(capture.status().tables[0].live_bytes > 8_000_000);
    capture.close().unwrap();
    drop(capture);
    let capture = open(&database);
    let snapshot = database.table("t").unwrap().snapshot().unwrap();
    let read = snapshot.partitions()[0].segments[0].read(snapshot.spec(), &[0, 8, 9], 0..1001).unwrap();
    assert_eq!([1, 2].map(|column| arrow::array::Array::null_count(read.column(column))), [0, 1000]);
    capture.close().unwrap();
}
