//! Waking and stopping of background threads.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes a thread that looks around from time to time, and stops it.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    woken: bool,
    stopped: bool,
}

impl Signal {
    pub(crate) fn wake(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).woken = true;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped
    }

    /// Waits for the interval, or until it is woken. Returns false if the thread shall end.
    pub(crate) fn wait(&self, interval: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, interval, |state| !state.woken && !state.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        state.woken = false;
        !state.stopped
    }
}
