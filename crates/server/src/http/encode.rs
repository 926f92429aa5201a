//! Answers as JSON, lines of JSON, CSV and Arrow, a piece at a time.
//!
//! Symbols are text, times are `2026-01-02T14:30:00.123456789Z`, numbers that aren't finite are null in JSON.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::StructMode;
use arrow::json::writer::{JsonFormat, LineDelimited, Writer, WriterBuilder};
use axum::http::HeaderMap;
use axum::http::header;
use bytes::Bytes;
use serde_json::json;
use splay_sql::{AnswerMemory, StatementStats, nested_as_text, widest_row_bytes};
use splay_store::{ColumnType, csv_batch, write_csv_names, write_csv_rows};

use crate::counted_bytes::{self, CountedBuffer};
use crate::problem::{Code, Outcome, Problem};
use crate::statements::Encode;

/// Formats of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// `{"columns": [...], "rows": [[...], ...], "row_count": n, "milliseconds": t}`
    Json,
    /// One object for each row, one line each.
    Ndjson,
    /// With a header line.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

impl Format {
    /// By the parameter `format`, otherwise by the header `accept`, otherwise JSON.
    pub(super) fn of(parameter: Option<&str>, headers: &HeaderMap) -> Outcome<Format> {
        if let Some(name) = parameter {
            let unknown = || format!("{name:?} is not a format; there are json, ndjson, csv, arrow");
            return Format::of_name(name).ok_or_else(|| Problem::new(Code::Request, unknown()));
        }
        let Some(accept) = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()) else {
            return Ok(Format::Json);
        };
        let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        Ok(kinds.filter_map(Format::of_media_type).next().unwrap_or(Format::Json))
    }

    fn of_name(name: &str) -> Option<Format> {
        Some(match name {
            "json" => Format::Json,
            "ndjson" => Format::Ndjson,
            "csv" => Format::Csv,
            "arrow" => Format::Arrow,
            _ => return None,
        })
    }

    fn of_media_type(kind: &str) -> Option<Format> {
        Some(match kind {
            "application/json" => Format::Json,
            "application/x-ndjson" | "application/jsonl" => Format::Ndjson,
            "text/csv" => Format::Csv,
            "application/vnd.apache.arrow.stream" => Format::Arrow,
            _ => return None,
        })
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Ndjson => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8",
            Format::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    pub(super) fn encoder(self) -> Encoder {
        match self {
            Format::Json => Encoder::Json(json_writer(StructMode::ListOnly)),
            Format::Ndjson => Encoder::Ndjson(json_writer(StructMode::ObjectOnly)),
            Format::Csv => Encoder::Csv(CountedBuffer::default(), None),
            Format::Arrow => Encoder::Arrow { writer: None, memory: None },
        }
    }
}

/// Rows of JSON with commas between them.
#[derive(Debug, Default)]
pub(super) struct JsonWithCommas;

impl JsonFormat for JsonWithCommas {
    fn start_row<W: Write>(&self, writer: &mut W, is_first_row: bool) -> Result<(), ArrowError> {
        if !is_first_row {
            writer.write_all(b",")?;
        }
        Ok(())
    }
}

fn json_writer<F: JsonFormat>(mode: StructMode) -> Writer<CountedBuffer, F> {
    WriterBuilder::new().with_explicit_nulls(true).with_struct_mode(mode).build(CountedBuffer::default())
}

/// The state of an answer that is being written.
pub(super) enum Encoder {
    Json(Writer<CountedBuffer, JsonWithCommas>),
    Ndjson(Writer<CountedBuffer, LineDelimited>),
    /// With the statement's memory, once there are columns.
    Csv(CountedBuffer, Option<AnswerMemory>),
    Arrow {
        /// Begun with the columns.
        writer: Option<StreamWriter<CountedBuffer>>,
        memory: Option<AnswerMemory>,
    },
}

fn cant_write(error: ArrowError) -> Problem {
    Problem::new(Code::Unsupported, format!("the answer can't be written in this format: {error}"))
}

/// Names and types of an answer's columns.
pub(super) fn columns(schema: &Schema) -> serde_json::Value {
    let columns = schema
        .fields()
        .iter()
        .map(|field| json!({ "name": field.name(), "type": ColumnType::name_of(field.data_type()) }));
    columns.collect()
}

