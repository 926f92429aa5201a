//! The bytes of a dense segment outside its pages: the magic bytes at both ends, the footer, the heads of chunks.
//! Described in docs/format/segment.md.

use std::ops::Range;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::little_endian::u32_at;
use crate::schema::ColumnType;

/// The first and the last bytes of a file.
pub(super) const MAGIC: &[u8; 8] = b"SPLAYDN1";

/// The tail behind the footer: the footer's stored length, its length before compression, its checksum, the magic
/// bytes.
pub(super) const TAIL_BYTES: usize = 12 + MAGIC.len();

/// Rows of a chunk and of a page; the last ones may have fewer. A page is the smallest unit of decoding. The pages of a
/// chunk share the codec's tables.
pub(super) const CHUNK_ROWS: usize = 1 << 18;
pub(super) const PAGE_ROWS: usize = 1 << 13;

/// Most bytes of a footer before compression.
pub(super) const FOOTER_BYTES_MAX: usize = 256 << 20;

/// Bytes of a chunk's head before its list of pages, of a page's entry in that list, and of the checksum behind it.
const HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;

/// The footer, before the tail: the columns, and the places of their chunks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Footer {
    pub(super) rows: u64,
    /// Metadata of the rows' schema: the table's own, as JSON.
    pub(super) metadata: std::collections::BTreeMap<String, String>,
    pub(super) columns: Vec<StoredColumn>,
}

/// A column, and how its values became numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredColumn {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) column_type: ColumnType,
    /// Digits behind the point of floats that are whole numbers divided by a power of ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digits: Option<i8>,
    /// Unit of times, if it isn't the nanosecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<InstantUnit>,
    pub(super) kind: PageContent,
    /// The texts of the dictionary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) texts: Option<TextList>,
    /// Its chunks: the first byte and the number of bytes of each.
    pub(super) chunks: Vec<(u64, u64)>,
    /// The columns that it is made of, whose rows are its own; its numbers then say which rows are null, and nothing else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) items: Vec<StoredColumn>,
}

/// The content of a column's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PageContent {
    /// Whole numbers of 64 bits.
    Whole,
    /// Floats of 64 bits.
    Float,
    /// Texts as they are.
    Text,
}

/// Units of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum InstantUnit {
    #[serde(rename = "ms")]
    Millisecond,
    #[serde(rename = "us")]
    Microsecond,
}

impl From<InstantUnit> for TimeUnit {
    fn from(unit: InstantUnit) -> TimeUnit {
        match unit {
            InstantUnit::Millisecond => TimeUnit::Millisecond,
            InstantUnit::Microsecond => TimeUnit::Microsecond,
        }
    }
}

/// Texts one behind the other, compressed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct TextList {
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Bytes before compression, and how many texts there are.
    pub(super) plain_bytes: u64,
    pub(super) count: u64,
    pub(super) checksum: u32,
}

impl StoredColumn {
    /// The Arrow type whose values its numbers are.
    pub(super) fn stored_type(&self) -> DataType {
        match (self.column_type.arrow(), self.digits, self.unit) {
            (DataType::Float32 | DataType::Float64, Some(digits), _) => DataType::Decimal128(18, digits),
            (DataType::Timestamp(_, zone), _, Some(unit)) => DataType::Timestamp(unit.into(), zone),
            (DataType::Time64(_), _, Some(InstantUnit::Microsecond)) => DataType::Time64(TimeUnit::Microsecond),
            (other, ..) => other,
        }
    }
}

impl Footer {
    /// The rows' schema, in the types in which they are stored.
    pub(super) fn schema(&self) -> Schema {
        let field = |column: &StoredColumn| Field::new(&column.name, column.stored_type(), true);
        let metadata = self.metadata.clone().into_iter().collect();
        Schema::new_with_metadata(self.columns.iter().map(field).collect::<Vec<_>>(), metadata)
    }
}

/// The entry of a page in its chunk's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageEntry {
    /// Bytes that say which rows are null, and of the values behind them.
    pub(super) null_bytes: u32,
    pub(super) value_bytes: u32,
    /// Rows that aren't null.
    pub(super) values: u32,
    /// The checksum of all bytes of the page.
    pub(super) checksum: u32,
}

/// A chunk's head: its pages, and where the codec's tables and the pages are in the chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChunkHead {
    pub(super) pages: Vec<PageEntry>,
    pub(super) tables: Range<usize>,
}

impl ChunkHead {
    /// The head's bytes, with the codec's tables behind it.
    pub(super) fn encode(pages: &[PageEntry], tables: &[u8]) -> Vec<u8> {
        let word = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + pages.len() * ENTRY_BYTES + CHECKSUM_BYTES + tables.len());
        bytes.extend_from_slice(&word(pages.len()));
        bytes.extend_from_slice(&word(tables.len()));
        for page in pages {
            for word in [page.null_bytes, page.value_bytes, page.values, page.checksum] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), tables);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(tables);
        bytes
    }

    /// Bytes of the head of a chunk with `rows` rows, without the tables.
    pub(super) fn bytes(rows: usize) -> usize {
        HEAD_BYTES + rows.div_ceil(PAGE_ROWS) * ENTRY_BYTES + CHECKSUM_BYTES
    }

    /// Reads the head of a chunk with `rows` rows; `None` if the bytes are no head, or its checksum is wrong.
    pub(super) fn decode(chunk: &[u8], rows: usize) -> Option<ChunkHead> {
        let of_head = ChunkHead::bytes(rows);
        let head = chunk.get(..of_head)?;
        let (count, tables) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
        let tables = of_head..of_head.checked_add(tables)?;
        let (stored_checksum, checked) = (u32_at(head, of_head - CHECKSUM_BYTES), &head[..of_head - CHECKSUM_BYTES]);
        if count != rows.div_ceil(PAGE_ROWS)
            || crc32c::crc32c_append(crc32c::crc32c(checked), chunk.get(tables.clone())?) != stored_checksum
        {
            return None;
        }
        let entries = checked[HEAD_BYTES..].chunks_exact(ENTRY_BYTES);
        let pages = entries.map(|entry| PageEntry {
            null_bytes: u32_at(entry, 0),
            value_bytes: u32_at(entry, 4),
            values: u32_at(entry, 8),
            checksum: u32_at(entry, 12),
        });
        Some(ChunkHead { pages: pages.collect(), tables })
    }

    /// The place of a page's bytes in the chunk.
    pub(super) fn place(&self, page: usize) -> Range<usize> {
        let length = |page: &PageEntry| page.null_bytes as usize + page.value_bytes as usize;
        let start = self.tables.end + self.pages[..page].iter().map(length).sum::<usize>();
        start..start + length(&self.pages[page])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_a_changed_one_is_none() {
        let page = |number: u32| PageEntry { null_bytes: number, value_bytes: 7, values: 9, checksum: number * 3 };
        let pages: Vec<PageEntry> = (0..3).map(page).collect();
        let rows = 2 * PAGE_ROWS + 1;
        let bytes = ChunkHead::encode(&pages, b"tables");
        let head = ChunkHead::decode(&bytes, rows).unwrap();
        assert_eq!((&head.pages, head.tables.clone()), (&pages, bytes.len() - 6..bytes.len()));
        assert_eq!(head.place(2), bytes.len() + 7 + 8..bytes.len() + 7 + 8 + 9);
        assert_eq!(ChunkHead::decode(&bytes, rows + PAGE_ROWS), None);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(ChunkHead::decode(&changed, rows), None, "byte {at}");
            assert_eq!(ChunkHead::decode(&bytes[..at], rows), None, "{at} bytes");
        }
    }
}
