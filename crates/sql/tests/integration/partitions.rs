//! Statements over tables whose partitions are months, years or all time give what they give over one of dates, by tick plans and without.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int32Type;
use splay_sql::{Answer, Parameters, Session};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, Period, TableSpec, Tier};

use crate::both::cells;
use crate::market;

/// 2019-10-20T22:00:00Z: dates change in New York within the rows of an hour, and clocks go back on 3 November.
const START: i64 = 1_571_608_800_000_000_000;

fn rows() -> RecordBatch {
    let count = 30_000_i64;
    let mix = |n: i64| (n.wrapping_mul(2_654_435_761) >> 7) & 0xffff;
    let names: Vec<Option<String>> = (0..12).map(|n| (n > 0).then(|| format!("S{n:02}"))).collect();
    let symbols = (0..count).map(|n| names[usize::try_from(mix(n) % 12).unwrap()].as_deref());
    // Ties: three rows of a time.
    let times = (0..count).map(|n| START + n / 3 * 613_000_000_001);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC")),
        Arc::new(symbols.collect::<DictionaryArray<Int32Type>>()),
        Arc::new(
            (0..count).map(|n| (mix(n) % 50 != 0).then(|| (mix(n + 3) % 1000) as f64 / 8.0)).collect::<Float64Array>(),
        ),
        Arc::new(Int64Array::from_iter_values((0..count).map(|n| mix(n * 5) % 900))),
    ];
    RecordBatch::try_new(spec("bar", Period::Day).arrow(), columns).unwrap()
}

fn spec(name: &str, period: Period) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("Time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
        ColumnSpec::new("size", ColumnType::Int64),
    ];
    TableSpec::new(name, columns, "Time", Some("sym")).with_time_zone("America/New_York").with_partition(period)
}

fn database(tier: Tier) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let rows = rows();
    for period in Period::ALL {
        // In two loads, the later of which has rows between those of the first.
        for part in [0, 1] {
            let mask = (0..rows.num_rows()).map(|row| Some(row / 3000 % 2 == part)).collect();
            let part = arrow::compute::filter_record_batch(&rows, &mask).unwrap();
            let options = LoadOptions { tier: Some(tier), partition: Some(period), ..LoadOptions::default() };
            let mut load = database.load(&spec(&format!("bar_{period}"), period), options).unwrap();
            load.append(&part).unwrap();
            load.commit().unwrap();
        }
    }
    (folder, database)
}

const STATEMENTS: [&str; 48] = [
    "select count(*), min(date), max(date), count(distinct date) from T",
    "select date, count(*), sum(size), avg(price) from T group by date",
    "select date, sym, first(price), last(price), max(time), count(*) from T group by date, sym",
    "select sym, date, max(price) from T group by sym, date",
    "select sym, count(*), avg(price) from T group by sym",
    "select sym, first(size), last(size), last(date) from T group by sym",
    "select first(size), last(size) from T",
    "select count(*) from T where date = '2019-11-03'",
    "select count(*) from T where date = date '2019-11-03' and sym = 'S03'",
    "select count(*) from T where '2019-11-03' = date",
    "select count(*) from T where date < '2019-10-21'",
    "select count(*) from T where date <= '2019-10-21'",
    "select count(*) from T where date > '2019-12-30'",
    "select count(*) from T where date >= '2019-12-30'",
    "select count(*) from T where date between '2019-10-31' and '2019-11-04'",
    "select count(*) from T where date in ('2019-10-20', '2019-12-01', '2020-01-02')",
    "select count(*) from T where date not in ('2019-10-20', '2019-12-01')",
    "select count(*) from T where date <> '2019-11-03'",
    "select count(*) from T where date is null or date is distinct from '2019-11-03'",
    "select count(*) from T where date = '2019-11-03' or size = 5",
    "select count(*) from T where date = '1900-01-01' or date > '2250-01-01'",
    "select count(*) from T where date < arrow_cast(2147483647, 'Date32')",
    "select count(*) from T where date <= arrow_cast(-2147483648, 'Date32')",
    "select count(*) from T where date = (select max(date) from T)",
    "select count(*) from T where date < (select min(date) + 10 from T)",
    "select * from T where date = '2019-11-01' and size < 40",
    "select *, date + 1 as next from T where sym = 'S04' and date = '2019-12-31'",
    "select time, price from T where date = '2019-11-03' and time > '2019-11-03T06:00:00Z' and sym in ('S01', 'S02')",
    "select extract(dow from date) as d, count(*) from T group by d",
    "select date_trunc('month', date) as m, sum(size) from T group by m",
    "select date, time_bucket('6 hours', time) as b, count(*) from T group by date, b",
    "select time_bucket('1 day', time, 'America/New_York') as b, count(*) from T group by b",
    "select distinct date from T where sym = 'S05'",
    "select date, sum(size) as s from T group by date having sum(size) > 100000 order by s desc limit 3",
    "select sym, time, price - lag(price) over (partition by sym order by time, size, price) as d from T where date = '2019-10-22'",
    "select date, sym, sum(size) over (partition by date, sym) as s from T where size < 30",
    "select date, count(*) filter (where sym = 'S01'), count(*) filter (where sym = 'S02') from T group by date",
    "select sym, median(price) from T where date > '2019-11-20' group by sym",
    "select a.date, count(*) from T a join T b on a.date = b.date and a.sym = b.sym where a.size = 7 and b.size = 9 group by a.date",
    "select count(*), sum(b.size) from T a asof join T b on a.sym = b.sym and b.time <= a.time where a.date = '2019-11-04'",
    "select x.date, x.n from (select date, count(*) as n from T group by date) x where x.date < '2019-10-25'",
    "with d as (select date, sum(size) s from T where sym is null group by date) select max(s), min(date) from d",
    "select count(*) from T where local_date(time, 'America/New_York') <> date",
    "select local_date(time, 'Asia/Tokyo') as d, count(*) from T group by d",
    "select count(*) from T where local_date(time, 'Asia/Tokyo') = '2019-11-03'",
    "select cast(date as text) as d, count(*) from T where date > '2019-12-20' group by d",
    "select sym, count(*) from T where date = '2019-11-03' group by sym union all select sym, count(*) from T where date = '2019-11-04' group by sym",
    "select price, date from T where price is not null order by price desc, time, size limit 5",
];

