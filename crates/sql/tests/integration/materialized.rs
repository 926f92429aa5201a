//! Materialized views give what their queries give over all rows, whatever happened to the table between refreshes: histories of loads, late and
//! live rows, replaced and deleted ones, undone commits, compactions and partitions of another length.

mod retention;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use arrow::array::{
    ArrayRef, AsArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_sql::{IntoFiles, Parameters, Session, Stop};
use splay_store::storage::fault::FaultStorage;
use splay_store::storage::{LockMode, Storage};
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, LiveRows, LoadOptions, Period, Replace, Retention, Segment,
    TableSnapshot, TableSpec, chain,
};

use crate::both::{Cell, cells};

/// 2019-11-01T00:00:00Z: clocks go back in New York and Chicago on the 3rd.
const START: i64 = 1_572_566_400_000_000_000;

const DAY: i64 = 86_400_000_000_000;

/// Queries, all of which are kept.
const QUERIES: [&str; 16] = [
    "select time_bucket('1 minute', time) as bar, sym, first(price) as open, max(price) as high, min(price) as low, last(price) as close, \
     sum(size) as volume, count(*) as trades from trade group by bar, sym",
    "select sym, sum(price * size) / sum(size) as vwap, time_bucket('1 day', time, 'America/New_York') as day from trade t group by 1, 3",
    "select date_trunc('hour', t.time) as hour, avg(price) as mean, stddev(price) as spread from public.trade as t where size > 100 group by 1",
    "select time_bucket('1 week', time) as week, sum(size) as volume from trade group by week",
    "select time_bucket('7 minutes', time) as bar, sym, last(size) as size from trade group by bar, sym",
    "select time_bucket('36 hours', time) as bar, max(time) as latest, count(distinct sym) as symbols from trade group by bar",
    "select time, sym, price * size as turnover from trade where size >= 500",
    "select distinct date_trunc('day', time) as day, sym from trade",
    "select time_bucket('1 hour', bar) as hour, sym, avg(close) as mean from (select time_bucket('5 minutes', time) as bar, sym, \
     last(price) as close from trade group by 1, 2) as bars group by 1, 2 having count(*) > 1",
    "select xbar(interval '6 hours', time) as bar, sym, cast(count(*) as int) as trades, median(price) as middle from trade group by 1, 2",
    "select date_trunc('month', time) as month, count(distinct sym) as symbols, min(size) as least from trade group by 1",
    "select t.time, t.sym, t.price - q.bid as paid from trade t asof left join quote q on t.sym = q.sym and t.time >= q.time",
    "select time_bucket('1h', t.time) as hour, avg(q.bid) as bid, count(*) as trades from trade t asof join quote q on t.sym = q.sym and \
     t.time > q.time tolerance 20h group by 1",
    "select t.time, q.bid from trade t asof left join quote q on t.sym = q.sym and t.time <= q.time",
    "select t.time, t.sym, n.name from trade t left join firm n on t.sym = n.sym where n.name is null or n.name <> 'second'",
    "select sym, count(price) as priced, time_bucket('1 day', time) as day from trade group by sym, time_bucket('1 day', time)",
];

/// A view that answers questions about its table, and such questions: the table is written as `{t}`.
const BARS: &str = "select time_bucket('1 minute', time) as bar, sym, first(price) as open, max(price) as high, \
    last(price order by time) as close, sum(size) as volume, count(*) as trades, count(price) as priced, sum(price) as prices, \
    sum(size) filter (where price > 100) as dear from trade group by bar, sym";

