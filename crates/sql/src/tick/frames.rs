//! Window functions as tick plans, and the first rows of groups, which are one.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction as WindowExpr;
use datafusion::logical_expr::{
    DistinctOn, Expr, ExprSchemable, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use splay_engine::{
    BinaryOp, Expr as TickExpr, FRAME_ROWS_MAX, FrameFunction, FrameRows, Plan, WindowCall, WindowFunction,
};

use super::calls;
use super::convert::{Unknown, unknown};
use super::recognise::{KEYS_MAX, Recogniser, Stage};

impl Recogniser<'_> {
    /// The first row of each group in an order: the row with the number 1.
    pub(super) fn distinct_on(&mut self, distinct: &DistinctOn) -> Result<Stage, Unknown> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = distinct;
        let schema = input.schema();
        let Some(sort_expr) = sort_expr else { return unknown("distinct on without an order") };
        let keys = on_expr.len();
        let order_by = self.sort_keys(sort_expr, schema)?;
        if keys > KEYS_MAX || order_by.len() < keys {
            return unknown(format!("distinct on by {keys} keys"));
        }
        let partition_by = on_expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let outputs = select_expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let Some(one) = self.constants.fix(&ScalarValue::UInt64(Some(1))) else { return unknown("a number") };
        let input = self.stage(input)?.into_plan(schema);
        let number = TickExpr::Column(input.width());
        let call = WindowCall {
            function: WindowFunction::Partition(Arc::new(calls::WindowCall {
                function: row_number_udwf(),
                arguments: Vec::new(),
                ignore_nulls: false,
            })),
            arguments: Vec::new(),
            partition_by,
            // The order begins with the keys of the groups, which are equal in each.
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

    pub(super) fn window(&mut self, expr: &Expr, schema: &DFSchema) -> Result<WindowCall, Unknown> {
        let window: &WindowExpr = match expr {
            Expr::Alias(alias) => return self.window(&alias.expr, schema),
            Expr::WindowFunction(window) => window,
            other => return unknown(format!("the window function {other}")),
        };
        let params = &window.params;
        if params.partition_by.len() > KEYS_MAX {
            return unknown(format!("a window by {} keys", params.partition_by.len()));
        }
        if params.filter.is_some() || params.distinct {
            return unknown("a window function with a filter or distinct");
        }
        let data_type = expr.get_type(schema).map_err(|error| Unknown(error.to_string()))?;
        let mut arguments = Vec::with_capacity(params.args.len());
        let mut described = Vec::with_capacity(params.args.len());
        for argument in &params.args {
            let argument_type = argument.get_type(schema).map_err(|error| Unknown(error.to_string()))?;
            let converted = self.convert(argument, schema)?;
            let constant = match &converted {
                TickExpr::Constant(number) => match self.constants.fixed(*number) {
                    Some(value) => Some(value),
                    None => return unknown("a window function of a parameter"),
                },
                _ => None,
            };
            described.push((argument_type, constant));
            arguments.push(converted);
        }
        let function = match &window.fun {
            WindowFunctionDefinition::WindowUDF(function) => {
                let known = ["lag", "lead", "deltas", "ratios", "log_return", "differ", "fills", "row_number"];
                if !known.contains(&function.name()) {
                    return unknown(format!("the window function {}", function.name()));
                }
                let ignore_nulls =
                    params.null_treatment == Some(datafusion::logical_expr::expr::NullTreatment::IgnoreNulls);
                WindowFunction::Partition(Arc::new(calls::WindowCall {
                    function: Arc::clone(function),
                    arguments: described.clone(),
                    ignore_nulls,
                }))
            }
            WindowFunctionDefinition::AggregateUDF(function) => {
                if params.null_treatment.is_some() {
                    return unknown("a window function with a treatment of nulls");
                }
                self.framed(function.name(), &params.args, &params.window_frame, params.order_by.is_empty(), schema)?
            }
        };
        if let WindowFunction::Frame(FrameFunction::Count, _) = function
            && described.iter().all(|(_, constant)| constant.as_ref().is_some_and(|value| !value.is_null()))
        {
            arguments.clear();
        }
        let partition_by =
            params.partition_by.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let order_by = self.sort_keys(&params.order_by, schema)?;
        Ok(WindowCall { function, arguments, partition_by, order_by, data_type, first: None })
    }

    fn framed(
        &self,
        name: &str,
        arguments: &[Expr],
        frame: &datafusion::logical_expr::WindowFrame,
        unordered: bool,
        schema: &DFSchema,
    ) -> Result<WindowFunction, Unknown> {
        let function = match name {
            "count" => FrameFunction::Count,
            "sum" => FrameFunction::Sum,
            "avg" => FrameFunction::Average,
            "min" => FrameFunction::Min,
            "max" => FrameFunction::Max,
            other => return unknown(format!("{other} over a window")),
        };
        let is_known = |data_type: &DataType| match function {
            FrameFunction::Count => true,
            FrameFunction::Average => *data_type == DataType::Float64,
            _ => matches!(data_type, DataType::Float64 | DataType::Int64),
        };
        let argument = arguments.first().and_then(|argument| argument.get_type(schema).ok());
        if arguments.len() != 1 || !argument.as_ref().is_some_and(is_known) {
            return unknown(format!("{name} of such values over a window"));
        }
        let unbounded = |bound: &WindowFrameBound| matches!(bound, WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) if value.is_null());
        let rows = match (&frame.start_bound, &frame.end_bound, frame.units) {
            (start, end, _) if unbounded(start) && unbounded(end) => FrameRows::Whole,
            // Without an order all rows are equal, so a range reaches over all of them.
            (start, WindowFrameBound::CurrentRow, WindowFrameUnits::Range) if unbounded(start) && unordered => {
                FrameRows::Whole
            }
            (start, WindowFrameBound::CurrentRow, WindowFrameUnits::Rows) if unbounded(start) => FrameRows::Running,
            (
                WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows))),
                WindowFrameBound::CurrentRow,
                WindowFrameUnits::Rows,
            ) => match usize::try_from(*rows) {
                Ok(rows) if rows < FRAME_ROWS_MAX => FrameRows::Last(rows),
                _ => return unknown("a frame of so many rows"),
            },
            _ => return unknown("such a window frame"),
        };
        Ok(WindowFunction::Frame(function, rows))
    }
}
