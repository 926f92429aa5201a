//! Window functions run as tick plans, and give the rows that DataFusion gives: every function, type and frame.
//!
//! `SPLAY_TICK_STATEMENTS` sets how many statements are generated; the test run makes 500. With `SPLAY_TICK_REASONS` set, the
//! reasons why some of them had no tick plan are printed.

use std::collections::BTreeMap;

use arrow::util::display::array_value_to_string;
use splay_sql::Parameters;
use splay_store::Tier;

use crate::both::{Both, both, without_ticks};
use crate::generated::{DURATION, FLOATS, Numbers, OTHERS, WHOLE, typed_database, window_statement};

fn count() -> u64 {
    std::env::var("SPLAY_TICK_STATEMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000) / 2
}

fn compare(both: &Both, seed: u64, count: u64) {
    let mut numbers = Numbers(seed);
    let (mut ticks, mut errors) = (0, Vec::new());
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..count {
        let text = window_statement(&mut numbers);
        match both.compare(&text) {
            Ok(true) => ticks += 1,
            Ok(false) => *reasons.entry(both.reason(&text).unwrap_or(text)).or_default() += 1,
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{} of {count}:\n{}", errors.len(), errors[..errors.len().min(12)].join("\n\n"));
    if std::env::var_os("SPLAY_TICK_REASONS").is_some() {
        eprintln!("{ticks} of {count} statements ran as tick plans: {reasons:#?}");
    }
    assert!(ticks * 10 > count * 9, "only {ticks} of {count} statements ran as tick plans: {reasons:#?}");
}

#[test]
fn generated_windows_give_the_same_rows_both_ways() {
    let (_folder, database) = typed_database(Tier::Mapped);
    compare(&both(&database, 2), 31, count() * 3 / 4);
}

#[test]
fn generated_windows_give_the_same_rows_over_parquet() {
    let (_folder, database) = typed_database(Tier::Small);
    compare(&both(&database, 1), 32, count() / 4);
}

/// Literals are lifted out of tick plans, so that nobody knows there how they were written.
#[test]
fn decimals_equal_the_literals_that_they_are_written_as() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    let values = "select distinct money from typed where money is not null order by 1 limit 40";
    let batches = without_ticks(&database, 1).sql(values, Parameters::None).unwrap().batches().unwrap();
    for row in 0..batches[0].num_rows() {
        let value = array_value_to_string(batches[0].column(0), row).unwrap();
        for condition in [
            format!("money = {value}"),
            format!("money between {value} and {value}"),
            format!("money in ({value}, 123.4567)"),
            format!("money >= {value} and not money > {value}"),
        ] {
            let text = format!("select case when count(*) > 0 then 1 else 0 end as found from typed where {condition}");
            assert!(both.compare(&text).is_ok(), "{text}: {:?}", both.compare(&text));
            let actual = both.tick.sql(&text, Parameters::None).unwrap().batches().unwrap();
            assert_eq!(array_value_to_string(actual[0].column(0), 0).unwrap(), "1", "{text}");
        }
    }
}

/// Frames of every kind, and whether they are whole partitions.
const FRAMES: [(&str, bool); 8] = [
    ("partition by sym", true),
    ("partition by venue", true),
    ("partition by sym order by n", false),
    ("partition by sym order by n rows between 5 preceding and current row", false),
    ("partition by venue order by m rows between 100 preceding and 2 following", false),
    ("order by ts range between interval '3 seconds' preceding and interval '1 second' following", false),
    ("partition by sym order by i32 desc range between 3 preceding and current row", false),
    ("partition by sym order by ts groups between 1 preceding and unbounded following", false),
];

#[test]
fn each_framed_aggregate_of_each_type_has_a_tick_plan() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    let of = |kinds: &[&[&str]]| kinds.concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let numbers = of(&[&WHOLE, &FLOATS]);
    let all = of(&[&WHOLE, &FLOATS, &OTHERS, &["ts", "sym", "venue", DURATION]]);
    let mut calls: Vec<(String, bool)> = vec![("count(*)".to_owned(), false)];
    for x in &all {
        calls.extend(["count", "min", "max"].map(|name| (format!("{name}({x})"), false)));
    }
    for x in numbers.iter().chain(&of(&[&[DURATION]])) {
        calls.extend(["sum", "avg"].map(|name| (format!("{name}({x})"), false)));
    }
    // Up to 25 digits a mean has its place whatever the sum.
    for money in ["money", "-money", "money::decimal(25, 10)"] {
        calls.extend(["sum", "avg"].map(|name| (format!("{name}({money})"), false)));
    }
    // Around 2^53 and 2^64 squared distances of floats are but noise.
    for x in numbers.iter().filter(|x| !x.ends_with("64") || *x == "f64") {
        calls.extend(["var", "var_pop"].map(|name| (format!("{name}({x})"), false)));
        calls.push((format!("covar_samp({x}, f64)"), false));
        calls.push((format!("vwap(f64, {x})"), false));
        // Frames that rows leave hold these only in part: see `generated/windows.rs`.
        calls.extend(["stddev", "stddev_pop", "med", "median"].map(|name| (format!("{name}({x})"), true)));
        calls.push((format!("corr({x}, f64)"), true));
    }
    for (call, only_whole) in &calls {
        for (window, is_whole) in FRAMES {
            if *only_whole && !is_whole {
                continue;
            }
            let text = format!("select n, {call} over ({window}) as x from typed");
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        }
    }
}

#[test]
fn each_value_of_a_frame_has_a_tick_plan() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    let all = [&WHOLE[..], &FLOATS, &OTHERS, &["ts", "sym", "venue", DURATION]].concat();
    for x in all {
        for call in
            ["first_value(x)", "last_value(x) ignore nulls", "nth_value(x, 3)", "first(x)", "last(x)", "lag(x, 2)"]
        {
            let call = call.replace('x', x);
            for frame in ["", "rows between 3 preceding and 1 preceding", "range between 9 preceding and current row"] {
                let text = format!("select n, {call} over (partition by sym order by n {frame}) as x from typed");
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            }
        }
    }
}

#[test]
fn growing_texts_and_distances_of_unsigned_keys_have_a_tick_plan() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    for call in [
        "string_agg(note, ',') over (order by n)",
        "median(f64) over (order by n rows 3 preceding)",
        "sum(i32) over (order by u64 range between 1 preceding and current row)",
        "count(*) over (order by u64 desc range between 7 following and 9 following)",
        "count(*) over (order by u32 range between 1 following and 4000000000 following)",
    ] {
        let text = format!("select n, {call} as x from typed");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
}

#[test]
fn what_has_no_tick_plan_says_why() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    let text = "select n, avg(money::decimal(30, 3)) over (partition by sym) as x from typed";
    assert_eq!(both.compare(text), Ok(false));
    let reason = both.reason(text).unwrap_or_default();
    assert!(reason.contains("avg of arguments of type Decimal128"), "{reason}");
}
