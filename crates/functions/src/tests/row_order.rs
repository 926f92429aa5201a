//! `first` and `last` give the rows of the table's order for any number of streams, or no answer at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::col;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::logical_plan::{LogicalPlan, TableScan};
use datafusion::prelude::SessionContext;

use super::{SHAPES, Trade, context_with, random_trades, rows, text};
use crate::{RowOrder, register_row_order};

/// Tables that number their rows in a column of their own.
#[derive(Debug)]
struct NumberedTables;

impl RowOrder for NumberedTables {
    fn numbered(&self, scan: &TableScan) -> Result<Option<(LogicalPlan, Vec<Sort>)>> {
        if scan.source.schema().index_of("row_number").is_err() {
            return Ok(None);
        }
        let row_number = Column::new(Some(scan.table_name.clone()), "row_number");
        Ok(Some((LogicalPlan::TableScan(scan.clone()), vec![col(row_number).sort(true, false)])))
    }
}

fn numbered_context(trades: &[Trade], shape: (usize, usize)) -> SessionContext {
    let context = context_with(trades, shape);
    register_row_order(&context, Arc::new(NumberedTables));
    context
}

/// Groups of trades in table order.
fn by_symbol(trades: &[Trade]) -> BTreeMap<&'static str, Vec<&Trade>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for trade in trades {
        groups.entry(trade.sym).or_default().push(trade);
    }
    groups
}

#[tokio::test]
async fn rows_are_taken_in_table_order_in_every_shape() {
    for seed in 0..4 {
        let trades = random_trades(seed, 300);
        let expected: Vec<String> = by_symbol(&trades)
            .iter()
            .map(|(sym, group)| format!("{sym} {} {}", text(group[0].price), text(group[group.len() - 1].price)))
            .collect();
        for shape in SHAPES {
            let context = numbered_context(&trades, shape);
            let sql = "SELECT sym, first(price), last(price) FROM t GROUP BY sym ORDER BY sym";
            assert_eq!(rows(&context, sql).await.unwrap(), expected, "seed {seed}, shape {shape:?}");
        }
    }
}

#[tokio::test]
async fn ties_in_an_explicit_order_follow_the_table() {
    let trades = random_trades(7, 500);
    let groups = by_symbol(&trades);
    let expected: Vec<String> = groups
        .iter()
        .map(|(sym, group)| {
            // All rows of the last time tie; the table's last one wins. The first of the ties wins for `first`.
            let latest = group.iter().map(|trade| trade.ts).max().unwrap();
            let first_of_latest = group.iter().find(|trade| trade.ts == latest).unwrap();
            format!("{sym} {} {}", text(group[group.len() - 1].price), text(first_of_latest.price))
        })
        .collect();
    for shape in SHAPES {
        let context = numbered_context(&trades, shape);
        let sql = "SELECT sym, last(price ORDER BY ts), first(price ORDER BY ts DESC) FROM t GROUP BY sym ORDER BY sym";
        assert_eq!(rows(&context, sql).await.unwrap(), expected, "shape {shape:?}");
    }
}

#[tokio::test]
async fn no_group_by_one_row_and_no_rows() {
    let trades = random_trades(3, 90);
    let (first, last) = (&trades[0], &trades[trades.len() - 1]);
    for shape in SHAPES {
        let context = numbered_context(&trades, shape);
        let all = format!("{} {}", text(first.price), text(last.price));
        assert_eq!(rows(&context, "SELECT first(price), last(price) FROM t").await.unwrap(), [all]);
        let none = rows(&context, "SELECT first(price), last(price) FROM t WHERE size < 0").await.unwrap();
        assert_eq!(none, ["NULL NULL"]);
        let one = rows(&context, "SELECT first(sym), last(sym) FROM t WHERE row_number = 5").await.unwrap();
        assert_eq!(one, [format!("{0} {0}", trades[5].sym)]);
    }
}

#[tokio::test]
async fn nulls_are_skipped_only_on_request() {
    let trades = random_trades(11, 200);
    let expected: Vec<String> = by_symbol(&trades)
        .iter()
        .map(|(sym, group)| {
            let priced: Vec<_> = group.iter().filter(|trade| trade.price.is_some()).collect();
            format!("{sym} {} {}", text(priced[0].price), text(priced[priced.len() - 1].price))
        })
        .collect();
    for shape in SHAPES {
        let context = numbered_context(&trades, shape);
        let sql = "SELECT sym, first(price) IGNORE NULLS, last(price) IGNORE NULLS FROM t GROUP BY sym ORDER BY sym";
        assert_eq!(rows(&context, sql).await.unwrap(), expected, "shape {shape:?}");
    }
}

