//! The manifest: the authority on a table's files.
//!
//! - `manifest/NNNNNN.log` is an append-only log of commits; `manifest/HEAD` says how much of which log counts.
//! - Replacing HEAD is the only commit point. Bytes of a log after HEAD's length were never committed: readers ignore
//!   them, and the next writer truncates them. So a torn tail and a damaged commit can't be confused.
//! - `manifest/CREATED` is empty and says that HEAD existed once: if it exists, a missing HEAD is damage. Without it,
//!   a table of one commit would look like an interrupted first load.
//! - Everything within HEAD's length must be sound; a flipped or missing byte there is
//!   [`Error::Corrupt`](crate::Error::Corrupt).
//!
//! Bytes: docs/format/manifest.md.

mod format;
mod history;
mod reader;
mod state;
mod writer;

pub(crate) use format::{Commit, Head, Operation};
pub use format::{FileEntry, Source};
pub(crate) use history::{CommitNote, added_by};
pub(crate) use reader::{HeadFile, refresh, state_of};
pub(crate) use state::TableState;
pub(crate) use writer::{commit, create, mark_created};

use crate::error::{Error, Result};
use crate::storage::Storage;

/// Folder of the manifest within a table's folder.
pub(crate) const FOLDER: &str = "manifest";

pub(crate) fn head_path(table: &str) -> String {
    format!("{table}/{FOLDER}/HEAD")
}

/// Whether a table was ever committed, though its HEAD may be lost.
pub(crate) fn was_created(storage: &dyn Storage, table: &str) -> Result<bool> {
    match storage.identity(&created_path(table)) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error of a table whose HEAD is lost.
pub(crate) fn lost_head(storage: &dyn Storage, table: &str) -> Error {
    Error::corrupt(storage.display_path(&head_path(table)), 0, "the HEAD of a table that was committed", "no file")
}

pub(crate) fn created_path(table: &str) -> String {
    format!("{table}/{FOLDER}/CREATED")
}

pub(crate) fn log_path(table: &str, number: u64) -> String {
    format!("{table}/{FOLDER}/{number:06}.log")
}
