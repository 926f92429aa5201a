//! Decides at a start where the log continues.
//!
//! - Records up to the head's were synced: if one of them is missing or unsound, the file isn't changed, and the log
//!   continues in a new file, so [`verify`](super::verify()) reports the damage from then on.
//! - After the head's record, the sound records stay, and the rest, which a crash has left, is truncated.

use super::chain::{ChainPosition, FileOpening, LinkedLine, TornEnd};
use super::files::{self, LogLines};
use super::head::{LogHead, StoredHead};
use super::seal::{AuditKey, Seal};
use super::time_of;
use crate::error::Result;
use crate::storage::Storage;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// Nanoseconds of a day.
pub(super) const DAY_NS: i64 = 86_400_000_000_000;

/// A log as it was found.
#[derive(Debug)]
pub(super) struct RecoveredLog {
    /// The chain that is continued; none if there is no chain yet.
    pub(super) chain: Option<String>,
    pub(super) position: ChainPosition,
    /// The file that may be gone on with.
    pub(super) file: Option<LastFile>,
    /// The bytes that are cut off its end.
    pub(super) torn: Option<TornEnd>,
    /// The findings about damage.
    pub(super) notes: Vec<String>,
}

/// The last file.
#[derive(Debug)]
pub(super) struct LastFile {
    pub(super) path: String,
    /// The end of its last sound record.
    pub(super) length: u64,
    pub(super) opening: FileOpening,
    /// Days since 1970-01-01 of its first record.
    pub(super) day: i64,
}

/// The content of a file.
struct LogScan {
    length: u64,
    /// The first record, the date and position of the last one, and where that ends; for records that are sound and follow each other.
    sound: Option<(FileOpening, i64, ChainPosition, u64)>,
    /// Whole lines behind them.
    other_lines: u64,
}

impl LogScan {
    fn of(storage: &dyn Storage, path: &str, key: Option<&AuditKey>) -> Result<LogScan> {
        let mut lines = LogLines::of(storage, path.to_owned())?;
        let mut scan = LogScan { length: lines.length(), sound: None, other_lines: 0 };
        let mut is_over = false;
        while let Some(line) = lines.next()? {
            let linked = LinkedLine::of(&line.bytes).filter(|_| line.is_whole && !is_over);
            match linked.and_then(|linked| scan.with(&linked, key)) {
                Some((opening, day, position)) => scan.sound = Some((opening, day, position, line.end)),
                None => {
                    is_over = true;
                    scan.other_lines += u64::from(line.is_whole);
                }
            }
        }
        Ok(scan)
    }

    /// The log with one more record, if that is sound and follows the last one.
    fn with(&self, linked: &LinkedLine, key: Option<&AuditKey>) -> Option<(FileOpening, i64, ChainPosition)> {
        let (opening, day) = match &self.sound {
            Some((opening, day, position, _)) if linked.follows(position) => (opening.clone(), *day),
            Some(_) => return None,
            None => (linked.link.file.clone()?, time_of(&linked.link.time)?.div_euclid(DAY_NS)),
        };
        let seal = Seal::of_records(key);
        // Nobody knows of another key's digests.
        let has_own_key = opening.key.as_deref() == key.map(AuditKey::id);
        (!has_own_key || seal.is_sound(&linked.sealed)).then(|| (opening, day, linked.position()))
    }

    fn end(&self) -> u64 {
        self.sound.as_ref().map_or(0, |sound| sound.3)
    }
}

/// The head, if it belongs to this log, as far as the holder of this key can tell.
fn trusted_head(
    storage: &dyn Storage,
    numbers: &[u64],
    key: Option<&AuditKey>,
    notes: &mut Vec<String>,
) -> Result<Option<LogHead>> {
    let note = match LogHead::read(storage)? {
        StoredHead::None if numbers.is_empty() => return Ok(None),
        StoredHead::None => "was missing",
        StoredHead::Damaged => "was damaged",
        StoredHead::Some(head, sealed) => {
            let id = head.key.as_deref();
            let seal = match key.filter(|key| id == Some(key.id())) {
                Some(key) => Some(Seal::Head(key)),
                None => id.is_none().then_some(Seal::Plain),
            };
            if seal.is_some_and(|seal| !seal.is_sound(&sealed)) {
                "was changed"
            } else if is_sealed_as_records(storage, numbers, &head)? {
                return Ok(Some(head));
            } else {
                "was sealed in another way than the records"
            }
        }
    };
    notes.push(format!("{} {note}", super::head::FILE));
    Ok(None)
}

