//! The index beside each segment, which lets a query read less than a scan would.
//!
//! - Symbol directory: for each run of equal symbols its text, first row and times.
//! - Block summaries: count, extremes, sum, first and last value for every 1,024 rows of every numeric column. The
//!   first times of the blocks are the sampled timestamps.
//! - Checksums of the segment's 64 KiB blocks, against which mapped bytes are checked at first touch.
//! - Derived data: it can be rebuilt from the segment, whose digest is in the manifest.
//!
//! Bytes: docs/format/index.md. Reasons: docs/adr/0003-sidecar-index.md.

mod builder;
mod columns;
mod directory;
mod file;
mod format;
mod reader;
mod summary;

pub(crate) use builder::build;
pub use columns::ColumnSummaries;
pub use format::BLOCK_ROWS;
pub(crate) use format::CRC_BLOCK_BYTES;
pub use reader::SegmentIndex;
pub use summary::{Summary, ValueKind, sortable};
