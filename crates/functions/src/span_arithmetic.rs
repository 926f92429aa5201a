//! Arithmetic that DataFusion 55.2 has no types for: intervals and differences of times by numbers, their negation and size, and `[…]` of texts.
//!
//! - `interval * n`, `n * interval` and `interval / n` keep months, days and time apart; what a part of a month or day leaves goes to the smaller
//!   unit, a month of 30 days and a day of 24 hours, as in PostgreSQL: <https://www.postgresql.org/docs/current/functions-datetime.html>.
//! - A difference of times counts nanoseconds. What doesn't fit is an error, and so is a division by zero.
//! - [`NEGATED`] is the operator that `resolve.rs` writes `-(a - b)` with.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DurationNanosecondArray, Float64Array, Int64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, DurationNanosecondType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::functions::math::abs;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, GetFieldAccess, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::arguments::is_text;
use crate::characters::Characters;

/// The operator whose value is its right side with the other sign.
pub const NEGATED: &str = "__negated";

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DURATION: DataType = DataType::Duration(TimeUnit::Nanosecond);
const DAY_NS: i128 = 86_400_000_000_000;
const DAYS_OF_MONTH: i128 = 30;

/// Plans the operators of this file.
#[derive(Debug)]
pub struct SpanPlanner;

impl ExprPlanner for SpanPlanner {
    fn plan_binary_op(&self, expr_parts: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_span = |expr: &Expr| may_be_span(expr) && expr.get_type(schema).is_ok_and(|of| is_span(&of));
        let op = match &expr_parts.op {
            BinaryOperator::Multiply if is_span(&expr_parts.left) || is_span(&expr_parts.right) => Kind::Times,
            BinaryOperator::Divide if is_span(&expr_parts.left) && !is_span(&expr_parts.right) => Kind::Over,
            BinaryOperator::Custom(name) if name == NEGATED => return negated(expr_parts.right, schema),
            op if compares(op) => return with_booleans(expr_parts, schema),
            _ => return Ok(PlannerResult::Original(expr_parts)),
        };
        Ok(PlannerResult::Planned(function(op).call(vec![expr_parts.left, expr_parts.right])))
    }

    fn plan_field_access(
        &self,
        expr_parts: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if !expr_parts.expr.get_type(schema).is_ok_and(|of| is_text(&of)) {
            return Ok(PlannerResult::Original(expr_parts));
        }
        let args = match expr_parts.field_access {
            GetFieldAccess::ListIndex { key } => vec![expr_parts.expr, *key],
            GetFieldAccess::ListRange { start, stop, stride } if *stride == lit(1i64) => {
                vec![expr_parts.expr, *start, *stop]
            }
            _ => return plan_err!("[…] of a text takes a place, or the first and the last"),
        };
        Ok(PlannerResult::Planned(ScalarUDF::from(Characters::new()).call(args)))
    }
}

fn is_span(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

/// Whether an expression may have such a type, without a look at the types within it.
fn may_be_span(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => is_span(&value.data_type()),
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Plus | Operator::Minus),
        _ => true,
    }
}

/// The right side with the other sign.
fn negated(of: Expr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    Ok(PlannerResult::Planned(match of.get_type(schema)? {
        DataType::Duration(_) => function(Kind::Times).call(vec![lit(-1i64), of]),
        other if other.is_unsigned_integer() => return plan_err!("- has no {other}: cast it to a signed type"),
        other if other.is_numeric() || other.is_null() || is_span(&other) => Expr::Negative(Box::new(of)),
        other => return plan_err!("- takes a number or a span of time, and not a {other}"),
    }))
}

fn compares(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq)
}

/// Refuses a boolean beside a number, which DataFusion has no common type for.
fn with_booleans(expr_parts: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let is_number = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.data_type().is_numeric());
    let is_boolean = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of == DataType::Boolean);
    let is_mixed = |one: &Expr, other: &Expr| is_number(one) && is_boolean(other);
    if is_mixed(&expr_parts.left, &expr_parts.right) || is_mixed(&expr_parts.right, &expr_parts.left) {
        return plan_err!(
            "a boolean isn't compared with a number: write b or NOT b, or cast it, as in CAST(b AS INT) = 1"
        );
    }
    Ok(PlannerResult::Original(expr_parts))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Times,
    Over,
}

fn function(kind: Kind) -> ScalarUDF {
    ScalarUDF::from(SpanArithmetic { kind, signature: Signature::user_defined(Volatility::Immutable) })
}

