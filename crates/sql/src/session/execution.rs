//! Runs DataFusion's plans.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream_partitioned};
use futures::StreamExt;
use splay_engine::Stop;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::planning::PlannedStatement;
use super::{Memory, Session};
use crate::answer::{Answer, Source};
use crate::batch_queue::{self, QueuedBatch};
use crate::bounds::StatementBounds;
use crate::dictionaries::Distinct;
use crate::error::{Error, Result};
use crate::joins;
use crate::memory::AnswerMemory;
use crate::names::Spellings;
use crate::parameters::Parameters;

/// Most batches that wait between execution and the reader of an answer.
const BATCHES_WAITING: usize = 4;

/// The share of a statement's memory that waiting batches in one queue may take.
const WAITING_PART: usize = 32;

type PlanTasks = (JoinSet<()>, Vec<mpsc::Receiver<QueuedBatch<DataFusionError>>>);

impl Session {
    /// Plans a statement with DataFusion, and starts it.
    pub(super) fn run_planned(&self, text: &str, parameters: Parameters, stop: Stop<'_>) -> Result<Answer> {
        let (session, text) = (self.clone(), text.to_owned());
        let memory = self.pool();
        let bounds = StatementBounds::new(Arc::clone(&memory.0));
        let planned = async move { session.plan(&text, parameters).await };
        let (planned, spellings) = self.wait_for(&bounds, stop, planned)??;
        self.start(planned, &spellings, memory, bounds)
    }

    pub(crate) fn start(
        &self,
        planned: PlannedStatement,
        spellings: &Spellings,
        (pool, peak): Memory,
        bounds: StatementBounds,
    ) -> Result<Answer> {
        let PlannedStatement { plan, state, watches, planning } = planned;
        let limit = self.settings.memory_bytes;
        let memory = AnswerMemory::new(limit, &self.memory);
        let task = task(&state, pool).map_err(|e| Error::from_datafusion(e, limit))?;
        let schema = spellings.restore(&plan.schema());
        let (sender, receiver) = batch_queue::channel(BATCHES_WAITING, limit / WAITING_PART);
        let start = Instant::now();
        let executed = Arc::clone(&plan);
        let finished = Arc::new(Mutex::new(None));
        let (answer_schema, done) = (Arc::clone(&schema), Arc::clone(&finished));
        let work = self.threads.spawn(async move {
            let (mut tasks, queues) = match run_streams(executed, task, limit / WAITING_PART) {
                Ok(running) => running,
                Err(error) => {
                    sender.send(Err(Error::from_datafusion(error, limit))).await;
                    return;
                }
            };
            let mut distinct = Distinct::default();
            for mut queue in queues {
                while let Some(QueuedBatch { batch, .. }) = queue.recv().await {
                    let batch = batch
                        .and_then(|batch| Ok(distinct.batch(rename(&batch, &answer_schema)?)?))
                        .map_err(|error| Error::from_datafusion(error, limit));
                    let failed = batch.is_err();
                    // The reader has gone, so the rest isn't needed.
                    if !sender.send(batch).await || failed {
                        return;
                    }
                }
            }
            while let Some(ended) = tasks.join_next().await {
                if ended.is_err() {
                    // Without the mark below the answer counts as broken off.
                    return;
                }
            }
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(start.elapsed());
        });
        let threads = Arc::clone(&self.threads);
        let source = Source::Streams { receiver, _threads: threads, work, plan, finished, peak, bounds };
        Ok(Answer::new(schema, source, (start, planning), watches, memory))
    }
}

/// The context of one statement, with a memory pool of its own.
pub(super) fn task(state: &SessionState, pool: Arc<dyn MemoryPool>) -> Result<Arc<TaskContext>, DataFusionError> {
    let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env()).with_memory_pool(pool);
    Ok(Arc::new(TaskContext::from(state).with_runtime(runtime.build_arc()?)))
}

/// Starts all streams of a plan. The queues must be read one after the other.
///
/// Streams of a bare scan follow each other, so each gets a queue of its own and rows come in the order of the table. Where
/// the plan deals rows out to streams they have no order to keep, and one stream that waits would make the others pile up
/// rows for it: they share one queue.
fn run_streams(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    bytes_max: usize,
) -> Result<PlanTasks, DataFusionError> {
    let (mut tasks, mut queues) = (JoinSet::new(), Vec::new());
    // Each queue has its own share of the bytes: a queue that isn't read yet must not keep the one that is read from filling.
    let bytes_max = bytes_max / if deals_out(&plan) { 1 } else { plan.output_partitioning().partition_count().max(1) };
    let mut shared = None;
    if deals_out(&plan) {
        let (sender, receiver) = batch_queue::channel(BATCHES_WAITING, bytes_max);
        shared = Some(sender);
        queues.push(receiver);
    }
    for mut stream in execute_stream_partitioned(plan, task)? {
        let sender = shared.clone().unwrap_or_else(|| {
            let (sender, receiver) = batch_queue::channel(BATCHES_WAITING, bytes_max);
            queues.push(receiver);
            sender
        });
        tasks.spawn(async move {
            while let Some(batch) = stream.next().await {
                // An operator that has failed may be in any state, so it isn't polled again.
                let has_failed = batch.is_err();
                if !sender.send(batch).await || has_failed {
                    return;
                }
            }
        });
    }
    Ok((tasks, queues))
}

/// Whether a plan deals rows of one stream out to several, or joins streams that have no order among each other.
fn deals_out(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RepartitionExec>() || joins::is_join(plan) || plan.children().into_iter().any(deals_out)
}

/// The batch with its columns renamed to those of the answer.
fn rename(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}
