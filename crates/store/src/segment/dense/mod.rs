//! Dense segments: columns as chunks of numbers compressed by the pco codec, for dates that are rarely read.
//!
//! - Writing ([`writer`]): prices and sizes as whole numbers and times in their coarsest exact unit, as in Parquet
//!   segments; column by column, a chunk of rows at a time.
//! - Reading ([`file`], [`chunk`]): the chunk's head gives the position of a page, which has its own checksum and is
//!   decoded by itself.
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
