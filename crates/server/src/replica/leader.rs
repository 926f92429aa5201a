//! A client for the requests of a follower to its leader, over HTTP.
//!
//! - Requests for journal bytes, which wait, have a connection of their own; all others share one.
//! - Answers are bounded by the request. Journal bytes come with their checksum, and files with their digests: see
//!   [`splay_capture::Leader`].

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use splay_capture::{Error, FollowerIdentity, JournalPart, Leader, LeaderState, Position};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, watch};

use super::{FILE, FileRequest, JOURNAL, JournalRequest, STATE};
use crate::client::{Client, Connection, HttpAnswer};

/// For a request and its answer: longer than a leader waits for its journal to grow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a leader's state: its tables, users and roles.
const STATE_BYTES_MAX: usize = 256 << 20;

/// Bytes beside those that were asked for.
const MORE_BYTES: usize = 64 << 10;

/// See the module's text.
#[derive(Debug)]
pub struct HttpLeader {
    url: String,
    /// Until it is dropped.
    runtime: Option<Runtime>,
    journal: Mutex<Connection>,
    files: Mutex<Connection>,
    cancelled: watch::Sender<bool>,
}

impl HttpLeader {
    /// The leader at `url`, with the token for requests to it and, for TLS, its certificate authority.
    ///
    /// # Errors
    /// Those of [`Client::new`]; [`Error::Io`](crate::Error::Io) without threads.
    pub fn new(url: &str, token: Option<String>, authority: Option<&Path>) -> crate::Result<HttpLeader> {
        let client = Client::new(url, token, authority)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("splay-follow")
            .enable_all()
            .build()
            .map_err(crate::Error::io("start network threads for", Path::new(url)))?;
        let (journal, files) = (Mutex::new(client.connection()), Mutex::new(client.connection()));
        let url = url.trim_end_matches('/').to_owned();
        Ok(HttpLeader { url, runtime: Some(runtime), journal, files, cancelled: watch::Sender::new(false) })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Requests are sent again after [`Leader::cancel`].
    pub(crate) fn resume(&self) {
        self.cancelled.send_replace(false);
    }

    fn ask(
        &self,
        of: &Mutex<Connection>,
        path: &str,
        request: &impl Serialize,
        bytes_max: usize,
    ) -> Result<Bytes, Error> {
        let leader = |reason: String| Error::Leader { reason };
        let body = serde_json::to_vec(request).map_err(|error| leader(error.to_string()))?;
        let Some(runtime) = &self.runtime else { return Err(Error::Closed) };
        let answer = runtime.block_on(async {
            let mut cancelled = self.cancelled.subscribe();
            let answered = async { of.lock().await.post_json(path, body.into(), bytes_max, PATIENCE).await };
            tokio::select! {
                answered = answered => answered.map_err(|error| leader(error.to_string())),
                _ = cancelled.wait_for(|cancelled| *cancelled) => Err(Error::Closed),
            }
        })?;
        if answer.status == 200 { Ok(answer.body) } else { Err(self.refusal(&answer)) }
    }

    /// Why a leader refused.
    fn refusal(&self, answer: &HttpAnswer) -> Error {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if let Some(epoch) = body["fenced"].as_u64() {
            return Error::Fenced { epoch };
        }
        if let Some(reason) = body["other_leader"].as_str() {
            return Error::OtherLeader { reason: reason.to_owned() };
        }
        if body["code"] == "not_found" {
            let (path, source) = (self.url.clone().into(), std::io::ErrorKind::NotFound.into());
            return splay_store::Error::Io { act: "fetch a file from", path, source }.into();
        }
        let why = body["error"].as_str().unwrap_or("this isn't an answer of a SplayDB server");
        Error::Leader { reason: format!("{} answers with status {}: {why}", self.url, answer.status) }
    }
}

impl Drop for HttpLeader {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped on a network's thread, which waits for nothing.
            runtime.shutdown_background();
        }
    }
}

impl Leader for HttpLeader {
    fn state(&self, asker: &FollowerIdentity) -> Result<LeaderState, Error> {
        let body = self.ask(&self.files, STATE, asker, STATE_BYTES_MAX)?;
        let wrong = |error: serde_json::Error| Error::Leader { reason: format!("{} sent no state: {error}", self.url) };
        serde_json::from_slice(&body).map_err(wrong)
    }

    fn journal(&self, asker: &FollowerIdentity, after: Position, bytes_max: usize) -> Result<JournalPart, Error> {
        let request = JournalRequest { asker: asker.clone(), after, bytes_max };
        let body = self.ask(&self.journal, JOURNAL, &request, bytes_max.saturating_add(MORE_BYTES))?;
        let damaged =
            || Error::Leader { reason: format!("a part of the journal from {} was damaged on its way", self.url) };
        JournalPart::decode(&body).ok_or_else(damaged)
    }

    fn file(&self, asker: &FollowerIdentity, path: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let request = FileRequest { asker: asker.clone(), path: path.to_owned(), offset, bytes_max };
        Ok(self.ask(&self.files, FILE, &request, bytes_max.saturating_add(MORE_BYTES))?.to_vec())
    }

    fn cancel(&self) {
        self.cancelled.send_replace(true);
    }
}
