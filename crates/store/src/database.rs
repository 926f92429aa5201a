//! A database: a folder of tables. And a table's snapshots: what a reader sees.
//!
//! - One process at a time changes a database, any number read it. A snapshot is one commit's state and stays so.
//! - Opening reads `splay.toml`; a table's manifest is read when the table is first used; segments when they are read.
//! - Nothing has to be repaired after a crash: what was not committed isn't seen, and the next writer sweeps it.

mod access;
mod live_rows;
mod snapshot_source;
mod table_folders;
mod views;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use crate::access::ReadAccess;
use crate::encryption::EncryptionKeys;
use crate::error::{Error, Result};
use crate::folder_layout::{READERS_LOCK, SETTINGS_FILE, WRITER_LOCK};
use crate::manifest::{self, FileEntry, Head, HeadFile, Source, TableState};
use crate::newest_date::newest_date;
use crate::object::{ObjectPlace, ObjectTier};
use crate::row_order::follow_each_other;
use crate::schema::TableSpec;
use crate::segment::{Segment, SegmentPlace};
use crate::settings::Settings;
use crate::storage::{self, LocalStorage, LockMode, ReadWatch, Storage};
use crate::tier::Tier;
use crate::views::ReadViews;
use crate::write_down_position::WriteDownPosition;

pub use live_rows::{CapturedRows, FollowedRows, LiveRows, ReleasedName};
pub(crate) use snapshot_source::{CommitSource, SnapshotSource};
pub(crate) use table_folders::{NamedFolder, validate_folder};

/// An open database. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {
    pub(crate) shared: Arc<DatabaseState>,
    /// The commits at which tables are read, if they aren't read at their last ones.
    pub(crate) pinned: Option<Arc<dyn CommitSource>>,
    /// The snapshots of a transaction, from which tables are read; `None` if their present state is read.
    pub(crate) snapshots: Option<Arc<dyn SnapshotSource>>,
}

#[derive(Debug)]
pub(crate) struct DatabaseState {
    storage: Arc<dyn Storage>,
    settings: Settings,
    objects: Arc<ObjectPlace>,
    keys: Arc<EncryptionKeys>,
    poisoned: AtomicBool,
    /// By folder.
    tables: Mutex<HashMap<String, Arc<TableCache>>>,
    /// The lease of the snapshots that live. A new one shares it, since it was taken before.
    lease: Mutex<Weak<Lease>>,
    followed: RwLock<Option<Arc<dyn FollowedRows>>>,
    captured_elsewhere: AtomicBool,
    captured: RwLock<Option<Arc<dyn CapturedRows>>>,
    views: Mutex<Option<ReadViews>>,
    access: Mutex<Option<ReadAccess>>,
}

/// A shared lock on the readers' file: as long as it is held, no writer removes a file.
#[derive(Debug)]
struct Lease {
    _lock: Box<dyn std::fmt::Debug + Send + Sync>,
}

/// The cached state of a table.
#[derive(Debug)]
struct TableCache {
    /// Its folder within the database's.
    folder: Arc<str>,
    /// Its path, for messages and watches.
    path: Arc<Path>,
    /// The table's name as of the last look; `None` before it, and for a table that was dropped.
    name: RwLock<Option<String>>,
    last: Mutex<Option<LastCommit>>,
    live: RwLock<Option<Arc<dyn LiveRows>>>,
    damage: Mutex<ManifestDamage>,
}

/// The damage of a table's manifest.
#[derive(Debug, Default)]
struct ManifestDamage {
    /// The error of the last look at the manifest.
    message: Option<String>,
    /// The error of every look until capture ends; see [`Table::withhold`].
    withheld: Option<Error>,
}

impl TableCache {
    fn new(folder: &str, path: &Path) -> TableCache {
        let (name, last, live, damage) = (RwLock::default(), Mutex::default(), RwLock::default(), Mutex::default());
        TableCache { folder: folder.into(), path: path.into(), name, last, live, damage }
    }

