//! Sorts the rows of a partition by (symbol, time, arrival), in memory.
//!
//! The units of the sort are ranges: adjacent rows of one batch with one symbol and times that don't descend. Batches
//! that are segments have about one range per symbol; unordered batches mostly one per row.
//!
//! Idea: ranges are distributed to their symbols by counting. Within a symbol, ranges that overlap in time are merged with a heap if they are
//! long, and sorted row by row if they are short. Invariant: the sort is stable, so rows of equal symbol and time stay in order of arrival.
//! Rows that are in order already cost one pass.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, TimestampNanosecondType};

use super::gather::unify;
use super::order::{BatchOrder, BatchRange};
use crate::background;
use crate::schema::TableSpec;

/// Rows of a range, on average, from which on ranges that overlap are merged; shorter ones are sorted row by row.
const MERGED_ROWS_MIN: usize = 8;

/// The rows of the batches in the table's order; rows of equal symbol and time stay in the order of the batches.
pub(crate) fn sorted(spec: &TableSpec, batches: &[RecordBatch]) -> BatchOrder {
    let keys = SortKeyColumns::of(spec, batches);
    if keys.ranks.is_sorted() && keys.runs_in_time() {
        let mut order = BatchOrder::default();
        for (number, batch) in batches.iter().enumerate() {
            order.push_range(number, 0..batch.num_rows());
        }
        return order;
    }
    keys.sort(batches)
}

/// The sort keys: one entry for each row, in order of arrival.
struct SortKeyColumns {
    /// Rank of the symbol; 0 for null. All 0 where the table has no symbol column.
    ranks: Vec<u32>,
    times: Vec<i64>,
    symbols: usize,
    /// First row of each batch.
    starts: Vec<usize>,
}

impl SortKeyColumns {
    fn of(spec: &TableSpec, batches: &[RecordBatch]) -> SortKeyColumns {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let (mut times, mut starts) = (Vec::with_capacity(rows), Vec::with_capacity(batches.len()));
        for batch in batches {
            starts.push(times.len());
            let column = batch.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
            times.extend_from_slice(column.values());
            background::did(batch.num_rows());
        }
        let Some(position) = spec.symbol_position() else {
            return SortKeyColumns { ranks: vec![0; rows], times, symbols: 0, starts };
        };
        let parts: Vec<_> = batches.iter().map(|batch| batch.column(position).as_dictionary::<Int32Type>()).collect();
        let all_used: Vec<Vec<bool>> = parts.iter().map(|part| vec![true; part.values().len()]).collect();
        let (texts, maps) = unify(&parts, &all_used);
        let mut ranks = Vec::with_capacity(rows);
        for (part, map) in parts.iter().zip(&maps) {
            let entries: Vec<u32> = map.iter().map(|code| code.map_or(0, |code| code.cast_unsigned() + 1)).collect();
            let keys = part.keys();
            match keys.nulls() {
                None => {
                    for rows in background::pieces(keys.len()) {
                        ranks.extend(keys.values()[rows].iter().map(|key| entries[*key as usize]));
                    }
                }
                Some(_) => ranks.extend(keys.iter().map(|key| key.map_or(0, |key| entries[key as usize]))),
            }
        }
        SortKeyColumns { ranks, times, symbols: texts.len(), starts }
    }

    fn runs_in_time(&self) -> bool {
        (1..self.times.len())
            .all(|row| self.ranks[row - 1] != self.ranks[row] || self.times[row - 1] <= self.times[row])
    }

    /// A counting sort of ranges by symbol, which keeps arrival; then by time within each symbol where that is needed.
    fn sort(&self, batches: &[RecordBatch]) -> BatchOrder {
        let mut starts = vec![0usize; self.symbols + 2];
        self.each_batch_range(batches, |rank, _| starts[rank + 1] += 1);
        for symbol in 1..starts.len() {
            starts[symbol] += starts[symbol - 1];
        }
        let mut next = starts.clone();
        let mut by_symbol = vec![BatchRange::row(0, 0); starts[self.symbols + 1]];
        self.each_batch_range(batches, |rank, batch_range| {
            by_symbol[next[rank]] = batch_range;
            next[rank] += 1;
        });
        let (mut order, mut scratch) = (BatchOrder::default(), Vec::new());
        for bounds in starts.windows(2) {
            let run = &by_symbol[bounds[0]..bounds[1]];
            background::did(run.len());
            if run.windows(2).all(|pair| self.last_time(&pair[0]) <= self.first_time(&pair[1])) {
                run.iter().for_each(|batch_range| order.push(*batch_range));
            } else {
                self.sort_by_time(run, &mut order, &mut scratch);
            }
        }
        order
    }

