//! Rows over HTTP: Arrow streams at `/api/v1/write`, line protocol at InfluxDB's paths.

use std::sync::Arc;

use arrow::compute::concat_batches;
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use splay_capture::TableOptions;
use splay_capture::line::{LineSettings, Precision};
use splay_store::{Counted, DayStart, TableSpec};

use super::{HttpState, Server, read_body, text};
use crate::appends::{self, Appends};
use crate::blocking::on_thread;
use crate::ingest::{Ack, AckClass, Append, Ingest, IngestError, Producer};
use crate::ipc;
use crate::lines::LineStream;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;

fn in_url<T: DeserializeOwned>(query: Option<&str>) -> Outcome<T> {
    let wrong = |what: &dyn std::fmt::Display| Problem::new(Code::Request, format!("the parameters: {what}"));
    let uri = Uri::try_from(format!("/?{}", query.unwrap_or_default())).map_err(|error| wrong(&error))?;
    let Query(parameters) = Query::try_from_uri(&uri).map_err(|error| wrong(&error))?;
    Ok(parameters)
}

pub(super) fn parse_parameter<T: std::str::FromStr<Err = String>>(text: Option<&str>) -> Outcome<Option<T>> {
    text.map(|text| text.parse().map_err(|error: String| Problem::new(Code::Request, error))).transpose()
}

/// Parameters of `/api/v1/write`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) table: String,
    pub(super) ack: Option<String>,
    pub(super) producer: Option<String>,
    pub(super) sequence: Option<u64>,
    pub(super) previous: Option<u64>,
    time: Option<String>,
    symbol: Option<String>,
    time_zone: Option<String>,
    day_start: Option<DayStart>,
    types: Option<String>,
    create: Option<bool>,
    pub(super) format: Option<String>,
    pub(super) columns: Option<String>,
    pub(super) unit: Option<String>,
    pub(super) line: Option<u64>,
}

impl Target {
    fn producer(&self) -> Outcome<Option<Producer>> {
        let producer = producer_of(self.producer.clone(), self.sequence)?;
        following(producer, self.previous)
    }

    fn wishes(&self) -> Outcome<TableOptions> {
        Ok(TableOptions {
            time: self.time.clone(),
            symbol: self.symbol.clone(),
            time_zone: self.time_zone.clone(),
            day_start: self.day_start,
            types: self.types.as_deref().map_or_else(|| Ok(Vec::new()), text::types)?,
        })
    }

    /// The definition of the table; if there is no such table, the one that `make` returns. Blocks.
    pub(super) fn table(
        &self,
        ingest: &dyn Ingest,
        make: impl FnOnce(&TableOptions) -> Result<TableSpec, IngestError>,
    ) -> Outcome<(TableSpec, TableOptions)> {
        splay_store::validate_name("table", &self.table)?;
        let table_options = self.wishes()?;
        let spec = match ingest.spec(&self.table)? {
            Some(spec) => {
                table_options.check(&spec)?;
                spec
            }
            None if self.create == Some(false) => {
                return Err(Problem::from(IngestError::NoSuchTable { table: self.table.clone() }));
            }
            None => make(&table_options)?,
        };
        Ok((spec, table_options))
    }
}

