//! The journal as another process writes it: reads what was appended since the last check, without a lock and without
//! changing a byte.
//!
//! - A check lists the files and the length of the last one. If nothing was appended, nothing is read.
//! - The last file is read into memory from the end of the previous check. It isn't mapped, because the writer may
//!   truncate it (after a write that found no room, or a torn end), and a mapping would then fault. Earlier files
//!   never change; they are mapped.
//! - The last frame of the previous check is read again together with the bytes after it. If it has changed, the file
//!   was truncated and extended: its rows are discarded and the file is read anew. None of these rows had been
//!   acknowledged.
//! - Bytes after the last whole frame of the last file are still being written, unless a whole frame follows them:
//!   then bytes were changed, which is an error with its position, as is damage in any other file. Damage that a
//!   start has reported and listed in the catalog is skipped, as by that start.
//! - It is also an error if a file of the catalog is missing, isn't the file that its successor names, or is shorter
//!   than the catalog says, and if the journal is gone while tables' files have captured rows. This is checked when
//!   the list of files has changed, or one was truncated.
//! - A file that disappears during a check has all its rows in the tables' files. A reader that reads the manifests
//!   after the check misses none.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::TableSpec;
use splay_store::storage::{FileIdentity, MappedBytes, Storage};

use super::catalog::{Catalog, CatalogContent};
use super::format::{self, HEADER_BYTES, PreviousFile, RowsFrame};
use super::frame_cursor::{FrameCursor, FrameStep};
use super::loss::{JournalLoss, LossKind};
use super::reader::{damaged, numbers};
use super::{path, presence};
use crate::codec;
use crate::error::{Error, Result};

/// Most bytes over which checksums are computed in search of a complete frame after a damaged one.
const CHECKED_BYTES_MAX: usize = 1 << 30;

/// Kinds of frames are below this number.
const KINDS_END: u8 = 0x20;

/// How often a file is read again while it changes.
const TRIES: usize = 100;

/// The files, as far as they were read.
#[derive(Debug)]
pub(crate) struct TailReader {
    storage: Arc<dyn Storage>,
    files: BTreeMap<u64, TailFile>,
    /// The files that the last look saw.
    listed: Vec<u64>,
    /// The files that were there when all were that have to be.
    complete: Option<Vec<u64>>,
}

/// One file.
#[derive(Debug)]
struct TailFile {
    identity: FileIdentity,
    bytes: FileBytes,
    walk: FrameCursor,
    /// Where the frame begins that was read last; the header counts as one.
    anchor: usize,
    /// Batches that count only with others, which aren't there yet.
    joined: Vec<JournalEntry>,
    /// Number of the last batch, or the one before the first.
    last: u64,
    /// Whether all of it was read, and another file follows.
    is_done: bool,
}

/// Bytes of a file.
#[derive(Debug)]
enum FileBytes {
    Copied(Vec<u8>),
    Mapped(MappedBytes),
    /// Nobody needs them any more.
    Nothing,
}

impl FileBytes {
    fn all(&self) -> &[u8] {
        match self {
            FileBytes::Copied(bytes) => bytes,
            FileBytes::Mapped(bytes) => bytes,
            FileBytes::Nothing => &[],
        }
    }
}

/// A batch in the journal.
#[derive(Debug)]
pub(crate) struct JournalEntry {
    pub(crate) file: u64,
    pub(crate) sequence: u64,
    pub(crate) received: i64,
    /// Earliest and latest time of a row.
    pub(crate) times: (i64, i64),
    pub(crate) spec: Arc<TableSpec>,
    /// The range of its rows in the file.
    rows: Range<usize>,
}

/// A finding of a check.
pub(crate) enum TailRead {
    /// The next batch.
    Batch(JournalEntry),
    /// The batches of a file are void, or will be read again.
    Forgotten(u64),
}

impl TailReader {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> TailReader {
        TailReader { storage, files: BTreeMap::new(), listed: Vec::new(), complete: None }
    }

    /// Number of the last batch that was read.
    pub(crate) fn last(&self) -> u64 {
        self.files.values().map(|file| file.last).max().unwrap_or(0)
    }

