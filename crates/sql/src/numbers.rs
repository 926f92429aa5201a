//! The meaning of numbers where DataFusion's answers depend on their type or on their bits.
//!
//! | Rule | DataFusion 55.2 |
//! | --- | --- |
//! | A result outside the range of its whole-number type is an error ([`NumberRule`], `operator_call.rs`) | wraps around |
//! | A bound of a `RANGE` frame may lie outside the range of its key's type ([`NumberRule`]) | moves it to the partition's end, or to zero |
//! | With a null in a list, `IN` is null for values that aren't in the list ([`NumberRule`]) | merges two lists over one value, and then treats null as a value |
//! | A cast to fewer digits, or to a coarser unit of time, is evaluated before its result is compared ([`NumberRule`]) | removes the cast and compares the argument |
//! | Both zeros are equal everywhere ([`NumberRule`]) | only in `=` and `GROUP BY`; and takes conditions on a key, such as `1 / k > 0`, to the rows of a group and to the key's equal of a join, as if it were the same value |
//! | All NaN are equal, and greater than all numbers (`one_nan.rs`) | orders them by sign and payload |
//!
//! `min`, `max` and `sum` are in `corrected_aggregates.rs` of `functions`, comparisons of decimals with floats in `coercion.rs`. [`NumberRule`] runs after the
//! coercion of types. Statements that run as tick plans skip it, because the engine's kernels follow the same rules.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, utils::take_function_args};
use datafusion::logical_expr::expr::{
    AggregateFunction, Case, InList, InSubquery, ScalarFunction, Sort as SortKey, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::is_null_literal;
use splay_store::canonical;

use crate::operator_call;
use crate::plan_rewrite::{named, rewritten};

/// Wraps a value, so that DataFusion doesn't optimise what is below it.
pub(crate) static AS_CAST: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| FloatForm::function("as_cast", |_| None));

static ONE_ZERO: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| FloatForm::function("one_zero", canonical));

/// Makes whole numbers fail instead of wrapping, and unifies both zeros.
#[derive(Debug)]
pub(crate) struct NumberRule;

impl AnalyzerRule for NumberRule {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewritten(
            plan,
            |node, schema| {
                // The output columns of these are the same, whatever their keys are.
                Ok(Transformed::no(match node {
                    LogicalPlan::Aggregate(mut aggregate) => {
                        group_keys(&mut aggregate.group_expr, schema)?;
                        LogicalPlan::Aggregate(aggregate)
                    }
                    LogicalPlan::Join(mut join) => {
                        for (_, right) in &mut join.on {
                            *right = one_zero(std::mem::take(right), join.right.schema())?;
                        }
                        LogicalPlan::Join(join)
                    }
                    LogicalPlan::Sort(mut sort) => {
                        keys(&mut sort.expr, schema)?;
                        LogicalPlan::Sort(sort)
                    }
                    LogicalPlan::Distinct(Distinct::On(mut on)) => {
                        on.on_expr = on.on_expr.into_iter().map(|e| one_zero(e, schema)).collect::<Result<_>>()?;
                        on.sort_expr.iter_mut().try_for_each(|sort| keys(sort, schema))?;
                        LogicalPlan::Distinct(Distinct::On(on))
                    }
                    other => other,
                }))
            },
            number,
        )
    }

    fn name(&self) -> &str {
        "numbers"
    }
}

