//! How far captured rows are in a table's files.

use serde::{Deserialize, Serialize};

/// Tells which captured rows of a table are in its files: those up to a sequence number whose time isn't behind a cut. Neither value ever falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteDownPosition {
    /// Sequence number of the last batch that was considered.
    pub sequence: u64,
    /// Latest time, in nanoseconds since the epoch, of rows of these batches that were written.
    pub cut: i64,
}

impl Default for WriteDownPosition {
    /// Nothing.
    fn default() -> WriteDownPosition {
        WriteDownPosition { sequence: 0, cut: i64::MIN }
    }
}

impl WriteDownPosition {
    /// All rows that one of two says.
    pub(crate) fn max(self, other: WriteDownPosition) -> WriteDownPosition {
        WriteDownPosition { sequence: self.sequence.max(other.sequence), cut: self.cut.max(other.cut) }
    }
}
