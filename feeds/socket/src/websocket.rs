//! A venue's WebSocket: connects, subscribes, reads, and connects again with growing waits.
//!
//! The thread reads with a short timeout, so that it looks after pings, silence and the end of the process between two messages.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::arrival_queue::{Arrival, ArrivalQueue};
use crate::settings::FeedSettings;

/// The longest that a step of connecting may take: TCP, TLS, the WebSocket's opening.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest wait of a read.
const TURN: Duration = Duration::from_millis(100);

/// The first wait before the next attempt.
const WAIT: Duration = Duration::from_millis(500);

/// After a connection that lasted longer than this, the next wait is the first one again.
const LONG: Duration = Duration::from_secs(60);

/// A connection, encrypted or not.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.get_ref(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(buffer),
            Stream::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// A venue's WebSocket.
pub struct VenueConnection<'a> {
    settings: &'a FeedSettings,
    url: &'a str,
    tls: Option<Arc<ClientConfig>>,
    /// Whether the venue has refused a subscription. The thread that makes rows finds this in the messages.
    is_refused: &'a AtomicBool,
}

impl std::fmt::Debug for VenueConnection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VenueConnection").field("feed", &self.settings.name).finish_non_exhaustive()
    }
}

impl<'a> VenueConnection<'a> {
    /// The venue of a feed's settings. Doesn't connect yet.
    ///
    /// # Errors
    /// An address that is none, certificates that can't be read.
    pub fn new(
        settings: &'a FeedSettings,
        url: &'a str,
        is_refused: &'a AtomicBool,
    ) -> Result<VenueConnection<'a>, String> {
        url.into_client_request().map_err(|error| format!("url: {error}"))?;
        let tls = if url.starts_with("wss://") { Some(tls(settings.ca_file.as_deref())?) } else { None };
        Ok(VenueConnection { settings, url, tls, is_refused })
    }

    /// Reads until the process ends.
    pub fn run(&self, queue: &ArrivalQueue<'_>) {
        let longest = Duration::from_secs(self.settings.retry_seconds_max).max(WAIT);
        let mut wait = WAIT;
        while !queue.stop.is_set() {
            let began = Instant::now();
            let reason = match self.open() {
                Err(reason) => {
                    queue.counts.refusals.add(1);
                    reason
                }
                Ok(mut socket) => {
                    queue.counts.connections.add(1);
                    tracing::info!(feed = self.settings.name, "is connected");
                    let reason = self.read(&mut socket, queue).unwrap_or_else(|reason| reason);
                    queue.counts.disconnections.add(1);
                    // The connection is closed without waiting for the answer.
                    socket.close(None).and_then(|()| socket.flush()).ok();
                    reason
                }
            };
            if queue.stop.is_set() {
                return;
            }
            wait = if began.elapsed() > LONG { WAIT } else { wait };
            tracing::warn!(
                feed = self.settings.name,
                reason,
                wait_ms = wait.as_millis(),
                "the connection has ended: what the venue sends until the next is missing"
            );
            let until = Instant::now() + wait;
            while !queue.stop.is_set() && Instant::now() < until {
                queue.stop.wait(until.saturating_duration_since(Instant::now()).min(TURN));
            }
            wait = (wait * 2).min(longest);
        }
    }

    /// Connects, and sends the subscriptions.
    fn open(&self) -> Result<WebSocket<Stream>, String> {
        let request = self.url.into_client_request().map_err(|error| error.to_string())?;
        let uri = request.uri();
        let host = uri.host().ok_or("the url has no host")?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let tcp = connect(&host, port)?;
        let io = |error: std::io::Error| error.to_string();
        tcp.set_nodelay(true).map_err(io)?;
        tcp.set_read_timeout(Some(CONNECT)).map_err(io)?;
        tcp.set_write_timeout(Some(CONNECT)).map_err(io)?;
        let stream = match &self.tls {
            None => Stream::Plain(tcp),
            Some(config) => {
                let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
                let connection = ClientConnection::new(Arc::clone(config), name).map_err(|error| error.to_string())?;
                Stream::Tls(Box::new(StreamOwned::new(connection, tcp)))
            }
        };
        let bytes_max = self.settings.message_bytes_max;
        let config = WebSocketConfig::default()
            .max_message_size(Some(bytes_max))
            .max_frame_size(Some(bytes_max))
            .max_write_buffer_size(1 << 20)
            .read_buffer_size(64 << 10);
        let opened = tungstenite::client::client_with_config(request, stream, Some(config));
        let (mut socket, _) = opened.map_err(|error| format!("the WebSocket doesn't open: {error}"))?;
        for text in &self.settings.send {
            socket.send(Message::text(text.as_str())).map_err(|error| error.to_string())?;
        }
        socket.get_ref().socket().set_read_timeout(Some(TURN)).map_err(io)?;
        self.is_refused.store(false, Ordering::SeqCst);
        Ok(socket)
    }

    /// Reads until the connection ends, and returns the reason.
    fn read(&self, socket: &mut WebSocket<Stream>, queue: &ArrivalQueue<'_>) -> Result<String, String> {
        let seconds = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
        let settings = self.settings;
        let (ping, silent) = (seconds(settings.ping_seconds), seconds(settings.silent_seconds_max));
        let quiet = seconds(settings.quiet_seconds_max);
        let (mut pinged, mut heard, mut last_message) = (Instant::now(), Instant::now(), Instant::now());
        while !queue.stop.is_set() {
            match socket.read() {
                // A wait for room in the queue is no silence of the venue.
                Ok(Message::Text(text)) => {
                    queue.put(Arrival::now(text.as_bytes().to_vec()));
                    (last_message, heard) = (Instant::now(), Instant::now());
                }
                Ok(Message::Binary(bytes)) => {
                    queue.put(Arrival::now(bytes.to_vec()));
                    (last_message, heard) = (Instant::now(), Instant::now());
                }
                Ok(Message::Close(frame)) => {
                    return Ok(frame.map_or_else(
                        || "the venue closes it".to_owned(),
                        |frame| format!("the venue closes it: {} {}", frame.code, frame.reason),
                    ));
                }
                Ok(_) => heard = Instant::now(),
                Err(Error::Io(error)) if is_idle(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
            if self.is_refused.swap(false, Ordering::SeqCst) {
                return Err("the venue refuses a subscription".to_owned());
            }
            if silent.is_some_and(|silent| heard.elapsed() > silent) {
                return Err(format!("nothing has come for {} s", settings.silent_seconds_max));
            }
            if quiet.is_some_and(|quiet| last_message.elapsed() > quiet) {
                return Err(format!("no message has come for {} s", settings.quiet_seconds_max));
            }
            if ping.is_some_and(|ping| pinged.elapsed() > ping) {
                pinged = Instant::now();
                socket.send(Message::Ping(Vec::new().into())).map_err(|error| error.to_string())?;
                if let Some(text) = &settings.ping_text {
                    socket.send(Message::text(text.as_str())).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok("the process ends".to_owned())
    }
}

/// Whether a read ended without bytes, because its time was over or a signal came.
pub(crate) fn is_idle(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    let mut last = format!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(last)
}

fn tls(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = ca_file {
        let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| cannot(&error))? {
            roots.add(certificate.map_err(|error| cannot(&error))?).map_err(|error| cannot(&error))?;
        }
        if roots.is_empty() {
            return Err(cannot(&"no certificate in it"));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
