//! The signal by which all threads of the process end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Says when to end, to all threads.
#[derive(Debug, Default)]
pub struct StopSignal {
    /// No more records are read; what waits is sent.
    is_set: AtomicBool,
    /// Nothing is tried again.
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

    /// Ends waiting, too.
    pub fn urge(&self) {
        self.is_urgent.store(true, Ordering::SeqCst);
        self.set();
    }

    /// Whether reading ends.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Waits, and says whether to go on.
    pub fn wait(&self, time: Duration) -> bool {
        self.wait_unless(time, || false)
    }

    /// The same, and ends the wait if something else says so.
    pub fn wait_unless(&self, time: Duration, is_over: impl Fn() -> bool) -> bool {
        let is_over = || self.is_urgent.load(Ordering::SeqCst) || is_over();
        let until = Instant::now() + time;
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            if is_over() || remaining.is_zero() {
                return !is_over();
            }
            // Looks now and then, for a notice may come between the look and the wait.
            let step = remaining.min(Duration::from_millis(100));
            (guard, _) = self.changed.wait_timeout(guard, step).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
