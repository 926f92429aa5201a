//! The server as a whole: checks the settings, binds the listeners, runs, and stops.

use std::net::SocketAddr;
use std::sync::Arc;

use splay_sql::{Session, SessionSettings};
use splay_store::Database;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};

use crate::appends::Appends;
use crate::audit::Auditor;
use crate::auth::Tokens;
use crate::callers::Callers;
use crate::error::{Error, Result};
use crate::http::HttpState;
use crate::ingest::{Ingest, Pace, Replay, ReplayRequest, ReplayView, SubscriptionStart, SystemClock};
use crate::line::{self, LineFront};
use crate::line_keys::LineKeys;
use crate::listen::{self, ConnectionLimit, HttpFront, Version};
use crate::metrics::Metrics;
use crate::oidc::IdentityProvider;
use crate::quotas::Quotas;
use crate::refresh;
use crate::settings::{Address, LINE_ADDRESS, Settings};
use crate::sources::Sources;
use crate::statements::Statements;
use crate::subscriptions::Subscriptions;
use crate::tls::{Acceptor, CertificateReload};
use crate::{flight, http, postgres, tls};

/// The addresses on which a server listens. With port 0 in the settings, the port that the system chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// HTTP and WebSocket.
    pub http: Option<SocketAddr>,
    /// Flight and Flight SQL.
    pub flight: Option<SocketAddr>,
    /// PostgreSQL's wire protocol.
    pub postgres: Option<SocketAddr>,
    /// Line protocol over TCP.
    pub line: Option<SocketAddr>,
    /// Whether HTTP, Flight and PostgreSQL's wire protocol speak TLS.
    pub tls: bool,
}

/// A server that listens. Connections wait until it runs.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    shared: Arc<HttpState>,
    gate: ConnectionLimit,
    stop: watch::Sender<bool>,
    http: Option<(TcpListener, Option<Acceptor>)>,
    flight: Option<(TcpListener, Option<Acceptor>)>,
    postgres: Option<(TcpListener, postgres::PostgresFront)>,
    line: Option<(TcpListener, Option<tls::Acceptor>)>,
    addresses: Addresses,
    certificate: CertificateReload,
}

impl Server {
    /// Checks the settings and starts to listen. Without `ingest` the server only reads.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Open`] for an address that other machines reach without token and TLS, [`Error::Bind`],
    /// [`Error::Tls`], [`Error::Io`].
    pub async fn bind(settings: Settings, database: Database, ingest: Option<Arc<dyn Ingest>>) -> Result<Server> {
        Server::bind_any(settings, database, ingest, None).await
    }

    /// Checks, before capture begins, what would let [`Server::bind`] fail: certificate, key, and addresses that are taken. A start of capture
    /// that serves nothing would leave a journal file.
    ///
    /// # Errors
    /// [`Error::Tls`], [`Error::Bind`].
    pub fn check(settings: &Settings) -> Result<()> {
        if let Some(tls) = &settings.tls {
            tls::acceptor(tls, Version::One.protocol())?;
        }
        settings.line.keys.as_deref().map(LineKeys::read).transpose()?;
        let (http, flight, postgres) = (settings.http.address, settings.flight.address, settings.postgres.address);
        let line = settings.line.address.unwrap_or(Address::Off);
        for (listener, address) in [("http", http), ("flight", flight), ("postgres", postgres), ("line", line)] {
            if let Address::At(address) = address {
                // Without listening, so that no client connects.
                let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
                let bound = socket.and_then(|socket| socket.set_reuseaddr(true).and_then(|()| socket.bind(address)));
                bound.map_err(|source| Error::Bind { listener, address, source })?;
            }
        }
        Ok(())
    }

    /// Like [`Server::bind`], for a server that only reads and whose subscribers share one replay, which begins with the first of them.
    ///
    /// # Errors
    /// As [`Server::bind`]; [`Error::Setting`] for what can't be replayed.
    pub async fn bind_replay(settings: Settings, database: Database, request: ReplayRequest) -> Result<Server> {
        let pace = Pace::new(Arc::new(SystemClock::default()));
        // Begun once, so that what is wrong with it is said now.
        let view = ReplayView { tables: None, symbols: None, columns: None, from: SubscriptionStart::Now };
        Replay::begin(&database, &request, &view, pace.clone())
            .map_err(|error| Error::Setting { setting: "replay".to_owned(), reason: error.to_string() })?;
        Server::bind_any(settings, database, None, Some((Arc::new(request), pace))).await
    }

