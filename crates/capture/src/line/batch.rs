//! The tables of a batch, and what it may hold.

use std::collections::HashMap;

use splay_store::TableSpec;

use super::error::{Reason, ScanResult, ScanStop, refused};
use super::names::table_name;
use super::scan::Name;
use super::settings::{LineSettings, Precision};
use super::table::{LineRows, LineTable};

/// Bytes that a batch may always have, however few values it holds.
const SPARSE_BYTES: usize = 64 << 10;

/// How many times the bytes of its values a batch may have beyond that. Rows that name few of many columns would otherwise take their
/// square: each row brings a column, and each column a place in every row.
const SPARSE_FACTOR: usize = 8;

/// The bytes of a batch, and their limits.
#[derive(Debug)]
pub(super) struct BatchBudget {
    pub size: BatchSize,
    pub rows: usize,
    pub bytes_max: usize,
    pub stored_max: usize,
    pub rows_max: usize,
    pub columns_max: usize,
    pub precision: Precision,
}

/// Bytes of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BatchSize {
    /// Bytes of its columns, with a value for each null.
    pub columns: usize,
    /// Bytes of its values alone.
    pub values: usize,
    /// Bytes of its rows in all columns of their tables.
    pub stored: usize,
}

impl BatchBudget {
    /// Whether so many bytes more of its columns, and of all columns of their tables, are within the limits; an empty batch takes any
    /// line.
    pub fn fits(&self, columns: usize, stored: usize) -> bool {
        let columns = self.size.columns.saturating_add(columns);
        let is_dense = columns <= self.size.values.saturating_mul(SPARSE_FACTOR).saturating_add(SPARSE_BYTES);
        let is_stored = self.size.stored.saturating_add(stored) <= self.stored_max;
        self.rows == 0 || (columns <= self.bytes_max && is_dense && is_stored)
    }
}

/// Looks up a table that exists, by the store's name.
pub type TableLookup = Box<dyn Fn(&str) -> Option<TableSpec> + Send>;

/// The tables of a batch.
pub(super) struct LineBatch {
    pub budget: BatchBudget,
    pub tables: Vec<LineTable>,
    /// Positions by measurement as written, and by the store's name in lower case: one table may be written in many ways.
    by_raw: HashMap<Vec<u8>, usize>,
    by_name: HashMap<String, usize>,
    /// The measurement of the line before, and its table.
    last: (Vec<u8>, usize),
    tables_max: usize,
    time_column: String,
    lookup: Option<TableLookup>,
    scratch: Vec<u8>,
}

impl LineBatch {
    pub fn new(settings: &LineSettings, lookup: Option<TableLookup>) -> LineBatch {
        LineBatch {
            budget: BatchBudget {
                size: BatchSize::default(),
                rows: 0,
                bytes_max: settings.batch_bytes_max,
                stored_max: settings.stored_bytes_max,
                rows_max: settings.rows_max,
                columns_max: settings.columns_max,
                precision: settings.precision,
            },
            tables: Vec::new(),
            by_raw: HashMap::new(),
            by_name: HashMap::new(),
            last: (Vec::new(), usize::MAX),
            tables_max: settings.tables_max,
            time_column: settings.time_column.clone(),
            lookup,
            scratch: Vec::new(),
        }
    }

    /// Whether another row goes in.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.budget.rows < self.budget.rows_max && self.budget.fits(0, 0)
    }

    /// The table of a measurement, made if there is none.
    #[inline(always)]
    pub fn table(&mut self, name: Name<'_>) -> ScanResult<usize> {
        if self.last.0 == name.raw && self.last.1 < self.tables.len() {
            return Ok(self.last.1);
        }
        self.other_table(name)
    }

    #[inline(never)]
    fn other_table(&mut self, name: Name<'_>) -> ScanResult<usize> {
        let position = match self.by_raw.get(name.raw) {
            Some(&position) => position,
            None => self.new_table(name)?,
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name.raw);
        self.last.1 = position;
        Ok(position)
    }

    fn new_table(&mut self, name: Name<'_>) -> ScanResult<usize> {
        let plain = name.plain(false, &mut self.scratch);
        let plain = std::str::from_utf8(plain).map_err(|_| refused(Reason::NotUtf8, 0))?;
        let stored = table_name(plain);
        let lower = stored.to_ascii_lowercase();
        // Spellings are limited as tables are, since a table may have any number of them.
        if self.by_raw.len() >= self.tables_max {
            return Err(ScanStop::Full);
        }
        let position = match self.by_name.get(&lower) {
            Some(&position) => position,
            None => {
                let existing_spec = self.lookup.as_ref().and_then(|lookup| lookup(&stored));
                let stored = existing_spec.as_ref().map_or(stored, |spec| spec.name.clone());
                self.tables.push(LineTable::new(stored, existing_spec, &self.time_column));
                self.by_name.insert(lower, self.tables.len() - 1);
                self.tables.len() - 1
            }
        };
        self.by_raw.insert(name.raw.to_vec(), position);
        Ok(position)
    }

    /// The rows of all tables that have some, in the order in which the tables first came. Tables that exist stay known
    /// if they had rows; all others are looked up again when they come again.
    pub fn take(&mut self) -> Vec<LineRows> {
        self.budget.size = BatchSize::default();
        self.budget.rows = 0;
        let mut existing_tables = Vec::new();
        let mut batches = Vec::new();
        for mut table in std::mem::take(&mut self.tables) {
            if table.rows() == 0 {
                continue;
            }
            batches.extend(table.take());
            if table.existing_spec.is_some() {
                existing_tables.push(table);
            }
        }
        self.tables = existing_tables;
        self.by_raw.clear();
        self.last.1 = usize::MAX;
        self.by_name = self.tables.iter().enumerate().map(|(i, table)| (table.name.to_ascii_lowercase(), i)).collect();
        batches
    }
}

impl std::fmt::Debug for LineBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineBatch").field("budget", &self.budget).field("tables", &self.tables).finish_non_exhaustive()
    }
}
