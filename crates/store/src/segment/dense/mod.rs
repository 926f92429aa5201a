//! Dense segments: columns as chunks of numbers that the pco codec has compressed, for dates that are hardly read.
//!
//! - Written ([`writer`]): prices and sizes as whole numbers and times in their coarsest exact unit, as in Parquet segments; one column
//!   after the other, a chunk of rows at a time.
//! - Read ([`file`], [`chunk`]): a page of a chunk is found by the chunk's head, checked by its own checksum, and decoded by itself.
//!
//! Bytes ([`format`]): docs/format/segment.md. Choices and measurements: docs/adr/0084-a-dense-tier-of-pco.md.

mod chunk;
mod file;
mod format;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod numbers;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use file::DenseFile;
pub(crate) use writer::write;
