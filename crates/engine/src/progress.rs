//! The progress of a statement, for its caller.

use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that a statement has gone through, of those that it goes through as far as that is known. All threads that work on it add to
/// it, once a block; another one may look at it.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    total: AtomicU64,
}

// Relaxed: nothing but the sums matters.
impl Progress {
    /// Rows that were gone through.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Rows that the statement will process, without those of steps that haven't begun; 0 if unknown.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Sets the progress of the statement, and replaces what was set before.
    pub fn set(&self, rows: u64, total: u64) {
        self.rows.store(rows, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_total(&self, rows: u64) {
        self.total.fetch_add(rows, Ordering::Relaxed);
    }
}
