//! Tables of a follower: another database's commits, installed unchanged.
//!
//! - A commit is a prefix of a log. A digest of the whole prefix compares both databases' logs, so only new bytes are
//!   sent, and a diverging log is detected and replaced.
//! - Files are fetched and checked first, under their final names, which no commit of this database names yet. Then
//!   the log is written, and replacing HEAD installs the commit: readers have the old one or the new one.
//! - A log that isn't a continuation gets a number that HEAD doesn't name, so it affects nobody until HEAD is
//!   replaced.
//! - Files that the table retains for undo are fetched as well, so a copy can be read as it was, and its commits
//!   undone once it leads.
//! - While it follows, one process holds the locks for changes of tables, views, users and roles, so nobody else
//!   changes anything.
//!
//! Reasons: docs/adr/0068-followers-copy-the-journals-bytes.md.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::access;
use crate::database::{Database, NamedFolder, validate_folder};
use crate::error::{Error, Result};
use crate::folder_layout::{ACCESS_FILE, ACCESS_LOCK, SETTINGS_FILE, VIEWS_FILE, WRITER_LOCK};
use crate::manifest::{self, FileEntry, Head, HeadFile, TableState};
use crate::segment::{BlockChecksums, Segment, digest};
use crate::settings::Settings;
use crate::storage::{self, ByteObserver, LocalStorage, LockMode, Storage, StorageFile, parent};
use crate::views::ViewsFile;
use crate::write::Writer;
use crate::write_down_position::WriteDownPosition;

/// Attempts to read a table while it changes.
const TRIES: usize = 100;

/// Bytes of a log, which is replaced long before it has as many.
const LOG_BYTES_MAX: u64 = 1 << 32;

/// A commit of a table, as its HEAD says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHead {
    /// The table's folder.
    pub folder: String,
    /// The table's name, if HEAD has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of the log.
    pub log: u64,
    /// Bytes of it that count.
    pub length: u64,
    /// BLAKE3 of these bytes, in hex.
    pub blake3: String,
    /// Number of the commit.
    pub epoch: u64,
    /// Whether the table was dropped.
    #[serde(default)]
    pub dropped: bool,
    /// Number of the last captured batch that the commit considers.
    pub sequence: u64,
    /// Whether it has segments in the object store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
    /// Whether it has dense segments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dense: bool,
    /// Whether it has encrypted segments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}

impl TableHead {
    fn head(&self) -> Head {
        let name = self.name.as_deref().map(Arc::from);
        Head {
            log: self.log,
            length: self.length,
            epoch: self.epoch,
            dropped: self.dropped,
            name,
            segments: Head::segments_of(self.objects, self.dense, self.encrypted),
        }
    }

    /// Refuses what can be no table's, before any path is made of it.
    ///
    /// # Errors
    /// [`Error::Name`] for the folder; [`Error::Refused`] for the log.
    pub fn check(&self) -> Result<()> {
        validate_folder(&self.folder)?;
        match self.log < u64::MAX && self.length <= LOG_BYTES_MAX {
            true => Ok(()),
            false => {
                let reason =
                    format!("no log of table {:?} has number {} and {} bytes", self.folder, self.log, self.length);
                Err(Error::Refused { reason })
            }
        }
    }
}

/// A cache of tables' commits by folder, so that no log is read twice for the same commit.
#[derive(Debug, Default)]
pub struct HeadCache(HashMap<String, TableHead>);