/// A span of time by a number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SpanArithmetic {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for SpanArithmetic {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Times => "*",
            Kind::Over => "/",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} {} {}", left.schema_name(), self.name(), right.schema_name())),
            _ => plan_err!("{} has two sides", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let side = |of: &DataType| match of {
            DataType::Duration(_) => Some(DURATION),
            DataType::Interval(_) => Some(INTERVAL),
            of if of.is_integer() || of.is_null() => Some(DataType::Int64),
            of if of.is_numeric() => Some(DataType::Float64),
            _ => None,
        };
        let sides: Option<Vec<DataType>> = arg_types.iter().map(side).collect();
        match sides {
            Some(sides) if sides.iter().filter(|of| is_span(of)).count() == 1 => Ok(sides),
            _ => plan_err!("{} of a span of time takes a number on its other side", self.name()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let span = arg_types.iter().find(|of| is_span(of));
        span.cloned().map_or_else(|| plan_err!("{} takes a span of time", self.name()), Ok)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let mut sides = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        if sides.first().is_some_and(|side| !is_span(side.data_type())) {
            sides.reverse();
        }
        let [spans, numbers] = sides.as_slice() else { return exec_err!("{} has two sides", self.name()) };
        let result = self.of(spans, numbers)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl SpanArithmetic {
    fn of(&self, spans: &ArrayRef, numbers: &ArrayRef) -> Result<ArrayRef> {
        let number = NumberColumn::of(numbers, self.kind)?;
        if spans.data_type() == &DURATION {
            let values = spans.as_primitive::<DurationNanosecondType>().iter().enumerate();
            let values = values.map(|(row, span)| match (span, number.at(row)?) {
                (Some(span), Some(by)) => by.nanoseconds(span).map(Some),
                _ => Ok(None),
            });
            return Ok(Arc::new(values.collect::<Result<DurationNanosecondArray>>()?));
        }
        let values = spans.as_primitive::<IntervalMonthDayNanoType>().iter().enumerate();
        let values = values.map(|(row, span)| match (span, number.at(row)?) {
            (Some(span), Some(by)) => by.interval(span).map(Some),
            _ => Ok(None),
        });
        Ok(Arc::new(values.collect::<Result<IntervalMonthDayNanoArray>>()?))
    }
}

/// The numbers of a column, and what is done by them.
enum NumberColumn<'a> {
    Whole(&'a Int64Array, Kind),
    Floats(&'a Float64Array, Kind),
}

impl NumberColumn<'_> {
    fn of(numbers: &ArrayRef, kind: Kind) -> Result<NumberColumn<'_>> {
        match numbers.data_type() {
            DataType::Int64 => Ok(NumberColumn::Whole(numbers.as_primitive::<Int64Type>(), kind)),
            DataType::Float64 => Ok(NumberColumn::Floats(numbers.as_primitive::<Float64Type>(), kind)),
            other => exec_err!("a span of time by a {other}"),
        }
    }

    fn at(&self, row: usize) -> Result<Option<SpanFactor>> {
        use arrow::array::Array;
        Ok(match self {
            NumberColumn::Whole(numbers, _) if numbers.is_null(row) => None,
            NumberColumn::Floats(numbers, _) if numbers.is_null(row) => None,
            NumberColumn::Whole(numbers, Kind::Times) => Some(SpanFactor::Times(i128::from(numbers.value(row)))),
            NumberColumn::Whole(numbers, Kind::Over) if numbers.value(row) == 0 => return by_zero(),
            NumberColumn::Whole(numbers, Kind::Over) => Some(SpanFactor::Over(i128::from(numbers.value(row)))),
            NumberColumn::Floats(numbers, Kind::Times) => Some(SpanFactor::Factor(numbers.value(row))),
            NumberColumn::Floats(numbers, Kind::Over) if numbers.value(row) == 0.0 => return by_zero(),
            NumberColumn::Floats(numbers, Kind::Over) => Some(SpanFactor::Part(numbers.value(row))),
        })
    }
}

fn by_zero<T>() -> Result<T> {
    exec_err!("a span of time is divided by zero")
}

/// What is done to a span.
#[derive(Debug, Clone, Copy)]
enum SpanFactor {
    Times(i128),
    Over(i128),
    Factor(f64),
    Part(f64),
}

impl SpanFactor {
    fn nanoseconds(self, span: i64) -> Result<i64> {
        let whole = i128::from(span);
        fit(match self {
            SpanFactor::Times(number) => whole * number,
            SpanFactor::Over(number) => whole / number,
            SpanFactor::Factor(_) | SpanFactor::Part(_) => rounded(self.float(whole))?,
        })
    }

    fn interval(self, span: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
        let (months, days) = (i128::from(span.months), i128::from(span.days));
        let nanoseconds = i128::from(span.nanoseconds);
        let [months, days, nanoseconds] = match self {
            SpanFactor::Times(number) => [months * number, days * number, nanoseconds * number],
            SpanFactor::Over(number) => {
                let days = days + DAYS_OF_MONTH * (months % number);
                [months / number, days / number, (nanoseconds + DAY_NS * (days % number)) / number]
            }
            SpanFactor::Factor(_) | SpanFactor::Part(_) => {
                let all_months = self.float(months);
                let all_days = self.float(days) + all_months.fract() * 30.0;
                // The part of a day to the microsecond: floats have no exact tenth of a month.
                let rest = rounded(all_days.fract() * 86_400e6)? * 1_000;
                let time = rounded(self.float(nanoseconds))? + rest;
                [rounded(all_months.trunc())?, rounded(all_days.trunc())?, time]
            }
        };
        Ok(IntervalMonthDayNano::new(fit(months)?, fit(days)?, fit(nanoseconds)?))
    }

    #[expect(clippy::cast_precision_loss, reason = "a span by a float is a float")]
    fn float(self, whole: i128) -> f64 {
        match self {
            SpanFactor::Times(number) => (whole * number) as f64,
            SpanFactor::Over(number) => (whole / number) as f64,
            SpanFactor::Factor(factor) => whole as f64 * factor,
            SpanFactor::Part(part) => whole as f64 / part,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn rounded(number: f64) -> Result<i128> {
    match number.is_finite() && number.abs() < 1e30 {
        true => Ok(number.round() as i128),
        false => out_of_range(),
    }
}

fn fit<T: TryFrom<i128>>(number: i128) -> Result<T> {
    T::try_from(number).or_else(|_| out_of_range())
}

fn out_of_range<T>() -> Result<T> {
    Err(exec_datafusion_err!("a span of time is out of range"))
}

/// DataFusion's `abs`, of differences of times, too.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Abs {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Abs {
    pub(super) fn new() -> Abs {
        Abs { inner: abs(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Abs {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        if let [DataType::Duration(_)] = arg_types {
            return Ok(vec![DURATION]);
        }
        let fields: Vec<FieldRef> = arg_types.iter().map(|of| Arc::new(Field::new("a", of.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Duration(_)] => Ok(DURATION),
            other => self.inner.return_type(other),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let size = |span: i64| span.checked_abs().map_or_else(out_of_range, Ok);
        match args.args.as_slice() {
            [ColumnarValue::Scalar(ScalarValue::DurationNanosecond(span))] => {
                Ok(ColumnarValue::Scalar(ScalarValue::DurationNanosecond(span.map(size).transpose()?)))
            }
            [ColumnarValue::Array(spans)] if spans.data_type() == &DURATION => {
                let spans = spans.as_primitive::<DurationNanosecondType>().iter();
                let sizes =
                    spans.map(|span| span.map(size).transpose()).collect::<Result<DurationNanosecondArray>>()?;
                Ok(ColumnarValue::Array(Arc::new(sizes)))
            }
            _ => self.inner.inner().invoke_with_args(args),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        match inputs {
            [ExprProperties { range, .. }] if range.data_type().is_numeric() => self.inner.output_ordering(inputs),
            _ => Ok(SortProperties::Unordered),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanoseconds)
    }

    #[test]
    fn what_a_part_of_a_month_leaves_goes_to_days_and_time() {
        let half_a_day = 43_200_000_000_000;
        assert_eq!(SpanFactor::Over(2).interval(interval(1, 3, 0)).unwrap(), interval(0, 16, half_a_day));
        assert_eq!(SpanFactor::Factor(1.5).interval(interval(1, 0, 0)).unwrap(), interval(1, 15, 0));
        assert_eq!(SpanFactor::Factor(1.1).interval(interval(1, 0, 0)).unwrap(), interval(1, 3, 0));
        assert_eq!(SpanFactor::Times(-2).interval(interval(1, 1, 1)).unwrap(), interval(-2, -2, -2));
        assert_eq!(SpanFactor::Over(7).interval(interval(0, 1, 0)).unwrap(), interval(0, 0, 12_342_857_142_857));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(SpanFactor::Times(2).nanoseconds(i64::MAX).is_err());
        assert!(SpanFactor::Factor(f64::NAN).nanoseconds(1).is_err());
        assert!(SpanFactor::Times(3).interval(interval(i32::MAX, 0, 0)).is_err());
        assert_eq!(SpanFactor::Over(-2).nanoseconds(5).unwrap(), -2);
    }
}
