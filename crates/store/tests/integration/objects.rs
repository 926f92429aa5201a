//! Dates in an object store: the same rows wherever they are, whatever fails on the way, and few requests.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use splay_store::object::fault::{Fault, FaultStore};
use splay_store::object::{FolderStore, ObjectFault, ObjectResult, ObjectStore, ObjectTier, Retry};
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    Backup, BackupWriter, CompactOptions, CompactReport, Database, Error, LoadOptions, ObjectSettings, Removal,
    ReplicaWriter, Result, Retention, Selection, Settings, Table, Tier, TierSettings, of_dates,
};

use crate::crash::image;
use crate::model::{self, Model, go_on};
use crate::scenario;

const CACHE_BYTES: u64 = 64 << 20;

/// Key of the mark of the database that writes.
const MARK: &str = ".splay/owner.json";

/// Failures are tried again at once.
fn retry() -> Retry {
    Retry { first_pause: Duration::ZERO, longest_pause: Duration::ZERO, attempts_max: 4, ..Retry::default() }
}

fn tier(store: &FaultStore) -> Arc<ObjectTier> {
    Arc::new(ObjectTier::new(Arc::new(store.clone()), "memory://cold", CACHE_BYTES, retry()))
}

fn open(storage: &FaultStorage, store: &FaultStore) -> Database {
    Database::open_with(Arc::new(storage.clone()), Some(tier(store))).unwrap()
}

fn to(tier: Tier) -> CompactOptions {
    CompactOptions { tier: Some(tier), ..CompactOptions::default() }
}

fn move_all(database: &Database) -> Result<CompactReport> {
    database.table("trade")?.compact(&to(Tier::Object), &mut go_on)
}

/// A table of three dates in memory, and a store beside it.
fn world(seed: u64) -> (FaultStorage, FaultStore, Model) {
    let model = Model::new(model::rows(seed, 400, 0..3, 4));
    (scenario::loaded(&model.rows), FaultStore::new(), model)
}

/// The same, moved.
fn moved(seed: u64) -> (FaultStorage, FaultStore, Model) {
    let (storage, store, model) = world(seed);
    let report = move_all(&open(&storage, &store)).unwrap();
    assert_eq!(report.partitions, 3);
    (storage, store, model)
}

fn rows(database: &Database) -> arrow::array::RecordBatch {
    model::read_table(database, "trade").unwrap()
}

fn tiers(table: &Table) -> Vec<Tier> {
    let snapshot = table.stored().unwrap();
    snapshot.partitions().iter().flat_map(|p| p.segments.iter().map(|s| s.entry().tier)).collect()
}