    /// Bytes of files that are in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let copied = |file: &TailFile| if let FileBytes::Copied(bytes) = &file.bytes { bytes.len() as u64 } else { 0 };
        self.files.values().map(copied).sum()
    }

    /// Gives what has come since the last look, in its order. `captured` says whether tables' files have rows that were captured.
    pub(crate) fn look(&mut self, captured: impl FnOnce() -> bool, take: &mut dyn FnMut(TailRead)) -> Result<()> {
        self.listed = numbers(self.storage.as_ref())?;
        for place in 0..self.listed.len() {
            let number = self.listed[place];
            if !self.files.get(&number).is_some_and(|file| file.is_done) {
                self.look_at(number, place + 1 == self.listed.len(), take)?;
            }
        }
        self.check_presence(captured)
    }

    /// Fails if a file isn't there that has to be.
    fn check_presence(&mut self, captured: impl FnOnce() -> bool) -> Result<()> {
        if self.complete.as_ref() == Some(&self.listed) {
            return Ok(());
        }
        let storage = self.storage.as_ref();
        presence::check(storage)?;
        presence::check_missing_journal(storage, captured)?;
        self.complete = self.reaches_its_end()?.then(|| self.listed.clone());
        Ok(())
    }

    /// Fails if the newest file ends before the bytes that were on disk for certain. False if it has changed since it was read.
    fn reaches_its_end(&self) -> Result<bool> {
        let storage = self.storage.as_ref();
        let Some(catalog) = presence::catalog(storage)? else { return Ok(true) };
        let path = path(catalog.newest);
        let Some(file) = self.files.get(&catalog.newest) else { return Ok(true) };
        let end = file.walk.offset() as u64;
        if end >= catalog.bytes {
            return Ok(true);
        }
        // The catalog was written behind these bytes: if the file is as it was read, they were read.
        match storage.identity(&path) {
            Ok(now) if now == file.identity => {
                let (expected, found) =
                    (format!("{} bytes, as the catalog says", catalog.bytes), format!("{end} bytes"));
                Err(presence::lost(storage, &path, end, expected, found))
            }
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(false),
        }
    }

    /// Lets go of files that aren't there any more, and of the bytes of others, where no batch of them is needed.
    pub(crate) fn keep(&mut self, is_needed: impl Fn(u64) -> bool) {
        self.files.retain(|number, _| is_needed(*number) || self.listed.contains(number));
        for (number, file) in &mut self.files {
            if file.is_done && !is_needed(*number) {
                file.bytes = FileBytes::Nothing;
            }
        }
    }

    /// The rows of a batch that a look gave.
    pub(crate) fn rows(&self, entry: &JournalEntry) -> Result<RecordBatch> {
        let damage = |what: &str| damaged(self.storage.as_ref(), &path(entry.file), entry.rows.start, what);
        let file = self.files.get(&entry.file).ok_or_else(|| damage("the file that was read before"))?;
        let bytes = file.bytes.all().get(entry.rows.clone()).ok_or_else(|| damage("the rows that were read before"))?;
        let rows = codec::decode(&entry.spec, bytes);
        self.refuse_unreadable(entry.file, &file.bytes)?;
        rows.map_err(damage)
    }

    /// Zeros in the place of a page that can't be read are no bytes of the file.
    fn refuse_unreadable(&self, number: u64, bytes: &FileBytes) -> Result<()> {
        let FileBytes::Mapped(mapped) = bytes else { return Ok(()) };
        match mapped.unreadable_at().and_then(|offset| usize::try_from(offset).ok()) {
            Some(offset) => Err(damaged(self.storage.as_ref(), &path(number), offset, "a page that can be read")),
            None => Ok(()),
        }
    }

    fn look_at(&mut self, number: u64, is_last: bool, take: &mut dyn FnMut(TailRead)) -> Result<()> {
        let mut last = None;
        for _ in 0..TRIES {
            let identity = match self.storage.identity(&path(number)) {
                // It went meanwhile.
                Err(error) if error.is_not_found() => return Ok(()),
                other => other?,
            };
            if is_last && self.files.get(&number).is_some_and(|file| file.identity == identity) {
                return Ok(());
            }
            let error = match self.read(number, identity, is_last, take) {
                Err(Error::Store(error)) if error.is_not_found() => return Ok(()),
                Err(error) => error,
                Ok(()) => return Ok(()),
            };
            // The file is read again from its beginning.
            self.forget(number, take);
            // Otherwise the file was cut back, or written on, while it was read.
            if self.storage.identity(&path(number)).is_ok_and(|now| now == identity) {
                return Err(error);
            }
            last = Some(error);
        }
        last.map_or(Ok(()), Err)
    }

    fn forget(&mut self, number: u64, take: &mut dyn FnMut(TailRead)) {
        if self.files.remove(&number).is_some() {
            self.complete = None;
            take(TailRead::Forgotten(number));
        }
    }

    fn read(
        &mut self,
        number: u64,
        identity: FileIdentity,
        is_last: bool,
        take: &mut dyn FnMut(TailRead),
    ) -> Result<()> {
        let previous = self.files.get(&number);
        let end = previous.map(|file| (file.anchor, file.walk.offset()));
        let length = usize::try_from(identity.length).unwrap_or(usize::MAX);
        // Reads the last frame again, with all bytes behind it, or the whole file.
        let from = end.filter(|(_, offset)| *offset <= length).map_or(0, |(anchor, _)| anchor);
        let bytes = if is_last {
            FileBytes::Copied(self.storage.read_at(&path(number), from as u64, length - from)?)
        } else {
            FileBytes::Mapped(self.storage.map(&path(number))?)
        };
        let is_continued = previous.zip(end).is_some_and(|(file, (anchor, offset))| {
            let read = if is_last { bytes.all().get(..offset - anchor) } else { bytes.all().get(anchor..offset) };
            offset <= length && read.is_some() && read == file.bytes.all().get(anchor..offset)
        });
        if previous.is_some() && !is_continued {
            self.forget(number, take);
            // Once more from the beginning.
            return self.read(number, identity, is_last, take);
        }
        if previous.is_none() && !self.begin(number, is_last, &bytes)? {
            return Ok(());
        }
        let Some(file) = self.files.get_mut(&number) else { return Ok(()) };
        file.identity = identity;
        match (&mut file.bytes, bytes) {
            (FileBytes::Copied(before), FileBytes::Copied(more)) if from > 0 => {
                before.truncate(from);
                before.extend_from_slice(&more);
            }
            (before, bytes) => *before = bytes,
        }
        self.walk(number, is_last, take)
    }

    /// Notes a file of which nothing was read yet; false if it has no header yet.
    fn begin(&mut self, number: u64, is_last: bool, bytes: &FileBytes) -> Result<bool> {
        let damage_at = |offset, what| Err(damaged(self.storage.as_ref(), &path(number), offset, what));
        let header = format::parse_header(bytes.all());
        self.refuse_unreadable(number, bytes)?;
        let Some((version, in_file, first)) = header else {
            // One that is being begun isn't in the catalog yet.
            let is_named = presence::catalog(self.storage.as_ref())?.is_some_and(|catalog| catalog.newest >= number);
            return if is_last && !is_named { Ok(false) } else { damage_at(0, "the header of a journal file") };
        };
        if !(1..=format::VERSION).contains(&version) || in_file != number {
            return damage_at(8, "a version and number of this release");
        }
        let before = self.files.range(..number).next_back().map_or(0, |(_, file)| file.last);
        if first <= before || first == u64::MAX {
            return damage_at(20, "a first batch behind those of the files before");
        }
        let file = TailFile {
            identity: FileIdentity { volume: 0, number: 0, modified_ns: 0, length: 0 },
            bytes: FileBytes::Nothing,
            walk: FrameCursor::new(first),
            anchor: 0,
            joined: Vec::new(),
            last: first - 1,
            is_done: false,
        };
        self.files.insert(number, file);
        Ok(true)
    }

    /// Reads the frames that weren't read yet.
    fn walk(&mut self, number: u64, is_last: bool, take: &mut dyn FnMut(TailRead)) -> Result<()> {
        let storage = Arc::clone(&self.storage);
        let damage_at = |offset, what| damaged(storage.as_ref(), &path(number), offset, what);
        let Some(file) = self.files.get_mut(&number) else { return Ok(()) };
        let bytes = file.bytes.all();
        let mut before = None;
        loop {
            let offset = file.walk.offset();
            let step = file.walk.next(bytes);
            if !is_last
                && offset < bytes.len()
                && !matches!(step, Ok(Some(_)))
                && passes_loss(storage.as_ref(), number, &mut file.walk, file.last)?
            {
                file.joined.clear();
                continue;
            }
            match step.map_err(|what| damage_at(offset, what))? {
                None => break,
                Some(FrameStep::Rows(rows, spec)) => {
                    let is_joined = rows.is_joined;
                    file.last = rows.sequence;
                    file.joined.push(entry(number, bytes, &rows, spec));
                    if !is_joined {
                        file.joined.drain(..).for_each(|entry| take(TailRead::Batch(entry)));
                    }
                }
                Some(FrameStep::Link(link)) => before = Some((offset, link)),
                Some(_) => {}
            }
            file.anchor = offset;
        }
        let offset = file.walk.offset();
        let rest = bytes.get(offset..).unwrap_or_default();
        let is_sound = if is_last { !holds_a_frame(rest) } else { rest.is_empty() && file.joined.is_empty() };
        file.is_done = !is_last && is_sound;
        self.refuse_unreadable(number, &self.files[&number].bytes)?;
        if let Some((offset, link)) = before
            && !self.is_linked(link)?
        {
            return Err(damage_at(offset, "the file before to be the one that this one was written behind"));
        }
        let expected =
            if is_last { "a whole frame, as others stand behind it" } else { "whole frames up to the file's end" };
        if is_sound { Ok(()) } else { Err(damage_at(offset, expected)) }
    }
}

