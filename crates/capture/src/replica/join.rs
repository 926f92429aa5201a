//! Checks before a database follows: that it is a copy of the leader's, and that following loses none of its rows or
//! commits.

use std::sync::Arc;

use splay_store::TableHead;
use splay_store::storage::Storage;

use super::copy::batches_behind;
use super::journal::FollowedJournal;
use super::promote::Role;
use super::state::{EpochEnd, random};
use super::{FollowerIdentity, LeaderState, Position, Replica, ReplicaState};
use crate::backup::back_up_with;
use crate::error::{Error, Result};
use crate::journal::{self, Catalog, FOLDER};

impl Replica {
    /// Asks the leader whether this is a copy of its database, and makes it one if it can be. What would be lost is put `aside` first.
    ///
    /// # Errors
    /// [`Error::Diverged`] if something would be lost, and there is no place for it; [`Error::OtherLeader`] if it is no copy of the leader's.
    pub fn join(&self, aside: Option<&Arc<dyn Storage>>) -> Result<()> {
        let leader = self.leader.state(&self.asker())?;
        leader.heads.iter().try_for_each(TableHead::check)?;
        let state = self.state().clone();
        if state.database.is_empty() {
            self.adopt(&leader)?;
        } else if state.database != leader.database {
            let reason = "it leads another database than the one that is here".to_owned();
            return Err(Error::OtherLeader { reason });
        } else if leader.epoch < state.epoch {
            let reason = format!("it is in epoch {}, and this copy in epoch {}", leader.epoch, state.epoch);
            return Err(Error::OtherLeader { reason });
        } else if leader.epoch > state.epoch {
            self.enter(&leader, &state, aside)?;
        } else if state.role == Role::Leader {
            let reason = format!("it leads in epoch {}, as this database does", leader.epoch);
            return Err(Error::OtherLeader { reason });
        }
        self.cut()?;
        self.check_journal()?;
        self.journal().list(&leader.catalog);
        // Nobody is served before it is known who may see what.
        self.writer.put_access(leader.access.as_deref().map(str::as_bytes))?;
        self.set_joined(true);
        Ok(())
    }

    /// Whether the journal is a beginning of the leader's: one of a leader that was restored or set back isn't, whatever its numbers say.
    fn check_journal(&self) -> Result<()> {
        let Some(end) = self.journal().end() else { return Ok(()) };
        let asker = FollowerIdentity { follower: String::new(), end: Some(end), ..self.asker() };
        if self.leader.state(&asker)?.is_beginning {
            return Ok(());
        }
        Err(other_history(end.position))
    }

    /// Becomes a copy, which it is once all is fetched.
    fn adopt(&self, leader: &LeaderState) -> Result<()> {
        let database = &self.database;
        let is_empty = database.table_heads()?.is_empty()
            && journal::numbers(self.storage.as_ref())?.is_empty()
            && database.views_text()?.is_none()
            && database.access_text()?.is_none();
        if !is_empty {
            let reason = "this one is a database of its own, with tables, a journal, views or users: follow into an empty folder";
            return Err(Error::OtherLeader { reason: reason.to_owned() });
        }
        self.change_state(|state| {
            (state.database, state.epoch) = (leader.database.clone(), leader.epoch);
            (state.follower, state.role, state.is_whole) = (random(), Role::Follower, false);
        })
    }

    /// Goes over to a later epoch.
    fn enter(&self, leader: &LeaderState, state: &ReplicaState, aside: Option<&Arc<dyn Storage>>) -> Result<()> {
        let fork = leader.forks.iter().find(|fork| fork.epoch > state.epoch);
        let (what, fork) = match fork {
            Some(fork) => (self.behind(fork)?, fork.clone()),
            None => (
                Some("the rows of an epoch that ended so long ago that the leader no longer knows its end".to_owned()),
                EpochEnd::default(),
            ),
        };
        if let Some(what) = what {
            let Some(aside) = aside else {
                return Err(Error::Diverged { what, than: format!("epoch {} of the leader", leader.epoch) });
            };
            tracing::warn!(%what, to = %aside.display_path("").display(), "put aside before the leader is followed");
            back_up_with(&self.database, Arc::clone(aside), true)?;
        }
        self.change_state(|state| {
            (state.epoch, state.role, state.fenced) = (leader.epoch, Role::Follower, None);
            (state.checks_files, state.cut) = (true, Some(fork));
            state.forks.clone_from(&leader.forks);
        })?;
        self.installed().clear();
        Ok(())
    }

    /// What is here behind the end of an epoch.
    fn behind(&self, fork: &EpochEnd) -> Result<Option<String>> {
        if let Some((count, first, last)) = batches_behind(self.storage.as_ref(), fork.sequence)? {
            return Ok(Some(format!("{count} batches of rows, with numbers {first} to {last}, in its journal")));
        }
        for head in self.database.table_heads()? {
            let epoch = fork.tables.get(&head.folder).copied().unwrap_or(0);
            if let Some(what) = self.database.changes_behind(&head.folder, epoch, fork.sequence)? {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Cuts the journal off where it was decided to. Done again it does nothing.
    fn cut(&self) -> Result<()> {
        let Some(fork) = self.state().cut.clone() else { return Ok(()) };
        let (mut journal, storage) = (self.journal(), self.storage.as_ref());
        let numbers = journal::numbers(storage)?;
        let at = fork.position;
        let later: Vec<u64> = numbers.iter().copied().filter(|number| *number > at.file).rev().collect();
        let is_longer = numbers.contains(&at.file) && storage.identity(&journal::path(at.file))?.length > at.offset;
        if !later.is_empty() || is_longer {
            let mut catalog = match Catalog::load(storage)? {
                journal::CatalogContent::Sound(catalog) => catalog,
                journal::CatalogContent::Absent | journal::CatalogContent::Damaged => Catalog::default(),
            };
            // First, so that nothing that it names is missing.
            (catalog.newest, catalog.bytes) = (at.file, at.offset.min(catalog.bytes));
            (catalog.sequence, catalog.is_orderly) = (catalog.sequence.min(fork.sequence), false);
            catalog.store(storage)?;
            later.into_iter().try_for_each(|number| storage.remove(&journal::path(number)))?;
            if is_longer {
                storage.open_append(&journal::path(at.file), at.offset)?.sync()?;
            }
            storage.sync_dir(FOLDER)?;
        }
        *journal = FollowedJournal::open(&self.storage, FOLDER)?;
        self.note_position(&journal);
        drop(journal);
        self.change_state(|state| state.cut = None)
    }
}

/// A leader whose journal doesn't go on where a copy's ends.
pub(super) fn other_history(end: Position) -> Error {
    let Position { file, offset } = end;
    let reason = format!(
        "its journal has other bytes than this copy's up to byte {offset} of file {file}, or fewer, as after a restore: follow it into an empty folder"
    );
    Error::OtherLeader { reason }
}