#[tokio::test]
async fn the_order_is_carried_through_filters_projections_aliases_and_windows() {
    let trades = random_trades(5, 400);
    let filtered: Vec<Trade> =
        trades.iter().filter(|trade| trade.size.is_some_and(|size| size > 20)).cloned().collect();
    let expected: Vec<String> = by_symbol(&filtered)
        .iter()
        .map(|(sym, group)| format!("{sym} {}", text(group[group.len() - 1].price.map(|price| price * 2.0))))
        .collect();
    let queries = [
        "SELECT sym, last(price * 2) FROM t WHERE size > 20 GROUP BY sym ORDER BY sym",
        "SELECT s, last(p) FROM (SELECT sym AS s, price * 2 AS p FROM t AS a WHERE size > 20) AS b GROUP BY s ORDER BY s",
        "WITH c AS (SELECT * FROM t WHERE size > 20), d AS (SELECT sym, price * 2 AS p FROM c) SELECT sym, last(p) FROM d GROUP BY sym ORDER BY sym",
        "SELECT sym, last(p) FROM (SELECT sym, price * 2 AS p, size, count(*) OVER (PARTITION BY sym) AS n FROM t) WHERE size > 20 GROUP BY sym ORDER BY sym",
    ];
    for shape in SHAPES {
        let context = numbered_context(&trades, shape);
        for sql in queries {
            assert_eq!(rows(&context, sql).await.unwrap(), expected, "{sql}, shape {shape:?}");
        }
    }
}

#[tokio::test]
async fn a_sort_below_comes_before_the_table_order() {
    let trades = random_trades(9, 120);
    let mut by_size = trades.clone();
    by_size.retain(|trade| trade.size.is_some());
    by_size.sort_by_key(|trade| trade.size);
    let expected = [format!("{} {}", text(by_size[0].price), text(by_size[by_size.len() - 1].price))];
    for shape in SHAPES {
        let context = numbered_context(&trades, shape);
        let sql = "SELECT first(price), last(price) FROM (SELECT price FROM t WHERE size IS NOT NULL ORDER BY size)";
        assert_eq!(rows(&context, sql).await.unwrap(), expected, "shape {shape:?}");
    }
}

#[tokio::test]
async fn columns_keep_their_names_and_none_is_added() {
    let context = numbered_context(&random_trades(1, 10), (4, 7));
    let frame = context.sql("SELECT sym, last(price), first(size) AS f FROM t GROUP BY sym").await.unwrap();
    let batches = frame.collect().await.unwrap();
    let names: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["sym", "last(t.price)", "f"]);
}

#[tokio::test]
async fn expressions_around_a_call_and_having_are_completed() {
    let trades = random_trades(21, 150);
    let context = numbered_context(&trades, (4, 7));
    let sql = "SELECT count(*) FROM (SELECT sym, last(size) - first(size) AS d FROM t GROUP BY sym HAVING last(row_number) > 0)";
    assert_eq!(rows(&context, sql).await.unwrap(), ["3"]);
}

#[tokio::test]
async fn rows_without_an_order_are_refused() {
    let context = numbered_context(&random_trades(1, 50), (4, 7));
    for sql in [
        "SELECT last(a.price) FROM t a JOIN t b ON a.sym = b.sym",
        "SELECT last(price) FROM (SELECT price FROM t UNION ALL SELECT price FROM t)",
        "SELECT last(m) FROM (SELECT max(price) AS m FROM t GROUP BY sym)",
        "SELECT last(x) FROM (VALUES (1), (2)) AS v(x)",
    ] {
        let error = rows(&context, sql).await.unwrap_err().to_string();
        assert!(error.contains("needs an ORDER BY"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn without_the_rule_a_table_is_refused_too() {
    let context = context_with(&random_trades(1, 50), (4, 7));
    let error = rows(&context, "SELECT last(price) FROM t").await.unwrap_err().to_string();
    assert!(error.contains("needs an ORDER BY"), "{error}");
    assert_eq!(rows(&context, "SELECT last(sym ORDER BY row_number) FROM t").await.unwrap().len(), 1);
}

#[tokio::test]
async fn many_groups_switch_to_states_per_row() {
    // Each row its own group: the partial stage gives up grouping and passes rows on as states.
    let context = super::context(4, 8192);
    let sql = "SELECT count(*), sum(f), sum(l), sum(w) FROM (SELECT value AS g, first(value ORDER BY value) AS f, \
               last(value ORDER BY value, value % 3) AS l, wsum(1, value) AS w FROM generate_series(1, 400000) AS s(value) GROUP BY g)";
    assert_eq!(rows(&context, sql).await.unwrap(), ["400000 80000200000 80000200000 80000200000.0"]);
}
