//! Rows as lines of text: comma-separated values, or one JSON object per line.
//!
//! - A line is one row, and is stored whole or refused with its number and the reason; other lines are stored.
//! - Columns and their types are those of a table. A value that its column can't hold is refused, not rounded.
//!
//! Described in docs/reference/http.md.

mod cell;
mod columns;
mod csv;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_sign_loss, reason = "tests")]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use serde_json::Value;
use splay_store::{ColumnSpec, TableSpec};

pub use cell::TimeUnit;
use cell::{TextCell, levels, of_text};
use columns::TextColumn;

/// Bytes of a refused line that an error keeps.
const SAMPLE_BYTES_MAX: usize = 120;

/// Refused lines that are named; the others are counted.
const ERRORS_MAX: usize = 10_000;

/// Values of one block, nulls included: lines times columns.
const CELLS_MAX: usize = 1 << 24;

/// What lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Comma-separated values.
    Csv,
    /// An object in each line.
    Ndjson,
}

impl std::str::FromStr for TextFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<TextFormat, String> {
        match text {
            "csv" => Ok(TextFormat::Csv),
            "ndjson" => Ok(TextFormat::Ndjson),
            _ => Err(format!("unknown format of lines {text:?}; there are csv, ndjson")),
        }
    }
}

/// How lines are read.
#[derive(Debug, Clone)]
pub struct TextSettings {
    /// Their format.
    pub format: TextFormat,
    /// Names of the fields of comma-separated values, in their order.
    pub columns: Vec<String>,
    /// What times are counted in that are written as numbers. Default nanoseconds.
    pub time_unit: TimeUnit,
    /// Bytes of a line; longer ones are refused. Default 64 KiB.
    pub line_bytes_max: usize,
}

impl TextSettings {
    /// Lines of a format, everything else by default.
    #[must_use]
    pub fn new(format: TextFormat) -> TextSettings {
        TextSettings { format, columns: Vec::new(), time_unit: TimeUnit::default(), line_bytes_max: 64 << 10 }
    }
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Its number.
    pub line: u64,
    /// The reason.
    pub reason: String,
    /// Its beginning.
    pub sample: Vec<u8>,
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// What a block of lines gave.
#[derive(Debug, Clone)]
pub struct TextRows {
    /// The rows, with the columns that occurred.
    pub rows: RecordBatch,
    /// Number of the last line.
    pub last_line: u64,
    /// Lines that were refused.
    pub refused: u64,
    /// The first of them.
    pub errors: Vec<TextError>,
}

/// Why no line of a block can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    /// A field has a name that the table doesn't have.
    #[error("table {table:?} has no column {column:?}; name its type to add it")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// A field has a name that another has, too.
    #[error("two fields have the name {column:?}")]
    Twice {
        /// The name.
        column: String,
    },
    /// Comma-separated values whose fields have no names.
    #[error("there is no header line with the names of the fields: {reason}")]
    NoHeader {
        /// What the body has instead.
        reason: String,
    },
    /// More lines than one block may have.
    #[error("{lines} lines of a table of {columns} columns are too many at once; send fewer")]
    TooMany {
        /// Lines.
        lines: usize,
        /// Columns of the table.
        columns: usize,
    },
    /// Columns that don't become rows; this is a fault of ours.
    #[error("the lines don't become rows: {0}")]
    Columns(String),
}

/// Reads lines for one table.
#[derive(Debug)]
pub struct TextDecoder {
    table: String,
    columns: Vec<ColumnSpec>,
    /// Places of columns by lower-case name.
    places: HashMap<String, usize>,
    /// Columns of the fields of comma-separated values.
    fields: Vec<usize>,
    time: usize,
    settings: TextSettings,
}

/// The names that a header line gives.
///
/// # Errors
/// [`TextFault::NoHeader`].
pub fn header(line: &[u8]) -> Result<Vec<String>, TextFault> {
    let wrong = |reason: &str| TextFault::NoHeader { reason: reason.to_owned() };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let line = std::str::from_utf8(line).map_err(|_| wrong("bytes that aren't UTF-8"))?;
    let fields = csv::fields(line).map_err(wrong)?;
    let names: Vec<String> = fields.into_iter().map(|field| field.text.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) { Err(wrong("a field without a name")) } else { Ok(names) }
}

