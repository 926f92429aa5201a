//! Line protocol over TCP, as QuestDB's clients send it: lines, without answers.
//!
//! - With `line.keys` a client proves first that it has a key (`line_keys.rs`), and with `line.tls` it speaks TLS.
//! - Each connection has a thread, which reads, decodes and passes rows on, so that the network's threads never
//!   block.
//! - The rows of one read are passed on at once, so a single line isn't delayed; under load reads grow, and so do
//!   batches.
//! - A line counts only with its line feed: the rest of a broken connection may be cut within a number.
//! - A connection that opens with an HTTP request or a TLS handshake is closed before any row is taken: a web page
//!   made it.
//! - A bad line is counted and recorded for the operator; the stream continues.
//! - Without answers the only way to slow a client down is not to read: the number of appends that wait for their
//!   acknowledgement is limited, and a full disk is waited for. Batches that wait for the disk may be stored after
//!   later ones of their connection.
//! - A sender beyond its quota isn't read until it may send again: nothing is refused.
//! - If rows are lost nevertheless, the connection is closed, so that the client notices.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use splay_store::priority;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::appends::class;
use crate::audit::{Auditor, Peer};
use crate::callers::{Caller, Callers};
use crate::guarded::{ExcessRule, GuardedIngest};
use crate::ingest::{Ack, AckClass, Append, Ingest, IngestError};
use crate::line_keys::{KeyExchange, KeyStep, LineKeys};
use crate::lines::LineStream;
use crate::listen::{self, ConnectionLimit};
use crate::metrics::Metrics;
use crate::pending_appends::{PendingAppends, PendingBytes};
use crate::protocol_detection::{DetectedProtocol, detect_protocol};
use crate::settings::Limits;
use crate::tls::Acceptor;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Bytes of one read before a client has proved to have a key.
const KEY_READ_BYTES: usize = 4 << 10;

/// How often a silent connection looks around.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// Pause between two attempts to store rows on a full disk.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// The state that connections share.
#[derive(Debug, Clone)]
pub(crate) struct LineFront {
    pub(crate) ingest: Arc<dyn Ingest>,
    pub(crate) callers: Callers,
    pub(crate) auditor: Auditor,
    pub(crate) ack: AckClass,
    /// The file of the keys, one of which a client must have.
    pub(crate) keys: Option<PathBuf>,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gate: ConnectionLimit,
    pub(crate) pending_bytes: Arc<PendingBytes>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Takes connections until the server stops.
pub(crate) async fn serve(listener: TcpListener, front: LineFront) {
    let (gate, stop, grace) = (front.gate.clone(), front.stop.clone(), front.limits.shutdown());
    let serve = move |stream: tokio::net::TcpStream, client| {
        let front = front.clone();
        let peer = Peer::new(front.auditor.clone(), "line", client);
        peer.serve(async move {
            let (sender, ended) = tokio::sync::oneshot::channel::<()>();
            let Ok(stream) = stream.into_std() else { return };
            // Without keys the protocol has no credentials.
            let front = match front.keys {
                None => match front.callers.anonymous() {
                    Ok(caller) => front.of(caller),
                    Err(problem) => return refuse(&front, client, problem.code.as_str()),
                },
                Some(_) => front,
            };
            let thread = std::thread::Builder::new().name("splay-line".to_owned());
            let peer = Peer::current();
            let spawned = thread.spawn(move || {
                priority::capture();
                let _sender = sender;
                serve_stream(front, client, stream, &peer);
            });
            match spawned {
                Ok(_) => drop(ended.await),
                Err(error) => tracing::error!(%client, %error, "no thread for a connection"),
            }
        })
    };
    listen::accept(listener, "line", gate, stop, grace, serve, listen::closed_at_once).await;
}

fn refuse(front: &LineFront, client: SocketAddr, outcome: &'static str) {
    front.metrics.request("line", outcome);
    let reason = "the database has users, and line protocol over TCP tells none: send lines to /api/v2/write of HTTP, or set \
                  auth.anonymous or line.keys";
    tracing::warn!(%client, reason, "a connection for line protocol was refused");
    front.ingest.reject("line", reason.to_owned(), &[]);
}

/// A connection's bytes, as TCP or TLS carries them.
trait Transport: Read + Write {}

impl<T: Read + Write> Transport for T {}

/// Serves a connection on a thread of its own.
fn serve_stream(front: LineFront, client: SocketAddr, stream: TcpStream, peer: &Arc<Peer>) {
    let set_up = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK_AROUND)));
    // A client that doesn't read what it is sent loses its connection.
    let set_up = set_up.and_then(|()| stream.set_write_timeout(Some(front.limits.head())));
    let transport: std::io::Result<Box<dyn Transport>> = set_up.and_then(|()| match &front.tls {
        None => Ok(Box::new(stream) as Box<dyn Transport>),
        Some(acceptor) => Ok(Box::new(acceptor.accept_blocking(stream).map_err(std::io::Error::other)?)),
    });
    let Ok(mut transport) = transport else {
        front.metrics.request("line", "broken");
        return;
    };
    let Some(keys) = &front.keys else {
        Connection::new(front, client).run(transport.as_mut(), &[]);
        return;
    };
    let proved = LineKeys::read(keys)
        .map_err(|error| {
            tracing::error!(%error, "keys of line protocol can't be read: nobody is let in");
            "the server's keys can't be read"
        })
        .and_then(|keys| prove(&front, transport.as_mut(), KeyExchange::new(keys)));
    let admitted = proved.and_then(|(key, lines)| {
        let caller =
            peer.within(|| front.callers.of_key(&key)).map_err(|_| "its key belongs to no user who may log in")?;
        Ok((caller, lines))
    });
    match admitted {
        Ok((caller, lines)) => Connection::new(front.of(caller), client).run(transport.as_mut(), &lines),
        Err(reason) => {
            front.metrics.request("line", "unauthorized");
            tracing::warn!(%client, reason, "a connection for line protocol was refused");
            front.ingest.reject("line", format!("the connection was refused: {reason}"), &[]);
        }
    }
}

