//! The operator that fills gaps, and what makes it of a [`GapFill`].
//!
//! Needs: rows by keys, then time, nulls last; all rows of a combination of keys in one stream; all rows in one stream if there
//! are no keys. Keeps that order. Shapes: as [`GapFill`]; batches of up to the session's batch size.
//!
//! Holds the rows of one series at a time, counted by the statement's memory pool; of a `SAMPLE BY` all rows, whose first and last bucket are those
//! of every series, in one stream. Without keys there is one series, also
//! where there is no row: with a start and a finish it is made up of made rows.

use std::collections::VecDeque;
use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{SortOptions, concat_batches, max, min};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit, TimestampNanosecondType};
use arrow::row::{OwnedRow, RowConverter, SortField};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, CardinalityEffect, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{Stream, StreamExt, stream};
use splay_calendar::Calendar;

use super::bounds::BoundKind;
use super::calls::Extent;
use super::node::{Fill, GapFill};
use super::series::{FillSpan, MADE_ROWS_MAX, OutputSeries, SeriesFill, too_many};
use crate::grid::DefaultOrigin;
use crate::time_bucket::Placement;

/// Plans the gap fills of a statement.
#[derive(Debug)]
pub struct GapFillPlanner;

#[async_trait]
impl ExtensionPlanner for GapFillPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<GapFill>() else { return Ok(None) };
        let ([logical], [input]) = (logical_inputs, physical_inputs) else {
            return internal_err!("a gap fill has one input");
        };
        let constant = |expr| planner.create_physical_expr(expr, logical.schema(), session, planning_ctx);
        let plan = GapFillPlan {
            schema: Arc::clone(node.schema.inner()),
            grid: node.grid.expressions.iter().map(constant).collect::<Result<_>>()?,
            extent: node.grid.extent,
            begins_with_rows: node.grid.begins_with_rows,
            calendar: node.grid.calendar.as_ref().map(|calendar| Arc::clone(&calendar.0)),
            bounds: node.bounds.iter().map(|bound| Ok((bound.kind, constant(&bound.at)?))).collect::<Result<_>>()?,
            time: node.time,
            keys: node.keys.clone(),
            groups: node.groups,
            fills: node.fills.clone(),
        };
        Ok(Some(Arc::new(GapFillExec::try_new(Arc::new(plan), Arc::clone(input))?)))
    }
}

/// What a gap fill does, whatever its input.
#[derive(Debug)]
struct GapFillPlan {
    schema: SchemaRef,
    grid: Vec<Arc<dyn PhysicalExpr>>,
    extent: Extent,
    /// Whether buckets are counted from the first one that has rows.
    begins_with_rows: bool,
    /// Where buckets are made in the sessions of a calendar alone.
    calendar: Option<Arc<Calendar>>,
    bounds: Vec<(BoundKind, Arc<dyn PhysicalExpr>)>,
    time: usize,
    keys: Vec<usize>,
    groups: usize,
    fills: Vec<Fill>,
}

impl GapFillPlan {
    fn column(&self, position: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(self.schema.field(position).name(), position))
    }

    fn order(&self) -> Result<LexOrdering> {
        let options = SortOptions { descending: false, nulls_first: false };
        let keys = self.keys.iter().chain([&self.time]);
        match LexOrdering::new(keys.map(|key| PhysicalSortExpr::new(self.column(*key), options))) {
            Some(order) => Ok(order),
            None => internal_err!("a gap fill has a time"),
        }
    }

    /// The buckets and the range of the statement. `rows` are the first and the last bucket of all, where every series has those.
    fn span(&self, rows: Option<(i64, i64)>) -> Result<FillSpan> {
        let empty = RecordBatch::new_empty(Arc::clone(&self.schema));
        let constant = |expr: &Arc<dyn PhysicalExpr>| match expr.evaluate(&empty)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(_) => exec_err!("time_bucket_gapfill takes constants, not {expr}"),
        };
        let mut grid = self.grid.iter().map(constant).collect::<Result<VecDeque<_>>>()?;
        let width = grid.pop_front();
        let place: Vec<ColumnarValue> = grid.into_iter().map(ColumnarValue::Scalar).collect();
        let (Some(ScalarValue::IntervalMonthDayNano(Some(width))), Some(placement)) =
            (width, Placement::from_constants(&place)?)
        else {
            return exec_err!("the width, zone and origin of time_bucket_gapfill must not be null");
        };
        let placement = match rows.filter(|_| self.begins_with_rows) {
            Some((first, _)) => placement.counted_from(first),
            None => placement,
        };
        let timeline = placement.timeline(width, DefaultOrigin::Epoch)?;
        let mut span = FillSpan { timeline, calendar: self.calendar.clone(), from: None, to: None };
        for (kind, at) in &self.bounds {
            let ScalarValue::TimestampNanosecond(Some(at), _) = constant(at)? else { continue };
            let at = kind.instant(at);
            if kind.is_start() {
                span.from = Some(span.from.map_or(at, |from| from.max(at)));
            } else {
                span.to = Some(span.to.map_or(at, |to| to.min(at)));
            }
        }
        if let Some((first, last)) = rows {
            span.from = span.from.or(Some(first));
            span.to = span.to.or(Some(last.saturating_add(1)));
        }
        self.check_size(&span)?;
        Ok(span)
    }

    /// Refuses at once what would be refused in the end.
    fn check_size(&self, span: &FillSpan) -> Result<()> {
        let (Some(from), Some(to)) = (span.from, span.to) else { return Ok(()) };
        let Some(bucket) = span.timeline.bucket(from) else { return Ok(()) };
        let width = i128::from(bucket.end) - i128::from(bucket.start);
        // Buckets of months and of clock changes are of different widths, but none is twice as wide as another.
        if (i128::from(to) - i128::from(from)) / width.max(1) > 2 * i128::from(MADE_ROWS_MAX) {
            return too_many();
        }
        Ok(())
    }
}