    /// Puts ranges of one symbol in the order of time, which keeps arrival. Only those that overlap are looked into.
    fn sort_by_time(&self, run: &[BatchRange], order: &mut BatchOrder, scratch: &mut Vec<(i64, BatchRange)>) {
        // For each range, the earliest time behind it.
        let mut least_behind = vec![i64::MAX; run.len()];
        for place in (1..run.len()).rev() {
            least_behind[place - 1] = least_behind[place].min(self.first_time(&run[place]));
        }
        let (mut first, mut latest) = (0, i64::MIN);
        for (place, batch_range) in run.iter().enumerate() {
            latest = latest.max(self.last_time(batch_range));
            if latest <= least_behind[place] || place + 1 == run.len() {
                self.merge(&run[first..=place], order, scratch);
                (first, latest) = (place + 1, i64::MIN);
            }
        }
    }

    /// Merges ranges that overlap.
    fn merge(&self, batch_ranges: &[BatchRange], order: &mut BatchOrder, scratch: &mut Vec<(i64, BatchRange)>) {
        if let [one] = batch_ranges {
            order.push(*one);
            return;
        }
        let rows: usize = batch_ranges.iter().map(|batch_range| batch_range.range().len()).sum();
        if rows < batch_ranges.len() * MERGED_ROWS_MIN {
            let rows = batch_ranges.iter().flat_map(|batch_range| batch_range.single());
            scratch.clear();
            scratch.extend(rows.map(|row| (self.first_time(&row), row)));
            scratch.sort_by_key(|(time, _)| *time);
            scratch.iter().for_each(|(_, row)| order.push(*row));
            return;
        }
        let mut remaining = batch_ranges.to_vec();
        let mut next: BinaryHeap<Reverse<(i64, usize)>> = remaining
            .iter()
            .enumerate()
            .map(|(place, batch_range)| Reverse((self.first_time(batch_range), place)))
            .collect();
        while let Some(Reverse((_, place))) = next.pop() {
            let Some(Reverse(other)) = next.peek() else {
                order.push(remaining[place]);
                return;
            };
            let start = self.starts[remaining[place].batch()];
            let rows = remaining[place].range();
            let times = &self.times[start + rows.start..start + rows.end];
            let (head, rest) = remaining[place].split(times.partition_point(|time| (*time, place) < *other));
            order.push(head);
            remaining[place] = rest;
            if !rest.range().is_empty() {
                next.push(Reverse((self.first_time(&rest), place)));
            }
        }
    }

    /// Each range in order of arrival, with the rank of its symbol.
    fn each_batch_range(&self, batches: &[RecordBatch], mut take: impl FnMut(usize, BatchRange)) {
        for (number, batch) in batches.iter().enumerate() {
            let rows = self.starts[number]..self.starts[number] + batch.num_rows();
            let (ranks, times) = (&self.ranks[rows.clone()], &self.times[rows]);
            let mut open: Option<BatchRange> = None;
            for piece in background::pieces(ranks.len()) {
                for row in piece {
                    let one = BatchRange::row(number, row);
                    let goes_on = row > 0 && ranks[row - 1] == ranks[row] && times[row - 1] <= times[row];
                    if goes_on && open.as_mut().is_some_and(|open| open.extend_with(one)) {
                        continue;
                    }
                    if let Some(before) = open.replace(one) {
                        take(ranks[row - 1] as usize, before);
                    }
                }
            }
            if let (Some(last), Some(rank)) = (open, ranks.last()) {
                take(*rank as usize, last);
            }
        }
    }

    fn first_time(&self, batch_range: &BatchRange) -> i64 {
        self.times[self.starts[batch_range.batch()] + batch_range.range().start]
    }

