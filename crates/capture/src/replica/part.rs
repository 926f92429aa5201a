//! The leader's answer to a request for journal bytes: the bytes, or why there are none.
//!
//! Bytes: docs/format/replica.md.

use super::Position;

const MAGIC: &[u8; 8] = b"SPLAYPRT";
const VERSION: u32 = 1;

/// Bytes before those of the journal.
const HEAD_BYTES: usize = 77;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// Bytes of the requested file; none if there are no more yet.
    Bytes,
    /// The file ends there, and the one of this number follows.
    Next(u64),
    /// The file isn't there any more, and the oldest is this one.
    Gone(u64),
    /// The leader's journal ends before that place.
    Ahead,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPart {
    /// The leader's epoch.
    pub epoch: u64,
    /// The kind of part.
    pub kind: PartKind,
    /// Where the leader's journal ended, as far as it is synced.
    pub end: Position,
    /// Number of the last batch up to there, and when it came in, in nanoseconds since the epoch.
    pub sequence: u64,
    /// The oldest file of the leader's journal.
    pub oldest: u64,
    /// For how long the leader waited for bytes, in nanoseconds.
    pub waited_ns: u64,
    /// What it sends.
    pub bytes: Vec<u8>,
}

impl JournalPart {
    /// Encodes the part as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, number) = match self.kind {
            PartKind::Bytes => (0u8, 0),
            PartKind::Next(number) => (1, number),
            PartKind::Gone(number) => (2, number),
            PartKind::Ahead => (3, 0),
        };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.bytes.len() + 4);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.push(kind);
        let length = self.bytes.len() as u64;
        let words =
            [number, self.epoch, self.end.file, self.end.offset, self.sequence, self.oldest, self.waited_ns, length];
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The part that bytes are; `None` if they are none of this release.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<JournalPart> {
        let (content, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        let (head, rest) = content.split_at_checked(HEAD_BYTES)?;
        let word = |place: usize| head.get(13 + place * 8..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
        let is_ours = head.starts_with(MAGIC) && head.get(8..12)? == VERSION.to_le_bytes();
        if !is_ours || crc32c::crc32c(content).to_le_bytes() != *crc || word(7)? != rest.len() as u64 {
            return None;
        }
        let kind = match head.get(12)? {
            0 => PartKind::Bytes,
            1 => PartKind::Next(word(0)?),
            2 => PartKind::Gone(word(0)?),
            3 => PartKind::Ahead,
            _ => return None,
        };
        Some(JournalPart {
            epoch: word(1)?,
            kind,
            end: Position { file: word(2)?, offset: word(3)? },
            sequence: word(4)?,
            oldest: word(5)?,
            waited_ns: word(6)?,
            bytes: rest.to_vec(),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_back_and_any_damage_is_seen() {
        for kind in [PartKind::Bytes, PartKind::Next(7), PartKind::Gone(9), PartKind::Ahead] {
            let end = Position { file: 3, offset: 4_711 };
            let part =
                JournalPart { epoch: 2, kind, end, sequence: 5, oldest: 1, waited_ns: 8, bytes: b"rows".to_vec() };
            let bytes = part.encode();
            assert_eq!(JournalPart::decode(&bytes).unwrap(), part);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x20;
                assert_eq!(JournalPart::decode(&damaged), None, "{at}");
                assert_eq!(JournalPart::decode(&bytes[..at]), None, "{at}");
            }
        }
    }
}
