//! Who keeps out whom: one writer, readers that keep what they see, and loads that leave nothing behind.

use std::ops::ControlFlow;
use std::sync::Arc;

use splay_store::storage::LocalStorage;
use splay_store::storage::Storage;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, Error, FileFormat, LoadOptions, Selection, Settings, Tier,
};

use crate::model::{self, Model, batch, go_on, load, open, read_snapshot, read_table, trade};
use crate::scenario::{self, shared};

#[test]
fn a_second_writer_is_refused_until_the_first_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let storages: [Arc<dyn Storage>; 2] =
        [Arc::new(LocalStorage::new(folder.path())), shared(&splay_store::storage::fault::FaultStorage::new())];
    for storage in storages {
        let first = Database::create_on(Arc::clone(&storage), &Settings::default()).unwrap();
        let second = Database::open_on(storage).unwrap();
        let writing = first.load(&trade(), LoadOptions::default()).unwrap();
        for database in [&first, &second] {
            let refused = database.load(&trade(), LoadOptions::default()).unwrap_err();
            assert!(matches!(refused, Error::Locked { .. }), "{refused:?}");
        }
        drop(writing);
        load(&second, &model::rows(1, 10, 0..1, 1), LoadOptions::default()).unwrap();
        let writing = second.load(&trade(), LoadOptions::default()).unwrap();
        let refused = first.table("trade").unwrap().compact(&CompactOptions::default(), &mut go_on).unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }), "{refused:?}");
        writing.commit().unwrap();
        load(&first, &model::rows(2, 10, 0..1, 1), LoadOptions::default()).unwrap();
    }
}

/// Before, everything was made for all users to read.
#[test]
fn files_are_for_their_owner_and_group() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = Database::create(&path).unwrap();
    load(&database, &model::rows(1, 10, 0..1, 1), LoadOptions::default()).unwrap();
    let (mut open, mut seen) = (vec![path], 0);
    while let Some(path) = open.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        let mode = metadata.permissions().mode();
        assert_eq!(mode & 0o027, 0, "{}: {mode:o}", path.display());
        seen += 1;
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen >= 10, "{seen}");
}

/// Before, it was served as a table, also where it led to a table of another database.
#[test]
fn a_symbolic_link_is_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| Database::create(folder.path().join(name)).unwrap());
    load(&other, &model::rows(1, 10, 0..1, 1), LoadOptions::default()).unwrap();
    std::os::unix::fs::symlink(folder.path().join("other/trade"), folder.path().join("own/trade")).unwrap();
    assert_eq!(own.tables().unwrap(), Vec::<String>::new());
    for refused in [own.table("trade").map(drop), own.load(&trade(), LoadOptions::default()).map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, Error::Name { name, .. } if name == "trade"), "{error}");
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    assert!(matches!(own.table("TRADE"), Err(Error::NoSuchTable { .. })));
    assert_eq!(other.table("trade").unwrap().snapshot().unwrap().rows(), 10);
}

#[test]
fn a_dropped_load_leaves_no_file() {
    let before = Model::new(model::rows(1, 50, 0..2, 4));
    let storage = scenario::loaded(&before.rows);
    let paths = storage.paths();
    let database = open(&storage).unwrap();
    let options = LoadOptions { memory_bytes: 1 << 20, ..LoadOptions::default() };
    let mut dropped = database.load(&trade(), options).unwrap();
    for part in model::rows(2, 2500, 0..2, 700).chunks(500) {
        dropped.append(&batch(part)).unwrap();
    }
    assert!(storage.paths().iter().any(|path| path.starts_with(".spill/")), "nothing was set aside");
    drop(dropped);
    assert_eq!(storage.paths(), paths);
    scenario::assert_usable(&storage, Some(&before), "after a dropped load");
}

#[test]
fn a_load_that_lost_rows_does_not_commit() {
    let storage = scenario::loaded(&model::rows(1, 50, 0..2, 4));
    let database = open(&storage).unwrap();
    let options = LoadOptions { memory_bytes: 1 << 20, ..LoadOptions::default() };
    let mut broken = database.load(&trade(), options).unwrap();
    storage.capacity(Some(storage.used()));
    let failed = model::rows(2, 2500, 0..2, 700).chunks(500).any(|part| broken.append(&batch(part)).is_err());
    assert!(failed);
    storage.capacity(None);
    broken.append(&batch(&model::rows(3, 5, 0..1, 1))).unwrap_err();
    broken.commit().unwrap_err();
    assert_eq!(database.table("trade").unwrap().snapshot().unwrap().rows(), 50);
}