impl Database {
    /// The commits of all tables as they are now, those of dropped ones as well. A table that is damaged isn't among them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn table_heads(&self) -> Result<Vec<TableHead>> {
        self.table_heads_with(&mut HeadCache::default())
    }

    /// Like [`Database::table_heads`], with a cache of the heads that haven't changed.
    ///
    /// # Errors
    /// As [`Database::table_heads`].
    pub fn table_heads_with(&self, cache: &mut HeadCache) -> Result<Vec<TableHead>> {
        let before = std::mem::take(&mut cache.0);
        let mut heads = Vec::new();
        for place in self.places()? {
            let previous = before.get(&place.folder);
            let current = match HeadFile::read(self.storage().as_ref(), &place.folder) {
                Ok(file) if previous.is_some_and(|head| head.head() == file.head) => Ok(previous.cloned()),
                _ => self.table_head(&place).map(Some),
            };
            match current {
                Ok(head) => heads.extend(head),
                Err(error) if error.is_damage() || error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        cache.0 = heads.iter().map(|head| (head.folder.clone(), head.clone())).collect();
        Ok(heads)
    }

    fn table_head(&self, place: &NamedFolder) -> Result<TableHead> {
        let storage = self.storage().as_ref();
        let table = self.table_at(place.clone());
        for _ in 0..TRIES {
            let head = HeadFile::read(storage, &place.folder)?.head;
            let log = manifest::log_path(&place.folder, head.log);
            let bytes = match storage.read(&log) {
                // Replaced by another meanwhile.
                Err(error) if error.is_not_found() => continue,
                read => read?,
            };
            let snapshot = table.stored_or_dropped()?;
            if snapshot.epoch() != head.epoch {
                continue;
            }
            let counted = prefix(storage, &log, &bytes, head.length)?;
            return Ok(TableHead {
                folder: place.folder.clone(),
                name: head.name.as_deref().map(str::to_owned),
                log: head.log,
                length: head.length,
                blake3: blake3::hash(counted).to_hex().to_string(),
                epoch: head.epoch,
                dropped: head.dropped,
                sequence: snapshot.captured().sequence,
                objects: head.has_objects(),
                dense: head.has_dense(),
                encrypted: head.has_encrypted(),
            });
        }
        Err(Error::Locked { path: storage.display_path(&place.folder) })
    }

    /// A part of a file that a follower may have: of a table's log, segments and indexes. At most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] for another path; [`Error::Io`] for a file that has gone, which isn't of the newest commit then.
    pub fn read_for_follower(&self, path: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>> {
        if !is_for_followers(path) {
            return Err(Error::Refused { reason: format!("{path:?} is no file that a follower gets") });
        }
        let storage = self.storage().as_ref();
        let length = storage.identity(path)?.length;
        let rest = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
        storage.read_at(path, offset.min(length), rest.min(bytes_max))
    }

    /// The list of views as its file has it; none if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for one that isn't sound; [`Error::Io`].
    pub fn views_text(&self) -> Result<Option<String>> {
        self.sound_text(VIEWS_FILE, |bytes, path| ViewsFile::parse(bytes, path).map(drop))
    }

    /// Users and roles as their file has them; none if there is none. They are as confidential as the database.
    ///
    /// # Errors
    /// As [`Database::views_text`].
    pub fn access_text(&self) -> Result<Option<String>> {
        self.sound_text(ACCESS_FILE, |bytes, path| access::parse(bytes, path).map(drop))
    }

    fn sound_text(&self, file: &str, check: impl Fn(&[u8], &std::path::Path) -> Result<()>) -> Result<Option<String>> {
        let storage = self.storage();
        match storage.read(file) {
            Ok(bytes) => {
                check(&bytes, &storage.display_path(file))?;
                Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The settings as their file has them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn settings_text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.storage().read(SETTINGS_FILE)?).into_owned())
    }

    /// Creates a database with the settings of another one.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub fn create_like(path: impl AsRef<std::path::Path>, settings: &str) -> Result<Database> {
        let path = path.as_ref();
        let settings = Settings::parse(settings.as_bytes(), &path.join(SETTINGS_FILE))?;
        storage::create_folder(path)?;
        Database::create_on(Arc::new(LocalStorage::new(path)), &settings)
    }

    /// Describes for people how the commits of a table behind `epoch` changed rows, other than by the capture of rows up to `sequence`; `None` if
    /// they didn't.
    ///
    /// # Errors
    /// Those of reading.
    pub fn changes_behind(&self, folder: &str, epoch: u64, sequence: u64) -> Result<Option<String>> {
        let place = NamedFolder { name: folder.to_owned(), folder: folder.to_owned() };
        let snapshot = self.table_at(place).stored_or_dropped()?;
        let state = snapshot.state();
        if state.epoch <= epoch {
            return Ok(None);
        }
        let behind = |what: String| Ok(Some(format!("table {}: {what}", state.spec.name)));
        if snapshot.captured().sequence > sequence {
            return behind(format!("captured rows up to batch {} in its files", snapshot.captured().sequence));
        }
        let notes = state.history.commits();
        for commit in epoch + 1..=state.epoch {
            match notes.get(&commit) {
                Some(note) if !note.operation.changes_rows() || note.rows == (0, 0) => {}
                Some(note) => return behind(format!("commit {commit} ({})", note.operation.word())),
                None => return behind(format!("commit {commit}")),
            }
        }
        Ok(None)
    }
}

/// Whether a path is one of those that followers fetch, judged by its form.
fn is_for_followers(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '\\']);
    let ends = |name: &str, of: &[&str]| of.iter().any(|end| name.ends_with(end));
    match parts[..] {
        [table, folder, name] if [table, folder, name].into_iter().all(is_plain) => match folder {
            manifest::FOLDER => ends(name, &[".log"]),
            _ => folder.starts_with("date=") && ends(name, &[".arrow", ".parquet", ".dense", ".index"]),
        },
        _ => false,
    }
}

