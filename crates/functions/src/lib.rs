//! The SQL functions a tick database adds to DataFusion's own.
//!
//! | Family | Functions | File |
//! | --- | --- | --- |
//! | buckets | `time_bucket`, `xbar` | `time_bucket.rs`, `xbar.rs` over `grid.rs`, `zone.rs` |
//! | row order | `first`, `last` | `first_last.rs`, `pick_groups.rs`, `order_keys.rs`, `row_order.rs` |
//! | weighted | `vwap`, `wavg`, `wsum` | `weighted.rs` over `folds.rs`, `frame_fold.rs` |
//! | spread | `dev`, `sdev`, `svar`, `med`, `cor`, `cov`, `scov` | `spread.rs` |
//! | neighbours | `prev`, `next`, `xprev`, `deltas`, `ratios`, `log_return`, `differ`, `fills` | `neighbours.rs` |
//! | running and moving | `sums`, `prds`, `maxs`, `mins`, `avgs`, `msum`, `mavg`, `mdev`, `mmax`, `mmin`, `mcount`, `ema`, `wilder` | `moving.rs` over `splay_engine::moving` |
//! | gap fill | `time_bucket_gapfill`, `locf`, `interpolate` | `gap_fill/` |
//! | trading calendars | `in_session`, `session_date`, `next_trading_day`, … and the tables `trading_days`, `trading_sessions`, `special_days`, `calendars` | `sessions/` over `splay_calendar` |
//! | time-weighted | `twap` | `twap.rs` |
//! | places | `bin`, `binr` | `bin.rs` |
//! | other rows by computed offsets, lines through nulls | `lag`, `lead`, `fill` | `row_offsets.rs` |
//! | windows beyond DataFusion's | aggregates with `DISTINCT`, `ORDER BY`, `EXCLUDE` | `over_frames.rs` over `frame_rows.rs` |
//! | dates of times in a zone | `local_date` | `local_date.rs` |
//! | times as numbers | `epoch_ms`, `epoch_us`, `epoch_ns`, `date_diff` | `boundaries.rs` |
//! | times from text, intervals and spans | `strptime`, `to_seconds` and its kin, `age`, `date_sub`, `make_timestamp`, `make_time` | `strptime.rs`, `spans.rs` |
//! | text | `glob`, `regexp_extract_all`, `printf`, `format`, `md5`, `sha256`, `len`, `text[n]` | `glob.rs`, `regexp_extract_all.rs`, `printf.rs`, `md5.rs`, `sha256.rs`, `len.rs`, `characters.rs` |
//! | bits | `hex`, `to_binary`, `bit_count` | `bits.rs` |
//! | intervals by numbers | `*`, `/`, `-` and `abs` of spans of time | `span_arithmetic.rs` |
//! | all values of a group | `mode`, `mad`, `quantile_disc` (`quantile`), `histogram`, `skewness`, `kurtosis`, `entropy`, `product`, `geomean` | `value_aggregates.rs` over `shape.rs` |
//! | the only row of a query as a value | none by name | `only_row.rs` |
//! | DataFusion's with other answers | `min`, `max`, `sum`, `avg`, `corr`, `bit_xor`, `percentile_cont`, and over moving frames `var`, `stddev`, `covar`, `corr`, `regr` of each kind | `corrected_aggregates.rs`, `struct_functions.rs`, `percentile.rs`, `moving_floats.rs` over `frame_fold.rs` |
//! | DataFusion's scalar functions with other answers | `date_part`, `round`, `to_timestamp` | `corrected_scalars.rs` |
//! | sums of dates and intervals | none by name | `date_times.rs` |
//! | sums and zones of parameters, and parameters in `VALUES` | none by name | `parameter_calls.rs` |
//! | instants of a zone's clock, and sums of them and days | none by name | `local_times.rs` |
//!
//! `avg`, `var`, `stddev`, `log`, `median` and all others of DataFusion's mean what they mean there.
//! What each one returns, with its edges and examples, is in `docs/reference/functions.md`.

mod arguments;
mod bin;
mod bits;
mod boundaries;
mod buckets;
mod characters;
mod corrected_aggregates;
mod corrected_scalars;
mod date_times;
mod first_last;
mod folds;
mod frame_blocks;
mod frame_call;
mod frame_evaluator;
mod frame_fold;
mod frame_lists;
mod frame_ranks;
mod frame_rows;
mod gap_fill;
mod glob;
mod grid;
mod len;
mod local_date;
mod local_times;
mod md5;
mod moving;
mod moving_floats;
mod named_cast;
mod neighbours;
mod only_row;
mod order_keys;
mod over_frames;
mod parameter_calls;
mod percentile;
mod pick_groups;
mod printf;
mod regexp_extract_all;
mod row_offsets;
mod row_order;
mod sessions;
mod sha256;
mod shape;
mod span_arithmetic;
mod spans;
mod spread;
mod strptime;
mod struct_functions;
mod time_bucket;
mod twap;
mod value_aggregates;
pub mod walk;
mod weighted;
mod xbar;
mod zone;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

