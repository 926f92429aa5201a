//! Bounds on the rows of steps whose output size shows only while they run.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The number of rows that all threads of a step have produced together.
#[derive(Debug)]
pub(crate) struct RowCount {
    count: AtomicUsize,
    row_bytes: usize,
    limit: usize,
}

impl RowCount {
    /// An empty count, for rows of `row_bytes` bytes, which may take `limit` bytes together.
    pub fn new(row_bytes: usize, limit: usize) -> RowCount {
        RowCount { count: AtomicUsize::new(0), row_bytes, limit }
    }

    /// Counts further rows.
    ///
    /// # Errors
    /// If the rows exceed the limit.
    pub fn add(&self, rows: usize) -> Result<()> {
        // Relaxed: nothing but the sum matters.
        let count = self.count.fetch_add(rows, Ordering::Relaxed).saturating_add(rows);
        let needed = count.saturating_mul(self.row_bytes);
        if needed > self.limit { Err(Error::Memory { needed, limit: self.limit }) } else { Ok(()) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_their_rows_together() {
        let rows = RowCount::new(8, 32_000);
        let failed = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| (0..3_000).all(|_| rows.add(1).is_ok()))).collect();
            threads.into_iter().any(|thread| !thread.join().unwrap())
        });
        assert!(failed);
        assert!(matches!(rows.add(usize::MAX / 2), Err(Error::Memory { .. })));
    }
}
