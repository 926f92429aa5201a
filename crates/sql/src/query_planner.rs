//! DataFusion's planner with ours for the nodes that it doesn't know.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use splay_functions::GapFillPlanner;
use splay_store::ColumnType;

use crate::joins::JoinPlanner;
use crate::tick::TickPartPlanner;

/// DataFusion's planner with ours for the nodes that it doesn't know.
#[derive(Debug)]
pub(crate) struct TickQueryPlanner;

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
