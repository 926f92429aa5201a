//! The files of a log by name, and their lines.

use std::fmt::Debug;

use crate::error::Result;
use crate::storage::Storage;

/// Bytes of the longest line that is read. A record is shorter.
const LINE_BYTES_MAX: usize = 256 << 10;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";

/// The file whose first record has a number.
pub(super) fn name(first: u64) -> String {
    format!("{PREFIX}{first:020}{SUFFIX}")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    number.parse().ok().filter(|number| self::name(*number) == name)
}

/// The number of each file's first record, in order.
pub(super) fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let entries = storage.list("")?;
    let mut numbers: Vec<u64> =
        entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| number_of(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A line.
#[derive(Debug)]
pub(super) struct LogLine {
    /// Its bytes without the line feed; of a line that is too long only the first.
    pub(super) bytes: Vec<u8>,
    /// The offset of its beginning in the file.
    pub(super) offset: u64,
    /// The offset of the next record.
    pub(super) end: u64,
    /// Whether it ends with a line feed.
    pub(super) is_whole: bool,
}

/// The lines of a file as it was when they were begun.
#[derive(Debug)]
pub(super) struct LogLines<'a> {
    storage: &'a dyn Storage,
    path: String,
    length: u64,
    /// The offset of the next read.
    read: u64,
    buffer: Vec<u8>,
    used: usize,
    /// The offset of the next line.
    offset: u64,
}

impl<'a> LogLines<'a> {
    pub(super) fn of(storage: &'a dyn Storage, path: String) -> Result<LogLines<'a>> {
        let length = storage.identity(&path)?.length;
        Ok(LogLines { storage, path, length, read: 0, buffer: Vec::new(), used: 0, offset: 0 })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn fill(&mut self) -> Result<bool> {
        let rest = usize::try_from(self.length - self.read).unwrap_or(usize::MAX);
        self.buffer = self.storage.read_at(&self.path, self.read, rest.min(READ_BYTES))?;
        self.read += self.buffer.len() as u64;
        self.used = 0;
        Ok(!self.buffer.is_empty())
    }

    pub(super) fn next(&mut self) -> Result<Option<LogLine>> {
        let (offset, mut bytes) = (self.offset, Vec::new());
        loop {
            if self.used == self.buffer.len() && !self.fill()? {
                let end = self.offset;
                return Ok((end > offset).then_some(LogLine { bytes, offset, end, is_whole: false }));
            }
            let rest = &self.buffer[self.used..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let part = end.unwrap_or(rest.len());
            bytes.extend_from_slice(&rest[..part.min(LINE_BYTES_MAX.saturating_sub(bytes.len()))]);
            let used = part + usize::from(end.is_some());
            (self.used, self.offset) = (self.used + used, self.offset + used as u64);
            if end.is_some() {
                return Ok(Some(LogLine { bytes, offset, end: self.offset, is_whole: true }));
            }
        }
    }
}
