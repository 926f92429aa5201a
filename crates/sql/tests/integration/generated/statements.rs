//! Statements over the tables of this folder.

use std::fmt::Write;

use super::Numbers;

fn instant(numbers: &mut Numbers) -> String {
    let second = numbers.below(9 * 86_400);
    let (day, rest) = (7 + second / 86_400, second % 86_400);
    format!("2019-10-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

fn condition(numbers: &mut Numbers) -> String {
    let op = numbers.one(&["=", "<", "<=", ">", ">=", "<>"]);
    match numbers.below(21) {
        19 => query(numbers),
        20 => "extract(hour from ts) > 14".to_owned(),
        14 => pattern(numbers),
        15 => list(numbers),
        16 | 17 => computed(numbers),
        18 => format!("({} or {})", pattern(numbers), pattern(numbers)),
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

/// Conditions on texts, most of them on the symbol.
fn pattern(numbers: &mut Numbers) -> String {
    let column = numbers.one(&["sym", "sym", "venue"]);
    let like = numbers.one(&["like", "not like", "ilike", "not ilike"]);
    match numbers.below(12) {
        0..=2 => format!("{column} {like} '{}'", numbers.one(&["S0%", "%1", "s_1", "_", "n", "%", "", "S\\_1", "S%1"])),
        3 => format!(
            "{column} {} '{}'",
            numbers.one(&["~", "!~", "~*", "!~*"]),
            numbers.one(&["^S0", "[nN]", "1$", "s1|q", ""])
        ),
        4 => format!("{column} similar to '{}'", numbers.one(&["S(01|02)", "S0%", "N|Q"])),
        5 => format!("{column} is {} 'S01'", numbers.one(&["distinct from", "not distinct from"])),
        6 => format!("{column} {op} 'S0{}'", numbers.below(10), op = numbers.one(&["<>", ">", "<="])),
        7 => format!("length({column}) {} 1", numbers.one(&["=", ">"])),
        8 => format!("upper({column}) in ('S01', 'N', 'S0{}')", numbers.below(9)),
        9 => format!(
            "try_cast(right({column}, 2) as int) {} {}",
            numbers.one(&["<", ">=", "is distinct from"]),
            numbers.below(12)
        ),
        10 => format!("{column} || 'x' = '{}x'", numbers.one(&["S01", "N"])),
        _ => format!("coalesce({column}, 'S05') {like} '%5'"),
    }
}

/// Conditions with a query that is read first.
fn query(numbers: &mut Numbers) -> String {
    let (few, table) = (numbers.below(60), numbers.one(&["trade", "late"]));
    let not = numbers.one(&["", "not "]);
    match numbers.below(5) {
        0 => format!(
            "size {} (select {}(size) from {table} where size > {few})",
            numbers.one(&["<", ">="]),
            numbers.one(&["min", "max"])
        ),
        1 => format!("seq {not}in (select seq from {table} where size < {few})"),
        2 => format!("venue {not}in (select venue from {table} where size = {few})"),
        3 => format!("bid > (select max(bid) - {few} from {table})"),
        _ => {
            format!("sym {not}in (select sym from {table} where sym is not null group by sym having count(*) > {few})")
        }
    }
}

/// Lists of any length, some with a null.
fn list(numbers: &mut Numbers) -> String {
    let count = numbers.one(&["1", "3", "5", "40", "200"]).parse::<u64>().unwrap();
    let null = numbers.one(&["", "", "", ", null"]);
    let op = numbers.one(&["in", "in", "not in"]);
    let (column, mut items): (&str, Vec<String>) = match numbers.below(7) {
        0 => ("sym", (0..count).map(|_| format!("'S{:02}'", numbers.below(20))).collect()),
        1 => ("venue", (0..count).map(|_| format!("'{}'", numbers.one(&["N", "P", "Q", "x", "n"]))).collect()),
        2 => ("size", (0..count).map(|_| numbers.below(500).to_string()).collect()),
        3 => {
            ("seq", (0..count).map(|_| (i64::try_from(numbers.below(90_000)).unwrap() - 45_000).to_string()).collect())
        }
        4 => ("bid", (0..count).map(|_| (100.0 + numbers.below(1600) as f64 / 16.0).to_string()).collect()),
        5 => ("ts", (0..count).map(|_| format!("'{}'", instant(numbers))).collect()),
        _ => ("size * 2", (0..count).map(|_| format!("{}.0", numbers.below(1000))).collect()),
    };
    if numbers.happens(10) {
        items.push("null".to_owned());
    }
    format!("{column} {op} ({}{null})", items.join(", "))
}

/// Conditions that the engine leaves to DataFusion's expressions.
fn computed(numbers: &mut Numbers) -> String {
    let number = numbers.below(200);
    match numbers.below(14) {
        0 => format!("size & 3 = {}", numbers.below(4)),
        1 => format!("(seq | 7) > {number}"),
        2 => format!("size << 1 < {number}"),
        3 => format!("seq is distinct from {number}"),
        4 => format!("ask is {} bid", numbers.one(&["distinct from", "not distinct from"])),
        5 => format!(
            "(ask > {number}) is {}",
            numbers.one(&["true", "not true", "false", "not false", "unknown", "not unknown"])
        ),
        6 => format!("case when size % 7 > 0 then 700 / (size % 7) else {number} end > {number}"),
        7 => format!("nullif(size, {number}) is not null"),
        8 => format!("nvl(ask, {number}) > {number}"),
        9 => format!("greatest(bid, ask, {number}) > least(ask, 150)"),
        10 => format!("nvl2(ask, size, {number}) < 250"),
        11 => format!("coalesce(ask, 1000 / (size + 1)) > {number}"),
        12 => "coalesce(venue, sym) like 'S0%'".to_owned(),
        _ => format!("signum(seq) * abs(seq) > {number} and not (firm is true)"),
    }
}

fn simple(numbers: &mut Numbers) -> String {
    match numbers.below(6) {
        4 => pattern(numbers),
        5 => list(numbers),
        0 => format!("bid > {}", 90 + numbers.below(120)),
        1 => format!("sym = 'S{:02}'", numbers.below(12)),
        2 => format!("venue {} ('N', '{}')", numbers.one(&["in", "not in"]), numbers.one(&["P", "Q", "Y"])),
        _ => format!("size between {} and {}", numbers.below(300), numbers.below(520)),
    }
}

pub(crate) fn filter(numbers: &mut Numbers) -> String {
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
                "substr(sym, 1, 2)",
                "upper(venue) || sym",
                "sym like 'S0%'",
                "right(sym, 1)",
                "length(venue)",
                "case when size % 3 > 0 then 9 / (size % 3) end",
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
    let call = match numbers.below(20) {
        15 | 16 => {
            format!("count(distinct {})", numbers.one(&[x, "sym", "venue", "firm", "ts", "date", "upper(venue)"]))
        }
        17 => numbers
            .one(&[
                "bool_and(firm)",
                "bool_or(firm)",
                "bit_and(seq)",
                "bit_or(size)",
                "bit_xor(seq)",
                "min(venue)",
                "max(sym)",
            ])
            .to_owned(),
        18 => numbers
            .one(&[
                "median(size)",
                "median(ask)",
                "percentile_cont(0.3) within group (order by bid)",
                "avg(distinct size)",
            ])
            .to_owned(),
        19 => numbers
            .one(&[
                "sum(distinct size)",
                "covar_samp(bid, ask)",
                "approx_distinct(seq)",
                "stddev(size)",
                "var_pop(seq)",
            ])
            .to_owned(),
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
    let join = numbers.one(&["asof join", "asof inner join"]);
    let from = format!("{left} {join} {right} match_condition ({condition}{tolerance}) on {}", keys.join(" and "));
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
        let filter_clause = match numbers.below(8) {
            0 => " filter (where q.size > 200)",
            1 => " filter (where q.venue = 'N')",
            _ => "",
        };
        write!(calls, ", {call}{filter_clause} as a{number}").unwrap();
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
    let join = numbers.one(&["join", "left join"]);
    match numbers.below(12) {
        10 => format!(
            "select t.sym, t.ts, t.seq, q.seq as other, q.bid - t.bid as d from (select * from trade{one}) t {join} (select * from \
             quote{other}) q on t.size = q.size and q.sym = t.sym"
        ),
        11 => format!(
            "select q.sym, count(*), sum(t.size), max(q.ts) from (select * from quote{one}) q join (select * from trade{other}) t on \
             t.venue = q.venue and q.size = t.size and {} group by q.sym",
            numbers.one(&["q.ts <= t.ts", "q.bid < t.bid or t.firm", "q.seq % 7 = t.seq % 5", "q.sym > t.sym"])
        ),
        7 => format!(
            "select q.sym, r.n, count(*), sum(q.size), max(r.high) from (select * from quote{one}) q {join} (select sym, count(*) as n, \
             max(bid) as high from trade{other} group by sym) r on q.sym = r.sym{} group by q.sym, r.n",
            numbers.one(&["", " where r.n > 20", " where q.sym like '%1' or r.high > 180"])
        ),
        8 => format!(
            "select t.sym, t.ts, t.seq, v.fee from (select * from trade{one}) t {join} (values (1, 0.5), (250, 0.25), (7, 2)) as v (size, \
             fee) on t.size = v.size"
        ),
        9 => format!(
            "select r.kind, count(*), count(distinct q.sym), avg(q.bid) from (select * from quote{one}) q {join} reference r on \
             {}{} group by r.kind",
            numbers.one(&["q.sym = r.sym", "q.sym = r.sym", "q.size = r.number"]),
            numbers.one(&["", " where r.kind <> 'x'", " where q.bid > 150 and r.number < 7"])
        ),
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
pub(crate) fn in_order(numbers: &mut Numbers, rows: &str) -> String {
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
pub(crate) fn statement(numbers: &mut Numbers) -> String {
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
        0 => format!(
            "select ts, sym, bid, size, {} as mid from quote{filter}",
            numbers.one(&[
                "(bid + ask) / 2",
                "lower(sym)",
                "concat(sym, venue)",
                "sym || '-' || venue",
                "nvl2(ask, ask, bid)",
                "greatest(bid, ask)",
                "try_cast(right(sym, 2) as int)",
                "seq & 255",
                "replace(sym, 'S', 'XX')",
            ])
        ),
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

/// The groups of a table's rows by a symbol and a venue, with their number `n` and two aggregates.
fn grouping(numbers: &mut Numbers) -> String {
    let table = numbers.one(&["quote", "trade", "late"]);
    let (one, other) = (aggregate(numbers), aggregate(numbers));
    let having = numbers.one(&["", "", " having count(*) > 3"]);
    format!(
        "(select sym, venue, count(*) as n, {one} as a0, {other} as a1 from {table}{} group by sym, venue{having})",
        filter(numbers)
    )
}

/// A statement that DataFusion has to run, around groupings that have tick plans.
pub(crate) fn in_parts(numbers: &mut Numbers) -> String {
    let (g, h) = (grouping(numbers), grouping(numbers));
    match numbers.below(9) {
        0 | 1 => format!(
            "select coalesce(g.sym, h.sym) as sym, coalesce(g.venue, h.venue) as venue, g.n, h.n as m, g.a0, g.a1, h.a0 as b0 \
             from {g} g {} join {h} h on g.sym = h.sym and g.venue = h.venue{}",
            numbers.one(&["full", "left", "right", "inner"]),
            // With a value of no table, which is DataFusion's.
            numbers.one(&["", " where (select 0) = 0"])
        ),
        2 => format!(
            "select sym, venue, n, a0 from {g} union all select sym, null, count(distinct venue), null from quote group by sym"
        ),
        3 => format!(
            "select ts, sym, seq, bid from trade where bid {} (select {}(ask) from quote{}) + (select 0)",
            numbers.one(&["<", ">"]),
            numbers.one(&["min", "max", "median"]),
            filter(numbers)
        ),
        4 => format!("select count(distinct sym), count(distinct n), sum(n) from {g}"),
        5 => format!(
            "select t.seq, t.ts, t.sym, g.n, g.a0 from trade t join {g} g on t.sym = g.sym and t.venue = g.venue where t.size < \
             {} and g.n > {}",
            numbers.below(500),
            numbers.below(40)
        ),
        // The filter gets down to the tables.
        6 => format!(
            "select g.sym, g.venue, g.n, h.n as m, h.a0 from {g} g join {h} h on g.sym = h.sym and g.venue = h.venue where \
             g.sym = 'S{:02}'",
            numbers.below(13)
        ),
        7 => format!(
            "select t.seq, t.ts, t.sym from trade t where t.sym in (select sym from {g} x where n > {}) and t.size < (select 100)",
            numbers.below(200)
        ),
        _ => format!(
            "with g as {g}, h as {h} select g.sym, string_agg(g.venue, '' order by g.venue), max(h.n) from g left join h on \
             g.sym = h.sym group by g.sym"
        ),
    }
}
