//! Subscriptions: a table's rows, and then each batch as it arrives, without a gap and without a repeat.
//!
//! - A subscriber is registered first and reads the table or the journal afterwards; its sequence number identifies a
//!   batch that arrives both ways.
//! - Its queue is bounded in bytes. A slow subscriber never slows the table down; its request says what happens when
//!   the queue is full.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use splay_store::{Bounds, SegmentRows, Selection, TableSnapshot, TableSpec};

use crate::capture::Capture;
use crate::codec;
use crate::error::{Error, Result};
use crate::journal::JournalCursor;
use crate::subscribers::{SubscriberQueue, Subscribers};
use crate::subscription_filter::SubscriptionFilter;

/// Rows of a snapshot that are given at once.
const SNAPSHOT_ROWS: usize = 1 << 16;

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionStart {
    /// With the next batch.
    Now,
    /// With the rows of the newest date that the table has, then all that follows.
    Snapshot,
    /// Behind a batch of this number, out of the journal as far as need be.
    After(u64),
}

/// What happens to a subscriber whose queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowPolicy {
    /// The queue is dropped, and the subscriber gets a new snapshot.
    #[default]
    Snapshot,
    /// The queue is delivered, and then the subscription ends with [`Error::Slow`].
    Disconnect,
    /// Updates that don't fit are read from the journal later, one batch at a time.
    CatchUp,
}

/// A request for a subscription.
#[derive(Debug, Clone)]
pub struct SubscribeRequest {
    /// The table.
    pub table: String,
    /// Only rows of these symbols; `None` for all.
    pub symbols: Option<Vec<String>>,
    /// Only these columns, in this order; `None` for all.
    pub columns: Option<Vec<String>>,
    /// Where to begin.
    pub from: SubscriptionStart,
    /// Bytes that may wait for the subscriber.
    pub queue_bytes_max: usize,
    /// What happens when the queue is full.
    pub slow: SlowPolicy,
}

impl SubscribeRequest {
    /// All rows and columns of a table from now on.
    pub fn new(table: impl Into<String>) -> SubscribeRequest {
        SubscribeRequest {
            table: table.into(),
            symbols: None,
            columns: None,
            from: SubscriptionStart::Now,
            queue_bytes_max: 16 << 20,
            slow: SlowPolicy::default(),
        }
    }
}

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateKind {
    /// Rows of the table as it was after the batch of this number, in the table's order. `more` says that further updates belong
    /// to the same snapshot. What was received before is to be forgotten when one begins.
    Snapshot {
        /// Whether this is the first of it.
        first: bool,
        /// Whether more of it follows.
        more: bool,
    },
    /// Rows of the batch of this number, in the order in which they came.
    Delta,
    /// No rows: there are no more, since a replay is over. Live rows have no end.
    End,
}

/// Rows for a subscriber.
#[derive(Debug, Clone)]
pub struct Update {
    /// The table of the rows.
    pub table: Arc<str>,
    /// Number of the batch up to which the subscriber has everything, once it has this; to go on from after a break.
    pub sequence: u64,
    /// The kind of the update.
    pub kind: UpdateKind,
    /// The rows, of the wanted symbols and columns; there may be none.
    pub rows: RecordBatch,
}

/// A subscription that is going on.
#[derive(Debug)]
pub struct Subscriber {
    capture: Capture,
    queue: Arc<SubscriberQueue>,
    request: SubscribeRequest,
    table: Arc<str>,
    filter: SubscriptionFilter,
    /// Number of the last batch that was delivered, or that the subscriber has already.
    last: u64,
    before: CatchUpSource,
}

/// The source of the updates before those of the queue.
#[derive(Debug)]
enum CatchUpSource {
    Nothing,
    Snapshot(SnapshotParts),
    Journal(JournalCursor),
}

/// A snapshot on its way: one piece of it is held at a time.
#[derive(Debug)]
struct SnapshotParts {
    snapshot: TableSnapshot,
    pieces: VecDeque<SegmentRows>,
    parts: VecDeque<RecordBatch>,
    is_first: bool,
}

