//! Writes the journal: frames in files that follow each other.
//!
//! - A file begins with the producers' last numbers and describes each table before its first rows, so it can be read
//!   alone.
//! - A write that fails for lack of room is rolled back to the last whole frame; nothing of the group is stored.
//! - A frame after each sync records the sync, before any acknowledgement: after a kill, the next start knows that
//!   rows acknowledged as `disk` were synced.
//! - The catalog is written before the first batch of a file, before files are removed, and at an orderly stop.
//! - A failed sync is never retried: the state on disk is unknown, and the journal accepts nothing more.

use std::collections::HashMap;
use std::sync::Arc;

use splay_store::TableSpec;
use splay_store::storage::{Storage, StorageFile};

use super::catalog::Catalog;
use super::format::{self, JournalFrame, RowsFrame, TableLayout};
use super::reader::JournalContent;
use super::{FOLDER, JournalFile, Position, Producers, SyncListener, path};
use crate::error::{Error, Result};

/// The journal's end, where it grows.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    storage: Arc<dyn Storage>,
    file: Option<Box<dyn StorageFile>>,
    /// The contents of the file that is being written.
    current: JournalFile,
    /// Files before it, oldest first.
    older: Vec<JournalFile>,
    /// Layouts that the file has, by their numbers.
    layouts: HashMap<u32, Arc<TableSpec>>,
    /// The number of each table's layout, as long as it has the same columns.
    of_tables: HashMap<String, (u32, Arc<TableSpec>)>,
    catalog: Catalog,
    segment_bytes: u64,
    /// The last receive time.
    received: Option<i64>,
    /// Whether all batches are synced.
    is_synced: bool,
    /// Whether all bytes are: the last frame says that those before it are, and isn't synced itself.
    is_whole: bool,
    failed: Option<Error>,
    /// Who learns how far the journal is synced.
    listener: Option<Arc<dyn SyncListener>>,
}

/// Rows that shall be written.
pub(crate) struct RowsToWrite<'a> {
    pub(crate) spec: &'a Arc<TableSpec>,
    pub(crate) sequence: u64,
    pub(crate) received: i64,
    pub(crate) times: (i64, i64),
    pub(crate) producer: (&'a str, u64),
    /// Whether it counts only together with the next.
    pub(crate) is_joined: bool,
    pub(crate) rows: &'a [u8],
}

