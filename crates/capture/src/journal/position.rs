//! Places in a journal, and who learns how far it is synced.

use serde::{Deserialize, Serialize};

/// A place in a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Number of the file.
    pub file: u64,
    /// Byte in it.
    pub offset: u64,
}

/// Learns how far the journal is synced.
pub(crate) trait SyncListener: std::fmt::Debug + Send + Sync {
    /// All bytes before a place are on the disk.
    fn synced(&self, position: Position);
}
