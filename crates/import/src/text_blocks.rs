//! Blocks of whole records, cut from a stream of delimited text or JSON.

use std::io::Read;

use crate::column_names::name_index_columns;
use crate::csv::fields::{last_record_end, record};
use crate::csv::parse::PADDING;
use crate::decompress::DecompressedStream;
use crate::error::{Error, Result};
use crate::json::blocks::{last_line_end, last_object_end};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 4 << 20;

/// Bytes that are read at once of lines that are passed over.
const SKIPPED_BYTES: u64 = 4096;

/// Longest record.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A piece of a file that holds whole records: `len` bytes, then padding.
#[derive(Debug)]
pub(crate) struct TextBlock {
    pub bytes: Vec<u8>,
    pub len: usize,
    /// Whether it is the file's first, or last as far as that is known; asked of arrays of JSON.
    pub first: bool,
    pub last: bool,
}

/// Where blocks end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockBoundary {
    /// Behind records of delimited text.
    Records(u8),
    /// Behind line feeds.
    Lines,
    /// Behind objects of a JSON array. There is a last block even if it has no bytes.
    Objects,
}

impl BlockBoundary {
    fn last_end(self, bytes: &[u8]) -> usize {
        match self {
            BlockBoundary::Records(delimiter) => last_record_end(bytes, delimiter),
            BlockBoundary::Lines => last_line_end(bytes),
            BlockBoundary::Objects => last_object_end(bytes),
        }
    }
}

/// Cuts a stream into blocks.
pub(crate) struct TextBlocks<'a> {
    stream: &'a mut DecompressedStream,
    file: &'a str,
    cut: BlockBoundary,
    block_bytes: usize,
    carried: Vec<u8>,
    at_end: bool,
    first: bool,
    ended: bool,
}

impl<'a> TextBlocks<'a> {
    /// Skips a byte order mark.
    pub fn new(
        stream: &'a mut DecompressedStream,
        file: &'a str,
        cut: BlockBoundary,
        block_bytes: usize,
    ) -> Result<TextBlocks<'a>> {
        let mut blocks = TextBlocks {
            stream,
            file,
            cut,
            block_bytes,
            carried: Vec::new(),
            at_end: false,
            first: true,
            ended: false,
        };
        let mut head = [0u8; 3];
        let got = blocks.stream.read_full(&mut head)?;
        blocks.at_end = got < head.len();
        if head[..2] == [0xff, 0xfe] || head[..2] == [0xfe, 0xff] {
            return Err(Error::unsupported(file, "is UTF-16 text; convert it to UTF-8"));
        }
        if head != [0xef, 0xbb, 0xbf] {
            blocks.carried.extend_from_slice(&head[..got]);
        }
        Ok(blocks)
    }

    /// Takes lines off the stream, as far as there are any.
    pub fn skip_lines(&mut self, lines: u64) -> Result<()> {
        let mut left = lines;
        while left > 0 {
            let mut at = 0;
            while left > 0
                && let Some(end) = memchr::memchr(b'\n', &self.carried[at..])
            {
                at += end + 1;
                left -= 1;
            }
            if left == 0 {
                self.carried.drain(..at);
                return Ok(());
            }
            self.carried.clear();
            if self.at_end {
                return Ok(());
            }
            let got = self.stream.by_ref().take(SKIPPED_BYTES).read_to_end(&mut self.carried);
            self.at_end = (got.map_err(|e| crate::decompress::damaged(self.file, &e))? as u64) < SKIPPED_BYTES;
        }
        Ok(())
    }

    /// Looks at the first byte that isn't white space, and cuts JSON by it. Says whether there is any.
    pub fn look_for_array(&mut self) -> Result<bool> {
        let mut bytes = std::mem::take(&mut self.carried);
        while bytes.iter().all(u8::is_ascii_whitespace) && !self.at_end {
            let got = self.stream.by_ref().take(4096).read_to_end(&mut bytes);
            self.at_end = got.map_err(|e| crate::decompress::damaged(self.file, &e))? < 4096;
            if bytes.len() > RECORD_BYTES_MAX {
                return Err(Error::damaged(self.file, "it begins with 64 MiB of white space"));
            }
        }
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
        self.cut = if first == Some(b'[') { BlockBoundary::Objects } else { BlockBoundary::Lines };
        self.carried = bytes;
        Ok(first.is_some())
    }

    /// Where blocks end.
    pub fn cut(&self) -> BlockBoundary {
        self.cut
    }

    /// On-disk bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.stream.bytes_read()
    }

    /// The next block, or `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<TextBlock>> {
        let mut bytes = std::mem::take(&mut self.carried);
        let mut target = self.block_bytes;
        loop {
            if !self.at_end && bytes.len() < target {
                let missing_bytes = target - bytes.len();
                bytes.reserve(missing_bytes + PADDING + 1);
                let got = self.stream.by_ref().take(missing_bytes as u64).read_to_end(&mut bytes);
                self.at_end = got.map_err(|e| crate::decompress::damaged(self.file, &e))? < missing_bytes;
            }
            if self.at_end {
                if bytes.is_empty() && (self.cut != BlockBoundary::Objects || self.ended) {
                    return Ok(None);
                }
                self.ended = true;
                if bytes.last() != Some(&b'\n') {
                    bytes.push(b'\n');
                }
                return Ok(Some(self.block(bytes)));
            }
            let end = self.cut.last_end(&bytes);
            if end > 0 {
                self.carried.extend_from_slice(&bytes[end..]);
                bytes.truncate(end);
                return Ok(Some(self.block(bytes)));
            }
            if bytes.len() > RECORD_BYTES_MAX {
                return Err(Error::damaged(self.file, "a record is longer than 64 MiB; is a quote left open?"));
            }
            target = bytes.len() * 2;
        }
    }

    fn block(&mut self, mut bytes: Vec<u8>) -> TextBlock {
        let len = bytes.len();
        bytes.resize(len + PADDING, 0);
        TextBlock { bytes, len, first: std::mem::take(&mut self.first), last: self.ended }
    }

    /// Takes the header, the first record that isn't blank, off the stream. Gives its names and the line feeds it took.
    pub fn header(&mut self) -> Result<Option<(Vec<String>, u64)>> {
        let Some(mut block) = self.next_block()? else { return Ok(None) };
        let mut at = 0;
        let mut lines = 0;
        while at < block.len && matches!(block.bytes[at], b'\n' | b'\r') {
            lines += u64::from(block.bytes[at] == b'\n');
            at += 1;
        }
        if at == block.len {
            return Ok(None);
        }
        let BlockBoundary::Records(delimiter) = self.cut else { return Ok(None) };
        let (fields, end) = record(&block.bytes[..block.len], at, delimiter)
            .map_err(|reason| Error::damaged(self.file, format!("the header: {reason}")))?;
        lines += 1 + fields.iter().map(|f| f.newlines).sum::<u64>();
        let names = fields.iter().map(|f| String::from_utf8(f.text.trim_ascii().to_vec())).collect::<Result<_, _>>();
        let mut names: Vec<String> = names.map_err(|_| Error::damaged(self.file, "the header is not UTF-8 text"))?;
        name_index_columns(&mut names);
        block.bytes.truncate(block.len);
        let mut rest = block.bytes.split_off(end);
        rest.append(&mut self.carried);
        self.carried = rest;
        Ok(Some((names, lines)))
    }
}
