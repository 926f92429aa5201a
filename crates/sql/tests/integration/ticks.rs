//! Statements that run as tick plans give the rows that DataFusion gives for them.
//!
//! `SPLAY_TICK_STATEMENTS` sets how many statements are generated; the test run makes 2,000. With `SPLAY_TICK_REASONS` set, the
//! reasons why some of them had no tick plan are printed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array, RecordBatch};
use arrow::array::{BooleanArray, Int64Array, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use splay_capture::{Append, Capture};
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, SegmentFormat, TableSpec};

use crate::market::{self, OPENING};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Rows with ties, nulls in every column but the time, and four dates, of which one is loaded apart.
fn rows(numbers: &mut Numbers, spec: &TableSpec, count: i64, first_day: i64, days: u64) -> RecordBatch {
    let day = 86_400_000_000_000;
    let mut times: Vec<i64> = (0..count)
        .map(|_| {
            let at = first_day + i64::try_from(numbers.below(days)).unwrap();
            OPENING + at * day + i64::try_from(numbers.below(4000)).unwrap() * 5_000_000_000
        })
        .collect();
    times.sort_unstable();
    let names: Vec<String> = (0..12).map(|name| format!("S{name:02}")).collect();
    // Most rows are of few symbols.
    let symbol = |numbers: &mut Numbers| {
        let place = numbers.below(12) * numbers.below(12) / 12;
        (!numbers.happens(2)).then(|| names[usize::try_from(place).unwrap()].clone())
    };
    let symbols: Vec<Option<String>> = (0..count).map(|_| symbol(numbers)).collect();
    let venues: Vec<Option<&str>> =
        (0..count).map(|_| (!numbers.happens(3)).then(|| numbers.one(&["N", "P", "Q", "Z"]))).collect();
    let price = |numbers: &mut Numbers| 100.0 + numbers.below(1600) as f64 / 16.0;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
        Arc::new(symbols.iter().map(|symbol| symbol.as_deref()).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(venues.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new((0..count).map(|_| Some(price(numbers))).collect::<Float64Array>()),
        Arc::new((0..count).map(|_| (!numbers.happens(4)).then(|| price(numbers))).collect::<Float64Array>()),
        Arc::new((0..count).map(|_| Some(i32::try_from(numbers.below(500)).unwrap())).collect::<Int32Array>()),
        Arc::new(
            (0..count)
                .map(|_| (!numbers.happens(5)).then(|| i64::try_from(numbers.below(100_000)).unwrap() - 50_000))
                .collect::<Int64Array>(),
        ),
        Arc::new((0..count).map(|_| (!numbers.happens(5)).then(|| numbers.happens(50))).collect::<BooleanArray>()),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

fn spec(name: &str) -> TableSpec {
    TableSpec::new(
        name,
        vec![
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("venue", ColumnType::Symbol),
            ColumnSpec::new("bid", ColumnType::Float64),
            ColumnSpec::new("ask", ColumnType::Float64),
            ColumnSpec::new("size", ColumnType::Int32),
            ColumnSpec::new("seq", ColumnType::Int64),
            ColumnSpec::new("firm", ColumnType::Bool),
        ],
        "ts",
        Some("sym"),
    )
}

/// Quotes and trades in segments that follow each other, and late quotes in segments that overlap.
fn database(format: SegmentFormat) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    for (spec, rows) in all_rows() {
        let mut load = database.load(&spec, LoadOptions { format, ..LoadOptions::default() }).unwrap();
        load.append(&rows).unwrap();
        load.commit().unwrap();
    }
    (folder, database)
}

/// The same rows as captured: symbols spread over segments on disk, over rows in memory, and late rows that belong before those.
fn captured() -> (tempfile::TempDir, Database, Capture) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let capture = market::capture(&database);
    let mut numbers = Numbers(11);
    for (spec, rows) in all_rows() {
        let mut start = 0;
        while start < rows.num_rows() {
            let size = usize::try_from(1 + numbers.below(700)).unwrap().min(rows.num_rows() - start);
            let append = Append { spec: Some(spec.clone()), ..Append::new(&spec.name, rows.slice(start, size)) };
            capture.append(append).unwrap();
            start += size;
            // The later half of a load stays in memory until the next.
            if numbers.happens(20) && start < rows.num_rows() / 2 {
                capture.write_down(Some(&spec.name)).unwrap();
            }
            // A look puts what came in into a layer of its own.
            drop(database.table(&spec.name).unwrap().snapshot().unwrap());
        }
    }
    (folder, database, capture)
}

/// All tables' rows, load by load.
fn all_rows() -> Vec<(TableSpec, RecordBatch)> {
    let mut numbers = Numbers(7);
    let loads = [
        ("quote", 30_000, 0, 3),
        ("quote", 500, 5, 1),
        ("quote", 9_000, 6, 1),
        ("trade", 1_500, 0, 8),
        ("late", 8_000, 1, 3),
        ("late", 400, 0, 3),
        ("late", 7_000, 2, 5),
    ];
    let rows = |(table, count, first_day, days)| {
        let spec = spec(table);
        let rows = rows(&mut numbers, &spec, count, first_day, days);
        (spec, rows)
    };
    loads.into_iter().map(rows).collect()
}

fn instant(numbers: &mut Numbers) -> String {
    let second = numbers.below(9 * 86_400);
    let (day, rest) = (7 + second / 86_400, second % 86_400);
    format!("2019-10-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

fn condition(numbers: &mut Numbers) -> String {
    let op = numbers.one(&["=", "<", "<=", ">", ">=", "<>"]);
    match numbers.below(14) {
        0..=2 => format!("sym = 'S{:02}'", numbers.below(14)),
        3 => format!("sym in ('S{:02}', 'S{:02}', 'none')", numbers.below(13), numbers.below(13)),
        4 => format!("date {op} '2019-10-{:02}'", 6 + numbers.below(9)),
        5 => format!("ts {op} '{}'", instant(numbers)),
        6 => format!("ts between '{}' and '{}'", instant(numbers), instant(numbers)),
        7 => format!("bid {op} {}", 90 + numbers.below(120)),
        8 => format!("ask {op} {}.5", 90 + numbers.below(120)),
        9 => format!("size {op} {}", numbers.below(520)),
        10 => format!("venue {} '{}'", numbers.one(&["=", "<>"]), numbers.one(&["N", "Q", "X"])),
        11 => format!("({} or {})", simple(numbers), simple(numbers)),
        12 => format!("not ({})", simple(numbers)),
        _ => numbers
            .one(&[
                "ask is null",
                "sym is not null",
                "venue is null",
                "(venue is null or venue < 'P')",
                "firm",
                "not firm",
                "bid < ask",
                "seq % 3 = 1",
            ])
            .to_owned(),
    }
}

fn simple(numbers: &mut Numbers) -> String {
    match numbers.below(4) {
        0 => format!("bid > {}", 90 + numbers.below(120)),
        1 => format!("sym = 'S{:02}'", numbers.below(12)),
        2 => format!("venue {} ('N', '{}')", numbers.one(&["in", "not in"]), numbers.one(&["P", "Q", "Y"])),
        _ => format!("size between {} and {}", numbers.below(300), numbers.below(520)),
    }
}

fn filter(numbers: &mut Numbers) -> String {
    let count = numbers.below(4);
    let conditions: Vec<String> = (0..count).map(|_| condition(numbers)).collect();
    if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) }
}

fn key(numbers: &mut Numbers) -> String {
    let width = numbers.one(&["1 minute", "7 minutes", "1 hour", "1 day", "1 week", "1 month", "5 hours"]);
    match numbers.below(15) {
        0..=2 => "sym".to_owned(),
        3 => "date".to_owned(),
        4 => "venue".to_owned(),
        5 => format!("time_bucket(interval '{width}', ts)"),
        6 => format!("xbar(interval '{width}', ts)"),
        7 => format!("time_bucket(interval '{width}', ts, 'America/New_York')"),
        8 => "date_trunc('hour', ts)".to_owned(),
        9 => "firm".to_owned(),
        10 => format!(
            "case when ts < '{}' then 'early' when ts {} '{}' then 'middle' when '{}' = ts then null else 'late' end",
            instant(numbers),
            numbers.one(&["<", "<=", "<>", ">", ">="]),
            instant(numbers),
            instant(numbers)
        ),
        11 => format!("ts between '{}' and '{}'", instant(numbers), instant(numbers)),
        12 => format!(
            "case when venue is null then {} when venue in ('N', '{}') then 2 end",
            numbers.one(&["1", "2", "null"]),
            numbers.one(&["P", "Y"])
        ),
        13 => numbers
            .one(&[
                "case venue when 'N' then 'x' when 'Q' then 'x' when 'P' then null else 'y' end",
                "venue = 'N'",
                "venue is null",
                "case when venue = 'Z' then venue else 'N' end",
                "coalesce(venue, 'none')",
            ])
            .to_owned(),
        _ => numbers
            .one(&["size / 100", "date_bin(interval '90 minutes', ts)", "case when bid > 150 then 1 else 0 end"])
            .to_owned(),
    }
}

fn value(numbers: &mut Numbers) -> &'static str {
    numbers.one(&[
        "bid",
        "ask",
        "size",
        "seq",
        "cast(size as double)",
        "cast(seq as double)",
        "(bid + ask) / 2",
        "ask - bid",
        "size * 2",
        "abs(seq)",
        "bid * size",
    ])
}

