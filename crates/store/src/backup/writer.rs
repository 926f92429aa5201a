//! Makes a backup: copies new files, links the others, and lists all of them in the last step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Backup, BackupFile, COPY_BYTES, LIST, LOCK, TableCommit, VERSION, folder, generation_of, make_folders, read_through,
};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::folder_layout::{ACCESS_FILE, SETTINGS_FILE, VIEWS_FILE};
use crate::manifest::FileEntry;
use crate::object::ObjectTier;
use crate::segment::{BlockChecksums, digest};
use crate::storage::{self, ByteObserver, LockMode, Storage, StorageFile, remove_all};

/// The result of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of the backup.
    pub generation: u64,
    /// All its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are new since the backup before.
    pub new_files: u64,
    /// Their bytes.
    pub new_bytes: u64,
    /// How many of the new files were linked from the database instead of copied.
    pub linked_files: u64,
}

/// A backup that is being made.
#[derive(Debug)]
pub struct BackupWriter {
    at: Arc<dyn Storage>,
    generation: u64,
    begun: i64,
    before: BTreeMap<String, BackupFile>,
    before_folder: String,
    files: BTreeMap<String, BackupFile>,
    folders: BTreeSet<String>,
    report: BackupReport,
    links: bool,
    _lock: Box<dyn std::fmt::Debug + Send + Sync>,
}

impl BackupWriter {
    /// Begins a backup beside the one that the folder may have. What an attempt before left is removed.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder holds what is no backup; [`Error::Locked`] while another one is made there; others as
    /// [`Backup::read`].
    pub fn begin(at: Arc<dyn Storage>, now: i64) -> Result<BackupWriter> {
        let lock = lock(at.as_ref())?;
        let before = Backup::read(at.as_ref())?;
        let generation = before.as_ref().map_or(0, |backup| backup.generation);
        for entry in at.list("")? {
            if generation_of(&entry.name).is_some_and(|other| other != generation) {
                remove_all(at.as_ref(), &entry.name)?;
            }
        }
        let files = before.map_or_else(Vec::new, |backup| backup.files);
        let next = generation + 1;
        at.create_dir(&folder(next))?;
        Ok(BackupWriter {
            at,
            generation: next,
            begun: now,
            before: files.into_iter().map(|file| (file.path.clone(), file)).collect(),
            before_folder: folder(generation),
            files: BTreeMap::new(),
            folders: BTreeSet::from([folder(next)]),
            report: BackupReport { generation: next, ..BackupReport::default() },
            links: false,
            _lock: lock,
        })
    }

    /// Files that never change under their names become second names of the database's own files, where both are on one file system. That takes no
    /// room, and is no help against a disk that fails or a program that writes into them.
    #[must_use]
    pub fn linking(mut self, links: bool) -> BackupWriter {
        self.links = links;
        self
    }

