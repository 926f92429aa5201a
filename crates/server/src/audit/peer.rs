//! The other end of a connection: its protocol, its address, and what was recorded about it.
//!
//! A connection's [`Peer`] is a task-local value of the tasks that serve it, so every caller on the connection has
//! it.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use splay_store::audit::AuditEvent;

use super::rows::Tally;
use super::{Auditor, now};
use crate::ingest::IngestError;
use crate::problem::Problem;
use crate::settings::AuditLevel;

/// Most sign-ins that are remembered for one connection.
const SIGNED_IN_MAX: usize = 256;

/// Tables and users of one connection whose rows are counted.
const TALLIES_MAX: usize = 1024;

tokio::task_local! {
    static PEER: Arc<Peer>;
}

/// By user and table.
type Tallies = HashMap<(Arc<str>, String), Arc<Tally>>;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(super) auditor: Auditor,
    pub(super) wire: &'static str,
    address: Option<SocketAddr>,
    /// The users that were let in, with their roles: connections may be shared.
    signed_in: Mutex<HashSet<(Arc<str>, &'static str)>>,
    /// Whether it is recorded that a follower asks over it.
    follows: AtomicBool,
    tallies: Mutex<Tallies>,
}

impl Peer {
    pub(crate) fn new(auditor: Auditor, wire: &'static str, address: SocketAddr) -> Arc<Peer> {
        Arc::new(Peer { auditor, wire, address: Some(address), ..Peer::default() })
    }

    /// That of this task; one that nothing is known of and recorded of elsewhere.
    pub(crate) fn current() -> Arc<Peer> {
        PEER.try_with(Arc::clone).unwrap_or_default()
    }

    /// Serves the connection.
    pub(crate) async fn serve<F: Future>(self: Arc<Peer>, served: F) -> F::Output {
        PEER.scope(self, served).await
    }

    /// Does something for the connection outside of its tasks.
    pub(crate) fn within<T>(self: &Arc<Peer>, work: impl FnOnce() -> T) -> T {
        PEER.sync_scope(Arc::clone(self), work)
    }

    pub(super) fn event(&self, kind: &'static str) -> AuditEvent {
        let from = self.address.map(|address| address.to_string()).unwrap_or_default();
        AuditEvent { wire: self.wire, from, ..AuditEvent::new(kind, now()) }
    }

    /// Records that a user was let in, unless he was before on this connection.
    pub(super) fn note_sign_in(&self, user: &Arc<str>, role: &'static str) {
        if !self.auditor.records(AuditLevel::Changes) {
            return;
        }
        let mut callers = self.signed_in.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= SIGNED_IN_MAX {
            callers.clear();
        }
        if !callers.insert((Arc::clone(user), role)) {
            return;
        }
        drop(callers);
        let event = AuditEvent { user: user.to_string(), role, outcome: "ok", ..self.event("sign_in") };
        self.auditor.note(event, None);
    }

    /// Records that a user has ended his session. If he is let in again over this connection, it is recorded again.
    pub(crate) fn note_sign_out(&self, user: &Arc<str>) {
        if !self.auditor.records(AuditLevel::Changes) {
            return;
        }
        self.signed_in.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| other != user);
        let event = AuditEvent { user: user.to_string(), outcome: "ok", ..self.event("sign_out") };
        self.auditor.note(event, None);
    }

    /// Whether what a follower asks for is to be recorded: once.
    pub(super) fn begins_to_follow(&self) -> bool {
        self.auditor.records(AuditLevel::Changes) && !self.follows.swap(true, Ordering::Relaxed)
    }

    /// Records that a client wasn't let in. `user` is the name that it gave, if there is such a role: another text may be a secret in the wrong
    /// place.
    pub(crate) fn note_refusal(&self, problem: &Problem, user: Option<String>) {
        if self.auditor.records(AuditLevel::Changes) {
            let (user, outcome) = (user.unwrap_or_default(), problem.code.as_str());
            self.auditor.note_refusal(AuditEvent { user, outcome, ..self.event("sign_in") });
        }
    }

    /// The tally of a user's rows for a table; `begin` makes it.
    pub(super) fn tally(
        &self,
        user: &Arc<str>,
        table: &str,
        begin: impl FnOnce() -> Result<Tally, IngestError>,
    ) -> Result<Arc<Tally>, IngestError> {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Arc::clone(user), table.to_owned());
        if let Some(tally) = tallies.get(&key) {
            return Ok(Arc::clone(tally));
        }
        if tallies.len() >= TALLIES_MAX {
            tallies.clear();
        }
        let tally = Arc::new(begin()?);
        tallies.insert(key, Arc::clone(&tally));
        Ok(tally)
    }
}
