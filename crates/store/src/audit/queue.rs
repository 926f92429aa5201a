//! The queue of events before the writer, bounded in bytes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::RecordFailure;
use super::event::AuditEvent;
use super::writer::RecordCallback;

/// Bytes of events that wait.
const BYTES_MAX: usize = 16 << 20;

/// An event, and the callback for when it is durable.
pub(super) struct QueuedEvent {
    pub(super) event: AuditEvent,
    pub(super) done: Option<RecordCallback>,
}

#[derive(Default)]
struct AuditQueueState {
    events: Vec<QueuedEvent>,
    bytes: usize,
    is_closed: bool,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct AuditQueue {
    state: Mutex<AuditQueueState>,
    has_events: Condvar,
    has_room: Condvar,
}

impl std::fmt::Debug for AuditQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

impl AuditQueue {
    fn state(&self) -> MutexGuard<'_, AuditQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Waits at most `patience` for room. If there is none, gives back the callback.
    pub(super) fn push(
        &self,
        waiting: QueuedEvent,
        patience: Duration,
    ) -> Result<(), (RecordFailure, Option<RecordCallback>)> {
        let deadline = Instant::now() + patience;
        let bytes = waiting.event.bytes();
        let mut state = self.state();
        while !state.is_closed && state.bytes + bytes > BYTES_MAX {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err((RecordFailure::Busy, waiting.done));
            }
            state = self.has_room.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_closed {
            return Err((RecordFailure::Closed, waiting.done));
        }
        state.bytes += bytes;
        state.events.push(waiting);
        drop(state);
        self.has_events.notify_one();
        Ok(())
    }

    /// All waiting events, and whether the queue is closed. Waits at most `patience` for the first one.
    pub(super) fn take(&self, patience: Duration) -> (Vec<QueuedEvent>, bool) {
        let state = self.state();
        let is_empty = |state: &mut AuditQueueState| state.events.is_empty() && !state.is_closed;
        let waited = self.has_events.wait_timeout_while(state, patience, is_empty);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.bytes = 0;
        let events = std::mem::take(&mut state.events);
        let is_closed = state.is_closed;
        drop(state);
        self.has_room.notify_all();
        (events, is_closed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Takes nothing more.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.has_events.notify_all();
        self.has_room.notify_all();
    }
}
