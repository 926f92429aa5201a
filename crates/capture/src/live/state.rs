//! The live rows of a table over the files of one commit.

use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::WriteDownPosition;

use super::LiveSize;
use super::layers::Layers;

/// A batch that came in.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub(crate) sequence: u64,
    pub(crate) received: i64,
    pub(crate) rows: RecordBatch,
    /// Bytes that the rows take, about.
    pub(crate) bytes: u64,
    /// Earliest and latest time of a row.
    pub(crate) times: (i64, i64),
}

/// Live rows that fit the files of a commit.
#[derive(Debug, Clone)]
pub(super) struct LiveState {
    /// The position of the files.
    pub(super) captured: WriteDownPosition,
    /// Rows in order.
    pub(super) layers: Arc<Layers>,
    /// Batches behind those. A state is copied to work on it, batches aren't.
    tail: Vec<Arc<Tail>>,
    tail_rows: u64,
    /// Number of the last batch, in the files, the layers or the tail.
    pub(super) last: u64,
    /// Earliest and latest time of a row.
    pub(super) times: (i64, i64),
    bytes: u64,
    rows: u64,
    /// When the oldest row came in, and the newest.
    since: Option<i64>,
    received: i64,
}

/// Times of no rows.
const NO_TIMES: (i64, i64) = (i64::MAX, i64::MIN);

impl LiveState {
    pub(super) fn new(captured: WriteDownPosition) -> LiveState {
        LiveState {
            captured,
            layers: Arc::default(),
            tail: Vec::new(),
            tail_rows: 0,
            last: captured.sequence,
            times: NO_TIMES,
            bytes: 0,
            rows: 0,
            since: None,
            received: i64::MIN,
        }
    }

    pub(super) fn push(&mut self, tail: Arc<Tail>) {
        // After a start batches come back that were taken before the last of those in the files: their rows are later by time.
        self.last = self.last.max(tail.sequence);
        self.note_times(tail.times);
        let rows = tail.rows.num_rows() as u64;
        self.rows += rows;
        self.tail_rows += rows;
        self.bytes += tail.bytes;
        self.since.get_or_insert(tail.received);
        self.received = self.received.max(tail.received);
        self.tail.push(tail);
    }

    /// Rows that stay of those in `before` when these begin to be written down: its latest, so they count as new as its newest.
    pub(super) fn take_layers(&mut self, layers: Layers, before: &LiveState) {
        if !layers.is_empty() {
            self.since = Some(self.since.unwrap_or(before.received).min(before.received));
            self.received = self.received.max(before.received);
        }
        for segment in layers.values().flatten() {
            self.rows += segment.rows();
            self.bytes += segment.entry().bytes;
            self.note_times((segment.entry().time_min, segment.entry().time_max));
        }
        self.layers = Arc::new(layers);
    }

    fn note_times(&mut self, times: (i64, i64)) {
        self.times = (self.times.0.min(times.0), self.times.1.max(times.1));
    }

    /// Batches behind the layers.
    pub(super) fn tail(&self) -> &[Arc<Tail>] {
        &self.tail
    }

    /// The first batches of the tail are in these layers.
    pub(super) fn put_into(&mut self, layers: Arc<Layers>, batches: usize) {
        self.layers = layers;
        let moved_rows: u64 = self.tail.drain(..batches).map(|tail| tail.rows.num_rows() as u64).sum();
        self.tail_rows -= moved_rows;
    }

    /// The rows and bytes in memory. It is called with every batch, so it reads counters only.
    pub(super) fn size(&self) -> LiveSize {
        LiveSize {
            rows: self.rows,
            bytes: self.bytes,
            tail_rows: self.tail_rows,
            tail_batches: self.tail.len(),
            since: self.since,
            earliest: self.times.0,
            last: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next write-down said that less is in the files than before, and the table's manifest couldn't be read from then on.
    #[test]
    fn batches_that_come_back_after_a_start_do_not_turn_the_number_back() {
        let captured = WriteDownPosition { sequence: 106, cut: 7 };
        let mut state = LiveState::new(captured);
        let schema = std::sync::Arc::new(arrow::datatypes::Schema::empty());
        let mut push = |sequence| {
            state.push(Arc::new(Tail {
                sequence,
                received: 0,
                rows: RecordBatch::new_empty(Arc::clone(&schema)),
                bytes: 0,
                times: (9, 9),
            }));
            state.last
        };
        assert_eq!((push(87), push(110), push(108)), (106, 110, 110));
    }
}
