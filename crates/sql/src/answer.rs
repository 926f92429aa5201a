//! Answers: streams of batches, their costs, and the threads that compute them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use splay_engine::{Progress, ReadStats, StepCosts};
use splay_store::SelectionStats;
use splay_store::storage::{ReadWatch, hand_out_mapped};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::batch_queue::QueuedBatch;
use crate::bounds::StatementBounds;
use crate::error::{Error, Result};
use crate::file_scan::FileScanExec;
use crate::memory::AnswerMemory;
use crate::scan::TickScanExec;
use crate::tick::{PartRan, TickPartExec};

/// More threads than statements and their parts ever need.
const BLOCKING_THREADS_MAX: usize = 1 << 15;

/// The threads that statements run on.
#[derive(Debug)]
pub(crate) struct Threads {
    /// Taken when it ends.
    runtime: Option<Runtime>,
}

impl Threads {
    pub(crate) fn start(threads: usize) -> Result<Threads> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("splay-query")
            // Plans of deep expressions are walked recursively.
            .thread_stack_size(8 << 20)
            // Whoever lets statements in bounds their number. A statement whose parts wait for the thread of another one might wait for ever.
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .enable_time()
            .on_thread_start(splay_store::priority::work)
            .build()
            .map_err(|error| Error::Internal { message: format!("start query threads: {error}") })?;
        Ok(Threads { runtime: Some(runtime) })
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        match &self.runtime {
            Some(runtime) => runtime.spawn(work),
            None => tokio::spawn(work),
        }
    }

    /// Runs work that blocks on a thread of the same priority.
    pub(crate) fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        match &self.runtime {
            Some(runtime) => runtime.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        }
    }
}

impl Drop for Threads {
    /// Doesn't wait for a stopped statement, which may still be in a long step.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Wakes a thread that is parked.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The engine that ran a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunBy {
    /// DataFusion ran all of it.
    #[default]
    DataFusion,
    /// DataFusion ran it, with groupings that ran as tick plans.
    TickParts,
    /// The engine: the statement is a tick plan.
    TickPlan,
}

impl RunBy {
    /// The engine's name in one word: `datafusion`, `tick_parts`, `tick_plan`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RunBy::DataFusion => "datafusion",
            RunBy::TickParts => "tick_parts",
            RunBy::TickPlan => "tick_plan",
        }
    }
}

/// The cost of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementStats {
    /// The engine that ran it.
    pub run_by: RunBy,
    /// Number of its tick plans that the engine refused while running, so that DataFusion ran them again.
    pub tick_plans_refused: u64,
    /// Time from the text to the plan.
    pub planning: Duration,
    /// Time from the plan to the last batch.
    pub execution: Duration,
    /// Rows of the answer so far.
    pub rows_returned: u64,
    /// Rows that were read for it.
    pub rows_scanned: u64,
    /// Bytes of the columns that were read, in the examined rows. Blocks that summaries answered count none, columns that were searched count in
    /// full, and a join counts the values that it took. Texts count their offsets only.
    pub bytes_scanned: u64,
    /// Most bytes that sorts, joins and groups held at a time. Mapped files don't count. Of tick plans those of a step and its inputs,
    /// where [`SessionSettings::measure_memory`](crate::SessionSettings::measure_memory) asks for it; otherwise 0.
    pub peak_memory_bytes: u64,
    /// The partitions, runs and blocks that the indexes left to read, summed over the statement's scans.
    pub selection: SelectionStats,
}

/// The answer to a statement: batches, as they are computed. Dropping it stops the statement.
pub struct Answer {
    pub(crate) schema: SchemaRef,
    pub(crate) source: Source,
    pub(crate) planning: Duration,
    pub(crate) start: Instant,
    pub(crate) rows: u64,
    pub(crate) failed: bool,
    pub(crate) watches: Watches,
    /// The reason why the engine refused the statement's tick plan while running it.
    pub(crate) refusal: Option<String>,
    pub(crate) memory: AnswerMemory,
    /// The change that the statement made, if it makes one.
    pub(crate) change: Option<StatementChange>,
}

/// Memory that is released when this is dropped.
pub(crate) type MemoryGuard = Box<dyn std::any::Any + Send + Sync>;

/// The change that a statement made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementChange {
    /// The statement, in capitals: `INSERT`, `DROP TABLE`.
    pub statement: &'static str,
    /// Rows that it inserted, changed or deleted.
    pub rows: u64,
    /// Whether the answer consists of the rows of its `RETURNING`, instead of one row about the change.
    pub returns_rows: bool,
}

/// Tells whether every page of the tables' files was really read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches {
    pub(crate) tables: Vec<ReadWatch>,
    /// Whether the answer's reader also checks, after it has read a batch.
    pub(crate) reader_asks: bool,
}

impl Watches {
    pub(crate) fn check(&self) -> Result<()> {
        self.tables.iter().try_for_each(ReadWatch::check).map_err(Error::Store)
    }
}