#[test]
fn a_snapshot_keeps_its_rows_until_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let fault = splay_store::storage::fault::FaultStorage::new();
    let storages: [Arc<dyn Storage>; 2] = [Arc::new(LocalStorage::new(folder.path())), shared(&fault)];
    for storage in storages {
        let settings = Settings { history_s: 0, ..Settings::default() };
        let database = Database::create_on(Arc::clone(&storage), &settings).unwrap();
        let files = || storage.list("trade/date=1970-01-01").unwrap().len();
        let mut model = Model::new(model::rows(1, 100, 0..1, 4));
        load(&database, &model.rows, LoadOptions::default()).unwrap();
        let table = database.table("trade").unwrap();
        let (first, expected_first) = (table.snapshot().unwrap(), model.batch());
        let reader = Database::open_on(Arc::clone(&storage)).unwrap().table("trade").unwrap().snapshot().unwrap();
        assert_eq!(files(), 2);

        // A merge replaces the segment, a compaction changes its format.
        let more = model::rows(2, 100, 0..1, 4);
        load(&database, &more, LoadOptions::default()).unwrap();
        let parquet = CompactOptions { tier: Some(Tier::Small), ..CompactOptions::default() };
        table.compact(&parquet, &mut go_on).unwrap();
        let read = |snapshot| read_snapshot(snapshot, &Selection::default()).unwrap();
        // The first was never opened before its files were replaced.
        assert_eq!(read(&first), expected_first);
        assert_eq!(read(&reader), expected_first);
        model = model.plus(&more);
        assert_eq!(read_table(&database, "trade").unwrap(), model.batch());
        assert_eq!(files(), 6);

        drop((first, reader));
        load(&database, &model::rows(3, 1, 5..6, 4), LoadOptions::default()).unwrap();
        assert_eq!(files(), 2, "a later writer removes what nobody reads");
    }
}

#[test]
fn snapshots_of_one_database_share_a_lease() {
    let storage = scenario::loaded(&model::rows(1, 100, 0..1, 4));
    let (writer, reader) = (open(&storage).unwrap(), open(&storage).unwrap());
    let files = || storage.list("trade/date=1970-01-01").unwrap().len();
    let table = reader.table("trade").unwrap();
    let (first, second) = (table.snapshot().unwrap(), table.snapshot().unwrap());
    let rows = read_snapshot(&first, &Selection::default()).unwrap();
    drop(first);
    load(&writer, &model::rows(2, 100, 0..1, 4), LoadOptions::default()).unwrap();
    assert_eq!(files(), 4, "the second still holds the lease");
    assert_eq!(read_snapshot(&second, &Selection::default()).unwrap(), rows);
    drop(second);
    load(&writer, &model::rows(3, 1, 5..6, 4), LoadOptions::default()).unwrap();
    assert_eq!(files(), 4, "nobody holds it, but the history keeps them");
    writer.table("trade").unwrap().forget(true).unwrap();
    assert_eq!(files(), 2);
    assert_eq!(table.snapshot().unwrap().rows(), 201);
}

#[test]
fn every_commit_is_seen_by_the_next_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let fault = splay_store::storage::fault::FaultStorage::new();
    let storages: [Arc<dyn Storage>; 2] = [Arc::new(LocalStorage::new(folder.path())), shared(&fault)];
    for storage in storages {
        let writer = Database::create_on(Arc::clone(&storage), &Settings::default()).unwrap();
        load(&writer, &model::rows(0, 1, 0..1, 4), LoadOptions::default()).unwrap();
        let reader = Database::open_on(storage).unwrap().table("trade").unwrap();
        // One after the other and overlapping ones: the numbers of removed files are given again.
        let mut last = reader.snapshot().unwrap();
        for commit in 2..60 {
            let column = ColumnSpec::new(format!("c{commit}"), ColumnType::Bool);
            writer.table("trade").unwrap().add_column(column).unwrap();
            let next = reader.snapshot().unwrap();
            assert_eq!((next.epoch(), last.epoch()), (commit, commit - 1));
            assert_eq!(reader.snapshot().unwrap().epoch(), commit, "nothing has changed");
            last = next;
        }
    }
}

