//! The rows of a limit are the first ones of the statement without it, however few of its input rows are looked at for them.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Int32Type;
use splay_sql::{Parameters, Session};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec};

use crate::both::both;
use crate::market::OPENING;

/// More than are tried for a limit, even of those that have a symbol.
const ROWS: i64 = 150_000;

/// A table of so many rows; the numbers from `from` on have a partner in the other one.
fn load(database: &Database, name: &str, every: i64, from: i64) {
    let types = [("ts", ColumnType::Timestamp), ("sym", ColumnType::Symbol), ("number", ColumnType::Int64)];
    let columns = types.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    let spec = TableSpec::new(name, columns, "ts", Some("sym"));
    let rows = || (from..ROWS).step_by(usize::try_from(every).unwrap());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(rows().map(|row| OPENING + row * 100_000_000))
                .with_timezone("UTC"),
        ),
        Arc::new(
            rows()
                .map(|row| Some(["A", "B"][usize::from(row > ROWS * 9 / 10)]))
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(Int64Array::from_iter_values(rows())),
    ];
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    load.commit().unwrap();
}

fn rows(session: &Session, text: &str) -> RecordBatch {
    let mut answer = session.sql(text, Parameters::None).unwrap();
    assert!(answer.is_tick_plan(), "{text}");
    let batches = answer.batches().unwrap();
    assert_eq!(answer.refusal(), None, "{text}");
    concat_batches(&answer.schema(), &batches).unwrap()
}

#[test]
fn rows_of_a_limit_are_the_first_ones() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    load(&database, "event", 1, 0);
    // None before the rows that are tried first.
    load(&database, "late", 3, 100_000);
    load(&database, "other", 7, 0);
    for threads in [1, 2] {
        let both = both(&database, threads);
        for text in [
            "select e.number, o.number as found from event e asof join other o on e.sym = o.sym and e.ts >= o.ts",
            "select e.number, l.number as found from event e asof join late l on e.sym = l.sym and e.ts >= l.ts",
            "select e.number, l.number as found from event e asof left join late l on e.sym = l.sym and e.ts >= l.ts",
            "select number + 1 as n, found from (select e.number, o.number as found from event e asof join other o on e.sym = o.sym and e.ts >= o.ts) where found % 5 = 4",
            "select * from (select e.number, o.number as found from event e asof join other o on e.sym = o.sym and e.ts >= o.ts) where found > 149000",
            "select e.number, o.number as found from event e join other o on e.sym = o.sym and e.ts = o.ts",
            "select number, k from (select number, number % 10 as k from event limit 90000) where k = 3",
        ] {
            let all = rows(&both.tick, text);
            assert!(all.num_rows() > 0, "{text}");
            for (skip, fetch) in
                [(0, 3), (2, 40_000), (all.num_rows() - 1, 5), (all.num_rows(), 5), (5, 0), (0, 400_000)]
            {
                let limited = format!("{text} limit {fetch} offset {skip}");
                let some = all.slice(skip, fetch.min(all.num_rows() - skip));
                assert_eq!(rows(&both.tick, &limited), some, "{limited}");
            }
        }
    }
}

/// Rows of nine dates, of which every other row of a symbol has the time of one of the other symbol, loaded in two parts.
pub(crate) fn load_dates(database: &Database) {
    const DAY_NS: i64 = 86_400_000_000_000;
    let types = [("ts", ColumnType::Timestamp), ("sym", ColumnType::Symbol), ("number", ColumnType::Int64)];
    let columns = types.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    let spec = TableSpec::new("days", columns, "ts", Some("sym"));
    for part in 0..2 {
        let rows = || (0..9 * 600i64).filter(move |row| row % 2 == part);
        let time = |row: i64| OPENING + row / 600 * DAY_NS + row % 600 / 3 * 1_000_000_000;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampNanosecondArray::from_iter_values(rows().map(time)).with_timezone("UTC")),
            Arc::new(
                rows()
                    .map(|row| Some(["A", "B", "C"][usize::try_from(row % 3).unwrap()]))
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
            Arc::new(Int64Array::from_iter_values(rows())),
        ];
        let mut load = database.load(&spec, LoadOptions::default()).unwrap();
        load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
        load.commit().unwrap();
    }
}

#[test]
fn first_rows_by_time_that_pass_a_filter_are_the_first_ones() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    load_dates(&database);
    for threads in [1, 2] {
        let both = both(&database, threads);
        for condition in
            ["number % 97 = 5", "number > 5100", "number < 300", "number < 0", "number % 2 = 0 and sym = 'B'", "true"]
        {
            for order in ["ts, number", "ts desc, number", "ts desc, sym desc, number desc"] {
                let text = format!("select ts, sym, number from days where {condition} order by {order}");
                let all = rows(&both.tick, &text);
                for fetch in [1, 2, 61, 700, 4096, 5000] {
                    let limited = format!("{text} limit {fetch}");
                    let expected = all.slice(0, fetch.min(all.num_rows()));
                    assert_eq!(rows(&both.tick, &limited), expected, "{limited}");
                }
            }
        }
    }
}

/// A bound of a number of rows counts whatever other conditions stand beside it, and these are asked of the rows that it leaves.
#[test]
fn numbers_of_rows_are_bounded_beside_other_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    load_dates(&database);
    let numbered =
        "select sym, number, row_number() over (partition by sym order by ts desc, number desc) as r from days";
    for threads in [1, 2] {
        let both = both(&database, threads);
        for condition in [
            "r = 1 and number % 2 = 1",
            "number % 2 = 0 and r <= 3",
            "number > 5000 and r < 40 and sym <> 'B'",
            "r = 2 or number < 10",
            "r <= 5 and r > 2",
            "not (r > 4)",
        ] {
            let text = format!("select * from ({numbered}) n where {condition} order by sym, r");
            assert_eq!(both.compare(&text), Ok(true));
        }
    }
}
