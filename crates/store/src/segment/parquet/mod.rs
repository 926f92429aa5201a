//! Parquet segments: files that any tool opens, written to be small and read page by page.
//!
//! - Writing ([`writer`]): prices and sizes as whole numbers and their power of ten ([`exact`]), times in their
//!   coarsest exact unit, each column in the encoding that is smallest on a sample, short pages.
//! - Reading ([`file`], [`column`]): the offset index gives the positions of pages, which are decoded directly into
//!   arrays.
//!
//! Bytes: docs/format/segment.md. Choices and measurements: docs/adr/0052-parquet-is-read-page-by-page.md.

mod column;
mod encodings;
mod exact;
mod file;
mod modules;
mod page;
mod physical_types;
mod thrift;
mod unpack;
mod values;
mod writer;

pub(crate) use exact::odd_one;
pub(crate) use file::{ParquetBatches, ParquetFile};
pub(super) use physical_types::stored as stored_column;
pub(super) use values::{Nulls, ValueBuilder};
pub(crate) use writer::{Strength, write, write_plain};
