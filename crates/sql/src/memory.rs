//! A memory pool that bounds a statement and remembers its peak.

use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// Bounds what a statement's sorts, joins and groups hold; those that can spill do so before they fail.
#[derive(Debug)]
pub(crate) struct StatementPool {
    inner: FairSpillPool,
    peak: Arc<AtomicUsize>,
}

impl StatementPool {
    /// A pool of `limit_bytes`, and where its peak can be read.
    pub(crate) fn new(limit_bytes: usize) -> (StatementPool, Arc<AtomicUsize>) {
        let peak = Arc::new(AtomicUsize::new(0));
        (StatementPool { inner: FairSpillPool::new(limit_bytes), peak: Arc::clone(&peak) }, peak)
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
        self.inner.grow(reservation, additional);
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
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