fn number(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(Transformed::yes(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
                && is_whole(&left, schema)
                && is_whole(&right, schema) =>
        {
            match operator_call::function_of(op) {
                Some(function) => function.call(vec![*left, *right]),
                None => Expr::BinaryExpr(BinaryExpr { left, op, right }),
            }
        }
        // Keys of a join, perhaps. The columns are never the same value for DataFusion then.
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::IsNotDistinctFrom), right })
            if is_column(&left) && is_column(&right) =>
        {
            let right = Box::new(one_zero(*right, schema)?);
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Expr::InSubquery(InSubquery { expr: Box::new(one_zero(*expr, schema)?), subquery, negated })
        }
        Expr::Negative(inner) if is_whole(&inner, schema) && !matches!(*inner, Expr::Literal(_, _)) => {
            let zero = ScalarValue::new_zero(&inner.get_type(schema)?)?;
            match operator_call::function_of(Operator::Minus) {
                Some(function) => function.call(vec![Expr::Literal(zero, None), *inner]),
                None => Expr::Negative(inner),
            }
        }
        Expr::Case(Case { expr: Some(subject), when_then_expr, else_expr }) if is_float(&subject, schema) => {
            let when = |when: Box<Expr>| one_zero(*when, schema).map(Box::new);
            let branches = when_then_expr.into_iter().map(|(w, then)| Ok((when(w)?, then))).collect::<Result<_>>()?;
            Expr::Case(Case { expr: Some(when(subject)?), when_then_expr: branches, else_expr })
        }
        // DataFusion compares `x` with 4.00 where `x::int = 4` is asked for.
        Expr::Cast(Cast { ref expr, ref field }) | Expr::TryCast(TryCast { ref expr, ref field })
            if expr.get_type(schema).is_ok_and(|from| is_coarser(field.data_type(), &from)) =>
        {
            AS_CAST.call(vec![expression])
        }
        // DataFusion merges two lists over one value, and treats a null in them as a value like others: `x NOT IN (1, NULL) AND x IN (1, 2)`,
        // which is never true, would become `x IN (2)`.
        Expr::InList(InList { expr, list, negated }) if list.iter().any(is_null_literal) => {
            let list: Vec<Expr> = list.into_iter().filter(|item| !is_null_literal(item)).collect();
            let null = Expr::Literal(ScalarValue::Boolean(None), None);
            if list.is_empty() {
                null
            } else {
                let rest = number(Expr::InList(InList { expr, list, negated }), schema)?.data;
                if negated { rest.and(null) } else { rest.or(null) }
            }
        }
        // DataFusion compares the bits of a value with those of a list.
        Expr::InList(InList { expr, list, negated }) if is_float(&expr, schema) && list.iter().any(may_be_zero) => {
            let list = list.into_iter().map(|item| one_zero(item, schema)).collect::<Result<_>>()?;
            Expr::InList(InList { expr: Box::new(one_zero(*expr, schema)?), list, negated })
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            if params.distinct {
                params.args = params.args.into_iter().map(|arg| one_zero(arg, schema)).collect::<Result<_>>()?;
            }
            keys(&mut params.order_by, schema)?;
            Expr::AggregateFunction(AggregateFunction { func, params })
        }
        Expr::WindowFunction(window) => Expr::WindowFunction(Box::new(window_keys(*window, schema)?)),
        other => return Ok(Transformed::no(other)),
    }))
}

/// Whether a cast may give different values of a type the same value of a coarser one, as far as DataFusion takes it back before a comparison.
fn is_coarser(to: &DataType, from: &DataType) -> bool {
    match (from, to) {
        (DataType::Decimal128(_, from) | DataType::Decimal256(_, from), to) => match to {
            DataType::Decimal128(_, to) | DataType::Decimal256(_, to) => to < from,
            to => *from > 0 && to.is_integer(),
        },
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => to < from,
        _ => false,
    }
}

fn window_keys(mut window: WindowFunction, schema: &DFSchema) -> Result<WindowFunction> {
    let params = &mut window.params;
    let partition_by = std::mem::take(&mut params.partition_by);
    params.partition_by = partition_by.into_iter().map(|key| one_zero(key, schema)).collect::<Result<_>>()?;
    if params.distinct {
        let args = std::mem::take(&mut params.args);
        params.args = args.into_iter().map(|arg| one_zero(arg, schema)).collect::<Result<_>>()?;
    }
    keys(&mut params.order_by, schema)?;
    widen_range(params, schema)?;
    Ok(window)
}

