//! Batches of one table that are in the journal and not in its files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use splay_store::{ColumnSpec, TableSnapshot, TableSpec, WriteDownPosition};

use crate::conform::under_former_names;
use crate::error::Result;
use crate::journal::{JournalEntry, TailReader};
use crate::live::layers::{self, Layers, SegmentsByDate};
use crate::live::times;
use crate::live::{RECOVERED_ROWS_MAX, Tail};
use crate::recovery::{TOGETHER_ROWS, behind};

/// Bits of a batch's number.
const NUMBER_BITS: u32 = 53;

/// The rows of a table that aren't in its segments yet.
#[derive(Debug, Default)]
pub(super) struct PendingRows {
    /// In their order.
    batches: Vec<JournalEntry>,
    /// The position of the files among these batches.
    captured: WriteDownPosition,
    /// Their rows, of the first ones.
    layers: Layers,
    built: usize,
    bytes: u64,
    composed: Option<FollowedSegments>,
    /// The columns of the segments.
    columns: Vec<ColumnSpec>,
}

/// Segments over the files of a commit.
#[derive(Debug)]
struct FollowedSegments {
    /// Commit, last batch, and pages that couldn't be read until then.
    of: (Arc<str>, u64, u64, u64),
    partitions: SegmentsByDate,
}

impl PendingRows {
    pub(super) fn push(&mut self, batch: JournalEntry) {
        self.batches.push(batch);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn needs(&self, file: u64) -> bool {
        self.batches.binary_search_by_key(&file, |batch| batch.file).is_ok()
    }

    /// Bytes of the rows in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The batches of a file aren't there.
    pub(super) fn forget(&mut self, file: u64) {
        if self.needs(file) {
            self.batches.retain(|batch| batch.file != file);
            self.rebuild();
        }
    }

    /// The files have this.
    pub(super) fn leave_out(&mut self, captured: WriteDownPosition) {
        if captured != self.captured {
            self.captured = captured;
            self.batches.retain(|batch| batch.sequence > captured.sequence || batch.times.1 > captured.cut);
            self.rebuild();
        }
    }

    /// Lets go of the segments.
    pub(super) fn rebuild(&mut self) {
        (self.layers, self.built, self.bytes, self.composed) = (Layers::new(), 0, 0, None);
    }

    /// Brings all rows into segments; false if they were there.
    pub(super) fn build(&mut self, spec: &TableSpec, journal: &TailReader, bytes_max: u64) -> Result<bool> {
        // A follower may have rows before it has the columns for them.
        if self.columns != spec.columns {
            self.rebuild();
            self.columns.clone_from(&spec.columns);
        }
        if self.built == self.batches.len() {
            return Ok(false);
        }
        while self.built < self.batches.len() {
            let (tails, count) = self.next_tails(spec, journal)?;
            self.layers = layers::with(spec, &self.layers, &layers::of_tail(spec, &tails)?)?;
            self.built += count;
            self.bytes = self.layers.values().flatten().map(|segment| segment.entry().bytes).sum();
            check_room(self.bytes, bytes_max)?;
        }
        Ok(true)
    }

    /// Rows of the next batches, small ones put together, and how many batches these are.
    fn next_tails(&self, spec: &TableSpec, journal: &TailReader) -> Result<(Vec<Arc<Tail>>, usize)> {
        let (mut tails, mut together, mut rows, mut count) = (Vec::new(), Vec::<RecordBatch>::new(), 0, 0);
        let mut all = 0;
        let next = &self.batches[self.built..];
        for (place, batch) in next.iter().enumerate() {
            let mut of_batch = journal.rows(batch)?;
            if batch.sequence <= self.captured.sequence {
                of_batch = behind(&batch.spec, &of_batch, self.captured.cut)?;
            }
            of_batch = under_former_names(spec, &batch.spec, of_batch)?;
            rows += of_batch.num_rows();
            all += of_batch.num_rows() as u64;
            together.push(of_batch);
            count += 1;
            let is_of_layout = next.get(place + 1).is_some_and(|other| Arc::ptr_eq(&other.spec, &batch.spec));
            if !is_of_layout || rows >= TOGETHER_ROWS {
                tails.push(Arc::new(tail(batch, &together)?));
                (together, rows) = (Vec::new(), 0);
                if all >= RECOVERED_ROWS_MAX {
                    break;
                }
            }
        }
        Ok((tails, count))
    }

    /// The files with the segments over them. `forgotten` tells batches of one number apart.
    pub(super) fn over(&mut self, files: &TableSnapshot, forgotten: u64) -> Result<TableSnapshot> {
        let last = self.batches.last().map_or(0, |batch| batch.sequence).max(self.captured.sequence);
        let last = last.wrapping_add(forgotten << NUMBER_BITS);
        let of = (Arc::clone(files.folder()), files.epoch(), last, files.watch().since());
        if let Some(cached) = self.composed.as_ref().filter(|cached| cached.of == of) {
            return Ok(files.with_partitions(last, cached.partitions.clone()));
        }
        let partitions = layers::over_files(files, &self.layers)?;
        let snapshot = files.with_partitions(last, partitions.clone());
        self.composed = Some(FollowedSegments { of, partitions });
        Ok(snapshot)
    }
}

/// Batches of one layout as one, under the number of the last.
fn tail(last: &JournalEntry, batches: &[RecordBatch]) -> Result<Tail> {
    let rows = match batches {
        [one] => one.clone(),
        several => concat_batches(&several[0].schema(), several)?,
    };
    let (bytes, times) = (rows.get_array_memory_size() as u64, times(&last.spec, &rows));
    Ok(Tail { sequence: last.sequence, received: last.received, rows, bytes, times })
}

/// Refuses rows that take more memory than they may.
pub(super) fn check_room(bytes: u64, bytes_max: u64) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let reason = format!(
        "rows that are in the journal and in no table's files yet take more than {bytes_max} bytes of memory; ask the server that \
         captures them, have them written down, or allow more"
    );
    Err(splay_store::Error::Setting { setting: "journal_memory", reason }.into())
}