/// Whether a head is sealed with the key of the last file: whoever doesn't have that could make one without, for an end that he has cut off.
/// A start with another key may have been cut short between a file, which has few records then, and its head.
fn is_sealed_as_records(storage: &dyn Storage, numbers: &[u64], head: &LogHead) -> Result<bool> {
    for number in numbers.iter().rev() {
        let mut lines = LogLines::of(storage, files::name(*number))?;
        let first = lines.next()?.and_then(|line| LinkedLine::of(&line.bytes)?.link.file);
        let Some(opening) = first else { continue };
        if opening.key == head.key {
            return Ok(true);
        }
        lines.next()?;
        if *number <= head.n || lines.next()?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads a log that no process writes to, and finds where it is to be continued.
pub(super) fn recover(storage: &dyn Storage, key: Option<&AuditKey>) -> Result<RecoveredLog> {
    let (mut notes, mut torn) = (Vec::new(), None);
    let numbers = files::numbers(storage)?;
    let head = trusted_head(storage, &numbers, key, &mut notes)?;
    let mut number_max = 0;
    for number in numbers.into_iter().rev() {
        let path = files::name(number);
        let scan = LogScan::of(storage, &path, key)?;
        // Whether what begins at an offset was, as far as can be known, never synced.
        let is_torn = |from: u64| match &head {
            Some(head) => head.n < from,
            None => scan.other_lines == 0,
        };
        let Some((opening, day, position, length)) = &scan.sound else {
            if is_torn(number) {
                torn = Some(torn_of(storage, &path, 0, scan.length)?).filter(|torn| torn.bytes > 0);
                storage.remove(&path)?;
            } else {
                notes.push(format!("{path} has no sound record"));
                number_max = number_max.max(number);
            }
            continue;
        };
        let chain = Some(opening.chain.clone());
        let n = head.as_ref().map_or(0, |head| head.n);
        let whole = scan.length == *length;
        let reaches_head = head.as_ref().is_none_or(|head| head.n <= position.n);
        if number_max == 0 && reaches_head && (whole || is_torn(position.n.saturating_add(1))) {
            if !whole {
                torn = Some(torn_of(storage, &path, scan.end(), scan.length)?);
            }
            let file = LastFile { path, length: *length, opening: opening.clone(), day: *day };
            return Ok(RecoveredLog { chain, position: position.clone(), file: Some(file), torn, notes });
        }
        if !whole {
            notes.push(format!("{path} is damaged behind record {}", position.n));
        }
        if !reaches_head {
            notes.push(format!("records {} to {n} are missing", position.n.saturating_add(1)));
        }
        let others = scan.other_lines.saturating_add(position.n);
        let position = ChainPosition { n: n.max(number_max).max(others), digest: position.digest.clone() };
        return Ok(RecoveredLog { chain, position, file: None, torn, notes });
    }
    let position = head.as_ref().map_or_else(ChainPosition::first, LogHead::position);
    if position.n > 0 {
        notes.push(format!("records 1 to {} are missing", position.n));
    }
    let position = ChainPosition { n: position.n.max(number_max), ..position };
    Ok(RecoveredLog { chain: head.map(|head| head.chain), position, file: None, torn, notes })
}

fn torn_of(storage: &dyn Storage, path: &str, from: u64, to: u64) -> Result<TornEnd> {
    let (mut hasher, mut at) = (blake3::Hasher::new(), from);
    while at < to {
        let part = usize::try_from(to - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        hasher.update(&storage.read_at(path, at, part)?);
        at += part as u64;
    }
    Ok(TornEnd { bytes: to - from, blake3: hasher.finalize().to_hex().to_string() })
}
