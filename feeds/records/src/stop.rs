//! The signal by which all threads of the process end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The end of the process, as all threads see it.
#[derive(Debug, Default)]
pub struct StopSignal {
    /// No more records are read; the rows that wait are sent.
    is_set: AtomicBool,
    /// No call is made again.
    is_urgent: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl StopSignal {
    /// Ends reading.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Ends waits, too, so that no call is made again.
    pub fn urge(&self) {
        self.is_urgent.store(true, Ordering::SeqCst);
        self.set();
    }

    /// Whether reading ends.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Waits, and returns whether to continue.
    pub fn wait(&self, time: Duration) -> bool {
        self.wait_unless(time, || false)
    }

    /// Waits as [`StopSignal::wait`] does, and ends the wait once `is_over`.
    pub fn wait_unless(&self, time: Duration, is_over: impl Fn() -> bool) -> bool {
        let is_over = || self.is_urgent.load(Ordering::SeqCst) || is_over();
        let until = Instant::now() + time;
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            if is_over() || remaining.is_zero() {
                return !is_over();
            }
            // A notice between the check and the wait is missed, and `is_over` gives none.
            let step = remaining.min(Duration::from_millis(100));
            (guard, _) = self.changed.wait_timeout(guard, step).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
