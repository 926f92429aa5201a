//! A column of few distinct texts: a dictionary that grows with the batch.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Codes of rows, and the texts of the codes.
#[derive(Debug, Default)]
pub(super) struct LineSymbols {
    pub codes: Vec<i32>,
    /// Where each text ends in `bytes`, behind a zero.
    pub offsets: Vec<i32>,
    pub bytes: Vec<u8>,
    table: HashTable<i32>,
    hasher: DefaultHashBuilder,
    last: i32,
    /// The row that brought the last text, unless that text was cut off again.
    fresh: Option<usize>,
}

impl LineSymbols {
    pub fn new() -> LineSymbols {
        LineSymbols { offsets: vec![0], last: -1, ..LineSymbols::default() }
    }

    /// Adds a row. `false` if the text isn't UTF-8; nothing is added then.
    #[inline(always)]
    pub fn push(&mut self, text: &[u8]) -> bool {
        // Feeds come in runs of one symbol.
        if text_of(&self.offsets, &self.bytes, self.last) != Some(text) {
            match self.code(text) {
                Some(code) => self.last = code,
                None => return false,
            }
        }
        self.codes.push(self.last);
        true
    }

    /// Cuts the column to a number of rows, at most one less than it has, with the text that only the row cut off had; or
    /// fills it up to that number.
    pub fn resize(&mut self, rows: usize) {
        let cut = rows < self.codes.len();
        self.codes.resize(rows, 0);
        if !cut || self.fresh.is_none_or(|row| row < rows) || self.offsets.len() < 2 {
            return;
        }
        self.fresh = None;
        let LineSymbols { offsets, bytes, table, hasher, .. } = self;
        let Ok(code) = i32::try_from(offsets.len() - 2) else { return };
        let hash = hasher.hash_one(text_of(offsets, bytes, code).unwrap_or_default());
        if let Ok(entry) = table.find_entry(hash, |&other| other == code) {
            entry.remove();
            offsets.pop();
            bytes.truncate(offsets.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or(0));
        }
        self.last = -1;
    }

    #[inline]
    fn code(&mut self, text: &[u8]) -> Option<i32> {
        let LineSymbols { codes, offsets, bytes, table, hasher, .. } = self;
        let hash = hasher.hash_one(text);
        if let Some(&code) = table.find(hash, |&code| text_of(offsets, bytes, code) == Some(text)) {
            return Some(code);
        }
        std::str::from_utf8(text).ok()?;
        // The batch's limits keep both numbers far below 31 bits.
        let code = i32::try_from(offsets.len() - 1).ok()?;
        let end = i32::try_from(bytes.len() + text.len()).ok()?;
        bytes.extend_from_slice(text);
        offsets.push(end);
        self.fresh = Some(codes.len());
        table.insert_unique(hash, code, |&code| hasher.hash_one(text_of(offsets, bytes, code).unwrap_or_default()));
        Some(code)
    }
}

/// The text of a code, or `None` for a code that isn't one.
#[inline(always)]
fn text_of<'a>(offsets: &[i32], bytes: &'a [u8], code: i32) -> Option<&'a [u8]> {
    let code = usize::try_from(code).ok()?;
    let from = usize::try_from(*offsets.get(code)?).ok()?;
    let to = usize::try_from(*offsets.get(code + 1)?).ok()?;
    bytes.get(from..to)
}
