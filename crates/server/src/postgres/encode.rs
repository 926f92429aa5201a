//! Rows of an answer as messages, text or binary by column.
//!
//! A column is first converted to one of a few types ([`cells`]), a piece of rows at a time; then rows are written
//! value by value, and the lengths of rows and values are filled in afterwards. Bytes count against the statement's
//! memory until they are sent.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use bytes::Bytes;
use splay_sql::{AnswerMemory, StatementChange, StatementStats};

use super::cells::Cells;
use super::replies::format;
use super::types;
use crate::counted_bytes::CountedBuffer;
use crate::problem::{Code, Outcome, Problem};
use crate::statements::Encode;

/// A part of an answer.
#[derive(Debug)]
pub(super) enum AnswerPiece {
    /// Comes first.
    Columns(SchemaRef),
    /// Messages of so many rows.
    Rows { bytes: Bytes, rows: u64 },
    /// The change of a statement, the number of rows that it changed, and the views that it dropped by `CASCADE`.
    Changed { what: String, rows: u64, dropped: Option<String> },
}

/// Columns of an answer: messages count them in 16 bits.
pub(super) const COLUMNS_MAX: usize = u16::MAX as usize;

pub(super) fn too_many_columns() -> Problem {
    Problem::new(Code::TooLarge, format!("an answer has at most {COLUMNS_MAX} columns over this protocol"))
}

/// Writes the answer of a statement that reads.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The formats of the columns, from the `Bind` message.
    formats: Vec<i16>,
    /// The column types that a `Describe` has announced before the statement runs.
    described_types: Option<Vec<u32>>,
    schema: Option<SchemaRef>,
    buffer: CountedBuffer,
}

impl Rows {
    pub(super) fn new(formats: Vec<i16>, described_types: Option<Vec<u32>>) -> Rows {
        Rows { formats, described_types, ..Rows::default() }
    }

    /// Whether the answer has the columns that were announced to the client.
    fn check_columns(&self, schema: &Schema) -> Outcome<()> {
        let count = schema.fields().len();
        if self.formats.len() > 1 && self.formats.len() != count {
            let text = format!("{} formats for {count} columns", self.formats.len());
            return Err(Problem::new(Code::Request, text));
        }
        if count > COLUMNS_MAX {
            return Err(too_many_columns());
        }
        let columns = types::columns(schema);
        let Some(described) = &self.described_types else { return Ok(()) };
        // A column that was described as text, such as a placeholder without a type, is sent as text whatever its type.
        let fits = |(at, described): (usize, &u32)| {
            columns.get(at).is_some_and(|column| {
                column.data_type.oid == *described || (*described == types::TEXT && format(&self.formats, at) == 0)
            })
        };
        if described.len() == columns.len() && described.iter().enumerate().all(fits) {
            return Ok(());
        }
        Err(Problem::new(
            Code::Unsupported,
            "the answer has other types than were described: give placeholders a type, as in $1::bigint, or prepare the statement anew",
        ))
    }
}

impl Encode for Rows {
    type Piece = AnswerPiece;

    fn piece_bytes(&self) -> u64 {
        // Text is several times as long.
        128 << 10
    }

    fn check(&self, schema: &SchemaRef) -> Outcome<()> {
        self.check_columns(schema)
    }

    fn change_result(&mut self, change: StatementChange) -> Vec<AnswerPiece> {
        vec![AnswerPiece::Changed { what: change.statement.to_owned(), rows: change.rows, dropped: None }]
    }

    fn start(&mut self, schema: &SchemaRef, memory: &AnswerMemory) -> Outcome<Vec<AnswerPiece>> {
        self.check_columns(schema)?;
        self.buffer.within(memory);
        self.schema = Some(Arc::clone(schema));
        Ok(vec![AnswerPiece::Columns(Arc::clone(schema))])
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<AnswerPiece>> {
        let columns = batch.columns().iter().enumerate();
        let columns: Vec<(Cells, bool)> = columns
            .map(|(at, column)| Ok((Cells::of(column)?, format(&self.formats, at) == 1)))
            .collect::<Outcome<_>>()?;
        for row in 0..batch.num_rows() {
            if let Err(error) = write_row(&mut self.buffer, &columns, row) {
                return Err(self.buffer.problem(|| Problem::new(Code::Execution, error.to_string())));
            }
        }
        Ok(vec![AnswerPiece::Rows { bytes: self.buffer.take(), rows: batch.num_rows() as u64 }])
    }

    fn end(&mut self, _: &StatementStats) -> Outcome<Vec<AnswerPiece>> {
        Ok(Vec::new())
    }
}

fn write_row(buffer: &mut CountedBuffer, columns: &[(Cells, bool)], row: usize) -> std::io::Result<()> {
    let start = buffer.bytes_mut().len();
    buffer.write_all(b"D\0\0\0\0")?;
    buffer.write_all(&u16::try_from(columns.len()).unwrap_or(u16::MAX).to_be_bytes())?;
    for (cells, is_binary) in columns {
        if cells.is_null(row) {
            buffer.write_all(&[0xff; 4])?;
            continue;
        }
        let value = buffer.bytes_mut().len();
        buffer.write_all(&[0; 4])?;
        match is_binary {
            true => cells.write_binary(buffer, row)?,
            false => cells.write_text(buffer, row)?,
        }
        set_length(buffer, value, 4)?;
    }
    set_length(buffer, start + 1, 0)
}

/// Puts the length of what was written since `at` there, without so many bytes of its own.
pub(super) fn set_length(buffer: &mut CountedBuffer, at: usize, own: usize) -> std::io::Result<()> {
    let bytes = buffer.bytes_mut();
    let length =
        i32::try_from(bytes.len() - at - own).map_err(|_| std::io::Error::other("a row has more than 2 GiB"))?;
    bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Takes from a piece its first rows, and leaves the others.
pub(super) fn split_rows(bytes: &mut Bytes, count: u64) -> Bytes {
    let mut end = 0;
    for _ in 0..count {
        let Some(length) = bytes.get(end + 1..end + 5) else { break };
        end += 1 + usize::try_from(u32::from_be_bytes(length.try_into().unwrap_or_default())).unwrap_or(0);
    }
    bytes.split_to(end.min(bytes.len()))
}

/// Reads the answer of a statement that changes something.
#[derive(Debug, Default)]
pub(super) struct ChangeEncoder;

impl Encode for ChangeEncoder {
    type Piece = AnswerPiece;

    fn start(&mut self, _: &SchemaRef, _: &AnswerMemory) -> Outcome<Vec<AnswerPiece>> {
        Ok(Vec::new())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<AnswerPiece>> {
        let other = || Problem::new(Code::Internal, "a change has told nothing of itself");
        let (what, rows) = (batch.column_by_name("statement"), batch.column_by_name("rows"));
        let what = what.and_then(|column| column.as_string_opt::<i32>()).ok_or_else(other)?;
        let rows = rows.and_then(|column| column.as_primitive_opt::<UInt64Type>()).ok_or_else(other)?;
        let dropped = batch.column_by_name("dropped").and_then(|column| column.as_string_opt::<i32>());
        let dropped_of =
            |row: usize| dropped.filter(|names| names.is_valid(row)).map(|names| names.value(row).to_owned());
        let of_row = |row: usize| AnswerPiece::Changed {
            what: what.value(row).to_owned(),
            rows: rows.value(row),
            dropped: dropped_of(row),
        };
        Ok((0..what.len().min(rows.len())).map(of_row).collect())
    }

    fn end(&mut self, _: &StatementStats) -> Outcome<Vec<AnswerPiece>> {
        Ok(Vec::new())
    }
}
