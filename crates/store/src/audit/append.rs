//! Appends records to the files of a log.
//!
//! - The rest of a failed write is truncated before the next write: a file has whole records up to `length`.
//! - A file begins with a record of its own, and is synced together with its name before it gets others.
//! - A file is removed once a later record announces the removal and is synced.

use std::sync::Arc;

use super::AuditSettings;
use super::chain::{self, ChainPosition, FileOpening, LinkedLine, LogRecord, RemovalRecord, VERSION};
use super::event::AuditEvent;
use super::files::{self, LogLines};
use super::head::LogHead;
use super::recovery::{DAY_NS, LastFile, recover};
use super::seal::{AuditKey, Seal};
use super::time_of;
use crate::error::{Error, Result};
use crate::storage::{LockMode, Storage, StorageFile};

/// Whoever writes the log holds an exclusive lock on this file.
const LOCK: &str = "audit.lock";

/// A log that is written.
#[derive(Debug)]
pub(super) struct ChainWriter {
    storage: Arc<dyn Storage>,
    settings: AuditSettings,
    key: Option<AuditKey>,
    chain: String,
    position: ChainPosition,
    file: Option<CurrentFile>,
    /// Number of the record that the head names.
    head: u64,
    _lock: Box<dyn std::fmt::Debug + Send + Sync>,
}

#[derive(Debug)]
struct CurrentFile {
    path: String,
    /// Bytes of whole records.
    length: u64,
    day: i64,
    /// `None` after a failure: opening it cuts off what that has left.
    file: Option<Box<dyn StorageFile>>,
    is_synced: bool,
}

impl ChainWriter {
    /// Goes on with the log of a folder, or begins one.
    pub(super) fn open(
        storage: Arc<dyn Storage>,
        settings: AuditSettings,
        key: Option<AuditKey>,
        now: i64,
    ) -> Result<ChainWriter> {
        let lock = storage.try_lock(LOCK, LockMode::Exclusive)?;
        let lock = lock.ok_or_else(|| Error::Locked { path: storage.display_path(LOCK) })?;
        let recovered = recover(storage.as_ref(), key.as_ref())?;
        let chain = match recovered.chain {
            Some(chain) => chain,
            None => {
                // The head is written before the first file. So a file without a head isn't the work of this program.
                let chain = random()?;
                LogHead::write(storage.as_ref(), (&chain, &recovered.position), key.as_ref(), now)?;
                chain
            }
        };
        let is_ours = |file: &LastFile| {
            file.opening.version == VERSION && file.opening.key.as_deref() == key.as_ref().map(AuditKey::id)
        };
        let (position, mut file) = (recovered.position, recovered.file);
        if let (Some(last), Some(_)) = (&file, &recovered.torn) {
            storage.open_append(&last.path, last.length)?.sync()?;
        }
        let file = file.take_if(|file| is_ours(file)).map(|LastFile { path, length, day, .. }| {
            // Nobody knows whether its last records were synced.
            CurrentFile { path, length, day, file: None, is_synced: false }
        });
        let mut writer = ChainWriter { storage, settings, key, chain, position, file, head: 0, _lock: lock };
        let (torn, about) = (recovered.torn, recovered.notes.join("; "));
        if !about.is_empty() {
            tracing::error!(reason = about, "the audit log isn't whole: splay audit verify tells more");
        }
        match torn.is_some() || !about.is_empty() {
            true => {
                writer.go_on(now)?;
                let event = AuditEvent { about, ..AuditEvent::new(chain::RECOVERED, now) };
                writer.append_here(&event, &LogRecord { torn, ..LogRecord::default() })?;
            }
            false => writer.go_on(now)?,
        }
        writer.sync()?;
        writer.write_head(now)?;
        writer.remove_old(now)?;
        Ok(writer)
    }

