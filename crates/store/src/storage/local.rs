//! A folder on a local disk.
//!
//! New files and folders are accessible only to their owner and group, as far as the process's umask allows that: the
//! operator decides who else may read rows.

use std::ffi::CString;
use std::fmt::Debug;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{DiskSpace, FileIdentity, IdentifiedFile, LockMode, MappedBytes, Storage, StorageEntry, StorageFile};
use crate::error::{Error, Result};

/// Permissions of new files: the owner reads and writes, the group reads.
const FILE_MODE: u32 = 0o640;

/// Permissions of new folders: the owner reads and writes, the group reads.
const FOLDER_MODE: u32 = 0o750;

/// The mode of a file that only its owner may read.
const PRIVATE_FILE_MODE: u32 = 0o600;

/// The mode of a folder that only its owner may read.
const PRIVATE_FOLDER_MODE: u32 = 0o700;

/// Refuses an address, such as `http://127.0.0.1:7750`, where a folder has to be: as a path it would name the folder `http:`.
///
/// # Errors
/// [`Error::NotAFolder`].
pub fn refuse_address(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    let is_scheme = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
    };
    match text.split_once("://") {
        Some((word, _)) if is_scheme(word) => Err(Error::NotAFolder { address: text.into_owned() }),
        _ => Ok(()),
    }
}

/// Makes a folder for a database, and those that it lies in.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    create_folder_with(path, FOLDER_MODE)
}

fn create_folder_with(path: &Path, mode: u32) -> Result<()> {
    refuse_address(path)?;
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(Error::io("create", path))
}

/// Makes a folder's own name last as long as what it holds.
fn sync_parent(folder: &Path) -> Result<()> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", parent))
}

/// A database folder on a local disk.
#[derive(Debug)]
pub struct LocalStorage {
    root: PathBuf,
    file_mode: u32,
}

impl LocalStorage {
    /// Storage below `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> LocalStorage {
        LocalStorage { root: root.into(), file_mode: FILE_MODE }
    }

    /// Storage below `root`, which is made if need be, with the folders that it lies in.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn made(root: impl Into<PathBuf>) -> Result<LocalStorage> {
        let root = root.into();
        create_folder(&root)?;
        sync_parent(&root)?;
        Ok(LocalStorage::new(root))
    }

    /// Like `new`, but new files can be read by their owner alone.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn private(root: impl Into<PathBuf>) -> Result<LocalStorage> {
        let root = root.into();
        create_folder_with(&root, PRIVATE_FOLDER_MODE)?;
        sync_parent(&root)?;
        Ok(LocalStorage { root, file_mode: PRIVATE_FILE_MODE })
    }

    fn at(&self, path: &str) -> PathBuf {
        debug_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

#[derive(Debug)]
struct LocalFile {
    file: File,
    path: PathBuf,
}

impl StorageFile for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }
}

fn identity(metadata: &Metadata) -> FileIdentity {
    let modified_ns = metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
    FileIdentity { volume: metadata.dev(), number: metadata.ino(), modified_ns, length: metadata.len() }
}