/// `POST /api/v1/write?table=T&ack=disk&producer=NAME&sequence=N`: an Arrow IPC stream, all of it or nothing, or lines of text.
pub(super) async fn rows(
    State(server): Server,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Outcome<Response> {
    let written = write_rows(&server, query.as_deref(), &headers, body).await;
    server.metrics.request("http_write", written.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok"));
    Ok(Json(written?).into_response())
}

async fn write_rows(
    server: &HttpState,
    query: Option<&str>,
    headers: &HeaderMap,
    body: Body,
) -> Outcome<serde_json::Value> {
    let caller = server.caller(headers, Role::Write).await?;
    let appends = server.appends(&caller)?.by("http");
    let target: Target = in_url(query)?;
    // Before its bytes are taken.
    caller.check_rows(&target.table, true).map_err(Problem::from)?;
    match text::format(&target, headers)? {
        Some(format) => text::write(server, &appends, target, format, read_body(server, headers, body).await?).await,
        None => write_arrow(server, &appends, target, read_body(server, headers, body).await?).await,
    }
}

async fn write_arrow(
    server: &HttpState,
    appends: &Appends,
    target: Target,
    bytes: Bytes,
) -> Outcome<serde_json::Value> {
    let (producer, ack) = (target.producer()?, parse_parameter(target.ack.as_deref())?);
    text::refuse(&target)?;
    splay_store::validate_name("table", &target.table)?;
    let bytes_max = server.limits.message_bytes_max;
    let is_text =
        !bytes.is_empty() && bytes.iter().take(64).all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let awaited = appends.submit_rows(move |ingest| {
        let (schema, batches) = ipc::decode(bytes, bytes_max).map_err(|problem| not_arrow(problem, is_text))?;
        let rows = concat_batches(&schema, &batches).map_err(|error| Problem::new(Code::Request, error.to_string()))?;
        let (spec, _) = target.table(ingest, |table_options| table_options.table_for(&target.table, &rows))?;
        Ok(vec![Append { spec: Some(spec), producer, ack, ..Append::new(target.table, rows) }])
    });
    Ok(appends::json(&awaited.await?.ack().await?))
}

/// What is wrong with an Arrow stream, and the way for a body that is text.
fn not_arrow(problem: Problem, is_text: bool) -> Problem {
    match problem.code {
        Code::Request if is_text => Problem::new(
            Code::Request,
            format!("{}; it is text: give format=csv, format=ndjson, or its Content-Type", problem.message),
        ),
        _ => problem,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProducerTarget {
    producer: String,
}

/// `GET /api/v1/write?producer=NAME`: where a producer goes on.
pub(super) async fn producer(
    State(server): Server,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome<Json<serde_json::Value>> {
    let caller = server.caller(&headers, Role::Write).await?;
    caller.check_writer()?;
    let target: ProducerTarget = in_url(query.as_deref())?;
    let (ingest, name) = (Arc::clone(server.appends(&caller)?.ingest()), target.producer.clone());
    let last = on_thread(move || ingest.last_of(&name)).await??;
    Ok(Json(json!({ "producer": target.producer, "sequence": last })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AbandonedNumber {
    producer: String,
    sequence: u64,
}

/// `DELETE /api/v1/write?producer=NAME&sequence=N`: messages up to that number that found no room won't come again.
pub(super) async fn give_up(
    State(server): Server,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome<Json<serde_json::Value>> {
    let caller = server.caller(&headers, Role::Write).await?;
    caller.check_writer()?;
    let number: AbandonedNumber = in_url(query.as_deref())?;
    let was_missing = server.appends(&caller)?.ingest().give_up(&number.producer, number.sequence);
    Ok(Json(json!({ "producer": number.producer, "sequence": number.sequence, "was_missing": was_missing })))
}

/// Parameters of InfluxDB's two paths. Buckets, organisations and databases are taken and not looked at: tables are named by
/// the lines.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LineTarget {
    precision: Option<String>,
    ack: Option<String>,
    producer: Option<String>,
    sequence: Option<u64>,
}

impl LineTarget {
    /// The producer and the message's number, from the URL or from headers. Headers are for senders whose client makes the URL.
    fn producer(&self, headers: &HeaderMap) -> Outcome<Option<Producer>> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default().to_owned());
        let wrong = |_| Problem::new(Code::Request, "splay-sequence is no whole number");
        let sequence = match self.sequence {
            Some(sequence) => Some(sequence),
            None => text("splay-sequence").map(|text| text.parse().map_err(wrong)).transpose()?,
        };
        producer_of(self.producer.clone().or_else(|| text("splay-producer")), sequence)
    }
}

/// The same message, and the number that it follows on.
pub(super) fn following(producer: Option<Producer>, previous: Option<u64>) -> Outcome<Option<Producer>> {
    match (producer, previous) {
        (Some(producer), previous) => Ok(Some(Producer { previous, ..producer })),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            Err(Problem::new(Code::Request, "a message that follows on another has a producer and a sequence"))
        }
    }
}

/// A producer and its number, both or none of them.
fn producer_of(name: Option<String>, sequence: Option<u64>) -> Outcome<Option<Producer>> {
    match (name, sequence) {
        (Some(name), Some(sequence)) => Ok(Some(Producer::new(name, sequence))),
        (None, None) => Ok(None),
        _ => Err(Problem::new(Code::Request, "producer and sequence belong together")),
    }
}

/// `POST /api/v2/write?precision=ns`, as InfluxDB 2 and its clients have it.
pub(super) async fn lines_v2(
    State(server): Server,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    lines(&server, query.as_deref(), &headers, body).await
}

/// `POST /write?db=D&precision=n`, as InfluxDB 1 and its clients have it.
pub(super) async fn lines_v1(
    State(server): Server,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    lines(&server, query.as_deref(), &headers, body).await
}

async fn lines(server: &HttpState, query: Option<&str>, headers: &HeaderMap, body: Body) -> Response {
    let written = write_lines(server, query, headers, body).await;
    server.metrics.request("influx", written.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok"));
    match written {
        Ok(ack) => no_content(ack.as_ref()),
        Err(problem) => refusal_response(&problem),
    }
}

/// No body, as InfluxDB answers. What became of the rows is in headers.
fn no_content(ack: Option<&Ack>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let of = |ack: &Ack| [ack.sequence, ack.rows, ack.quarantined, ack.duplicate_rows, u64::from(ack.duplicate)];
    let counts = ack.map_or([0; 5], of);
    let names = ["splay-sequence", "splay-rows", "splay-quarantined", "splay-duplicate-rows", "splay-duplicate"];
    for (name, number) in names.into_iter().zip(counts) {
        response.headers_mut().insert(name, HeaderValue::from(number));
    }
    response
}

/// A problem as InfluxDB's clients of both versions read it, with ours beside.
fn refusal_response(problem: &Problem) -> Response {
    let code = match problem.code {
        Code::Request | Code::Rejected => "invalid",
        Code::Unauthorized => "unauthorized",
        Code::Forbidden | Code::ReadOnly => "forbidden",
        Code::NotFound => "not found",
        Code::TooLarge => "request too large",
        Code::Busy | Code::Full | Code::Closed | Code::Provider | Code::Unconfirmed => "unavailable",
        _ => "internal error",
    };
    let retryable = problem.code.is_retryable();
    let body = json!({ "code": code, "message": problem.message, "error": problem.message, "retryable": retryable });
    let mut response = (problem.code.status(), Json(body)).into_response();
    if retryable {
        response.headers_mut().insert("retry-after", HeaderValue::from(problem.retry_seconds()));
    }
    // Header values are a line of visible characters.
    let line: String = problem.message.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).take(500).collect();
    if let Ok(value) = HeaderValue::from_str(&line) {
        response.headers_mut().insert("x-influxdb-error", value);
    }
    response
}

/// Stores the good lines of a body, all of them or none.
async fn write_lines(server: &HttpState, query: Option<&str>, headers: &HeaderMap, body: Body) -> Outcome<Option<Ack>> {
    let caller = server.caller(headers, Role::Write).await?;
    let appends = server.appends(&caller)?.by("influx");
    let target: LineTarget = in_url(query)?;
    let precision: Precision = parse_parameter(target.precision.as_deref())?.unwrap_or_default();
    let ack: Option<AckClass> = parse_parameter(target.ack.as_deref())?;
    let producer = target.producer(headers)?;
    let bytes = read_body(server, headers, body).await?;
    let settings = LineSettings { precision, ..server.limits.lines() };
    let mut lines = LineStream::new(Arc::clone(appends.ingest()), "influx", ack.unwrap_or_default(), settings);
    let bytes_max = server.limits.rows_bytes_max;
    let now = appends.ingest().row_time();
    let decoded = on_thread(move || lines.message(&bytes, now, bytes_max).map(|rows| (rows, lines)));
    let (mut rows, lines) = decoded.await?.inspect_err(|problem| appends.note(problem))?;
    let ack = match rows.last_mut() {
        Some(last) => {
            last.producer = producer;
            Some(appends.submit_rows(move |_| Ok(rows)).await?.ack().await?)
        }
        None => None,
    };
    match lines.refused() {
        (0, _) => Ok(ack),
        (refused, reasons) => {
            let text = format!("partial write: refused {}: {}", Counted(refused, "line"), reasons.join("; "));
            Err(Problem::new(Code::Request, text))
        }
    }
}

/// `GET /ping`, by which InfluxDB's clients check that a server answers.
pub(super) async fn ping() -> Response {
    let version = concat!("v1.8-splaydb-", env!("CARGO_PKG_VERSION"));
    let headers = [("x-influxdb-version", version), ("x-influxdb-build", "SplayDB")];
    (StatusCode::NO_CONTENT, headers).into_response()
}
