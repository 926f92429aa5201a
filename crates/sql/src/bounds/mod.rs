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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use splay_engine::Stop;

use crate::error::{Error, Result};

pub(crate) use functions::{BoundFunctions, growing, may_grow, most_bytes};
pub(crate) use repeats::count_repeats;
pub(crate) use rules::register;
pub(crate) use windows::count_windows;

/// Interval at which a thread that waits for a plan checks whether the statement was stopped.
const LOOK_AROUND: Duration = Duration::from_millis(10);

/// The share of a statement's memory that the constants of its plan may take: plans and their expressions are copied.
const CONSTANTS_PART: usize = 4;

tokio::task_local! {
    static BOUNDS: StatementBounds;
}

/// The bounds of one statement. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct StatementBounds {
    pool: Arc<dyn MemoryPool>,
    is_over: Arc<AtomicBool>,
    /// Bytes of the constants that functions have given while the statement was planned.
    constant_bytes: Arc<AtomicUsize>,
}

impl StatementBounds {
    pub(crate) fn new(pool: Arc<dyn MemoryPool>) -> StatementBounds {
        StatementBounds { pool, is_over: Arc::default(), constant_bytes: Arc::default() }
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

    /// Counts a constant that the plan has from now on. One call may stand in a plan many times, as each query around another doubles it.
    ///
    /// # Errors
    /// `ResourcesExhausted`, once all of them take a larger share of the statement's memory than they may.
    fn count_constant(&self, bytes: usize) -> DataFusionResult<()> {
        // Relaxed: the number alone counts.
        let all = self.constant_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        match self.pool.memory_limit() {
            MemoryLimit::Finite(limit) if all > limit / CONSTANTS_PART => {
                let most = limit / CONSTANTS_PART;
                let text = format!("constants of {all} bytes stand in the plan, where they may have {most}");
                Err(DataFusionError::ResourcesExhausted(text))
            }
            _ => Ok(()),
        }
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
