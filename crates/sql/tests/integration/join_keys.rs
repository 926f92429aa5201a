//! Joins of a table to a small side: the keys of the one narrow the reading of the other, and the rows are those of a join that compares all pairs.

use arrow::array::RecordBatch;
use splay_sql::{Parameters, Session};
use splay_store::Tier;

use crate::both::{Both, both, cells};
use crate::group_keys::database;
use crate::pivots::keys;

fn rows(session: &Session, text: &str) -> (Vec<RecordBatch>, u64) {
    let mut answer = session.sql(text, Parameters::None).unwrap_or_else(|error| panic!("{text}: {error}"));
    let batches = answer.batches().unwrap_or_else(|error| panic!("{text}: {error}"));
    (batches, answer.stats().rows_scanned)
}

/// The rows of a join by equality are those by two comparisons, which nothing narrows.
fn check(both: &Both, join: &dyn Fn(&str) -> String, keys: &[(&str, &str)]) {
    let on = |write: &dyn Fn(&str, &str) -> String| {
        keys.iter().map(|(left, right)| write(left, right)).collect::<Vec<_>>().join(" and ")
    };
    let equal = join(&on(&|left, right| format!("{left} = {right}")));
    let compared = join(&on(&|left, right| format!("{left} <= {right} and {left} >= {right}")));
    let (expected, _) = rows(&both.other, &compared);
    let text = |batches: &[RecordBatch]| format!("{:?}", cells(batches));
    for session in [&both.tick, &both.other] {
        assert_eq!(text(&rows(session, &equal).0), text(&expected), "{equal}");
    }
}

#[test]
fn joins_to_a_small_side_by_keys_of_every_type() {
    for (format, threads) in [(Tier::Mapped, 2), (Tier::Small, 1)] {
        let (_folder, database) = database(format);
        let both = both(&database, threads);
        for (key, values) in keys() {
            let value = |value: &String| match key {
                "clock" => format!("(time {value})"),
                _ => format!("({value})"),
            };
            let list = values.iter().chain(values.first()).map(value).collect::<Vec<_>>().join(", ");
            let small = format!("(select column1 as k, row_number() over () % 3 as f from (values {list})) v");
            let event = format!("(select *, {key} as it from event) e");
            let aggregates = "count(*), sum(e.thousand), min(e.ts), max(e.ts), max(e.note)";
            for kind in ["join", "left join", "right join"] {
                let join = |on: &str| format!("select {aggregates} from {event} {kind} {small} on {on}");
                check(&both, &join, &[("e.it", "v.k")]);
                check(&both, &join, &[("e.it", "v.k"), ("e.few", "v.f")]);
            }
            let join = |on: &str| format!("select e.sym, e.ts, v.k from {small} join {event} on {on} where e.few > 2");
            check(&both, &join, &[("v.k", "e.it")]);
        }
    }
}

/// Symbols, times and numbers that the small side doesn't have aren't read.
#[test]
fn keys_of_the_small_side_narrow_the_reading() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let all = 30_000;
    for (values, on) in [
        ("('B'), ('B')", "e.sym = v.k"),
        ("('nobody')", "e.sym = v.k"),
        ("(timestamp '2019-10-08 00:00:09'), (timestamp '2019-10-08 00:10:00')", "e.ts = v.k"),
        ("(date '2019-10-08')", "e.date = v.k"),
        ("('B', 2), ('B', 3)", "e.sym = v.k and e.few = v.column2"),
    ] {
        let text = format!(
            "select count(*), max(e.note) from event e join (select *, column1 as k from (values {values})) v on {on}"
        );
        let (_, read) = rows(&both.other, &text);
        assert!(read <= all / 2, "{text}: {read} of {all}");
    }
}

