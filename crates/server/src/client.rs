//! An HTTP client of a server, for commands, with token and TLS.
//!
//! - Each request has a connection of its own, because commands send few, large requests; a [`Connection`] is reused.
//! - An answer is read as a whole, up to a limit. If no answer arrives, the effect of the request is unknown.

use std::path::Path;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::request::Builder;
use axum::http::{Method, Request, Uri, header};
use bytes::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use crate::authority::{connector, handshake_fault};
use crate::error::{Error, Result};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// For a request and its answer, but for statements.
const PATIENCE: Duration = Duration::from_secs(60);

/// For a statement and its answer. The server's own limit ends it long before.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// For a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Speaks with one server.
#[derive(Clone)]
pub struct Client {
    url: String,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    token: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A server's answer.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// Status of HTTP.
    pub status: u16,
    /// The body, most often JSON.
    pub body: Bytes,
}

impl Client {
    /// A client of the server at `url`, such as `http://127.0.0.1:7750`. For `https`, `authority` is a PEM file of the certificates that vouch for
    /// the server's, or its own; without it those of the system do.
    ///
    /// # Errors
    /// [`Error::Setting`] for an address that is none; [`Error::Tls`] for a file without certificates.
    pub fn new(url: &str, token: Option<String>, authority: Option<&Path>) -> Result<Client> {
        Client::with_roots(url, token, || connector(authority, "--authority"))
    }

    /// The same with the certificate authority of the server, which is needed for TLS.
    ///
    /// # Errors
    /// Those of [`Client::new`], and of `connector`.
    pub(crate) fn with_roots(
        url: &str,
        token: Option<String>,
        connector: impl FnOnce() -> Result<TlsConnector>,
    ) -> Result<Client> {
        let wrong = |reason: &str| Error::Setting { setting: url.to_owned(), reason: reason.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong("is no address such as http://127.0.0.1:7750"))?;
        let host = uri.host().ok_or_else(|| wrong("names no host"))?.trim_matches(['[', ']']).to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => {
                let name =
                    ServerName::try_from(host.clone()).map_err(|_| wrong("has no name that a certificate can have"))?;
                (443, Some((connector()?, name)))
            }
            _ => return Err(wrong("is neither http nor https")),
        };
        Ok(Client { url: url.trim_end_matches('/').to_owned(), host, port: uri.port_u16().unwrap_or(port), tls, token })
    }

    /// Asks for what is at a path.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Protocol`].
    pub async fn get(&self, path: &str) -> Result<HttpAnswer> {
        self.request(Method::GET, path, None, Body::empty()).await
    }

    /// Sends a body of JSON to a path.
    ///
    /// # Errors
    /// Those of [`Client::post`].
    pub async fn post_json(&self, path: &str, body: Bytes) -> Result<HttpAnswer> {
        self.request(Method::POST, path, Some("application/json"), Body::from(body)).await
    }

    /// Sends a statement as JSON to a path, and waits for it as long as the server lets it run. The statement ends if this is dropped.
    ///
    /// # Errors
    /// Those of [`Client::post`].
    pub async fn post_statement(&self, path: &str, body: Bytes) -> Result<HttpAnswer> {
        let head = self.head(Method::POST, path, Some("application/json"));
        self.exchange(head, Body::from(body), ANSWER_BYTES_MAX, STATEMENT_PATIENCE).await
    }

    /// Sends a body to a path.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: the body was not taken, or perhaps it was; [`Error::Protocol`].
    pub async fn post(&self, path: &str, body: Bytes) -> Result<HttpAnswer> {
        self.request(Method::POST, path, None, Body::from(body)).await
    }

    /// A connection that is kept for many requests.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection { client: self.clone(), opened: None }
    }

    async fn request(&self, method: Method, path: &str, kind: Option<&str>, body: Body) -> Result<HttpAnswer> {
        self.exchange(self.head(method, path, kind), body, ANSWER_BYTES_MAX, PATIENCE).await
    }

    /// Sends a request with a head of [`Client::head`]. An answer that sends it elsewhere is an answer.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Protocol`].
    pub(crate) async fn exchange(
        &self,
        head: Builder,
        body: Body,
        bytes_max: usize,
        patience: Duration,
    ) -> Result<HttpAnswer> {
        let exchange = async {
            let request = head.body(body).map_err(|error| error.to_string())?;
            self.open().await?.send(request, bytes_max).await
        };
        self.within(patience, exchange).await
    }

    /// Waits for an exchange within a time.
    async fn within<T>(&self, patience: Duration, exchange: impl Future<Output = Result<T, Fault>>) -> Result<T> {
        let url = || self.url.clone();
        match tokio::time::timeout(patience, exchange).await {
            Ok(answered) => answered.map_err(|fault| match fault {
                Fault::NoAnswer(reason) => Error::Unreachable { url: url(), reason },
                Fault::Protocol(reason) => Error::Protocol { url: url(), reason },
            }),
            Err(_) => {
                Err(Error::Unreachable { url: url(), reason: format!("no answer within {} s", patience.as_secs()) })
            }
        }
    }

    /// The head of a request to a path.
    pub(crate) fn head(&self, method: Method, path: &str, kind: Option<&str>) -> Builder {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, format!("{host}:{}", self.port));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        request
    }

    async fn open(&self) -> Result<OpenConnection, Fault> {
        let connected = TcpStream::connect((self.host.as_str(), self.port));
        let connected = tokio::time::timeout(CONNECT_PATIENCE, connected).await;
        let stream = connected.map_err(|_| "no connection".to_owned())?.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => OpenConnection::over(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| {
                    let fault = handshake_fault(&error, &self.host);
                    fault.map_or_else(|| Fault::NoAnswer(error.to_string()), Fault::Protocol)
                })?;
                OpenConnection::over(stream).await
            }
        }
    }
}

