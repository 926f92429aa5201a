//! The life of rows: loads, deletions, replacements, updates and their undoing, against a list of rows.

use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use rand::Rng;
use rand::seq::IndexedRandom;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    CompactOptions, Database, Error, LoadOptions, Removal, Replace, Retention, Selection, Settings, Source, Table,
    of_dates,
};

use crate::model::{self, Model, Row, go_on, read_snapshot, rng, smaller};
use crate::scenario::loaded;

/// Rows as lines of text, for comparison without regard to the order of ties.
fn lines(rows: &RecordBatch) -> Vec<String> {
    let cell = |column: &arrow::array::ArrayRef, row| array_value_to_string(column, row).unwrap();
    let line = |row| rows.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    let mut lines: Vec<String> = (0..rows.num_rows()).map(line).collect();
    lines.sort();
    lines
}

/// `all` without one of each of `some`; panics if one isn't there.
fn minus(all: &[String], some: &[String]) -> Vec<String> {
    let mut rest = all.to_vec();
    for line in some {
        if let Some(place) = rest.iter().position(|other| other == line) {
            rest.swap_remove(place);
        }
    }
    rest
}

fn stored(table: &Table) -> RecordBatch {
    read_snapshot(&table.stored().unwrap(), &Selection::default()).unwrap()
}

/// What a commit made of what.
struct Step {
    commit: u64,
    before: Model,
    after: Model,
    /// Rows that a load brought without taking any away; `None` for other changes.
    loaded: Option<Vec<Row>>,
}

pub(crate) fn doubled(rows: &RecordBatch) -> RecordBatch {
    let sizes: Int32Array = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int32Type>(rows.column(3).as_ref())
        .unary(|size| size * 2);
    let mut columns = rows.columns().to_vec();
    columns[3] = Arc::new(sizes);
    RecordBatch::try_new(rows.schema(), columns).unwrap()
}

fn options(rng: &mut impl Rng, replace: Replace) -> LoadOptions {
    let memory_bytes = if rng.random_bool(0.3) { 1 << 20 } else { 64 << 20 };
    LoadOptions { memory_bytes, threads: rng.random_range(1..3), replace, ..LoadOptions::default() }
}

/// A random change, and what the table shall hold after it; `None` if nothing matches.
fn change(rng: &mut impl Rng, database: &Database, table: &Table, old: &Model, seed: u64) -> (Model, Option<Vec<Row>>) {
    let date = rng.random_range(0..3);
    match rng.random_range(0..6) {
        0 => {
            let bound = rng.random_range(0..600);
            table.delete(smaller(bound)).unwrap();
            (old.without(|row| row.is_smaller(bound)), None)
        }
        1 => {
            let mut selection = of_dates(date, date + rng.random_range(0..2));
            let symbol = *["AAPL", "IBM", "none"].choose(rng).unwrap();
            if rng.random_bool(0.5) {
                selection.symbols = Some(vec![symbol.to_owned()]);
            }
            if rng.random_bool(0.5) {
                selection.time.max = i64::from(date) * model::DAY + 25_000_000_000;
            }
            let removal = Removal::of(table.snapshot().unwrap().spec(), selection.clone()).unwrap();
            table.delete(removal).unwrap();
            let goes = |row: &Row| {
                selection.date.contains(row.date())
                    && selection.time.contains(row.time)
                    && (selection.symbols.is_none() || row.sym == Some(symbol))
            };
            (old.without(goes), None)
        }
        2 => {
            let bound = rng.random_range(0..600);
            table.update(smaller(bound), &mut |rows| Ok(doubled(&rows))).unwrap();
            let mut changed: Vec<Row> = old.rows.iter().filter(|row| row.is_smaller(bound)).cloned().collect();
            changed.sort_by_key(|row| (row.date(), row.sym, row.time));
            changed.iter_mut().for_each(|row| row.size = row.size.map(|size| size * 2));
            (old.without(|row| row.is_smaller(bound)).plus(&changed), None)
        }
        3 => {
            let by = *[Replace::Dates, Replace::Symbols].choose(rng).unwrap();
            let incoming = model::rows(seed, rng.random_range(1..30), i64::from(date)..i64::from(date) + 2, 4);
            model::load(database, &incoming, options(rng, by)).unwrap();
            let goes = |row: &Row| {
                let same = |new: &Row| new.date() == row.date() && (by == Replace::Dates || new.sym == row.sym);
                incoming.iter().any(same)
            };
            (old.without(goes).plus(&incoming), None)
        }
        _ => {
            let mut incoming = model::rows(seed, rng.random_range(1..60), i64::from(date)..i64::from(date) + 2, 4);
            if rng.random_bool(0.5) {
                // Behind all others, so that only files are added.
                let step = i64::try_from(seed).unwrap() * 100_000_000_000;
                incoming
                    .iter_mut()
                    .for_each(|row| (row.sym, row.time) = (Some("ÖMV"), row.time % model::DAY % 50 + step));
            }
            model::load(database, &incoming, options(rng, Replace::Nothing)).unwrap();
            (old.plus(&incoming), Some(incoming))
        }
    }
}

