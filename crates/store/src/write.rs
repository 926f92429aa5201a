//! One change of a table: the writer lock, files under temporary names, and the commit.
//!
//! 1. Take the lock; sweep what earlier writers left behind.
//! 2. Write segments and indexes as `.tmp`, each synced.
//! 3. Rename them, sync their folders.
//! 4. Commit the manifest. Only now has anything happened.
//! 5. Remove files that no longer count, once no reader needs them.
//!
//! A change that is dropped before step 4, or fails there before HEAD is touched, removes what it wrote.

mod objects;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;

use crate::database::{Database, Table};
use crate::error::{Error, Result};
use crate::folder_layout::{OWNER_FILE, READERS_LOCK, SETTINGS_FILE, SPILL_FOLDER};
use crate::manifest::{self, Commit, FileEntry, Head, Operation, Source, TableState};
use crate::partition;
use crate::schema::TableSpec;
use crate::segment::{self, Segment, SegmentTarget};
use crate::settings::Settings;
use crate::storage::{self, LockMode, ReadWatch, Storage};
use crate::tier::Tier;
use crate::write_down_position::WriteDownPosition;

/// The content of a commit.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) operation: Operation,
    pub(crate) spec: Option<TableSpec>,
    pub(crate) add: Vec<FileEntry>,
    pub(crate) remove: Vec<String>,
    /// Sources with the commits that loaded them; 0 is this one.
    pub(crate) sources: Vec<(Source, u64)>,
    pub(crate) captured: Option<WriteDownPosition>,
    /// Kept files to remove, besides those whose retention has ended.
    pub(crate) forget: Vec<String>,
    /// Digests of sources whose rows the table no longer has.
    pub(crate) unload: Vec<String>,
    /// Rows added and rows removed.
    pub(crate) rows: (u64, u64),
    /// Rows that were left out as duplicates.
    pub(crate) duplicates: u64,
    /// The commit that this one undoes.
    pub(crate) undoes: Option<u64>,
    /// Whether the table is dropped.
    pub(crate) dropped: bool,
    /// Whether the removed files stay for a while, so that the commit can be undone.
    pub(crate) keep: bool,
}

impl Change {
    pub(crate) fn new(operation: Operation) -> Change {
        Change {
            operation,
            spec: None,
            add: Vec::new(),
            remove: Vec::new(),
            sources: Vec::new(),
            captured: None,
            forget: Vec::new(),
            unload: Vec::new(),
            rows: (0, 0),
            duplicates: 0,
            undoes: None,
            dropped: false,
            keep: true,
        }
    }
}

/// The one writer of a database.
#[derive(Debug)]
pub(crate) struct Writer {
    database: Database,
    /// The table's folder.
    folder: String,
    last_commit: Option<(Head, Arc<TableState>)>,
    next_file: AtomicU32,
    /// Files that aren't committed yet, without `.tmp`.
    written: Mutex<Vec<String>>,
    /// Tells whether all pages of the table's files could be read.
    watch: ReadWatch,
    _lock: Box<dyn std::fmt::Debug + Send + Sync>,
}

impl Writer {
    /// Takes the lock and looks at the table of a name, which need not exist.
    pub(crate) fn begin(database: &Database, table: &str) -> Result<Writer> {
        let lock = database.lock_writer()?;
        Writer::at(database, database.folder_for(table)?, lock)
    }

    /// Like [`Self::begin`], but finds the table by its folder: the table may have been dropped, and another one may have its name now.
    pub(crate) fn of(table: &Table) -> Result<Writer> {
        let lock = table.database().lock_writer()?;
        Writer::at(table.database(), table.folder().to_owned(), lock)
    }

    fn at(database: &Database, folder: String, lock: Box<dyn std::fmt::Debug + Send + Sync>) -> Result<Writer> {
        let storage = database.storage();
        let watch = ReadWatch::begin(storage.display_path(&folder).into());
        let last_commit = match manifest::refresh(storage.as_ref(), &folder, None) {
            Ok((file, state)) => Some((file.head, state)),
            Err(error) if error.is_not_found() => {
                refuse_lost_head(storage.as_ref(), &folder)?;
                None
            }
            Err(error) => return Err(error),
        };
        if last_commit.is_some() {
            // A writer that died behind its commit may have left HEAD's new name in the cache alone. Files that the old HEAD
            // needs may be removed only once the new one stands.
            let synced = storage.sync_dir(&format!("{folder}/{}", manifest::FOLDER));
            synced.inspect_err(|_| database.poison())?;
            manifest::mark_created(storage.as_ref(), &folder);
        }
        let (written, database) = (Mutex::new(Vec::new()), database.clone());
        let writer =
            Writer { database, folder, last_commit, next_file: AtomicU32::new(1), written, watch, _lock: lock };
        writer.sweep()?;
        Ok(writer)
    }

