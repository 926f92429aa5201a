//! How much a plan reads, for those who want to know what a statement cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow::datatypes::DataType;
use splay_store::{SelectionStats, TableSnapshot};

/// Bytes of a code of a dictionary.
const CODE_BYTES: usize = 4;

/// What a plan has read so far. All threads that work on it add to it.
#[derive(Debug, Default)]
pub struct Reads {
    scans: Mutex<Vec<SelectionStats>>,
    bytes: AtomicU64,
}

/// What a plan has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    /// What indexes left of each table, one entry for each scan.
    pub scans: Vec<SelectionStats>,
    /// Bytes of the columns that were looked into, in the rows that were looked at. Of whole blocks whose summaries do, none; of
    /// columns that are searched, all; of what a join finds, the values that are taken. Of texts their offsets alone.
    pub bytes: u64,
}

impl Reads {
    pub(crate) fn add_scan(&self, stats: SelectionStats) {
        self.scans.lock().unwrap_or_else(PoisonError::into_inner).push(stats);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        // Relaxed: nothing but the sum matters.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All of it.
    #[must_use]
    pub fn into_read(self) -> Read {
        Read { scans: self.scans.into_inner().unwrap_or_else(PoisonError::into_inner), bytes: self.bytes.into_inner() }
    }
}

/// Bytes that a value of a stored column takes.
pub(crate) fn column_bytes(snapshot: &TableSnapshot, column: usize) -> u64 {
    snapshot.spec().columns.get(column).map_or(0, |column| value_bytes(&column.column_type.arrow()))
}

/// Bytes that a value takes as it is stored; of a text, those of its offset.
#[must_use]
pub fn value_bytes(data_type: &DataType) -> u64 {
    data_type.primitive_width().unwrap_or(CODE_BYTES) as u64
}