    fn name(&self) -> Option<String> {
        self.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_called(&self, name: &str) -> bool {
        let current_name = self.name.read().unwrap_or_else(PoisonError::into_inner);
        current_name.as_ref().is_some_and(|current_name| current_name.eq_ignore_ascii_case(name))
    }

    /// Notes what a look has found it to be called.
    fn note_name(&self, state: &TableState) {
        let name = (!state.dropped).then(|| state.spec.name.clone());
        *self.name.write().unwrap_or_else(PoisonError::into_inner) = name;
    }

    fn damage(&self) -> std::sync::MutexGuard<'_, ManifestDamage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The commit that was seen last, and the HEAD that named it.
#[derive(Debug)]
struct LastCommit {
    file: HeadFile,
    commit: Arc<CommitView>,
}

/// A table at one commit.
#[derive(Debug)]
struct CommitView {
    /// The table's folder.
    folder: Arc<str>,
    head: Head,
    state: Arc<TableState>,
    partitions: Vec<Partition>,
    /// Unreadable pages of its segments, when they were last checked.
    unreadable: u64,
}

/// Rows of one date, as a snapshot has them.
///
/// The table's order within it is (symbol, time, arrival).
#[derive(Debug, Clone)]
pub struct Partition {
    /// Days since 1970-01-01, in the table's time zone.
    pub date: i32,
    /// For each symbol, the rows of a segment are later than the rows of the segments before it.
    pub segments: Arc<[Arc<Segment>]>,
    in_sequence: bool,
}

impl Partition {
    pub(crate) fn new(spec: &TableSpec, date: i32, segments: Vec<Arc<Segment>>) -> Partition {
        let in_sequence = follow_each_other(spec, segments.iter().map(|segment| segment.entry()));
        Partition { date, segments: segments.into(), in_sequence }
    }

    /// Whether each segment's rows come, in the table's order, behind those of the one before. If not, symbols are spread over
    /// the segments, and the table's order goes from symbol to symbol, and with each through all segments.
    #[must_use]
    pub fn is_in_sequence(&self) -> bool {
        self.in_sequence
    }

    /// Rows of all segments.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows()).sum()
    }
}

impl Database {
    /// Creates a database in a folder, which may exist if it is empty.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder holds something or can't be made.
    pub fn create(path: impl AsRef<Path>) -> Result<Database> {
        let path = path.as_ref();
        storage::create_folder(path)?;
        Database::create_on(Arc::new(LocalStorage::new(path)), &Settings::default())
    }

    /// Opens a database.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if the folder holds none; [`Error::NotAFolder`] for an address.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        storage::refuse_address(path.as_ref())?;
        Database::open_on(Arc::new(LocalStorage::new(path.as_ref())))
    }

