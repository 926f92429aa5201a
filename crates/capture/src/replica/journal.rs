//! A follower's journal: the bytes of its leader's, in files of the same numbers.
//!
//! - Only whole frames with a right checksum are stored; they are synced before the next bytes are requested.
//! - A file names the previous one with length and checksum, and is begun only if this one matches. So bytes that the
//!   leader no longer has, or never had, are detected at the next file at the latest.
//! - The catalog lists the local files, and the losses in the leader's catalog.

use std::sync::Arc;

use splay_store::storage::{Storage, StorageFile};

use super::{JournalEnd, Position};
use crate::error::{Error, Result};
use crate::journal::{self, Catalog, FOLDER, JournalFrame, PreviousFile, format};

/// Where a journal is put together that takes the place of one.
pub(super) const STAGED: &str = ".journal/next";

/// What came with some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AppendOutcome {
    /// Bytes that were kept: whole frames.
    pub(super) bytes: usize,
    /// Whether tables or columns are named that were not before.
    pub(super) has_layouts: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct FollowedJournal {
    storage: Arc<dyn Storage>,
    folder: &'static str,
    file: Option<Box<dyn StorageFile>>,
    position: Position,
    crc: u32,
    /// The file before the one that is written.
    before: Option<PreviousFile>,
    /// Number of the last batch.
    sequence: u64,
    /// When it came in.
    received: i64,
    catalog: Catalog,
}

impl FollowedJournal {
    /// Opens the journal, and truncates an incomplete frame at its end.
    pub(super) fn open(storage: &Arc<dyn Storage>, folder: &'static str) -> Result<FollowedJournal> {
        let catalog = match Catalog::load(storage.as_ref())? {
            journal::CatalogContent::Sound(catalog) => catalog,
            journal::CatalogContent::Absent | journal::CatalogContent::Damaged => Catalog::default(),
        };
        let mut journal = FollowedJournal {
            storage: Arc::clone(storage),
            folder,
            file: None,
            position: Position::default(),
            crc: 0,
            before: None,
            sequence: 0,
            received: 0,
            catalog,
        };
        let mut numbers = journal.numbers()?;
        while let Some(number) = numbers.pop() {
            if journal.take_up(number)? {
                break;
            }
            // Its begin was cut short: none of it was confirmed.
            storage.remove(&journal.path(number))?;
        }
        Ok(journal)
    }

    fn numbers(&self) -> Result<Vec<u64>> {
        journal::numbers_in(self.storage.as_ref(), self.folder)
    }

    fn path(&self, number: u64) -> String {
        format!("{}/{}", self.folder, journal::name(number))
    }

    /// Goes on behind a file's whole frames; false for one that has no header.
    fn take_up(&mut self, number: u64) -> Result<bool> {
        let path = self.path(number);
        let bytes = self.storage.read(&path)?;
        let Some((_, in_file, first)) = format::parse_header(&bytes) else {
            let is_torn = !journal::holds_a_frame(&bytes);
            return if is_torn {
                Ok(false)
            } else {
                Err(damaged(self.storage.as_ref(), &path, 0, "the header of a file"))
            };
        };
        if in_file != number {
            return Err(damaged(self.storage.as_ref(), &path, 12, "its own number"));
        }
        self.position = Position { file: number, offset: 0 };
        self.sequence = first.saturating_sub(1);
        let whole = if self.is_lossy(number) { bytes.len() } else { self.whole_of(&bytes)? };
        let whole = whole.min(bytes.len());
        let mut file = self.storage.open_append(&path, whole as u64)?;
        file.sync()?;
        self.storage.sync_dir(self.folder)?;
        (self.file, self.crc) = (Some(file), crc32c::crc32c(&bytes[..whole]));
        self.position.offset = whole as u64;
        Ok(true)
    }