impl Capture {
    /// Begins a subscription.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::Rejected`] for columns that there aren't; [`Error::Gone`] if it shall go on behind a batch
    /// that the journal no longer has.
    pub fn subscribe(&self, request: SubscribeRequest) -> Result<Subscriber> {
        self.shared.check()?;
        Subscriber::begin(self, &self.shared.subscribers, request)
    }
}

impl Subscriber {
    fn begin(capture: &Capture, subscribers: &Subscribers, request: SubscribeRequest) -> Result<Subscriber> {
        // The table keeps its name until it is known who subscribes to it.
        let names = capture.shared.table_names.read().unwrap_or_else(PoisonError::into_inner);
        let spec = capture.spec(&request.table)?.ok_or_else(|| Error::NoSuchTable { table: request.table.clone() })?;
        let filter = SubscriptionFilter::new(&spec, request.symbols.as_deref(), request.columns.as_deref())?;
        let bytes_max = request.queue_bytes_max.max(1 << 16);
        let queue = Arc::new(SubscriberQueue::new(bytes_max));
        subscribers.register(&spec.name, &queue);
        drop(names);
        let (capture, table, before) = (capture.clone(), Arc::from(spec.name.as_str()), CatchUpSource::Nothing);
        let mut subscriber = Subscriber { capture, queue, request, table, filter, last: 0, before };
        match subscriber.request.from {
            // Behind what is there: who falls back at once catches up from here and not from the beginning.
            SubscriptionStart::Now => subscriber.last = subscriber.capture.sequence(),
            SubscriptionStart::Snapshot => subscriber.snapshot()?,
            SubscriptionStart::After(sequence) => {
                subscriber.last = sequence;
                subscriber.catch_up()?;
            }
        }
        Ok(subscriber)
    }

