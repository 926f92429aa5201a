//! The initial copy of a database, and the catch-up of one whose leader has already removed the next journal file:
//! files first, then the leader's journal from its oldest file, in a folder beside the old journal, which it then
//! replaces.
//!
//! - Invariant: at every moment all rows that were here before are in files or in the journal. So commits are
//!   installed before the new journal files get their names, and the old files are removed last: the leader has
//!   removed them, so the tables' own files have all their rows.
//! - From the first rename on, the remaining steps are recorded, and a start completes them without the leader.
//! - Statements of this process wait during the switch.

use std::sync::PoisonError;

use splay_store::{Database, NewCommit, TableHead};

use super::copy::is_stored;
use super::journal::{FollowedJournal, STAGED};
use super::{FollowerIdentity, LeaderState, PartKind, Replica, ReplicaState};
use crate::error::{Error, Result};
use crate::journal::{self, FOLDER};

/// Bytes of the journal per request.
pub(super) const PART_BYTES: usize = 4 << 20;

/// How often it is restarted because the leader removes journal files faster than they are fetched.
const TRIES: usize = 100;

impl Replica {
    /// Catches up from nothing, or from long ago.
    ///
    /// # Errors
    /// Those of the leader, and of the writes.
    pub(super) fn exchange(&self) -> Result<()> {
        if !self.state().exchange.is_empty() {
            // It broke off among the names: what is there is finished, and followed from there.
            return self.give_names(None);
        }
        tracing::info!("fetching the leader's files, then its journal from its oldest file on");
        for _ in 0..TRIES {
            self.clear_staged()?;
            let leader = self.ask(|leader| leader.state(&self.asker()))?;
            self.check_leader(&leader)?;
            let mut commits = Vec::new();
            for head in &leader.heads {
                commits.extend(self.fetch(head)?.map(|commit| (head.clone(), commit)));
            }
            if self.stage(&leader)? {
                return self.take_place(&leader, &commits);
            }
        }
        Err(Error::Leader { reason: "it removes journal files faster than they are fetched".to_owned() })
    }

    fn clear_staged(&self) -> Result<()> {
        let storage = self.storage.as_ref();
        for number in journal::numbers_in(storage, STAGED)? {
            storage.remove(&format!("{STAGED}/{}", journal::name(number)))?;
        }
        Ok(storage.create_dir(STAGED)?)
    }

    /// Fetches the journal up to the position at which the commits were taken. Returns false if the leader has removed
    /// some of its files meanwhile.
    fn stage(&self, leader: &LeaderState) -> Result<bool> {
        let mut staged = FollowedJournal::open(&self.storage, STAGED)?;
        staged.list(&leader.catalog);
        staged.next(leader.oldest)?;
        // Without a name: it isn't a copy yet, and confirms nothing.
        let asker = FollowerIdentity { follower: String::new(), ..self.asker() };
        let mut bytes_max = PART_BYTES;
        loop {
            let position = staged.position().unwrap_or_default();
            if position >= leader.durable && staged.last().0 >= leader.sequence() {
                return Ok(true);
            }
            if self.is_stopped() {
                return Err(Error::Closed);
            }
            let part = self.ask(|leader| leader.journal(&asker, position, bytes_max))?;
            match part.kind {
                PartKind::Bytes => {
                    let appended = staged.append(&part.bytes)?;
                    bytes_max = next_bytes_max(bytes_max, part.bytes.len(), appended.bytes);
                }
                PartKind::Next(number) => staged.next(number)?,
                PartKind::Gone(_) => return Ok(false),
                PartKind::Ahead => return Err(Error::Leader { reason: "its journal became shorter".to_owned() }),
            }
        }
    }

    fn take_place(&self, leader: &LeaderState, commits: &[(TableHead, NewCommit)]) -> Result<()> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let storage = self.storage.as_ref();
        self.put_texts(leader)?;
        for (head, commit) in commits {
            self.install(head, commit)?;
        }
        {
            // Losses that the leader has reported are recorded before the new files get their names.
            let mut journal = self.journal();
            journal.list(&leader.catalog);
            journal.note()?;
        }
        let staged = journal::numbers_in(storage, STAGED)?;
        if staged.is_empty() {
            return self.change_state(|state| state.is_whole = true);
        }
        self.change_state(|state| state.exchange = staged)?;
        self.give_names(Some(leader))
    }

    fn give_names(&self, leader: Option<&LeaderState>) -> Result<()> {
        let mut journal = self.journal();
        finish_exchange(&self.database, &mut self.state())?;
        *journal = FollowedJournal::open(&self.storage, FOLDER)?;
        if let Some(leader) = leader {
            journal.list(&leader.catalog);
        }
        journal.note()?;
        self.note_position(&journal);
        Ok(())
    }
}

/// Gives the files that were put together beside the journal their names, and removes those before, if that was begun. Done again it does nothing.
///
/// # Errors
/// Those of the writes.
pub(super) fn finish_exchange(database: &Database, state: &mut ReplicaState) -> Result<()> {
    let Some(first) = state.exchange.first().copied() else { return Ok(()) };
    let (storage, mut next) = (database.raw_storage(), state.clone());
    let (staged, there) = (journal::numbers_in(storage.as_ref(), STAGED)?, journal::numbers(storage.as_ref())?);
    if state.exchange.iter().all(|number| staged.contains(number) || there.contains(number)) {
        for number in staged {
            let name = journal::name(number);
            storage.rename(&format!("{STAGED}/{name}"), &format!("{FOLDER}/{name}"))?;
        }
        // First the folder that has them from now on.
        storage.sync_dir(FOLDER)?;
        storage.sync_dir(STAGED)?;
        let mut journal = FollowedJournal::open(&storage, FOLDER)?;
        journal.forget_before(first, |table, sequence, latest| is_stored(database, table, sequence, latest))?;
        // Its commits are there.
        next.is_whole = true;
    } else {
        // A power cut between two folders took some: all are fetched once more. What was here before is still here.
        for number in there.into_iter().filter(|number| *number >= first) {
            storage.remove(&journal::path(number))?;
        }
        storage.sync_dir(FOLDER)?;
    }
    next.exchange.clear();
    next.store(storage.as_ref())?;
    *state = next;
    Ok(())
}

/// More, if no frame was whole; less again once they are.
pub(super) fn next_bytes_max(bytes_max: usize, came: usize, whole_bytes: usize) -> usize {
    match (came, whole_bytes) {
        (0, _) => bytes_max,
        (_, 0) => bytes_max.saturating_mul(4).min(journal::FRAME_BYTES_MAX + PART_BYTES),
        _ => PART_BYTES,
    }
}

impl LeaderState {
    /// The last batch that a commit names.
    fn sequence(&self) -> u64 {
        self.heads.iter().map(|head| head.sequence).max().unwrap_or(0)
    }
}