pub use buckets::{buckets, dates_are_made_of, timeline};
pub use date_times::{TimePlanner, as_times};
pub use gap_fill::{GapFillPlanner, GapFillRule, SAMPLE_FILL, is_null_literal};
pub use grid::DAY_NS;
pub use local_date::{LOCAL_DATE, local_date};
pub use local_times::{as_instants, clock_changes, instants_of, is_of_instants, moved_on_clock};
pub use named_cast::CAST;
pub use only_row::only_row;
pub use over_frames::{FramePlanner, MARKER as FRAME_MARKER};
pub use parameter_calls::{AT_ZONE, PARAMETER, SPAN, is_span_of_parameter};
pub use row_order::{OrderedPlan, RowOrder, RowOrderRule, carry_order, is_ordered};
pub use sessions::{
    CalendarSource, OwnCalendars, calendars, fails_out_of_range, own_calendar, special_days, trading_days,
    trading_sessions, with_own_calendars,
};
pub use span_arithmetic::{NEGATED, SpanPlanner};
pub use strptime::in_words_of_chrono;
pub use time_bucket::Timeline;

/// The scalar functions: `time_bucket`, `xbar`, `glob`, `bin`, `binr` and others, and the functions that a gap fill replaces.
pub fn scalar() -> Vec<ScalarUDF> {
    let mut functions = vec![
        ScalarUDF::from(time_bucket::TimeBucket::new()),
        ScalarUDF::from(xbar::Xbar::new()),
        ScalarUDF::from(glob::Glob::new()),
        ScalarUDF::from(over_frames::FrameMarker::new()),
        ScalarUDF::from(named_cast::NamedCast::new()),
        ScalarUDF::from(boundaries::DateDiff::new()),
        ScalarUDF::from(bin::Bin::last_at_or_below()),
        ScalarUDF::from(bin::Bin::first_at_or_above()),
    ];
    functions.extend(parameter_calls::ParameterCall::all().map(ScalarUDF::from));
    functions.push(ScalarUDF::from(len::Len::new()));
    functions.push(local_date());
    functions.extend(md5::Digest::all().map(ScalarUDF::from));
    functions.extend(bits::Bits::all().map(ScalarUDF::from));
    functions.push(ScalarUDF::from(span_arithmetic::Abs::new()));
    functions.push(ScalarUDF::from(regexp_extract_all::RegexpExtractAll::new()));
    functions.extend(printf::FormatFunction::all().map(ScalarUDF::from));
    functions.extend(spans::SpanFunction::all().into_iter().map(ScalarUDF::from));
    functions.extend(strptime::Strptime::all().map(ScalarUDF::from));
    functions.extend(boundaries::Epoch::all().map(ScalarUDF::from));
    functions.extend(gap_fill::functions());
    functions.extend(sessions::functions());
    functions.extend(corrected_scalars::functions());
    functions
}

/// The aggregates: `first`, `last`, `vwap`, `wavg`, `wsum`, `twap`, `med`, and those that are names of
/// DataFusion's (`spread.rs`), and DataFusion's with other answers (`corrected_aggregates.rs`).
pub fn aggregates() -> Vec<AggregateUDF> {
    let mut functions = vec![
        AggregateUDF::from(first_last::RowPick::first()),
        AggregateUDF::from(first_last::RowPick::last()),
        AggregateUDF::from(weighted::WeightedAggregate::vwap()),
        AggregateUDF::from(weighted::WeightedAggregate::wavg()),
        AggregateUDF::from(weighted::WeightedAggregate::wsum()),
        AggregateUDF::from(twap::Twap::new()),
    ];
    functions.extend(spread::aggregates());
    functions.extend(corrected_aggregates::aggregates());
    functions.extend(value_aggregates::aggregates());
    functions.push(array_agg_udaf().as_ref().clone().with_aliases(["list"]));
    functions
}

/// The window functions: those of `neighbours.rs` and `moving.rs`, and `prev`, `xprev`, `next` as names of DataFusion's `lag`
/// and `lead`.
pub fn window() -> Vec<WindowUDF> {
    let mut functions = neighbours::functions();
    functions.extend(moving::functions());
    functions.push(WindowUDF::from(row_offsets::OffsetFunction::new(row_offsets::Kind::Fill, false)));
    functions.push(lag_udwf().as_ref().clone().with_aliases(["prev", "xprev"]));
    functions.push(lead_udwf().as_ref().clone().with_aliases(["next"]));
    functions
}

/// Makes every function of this crate callable in `context`.
///
/// `first` and `last` without an `ORDER BY` also need a [`RowOrderRule`], because only the table knows how its rows are
/// numbered; without it such a call is refused when the query is planned. `time_bucket_gapfill` needs a [`GapFillPlanner`] in
/// the session's query planner.
pub fn register(context: &SessionContext) {
    for function in scalar() {
        context.register_udf(function);
    }
    for function in aggregates() {
        context.register_udaf(function);
    }
    for function in window() {
        context.register_udwf(function);
    }
    for function in sessions::table_functions() {
        context.register_udtf(function.name(), Arc::clone(function.function()));
    }
    context.add_analyzer_rule(Arc::new(GapFillRule));
}

/// Makes `first` and `last` without an `ORDER BY` follow the row order that `tables` knows.
///
/// Also keeps the `ORDER BY` of a sub-query, which DataFusion would drop as having no effect: `first` and `last` over the
/// sub-query follow it.
pub fn register_row_order(context: &SessionContext, tables: Arc<dyn RowOrder>) {
    context.state_ref().write().config_mut().options_mut().sql_parser.enable_subquery_sort_elimination = false;
    context.add_analyzer_rule(Arc::new(RowOrderRule::new(tables)));
}
