//! Readers of the journal: another process that opens the database sees what was acknowledged, in the order in which the one that
//! captures sees it, at each moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::Int64Array;
use arrow::record_batch::RecordBatch;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{Append, Capture, CaptureSettings, FollowSettings, follow};
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Error, Settings};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, in_order, row, settings, spec};

/// A database as another process opens it.
fn reader(storage: &FaultStorage) -> Database {
    let database = Database::open_on(Arc::new(storage.clone())).unwrap();
    follow(&database, FollowSettings::default());
    database
}

fn empty() -> (FaultStorage, Database) {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    (storage, database)
}

fn append(capture: &Capture, rows: &[Row]) {
    capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(rows)) }).unwrap();
}

/// Small journal files that go as soon as they may.
fn small() -> CaptureSettings {
    CaptureSettings { journal_segment_bytes: 2_000, journal_keep_bytes: 0, late_s: 1, ..settings() }
}

#[test]
fn rows_are_seen_while_a_process_captures_and_once_it_has_ended() {
    let (storage, database) = empty();
    let other = reader(&storage);
    assert!(other.tables().unwrap().is_empty());
    let capture = Capture::open_with(database, settings(), TestClock::at(START)).unwrap().0;
    let rows = [row("B", START, 0), row("A", START, 1), row("", START - DAY, 2)];
    append(&capture, &rows);
    assert_eq!(all(&other), in_order(&rows, "UTC"));
    assert_eq!(other.table("trade").unwrap().stored().unwrap().rows(), 0, "in no file");
    assert_eq!(all(&reader(&storage)), in_order(&rows, "UTC"), "who comes later");
    capture.close().unwrap();
    assert_eq!(all(&other), in_order(&rows, "UTC"), "at rest");
    assert_eq!(all(&reader(&storage)), in_order(&rows, "UTC"), "who comes then");
    let killed = storage.crash(&mut |bound| bound - 1);
    assert_eq!(all(&reader(&killed)), in_order(&rows, "UTC"), "after a kill");
}

