//! Joins by time against loops over all pairs of rows, and the plans that they become.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{Int32Type, Int64Type};
use proptest::prelude::*;
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::market::{self, OPENING};

const DAY: i64 = 24 * 3600 * 1_000_000_000;

/// A row of a table: symbol, second key, instant, in the order of arrival.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    symbol: Option<u8>,
    venue: Option<u8>,
    time: i64,
}

fn symbol_name(symbol: u8) -> String {
    format!("S{symbol:03}")
}

/// The rows as a table with their number as `id`.
fn load(database: &Database, table: &str, rows: &[Row], commits: usize) {
    let spec = TableSpec::new(
        table,
        vec![
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("venue", ColumnType::Symbol),
            ColumnSpec::new("id", ColumnType::Int64),
        ],
        "ts",
        Some("sym"),
    );
    let names = |value: fn(&Row) -> Option<u8>, rows: &[Row]| -> ArrayRef {
        let names: Vec<Option<String>> = rows.iter().map(|row| value(row).map(symbol_name)).collect();
        Arc::new(names.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())
    };
    let share = rows.len().div_ceil(commits.max(1)).max(1);
    let mut first = 0;
    loop {
        let part = &rows[first..rows.len().min(first + share)];
        let ids = (first..first + part.len()).map(|id| i64::try_from(id).unwrap());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampNanosecondArray::from_iter_values(part.iter().map(|row| row.time)).with_timezone("UTC")),
            names(|row| row.symbol, part),
            names(|row| row.venue, part),
            Arc::new(Int64Array::from_iter_values(ids)),
        ];
        let mut load = database.load(&spec, LoadOptions::default()).unwrap();
        load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
        load.commit().unwrap();
        first += part.len();
        if first >= rows.len() {
            return;
        }
    }
}

fn database(left: &[Row], right: &[Row], commits: usize) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    load(&database, "l", left, commits);
    load(&database, "r", right, commits);
    (folder, database)
}

fn run(session: &Session, statement: &str) -> splay_sql::Result<Vec<RecordBatch>> {
    session.sql(statement, Parameters::None)?.batches()
}

/// Two columns of integers, sorted.
fn pairs(session: &Session, statement: &str) -> Vec<(i64, Option<i64>)> {
    let batches = run(session, statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    let mut pairs = Vec::new();
    for batch in batches {
        let (left, right) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        pairs.extend((0..batch.num_rows()).map(|row| (left.value(row), right.is_valid(row).then(|| right.value(row)))));
    }
    pairs.sort_unstable();
    pairs
}

/// The right rows with the keys of a left row, in the order of the table.
fn group<'a>(left: &Row, right: &'a [Row], keys: &[&str]) -> Vec<(i64, &'a Row)> {
    let mut rows: Vec<(i64, &Row)> = (0..).zip(right).collect();
    rows.retain(|(_, row)| {
        keys.iter().all(|key| {
            let (mine, its) = if *key == "sym" { (left.symbol, row.symbol) } else { (left.venue, row.venue) };
            mine.is_some() && mine == its
        })
    });
    // By date, symbol, time, arrival. Within one instant the date is the same.
    rows.sort_by_key(|(id, row)| (row.time, row.symbol, *id));
    rows
}

fn naive(
    left: &[Row],
    right: &[Row],
    keys: &[&str],
    condition: &str,
    tolerance: Option<i64>,
) -> Vec<(i64, Option<i64>)> {
    let of = |row: &Row| -> Option<i64> {
        let group = group(row, right, keys);
        let near = |other: &&(i64, &Row)| tolerance.is_none_or(|most| (other.1.time - row.time).abs() <= most);
        let last = |holds: &dyn Fn(i64) -> bool| group.iter().rfind(|(_, other)| holds(other.time));
        let first = |holds: &dyn Fn(i64) -> bool| group.iter().find(|(_, other)| holds(other.time));
        let matching = match condition {
            ">=" => last(&|time| time <= row.time),
            ">" => last(&|time| time < row.time),
            "<=" => first(&|time| time >= row.time),
            "<" => first(&|time| time > row.time),
            _ => match (last(&|time| time <= row.time), first(&|time| time > row.time)) {
                (Some(behind), Some(ahead)) if ahead.1.time - row.time < row.time - behind.1.time => Some(ahead),
                (None, ahead) => ahead,
                (behind, _) => behind,
            },
        };
        matching.filter(near).map(|(id, _)| *id)
    };
    (0..).zip(left).map(|(id, row)| (id, of(row))).collect()
}

