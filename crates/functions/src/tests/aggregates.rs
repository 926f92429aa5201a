//! The weighted aggregates against a plain loop, grouped, whole and moving.

use std::collections::BTreeMap;

use super::{SHAPES, Trade, context_with, random_trades, rows};

/// Σ(size·price), Σ(size) and the number of pairs without a null.
fn sums<'a>(trades: impl Iterator<Item = &'a Trade>) -> (f64, f64, usize) {
    trades
        .filter_map(|trade| trade.price.zip(trade.size))
        .fold((0.0, 0.0, 0), |(weighted, weight, n), (price, size)| {
            (weighted + price * size as f64, weight + size as f64, n + 1)
        })
}

fn vwap((weighted, weight, _): (f64, f64, usize)) -> Option<f64> {
    (weight != 0.0).then(|| weighted / weight)
}

/// Whether the text of an answer is the expected number up to the order of additions.
fn is_close(answer: &str, expected: Option<f64>) -> bool {
    match expected {
        None => answer == "NULL",
        Some(expected) => {
            answer.parse::<f64>().is_ok_and(|answer| (answer - expected).abs() <= 1e-9 * expected.abs().max(1.0))
        }
    }
}

#[tokio::test]
async fn vwap_and_wsum_equal_a_plain_loop_in_every_shape() {
    for seed in 0..4 {
        let trades = random_trades(seed, 400);
        let mut groups: BTreeMap<&str, Vec<&Trade>> = BTreeMap::new();
        trades.iter().for_each(|trade| groups.entry(trade.sym).or_default().push(trade));
        for shape in SHAPES {
            let context = context_with(&trades, shape);
            let sql =
                "SELECT sym, vwap(price, size), wavg(size, price), wsum(size, price) FROM t GROUP BY sym ORDER BY sym";
            let answers = rows(&context, sql).await.unwrap();
            assert_eq!(answers.len(), groups.len());
            for (answer, (sym, group)) in answers.iter().zip(&groups) {
                let sums = sums(group.iter().copied());
                let parts: Vec<&str> = answer.split(' ').collect();
                assert_eq!(parts[0], *sym);
                assert!(is_close(parts[1], vwap(sums)) && is_close(parts[2], vwap(sums)), "{answer}: {sums:?}");
                assert!(is_close(parts[3], (sums.2 > 0).then_some(sums.0)), "{answer}: {sums:?}");
            }
            let whole = rows(&context, "SELECT vwap(price, size) FROM t").await.unwrap();
            assert!(is_close(&whole[0], vwap(sums(trades.iter()))));
        }
    }
}

#[tokio::test]
async fn a_moving_vwap_equals_a_loop_over_each_frame() {
    let trades = random_trades(6, 300);
    for frame in [1_usize, 2, 5, 50, 400] {
        let context = context_with(&trades, (4, 7));
        let sql = format!(
            "SELECT vwap(price, size) OVER (ORDER BY row_number ROWS BETWEEN {} PRECEDING AND CURRENT ROW) FROM t ORDER BY row_number",
            frame - 1
        );
        for (row, answer) in rows(&context, &sql).await.unwrap().iter().enumerate() {
            let expected = vwap(sums(trades[(row + 1).saturating_sub(frame)..=row].iter()));
            assert!(is_close(answer, expected), "frame {frame}, row {row}: {answer}, not {expected:?}");
        }
    }
}

#[tokio::test]
async fn a_range_frame_over_time_drops_whole_ties() {
    let trades: Vec<Trade> = [0, 0, 60, 60, 120]
        .map(|s| Trade { sym: "A", ts: s * 1_000_000_000, price: Some(s as f64), size: Some(1) })
        .into();
    let context = context_with(&trades, (1, 2));
    let sql = "SELECT vwap(price, size) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND CURRENT ROW) FROM t ORDER BY row_number";
    assert_eq!(rows(&context, sql).await.unwrap(), ["0.0", "0.0", "30.0", "30.0", "80.0"]);
}

#[tokio::test]
async fn empty_tables_and_filters_that_pass_nothing() {
    let context = context_with(&[], (4, 7));
    assert_eq!(
        rows(&context, "SELECT vwap(price, size), wsum(size, price), med(price) FROM t").await.unwrap(),
        ["NULL NULL NULL"]
    );
    assert!(rows(&context, "SELECT sym, vwap(price, size) FROM t GROUP BY sym").await.unwrap().is_empty());
    let context = context_with(&random_trades(2, 100), (4, 7));
    let sql = "SELECT sym, vwap(price, size) FILTER (WHERE size < 0) FROM t GROUP BY sym ORDER BY sym";
    assert_eq!(rows(&context, sql).await.unwrap(), ["AAPL NULL", "IBM NULL", "MSFT NULL"]);
}