/// The source of an answer's batches.
pub(crate) enum Source {
    /// A tick plan, which has computed all batches.
    Ready {
        batches: VecDeque<RecordBatch>,
        execution: Duration,
        read: ReadStats,
        /// The share of the batches in the memory of all statements, held until the answer is dropped.
        _memory: Option<MemoryGuard>,
    },
    /// The streams of a DataFusion plan.
    Streams {
        receiver: mpsc::Receiver<QueuedBatch<Error>>,
        /// Kept alive until the answer is read.
        _threads: Arc<Threads>,
        work: tokio::task::JoinHandle<()>,
        plan: Arc<dyn ExecutionPlan>,
        finished: Arc<Mutex<Option<Duration>>>,
        peak: Arc<AtomicUsize>,
        /// The bounds that its functions check.
        bounds: StatementBounds,
    },
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The outcome of waiting for a batch.
#[derive(Debug)]
pub enum WaitOutcome {
    /// A batch, or an error.
    Batch(Result<RecordBatch>),
    /// There are no more batches.
    End,
    /// No batch came in time; the statement still runs.
    TimedOut,
}

impl Answer {
    /// An answer of which no row was read yet.
    pub(crate) fn new(
        schema: SchemaRef,
        source: Source,
        (start, planning): (Instant, Duration),
        watches: Watches,
        memory: AnswerMemory,
    ) -> Answer {
        Answer { schema, source, planning, start, rows: 0, failed: false, watches, refusal: None, memory, change: None }
    }

    /// Whether a tick plan computed it, rather than DataFusion.
    #[must_use]
    pub fn is_tick_plan(&self) -> bool {
        matches!(self.source, Source::Ready { .. })
    }

    /// The reason why the engine refused the statement's tick plan, so that DataFusion ran the statement; `None` if it didn't.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The change that the statement made; `None` for one that only reads.
    #[must_use]
    pub fn change(&self) -> Option<StatementChange> {
        self.change
    }

    /// The statement's memory, for the encoding of its batches.
    #[must_use]
    pub fn memory(&self) -> AnswerMemory {
        self.memory.clone()
    }

    /// Columns of the answer.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The reader promises to call [`Answer::check`] when it has read a batch, before anything that it made of it leaves. Columns may be
    /// slices of mapped files; where a page of one can't be read, an error comes of it then. Without the promise, the process ends, as
    /// it does for any mapped file: nobody would notice the zeros that stand in the page's place.
    pub fn read_with_checks(&mut self) {
        self.watches.reader_asks = true;
    }

    /// Whether all that was read so far, by the statement and of its batches, was really read.
    ///
    /// # Errors
    /// [`Error::Store`] with the file and the offset of a page that can't be read.
    pub fn check(&self) -> Result<()> {
        self.watches.check()
    }

    /// Waits for the next batch for at most `timeout`, so that the caller can do other things in between.
    pub fn wait(&mut self, timeout: Duration) -> WaitOutcome {
        if !self.watches.reader_asks {
            hand_out_mapped();
        }
        let waited = self.wait_unchecked(timeout);
        if matches!(waited, WaitOutcome::Batch(Err(_)) | WaitOutcome::TimedOut) || self.failed {
            return waited;
        }
        match self.check() {
            Ok(()) => waited,
            Err(error) => {
                self.failed = true;
                WaitOutcome::Batch(Err(error))
            }
        }
    }

    fn wait_unchecked(&mut self, timeout: Duration) -> WaitOutcome {
        let receiver = match &mut self.source {
            Source::Ready { batches, .. } => {
                let batch = batches.pop_front();
                self.rows += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
                return batch.map_or(WaitOutcome::End, |batch| WaitOutcome::Batch(Ok(batch)));
            }
            Source::Streams { receiver, .. } => receiver,
        };
        // The wait has its own deadline instead of a timer of the query threads, because these may all be busy.
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let deadline = Instant::now() + timeout;
        let received = loop {
            if let Poll::Ready(received) = receiver.poll_recv(&mut Context::from_waker(&waker)) {
                break received;
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return WaitOutcome::TimedOut;
            }
            std::thread::park_timeout(remaining);
        };
        self.take(received.map(|waiting| waiting.batch)).map_or(WaitOutcome::End, WaitOutcome::Batch)
    }

    /// All batches.
    ///
    /// # Errors
    /// The errors of the execution.
    pub fn batches(&mut self) -> Result<Vec<RecordBatch>> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The cost so far; final after the last batch.
    #[must_use]
    pub fn stats(&self) -> StatementStats {
        let mut stats =
            StatementStats { planning: self.planning, rows_returned: self.rows, ..StatementStats::default() };
        stats.tick_plans_refused = u64::from(self.refusal.is_some());
        match &self.source {
            Source::Ready { execution, read, .. } => {
                stats.run_by = RunBy::TickPlan;
                stats.execution = *execution;
                add_read(read, &mut stats);
            }
            Source::Streams { plan, finished, peak, .. } => {
                let finished = *finished.lock().unwrap_or_else(PoisonError::into_inner);
                stats.execution = finished.unwrap_or_else(|| self.start.elapsed());
                stats.peak_memory_bytes = peak.load(Ordering::Relaxed) as u64;
                add_scans(plan, &mut stats);
            }
        }
        stats
    }