/// The keys that the table's commits name.
fn named(database: &Database) -> Vec<String> {
    let snapshot = database.table("trade").unwrap().stored().unwrap();
    let now = snapshot.partitions().iter().flat_map(|p| p.segments.iter().map(|s| s.entry().clone()));
    let mut keys: Vec<String> = now.chain(snapshot.undo_files().cloned()).filter_map(|entry| entry.object).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Objects but for the mark.
fn objects(store: &FaultStore) -> Vec<String> {
    store.keys().into_iter().filter(|key| key != MARK).collect()
}

#[test]
fn dates_are_read_where_they_are_and_come_back() {
    let (storage, store, model) = moved(1);
    let database = open(&storage, &store);
    let table = database.table("trade").unwrap();
    assert_eq!(tiers(&table), [Tier::Object; 3]);
    assert_eq!(rows(&database), model.batch());
    assert_eq!(objects(&store), named(&database));
    assert_eq!(storage.paths(), model::expected_paths(&storage), "indexes alone are left, and what undo needs");
    assert!(table.verify(&mut go_on).unwrap().is_empty());
    assert_eq!(move_all(&database).unwrap().partitions, 0, "they are there");
    table.forget(true).unwrap();
    assert!(!storage.paths().iter().any(|path| path.ends_with(".arrow") || path.ends_with(".parquet")));
    assert_eq!(rows(&open(&storage, &store)), model.batch());
    // And back, behind which the objects go like files.
    table.compact(&to(Tier::Mapped), &mut go_on).unwrap();
    assert_eq!(tiers(&table), [Tier::Mapped; 3]);
    assert_eq!(objects(&store).len(), 3, "kept for undo");
    table.forget(true).unwrap();
    assert_eq!(objects(&store), Vec::<String>::new());
    assert_eq!(rows(&open(&storage, &store)), model.batch());
    let head = storage.read("trade/manifest/HEAD").unwrap();
    assert_eq!(head[8], 5, "older releases read it again");
}

#[test]
fn a_head_with_objects_is_of_a_version_of_its_own() {
    let (storage, store, _) = moved(2);
    assert_eq!(storage.read("trade/manifest/HEAD").unwrap()[8], 7);
    let database = open(&storage, &store);
    database.table("trade").unwrap().rename("tape", |_| false).unwrap();
    assert_eq!(storage.read("trade/manifest/HEAD").unwrap()[8], 7);
    assert_eq!(model::read_table(&open(&storage, &store), "tape").unwrap().num_rows(), 400);
}

/// Ends the process at every operation on its disk, and at every call of the store with or without effect.
#[test]
fn a_move_survives_its_end_at_any_step() {
    let (base, empty, model) = world(3);
    let expected = model.batch();
    let check = |storage: &FaultStorage, store: &FaultStore, what: &str| {
        let database = open(storage, store);
        assert_eq!(rows(&database), expected, "{what}");
        drop(database);
        let database = open(storage, store);
        move_all(&database).unwrap_or_else(|error| panic!("{what}: the next move: {error}"));
        let table = database.table("trade").unwrap();
        assert_eq!(tiers(&table), [Tier::Object; 3], "{what}");
        // Of an attempt that was ended, nothing is left.
        table.forget(true).unwrap();
        assert_eq!(rows(&database), expected, "{what}");
        assert_eq!(objects(store), named(&database), "{what}");
        assert_eq!(storage.paths(), model::expected_paths(storage), "{what}");
    };
    let (storage, store) = (base.copy(), empty.copy());
    let (before, calls_before) = (storage.operations(), store.calls());
    move_all(&open(&storage, &store)).unwrap();
    let (operations, calls) = (storage.operations() - before, store.calls() - calls_before);
    let mut images = 0;
    for n in 0..=operations {
        let (storage, store) = (base.copy(), empty.copy());
        storage.stop_after(Some(n));
        let _ = move_all(&open(&storage, &store));
        for seed in [0, 1, 7, 22] {
            let store = store.copy();
            check(&image(&storage, seed), &store, &format!("power cut after {n} of {operations}, seed {seed}"));
            images += 1;
        }
    }
    for n in 0..calls {
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            let (storage, store) = (base.copy(), empty.copy());
            store.dies_with(&storage);
            store.fail_at(n, fault);
            move_all(&open(&storage, &store)).err();
            for seed in [0, 1, 9] {
                let store = store.copy();
                check(&image(&storage, seed), &store, &format!("{fault:?} at call {n} of {calls}, seed {seed}"));
                images += 1;
            }
        }
    }
    println!("{images} images of {operations} operations and {calls} calls");
    assert!(operations > 20 && calls > 15);
}

/// The same of the way back, and of the removal of objects.
#[test]
fn the_way_back_survives_its_end_at_any_step() {
    let (base, filled, model) = moved(4);
    let expected = model.batch();
    let back = |storage: &FaultStorage, store: &FaultStore| -> Result<()> {
        let table = open(storage, store).table("trade")?;
        table.compact(&to(Tier::Fast), &mut go_on)?;
        table.forget(true).map(drop)
    };
    let (storage, store) = (base.copy(), filled.copy());
    back(&storage, &store).unwrap();
    let calls = store.calls();
    for n in 0..calls {
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            let (storage, store) = (base.copy(), filled.copy());
            store.dies_with(&storage);
            store.fail_at(n, fault);
            let _ = back(&storage, &store);
            let what = format!("{fault:?} at call {n} of {calls}");
            let (storage, store) = (image(&storage, n), store.copy());
            assert_eq!(rows(&open(&storage, &store)), expected, "{what}");
            back(&storage, &store).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(rows(&open(&storage, &store)), expected, "{what}");
            // What couldn't be removed goes with the next objects that do.
            move_all(&open(&storage, &store)).unwrap();
            back(&storage, &store).unwrap();
            assert_eq!(objects(&store), Vec::<String>::new(), "{what}");
        }
    }
}

