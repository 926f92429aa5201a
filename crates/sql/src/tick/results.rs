//! The result cache: answers by shape, values, and the states of the tables.
//!
//! A commit or a captured batch changes the state of its table, so an older entry is never found again; it is evicted
//! when room is needed.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use lru::LruCache;
use splay_engine::ReadStats;
use splay_store::storage::ReadWatch;

/// Most answers, however small they are.
const ANSWERS_MAX: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The question that a cached answer belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ResultKey {
    pub shape: String,
    pub values: Vec<ScalarValue>,
    /// The folder of each table, the epoch of its files, and the number of the state of its live rows.
    pub states: Vec<(Arc<str>, u64, u64)>,
}

/// An answer: its rows, the statistics of what was read, and the watches that tell whether all pages could be read.
pub(super) type CachedResult = (Vec<RecordBatch>, ReadStats, Vec<ReadWatch>);

/// A cache of results with a limit in bytes. The least recently used ones are dropped first.
#[derive(Debug)]
pub(super) struct Results {
    bytes_max: usize,
    lru: Mutex<ResultLru>,
}

#[derive(Debug)]
struct ResultLru {
    answers: LruCache<ResultKey, (CachedResult, usize)>,
    bytes: usize,
}

impl Results {
    /// `None` if the limit is 0.
    pub fn new(bytes_max: usize) -> Option<Results> {
        let lru = Mutex::new(ResultLru { answers: LruCache::new(ANSWERS_MAX), bytes: 0 });
        (bytes_max > 0).then_some(Results { bytes_max, lru })
    }

    pub fn get(&self, key: &ResultKey) -> Option<CachedResult> {
        let mut lru = self.lru.lock().unwrap_or_else(PoisonError::into_inner);
        lru.answers.get(key).map(|(result, _)| result.clone())
    }

    /// Caches an answer, unless it alone would take most of the limit.
    pub fn put(&self, key: ResultKey, result: &CachedResult) {
        let of_column =
            |column: &arrow::array::ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
        let of_values = key.values.iter().map(ScalarValue::size).fold(key.shape.len(), usize::saturating_add);
        let columns = result.0.iter().flat_map(RecordBatch::columns);
        let bytes =
            columns.map(of_column).fold(of_values, usize::saturating_add).saturating_add(size_of::<ResultLru>());
        if bytes > self.bytes_max / 2 {
            return;
        }
        let mut lru = self.lru.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, (_, replaced))) = lru.answers.push(key, (result.clone(), bytes)) {
            lru.bytes -= replaced;
        }
        lru.bytes += bytes;
        while lru.bytes > self.bytes_max
            && let Some((_, (_, freed))) = lru.answers.pop_lru()
        {
            lru.bytes -= freed;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn key(value: i64, epoch: u64) -> ResultKey {
        ResultKey { shape: "shape".to_owned(), values: vec![value.into()], states: vec![("trade".into(), epoch, 0)] }
    }

    fn result(rows: usize) -> CachedResult {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1; rows]));
        (vec![RecordBatch::try_from_iter([("n", column)]).unwrap()], ReadStats::default(), Vec::new())
    }

    #[test]
    fn the_longest_unasked_goes_first() {
        let results = Results::new(3 * 8 * 1000 + 2000).unwrap();
        (1..=3).for_each(|value| results.put(key(value, 1), &result(1000)));
        assert!(results.get(&key(1, 1)).is_some());
        results.put(key(4, 1), &result(1000));
        let is_cached = [1, 2, 3, 4].map(|value| results.get(&key(value, 1)).is_some());
        assert_eq!(is_cached, [true, false, true, true]);
        assert!(results.get(&key(1, 2)).is_none(), "another state of the table");
        let captured = ResultKey { states: vec![("trade".into(), 1, 7)], ..key(1, 1) };
        assert!(results.get(&captured).is_none(), "other live rows");
        let renamed = ResultKey { states: vec![("trade~1".into(), 1, 0)], ..key(1, 1) };
        assert!(results.get(&renamed).is_none(), "another table of the name");
        results.put(key(5, 1), &result(2000));
        assert!(results.get(&key(5, 1)).is_none(), "an answer of more than half the room");
        results.put(key(4, 1), &result(1000));
        assert!(results.get(&key(1, 1)).is_some(), "put twice, it counts once");
    }

    #[test]
    fn no_room_keeps_nothing() {
        assert!(Results::new(0).is_none());
    }
}