#[test]
fn a_reader_sees_at_each_moment_what_the_process_sees_that_captures() {
    let seeds: u64 = std::env::var("SPLAY_FOLLOW_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (storage, database) = empty();
        let clock = TestClock::at(START + 60 * SECOND);
        let mut capture = Capture::open_with(database.clone(), small(), clock.clone()).unwrap().0;
        let old = reader(&storage);
        let mut id = 0;
        for step in 0..60 {
            let now = clock.0.fetch_add(SECOND, Ordering::SeqCst);
            match random.random_range(0..14) {
                0 => drop(capture.write_down(None).unwrap()),
                1 => drop(capture.roll(Some(START + random.random_range(0..3) * DAY)).unwrap()),
                2 => {
                    capture.close().unwrap();
                    capture = Capture::open_with(database.clone(), small(), clock.clone()).unwrap().0;
                }
                3 if id > 0 => {
                    let table = database.table("trade").unwrap();
                    table.compact(&Default::default(), &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
                }
                _ => {
                    let count = random.random_range(1..9);
                    let rows: Vec<Row> = (id..id + count)
                        .map(|id| {
                            let symbol = ["", "A", "B", "C"][random.random_range(0..4)];
                            // Many of one time, some late, some of the day before.
                            let late = [0, 0, 1, 30, 86_400][random.random_range(0..5)];
                            row(symbol, now - late * SECOND, id)
                        })
                        .collect();
                    id += count;
                    append(&capture, &rows);
                }
            }
            if id > 0 && random.random_bool(0.7) {
                let expected = all(&database);
                assert_eq!(all(&old), expected, "seed {seed}, step {step}: one that was there");
                assert_eq!(all(&reader(&storage)), expected, "seed {seed}, step {step}: one that comes");
            }
        }
        capture.close().unwrap();
    }
}

/// Rows that were written down after the journal was looked at and before the manifest was: the order of the looks decides.
#[test]
fn rows_that_move_between_two_looks_are_seen_once() {
    let (storage, database) = empty();
    let clock = TestClock::at(START);
    let capture = Capture::open_with(database, small(), clock).unwrap().0;
    let rows: Vec<Row> = (0..50).map(|id| row(["A", "B"][id as usize % 2], START + id, id)).collect();
    append(&capture, &rows[..25]);
    let other = reader(&storage);
    let table = other.table("trade").unwrap();
    let followed = other.follow(None).unwrap();
    for late in 0..2 {
        let snapshot = followed.over(&table, &|| {
            if late == 0 && table.stored()?.rows() == 0 {
                append(&capture, &rows[25..]);
                capture.write_down(None).unwrap();
            }
            table.stored()
        });
        assert_eq!(crate::rows::read(&snapshot.unwrap(), &Default::default()), in_order(&rows, "UTC"));
    }
    capture.close().unwrap();
}

#[test]
fn who_captures_itself_does_not_follow_besides() {
    let (storage, database) = empty();
    let rows: Vec<Row> = (0..9).map(|id| row("A", START + id, id)).collect();
    follow(&database, FollowSettings::default());
    for round in 0..3 {
        let capture = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap().0;
        append(&capture, &rows[round * 3..round * 3 + 3]);
        assert_eq!(all(&database), in_order(&rows[..round * 3 + 3], "UTC"), "while it captures");
        capture.close().unwrap();
        assert_eq!(all(&database), in_order(&rows[..round * 3 + 3], "UTC"), "it follows again");
    }
    let storage: Arc<dyn Storage> = Arc::new(storage);
    assert!(storage.list(".journal").unwrap().len() > 3, "nothing was written down");
}

/// The bytes of the newest journal file that has rows, and its name.
fn newest(storage: &FaultStorage) -> (String, Vec<u8>) {
    let files = storage.list(".journal").unwrap().into_iter().filter(|entry| entry.name.ends_with(".jnl"));
    let path = format!(".journal/{}", files.last().unwrap().name);
    let bytes = storage.read(&path).unwrap();
    (path, bytes)
}

fn put(storage: &FaultStorage, path: &str, bytes: &[u8]) {
    storage.remove(path).unwrap();
    storage.create(path).unwrap().write(bytes).unwrap();
}

#[test]
fn a_torn_end_is_the_end_and_a_damaged_middle_an_error() {
    let (storage, database) = empty();
    let capture = Capture::open_with(database, settings(), TestClock::at(START)).unwrap().0;
    let rows: Vec<Row> = (0..6).map(|id| row("A", START + id, id)).collect();
    for one in &rows {
        append(&capture, std::slice::from_ref(one));
    }
    // As a kill leaves it, and as an orderly end does.
    let killed = storage.copy();
    capture.close().unwrap();
    let (path, bytes) = newest(&storage);
    for end in 0..bytes.len() {
        put(&storage, &path, &bytes[..end]);
        let cut = reader(&storage).table("trade").unwrap().snapshot();
        assert!(matches!(cut, Err(Error::Corrupt { .. })), "the catalog has all {} bytes, and not {end}", bytes.len());
    }
    let storage = killed;
    let (path, bytes) = newest(&storage);
    let other = reader(&storage);
    assert_eq!(all(&other).len(), 6);
    let (mut seen, mut begun) = (0, 0);
    for end in 0..bytes.len() {
        put(&storage, &path, &bytes[..end]);
        if begun == 0 && reader(&storage).table("trade").unwrap().snapshot().is_err() {
            continue;
        }
        begun = if begun == 0 { end } else { begun };
        let now = all(&reader(&storage)).len();
        assert!(now == seen || now == seen + 1, "{seen} rows and {now} up to byte {end}");
        seen = now;
    }
    assert!((32..200).contains(&begun), "what was there before the first row is there for certain: {begun}");
    assert!(seen >= 5, "but for the last byte: {seen}");
    for at in 0..bytes.len() - 120 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        put(&storage, &path, &damaged);
        let table = reader(&storage).table("trade").unwrap();
        match table.snapshot() {
            Err(Error::Corrupt { path: named, offset, .. }) => {
                assert!(named.ends_with(&path) && offset <= at as u64, "{} at {offset}, byte {at}", named.display());
            }
            Err(other) => panic!("{other}"),
            Ok(snapshot) => panic!("byte {at}: {} rows", snapshot.rows()),
        }
    }
    put(&storage, &path, &bytes);
    assert_eq!(all(&other).len(), 6, "one that has read it before");
}

