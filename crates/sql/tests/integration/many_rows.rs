//! What is done by several threads and put together gives the rows that DataFusion gives: groups, numbers of different values, first rows and
//! windows of more rows than one thread takes, by keys of few values and of many.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::both::{Both, both};
use crate::market::OPENING;

/// More than from which on a second thread works.
const ROWS: i64 = 130_000;

fn spec() -> TableSpec {
    let types = [
        ("ts", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("venue", ColumnType::Text),
        ("note", ColumnType::Text),
        ("live", ColumnType::Bool),
        ("number", ColumnType::Int64),
        ("seq", ColumnType::Int64),
        ("price", ColumnType::Float64),
        ("amount", ColumnType::Decimal { precision: 18, scale: 4 }),
    ];
    let columns = types.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    TableSpec::new("event", columns, "ts", Some("sym"))
}

fn scattered(row: i64, below: i64) -> i64 {
    (row.wrapping_mul(6_364_136_223_846_793_005) >> 33).rem_euclid(below)
}

fn rows() -> RecordBatch {
    let some = |row: i64, value: i64| (scattered(row + 7, 19) > 0).then_some(value);
    let all = || 0..ROWS;
    let columns: Vec<ArrayRef> = vec![
        // Several rows have one time.
        Arc::new(
            TimestampNanosecondArray::from_iter_values(all().map(|row| OPENING + row / 3 * 1_000_000))
                .with_timezone("UTC"),
        ),
        Arc::new(all().map(|row| Some(["A", "B", "C"][(row % 3) as usize])).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(
            all().map(|row| some(row, scattered(row, 7)).map(|venue| format!("V{venue}"))).collect::<StringArray>(),
        ),
        Arc::new(
            all()
                .map(|row| some(row + 3, scattered(row, 9_000)).map(|note| format!("the same {note}")))
                .collect::<StringArray>(),
        ),
        Arc::new(all().map(|row| some(row + 5, row).map(|row| scattered(row, 5) == 0)).collect::<BooleanArray>()),
        Arc::new(all().map(|row| some(row + 9, scattered(row, 4_000) << 20)).collect::<Int64Array>()),
        Arc::new(Int64Array::from_iter_values(all())),
        Arc::new(
            all()
                .map(|row| {
                    some(row + 1, row).map(|row| match scattered(row, 400) {
                        0 => f64::NAN,
                        1 => -0.0,
                        price => (price - 2) as f64 / 8.0,
                    })
                })
                .collect::<Float64Array>(),
        ),
        Arc::new(
            all()
                .map(|row| some(row + 2, scattered(row, 50_000)).map(i128::from))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(18, 4)
                .unwrap(),
        ),
    ];
    RecordBatch::try_new(spec().arrow(), columns).unwrap()
}

fn database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let options = LoadOptions { tier: Some(Tier::Mapped), ..LoadOptions::default() };
    let mut load = database.load(&spec(), options).unwrap();
    load.append(&rows()).unwrap();
    load.commit().unwrap();
    (folder, database)
}

fn compare(both: &Both, texts: &[&str]) {
    for text in texts {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
}

#[test]
fn groups_of_several_threads_are_put_together() {
    let (_folder, database) = database();
    compare(
        &both(&database, 3),
        &[
            "select distinct number, venue, live, note, amount from event",
            "select distinct sym, ts, seq, price, note, venue from event where seq % 7 < 5",
            "select distinct note from event",
            "select note, venue, count(*), min(price), max(seq), sum(number) from event group by note, venue",
            "select seq / 2 as half, count(*), min(note) from event group by 1",
            "select amount, count(*), min(amount), max(note), count(distinct venue) from event group by amount",
            "select venue, avg(amount), sum(amount), avg(amount) filter (where live) from event group by venue",
        ],
    );
}

#[test]
fn different_values_of_several_threads_are_put_together() {
    let (_folder, database) = database();
    let all = "count(distinct ts), count(distinct venue), count(distinct note), count(distinct live), count(distinct number), \
               count(distinct seq), count(distinct price), count(distinct amount), count(distinct sym)";
    for threads in [2, 3] {
        compare(
            &both(&database, threads),
            &[
                &format!("select {all} from event"),
                &format!("select sym, {all} from event group by sym"),
                &format!("select venue, {all} from event where seq % 5 > 0 group by venue"),
                &format!("select number, {all} from event group by number"),
                &format!("select sym, {all} from (select * from event order by seq desc limit 120000) e group by sym"),
            ],
        );
    }
}

#[test]
fn first_rows_by_keys_of_few_values_are_those_of_all_keys() {
    let (_folder, database) = database();
    compare(
        &both(&database, 2),
        &[
            "select live, seq from event order by live, seq limit 10",
            "select live, venue, seq from event order by live desc nulls last, venue nulls first, seq desc limit 100",
            "select venue, note, seq from event order by venue, note desc, seq limit 300 offset 20",
            "select sym, seq from event order by sym desc, seq limit 5",
            "select price, amount, seq from event order by price desc, amount, seq limit 50",
            "select note, seq from event order by note, seq limit 12",
            "select seq from event where seq > 100000 order by live nulls first, number, seq limit 7",
            "select number, row from (select number, seq, row_number() over (partition by venue order by note, seq) as row from event) where row < 3",
        ],
    );
}

#[test]
fn windows_by_several_keys_are_those_of_each_partition() {
    let (_folder, database) = database();
    let by = "over (partition by sym, venue order by ts, seq)";
    compare(
        &both(&database, 2),
        &[
            &format!("select seq, lag(number) {by} as l, lead(note, 2) {by} as n, row_number() {by} as r from event"),
            &format!("select seq, sum(seq) {by} as s, last_value(price) {by} as p from event where sym <> 'B'"),
            "select seq, lag(seq) over (partition by venue, live order by ts desc, seq desc) as l from event",
            "select seq, max(seq) over (partition by venue order by price, seq rows between 9 preceding and current row) as m from event",
            "select seq, first_value(seq) over (partition by price, sym order by seq) as f from event",
            "select seq, avg(amount) over (partition by sym) as a, sum(amount) over (partition by venue) as s from event",
            "select seq, avg(amount) over (partition by sym order by seq rows 5 preceding) as a, avg(amount) over (partition by venue order by seq) as b from event",
            "select seq, count(seq) over (partition by venue, sym) as c, rank() over (partition by venue, sym order by note) as r from event",
        ],
    );
}
