//! A block of whole records into record batches, in one pass over the bytes.
//!
//! - The block ends with a line feed and is followed by [`PADDING`] zero bytes, so that words may be read past its end.
//! - Line numbers count from the block's first line; whoever puts the blocks in order adds the lines before it.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;

use super::columns::{ColumnPlan, ColumnValues, ParsedColumn, date, shown};
use super::fields::{field, record_end};
use super::numbers::{float_at, integer_at};
use super::times;

/// Zero bytes after a block.
pub(crate) const PADDING: usize = 32;

/// Most rows of a batch.
pub(crate) const BATCH_ROWS_MAX: usize = 1 << 16;

/// About the most bytes of a batch.
const BATCH_BYTES: usize = 8 << 20;

/// What a field of the file becomes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldAction {
    Skip,
    Column(usize),
    /// A level of a column of levels.
    Level {
        column: usize,
        level: usize,
    },
    /// The row's date, for times of day; also a column when one is named.
    Date {
        patterns: Vec<String>,
        column: Option<usize>,
    },
}

/// How the records of one file become rows of the table.
#[derive(Debug, Clone)]
pub(crate) struct RecordLayout {
    pub delimiter: u8,
    /// One per field of the file.
    pub actions: Vec<FieldAction>,
    /// Names of the file's fields, for errors.
    pub names: Vec<String>,
    /// One per column of the table.
    pub plans: Vec<ColumnPlan>,
    /// Columns with one value for the whole file.
    pub fixed: Vec<(usize, String)>,
    /// Columns the file doesn't have.
    pub absent: Vec<usize>,
    /// The date of times of day, when it comes from the file's name.
    pub day: Option<i32>,
    /// Groups of columns that are null together when all are zero.
    pub zero_groups: Vec<Vec<usize>>,
    /// Beginning of the last line.
    pub trailer: Option<Vec<u8>>,
    pub schema: SchemaRef,
}

/// A row that couldn't be read.
#[derive(Debug, Clone)]
pub(crate) struct MalformedRow {
    /// Line within the block, from 0.
    pub line: u64,
    pub column: String,
    pub reason: String,
    pub text: Vec<u8>,
}

/// What came of a block.
#[derive(Debug, Default)]
pub(crate) struct ParsedBlock {
    pub batches: Vec<RecordBatch>,
    pub rows: u64,
    /// Line feeds in the block.
    pub lines: u64,
    pub faults: Vec<MalformedRow>,
    /// The trailer line, when the block holds it.
    pub trailer: Option<Vec<u8>>,
    /// A record stood after the trailer.
    pub beyond_trailer: bool,
}

/// Why a row isn't one: the field (when one is to blame) and the reason.
pub(crate) type RowFault = (Option<usize>, String);

pub(crate) struct BlockBuilder<'a> {
    pub(crate) layout: &'a RecordLayout,
    pub(crate) columns: Vec<ParsedColumn<'a>>,
    /// Times of day that wait for the row's date.
    pub(crate) waiting: Vec<(usize, usize, i64)>,
    pub(crate) rows: usize,
    capacity: usize,
    batches: Vec<RecordBatch>,
    /// For rows of JSON: which fields the row has.
    pub(crate) present: Vec<bool>,
    pub(crate) day: Option<i32>,
}

/// Most rows of a batch of this layout.
pub(crate) fn rows_max(layout: &RecordLayout) -> usize {
    (BATCH_BYTES / (8 * layout.plans.len().max(1))).clamp(1, BATCH_ROWS_MAX)
}

