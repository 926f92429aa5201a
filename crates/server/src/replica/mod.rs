//! Followers over the network: the client of a leader, and a server's database that follows one until it is promoted.

mod follower;
mod leader;

use serde::{Deserialize, Serialize};
use splay_capture::{FollowerIdentity, Position};

pub use self::follower::FollowerIngest;
pub use self::leader::HttpLeader;

/// Paths of a leader's server.
const STATE: &str = "/replica/state";
const JOURNAL: &str = "/replica/journal";
const FILE: &str = "/replica/file";

/// A follower's request for a part of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JournalRequest {
    pub(crate) asker: FollowerIdentity,
    /// Behind this place, all before which is on the asker's disk.
    pub(crate) after: Position,
    pub(crate) bytes_max: usize,
}

/// A follower's request for a file of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileRequest {
    pub(crate) asker: FollowerIdentity,
    pub(crate) path: String,
    pub(crate) offset: u64,
    pub(crate) bytes_max: usize,
}
