//! Storage in memory that knows what would survive a power cut, and that fails on request.
//!
//! - Each file has a live image, which the process sees, and a durable image, which is what was synced. Each folder has live
//!   and durable names in the same way.
//! - [`FaultStorage::crash`] gives storage as a power cut could leave it: of each file any subset of the unsynced 512-byte
//!   sectors, at any length between the durable and the live one, or up to where an unsynced cut was made; of each folder any subset
//!   of the unsynced changes to names.
//! - [`FaultStorage::stop_after`]: every operation after the n-th fails, as if the process had died there.
//! - [`FaultStorage::fail_at`]: only the n-th operation fails, as on a bad disk. [`FaultStorage::fail_read_at`]: only
//!   the n-th read of a file or folder fails. [`FaultStorage::fail_each`]: each n-th call fails, operation or read.
//! - [`FaultStorage::capacity`]: writes fail once the disk has this many bytes. [`FaultStorage::free_bytes`]: the free
//!   space that the storage reports, which may differ from the truth.
//! - A seed repeats a run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::buffer::MutableBuffer;
use bytes::Bytes;

use super::{
    DiskSpace, FileIdentity, IdentifiedFile, LockMode, MappedBytes, Storage, StorageEntry, StorageFile, join, parent,
};
use crate::error::{Error, Result};

const SECTOR_BYTES: usize = 512;

/// Chooses the sectors and name changes that survive: it is called with a bound and answers below it.
pub type Chooser<'a> = &'a mut dyn FnMut(usize) -> usize;

#[derive(Debug, Clone, Default)]
struct FileImage {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// The bytes before the file was cut, until the cut is synced.
    before_cut: Vec<u8>,
    /// Bytes of the disk that it takes and that mean nothing.
    allocated: u64,
}

impl FileImage {
    fn length(&self) -> u64 {
        self.live.len() as u64 + self.allocated
    }

    fn cut(&mut self, length: usize) {
        if self.live.len() > length.max(self.before_cut.len()) {
            self.before_cut.clone_from(&self.live);
        }
        self.live.truncate(length);
    }

    fn sync(&mut self) {
        self.durable.clone_from(&self.live);
        self.before_cut.clear();
    }

    /// Leaves what a power cut may leave.
    fn crash(&mut self, choose: Chooser<'_>) {
        if self.before_cut.len() > self.live.len() && choose(2) == 1 {
            self.live.extend_from_slice(&self.before_cut[self.live.len()..]);
        }
        if self.live != self.durable {
            self.live = tear(&self.durable, &self.live, choose);
        }
        self.sync();
    }
}

/// A folder's names: to a file's number, or to `None` for a folder.
type FolderNames = BTreeMap<String, Option<usize>>;

#[derive(Debug, Clone, Default)]
struct DirImage {
    live: FolderNames,
    durable: FolderNames,
}

#[derive(Debug, Default)]
struct FaultStorageState {
    files: Vec<FileImage>,
    dirs: BTreeMap<String, DirImage>,
    locks: BTreeMap<String, (LockMode, usize)>,
    operations: u64,
    reads: u64,
    fail_read_at: Option<u64>,
    fail_each: Option<u64>,
    stop_after: Option<u64>,
    fail_at: Option<u64>,
    capacity: Option<usize>,
    free_bytes: Option<u64>,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct FaultStorage {
    state: Arc<Mutex<FaultStorageState>>,
}

impl Default for FaultStorage {
    fn default() -> FaultStorage {
        let mut state = FaultStorageState::default();
        state.dirs.insert(String::new(), DirImage::default());
        FaultStorage { state: Arc::new(Mutex::new(state)) }
    }
}

impl FaultStorage {
    /// Empty storage without faults.
    #[must_use]
    pub fn new() -> FaultStorage {
        FaultStorage::default()
    }

    fn state(&self) -> MutexGuard<'_, FaultStorageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations done so far that change or sync something.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Every changing or syncing operation after the next `n` fails; `None` takes it back.
    pub fn stop_after(&self, n: Option<u64>) {
        let mut state = self.state();
        state.stop_after = n.map(|n| state.operations + n);
    }

    /// The `n`-th operation from now (the next is 0) fails once; `None` takes it back.
    pub fn fail_at(&self, n: Option<u64>) {
        let mut state = self.state();
        state.fail_at = n.map(|n| state.operations + n);
    }

    /// The number of reads of files and folders so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// The `n`-th look at a file or a folder from now (the next is 0) fails once; `None` takes it back.
    pub fn fail_read_at(&self, n: Option<u64>) {
        let mut state = self.state();
        state.fail_read_at = n.map(|n| state.reads + n);
    }

