//! The audit log of the server: what is recorded about which user, and which requests wait for their record.
//!
//! - A change has one record before it begins, which is durable by then, and one after it. So no change lacks a
//!   record, whenever the process dies.
//! - A read has one record after it, which nobody waits for.
//! - Streams of rows have a record before the first rows of a connection for a table, and one with row counts from
//!   time to time and when the connection ends.
//! - All protocols record through [`Actor::begin`] and [`Actor::rows`]; sign-ins through
//!   [`Callers`](crate::callers::Callers).
//! - Statement texts are recorded without secrets, and values of placeholders not at all.

mod actor;
mod operation;
mod peer;
mod refusals;
mod rows;
mod statement_kind;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use splay_store::Database;
use splay_store::audit::{AuditEvent, AuditLog, AuditSettings, AuditStatus, FOLDER, RecordCallback, RecordFailure};
use splay_store::storage::{LocalStorage, Storage};

pub(crate) use self::actor::{Action, Actor};
pub(crate) use self::operation::AuditedOperation;
pub(crate) use self::peer::Peer;
use self::refusals::Refusals;
pub(crate) use self::rows::Counts;
use crate::error::{Error, Result};
use crate::problem::{Code, Problem};
use crate::settings::{Audit, AuditLevel, WhenFull};

/// How long a thread of a statement waits for room in the queue, where nothing is to go unrecorded.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The log, or none. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Auditor(Option<Arc<AuditorState>>);

#[derive(Debug)]
struct AuditorState {
    log: AuditLog,
    level: AuditLevel,
    refuses: bool,
    refusals: Refusals,
}

/// The time, in nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Auditor {
    /// # Errors
    /// [`Error::Setting`] for a log that can't be written.
    pub(crate) fn open(settings: &Audit, database: &Database) -> Result<Auditor> {
        if settings.log == AuditLevel::None {
            return Ok(Auditor(None));
        }
        let folder = settings.folder.clone().unwrap_or_else(|| database.path().join(FOLDER));
        let storage = LocalStorage::private(folder).map_err(wrong)?;
        Auditor::on(Arc::new(storage), settings)
    }

    fn on(storage: Arc<dyn Storage>, settings: &Audit) -> Result<Auditor> {
        let log_settings = AuditSettings { file_bytes_max: settings.file_bytes_max, keep_days: settings.keep_days };
        let log = AuditLog::open(storage, log_settings, settings.read_key()?, Arc::new(now)).map_err(wrong)?;
        let (level, refuses) = (settings.log, settings.when_full == WhenFull::Refuse);
        Ok(Auditor(Some(Arc::new(AuditorState { log, level, refuses, refusals: Refusals::default() }))))
    }

    fn records(&self, level: AuditLevel) -> bool {
        self.0.as_ref().is_some_and(|state| state.level >= level)
    }

    /// Whether something isn't done whose record can't be written.
    fn refuses(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.refuses)
    }

    /// Whether the last records couldn't be written.
    fn is_failing(&self) -> bool {
        self.status().is_some_and(|status| status.error.is_some())
    }

    /// The operations that are refused because their records can't be written, if any are; and whether this lasts until the next start.
    pub(crate) fn outage(&self) -> Option<(AuditLevel, bool)> {
        let state = self.0.as_ref().filter(|state| state.refuses)?;
        let status = state.log.status();
        status.error.is_some().then_some((state.level, status.is_failed))
    }

    /// Records an event. Doesn't wait.
    fn note(&self, event: AuditEvent, done: Option<RecordCallback>) {
        if let Some(state) = &self.0 {
            state.log.record(event, done);
        }
    }

    /// The same from a thread that may wait for room.
    fn note_patiently(&self, event: AuditEvent) {
        if let Some(state) = &self.0 {
            let patience = if state.refuses { PATIENCE } else { std::time::Duration::ZERO };
            state.log.record_within(event, None, patience);
        }
    }

    /// Records what the server does itself.
    pub(crate) fn note_server(&self, kind: &'static str, about: String) {
        self.note(AuditEvent { about, outcome: "ok", ..AuditEvent::new(kind, now()) }, None);
    }

    /// Records that a client wasn't let in. If there are very many in a second, only their number is recorded.
    fn note_refusal(&self, event: AuditEvent) {
        let Some(state) = &self.0 else { return };
        let (more, is_recorded) = state.refusals.count(event.time);
        if let Some(more) = more {
            state.log.record(more, None);
        }
        if is_recorded {
            state.log.record(event, None);
        }
    }

    /// How it stands; none if there is none.
    pub(crate) fn status(&self) -> Option<AuditStatus> {
        self.0.as_ref().map(|state| state.log.status())
    }

    /// Writes what waits, and ends. Blocks.
    pub(crate) fn close(&self) {
        if let Some(state) = &self.0 {
            state.log.close();
        }
    }
}

fn wrong(error: splay_store::Error) -> Error {
    let reason = match &error {
        splay_store::Error::Locked { path } => {
            format!("another server writes the log of {}: name another audit.folder", path.display())
        }
        other => other.to_string(),
    };
    Error::Setting { setting: "audit".to_owned(), reason }
}

/// The refusal of an operation whose record can't be written.
fn record_failure(lost: &RecordFailure) -> Problem {
    match lost {
        RecordFailure::Failed { reason } => {
            let text = format!(
                "the audit log can't be written, and nothing is done without a record (audit.when_full): {reason}"
            );
            Problem::new(Code::Full, text)
        }
        RecordFailure::Busy => Problem::new(Code::Busy, "too many records of the audit log wait to be written"),
        RecordFailure::Closed => Problem::new(Code::Closed, "the server is stopping"),
    }
}
