//! What a way of storing a column must do to be measured.

use std::fs::File;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::column::Column;
use super::frame::Bytes;
use crate::Result;

/// What a scheme is, as the columns of a table of results say it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchemeId {
    /// All of it, as people call it: `zstd 3, blocks of 2^17 bytes`. No two schemes have the same.
    pub name: String,
    /// `blocks`, `encoding`, `pco`, `fsst`, `parquet`, or `arrow`.
    pub family: &'static str,
    /// The codec of bytes: `zstd`, `none`.
    pub codec: &'static str,
    /// The encoding of values before that: `delta`, or nothing.
    pub encoding: &'static str,
    /// The number of the codec in q, for blocks.
    pub algorithm: Option<i64>,
    /// The level of the codec.
    pub level: Option<i64>,
    /// The logarithm to 2 of a block's bytes, for blocks.
    pub block_bits: Option<i64>,
    /// Rows of a page, a batch or a block, where rows are counted.
    pub block_rows: Option<i64>,
}

/// A way of storing a column in a file whose blocks are readable by themselves.
///
/// `decode` must give back every bit of the values, and no panic from bytes that were damaged. A scheme that can't hold a column says so
/// from `encode`.
pub trait Scheme: Send + Sync {
    /// What it is.
    fn id(&self) -> &SchemeId;

    /// The bytes of a file.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a type or values that it doesn't have.
    fn encode(&self, column: &Column) -> Result<Vec<u8>>;

    /// The values of a file, in pieces.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged).
    fn decode(&self, file: &[u8], data_type: &DataType) -> Result<Vec<ArrayRef>>;

    /// A reader of single blocks, which has read the file's header.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged).
    fn open<'a>(&'a self, file: &'a File, length: u64, data_type: &'a DataType) -> Result<Box<dyn BlockReader + 'a>>;
}

/// Reads single blocks of a file.
pub trait BlockReader {
    /// How many blocks there are.
    fn blocks(&self) -> usize;

    /// Reads and decodes a block, and gives how many bytes it stands for.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged).
    fn read(&mut self, block: usize) -> Result<usize>;
}

/// The bytes of a file.
pub(super) fn of_file(file: &File, length: u64) -> Bytes<'_> {
    Bytes::File(file, length)
}
