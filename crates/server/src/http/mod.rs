//! HTTP: statements, rows, tables, health, metrics, the web console; and, by WebSocket, subscriptions. Described in
//! docs/reference/http.md.

mod console;
mod encode;
#[cfg(test)]
mod fuzz;
mod oidc;
mod query;
mod replica;
mod status;
mod storage;
mod subscribe;
mod tables;
mod text;
mod write;

pub(crate) use replica::FOLLOWER_REQUESTS_MAX;
pub(crate) use subscribe::kind;

use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use crate::appends::Appends;
use crate::audit::Auditor;
use crate::auth::protocol_token;
use crate::blocking::on_thread;
use crate::callers::{Caller, Callers, TableReader};
use crate::guarded::{ExcessRule, GuardedIngest};
use crate::ingest::Replication;
use crate::metrics::Metrics;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::{AuditLevel, Limits, Role};
use crate::statements::Statements;
use crate::subscription_requests::SubscriptionRequest;
use crate::subscriptions::Subscriptions;

/// The header that says which sites may embed an answer.
const RESOURCE_POLICY: &str = "cross-origin-resource-policy";

/// How long the rest of a body that is too large is waited for.
const DROP_TIME: Duration = Duration::from_secs(1);

/// The state that requests share.
#[derive(Debug)]
pub(crate) struct HttpState {
    pub(crate) statements: Statements,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) appends: Option<Appends>,
    pub(crate) callers: Callers,
    pub(crate) auditor: Auditor,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    /// Requests of followers at a time.
    pub(crate) followers: Arc<Semaphore>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl HttpState {
    /// The sink of a caller's rows, if this server takes rows. It refuses those beyond his quota.
    pub(crate) fn appends(&self, caller: &Caller) -> Outcome<Appends> {
        self.guard_appends(caller, ExcessRule::Refused)
    }

    /// The same for a stream of rows, which is taken more slowly instead: ask for [`Appends::pace`] before each of its batches.
    pub(crate) fn paced_appends(&self, caller: &Caller) -> Outcome<Appends> {
        self.guard_appends(caller, ExcessRule::Paced)
    }

    fn guard_appends(&self, caller: &Caller, excess: ExcessRule) -> Outcome<Appends> {
        let none = || Problem::new(Code::Unsupported, "this server takes no rows");
        let appends = self.appends.as_ref().ok_or_else(none)?;
        let guarded = GuardedIngest::new(Arc::clone(appends.ingest()), self.callers.clone(), caller.clone(), excess);
        Ok(appends.with_ingest(Arc::new(guarded)))
    }

    /// The caller of a request with these headers, if he has `role`.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Forbidden`], [`Code::Corrupt`].
    pub(crate) async fn caller(&self, headers: &HeaderMap, role: Role) -> Outcome<Caller> {
        let value = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
        match oidc::session_of(&self.callers, headers).filter(|_| value.is_none()) {
            Some(session) => self.callers.of_session(session, role),
            None => self.callers.of(value, role).await,
        }
    }

    /// The same for an upgrade to a WebSocket, where the token may be a subprotocol: web pages can give it no other header.
    pub(crate) async fn caller_of_upgrade(&self, headers: &HeaderMap, role: Role) -> Outcome<Caller> {
        match protocol_token(headers).filter(|_| !headers.contains_key(header::AUTHORIZATION)) {
            Some(token) => self.callers.of(Some(&format!("Bearer {token}")), role).await,
            None => self.caller(headers, role).await,
        }
    }

    /// The statements of a caller.
    pub(crate) async fn statements(&self, caller: &Caller) -> Outcome<Statements> {
        let session = self.callers.session(caller, self.statements.session()).await?;
        Ok(self.statements.in_session(session).by(caller))
    }

    /// The database's role among its copies, if it has any.
    fn replication(&self) -> Option<Replication> {
        self.appends.as_ref().and_then(|appends| appends.ingest().replication())
    }

    /// Somebody who follows tables.
    pub(crate) fn follower(&self, caller: Caller, ask: &SubscriptionRequest) -> TableReader {
        TableReader::new(&self.callers, caller, ask)
    }
}

/// The state as handlers get it.
type Server = State<Arc<HttpState>>;

