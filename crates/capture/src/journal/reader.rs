//! Reads the journal after a start.

use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::TableSpec;
use splay_store::storage::Storage;

use super::format::{self, RowsFrame};
use super::walk::{Step, Walk};
use super::{FOLDER, JournalFile, Producers, name, path};
use crate::codec;
use crate::error::{Error, Result};

/// Bytes of a torn end over which checksums are taken to see whether a frame stands in it.
const CHECKED_BYTES_MAX: usize = 1 << 30;

/// A batch as it was taken.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) sequence: u64,
    pub(crate) received: i64,
    pub(crate) spec: Arc<TableSpec>,
    pub(crate) rows: RecordBatch,
}

/// What was found after a start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<JournalFile>,
    pub(crate) producers: Producers,
    /// The next batch's number.
    pub(crate) next_sequence: u64,
    /// Bytes that were cut off the end, and where they are kept.
    pub(crate) torn: Option<(u64, String)>,
}

/// Reads all files in order and gives each batch to `take`, which is asked first, by table, sequence number and latest time,
/// whether it wants it. Cuts a torn end off and keeps it aside.
pub(crate) fn replay(
    storage: &dyn Storage,
    wants: impl Fn(&str, u64, i64) -> bool,
    mut take: impl FnMut(Batch) -> Result<()>,
) -> Result<Found> {
    let mut found = Found { next_sequence: 1, ..Found::default() };
    let numbers = numbers(storage)?;
    for (place, number) in numbers.iter().enumerate() {
        let is_last = place + 1 == numbers.len();
        let path = path(*number);
        let bytes = storage.map(&path)?;
        // Zeros in the place of a page that can't be read are no torn end.
        let refuse_unreadable = || match bytes.unreadable_at().and_then(|offset| usize::try_from(offset).ok()) {
            Some(offset) => Err(damaged(storage, &path, offset, "a page that can be read")),
            None => Ok(()),
        };
        let header = format::parse_header(&bytes);
        refuse_unreadable()?;
        let Some((version, in_file, first)) = header else {
            if is_last {
                // It was being begun: nothing in it was acknowledged.
                found.torn = set_aside(storage, &path, &bytes, 0)?;
                storage.remove(&path)?;
                break;
            }
            return Err(damaged(storage, &path, 0, "the header of a journal file"));
        };
        if !(1..=format::VERSION).contains(&version) || in_file != *number {
            return Err(damaged(storage, &path, 8, "a version and number of this release"));
        }
        // More than the next number is sound: files in between may have gone with all their rows stored.
        if first < found.next_sequence || first == u64::MAX {
            return Err(damaged(storage, &path, 20, "a first batch behind those of the files before"));
        }
        found.next_sequence = first;
        let mut file = JournalFile::new(*number, first);
        let whole = found.walk(storage, &path, &bytes, &mut file, &wants, &mut take);
        refuse_unreadable()?;
        let whole = whole?;
        if whole < bytes.len() {
            if !is_last {
                return Err(damaged(storage, &path, whole, "whole frames up to the file's end"));
            }
            found.torn = set_aside(storage, &path, &bytes, whole)?;
            let mut cut = storage.open_append(&path, whole as u64)?;
            cut.sync()?;
        }
        file.bytes = whole as u64;
        found.files.push(file);
    }
    Ok(found)
}

