//! Gap fills against a plain loop, over every shape, and the plans that they make.

use std::collections::BTreeMap;

use super::{SHAPES, Trade, context, context_with, random_trades, rows, table_of, text};
use datafusion::logical_expr::col;
use std::sync::Arc;

const MINUTE_NS: i64 = 60_000_000_000;

/// Mean prices of the buckets of `width` that have rows, null for buckets without a price.
fn buckets<'a>(trades: impl Iterator<Item = &'a Trade>, width: i64) -> BTreeMap<i64, Option<f64>> {
    let mut by_bucket: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for trade in trades {
        by_bucket.entry(trade.ts.div_euclid(width) * width).or_default().extend(trade.price);
    }
    let mean = |prices: Vec<f64>| (!prices.is_empty()).then(|| prices.iter().sum::<f64>() / prices.len() as f64);
    by_bucket.into_iter().map(|(start, prices)| (start, mean(prices))).collect()
}

/// Bucket, mean, last mean that isn't null, mean on the line between those around.
fn filled(stored: &BTreeMap<i64, Option<f64>>, starts: impl Iterator<Item = i64>) -> Vec<String> {
    starts
        .map(|start| {
            let values = || stored.iter().filter_map(|(at, mean)| mean.map(|mean| (*at, mean)));
            let before = values().filter(|(at, _)| *at <= start).last();
            let behind = values().find(|(at, _)| *at >= start);
            let line = before.zip(behind).map(|((t0, x0), (t1, x1))| match t1 - t0 {
                0 => x0,
                whole => x0 + (x1 - x0) * ((start - t0) as f64 / whole as f64),
            });
            let mean = stored.get(&start).copied().flatten();
            format!("{start} {} {} {}", text(mean), text(before.map(|(_, mean)| mean)), text(line))
        })
        .collect()
}

#[tokio::test]
async fn fills_equal_a_plain_loop_in_every_shape() {
    for (seed, rows_of) in [(37, 12), (41, 60), (43, 1)] {
        let trades = random_trades(seed, rows_of);
        let mut expected = Vec::new();
        for sym in ["AAPL", "IBM", "MSFT"] {
            let stored = buckets(trades.iter().filter(|trade| trade.sym == sym), MINUTE_NS / 4);
            let (Some(first), Some(last)) = (stored.keys().next(), stored.keys().last()) else { continue };
            let starts = (*first..=*last).step_by(MINUTE_NS as usize / 4);
            expected.extend(filled(&stored, starts).into_iter().map(|row| format!("{sym} {row}")));
        }
        for shape in SHAPES {
            let context = context_with(&trades, shape);
            let sql = "SELECT sym, arrow_cast(time_bucket_gapfill('15 seconds', ts), 'Int64'), avg(price), \
                       locf(avg(price)), interpolate(avg(price)) FROM t \
                       GROUP BY sym, time_bucket_gapfill('15 seconds', ts) \
                       ORDER BY sym, time_bucket_gapfill('15 seconds', ts)";
            assert_eq!(rows(&context, sql).await.unwrap(), expected, "seed {seed}, shape {shape:?}");
        }
    }
}

#[tokio::test]
async fn a_range_is_filled_whole_in_every_shape() {
    let trades = random_trades(47, 20);
    let range = -5 * MINUTE_NS..20 * MINUTE_NS;
    let stored = buckets(trades.iter().filter(|trade| range.contains(&trade.ts)), MINUTE_NS);
    let expected = filled(&stored, range.step_by(MINUTE_NS as usize));
    for shape in SHAPES {
        let context = context_with(&trades, shape);
        let sql = "SELECT arrow_cast(bar, 'Int64'), x, carried, line FROM (SELECT time_bucket_gapfill('1 minute', ts) AS bar, \
                   avg(price) AS x, locf(avg(price)) AS carried, interpolate(avg(price)) AS line FROM t \
                   WHERE ts >= TIMESTAMP '1969-12-31T23:55:00Z' AND ts < TIMESTAMP '1970-01-01T00:20:00Z' GROUP BY bar) \
                   ORDER BY bar";
        assert_eq!(rows(&context, sql).await.unwrap(), expected, "shape {shape:?}");
    }
}

#[tokio::test]
async fn an_order_by_keys_and_bucket_needs_no_sort_over_ordered_rows() {
    let context = context(1, 8192);
    let order = ["sym", "ts"].iter().map(|key| col(*key).sort(true, false)).collect();
    let table = table_of(&random_trades(1, 100), 1, 8192).with_sort_order(vec![order]);
    context.register_table("t", Arc::new(table)).unwrap();
    let sql = "EXPLAIN SELECT sym, time_bucket_gapfill('1 minute', ts) AS bar, locf(max(price)) FROM t \
               GROUP BY sym, bar ORDER BY sym, bar";
    let plan = rows(&context, sql).await.unwrap().join("\n");
    assert!(plan.contains("GapFillExec") && !plan.contains("SortExec"), "{plan}");
}

#[tokio::test]
async fn a_filter_on_keys_comes_before_the_fill() {
    let context = context_with(&random_trades(1, 100), (1, 8192));
    let sql = "EXPLAIN SELECT * FROM (SELECT sym, time_bucket_gapfill('1 minute', ts) AS bar, count(*) FROM t \
               GROUP BY sym, bar) WHERE sym = 'IBM' AND bar > TIMESTAMP '1970-01-01T00:00:00Z'";
    let plan = rows(&context, sql).await.unwrap().join("\n");
    let (above, below) = plan.split_once("GapFillExec").unwrap();
    let above = above.split_once("physical_plan").unwrap().1;
    assert!(below.contains("sym@0 = IBM") && above.contains("FilterExec") && !above.contains("IBM"), "{plan}");
}

#[tokio::test]
async fn a_million_made_rows_are_a_stream() {
    let trades = vec![
        Trade { sym: "A", ts: 0, price: Some(1.0), size: None },
        Trade { sym: "A", ts: 1_000_000_000_000, price: Some(2.0), size: None },
    ];
    let context = context_with(&trades, (1, 8192));
    let bars =
        "SELECT time_bucket_gapfill('1 millisecond', ts) AS bar, interpolate(avg(price)) AS x FROM t GROUP BY bar";
    let count = rows(&context, &format!("SELECT count(*), min(x), max(x) FROM ({bars})")).await.unwrap();
    assert_eq!(count, ["1000001 1.0 2.0"]);
    let few = rows(&context, &format!("SELECT x FROM ({bars}) LIMIT 2")).await.unwrap();
    assert_eq!(few, ["1.0", "1.000001"]);
}