    async fn bind_any(
        settings: Settings,
        database: Database,
        ingest: Option<Arc<dyn Ingest>>,
        replay: Option<(Arc<ReplayRequest>, Pace)>,
    ) -> Result<Server> {
        settings.validate()?;
        let tokens = Tokens::read(&settings.auth)?;
        // If the list of users can't be read, nobody is let in.
        let has_users = database.access().map_or(true, |access| access.has_users());
        let is_open = tokens.are_none() && !has_users && settings.auth.oidc.is_none();
        let (http, flight) = (settings.http.address, settings.flight.address);
        // Line protocol has no tokens. A server that asks for tokens elsewhere takes no lines, unless its settings name an address or keys for them.
        let default = if is_open || settings.line.keys.is_some() {
            LINE_ADDRESS.parse().unwrap_or(Address::Off)
        } else {
            Address::Off
        };
        let line = if ingest.is_some() { settings.line.address.unwrap_or(default) } else { Address::Off };
        let postgres = settings.postgres.address;
        let listeners = [("http", http), ("flight", flight), ("postgres", postgres), ("line", line)];
        refuse_open(&settings, is_open, listeners)?;
        let is_local = listeners.iter().all(|(_, address)| {
            matches!(address, Address::At(at) if at.ip().is_loopback()) || *address == Address::Off
        });
        let auditor = Auditor::open(&settings.audit, &database)?;

        let acceptor =
            |protocol: &'static [u8]| settings.tls.as_ref().map(|tls| tls::acceptor(tls, protocol)).transpose();
        let (http_tls, flight_tls) = (acceptor(Version::One.protocol())?, acceptor(Version::Two.protocol())?);
        let postgres_tls = acceptor(postgres::PROTOCOL)?;
        let line_tls = if settings.line.tls { acceptor(&[])? } else { None };
        let http = listen("http", http).await?;
        let flight = listen("flight", flight).await?;
        let postgres = listen("postgres", postgres).await?;
        let line = listen("line", line).await?;
        let address =
            |listener: &Option<TcpListener>| listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let addresses = Addresses {
            http: address(&http),
            flight: address(&flight),
            postgres: address(&postgres),
            line: address(&line),
            tls: settings.tls.is_some(),
        };

        let limits = settings.limits.clone();
        let session = SessionSettings {
            memory_bytes: limits.statement_bytes_max,
            total_memory_bytes: limits.statements_bytes(),
            result_cache_bytes: limits.result_cache_bytes,
            ..SessionSettings::default()
        };
        let metrics = Arc::new(Metrics::new(ingest.clone(), auditor.clone()));
        let acceptors = [&http_tls, &flight_tls, &postgres_tls, &line_tls].into_iter().flatten().cloned().collect();
        let certificate = CertificateReload::new(settings.tls.clone(), acceptors, Arc::clone(&metrics));
        let quotas = Quotas::new(metrics.quota_refusals.clone());
        let port = addresses.http.map_or(0, |address| address.port());
        let vouching =
            settings.auth.oidc.as_ref().map(|oidc| IdentityProvider::new(oidc, port, addresses.tls)).transpose()?;
        let callers = Callers::new(tokens, &settings.auth, database.clone(), is_local, vouching, quotas)?;
        let sources = Sources {
            ingest: ingest.clone(),
            replay,
            database: database.clone(),
            queue_bytes_max: limits.subscription_bytes_max,
        };
        let session = Session::new(database, session)
            .map_err(|error| Error::Setting { setting: "session".to_owned(), reason: error.to_string() })?;
        let (stop, stopped) = watch::channel(false);
        let subscriptions = Subscriptions::new(sources, &limits, Arc::clone(&metrics), stopped.clone());
        let shared = Arc::new(HttpState {
            statements: Statements::new(session, limits.clone(), settings.log.clone(), Arc::clone(&metrics)),
            subscriptions,
            appends: ingest.map(|ingest| Appends::new(ingest, Arc::clone(&metrics))),
            callers,
            auditor: auditor.clone(),
            limits: limits.clone(),
            metrics: Arc::clone(&metrics),
            followers: Arc::new(Semaphore::new(http::FOLLOWER_REQUESTS_MAX)),
            stop: stopped,
        });
        let session =
            |error: splay_sql::Error| Error::Setting { setting: "session".to_owned(), reason: error.to_string() };
        let front = |listener| {
            Ok((listener, postgres::PostgresFront::new(Arc::clone(&shared), postgres_tls).map_err(session)?))
        };
        let postgres = postgres.map(front).transpose()?;
        auditor.note_server("start", started(&settings, &addresses));
        Ok(Server {
            gate: ConnectionLimit::new(&limits, metrics),
            settings,
            shared,
            stop,
            http: http.map(|listener| (listener, http_tls)),
            flight: flight.map(|listener| (listener, flight_tls)),
            postgres,
            line: line.map(|listener| (listener, line_tls)),
            addresses,
            certificate,
        })
    }

    /// The addresses on which it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What reads the certificate and its key anew while the server runs.
    #[must_use]
    pub fn certificate(&self) -> CertificateReload {
        self.certificate.clone()
    }

