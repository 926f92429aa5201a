//! Tables that get other names between two captures: rows that the journal has still under the old name are neither lost nor doubled.

use std::sync::Arc;

use splay_capture::{Append, Capture, CaptureSettings, FollowSettings, JournalReport, follow};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Error, Selection, Settings};

use crate::rows::{Row, SECOND, START, TestClock, batch, read, row, settings, spec};

fn database(storage: &FaultStorage) -> Database {
    Database::open_on(Arc::new(storage.clone())).unwrap()
}

/// Files of the journal stay that nobody needs.
fn keeping() -> CaptureSettings {
    CaptureSettings { journal_keep_bytes: 1 << 30, journal_segment_bytes: 1_000, ..settings() }
}

fn open(storage: &FaultStorage, settings: CaptureSettings) -> Capture {
    Capture::open_with(database(storage), settings, TestClock::at(START + 3_600 * SECOND)).unwrap().0
}

fn rows(first: i64, count: i64) -> Vec<Row> {
    (first..first + count).map(|id| row(["A", "B"][id as usize % 2], START + id * SECOND, id)).collect()
}

fn append(capture: &Capture, table: &str, rows: &[Row]) {
    let spec = splay_store::TableSpec { name: table.to_owned(), ..spec("UTC") };
    capture.append(Append { spec: Some(spec), ..Append::new(table, batch(rows)) }).unwrap();
}

fn ids(database: &Database, table: &str) -> Vec<i64> {
    let rows = read(&database.table(table).unwrap().snapshot().unwrap(), &Selection::default());
    let mut ids: Vec<i64> = rows.into_iter().map(|(_, row)| row.id).collect();
    ids.sort_unstable();
    ids
}

fn captured(storage: &FaultStorage, table: &str, first: i64) {
    let capture = open(storage, keeping());
    append(&capture, table, &rows(first, 40));
    capture.write_down(None).unwrap();
    capture.close().unwrap();
}

fn created() -> FaultStorage {
    let storage = FaultStorage::new();
    Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    storage
}

fn rename(database: &Database, from: &str, to: &str) {
    database.table(from).unwrap().rename(to, |_| false).unwrap();
}

#[test]
fn rows_of_the_old_name_stay_in_their_table() {
    let storage = created();
    captured(&storage, "trade", 0);
    rename(&database(&storage), "trade", "tape");
    // One that follows the journal, and one that starts.
    let reader = database(&storage);
    follow(&reader, FollowSettings::default());
    assert_eq!((ids(&reader, "tape").len(), reader.tables().unwrap()), (40, vec!["tape".to_owned()]));
    let capture = open(&storage, keeping());
    assert_eq!(capture.database().tables().unwrap(), ["tape"]);
    // A table of the old name is another one, whose rows are alive when the process dies.
    append(&capture, "trade", &rows(100, 30));
    append(&capture, "tape", &rows(200, 10));
    assert_eq!((ids(capture.database(), "trade").len(), ids(capture.database(), "tape").len()), (30, 50));
    assert_eq!((ids(&reader, "trade").len(), ids(&reader, "tape").len()), (30, 50));
    let killed = storage.copy();
    drop(capture);
    let capture = open(&killed, keeping());
    let ids_of = |table| ids(capture.database(), table);
    assert_eq!(ids_of("trade"), (100..130).collect::<Vec<i64>>());
    assert_eq!(ids_of("tape"), (0..40).chain(200..210).collect::<Vec<i64>>());
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    let again = open(&killed, keeping());
    assert_eq!((ids(again.database(), "trade").len(), ids(again.database(), "tape").len()), (30, 50));
}

#[test]
fn a_table_that_takes_a_name_takes_no_rows_with_it() {
    let storage = created();
    captured(&storage, "trade", 0);
    captured(&storage, "other", 50);
    let writer = database(&storage);
    rename(&writer, "trade", "tape");
    rename(&writer, "other", "trade");
    let reader = database(&storage);
    follow(&reader, FollowSettings::default());
    let of = |first: i64| (first..first + 40).collect::<Vec<i64>>();
    assert_eq!((ids(&reader, "trade"), ids(&reader, "tape")), (of(50), of(0)));
    let capture = open(&storage, keeping());
    assert_eq!((ids(capture.database(), "trade"), ids(capture.database(), "tape")), (of(50), of(0)));
    append(&capture, "trade", &rows(300, 5));
    drop(capture);
    let again = open(&storage.copy(), keeping());
    assert_eq!(ids(again.database(), "trade"), of(50).into_iter().chain(300..305).collect::<Vec<i64>>());
    assert_eq!(again.database().tables().unwrap(), ["tape", "trade"]);
}

#[test]
fn the_journal_lets_go_of_rows_of_an_old_name() {
    let storage = created();
    captured(&storage, "trade", 0);
    rename(&database(&storage), "trade", "tape");
    let capture = open(&storage, CaptureSettings { journal_keep_bytes: 0, journal_segment_bytes: 1_000, ..settings() });
    for number in 0..10 {
        append(&capture, "tape", &rows(100 + number * 20, 20));
    }
    capture.write_down(None).unwrap();
    let report = JournalReport::of(capture.database()).unwrap();
    let tables: Vec<&str> = report.files.iter().flat_map(|file| &file.tables).map(|of| of.table.as_str()).collect();
    assert!(!tables.contains(&"trade"), "{tables:?}");
    assert_eq!(ids(capture.database(), "tape").len(), 240);
}

/// Only the process that captures knows all rows.
#[test]
fn rows_of_another_process_keep_a_table_from_being_renamed() {
    let storage = created();
    let capture = open(&storage, keeping());
    append(&capture, "trade", &rows(0, 20));
    let refused = |database: &Database| match database.table("trade").unwrap().rename("tape", |_| false) {
        Err(error @ Error::RowsElsewhere { .. }) => error,
        other => panic!("{other:?}"),
    };
    let other = database(&storage);
    other.capture_elsewhere(true);
    refused(&other);
    let reader = database(&storage);
    follow(&reader, FollowSettings::default());
    refused(&reader);
    // The process dies, and the journal alone has them.
    let dead = storage.copy();
    drop(capture);
    let reader = database(&dead);
    follow(&reader, FollowSettings::default());
    refused(&reader);
    // They are written down first, as the command does.
    let capture = open(&dead, settings());
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    rename(&database(&dead), "trade", "tape");
    assert_eq!(ids(&database(&dead), "tape").len(), 20);
}

/// Only the process that captures knows all rows, also for another name of a column.
#[test]
fn rows_of_another_process_keep_a_column_from_being_renamed() {
    let storage = created();
    let capture = open(&storage, keeping());
    append(&capture, "trade", &rows(0, 40));
    capture.write_down(None).unwrap();
    append(&capture, "trade", &rows(40, 10));
    let refused = |database: &Database| {
        let renamed = database.table("trade").unwrap().rename_column("id", "number");
        assert!(matches!(renamed, Err(Error::RowsElsewhere { .. })), "{renamed:?}");
    };
    let other = database(&storage);
    other.capture_elsewhere(true);
    refused(&other);
    // The process dies, and the journal alone has the last rows.
    let dead = storage.copy();
    drop(capture);
    let reader = database(&dead);
    follow(&reader, FollowSettings::default());
    refused(&reader);
    assert_eq!(ids(&reader, "trade"), (0..50).collect::<Vec<i64>>());
    let capture = open(&dead, keeping());
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    database(&dead).table("trade").unwrap().rename_column("id", "number").unwrap();
}
