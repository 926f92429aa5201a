//! Refused input with its reasons: counted, the newest in memory, all of it in a log of bounded size.
//!
//! - The log is `.journal/rejected.log`, one JSON object per line; when full it becomes `rejected.1.log`, and a new
//!   one begins. The maintenance thread writes it, without a sync, so no sender waits for the disk.
//! - It is for people: rows don't depend on it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use splay_store::storage::{Storage, StorageFile};

use crate::error::Result;
use crate::journal;

/// Refusals that are remembered.
const NEWEST_MAX: usize = 1_000;

/// Bytes of a refused message that are kept, and of the reason.
const SAMPLE_BYTES: usize = 200;
const REASON_BYTES: usize = 2_000;

/// Length of the log from which on another one begins.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedInput {
    /// When, in nanoseconds since the epoch.
    pub at: i64,
    /// By which way it came.
    pub way: Cow<'static, str>,
    /// Why it was refused.
    pub reason: String,
    /// Its beginning.
    pub sample: String,
}

/// The newest refusals.
#[derive(Debug, Default)]
pub(crate) struct NewestRefusals(Mutex<RecentRefusals>);

#[derive(Debug, Default)]
struct RecentRefusals {
    newest: VecDeque<RefusedInput>,
    /// How many of the newest aren't in the log.
    unwritten: usize,
    /// Refusals that were dropped before they could be written.
    left_out: u64,
}

impl NewestRefusals {
    pub(crate) fn note(&self, at: i64, way: &'static str, reason: &str, message: &[u8]) {
        let text = |bytes: &[u8], most: usize| String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned();
        let (reason, sample) = (text(reason.as_bytes(), REASON_BYTES), text(message, SAMPLE_BYTES));
        let mut state = self.state();
        if state.newest.len() == NEWEST_MAX {
            state.newest.pop_front();
            if state.unwritten == NEWEST_MAX {
                (state.unwritten, state.left_out) = (NEWEST_MAX - 1, state.left_out + 1);
            }
        }
        state.newest.push_back(RefusedInput { at, way: Cow::Borrowed(way), reason, sample });
        state.unwritten += 1;
    }

    /// The newest, oldest first.
    pub(crate) fn newest(&self) -> Vec<RefusedInput> {
        self.state().newest.iter().cloned().collect()
    }

    /// Lines for the log, of what isn't there yet.
    fn lines(&self) -> Vec<u8> {
        let mut state = self.state();
        let (unwritten, left_out) = (std::mem::take(&mut state.unwritten), std::mem::take(&mut state.left_out));
        let start = state.newest.len() - unwritten;
        let mut all: Vec<RefusedInput> = state.newest.range(start..).cloned().collect();
        drop(state);
        if let Some(first) = all.first().filter(|_| left_out > 0) {
            let reason = format!("{left_out} refusals came too fast to be written here");
            let summary = RefusedInput { at: first.at, way: Cow::Borrowed("log"), reason, sample: String::new() };
            all.insert(0, summary);
        }
        let mut lines = Vec::new();
        for rejected in all {
            // Plain data is always written.
            if serde_json::to_writer(&mut lines, &rejected).is_ok() {
                lines.push(b'\n');
            }
        }
        lines
    }

    fn state(&self) -> MutexGuard<'_, RecentRefusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes refusals to the database's log.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    open: Option<(Box<dyn StorageFile>, u64)>,
}

impl RefusalLog {
    /// Writes the refusals that aren't written yet. An error is logged, and these refusals are left out of the file.
    pub(crate) fn write(&mut self, storage: &dyn Storage, refusals: &NewestRefusals) {
        let lines = refusals.lines();
        if lines.is_empty() {
            return;
        }
        if let Err(error) = self.append(storage, &lines) {
            self.open = None;
            tracing::warn!(%error, "refusals can't be written to their log");
        }
    }

    fn append(&mut self, storage: &dyn Storage, lines: &[u8]) -> Result<()> {
        let (mut file, bytes) = match self.open.take() {
            Some(open) => open,
            None => begin(storage)?,
        };
        file.write(lines)?;
        let bytes = bytes + lines.len() as u64;
        if bytes < LOG_BYTES_MAX {
            self.open = Some((file, bytes));
        } else {
            drop(file);
            storage.rename(&path(""), &path(".1"))?;
        }
        Ok(())
    }
}

/// The log, which is continued after its existing lines.
fn begin(storage: &dyn Storage) -> Result<(Box<dyn StorageFile>, u64)> {
    if !is_there(storage, "")? {
        return Ok((storage.create(&path(""))?, 0));
    }
    let bytes = storage.identity(&path(""))?.length;
    let mut file = storage.open_append(&path(""), bytes)?;
    // A process that died may have left part of a line.
    file.write(b"\n")?;
    Ok((file, bytes + 1))
}