impl TailReader {
    /// Whether the predecessor that a file names is the file that was read before it. If a start has reported damage
    /// there, that suffices.
    fn is_linked(&self, link: PreviousFile) -> Result<bool> {
        let Some(before) = self.files.get(&link.number) else { return self.may_be_absent(link.number) };
        if !before.is_done {
            return Ok(true);
        }
        let is_same_length = before.walk.offset() as u64 == link.bytes && before.last == link.sequence;
        let is_same = match &before.bytes {
            FileBytes::Nothing => is_same_length,
            bytes => is_same_length && crc32c::crc32c(bytes.all()) == link.crc,
        };
        self.refuse_unreadable(link.number, &before.bytes)?;
        Ok(is_same || presence::is_reported(self.storage.as_ref(), link.number)?)
    }

    /// Whether a file that another one names may not be there. Where a catalog says which have to be there, that is looked at for all
    /// files together. Without one it is missing if an older one is there, since the oldest go first.
    fn may_be_absent(&self, number: u64) -> Result<bool> {
        let storage = self.storage.as_ref();
        if presence::catalog(storage)?.is_some() {
            return Ok(true);
        }
        let there = numbers(storage)?;
        Ok(there.contains(&number) || there.first().is_none_or(|first| *first >= number))
    }
}

/// Goes on behind damage at which a file is read, if a start has listed it in the catalog. `last` is the number of the batch before.
pub(super) fn passes_loss(storage: &dyn Storage, number: u64, walk: &mut FrameCursor, last: u64) -> Result<bool> {
    let CatalogContent::Sound(catalog) = Catalog::load(storage)? else { return Ok(false) };
    let offset = walk.offset() as u64;
    let is_it = |loss: &&JournalLoss| {
        let is_here = (loss.bytes.0..loss.bytes.1).contains(&offset);
        loss.kind == LossKind::Damaged && loss.files == (number, number) && is_here
    };
    let Some(loss) = catalog.losses.iter().find(is_it) else { return Ok(false) };
    // Tables whose description may be lost.
    for (_, spec) in catalog.layouts.iter().filter(|(from, _)| *from <= number) {
        walk.learn(format::layout_id(spec), Arc::new(spec.clone()));
    }
    let next = loss.sequences.and_then(|(_, last)| last).unwrap_or(last).saturating_add(1);
    walk.resume(usize::try_from(loss.bytes.1).unwrap_or(usize::MAX), next, true);
    Ok(true)
}

