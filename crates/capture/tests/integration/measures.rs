//! What operators are told, of a process that captures and of files.

use std::sync::atomic::Ordering;

use splay_capture::{AckClass, Append, Capture, Producer, Report};
use splay_store::Database;

use crate::rows::{SECOND, START, TestClock, batch, row, settings, spec};

fn trade(first: i64, rows: i64, producer: Option<u64>) -> Append {
    let rows: Vec<_> = (first..first + rows).map(|id| row("A", START + id, id)).collect();
    Append {
        spec: Some(spec("UTC")),
        producer: producer.map(|sequence| Producer::new("feed".to_owned(), sequence)),
        ack: Some(AckClass::Process),
        ..Append::new("trade", batch(&rows))
    }
}

#[test]
fn rows_are_measured_once_they_are_acknowledged_and_repeats_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let clock = TestClock::at(START + 2 * SECOND);
    let (capture, _) = Capture::open_with(database, settings(), clock.clone()).unwrap();
    capture.append(trade(0, 3, Some(1))).unwrap();
    assert!(capture.append(trade(0, 3, Some(1))).unwrap().duplicate);
    clock.0.store(START + 3 * SECOND, Ordering::SeqCst);
    capture.append(trade(3, 2, Some(2))).unwrap();
    // Out of order by time, since there is no column of numbers.
    capture.append(trade(1, 1, None)).unwrap();
    capture.close().unwrap();
    let status = capture.status();
    let table = &status.tables[0];
    assert_eq!((table.live_rows, table.last_sequence, table.written_sequence), (6, 3, 0));
    assert_eq!(table.live_since, Some(START + 2 * SECOND));
    assert_eq!((table.quality.rows, table.quality.series, table.quality.defects.out_of_order), (6, 1, 1));
    let latencies = &table.latencies;
    assert_eq!((latencies.received.rows(), latencies.visible.rows(), latencies.durable.rows()), (6, 6, 6));
    // Two seconds are below 2.62, three below 5.24.
    assert_eq!((latencies.received.counts[18], latencies.received.counts[19]), (3, 3));
    assert!((latencies.received.sum_seconds - 15.0).abs() < 1e-6);
    assert_eq!((status.producers, status.producers_latest[0].sequence), (1, 2));
}

#[test]
fn a_producer_is_told_its_last_number_also_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let open = || Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap().0;
    let capture = open();
    assert_eq!(capture.last_of("feed").unwrap(), None);
    capture.append(trade(0, 3, Some(7))).unwrap();
    assert_eq!(capture.last_of("feed").unwrap(), Some(7));
    assert!(capture.append(trade(0, 3, Some(5))).unwrap().duplicate);
    assert_eq!((capture.last_of("feed").unwrap(), capture.last_of("Feed").unwrap()), (Some(7), None));
    capture.close().unwrap();
    let capture = open();
    assert_eq!(capture.last_of("feed").unwrap(), Some(7));
    capture.close().unwrap();
}

#[test]
fn files_tell_what_the_process_told_that_wrote_them() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let empty = Report::of_files(&database).unwrap();
    assert_eq!((empty.state, empty.tables.len(), empty.capture.sequence), ("at_rest", 0, 0));
    let (capture, _) = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap();
    capture.append(trade(0, 10, Some(1))).unwrap();
    capture.write_down(None).unwrap();
    capture.append(trade(10, 4, Some(2))).unwrap();
    assert_eq!(Report::of_files(&database).unwrap().state, "elsewhere");
    capture.close().unwrap();
    let status = capture.status();
    let seen = Report::of_files(&database).unwrap();
    assert_eq!((seen.state, seen.journal_damage.as_ref()), ("at_rest", None));
    let rows = |table: &splay_capture::TableStatus| {
        (table.table.clone(), table.live_rows, table.last_sequence, table.written_sequence)
    };
    let tables = |status: &splay_capture::Status| status.tables.iter().map(rows).collect::<Vec<_>>();
    assert_eq!(tables(&seen.capture), tables(&status));
    assert_eq!(tables(&status), [("trade".to_owned(), 4, 2, 1)]);
    assert_eq!(seen.capture.journal_bytes, status.journal_bytes);
    assert_eq!((seen.capture.sequence, &seen.capture.producers_latest), (status.sequence, &status.producers_latest));
    assert_eq!((seen.tables[0].stored_rows, seen.tables[0].segments), (10, 1));
}
