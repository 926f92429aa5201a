//! Filters that indexes narrow give the rows that the same filters give without indexes.
//!
//! The second form of each filter is wrapped so that nothing is recognised in it: `(filter) is true or random() < -1` can't
//! be narrowed, since it is volatile.

use proptest::prelude::*;
use splay_sql::{Parameters, Session};
use splay_store::Tier;

use crate::market;

fn rows(session: &Session, filter: &str) -> (String, u64) {
    let text = format!("select count(*), sum(size), min(ts), max(ts), count(price), min(sym) from tick where {filter}");
    let mut answer = session.sql(&text, Parameters::None).unwrap_or_else(|error| panic!("{text}: {error}"));
    let batches = answer.batches().unwrap_or_else(|error| panic!("{text}: {error}"));
    let table = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    (table.lines().skip(3).collect(), answer.stats().rows_scanned)
}

fn comparison() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["=", "<", "<=", ">", ">=", "<>"])
}

fn filter() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (0..45u32).prop_map(|n| format!("sym = 'S{n:02}'")),
        (0..45u32, 0..45u32).prop_map(|(a, b)| format!("sym in ('S{a:02}', 'S{b:02}', 'none')")),
        (0..45u32, 0..45u32).prop_map(|(a, b)| format!("(sym = 'S{a:02}' or 'S{b:02}' = sym)")),
        (0..45u32).prop_map(|n| format!("sym > 'S{n:02}'")),
        (0..45u32).prop_map(|n| format!("sym <> 'S{n:02}'")),
        (comparison(), 5..12u32).prop_map(|(op, day)| format!("date {op} '2019-10-{day:02}'")),
        (comparison(), 0..72i64, 0..3600i64).prop_map(|(op, hour, second)| format!(
            "ts {op} to_timestamp_seconds({})",
            market::OPENING / 1_000_000_000 + hour * 3600 + second
        )),
        (0..60i64, 0..20i64).prop_map(|(from, hours)| format!(
            "ts between to_timestamp_seconds({}) and to_timestamp_seconds({})",
            market::OPENING / 1_000_000_000 + from * 3600,
            market::OPENING / 1_000_000_000 + (from + hours) * 3600
        )),
        (comparison(), 98..230u32).prop_map(|(op, price)| format!("price {op} {price}.5")),
        (comparison(), 98..230u32).prop_map(|(op, price)| format!("{price}.125 {op} price")),
        (comparison(), -1100..1100i32).prop_map(|(op, size)| format!("size {op} {size}")),
        Just("price is null".to_owned()),
        Just("price is not null".to_owned()),
        Just("sym like 'S1%'".to_owned()),
        Just("size in (1, 2, 3, 999)".to_owned()),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

fn agree(format: Tier, cases: u32) {
    let (_folder, database) = market::database(format);
    let session = market::session(&database, 2, 8192);
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    runner
        .run(&filter(), |filter| {
            let (narrowed, _) = rows(&session, &filter);
            let (plain, scanned) = rows(&session, &format!("(({filter}) is true or random() < -1)"));
            prop_assert_eq!(&narrowed, &plain, "{}", filter);
            prop_assert_eq!(scanned, 200_000);
            Ok(())
        })
        .unwrap();
}

#[test]
fn narrowed_filters_keep_the_right_rows_of_arrow_segments() {
    agree(Tier::Mapped, 400);
}

#[test]
fn narrowed_filters_keep_the_right_rows_of_parquet_segments() {
    agree(Tier::Small, 100);
}
