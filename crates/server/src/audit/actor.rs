//! The user of an operation, and the records of it.

use std::sync::{Arc, mpsc};

use splay_store::audit::{AuditEvent, RecordFailure, STATEMENT_BYTES_MAX};
use tokio::sync::oneshot;

use super::{AuditedOperation, Peer, record_failure, statement_kind};
use crate::problem::{Outcome, Problem};
use crate::settings::AuditLevel;

/// An action of a caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action<'a> {
    kind: &'static str,
    object: &'a str,
    statement: &'a str,
    level: AuditLevel,
    /// Whether it has a record before it begins.
    is_told_before: bool,
}

impl<'a> Action<'a> {
    /// A statement.
    pub(crate) fn statement(text: &'a str, changes: bool) -> Action<'a> {
        let (kind, level) = match changes {
            false => ("statement", AuditLevel::Statements),
            true if statement_kind::is_about_users(text) => ("users", AuditLevel::Changes),
            true => ("change", AuditLevel::Changes),
        };
        Action { kind, object: statement_kind::object(text), statement: text, level, is_told_before: changes }
    }

    /// A change that is no statement.
    pub(crate) fn change(kind: &'static str, object: &'a str, about: &'a str) -> Action<'a> {
        Action { kind, object, statement: about, level: AuditLevel::Changes, is_told_before: true }
    }

    /// A subscription, which reads for long.
    pub(crate) fn subscription(object: &'a str) -> Action<'a> {
        Action { kind: "subscribe", object, statement: "", level: AuditLevel::Statements, is_told_before: true }
    }
}

/// A caller for the audit log: his name, the role by which he was let in, and his address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Actor {
    user: Arc<str>,
    role: &'static str,
    peer: Arc<Peer>,
    wire: Option<&'static str>,
}

impl Actor {
    pub(crate) fn new(user: Arc<str>, role: &'static str, peer: Arc<Peer>) -> Actor {
        Actor { user, role, peer, wire: None }
    }

    /// The same by a way within that of the connection.
    pub(crate) fn over(self, wire: &'static str) -> Actor {
        Actor { wire: Some(wire), ..self }
    }

    /// Records that he was let in, unless he was before on this connection.
    pub(crate) fn note_sign_in(&self) {
        self.peer.note_sign_in(&self.user, self.role);
    }

    /// Records that something is forbidden to him.
    pub(crate) fn note_denied(&self, about: &str) {
        if self.peer.auditor.records(AuditLevel::Changes) {
            let event = AuditEvent { about: about.to_owned(), outcome: "forbidden", ..self.event("denied") };
            self.peer.auditor.note(event, None);
        }
    }

    /// Records that a quota refused something to him that has no record otherwise.
    pub(crate) fn note_quota(&self, problem: &Problem) {
        if self.peer.auditor.records(AuditLevel::Changes)
            && let Some(quota) = &problem.quota
        {
            let event = AuditEvent { about: format!("quota {quota}"), outcome: "busy", ..self.event("denied") };
            self.peer.auditor.note(event, None);
        }
    }

    /// Records that a follower gets all that the database holds, once a connection.
    pub(crate) fn note_follower(&self) {
        if self.peer.begins_to_follow() {
            self.peer.auditor.note(AuditEvent { outcome: "ok", ..self.event("replicate") }, None);
        }
    }

    pub(super) fn user(&self) -> &Arc<str> {
        &self.user
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) fn event(&self, kind: &'static str) -> AuditEvent {
        let event = self.peer.event(kind);
        let wire = self.wire.unwrap_or(event.wire);
        AuditEvent { user: self.user.to_string(), role: self.role, wire, ..event }
    }

    /// Begins something. Returns once its record is durable, if it has one before.
    ///
    /// # Errors
    /// [`Code::Full`](crate::problem::Code::Full), [`Code::Busy`](crate::problem::Code::Busy): nothing is to be done without a record, and
    /// there is none.
    pub(crate) async fn begin(&self, action: Action<'_>) -> Outcome<AuditedOperation> {
        let (begun, first) = self.prepare(action);
        let Some(first) = first else { return Ok(begun) };
        let (sender, receiver) = oneshot::channel();
        let done = begun.first(move |written| drop(sender.send(written)));
        self.peer.auditor.note(first, Some(done));
        let written = receiver.await.unwrap_or(Err(RecordFailure::Closed));
        self.settle(begun, written)
    }

    /// The same on a thread that may wait.
    ///
    /// # Errors
    /// As [`Actor::begin`].
    pub(crate) fn begin_here(&self, action: Action<'_>) -> Outcome<AuditedOperation> {
        let (begun, first) = self.prepare(action);
        let Some(first) = first else { return Ok(begun) };
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = begun.first(move |written| drop(sender.send(written)));
        self.peer.auditor.note(first, Some(done));
        let written = receiver.recv().unwrap_or(Err(RecordFailure::Closed));
        self.settle(begun, written)
    }

    fn settle(&self, mut begun: AuditedOperation, written: Result<u64, RecordFailure>) -> Outcome<AuditedOperation> {
        match written {
            Err(lost) if self.peer.auditor.refuses() => {
                begun.forget();
                Err(record_failure(&lost))
            }
            _ => Ok(begun),
        }
    }

    /// The audited operation, and the record that must be written before it begins.
    fn prepare(&self, action: Action<'_>) -> (AuditedOperation, Option<AuditEvent>) {
        let auditor = &self.peer.auditor;
        if !auditor.records(AuditLevel::Changes) {
            return (AuditedOperation::unrecorded(), None);
        }
        let is_recorded = auditor.records(action.level);
        let event = AuditEvent {
            object: action.object.to_owned(),
            statement: without_secrets(action.statement),
            ..self.event(action.kind)
        };
        // While nothing can be written what reads waits for its record, too: by that it is seen that it can again.
        let is_told_before = action.is_told_before || auditor.refuses() && auditor.is_failing();
        let first = (is_recorded && is_told_before).then(|| AuditEvent { outcome: "begun", ..event.clone() });
        (AuditedOperation::new(auditor.clone(), event, !is_recorded), first)
    }
}

/// The beginning of a text, without secrets. What follows it isn't looked at, which may be long.
fn without_secrets(text: &str) -> String {
    let beginning = &text[..text.floor_char_boundary(STATEMENT_BYTES_MAX)];
    let shown = splay_sql::without_secrets(beginning);
    if beginning.len() < text.len() { format!("{shown}…") } else { shown.into_owned() }
}
