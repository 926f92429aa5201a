//! A disk that gets full: rows are refused before it is, and what has to be written finds its reserve.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use splay_capture::{Append, Capture, CaptureSettings, Error, Producer, Result};
use splay_store::storage::fault::FaultStorage;
use splay_store::storage::{LocalStorage, Storage};
use splay_store::{Database, Settings};

use crate::rows::{DAY, START, TestClock, all, batch, row, settings, spec};

const LEAST: u64 = 10_000;
const RESERVE: u64 = 100_000;

fn bounded() -> CaptureSettings {
    CaptureSettings { disk_free_bytes_min: LEAST, disk_reserve_bytes: RESERVE, ..settings() }
}

fn open(storage: &FaultStorage, settings: CaptureSettings) -> Capture {
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(_) => Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap(),
    };
    Capture::open_with(database, settings, TestClock::at(START + DAY)).unwrap().0
}

fn send_as(capture: &Capture, table: &str, id: i64, producer: Option<Producer>) -> Result<bool> {
    let rows = batch(&[row("A", START + id, id)]);
    let spec = splay_store::TableSpec { name: table.to_owned(), ..spec("UTC") };
    Ok(capture.append(Append { spec: Some(spec), producer, ..Append::new(table, rows) })?.duplicate)
}

fn send(capture: &Capture, id: i64) -> Result<bool> {
    send_as(capture, "trade", id, None)
}

fn reserve(storage: &FaultStorage) -> u64 {
    storage.identity(".journal/reserve").map_or(0, |identity| identity.length)
}

/// Waits for something that the maintenance thread does.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn rows_are_refused_before_the_disk_is_full_and_taken_again_without_a_start() {
    let storage = FaultStorage::new();
    let capture = open(&storage, bounded());
    assert_eq!(reserve(&storage), RESERVE);
    send(&capture, 0).unwrap();
    storage.free_bytes(Some(LEAST - 1));
    eventually("the maintenance thread looks", || capture.is_full());
    let operations = storage.operations();
    let refused = send(&capture, 1).unwrap_err();
    let message = refused.to_string();
    assert!(refused.is_retryable() && message.contains("9999 bytes free") && message.contains("10000"), "{message}");
    assert!(send_as(&capture, "other", 1, None).unwrap_err().is_retryable());
    assert_eq!(storage.operations(), operations, "nothing was written, no table made");
    let status = capture.status();
    assert!(status.full && status.disk.is_refusing, "{:?}", status.disk);
    assert_eq!((status.disk.free_bytes, status.disk.refused), (Some(LEAST - 1), 2));
    assert!(capture.full_reason().unwrap().contains("9999"));
    // Reads and write-downs go on; segments aren't joined.
    assert_eq!(all(capture.database()).len(), 1);
    assert_eq!(capture.write_down(None).unwrap().rows, 1);
    assert!(matches!(capture.roll(Some(START + 3 * DAY)), Err(Error::Full { .. })));
    // At its bound it isn't taken for empty again.
    storage.free_bytes(Some(LEAST));
    assert!(send(&capture, 1).is_err());
    storage.free_bytes(None);
    send(&capture, 1).unwrap();
    assert!(!capture.is_full() && capture.full_reason().is_none());
    capture.roll(Some(START + 3 * DAY)).unwrap();
    assert_eq!(all(capture.database()).len(), 2);
    capture.close().unwrap();
}

