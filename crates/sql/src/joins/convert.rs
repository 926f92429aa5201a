//! Converts marked joins to logical nodes of our own: after names and parameters are resolved, before any
//! optimisation.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::logical_plan::{Extension, Join};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_engine::asof::{Direction, MatchRule};
use splay_functions::walk::WalkPlan;
use splay_functions::{RowOrder, carry_order};

use super::asof_node::AsofNode;
use super::float_order::place_of;
use super::marker::AsofCall;
use super::{filters, window_convert};
use crate::numbers::one_zero;

/// Replaces every marked join of a plan.
///
/// # Errors
/// If times can't be compared, keys have no common type, or the tolerance isn't one.
pub(crate) fn convert(plan: LogicalPlan, tables: &dyn RowOrder) -> Result<LogicalPlan> {
    let converted = plan.rewrite_steps_up(|plan| match plan {
        LogicalPlan::Join(join) => match asof_parts(&join)? {
            Some(parts) => Ok(Transformed::yes(convert_join(&join, parts, tables)?)),
            None => Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        plan => window_convert::complete(plan),
    })?;
    // At once, while joins lie on joins: the optimizer, which puts projections between, takes a pass for each.
    Ok(converted.data.rewrite_steps_down(filters::through_join)?.data)
}

/// What an as-of join compares, in common types.
pub(crate) struct AsofParts {
    pub(crate) rule: MatchRule,
    pub(crate) left_time: Expr,
    pub(crate) right_time: Expr,
    /// Equal keys, as pairs of a left and a right expression.
    pub(crate) keys: Vec<(Expr, Expr)>,
    /// The tolerance as it was given.
    pub(crate) tolerance: Expr,
}

/// The parts of a marked join; `None` for another one.
///
/// # Errors
/// As [`convert`].
pub(crate) fn asof_parts(join: &Join) -> Result<Option<AsofParts>> {
    let Some((call, args)) = join.filter.as_ref().and_then(AsofCall::of) else { return Ok(None) };
    let [left_time, right_time, tolerance, keys @ ..] = args else {
        return plan_err!("an as-of join lost its condition");
    };
    let (left_time, right_time, time_type) = coerce_times(join, left_time, right_time)?;
    let has_distance = *tolerance != Expr::Literal(ScalarValue::Null, None) || call.direction == Direction::Nearest;
    let (left_time, right_time, time_type) = match time_type {
        DataType::Float32 | DataType::Float64 if has_distance => {
            return plan_err!("an ASOF JOIN over floats takes no TOLERANCE and no NEAREST");
        }
        DataType::Float32 | DataType::Float64 => {
            let place = |time: Expr, plan: &LogicalPlan| {
                Ok::<_, DataFusionError>(place_of(time.cast_to(&DataType::Float64, plan.schema())?))
            };
            (place(left_time, &join.left)?, place(right_time, &join.right)?, DataType::Int64)
        }
        time_type => {
            check_time(&left_time, &time_type)?;
            (left_time, right_time, time_type)
        }
    };
    let units = tolerance_units(tolerance, &time_type)?;
    let keys = keys.chunks_exact(2).map(|pair| coerce_keys(join, &pair[0], &pair[1])).collect::<Result<_>>()?;
    let rule = MatchRule { direction: call.direction, inclusive: call.inclusive, tolerance: units };
    Ok(Some(AsofParts { rule, left_time, right_time, keys, tolerance: tolerance.clone() }))
}

fn convert_join(join: &Join, parts: AsofParts, tables: &dyn RowOrder) -> Result<LogicalPlan> {
    let AsofParts { rule, left_time, right_time, keys, .. } = parts;
    let ordered = carry_order(tables, &join.right)?;
    let own = join.right.schema().columns();
    let hidden = ordered.plan.schema().columns().into_iter().filter(|column| !own.contains(column)).collect();
    let node = AsofNode {
        left: join.left.as_ref().clone(),
        right: ordered.plan,
        join_type: join.join_type,
        rule,
        left_time,
        right_time,
        keys,
        order: ordered.order,
        is_order_complete: ordered.is_complete,
        hidden,
        schema: Arc::clone(&join.schema),
    };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node.with_schema()?) }))
}