fn statement(keys: &[&str], condition: &str, tolerance: Option<i64>) -> String {
    let mut text = "select l.id, r.id from l asof join r match_condition (".to_owned();
    match condition {
        "nearest" => text.push_str("nearest l.ts, r.ts)"),
        op => write!(text, "l.ts {op} r.ts)").unwrap(),
    }
    let equalities: Vec<String> = keys.iter().map(|key| format!("l.{key} = r.{key}")).collect();
    if !keys.is_empty() {
        write!(text, " on {}", equalities.join(" and ")).unwrap();
    }
    if let Some(tolerance) = tolerance {
        write!(text, " tolerance {tolerance}ns").unwrap();
    }
    text
}

fn rows(symbols: u8, span: i64, rows_max: usize) -> impl Strategy<Value = Vec<Row>> {
    let row = (0..=symbols, 0u8..3, 0..span, 0i64..3).prop_map(move |(symbol, venue, step, day)| Row {
        symbol: (symbol > 0).then_some(symbol),
        venue: (venue > 0).then_some(venue),
        time: OPENING + step + day * DAY,
    });
    prop::collection::vec(row, 0..rows_max)
}

/// Few and many symbols, dense and sparse times, both sides larger.
fn sides() -> impl Strategy<Value = (Vec<Row>, Vec<Row>)> {
    prop_oneof![
        (rows(3, 6, 40), rows(3, 6, 40)),
        (rows(1, 1_000, 5), rows(1, 1_000, 200)),
        (rows(1, 1_000, 200), rows(1, 1_000, 5)),
        (rows(200, 50, 150), rows(200, 50, 150)),
    ]
}

const KEYS: [&[&str]; 4] = [&["sym"], &[], &["venue"], &["sym", "venue"]];

const CONDITIONS: [&str; 5] = [">=", ">", "<=", "<", "nearest"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn asof_joins_agree_with_every_pair((left, right) in sides(), commits in 1usize..3, tolerance in prop::option::of(0i64..40)) {
        let (_folder, database) = database(&left, &right, commits);
        for (threads, batch_rows) in [(1, 8192), (3, 8192), (1, 2), (2, 7)] {
            let session = market::session(&database, threads, batch_rows);
            for keys in KEYS {
                for condition in CONDITIONS {
                    let statement = statement(keys, condition, tolerance);
                    let actual = pairs(&session, &statement);
                    let expected = naive(&left, &right, keys, condition, tolerance);
                    prop_assert_eq!(actual, expected, "{} by {} threads in batches of {}", statement, threads, batch_rows);
                }
            }
        }
    }

    #[test]
    fn window_joins_agree_with_every_pair(
        (left, right) in sides(), before in -5i64..40, after in -5i64..40, inclusive: (bool, bool), prevailing: bool,
        commits in 1usize..3
    ) {
        let (_folder, database) = database(&left, &right, commits);
        let op = |inclusive| if inclusive { "=" } else { "" };
        for keys in KEYS {
            let equalities: String = keys.iter().map(|key| format!("l.{key} = r.{key} and ")).collect();
            // The width depends on the row, so that windows don't follow each other.
            let statement = format!(
                "select l.id, count(*), sum(r.id), first(r.id), last(r.id) from l window join r on {equalities} \
                 r.ts >{} case l.id % 3 when 0 then l.ts when 1 then l.ts - interval '{before} nanoseconds' \
                 else l.ts - interval '{} nanoseconds' end \
                 and r.ts <{} l.ts + interval '{after} nanoseconds' {} prevailing",
                op(inclusive.0), 2 * before, op(inclusive.1), if prevailing { "include" } else { "exclude" },
            );
            let expected: Vec<_> = (0..).zip(&left).map(|(id, row)| {
                let group = group(row, &right, keys);
                let from = row.time - before * (id % 3) + i64::from(!inclusive.0);
                let to = row.time + after - i64::from(!inclusive.1);
                let mut rows: Vec<i64> = Vec::new();
                if from <= to {
                    let inside = |time: i64| from <= time && time <= to;
                    if prevailing && !group.iter().any(|(_, other)| other.time == from) {
                        rows.extend(group.iter().rfind(|(_, other)| other.time < from).map(|(id, _)| *id));
                    }
                    rows.extend(group.iter().filter(|(_, other)| inside(other.time)).map(|(id, _)| *id));
                }
                let sum = (!rows.is_empty()).then(|| rows.iter().sum::<i64>());
                (id, Some(i64::try_from(rows.len()).unwrap()), sum, rows.first().copied(), rows.last().copied())
            }).collect();
            for (threads, batch_rows, tick_plans) in [(1, 8192, true), (3, 8192, true), (3, 8192, false), (1, 2, false)] {
                let settings = SessionSettings { threads, batch_rows, tick_plans, ..SessionSettings::default() };
                let session = Session::new(database.clone(), settings).unwrap();
                let description = format!("{statement} with tick plans: {tick_plans}");
                prop_assert_eq!(fives(&session, &statement), expected.clone(), "{}", description);
            }
        }
    }
}

