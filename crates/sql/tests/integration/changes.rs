//! Statements that change rows by conditions and values with queries in them leave the rows that a query beforehand says they leave.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_sql::{IntoFiles, Parameters, Session, SessionSettings, Stop};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec};

use crate::both::{Cell, cells};

const DAY: i64 = 86_400_000_000_000;

/// Conditions, over the tables `t` and `other` of the same columns.
const CONDITIONS: [&str; 16] = [
    "sym in (select sym from other)",
    "sym not in (select sym from other where sym is not null)",
    "x > (select avg(x) from other where x < 1e6)",
    "exists (select 1 from other o where o.sym = t.sym and o.n > t.n)",
    "not exists (select 1 from other o where o.sym = t.sym and o.flag = t.flag)",
    "x = (select max(x) from t as u where u.sym = t.sym)",
    "n in (select n + 1 from other) or note = 'b'",
    "date = (select max(date) from other)",
    "date in (select distinct date from other) and sym is null",
    "time <= (select max(time) from other where sym = 'A')",
    "(select count(*) from other) > 10",
    "flag and x in (select x from other)",
    "case when n in (select n from other) then x is null else x > 0 end",
    "note > any (select note from other) and size > 3",
    "n >= all (select n from other where n is not null)",
    "sym in (select sym from t group by sym having count(*) > 4)",
];

/// Values by column.
const VALUES: [(&str, &str); 6] = [
    ("n", "(select count(*) from other o where o.sym = t.sym)"),
    ("note", "coalesce((select min(note) from other o where o.n = t.n), note)"),
    ("x", "x + (select max(n) from other)"),
    ("flag", "t.n in (select n from other where n is not null)"),
    ("sym", "(select max(sym) from other)"),
    ("size", "case when (select count(*) from other o where o.size = t.size) > 0 then 1 else 2 end"),
];