    /// Removes files that no commit of a table names. The caller holds the writer's lock.
    pub(crate) fn sweep_table(database: &Database, folder: &str) -> Result<()> {
        Writer::at(database, folder.to_owned(), Box::new(())).map(drop)
    }

    /// The table, unless there is none or it was dropped.
    pub(crate) fn table(&self) -> Option<&TableState> {
        self.state().filter(|state| !state.dropped)
    }

    /// The table's state, also if it was dropped.
    pub(crate) fn state(&self) -> Option<&TableState> {
        self.last_commit.as_ref().map(|(_, state)| state.as_ref())
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// The table's folder.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        self.database.storage()
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.database.settings()
    }

    /// The segments of a partition, in order.
    pub(crate) fn partition(&self, date: i32) -> Vec<FileEntry> {
        let files = self.state().map(|state| state.files.values());
        files.into_iter().flatten().filter(|entry| entry.date == date).cloned().collect()
    }

    pub(crate) fn segment(&self, entry: &FileEntry) -> Segment {
        self.database.segment(&self.folder, entry, true)
    }

    /// A new path in a partition, whose folder is made if need be. Later paths sort behind earlier ones.
    pub(crate) fn next_path(&self, date: i32, tier: Tier) -> Result<String> {
        let folder = partition::folder(date);
        self.storage().create_dir(&self.folder)?;
        self.storage().create_dir(&format!("{}/{folder}", self.folder))?;
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{folder}/{:08}.{number:06}.{}", self.next_epoch(), tier.extension()))
    }

    pub(crate) fn write_segment(
        &self,
        spec: &TableSpec,
        date: i32,
        tier: Tier,
        rows: &RecordBatch,
    ) -> Result<FileEntry> {
        self.write_segment_at(spec, date, tier, self.next_path(date, tier)?, rows)
    }

