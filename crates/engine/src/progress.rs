//! The progress of a statement, for its caller.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of rows that a statement has processed, and the number that it will process, as far as known. All threads
/// that work on it add to it, once per block; another thread may read it.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    total: AtomicU64,
}

// Relaxed: nothing but the sums matters.
impl Progress {
    /// Processed rows.
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
