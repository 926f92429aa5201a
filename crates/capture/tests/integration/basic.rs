//! One thing at a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use splay_capture::{Ack, Append, Capture, CaptureSettings, Error, Producer};
use splay_store::{ColumnSpec, ColumnType, CompactOptions, Database, LoadOptions, Selection, TableSpec};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, in_order, read, row, settings, spec};

/// Of a list with the view `bar_quarantine` alone, as releases wrote it before such names were reserved.
const VIEW_DIGEST: &str = "c16297a9410e8cd864877296c2c449153cb3ba08b8fc4532916865b213d57307";

pub fn open(database: &Database) -> Capture {
    Capture::open_with(database.clone(), settings(), TestClock::at(START + 400 * DAY)).unwrap().0
}

fn trade(rows: &[Row]) -> Append {
    Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(rows)) }
}

#[test]
fn rows_are_visible_once_they_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    let mut rows = Vec::new();
    for id in 0..200 {
        let next = row(["A", "B", "", "C"][id as usize % 4], START + id * 7 % 50, id);
        let ack = capture.append(trade(std::slice::from_ref(&next))).unwrap();
        assert_eq!((ack.sequence, ack.rows, ack.duplicate), (id as u64 + 1, 1, false));
        rows.push(next);
        assert_eq!(all(&database), in_order(&rows, "UTC"), "{id}");
    }
    let one = Selection { symbols: Some(vec!["B".to_owned()]), ..Selection::default() };
    let visible = read(&database.table("trade").unwrap().snapshot().unwrap(), &one);
    let expected: Vec<_> = in_order(&rows, "UTC").into_iter().filter(|r| r.1.symbol.as_deref() == Some("B")).collect();
    assert_eq!(visible, expected);
    capture.close().unwrap();
    assert!(matches!(capture.append(trade(&rows)), Err(Error::Closed)));
}

/// Before, the loaded row stood before the one that was captured before it, so that `last` was the earlier arrival.
#[test]
fn what_was_captured_before_a_load_stands_before_it_among_equals() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    let (first, second) = (row("A", START, 0), row("A", START, 1));
    capture.append(trade(&[first.clone(), second.clone()])).unwrap();
    let loaded = row("A", START, 2);
    let mut load = database.load(&spec("UTC"), LoadOptions::default()).unwrap();
    let rows = batch(&[loaded.clone(), row("B", START, 3)]);
    load.append(&rows).unwrap();
    // In the order in which they came.
    load.commit().unwrap();
    let last = row("A", START, 4);
    capture.append(trade(std::slice::from_ref(&last))).unwrap();
    let ids = |database: &Database| all(database).into_iter().map(|(_, row)| row.id).collect::<Vec<_>>();
    assert_eq!(ids(&database), [0, 1, 2, 4, 3]);
    capture.write_down(None).unwrap();
    assert_eq!(ids(&database), [0, 1, 2, 4, 3], "and so they do in files");
    capture.close().unwrap();
    let capture = open(&database);
    assert_eq!(ids(&database), [0, 1, 2, 4, 3]);
    capture.close().unwrap();
}

#[test]
fn a_write_down_moves_rows_without_a_moment_in_which_one_is_missing_or_double() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    let mut rows = Vec::new();
    capture.append(trade(&[row("A", START, 0)])).unwrap();
    rows.push(row("A", START, 0));
    let reader = {
        let (database, stop) = (database.clone(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut last, mut looks) = (0, 0);
            while !stopped.load(std::sync::atomic::Ordering::SeqCst) {
                let mut ids: Vec<i64> = all(&database).into_iter().map(|(_, row)| row.id).collect();
                ids.sort_unstable();
                assert_eq!(ids, (0..ids.len() as i64).collect::<Vec<_>>(), "each row once");
                assert!(ids.len() >= last, "rows don't go away");
                (last, looks) = (ids.len(), looks + 1);
            }
            looks
        });
        (thread, stop)
    };
    for id in 1..400 {
        let next = row(["A", "B", "C"][id as usize % 3], START + id * SECOND, id);
        capture.append(trade(std::slice::from_ref(&next))).unwrap();
        rows.push(next);
        if id % 20 == 0 {
            let report = capture.write_down(Some("trade")).unwrap();
            assert!(report.rows > 0);
        }
    }
    reader.1.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(reader.0.join().unwrap() > 0);
    assert_eq!(all(&database), in_order(&rows, "UTC"));
    // Another process sees what is on disk.
    let other = Database::open(folder.path()).unwrap();
    assert_eq!(all(&other).len(), 381);
    capture.close().unwrap();
}

