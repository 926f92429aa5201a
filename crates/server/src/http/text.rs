//! Rows as lines of text: comma-separated values, or an object of JSON in each line.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use serde_json::{Value, json};
use splay_capture::text::{
    TextDecoder, TextError, TextFault, TextFormat, TextRows, TextSettings, TimeUnit, header as names,
};
use splay_store::ColumnType;

use super::HttpState;
use super::write::{Target, following, parse_parameter};
use crate::appends::{self, Appends};
use crate::blocking::on_thread;
use crate::ingest::{Append, Ingest, Producer};
use crate::problem::{Code, Outcome, Problem};

/// Refused lines that an answer names.
const SHOWN_MAX: usize = 20;

/// The format of a body; none for Arrow.
pub(super) fn format(target: &Target, headers: &HeaderMap) -> Outcome<Option<TextFormat>> {
    if let Some(format) = &target.format {
        return if format == "arrow" { Ok(None) } else { parse_parameter(Some(format.as_str())) };
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    Ok(match kind.split(';').next().map(str::trim) {
        Some("text/csv") => Some(TextFormat::Csv),
        Some("application/x-ndjson") => Some(TextFormat::Ndjson),
        _ => None,
    })
}

/// Refuses what Arrow has no use for.
pub(super) fn refuse(target: &Target) -> Outcome<()> {
    match (&target.columns, &target.unit, target.line) {
        (None, None, None) => Ok(()),
        _ => Err(Problem::new(Code::Request, "columns, unit and line are for lines of text")),
    }
}

/// Columns with their types, as `time:timestamp,sym:symbol,price:decimal(18,4)`.
pub(super) fn types(text: &str) -> Outcome<Vec<(String, ColumnType)>> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    let wrong = |part: &str, why: String| Problem::new(Code::Request, format!("types: {part:?}: {why}"));
    let one = |part: &&str| {
        let (name, column_type) = part.rsplit_once(':').ok_or_else(|| wrong(part, "is not COLUMN:TYPE".to_owned()))?;
        Ok((name.trim().to_owned(), column_type.trim().parse().map_err(|why: String| wrong(part, why))?))
    };
    parts.iter().map(one).collect()
}

/// Stores the lines that can be read, all of them or none, and tells of the others.
pub(super) async fn write(
    server: &HttpState,
    appends: &Appends,
    target: Target,
    format: TextFormat,
    bytes: Bytes,
) -> Outcome<Value> {
    let ingest = Arc::clone(appends.ingest());
    let (target, spec, table_options) = on_thread(move || {
        let (spec, table_options) =
            target.table(ingest.as_ref(), |table_options| table_options.table(&target.table))?;
        Ok::<_, Problem>((target, spec, table_options))
    })
    .await??;
    let unit: TimeUnit = parse_parameter(target.unit.as_deref())?.unwrap_or_default();
    let (mut body, mut first_line) = (bytes, target.line.unwrap_or(1));
    let columns = match (format, &target.columns) {
        (TextFormat::Ndjson, _) => Vec::new(),
        (TextFormat::Csv, Some(columns)) => names(columns.as_bytes())?,
        (TextFormat::Csv, None) => {
            let end = body.iter().position(|byte| *byte == b'\n').unwrap_or(body.len());
            let line = body.split_to(end);
            body = body.slice(body.len().min(1)..);
            first_line += 1;
            names(&line)?
        }
    };
    let settings = TextSettings {
        columns,
        time_unit: unit,
        line_bytes_max: server.limits.line_bytes_max,
        ..TextSettings::new(format)
    };
    let decoder = TextDecoder::new(&spec, &table_options.more(&spec), settings)?;
    let decoded = on_thread(move || decoder.decode(&body, first_line)).await??;
    note(appends.ingest(), &target.table, &decoded);
    let TextRows { rows, last_line, refused, errors } = decoded;
    let producer = match (&target.producer, target.sequence) {
        (Some(name), sequence) => Some(Producer::new(name.clone(), sequence.unwrap_or(last_line))),
        (None, None) => None,
        (None, Some(_)) => return Err(Problem::new(Code::Request, "producer and sequence belong together")),
    };
    let producer = following(producer, target.previous)?;
    let mut report = if rows.num_rows() == 0 {
        json!({ "sequence": null, "class": null, "rows": 0, "duplicate": false, "quarantined": 0, "duplicate_rows": 0 })
    } else {
        let ack = parse_parameter(target.ack.as_deref())?;
        let append = Append { spec: Some(spec), producer, ack, ..Append::new(target.table.clone(), rows) };
        appends::json(&appends.append(append).await?)
    };
    let shown =
        errors.iter().take(SHOWN_MAX).map(|TextError { line, reason, .. }| json!({ "line": line, "reason": reason }));
    (report["last_line"], report["refused"], report["errors"]) = (json!(last_line), json!(refused), shown.collect());
    Ok(report)
}

/// Notes refused lines for the operator.
fn note(ingest: &Arc<dyn Ingest>, table: &str, decoded: &TextRows) {
    for error in &decoded.errors {
        ingest.reject("text", format!("table {table:?}: {error}"), &error.sample);
    }
    let more = decoded.refused - decoded.errors.len() as u64;
    if more > 0 {
        ingest.reject("text", format!("table {table:?}: {more} further lines of the same message"), b"");
    }
}

impl From<TextFault> for Problem {
    fn from(fault: TextFault) -> Problem {
        let code = match &fault {
            TextFault::NoSuchColumn { .. } => Code::Rejected,
            TextFault::TooMany { .. } => Code::TooLarge,
            TextFault::Columns(_) => Code::Internal,
            TextFault::Twice { .. } | TextFault::NoHeader { .. } => Code::Request,
        };
        Problem::new(code, fault.to_string())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_with_their_parameters() {
        let read = types("time:timestamp, p:decimal(18,4),a:b:levels(3)").unwrap();
        let names: Vec<&str> = read.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["time", "p", "a:b"]);
        assert_eq!(read[1].1, ColumnType::Decimal { precision: 18, scale: 4 });
        for wrong in ["", "time", "time:", "time:instant", "p:decimal(1,2", "a:int8,,b:int8"] {
            assert!(types(wrong).is_err(), "{wrong}");
        }
    }
}
