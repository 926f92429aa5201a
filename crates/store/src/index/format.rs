//! Bytes of an index file. Described in docs/format/index.md.
//!
//! A header of 64 bytes, a table of sections of 32 bytes each, then the sections, each aligned to 64 bytes. The header's and
//! table's checksum is at the end of the table, each section's in the table.

use crate::error::{Error, Result};
use crate::little_endian::{u32_at, u64_at};

pub(crate) const MAGIC: &[u8; 8] = b"SPLAYIDX";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const ENTRY_BYTES: usize = 32;
pub(crate) const ALIGNMENT: usize = 64;

/// Rows of a block summary.
pub const BLOCK_ROWS: usize = 1024;

/// Bytes of a segment that share a checksum.
pub(crate) const CRC_BLOCK_BYTES: usize = 64 * 1024;

/// Most sections: every column of the widest table has two, and six stand beside them.
const SECTIONS_MAX: usize = 2 * crate::schema::COLUMNS_MAX + 6;

/// The content of a section. `column` in the section table counts summarised columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SectionKind {
    /// CRC32C of each block of the segment's file, `u32` each.
    Checksums = 1,
    /// The summarised columns: `u32` kind of value, `u32` length of the name, and the name, each.
    ColumnNames = 2,
    /// `u32` offsets, one more than symbols.
    SymbolOffsets = 3,
    /// The symbols' texts, end to end.
    SymbolTexts = 4,
    /// `u64` first row of each symbol, and the number of rows last.
    SymbolRows = 5,
    /// A bit: whether the first symbol is null.
    SymbolNull = 6,
    /// Summaries of one column by symbol, which releases up to 0.1 wrote and nothing reads.
    SymbolSummaries = 7,
    /// Summaries of one column by block.
    BlockSummaries = 8,
}

impl SectionKind {
    fn from_number(number: u32) -> Option<SectionKind> {
        use SectionKind::{
            BlockSummaries, Checksums, ColumnNames, SymbolNull, SymbolOffsets, SymbolRows, SymbolSummaries, SymbolTexts,
        };
        [Checksums, ColumnNames, SymbolOffsets, SymbolTexts, SymbolRows, SymbolNull, SymbolSummaries, BlockSummaries]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// An entry of the section table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    pub(crate) kind: SectionKind,
    pub(crate) column: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

/// Lays sections out behind each other and gives the whole file, and the digest of its header and table.
pub(crate) fn assemble(rows: u64, sections: &[(SectionKind, u32, Vec<u8>)]) -> (Vec<u8>, String) {
    let table_end = HEADER_BYTES + sections.len() * ENTRY_BYTES + 4;
    let mut offset = table_end.next_multiple_of(ALIGNMENT);
    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(sections.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&rows.to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    for (kind, column, content) in sections {
        bytes.extend_from_slice(&(*kind as u32).to_le_bytes());
        bytes.extend_from_slice(&column.to_le_bytes());
        bytes.extend_from_slice(&(offset as u64).to_le_bytes());
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        offset = (offset + content.len()).next_multiple_of(ALIGNMENT);
    }
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let digest = blake3::hash(&bytes).to_hex().to_string();
    for (_, _, content) in sections {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes.extend_from_slice(content);
    }
    (bytes, digest)
}

/// The digest of header and table, as far as the bytes have such.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let sections = bytes.get(..HEADER_BYTES).map_or(0, |header| u32_at(header, 12) as usize).min(SECTIONS_MAX);
    let table = bytes.get(..HEADER_BYTES + sections * ENTRY_BYTES + 4).unwrap_or(bytes);
    blake3::hash(table).to_hex().to_string()
}

/// Reads header and table. Offsets and lengths are within `bytes`.
pub(crate) fn parse(bytes: &[u8], digest: &str, path: &std::path::Path) -> Result<(u64, Vec<Section>)> {
    let bad = |offset: usize, expected: &str, found: &str| Error::corrupt(path, offset as u64, expected, found);
    let header = bytes.get(..HEADER_BYTES).ok_or_else(|| bad(bytes.len(), "a header", "the file's end"))?;
    if !header.starts_with(MAGIC) {
        return Err(bad(0, "SPLAYIDX", "other bytes"));
    }
    let version = u32_at(header, 8);
    if version > VERSION {
        return Err(Error::FormatVersion { path: path.to_path_buf(), found: version, supported: VERSION });
    }
    let count = u32_at(header, 12) as usize;
    if count > SECTIONS_MAX {
        return Err(bad(12, "a number of sections", "one too large"));
    }
    let rows = u64_at(header, 16);
    let table_end = HEADER_BYTES + count * ENTRY_BYTES;
    let table = bytes.get(..table_end + 4).ok_or_else(|| bad(bytes.len(), "a section table", "the file's end"))?;
    if crc32c::crc32c(&table[..table_end]) != u32_at(table, table_end) {
        return Err(bad(table_end, "the section table's checksum", "another"));
    }
    if blake3::hash(table).to_hex().as_str() != digest {
        return Err(bad(0, "the index of this segment", "the index of another"));
    }
    let mut sections = Vec::with_capacity(count);
    for at in (HEADER_BYTES..table_end).step_by(ENTRY_BYTES) {
        let section = Section {
            kind: SectionKind::from_number(u32_at(table, at)).ok_or_else(|| bad(at, "a section", "an unknown kind"))?,
            column: u32_at(table, at + 4),
            offset: u64_at(table, at + 8),
            length: u64_at(table, at + 16),
            crc: u32_at(table, at + 24),
        };
        let end = section.offset.checked_add(section.length);
        if end.is_none_or(|end| end > bytes.len() as u64) || !section.offset.is_multiple_of(ALIGNMENT as u64) {
            return Err(bad(at, "a section within the file", "one that leaves it"));
        }
        sections.push(section);
    }
    Ok((rows, sections))
}