/// Each call fails once, in each way that passes: nobody notices.
#[test]
fn failures_that_pass_are_not_noticed() {
    let (base, empty, model) = world(5);
    let (storage, store) = (base.copy(), empty.copy());
    move_all(&open(&storage, &store)).unwrap();
    for n in 0..store.calls() {
        for fault in [Fault::Refused, Fault::AnswerLost, Fault::Cut] {
            let (storage, store) = (base.copy(), empty.copy());
            store.fail_at(n, fault);
            let database = open(&storage, &store);
            move_all(&database).unwrap_or_else(|error| panic!("{fault:?} at call {n}: {error}"));
            assert_eq!(rows(&database), model.batch(), "{fault:?} at call {n}");
        }
    }
    // A store that is busy every other time, and one whose machines don't know of new objects at once.
    store.fail_each(Some(2));
    assert_eq!(rows(&open(&storage, &store)), model.batch());
    let (storage, store) = (base.copy(), empty.copy());
    store.stale_looks(3);
    move_all(&open(&storage, &store)).unwrap();
    assert_eq!(rows(&open(&storage, &store)), model.batch());
}

#[test]
fn a_store_that_does_not_answer_is_named_and_loses_nothing() {
    let (storage, store, model) = moved(6);
    let database = open(&storage, &store);
    store.fail_each(Some(1));
    let error = model::read_table(&database, "trade").unwrap_err();
    let Error::Object { act: "read", object, fault: ObjectFault::Passing, reason } = &error else { panic!("{error}") };
    assert!(object.starts_with("memory://cold/trade/date=") && reason.contains("tried 4 times"), "{error}");
    assert!(!error.is_damage());
    // Files of this machine go on: rows of a new date come, and dates that are due stay for now.
    let fresh = model::rows(60, 50, 9..10, 4);
    model::load(&database, &fresh, LoadOptions::default()).unwrap();
    let error = move_all(&database).unwrap_err();
    assert!(matches!(error, Error::Object { .. }), "{error}");
    store.fail_each(None);
    assert_eq!(rows(&database), model.plus(&fresh).batch());
}

#[test]
fn damaged_objects_are_named_and_never_answered_from() {
    let (storage, store, model) = moved(7);
    for key in objects(&store) {
        let length = store.length(&key).unwrap();
        for at in [0, 4, length / 2, length - 5] {
            let store = store.copy();
            assert!(store.damage(&key, usize::try_from(at).unwrap()));
            let database = open(&storage, &store);
            let error = model::read_table(&database, "trade").unwrap_err();
            assert!(matches!(&error, Error::Corrupt { path, .. } if path.ends_with(&key)), "{error}");
            let problems = database.table("trade").unwrap().verify(&mut go_on).unwrap();
            assert!(matches!(&problems[..], [one] if one.path.ends_with(&key)), "{problems:?}");
            let others = Selection::default();
            let others = Selection { date: splay_store::Bounds { min: 1, max: 2 }, ..others };
            if key.contains("date=1970-01-01") {
                let read =
                    model::read_snapshot(&database.table("trade").unwrap().snapshot().unwrap(), &others).unwrap();
                let rest = model.without(|row| row.date() == 0).batch();
                assert_eq!(read, rest, "other dates are read");
            }
        }
        for length in [0, 7, usize::try_from(length).unwrap() - 1] {
            let store = store.copy();
            store.cut(&key, length);
            let database = open(&storage, &store);
            let error = model::read_table(&database, "trade").unwrap_err();
            assert!(error.to_string().contains(&key), "{error}");
            assert_eq!(database.table("trade").unwrap().verify(&mut go_on).unwrap().len(), 1);
        }
        let store = store.copy();
        store.delete(&key).unwrap();
        let error = model::read_table(&open(&storage, &store), "trade").unwrap_err();
        assert!(matches!(&error, Error::Object { fault: ObjectFault::Absent, .. }), "{error}");
        assert_eq!(open(&storage, &store).table("trade").unwrap().verify(&mut go_on).unwrap().len(), 1);
    }
}

/// What was damaged on its way up, or put there by somebody else, is no commit; the next attempt succeeds.
#[test]
fn an_object_that_is_not_what_was_written_is_not_committed() {
    let (storage, store, model) = world(8);
    let database = open(&storage, &store);
    store.flip_in_next_read();
    // The first read is of the mark.
    let _ = move_all(&database);
    assert_eq!(rows(&database), model.batch());
    move_all(&database).unwrap();
    let (storage, other, _) = world(8);
    for key in objects(&store) {
        other.put_if_absent(&key, bytes::Bytes::from_static(b"something else")).unwrap();
    }
    let database = open(&storage, &other);
    let error = move_all(&database).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("memory://cold/trade/date="), "{error}");
    assert_eq!(tiers(&database.table("trade").unwrap()), [Tier::Mapped; 3]);
    for _ in 0..3 {
        let _ = move_all(&database);
    }
    assert_eq!(tiers(&database.table("trade").unwrap()), [Tier::Object; 3]);
    assert_eq!(rows(&database), model.batch());
}

