//! Aggregates over window frames that DataFusion has no windows for: `DISTINCT`, an `ORDER BY` of the call, `EXCLUDE`, offsets that are
//! computed for each row, moving frames of aggregates that can't give rows back, and lists and texts of all rows of each frame, whose bytes are
//! counted.
//!
//! `resolve.rs` puts what DataFusion's planner wouldn't take into a call of [`MARKER`] among the keys of the partition, which has no part in
//! them. [`FramePlanner`] makes a window function over whole partitions of it: keys and offsets are its arguments, and it finds the frames itself
//! (`frame_evaluator.rs`). So tick plans call it as any function of partitions.
//!
//! - Frames, exclusions, distinct values, order: <https://www.postgresql.org/docs/current/sql-expressions.html#SYNTAX-WINDOW-FUNCTIONS>.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::nth_value::nth_value_udaf;
use datafusion::logical_expr::expr::{
    NullTreatment, ScalarFunction, Sort as SortExpr, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawWindowExpr};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::COUNT_STAR_EXPANSION;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, LimitEffect, PartitionEvaluator, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility, WindowFrame, WindowFrameBound, WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;

use crate::first_last::RowPick;
use crate::frame_call::FrameCall;
use crate::frame_evaluator::FrameEvaluator;
use crate::frame_rows::{Exclusion, Units};
use crate::row_offsets::{self, OffsetFunction};
use crate::walk::Walk;

/// Says among the keys of a partition what else there is to a window.
pub const MARKER: &str = "__frame";

/// The function that [`MARKER`] names. It is planned and never run.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameMarker {
    signature: Signature,
}