#[test]
fn a_name_on_disk_is_found_in_any_case() {
    let storage = scenario::loaded(&model::rows(1, 20, 0..1, 4));
    let database = open(&storage).unwrap();
    assert_eq!(database.table("TRADE").unwrap().name(), "trade");
    let mut spec = trade();
    spec.name = "Trade".to_owned();
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&batch(&model::rows(2, 20, 0..1, 4))).unwrap();
    load.commit().unwrap();
    assert_eq!(database.tables().unwrap(), ["trade"]);
    assert_eq!(database.table("trade").unwrap().snapshot().unwrap().rows(), 40);
}

/// What a load left behind is refused, not swept; `old` is as releases left it that didn't mark a table's creation.
fn assert_kept_without_head(commits: u64, old: bool) {
    let storage = scenario::loaded(&model::rows(1, 20, 0..1, 4));
    for commit in 1..commits {
        load(&open(&storage).unwrap(), &model::rows(commit, 20, 0..1, 4), LoadOptions::default()).unwrap();
    }
    let reader = open(&storage).unwrap().table("trade").unwrap();
    assert_eq!(reader.snapshot().unwrap().rows(), 20 * commits);
    storage.remove("trade/manifest/HEAD").unwrap();
    if old {
        storage.remove("trade/manifest/CREATED").unwrap();
    }
    let paths = storage.paths();
    let is_lost_head = |error: &Error| matches!(error, Error::Corrupt { path, .. } if path.ends_with("HEAD"));
    for _ in 0..2 {
        let refused = open(&storage).unwrap().load(&trade(), LoadOptions::default()).unwrap_err();
        assert!(is_lost_head(&refused), "{refused:?}");
        assert_eq!(storage.paths(), paths, "nothing is swept");
    }
    assert!(is_lost_head(&reader.snapshot().unwrap_err()), "an open table");
    if !old {
        let database = open(&storage).unwrap();
        assert_eq!(database.tables().unwrap(), ["trade"]);
        assert!(is_lost_head(&database.table("Trade").unwrap().snapshot().unwrap_err()));
        assert!(is_lost_head(&database.table("trade").unwrap().verify(&mut go_on).unwrap_err()));
    }
}

#[test]
fn a_table_whose_head_is_lost_is_not_taken_for_a_new_one() {
    assert_kept_without_head(1, false);
    assert_kept_without_head(3, false);
    assert_kept_without_head(2, true);
}

#[test]
fn a_table_whose_log_is_lost_is_not_taken_for_a_new_one() {
    let storage = scenario::loaded(&model::rows(1, 20, 0..1, 4));
    storage.remove("trade/manifest/000001.log").unwrap();
    let paths = storage.paths();
    let database = open(&storage).unwrap();
    let refused = database.load(&trade(), LoadOptions::default()).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { path, .. } if path.ends_with("000001.log")), "{refused:?}");
    let refused = database.table("trade").unwrap().snapshot().unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { path, .. } if path.ends_with("000001.log")), "{refused:?}");
    assert_eq!(storage.paths(), paths);
}

/// Ends the work behind the n-th segment.
fn stop_behind(n: usize) -> impl FnMut(u64) -> ControlFlow<()> {
    let mut remaining = n;
    move |_| {
        remaining -= 1;
        if remaining == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn upkeep_that_is_stopped_leaves_nothing_behind() {
    let before = Model::new(model::rows(1, 200, 0..3, 4));
    let storage = scenario::loaded(&before.rows);
    let (table, paths) = (open(&storage).unwrap().table("trade").unwrap(), storage.paths());
    let parquet = CompactOptions { tier: Some(Tier::Small), ..CompactOptions::default() };
    for n in 1..=3 {
        let folder = tempfile::tempdir().unwrap();
        let stopped = [
            table.verify(&mut stop_behind(n)).map(|_| ()),
            table.compact(&parquet, &mut stop_behind(n)).map(|_| ()),
            table.export(FileFormat::Parquet, folder.path(), &mut stop_behind(n)).map(|_| ()),
        ];
        assert!(stopped.iter().all(|result| matches!(result, Err(Error::Stopped))), "{stopped:?}");
        assert_eq!(storage.paths(), paths);
        for date in std::fs::read_dir(folder.path()).unwrap() {
            assert_eq!(std::fs::read_dir(date.unwrap().path()).unwrap().count(), 0, "an exported file was left");
        }
    }
    assert_eq!(model::read(&storage).unwrap(), Some(before.batch()));
    table.compact(&parquet, &mut go_on).unwrap();
    assert_eq!(model::read(&storage).unwrap(), Some(before.batch()));
}