/// Rows of groups by several keys, each combination of which is there once.
#[test]
fn joins_to_groups_by_several_keys_are_tick_plans() {
    for (format, threads) in [(Tier::Mapped, 2), (Tier::Small, 1)] {
        let (_folder, database) = database(format);
        let both = both(&database, threads);
        for (key, _) in keys() {
            let event = format!("(select *, {key} as it from event) e");
            let groups = |by: &str| {
                format!(
                    "(select {by}, count(*) as n, max(thousand) as m, min(note) as o from (select *, {key} as it from event where thousand % 7 > 3) i group by {by}) g"
                )
            };
            let (two, three) = (groups("sym, it"), groups("it, few, sym"));
            for text in [
                format!(
                    "select e.sym, e.thousand, g.n, g.m, g.o from {event} join {two} on e.sym = g.sym and e.it = g.it where e.thousand > 970"
                ),
                format!(
                    "select e.few, e.it, g.n, g.o from {event} left join {two} on g.it = e.it and g.sym = e.sym where e.thousand < 40"
                ),
                format!(
                    "select e.sym, count(*), count(g.n), sum(g.m), max(g.o) from {event} left join {three} \
                     on e.few = g.few and e.it = g.it and e.sym = g.sym group by e.sym"
                ),
                format!(
                    "select count(*), sum(g.m) from {event} join {three} on e.few = g.few and e.it = g.it and e.sym = g.sym"
                ),
            ] {
                // Decimals of more than 64 bits have no words.
                assert_eq!(both.compare(&text), Ok(key != "huge"), "{text}: {:?}", both.reason(&text));
            }
            // By less than the keys of the groups a row may find several.
            let text =
                format!("select count(*), sum(g.n) from {event} join {three} on e.few = g.few and e.sym = g.sym");
            assert_eq!(both.compare(&text), Ok(key != "huge"), "{text}: {:?}", both.reason(&text));
        }
        let text = "select count(*), sum(g.n) from event e join (select sym, few, count(*) as n from event where sym = 'B' group by sym, few) g \
                    on e.sym = g.sym and e.few = g.few";
        let alone = "select count(*) from event where sym = 'B'";
        assert_eq!(rows(&both.tick, text).1, 2 * rows(&both.tick, alone).1, "other symbols aren't read");
    }
}

/// Both zeros are one key, and so are all NaNs: what tells them apart says nothing of the other side's rows, nor of the rows of a group.
#[test]
fn conditions_on_keys_that_are_floats_hold_for_the_other_side_where_they_compare() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let zeros = |first: &str, second: &str| {
        format!(
            "(case when few = 1 then 'NaN'::double when few = 2 then {first} when few = 3 then {second} else mark end)"
        )
    };
    let event = format!("(select *, {} as x from event) e", zeros("-0.0", "0.0"));
    let groups =
        format!("(select {} as k, count(*) as n, max(thousand) as m from event group by 1) g", zeros("0.0", "-0.0"));
    for (of, is_pushed) in [
        ("{} >= 0.0", true),
        ("{} <= -0.0", true),
        ("{} = 0.0", true),
        ("{} in (0.0, 2.0, 'NaN'::double)", true),
        ("{} between -1 and 2", true),
        ("not {} > 0", true),
        ("{} is not distinct from -0.0", true),
        ("({} > 3 or {} is null)", true),
        ("'NaN'::double <= {}", true),
        ("1 / {} > 0", false),
        ("cast({} as varchar) <> '0.0'", false),
        ("abs({}) < 2", false),
        ("{} + 0.0 > 1 / {}", false),
    ] {
        let (left, right) = (of.replace("{}", "e.x"), of.replace("{}", "g.k"));
        for text in [
            format!("select count(*), sum(g.n), max(g.m) from {event} join {groups} on e.x = g.k where {left}"),
            format!("select count(*), sum(g.n), max(g.m) from {event} join {groups} on e.x = g.k where {right}"),
            format!(
                "select e.few, count(*), sum(g.n) from {event} left join {groups} on e.x = g.k where {left} group by 1"
            ),
            format!("select n, m from {groups} where {right}"),
            format!("select distinct x from {event} where {left}"),
        ] {
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        }
        let text = format!("select count(*), sum(g.n) from {event} join {groups} on e.x = g.k where {left}");
        let plan = both.reason(&text).unwrap();
        let grouped = plan.lines().find(|line| line.contains("AggregateTable") && line.contains("by [value]")).unwrap();
        assert_eq!(grouped.contains("filter=evaluated"), is_pushed, "{text}: {plan}");
    }
}