/// The first frame that holds a batch.
fn rows_frame(mut frames: &[u8]) -> Vec<u8> {
    loop {
        let length = 8 + u32::from_le_bytes(frames[..4].try_into().unwrap()) as usize;
        if frames[8] == 2 {
            return frames[..length].to_vec();
        }
        frames = &frames[length..];
    }
}

#[test]
fn rows_that_were_taken_back_are_forgotten() {
    let (storage, database) = empty();
    let capture = Capture::open_with(database.clone(), settings(), TestClock::at(START)).unwrap().0;
    append(&capture, &[row("A", START, 0)]);
    let (path, before) = newest(&storage);
    append(&capture, &[row("A", START, 1)]);
    let (_, first) = newest(&storage);
    // As a kill leaves it.
    let storage = {
        let killed = storage.copy();
        capture.close().unwrap();
        killed
    };
    let other = reader(&storage);
    assert_eq!(all(&other).len(), 2);
    // The same number once more, as after a write that found no room.
    let second = {
        let (aside, _) = (storage.copy(), put(&storage, &path, &before));
        drop(aside);
        let mut bytes = before.clone();
        let mut frame = rows_frame(&first[before.len()..]);
        // The number of the row is its last value.
        let at = frame.len() - 8;
        assert_eq!(frame[at..], 1_i64.to_le_bytes());
        frame[at..].copy_from_slice(&7_i64.to_le_bytes());
        let crc = crc32c::crc32c(&frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&frame);
        bytes
    };
    put(&storage, &path, &second);
    let ids: Vec<i64> = all(&other).into_iter().map(|(_, row)| row.id).collect();
    assert_eq!(ids, [0, 7]);
}

#[test]
fn more_rows_than_memory_are_refused_with_the_setting_that_says_so() {
    let (storage, database) = empty();
    let capture = Capture::open_with(database, settings(), TestClock::at(START)).unwrap().0;
    let rows: Vec<Row> = (0..5_000).map(|id| row("A", START + id, id)).collect();
    append(&capture, &rows);
    let other = Database::open_on(Arc::new(storage.clone())).unwrap();
    follow(&other, FollowSettings { bytes_max: 60_000 });
    let table = other.table("trade").unwrap();
    for _ in 0..3 {
        let error = table.snapshot().unwrap_err().to_string();
        assert!(error.starts_with("setting journal_memory: ") && error.contains("60000 bytes"), "{error}");
    }
    capture.write_down(None).unwrap();
    assert_eq!(table.snapshot().unwrap().rows(), 5_000, "they are in files");
    capture.close().unwrap();
}

#[test]
fn columns_that_come_later_are_null_in_older_rows() {
    let (storage, database) = empty();
    let capture = Capture::open_with(database, settings(), TestClock::at(START)).unwrap().0;
    append(&capture, &[row("A", START, 0)]);
    let other = reader(&storage);
    assert_eq!(all(&other).len(), 1);
    let more = batch(&[row("A", START, 1), row("B", START, 2)]);
    let mut columns: Vec<(&str, arrow::array::ArrayRef)> =
        ["time", "sym", "id"].map(|name| (name, Arc::clone(more.column_by_name(name).unwrap()))).to_vec();
    columns.push(("size", Arc::new(Int64Array::from(vec![5, 6]))));
    capture.append(Append::new("trade", RecordBatch::try_from_iter(columns).unwrap())).unwrap();
    let snapshot = other.table("trade").unwrap().snapshot().unwrap();
    assert_eq!((snapshot.rows(), snapshot.spec().columns.len()), (3, 4));
    let segments = snapshot.partitions()[0].segments.clone();
    let nulls: usize =
        segments.iter().map(|segment| segment.read_all(snapshot.spec(), &[3]).unwrap().column(0).null_count()).sum();
    assert_eq!(nulls, 1);
    capture.close().unwrap();
}
