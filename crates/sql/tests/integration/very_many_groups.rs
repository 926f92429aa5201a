//! Groups that are so many that they are found in two passes are those that DataFusion finds, in the order of their first rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use splay_sql::Parameters;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::both::both;
use crate::market::OPENING;

/// Several times as many as groups from which on there are two passes.
const ROWS: i64 = 300_000;

fn spec() -> TableSpec {
    let types = [
        ("ts", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("number", ColumnType::Int64),
        ("note", ColumnType::Text),
        ("price", ColumnType::Float64),
        ("venue", ColumnType::Text),
        ("seq", ColumnType::Int64),
    ];
    let columns = types.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    TableSpec::new("event", columns, "ts", Some("sym"))
}

fn scattered(row: i64, below: i64) -> i64 {
    (row.wrapping_mul(6_364_136_223_846_793_005) >> 33).rem_euclid(below)
}

/// In the order of the table, so that `seq` rises.
fn rows() -> RecordBatch {
    let some = |row: i64, value: i64| (scattered(row + 7, 23) > 0).then_some(value);
    let all = || 0..ROWS;
    let symbols = ["A", "B", "C"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(all().map(|row| OPENING + row * 40_000_000))
                .with_timezone("UTC"),
        ),
        Arc::new(
            all()
                .map(|row| Some(symbols[usize::try_from(row * 3 / ROWS).unwrap()]))
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(all().map(|row| some(row, scattered(row, 180_000) << 9)).collect::<Int64Array>()),
        Arc::new(
            all()
                .map(|row| {
                    some(row + 3, scattered(row, 150_000)).map(|note| match note % 3 {
                        0 => format!("{note}"),
                        1 => format!("a note of more bytes {note}"),
                        _ => format!("note-{note}"),
                    })
                })
                .collect::<StringArray>(),
        ),
        Arc::new(
            all()
                .map(|row| {
                    some(row + 1, row).map(|row| match scattered(row, 120_000) {
                        0 => f64::NAN,
                        1 => -0.0,
                        price => (price - 2) as f64 / 8.0,
                    })
                })
                .collect::<Float64Array>(),
        ),
        Arc::new(
            all().map(|row| some(row + 5, scattered(row, 7)).map(|venue| format!("V{venue}"))).collect::<StringArray>(),
        ),
        Arc::new(Int64Array::from_iter_values(all())),
    ];
    RecordBatch::try_new(spec().arrow(), columns).unwrap()
}

fn database(format: Tier) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let mut load = database.load(&spec(), LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
    load.append(&rows()).unwrap();
    load.commit().unwrap();
    (folder, database)
}

#[test]
fn very_many_groups_are_those_that_datafusion_finds() {
    for (format, threads) in [(Tier::Mapped, 3), (Tier::Small, 1)] {
        let (_folder, database) = database(format);
        let both = both(&database, threads);
        for text in [
            "select number, count(*), sum(seq), min(note), max(price), count(distinct venue) from event group by number",
            "select note, count(venue), avg(price), first(seq), last(venue order by ts) from event group by note",
            "select price, count(*), stddev(seq), med(price) from event where seq % 10 > 0 group by price",
            "select sym, number, venue, count(*), sum(seq) filter (where price > 7), max(seq) filter (where venue = 'V1') from event group by 1, 2, 3",
            "select time_bucket('1 minute', ts) as bar, number, count(*), vwap(price, seq) from event group by 1, 2",
            "select date, sym, note, number, count(*) from event group by 1, 2, 3, 4",
            "select distinct number, note from event",
            "select number % 100000 as k, upper(note) as t, count(*) from event where venue is not null group by 1, 2",
        ] {
            assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
        }
    }
}

#[test]
fn very_many_groups_come_in_the_order_of_their_first_rows() {
    let (_folder, database) = database(Tier::Mapped);
    for threads in [1, 2, 5] {
        let both = both(&database, threads);
        for text in [
            "select number, min(seq) from event group by number",
            "select note, min(seq) from event where seq % 3 > 0 group by note",
            "select upper(note), venue, min(seq) from event group by 1, 2",
        ] {
            let mut answer = both.tick.sql(text, Parameters::None).unwrap();
            assert!(answer.is_tick_plan(), "{text}");
            let firsts = answer.batches().unwrap().into_iter().flat_map(|batch| {
                let firsts = batch.column(batch.num_columns() - 1).as_primitive::<Int64Type>();
                assert_eq!(firsts.null_count(), 0);
                firsts.values().to_vec()
            });
            let firsts: Vec<i64> = firsts.collect();
            assert!(firsts.len() > 90_000 && firsts.is_sorted(), "{text}");
        }
    }
}