#[test]
fn what_has_to_be_written_finds_the_reserve_on_a_full_disk() {
    let storage = FaultStorage::new();
    // The disk says that it has room, as with a quota.
    storage.free_bytes(Some(u64::MAX));
    let capture = open(&storage, bounded());
    let mut accepted = 0;
    for round in 0..3 {
        send(&capture, accepted).unwrap();
        accepted += 1;
        storage.capacity(Some(storage.used() + 100 * round));
        let refused = loop {
            match send(&capture, accepted) {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert!(refused.is_retryable() && capture.is_full(), "{refused}");
        assert_eq!(reserve(&storage), 0, "it was given back");
        assert!(capture.write_down(None).unwrap().rows > 0, "in the room that it left");
        assert_eq!(all(capture.database()).len() as i64, accepted);
        storage.capacity(None);
        eventually("the reserve is made again", || reserve(&storage) == RESERVE);
    }
    // A write-down that finds no room asks for it, too.
    send(&capture, accepted).unwrap();
    accepted += 1;
    storage.capacity(Some(storage.used()));
    assert_eq!(capture.write_down(None).unwrap().rows, 1);
    storage.capacity(None);
    capture.close().unwrap();
    assert_eq!(all(open(&storage, bounded()).database()).len() as i64, accepted);
}

#[test]
fn a_start_on_a_full_disk_serves_what_there_is_and_takes_rows_once_there_is_room() {
    for settings in [settings as fn() -> CaptureSettings, bounded] {
        let storage = FaultStorage::new();
        let capture = open(&storage, settings());
        send(&capture, 0).unwrap();
        capture.write_down(None).unwrap();
        capture.close().unwrap();
        let mut accepted = 1;
        for room in [0, 10, 100, 300] {
            let capture = open(&storage, settings());
            send(&capture, accepted).unwrap();
            accepted += 1;
            capture.close().unwrap();
            // Nothing of a reserve is left, either.
            storage.capacity(Some(storage.used() - usize::try_from(reserve(&storage)).unwrap() + room));
            let capture = open(&storage, settings());
            assert_eq!(all(capture.database()).len() as i64, accepted, "room for {room}");
            let refused = (accepted..accepted + 100).find_map(|id| send(&capture, id).map(|_| accepted = id + 1).err());
            assert!(refused.is_some_and(|error| error.is_retryable()), "room for {room}");
            assert!(capture.is_full() && capture.status().full && !capture.is_failed());
            assert_eq!(all(capture.database()).len() as i64, accepted);
            storage.capacity(None);
            send(&capture, accepted).unwrap();
            accepted += 1;
            assert!(!capture.is_full());
            capture.close().unwrap();
        }
        let capture = open(&storage, settings());
        let mut ids: Vec<i64> = all(capture.database()).into_iter().map(|(_, row)| row.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..accepted).collect::<Vec<_>>());
    }
}

/// What it had sent behind a batch that was refused isn't taken before that.
#[test]
fn a_batch_that_was_refused_before_the_queue_is_no_repeat_behind_others() {
    let storage = FaultStorage::new();
    let capture = open(&storage, bounded());
    let producer = |sequence| Some(Producer::new("feed".to_owned(), sequence));
    let send = |sequence: u64| send_as(&capture, "trade", sequence.cast_signed(), producer(sequence));
    send(1).unwrap();
    storage.free_bytes(Some(0));
    eventually("the maintenance thread looks", || capture.is_full());
    assert!(send(2).is_err());
    storage.free_bytes(None);
    assert!(send(3).unwrap_err().is_retryable(), "has room, and comes behind one that had none");
    assert_eq!([send(2).unwrap(), send(3).unwrap(), send(2).unwrap()], [false, false, true]);
    assert_eq!(all(capture.database()).len(), 3);
    capture.close().unwrap();
}

/// A file system of a few megabytes, which goes with the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where mounting isn't permitted.
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder))
    }

    /// Takes all the room that is left, but for so much.
    fn fill(&self, free_bytes: u64) {
        let space = LocalStorage::new(self.0.path()).disk_space().unwrap();
        let bytes = usize::try_from(space.free_bytes.saturating_sub(free_bytes)).unwrap();
        std::fs::write(self.filler(), vec![7; bytes]).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.0.path()).output());
    }
}

#[test]
fn a_real_disk_that_gets_full_is_seen_and_its_reserve_is_real() {
    let Some(disk) = SmallDisk::mount() else {
        println!("not tried: mounting a file system isn't permitted here");
        return;
    };
    let folder = disk.0.path().join("market");
    let small_disk_settings =
        || CaptureSettings { disk_free_bytes_min: 2 << 20, disk_reserve_bytes: 1 << 20, ..settings() };
    let open = || {
        let database = Database::open_or_create(&folder).unwrap();
        Capture::open_with(database, small_disk_settings(), TestClock::at(START + DAY)).unwrap().0
    };
    let capture = open();
    assert_eq!(capture.status().disk.reserve_bytes, 1 << 20);
    send(&capture, 0).unwrap();
    disk.fill(1 << 20);
    eventually("the maintenance thread looks", || capture.is_full());
    assert!(send(&capture, 1).unwrap_err().is_retryable());
    std::fs::remove_file(disk.filler()).unwrap();
    send(&capture, 1).unwrap();
    disk.fill(0);
    assert_eq!(capture.write_down(None).unwrap().rows, 2, "in the room of the reserve");
    assert_eq!(capture.status().disk.reserve_bytes, 0);
    capture.close().unwrap();
    std::fs::remove_file(disk.filler()).unwrap();
    disk.fill(0);
    let capture = open();
    assert_eq!(all(capture.database()).len(), 2);
    assert!(send(&capture, 2).unwrap_err().is_retryable());
    std::fs::remove_file(disk.filler()).unwrap();
    send(&capture, 2).unwrap();
    assert_eq!(all(capture.database()).len(), 3);
    capture.close().unwrap();
}
