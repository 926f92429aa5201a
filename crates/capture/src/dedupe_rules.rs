//! Deduplication rules of tables, from their settings, and counts of duplicates.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use splay_store::{ColumnType, Database, Dedupe, RowDigest, RowDigests, TableSpec};

use crate::clock::seconds;
use crate::error::{Error, Result};
use crate::settings::{CaptureSettings, DedupeSettings};
use crate::status::{Counter, DedupeStatus};

/// The rules of all tables.
#[derive(Debug, Default)]
pub(crate) struct DedupeRules {
    all: Vec<Arc<DedupeRule>>,
}

/// The rule by which duplicates of a table are found.
#[derive(Debug)]
pub(crate) struct DedupeRule {
    /// Its place among the rules.
    pub(crate) number: usize,
    /// Lower-case name of the table.
    pub(crate) table: String,
    /// Nanoseconds of the table's time.
    pub(crate) window: i64,
    pub(crate) keys_max: usize,
    pub(crate) counts: DedupeCounts,
    dedupe: Dedupe,
    /// The digest function for the schema that was used last.
    digests: Mutex<Option<(Arc<TableSpec>, Arc<RowDigests>)>>,
}

/// Figures of a table's deduplication, for the operator.
#[derive(Debug, Default)]
pub(crate) struct DedupeCounts {
    pub(crate) duplicates: Counter,
    pub(crate) uncompared: Counter,
    pub(crate) keys: Counter,
    pub(crate) from: AtomicI64,
    pub(crate) is_limited: AtomicBool,
}

/// Digests of a batch's rows.
#[derive(Debug)]
pub(crate) struct BatchDigests {
    pub(crate) rule: Arc<DedupeRule>,
    pub(crate) of_rows: Vec<Option<RowDigest>>,
}

impl BatchDigests {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.of_rows.len() * size_of::<Option<RowDigest>>()
    }
}

impl DedupeRules {
    /// The rules of the settings.
    ///
    /// # Errors
    /// That of the setting, for a key that can't be read and for a window or a limit of nothing.
    pub(crate) fn new(settings: &CaptureSettings) -> Result<DedupeRules> {
        let mut all: Vec<Arc<DedupeRule>> = Vec::with_capacity(settings.dedupe.len());
        for (table, own) in &settings.dedupe {
            let rule = DedupeRule::new(all.len(), table, own).map_err(|reason| refused(table, reason))?;
            if all.iter().any(|other| other.table == rule.table) {
                return Err(refused(
                    table,
                    "the table is named twice; names that differ only in case are equal".to_owned(),
                ));
            }
            all.push(Arc::new(rule));
        }
        Ok(DedupeRules { all })
    }

    /// By their numbers.
    pub(crate) fn all(&self) -> &[Arc<DedupeRule>] {
        &self.all
    }

    /// That of a table.
    pub(crate) fn of(&self, table: &str) -> Option<&Arc<DedupeRule>> {
        self.all.iter().find(|rule| rule.table.eq_ignore_ascii_case(table))
    }

    /// Checks that existing tables have the columns of their keys. A table that can't be read is skipped: its reader gets the error.
    ///
    /// # Errors
    /// That of the setting.
    pub(crate) fn check_tables(&self, database: &Database) -> Result<()> {
        for rule in &self.all {
            let stored = database.table(&rule.table).and_then(|table| table.stored());
            if let Ok(stored) = stored {
                rule.check(stored.spec()).map_err(|reason| refused(&rule.table, reason))?;
            }
        }
        Ok(())
    }

    /// Refuses rows whose table lacks a column of its key.
    ///
    /// # Errors
    /// [`Error::Rejected`].
    pub(crate) fn check_existing(&self, spec: &Arc<TableSpec>) -> Result<()> {
        self.of(&spec.name).map_or(Ok(()), |rule| rule.digests(spec).map(drop))
    }

    /// Refuses another name for a column of a table's key, which the settings name.
    ///
    /// # Errors
    /// [`splay_store::Error::Refused`].
    pub(crate) fn refuse_release(&self, table: &str, column: &str) -> splay_store::Result<()> {
        let key = self.of(table).and_then(|rule| rule.dedupe.columns.as_ref());
        match key.is_some_and(|key| key.iter().any(|name| name.eq_ignore_ascii_case(column))) {
            true => Err(splay_store::Error::Refused {
                reason: format!(
                    "the key of duplicates in the server's settings of table {table:?} names the column {column:?}: stop the server, rename the \
                     column, and name the new one in the settings"
                ),
            }),
            false => Ok(()),
        }
    }

