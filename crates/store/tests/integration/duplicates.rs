//! Loads that leave duplicates out, compared with a plain list of rows.

use std::collections::HashSet;

use rand::Rng;
use rand::seq::IndexedRandom;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Dedupe, Error, LoadOptions, Period, Replace};

use crate::model::{self, DAY, Model, Row, open};

/// Rows of few different values, so that many are equal. `note_bytes` makes them wide.
pub(crate) fn alike(seed: u64, count: usize, days: std::ops::Range<i64>, note_bytes: usize) -> Vec<Row> {
    let mut rng = model::rng(seed);
    let row = |_| Row {
        time: rng.random_range(days.clone()) * DAY + rng.random_range(0..6) * 1_000_000_000,
        sym: [None, Some("A"), Some("B")][rng.random_range(0..3)],
        price: [1.5, f64::NAN, -0.0][rng.random_range(0..3)],
        size: [None, Some(1), Some(2)][rng.random_range(0..3)],
        note: (note_bytes > 0).then(|| format!("{:0note_bytes$}", rng.random_range(0..3))),
    };
    (0..count).map(row).collect()
}

/// What makes a row a duplicate of another; `None` for a row without a key.
fn key(row: &Row, dedupe: &Dedupe) -> Option<String> {
    let group = format!("{} {:?}", row.date(), row.sym);
    let Some(columns) = &dedupe.columns else {
        return Some(format!("{group} {} {} {:?} {:?}", row.time, row.price, row.size, row.note));
    };
    let mut key = group;
    for column in columns {
        key += &match column.as_str() {
            "time" => format!(" {}", row.time),
            "sym" => row.sym.map(|_| String::new())?,
            "price" => format!(" {}", row.price),
            "Size" => format!(" {}", row.size?),
            other => panic!("{other}"),
        };
    }
    Some(key)
}

/// The new rows that stay.
pub(crate) fn fresh(stored: &[Row], new: &[Row], dedupe: &Dedupe) -> Vec<Row> {
    let mut seen: HashSet<String> = stored.iter().filter_map(|row| key(row, dedupe)).collect();
    let mut in_order = new.to_vec();
    in_order.sort_by_key(|row| (row.date(), row.sym, row.time));
    in_order.retain(|row| key(row, dedupe).is_none_or(|key| seen.insert(key)));
    in_order
}

pub(crate) fn by(columns: &str) -> Dedupe {
    columns.parse().unwrap()
}

fn options(dedupe: &Dedupe) -> LoadOptions {
    LoadOptions { threads: 1, dedupe: Some(dedupe.clone()), ..LoadOptions::default() }
}

#[test]
fn a_load_keeps_the_first_of_equal_rows_and_all_that_are_stored() {
    for seed in 0..120 {
        let mut rng = model::rng(seed);
        let keys = ["exact", "Size", "time", "sym", "price,Size", "time, Size", "sym,time"];
        let dedupe = by(keys[rng.random_range(0..keys.len())]);
        let storage = FaultStorage::new();
        let database = open(&storage).unwrap();
        let mut model = Model::new(Vec::new());
        // Rows are compared within a date, also where a partition has several.
        let period = *Period::ALL.choose(&mut rng).unwrap();
        model.spec.partition = period;
        let mut left_out = 0;
        for step in 0..4 {
            let (wide, count) = if rng.random_bool(0.2) { (900, 1500) } else { (0, rng.random_range(0..80)) };
            let new = alike(seed * 10 + step, count, 0..rng.random_range(1..4), wide);
            let keeps_all = rng.random_bool(0.3);
            let memory_bytes = if wide > 0 { 1 << 20 } else { 64 << 20 };
            let options = match keeps_all {
                true => LoadOptions { memory_bytes, partition: Some(period), ..LoadOptions::default() },
                false => LoadOptions { memory_bytes, partition: Some(period), ..options(&dedupe) },
            };
            let report = model::load(&database, &new, options).unwrap();
            let stay = if keeps_all { new.clone() } else { fresh(&model.rows, &new, &dedupe) };
            left_out += report.duplicates;
            assert_eq!(report.rows, stay.len() as u64, "seed {seed}, {dedupe:?}");
            assert_eq!(report.duplicates, (new.len() - stay.len()) as u64, "seed {seed}, {dedupe:?}");
            model = model.plus(&stay);
            assert_eq!(
                model::read(&storage).unwrap(),
                Some(model.batch()),
                "seed {seed}, step {step}, {dedupe:?}, {period}"
            );
        }
        let table = database.table("trade").unwrap();
        let recorded: u64 = table.commits(10).unwrap().iter().map(|commit| commit.duplicates).sum();
        assert_eq!(recorded, left_out, "the commits tell it");
    }
}

#[test]
fn the_first_in_time_stays_and_a_stored_row_stays_before_an_earlier_one() {
    let row = |time: i64, price: f64, size: Option<i32>| Row { time, sym: Some("A"), price, size, note: None };
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let stored = [row(50, 1.0, Some(1))];
    model::load(&database, &stored, LoadOptions::default()).unwrap();
    let new =
        [row(60, 2.0, Some(1)), row(10, 3.0, Some(1)), row(30, 4.0, Some(2)), row(20, 5.0, Some(2)), row(9, 6.0, None)];
    let report = model::load(&database, &new, options(&by("size"))).unwrap();
    assert_eq!((report.rows, report.duplicates), (2, 3));
    let expected = Model::new([&stored[..], &[new[3].clone(), new[4].clone()]].concat());
    assert_eq!(model::read(&storage).unwrap(), Some(expected.batch()));
}