/// Parses a block of `len` bytes plus padding. With `stop`, at the first malformed row.
///
/// # Errors
/// The reason, when the columns don't make a batch.
pub(crate) fn parse(layout: &RecordLayout, bytes: &[u8], len: usize, stop: bool) -> Result<ParsedBlock, String> {
    let mut parsed = ParsedBlock::default();
    let first = memchr::memchr(b'\n', &bytes[..len]).unwrap_or(len) + 1;
    let rows_max = rows_max(layout);
    let capacity = (len / first + len / first / 8 + 1).min(rows_max);
    let mut builder = BlockBuilder::new(layout, capacity);
    let mut at = 0;
    while at < len {
        match bytes[at] {
            b'\n' => {
                at += 1;
                parsed.lines += 1;
                continue;
            }
            b'\r' if bytes[at + 1] == b'\n' => {
                at += 2;
                parsed.lines += 1;
                continue;
            }
            _ => {}
        }
        if let Some(prefix) = &layout.trailer {
            if bytes[at..len].starts_with(prefix) {
                let end = at + memchr::memchr(b'\n', &bytes[at..len]).unwrap_or(len - at);
                parsed.trailer = Some(bytes[at..end].trim_ascii_end().to_vec());
                at = end + 1;
                parsed.lines += 1;
                continue;
            }
            parsed.beyond_trailer |= parsed.trailer.is_some();
        }
        match builder.row(bytes, at) {
            Ok((next, newlines)) => {
                at = next;
                parsed.rows += 1;
                parsed.lines += 1 + newlines;
                if builder.rows >= rows_max {
                    builder.flush()?;
                }
            }
            Err((field, reason)) => {
                builder.roll_back();
                let end = record_end(&bytes[..len], at, layout.delimiter)
                    .or_else(|| memchr::memchr(b'\n', &bytes[at..len]).map(|n| at + n))
                    .unwrap_or(len);
                let column = field.and_then(|f| layout.names.get(f)).cloned().unwrap_or_default();
                let text = bytes[at..end].trim_ascii_end().to_vec();
                parsed.faults.push(MalformedRow { line: parsed.lines, column, reason, text });
                if stop {
                    break;
                }
                parsed.lines += memchr::memchr_iter(b'\n', &bytes[at..end]).count() as u64 + 1;
                at = end + 1;
            }
        }
    }
    builder.flush()?;
    parsed.batches = builder.batches;
    Ok(parsed)
}

impl<'a> BlockBuilder<'a> {
    pub(crate) fn new(layout: &'a RecordLayout, capacity: usize) -> BlockBuilder<'a> {
        let columns = layout.plans.iter().map(|plan| ParsedColumn::new(plan, capacity)).collect();
        let present = vec![false; layout.actions.len()];
        BlockBuilder {
            layout,
            columns,
            waiting: Vec::new(),
            rows: 0,
            capacity,
            batches: Vec::new(),
            present,
            day: None,
        }
    }

    /// What was made so far.
    pub(crate) fn take_batches(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.batches)
    }

    /// Parses the record at `at`; gives the position after it and the line feeds inside it.
    fn row(&mut self, bytes: &[u8], at: usize) -> Result<(usize, u64), RowFault> {
        let layout = self.layout;
        let delimiter = layout.delimiter;
        let last = layout.actions.len() - 1;
        let (start, mut at) = (at, at);
        let mut newlines = 0;
        let mut day = layout.day;
        for (index, action) in layout.actions.iter().enumerate() {
            let mut end = match action {
                FieldAction::Column(column) => {
                    let target = &mut self.columns[*column];
                    match fast(target, bytes, at, delimiter) {
                        Some(end) => end,
                        None => self.slow(bytes, at, index, *column, day, &mut newlines)?,
                    }
                }
                FieldAction::Level { column, level } => {
                    let parsed = field(bytes, at, delimiter).map_err(|e| (Some(index), e.to_owned()))?;
                    let pushed = self.columns[*column].push_level(self.rows, *level, &parsed.text, parsed.quoted);
                    pushed.map_err(|e| (Some(index), e))?;
                    newlines += parsed.newlines;
                    parsed.end
                }
                FieldAction::Skip => {
                    let field = field(bytes, at, delimiter).map_err(|e| (Some(index), e.to_owned()))?;
                    newlines += field.newlines;
                    field.end
                }
                FieldAction::Date { patterns, column } => {
                    let parsed = field(bytes, at, delimiter).map_err(|e| (Some(index), e.to_owned()))?;
                    let value = date(parsed.text.trim_ascii(), patterns)
                        .ok_or_else(|| (Some(index), format!("{} is not a date", shown(&parsed.text))))?;
                    day = Some(value);
                    if let Some(column) = column {
                        self.columns[*column].push(&parsed.text, parsed.quoted, day).map_err(|e| (Some(index), e))?;
                    }
                    newlines += parsed.newlines;
                    parsed.end
                }
            };
            let mut byte = bytes.get(end).copied().unwrap_or(b'\n');
            if byte == delimiter && index != last {
                at = end + 1;
                continue;
            }
            if byte == b'\r' && delimiter != b'\r' {
                end += 1;
                byte = b'\n';
            }
            if (byte == delimiter) == (index == last) {
                return Err((None, miscount(bytes, start, delimiter, layout.actions.len())));
            }
            at = end + 1;
        }
        self.complete(day)?;
        Ok((at, newlines))
    }

