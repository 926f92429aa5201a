//! Line protocol over TCP, as QuestDB's clients send it: lines, and no answer.
//!
//! - A connection has a thread of its own, which reads, decodes and hands over: the network's threads do nothing long.
//! - What one read brought is handed over at once, so a lone line is not held back; under load reads grow, and so do batches.
//! - Only a line with its line feed is a line: what a broken connection leaves may be cut within a number.
//! - A bad line is counted and kept for the operator; the stream goes on.
//! - Without answers the only way to slow a client down is not to read: so many appends may wait for their ack, and a full
//!   disk is waited for. Batches that wait for it may come behind others of their connection that found room. Rows that are lost after all close the connection, so that the client notices.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::appends::class;
use crate::http::now;
use crate::ingest::{Ack, AckClass, Append, Ingest, IngestError};
use crate::lines::Lines;
use crate::listen::{self, Gate};
use crate::metrics::Metrics;
use crate::settings::Limits;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// How often a silent connection looks around.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// How long a full disk is waited for before it is asked again.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// What connections share.
#[derive(Debug, Clone)]
pub(crate) struct LineFront {
    pub(crate) ingest: Arc<dyn Ingest>,
    pub(crate) ack: AckClass,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gate: Gate,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Takes connections until the server stops.
pub(crate) async fn serve(listener: TcpListener, front: LineFront) {
    let (gate, stop, grace) = (front.gate.clone(), front.stop.clone(), front.limits.shutdown());
    listen::accept(listener, "line", gate, stop, grace, move |stream, client| {
        let front = front.clone();
        async move {
            let (sender, ended) = tokio::sync::oneshot::channel::<()>();
            let Ok(stream) = stream.into_std() else { return };
            let thread = std::thread::Builder::new().name("splay-line".to_owned());
            let spawned = thread.spawn(move || {
                let _sender = sender;
                Connection::new(front, client).run(stream);
            });
            match spawned {
                Ok(_) => drop(ended.await),
                Err(error) => tracing::error!(%client, %error, "no thread for a connection"),
            }
        }
    })
    .await;
}

/// Appends that wait for their ack.
#[derive(Debug, Default)]
struct Waiting {
    count: Mutex<usize>,
    fewer: Condvar,
    /// Appends that found no room once the journal was written, to be handed over again.
    again: Mutex<VecDeque<Append>>,
    /// Whether rows that had been taken were lost.
    lost: AtomicBool,
}

impl Waiting {
    fn enter(&self, max: usize) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = self.fewer.wait_while(count, |count| *count >= max).unwrap_or_else(PoisonError::into_inner);
        *count += 1;
    }

    fn leave(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.fewer.notify_all();
    }

    /// Waits until none is left, at most so long; whether none is.
    fn drain(&self, patience: Duration) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.fewer.wait_timeout_while(count, patience, |count| *count > 0);
        left.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    fn again(&self) -> MutexGuard<'_, VecDeque<Append>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Connection {
    lines: Lines,
    sink: Sink,
}

/// Where a connection's rows go.
struct Sink {
    front: LineFront,
    client: SocketAddr,
    waiting: Arc<Waiting>,
}

/// Why a connection ends before its client ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Server,
    Idle,
    Broken,
    Lost,
}

impl Connection {
    fn new(front: LineFront, client: SocketAddr) -> Connection {
        let lines = Lines::new(Arc::clone(&front.ingest), "line", front.ack, front.limits.lines());
        Connection { lines, sink: Sink { front, client, waiting: Arc::default() } }
    }

    fn run(mut self, stream: TcpStream) {
        let ended = self.read(stream);
        // A line without its line feed may be cut within a number, and is dropped.
        let ended = self.sink.finish().and(ended);
        let lost = self.sink.waiting.lost.load(Ordering::Acquire);
        let outcome = match ended {
            _ if lost => "lost",
            Err(Stop::Lost) => "lost",
            Err(Stop::Broken) => "broken",
            Err(Stop::Idle) => "idle",
            Ok(()) | Err(Stop::Server) => "ok",
        };
        self.sink.front.metrics.request("line", outcome);
        tracing::debug!(client = %self.sink.client, outcome, "a connection for line protocol ended");
    }