fn spec(name: &str) -> TableSpec {
    let columns = [
        ("time", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("x", ColumnType::Float64),
        ("n", ColumnType::Int64),
        ("flag", ColumnType::Bool),
        ("note", ColumnType::Text),
        ("size", ColumnType::Int64),
    ];
    let columns = columns.map(|(name, of)| ColumnSpec::new(name, of)).to_vec();
    TableSpec::new(name, columns, "time", Some("sym"))
}

fn rows(spec: &TableSpec, random: &mut ChaCha8Rng, count: usize) -> RecordBatch {
    let nan = f64::from_bits(0x7ff8_0000_0000_0123);
    let numbers = [0.0, -0.0, nan, f64::NAN, f64::INFINITY, 1.5, -2.0, 7.0];
    let mut some = |of: usize| random.random_bool(0.85).then(|| random.random_range(0..of));
    let picks: Vec<[Option<usize>; 6]> =
        (0..count).map(|_| [some(4), some(8), some(6), some(2), some(3), some(9)]).collect();
    let integers = |place: usize| picks.iter().map(|pick| pick[place].map(|n| n as i64)).collect::<Int64Array>();
    let times = (0..count).map(|_| random.random_range(0..5) * DAY + random.random_range(0..4) * 1_000_000_000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC")),
        Arc::new(
            picks.iter().map(|pick| pick[0].map(|n| ["A", "B", "C", ""][n])).collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(picks.iter().map(|pick| pick[1].map(|n| numbers[n])).collect::<Float64Array>()),
        Arc::new(integers(2)),
        Arc::new(picks.iter().map(|pick| pick[3].map(|n| n == 1)).collect::<BooleanArray>()),
        Arc::new(picks.iter().map(|pick| pick[4].map(|n| ["a", "b", ""][n])).collect::<StringArray>()),
        Arc::new(integers(5)),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

fn session(random: &mut ChaCha8Rng) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    for (name, count) in [("t", random.random_range(1..60)), ("other", random.random_range(0..20))] {
        let spec = spec(name);
        let mut load = database.load(&spec, LoadOptions::default()).unwrap();
        load.append(&rows(&spec, random, count)).unwrap();
        load.commit().unwrap();
    }
    (folder, Session::new(database, SessionSettings { threads: 2, ..SessionSettings::default() }).unwrap())
}

/// The rows of a query, in an order of their own.
fn sorted(session: &Session, text: &str) -> Vec<Vec<Cell>> {
    let answer = session.sql(text, Parameters::None).and_then(|mut answer| answer.batches());
    let mut rows = cells(&answer.unwrap_or_else(|error| panic!("{text}: {error}")));
    rows.sort_by_cached_key(|row| format!("{row:?}"));
    rows
}

fn change(session: &Session, text: &str) -> u64 {
    let answer = session.change(text, Parameters::None, Stop::NEVER, &IntoFiles(session.database()));
    let batches = answer.and_then(|mut answer| answer.batches()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = batches[0].column(1).as_any().downcast_ref::<arrow::array::UInt64Array>().unwrap();
    rows.value(0)
}

fn check(what: &str, actual: &[Vec<Cell>], expected: &[Vec<Cell>]) {
    let are_same = |(actual, expected): (&Vec<Cell>, &Vec<Cell>)| {
        actual.iter().zip(expected).all(|(actual, expected)| actual.matches(expected))
    };
    let same = actual.len() == expected.len() && actual.iter().zip(expected).all(are_same);
    assert!(same, "{what}: {actual:?} instead of {expected:?}");
}

#[test]
fn rows_that_a_condition_with_queries_is_true_for_go() {
    for seed in 0..6 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for condition in CONDITIONS {
            let (_folder, session) = session(&mut random);
            let remaining = sorted(&session, &format!("select * from t where ({condition}) is not true"));
            let before = sorted(&session, "select * from t").len();
            let removed = change(&session, &format!("delete from t where {condition}"));
            let actual = if removed == before as u64 { Vec::new() } else { sorted(&session, "select * from t") };
            check(&format!("seed {seed}: {condition}"), &actual, &remaining);
            assert_eq!(removed as usize, before - remaining.len(), "seed {seed}: {condition}");
        }
    }
}

#[test]
fn values_with_queries_are_those_of_the_rows_as_they_were() {
    for seed in 100..104 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for (column, value) in VALUES {
            for condition in [Some("n > 2"), Some("x in (select x from other)"), None] {
                let (_folder, session) = session(&mut random);
                let is_changed = condition.unwrap_or("true");
                let items = ["time", "sym", "x", "n", "flag", "note", "size"].map(|name| match name == column {
                    true => format!("case when {is_changed} then {value} else {name} end as {name}"),
                    false => name.to_owned(),
                });
                let expected = sorted(&session, &format!("select {} from t", items.join(", ")));
                let condition = condition.map(|condition| format!(" where {condition}")).unwrap_or_default();
                let text = format!("update t set {column} = {value}{condition}");
                change(&session, &text);
                check(&format!("seed {seed}: {text}"), &sorted(&session, "select * from t"), &expected);
            }
        }
    }
}

/// Queries that give at most one row for each row of `t`, and the condition by which that is joined.
const JOINS: [(&str, &str); 6] = [
    ("select sym, count(*) as k, max(note) as why from other group by sym", "o.sym = t.sym"),
    ("select n, count(*) as k, min(note) as why from other group by n", "o.n = t.n and t.x > 0"),
    ("select date, count(*) as k, min(note) as why from other group by date", "o.date = t.date"),
    ("select max(n) as k, min(note) as why from other", "t.flag"),
    ("select max(n) as k, min(note) as why from other", "o.k > 2"),
    ("select sym, sum(size) as k, max(note) as why from t group by sym", "o.sym = t.sym and o.k > t.size"),
];

#[test]
fn joined_rows_change_as_a_query_joins_them() {
    for seed in 200..206 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for (query, condition) in JOINS {
            let (_folder, session) = session(&mut random);
            let joined = format!("t left join (select *, true as hit from ({query}) q) o on {condition}");
            let expected = format!(
                "select t.time, t.sym, t.x, case when o.hit then o.k + 1 else t.n end as n, t.flag, \
                 case when o.hit then o.why else t.note end as note, t.size from {joined}"
            );
            let expected = sorted(&session, &expected);
            let hits = sorted(&session, &format!("select t.time from {joined} where o.hit")).len();
            let text = format!("update t set n = o.k + 1, note = o.why from ({query}) o where {condition}");
            assert_eq!(change(&session, &text) as usize, hits, "seed {seed}: {text}");
            let actual = sorted(&session, "select time, sym, x, n, flag, note, size from t");
            check(&format!("seed {seed}: {text}"), &actual, &expected);
        }
    }
}

#[test]
fn joined_rows_go_once_however_many_they_match() {
    let conditions =
        ["o.sym = t.sym", "o.n > t.n", "o.note = t.note and t.x = o.x", "o.date = t.date and t.flag", "o.x = t.x"];
    for seed in 300..306 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for condition in conditions {
            let (_folder, session) = session(&mut random);
            let exists = format!("exists (select 1 from other o where {condition})");
            let remaining = sorted(&session, &format!("select * from t where not {exists}"));
            let before = sorted(&session, "select * from t").len();
            let removed = change(&session, &format!("delete from t using other o where {condition}"));
            let actual = if removed == before as u64 { Vec::new() } else { sorted(&session, "select * from t") };
            check(&format!("seed {seed}: {condition}"), &actual, &remaining);
            assert_eq!(removed as usize, before - remaining.len(), "seed {seed}: {condition}");
        }
    }
}

