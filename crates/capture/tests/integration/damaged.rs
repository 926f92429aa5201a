//! A table whose manifest is damaged takes no rows and gives none; the others are served, and nothing of it is lost.
//!
//! Before, a start failed for all tables when rows of the damaged one were in the journal, and while the process ran, rows for it were
//! acknowledged.

use std::path::{Path, PathBuf};

use splay_capture::{AckClass, Append, Capture, CaptureSettings, Error, Report};
use splay_store::{Database, TableSpec};

use crate::rows::{Row, SECOND, START, TestClock, batch, read, row, settings, spec};

fn named(name: &str) -> TableSpec {
    TableSpec { name: name.to_owned(), ..spec("UTC") }
}

fn open(folder: &Path) -> (Capture, splay_capture::RecoveryStatus) {
    let settings = CaptureSettings { journal_keep_bytes: 0, late_s: 1, ..settings() };
    let database = Database::open_or_create(folder).unwrap();
    Capture::open_with(database, settings, TestClock::at(START + 100 * SECOND)).unwrap()
}

fn append(capture: &Capture, table: &str, ids: std::ops::Range<i64>) -> splay_capture::Result<()> {
    let rows: Vec<Row> = ids.map(|id| row("A", START + id * SECOND, id)).collect();
    let append = Append { spec: Some(named(table)), ack: Some(AckClass::Disk), ..Append::new(table, batch(&rows)) };
    capture.append(append).map(drop)
}

fn ids(capture: &Capture, table: &str) -> splay_store::Result<Vec<i64>> {
    let snapshot = capture.database().table(table)?.snapshot()?;
    Ok(read(&snapshot, &splay_store::Selection::default()).into_iter().map(|(_, row)| row.id).collect())
}

fn is_damage(result: &splay_capture::Result<()>) -> bool {
    matches!(result, Err(Error::Store(error)) if error.is_damage())
}

/// What is done to the files of a manifest, by name; each gives the file that an error names.
fn damages() -> Vec<(&'static str, fn(&Path) -> PathBuf)> {
    fn flip(path: PathBuf, place: usize) -> PathBuf {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[place] ^= 0x10;
        // A file of its own, as an editor or a restored backup leaves it.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
    fn head(manifest: &Path) -> PathBuf {
        flip(manifest.join("HEAD"), 20)
    }
    fn lost(manifest: &Path) -> PathBuf {
        std::fs::remove_file(manifest.join("HEAD")).unwrap();
        manifest.join("HEAD")
    }
    fn log(manifest: &Path) -> PathBuf {
        let log = std::fs::read_dir(manifest).unwrap().map(|entry| entry.unwrap().path());
        flip(log.into_iter().find(|path| path.extension().is_some_and(|end| end == "log")).unwrap(), 60)
    }
    vec![("a damaged HEAD", head), ("a lost HEAD", lost), ("a damaged log", log)]
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_start_serves_the_other_tables_and_a_later_one_has_all_rows() {
    for (what, damage) in damages() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("db");
        let (capture, _) = open(&folder);
        for table in ["trade", "quote"] {
            append(&capture, table, 0..10).unwrap();
        }
        capture.write_down(None).unwrap();
        for table in ["trade", "quote"] {
            append(&capture, table, 10..15).unwrap();
        }
        capture.close().unwrap();
        drop(capture);
        let (manifest, aside) = (folder.join("trade/manifest"), temporary.path().join("aside"));
        copied(&manifest, &aside);
        let path = damage(&manifest);

        let (capture, recovered) = open(&folder);
        // Which of its fifteen are in its files as well, nobody can tell.
        assert_eq!((recovered.rows, recovered.rows_withheld), (5, 15), "{what}");
        assert_eq!(ids(&capture, "quote").unwrap(), (0..15).collect::<Vec<_>>(), "{what}");
        append(&capture, "quote", 15..20).unwrap();
        assert!(is_damage(&append(&capture, "trade", 15..20)), "{what}");
        let text = ids(&capture, "trade").unwrap_err().to_string();
        assert!(text.contains(path.to_str().unwrap()), "{what}: {text}");
        let damaged = capture.database().damaged();
        assert_eq!(damaged.iter().map(|(table, _)| table.as_str()).collect::<Vec<_>>(), ["trade"], "{what}");
        let report = Report::of_running(capture.database(), Some(capture.status()), &[]).unwrap();
        let table_status = report.tables.iter().find(|table| table.table == "trade").unwrap();
        assert!(
            table_status.error.as_ref().is_some_and(|error| error.contains(path.to_str().unwrap())),
            "{what}: {table_status:?}"
        );
        // Neither goes the journal with its rows, nor are they forgotten once the files are whole again while others are written down.
        capture.write_down(None).unwrap();
        std::fs::remove_dir_all(&manifest).unwrap();
        copied(&aside, &manifest);
        assert!(ids(&capture, "trade").is_err(), "{what}: without the rows in the journal");
        assert!(is_damage(&append(&capture, "trade", 15..20)), "{what}");
        capture.close().unwrap();
        drop(capture);

        let (capture, recovered) = open(&folder);
        assert_eq!((recovered.rows, recovered.rows_withheld), (5, 0), "{what}");
        assert_eq!(capture.database().damaged(), [], "{what}");
        assert_eq!(ids(&capture, "trade").unwrap(), (0..15).collect::<Vec<_>>(), "{what}");
        assert_eq!(ids(&capture, "quote").unwrap(), (0..20).collect::<Vec<_>>(), "{what}");
        append(&capture, "trade", 15..20).unwrap();
        capture.close().unwrap();
    }
}

#[test]
fn rows_are_refused_once_a_manifest_is_damaged() {
    for (what, damage) in damages() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("db");
        let (capture, _) = open(&folder);
        for table in ["trade", "quote"] {
            append(&capture, table, 0..10).unwrap();
            capture.write_down(Some(table)).unwrap();
            append(&capture, table, 10..15).unwrap();
        }
        let (manifest, aside) = (folder.join("trade/manifest"), temporary.path().join("aside"));
        copied(&manifest, &aside);
        damage(&manifest);
        let is_noticed = is_damage(&append(&capture, "trade", 15..20));
        // A log that was read before is read again by a start only.
        assert_eq!(is_noticed, what != "a damaged log", "{what}");
        append(&capture, "quote", 15..20).unwrap();
        if is_noticed {
            assert!(ids(&capture, "trade").is_err(), "{what}");
            assert_eq!(capture.database().damaged().len(), 1, "{what}");
            // One table's files don't keep the rows of the others in memory.
            assert!(capture.write_down(None).is_err(), "{what}");
            assert_eq!(capture.database().table("quote").unwrap().stored().unwrap().rows(), 20, "{what}");
            std::fs::remove_dir_all(&manifest).unwrap();
            copied(&aside, &manifest);
            // Its rows are all in memory still.
            assert_eq!(ids(&capture, "trade").unwrap(), (0..15).collect::<Vec<_>>(), "{what}");
            append(&capture, "trade", 15..20).unwrap();
            assert_eq!(capture.database().damaged(), [], "{what}");
        }
        assert_eq!(ids(&capture, "quote").unwrap(), (0..20).collect::<Vec<_>>(), "{what}");
        capture.close().unwrap();
    }
}
