//! Reserves memory for functions whose result may be far larger than their arguments, before they are called.
//! Functions that take long per row are called for a few rows at a time, with a check for cancellation in between.
//!
//! [`BoundFunctions`] is the last analyzer rule, so that the optimiser, which evaluates constant calls, already finds
//! the wrapped functions. A wrapped function keeps its name, its types and its simplifications.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::{Walk, WalkPlan};

use super::StatementBounds;
use super::growth::GrowthRule;
use super::reserve::{RESERVED_FROM, hold, reserve};
use super::row_size::is_modest;
use crate::operator_call;
use crate::plan_rewrite::named;

/// Most bytes of an array of text or of lists, whose offsets are 32 bits wide.
const ARRAY_BYTES_MAX: u64 = i32::MAX as u64;

/// Most steps of one call: about a second.
const STEPS_MAX: u64 = 1_000_000_000;

/// Rows of one call of a slow function.
const SLICE_ROWS: usize = 128;

/// Makes the functions of the statement that is being planned reserve memory in its pool.
#[derive(Debug)]
pub(crate) struct BoundFunctions;

impl AnalyzerRule for BoundFunctions {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(bounds) = super::current() else { return Ok(plan) };
        if !has_growth(&plan)? {
            return Ok(plan);
        }
        let bound = plan.rewrite_steps_up(|plan| {
            let names = NamePreserver::new(&plan);
            plan.rewrite_expressions(|expr| named(expr, &names, |expr| expr.transform_up(|expr| bind(expr, &bounds))))
        })?;
        Ok(bound.data)
    }

    fn name(&self) -> &str {
        "bound_functions"
    }
}

/// The function within an expression whose result may be far larger than its arguments, or which may take long. Tick plans leave it to
/// DataFusion, which reserves its memory in the statement's pool.
pub(crate) fn growing(expr: &Expr) -> Result<Option<String>> {
    let mut function = None;
    expr.exists(|expr| {
        function = match expr {
            expr if !grows(expr) || is_modest(expr) => None,
            Expr::ScalarFunction(call) => Some(call.func.name().to_owned()),
            other => Some(other.to_string()),
        };
        Ok(function.is_some())
    })?;
    Ok(function)
}

/// Whether the result of a function may be far larger than its arguments.
pub(crate) fn may_grow(function: &str) -> bool {
    GrowthRule::of(function).is_some()
}

/// The largest result of a function call in bytes, if it may be far larger than the arguments; otherwise 0.
///
/// # Errors
/// If the call would take too many steps.
pub(crate) fn most_bytes(function: &str, args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let Some(growth) = GrowthRule::of(function) else { return Ok(0) };
    check_steps(function, growth, args, rows)?;
    growth.bytes(args, rows)
}

fn check_steps(function: &str, growth: GrowthRule, args: &[ColumnarValue], rows: usize) -> Result<()> {
    let steps = growth.steps(args, rows)?;
    if steps <= STEPS_MAX {
        return Ok(());
    }
    let text =
        format!("{function}() would take {steps} steps for the rows of one batch, of which {STEPS_MAX} are allowed");
    Err(DataFusionError::Execution(text))
}