fn aggregate(numbers: &mut Numbers) -> String {
    let x = value(numbers);
    let call = match numbers.below(15) {
        0 => "count(*)".to_owned(),
        1 => format!("count({x})"),
        2 | 3 => format!("sum({x})"),
        4 | 5 => format!("avg({x})"),
        6 => format!("min({x})"),
        7 => format!("max({x})"),
        8 => format!("first({x}{})", numbers.one(&["", " order by ts"])),
        9 | 10 => format!("last({x}{})", numbers.one(&["", " order by ts"])),
        11 => format!("vwap({x}, size)"),
        12 => format!("wsum(size, {x})"),
        13 => format!("{}({x})", numbers.one(&["stddev", "dev", "var", "var_pop", "med"])),
        _ => format!("{}(ts)", numbers.one(&["min", "max", "last", "first"])),
    };
    if numbers.happens(12) { format!("{call} filter (where {})", simple(numbers)) } else { call }
}

/// Two sides of a join: trades or some quotes, as `t`, and quotes or late ones, as `q`.
fn sides(numbers: &mut Numbers) -> (String, String) {
    let left = match numbers.below(4) {
        0 => "trade t".to_owned(),
        1 => format!("(select * from quote where seq % 40 = {}) t", numbers.below(40)),
        _ => format!("(select * from trade{}) t", filter(numbers)),
    };
    let right = match numbers.below(4) {
        0 => "quote q".to_owned(),
        1 => "late q".to_owned(),
        2 => format!("(select * from {}{}) q", numbers.one(&["quote", "late"]), filter(numbers)),
        _ => format!(
            "(select sym, venue, ts, firm, size, seq, coalesce(bid, 0) as bid, ask - bid as ask from quote{}) q",
            filter(numbers)
        ),
    };
    (left, right)
}