fn answer(session: &Session, statement: &str, period: Period) -> Answer {
    let statement = statement.replace(" T", &format!(" bar_{period}"));
    session.sql(&statement, Parameters::None).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

#[test]
fn longer_partitions_give_the_same_answers() {
    for tier in [Tier::Mapped, Tier::Small] {
        let (_folder, database) = database(tier);
        let tick = market::session(&database, 2, 8192);
        let general = market::session_without_tick_plans(&database);
        for statement in STATEMENTS {
            let expected = cells(&answer(&general, statement, Period::Day).batches().unwrap());
            for (session, period) in
                [&tick, &general].into_iter().flat_map(|one| Period::ALL.map(|period| (one, period)))
            {
                let actual = cells(&answer(session, statement, period).batches().unwrap());
                let is_same = actual.len() == expected.len()
                    && actual
                        .iter()
                        .zip(&expected)
                        .all(|(one, other)| one.iter().zip(other).all(|(a, b)| a.matches(b)));
                assert!(is_same, "{statement} by {period}:\n{actual:?}\n{expected:?}");
            }
        }
    }
}

/// A row a date of each of many symbols, so that the rows of a date stand far apart in a longer partition. Times within a date don't go by the symbol.
/// On the first date alone sizes are zero.
fn bars(symbols: i64, dates: i64) -> RecordBatch {
    let rows = move || (0..symbols).flat_map(move |symbol| (0..dates).map(move |date| (symbol, date)));
    let rows = move || rows().filter(|(symbol, date)| (symbol * 7 + date) % 11 > 0);
    let names: Vec<String> = (0..symbols).map(|symbol| format!("S{symbol:05}")).collect();
    let name = |(symbol, _): (i64, i64)| (symbol % 97 > 0).then(|| names[usize::try_from(symbol).unwrap()].as_str());
    let price = |(symbol, date): (i64, i64)| (symbol % 13 > 0).then(|| (symbol * 31 + date * 17) as f64 % 997.0 / 8.0);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(
                rows().map(|(symbol, date)| START + date * 86_400_000_000_000 + symbol * 7_919 % 180_000 * 100_000_000),
            )
            .with_timezone("UTC"),
        ),
        Arc::new(rows().map(name).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(rows().map(price).collect::<Float64Array>()),
        Arc::new(Int64Array::from_iter_values(rows().map(|(symbol, date)| date * (1 + symbol % 40)))),
    ];
    RecordBatch::try_new(spec("bar", Period::Day).arrow(), columns).unwrap()
}