    fn last_time(&self, batch_range: &BatchRange) -> i64 {
        self.times[self.starts[batch_range.batch()] + batch_range.range().end - 1]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{ArrayRef, BooleanArray, DictionaryArray, Int64Array, StringArray, TimestampNanosecondArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    use super::super::gather::gather;
    use super::*;
    use crate::schema::{ColumnSpec, ColumnType};

    /// A row: symbol, time, and two more values that may be null.
    type Row = (Option<u8>, i64, Option<i64>, Option<bool>);

    fn spec() -> TableSpec {
        let columns = vec![
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("time", ColumnType::Timestamp),
            ColumnSpec::new("value", ColumnType::Int64),
            ColumnSpec::new("flag", ColumnType::Bool),
            ColumnSpec::new("text", ColumnType::Text),
        ];
        TableSpec::new("t", columns, "time", Some("sym"))
    }

    fn batch(spec: &TableSpec, rows: &[Row]) -> RecordBatch {
        let symbols: DictionaryArray<Int32Type> =
            rows.iter().map(|row| row.0.map(|symbol| ["C", "A", "B"][usize::from(symbol) % 3])).collect();
        let texts: StringArray = rows.iter().map(|row| row.2.map(|value| format!("text {value}"))).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(symbols),
            Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1)).with_timezone("UTC")),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.3).collect::<BooleanArray>()),
            Arc::new(texts),
        ];
        RecordBatch::try_new(spec.arrow(), columns).unwrap()
    }

    fn rows_of(batch: &RecordBatch) -> Vec<Row> {
        let symbols = batch.column(0).as_dictionary::<Int32Type>();
        let texts = symbols.values().as_string::<i32>();
        let symbol = |row: usize| {
            symbols.keys().is_valid(row).then(|| match texts.value(symbols.keys().value(row) as usize) {
                "A" => 1,
                "B" => 2,
                _ => 0,
            })
        };
        let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
        let values = batch.column(2).as_primitive::<arrow::datatypes::Int64Type>();
        let flags = batch.column(3).as_boolean();
        let value = |row: usize| values.is_valid(row).then(|| values.value(row));
        let flag = |row: usize| flags.is_valid(row).then(|| flags.value(row));
        (0..batch.num_rows()).map(|row| (symbol(row), times.value(row), value(row), flag(row))).collect()
    }

    /// Batches as they come and as segments have them, in turn.
    fn batches() -> impl Strategy<Value = Vec<Vec<Row>>> {
        let row = (
            prop::option::weighted(0.9, 0..3u8),
            prop_oneof![0..9i64, 0..90i64],
            prop::option::of(0..5i64),
            prop::option::of(any::<bool>()),
        );
        let rows = (prop::collection::vec(row, 0..100), any::<bool>()).prop_map(|(mut rows, is_sorted)| {
            if is_sorted {
                rows.sort_by_key(|row| (row.0.map(|symbol| ["C", "A", "B"][usize::from(symbol)]), row.1));
            }
            rows
        });
        prop::collection::vec(rows, 1..5)
    }

    proptest! {
        #[test]
        fn rows_come_as_a_stable_sort_puts_them(batches in batches(), rows_max in 1..50usize) {
            let spec = spec();
            let batches: Vec<RecordBatch> = batches.iter().map(|rows| batch(&spec, rows)).collect();
            let mut expected: Vec<Row> = batches.iter().flat_map(rows_of).collect();
            expected.sort_by_key(|row| (row.0.map(|symbol| ["C", "A", "B"][usize::from(symbol)]), row.1));
            let order = sorted(&spec, &batches);
            let whole = gather(&spec.arrow(), &batches, &order).unwrap();
            prop_assert_eq!(rows_of(&whole), expected.clone());
            let texts = whole.column(4).as_string::<i32>();
            for (row, value) in expected.iter().enumerate() {
                let text = texts.is_valid(row).then(|| texts.value(row).to_owned());
                prop_assert_eq!(text, value.2.map(|value| format!("text {value}")));
            }
            let mut parts = Vec::new();
            for part in order.chunks(rows_max) {
                parts.extend(rows_of(&gather(&spec.arrow(), &batches, &part).unwrap()));
            }
            prop_assert_eq!(parts, expected);
        }
    }
}