    /// Opens a database, or creates it if the folder is absent or empty.
    ///
    /// # Errors
    /// As [`Database::open`] and [`Database::create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Database> {
        match Database::open(&path) {
            Err(Error::NotADatabase { .. }) => Database::create(path),
            other => other,
        }
    }

    /// Creates a database on any storage.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub fn create_on(storage: Arc<dyn Storage>, settings: &Settings) -> Result<Database> {
        settings.validate()?;
        let entries = storage.list("")?;
        // An interrupted creation leaves these.
        let ours = |name: &str| name == READERS_LOCK || name == format!("{SETTINGS_FILE}.tmp") || name == WRITER_LOCK;
        if let Some(entry) = entries.iter().find(|entry| !ours(&entry.name)) {
            let source = std::io::Error::new(
                std::io::ErrorKind::DirectoryNotEmpty,
                format!("it holds {:?}; a database is created in an empty folder", entry.name),
            );
            return Err(Error::Io { act: "create a database in", path: storage.display_path(""), source });
        }
        if !entries.iter().any(|entry| entry.name == READERS_LOCK) {
            drop(storage.create(READERS_LOCK)?);
        }
        // Before there is a database: without the file readers would have no leases.
        storage.sync_dir("")?;
        storage::replace(storage.as_ref(), SETTINGS_FILE, settings.to_toml().as_bytes())?;
        Database::open_on(storage)
    }

    /// Opens a database on any storage.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_on(storage: Arc<dyn Storage>) -> Result<Database> {
        Database::open_with(storage, None)
    }

    /// Opens a database on any storage, with an object store instead of the one that its settings name.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_with(storage: Arc<dyn Storage>, objects: Option<Arc<ObjectTier>>) -> Result<Database> {
        let settings = match storage.read(SETTINGS_FILE) {
            Ok(bytes) => Settings::parse(&bytes, &storage.display_path(SETTINGS_FILE))?,
            Err(error) if error.is_not_found() => {
                return Err(Error::NotADatabase { path: storage.display_path("") });
            }
            Err(error) => return Err(error),
        };
        let objects = match objects {
            Some(tier) => ObjectPlace::on(tier),
            None => ObjectPlace::of(settings.tier.object.as_ref()),
        };
        let keys = Arc::new(EncryptionKeys::of(settings.encryption.as_ref()));
        let shared = DatabaseState {
            storage,
            settings,
            objects: Arc::new(objects),
            keys,
            poisoned: AtomicBool::new(false),
            tables: Mutex::default(),
            lease: Mutex::default(),
            followed: RwLock::default(),
            captured_elsewhere: AtomicBool::new(false),
            captured: RwLock::default(),
            views: Mutex::default(),
            access: Mutex::default(),
        };
        Ok(Database { shared: Arc::new(shared), pinned: None, snapshots: None })
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Its object store.
    ///
    /// # Errors
    /// [`Error::Setting`] if the settings name none, or one that this build can't open.
    pub fn objects(&self) -> Result<&Arc<ObjectTier>> {
        self.shared.objects.get()
    }

    /// The object store for segments, of which few need it: nothing is opened before.
    pub(crate) fn object_place(&self) -> &Arc<ObjectPlace> {
        &self.shared.objects
    }

    /// The keys of encrypted segments.
    pub(crate) fn keys(&self) -> &Arc<EncryptionKeys> {
        &self.shared.keys
    }

    /// Makes sure that the object store answers, and that this database may write there.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Object`]; [`Error::Refused`] where another database writes; the first time [`Error::Locked`] while this one
    /// is written.
    pub fn claim_objects(&self) -> Result<()> {
        let (tier, storage) = (self.objects()?, self.storage().as_ref());
        if tier.has_claimed(storage)? {
            return tier.check_owner(storage);
        }
        // Two processes of one database must not make two marks.
        let _lock = self.lock_writer()?;
        tier.claim(storage)
    }

    /// Takes the object store from the database that writes there, which is refused from then on. For a follower that was promoted and a
    /// backup that was restored, once the other database is stopped for good.
    ///
    /// # Errors
    /// [`Error::Locked`] while this one is written; others as [`Database::claim_objects`].
    pub fn take_over_objects(&self) -> Result<()> {
        let _lock = self.lock_writer()?;
        self.objects()?.take_over(self.storage().as_ref())
    }

    /// Its folder, for messages.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        self.shared.storage.display_path("")
    }

    /// Opens every table, so that [`Database::damaged`] lists all unreadable ones.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder can't be read.
    pub fn look_at_tables(&self) -> Result<()> {
        for name in self.tables()? {
            // Damage of the table is recorded in its cache.
            let _ = self.table(&name).and_then(|table| table.stored());
        }
        Ok(())
    }

    /// The tables that couldn't be read when they were last looked at, by name, and why. They are damaged; the others are served.
    /// Reads nothing.
    #[must_use]
    pub fn damaged(&self) -> Vec<(String, String)> {
        let tables = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |cache: &Arc<TableCache>| {
            let message = cache.damage().message.clone()?;
            Some((cache.name().unwrap_or_else(|| cache.folder.to_string()), message))
        };
        let mut damaged_tables: Vec<(String, String)> = tables.values().filter_map(of).collect();
        damaged_tables.sort();
        damaged_tables
    }

    /// A table, matched without regard to case. It may be damaged, which its snapshots tell.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        if let Some((name, cache)) = self.cached_table(name) {
            return Ok(Table { database: self.clone(), cache, name });
        }
        match self.place_of(name)? {
            Some(place) => Ok(self.table_at(place)),
            None => Err(Error::NoSuchTable { table: name.to_owned(), existing: self.tables()? }),
        }
    }

    /// Brings rows of a table that this process has captured into the table's files.
    pub(crate) fn settle(&self, table: &str) -> Result<()> {
        let captured = self.shared.captured.read().unwrap_or_else(PoisonError::into_inner).clone();
        captured.map_or(Ok(()), |captured| captured.settle(table))
    }

    /// Whether this process captures rows.
    #[must_use]
    pub fn captures(&self) -> bool {
        self.shared.captured.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether this process captures rows of a table.
    pub(crate) fn is_captured(&self, table: &str) -> bool {
        let captured = self.shared.captured.read().unwrap_or_else(PoisonError::into_inner).clone();
        captured.is_some_and(|captured| captured.takes(table))
    }

    /// The table in a folder whose present or former name is known.
    pub(crate) fn table_at(&self, place: NamedFolder) -> Table {
        Table { database: self.clone(), cache: self.cache(&place.folder), name: place.name }
    }

    /// Drops the cached table of a folder, so that it is looked up again when it is next used.
    pub(crate) fn forget(&self, folder: &str) {
        self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
    }

    /// Makes look-ups by name read the HEAD of the table in a folder again, which has lost its name. Handles of the table go on.
    pub(crate) fn forget_name(&self, folder: &str) {
        let cache = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner).get(folder).cloned();
        if let Some(cache) = cache {
            // A look at the manifest that is under way notes the old name before this.
            let _last = cache.last.lock().unwrap_or_else(PoisonError::into_inner);
            *cache.name.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Runs a commit that takes a name from a table, as [`CapturedRows::release_name`] where this process captures.
    pub(crate) fn release_name(&self, name: ReleasedName<'_>, commit: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let captured = self.shared.captured.read().unwrap_or_else(PoisonError::into_inner).clone();
        match captured {
            Some(captured) => captured.release_name(name, commit),
            None => commit(),
        }
    }

    /// Says whether another process captures into the database: tables can't be dropped then.
    pub fn capture_elsewhere(&self, captures: bool) {
        self.shared.captured_elsewhere.store(captures, Ordering::Release);
    }

    /// Whether another process captures, as far as this one knows.
    pub(crate) fn is_captured_elsewhere(&self) -> bool {
        self.shared.captured_elsewhere.load(Ordering::Acquire)
    }

    /// Whether rows that others took are followed.
    pub(crate) fn follows_others(&self) -> bool {
        self.followed().is_some()
    }

    /// Registers who captures into this database in this process; `None` when capture has ended.
    pub fn capture(&self, captured: Option<Arc<dyn CapturedRows>>) {
        *self.shared.captured.write().unwrap_or_else(PoisonError::into_inner) = captured;
    }

    /// From now on snapshots that this process takes have the rows, too, that others took and that are in no table's files yet; with
    /// `None` no longer. They go before rows that were attached to a table: who attaches its own ends this first. Gives what was
    /// followed before.
    pub fn follow(&self, followed: Option<Arc<dyn FollowedRows>>) -> Option<Arc<dyn FollowedRows>> {
        let mut slot = self.shared.followed.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut slot, followed)
    }

    fn followed(&self) -> Option<Arc<dyn FollowedRows>> {
        self.shared.followed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.shared.storage
    }

    /// The lock of the one writer.
    pub(crate) fn lock_writer(&self) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
        if self.is_poisoned() {
            return Err(Error::Poisoned);
        }
        let lock = self.storage().try_lock(WRITER_LOCK, LockMode::Exclusive)?;
        lock.ok_or_else(|| Error::Locked { path: self.storage().display_path(WRITER_LOCK) })
    }

    /// A segment of the table in a folder.
    pub(crate) fn segment(&self, folder: &str, entry: &FileEntry, checks_data: bool) -> Segment {
        let place = SegmentPlace { storage: self.storage(), objects: self.object_place(), keys: self.keys() };
        Segment::new(&place, folder.to_owned(), entry.clone(), checks_data)
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.shared.poisoned.load(Ordering::Acquire)
    }

    pub(crate) fn poison(&self) {
        self.shared.poisoned.store(true, Ordering::Release);
    }

    /// A table that was found before.
    fn cached_table(&self, name: &str) -> Option<(String, Arc<TableCache>)> {
        let tables = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let of_folder = tables.get(name).filter(|cache| cache.is_called(name));
        let cache = of_folder.or_else(|| tables.values().find(|cache| cache.is_called(name)))?;
        Some((cache.name()?, Arc::clone(cache)))
    }

    fn cache(&self, folder: &str) -> Arc<TableCache> {
        let mut tables = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(TableCache::new(folder, &self.storage().display_path(folder)));
        Arc::clone(tables.entry(folder.to_owned()).or_insert_with(new))
    }

    /// The lease that snapshots of this database share, taken anew if none lives.
    fn lease(&self) -> Result<Arc<Lease>> {
        let mut shared = self.shared.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = shared.upgrade() {
            return Ok(lease);
        }
        loop {
            match self.storage().try_lock(READERS_LOCK, LockMode::Shared)? {
                Some(lock) => {
                    let lease = Arc::new(Lease { _lock: lock });
                    *shared = Arc::downgrade(&lease);
                    return Ok(lease);
                }
                // A writer is removing files; that takes a moment.
                None => std::thread::yield_now(),
            }
        }
    }
}