    /// Serves until `stop` is over. Then nothing new is taken, requests under way end or are cut off after
    /// [`shutdown_seconds_max`](crate::settings::Limits::shutdown_seconds_max), and capture is closed.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { settings, shared, gate, stop: stopping, http, flight, postgres, line, .. } = self;
        let front = |name, version, router, tls| HttpFront {
            name,
            version,
            router,
            tls,
            limits: settings.limits.clone(),
            gate: gate.clone(),
            auditor: shared.auditor.clone(),
            stop: shared.stop.clone(),
        };
        let mut listeners = tokio::task::JoinSet::new();
        // A server that only reads doesn't refresh views.
        if let (Some(every), Some(appends)) = (settings.views.every(), &shared.appends) {
            let (session, ingest) = (shared.statements.session().clone(), Arc::clone(appends.ingest()));
            listeners.spawn(refresh::refresh(session, ingest, every, shared.stop.clone()));
        }
        if let Some((listener, tls)) = http {
            let router = http::router(Arc::clone(&shared));
            listeners.spawn(listen::serve(listener, front("http", Version::One, router, tls)));
        }
        if let Some((listener, tls)) = flight {
            let router = flight::router(Arc::clone(&shared));
            listeners.spawn(listen::serve(listener, front("flight", Version::Two, router, tls)));
        }
        if let Some((listener, front)) = postgres {
            let gate = ConnectionLimit::for_postgres(&settings.limits, Arc::clone(&shared.metrics));
            listeners.spawn(postgres::serve(listener, front, gate));
        }
        if let (Some((listener, tls)), Some(appends)) = (line, &shared.appends) {
            let front = LineFront {
                ingest: Arc::clone(appends.ingest()),
                callers: shared.callers.clone(),
                auditor: shared.auditor.clone(),
                ack: settings.line.ack,
                keys: settings.line.keys.clone(),
                tls,
                limits: settings.limits.clone(),
                metrics: Arc::clone(&shared.metrics),
                gate: ConnectionLimit::for_lines(&settings.limits, Arc::clone(&shared.metrics)),
                pending_bytes: Arc::default(),
                stop: shared.stop.clone(),
            };
            listeners.spawn(line::serve(listener, front));
        }
        stop.await;
        tracing::info!("stopping");
        let _ = stopping.send(true);
        while listeners.join_next().await.is_some() {}
        // WebSockets are no longer connections of a listener.
        let _ = tokio::time::timeout(settings.limits.shutdown(), shared.subscriptions.drained()).await;
        if let Some(appends) = &shared.appends {
            let ingest = Arc::clone(appends.ingest());
            let closed = tokio::task::spawn_blocking(move || ingest.close()).await;
            match closed {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "capture didn't close well"),
                Err(error) => tracing::error!(%error, "capture didn't close"),
            }
        }
        let auditor = shared.auditor.clone();
        auditor.note_server("stop", String::new());
        if let Err(error) = tokio::task::spawn_blocking(move || auditor.close()).await {
            tracing::error!(%error, "the audit log didn't close");
        }
        tracing::info!("stopped");
    }
}

/// The text of the audit record of a start.
fn started(settings: &Settings, addresses: &Addresses) -> String {
    let Addresses { http, flight, postgres, line, tls } = addresses;
    let listeners = [("http", http), ("flight", flight), ("postgres", postgres), ("line", line)];
    let at = listeners.into_iter().filter_map(|(name, address)| Some(format!(", {name} {}", (*address)?)));
    let (version, at) = (env!("CARGO_PKG_VERSION"), at.collect::<String>());
    format!("splay {version}, audit.log {:?}, tls {tls}{at}", settings.audit.log).to_lowercase()
}

/// Refuses an address that other machines reach without what protects it.
fn refuse_open(settings: &Settings, is_open: bool, listeners: [(&'static str, Address); 4]) -> Result<()> {
    for (listener, address) in listeners {
        let Address::At(address) = address else { continue };
        if address.ip().is_loopback() {
            continue;
        }
        let missing = match (listener, is_open, settings.tls.is_none()) {
            ("line", _, _) if settings.line.keys.is_some() && settings.line.tls => continue,
            ("line", _, _) => {
                "line protocol over TCP needs line.keys and line.tls; or use /api/v2/write of HTTP instead"
            }
            (_, true, true) => "create users or set [auth] with a token, and set [tls] with a certificate",
            (_, true, false) => "create users, or set [auth] with a token, which `splay token` makes",
            (_, false, true) => "set [tls] with a certificate and a key",
            (_, false, false) => continue,
        };
        return Err(Error::Open { listener, address, missing });
    }
    Ok(())
}

async fn listen(listener: &'static str, address: Address) -> Result<Option<TcpListener>> {
    let Address::At(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|source| Error::Bind { listener, address, source })
}
