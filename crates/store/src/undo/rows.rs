//! Reverts the rows of a commit where later commits have rewritten their files.
//!
//! Three states of a date are read in parallel: before the commit, after it, and now. All are ordered by (symbol,
//! time, arrival), so only rows of one symbol and time are compared, as bytes. Rows that the commit added are
//! removed, those that it removed return to their old place, and all others stay.
//!
//! Equal rows can't be told apart by their bytes: a row of the commit may have been deleted, and an equal one loaded since, which stays. So the states
//! after each later removal are read, too. Of the rows that the commit added there are at most as many left as the state with the fewest of them has,
//! and as many as removals before that state had taken which were undone since.
//!
//! Memory: a chunk of each state, and the rows of one symbol and time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::mpsc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::TimestampNanosecondType;
use arrow::row::{OwnedRow, RowConverter, SortField};

use crate::error::{Error, Result};
use crate::row_order::{RowSource, merge};
use crate::schema::TableSpec;

/// Rows after which a batch of the result is handed on.
const RESULT_ROWS: usize = 8_192;

/// Merged batches that wait for their reader.
const BATCHES_AHEAD: usize = 2;

/// The rows of one symbol and time in a state.
struct RowsAtTime {
    rows: RecordBatch,
    bytes: Vec<OwnedRow>,
}

/// A state of the date, group by group.
struct DateVersion<'a> {
    source: RowSource<'a>,
    batch: RecordBatch,
    at: usize,
}

/// The states of a date that an undo compares.
pub(super) struct DateStates<T> {
    /// Before the commit.
    pub(super) before: T,
    /// After it.
    pub(super) after: T,
    /// After each later commit that removed rows.
    pub(super) removals: Vec<T>,
    /// Later removals that were undone since.
    pub(super) undone: Vec<UndoneRemoval<T>>,
    /// At present.
    pub(super) now: T,
}

/// A commit that removed rows which are there again.
pub(super) struct UndoneRemoval<T> {
    /// The state before it.
    pub(super) had: T,
    /// The state after it.
    pub(super) left: T,
    /// Positions of the removals after which its rows were missing.
    pub(super) later: Vec<usize>,
}

impl<T> UndoneRemoval<T> {
    fn map<U>(self, mut of: impl FnMut(T) -> U) -> UndoneRemoval<U> {
        UndoneRemoval { had: of(self.had), left: of(self.left), later: self.later }
    }
}

/// Numbers of rows of an undo.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct UndoCounts {
    /// Rows that the commit added.
    pub(super) added: u64,
    /// Rows that it removed.
    pub(super) removed: u64,
    /// Rows that it added and that aren't there any more.
    pub(super) missing: u64,
}

/// The rows of an undo, made of these states.
pub(super) struct UndoRows<'a> {
    spec: &'a TableSpec,
    before: DateVersion<'a>,
    after: DateVersion<'a>,
    removals: Vec<DateVersion<'a>>,
    undone: Vec<UndoneRemoval<DateVersion<'a>>>,
    now: DateVersion<'a>,
    converter: RowConverter,
    pub(super) counts: UndoCounts,
}

type SymbolTime = (Option<String>, i64);

/// The sources of a state as one, in the table's order. Several are merged by a thread, a few batches ahead of the reader.
pub(super) fn merge_sources<'scope, 'a: 'scope>(
    scope: &'scope std::thread::Scope<'scope, 'a>,
    spec: &'a TableSpec,
    mut sources: Vec<RowSource<'a>>,
) -> RowSource<'a> {
    if sources.len() <= 1 {
        return sources.pop().unwrap_or_else(|| Box::new(std::iter::empty()));
    }
    let (sender, receiver) = mpsc::sync_channel(BATCHES_AHEAD);
    scope.spawn(move || {
        // A reader that has gone wants nothing more.
        let merged = merge(spec, sources, RESULT_ROWS, &mut |rows| sender.send(Ok(rows)).map_err(|_| Error::Stopped));
        if let Err(error) = merged {
            let _ = sender.send(Err(error));
        }
    });
    Box::new(receiver.into_iter())
}

