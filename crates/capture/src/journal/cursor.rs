//! Reads batches from the journal one by one, for subscribers that missed some and for replays.
//!
//! - One file is open at a time; it is mapped, except the last, which may grow and is read.
//! - The batches of one message are returned once all of them are there.
//! - A file that was removed meanwhile is [`Error::Gone`], damage is [`Error::Damaged`]: nothing is skipped.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use splay_store::storage::Storage;

use super::format::{self, HEADER_BYTES};
use super::frame_cursor::{FrameCursor, FrameStep};
use super::reader::{JournalBatch, batch, damaged, numbers};
use super::scan::DamagedBytes;
use super::{JournalFile, path};
use crate::error::{Error, Result};

/// A place in the journal.
#[derive(Debug)]
pub(crate) struct JournalCursor {
    storage: Arc<dyn Storage>,
    /// Files to come.
    files: VecDeque<FileExtent>,
    open: Option<OpenJournalFile>,
    /// Whole batches that come next.
    ready: VecDeque<JournalBatch>,
    /// Batches behind this number are wanted.
    after: u64,
}

/// The part of a file that is to be read.
#[derive(Debug)]
struct FileExtent {
    number: u64,
    /// Its whole frames, if that is known; else all up to where the first stands that isn't whole.
    bytes: Option<u64>,
    /// Number of its first batch, if that is known; else its header says it.
    first: Option<u64>,
    /// Whether batches are lost before it.
    is_behind_loss: bool,
    /// The damaged ranges that the start skipped.
    damage: VecDeque<DamagedBytes>,
    is_last: bool,
}

/// A file that is being read.
#[derive(Debug)]
struct OpenJournalFile {
    path: String,
    bytes: Bytes,
    walk: FrameCursor,
    may_be_torn: bool,
    damage: VecDeque<DamagedBytes>,
    joined: Vec<JournalBatch>,
}

impl JournalCursor {
    /// Reads the batches after a number from files that this process writes, up to their present end.
    pub(crate) fn new(storage: Arc<dyn Storage>, files: &[JournalFile], after: u64) -> JournalCursor {
        // Files whose successor begins at or before the first wanted batch have none of them.
        let skipped = files.windows(2).take_while(|pair| pair[1].first <= after.saturating_add(1)).count();
        let remaining = &files[skipped..];
        let extent = |(place, file): (usize, &JournalFile)| FileExtent {
            number: file.number,
            bytes: Some(file.bytes),
            first: Some(file.first),
            is_behind_loss: file.is_behind_loss,
            damage: file.damage.iter().cloned().collect(),
            is_last: place + 1 == remaining.len(),
        };
        let files = remaining.iter().enumerate().map(extent).collect();
        JournalCursor { storage, files, open: None, ready: VecDeque::new(), after }
    }

    /// Batches behind a number, in files that perhaps another process writes. Also gives the first number that they may hold.
    pub(crate) fn over_all(storage: Arc<dyn Storage>, after: u64) -> Result<(JournalCursor, u64)> {
        let numbers = numbers(storage.as_ref())?;
        let mut first = 0;
        if let Some(oldest) = numbers.first() {
            let header = storage.read_at(&path(*oldest), 0, HEADER_BYTES)?;
            first = format::parse_header(&header).map_or(0, |(_, _, first)| first);
        }
        let extent = |(place, number): (usize, &u64)| FileExtent {
            number: *number,
            bytes: None,
            first: None,
            is_behind_loss: false,
            damage: VecDeque::new(),
            is_last: place + 1 == numbers.len(),
        };
        let files = numbers.iter().enumerate().map(extent).collect();
        Ok((JournalCursor { storage, files, open: None, ready: VecDeque::new(), after }, first))
    }

    /// The next batch of a table that is wanted; `None` at the end.
    pub(crate) fn next(&mut self, wants: impl Fn(&str) -> bool) -> Result<Option<JournalBatch>> {
        loop {
            while let Some(batch) = self.ready.pop_front() {
                if batch.sequence > self.after && wants(&batch.spec.name) {
                    self.after = batch.sequence;
                    return Ok(Some(batch));
                }
            }
            let Some(open) = &mut self.open else {
                let Some(file) = self.files.pop_front() else { return Ok(None) };
                self.open = Some(self.begin(file)?);
                continue;
            };
            if !open.step(self.storage.as_ref(), self.after, &wants, &mut self.ready)? {
                self.open = None;
            }
        }
    }