#[test]
fn a_load_without_new_rows_is_told_and_changes_nothing() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let rows = alike(1, 60, 0..2, 0);
    model::load(&database, &rows, options(&by("exact"))).unwrap();
    let (before, files) = (model::read(&storage).unwrap(), storage.paths().len());
    let report = model::load(&database, &rows, options(&by("exact"))).unwrap();
    assert_eq!((report.rows, report.duplicates, report.partitions, report.segments), (0, 60, 0, 0));
    assert_eq!((model::read(&storage).unwrap(), storage.paths().len()), (before, files));
    let commits = database.table("trade").unwrap().commits(1).unwrap();
    assert_eq!((commits[0].added, commits[0].duplicates, commits[0].operation), (0, 60, "load"));
}

#[test]
fn a_refused_duplicate_names_its_row_and_leaves_the_table_as_it_was() {
    let row = |time: i64, size: Option<i32>| Row { time, sym: Some("A"), price: 1.0, size, note: None };
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let refuse = |columns: &str| options(&Dedupe { refuse: true, ..by(columns) });
    model::load(&database, &[row(1, Some(7)), row(2, None), row(2, None)], refuse("size")).unwrap();
    let before = model::read(&storage).unwrap();
    let again = model::load(&database, &[row(DAY, Some(7)), row(5, Some(7))], refuse("size")).unwrap_err();
    assert_eq!(
        again.to_string(),
        "table \"trade\": a row of 1970-01-01 is stored already: sym A, time 1970-01-01T00:00:00.000000005Z, size 7; nothing was \
         loaded"
    );
    let twice = model::load(&database, &[row(5, None), row(5, None)], refuse("exact")).unwrap_err();
    assert!(matches!(twice, Error::Duplicate { is_stored: false, .. }), "{twice}");
    assert_eq!(model::read(&storage).unwrap(), before);
}

#[test]
fn wrong_keys_and_keys_beyond_memory_are_refused() {
    let database = open(&FaultStorage::new()).unwrap();
    let rows: Vec<Row> =
        (0..30_000).map(|at| Row { time: i64::from(at), sym: None, price: 0.0, size: Some(at), note: None }).collect();
    let unknown = model::load(&database, &rows, options(&by("seq"))).unwrap_err();
    assert!(matches!(unknown, Error::NoSuchColumn { .. }), "{unknown}");
    let small = |columns| LoadOptions { memory_bytes: 1 << 20, ..options(&by(columns)) };
    let large = model::load(&database, &rows, small("size")).unwrap_err();
    assert!(large.to_string().contains("give the load more memory, or add the time"), "{large}");
    assert_eq!(model::load(&database, &rows, small("size,time")).unwrap().rows, 30_000);
    for text in ["", "a,,b", ","] {
        assert!(text.parse::<Dedupe>().is_err(), "{text:?}");
    }
}

#[test]
fn what_is_replaced_is_not_compared_with() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let rows = alike(3, 40, 0..2, 0);
    model::load(&database, &rows, LoadOptions::default()).unwrap();
    let dedupe = by("exact");
    let report = model::load(&database, &rows, LoadOptions { replace: Replace::Symbols, ..options(&dedupe) }).unwrap();
    let stay = fresh(&[], &rows, &dedupe);
    assert_eq!((report.rows, report.removed), (stay.len() as u64, 40));
    assert_eq!(model::read(&storage).unwrap(), Some(Model::new(stay).batch()));
}

#[test]
fn undoing_such_a_load_leaves_what_was_stored() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let (first, second) = (alike(4, 30, 0..2, 0), alike(5, 50, 0..2, 0));
    model::load(&database, &first, LoadOptions::default()).unwrap();
    let report = model::load(&database, &second, options(&by("price,time"))).unwrap();
    assert!(report.duplicates > 0 && report.rows > 0);
    let undone = database.table("trade").unwrap().undo(report.epoch).unwrap();
    assert_eq!(undone.removed, report.rows);
    assert_eq!(model::read(&storage).unwrap(), Some(Model::new(first).batch()));
}

#[test]
fn a_table_that_is_replaced_loses_all_its_dates_also_where_duplicates_are_looked_for() {
    for period in Period::ALL {
        let storage = FaultStorage::new();
        let database = open(&storage).unwrap();
        let by_period = LoadOptions { partition: Some(period), ..LoadOptions::default() };
        model::load(&database, &alike(5, 40, 0..3, 0), by_period).unwrap();
        let new = alike(6, 30, 40..41, 0);
        let replacing = LoadOptions { replace: Replace::Table, ..options(&by("exact")) };
        let report = model::load(&database, &new, replacing).unwrap();
        let stay = fresh(&[], &new, &by("exact"));
        assert_eq!((report.rows, report.removed), (stay.len() as u64, 40), "{period}");
        let mut model = Model::new(stay);
        model.spec.partition = period;
        assert_eq!(model::read(&storage).unwrap(), Some(model.batch()), "{period}");
    }
}

#[test]
fn duplicates_of_reference_tables_are_conflicts() {
    let database = open(&FaultStorage::new()).unwrap();
    let refused = database.load(&model::keyed(), options(&by("exact"))).unwrap_err().to_string();
    assert!(refused.contains("it is a reference table, whose rows are told apart by its key"), "{refused}");
}