/// The name of the key that the client has, and the lines that came with its proof.
fn prove(
    front: &LineFront,
    transport: &mut dyn Transport,
    mut exchange: KeyExchange,
) -> Result<(String, Vec<u8>), &'static str> {
    let (begun, mut buffer) = (Instant::now(), [0; KEY_READ_BYTES]);
    loop {
        let step = match transport.read(&mut buffer) {
            Ok(0) => return Err("it ended before it proved to have a key"),
            Ok(bytes) => exchange.take(&buffer[..bytes]),
            Err(error) if is_pause(&error) => KeyStep::Read,
            Err(_) => return Err("it broke off before it proved to have a key"),
        };
        match step {
            KeyStep::Read => {}
            KeyStep::Send(bytes) => {
                let sent = transport.write_all(&bytes).and_then(|()| transport.flush());
                sent.map_err(|_| "it broke off before it proved to have a key")?;
            }
            KeyStep::Proved(key, lines) => return Ok((key, lines)),
            KeyStep::Refused(reason) => return Err(reason),
        }
        if begun.elapsed() > front.limits.head() || *front.stop.borrow() {
            return Err("it didn't prove in time to have a key");
        }
    }
}

/// Whether a read gave nothing yet, rather than failed.
fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl LineFront {
    /// The same for the rows of one caller.
    fn of(self, caller: Caller) -> LineFront {
        let guarded = GuardedIngest::new(Arc::clone(&self.ingest), self.callers.clone(), caller, ExcessRule::Paced);
        LineFront { ingest: Arc::new(guarded), ..self }
    }
}

struct Connection {
    lines: LineStream,
    sink: Arc<LineSink>,
}

/// The sink of a connection's rows.
struct LineSink {
    front: LineFront,
    client: SocketAddr,
    waiting: PendingAppends,
}

/// Why a connection ends before its client ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionEnd {
    Server,
    Idle,
    Broken,
    Lost,
    /// The client speaks another protocol.
    Foreign,
}

impl Connection {
    fn new(front: LineFront, client: SocketAddr) -> Connection {
        let lines = LineStream::new(Arc::clone(&front.ingest), "line", front.ack, front.limits.lines());
        let waiting = PendingAppends::new(Arc::clone(&front.pending_bytes));
        Connection { lines, sink: Arc::new(LineSink { front, client, waiting }) }
    }

    /// Takes the lines of a connection, `begun` before those that it reads.
    fn run(mut self, transport: &mut dyn Transport, begun: &[u8]) {
        let ended = self.read(transport, begun);
        // A line without its line feed may be cut within a number, and is dropped.
        let finished = self.sink.finish();
        let outcome = match finished.and(ended) {
            _ if self.sink.waiting.has_lost() => "lost",
            Err(ConnectionEnd::Lost) => "lost",
            Err(ConnectionEnd::Broken) => "broken",
            Err(ConnectionEnd::Idle) => "idle",
            Err(ConnectionEnd::Foreign) => "foreign",
            Ok(()) | Err(ConnectionEnd::Server) => "ok",
        };
        self.sink.front.metrics.request("line", outcome);
        tracing::debug!(client = %self.sink.client, outcome, "a connection for line protocol ended");
    }

