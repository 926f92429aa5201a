//! Reference tables: keys, what becomes of rows that meet, effective dates, and all that other tables can do.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{Float64Type, Int32Type};
use rand::Rng;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, Error, FileFormat, LoadOptions, LoadReport, OnConflict,
    Reference, Removal, Replace, Result, Retention, Selection, TableSpec, Tier, of_dates,
};

use crate::model::{go_on, read_snapshot, rng};

/// Instruments with their price steps.
fn instruments() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("tick", ColumnType::Float64),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("name", ColumnType::Text),
    ];
    TableSpec::of_reference("instrument", columns, Reference { key: vec!["sym".to_owned()], effective: None })
}

fn batch(rows: &[(&str, f64, Option<&str>)]) -> RecordBatch {
    let symbols = StringArray::from_iter_values(rows.iter().map(|row| row.0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("sym", cast(&symbols, &ColumnType::Symbol.arrow()).unwrap()),
        ("tick", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("name", Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn load(database: &Database, rows: &[(&str, f64, Option<&str>)], options: LoadOptions) -> Result<LoadReport> {
    let mut load = database.load(&instruments(), options)?;
    load.append(&batch(rows))?;
    load.commit()
}

fn on_conflict(on_conflict: OnConflict) -> LoadOptions {
    LoadOptions { on_conflict, threads: 1, ..LoadOptions::default() }
}

/// Symbols and ticks, in the table's order.
fn rows(database: &Database) -> Vec<(String, f64)> {
    let snapshot = database.table("instrument").unwrap().snapshot().unwrap();
    of(&read_snapshot(&snapshot, &Selection::default()).unwrap())
}

fn of(rows: &RecordBatch) -> Vec<(String, f64)> {
    let symbols = cast(rows.column_by_name("sym").unwrap(), &arrow::datatypes::DataType::Utf8).unwrap();
    let ticks = rows.column_by_name("tick").unwrap().as_primitive::<Float64Type>();
    let symbols = symbols.as_string::<i32>();
    (0..rows.num_rows()).map(|row| (symbols.value(row).to_owned(), ticks.value(row))).collect()
}

fn listed(rows: &[(&str, f64)]) -> Vec<(String, f64)> {
    rows.iter().map(|(symbol, tick)| ((*symbol).to_owned(), *tick)).collect()
}

fn database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    (folder, database)
}

#[test]
fn rows_without_a_time_are_kept_by_key() {
    let (_folder, database) = database();
    let report =
        load(&database, &[("IBM", 0.01, None), ("AAPL", 0.05, Some("Apple"))], LoadOptions::default()).unwrap();
    assert_eq!((report.rows, report.removed, report.epoch), (2, 0, 1));
    assert_eq!(rows(&database), listed(&[("AAPL", 0.05), ("IBM", 0.01)]));
    let snapshot = database.table("instrument").unwrap().snapshot().unwrap();
    let shown: Vec<&str> = snapshot.spec().shown_columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(shown, ["tick", "sym", "name"]);
    assert!(!snapshot.spec().has_virtual_date());
    assert_eq!(snapshot.partitions().len(), 1);
}

#[test]
fn a_key_that_is_there_is_refused_left_or_replaced() {
    let (_folder, database) = database();
    load(&database, &[("A", 1.0, None), ("B", 2.0, None)], LoadOptions::default()).unwrap();
    let again = [("C", 3.0, None), ("B", 9.0, None)];
    let refused = load(&database, &again, LoadOptions::default()).unwrap_err();
    assert!(matches!(&refused, Error::DuplicateKey { values, .. } if values == "B"));
    let message = "duplicate key value violates unique constraint \"instrument_pkey\": key (sym)=(B) already exists";
    assert_eq!(refused.to_string(), message);
    assert_eq!(rows(&database), listed(&[("A", 1.0), ("B", 2.0)]));

    let twice = load(&database, &[("D", 1.0, None), ("D", 2.0, None)], LoadOptions::default()).unwrap_err();
    assert!(twice.to_string().contains("(D) is there twice among the new rows"), "{twice}");

    let unchanged = load(&database, &again, on_conflict(OnConflict::Keep)).unwrap();
    assert_eq!((unchanged.rows, unchanged.removed, unchanged.duplicates), (1, 0, 1));
    assert_eq!(rows(&database), listed(&[("A", 1.0), ("B", 2.0), ("C", 3.0)]));
    // Nothing to do makes no commit.
    let epoch = database.table("instrument").unwrap().snapshot().unwrap().epoch();
    assert_eq!(load(&database, &again, on_conflict(OnConflict::Keep)).unwrap().epoch, epoch);

    let last = [("B", 7.0, None), ("E", 1.0, None), ("B", 8.0, None), ("E", 2.0, None)];
    let replaced = load(&database, &last, on_conflict(OnConflict::Replace)).unwrap();
    assert_eq!((replaced.rows, replaced.removed, replaced.duplicates), (2, 1, 2));
    assert_eq!(rows(&database), listed(&[("A", 1.0), ("B", 8.0), ("C", 3.0), ("E", 2.0)]));
    let commits = database.table("instrument").unwrap().commits(9).unwrap();
    assert_eq!(commits.iter().map(|commit| commit.operation).collect::<Vec<_>>(), ["replace", "load", "load"]);
    assert_eq!(commits.iter().map(|commit| commit.duplicates).collect::<Vec<_>>(), [2, 1, 0]);
    assert!(commits.iter().all(|commit| commit.dates.is_empty()), "rows of no date");
}

#[test]
fn pairs_of_rows_are_resolved_as_the_caller_says() {
    let (_folder, database) = database();
    load(&database, &[("A", 1.0, None), ("B", 2.0, None), ("C", 3.0, None)], LoadOptions::default()).unwrap();
    let begin = || {
        let mut load = database.load(&instruments(), LoadOptions::default()).unwrap();
        load.append(&batch(&[("B", 10.0, None), ("D", 4.0, None), ("A", 20.0, None)])).unwrap();
        load
    };
    // The sum of both, where the stored one is above 1.
    let mut sum = |stored: &RecordBatch, new: &RecordBatch| {
        let tick = |rows: &RecordBatch| rows.column(0).as_primitive::<Float64Type>().clone();
        let above: BooleanArray = tick(stored).iter().map(|tick| tick.map(|tick| tick > 1.0)).collect();
        let sum = arrow::compute::kernels::numeric::add(&tick(stored), &tick(new))?;
        let mut columns = stored.columns().to_vec();
        columns[0] = sum;
        let changed = RecordBatch::try_new(stored.schema(), columns)?;
        Ok((above.clone(), arrow::compute::filter_record_batch(&changed, &above)?))
    };
    let report = begin().commit_resolving(Some(&mut sum)).unwrap();
    assert_eq!((report.rows, report.removed), (2, 1));
    assert_eq!(rows(&database), listed(&[("A", 1.0), ("B", 12.0), ("C", 3.0), ("D", 4.0)]));

    // A key that another row has can't be made.
    let mut renamed = |stored: &RecordBatch, _: &RecordBatch| {
        let mut columns = stored.columns().to_vec();
        columns[1] = cast(&StringArray::from(vec!["C"; stored.num_rows()]), &ColumnType::Symbol.arrow())?;
        let all = BooleanArray::from(vec![true; stored.num_rows()]);
        Ok((all, RecordBatch::try_new(stored.schema(), columns)?))
    };
    let mut one = database.load(&instruments(), LoadOptions::default()).unwrap();
    one.append(&batch(&[("A", 0.0, None)])).unwrap();
    assert!(matches!(one.commit_resolving(Some(&mut renamed)), Err(Error::DuplicateKey { .. })));
    let mut twice = database.load(&instruments(), LoadOptions::default()).unwrap();
    twice.append(&batch(&[("A", 0.0, None), ("A", 1.0, None)])).unwrap();
    let refused = twice.commit_resolving(Some(&mut sum)).unwrap_err();
    assert_eq!(refused.to_string(), "ON CONFLICT DO UPDATE command cannot affect row a second time");
}

#[test]
fn what_a_reference_table_cannot_be_is_said() {
    let (_folder, database) = database();
    let spec = |key: &[&str], effective: Option<&str>| {
        let columns = vec![
            ColumnSpec::new("id", ColumnType::Int64),
            ColumnSpec::new("day", ColumnType::Date),
            ColumnSpec::new("price", ColumnType::Float64),
        ];
        let key = key.iter().map(|name| (*name).to_owned()).collect();
        TableSpec::of_reference("t", columns, Reference { key, effective: effective.map(str::to_owned) })
    };
    let refusal = |spec: &TableSpec| database.load(spec, LoadOptions::default()).map(drop).unwrap_err().to_string();
    assert!(refusal(&spec(&["nobody"], None)).contains("\"nobody\", which isn't there"));
    assert!(refusal(&spec(&["id", "ID"], None)).contains("twice"));
    assert!(refusal(&spec(&["price"], None)).contains("no floats"));
    assert!(refusal(&spec(&["id"], Some("day"))).contains("must be a column of the key"));
    assert!(refusal(&spec(&[], Some("id"))).contains("not date or timestamp"));
    assert!(refusal(&spec(&["__time"], None)).contains("isn't there"));
    assert!(refusal(&spec(&["id"], None).with_time_zone("Asia/Tokyo")).contains("no time zone"));
    let keyless = LoadOptions { on_conflict: OnConflict::Keep, ..LoadOptions::default() };
    let unkeyed = database.load(&spec(&[], None), keyless).map(drop).unwrap_err();
    assert!(unkeyed.to_string().contains("no key"), "{unkeyed}");
    let by_date = LoadOptions { replace: Replace::Dates, ..LoadOptions::default() };
    assert!(database.load(&spec(&["id"], None), by_date).map(drop).unwrap_err().to_string().contains("whole table"));

    load(&database, &[("A", 1.0, None)], LoadOptions::default()).unwrap();
    let table = database.table("instrument").unwrap();
    let stored = table.snapshot().unwrap().spec().clone();
    assert!(Removal::of(&stored, of_dates(0, 0)).unwrap_err().to_string().contains("no dates"));
    assert!(table.set_retention(Retention { days: Some(3), bytes: None }).is_err());
    assert!(table.drop_column("sym").is_err() && table.drop_column("__time").is_err());
    assert!(table.widen_column("sym", ColumnType::Text).is_err());
    let other = TableSpec::of_reference("instrument", stored.shown_columns().to_vec(), Reference::default());
    assert!(
        database.load(&other, LoadOptions::default()).map(drop).unwrap_err().to_string().contains("its key is sym")
    );
    let timed = vec![ColumnSpec::new("t", ColumnType::Timestamp)];
    let timed = TableSpec::new("instrument", timed, "t", None);
    assert!(
        database.load(&timed, LoadOptions::default()).map(drop).unwrap_err().to_string().contains("a reference table")
    );
}

#[test]
fn keys_are_not_null() {
    let (_folder, database) = database();
    let mut loading = database.load(&instruments(), LoadOptions::default()).unwrap();
    let missing = batch(&[("A", 1.0, None)]).project(&[1]).unwrap();
    assert!(loading.append(&missing).unwrap_err().to_string().contains("lacks the column \"sym\""));
    let symbols: ArrayRef = cast(&StringArray::from(vec![Some("A"), None]), &ColumnType::Symbol.arrow()).unwrap();
    let null = RecordBatch::try_from_iter_with_nullable([("sym", symbols, true)]).unwrap();
    let refused = loading.append(&null).unwrap_err();
    assert!(matches!(refused, Error::Row { row: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("not-null constraint"));
}

/// Deletion, update, undo, a table as it was, columns, tiers, export: as for other tables.
#[test]
fn reference_tables_live_as_others_do() {
    let (folder, database) = database();
    load(&database, &[("A", 1.0, None), ("B", 2.0, None), ("C", 3.0, None)], LoadOptions::default()).unwrap();
    let table = database.table("instrument").unwrap();
    let above = |bound: f64| {
        Removal::matching(Selection::default(), vec![0], move |rows| {
            let ticks = rows.column(0).as_primitive::<Float64Type>();
            Ok(ticks.iter().map(|tick| tick.map(|tick| tick > bound)).collect::<BooleanArray>())
        })
    };
    assert_eq!(table.delete(above(2.5)).unwrap().removed, 1);
    let mut negative = |rows: RecordBatch| {
        let mut columns = rows.columns().to_vec();
        columns[0] = Arc::new(rows.column(0).as_primitive::<Float64Type>().unary::<_, Float64Type>(|tick| -tick));
        Ok(RecordBatch::try_new(rows.schema(), columns)?)
    };
    table.update(above(1.5), &mut negative).unwrap();
    assert_eq!(rows(&database), listed(&[("A", 1.0), ("B", -2.0)]));
    assert_eq!(of(&read_snapshot(&table.at_commit(1).unwrap(), &Selection::default()).unwrap()).len(), 3);

    // The row comes back that the deletion took, and what came later stays.
    table.undo(2).unwrap();
    assert_eq!(rows(&database), listed(&[("A", 1.0), ("B", -2.0), ("C", 3.0)]));
    // Of a deletion whose key is there again the undo is refused.
    table.delete(above(2.5)).unwrap();
    load(&database, &[("C", 5.0, None)], LoadOptions::default()).unwrap();
    let epoch = table.snapshot().unwrap().epoch();
    let refused = table.undo(epoch - 1).unwrap_err();
    assert!(refused.to_string().contains("the key (sym)=(C) would be there twice"), "{refused}");

    table.add_column(ColumnSpec::new("venue", ColumnType::Symbol)).unwrap();
    table.rename_column("sym", "symbol").unwrap();
    let spec = table.snapshot().unwrap().spec().clone();
    assert_eq!(spec.reference.as_ref().unwrap().key, ["symbol"]);
    let shown: Vec<&str> = spec.shown_columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(shown, ["tick", "symbol", "name", "venue"]);
    for tier in Tier::LOCAL {
        table.compact(&CompactOptions { tier: Some(tier), ..CompactOptions::default() }, &mut go_on).unwrap();
        assert!(table.verify(&mut go_on).unwrap().is_empty());
        assert_eq!(table.snapshot().unwrap().rows(), 3);
    }
    // Later changes keep the tier.
    table.delete(above(4.0)).unwrap();
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.partitions()[0].segments[0].entry().tier, Tier::LOCAL[Tier::LOCAL.len() - 1]);
    for (format, name) in [(FileFormat::Arrow, "arrow"), (FileFormat::Parquet, "parquet")] {
        assert_eq!(table.export(format, &folder.path().join(name), &mut go_on).unwrap().0, 2);
    }
    let file = std::fs::File::open(folder.path().join("arrow/date=1970-01-01/000001.arrow")).unwrap();
    let exported = arrow::ipc::reader::FileReader::try_new(file, None).unwrap().schema();
    let names: Vec<&String> = exported.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["tick", "symbol", "name", "venue"]);
}

/// Rows of one symbol are ordered by the date from which on they are in effect, whatever its type and however they came.
#[test]
fn rows_are_ordered_by_effective_date() {
    let (_folder, database) = database();
    for (name, column_type) in [("dates", ColumnType::Date), ("times", ColumnType::Timestamp)] {
        let columns = vec![
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("from_day", column_type.clone()),
            ColumnSpec::new("ratio", ColumnType::Float64),
        ];
        let key = vec!["sym".to_owned(), "from_day".to_owned()];
        let reference = Reference { key, effective: Some("from_day".to_owned()) };
        let spec = TableSpec::of_reference(name, columns, reference);
        assert_eq!(spec.has_hidden_time(), column_type == ColumnType::Date);
        for days in [vec![20_000, -3, 400], vec![7, 19_999]] {
            let symbols: Vec<&str> = days.iter().map(|day| if day % 2 == 0 { "A" } else { "B" }).collect();
            let symbols = cast(&StringArray::from(symbols), &ColumnType::Symbol.arrow()).unwrap();
            let from = cast(&Date32Array::from(days.clone()), &column_type.arrow()).unwrap();
            let ratios = Float64Array::from_iter_values(days.iter().map(|day| f64::from(*day)));
            let rows: Vec<(&str, ArrayRef)> = vec![("sym", symbols), ("from_day", from), ("ratio", Arc::new(ratios))];
            let mut load = database.load(&spec, LoadOptions::default()).unwrap();
            load.append(&RecordBatch::try_from_iter(rows).unwrap()).unwrap();
            load.commit().unwrap();
        }
        let snapshot = database.table(name).unwrap().snapshot().unwrap();
        let rows = read_snapshot(&snapshot, &Selection::default()).unwrap();
        let ratios = rows.column(2).as_primitive::<Float64Type>().values().to_vec();
        assert_eq!(ratios, [400.0, 20_000.0, -3.0, 7.0, 19_999.0]);
        let times = rows.column(snapshot.spec().time_position());
        assert_eq!(times.null_count(), 0);
    }
}

/// Random loads with each rule, deletions and undos, against a map.
#[test]
fn keys_are_unique_through_a_random_life() {
    let mut rng = rng(7);
    for _ in 0..20 {
        let (_folder, database) = database();
        let mut states: Vec<BTreeMap<String, i32>> = vec![BTreeMap::new()];
        load(&database, &[], LoadOptions::default()).unwrap();
        states.push(BTreeMap::new());
        let table = database.table("instrument").unwrap();
        for step in 0..12_i32 {
            let mut now = states[states.len() - 1].clone();
            match rng.random_range(0..4) {
                0 => {
                    let bound = f64::from(rng.random_range(0..step + 1));
                    let removal = Removal::matching(Selection::default(), vec![0], move |rows| {
                        let ticks = rows.column(0).as_primitive::<Float64Type>();
                        Ok(ticks.iter().map(|tick| tick.map(|tick| tick < bound)).collect::<BooleanArray>())
                    });
                    table.delete(removal).unwrap();
                    now.retain(|_, tick| f64::from(*tick) >= bound);
                }
                rule => {
                    let names = ["A", "B", "C", "D", "E", "F"];
                    let chosen: Vec<&str> =
                        (0..rng.random_range(1..5)).map(|_| names[rng.random_range(0..6)]).collect();
                    let new: Vec<(&str, f64, Option<&str>)> =
                        chosen.iter().map(|name| (*name, f64::from(step), None)).collect();
                    let rule = [OnConflict::Refuse, OnConflict::Keep, OnConflict::Replace][rule - 1];
                    let is_new = |name: &&str| !now.contains_key(*name);
                    let distinct = chosen.iter().collect::<std::collections::HashSet<_>>().len() == chosen.len();
                    let loaded = load(&database, &new, on_conflict(rule));
                    if rule == OnConflict::Refuse && !(distinct && chosen.iter().all(is_new)) {
                        assert!(matches!(loaded, Err(Error::DuplicateKey { .. })));
                        continue;
                    }
                    loaded.unwrap();
                    for name in chosen {
                        let entry = now.entry(name.to_owned());
                        match rule {
                            OnConflict::Replace => drop(entry.insert_entry(step)),
                            _ => drop(entry.or_insert(step)),
                        }
                    }
                }
            }
            let expected: Vec<(String, f64)> =
                now.iter().map(|(name, tick)| (name.clone(), f64::from(*tick))).collect();
            assert_eq!(rows(&database), expected);
            let epoch = usize::try_from(table.snapshot().unwrap().epoch()).unwrap();
            states.resize(epoch, states[states.len() - 1].clone());
            if states.len() <= epoch {
                states.push(now);
            }
            // Each state can be read as it was.
            let past = rng.random_range(1..states.len());
            let was = read_snapshot(&table.at_commit(past as u64).unwrap(), &Selection::default()).unwrap();
            let expected: Vec<(String, f64)> =
                states[past].iter().map(|(name, tick)| (name.clone(), f64::from(*tick))).collect();
            assert_eq!(of(&was), expected);
        }
        // An undo gives what was before, or says why it can't; never two rows of a key.
        for commit in (2..=table.snapshot().unwrap().epoch()).rev() {
            match table.undo(commit) {
                Ok(_) | Err(Error::CannotUndo { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            let names: Vec<String> = rows(&database).into_iter().map(|row| row.0).collect();
            assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        }
    }
}

#[test]
fn symbols_have_codes_of_their_own_rows() {
    let (_folder, database) = database();
    load(&database, &[("A", 1.0, None), ("B", 2.0, None)], LoadOptions::default()).unwrap();
    load(&database, &[("0", 3.0, None)], LoadOptions::default()).unwrap();
    let snapshot = database.table("instrument").unwrap().snapshot().unwrap();
    let rows = read_snapshot(&snapshot, &Selection { symbols: Some(vec!["B".to_owned()]), ..Selection::default() });
    assert_eq!(of(&rows.unwrap()), listed(&[("B", 2.0)]));
    let codes = snapshot.partitions()[0].segments[0].read(snapshot.spec(), &[1], 0..3).unwrap();
    assert_eq!(codes.column(0).as_dictionary::<Int32Type>().keys().values().to_vec(), [0, 1, 2]);
}
