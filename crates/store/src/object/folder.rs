//! Objects as files of a folder, such as a second disk or an NFS mount.
//!
//! - An object is written under a temporary name, synced, and then linked to its key, which fails if the key exists.
//!   So an object is complete, and of several concurrent writers one succeeds, also over NFS.
//! - The folder itself isn't created: a missing folder is a disk that isn't mounted.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::{ObjectEntry, ObjectError, ObjectFault, ObjectResult, ObjectStore};
use crate::error::Error;
use crate::storage::{LocalStorage, Storage, join, parent};

/// Ends the name under which an object is made.
const UNFINISHED: &str = ".unfinished";

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The system's numbers for a failed disk, and for a file of an NFS server that has gone.
const PASSING: [i32; 2] = [5, 116];

/// A folder of objects.
#[derive(Debug)]
pub struct FolderStore {
    storage: Arc<dyn Storage>,
}

impl FolderStore {
    /// Objects below a folder, which has to be there when objects are made.
    pub fn new(folder: impl Into<std::path::PathBuf>) -> FolderStore {
        FolderStore::on(Arc::new(LocalStorage::new(folder)))
    }

    /// Objects on any storage.
    #[must_use]
    pub fn on(storage: Arc<dyn Storage>) -> FolderStore {
        FolderStore { storage }
    }

    /// Makes the folders of a key, durably.
    fn make_folders(&self, folder: &str) -> Result<(), Error> {
        if folder.is_empty() || !self.storage.list(folder)?.is_empty() {
            return Ok(());
        }
        self.make_folders(parent(folder))?;
        self.storage.create_dir(folder)?;
        self.storage.sync_dir(parent(folder))
    }

    fn put(&self, key: &str, bytes: &Bytes) -> Result<(), Error> {
        self.make_folders(parent(key))?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Error::io("name", key)(std::io::Error::other(error)))?;
        let unfinished = format!("{key}.{:016x}{UNFINISHED}", u64::from_le_bytes(random));
        let mut file = self.storage.create(&unfinished)?;
        let written = bytes.chunks(WRITE_BYTES).try_for_each(|part| file.write(part)).and_then(|()| file.sync());
        drop(file);
        let named = written.and_then(|()| self.storage.link(&unfinished, key));
        // If it can't be removed, it stays in listings, and is removed later with the other objects that no commit names.
        let _ = self.storage.remove(&unfinished);
        named?;
        self.storage.sync_dir(parent(key))
    }

    fn list_below(&self, folder: &str, entries: &mut Vec<ObjectEntry>) -> Result<(), Error> {
        for entry in self.storage.list(folder)? {
            let key = join(folder, &entry.name);
            if entry.is_dir {
                self.list_below(&key, entries)?;
                continue;
            }
            match self.storage.identity(&key) {
                Ok(file) => entries.push(ObjectEntry { key, bytes: file.length }),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ObjectStore for FolderStore {
    fn put_if_absent(&self, key: &str, bytes: Bytes) -> ObjectResult<()> {
        self.put(key, &bytes).map_err(object_error)
    }

    fn read(&self, key: &str, range: Range<u64>) -> ObjectResult<Bytes> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        self.storage.read_at(key, range.start, length).map(Bytes::from).map_err(object_error)
    }

    fn length(&self, key: &str) -> ObjectResult<u64> {
        self.storage.identity(key).map(|file| file.length).map_err(object_error)
    }

    fn list(&self, prefix: &str) -> ObjectResult<Vec<ObjectEntry>> {
        let mut entries = Vec::new();
        self.list_below(prefix.trim_end_matches('/'), &mut entries).map_err(object_error)?;
        Ok(entries)
    }

    fn delete(&self, key: &str) -> ObjectResult<()> {
        match self.storage.remove(key) {
            Err(error) if !error.is_not_found() => return Err(object_error(error)),
            _ => {}
        }
        // Folders that are empty now; one that isn't, stays.
        let mut folder = parent(key);
        while !folder.is_empty() && self.storage.remove_dir(folder).is_ok() {
            folder = parent(folder);
        }
        Ok(())
    }
}

fn object_error(error: Error) -> ObjectError {
    let fault = match &error {
        Error::Io { source, .. } => match (source.kind(), source.raw_os_error()) {
            (ErrorKind::NotFound | ErrorKind::NotADirectory, _) => ObjectFault::Absent,
            (ErrorKind::AlreadyExists, _) => ObjectFault::Exists,
            (ErrorKind::PermissionDenied, _) => ObjectFault::Denied,
            (ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::WouldBlock, _) => ObjectFault::Passing,
            (_, Some(number)) if PASSING.contains(&number) => ObjectFault::Passing,
            _ => ObjectFault::Lasting,
        },
        _ => ObjectFault::Lasting,
    };
    ObjectError::new(fault, error.to_string())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn of_many_who_make_an_object_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::new(folder.path());
        let made: Vec<usize> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|number: usize| {
                    let store = &store;
                    scope.spawn(move || store.put_if_absent("a/b/one", Bytes::from(vec![number.to_le_bytes()[0]; 99])))
                })
                .collect();
            let done = tries.into_iter().map(|thread| thread.join().unwrap());
            done.enumerate()
                .filter_map(|(number, done)| match done {
                    Ok(()) => Some(number),
                    Err(error) => {
                        assert_eq!(error.fault, ObjectFault::Exists, "{error}");
                        None
                    }
                })
                .collect()
        });
        let [winner] = made[..] else { panic!("{made:?}") };
        assert_eq!(store.read("a/b/one", 0..99).unwrap(), vec![winner.to_le_bytes()[0]; 99]);
        assert_eq!(store.list("a/").unwrap(), [ObjectEntry { key: "a/b/one".to_owned(), bytes: 99 }]);
        assert_eq!(store.length("a/b/one"), Ok(99));
        assert_eq!(store.read("a/b/two", 0..1).unwrap_err().fault, ObjectFault::Absent);
        assert_eq!(store.length("a/b/two").unwrap_err().fault, ObjectFault::Absent);
        assert!(store.read("a/b/one", 90..100).is_err(), "beyond the end");
        store.delete("a/b/one").unwrap();
        store.delete("a/b/one").unwrap();
        assert_eq!(store.list("a/").unwrap(), []);
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "empty folders go");
        let absent = FolderStore::new(folder.path().join("not mounted"));
        assert_eq!(absent.put_if_absent("a/one", Bytes::new()).unwrap_err().fault, ObjectFault::Absent);
    }
}
