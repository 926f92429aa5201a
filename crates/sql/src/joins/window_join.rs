//! The window join operator.
//!
//! - Requires: the left sorted by its keys (nulls first), then the begin of the window (nulls last); the right by its
//!   keys, time, and the arrival order of rows with equal times. Rows of equal keys must be in the same stream.
//! - Returns: the rows described in `window_node.rs`, in the order of the left row's number.
//! - Holds: the right rows from the first unfinished window to the last window end of a left batch's group; never a
//!   whole side. This memory is reserved in the pool.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
};

use super::asof_join::{SideKeys, TIME_ORDER};
use super::statement::LEFT_ROW;
use super::window_node::Window;
use super::window_stream::WindowStream;

/// How a window join works; equal for all its streams.
#[derive(Debug, Clone)]
pub(super) struct WindowSettings {
    /// The time of the left is the begin of the window.
    pub(super) left: SideKeys,
    pub(super) end: Arc<dyn PhysicalExpr>,
    pub(super) begin_inclusive: bool,
    pub(super) end_inclusive: bool,
    pub(super) prevailing: bool,
    pub(super) right: SideKeys,
    /// Columns of the right that the answer has.
    pub(super) visible: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) batch_rows: usize,
}

/// A window join.
#[derive(Debug)]
pub(super) struct WindowJoinExec {
    pub(super) left: Arc<dyn ExecutionPlan>,
    pub(super) right: Arc<dyn ExecutionPlan>,
    pub(super) settings: Arc<WindowSettings>,
    /// Whether the inputs were made so that equal keys meet (`align.rs`).
    is_aligned: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl WindowJoinExec {
    pub(super) fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        settings: Arc<WindowSettings>,
        is_aligned: bool,
    ) -> WindowJoinExec {
        let position = left.schema().fields().len();
        let row: Arc<dyn PhysicalExpr> = Arc::new(Column::new(LEFT_ROW, position));
        let order = vec![PhysicalSortExpr::new(Arc::clone(&row), TIME_ORDER)];
        let streams = left.output_partitioning().partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&settings.schema), [order]),
            // All rows of a left row are in one stream, which is what a group-by on it asks for.
            Partitioning::Hash(vec![row], streams),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        WindowJoinExec { left, right, settings, is_aligned, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(super) fn is_aligned(&self) -> bool {
        self.is_aligned
    }
}

impl DisplayAs for WindowJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        let keys = settings.left.keys.iter().zip(&settings.right.keys);
        let keys: Vec<String> = keys.map(|(left, right)| format!("{left} = {right}")).collect();
        let window = Window {
            begin: &(Arc::clone(&settings.left.time), settings.begin_inclusive),
            end: &(Arc::clone(&settings.end), settings.end_inclusive),
            time: &settings.right.time,
            prevailing: settings.prevailing,
        };
        write!(f, "WindowJoinExec: {window}, on=[{}]", keys.join(", "))?;
        if self.is_aligned { write!(f, ", streams=aligned") } else { Ok(()) }
    }
}

impl ExecutionPlan for WindowJoinExec {
    fn name(&self) -> &'static str {
        "WindowJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        super::asof_join::distribution(&self.settings.left, &self.settings.right, self.is_aligned)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        [&self.settings.left, &self.settings.right]
            .map(|side| Some(OrderingRequirements::new(side.requirement())))
            .to_vec()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![!self.is_aligned; 2]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let sides = self.settings.left.expressions().chain(self.settings.right.expressions());
        for expr in sides.chain([&self.settings.end]) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = children.as_slice() else { return internal_err!("a window join has two inputs") };
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        Ok(Arc::new(WindowJoinExec::new(left, right, Arc::clone(&self.settings), self.is_aligned)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let streams = [&self.left, &self.right].map(|side| side.output_partitioning().partition_count());
        if streams[0] != streams[1] {
            return internal_err!("a window join of {} with {} streams", streams[0], streams[1]);
        }
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let right = self.right.execute(partition, Arc::clone(&context))?;
        let reservation = MemoryConsumer::new(format!("WindowJoin[{partition}]")).register(context.memory_pool());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        WindowStream::start(left, right, Arc::clone(&self.settings), partition, reservation, metrics)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
