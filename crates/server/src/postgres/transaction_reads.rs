//! The reads of a transaction of the level `REPEATABLE READ`: it sees the tables as they are when its first statement begins.
//!
//! - The snapshots are taken one table after the other. A later commit of any table isn't seen, live rows included; of what is committed to several
//!   tables while they are taken, a part may be.
//! - Rights are those of now: a session with other rights reads the same snapshots.
//! - The snapshots are let go of when the transaction ends, or its connection.

use std::sync::Arc;

use splay_sql::{Session, TransactionSnapshots};

use crate::blocking::on_thread;
use crate::problem::Outcome;

/// The snapshots of a transaction, and the session that reads them.
#[derive(Debug, Default)]
pub(super) struct TransactionReads {
    snapshots: Arc<TransactionSnapshots>,
    /// A session of the newest tables, and that over the snapshots.
    sessions: Option<(Session, Session)>,
}

impl TransactionReads {
    /// A session as the given one over the snapshots, which are taken the first time.
    ///
    /// # Errors
    /// Those of [`Session::with_snapshots`].
    pub(super) async fn session(&mut self, newest: Session) -> Outcome<Session> {
        if let Some((before, reads)) = &self.sessions
            && newest.reads_as(before)
        {
            return Ok(newest.over_tables_of(reads));
        }
        let (snapshots, is_first, session) = (Arc::clone(&self.snapshots), self.sessions.is_none(), newest.clone());
        let reads = on_thread(move || session.with_snapshots(&snapshots, is_first)).await??;
        self.sessions = Some((newest, reads.clone()));
        Ok(reads)
    }
}
