//! Window functions as tick plans, and `DISTINCT ON`, which is one.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction as WindowExpr, WindowFunctionParams};
use datafusion::logical_expr::{
    DistinctOn, Expr, ExprSchemable, SortExpr, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, WindowUDF,
};
use splay_engine::{
    Aggregate, AggregateFunction, BinaryOp, Expr as TickExpr, FrameBound, FrameFunction, Plan, WindowCall, WindowFrame,
    WindowFunction,
};

use super::calls;
use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{KEYS_MAX, Recogniser, Stage};

impl Recogniser<'_> {
    /// The first row of each group in an order: the row with number 1.
    pub(super) fn distinct_on(&mut self, distinct: &DistinctOn) -> Result<Stage, UnsupportedExpr> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = distinct;
        let schema = input.schema();
        let Some(sort_expr) = sort_expr else { return unknown("DISTINCT ON without ORDER BY") };
        let keys = on_expr.len();
        let order_by = self.sort_keys(sort_expr, schema)?;
        if keys > KEYS_MAX || order_by.len() < keys {
            return unknown(format!("DISTINCT ON with {keys} keys and ORDER BY with {}", order_by.len()));
        }
        let partition_by = on_expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let outputs = select_expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let Some(one) = self.constants.fix(&ScalarValue::UInt64(Some(1))) else {
            return unknown("a literal that has no Arrow value");
        };
        let input = self.stage(input)?.into_plan(schema);
        let number = TickExpr::Column(input.width());
        let call = WindowCall {
            function: WindowFunction::Partition(Arc::new(
                calls::WindowCall::new(row_number_udwf(), Vec::new(), false).map_err(unsupported)?,
            )),
            arguments: Vec::new(),
            partition_by,
            // The order begins with the group keys, which are equal within a group.
            order_by: order_by[keys..].to_vec(),
            data_type: DataType::UInt64,
            first: Some((BinaryOp::Equal, one)),
        };
        let numbered = Plan::Window { input: Box::new(input), calls: vec![call] };
        let predicate = TickExpr::Binary(BinaryOp::Equal, Box::new(number), Box::new(TickExpr::Constant(one)));
        let first = Plan::Filter { input: Box::new(numbered), predicate };
        let sorted = Plan::Sort { input: Box::new(first), keys: order_by[..keys].to_vec(), fetch: None };
        Ok(Stage::Frame(Plan::Project { input: Box::new(sorted), outputs }))
    }

    pub(super) fn window(&mut self, expr: &Expr, schema: &DFSchema) -> Result<WindowCall, UnsupportedExpr> {
        let window: &WindowExpr = match expr {
            Expr::Alias(alias) => return self.window(&alias.expr, schema),
            Expr::WindowFunction(window) => window,
            other => return unknown(format!("the window function {other}")),
        };
        let params = &window.params;
        if params.partition_by.len() > KEYS_MAX {
            return unknown(format!("PARTITION BY with more than {KEYS_MAX} keys"));
        }
        let data_type = expr.get_type(schema).map_err(|error| UnsupportedExpr(error.to_string()))?;
        let (function, arguments) = match &window.fun {
            WindowFunctionDefinition::WindowUDF(function) => self.partition_function(function, params, schema)?,
            WindowFunctionDefinition::AggregateUDF(function) => {
                self.frame_aggregate(function.name(), params, &data_type, schema)?
            }
        };
        let partition_by =
            params.partition_by.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let order_by = self.sort_keys(&params.order_by, schema)?;
        Ok(WindowCall { function, arguments, partition_by, order_by, data_type, first: None })
    }

    /// A function that is evaluated partition by partition, or the value of one row of a frame.
    fn partition_function(
        &mut self,
        function: &Arc<WindowUDF>,
        params: &WindowFunctionParams,
        schema: &DFSchema,
    ) -> Result<(WindowFunction, Vec<TickExpr>), UnsupportedExpr> {
        let name = function.name();
        if params.filter.is_some() || params.distinct {
            return unknown(format!("the window function {name} with FILTER or DISTINCT"));
        }
        let (mut arguments, described) = self.arguments(&params.args, schema)?;
        let ignore_nulls = params.null_treatment == Some(NullTreatment::IgnoreNulls);
        let nth = described.get(1).and_then(|(_, constant)| constant.clone());
        let call = calls::WindowCall::new(Arc::clone(function), described, ignore_nulls).map_err(unsupported)?;
        if !call.needs_frames().map_err(unsupported)? {
            return Ok((WindowFunction::Partition(Arc::new(call)), arguments));
        }
        let nth = match (name, nth.map(|nth| nth.cast_to(&DataType::Int64))) {
            ("first_value", _) => 1,
            ("last_value", _) => -1,
            ("nth_value", Some(Ok(ScalarValue::Int64(Some(nth))))) => nth,
            _ => return unknown(format!("the window function {name}, which depends on its frame")),
        };
        arguments.truncate(1);
        let frame = window_frame(params, schema)?;
        Ok((WindowFunction::Frame(FrameFunction::Value { nth, ignore_nulls }, frame), arguments))
    }

    /// The arguments, with the type of each, and its value if it is a constant.
    fn arguments(
        &mut self,
        args: &[Expr],
        schema: &DFSchema,
    ) -> Result<(Vec<TickExpr>, ArgumentTypes), UnsupportedExpr> {
        let (mut arguments, mut described) = (Vec::with_capacity(args.len()), Vec::with_capacity(args.len()));
        for argument in args {
            let argument_type = argument.get_type(schema).map_err(|error| UnsupportedExpr(error.to_string()))?;
            let converted = self.convert(argument, schema)?;
            let constant = match &converted {
                TickExpr::Constant(number) => match self.constants.fixed_value(*number) {
                    Some(value) => Some(value),
                    None => return unknown("a window function with a parameter as its argument"),
                },
                _ => None,
            };
            described.push((argument_type, constant));
            arguments.push(converted);
        }
        Ok((arguments, described))
    }

    /// An aggregate over the frame of each row.
    fn frame_aggregate(
        &mut self,
        name: &str,
        params: &WindowFunctionParams,
        data_type: &DataType,
        schema: &DFSchema,
    ) -> Result<(WindowFunction, Vec<TickExpr>), UnsupportedExpr> {
        if params.distinct {
            return unknown(format!("{name}(DISTINCT …) OVER"));
        }
        let frame = window_frame(params, schema)?;
        if let ("first" | "last", [value]) = (name, params.args.as_slice()) {
            if params.filter.is_some() {
                return unknown(format!("{name} with FILTER and OVER"));
            }
            let nth = if name == "first" { 1 } else { -1 };
            let ignore_nulls = params.null_treatment == Some(NullTreatment::IgnoreNulls);
            let function = FrameFunction::Value { nth, ignore_nulls };
            return Ok((WindowFunction::Frame(function, frame), vec![self.convert(value, schema)?]));
        }
        if params.null_treatment.is_some() {
            return unknown(format!("{name} with IGNORE NULLS or RESPECT NULLS, and OVER"));
        }
        let Aggregate { mut function, mut arguments, .. } =
            self.known_aggregate(name, &params.args, false, schema, data_type)?;
        if !frame.is_whole() && !function.has_frames() {
            return unknown(format!("{name} over a window frame"));
        }
        if let Some(filter) = &params.filter {
            // A null is left out as the row would be.
            let filter = self.convert(filter, schema)?;
            let (value, of) = match (arguments.is_empty(), params.args.first()) {
                (false, Some(argument)) => (
                    arguments.remove(0),
                    argument.get_type(schema).map_err(|error| UnsupportedExpr(error.to_string()))?,
                ),
                _ => match self.constants.fix(&ScalarValue::Int64(Some(1))) {
                    Some(one) => (TickExpr::Constant(one), DataType::Int64),
                    None => return unknown("a literal that has no Arrow value"),
                },
            };
            let only = TickExpr::Case { branches: vec![(filter, value)], otherwise: None, data_type: of };
            arguments.insert(0, only);
            if function == AggregateFunction::CountRows {
                function = AggregateFunction::Count;
            }
        }
        Ok((WindowFunction::Frame(FrameFunction::Aggregate(function), frame), arguments))
    }
}

