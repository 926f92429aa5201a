//! Comparisons of times with constants outside the range of times in nanoseconds: before 1677-09-21 or after
//! 2262-04-11.
//!
//! - A comparison of a time in nanoseconds with such a constant has a known result, except that it is null for a null:
//!   `date '1500-01-01' < time` is true. DataFusion 55.2 casts the date to a time, and fails.
//! - Times in microseconds or longer units, which files have, are compared with the constant in microseconds.
//! - Constants are literals of the statement and, if the statement runs without a tick plan, values of parameters. A
//!   tick plan is shared by statements whose literals differ; if such a constant is bound to it, binding fails, and
//!   DataFusion runs the statement.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::Utc;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Cast, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};

use crate::plan_rewrite::{any_expression, rewritten};
use crate::times::full_time;

const DAY_NS: i128 = 86_400 * SECOND_NS;
const SECOND_NS: i128 = 1_000_000_000;

/// The plan with such comparisons decided.
pub(crate) fn decide(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_far = any_expression(&plan, |expr| side_of(expr).is_some())?;
    if has_far { rewritten(plan, |node, _| Ok(Transformed::no(node)), decided) } else { Ok(plan) }
}

fn decided(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_time = |expr: &Expr| {
        side_of(expr).is_none() && matches!(expr.get_type(schema), Ok(DataType::Timestamp(TimeUnit::Nanosecond, _)))
    };
    let expr = match in_microseconds(expr, schema) {
        Ok(changed) => return Ok(Transformed::yes(changed)),
        Err(same) => same,
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (side_of(&left), side_of(&right)) {
            (None, Some(side)) if is_time(&left) => compared(*left, op, *right, side, schema)?,
            (Some(side), None) if is_time(&right) => match swapped(op) {
                Some(op) => compared(*right, op, *left, side, schema)?,
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            },
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        },
        Expr::Between(Between { expr, negated, low, high })
            if is_time(&expr) && (side_of(&low).is_some() || side_of(&high).is_some()) =>
        {
            let bound = |op: Operator, bound: Expr| match side_of(&bound) {
                Some(side) => Ok(compared(expr.as_ref().clone(), op, bound, side, schema)?.data),
                None => Ok(Expr::BinaryExpr(BinaryExpr::new(expr.clone(), op, Box::new(bound)))),
            };
            let low: Result<Expr> = bound(Operator::GtEq, *low);
            let both = low?.and(bound(Operator::LtEq, *high)?);
            Transformed::yes(if negated { Expr::Not(Box::new(both)) } else { both })
        }
        Expr::InList(InList { expr, list, negated })
            if is_time(&expr) && list.iter().any(|item| side_of(item).is_some()) =>
        {
            let list: Vec<Expr> = list.into_iter().filter(|item| side_of(item).is_none()).collect();
            Transformed::yes(match list.is_empty() {
                true => known(*expr, negated, schema)?,
                false => Expr::InList(InList { expr, list, negated }),
            })
        }
        other => Transformed::no(other),
    })
}