/// A table of a database.
#[derive(Debug, Clone)]
pub struct Table {
    database: Database,
    cache: Arc<TableCache>,
    name: String,
}

impl Table {
    /// The table's name when this handle was created.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's folder within the database's. It has the table's first name, with a number if that was another folder's.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.cache.folder
    }

    /// The table as it is now. Where nothing has changed since the last one it costs a lock and one look at a file, a few
    /// microseconds.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the manifest is damaged or lost.
    pub fn snapshot(&self) -> Result<TableSnapshot> {
        if let Some(pinned) = &self.database.pinned {
            return pinned.snapshot(self);
        }
        match &self.database.snapshots {
            Some(snapshots) => snapshots.snapshot(self),
            None => self.newest(),
        }
    }

    /// The table as it is now, without regard to the snapshots of a transaction.
    pub(crate) fn newest(&self) -> Result<TableSnapshot> {
        if let Some(followed) = self.database.followed() {
            return followed.over(self, &|| self.stored());
        }
        loop {
            let live = self.live_rows();
            let newest = match &live {
                Some(live) => live.over(&|| self.stored_here()),
                None => self.stored_here(),
            };
            let is_same = match (&live, &self.live_rows()) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            match newest {
                // The table lost its name meanwhile: its live rows are in files.
                Err(_) if !is_same => {}
                Err(Error::NoSuchTable { .. }) => match self.successor()? {
                    Some(other) => return other.newest(),
                    None => return newest,
                },
                newest => return newest,
            }
        }
    }

    fn live_rows(&self) -> Option<Arc<dyn LiveRows>> {
        self.cache.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The table as its files are now, without live rows.
    ///
    /// # Errors
    /// As [`Table::snapshot`].
    pub fn stored(&self) -> Result<TableSnapshot> {
        match self.stored_here() {
            Err(error @ Error::NoSuchTable { .. }) => match self.successor()? {
                Some(other) => other.stored_here(),
                None => Err(error),
            },
            stored => stored,
        }
    }

    /// The files of its folder as they are now, unless the table there was dropped or renamed.
    fn stored_here(&self) -> Result<TableSnapshot> {
        let stored = self.stored_or_dropped()?;
        if stored.state().is_called(&self.name) {
            return Ok(stored);
        }
        Err(Error::NoSuchTable { table: self.name.clone(), existing: self.database.tables()? })
    }

    /// The table of another folder that has the name now.
    fn successor(&self) -> Result<Option<Table>> {
        let place = self.database.place_of(&self.name)?.filter(|place| *place.folder != *self.cache.folder);
        Ok(place.map(|place| self.database.table_at(place)))
    }

    /// The files of the table's folder as they are now, also for a table that was dropped or renamed.
    pub(crate) fn stored_or_dropped(&self) -> Result<TableSnapshot> {
        if let Some(error) = &self.cache.damage().withheld {
            return Err(error.repeated());
        }
        let stored = self.read_manifest();
        let message = stored.as_ref().err().filter(|error| error.is_damage()).map(Error::to_string);
        if message.is_some() || stored.is_ok() {
            self.cache.damage().message = message;
        }
        stored
    }

    fn read_manifest(&self) -> Result<TableSnapshot> {
        let storage = self.database.storage().as_ref();
        // Taken before the manifest is read: from now on no file that it names is removed.
        let lease = self.database.lease()?;
        let (folder, watch) = (&*self.cache.folder, ReadWatch::begin(Arc::clone(&self.cache.path)));
        let unreadable = watch.since();
        let mut last = self.cache.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(LastCommit { file, commit }) = last.as_ref()
            && file.is_current(storage, folder).map_err(|error| self.without_head(error))?
        {
            if commit.unreadable == unreadable {
                return Ok(TableSnapshot { commit: Arc::clone(commit), live: 0, watch, _lease: lease });
            }
            // Segments that couldn't be read are opened anew: they may be sound again.
            let (state, partitions) = (Arc::clone(&commit.state), self.partitions(folder, &commit.state, Some(commit)));
            let (folder, head) = (Arc::clone(&commit.folder), commit.head.clone());
            let commit = Arc::new(CommitView { folder, head, state, partitions, unreadable });
            if let Some(last) = last.as_mut() {
                last.commit = Arc::clone(&commit);
            }
            return Ok(TableSnapshot { commit, live: 0, watch, _lease: lease });
        }
        let before = last.as_ref().map(|last| (last.commit.head.clone(), Arc::clone(&last.commit.state)));
        let refreshed = manifest::refresh(storage, folder, before.as_ref());
        let (file, state) = refreshed.map_err(|error| self.without_head(error))?;
        self.cache.note_name(&state);
        let commit = match last.take() {
            Some(last) if last.commit.head == file.head && last.commit.unreadable == unreadable => last.commit,
            other => {
                let partitions = self.partitions(folder, &state, other.as_ref().map(|last| last.commit.as_ref()));
                let (folder, head) = (Arc::clone(&self.cache.folder), file.head.clone());
                Arc::new(CommitView { folder, head, state, partitions, unreadable })
            }
        };
        *last = Some(LastCommit { file, commit: Arc::clone(&commit) });
        Ok(TableSnapshot { commit, live: 0, watch, _lease: lease })
    }

    /// The table was found, so that its HEAD has to be there.
    fn without_head(&self, error: Error) -> Error {
        if error.is_not_found() { manifest::lost_head(self.database.storage().as_ref(), self.folder()) } else { error }
    }

    /// Segments that were there before are kept open.
    fn partitions(&self, folder: &str, state: &TableState, before: Option<&CommitView>) -> Vec<Partition> {
        let mut open_segments: HashMap<&str, &Arc<Segment>> = HashMap::new();
        for partition in before.into_iter().flat_map(|commit| commit.partitions.iter()) {
            open_segments.extend(partition.segments.iter().map(|segment| (segment.entry().path.as_str(), segment)));
        }
        let mut partitions: Vec<(i32, Vec<Arc<Segment>>)> = Vec::new();
        for entry in state.files.values() {
            let segment = match open_segments.get(entry.path.as_str()) {
                Some(segment) if segment.entry() == entry && !segment.is_unreadable() => Arc::clone(segment),
                _ => Arc::new(self.segment(folder, entry)),
            };
            match partitions.last_mut().filter(|(date, _)| *date == entry.date) {
                Some((_, segments)) => segments.push(segment),
                None => partitions.push((entry.date, vec![segment])),
            }
        }
        // Paths sort as texts; dates before the year 0 or after 9999 don't.
        partitions.sort_by_key(|(date, _)| *date);
        partitions.into_iter().map(|(date, segments)| Partition::new(&state.spec, date, segments)).collect()
    }

    fn segment(&self, folder: &str, entry: &FileEntry) -> Segment {
        let checks = self.database.settings().verify_on_read;
        self.database.segment(folder, entry, checks)
    }

    pub(crate) fn settle(&self) -> Result<()> {
        self.database.settle(&self.name)
    }

    /// The table in an earlier state, under the lease of a snapshot that was taken since.
    pub(crate) fn past(&self, now: &TableSnapshot, state: TableState) -> TableSnapshot {
        let (head, unreadable) = (Head { epoch: state.epoch, ..now.commit.head.clone() }, now.commit.unreadable);
        let (folder, partitions) =
            (Arc::clone(&now.commit.folder), self.partitions(&now.commit.folder, &state, Some(&now.commit)));
        let commit = CommitView { folder, head, state: Arc::new(state), partitions, unreadable };
        TableSnapshot { commit: Arc::new(commit), live: 0, watch: now.watch.clone(), _lease: Arc::clone(&now._lease) }
    }

    /// From now on snapshots that this process takes of the table have live rows, too; with `None` they no longer have.
    pub fn attach(&self, live: Option<Arc<dyn LiveRows>>) {
        *self.cache.live.write().unwrap_or_else(PoisonError::into_inner) = live;
    }

    /// From now on every snapshot that this process takes of the table fails with this error, even if the files are sound again; with
    /// `None` no longer. For a table that was damaged when rows of it should have come back to memory: without them it isn't whole.
    pub fn withhold(&self, error: Option<Error>) {
        let mut damage = self.cache.damage();
        damage.message = error.as_ref().map(Error::to_string);
        damage.withheld = error;
    }

    /// The database that it belongs to.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// A table at one commit. Its files stay until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct TableSnapshot {
    commit: Arc<CommitView>,
    /// Number of the state of the live rows.
    live: u64,
    watch: ReadWatch,
    _lease: Arc<Lease>,
}

