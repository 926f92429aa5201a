//! Reads a journal file past its damage: returns whole messages, and the damaged ranges between them.
//!
//! The next sound frame after a broken one is searched first where the broken one ends by its own length, which text
//! in its rows can't imitate, then at every byte. A frame counts if its checksum is right, its batch's number is
//! higher than the last one's, and its table has a layout. The parts of a message count only together.
//!
//! Cost: each byte is read once. Checksums after damage cover at most [`CHECKED_FILES_MAX`] times the file's length,
//! whatever lengths its bytes claim.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use splay_store::TableSpec;

use super::format::{self, FRAME_HEADER_BYTES, JournalFrame, LINKED, RowsFrame};
use super::frame_cursor::{FrameCursor, FrameStep};

/// How many times a file's length is summed up at most while sound frames are looked for behind damage.
const CHECKED_FILES_MAX: usize = 4;

/// The least that is summed up, of files that are short.
const CHECKED_BYTES_MIN: usize = 1 << 20;

/// Tables by the numbers of their layouts, which are the same in all files from version 3 on.
pub(super) type Layouts = HashMap<u32, Arc<TableSpec>>;

/// Layouts that are known from elsewhere than the file that is read.
pub(super) struct OtherLayouts<'a> {
    /// From files before it, and from the catalog.
    pub(super) earlier: Layouts,
    /// The tables that there are, which are looked at once one is needed.
    tables: &'a dyn Fn() -> Vec<TableSpec>,
    of_tables: OnceCell<Layouts>,
}