impl FrameMarker {
    pub(super) fn new() -> FrameMarker {
        FrameMarker { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FrameMarker {
    fn name(&self) -> &str {
        MARKER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{MARKER} isn't a function")
    }
}

/// What a marker says.
struct MarkerArguments {
    exclusion: Exclusion,
    /// Offsets in the place of those of the frame, where these are null.
    offsets: [Expr; 2],
    /// Keys of the call's own order.
    order: Vec<(Expr, SortOptions)>,
}

impl MarkerArguments {
    fn of(args: Vec<Expr>) -> Result<MarkerArguments> {
        let mut args = args.into_iter();
        let (Some(exclusion), Some(start), Some(end)) = (args.next(), args.next(), args.next()) else {
            return plan_err!("{MARKER} isn't a function");
        };
        let exclusion = match text(&exclusion) {
            Some("") => Exclusion::Nothing,
            Some("current row") => Exclusion::CurrentRow,
            Some("group") => Exclusion::Group,
            Some("ties") => Exclusion::Ties,
            _ => return plan_err!("{MARKER} isn't a function"),
        };
        let mut order = Vec::new();
        while let (Some(key), Some(options)) = (args.next(), args.next()) {
            let options = match text(&options) {
                Some("asc first") => SortOptions::new(false, true),
                Some("asc last") => SortOptions::new(false, false),
                Some("desc first") => SortOptions::new(true, true),
                _ => SortOptions::new(true, false),
            };
            order.push((key, options));
        }
        Ok(MarkerArguments { exclusion, offsets: [start, end], order })
    }

    fn nothing() -> MarkerArguments {
        let null = || Expr::Literal(ScalarValue::Null, None);
        MarkerArguments { exclusion: Exclusion::Nothing, offsets: [null(), null()], order: Vec::new() }
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, None) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Null, _))
}

/// Plans the windows of this file.
#[derive(Debug)]
pub struct FramePlanner;

impl ExprPlanner for FramePlanner {
    fn plan_window(&self, mut window: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        let mut marker = None;
        let mut keys = Vec::with_capacity(window.partition_by.len());
        for key in std::mem::take(&mut window.partition_by) {
            match key {
                Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == MARKER => {
                    marker = Some(MarkerArguments::of(args)?);
                }
                key => keys.push(key),
            }
        }
        window.partition_by = keys;
        let aggregate = match &window.func_def {
            WindowFunctionDefinition::AggregateUDF(aggregate) => Arc::clone(aggregate),
            WindowFunctionDefinition::WindowUDF(function) => {
                if let Some(planned) = self::shifted(&window, function.name(), marker.as_ref())? {
                    return Ok(PlannerResult::Planned(planned));
                }
                let Some(marker) = &marker else { return Ok(PlannerResult::Original(window)) };
                if !marker.order.is_empty() {
                    return plan_err!("{} takes the order of its window, and no ORDER BY of its own", function.name());
                }
                match function.name() {
                    // Functions that pick one row of the frame are run as aggregates, too.
                    "first_value" => Arc::new(AggregateUDF::from(RowPick::first())),
                    "last_value" => Arc::new(AggregateUDF::from(RowPick::last())),
                    "nth_value" if window.null_treatment == Some(NullTreatment::IgnoreNulls) => {
                        return plan_err!("nth_value with IGNORE NULLS over a frame with EXCLUDE or computed offsets");
                    }
                    "nth_value" => nth_value_udaf(),
                    // The others take no notice of the frame.
                    _ => return Ok(PlannerResult::Original(window)),
                }
            }
        };
        let is_distinct = window.distinct && !matches!(aggregate.name(), "min" | "max");
        let marker = match marker {
            Some(marker) => marker,
            None if is_distinct
                || gathers(aggregate.name())
                || (slides(&window.window_frame) && cannot_slide(aggregate.name()))
                || (moves(&window.window_frame, &window.order_by) && is_ranked(aggregate.name())) =>
            {
                MarkerArguments::nothing()
            }
            None => return Ok(PlannerResult::Original(window)),
        };
        planned(window, aggregate, is_distinct, marker).map(PlannerResult::Planned)
    }
}

fn planned(
    window: RawWindowExpr,
    aggregate: Arc<AggregateUDF>,
    is_distinct: bool,
    marker: MarkerArguments,
) -> Result<Expr> {
    let RawWindowExpr { mut args, partition_by, order_by, window_frame, filter, null_treatment, .. } = window;
    let MarkerArguments { exclusion, offsets, order } = marker;
    if aggregate.name() == "count" && is_of_rows(&args) {
        if is_distinct {
            return plan_err!("count(DISTINCT *) OVER: say of which column");
        }
        args = vec![Expr::Literal(COUNT_STAR_EXPANSION, None)];
    }
    let call = FrameCall {
        aggregate,
        arguments: args.len(),
        is_distinct,
        ignores_nulls: null_treatment == Some(NullTreatment::IgnoreNulls),
        has_filter: filter.is_some(),
        order: order.iter().map(|(_, options)| *options).collect(),
        keys: order_by.iter().map(|key| SortOptions::new(!key.asc, key.nulls_first)).collect(),
        units: Units::of(window_frame.units),
        bounds: [window_frame.start_bound, window_frame.end_bound],
        offsets: [!is_null(&offsets[0]), !is_null(&offsets[1])],
        exclusion,
    };
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = OverFrames { name: call.described(), call, signature };
    let mut all = args;
    all.extend(filter.map(|filter| *filter));
    all.extend(order.into_iter().map(|(key, _)| key));
    all.extend(order_by.iter().map(|key| key.expr.clone()));
    all.extend(offsets.into_iter().filter(|offset| !is_null(offset)));
    let params = WindowFunctionParams {
        args: all,
        partition_by,
        window_frame: WindowFrame::new((!order_by.is_empty()).then_some(false)),
        order_by,
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    let fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(function)));
    Ok(Expr::WindowFunction(Box::new(WindowFunction { fun, params })))
}

/// `lag` and `lead` with an offset of each row, or one that may be null, or, of `lead`, beyond nulls, which DataFusion 55.2 counts wrongly; `fill` with
/// the key of its window.
fn shifted(window: &RawWindowExpr, name: &str, marker: Option<&MarkerArguments>) -> Result<Option<Expr>> {
    // DataFusion's take literals alone, and a null, which a parameter may be, for an offset of 1.
    let is_computed = window.args.iter().skip(1).any(|argument| !argument.column_refs().is_empty())
        || window.args.get(1).map(may_be_null).transpose()?.unwrap_or(false);
    let ignores_nulls = window.null_treatment == Some(NullTreatment::IgnoreNulls);
    let kind = match name {
        "lag" if is_computed => row_offsets::Kind::Lag,
        "lead" if is_computed || ignores_nulls && window.args.len() > 1 => row_offsets::Kind::Lead,
        row_offsets::FILL => row_offsets::Kind::Fill,
        _ => return Ok(None),
    };
    let is_fill = kind == row_offsets::Kind::Fill;
    let is_more = window.distinct || window.filter.is_some() || ignores_nulls && is_fill;
    if is_more || marker.is_some_and(|marker| !marker.order.is_empty()) {
        return plan_err!("{name} takes no DISTINCT, FILTER, IGNORE NULLS or ORDER BY of its own here");
    }
    let mut args = window.args.clone();
    if is_fill {
        let [key] = window.order_by.as_slice() else {
            return plan_err!("fill needs an ORDER BY of one key in its window");
        };
        args.truncate(1);
        args.push(key.expr.clone());
    }
    let params = WindowFunctionParams {
        args,
        partition_by: window.partition_by.clone(),
        window_frame: WindowFrame::new((!window.order_by.is_empty()).then_some(false)),
        order_by: window.order_by.clone(),
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    let fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(OffsetFunction::new(kind, ignores_nulls))));
    Ok(Some(Expr::WindowFunction(Box::new(WindowFunction { fun, params }))))
}

