//! From logical to physical plans: DataFusion's planner, which also knows our operators.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use crate::functions::GapFillPlanner;
use crate::joins::JoinPlanner;

/// DataFusion's planner with ours for the nodes that it doesn't know.
#[derive(Debug)]
pub(crate) struct TickQueryPlanner;

#[async_trait]
impl QueryPlanner for TickQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let ours: Vec<Arc<dyn ExtensionPlanner + Send + Sync>> = vec![Arc::new(GapFillPlanner), Arc::new(JoinPlanner)];
        DefaultPhysicalPlanner::with_extension_planners(ours).create_physical_plan(plan, session).await
    }
}
