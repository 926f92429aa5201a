//! Files of every format version stay readable: `testdata/golden/v<format>_<case>`, written once, never edited.
//!
//! To add a case, write it with `SPLAY_GOLDEN_OUT=<an empty folder> cargo test --release -p splay-store golden`, and copy the
//! folder's `v1_basic`, `v3_changes`, `v4_tiers`, `v5_day_start`, `v5_partitions`, `v5_reference`, `v6_renamed`, `v7_objects`, `v8_dense` or `v9_encrypted` to `testdata/golden` under a new name. Rows are made by rule, not by chance, so that no library's random
//! numbers are part of the format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Float64Array, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Float64Type};
use splay_store::object::{FolderStore, ObjectTier, Retry};
use splay_store::storage::LocalStorage;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, LoadOptions, OnConflict, Period, Reference, Replace, Retention,
    Selection, Settings, Source, TableSpec, Tier, WriteDownPosition,
};

use crate::encryption;
use crate::model::{DAY, Model, Row, go_on, load, read_snapshot, read_table, smaller};

/// Rows of the table `trade`; `time` strictly rises within a symbol, so that there is one order.
fn trades(from: i64, until: i64) -> Vec<Row> {
    let symbols = [None, Some("AAPL"), Some("IBM"), Some("ÖMV")];
    let row = |n: i64| Row {
        time: n * 100_000_000_001,
        sym: symbols[usize::try_from(n * 7 % 4).unwrap()],
        price: [0.0, -0.0, 1.25, f64::MAX][usize::try_from(n % 4).unwrap()] + f64::from(i32::try_from(n).unwrap()),
        size: (n % 5 != 0).then(|| i32::try_from(n * n % 1000).unwrap()),
        note: (n % 3 == 0).then(|| format!("note {n}")),
    };
    (from..until).map(row).collect()
}

/// One column of each type, in New York's dates.
fn every_type() -> (TableSpec, RecordBatch) {
    let named = [
        ("bool", ["true", "false", "true"]),
        ("int8", ["-128", "0", "127"]),
        ("int16", ["-32768", "0", "32767"]),
        ("int32", ["-2147483648", "0", "2147483647"]),
        ("int64", ["-9223372036854775808", "0", "9223372036854775807"]),
        ("uint8", ["0", "1", "255"]),
        ("uint16", ["0", "1", "65535"]),
        ("uint32", ["0", "1", "4294967295"]),
        ("uint64", ["0", "1", "18446744073709551615"]),
        ("float32", ["-0.5", "NaN", "inf"]),
        ("float64", ["-0.0", "NaN", "-inf"]),
        ("decimal(18,4)", ["-12345678901234.5678", "0", "0.0001"]),
        ("date", ["1969-12-31", "1970-01-01", "2262-04-11"]),
        ("time", ["00:00:00", "09:30:00.000000001", "23:59:59.999999999"]),
        ("symbol", ["", "IBM", "ÖMV"]),
        ("text", ["", "free text", "ÖMV"]),
    ];
    let times = TimestampNanosecondArray::from(vec![0, 5 * DAY, 5 * DAY + 1]).with_timezone("UTC");
    let (mut columns, mut arrays) =
        (vec![ColumnSpec::new("time", ColumnType::Timestamp)], vec![Arc::new(times) as ArrayRef]);
    for (name, values) in named {
        let column_type: ColumnType = name.parse().unwrap();
        arrays.push(cast(&StringArray::from(values.to_vec()), &column_type.arrow()).unwrap());
        columns.push(ColumnSpec::new(format!("a {name}"), column_type));
    }
    let items = Float64Array::from(vec![Some(1.0), None, Some(2.0), Some(3.0), Some(4.0), Some(5.0)]);
    let field = Arc::new(Field::new("item", DataType::Float64, true));
    let nulls = vec![true, false, true].into();
    arrays.push(Arc::new(FixedSizeListArray::new(field, 2, Arc::new(items), Some(nulls))));
    columns.push(ColumnSpec::new("a levels(2)", ColumnType::Levels { size: 2 }));
    let spec = TableSpec::new("types", columns, "time", None).with_time_zone("America/New_York");
    let rows = RecordBatch::try_new(spec.arrow(), arrays).unwrap();
    (spec, rows)
}

