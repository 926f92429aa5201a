//! One NaN: every NaN that DataFusion computes becomes the NaN that is greater than all numbers.
//!
//! DataFusion orders, groups and compares floats by their bits, and processors set the sign of the NaNs that they make (x86, for the
//! difference of two infinities), which would be below all numbers, and unequal to other NaNs. Stored floats have one NaN, so
//! it is enough to rewrite what is computed from them: operators, calls, and the aggregates and window functions of a node,
//! above which a projection rewrites them. Tick plans aren't concerned: their kernels compare floats in one form.

use std::sync::{Arc, LazyLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, Operator, Projection, ScalarUDF, TryCast};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::walk::WalkPlan;
use splay_store::one_nan;

use crate::numbers::{FloatForm, is_float};
use crate::plan_rewrite::rewritten;

static ONE_NAN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| FloatForm::function("one_nan", one_nan));

/// Functions that return one of their arguments unchanged.
const PASSING: [&str; 4] = ["one_nan", "one_zero", "coalesce", "nullif"];

/// Removes the sign of NaNs that DataFusion computes.
#[derive(Debug)]
pub(crate) struct OneNan;

impl AnalyzerRule for OneNan {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewritten(plan, |node, _| Ok(Transformed::no(node)), |e, schema| Ok(unify_nans(e, schema)))?;
        Ok(plan.rewrite_steps_up(of_rows_together)?.data)
    }

    fn name(&self) -> &str {
        "one_nan"
    }
}

/// An expression whose NaNs have no sign. Its operands have been rewritten already.
fn unify_nans(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    Transformed::yes(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(op) => {
            let computed = Expr::BinaryExpr(BinaryExpr { left: operand(left), op, right: operand(right) });
            in_form(computed, schema)
        }
        Expr::Negative(inner) => in_form(Expr::Negative(operand(inner)), schema),
        Expr::ScalarFunction(call) if !PASSING.contains(&call.func.name()) => {
            in_form(Expr::ScalarFunction(call), schema)
        }
        Expr::Cast(Cast { ref expr, .. }) | Expr::TryCast(TryCast { ref expr, .. }) if !is_float(expr, schema) => {
            in_form(expression, schema)
        }
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) if value.is_nan() => {
            Expr::Literal(ScalarValue::Float64(Some(f64::NAN)), metadata)
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), metadata) if value.is_nan() => {
            Expr::Literal(ScalarValue::Float32(Some(f32::NAN)), metadata)
        }
        other => return Transformed::no(other),
    })
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
}

fn in_form(expression: Expr, schema: &DFSchema) -> Expr {
    if is_float(&expression, schema) { ONE_NAN.call(vec![expression]) } else { expression }
}

/// The operand of an arithmetic operation, without the function that takes the sign off its NaNs: there the sign has no effect.
#[expect(clippy::boxed_local, reason = "as its expression has it")]
fn operand(expression: Box<Expr>) -> Box<Expr> {
    match *expression {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func == *ONE_NAN && args.len() == 1 => {
            Box::new(args.swap_remove(0))
        }
        other => Box::new(other),
    }
}

/// A node of aggregates or window functions, with a projection above it that rewrites its floats.
fn of_rows_together(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let first = match &plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.schema.fields().len() - aggregate.aggr_expr.len(),
        LogicalPlan::Window(window) => window.schema.fields().len() - window.window_expr.len(),
        _ => return Ok(Transformed::no(plan)),
    };
    if !plan.schema().fields().iter().skip(first).any(|field| field.data_type().is_floating()) {
        return Ok(Transformed::no(plan));
    }
    let columns = plan.schema().iter().enumerate().map(|(place, (qualifier, field))| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        if place < first || !field.data_type().is_floating() {
            return column;
        }
        ONE_NAN.call(vec![column]).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns = columns.collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)))
}