impl Storage for LocalStorage {
    fn create(&self, path: &str) -> Result<Box<dyn StorageFile>> {
        let path = self.at(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(self.file_mode).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        Ok(Box::new(LocalFile { file, path }))
    }

    fn open_append(&self, path: &str, length: u64) -> Result<Box<dyn StorageFile>> {
        let path = self.at(path);
        let file = OpenOptions::new().append(true).open(&path).map_err(Error::io("open", &path))?;
        let file_length = file.metadata().map_err(Error::io("open", &path))?.len();
        if file_length < length {
            return Err(Error::corrupt(path, file_length, format!("{length} bytes"), format!("{file_length} bytes")));
        }
        if file_length > length {
            file.set_len(length).map_err(Error::io("truncate", &path))?;
        }
        Ok(Box::new(LocalFile { file, path }))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        let path = self.at(path);
        std::fs::read(&path).map_err(Error::io("read", &path))
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>> {
        use std::os::unix::fs::FileExt;
        let path = self.at(path);
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).map_err(Error::io("read", &path))?;
        Ok(bytes)
    }

    fn map(&self, path: &str) -> Result<MappedBytes> {
        let path = self.at(path);
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        if file.metadata().map_err(Error::io("open", &path))?.len() == 0 {
            return Ok(Bytes::new().into());
        }
        // SAFETY: a mapped file must not change below us. Files of the store are written once under a temporary name, then
        // renamed and never changed or cut again; removal leaves the mapping intact. Where a foreign process cuts one, or the disk
        // fails, there are zeros in the place of what can't be read, and who reads them is told (`unreadable`).
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(Error::io("map", &path))?;
        MappedBytes::of_file(map, &path)
    }

    fn read_identified(&self, path: &str) -> Result<IdentifiedFile> {
        let path = self.at(path);
        let mut file = File::open(&path).map_err(Error::io("open", &path))?;
        let identity = identity(&file.metadata().map_err(Error::io("open", &path))?);
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(Error::io("read", &path))?;
        if identity.length == 0 {
            // Cannot be mapped.
            return Ok(IdentifiedFile { identity, content, keeper: Box::new(file) });
        }
        // A mapping keeps the file as a descriptor does, and there may be many more of them.
        // SAFETY: the mapped bytes are never looked at.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(Error::io("map", &path))?;
        Ok(IdentifiedFile { identity, content, keeper: Box::new(map) })
    }

    fn identity(&self, path: &str) -> Result<FileIdentity> {
        let path = self.at(path);
        std::fs::metadata(&path).map(|metadata| identity(&metadata)).map_err(Error::io("read", &path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let from = self.at(from);
        std::fs::rename(&from, self.at(to)).map_err(Error::io("rename", &from))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let from = self.at(from);
        std::fs::hard_link(&from, self.at(to)).map_err(Error::io("link", &from))
    }

    fn link_from(&self, source: &dyn Storage, from: &str, to: &str) -> Result<()> {
        // A storage that isn't of a file system has no such file.
        let from = source.display_path(from);
        std::fs::hard_link(&from, self.at(to)).map_err(Error::io("link", &from))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let path = self.at(path);
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        let path = self.at(path);
        std::fs::remove_dir(&path).map_err(Error::io("remove", &path))
    }

    fn create_dir(&self, path: &str) -> Result<()> {
        let path = self.at(path);
        match DirBuilder::new().mode(FOLDER_MODE).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::io("create", &path)(error)),
            _ => Ok(()),
        }
    }

    fn sync_dir(&self, path: &str) -> Result<()> {
        let path = self.at(path);
        File::open(&path).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", &path))
    }

    fn list(&self, path: &str) -> Result<Vec<StorageEntry>> {
        let path = self.at(path);
        let folder = match std::fs::read_dir(&path) {
            Ok(folder) => folder,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(Error::io("list", &path)(error)),
        };
        let mut entries = Vec::new();
        for entry in folder {
            let entry = entry.map_err(Error::io("list", &path))?;
            let is_dir = entry.file_type().map_err(Error::io("list", &path))?.is_dir();
            // A name that isn't UTF-8 is none of ours.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(StorageEntry { name, is_dir });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn try_lock(&self, path: &str, mode: LockMode) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        let path = self.at(path);
        let opened = match mode {
            LockMode::Exclusive => OpenOptions::new().append(true).create(true).mode(self.file_mode).open(&path),
            LockMode::Shared => File::open(&path),
        };
        let file = match opened {
            Ok(file) => file,
            Err(error)
                if mode == LockMode::Shared
                    && matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) =>
            {
                return Ok(Some(Box::new(())));
            }
            Err(error) => return Err(Error::io("lock", &path)(error)),
        };
        let locked = match mode {
            LockMode::Exclusive => file.try_lock(),
            LockMode::Shared => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }

    fn disk_space(&self) -> Result<DiskSpace> {
        disk_space(&self.root).map_err(Error::io("read", &self.root))
    }

    fn allocate(&self, path: &str, bytes: u64) -> Result<()> {
        let path = self.at(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(self.file_mode).open(&path);
        let file = file.map_err(Error::io("create", &path))?;
        allocate(&file, bytes).map_err(|error| {
            // A partial reserve would occupy the space that others lack.
            let _ = std::fs::remove_file(&path);
            Error::io("allocate", &path)(error)
        })
    }

    fn display_path(&self, path: &str) -> PathBuf {
        self.at(path)
    }
}

/// The space that the file system of a folder has.
#[allow(clippy::unnecessary_cast, reason = "the numbers are narrower on some systems")]
fn disk_space(folder: &Path) -> std::io::Result<DiskSpace> {
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    let mut statistics = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the call fills the structure that it is given, which lives until it returns.
    let failed = unsafe { libc::statvfs(folder.as_ptr(), statistics.as_mut_ptr()) } != 0;
    if failed {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has filled the structure.
    let statistics = unsafe { statistics.assume_init() };
    let bytes = |blocks: u64| blocks.saturating_mul(statistics.f_frsize as u64);
    // Blocks reserved for the superuser don't count.
    Ok(DiskSpace { free_bytes: bytes(statistics.f_bavail as u64), total_bytes: bytes(statistics.f_blocks as u64) })
}

/// Allocates this many bytes of the disk for a file.
#[cfg(target_os = "linux")]
fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = libc::off_t::try_from(bytes).map_err(|_| std::io::Error::from(ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is that of an open file, which outlives the call.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

/// Allocates this many bytes of the disk for a file, by writing them.
#[cfg(not(target_os = "linux"))]
fn allocate(mut file: &File, bytes: u64) -> std::io::Result<()> {
    let block = [0; 1 << 16];
    let mut remaining = bytes;
    while remaining > 0 {
        let part = usize::try_from(remaining).unwrap_or(block.len()).min(block.len());
        file.write_all(&block[..part])?;
        remaining -= part as u64;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_folder() {
        for address in ["http://127.0.0.1:7750", "https://host/x", "HTTP://host", "s3://bucket/x", "file:///mnt/x"] {
            let refused = refuse_address(Path::new(address)).unwrap_err().to_string();
            assert!(refused.contains(address) && refused.contains("splay sql"), "{refused}");
            assert!(matches!(LocalStorage::made(address), Err(Error::NotAFolder { .. })), "{address}");
        }
        for folder in ["market", "/mnt/market", "./http:/x", "a b://c", "3s://x", "://x", "http:x", ""] {
            refuse_address(Path::new(folder)).unwrap();
        }
    }

    #[test]
    fn a_reserve_takes_room_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let space = storage.disk_space().unwrap();
        assert!(space.free_bytes <= space.total_bytes && space.total_bytes > 0, "{space:?}");
        storage.allocate("reserve", 1 << 20).unwrap();
        assert_eq!(storage.identity("reserve").unwrap().length, 1 << 20);
        let blocks = std::fs::metadata(folder.path().join("reserve")).unwrap().blocks();
        assert!(blocks * 512 >= 1 << 20, "{blocks} blocks");
        assert!(storage.allocate("reserve", 1).is_err(), "there is one");
        storage.remove("reserve").unwrap();
        let too_much = storage.allocate("reserve", 1 << 62).unwrap_err();
        assert!(matches!(too_much, Error::Io { .. }), "{too_much}");
        assert_eq!(storage.list("").unwrap(), [], "no part of it is left");
        assert!(LocalStorage::new(folder.path().join("absent")).disk_space().is_err());
    }
}
