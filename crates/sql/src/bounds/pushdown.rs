//! Estimates the size of a physical plan's filters after they are pushed down.
//!
//! DataFusion pushes filters below projections again in the physical plan, including those that a sort or a join
//! creates at run time. Each column becomes the projection's expression, repeatedly: `x || x as x`, 40 times, has 2⁴⁰
//! terms.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use splay_functions::walk::Walk;

/// Most terms that a column of a plan may expand to.
const TERMS_MAX: usize = 2_000;

/// Whether a column of the plan, or of a part of it, is computed by so many terms that no filter should be moved below the projection.
///
/// # Errors
/// Those of the traversal.
pub(super) fn expands_too_far(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(terms(plan)?.is_none())
}

/// The number of terms that each column expands to; `None` if there are too many.
fn terms(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Vec<usize>>> {
    let mut inputs = Vec::new();
    for child in plan.children() {
        let Some(of_child) = terms(child)? else { return Ok(None) };
        inputs.push(of_child);
    }
    let columns = plan.schema().fields().len();
    let most = inputs.iter().flatten().copied().max().unwrap_or(1);
    if let (Some(projection), [input]) = (plan.downcast_ref::<ProjectionExec>(), inputs.as_slice()) {
        let computed: Vec<usize> =
            projection.expr().iter().map(|output| expression(&output.expr, input)).collect::<Result<_>>()?;
        return Ok(computed.iter().all(|terms| *terms <= TERMS_MAX.max(most)).then_some(computed));
    }
    Ok(Some(match inputs.as_slice() {
        [input] if input.len() == columns => input.clone(),
        _ => vec![most; columns],
    }))
}

/// The number of terms of an expression whose columns expand to `columns` terms.
fn expression(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<usize> {
    let mut sum = 0usize;
    expr.apply(|term| {
        let own = term.downcast_ref::<Column>().and_then(|column| columns.get(column.index()).copied());
        sum = sum.saturating_add(own.unwrap_or(1));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sum)
}
