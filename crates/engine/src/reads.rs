//! Counts what a plan reads, for the statement's costs.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use arrow::datatypes::DataType;
use splay_store::storage::mapped_ranges;
use splay_store::{SelectionStats, TableSnapshot};

use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::late::FrameColumn;
use crate::steps::{StepCost, StepCosts, StepId, memory_bytes};

/// Bytes that plans assume for a text or a list.
const VALUE_BYTES: usize = 16;

/// Bytes of a code of a dictionary.
const CODE_BYTES: usize = 4;

/// Counts the reads of a plan. All threads that work on it add to it.
#[derive(Debug, Default)]
pub struct Reads {
    scans: Mutex<Vec<SelectionStats>>,
    bytes: AtomicU64,
    /// Bytes of computed texts and lists beyond those that plans assume for a value.
    made_bytes: AtomicUsize,
    steps: Mutex<StepCosts>,
    /// The addresses of mapped files, if the memory of steps is measured.
    mapped: Option<Vec<Range<usize>>>,
}

/// The reads of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// The selection of each scan.
    pub scans: Vec<SelectionStats>,
    /// Bytes of the columns that were read, in the examined rows. Whole blocks that summaries answer count none, columns that are searched count in
    /// full, and a join counts the values that it takes. Texts count their offsets only.
    pub bytes: u64,
    /// The cost of each step.
    pub steps: StepCosts,
    /// Most bytes that the rows of a step and of its inputs took together, apart from mapped files; 0 if that wasn't measured.
    pub peak_memory_bytes: u64,
}

impl Reads {
    /// Counts from zero; the memory of steps is measured.
    #[must_use]
    pub fn with_memory() -> Reads {
        Reads { mapped: Some(mapped_ranges()), ..Reads::default() }
    }

    /// Records the cost of a step that began at `start` and produced these rows.
    pub(crate) fn add_step(&self, step: StepId, start: Instant, output: &[Frame]) {
        let memory_bytes = self.mapped.as_ref().map(|mapped| memory_bytes(output, mapped));
        let rows = output.iter().map(|frame| frame.len() as u64).sum();
        let cost = StepCost { rows, elapsed: start.elapsed(), memory_bytes };
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).add(step, cost);
    }

    pub(crate) fn add_scan(&self, stats: SelectionStats) {
        self.scans.lock().unwrap_or_else(PoisonError::into_inner).push(stats);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        // Relaxed: nothing but the sum matters.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the texts and lists among the computed columns of some rows: their length is known only now.
    ///
    /// # Errors
    /// If the plan has made more than `limit` bytes of them.
    pub(crate) fn add_computed(&self, rows: &Frame, limit: usize) -> Result<()> {
        let mut bytes = 0usize;
        for of_column in rows.columns().iter().filter_map(FrameColumn::bytes_of_any_length) {
            let reckoned = rows.len().saturating_mul(VALUE_BYTES);
            bytes = bytes.saturating_add(of_column.saturating_sub(reckoned));
        }
        if bytes == 0 {
            return Ok(());
        }
        let needed = self.made_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    /// The totals.
    #[must_use]
    pub fn into_read(self) -> ReadStats {
        ReadStats {
            scans: self.scans.into_inner().unwrap_or_else(PoisonError::into_inner),
            bytes: self.bytes.into_inner(),
            steps: self.steps.into_inner().unwrap_or_else(PoisonError::into_inner),
            peak_memory_bytes: 0,
        }
    }
}

/// The size of a value of a stored column in bytes.
pub(crate) fn column_bytes(snapshot: &TableSnapshot, column: usize) -> u64 {
    snapshot.spec().columns.get(column).map_or(0, |column| value_bytes(&column.column_type.arrow()))
}

/// The stored size of a value in bytes; of a text, the size of its offset.
#[must_use]
pub fn value_bytes(data_type: &DataType) -> u64 {
    data_type.primitive_width().unwrap_or(CODE_BYTES) as u64
}