/// Widens the key of a frame `RANGE` of whole numbers with its distances, so that no bound is beyond its range.
fn widen_range(params: &mut WindowFunctionParams, schema: &DFSchema) -> Result<()> {
    let frame = &mut params.window_frame;
    let ([key], WindowFrameUnits::Range) = (params.order_by.as_mut_slice(), frame.units) else { return Ok(()) };
    let mut bounds = [&mut frame.start_bound, &mut frame.end_bound].map(|bound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => (!by.is_null()).then_some(by),
        WindowFrameBound::CurrentRow => None,
    });
    let wide = match key.expr.get_type(schema)? {
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        data_type if data_type.is_integer() => DataType::Int64,
        _ => return Ok(()),
    };
    if bounds.iter().all(Option::is_none) {
        return Ok(());
    }
    key.expr = std::mem::take(&mut key.expr).cast_to(&wide, schema)?;
    for by in bounds.iter_mut().flatten() {
        **by = by.cast_to(&wide)?;
    }
    Ok(())
}

fn group_keys(keys: &mut [Expr], schema: &DFSchema) -> Result<()> {
    let names = NamePreserver::new_for_projection();
    for key in keys {
        *key = named(std::mem::take(key), &names, |key| Ok(Transformed::yes(one_zero(key, schema)?)))?.data;
    }
    Ok(())
}

fn is_column(expression: &Expr) -> bool {
    matches!(expression, Expr::Column(_) | Expr::OuterReferenceColumn(_, _))
}

fn keys(keys: &mut [SortKey], schema: &DFSchema) -> Result<()> {
    keys.iter_mut().try_for_each(|key| {
        key.expr = one_zero(std::mem::take(&mut key.expr), schema)?;
        Ok(())
    })
}

/// `nullif` of floats that treats both zeros as equal. The result is the first argument unchanged, unless both are equal. On both paths, before types
/// are coerced.
pub(crate) fn nullif(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => {
            let args = args.into_iter().map(|arg| one_zero(arg, schema)).collect::<Result<_>>()?;
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn may_be_zero(item: &Expr) -> bool {
    match item {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0,
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0,
        _ => true,
    }
}

/// A float with both zeros as one; other values unchanged.
pub(crate) fn one_zero(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    let is_clear = match &expression {
        Expr::Literal(value, None) => !matches!(value, ScalarValue::Float64(Some(v)) if v.to_bits() == 1 << 63),
        Expr::ScalarFunction(call) => call.func == *ONE_ZERO,
        _ => false,
    };
    Ok(if is_clear || !is_float(&expression, schema) { expression } else { ONE_ZERO.call(vec![expression]) })
}

fn is_whole(expression: &Expr, schema: &DFSchema) -> bool {
    operator_call::is_of_whole_numbers(expression)
        || expression.get_type(schema).is_ok_and(|data_type| data_type.is_integer())
}

pub(crate) fn is_float(expression: &Expr, schema: &DFSchema) -> bool {
    !operator_call::is_of_whole_numbers(expression)
        && expression.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

/// Converts floats to a canonical form.
#[derive(Debug)]
pub(crate) struct FloatForm {
    name: &'static str,
    form: fn(&ArrayRef) -> Option<ArrayRef>,
    signature: Signature,
}

impl FloatForm {
    /// A function that rewrites values that don't have the canonical form.
    pub(crate) fn function(name: &'static str, form: fn(&ArrayRef) -> Option<ArrayRef>) -> Arc<ScalarUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::from(FloatForm { name, form, signature }))
    }
}

impl PartialEq for FloatForm {
    fn eq(&self, other: &FloatForm) -> bool {
        self.name == other.name
    }
}

impl Eq for FloatForm {}

impl Hash for FloatForm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for FloatForm {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [data_type] = take_function_args(self.name(), types)?;
        Ok(data_type.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [field] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::new(Field::new(self.name, field.data_type().clone(), field.is_nullable())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = take_function_args(self.name(), arguments.args)?;
        Ok(match values {
            ColumnarValue::Array(values) => ColumnarValue::Array((self.form)(&values).unwrap_or(values)),
            ColumnarValue::Scalar(value) => {
                let values = value.to_array()?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&(self.form)(&values).unwrap_or(values), 0)?)
            }
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }
}
