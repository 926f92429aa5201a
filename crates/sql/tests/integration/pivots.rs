//! Aggregates for many values of a key give the rows that DataFusion gives, whatever the key's type and the aggregate.

use splay_store::Tier;

use crate::both::both;
use crate::group_keys::database;

/// Keys, and values of them as they are written. Some of them no row has, and some are there twice.
pub(crate) fn keys() -> Vec<(&'static str, Vec<String>)> {
    let numbers = |from: i64, step: i64| (0..12).map(|place| (from + place * step).to_string()).collect::<Vec<_>>();
    let mut twice = numbers(-5, 1);
    twice.extend(["2".to_owned(), "2.0".to_owned(), "2.5".to_owned(), "null".to_owned()]);
    let texts = |of: &dyn Fn(usize) -> String| (0..9).map(|place| format!("'{}'", of(place))).collect::<Vec<_>>();
    vec![
        ("few", twice),
        ("thousand", numbers(-1, 7)),
        ("many", (0..6).map(|place| (u64::MAX - place * 3).to_string()).collect()),
        ("far", (0..30).map(|place: i64| (place << 30).to_string()).collect()),
        ("amount", (0..40).map(|place: i32| format!("{:.4}", f64::from(place) * 0.0125 - 0.9)).collect()),
        ("huge", numbers(0, 1).iter().map(|value| format!("{value}.08")).collect()),
        ("mark", (0..24).map(|place: i32| format!("{}.5", place - 12)).chain(numbers(-6, 1)).collect()),
        ("day", (0..9).map(|day| format!("date '2019-04-{:02}'", 10 + day)).collect()),
        ("clock", (0..60).map(|second| format!("'01:{second:02}:07'")).collect()),
        ("note", texts(&|place| format!("N-{}", place * 11))),
        ("code", texts(&|place| "a long code of few values "[..place % 6 * 5 + 1].to_owned())),
        ("sym", ["'C'", "'A'", "'x'", "'B'", "''"].map(str::to_owned).to_vec()),
        ("thousand + 1", numbers(0, 50)),
        (
            "(case when few = 1 then 'NaN'::double when few = 2 then -0.0 when few = 3 then 0.0 else mark end)",
            ["0.0", "-0.0", "'NaN'::double", "1.0", "-7.0", "2.0"].map(str::to_owned).to_vec(),
        ),
    ]
}

const AGGREGATES: [&str; 12] = [
    "count(*)",
    "count(amount)",
    "sum(far)",
    "avg(mark)",
    "min(note)",
    "max(amount)",
    "count(distinct few)",
    "first(ts)",
    "last(code order by ts)",
    "stddev(thousand)",
    "med(mark)",
    "approx_distinct(thousand)",
];

fn columns(calls: &[&str], key: &str, values: &[String], condition: &dyn Fn(&str, &str) -> String) -> String {
    let column = |(number, value): (usize, &String)| {
        let with = |(call, place): (&&str, usize)| format!("{call} {} as c{number}_{place}", condition(key, value));
        calls.iter().zip(0..).map(with).collect::<Vec<_>>().join(", ")
    };
    values.iter().enumerate().map(column).collect::<Vec<_>>().join(", ")
}

#[test]
fn pivots_by_keys_of_every_type_are_tick_plans() {
    for (format, threads) in [(Tier::Mapped, 2), (Tier::Small, 1)] {
        let (_folder, database) = database(format);
        let both = both(&database, threads);
        for (number, (key, values)) in keys().iter().enumerate() {
            let calls: Vec<&str> = (0..3).map(|place| AGGREGATES[(number * 3 + place) % AGGREGATES.len()]).collect();
            let of = |condition: &dyn Fn(&str, &str) -> String| columns(&calls, key, values, condition);
            let plain = |key: &str, value: &str| format!("filter (where {key} = {value})");
            let unordered: Vec<&str> =
                AGGREGATES[..7].iter().map(|call| if call.contains("distinct") { "max(few)" } else { call }).collect();
            for text in [
                format!("select sym, {} from event group by sym", of(&plain)),
                format!("select {}, count(*) as n from event where thousand < 700", of(&plain)),
                format!("select sym, few, {} from event where thousand > 5000 group by 1, 2", of(&plain)),
                format!("select {} from event where thousand > 5000", of(&plain)),
                format!(
                    "select few % 2 as odd, sum(few) as s, {} from event group by 1",
                    of(&|key, value| format!("filter (where few < 3 and {value} = {key} and clock > '01:00:00')"))
                ),
                format!(
                    "select time_bucket('6 hours', ts) as bar, {} from event group by 1",
                    of(&|key, value| {
                        let is = if value == "null" { "=" } else { "is not distinct from" };
                        format!("filter (where {key} {is} {value})")
                    })
                ),
                format!(
                    "select sym, {} from (select * from event order by ts limit 9000) group by 1",
                    columns(&unordered, key, values, &plain)
                ),
            ] {
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            }
            let choices: Vec<String> = values
                .iter()
                .map(|value| {
                    let when = format!("case when {key} = {value} then");
                    format!("sum({when} far end), count({when} 1 end), max({when} note end)")
                })
                .collect();
            let zeros: Vec<String> = values
                .iter()
                .map(|value| {
                    let when = format!("case when {key} = {value} then");
                    format!("sum({when} far else 0 end), sum({when} mark else 0 end) filter (where few < 4)")
                })
                .collect();
            for calls in [&choices, &zeros] {
                let text = format!("select sym, {} from event group by sym", calls.join(", "));
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
                let text = format!("select {} from event where {key} = {}", calls.join(", "), values[0]);
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            }
        }
    }
}

/// A pivot is shown, whatever stands between its columns.
#[test]
fn aggregates_that_differ_in_a_value_are_one() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let sums: Vec<String> = (0..30).map(|value| format!("sum(far) filter (where few = {value})")).collect();
    let text = format!("select sym, count(*), {}, max(few) from event group by sym", sums.join(", avg(mark), "));
    let plan = both.reason(&text).unwrap();
    assert!(plan.contains("Sum for each of 30 values"), "{plan}");
    // Sums of zero where the condition doesn't hold.
    let sums: Vec<String> = (0..30).map(|value| format!("sum(case when few = {value} then far else 0 end)")).collect();
    let text = format!("select sym, {} from event group by sym", sums.join(", max(few), "));
    let plan = both.reason(&text).unwrap();
    assert!(plan.contains("Sum for each of 30 values"), "{plan}");
    assert!(plan.contains("CountRows for each of 30 values"), "{plan}");
    assert_eq!(both.compare(&text), Ok(true));
    // Those of two keys, and what must have two values at once.
    let pairs: Vec<String> = (0..20)
        .flat_map(|one| (0..3).map(move |other| (one, other)))
        .map(|(one, other)| format!("count(*) filter (where thousand = {one} and few = {other})"))
        .collect();
    let text = format!("select {}, count(*) filter (where few = 1 and few = 2) from event", pairs.join(", "));
    let plan = both.reason(&text).unwrap();
    assert_eq!(plan.matches("CountRows for each of 20 values").count(), 3, "{plan}");
    assert_eq!(both.compare(&text), Ok(true));
}