impl TableSnapshot {
    /// This snapshot with some partitions replaced or added. `live` numbers the live rows over one commit: other rows
    /// have another number.
    #[must_use]
    pub fn with_partitions(&self, live: u64, partitions: Vec<(i32, Vec<Arc<Segment>>)>) -> TableSnapshot {
        let mut all = self.commit.partitions.clone();
        for (date, segments) in partitions {
            let partition = Partition::new(self.spec(), date, segments);
            match all.binary_search_by_key(&date, |partition| partition.date) {
                Ok(place) => all[place] = partition,
                Err(place) => all.insert(place, partition),
            }
        }
        let (state, unreadable) = (Arc::clone(&self.commit.state), self.commit.unreadable);
        let (folder, head) = (Arc::clone(&self.commit.folder), self.commit.head.clone());
        let commit = CommitView { folder, head, state, partitions: all, unreadable };
        TableSnapshot { commit: Arc::new(commit), live, watch: self.watch.clone(), _lease: Arc::clone(&self._lease) }
    }

    /// This snapshot with only these partitions.
    pub(crate) fn of_partitions(&self, partitions: Vec<Partition>) -> TableSnapshot {
        let (folder, head) = (Arc::clone(&self.commit.folder), self.commit.head.clone());
        let (state, unreadable) = (Arc::clone(&self.commit.state), self.commit.unreadable);
        let commit = CommitView { folder, head, state, partitions, unreadable };
        TableSnapshot { commit: Arc::new(commit), ..self.clone() }
    }