    pub(crate) fn write_segment_at(
        &self,
        spec: &TableSpec,
        date: i32,
        tier: Tier,
        path: String,
        rows: &RecordBatch,
    ) -> Result<FileEntry> {
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let index = path.rsplit_once('.').map_or(path.as_str(), |(stem, _)| stem);
            written.push(format!("{index}.index"));
            written.push(path.clone());
        }
        let tier = tier.written();
        let (storage, keys) = (self.storage().as_ref(), self.database.keys());
        let target = SegmentTarget { storage, keys, table: &self.folder, path, tier, date };
        segment::write(&target, spec, rows)
    }

    pub(crate) fn next_epoch(&self) -> u64 {
        self.state().map_or(0, |state| state.epoch) + 1
    }

    /// Makes a change happen and gives its epoch.
    pub(crate) fn commit(mut self, change: Change) -> Result<u64> {
        let storage = Arc::clone(self.storage());
        // Rows of older segments may be among the new ones.
        self.watch.check()?;
        let captured = self.captured_with(&change)?;
        if let Err(error) = self.publish(!change.add.is_empty()) {
            self.poison_after(&error);
            return Err(error);
        }
        let (epoch, at) = (self.next_epoch(), now());
        let keep = change.keep && self.keeps(&change);
        let mut forget = change.forget;
        forget.extend(self.outdated(at).into_iter().filter(|path| !forget.contains(path)).collect::<Vec<_>>());
        let any_removed = !forget.is_empty() || !change.remove.is_empty() && !keep;
        let moves = self.adds_objects(&change.add);
        let removed = if keep { &[][..] } else { &change.remove[..] };
        let objects_go =
            self.state().is_some_and(|state| forget.iter().chain(removed).any(|path| state.is_object(path)));
        let commit = Commit {
            epoch,
            at,
            operation: change.operation,
            spec: change.spec,
            add: change.add,
            remove: change.remove,
            sources: change.sources,
            captured,
            keep,
            forget,
            unload: change.unload,
            rows: change.rows,
            duplicates: change.duplicates,
            undoes: change.undoes,
            dropped: change.dropped,
            history: None,
        };
        let committed = match &self.last_commit {
            Some(last_commit) => manifest::commit(storage.as_ref(), &self.folder, last_commit, commit),
            None => manifest::create(storage.as_ref(), &self.folder, commit),
        };
        let last_commit = committed.inspect_err(|error| {
            if self.poison_after(error) {
                // HEAD may have been replaced, and name them.
                self.forget_written();
            }
        })?;
        self.forget_written();
        self.last_commit = Some(last_commit);
        if any_removed {
            // A later writer sweeps the files that can't be removed now.
            let _ = self.sweep();
        }
        if moves || objects_go {
            self.sweep_objects();
        }
        Ok(epoch)
    }

    /// The position of captured rows that a commit records. If the table takes over a name that dropped tables had, it includes what was captured
    /// under the name for these.
    fn captured_with(&self, change: &Change) -> Result<Option<WriteDownPosition>> {
        let is_new = |name: &str| self.table().is_none_or(|state| state.spec.name != name);
        let Some(spec) = change.spec.as_ref().filter(|spec| is_new(&spec.name)) else { return Ok(change.captured) };
        let Some(former) = self.database.former(&spec.name)? else { return Ok(change.captured) };
        let own = self.state().map_or_else(WriteDownPosition::default, |state| state.captured);
        let all = change.captured.into_iter().fold(own.max(former), WriteDownPosition::max);
        Ok(Some(all).filter(|all| *all != own).or(change.captured))
    }

    /// Whether there are objects among new files that the table hasn't had.
    fn adds_objects(&self, files: &[FileEntry]) -> bool {
        let mut keys = files.iter().filter_map(|entry| entry.object.as_deref()).peekable();
        if keys.peek().is_none() {
            return false;
        }
        let existing_keys: BTreeSet<&str> = self.state().into_iter().flat_map(TableState::object_keys).collect();
        keys.any(|key| !existing_keys.contains(key))
    }

    /// Whether files that a commit removes are kept for a while. Those that captured rows replace are not: one row that comes late has a
    /// date's newest files written anew, time and again. Parquet files of a published table are: others read them still.
    fn keeps(&self, change: &Change) -> bool {
        let is_read = || {
            let is_published = self.state().is_some_and(|state| state.spec.publish.is_some());
            is_published && change.remove.iter().any(|path| path.ends_with(".parquet"))
        };
        self.settings().history_s > 0 && (change.operation != Operation::Capture || is_read())
    }

    /// Files that were kept long enough.
    pub(crate) fn outdated(&self, now: i64) -> Vec<String> {
        let history = i64::try_from(self.settings().history_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        self.state().map_or_else(Vec::new, |state| state.history.retired_before(now.saturating_sub(history)))
    }

    /// Gives a stored file, and its index, a second name in its partition, behind all others; copies it where the file system has no
    /// second names.
    pub(crate) fn link(&self, entry: &FileEntry) -> Result<FileEntry> {
        let path = self.next_path(entry.date, entry.tier)?;
        let linked = FileEntry { path, ..entry.clone() };
        let mut files = vec![(entry.index_path(), linked.index_path())];
        // An object keeps its key, unless there is a file in its place.
        if entry.object.is_none() || self.has_file(&entry.path)? {
            files.push((entry.path.clone(), linked.path.clone()));
        }
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.extend(files.iter().map(|(_, to)| to.clone()));
        }
        for (from, to) in files {
            let (from, to) = (format!("{}/{from}", self.folder), format!("{}/{to}.tmp", self.folder));
            match self.storage().link(&from, &to) {
                Ok(()) => {}
                Err(error) if error.is_not_found() => return Err(error),
                Err(_) => storage::copy(self.storage().as_ref(), &from, &to)?,
            }
        }
        Ok(linked)
    }

    /// Whether there is a file of the table.
    fn has_file(&self, path: &str) -> Result<bool> {
        match self.storage().identity(&format!("{}/{path}", self.folder)) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes a written file out, which has become an object.
    pub(crate) fn discard(&self, path: &str) -> Result<()> {
        self.storage().remove(&format!("{}/{path}.tmp", self.folder))?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).retain(|written| written != path);
        Ok(())
    }

    /// Stops all writing if the failure leaves it unknown what is on disk; says whether it does.
    pub(crate) fn poison_after(&self, error: &Error) -> bool {
        let unknown = error.leaves_disk_unknown();
        if unknown {
            self.database.poison();
        }
        unknown
    }

    /// Leaves the written files where they are when the writer is dropped.
    fn forget_written(&self) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Gives the written files their names, durably.
    fn publish(&self, any: bool) -> Result<()> {
        if !any {
            return Ok(());
        }
        let storage = self.storage();
        let mut folders = BTreeSet::new();
        for path in self.written.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let path = format!("{}/{path}", self.folder);
            storage.rename(&format!("{path}.tmp"), &path)?;
            folders.insert(crate::storage::parent(&path).to_owned());
        }
        for folder in &folders {
            storage.sync_dir(folder)?;
        }
        storage.sync_dir(&self.folder)?;
        storage.sync_dir("")
    }

    /// Removes files that no commit names: those of an interrupted writer, and, if nobody reads, those that were replaced.
    fn sweep(&self) -> Result<()> {
        let storage = self.storage();
        for entry in storage.list("")? {
            if [SETTINGS_FILE, OWNER_FILE].iter().any(|file| entry.name.strip_suffix(".tmp") == Some(file)) {
                storage.remove(&entry.name)?;
            }
        }
        self.sweep_spill()?;
        self.sweep_manifest()?;
        let nobody_reads = storage.try_lock(READERS_LOCK, LockMode::Exclusive)?;
        let next = format!("{:08}.", self.next_epoch());
        for folder in storage.list(&self.folder)?.into_iter().filter(|entry| entry.name.starts_with("date=")) {
            let folder = folder.name;
            let mut remaining = 0;
            let entries = storage.list(&format!("{}/{folder}", self.folder))?;
            for entry in &entries {
                let path = format!("{folder}/{}", entry.name);
                let ours = ["arrow", "parquet", "dense", "index", "tmp"].iter().any(|e| entry.name.ends_with(e))
                    && !entry.is_dir;
                let never_committed = entry.name.ends_with(".tmp") || entry.name.as_str() >= next.as_str();
                if ours && !self.is_named(&path) && (never_committed || nobody_reads.is_some()) {
                    storage.remove(&format!("{}/{path}", self.folder))?;
                } else {
                    remaining += 1;
                }
            }
            if remaining == 0 && !self.state().is_some_and(|state| state.has_folder(&folder)) {
                storage.remove_dir(&format!("{}/{folder}", self.folder))?;
            }
        }
        Ok(())
    }

    fn sweep_spill(&self) -> Result<()> {
        for entry in self.storage().list(SPILL_FOLDER)? {
            self.storage().remove(&format!("{SPILL_FOLDER}/{}", entry.name))?;
        }
        Ok(())
    }

    /// Removes logs that HEAD doesn't name, and a HEAD that didn't get its name. A reader that wants an old log starts anew.
    fn sweep_manifest(&self) -> Result<()> {
        let folder = format!("{}/{}", self.folder, manifest::FOLDER);
        let current = self.last_commit.as_ref().map(|(head, _)| manifest::log_path(&self.folder, head.log));
        for entry in self.storage().list(&folder)? {
            let path = format!("{folder}/{}", entry.name);
            let ours = [".log", ".tmp"].iter().any(|end| entry.name.ends_with(end)) && !entry.is_dir;
            if ours && current.as_ref() != Some(&path) {
                self.storage().remove(&path)?;
            }
        }
        Ok(())
    }

    fn is_named(&self, path: &str) -> bool {
        let Some(state) = self.state() else { return false };
        let Some((stem, extension)) = path.rsplit_once('.') else { return false };
        match extension {
            "index" => ["arrow", "parquet", "dense"].iter().any(|format| state.has_file(&format!("{stem}.{format}"))),
            _ => state.has_file(path),
        }
    }
}

