//! Answers as JSON, lines of JSON, CSV and Arrow, a piece at a time.
//!
//! Symbols are text, times are `2026-01-02T14:30:00.123456789Z`, what is not a finite number is null in JSON.

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
use splay_sql::StatementStats;
use splay_store::ColumnType;

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
            return Format::named(name).ok_or_else(|| Problem::new(Code::Request, unknown()));
        }
        let Some(accept) = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()) else {
            return Ok(Format::Json);
        };
        let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        Ok(kinds.filter_map(Format::accepted).next().unwrap_or(Format::Json))
    }

    fn named(name: &str) -> Option<Format> {
        Some(match name {
            "json" => Format::Json,
            "ndjson" => Format::Ndjson,
            "csv" => Format::Csv,
            "arrow" => Format::Arrow,
            _ => return None,
        })
    }

    fn accepted(kind: &str) -> Option<Format> {
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
            Format::Csv => Encoder::Csv { header: true },
            Format::Arrow => Encoder::Arrow(None),
        }
    }
}

/// Rows of JSON with commas between them.
#[derive(Debug, Default)]
pub(super) struct Commas;

impl JsonFormat for Commas {
    fn start_row<W: Write>(&self, writer: &mut W, is_first_row: bool) -> Result<(), ArrowError> {
        if !is_first_row {
            writer.write_all(b",")?;
        }
        Ok(())
    }
}

fn json_writer<F: JsonFormat>(mode: StructMode) -> Writer<Vec<u8>, F> {
    WriterBuilder::new().with_explicit_nulls(true).with_struct_mode(mode).build(Vec::new())
}

/// The state of an answer that is being written.
pub(super) enum Encoder {
    Json(Writer<Vec<u8>, Commas>),
    Ndjson(Writer<Vec<u8>, LineDelimited>),
    Csv {
        /// Whether the header line is still to be written.
        header: bool,
    },
    Arrow(Option<StreamWriter<Vec<u8>>>),
}

fn cant_write(error: ArrowError) -> Problem {
    Problem::new(Code::Unsupported, format!("the answer can't be written in this format: {error}"))
}

/// Names and types of an answer's columns.
pub(super) fn columns(schema: &Schema) -> serde_json::Value {
    let columns = schema.fields().iter().map(|field| {
        let kind = field.data_type();
        let kind = ColumnType::from_arrow(kind).map_or_else(|| kind.to_string(), |column_type| column_type.to_string());
        json!({ "name": field.name(), "type": kind })
    });
    columns.collect()
}

impl Encode for Encoder {
    type Piece = Bytes;

    fn start(&mut self, schema: &SchemaRef) -> Outcome<Vec<Bytes>> {
        let bytes = match self {
            Encoder::Json(_) => format!("{{\"columns\":{},\"rows\":[", columns(schema)).into_bytes(),
            Encoder::Ndjson(_) => Vec::new(),
            Encoder::Csv { .. } => csv(&RecordBatch::new_empty(SchemaRef::clone(schema)), true)?,
            Encoder::Arrow(writer) => {
                let mut made = StreamWriter::try_new(Vec::new(), schema).map_err(cant_write)?;
                let bytes = std::mem::take(made.get_mut());
                *writer = Some(made);
                bytes
            }
        };
        if let Encoder::Csv { header } = self {
            *header = false;
        }
        Ok(vec![bytes.into()])
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<Bytes>> {
        let bytes = match self {
            Encoder::Json(writer) => {
                writer.write(batch).map_err(cant_write)?;
                std::mem::take(writer.get_mut())
            }
            Encoder::Ndjson(writer) => {
                writer.write(batch).map_err(cant_write)?;
                std::mem::take(writer.get_mut())
            }
            Encoder::Csv { header } => csv(batch, *header)?,
            Encoder::Arrow(writer) => {
                let writer = writer.as_mut().ok_or_else(|| Problem::new(Code::Internal, "rows before columns"))?;
                writer.write(batch).map_err(cant_write)?;
                std::mem::take(writer.get_mut())
            }
        };
        Ok(vec![bytes.into()])
    }

    fn end(&mut self, stats: &StatementStats) -> Outcome<Vec<Bytes>> {
        let bytes = match self {
            Encoder::Json(_) => {
                let milliseconds = (stats.planning + stats.execution).as_secs_f64() * 1e3;
                format!("],\"row_count\":{},\"milliseconds\":{milliseconds:.3}}}\n", stats.rows_returned).into_bytes()
            }
            Encoder::Arrow(Some(writer)) => {
                writer.finish().map_err(cant_write)?;
                std::mem::take(writer.get_mut())
            }
            _ => Vec::new(),
        };
        Ok(vec![bytes.into()])
    }
}

fn csv(batch: &RecordBatch, header: bool) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    arrow::csv::WriterBuilder::new().with_header(header).build(&mut bytes).write(batch).map_err(cant_write)?;
    Ok(bytes)
}
