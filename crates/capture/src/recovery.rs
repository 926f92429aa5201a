//! Restores rows from the journal at a start.
//!
//! Small adjacent batches are concatenated: one by one they would take kilobytes each, and as much time as many rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::TimestampNanosecondType;
use splay_store::{Database, TableSpec};

use crate::conform::{former_names, has_name};
use crate::error::Result;
use crate::journal::JournalBatch;
use crate::live::times;
use crate::live::{LiveTable, RECOVERED_ROWS_MAX, Tail};
use crate::measure::Meters;
use crate::status::RecoveryStatus;
use crate::stored_tables::create_table;

/// Rows up to which batches are put together.
pub(crate) const TOGETHER_ROWS: usize = 8_192;

/// Takes batches back, in their order.
#[derive(Debug)]
pub(crate) struct Recovery<'a> {
    database: &'a Database,
    meters: &'a Meters,
    tables: HashMap<String, RecoveringTable>,
    /// Tables whose files are damaged.
    damaged: HashSet<String>,
    recovered: RecoveryStatus,
}

/// A table whose rows come back.
#[derive(Debug)]
struct RecoveringTable {
    live: Arc<LiveTable>,
    /// The columns of the last batch.
    layout: Option<Arc<TableSpec>>,
    /// Batches of one layout that are put together, and their rows.
    together: Vec<JournalBatch>,
    rows: usize,
}

impl<'a> Recovery<'a> {
    pub(crate) fn new(database: &'a Database, meters: &'a Meters) -> Recovery<'a> {
        let (tables, damaged) = (HashMap::new(), HashSet::new());
        Recovery { database, meters, tables, damaged, recovered: RecoveryStatus::default() }
    }

    /// Takes the rows of a batch that aren't in the table's files. Those of a table that is damaged stay in the journal.
    pub(crate) fn take(&mut self, mut batch: JournalBatch) -> Result<()> {
        if batch.rows.num_rows() == 0 {
            // All were duplicates. It doesn't make a table that is gone.
            return Ok(());
        }
        let name = batch.spec.name.to_lowercase();
        if self.damaged.contains(&name) {
            self.recovered.rows_withheld += batch.rows.num_rows() as u64;
            return Ok(());
        }
        if !self.tables.contains_key(&name) {
            // A damaged table doesn't count as dropped: its rows are handled below.
            let former = match self.database.former(&name) {
                Err(error) if error.is_damage() => None,
                former => former?,
            };
            if let Some(captured) = former
                && batch.sequence <= captured.sequence
                && behind(&batch.spec, &batch.rows, captured.cut)?.num_rows() == 0
            {
                // The rows were in the files of the table when it was dropped or renamed.
                return Ok(());
            }
            let table = create_table(self.database, &batch.spec)?;
            if let Err(error) = table.stored()
                && error.is_damage()
            {
                // Without these rows it isn't whole, even if its files are sound again before the next start; and rows that it
                // took meanwhile would make these be taken for stored.
                table.withhold(Some(error));
                self.recovered.rows_withheld += batch.rows.num_rows() as u64;
                self.damaged.insert(name);
                return Ok(());
            }
            let live = LiveTable::new(table, self.meters)?;
            self.tables.insert(name.clone(), RecoveringTable { live, layout: None, together: Vec::new(), rows: 0 });
        }
        let Some(table) = self.tables.get_mut(&name) else { return Ok(()) };
        let captured = table.live.captured();
        if batch.sequence <= captured.sequence {
            batch.rows = behind(&batch.spec, &batch.rows, captured.cut)?;
        }
        let rows = batch.rows.num_rows();
        if rows == 0 {
            return Ok(());
        }
        self.recovered.batches += 1;
        self.recovered.rows += rows as u64;
        if table.layout.as_ref().is_none_or(|layout| !Arc::ptr_eq(layout, &batch.spec)) {
            follow_columns(&table.live, &batch.spec)?;
            table.layout = Some(Arc::clone(&batch.spec));
        }
        table.take(batch)
    }

    /// The tables with all that came back.
    pub(crate) fn finish(self) -> Result<(HashMap<String, Arc<LiveTable>>, RecoveryStatus)> {
        let mut tables = HashMap::with_capacity(self.tables.len());
        for (name, mut table) in self.tables {
            table.hand_on()?;
            tables.insert(name, table.live);
        }
        Ok((tables, self.recovered))
    }
}

impl RecoveringTable {
    fn take(&mut self, batch: JournalBatch) -> Result<()> {
        let rows = batch.rows.num_rows();
        let is_of_layout = self.together.last().is_none_or(|last| Arc::ptr_eq(&last.spec, &batch.spec));
        if !is_of_layout || self.rows + rows > TOGETHER_ROWS {
            self.hand_on()?;
        }
        self.rows += rows;
        self.together.push(batch);
        Ok(())
    }

    /// Gives what was put together to the table, under the last batch's number and as old as the first: rows are rather written down
    /// too soon.
    fn hand_on(&mut self) -> Result<()> {
        self.rows = 0;
        let together = std::mem::take(&mut self.together);
        let (Some(first), Some(last)) = (together.first(), together.last()) else { return Ok(()) };
        let rows = match together.as_slice() {
            [one] => one.rows.clone(),
            several => concat_batches(&first.rows.schema(), several.iter().map(|batch| &batch.rows))?,
        };
        let (bytes, times) = (rows.get_array_memory_size() as u64, times(&first.spec, &rows));
        self.live.push([Tail { sequence: last.sequence, received: first.received, rows, bytes, times }]);
        if self.live.size().tail_rows > RECOVERED_ROWS_MAX {
            self.live.organise()?;
        }
        Ok(())
    }
}

/// Gives a table the columns that rows of the journal have and it lacks, and the names that these have in the rows: a copy that was promoted may
/// have rows before the commits that made room for them. Columns that were dropped or renamed stay so.
fn follow_columns(live: &LiveTable, of_rows: &TableSpec) -> Result<()> {
    let spec = live.spec();
    for (column, name) in former_names(&spec, of_rows) {
        live.table().rename_column_as_capture(name, &column.name)?;
        live.refresh_spec()?;
    }
    let spec = live.spec();
    let missing: Vec<_> = of_rows.columns.iter().filter(|column| !has_name(&spec, &column.name)).cloned().collect();
    if !missing.is_empty() {
        live.table().add_columns(missing)?;
        live.refresh_spec()?;
    }
    Ok(())
}

/// Rows whose time is behind a cut.
pub(crate) fn behind(spec: &TableSpec, rows: &RecordBatch, cut: i64) -> Result<RecordBatch> {
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let mask = BooleanArray::from_unary(times, |time| time > cut);
    Ok(filter_record_batch(rows, &mask)?)
}