impl<'a> UndoRows<'a> {
    pub(super) fn new(spec: &'a TableSpec, sources: DateStates<RowSource<'a>>) -> Result<UndoRows<'a>> {
        let state = |source| DateVersion { source, batch: RecordBatch::new_empty(spec.arrow()), at: 0 };
        let DateStates { before, after, removals, undone, now } = sources;
        let fields = spec.arrow().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(fields)?;
        Ok(UndoRows {
            spec,
            before: state(before),
            after: state(after),
            removals: removals.into_iter().map(state).collect(),
            undone: undone.into_iter().map(|removal| removal.map(state)).collect(),
            now: state(now),
            converter,
            counts: UndoCounts::default(),
        })
    }

    /// Gives the rows of the result, in order.
    pub(super) fn run(&mut self, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let (schema, mut result, mut rows) = (self.spec.arrow(), Vec::new(), 0);
        loop {
            let Some(least) = self.next_key()? else { break };
            let group = |state: &mut DateVersion| state.group(self.spec, &least, &self.converter);
            let of_undone = |removal: &mut UndoneRemoval<DateVersion>| {
                let (had, left) = (group(&mut removal.had)?, group(&mut removal.left)?);
                Ok(UndoneRemoval { had, left, later: removal.later.clone() })
            };
            let rows_at_time = DateStates {
                before: group(&mut self.before)?,
                after: group(&mut self.after)?,
                removals: self.removals.iter_mut().map(group).collect::<Result<_>>()?,
                undone: self.undone.iter_mut().map(of_undone).collect::<Result<_>>()?,
                now: group(&mut self.now)?,
            };
            for part in self.of_group(&rows_at_time)? {
                rows += part.num_rows();
                result.push(part);
            }
            if rows >= RESULT_ROWS {
                sink(concat_batches(&schema, &result)?)?;
                result.clear();
                rows = 0;
            }
        }
        if rows > 0 {
            sink(concat_batches(&schema, &result)?)?;
        }
        Ok(())
    }

    /// The least symbol and time that a state has next.
    fn next_key(&mut self) -> Result<Option<SymbolTime>> {
        let undone = self.undone.iter_mut().flat_map(|removal| [&mut removal.had, &mut removal.left]);
        let states =
            [&mut self.before, &mut self.after, &mut self.now].into_iter().chain(&mut self.removals).chain(undone);
        let keys = states.map(|state| state.key(self.spec)).collect::<Result<Vec<_>>>()?;
        Ok(keys.into_iter().flatten().min())
    }

    /// The rows of one symbol and time: those that were there before in their old order, then those that came later.
    fn of_group(&mut self, rows: &DateStates<RowsAtTime>) -> Result<Vec<RecordBatch>> {
        let DateStates { before, after, removals, undone, now } = rows;
        if before.bytes == after.bytes {
            return Ok(vec![now.rows.clone()]);
        }
        let (mut came, mut went) = (row_counts(&after.bytes), row_counts(&before.bytes));
        // A row in both states neither came nor went.
        for (row, count) in &mut came {
            if let Some(other) = went.get_mut(row) {
                let both = (*count).min(*other);
                *count -= both;
                *other -= both;
            }
        }
        self.counts.added += total(&came);
        self.counts.removed += total(&went);
        // Those that the commit added and that a later commit removed are missing, whatever came in their place.
        let all = total(&came);
        for (place, state) in removals.iter().enumerate() {
            let mut left = row_counts(&state.bytes);
            for removal in undone.iter().filter(|removal| removal.later.contains(&place)) {
                let remained = row_counts(&removal.left.bytes);
                for (row, had) in row_counts(&removal.had.bytes) {
                    *left.entry(row).or_default() += had.saturating_sub(remained.get(row).copied().unwrap_or(0));
                }
            }
            came.iter_mut().for_each(|(row, count)| *count = (*count).min(left.get(row).copied().unwrap_or(0)));
        }
        let removed_since = all - total(&came);
        // Each row that is there now is one that came and goes, or one that stays.
        let mut stays: HashMap<&OwnedRow, usize> = HashMap::new();
        let mut keeps = Vec::with_capacity(now.bytes.len());
        for row in now.bytes.iter().rev() {
            let goes = came.get_mut(row).filter(|count| **count > 0);
            let remains = goes.map(|count| *count -= 1).is_none();
            if remains {
                *stays.entry(row).or_default() += 1;
            }
            keeps.push(remains);
        }
        keeps.reverse();
        self.counts.missing += removed_since + total(&came);
        let mut old = Vec::new();
        for (place, row) in before.bytes.iter().enumerate() {
            let comes_back = went.get_mut(row).filter(|count| **count > 0);
            if let Some(count) = comes_back {
                *count -= 1;
                old.push(place as u64);
            } else if let Some(count) = stays.get_mut(row).filter(|count| **count > 0) {
                *count -= 1;
                old.push(place as u64);
            }
        }
        // The remaining rows that weren't there before; among equal rows, the last ones.
        let mut new = Vec::new();
        for (place, row) in now.bytes.iter().enumerate().rev() {
            if keeps[place]
                && let Some(count) = stays.get_mut(row).filter(|count| **count > 0)
            {
                *count -= 1;
                new.push(place as u64);
            }
        }
        new.reverse();
        let take_rows = |rows: &RecordBatch, places: Vec<u64>| take_record_batch(rows, &UInt64Array::from(places));
        Ok(vec![take_rows(&before.rows, old)?, take_rows(&now.rows, new)?])
    }
}

