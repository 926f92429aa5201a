//! The rows of one table in a batch.
//!
//! - A row is begun, gets its values one by one, and is then committed or rolled back. A row that is rolled back leaves
//!   nothing, not even a new column.
//! - Lines of a feed usually name the same columns in the same order. So each name is first compared with the names
//!   that earlier lines had at the same position.
//! - Names that differ only in case are one column, as in the store.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use super::batch::BatchBudget;
use super::column::{LineColumn, ValueFault, times, width_of};
use super::error::{Reason, ScanResult, ScanStop, excerpt, expected, refused};
use super::names::column_fault;
use super::scan::{LineText, Name};
use super::value::LineValue;

/// Bytes of a row's time.
pub(super) const TIME_BYTES: usize = 8;

/// Place of the time column among a row's columns.
const TIME: usize = usize::MAX;

/// The rows of one table that came since the last [`take`](super::LineDecoder::take).
#[derive(Debug, Clone)]
pub struct LineRows {
    /// The table's name as the store knows it.
    pub table: String,
    /// The rows in the order of their lines: the time column, without nulls, then each column that has a value, in the
    /// order in which they first came. Tags are dictionaries of text, arrays lists of a fixed number of floats.
    pub rows: RecordBatch,
    /// How to create the table. Of a table that exists: the table as it is, with the columns that it lacks at the end.
    pub spec: TableSpec,
    /// Lines, which are as many as rows.
    pub lines: u64,
    /// Bytes that the rows take in all columns of their table, nulls counted as values and texts left out.
    pub stored_bytes: usize,
}

/// How many places a name is looked for.
const LOOK_AHEAD: usize = 4;

/// A name in the order of the lines before, with its equals sign.
#[derive(Debug)]
struct FieldPosition {
    raw: Vec<u8>,
    column: usize,
}

#[derive(Debug)]
pub(super) struct LineTable {
    pub name: String,
    /// The table as it exists.
    pub existing_spec: Option<TableSpec>,
    time_column: String,
    columns: Vec<LineColumn>,
    by_name: HashMap<String, usize>,
    /// Columns that the table as it exists lacks.
    added: usize,
    places: Vec<FieldPosition>,
    times: Vec<i64>,
    /// Bytes of a row in the columns that have a value in this batch.
    pub row_bytes: usize,
    /// Bytes of a row in all columns of the table.
    pub stored_row_bytes: usize,
    /// Columns before the row that is being set.
    columns_before: usize,
    /// Columns that have their first value of the batch in the row that is being set.
    begun: Vec<usize>,
    /// The row's time where a field gave it.
    field_time: Option<i64>,
    scratch: Vec<u8>,
}

impl LineTable {
    pub fn new(name: String, existing_spec: Option<TableSpec>, time_column: &str) -> LineTable {
        let time_column = existing_spec.as_ref().map_or(time_column, |spec| &spec.time).to_owned();
        let width = |spec: &TableSpec| spec.columns.iter().map(|column| width_of(&column.column_type)).sum();
        let stored_row_bytes = existing_spec.as_ref().map_or(TIME_BYTES, width);
        LineTable {
            name,
            existing_spec,
            time_column,
            columns: Vec::new(),
            by_name: HashMap::new(),
            added: 0,
            places: Vec::new(),
            times: Vec::new(),
            row_bytes: TIME_BYTES,
            stored_row_bytes,
            columns_before: 0,
            begun: Vec::new(),
            field_time: None,
            scratch: Vec::new(),
        }
    }

    pub fn rows(&self) -> usize {
        self.times.len()
    }

    pub fn begin(&mut self) {
        self.columns_before = self.columns.len();
        self.begun.clear();
        self.field_time = None;
    }

    /// The column that is named at `at`, the position behind the name, and the next place, if earlier lines had the
    /// name at this place or a few places later: optional fields, which a line may leave out, are skipped.
    #[inline(always)]
    pub fn guess(&self, text: &LineText<'_>, at: usize, place: usize) -> Option<(usize, usize, usize)> {
        let rest = text.bytes.get(at..)?;
        let places = self.places.get(place..)?;
        let (skipped, column_place) =
            places.iter().take(LOOK_AHEAD).enumerate().find(|(_, place)| rest.starts_with(&place.raw))?;
        Some((column_place.column, at + column_place.raw.len(), place + skipped + 1))
    }