fn prefix<'a>(storage: &dyn Storage, log: &str, bytes: &'a [u8], length: u64) -> Result<&'a [u8]> {
    bytes.get(..usize::try_from(length).unwrap_or(usize::MAX)).ok_or_else(|| {
        Error::corrupt(storage.display_path(log), bytes.len() as u64, format!("{length} bytes"), "the file's end")
    })
}

/// A commit that is to be installed.
#[derive(Debug)]
pub struct NewCommit {
    head: TableHead,
    log: Vec<u8>,
    /// Bytes of the log that are there, if it goes on.
    from: Option<u64>,
    state: TableState,
}

impl NewCommit {
    /// The captured rows that are in its files.
    #[must_use]
    pub fn captured(&self) -> WriteDownPosition {
        self.state.captured
    }

    /// Whether this database's commits of the table aren't a prefix of the leader's, so that the table is replaced.
    #[must_use]
    pub fn replaces(&self) -> bool {
        self.from.is_none()
    }
}

/// A segment that has to be fetched, with its index.
#[derive(Debug, Clone)]
pub struct NewSegment {
    folder: String,
    entry: FileEntry,
}

impl NewSegment {
    /// Path and length of the index, then of the segment unless an object has its bytes: to be fetched in this order.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let of = |path: &str| format!("{}/{path}", self.folder);
        let mut files = vec![(of(&self.entry.index_path()), self.entry.index_bytes)];
        if self.entry.object.is_none() {
            files.push((of(&self.entry.path), self.entry.bytes));
        }
        files
    }
}

/// Installs commits. There is one at a time, and no other writer.
#[derive(Debug)]
pub struct ReplicaWriter {
    database: Database,
    locks: Mutex<Vec<Box<dyn std::fmt::Debug + Send + Sync>>>,
}

impl ReplicaWriter {
    /// Takes all writers' locks.
    ///
    /// # Errors
    /// [`Error::Locked`].
    pub fn begin(database: &Database) -> Result<ReplicaWriter> {
        let storage = database.storage();
        let lock = |path: &str| {
            let lock = storage.try_lock(path, LockMode::Exclusive)?;
            lock.ok_or_else(|| Error::Locked { path: storage.display_path(path) })
        };
        let locks = Mutex::new(vec![lock(WRITER_LOCK)?, lock(ACCESS_LOCK)?]);
        Ok(ReplicaWriter { database: database.clone(), locks })
    }

