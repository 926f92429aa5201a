//! Prepared statements: text, result schema, and the values bound last.
//!
//! Bounded in number and in bytes; the least recently used is dropped first. Handles are random, so they can't be
//! guessed.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use bytes::Bytes;
use lru::LruCache;

use super::put;
use crate::problem::{Code, Outcome, Problem};

/// Bytes that prepared statements and their values may take together.
const BYTES_MAX: usize = 64 << 20;

/// One statement.
#[derive(Debug, Clone)]
pub(super) struct FlightStatement {
    pub(super) text: String,
    /// Names of its placeholders in order, without `$`.
    pub(super) parameters: Vec<String>,
    /// One row of values.
    pub(super) bound: Option<RecordBatch>,
}

impl FlightStatement {
    fn bytes(&self) -> usize {
        let names: usize = self.parameters.iter().map(|name| name.len() + 24).sum();
        256 + self.text.len() + names + self.bound.as_ref().map_or(0, put::bytes_of)
    }
}

/// Statements by handle.
#[derive(Debug)]
pub(super) struct PreparedStatements {
    cache: Mutex<StatementCache>,
}

#[derive(Debug)]
struct StatementCache {
    statements: LruCache<Bytes, Arc<FlightStatement>>,
    bytes: usize,
}

impl PreparedStatements {
    pub(super) fn new(most: usize) -> PreparedStatements {
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        PreparedStatements { cache: Mutex::new(StatementCache { statements: LruCache::new(most), bytes: 0 }) }
    }

    /// Keeps a statement under a new handle.
    pub(super) fn add(&self, prepared: FlightStatement) -> Outcome<Bytes> {
        let mut handle = [0u8; 16];
        let no_random = |_| Problem::new(Code::Internal, "the system gives no random bytes");
        getrandom::fill(&mut handle).map_err(no_random)?;
        let handle = Bytes::copy_from_slice(&handle);
        self.put(handle.clone(), prepared)?;
        Ok(handle)
    }

    /// Keeps a statement under its handle.
    pub(super) fn put(&self, handle: Bytes, prepared: FlightStatement) -> Outcome<()> {
        let bytes = prepared.bytes();
        if bytes > BYTES_MAX / 4 {
            return Err(Problem::new(Code::TooLarge, "the statement or its values are too large to be kept"));
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, replaced)) = cache.statements.push(handle, Arc::new(prepared)) {
            cache.bytes -= replaced.bytes();
        }
        cache.bytes += bytes;
        while cache.bytes > BYTES_MAX
            && let Some((_, oldest)) = cache.statements.pop_lru()
        {
            cache.bytes -= oldest.bytes();
        }
        Ok(())
    }

    pub(super) fn get(&self, handle: &[u8]) -> Outcome<Arc<FlightStatement>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let not_found = || Problem::new(Code::NotFound, "no such prepared statement; it may have made room for others");
        cache.statements.get(handle).cloned().ok_or_else(not_found)
    }

    pub(super) fn remove(&self, handle: &[u8]) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(removed) = cache.statements.pop(handle) {
            cache.bytes -= removed.bytes();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn prepared(bytes: usize) -> FlightStatement {
        FlightStatement { text: "x".repeat(bytes), parameters: Vec::new(), bound: None }
    }

    #[test]
    fn the_one_not_used_for_longest_makes_room() {
        let statements = PreparedStatements::new(2);
        let (one, two) = (statements.add(prepared(1)).unwrap(), statements.add(prepared(1)).unwrap());
        statements.get(&one).unwrap();
        let three = statements.add(prepared(1)).unwrap();
        assert!(statements.get(&one).is_ok() && statements.get(&three).is_ok());
        assert_eq!(statements.get(&two).unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn bytes_are_bounded_and_counted_right() {
        let statements = PreparedStatements::new(1000);
        let handles: Vec<_> = (0..40).map(|_| statements.add(prepared(4 << 20)).unwrap()).collect();
        assert!(statements.cache.lock().unwrap().bytes <= BYTES_MAX);
        assert!(statements.add(prepared(BYTES_MAX)).is_err());
        handles.iter().for_each(|handle| statements.remove(handle));
        assert_eq!(statements.cache.lock().unwrap().bytes, 0);
    }
}
