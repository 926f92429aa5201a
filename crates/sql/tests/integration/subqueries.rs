//! Queries within expressions run as tick plans where they are read first, and give the rows that DataFusion gives.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int64Type;
use splay_sql::Parameters;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::both::both;
use crate::generated::{Numbers, database};

#[test]
fn queries_that_stand_for_a_value_are_read_first() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for condition in [
        "size = (select max(size) from trade)",
        "size >= (select max(size) from trade where sym = 'S03')",
        "bid < (select avg(bid) from quote where venue = 'N')",
        "bid < (select min(bid) from quote where sym = 'none')",
        "ts > (select max(ts) from trade where size < 3)",
        "sym = (select min(sym) from trade)",
        "sym = 'S02' and seq > (select avg(seq) from trade)",
        "size = (select count(*) from trade where sym = 'none')",
        "size * 2 < (select min(size) + 3 from trade) or size = 7",
        "ask > (select max(ask) - 10 from quote where bid < (select min(bid) + 20 from trade))",
    ] {
        let text = format!("select seq, ts, sym, bid from quote where {condition}");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
    let text = "select sym, max(bid) - (select min(bid) from trade) as above from quote group by sym";
    assert_eq!(both.compare(text), Ok(true), "{:?}", both.reason(text));
    // A query of several rows is no value, and DataFusion says so.
    assert_eq!(both.compare("select count(*) from quote where size = (select size from trade)"), Ok(false));
}

#[test]
fn lists_of_queries_and_existence_are_looked_up() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for condition in [
        "seq in (select seq from trade)",
        "seq not in (select seq from trade)",
        "seq not in (select seq from trade where seq is not null)",
        "seq in (select seq from trade where sym = 'none')",
        "seq not in (select seq from trade where sym = 'none')",
        "sym in (select sym from trade group by sym having count(*) > 100)",
        "sym not in (select sym from trade where size < 100 and sym is not null)",
        "venue in (select venue from trade where size > 490)",
        "ts in (select ts from trade)",
        "bid in (select bid from trade where venue = 'Q') and size < 250",
        "not (size in (select size from trade where size > 300))",
        "exists (select 1 from trade t where t.seq = q.seq)",
        "not exists (select 1 from trade t where t.seq = q.seq)",
        "exists (select 1 from trade t where t.sym = q.sym and t.size > 495)",
        "not exists (select * from trade t where t.sym = q.sym and t.size > 495 and t.venue = 'N')",
        "exists (select 1 from reference r where r.number = q.size)",
        "exists (select 1 from trade t where t.sym = q.sym and t.size < q.size - 300)",
        "not exists (select 1 from trade t where t.sym = q.sym and t.venue = q.venue and q.bid <= t.bid)",
        "exists (select 1 from trade t where t.venue = q.venue and t.sym <> q.sym and t.size > 480)",
        "not exists (select 1 from trade t where t.seq = q.seq and t.venue <> q.venue)",
        "exists (select 1 from trade t where t.seq = q.seq and t.seq = q.size)",
        "size > (select min(t.size) from trade t where t.seq = q.seq and t.seq = q.seq)",
        // Of queries that read nothing from around them.
        "exists (select 1 from trade)",
        "not exists (select * from trade where size > 1000000)",
        "not exists (select sym from trade where sym = 'S02' order by ts limit 5) or size < 50",
        "exists (select max(size) from trade where false) and size < 50",
        "exists (select sym from trade group by sym having count(*) > 1000000)",
        // Lists for each row.
        "seq in (select t.seq from trade t where t.sym = q.sym)",
        "q.size in (select distinct t.size from trade t where t.venue = q.venue and t.size > 100 and t.sym is not null)",
        "q.size + 1 in (select x.size from (select t.size * 2 as size, t.venue as v from trade t) x where x.v = q.venue) or q.size < 20",
        "q.size in (select t.size from trade t where t.venue = q.venue and t.bid <= q.bid)",
        "not (q.size not in (select t.size from trade t where t.venue = q.venue))",
        "q.seq not in (select t.seq from trade t where t.sym = q.sym)",
        "not (q.seq in (select t.seq from trade t where t.sym = q.sym and t.seq is not null)) and q.seq > 0",
        "q.size < 20 or q.size not in (select t.size from trade t where t.venue = q.venue)",
    ] {
        let text = format!("select q.seq, q.ts, q.sym from quote q where {condition}");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
}

