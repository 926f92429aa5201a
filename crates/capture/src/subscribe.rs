//! Subscriptions: what a table has, and then each batch as it comes, without a gap and without a repeat.
//!
//! - A subscriber is registered first and looks at the table or the journal then; what reaches it twice is told apart by its
//!   sequence number.
//! - Its queue is bounded in bytes. One that is slower than the table never slows the table down: what becomes of it then, it
//!   says when it subscribes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int32Type;
use splay_store::TableSpec;

use crate::capture::Capture;
use crate::codec::compact;
use crate::error::{Error, Result};
use crate::status::SubscriberStatus;

/// Rows of a snapshot that are given at once.
const SNAPSHOT_ROWS: usize = 1 << 16;

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the next batch.
    Now,
    /// With the rows of the newest date that the table has, then all that follows.
    Snapshot,
    /// Behind a batch of this number, out of the journal as far as need be.
    After(u64),
}

/// What becomes of a subscriber whose queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowPolicy {
    /// What waits is dropped, and the subscriber gets a new snapshot.
    #[default]
    Snapshot,
    /// The subscription ends with an error.
    Disconnect,
    /// What doesn't fit is read from the journal later.
    CatchUp,
}

/// What is wanted.
#[derive(Debug, Clone)]
pub struct SubscribeRequest {
    /// The table.
    pub table: String,
    /// Only rows of these symbols; `None` for all.
    pub symbols: Option<Vec<String>>,
    /// Only these columns, in this order; `None` for all.
    pub columns: Option<Vec<String>>,
    /// Where to begin.
    pub from: From,
    /// Bytes that may wait for the subscriber.
    pub queue_bytes_max: usize,
    /// What to do if more would.
    pub slow: SlowPolicy,
}

impl SubscribeRequest {
    /// All rows and columns of a table from now on.
    pub fn new(table: impl Into<String>) -> SubscribeRequest {
        SubscribeRequest {
            table: table.into(),
            symbols: None,
            columns: None,
            from: From::Now,
            queue_bytes_max: 16 << 20,
            slow: SlowPolicy::default(),
        }
    }
}

/// What an update is.
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
}

/// Rows for a subscriber.
#[derive(Debug, Clone)]
pub struct Update {
    /// Number of the batch up to which the subscriber has everything, once it has this; to go on from after a break.
    pub sequence: u64,
    /// What it is.
    pub kind: UpdateKind,
    /// The rows, of the wanted symbols and columns; there may be none.
    pub rows: RecordBatch,
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    /// By the lower-case name of the table.
    tables: Mutex<HashMap<String, Vec<Weak<Feed>>>>,
}

impl Subscribers {
    /// Gives a batch to whom it concerns. Called in the order of the numbers.
    pub(crate) fn publish(&self, table: &str, sequence: u64, rows: &RecordBatch) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.is_empty() {
            return;
        }
        let Some(feeds) = tables.get_mut(&table.to_lowercase()) else { return };
        feeds.retain(|feed| match feed.upgrade() {
            Some(feed) => {
                feed.push(sequence, rows);
                true
            }
            None => false,
        });
    }

    fn register(&self, table: &str, feed: &Arc<Feed>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(table.to_lowercase()).or_default().push(Arc::downgrade(feed));
    }

    pub(crate) fn count(&self) -> u64 {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.values().flatten().filter(|feed| feed.strong_count() > 0).count() as u64
    }

    /// What waits for each.
    pub(crate) fn status(&self) -> Vec<SubscriberStatus> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let feeds = tables.iter().flat_map(|(table, feeds)| feeds.iter().map(move |feed| (table, feed)));
        let waiting = feeds.filter_map(|(table, feed)| Some((table, feed.upgrade()?))).map(|(table, feed)| {
            let state = feed.state();
            SubscriberStatus {
                table: table.clone(),
                batches: state.waiting.len() as u64,
                bytes: state.bytes as u64,
                is_lost: state.lost.is_some(),
            }
        });
        waiting.collect()
    }

    /// Wakes all, so that they see that capture was closed.
    pub(crate) fn close(&self) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        for feed in tables.values().flatten().filter_map(Weak::upgrade) {
            feed.state().closed = true;
            feed.filled.notify_all();
        }
    }
}

/// What waits for one subscriber.
#[derive(Debug)]
struct Feed {
    state: Mutex<FeedState>,
    filled: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct FeedState {
    waiting: VecDeque<(u64, RecordBatch, usize)>,
    bytes: usize,
    /// Number of the first batch that found no room.
    lost: Option<u64>,
    closed: bool,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, sequence: u64, rows: &RecordBatch) {
        let bytes = rows.get_array_memory_size();
        let mut state = self.state();
        if state.lost.is_some() {
            return;
        }
        if state.bytes + bytes > self.bytes_max {
            state.lost = Some(sequence);
        } else {
            state.waiting.push_back((sequence, rows.clone(), bytes));
            state.bytes += bytes;
        }
        drop(state);
        self.filled.notify_one();
    }
}

/// A subscription that is going on.
#[derive(Debug)]
pub struct Subscriber {
    capture: Capture,
    feed: Arc<Feed>,
    request: SubscribeRequest,
    /// Number of the last batch that was given, or is older than what is wanted.
    last: u64,
    /// Updates that come before those of the feed.
    ready: VecDeque<Update>,
}

