//! A leaf as the scheduler's plan has it: tasks for the executors, and their rows as one stream.
//!
//! ```text
//! RemoteLeafExec                       on the scheduler
//!   CoalescePartitionsExec             DataFusion's
//!     NetworkCoalesceExec              datafusion-distributed's
//!       LeafExec                       on each executor
//! ```
//!
//! - If a stream of an executor breaks off, the statement fails: an incomplete answer never counts as a whole one.
//! - The network has a runtime of its own, since the threads of statements have no sockets. A bounded queue connects them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{
    DistributedExt, NetworkCoalesceExec, RouteTasksEvent, RouteTasksEventResponse, SessionStateBuilderExt,
};
use futures::StreamExt;
use splay_sql::{Leaf, RunLeaves};
use tokio::runtime::Handle;

use crate::executors::{Executors, StatementExecutors};
use crate::leaf::{LeafCodec, LeafExec, properties};

/// Batches that wait between the network and the statement.
const BATCHES_WAITING: usize = 4;

/// Runs leaves on the executors of a statement.
#[derive(Debug)]
pub struct RemoteLeafRunner {
    /// Connections.
    pub executors: Executors,
    /// The executors that answered when the statement began.
    pub statement_executors: StatementExecutors,
    /// The runtime of the network.
    pub network: Handle,
}

impl RunLeaves for RemoteLeafRunner {
    fn plan(&self, leaf: Leaf) -> Result<Arc<dyn ExecutionPlan>> {
        // datafusion-distributed runs a single task on the scheduler itself, so there are two at least.
        let tasks = self.statement_executors.0.len().min(leaf.slices.len()).max(2);
        let properties = Arc::new(properties(&leaf.schema));
        let (executors, statement_executors, network) =
            (self.executors.clone(), self.statement_executors.clone(), self.network.clone());
        Ok(Arc::new(RemoteLeafExec { leaf, tasks, executors, statement_executors, network, properties }))
    }
}

/// The rows of a leaf, from executors.
#[derive(Debug)]
struct RemoteLeafExec {
    leaf: Leaf,
    tasks: usize,
    executors: Executors,
    statement_executors: StatementExecutors,
    network: Handle,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for RemoteLeafExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns: Vec<String> = self.leaf.columns.iter().map(usize::to_string).collect();
        let (executors, slices) = (self.statement_executors.0.len(), self.leaf.slices.len());
        write!(
            f,
            "RemoteLeafExec: executors={executors}, tasks={}, slices={slices}, columns=[{}]",
            self.tasks,
            columns.join(", ")
        )
    }
}

impl ExecutionPlan for RemoteLeafExec {
    fn name(&self) -> &str {
        "RemoteLeafExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.leaf.schema), BATCHES_WAITING);
        let sender = stream.tx();
        let (leaf, tasks) = (self.leaf.clone(), self.tasks);
        let (executors, statement_executors) = (self.executors.clone(), self.statement_executors.clone());
        stream.spawn_on(
            async move {
                let mut rows = distributed(leaf, tasks, executors, statement_executors).await?;
                while let Some(batch) = rows.next().await {
                    let has_failed = batch.is_err();
                    // An error ends the statement; without a reader the rest isn't needed.
                    if sender.send(batch).await.is_err() || has_failed {
                        break;
                    }
                }
                Ok(())
            },
            &self.network,
        );
        Ok(stream.build())
    }
}

/// A planner that always returns one plan.
#[derive(Debug)]
struct FixedPlanner(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for FixedPlanner {
    async fn create_physical_plan(&self, _: &LogicalPlan, _: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// The rows of a leaf, which datafusion-distributed runs.
async fn distributed(
    leaf: Leaf,
    tasks: usize,
    executors: Executors,
    statement_executors: StatementExecutors,
) -> Result<SendableRecordBatchStream> {
    let network = NetworkCoalesceExec::try_new(Arc::new(LeafExec::new(leaf, None)), tasks, 1)?;
    let plan = Arc::new(CoalescePartitionsExec::new(Arc::new(network)));
    let urls = Arc::clone(&statement_executors.0);
    let route = move |event: RouteTasksEvent<'_>| {
        Some(Ok(RouteTasksEventResponse::new(urls.iter().cycle().take(event.task_count).cloned().collect())))
    };
    let state = SessionStateBuilder::new()
        .with_query_planner(Arc::new(FixedPlanner(plan)))
        .with_distributed_worker_resolver(statement_executors)
        .with_distributed_channel_resolver(executors)
        .with_distributed_user_codec(LeafCodec::default())
        .with_distributed_route_tasks_handler(route)
        .with_distributed_planner()
        .build();
    let plan = state.query_planner().create_physical_plan(&LogicalPlan::default(), &state).await?;
    plan.execute(0, state.task_ctx())
}