#[test]
fn queries_for_each_row_are_grouped_by_what_binds_them() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for condition in [
        "bid = (select max(t.bid) from quote t where t.sym = q.sym)",
        "bid < (select avg(t.bid) from trade t where q.sym = t.sym)",
        "size > (select min(t.size) from trade t where t.venue = q.venue and t.size > 100)",
        "size > (select sum(t.size) from trade t where t.seq = q.seq)",
        "sym = 'S01' and ask >= (select median(t.ask) from trade t where t.venue = q.venue)",
        "(select max(t.bid) from trade t where t.seq = q.seq) is null and size < 50",
        "size < (select cast(max(t.size) as double) / 2.0 from trade t where t.sym = q.sym)",
        "bid < (select max(t.bid) - min(t.bid) from trade t where t.seq = q.seq)",
        "(select abs(max(t.bid) - min(t.bid)) + 1 from trade t where t.seq = q.seq) is null and size < 50",
        "sym < (select min(t.sym) from trade t where t.venue = q.venue and t.size > 490)",
        "venue > (select min(t.venue) from quote t where t.sym = q.sym)",
        "size = (select count(*) from trade t where t.seq = q.seq)",
        "(select count(t.size) from trade t where t.seq = q.seq) = 0 and size < 50",
        "size < (select count(distinct t.venue) from trade t where t.sym = q.sym)",
        "size > (select min(t.size) from trade t where t.venue = q.venue and t.sym = q.sym)",
        "size >= (select count(*) from trade t where t.venue = q.venue and t.size = q.size and t.sym = q.sym)",
    ] {
        let text = format!("select q.seq, q.ts, q.sym, q.size from quote q where {condition}");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
    // What isn't null of no rows has no group to be looked up in.
    for condition in [
        "size = (select count(*) + 1 from trade t where t.seq = q.seq)",
        "size = (select coalesce(max(t.size), 7) from trade t where t.seq = q.seq)",
        "size = (select max(t.size) + count(*) from trade t where t.seq = q.seq)",
        "size > (select min(t.size) from trade t where t.venue = q.venue and t.size < q.size)",
    ] {
        let text = format!("select q.seq, q.ts from quote q where {condition}");
        assert_eq!(both.compare(&text), Ok(false), "{text}");
    }
}

/// Queries one behind the other, with the names of the first one's columns.
#[test]
fn queries_one_behind_the_other_are_read_in_turn() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        "select seq, sym as name, size from quote where size < 50 union all select seq, sym, size * 2 from trade where size > 400",
        "select sym from quote union all select 'none' union all select null",
        "select size from trade union select size from quote",
        "select sym, venue from trade except select sym, venue from quote where size > 250",
        "select sym, venue from trade intersect select sym, venue from quote",
        "(select seq from trade order by seq limit 3) union all (select seq from quote order by seq limit 3)",
        "select seq, sym from quote where exists (select 1 from trade) union all select seq, sym from trade where false",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
}

/// A side holds the columns that the statement names, and no others.
#[test]
fn joins_to_sides_give_the_columns_that_are_asked_for() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        "select q.seq, r.kind from quote q join reference r on q.sym = r.sym where q.size < 20",
        "select q.*, r.* from quote q left join reference r on q.sym = r.sym where q.size < 20",
        "select q.seq, r.sym, r.number from quote q left join (select * from reference) r on q.sym = r.sym where q.size < 20",
        "select count(r.number) as n, max(q.bid) from quote q join reference r on q.sym = r.sym",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
}