/// A join of trades, or of some quotes, with the row of another table that stood.
fn asof(numbers: &mut Numbers) -> String {
    let (left, right) = sides(numbers);
    let tolerance =
        if numbers.happens(30) { numbers.one(&[", tolerance 5s", ", tolerance 1h", ", tolerance 0s"]) } else { "" };
    let condition = match numbers.below(8) {
        0..=3 => "t.ts >= q.ts".to_owned(),
        4 => "t.ts > q.ts".to_owned(),
        5 => "t.ts <= q.ts".to_owned(),
        6 => "t.ts < q.ts".to_owned(),
        _ => "nearest t.ts, q.ts".to_owned(),
    };
    let mut keys = vec!["t.sym = q.sym"];
    for key in ["t.venue = q.venue", "t.firm = q.firm", "t.size = q.size", "t.seq = q.seq", "q.bid > 120"] {
        if numbers.happens(15) {
            keys.push(key);
        }
    }
    let kept = numbers.one(&["asof join", "asof inner join"]);
    let from = format!("{left} {kept} {right} match_condition ({condition}{tolerance}) on {}", keys.join(" and "));
    let filter = match numbers.below(5) {
        0 => format!(" where t.sym = 'S{:02}'", numbers.below(13)),
        1 => format!(" where t.size > {} and q.bid > 110", numbers.below(500)),
        2 => format!(" where t.date = '2019-10-{:02}'", 7 + numbers.below(8)),
        _ => String::new(),
    };
    match numbers.below(4) {
        0 => format!(
            "select t.sym, count(*), avg(q.bid), sum(t.bid - q.ask), max(q.ts) from {from}{filter} group by t.sym"
        ),
        1 => format!("select t.*, q.ts as qts, q.bid as qbid, q.seq as qseq, q.venue as qvenue from {from}{filter}"),
        2 => format!(
            "select t.ts, t.sym, t.seq, t.bid - q.bid as slip, late.bid as later from {from} asof join late \
             match_condition (t.ts <= late.ts) on t.sym = late.sym{filter}"
        ),
        _ => {
            format!("select t.ts, t.sym, t.size, t.seq, q.seq as qseq, (q.bid + q.ask) / 2 as mid from {from}{filter}")
        }
    }
}

/// Aggregates over the rows of another table around each of some rows.
fn windows(numbers: &mut Numbers) -> String {
    let (left, right) = sides(numbers);
    let (before, after) = (
        numbers.one(&["0 seconds", "7 seconds", "5 minutes", "2 hours", "-1 minute"]),
        numbers.one(&["0 seconds", "-3 seconds", "2 minutes"]),
    );
    let bounds = match numbers.below(4) {
        0 => format!("q.ts between t.ts - interval '{before}' and t.ts"),
        1 => format!("q.ts > t.ts - interval '{before}' and q.ts < t.ts + interval '{after}'"),
        2 => format!(
            "q.ts >= case when t.size > 250 then t.ts - interval '{before}' end and q.ts <= t.ts + interval '{after}'"
        ),
        _ => format!("q.ts between t.ts - interval '{before}' and t.ts + interval '{after}'"),
    };
    let mut key = String::new();
    for further in [" and t.venue = q.venue", " and t.firm = q.firm", " and t.size / 100 = q.size"] {
        if numbers.happens(12) {
            key.push_str(further);
        }
    }
    let filter = match numbers.below(4) {
        0 => format!(" where t.sym = 'S{:02}'", numbers.below(13)),
        1 => format!(" where t.size > {} and t.venue <> 'Q'", numbers.below(500)),
        _ => String::new(),
    };
    let mut calls = String::new();
    for number in 0..=numbers.below(3) {
        let x = numbers.one(&["q.bid", "q.ask", "q.size", "q.bid - q.ask", "cast(q.seq as double)", "q.ts"]);
        let call = match numbers.below(10) {
            0 => "count(*)".to_owned(),
            1 => format!("count({x})"),
            2 | 3 => format!("{}({x})", numbers.one(&["first", "last"])),
            4 => format!("last({x} order by q.ts)"),
            5 => format!("{}({x})", numbers.one(&["min", "max"])),
            6 => "vwap(q.bid, q.size)".to_owned(),
            7 => format!("{}(q.bid)", numbers.one(&["stddev", "med", "var_pop"])),
            8 => numbers.one(&["sum(q.size)", "sum(q.bid - t.bid)", "count(distinct q.venue)"]).to_owned(),
            _ => numbers.one(&["avg(q.bid)", "sum(q.bid)", "avg(q.ask - q.bid)"]).to_owned(),
        };
        let kept = match numbers.below(8) {
            0 => " filter (where q.size > 200)",
            1 => " filter (where q.venue = 'N')",
            _ => "",
        };
        write!(calls, ", {call}{kept} as a{number}").unwrap();
    }
    let prevailing = numbers.one(&["", " include prevailing", " exclude prevailing"]);
    format!(
        "select t.sym, t.ts, t.seq, t.bid * 2 as twice{calls} from {left} window join {right} on t.sym = q.sym{key} and {bounds}{prevailing}{filter}"
    )
}

