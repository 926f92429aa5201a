//! Running and moving functions over a table of many batches; `twap` over rows that arrive in any order.

use super::{SHAPES, Trade, context_with, random_trades, rows, text};

#[tokio::test]
async fn moving_functions_equal_a_plain_loop_in_every_shape() {
    let trades = random_trades(23, 200);
    let mut expected = Vec::new();
    for (row, trade) in trades.iter().enumerate() {
        let series: Vec<_> = trades[..=row].iter().filter(|other| other.sym == trade.sym).collect();
        let window = &series[series.len().saturating_sub(3)..];
        let values: Vec<f64> = window.iter().filter_map(|trade| trade.price).collect();
        let sum: f64 = values.iter().sum();
        let mean = (!values.is_empty()).then(|| sum / values.len() as f64);
        let top = values.iter().copied().reduce(f64::max);
        let volume: i64 = series.iter().filter_map(|trade| trade.size).sum();
        expected.push(format!("{sum:?} {} {} {} {volume}", text(mean), text(top), values.len()));
    }
    for shape in SHAPES {
        let context = context_with(&trades, shape);
        // Prices are eighths, so sums are exact in any order.
        let sql = "SELECT msum(price, 3) OVER w, mavg(price, 3) OVER w, mmax(price, 3) OVER w, mcount(price, 3) OVER w, \
                   sums(size) OVER w FROM t WINDOW w AS (PARTITION BY sym ORDER BY row_number) ORDER BY row_number";
        assert_eq!(rows(&context, sql).await.unwrap(), expected, "shape {shape:?}");
    }
}

#[tokio::test]
async fn a_limit_above_a_moving_window_changes_no_row() {
    let context = context_with(&random_trades(29, 150), (4, 7));
    let sql = "SELECT mavg(price, 20) OVER (ORDER BY row_number) FROM t ORDER BY row_number";
    let all = rows(&context, sql).await.unwrap();
    assert_eq!(rows(&context, &format!("{sql} LIMIT 10")).await.unwrap(), all[..10]);
}

/// The average of the prices of rows that are in order, over the time each stood.
fn step_average(trades: &[&Trade]) -> Option<f64> {
    let priced: Vec<(i64, f64)> = trades.iter().filter_map(|trade| Some((trade.ts, trade.price?))).collect();
    let ((first, _), (last, price)) = (priced.first()?, priced.last()?);
    if first == last {
        return Some(*price);
    }
    let area: f64 = priced.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64).sum();
    Some(area / (last - first) as f64)
}

#[tokio::test]
async fn twap_is_the_same_however_rows_are_dealt_out() {
    let trades = random_trades(31, 400);
    for shape in SHAPES {
        let context = context_with(&trades, shape);
        let sql = "SELECT sym, twap(price, ts ORDER BY row_number) FROM t GROUP BY sym ORDER BY sym";
        let answers = rows(&context, sql).await.unwrap();
        for (answer, sym) in answers.iter().zip(["AAPL", "IBM", "MSFT"]) {
            let expected = step_average(&trades.iter().filter(|trade| trade.sym == sym).collect::<Vec<_>>()).unwrap();
            let average: f64 = answer.strip_prefix(sym).unwrap().trim().parse().unwrap();
            assert!((average - expected).abs() <= 1e-9 * expected.abs(), "{answer}: {expected}, shape {shape:?}");
        }
        assert_eq!(answers.len(), 3);
        let none = rows(&context, "SELECT twap(price, ts ORDER BY row_number) FROM t WHERE price < 0").await.unwrap();
        assert_eq!(none, ["NULL"]);
    }
}