    /// Ends a row: times of day get its date.
    pub(crate) fn complete(&mut self, day: Option<i32>) -> Result<(), RowFault> {
        while let Some((index, column, nanos)) = self.waiting.pop() {
            let local = day.and_then(|day| times::local(day, nanos));
            let local = local
                .ok_or_else(|| (Some(index), "a time of day needs a date, which the row doesn't have".to_owned()))?;
            self.columns[column].push_local(local).map_err(|e| (Some(index), e))?;
        }
        self.rows += 1;
        Ok(())
    }

    #[inline(never)]
    fn slow(
        &mut self,
        bytes: &[u8],
        at: usize,
        index: usize,
        column: usize,
        day: Option<i32>,
        newlines: &mut u64,
    ) -> Result<usize, RowFault> {
        let field = field(bytes, at, self.layout.delimiter).map_err(|e| (Some(index), e.to_owned()))?;
        *newlines += field.newlines;
        self.push(index, column, &field.text, field.quoted, day)?;
        Ok(field.end)
    }

    /// Appends a field to a column; a time of day waits where the row's date comes later.
    pub(crate) fn push(
        &mut self,
        index: usize,
        column: usize,
        text: &[u8],
        quoted: bool,
        day: Option<i32>,
    ) -> Result<(), RowFault> {
        let target = &mut self.columns[column];
        if day.is_none() && target.plan.needs_date() && !target.is_null(text, quoted) {
            let text = text.trim_ascii();
            let nanos = times::time_of_day(text, &target.plan.spelling)
                .ok_or_else(|| (Some(index), format!("{} is not a time of day", shown(text))))?;
            self.waiting.push((index, column, nanos));
            return Ok(());
        }
        target.push(text, quoted, day).map_err(|e| (Some(index), e))
    }

    pub(crate) fn roll_back(&mut self) {
        self.waiting.clear();
        let rows = self.rows;
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
    }

    pub(crate) fn flush(&mut self) -> Result<(), String> {
        if self.rows == 0 {
            return Ok(());
        }
        let (layout, rows) = (self.layout, self.rows);
        for (column, value) in &layout.fixed {
            let target = &mut self.columns[*column];
            target.push(value.as_bytes(), false, layout.day).map_err(|e| format!("{}: {e}", target.plan.name))?;
            target.fill(rows);
        }
        for group in &layout.zero_groups {
            for row in 0..rows {
                if group.iter().all(|&c| self.columns[c].is_zero(row)) {
                    group.iter().for_each(|&c| self.columns[c].set_null(row));
                }
            }
        }
        let fresh = layout.plans.iter().map(|plan| ParsedColumn::new(plan, self.capacity)).collect();
        let columns = std::mem::replace(&mut self.columns, fresh);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (index, column) in columns.into_iter().enumerate() {
            if layout.absent.contains(&index) {
                arrays.push(new_null_array(layout.schema.field(index).data_type(), rows));
            } else {
                arrays.push(column.finish().map_err(|e| e.to_string())?);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(SchemaRef::clone(&layout.schema), arrays, &options);
        self.batches.push(batch.map_err(|e| e.to_string())?);
        self.rows = 0;
        Ok(())
    }
}

/// Reads a number without looking at the field as text. `None` when that isn't possible.
#[inline(always)]
fn fast(column: &mut ParsedColumn<'_>, bytes: &[u8], at: usize, delimiter: u8) -> Option<usize> {
    if !column.fast {
        return None;
    }
    match &mut column.values {
        ColumnValues::Float(values) => {
            let (value, end) = float_at(bytes, at, column.shift)?;
            if !is_end(bytes, end, delimiter) || value.abs() > column.null_above {
                return None;
            }
            values.push(value);
            Some(end)
        }
        ColumnValues::Int(_) => {
            let (value, end) = integer_at(bytes, at)?;
            if !is_end(bytes, end, delimiter) || !column.fits(value) {
                return None;
            }
            column.push_nanos(value);
            Some(end)
        }
        _ => None,
    }
}

#[inline(always)]
fn is_end(bytes: &[u8], end: usize, delimiter: u8) -> bool {
    match bytes.get(end) {
        Some(&byte) => byte == delimiter || byte == b'\n' || (byte == b'\r' && bytes.get(end + 1) == Some(&b'\n')),
        None => true,
    }
}

#[cold]
fn miscount(bytes: &[u8], start: usize, delimiter: u8, expected: usize) -> String {
    match super::fields::record(bytes, start, delimiter) {
        Ok((fields, _)) => format!("expected {expected} fields, found {}", fields.len()),
        Err(reason) => reason.to_owned(),
    }
}
