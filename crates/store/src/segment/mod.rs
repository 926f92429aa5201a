//! A segment: one file of rows of one partition, in the table's order, with its index beside it.
//!
//! - Hot segments are Arrow IPC files of one record batch, uncompressed, buffers aligned to 64 bytes; columns are mapped and
//!   sliced without a copy. Others are Parquet, or chunks of pco, with the same rows in the same order, whose columns are decoded.
//! - Written once, never changed. Order is checked when a segment is written.
//! - Bytes are checked against the index's checksums, and values against their type, when a process first touches them.
//!
//! Bytes: docs/format/segment.md.

mod arrow_file;
mod chain;
mod checksum;
mod column;
mod dense;
#[cfg(test)]
mod encrypted_tests;
mod page_memory;
mod parquet;
mod prefetch;
mod reader;
mod row_list;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::{Error, Result};

pub use chain::{chain, follows};
pub(crate) use checksum::{BlockChecksums, digest};
pub use column::ColumnReader;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use dense::fuzz;
pub(crate) use parquet::odd_one;
pub use reader::{ColumnStorage, Segment, SegmentBatches};
pub(crate) use reader::{SegmentPlace, checksums_of_object};
pub use row_list::RowList;
pub use writer::FileFormat;
pub(crate) use writer::{SegmentTarget, export, is_ordered, write};

/// Runs a decoder of another library. Bytes with right checksums may still not come from our writer. If the decoder panics on them, the panic
/// becomes an error.
pub(crate) fn guarded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    let gave_up = |_| Err(Error::corrupt(path, 0, "what a decoder can read", "bytes on which it gave up"));
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(gave_up)
}