    /// How many bytes of a file are whole frames. A frame that a power cut left incomplete ends them: it was never confirmed. Damage before a
    /// sound frame is an error.
    fn whole_of(&mut self, bytes: &[u8]) -> Result<usize> {
        match self.scan(bytes) {
            Ok(appended) => Ok(appended.bytes),
            Err(Error::Damaged { offset, path, expected, found }) => {
                let at = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(at..).filter(|rest| at > 0 && format::content(rest).is_none());
                match rest.is_some_and(|rest| !journal::holds_a_frame(rest)) {
                    true => Ok(at),
                    false => Err(Error::Damaged { offset, path, expected, found }),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Where it ends: all before is on disk.
    pub(super) fn position(&self) -> Option<Position> {
        (self.position.file > 0).then_some(self.position)
    }

    /// The same, with what the leader's file has to have before; none where nothing of a file is here.
    pub(super) fn end(&self) -> Option<JournalEnd> {
        (self.position.offset > 0).then_some(JournalEnd { position: self.position, crc: self.crc })
    }

    /// Number of the last batch, and when it came in.
    pub(super) fn last(&self) -> (u64, i64) {
        (self.sequence, self.received)
    }

    /// Takes over what the leader's catalog lists.
    pub(super) fn list(&mut self, leader: &Catalog) {
        (self.catalog.losses, self.catalog.layouts) = (leader.losses.clone(), leader.layouts.clone());
    }

    /// Whether the leader has reported damage of a file, which is then copied with it.
    fn is_lossy(&self, number: u64) -> bool {
        self.catalog.losses.iter().any(|loss| (loss.files.0..=loss.files.1).contains(&number))
    }

    /// The file is whole, and this one follows.
    pub(super) fn next(&mut self, number: u64) -> Result<()> {
        if number <= self.position.file || number >= journal::NUMBER_MAX {
            return Err(Error::Leader { reason: format!("it names file {number} behind file {}", self.position.file) });
        }
        if self.file.take().is_some() {
            let Position { file, offset } = self.position;
            self.before = Some(PreviousFile { number: file, bytes: offset, sequence: self.sequence, crc: self.crc });
        }
        (self.position, self.crc) = (Position { file: number, offset: 0 }, 0);
        Ok(())
    }

    /// Appends the leader's bytes after [`FollowedJournal::position`], up to the last whole frame, and syncs them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<AppendOutcome> {
        let (sequence, received) = (self.sequence, self.received);
        let lossy = self.is_lossy(self.position.file);
        let scanned =
            if lossy { Ok(AppendOutcome { bytes: bytes.len(), has_layouts: true }) } else { self.scan(bytes) };
        let appended = scanned.inspect_err(|_| (self.sequence, self.received) = (sequence, received))?;
        let whole = &bytes[..appended.bytes];
        if whole.is_empty() {
            return Ok(appended);
        }
        if self.file.is_none() {
            self.begin()?;
        }
        let is_new = self.position.offset == 0;
        let Some(file) = &mut self.file else { return Err(Error::Closed) };
        let written = file.write(whole).and_then(|()| file.sync());
        // The file's name is made durable, too, before the bytes are confirmed.
        let written = written.and_then(|()| if is_new { self.storage.sync_dir(self.folder) } else { Ok(()) });
        if let Err(error) = written {
            // What is on disk is unknown: it is looked at anew.
            self.file = None;
            return Err(error.into());
        }
        self.crc = crc32c::crc32c_append(self.crc, whole);
        self.position.offset += whole.len() as u64;
        if is_new {
            self.note()?;
        }
        Ok(appended)
    }

    fn begin(&mut self) -> Result<()> {
        let path = self.path(self.position.file);
        if self.position.offset > 0 {
            return Err(Error::Failed {
                reason: "a write to the follower's journal failed: start it again".to_owned(),
            });
        }
        if self.numbers()?.contains(&self.position.file) {
            self.storage.remove(&path)?;
        }
        self.file = Some(self.storage.create(&path)?);
        Ok(())
    }

    /// Looks at whole frames: how many bytes they are. Notes what they say.
    fn scan(&mut self, bytes: &[u8]) -> Result<AppendOutcome> {
        let mut appended = AppendOutcome::default();
        if self.position.offset == 0 {
            let damage = |what| damaged(self.storage.as_ref(), &self.path(self.position.file), 0, what);
            if bytes.len() < format::HEADER_BYTES {
                return Ok(appended);
            }
            match format::parse_header(bytes) {
                Some((version, number, first)) if version <= format::VERSION && number == self.position.file => {
                    self.sequence = self.sequence.max(first.saturating_sub(1));
                }
                _ => return Err(damage("the header of this journal file")),
            }
            appended.bytes = format::HEADER_BYTES;
        }
        while let Some(rest) = bytes.get(appended.bytes..).filter(|rest| !rest.is_empty()) {
            let at = self.position.offset + appended.bytes as u64;
            let Some((content, length)) = format::content(rest) else {
                // A frame that is all there, and isn't what was written.
                let is_all = format::length(rest).is_some();
                let damage =
                    || Err(damaged(self.storage.as_ref(), &self.path(self.position.file), at, "a sound frame"));
                return if is_all { damage() } else { Ok(appended) };
            };
            match format::parse(content) {
                Some(JournalFrame::Link(link)) => self.check_link(link)?,
                Some(JournalFrame::Layout(_)) => appended.has_layouts = true,
                Some(JournalFrame::Rows(rows)) => (self.sequence, self.received) = (rows.sequence, rows.received),
                Some(_) => {}
                None => {
                    return Err(damaged(
                        self.storage.as_ref(),
                        &self.path(self.position.file),
                        at,
                        "a frame of this release",
                    ));
                }
            }
            appended.bytes += length;
        }
        Ok(appended)
    }

    /// The previous file must be the one that the leader's next file names as its predecessor.
    fn check_link(&self, link: PreviousFile) -> Result<()> {
        let Some(before) = self.before.filter(|before| before.number == link.number) else { return Ok(()) };
        if (before.bytes, before.crc) == (link.bytes, link.crc) || self.is_lossy(link.number) {
            return Ok(());
        }
        let expected = format!("the {} bytes that the leader's next file names", link.bytes);
        Err(Error::Damaged {
            path: self.storage.display_path(&self.path(before.number)),
            offset: 0,
            expected,
            found: format!("{} other bytes: the leader may have lost some", before.bytes),
        })
    }

    /// Writes the catalog: which files are here.
    pub(super) fn note(&mut self) -> Result<()> {
        if self.folder != FOLDER {
            return Ok(());
        }
        let numbers = self.numbers()?;
        let Some(oldest) = numbers.first().copied() else { return Ok(()) };
        let head = self.storage.read_at(&self.path(oldest), 0, format::HEADER_BYTES)?;
        let first = format::parse_header(&head).map_or(self.catalog.first, |(_, _, first)| first);
        (self.catalog.oldest, self.catalog.first, self.catalog.is_orderly) = (oldest, first, false);
        (self.catalog.newest, self.catalog.bytes) = (self.position.file, self.position.offset);
        self.catalog.sequence = self.sequence;
        self.catalog.forget();
        Ok(self.catalog.store(self.storage.as_ref())?)
    }

    /// Removes the oldest files that the leader doesn't have any more and whose rows are all in this database's own files.
    pub(super) fn release(&mut self, oldest: u64, is_stored: impl Fn(&str, u64, i64) -> bool) -> Result<()> {
        let storage = Arc::clone(&self.storage);
        let old = self.numbers()?.into_iter().take_while(|number| *number < oldest.min(self.position.file));
        let mut removable = Vec::new();
        for number in old {
            if !journal::is_stored(storage.as_ref(), number, &is_stored)? {
                break;
            }
            removable.push(number);
        }
        self.remove(&removable)
    }

    /// Removes the files before one, which others have replaced. Warns of rows that are in no table's file: the leader had removed them, so their
    /// table is gone.
    pub(super) fn forget_before(&mut self, first: u64, is_stored: impl Fn(&str, u64, i64) -> bool) -> Result<()> {
        let removable: Vec<u64> = self.numbers()?.into_iter().take_while(|number| *number < first).collect();
        for number in &removable {
            if !journal::is_stored(self.storage.as_ref(), *number, &is_stored)? {
                tracing::warn!(
                    number,
                    "rows of a journal file that the leader has removed are in no file of this copy: their table is gone"
                );
            }
        }
        self.remove(&removable)
    }

    fn remove(&mut self, numbers: &[u64]) -> Result<()> {
        let storage = Arc::clone(&self.storage);
        let Some(last) = numbers.last().copied() else { return Ok(()) };
        // First the catalog, so that none that it names is missing.
        let next = self.numbers()?.into_iter().find(|number| *number > last).unwrap_or(self.position.file);
        let head = storage.read_at(&self.path(next), 0, format::HEADER_BYTES)?;
        (self.catalog.oldest, self.catalog.first) =
            (next, format::parse_header(&head).map_or(self.catalog.first, |(_, _, first)| first));
        (self.catalog.newest, self.catalog.bytes) = (self.position.file, self.position.offset);
        self.catalog.sequence = self.sequence;
        self.catalog.forget();
        self.catalog.store(storage.as_ref())?;
        numbers.iter().try_for_each(|number| storage.remove(&self.path(*number)).map_err(Error::from))
    }
}

pub(super) fn damaged(storage: &dyn Storage, path: &str, offset: u64, expected: &str) -> Error {
    let (expected, found) = (expected.to_owned(), "other bytes".to_owned());
    Error::Damaged { path: storage.display_path(path), offset, expected, found }
}
