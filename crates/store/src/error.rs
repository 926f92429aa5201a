//! Errors of the store, one variant for each case in which a caller would act differently.

use std::path::{Path, PathBuf};

use crate::near_names::names_instead;
use crate::write_down_position::WriteDownPosition;

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The system's number for a disk that fails to read or write.
const EIO: i32 = 5;

/// Failure of a store operation. Unless a variant says otherwise, the database is as it was before the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation. Look at `source`; a full disk or a missing permission is the usual reason.
    #[error("{act} {}: {source}", path.display())]
    Io {
        /// The act that failed, as a verb: "read", "sync", "rename".
        act: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// Stored bytes are not what was written. The data is never returned; `splay verify` lists every damaged file.
    #[error("{} is damaged at byte {offset}: expected {expected}, found {found}", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The content of a sound file there.
        expected: String,
        /// The content of this file.
        found: String,
    },

    /// A request to an object store failed, after transient failures were retried. Look at the store, its keys and the
    /// network; a missing object is one that was removed by others.
    #[error("{act} {object}: {reason}")]
    Object {
        /// The act that failed, as a verb.
        act: &'static str,
        /// The object, by its URL without secrets.
        object: String,
        /// The kind of failure.
        fault: ObjectFault,
        /// The store's words.
        reason: String,
    },

    /// A file is encrypted, and the key that it was written under isn't there. Add it to the list of keys that `[encryption]` in `splay.toml`
    /// names, and open the database again.
    #[error("{} is encrypted under key {key:?}: {reason}", path.display())]
    Encrypted {
        /// The file.
        path: PathBuf,
        /// Id of the key.
        key: String,
        /// Why it can't be decrypted.
        reason: String,
    },

    /// The file was written by a newer release. Upgrade SplayDB.
    #[error("{} has format version {found}, and this release reads up to {supported}", path.display())]
    FormatVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this release reads.
        supported: u32,
    },

    /// Another process writes to this database. Wait for it, or stop it.
    #[error("{} is locked by another writer: one process at a time may change a database, any number may read it", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// The folder holds no database.
    #[error(
        "{} is not a SplayDB database: it has no splay.toml; `splay load`, `splay serve`, `splay sql FOLDER 'create table …'` and, in Python, \
         `splay.open` make one",
        path.display()
    )]
    NotADatabase {
        /// The folder.
        path: PathBuf,
    },

    /// An address stands where a folder has to. Nothing was read or made.
    #[error(
        "{address:?} is an address, and this takes a folder; a server is reached by its http:// or https:// address in `splay sql`, \
         `splay shell`, `splay loads`, `splay undo`, `splay tick` and, in Python, `splay.connect`"
    )]
    NotAFolder {
        /// The address.
        address: String,
    },

    /// No such table.
    #[error("no table {table:?}; {}", names_instead(table, existing))]
    NoSuchTable {
        /// The name asked for.
        table: String,
        /// The names there are.
        existing: Vec<String>,
    },

    /// Whoever asked may not do that. A superuser grants rights: docs/guide/users.md.
    #[error("permission denied {about}")]
    Denied {
        /// The action that was denied and its object, as in `to SELECT column price of table trade`.
        about: String,
    },

    /// No such column.
    #[error("table {table:?} has no column {column:?}; it has {}", list_or_none(existing))]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The name asked for.
        column: String,
        /// The names there are.
        existing: Vec<String>,
    },

    /// A table or column name that can't be stored.
    #[error("{name:?} can't name a {what}: {reason}")]
    Name {
        /// "table", "view" or "column".
        what: &'static str,
        /// The name.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },

    /// The rows don't fit the table. Nothing of the batch was kept.
    #[error("table {table:?}: {reason}")]
    Schema {
        /// The table.
        table: String,
        /// The mismatch.
        reason: String,
    },

    /// A row has no place in the table: its time is null or out of range.
    #[error("table {table:?}: row {row} of the batch {reason}")]
    Row {
        /// The table.
        table: String,
        /// Row of the batch, from 0.
        row: u64,
        /// The fault.
        reason: String,
    },

    /// Two rows of a reference table would have one key. Nothing was changed.
    #[error("duplicate key value violates unique constraint \"{table}_pkey\": key ({columns})=({values}) {reason}")]
    DuplicateKey {
        /// The table.
        table: String,
        /// The columns of the key.
        columns: String,
        /// Their values.
        values: String,
        /// The other place that has the key.
        reason: &'static str,
    },

    /// The same source was loaded before. Pass `again` to load it twice.
    #[error(
        "{source_name} was loaded into {table:?} before, in commit {epoch}; load it again only if its rows are to be there twice"
    )]
    AlreadyLoaded {
        /// The table.
        table: String,
        /// The source, usually a file name.
        source_name: String,
        /// The commit that loaded it.
        epoch: u64,
    },

    /// A load was to refuse duplicates, and has one. Leave duplicates out, or load other rows. Nothing was loaded.
    #[error(
        "table {table:?}: a row of {date} {}: {row}; nothing was loaded",
        if *is_stored { "is stored already" } else { "comes twice" }
    )]
    Duplicate {
        /// The table.
        table: String,
        /// The row's date.
        date: String,
        /// Its symbol, time and key.
        row: String,
        /// Whether the other one is stored.
        is_stored: bool,
    },

    /// A write-down claims fewer captured rows than the manifest records. Nothing was written.
    #[error("table {table:?} has captured rows up to {recorded:?}, but the write-down ends at {incoming:?}")]
    FellBack {
        /// The table.
        table: String,
        /// The position that the manifest records.
        recorded: WriteDownPosition,
        /// The position at which the write-down ends.
        incoming: WriteDownPosition,
    },

    /// A server holds captured rows of the table that aren't in its files yet. Send the change to that server.
    #[error(
        "a server holds captured rows of table {table:?} that aren't in its files yet, and only that server can change them: send the \
         statement to the server, or stop it first"
    )]
    RowsElsewhere {
        /// The table.
        table: String,
    },

    /// Rows of the table are being captured. Stop the capture first.
    #[error("rows of table {table:?} are being captured: stop the capture, or its server, first")]
    Captured {
        /// The table.
        table: String,
    },

    /// A commit can't be undone. Nothing has changed.
    #[error("commit {commit} of table {table:?} can't be undone: {reason}")]
    CannotUndo {
        /// The table.
        table: String,
        /// The commit.
        commit: u64,
        /// The reason.
        reason: String,
    },

    /// A table can't be read as it was: the commit never was, or its files are gone.
    #[error("table {table:?} can be read as it was after commits {first} to {last}, not {}", before_or_after(*commit))]
    NoSuchCommit {
        /// The table.
        table: String,
        /// The commit that was asked for; 0 for a time before all that are known.
        commit: u64,
        /// The first commit that can be read.
        first: u64,
        /// The last one.
        last: u64,
    },

    /// Another part of the program stopped a change of rows. Nothing has changed.
    #[error("{reason}")]
    Refused {
        /// The reason.
        reason: String,
    },

    /// A setting has a value it can't have.
    #[error("setting {setting}: {reason}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// The fault.
        reason: String,
    },

    /// A failed sync left it unknown what is on disk. Open the database again; it recovers by itself.
    #[error("the writer stopped after a failed sync and can't go on; open the database again")]
    Poisoned,

    /// The caller's observer ended the work. Nothing of it is visible.
    #[error("stopped before the end; nothing of it is visible")]
    Stopped,

    /// Arrow refused an operation.
    #[error("{0}")]
    Arrow(#[from] arrow::error::ArrowError),

    /// Parquet refused an operation.
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// Why a call of an object store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFault {
    /// There is no such object.
    Absent,
    /// There is an object of this key.
    Exists,
    /// The store doesn't let us: look at keys and rights.
    Denied,
    /// It may go well when it is tried again: a time-out, a broken connection, a busy server.
    Passing,
    /// Something else, which stays.
    Lasting,
}

