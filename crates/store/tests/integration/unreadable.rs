//! A mapped page that can't be read fails the statement that needed it, names the file, and the process goes on.
//!
//! Before, the system's SIGBUS ended the process at the next touch of a file that another program had cut: six of six.

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use arrow::array::AsArray;
use arrow::datatypes::Float64Type;
use splay_store::storage::hand_out_mapped;
use splay_store::{CompactOptions, Database, Error, FileFormat, LoadOptions, TableSnapshot, Tier};

use crate::model::{self, batch, go_on, load, trade};

const ROWS: usize = 20_000;

/// A database of two tables on disk, and the only segment of the first.
fn on_disk(folder: &Path) -> (Database, PathBuf) {
    let database = Database::create(folder.join("db")).unwrap();
    let rows = model::rows(1, ROWS, 0..1, 4);
    load(&database, &rows, LoadOptions::default()).unwrap();
    let mut other = trade();
    other.name = "other".to_owned();
    let mut loading = database.load(&other, LoadOptions::default()).unwrap();
    loading.append(&batch(&rows)).unwrap();
    loading.commit().unwrap();
    (database, folder.join("db/trade/date=1970-01-01/00000001.000001.arrow"))
}

fn snapshot(database: &Database, table: &str) -> TableSnapshot {
    database.table(table).unwrap().snapshot().unwrap()
}

/// The prices' sum; they lie in mapped pages.
fn sum(snapshot: &TableSnapshot) -> splay_store::Result<f64> {
    let (spec, segment) = (snapshot.spec(), &snapshot.partitions()[0].segments[0]);
    let price = spec.position("price").unwrap();
    let rows = segment.read(spec, &[price], 0..segment.rows())?;
    let sum = rows.column(0).as_primitive::<Float64Type>().iter().flatten().sum();
    snapshot.watch().check().map(|()| sum)
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn assert_names(error: &Error, path: &Path) {
    assert!(matches!(error, Error::Corrupt { path: damaged_path, .. } if damaged_path == path), "{error}");
    assert!(error.is_damage());
}

#[test]
fn a_cut_file_fails_what_reads_it_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (database, path) = on_disk(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let (before, other) = (snapshot(&database, "trade"), snapshot(&database, "other"));
    // Checked, so that no checksum will notice.
    let (expected, of_other) = (sum(&before).unwrap(), sum(&other).unwrap());
    let slice = {
        let segment = &before.partitions()[0].segments[0];
        segment.read(before.spec(), &[before.spec().position("price").unwrap()], 0..segment.rows()).unwrap()
    };
    cut(&path, 4096);
    let zeros = slice.column(0).as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
    assert!(zeros != expected, "pages behind the file's end were read");
    let error = before.watch().check().unwrap_err();
    assert_names(&error, &path);
    // A part of the statement that begins later, on the same snapshot and on a new one.
    assert_names(&sum(&before).unwrap_err(), &path);
    assert_names(&sum(&snapshot(&database, "trade")).unwrap_err(), &path);
    // The other table, also for who began before.
    assert_eq!(sum(&other).unwrap().to_bits(), of_other.to_bits());
    assert_eq!(sum(&snapshot(&database, "other")).unwrap().to_bits(), of_other.to_bits());
    let problems = database.table("trade").unwrap().verify(&mut go_on).unwrap();
    assert_eq!(problems.iter().map(|problem| &problem.path).collect::<Vec<_>>(), [&path]);
    // Whole again, by the same file and by another one.
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(sum(&snapshot(&database, "trade")).unwrap().to_bits(), expected.to_bits());
    assert_names(&before.watch().check().unwrap_err(), &path);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(sum(&snapshot(&database, "trade")).unwrap().to_bits(), expected.to_bits());
}

#[test]
fn nothing_is_committed_of_what_could_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (database, path) = on_disk(folder.path());
    let expected = sum(&snapshot(&database, "trade")).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let table = database.table("trade").unwrap();
    let options = CompactOptions { tier: Some(Tier::Small), ..CompactOptions::default() };
    // The file is cut when its first rows have been read: the checks before have passed.
    cut(&path, whole.len() as u64 / 2);
    assert!(table.compact(&options, &mut go_on).is_err());
    let to = folder.path().join("export");
    assert!(table.export(FileFormat::Parquet, &to, &mut go_on).is_err());
    assert!(!to.join("date=1970-01-01/000001.parquet").exists());
    std::fs::write(&path, &whole).unwrap();
    let after = snapshot(&database, "trade");
    assert_eq!((after.epoch(), sum(&after).unwrap().to_bits()), (1, expected.to_bits()));
}

/// A writer that began before the page was lost, and copies zeros, doesn't commit them.
#[test]
fn a_writer_that_read_zeros_does_not_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (database, path) = on_disk(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let before = snapshot(&database, "trade");
    let loading = database.load(&trade(), LoadOptions::default()).unwrap();
    sum(&before).unwrap();
    cut(&path, 4096);
    sum(&before).unwrap_err();
    assert_names(&loading.commit().unwrap_err(), &path);
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(snapshot(&database, "trade").epoch(), 1);
}

/// An index is made anew where it can't be read.
#[test]
fn a_cut_index_fails_nobody_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let (database, path) = on_disk(folder.path());
    let expected = sum(&snapshot(&database, "trade")).unwrap();
    cut(&path.with_extension("index"), 100);
    let again = Database::open(folder.path().join("db")).unwrap();
    assert_eq!(sum(&snapshot(&again, "trade")).unwrap().to_bits(), expected.to_bits());
}

/// Runs a test of this file in a process of its own, which it may end.
fn in_a_child(test: &str) -> ExitStatus {
    let name = format!("unreadable::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &name, "--ignored", "--test-threads=1"]).output().unwrap().status
}

#[test]
fn faults_of_others_end_the_process_as_before() {
    for test in ["child_that_maps_by_itself", "child_that_hands_rows_out"] {
        let status = in_a_child(test);
        assert_eq!(status.signal(), Some(7), "{test}: {status}");
    }
}

#[test]
#[ignore = "ends its process; faults_of_others_end_the_process_as_before runs it"]
fn child_that_maps_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (database, _) = on_disk(folder.path());
    sum(&snapshot(&database, "trade")).unwrap();
    let path = folder.path().join("foreign");
    std::fs::write(&path, vec![1; 1 << 16]).unwrap();
    // SAFETY: what happens if a mapped file is cut is what this shows.
    let map = unsafe { memmap2::Mmap::map(&File::open(&path).unwrap()) }.unwrap();
    cut(&path, 0);
    assert_eq!(std::hint::black_box(&map)[5000], 1);
}

#[test]
#[ignore = "ends its process; faults_of_others_end_the_process_as_before runs it"]
fn child_that_hands_rows_out() {
    let folder = tempfile::tempdir().unwrap();
    let (database, path) = on_disk(folder.path());
    let before = snapshot(&database, "trade");
    sum(&before).unwrap();
    hand_out_mapped();
    cut(&path, 4096);
    let _ = sum(&before);
}
