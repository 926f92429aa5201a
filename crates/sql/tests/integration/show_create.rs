//! What `SHOW CREATE` gives makes the same table or view again.

use arrow::array::AsArray;
use splay_sql::{IntoFiles, Parameters, Session, SessionSettings, Stop};
use splay_store::{ColumnSpec, Database, TableSpec};

fn session(folder: &tempfile::TempDir, name: &str) -> Session {
    let database = Database::create(folder.path().join(name)).unwrap();
    Session::new(database, SessionSettings { threads: 1, ..SessionSettings::default() }).unwrap()
}

fn run(session: &Session, statement: &str) {
    let done = session.change(statement, Parameters::None, Stop::NEVER, &IntoFiles(session.database()));
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

fn shown(session: &Session, what: &str, name: &str) -> String {
    let statement = format!("SHOW CREATE {what} \"{name}\"");
    let described = session.describe(&statement).unwrap().schema;
    let mut answer = session.sql(&statement, Parameters::None).unwrap();
    assert_eq!(answer.schema(), described);
    let batches = answer.batches().unwrap();
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), name);
    batches[0].column(1).as_string::<i32>().value(0).to_owned()
}

/// What a table is, without names that columns had before and those of dropped ones.
fn spec(session: &Session, table: &str) -> TableSpec {
    let mut spec = session.database().table(table).unwrap().snapshot().unwrap().spec().clone();
    spec.columns = spec.columns.into_iter().map(|column| ColumnSpec::new(column.name, column.column_type)).collect();
    spec.dropped.clear();
    spec
}

const TABLES: [(&str, &str); 10] = [
    ("plain", "create table plain (time timestamp, sym symbol, price double)"),
    (
        "all.Types",
        "create table \"all.Types\" (a bool, b int8, c smallint, d int, e bigint, f utinyint, g usmallint, h uinteger, i ubigint, j real, \
         k double, l numeric(38, 10), m date, n time, o timestamp, p symbol, q text, r levels(10), \"select\" int, \"a b\" int)",
    ),
    (
        "futures",
        "create table futures (at timestamp, time timestamp, root symbol, contract symbol) partition by year \
         with (time = 'time', symbol = 'contract', time_zone = 'America/Chicago', day_start = '17:00')",
    ),
    ("series", "create table series (time timestamp, sym symbol) with (symbol = '', partition = 'all')"),
    (
        "kept",
        "create table kept (time timestamp, x int) with (retain_days = 30, retain_bytes = 2000000000, tier = 'fast, small after 90')",
    ),
    ("read_by_others", "create table read_by_others (time timestamp, x int) with (tier = 'small', publish = 'delta')"),
    ("instrument", "create table instrument (isin text, sym symbol primary key)"),
    ("split", "create table split (sym symbol, since timestamp, primary key (sym, since)) effective from since"),
    ("note", "create table note (line text)"),
    ("log", "create table log (at timestamp, line text) with (time = '')"),
];

const VIEWS: [(&str, &str); 4] = [
    ("dear", "create view dear as select * from plain where price > 100 -- dollars"),
    ("Names", "create view \"Names\" (a, \"b c\") as with x as (select sym, 'it''s' as s from plain) select * from x"),
    (
        "bars",
        "create materialized view bars as select time_bucket('1 minute', time) as bar, sym, max(price) as high from plain group by 1, 2",
    ),
    (
        "days",
        "create materialized view days (day, root, n) partition by month with (symbol = '', query_rewrite = true, retain_days = 3650, tier = small) as \
         select date_trunc('day', time), contract, count(*) from futures group by 1, 2",
    ),
];

/// A database with the tables and views, changed since they were made.
fn made(folder: &tempfile::TempDir) -> Session {
    let session = session(folder, "made");
    TABLES.iter().chain(&VIEWS).for_each(|(_, statement)| run(&session, statement));
    for statement in [
        "insert into plain values ('2024-03-01 10:00', 'A', 1.5)",
        "alter table note add column at timestamp",
        "alter table series add column size int",
        "alter table series rename column size to shares",
        "alter table series add column gone int",
        "alter table series drop column gone",
    ] {
        run(&session, statement);
    }
    session
}

#[test]
fn the_statement_makes_the_same_table_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let session = made(&folder);
    for (table, _) in TABLES {
        let statement = shown(&session, "TABLE", table);
        let (_, rest) = statement.split_once(" (").unwrap();
        run(&session, &format!("CREATE TABLE other ({rest}"));
        let expected = TableSpec { name: "other".to_owned(), ..spec(&session, table) };
        assert_eq!(spec(&session, "other"), expected, "{statement}");
        run(&session, "drop table other");
    }
}

#[test]
fn the_statements_make_the_same_database() {
    let folder = tempfile::tempdir().unwrap();
    let (session, copy) = (made(&folder), session(&folder, "copy"));
    for (table, _) in TABLES {
        run(&copy, &shown(&session, "TABLE", table));
        assert_eq!(spec(&copy, table), spec(&session, table));
    }
    for (view, statement) in VIEWS {
        let what = if statement.contains("materialized") { "MATERIALIZED VIEW" } else { "VIEW" };
        let text = shown(&session, what, view);
        assert_eq!(text, session.create_statement(&view.to_uppercase()).unwrap());
        run(&copy, &text);
        assert_eq!(shown(&copy, what, view), text);
        let (made, again) = (session.database().view(view).unwrap(), copy.database().view(view).unwrap());
        assert_eq!(made, again);
        if let Some(rows) = made.and_then(|view| view.rows_table()) {
            assert_eq!(spec(&copy, &rows), spec(&session, &rows));
        }
    }
}