/// Adds the buckets that its input lacks.
#[derive(Debug)]
pub(super) struct GapFillExec {
    plan: Arc<GapFillPlan>,
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    made: Arc<AtomicU64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GapFillExec {
    fn try_new(plan: Arc<GapFillPlan>, input: Arc<dyn ExecutionPlan>) -> Result<GapFillExec> {
        let order = plan.order()?;
        // Keys stay where they are, so hash partitioning by them holds of the output.
        let partitioning = match input.output_partitioning() {
            Partitioning::Hash(keys, streams) => Partitioning::Hash(keys.clone(), *streams),
            other => Partitioning::UnknownPartitioning(other.partition_count()),
        };
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&plan.schema), [order.clone()]),
            partitioning,
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let made = Arc::new(AtomicU64::new(0));
        Ok(GapFillExec { plan, input, order, made, properties, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "GapFillExec: order=[{}]", self.order)?;
        if let Some(calendar) = &self.plan.calendar {
            write!(f, ", sessions of {}", calendar.name())?;
        }
        self.plan.bounds.iter().try_for_each(|(kind, at)| write!(f, ", {kind:?} {at}"))
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &'static str {
        "GapFillExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let keys: Vec<_> = self.plan.keys.iter().map(|key| self.plan.column(*key)).collect();
        InputDistributionRequirements::new(vec![match keys.is_empty() || self.plan.extent == Extent::Whole {
            true => Distribution::SinglePartition,
            false => Distribution::KeyPartitioned(keys),
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.plan.grid.iter().chain(self.plan.bounds.iter().map(|(_, at)| at)) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(GapFillExec::try_new(Arc::clone(&self.plan), input)?)),
            _ => internal_err!("a gap fill has one input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new(format!("GapFillExec[{partition}]")).register(context.memory_pool());
        let rows_max = context.session_config().batch_size().max(1);
        let (plan, made) = (Arc::clone(&self.plan), Arc::clone(&self.made));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = batches(plan, made, input, memory, rows_max)
            .map(move |batch| batch.inspect(|batch| metrics.record_output(batch.num_rows())));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.plan.schema), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::GreaterEqual
    }
}

/// The output of one stream.
fn batches(
    plan: Arc<GapFillPlan>,
    made: Arc<AtomicU64>,
    input: SendableRecordBatchStream,
    memory: MemoryReservation,
    rows_max: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    // Bounds may hold values that are only there once the statement runs.
    let start = async move {
        let mut input = input;
        let buffered = match plan.extent {
            Extent::Series => BufferedRows::default(),
            Extent::Whole => BufferedRows::read(&mut input, plan.time, &memory).await?,
        };
        Filler::new(&plan, made, input, buffered, memory, rows_max)
    };
    stream::once(start).flat_map(|filler| match filler {
        Ok(filler) => stream::try_unfold(filler, |mut filler| async move {
            Ok(filler.next_batch().await?.map(|batch| (batch, filler)))
        })
        .boxed(),
        Err(error) => stream::once(async { Err(error) }).boxed(),
    })
}

/// Rows that were read before the first series begins.
#[derive(Default)]
struct BufferedRows {
    batches: VecDeque<RecordBatch>,
    /// Their first and last bucket.
    buckets: Option<(i64, i64)>,
    /// What they take.
    memory: Option<MemoryReservation>,
}

impl BufferedRows {
    async fn read(
        input: &mut SendableRecordBatchStream,
        time: usize,
        memory: &MemoryReservation,
    ) -> Result<BufferedRows> {
        let of_batches = memory.new_empty();
        let mut buffered = BufferedRows::default();
        while let Some(batch) = input.next().await.transpose()? {
            let times = batch.column(time).as_primitive::<TimestampNanosecondType>();
            if let (Some(first), Some(last)) = (min(times), max(times)) {
                let (least, greatest) = buffered.buckets.unwrap_or((first, last));
                buffered.buckets = Some((least.min(first), greatest.max(last)));
            }
            of_batches.try_grow(batch.get_array_memory_size())?;
            buffered.batches.push_back(batch);
        }
        buffered.memory = Some(of_batches);
        Ok(buffered)
    }
}

/// Cuts the input into series and fills them one after the other.
struct Filler {
    input: SendableRecordBatchStream,
    /// Rows of the input that were read already.
    buffered: BufferedRows,
    filling: SeriesFill,
    keys: Vec<usize>,
    converter: RowConverter,
    /// The key of the rows in `pending`.
    key: Option<OwnedRow>,
    pending: Vec<RecordBatch>,
    complete: VecDeque<OutputSeries>,
    seen: bool,
    ended: bool,
    memory: MemoryReservation,
    rows_max: usize,
}

impl Filler {
    fn new(
        plan: &GapFillPlan,
        made: Arc<AtomicU64>,
        input: SendableRecordBatchStream,
        buffered: BufferedRows,
        memory: MemoryReservation,
        rows_max: usize,
    ) -> Result<Filler> {
        let time_type = plan.schema.field(plan.time).data_type();
        if !matches!(time_type, DataType::Timestamp(TimeUnit::Nanosecond, _)) {
            return internal_err!("a bucket starts at a time in nanoseconds, not at a {time_type}");
        }
        let key_types = plan.keys.iter().map(|key| SortField::new(plan.schema.field(*key).data_type().clone()));
        Ok(Filler {
            filling: SeriesFill {
                schema: Arc::clone(&plan.schema),
                span: plan.span(buffered.buckets)?,
                time: plan.time,
                groups: plan.groups,
                fills: plan.fills.clone(),
                made,
            },
            keys: plan.keys.clone(),
            converter: RowConverter::new(key_types.collect())?,
            key: None,
            pending: Vec::new(),
            complete: VecDeque::new(),
            seen: false,
            ended: false,
            input,
            buffered,
            memory,
            rows_max,
        })
    }

    /// Rows of as many series as fit a batch.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut ready, mut rows) = (Vec::new(), 0);
        while rows < self.rows_max {
            if let Some(series) = self.complete.front_mut() {
                match series.next_batch(&self.filling, self.rows_max - rows)? {
                    Some(batch) => {
                        rows += batch.num_rows();
                        ready.push(batch);
                    }
                    None => drop(self.complete.pop_front()),
                }
            } else if self.ended {
                break;
            } else {
                let next = match self.buffered.batches.pop_front() {
                    Some(batch) => Some(batch),
                    None => self.input.next().await.transpose()?,
                };
                match next {
                    Some(batch) => self.take(&batch)?,
                    None => self.finish()?,
                }
            }
        }
        match ready.len() {
            0 => Ok(None),
            1 => Ok(ready.pop()),
            _ => Ok(Some(concat_batches(&self.filling.schema, &ready)?)),
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.seen = true;
        if self.keys.is_empty() {
            self.pending.push(batch.clone());
        } else {
            self.cut(batch)?;
        }
        self.memory.try_resize(self.pending.iter().map(RecordBatch::get_array_memory_size).sum())
    }

    /// Cuts a batch where the key changes.
    fn cut(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys: Vec<_> = self.keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
        let keys = self.converter.convert_columns(&keys)?;
        let mut start = 0;
        for row in 0..batch.num_rows() {
            let key = keys.row(row);
            let changed = match row.checked_sub(1) {
                Some(before) => keys.row(before) != key,
                None => self.key.as_ref().is_some_and(|last_key| last_key.row() != key),
            };
            if changed {
                if row > start {
                    self.pending.push(batch.slice(start, row - start));
                }
                self.close()?;
                start = row;
            }
        }
        self.key = Some(keys.row(batch.num_rows() - 1).owned());
        self.pending.push(batch.slice(start, batch.num_rows() - start));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let rows = concat_batches(&self.input.schema(), &std::mem::take(&mut self.pending))?;
        self.complete.push_back(OutputSeries::new(rows, &self.filling)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.ended = true;
        if self.seen || self.keys.is_empty() {
            self.close()?;
        }
        Ok(())
    }
}