#[test]
fn an_explained_change_shows_the_plan_of_its_query_and_changes_nothing() {
    let (_folder, session) = session(&mut ChaCha8Rng::seed_from_u64(11));
    let before = sorted(&session, "select * from t");
    let commits = sorted(&session, "select * from information_schema.commits");
    let explain = |text: &str, parameters: Parameters| -> splay_sql::Result<Vec<(String, String)>> {
        let mut steps = Vec::new();
        for batch in session.sql(text, parameters)?.batches()? {
            let texts = |column: usize| batch.column(column).as_string::<i32>();
            let rows = texts(0).iter().flatten().zip(texts(1).iter().flatten());
            steps.extend(rows.map(|(kind, plan)| (kind.to_owned(), plan.to_owned())));
        }
        Ok(steps)
    };
    for (text, change, plan) in [
        (
            "explain insert into t (time, sym) values (timestamp '2024-03-01', 'A')",
            "Insert the rows of this query into t",
            "Values",
        ),
        (
            "EXPLAIN insert into t (time, sym) (select time, sym from other)",
            "Insert the rows of this query into t",
            "other",
        ),
        (
            "EXPLAIN insert into t select * from other where n > 3 returning sym",
            "Insert the rows of this query into t",
            "other",
        ),
        (
            "explain verbose delete from T as old where old.n > 3 and x in (select x from other)",
            "Delete the rows of t that this query finds",
            "other",
        ),
        (
            "explain delete from t using other o where o.sym = t.sym",
            "Delete the rows of t that this query finds",
            "other",
        ),
        (
            "-- why\nexplain update t set n = n + 1, x = (select max(x) from other) where sym = 'A'",
            "Update the rows of t that this query finds",
            "max",
        ),
        (
            "explain update t set n = o.n from other o where o.sym = t.sym returning t.sym",
            "Update the rows of t that this query finds",
            "other",
        ),
        (
            "explain create table copied as select sym, time from t where n > 3",
            "Create table copied with the rows of this query",
            "n >",
        ),
    ] {
        assert!(!splay_sql::is_change(text), "{text}");
        let steps = explain(text, Parameters::None).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(steps[0], ("change".to_owned(), change.to_owned()), "{text}");
        assert!(steps[1..].iter().any(|(_, step)| step.contains(plan)), "{text}: {steps:?}");
        let is_verbose = steps.iter().any(|(kind, _)| kind == "initial_logical_plan");
        assert_eq!(is_verbose, text.contains("verbose"), "{text}");
        let schema = session.describe(text).unwrap_or_else(|error| panic!("{text}: {error}")).schema;
        assert_eq!(schema, session.sql(text, Parameters::None).unwrap().schema(), "{text}");
        // Through the method of changing statements it only reads, too.
        let mut answer = session.change(text, Parameters::None, Stop::NEVER, &IntoFiles(session.database())).unwrap();
        assert!(answer.change().is_none() && !answer.batches().unwrap().is_empty(), "{text}");
    }
    for (text, change) in [
        ("explain delete from t", "Delete all rows of t"),
        ("explain create table if not exists t as select * from other", "Nothing: there is a table t already"),
    ] {
        assert_eq!(explain(text, Parameters::None).unwrap(), [("change".to_owned(), change.to_owned())], "{text}");
    }
    let values = |values: &[i64]| {
        Parameters::Positional(
            values.iter().map(|value| datafusion::common::ScalarValue::Int64(Some(*value))).collect(),
        )
    };
    for (text, given, types) in [
        ("explain delete from t where n > $1", 1, 1),
        ("explain update t set n = ? where n > ?", 2, 2),
        ("explain insert into t (n, time, sym) values ($1, timestamp '2024-03-01', 'A')", 1, 1),
    ] {
        assert!(explain(text, values(&[3, 4][..given])).unwrap_or_else(|error| panic!("{text}: {error}")).len() > 1);
        assert_eq!(session.describe(text).unwrap().parameters.len(), types, "{text}");
    }
    for (text, part) in [
        ("explain analyze delete from t", "neither ANALYZE, which would run it, nor options"),
        ("explain (costs off) delete from t", "neither ANALYZE, which would run it, nor options"),
        ("explain drop table t", "DROP TABLE has none"),
        ("explain truncate t", "TRUNCATE has none"),
        ("explain create table copied (time timestamp)", "CREATE TABLE has none"),
        ("explain create table t as select * from other", "there is a table \"t\" already"),
        ("explain create table copied as select n, n from t", "n"),
        ("explain delete from nobody", "nobody"),
        ("explain delete from t where nothing = 1", "nothing"),
        ("explain delete from t where nothing = $1", "nothing"),
        ("explain delete from t where n > 3 returning nothing", "nothing"),
        ("explain update t set nothing = 1", "nothing"),
        ("explain update t set n = nothing", "nothing"),
        ("explain insert into nobody select * from t", "nobody"),
        ("explain insert into t (nothing) select n from t", "nothing"),
        ("explain insert into t select n from t", "the query gives 1 columns"),
        ("explain insert into t analyze select * from t", "sql parser error"),
        ("explain insert into t verbose select * from t", "sql parser error"),
        ("explain insert into t insert into other select * from t where n > $1", "INSERT needs VALUES or a query"),
        ("explain insert into t select * from t on conflict do nothing", "ON CONFLICT needs a reference table"),
        ("explain delete from t; delete from t", "one statement at a time"),
        ("explain delete from", "expected a table"),
    ] {
        let error = explain(text, Parameters::None).map(|steps| format!("{steps:?}")).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    check("rows", &sorted(&session, "select * from t"), &before);
    check("commits", &sorted(&session, "select * from information_schema.commits"), &commits);
    assert!(session.sql("select * from copied", Parameters::None).is_err());
}