/// Nanoseconds since the epoch, by this machine's clock.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i64::try_from(since).unwrap_or(i64::MAX)
}

/// Refuses a table that has no HEAD but was committed. Only what a first load left when it was interrupted may be swept.
fn refuse_lost_head(storage: &dyn Storage, table: &str) -> Result<()> {
    let mut was_created = manifest::was_created(storage, table)?;
    // Tables of older releases have no such mark. Files of a later commit than the first show it too.
    for folder in storage.list(table)?.into_iter().filter(|entry| entry.is_dir) {
        let first = if folder.name == manifest::FOLDER { "000001." } else { "00000001." };
        let entries = storage.list(&format!("{table}/{}", folder.name))?;
        let is_later = |name: &str| name.starts_with(|c: char| c.is_ascii_digit()) && !name.starts_with(first);
        was_created |= entries.iter().any(|entry| !entry.is_dir && is_later(&entry.name));
    }
    if was_created { Err(manifest::lost_head(storage, table)) } else { Ok(()) }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let written = std::mem::take(self.written.get_mut().unwrap_or_else(PoisonError::into_inner));
        for path in written {
            // A file that can't be removed is swept by the next writer.
            let _ = self.database.storage().remove(&format!("{}/{path}.tmp", self.folder));
            let _ = self.database.storage().remove(&format!("{}/{path}", self.folder));
        }
        let _ = self.sweep_spill();
    }
}