impl Found {
    /// Reads the frames of a file. Gives how many of its bytes count.
    fn walk(
        &mut self,
        storage: &dyn Storage,
        path: &str,
        bytes: &[u8],
        file: &mut JournalFile,
        wants: &impl Fn(&str, u64, i64) -> bool,
        take: &mut impl FnMut(Batch) -> Result<()>,
    ) -> Result<usize> {
        let mut walk = Walk::new(file.first);
        // Where rows begin that count only together with others behind them, and these rows.
        let mut open: Option<usize> = None;
        let mut joined = Vec::new();
        loop {
            let offset = walk.offset();
            match walk.next(bytes).map_err(|what| damaged(storage, path, offset, what))? {
                None => return Ok(open.unwrap_or(offset)),
                Some(Step::Layout) => file.layouts += 1,
                Some(Step::Producers(producers)) => {
                    self.producers = producers.into_iter().map(|(name, number, at)| (name, (number, at))).collect();
                }
                Some(Step::Rows(rows, spec)) => {
                    let is_joined = rows.is_joined;
                    joined.push((rows, spec));
                    if is_joined {
                        open.get_or_insert(offset);
                        continue;
                    }
                    open = None;
                    for (rows, spec) in joined.drain(..) {
                        self.note(&rows, file, &spec);
                        if wants(&spec.name, rows.sequence, rows.times.1) {
                            take(batch(&rows, &spec).map_err(|what| damaged(storage, path, offset, what))?)?;
                        }
                    }
                }
            }
        }
    }

    fn note(&mut self, rows: &RowsFrame<'_>, file: &mut JournalFile, spec: &TableSpec) {
        // Below the greatest number: the walk saw to it.
        self.next_sequence = rows.sequence + 1;
        let (name, last) = rows.producer;
        if !name.is_empty() {
            match self.producers.get_mut(name) {
                Some(known) => *known = (last.max(known.0), rows.received),
                None => {
                    self.producers.insert(name.to_owned(), (last, rows.received));
                }
            }
        }
        file.note(&spec.name, rows.sequence, rows.times.1);
    }
}

/// A frame's batch.
pub(super) fn batch(rows: &RowsFrame<'_>, spec: &Arc<TableSpec>) -> Result<Batch, codec::Reason> {
    let (sequence, received) = (rows.sequence, rows.received);
    Ok(Batch { sequence, received, rows: codec::decode(spec, rows.rows)?, spec: Arc::clone(spec) })
}

/// Numbers of the files, ascending. A file that only looks like one of ours, such as a copy named `1.jnl`, is none.
pub(super) fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let names = storage.list(FOLDER)?;
    let number = |entry: &str| {
        let number = entry.strip_suffix(".jnl").and_then(|stem| stem.parse().ok());
        number.filter(|number| name(*number) == entry)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(|entry| number(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Keeps a torn end for people to look at; a zero-filled one is none. Gives its length and where it is.
fn set_aside(storage: &dyn Storage, path: &str, bytes: &[u8], offset: usize) -> Result<Option<(u64, String)>> {
    let torn = &bytes[offset..];
    if torn.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let aside = format!("{path}.torn");
    let aside_name = aside.rsplit('/').next().unwrap_or_default();
    if storage.list(FOLDER)?.iter().any(|entry| entry.name == aside_name) {
        storage.remove(&aside)?;
    }
    let mut file = storage.create(&aside)?;
    file.write(torn)?;
    file.sync()?;
    let shown = storage.display_path(&aside).display().to_string();
    // Behind a frame that was torn there can be none that was acknowledged as `disk`, unless bytes were changed afterwards.
    let sound = holds_a_frame(torn);
    if sound {
        tracing::error!(bytes = torn.len(), kept = %shown, "whole frames stand behind a broken one at the journal's end");
    } else {
        tracing::warn!(bytes = torn.len(), kept = %shown, "the journal's end was torn; it had not been acknowledged as disk");
    }
    Ok(Some((torn.len() as u64, shown)))
}

/// Whether a whole frame stands anywhere behind the first byte, as far as that is found out in reasonable time: any four bytes
/// may look like a length, and each is a checksum over so many bytes.
fn holds_a_frame(torn: &[u8]) -> bool {
    let mut checked = 0;
    for at in 1..torn.len() {
        match format::length(&torn[at..]) {
            Some(length) => checked += length,
            None => continue,
        }
        if format::content(&torn[at..]).is_some() {
            return true;
        }
        if checked > CHECKED_BYTES_MAX {
            return false;
        }
    }
    false
}

pub(super) fn damaged(storage: &dyn Storage, path: &str, offset: usize, expected: &str) -> Error {
    Error::Damaged {
        path: storage.display_path(path),
        offset: offset as u64,
        expected: expected.to_owned(),
        found: "other bytes".to_owned(),
    }
}
