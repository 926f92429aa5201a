//! Captures the rows that `INSERT` statements add, like those of any other sender.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use splay_sql::{Error, InsertOutcome, InsertRows, Result};
use splay_store::TableSpec;

use crate::ingest::{Append, Ingest, IngestError};
use crate::problem::{Outcome, Problem, too_many_rows};
use crate::quotas::Allowance;

/// Most bytes that one statement inserts: all its rows are taken or none.
const INSERTED_BYTES_MAX: usize = 64 << 20;

/// Whether an answer of these columns can be encoded.
type CheckColumns<'a> = &'a (dyn Fn(&SchemaRef) -> Outcome<()> + Sync);

/// Writes rows into the journal, within the caller's quotas.
pub(crate) struct IntoJournal<'a> {
    ingest: Arc<dyn Ingest>,
    allowance: Allowance,
    /// The check and the row limit of an answer with rows; `None` where there is none.
    answer: Option<(CheckColumns<'a>, u64)>,
    /// Why they were refused, if it was for now.
    refused: Mutex<Option<Problem>>,
}

impl<'a> IntoJournal<'a> {
    pub(crate) fn new(ingest: Arc<dyn Ingest>, allowance: Allowance) -> IntoJournal<'a> {
        IntoJournal { ingest, allowance, answer: None, refused: Mutex::default() }
    }

    /// For statements that may answer with rows: checks the columns, and allows at most `rows_max` rows.
    pub(crate) fn answering(self, check: CheckColumns<'a>, rows_max: u64) -> IntoJournal<'a> {
        IntoJournal { answer: Some((check, rows_max)), ..self }
    }

    /// The error for the client of a statement that failed.
    pub(crate) fn problem(&self, error: Error) -> Problem {
        self.refusal().unwrap_or_else(|| Problem::from(error))
    }

    /// Why rows were refused for now, if they were.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refuse(&self, problem: Problem) -> Error {
        let error = Error::Execution { message: problem.message.clone() };
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        error
    }
}

impl InsertRows for IntoJournal<'_> {
    fn admit_columns(&self, columns: &SchemaRef) -> Result<()> {
        match &self.answer {
            Some((check, _)) => check(columns).map_err(|problem| self.refuse(problem)),
            None => Ok(()),
        }
    }

    fn admit_rows(&self, rows: u64) -> Result<()> {
        match self.answer {
            Some((_, rows_max)) if rows > rows_max => Err(self.refuse(too_many_rows(rows_max))),
            _ => Ok(()),
        }
    }

    fn insert(&self, spec: &TableSpec, rows: &mut dyn Iterator<Item = Result<RecordBatch>>) -> Result<InsertOutcome> {
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
            return Ok(InsertOutcome::default());
        }
        let refused = |error: IngestError| Error::Execution { message: error.to_string() };
        let all = arrow::compute::concat_batches(&schema, &batches)
            .map_err(|error| Error::Internal { message: error.to_string() })?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let count = all.num_rows() as u64;
        self.allowance.take_rows(count).map_err(|problem| self.refuse(problem))?;
        let done = self.allowance.until_done(count, Box::new(move |ack| drop(sender.send(ack))));
        // A table that is dropped right now isn't made anew.
        let append = Append { must_exist: true, ..Append::new(spec.name.clone(), all) };
        let submitted = self.ingest.submit(vec![append], done);
        submitted.inspect_err(|_| self.allowance.give_back(count)).map_err(refused)?;
        match receiver.recv() {
            Ok(ack) => ack.map(|ack| InsertOutcome { commit: None, duplicates: ack.duplicate_rows }).map_err(refused),
            Err(_) => Err(Error::Internal { message: "the rows weren't acknowledged".to_owned() }),
        }
    }
}