type Five = (i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);

fn fives(session: &Session, statement: &str) -> Vec<Five> {
    let batches = run(session, statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    let mut rows = Vec::new();
    for batch in batches {
        let at = |column: usize, row: usize| {
            let column = batch.column(column).as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        rows.extend(
            (0..batch.num_rows()).map(|row| (at(0, row).unwrap(), at(1, row), at(2, row), at(3, row), at(4, row))),
        );
    }
    rows.sort_unstable();
    rows
}

fn explained(session: &Session, statement: &str) -> String {
    let batches = run(session, &format!("explain {statement}")).unwrap();
    batches.iter().flat_map(|batch| batch.column(1).as_string::<i32>().iter().flatten().collect::<Vec<_>>()).collect()
}

#[test]
fn explain_names_the_join_and_both_scans_read_one_symbol() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let plan = explained(
        &session,
        "select t.trade_volume, q.seq from trade t asof join quote q using (symbol, time) tolerance 5s \
         where symbol = 'IBM' and t.date = '2019-10-07'",
    );
    let expected = [
        "AsofJoinExec: Inner, direction=backward, match=[time@",
        "tolerance=5000000000",
        "ties=arrival",
        "table=trade",
        "table=quote",
    ];
    assert!(expected.iter().all(|part| plan.contains(part)), "{plan}");
    // Of one date's three symbols and of two dates' six one each. Quotes of the day before may be valid still.
    assert!(plan.contains("symbols=1/3") && plan.contains("symbols=2/6"), "{plan}");
}

#[test]
fn one_date_needs_no_sort() {
    let (_folder, database) = market::database(Tier::Mapped);
    for threads in [1, 4] {
        let session = market::session(&database, threads, 8192);
        for text in [
            "select t.trade_volume, q.seq from (select * from trade where date = '2019-10-07') t \
             asof join (select * from quote where date = '2019-10-07') q using (symbol, time)",
            "select t.trade_volume, avg(q.bid) from (select * from trade where date = '2019-10-07') t \
             window join (select * from quote where date = '2019-10-07') q \
             on t.symbol = q.symbol and q.time between t.time - interval '1 minute' and t.time",
        ] {
            let plan = explained(&session, text);
            assert!(!plan.contains("SortExec"), "{plan}");
        }
    }
}

#[test]
fn statements_with_parameters_and_placeholders_run() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 1, 8192);
    let statement = "select t.trade_volume, q.seq from trade t asof left join quote q using (symbol, time) \
                     where symbol = $1 order by 1";
    let parameters = Parameters::Positional(vec![splay_sql::ScalarValue::from("AAPL")]);
    let batches = session.sql(statement, parameters).unwrap().batches().unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
}

#[test]
fn dropping_an_answer_ends_the_join() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 4, 64);
    for text in [
        "select t.price, q.price from tick t asof join tick q on t.ts >= q.ts",
        "select t.price, q.price from tick t asof join tick q on t.sym = q.sym and t.ts >= q.ts",
        "select t.price, sum(q.size) from tick t window join tick q on t.sym = q.sym \
         and q.ts between t.ts - interval '1 hour' and t.ts",
    ] {
        let mut answer = session.sql(text, Parameters::None).unwrap();
        assert!(answer.next().unwrap().unwrap().num_rows() > 0);
    }
}

#[test]
fn a_join_that_may_hold_little_fails_rather_than_grow() {
    let (_folder, database) = market::database(Tier::Mapped);
    let settings = splay_sql::SessionSettings { memory_bytes: 10_000, threads: 1, ..Default::default() };
    let session = Session::new(database, settings).unwrap();
    let text = "select count(q.price) from tick t asof join tick q on t.sym = q.sym and t.ts >= q.ts";
    let failed = run(&session, text).unwrap_err();
    assert!(matches!(failed, splay_sql::Error::Memory { .. }), "{failed}");
}