impl<'a> OtherLayouts<'a> {
    pub(super) fn new(tables: &'a dyn Fn() -> Vec<TableSpec>) -> OtherLayouts<'a> {
        OtherLayouts { earlier: Layouts::new(), tables, of_tables: OnceCell::new() }
    }

    fn get(&self, id: u32) -> Option<&Arc<TableSpec>> {
        let of_tables = || by_id((self.tables)());
        self.earlier.get(&id).or_else(|| self.of_tables.get_or_init(of_tables).get(&id))
    }
}

/// Tables by the numbers of their layouts.
fn by_id(tables: Vec<TableSpec>) -> Layouts {
    tables.into_iter().map(|spec| (format::layout_id(&spec), Arc::new(spec))).collect()
}

/// A part of a file.
#[derive(Debug)]
pub(super) enum FilePart<'a> {
    /// Frames between batches.
    Other,
    /// All producers that were known when the file was begun.
    Producers(Vec<(String, u64, i64)>),
    /// A batch, or several that belong together.
    Message(Range<usize>, Vec<(RowsFrame<'a>, Arc<TableSpec>)>),
    /// Sound frames follow behind it.
    Damage(DamagedBytes),
    /// No sound frame follows. Here whole messages end, which is the file's end if all is well.
    End(usize),
}

/// Bytes that count for nothing, with sound frames behind them.
#[derive(Debug, Clone)]
pub(super) struct DamagedBytes {
    pub(super) range: Range<usize>,
    /// The number that the next batch would have, and the one that it has.
    pub(super) sequences: Range<u64>,
    /// Whether the file has the producers' frame.
    pub(super) has_producers: bool,
    /// Layouts that are known after it.
    pub(super) layouts: Layouts,
}

/// A place in a file.
#[derive(Clone)]
pub(super) struct JournalScan<'a> {
    bytes: &'a [u8],
    is_linked: bool,
    walk: FrameCursor,
    joined: Vec<(RowsFrame<'a>, Arc<TableSpec>)>,
    /// Where the message begins whose last part hasn't come.
    open: Option<usize>,
    /// Number behind the last message.
    next_sequence: u64,
    layouts: &'a OtherLayouts<'a>,
    /// The layouts that frames of the file have needed.
    needed: Layouts,
    /// Bytes that may still be summed up.
    checksum_budget: usize,
    ended: Option<usize>,
    synced: u64,
}

impl<'a> JournalScan<'a> {
    /// A scan of a file with this version and first number in its header. `layouts` are those that other files describe.
    pub(super) fn new(bytes: &'a [u8], version: u32, first: u64, layouts: &'a OtherLayouts<'a>) -> JournalScan<'a> {
        JournalScan {
            bytes,
            is_linked: version >= LINKED,
            walk: FrameCursor::new(first),
            joined: Vec::new(),
            open: None,
            next_sequence: first,
            layouts,
            needed: Layouts::new(),
            checksum_budget: bytes.len().saturating_mul(CHECKED_FILES_MAX).max(CHECKED_BYTES_MIN),
            ended: None,
            synced: 0,
        }
    }

    /// How many of the file's bytes were certainly synced, by the frames read so far.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// The layouts that were described so far, and those that were needed from elsewhere.
    pub(super) fn into_layouts(self) -> (Layouts, Layouts) {
        (self.walk.layouts().clone(), self.needed)
    }

    /// The next part; the end again and again once it was reached.
    pub(super) fn next(&mut self) -> FilePart<'a> {
        loop {
            if let Some(end) = self.ended {
                return FilePart::End(end);
            }
            let offset = self.walk.offset();
            let step = self.walk.next(self.bytes);
            let has_open = self.open.is_some();
            match step {
                Ok(Some(FrameStep::Rows(rows, _))) if self.is_linked && rows.is_continued != has_open => {
                    return self.pass_over(offset);
                }
                Ok(Some(FrameStep::Rows(rows, spec))) => {
                    let (is_joined, sequence) = (rows.is_joined, rows.sequence);
                    self.joined.push((rows, spec));
                    if is_joined {
                        self.open.get_or_insert(offset);
                        continue;
                    }
                    let start = self.open.take().unwrap_or(offset);
                    self.next_sequence = sequence.saturating_add(1);
                    return FilePart::Message(start..self.walk.offset(), std::mem::take(&mut self.joined));
                }
                Ok(Some(FrameStep::Layout | FrameStep::Link(_))) => return FilePart::Other,
                Ok(Some(FrameStep::Synced(synced))) => {
                    self.synced = self.synced.max(synced);
                    return FilePart::Other;
                }
                Ok(Some(FrameStep::Producers(producers))) => return FilePart::Producers(producers),
                Ok(None) if offset >= self.bytes.len() => {
                    let end = self.open.unwrap_or(self.bytes.len());
                    self.ended = Some(end);
                }
                Ok(None) | Err(_) => return self.pass_over(offset),
            }
        }
    }

    /// Goes on behind what is damaged at an offset.
    fn pass_over(&mut self, offset: usize) -> FilePart<'a> {
        let start = self.open.take().unwrap_or(offset);
        self.joined.clear();
        let Some((end, behind)) = self.find(offset) else {
            self.ended = Some(start);
            return FilePart::End(start);
        };
        let sequences = self.next_sequence..behind.unwrap_or(self.next_sequence);
        self.walk.resume(end, sequences.end, behind.is_some());
        self.next_sequence = sequences.end;
        let has_producers = self.walk.has_producers();
        let layouts = self.walk.layouts().clone();
        FilePart::Damage(DamagedBytes { range: start..end, sequences, has_producers, layouts })
    }

    /// The place of the first frame behind or at an offset with which the file can be read on, and its number if it is a batch.
    fn find(&mut self, offset: usize) -> Option<(usize, Option<u64>)> {
        let mut at = offset;
        loop {
            let rest = self.bytes.get(at..)?;
            let length = format::length(rest);
            if let Some((content, length)) = format::content(rest) {
                if let Some(behind) = self.may_go_on(at, content) {
                    return Some((at, behind));
                }
                at += length;
                continue;
            }
            let end = length.map(|length| at + FRAME_HEADER_BYTES + length);
            match end {
                Some(end) if end == self.bytes.len() => return None,
                Some(end) if self.is_frame(end) => at = end,
                _ => at = self.search(at + 1)?,
            }
        }
    }

    /// Whether a sound frame that may stand there begins at an offset.
    fn is_frame(&mut self, at: usize) -> bool {
        let Some(rest) = self.bytes.get(at..) else { return false };
        let Some(length) = format::plausible(rest, self.next_sequence.saturating_sub(1)) else { return false };
        let Some(remaining) = self.checksum_budget.checked_sub(length) else { return false };
        self.checksum_budget = remaining;
        format::content(rest).is_some()
    }

    /// The first place from an offset on where such a frame begins.
    fn search(&mut self, from: usize) -> Option<usize> {
        (from..self.bytes.len()).find(|at| self.is_frame(*at))
    }

    /// Whether the file can be read on from a sound frame, and its number if it is a batch. Learns the layouts of those that are
    /// passed over.
    fn may_go_on(&mut self, at: usize, content: &[u8]) -> Option<Option<u64>> {
        match format::parse(content)? {
            JournalFrame::Producers(_) => (!self.walk.has_producers()).then_some(None),
            JournalFrame::Layout(layout) => {
                self.walk.learn(layout.id, Arc::new(layout.spec));
                None
            }
            JournalFrame::Rows(rows) => {
                if rows.is_continued || !format::may_follow(rows.sequence, self.next_sequence.saturating_sub(1)) {
                    return None;
                }
                if !self.walk.layouts().contains_key(&rows.layout) {
                    let spec = self.layouts.get(rows.layout).filter(|_| self.is_linked)?;
                    self.walk.learn(rows.layout, Arc::clone(spec));
                    self.needed.insert(rows.layout, Arc::clone(spec));
                }
                Some(Some(rows.sequence))
            }
            JournalFrame::Synced(synced) => {
                self.synced = self.synced.max(if synced <= at as u64 { synced } else { 0 });
                None
            }
            JournalFrame::Link(_) => None,
        }
    }
}