    /// The same for a table that is going to be made.
    ///
    /// # Errors
    /// [`Error::Rejected`].
    pub(crate) fn check(&self, spec: &TableSpec) -> Result<()> {
        match self.of(&spec.name) {
            Some(rule) => rule.check(spec).map_err(|reason| Error::rejected(&spec.name, reason)),
            None => Ok(()),
        }
    }

    /// The digests of rows that have a table's columns; `None` if duplicates aren't looked for in it.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the table lacks a column of its key.
    pub(crate) fn digests(&self, spec: &Arc<TableSpec>, rows: &RecordBatch) -> Result<Option<BatchDigests>> {
        let Some(rule) = self.of(&spec.name) else { return Ok(None) };
        let digests = rule.digests(spec)?;
        let of_rows = digests.of(&rows.project(digests.columns())?)?;
        Ok(Some(BatchDigests { rule: Arc::clone(rule), of_rows }))
    }
}

impl DedupeRule {
    fn new(number: usize, table: &str, settings: &DedupeSettings) -> Result<DedupeRule, String> {
        let dedupe: Dedupe = settings.key.parse()?;
        if settings.window_s == 0 {
            return Err("window_s is 0, and rows are compared with none".to_owned());
        }
        if settings.keys_max == 0 {
            return Err("keys_max is 0, and rows are compared with none".to_owned());
        }
        Ok(DedupeRule {
            number,
            table: table.to_lowercase(),
            window: seconds(settings.window_s),
            keys_max: settings.keys_max,
            counts: DedupeCounts::default(),
            dedupe,
            digests: Mutex::default(),
        })
    }

    /// The reason why duplicates can't be found by the key in a schema.
    fn check(&self, spec: &TableSpec) -> Result<(), String> {
        if spec.reference.is_some() {
            return Err("it is a reference table, whose rows have a key of their own and aren't captured".to_owned());
        }
        RowDigests::new(spec, &self.dedupe).map_err(|error| format!("its key of duplicates: {error}"))?;
        let Some(names) = &self.dedupe.columns else { return Ok(()) };
        let positions: Vec<usize> = names.iter().filter_map(|name| spec.position(name)).collect();
        for position in &positions {
            let column = &spec.columns[*position];
            if matches!(column.column_type, ColumnType::Float32 | ColumnType::Float64 | ColumnType::Levels { .. }) {
                return Err(format!(
                    "its key of duplicates has {:?}, which is {}: floats tell rows apart that are meant to be one; \
                     name numbers of messages, texts or times, or \"exact\"",
                    column.name, column.column_type
                ));
            }
        }
        let is_alone = |alone: usize| positions.iter().all(|position| *position == alone);
        let symbol = spec.symbol_position();
        if is_alone(spec.time_position()) {
            let and = if symbol.is_some() { "; name the symbol, too, for one row of a symbol at a time" } else { "" };
            return Err(format!("its key of duplicates is the time alone, which many rows share{and}"));
        }
        if symbol.is_some_and(is_alone) {
            return Err("its key of duplicates is the symbol alone, which all rows of a date share".to_owned());
        }
        Ok(())
    }

    /// The digest function for a schema.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the table lacks a column of the key.
    pub(crate) fn digests(&self, spec: &Arc<TableSpec>) -> Result<Arc<RowDigests>> {
        let mut cached = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, digests)) = cached.as_ref().filter(|(of, _)| Arc::ptr_eq(of, spec)) {
            return Ok(Arc::clone(digests));
        }
        self.check(spec).map_err(|reason| Error::rejected(&spec.name, reason))?;
        let digests = Arc::new(RowDigests::new(spec, &self.dedupe)?);
        *cached = Some((Arc::clone(spec), Arc::clone(&digests)));
        Ok(digests)
    }

    /// The earliest time that rows are compared with. A row ahead of the clock doesn't end the window of those that come on time.
    pub(crate) fn from(&self, latest: i64, clock: i64) -> i64 {
        latest.min(clock).saturating_sub(self.window)
    }

    pub(crate) fn status(&self) -> DedupeStatus {
        let counts = &self.counts;
        DedupeStatus {
            duplicate_rows: counts.duplicates.get(),
            uncompared_rows: counts.uncompared.get(),
            keys: counts.keys.get(),
            from: Some(counts.from.load(Ordering::Relaxed)).filter(|_| counts.keys.get() > 0),
            is_limited: counts.is_limited.load(Ordering::Relaxed),
        }
    }
}

fn refused(table: &str, reason: String) -> Error {
    Error::from(splay_store::Error::Setting { setting: "dedupe", reason: format!("table {table}: {reason}") })
}
