//! The list of views: what a crash, a failed operation and damage leave of it.

use std::sync::Arc;

use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Error, LoadOptions, Settings, View};

use rand::Rng;

use crate::model::{self, load, rng, trade};

fn view(name: &str, query: &str) -> View {
    View::new(name, Vec::new(), query)
}

fn open(storage: &FaultStorage) -> Database {
    model::open(storage).unwrap()
}

fn database() -> FaultStorage {
    let storage = FaultStorage::new();
    Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    storage
}

/// A change of the list of views.
type Change = fn(&Database) -> Result<(), Error>;

const CHANGES: [Change; 4] = [
    |database| database.create_view(view("bars", "select 2"), true),
    |database| database.create_view(view("quotes", "select 3"), false),
    |database| database.drop_view("BARS", |_| false).map(|_| ()),
    |database| database.rename_view("BARS", "candles", |_| false),
];

#[test]
fn a_power_cut_leaves_the_old_views_or_the_new_ones() {
    let mut images = 0;
    for (number, change) in CHANGES.into_iter().enumerate() {
        let base = database();
        open(&base).create_view(view("bars", "select 1"), false).unwrap();
        let whole = base.copy();
        let before = whole.operations();
        change(&open(&whole)).unwrap();
        let (total, new) = (whole.operations() - before, open(&whole).views().unwrap());
        let old = open(&base).views().unwrap();
        assert!(total >= 4 && new != old, "it syncs what it writes");
        for n in 0..=total {
            let storage = base.copy();
            storage.stop_after(Some(n));
            let done = change(&open(&storage)).is_ok();
            for seed in 0..64 {
                let mut random = rng(seed);
                let image = storage.crash(&mut |bound| random.random_range(0..bound));
                let database = open(&image);
                let views = database.views().unwrap();
                let what = format!("change {number}, power cut after {n} of {total} operations, seed {seed}");
                assert!(views == new || (!done && views == old), "{what}: {views:?}");
                database.create_view(view("next", "select 4"), false).unwrap();
                assert!(database.view("Next").unwrap().is_some(), "{what}");
                images += 1;
            }
        }
    }
    println!("{images} images");
}

#[test]
fn an_operation_that_fails_is_told() {
    for change in CHANGES {
        let base = database();
        open(&base).create_view(view("bars", "select 1"), false).unwrap();
        let whole = base.copy();
        let before = whole.operations();
        change(&open(&whole)).unwrap();
        for n in 0..whole.operations() - before {
            let storage = base.copy();
            storage.fail_at(Some(n));
            let message = change(&open(&storage)).unwrap_err().to_string();
            storage.fail_at(None);
            assert!(message.contains("injected fault"), "{message}");
            change(&open(&storage))
                .or_else(|error| match error {
                    // It was done already.
                    Error::Name { .. } | Error::Refused { .. } => Ok(()),
                    other => Err(other),
                })
                .unwrap();
        }
    }
}

#[test]
fn names_are_those_of_one_thing() {
    let storage = database();
    let database = open(&storage);
    load(&database, &model::rows(1, 10, 0..1, 4), LoadOptions::default()).unwrap();
    let table = trade().name;
    let message = |error: Error| error.to_string();
    assert!(
        message(database.create_view(view(&table.to_uppercase(), "select 1"), true).unwrap_err())
            .contains("a table has this name")
    );
    database.create_view(view("bars", "select 1"), false).unwrap();
    assert!(
        message(database.create_view(view("Bars", "select 2"), false).unwrap_err()).contains("a view has this name")
    );
    assert!(message(database.create_view(view("a b", "select 2"), false).unwrap_err()).contains("only A-Z"));
    assert!(
        message(database.create_view(view("Views.json", "select 2"), false).unwrap_err())
            .contains("a file of the database")
    );
    let mut other = trade();
    other.name = "BARS".to_owned();
    assert!(message(database.load(&other, LoadOptions::default()).unwrap_err()).contains("a view has this name"));
    assert_eq!(database.tables().unwrap(), [table]);
    let none = |_: &View| false;
    assert!(database.drop_view("bars", none).unwrap() && !database.drop_view("bars", none).unwrap());
    // A dropped table doesn't come back under the name of a view.
    let commit = database.table("trade").unwrap().drop_table().unwrap();
    database.create_view(view("trade", "select 1"), false).unwrap();
    let dropped = database.dropped_table("trade").unwrap();
    assert!(message(dropped.undo(commit).unwrap_err()).contains("a view has the table's name"));
    database.drop_view("trade", none).unwrap();
    dropped.undo(commit).unwrap();
    assert_eq!(database.table("trade").unwrap().snapshot().unwrap().rows(), 10);
}

