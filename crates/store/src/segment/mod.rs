//! A segment: one file of rows of one partition, in the table's order, with its index beside it.
//!
//! - Hot segments are Arrow IPC files of one record batch, uncompressed, buffers aligned to 64 bytes; columns are mapped and
//!   sliced without a copy. Cold segments are Parquet with the same rows in the same order.
//! - Written once, never changed. Order is checked when a segment is written.
//! - Bytes are checked against the index's checksums, and values against their type, when a process first touches them.
//!
//! Bytes: docs/format/segment.md.

mod arrow_file;
mod checksum;
mod column;
mod parquet_file;
mod reader;
mod writer;

pub use column::ColumnReader;
pub use reader::{Segment, SegmentBatches};
pub(crate) use writer::{SegmentTarget, export, ordered, write};