    /// Each `n`-th call fails, whether it looks or changes; `None` takes it back.
    pub fn fail_each(&self, n: Option<u64>) {
        self.state().fail_each = n;
    }

    /// The disk holds `bytes`, no more; `None` for an endless one.
    pub fn capacity(&self, bytes: Option<usize>) {
        self.state().capacity = bytes;
    }

    /// Sets the free bytes that the disk reports, whatever it holds; `None` for the truth.
    pub fn free_bytes(&self, bytes: Option<u64>) {
        self.state().free_bytes = bytes;
    }

    /// Bytes of all files as the process sees them.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state().used()
    }

    /// An independent copy of the live content, all of it durable: what a clean stop leaves.
    #[must_use]
    pub fn copy(&self) -> FaultStorage {
        let state = self.state();
        let mut files = state.files.clone();
        files.iter_mut().for_each(FileImage::sync);
        let mut dirs = state.dirs.clone();
        for dir in dirs.values_mut() {
            dir.durable.clone_from(&dir.live);
        }
        FaultStorage::of(files, dirs)
    }

    /// Storage as a power cut at this instant could leave it. `choose(n)` answers any number below `n`.
    pub fn crash(&self, choose: Chooser<'_>) -> FaultStorage {
        let state = self.state();
        let mut files = state.files.clone();
        for file in &mut files {
            file.crash(choose);
        }
        let mut dirs = BTreeMap::new();
        for (path, dir) in &state.dirs {
            let mut names = dir.durable.clone();
            let changed = |name: &&String| dir.live.get(*name) != dir.durable.get(*name);
            let all =
                dir.live.keys().chain(dir.durable.keys()).filter(changed).collect::<std::collections::BTreeSet<_>>();
            for name in all {
                if choose(2) == 0 {
                    continue;
                }
                match dir.live.get(name) {
                    Some(entry) => names.insert(name.clone(), *entry),
                    None => names.remove(name),
                };
            }
            dirs.insert(path.clone(), DirImage { live: names.clone(), durable: names });
        }
        FaultStorage::of(files, reachable(dirs))
    }

    fn of(files: Vec<FileImage>, dirs: BTreeMap<String, DirImage>) -> FaultStorage {
        FaultStorage { state: Arc::new(Mutex::new(FaultStorageState { files, dirs, ..FaultStorageState::default() })) }
    }

    /// Every file's path, in order.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let state = self.state();
        let mut files = Vec::new();
        let mut open = vec![String::new()];
        while let Some(folder) = open.pop() {
            for (name, entry) in state.dirs.get(&folder).map(|dir| &dir.live).into_iter().flatten() {
                let path = join(&folder, name);
                match entry {
                    Some(_) => files.push(path),
                    None => open.push(path),
                }
            }
        }
        files.sort();
        files
    }

    /// Changes a file's bytes below the store, as a failing disk would.
    ///
    /// # Errors
    /// If the file is absent.
    pub fn damage(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut state = self.state();
        let number = state.file(path)?;
        let file = &mut state.files[number];
        change(&mut file.live);
        file.sync();
        Ok(())
    }
}

/// The folders that can still be found by name: one whose own name was lost is gone with all it holds.
fn reachable(mut dirs: BTreeMap<String, DirImage>) -> BTreeMap<String, DirImage> {
    let mut reachable_dirs = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        if let Some(dir) = dirs.remove(&path) {
            open.extend(dir.live.iter().filter(|(_, entry)| entry.is_none()).map(|(name, _)| join(&path, name)));
            reachable_dirs.insert(path, dir);
        }
    }
    reachable_dirs
}

/// A possible rest of unsynced writes: any length from the durable to the live one, old or new bytes in each sector.
fn tear(durable: &[u8], live: &[u8], choose: Chooser<'_>) -> Vec<u8> {
    if choose(4) == 0 {
        return durable.to_vec();
    }
    let (short, long) = (durable.len().min(live.len()), durable.len().max(live.len()));
    let length = match choose(3) {
        0 => long,
        1 => short,
        _ => short + choose(long - short + 1),
    };
    let mut image = vec![0; length];
    for start in (0..length).step_by(SECTOR_BYTES) {
        let end = (start + SECTOR_BYTES).min(length);
        let source = if choose(2) == 0 { durable } else { live };
        let available = end.min(source.len());
        if available > start {
            image[start..available].copy_from_slice(&source[start..available]);
        }
    }
    image
}

impl FaultStorageState {
    fn used(&self) -> usize {
        let named: std::collections::BTreeSet<usize> =
            self.dirs.values().flat_map(|dir| dir.live.values().flatten().copied()).collect();
        let bytes = |file: &FileImage| file.live.len() + usize::try_from(file.allocated).unwrap_or(usize::MAX);
        named.into_iter().map(|number| bytes(&self.files[number])).sum()
    }

