//! The type of `lag(x, n, default)` and `lead`: the one that `x` and the default share, as in PostgreSQL.
//!
//! DataFusion 55.2 casts the default to the type of `x`, so that `lag(n, 1, 1.5)` of whole numbers began with 1. A literal that is a value of the type of
//! `x` takes this type: 0 beside a float, 1.5 beside decimals with one place, a text beside times.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::decimals::{fits, is_decimal, literal_text, one_type};
use crate::plan_rewrite::{any_expression, rewritten};

/// The plan with values and defaults of `lag` and `lead` in one type.
///
/// # Errors
/// A plan error for a value and a default without a common type.
pub(crate) fn share_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_default =
        any_expression(&plan, |expr| matches!(expr, Expr::WindowFunction(window) if has_default(window)))?;
    if has_default { rewritten(plan, |node, _| Ok(Transformed::no(node)), typed) } else { Ok(plan) }
}

fn has_default(window: &WindowFunction) -> bool {
    let name = window.fun.name();
    // Those with offsets of each row are `lag_by_row` and the like (`row_offsets.rs` of `functions`).
    window.params.args.len() == 3
        && (matches!(name, "lag" | "lead") || name.starts_with("lag_by_row") || name.starts_with("lead_by_row"))
}

fn typed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let is_changed = has_default(&window) && share(&mut window, schema)?;
    let expr = Expr::WindowFunction(window);
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Casts the value and the default to their common type. Returns whether there was anything to cast.
fn share(window: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let [value, _, default] = window.params.args.as_mut_slice() else { return Ok(false) };
    let (of, other) = (value.get_type(schema)?, default.get_type(schema)?);
    if of == other || of.is_null() || other.is_null() || takes_type(default, &other, &of) {
        return Ok(false);
    }
    one_type(vec![&mut *value, &mut *default], schema)?;
    let Some(common) = type_union_resolution(&[value.get_type(schema)?, default.get_type(schema)?]) else {
        return plan_err!(
            "lag and lead give a value or the default, and {of} and {other} have no common type: cast one of them"
        );
    };
    for argument in [value, default] {
        *argument = std::mem::take(argument).cast_to(&common, schema)?;
    }
    Ok(true)
}

/// Whether a default is a value of a type, to which DataFusion casts it.
fn takes_type(default: &Expr, other: &DataType, of: &DataType) -> bool {
    let is_instant = |of: &DataType| matches!(of, DataType::Timestamp(_, _) | DataType::Date32);
    if matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _)) && is_instant(other) {
        return true;
    }
    match default {
        Expr::Literal(ScalarValue::Utf8(_), _) => true,
        Expr::Literal(value, _) if other.is_integer() && of.is_integer() => value.cast_to(of).is_ok(),
        Expr::Literal(value, _) if other.is_integer() && is_decimal(of) => fits(&value.to_string(), of),
        Expr::Literal(_, _) if of.is_floating() => other.is_numeric(),
        literal if is_decimal(of) => literal_text(literal).is_some_and(|text| fits(&text, of)),
        _ => false,
    }
}