/// The newest refusals that the log has, oldest first. What can't be read is passed over.
pub(crate) fn logged(storage: &dyn Storage, most: usize) -> Result<Vec<RefusedInput>> {
    let mut refusals = Vec::new();
    for part in [".1", ""] {
        if !is_there(storage, part)? {
            continue;
        }
        let length = storage.identity(&path(part))?.length;
        // The end of the file; more was never written at once.
        let bytes = length.min(2 * LOG_BYTES_MAX);
        let end = storage.read_at(&path(part), length - bytes, usize::try_from(bytes).unwrap_or(0))?;
        refusals.extend(
            end.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<RefusedInput>(line).ok()),
        );
    }
    Ok(refusals.split_off(refusals.len().saturating_sub(most)))
}

fn path(part: &str) -> String {
    format!("{}/rejected{part}.log", journal::FOLDER)
}

fn is_there(storage: &dyn Storage, part: &str) -> Result<bool> {
    let name = format!("rejected{part}.log");
    Ok(storage.list(journal::FOLDER)?.iter().any(|entry| entry.name == name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use splay_store::storage::fault::FaultStorage;

    use super::*;

    fn storage() -> FaultStorage {
        let storage = FaultStorage::new();
        storage.create_dir(journal::FOLDER).unwrap();
        storage
    }

    fn reasons(storage: &FaultStorage) -> Vec<String> {
        logged(storage, 100_000).unwrap().into_iter().map(|rejected| rejected.reason).collect()
    }

    #[test]
    fn the_log_goes_on_behind_a_line_that_was_cut_and_has_what_memory_forgot() {
        let (storage, refusals) = (storage(), NewestRefusals::default());
        assert_eq!(reasons(&storage), [""; 0]);
        let mut log = RefusalLog::default();
        log.write(&storage, &refusals);
        assert!(storage.paths().is_empty(), "no refusals, no file");
        let numbers = |numbers: std::ops::Range<usize>| numbers.map(|number| number.to_string()).collect::<Vec<_>>();
        for part in 0..3 {
            numbers(part * 900..(part + 1) * 900).iter().for_each(|n| refusals.note(7, "line", n, b"\xff\n\"{"));
            log.write(&storage, &refusals);
        }
        assert_eq!(reasons(&storage), numbers(0..2_700));
        assert_eq!(refusals.newest().len(), NEWEST_MAX);
        storage.damage(&path(""), |bytes| bytes.truncate(bytes.len() - 5)).unwrap();
        let mut log = RefusalLog::default();
        refusals.note(8, "flight", "last", b"");
        log.write(&storage, &refusals);
        let mut expected = numbers(0..2_699);
        expected.push("last".to_owned());
        assert_eq!(reasons(&storage), expected);
        assert_eq!(logged(&storage, 2).unwrap()[1], refusals.newest()[NEWEST_MAX - 1]);
    }

    #[test]
    fn the_log_is_bounded_and_says_what_it_left_out() {
        let (storage, refusals) = (storage(), NewestRefusals::default());
        let mut log = RefusalLog::default();
        (0..NEWEST_MAX + 3).for_each(|_| refusals.note(7, "line", "first", b""));
        log.write(&storage, &refusals);
        assert_eq!(reasons(&storage)[0], "3 refusals came too fast to be written here");
        let long = "x".repeat(REASON_BYTES + 1);
        for _ in 0..12 {
            (0..NEWEST_MAX).for_each(|_| refusals.note(7, "line", &long, b""));
            log.write(&storage, &refusals);
        }
        assert_eq!(storage.paths(), [path(".1"), path("")]);
        assert!(storage.used() < 2 * (usize::try_from(LOG_BYTES_MAX).unwrap() + NEWEST_MAX * 2 * REASON_BYTES));
        assert_eq!(reasons(&storage).last().unwrap().len(), REASON_BYTES);
    }

    #[test]
    fn a_log_that_fails_is_passed_over_and_begins_again() {
        let (storage, refusals) = (storage(), NewestRefusals::default());
        let mut log = RefusalLog::default();
        storage.capacity(Some(10));
        refusals.note(7, "line", "lost", b"");
        log.write(&storage, &refusals);
        storage.capacity(None);
        refusals.note(7, "line", "kept", b"");
        log.write(&storage, &refusals);
        assert_eq!(reasons(&storage), ["kept"]);
        assert_eq!(refusals.newest().len(), 2);
    }
}
