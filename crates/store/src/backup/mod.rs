//! Backups: folders of copied files, with a list of the files and their digests.
//!
//! - `backup.json` names the folder of the newest complete backup, `000001`, `000002`, …, and each file in it with
//!   its length and BLAKE3. Replacing it is the last step: until then the previous backup counts, and a folder that
//!   it doesn't name is no backup.
//! - A file that hasn't changed since the previous backup is linked from there, so a backup costs what is new.
//!   Segments and indexes are identified by name and digest without being read; other files are read and compared.
//! - The folder is a database: `splay verify` and `splay sql` read it in place.
//!
//! Bytes: docs/format/backup.md.

mod tables;
mod writer;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::folder_layout::{READERS_LOCK, SETTINGS_FILE};
use crate::storage::{Storage, parent};

pub use tables::TableCommit;
pub use writer::{BackupReport, BackupWriter};

/// Version of the list that this release writes.
const VERSION: u32 = 1;

/// Name of the list.
const LIST: &str = "backup.json";

/// Held by the process that makes a backup.
const LOCK: &str = "backup.lock";

/// The act that is refused if a backup would be restored over something.
pub const RESTORE: &str = "restore a backup into";

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// A whole backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    version: u32,
    /// Number of its folder.
    pub generation: u64,
    /// When it was begun, in nanoseconds since the epoch.
    pub at: i64,
    /// Its files, by path.
    pub files: Vec<BackupFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupFile {
    /// Its path within the backup's folder, and within the database's.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its bytes in hex.
    pub blake3: String,
    /// The digest that the table's manifest has for the file; `None` for files that may change under their name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Backup {
    /// The newest whole backup in a folder; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a list that is none; [`Error::FormatVersion`].
    pub fn read(at: &dyn Storage) -> Result<Option<Backup>> {
        if !at.list("")?.iter().any(|entry| entry.name == LIST) {
            return Ok(None);
        }
        let (path, bytes) = (at.display_path(LIST), at.read(LIST)?);
        let corrupt = |found: String| Error::corrupt(&path, 0, "the list of a backup's files", found);
        let list: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| corrupt(error.to_string()))?;
        let version = list["version"].as_u64().unwrap_or(0);
        if version > u64::from(VERSION) {
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(Error::FormatVersion { path, found, supported: VERSION });
        }
        let backup: Backup = serde_json::from_value(list).map_err(|error| corrupt(error.to_string()))?;
        match backup.files.iter().find(|file| !is_path_within(&file.path)) {
            Some(file) => Err(corrupt(format!("the path {:?}", file.path))),
            None => Ok(Some(backup)),
        }
    }

    /// Its folder within that of the backups.
    #[must_use]
    pub fn folder(&self) -> String {
        folder(self.generation)
    }

    /// Reads every byte and compares; the first file that isn't as it was written is the error.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn verify(&self, at: &dyn Storage) -> Result<()> {
        for file in &self.files {
            self.copy(at, file, &mut |_| Ok(()))?;
        }
        Ok(())
    }

    /// Copies it to a folder that is empty or absent, durably. What makes it a database comes last, so that half of it is none.
    ///
    /// # Errors
    /// As [`Backup::verify`]; [`Error::Io`] if the folder holds something.
    pub fn restore(&self, at: &dyn Storage, to: &dyn Storage) -> Result<()> {
        if let Some(entry) = to.list("")?.first() {
            let reason = format!("it holds {:?}; a backup is restored into an empty folder", entry.name);
            let source = std::io::Error::new(std::io::ErrorKind::DirectoryNotEmpty, reason);
            return Err(Error::Io { act: RESTORE, path: to.display_path(""), source });
        }
        drop(to.create(READERS_LOCK)?);
        let mut folders = BTreeSet::from([String::new()]);
        let last = |file: &&BackupFile| file.path == SETTINGS_FILE;
        for file in self.files.iter().filter(|file| !last(file)) {
            make_folders(to, &file.path, &mut folders)?;
            self.copy_file(at, file, to)?;
        }
        for folder in folders.iter().rev() {
            to.sync_dir(folder)?;
        }
        for file in self.files.iter().filter(last) {
            self.copy_file(at, file, to)?;
        }
        to.sync_dir("")
    }

    fn copy_file(&self, at: &dyn Storage, file: &BackupFile, to: &dyn Storage) -> Result<()> {
        let mut copy = to.create(&file.path)?;
        self.copy(at, file, &mut |bytes| copy.write(bytes))?;
        copy.sync()
    }

    /// Gives the bytes of a file to `take`, and says at the end whether they were right.
    fn copy(&self, at: &dyn Storage, file: &BackupFile, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let path = format!("{}/{}", self.folder(), file.path);
        let (bytes, digest) = read_through(at, &path, take)?;
        if (bytes, &digest) == (file.bytes, &file.blake3) {
            return Ok(());
        }
        let expected = format!("{} bytes of BLAKE3 {}", file.bytes, file.blake3);
        Err(Error::corrupt(at.display_path(&path), 0, expected, format!("{bytes} bytes of {digest}")))
    }
}

fn folder(generation: u64) -> String {
    format!("{generation:06}")
}

fn generation_of(name: &str) -> Option<u64> {
    name.parse().ok().filter(|generation| folder(*generation) == name)
}

/// Whether a path leads to a file within the folder, whatever it says.
fn is_path_within(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Makes the folders of a path that weren't made yet.
fn make_folders(storage: &dyn Storage, path: &str, made: &mut BTreeSet<String>) -> Result<()> {
    let folder = parent(path);
    if folder.is_empty() || made.contains(folder) {
        return Ok(());
    }
    make_folders(storage, folder, made)?;
    storage.create_dir(folder)?;
    made.insert(folder.to_owned());
    Ok(())
}

/// Gives a file's bytes to `take`, and their number and BLAKE3.
fn read_through(storage: &dyn Storage, path: &str, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<(u64, String)> {
    let bytes = storage.map(path)?;
    let mut hasher = blake3::Hasher::new();
    for part in bytes.chunks(COPY_BYTES) {
        hasher.update(part);
        take(part)?;
    }
    match bytes.unreadable_at() {
        Some(offset) => Err(Error::corrupt(storage.display_path(path), offset, "a page that can be read", "none")),
        None => Ok((bytes.len() as u64, hasher.finalize().to_hex().to_string())),
    }
}