/// Two threads of it once kept each other from seeing that nobody else was left.
#[test]
fn a_capture_that_is_dropped_without_being_closed_lets_the_database_go() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    capture.append(trade(&[row("A", START, 0)])).unwrap();
    drop(capture);
    let clock = || TestClock::at(START + 400 * DAY);
    let again = (0..100).find_map(|_| match Capture::open_with(database.clone(), settings(), clock()) {
        Ok((capture, _)) => Some(capture),
        // Its threads are about to see it.
        Err(Error::Locked { .. }) => None,
        Err(error) => panic!("{error}"),
    });
    again.unwrap().close().unwrap();
}

#[test]
fn what_was_acknowledged_is_back_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = Vec::new();
    for start in 0..4 {
        let database = Database::open_or_create(folder.path()).unwrap();
        let clock = TestClock::at(START + 400 * DAY);
        let small = CaptureSettings { journal_segment_bytes: 300, journal_keep_bytes: 0, ..settings() };
        let (capture, recovered) = Capture::open_with(database.clone(), small, clock).unwrap();
        assert_eq!(recovered.rows, if start < 3 { rows.len() as u64 } else { 0 });
        assert_eq!(recovered.torn, None);
        for id in rows.len() as i64..rows.len() as i64 + 20 {
            let next = row(["A", "B"][id as usize % 2], START + (id * 7919 % 100) * SECOND, id);
            capture.append(trade(std::slice::from_ref(&next))).unwrap();
            rows.push(next);
        }
        assert_eq!(all(&database), in_order(&rows, "UTC"));
        if start == 2 {
            capture.write_down(None).unwrap();
            assert!(capture.status().journal_bytes < 2_000, "files that nobody needs are removed");
        }
        capture.close().unwrap();
    }
}

/// Small batches are put together when they come back: over large ones between them, and where a column was added.
#[test]
fn many_small_batches_are_back_after_a_start_as_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = Vec::new();
    {
        let database = Database::create(folder.path()).unwrap();
        let capture = open(&database);
        for step in 0..900_i64 {
            let count = if step % 300 == 150 { 9_000 } else { 1 + step % 3 };
            let first = rows.len() as i64;
            let of = |id: i64| row(["A", "B", "", "C"][id as usize % 4], START + (id * 7919 % 1000) * SECOND, id);
            let next: Vec<Row> = (first..first + count).map(of).collect();
            capture.append(trade(&next)).unwrap();
            rows.extend(next);
            if step == 400 {
                // From here on batches have a layout of their own.
                let first = batch(&rows[..1]);
                let mut columns: Vec<(String, ArrayRef)> = Vec::new();
                for (field, column) in first.schema().fields().iter().zip(first.columns()) {
                    columns.push((field.name().clone(), Arc::clone(column)));
                }
                columns.push(("venue".to_owned(), Arc::new(StringArray::from(vec!["X"]))));
                let wider = columns.into_iter().map(|(name, column)| (name, column, true));
                let wider = RecordBatch::try_from_iter_with_nullable(wider).unwrap();
                capture.append(Append::new("trade", wider)).unwrap();
                rows.push(rows[0].clone());
            }
            if step == 500 {
                capture.write_down(None).unwrap();
            }
        }
        assert_eq!(all(&database), in_order(&rows, "UTC"));
        capture.close().unwrap();
    }
    let database = Database::open(folder.path()).unwrap();
    let on_disk = all(&database).len();
    let (capture, recovered) =
        Capture::open_with(database.clone(), settings(), TestClock::at(START + 400 * DAY)).unwrap();
    assert_eq!(recovered.rows as usize, rows.len() - on_disk);
    assert!(recovered.batches >= 399);
    assert_eq!(all(&database), in_order(&rows, "UTC"));
    // What comes next goes on far behind the last number.
    assert_eq!(capture.append(trade(&[row("A", START, 1 << 40)])).unwrap().sequence, 902 + (1 << 32));
    capture.close().unwrap();
}