/// Conditions on what groups, distinct rows and windows go by hold for the rows below as for those above.
#[test]
fn conditions_on_keys_are_asked_below_groups() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let bars = "select sym, time_bucket('5 minutes', ts) as bar, venue, sum(size) as volume, max(bid) as high, count(*) as n from quote \
                group by sym, bar, venue";
    let conditions = [
        "sym = 'S02'",
        "sym in ('S01', 'S03') and volume > 500",
        "sym is null",
        "sym > 'S05' or venue = 'N'",
        "venue = 'N' and n > 1 and sym <> 'S02'",
        "venue is null",
        "bar >= timestamp '2019-10-07 14:00:00'",
        "bar > timestamp '2019-10-07 14:02:00' and bar < timestamp '2019-10-07 17:31:00'",
        "bar between timestamp '2019-10-07 14:00:00' and timestamp '2019-10-07 15:00:00' and sym = 'S04'",
        "bar = timestamp '2019-10-07 14:05:00'",
        "bar = timestamp '2019-10-07 14:06:00'",
        "bar <> timestamp '2019-10-07 14:05:00' and sym = 'S01'",
        "bar + interval '5 minutes' > timestamp '2019-10-07 14:00:00'",
        "sym = 'none'",
        "volume > 1000",
        "false",
    ];
    let sources = [
        format!("({bars})"),
        format!("(select b.bar, b.sym, b.venue, b.n, b.volume, b.high from ({bars}) as b where b.high is not null order by b.n)"),
        format!("({bars} union all {})", bars.replace("quote", "trade")),
        "(select distinct sym, time_bucket('1 hour', ts) as bar, venue, 1 as n, 1 as volume, 1.0 as high from quote)".to_owned(),
        "(select bar, sym, venue, max(volume) as volume, min(n) as n, sum(high) as high from (select sym, venue, time_bucket('1 minute', ts) \
         as bar, sum(size) as volume, count(*) as n, max(bid) as high from quote group by 1, 2, 3) group by bar, sym, venue having count(*) > 0)"
            .to_owned(),
        "(select ts as bar, sym, venue, size as volume, bid as high, rank() over (partition by sym, venue order by ts, seq) as n from quote)"
            .to_owned(),
    ];
    for source in &sources {
        for condition in conditions {
            let text = format!("select sym, bar, venue, volume, n from {source} as x where {condition}");
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        }
    }
    // A filter on another value than a key stays above.
    let text = "select * from (select sym, last(size) as s from quote group by sym) where s > 10 and sym > 'S03'";
    assert_eq!(both.compare(text), Ok(true), "{:?}", both.reason(text));
    for (text, bounds) in [
        (
            format!("select volume from ({bars}) where sym = 'S02' and bar > timestamp '2019-10-07 14:02:00'"),
            "bounds=[symbol, time]",
        ),
        (
            "select count(*) from quote where time_bucket('1 day', ts) = timestamp '2019-10-07'".to_owned(),
            "bounds=[time]",
        ),
        (
            "select count(*) from quote where date_trunc('hour', ts) < timestamp '2019-10-07 15:30:00'".to_owned(),
            "bounds=[time]",
        ),
    ] {
        let plan = both.reason(&text).unwrap();
        assert!(plan.contains(bounds) && plan.contains("filter=none"), "{text}: {plan}");
    }
}

/// Rows of a key and a value, either of which may be null.
type KeyedRows = Vec<(Option<i64>, Option<i64>)>;

fn keyed_rows(numbers: &mut Numbers, count: usize, values: u64) -> KeyedRows {
    let mut some = |below: u64| (!numbers.happens(15)).then(|| i64::try_from(numbers.below(below)).unwrap());
    (0..count).map(|_| (some(6), some(values))).collect()
}

fn load_keyed_rows(database: &Database, name: &str, rows: &KeyedRows) {
    let columns =
        [("ts", ColumnType::Timestamp), ("row", ColumnType::Int64), ("k", ColumnType::Int64), ("v", ColumnType::Int64)];
    let columns = columns.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    let spec = TableSpec::new(name, columns, "ts", None);
    let numbers = || 0..i64::try_from(rows.len()).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(numbers()).with_timezone("UTC")),
        Arc::new(Int64Array::from_iter_values(numbers())),
        Arc::new(rows.iter().map(|(key, _)| *key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, value)| *value).collect::<Int64Array>()),
    ];
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    load.commit().unwrap();
}