/// Whether a constant may be null, as far as its text tells.
fn may_be_null(constant: &Expr) -> Result<bool> {
    constant.exists(|part| {
        Ok(match part {
            Expr::Literal(value, _) => value.is_null(),
            Expr::Placeholder(_) => true,
            _ => false,
        })
    })
}

/// Whether a call is `count()` or `count(*)`.
#[expect(deprecated, reason = "DataFusion's planner writes a star so")]
fn is_of_rows(args: &[Expr]) -> bool {
    matches!(args, [] | [Expr::Wildcard { .. }])
}

/// An aggregate over frames as a window function.
#[derive(Debug, Clone)]
pub(super) struct OverFrames {
    name: String,
    call: FrameCall,
    signature: Signature,
}

impl PartialEq for OverFrames {
    fn eq(&self, other: &OverFrames) -> bool {
        // The name says all but the types of keys.
        self.name == other.name && self.call.aggregate == other.call.aggregate && self.call.keys == other.call.keys
    }
}

impl Eq for OverFrames {}

impl Hash for OverFrames {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl WindowUDFImpl for OverFrames {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [filter, _, _, offsets] = self.call.places();
        let Some(own) = arg_types.get(..self.call.arguments) else { return plan_err!("{} lacks arguments", self.name) };
        let fields: Vec<FieldRef> = own.iter().map(|of| Arc::new(Field::new("a", of.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.call.aggregate.as_ref())?;
        let mut types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        for (place, of) in arg_types.iter().enumerate().skip(self.call.arguments) {
            types.push(match of {
                _ if filter.contains(&place) => DataType::Boolean,
                _ if offsets.contains(&place) && self.call.units != Units::Range => DataType::Int64,
                of => of.clone(),
            });
        }
        Ok(types)
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(own) = args.input_fields().get(..self.call.arguments) else {
            return plan_err!("{} lacks arguments", self.name);
        };
        let result = self.call.aggregate.return_field(own)?;
        Ok(Arc::new(Field::new(args.name(), result.data_type().clone(), true)))
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let own = |fields: &[FieldRef]| fields.iter().take(self.call.arguments).cloned().collect::<Vec<_>>();
        let fields = own(args.input_fields());
        let result = self.call.aggregate.return_field(&fields)?;
        let exprs: Vec<Arc<dyn PhysicalExpr>> = args.input_exprs().iter().take(self.call.arguments).cloned().collect();
        let evaluator = FrameEvaluator { call: self.call.clone(), fields, exprs, result };
        // Refused now rather than at the first row.
        evaluator.accumulator()?;
        Ok(Box::new(evaluator))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// Whether rows leave a frame while it moves on.
fn slides(frame: &WindowFrame) -> bool {
    !matches!(&frame.start_bound, WindowFrameBound::Preceding(offset) if offset.is_null())
}

/// Whether rows have different frames.
fn moves(frame: &WindowFrame, order_by: &[SortExpr]) -> bool {
    let is_whole = matches!(&frame.end_bound, WindowFrameBound::Following(offset) if offset.is_null());
    slides(frame) || !is_whole && !order_by.is_empty()
}

/// Aggregates that ranks tell over moving frames, for which DataFusion sorts each frame.
fn is_ranked(name: &str) -> bool {
    matches!(name, "median" | "mode" | "percentile_cont" | "quantile_disc")
}

/// Aggregates whose value holds all rows of the frame, so that those of many frames may be far larger than the rows. DataFusion doesn't count them.
fn gathers(name: &str) -> bool {
    matches!(name, "array_agg" | "histogram" | "string_agg")
}

/// Aggregates whose accumulator takes rows in and can't give them back, so that DataFusion has no moving frames of them.
fn cannot_slide(name: &str) -> bool {
    matches!(
        name,
        "any_value"
            | "approx_distinct"
            | "approx_median"
            | "approx_percentile_cont"
            | "bit_and"
            | "bit_or"
            | "bool_and"
            | "bool_or"
            | "entropy"
            | "geomean"
            | "histogram"
            | "kurtosis"
            | "kurtosis_pop"
            | "mad"
            | "mode"
            | "product"
            | "quantile_disc"
            | "skewness"
            | "string_agg"
    )
}