#[test]
fn a_repeat_is_acknowledged_and_not_taken_again_also_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    let send = |capture: &Capture, name: &str, sequence: u64| {
        let producer = Some(Producer::new(name.to_owned(), sequence));
        capture.append(Append { producer, ..trade(&[row("A", START, i64::try_from(sequence).unwrap())]) }).unwrap()
    };
    assert!(!send(&capture, "one", 5).duplicate);
    assert!(send(&capture, "one", 5).duplicate);
    assert!(send(&capture, "one", 4).duplicate);
    assert!(!send(&capture, "two", 5).duplicate);
    assert!(!send(&capture, "one", 7).duplicate);
    assert_eq!(capture.status().duplicates, 2);
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    let capture = open(&Database::open(folder.path()).unwrap());
    assert!(send(&capture, "one", 7).duplicate);
    assert!(!send(&capture, "one", 8).duplicate);
    assert_eq!(all(capture.database()).len(), 4);
    capture.close().unwrap();
}

/// A feed was killed with a batch on its way, and its next run cut batches elsewhere: the one on its way came between theirs.
#[test]
fn a_batch_that_does_not_follow_on_the_last_one_is_refused_also_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(&Database::create(folder.path()).unwrap());
    let send = |capture: &Capture, previous: u64, sequence: u64| {
        let producer = Some(Producer { previous: Some(previous), ..Producer::new("feed", sequence) });
        capture.append(Append { producer, ..trade(&[row("A", START, i64::try_from(sequence).unwrap())]) })
    };
    let refused = |sent: Result<Ack, Error>, previous: u64, last: u64| match sent.unwrap_err() {
        Error::OutOfTurn { producer, previous: was, last: stored } => {
            assert_eq!((producer.as_str(), was, stored), ("feed", previous, last));
        }
        other => panic!("{other}"),
    };
    refused(send(&capture, 5, 9), 5, 0);
    assert_eq!(capture.last_of("feed").unwrap(), None);
    assert!(!send(&capture, 0, 9).unwrap().duplicate);
    assert!(!send(&capture, 9, 15).unwrap().duplicate);
    refused(send(&capture, 9, 20), 9, 15);
    refused(send(&capture, 0, 20), 0, 15);
    refused(send(&capture, 16, 20), 16, 15);
    assert!(!send(&capture, 15, 25).unwrap().duplicate);
    assert!(send(&capture, 9, 20).unwrap().duplicate, "its records came in others");
    capture.close().unwrap();
    let capture = open(&Database::open(folder.path()).unwrap());
    refused(send(&capture, 15, 30), 15, 25);
    assert!(!send(&capture, 25, 30).unwrap().duplicate);
    assert_eq!(all(capture.database()).len(), 4);
    assert_eq!(capture.status().rejected, 0, "they are no refused rows");
    capture.close().unwrap();
}

#[test]
fn rows_too_far_ahead_go_to_quarantine_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let (capture, _) = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap();
    let rows = [row("A", START + 299 * SECOND, 0), row("A", START + 301 * SECOND, 1), row("A", START, 2)];
    let ack = capture.append(trade(&rows)).unwrap();
    assert_eq!((ack.rows, ack.quarantined), (3, 1));
    assert_eq!(all(&database).len(), 2);
    let quarantine = database.table("trade_quarantine").unwrap().snapshot().unwrap();
    assert_eq!(read(&quarantine, &Selection::default())[0].1, rows[1]);
    capture.close().unwrap();
}

/// Whoever made a table or a view of such a name got the rows of others, or kept all their rows away.
#[test]
fn names_of_quarantines_are_taken_by_capture_alone() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let (capture, _) = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap();
    let spec_named = |name: &str| TableSpec { name: name.to_owned(), ..spec("UTC") };
    for name in ["trade_quarantine", "Quote_Quarantine"] {
        let append = Append { spec: Some(spec_named(name)), ..Append::new(name, batch(&[row("A", START, 0)])) };
        let refused = capture.append(append).unwrap_err();
        assert!(matches!(refused, Error::Rejected { .. }) && refused.to_string().contains("reserved"), "{refused}");
        assert!(database.load(&spec_named(name), LoadOptions::default()).unwrap_err().to_string().contains("reserved"));
    }
    capture.append(trade(&[row("A", START + 301 * SECOND, 1)])).unwrap();
    // Once capture has made it, it is a table as others.
    capture.append(Append::new("trade_quarantine", batch(&[row("A", START, 2)]))).unwrap();
    let mut load = database.load(&spec_named("trade_quarantine"), LoadOptions::default()).unwrap();
    load.append(&batch(&[row("A", START, 3)])).unwrap();
    load.commit().unwrap();
    let quarantine = database.table("trade_quarantine").unwrap().snapshot().unwrap();
    assert_eq!(read(&quarantine, &Selection::default()).len(), 3);
    capture.close().unwrap();
}

