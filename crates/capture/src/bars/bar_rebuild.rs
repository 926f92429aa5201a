//! Reads the rows of a bar again from the table.

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int32Type, TimestampNanosecondType};
use splay_store::{Bounds, Database, Selection, TableSpec};

use crate::codec;
use crate::error::Result;

/// Reads rows of a table again.
pub trait BarRows: std::fmt::Debug + Send {
    /// The rows of a symbol from an instant up to another, in the table's order, and the number of the batch up to which they are
    /// all there.
    ///
    /// # Errors
    /// Those of reading.
    fn rows(&self, symbol: Option<&str>, from: i64, to: i64) -> Result<(u64, Vec<RecordBatch>)>;

    /// The newest date of which the table has rows; the least there is if it has none.
    ///
    /// # Errors
    /// Those of reading.
    fn newest_date(&self) -> Result<i32>;
}

/// The stored and live rows of a table that this process captures into.
#[derive(Debug)]
pub struct StoredBarRows {
    database: Database,
    table: String,
}

impl StoredBarRows {
    /// The rows of a table.
    #[must_use]
    pub fn new(database: Database, table: impl Into<String>) -> StoredBarRows {
        StoredBarRows { database, table: table.into() }
    }
}

impl BarRows for StoredBarRows {
    fn rows(&self, symbol: Option<&str>, from: i64, to: i64) -> Result<(u64, Vec<RecordBatch>)> {
        let snapshot = self.database.table(&self.table)?.snapshot()?;
        let spec = snapshot.spec();
        let selection = Selection {
            time: Bounds { min: from, max: to.saturating_sub(1) },
            // Rows without a symbol aren't found by one.
            symbols: symbol.map(|symbol| vec![symbol.to_owned()]),
            ..Selection::default()
        };
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        let mut batches = Vec::new();
        for piece in snapshot.select(&selection)?.0 {
            let rows = codec::owned(&piece.segment.read(spec, &all, piece.rows.clone())?)?;
            batches.push(filter_record_batch(&rows, &mask(spec, &rows, symbol.is_none(), from, to))?);
        }
        snapshot.watch().check()?;
        Ok((snapshot.live(), batches))
    }

    fn newest_date(&self) -> Result<i32> {
        let snapshot = self.database.table(&self.table)?.snapshot()?;
        let newest = snapshot.partitions().iter().rev().find(|partition| partition.rows() > 0);
        Ok(newest.map_or(i32::MIN, |partition| partition.date))
    }
}

/// Rows within the bounds, and without a symbol if those are wanted.
fn mask(spec: &TableSpec, rows: &RecordBatch, is_without: bool, from: i64, to: i64) -> BooleanArray {
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let symbols = spec.symbol_position().map(|at| rows.column(at).as_dictionary::<Int32Type>());
    let is_of_symbol = |row: usize| !is_without || symbols.is_none_or(|symbols| symbols.is_null(row));
    let is_selected = |row: usize| (from..to).contains(&times.value(row)) && is_of_symbol(row);
    (0..rows.num_rows()).map(|row| Some(is_selected(row))).collect()
}
