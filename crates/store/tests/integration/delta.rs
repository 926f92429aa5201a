//! Delta tables: what others see is a commit of the table, whatever interrupts a publication; and what they couldn't read is refused by name.
//!
//! The log is read here by a few lines of their own, so that what is tested is what is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, Error, FileEntry, LoadOptions, Publish, PublishReport, Removal,
    Replace, Result, Retention, Segment, Table, TableSnapshot, Tier, WriteDownPosition, of_dates,
};

use crate::crash::image;
use crate::model::{self, Model, go_on, open, read};

const LOG: &str = "trade/_delta_log";

/// What the log says at its last version.
#[derive(Debug, Default, Clone, PartialEq)]
struct Seen {
    version: Option<u64>,
    files: BTreeMap<String, Value>,
    metadata: Value,
    protocol: Value,
    epoch: i64,
}

impl Seen {
    fn paths(&self) -> BTreeSet<String> {
        self.files.keys().cloned().collect()
    }

    fn rows(&self) -> u64 {
        let rows = |add: &Value| {
            let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
            stats["numRecords"].as_u64().unwrap()
        };
        self.files.values().map(rows).sum()
    }
}

/// Reads all versions of the log. They follow each other without a gap, and no version adds a file that is there or removes one that isn't.
fn seen(storage: &dyn Storage) -> Seen {
    let mut seen = Seen::default();
    let mut names: Vec<String> = storage.list(LOG).unwrap().into_iter().map(|entry| entry.name).collect();
    names.retain(|name| name.ends_with(".json"));
    for (number, name) in names.into_iter().enumerate() {
        assert_eq!(name, format!("{number:020}.json"));
        let text = String::from_utf8(storage.read(&format!("{LOG}/{name}")).unwrap()).unwrap();
        for line in text.lines() {
            let action: Value = serde_json::from_str(line).unwrap();
            let (kind, what) = action.as_object().unwrap().iter().next().unwrap();
            let path = || what["path"].as_str().unwrap().to_owned();
            match kind.as_str() {
                "add" => assert_eq!(seen.files.insert(path(), what.clone()), None, "{line}"),
                "remove" => assert!(seen.files.remove(&path()).is_some(), "{line}"),
                "metaData" => seen.metadata = what.clone(),
                "protocol" => seen.protocol = what.clone(),
                "txn" => seen.epoch = what["version"].as_i64().unwrap(),
                "commitInfo" => assert_eq!(what["operation"], "PUBLISH"),
                other => panic!("{other}"),
            }
        }
        seen.version = Some(number as u64);
    }
    seen
}

fn table(database: &Database) -> Table {
    database.table("trade").unwrap()
}

fn to(tier: Tier) -> CompactOptions {
    CompactOptions { tier: Some(tier), ..CompactOptions::default() }
}

fn small() -> LoadOptions {
    LoadOptions { tier: Some(Tier::Small), threads: 1, ..LoadOptions::default() }
}

fn publish(storage: &FaultStorage) -> Result<PublishReport> {
    open(storage)?.table("trade")?.publish()
}

/// A published table of three dates in the tier small, whose first publication is yet to come.
fn to_be_published(seed: u64) -> (FaultStorage, Model) {
    let model = Model::new(model::rows(seed, 200, 0..3, 4));
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    model::load(&database, &model.rows, small()).unwrap();
    table(&database).set_publish(Some(Publish::Delta)).unwrap();
    table(&database).compact(&CompactOptions::default(), &mut go_on).unwrap();
    (storage.copy(), model)
}

/// What the manifest says of the table's files.
fn entries(stored: &TableSnapshot) -> Vec<FileEntry> {
    let segments = stored.partitions().iter().flat_map(|partition| partition.segments.iter());
    segments.map(|segment| segment.entry().clone()).collect()
}

/// Paths of the table's Parquet files, by the manifest.
fn of_manifest(storage: &FaultStorage) -> BTreeSet<String> {
    let stored = table(&open(storage).unwrap()).stored().unwrap();
    let parquet = entries(&stored).into_iter().filter(|entry| entry.tier != Tier::Mapped);
    parquet.map(|entry| entry.path.clone()).collect()
}

