//! Records of row streams: one before the first rows of a connection for a table, then row counts from time to time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use splay_store::audit::AuditEvent;

use super::{Action, Actor, AuditedOperation, Auditor, now};
use crate::ingest::{Ack, Append, IngestCallback, IngestError};
use crate::settings::AuditLevel;

/// How often the numbers of a connection have a record while its rows come.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);

/// Rows of a user for a table on a connection. Dropped it records what it hasn't.
#[derive(Debug)]
pub(super) struct Tally {
    auditor: Auditor,
    event: AuditEvent,
    messages: AtomicU64,
    refused: AtomicU64,
    rows: AtomicU64,
    last_record: Mutex<Instant>,
}

impl Tally {
    fn new(auditor: Auditor, event: AuditEvent) -> Tally {
        let (messages, refused, rows) = Default::default();
        Tally { auditor, event, messages, refused, rows, last_record: Mutex::new(Instant::now()) }
    }

    fn tell_now_and_then(&self) {
        let mut last_record = self.last_record.lock().unwrap_or_else(PoisonError::into_inner);
        if last_record.elapsed() >= RECORD_INTERVAL {
            *last_record = Instant::now();
            self.tell();
        }
    }

    fn tell(&self) {
        // Relaxed: the numbers alone count.
        let take = |number: &AtomicU64| number.swap(0, Ordering::Relaxed);
        let (messages, refused, rows) = (take(&self.messages), take(&self.refused), take(&self.rows));
        if messages > 0 || refused > 0 {
            let event = AuditEvent {
                time: now(),
                outcome: "ok",
                messages: Some(messages),
                refused: (refused > 0).then_some(refused),
                rows: Some(rows),
                ..self.event.clone()
            };
            self.auditor.note(event, None);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.tell();
    }
}

/// The rows that one append adds to the tally of each table.
#[derive(Debug, Default)]
pub(crate) struct Counts(Vec<(Arc<Tally>, u64)>);

impl Counts {
    /// Counts what becomes of the rows before it passes that on.
    pub(crate) fn counting(&self, done: IngestCallback) -> IngestCallback {
        if self.0.is_empty() {
            return done;
        }
        let counts = Counts(self.0.clone());
        Box::new(move |acked: Result<Ack, IngestError>| {
            match &acked {
                Ok(ack) => counts.accepted(ack.duplicate),
                Err(_) => counts.refused(),
            }
            done(acked);
        })
    }

    /// Counts a message that was taken. The rows of a repeat were counted before.
    fn accepted(&self, is_repeat: bool) {
        for (tally, rows) in &self.0 {
            tally.messages.fetch_add(1, Ordering::Relaxed);
            tally.rows.fetch_add(if is_repeat { 0 } else { *rows }, Ordering::Relaxed);
        }
    }

    /// Counts a message that was refused.
    pub(crate) fn refused(&self) {
        for (tally, _) in &self.0 {
            tally.messages.fetch_add(1, Ordering::Relaxed);
            tally.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Actor {
    /// The tallies of rows. Returns once the first record of each is durable. Blocks.
    ///
    /// # Errors
    /// [`IngestError::Full`]: nothing is to be done without a record, and there is none.
    pub(crate) fn rows(&self, appends: &[Append]) -> Result<Counts, IngestError> {
        let auditor = &self.peer().auditor;
        if !auditor.records(AuditLevel::Changes) {
            return Ok(Counts::default());
        }
        let mut counts = Vec::with_capacity(appends.len());
        for append in appends {
            let tally = self.peer().tally(self.user(), &append.table, || {
                let full = |problem: crate::problem::Problem| IngestError::Full { reason: problem.message };
                let begun = self.begin_here(Action::change("rows", &append.table, "")).map_err(full)?;
                Ok(Tally::new(auditor.clone(), begun.into_event()))
            })?;
            tally.tell_now_and_then();
            counts.push((tally, append.rows.num_rows() as u64));
        }
        Ok(Counts(counts))
    }
}

impl AuditedOperation {
    /// The event of its later records; it has no last record.
    fn into_event(mut self) -> AuditEvent {
        self.take_event().unwrap_or_default()
    }
}