impl Subscriber {
    pub(crate) fn begin(capture: &Capture, subscribers: &Subscribers, request: SubscribeRequest) -> Result<Subscriber> {
        let spec = capture.spec(&request.table)?.ok_or_else(|| Error::NoSuchTable { table: request.table.clone() })?;
        for column in request.columns.iter().flatten() {
            if spec.position(column).is_none() {
                return Err(Error::rejected(&spec.name, format!("it has no column {column:?}")));
            }
        }
        if request.symbols.is_some() && spec.symbol.is_none() {
            return Err(Error::rejected(&spec.name, "it has no symbol column"));
        }
        let bytes_max = request.queue_bytes_max.max(1 << 16);
        let feed = Arc::new(Feed { state: Mutex::default(), filled: Condvar::new(), bytes_max });
        subscribers.register(&spec.name, &feed);
        let mut subscriber = Subscriber { capture: capture.clone(), feed, request, last: 0, ready: VecDeque::new() };
        match subscriber.request.from {
            From::Now => {}
            From::Snapshot => subscriber.snapshot()?,
            From::After(sequence) => {
                subscriber.last = sequence;
                subscriber.catch_up(sequence)?;
            }
        }
        Ok(subscriber)
    }

    /// The next update; `None` if none comes within the time.
    ///
    /// # Errors
    /// [`Error::Closed`] once capture is closed and everything was given; [`Error::Gone`] if the subscriber was too slow and
    /// asked to be disconnected then, or the journal no longer has what it missed.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Update>> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(update) = self.ready.pop_front() {
                self.last = self.last.max(update.sequence);
                return Ok(Some(update));
            }
            let mut state = self.feed.state();
            if let Some((sequence, rows, bytes)) = state.waiting.pop_front() {
                state.bytes -= bytes;
                drop(state);
                if sequence > self.last
                    && let Some(rows) = self.wanted(&rows)?
                {
                    self.last = sequence;
                    return Ok(Some(Update { sequence, kind: UpdateKind::Delta, rows }));
                }
                continue;
            }
            if state.lost.take().is_some() {
                drop(state);
                self.was_slow()?;
                continue;
            }
            if state.closed {
                return Err(Error::Closed);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            drop(self.feed.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn was_slow(&mut self) -> Result<()> {
        match self.request.slow {
            SlowPolicy::Snapshot => self.snapshot(),
            SlowPolicy::CatchUp => self.catch_up(self.last),
            SlowPolicy::Disconnect => {
                let oldest = self.capture.status().sequence;
                Err(Error::Gone { table: self.request.table.clone(), after: self.last, oldest })
            }
        }
    }

    /// Puts the newest date's rows before what comes.
    fn snapshot(&mut self) -> Result<()> {
        let snapshot = self.capture.database().table(&self.request.table)?.snapshot()?;
        let sequence = snapshot.live();
        let spec = snapshot.spec();
        let newest = snapshot.partitions().iter().rev().find(|partition| partition.rows() > 0).map(|p| p.date);
        let mut parts = Vec::new();
        if let Some(date) = newest {
            let all: Vec<usize> = (0..spec.columns.len()).collect();
            let mut selection = splay_store::Selection { symbols: self.request.symbols.clone(), ..Default::default() };
            selection.date = splay_store::Bounds { min: date, max: date };
            for piece in snapshot.select(&selection)?.0 {
                for rows in piece.segment.batches(spec, &all, piece.rows.clone(), SNAPSHOT_ROWS)? {
                    parts.push(self.columns(spec, &rows?)?);
                }
            }
        }
        if parts.is_empty() {
            parts.push(self.columns(spec, &RecordBatch::new_empty(spec.arrow()))?);
        }
        let count = parts.len();
        for (number, rows) in parts.into_iter().enumerate() {
            let kind = UpdateKind::Snapshot { first: number == 0, more: number + 1 < count };
            self.ready.push_back(Update { sequence, kind, rows });
        }
        self.last = sequence;
        Ok(())
    }

    /// Puts the journal's batches behind a number before what comes.
    fn catch_up(&mut self, after: u64) -> Result<()> {
        let table = self.request.table.clone();
        let mut ready = VecDeque::new();
        self.capture.read_journal(&table, after, |sequence, rows| {
            if let Some(rows) = self.wanted(&rows)? {
                ready.push_back(Update { sequence, kind: UpdateKind::Delta, rows });
            }
            Ok(())
        })?;
        self.ready.extend(ready);
        Ok(())
    }

    /// The wanted rows and columns of a batch; `None` if there is no row.
    fn wanted(&self, rows: &RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(spec) = self.capture.spec(&self.request.table)? else { return Err(Error::Closed) };
        let rows = match (&self.request.symbols, spec.symbol_position().filter(|at| *at < rows.num_columns())) {
            (Some(symbols), Some(position)) => {
                let column = rows.column(position).as_dictionary::<Int32Type>();
                let texts = column.values().as_string::<i32>();
                let wanted: Vec<bool> =
                    texts.iter().map(|t| t.is_some_and(|t| symbols.iter().any(|s| s == t))).collect();
                let is_wanted = |row: usize| {
                    column.is_valid(row) && usize::try_from(column.keys().value(row)).is_ok_and(|key| wanted[key])
                };
                let mask: BooleanArray = (0..column.len()).map(|row| Some(is_wanted(row))).collect();
                compact(&filter_record_batch(rows, &mask)?)
            }
            _ => rows.clone(),
        };
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        self.columns(&spec, &rows).map(Some)
    }

    /// The wanted columns; those that were added since are null.
    fn columns(&self, spec: &TableSpec, rows: &RecordBatch) -> Result<RecordBatch> {
        let rows = crate::conform::conform(spec, rows)?;
        match &self.request.columns {
            None => Ok(rows),
            Some(columns) => {
                let places: Vec<usize> = columns.iter().filter_map(|column| spec.position(column)).collect();
                Ok(rows.project(&places)?)
            }
        }
    }
}