    /// Lets others write. Nothing is installed after it.
    pub fn release(&self) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn storage(&self) -> &dyn Storage {
        self.database.storage().as_ref()
    }

    /// Bytes of a commit's log that this database may have already: what comes behind them is to be fetched.
    ///
    /// # Errors
    /// Those of reading.
    pub fn stored_bytes(&self, head: &TableHead) -> Result<u64> {
        let own = self.own_head(&head.folder)?;
        Ok(own.filter(|own| own.log == head.log && own.length <= head.length).map_or(0, |own| own.length))
    }

    /// Whether the commit is installed.
    ///
    /// # Errors
    /// Those of reading.
    pub fn has(&self, head: &TableHead) -> Result<bool> {
        if self.own_head(&head.folder)? != Some(head.head()) {
            return Ok(false);
        }
        let log = self.storage().read(&manifest::log_path(&head.folder, head.log))?;
        let has = log.get(..usize::try_from(head.length).unwrap_or(usize::MAX)).is_some_and(|log| is_log(head, log));
        if has {
            // The table may have been installed by a process that ended before its folder's entry was synced.
            self.storage().sync_dir(&format!("{}/{}", head.folder, manifest::FOLDER))?;
        }
        Ok(has)
    }

    /// HEAD of a folder; none if there is none, or it is damaged, which another one mends.
    fn own_head(&self, folder: &str) -> Result<Option<Head>> {
        match HeadFile::read(self.storage(), folder) {
            Ok(file) => Ok(Some(file.head)),
            Err(error) if error.is_not_found() || error.is_damage() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The commit, of what was fetched of its log from `from` on. `None` if the existing bytes aren't the beginning of
    /// this log; the whole log must then be fetched.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a log that isn't the one that the leader named, or is none.
    pub fn commit(&self, head: &TableHead, from: u64, fetched: &[u8]) -> Result<Option<NewCommit>> {
        validate_folder(&head.folder)?;
        let path = manifest::log_path(&head.folder, head.log);
        let mut log = Vec::new();
        if from > 0 {
            let own = self.storage().read(&path)?;
            log.extend_from_slice(own.get(..usize::try_from(from).unwrap_or(usize::MAX)).unwrap_or_default());
        }
        log.extend_from_slice(fetched);
        let shown = self.storage().display_path(&path);
        if log.len() as u64 != head.length || !is_log(head, &log) {
            return if from > 0 {
                Ok(None)
            } else {
                Err(Error::corrupt(shown, 0, "the log that the leader named", "another"))
            };
        }
        let state = manifest::state_of(&log, &head.head(), &shown)?;
        let own = self.own_head(&head.folder)?;
        // If this database's log isn't known to be a prefix of the leader's, it is replaced.
        let continues =
            own.as_ref().is_none_or(|own| own.log == head.log && own.length <= head.length && from == own.length);
        let from = (from > 0 || own.is_none()).then_some(from).filter(|_| continues);
        Ok(Some(NewCommit { head: head.clone(), log, from, state }))
    }

    /// The segments of a commit that are missing, including those that the table retains for undo. With `all`, existing
    /// ones are checked too, and listed unless they are the commit's.
    ///
    /// # Errors
    /// Those of reading.
    pub fn lacking(&self, commit: &NewCommit, all: bool) -> Result<Vec<NewSegment>> {
        let mut lacking = Vec::new();
        let retired = commit.state.history.retired().values().map(|retired| &retired.entry);
        for entry in commit.state.files.values().chain(retired) {
            let segment = NewSegment { folder: commit.head.folder.clone(), entry: entry.clone() };
            if !self.is_there(&segment, all)? {
                lacking.push(segment);
            }
        }
        Ok(lacking)
    }

    fn is_there(&self, segment: &NewSegment, all: bool) -> Result<bool> {
        for (path, bytes) in segment.files() {
            match self.storage().identity(&path) {
                Ok(file) if file.length == bytes => {}
                Ok(_) => return Ok(false),
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        // Objects are the leader's, and checked when they are read.
        Ok(!all
            || match segment.entry.object {
                Some(_) => self.segment(segment).verify_sidecar().is_ok(),
                None => self.segment(segment).verify_bytes().is_ok(),
            })
    }

    fn segment(&self, segment: &NewSegment) -> Segment {
        self.database.segment(&segment.folder, &segment.entry, true)
    }

    /// Fetches a segment and its index by `fetch`, which gives the bytes of a path behind an offset, at least one. Checks all of them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if other bytes came than the commit names; what `fetch` returns.
    pub fn put<E: From<Error>>(
        &self,
        segment: &NewSegment,
        fetch: &mut dyn FnMut(&str, u64) -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<(), E> {
        let of = |path: &str| format!("{}/{path}", segment.folder);
        let (index, index_bytes) = (of(&segment.entry.index_path()), segment.entry.index_bytes);
        let (data, bytes) = (of(&segment.entry.path), segment.entry.bytes);
        let folder = parent(&data).to_owned();
        self.storage().create_dir(&segment.folder)?;
        self.storage().create_dir(&folder)?;
        self.fetch(&index, index_bytes, &mut |_| {}, fetch)?;
        self.storage().rename(&temporary(&index), &index)?;
        if segment.entry.object.is_some() {
            self.segment(segment).verify_sidecar()?;
            return Ok(self.sync_folders(&folder, segment)?);
        }
        let mut sums = BlockChecksums::default();
        self.fetch(&data, bytes, &mut |part| sums.observe(part), fetch)?;
        let (sums, _) = sums.finish();
        if digest(&sums) != segment.entry.digest {
            return Err(
                Error::corrupt(self.storage().display_path(&data), 0, "the digest in the manifest", "another").into()
            );
        }
        self.segment(segment).verify_index(&sums)?;
        self.storage().rename(&temporary(&data), &data)?;
        Ok(self.sync_folders(&folder, segment)?)
    }

    fn sync_folders(&self, folder: &str, segment: &NewSegment) -> Result<()> {
        [folder, &segment.folder, ""].into_iter().try_for_each(|folder| self.storage().sync_dir(folder))
    }

    fn fetch<E: From<Error>>(
        &self,
        path: &str,
        bytes: u64,
        seen: &mut dyn FnMut(&[u8]),
        fetch: &mut dyn FnMut(&str, u64) -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<(), E> {
        let mut file = self.temporary(path)?;
        let mut length = 0;
        while length < bytes {
            let part = fetch(path, length)?;
            length += part.len() as u64;
            if part.is_empty() || length > bytes {
                let found = format!("{length}");
                return Err(
                    Error::corrupt(self.storage().display_path(path), length, format!("{bytes} bytes"), found).into()
                );
            }
            seen(&part);
            file.write(&part)?;
        }
        file.sync()?;
        Ok(())
    }

    fn temporary(&self, path: &str) -> Result<Box<dyn StorageFile>> {
        remove_if_there(self.storage(), &temporary(path))?;
        self.storage().create(&temporary(path))
    }

    /// Installs a commit whose segments were fetched. Files that no commit names any more are removed once nobody reads
    /// them.
    ///
    /// # Errors
    /// Those of the writes. The table has the old commit or the new one.
    pub fn install(&self, commit: &NewCommit) -> Result<()> {
        let (storage, folder) = (self.storage(), &commit.head.folder);
        storage.create_dir(folder)?;
        storage.sync_dir("")?;
        let manifest_folder = format!("{folder}/{}", manifest::FOLDER);
        storage.create_dir(&manifest_folder)?;
        storage.sync_dir(folder)?;
        let mut head = commit.head.head();
        match commit.from.filter(|from| *from > 0) {
            Some(from) => {
                let mut file = storage.open_append(&manifest::log_path(folder, head.log), from)?;
                file.write(&commit.log[usize::try_from(from).unwrap_or(usize::MAX).min(commit.log.len())..])?;
                file.sync()?;
            }
            None => {
                if self.own_head(folder)?.is_some_and(|own| own.log == head.log) {
                    head.log += 1;
                }
                let path = manifest::log_path(folder, head.log);
                remove_if_there(storage, &path)?;
                let mut file = storage.create(&path)?;
                file.write(&commit.log)?;
                file.sync()?;
                storage.sync_dir(&manifest_folder)?;
            }
        }
        storage::replace(storage, &manifest::head_path(folder), &head.encode())?;
        manifest::mark_created(storage, folder);
        Writer::sweep_table(&self.database, folder)
    }

    /// Removes folders with files that were fetched for a first commit that was never installed: without HEAD they look like a table that lost it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_uninstalled(&self) -> Result<()> {
        let storage = self.storage();
        for folder in storage.list("")?.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name) {
            if validate_folder(&folder).is_err() || manifest::was_created(storage, &folder)? {
                continue;
            }
            let entries = storage.list(&folder)?;
            let is_ours = |name: &str| name == manifest::FOLDER || name.starts_with("date=");
            let is_table = !entries.is_empty() && entries.iter().all(|entry| entry.is_dir && is_ours(&entry.name));
            let has_head = match storage.identity(&manifest::head_path(&folder)) {
                Ok(_) => true,
                Err(error) if error.is_not_found() => false,
                Err(error) => return Err(error),
            };
            if is_table && !has_head {
                self.database.forget(&folder);
                storage::remove_all(storage, &folder)?;
                storage.sync_dir("")?;
            }
        }
        Ok(())
    }

    /// Removes a table that the leader doesn't have, with all its files.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, folder: &str) -> Result<()> {
        validate_folder(folder)?;
        let storage = self.storage();
        for path in [manifest::created_path(folder), manifest::head_path(folder)] {
            remove_if_there(storage, &path)?;
        }
        storage.sync_dir(&format!("{folder}/{}", manifest::FOLDER))?;
        self.database.forget(folder);
        storage::remove_all(storage, folder)
    }

    /// Replaces the list of views; `None` for no list.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that are none.
    pub fn put_views(&self, bytes: Option<&[u8]>) -> Result<()> {
        self.put_text(VIEWS_FILE, bytes, |bytes, path| ViewsFile::parse(bytes, path).map(drop))
    }

    /// Replaces users and roles; `None` for none.
    ///
    /// # Errors
    /// As [`ReplicaWriter::put_views`].
    pub fn put_access(&self, bytes: Option<&[u8]>) -> Result<()> {
        self.put_text(ACCESS_FILE, bytes, |bytes, path| access::parse(bytes, path).map(drop))
    }

    fn put_text(
        &self,
        path: &str,
        bytes: Option<&[u8]>,
        check: impl Fn(&[u8], &std::path::Path) -> Result<()>,
    ) -> Result<()> {
        let storage = self.storage();
        let own = match storage.read(path) {
            Ok(own) => Some(own),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        match bytes {
            same if same == own.as_deref() => Ok(()),
            Some(bytes) => {
                check(bytes, &storage.display_path(path))?;
                storage::replace(storage, path, bytes)
            }
            None => {
                storage.remove(path)?;
                storage.sync_dir("")
            }
        }
    }
}

fn is_log(head: &TableHead, log: &[u8]) -> bool {
    blake3::hash(log).to_hex().as_str() == head.blake3
}

fn temporary(path: &str) -> String {
    format!("{path}.tmp")
}

fn remove_if_there(storage: &dyn Storage, path: &str) -> Result<()> {
    match storage.identity(path) {
        Ok(_) => storage.remove(path),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
