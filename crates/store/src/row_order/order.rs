//! An order of rows in several batches.
//!
//! Stored as ranges of adjacent rows of a batch, so ordered rows are copied range by range: of an ordered segment
//! each symbol's rows are one range.

use std::ops::Range;

/// Rows of one batch that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchRange {
    batch: u32,
    rows: u32,
    start: usize,
}

impl BatchRange {
    /// A range of one row.
    pub(crate) fn row(batch: usize, row: usize) -> BatchRange {
        // There are never as many batches as that: each takes memory of its own.
        BatchRange { batch: u32::try_from(batch).unwrap_or(u32::MAX), rows: 1, start: row }
    }

    /// Number of the batch.
    pub(crate) fn batch(&self) -> usize {
        self.batch as usize
    }

    /// The rows within it.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.rows as usize
    }

    /// Each of its rows.
    pub(crate) fn single(self) -> impl Iterator<Item = BatchRange> {
        self.range().map(move |row| BatchRange { batch: self.batch, rows: 1, start: row })
    }

    /// The first `rows` of its rows, and the others; all of them if it has no more.
    pub(crate) fn split(&self, rows: usize) -> (BatchRange, BatchRange) {
        let first = u32::try_from(rows).unwrap_or(u32::MAX).min(self.rows);
        let others = BatchRange { rows: self.rows - first, start: self.start + first as usize, ..*self };
        (BatchRange { rows: first, ..*self }, others)
    }

    /// Takes in the next one if it goes on where this one ends.
    pub(crate) fn extend_with(&mut self, next: BatchRange) -> bool {
        let follows = self.batch == next.batch && self.range().end == next.start;
        let rows = self.rows.checked_add(next.rows).filter(|_| follows);
        self.rows = rows.unwrap_or(self.rows);
        rows.is_some()
    }
}

/// Rows in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BatchOrder {
    batch_ranges: Vec<BatchRange>,
    rows: usize,
}

/// A part of an order: where it begins, and how many rows it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderPart {
    first: usize,
    skipped: usize,
    rows: usize,
}

impl BatchOrder {
    /// Adds rows of a batch at the end.
    pub(crate) fn push_range(&mut self, batch: usize, rows: Range<usize>) {
        let mut start = rows.start;
        while start < rows.end {
            let one = BatchRange::row(batch, start);
            let count = u32::try_from(rows.end - start).unwrap_or(u32::MAX);
            self.push(BatchRange { rows: count, ..one });
            start += count as usize;
        }
    }

    /// Adds a range at the end.
    pub(crate) fn push(&mut self, batch_range: BatchRange) {
        self.rows += batch_range.range().len();
        if !self.batch_ranges.last_mut().is_some_and(|last| last.extend_with(batch_range)) {
            self.batch_ranges.push(batch_range);
        }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The ranges, in order.
    pub(crate) fn batch_ranges(&self) -> &[BatchRange] {
        &self.batch_ranges
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.batch_ranges.clear();
        self.rows = 0;
    }

    /// The first row.
    pub(crate) fn first(&self) -> Option<BatchOrder> {
        let first = self.batch_ranges.first()?;
        Some(BatchOrder { batch_ranges: vec![BatchRange { rows: 1, ..*first }], rows: 1 })
    }

    /// The beginnings of parts of `rows_max` rows; the last part may have fewer.
    pub(crate) fn parts(&self, rows_max: usize) -> Vec<OrderPart> {
        let mut parts: Vec<OrderPart> = Vec::with_capacity(self.rows.div_ceil(rows_max));
        let mut open: Option<OrderPart> = None;
        for (first, batch_range) in self.batch_ranges.iter().enumerate() {
            let length = batch_range.range().len();
            let mut skipped = 0;
            while skipped < length {
                let part = open.get_or_insert(OrderPart { first, skipped, rows: 0 });
                let count = (length - skipped).min(rows_max - part.rows);
                part.rows += count;
                skipped += count;
                if part.rows == rows_max {
                    parts.extend(open.take());
                }
            }
        }
        parts.extend(open);
        parts
    }

    /// The rows of a part.
    pub(crate) fn part(&self, part: &OrderPart) -> BatchOrder {
        let mut order = BatchOrder::default();
        let mut skipped = part.skipped;
        for batch_range in &self.batch_ranges[part.first..] {
            let (remaining, start) = (part.rows - order.rows, batch_range.start + skipped);
            let rows = batch_range.rows.min(u32::try_from(skipped + remaining).unwrap_or(u32::MAX));
            order.push_range(batch_range.batch(), start..batch_range.start + rows as usize);
            skipped = 0;
            if order.rows == part.rows {
                break;
            }
        }
        order
    }

    /// The order in parts of `rows_max` rows.
    pub(crate) fn chunks(&self, rows_max: usize) -> impl Iterator<Item = BatchOrder> + '_ {
        self.parts(rows_max).into_iter().map(|part| self.part(&part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singles(order: &BatchOrder) -> Vec<(usize, usize)> {
        order
            .batch_ranges
            .iter()
            .flat_map(|batch_range| batch_range.range().map(|row| (batch_range.batch(), row)))
            .collect()
    }

    fn example() -> BatchOrder {
        let mut order = BatchOrder::default();
        order.push_range(0, 3..7);
        order.push_range(0, 7..9);
        order.push_range(1, 9..10);
        order.push(BatchRange::row(1, 0));
        order.push_range(2, 0..0);
        order.push_range(0, 0..3);
        order
    }

    #[test]
    fn ranges_that_follow_are_one() {
        let order = example();
        assert_eq!((order.rows(), order.batch_ranges().len()), (11, 4));
        assert_eq!(order.first().map(|first| singles(&first)), Some(vec![(0, 3)]));
        assert_eq!(BatchOrder::default().first(), None);
    }

    #[test]
    fn a_range_is_split_behind_any_row() {
        let batch_range = example().batch_ranges()[0];
        for rows in 0..=7 {
            let (first, others) = batch_range.split(rows);
            let both: Vec<usize> = first.range().chain(others.range()).collect();
            assert_eq!((first.range().len(), both), (rows.min(6), (3..9).collect()));
        }
    }

    #[test]
    fn parts_have_all_rows_in_order() {
        let order = example();
        for rows_max in 1..=12 {
            let parts: Vec<BatchOrder> = order.chunks(rows_max).collect();
            assert_eq!(parts.iter().flat_map(singles).collect::<Vec<_>>(), singles(&order), "{rows_max}");
            assert_eq!(parts.len(), order.rows().div_ceil(rows_max));
            assert!(parts.iter().rev().skip(1).all(|part| part.rows() == rows_max));
        }
        assert_eq!(BatchOrder::default().parts(3).len(), 0);
    }
}
