//! The scan of one table with what its rows must pass, of a plan that is nothing else.

use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The scan of a statement over one table that was optimised, and what rows must pass; none if none can.
///
/// # Errors
/// What the plan has beside filters over a table.
pub(crate) fn filtered_scan(mut plan: &LogicalPlan) -> Result<Option<(&TableScan, Vec<Expr>)>, &'static str> {
    let mut filters = Vec::new();
    let scan = loop {
        match plan {
            LogicalPlan::Projection(node) => plan = &node.input,
            LogicalPlan::SubqueryAlias(node) => plan = &node.input,
            LogicalPlan::Filter(node) => {
                filters.push(node.predicate.clone());
                plan = &node.input;
            }
            LogicalPlan::EmptyRelation(_) => return Ok(None),
            LogicalPlan::TableScan(scan) => break scan,
            _ => return Err("a query within the condition"),
        }
    };
    if scan.fetch.is_some() {
        return Err("a limit");
    }
    filters.extend(scan.filters.iter().cloned());
    Ok(Some((scan, filters)))
}
