//! The frames of one journal file in sequence, and the rules for their order.
//!
//! - From version 3 on a file first names the previous file. Then it lists the producers, once.
//! - A layout is described once, before its first rows.
//! - Batch numbers ascend by one, beginning with the number in the file's header. A repeated frame, or one that is
//!   missing before others, is damage that no checksum detects.

use std::collections::HashMap;
use std::sync::Arc;

use splay_store::TableSpec;

use super::format::{self, HEADER_BYTES, JournalFrame, PreviousFile, RowsFrame};

/// Where the frames of a file are being read.
#[derive(Debug, Clone)]
pub(super) struct FrameCursor {
    offset: usize,
    has_producers: bool,
    layouts: HashMap<u32, Arc<TableSpec>>,
    next_sequence: u64,
}

/// The outcome of reading a frame.
pub(super) enum FrameStep<'a> {
    /// Another layout was described.
    Layout,
    /// The file before this one.
    Link(PreviousFile),
    /// The number of bytes of the file that were synced before this frame was written.
    Synced(u64),
    /// All producers that were known when the file was begun.
    Producers(Vec<(String, u64, i64)>),
    /// A batch, of this table.
    Rows(RowsFrame<'a>, Arc<TableSpec>),
}

impl FrameCursor {
    /// From the first frame of a file. `first` is the number of the first batch that its header says it may hold.
    pub(super) fn new(first: u64) -> FrameCursor {
        FrameCursor { offset: HEADER_BYTES, has_producers: false, layouts: HashMap::new(), next_sequence: first }
    }

    /// Where the next frame begins; after the last one, where sound frames end.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Goes on at a sound frame behind damage; the next batch has this number. `has_producers` says whether theirs is behind it already.
    pub(super) fn resume(&mut self, offset: usize, next_sequence: u64, has_producers: bool) {
        (self.offset, self.next_sequence) = (offset, next_sequence);
        self.has_producers |= has_producers;
    }

    pub(super) fn has_producers(&self) -> bool {
        self.has_producers
    }

    /// The tables of layouts that were described there or found earlier.
    pub(super) fn layouts(&self) -> &HashMap<u32, Arc<TableSpec>> {
        &self.layouts
    }

    /// Takes a layout from elsewhere that damage has taken from here.
    pub(super) fn learn(&mut self, id: u32, spec: Arc<TableSpec>) {
        self.layouts.entry(id).or_insert(spec);
    }

    /// The next frame of the file, whose bytes these are; `None` where no sound one stands.
    ///
    /// # Errors
    /// What was expected at [`FrameCursor::offset`], if the frame there is sound in itself but can't have been written
    /// at this place.
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<FrameStep<'a>>, &'static str> {
        let Some((content, length)) = bytes.get(self.offset..).and_then(format::content) else { return Ok(None) };
        let step = match format::parse(content) {
            None => return Err("a frame of this release"),
            Some(JournalFrame::Link(link)) if self.offset == HEADER_BYTES => FrameStep::Link(link),
            Some(JournalFrame::Link(_)) => return Err("the name of the previous file only at the file's beginning"),
            Some(JournalFrame::Producers(_)) if self.has_producers => return Err("the list of producers only once"),
            Some(JournalFrame::Producers(producers)) => {
                self.has_producers = true;
                FrameStep::Producers(producers)
            }
            Some(_) if !self.has_producers => return Err("the list of producers before other frames"),
            Some(JournalFrame::Synced(synced)) => {
                if synced > self.offset as u64 {
                    return Err("a synced length within the bytes before it");
                }
                FrameStep::Synced(synced)
            }
            Some(JournalFrame::Layout(layout)) => {
                if self.layouts.insert(layout.id, Arc::new(layout.spec)).is_some() {
                    return Err("each layout only once");
                }
                FrameStep::Layout
            }
            Some(JournalFrame::Rows(rows)) => {
                let spec = self.layouts.get(&rows.layout).ok_or("rows of a layout that was described before")?;
                if rows.sequence != self.next_sequence {
                    return Err("the batch with the next number");
                }
                self.next_sequence = rows.sequence.checked_add(1).ok_or("a batch number below the largest one")?;
                FrameStep::Rows(rows, Arc::clone(spec))
            }
        };
        self.offset += length;
        Ok(Some(step))
    }
}
