//! Followers: copies of a database on another machine, which another process maintains and which can take over.
//!
//! - A follower's journal is a byte-for-byte prefix of what its leader has synced. A request for the bytes after a
//!   position confirms that all bytes before it are on the follower's disk. The leader acknowledges batches of the
//!   class `replica` by these positions.
//! - Its tables are the leader's commits, each installed once the journal has all batches that the commit names. So
//!   readers see files and journal as beside any capturing process: each row once, at every moment.
//! - The epoch of a database decides who may accept rows. Promotion raises it; a server that learns of a higher epoch
//!   accepts nothing more.
//! - A database whose epoch has ended follows only if this loses none of its rows or commits.
//! - A name from a leader becomes a path only after a check of its form, and data is stored only after a check of its
//!   digest or checksum.
//!
//! Reasons: docs/adr/0068-followers-copy-the-journals-bytes.md. Bytes: docs/format/replica.md.

mod acks;
mod copy;
mod exchange;
mod files;
mod follower;
mod join;
mod journal;
mod part;
mod promote;
mod state;

use serde::{Deserialize, Serialize};
use splay_store::TableHead;

use crate::error::Result;
use crate::journal::{Catalog, Position};

pub(crate) use acks::Replicas;
pub use acks::{FollowerView, ReplicationStatus};
pub use copy::Replica;
pub use follower::{Follower, FollowerSettings, FollowerStatus};
pub use part::{JournalPart, PartKind};
pub use promote::{Role, promote, role};
pub use state::{EpochEnd, ReplicaState};

/// The follower that sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowerIdentity {
    /// The follower's own name, by which the leader tells followers apart.
    pub follower: String,
    /// Identity of the database that it follows; empty for one that is still to become a copy.
    pub database: String,
    /// The epoch that it knows of.
    pub epoch: u64,
    /// Where its journal ends, from one that wants to know whether that is a beginning of the leader's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<JournalEnd>,
}

/// Where a journal ends, and what its last file has up to there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEnd {
    /// Behind its last byte.
    pub position: Position,
    /// CRC32C of the file's bytes before.
    pub crc: u32,
}

/// The state of a leader's database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeaderState {
    /// Identity of the database.
    pub database: String,
    /// Its epoch.
    pub epoch: u64,
    /// Commits of its tables.
    pub(crate) heads: Vec<TableHead>,
    /// Its views' file, if there is one.
    pub(crate) views: Option<String>,
    /// Its file of users and roles, if there is one.
    pub(crate) access: Option<String>,
    /// Its settings' file.
    pub settings: String,
    /// How far its journal was synced, after the commits were taken.
    pub(crate) durable: Position,
    /// Oldest file of its journal.
    pub(crate) oldest: u64,
    /// The catalog that the copy's journal has to have, with the losses that a start has reported.
    pub(crate) catalog: Catalog,
    /// Where earlier epochs ended.
    pub(crate) forks: Vec<EpochEnd>,
    /// Whether the asker's journal is a beginning of this one, as far as its end can still be compared.
    pub(crate) is_beginning: bool,
}

/// A leader, as its followers reach it. Calls block.
pub trait Leader: Send + Sync + std::fmt::Debug {
    /// What the leader has.
    ///
    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced) if the asker knows of a higher epoch, or the leader does; [`Error::Leader`](crate::Error::Leader) if it
    /// can't be asked.
    fn state(&self, asker: &FollowerIdentity) -> Result<LeaderState>;

    /// What the leader's journal has behind a place, all before which is on the asker's disk. Waits a little if there is nothing.
    ///
    /// # Errors
    /// As [`Leader::state`].
    fn journal(&self, asker: &FollowerIdentity, after: Position, bytes_max: usize) -> Result<JournalPart>;

    /// Bytes of a table's file behind an offset, at least one if the file is longer.
    ///
    /// # Errors
    /// As [`Leader::state`]; those of the store for a file that there isn't any more.
    fn file(&self, asker: &FollowerIdentity, path: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>>;

    /// Requests under way end soon, with an error, and so do later ones.
    fn cancel(&self) {}
}
