//! Statements, and how each is cut.

/// The way in which a statement is cut, which its plan shows first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As it is, by symbols or by symbols and dates.
    Statement,
    /// Parts of it.
    Part,
    /// Not at all.
    No,
}

use Cut::{No, Part, Statement};

/// Statements; of those that begin with `!` the order of rows is compared too.
pub const STATEMENTS: &[(Cut, &str)] = &[
    // The fourteen queries of the crypto study, over these tables.
    (
        Statement,
        "!SELECT sym, venue, time_bucket(INTERVAL '1 minute', ts) AS bucket, sum(size) AS volume FROM trade WHERE ts >= TIMESTAMP '2024-03-04 00:00:00' AND ts < TIMESTAMP '2024-03-05 00:00:00' GROUP BY sym, venue, bucket ORDER BY sym, venue, bucket",
    ),
    (
        Statement,
        "!SELECT sym, venue, time_bucket(INTERVAL '1 day', ts) AS bucket, sum(size) AS volume FROM trade GROUP BY sym, venue, bucket ORDER BY sym, venue, bucket",
    ),
    (
        No,
        "!SELECT time_bucket(INTERVAL '1 minute', ts) AS bucket, vwap(price, size) AS vwap FROM trade WHERE sym = 'IBM' AND price < 110 GROUP BY bucket ORDER BY bucket",
    ),
    (
        No,
        "SELECT last(ts ORDER BY ts) AS ts, last(bid ORDER BY ts) AS bid, last(ask ORDER BY ts) AS ask FROM quote WHERE sym = 'IBM' AND ts <= TIMESTAMP '2024-03-05 15:00:00'",
    ),
    (
        Statement,
        "!SELECT sym, max(bid) AS max_bid FROM quote WHERE ts >= TIMESTAMP '2024-03-05' AND ts < TIMESTAMP '2024-03-07' GROUP BY sym ORDER BY sym",
    ),
    (Statement, "!SELECT sym, max(bid) AS max_bid FROM quote GROUP BY sym ORDER BY sym"),
    (
        Statement,
        "SELECT sym, ts, ask - bid AS spread FROM quote WHERE ts >= TIMESTAMP '2024-03-04' AND ts < TIMESTAMP '2024-03-05'",
    ),
    (
        Statement,
        "!SELECT sym, time_bucket(INTERVAL '1 minute', ts) AS bucket, avg(bid * size) AS bid_depth, avg(ask * size) AS ask_depth FROM quote WHERE bid < 110 AND ask < 110 GROUP BY sym, bucket ORDER BY sym, bucket",
    ),
    (
        Statement,
        "!SELECT sym, time_bucket(INTERVAL '1 hour', ts) AS bucket, avg(bid * size + bid * seq) AS bid_depth FROM quote WHERE bid < 110 GROUP BY sym, bucket ORDER BY sym, bucket",
    ),
    (
        Statement,
        "!SELECT sym, max(bid) AS best_bid, min(ask) AS best_ask FROM quote WHERE ts >= TIMESTAMP '2024-03-06' GROUP BY sym ORDER BY sym",
    ),
    (
        Statement,
        "!SELECT sym, bucket, ret FROM (SELECT sym, bucket, ln(close) - ln(lag(close) OVER (PARTITION BY sym ORDER BY bucket)) AS ret FROM (SELECT sym, time_bucket(INTERVAL '5 minutes', ts) AS bucket, last(price ORDER BY ts) AS close FROM trade GROUP BY sym, time_bucket(INTERVAL '5 minutes', ts)) AS closes) AS returns WHERE ret IS NOT NULL ORDER BY sym, bucket",
    ),
    (
        Statement,
        "!SELECT sym, time_bucket(INTERVAL '1 hour', bucket) AS coarse, stddev_samp(ret) AS volatility FROM (SELECT sym, bucket, ln(close) - ln(lag(close) OVER (PARTITION BY sym ORDER BY bucket)) AS ret FROM (SELECT sym, time_bucket(INTERVAL '1 minute', ts) AS bucket, last(price ORDER BY ts) AS close FROM trade WHERE price < 112 GROUP BY sym, time_bucket(INTERVAL '1 minute', ts)) AS closes) AS returns WHERE ret IS NOT NULL GROUP BY sym, coarse ORDER BY sym, coarse",
    ),
    (
        Statement,
        "!SELECT sym, time_bucket(INTERVAL '1 hour', bucket) AS coarse, stddev_samp(ret) AS volatility FROM (SELECT sym, bucket, ln(close) - ln(lag(close) OVER (PARTITION BY sym ORDER BY bucket)) AS ret FROM (SELECT sym, time_bucket(INTERVAL '5 minutes', ts) AS bucket, last((bid + ask) / 2 ORDER BY ts) AS close FROM quote WHERE bid < 112 AND ask < 112 GROUP BY sym, time_bucket(INTERVAL '5 minutes', ts)) AS closes) AS returns WHERE ret IS NOT NULL GROUP BY sym, coarse ORDER BY sym, coarse",
    ),
    (
        Statement,
        "!SELECT sym, time_bucket(INTERVAL '4 hours', bucket) AS coarse, stddev_samp(ret) AS volatility FROM (SELECT sym, bucket, ln(close) - ln(lag(close) OVER (PARTITION BY sym ORDER BY bucket)) AS ret FROM (SELECT sym, time_bucket(INTERVAL '1 hour', ts) AS bucket, last((bid + ask) / 2 ORDER BY ts) AS close FROM quote WHERE bid < 112 AND ask < 112 GROUP BY sym, time_bucket(INTERVAL '1 hour', ts)) AS closes) AS returns WHERE ret IS NOT NULL GROUP BY sym, coarse ORDER BY sym, coarse",
    ),
    // As-of, window and plain joins.
    (
        Statement,
        "SELECT t.sym, t.ts, t.seq, t.price, q.bid, q.ask, q.seq AS qseq FROM trade t ASOF JOIN quote q ON t.sym = q.sym AND t.ts >= q.ts",
    ),
    (
        Statement,
        "SELECT t.sym, t.seq, q.seq AS qseq FROM trade t ASOF LEFT JOIN quote q ON t.sym = q.sym AND t.ts > q.ts",
    ),
    (
        Statement,
        "SELECT t.seq, q.seq AS qseq FROM trade t ASOF LEFT JOIN quote q ON t.sym = q.sym AND t.venue = q.venue AND t.ts <= q.ts",
    ),
    (
        Statement,
        "!SELECT t.sym, count(*) AS n, sum(t.size * (q.size + 1)) AS s FROM trade t ASOF JOIN quote q ON t.sym = q.sym AND t.ts >= q.ts GROUP BY t.sym ORDER BY t.sym",
    ),
    (
        Part,
        "!SELECT t.venue, count(*) AS n, sum(q.size) AS s, max(q.seq) AS m FROM trade t ASOF JOIN quote q ON t.sym = q.sym AND t.ts >= q.ts GROUP BY t.venue ORDER BY t.venue",
    ),
    (
        No,
        "SELECT count(*) AS n, sum(i.level) AS s FROM market_index m ASOF JOIN market_index i ON m.ts >= i.ts WHERE i.level < 110",
    ),
    (Statement, "SELECT t.seq, m.level FROM trade t ASOF JOIN market_index m ON t.ts >= m.ts WHERE t.price > 105"),
    (
        Statement,
        "SELECT t.sym, t.ts, t.seq, count(q.bid) AS n, max(q.seq) AS m FROM trade t WINDOW JOIN quote q ON t.sym = q.sym AND q.ts BETWEEN t.ts - INTERVAL '3 seconds' AND t.ts",
    ),
    (Part, "SELECT count(*) AS n, sum(t.size) AS s FROM trade t JOIN quote q ON t.sym = q.sym AND t.ts = q.ts"),
    (
        Statement,
        "SELECT t.sym, count(*) AS n FROM trade t LEFT JOIN quote q ON t.sym = q.sym AND t.seq = q.seq WHERE t.size > 300 GROUP BY t.sym",
    ),
    (
        Statement,
        "SELECT t.seq, q.seq AS qseq FROM (SELECT * FROM trade WHERE seq % 50 = 0) t FULL JOIN (SELECT * FROM quote WHERE seq % 50 = 0) q ON t.sym = q.sym AND t.seq = q.seq",
    ),
    (Statement, "SELECT t.seq FROM trade t WHERE t.sym IS NULL"),
    (
        Part,
        "!SELECT i.sector, count(*) AS n, sum(t.size) AS s FROM trade t JOIN instrument i ON t.sym = i.sym GROUP BY i.sector ORDER BY i.sector",
    ),
    (
        Statement,
        "SELECT t.sym, i.sector, count(*) AS n FROM trade t LEFT JOIN instrument i ON t.sym = i.sym GROUP BY t.sym, i.sector",
    ),
    (
        Part,
        "SELECT i.sym, n FROM instrument i LEFT JOIN (SELECT sym, count(*) AS n FROM trade GROUP BY sym) t ON t.sym = i.sym",
    ),
    (
        Statement,
        "SELECT a.sym, a.n, b.n AS m FROM (SELECT sym, count(*) AS n FROM trade GROUP BY sym) a JOIN (SELECT sym, count(*) AS n FROM quote GROUP BY sym) b ON a.sym = b.sym",
    ),
    (
        Part,
        "SELECT a.venue, a.n, b.n AS m FROM (SELECT venue, count(*) AS n FROM trade GROUP BY venue) a JOIN (SELECT venue, count(*) AS n FROM quote GROUP BY venue) b ON a.venue = b.venue",
    ),
    // Groupings in halves, by dates, and with what depends on the order of rows.
    (
        Part,
        "SELECT count(*) AS n, count(price) AS c, sum(size) AS s, min(size) AS l, max(size) AS h, avg(size) AS a FROM trade",
    ),
    (Part, "SELECT min(price) AS l, max(price) AS h, count(price) AS c FROM trade"),
    (Part, "SELECT sum(price) AS s, avg(price) AS a FROM trade WHERE price < 111"),
    (
        Part,
        "!SELECT venue, count(*) AS n, avg(price) AS a, sum(fee) AS f FROM trade WHERE price < 111 AND fee < 111 GROUP BY venue ORDER BY venue",
    ),
    (Part, "SELECT count(*) AS n, sum(size) AS s, avg(price) AS a, max(ts) AS m FROM trade WHERE size > 100000"),
    (
        Part,
        "SELECT venue, count(*) FILTER (WHERE size > 0) AS n, avg(size) FILTER (WHERE size > 0) AS a FROM trade GROUP BY venue HAVING count(*) > 10",
    ),
    (Part, "SELECT venue, sum(size) + count(*) AS n, avg(size) * 2 AS a FROM trade GROUP BY venue"),
    (
        Part,
        "!SELECT time_bucket(INTERVAL '10 minutes', ts) AS b, count(*) AS n, sum(size) AS s FROM trade GROUP BY b ORDER BY b",
    ),
    (Part, "SELECT min(sym) AS l, max(sym) AS h, min(ts) AS f, max(ts) AS t FROM trade"),
    (
        Statement,
        "!SELECT date, count(*) AS n, first(price) AS f, last(price) AS l FROM trade GROUP BY date ORDER BY date",
    ),
    (
        Statement,
        "!SELECT date, sym, first(seq) AS f, last(seq) AS l, max(price) AS h FROM trade GROUP BY date, sym ORDER BY date, sym",
    ),
    (
        Statement,
        "!SELECT sym, first(seq) AS f, last(seq) AS l, count(DISTINCT venue) AS v, median(size) AS m FROM trade GROUP BY sym ORDER BY sym",
    ),
    (No, "SELECT first(seq) AS f, last(seq) AS l FROM trade"),
    (No, "SELECT venue, median(size) AS m FROM trade GROUP BY venue"),
    (No, "SELECT count(DISTINCT sym) AS n FROM trade"),
    (Part, "SELECT count(DISTINCT sym) AS n FROM trade WHERE size > 0"),
    (Part, "SELECT level > 105 AS high, count(*) AS n FROM market_index GROUP BY high"),
    (Part, "SELECT date, count(*) AS n, sum(size) AS s FROM monthly GROUP BY date"),
    (Statement, "SELECT sym, date, count(*) AS n, last(close) AS c FROM monthly GROUP BY sym, date"),
    (
        No,
        "SELECT m.date, count(*) AS n FROM monthly m JOIN trade t ON m.date = t.date AND m.seq = t.seq GROUP BY m.date",
    ),
    // Windows, limits, sets, subqueries.
    (Statement, "SELECT sym, seq, sum(size) OVER (PARTITION BY sym ORDER BY seq) AS running FROM trade"),
    (
        Statement,
        "SELECT sym, seq, row_number() OVER (PARTITION BY sym, date ORDER BY seq) AS n FROM trade WHERE size > 200",
    ),
    (No, "SELECT seq, row_number() OVER (ORDER BY seq) AS n FROM trade WHERE size > 390"),
    (Statement, "!SELECT sym, seq, size FROM trade ORDER BY size DESC, seq LIMIT 25"),
    (Part, "!SELECT sym, seq, size FROM trade ORDER BY size DESC, seq LIMIT 10 OFFSET 7"),
    (Part, "!SELECT sym FROM trade WHERE sym IS NOT NULL ORDER BY seq LIMIT 10"),
    (Statement, "!SELECT sym, count(*) AS n FROM trade GROUP BY sym ORDER BY n DESC, sym LIMIT 3"),
    (Part, "!SELECT venue, count(*) AS n FROM trade GROUP BY venue ORDER BY n DESC, venue LIMIT 2"),
    (No, "!SELECT sym, seq FROM trade LIMIT 5"),
    (No, "SELECT count(*) AS n FROM (SELECT seq FROM trade LIMIT 100) t"),
    (Statement, "SELECT DISTINCT sym, venue FROM trade"),
    (No, "SELECT DISTINCT venue FROM trade"),
    (Statement, "SELECT sym, size FROM trade WHERE size > 395 UNION ALL SELECT sym, size FROM quote WHERE size > 395"),
    (
        Part,
        "SELECT venue, sum(n) AS n FROM (SELECT venue, count(*) AS n FROM trade GROUP BY venue UNION ALL SELECT venue, count(*) AS n FROM quote GROUP BY venue) u GROUP BY venue",
    ),
    (
        Part,
        "SELECT seq FROM (SELECT seq, size FROM trade WHERE size > 350) t WHERE size > (SELECT avg(size) + 300 FROM quote)",
    ),
    (
        Part,
        "SELECT count(*) AS n FROM (SELECT seq, size FROM trade WHERE size > 350) t WHERE t.seq IN (SELECT seq FROM quote)",
    ),
    (Part, "WITH v AS (SELECT sym, max(size) AS m FROM trade GROUP BY sym) SELECT count(*) AS n, sum(m) AS s FROM v"),
    (
        Statement,
        "SELECT sym, time_bucket_gapfill(INTERVAL '1 hour', ts, TIMESTAMP '2024-03-04 12:00:00', TIMESTAMP '2024-03-04 18:00:00') AS b, locf(last(seq)) AS l FROM trade WHERE ts >= TIMESTAMP '2024-03-04 12:00:00' AND ts < TIMESTAMP '2024-03-04 18:00:00' GROUP BY sym, b",
    ),
    (
        No,
        "SELECT time_bucket_gapfill(INTERVAL '1 hour', ts, TIMESTAMP '2024-03-04 12:00:00', TIMESTAMP '2024-03-04 18:00:00') AS b, locf(max(seq)) AS l FROM trade WHERE ts >= TIMESTAMP '2024-03-04 12:00:00' AND ts < TIMESTAMP '2024-03-04 18:00:00' GROUP BY b",
    ),
    (No, "SELECT count(*) AS n FROM trade WHERE ts < now()"),
    (No, "SELECT * FROM instrument"),
    (No, "SELECT 1 AS one"),
    (Statement, "SELECT sym, count(*) AS n, sum(size) AS s FROM trade AT COMMIT 1 GROUP BY sym"),
    (Statement, "SELECT date, venue, count(*) AS n, sum(size) AS s, avg(size) AS a FROM trade GROUP BY date, venue"),
    (Statement, "SELECT Sym, Size FROM trade WHERE Size > 380"),
    (No, "SELECT sym, sector FROM instrument WHERE sym IN (SELECT sym FROM trade WHERE size > 398)"),
    (
        Statement,
        "SELECT sym, CASE WHEN price > 105 THEN 'high' WHEN price <= 105 THEN 'low' END AS c, count(*) AS n FROM trade GROUP BY sym, c",
    ),
    (
        Statement,
        "SELECT t.sym, t.date, t.n, q.n AS m FROM (SELECT sym, date, count(*) AS n FROM trade GROUP BY sym, date) t JOIN (SELECT sym, date, count(*) AS n FROM quote GROUP BY sym, date) q ON t.sym = q.sym AND t.date = q.date",
    ),
];
