//! What is settled before DataFusion coerces types, on both paths.
//!
//! - A decimal is compared with a float as a float, or with a literal as it is written: `d = 4.07` is true of 4.07. DataFusion 55.2 makes both
//!   decimals of 15 places, of which a float has fewer: 1e-16 is 0, and 4.07 is 4.070000000000001.
//! - A frame `RANGE` without offsets over times of day or durations is one of `GROUPS`, which has the same rows; DataFusion refuses it.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList, Sort as SortKey};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

use crate::numbers::rewritten;

/// Prepares a plan for the coercion of its types.
#[derive(Debug)]
pub(crate) struct PrepareCoercion;

impl AnalyzerRule for PrepareCoercion {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        prepare(plan)
    }

    fn name(&self) -> &str {
        "prepare_coercion"
    }
}

/// The plan as DataFusion's coercion understands it.
///
/// # Errors
/// Those of DataFusion for expressions that have no type.
pub(crate) fn prepare(plan: LogicalPlan) -> Result<LogicalPlan> {
    compare_decimals(plan).and_then(range_over_peers)
}

/// The plan with frames of peers in the place of ranges over values that DataFusion has no ranges over.
fn range_over_peers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_window = false;
    plan.apply_with_subqueries(|node| {
        has_window |= matches!(node, LogicalPlan::Window(_));
        Ok(if has_window { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_window {
        return Ok(plan);
    }
    rewritten(
        plan,
        |node, _| Ok(node),
        |expression, schema| {
            let Expr::WindowFunction(mut window) = expression else { return Ok(Transformed::no(expression)) };
            let has_ranges = |key: &SortKey| {
                key.expr.get_type(schema).is_ok_and(|data_type| {
                    !matches!(
                        data_type,
                        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) | DataType::Binary
                    )
                })
            };
            let params = &mut window.params;
            let frame = &params.window_frame;
            if frame.units == WindowFrameUnits::Range
                && [&frame.start_bound, &frame.end_bound].into_iter().all(is_without_offset)
                && !params.order_by.iter().all(has_ranges)
            {
                let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
                params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
            }
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        },
    )
}

fn is_without_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => offset.is_null(),
    }
}

/// The plan with comparisons of decimals with floats as those of floats, or as those of decimals where the float is a literal that is one.
fn compare_decimals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_decimal = false;
    plan.apply_with_subqueries(|node| {
        has_decimal |= node.schema().fields().iter().any(|field| is_decimal(field.data_type()));
        Ok(if has_decimal { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_decimal {
        return Ok(plan);
    }
    rewritten(plan, |node, _| Ok(node), compared)
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(_, _) | DataType::Decimal64(_, _) | DataType::Decimal128(_, _) | DataType::Decimal256(_, _)
    )
}

fn compared(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let side = |side: Box<Expr>, others: &[&Expr]| beside(*side, others, schema).map(Box::new);
    Ok(Transformed::yes(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() || is_distinct(op) => {
            let (of_left, of_right) = (left.as_ref().clone(), right.as_ref().clone());
            let (left, right) = (side(left, &[&of_right])?, side(right, &[&of_left])?);
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let all = [expr.as_ref().clone(), low.as_ref().clone(), high.as_ref().clone()];
            let all: Vec<&Expr> = all.iter().collect();
            let (expr, low, high) = (side(expr, &all)?, side(low, &all)?, side(high, &all)?);
            Expr::Between(Between { expr, negated, low, high })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let all: Vec<Expr> = std::iter::once(expr.as_ref()).chain(&list).cloned().collect();
            let all: Vec<&Expr> = all.iter().collect();
            let list = list.into_iter().map(|item| beside(item, &all, schema)).collect::<Result<_>>()?;
            Expr::InList(InList { expr: side(expr, &all)?, list, negated })
        }
        other => return Ok(Transformed::no(other)),
    }))
}

fn is_distinct(op: Operator) -> bool {
    matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// A side of a comparison as it is compared with the others.
fn beside(side: Expr, others: &[&Expr], schema: &DFSchema) -> Result<Expr> {
    let type_of = |e: &Expr| e.get_type(schema).unwrap_or(DataType::Null);
    let own = type_of(&side);
    let decimal = others.iter().map(|other| type_of(other)).find(is_decimal);
    if let Some(decimal) = decimal {
        return Ok(match written(&side) {
            // A literal of more places than the decimals have equals none of them, so it stays a float.
            Some(text) if fits(text, &decimal) => {
                Expr::Literal(ScalarValue::try_from_string(text.to_string(), &decimal)?, None)
            }
            _ => side,
        });
    }
    let is_inexact =
        |other: &&&Expr| type_of(other).is_floating() && !written(other).is_some_and(|value| fits(value, &own));
    if is_decimal(&own) && others.iter().any(|other| is_inexact(&other)) {
        return side.cast_to(&DataType::Float64, schema);
    }
    Ok(side)
}

/// The value of a literal whose value is a part of the statement.
fn written(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Literal(ScalarValue::Float64(Some(value)), None) => Some(*value),
        _ => None,
    }
}

/// Whether a float, as it is written, is a value of a type of decimals.
fn fits(value: f64, decimal: &DataType) -> bool {
    let (precision, scale) = match decimal {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (usize::from(*precision), usize::try_from(*scale).unwrap_or(0)),
        _ => return false,
    };
    // The shortest text that stands for the number, which has no exponent.
    let text = value.abs().to_string();
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    value.is_finite() && places.len() <= scale && whole.len() + scale <= precision
}