/// Tables and views that had such a name before it was reserved.
#[test]
fn what_else_has_the_name_of_a_quarantine_gets_no_rows_and_keeps_none_away() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let make = |name: &str, columns: Vec<ColumnSpec>, symbol: Option<&str>| {
        let load = database.load_as_capture(&TableSpec::new(name, columns, "time", symbol), LoadOptions::default());
        load.unwrap().commit().unwrap();
    };
    let [time, sym, id] = spec("UTC").columns.try_into().unwrap();
    let text = ColumnSpec::new("id", ColumnType::Text);
    make("trade_quarantine", vec![time.clone(), sym.clone(), text], Some("sym"));
    make("trade_quarantine_quarantine", vec![time.clone(), id.clone()], None);
    // A quarantine of before, from when the table had other columns.
    make("quote_quarantine", vec![ColumnSpec::new("bid", ColumnType::Float64), sym, time], Some("sym"));
    let view = format!(
        r#"{{"version": 1, "blake3": "{VIEW_DIGEST}", "views": [{{"name": "bar_quarantine", "query": "select 1 as a"}}]}}"#
    );
    std::fs::write(folder.path().join("views.json"), view).unwrap();
    assert!(database.view("bar_quarantine").unwrap().is_some());
    let (capture, _) = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap();
    let (near, far) = (row("A", START, 0), row("B", START + 301 * SECOND, 1));
    for (table, quarantine) in [
        ("trade", "trade_quarantine_quarantine_quarantine"),
        ("quote", "quote_quarantine"),
        ("bar", "bar_quarantine_quarantine"),
    ] {
        let spec = TableSpec { name: table.to_owned(), ..spec("UTC") };
        let append = Append { spec: Some(spec), ..Append::new(table, batch(&[near.clone(), far.clone()])) };
        let ack = capture.append(append).unwrap();
        assert_eq!((ack.rows, ack.quarantined), (2, 1), "{table}");
        let of = |name: &str| {
            let snapshot = database.table(name).unwrap().snapshot().unwrap();
            read(&snapshot, &Selection::default()).into_iter().map(|(_, row)| row).collect::<Vec<_>>()
        };
        assert_eq!((of(table), of(quarantine)), (vec![near.clone()], vec![far.clone()]), "{table}");
    }
    for name in ["trade_quarantine", "trade_quarantine_quarantine"] {
        let snapshot = database.table(name).unwrap().snapshot().unwrap();
        assert_eq!(snapshot.partitions().len(), 0, "{name}");
    }
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    let quote = database.table("quote_quarantine").unwrap().snapshot().unwrap();
    assert_eq!(read(&quote, &Selection::default())[0].1, far);
}

/// They were taken, and the values of the column were gone.
#[test]
fn values_of_a_dropped_column_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(&Database::create(folder.path()).unwrap());
    let send = |price: Option<f64>| {
        let columns: [(&str, ArrayRef); 3] = [
            ("time", Arc::new(TimestampMillisecondArray::from(vec![START / 1_000_000]))),
            ("sym", Arc::new(StringArray::from(vec!["A"]))),
            ("price", Arc::new(Float64Array::from(vec![price]))),
        ];
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).unwrap();
        capture.append(Append::new("trade", rows))
    };
    send(Some(1.0)).unwrap();
    capture.database().table("trade").unwrap().drop_column("price").unwrap();
    let error = send(Some(2.0)).unwrap_err();
    assert!(error.to_string().contains("the column \"price\" was dropped: send rows without it"), "{error}");
    assert!(matches!(error, Error::Rejected { .. }) && !error.is_retryable());
    send(None).unwrap();
    assert_eq!(capture.spec("trade").unwrap().unwrap().columns.len(), 2);
    capture.write_down(None).unwrap();
    let rows: u64 = capture.database().table("trade").unwrap().snapshot().unwrap().rows();
    assert_eq!(rows, 2);
}

