//! Functions whose result may be far larger than their arguments give it, or are refused before they make it.

use std::time::Duration;

use arrow::util::display::array_value_to_string;
use splay_sql::{Error, Parameters, Session};
use splay_store::Tier;

use crate::counted::alone;
use crate::market;
use crate::run::{MEMORY, run, session};

/// Statements that took gigabytes with a limit of 128 MiB, and others like them.
const GREEDY: &[&str] = &[
    "select sum(cardinality(range(0, size * 1000000))) from tick",
    "select cardinality(range(0, 1000000000))",
    "select cardinality(generate_series(0, 1000000000, 3))",
    "select cardinality(range(timestamp '2000-01-01', timestamp '2040-01-01', interval '1' second))",
    "select length(repeat('x', 2000000000))",
    "select sum(length(repeat(sym, 5000000))) from tick",
    "select cardinality(array_repeat(1, 1000000000))",
    "select cardinality(array_repeat(array_repeat(price, 1000), 1000)) from tick",
    "select cardinality(array_resize(make_array(1), 1000000000, 2))",
    "select sum(length(lpad(sym, 1000000, 'ab'))) from tick",
    "select sum(length(rpad(sym, 1000000))) from tick",
    "select sum(length(replace(repeat(sym, 300), 'S', repeat('y', 10000)))) from tick",
    "select sum(length(regexp_replace(repeat(sym, 300), 'S', repeat('y', 10000), 'g'))) from tick",
    "select sum(length(array_to_string(range(0, size), repeat('-', 100)))) from tick where size > 0",
    "select sum(cardinality(string_to_array(repeat(sym || ',', 2000), ','))) from tick",
    "select sum(length(concat_ws(repeat('-', 10000), sym, sym, sym))) from tick",
    "select sum(length(s || s || s || s || s || s || s || s || s)) from (select repeat(sym, 300) as s from tick)",
    "select max(levenshtein(repeat(sym, 20000), repeat('ab', 20000))) from tick",
];

#[test]
fn what_would_take_more_than_the_limit_is_refused_before_it_is_made() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    for text in GREEDY {
        let outcome = run(&session, text, Duration::from_secs(20));
        let message = outcome.result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let is_refused = matches!(outcome.result, Err(Error::Memory { .. } | Error::Execution { .. }));
        assert!(is_refused, "{text}: {:?}", outcome.result);
        assert!(message.contains("()") || message.contains("constants"), "{text} names what asks: {message}");
        assert!(outcome.memory < MEMORY / 5 * 6, "{text}: {} bytes", outcome.memory);
        assert!(outcome.time < Duration::from_secs(10), "{text}: {:?}", outcome.time);
    }
}

/// Doubles a text, or an expression, at each of its levels.
fn nested(levels: usize, inner: &str, step: &str) -> String {
    (0..levels).fold(format!("select {inner} as x from tick"), |query, _| format!("select {step} as x from ({query})"))
}

#[test]
fn what_doubles_is_refused_or_answered_within_the_limit() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    for (inner, step) in [
        ("sym", "x || x"),
        ("sym", "concat(x, x)"),
        ("'ab'", "x || x"),
        ("size", "x + x"),
        ("make_array(size)", "array_concat(x, x)"),
    ] {
        for levels in [8, 20, 40] {
            let query = nested(levels, inner, step);
            for text in [format!("select count(*) from ({query}) where x is not null"), query.clone()] {
                let outcome = run(&session, &text, Duration::from_secs(5));
                let shown = format!("{inner} {step} {levels}: {:?}", outcome.result);
                assert!(outcome.memory < MEMORY / 5 * 6, "{shown}: {} bytes", outcome.memory);
                assert!(outcome.time < Duration::from_millis(5_700), "{shown}: {:?}", outcome.time);
                assert!(!matches!(outcome.result, Err(Error::Internal { .. })), "{shown}");
            }
        }
    }
}

/// Before, maps of maps took 1.6 GB: each row's was made as an array of its own.
#[test]
fn maps_of_maps_keep_to_the_limit() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    for levels in [1, 2, 4, 6] {
        let query = nested(levels, "size", "map(make_array(x), make_array(x))");
        let outcome =
            run(&session, &format!("select count(x) from ({query}) where x is not null"), Duration::from_secs(20));
        let shown = format!("{levels}: {:?}", outcome.result);
        assert!(matches!(outcome.result, Ok(_) | Err(Error::Memory { .. })), "{shown}");
        assert!(outcome.memory < MEMORY / 5 * 6, "{shown}: {} bytes", outcome.memory);
    }
}

