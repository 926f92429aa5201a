//! A file of blocks, each readable by itself.
//!
//! | Bytes | |
//! | --- | --- |
//! | 4 | `LAB1` |
//! | 1, 3 | form of the values, zeros |
//! | 8, 8 | rows, bytes of the values before compression |
//! | 4, 4 | length and CRC-32C of the part that all blocks share |
//! | 4 | number of blocks |
//! | 4 | CRC-32C of the 36 bytes above and the table of blocks |
//! | 8 each | length and CRC-32C of a block |
//! | | the shared part, then the blocks |
//!
//! Nothing is decoded whose checksum is wrong, so that a decoder sees only bytes that its encoder wrote.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Error, Result};

const MAGIC: &[u8; 4] = b"LAB1";
const HEADER: usize = 40;

/// Where bytes are read.
#[derive(Debug, Clone, Copy)]
pub enum Bytes<'a> {
    /// From memory.
    Memory(&'a [u8]),
    /// From a file of a length.
    File(&'a File, u64),
}

impl<'a> Bytes<'a> {
    /// How many there are.
    pub fn len(self) -> u64 {
        match self {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::File(_, length) => length,
        }
    }

    /// Some of them.
    pub fn read(self, offset: u64, length: usize) -> Result<Cow<'a, [u8]>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.len());
        let Some(end) = end else {
            return Err(Error::damaged(offset, format!("{length} bytes are missing: the file ends at {}", self.len())));
        };
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "both are within a slice")]
            Bytes::Memory(bytes) => Ok(Cow::Borrowed(&bytes[offset as usize..end as usize])),
            Bytes::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).map_err(|error| Error::damaged(offset, error))?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

/// The header that all blocks share.
#[derive(Debug, Clone, Default)]
pub struct BlockHead {
    pub form: u8,
    pub rows: u64,
    pub plain_bytes: u64,
    pub shared: Vec<u8>,
}

/// A file of these blocks.
pub fn write(head: &BlockHead, blocks: &[Vec<u8>]) -> Result<Vec<u8>> {
    let size = |length: usize| u32::try_from(length).map_err(Error::codec("blocks"));
    let mut file = Vec::with_capacity(HEADER + 8 * blocks.len() + blocks.iter().map(Vec::len).sum::<usize>());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[head.form, 0, 0, 0]);
    file.extend_from_slice(&head.rows.to_le_bytes());
    file.extend_from_slice(&head.plain_bytes.to_le_bytes());
    file.extend_from_slice(&size(head.shared.len())?.to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(&head.shared).to_le_bytes());
    file.extend_from_slice(&size(blocks.len())?.to_le_bytes());
    let mut table = Vec::with_capacity(8 * blocks.len());
    for block in blocks {
        table.extend_from_slice(&size(block.len())?.to_le_bytes());
        table.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
    }
    let sum = crc32c::crc32c_append(crc32c::crc32c(&file), &table);
    file.extend_from_slice(&sum.to_le_bytes());
    file.extend_from_slice(&table);
    file.extend_from_slice(&head.shared);
    blocks.iter().for_each(|block| file.extend_from_slice(block));
    Ok(file)
}

/// An open file of blocks.
#[derive(Debug)]
pub struct BlockFile<'a> {
    bytes: Bytes<'a>,
    pub head: BlockHead,
    /// Offset, length and checksum of each.
    blocks: Vec<(u64, usize, u32)>,
}

impl<'a> BlockFile<'a> {
    /// Reads the header of the blocks.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn open(bytes: Bytes<'a>) -> Result<BlockFile<'a>> {
        let header = bytes.read(0, HEADER)?;
        if !header.starts_with(MAGIC) {
            return Err(Error::damaged(0, "it doesn't begin with LAB1"));
        }
        let count = word(&header, 32) as usize;
        let table = bytes.read(HEADER as u64, count.saturating_mul(8))?;
        if crc32c::crc32c_append(crc32c::crc32c(&header[..36]), &table) != word(&header, 36) {
            return Err(Error::damaged(0, "the checksum of the header is wrong"));
        }
        let mut offset = (HEADER + table.len()) as u64;
        let shared = checked(bytes, (offset, word(&header, 24) as usize, word(&header, 28)))?.into_owned();
        offset += shared.len() as u64;
        let mut blocks = Vec::with_capacity(count);
        for entry in table.chunks_exact(8) {
            let length = word(entry, 0) as usize;
            blocks.push((offset, length, word(entry, 4)));
            offset += length as u64;
        }
        if offset != bytes.len() {
            return Err(Error::damaged(offset.min(bytes.len()), format!("{} bytes instead of {offset}", bytes.len())));
        }
        let head = BlockHead { form: header[4], rows: long(&header, 8), plain_bytes: long(&header, 16), shared };
        Ok(BlockFile { bytes, head, blocks })
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The rows of the file.
    pub fn rows(&self) -> Result<usize> {
        usize::try_from(self.head.rows).map_err(|_| Error::damaged(8, "more rows than memory"))
    }

    /// A block, after its checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is damaged or there is none.
    pub fn block(&self, number: usize) -> Result<Cow<'a, [u8]>> {
        let entry = self.blocks.get(number);
        checked(self.bytes, *entry.ok_or_else(|| Error::damaged(0, format!("there is no block {number}")))?)
    }
}

fn checked(bytes: Bytes<'_>, (offset, length, sum): (u64, usize, u32)) -> Result<Cow<'_, [u8]>> {
    let block = bytes.read(offset, length)?;
    if crc32c::crc32c(&block) != sum {
        return Err(Error::damaged(offset, "the checksum is wrong"));
    }
    Ok(block)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
