//! The subscribers of all tables, and the queue of each, which is bounded in bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use arrow::array::RecordBatch;

use crate::status::SubscriberStatus;

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    /// By the lower-case name of the table.
    tables: Mutex<HashMap<String, Vec<Weak<SubscriberQueue>>>>,
}

impl Subscribers {
    /// Gives a batch to whom it concerns. Called in the order of the numbers.
    pub(crate) fn publish(&self, table: &str, sequence: u64, rows: &RecordBatch) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.is_empty() {
            return;
        }
        let Some(queues) = tables.get_mut(&table.to_lowercase()) else { return };
        queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                queue.push(sequence, rows);
                true
            }
            None => false,
        });
    }

    pub(crate) fn register(&self, table: &str, queue: &Arc<SubscriberQueue>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(table.to_lowercase()).or_default().push(Arc::downgrade(queue));
    }

    pub(crate) fn count(&self) -> u64 {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.values().flatten().filter(|queue| queue.strong_count() > 0).count() as u64
    }

    /// The queues of all subscribers.
    pub(crate) fn status(&self) -> Vec<SubscriberStatus> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = tables.iter().flat_map(|(table, queues)| queues.iter().map(move |queue| (table, queue)));
        let waiting = queues.filter_map(|(table, queue)| Some((table, queue.upgrade()?))).map(|(table, queue)| {
            let state = queue.state();
            SubscriberStatus {
                table: table.clone(),
                batches: state.waiting.len() as u64,
                bytes: state.bytes as u64,
                is_lost: state.lost.is_some(),
            }
        });
        waiting.collect()
    }

    /// Ends those of a table that isn't what they asked for any more, for a reason: another table may have its name next, or another column that of one
    /// of its columns.
    pub(crate) fn end(&self, table: &str, reason: &str) {
        let queues = self.tables.lock().unwrap_or_else(PoisonError::into_inner).remove(&table.to_lowercase());
        for queue in queues.unwrap_or_default().into_iter().filter_map(|queue| queue.upgrade()) {
            queue.state().ended = Some(reason.into());
            queue.filled.notify_all();
        }
    }

    /// Wakes all, so that they see that capture was closed.
    pub(crate) fn close(&self) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in tables.values().flatten().filter_map(Weak::upgrade) {
            queue.state().closed = true;
            queue.filled.notify_all();
        }
    }
}

/// The queue of one subscriber.
#[derive(Debug)]
pub(crate) struct SubscriberQueue {
    state: Mutex<SubscriberQueueState>,
    pub(crate) filled: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct SubscriberQueueState {
    pub(crate) waiting: VecDeque<(u64, RecordBatch, usize)>,
    pub(crate) bytes: usize,
    /// Number of the first batch that found no room.
    pub(crate) lost: Option<u64>,
    pub(crate) closed: bool,
    /// Why the subscription has ended, if the table or a column of it has lost its name.
    pub(crate) ended: Option<Arc<str>>,
}

impl SubscriberQueueState {
    /// Forgets what waits and what was lost.
    pub(crate) fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
        self.lost = None;
    }
}

impl SubscriberQueue {
    pub(crate) fn new(bytes_max: usize) -> SubscriberQueue {
        SubscriberQueue { state: Mutex::default(), filled: Condvar::new(), bytes_max }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SubscriberQueueState> {
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
