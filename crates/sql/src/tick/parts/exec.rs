//! The operator whose rows the engine computes.
//!
//! Shapes: one stream of batches of up to the session's batch size, in no defined order. The engine works on a thread
//! of its own and stops when the stream is dropped. Its memory counts against the statement's.

use std::fmt::{self, Formatter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, execute_stream,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use splay_engine::{ExecutionContext, Progress, ReadStats, Reads, Stop};

use super::StatementPart;
use crate::bounds::StatementBounds;
use crate::error::external;

/// The way in which a part ran.
#[derive(Debug, Clone)]
pub(crate) enum PartRun {
    /// The engine ran it, with these reads.
    Ticks(ReadStats),
    /// DataFusion ran it, because the engine refused for this reason.
    General(Arc<dyn ExecutionPlan>, String),
}

/// Runs a tick plan.
#[derive(Debug)]
pub(crate) struct TickPartExec {
    part: Arc<StatementPart>,
    ran: Arc<Mutex<Option<PartRun>>>,
    progress: Arc<Progress>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TickPartExec {
    pub(super) fn new(part: Arc<StatementPart>) -> TickPartExec {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&part.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        let (ran, progress, metrics) = (Arc::default(), Arc::default(), ExecutionPlanMetricsSet::new());
        TickPartExec { part, ran, progress, properties, metrics }
    }

    /// The progress of the engine.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The way in which it ran; `None` before that.
    pub(crate) fn ran(&self) -> Option<PartRun> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl DisplayAs for TickPartExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        match self.ran() {
            None => write!(f, "TickPartExec: {}", self.part.steps(None)),
            Some(PartRun::Ticks(read)) => write!(f, "TickPartExec: {}", self.part.steps(Some(&read.steps))),
            Some(PartRun::General(_, reason)) => {
                write!(f, "TickPartExec: {}, run by DataFusion: {reason}", self.part.steps(None))
            }
        }
    }
}

impl ExecutionPlan for TickPartExec {
    fn name(&self) -> &'static str {
        "TickPartExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a tick part has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.part.schema);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let notes = (Arc::clone(&self.ran), Arc::clone(&self.progress));
        let batches = stream::once(batches(Arc::clone(&self.part), notes, context))
            .try_flatten()
            .map(move |batch| batch.inspect(|batch| metrics.record_output(batch.num_rows())));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Stops the engine when the stream is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        // Relaxed: the flag guards no other memory.
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn batches(
    part: Arc<StatementPart>,
    (ran, progress): (Arc<Mutex<Option<PartRun>>>, Arc<Progress>),
    context: Arc<TaskContext>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let note = |what| *ran.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    let memory = MemoryConsumer::new("TickPartExec").register(context.memory_pool());
    let stop = StopOnDrop(Arc::default());
    let (engine_part, task_context, stopped) = (Arc::clone(&part), Arc::clone(&context), Arc::clone(&stop.0));
    let made =
        tokio::task::spawn_blocking(move || by_engine(&engine_part, &task_context, (&stopped, &progress), memory));
    let made = made.await.map_err(|error| DataFusionError::External(Box::new(error)))??;
    let reason = match made {
        PartOutcome::Rows { batches, memory, read } => {
            note(PartRun::Ticks(read));
            let size = context.session_config().batch_size().max(1);
            let slices = batches.into_iter().flat_map(move |batch| {
                let starts = (0..batch.num_rows()).step_by(size);
                starts.map(move |start| batch.slice(start, size.min(batch.num_rows() - start)))
            });
            return Ok(stream::iter(slices).map(Ok).inspect(move |_| _ = &memory).boxed());
        }
        PartOutcome::Refused(reason) => reason,
    };
    let plan = StatementBounds::new(Arc::clone(context.memory_pool())).within(part.general.physical()).await?;
    note(PartRun::General(Arc::clone(&plan), reason));
    let schema = Arc::clone(&part.schema);
    let batches = execute_stream(plan, context)?;
    Ok(batches.map(move |batch| Ok(RecordBatch::try_new(Arc::clone(&schema), batch?.columns().to_vec())?)).boxed())
}

/// The outcome of running a part in the engine.
enum PartOutcome {
    Rows {
        batches: Vec<RecordBatch>,
        memory: MemoryReservation,
        read: ReadStats,
    },
    /// The engine refused it for this reason.
    Refused(String),
}

/// Runs the part in the engine. The engine may refuse it, or its rows may exceed the memory limit.
fn by_engine(
    part: &StatementPart,
    context: &TaskContext,
    (stopped, progress): (&AtomicBool, &Progress),
    memory: MemoryReservation,
) -> Result<PartOutcome> {
    let pool = context.memory_pool();
    let memory_bytes = match pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit.saturating_sub(pool.reserved()),
        _ => usize::MAX,
    };
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let setting = ExecutionContext {
        tables: &part.tables,
        files: &part.files,
        constants: &part.constants,
        threads: context.session_config().target_partitions(),
        memory_bytes,
        stop: Stop::when(&is_stopped).telling(progress),
        reads: Reads::default(),
    };
    match splay_engine::run(&part.plan, &setting, &part.schema) {
        Ok(batches) => {
            let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum();
            match memory.try_grow(bytes) {
                Ok(()) => {
                    let mut read = setting.reads.into_read();
                    read.peak_memory_bytes = read.steps.peak_memory_bytes(&part.plan);
                    Ok(PartOutcome::Rows { batches, memory, read })
                }
                Err(error) => Ok(PartOutcome::Refused(error.to_string())),
            }
        }
        Err(splay_engine::Error::Store(error)) => Err(external(error)),
        Err(splay_engine::Error::Stopped) => Err(DataFusionError::Execution("the statement was dropped".to_owned())),
        Err(error) => Ok(PartOutcome::Refused(error.to_string())),
    }
}
