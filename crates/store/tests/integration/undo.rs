//! Undo of commits on which later ones were built, with rows that can't be told apart.

use std::collections::HashMap;
use std::sync::Arc;

use rand::Rng;
use rand::seq::IndexedRandom;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Error, LoadOptions, LoadReport, Removal, Replace, Source, Table, of_dates};

use crate::model::{self, Row, rng, smaller};

/// Rows of one symbol and instant, which differ by their size alone.
fn of_sizes(sizes: &[i32]) -> Vec<Row> {
    let row = model::rows(1, 1, 0..1, 4).swap_remove(0);
    sizes.iter().map(|size| Row { size: Some(*size), ..row.clone() }).collect()
}

fn load(database: &Database, sizes: &[i32]) -> u64 {
    model::load(database, &of_sizes(sizes), LoadOptions::default()).unwrap();
    epoch(database)
}

fn epoch(database: &Database) -> u64 {
    database.table("trade").unwrap().stored().unwrap().epoch()
}

fn delete(table: &Table, bound: i32) {
    table.delete(smaller(bound)).unwrap();
}

fn sizes(database: &Database) -> Vec<i32> {
    let table = database.table("trade").unwrap().stored().unwrap();
    let rows = model::read_snapshot(&table, &splay_store::Selection::default()).unwrap();
    let column = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int32Type>(rows.column(3).as_ref());
    let mut sizes = column.values().to_vec();
    sizes.sort_unstable();
    sizes
}

fn counts(report: &LoadReport) -> (u64, u64) {
    (report.rows, report.removed)
}

