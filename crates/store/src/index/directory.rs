//! The symbol directory: runs of equal symbols, their texts and first rows.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::Int32Type;

use crate::schema::TableSpec;

/// Runs of equal symbols, ascending; one run where the table has no symbol column.
#[derive(Debug)]
pub(super) struct Directory {
    /// The beginning of each run's text, and the end of the last.
    pub(super) offsets: ScalarBuffer<u32>,
    pub(super) texts: Buffer,
    /// First row of each run, and the number of rows.
    pub(super) rows: ScalarBuffer<u64>,
    /// Whether the first run is that of rows without a symbol.
    pub(super) first_is_null: bool,
    /// The texts as an array, made when it is first asked for.
    pub(super) array: OnceLock<ArrayRef>,
}

impl Directory {
    /// The directory of rows in the table's order.
    pub(super) fn of(spec: &TableSpec, rows: &RecordBatch) -> Directory {
        let count = rows.num_rows();
        let (mut firsts, mut offsets, mut texts) = (vec![0], vec![0], Vec::new());
        let mut first_is_null = true;
        if let Some(column) = spec.symbol_position() {
            firsts.clear();
            let column = rows.column(column).as_dictionary::<Int32Type>();
            let (keys, symbols) = (column.keys(), column.values().as_string::<i32>());
            first_is_null = !keys.is_empty() && keys.is_null(0);
            let mut row = 0;
            while row < count {
                firsts.push(row as u64);
                if keys.is_valid(row) {
                    texts.extend_from_slice(symbols.value(keys.value(row) as usize).as_bytes());
                }
                offsets.push(u32::try_from(texts.len()).unwrap_or(u32::MAX));
                row = run_end(keys, symbols, row);
            }
        } else {
            offsets.push(0);
        }
        firsts.push(count as u64);
        Directory {
            offsets: offsets.into(),
            texts: texts.into(),
            rows: firsts.into(),
            first_is_null,
            array: OnceLock::new(),
        }
    }

    /// How many runs there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len() - 1
    }

    /// Rows of a run.
    pub(super) fn run(&self, run: usize) -> Range<u64> {
        self.rows[run]..self.rows[run + 1]
    }

    pub(super) fn text(&self, run: usize) -> &str {
        std::str::from_utf8(self.bytes(run)).unwrap_or_default()
    }

    /// The texts of all runs, the same array each time.
    pub(super) fn array(&self) -> &ArrayRef {
        self.array.get_or_init(|| {
            let offsets = self.offsets.iter().map(|offset| i32::try_from(*offset).unwrap_or(i32::MAX)).collect();
            let array = StringArray::try_new(OffsetBuffer::new(offsets), self.texts.clone(), None);
            // In a damaged index an offset may be within a character: the text is empty then, as that of `text`.
            let by_run = |_| StringArray::from_iter_values((0..self.len()).map(|run| self.text(run)));
            Arc::new(array.unwrap_or_else(by_run))
        })
    }

    /// The run of a symbol, by binary search.
    pub(super) fn find(&self, symbol: &str) -> Option<usize> {
        let (mut low, mut high) = (usize::from(self.first_is_null), self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            // UTF-8 sorts as its bytes do.
            match self.bytes(middle).cmp(symbol.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn bytes(&self, run: usize) -> &[u8] {
        &self.texts[self.offsets[run] as usize..self.offsets[run + 1] as usize]
    }

    /// Checks that the bytes are the directory of `rows` rows; the error is the fault.
    pub(super) fn check(&self, rows: u64) -> Result<(), &'static str> {
        if self.rows.is_empty() || self.offsets.len() != self.rows.len() {
            return Err("lists of other lengths");
        }
        if !self.rows.is_sorted() || self.rows[0] != 0 || self.rows.last() != Some(&rows) {
            return Err("rows out of order");
        }
        if !self.offsets.is_sorted() || self.offsets.last().map(|end| *end as usize) != Some(self.texts.len()) {
            return Err("text offsets out of order");
        }
        if i32::try_from(self.texts.len()).is_err() {
            return Err("texts of more than 2 GiB");
        }
        if std::str::from_utf8(&self.texts).is_err() {
            return Err("text that isn't UTF-8");
        }
        Ok(())
    }
}

/// The row behind the run that begins at `start`: galloping, since runs are long.
fn run_end(keys: &Int32Array, texts: &StringArray, start: usize) -> usize {
    // A dictionary that was read from Parquet may hold a text twice.
    let text = |row: usize| keys.is_valid(row).then(|| texts.value(keys.value(row) as usize));
    let own = text(start);
    let same = |row: usize| text(row) == own;
    let (mut low, mut step) = (start, 1);
    while low + step < keys.len() && same(low + step) {
        low += step;
        step *= 2;
    }
    let mut high = (low + step).min(keys.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if same(middle) { low = middle } else { high = middle }
    }
    high
}