impl TextDecoder {
    /// A reader of lines for a table; `more` are columns that it shall be given.
    ///
    /// # Errors
    /// [`TextFault`] for fields of comma-separated values that can't be columns.
    pub fn new(spec: &TableSpec, more: &[ColumnSpec], settings: TextSettings) -> Result<TextDecoder, TextFault> {
        let mut columns = spec.columns.clone();
        columns.extend(more.iter().filter(|column| spec.position(&column.name).is_none()).cloned());
        let places: HashMap<String, usize> =
            columns.iter().enumerate().map(|(place, column)| (column.name.to_ascii_lowercase(), place)).collect();
        let mut fields = Vec::with_capacity(settings.columns.len());
        for name in &settings.columns {
            let place = places.get(&name.to_ascii_lowercase()).copied();
            let place =
                place.ok_or_else(|| TextFault::NoSuchColumn { table: spec.name.clone(), column: name.clone() })?;
            if fields.contains(&place) {
                return Err(TextFault::Twice { column: name.clone() });
            }
            fields.push(place);
        }
        if settings.format == TextFormat::Csv && fields.is_empty() {
            return Err(TextFault::NoHeader { reason: "nothing".to_owned() });
        }
        Ok(TextDecoder { table: spec.name.clone(), time: spec.time_position(), columns, places, fields, settings })
    }

    /// Reads a block of whole lines, of which the first has a number. The last needs no line feed.
    ///
    /// # Errors
    /// [`TextFault::TooMany`]: nothing was read.
    pub fn decode(&self, block: &[u8], first_line: u64) -> Result<TextRows, TextFault> {
        let block = block.strip_suffix(b"\n").unwrap_or(block);
        let lines = if block.is_empty() { 0 } else { memchr::memchr_iter(b'\n', block).count() + 1 };
        if lines.saturating_mul(self.columns.len()) > CELLS_MAX {
            return Err(TextFault::TooMany { lines, columns: self.columns.len() });
        }
        let mut grown = GrowingRows::new(self);
        let (mut refused, mut errors) = (0, Vec::new());
        for (number, line) in (first_line..).zip(block.split(|byte| *byte == b'\n').take(lines)) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Err(reason) = self.line(line, &mut grown) {
                refused += 1;
                if errors.len() < ERRORS_MAX {
                    let sample = line[..line.len().min(SAMPLE_BYTES_MAX)].to_vec();
                    errors.push(TextError { line: number, reason, sample });
                }
            }
        }
        let rows = grown.finish().map_err(|error| TextFault::Columns(error.to_string()))?;
        Ok(TextRows { rows, last_line: first_line.saturating_add(lines as u64).saturating_sub(1), refused, errors })
    }

    fn line(&self, line: &[u8], grown: &mut GrowingRows<'_>) -> Result<(), String> {
        if line.len() > self.settings.line_bytes_max {
            return Err(format!("it is longer than {} bytes", self.settings.line_bytes_max));
        }
        let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
        let mut cells = match self.settings.format {
            TextFormat::Csv => self.csv(line)?,
            TextFormat::Ndjson => self.object(line)?,
        };
        cells.sort_unstable_by_key(|(place, _)| *place);
        if let Some(twice) = cells.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(TextFault::Twice { column: self.columns[twice[0].0].name.clone() }.to_string());
        }
        let has_time = cells.iter().any(|(place, cell)| *place == self.time && *cell != TextCell::Null);
        if !has_time {
            return Err(format!("it has no {}", self.columns[self.time].name));
        }
        grown.push(&cells);
        Ok(())
    }

    fn csv<'a>(&self, line: &'a str) -> Result<Vec<(usize, TextCell<'a>)>, String> {
        let fields = csv::fields(line)?;
        if fields.len() != self.fields.len() {
            return Err(format!("it has {} fields, not {}", fields.len(), self.fields.len()));
        }
        let cell = |(place, field): (&usize, csv::TextField<'a>)| -> Result<(usize, TextCell<'a>), String> {
            if field.text.is_empty() && !field.is_quoted {
                return Ok((*place, TextCell::Null));
            }
            Ok((*place, self.of_text(*place, field.text)?))
        };
        self.fields.iter().zip(fields).map(cell).collect()
    }

    fn object(&self, line: &str) -> Result<Vec<(usize, TextCell<'static>)>, String> {
        let object: serde_json::Map<String, Value> =
            serde_json::from_str(line).map_err(|error| format!("it is no object of JSON: {error}"))?;
        let mut cells = Vec::with_capacity(object.len());
        for (name, value) in object {
            let place = self.places.get(&name.to_ascii_lowercase()).copied();
            let place = place.ok_or_else(|| {
                let fault =
                    TextFault::NoSuchColumn { table: self.table.clone(), column: name.chars().take(128).collect() };
                fault.to_string()
            })?;
            cells.push((place, self.of_value(place, value)?));
        }
        Ok(cells)
    }

    fn of_text<'a>(&self, place: usize, text: Cow<'a, str>) -> Result<TextCell<'a>, String> {
        let column = &self.columns[place];
        of_text(text, &column.column_type, self.settings.time_unit)
            .map_err(|reason| format!("{}: {reason}", column.name))
    }

    fn of_value(&self, place: usize, value: Value) -> Result<TextCell<'static>, String> {
        let column = &self.columns[place];
        let isnt = |what: &str| format!("{}: {what} is no {}", column.name, column.column_type);
        match value {
            Value::Null => Ok(TextCell::Null),
            Value::String(text) => self.of_text(place, Cow::Owned(text)),
            // A number is passed on as it is written, so that each type parses it by its own rules.
            Value::Number(number) => self.of_text(place, Cow::Owned(number.to_string())),
            Value::Bool(value) if column.column_type == splay_store::ColumnType::Bool => Ok(TextCell::Bool(value)),
            Value::Bool(_) => Err(isnt("a boolean")),
            Value::Array(items) => match column.column_type {
                splay_store::ColumnType::Levels { size } => {
                    let item = |item: Value| match item {
                        Value::Null => Ok(None),
                        Value::Number(number) => Ok(number.as_f64()),
                        Value::String(text) => text.parse().map(Some).map_err(|_| isnt("an array of texts")),
                        _ => Err(isnt("an array of other than numbers")),
                    };
                    let items = items.into_iter().map(item).collect::<Result<_, _>>()?;
                    levels(items, size).map_err(|reason| format!("{}: {reason}", column.name))
                }
                _ => Err(isnt("an array")),
            },
            Value::Object(_) => Err(isnt("an object")),
        }
    }
}

