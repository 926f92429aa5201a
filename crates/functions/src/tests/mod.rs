//! Tests of the functions over tables of several batches and partitions.
//!
//! What each function means on a handful of rows is in `tests/slt/functions/`; here are the cases that need a table with
//! an order, many streams, odd batch sizes or a naive answer to compare with. Random cases come from a seed.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may stop at an error, and its numbers are small"
)]

mod aggregates;
mod buckets;
mod gap_fill;
mod moving;
mod names;
mod neighbours;
mod row_order;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session};
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::GapFillPlanner;
use crate::arguments::is_text;

/// Batch sizes and stream counts under which every answer must be the same.
const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 8192), (4, 1), (4, 2), (4, 7), (4, 8192)];

/// DataFusion's planner, which also knows the operator of gap fills.
#[derive(Debug)]
struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let ours: Arc<dyn ExtensionPlanner + Send + Sync> = Arc::new(GapFillPlanner);
        DefaultPhysicalPlanner::with_extension_planners(vec![ours]).create_physical_plan(plan, session).await
    }
}

/// One row of the test table.
#[derive(Debug, Clone, PartialEq)]
struct Trade {
    sym: &'static str,
    ts: i64,
    price: Option<f64>,
    size: Option<i64>,
}

/// SplitMix64: a seed repeats a run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Trades in table order: by symbol, then time, with ties in time, null prices and sizes, and times before 1970.
fn random_trades(seed: u64, rows: usize) -> Vec<Trade> {
    let mut random = Random(seed);
    let mut trades: Vec<Trade> = (0..rows)
        .map(|_| Trade {
            sym: ["AAPL", "IBM", "MSFT"][random.below(3) as usize],
            ts: (random.below(40) as i64 - 10) * 15_000_000_000,
            price: (random.below(5) > 0).then(|| random.below(1000) as f64 / 8.0),
            size: (random.below(7) > 0).then(|| random.below(100) as i64),
        })
        .collect();
    trades.sort_by_key(|trade| (trade.sym, trade.ts));
    trades
}

fn batch_of(trades: &[Trade], first_row: usize) -> RecordBatch {
    let sym: DictionaryArray<Int32Type> = trades.iter().map(|t| t.sym).collect();
    let ts = TimestampNanosecondArray::from_iter_values(trades.iter().map(|t| t.ts)).with_timezone("UTC");
    let price: Float64Array = trades.iter().map(|t| t.price).collect();
    let size: Int64Array = trades.iter().map(|t| t.size).collect();
    let row = UInt64Array::from_iter_values(first_row as u64..(first_row + trades.len()) as u64);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("sym", Arc::new(sym), false),
        ("ts", Arc::new(ts), false),
        ("price", Arc::new(price), true),
        ("size", Arc::new(size), true),
        ("row_number", Arc::new(row), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A table whose batches of `batch_rows` rows are dealt to `partitions` in turn, so that no partition is a run of rows.
fn table_of(trades: &[Trade], partitions: usize, batch_rows: usize) -> MemTable {
    let schema: SchemaRef = batch_of(&[], 0).schema();
    let mut dealt = vec![Vec::new(); partitions];
    for (turn, chunk) in trades.chunks(batch_rows).enumerate() {
        dealt[turn % partitions].push(batch_of(chunk, turn * batch_rows));
    }
    MemTable::try_new(schema, dealt).unwrap()
}

fn context(partitions: usize, batch_rows: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_rows);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_query_planner(Arc::new(Planner))
        .build();
    let context = SessionContext::new_with_state(state);
    crate::register(&context);
    context
}

/// A context in which `t` holds `trades`.
fn context_with(trades: &[Trade], (partitions, batch_rows): (usize, usize)) -> SessionContext {
    let context = context(partitions, batch_rows);
    context.register_table("t", Arc::new(table_of(trades, partitions, batch_rows))).unwrap();
    context
}

/// The rows of a query as text, columns parted by one space, nulls as NULL.
async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in context.sql(sql).await?.collect().await? {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" "));
        }
    }
    Ok(rows)
}

/// A value as [`rows`] writes it.
fn text(value: Option<f64>) -> String {
    value.map_or("NULL".to_string(), |value| format!("{value:?}"))
}

#[test]
fn a_dictionary_of_text_is_text() {
    let symbol = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    assert!(is_text(&symbol));
    assert!(!is_text(&DataType::Int32));
}

#[test]
fn no_name_of_ours_hides_one_of_datafusion() {
    let plain = SessionContext::new().state();
    let is_of_datafusion = |name: &String| {
        plain.scalar_functions().contains_key(name)
            || plain.aggregate_functions().contains_key(name)
            || plain.window_functions().contains_key(name)
    };
    let ours = ["time_bucket", "xbar", "glob", "first", "last", "vwap", "wavg", "wsum", "dev", "sdev", "svar", "med"];
    let ours = ours.into_iter().chain(["prev", "next", "xprev", "deltas", "ratios", "log_return", "differ", "fills"]);
    let ours = ours.chain(["sums", "prds", "maxs", "mins", "avgs", "msum", "mavg", "mdev", "mmax", "mmin", "mcount"]);
    let ours = ours.chain([
        "ema",
        "wilder",
        "cor",
        "cov",
        "scov",
        "twap",
        "bin",
        "binr",
        "time_bucket_gapfill",
        "locf",
        "interpolate",
    ]);
    for name in ours.map(String::from) {
        assert!(!is_of_datafusion(&name), "{name} is DataFusion's");
    }
}
