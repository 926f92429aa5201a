//! Stores the batches that a start has set aside, each once.
//!
//! - A batch of a producer is stored under its name and number if that is the next one. Any other number is skipped:
//!   the producer has sent it again or gone on, or it follows a missing number, which would then be taken for a
//!   repeat.
//! - A batch without a producer is stored under an internal name and its number in the journal. These ascend and are
//!   never reused, so another call, or another file with the same batch, stores nothing twice.
//! - A batch is skipped if its table's files may have it, which is the case if later rows of the table were written
//!   down.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use splay_store::Error as StoreError;

use crate::append::{AckClass, Append, Producer};
use crate::capture::Capture;
use crate::conform::under_present_names;
use crate::error::Result;
use crate::journal::{JournalReport, RecoveredBatch};

/// The producer that is recorded for batches without one.
const NAME: &str = "splay journal recover";

/// The outcome of storing the batches of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetAsideReport {
    /// Rows that were stored.
    pub rows: u64,
    /// Batches that were stored.
    pub stored: u64,
    /// Batches that the journal has.
    pub in_journal: u64,
    /// The batches that were not stored, and why.
    pub left_out: Vec<SkippedBatch>,
}

/// A batch that was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkippedBatch {
    /// Its producer's number isn't the one behind the last.
    Number {
        /// Name of the producer.
        producer: String,
        /// The batch's number.
        number: u64,
        /// The producer's last number that was stored.
        last: Option<u64>,
    },
    /// It has no producer, and it or a later one was recovered before.
    Before {
        /// Number of the batch.
        sequence: u64,
    },
    /// Later rows of its table were written down, so that the files may have it.
    Written {
        /// Number of the batch.
        sequence: u64,
        /// Name of the table.
        table: String,
    },
}

impl Display for SkippedBatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SkippedBatch::Number { producer, number, last: Some(last) } if number <= last => {
                write!(f, "number {number} of producer {producer:?}, of which {last} was stored")
            }
            SkippedBatch::Number { producer, number, last } => {
                let last = last.map_or_else(|| "none".to_owned(), |last| last.to_string());
                write!(f, "number {number} of producer {producer:?}, of which the last that was stored is {last}")
            }
            SkippedBatch::Before { sequence } => write!(f, "batch {sequence}: it or a later one was recovered before"),
            SkippedBatch::Written { sequence, table } => {
                write!(f, "batch {sequence}: later rows of {table} were written down, perhaps with it")
            }
        }
    }
}

impl Capture {
    /// Stores the whole batches of a file that a start has set aside, each once, however often this is called.
    ///
    /// # Errors
    /// Those of [`JournalReport::recover`] and [`Capture::append`]; what was stored before stays.
    pub fn store_set_aside(&self, file: &Path) -> Result<SetAsideReport> {
        let batches = JournalReport::recover(self.database(), file)?;
        let mut done = SetAsideReport::default();
        for message in batches.chunk_by(|one, other| one.message == other.message) {
            match self.why_not(message)? {
                _ if message.iter().all(|batch| batch.is_in_journal) => done.in_journal += message.len() as u64,
                Some(why) => done.left_out.push(why),
                None => self.store_message(message, &mut done)?,
            }
        }
        Ok(done)
    }

    /// Why a message isn't stored, if it isn't.
    fn why_not(&self, message: &[RecoveredBatch]) -> Result<Option<SkippedBatch>> {
        for batch in message {
            if self.may_be_written(batch)? {
                let (sequence, table) = (batch.sequence, batch.spec.name.clone());
                return Ok(Some(SkippedBatch::Written { sequence, table }));
            }
        }
        let Producer { name, sequence: number, .. } = producer(message);
        let last = self.last_of(&name)?;
        let why = if name == NAME {
            last.is_some_and(|last| number <= last).then_some(SkippedBatch::Before { sequence: number })
        } else {
            let is_next = number.checked_sub(1) == Some(last.unwrap_or(0)) || (last.is_none() && number == 0);
            (!is_next).then_some(SkippedBatch::Number { producer: name, number, last })
        };
        Ok(why)
    }

    fn may_be_written(&self, batch: &RecoveredBatch) -> Result<bool> {
        match self.database().table(&batch.spec.name).and_then(|table| table.stored()) {
            Ok(stored) => Ok(batch.sequence <= stored.captured().sequence),
            // The files of one that was dropped, or has another name now, may have it as well.
            Err(StoreError::NoSuchTable { .. }) => {
                let former = self.database().former(&batch.spec.name)?;
                Ok(former.is_some_and(|captured| batch.sequence <= captured.sequence))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn store_message(&self, message: &[RecoveredBatch], done: &mut SetAsideReport) -> Result<()> {
        let mut producer = Some(producer(message));
        let append = |batch: &RecoveredBatch| -> Result<Append> {
            let rows = match self.spec(&batch.spec.name)? {
                Some(spec) => under_present_names(&spec, batch.rows.clone())?,
                None => batch.rows.clone(),
            };
            Ok(Append {
                spec: Some(batch.spec.as_ref().clone()),
                producer: producer.take(),
                ack: Some(AckClass::Disk),
                ..Append::new(batch.spec.name.clone(), rows)
            })
        };
        let ack = self.append_together(message.iter().map(append).collect::<Result<_>>()?)?;
        done.stored += message.len() as u64;
        done.rows += ack.rows;
        Ok(())
    }
}

/// Under which name and number a message is stored.
fn producer(message: &[RecoveredBatch]) -> Producer {
    match message.iter().find(|batch| !batch.producer.0.is_empty()) {
        Some(batch) => Producer::new(batch.producer.0.clone(), batch.producer.1),
        None => Producer::new(NAME.to_owned(), message[0].sequence),
    }
}