    /// Waits for the next update; `None` if there is none within the time.
    ///
    /// # Errors
    /// [`Error::Closed`] once capture is closed and everything was given; [`Error::Slow`] if the subscriber was too slow and
    /// asked to be disconnected then; [`Error::Gone`] if the journal no longer has what it missed; [`Error::Rejected`] once the table is dropped
    /// or renamed, or a column of it is renamed.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Update>> {
        let until = Instant::now() + timeout;
        loop {
            let ended = self.queue.state().ended.clone();
            if let Some(reason) = ended {
                return Err(self.ended(&reason));
            }
            if let Some(update) = self.before()? {
                return Ok(Some(update));
            }
            let mut state = self.queue.state();
            if state.lost.is_some() && self.request.slow == SlowPolicy::Snapshot {
                // It has all that waits.
                state.drop_waiting();
                drop(state);
                self.snapshot()?;
                continue;
            }
            if let Some((sequence, rows, bytes)) = state.waiting.pop_front() {
                state.bytes -= bytes;
                drop(state);
                let spec = self.spec()?;
                if sequence > self.last
                    && let Some(rows) = self.filter.of(&spec, &rows)?
                {
                    return Ok(Some(self.delta(sequence, rows)));
                }
                continue;
            }
            if state.lost.take().is_some() {
                // From here on the queue takes batches again; those before are in the journal.
                drop(state);
                if self.request.slow == SlowPolicy::Disconnect {
                    return Err(Error::Slow { table: self.request.table.clone(), after: self.last });
                }
                self.catch_up()?;
                continue;
            }
            if state.closed {
                return Err(Error::Closed);
            }
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(None);
            }
            drop(self.queue.filled.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The next of what comes before the queue.
    fn before(&mut self) -> Result<Option<Update>> {
        let spec = self.spec()?;
        let delivered = match &mut self.before {
            CatchUpSource::Nothing => return Ok(None),
            CatchUpSource::Snapshot(parts) => {
                parts.next(&self.filter, &spec)?.map(|(kind, rows)| (self.last, kind, rows))
            }
            CatchUpSource::Journal(cursor) => {
                let table = &self.table;
                let mut delivered_batch = None;
                while delivered_batch.is_none()
                    && let Some(batch) = next_in_journal(cursor, table, self.last)?
                {
                    let rows = self.filter.of(&spec, &batch.rows)?;
                    delivered_batch = rows.map(|rows| (batch.sequence, UpdateKind::Delta, rows));
                }
                delivered_batch
            }
        };
        let Some((sequence, kind, rows)) = delivered else {
            self.before = CatchUpSource::Nothing;
            return Ok(None);
        };
        self.last = sequence;
        Ok(Some(Update { table: Arc::clone(&self.table), sequence, kind, rows }))
    }

    fn delta(&mut self, sequence: u64, rows: RecordBatch) -> Update {
        self.last = sequence;
        Update { table: Arc::clone(&self.table), sequence, kind: UpdateKind::Delta, rows }
    }

    /// Puts the newest date's rows before what comes.
    fn snapshot(&mut self) -> Result<()> {
        let snapshot = self.capture.database().table(&self.request.table)?.snapshot()?;
        self.last = snapshot.live();
        let newest = snapshot.partitions().iter().rev().find(|partition| partition.rows() > 0).map(|p| p.date);
        let pieces = match newest {
            Some(date) => {
                let (symbols, date) = (self.request.symbols.clone(), Bounds { min: date, max: date });
                snapshot.select(&Selection { symbols, date, ..Selection::default() })?.0
            }
            None => Vec::new(),
        };
        self.before = CatchUpSource::Snapshot(SnapshotParts {
            snapshot,
            pieces: pieces.into(),
            parts: VecDeque::new(),
            is_first: true,
        });
        Ok(())
    }

    /// Puts the journal's batches behind the last one before what comes.
    fn catch_up(&mut self) -> Result<()> {
        self.before = CatchUpSource::Journal(self.capture.journal_behind(&self.table, self.last)?);
        Ok(())
    }

    fn spec(&self) -> Result<Arc<TableSpec>> {
        self.capture
            .spec(&self.request.table)?
            .ok_or_else(|| self.ended("the table was dropped or has another name now"))
    }

    fn ended(&self, reason: &str) -> Error {
        Error::rejected(&self.table, format!("{reason}, which ends the subscription"))
    }
}

/// The next batch of a table in the journal. An error for missing batches names the table.
fn next_in_journal(
    cursor: &mut JournalCursor,
    table: &Arc<str>,
    after: u64,
) -> Result<Option<crate::journal::JournalBatch>> {
    cursor.next(|name| name.eq_ignore_ascii_case(table)).map_err(|error| match error {
        Error::Gone { oldest, .. } => Error::Gone { table: table.to_string(), after, oldest },
        other => other,
    })
}

impl SnapshotParts {
    /// The next part; one without rows if there is none at all.
    fn next(&mut self, filter: &SubscriptionFilter, spec: &TableSpec) -> Result<Option<(UpdateKind, RecordBatch)>> {
        while self.parts.is_empty()
            && let Some(piece) = self.pieces.pop_front()
        {
            let spec = self.snapshot.spec();
            let all: Vec<usize> = (0..spec.columns.len()).collect();
            for rows in piece.segment.batches(spec, &all, piece.rows.clone(), SNAPSHOT_ROWS)? {
                self.parts.push_back(codec::owned(&rows?)?);
            }
            self.snapshot.watch().check()?;
        }
        let rows = match self.parts.pop_front() {
            Some(rows) => rows,
            None if self.is_first => RecordBatch::new_empty(spec.arrow()),
            None => return Ok(None),
        };
        let more = !self.parts.is_empty() || self.pieces.iter().any(|piece| !piece.rows.is_empty());
        let kind = UpdateKind::Snapshot { first: std::mem::take(&mut self.is_first), more };
        Ok(Some((kind, filter.columns(spec, &rows)?)))
    }
}
