//! The manifest: the truth about which files a table consists of.
//!
//! - `manifest/NNNNNN.log` is an append-only log of commits; `manifest/HEAD` says how much of which log counts.
//! - Replacing HEAD is the only commit point. What stands in a log behind HEAD's length was never committed: readers don't see
//!   it, the next writer cuts it off. So a torn tail and a damaged commit can't be taken for one another.
//! - Everything within HEAD's length must be sound; a flipped or missing byte there is [`Error::Corrupt`](crate::Error::Corrupt).
//!
//! Bytes: docs/format/manifest.md.

mod format;
mod reader;
mod state;
mod writer;

pub(crate) use format::{Commit, Head, Operation};
pub use format::{FileEntry, SegmentFormat, Source};
pub(crate) use reader::{HeadFile, refresh};
pub(crate) use state::TableState;
pub(crate) use writer::{commit, create};

/// Folder of the manifest within a table's folder.
pub(crate) const FOLDER: &str = "manifest";

pub(crate) fn head_path(table: &str) -> String {
    format!("{table}/{FOLDER}/HEAD")
}

pub(crate) fn log_path(table: &str, number: u64) -> String {
    format!("{table}/{FOLDER}/{number:06}.log")
}