/// A method, a path, and what answers it.
type Route = (MethodFilter, &'static str, MethodRouter<Arc<HttpState>>);

/// All paths, each with one method.
fn routes() -> Vec<Route> {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    vec![
        route(GET, "/", console::page),
        route(GET, "/assets/{name}", console::asset),
        route(GET, "/licences.txt", console::licences),
        route(GET, "/auth", oidc::state),
        route(GET, "/auth/oidc", oidc::begin),
        route(GET, "/auth/oidc/callback", oidc::callback),
        route(POST, "/auth/sign-out", oidc::end),
        route(GET, "/query", query::get),
        route(POST, "/query", query::post),
        route(GET, "/tables", tables::list),
        route(GET, "/tables/{table}", tables::one),
        route(GET, "/tables/{table}/storage", storage::storage),
        route(GET, "/status", status::status),
        route(GET, "/subscribe", subscribe::subscribe),
        route(POST, "/api/v1/write", write::rows),
        route(GET, "/api/v1/write", write::producer),
        route(MethodFilter::DELETE, "/api/v1/write", write::give_up),
        route(POST, "/api/v2/write", write::lines_v2),
        route(POST, "/write", write::lines_v1),
        route(GET, "/ping", write::ping),
        route(MethodFilter::HEAD, "/ping", write::ping),
        route(POST, "/replica/state", replica::state),
        route(POST, "/replica/journal", replica::journal),
        route(POST, "/replica/file", replica::file),
        route(POST, "/replica/promote", replica::promote),
        route(GET, "/health", health),
        route(GET, "/ready", ready),
        route(GET, "/metrics", metrics),
    ]
}

fn route<H: Handler<T, Arc<HttpState>>, T: 'static>(method: MethodFilter, path: &'static str, handler: H) -> Route {
    (method, path, on(method, handler))
}

/// Methods and paths of HTTP, for the tests that ask each of them in each role.
#[doc(hidden)]
#[must_use]
pub fn http_routes() -> Vec<(&'static str, &'static str)> {
    let name = |method| match method {
        MethodFilter::GET => "GET",
        MethodFilter::HEAD => "HEAD",
        MethodFilter::POST => "POST",
        MethodFilter::DELETE => "DELETE",
        _ => "another",
    };
    routes().into_iter().map(|(method, path, _)| (name(method), path)).collect()
}

/// All paths.
pub(crate) fn router(shared: Arc<HttpState>) -> Router {
    let router = routes().into_iter().fold(Router::new(), |router, (_, path, route)| router.route(path, route));
    router
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), same_site))
        .with_state(shared)
}

/// Keeps web pages away from a server that asks for nothing because only this machine reaches it: a browser on this machine
/// would carry their requests to it. A page of another site is refused, and so is a name that was made to point here.
async fn same_site(State(server): Server, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let has_credentials =
        headers.contains_key(header::AUTHORIZATION) || oidc::session_of(&server.callers, headers).is_some();
    let checked = check_host(&request)
        .and_then(|()| check_fetch(&request))
        .and_then(|()| check_site(headers, server.callers.serve_anybody(has_credentials)));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    // An answer is data of this server: no other site may embed it, and no browser takes it for a script or a page.
    for (name, value) in
        [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (HeaderName::from_static(RESOURCE_POLICY), "same-origin")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Refuses what a browser requests for a page of another site, on a listener whose requests need no `host`.
pub(crate) async fn refuse_other_sites(request: Request, next: Next) -> Response {
    match check_fetch(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// HTTP/1.1 has one `host` in each request (RFC 9112, section 3.2).
fn check_host(request: &Request) -> Outcome<()> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    match (request.version(), hosts) {
        (Version::HTTP_11, 1) | (Version::HTTP_09 | Version::HTTP_10, 0 | 1) => Ok(()),
        (Version::HTTP_2 | Version::HTTP_3, _) => Ok(()),
        _ => Err(Problem::new(Code::Request, "a request of HTTP/1.1 has one Host header")),
    }
}

/// Refuses what a browser requests for a page of another site: images, scripts, forms and WebSockets are sent without asking, and a GET among them
/// without an `origin`. `none` is what its user typed.
fn check_fetch(request: &Request) -> Outcome<()> {
    let text = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_of_this_site = match request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => true,
        Some(_) => false,
    };
    let is_navigation = text("sec-fetch-mode") == Some("navigate") && text("sec-fetch-dest") == Some("document");
    if is_of_this_site || is_navigation && request.method() == Method::GET && is_open_to_links(request.uri().path()) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "requests from pages of other sites are refused"))
}

