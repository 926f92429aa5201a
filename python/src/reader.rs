//! Hands the rows of an answer to one reader.
//!
//! - An answer's rows are read once. Who reads the first batch has them; all others are told so.
//! - While a batch is awaited the interpreter is free, and Ctrl-C is looked for.
//! - A reader that goes away, fails or is interrupted stops the statement; its costs stay known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{Field, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3_arrow::ffi::ArrayReader;
use splay_sql::{Answer, StatementStats, WaitOutcome};

use crate::error::{Failure, Result};
use crate::signals::{self, Signals};

/// A statement's answer, shared by the answer's handle and its readers.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    schema: SchemaRef,
    running: Arc<Mutex<ReaderState>>,
}

#[derive(Debug)]
struct ReaderState {
    /// Gone after the last batch.
    answer: Option<Answer>,
    stats: StatementStats,
    readers: u64,
    owner: Option<u64>,
}

impl ReaderState {
    fn stats(&self) -> StatementStats {
        self.answer.as_ref().map_or(self.stats, Answer::stats)
    }

    fn finish(&mut self) {
        self.stats = self.stats();
        self.answer = None;
    }
}

impl Rows {
    pub(crate) fn new(answer: Answer) -> Rows {
        let schema = answer.schema();
        let running = ReaderState { answer: Some(answer), stats: StatementStats::default(), readers: 0, owner: None };
        Rows { schema, running: Arc::new(Mutex::new(running)) }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Waits for a reader that is at work; call it detached.
    pub(crate) fn stats(&self) -> StatementStats {
        self.lock().stats()
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.lock().owner.is_some()
    }

    /// A reader that has the rows from now on.
    ///
    /// # Errors
    /// [`Failure::Consumed`].
    pub(crate) fn take(&self) -> Result<Reader> {
        let reader = self.offer()?;
        self.lock().owner = Some(reader.id);
        Ok(reader)
    }

    /// A reader that has the rows once it reads the first batch: some libraries ask for a stream just to see its schema.
    ///
    /// # Errors
    /// [`Failure::Consumed`].
    pub(crate) fn offer(&self) -> Result<Reader> {
        let mut running = self.lock();
        if running.owner.is_some() {
            return Err(Failure::Consumed);
        }
        running.readers += 1;
        Ok(Reader { rows: self.clone(), id: running.readers, signals: Signals::new() })
    }

    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the batches of an answer.
#[derive(Debug)]
pub(crate) struct Reader {
    rows: Rows,
    id: u64,
    signals: Signals,
}

impl Reader {
    /// Waits for the next batch; call it detached. `None` after the last.
    ///
    /// # Errors
    /// The errors of the statement, the exception of a signal's handler, [`Failure::Consumed`].
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Err(error) = self.signals.check() {
                self.rows.lock().finish();
                return Err(error.into());
            }
            let mut running = self.rows.lock();
            if *running.owner.get_or_insert(self.id) != self.id {
                return Err(Failure::Consumed);
            }
            let Some(answer) = &mut running.answer else { return Ok(None) };
            match answer.wait(signals::INTERVAL) {
                WaitOutcome::TimedOut => {}
                WaitOutcome::Batch(Ok(batch)) => {
                    return Ok(Some(batch));
                }
                WaitOutcome::Batch(Err(error)) => {
                    running.finish();
                    return Err(error.into());
                }
                WaitOutcome::End => {
                    running.finish();
                    return Ok(None);
                }
            }
        }
    }

    /// All batches that are left; call it detached.
    ///
    /// # Errors
    /// As [`Reader::next_batch`].
    pub(crate) fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_batch()? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut running = self.rows.lock();
        if running.owner == Some(self.id) {
            running.finish();
        }
    }
}

/// A reader for other libraries, behind the Arrow C stream interface.
pub(crate) struct Stream(pub(crate) Reader);

impl Iterator for Stream {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The library may or may not hold the interpreter. While we wait nobody does.
        let read = Python::try_attach(|py| py.detach(|| self.0.next_batch()));
        let batch = match read {
            Some(read) => read,
            None => self.0.next_batch(),
        };
        match batch {
            Ok(batch) => batch.map(|batch| Ok(Arc::new(StructArray::from(batch)) as ArrayRef)),
            Err(failure) => {
                raise_again(&failure);
                Some(Err(ArrowError::ExternalError(Box::new(failure))))
            }
        }
    }
}

impl ArrayReader for Stream {
    fn field(&self) -> FieldRef {
        let schema = self.0.rows.schema();
        let field = Field::new_struct("", schema.fields().clone(), false);
        Arc::new(field.with_metadata(schema.metadata().clone()))
    }
}

/// A C stream can pass no exception on, only a text: Ctrl-C is put back, for the interpreter to find.
fn raise_again(failure: &Failure) {
    if let Failure::Python(error) = failure {
        Python::try_attach(|py| {
            if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                let again = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
                if let Err(error) = again {
                    error.write_unraisable(py, None);
                }
            }
        });
    }
}
