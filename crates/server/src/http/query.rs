//! `/query`: runs a statement and returns its answer.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use splay_sql::{Parameters, ScalarValue};

use super::encode::Format;
use super::{HttpState, Server, read_body};
use crate::callers::Caller;
use crate::ingest::Replication;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;
use crate::statements::or_broke_off;

/// The header that says how far a follower is behind.
const LAG: &str = "splay-lag-ms";

/// The request of a client, in whichever form it came.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct QueryRequest {
    #[serde(alias = "query")]
    sql: Option<String>,
    format: Option<String>,
    params: Option<Value>,
    /// The statement, as InfluxDB's clients name it.
    #[serde(skip)]
    influxql: Option<String>,
}

/// Parameters of a URL, where `params` is a text that holds JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct QueryInUrl {
    #[serde(alias = "sql")]
    query: Option<String>,
    format: Option<String>,
    params: Option<String>,
    q: Option<String>,
}

impl QueryInUrl {
    fn of(query: Option<&str>) -> Outcome<QueryInUrl> {
        let wrong = |what: &dyn std::fmt::Display| Problem::new(Code::Request, format!("the parameters: {what}"));
        let Some(query) = query else { return Ok(QueryInUrl::default()) };
        let uri = Uri::try_from(format!("/?{query}")).map_err(|error| wrong(&error))?;
        let Query(parameters) = Query::try_from_uri(&uri).map_err(|error| wrong(&error))?;
        Ok(parameters)
    }

    fn into_request(self) -> Outcome<QueryRequest> {
        let params = self.params.map(|text| {
            let wrong = |error| Problem::new(Code::Request, format!("params is not JSON: {error}"));
            serde_json::from_str(&text).map_err(wrong)
        });
        Ok(QueryRequest { sql: self.query, format: self.format, params: params.transpose()?, influxql: self.q })
    }
}

/// `GET /query?query=...&format=...&params=...`
pub(super) async fn get(State(server): Server, RawQuery(query): RawQuery, headers: HeaderMap) -> Outcome<Response> {
    let caller = server.caller(&headers, Role::Read).await?;
    let request = QueryInUrl::of(query.as_deref())?.into_request()?;
    match &request.influxql {
        Some(text) => influxql(text),
        // A statement that changes something must be posted, so that no link can run it.
        None => run(&server, &caller, request, &headers, false).await,
    }
}

/// `POST /query`: the statement as text, as a form, or as JSON with parameters.
pub(super) async fn post(
    State(server): Server,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Outcome<Response> {
    let mut request = QueryInUrl::of(query.as_deref())?.into_request()?;
    if let Some(text) = request.influxql.take() {
        server.caller(&headers, Role::Write).await?;
        return influxql(&text);
    }
    let caller = server.caller(&headers, Role::Read).await?;
    let body = read_body(&server, &headers, body).await?;
    // He may have been dropped while it came.
    let caller = server.callers.still(&caller)?;
    let in_form = in_body(&headers, &body)?;
    if let Some(text) = in_form.influxql {
        return influxql(&text);
    }
    request.sql = in_form.sql.or(request.sql);
    request.format = in_form.format.or(request.format);
    request.params = in_form.params.or(request.params);
    run(&server, &caller, request, &headers, true).await
}

fn in_body(headers: &HeaderMap, body: &Bytes) -> Outcome<QueryRequest> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") && !body.is_empty() {
        let wrong =
            |error| Problem::new(Code::Request, format!("the body is not {{\"sql\": ..., \"params\": ...}}: {error}"));
        return serde_json::from_slice(body).map_err(wrong);
    }
    let text = std::str::from_utf8(body).map_err(|_| Problem::new(Code::Request, "the statement is not UTF-8"))?;
    // `curl -d` calls any text a form; only what begins like one is one.
    let is_form = text.starts_with("query=") || text.starts_with("q=");
    if is_form && kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return QueryInUrl::of(Some(text))?.into_request();
    }
    Ok(QueryRequest { sql: (!text.is_empty()).then(|| text.to_owned()), ..QueryRequest::default() })
}