    /// Says how far the statement is: of a DataFusion plan the rows that its scans have read, of those that they may read. A tick plan
    /// has made all its rows, and has told of them itself while it ran, to the progress of its [`Stop`](crate::Stop).
    pub fn tell(&self, progress: &Progress) {
        if let Source::Streams { plan, .. } = &self.source {
            let (mut rows, mut total) = (0, 0);
            add_progress(plan, &mut rows, &mut total);
            progress.set(rows, total);
        }
    }

    /// The cost of each step of a tick plan.
    pub(crate) fn step_costs(&self) -> Option<&StepCosts> {
        match &self.source {
            Source::Ready { read, .. } => Some(&read.steps),
            Source::Streams { .. } => None,
        }
    }

    /// Counts rows, and distinguishes the end of an answer from one that broke off.
    fn take(&mut self, received: Option<Result<RecordBatch>>) -> Option<Result<RecordBatch>> {
        let finished = || match &self.source {
            Source::Ready { .. } => true,
            Source::Streams { finished, .. } => finished.lock().unwrap_or_else(PoisonError::into_inner).is_some(),
        };
        let is_over = || self.failed || finished();
        let batch = match received {
            Some(batch) => batch,
            None if is_over() => return None,
            None => Err(Error::Internal { message: "the statement broke off; this is a fault of SplayDB".to_owned() }),
        };
        match &batch {
            Ok(batch) => self.rows += batch.num_rows() as u64,
            Err(_) => self.failed = true,
        }
        Some(batch)
    }
}

fn add_selection(to: &mut SelectionStats, from: &SelectionStats) {
    let add = |to: &mut splay_store::SelectedCount, from: splay_store::SelectedCount| {
        to.selected += from.selected;
        to.total += from.total;
    };
    add(&mut to.partitions, from.partitions);
    add(&mut to.symbols, from.symbols);
    add(&mut to.blocks, from.blocks);
    add(&mut to.rows, from.rows);
}

fn add_read(read: &ReadStats, stats: &mut StatementStats) {
    stats.peak_memory_bytes = stats.peak_memory_bytes.max(read.peak_memory_bytes);
    stats.bytes_scanned += read.bytes;
    for scan in &read.scans {
        add_selection(&mut stats.selection, scan);
        stats.rows_scanned += scan.rows.selected;
    }
}

fn add_scans(plan: &Arc<dyn ExecutionPlan>, stats: &mut StatementStats) {
    if let Some(scan) = plan.downcast_ref::<TickScanExec>().filter(|scan| !scan.is_private()) {
        add_selection(&mut stats.selection, &scan.selection_stats());
        let rows = scan.rows_scanned();
        stats.rows_scanned += rows;
        stats.bytes_scanned += rows * scan.row_bytes();
    }
    match plan.downcast_ref::<TickPartExec>().and_then(TickPartExec::ran) {
        Some(PartRan::Ticks(read)) => {
            stats.run_by = RunBy::TickParts;
            add_read(&read, stats);
        }
        Some(PartRan::General(plan, _)) => {
            stats.tick_plans_refused += 1;
            add_scans(&plan, stats);
        }
        None => {}
    }
    for child in plan.children() {
        add_scans(child, stats);
    }
}

/// Adds the rows that the scans of a plan have read, and those that they may read in all.
fn add_progress(plan: &Arc<dyn ExecutionPlan>, rows: &mut u64, total: &mut u64) {
    let mut add = |read: u64, all: u64| (*rows, *total) = (*rows + read, *total + all);
    if let Some(scan) = plan.downcast_ref::<TickScanExec>().filter(|scan| !scan.is_private()) {
        add(scan.rows_scanned(), scan.rows());
    } else if let Some(scan) = plan.downcast_ref::<FileScanExec>() {
        add(scan.rows_read(), scan.rows());
    } else if let Some(part) = plan.downcast_ref::<TickPartExec>() {
        match part.ran() {
            Some(PartRan::General(plan, _)) => add_progress(&plan, rows, total),
            _ => add(part.progress().rows(), part.progress().total()),
        }
    }
    for child in plan.children() {
        add_progress(child, rows, total);
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.wait(Duration::from_secs(3600)) {
                WaitOutcome::Batch(batch) => return Some(batch),
                WaitOutcome::End => return None,
                WaitOutcome::TimedOut => {}
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Source::Streams { work, bounds, .. } = &self.source {
            bounds.end();
            work.abort();
        }
    }
}
