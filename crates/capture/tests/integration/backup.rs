//! Backups: what was acknowledged before one began is in it, once, whatever goes on meanwhile, and whenever it is interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use splay_capture::{Append, Capture, CaptureSettings, back_up};
use splay_store::storage::fault::FaultStorage;
use splay_store::storage::{LockMode, Storage};
use splay_store::{Backup, Database, Error, Settings};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, in_order, row, settings, spec};

fn empty() -> (FaultStorage, Database) {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    (storage, database)
}

fn small() -> CaptureSettings {
    CaptureSettings { journal_segment_bytes: 2_000, journal_keep_bytes: 0, late_s: 1, ..settings() }
}

fn append(capture: &Capture, rows: &[Row]) -> u64 {
    capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(rows)) }).unwrap().sequence
}

fn rows(first: i64, count: i64) -> Vec<Row> {
    (first..first + count).map(|id| row(["A", "B", "C"][id as usize % 3], START + id % 7 * SECOND, id)).collect()
}

/// The same, each later than the one before.
fn in_turn(first: i64, count: i64) -> Vec<Row> {
    (first..first + count).map(|id| row(["A", "B", "C"][id as usize % 3], START + id * SECOND, id)).collect()
}

/// The newest backup of a folder as a database.
fn restored(at: &FaultStorage) -> (FaultStorage, Database) {
    let to = FaultStorage::new();
    let backup = Backup::read(at).unwrap().unwrap();
    backup.verify(at).unwrap();
    backup.restore(at, &to).unwrap();
    let database = Database::open_on(Arc::new(to.clone())).unwrap();
    (to, database)
}

/// Rows that the next batches would be taken for if numbers went on where the journal ends.
#[test]
fn numbers_go_on_behind_those_of_the_tables_after_a_restore() {
    let (_, database) = empty();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + 60 * SECOND)).unwrap().0;
    for number in 0..40 {
        append(&capture, &rows(number * 3, 3));
    }
    capture.write_down(None).unwrap();
    let captured = database.table("trade").unwrap().stored().unwrap().captured();
    let at = FaultStorage::new();
    back_up(&database, Arc::new(at.clone())).unwrap();
    capture.close().unwrap();
    let (to, database) = restored(&at);
    for entry in to.list(".journal").unwrap() {
        // The worst of all journals: none.
        to.remove(&format!(".journal/{}", entry.name)).unwrap();
    }
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + 60 * SECOND)).unwrap().0;
    assert!(append(&capture, &rows(120, 3)) > captured.sequence);
    assert_eq!(all(&database), in_order(&rows(0, 123), "UTC"));
    capture.close().unwrap();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + 60 * SECOND)).unwrap().0;
    assert_eq!(all(&database), in_order(&rows(0, 123), "UTC"), "not taken for rows that are stored");
    capture.close().unwrap();
}

#[test]
fn a_backup_amid_rows_and_write_downs_has_whole_batches_and_all_that_were_acknowledged() {
    let (_, database) = empty();
    let clock = TestClock::at(START + 4 * SECOND);
    let capture = Capture::open_with(database.clone(), small(), clock).unwrap().0;
    append(&capture, &rows(0, 3));
    let (acknowledged, is_done) = (AtomicI64::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=40_000 {
                if is_done.load(Ordering::SeqCst) {
                    break;
                }
                append(&capture, &rows(number * 3, 3));
                acknowledged.store(number + 1, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                // Rows of the last seconds stay in memory, so that files have batches in part.
                capture.roll(Some(START + 3 * DAY)).unwrap();
            }
        });
        let at = FaultStorage::new();
        for round in 0..12 {
            let before = acknowledged.load(Ordering::SeqCst);
            back_up(&database, Arc::new(at.clone())).unwrap();
            let (_, other) = restored(&at);
            let capture = Capture::open_with(other.clone(), small(), TestClock::at(START)).unwrap().0;
            let mut ids: Vec<i64> = all(&other).into_iter().map(|(_, row)| row.id).collect();
            ids.sort_unstable();
            capture.close().unwrap();
            assert_eq!(ids, (0..ids.len() as i64).collect::<Vec<_>>(), "round {round}");
            assert!(ids.len() % 3 == 0 && ids.len() as i64 >= before * 3, "round {round}: {} of {before}", ids.len());
        }
        is_done.store(true, Ordering::SeqCst);
    });
    capture.close().unwrap();
}

