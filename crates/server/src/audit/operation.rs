//! An operation that has begun, and gets its second record when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use splay_store::audit::{AuditEvent, RecordCallback, RecordFailure};

use super::{Auditor, now};
use crate::problem::Problem;

/// The outcome of what ended without one: its client left, or it broke off.
const CLIENT_LEFT: &str = "left";

/// See the module's text. One that is dropped was left.
#[derive(Debug, Default)]
pub(crate) struct AuditedOperation {
    auditor: Auditor,
    /// The event of its last record; `None` if it needs none.
    event: Option<AuditEvent>,
    /// Whether it has one only if it was forbidden.
    only_forbidden: bool,
    /// Number of its first record; 0 without.
    first: Arc<AtomicU64>,
    start: Option<Instant>,
}

impl AuditedOperation {
    /// An operation that isn't recorded.
    pub(super) fn unrecorded() -> AuditedOperation {
        AuditedOperation::default()
    }

    pub(super) fn new(auditor: Auditor, event: AuditEvent, only_forbidden: bool) -> AuditedOperation {
        AuditedOperation {
            auditor,
            event: Some(event),
            only_forbidden,
            first: Arc::default(),
            start: Some(Instant::now()),
        }
    }

    /// A callback that passes on the outcome of the first record.
    pub(super) fn first(&self, done: impl FnOnce(Result<u64, RecordFailure>) + Send + 'static) -> RecordCallback {
        let first = Arc::clone(&self.first);
        Box::new(move |written| {
            if let Ok(number) = written {
                first.store(number, Ordering::Release);
            }
            done(written);
        })
    }

    /// It isn't done after all.
    pub(super) fn forget(&mut self) {
        self.event = None;
    }

    /// Its last record names the quota that ended it, if one did.
    pub(crate) fn note(&mut self, problem: &Problem) {
        if let (Some(event), Some(quota)) = (&mut self.event, &problem.quota) {
            event.about = format!("quota {quota}");
        }
    }

    /// It has ended.
    pub(crate) fn end(mut self, outcome: &'static str, rows: Option<u64>) {
        if let Some(event) = self.ended(outcome, rows) {
            self.auditor.note(event, None);
        }
    }

    /// The same on a thread that may wait for room in the queue.
    pub(crate) fn end_patiently(mut self, outcome: &'static str, rows: Option<u64>) {
        if let Some(event) = self.ended(outcome, rows) {
            self.auditor.note_patiently(event);
        }
    }

    /// Takes the event of its last record. From then on there is no last record.
    pub(super) fn take_event(&mut self) -> Option<AuditEvent> {
        let mut event = self.event.take()?;
        let first = self.first.load(Ordering::Acquire);
        if first > 0 {
            // The first record has the text.
            event.statement = String::new();
            event.of = Some(first);
        }
        Some(event)
    }

    fn ended(&mut self, outcome: &'static str, rows: Option<u64>) -> Option<AuditEvent> {
        let mut event = self.take_event().filter(|_| !self.only_forbidden || outcome == "forbidden")?;
        event.time = now();
        (event.outcome, event.rows) = (outcome, rows);
        event.milliseconds = self.start.map(|start| (start.elapsed().as_secs_f64() * 1e6).round() / 1e3);
        Some(event)
    }
}

impl Drop for AuditedOperation {
    fn drop(&mut self) {
        if let Some(event) = self.ended(CLIENT_LEFT, None) {
            self.auditor.note(event, None);
        }
    }
}
