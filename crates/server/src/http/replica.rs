//! `/replica/…`: requests of followers to their leader, and the promotion of a follower.
//!
//! - These requests give access to everything in the database, users and roles included, so the caller must be a
//!   superuser or have a token of the role `replicate`.
//! - A request waits on a thread of its own for the journal to grow, so their number is limited.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;
use splay_capture::{FollowerIdentity, Leader};
use tokio::sync::OwnedSemaphorePermit;

use super::{HttpState, Server, read_body};
use crate::audit::Action;
use crate::blocking::on_thread;
use crate::callers::Caller;
use crate::ingest::IngestError;
use crate::problem::{Code, Outcome, Problem};
use crate::replica::{FileRequest, JournalRequest};
use crate::settings::Role;

/// Requests of followers at a time: each has two.
pub(crate) const FOLLOWER_REQUESTS_MAX: usize = 32;

/// `POST /replica/state`
pub(super) async fn state(State(server): Server, headers: HeaderMap, body: Body) -> Outcome<Response> {
    let (leader, place) = leader(&server, &headers).await?;
    let asker: FollowerIdentity = parse_request(&server, &headers, body).await?;
    let outcome = on_thread(move || (leader.state(&asker), place).0).await?;
    Ok(outcome.map_or_else(refusal, |state| Json(state).into_response()))
}

/// `POST /replica/journal`
pub(super) async fn journal(State(server): Server, headers: HeaderMap, body: Body) -> Outcome<Response> {
    let (leader, place) = leader(&server, &headers).await?;
    let JournalRequest { asker, after, bytes_max } = parse_request(&server, &headers, body).await?;
    let part = on_thread(move || (leader.journal(&asker, after, bytes_max), place).0).await?;
    Ok(part.map_or_else(refusal, |part| bytes(part.encode())))
}

/// `POST /replica/file`
pub(super) async fn file(State(server): Server, headers: HeaderMap, body: Body) -> Outcome<Response> {
    let (leader, place) = leader(&server, &headers).await?;
    let FileRequest { asker, path, offset, bytes_max } = parse_request(&server, &headers, body).await?;
    let part = on_thread(move || (leader.file(&asker, &path, offset, bytes_max), place).0).await?;
    Ok(part.map_or_else(refusal, bytes))
}

/// `POST /replica/promote`
pub(super) async fn promote(State(server): Server, headers: HeaderMap) -> Outcome<Response> {
    let caller = check(&server, &headers).await?;
    let none =
        || Problem::new(Code::Unsupported, "this server follows no other one, so that there is nothing to promote");
    let ingest = server.appends.as_ref().map(|appends| Arc::clone(appends.ingest())).ok_or_else(none)?;
    let begun = caller.who().begin(Action::change("administration", "", "promote")).await?;
    let promoted = on_thread(move || ingest.promote()).await?.ok_or_else(none).and_then(|promoted| Ok(promoted?));
    begun.end(promoted.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok"), None);
    Ok(Json(json!({ "epoch": promoted? })).into_response())
}

async fn check(server: &HttpState, headers: &HeaderMap) -> Outcome<Caller> {
    let caller = server.caller(headers, Role::Replicate).await?;
    caller.check_replication().inspect_err(|problem| caller.who().note_denied(&problem.message))?;
    Ok(caller)
}

/// Whom a request is for, and its place.
async fn leader(server: &HttpState, headers: &HeaderMap) -> Outcome<(Arc<dyn Leader>, OwnedSemaphorePermit)> {
    let caller = check(server, headers).await?;
    let ingest = server.appends.as_ref().map(|appends| appends.ingest());
    if let Some(ingest) = ingest {
        // A follower can't be copied: a copy of it wouldn't learn of a promotion.
        ingest.check_changes().or_else(|error| match error {
            IngestError::Following { .. } => Err(error),
            _ => Ok(()),
        })?;
    }
    let none = || Problem::new(Code::Unsupported, "this server takes no rows, so that there is nothing to follow");
    let leader = ingest.and_then(|ingest| ingest.leader()).ok_or_else(none)?;
    let busy = |_| Problem::new(Code::Busy, "too many requests of followers at once");
    let place = Arc::clone(&server.followers).try_acquire_owned().map_err(busy)?;
    caller.who().note_follower();
    Ok((leader, place))
}

async fn parse_request<T: DeserializeOwned>(server: &HttpState, headers: &HeaderMap, body: Body) -> Outcome<T> {
    let body = read_body(server, headers, body).await?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::new(Code::Request, format!("this isn't a follower's request: {error}")))
}

fn bytes(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()
}

/// Why a follower gets nothing, so that it can tell what ends its following from what it asks for once more.
fn refusal(error: IngestError) -> Response {
    let (key, value) = match &error {
        IngestError::Fenced { epoch } => ("fenced", json!(epoch)),
        IngestError::OtherLeader { reason } => ("other_leader", json!(reason)),
        IngestError::Store(store) if store.is_not_found() => {
            return Problem::new(Code::NotFound, "there is no such file any more").into_response();
        }
        _ => return Problem::from(error).into_response(),
    };
    let mut refusal_body = json!({ "error": error.to_string(), "code": Code::ReadOnly.as_str(), "retryable": false });
    refusal_body[key] = value;
    (StatusCode::CONFLICT, Json(refusal_body)).into_response()
}