/// Rows that grow.
struct GrowingRows<'a> {
    specs: &'a [ColumnSpec],
    time: usize,
    /// Columns that occurred, as long as the rows.
    columns: Vec<Option<TextColumn>>,
    rows: usize,
}

impl<'a> GrowingRows<'a> {
    fn new(decoder: &'a TextDecoder) -> GrowingRows<'a> {
        let columns = decoder.columns.iter().map(|_| None).collect();
        let mut grown = GrowingRows { specs: &decoder.columns, time: decoder.time, columns, rows: 0 };
        for place in decoder.fields.iter().chain([&decoder.time]) {
            grown.column(*place);
        }
        grown
    }

    /// A column; one that occurs for the first time is null in the rows before.
    fn column(&mut self, place: usize) -> &mut TextColumn {
        let (rows, column_type) = (self.rows, &self.specs[place].column_type);
        self.columns[place].get_or_insert_with(|| {
            let mut column = TextColumn::new(column_type);
            (0..rows).for_each(|_| column.push(&TextCell::Null));
            column
        })
    }

    /// Appends a row, whose cells are in the order of the columns.
    fn push(&mut self, cells: &[(usize, TextCell<'_>)]) {
        for (place, _) in cells {
            self.column(*place);
        }
        let mut cells = cells.iter().peekable();
        for (place, column) in self.columns.iter_mut().enumerate() {
            let Some(column) = column else { continue };
            match cells.next_if(|(of, _)| *of == place) {
                Some((_, cell)) => column.push(cell),
                None => column.push(&TextCell::Null),
            }
        }
        self.rows += 1;
    }

    fn finish(self) -> Result<RecordBatch, ArrowError> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (place, (column, spec)) in self.columns.into_iter().zip(self.specs).enumerate() {
            let Some(column) = column else { continue };
            fields.push(Field::new(&spec.name, spec.column_type.arrow(), place != self.time));
            arrays.push(column.finish(&spec.column_type)?);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}
