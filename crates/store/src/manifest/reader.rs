//! Reads the manifest without a lock: HEAD, then the log, continuing from an earlier read if possible.
//!
//! Idea: a writer appends to the log before it replaces HEAD, so the bytes up to HEAD's length never change. A reader that finds HEAD unchanged
//! uses its earlier state; if only more of the same log counts, it applies the new records alone. If the log was replaced and removed between
//! the two reads, it starts again with the new HEAD.

use std::sync::Arc;

use super::format::{Commit, Head, LOG_HEADER_BYTES, check_log_header};
use super::state::TableState;
use super::{head_path, log_path};
use crate::error::{Error, Result};
use crate::storage::{IdentifiedFile, Storage};

/// How often a reader starts anew when a writer replaces the log below it.
const TRIES: usize = 16;

/// The content of HEAD, and the identity of its file, by which a replacement shows.
#[derive(Debug)]
pub(crate) struct HeadFile {
    pub(crate) head: Head,
    file: IdentifiedFile,
}

impl HeadFile {
    /// Reads HEAD. If there is no table, the error answers true to [`Error::is_not_found`].
    pub(crate) fn read(storage: &dyn Storage, table: &str) -> Result<HeadFile> {
        let path = head_path(table);
        let file = storage.read_identified(&path)?;
        let head = Head::decode(&file.content, &storage.display_path(&path))?;
        Ok(HeadFile { head, file })
    }

    /// Whether HEAD is still the file that was read. Costs one look at its folder entry.
    pub(crate) fn is_current(&self, storage: &dyn Storage, table: &str) -> Result<bool> {
        Ok(storage.identity(&head_path(table))? == self.file.identity)
    }
}

/// The table in a folder as it is now; an error that [`Error::is_not_found`] if it has no HEAD. `cached` is an earlier result, of which only
/// the difference is read.
pub(crate) fn refresh(
    storage: &dyn Storage,
    table: &str,
    cached: Option<&(Head, Arc<TableState>)>,
) -> Result<(HeadFile, Arc<TableState>)> {
    let mut lost = None;
    for _ in 0..TRIES {
        let file = HeadFile::read(storage, table)?;
        if let Some((seen, state)) = cached
            && *seen == file.head
        {
            return Ok((file, Arc::clone(state)));
        }
        let path = log_path(table, file.head.log);
        match storage.read(&path) {
            Ok(bytes) => {
                let mut state = replay(&bytes, &file.head, cached, &storage.display_path(&path))?;
                // A folder that was copied by hand is a table of its own, whatever its log says.
                let name = file.head.name.as_deref().unwrap_or(table);
                if state.spec.name != name {
                    name.clone_into(&mut Arc::make_mut(&mut state).spec.name);
                }
                return Ok((file, state));
            }
            // A writer put a new log in place and removed this one after we had read HEAD.
            Err(error) if error.is_not_found() => lost = Some(path),
            Err(error) => return Err(error),
        }
    }
    let path = storage.display_path(&lost.unwrap_or_default());
    Err(Error::corrupt(path, 0, "the log that HEAD names", "no file"))
}

/// The state that a whole log makes, as HEAD says.
pub(crate) fn state_of(log: &[u8], head: &Head, path: &std::path::Path) -> Result<TableState> {
    replay(log, head, None, path).map(Arc::unwrap_or_clone)
}

fn replay(
    bytes: &[u8],
    head: &Head,
    cached: Option<&(Head, Arc<TableState>)>,
    path: &std::path::Path,
) -> Result<Arc<TableState>> {
    let length = usize::try_from(head.length).unwrap_or(usize::MAX);
    let Some(bytes) = bytes.get(..length) else {
        return Err(Error::corrupt(path, bytes.len() as u64, format!("{length} bytes"), "the file's end"));
    };
    check_log_header(bytes, path)?;
    let (mut state, mut offset) = match cached {
        Some((seen, state)) if seen.log == head.log && seen.length <= head.length => {
            (Some(TableState::clone(state)), usize::try_from(seen.length).unwrap_or(length))
        }
        _ => (None, LOG_HEADER_BYTES),
    };
    while offset < bytes.len() {
        let (commit, next) = Commit::decode(bytes, offset, path)?;
        match &mut state {
            Some(state) => state.apply(commit, path)?,
            None => state = Some(TableState::first(commit, path)?),
        }
        offset = next;
    }
    match state {
        Some(state) if state.epoch == head.epoch => Ok(Arc::new(state)),
        Some(state) => {
            Err(Error::corrupt(path, offset as u64, format!("epoch {}", head.epoch), format!("epoch {}", state.epoch)))
        }
        None => Err(Error::corrupt(path, offset as u64, "a record", "none")),
    }
}