/// A lost or damaged index is made anew from the object.
#[test]
fn an_index_is_made_anew_from_its_object() {
    let (storage, store, model) = moved(9);
    open(&storage, &store).table("trade").unwrap().forget(true).unwrap();
    let index = storage.paths().into_iter().find(|path| path.ends_with(".index")).unwrap();
    let sound = storage.read(&index).unwrap();
    for content in [None, Some(vec![0; sound.len()])] {
        let _ = storage.remove(&index);
        if let Some(content) = content {
            let mut file = storage.create(&index).unwrap();
            file.write(&content).unwrap();
            file.sync().unwrap();
        }
        assert_eq!(rows(&open(&storage, &store)), model.batch());
    }
}

/// The manifest and the index decide which objects are touched, and a column costs few requests.
#[test]
fn what_is_pruned_costs_no_request_and_a_column_few() {
    let symbols = ["AAPL", "IBM", "MSFT", "ÖMV"];
    let days = 3_i64;
    let mut all = model::rows(10, 60_000, 0..days, 4);
    for (number, row) in all.iter_mut().enumerate() {
        row.sym = Some(symbols[number / 7 % 4]);
        row.price = f64::from(u32::try_from(number * 7919 % 1_000_003).unwrap()) / 1000.0;
    }
    all.retain(|row| row.sym != Some("MSFT") || row.date() != 1);
    let storage = scenario::loaded(&all);
    let store = FaultStore::new();
    move_all(&open(&storage, &store)).unwrap();
    let model = Model::new(all);
    let reads = |selection: &Selection, columns: &[usize]| {
        let database = open(&storage, &store);
        let snapshot = database.table("trade").unwrap().snapshot().unwrap();
        let (reads, bytes) = (store.reads(), store.read_bytes());
        let (pieces, stats) = snapshot.select(selection).unwrap();
        assert_eq!(store.reads(), reads, "nothing is fetched to find out what is wanted");
        let mut rows = 0;
        for piece in &pieces {
            // As small as a reader may ask.
            for start in (piece.rows.start..piece.rows.end).step_by(1000) {
                let part = start..(start + 1000).min(piece.rows.end);
                rows += piece.segment.read(snapshot.spec(), columns, part).unwrap().num_rows();
            }
        }
        assert_eq!(rows as u64, stats.rows.selected);
        (store.reads() - reads, store.read_bytes() - bytes, stats.partitions.selected)
    };
    let whole = objects(&store).iter().map(|key| store.length(key).unwrap()).sum::<u64>();
    for columns in [&[2][..], &[0, 1], &[0, 1, 2, 3, 4]] {
        let (requests, bytes, partitions) = reads(&Selection::default(), columns);
        assert_eq!(partitions, 3);
        assert!(requests <= 3 * 3 * columns.len() as u64, "{requests} requests for {} columns", columns.len());
        assert!(bytes <= whole + 3 * (256 << 10), "{bytes} of {whole}");
    }
    let one_date = of_dates(2, 2);
    let (requests, _, partitions) = reads(&one_date, &[2]);
    assert!(partitions == 1 && requests <= 3, "{requests}");
    let none = Selection { symbols: Some(vec!["GOOG".to_owned()]), ..Selection::default() };
    assert_eq!(reads(&none, &[0, 1, 2]), (0, 0, 0), "no such symbol");
    let absent = Selection { symbols: Some(vec!["MSFT".to_owned()]), ..of_dates(1, 1) };
    let (requests, bytes, _) = reads(&absent, &[0, 1, 2]);
    assert_eq!((requests, bytes), (0, 0), "the index of the date rules it out");
    assert_eq!(rows(&open(&storage, &store)), model.batch());
    // What was read is in memory.
    let database = open(&storage, &store);
    rows(&database);
    let before = store.reads();
    rows(&database);
    assert_eq!(store.reads(), before);
    assert!(database.objects().unwrap().traffic().cache_bytes <= CACHE_BYTES);
}

