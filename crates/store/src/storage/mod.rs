//! The storage seam: every byte that the store reads or writes goes through [`Storage`].
//!
//! - Paths are relative to the database's folder and use `/`; none leaves it.
//! - Calls block. Reading is page faults on mapped files, which no async runtime can wait for (docs/adr/0001-blocking-storage-seam.md).
//! - A written file is durable after [`StorageFile::sync`]; its name is durable after [`Storage::sync_dir`] of its folder.
//! - Two implementations: [`LocalStorage`] for a folder on disk, and [`FaultStorage`](crate::storage::fault::FaultStorage), which
//!   keeps what would survive a power cut apart from what a running process sees, and fails on request.

pub mod fault;
mod local;
mod mapped;
mod unreadable;

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use crate::background;
use crate::error::Result;

pub(crate) use local::create_folder;
pub use local::{LocalStorage, refuse_address};
pub use mapped::MappedBytes;
pub(crate) use unreadable::unreadable;
pub use unreadable::{ReadWatch, hand_out_mapped, mapped_ranges};

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageEntry {
    /// Name within the folder.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_dir: bool,
}

/// Identifies the file behind a path at one moment.
///
/// If a file is only ever replaced by renaming, an equal identity means that it hasn't been replaced. This requires
/// that the keeper of [`Storage::read_identified`] still exists: until it is dropped, the system gives the inode's
/// number to no other file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// The file system.
    pub volume: u64,
    /// The file's number on it.
    pub number: u64,
    /// When the file was last written, in nanoseconds since the epoch; 0 if that isn't known. For files that are changed by hand.
    pub modified_ns: i64,
    /// Its length in bytes.
    pub length: u64,
}

/// A small file that was read, and what shows that its path still names it.
#[derive(Debug)]
pub struct IdentifiedFile {
    /// The identity of the file.
    pub identity: FileIdentity,
    /// Its bytes.
    pub content: Vec<u8>,
    /// Keeps its number from being given to another file.
    pub keeper: Box<dyn Debug + Send + Sync>,
}

/// How much room a file system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that this process may still write.
    pub free_bytes: u64,
    /// Bytes of the file system.
    pub total_bytes: u64,
}

/// The place of a database's files.
pub trait Storage: Debug + Send + Sync {
    /// Creates an empty file for writing; fails if there is one.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), as every call here.
    fn create(&self, path: &str) -> Result<Box<dyn StorageFile>>;

    /// Opens a file for writing behind its first `length` bytes and cuts off what follows them.
    ///
    /// # Errors
    /// If the file is absent or shorter than `length`.
    fn open_append(&self, path: &str, length: u64) -> Result<Box<dyn StorageFile>>;

    /// The whole file, copied to memory. For small files.
    ///
    /// # Errors
    /// If the file is absent or can't be read.
    fn read(&self, path: &str) -> Result<Vec<u8>>;

    /// A part of a file, copied to memory.
    ///
    /// # Errors
    /// If the file is absent or shorter than the part's end.
    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>>;

    /// The whole file, mapped. It may be removed while it is mapped, and is never changed or cut.
    ///
    /// # Errors
    /// If the file is absent or can't be mapped.
    fn map(&self, path: &str) -> Result<MappedBytes>;

    /// The whole file, copied to memory, with its identity. For small files that are replaced by renaming.
    ///
    /// # Errors
    /// If the file is absent or can't be read.
    fn read_identified(&self, path: &str) -> Result<IdentifiedFile>;

    /// The identity of the file that the path names now, by one system call.
    ///
    /// # Errors
    /// If the file is absent.
    fn identity(&self, path: &str) -> Result<FileIdentity>;

    /// Gives a file another name, replacing what has it. Atomic; durable after [`Storage::sync_dir`].
    ///
    /// # Errors
    /// If `from` is absent.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Gives a file a second name, under which it is the same file; fails if something has it. Durable after [`Storage::sync_dir`].
    ///
    /// # Errors
    /// If `from` is absent, or files can't have several names here.
    fn link(&self, from: &str, to: &str) -> Result<()>;

