//! From logical to physical plans: DataFusion's planner, extended by our operators.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use splay_functions::GapFillPlanner;
use splay_store::ColumnType;

use crate::bounds::{count_repeats, count_windows};
use crate::guarded_and::guard_conditions;
use crate::joins::{self, JoinPlanner};
use crate::large_joins;
use crate::provider::TickRowOrder;
use crate::tick::TickPartPlanner;
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

/// DataFusion's planner with ours for the nodes that it doesn't know.
#[derive(Debug)]
pub(crate) struct TickQueryPlanner;

#[async_trait]
impl QueryPlanner for TickQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        if let LogicalPlan::DescribeTable(describe) = plan {
            return describe_table(&describe.schema, describe.output_schema.inner());
        }
        let ours: Vec<Arc<dyn ExtensionPlanner + Send + Sync>> =
            vec![Arc::new(GapFillPlanner), Arc::new(JoinPlanner), Arc::new(TickPartPlanner)];
        DefaultPhysicalPlanner::with_extension_planners(ours).create_physical_plan(plan, session).await
    }
}

/// The rows of `DESCRIBE`: DataFusion's, with the names of types that tables are made with.
fn describe_table(columns: &Schema, answer: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
    let columns = columns.fields();
    let names = columns.iter().map(|column| column.name());
    let types = columns.iter().map(|column| ColumnType::name_of(column.data_type()));
    let nullable = columns.iter().map(|column| if column.is_nullable() { "YES" } else { "NO" });
    let rows: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(StringArray::from_iter_values(types)),
        Arc::new(StringArray::from_iter_values(nullable)),
    ];
    let rows = RecordBatch::try_new(SchemaRef::clone(answer), rows)?;
    let rows: Arc<dyn ExecutionPlan> = MemorySourceConfig::try_new_exec(&[vec![rows]], SchemaRef::clone(answer), None)?;
    Ok(rows)
}