#[test]
fn of_two_databases_one_writes_to_a_store() {
    for seed in 0..6 {
        let store = FaultStore::new();
        let worlds: Vec<(FaultStorage, Model)> = (0..2)
            .map(|number| {
                let model = Model::new(model::rows(100 + seed * 2 + number, 60, 0..1, 4));
                (scenario::loaded(&model.rows), model)
            })
            .collect();
        let done: Vec<Result<CompactReport>> = std::thread::scope(|scope| {
            let tries: Vec<_> =
                worlds.iter().map(|(storage, _)| scope.spawn(|| move_all(&open(storage, &store)))).collect();
            tries.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
        let loser = done.iter().position(Result::is_err).unwrap();
        let error = done[loser].as_ref().unwrap_err();
        assert!(matches!(error, Error::Refused { reason } if reason.contains("another database")), "{error}");
        for (storage, model) in &worlds {
            assert_eq!(rows(&open(storage, &store)), model.batch());
        }
        // The loser takes over, and the winner is refused from then on, also in the middle of a move.
        let [losers, winners] = [&worlds[loser], &worlds[1 - loser]];
        open(&losers.0, &store).take_over_objects().unwrap();
        move_all(&open(&losers.0, &store)).unwrap();
        model::load(&open(&winners.0, &store), &model::rows(7, 30, 5..6, 4), LoadOptions::default()).unwrap();
        assert!(matches!(move_all(&open(&winners.0, &store)), Err(Error::Refused { .. })));
        assert_eq!(rows(&open(&losers.0, &store)), losers.1.batch());
    }
}

#[test]
fn a_store_without_the_mark_is_not_the_one_that_it_was() {
    let (storage, store, model) = moved(12);
    let late = model::rows(13, 50, 7..8, 4);
    model::load(&open(&storage, &store), &late, LoadOptions::default()).unwrap();
    let empty = FaultStore::new();
    let error = move_all(&open(&storage, &empty)).unwrap_err();
    assert!(matches!(&error, Error::Refused { reason } if reason.contains("is it mounted")), "{error}");
    assert_eq!(empty.keys(), Vec::<String>::new());
    assert_eq!(rows(&open(&storage, &store)), model.plus(&late).batch());
}

#[test]
fn without_a_store_objects_are_refused_by_name() {
    let (storage, store, model) = moved(14);
    let database = model::open(&storage).unwrap();
    let table = database.table("trade").unwrap();
    for refused in [
        table.snapshot().and_then(|snapshot| model::read_snapshot(&snapshot, &Selection::default())).map(drop),
        table.compact(&to(Tier::Mapped), &mut go_on).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, Error::Setting { setting: "tier.object.url", .. }), "{error}");
    }
    let error = table.set_tier(Tier::Object, 30).unwrap_err();
    assert!(error.to_string().contains("tier.object"), "{error}");
    let loads = LoadOptions { tier: Some(Tier::Object), ..LoadOptions::default() };
    let refused = model::load(&open(&storage, &store), &model.rows[..5], loads).unwrap_err();
    assert!(matches!(&refused, Error::Setting { setting: "tier", .. }), "{refused}");
}

/// Rows that come late, deletions and updates of dates that are objects; undone again.
#[test]
fn dates_in_the_store_are_changed_like_others() {
    let (storage, store, model) = moved(15);
    let database = open(&storage, &store);
    let table = database.table("trade").unwrap();
    table.forget(true).unwrap();
    let first = objects(&store);
    let late = model::rows(16, 80, 0..2, 4);
    model::load(&database, &late, LoadOptions::default()).unwrap();
    assert_eq!(rows(&database), model.plus(&late).batch());
    assert_eq!(tiers(&table), [Tier::Small, Tier::Small, Tier::Object], "what was changed is here until it moves");
    let loaded = table.stored().unwrap().epoch();
    table.delete(model::smaller(300)).unwrap();
    let without = model.plus(&late).without(|row| row.is_smaller(300));
    assert_eq!(rows(&database), without.batch());
    move_all(&database).unwrap();
    assert_eq!(tiers(&table), [Tier::Object; 3]);
    assert_eq!(rows(&open(&storage, &store)), without.batch());
    assert_eq!(objects(&store), named(&database), "those that undo needs are there still");
    // As it was.
    let past = model::read_snapshot(&table.at_commit(loaded).unwrap(), &Selection::default()).unwrap();
    assert_eq!(past, model.plus(&late).batch());
    table.undo(loaded + 1).unwrap();
    let sorted = |batch: &arrow::array::RecordBatch| format!("{} rows", batch.num_rows());
    assert_eq!(sorted(&rows(&database)), sorted(&model.plus(&late).batch()));
    table.undo(loaded).unwrap();
    assert_eq!(rows(&database), model.batch());
    let report = move_all(&database);
    report.unwrap();
    table.forget(true).unwrap();
    assert_eq!(objects(&store), named(&database));
    assert!(table.verify(&mut go_on).unwrap().is_empty());
    assert_eq!(first.len(), 3);
    assert_eq!(rows(&open(&storage, &store)), model.batch());
}