/// What stood at several offsets from each of some rows.
fn horizon(numbers: &mut Numbers) -> String {
    let offsets =
        numbers.one(&["range from -10s to 20s step 10s", "list (-1h, 0s, 5s)", "range from 0s to 0s step 1s"]);
    let from = format!(
        "(select * from trade{}) t horizon join {} q on t.sym = q.sym and t.ts >= q.ts {offsets} as h",
        filter(numbers),
        numbers.one(&["quote", "late"])
    );
    match numbers.below(3) {
        0 => format!(
            "select h.offset, count(*), count(q.bid), avg(q.bid - t.bid), max(q.ts) from {from} group by h.offset"
        ),
        1 => format!(
            "select t.sym, h.offset as away, sum(q.size), min(t.bid - q.ask) from {from} where t.size > 100 group by 1, 2"
        ),
        _ => format!("select t.sym, t.ts, t.seq, h.offset, q.seq as qseq, q.bid from {from} where t.sym < 'S04'"),
    }
}

/// Unions, joins to a list of values, and the first rows of groups.
fn combined(numbers: &mut Numbers) -> String {
    let (one, other) = (filter(numbers), filter(numbers));
    match numbers.below(7) {
        0 => format!(
            "select sym, kind, count(*), sum(v), max(ts) from (select sym, 'bid' as kind, bid as v, ts from quote{one} union all \
             select sym, 'ask', ask, ts from trade{other}) group by sym, kind"
        ),
        1 => format!(
            "select v.family, sum(size), count(*), avg(bid) from quote {} join (values ('N', 'x'), ('P', 'y'), ('Q', 'x')) as v \
             (code, family) on quote.venue = v.code{one} group by v.family",
            numbers.one(&["inner", "left"])
        ),
        2 => format!(
            "select sym, ts, seq, v.family, v.fee * size from (select * from trade{one}) t {} join (values ('N', 'x', 0.5), ('Z', \
             'y', 2)) as v (code, family, fee) on v.code = t.venue{}",
            numbers.one(&["inner", "left"]),
            numbers.one(&["", " where v.family = 'x'", " where t.bid > 120 and v.fee < 1"]),
        ),
        3 => {
            let key = numbers.one(&["sym", "sym", "venue", "size / 50"]);
            // DataFusion fails where a key is there twice.
            let mut rest = vec!["seq", "size", "sym", "bid desc", "venue", "ask", "firm"];
            rest.retain(|column| *column != key);
            format!(
                "select distinct on ({key}) {key} as k, sym, ts, seq, bid + 1 as more, size, firm from quote{one} order by \
                 {key}{}, {}, {}",
                numbers.one(&["", " desc", " nulls first"]),
                numbers.one(&["ts", "ts desc", "size % 9, ts"]),
                rest.join(", "),
            )
        }
        _ => format!(
            "select * from (select sym, venue, ts, seq, bid, size, row_number() over (partition by {} order by {}, ts, seq, size, \
             sym, bid, venue, ask, firm) as place from quote{one}) where place {}",
            numbers.one(&["venue", "sym", "sym", "sym, firm", "size / 50"]),
            numbers.one(&["bid desc", "ask", "venue desc nulls last", "seq % 7", "ts", "ts desc"]),
            numbers.one(&["= 1", "<= 3", "< 2", "= 2", "> 400", "< 2.5"]),
        ),
    }
}

/// Functions over rows in the order that they have.
fn in_order(numbers: &mut Numbers, rows: &str) -> String {
    let mut calls = String::new();
    for number in 0..=numbers.below(3) {
        let frame = match numbers.below(4) {
            0 => "rows between unbounded preceding and current row".to_owned(),
            _ => format!("rows between {} preceding and current row", numbers.below(30)),
        };
        let x = numbers.one(&["bid", "ask", "bid - ask", "cast(seq as double)"]);
        let (call, frame) = match numbers.below(7) {
            0 => (format!("lag({}) over", numbers.one(&["bid", "seq, 2", "ask, 1, 0.5"])), String::new()),
            1 => (format!("deltas({x}) over"), String::new()),
            2 => (format!("count({}) over", numbers.one(&["*", "ask", "seq"])), frame),
            3 => (format!("{}(seq) over", numbers.one(&["sum", "min", "max"])), frame),
            _ => (format!("{}({x}) over", numbers.one(&["avg", "sum", "min", "max"])), frame),
        };
        write!(calls, ", {call} (partition by sym order by ts {frame}) as a{number}").unwrap();
    }
    format!("select sym, ts, seq, bid{calls} from {rows}")
}

