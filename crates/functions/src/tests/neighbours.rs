//! Window functions over a table of many batches, and `glob` over its symbols.

use super::{SHAPES, context_with, random_trades, rows, text};

#[tokio::test]
async fn deltas_fills_and_differ_equal_a_plain_loop_in_every_shape() {
    let trades = random_trades(13, 200);
    let mut expected = Vec::new();
    for (row, trade) in trades.iter().enumerate() {
        let group: Vec<_> = trades[..row].iter().filter(|other| other.sym == trade.sym).collect();
        let delta = match group.last() {
            None => trade.price,
            Some(before) => trade.price.zip(before.price).map(|(now, before)| now - before),
        };
        let filled = trade.price.or_else(|| group.iter().rev().find_map(|other| other.price));
        let changed = group.last().is_none_or(|before| before.price != trade.price);
        expected.push(format!("{} {} {changed}", text(delta), text(filled)));
    }
    for shape in SHAPES {
        let context = context_with(&trades, shape);
        let sql = "SELECT deltas(price) OVER w, fills(price) OVER w, differ(price) OVER w FROM t \
                   WINDOW w AS (PARTITION BY sym ORDER BY row_number) ORDER BY row_number";
        assert_eq!(rows(&context, sql).await.unwrap(), expected, "shape {shape:?}");
    }
}

#[tokio::test]
async fn symbols_match_patterns_and_work_as_window_values() {
    let trades = random_trades(17, 100);
    let matching = trades.iter().filter(|trade| trade.sym.starts_with('A') || trade.sym.starts_with('I')).count();
    for shape in SHAPES {
        let context = context_with(&trades, shape);
        let count = rows(&context, "SELECT count(*) FROM t WHERE glob(sym, '[A-I]*')").await.unwrap();
        assert_eq!(count, [matching.to_string()]);
        let changes = "SELECT count(*) FROM (SELECT differ(sym) OVER (ORDER BY row_number) AS d FROM t) WHERE d";
        assert_eq!(rows(&context, changes).await.unwrap(), ["3"]);
    }
}

#[tokio::test]
async fn a_limit_above_a_window_changes_no_row() {
    let trades = random_trades(19, 150);
    let context = context_with(&trades, (4, 7));
    let sql = "SELECT deltas(price, 0) OVER (ORDER BY row_number) FROM t ORDER BY row_number";
    let all = rows(&context, sql).await.unwrap();
    let some = rows(&context, &format!("{sql} LIMIT 10")).await.unwrap();
    assert_eq!(some, all[..10]);
}
