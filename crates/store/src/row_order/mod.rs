//! The order of a table's rows: (symbol, time, arrival). Sorts rows in memory, and merges sorted sources.

mod conform;
mod gather;
mod merge;
mod order;
mod sort;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::manifest::FileEntry;
use crate::schema::TableSpec;

pub(crate) use conform::conform;
pub(crate) use gather::gather;
pub(crate) use merge::{RowSource, merge};
pub(crate) use order::{BatchOrder, BatchRange, OrderPart};
pub(crate) use sort::sorted;

/// Rows in the table's order: those of equal symbol and time stay in the order of the batches, which may lack columns that were
/// added since.
pub(crate) fn in_order(spec: &TableSpec, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let schema = spec.arrow();
    let batches = batches.iter().map(|batch| conform(spec, &schema, batch)).collect::<Result<Vec<_>>>()?;
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(schema));
    }
    gather(&schema, &batches, &sorted(spec, &batches))
}

/// Whether the rows of each segment sort after those of the segment before it. If not, that holds still for the
/// rows of each symbol.
pub(crate) fn follow_each_other<'a>(spec: &TableSpec, entries: impl Iterator<Item = &'a FileEntry>) -> bool {
    if spec.symbol.is_none() {
        // All rows are those of one symbol.
        return true;
    }
    let mut before: Option<&FileEntry> = None;
    for entry in entries {
        let follows = |before: &FileEntry| match (&before.symbols, &entry.symbols) {
            (Some((_, last)), Some((first, _))) => last <= first,
            // The entries don't tell this of a segment that begins with rows without a symbol.
            _ => false,
        };
        if before.is_some_and(|before| !follows(before)) {
            return false;
        }
        before = Some(entry);
    }
    true
}
