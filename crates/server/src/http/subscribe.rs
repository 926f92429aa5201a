//! `/subscribe`: subscriptions over WebSocket.
//!
//! The client's first message is the request, later ones give credit. The server sends one message for each update:
//! JSON text, or a complete binary Arrow IPC stream whose schema metadata describes the update.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Schema;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::{JsonArray, Writer, WriterBuilder};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;

use super::{HttpState, Server};
use crate::auth::PROTOCOL;
use crate::callers::Caller;
use crate::ingest::{Update, UpdateKind};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;
use crate::subscription_requests::{ASK_BYTES_MAX, CreditMessage, Format, SubscriptionRequest};
use crate::subscriptions::{EncodeUpdate, SubscriptionSlot, Updates};

/// How long the client may take to close, once the last word is said.
const LINGER: Duration = Duration::from_secs(2);

/// `GET /subscribe`, upgraded to a WebSocket.
pub(super) async fn subscribe(
    State(server): Server,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Outcome<Response> {
    let caller = server.caller_of_upgrade(&headers, Role::Read).await?.over("websocket");
    let place = server.subscriptions.place(&caller)?;
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(ASK_BYTES_MAX).max_frame_size(ASK_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| async move { serve(&server, caller, place, socket).await }))
}

async fn serve(server: &HttpState, caller: Caller, place: SubscriptionSlot, mut socket: WebSocket) {
    let ended = run(server, caller, place.clone(), &mut socket).await;
    server.metrics.request("websocket", ended.as_ref().map_or_else(|problem| problem.code.as_str(), |()| "ok"));
    if let Err(problem) = ended {
        // The place is kept until the last word is said: a server that stops waits for it.
        let _ = socket.send(Message::text(problem.json().to_string())).await;
        let code = if problem.code == Code::Closed { close_code::AWAY } else { close_code::POLICY };
        let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: problem.code.as_str().into() }))).await;
    }
    drop(place);
    // A connection that is dropped with bytes unread takes back what the client hasn't read yet.
    let rest = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = tokio::time::timeout(LINGER, rest).await;
}

async fn run(server: &HttpState, caller: Caller, place: SubscriptionSlot, socket: &mut WebSocket) -> Outcome<()> {
    let first = tokio::time::timeout(server.limits.head(), socket.recv()).await;
    let first = match first {
        Ok(Some(Ok(message))) => message,
        Ok(_) => return Ok(()),
        Err(_) => return Err(Problem::new(Code::TooSlow, "no subscription request arrived")),
    };
    let ask = SubscriptionRequest::parse(&first.into_data())?;
    let follower = server.follower(caller, &ask);
    let mut updates =
        server.subscriptions.open((place, follower), &ask, WebSocketFrames { format: ask.format }).await?;
    let reply = json!({ "subscribed": ask.confirmation() }).to_string();
    if socket.send(Message::text(reply)).await.is_err() {
        return Ok(());
    }
    pass_on(socket, &mut updates).await
}

/// Updates to the client, credit from it, until one of them ends.
async fn pass_on(socket: &mut WebSocket, updates: &mut Updates<Message>) -> Outcome<()> {
    loop {
        tokio::select! {
            message = updates.messages.recv() => match message {
                Some(Ok(message)) => if socket.send(message).await.is_err() { return Ok(()) },
                Some(Err(problem)) => return Err(problem),
                None if updates.is_over() => {
                    let close = CloseFrame { code: close_code::NORMAL, reason: "end".into() };
                    let _ = socket.send(Message::Close(Some(close))).await;
                    return Ok(());
                }
                None => return Err(Problem::new(Code::Closed, "the subscription ended")),
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    updates.credit.give(CreditMessage::parse(text.as_bytes())?.credit);
                }
                Some(Ok(Message::Binary(_))) => return Err(Problem::new(Code::Request, "a text was expected")),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
            },
        }
    }
}

/// Updates as WebSocket messages.
struct WebSocketFrames {
    format: Format,
}

/// The kind of an update by name, and whether more of the same snapshot follows.
pub(crate) fn kind(kind: UpdateKind) -> (&'static str, bool) {
    match kind {
        UpdateKind::Snapshot { first: true, more } => ("snapshot", more),
        UpdateKind::Snapshot { first: false, more } => ("snapshot_part", more),
        UpdateKind::Delta => ("delta", false),
        UpdateKind::End => ("end", false),
    }
}

impl EncodeUpdate for WebSocketFrames {
    type Message = Message;

    fn update(&mut self, update: &Update) -> Outcome<Vec<Message>> {
        let broken = |error| Problem::new(Code::Internal, format!("an update can't be written: {error}"));
        let message = match self.format {
            Format::Json => as_json(update).map(Message::text),
            Format::Arrow => as_arrow(update).map(Message::binary),
        };
        Ok(vec![message.map_err(broken)?])
    }
}

fn as_json(update: &Update) -> Result<String, arrow::error::ArrowError> {
    let mut writer: Writer<_, JsonArray> = WriterBuilder::new().with_explicit_nulls(true).build(Vec::new());
    writer.write(&update.rows)?;
    writer.finish()?;
    let rows = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    let rows = if rows.is_empty() { "[]" } else { rows.as_str() };
    let (kind, more) = kind(update.kind);
    let (table, sequence) = (json!(*update.table), update.sequence);
    Ok(format!("{{\"table\":{table},\"sequence\":{sequence},\"kind\":\"{kind}\",\"more\":{more},\"rows\":{rows}}}"))
}

fn as_arrow(update: &Update) -> Result<Vec<u8>, arrow::error::ArrowError> {
    let (kind, more) = kind(update.kind);
    let metadata = HashMap::from([
        ("splay.table".to_owned(), update.table.to_string()),
        ("splay.sequence".to_owned(), update.sequence.to_string()),
        ("splay.kind".to_owned(), kind.to_owned()),
        ("splay.more".to_owned(), more.to_string()),
    ]);
    let schema = Arc::new(Schema::new_with_metadata(update.rows.schema().fields().clone(), metadata));
    let rows = update.rows.clone().with_schema(Arc::clone(&schema))?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&rows)?;
    writer.into_inner()
}