#[test]
fn a_backup_that_is_interrupted_leaves_the_one_before_and_is_finished_by_the_next() {
    let (_, database) = empty();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + 4 * SECOND)).unwrap().0;
    for number in 0..10 {
        append(&capture, &in_turn(number * 3, 3));
    }
    capture.write_down(None).unwrap();
    let at = FaultStorage::new();
    let first = back_up(&database, Arc::new(at.clone())).unwrap();
    append(&capture, &in_turn(30, 3));
    capture.write_down(None).unwrap();
    append(&capture, &in_turn(33, 3));
    let copy = at.copy();
    let second = back_up(&database, Arc::new(copy.clone())).unwrap();
    assert!(second.new_files + 3 < second.files && second.files > first.files, "{first:?}, {second:?}");
    let operations = copy.operations() - at.copy().operations();
    for operation in 0..operations {
        let at = at.copy();
        at.stop_after(Some(operation));
        let done = back_up(&database, Arc::new(at.clone()));
        at.stop_after(None);
        for image in [at.copy(), at.crash(&mut |_| 0), at.crash(&mut |bound| bound - 1)] {
            let backup = Backup::read(&image).unwrap().unwrap();
            let expected = if backup.generation == 1 { 30 } else { 36 };
            assert!(done.is_err() || backup.generation == 2, "operation {operation}: done and not there");
            let (_, other) = restored(&image);
            let capture = Capture::open_with(other.clone(), small(), TestClock::at(START)).unwrap().0;
            assert_eq!(all(&other), in_order(&in_turn(0, expected), "UTC"), "operation {operation}");
            capture.close().unwrap();
            back_up(&database, Arc::new(image.clone())).unwrap_or_else(|error| panic!("{operation}: {error}"));
            let folders = image.list("").unwrap();
            assert_eq!(folders.iter().filter(|entry| entry.is_dir).count(), 1, "operation {operation}: {folders:?}");
            let (_, other) = restored(&image);
            assert_eq!(other.table("trade").unwrap().stored().unwrap().rows(), 33, "operation {operation}");
        }
    }
    capture.close().unwrap();
}

/// It holds no rows, and is as large as a hundred journal files of a quiet table.
#[test]
fn the_reserve_is_in_no_backup() {
    let (storage, database) = empty();
    let with_reserve = CaptureSettings { disk_reserve_bytes: 100_000, ..settings() };
    let capture = Capture::open_with(database.clone(), with_reserve, TestClock::at(START)).unwrap().0;
    append(&capture, &rows(0, 3));
    let names = |storage: &FaultStorage| -> Vec<String> {
        storage.list(".journal").unwrap().into_iter().map(|entry| entry.name).collect()
    };
    assert!(names(&storage).contains(&"reserve".to_owned()));
    let at = FaultStorage::new();
    back_up(&database, Arc::new(at.clone())).unwrap();
    let (to, other) = restored(&at);
    assert!(!names(&to).contains(&"reserve".to_owned()), "{:?}", names(&to));
    capture.close().unwrap();
    let capture = Capture::open_with(other.clone(), settings(), TestClock::at(START)).unwrap().0;
    assert_eq!(all(&other).len(), 3);
    capture.close().unwrap();
}

#[test]
fn a_damaged_backup_is_refused_by_the_name_of_the_file_and_so_is_a_folder_in_use() {
    let (_, database) = empty();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START)).unwrap().0;
    append(&capture, &rows(0, 9));
    capture.write_down(None).unwrap();
    append(&capture, &rows(9, 3));
    let at = FaultStorage::new();
    back_up(&database, Arc::new(at.clone())).unwrap();
    capture.close().unwrap();
    let backup = Backup::read(&at).unwrap().unwrap();
    assert!(backup.files.iter().all(|file| !file.path.ends_with("lock")), "{:?}", backup.files);
    for file in &backup.files {
        let damaged = at.copy();
        let path = format!("{}/{}", backup.folder(), file.path);
        let mut bytes = damaged.read(&path).unwrap();
        match bytes.last_mut() {
            Some(byte) => *byte ^= 1,
            None => bytes.push(0),
        }
        damaged.remove(&path).unwrap();
        damaged.create(&path).unwrap().write(&bytes).unwrap();
        for error in [backup.verify(&damaged).unwrap_err(), backup.restore(&damaged, &FaultStorage::new()).unwrap_err()]
        {
            assert!(matches!(&error, Error::Corrupt { path: named, .. } if named.ends_with(&path)), "{path}: {error}");
        }
    }
    let (used, _) = empty();
    let refused = backup.restore(&at, &used).unwrap_err().to_string();
    assert!(refused.contains("restored into an empty folder"), "{refused}");
    assert!(Backup::read(&used).unwrap().is_none());
    let refused = back_up(&database, Arc::new(used)).unwrap_err().to_string();
    assert!(refused.contains("no part of a backup"), "{refused}");
    let other = FaultStorage::new();
    other.create_dir("000001").unwrap();
    assert!(back_up(&database, Arc::new(other.clone())).is_err(), "it is somebody else's");
    assert_eq!(other.list("").unwrap().len(), 1);
    let lock = at.try_lock("backup.lock", LockMode::Exclusive).unwrap();
    assert!(back_up(&database, Arc::new(at.clone())).unwrap_err().to_string().contains("backup.lock is locked"));
    drop(lock);
    let list = at.read("backup.json").unwrap();
    for path in ["../x", "/etc/passwd", "a//b", "a/./b"] {
        let text = String::from_utf8(list.clone()).unwrap().replacen("splay.toml", path, 1);
        at.remove("backup.json").unwrap();
        at.create("backup.json").unwrap().write(text.as_bytes()).unwrap();
        assert!(Backup::read(&at).unwrap_err().is_damage(), "{path}");
    }
}
