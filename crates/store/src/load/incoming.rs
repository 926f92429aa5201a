//! Incoming rows of a load for one partition: in memory, or sorted and spilled.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::removal;
use super::spill::{RunWriter, SpilledRun};
use crate::error::Result;
use crate::row_order::{RowSource, merge};
use crate::schema::TableSpec;
use crate::storage::Storage;

/// Most runs of a partition before they are merged into one.
const RUNS_MAX: usize = 64;

/// Rows of one partition that came in so far.
#[derive(Debug, Default)]
pub(super) struct IncomingRows {
    /// Sorted, older ones first.
    pub runs: Vec<SpilledRun>,
    pub batches: Vec<RecordBatch>,
    /// How many they are.
    pub rows: u64,
    /// Bytes of a row, estimated.
    pub row_bytes: usize,
    /// Its symbols by date, where the load replaces those; its dates without any, where it replaces dates and a partition has several.
    pub replaced: BTreeMap<i32, HashSet<Option<String>>>,
}

impl IncomingRows {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.batches.is_empty()
    }

    /// Merges the oldest runs while there are too many. `number` is that of the next run.
    pub fn merge_runs(&mut self, spec: &TableSpec, storage: &Arc<dyn Storage>, number: &mut usize) -> Result<()> {
        while self.runs.len() >= RUNS_MAX {
            let runs: Vec<SpilledRun> = self.runs.drain(..RUNS_MAX).collect();
            let read = |run: &SpilledRun| -> RowSource<'_> { Box::new(run.clone().read(Arc::clone(storage))) };
            let mut merged = RunWriter::create(storage.as_ref(), *number)?;
            *number += 1;
            let chunk_rows = RunWriter::chunk_rows(self.row_bytes);
            merge(spec, runs.iter().map(read).collect(), chunk_rows, &mut |rows| merged.write(&rows))?;
            for run in &runs {
                run.remove(storage.as_ref())?;
            }
            self.runs.insert(0, merged.finish());
        }
        Ok(())
    }

    /// Takes the rows of another date in.
    pub fn add(&mut self, other: IncomingRows) {
        self.runs.extend(other.runs);
        self.batches.extend(other.batches);
        self.rows += other.rows;
        self.row_bytes = self.row_bytes.max(other.row_bytes);
        self.replaced.extend(other.replaced);
    }

    /// How many symbols the rows have that are in memory; 1 without a symbol column.
    pub fn symbols(&self, spec: &TableSpec) -> Result<u64> {
        let mut seen = removal::ReplacedSymbols::new();
        self.batches.iter().try_for_each(|batch| removal::add_symbols(spec, batch, &mut seen))?;
        Ok(seen.values().map(|symbols| symbols.len() as u64).max().unwrap_or(1).max(1))
    }
}