const QUESTIONS: [&str; 17] = [
    "select sym, sum(size) from {t} group by sym",
    "select count(*), sum(size), max(price) from {t}",
    "select count(*), sum(size) from {t} where sym = 'nobody'",
    "select time_bucket('1 hour', time) as bar, sym, first(price) as open, max(price) as high, last(price order by time) as close, \
     sum(size) as volume from {t} where sym in ('A', 'C') group by bar, sym order by bar, sym",
    "select time_bucket('1 minute', time) as bar, sym, avg(price) as mean, count(*) as trades from {t} group by 1, 2 having count(*) > 1",
    "select date_trunc('month', t.time) as bar, sum(t.size) / count(*) as mean from {t} as t group by bar",
    "select time_bucket('1 day', time, 'America/New_York') as day, sum(size) from {t} group by day",
    "select date, sym, sum(size) as volume from {t} group by date, sym order by date, sym",
    "select sum(size) from {t} where date >= '2019-11-03' and date < '2019-11-06'",
    "select sym, avg(price) from {t} where time >= '2019-11-02 10:00' and time < '2019-11-07' group by sym",
    "select sym, max(price) from {t} where time between '2019-11-02' and '2019-11-07 23:59:59.999999999' group by sym order by 2",
    "select distinct sym from {t}",
    "select sym, sum(size) filter (where price > 100) as dear from {t} group by sym",
    "select sym, volume, rank() over (order by volume desc, sym) as place from (select sym, sum(size) as volume from {t} group by sym) as v",
    "select sum(size) as volume, sym as bar from {t} group by all order by volume",
    "with v as (select time_bucket('1 week', time) as bar, sum(size) as volume from {t} group by bar) select max(volume) from v",
    "select sym, sum(size) from {t} group by sym union all select sym, count(*) from {t} group by sym",
];

/// Questions that it has no answer to.
const OTHERS: [&str; 12] = [
    "select sum(size) from {t} where price > 10",
    "select sym, sum(size) from {t} where time >= '2019-11-02 10:00:30' group by sym",
    "select sym, sum(size) from {t} where time <= '2019-11-02 10:00' group by sym",
    "select time_bucket('90 seconds', time) as bar, sum(size) from {t} group by bar",
    "select median(price) from {t}",
    "select count(distinct size) from {t}",
    "select time_bucket('1 hour', time) as bar, first(price) from {t} group by bar",
    "select sym, sum(size), min(price) from {t} group by sym",
    "select sum(size * 2) from {t}",
    "select sym, sum(size) over (partition by sym) as all from {t}",
    "select date_part('minute', time) as minute, sum(size) from {t} group by 1",
    "select sym, size from {t} order by time, sym, size, price limit 5",
];

#[derive(Debug, Default)]
struct Live(Mutex<(u64, Vec<RecordBatch>)>);

impl LiveRows for Live {
    fn over(&self, stored: &dyn Fn() -> splay_store::Result<TableSnapshot>) -> splay_store::Result<TableSnapshot> {
        let (number, rows) = self.0.lock().unwrap().clone();
        let snapshot = stored()?;
        let spec = snapshot.spec().clone();
        let mut dates = spec.partitions()?;
        let mut partitions = std::collections::BTreeMap::new();
        for (place, batch) in rows.iter().enumerate() {
            let times = batch.column(0).as_any().downcast_ref::<TimestampNanosecondArray>().unwrap();
            let all: Vec<i32> = times.values().iter().map(|time| dates.of(*time)).collect();
            for date in all.iter().copied().collect::<std::collections::BTreeSet<i32>>() {
                let mask = all.iter().map(|other| Some(*other == date)).collect();
                let part = arrow::compute::filter_record_batch(batch, &mask)?;
                let name = format!("live {place} {date}");
                let before: Vec<Arc<Segment>> = match partitions.remove(&date) {
                    Some(segments) => segments,
                    None => {
                        let stored = snapshot.partitions().iter().find(|partition| partition.date == date);
                        stored.map_or_else(Vec::new, |partition| partition.segments.to_vec())
                    }
                };
                let Some(segment) = Segment::in_memory(&spec, date, name.clone(), &[part])? else { continue };
                partitions.insert(date, chain(&spec, &before, Arc::new(segment), || name)?);
            }
        }
        Ok(if rows.is_empty() { snapshot } else { snapshot.with_partitions(number, partitions.into_iter().collect()) })
    }
}

struct History {
    _folder: tempfile::TempDir,
    session: Session,
    live: Arc<Live>,
    random: ChaCha8Rng,
    views: Vec<(String, &'static str)>,
    steps: Vec<String>,
}

fn spec(random: &mut ChaCha8Rng) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
        ColumnSpec::new("size", ColumnType::Int64),
    ];
    let symbol = random.random_bool(0.8).then_some("sym");
    // Havana puts its clocks back at midnight of the 3rd.
    let zone = ["UTC", "America/New_York", "Asia/Kathmandu", "America/Havana"][random.random_range(0..4)];
    let spec = TableSpec::new("trade", columns, "time", symbol).with_time_zone(zone);
    let spec = spec.with_partition([Period::Day, Period::Day, Period::Day, Period::Month][random.random_range(0..4)]);
    if random.random_bool(0.2) { spec.with_day_start("17:00".parse().unwrap()) } else { spec }
}