    /// The column of a name. It is created if it doesn't exist; its place is remembered. `None` if it doesn't exist and
    /// the value is null, which creates no column.
    #[inline(never)]
    pub fn find(
        &mut self,
        name: Name<'_>,
        at: usize,
        place: usize,
        value: &LineValue<'_>,
        tag: bool,
        budget: &mut BatchBudget,
    ) -> ScanResult<Option<usize>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let plain = std::str::from_utf8(name.plain(false, &mut scratch)).map_err(|_| refused(Reason::NotUtf8, at))?;
        let lower = plain.to_ascii_lowercase();
        let column = if plain.eq_ignore_ascii_case(&self.time_column) {
            TIME
        } else if let Some(&column) = self.by_name.get(&lower) {
            column
        } else {
            if let Some(reason) = column_fault(plain) {
                let name = excerpt(plain.as_bytes());
                return Err(refused(Reason::Name { what: "column", name, reason }, at));
            }
            let Some(column) = self.new_column(plain, value, tag, at)? else { return Ok(None) };
            self.add(column, lower, at, budget)?
        };
        self.scratch = scratch;
        self.remember(name, column, place);
        Ok(Some(column))
    }

    /// Inserts a name into the list of places, which has the columns in the order of earlier lines. Senders that vary
    /// the order make the list long; it is then cleared.
    fn remember(&mut self, name: Name<'_>, column: usize, place: usize) {
        if self.places.len() > 2 * self.columns.len() + LOOK_AHEAD {
            self.places.clear();
        }
        let place = place.min(self.places.len());
        self.places.insert(place, FieldPosition { raw: [name.raw, b"="].concat(), column });
    }

    fn new_column(&self, name: &str, value: &LineValue<'_>, tag: bool, at: usize) -> ScanResult<Option<LineColumn>> {
        let spec = self.existing_spec.as_ref().and_then(|spec| Some(&spec.columns[spec.position(name)?]));
        if matches!(value, LineValue::Null) {
            return Ok(None);
        }
        let column = spec
            .and_then(|spec| LineColumn::of_type(spec.name.clone(), &spec.column_type))
            .or_else(|| LineColumn::for_value(spec.map_or(name, |spec| &spec.name).to_owned(), value, tag));
        match column {
            Some(column) => Ok(Some(column)),
            None => Err(expected("an array of 1 to 1,024 items", at)),
        }
    }

    /// Whether the table as it exists lacks a column.
    fn is_added(&self, name: &str) -> bool {
        self.existing_spec.as_ref().is_none_or(|spec| spec.position(name).is_none())
    }

    fn add(&mut self, column: LineColumn, lower: String, at: usize, budget: &mut BatchBudget) -> ScanResult<usize> {
        let added = self.is_added(&lower);
        // The time column counts as one.
        let columns = self.existing_spec.as_ref().map_or(1, |spec| spec.columns.len()) + self.added;
        if added && columns >= budget.columns_max {
            return Err(refused(Reason::TooManyColumns { columns_max: budget.columns_max }, at));
        }
        if added {
            let stored = self.rows() * column.width();
            if !budget.fits(0, stored) {
                return Err(ScanStop::Full);
            }
            self.added += 1;
            self.stored_row_bytes += column.width();
            budget.size.stored += stored;
        }
        self.by_name.insert(lower, self.columns.len());
        self.columns.push(column);
        Ok(self.columns.len() - 1)
    }

    /// Sets a column of the row. A column that has its value keeps it: the first wins, as in QuestDB, whose
    /// `LineWalAppender` passes over names that came before in the line.
    #[inline(always)]
    pub fn set(
        &mut self,
        column: usize,
        value: &LineValue<'_>,
        tag: bool,
        at: usize,
        budget: &mut BatchBudget,
    ) -> ScanResult<()> {
        let row = self.times.len();
        let place = column;
        let Some(column) = self.columns.get_mut(place) else { return self.set_time(value, at, budget) };
        if column.rows() > row || matches!(value, LineValue::Null) {
            return Ok(());
        }
        let width = column.width();
        if column.rows() == 0 {
            // Its nulls in the rows before it come with its first value.
            if !budget.fits(row * width, 0) {
                return Err(ScanStop::Full);
            }
            budget.size.columns += row * width;
            self.row_bytes += width;
            self.begun.push(place);
        }
        match column.set(row, value, tag, &mut self.scratch) {
            Ok(bytes) => {
                budget.size.columns += bytes;
                budget.size.values += bytes + width;
                Ok(())
            }
            Err(fault) => Err(fault_of(column, fault, at)),
        }
    }

    /// A field of the time column's name is the row's time, as in QuestDB (`LineWalAppender`).
    fn set_time(&mut self, value: &LineValue<'_>, at: usize, budget: &BatchBudget) -> ScanResult<()> {
        let time = match value {
            LineValue::Null => return Ok(()),
            _ if self.field_time.is_some() => return Ok(()),
            LineValue::Time(time) => Some(*time),
            LineValue::Int(value, _) => budget.precision.nanoseconds(*value),
            _ => {
                let column = self.time_column.clone();
                return Err(refused(Reason::Conflict { column, holds: "timestamps", value_kind: value.kind() }, at));
            }
        };
        let Some(time) = time else { return Err(refused(Reason::OutOfRange { text: String::new() }, at)) };
        self.field_time = Some(time);
        Ok(())
    }

    #[inline(always)]
    pub fn keep(&mut self, time: i64) {
        self.times.push(self.field_time.unwrap_or(time));
    }

    /// Takes back what was set of the row.
    #[cold]
    pub fn take_back(&mut self) {
        let rows = self.times.len();
        for place in std::mem::take(&mut self.begun) {
            let column = &mut self.columns[place];
            column.resize(0);
            self.row_bytes -= column.width();
        }
        for column in self.columns.split_off(self.columns_before) {
            if self.is_added(&column.name) {
                self.added -= 1;
                self.stored_row_bytes -= column.width();
            }
            self.by_name.remove(&column.name.to_ascii_lowercase());
        }
        let count = self.columns.len();
        if let Some(first) = self.places.iter().position(|place| place.column != TIME && place.column >= count) {
            self.places.truncate(first);
        }
        for column in self.columns.iter_mut().filter(|column| column.rows() > rows) {
            column.resize(rows);
        }
    }

    /// The rows, which the table then has no more.
    pub fn take(&mut self) -> Option<LineRows> {
        let rows = self.times.len();
        let symbol = self.symbol();
        let mut specs = vec![ColumnSpec::new(&self.time_column, ColumnType::Timestamp)];
        let mut fields = vec![Field::new(&self.time_column, ColumnType::Timestamp.arrow(), false)];
        let mut arrays: Vec<ArrayRef> = vec![times(std::mem::take(&mut self.times), None)];
        for column in self.columns.iter_mut().filter(|column| column.rows() > 0) {
            specs.push(ColumnSpec::new(&column.name, column.column_type()));
            let (field, array) = column.array(rows);
            fields.push(field);
            arrays.push(array);
        }
        let spec = match &self.existing_spec {
            Some(existing_spec) => {
                let mut spec = existing_spec.clone();
                spec.columns.extend(specs.into_iter().filter(|column| existing_spec.position(&column.name).is_none()));
                spec
            }
            None => TableSpec::new(&self.name, specs, &self.time_column, symbol.as_deref()),
        };
        // Columns are filled to the same length, so that there is no error; were there one, the rows would be lost, which
        // is a fault of this file and no sender's.
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        debug_assert!(batch.is_ok(), "{batch:?}");
        let lines = u64::try_from(rows).unwrap_or(u64::MAX);
        let stored_bytes = rows.saturating_mul(self.stored_row_bytes);
        self.row_bytes = TIME_BYTES;
        Some(LineRows { table: self.name.clone(), rows: batch.ok()?, spec, lines, stored_bytes })
    }

    /// The symbol column of a new table: the tag named `symbol` or `sym`, since InfluxDB's clients sort tags by name; the
    /// first tag otherwise.
    fn symbol(&self) -> Option<String> {
        let tags = || self.columns.iter().filter(|c| c.rows() > 0 && c.column_type() == ColumnType::Symbol);
        let named = tags().find(|c| ["symbol", "sym"].iter().any(|name| c.name.eq_ignore_ascii_case(name)));
        named.or_else(|| tags().next()).map(|column| column.name.clone())
    }
}

#[cold]
fn fault_of(column: &LineColumn, fault: ValueFault, at: usize) -> ScanStop {
    let reason = match fault {
        ValueFault::NotUtf8 => Reason::NotUtf8,
        ValueFault::Conflict(value_kind) => {
            Reason::Conflict { column: column.name.clone(), holds: column.kind(), value_kind }
        }
    };
    refused(reason, at)
}
