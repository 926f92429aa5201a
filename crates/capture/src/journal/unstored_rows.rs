//! Lists the journal's batches that are in no table's files, without changing a byte.

use std::collections::HashMap;

use arrow::array::AsArray;
use arrow::datatypes::TimestampNanosecondType;
use splay_store::WriteDownPosition;
use splay_store::storage::Storage;

use super::catalog::{Catalog, CatalogContent};
use super::format::{self, HEADER_BYTES, JournalFrame, RowsFrame};
use super::{FOLDER, JournalLoss, LOCK, Producers, path, reader};
use crate::codec;
use crate::error::Result;

/// Rows of the journal that no table's files have.
#[derive(Debug, Default)]
pub(crate) struct UnstoredRows {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Number of the last batch.
    pub(crate) sequence: u64,
    pub(crate) producers: Producers,
    /// By table as it was written: the last number, and the rows that are in the journal alone.
    pub(crate) tables: HashMap<String, (u64, u64)>,
    /// Damage that leaves the rows uncertain, if there is any.
    pub(crate) damage: Option<String>,
    /// Listed losses that the operator hasn't accepted.
    pub(crate) losses: Vec<JournalLoss>,
}

/// Whether a process captures into the database. `None` of its files are made.
pub(crate) fn is_locked(storage: &dyn Storage) -> Result<bool> {
    let is_there = storage.list(FOLDER)?.iter().any(|entry| entry.name == "lock");
    // A process that starts in this moment tries again for a second.
    Ok(is_there && storage.try_lock(LOCK, splay_store::storage::LockMode::Exclusive)?.is_none())
}

/// Looks at all files, as far as they are whole. `captured` says what the files of a table have.
pub(crate) fn look(storage: &dyn Storage, captured: impl Fn(&str) -> WriteDownPosition) -> Result<UnstoredRows> {
    let mut seen = UnstoredRows::default();
    if let CatalogContent::Sound(catalog) = Catalog::load(storage)? {
        seen.losses = catalog.open_losses().cloned().collect();
    }
    for number in reader::numbers(storage)? {
        let path = path(number);
        // Another process may have removed it meanwhile, which is none of our business.
        let Ok(bytes) = storage.map(&path) else { continue };
        seen.bytes += bytes.len() as u64;
        let Some((_, _, first)) = format::parse_header(&bytes) else { continue };
        seen.sequence = seen.sequence.max(first.saturating_sub(1));
        let (mut layouts, mut offset) = (HashMap::new(), HEADER_BYTES);
        while let Some((content, length)) = bytes.get(offset..).and_then(format::content) {
            match format::parse(content) {
                Some(JournalFrame::Layout(layout)) => drop(layouts.insert(layout.id, layout.spec)),
                Some(JournalFrame::Producers(all)) => {
                    seen.producers = super::named(all);
                }
                Some(JournalFrame::Rows(rows)) => {
                    if let Some(spec) = layouts.get(&rows.layout) {
                        seen.note(&rows, spec, captured(&spec.name));
                    }
                }
                Some(JournalFrame::Link(_) | JournalFrame::Synced(_)) | None => {}
            }
            offset += length;
        }
        if offset < bytes.len() && bytes[offset..].iter().any(|byte| *byte != 0) {
            let shown = storage.display_path(&path);
            seen.damage = Some(format!("{} has no whole frame at byte {offset}", shown.display()));
        }
    }
    Ok(seen)
}

impl UnstoredRows {
    fn note(&mut self, rows: &RowsFrame<'_>, spec: &splay_store::TableSpec, captured: WriteDownPosition) {
        self.sequence = self.sequence.max(rows.sequence);
        let (producer, number) = rows.producer;
        if !producer.is_empty() {
            let last_message = self.producers.entry(producer.to_owned()).or_default();
            *last_message = (last_message.0.max(number), rows.received);
        }
        let of_table = self.tables.entry(spec.name.clone()).or_default();
        of_table.0 = of_table.0.max(rows.sequence);
        of_table.1 += in_journal_alone(rows, spec, captured);
    }
}

/// Rows of a batch that the files of its table don't have.
fn in_journal_alone(rows: &RowsFrame<'_>, spec: &splay_store::TableSpec, captured: WriteDownPosition) -> u64 {
    if rows.sequence <= captured.sequence && rows.times.1 <= captured.cut {
        return 0;
    }
    let Ok(batch) = codec::decode(spec, rows.rows) else { return 0 };
    if rows.sequence > captured.sequence {
        return batch.num_rows() as u64;
    }
    let times = batch.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
    times.iter().filter(|time| **time > captured.cut).count() as u64
}