impl Error {
    pub(crate) fn io(act: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { act, path, source }
    }

    pub(crate) fn corrupt(
        path: impl AsRef<Path>,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Corrupt { path: path.as_ref().to_path_buf(), offset, expected: expected.into(), found: found.into() }
    }

    /// Whether the failure leaves it unknown what is on disk: a sync or a renaming that failed.
    #[must_use]
    pub fn leaves_disk_unknown(&self) -> bool {
        matches!(self, Error::Io { act: "sync" | "rename", .. })
    }

    /// Whether stored bytes are damaged or can't be read: asking again won't help, other tables may be sound.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Corrupt { .. } | Error::FormatVersion { .. } => true,
            Error::Io { source, .. } => source.raw_os_error() == Some(EIO),
            _ => false,
        }
    }

    /// The same damage once more.
    pub(crate) fn repeated(&self) -> Error {
        match self {
            Error::Corrupt { path, offset, expected, found } => Error::corrupt(path, *offset, expected, found),
            Error::FormatVersion { path, found, supported } => {
                Error::FormatVersion { path: path.clone(), found: *found, supported: *supported }
            }
            Error::Io { act, path, source } => Error::Io {
                act,
                path: path.clone(),
                source: match source.raw_os_error() {
                    Some(code) => std::io::Error::from_raw_os_error(code),
                    None => std::io::Error::new(source.kind(), source.to_string()),
                },
            },
            Error::Encrypted { path, key, reason } => {
                Error::Encrypted { path: path.clone(), key: key.clone(), reason: reason.clone() }
            }
            Error::Object { act, object, fault, reason } => {
                Error::Object { act, object: object.clone(), fault: *fault, reason: reason.clone() }
            }
            other => Error::Setting { setting: "damage", reason: other.to_string() },
        }
    }

    /// Whether the failure is a file that isn't there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

/// When a state was that can't be read; commit 0 is the time before all commits.
fn before_or_after(commit: u64) -> String {
    if commit == 0 { "before them".to_owned() } else { format!("after {commit}") }
}

fn list_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