/// Types of arguments, with the values of constants.
type ArgumentTypes = Vec<(DataType, Option<ScalarValue>)>;

fn unsupported(error: splay_engine::Error) -> UnsupportedExpr {
    UnsupportedExpr(error.to_string())
}

/// The frame of a window.
fn window_frame(params: &WindowFunctionParams, schema: &DFSchema) -> Result<WindowFrame, UnsupportedExpr> {
    let (frame, order_by) = (&params.window_frame, params.order_by.as_slice());
    let bound = |bound| frame_bound(bound, frame.units, order_by, schema);
    let (start, end) = (bound(&frame.start_bound)?, bound(&frame.end_bound)?);
    let ends_before_it_begins = match (&start, &end) {
        (FrameBound::Rows(start), FrameBound::Rows(end)) | (FrameBound::Peers(start), FrameBound::Peers(end)) => {
            start > end
        }
        // An unbounded end in place of the start of a frame, or the other way round.
        (FrameBound::Unbounded, _) => matches!(frame.start_bound, WindowFrameBound::Following(_)),
        (_, FrameBound::Unbounded) => matches!(frame.end_bound, WindowFrameBound::Preceding(_)),
        _ => false,
    };
    if ends_before_it_begins {
        return unknown("a window frame that ends before it begins");
    }
    Ok(WindowFrame { start, end })
}