/// InfluxDB's clients create their database before they write. Here that is nothing to do: whatever they call it, rows go to this one.
fn influxql(text: &str) -> Outcome<Response> {
    let mut words = text.split_whitespace().map(str::to_ascii_lowercase);
    if (words.next().as_deref(), words.next().as_deref()) == (Some("create"), Some("database")) {
        return Ok(Json(json!({ "results": [{ "statement_id": 0 }] })).into_response());
    }
    Err(Problem::new(Code::Unsupported, "of InfluxQL only CREATE DATABASE is supported; send SQL as query="))
}

async fn run(
    server: &HttpState,
    caller: &Caller,
    request: QueryRequest,
    headers: &HeaderMap,
    is_posted: bool,
) -> Outcome<Response> {
    let format = Format::of(request.format.as_deref(), headers)?;
    let text =
        request.sql.ok_or_else(|| Problem::new(Code::Request, "no statement: it goes into query= or the body"))?;
    let text = text.trim().trim_end_matches(';').to_owned();
    let parameters = parameters(request.params)?;
    let ingest = match splay_sql::is_change(&text) {
        false => None,
        true if !is_posted => {
            return Err(Problem::new(Code::Request, "a statement that changes something is sent by POST"));
        }
        true => {
            caller.check(Role::Write)?;
            let appends = server.appends.as_ref();
            let ingest = appends.map(|appends| Arc::clone(appends.ingest()));
            Some(ingest.ok_or_else(|| Problem::new(Code::Unsupported, "this server only reads"))?)
        }
    };
    // Before the statement looks at a table: what the leader had so long ago is in the answer.
    let lag = lag(server);
    let statements = server.statements(caller).await?;
    let ran = statements.run_for("http", text, parameters, format.encoder(), ingest).await;
    let answered = match ran {
        Ok(mut pieces) => or_broke_off(pieces.next().await).map(|first| (first, pieces)),
        Err(problem) => Err(problem),
    };
    let (first, rest) = match answered {
        Ok(answered) => answered,
        Err(problem) => {
            server.metrics.request("http", problem.code.as_str());
            return Err(problem);
        }
    };
    server.metrics.request("http", "ok");
    let first = futures::stream::iter([Ok(first)]);
    // An error breaks the body off, so that the client sees that it is not whole.
    let pieces = first.chain(rest.into_stream()).map(|piece| piece.map_err(|problem| problem.message));
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.extend(lag.map(|lag| (HeaderName::from_static(LAG), lag)));
    Ok(response)
}

/// How far a follower is behind its leader, in milliseconds; none where nothing is followed.
fn lag(server: &HttpState) -> Option<HeaderValue> {
    let Some(Replication::Follower(follower)) = server.replication() else { return None };
    let lag = follower.lag_ns.map(|lag| HeaderValue::from(lag / 1_000_000));
    Some(lag.unwrap_or(HeaderValue::from_static("unknown")))
}

/// Values for placeholders: an array by position, an object by name.
fn parameters(values: Option<Value>) -> Outcome<Parameters> {
    match values {
        None | Some(Value::Null) => Ok(Parameters::None),
        Some(Value::Array(values)) => {
            Ok(Parameters::Positional(values.into_iter().map(scalar).collect::<Outcome<_>>()?))
        }
        Some(Value::Object(values)) => {
            let named = |(name, value): (String, Value)| Ok((name.trim_start_matches('$').to_owned(), scalar(value)?));
            Ok(Parameters::Named(values.into_iter().map(named).collect::<Outcome<HashMap<_, _>>>()?))
        }
        Some(_) => Err(Problem::new(Code::Request, "params is neither an array nor an object")),
    }
}

fn scalar(value: Value) -> Outcome<ScalarValue> {
    Ok(match value {
        Value::Null => ScalarValue::Null,
        Value::Bool(value) => ScalarValue::from(value),
        Value::String(text) => ScalarValue::from(text.as_str()),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), _, _) => ScalarValue::from(whole),
            (None, Some(whole), _) => ScalarValue::from(whole),
            (None, None, Some(number)) => ScalarValue::from(number),
            (None, None, None) => return Err(Problem::new(Code::Request, format!("{number} is out of range"))),
        },
        Value::Array(_) | Value::Object(_) => {
            return Err(Problem::new(Code::Request, "a parameter is a number, a text, true, false or null"));
        }
    })
}
