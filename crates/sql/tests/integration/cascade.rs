//! `CASCADE` that is cut short: no view is left that reads what is gone.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_sql::{IntoFiles, Parameters, Result, Session, SessionSettings, Stop};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Settings};

const MADE: [&str; 7] = [
    "create table trade (time timestamp, size bigint)",
    "insert into trade values ('2024-03-01 10:00:00', 1), ('2024-03-02 10:00:00', 2)",
    "create materialized view bars as select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1",
    "create view busy as select * from bars where volume > 1",
    "create view busiest as select max(volume) as most from busy",
    "create view of_rows as select sum(volume) as volume from \"bars.rows\"",
    "create view both as select trade.size, busy.volume from trade join busy on trade.time = busy.bar",
];

const DROP: &str = "drop table trade cascade";

fn open(storage: &FaultStorage) -> Option<Session> {
    let database = Database::open_on(Arc::new(storage.clone())).ok()?;
    Some(Session::new(database, SessionSettings { threads: 1, ..Default::default() }).unwrap())
}

fn run(session: &Session, statement: &str) -> Result<Vec<RecordBatch>> {
    session.change(statement, Parameters::None, Stop::NEVER, &IntoFiles(session.database()))?.batches()
}

/// The views that went, as the answer says.
fn dropped(rows: &[RecordBatch]) -> String {
    rows[0].column_by_name("dropped").unwrap().as_string::<i32>().value(0).to_owned()
}

#[test]
fn a_power_cut_leaves_no_view_without_what_it_reads() {
    let base = FaultStorage::new();
    Database::create_on(Arc::new(base.clone()), &Settings::default()).unwrap();
    let session = open(&base).unwrap();
    MADE.iter().for_each(|statement| drop(run(&session, statement).unwrap()));
    let views = session.database().views().unwrap().len();
    drop(session);
    let whole = base.copy();
    let begun = whole.operations();
    let answer = run(&open(&whole).unwrap(), DROP).unwrap();
    // A view has its readers before it.
    assert_eq!(dropped(&answer), "both, busiest, busy, of_rows, bars");
    let total = whole.operations() - begun;
    let mut partly = 0;
    for n in 0..=total {
        let storage = base.copy();
        storage.stop_after(Some(n));
        let done = open(&storage).is_some_and(|session| run(&session, DROP).is_ok());
        for seed in 0..4 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let image = storage.crash(&mut |bound| random.random_range(0..bound));
            let session = open(&image).unwrap();
            let what = format!("power cut after {n} of {total} operations, seed {seed}");
            let views_now = session.database().views().unwrap();
            for view in views_now.iter() {
                let read = session.sql(&format!("select * from \"{}\"", view.name), Parameters::None);
                let read = read.and_then(|mut answer| answer.batches());
                read.unwrap_or_else(|error| panic!("{what}: {}: {error}", view.name));
            }
            let is_there = session.database().has_table("trade").unwrap();
            assert!(is_there || views_now.is_empty(), "{what}: {views_now:?}");
            assert!(!done || !is_there, "{what}: it was answered");
            partly += usize::from(!views_now.is_empty() && views_now.len() < views);
            run(&session, "drop table if exists trade cascade").unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(session.database().views().unwrap().is_empty(), "{what}");
            assert_eq!(session.database().tables().unwrap(), Vec::<String>::new(), "{what}");
        }
    }
    assert!(partly > 20, "{partly}");
}

#[test]
fn a_view_that_is_dropped_takes_its_readers_along() {
    let base = FaultStorage::new();
    Database::create_on(Arc::new(base.clone()), &Settings::default()).unwrap();
    let session = open(&base).unwrap();
    MADE.iter().for_each(|statement| drop(run(&session, statement).unwrap()));
    let refused = run(&session, "drop materialized view bars").unwrap_err().to_string();
    assert!(refused.contains("view \"bars\" is read by the views busy, of_rows"), "{refused}");
    assert_eq!(dropped(&run(&session, "drop view busy cascade").unwrap()), "both, busiest");
    assert_eq!(dropped(&run(&session, "drop materialized view bars cascade").unwrap()), "of_rows");
    assert_eq!(session.database().tables().unwrap(), ["trade"]);
}

/// Of several none goes where one can't.
#[test]
fn several_are_dropped_by_one_statement_or_none() {
    let base = FaultStorage::new();
    Database::create_on(Arc::new(base.clone()), &Settings::default()).unwrap();
    let session = open(&base).unwrap();
    MADE.iter().for_each(|statement| drop(run(&session, statement).unwrap()));
    run(&session, "create table quote (time timestamp, bid double)").unwrap();
    run(&session, "create table book (time timestamp, bid double)").unwrap();
    let refused = |statement: &str| run(&session, statement).unwrap_err().to_string();
    let (tables, views) = (|| session.database().tables().unwrap(), || session.database().views().unwrap().len());
    for (statement, reason) in [
        ("drop table quote, nothing", "no table \"nothing\""),
        ("drop table quote, trade", "table \"trade\" is read by the views"),
        ("drop table quote, busy cascade", "busy is a view"),
        ("drop table quote,", "expected a table"),
        ("drop view both, busy, nothing", "no view \"nothing\""),
        ("drop view both, bars", "is a materialized view"),
        ("drop view both, busy", "view \"busy\" is read by the view busiest"),
        ("drop materialized view bars, busy cascade", "whose rows aren't kept"),
    ] {
        let reason_given = refused(statement);
        assert!(reason_given.contains(reason), "{statement}: {reason_given}");
        assert_eq!(tables(), ["bars.rows", "book", "quote", "trade"], "{statement}");
        assert_eq!(views(), 5, "{statement}");
    }
    // A view may stand before those that read it, and a name twice.
    run(&session, "drop view busy, both, busiest, busy").unwrap();
    assert_eq!(views(), 2);
    run(&session, "drop table if exists quote, nothing, book, public.quote").unwrap();
    assert_eq!(tables(), ["bars.rows", "trade"]);
    run(&session, "create view few as select * from bars").unwrap();
    assert_eq!(
        dropped(&run(&session, "drop materialized view if exists bars, nothing cascade").unwrap()),
        "few, of_rows"
    );
    assert_eq!(tables(), ["trade"]);
}
