//! Rows that statements insert: they are captured, as those of any other sender.

use std::sync::mpsc;

use arrow::array::RecordBatch;
use splay_sql::{Error, InsertRows, Inserted, Result};
use splay_store::TableSpec;

use crate::ingest::{Append, Ingest, IngestError};

/// Most bytes that one statement inserts: all its rows are taken or none.
const INSERTED_BYTES_MAX: usize = 64 << 20;

/// Rows go to the journal.
pub(crate) struct IntoJournal<'a>(pub(crate) &'a dyn Ingest);

impl InsertRows for IntoJournal<'_> {
    fn insert(&self, spec: &TableSpec, rows: &mut dyn Iterator<Item = Result<RecordBatch>>) -> Result<Inserted> {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        for batch in rows {
            let batch = batch?;
            bytes += batch.get_array_memory_size();
            if bytes > INSERTED_BYTES_MAX {
                let message = format!(
                    "a statement inserts at most {} MiB of rows, all or none: insert fewer at once, or load them",
                    INSERTED_BYTES_MAX >> 20
                );
                return Err(Error::Execution { message });
            }
            batches.push(batch);
        }
        let schema = spec.arrow();
        if batches.is_empty() {
            return Ok(Inserted::default());
        }
        let refused = |error: IngestError| Error::Execution { message: error.to_string() };
        let all = arrow::compute::concat_batches(&schema, &batches)
            .map_err(|error| Error::Internal { message: error.to_string() })?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = Box::new(move |ack| drop(sender.send(ack)));
        self.0.submit(vec![Append::new(spec.name.clone(), all)], done).map_err(refused)?;
        match receiver.recv() {
            Ok(ack) => ack.map(|ack| Inserted { commit: None, duplicates: ack.duplicate_rows }).map_err(refused),
            Err(_) => Err(Error::Internal { message: "the rows weren't acknowledged".to_owned() }),
        }
    }
}