/// Whether links of other sites may lead to a path: to the console's files, which have no data, and back from the provider, whose answer counts only
/// with the cookie of the browser that was sent there.
fn is_open_to_links(path: &str) -> bool {
    matches!(path, "/" | "/licences.txt" | "/auth/oidc/callback") || path.starts_with("/assets/")
}

fn check_site(headers: &HeaderMap, is_open: bool) -> Outcome<()> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(header::HOST);
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    if origin.is_some() && origin != host {
        return Err(Problem::new(Code::Forbidden, "requests from other origins are refused"));
    }
    if is_open && host.is_some_and(|host| !is_this_machine(host)) {
        return Err(Problem::new(Code::Forbidden, "without token or user only requests to localhost are served"));
    }
    Ok(())
}

/// Whether a `host` header names this machine.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

async fn unknown(uri: Uri) -> Problem {
    Problem::new(Code::NotFound, format!("nothing is at {:?}", uri.path().chars().take(100).collect::<String>()))
}

async fn wrong_method() -> Response {
    let problem = Problem::new(Code::Request, "this path doesn't support the method");
    (StatusCode::METHOD_NOT_ALLOWED, axum::Json(problem.json())).into_response()
}

/// The process runs.
async fn health() -> Response {
    axum::Json(json!({ "status": "pass", "name": "splaydb", "version": env!("CARGO_PKG_VERSION") })).into_response()
}

/// Requests are welcome.
async fn ready(State(server): Server) -> Response {
    let stopping = *server.stop.borrow();
    let takes_rows = server.appends.as_ref().is_none_or(|appends| appends.ingest().is_ready());
    // `/status` names them to those who may read.
    let damaged = server.statements.session().database().damaged().len();
    let losses = server.appends.as_ref().map_or(0, |appends| appends.ingest().journal_losses());
    // While the disk is full queries are answered.
    let full = server.appends.as_ref().and_then(|appends| appends.ingest().full_reason());
    let (status, text) = match (stopping, takes_rows, damaged + losses) {
        (true, _, _) => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        (false, false, _) => (StatusCode::SERVICE_UNAVAILABLE, "takes no rows"),
        (false, true, _) if full.is_some() => (StatusCode::OK, "full"),
        (false, true, 0) => (StatusCode::OK, "ready"),
        (false, true, _) => (StatusCode::OK, "degraded"),
    };
    let (status, text, why) = match server.replication().filter(|_| !stopping && takes_rows) {
        Some(replication) => of_copies(&replication, (status, text)),
        None => (status, text, None),
    };
    let (status, text, why) = match server.auditor.outage().filter(|_| status == StatusCode::OK) {
        Some(outage) => of_outage(outage, status),
        None => (status, text, why),
    };
    let reason = match text {
        _ if why.is_some() => why.map(str::to_owned),
        "full" => full,
        "degraded" => {
            Some(format!("{damaged} tables are damaged, the journal has {losses} losses; /status says which"))
        }
        _ => None,
    };
    let mut body_json = json!({ "status": text, "damaged_tables": damaged, "journal_losses": losses });
    if let Some(reason) = reason {
        body_json["reason"] = json!(reason);
    }
    if let Some(Replication::Follower(follower)) = server.replication() {
        body_json["lag_ms"] = json!(follower.lag_ns.map(|lag| lag / 1_000_000));
    }
    (status, axum::Json(body_json)).into_response()
}