fn frame_bound(
    bound: &WindowFrameBound,
    units: WindowFrameUnits,
    order_by: &[SortExpr],
    schema: &DFSchema,
) -> Result<FrameBound, UnsupportedExpr> {
    let (value, preceding) = match bound {
        WindowFrameBound::CurrentRow => {
            return Ok(match units {
                WindowFrameUnits::Rows => FrameBound::Rows(0),
                // Without an order all rows are equal.
                _ if order_by.is_empty() => FrameBound::Unbounded,
                _ => FrameBound::Peers(0),
            });
        }
        WindowFrameBound::Preceding(value) => (value, true),
        WindowFrameBound::Following(value) => (value, false),
    };
    if value.is_null() {
        return Ok(FrameBound::Unbounded);
    }
    if units == WindowFrameUnits::Range {
        return distance(value, preceding, order_by, schema);
    }
    let ScalarValue::UInt64(Some(rows)) = value else { return unknown("a frame bound that isn't a row count") };
    let Ok(rows) = i64::try_from(*rows) else { return unknown("a frame bound of 2^63 rows or more") };
    let by = if preceding { -rows } else { rows };
    Ok(match units {
        WindowFrameUnits::Rows => FrameBound::Rows(by),
        _ => FrameBound::Peers(by),
    })
}

/// A bound at a distance from the row's sort key.
fn distance(
    value: &ScalarValue,
    preceding: bool,
    order_by: &[SortExpr],
    schema: &DFSchema,
) -> Result<FrameBound, UnsupportedExpr> {
    let [key] = order_by else { return unknown("a RANGE frame with an offset, unless it has one ORDER BY key") };
    let key = key.expr.get_type(schema).map_err(|error| UnsupportedExpr(error.to_string()))?;
    let is_known = match &key {
        DataType::Timestamp(_, _) | DataType::Date32 => {
            matches!(value.data_type(), DataType::Interval(IntervalUnit::MonthDayNano))
        }
        key => (key.is_integer() || matches!(key, DataType::Float32 | DataType::Float64)) && value.data_type() == *key,
    };
    if !is_known {
        return unknown(format!("a RANGE frame with an offset of type {} from a key of type {key}", value.data_type()));
    }
    let by = value.to_array().map_err(|error| UnsupportedExpr(error.to_string()))?;
    Ok(FrameBound::Distance { by, preceding })
}
