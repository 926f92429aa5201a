//! Merges sorted sources of a partition into one order, in bounded memory.
//!
//! Among rows with equal symbol and time those of an earlier source come first: sources are passed in order of
//! arrival.
//!
//! Idea: the source with the least head gives all its rows up to the least head of the others at once, which a galloping search finds. Only
//! the places of rows are noted; values are copied when a batch of the result is full.
//!
//! Memory: a batch of each source, and the batches that the current result was picked from. Cost: per run of rows, a look at each head and the
//! logarithm of the run's length.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, DictionaryArray, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{Int32Type, TimestampNanosecondType};

use super::gather::gather;
use super::order::BatchOrder;
use crate::error::Result;
use crate::schema::TableSpec;

/// Batches of a source, each in order and behind the one before.
pub(crate) type RowSource<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + Send + 'a>;

/// Gives merged rows in batches of about `rows_max` rows to `sink`.
pub(crate) fn merge(
    spec: &TableSpec,
    sources: Vec<RowSource<'_>>,
    rows_max: usize,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let schema = spec.arrow();
    let mut heads = Vec::new();
    for source in sources {
        if let Some(head) = MergeCursor::first(spec, source)? {
            heads.push(head);
        }
    }
    // Batches whose rows were picked since the last flush; `heads` refer to them by number.
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut picked = BatchOrder::default();
    while let Some(least) = least(&heads) {
        let number = match heads[least].number {
            Some(number) => number,
            None => {
                batches.push(heads[least].batch.clone());
                heads[least].number = Some(batches.len() - 1);
                batches.len() - 1
            }
        };
        let end = heads[least].run_end(&heads, least).min(heads[least].row + (rows_max - picked.rows()));
        picked.push_range(number, heads[least].row..end);
        heads[least].row = end;
        if end == heads[least].batch.num_rows() && !heads[least].advance(spec)? {
            heads.remove(least);
        }
        if picked.rows() >= rows_max {
            sink(gather(&schema, &batches, &picked)?)?;
            picked.clear();
            batches.clear();
            heads.iter_mut().for_each(|head| head.number = None);
        }
    }
    if picked.rows() > 0 {
        sink(gather(&schema, &batches, &picked)?)?;
    }
    Ok(())
}

/// The position in a source.
struct MergeCursor<'a> {
    source: RowSource<'a>,
    batch: RecordBatch,
    row: usize,
    /// Its number among the batches that were picked from.
    number: Option<usize>,
    symbols: Option<DictionaryArray<Int32Type>>,
    times: TimestampNanosecondArray,
}

/// The sort key of a row: its symbol and its time.
type MergeKey<'a> = (Option<&'a str>, i64);

impl<'a> MergeCursor<'a> {
    /// The first row of a source, or `None` if it has none.
    fn first(spec: &TableSpec, source: RowSource<'a>) -> Result<Option<MergeCursor<'a>>> {
        let batch = RecordBatch::new_empty(spec.arrow());
        let (symbols, times) = key_columns(spec, &batch);
        let mut head = MergeCursor { source, batch, row: 0, number: None, symbols, times };
        Ok(head.advance(spec)?.then_some(head))
    }

    /// Goes to the source's next batch; false if there is none.
    fn advance(&mut self, spec: &TableSpec) -> Result<bool> {
        for batch in self.source.by_ref() {
            let batch = batch?;
            if batch.num_rows() > 0 {
                (self.symbols, self.times) = key_columns(spec, &batch);
                (self.batch, self.row, self.number) = (batch, 0, None);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn key(&self, row: usize) -> MergeKey<'_> {
        let symbol = self.symbols.as_ref().and_then(|symbols| {
            let key = symbols.keys().is_valid(row).then(|| symbols.keys().value(row) as usize)?;
            Some(symbols.values().as_string::<i32>().value(key))
        });
        (symbol, self.times.value(row))
    }

    /// The end of the rows that sort before every other source's head, found by galloping: such runs are long if the
    /// sources have different symbols or times.
    fn run_end(&self, heads: &[MergeCursor<'_>], own: usize) -> usize {
        let limit = heads.iter().enumerate().filter(|(other, _)| *other != own);
        let Some((other, key)) = limit.map(|(other, head)| (other, head.key(head.row))).min_by_key(|(_, key)| *key)
        else {
            return self.batch.num_rows();
        };
        // An earlier source goes first among equals, a later one last.
        let others_at_key = heads.iter().enumerate().filter(|(at, head)| *at != own && head.key(head.row) == key);
        let first_of_others = others_at_key.map(|(at, _)| at).min().unwrap_or(other);
        let precedes = |row: usize| match self.key(row).cmp(&key) {
            Ordering::Less => true,
            Ordering::Equal => own < first_of_others,
            Ordering::Greater => false,
        };
        let (mut low, mut step) = (self.row, 1);
        while low + step < self.batch.num_rows() && precedes(low + step) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(self.batch.num_rows());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if precedes(middle) { low = middle } else { high = middle }
        }
        high
    }
}

/// The source whose head comes first.
fn least(heads: &[MergeCursor<'_>]) -> Option<usize> {
    (0..heads.len()).min_by_key(|number| heads[*number].key(heads[*number].row))
}

fn key_columns(
    spec: &TableSpec,
    batch: &RecordBatch,
) -> (Option<DictionaryArray<Int32Type>>, TimestampNanosecondArray) {
    let symbols = spec.symbol_position().map(|position| batch.column(position).as_dictionary().clone());
    (symbols, batch.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().clone())
}
