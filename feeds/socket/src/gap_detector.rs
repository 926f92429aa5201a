//! Finds gaps in the venue's sequence numbers.
//!
//! The detector stores the highest number of each symbol. A number that is higher by more than one leaves a gap, which is counted and logged;
//! one that isn't higher is a repeat, or comes late. The numbers of a record that is decoded again are checked once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::counts::{FeedCounts, LogRateLimit};

/// Symbols whose last numbers are stored.
const SYMBOLS_MAX: usize = 100_000;

/// Bytes of their names.
const SYMBOL_BYTES_MAX: usize = 16 << 20;

/// Finds gaps in the numbers of a table's rows, by symbol.
#[derive(Debug)]
pub struct GapDetector {
    of: String,
    counts: Arc<FeedCounts>,
    last: HashMap<String, u64>,
    symbol_bytes: usize,
    /// The offset after the last record that was checked.
    next: u64,
    log_limit: LogRateLimit,
}

impl GapDetector {
    /// A detector for a table of a feed, which has seen no number yet.
    #[must_use]
    pub fn new(of: String, counts: Arc<FeedCounts>) -> GapDetector {
        GapDetector { of, counts, last: HashMap::new(), symbol_bytes: 0, next: 0, log_limit: LogRateLimit::default() }
    }

    /// Begins a record, and returns whether its numbers are to be checked. Those of a record that is decoded again aren't.
    pub fn begin_record(&mut self, offset: u64) -> bool {
        let is_new = offset >= self.next;
        self.next = self.next.max(offset + 1);
        is_new
    }

    /// Compares a number with the last one of its symbol.
    pub fn check(&mut self, by: &str, number: u64) {
        let Some(last) = self.last.get_mut(by) else {
            if self.last.len() >= SYMBOLS_MAX || self.symbol_bytes + by.len() > SYMBOL_BYTES_MAX {
                let symbols = self.last.len();
                tracing::warn!(of = self.of, symbols, "too many symbols have numbers: forgets the last number of each");
                self.last.clear();
                self.symbol_bytes = 0;
            }
            self.symbol_bytes += by.len();
            self.last.insert(by.to_owned(), number);
            return;
        };
        if number <= *last {
            self.counts.repeated_numbers.add(1);
            return;
        }
        let missing = number - *last - 1;
        if missing > 0 {
            self.counts.gaps.add(1);
            self.counts.missing_numbers.add(missing);
            if self.log_limit.is_due() {
                tracing::error!(of = self.of, by, from = *last + 1, to = number - 1, missing, "numbers are missing");
            }
        }
        *last = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_symbol_and_each_record_once() {
        let counts = Arc::new(FeedCounts::default());
        let mut gaps = GapDetector::new("venue/trade".to_owned(), Arc::clone(&counts));
        for (offset, by, number) in [(0, "a", 7), (1, "b", 100), (2, "a", 8), (3, "a", 11), (4, "b", 101), (5, "a", 11)]
        {
            assert!(gaps.begin_record(offset));
            gaps.check(by, number);
        }
        assert!(!gaps.begin_record(3) && gaps.begin_record(6));
        assert_eq!((counts.gaps.get(), counts.missing_numbers.get(), counts.repeated_numbers.get()), (1, 2, 1));
    }

    #[test]
    fn names_of_symbols_take_bounded_memory() {
        let mut gaps = GapDetector::new("venue/trade".to_owned(), Arc::default());
        let name = |number: u64| format!("{number:2}{}", "x".repeat((1 << 20) - 2));
        for number in 0..40 {
            gaps.check(&name(number), number);
            assert!(gaps.last.len() <= 16 && gaps.symbol_bytes <= SYMBOL_BYTES_MAX);
        }
        gaps.check(&name(39), 42);
        assert_eq!((gaps.counts.gaps.get(), gaps.counts.missing_numbers.get()), (1, 2));
    }
}