/// A statement whose rows don't depend on an order that it doesn't ask for.
fn statement(numbers: &mut Numbers) -> String {
    match numbers.below(12) {
        0 | 1 => return asof(numbers),
        2 => return combined(numbers),
        3 => return windows(numbers),
        4 => return horizon(numbers),
        _ => {}
    }
    let filter = filter(numbers);
    match numbers.below(12) {
        10 => {
            // DataFusion leaves open how rows of one instant follow each other.
            let table = numbers.one(&["quote", "late", "trade"]);
            let rows = format!(
                "(select sym, ts, max(seq) as seq, max(bid) as bid, min(ask) as ask from {table}{filter} group by sym, ts)"
            );
            in_order(numbers, &rows)
        }
        11 => format!(
            "select sym, venue, ts, seq, bid, ask, size from quote{filter} qualify {}",
            numbers.one(&[
                "size = max(size) over (partition by sym)",
                "bid = min(bid) over (partition by sym)",
                "ask > avg(ask) over (partition by date)",
                "seq = max(seq) over (partition by sym, venue)",
                "count(*) over (partition by sym, ts) > 1",
                "seq = max(seq) over ()",
            ])
        ),
        0 => format!("select ts, sym, bid, size, (bid + ask) / 2 as mid from quote{filter}"),
        1 => format!("select distinct {}, {} from quote{filter}", key(numbers), numbers.one(&["size", "seq"])),
        2 => {
            // Ordered by all columns, so that a cut leaves no choice.
            let limit = numbers.below(40);
            format!(
                "select ts, sym, seq, size, bid, ask, venue from quote{filter} order by {} limit {limit} offset {}",
                numbers.one(&[
                    "ts, sym, seq, size, bid, ask, venue",
                    "ts desc, sym, seq, size, bid, ask, venue",
                    "sym nulls first, ts, seq, size, bid, ask, venue",
                ]),
                numbers.below(5)
            )
        }
        3 => format!(
            "with bars as (select sym, time_bucket(interval '5 minutes', ts) as bar, last(bid) as close from quote{filter} \
             group by 1, 2) select sym, bar, ln(close) - ln(lag(close) over (partition by sym order by bar)) as ret from bars"
        ),
        4 => format!(
            "select sym, time_bucket(interval '1 hour', bar) as hour, stddev(ret), count(ret) from (select sym, bar, close - \
             prev(close) over (partition by sym order by bar) as ret from (select sym, time_bucket(interval '5 minutes', ts) \
             as bar, last(bid) as close from quote{filter} group by sym, bar)) where ret is not null group by 1, 2"
        ),
        5 => format!(
            "select sym, day, sum(total) over (partition by sym order by day rows between {} and current row), max(total) over \
             (partition by sym) from (select sym, date as day, sum(bid) as total from quote{filter} group by sym, date)",
            numbers.one(&["unbounded preceding", "2 preceding", "0 preceding"])
        ),
        6 => format!(
            "select sym, ts, bid, avg(bid) over (partition by sym order by ts, seq, bid, size, ask, venue, firm rows between 4 \
             preceding and current row), count(*) over (partition by venue) from quote{filter} and size > 450",
            filter = if filter.is_empty() { " where bid > 0".to_owned() } else { filter }
        ),
        _ => {
            let keys: Vec<String> = (0..numbers.below(4)).map(|_| key(numbers)).collect();
            let mut list = String::new();
            for (number, key) in keys.iter().enumerate() {
                write!(list, "{key} as k{number}, ").unwrap();
            }
            let calls: Vec<String> = (0..=numbers.below(4)).map(|_| aggregate(numbers)).collect();
            for (number, call) in calls.iter().enumerate() {
                write!(list, "{call} as a{number}, ").unwrap();
            }
            let list = list.trim_end_matches(", ");
            let mut text = format!("select {list} from quote{filter}");
            if !keys.is_empty() {
                let positions: Vec<String> = (1..=keys.len()).map(|position| position.to_string()).collect();
                write!(text, " group by {}", positions.join(", ")).unwrap();
                if numbers.happens(15) {
                    text.push_str(" having count(*) > 3");
                }
            }
            text
        }
    }
}

/// Rows as cells, in an order of their own.
fn cells(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let formatters: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cell = |(column, formatter): (&ArrayRef, &ArrayFormatter<'_>)| match column.data_type() {
                DataType::Float64 if column.is_valid(row) => {
                    Cell::Float(column.as_primitive::<Float64Type>().value(row))
                }
                _ => Cell::Text(formatter.value(row).to_string()),
            };
            rows.push(batch.columns().iter().zip(&formatters).map(cell).collect::<Vec<_>>());
        }
    }
    let text = |row: &Vec<Cell>| {
        let texts = row.iter().filter_map(|cell| if let Cell::Text(text) = cell { Some(text.clone()) } else { None });
        let floats =
            row.iter().filter_map(|cell| if let Cell::Float(f) = cell { Some(format!("{f:.5e}")) } else { None });
        texts.chain(floats).collect::<Vec<_>>()
    };
    rows.sort_by_cached_key(text);
    rows
}

#[derive(Debug, Clone)]
enum Cell {
    Text(String),
    Float(f64),
}

impl Cell {
    /// Equal, floats but for the last digits of sums taken in another order.
    fn matches(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Text(one), Cell::Text(other)) => one == other,
            (Cell::Float(one), Cell::Float(other)) => {
                (one.is_nan() && other.is_nan())
                    || one == other
                    || (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
                    // Differences of nearly equal sums.
                    || (one - other).abs() <= 1e-9
            }
            _ => false,
        }
    }
}

struct Both {
    tick: Session,
    other: Session,
}

