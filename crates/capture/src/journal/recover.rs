//! Reads the whole batches from a file that a start has set aside, or from any other part of a journal.
//!
//! Such a file has no header, and may lack the layouts of its tables: these are taken from the journal, and from the
//! existing tables.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::{Database, TableSpec};

use super::format::{self, HEADER_BYTES};
use super::inspect::{JournalReport, look};
use super::reader::{JournalContent, batch};
use super::scan::{FilePart, JournalScan, OtherLayouts};
use super::tables;
use crate::error::{Error, Result};

/// A batch that was read out of a piece of a journal.
#[derive(Debug, Clone)]
pub struct RecoveredBatch {
    /// Its number.
    pub sequence: u64,
    /// When it came in, in nanoseconds since the epoch.
    pub received: i64,
    /// Its producer and number; no name if it had none.
    pub producer: (String, u64),
    /// Its table.
    pub spec: Arc<TableSpec>,
    /// Its rows.
    pub rows: RecordBatch,
    /// Whether the journal has it, too.
    pub is_in_journal: bool,
    /// Number of its message among those of the file: batches of one message count together.
    pub message: usize,
}

impl JournalReport {
    /// The whole batches of a file, in their order. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Failed`] if the file can't be read; those of [`JournalReport::of`].
    pub fn recover(database: &Database, file: &Path) -> Result<Vec<RecoveredBatch>> {
        let bytes =
            std::fs::read(file).map_err(|error| Error::Failed { reason: format!("{}: {error}", file.display()) })?;
        let content = look(database, database.raw_storage().as_ref())?;
        let tables = || tables(database);
        let mut layouts = OtherLayouts::new(&tables);
        layouts.earlier.clone_from(content.layouts());
        // The bytes are read as if they were a whole file. Without a header the format version isn't known: they are read as both, and the reading with more batches counts.
        let header = format::parse_header(&bytes);
        let framed = if header.is_some() { bytes } else { [vec![0; HEADER_BYTES], bytes].concat() };
        let read = |version| batches(&framed, version, &layouts, &content);
        match header {
            Some((version, _, _)) => Ok(read(version)),
            None => Ok([read(format::LINKED), read(format::LINKED - 1)]
                .into_iter()
                .rev()
                .max_by_key(Vec::len)
                .unwrap_or_default()),
        }
    }
}

fn batches(framed: &[u8], version: u32, layouts: &OtherLayouts<'_>, content: &JournalContent) -> Vec<RecoveredBatch> {
    let mut scan = JournalScan::new(framed, version, 1, layouts);
    let mut batches = Vec::new();
    let mut message = 0;
    loop {
        let parts = match scan.next() {
            FilePart::Message(_, parts) => parts,
            FilePart::End(_) => return batches,
            _ => continue,
        };
        message += 1;
        for (rows, spec) in parts {
            let Ok(read) = batch(&rows, &spec) else { continue };
            batches.push(RecoveredBatch {
                sequence: rows.sequence,
                received: rows.received,
                producer: (rows.producer.0.to_owned(), rows.producer.1),
                rows: read.rows,
                is_in_journal: content.has(rows.sequence),
                message,
                spec,
            });
        }
    }
}
