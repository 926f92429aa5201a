//! The queue of batches before the journal. Senders wait while it is full; the journal's thread takes all waiting
//! batches at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use splay_store::TableSpec;

use crate::append::{Ack, AckClass, Producer};
use crate::dedupe_rules::BatchDigests;
use crate::error::{Error, Result};
use crate::live::LiveTable;
use crate::live::times;
use crate::receipt::ClockReading;
use crate::{codec, size_estimate};

/// Is called with the outcome of a batch.
pub(crate) type AckCallback = Box<dyn FnOnce(Result<Ack>) + Send>;

/// A batch that was accepted.
pub(crate) struct PendingBatch {
    pub(crate) live: Arc<LiveTable>,
    pub(crate) spec: Arc<TableSpec>,
    pub(crate) rows: RecordBatch,
    /// The rows as the journal keeps them.
    pub(crate) bytes: Vec<u8>,
    /// Bytes that the rows take in memory, nulls included, which the journal hardly keeps.
    pub(crate) live_bytes: u64,
    pub(crate) times: (i64, i64),
    /// When it came in, and what the clock was then.
    pub(crate) received: i64,
    pub(crate) clock: i64,
    pub(crate) producer: Option<Producer>,
    pub(crate) class: AckClass,
    /// Whether it counts only together with those behind it, up to the first that isn't joined.
    pub(crate) is_joined: bool,
    pub(crate) quarantined: u64,
    /// Rows that the acknowledgement counts: none for the part of a batch that is in another table.
    pub(crate) counted: u64,
    /// By which its duplicates are found, if they are looked for.
    pub(crate) digests: Option<BatchDigests>,
    pub(crate) done: Option<AckCallback>,
}

impl PendingBatch {
    /// Rows in the columns of their table, which came in now.
    pub(crate) fn new(
        live: Arc<LiveTable>,
        rows: &RecordBatch,
        reading: ClockReading,
        class: AckClass,
    ) -> PendingBatch {
        let spec = live.spec();
        let (rows, bytes, live_bytes) = encoded(rows);
        PendingBatch {
            times: times(&spec, &rows),
            live_bytes,
            live,
            spec,
            rows,
            bytes,
            received: reading.received,
            clock: reading.clock,
            producer: None,
            class,
            is_joined: false,
            quarantined: 0,
            counted: 0,
            digests: None,
            done: None,
        }
    }

    /// Leaves out the rows that aren't kept.
    pub(crate) fn keep(&mut self, mask: Vec<bool>) -> Result<()> {
        let rows = filter_record_batch(&self.rows, &BooleanArray::from(mask))?;
        (self.rows, self.bytes, self.live_bytes) = encoded(&rows);
        self.times = times(&self.spec, &self.rows);
        Ok(())
    }
}

/// Rows in their smallest form, as the journal keeps them, and the bytes that they take in memory.
fn encoded(rows: &RecordBatch) -> (RecordBatch, Vec<u8>, u64) {
    let rows = codec::compact(rows);
    let mut bytes = Vec::new();
    codec::encode(&rows, &mut bytes);
    let in_memory = size_estimate::of_rows(&rows).max(bytes.len()) as u64;
    (rows, bytes, in_memory)
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct BatchQueue {
    state: Mutex<BatchQueueState>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct BatchQueueState {
    waiting: VecDeque<Vec<PendingBatch>>,
    bytes: usize,
    /// Whether the journal's thread is at work on what it took last.
    is_at_work: bool,
    /// Why nothing more is taken.
    closed: Option<Error>,
}

impl std::fmt::Debug for BatchQueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueState")
            .field("waiting", &self.waiting.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Bytes of batches in memory, where nulls take as much as values once they are put in order.
fn length(together: &[PendingBatch]) -> usize {
    let of = |waiting: &PendingBatch| {
        let digests = waiting.digests.as_ref().map_or(0, BatchDigests::bytes);
        usize::try_from(waiting.live_bytes).unwrap_or(usize::MAX).saturating_add(digests)
    };
    together.iter().map(of).sum()
}

impl BatchQueue {
    fn state(&self) -> MutexGuard<'_, BatchQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends batches that belong together; waits while more than `bytes_max` wait already.
    pub(crate) fn push(&self, together: Vec<PendingBatch>, bytes_max: usize) -> Result<()> {
        let mut state = self.state();
        while state.closed.is_none() && state.bytes > bytes_max {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        state.bytes += length(&together);
        let was_empty = state.waiting.is_empty();
        state.waiting.push_back(together);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes batches, up to about `bytes_max`, waiting until a time for the first. `None` if the queue is closed and empty.
    pub(crate) fn take(&self, bytes_max: usize, until: Option<Instant>) -> Option<Vec<Vec<PendingBatch>>> {
        let mut state = self.state();
        state.is_at_work = false;
        if state.waiting.is_empty() {
            self.emptied.notify_all();
        }
        while state.waiting.is_empty() {
            if state.closed.is_some() {
                return None;
            }
            let remaining =
                until.map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(Instant::now()));
            if remaining.is_zero() {
                return Some(Vec::new());
            }
            state = self.filled.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some(together) = state.waiting.pop_front()
        {
            bytes += length(&together);
            messages.push(together);
        }
        state.bytes -= bytes;
        state.is_at_work = true;
        drop(state);
        self.emptied.notify_all();
        Some(messages)
    }

    /// Waits until all batches are in the journal and in memory, or refused. The caller keeps senders from adding others.
    ///
    /// # Errors
    /// Why nothing is taken any more.
    pub(crate) fn drained(&self) -> Result<()> {
        let mut state = self.state();
        while !state.waiting.is_empty() || state.is_at_work {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.closed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Takes nothing more; what waits is still taken out.
    pub(crate) fn close(&self, why: Error) {
        self.state().closed.get_or_insert(why);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Why nothing more is taken, if nothing is.
    pub(crate) fn closed(&self) -> Option<Error> {
        self.state().closed.clone()
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.state().bytes
    }
}
