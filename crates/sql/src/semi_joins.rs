//! Deduplicates the inner side of semi and anti joins, of `IN`, `EXISTS` and their negations.
//!
//! DataFusion's hash join stores every row of its build side, and walks all rows of a key for each probing row:
//! `venue IN (SELECT venue FROM trade)` takes the square of the rows of a venue. Such a join needs only one of the
//! equal rows, so this rule groups the inner side by the columns that the join reads.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, Join, JoinType, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Groups the inner sides of semi and anti joins.
#[derive(Debug)]
pub(crate) struct DistinctInnerSide;

impl OptimizerRule for DistinctInnerSide {
    fn name(&self) -> &str {
        "distinct_inner_side"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let columns = inner_columns(&join);
        if columns.is_empty() || is_grouped_by(&join.right, &columns) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let keys = columns.into_iter().map(Expr::Column).collect();
        join.right = Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(join.right, keys, Vec::new())?));
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}

/// The columns of the inner side that a semi or anti join reads, in the side's order; none for other joins.
fn inner_columns(join: &Join) -> Vec<Column> {
    if !matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark) || join.on.is_empty() {
        return Vec::new();
    }
    let mut used: Vec<&Column> = join.on.iter().flat_map(|(_, right)| right.column_refs()).collect();
    used.extend(join.filter.iter().flat_map(|filter| filter.column_refs()));
    join.right.schema().columns().into_iter().filter(|column| used.contains(&column)).collect()
}

fn is_grouped_by(plan: &LogicalPlan, columns: &[Column]) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let is_key = |key: &Expr| matches!(key, Expr::Column(column) if columns.contains(column));
            aggregate.group_expr.len() == columns.len() && aggregate.group_expr.iter().all(is_key)
        }
        _ => false,
    }
}