#[test]
fn a_table_that_views_read_is_not_dropped() {
    let storage = database();
    let database = open(&storage);
    load(&database, &model::rows(1, 10, 0..1, 4), LoadOptions::default()).unwrap();
    let table = database.table("trade").unwrap();
    database.create_view(view("bars", "select 1 from trade"), false).unwrap();
    database.create_view(View { materialized: Some("TRADE".to_owned()), ..view("kept", "select 2") }, false).unwrap();
    let reads = |view: &View| view.query.contains("trade");
    let refused = table.drop_unread(reads).unwrap_err().to_string();
    assert!(refused.contains("table \"trade\" is read by the views bars, kept: drop them first"), "{refused}");
    database.drop_view("bars", reads).unwrap();
    let refused = table.drop_unread(reads).unwrap_err().to_string();
    assert!(refused.contains("is read by the view kept: drop it first"), "{refused}");
    assert_eq!(table.snapshot().unwrap().rows(), 10);
    database.drop_view("kept", reads).unwrap();
    let commit = table.drop_unread(reads).unwrap().epoch;
    database.dropped_table("trade").unwrap().undo(commit).unwrap();
    assert_eq!(database.table("trade").unwrap().snapshot().unwrap().rows(), 10);
}

#[test]
fn a_view_that_views_read_is_not_dropped() {
    let storage = database();
    let database = open(&storage);
    database.create_view(view("bars", "select 1"), false).unwrap();
    database.create_view(view("days", "select * from bars"), false).unwrap();
    let materialized = View { materialized: Some("trade".to_owned()), ..view("kept", "select 2") };
    database.create_view(materialized.clone(), false).unwrap();
    let reads = |view: &View| view.query.contains("bars");
    let refused = database.drop_view("BARS", reads).unwrap_err().to_string();
    assert!(refused.contains("view \"BARS\" is read by the view days: drop it first"), "{refused}");
    let refused = database.drop_materialized(&materialized, reads).unwrap_err().to_string();
    assert!(refused.contains("view \"kept\" is read by the view days: drop it first"), "{refused}");
    assert_eq!(database.views().unwrap().len(), 3);
    assert!(!database.drop_view("other", reads).unwrap());
    assert!(database.drop_view("days", reads).unwrap(), "its own query is no other's");
    assert!(database.drop_materialized(&materialized, reads).unwrap());
    assert!(database.drop_view("bars", reads).unwrap());
    assert!(database.views().unwrap().is_empty());
}

#[test]
fn damage_is_named() {
    let storage = database();
    let database = open(&storage);
    database.create_view(view("bars", "select 10 from trade"), false).unwrap();
    let bytes = storage.read("views.json").unwrap();
    for (at, bit) in (0..bytes.len()).map(|at| (at, 1u8 << (at % 8))) {
        let damaged = storage.copy();
        damaged.damage("views.json", |bytes| bytes[at] ^= bit).unwrap();
        match open(&damaged).views() {
            Ok(views) => assert_eq!(*views, [view("bars", "select 10 from trade")], "byte {at}"),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. } | Error::FormatVersion { .. }), "byte {at}: {error}")
            }
        }
    }
    for length in 0..bytes.len() {
        let damaged = storage.copy();
        damaged.damage("views.json", |bytes| bytes.truncate(length)).unwrap();
        assert!(open(&damaged).views().unwrap_err().is_damage(), "{length} bytes");
    }
    // What this process has read before is read again.
    storage.damage("views.json", |bytes| bytes.clear()).unwrap();
    assert!(database.views().is_err());
}