#[test]
fn columns_are_matched_cast_and_added_and_what_does_not_fit_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    capture.append(trade(&[row("A", START, 0)])).unwrap();
    let times =
        || Arc::new(TimestampMillisecondArray::from(vec![START / 1_000_000, START / 1_000_000 + 1])) as ArrayRef;
    let send = |columns: Vec<(&str, ArrayRef)>| {
        capture.append(Append::new(
            "TRADE",
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap(),
        ))
    };
    let symbols = || Arc::new(StringArray::from(vec![Some("B"), None])) as ArrayRef;
    let ids = || Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef;
    let prices = || Arc::new(Float64Array::from(vec![Some(1.5), None])) as ArrayRef;
    send(vec![("TIME", times()), ("sym", symbols()), ("Id", ids()), ("price", prices())]).unwrap();
    assert_eq!(all(&database).len(), 3);
    assert_eq!(capture.spec("trade").unwrap().unwrap().columns[3].name, "price");
    let refused: Vec<(&str, Vec<(&str, ArrayRef)>)> = vec![
        ("has values", vec![("time", times()), ("sym", symbols()), ("id", prices())]),
        ("no time", vec![("sym", symbols()), ("id", ids())]),
        ("text for a number", vec![("time", times()), ("id", symbols())]),
    ];
    for (what, columns) in refused {
        let error = send(columns).unwrap_err();
        assert!(matches!(error, Error::Rejected { .. }), "{what}: {error}");
        assert!(!error.is_retryable());
    }
    assert_eq!(all(&database).len(), 3);
    let strict = CaptureSettings { create_tables: false, ..settings() };
    capture.close().unwrap();
    let (capture, _) = Capture::open(Database::open(folder.path()).unwrap(), strict).unwrap();
    assert!(matches!(
        capture.append(Append::new("other", batch(&[row("A", START, 0)]))),
        Err(Error::NoSuchTable { .. })
    ));
    capture.close().unwrap();
}

#[test]
fn one_process_captures_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = open(&database);
    let error = Capture::open(database.clone(), settings()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    capture.close().unwrap();
    drop(capture);
    open(&database).close().unwrap();
}

#[test]
fn a_roll_joins_the_segments_of_dates_that_ended_and_may_be_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let clock = TestClock::at(START);
    let (capture, _) = Capture::open_with(database.clone(), settings(), Arc::clone(&clock) as _).unwrap();
    let mut rows = Vec::new();
    // Three days in New York, with the change to summer time on the second.
    for id in 0..300 {
        let time = START + id * DAY / 100 + id;
        clock.0.store(time, std::sync::atomic::Ordering::SeqCst);
        rows.push(row(["A", "B"][id as usize % 2], time, id));
        let append =
            Append { spec: Some(spec("America/New_York")), ..Append::new("trade", batch(&rows[id as usize..])) };
        capture.append(append).unwrap();
        if id % 10 == 0 {
            capture.write_down(None).unwrap();
        }
    }
    let now = START + 3 * DAY;
    clock.0.store(now, std::sync::atomic::Ordering::SeqCst);
    let report = capture.roll(Some(now)).unwrap();
    assert!(report.partitions >= 2, "{report:?}");
    assert_eq!(capture.roll(Some(now)).unwrap().partitions, 0);
    assert_eq!(all(&database), in_order(&rows, "America/New_York"));
    let snapshot = database.table("trade").unwrap().snapshot().unwrap();
    let ended: Vec<usize> = snapshot.partitions().iter().map(|partition| partition.segments.len()).collect();
    assert_eq!(ended[..3], [1, 1, 1], "{ended:?}");
    // A row of a day that was rolled: visible at once, merged by the next roll.
    rows.push(row("A", START + 5, 300));
    capture.append(Append::new("trade", batch(&rows[300..]))).unwrap();
    assert_eq!(all(&database), in_order(&rows, "America/New_York"));
    capture.roll(Some(now)).unwrap();
    assert_eq!(all(&Database::open(folder.path()).unwrap()).len(), 301);
    assert_eq!(all(&database), in_order(&rows, "America/New_York"));
    // Compaction by others changes nothing for readers.
    database
        .table("trade")
        .unwrap()
        .compact(&CompactOptions::default(), &mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(all(&database), in_order(&rows, "America/New_York"));
    capture.close().unwrap();
}
