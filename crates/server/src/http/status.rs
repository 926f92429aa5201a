//! `/status`: the state of the server and its counters, for people.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use splay_capture::Report;

use super::Server;
use crate::blocking::on_thread;
use crate::ingest::Replication;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;

/// `GET /status`
pub(super) async fn status(State(server): Server, headers: HeaderMap) -> Outcome<Json<Value>> {
    server.caller(&headers, Role::Read).await?.check_monitor()?;
    let database = server.statements.session().database().clone();
    let replication = server.replication();
    let takes_rows = !matches!(replication, Some(Replication::Follower(_)));
    let ingest = server.appends.as_ref().map(|appends| Arc::clone(appends.ingest())).filter(|_| takes_rows);
    let report = on_thread(move || {
        let status = ingest.as_ref().map(|ingest| ingest.status());
        let rejected = ingest.as_ref().map(|ingest| ingest.rejected()).unwrap_or_default();
        Report::of_running(&database, status, &rejected)
    });
    let mut status_json = serde_json::to_value(report.await??)
        .map_err(|_| Problem::new(Code::Internal, "the status can't be written"))?;
    if let Some(replication) = &replication {
        status_json["replication"] = serde_json::to_value(replication).unwrap_or_default();
    }
    if let Some(Replication::Leader(leader)) = &replication {
        status_json["replication"]["lag_ms_p99"] = json!(leader.lag.quantile(0.99).map(|seconds| seconds * 1e3));
    }
    if let Some(audit) = server.auditor.status() {
        status_json["audit"] = serde_json::to_value(audit).unwrap_or_default();
    }
    status_json["version"] = json!(env!("CARGO_PKG_VERSION"));
    Ok(Json(status_json))
}
