//! Databases with a journal, of every format version, stay readable: `testdata/golden/v<journal>_<case>`, written once, never
//! edited.
//!
//! To add a case, write it with `SPLAY_GOLDEN_OUT=<an empty folder> cargo test --release -p splay-capture golden`, and copy the
//! folder to `testdata/golden` under a new name.

use std::path::Path;

use splay_capture::{Append, Capture, Error, Producer};
use splay_store::storage::LocalStorage;
use splay_store::{Backup, Database};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, in_order, row, settings, spec};

/// Rows of three dates, late ones and ties among them.
fn rows() -> Vec<Row> {
    let symbol = |n: i64| ["AAPL", "IBM", "", "ÖMV"][usize::try_from(n * 7 % 4).unwrap()];
    (0..400).map(|n| row(symbol(n), START + n * 600 * SECOND - n % 5 * 900 * SECOND, n)).collect()
}

fn write(folder: &Path) {
    let database = Database::create(folder).unwrap();
    let capture = Capture::open_with(database, settings(), TestClock::at(START + 400 * DAY)).unwrap().0;
    for (number, rows) in rows().chunks(40).enumerate() {
        let producer = Some(Producer::new("feed".to_owned(), number as u64 + 1));
        let append = Append { spec: Some(spec("America/New_York")), producer, ..Append::new("trade", batch(rows)) };
        capture.append(append).unwrap();
        if number % 3 == 1 {
            capture.write_down(None).unwrap();
        }
    }
    capture.close().unwrap();
}

fn assert_reads(folder: &Path) {
    let copy = tempfile::tempdir().unwrap();
    copy_all(folder, copy.path());
    let database = Database::open(copy.path()).unwrap();
    let (capture, recovered) =
        Capture::open_with(database.clone(), settings(), TestClock::at(START + 400 * DAY)).unwrap();
    assert_eq!((recovered.rows, recovered.torn, recovered.losses), (80, None, Vec::new()));
    assert_eq!(all(&database), in_order(&rows(), "America/New_York"));
    let producer = Some(Producer::new("feed".to_owned(), 10));
    assert!(capture.append(Append { producer, ..Append::new("trade", batch(&rows()[..1])) }).unwrap().duplicate);
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    assert_eq!(all(&Database::open(copy.path()).unwrap()), in_order(&rows(), "America/New_York"));
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn golden_v1_captured_is_read() {
    assert_reads(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v1_captured"));
}

#[test]
fn golden_v2_captured_is_read() {
    assert_reads(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v2_captured"));
}

#[test]
fn golden_v3_captured_is_read() {
    assert_reads(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v3_captured"));
}

/// A backup of `v3_captured`, whose list is of version 1.
#[test]
fn golden_backup_v1_is_restored() {
    let backup = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v3_captured_backup_v1");
    let (at, restored) = (LocalStorage::new(backup), tempfile::tempdir().unwrap());
    let list = Backup::read(&at).unwrap().unwrap();
    list.verify(&at).unwrap();
    let to = restored.path().join("db");
    list.restore(&at, &LocalStorage::made(&to).unwrap()).unwrap();
    assert_reads(&to);
}

#[test]
fn a_damaged_journal_is_told_or_cut_and_gives_no_row_twice() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v1_captured");
    let sound = std::fs::read(golden.join(".journal/00000001.jnl")).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let expected = in_order(&rows(), "America/New_York");
    let (mut reported, mut cut) = (0, 0);
    let flips = (0..sound.len()).step_by(23).map(|at| {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x41;
        damaged
    });
    let ends = (0..sound.len()).step_by(97).map(|end| sound[..end].to_vec());
    let garbage = [1, 7, 8, 500].map(|length| [sound.clone(), vec![0xa5; length]].concat());
    for (case, damaged) in flips.chain(ends).chain(garbage).enumerate() {
        let folder = copy.path().join(case.to_string());
        copy_all(&golden, &folder);
        std::fs::write(folder.join(".journal/00000001.jnl"), &damaged).unwrap();
        let database = Database::open(&folder).unwrap();
        match Capture::open_with(database.clone(), settings(), TestClock::at(START + 400 * DAY)) {
            Ok((capture, recovered)) => {
                if let Some((bytes, path)) = &recovered.torn {
                    cut += 1;
                    // Nothing is thrown away.
                    let torn_bytes = std::fs::read(path).unwrap();
                    assert_eq!(torn_bytes, damaged[damaged.len() - usize::try_from(*bytes).unwrap()..], "{case}");
                }
                let stored_rows = all(&database);
                assert!(stored_rows.len() >= 320, "{case}: what is on disk stays");
                let mut all_expected = expected.iter();
                // In order, each once, none that was never there.
                assert!(stored_rows.iter().all(|row| all_expected.any(|expected| expected == row)), "{case}");
                capture.close().unwrap();
            }
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "{case}: {error}");
                reported += 1;
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert!(cut > 100, "{cut} ends were cut, {reported} files were refused");
}

#[test]
fn the_golden_case_can_be_written_today() {
    let folder = tempfile::tempdir().unwrap();
    let path = match std::env::var_os("SPLAY_GOLDEN_OUT") {
        Some(out) => out.into(),
        None => folder.path().join("db"),
    };
    write(&path);
    assert_reads(&path);
}