    /// Number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.position.n
    }

    /// Bytes of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.length)
    }

    /// Whether the head names the last record.
    pub(super) fn has_head(&self) -> bool {
        self.head == self.position.n
    }

    /// Appends records, all or none.
    pub(super) fn append(&mut self, events: &[AuditEvent], now: i64) -> Result<()> {
        self.go_on(now)?;
        let (mut lines, mut position) = (Vec::new(), self.position.clone());
        let (seal, of_log) = (Seal::of_records(self.key.as_ref()), LogRecord::default());
        events.iter().for_each(|event| chain::push(&mut lines, &mut position, event, &of_log, seal));
        self.write(&lines)?;
        self.position = position;
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<()> {
        let Some(current) = &mut self.file else { return Err(no_file()) };
        let file = match current.file.take() {
            Some(file) => current.file.insert(file),
            None => current.file.insert(self.storage.open_append(&current.path, current.length)?),
        };
        current.is_synced = false;
        if let Err(error) = file.write(lines) {
            current.file = None;
            return Err(error);
        }
        current.length += lines.len() as u64;
        Ok(())
    }

    /// Makes all records durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        let Some(current) = self.file.as_mut().filter(|current| !current.is_synced) else { return Ok(()) };
        let file = match current.file.take() {
            Some(file) => current.file.insert(file),
            None => current.file.insert(self.storage.open_append(&current.path, current.length)?),
        };
        file.sync()?;
        current.is_synced = true;
        Ok(())
    }

    /// Names the last record in the head, once it is durable.
    pub(super) fn write_head(&mut self, now: i64) -> Result<()> {
        self.sync()?;
        if !self.has_head() {
            LogHead::write(self.storage.as_ref(), (&self.chain, &self.position), self.key.as_ref(), now)?;
            self.head = self.position.n;
        }
        Ok(())
    }

    /// Begins another file if there is none, or if its day is over or it is full.
    fn go_on(&mut self, now: i64) -> Result<()> {
        let day = now.div_euclid(DAY_NS);
        let goes_on = |file: &CurrentFile| file.length < self.settings.file_bytes_max && file.day >= day;
        if self.file.as_ref().is_some_and(goes_on) {
            return Ok(());
        }
        self.sync()?;
        let had_files = self.file.is_some();
        let (path, mut position, mut lines) =
            (files::name(self.position.n.saturating_add(1)), self.position.clone(), Vec::new());
        let opening = FileOpening {
            version: VERSION,
            chain: self.chain.clone(),
            is_first: self.position == ChainPosition::first(),
            key: self.key.as_ref().map(|key| key.id().to_owned()),
        };
        let event = AuditEvent::new(chain::FILE, now);
        let of_log = LogRecord { file: Some(opening), ..LogRecord::default() };
        chain::push(&mut lines, &mut position, &event, &of_log, Seal::of_records(self.key.as_ref()));
        let file = self.create(&path, &lines)?;
        let length = lines.len() as u64;
        self.file = Some(CurrentFile { path, length, day, file: Some(file), is_synced: true });
        self.position = position;
        if had_files { self.remove_old(now) } else { Ok(()) }
    }

    /// A file with its first record, durable with its name.
    fn create(&self, path: &str, lines: &[u8]) -> Result<Box<dyn StorageFile>> {
        // An earlier try may have left one, with no record that is in the chain.
        if self.storage.list("")?.iter().any(|entry| entry.name == path) {
            self.storage.remove(path)?;
        }
        let mut file = self.storage.create(path)?;
        file.write(lines)?;
        file.sync()?;
        self.storage.sync_dir("")?;
        Ok(file)
    }

    /// Removes files whose records are old enough. Where that fails it is tried again with the next file.
    fn remove_old(&mut self, now: i64) -> Result<()> {
        if self.settings.keep_days == 0 {
            return Ok(());
        }
        let before = now.saturating_sub(i64::from(self.settings.keep_days).saturating_mul(DAY_NS));
        match self.remove_before(before, now) {
            Err(error) if !error.leaves_disk_unknown() => {
                tracing::warn!(%error, "old files of the audit log aren't removed");
                Ok(())
            }
            removed => removed,
        }
    }

    fn remove_before(&mut self, before: i64, now: i64) -> Result<()> {
        let numbers = files::numbers(self.storage.as_ref())?;
        for pair in numbers.windows(2) {
            let mut lines = LogLines::of(self.storage.as_ref(), files::name(pair[1]))?;
            let next = lines.next()?.and_then(|line| LinkedLine::of(&line.bytes));
            // Its records are from before the first one of the next.
            let Some(next) = next.filter(|next| time_of(&next.link.time).is_some_and(|time| time <= before)) else {
                return Ok(());
            };
            let file = files::name(pair[0]);
            let through = next.link.n.saturating_sub(1);
            let removed = RemovalRecord { file: file.clone(), through, digest: next.link.before };
            let of_log = LogRecord { removed: Some(removed), ..LogRecord::default() };
            self.append_here(&AuditEvent::new(chain::REMOVED, now), &of_log)?;
            self.write_head(now)?;
            self.storage.remove(&file)?;
            self.storage.sync_dir("")?;
        }
        Ok(())
    }

    /// Appends a record to the file, however long that is.
    fn append_here(&mut self, event: &AuditEvent, of_log: &LogRecord) -> Result<()> {
        let (mut lines, mut position) = (Vec::new(), self.position.clone());
        chain::push(&mut lines, &mut position, event, of_log, Seal::of_records(self.key.as_ref()));
        self.write(&lines)?;
        self.position = position;
        Ok(())
    }
}

fn no_file() -> Error {
    Error::Refused { reason: "the audit log has no file".to_owned() }
}

fn random() -> Result<String> {
    let mut bytes = [0u8; 16];
    let no_random =
        |error: getrandom::Error| Error::Refused { reason: format!("the system gives no random bytes: {error}") };
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
