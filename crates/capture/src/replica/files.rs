//! A follower's tables: the leader's commits.

use std::time::{Duration, Instant};

use splay_store::{NewCommit, TableHead};

use super::{LeaderState, Replica};
use crate::error::{Error, Result};

/// Bytes of a file per request.
const PART_BYTES: usize = 8 << 20;

/// How long a commit waits for the batches that it names.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the journal is looked at meanwhile.
const STEP: Duration = Duration::from_millis(2);

impl Replica {
    /// Brings the tables to the leader's commits, one after the other. Returns whether all are installed.
    ///
    /// # Errors
    /// Those of the leader, and of the writes. What is installed then stays.
    pub(super) fn copy_tables(&self, leader: &LeaderState) -> Result<bool> {
        let mut are_there = true;
        self.put_texts(leader)?;
        for head in &leader.heads {
            if self.is_installed(head) {
                continue;
            }
            if let Some(commit) = self.fetch(head)? {
                if self.waits_for(head.sequence) {
                    self.install(head, &commit)?;
                } else {
                    are_there = false;
                }
            }
        }
        if are_there {
            self.forget_others(leader)?;
        }
        Ok(are_there)
    }

    /// Users and roles first: who was to see no table that comes sees none.
    pub(super) fn put_texts(&self, leader: &LeaderState) -> Result<()> {
        self.writer.put_access(leader.access.as_deref().map(str::as_bytes))?;
        Ok(self.writer.put_views(leader.views.as_deref().map(str::as_bytes))?)
    }

    fn is_installed(&self, head: &TableHead) -> bool {
        self.installed().get(&head.folder) == Some(head)
    }

    /// Whether the journal has all batches up to a number, or has them soon.
    fn waits_for(&self, sequence: u64) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.sequence() < sequence && Instant::now() < until && !self.is_stopped() && self.runs() {
            std::thread::sleep(STEP);
        }
        self.sequence() >= sequence
    }

    /// Fetches what a commit needs and isn't here; none if it is installed.
    pub(super) fn fetch(&self, head: &TableHead) -> Result<Option<NewCommit>> {
        let checks = self.state().checks_files;
        if !checks && self.writer.has(head)? {
            self.installed().insert(head.folder.clone(), head.clone());
            return Ok(None);
        }
        let from = self.writer.stored_bytes(head)?;
        let mut commit = self.writer.commit(head, from, &self.log_of(head, from)?)?;
        if commit.is_none() {
            tracing::warn!(table = %head.folder, "what this copy has of the table isn't a beginning of the leader's: it is fetched anew");
            commit = self.writer.commit(head, 0, &self.log_of(head, 0)?)?;
        }
        let Some(commit) = commit else { return Ok(None) };
        // Files of a log that went another way may have the names of others.
        for segment in self.writer.lacking(&commit, checks || commit.replaces())? {
            self.writer.put(&segment, &mut |path: &str, offset| {
                if self.is_stopped() {
                    return Err(Error::Closed);
                }
                let part = self.ask(|leader| leader.file(&self.asker(), path, offset, PART_BYTES))?;
                self.count_fetched(part.len());
                Ok(part)
            })?;
        }
        Ok(Some(commit))
    }

    fn log_of(&self, head: &TableHead, from: u64) -> Result<Vec<u8>> {
        let path = format!("{}/manifest/{:06}.log", head.folder, head.log);
        let mut bytes = Vec::new();
        while from + (bytes.len() as u64) < head.length {
            let at = from + bytes.len() as u64;
            let remaining = usize::try_from(head.length - at).unwrap_or(usize::MAX);
            let part = self.ask(|leader| leader.file(&self.asker(), &path, at, remaining.min(PART_BYTES)))?;
            if part.is_empty() || part.len() > remaining {
                return Err(Error::Leader {
                    reason: format!("it sent {} bytes of {path} in the place of {remaining}", part.len()),
                });
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }

    pub(super) fn install(&self, head: &TableHead, commit: &NewCommit) -> Result<()> {
        self.writer.install(commit)?;
        self.installed().insert(head.folder.clone(), head.clone());
        Ok(())
    }

    /// Removes tables that a leader's epoch that ended had, and that this one's never did.
    fn forget_others(&self, leader: &LeaderState) -> Result<()> {
        if !self.state().checks_files {
            return Ok(());
        }
        for head in self.database.table_heads()? {
            if !leader.heads.iter().any(|other| other.folder == head.folder) {
                tracing::warn!(table = %head.folder, "the leader has no such table: it goes");
                self.writer.remove(&head.folder)?;
            }
        }
        self.change_state(|state| state.checks_files = false)
    }
}