    /// The watch over the snapshot's files. Rows are slices of mapped files, and a page that can't be read contains
    /// zeros: check the watch before any result computed from them leaves.
    #[must_use]
    pub fn watch(&self) -> &ReadWatch {
        &self.watch
    }

    /// The captured rows that are in the table's files.
    #[must_use]
    pub fn captured(&self) -> WriteDownPosition {
        self.commit.state.captured
    }

    /// Number of the state of the live rows; 0 if there are none.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// The table's definition.
    #[must_use]
    pub fn spec(&self) -> &TableSpec {
        &self.commit.state.spec
    }

    /// The table's folder within the database's, which is another one for each table, whatever they are called.
    #[must_use]
    pub fn folder(&self) -> &Arc<str> {
        &self.commit.folder
    }

    /// Number of the commit.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.commit.state.epoch
    }

    /// Partitions by date.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.commit.partitions
    }

    /// Rows of the table.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.partitions().iter().map(Partition::rows).sum()
    }

    /// Bytes of all segments and indexes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sizes = self.commit.state.files.values().flat_map(|entry| [entry.bytes, entry.index_bytes]);
        sizes.fold(0, u64::saturating_add)
    }

    pub(crate) fn state(&self) -> &TableState {
        &self.commit.state
    }

    /// Its files, in the order of their paths.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &FileEntry> + Clone {
        self.commit.state.files.values()
    }

    /// The dates that aren't kept in the tier of their age, the oldest first, with that tier.
    #[must_use]
    pub fn due_moves(&self) -> Vec<(i32, Tier)> {
        let newest = newest_date(self.spec(), self.entries());
        let mut due = std::collections::BTreeMap::new();
        for entry in self.entries() {
            if let Some(tier) = self.spec().tier_of(entry.date, newest).filter(|tier| *tier != entry.tier) {
                due.insert(entry.date, tier);
            }
        }
        due.into_iter().collect()
    }

    /// Files of earlier commits that aren't removed yet, so that the table can be read as it was and commits be undone.
    pub fn undo_files(&self) -> impl Iterator<Item = &FileEntry> {
        self.commit.state.history.retired().values().map(|retired| &retired.entry)
    }

    /// Whether the table's retention has removed rows since the table was created.
    #[must_use]
    pub fn has_expired(&self) -> bool {
        self.commit.state.history.expired().is_some()
    }

    /// The sources that were loaded, each with its commit.
    pub fn sources(&self) -> impl Iterator<Item = &(Source, u64)> {
        self.commit.state.sources.values()
    }
}