    fn read(&mut self, transport: &mut dyn Transport, begun: &[u8]) -> Result<(), ConnectionEnd> {
        let mut buffer = vec![0; READ_BYTES];
        // When its first byte came, and its last.
        let (mut start, mut last_read) = (Instant::now(), Instant::now());
        // The bytes of the first line, until it is known to be one.
        let mut first = Some(Vec::new());
        if !begun.is_empty() {
            self.take(begun, &mut first)?;
        }
        loop {
            match transport.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    last_read = Instant::now();
                    if first.as_ref().is_some_and(Vec::is_empty) {
                        start = last_read;
                    }
                    self.sink.front.metrics.received("line", bytes);
                    self.take(&buffer[..bytes], &mut first)?;
                }
                Err(error) if is_pause(&error) => {}
                Err(_) => return Err(ConnectionEnd::Broken),
            }
            let limits = &self.sink.front.limits;
            let is_cut = first.as_ref().is_some_and(|first| !first.is_empty());
            if last_read.elapsed() > limits.idle() || (is_cut && start.elapsed() > limits.head()) {
                return Err(ConnectionEnd::Idle);
            }
            // Nothing is read while there is no room for what was.
            while self.sink.waiting.keeps_any() && !self.sink.is_stopping() {
                self.sink.submit_again()?;
                self.sink.waiting.drain(LOOK_AROUND);
            }
            if self.sink.wait_for_quota() {
                last_read = Instant::now();
            }
            if self.sink.waiting.has_lost() {
                return Err(ConnectionEnd::Lost);
            }
            if self.sink.is_stopping() {
                return Err(ConnectionEnd::Server);
            }
        }
    }
}