/// Checks that others see what the table has, and that a second publication has nothing to say.
fn assert_current(storage: &FaultStorage, what: &str) {
    let seen = seen(storage);
    assert_eq!(seen.paths(), of_manifest(storage), "{what}");
    let stored = table(&open(storage).unwrap()).stored().unwrap();
    let rows: u64 =
        entries(&stored).into_iter().filter(|entry| entry.tier != Tier::Mapped).map(|entry| entry.rows).sum();
    assert_eq!(seen.rows(), rows, "{what}");
    assert_readable(storage, &seen, what);
    let paths = storage.paths();
    let again = publish(storage).unwrap();
    assert_eq!((again.is_new, Some(again.version), again.rows), (false, seen.version, rows), "{what}");
    assert_eq!(storage.paths(), paths, "{what}");
}

/// Checks that the files that others see are there, of the length that they are told.
fn assert_readable(storage: &FaultStorage, seen: &Seen, what: &str) {
    for (path, add) in &seen.files {
        let length = storage.read(&format!("trade/{path}")).unwrap_or_else(|error| panic!("{what}: {error}")).len();
        assert_eq!(add["size"].as_u64(), Some(length as u64), "{what}: {path}");
    }
}

#[test]
fn each_commit_is_followed() {
    let (storage, mut model) = to_be_published(70);
    let report = publish(&storage).unwrap();
    assert_eq!((report.version, report.is_new, report.files, report.rows), (0, true, 3, 200));
    assert_current(&storage, "first");
    let first = seen(&storage);
    assert_eq!(first.protocol["minReaderVersion"], 1);
    assert_eq!(first.protocol["writerFeatures"][0], "splayManaged");
    assert_eq!(first.metadata["partitionColumns"][0], "date");
    let schema: Value = serde_json::from_str(first.metadata["schemaString"].as_str().unwrap()).unwrap();
    let types: Vec<&str> =
        schema["fields"].as_array().unwrap().iter().map(|field| field["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["timestamp", "string", "double", "integer", "string", "date"]);
    let database = open(&storage).unwrap();
    let steps: [(&str, Box<dyn Fn(&Database) -> Result<()>>); 8] = [
        ("a load", Box::new(|db| model::load(db, &model::rows(71, 50, 1..5, 4), small()).map(drop))),
        ("a deletion", Box::new(|db| table(db).delete(model::smaller(300)).map(drop))),
        ("an undo", Box::new(|db| table(db).undo(table(db).stored()?.epoch()).map(drop))),
        ("a compaction", Box::new(|db| table(db).compact(&to(Tier::Fast), &mut go_on).map(drop))),
        (
            "a replacement",
            Box::new(|db| {
                let options = LoadOptions { replace: Replace::Dates, ..small() };
                model::load(db, &model::rows(72, 20, 1..2, 4), options).map(drop)
            }),
        ),
        ("a new column", Box::new(|db| table(db).add_column(ColumnSpec::new("venue", ColumnType::Symbol)))),
        (
            "a deleted date",
            Box::new(|db| table(db).delete(Removal::of(table(db).stored()?.spec(), of_dates(0, 0))?).map(drop)),
        ),
        ("retention", Box::new(|db| table(db).expire(Retention { days: Some(2), bytes: None }, false).map(drop))),
    ];
    for (number, (what, step)) in steps.iter().enumerate() {
        let before = seen(&storage);
        step(&database).unwrap();
        assert_eq!(seen(&storage), before, "{what}: nothing changes before the publication");
        assert_readable(&storage, &before, what);
        let report = publish(&storage).unwrap();
        assert_eq!((report.version, report.is_new), (number as u64 + 1, true), "{what}");
        assert_current(&storage, what);
        let (epoch, id) = (seen(&storage).epoch, seen(&storage).metadata["id"].clone());
        assert_eq!((epoch, &id), (table(&database).stored().unwrap().epoch() as i64, &first.metadata["id"]), "{what}");
    }
    table(&database).drop_table().unwrap();
    assert_eq!(seen(&storage).paths(), BTreeSet::new(), "a drop empties the Delta table at once");
    model.rows.truncate(30);
    model::load(&database, &model.rows, small()).unwrap();
    table(&database).set_publish(Some(Publish::Delta)).unwrap();
    table(&database).compact(&CompactOptions::default(), &mut go_on).unwrap();
    publish(&storage).unwrap();
    assert_current(&storage, "another table of the name");
}

#[test]
fn dates_of_mapped_segments_are_left_out_whole_and_named() {
    let (storage, _) = to_be_published(73);
    publish(&storage).unwrap();
    let database = open(&storage).unwrap();
    let mapped = CompactOptions { date: Some(1), ..to(Tier::Mapped) };
    table(&database).compact(&mapped, &mut go_on).unwrap();
    let report = publish(&storage).unwrap();
    assert_eq!((report.left_out, report.changed, report.files), (vec![1], (0, 1), 2));
    assert_eq!(seen(&storage).metadata["configuration"]["splay.leftOut"], "1970-01-02");
    assert_current(&storage, "a mapped date");
    table(&database).compact(&to(Tier::Mapped), &mut go_on).unwrap();
    publish(&storage).unwrap();
    assert_eq!(seen(&storage).metadata["configuration"]["splay.leftOut"], "1970-01-01..1970-01-03");
    table(&database).compact(&to(Tier::Small), &mut go_on).unwrap();
    publish(&storage).unwrap();
    assert_eq!(seen(&storage).metadata["configuration"].get("splay.leftOut"), None);
    table(&database).set_publish(None).unwrap();
    publish(&storage).unwrap();
    assert_eq!(seen(&storage).paths(), BTreeSet::new(), "a table that is no longer published");
}

/// An error that says all of these.
fn assert_refused(result: Result<PublishReport>, words: &[&str]) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Schema { .. }), "{error:?}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn what_others_could_not_read_is_refused_by_name() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    model::load(&database, &model::rows(74, 100, 0..2, 4), small()).unwrap();
    let rewritten = || table(&database).compact(&CompactOptions::default(), &mut go_on).unwrap().partitions;
    assert_refused(publish(&storage), &["isn't published", "publish delta"]);
    table(&database).set_publish(Some(Publish::Delta)).unwrap();
    assert_refused(publish(&storage), &["date=1970-01-01/", "splay compact"]);
    assert_eq!(storage.list(LOG).unwrap(), []);
    assert_eq!((rewritten(), rewritten()), (2, 0), "compaction gives files the form, once");
    publish(&storage).unwrap();
    assert_current(&storage, "compacted");
    // A name of before.
    let before = seen(&storage);
    table(&database).rename_column("size", "quantity").unwrap();
    assert_refused(publish(&storage), &["\"quantity\" is \"size\" there", "splay compact"]);
    assert_eq!(seen(&storage), before);
    assert_eq!(rewritten(), 2);
    publish(&storage).unwrap();
    assert_current(&storage, "a column of another name");
    table(&database).widen_column("quantity", ColumnType::Int64).unwrap();
    assert_refused(publish(&storage), &["\"quantity\" has another type there"]);
    assert_eq!(rewritten(), 2);
    publish(&storage).unwrap();
    // Parts of a microsecond.
    let mut fine = model::rows(75, 10, 0..1, 4);
    fine.iter_mut().for_each(|row| row.time += 1);
    let epoch = model::load(&database, &fine, small());
    let _ = epoch.unwrap();
    assert_refused(publish(&storage), &["parts of a microsecond in \"time\"", "delta-nanos"]);
    assert_eq!(rewritten(), 0, "writing the rows anew wouldn't help");
    table(&database).set_publish(Some(Publish::DeltaNanos)).unwrap();
    assert_eq!(rewritten(), 2);
    publish(&storage).unwrap();
    assert_current(&storage, "nanoseconds");
    let stats: Vec<Value> = seen(&storage)
        .files
        .values()
        .map(|add| serde_json::from_str(add["stats"].as_str().unwrap()).unwrap())
        .collect();
    assert!(stats.iter().all(|stats| stats["minValues"]["time"].is_i64()), "{stats:?}");
    let named = table(&database).rename_column("quantity", "my size");
    named.unwrap();
    assert_refused(publish(&storage), &["rename \"my size\""]);
}

