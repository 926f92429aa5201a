//! A literal takes the type of the value that it is compared with, as in PostgreSQL and DuckDB. DataFusion 55.2 casts
//! both to a common type instead.
//!
//! - A float in a list for whole numbers: `i IN (1.5, 9007199254740993)` compares whole numbers; 1.5 equals none of
//!   them. DataFusion compares floats, in which several whole numbers beyond 2^53 are equal, or decimals, whose range
//!   is smaller than that of floats.
//! - `i BETWEEN 0.5 AND 9007199254740993` is `i >= 0.5 AND i <= 9007199254740993`, for the same reason.
//! - A text that is compared with a boolean is a boolean: `b IN ('t')`, `b BETWEEN 'f' AND 't'`.
//! - A `BETWEEN` of values without a common type is refused as an error of the statement. DataFusion reports an
//!   internal error.
//!
//! Other places where texts meet times and booleans: `date_times.rs` and `corrected_scalars.rs` of `functions`.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_functions::walk::{Walk, WalkPlan};
use splay_store::ColumnType;

use crate::plan_rewrite::{rewritten, schema_below};

/// The plan with literals in the types of what they stand beside.
pub(crate) fn take_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_any = false;
    plan.walk_steps(|node| {
        let schema = schema_below(node);
        node.walk_expressions(|expr| {
            expr.apply(|part| {
                has_any |= other_type(part, &schema).is_some();
                check(part, &schema)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if has_any { rewritten(plan, |node, _| Ok(Transformed::no(node)), typed) } else { Ok(plan) }
}

/// Refuses a `BETWEEN` of values that aren't compared.
fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let Expr::Between(Between { expr, low, high, .. }) = expr else { return Ok(()) };
    let Ok(of) = expr.get_type(schema) else { return Ok(()) };
    let mut common = of.clone();
    for bound in [low, high] {
        let Ok(other) = bound.get_type(schema) else { continue };
        if of == DataType::Boolean && is_text_literal(bound) {
            continue;
        }
        let both = comparison_coercion(&of, &other).and_then(|both| comparison_coercion(&common, &both));
        let Some(both) = both else {
            let (of, other) = (ColumnType::name_of(&common), ColumnType::name_of(&other));
            return plan_err!(
                "BETWEEN doesn't compare a value of type {of} with one of type {other}: cast one of them"
            );
        };
        common = both;
    }
    Ok(())
}

/// The type that literals of an expression get.
fn other_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr {
        Expr::InList(InList { expr, list, .. }) => {
            let has_float = list.iter().any(|item| float_literal(item).is_some());
            let has_text = list.iter().any(is_text_literal);
            let of = (has_float || has_text).then(|| expr.get_type(schema).ok())??;
            (has_float && of.is_integer() || has_text && of == DataType::Boolean).then_some(of)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            let floats = [low, high].into_iter().filter(|bound| is_float_literal(bound)).count();
            let has_text = [low, high].into_iter().any(|bound| is_text_literal(bound));
            let of = (floats > 0 || has_text).then(|| expr.get_type(schema).ok())??;
            let is_split = floats > 0 && of == DataType::UInt64 || of.is_integer() && floats == 1;
            (is_split || has_text && of == DataType::Boolean).then_some(of)
        }
        _ => None,
    }
}

fn is_text_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// Whether an expression is a float of the statement's text. One that stands for those of other statements of the same shape may be compared, too.
fn is_float_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Float64(Some(_)), _))
}

/// The float of a literal, if it isn't a parameter of the shape: only such a literal may be replaced by another value.
fn float_literal(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Float64(value), None) => *value,
        _ => None,
    }
}

fn typed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(of) = other_type(&expr, schema) else { return Ok(Transformed::no(expr)) };
    let typed = |part: Expr| if is_text_literal(&part) { part.cast_to(&of, schema) } else { Ok(part) };
    Ok(Transformed::yes(match expr {
        Expr::InList(InList { expr, list, negated }) if of.is_integer() => whole_numbers(*expr, list, negated, &of),
        Expr::InList(InList { expr, list, negated }) => {
            Expr::InList(InList { expr, list: list.into_iter().map(typed).collect::<Result<_>>()?, negated })
        }
        Expr::Between(Between { expr, negated, low, high }) if of == DataType::Boolean => {
            let (low, high) = (Box::new(typed(*low)?), Box::new(typed(*high)?));
            Expr::Between(Between { expr, negated, low, high })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let is_between = expr.as_ref().clone().gt_eq(*low).and(expr.lt_eq(*high));
            if negated { Expr::Not(Box::new(is_between)) } else { is_between }
        }
        other => other,
    }))
}

/// The list for whole numbers with its floats as whole numbers. Items that no whole number equals are removed; if all
/// would be, one of them stays.
fn whole_numbers(expr: Expr, list: Vec<Expr>, negated: bool, of: &DataType) -> Expr {
    let first = list.first().cloned();
    let items = list.into_iter().filter_map(|item| match float_literal(&item) {
        Some(value) => whole_number(value, of).map(|value| Expr::Literal(value, None)),
        None => Some(item),
    });
    let items: Vec<Expr> = items.collect();
    match first {
        Some(first) if items.is_empty() && negated => expr.not_eq(first),
        Some(first) if items.is_empty() => expr.eq(first),
        _ => Expr::InList(InList { expr: Box::new(expr), list: items, negated }),
    }
}

/// The whole number that a float is, if a type has it.
#[expect(clippy::cast_possible_truncation, reason = "the value is whole, and within the type")]
fn whole_number(value: f64, of: &DataType) -> Option<ScalarValue> {
    // Below the second power of two, since the largest numbers are no floats.
    let is_in = |low: f64, above: f64| value.trunc() == value && value >= low && value < above;
    match of {
        DataType::UInt64 => is_in(0.0, 2f64.powi(64)).then_some(ScalarValue::UInt64(Some(value as u64))),
        _ => is_in(-2f64.powi(63), 2f64.powi(63)).then_some(ScalarValue::Int64(Some(value as i64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_whole_numbers_within_the_range_of_a_type() {
        let whole = |value, of: &DataType| whole_number(value, of).map(|value| value.to_string());
        for (value, signed, unsigned) in [
            (-0.0, Some("0"), Some("0")),
            (1.5, None, None),
            (f64::NAN, None, None),
            (f64::INFINITY, None, None),
            (-1.0, Some("-1"), None),
            (9_223_372_036_854_775_808.0, None, Some("9223372036854775808")),
            (-9_223_372_036_854_775_808.0, Some("-9223372036854775808"), None),
            (18_446_744_073_709_551_616.0, None, None),
        ] {
            assert_eq!(whole(value, &DataType::Int64).as_deref(), signed, "{value}");
            assert_eq!(whole(value, &DataType::UInt64).as_deref(), unsigned, "{value}");
        }
    }
}
