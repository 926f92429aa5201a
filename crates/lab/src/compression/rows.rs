//! Blocks of rows: schemes that encode values, not bytes. Each block has the same number of rows, but the last.
//!
//! The part that blocks share begins with the nulls: 4 bytes length, then the bitmap, compressed by zstd. Blocks have a value in each row;
//! where there is none, encoders repeat the one before.

use std::fs::File;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::column::Column;
use super::frame::{self, BlockFile, BlockHead, Bytes};
use super::plain_bytes;
use super::scheme::{BlockReader, Scheme, SchemeId, of_file};
use crate::{Error, Result};

/// The level at which null bits are compressed.
const NULLS_LEVEL: i32 = 3;

/// An encoder of blocks of rows.
pub trait RowCodec: Send + Sync {
    /// What all blocks share, and the blocks.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    fn encode(&self, column: &Column, block_rows: usize) -> Result<(Vec<u8>, Vec<Vec<u8>>)>;

    /// A decoder of the blocks.
    ///
    /// # Errors
    /// [`Error::Damaged`] if what they share is damaged.
    fn decoder(&self, shared: &[u8], data_type: &DataType) -> Result<Box<dyn RowDecoder>>;
}

/// A decoder of blocks of rows.
pub trait RowDecoder {
    /// The values of a block.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn decode(&mut self, block: &[u8], rows: usize) -> Result<ArrayRef>;
}

/// A scheme of an encoder and a number of rows.
pub struct RowScheme {
    id: SchemeId,
    block_rows: usize,
    codec: Box<dyn RowCodec>,
}

impl RowScheme {
    /// A scheme; `id` gets the rows.
    pub fn new(id: SchemeId, block_rows: u32, codec: Box<dyn RowCodec>) -> RowScheme {
        let id = SchemeId { block_rows: Some(i64::from(block_rows)), ..id };
        RowScheme { id, block_rows: block_rows as usize, codec }
    }

    fn reader<'a>(&'a self, bytes: Bytes<'a>, data_type: &DataType) -> Result<RowBlocks<'a>> {
        let frame = BlockFile::open(bytes)?;
        let rows = frame.rows()?;
        if rows.div_ceil(self.block_rows) != frame.len() {
            return Err(Error::damaged(8, format!("{} blocks don't hold {rows} rows", frame.len())));
        }
        let (nulls, shared) = split_nulls(&frame.head, rows)?;
        let decoder = self.codec.decoder(shared, data_type)?;
        Ok(RowBlocks { nulls, decoder, rows, block_rows: self.block_rows, frame })
    }
}

fn join_nulls(column: &Column, shared: &[u8]) -> Result<Vec<u8>> {
    let bits = match column.values().nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => zstd::bulk::compress(&plain_bytes::bitmap(nulls), NULLS_LEVEL).map_err(Error::codec("zstd"))?,
        None => Vec::new(),
    };
    let length = u32::try_from(bits.len()).map_err(Error::codec("nulls"))?;
    Ok([&length.to_le_bytes()[..], &bits, shared].concat())
}

fn split_nulls(head: &BlockHead, rows: usize) -> Result<(Option<NullBuffer>, &[u8])> {
    let short = || Error::damaged(0, "the shared part is too short");
    let (length, rest) = head.shared.split_at_checked(4).ok_or_else(short)?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let (bits, shared) = rest.split_at_checked(length).ok_or_else(short)?;
    if bits.is_empty() {
        return Ok((None, shared));
    }
    let bits = zstd::bulk::decompress(bits, rows.div_ceil(8)).map_err(|error| Error::damaged(0, error))?;
    Ok((Some(plain_bytes::nulls(bits, rows)?), shared))
}

impl Scheme for RowScheme {
    fn id(&self) -> &SchemeId {
        &self.id
    }

    fn encode(&self, column: &Column) -> Result<Vec<u8>> {
        let named = |error| match error {
            Error::Unsupported { column, data_type, reason, .. } => {
                Error::Unsupported { scheme: self.id.name.clone(), column, data_type, reason }
            }
            other => other,
        };
        let (shared, blocks) = self.codec.encode(column, self.block_rows).map_err(named)?;
        let shared = join_nulls(column, &shared)?;
        let head = BlockHead { form: 0, rows: column.rows() as u64, plain_bytes: column.plain_bytes()?, shared };
        frame::write(&head, &blocks)
    }

    fn decode(&self, file: &[u8], data_type: &DataType) -> Result<Vec<ArrayRef>> {
        let mut reader = self.reader(Bytes::Memory(file), data_type)?;
        (0..reader.blocks()).map(|number| reader.values(number)).collect()
    }

    fn open<'a>(&'a self, file: &'a File, length: u64, data_type: &'a DataType) -> Result<Box<dyn BlockReader + 'a>> {
        Ok(Box::new(self.reader(of_file(file, length), data_type)?))
    }
}

struct RowBlocks<'a> {
    frame: BlockFile<'a>,
    nulls: Option<NullBuffer>,
    decoder: Box<dyn RowDecoder>,
    rows: usize,
    block_rows: usize,
}

impl RowBlocks<'_> {
    fn values(&mut self, number: usize) -> Result<ArrayRef> {
        let start = number.saturating_mul(self.block_rows);
        let rows = self.rows.saturating_sub(start).min(self.block_rows);
        let values = self.decoder.decode(&self.frame.block(number)?, rows)?;
        if values.len() != rows {
            return Err(Error::damaged(0, format!("block {number} has {} rows instead of {rows}", values.len())));
        }
        match &self.nulls {
            None => Ok(values),
            Some(nulls) => {
                let data = values.to_data().into_builder().nulls(Some(nulls.slice(start, rows)));
                Ok(make_array(data.build().map_err(|error| Error::damaged(0, error))?))
            }
        }
    }
}

impl BlockReader for RowBlocks<'_> {
    fn blocks(&self) -> usize {
        self.frame.len()
    }

    fn read(&mut self, block: usize) -> Result<usize> {
        Ok(self.values(block)?.to_data().get_slice_memory_size()?)
    }
}
