//! Promotion: a copy becomes the leader with a higher epoch, which is durable before the first row is accepted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use splay_store::storage::Storage;
use splay_store::{Database, ReplicaWriter};

use super::exchange::finish_exchange;
use super::journal::FollowedJournal;
use super::state::EpochEnd;
use super::{Position, Replica, ReplicaState};
use crate::error::{Error, Result};
use crate::journal::take_lock;
use crate::journal::{self, FOLDER};

/// Why a copy can't lead yet.
pub(super) const NOT_WHOLE: &str = "this copy isn't whole yet: it has never caught up with its leader";

/// What a copy of a database is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It takes rows.
    #[default]
    Leader,
    /// It follows another one.
    Follower,
}

/// What a database is, if anybody followed it or it follows anybody.
///
/// # Errors
/// [`Error::Damaged`].
pub fn role(database: &Database) -> Result<Option<ReplicaState>> {
    ReplicaState::load(database.raw_storage().as_ref())
}

/// Makes a copy that no process follows with the leader, from the next start on. Gives its epoch.
///
/// # Errors
/// [`Error::Locked`] while a process follows or captures; [`Error::NotPromoted`] for one that is no whole copy.
pub fn promote(database: &Database) -> Result<u64> {
    let storage = database.raw_storage();
    let _lock = take_lock(storage.as_ref())?;
    let state = ReplicaState::load(storage.as_ref())?.unwrap_or_default();
    let writer = ReplicaWriter::begin(database)?;
    if state.role == Role::Follower {
        // What isn't whole was never confirmed, and is cut off.
        drop(FollowedJournal::open(&storage, FOLDER)?);
    }
    raise(&writer, database, &storage, state)
}

impl Replica {
    /// Like [`promote`], for the copy that this process follows with. The process stops following.
    ///
    /// # Errors
    /// As [`promote`].
    pub fn promote(&self) -> Result<u64> {
        self.stop();
        let _journal = self.journal();
        let state = self.state().clone();
        raise(&self.writer, &self.database, &self.storage, state)
    }
}

fn raise(
    writer: &ReplicaWriter,
    database: &Database,
    storage: &Arc<dyn Storage>,
    mut state: ReplicaState,
) -> Result<u64> {
    finish_exchange(database, &mut state)?;
    if state.role != Role::Follower {
        return Err(Error::NotPromoted { reason: "it follows none, and takes rows already" });
    }
    if !state.is_whole || state.cut.is_some() {
        return Err(Error::NotPromoted { reason: NOT_WHOLE });
    }
    // Their rows are in the journal.
    writer.remove_uninstalled()?;
    let fork = fork(database, storage.as_ref(), state.epoch + 1)?;
    (state.epoch, state.role, state.is_told) = (state.epoch + 1, Role::Leader, false);
    state.note_fork(fork);
    state.store(storage.as_ref())?;
    tracing::warn!(epoch = state.epoch, "promoted: this database takes rows from now on");
    Ok(state.epoch)
}

/// Where the journal and the tables are.
fn fork(database: &Database, storage: &dyn Storage, epoch: u64) -> Result<EpochEnd> {
    let mut fork = EpochEnd { epoch, ..EpochEnd::default() };
    if let Some(number) = journal::numbers(storage)?.last().copied()
        && let Some(copied) = journal::copy(storage, number, true)?
    {
        fork.position = Position { file: number, offset: copied.bytes.len() as u64 };
        fork.sequence = copied.last;
    }
    fork.tables = database.table_heads()?.into_iter().map(|head| (head.folder, head.epoch)).collect();
    Ok(fork)
}