/// `x IN (SELECT …)` by its definition: true if a value equals `x`, else null if one may.
fn is_member(x: Option<i64>, values: &[Option<i64>]) -> Option<bool> {
    match x {
        _ if values.is_empty() => Some(false),
        Some(_) if values.contains(&x) => Some(true),
        Some(_) if !values.contains(&None) => Some(false),
        _ => None,
    }
}

#[test]
fn memberships_in_queries_for_each_row_are_those_of_their_definition() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let mut numbers = Numbers(93);
    let (left, right) = (keyed_rows(&mut numbers, 70, 9), keyed_rows(&mut numbers, 40, 12));
    load_keyed_rows(&database, "l", &left);
    load_keyed_rows(&database, "r", &right);
    let both = both(&database, 2);
    let queries: [(&str, &dyn Fn(Option<i64>, Option<i64>) -> bool, bool); 4] = [
        ("r.k = l.k", &|of_left, of_right| of_left.is_some() && of_left == of_right, true),
        ("r.k < l.k", &|of_left, of_right| of_left.zip(of_right).is_some_and(|(left, right)| right < left), false),
        ("r.k = l.k and r.v is not null", &|of_left, of_right| of_left.is_some() && of_left == of_right, true),
        ("r.k = l.k and r.row < 0", &|_, _| false, true),
    ];
    for (condition, is_row, has_tick_plan) in queries {
        let member = |(key, x): (Option<i64>, Option<i64>)| {
            let of_key = right.iter().filter(|(other, _)| is_row(key, *other)).map(|(_, value)| *value);
            let values: Vec<Option<i64>> =
                of_key.filter(|value| !condition.contains("is not null") || value.is_some()).collect();
            is_member(x, &values)
        };
        let query = format!("(select r.v from r where {condition})");
        let forms: [(String, &dyn Fn(Option<bool>, i64) -> bool); 7] = [
            (format!("v in {query}"), &|is_member, _| is_member == Some(true)),
            (format!("v not in {query}"), &|is_member, _| is_member == Some(false)),
            (format!("not (v in {query})"), &|is_member, _| is_member == Some(false)),
            (format!("not (v not in {query})"), &|is_member, _| is_member == Some(true)),
            (format!("row < 20 or v not in {query}"), &|is_member, row| row < 20 || is_member == Some(false)),
            (format!("row > 9 and (row > 60 or v in {query})"), &|is_member, row| {
                row > 9 && (row > 60 || is_member == Some(true))
            }),
            (format!("(v not in {query}) is null"), &|is_member, _| is_member.is_none()),
        ];
        for (number, (form, holds)) in forms.iter().enumerate() {
            let expected: Vec<i64> =
                (0..).zip(&left).filter(|(row, one)| holds(member(**one), *row)).map(|(row, _)| row).collect();
            let text = format!("select row from l where {form} order by row");
            for session in [&both.tick, &both.other] {
                let mut answer = session.sql(&text, Parameters::None).unwrap();
                let batches = answer.batches().unwrap();
                let rows =
                    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
                assert_eq!(rows.collect::<Vec<i64>>(), expected, "{text}");
            }
            if has_tick_plan && number < 6 {
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            }
        }
        let text = format!("select row, v in {query} as one, v not in {query} as other from l order by row");
        for session in [&both.tick, &both.other] {
            let mut answer = session.sql(&text, Parameters::None).unwrap();
            let batches = answer.batches().unwrap();
            let column = |at: usize| {
                batches
                    .iter()
                    .flat_map(|batch| batch.column(at).as_boolean().iter().collect::<Vec<_>>())
                    .collect::<Vec<_>>()
            };
            let expected: Vec<Option<bool>> = left.iter().map(|one| member(*one)).collect();
            assert_eq!(column(1), expected, "{text}");
            assert_eq!(column(2), expected.iter().map(|one| one.map(|one| !one)).collect::<Vec<_>>(), "{text}");
        }
    }
}
