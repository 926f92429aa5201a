//! First and last rows in any order, over rows of a table and over what is computed of them: the same rows by tick plans and without.

use splay_sql::Parameters;
use splay_store::Tier;

use crate::both::both;
use crate::generated::{FLOATS, OTHERS, WHOLE, typed_database};

/// Rows whose order is that of the table below, or of a sort, with the columns `g`, `x` and those of `typed`.
const ROWS: [&str; 6] = [
    "(select *, sym as g, n as x from typed)",
    "(select *, venue as g, f64 + i32 as x from typed where i32 is distinct from 3)",
    "(select *, sym as g, lag(n) over (partition by sym order by ts, n) as x from typed)",
    "(select *, truth as g, sum(i32) over (partition by venue order by n rows 3 preceding) as x from typed where n % 3 > 0)",
    "(select l.*, l.sym as g, r.n as x from typed l asof left join typed r on l.sym = r.sym and l.ts > r.ts)",
    "(select *, venue as g, n as x from typed order by m desc limit 400)",
];

fn orders() -> Vec<String> {
    let keys = [&WHOLE[..], &FLOATS, &OTHERS, &["ts", "sym", "venue", "n", "money * 1000000000", "f64 / i32"]].concat();
    let of =
        |(place, key): (usize, &&str)| format!("{key}{}", [" desc", "", " nulls first", " desc nulls last"][place % 4]);
    let mut orders: Vec<String> = keys.iter().enumerate().map(of).collect();
    orders.extend(
        ["ts", "ts desc", "sym, ts", "i32 desc, note nulls first", "truth, odd, clock desc", "date, u8"]
            .map(str::to_owned),
    );
    orders
}

#[test]
fn first_and_last_in_any_order_are_tick_plans() {
    for (tier, threads) in [(Tier::Mapped, 2), (Tier::Small, 1)] {
        let (_folder, database) = typed_database(tier);
        let both = both(&database, threads);
        for (place, order) in orders().iter().enumerate() {
            let rows = ROWS[place % ROWS.len()];
            let other = ROWS[(place + 1 + place / ROWS.len()) % ROWS.len()];
            for (text, is_tick) in [
                (
                    format!(
                        "select g, first(x order by {order}), last(x order by {order}), count(x) from {rows} q group by g"
                    ),
                    true,
                ),
                (
                    format!(
                        "select first(note order by {order}), last(money order by {order}), first(x order by {order}) from {other} q"
                    ),
                    true,
                ),
                (
                    format!(
                        "select g, first_value(ts order by {order}) filter (where i32 > 0), last_value(f64 order by {order}) \
                         from {other} q where u8 < 30 group by g"
                    ),
                    true,
                ),
                (
                    format!(
                        "select first(n order by {order}) filter (where venue = 'N'), first(n order by {order}) filter (where venue = 'P'), \
                         first(n order by {order}) filter (where venue = 'Q') from {rows} q group by g"
                    ),
                    true,
                ),
                // Nobody's order.
                (format!("select first(distinct x order by {order}) from {rows} q"), false),
            ] {
                let is_tick_plan = both.compare(&text).unwrap_or_else(|error| panic!("{error}"));
                assert!(is_tick_plan || !is_tick, "{text}: {:?}", both.reason(&text));
            }
        }
    }
}

/// Where rows have an order, first and last go by it.
#[test]
fn first_and_last_of_rows_with_an_order_of_their_own() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    for rows in ROWS {
        let text = format!("select g, first(x), last(note), first_value(n), last_value(f32) from {rows} q group by g");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        let text = format!("select first(x), last(n) filter (where u8 > 3) from {rows} q where m < 9000");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
    // An order that rows lose, and none that they ever had.
    for rows in [
        "(select sym as g, max(n) as x from typed group by sym, venue)",
        "(select sym as g, n as x from typed union all select venue, n from typed)",
    ] {
        let text = format!("select g, first(x) from {rows} q group by g");
        let error = both.tick.sql(&text, Parameters::None).and_then(|mut answer| answer.batches()).unwrap_err();
        assert!(error.to_string().contains("needs an ORDER BY"), "{text}: {error}");
    }
}

#[test]
fn first_and_last_of_no_rows_are_null() {
    let (_folder, database) = typed_database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        "select first(n order by note), last(n order by i32, u8) from typed where i32 > 1000",
        "select sym, first(n order by note) from typed where i32 > 1000 group by sym",
        "select first(x order by f64), count(*) from (select lag(n) over (order by n) as x, f64 from typed where u8 > 200) q",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
}