fn refusal(table: &Table, commit: u64) -> String {
    match table.undo(commit) {
        Err(Error::CannotUndo { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn new() -> (Database, Table) {
    let database = model::open(&FaultStorage::new()).unwrap();
    load(&database, &[1, 3]);
    let table = database.table("trade").unwrap();
    (database, table)
}

#[test]
fn a_load_whose_rows_were_updated_is_undone_after_the_update() {
    let (database, table) = new();
    table.update(smaller(9), &mut |rows| Ok(crate::life::doubled(&rows))).unwrap();
    assert!(refusal(&table, 1).contains("commit 2 has changed 2 of its rows since: undo that one first"));
    assert_eq!(sizes(&database), [2, 6], "nothing has changed");
    table.undo(2).unwrap();
    assert_eq!(counts(&table.undo(1).unwrap()), (0, 2));
    assert!(sizes(&database).is_empty());
}

#[test]
fn equal_rows_of_a_later_load_stay() {
    let (database, table) = new();
    delete(&table, 2);
    load(&database, &[1, 3]);
    assert_eq!(counts(&table.undo(1).unwrap()), (0, 1));
    assert_eq!(sizes(&database), [1, 3]);
}

#[test]
fn rows_that_are_gone_are_not_counted() {
    let (database, table) = new();
    delete(&table, 9);
    assert_eq!(counts(&table.undo(1).unwrap()), (0, 0));
    assert!(sizes(&database).is_empty());
    assert!(refusal(&table, 2).contains("commit 3 has undone an older commit since"));
    table.undo(3).unwrap();
    assert_eq!(counts(&table.undo(2).unwrap()), (2, 0));
    assert_eq!(sizes(&database), [1, 3]);
}

#[test]
fn what_was_replaced_by_equal_rows_is_undone_after_the_replacement() {
    let (database, table) = new();
    let options = LoadOptions { replace: Replace::Dates, ..LoadOptions::default() };
    model::load(&database, &of_sizes(&[1, 3]), options).unwrap();
    assert!(refusal(&table, 1).contains("commit 2 has replaced rows of these dates since: undo that one first"));
    table.delete(Removal::of(table.stored().unwrap().spec(), of_dates(5, 5)).unwrap()).unwrap();
    table.undo(2).unwrap();
    assert_eq!(counts(&table.undo(1).unwrap()), (0, 2));
    assert!(sizes(&database).is_empty());
}

/// Random loads, deletions and undos of both, with four different rows, against a list that knows which load each row is of. Gives the number of
/// undos that weren't refused.
fn history(seed: u64) -> usize {
    let mut rng = rng(seed);
    let database = Database::create_on(Arc::new(FaultStorage::new()), &splay_store::Settings::default()).unwrap();
    let mut rows: Vec<(i32, u64)> = Vec::new();
    let (mut commits, mut undone) = (Vec::new(), 0);
    let mut deleted: HashMap<u64, Vec<(i32, u64)>> = HashMap::new();
    for step in 0..10 {
        match rng.random_range(0..5) {
            0 | 1 => {
                let sizes: Vec<i32> = (0..rng.random_range(1..4)).map(|_| rng.random_range(1..5)).collect();
                let commit = load(&database, &sizes);
                rows.extend(sizes.into_iter().map(|size| (size, commit)));
                commits.push(commit);
            }
            2 if !commits.is_empty() => {
                let bound = rng.random_range(1..6);
                let before = epoch(&database);
                delete(&database.table("trade").unwrap(), bound);
                let (gone, left) = rows.iter().copied().partition(|(size, _)| *size < bound);
                rows = left;
                if epoch(&database) > before {
                    deleted.insert(before + 1, gone);
                    commits.push(before + 1);
                }
            }
            _ => {
                let Some(commit) = commits.choose(&mut rng).copied() else { continue };
                let before = rows.len();
                let report = match database.table("trade").unwrap().undo(commit) {
                    Err(Error::CannotUndo { .. }) => continue,
                    report => report.unwrap(),
                };
                rows.retain(|(_, of)| *of != commit);
                let removed = before - rows.len();
                let returned = deleted.remove(&commit).unwrap_or_default();
                commits.retain(|of| *of != commit);
                let expected = (returned.len() as u64, removed as u64);
                assert_eq!(counts(&report), expected, "seed {seed}, step {step}");
                rows.extend(returned);
                undone += 1;
            }
        }
        if commits.is_empty() && rows.is_empty() {
            continue;
        }
        let mut expected: Vec<i32> = rows.iter().map(|(size, _)| *size).collect();
        expected.sort_unstable();
        assert_eq!(sizes(&database), expected, "seed {seed}, step {step}");
    }
    undone
}

#[test]
fn equal_rows_are_those_of_their_own_loads() {
    let undone: usize = (0..600).map(history).sum();
    assert!(undone > 500, "{undone}");
}

/// A deletion that was undone doesn't count, though its rows were missing when others were deleted.
#[test]
fn rows_that_came_back_go_with_their_load() {
    let (database, table) = new();
    delete(&table, 2);
    delete(&table, 4);
    table.undo(2).unwrap();
    assert_eq!(sizes(&database), [1]);
    assert_eq!(counts(&table.undo(1).unwrap()), (0, 1));
    assert!(sizes(&database).is_empty());
}

/// What a commit loads is on record as long as its rows are there.
#[test]
fn sources_go_and_come_back_with_their_rows() {
    let database = model::open(&FaultStorage::new()).unwrap();
    let load_file = |again: bool| {
        let mut load = database.load(&model::trade(), LoadOptions { again, ..LoadOptions::default() })?;
        load.add_source(Source { name: "day.csv".to_owned(), digest: "d".to_owned(), rows: 2 })?;
        load.append(&model::batch(&of_sizes(&[1, 3])))?;
        load.commit().map(drop)
    };
    let is_loaded = || matches!(load_file(false), Err(Error::AlreadyLoaded { .. }));
    load_file(false).unwrap();
    let table = database.table("trade").unwrap();
    let sources = || table.commits(9).unwrap().iter().map(|commit| commit.sources.len()).rev().collect::<Vec<_>>();
    assert!(is_loaded());
    table.undo(1).unwrap();
    assert_eq!(sources(), [0, 0]);
    table.undo(2).unwrap();
    assert!(is_loaded(), "its rows are there again");
    assert_eq!((sizes(&database), sources()), (vec![1, 3], vec![1, 0, 0]));
    table.undo(3).unwrap();
    load_file(false).unwrap();
    assert!(refusal(&table, 4).contains("commit 5 has loaded day.csv again since"));
    assert_eq!(sizes(&database), [1, 3]);
    // Loaded twice, of which one is taken back, and then the other one.
    load_file(true).unwrap();
    let twice = epoch(&database);
    assert_eq!(sizes(&database), [1, 1, 3, 3]);
    table.undo(twice).unwrap();
    assert!(is_loaded());
    assert_eq!(sizes(&database), [1, 3]);
    table.undo(5).unwrap();
    assert!(sizes(&database).is_empty());
    assert!(!is_loaded());
    // Three times: the first one stays.
    for _ in 0..2 {
        load_file(true).unwrap();
    }
    let last = epoch(&database);
    for commit in [last - 1, last] {
        table.undo(commit).unwrap();
    }
    assert_eq!(sizes(&database), [1, 3]);
    assert!(is_loaded());
    // Again, not, and again.
    load_file(true).unwrap();
    for _ in 0..2 {
        table.undo(epoch(&database)).unwrap();
    }
    assert_eq!(sizes(&database), [1, 1, 3, 3]);
    assert!(is_loaded());
}
