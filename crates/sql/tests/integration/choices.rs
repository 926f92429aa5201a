//! `CASE` and `coalesce` give the rows that DataFusion gives, whatever may fail in them.

use splay_store::Database;

use crate::both::both;
use crate::first_rows::load_dates;

#[test]
fn choices_fail_for_rows_that_ask_for_what_fails() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    load_dates(&database);
    for threads in [1, 2] {
        let both = both(&database, threads);
        for text in [
            // By functions of times and numbers, of which each row computes all.
            "select sym, sum(case when extract(hour from ts) = 14 then number end) as a, sum(case when extract(minute from ts) < 33 then number else 0 end) as b from days group by sym",
            "select sum(case when extract(dow from ts) = 1 then 1 when extract(dow from ts) = 2 then number else abs(number) end) as n from days",
            "select number, case extract(second from ts) when 3 then 'three' when 5 then 'five' end as s from days where number < 90",
            "select number, case when number % 2 = 0 then sqrt(number) when number > 5 then ln(number - 5) else floor(number / 3) end as x from days",
            "select number, case when date_trunc('minute', ts) = ts then round(number / 7.0, 2) end as x from days",
            // The first condition, which all rows ask for.
            "select number, case when upper(sym) = 'A' then number when sym = 'B' then -number end as x from days",
            "select number, case when substr(sym, 1, 1) > 'A' then 1 else 2 end as x from days where number < 700",
            // What fails is in rows that don't ask for it.
            "select number, case when number <> 7 then 100 / (number - 7) end as x from days",
            "select number, case when number < 10 then 0 when number = 3 then 1 / (number - number) else number / 2 end as x from days",
            "select number, coalesce(nullif(number % 3, 0), 100 / (number % 3 - 3)) as x from days",
        ] {
            assert_eq!(both.compare(text), Ok(true));
        }
        for text in [
            "select number, case when 100 / (number - 7) > 3 then 1 else 0 end as x from days",
            "select number, case when number = 7 then 100 / (number - 7) end as x from days",
            "select number, case when cast(sym as bigint) = 1 then 1 end as x from days",
        ] {
            assert_eq!(both.compare(text), Ok(false), "refused in the same words: {text}");
        }
    }
}
