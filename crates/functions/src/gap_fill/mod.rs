//! Gap fill: rows for buckets in which nothing happened.
//!
//! `SELECT time_bucket_gapfill('1 minute', ts, start, finish) AS bar, locf(last(price)) … GROUP BY bar` is the aggregate over
//! `time_bucket` with a [`GapFill`](node::GapFill) on top, which adds the missing buckets of every combination of the other
//! group keys (a *series*).
//!
//! | Question | File |
//! | --- | --- |
//! | What can be called? | `calls.rs` |
//! | Where does a statement fill gaps? | `rule.rs`, an analyzer rule |
//! | From when to when? | `bounds.rs` |
//! | How does it appear in logical plans? | `node.rs` |
//! | How are rows made? | `exec.rs` (streams), `series.rs` (one series) |
//!
//! Invariants:
//! - buckets come from the grid of `time_bucket`, time zones and clock changes included,
//! - rows that the aggregate gave are kept, those outside of the range too,
//! - nothing is guessed: without a known start a series begins with its first row, without a known finish it ends with its last,
//! - rows of one series are held in memory, made rows never are.
//!
//! Source: TimescaleDB's `time_bucket_gapfill`, `locf` and `interpolate`.

mod bounds;
mod calls;
mod exec;
mod node;
mod rule;
mod series;

use datafusion::logical_expr::ScalarUDF;

pub use calls::SAMPLE_FILL;
pub use exec::GapFillPlanner;
pub use rule::{GapFillRule, is_null_literal};

/// `time_bucket_gapfill`, `locf` and `interpolate`.
pub(super) fn functions() -> Vec<ScalarUDF> {
    calls::functions()
}