impl Connection {
    /// Takes bytes, those of the first line only once they are known to be one.
    fn take(&mut self, bytes: &[u8], first: &mut Option<Vec<u8>>) -> Result<(), ConnectionEnd> {
        let Some(mut first_bytes) = first.take() else { return self.push(bytes) };
        first_bytes.extend_from_slice(bytes);
        match detect_protocol(&first_bytes, self.sink.front.limits.line_bytes_max) {
            DetectedProtocol::Lines => self.push(&first_bytes),
            DetectedProtocol::Undecided => {
                *first = Some(first_bytes);
                Ok(())
            }
            DetectedProtocol::Foreign(protocol) => {
                let client = self.sink.client;
                tracing::warn!(%client, protocol, "a connection that doesn't speak line protocol was closed");
                let reason =
                    format!("the connection opens with {protocol}; line protocol over HTTP goes to /api/v2/write");
                self.sink.front.ingest.reject("line", reason, &first_bytes);
                Err(ConnectionEnd::Foreign)
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        let sink = &self.sink;
        self.lines.push(bytes, sink.front.ingest.row_time(), |append| sink.submit(Arc::new(append)))
    }
}

impl LineSink {
    fn is_stopping(&self) -> bool {
        *self.front.stop.borrow()
    }

    /// Waits until its sender may send more; whether he had to.
    fn wait_for_quota(&self) -> bool {
        let mut has_waited = false;
        while self.front.ingest.may_pause() && !self.is_stopping() {
            let pause = self.front.ingest.pause();
            if pause.is_zero() {
                break;
            }
            has_waited = true;
            std::thread::sleep(pause.min(LOOK_AROUND));
        }
        has_waited
    }

    /// Waits for the acks of all that was handed over, and hands over again what found no room, until it has found some. A server that
    /// stops tries once more.
    fn finish(self: &Arc<LineSink>) -> Result<(), ConnectionEnd> {
        let mut place = None;
        let finished = loop {
            let is_last = self.is_stopping();
            let patience = if is_last { self.front.limits.shutdown() } else { LOOK_AROUND };
            let is_answered = self.waiting.drain(patience);
            if !self.waiting.keeps_any() && (is_answered || is_last) {
                break Ok(());
            }
            if place.is_none() && !is_last {
                place = EndedPlace::take(&self.front);
                if place.is_none() && self.waiting.keeps_any() {
                    break Ok(());
                }
            }
            let again = self.submit_again();
            if again.is_err() || is_last {
                self.waiting.drain(patience);
                break again;
            }
        };
        for append in self.waiting.close() {
            let _ = self.report_loss(&append, "there was no room, and the connection has ended");
        }
        finished
    }

    /// Hands over what found no room.
    fn submit_again(self: &Arc<LineSink>) -> Result<(), ConnectionEnd> {
        let mut appends = self.waiting.take_pending().into_iter();
        if appends.len() > 0 {
            std::thread::sleep(FULL_PAUSE);
        }
        while let Some(append) = appends.next() {
            if let Err(stop) = self.submit(append) {
                for append in appends {
                    let _ = self.report_loss(&append, "those before it were");
                }
                return Err(stop);
            }
        }
        Ok(())
    }

    fn submit(self: &Arc<LineSink>, append: Arc<Append>) -> Result<(), ConnectionEnd> {
        loop {
            self.waiting.enter(self.front.limits.appends_waiting_max);
            match self.front.ingest.submit(vec![Append::clone(&append)], Box::new(self.completion(Arc::clone(&append))))
            {
                Ok(()) => return Ok(()),
                Err(IngestError::Full { reason } | IngestError::Unreplicated { reason }) => {
                    self.waiting.leave();
                    self.waits(&reason);
                    if self.is_stopping() {
                        return self.report_loss(&append, "the server stopped while it waited for room");
                    }
                    std::thread::sleep(FULL_PAUSE);
                }
                Err(error @ IngestError::Rejected { .. }) => {
                    self.waiting.leave();
                    self.front.ingest.reject("line", error.to_string(), &[]);
                    return Ok(());
                }
                Err(error) => {
                    self.waiting.leave();
                    return self.report_loss(&append, &error.to_string());
                }
            }
        }
    }

    fn waits(&self, reason: &str) {
        if self.waiting.is_news() {
            tracing::warn!(client = %self.client, reason, "a connection waits for room");
        }
    }

    fn report_loss(&self, append: &Append, reason: &str) -> Result<(), ConnectionEnd> {
        self.waiting.lose();
        let rows = append.rows.num_rows();
        tracing::error!(client = %self.client, table = append.table, rows, reason, "rows were lost");
        Err(ConnectionEnd::Lost)
    }

    /// The callback for the acknowledgement of an append.
    fn completion(self: &Arc<LineSink>, append: Arc<Append>) -> impl FnOnce(Result<Ack, IngestError>) + Send + 'static {
        let sink = Arc::clone(self);
        let (class, start) = (class(self.front.ack), Instant::now());
        move |acked| {
            let metrics = &sink.front.metrics;
            match acked {
                Ok(ack) => {
                    metrics.append("line", "ok", class, ack.rows, start);
                    sink.waiting.has_room();
                }
                Err(error @ IngestError::Rejected { .. }) => {
                    metrics.append("line", "refused", class, 0, start);
                    sink.front.ingest.reject("line", error.to_string(), &[]);
                }
                Err(IngestError::Full { reason }) => {
                    metrics.append("line", "full", class, 0, start);
                    sink.waits(&reason);
                    if let Err(append) = sink.waiting.keep(append) {
                        let _ = sink.report_loss(&append, &reason);
                    }
                }
                Err(error @ IngestError::Unconfirmed) => {
                    // The rows are stored. If they were sent again, they would be stored twice.
                    metrics.append("line", "unconfirmed", class, append.rows.num_rows() as u64, start);
                    tracing::warn!(client = %sink.client, table = append.table, reason = %error, "rows are on this disk alone for now");
                    sink.waiting.has_room();
                }
                Err(error) => {
                    metrics.append("line", "failed", class, 0, start);
                    let _ = sink.report_loss(&append, &error.to_string());
                }
            }
            sink.waiting.leave();
        }
    }
}

/// The place of a connection whose client has gone and whose rows wait for room. There are so few of these that others find places.
struct EndedPlace(Arc<PendingBytes>);

impl EndedPlace {
    fn take(front: &LineFront) -> Option<EndedPlace> {
        let place = EndedPlace(Arc::clone(&front.pending_bytes));
        // Relaxed: the number alone counts. One too many gives its place back by going.
        let before = place.0.ended.fetch_add(1, Ordering::Relaxed);
        (before < front.limits.line_connections_max.div_ceil(2)).then_some(place)
    }
}

impl Drop for EndedPlace {
    fn drop(&mut self) {
        self.0.ended.fetch_sub(1, Ordering::Relaxed);
    }
}
