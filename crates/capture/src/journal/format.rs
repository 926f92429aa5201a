//! Bytes of a journal file: a header, then frames. Described in docs/format/journal.md.

use serde::{Deserialize, Serialize};
use splay_store::TableSpec;

use crate::codec;

/// Version that this release writes. It reads all up to this one.
pub(crate) const VERSION: u32 = 3;

/// Version from which on a file names the one before it, says what was synced, and marks the parts of a message.
pub(crate) const LINKED: u32 = 3;

const MAGIC: &[u8; 8] = b"SPLAYJNL";

/// Length of a file's header.
pub(crate) const HEADER_BYTES: usize = 32;

/// Length of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 8;

/// Longest content of a frame. Longer ones are no frames of ours.
pub(crate) const FRAME_BYTES_MAX: usize = codec::ROWS_BYTES_MAX;

/// Longest name of a producer.
pub(crate) const PRODUCER_BYTES_MAX: usize = 256;

const LAYOUT: u8 = 1;
const ROWS: u8 = 2;
const PRODUCERS: u8 = 3;
const ROWS_JOINED: u8 = 4;
const LINK: u8 = 5;
const SYNCED: u8 = 6;

/// Added to the kind of a batch that belongs to the message of the batch before it.
const CONTINUED: u8 = 0x10;

/// Bytes of a batch's content up to its producer's name: kind and fixed part.
const ROWS_BYTES_MIN: usize = 47;

/// Length of the content of a frame that says what was synced.
pub(crate) const MARK_LENGTH: u32 = 9;

/// An upper bound for the numbers that damage in one file can skip, also if its header is lost and starts have left numbers out.
const NUMBERS_LOST_MAX: u64 = 1 << 48;

/// The first bytes of a file: its number, and the sequence number of the first batch that it may hold.
pub(crate) fn header(number: u64, first: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&number.to_le_bytes());
    bytes[20..28].copy_from_slice(&first.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The version, the number and the first sequence number of a header; `None` if the bytes are none.
pub(crate) fn parse_header(bytes: &[u8]) -> Option<(u32, u64, u64)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let is_ours = header.starts_with(MAGIC) && crc32c::crc32c(&header[..28]) == u32_at(header, 28);
    is_ours.then(|| (u32_at(header, 8), u64_at(header, 12), u64_at(header, 20)))
}

/// A table as frames of rows refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableLayout {
    /// Number within the file.
    pub(crate) id: u32,
    /// The table, with the columns that the rows have.
    pub(crate) spec: TableSpec,
}

/// The content of a frame.
#[derive(Debug)]
pub(crate) enum JournalFrame<'a> {
    /// The number of a layout, and the table and columns that it stands for.
    Layout(TableLayout),
    /// The last number of each producer up to here, and when its batch came in, in nanoseconds since the epoch.
    Producers(Vec<(String, u64, i64)>),
    /// The file before this one.
    Link(PreviousFile),
    /// The number of bytes at the beginning of the file that were synced when this frame was written.
    Synced(u64),
    /// A batch.
    Rows(RowsFrame<'a>),
}

/// What a file records about the file before it, which was whole and synced by then. All zeros if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PreviousFile {
    pub(crate) number: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// Number of its last batch; without one, the number before the first that it could have had.
    pub(crate) sequence: u64,
    /// CRC32C of all its bytes.
    pub(crate) crc: u32,
}

/// The number of a layout, derived from its content, so that it is the same in every file. Two layouts of one file may
/// have the same number by chance.
pub(crate) fn layout_id(spec: &TableSpec) -> u32 {
    // Plain data to memory: can't fail.
    crc32c::crc32c(&serde_json::to_vec(spec).unwrap_or_default())
}

/// A batch of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowsFrame<'a> {
    pub(crate) sequence: u64,
    pub(crate) layout: u32,
    /// When it came in, in nanoseconds since the epoch.
    pub(crate) received: i64,
    /// Earliest and latest time of a row.
    pub(crate) times: (i64, i64),
    /// Name, empty for none, and its sequence number.
    pub(crate) producer: (&'a str, u64),
    /// Whether it counts only together with the next rows.
    pub(crate) is_joined: bool,
    /// Whether it counts only together with the rows before. Always false in files before version 3, which don't record
    /// it.
    pub(crate) is_continued: bool,
    /// See the crate's `codec`.
    pub(crate) rows: &'a [u8],
}

