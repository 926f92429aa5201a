//! Bounds on what a statement may take while it is planned and while it runs, enforced in each step of DataFusion.
//!
//! | Question | File |
//! | --- | --- |
//! | Which pool does a statement draw from? | `../memory.rs` |
//! | When does planning stop? | `rules.rs`, `pushdown.rs`: optimiser rules that check the deadline and the size of the plan |
//! | Which functions may return far more than they get? | `growth.rs` over `size.rs` |
//! | How do they reserve memory? | `functions.rs`, `reserve.rs` |
//! | Which of their calls are small in any case? | `row_size.rs` |
//! | How large may a constant be? | `constants.rs` |
//! | What does a window operator hold? | `windows.rs` |
//! | What do joins and `unnest` repeat? | `repeats.rs` |
//!
//! Rules and functions find the bounds of the statement through a task-local variable of the task that plans it,
//! because DataFusion passes its rules nothing that belongs to a statement. A function gets its bounds when its call
//! is planned, since it runs on other tasks.

mod constants;
mod functions;
mod growth;
mod pushdown;
mod repeats;
mod reserve;
mod row_size;
mod rules;
pub(crate) mod size;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::MemoryPool;
use splay_engine::Stop;

use crate::error::{Error, Result};

pub(crate) use functions::{BoundFunctions, growing, may_grow, most_bytes};
pub(crate) use repeats::count_repeats;
pub(crate) use rules::register;
pub(crate) use windows::count_windows;

/// Interval at which a thread that waits for a plan checks whether the statement was stopped.
const LOOK_AROUND: Duration = Duration::from_millis(10);

tokio::task_local! {
    static BOUNDS: StatementBounds;
}

/// The bounds of one statement. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct StatementBounds {
    pool: Arc<dyn MemoryPool>,
    is_over: Arc<AtomicBool>,
}

impl StatementBounds {
    pub(crate) fn new(pool: Arc<dyn MemoryPool>) -> StatementBounds {
        StatementBounds { pool, is_over: Arc::default() }
    }

    /// Runs work within these bounds.
    pub(crate) async fn within<T>(self, work: impl Future<Output = T>) -> T {
        BOUNDS.scope(self, work).await
    }

    /// The statement was abandoned: its functions end at their next check.
    pub(crate) fn end(&self) {
        // Relaxed: it says nothing of other memory.
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Fails when the statement is cancelled.
    fn check(&self) -> DataFusionResult<()> {
        match self.is_over.load(Ordering::Relaxed) {
            true => Err(DataFusionError::External(Box::new(Error::Cancelled))),
            false => Ok(()),
        }
    }

    /// Waits for planning within these bounds, and ends it when `stop` says so.
    pub(crate) fn wait<T>(&self, planned: &Receiver<T>, stop: Stop<'_>) -> Result<T> {
        loop {
            match planned.recv_timeout(LOOK_AROUND) {
                Ok(planned) => return Ok(planned),
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "planning broke off; this is a fault of SplayDB".to_owned();
                    return Err(Error::Internal { message });
                }
                Err(RecvTimeoutError::Timeout) if stop.is_due() => {
                    self.end();
                    return Err(Error::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Fails if the statement that is being planned was stopped.
fn check_time() -> DataFusionResult<()> {
    current().map_or(Ok(()), |bounds| bounds.check())
}

/// Waits for work of the statement that is being planned, and ends it when the statement is cancelled.
pub(crate) async fn until_cancelled<T>(work: impl Future<Output = DataFusionResult<T>>) -> DataFusionResult<T> {
    let cancelled = async {
        loop {
            tokio::time::sleep(LOOK_AROUND).await;
            if let Err(error) = check_time() {
                return error;
            }
        }
    };
    tokio::select! {
        done = work => done,
        error = cancelled => Err(error),
    }
}

/// The bounds of the statement that is being planned.
fn current() -> Option<StatementBounds> {
    BOUNDS.try_with(StatementBounds::clone).ok()
}

/// The pool of the statement that is being planned.
fn pool() -> Option<Arc<dyn MemoryPool>> {
    current().map(|bounds| bounds.pool)
}
