//! The files of a table at a commit, protected from removal while they are copied.

use crate::database::{Database, TableSnapshot};
use crate::error::{Error, Result};
use crate::manifest::{self, FileEntry, HeadFile};
use crate::write_down_position::WriteDownPosition;

/// Attempts to read a table while it changes.
const TRIES: usize = 100;

/// A table at a commit, whose files stay as long as this lives.
#[derive(Debug)]
pub struct TableCommit {
    /// Its name.
    pub name: String,
    pub(super) folder: String,
    /// The captured rows that are in its files.
    pub captured: WriteDownPosition,
    pub(super) files: Vec<FileEntry>,
    /// HEAD, log and mark, by path.
    pub(super) manifest: Vec<(String, Vec<u8>)>,
    _snapshot: TableSnapshot,
}

impl Database {
    /// All tables as they are now. Cheap: manifests are read, and no segments.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a table whose manifest is damaged.
    pub fn commits(&self) -> Result<Vec<TableCommit>> {
        self.tables()?.into_iter().map(|name| self.commit_of(name)).collect()
    }

    fn commit_of(&self, name: String) -> Result<TableCommit> {
        let storage = self.storage().as_ref();
        let table = self.table(&name)?;
        let folder = table.folder();
        for _ in 0..TRIES {
            // The snapshot keeps the files of its commit, and of later ones, from being removed.
            let snapshot = table.stored()?;
            let head = HeadFile::read(storage, folder)?.head;
            let log = manifest::log_path(folder, head.log);
            let bytes = match storage.read(&log) {
                // Replaced by another meanwhile.
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            if snapshot.epoch() != head.epoch || **snapshot.folder() != *folder {
                continue;
            }
            let length = usize::try_from(head.length).unwrap_or(usize::MAX);
            let counted = bytes.get(..length).ok_or_else(|| {
                let path = storage.display_path(&log);
                Error::corrupt(path, bytes.len() as u64, format!("{length} bytes"), "the file's end")
            })?;
            let manifest = vec![
                (manifest::head_path(folder), head.encode()),
                (log, counted.to_vec()),
                (manifest::created_path(folder), Vec::new()),
            ];
            let files = snapshot.entries().cloned().collect();
            let (captured, folder) = (snapshot.captured(), folder.to_owned());
            return Ok(TableCommit { captured, name, folder, files, manifest, _snapshot: snapshot });
        }
        Err(Error::Locked { path: storage.display_path(table.folder()) })
    }
}