    fn room(&self) -> usize {
        self.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    /// Counts an operation and fails it when asked to.
    fn step(&mut self, act: &'static str, path: &str) -> Result<()> {
        let number = self.operations;
        self.operations += 1;
        let stopped = self.stop_after.is_some_and(|stop| number >= stop);
        if stopped || self.fail_at == Some(number) || self.is_turn() {
            return Err(injected_error(act, path));
        }
        Ok(())
    }

    /// Counts a look at a file or a folder and fails it when asked to.
    fn look(&mut self, act: &'static str, path: &str) -> Result<()> {
        let number = self.reads;
        self.reads += 1;
        if self.fail_read_at == Some(number) || self.is_turn() {
            return Err(injected_error(act, path));
        }
        Ok(())
    }

    /// Whether this call fails, of those of which every n-th one does.
    fn is_turn(&self) -> bool {
        self.fail_each.is_some_and(|each| (self.operations + self.reads).is_multiple_of(each))
    }

    fn file(&self, path: &str) -> Result<usize> {
        let entry = self.dirs.get(parent(path)).and_then(|dir| dir.live.get(name_of(path)));
        entry.copied().flatten().ok_or_else(|| not_found("open", path))
    }

    /// The folder that a path is in, if it has a name itself.
    fn dir(&mut self, path: &str) -> Result<&mut DirImage> {
        let folder = parent(path);
        let is_named = |dirs: &BTreeMap<String, DirImage>| {
            dirs.get(parent(folder)).is_some_and(|dir| dir.live.get(name_of(folder)) == Some(&None))
        };
        if !folder.is_empty() && !is_named(&self.dirs) {
            return Err(not_found("open", path));
        }
        self.dirs.get_mut(folder).ok_or_else(|| not_found("open", path))
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn injected_error(act: &'static str, path: &str) -> Error {
    Error::io(act, path)(std::io::Error::other("injected fault"))
}

fn not_found(act: &'static str, path: &str) -> Error {
    Error::io(act, path)(std::io::ErrorKind::NotFound.into())
}

#[derive(Debug)]
struct FaultFile {
    storage: FaultStorage,
    number: usize,
    path: String,
}

impl StorageFile for FaultFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.storage.state();
        state.step("write", &self.path)?;
        let fitting = &bytes[..bytes.len().min(state.room())];
        state.files[self.number].live.extend_from_slice(fitting);
        if fitting.len() < bytes.len() {
            return Err(Error::io("write", &self.path)(std::io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut state = self.storage.state();
        state.step("sync", &self.path)?;
        state.files[self.number].sync();
        Ok(())
    }
}

#[derive(Debug)]
struct FaultLock {
    storage: FaultStorage,
    path: String,
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let mut state = self.storage.state();
        if let Some((_, holders)) = state.locks.get_mut(&self.path) {
            *holders -= 1;
            if *holders == 0 {
                state.locks.remove(&self.path);
            }
        }
    }
}

/// Bytes with the alignment of a mapping.
struct AlignedBytes(MutableBuffer);

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Storage for FaultStorage {
    fn create(&self, path: &str) -> Result<Box<dyn StorageFile>> {
        let mut state = self.state();
        state.step("create", path)?;
        let number = state.files.len();
        let dir = state.dir(path)?;
        if dir.live.contains_key(name_of(path)) {
            return Err(Error::io("create", path)(std::io::ErrorKind::AlreadyExists.into()));
        }
        dir.live.insert(name_of(path).to_owned(), Some(number));
        state.files.push(FileImage::default());
        Ok(Box::new(FaultFile { storage: self.clone(), number, path: path.to_owned() }))
    }

    fn open_append(&self, path: &str, length: u64) -> Result<Box<dyn StorageFile>> {
        let mut state = self.state();
        state.step("open", path)?;
        let number = state.file(path)?;
        let file = &mut state.files[number];
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let there = file.live.len();
        if there < length {
            let (expected, found) = (format!("{length} bytes"), format!("{there} bytes"));
            return Err(Error::corrupt(path, there as u64, expected, found));
        }
        file.cut(length);
        Ok(Box::new(FaultFile { storage: self.clone(), number, path: path.to_owned() }))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut state = self.state();
        state.look("read", path)?;
        Ok(state.files[state.file(path)?].live.clone())
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>> {
        let bytes = self.read(path)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = start.checked_add(length).and_then(|end| bytes.get(start..end));
        part.map(<[u8]>::to_vec).ok_or_else(|| Error::io("read", path)(std::io::ErrorKind::UnexpectedEof.into()))
    }

    fn map(&self, path: &str) -> Result<MappedBytes> {
        // Copied into memory with the alignment that a mapping has.
        let bytes = self.read(path)?;
        let mut aligned = MutableBuffer::new(bytes.len());
        aligned.extend_from_slice(&bytes);
        Ok(Bytes::from_owner(AlignedBytes(aligned)).into())
    }

    fn read_identified(&self, path: &str) -> Result<IdentifiedFile> {
        Ok(IdentifiedFile { identity: self.identity(path)?, content: self.read(path)?, keeper: Box::new(()) })
    }

    fn identity(&self, path: &str) -> Result<FileIdentity> {
        let mut state = self.state();
        state.look("open", path)?;
        let file = state.file(path)?;
        // Numbers are never given twice.
        Ok(FileIdentity { volume: 0, number: file as u64, modified_ns: 0, length: state.files[file].length() })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.state();
        state.step("rename", from)?;
        let number = state.file(from)?;
        state.dir(from)?.live.remove(name_of(from));
        state.dir(to)?.live.insert(name_of(to).to_owned(), Some(number));
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.state();
        state.step("link", from)?;
        let number = state.file(from)?;
        let names = &mut state.dir(to)?.live;
        if names.contains_key(name_of(to)) {
            return Err(Error::io("link", to)(std::io::ErrorKind::AlreadyExists.into()));
        }
        names.insert(name_of(to).to_owned(), Some(number));
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let mut state = self.state();
        state.step("remove", path)?;
        state.file(path)?;
        state.dir(path)?.live.remove(name_of(path));
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        let mut state = self.state();
        state.step("remove", path)?;
        if !state.dir(path)?.live.contains_key(name_of(path)) {
            return Err(not_found("remove", path));
        }
        if state.dirs.get(path).is_some_and(|dir| !dir.live.is_empty()) {
            return Err(Error::io("remove", path)(std::io::ErrorKind::DirectoryNotEmpty.into()));
        }
        // Its durable image stays until its parent is synced: a crash may bring it back.
        state.dir(path)?.live.remove(name_of(path));
        Ok(())
    }

    fn create_dir(&self, path: &str) -> Result<()> {
        if path.is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        state.step("create", path)?;
        if state.dir(path)?.live.insert(name_of(path).to_owned(), None).is_none() {
            state.dirs.entry(path.to_owned()).or_default();
        }
        Ok(())
    }

    fn sync_dir(&self, path: &str) -> Result<()> {
        let mut state = self.state();
        state.step("sync", path)?;
        let dir = state.dirs.get_mut(path).ok_or_else(|| not_found("sync", path))?;
        dir.durable.clone_from(&dir.live);
        let (durable, own) = (dir.durable.clone(), path.to_owned());
        state.dirs.retain(|child, _| child.is_empty() || parent(child) != own || durable.contains_key(name_of(child)));
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<StorageEntry>> {
        let mut state = self.state();
        state.look("list", path)?;
        let names = state.dirs.get(path).map(|dir| &dir.live);
        Ok(names
            .into_iter()
            .flatten()
            .map(|(name, entry)| StorageEntry { name: name.clone(), is_dir: entry.is_none() })
            .collect())
    }

    fn try_lock(&self, path: &str, mode: LockMode) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        let mut state = self.state();
        match state.locks.get_mut(path) {
            Some((LockMode::Shared, holders)) if mode == LockMode::Shared => *holders += 1,
            Some(_) => return Ok(None),
            None => {
                state.locks.insert(path.to_owned(), (mode, 1));
            }
        }
        Ok(Some(Box::new(FaultLock { storage: self.clone(), path: path.to_owned() })))
    }

    /// No operation and no look: it is asked at any time, by threads of their own.
    fn disk_space(&self) -> Result<DiskSpace> {
        let state = self.state();
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        Ok(match state.free_bytes {
            Some(free_bytes) => DiskSpace { free_bytes, total_bytes: u64::MAX },
            None => DiskSpace { free_bytes: bytes(state.room()), total_bytes: state.capacity.map_or(u64::MAX, bytes) },
        })
    }

    fn allocate(&self, path: &str, bytes: u64) -> Result<()> {
        let mut state = self.state();
        state.step("allocate", path)?;
        let number = state.files.len();
        if state.dir(path)?.live.contains_key(name_of(path)) {
            return Err(Error::io("allocate", path)(std::io::ErrorKind::AlreadyExists.into()));
        }
        if usize::try_from(bytes).unwrap_or(usize::MAX) > state.room() {
            return Err(Error::io("allocate", path)(std::io::ErrorKind::StorageFull.into()));
        }
        state.dir(path)?.live.insert(name_of(path).to_owned(), Some(number));
        state.files.push(FileImage { allocated: bytes, ..FileImage::default() });
        Ok(())
    }

    fn display_path(&self, path: &str) -> PathBuf {
        PathBuf::from(path)
    }
}