    /// The same for a file of another storage.
    ///
    /// # Errors
    /// As [`Storage::link`]; if the two aren't on one file system.
    fn link_from(&self, source: &dyn Storage, from: &str, to: &str) -> Result<()> {
        let reason = std::io::Error::from(std::io::ErrorKind::Unsupported);
        Err(crate::Error::io("link", source.display_path(from).join(to))(reason))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// If it is absent.
    fn remove(&self, path: &str) -> Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// If it is absent or not empty.
    fn remove_dir(&self, path: &str) -> Result<()>;

    /// Creates a folder; no failure if there is one. Its parent must exist.
    ///
    /// # Errors
    /// If the parent is absent.
    fn create_dir(&self, path: &str) -> Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// A failure leaves it unknown which names are durable: stop writing.
    fn sync_dir(&self, path: &str) -> Result<()>;

    /// The entries of a folder, sorted by name; none if there is no such folder.
    ///
    /// # Errors
    /// If the folder can't be read.
    fn list(&self, path: &str) -> Result<Vec<StorageEntry>>;

    /// Takes a lock that lasts until the returned value is dropped or the process ends; `None` if another holder excludes it.
    /// A shared lock on a file that can't be opened for lack of permission is granted: it protects only from our own deletions.
    ///
    /// # Errors
    /// If the lock file can't be opened.
    fn try_lock(&self, path: &str, mode: LockMode) -> Result<Option<Box<dyn Debug + Send + Sync>>>;

    /// How much room the file system of the database's folder has.
    ///
    /// # Errors
    /// If it doesn't say.
    fn disk_space(&self) -> Result<DiskSpace>;

    /// Creates a file that takes this much room and whose bytes mean nothing: removing it gives the room back. Where there isn't as much
    /// room, no file is left. Fails if there is one.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) that says that the disk is full, or another one.
    fn allocate(&self, path: &str, bytes: u64) -> Result<()>;

    /// The folder or file as the operating system knows it, for messages and for tools that read the files themselves.
    fn display_path(&self, path: &str) -> PathBuf;
}

/// Whom a lock excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Excludes exclusive holders.
    Shared,
    /// Excludes everyone.
    Exclusive,
}

/// A file being written.
pub trait StorageFile: Debug + Send {
    /// Appends bytes.
    ///
    /// # Errors
    /// A failure may leave part of the bytes behind.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes all that was written durable. A failure leaves it unknown what is on disk and must never be retried.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    fn sync(&mut self) -> Result<()>;

    /// Lets the system start to write back what is cached, without waiting; a hint.
    fn start_writeback(&mut self) {}
}

/// Writes a small file so that it holds either its old or its new content at every instant, durably.
///
/// # Errors
/// As the calls it makes; the old content stays unless the rename was done.
pub(crate) fn replace(storage: &dyn Storage, path: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{path}.tmp");
    if storage.list(parent(path))?.iter().any(|entry| Some(entry.name.as_str()) == temporary.rsplit('/').next()) {
        storage.remove(&temporary)?;
    }
    let mut file = storage.create(&temporary)?;
    file.write(bytes)?;
    file.sync()?;
    drop(file);
    storage.rename(&temporary, path)?;
    storage.sync_dir(parent(path))
}

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Copies a file to a name that isn't there, durably but for the name.
pub(crate) fn copy(storage: &dyn Storage, from: &str, to: &str) -> Result<()> {
    let bytes = storage.map(from)?;
    let mut file = storage.create(to)?;
    bytes.chunks(COPY_BYTES).try_for_each(|part| file.write(part))?;
    match bytes.unreadable_at() {
        Some(offset) => {
            Err(crate::Error::corrupt(storage.display_path(from), offset, "a page that can be read", "none"))
        }
        None => file.sync(),
    }
}

/// Removes a folder with all that it holds.
pub(crate) fn remove_all(storage: &dyn Storage, folder: &str) -> Result<()> {
    for entry in storage.list(folder)? {
        let path = join(folder, &entry.name);
        if entry.is_dir { remove_all(storage, &path)? } else { storage.remove(&path)? }
    }
    storage.remove_dir(folder)
}

/// The folder of a path; empty for the database's own.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Joins folder and name.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Adapts a [`StorageFile`] to `std::io::Write`, counting bytes.
#[derive(Debug)]
pub(crate) struct CountingWrite<'a> {
    pub(crate) file: &'a mut dyn StorageFile,
    pub(crate) observer: &'a mut dyn ByteObserver,
}

/// Sees every byte that is written, in order.
pub(crate) trait ByteObserver: Debug + Send {
    fn observe(&mut self, bytes: &[u8]);
}

/// Bytes of one write.
const WRITE_BYTES_MAX: usize = 1 << 20;

impl std::io::Write for CountingWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        self.file.write(bytes).map_err(into_io)?;
        self.observer.observe(bytes);
        background::did(bytes.len() / 64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Carries a store error through an `io::Error`, so that [`out_of_io`] can give it back.
pub(crate) fn into_io(error: crate::Error) -> std::io::Error {
    std::io::Error::other(error)
}

/// Gives back the store error that [`into_io`] packed, or one that names the path.
pub(crate) fn out_of_io(act: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> crate::Error {
    let path = path.as_ref().to_path_buf();
    move |error| match error.downcast::<crate::Error>() {
        Ok(ours) => ours,
        Err(source) => crate::Error::Io { act, path, source },
    }
}