impl Encode for Encoder {
    type Piece = Bytes;

    fn piece_bytes(&self) -> u64 {
        match self {
            Encoder::Arrow { .. } => 1 << 20,
            // Text is several times as long.
            _ => 128 << 10,
        }
    }

    fn start(&mut self, schema: &SchemaRef, memory: &AnswerMemory) -> Outcome<Vec<Bytes>> {
        let bytes = match self {
            Encoder::Json(writer) => {
                writer.get_mut().within(memory);
                format!("{{\"columns\":{},\"rows\":[", columns(schema)).into()
            }
            Encoder::Ndjson(writer) => {
                writer.get_mut().within(memory);
                Bytes::new()
            }
            Encoder::Csv(buffer, of_rows) => {
                buffer.within(memory);
                let of_rows = of_rows.insert(memory.clone());
                csv(buffer, &RecordBatch::new_empty(SchemaRef::clone(schema)), of_rows, true)?
            }
            Encoder::Arrow { writer, memory: of_rows } => {
                let mut buffer = CountedBuffer::default();
                buffer.within(memory);
                *of_rows = Some(memory.clone());
                let mut made = StreamWriter::try_new(buffer, schema).map_err(cant_write)?;
                let bytes = made.get_mut().take();
                *writer = Some(made);
                bytes
            }
        };
        Ok(vec![bytes])
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<Bytes>> {
        let bytes = match self {
            Encoder::Json(writer) => {
                let written = writer.write(batch);
                encoded_part(writer.get_mut(), written)?
            }
            Encoder::Ndjson(writer) => {
                let written = writer.write(batch);
                encoded_part(writer.get_mut(), written)?
            }
            Encoder::Csv(buffer, Some(memory)) => csv(buffer, batch, memory, false)?,
            Encoder::Arrow { writer: Some(writer), memory: Some(memory) } => {
                // The message is made as a whole, and then written.
                let _message = counted_bytes::part(memory, widest_row_bytes(batch) * batch.num_rows() as u64)?;
                let written = writer.write(batch);
                encoded_part(writer.get_mut(), written)?
            }
            Encoder::Csv(_, None) | Encoder::Arrow { .. } => {
                return Err(Problem::new(Code::Internal, "rows before columns"));
            }
        };
        Ok(vec![bytes])
    }

    fn end(&mut self, stats: &StatementStats) -> Outcome<Vec<Bytes>> {
        let bytes = match self {
            Encoder::Json(_) => {
                let milliseconds = (stats.planning + stats.execution).as_secs_f64() * 1e3;
                format!("],\"row_count\":{},\"milliseconds\":{milliseconds:.3}}}\n", stats.rows_returned).into()
            }
            Encoder::Arrow { writer: Some(writer), .. } => {
                let written = writer.finish();
                encoded_part(writer.get_mut(), written)?
            }
            _ => Bytes::new(),
        };
        Ok(vec![bytes])
    }
}

/// The bytes that were written into a buffer, or the reason why they weren't.
fn encoded_part(buffer: &mut CountedBuffer, written: Result<(), ArrowError>) -> Outcome<Bytes> {
    match written {
        Ok(()) => Ok(buffer.take()),
        Err(error) => Err(buffer.problem(|| cant_write(error))),
    }
}

fn csv(buffer: &mut CountedBuffer, batch: &RecordBatch, memory: &AnswerMemory, header: bool) -> Outcome<Bytes> {
    let (text, mut refused) = (memory.part(), None);
    let batch = csv_batch(batch).map_err(cant_write)?;
    let rows = nested_as_text(&batch, &mut |bytes| {
        text.resize(bytes).map_err(|error| {
            let arrow_error = ArrowError::MemoryError(error.to_string());
            refused = Some(error);
            arrow_error
        })
    });
    let rows = rows.map_err(|error| refused.map_or_else(|| cant_write(error), Problem::from))?;
    let names = if header { write_csv_names(&rows.schema(), buffer) } else { Ok(()) };
    let written = names.and_then(|()| write_csv_rows(&rows, buffer));
    encoded_part(buffer, written)
}
