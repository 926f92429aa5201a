//! Quarantine tables: rows whose time is too far ahead of the clock.
//!
//! - `trade_quarantine` has the columns of `trade`. Such names are reserved: only capture creates tables with them.
//! - An older table or view with such a name gets no rows, and doesn't block the quarantine: its name becomes longer.

use std::sync::{Arc, PoisonError};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampNanosecondType;
use splay_store::{ColumnSpec, QUARANTINE, TableSpec};

use super::Capture;
use crate::error::Result;
use crate::live::{LiveTable, times};

impl Capture {
    /// The quarantine of a table, which counts as a new table if it is made.
    pub(super) fn quarantine(&self, spec: &TableSpec, new_tables: &mut usize) -> Result<Arc<LiveTable>> {
        let mut quarantine = spec.clone();
        loop {
            quarantine.name.push_str(QUARANTINE);
            match self.live(&quarantine.name)? {
                Some(live) if self.fits(&live, &quarantine)? => return Ok(live),
                Some(_) => {}
                None if self.shared.database.view(&quarantine.name)?.is_some() => {}
                None => {
                    *new_tables += 1;
                    self.shared.check_new_tables(&quarantine.name, *new_tables)?;
                    return self.create(&quarantine);
                }
            }
        }
    }

    /// Whether a table can be this quarantine. It gets the columns that it lacks.
    fn fits(&self, live: &LiveTable, quarantine: &TableSpec) -> Result<bool> {
        let table = live.spec();
        if table.columns == quarantine.columns && may_fit(&table, quarantine) {
            return Ok(true);
        }
        let _changes = self.shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
        live.refresh_spec()?;
        let table = live.spec();
        if !may_fit(&table, quarantine) {
            return Ok(false);
        }
        let missing = quarantine.columns.iter().filter(|column| table.position(&column.name).is_none());
        // Without former names: the quarantine may have a column of one of them.
        let missing: Vec<ColumnSpec> =
            missing.map(|column| ColumnSpec::new(&column.name, column.column_type.clone())).collect();
        if !missing.is_empty() {
            self.shared.settled(live.table().add_columns(missing))?;
            live.refresh_spec()?;
        }
        Ok(true)
    }
}

/// Whether a table has the columns of a quarantine in their types, or may get them.
fn may_fit(table: &TableSpec, quarantine: &TableSpec) -> bool {
    let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    let has_symbol = match (&table.symbol, &quarantine.symbol) {
        (Some(one), Some(other)) => same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    let may_have = |column: &ColumnSpec| match table.position(&column.name) {
        Some(position) => table.columns[position].column_type == column.column_type,
        None => !table.dropped.iter().any(|dropped| same(dropped, &column.name)),
    };
    table.reference.is_none()
        && same(&table.time, &quarantine.time)
        && has_symbol
        && quarantine.columns.iter().all(may_have)
}

/// Rows up to a time, and those behind it if there are any.
pub(super) fn split_ahead(
    spec: &TableSpec,
    rows: &RecordBatch,
    latest: i64,
) -> Result<(RecordBatch, Option<RecordBatch>)> {
    if times(spec, rows).1 <= latest {
        return Ok((rows.clone(), None));
    }
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let ahead = BooleanArray::from_unary(times, |time| time > latest);
    let near = BooleanArray::from_unary(times, |time| time <= latest);
    Ok((filter_record_batch(rows, &near)?, Some(filter_record_batch(rows, &ahead)?)))
}