impl Both {
    /// Runs a statement both ways; whether a tick plan ran it.
    fn compare(&self, text: &str) -> Result<bool, String> {
        let mut answer = match (self.tick.sql(text, Parameters::None), self.other.sql(text, Parameters::None)) {
            (Ok(answer), _) => answer,
            // A statement that can't be planned is refused in the same words.
            (Err(error), Err(other)) if error.to_string() == other.to_string() => return Ok(false),
            (Err(error), _) => return Err(format!("{text}: {error}")),
        };
        let is_tick = answer.is_tick_plan();
        let ours = answer.batches().map_err(|error| format!("{text}: {error}"))?;
        let mut reference = self.other.sql(text, Parameters::None).map_err(|error| format!("{text}: {error}"))?;
        let theirs = reference.batches().map_err(|error| format!("{text}: {error}"))?;
        let types = |answer: &splay_sql::Answer| {
            let schema = answer.schema();
            let fields = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone()));
            fields.collect::<Vec<_>>()
        };
        if types(&answer) != types(&reference) {
            return Err(format!("{text}\ncolumns {:?}\nand     {:?}", types(&answer), types(&reference)));
        }
        let (ours, theirs) = (cells(&ours), cells(&theirs));
        if ours.len() != theirs.len() {
            return Err(format!("{text}\n{} rows and {}", ours.len(), theirs.len()));
        }
        for (one, other) in ours.iter().zip(&theirs) {
            if !one.iter().zip(other).all(|(one, other)| one.matches(other)) {
                return Err(format!("{text}\n{one:?}\n{other:?}"));
            }
        }
        Ok(is_tick)
    }
}

impl Both {
    /// Why a statement has no tick plan.
    fn reason(&self, text: &str) -> Option<String> {
        let mut answer = self.tick.sql(&format!("explain {text}"), Parameters::None).ok()?;
        let rows = cells(&answer.batches().ok()?);
        let row = rows.iter().find(|row| matches!(&row[0], Cell::Text(kind) if kind == "tick_plan"))?;
        Some(format!("{:?}", row[1]))
    }
}

fn both(database: &Database, threads: usize) -> Both {
    let settings = SessionSettings { threads, ..SessionSettings::default() };
    let tick = Session::new(database.clone(), settings.clone()).unwrap();
    Both { tick, other: without_ticks(database, threads) }
}

fn without_ticks(database: &Database, threads: usize) -> Session {
    let settings = SessionSettings { threads, tick_plans: false, ..SessionSettings::default() };
    Session::new(database.clone(), settings).unwrap()
}