/// A function that compiles a pattern for each row is called for a few rows at a time.
#[test]
fn a_pattern_in_each_row_gives_what_it_gave() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let query = "select sym || cast(size as text) as x, cast(size as text) as p from tick where size >= 0";
    let of = |what: &str| value(&session, &format!("select {what} from ({query})"));
    assert_eq!(of("sum(regexp_count(x, p || '$'))"), of("count(*)"));
    assert_eq!(
        of("max(regexp_replace(x, p || '$', ''))"),
        value(&session, "select max(sym) from tick where size >= 0")
    );
    assert_eq!(of("sum(case when regexp_like(x, '^' || p) then 1 else 0 end)"), "0");
}

#[test]
fn a_large_constant_is_refused_where_each_row_would_have_it() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let literal = "x".repeat(1 << 20);
    for text in [
        format!("select '{literal}' from tick"),
        "select repeat('x', 1000000) from tick".to_owned(),
        format!("select count(distinct substr('{literal}', size)) from tick"),
    ] {
        let outcome = run(&session, &text, Duration::from_secs(20));
        assert!(matches!(outcome.result, Err(Error::Memory { .. })), "{:?}", outcome.result);
        assert!(outcome.memory < MEMORY / 5 * 6, "{} bytes", outcome.memory);
    }
    let alone = run(&session, &format!("select '{literal}', repeat('x', 1000000)"), Duration::from_secs(20));
    assert_eq!(alone.result.unwrap(), 1);
    let compared = run(&session, &format!("select sym from tick where sym = '{literal}'"), Duration::from_secs(20));
    assert_eq!(compared.result.unwrap(), 0);
}

fn value(session: &Session, text: &str) -> String {
    let batches = session.sql(text, Parameters::None).unwrap().batches().unwrap();
    array_value_to_string(batches[0].column(0), 0).unwrap()
}

#[test]
fn functions_that_ask_give_what_they_gave() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    for (text, expected) in [
        ("select repeat('ab', 3)", "ababab"),
        ("select repeat('ab', -1)", ""),
        ("select repeat(null, 3)", ""),
        ("select lpad('7', 3, '0')", "007"),
        ("select rpad('é', 3, 'ü')", "éüü"),
        ("select replace('aXbX', 'X', '--')", "a--b--"),
        ("select regexp_replace('aXbX', '(X)', '<\\1>', 'g')", "a<X>b<X>"),
        ("select range(1, 4)", "[1, 2, 3]"),
        ("select range(4, 1)", "[]"),
        ("select generate_series(3, 1, -1)", "[3, 2, 1]"),
        ("select cardinality(range(date '2020-01-01', date '2020-03-01', interval '1' month))", "2"),
        ("select array_repeat('a', 2)", "[a, a]"),
        ("select array_resize(make_array(1), 3, 7)", "[1, 7, 7]"),
        ("select array_to_string(make_array(1, 2), '-')", "1-2"),
        ("select string_to_array('a,b', ',')", "[a, b]"),
        ("select concat('a', null, 'b')", "ab"),
        ("select concat_ws('-', 'a', 'b')", "a-b"),
        ("select 'a' || 'b'", "ab"),
        ("select 'a' || null", ""),
        ("select 'a' || 1", "a1"),
        ("select make_array(1) || make_array(2)", "[1, 2]"),
        ("select max(Symbol || Exchange) from trade", "IBMP"),
        ("select max(repeat(Symbol, Trade_Volume)) from trade where Trade_Volume < 2", ""),
        ("select sum(length(repeat(sym, 100))) from tick", "60000000"),
        ("select sum(cardinality(range(0, 100))) from tick", "20000000"),
        ("select count(*) from (select unnest(range(0, 1000000)))", "1000000"),
    ] {
        assert_eq!(value(&session, text), expected, "{text}");
    }
    assert_eq!(session.memory_reserved(), 0);
}

#[test]
fn names_of_columns_stay_as_they_were() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let answer = session.sql("select repeat(Exchange, 2), Symbol || Exchange from trade", Parameters::None).unwrap();
    let described = session.describe("select repeat(Exchange, 2), Symbol || Exchange from trade").unwrap();
    assert_eq!(answer.schema(), described.schema);
}