/// The same of a database that has copies, with a reason.
fn of_copies(
    replication: &Replication,
    otherwise: (StatusCode, &'static str),
) -> (StatusCode, &'static str, Option<&'static str>) {
    match replication {
        Replication::Leader(leader) if leader.fenced.is_some() => {
            (StatusCode::SERVICE_UNAVAILABLE, "fenced", Some("another copy of this database was promoted"))
        }
        Replication::Leader(_) => (otherwise.0, otherwise.1, None),
        Replication::Follower(follower) if !follower.is_whole => {
            (StatusCode::SERVICE_UNAVAILABLE, "catching up", Some("this copy isn't whole yet"))
        }
        Replication::Follower(follower) if !follower.is_connected || follower.error.is_some() => {
            (StatusCode::OK, "stale", Some("the leader can't be followed now; /status says why"))
        }
        Replication::Follower(_) => (StatusCode::OK, "following", None),
    }
}

/// The same while the audit log can't be written, and what has to have a record isn't done.
fn of_outage(
    (level, is_failed): (AuditLevel, bool),
    otherwise: StatusCode,
) -> (StatusCode, &'static str, Option<&'static str>) {
    match level {
        // A server that gets no requests would never find room again: where one may succeed, it is to come.
        AuditLevel::Statements if is_failed => {
            let why =
                "the audit log can't be written, so that no statement runs until the next start; /status says why";
            (StatusCode::SERVICE_UNAVAILABLE, "unrecorded", Some(why))
        }
        AuditLevel::Statements => {
            let why = "the audit log can't be written, so that no statement runs until it can; /status says why";
            (otherwise, "unrecorded", Some(why))
        }
        AuditLevel::Changes | AuditLevel::None => {
            let why =
                "the audit log can't be written, so that nothing is changed and no rows are taken; /status says why";
            (otherwise, "unrecorded", Some(why))
        }
    }
}

async fn metrics(State(server): Server, headers: HeaderMap) -> Outcome<Response> {
    server.caller(&headers, Role::Read).await?.check_monitor()?;
    let text = server.metrics.encode().map_err(|_| Problem::new(Code::Internal, "metrics can't be written"))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// A request's body, unpacked: no larger than a message may be, and within the time that a client has to send it.
async fn read_body(server: &HttpState, headers: &HeaderMap, body: Body) -> Outcome<Bytes> {
    let bytes_max = server.limits.message_bytes_max;
    let too_large = || Problem::new(Code::TooLarge, format!("the body is larger than {bytes_max} bytes"));
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A client that hasn't sent all it announced doesn't read the refusal; so what is a little too much is taken and dropped.
    if announced.is_some_and(|length| length > bytes_max as u64 * 2) {
        return Err(too_large());
    }
    let mut stream = body.into_data_stream();
    let gathering = async {
        match gather(&mut stream, bytes_max).await? {
            Some(bytes) => Ok(bytes),
            None => {
                let _ = tokio::time::timeout(DROP_TIME, drop_rest(&mut stream, bytes_max)).await;
                Err(too_large())
            }
        }
    };
    let too_slow = |_| {
        let text = format!("the body didn't come within {} seconds", server.limits.body_seconds_max);
        Problem::new(Code::TooSlow, text)
    };
    let bytes = tokio::time::timeout(server.limits.body(), gathering).await.map_err(too_slow)??;
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"" | b"identity") => Ok(bytes),
        Some(b"gzip" | b"x-gzip") => on_thread(move || unpack(&bytes, bytes_max)).await?,
        Some(_) => Err(Problem::new(Code::Request, "the content encoding is neither gzip nor identity")),
    }
}

/// A body's bytes; none if there are too many.
async fn gather(stream: &mut BodyDataStream, bytes_max: usize) -> Outcome<Option<Bytes>> {
    let (mut bytes, mut first) = (BytesMut::new(), None::<Bytes>);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Problem::new(Code::Request, "the body broke off"))?;
        if bytes.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len() > bytes_max {
            return Ok(None);
        }
        // A body that came in one piece is not copied.
        match first.take() {
            None if bytes.is_empty() => first = Some(chunk),
            None => bytes.extend_from_slice(&chunk),
            Some(one) => {
                bytes.extend_from_slice(&one);
                bytes.extend_from_slice(&chunk);
            }
        }
    }
    Ok(Some(first.unwrap_or_else(|| bytes.freeze())))
}

/// Takes and drops the rest of a body, if it is not too much.
async fn drop_rest(stream: &mut BodyDataStream, bytes_max: usize) {
    let mut dropped = 0;
    while let Some(Ok(chunk)) = stream.next().await {
        dropped += chunk.len();
        if dropped > bytes_max {
            return;
        }
    }
}

fn unpack(bytes: &[u8], bytes_max: usize) -> Outcome<Bytes> {
    let mut unpacked = Vec::new();
    let limit = bytes_max as u64 + 1;
    let read = MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut unpacked);
    read.map_err(|_| Problem::new(Code::Request, "the body is not sound gzip"))?;
    if unpacked.len() > bytes_max {
        return Err(Problem::new(Code::TooLarge, format!("the body unpacks to more than {bytes_max} bytes")));
    }
    Ok(unpacked.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_taken_for_it() {
        for host in ["localhost", "LOCALHOST:7750", "127.0.0.1", "127.0.0.1:80", "[::1]:7750"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com:80", "10.0.0.1:7750", "[2001:db8::1]:80"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
