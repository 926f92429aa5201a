//! Writes the journal: frames behind each other, in files that follow each other.
//!
//! - A file begins with the producers' last numbers and describes each table before its first rows, so that it is read alone.
//! - A write that fails for lack of room is taken back to the last whole frame; nothing of the group was kept.
//! - A sync that fails is never repeated: what is on disk is unknown, and the journal takes nothing more.

use std::collections::HashMap;
use std::sync::Arc;

use splay_store::TableSpec;
use splay_store::storage::{Storage, StorageFile};

use super::format::{self, Frame, Layout, RowsFrame};
use super::{FOLDER, JournalFile, Producers, path};
use crate::error::{Error, Result};

/// The journal's end, where it grows.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    storage: Arc<dyn Storage>,
    file: Option<Box<dyn StorageFile>>,
    /// What the file being written holds.
    current: JournalFile,
    /// Files before it, oldest first.
    older: Vec<JournalFile>,
    /// Layouts that the file has, by table.
    layouts: HashMap<String, (u32, Arc<TableSpec>)>,
    segment_bytes: u64,
    is_synced: bool,
    failed: Option<Error>,
}

/// Rows that shall be written.
pub(crate) struct Entry<'a> {
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
    /// Goes on behind the files that were found, in a new one.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        older: Vec<JournalFile>,
        next_sequence: u64,
        producers: &Producers,
        segment_bytes: u64,
    ) -> Result<JournalWriter> {
        let number = older.iter().map(|file| file.number).max().unwrap_or(0);
        let mut writer = JournalWriter {
            storage,
            file: None,
            current: JournalFile::new(number, next_sequence),
            older,
            layouts: HashMap::new(),
            segment_bytes,
            is_synced: true,
            failed: None,
        };
        writer.next_file(next_sequence, producers)?;
        Ok(writer)
    }

    /// Begins the next file: with its header and the producers, all of it synced, and its name, too.
    fn next_file(&mut self, first: u64, producers: &Producers) -> Result<()> {
        self.sync()?;
        let number = self.current.number + 1;
        let path = path(number);
        let begun = (|| {
            if self.storage.list(FOLDER)?.iter().any(|entry| entry.name == super::name(number)) {
                // Left by an attempt that found no room.
                self.storage.remove(&path)?;
            }
            let mut file = self.storage.create(&path)?;
            let mut bytes = format::header(number, first).to_vec();
            let mut all: Vec<(String, u64, i64)> =
                producers.iter().map(|(name, (number, at))| (name.clone(), *number, *at)).collect();
            all.sort();
            format::put(&mut bytes, &Frame::Producers(all));
            file.write(&bytes)?;
            file.sync()?;
            self.storage.sync_dir(FOLDER)?;
            Ok((file, bytes.len() as u64))
        })();
        let (file, bytes) = begun.map_err(|error| self.note(error))?;
        let mut next = JournalFile::new(number, first);
        next.bytes = bytes;
        let last = std::mem::replace(&mut self.current, next);
        if self.file.replace(file).is_some() {
            self.older.push(last);
        }
        self.layouts.clear();
        Ok(())
    }

    /// Begins the next file if this one is full. `first` is the next batch's number, `producers` the last numbers before it.
    pub(crate) fn next_file_if_full(&mut self, first: u64, producers: &Producers) -> Result<()> {
        self.check()?;
        if self.current.bytes >= self.segment_bytes { self.next_file(first, producers) } else { Ok(()) }
    }

    /// Writes a group of rows: all of them or none. They are not synced.
    pub(crate) fn write(&mut self, entries: &[Entry<'_>]) -> Result<()> {
        self.check()?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(entries.iter().map(|entry| entry.rows.len() + 128).sum());
        let mut described = Vec::new();
        for entry in entries {
            let known = self.layouts.get(&entry.spec.name).filter(|(_, spec)| spec == entry.spec);
            let layout = match known {
                Some((layout, _)) => *layout,
                None => {
                    let id = self.current.layouts + u32::try_from(described.len()).unwrap_or(u32::MAX);
                    format::put(&mut bytes, &Frame::Layout(Layout { id, spec: entry.spec.as_ref().clone() }));
                    let before = self.layouts.insert(entry.spec.name.clone(), (id, Arc::clone(entry.spec)));
                    described.push((entry.spec.name.clone(), before));
                    id
                }
            };
            let (sequence, received, times) = (entry.sequence, entry.received, entry.times);
            let (producer, is_joined, rows) = (entry.producer, entry.is_joined, entry.rows);
            let frame = RowsFrame { sequence, layout, received, times, producer, is_joined, rows };
            format::put(&mut bytes, &Frame::Rows(frame));
        }
        let Some(file) = &mut self.file else { return Err(Error::Closed) };
        if let Err(error) = file.write(&bytes) {
            for (table, before) in described.into_iter().rev() {
                match before {
                    Some(before) => self.layouts.insert(table, before),
                    None => self.layouts.remove(&table),
                };
            }
            return Err(self.take_back(error.into()));
        }
        self.is_synced = false;
        self.current.layouts += u32::try_from(described.len()).unwrap_or(u32::MAX);
        self.current.bytes += bytes.len() as u64;
        for entry in entries {
            self.current.note(&entry.spec.name, entry.sequence, entry.times.1);
        }
        Ok(())
    }

    /// Cuts the file back to its whole frames after a write that failed.
    fn take_back(&mut self, error: Error) -> Error {
        self.file = None;
        match self.storage.open_append(&path(self.current.number), self.current.bytes) {
            Ok(file) => {
                self.file = Some(file);
                error
            }
            Err(worse) => self.fail(worse.to_string()),
        }
    }

    /// Makes all that was written durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check()?;
        if self.is_synced {
            return Ok(());
        }
        let Some(file) = &mut self.file else { return Err(Error::Closed) };
        if let Err(error) = file.sync() {
            return Err(self.fail(error.to_string()));
        }
        self.is_synced = true;
        Ok(())
    }

    /// Whether something was written that isn't synced.
    pub(crate) fn is_behind(&self) -> bool {
        !self.is_synced
    }

    /// Removes the oldest files that nobody needs: those whose rows are all in the tables' files, as far as more than
    /// `keep_bytes` stay.
    pub(crate) fn release(&mut self, keep_bytes: u64, is_stored: impl Fn(&str, u64, i64) -> bool) -> Result<()> {
        let mut kept: u64 = self.bytes();
        while let Some(oldest) = self.older.first() {
            if kept - oldest.bytes < keep_bytes || !oldest.is_stored(&is_stored) {
                break;
            }
            self.storage.remove(&path(oldest.number))?;
            kept -= oldest.bytes;
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
        self.older.iter().chain([&self.current]).cloned().collect()
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
