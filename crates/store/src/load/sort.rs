//! Puts the rows of a partition in the order (symbol, time, arrival), in memory.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, TimestampNanosecondType};

use super::gather::{Pick, unify};
use crate::schema::TableSpec;

/// The rows of the batches in the table's order; rows of equal symbol and time stay in the order of the batches.
pub(crate) fn sorted(spec: &TableSpec, batches: &[RecordBatch]) -> Vec<Pick> {
    let keys = Keys::of(spec, batches);
    if keys.ranks.is_sorted() && keys.runs_in_time() {
        return all(batches).collect();
    }
    keys.sort(batches)
}

/// Every row, in order of arrival.
fn all(batches: &[RecordBatch]) -> impl Iterator<Item = Pick> {
    batches.iter().enumerate().flat_map(|(number, batch)| (0..batch.num_rows()).map(move |row| (number, row)))
}

/// What rows are ordered by, one entry for each row in order of arrival.
struct Keys {
    /// Rank of the symbol; 0 for null. All 0 where the table has no symbol column.
    ranks: Vec<u32>,
    times: Vec<i64>,
    symbols: usize,
}

impl Keys {
    fn of(spec: &TableSpec, batches: &[RecordBatch]) -> Keys {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let mut times = Vec::with_capacity(rows);
        for batch in batches {
            let column = batch.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
            times.extend_from_slice(column.values());
        }
        let Some(position) = spec.symbol_position() else { return Keys { ranks: vec![0; rows], times, symbols: 0 } };
        let parts: Vec<_> = batches.iter().map(|batch| batch.column(position).as_dictionary::<Int32Type>()).collect();
        let all_used: Vec<Vec<bool>> = parts.iter().map(|part| vec![true; part.values().len()]).collect();
        let (texts, maps) = unify(&parts, &all_used);
        let mut ranks = Vec::with_capacity(rows);
        for (part, map) in parts.iter().zip(&maps) {
            let entries: Vec<u32> = map.iter().map(|code| code.map_or(0, |code| code.cast_unsigned() + 1)).collect();
            let keys = part.keys();
            match keys.nulls() {
                None => ranks.extend(keys.values().iter().map(|key| entries[*key as usize])),
                Some(_) => ranks.extend(keys.iter().map(|key| key.map_or(0, |key| entries[key as usize]))),
            }
        }
        Keys { ranks, times, symbols: texts.len() }
    }

    fn runs_in_time(&self) -> bool {
        (1..self.times.len())
            .all(|row| self.ranks[row - 1] != self.ranks[row] || self.times[row - 1] <= self.times[row])
    }

    /// A counting sort by symbol, which keeps arrival; then by time within each symbol where that is needed.
    fn sort(&self, batches: &[RecordBatch]) -> Vec<Pick> {
        let mut starts = vec![0usize; self.symbols + 2];
        for rank in &self.ranks {
            starts[*rank as usize + 1] += 1;
        }
        for symbol in 1..starts.len() {
            starts[symbol] += starts[symbol - 1];
        }
        let mut next = starts.clone();
        let mut order = vec![0usize; self.ranks.len()];
        for (row, rank) in self.ranks.iter().enumerate() {
            let place = &mut next[*rank as usize];
            order[*place] = row;
            *place += 1;
        }
        for bounds in starts.windows(2) {
            let run = &mut order[bounds[0]..bounds[1]];
            if !run.is_sorted_by_key(|row| self.times[*row]) {
                run.sort_by_key(|row| self.times[*row]);
            }
        }
        let picks: Vec<Pick> = all(batches).collect();
        order.into_iter().map(|row| picks[row]).collect()
    }
}
