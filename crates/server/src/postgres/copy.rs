//! `COPY … FROM STDIN` and `COPY … TO STDOUT`.
//!
//! Rows from a client are buffered until the end, decoded, and captured as one statement's rows, all or none. So
//! their size is limited like a statement's. The transfer may take long: the rights at its end count.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use bytes::BytesMut;
use splay_sql::statements::quoted;
use splay_sql::{AnswerMemory, CopyStream, StatementStats, StreamFormat, StreamKind};
use splay_store::Privilege;

use super::cells::Cells;
use super::connection::{Connection, End};
use super::copy_rows::{self, SIGNATURE};
use super::encode::{AnswerPiece, COLUMNS_MAX, set_length, too_many_columns};
use super::messages::ClientMessage;
use super::refusal::Refusal;
use super::statement::StatementResult;
use crate::audit::Action;
use crate::counted_bytes::CountedBuffer;
use crate::ingest::Ingest;
use crate::problem::{Code, Outcome, Problem};
use crate::statements::{Encode, Statements};

impl Connection {
    /// Carries a `COPY` out.
    pub(super) async fn copy(&mut self, copy: CopyStream, alone: bool) -> StatementResult<()> {
        match copy {
            CopyStream::Out { table: None, query, format } => self.copy_out(&query, format).await,
            CopyStream::Out { table: Some(table), query, format } => {
                // The columns that it is filled with, without the date that follows from the time; a view has those of its query.
                let name = table.clone();
                let fields = match self.statements().await {
                    Ok(statements) => statements,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let fields = fields
                    .with_session(move |session, _| session.columns_to_copy(&name, None, Privilege::Select))
                    .await;
                let query = fields.map_or(query, |fields| select(&table, &fields));
                self.copy_out(&query, format).await
            }
            CopyStream::In { .. } if !alone => Ok(Err(super::statement::not_alone())),
            CopyStream::In { table, columns, format } => self.copy_in((table, columns), format).await,
        }
    }

    async fn copy_out(&mut self, query: &str, format: StreamFormat) -> StatementResult<()> {
        let is_binary = format.kind == StreamKind::Binary;
        let encode = CopiedRows { format, buffer: CountedBuffer::default(), has_begun: false };
        let sent =
            self.send_answer(query, encode, |replies, schema| replies.copy(b'H', is_binary, schema.fields().len()));
        Ok(sent.await?.map(|count| {
            self.replies.plain(b'c');
            self.replies.complete(&format!("COPY {count}"));
        }))
    }

    async fn copy_in(&mut self, target: (String, Option<Vec<String>>), format: StreamFormat) -> StatementResult<()> {
        let (_, statements) = match self.ingest_and_statements().await {
            Ok(ingest_and_statements) => ingest_and_statements,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (table, columns) = target.clone();
        let fields = statements
            .with_session(move |session, _| session.columns_to_copy(&table, columns.as_deref(), Privilege::Insert))
            .await;
        let fields = match fields {
            Ok(fields) => fields,
            Err(problem) => return Ok(Err(problem.into())),
        };
        self.replies.copy(b'G', format.kind == StreamKind::Binary, fields.len());
        self.flush().await?;
        let received = match self.receive().await? {
            Ok(received) => received,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Users and rights may have been changed while the rows came.
        let (ingest, statements) = match self.ingest_and_statements().await {
            Ok(ingest_and_statements) => ingest_and_statements,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let text = format!("COPY {} FROM STDIN", target.0);
        let mut begun = match statements.begin(Action::change("change", &target.0, &text)).await {
            Ok(begun) => begun,
            Err(problem) => return Ok(Err(problem.into())),
        };
        let inserted = Arc::new(crate::changes::IntoJournal::new(ingest, statements.allowance()));
        let inserting = Arc::clone(&inserted);
        let copied = statements.with_session(move |session, stop| {
            let (table, columns) = target;
            let wrong = |reason| splay_sql::Error::Execution { message: format!("COPY {table}, {reason}") };
            let mut rows = copy_rows::rows(&received, &fields, &format).map(|rows| rows.map_err(wrong));
            session.copy_rows((&table, columns.as_deref()), &mut rows, stop, inserting.as_ref())
        });
        let copied = copied.await.map_err(|problem| inserted.refusal().unwrap_or(problem));
        if let Err(problem) = &copied {
            begun.note(problem);
        }
        let outcome = copied.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok");
        begun.end(outcome, copied.as_ref().ok().copied());
        Ok(match copied {
            Ok(rows) => {
                self.replies.complete(&format!("COPY {rows}"));
                self.front.shared.metrics.request("postgres", "ok");
                Ok(())
            }
            Err(problem) => {
                self.front.shared.metrics.request("postgres", problem.code.as_str());
                Err(problem.into())
            }
        })
    }

    /// The sink of rows, and statements with the rights that the client has now.
    async fn ingest_and_statements(&mut self) -> Result<(Arc<dyn Ingest>, Statements), Refusal> {
        let ingest = self.ingest()?;
        Ok((ingest, self.statements().await?))
    }

    /// Receives the data of a `COPY` up to its end.
    async fn receive(&mut self) -> StatementResult<BytesMut> {
        let mut received = BytesMut::new();
        let bytes_max = self.front.shared.limits.message_bytes_max;
        loop {
            match self.next_message().await? {
                (_, Ok(ClientMessage::CopyData(bytes))) if received.len() + bytes.len() > bytes_max => {
                    let text =
                        format!("a COPY takes at most {bytes_max} bytes, all rows or none: send them in several");
                    return Ok(Err(Refusal::new("54000", text)));
                }
                (_, Ok(ClientMessage::CopyData(bytes))) => received.extend_from_slice(&bytes),
                (_, Ok(ClientMessage::CopyDone)) => return Ok(Ok(received)),
                (_, Ok(ClientMessage::CopyFail(reason))) => {
                    return Ok(Err(Refusal::new("57014", format!("COPY from stdin failed: {reason}"))));
                }
                (_, Ok(ClientMessage::Flush | ClientMessage::Sync)) => {}
                (_, Ok(ClientMessage::Terminate)) => return Err(End::Gone),
                (kind, Ok(_)) => {
                    let text = format!("a message of kind {:?} during COPY from stdin", char::from(kind));
                    return Err(End::Refused(Refusal::fatal("08P01", text)));
                }
                (_, Err(refusal)) if refusal.is_fatal => return Err(End::Refused(refusal)),
                (_, Err(refusal)) => return Ok(Err(refusal)),
            }
        }
    }
}

/// The query of some columns of a table.
fn select(table: &str, fields: &[Field]) -> String {
    let columns: Vec<String> = fields.iter().map(|field| quoted(field.name())).collect();
    format!("SELECT {} FROM {}", columns.join(", "), quoted(table))
}

/// Writes the rows of an answer as `COPY` sends them.
struct CopiedRows {
    format: StreamFormat,
    buffer: CountedBuffer,
    /// Whether the first message is written, in which binary rows have their head, as PostgreSQL sends it: drivers look for a row there.
    has_begun: bool,
}

impl CopiedRows {
    /// A message of `COPY` whose body `write` writes.
    fn message(&mut self, write: impl FnOnce(&mut CountedBuffer, &StreamFormat) -> std::io::Result<()>) -> Outcome<()> {
        let start = self.buffer.bytes_mut().len();
        let begins = format_begins(&self.format, &mut self.has_begun);
        let (buffer, format) = (&mut self.buffer, &self.format);
        let written = buffer
            .write_all(b"d\0\0\0\0")
            .and_then(|()| if begins { write_head(buffer) } else { Ok(()) })
            .and_then(|()| write(buffer, format))
            .and_then(|()| set_length(buffer, start + 1, 0));
        written.map_err(|error| self.buffer.problem(|| Problem::new(Code::Execution, error.to_string())))
    }

    fn piece(&mut self, rows: u64) -> Vec<AnswerPiece> {
        let bytes = self.buffer.take();
        if bytes.is_empty() { Vec::new() } else { vec![AnswerPiece::Rows { bytes, rows }] }
    }
}

impl Encode for CopiedRows {
    type Piece = AnswerPiece;

    fn piece_bytes(&self) -> u64 {
        128 << 10
    }

    fn start(&mut self, schema: &SchemaRef, memory: &AnswerMemory) -> Outcome<Vec<AnswerPiece>> {
        if schema.fields().len() > COLUMNS_MAX {
            return Err(too_many_columns());
        }
        self.buffer.within(memory);
        if self.format.kind != StreamKind::Binary && self.format.has_header {
            self.message(|buffer, format| write_header(buffer, format, schema))?;
        }
        let mut pieces = vec![AnswerPiece::Columns(Arc::clone(schema))];
        pieces.extend(self.piece(0));
        Ok(pieces)
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<AnswerPiece>> {
        let columns: Vec<Cells> = batch.columns().iter().map(Cells::of).collect::<Outcome<_>>()?;
        for row in 0..batch.num_rows() {
            self.message(|buffer, format| match format.kind {
                StreamKind::Binary => write_binary(buffer, &columns, row),
                _ => write_text(buffer, format, &columns, row),
            })?;
        }
        Ok(self.piece(batch.num_rows() as u64))
    }

    fn end(&mut self, _: &StatementStats) -> Outcome<Vec<AnswerPiece>> {
        if self.format.kind == StreamKind::Binary {
            self.message(|buffer, _| buffer.write_all(&[0xff; 2]))?;
        }
        Ok(self.piece(0))
    }
}

/// Whether what comes next is the begin of binary rows.
fn format_begins(format: &StreamFormat, has_begun: &mut bool) -> bool {
    !std::mem::replace(has_begun, true) && format.kind == StreamKind::Binary
}

/// Writes the head of binary rows: no flags, and no extension.
fn write_head(buffer: &mut CountedBuffer) -> std::io::Result<()> {
    buffer.write_all(SIGNATURE)?;
    buffer.write_all(&[0; 8])
}

fn write_binary(buffer: &mut CountedBuffer, columns: &[Cells], row: usize) -> std::io::Result<()> {
    buffer.write_all(&u16::try_from(columns.len()).unwrap_or(u16::MAX).to_be_bytes())?;
    for cells in columns {
        if cells.is_null(row) {
            buffer.write_all(&[0xff; 4])?;
            continue;
        }
        let value = buffer.bytes_mut().len();
        buffer.write_all(&[0; 4])?;
        cells.write_binary(buffer, row)?;
        set_length(buffer, value, 4)?;
    }
    Ok(())
}

fn write_text(buffer: &mut CountedBuffer, format: &StreamFormat, columns: &[Cells], row: usize) -> std::io::Result<()> {
    let last = columns.len().saturating_sub(1);
    for (at, cells) in columns.iter().enumerate() {
        if cells.is_null(row) {
            buffer.write_all(format.null.as_bytes())?;
        } else {
            let start = buffer.bytes_mut().len();
            cells.write_text(buffer, row)?;
            protect(buffer, format, start)?;
        }
        if at < last {
            buffer.write_all(&[format.delimiter])?;
        }
    }
    buffer.write_all(b"\n")
}

/// The line of the columns' names.
fn write_header(buffer: &mut CountedBuffer, format: &StreamFormat, schema: &Schema) -> std::io::Result<()> {
    for (at, field) in schema.fields().iter().enumerate() {
        if at > 0 {
            buffer.write_all(&[format.delimiter])?;
        }
        let start = buffer.bytes_mut().len();
        buffer.write_all(field.name().as_bytes())?;
        protect(buffer, format, start)?;
    }
    buffer.write_all(b"\n")
}

/// Writes what stands from a place on anew if something in it would be read in another way.
fn protect(buffer: &mut CountedBuffer, format: &StreamFormat, start: usize) -> std::io::Result<()> {
    let value = &buffer.bytes_mut()[start..];
    let protected = match format.kind {
        StreamKind::Csv => copy_rows::in_quotes(value, format),
        _ => copy_rows::with_backslashes(value, format.delimiter),
    };
    let Some(protected) = protected else { return Ok(()) };
    buffer.truncate(start);
    buffer.write_all(&protected)
}
