//! Decoders: they make rows of records.

use arrow::array::RecordBatch;

/// A record of a topic or a feed.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its number within the partition or feed.
    pub offset: u64,
    /// Nanoseconds since 1970: when it was written or received.
    pub time_ns: Option<i128>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; none of a tombstone.
    pub payload: Option<&'a [u8]>,
}

/// Why no rows could be made of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeFailure {
    /// The record is no row, and stays none.
    Invalid(String),
    /// A schema that the record needs can't be fetched now.
    Unavailable(String),
    /// Its rows have other columns than those that wait, which have to go first.
    OtherColumns,
}

impl From<String> for DecodeFailure {
    fn from(reason: String) -> DecodeFailure {
        DecodeFailure::Invalid(reason)
    }
}

/// Makes rows of records, and keeps them until they are taken.
pub trait Decode {
    /// Adds a record's rows, all of them or none, and returns their number.
    ///
    /// # Errors
    /// As [`DecodeFailure`] says.
    fn add(&mut self, record: &Record<'_>) -> Result<usize, DecodeFailure>;

    /// Rows that wait.
    fn rows(&self) -> usize;

    /// Bytes that the rows that wait take in memory, if records unpack to more than they have.
    fn bytes(&self) -> usize {
        0
    }

    /// Takes the rows that wait. Without any, a batch without rows.
    ///
    /// # Errors
    /// Arrow's; there is none for rows of fitted values.
    fn take(&mut self) -> Result<RecordBatch, String>;
}
