//! Appends of connections without replies: those in progress, and those that wait for room on the disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ingest::Append;

/// Bytes of rows that are kept, over all connections. What is more is lost as if nothing were kept.
const PENDING_BYTES_MAX: usize = 256 << 20;

/// The bytes that all connections hold, and the number of connections that exist only for them, because their clients
/// have disconnected.
#[derive(Debug, Default)]
pub(crate) struct PendingBytes {
    bytes: AtomicUsize,
    pub(crate) ended: AtomicUsize,
}

/// Appends of a connection.
#[derive(Debug, Default)]
pub(crate) struct PendingAppends {
    state: Mutex<PendingAppendsState>,
    fewer: Condvar,
    pending_bytes: Arc<PendingBytes>,
}

#[derive(Debug, Default)]
struct PendingAppendsState {
    /// Appends under way.
    count: usize,
    /// Appends that have to be submitted again, with their bytes.
    again: Vec<(Arc<Append>, usize)>,
    /// Whether the operator knows that there is no room.
    is_reported: bool,
    /// Whether no append is submitted any more.
    is_closed: bool,
    /// Whether rows that had been taken were lost.
    has_lost: bool,
}

impl PendingAppends {
    pub(crate) fn new(pending_bytes: Arc<PendingBytes>) -> PendingAppends {
        PendingAppends { pending_bytes, ..PendingAppends::default() }
    }

    fn state(&self) -> MutexGuard<'_, PendingAppendsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more is under way, once there are fewer than this.
    pub(crate) fn enter(&self, max: usize) {
        let state = self.fewer.wait_while(self.state(), |state| state.count >= max);
        state.unwrap_or_else(PoisonError::into_inner).count += 1;
    }

    /// One has been answered, or wasn't taken.
    pub(crate) fn leave(&self) {
        self.state().count -= 1;
        self.fewer.notify_all();
    }

    /// Waits until none is under way, at most so long; whether none is.
    pub(crate) fn drain(&self, patience: Duration) -> bool {
        let waited = self.fewer.wait_timeout_while(self.state(), patience, |state| state.count > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.count == 0
    }

    /// Keeps an append that found no room.
    ///
    /// # Errors
    /// The append, if it can't be kept.
    pub(crate) fn keep(&self, append: Arc<Append>) -> Result<(), Arc<Append>> {
        let mut state = self.state();
        let bytes = append.rows.get_array_memory_size();
        // Relaxed: the sum alone counts.
        if state.is_closed || self.pending_bytes.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > PENDING_BYTES_MAX {
            if !state.is_closed {
                self.pending_bytes.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            return Err(append);
        }
        state.again.push((append, bytes));
        Ok(())
    }

    pub(crate) fn keeps_any(&self) -> bool {
        !self.state().again.is_empty()
    }

    /// Removes and returns the kept appends.
    pub(crate) fn take_pending(&self) -> Vec<Arc<Append>> {
        let appends = std::mem::take(&mut self.state().again);
        self.pending_bytes.bytes.fetch_sub(appends.iter().map(|(_, bytes)| bytes).sum(), Ordering::Relaxed);
        appends.into_iter().map(|(append, _)| append).collect()
    }

    /// Keeps no appends from now on, and returns those that were kept.
    pub(crate) fn close(&self) -> Vec<Arc<Append>> {
        self.state().is_closed = true;
        self.take_pending()
    }

    /// Whether this is the first time since rows were last taken that there is no room.
    pub(crate) fn is_news(&self) -> bool {
        !std::mem::replace(&mut self.state().is_reported, true)
    }

    /// Rows were taken.
    pub(crate) fn has_room(&self) {
        self.state().is_reported = false;
    }

    pub(crate) fn lose(&self) {
        self.state().has_lost = true;
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.state().has_lost
    }
}
