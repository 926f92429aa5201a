//! Reference tables: instruments, exchanges, corporate actions. Tables without a time column, or with effective
//! dates.
//!
//! - All rows are in one partition, that of 1970-01-01, and each change rewrites it, in order of symbol, effective
//!   date and key.
//! - Keys are unique, and their columns have no nulls.
//! - If no column is the time, a hidden last column is: the effective date at midnight in UTC, or 1970-01-01. So code
//!   that reads tables by symbol and time reads these as well.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::datatypes::{Date32Type, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::{ColumnSpec, ColumnType, Retention, TableSpec};
use crate::error::{Error, Result};

/// Most rows of a reference table, because each change rewrites all of them.
pub const REFERENCE_ROWS_MAX: u64 = 4_000_000;

/// The partition that has all rows.
pub(crate) const PARTITION: i32 = 0;

/// Name of the hidden time column, which users don't see.
const TIME: &str = "__time";

const DAY_NS: i64 = 86_400_000_000_000;

/// The key and effective date of a reference table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The columns of the unique key; empty if rows may repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Name of the column of type date or timestamp from which on a row is in effect, for as-of joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
}

impl TableSpec {
    /// A reference table. Rows are ordered by the first column of the key that is of type symbol, or else by the only one of that type,
    /// then by effective date and key. Call [`TableSpec::validate`] before use; every store call does.
    #[must_use]
    pub fn of_reference(name: impl Into<String>, mut columns: Vec<ColumnSpec>, reference: Reference) -> TableSpec {
        let of = |name: &str| columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        let is_symbol = |column: &&ColumnSpec| column.column_type == ColumnType::Symbol;
        let in_key = reference.key.iter().filter_map(|name| of(name)).find(is_symbol);
        let only = || {
            let mut symbols = columns.iter().filter(is_symbol);
            symbols.next().filter(|_| symbols.next().is_none())
        };
        let symbol = in_key.or_else(only).map(|column| column.name.clone());
        let effective = reference.effective.as_deref().and_then(of);
        let time = match effective.filter(|column| column.column_type == ColumnType::Timestamp) {
            Some(column) => column.name.clone(),
            None => {
                columns.push(ColumnSpec::new(TIME, ColumnType::Timestamp));
                TIME.to_owned()
            }
        };
        let mut spec = TableSpec::new(name, columns, time, symbol.as_deref());
        spec.reference = Some(reference);
        spec
    }

    /// The visible columns: all except the hidden time column of a reference table.
    #[must_use]
    pub fn shown_columns(&self) -> &[ColumnSpec] {
        &self.columns[..self.columns.len().saturating_sub(usize::from(self.has_hidden_time()))]
    }

    /// Position of a column that people see.
    ///
    /// # Errors
    /// [`Error::NoSuchColumn`].
    pub(crate) fn shown_position(&self, name: &str) -> Result<usize> {
        let shown = self.shown_columns();
        self.position(name).filter(|position| *position < shown.len()).ok_or_else(|| Error::NoSuchColumn {
            table: self.name.clone(),
            column: name.to_owned(),
            existing: shown.iter().map(|column| column.name.clone()).collect(),
        })
    }

    /// The columns that people see as an Arrow schema.
    #[must_use]
    pub fn shown_arrow(&self) -> SchemaRef {
        Arc::new(Schema::new(self.arrow().fields()[..self.shown_columns().len()].to_vec()))
    }

    /// The schema of incoming rows: the visible columns, none of them required. Appending checks what a reference table
    /// needs.
    #[must_use]
    pub fn as_read(&self) -> TableSpec {
        if self.reference.is_none() {
            return self.clone();
        }
        let time = if self.has_hidden_time() { "" } else { &self.time };
        TableSpec::new(&self.name, self.shown_columns().to_vec(), time, self.symbol.as_deref())
    }

    /// Whether the table has the hidden time column, which is its last column.
    #[must_use]
    pub fn has_hidden_time(&self) -> bool {
        self.reference.is_some() && self.time == TIME
    }

    /// The key of a reference table, by positions; empty for one without, and for other tables.
    #[must_use]
    pub fn key_positions(&self) -> Vec<usize> {
        let key = self.reference.iter().flat_map(|reference| &reference.key);
        key.filter_map(|name| self.position(name)).collect()
    }