    fn read(&mut self, mut stream: TcpStream) -> Result<(), Stop> {
        let set_up = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK_AROUND)));
        set_up.map_err(|_| Stop::Broken)?;
        let mut buffer = vec![0; READ_BYTES];
        let mut heard = Instant::now();
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    heard = Instant::now();
                    self.sink.front.metrics.received("line", bytes);
                    self.lines.push(&buffer[..bytes], now(), |append| self.sink.submit(append))?;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if heard.elapsed() > self.sink.front.limits.idle() {
                        return Err(Stop::Idle);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Stop::Broken),
            }
            self.sink.submit_again()?;
            if self.sink.waiting.lost.load(Ordering::Acquire) {
                return Err(Stop::Lost);
            }
            if *self.sink.front.stop.borrow() {
                return Err(Stop::Server);
            }
        }
    }
}

impl Sink {
    /// Hands over what found no room, until it has found some. Nothing is read meanwhile.
    fn submit_again(&self) -> Result<(), Stop> {
        loop {
            let Some(append) = self.waiting.again().pop_front() else { return Ok(()) };
            if *self.front.stop.borrow() {
                return self.lost(&append, "the server stopped while it waited for room");
            }
            std::thread::sleep(FULL_PAUSE);
            self.submit(append)?;
        }
    }

    /// Waits for the acks of all that was handed over, and hands over again what found no room.
    fn finish(&self) -> Result<(), Stop> {
        loop {
            let is_told = self.waiting.drain(self.front.limits.shutdown());
            if self.waiting.again().is_empty() || !is_told {
                return Ok(());
            }
            self.submit_again()?;
        }
    }

    fn submit(&self, append: Append) -> Result<(), Stop> {
        loop {
            self.waiting.enter(self.front.limits.appends_waiting_max);
            match self.front.ingest.submit(append.clone(), Box::new(self.done(append.clone()))) {
                Ok(()) => return Ok(()),
                Err(IngestError::Full { reason }) => {
                    self.waiting.leave();
                    tracing::warn!(client = %self.client, reason, "a connection waits for room");
                    if *self.front.stop.borrow() {
                        return self.lost(&append, "the server stopped while it waited for room");
                    }
                    std::thread::sleep(FULL_PAUSE);
                }
                Err(IngestError::Rejected { table, reason }) => {
                    self.waiting.leave();
                    self.front.ingest.reject("line", format!("table {table:?}: {reason}"), &[]);
                    return Ok(());
                }
                Err(error) => {
                    self.waiting.leave();
                    return self.lost(&append, &error.to_string());
                }
            }
        }
    }

    fn lost(&self, append: &Append, reason: &str) -> Result<(), Stop> {
        let rows = append.rows.num_rows();
        tracing::error!(client = %self.client, table = append.table, rows, reason, "rows were lost");
        Err(Stop::Lost)
    }

    /// What is done when an append is acknowledged.
    fn done(&self, append: Append) -> impl FnOnce(Result<Ack, IngestError>) + Send + 'static {
        let (waiting, metrics, ingest) =
            (Arc::clone(&self.waiting), Arc::clone(&self.front.metrics), Arc::clone(&self.front.ingest));
        let (class, client, start) = (class(self.front.ack), self.client, Instant::now());
        move |acked| {
            match acked {
                Ok(ack) => metrics.append("line", "ok", class, ack.rows, start),
                Err(IngestError::Rejected { table, reason }) => {
                    metrics.append("line", "refused", class, 0, start);
                    ingest.reject("line", format!("table {table:?}: {reason}"), &[]);
                }
                Err(IngestError::Full { reason }) => {
                    metrics.append("line", "full", class, 0, start);
                    tracing::warn!(%client, reason, "a connection waits for room");
                    waiting.again().push_back(append);
                }
                Err(error) => {
                    metrics.append("line", "failed", class, 0, start);
                    tracing::error!(%client, table = append.table, %error, "rows were lost");
                    waiting.lost.store(true, Ordering::Release);
                }
            }
            waiting.leave();
        }
    }
}