impl JournalWriter {
    /// Goes on behind the files that were found, in a new one. What a start had to mend is mended.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        content: JournalContent,
        next_sequence: u64,
        producers: &Producers,
        segment_bytes: u64,
    ) -> Result<JournalWriter> {
        let mut older = content.files;
        let current = match older.last() {
            Some(last) if last.number == content.last_number => older.pop(),
            _ => None,
        };
        let mut writer = JournalWriter {
            storage,
            file: None,
            current: current.unwrap_or_else(|| JournalFile::new(content.last_number, next_sequence)),
            older,
            layouts: HashMap::new(),
            of_tables: HashMap::new(),
            catalog: content.catalog,
            segment_bytes,
            received: content.received,
            is_synced: true,
            is_whole: true,
            failed: None,
            listener: None,
        };
        match writer.next_file(next_sequence, producers) {
            Ok(()) => {}
            // Begun with the first rows for which there is room.
            Err(Error::Full { .. }) => return Ok(writer),
            Err(error) => return Err(error),
        }
        if let Some(before) = writer.older.last() {
            let number = writer.current.number;
            writer.current.is_behind_loss = writer.catalog.losses.iter().any(|loss| loss.is_between(before, number));
        }
        Ok(writer)
    }

    /// Tells a listener from now on how far it is synced.
    pub(crate) fn tell(&mut self, listener: Arc<dyn SyncListener>) {
        self.listener = Some(listener);
        self.tell_synced();
    }

    /// All bytes so far are synced.
    fn tell_synced(&self) {
        if let Some(listener) = &self.listener
            && self.file.is_some()
        {
            listener.synced(Position { file: self.current.number, offset: self.current.bytes });
        }
    }

    /// Whether there is a file to write to; not after a start for which there was no room.
    pub(crate) fn has_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Begins the next file: with its header, the file before and the producers, all of it synced, and its name, too.
    fn next_file(&mut self, first: u64, producers: &Producers) -> Result<()> {
        self.sync_whole()?;
        // Without bytes it isn't there: it went with a start, or never was.
        let before = [Some(&self.current).filter(|file| file.bytes > 0), self.older.last()];
        let link = before.into_iter().flatten().next().map_or_else(format::PreviousFile::default, JournalFile::link);
        let number = self.current.number + 1;
        let mut next = JournalFile::new(number, first);
        let catalog =
            Catalog { newest: number, sequence: first.saturating_sub(1), is_orderly: false, ..self.catalog.clone() };
        let begun = (|| {
            let path = path(number);
            if self.storage.list(FOLDER)?.iter().any(|entry| entry.name == super::name(number)) {
                // Left by an attempt that found no room.
                self.storage.remove(&path)?;
            }
            let mut file = self.storage.create(&path)?;
            let mut bytes = format::header(number, first).to_vec();
            let mut all: Vec<(String, u64, i64)> =
                producers.iter().map(|(name, (number, at))| (name.clone(), *number, *at)).collect();
            // Files with the rows may go before this one.
            all.extend(self.received.map(|at| (String::new(), 0, at)));
            all.sort();
            format::put(&mut bytes, &JournalFrame::Link(link));
            format::put(&mut bytes, &JournalFrame::Producers(all));
            file.write(&bytes)?;
            file.sync()?;
            self.storage.sync_dir(FOLDER)?;
            next.grow(&bytes);
            let catalog = Catalog { bytes: next.bytes, ..catalog };
            catalog.store(self.storage.as_ref())?;
            Ok((file, catalog))
        })();
        let (file, catalog) = begun.map_err(|error| self.note(error))?;
        self.catalog = catalog;
        let last = std::mem::replace(&mut self.current, next);
        self.file = Some(file);
        if last.bytes > 0 {
            self.older.push(last);
        }
        self.layouts.clear();
        self.of_tables.clear();
        self.tell_synced();
        Ok(())
    }

    /// Begins the next file if this one is full. `first` is the next batch's number, `producers` the last numbers before it.
    pub(crate) fn next_file_if_full(&mut self, first: u64, producers: &Producers) -> Result<()> {
        self.check()?;
        let is_due = self.file.is_none() || self.current.bytes >= self.segment_bytes;
        if is_due { self.next_file(first, producers) } else { Ok(()) }
    }

    /// Writes a group of rows: all of them or none. They are not synced.
    pub(crate) fn write(&mut self, entries: &[RowsToWrite<'_>]) -> Result<()> {
        self.check()?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(entries.iter().map(|entry| entry.rows.len() + 128).sum());
        let mut described = Vec::new();
        let mut is_continued = false;
        for entry in entries {
            let layout = self.layout(entry.spec, &mut described, &mut bytes);
            let (sequence, received, times) = (entry.sequence, entry.received, entry.times);
            let (producer, is_joined, rows) = (entry.producer, entry.is_joined, entry.rows);
            let frame = RowsFrame { sequence, layout, received, times, producer, is_joined, is_continued, rows };
            format::put(&mut bytes, &JournalFrame::Rows(frame));
            is_continued = is_joined;
        }
        let Some(file) = &mut self.file else { return Err(Error::Closed) };
        if let Err(error) = file.write(&bytes) {
            for layout in described {
                self.layouts.remove(&layout);
            }
            self.of_tables.clear();
            return Err(self.take_back(error.into()));
        }
        (self.is_synced, self.is_whole) = (false, false);
        self.current.grow(&bytes);
        for entry in entries {
            self.current.last = entry.sequence;
            self.current.note(&entry.spec.name, entry.sequence, entry.times.1, entry.rows);
            self.received = self.received.max(Some(entry.received));
        }
        Ok(())
    }

    /// The number of a table's layout, which is described if it isn't yet.
    fn layout(&mut self, spec: &Arc<TableSpec>, described: &mut Vec<u32>, bytes: &mut Vec<u8>) -> u32 {
        let described_layout = self.of_tables.get(&spec.name).filter(|(_, described)| described == spec);
        if let Some((id, _)) = described_layout {
            return *id;
        }
        let mut id = format::layout_id(spec);
        while self.layouts.get(&id).is_some_and(|other| other != spec) {
            id = id.wrapping_add(1);
        }
        if self.layouts.insert(id, Arc::clone(spec)).is_none() {
            format::put(bytes, &JournalFrame::Layout(TableLayout { id, spec: spec.as_ref().clone() }));
            described.push(id);
        }
        self.of_tables.insert(spec.name.clone(), (id, Arc::clone(spec)));
        id
    }

    /// Cuts the file back to its whole frames after a write that failed.
    fn take_back(&mut self, error: Error) -> Error {
        self.file = None;
        match self.storage.open_append(&path(self.current.number), self.current.bytes) {
            Ok(file) => {
                self.file = Some(file);
                // Until the cut is on disk, no other file may name this length.
                self.is_whole = false;
                error
            }
            Err(worse) => self.fail(worse.to_string()),
        }
    }

    /// Makes all that was written durable, and says so in the file.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check()?;
        if self.is_synced {
            return Ok(());
        }
        self.sync_whole()?;
        self.mark();
        Ok(())
    }

    /// Makes all bytes durable.
    fn sync_whole(&mut self) -> Result<()> {
        self.check()?;
        if self.is_whole {
            return Ok(());
        }
        let Some(file) = &mut self.file else { return Err(Error::Closed) };
        if let Err(error) = file.sync() {
            return Err(self.fail(error.to_string()));
        }
        (self.is_synced, self.is_whole) = (true, true);
        self.tell_synced();
        Ok(())
    }

    /// Says that all bytes so far are synced. If there is no room for that, the next time says it.
    fn mark(&mut self) {
        let mut bytes = Vec::new();
        format::put(&mut bytes, &JournalFrame::Synced(self.current.bytes));
        let Some(file) = &mut self.file else { return };
        match file.write(&bytes) {
            Ok(()) => {
                self.is_whole = false;
                self.current.grow(&bytes);
            }
            Err(error) => drop(self.take_back(error.into())),
        }
    }

    /// Syncs and notes in the catalog that capture has ended in good order.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.sync_whole()?;
        if self.catalog.is_orderly || self.file.is_none() {
            return Ok(());
        }
        let (bytes, sequence) = (self.current.bytes, self.current.last);
        let catalog = Catalog { bytes, sequence, is_orderly: true, ..self.catalog.clone() };
        catalog.store(self.storage.as_ref()).map_err(|error| self.note(error))?;
        self.catalog = catalog;
        Ok(())
    }

    /// Whether something was written that isn't synced.
    pub(crate) fn is_behind(&self) -> bool {
        !self.is_synced
    }

    /// Removes the oldest files that are no longer needed: those whose rows are all in the tables' files, as long as more than `keep_bytes` stay.
    pub(crate) fn release(&mut self, keep_bytes: u64, is_stored: impl Fn(&str, u64, i64) -> bool) -> Result<()> {
        let mut journal_bytes: u64 = self.bytes();
        let is_free = |file: &&JournalFile| {
            let is_free = journal_bytes - file.bytes >= keep_bytes && file.is_stored(&is_stored);
            journal_bytes -= if is_free { file.bytes } else { 0 };
            is_free
        };
        let count = self.older.iter().take_while(is_free).count();
        if count == 0 {
            return self.check();
        }
        self.check()?;
        let oldest = self.older.get(count).unwrap_or(&self.current);
        let mut catalog = Catalog { oldest: oldest.number, first: oldest.first, ..self.catalog.clone() };
        catalog.forget();
        catalog.store(self.storage.as_ref()).map_err(|error| self.note(error))?;
        self.catalog = catalog;
        for _ in 0..count {
            self.storage.remove(&path(self.older[0].number))?;
            self.older.remove(0);
        }
        Ok(())
    }

    /// Length of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.current.bytes + self.older.iter().map(|file| file.bytes).sum::<u64>()
    }

    /// All files, oldest first, with how much of each is whole frames.
    pub(crate) fn files(&self) -> Vec<JournalFile> {
        self.older.iter().chain(Some(&self.current).filter(|file| file.bytes > 0)).cloned().collect()
    }

    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// A failure while a file was begun: fatal where it leaves the disk unknown.
    fn note(&mut self, error: splay_store::Error) -> Error {
        if error.leaves_disk_unknown() { self.fail(error.to_string()) } else { error.into() }
    }

    fn fail(&mut self, reason: String) -> Error {
        tracing::error!(%reason, "the journal can't be written any more");
        let error = Error::Failed { reason };
        self.failed = Some(error.clone());
        error
    }
}
