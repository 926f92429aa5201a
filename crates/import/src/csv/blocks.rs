//! Blocks of whole records, cut from a stream.

use std::io::Read;

use super::fields::{last_record_end, record};
use super::parse::PADDING;
use crate::decompress::Stream;
use crate::error::{Error, Result};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 4 << 20;

/// Longest record.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A piece of a file that holds whole records: `len` bytes, then padding.
#[derive(Debug)]
pub(crate) struct TextBlock {
    pub bytes: Vec<u8>,
    pub len: usize,
}

/// Cuts a stream into blocks.
pub(crate) struct Blocks<'a> {
    stream: &'a mut Stream,
    file: &'a str,
    delimiter: u8,
    block_bytes: usize,
    carried: Vec<u8>,
    at_end: bool,
}

impl<'a> Blocks<'a> {
    /// Skips a byte order mark.
    pub fn new(stream: &'a mut Stream, file: &'a str, delimiter: u8, block_bytes: usize) -> Result<Blocks<'a>> {
        let mut blocks = Blocks { stream, file, delimiter, block_bytes, carried: Vec::new(), at_end: false };
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
                let wanted = target - bytes.len();
                bytes.reserve(wanted + PADDING + 1);
                let got = self.stream.by_ref().take(wanted as u64).read_to_end(&mut bytes);
                self.at_end = got.map_err(|e| crate::decompress::damaged(self.file, &e))? < wanted;
            }
            if self.at_end {
                if bytes.is_empty() {
                    return Ok(None);
                }
                if bytes.last() != Some(&b'\n') {
                    bytes.push(b'\n');
                }
                return Ok(Some(pad(bytes)));
            }
            let end = last_record_end(&bytes, self.delimiter);
            if end > 0 {
                self.carried.extend_from_slice(&bytes[end..]);
                bytes.truncate(end);
                return Ok(Some(pad(bytes)));
            }
            if bytes.len() > RECORD_BYTES_MAX {
                return Err(Error::damaged(self.file, "a record is longer than 64 MiB; is a quote left open?"));
            }
            target = bytes.len() * 2;
        }
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
        let (fields, end) = record(&block.bytes[..block.len], at, self.delimiter)
            .map_err(|reason| Error::damaged(self.file, format!("the header: {reason}")))?;
        lines += 1 + fields.iter().map(|f| f.newlines).sum::<u64>();
        let names = fields.iter().map(|f| String::from_utf8(f.text.trim_ascii().to_vec())).collect::<Result<_, _>>();
        let names = names.map_err(|_| Error::damaged(self.file, "the header is not UTF-8 text"))?;
        block.bytes.truncate(block.len);
        let mut rest = block.bytes.split_off(end);
        rest.append(&mut self.carried);
        self.carried = rest;
        Ok(Some((names, lines)))
    }
}

fn pad(mut bytes: Vec<u8>) -> TextBlock {
    let len = bytes.len();
    bytes.resize(len + PADDING, 0);
    TextBlock { bytes, len }
}