#[test]
fn times_are_rounded_outwards_in_statistics() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let mut rows = model::rows(76, 2, 0..1, 4);
    (rows[0].time, rows[1].time) = (1_001_000, 5_000_002_000);
    (rows[0].sym, rows[1].sym) = (Some("B"), Some("A"));
    model::load(&database, &rows, small()).unwrap();
    table(&database).set_publish(Some(Publish::Delta)).unwrap();
    table(&database).compact(&CompactOptions::default(), &mut go_on).unwrap();
    publish(&storage).unwrap();
    let seen = seen(&storage);
    let add = seen.files.values().next().unwrap();
    let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
    let expected = serde_json::json!({
        "numRecords": 2,
        "minValues": {"time": "1970-01-01T00:00:00.001Z", "sym": "A"},
        "maxValues": {"time": "1970-01-01T00:00:05.001Z", "sym": "B"},
        "nullCount": {"time": 0, "sym": 0},
    });
    assert_eq!((stats, &add["partitionValues"]["date"]), (expected, &Value::from("1970-01-01")));
}

/// A publication that begins where 32 versions are there, so that it writes a checkpoint.
fn with_versions(count: u64) -> FaultStorage {
    let (storage, _) = to_be_published(77);
    let database = open(&storage).unwrap();
    for version in 0..count {
        let tier = if version % 2 == 0 { Tier::Fast } else { Tier::Small };
        table(&database).compact(&CompactOptions { date: Some(1), ..to(tier) }, &mut go_on).unwrap();
        assert_eq!(table(&database).publish().unwrap().version, version);
    }
    storage.copy()
}

