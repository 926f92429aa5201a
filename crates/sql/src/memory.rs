//! Memory of statements: a pool that bounds a statement and remembers its peak, and the total that all pools of a session draw from.

use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// The beginning of errors that come from [`TotalMemory`] and not from a statement's own limit.
pub(crate) const TOTAL: &str = "the memory of all statements together";

/// The smallest part of the total in which a tick plan runs.
const GRANT_BYTES_MIN: usize = 1 << 20;

/// Memory that all statements of a session share.
#[derive(Debug)]
pub(crate) struct TotalMemory {
    limit_bytes: usize,
    reserved: AtomicUsize,
}

impl TotalMemory {
    pub(crate) fn new(limit_bytes: usize) -> TotalMemory {
        TotalMemory { limit_bytes, reserved: AtomicUsize::new(0) }
    }

    /// Bytes that statements hold.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Reserves bytes if that many are left.
    fn try_take(&self, bytes: usize) -> Result<()> {
        // Relaxed: the number guards no other memory.
        let reservation = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
            reserved.checked_add(bytes).filter(|sum| *sum <= self.limit_bytes)
        });
        reservation.map(|_| ()).map_err(|reserved| {
            let available = self.limit_bytes.saturating_sub(reserved);
            DataFusionError::ResourcesExhausted(format!(
                "{TOTAL} is limited to {} bytes; {bytes} more were requested, {available} are left",
                self.limit_bytes
            ))
        })
    }

    fn take(&self, bytes: usize) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A part of the total for a tick plan, whose use is known only after it has run: its limit, but at most half of the memory
    /// that is left. `None` if too little is left. If the part proves too small, DataFusion runs the statement and reserves step by step.
    pub(crate) fn grant(self: &Arc<TotalMemory>, bytes_max: usize) -> Option<Grant> {
        if self.limit_bytes == usize::MAX {
            return Some(Grant { total: Arc::clone(self), bytes: 0, usable: bytes_max });
        }
        let available = self.limit_bytes.saturating_sub(self.reserved());
        let bytes = bytes_max.min(available / 2);
        if bytes < GRANT_BYTES_MIN.min(bytes_max) {
            return None;
        }
        self.try_take(bytes).ok()?;
        Some(Grant { total: Arc::clone(self), bytes, usable: bytes })
    }
}

/// A reserved part of the total, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Grant {
    total: Arc<TotalMemory>,
    bytes: usize,
    usable: usize,
}

impl Grant {
    /// Bytes that may be used.
    pub(crate) fn usable_bytes(&self) -> usize {
        self.usable
    }

    /// Releases what is no longer needed.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let remaining = self.bytes.min(bytes);
        self.total.give_back(self.bytes - remaining);
        self.bytes = remaining;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.total.give_back(self.bytes);
    }
}

/// Part of a statement's memory that its answer has besides, and the least of it.
const ANSWER_PART: usize = 8;
const ANSWER_BYTES_MIN: usize = 8 << 20;

/// Memory for what the reader of an answer makes of its batches: an eighth of the statement's, besides it, so that a sort that fills its own leaves room
/// for the answer; 8 MiB at least. It is of the memory of all statements, too. Clones share it.
#[derive(Debug, Clone)]
pub struct AnswerMemory {
    pool: Arc<dyn MemoryPool>,
    limit_bytes: usize,
}

impl AnswerMemory {
    pub(crate) fn new(statement_bytes: usize, total: &Arc<TotalMemory>) -> AnswerMemory {
        let limit_bytes = (statement_bytes / ANSWER_PART).max(ANSWER_BYTES_MIN);
        AnswerMemory { pool: Arc::new(StatementPool::new(limit_bytes, total).0), limit_bytes }
    }

    /// A part of it, still empty.
    #[must_use]
    pub fn part(&self) -> AnswerMemoryPart {
        self.part_for("the encoding of the answer")
    }

    /// A part for memory other than the answer's encoding. `what` names it in errors.
    pub(crate) fn part_for(&self, what: &str) -> AnswerMemoryPart {
        let reservation = MemoryConsumer::new(what).register(&self.pool);
        AnswerMemoryPart { reservation, limit_bytes: self.limit_bytes }
    }
}

/// A part of a statement's memory, released when it is dropped.
#[derive(Debug)]
pub struct AnswerMemoryPart {
    reservation: MemoryReservation,
    limit_bytes: usize,
}

impl AnswerMemoryPart {
    /// A part of a statement's pool, still empty.
    pub(crate) fn of_statement(pool: &Arc<dyn MemoryPool>, limit_bytes: usize, what: &str) -> AnswerMemoryPart {
        AnswerMemoryPart { reservation: MemoryConsumer::new(what).register(pool), limit_bytes }
    }

    /// Resizes the part.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), [`Error::TotalMemory`](crate::Error::TotalMemory); it stays as it was then.
    pub fn resize(&self, bytes: usize) -> crate::Result<()> {
        let resized = self.reservation.try_resize(bytes);
        resized.map_err(|error| crate::Error::from_datafusion(error, self.limit_bytes))
    }
}

/// The memory pool of one statement: bounds its sorts, joins and groups. Those that can spill do so before they fail.
#[derive(Debug)]
pub(crate) struct StatementPool {
    inner: FairSpillPool,
    total: Arc<TotalMemory>,
    peak: Arc<AtomicUsize>,
}

impl StatementPool {
    /// A pool of `limit_bytes`, and the counter of its peak.
    pub(crate) fn new(limit_bytes: usize, total: &Arc<TotalMemory>) -> (StatementPool, Arc<AtomicUsize>) {
        let peak = Arc::new(AtomicUsize::new(0));
        let inner = FairSpillPool::new(limit_bytes);
        (StatementPool { inner, total: Arc::clone(total), peak: Arc::clone(&peak) }, peak)
    }

    fn note(&self) {
        self.peak.fetch_max(self.inner.reserved(), Ordering::Relaxed);
    }
}

impl Display for StatementPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.inner, f)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.total.take(additional);
        self.inner.grow(reservation, additional);
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
        self.total.give_back(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.total.try_take(additional)?;
        if let Err(error) = self.inner.try_grow(reservation, additional) {
            self.total.give_back(additional);
            return Err(error);
        }
        self.note();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}
