//! Connections: accepted under limits, wrapped in TLS, served as HTTP/1 or HTTP/2.
//!
//! - A connection beyond the limits is closed at once, or told the limit where its protocol has a message for that; one that sends no request in time
//!   is closed later.
//! - Each listener speaks one version of HTTP: HTTP/1 for HTTP and WebSocket, HTTP/2 for Flight.
//! - When the server stops, requests under way end; connections without one are closed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::{ServiceExt, service_fn};

use crate::audit::{Auditor, Peer};
use crate::metrics::{GaugeGuard, Metrics};
use crate::settings::Limits;
use crate::tls::Acceptor;

/// Bytes of the head of an HTTP/1 request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header lines of a request.
const HEADERS_MAX: usize = 100;
/// Requests of one HTTP/2 connection at a time.
const STREAMS_MAX: u32 = 64;
/// Interval between pings to an HTTP/2 client.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Bytes of an HTTP/2 stream that may be under way: enough for a fast network on one machine.
const WINDOW_BYTES: u32 = 4 << 20;

/// Counts connections, over some listeners and for each client.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    all: Arc<Semaphore>,
    clients: Arc<Mutex<HashMap<IpAddr, usize>>>,
    max: usize,
    client_max: usize,
    metrics: Arc<Metrics>,
}

/// The limit that a connection exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    /// That of all connections.
    All(usize),
    /// That of the connections from one address.
    Client(usize),
}

/// A connection's place. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    _counted: GaugeGuard,
    clients: Arc<Mutex<HashMap<IpAddr, usize>>>,
    client: IpAddr,
}

impl ConnectionLimit {
    /// Places for HTTP and Flight.
    pub(crate) fn new(limits: &Limits, metrics: Arc<Metrics>) -> ConnectionLimit {
        ConnectionLimit::of(limits.connections_max, limits.client_connections_max, metrics)
    }

    /// Places for line protocol over TCP: connections without an answer are held long, and must not keep requests out.
    pub(crate) fn for_lines(limits: &Limits, metrics: Arc<Metrics>) -> ConnectionLimit {
        ConnectionLimit::of(limits.line_connections_max, limits.line_client_connections_max, metrics)
    }

    /// Places for PostgreSQL's wire protocol, whose connections clients keep.
    pub(crate) fn for_postgres(limits: &Limits, metrics: Arc<Metrics>) -> ConnectionLimit {
        ConnectionLimit::of(limits.postgres_connections_max, limits.postgres_client_connections_max, metrics)
    }

    fn of(max: usize, client_max: usize, metrics: Arc<Metrics>) -> ConnectionLimit {
        let all = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        ConnectionLimit { all, clients: Arc::default(), max, client_max, metrics }
    }

    /// A place for a connection of `client`, if there is one.
    pub(crate) fn enter(&self, listener: &'static str, client: IpAddr) -> Result<ConnectionPermit, ExceededLimit> {
        self.try_enter(listener, client).inspect_err(|_| {
            self.metrics.connection_refused(listener);
            tracing::warn!(listener, %client, "a connection beyond the limits was closed");
        })
    }

    fn try_enter(&self, listener: &'static str, client: IpAddr) -> Result<ConnectionPermit, ExceededLimit> {
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| ExceededLimit::All(self.max))?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = clients.entry(client).or_default();
        if *connections >= self.client_max {
            return Err(ExceededLimit::Client(self.client_max));
        }
        *connections += 1;
        let counted = self.metrics.open(listener);
        Ok(ConnectionPermit { _permit: permit, _counted: counted, clients: Arc::clone(&self.clients), client })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut connections) = clients.entry(self.client) {
            *connections.get_mut() -= 1;
            if *connections.get() == 0 {
                connections.remove();
            }
        }
    }
}

/// Versions of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    /// The protocol's name in TLS (ALPN).
    pub(crate) fn protocol(self) -> &'static [u8] {
        match self {
            Version::One => b"http/1.1",
            Version::Two => b"h2",
        }
    }
}

/// The parts that a listener for HTTP needs.
#[derive(Debug, Clone)]
pub(crate) struct HttpFront {
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) router: Router,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) limits: Limits,
    pub(crate) gate: ConnectionLimit,
    pub(crate) auditor: Auditor,
    /// Turns true when the server stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Waits until the server stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender is gone: the server is too.
    let _ = stop.wait_for(|stopped| *stopped).await;
}