/// An undo that gives a date its files back gives it its objects back, too.
#[test]
fn undo_brings_objects_back_without_a_copy() {
    let (storage, store, model) = moved(17);
    let database = open(&storage, &store);
    let table = database.table("trade").unwrap();
    table.forget(true).unwrap();
    let before = objects(&store);
    table
        .delete(Removal::matching(of_dates(0, 1), Vec::new(), |rows| {
            Ok(arrow::array::BooleanArray::from(vec![true; rows.num_rows()]))
        }))
        .unwrap();
    assert_eq!(rows(&database), model.without(|row| row.date() < 2).batch());
    let calls = store.calls();
    table.undo(table.stored().unwrap().epoch()).unwrap();
    assert_eq!(store.calls(), calls, "by the index alone");
    assert_eq!(tiers(&table), [Tier::Object; 3]);
    assert_eq!(rows(&database), model.batch());
    table.forget(true).unwrap();
    assert_eq!(objects(&store), before);
    assert_eq!(rows(&open(&storage, &store)), model.batch());
    assert_eq!(storage.paths(), model::expected_paths(&storage));
}

#[test]
fn objects_go_with_retention_and_drops_but_not_before_files_would() {
    let (storage, store, model) = moved(18);
    let database = open(&storage, &store);
    let table = database.table("trade").unwrap();
    table.forget(true).unwrap();
    table.expire(Retention { days: Some(1), bytes: None }, false).unwrap();
    assert_eq!(rows(&database), model.without(|row| row.date() < 2).batch());
    assert_eq!(objects(&store).len(), 3, "kept for undo");
    table.undo(table.stored().unwrap().epoch()).unwrap();
    assert_eq!(rows(&database), model.batch());
    table.expire(Retention { days: Some(1), bytes: None }, false).unwrap();
    let snapshot = table.snapshot().unwrap();
    table.forget(true).unwrap();
    assert_eq!(objects(&store).len(), 3, "somebody reads");
    drop(snapshot);
    let dropped = table.drop_table().unwrap();
    table.undo(dropped).unwrap();
    let database = open(&storage, &store);
    assert_eq!(rows(&database), model.without(|row| row.date() < 2).batch());
    let table = database.table("trade").unwrap();
    table.drop_table().unwrap();
    table.forget(true).unwrap();
    assert_eq!(objects(&store), Vec::<String>::new());
    assert_eq!(store.keys(), [MARK]);
}

#[test]
fn a_backup_holds_what_is_in_the_store() {
    let (storage, store, model) = moved(19);
    let database = open(&storage, &store);
    let at = Arc::new(FaultStorage::new());
    let back_up = || {
        let mut backup = BackupWriter::begin(Arc::clone(&at) as Arc<dyn Storage>, 0).unwrap();
        backup.put_tables(&database, &database.commits().unwrap()).unwrap();
        backup.finish().unwrap()
    };
    back_up();
    let reads = store.reads();
    assert_eq!(back_up().new_files, 0);
    assert_eq!(store.reads(), reads, "what a backup has isn't fetched again");
    let backup = Backup::read(at.as_ref()).unwrap().unwrap();
    backup.verify(at.as_ref()).unwrap();
    let restored = FaultStorage::new();
    backup.restore(at.as_ref(), &restored).unwrap();
    // Without the store.
    let copy = model::open(&restored).unwrap();
    assert_eq!(rows(&copy), model.batch());
    assert!(copy.table("trade").unwrap().verify(&mut go_on).unwrap().is_empty());
    // It isn't the one that writes there, until it takes over; then it goes on as the other did.
    let copy = open(&restored, &store);
    model::load(&copy, &model::rows(20, 40, 5..6, 4), LoadOptions::default()).unwrap();
    assert!(matches!(move_all(&copy), Err(Error::Refused { .. })));
    copy.take_over_objects().unwrap();
    move_all(&copy).unwrap();
    assert_eq!(rows(&database), model.batch());
    assert_eq!(rows(&copy).num_rows(), 440);
}

