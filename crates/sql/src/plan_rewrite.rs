//! Searches logical plans, and rewrites them expression by expression: what the rules before DataFusion's own have in common.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use splay_functions::walk::{Walk, WalkPlan};

/// Whether a step of a plan, or of a query within it, passes a test: most plans have nothing to rewrite, and are left as they are.
pub(crate) fn any_step(plan: &LogicalPlan, mut test: impl FnMut(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut passes = false;
    plan.walk_steps(|step| {
        passes = passes || test(step)?;
        Ok(if passes { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(passes)
}

/// Whether an expression of a plan, or a part of one, passes a test.
pub(crate) fn any_expression(plan: &LogicalPlan, test: impl Fn(&Expr) -> bool) -> Result<bool> {
    any_step(plan, |step| {
        let mut passes = false;
        step.walk_expressions(|expr| {
            passes = passes || expr.exists(|part| Ok(test(part)))?;
            Ok(if passes { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(passes)
    })
}

/// Rewrites each node and expression of a plan, under its present name. Both callbacks report whether they changed something; then the schemas of the
/// node and of all nodes above it are computed anew.
pub(crate) fn rewritten(
    plan: LogicalPlan,
    node: impl Fn(LogicalPlan, &DFSchema) -> Result<Transformed<LogicalPlan>>,
    expression: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let mut is_changed = false;
    let rewritten = plan.rewrite_steps_up(|plan| {
        let schema = schema_below(&plan);
        let names = NamePreserver::new(&plan);
        let Transformed { data: plan, transformed, .. } = node(plan, &schema)?;
        let rewritten =
            plan.rewrite_expressions(|e| named(e, &names, |e| e.transform_up(|e| expression(e, &schema))))?;
        is_changed |= transformed || rewritten.transformed;
        if is_changed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
    })?;
    Ok(rewritten.data)
}

/// Rewrites an expression of a step under its present name. Of grouping sets each key has a name.
pub(crate) fn named(
    expression: Expr,
    names: &NamePreserver,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut rewrite = |expression: Expr| {
        let name = names.save(&expression);
        rewrite(expression).map(|rewritten| rewritten.update_data(|expression| name.restore(expression)))
    };
    match expression {
        Expr::GroupingSet(_) => expression.map_children(rewrite),
        expression => rewrite(expression),
    }
}

/// The schema that the expressions of a node are over.
pub(crate) fn schema_below(plan: &LogicalPlan) -> DFSchemaRef {
    match plan.inputs().as_slice() {
        [input] => Arc::clone(input.schema()),
        inputs => Arc::new(merge_schema(inputs)),
    }
}
