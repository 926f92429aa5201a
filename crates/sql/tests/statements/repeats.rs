//! What joins and `unnest` repeat, what waits for a reader, and what is decoded, keeps to the statement's memory.

use std::time::Duration;

use splay_sql::{Error, Parameters, Session, SessionSettings};
use splay_store::Tier;

use crate::counted::alone;
use crate::market;
use crate::run::{MEMORY, run, session};

/// A text of some kilobytes in a few rows, which the rows of another table or the elements of a list repeat.
fn wide(bytes: usize) -> String {
    format!("(select repeat(sym, {}) as w, sym, size from tick limit 40)", bytes / 3)
}

#[test]
fn repeated_texts_are_refused_or_answered_within_the_limit() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    for bytes in [200, 20_000, 200_000] {
        let wide = wide(bytes);
        for text in [
            format!("select a.w, b.size from {wide} a cross join tick b"),
            format!("select a.w, b.w from {wide} a cross join {wide} b"),
            format!("select a.w, b.size from {wide} a join tick b on a.sym = b.sym"),
            format!("select max(a.w) from {wide} a join tick b on a.sym = b.sym"),
            format!("select w, unnest(range(0, 100000)) from {wide}"),
            format!("select w, unnest(make_array(range(0, 1000), range(0, 1000))) from {wide}"),
        ] {
            let outcome = run(&session, &text, Duration::from_secs(3));
            let is_told = matches!(outcome.result, Ok(_) | Err(Error::Memory { .. } | Error::Cancelled));
            assert!(is_told, "{text}: {:?}", outcome.result);
            // A batch that a reader has just taken, and those that operators hand on, come on top of what is counted.
            assert!(outcome.memory < MEMORY * 2, "{text}: {} bytes, {:?}", outcome.memory, outcome.result);
        }
    }
    let text = format!("select w, unnest(range(0, 100000)) from {}", wide(20_000));
    assert!(matches!(run(&session, &text, Duration::from_secs(20)).result, Err(Error::Memory { .. })));
}

/// Regression: each query around it doubles a long constant, and the plan's limit counted each as one node.
#[test]
fn constants_that_double_are_refused_before_they_fill_the_memory() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    for (function, queries) in
        [("arrow_metadata(x, x)", 8), ("concat(x, x)", 12), ("x = x or x > x", 12), ("nullif(x, x)", 10)]
    {
        let first = "select repeat('ab', 100000) as x from tick".to_owned();
        let text =
            (0..queries).fold(first, |inner, _| format!("select {function} as x from ({inner}) where x is not null"));
        let outcome = run(&session, &text, Duration::from_secs(10));
        assert!(outcome.memory < MEMORY * 2, "{function}: {} bytes, {:?}", outcome.memory, outcome.result);
    }
}

/// Regression: kernels over lists reserve several times what they need, and the rows of a sort kept all of it.
#[test]
fn lists_that_functions_make_keep_no_spare_room() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let text = "select x || x as x from (select x || x as x from (select make_array(1, 2, 3) as x from tick) order by x) order by x";
    let outcome = run(&session, text, Duration::from_secs(20));
    assert!(matches!(outcome.result, Ok(200_000) | Err(Error::Memory { .. })), "{:?}", outcome.result);
    assert!(outcome.memory < MEMORY * 2, "{} bytes, {:?}", outcome.memory, outcome.result);
}

/// Before, a tick plan took columns of Parquet for slices of a mapped file.
#[test]
fn rows_of_parquet_that_have_to_be_decoded_count() {
    let _alone = alone();
    let text = "select * from tick where size > -2000";
    for (format, memory_bytes, is_tick_plan) in
        [(Tier::Mapped, 64 << 20, true), (Tier::Small, 64 << 20, true), (Tier::Small, 5 << 20, false)]
    {
        let (_folder, database) = market::database(format);
        for text in [text, "select * from tick"] {
            let settings = SessionSettings { memory_bytes, threads: 1, ..SessionSettings::default() };
            let session = Session::new(database.clone(), settings).unwrap();
            let mut answer = session.sql(text, Parameters::None).unwrap();
            assert_eq!(answer.is_tick_plan(), is_tick_plan, "{format:?} {memory_bytes} {text}");
            let rows: usize = answer.batches().unwrap().iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(rows, 200_000);
        }
    }
}