/// Cuts the power at every operation of a change and the publication behind it.
fn survives(name: &str, base: &FaultStorage, images: u64, change: &dyn Fn(&Database) -> Result<()>) {
    let run = |storage: &FaultStorage| {
        change(&open(storage)?)?;
        publish(storage)
    };
    let counted = base.copy();
    run(&counted).unwrap();
    let (total, old, new) = (counted.operations(), seen(base), seen(&counted));
    let paths = [old.paths(), new.paths()];
    assert_ne!(old.version, new.version);
    for n in 0..=total {
        let storage = base.copy();
        storage.stop_after(Some(n));
        let done = run(&storage).is_ok();
        for seed in 0..images {
            let what = format!("{name}, power cut after {n} of {total} operations, seed {seed}");
            let image = image(&storage, seed);
            let published = seen(&image);
            assert!(paths.contains(&published.paths()), "{what}: {:?}", published.paths());
            assert!(!done || published.version == new.version, "{what}: a publication that was done is there");
            assert_readable(&image, &published, &what);
            // Not ahead of the manifest.
            let epoch = table(&open(&image).unwrap()).stored().unwrap().epoch();
            assert!(published.epoch <= i64::try_from(epoch).unwrap(), "{what}: {} ahead of {epoch}", published.epoch);
            assert!(read(&image).unwrap().is_some(), "{what}");
            publish(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_current(&image, &what);
            let has_temporary = image.paths().into_iter().any(|path| path.ends_with(".tmp"));
            assert!(!has_temporary, "{what}: what was left goes with the next publication");
        }
    }
    println!("{name}: {} images of {total} operations", (total + 1) * images);
}

#[test]
fn a_publication_survives_a_power_cut() {
    let (base, _) = to_be_published(78);
    survives("the first publication", &base, 24, &|_| Ok(()));
    publish(&base).unwrap();
    let base = base.copy();
    survives("a deletion", &base, 12, &|database| table(database).delete(model::smaller(300)).map(drop));
    survives("a compaction", &base, 8, &|database| table(database).compact(&to(Tier::Fast), &mut go_on).map(drop));
    let load = |database: &Database| model::load(database, &model::rows(79, 40, 2..5, 4), small()).map(drop);
    survives("a load", &base, 8, &load);
    survives("a checkpoint", &with_versions(32), 8, &|database| table(database).delete(model::smaller(300)).map(drop));
}

#[test]
fn each_operation_of_a_publication_may_fail_once() {
    let (first, _) = to_be_published(80);
    let later = with_versions(32);
    table(&open(&later).unwrap()).delete(model::smaller(300)).unwrap();
    for base in [first, later.copy()] {
        let counted = base.copy();
        publish(&counted).unwrap();
        let (total, old, new) = (counted.operations(), seen(&base).paths(), seen(&counted).paths());
        for n in 0..total {
            let what = format!("operation {n} of {total} fails");
            let storage = base.copy();
            storage.fail_at(Some(n));
            let result = publish(&storage);
            storage.fail_at(None);
            let published = seen(&storage).paths();
            assert!(published == new || result.is_err() && published == old, "{what}: {published:?}");
            publish(&storage).unwrap();
            assert_current(&storage, &what);
        }
    }
}

/// The log from a checkpoint on is enough, as after a clean-up of its metadata; and one without what it needs is damaged.
#[test]
fn a_log_begins_with_its_checkpoint() {
    let storage = with_versions(40);
    let expected = seen(&storage);
    let names: Vec<String> = storage.list(LOG).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(names.contains(&format!("{:020}.checkpoint.parquet", 32)), "{names:?}");
    let last = storage.read(&format!("{LOG}/_last_checkpoint")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&last).unwrap()["version"], 32);
    for version in 0..=32 {
        storage.remove(&format!("{LOG}/{version:020}.json")).unwrap();
    }
    let again = publish(&storage).unwrap();
    assert_eq!((again.is_new, Some(again.version)), (false, expected.version));
    table(&open(&storage).unwrap()).delete(model::smaller(300)).unwrap();
    let report = publish(&storage).unwrap();
    assert_eq!((report.version, report.changed.0, report.changed.1), (40, 3, 3));
    let gap = storage.copy();
    gap.remove(&format!("{LOG}/{:020}.json", 35)).unwrap();
    let error = publish(&gap).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains("version 35"), "{error}");
    for (name, change) in [("0000000000000000003.json", 7), ("00000000000000000032.checkpoint.parquet", 40)] {
        let name = if change == 7 { format!("{:020}.json", 36) } else { name.to_owned() };
        let damaged = storage.copy();
        damaged.damage(&format!("{LOG}/{name}"), |bytes| bytes.truncate(bytes.len() - change)).unwrap();
        let error = publish(&damaged).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        // It is made anew.
        for entry in damaged.list(LOG).unwrap() {
            damaged.remove(&format!("{LOG}/{}", entry.name)).unwrap();
        }
        publish(&damaged).unwrap();
        assert_current(&damaged, "made anew");
    }
}

