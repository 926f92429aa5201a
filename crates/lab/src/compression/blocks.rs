//! Blocks of bytes: the values as they are in memory, cut into logical blocks of a power of two, each compressed by itself. This is how q
//! compresses files, and what its grid of parameters is about.

use std::fs::File;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::codec::{Codec, Compressor, Decompressor};
use super::column::Column;
use super::frame::{self, BlockFile, BlockHead, Bytes};
use super::plain_bytes::{self, PlainBytes};
use super::scheme::{BlockReader, Scheme, SchemeId, of_file};
use crate::{Error, Result};

/// Logarithms of the sizes of logical blocks in the grid.
pub const BLOCK_BITS: std::ops::RangeInclusive<u32> = 12..=20;

/// The size of a block that is not compressed, which a scheme has for reading single ones.
const PLAIN_BITS: u32 = 17;

/// Blocks of bytes by a codec.
#[derive(Debug)]
pub struct BlockScheme {
    codec: Codec,
    bits: u32,
    id: SchemeId,
}

impl BlockScheme {
    /// Blocks of 2^`bits` bytes; uncompressed ones have no size.
    #[must_use]
    pub fn new(codec: Codec, bits: u32) -> BlockScheme {
        let (name, bits, shown) = match codec {
            Codec::None => ("none".to_owned(), PLAIN_BITS, 0),
            _ => (format!("{codec}, blocks of 2^{bits} bytes"), bits, i64::from(bits)),
        };
        let id = SchemeId {
            name,
            family: "blocks",
            codec: codec.name(),
            algorithm: Some(codec.algorithm()),
            level: Some(codec.level().unwrap_or(0)),
            block_bits: Some(shown),
            ..SchemeId::default()
        };
        BlockScheme { codec, bits, id }
    }
}

impl Scheme for BlockScheme {
    fn id(&self) -> &SchemeId {
        &self.id
    }

    fn encode(&self, column: &Column) -> Result<Vec<u8>> {
        let plain = plain_bytes::of(column)?;
        let mut compressor = Compressor::new(self.codec)?;
        let blocks = plain.bytes.chunks(1 << self.bits).map(|block| compressor.compress(block));
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        let (rows, plain_bytes) = (column.rows() as u64, plain.bytes.len() as u64);
        frame::write(&BlockHead { form: plain.form, rows, plain_bytes, shared: Vec::new() }, &blocks)
    }

    fn decode(&self, file: &[u8], data_type: &DataType) -> Result<Vec<ArrayRef>> {
        let mut reader = ByteBlocks::open(self, Bytes::Memory(file))?;
        let mut bytes = Vec::with_capacity(reader.length(0).saturating_mul(reader.blocks()));
        for number in 0..reader.blocks() {
            bytes.extend_from_slice(&reader.block(number)?);
        }
        let (form, rows) = (reader.frame.head.form, reader.frame.rows()?);
        Ok(vec![plain_bytes::to_values(PlainBytes { bytes, form }, rows, data_type)?])
    }

    fn open<'a>(&'a self, file: &'a File, length: u64, _: &'a DataType) -> Result<Box<dyn BlockReader + 'a>> {
        Ok(Box::new(ByteBlocks::open(self, of_file(file, length))?))
    }
}

struct ByteBlocks<'a> {
    frame: BlockFile<'a>,
    decompressor: Decompressor,
    bits: u32,
}

impl<'a> ByteBlocks<'a> {
    fn open(scheme: &BlockScheme, bytes: Bytes<'a>) -> Result<ByteBlocks<'a>> {
        let frame = BlockFile::open(bytes)?;
        if frame.head.plain_bytes.div_ceil(1 << scheme.bits) != frame.len() as u64 {
            return Err(Error::damaged(16, format!("{} blocks don't hold the bytes that the file tells", frame.len())));
        }
        Ok(ByteBlocks { frame, decompressor: Decompressor::new(scheme.codec)?, bits: scheme.bits })
    }

    /// Bytes of a block before compression.
    fn length(&self, number: usize) -> usize {
        let remaining = self.frame.head.plain_bytes.saturating_sub((number as u64) << self.bits);
        usize::try_from(remaining.min(1 << self.bits)).unwrap_or(0)
    }

    fn block(&mut self, number: usize) -> Result<Vec<u8>> {
        let length = self.length(number);
        self.decompressor.decompress(&self.frame.block(number)?, length)
    }
}

impl BlockReader for ByteBlocks<'_> {
    fn blocks(&self) -> usize {
        self.frame.len()
    }

    fn read(&mut self, block: usize) -> Result<usize> {
        Ok(self.block(block)?.len())
    }
}
