//! A subscriber's filter of a table's rows: by symbols and columns.

use std::collections::HashSet;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int32Type;
use splay_store::TableSpec;

use crate::codec::compact;
use crate::conform::conform;
use crate::error::{Error, Result};

/// Symbols and columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct SubscriptionFilter {
    symbols: Option<HashSet<String>>,
    columns: Option<Vec<String>>,
}

impl SubscriptionFilter {
    /// Only these symbols and these columns, in this order; `None` for all.
    ///
    /// # Errors
    /// [`Error::Rejected`] for columns that there aren't.
    pub(crate) fn new(
        spec: &TableSpec,
        symbols: Option<&[String]>,
        columns: Option<&[String]>,
    ) -> Result<SubscriptionFilter> {
        for column in columns.unwrap_or_default() {
            if spec.position(column).is_none() {
                return Err(Error::rejected(&spec.name, format!("it has no column {column:?}")));
            }
        }
        if symbols.is_some() && spec.symbol.is_none() {
            return Err(Error::rejected(&spec.name, "it has no symbol column"));
        }
        let symbols = symbols.map(|symbols| symbols.iter().cloned().collect());
        Ok(SubscriptionFilter { symbols, columns: columns.map(<[String]>::to_vec) })
    }

    /// The wanted rows and columns of a batch; `None` if there is no row.
    pub(crate) fn of(&self, spec: &TableSpec, rows: &RecordBatch) -> Result<Option<RecordBatch>> {
        let position = spec.symbol_position();
        let is_there = |at: &usize| {
            let field = rows.schema_ref().fields().get(*at);
            field.is_some_and(|field| field.name().eq_ignore_ascii_case(&spec.columns[*at].name))
        };
        // Rows of the journal may have other columns than the table has now.
        let rows = match &self.symbols {
            Some(_) if !position.as_ref().is_some_and(is_there) => conform(spec, rows)?,
            _ => rows.clone(),
        };
        let rows = match (&self.symbols, position) {
            (Some(symbols), Some(position)) => {
                let column = rows.column(position).as_dictionary::<Int32Type>();
                let texts = column.values().as_string::<i32>();
                let selected_codes: Vec<bool> = texts.iter().map(|t| t.is_some_and(|t| symbols.contains(t))).collect();
                let passes = |row: usize| {
                    column.is_valid(row)
                        && usize::try_from(column.keys().value(row)).is_ok_and(|key| selected_codes[key])
                };
                let mask: BooleanArray = (0..column.len()).map(|row| Some(passes(row))).collect();
                compact(&filter_record_batch(&rows, &mask)?)
            }
            _ => rows,
        };
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        self.columns(spec, &rows).map(Some)
    }

    /// The wanted columns; those that were added since are null.
    pub(crate) fn columns(&self, spec: &TableSpec, rows: &RecordBatch) -> Result<RecordBatch> {
        let rows = conform(spec, rows)?;
        match &self.columns {
            None => Ok(rows),
            Some(columns) => {
                let places: Vec<usize> = columns.iter().filter_map(|column| spec.position(column)).collect();
                Ok(rows.project(&places)?)
            }
        }
    }
}