#[test]
fn the_table_of_somebody_else_is_left_alone() {
    let (storage, _) = to_be_published(81);
    storage.create_dir(LOG).unwrap();
    let mut file = storage.create(&format!("{LOG}/{:020}.json", 0)).unwrap();
    file.write(b"{\"protocol\":{\"minReaderVersion\":1,\"minWriterVersion\":2}}\n").unwrap();
    drop(file);
    let error = publish(&storage).unwrap_err();
    assert!(error.to_string().contains("another Delta table"), "{error}");
    assert_eq!(storage.list(LOG).unwrap().len(), 1);
}

/// Processes that publish and change at once: one at a time, and each file once.
#[test]
fn publications_come_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    model::load(&database, &model::rows(82, 100, 0..3, 4), small()).unwrap();
    table(&database).set_publish(Some(Publish::Delta)).unwrap();
    table(&database).compact(&CompactOptions::default(), &mut go_on).unwrap();
    let patiently = |work: &dyn Fn() -> Result<()>| {
        loop {
            match work() {
                Err(Error::Locked { .. }) => std::thread::yield_now(),
                done => break done.unwrap(),
            }
        }
    };
    let path = folder.path().join("db");
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let path = &path;
            scope.spawn(move || {
                let database = Database::open(path).unwrap();
                for step in 0..8 {
                    let rows = model::rows(83 + seed * 10 + step, 5, 0..3, 4);
                    patiently(&|| model::load(&database, &rows, small()).map(drop));
                    patiently(&|| table(&database).publish().map(drop));
                }
            });
        }
    });
    let storage = splay_store::storage::LocalStorage::new(&path);
    let seen = seen(&storage);
    let stored = table(&Database::open(&path).unwrap()).stored().unwrap();
    let expected: BTreeSet<String> = entries(&stored).into_iter().map(|entry| entry.path.clone()).collect();
    assert_eq!((seen.paths(), seen.rows()), (expected, 100 + 3 * 8 * 5));
}

/// Rows that are captured late have a date's files written anew. Those that others see stay until undo's time is over.
#[test]
fn files_that_captured_rows_replace_stay_for_others() {
    for is_published in [true, false] {
        let (storage, _) = to_be_published(90);
        let database = open(&storage).unwrap();
        publish(&storage).unwrap();
        if !is_published {
            table(&database).set_publish(None).unwrap();
        }
        let before = seen(&storage);
        let spec = table(&database).stored().unwrap().spec().clone();
        let late = |day: i64| {
            let rows = model::batch(&model::rows(91 + day.unsigned_abs(), 20, day..day + 1, 4));
            let day = i32::try_from(day).unwrap();
            let segment = Segment::in_memory(&spec, day, format!("late {day}"), &[rows]).unwrap().unwrap();
            (day, vec![Arc::new(segment)])
        };
        let captured = WriteDownPosition { sequence: 1, cut: i64::MAX - 1 };
        database.write_down("trade", captured, &(0..3).map(late).collect::<Vec<_>>()).unwrap();
        let there = before.files.keys().filter(|path| storage.read(&format!("trade/{path}")).is_ok()).count();
        assert_eq!(there, if is_published { 3 } else { 0 });
        publish(&storage).unwrap();
        if is_published {
            assert_current(&storage, "late rows");
        }
    }
}
