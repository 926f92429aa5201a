//! Snapshots of tables in another state than their present one.

use super::{Table, TableSnapshot};
use crate::error::Result;

/// Snapshots that a database gives instead of those of the present state.
pub(crate) trait SnapshotSource: std::fmt::Debug + Send + Sync {
    /// The snapshot of a table.
    fn snapshot(&self, table: &Table) -> Result<TableSnapshot>;
}

/// Snapshots of tables at commits that are the same for all readers, of statements that name an earlier commit as well.
pub(crate) trait CommitSource: SnapshotSource {
    /// The table as it was after a commit.
    fn snapshot_at(&self, table: &Table, commit: u64) -> Result<TableSnapshot>;
}