/// Closes a connection beyond the limits at once.
pub(crate) fn closed_at_once(_: TcpStream, _: ExceededLimit) -> Option<std::future::Ready<()>> {
    None
}

/// Accepts connections until the server stops; gives each to `serve`, or to `refuse` if it is beyond the limits, which is done with it quickly. Then
/// waits for those under way.
pub(crate) async fn accept<F, S, G, R>(
    listener: TcpListener,
    name: &'static str,
    gate: ConnectionLimit,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
    serve: S,
    refuse: R,
) where
    S: Fn(TcpStream, SocketAddr) -> F,
    F: Future<Output = ()> + Send + 'static,
    R: Fn(TcpStream, ExceededLimit) -> Option<G>,
    G: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        while connections.try_join_next().is_some() {}
        let (stream, client) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file handles, most likely: they come back.
                tracing::error!(listener = name, %error, "can't accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pass = match gate.enter(name, client.ip()) {
            Ok(pass) => pass,
            Err(exceeded) => {
                if let Some(refused) = refuse(stream, exceeded) {
                    connections.spawn(refused);
                }
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        // On the heap: a future that is moved into another takes its room twice.
        let served = Box::pin(serve(stream, client));
        connections.spawn(async move {
            let _pass = pass;
            served.await;
        });
    }
    drop(listener);
    let ended = tokio::time::timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!(listener = name, connections = connections.len(), "connections were cut off");
        connections.shutdown().await;
    }
}

/// Serves HTTP on a listener until the server stops.
pub(crate) async fn serve(listener: TcpListener, front: HttpFront) {
    let (name, gate, stop, grace) = (front.name, front.gate.clone(), front.stop.clone(), front.limits.shutdown());
    let serve = move |stream, client| connection(front.clone(), stream, client);
    accept(listener, name, gate, stop, grace, serve, closed_at_once).await;
}

async fn connection(front: HttpFront, stream: TcpStream, client: SocketAddr) {
    let Some(tls) = front.tls.clone() else { return Box::pin(speak(front, stream, client)).await };
    match tokio::time::timeout(front.limits.head(), tls.accept(stream)).await {
        Ok(Ok(stream)) => Box::pin(speak(front, stream, client)).await,
        Ok(Err(error)) => tracing::debug!(%client, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%client, "TLS handshake took too long"),
    }
}

async fn speak(front: HttpFront, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, client: SocketAddr) {
    let requested = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&requested);
    // Requests of HTTP/2 run on tasks of their own: each is given the peer.
    let (peer, router) = (Peer::new(front.auditor, front.name, client), front.router);
    let service = TowerToHyperService::new(service_fn(move |request: Request<Incoming>| {
        seen.store(true, Ordering::Release);
        let answered = router.clone().oneshot(request.map(axum::body::Body::new));
        Arc::clone(&peer).serve(answered)
    }));
    let (io, head, mut stop) = (TokioIo::new(stream), front.limits.head(), front.stop);
    // Regression: a client that connects and sends nothing, or half of a preface.
    let silence = async {
        tokio::time::sleep(head).await;
        if requested.load(Ordering::Acquire) {
            std::future::pending::<()>().await
        }
    };
    // Each version has a connection type of its own, without a trait over both.
    macro_rules! drive {
        ($connection:expr) => {{
            // On the heap, so that a connection has room for its own version alone.
            let mut connection = Box::pin($connection);
            let mut silence = pin!(silence);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = &mut silence => return tracing::debug!(%client, "a connection without a request was closed"),
                () = stopped(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    connection.as_mut().await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%client, %error, "connection ended");
            }
        }};
    }
    match front.version {
        Version::One => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(head)
                .max_buf_size(HEAD_BYTES_MAX)
                .max_headers(HEADERS_MAX);
            drive!(builder.serve_connection(io, service).with_upgrades())
        }
        Version::Two => {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_INTERVAL)
                .max_concurrent_streams(STREAMS_MAX)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES * 2)
                .max_frame_size(1 << 20)
                .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
            drive!(builder.serve_connection(io, service))
        }
    }
}
