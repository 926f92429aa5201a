//! From logical to physical plans: DataFusion's planner, which also knows our operators.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use crate::bounds::{count_repeats, count_windows};
use crate::functions::GapFillPlanner;
use crate::give_way::{self, give_way};
use crate::joins::{self, JoinPlanner};
use crate::provider::TickRowOrder;
use crate::tick::TickPartPlanner;

/// The physical plan of a logical one, of a statement whose joins were rewritten if `has_joins`.
pub(crate) async fn physical(
    state: &SessionState,
    plan: LogicalPlan,
    has_joins: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = if has_joins { joins::convert(plan, &TickRowOrder)? } else { plan };
    let plan = state.create_physical_plan(&plan).await?;
    let plan = count_repeats(plan, |node| give_way::is_join(node) || joins::is_join(node))?;
    give_way(plan).and_then(count_windows)
}

/// DataFusion's planner with ours for the nodes that it doesn't know.
#[derive(Debug)]
pub(crate) struct TickQueryPlanner;

#[async_trait]
impl QueryPlanner for TickQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let ours: Vec<Arc<dyn ExtensionPlanner + Send + Sync>> =
            vec![Arc::new(GapFillPlanner), Arc::new(JoinPlanner), Arc::new(TickPartPlanner)];
        DefaultPhysicalPlanner::with_extension_planners(ours).create_physical_plan(plan, session).await
    }
}