fn write(folder: &Path) {
    let database = Database::create(folder).unwrap();
    load(&database, &trades(0, 1100), LoadOptions::default()).unwrap();
    let trade = database.table("trade").unwrap();
    let cold = CompactOptions { tier: Some(Tier::Small), before: Some(1), ..CompactOptions::default() };
    trade.compact(&cold, &mut go_on).unwrap();
    load(&database, &trades(1100, 1200), LoadOptions::default()).unwrap();
    trade.widen_column("size", ColumnType::Int64).unwrap();
    trade.add_column(ColumnSpec::new("venue", ColumnType::Symbol)).unwrap();
    let (spec, rows) = every_type();
    let mut loading = database.load(&spec, LoadOptions::default()).unwrap();
    loading.add_source(Source { name: "types".to_owned(), digest: "0".repeat(64), rows: 3 }).unwrap();
    loading.append(&rows).unwrap();
    loading.commit().unwrap();
}

fn assert_reads(folder: &Path) {
    let database = Database::open(folder).unwrap();
    assert_eq!(database.tables().unwrap(), ["trade", "types"]);
    let mut model = Model::new(trades(0, 1200));
    model.spec.columns[3].column_type = ColumnType::Int64;
    model.spec.columns.push(ColumnSpec::new("venue", ColumnType::Symbol));
    assert_eq!(read_table(&database, "trade").unwrap(), model.batch());
    let (spec, rows) = every_type();
    let types = database.table("types").unwrap();
    let snapshot = types.snapshot().unwrap();
    assert_eq!((snapshot.spec(), snapshot.partitions().len()), (&spec, 2));
    assert_eq!(snapshot.sources().next().unwrap().0.name, "types");
    let read = read_table(&database, "types").unwrap();
    assert_eq!(read, concat_batches(&spec.arrow(), [&rows]).unwrap());
    for table in [types, database.table("trade").unwrap()] {
        let problems = table.verify(&mut go_on).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

#[test]
fn golden_v1_basic_is_read() {
    assert_reads(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v1_basic"));
}

#[test]
fn golden_v2_basic_is_read() {
    assert_reads(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v2_basic"));
}

/// What version 3 added: files that are kept, commits undone, columns renamed and dropped, a retention, a dropped table.
fn write_changes(folder: &Path) {
    let database = Database::create(folder).unwrap();
    load(&database, &trades(0, 300), LoadOptions::default()).unwrap();
    let trade = database.table("trade").unwrap();
    trade.delete(smaller(300)).unwrap();
    load(&database, &trades(300, 400), LoadOptions { replace: Replace::Dates, ..LoadOptions::default() }).unwrap();
    trade.undo(3).unwrap();
    trade.rename_column("note", "remark").unwrap();
    trade.drop_column("price").unwrap();
    trade.set_retention(Retention { days: Some(90), bytes: None }).unwrap();
    let (spec, rows) = every_type();
    let mut loading = database.load(&spec, LoadOptions::default()).unwrap();
    loading.append(&rows).unwrap();
    loading.commit().unwrap();
    database.table("types").unwrap().drop_table().unwrap();
}

fn assert_reads_changes(folder: &Path) {
    let database = Database::open(folder).unwrap();
    assert_eq!(database.tables().unwrap(), ["trade"]);
    let model = Model::new(trades(0, 300)).without(|row| row.is_smaller(300));
    let trade = database.table("trade").unwrap();
    let stored = trade.stored().unwrap();
    let names: Vec<&str> = stored.spec().columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!((names, stored.spec().retention.days), (vec!["time", "sym", "size", "remark"], Some(90)));
    let rows = read_table(&database, "trade").unwrap();
    assert_eq!(rows.columns(), model.batch().project(&[0, 1, 3, 4]).unwrap().columns());
    let past = read_snapshot(&trade.at_commit(1).unwrap(), &Selection::default()).unwrap();
    assert_eq!(past, Model::new(trades(0, 300)).batch());
    let operations: Vec<&str> = trade.commits(10).unwrap().iter().map(|commit| commit.operation).collect();
    assert_eq!(operations, ["schema", "schema", "schema", "undo", "replace", "delete", "load"]);
    assert!(trade.verify(&mut go_on).unwrap().is_empty());
    assert!(database.former("types").unwrap().is_some());
}

#[test]
fn golden_v3_changes_is_read() {
    assert_reads_changes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v3_changes"));
}

/// What version 4 added: prices as decimals, times in coarser units, the tier `fast`.
fn write_tiers(folder: &Path) {
    let database = Database::create(folder).unwrap();
    for (tier, from) in [(Tier::Fast, 0), (Tier::Small, 1728), (Tier::Mapped, 3456)] {
        load(&database, &prices(from, from + 1000), LoadOptions { tier: Some(tier), ..LoadOptions::default() })
            .unwrap();
    }
    let (spec, rows) = every_type();
    let mut loading = database.load(&spec, LoadOptions { tier: Some(Tier::Fast), ..LoadOptions::default() }).unwrap();
    loading.append(&rows).unwrap();
    loading.commit().unwrap();
}

/// Trades at whole milliseconds, at prices of two digits.
fn prices(from: i64, until: i64) -> Vec<Row> {
    let mut rows = trades(from, until);
    for (n, row) in (from..until).zip(&mut rows) {
        (row.time, row.price) = (n * 100_000_000_000, f64::from(i32::try_from(n * n % 9973).unwrap()) / 100.0);
    }
    rows
}

fn assert_reads_tiers(folder: &Path) {
    let database = Database::open(folder).unwrap();
    let rows: Vec<Row> = [0, 1728, 3456].into_iter().flat_map(|from| prices(from, from + 1000)).collect();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(rows).batch());
    let snapshot = database.table("trade").unwrap().snapshot().unwrap();
    let tiers = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()).map(|s| s.entry().tier);
    assert_eq!(tiers.collect::<std::collections::HashSet<Tier>>().len(), 3);
    let (spec, rows) = every_type();
    assert_eq!(read_table(&database, "types").unwrap(), concat_batches(&spec.arrow(), [&rows]).unwrap());
    for table in ["trade", "types"] {
        assert!(database.table(table).unwrap().verify(&mut go_on).unwrap().is_empty());
    }
}

#[test]
fn golden_v4_tiers_is_read() {
    assert_reads_tiers(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v4_tiers"));
}

/// What version 5 added: dates that begin on the evening before.
fn write_day_start(folder: &Path) {
    let database = Database::create(folder).unwrap();
    let (spec, rows) = every_type();
    let spec = spec.with_time_zone("America/Chicago").with_day_start("18:59".parse().unwrap());
    let mut loading = database.load(&spec, LoadOptions::default()).unwrap();
    loading.append(&rows).unwrap();
    loading.commit().unwrap();
}

fn assert_reads_day_start(folder: &Path) {
    let database = Database::open(folder).unwrap();
    let types = database.table("types").unwrap();
    let snapshot = types.snapshot().unwrap();
    assert_eq!(snapshot.spec().dates_in(), "America/Chicago from 18:59 of the day before");
    // Its rows are of 18:00 in Chicago, before the next date begins.
    let dates: Vec<i32> = snapshot.partitions().iter().map(|partition| partition.date).collect();
    assert_eq!(dates, [-1, 4]);
    let (spec, rows) = every_type();
    assert_eq!(read_table(&database, "types").unwrap(), concat_batches(&spec.arrow(), [&rows]).unwrap());
    assert!(types.verify(&mut go_on).unwrap().is_empty());
}

#[test]
fn golden_v5_day_start_is_read() {
    assert_reads_day_start(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v5_day_start"));
}

/// What version 5 added: partitions of other lengths.
fn write_partitions(folder: &Path) {
    let database = Database::create(folder).unwrap();
    let (spec, rows) = every_type();
    for period in [Period::Month, Period::Year, Period::All] {
        let spec = TableSpec { name: period.to_string(), ..spec.clone() }.with_partition(period);
        let mut loading = database.load(&spec, LoadOptions::default()).unwrap();
        loading.append(&rows).unwrap();
        loading.commit().unwrap();
    }
}

fn assert_reads_partitions(folder: &Path) {
    let database = Database::open(folder).unwrap();
    let (spec, rows) = every_type();
    for (period, dates) in [(Period::Month, vec![-31, 0]), (Period::Year, vec![-365, 0]), (Period::All, vec![-109_572])]
    {
        let table = database.table(&period.to_string()).unwrap();
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.spec().partition, period);
        assert_eq!(snapshot.partitions().iter().map(|partition| partition.date).collect::<Vec<_>>(), dates);
        let read = read_table(&database, &period.to_string()).unwrap();
        assert_eq!(read, concat_batches(&spec.arrow(), [&rows]).unwrap());
        assert!(table.verify(&mut go_on).unwrap().is_empty());
    }
}

#[test]
fn golden_v5_partitions_is_read() {
    assert_reads_partitions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v5_partitions"));
}

/// What version 5 added: reference tables.
fn write_reference(folder: &Path) {
    let database = Database::create(folder).unwrap();
    for spec in reference_tables() {
        for options in [
            LoadOptions::default(),
            LoadOptions { on_conflict: OnConflict::Replace, tier: Some(Tier::Fast), ..LoadOptions::default() },
        ] {
            let rows = steps(options.on_conflict == OnConflict::Replace);
            let mut load = database.load(&spec, options).unwrap();
            load.append(&rows).unwrap();
            load.commit().unwrap();
        }
    }
    database.table("from_times").unwrap().rename_column("step", "tick_size").unwrap();
}

/// By symbol, by symbol and date, by symbol and time.
fn reference_tables() -> Vec<TableSpec> {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let of = |name: &str, key: &[&str], effective: Option<&str>| {
        let columns = vec![
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("day", ColumnType::Date),
            ColumnSpec::new("at", ColumnType::Timestamp),
            ColumnSpec::new("step", ColumnType::Float64),
        ];
        TableSpec::of_reference(name, columns, Reference { key: named(key), effective: effective.map(str::to_owned) })
    };
    vec![
        of("by_symbol", &["sym"], None),
        of("from_dates", &["sym", "day"], Some("day")),
        of("from_times", &["sym", "at"], Some("at")),
    ]
}

/// Five rows, of which two have keys of the other five.
fn steps(later: bool) -> RecordBatch {
    let numbers: Vec<i32> = if later { vec![3, 4, 5, 6, 7] } else { vec![0, 1, 2, 3, 4] };
    let symbols =
        numbers.iter().map(|number| ["D", "B", "A", "C", "E", "ÖMV", "", "F"][usize::try_from(*number).unwrap()]);
    let days = Int32Array::from_iter_values(numbers.iter().map(|number| number * 1000 - 2000));
    let times = TimestampNanosecondArray::from_iter_values(numbers.iter().map(|number| i64::from(*number) * DAY + 1));
    let steps = numbers.iter().map(|number| f64::from(*number) + if later { 0.5 } else { 0.0 });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("sym", cast(&StringArray::from_iter_values(symbols), &ColumnType::Symbol.arrow()).unwrap()),
        ("day", cast(&days, &DataType::Date32).unwrap()),
        ("at", Arc::new(times.with_timezone("UTC"))),
        ("step", Arc::new(Float64Array::from_iter_values(steps))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn assert_reads_reference(folder: &Path) {
    let database = Database::open(folder).unwrap();
    for spec in reference_tables() {
        let table = database.table(&spec.name).unwrap();
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.spec().reference, spec.reference);
        let rows = read_table(&database, &spec.name).unwrap();
        let steps = rows.column(3).as_primitive::<Float64Type>().values().to_vec();
        assert_eq!(steps, [6.5, 2.0, 1.0, 3.5, 0.0, 4.5, 7.5, 5.5], "{}", spec.name);
        let was = read_snapshot(&table.at_commit(1).unwrap(), &Selection::default()).unwrap();
        assert_eq!(was.column(3).as_primitive::<Float64Type>().values().to_vec(), [2.0, 1.0, 3.0, 0.0, 4.0]);
        assert!(table.verify(&mut go_on).unwrap().is_empty());
    }
    assert_eq!(database.table("from_times").unwrap().snapshot().unwrap().spec().columns[3].name, "tick_size");
}

#[test]
fn golden_v5_reference_is_read() {
    assert_reads_reference(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v5_reference"));
}

/// What version 6 added: a table that has another name than its folder, and one beside it of the name that it had.
fn write_renamed(folder: &Path) {
    let database = Database::create(folder).unwrap();
    load(&database, &trades(0, 200), LoadOptions::default()).unwrap();
    database.write_down("trade", CAPTURED, &[]).unwrap();
    database.table("trade").unwrap().rename("Tape", |_| false).unwrap();
    load(&database, &trades(200, 300), LoadOptions::default()).unwrap();
}

/// Captured rows of the table under its old name.
const CAPTURED: WriteDownPosition = WriteDownPosition { sequence: 7, cut: 1_000 };

fn assert_reads_renamed(folder: &Path) {
    let database = Database::open(folder).unwrap();
    assert_eq!(database.tables().unwrap(), ["Tape", "trade"]);
    assert_eq!(read_table(&database, "tape").unwrap(), Model::new(trades(0, 200)).batch());
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(trades(200, 300)).batch());
    let tape = database.table("tape").unwrap();
    assert_eq!((tape.name(), tape.folder()), ("Tape", "trade"));
    assert_eq!(read_snapshot(&tape.at_commit(1).unwrap(), &Selection::default()).unwrap().num_rows(), 200);
    let trade = database.table("trade").unwrap().stored().unwrap();
    assert_eq!((database.former("trade").unwrap(), trade.captured()), (Some(CAPTURED), CAPTURED));
    assert!(tape.verify(&mut go_on).unwrap().is_empty());
}

#[test]
fn golden_v6_renamed_is_read() {
    assert_reads_renamed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v6_renamed"));
}

/// A database in a folder of its own, and its objects beside it.
fn with_objects(folder: &Path) -> Database {
    let tier = ObjectTier::new(
        Arc::new(FolderStore::new(folder.join("objects"))),
        "file:///objects",
        16 << 20,
        Retry::default(),
    );
    Database::open_with(Arc::new(LocalStorage::new(folder.join("database"))), Some(Arc::new(tier))).unwrap()
}

/// What version 7 added: dates in an object store.
fn write_objects(folder: &Path) {
    std::fs::create_dir_all(folder.join("objects")).unwrap();
    Database::create(folder.join("database")).unwrap();
    let database = with_objects(folder);
    load(&database, &trades(0, 1200), LoadOptions::default()).unwrap();
    let trade = database.table("trade").unwrap();
    let cold = CompactOptions { tier: Some(Tier::Object), before: Some(1), ..CompactOptions::default() };
    trade.compact(&cold, &mut go_on).unwrap();
    trade.forget(true).unwrap();
}

fn assert_reads_objects(folder: &Path) {
    let database = with_objects(folder);
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(trades(0, 1200)).batch());
    let trade = database.table("trade").unwrap();
    let snapshot = trade.stored().unwrap();
    let tiers: Vec<Tier> = snapshot.partitions().iter().map(|partition| partition.segments[0].entry().tier).collect();
    assert_eq!(tiers, [Tier::Object, Tier::Mapped]);
    assert!(trade.verify(&mut go_on).unwrap().is_empty());
}

#[test]
fn golden_v7_objects_is_read() {
    assert_reads_objects(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v7_objects"));
}

/// What version 8 added: dense dates.
fn write_dense(folder: &Path) {
    let database = Database::create(folder).unwrap();
    let dense = || LoadOptions { tier: Some(Tier::Dense), ..LoadOptions::default() };
    load(&database, &prices(0, 1000), dense()).unwrap();
    let (spec, rows) = every_type();
    let mut loading = database.load(&spec, dense()).unwrap();
    loading.append(&rows).unwrap();
    loading.commit().unwrap();
}

fn assert_reads_dense(folder: &Path) {
    let database = Database::open(folder).unwrap();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(prices(0, 1000)).batch());
    let (spec, rows) = every_type();
    assert_eq!(read_table(&database, "types").unwrap(), concat_batches(&spec.arrow(), [&rows]).unwrap());
    for table in ["trade", "types"] {
        let table = database.table(table).unwrap();
        let snapshot = table.snapshot().unwrap();
        let mut segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        assert!(segments.all(|segment| segment.entry().tier == Tier::Dense));
        assert!(table.verify(&mut go_on).unwrap().is_empty());
    }
}

#[test]
fn golden_v8_dense_is_read() {
    assert_reads_dense(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v8_dense"));
}

/// What version 9 added: encrypted dates of each tier that has them. The keys are those of `keys.txt`.
fn write_encrypted(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let settings = Settings { encryption: Some(encryption::settings()), ..Settings::default() };
    let database = Database::create_on(Arc::new(LocalStorage::new(folder)), &settings).unwrap();
    for (from, tier) in [0, 1728, 3456].into_iter().zip([Tier::Fast, Tier::Small, Tier::Dense]) {
        let options = LoadOptions { tier: Some(tier), ..LoadOptions::default() };
        load(&database, &prices(from, from + 1000), options).unwrap();
    }
    let (spec, rows) = every_type();
    let options = LoadOptions { tier: Some(Tier::Small), ..LoadOptions::default() };
    let mut loading = database.load(&spec, options).unwrap();
    loading.append(&rows).unwrap();
    loading.commit().unwrap();
    // Where the keys are, is another place on each machine.
    std::fs::write(folder.join("splay.toml"), "").unwrap();
}

fn assert_reads_encrypted(folder: &Path) {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder, copy.path());
    let settings = encryption::settings();
    let keys = settings.key_file.as_ref().unwrap();
    std::fs::write(copy.path().join("splay.toml"), format!("[encryption]\nkey_file = {keys:?}\n")).unwrap();
    let database = Database::open(copy.path()).unwrap();
    let expected: Vec<Row> = [0, 1728, 3456].into_iter().flat_map(|from| prices(from, from + 1000)).collect();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(expected).batch());
    let (spec, rows) = every_type();
    assert_eq!(read_table(&database, "types").unwrap(), concat_batches(&spec.arrow(), [&rows]).unwrap());
    for table in ["trade", "types"] {
        let table = database.table(table).unwrap();
        let snapshot = table.snapshot().unwrap();
        let mut segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        assert!(segments.all(|segment| segment.entry().key.as_deref() == Some("second")));
        assert!(table.verify(&mut go_on).unwrap().is_empty());
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            std::fs::copy(path, to).unwrap();
        }
    }
}

#[test]
fn golden_v9_encrypted_is_read() {
    assert_reads_encrypted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden/v9_encrypted"));
}

#[test]
fn the_golden_cases_can_be_written_today() {
    let temporary = tempfile::tempdir().unwrap();
    let output = std::env::var_os("SPLAY_GOLDEN_OUT").map(PathBuf::from);
    let folder = |name: &str| output.as_deref().unwrap_or(temporary.path()).join(name);
    write(&folder("v1_basic"));
    assert_reads(&folder("v1_basic"));
    write_changes(&folder("v3_changes"));
    assert_reads_changes(&folder("v3_changes"));
    write_tiers(&folder("v4_tiers"));
    assert_reads_tiers(&folder("v4_tiers"));
    write_day_start(&folder("v5_day_start"));
    assert_reads_day_start(&folder("v5_day_start"));
    write_partitions(&folder("v5_partitions"));
    assert_reads_partitions(&folder("v5_partitions"));
    write_reference(&folder("v5_reference"));
    assert_reads_reference(&folder("v5_reference"));
    write_renamed(&folder("v6_renamed"));
    assert_reads_renamed(&folder("v6_renamed"));
    write_objects(&folder("v7_objects"));
    assert_reads_objects(&folder("v7_objects"));
    write_dense(&folder("v8_dense"));
    assert_reads_dense(&folder("v8_dense"));
    write_encrypted(&folder("v9_encrypted"));
    assert_reads_encrypted(&folder("v9_encrypted"));
}
