//! The as-of join operator.
//!
//! - Requires: both sides sorted by their keys (nulls first), then time (nulls last); the right also by the arrival
//!   order of rows with equal times. Rows of equal keys must be in the same stream: one stream per side, or both
//!   partitioned alike.
//! - Returns: each left row once, in input order, with the columns of its right row; an inner join returns only rows
//!   with a match. The output keeps the left's orders.
//! - Holds: the right batches between the last match and the next left row, and those that an output batch takes rows
//!   from; never a whole side. This memory is reserved in the pool.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexRequirement, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
};
use splay_engine::asof::MatchRule;

use super::asof_stream::AsofStream;

/// The keys by which one side of an as-of join is grouped and ordered.
#[derive(Debug, Clone)]
pub(super) struct SideKeys {
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) time: Arc<dyn PhysicalExpr>,
    /// An expression that rises with the time, and is null where the time is: the time itself, or an expression that it is computed from.
    pub(super) sorted_by: Arc<dyn PhysicalExpr>,
    /// What orders rows of equal times; of the right side only.
    pub(super) order: Vec<PhysicalSortExpr>,
}

/// Keys are sorted as our scan sorts symbols.
pub(super) const KEY_ORDER: SortOptions = SortOptions { descending: false, nulls_first: true };

/// Times are sorted with nulls last, behind everything that can match.
pub(super) const TIME_ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

impl SideKeys {
    /// What the side must be sorted by.
    pub(super) fn requirement(&self) -> LexRequirement {
        let key = |expr: &Arc<dyn PhysicalExpr>, options| PhysicalSortRequirement::new(Arc::clone(expr), Some(options));
        let order = self.order.iter().map(|sort| key(&sort.expr, sort.options));
        let keys = self.keys.iter().map(|expr| key(expr, KEY_ORDER));
        let time = key(&self.sorted_by, TIME_ORDER);
        // An empty order would be no requirement; the time is always part of it.
        LexRequirement::new(keys.chain([time.clone()]).chain(order)).unwrap_or_else(|| LexRequirement::from([time]))
    }

    /// All that rows are grouped and ordered by.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.keys.iter().chain([&self.time, &self.sorted_by]).chain(self.order.iter().map(|sort| &sort.expr))
    }
}

/// How both sides must be dealt out, so that rows of equal keys meet.
pub(super) fn distribution(left: &SideKeys, right: &SideKeys, is_aligned: bool) -> InputDistributionRequirements {
    use Distribution::{KeyPartitioned, SinglePartition, UnspecifiedDistribution};
    if is_aligned {
        return InputDistributionRequirements::new(vec![UnspecifiedDistribution, UnspecifiedDistribution]);
    }
    if left.keys.is_empty() {
        return InputDistributionRequirements::new(vec![SinglePartition, SinglePartition]);
    }
    let (left, right) = (KeyPartitioned(left.keys.clone()), KeyPartitioned(right.keys.clone()));
    InputDistributionRequirements::co_partitioned(vec![left, right])
}

/// How an as-of join matches; equal for all its streams.
#[derive(Debug, Clone)]
pub(super) struct AsofSettings {
    /// `Left` or `Inner`.
    pub(super) join_type: JoinType,
    pub(super) rule: MatchRule,
    pub(super) left: SideKeys,
    pub(super) right: SideKeys,
    pub(super) is_order_complete: bool,
    /// Columns of the right that the answer has.
    pub(super) visible: Vec<usize>,
    pub(super) schema: SchemaRef,
}

/// An as-of join.
#[derive(Debug)]
pub(super) struct AsofJoinExec {
    pub(super) left: Arc<dyn ExecutionPlan>,
    pub(super) right: Arc<dyn ExecutionPlan>,
    pub(super) settings: Arc<AsofSettings>,
    /// Whether the inputs were made so that equal keys meet (`align.rs`).
    is_aligned: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsofJoinExec {
    pub(super) fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        settings: Arc<AsofSettings>,
        is_aligned: bool,
    ) -> AsofJoinExec {
        // The left's columns come first and are as they were, so its orders hold.
        let orders: Vec<_> = left.equivalence_properties().oeq_class().iter().cloned().collect();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&settings.schema), orders),
            Partitioning::UnknownPartitioning(left.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        AsofJoinExec { left, right, settings, is_aligned, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(super) fn is_aligned(&self) -> bool {
        self.is_aligned
    }
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        let keys = settings.left.keys.iter().zip(&settings.right.keys);
        let keys: Vec<String> = keys.map(|(left, right)| format!("{left} = {right}")).collect();
        write!(
            f,
            "AsofJoinExec: {}, {}, on=[{}], ties={}",
            settings.join_type,
            super::describe(settings.rule, &settings.left.time, &settings.right.time),
            keys.join(", "),
            if settings.is_order_complete { "arrival" } else { "refused" },
        )?;
        if self.is_aligned { write!(f, ", streams=aligned") } else { Ok(()) }
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &'static str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        distribution(&self.settings.left, &self.settings.right, self.is_aligned)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        [&self.settings.left, &self.settings.right]
            .map(|side| Some(OrderingRequirements::new(side.requirement())))
            .to_vec()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // The left's order is kept, but it isn't DataFusion's to change: a sort that is wanted above must not be put below,
        // in place of the order that the join needs.
        vec![false, false]
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
        for expr in self.settings.left.expressions().chain(self.settings.right.expressions()) {
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
        let [left, right] = children.as_slice() else { return internal_err!("an as-of join has two inputs") };
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        Ok(Arc::new(AsofJoinExec::new(left, right, Arc::clone(&self.settings), self.is_aligned)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let streams = [&self.left, &self.right].map(|side| side.output_partitioning().partition_count());
        if streams[0] != streams[1] {
            return internal_err!("an as-of join of {} with {} streams", streams[0], streams[1]);
        }
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let right = self.right.execute(partition, Arc::clone(&context))?;
        let reservation = MemoryConsumer::new(format!("AsofJoin[{partition}]")).register(context.memory_pool());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(AsofStream::start(left, right, Arc::clone(&self.settings), reservation, metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
