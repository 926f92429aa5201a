//! Copies the journal's files for a backup, while another process may write.

use std::collections::BTreeMap;

use splay_store::storage::Storage;

use super::frame_cursor::{FrameCursor, FrameStep};
use super::reader::damaged;
use super::tail_reader::{holds_a_frame, passes_loss};
use super::{FOLDER, LOCK, REPLICA_FILE, RESERVE_FILE, format, path};
use crate::error::Result;

/// Bytes of a file that count.
#[derive(Debug)]
pub(crate) struct CopiedBytes {
    pub(crate) bytes: Vec<u8>,
    /// Number of the last batch, or the one before the first that it may hold.
    pub(crate) last: u64,
}

/// A file up to its last whole message; `None` if it isn't there any more, or is just being begun.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged) if another file follows and not all of it is sound, or a complete frame follows a damaged
/// one. Damage that a start has listed in the catalog is copied as it is, with the catalog.
pub(crate) fn copy(storage: &dyn Storage, number: u64, is_last: bool) -> Result<Option<CopiedBytes>> {
    let path = path(number);
    let mut bytes = match storage.read(&path) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let damage = |offset, what| damaged(storage, &path, offset, what);
    let Some((version, in_file, first)) = format::parse_header(&bytes) else {
        return if is_last { Ok(None) } else { Err(damage(0, "the header of a journal file")) };
    };
    if !(1..=format::VERSION).contains(&version) || in_file != number {
        return Err(damage(8, "a version and number of this release"));
    }
    let mut walk = FrameCursor::new(first);
    let (mut whole, mut last, mut is_open) = (walk.offset(), first.saturating_sub(1), false);
    loop {
        let offset = walk.offset();
        let step = walk.next(&bytes);
        let is_broken = !is_last && offset < bytes.len() && !matches!(step, Ok(Some(_)));
        if is_broken && passes_loss(storage, number, &mut walk, last)? {
            // The parts of a message count only if they are all there.
            is_open = false;
            whole = walk.offset();
            continue;
        }
        match step.map_err(|what| damage(offset, what))? {
            None => break,
            Some(FrameStep::Rows(rows, _)) => {
                // It counts only with what follows.
                is_open = rows.is_joined;
                last = if is_open { last } else { rows.sequence };
            }
            Some(_) => {}
        }
        if !is_open {
            whole = walk.offset();
        }
    }
    let offset = walk.offset();
    // Damage may reach to where the file ended before it was cut.
    let is_sound = if is_last { !holds_a_frame(&bytes[offset..]) } else { whole >= bytes.len() };
    if !is_sound {
        return Err(damage(offset, "whole frames up to the file's end"));
    }
    bytes.truncate(whole);
    Ok(Some(CopiedBytes { bytes, last }))
}

/// Gives table, number and latest time of each batch in a file, as far as its frames are whole.
///
/// # Errors
/// Those of reading.
pub(crate) fn each_batch(storage: &dyn Storage, number: u64, take: &mut dyn FnMut(&str, u64, i64)) -> Result<()> {
    let bytes = storage.read(&path(number))?;
    let Some((_, _, first)) = format::parse_header(&bytes) else { return Ok(()) };
    let (mut walk, mut last) = (FrameCursor::new(first), first.saturating_sub(1));
    loop {
        match walk.next(&bytes) {
            Ok(Some(FrameStep::Rows(rows, spec))) => {
                last = rows.sequence;
                take(&spec.name, rows.sequence, rows.times.1);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                if walk.offset() >= bytes.len() || !passes_loss(storage, number, &mut walk, last)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Whether all rows of a file are in the tables' files.
///
/// # Errors
/// Those of reading.
pub(crate) fn is_stored(storage: &dyn Storage, number: u64, stored: &impl Fn(&str, u64, i64) -> bool) -> Result<bool> {
    let mut tables: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    each_batch(storage, number, &mut |table, sequence, latest| {
        let of_table = tables.entry(table.to_owned()).or_insert((0, i64::MIN));
        *of_table = (of_table.0.max(sequence), of_table.1.max(latest));
    })?;
    Ok(tables.iter().all(|(table, (sequence, latest))| stored(table, *sequence, *latest)))
}

/// Other files of the folder that belong to a backup, by path: all but the lock, the reserve and files that are kept for operators.
///
/// # Errors
/// Those of reading.
pub(crate) fn others(storage: &dyn Storage) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut others = BTreeMap::new();
    for entry in storage.list(FOLDER)?.into_iter().filter(|entry| !entry.is_dir) {
        let path = format!("{FOLDER}/{}", entry.name);
        let ends = [".jnl", ".torn", ".damaged", ".log", ".tmp"];
        // The state of a database among its copies isn't part of a backup: a database that is restored from it is independent.
        let is_ours = path == LOCK || entry.name == RESERVE_FILE || entry.name == REPLICA_FILE;
        if is_ours || ends.iter().any(|end| entry.name.contains(end)) {
            continue;
        }
        match storage.read(&path) {
            Err(error) if error.is_not_found() => {}
            read => drop(others.insert(path, read?)),
        }
    }
    Ok(others)
}
