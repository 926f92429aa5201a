//! Bytes as they come, cut into whole lines.

use std::collections::VecDeque;

/// Bytes of a line that are kept, far above what a server takes by default; of a longer one the beginning, which a server refuses by its length or by
/// [`CUT`].
const LINE_BYTES_MAX: usize = 16 << 20;

/// The last byte of a line that was cut. No server takes it, whatever its limit: it isn't UTF-8.
const CUT: u8 = 0xff;

/// Lines that go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The lines, each with its line feed but perhaps the last.
    pub bytes: Vec<u8>,
    /// Number of the first.
    pub first_line: u64,
    /// How many there are.
    pub lines: u64,
}

impl Block {
    /// Leaves lines up to a number out, and says how many that were.
    pub fn pass_over(&mut self, last: u64) -> u64 {
        let out = last.saturating_add(1).saturating_sub(self.first_line).min(self.lines);
        for _ in 0..out {
            let end = self.bytes.iter().position(|byte| *byte == b'\n').map_or(self.bytes.len(), |at| at + 1);
            self.bytes.drain(..end);
        }
        self.first_line += out;
        self.lines -= out;
        out
    }
}

/// Lines that wait.
#[derive(Debug, Default)]
pub struct PendingLines {
    whole: VecDeque<u8>,
    /// Lengths of the whole lines.
    lengths: VecDeque<usize>,
    /// A line that hasn't ended.
    begun: Vec<u8>,
    /// Lines that were taken.
    line_number: u64,
}

impl PendingLines {
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.begin(&bytes[..end]);
            self.finish();
            bytes = &bytes[end + 1..];
        }
        self.begin(bytes);
    }

    /// The last line needs no line feed.
    pub fn end(&mut self) {
        if !self.begun.is_empty() {
            self.finish();
        }
    }

    fn begin(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room
            && let Some(last) = self.begun.last_mut()
        {
            *last = CUT;
        }
    }

    fn finish(&mut self) {
        self.begun.push(b'\n');
        self.lengths.push_back(self.begun.len());
        self.whole.extend(self.begun.drain(..));
    }

    /// Whole lines that wait.
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.whole.len()
    }

    /// The first lines, at most so many; none if there are none.
    pub fn take(&mut self, most: usize) -> Option<Block> {
        let lengths: Vec<usize> = self.lengths.drain(..most.min(self.lengths.len())).collect();
        if lengths.is_empty() {
            return None;
        }
        let length: usize = lengths.iter().sum();
        let bytes = self.whole.drain(..length).collect();
        let (first_line, lines) = (self.line_number + 1, lengths.len() as u64);
        self.line_number += lines;
        Some(Block { bytes, first_line, lines })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_numbered_however_they_come() {
        let text = b"one\n\nthree\r\nfour";
        for size in 1..=text.len() {
            let mut lines = PendingLines::default();
            text.chunks(size).for_each(|chunk| lines.push(chunk));
            lines.end();
            assert_eq!((lines.count(), lines.bytes()), (4, text.len() + 1));
            let first = lines.take(1).unwrap();
            assert_eq!(first, Block { bytes: b"one\n".to_vec(), first_line: 1, lines: 1 });
            let rest = lines.take(10).unwrap();
            assert_eq!(rest, Block { bytes: b"\nthree\r\nfour\n".to_vec(), first_line: 2, lines: 3 });
            assert_eq!(lines.take(1), None);
        }
    }

    #[test]
    fn lines_that_were_stored_are_passed_over() {
        let block = Block { bytes: b"a\nb\nc\n".to_vec(), first_line: 5, lines: 3 };
        for (last, out, bytes, first_line) in [
            (0, 0, &b"a\nb\nc\n"[..], 5),
            (4, 0, b"a\nb\nc\n", 5),
            (5, 1, b"b\nc\n", 6),
            (7, 3, b"", 8),
            (90, 3, b"", 8),
        ] {
            let mut rest = block.clone();
            assert_eq!(rest.pass_over(last), out);
            assert_eq!(rest, Block { bytes: bytes.to_vec(), first_line, lines: 3 - out });
        }
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let mut lines = PendingLines::default();
        let most = vec![b'x'; LINE_BYTES_MAX];
        lines.push(&most);
        lines.push(b"\n");
        assert_eq!(lines.take(1).unwrap().bytes, [&most[..], b"\n"].concat(), "a line of the greatest length is whole");
        for _ in 0..20 {
            lines.push(&most[..1 << 20]);
        }
        lines.push(b"\nnext\n");
        let cut = lines.take(1).unwrap().bytes;
        assert_eq!(cut.len(), LINE_BYTES_MAX + 1);
        assert_eq!(cut[LINE_BYTES_MAX - 1], CUT, "no server takes it for a shorter line");
        assert_eq!(lines.take(1).unwrap(), Block { bytes: b"next\n".to_vec(), first_line: 3, lines: 1 });
    }
}