    /// Adds a file with these bytes, or replaces one that was added.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn put(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let digest = blake3::hash(bytes).to_hex().to_string();
        if self.files.get(path).is_some_and(|file| file.blake3 == digest) {
            return Ok(());
        }
        self.take_out(path)?;
        if self.before.get(path).is_some_and(|before| before.blake3 == digest) {
            return self.link(path);
        }
        let mut copy = self.create(path)?;
        bytes.chunks(COPY_BYTES).try_for_each(|part| copy.write(part))?;
        copy.sync()?;
        self.note(path, bytes.len() as u64, digest, None);
        Ok(())
    }

    /// Adds a file that never changes under its name, of which the manifest says a length and a digest.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it has another length or can't be read.
    fn put_file(&mut self, source: &dyn Storage, path: &str, bytes: u64, digest: &str) -> Result<()> {
        let is_same = |before: &BackupFile| before.bytes == bytes && before.digest.as_deref() == Some(digest);
        if self.before.get(path).is_some_and(is_same) {
            return self.link(path);
        }
        let is_linked = self.links && self.link_source(source, path)?;
        let mut copy = if is_linked { None } else { Some(self.create(path)?) };
        // Read all the same: a damaged file is no backup.
        let (bytes_read, blake3) = read_through(source, path, &mut |part| match &mut copy {
            Some(copy) => copy.write(part),
            None => Ok(()),
        })?;
        if bytes_read != bytes {
            let path = source.display_path(path);
            return Err(Error::corrupt(
                path,
                bytes_read.min(bytes),
                format!("{bytes} bytes"),
                format!("{bytes_read} bytes"),
            ));
        }
        match &mut copy {
            Some(copy) => copy.sync()?,
            None => self.report.linked_files += 1,
        }
        self.note(path, bytes, blake3, Some(digest.to_owned()));
        Ok(())
    }

    /// Adds the file that an object was made of, which a restored database reads in the place of the object.
    fn put_object(&mut self, tier: &ObjectTier, key: &str, path: &str, entry: &FileEntry) -> Result<()> {
        let is_same =
            |before: &BackupFile| before.bytes == entry.bytes && before.digest.as_ref() == Some(&entry.digest);
        if self.before.get(path).is_some_and(is_same) {
            return self.link(path);
        }
        let mut copy = self.create(path)?;
        let (mut hasher, mut checksums) = (blake3::Hasher::new(), BlockChecksums::default());
        tier.read_through(key, entry.bytes, &mut |part| {
            hasher.update(part);
            checksums.observe(part);
            copy.write(part)
        })?;
        if digest(&checksums.finish().0) != entry.digest {
            return Err(Error::corrupt(tier.shown(key), 0, "the digest in the manifest", "another"));
        }
        copy.sync()?;
        self.note(path, entry.bytes, hasher.finalize().to_hex().to_string(), Some(entry.digest.clone()));
        Ok(())
    }

    /// Takes a file out that was added.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn take_out(&mut self, path: &str) -> Result<()> {
        match self.files.remove(path) {
            Some(_) => self.at.remove(&self.path(path)),
            None => Ok(()),
        }
    }

    /// Adds the settings, views, users and roles of a database, and its tables at the commits that they had when [`Database::commits`] was called.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn put_tables(&mut self, database: &Database, tables: &[TableCommit]) -> Result<()> {
        let source = database.storage().as_ref();
        self.put(SETTINGS_FILE, &source.read(SETTINGS_FILE)?)?;
        // A damaged list is no backup.
        database.views()?;
        database.access()?;
        for list in [VIEWS_FILE, ACCESS_FILE] {
            match source.read(list) {
                Ok(bytes) => self.put(list, &bytes)?,
                Err(error) if error.is_not_found() => self.take_out(list)?,
                Err(error) => return Err(error),
            }
        }
        for table in tables {
            for entry in &table.files {
                let (folder, index) = (&table.folder, entry.index_path());
                let path = format!("{folder}/{}", entry.path);
                let has_file = || source.identity(&path).map_or_else(|error| !error.is_not_found(), |_| true);
                match &entry.object {
                    Some(key) if !has_file() => self.put_object(database.objects()?, key, &path, entry)?,
                    _ => self.put_file(source, &path, entry.bytes, &entry.digest)?,
                }
                self.put_file(source, &format!("{folder}/{index}"), entry.index_bytes, &entry.index_digest)?;
            }
            for (path, bytes) in &table.manifest {
                self.put(path, bytes)?;
            }
        }
        Ok(())
    }

    /// Makes it the backup that the folder has, and removes the one before.
    ///
    /// # Errors
    /// [`Error::Io`]; the one before stays then.
    pub fn finish(mut self) -> Result<BackupReport> {
        for folder in self.folders.iter().rev() {
            self.at.sync_dir(folder)?;
        }
        self.at.sync_dir("")?;
        self.report.files = self.files.len() as u64;
        self.report.bytes = self.files.values().map(|file| file.bytes).sum();
        let files = std::mem::take(&mut self.files).into_values().collect();
        let backup = Backup { version: VERSION, generation: self.generation, at: self.begun, files };
        // Plain data to memory: can't fail.
        let list = serde_json::to_vec_pretty(&backup).unwrap_or_default();
        storage::replace(self.at.as_ref(), LIST, &list)?;
        if self.generation > 1 {
            // The next backup removes what can't be removed now.
            let _ = remove_all(self.at.as_ref(), &self.before_folder);
        }
        Ok(self.report)
    }

    fn path(&self, path: &str) -> String {
        format!("{}/{path}", folder(self.generation))
    }

    fn create(&mut self, path: &str) -> Result<Box<dyn StorageFile>> {
        let path = self.path(path);
        make_folders(self.at.as_ref(), &path, &mut self.folders)?;
        self.at.create(&path)
    }

    /// Takes a file over from the backup before.
    fn link(&mut self, path: &str) -> Result<()> {
        let Some(file) = self.before.get(path).cloned() else { return Ok(()) };
        let (from, to) = (format!("{}/{path}", self.before_folder), self.path(path));
        make_folders(self.at.as_ref(), &to, &mut self.folders)?;
        if self.at.link(&from, &to).is_err() {
            // Not every file system supports links: the file is copied then.
            let mut copy = self.at.create(&to)?;
            read_through(self.at.as_ref(), &from, &mut |part| copy.write(part))?;
            copy.sync()?;
        }
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// Makes a file of the database one of the backup, too, if that can be done here.
    fn link_source(&mut self, source: &dyn Storage, path: &str) -> Result<bool> {
        let to = self.path(path);
        make_folders(self.at.as_ref(), &to, &mut self.folders)?;
        Ok(self.at.link_from(source, path, &to).is_ok())
    }

    fn note(&mut self, path: &str, bytes: u64, blake3: String, digest: Option<String>) {
        self.report.new_files += 1;
        self.report.new_bytes += bytes;
        self.files.insert(path.to_owned(), BackupFile { path: path.to_owned(), bytes, blake3, digest });
    }
}

/// Makes sure that the folder is a folder of backups, or empty, and that no other process writes a backup there.
fn lock(at: &dyn Storage) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
    let entries = at.list("")?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if let Some(entry) = entries.first().filter(|_| !has(LOCK) && !has(LIST)) {
        let reason = format!("it holds {:?}, which is no part of a backup", entry.name);
        let source = std::io::Error::new(std::io::ErrorKind::DirectoryNotEmpty, reason);
        return Err(Error::Io { act: "back up into", path: at.display_path(""), source });
    }
    if !has(LOCK) {
        drop(at.create(LOCK)?);
        // By it an attempt that was interrupted is known for what it is.
        at.sync_dir("")?;
    }
    at.try_lock(LOCK, LockMode::Exclusive)?.ok_or_else(|| Error::Locked { path: at.display_path(LOCK) })
}