/// Why there is no answer of HTTP.
#[derive(Debug)]
enum Fault {
    /// None came.
    NoAnswer(String),
    /// The server speaks otherwise, or isn't trusted.
    Protocol(String),
}

impl Fault {
    fn of(error: hyper::Error) -> Fault {
        if error.is_parse() && !error.is_parse_too_large() {
            return Fault::Protocol(format!(
                "not as HTTP does ({error}): a server with TLS has an address with https://"
            ));
        }
        // By TLS 1.3 the client is done with the handshake before the server refuses its certificate.
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
        match source.and_then(|source| handshake_fault(source, "this host")) {
            Some(reason) => Fault::Protocol(reason),
            None => Fault::NoAnswer(error.to_string()),
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault::NoAnswer(reason)
    }
}

/// Requests over one connection, one after the other. It is opened when it is needed, and once more when it has ended.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    opened: Option<OpenConnection>,
}

impl Connection {
    /// Sends a body of JSON to a path. It may be sent twice, where the connection ends under it.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Protocol`].
    pub async fn post_json(
        &mut self,
        path: &str,
        body: Bytes,
        bytes_max: usize,
        patience: Duration,
    ) -> Result<HttpAnswer> {
        let open_connection = self.opened.take();
        let client = self.client.clone();
        let request = || {
            let head = client.head(Method::POST, path, Some("application/json"));
            head.body(Body::from(body.clone())).map_err(|error| error.to_string())
        };
        let exchange = async {
            if let Some(mut opened) = open_connection
                && opened.sender.ready().await.is_ok()
                && let Ok(answer) = opened.send(request()?, bytes_max).await
            {
                return Ok((opened, answer));
            }
            let mut opened = client.open().await?;
            let answer = opened.send(request()?, bytes_max).await?;
            Ok((opened, answer))
        };
        let (opened, answer) = client.within(patience, exchange).await?;
        self.opened = Some(opened);
        Ok(answer)
    }
}

/// A connection with a server. It ends with this.
#[derive(Debug)]
struct OpenConnection {
    sender: SendRequest<Body>,
    driven: AbortHandle,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.driven.abort();
    }
}

impl OpenConnection {
    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<OpenConnection, Fault> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Fault::of)?;
        Ok(OpenConnection { sender, driven: tokio::spawn(connection).abort_handle() })
    }

    async fn send(&mut self, request: Request<Body>, bytes_max: usize) -> Result<HttpAnswer, Fault> {
        let answered = self.sender.send_request(request).await.map_err(Fault::of)?;
        let (head, body) = answered.into_parts();
        let body = to_bytes(Body::new(body), bytes_max).await.map_err(|error| error.to_string())?;
        Ok(HttpAnswer { status: head.status.as_u16(), body })
    }
}
