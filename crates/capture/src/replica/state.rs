//! A database's identity and epoch, for its copies: `.journal/replica`. It is replaced as a whole, and durable before
//! any other server learns of it.
//!
//! Bytes: docs/format/replica.md.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use serde::{Deserialize, Serialize};
use splay_store::storage::Storage;

use super::Position;
use super::promote::Role;
use crate::error::{Error, Result};
use crate::journal::{self, FOLDER, REPLICA_FILE};

const MAGIC: &[u8; 8] = b"SPLAYREP";
const VERSION: u32 = 1;

/// Ends of epochs that are noted.
const FORKS_MAX: usize = 100;

/// Where an epoch ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochEnd {
    /// The epoch that began there.
    pub epoch: u64,
    /// Where the journal ended.
    pub position: Position,
    /// Its last batch.
    pub sequence: u64,
    /// The last commit of each table, by folder.
    pub tables: BTreeMap<String, u64>,
}

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaState {
    /// Identity of the database, the same in all its copies.
    pub database: String,
    /// Name of this copy.
    pub follower: String,
    /// The epoch that it is in.
    pub epoch: u64,
    /// Whether it leads or follows.
    pub role: Role,
    /// Address of the leader that it follows, or followed before it was promoted.
    #[serde(default)]
    pub leader: Option<String>,
    /// A higher epoch that it has heard of.
    #[serde(default)]
    pub fenced: Option<u64>,
    /// Whether it is a whole copy, so that it may be promoted.
    #[serde(default)]
    pub is_whole: bool,
    /// Whether the leader before has heard of the promotion.
    #[serde(default)]
    pub is_told: bool,
    /// Whether files may be there that are another database's under the leader's names.
    #[serde(default)]
    pub checks_files: bool,
    /// Numbers of the files that take the place of the journal's before, while they do.
    #[serde(default)]
    pub exchange: Vec<u64>,
    /// The position at which its journal has to be truncated before it continues.
    #[serde(default)]
    pub cut: Option<EpochEnd>,
    /// Where earlier epochs ended, oldest first.
    #[serde(default)]
    pub forks: Vec<EpochEnd>,
}

impl ReplicaState {
    /// Reads it; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Damaged`], also for one of a later release.
    pub(crate) fn load(storage: &dyn Storage) -> Result<Option<ReplicaState>> {
        if !storage.list(FOLDER)?.iter().any(|entry| entry.name == REPLICA_FILE) {
            return Ok(None);
        }
        let path = format!("{FOLDER}/{REPLICA_FILE}");
        let damage = |expected: &str, found: String| {
            let (path, expected) = (storage.display_path(&path), expected.to_owned());
            Error::Damaged { path, offset: 0, expected, found }
        };
        let bytes = storage.read(&path)?;
        let Some((version, content)) = journal::unpack(MAGIC, &bytes) else {
            return Err(damage("what this copy of the database is", "other bytes".to_owned()));
        };
        if version != VERSION {
            return Err(damage("a version of this release", format!("version {version}")));
        }
        serde_json::from_slice(content).map(Some).map_err(|error| damage("a state", error.to_string()))
    }

    /// Replaces what is on disk, durably.
    pub(crate) fn store(&self, storage: &dyn Storage) -> Result<()> {
        // Plain data to memory: can't fail.
        let content = serde_json::to_vec(self).unwrap_or_default();
        Ok(journal::replace(storage, REPLICA_FILE, &journal::pack(MAGIC, VERSION, &content))?)
    }

    /// The state of a database without followers.
    pub(crate) fn new() -> ReplicaState {
        ReplicaState { database: random(), follower: random(), epoch: 1, is_whole: true, ..ReplicaState::default() }
    }

    pub(crate) fn note_fork(&mut self, fork: EpochEnd) {
        self.forks.push(fork);
        let more = self.forks.len().saturating_sub(FORKS_MAX);
        self.forks.drain(..more);
    }
}

/// A name that no other database or copy has.
pub(super) fn random() -> String {
    let word = || RandomState::new().hash_one(std::time::SystemTime::now());
    format!("{:016x}{:016x}", word(), word())
}