/// A frame's batch, with the range of its rows in the bytes of its file.
fn entry(file: u64, bytes: &[u8], frame: &RowsFrame<'_>, spec: Arc<TableSpec>) -> JournalEntry {
    // The rows are a slice of the bytes.
    let start = frame.rows.as_ptr().addr() - bytes.as_ptr().addr();
    debug_assert!(start >= HEADER_BYTES);
    let rows = start..start + frame.rows.len();
    JournalEntry { file, sequence: frame.sequence, received: frame.received, times: frame.times, spec, rows }
}

/// Whether a complete frame follows a damaged one: where the damaged one says that it ends, or at any byte. The search is bounded, because
/// any bytes may look like a length, and each costs a checksum over that many bytes. A start makes the same test.
pub(crate) fn holds_a_frame(rest: &[u8]) -> bool {
    let behind = format::length(rest).and_then(|length| rest.get(format::FRAME_HEADER_BYTES + length..));
    if behind.is_some_and(|behind| format::content(behind).is_some()) {
        return true;
    }
    let mut checksum_budget = CHECKED_BYTES_MAX;
    for at in 1..rest.len() {
        let Some(length) = format::length(&rest[at..]) else { continue };
        // No kind of frame.
        if !(1..KINDS_END).contains(&rest[at + format::FRAME_HEADER_BYTES]) {
            continue;
        }
        if format::content(&rest[at..]).is_some() {
            return true;
        }
        match checksum_budget.checked_sub(length) {
            Some(less) => checksum_budget = less,
            None => return false,
        }
    }
    false
}
