//! Compares intervals by their length.
//!
//! - **The rule.** Both sides become durations before they are compared: a month of 30 days and a day of 24 hours, as
//!   in PostgreSQL: <https://www.postgresql.org/docs/current/functions-datetime.html>.
//! - **The reason.** DataFusion compares intervals part by part: months first, then days, then nanoseconds. A
//!   difference of two times has only nanoseconds, so ten days would be less than `interval '1 day'`.
//! - **It can go** once DataFusion compares lengths: <https://github.com/apache/datafusion/issues/8468>.
//!
//! Runs after the coercion of types, which makes both sides intervals.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, DurationNanosecondArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::{Walk, WalkPlan};

use crate::plan_rewrite::rewritten;
use crate::zones;

const DAY_NS: i64 = 86_400_000_000_000;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DURATION: DataType = DataType::Duration(TimeUnit::Nanosecond);

static LENGTH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(IntervalLength::new())));

/// Compares intervals by their length.
#[derive(Debug)]
pub(crate) struct CompareIntervals;

impl AnalyzerRule for CompareIntervals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        by_length(plan)
    }

    fn name(&self) -> &str {
        "compare_intervals"
    }
}

/// The plan with comparisons of intervals by their length, and with times by the clocks of their zones (`zones.rs`).
///
/// # Errors
/// Those of DataFusion for expressions that have no type.
pub(crate) fn by_length(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = zones::by_clock(plan)?;
    // Most statements have no interval, and no function returns one otherwise.
    if !names_interval(&plan)? {
        return Ok(plan);
    }
    rewritten(plan, |node, _| Ok(Transformed::no(node)), compare)
}

fn names_interval(plan: &LogicalPlan) -> Result<bool> {
    let mut has_interval = false;
    plan.walk_steps(|node| {
        node.walk_expressions(|expression| {
            expression.apply(|e| {
                has_interval |= match e {
                    Expr::Literal(value, _) => is_interval(&value.data_type()),
                    Expr::Cast(cast) => is_interval(cast.field.data_type()),
                    Expr::TryCast(cast) => is_interval(cast.field.data_type()),
                    _ => false,
                };
                Ok(if has_interval { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(has_interval)
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// A comparison of intervals as a comparison of lengths; other comparisons unchanged.
fn compare(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_one = |e: &Expr| e.get_type(schema).is_ok_and(|data_type| is_interval(&data_type));
    let boxed = |e: Box<Expr>| length(*e, schema).map(Box::new);
    Ok(Transformed::yes(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) && is_one(&left) && is_one(&right) => {
            Expr::BinaryExpr(BinaryExpr { left: boxed(left)?, op, right: boxed(right)? })
        }
        Expr::Between(Between { expr, negated, low, high }) if is_one(&expr) => {
            Expr::Between(Between { expr: boxed(expr)?, negated, low: boxed(low)?, high: boxed(high)? })
        }
        Expr::InList(InList { expr, list, negated }) if is_one(&expr) => {
            let list = list.into_iter().map(|item| length(item, schema)).collect::<Result<_>>()?;
            Expr::InList(InList { expr: boxed(expr)?, list, negated })
        }
        other => return Ok(Transformed::no(other)),
    }))
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The length of an interval as a duration.
fn length(interval: Expr, schema: &DFSchema) -> Result<Expr> {
    let unit = match interval.get_type(schema) {
        Ok(DataType::Interval(unit)) => unit,
        _ => return Ok(interval),
    };
    match interval {
        // A difference of times that was cast to an interval for the comparison.
        Expr::Cast(Cast { expr, .. }) if matches!(expr.get_type(schema), Ok(DataType::Duration(_))) => {
            expr.cast_to(&DURATION, schema)
        }
        // A literal with metadata stands for a parameter, whose value changes.
        Expr::Literal(ScalarValue::IntervalMonthDayNano(value), None) => {
            Ok(Expr::Literal(ScalarValue::DurationNanosecond(value.map(nanoseconds).transpose()?), None))
        }
        other if unit == IntervalUnit::MonthDayNano => Ok(LENGTH.call(vec![other])),
        other => Ok(LENGTH.call(vec![other.cast_to(&INTERVAL, schema)?])),
    }
}

fn nanoseconds(interval: IntervalMonthDayNano) -> Result<i64> {
    let days = i64::from(interval.months) * 30 + i64::from(interval.days);
    match days.checked_mul(DAY_NS).and_then(|days| days.checked_add(interval.nanoseconds)) {
        Some(length) => Ok(length),
        None => exec_err!("an interval of {days} days is too long to be compared: nanoseconds hold 106,751"),
    }
}

/// The length of an interval, with months of 30 days and days of 24 hours.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalLength {
    signature: Signature,
}

impl IntervalLength {
    fn new() -> IntervalLength {
        IntervalLength { signature: Signature::exact(vec![INTERVAL], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DURATION)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let intervals = arguments.args[0].to_array(arguments.number_rows)?;
        let lengths: DurationNanosecondArray = intervals
            .as_primitive::<IntervalMonthDayNanoType>()
            .iter()
            .map(|interval| interval.map(nanoseconds).transpose())
            .collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(lengths) as ArrayRef))
    }
}