fn quotes(random: &mut ChaCha8Rng) -> String {
    let row = |_| {
        let at = START + random.random_range(0..13 * 24) * (DAY / 24) + random.random_range(0..3000) * 1_000_000_000;
        let at = chrono::DateTime::from_timestamp_nanos(at).format("%Y-%m-%d %H:%M:%S");
        let (sym, bid) = (["A", "B", "C"][random.random_range(0..3)], random.random_range(0..999));
        format!("('{at}', '{sym}', {bid})")
    };
    format!("insert into quote values {}", (0..12).map(row).collect::<Vec<_>>().join(", "))
}

fn rows(spec: &TableSpec, random: &mut ChaCha8Rng, count: usize) -> RecordBatch {
    let names = ["A", "B", "C", "D"];
    let first = random.random_range(0..12) * DAY;
    let span = [DAY / 50, DAY, 5 * DAY][random.random_range(0..3)];
    let times: Vec<i64> =
        (0..count).map(|_| START + first + random.random_range(0..span) / 1_000_000_000 * 1_000_000_000).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
        Arc::new(
            (0..count)
                .map(|_| random.random_bool(0.95).then(|| names[random.random_range(0..4)]))
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(
            (0..count)
                .map(|_| random.random_bool(0.9).then(|| f64::from(random.random_range(0..4000)) / 16.0))
                .collect::<Float64Array>(),
        ),
        Arc::new(Int64Array::from_iter_values((0..count).map(|_| random.random_range(1..1000)))),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

impl History {
    fn begin(seed: u64) -> History {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path().join("db")).unwrap();
        let session = Session::new(database, splay_sql::SessionSettings { threads: 2, ..Default::default() }).unwrap();
        let spec = spec(&mut random);
        let mut load = session
            .database()
            .load(&spec, LoadOptions { partition: Some(spec.partition), ..LoadOptions::default() })
            .unwrap();
        load.append(&rows(&spec, &mut random, 60)).unwrap();
        load.commit().unwrap();
        let live = Arc::new(Live::default());
        session.database().table("trade").unwrap().attach(Some(Arc::clone(&live) as Arc<dyn LiveRows>));
        let mut history = History { _folder: folder, session, live, random, views: Vec::new(), steps: Vec::new() };
        history.change("create table quote (time timestamp, sym symbol, bid double precision) partition by day");
        let quotes = quotes(&mut history.random);
        history.change(&quotes);
        history.change("create table firm (sym symbol primary key, name text)");
        history.change("insert into firm values ('A', 'first'), ('B', 'second')");
        for number in 0..3 {
            let query = QUERIES[history.random.random_range(0..QUERIES.len())];
            let end = if history.random.random_bool(0.3) { " with no data" } else { "" };
            history.change(&format!("create materialized view v{number} as {query}{end}"));
            history.views.push((format!("v{number}"), query));
        }
        history.change(&format!("create materialized view bars with (query_rewrite = true) as {BARS}"));
        history
    }

    fn change(&mut self, text: &str) {
        self.steps.push(text.to_owned());
        let insert = IntoFiles(self.session.database());
        let done =
            self.session.change(text, Parameters::None, Stop::NEVER, &insert).and_then(|mut answer| answer.batches());
        done.unwrap_or_else(|error| panic!("{error} after {:#?}", self.steps));
    }

    fn load(&mut self, options: LoadOptions) {
        let table = self.session.database().table("trade").unwrap();
        let spec = table.stored().unwrap().spec().clone();
        let count = self.random.random_range(1..80);
        let mut load = self.session.database().load(&spec, options).unwrap();
        load.append(&rows(&spec, &mut self.random, count)).unwrap();
        load.commit().unwrap();
    }

    fn step(&mut self) {
        let table = self.session.database().table("trade").unwrap();
        let spec = table.stored().unwrap().spec().clone();
        let has_live = !self.live.0.lock().unwrap().1.is_empty();
        match self.random.random_range(0..15) {
            12 => {
                let quotes = quotes(&mut self.random);
                return self.change(&quotes);
            }
            13 => return self.change("delete from quote where sym = 'B' and bid < 300"),
            14 => return self.change("update firm set name = case when name = 'first' then 'second' else 'first' end"),
            0 | 1 => self.load(LoadOptions::default()),
            2 if !has_live => self.load(LoadOptions { replace: Replace::Dates, ..LoadOptions::default() }),
            3 if !has_live => {
                let from = self.random.random_range(0..14);
                let day = chrono::DateTime::from_timestamp_nanos(START + from * DAY).format("%Y-%m-%d");
                let condition = ["sym = 'B'", "size < 300", "price is null", "true"][self.random.random_range(0..4)];
                self.change(&format!("delete from trade where date = '{day}' and {condition}"));
            }
            4 if !has_live => {
                let commits = table.commits(4).unwrap();
                if let Some(commit) = commits.iter().find(|commit| commit.cannot_undo.is_none()) {
                    table.undo(commit.commit).unwrap();
                }
            }
            5 => drop(table.compact(&CompactOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap()),
            6 | 7 => {
                let count = self.random.random_range(1..30);
                let batch = rows(&spec, &mut self.random, count);
                let mut live = self.live.0.lock().unwrap();
                live.0 += 1;
                live.1.push(batch);
            }
            8 => {
                // What is in memory goes to the files.
                let (_, rows) = std::mem::take(&mut *self.live.0.lock().unwrap());
                if !rows.is_empty() {
                    let mut load = self.session.database().load(&spec, LoadOptions::default()).unwrap();
                    rows.iter().for_each(|batch| load.append(batch).unwrap());
                    load.commit().unwrap();
                }
            }
            9 if !has_live && self.random.random_bool(0.3) => {
                let period = [Period::Day, Period::Month][self.random.random_range(0..2)];
                table.set_partition(period, LoadOptions::default()).unwrap();
            }
            _ => {
                let number = self.random.random_range(0..self.views.len());
                self.change(&format!("refresh materialized view v{number}"));
                return;
            }
        }
        self.steps.push(format!("a change: now {} rows", table.snapshot().unwrap().rows()));
    }

    fn check(&self, seed: u64) {
        for (view, query) in &self.views {
            let read = |text: &str| {
                let batches = self.session.sql(text, Parameters::None).and_then(|mut answer| answer.batches());
                cells(&batches.unwrap_or_else(|error| panic!("seed {seed}: {error}: {text}\nafter {:#?}", self.steps)))
            };
            let (view_rows, query_rows) = (read(&format!("select * from {view}")), read(query));
            let same = view_rows.len() == query_rows.len()
                && view_rows.iter().zip(&query_rows).all(|(view_row, query_row)| are_same(view_row, query_row));
            assert!(same, "seed {seed}: {query}\nkept {view_rows:#?}\ngiven {query_rows:#?}\nafter {:#?}", self.steps);
        }
        self.check_questions(seed);
    }

    /// Questions get the answers that the rows give, whoever gives them.
    fn check_questions(&self, seed: u64) {
        for question in QUESTIONS.iter().chain(&OTHERS) {
            let read = |text: &str| {
                let batches = self.session.sql(text, Parameters::None).and_then(|mut answer| answer.batches());
                cells(&batches.unwrap_or_else(|error| panic!("seed {seed}: {error}: {text}\nafter {:#?}", self.steps)))
            };
            let (answer_rows, of_rows) = (read(&over_table(question)), read(&over_rows(question)));
            let same =
                answer_rows.len() == of_rows.len() && answer_rows.iter().zip(&of_rows).all(|(a, b)| are_same(a, b));
            assert!(
                same,
                "seed {seed}: {question}\ngiven {answer_rows:#?}\nrows {of_rows:#?}\nafter {:#?}",
                self.steps
            );
        }
    }
}

/// A question of the table.
fn over_table(question: &str) -> String {
    question.replace("{t}", "trade")
}

/// The same of a query over the table, which no view answers.
fn over_rows(question: &str) -> String {
    let rows = "(select * from trade)";
    question.replace("{t} as t", &format!("{rows} as t")).replace("{t}", &format!("{rows} as trade"))
}

fn are_same(actual: &[Cell], expected: &[Cell]) -> bool {
    actual.len() == expected.len() && actual.iter().zip(expected).all(|(actual, expected)| actual.matches(expected))
}

#[test]
fn views_give_what_their_queries_give_over_all_rows() {
    let histories: u64 = std::env::var("SPLAY_VIEW_HISTORIES").map_or(24, |count| count.parse().unwrap());
    for seed in 0..histories {
        let mut history = History::begin(seed);
        history.check(seed);
        for _ in 0..10 {
            history.step();
            history.check(seed);
        }
        // At rest all is kept, and refreshing once more finds nothing to do.
        if history.live.0.lock().unwrap().1.is_empty() {
            for number in 0..3 {
                history.change(&format!("refresh materialized view v{number}"));
                assert_eq!(
                    history.session.refresh_due(&format!("v{number}"), Stop::NEVER).unwrap(),
                    (0, 0),
                    "seed {seed}"
                );
            }
            history.check(seed);
        }
    }
}

/// A session of two views over the rows of a table's twelve days.
fn session() -> (tempfile::TempDir, Session) {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let session = Session::new(database, splay_sql::SessionSettings::default()).unwrap();
    let mut load = None;
    for day in 0..12 {
        let columns = vec![
            ColumnSpec::new("time", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("price", ColumnType::Float64),
            ColumnSpec::new("size", ColumnType::Int64),
        ];
        let spec = TableSpec::new("trade", columns, "time", Some("sym")).with_partition(Period::Day);
        let options = LoadOptions { partition: Some(Period::Day), ..LoadOptions::default() };
        let load = load.get_or_insert_with(|| session.database().load(&spec, options).unwrap());
        let batch = rows(&spec, &mut random, 50);
        let times = (0..50).map(|row| START + day * DAY + row * 60_000_000_000);
        let mut columns = batch.columns().to_vec();
        columns[0] = Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"));
        load.append(&RecordBatch::try_new(batch.schema(), columns).unwrap()).unwrap();
    }
    load.unwrap().commit().unwrap();
    (folder, session)
}

fn change(session: &Session, text: &str) {
    session.change(text, Parameters::None, Stop::NEVER, &IntoFiles(session.database())).unwrap();
}

fn one(session: &Session, text: &str) -> String {
    let batches = session.sql(text, Parameters::None).unwrap().batches().unwrap();
    arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap()
}

/// Which questions a view answers `EXPLAIN` tells, in any spelling, and as long as it is told to.
#[test]
fn views_answer_questions_about_their_tables() {
    let (_folder, session) = session();
    change(&session, &format!("create materialized view bars as {BARS}"));
    let is_answered = |question: &str| {
        let batches =
            session.sql(&format!("explain {}", over_table(question)), Parameters::None).unwrap().batches().unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        text.contains("bars.rows")
    };
    for question in QUESTIONS {
        assert!(!is_answered(question), "{question}");
    }
    change(&session, "alter materialized view bars set (query_rewrite = on)");
    let spelt = [
        "SELECT Sym, SUM(Size) AS Total FROM Trade GROUP BY SYM",
        "select sym, sum(size) from splay.public.trade group by 1",
        "-- all\nselect (sym), (sum((size))) from trade as x group by (x.sym);",
        "select time_bucket('60s', time) as b, sum(size) from trade group by b",
    ];
    for question in QUESTIONS.iter().chain(&spelt) {
        assert!(is_answered(question), "{question}");
    }
    let others =
        ["select sum(size) from trade at commit 1", "with trade as (select 1 as size) select sum(size) from trade"];
    for question in OTHERS.iter().chain(&others) {
        assert!(!is_answered(question), "{question}");
    }
    let names = |text: &str| {
        let schema = session.sql(text, Parameters::None).unwrap().schema();
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    for question in QUESTIONS {
        assert_eq!(names(&over_table(question)), names(&over_rows(question)), "{question}");
    }
    change(&session, "alter materialized view bars set (query_rewrite = off)");
    assert!(!is_answered(QUESTIONS[0]));
}

/// A session over an empty table `t` of times and numbers, with a view of its sums by a bucket.
fn summed(table: &str, bucket: &str) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let session = Session::new(database, splay_sql::SessionSettings::default()).unwrap();
    change(&session, &format!("create table t (time timestamp, n bigint) with ({table})"));
    change(&session, &format!("create materialized view v as select {bucket} as bar, sum(n) as s from t group by 1"));
    (folder, session)
}

fn sums(session: &Session) -> String {
    one(session, "select array_agg(s order by bar) from v")
}

/// A part that reaches further because the date behind it has gone isn't the one that was stored.
#[test]
fn a_part_that_becomes_longer_is_computed_again() {
    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time, 'America/New_York')");
    change(
        &session,
        "insert into t values ('2024-03-01 02:00', 1), ('2024-03-01 12:00', 2), ('2024-03-02 02:00', 4), ('2024-03-02 12:00', 8)",
    );
    change(&session, "refresh materialized view v");
    assert_eq!(sums(&session), "[1, 6, 8]");
    change(&session, "delete from t where date = '2024-03-02'");
    for _ in 0..2 {
        assert_eq!(sums(&session), "[1, 2]");
        change(&session, "refresh materialized view v");
    }
    change(&session, "insert into t values ('2024-03-02 03:00', 16)");
    assert_eq!(sums(&session), "[1, 18]");

    // The date behind it was live when it was stored, and was never stored itself.
    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time, 'America/New_York')");
    change(&session, "insert into t values ('2024-03-01 02:00', 1), ('2024-03-01 12:00', 2)");
    let (table, live) = (session.database().table("t").unwrap(), Arc::new(Live::default()));
    let spec = table.stored().unwrap().spec().clone();
    let time = TimestampNanosecondArray::from(vec![1_709_380_800_000_000_000]).with_timezone("UTC");
    let columns: Vec<ArrayRef> = vec![Arc::new(time), Arc::new(Int64Array::from(vec![4]))];
    *live.0.lock().unwrap() = (1, vec![RecordBatch::try_new(spec.arrow(), columns).unwrap()]);
    table.attach(Some(Arc::clone(&live) as Arc<dyn LiveRows>));
    change(&session, "refresh materialized view v");
    assert_eq!(sums(&session), "[1, 2, 4]");
    *live.0.lock().unwrap() = (2, Vec::new());
    for _ in 0..2 {
        assert_eq!(sums(&session), "[1, 2]");
        change(&session, "refresh materialized view v");
    }
}

/// A refresh computes what has changed and nothing else.
#[test]
fn a_refresh_reads_the_dates_that_changed() {
    let (_folder, session) = session();
    change(
        &session,
        "create materialized view bars as select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1",
    );
    assert_eq!(session.refresh_due("bars", Stop::NEVER).unwrap(), (0, 0));
    change(&session, "insert into trade values ('2019-11-05T00:10:00Z', 'A', 1, 10)");
    assert_eq!(session.refresh_due("bars", Stop::NEVER).unwrap(), (1, 51));
    let refreshed = session.refresh("bars", Stop::NEVER).unwrap();
    assert_eq!((refreshed.read, refreshed.written), (51, 1));
    assert_eq!(session.refresh("bars", Stop::NEVER).unwrap().commit, None);
}

fn open(storage: &FaultStorage) -> Option<Session> {
    let database = Database::open_on(Arc::new(storage.clone())).ok()?;
    Some(Session::new(database, splay_sql::SessionSettings { threads: 1, ..Default::default() }).unwrap())
}

/// After a power cut in any step a view is there as before or as after, and gives what its query does; what comes next works.
#[test]
fn a_power_cut_leaves_views_that_are_right() {
    const QUERY: &str = "select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1";
    let base = FaultStorage::new();
    Database::create_on(Arc::new(base.clone()), &splay_store::Settings::default()).unwrap();
    let session = open(&base).unwrap();
    change(&session, "create table trade (time timestamp, size bigint) partition by day");
    change(
        &session,
        "insert into trade values ('2024-03-01 10:00:00', 1), ('2024-03-02 10:00:00', 2), ('2024-03-03 10:00:00', 4)",
    );
    drop(session);
    let create = format!("create materialized view bars as {QUERY}");
    let with_view = base.copy();
    let session = open(&with_view).unwrap();
    change(&session, &create);
    change(&session, "insert into trade values ('2024-03-01 11:00:00', 8), ('2024-03-03 10:00:00', 16)");
    change(&session, "delete from trade where date = '2024-03-02'");
    drop(session);
    let steps = [
        (&base, create.as_str()),
        (&with_view, "refresh materialized view bars"),
        (&with_view, "drop materialized view bars"),
    ];
    let mut images = 0;
    for (before, statement) in steps {
        let whole = before.copy();
        let begun = whole.operations();
        change(&open(&whole).unwrap(), statement);
        let total = whole.operations() - begun;
        for n in 0..=total {
            let storage = before.copy();
            storage.stop_after(Some(n));
            if let Some(session) = open(&storage) {
                let _ = session.change(statement, Parameters::None, Stop::NEVER, &IntoFiles(session.database()));
            }
            for seed in 0..4 {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let image = storage.crash(&mut |bound| random.random_range(0..bound));
                let session = open(&image).unwrap();
                let what = format!("{statement}: power cut after {n} of {total} operations, seed {seed}");
                let query_rows = cells(&session.sql(QUERY, Parameters::None).unwrap().batches().unwrap());
                let is_there = session.database().view("bars").unwrap().is_some();
                for _ in 0..2 {
                    if is_there {
                        let view_rows =
                            session.sql("select * from bars", Parameters::None).and_then(|mut answer| answer.batches());
                        let view_rows = cells(&view_rows.unwrap_or_else(|error| panic!("{what}: {error}")));
                        let same = view_rows.len() == query_rows.len()
                            && view_rows
                                .iter()
                                .zip(&query_rows)
                                .all(|(view_row, query_row)| are_same(view_row, query_row));
                        assert!(same, "{what}: {view_rows:?} instead of {query_rows:?}");
                    }
                    change(&session, "drop materialized view if exists bars");
                    change(&session, &create);
                    assert_eq!(session.refresh_due("bars", Stop::NEVER).unwrap(), (0, 0), "{what}");
                }
                images += 1;
            }
        }
    }
    assert!(images > 400, "{images}");
}

/// What a session keeps of a view that was read, before and after a refresh, keeps no file from being removed.
#[test]
fn a_view_that_was_read_holds_no_files() {
    let storage = FaultStorage::new();
    Database::create_on(Arc::new(storage.clone()), &splay_store::Settings::default()).unwrap();
    let session = open(&storage).unwrap();
    let nobody_reads = || storage.try_lock("readers.lock", LockMode::Exclusive).unwrap().is_some();
    change(&session, "create table trade (time timestamp, size bigint)");
    change(&session, "insert into trade values ('2024-03-01 10:00:00', 1)");
    change(
        &session,
        "create materialized view bars as select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1",
    );
    assert_eq!(one(&session, "select sum(volume) from bars"), "1");
    assert!(nobody_reads());
    change(&session, "insert into trade values ('2024-03-01 11:00:00', 2)");
    assert_eq!(one(&session, "select sum(volume) from bars"), "3");
    session.refresh("bars", Stop::NEVER).unwrap();
    assert_eq!(one(&session, "select sum(volume) from bars"), "3");
    assert!(nobody_reads());
}

/// Retention, tiers and `query_rewrite` of a view change by one commit: after a power cut all of them are as before, or all are changed.
#[test]
fn a_power_cut_leaves_all_options_of_a_view_changed_or_none() {
    const CHANGES: [&str; 2] = [
        "alter materialized view bars set (query_rewrite = true, retain_days = 400, tier = 'small')",
        "alter materialized view bars reset (tier, query_rewrite, retain_days)",
    ];
    let base = FaultStorage::new();
    Database::create_on(Arc::new(base.clone()), &splay_store::Settings::default()).unwrap();
    let session = open(&base).unwrap();
    change(&session, "create table trade (time timestamp, size bigint)");
    change(&session, "insert into trade values ('2024-03-01 10:00:00', 1), ('2024-03-02 10:00:00', 2)");
    change(
        &session,
        "create materialized view bars as select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1",
    );
    drop(session);
    // Whether the view answers a statement over its table, and the text with its options.
    let state = |session: &Session| {
        let question = "explain select sum(size) from trade";
        let plan = session.sql(question, Parameters::None).unwrap().batches().unwrap();
        let plan = arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
        (plan.contains("bars.rows"), session.create_statement("bars").unwrap())
    };
    let mut before = base;
    for statement in CHANGES {
        let whole = before.copy();
        let begun = whole.operations();
        let session = open(&whole).unwrap();
        let old = state(&session);
        change(&session, statement);
        let new = state(&session);
        drop(session);
        assert!(old.0 != new.0 && old.1 != new.1, "{old:?} {new:?}");
        let total = whole.operations() - begun;
        for n in 0..=total {
            let storage = before.copy();
            storage.stop_after(Some(n));
            let is_done = open(&storage).is_some_and(|session| {
                session.change(statement, Parameters::None, Stop::NEVER, &IntoFiles(session.database())).is_ok()
            });
            for seed in 0..8 {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let image = storage.crash(&mut |bound| random.random_range(0..bound));
                let session = open(&image).unwrap();
                let found = state(&session);
                let what = format!("{statement}: power cut after {n} of {total} operations, seed {seed}: {found:?}");
                assert!(found == new || !is_done && found == old, "{what}");
                change(&session, statement);
                assert_eq!(state(&session), new, "{what}");
            }
        }
        before = whole;
    }
}
