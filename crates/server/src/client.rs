//! A client of a server, for commands: requests over HTTP, with token and TLS.
//!
//! - Each request has a connection of its own: commands send few, and large ones.
//! - An answer is read whole, and is bounded. What a request did is unknown if its answer doesn't come.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Uri, header};
use bytes::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// For a request and its answer.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// What a server answers.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status of HTTP.
    pub status: u16,
    /// The body, most often JSON.
    pub body: Bytes,
}

impl Client {
    /// A client of the server at `url`, such as `http://127.0.0.1:7750`. `authority` is a PEM file of the certificates that vouch for
    /// the server's, needed for `https`.
    ///
    /// # Errors
    /// [`Error::Setting`] for an address that is none; [`Error::Tls`] for a file without certificates.
    pub fn new(url: &str, token: Option<String>, authority: Option<&Path>) -> Result<Client> {
        let wrong = |reason: &str| Error::Setting { setting: url.to_owned(), reason: reason.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong("is no address such as http://127.0.0.1:7750"))?;
        let host = uri.host().ok_or_else(|| wrong("names no host"))?.trim_matches(['[', ']']).to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => {
                let authority = authority.ok_or_else(|| wrong("needs a certificate that vouches for the server"))?;
                let name =
                    ServerName::try_from(host.clone()).map_err(|_| wrong("has no name that a certificate can have"))?;
                (443, Some((connector(authority)?, name)))
            }
            _ => return Err(wrong("is neither http nor https")),
        };
        Ok(Client { url: url.trim_end_matches('/').to_owned(), host, port: uri.port_u16().unwrap_or(port), tls, token })
    }

    /// Asks for what is at a path.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.request(Method::GET, path, None, Body::empty()).await
    }

    /// Sends a body of JSON to a path.
    ///
    /// # Errors
    /// Those of [`Client::post`].
    pub async fn post_json(&self, path: &str, body: Bytes) -> Result<Answer> {
        self.request(Method::POST, path, Some("application/json"), Body::from(body)).await
    }

    /// Sends a body to a path.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: the body was not taken, or perhaps it was.
    pub async fn post(&self, path: &str, body: Bytes) -> Result<Answer> {
        self.request(Method::POST, path, None, Body::from(body)).await
    }

    async fn request(&self, method: Method, path: &str, kind: Option<&str>, body: Body) -> Result<Answer> {
        let unreachable = |reason: String| Error::Unreachable { url: self.url.clone(), reason };
        let asked = async {
            let stream =
                TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| error.to_string())?;
            match &self.tls {
                None => self.exchange(stream, method, path, kind, body).await,
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
                    self.exchange(stream, method, path, kind, body).await
                }
            }
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(answered) => answered.map_err(unreachable),
            Err(_) => Err(unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        method: Method,
        path: &str,
        kind: Option<&str>,
        body: Body,
    ) -> Result<Answer, String> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, format!("{host}:{}", self.port));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(body).map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let driven = tokio::spawn(connection);
        let answered = async {
            let (head, body) = sender.send_request(request).await.map_err(|error| error.to_string())?.into_parts();
            let body = to_bytes(Body::new(body), ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())?;
            Ok(Answer { status: head.status.as_u16(), body })
        };
        let answered = answered.await;
        driven.abort();
        answered
    }
}

fn connector(authority: &Path) -> Result<TlsConnector> {
    let wrong = |reason: String| Error::Tls { path: authority.to_path_buf(), reason };
    let certificates = CertificateDer::pem_file_iter(authority)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
