//! PostgreSQL's wire protocol, version 3. Described in docs/reference/postgres.md; why it is implemented here: ADR
//! 59.
//!
//! - A connection is a task of the network's threads. Its statements run like those of HTTP and Flight, on threads of
//!   their own, in the same slots, with the same memory and time ([`statements`](crate::statements)).
//! - No client input sizes an allocation unchecked; messages, prepared statements and portals are bounded.
//! - Rows are sent as the client reads them. While a statement runs, its connection is read a little ahead, so a
//!   client that disconnects is noticed.

mod arrays;
mod cells;
mod commands;
mod connection;
mod copy;
mod copy_rows;
mod cursors;
mod encode;
mod extended;
#[cfg(test)]
mod fuzz;
mod messages;
mod parameters;
mod refusal;
mod replies;
mod scram;
mod startup;
mod statement;
mod times;
mod transaction_reads;
mod types;
mod values;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::messages::Reader;
use self::refusal::Refusal;
use self::startup::StartupStream;
use crate::audit::Peer;
use crate::cancellation::RunningStatements;
use crate::http::HttpState;
use crate::listen::{self, ConnectionLimit, ExceededLimit};
use crate::statements::Statements;
use crate::tls::Acceptor;

/// The protocol's name in TLS (ALPN).
pub(crate) const PROTOCOL: &[u8] = b"postgresql";

/// The state that connections share.
#[derive(Debug, Clone)]
pub(crate) struct PostgresFront {
    shared: Arc<HttpState>,
    /// Statements of a session that has PostgreSQL's catalogue.
    statements: Statements,
    tls: Option<Acceptor>,
    running: RunningStatements,
    /// Connections that there have been: each has a number by which its statements are cancelled.
    connections: Arc<AtomicU32>,
    /// Places for connections that are told that there is no place.
    refusals: Arc<Semaphore>,
}

/// Connections beyond the limits that are told so at a time; more are closed at once.
const REFUSALS_MAX: usize = 32;

/// How long such a connection may take for its first packet.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(2);

impl PostgresFront {
    /// # Errors
    /// The session with PostgreSQL's catalogue can't be set up.
    pub(crate) fn new(shared: Arc<HttpState>, tls: Option<Acceptor>) -> splay_sql::Result<PostgresFront> {
        let statements = shared.statements.in_session(shared.statements.session().for_postgres()?);
        Ok(PostgresFront {
            shared,
            statements,
            tls,
            running: RunningStatements::default(),
            connections: Arc::default(),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        })
    }
}

/// The stream of a connection.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

/// Takes connections until the server stops.
pub(crate) async fn serve(listener: TcpListener, front: PostgresFront, gate: ConnectionLimit) {
    let (stop, grace) = (front.shared.stop.clone(), front.shared.limits.shutdown());
    let refusing = front.clone();
    let serve = move |stream, client| {
        let peer = Peer::new(front.shared.auditor.clone(), "postgres", client);
        peer.serve(Box::pin(accept(front.clone(), stream, client)))
    };
    listen::accept(listener, "postgres", gate, stop, grace, serve, move |stream, exceeded| {
        let permit = Arc::clone(&refusing.refusals).try_acquire_owned().ok()?;
        Some(refuse(refusing.clone(), stream, exceeded, permit))
    })
    .await;
}

/// Tells a connection beyond the limits which one it is. A client that only cancels a statement is served: it may be what frees a place.
async fn refuse(front: PostgresFront, stream: TcpStream, exceeded: ExceededLimit, permit: OwnedSemaphorePermit) {
    let _permit = permit;
    let (limit, setting) = match exceeded {
        ExceededLimit::All(limit) => (format!("{limit} connections"), "postgres_connections_max"),
        ExceededLimit::Client(limit) => {
            (format!("{limit} connections from one address"), "postgres_client_connections_max")
        }
    };
    let text =
        format!("too many connections: this server takes {limit} (limits.{setting}). Close some, or try again later");
    let refusing = async {
        let (mut reader, _, _) = first_packet(&front, stream).await?;
        startup::refuse(reader.stream(), &Refusal::fatal("53300", text)).await;
        Some(())
    };
    if tokio::time::timeout(REFUSAL_PATIENCE, refusing).await.is_err() {
        tracing::debug!("a connection beyond the limits sent nothing");
    }
}

/// The first packet of a session, behind TLS if the client wants it, and whether it is; `None` if there is no session.
async fn first_packet(front: &PostgresFront, stream: TcpStream) -> Option<(Reader<Box<dyn Wire>>, Bytes, bool)> {
    match startup::negotiate(front, stream, front.tls.is_some()).await? {
        StartupStream::Plain(reader, packet) => Some((reader.boxed(), packet, false)),
        StartupStream::Tls(stream) => {
            let stream = front.tls.as_ref()?.accept(stream).await;
            let stream = stream.inspect_err(|error| tracing::debug!(%error, "TLS handshake failed")).ok()?;
            match startup::negotiate(front, stream, false).await? {
                StartupStream::Plain(reader, packet) => Some((reader.boxed(), packet, true)),
                StartupStream::Tls(_) => None,
            }
        }
    }
}

async fn accept(front: PostgresFront, stream: TcpStream, client: SocketAddr) {
    let beginning = async {
        let (reader, packet, is_tls) = first_packet(&front, stream).await?;
        startup::begin(&front, reader, packet, is_tls).await.map(Box::new)
    };
    // On the heap, and gone once the connection is set up.
    let begun = tokio::time::timeout(front.shared.limits.head(), Box::pin(beginning)).await;
    match begun {
        Ok(Some(connection)) => connection.run().await,
        Ok(None) => tracing::debug!(%client, "a connection was not set up"),
        Err(_) => tracing::debug!(%client, "a connection was not set up in time"),
    }
}

/// Bytes of a text that may have statements: as many as one may have.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Bytes of the name of a prepared statement, a portal or a savepoint.
const NAME_BYTES_MAX: usize = 1024;

fn check_text(text: &str) -> Result<(), Refusal> {
    match text.len() > TEXT_BYTES_MAX {
        true => Err(Refusal::new("54000", format!("a text has at most {TEXT_BYTES_MAX} bytes"))),
        false => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    match name.len() > NAME_BYTES_MAX {
        true => Err(Refusal::new("54000", format!("a name has at most {NAME_BYTES_MAX} bytes"))),
        false => Ok(()),
    }
}