fn has_growth(plan: &LogicalPlan) -> Result<bool> {
    let mut any_growth = false;
    plan.walk_steps(|node| {
        node.walk_expressions(|expr| {
            any_growth = any_growth || expr.exists(|expr| Ok(grows(expr)))?;
            Ok(if any_growth { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(any_growth)
}

fn grows(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => GrowthRule::of(call.func.name()).is_some(),
        Expr::BinaryExpr(binary) => binary.op == Operator::StringConcat,
        _ => false,
    }
}

fn bind(expr: Expr, bounds: &StatementBounds) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(mut call) => match GrowthRule::of(call.func.name()) {
            Some(growth) => {
                call.func = BoundFunction::of(call.func, growth, bounds);
                Transformed::yes(Expr::ScalarFunction(call))
            }
            None => Transformed::no(Expr::ScalarFunction(call)),
        },
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => {
            match operator_call::function_of(binary.op) {
                Some(function) => {
                    let function = BoundFunction::of(function, GrowthRule::Sum, bounds);
                    Transformed::yes(function.call(vec![*binary.left, *binary.right]))
                }
                None => Transformed::no(Expr::BinaryExpr(binary)),
            }
        }
        other => Transformed::no(other),
    })
}

/// A function that reserves memory in a pool.
#[derive(Debug)]
struct BoundFunction {
    inner: Arc<ScalarUDF>,
    growth: GrowthRule,
    bounds: StatementBounds,
}

impl PartialEq for BoundFunction {
    fn eq(&self, other: &BoundFunction) -> bool {
        self.inner == other.inner
    }
}

impl Eq for BoundFunction {}

impl Hash for BoundFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl BoundFunction {
    fn of(inner: Arc<ScalarUDF>, growth: GrowthRule, bounds: &StatementBounds) -> Arc<ScalarUDF> {
        // The function is wrapped already: the analyzer may run twice.
        if inner.inner().downcast_ref::<BoundFunction>().is_some() {
            return inner;
        }
        Arc::new(ScalarUDF::from(BoundFunction { inner, growth, bounds: bounds.clone() }))
    }

    /// The largest size of the result in bytes.
    fn bytes(&self, args: &ScalarFunctionArgs) -> Result<u64> {
        check_steps(self.inner.name(), self.growth, &args.args, args.number_rows)?;
        let bytes = self.growth.bytes(&args.args, args.number_rows)?;
        if bytes > ARRAY_BYTES_MAX && has_small_offsets(args.return_type()) {
            let text = format!(
                "{}() may give {bytes} bytes for the rows of one batch; a batch may have {ARRAY_BYTES_MAX} in a column",
                self.inner.name()
            );
            return Err(DataFusionError::ResourcesExhausted(text));
        }
        Ok(bytes)
    }

    /// Counts a result that is a constant of the plan: one that is given while the statement is planned.
    fn count_constant(&self, result: &ColumnarValue) -> Result<()> {
        match (result, super::current()) {
            (ColumnarValue::Scalar(value), Some(bounds)) => bounds.count_constant(value.size()),
            _ => Ok(()),
        }
    }

    fn call(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.number_rows <= SLICE_ROWS || !self.growth.is_slow(&args.args) {
            return self.inner.invoke_with_args(args);
        }
        let mut parts = Vec::new();
        for start in (0..args.number_rows).step_by(SLICE_ROWS) {
            self.bounds.check()?;
            let part = slice(&args, start);
            let rows = part.number_rows;
            parts.push(self.inner.invoke_with_args(part)?.into_array(rows)?);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }
}

/// The call's arguments for one slice of its rows.
fn slice(args: &ScalarFunctionArgs, start: usize) -> ScalarFunctionArgs {
    let rows = SLICE_ROWS.min(args.number_rows - start);
    let mut part = args.clone();
    part.number_rows = rows;
    for arg in &mut part.args {
        if let ColumnarValue::Array(array) = arg {
            *array = array.slice(start, rows);
        }
    }
    part
}

fn has_small_offsets(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_))
}

impl ScalarUDFImpl for BoundFunction {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.bytes(&args)?;
        if bytes < RESERVED_FROM {
            let result = self.call(args)?;
            self.count_constant(&result)?;
            return Ok(result);
        }
        let reservation = reserve(&self.bounds.pool, self.inner.name(), bytes)?;
        let result = self.call(args)?;
        self.count_constant(&result)?;
        Ok(match result {
            ColumnarValue::Array(array) => ColumnarValue::Array(hold(&array, reservation)?),
            constant => constant,
        })
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(BoundFunction { inner, growth: self.growth, bounds: self.bounds.clone() }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn propagate_constraints(&self, interval: &Interval, inputs: &[&Interval]) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }
}