fn total(counts: &HashMap<&OwnedRow, usize>) -> u64 {
    counts.values().map(|count| *count as u64).sum()
}

fn row_counts(rows: &[OwnedRow]) -> HashMap<&OwnedRow, usize> {
    let mut counts = HashMap::new();
    rows.iter().for_each(|row| *counts.entry(row).or_default() += 1);
    counts
}

impl DateVersion<'_> {
    /// Symbol and time of the next row; `None` at the end.
    fn key(&mut self, spec: &TableSpec) -> Result<Option<SymbolTime>> {
        while self.at == self.batch.num_rows() {
            let Some(next) = self.source.next() else { return Ok(None) };
            (self.batch, self.at) = (next?, 0);
        }
        Ok(Some(key_of(spec, &self.batch, self.at)))
    }

    /// The rows of a symbol and time, if they come next.
    fn group(&mut self, spec: &TableSpec, key: &SymbolTime, converter: &RowConverter) -> Result<RowsAtTime> {
        let mut parts = Vec::new();
        while self.key(spec)?.is_some_and(|next| next == *key) {
            let begin = self.at;
            while self.at < self.batch.num_rows() && key_of(spec, &self.batch, self.at).cmp(key) == Ordering::Equal {
                self.at += 1;
            }
            parts.push(self.batch.slice(begin, self.at - begin));
        }
        let rows = match parts.as_slice() {
            [] => RecordBatch::new_empty(spec.arrow()),
            [one] => one.clone(),
            several => concat_batches(&spec.arrow(), several)?,
        };
        let columns: Vec<ArrayRef> = rows.columns().to_vec();
        let bytes = converter.convert_columns(&columns)?.iter().map(|row| row.owned()).collect();
        Ok(RowsAtTime { rows, bytes })
    }
}

fn key_of(spec: &TableSpec, rows: &RecordBatch, row: usize) -> SymbolTime {
    let symbol = spec.symbol_position().and_then(|position| {
        let column = rows.column(position).as_dictionary::<arrow::datatypes::Int32Type>();
        let key = column.keys().is_valid(row).then(|| column.keys().value(row))?;
        Some(column.values().as_string::<i32>().value(usize::try_from(key).unwrap_or(0)).to_owned())
    });
    (symbol, rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().value(row))
}
