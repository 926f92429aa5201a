//! A date and an interval make a time: `date '2024-03-08' + interval '9 hours 30 minutes'` is half past nine.
//!
//! With an interval that is written as whole days or months, as `interval '1 day'`, they make a date. Any other interval, and a difference of
//! times, makes a time of midnight or later, as in PostgreSQL. DataFusion 55.2 makes a date of all, and drops the hours.
//!
//! Also says which function `EXTRACT` calls, and that a text compared with a boolean is one: `b = 'true'`.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::corrected_scalars::parts;
use crate::parameter_calls::{is_span_of_parameter, with_spans};

const TIME: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Plans sums of dates and intervals, and parts of times.
#[derive(Debug)]
pub struct TimePlanner;

impl ExprPlanner for TimePlanner {
    fn plan_binary_op(&self, sum: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = sum;
        let (left, right) = match &op {
            BinaryOperator::Plus | BinaryOperator::Minus => {
                let is_sum = op == BinaryOperator::Plus;
                let (left, right) = with_spans(left, right, is_sum, schema);
                // Beside a parameter a date stays one until its value is known.
                match is_span_of_parameter(&left) || is_span_of_parameter(&right) {
                    true => (left, right),
                    false => as_times(left, right, is_sum, schema)?,
                }
            }
            op if is_comparison(op) && is_text_beside_boolean(&left, &right, schema) => {
                (left.cast_to(&DataType::Boolean, schema)?, right)
            }
            op if is_comparison(op) && is_text_beside_boolean(&right, &left, schema) => {
                (left, right.cast_to(&DataType::Boolean, schema)?)
            }
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(parts()), args))))
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};

    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether a side is a literal text, and the other one a boolean.
fn is_text_beside_boolean(side: &Expr, other: &Expr, schema: &DFSchema) -> bool {
    matches!(side, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
        && matches!(other.get_type(schema), Ok(DataType::Boolean))
}

/// The sides of a sum, or of a difference, with a time in the place of a date beside an interval that may have a part of a day.
///
/// # Errors
/// Those of DataFusion for a cast that can't be.
pub fn as_times(left: Expr, right: Expr, is_sum: bool, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let has_part = |expr: &Expr| may_have_part_of_day(expr, schema);
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32 | DataType::Date64));
    // The right side first: a chain of sums is deep on its left.
    Ok(match right.get_type(schema) {
        Ok(DataType::Interval(_) | DataType::Duration(_)) if has_part(&right) && is_date(&left) => {
            (left.cast_to(&TIME, schema)?, right)
        }
        Ok(DataType::Date32 | DataType::Date64) if is_sum && has_part(&left) => (left, right.cast_to(&TIME, schema)?),
        _ => (left, right),
    })
}

/// Whether a value is an interval or a difference of times, and isn't written as whole days.
fn may_have_part_of_day(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Alias(alias) => may_have_part_of_day(&alias.expr, schema),
        Expr::Negative(inner) => may_have_part_of_day(inner, schema),
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), None) => interval.nanoseconds != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), None) => interval.milliseconds != 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), None) => false,
        expr => matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_))),
    }
}