/// A comparison of times in longer units than nanoseconds with a constant in microseconds; the same expression if it is no such one.
fn in_microseconds(expr: Expr, schema: &DFSchema) -> std::result::Result<Expr, Expr> {
    let zone = |expr: &Expr| match expr.get_type(schema) {
        Ok(DataType::Timestamp(unit, zone)) if unit != TimeUnit::Nanosecond && far_ns(expr).is_none() => Some(zone),
        _ => None,
    };
    let microseconds = |expr: &Expr, zone: &Option<Arc<str>>| {
        let ns = ns_of(expr).filter(|ns| ns % 1_000 == 0)?;
        Some(lit(ScalarValue::TimestampMicrosecond(Some(i64::try_from(ns / 1_000).ok()?), zone.clone())))
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if swapped(op).is_some() => {
            let changed = match (zone(&left), zone(&right)) {
                (Some(zone), None) if far_ns(&right).is_some() => {
                    microseconds(&right, &zone).map(|constant| (left.clone(), Box::new(constant)))
                }
                (None, Some(zone)) if far_ns(&left).is_some() => {
                    microseconds(&left, &zone).map(|constant| (Box::new(constant), right.clone()))
                }
                _ => None,
            };
            match changed {
                Some((left, right)) => Ok(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                None => Err(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let is_far = far_ns(&low).or_else(|| far_ns(&high)).is_some();
            let Some(zone) = zone(&expr).filter(|_| is_far) else {
                return Err(Expr::Between(Between { expr, negated, low, high }));
            };
            let bound = |bound: Box<Expr>| microseconds(&bound, &zone).map_or(bound, Box::new);
            Ok(Expr::Between(Between { expr, negated, low: bound(low), high: bound(high) }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let Some(zone) = zone(&expr).filter(|_| list.iter().any(|item| far_ns(item).is_some())) else {
                return Err(Expr::InList(InList { expr, list, negated }));
            };
            let list = list.into_iter().map(|item| microseconds(&item, &zone).unwrap_or(item)).collect();
            Ok(Expr::InList(InList { expr, list, negated }))
        }
        other => Err(other),
    }
}

/// The operator with its sides exchanged.
fn swapped(op: Operator) -> Option<Operator> {
    match op {
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => Some(op),
        op => op.swap(),
    }
}

/// A comparison of a time with a constant on one side of all times.
fn compared(time: Expr, op: Operator, constant: Expr, side: Ordering, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_below = side == Ordering::Less;
    let value = match op {
        Operator::Eq => false,
        Operator::NotEq => true,
        Operator::Gt | Operator::GtEq => is_below,
        Operator::Lt | Operator::LtEq => !is_below,
        // Of nulls, too.
        Operator::IsDistinctFrom => return Ok(Transformed::yes(lit(true))),
        Operator::IsNotDistinctFrom => return Ok(Transformed::yes(lit(false))),
        op => {
            let same = BinaryExpr::new(Box::new(time), op, Box::new(constant));
            return Ok(Transformed::no(Expr::BinaryExpr(same)));
        }
    };
    Ok(Transformed::yes(known(time, value, schema)?))
}

/// A value that is known of all times, and null of nulls.
fn known(time: Expr, value: bool, schema: &DFSchema) -> Result<Expr> {
    if !time.nullable(schema)? {
        return Ok(lit(value));
    }
    let null = lit(ScalarValue::Boolean(None));
    Ok(if value { time.is_not_null().or(null) } else { time.is_null().and(null) })
}

/// Whether a constant is before or after all times in nanoseconds; `None` for other constants, and for what isn't one.
fn side_of(expr: &Expr) -> Option<Ordering> {
    far_ns(expr).map(|ns| ns.cmp(&0))
}

/// A constant before or after all times in nanoseconds, in nanoseconds since 1970.
fn far_ns(expr: &Expr) -> Option<i128> {
    match constant_of(expr)? {
        // Most texts are no times, and most times are near.
        ScalarValue::Utf8(Some(text)) => {
            let year: u16 = text.trim_start().get(..5)?.strip_suffix('-')?.parse().ok()?;
            if (1678..2262).contains(&year) { None } else { ns_of_text(text).filter(is_far) }
        }
        value => ns_of_value(value).filter(is_far),
    }
}

fn is_far(ns: &i128) -> bool {
    i64::try_from(*ns).is_err()
}

/// A date or a time in nanoseconds since 1970.
fn ns_of(expr: &Expr) -> Option<i128> {
    match constant_of(expr)? {
        ScalarValue::Utf8(Some(text)) => ns_of_text(text),
        value => ns_of_value(value),
    }
}

fn constant_of(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, None) => Some(value),
        // A date and a time as they are written.
        Expr::Cast(Cast { expr, field }) => match field.data_type() {
            DataType::Date32 | DataType::Timestamp(TimeUnit::Nanosecond, _) => constant_of(expr),
            _ => None,
        },
        _ => None,
    }
}

fn ns_of_value(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Date32(Some(days)) => i128::from(*days) * DAY_NS,
        ScalarValue::TimestampSecond(Some(seconds), _) => i128::from(*seconds) * SECOND_NS,
        ScalarValue::Date64(Some(milliseconds)) | ScalarValue::TimestampMillisecond(Some(milliseconds), _) => {
            i128::from(*milliseconds) * 1_000_000
        }
        ScalarValue::TimestampMicrosecond(Some(microseconds), _) => i128::from(*microseconds) * 1_000,
        ScalarValue::TimestampNanosecond(Some(nanoseconds), _) => i128::from(*nanoseconds),
        _ => return None,
    })
}

fn ns_of_text(text: &str) -> Option<i128> {
    let time = string_to_datetime(&Utc, &full_time(text.trim())).ok()?;
    Some(i128::from(time.timestamp()) * SECOND_NS + i128::from(time.timestamp_subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_nanoseconds_are_on_one_side_of_all_others() {
        for (text, expected) in [
            ("1500-01-01", Some(Ordering::Less)),
            ("1677-09-21 00:12:43", Some(Ordering::Less)),
            ("1677-09-21 00:12:44", None),
            ("1970-01-01", None),
            ("2262-04-11 23:47:16", None),
            ("2262-04-11 23:47", None),
            ("2262-04-12", Some(Ordering::Greater)),
            ("9999-12-31 23:59", Some(Ordering::Greater)),
            ("3000", None),
            ("3000-13-01", None),
            ("price", None),
            ("", None),
        ] {
            assert_eq!(side_of(&lit(text)), expected, "{text}");
        }
        let date = |days| side_of(&lit(ScalarValue::Date32(Some(days))));
        assert_eq!((date(-171_664), date(0), date(376_200)), (Some(Ordering::Less), None, Some(Ordering::Greater)));
    }
}