/// Appends a frame.
pub(crate) fn put(bytes: &mut Vec<u8>, frame: &JournalFrame<'_>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    match frame {
        JournalFrame::Layout(layout) => {
            bytes.push(LAYOUT);
            // Plain data to memory: can't fail.
            bytes.extend(serde_json::to_vec(layout).unwrap_or_default());
        }
        JournalFrame::Producers(producers) => {
            bytes.push(PRODUCERS);
            bytes.extend(serde_json::to_vec(producers).unwrap_or_default());
        }
        JournalFrame::Link(link) => {
            bytes.push(LINK);
            bytes.extend_from_slice(&link.number.to_le_bytes());
            bytes.extend_from_slice(&link.bytes.to_le_bytes());
            bytes.extend_from_slice(&link.sequence.to_le_bytes());
            bytes.extend_from_slice(&link.crc.to_le_bytes());
        }
        JournalFrame::Synced(synced) => {
            bytes.push(SYNCED);
            bytes.extend_from_slice(&synced.to_le_bytes());
        }
        JournalFrame::Rows(rows) => {
            let kind = if rows.is_joined { ROWS_JOINED } else { ROWS };
            bytes.push(if rows.is_continued { kind | CONTINUED } else { kind });
            bytes.extend_from_slice(&rows.sequence.to_le_bytes());
            bytes.extend_from_slice(&rows.layout.to_le_bytes());
            bytes.extend_from_slice(&rows.received.to_le_bytes());
            bytes.extend_from_slice(&rows.times.0.to_le_bytes());
            bytes.extend_from_slice(&rows.times.1.to_le_bytes());
            bytes.extend_from_slice(&rows.producer.1.to_le_bytes());
            bytes.extend_from_slice(&u16::try_from(rows.producer.0.len()).unwrap_or(0).to_le_bytes());
            bytes.extend_from_slice(rows.producer.0.as_bytes());
            bytes.extend_from_slice(rows.rows);
        }
    }
    let content = &bytes[start + FRAME_HEADER_BYTES..];
    let (length, crc) = (u32::try_from(content.len()).unwrap_or(u32::MAX), crc32c::crc32c(content));
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    bytes[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// The length of the content of the frame at the start of `bytes`; `None` where none can stand or its end isn't there.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let length = u32_at(bytes.get(..FRAME_HEADER_BYTES)?, 0) as usize;
    (1..=FRAME_BYTES_MAX.min(bytes.len() - FRAME_HEADER_BYTES)).contains(&length).then_some(length)
}

/// The content of the frame at the start of `bytes`, and the length of the frame; `None` if there is no sound frame.
pub(crate) fn content(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let length = length(bytes)?;
    let content = &bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length];
    (crc32c::crc32c(content) == u32_at(bytes, 4)).then_some((content, FRAME_HEADER_BYTES + length))
}

/// Reads a frame's content; `None` if its checksum is right and it is none of ours all the same.
pub(crate) fn parse(content: &[u8]) -> Option<JournalFrame<'_>> {
    let (kind, rest) = content.split_first()?;
    Some(match *kind {
        LAYOUT => {
            let layout: TableLayout = serde_json::from_slice(rest).ok()?;
            layout.spec.validate().ok()?;
            JournalFrame::Layout(layout)
        }
        PRODUCERS => JournalFrame::Producers(serde_json::from_slice(rest).ok()?),
        LINK => {
            let fixed = rest.get(..28).filter(|_| rest.len() == 28)?;
            let (number, bytes, sequence) = (u64_at(fixed, 0), u64_at(fixed, 8), u64_at(fixed, 16));
            JournalFrame::Link(PreviousFile { number, bytes, sequence, crc: u32_at(fixed, 24) })
        }
        SYNCED => JournalFrame::Synced(u64_at(rest.get(..8).filter(|_| rest.len() == 8)?, 0)),
        kind if is_rows(kind) => {
            let fixed = rest.get(..ROWS_BYTES_MIN - 1)?;
            let name = usize::from(u16::from_le_bytes([fixed[44], fixed[45]]));
            JournalFrame::Rows(RowsFrame {
                sequence: u64_at(fixed, 0),
                layout: u32_at(fixed, 8),
                received: u64_at(fixed, 12).cast_signed(),
                times: (u64_at(fixed, 20).cast_signed(), u64_at(fixed, 28).cast_signed()),
                is_joined: kind & !CONTINUED == ROWS_JOINED,
                is_continued: kind & CONTINUED != 0,
                producer: (std::str::from_utf8(rest.get(46..46 + name)?).ok()?, u64_at(fixed, 36)),
                rows: rest.get(46 + name..)?,
            })
        }
        _ => return None,
    })
}

fn is_rows(kind: u8) -> bool {
    matches!(kind & !CONTINUED, ROWS | ROWS_JOINED)
}

/// Whether the bytes look like a frame that may follow batch `last`, so that its checksum is worth computing. Returns the length of its
/// content.
pub(crate) fn plausible(bytes: &[u8], last: u64) -> Option<usize> {
    let length = length(bytes)?;
    let content = &bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length];
    let (kind, rest) = content.split_first()?;
    let is_plausible = match *kind {
        LAYOUT => rest.first() == Some(&b'{'),
        PRODUCERS => rest.first() == Some(&b'['),
        SYNCED => length == MARK_LENGTH as usize,
        kind => is_rows(kind) && length >= ROWS_BYTES_MIN && may_follow(u64_at(rest, 0), last),
    };
    is_plausible.then_some(length)
}

/// Whether a batch of this number may follow the batch `last` in the same file.
pub(crate) fn may_follow(sequence: u64, last: u64) -> bool {
    sequence != u64::MAX && sequence.checked_sub(last).is_some_and(|ahead| (1..=NUMBERS_LOST_MAX).contains(&ahead))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_back_and_any_damage_is_seen() {
        let rows = RowsFrame {
            sequence: 7,
            layout: 3,
            received: -1,
            times: (i64::MIN, i64::MAX),
            producer: ("feed", 9),
            is_joined: false,
            is_continued: true,
            rows: b"rows",
        };
        let mut bytes = Vec::new();
        put(&mut bytes, &JournalFrame::Rows(rows.clone()));
        let (frame, length) = content(&bytes).unwrap();
        assert_eq!(length, bytes.len());
        assert!(matches!(parse(frame), Some(JournalFrame::Rows(back)) if back == rows));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(content(&damaged).is_none(), "{at}");
            assert!(content(&bytes[..at]).is_none(), "{at}");
        }
        assert!(content(&[0; 64]).is_none(), "zeros are no frame");
    }
}
