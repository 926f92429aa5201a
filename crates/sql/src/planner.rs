//! From logical to physical plans: DataFusion's planner, extended by our operators.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::bounds::{count_repeats, count_windows};
use crate::guarded_and::guard_conditions;
use crate::joins::{self};
use crate::large_joins;
use crate::row_order::TickRowOrder;
use crate::yielding::{self, with_yields};

/// Plans a logical plan physically. `has_joins` says whether joins of the statement were rewritten.
pub(crate) async fn physical(
    state: &SessionState,
    plan: LogicalPlan,
    has_joins: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = if has_joins { joins::convert(plan, &TickRowOrder)? } else { plan };
    let plan = large_joins::physical(state, &plan).await?;
    let plan = count_repeats(plan, |node| yielding::is_join(node) || joins::is_join(node))?;
    guard_conditions(plan).and_then(with_yields).and_then(count_windows)
}
