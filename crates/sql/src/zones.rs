//! Local times in time zones, after types are coerced: casts of times without a zone, such as `AT TIME ZONE`, and
//! sums of timestamps and days.
//!
//! `local_times.rs` of `functions` defines the result at clock changes. Zones without changes, such as UTC, stay with
//! Arrow's kernels.

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use splay_functions::walk::{Walk, WalkPlan};
use splay_functions::{clock_changes, instants_of, moved_on_clock};

use crate::plan_rewrite::rewritten;

/// The plan with functions in place of these casts and sums.
///
/// # Errors
/// Those of DataFusion for expressions that have no type.
pub(crate) fn by_clock(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Most statements have no such zone.
    let mut has_clock_zone = false;
    plan.walk_steps(|node| {
        has_clock_zone = has_clock_zone || node.schema().fields().iter().any(|field| clock_changes(field.data_type()));
        node.walk_expressions(|expr| {
            let is_cast = |expr: &Expr| matches!(expr, Expr::Cast(cast) if clock_changes(cast.field.data_type()));
            has_clock_zone = has_clock_zone || expr.exists(|expr| Ok(is_cast(expr)))?;
            Ok(if has_clock_zone { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    let changed = |expr: Expr, schema: &DFSchema| {
        Ok(match on_clock(&expr, schema) {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(expr),
        })
    };
    if has_clock_zone { rewritten(plan, |node, _| Ok(Transformed::no(node)), changed) } else { Ok(plan) }
}

/// The replacement of an expression that depends on a zone whose clock changes.
fn on_clock(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::Cast(Cast { expr, field }) => {
            let to @ DataType::Timestamp(_, Some(_)) = field.data_type() else { return None };
            instants_of(expr.as_ref().clone(), &expr.get_type(schema).ok()?, to)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let type_of = |expr: &Expr| expr.get_type(schema).ok();
            match (op, type_of(left)?, type_of(right)?) {
                (_, of @ DataType::Timestamp(_, Some(_)), DataType::Interval(IntervalUnit::MonthDayNano)) => {
                    moved_on_clock(left, &of, right, *op == Operator::Minus)
                }
                (
                    Operator::Plus,
                    DataType::Interval(IntervalUnit::MonthDayNano),
                    of @ DataType::Timestamp(_, Some(_)),
                ) => moved_on_clock(right, &of, left, false),
                _ => None,
            }
        }
        _ => None,
    }
}
