//! Keys of rows ordered by time: finds any key at once, and removes the earliest together.
//!
//! Idea: a hash table has the time of each key, and the window is cut into spans, each with a list of its keys. The earliest keys are removed
//! span by span, without a search through the table. A key that came again stands in several lists; the span of its latest time decides.
//!
//! Cost: one lookup per row. The window is exact to one span, which is a 256th of it.

use std::collections::{BTreeMap, HashMap};

use splay_store::RowDigest;

/// Spans into which a window is cut.
const SPANS: i64 = 256;

/// Keys, each with the time of its row.
///
/// A key takes 25 bytes in a table that is between 7 and 14 sixteenths full, and 16 in a list that is at least half full: up to 90.
#[derive(Debug)]
pub(super) struct WindowKeys {
    times: HashMap<RowDigest, i64>,
    /// Nanoseconds of a span.
    span: i64,
    /// Keys of each span. One may have a key whose row has gone, and that came again later.
    spans: BTreeMap<i64, Vec<RowDigest>>,
}

impl WindowKeys {
    pub(super) fn new(window: i64) -> WindowKeys {
        WindowKeys { times: HashMap::new(), span: (window / SPANS).max(1), spans: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// The time of a key's row.
    pub(super) fn time_of(&self, key: &RowDigest) -> Option<i64> {
        self.times.get(key).copied()
    }

    /// Takes the key of a row. Of several rows with a key the latest counts.
    pub(super) fn insert(&mut self, key: RowDigest, time: i64) {
        let latest = self.times.entry(key).or_insert(i64::MIN);
        if *latest >= time {
            return;
        }
        *latest = time;
        self.spans.entry(time.div_euclid(self.span)).or_default().push(key);
    }

    /// Removes the spans that end before a time or at it.
    pub(super) fn remove_before(&mut self, time: i64) {
        while self.spans.first_key_value().is_some_and(|(span, _)| self.end(*span) <= time) {
            self.remove_earliest();
        }
    }

    /// Removes the earliest span, and gives the time behind it.
    pub(super) fn remove_earliest(&mut self) -> Option<i64> {
        let (span, keys) = self.spans.pop_first()?;
        for key in keys {
            if self.times.get(&key).is_some_and(|time| time.div_euclid(self.span) == span) {
                self.times.remove(&key);
            }
        }
        Some(self.end(span))
    }

    fn end(&self, span: i64) -> i64 {
        span.saturating_add(1).saturating_mul(self.span)
    }
}