    fn begin(&self, file: FileExtent) -> Result<OpenJournalFile> {
        let path = path(file.number);
        let read = match file.bytes {
            Some(bytes) if file.is_last => {
                self.storage.read_at(&path, 0, usize::try_from(bytes).unwrap_or(usize::MAX)).map(Bytes::from)
            }
            None if file.is_last => self.storage.read(&path).map(Bytes::from),
            _ => self.storage.map(&path).map(|mapped| mapped.bytes().clone()),
        };
        let mut bytes = match read {
            Err(error) if error.is_not_found() => {
                return Err(Error::Gone {
                    table: String::new(),
                    after: self.after,
                    oldest: self.after.saturating_add(1),
                });
            }
            other => other?,
        };
        if let Some(length) = file.bytes.and_then(|length| usize::try_from(length).ok()) {
            if bytes.len() < length {
                return Err(damaged(self.storage.as_ref(), &path, bytes.len(), "a file as long as it was written"));
            }
            bytes.truncate(length);
        }
        let may_be_torn = file.bytes.is_none() && file.is_last;
        let first = match (file.first, format::parse_header(&bytes)) {
            // A start has read it, whatever its header says.
            (Some(first), _) | (None, Some((_, _, first))) => first,
            (None, None) if may_be_torn => 0,
            (None, None) => return Err(damaged(self.storage.as_ref(), &path, 0, "the header of a journal file")),
        };
        if file.is_behind_loss && self.after.saturating_add(1) < first {
            return Err(damaged(
                self.storage.as_ref(),
                &path,
                0,
                "the batches before it, which a start reported as lost",
            ));
        }
        let damage = file.damage;
        Ok(OpenJournalFile { path, bytes, walk: FrameCursor::new(first), may_be_torn, damage, joined: Vec::new() })
    }
}

impl OpenJournalFile {
    /// Reads a frame; false at the end of the file.
    fn step(
        &mut self,
        storage: &dyn Storage,
        after: u64,
        wants: &impl Fn(&str) -> bool,
        ready: &mut VecDeque<JournalBatch>,
    ) -> Result<bool> {
        let offset = self.walk.offset();
        let damage_error = |what: &str| damaged(storage, &self.path, offset, what);
        if let Some(damage) = self.damage.pop_front_if(|damage| damage.range.start == offset) {
            // A reader that already has all the lost batches misses nothing.
            if after.saturating_add(1) < damage.sequences.end && !damage.sequences.is_empty() {
                return Err(damage_error("the batches that a start reported as lost"));
            }
            self.walk.resume(damage.range.end, damage.sequences.end, damage.has_producers);
            damage.layouts.into_iter().for_each(|(id, spec)| self.walk.learn(id, spec));
            return Ok(true);
        }
        match self.walk.next(&self.bytes).map_err(damage_error)? {
            Some(FrameStep::Rows(rows, spec)) => {
                if rows.sequence > after && wants(&spec.name) {
                    self.joined.push(batch(&rows, &spec).map_err(damage_error)?);
                }
                if !rows.is_joined {
                    ready.extend(self.joined.drain(..));
                }
            }
            Some(_) => {}
            None if offset >= self.bytes.len() || self.may_be_torn => return Ok(false),
            None => return Err(damage_error("whole frames up to the file's end")),
        }
        Ok(true)
    }
}

/// Gives all batches of files behind a number to `take`.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read(
    storage: Arc<dyn Storage>,
    files: &[JournalFile],
    after: u64,
    mut take: impl FnMut(JournalBatch) -> Result<()>,
) -> Result<()> {
    let mut cursor = JournalCursor::new(storage, files, after);
    while let Some(batch) = cursor.next(|_| true)? {
        take(batch)?;
    }
    Ok(())
}