#[test]
fn the_age_of_a_table_moves_its_dates() {
    let (storage, store, model) = world(21);
    let database = open(&storage, &store);
    let table = database.table("trade").unwrap();
    table.set_tier(Tier::Object, 2).unwrap();
    table.set_tier(Tier::Fast, 1).unwrap();
    let due = table.stored().unwrap().due_moves();
    assert_eq!(due, [(0, Tier::Object), (1, Tier::Fast)]);
    let report = table.compact(&CompactOptions::default(), &mut go_on).unwrap();
    assert_eq!(report.partitions, 2);
    assert_eq!(tiers(&table), [Tier::Object, Tier::Fast, Tier::Mapped]);
    assert!(table.stored().unwrap().due_moves().is_empty());
    assert_eq!(rows(&database), model.batch());
}

/// A database of the file system with a folder as its store, as the settings say it.
#[test]
fn a_folder_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let cold = folder.path().join("cold");
    let url = format!("file://{}", cold.display());
    let object = ObjectSettings { cache_bytes: 16 << 20, ..ObjectSettings::new(url) };
    let settings = Settings { tier: TierSettings { object: Some(object) }, ..Settings::default() };
    let at = folder.path().join("hot");
    std::fs::create_dir(&at).unwrap();
    let storage = Arc::new(splay_store::storage::LocalStorage::new(&at));
    let database = Database::create_on(storage, &settings).unwrap();
    assert_eq!(database.settings(), &settings, "as it was written");
    let model = Model::new(model::rows(22, 3000, 0..2, 4));
    model::load(&database, &model.rows, LoadOptions::default()).unwrap();
    let error = move_all(&database).unwrap_err();
    assert!(matches!(error, Error::Object { fault: ObjectFault::Absent, .. }), "it isn't mounted: {error}");
    std::fs::create_dir(&cold).unwrap();
    move_all(&database).unwrap();
    database.table("trade").unwrap().forget(true).unwrap();
    let database = Database::open(&at).unwrap();
    assert_eq!(rows(&database), model.batch());
    let folders: Vec<_> =
        std::fs::read_dir(cold.join("trade")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(folders.len(), 2, "a folder for each date: {folders:?}");
    // Any tool reads them.
    let one = std::fs::read_dir(cold.join("trade/date=1970-01-01")).unwrap().next().unwrap().unwrap();
    let file = std::fs::File::open(one.path()).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert!(reader.metadata().file_metadata().num_rows() > 0);
    for (url, says) in [("s3://bucket/market", "workspace stores/"), ("ftp://host", "no object store for ftp://")] {
        let text = std::fs::read_to_string(at.join("splay.toml")).unwrap();
        let line = text.lines().find(|line| line.starts_with("url")).unwrap();
        std::fs::write(at.join("splay.toml"), text.replace(line, &format!("url = {url:?}"))).unwrap();
        let database = Database::open(&at).unwrap();
        let error = model::read_table(&database, "trade").unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// What a power cut leaves of a folder of objects is whole objects.
#[test]
fn a_power_cut_leaves_whole_objects_in_a_folder() {
    let disk = FaultStorage::new();
    let content = bytes::Bytes::from((0..3000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    FolderStore::on(Arc::new(disk.clone())).put_if_absent("a/b/one", content.clone()).unwrap();
    let total = disk.operations();
    for n in 0..=total {
        let disk = FaultStorage::new();
        disk.stop_after(Some(n));
        let put = FolderStore::on(Arc::new(disk.clone())).put_if_absent("a/b/one", content.clone());
        for seed in 0..16 {
            let image = image(&disk, seed);
            let store = FolderStore::on(Arc::new(image));
            match store.length("a/b/one") {
                Ok(length) => {
                    assert_eq!(length, content.len() as u64);
                    assert_eq!(store.read("a/b/one", 0..length).unwrap(), content);
                }
                Err(error) => {
                    assert_eq!(error.fault, ObjectFault::Absent);
                    assert!(put.is_err(), "acknowledged and lost, cut after {n}, seed {seed}");
                    store.put_if_absent("a/b/one", content.clone()).unwrap();
                }
            }
        }
    }
}

/// A follower has indexes and logs of its own, and reads the leader's objects.
#[test]
fn a_follower_reads_the_leaders_objects() {
    let (storage, store, model) = moved(23);
    let leader = open(&storage, &store);
    leader.table("trade").unwrap().forget(true).unwrap();
    let copied = FaultStorage::new();
    drop(model::open(&copied).unwrap());
    let follower = open(&copied, &store);
    let writer = ReplicaWriter::begin(&follower).unwrap();
    let install = || {
        for head in leader.table_heads().unwrap() {
            assert!(head.objects);
            let log = format!("{}/manifest/{:06}.log", head.folder, head.log);
            let log = leader.read_for_follower(&log, 0, usize::try_from(head.length).unwrap()).unwrap();
            let commit = writer.commit(&head, 0, &log).unwrap().unwrap();
            let reads = store.reads();
            for segment in writer.lacking(&commit, true).unwrap() {
                assert_eq!(segment.files().len(), 1, "the index");
                writer.put(&segment, &mut |path, offset| leader.read_for_follower(path, offset, 1000)).unwrap();
            }
            assert!(writer.lacking(&commit, true).unwrap().is_empty());
            assert_eq!(store.reads(), reads, "no object is fetched");
            writer.install(&commit).unwrap();
            assert!(writer.has(&head).unwrap());
        }
    };
    install();
    assert_eq!(rows(&follower), model.batch());
    assert!(follower.table("trade").unwrap().verify(&mut go_on).unwrap().is_empty());
    // Promoted, it writes there once it has taken over, and the leader of before doesn't.
    writer.release();
    model::load(&follower, &model::rows(24, 30, 5..6, 4), LoadOptions::default()).unwrap();
    assert!(matches!(move_all(&follower), Err(Error::Refused { .. })));
    follower.take_over_objects().unwrap();
    move_all(&follower).unwrap();
    model::load(&leader, &model::rows(25, 30, 5..6, 4), LoadOptions::default()).unwrap();
    assert!(matches!(move_all(&leader), Err(Error::Refused { .. })));
    assert_eq!(rows(&follower).num_rows(), 430);
}

/// A store that answers a read only once another one is under way.
#[derive(Debug)]
struct SideBySide {
    store: FaultStore,
    reading: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl ObjectStore for SideBySide {
    fn put_if_absent(&self, key: &str, bytes: bytes::Bytes) -> ObjectResult<()> {
        self.store.put_if_absent(key, bytes)
    }

    fn read(&self, key: &str, range: std::ops::Range<u64>) -> ObjectResult<bytes::Bytes> {
        let mut reading = self.reading.lock().unwrap();
        reading.0 += 1;
        reading.1 |= reading.0 == 2;
        self.changed.notify_all();
        // Only a reader that waits for one request before it makes the next one waits in vain.
        let wait = self.changed.wait_timeout_while(reading, Duration::from_secs(60), |(_, met)| !*met);
        wait.unwrap().0.0 -= 1;
        self.store.read(key, range)
    }

    fn length(&self, key: &str) -> ObjectResult<u64> {
        self.store.length(key)
    }

    fn list(&self, prefix: &str) -> ObjectResult<Vec<splay_store::object::ObjectEntry>> {
        self.store.list(prefix)
    }

    fn delete(&self, key: &str) -> ObjectResult<()> {
        self.store.delete(key)
    }
}

#[test]
fn what_is_wanted_soon_is_fetched_side_by_side() {
    let (storage, store, model) = moved(26);
    let slow = Arc::new(SideBySide { store, reading: Mutex::default(), changed: Condvar::new() });
    let tier = ObjectTier::new(Arc::clone(&slow) as Arc<dyn ObjectStore>, "memory://cold", CACHE_BYTES, retry());
    let database = Database::open_with(Arc::new(storage.clone()), Some(Arc::new(tier))).unwrap();
    let snapshot = database.table("trade").unwrap().snapshot().unwrap();
    let segments: Vec<_> = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()).collect();
    for segment in &segments {
        segment.index().unwrap();
        segment.open_ahead();
    }
    for segment in &segments {
        let reader = segment.column(snapshot.spec(), 2).unwrap();
        reader.read_ahead(0..reader.rows());
    }
    assert!(slow.reading.lock().unwrap().1, "two at a time");
    assert_eq!(rows(&database), model.batch());
}