/// Both sides of an equality in their common type, floats with one zero.
pub(super) fn coerce_keys(join: &Join, left: &Expr, right: &Expr) -> Result<(Expr, Expr)> {
    let (left, right) = coerce(left, join.left.as_ref(), right, join.right.as_ref())?;
    Ok((one_zero(left, join.left.schema())?, one_zero(right, join.right.schema())?))
}

/// Two expressions over two plans in their common type.
pub(super) fn coerce(
    left: &Expr,
    left_plan: &LogicalPlan,
    right: &Expr,
    right_plan: &LogicalPlan,
) -> Result<(Expr, Expr)> {
    let (left_type, right_type) = (left.get_type(left_plan.schema())?, right.get_type(right_plan.schema())?);
    if left_type == right_type {
        return Ok((left.clone(), right.clone()));
    }
    let Some(common) = comparison_coercion(&left_type, &right_type) else {
        return plan_err!("{left} ({left_type}) can't be compared with {right} ({right_type})");
    };
    Ok((left.clone().cast_to(&common, left_plan.schema())?, right.clone().cast_to(&common, right_plan.schema())?))
}

fn coerce_times(join: &Join, left: &Expr, right: &Expr) -> Result<(Expr, Expr, DataType)> {
    let (left, right) = coerce(left, &join.left, right, &join.right)?;
    let time_type = left.get_type(join.left.schema())?;
    Ok((left, right, time_type))
}

/// Refuses what isn't ordered in whole steps.
pub(super) fn check_time(time: &Expr, time_type: &DataType) -> Result<()> {
    let is_whole = matches!(
        time_type,
        DataType::Timestamp(_, _)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
    );
    if is_whole {
        return Ok(());
    }
    plan_err!(
        "{time} ({time_type}) can't be the time of a join: timestamps, dates, times of day and integers can, in as-of joins floats too"
    )
}

/// Nanoseconds of one step of a time; `None` for integers.
fn step_nanoseconds(time_type: &DataType) -> Option<i64> {
    let of_unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    match time_type {
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => Some(of_unit(unit)),
        DataType::Date32 => Some(24 * 3600 * 1_000_000_000),
        DataType::Date64 => Some(1_000_000),
        _ => None,
    }
}

/// A tolerance in steps of the time.
fn tolerance_units(tolerance: &Expr, time_type: &DataType) -> Result<Option<u64>> {
    let Expr::Literal(value, _) = tolerance else {
        return plan_err!("a tolerance must be a literal or a parameter, not {tolerance}");
    };
    if matches!(value, ScalarValue::Null) {
        return Ok(None);
    }
    let step = step_nanoseconds(time_type);
    let steps = match (step, nanoseconds(value)) {
        (Some(step), Some(nanoseconds)) => nanoseconds.checked_div_euclid(step),
        (None, None) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(steps))) => Some(steps),
            _ => None,
        },
        _ => None,
    };
    match steps.and_then(|steps| u64::try_from(steps).ok()) {
        Some(steps) => Ok(Some(steps)),
        None if step.is_some() => {
            plan_err!("a tolerance must be an interval of days or less, zero or more, not {value}")
        }
        None => plan_err!("a tolerance of integers must be an integer, zero or more, not {value}"),
    }
}

/// An interval without months in nanoseconds.
fn nanoseconds(value: &ScalarValue) -> Option<i64> {
    const DAY: i64 = 24 * 3600 * 1_000_000_000;
    let of = |days: i32, nanoseconds: i64| i64::from(days).checked_mul(DAY)?.checked_add(nanoseconds);
    match value {
        ScalarValue::IntervalMonthDayNano(Some(value)) if value.months == 0 => of(value.days, value.nanoseconds),
        ScalarValue::IntervalDayTime(Some(value)) => {
            of(value.days, i64::from(value.milliseconds).checked_mul(1_000_000)?)
        }
        ScalarValue::DurationNanosecond(Some(value)) => Some(*value),
        ScalarValue::DurationMicrosecond(Some(value)) => value.checked_mul(1_000),
        ScalarValue::DurationMillisecond(Some(value)) => value.checked_mul(1_000_000),
        ScalarValue::DurationSecond(Some(value)) => value.checked_mul(1_000_000_000),
        _ => None,
    }
}