/// Undoes a commit, and compares with what was there before it and what came after it.
fn undo(table: &Table, steps: &[Step], number: usize, old: &Model) -> Option<Model> {
    let step = &steps[number];
    let before = lines(&old.batch());
    match table.undo(step.commit) {
        Err(Error::CannotUndo { .. }) => {
            assert_eq!(lines(&stored(table)), before, "nothing has changed");
            None
        }
        Err(error) => panic!("{error}"),
        Ok(_) => {
            let (was, made) = (lines(&step.before.batch()), lines(&step.after.batch()));
            let mut expected = minus(&before, &minus(&made, &was));
            expected.extend(minus(&was, &made));
            expected.sort();
            let actual = stored(table);
            assert_eq!(lines(&actual), expected, "commit {} undone", step.commit);
            let later: Option<Vec<Vec<Row>>> = steps[number + 1..].iter().map(|step| step.loaded.clone()).collect();
            if let Some(later) = later {
                let exact = step.before.plus(&later.concat());
                assert_eq!(actual, exact.batch(), "commit {} undone, in the order of arrival", step.commit);
                return Some(exact);
            }
            // The order of ties isn't followed any further.
            None
        }
    }
}

fn history(seed: u64) -> (usize, usize) {
    let mut rng = rng(seed);
    let mut old = Model::new(model::rows(seed, 60, 0..3, 4));
    let storage = loaded(&old.rows);
    let database = model::open(&storage).unwrap();
    let table = database.table("trade").unwrap();
    let first = Step { commit: 1, before: Model::new(vec![]), after: old.clone(), loaded: Some(old.rows.clone()) };
    let (mut steps, mut undone, mut refused) = (vec![first], 0, 0);
    for number in 0..rng.random_range(1..8) {
        let before = table.stored().unwrap().epoch();
        let (new, loaded) = change(&mut rng, &database, &table, &old, seed * 100 + number);
        assert_eq!(stored(&table), new.batch(), "seed {seed}, change {number}");
        let commit = table.stored().unwrap().epoch();
        if commit > before {
            steps.push(Step { commit, before: old, after: new.clone(), loaded });
        }
        old = new;
        match rng.random_range(0..10) {
            0 => {
                table.compact(&CompactOptions::default(), &mut go_on).unwrap();
                assert_eq!(stored(&table), old.batch(), "compaction");
            }
            1 => drop(table.forget(rng.random_bool(0.5)).unwrap()),
            _ => {}
        }
    }
    for step in &steps {
        match table.at_commit(step.commit) {
            Ok(past) => {
                assert_eq!(read_snapshot(&past, &Selection::default()).unwrap(), step.after.batch(), "{}", step.commit);
            }
            Err(Error::NoSuchCommit { first, .. }) => assert!(step.commit < first),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(table.verify(&mut go_on).unwrap().is_empty());
    let number = rng.random_range(0..steps.len());
    match undo(&table, &steps, number, &old) {
        None => refused += 1,
        Some(new) => {
            undone += 1;
            // And back again.
            let last = table.stored().unwrap().epoch();
            table.undo(last).unwrap();
            assert_eq!(lines(&stored(&table)), lines(&old.batch()), "the undoing undone");
            table.undo(last + 1).unwrap();
            assert_eq!(lines(&stored(&table)), lines(&new.batch()));
        }
    }
    // Another process sees the same.
    let again = Database::open_on(Arc::new(storage.clone())).unwrap().table("trade").unwrap();
    assert_eq!(lines(&stored(&again)), lines(&stored(&database.table("trade").unwrap())));
    (undone, refused)
}

#[test]
fn any_changes_give_the_rows_of_the_list_and_can_be_undone() {
    let histories: u64 = std::env::var("SPLAY_LIFE_HISTORIES").map_or(150, |count| count.parse().unwrap());
    let (mut undone, mut refused) = (0, 0);
    for seed in 1..=histories {
        let (more, less) = history(seed);
        (undone, refused) = (undone + more, refused + less);
    }
    println!("{histories} histories: {undone} undone and followed exactly, {refused} refused or followed as sets");
    assert!(undone > 20 && refused > 20, "{undone} undone, {refused} refused");
}

#[test]
fn a_load_that_is_undone_can_be_loaded_again() {
    let database = model::open(&FaultStorage::new()).unwrap();
    let load = |rows: &[Row]| {
        let mut load = database.load(&model::trade(), LoadOptions::default())?;
        load.add_source(Source { name: "day.csv".to_owned(), digest: "00".to_owned(), rows: rows.len() as u64 })?;
        load.append(&model::batch(rows))?;
        load.commit()
    };
    let rows = model::rows(1, 40, 0..2, 4);
    load(&rows).unwrap();
    assert!(matches!(load(&rows), Err(Error::AlreadyLoaded { epoch: 1, .. })));
    let table = database.table("trade").unwrap();
    let report = table.undo(1).unwrap();
    assert_eq!((report.rows, report.removed, table.stored().unwrap().rows()), (0, 40, 0));
    load(&rows).unwrap();
    assert_eq!(stored(&table), Model::new(rows).batch());
    let commits = table.commits(10).unwrap();
    let words: Vec<&str> = commits.iter().map(|commit| commit.operation).collect();
    assert_eq!(words, ["load", "undo", "load"]);
    assert_eq!((commits[0].added, commits[0].sources[0].name.as_str()), (40, "day.csv"));
    assert_eq!((commits[1].removed, commits[1].undoes), (40, Some(1)));
    assert_eq!(commits[2].cannot_undo.as_deref(), Some("commit 2 has undone it"));
}

#[test]
fn what_is_not_kept_is_refused_by_name() {
    let storage = FaultStorage::new();
    let settings = Settings { history_s: 0, ..Settings::default() };
    let database = Database::create_on(Arc::new(storage.clone()), &settings).unwrap();
    let rows = model::rows(2, 60, 0..2, 4);
    model::load(&database, &rows, LoadOptions::default()).unwrap();
    let table = database.table("trade").unwrap();
    table.delete(smaller(300)).unwrap();
    assert_eq!(table.stored().unwrap().undo_files().count(), 0);
    let refused = table.undo(2).unwrap_err().to_string();
    assert!(refused.contains("commit 2") && refused.contains("are gone"), "{refused}");
    let refused = table.at_commit(1).unwrap_err().to_string();
    assert!(refused.contains("after commits 2 to 2, not after 1"), "{refused}");
    assert!(matches!(table.at_commit(3), Err(Error::NoSuchCommit { .. })));
    assert!(matches!(table.undo(17), Err(Error::CannotUndo { .. })));
    let nothing = table.delete(smaller(-100)).unwrap();
    assert_eq!((nothing.removed, nothing.epoch), (0, 2), "no commit without rows");
    let all = Removal::of(table.snapshot().unwrap().spec(), Selection::default()).unwrap();
    let remaining = table.stored().unwrap().rows();
    assert_eq!(table.delete(all).unwrap().removed, remaining);
    assert_eq!((table.stored().unwrap().rows(), storage.paths().len()), (0, 5));
}

#[test]
fn retention_removes_the_oldest_dates() {
    let storage = loaded(&model::rows(3, 100, 0..10, 4));
    let table = model::open(&storage).unwrap().table("trade").unwrap();
    let would = table.expire(Retention { days: Some(3), bytes: None }, true).unwrap();
    assert_eq!(would.dates, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(table.stored().unwrap().partitions().len(), 10, "a dry run");
    assert_eq!(table.expire(Retention { days: Some(3), bytes: None }, false).unwrap(), would);
    assert_eq!(table.stored().unwrap().partitions().len(), 3);
    let before = table.stored().unwrap().epoch();
    assert!(table.expire(Retention { days: Some(3), bytes: Some(1 << 30) }, false).unwrap().dates.is_empty());
    assert_eq!(table.stored().unwrap().epoch(), before, "nothing to do, no commit");
    let last = table.expire(Retention { days: None, bytes: Some(1) }, false).unwrap();
    assert_eq!(last.dates, [7, 8], "the newest date stays");
    table.undo(before + 1).unwrap();
    table.undo(before).unwrap();
    assert_eq!(table.stored().unwrap().rows(), 100);
}

/// One row of the year 2243 made all other dates old.
#[test]
fn dates_ahead_of_the_clock_make_no_others_old() {
    let retention = Retention { days: Some(3), bytes: None };
    let table = |days: &[i64]| {
        let rows: Vec<_> = days.iter().flat_map(|day| model::rows(3, 10, *day..day + 1, 4)).collect();
        model::open(&loaded(&rows)).unwrap().table("trade").unwrap()
    };
    let expired = |days: &[i64]| table(days).expire(retention, false).unwrap().dates;
    assert_eq!(expired(&[1, 2, 3, 4, 100_000]), [1]);
    assert_eq!(expired(&[2, 3, 4, 100_000]), [0; 0]);
    assert_eq!(expired(&[99_990, 100_000]), [99_990], "of dates that are all ahead the last counts");
    let by_size = table(&[1, 2, 100_000]).expire(Retention { days: None, bytes: Some(1) }, false).unwrap().dates;
    assert_eq!(by_size, [1]);
}

#[test]
fn a_table_that_is_dropped_is_gone_and_can_come_back() {
    let rows = model::rows(4, 80, 0..3, 4);
    let storage = loaded(&rows);
    let database = model::open(&storage).unwrap();
    let table = database.table("trade").unwrap();
    let dropped = table.drop_table().unwrap();
    assert!(matches!(table.stored(), Err(Error::NoSuchTable { .. })));
    for database in [&database, &model::open(&storage).unwrap()] {
        assert_eq!(database.tables().unwrap(), Vec::<String>::new());
        assert!(matches!(database.table("trade").and_then(|t| t.snapshot()), Err(Error::NoSuchTable { .. })));
        assert!(database.former("TRADE").unwrap().is_some());
    }
    assert!(matches!(table.drop_table(), Err(Error::NoSuchTable { .. })));
    let other = model::open(&storage).unwrap();
    other.dropped_table("trade").unwrap().undo(dropped).unwrap();
    assert_eq!(stored(&other.table("trade").unwrap()), Model::new(rows.clone()).batch());
    assert_eq!(stored(&table), Model::new(rows.clone()).batch(), "the other handle sees it, too");
    let again = table.drop_table().unwrap();
    let handle = || database.table("trade").or_else(|_| database.dropped_table("trade")).unwrap();
    let refusal = |epoch| match handle().undo(epoch) {
        Err(Error::CannotUndo { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refusal(1).contains("undo that one first"), "{}", refusal(1));
    // Another table of the name, with other columns.
    let spec = splay_store::TableSpec::new(
        "trade",
        vec![splay_store::ColumnSpec::new("at", splay_store::ColumnType::Timestamp)],
        "at",
        None,
    );
    database.load(&spec, LoadOptions::default()).unwrap().commit().unwrap();
    let new = database.table("trade").unwrap().stored().unwrap();
    assert_eq!((new.rows(), new.spec().columns.len(), new.sources().count()), (0, 1, 0));
    for epoch in [1, again] {
        assert!(refusal(epoch).contains("created anew"), "{}", refusal(epoch));
    }
    let again = Database::open_on(Arc::new(storage)).unwrap();
    assert_eq!(again.tables().unwrap(), ["trade"]);
    assert!(again.table("trade").unwrap().at_commit(1).unwrap().rows() == 80, "what it was can still be read");
}

#[test]
fn columns_are_renamed_and_dropped_without_a_file_written_anew() {
    let rows = model::rows(5, 80, 0..2, 4);
    let storage = loaded(&rows);
    let table = model::open(&storage).unwrap().table("trade").unwrap();
    let before = stored(&table);
    table.rename_column("SIZE", "volume").unwrap();
    table.rename_column("sym", "Symbol").unwrap();
    table.drop_column("note").unwrap();
    let after = stored(&table);
    let names: Vec<String> = after.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["time", "Symbol", "price", "volume"]);
    assert_eq!(after.column(3), before.column(3));
    let spec = table.stored().unwrap().spec().clone();
    assert_eq!((spec.symbol.as_deref(), spec.time.as_str()), (Some("Symbol"), "time"));
    for name in ["size", "note", "SYM"] {
        let refused = table.add_column(splay_store::ColumnSpec::new(name, splay_store::ColumnType::Int8)).unwrap_err();
        assert!(refused.to_string().contains("older files still have that column"), "{refused}");
    }
    assert!(table.drop_column("time").unwrap_err().to_string().contains("orders the rows"));
    assert!(matches!(table.rename_column("nothing", "x"), Err(Error::NoSuchColumn { .. })));
    assert!(table.rename_column("price", "volume").is_err());
    // Files of both kinds, and files written anew.
    let database = model::open(&storage).unwrap();
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    let more = model::batch(&model::rows(6, 40, 1..2, 4)).project(&[0, 1, 2, 3]).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), more.columns().to_vec()).unwrap()).unwrap();
    load.commit().unwrap();
    let all = stored(&table);
    assert_eq!(all.num_rows(), 120);
    table.compact(&CompactOptions::default(), &mut go_on).unwrap();
    assert_eq!(stored(&table), all);
    table.rename_column("volume", "size").unwrap();
    assert_eq!(stored(&table).column(3), all.column(3), "and back again");
    assert_eq!(read_snapshot(&table.at_commit(1).unwrap(), &Selection::default()).unwrap(), before);
    assert!(table.verify(&mut go_on).unwrap().is_empty());
}

#[test]
fn a_dropped_column_comes_back_while_its_values_are_there() {
    let rows = model::rows(7, 80, 0..3, 4);
    let storage = loaded(&rows);
    let database = model::open(&storage).unwrap();
    let table = database.table("trade").unwrap();
    table.rename_column("size", "volume").unwrap();
    let before = stored(&table);
    table.drop_column("volume").unwrap();
    let commit = table.stored().unwrap().epoch();
    // Rows that go hinder nothing, nor do such that come on another date, or behind others in a file of their own.
    table.delete(Removal::of(table.stored().unwrap().spec(), of_dates(2, 2)).unwrap()).unwrap();
    let mut later = model::rows(8, 20, 7..8, 4);
    model::load(&database, &later, LoadOptions::default()).unwrap();
    let report = table.undo(commit).unwrap();
    assert_eq!((report.rows, report.removed, report.partitions), (0, 0, 0));
    let spec = table.stored().unwrap().spec().clone();
    assert_eq!(spec.columns[3].name, "volume");
    assert!(spec.dropped.is_empty());
    later.iter_mut().for_each(|row| row.size = None);
    let empty = Model { spec: spec.clone(), rows: Vec::new() };
    let old: Vec<Row> = rows.iter().filter(|row| row.date() != 2).cloned().collect();
    let mut expected = model::batch(&empty.plus(&old).plus(&later).rows);
    expected = RecordBatch::try_new(spec.arrow(), expected.columns().to_vec()).unwrap();
    assert_eq!(lines(&stored(&table)), lines(&expected));
    // What the deletion removed has it, too, when it comes back.
    table.undo(commit + 1).unwrap();
    table.undo(commit + 2).unwrap();
    assert_eq!(stored(&table), before);
    let refused = |commit: u64| match table.undo(commit) {
        Err(Error::CannotUndo { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refused(commit).contains("has undone it"));
    assert!(refused(commit + 3).contains("drop them again"));
    assert!(refused(commit - 1).contains("leaves the rows as they are"), "a column that was renamed");
    // Files that are written anew lose it.
    table.drop_column("volume").unwrap();
    let commit = table.stored().unwrap().epoch();
    assert!(table.commits(1).unwrap()[0].cannot_undo.is_none());
    table.update(Removal::of(table.stored().unwrap().spec(), of_dates(1, 1)).unwrap(), &mut Ok).unwrap();
    assert!(refused(commit).contains("date=1970-01-02 were written anew since"));
    table.undo(commit + 1).unwrap();
    table.undo(commit).unwrap();
    assert_eq!(stored(&table), before, "the files of before are there again");
    table.drop_column("volume").unwrap();
    let commit = table.stored().unwrap().epoch();
    table
        .compact(&CompactOptions { tier: Some(splay_store::Tier::Small), ..CompactOptions::default() }, &mut go_on)
        .unwrap();
    assert!(refused(commit).contains("were written anew since"));
    table.forget(true).unwrap();
    assert!(refused(commit).contains("were written anew since"));
    assert_eq!(table.stored().unwrap().spec().columns.len(), 4);
}