fn count() -> u64 {
    std::env::var("SPLAY_TICK_STATEMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

fn compare_all(format: SegmentFormat, threads: usize, seed: u64, count: u64) {
    let (_folder, database) = database(format);
    let ticks = compare_with(&both(&database, threads), seed, count);
    // Otherwise nothing would have been compared.
    assert!(ticks * 10 > count * 7, "only {ticks} of {count} statements ran as tick plans");
}

/// Compares statements, and says how many of them ran as tick plans.
fn compare_with(both: &Both, seed: u64, count: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let (mut ticks, mut errors) = (0, Vec::new());
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..count {
        let text = statement(&mut numbers);
        match both.compare(&text) {
            Ok(true) => ticks += 1,
            Ok(false) => *reasons.entry(both.reason(&text).unwrap_or_default()).or_default() += 1,
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{} of {count}:\n{}", errors.len(), errors[..errors.len().min(8)].join("\n\n"));
    if std::env::var_os("SPLAY_TICK_REASONS").is_some() {
        eprintln!("{ticks} of {count} statements ran as tick plans: {reasons:#?}");
    }
    ticks
}

#[test]
fn generated_statements_over_captured_rows_give_those_of_loaded_ones() {
    let (_folder, loaded) = database(SegmentFormat::Arrow);
    let (_other, live, capture) = captured();
    let (mut spread, mut cut) = (0, 0);
    for table in ["quote", "trade", "late"] {
        let snapshot = live.table(table).unwrap().snapshot().unwrap();
        spread += snapshot.partitions().iter().filter(|partition| !partition.is_in_sequence()).count();
        cut += snapshot.partitions().iter().flat_map(|p| p.segments.iter()).filter(|segment| segment.is_cut()).count();
    }
    assert!(spread > 5 && cut > 1, "{spread} partitions are spread, {cut} segments are cut");
    let tick = both(&live, 2).tick;
    let ticks = compare_with(&Both { tick, other: without_ticks(&loaded, 2) }, 3, count() / 2);
    assert!(ticks * 10 > count() / 2 * 7, "only {ticks} statements ran as tick plans");
    let tick = without_ticks(&live, 2);
    compare_with(&Both { tick, other: without_ticks(&loaded, 2) }, 4, count() / 4);
    capture.close().unwrap();
}

#[test]
fn generated_statements_give_the_same_rows_both_ways() {
    compare_all(SegmentFormat::Arrow, 2, 1, count() * 3 / 4);
}

#[test]
fn generated_statements_give_the_same_rows_over_parquet() {
    compare_all(SegmentFormat::Parquet, 1, 2, count() / 4);
}

#[test]
fn shapes_are_bound_anew_and_parameters_too() {
    let (_folder, database) = database(SegmentFormat::Arrow);
    let both = both(&database, 2);
    for symbol in ["S00", "S05", "none", "S11"] {
        for date in ["2019-10-07", "2019-10-13", "2031-01-01"] {
            let text = format!("select sum(bid), count(*) from quote where sym = '{symbol}' and date = date '{date}'");
            assert_eq!(both.compare(&text), Ok(true));
        }
    }
    let text = "select count(*) as n from quote where sym = $1 and bid > $2";
    let mut counts = Vec::new();
    for bid in [100.0, 150.0, 199.0] {
        let parameters = Parameters::Positional(vec!["S00".into(), bid.into()]);
        let mut of_tick = both.tick.sql(text, parameters.clone()).unwrap();
        assert!(of_tick.is_tick_plan());
        let mut of_other = both.other.sql(text, parameters).unwrap();
        let (one, other) = (cells(&of_tick.batches().unwrap()), cells(&of_other.batches().unwrap()));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        counts.push(format!("{one:?}"));
    }
    counts.dedup();
    assert_eq!(counts.len(), 3);
}

/// The ends of time are found by the ends of each symbol's rows, with ties of an instant among them.
#[test]
fn first_and_last_rows_by_time_are_those_of_a_sort() {
    let (_folder, database) = database(SegmentFormat::Arrow);
    let (_captured_folder, captured, _capture) = captured();
    let filters = [
        "",
        "where sym = 'S01'",
        "where sym in ('S00', 'S07', 'none')",
        "where ts <= '2019-10-09T15:00:00Z'",
        "where sym = 'none'",
    ];
    for database in [database, captured] {
        let both = both(&database, 1);
        for table in ["quote", "trade", "late"] {
            for filter in filters {
                for order in ["ts desc", "ts"] {
                    for limit in ["limit 1", "limit 7", "limit 20 offset 3", "limit 2500"] {
                        // All columns, so that the order is told.
                        let order = format!("{order}, sym, venue, seq, bid, ask, size, firm");
                        let text = format!("select * from {table} {filter} order by {order} {limit}");
                        assert_eq!(both.compare(&text), Ok(true), "{text}");
                    }
                }
            }
        }
    }
}

/// The latest rows of each symbol, and its first, are found by the ends of its rows, with ties of an instant among them.
#[test]
fn latest_rows_of_symbols_are_found_by_the_ends_of_their_rows() {
    let (_folder, loaded) = database(SegmentFormat::Arrow);
    let (_captured_folder, captured, _capture) = captured();
    let rest = "seq, bid, ask, size, venue, firm";
    let mut statements = Vec::new();
    for filter in
        ["", "where sym in ('S01', 'S05', 'none')", "where ts <= '2019-10-09T15:00:00Z'", "where date = '2019-10-08'"]
    {
        for order in ["ts desc", "ts"] {
            statements.push(format!("select distinct on (sym) * from quote {filter} order by sym, {order}, {rest}"));
            for rows in ["= 1", "<= 3", "< 6"] {
                let number = format!("row_number() over (partition by sym order by {order}, {rest})");
                statements.push(format!("select *, {number} as place from quote {filter} qualify {number} {rows}"));
            }
        }
    }
    for database in [loaded, captured] {
        let both = both(&database, 2);
        for text in &statements {
            assert_eq!(both.compare(text), Ok(true), "{text}");
            let mut answer = both.tick.sql(text, Parameters::None).unwrap();
            let returned: usize = answer.batches().unwrap().iter().map(RecordBatch::num_rows).sum();
            let scanned = answer.stats().rows_scanned;
            // Of each of twelve symbols, of a null one, and of each date and piece in memory a few.
            assert!(returned > 0 && scanned < 3_000, "{text}: {scanned} rows");
        }
        // What isn't told by the ends is sorted.
        for text in [
            "select distinct on (venue) * from quote order by venue, ts desc, sym, seq, bid, ask, size, firm"
                .to_owned(),
            format!("select distinct on (sym) * from quote where bid > 150 order by sym, ts desc, {rest}"),
            "select distinct on (sym, venue) * from quote order by sym, venue desc, ts desc, seq, bid, ask, size, firm"
                .to_owned(),
        ] {
            assert_eq!(both.compare(&text), Ok(true), "{text}");
        }
    }
}

/// Rows of one instant are in the order of arrival, which is that of the loads and of the appends.
#[test]
fn windows_over_ties_go_by_arrival() {
    let (_folder, loaded) = database(SegmentFormat::Arrow);
    let (_parquet_folder, parquet) = database(SegmentFormat::Parquet);
    let (_captured_folder, captured, _capture) = captured();
    let (loaded, captured) = (both(&loaded, 2).tick, both(&captured, 2).tick);
    let parquet = both(&parquet, 1).tick;
    let mut numbers = Numbers(5);
    for _ in 0..100 {
        let rows = format!("{}{}", numbers.one(&["quote", "late", "trade"]), filter(&mut numbers));
        let text = in_order(&mut numbers, &rows);
        let ask = |session: &Session| {
            let mut answer = session.sql(&text, Parameters::None).unwrap();
            assert!(answer.is_tick_plan(), "{text}");
            cells(&answer.batches().unwrap())
        };
        let expected = ask(&loaded);
        for other in [ask(&captured), ask(&parquet)] {
            assert_eq!(expected.len(), other.len(), "{text}");
            for (one, other) in expected.iter().zip(&other) {
                assert!(one.iter().zip(other).all(|(one, other)| one.matches(other)), "{text}\n{one:?}\n{other:?}");
            }
        }
    }
    // A row's predecessor in arrival, where rows of a symbol and instant are numbered by it.
    let text =
        "select ts, sym, seq, lag(seq) over (partition by sym order by ts) as before from trade where sym is not null";
    let mut answer = loaded.sql(text, Parameters::None).unwrap();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for batch in answer.batches().unwrap() {
        let text = |column: usize, row: usize| {
            let options = FormatOptions::default().with_null("NULL");
            ArrayFormatter::try_new(batch.column(column), &options).unwrap().value(row).to_string()
        };
        for row in 0..batch.num_rows() {
            let known = last.insert(text(1, row), text(2, row)).unwrap_or_else(|| "NULL".to_owned());
            assert_eq!(text(3, row), known);
        }
    }
    assert!(last.len() > 8);
}

/// Parquet's row groups have dictionaries of their own, of which rows of one symbol may read several.
#[test]
fn joins_by_codes_find_those_of_every_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let spec = spec("long");
    let options = LoadOptions { format: SegmentFormat::Parquet, ..LoadOptions::default() };
    let mut load = database.load(&spec, options).unwrap();
    // More than the 2^20 rows of a row group, all of one symbol.
    let rows = rows(&mut Numbers(5), &spec, 1_200_000, 0, 1);
    let mut columns = rows.columns().to_vec();
    let one = std::iter::repeat_n("S00", rows.num_rows()).collect::<DictionaryArray<Int32Type>>();
    columns[1] = Arc::new(one);
    load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    load.commit().unwrap();
    let both = both(&database, 2);
    let left = "(select * from long where seq % 4001 = 1) t";
    for text in [
        format!(
            "select t.sym, t.venue, t.ts, t.seq, count(q.ts), max(q.bid) from {left} window join long q on t.sym = q.sym and \
             t.venue = q.venue and q.ts between t.ts and t.ts"
        ),
        format!(
            "select t.sym, t.venue, count(q.ts), max(q.ts) from {left} asof join long q match_condition (t.ts > q.ts) on \
             t.sym = q.sym and t.venue = q.venue group by t.sym, t.venue"
        ),
    ] {
        assert_eq!(both.compare(&text), Ok(true), "{text}");
    }
}

/// Of long stretches summaries give all but the ends, which are read by themselves: nothing else of the column is touched.
#[test]
fn what_summaries_leave_over_is_read_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let spec = spec("long");
    for day in [0, 1] {
        let mut load = database.load(&spec, LoadOptions::default()).unwrap();
        load.append(&rows(&mut Numbers(5), &spec, 60_000, day, 1)).unwrap();
        load.commit().unwrap();
    }
    for keys in ["", "sym", "date", "sym, date"] {
        for values in [
            "max(bid)",
            "min(ask), max(ask), count(ask)",
            "sum(seq), avg(bid), max(ts)",
            "sum(bid), max(bid), first(ask)",
        ] {
            for filter in ["", "where sym = 'S00'", "where sym in ('S01', 'S00')"] {
                let group = if keys.is_empty() { String::new() } else { format!("group by {keys}") };
                let comma = if keys.is_empty() { "" } else { ", " };
                let text = format!("select {keys}{comma}{values} from long {filter} {group}");
                // The table is opened anew, for what was read once is at hand.
                let database = Database::open(folder.path().join("db")).unwrap();
                assert_eq!(both(&database, 2).compare(&text), Ok(true), "{text}");
            }
        }
    }
}

#[test]
fn a_commit_is_seen_by_a_known_shape() {
    let (_folder, database) = database(SegmentFormat::Arrow);
    let both = both(&database, 1);
    let text = "select count(*) from quote where sym = 'S01'";
    assert_eq!(both.compare(text), Ok(true));
    let spec = database.table("quote").unwrap().snapshot().unwrap().spec().clone();
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&rows(&mut Numbers(9), &spec, 1000, 20, 1)).unwrap();
    load.commit().unwrap();
    assert_eq!(both.compare(text), Ok(true));
    let mut wider = spec.clone();
    wider.columns.push(ColumnSpec::new("note", ColumnType::Text));
    let load = database.load(&wider, LoadOptions::default()).unwrap();
    load.commit().unwrap();
    assert_eq!(both.compare(text), Ok(true));
}

#[test]
fn kept_answers_are_those_of_the_present_state() {
    let (_folder, database) = database(SegmentFormat::Arrow);
    let settings = SessionSettings { result_cache_bytes: 1 << 20, threads: 1, ..SessionSettings::default() };
    let session = Session::new(database.clone(), settings).unwrap();
    let ask = |value: i64| {
        let text = format!("select count(*) from trade where size < {value}");
        let mut answer = session.sql(&text, Parameters::None).unwrap();
        assert!(answer.is_tick_plan());
        format!("{:?}", cells(&answer.batches().unwrap()))
    };
    let first = ask(250);
    assert_eq!(ask(250), first);
    assert_ne!(ask(100), first);
    let spec = spec("trade");
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&rows(&mut Numbers(11), &spec, 1000, 20, 1)).unwrap();
    load.commit().unwrap();
    assert_ne!(ask(250), first);
}

#[test]
fn literals_in_names_of_columns_are_kept_apart() {
    let (_folder, database) = database(SegmentFormat::Arrow);
    let both = both(&database, 1);
    for size in [3, 100, 400] {
        assert_eq!(both.compare(&format!("select count(*) filter (where size > {size}) from trade")), Ok(true));
    }
}