    /// Positions of the columns that have no nulls: the time, the effective date and the key.
    #[must_use]
    pub fn required(&self) -> Vec<usize> {
        let effective = self.reference.iter().filter_map(|reference| reference.effective.as_deref());
        let effective = effective.filter_map(|name| self.position(name));
        self.position(&self.time).into_iter().chain(effective).chain(self.key_positions()).collect()
    }

    /// Adds a column behind those that people see.
    pub(crate) fn push_column(&mut self, column: ColumnSpec) {
        let place = self.shown_columns().len();
        self.columns.insert(place, column);
    }

    /// Whether a column is part of the order or of the key of the rows.
    pub(crate) fn has_role(&self, position: usize) -> bool {
        Some(position) == self.symbol_position() || self.required().contains(&position)
    }

    /// Renames a column in the roles that name it.
    pub(crate) fn rename_roles(&mut self, old: &str, to: &str) {
        let reference =
            self.reference.iter_mut().flat_map(|reference| reference.key.iter_mut().chain(&mut reference.effective));
        for role in reference.chain(&mut self.symbol).chain([&mut self.time]) {
            if role.eq_ignore_ascii_case(old) {
                to.clone_into(role);
            }
        }
    }

    /// The values of the hidden time column for rows with these other columns.
    pub(crate) fn hidden_times(&self, columns: &[ArrayRef], rows: usize) -> ArrayRef {
        let effective = self.reference.as_ref().and_then(|reference| reference.effective.as_deref());
        let dates = effective.and_then(|name| self.position(name)).and_then(|position| columns.get(position));
        let dates = dates.and_then(|column| column.as_primitive_opt::<Date32Type>());
        let times: Vec<i64> = match dates {
            Some(dates) => dates.values().iter().map(|day| i64::from(*day).saturating_mul(DAY_NS)).collect(),
            None => vec![0; rows],
        };
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
    }
}

/// Refuses rows that are null where they may not be.
pub(crate) fn refuse_nulls(spec: &TableSpec, columns: &[ArrayRef]) -> Result<()> {
    if spec.reference.is_none() {
        return Ok(());
    }
    for position in spec.required() {
        let column = &columns[position];
        if column.logical_null_count() > 0 {
            let nulls = column.logical_nulls();
            let row = (0..column.len()).find(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row)));
            let name = &spec.columns[position].name;
            let reason = format!("violates a not-null constraint: null value in column {name:?}");
            return Err(Error::Row { table: spec.name.clone(), row: row.unwrap_or(0) as u64, reason });
        }
    }
    Ok(())
}

/// Checks key, effective dates, and that the rest fits a reference table.
pub(crate) fn validate(spec: &TableSpec, reference: &Reference) -> Result<()> {
    let of = |name: &str| spec.position(name).filter(|position| *position < spec.shown_columns().len());
    let mut seen = Vec::new();
    for name in &reference.key {
        let Some(position) = of(name) else {
            return Err(spec.error(format!("the key names a column {name:?}, which isn't there")));
        };
        if seen.contains(&position) {
            return Err(spec.error(format!("the key names the column {name:?} twice")));
        }
        seen.push(position);
        let column_type = &spec.columns[position].column_type;
        if matches!(column_type, ColumnType::Float32 | ColumnType::Float64 | ColumnType::Levels { .. }) {
            return Err(spec.error(format!("{name:?} is {column_type}, and a key has no floats: use decimal or text")));
        }
    }
    let mut hides_time = true;
    if let Some(name) = &reference.effective {
        let Some(position) = of(name) else {
            return Err(spec.error(format!("the effective date {name:?} is not among the columns")));
        };
        match &spec.columns[position].column_type {
            ColumnType::Date => {}
            ColumnType::Timestamp => hides_time = false,
            other => return Err(spec.error(format!("the effective date {name:?} is {other}, not date or timestamp"))),
        }
        if !seen.is_empty() && !seen.contains(&position) {
            return Err(spec.error(format!("the effective date {name:?} must be a column of the key")));
        }
    }
    let time_stands = match hides_time {
        true => spec.time == TIME && spec.position(TIME) == spec.columns.len().checked_sub(1),
        false => reference.effective.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(&spec.time)),
    };
    if !time_stands {
        return Err(spec.error(format!("{:?} can't be the time column of a reference table", spec.time)));
    }
    if spec.time_zone != "UTC" {
        return Err(spec.error("a reference table has no dates, and so no time zone for them".to_owned()));
    }
    if spec.retention != Retention::default() {
        return Err(spec.error("a reference table has no dates that a retention could remove".to_owned()));
    }
    Ok(())
}