const BAR_STATEMENTS: [&str; 22] = [
    "select sym, sum(size), avg(price) from T where date = '2019-10-22' group by sym",
    "select sym, sum(size), count(*) from T where date in ('2019-10-21', '2019-10-23') group by sym",
    "select sym, first(price), last(size), last(time) from T where date = '2019-10-22' group by sym",
    "select size, first(sym), last(price), count(*) from T where date = '2019-10-22' group by size",
    "select size, last(sym) from T where date = '2019-10-22' and price > 20 group by size",
    "select size, first(price) filter (where size > 30), count(*) filter (where price is null) from T where date = '2019-10-22' group by size",
    "select date, sum(size), avg(price), min(sym), median(price) from T group by date",
    "select date, sym, max(price) from T where date > '2019-10-23' group by date, sym",
    "select substr(sym, 4) as s, count(*), sum(size) from T where date = '2019-10-24' group by s",
    "select sym, sum(1000 / size) from T where date = '2019-10-22' and 1000 / size > 30 group by sym",
    "select count(distinct sym), count(distinct size), stddev(price) from T where date = '2019-10-24'",
    "select size, count(distinct sym) from T where date = '2019-10-24' group by size",
    "select * from T where date = '2019-10-24' and size > 100",
    "select date, first(size), last(price) from T where sym >= 'S02' group by date",
    "select size % 3 as k, first(price order by time), last(sym order by time) from T group by k",
    "select last(price order by time), first(sym order by time) from T where price > 20",
    "select size, first(sym order by time), last(price order by time) from T where date = '2019-10-22' group by size",
    "select date, sym, last(price order by time) from T group by date, sym",
    "select count(*) filter (where sym = 'S00001'), sum(size) filter (where sym in ('S00002', 'S00003')) from T",
    "select date, count(*) filter (where sym = 'S00001'), last(sym order by time) from T group by date",
    "select sym, count(*) filter (where sym > 'S04990'), first(price order by time) from T group by sym",
    "select time_bucket('1 hour', time) as b, count(*) filter (where sym = 'S00004'), last(price order by time) from T group by b",
];

/// Of so many groups that rows are dealt out by their keys.
const GROUPS_STATEMENTS: [&str; 2] = [
    "select count(*), sum(n), sum(f), sum(l), max(t) from (select time, size, count(*) as n, first(size) as f, last(size order by time) as l, max(time) as t from T where date > '2019-10-20' group by time, size)",
    "select count(*), sum(n), max(f), min(l) from (select sym, date, count(*) as n, first(sym) as f, last(sym order by time) as l from T where date > '2019-10-20' and size > 5 group by date, sym)",
];

#[test]
fn rows_that_stand_apart_are_grouped_as_others() {
    rows_apart_are_grouped_as_others(&bars(5_000, 6), &BAR_STATEMENTS);
}

#[test]
fn many_groups_of_rows_that_stand_apart_are_grouped_as_others() {
    rows_apart_are_grouped_as_others(&bars(40_000, 9), &GROUPS_STATEMENTS);
}

fn rows_apart_are_grouped_as_others(rows: &RecordBatch, statements: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    for (tier, period) in [(Tier::Mapped, Period::Day), (Tier::Mapped, Period::Year), (Tier::Small, Period::All)] {
        let options = LoadOptions { tier: Some(tier), partition: Some(period), ..LoadOptions::default() };
        let mut load = database.load(&spec(&format!("bar_{period}"), period), options).unwrap();
        load.append(rows).unwrap();
        load.commit().unwrap();
    }
    let general = market::session_without_tick_plans(&database);
    for statement in statements {
        let expected = cells(&answer(&general, statement, Period::Day).batches().unwrap());
        for (threads, period) in [(1, Period::Year), (2, Period::Year), (2, Period::All), (2, Period::Day)] {
            let session = market::session(&database, threads, 8192);
            let actual = cells(&answer(&session, statement, period).batches().unwrap());
            let is_same = actual.len() == expected.len()
                && actual.iter().zip(&expected).all(|(one, other)| one.iter().zip(other).all(|(a, b)| a.matches(b)));
            assert!(is_same, "{statement} by {period}:\n{actual:?}\n{expected:?}");
        }
    }
}

#[test]
fn dates_bound_the_times_that_are_read() {
    let (_folder, database) = database(Tier::Mapped);
    let tick = market::session(&database, 2, 8192);
    for period in [Period::Month, Period::Year, Period::All] {
        for statement in [
            "select sum(size) from T where date = '2019-11-20'",
            "select sym, sum(size) from T where date between '2019-11-20' and '2019-11-21' group by sym",
            "select date, sym, max(price) from T where date >= '2019-12-30' group by date, sym",
        ] {
            let mut answer = answer(&tick, statement, period);
            assert!(answer.is_tick_plan(), "{statement}");
            answer.batches().unwrap();
            let rows = answer.stats().selection.rows;
            assert!(rows.selected * 20 < rows.total, "{statement} by {period}: {rows:?}");
        }
    }
}
