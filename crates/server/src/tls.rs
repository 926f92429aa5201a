//! TLS: rustls with ring, versions 1.2 and 1.3.
//!
//! - With `tls.client_authority` a client has to show a certificate that this authority vouches for.
//! - The listeners of a server share one certificate, which may be replaced while they run. Connections that are set up
//!   from then on get the new one, and those that are open keep theirs.
//! - Files that can't be used replace nothing, so that no listener is without a certificate, and all have the same.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::settings::Tls;

/// Accepts TLS connections of one protocol. Clones have the same certificate.
#[derive(Clone)]
pub(crate) struct Acceptor {
    protocol: &'static [u8],
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    pub(crate) fn accept(&self, stream: TcpStream) -> tokio_rustls::Accept<TcpStream> {
        TlsAcceptor::from(self.config()).accept(stream)
    }

    /// TLS over a connection that blocks. The handshake is a part of the first read.
    ///
    /// # Errors
    /// None that a certificate that was accepted gives.
    pub(crate) fn accept_blocking(
        &self,
        stream: std::net::TcpStream,
    ) -> Result<StreamOwned<ServerConnection, std::net::TcpStream>, rustls::Error> {
        Ok(StreamOwned::new(ServerConnection::new(self.config())?, stream))
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, config: ServerConfig) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

/// An acceptor for connections that speak `protocol`.
///
/// # Errors
/// [`Error::Tls`] if certificate or key can't be used.
pub(crate) fn acceptor(tls: &Tls, protocol: &'static [u8]) -> Result<Acceptor> {
    let config = Certificate::read(tls)?.config(protocol)?;
    Ok(Acceptor { protocol, config: Arc::new(RwLock::new(Arc::new(config))) })
}

/// Reads a server's certificate and key anew. Clones are of the same server.
#[derive(Debug, Clone)]
pub struct CertificateReload {
    files: Option<Tls>,
    acceptors: Vec<Acceptor>,
    metrics: Arc<Metrics>,
}

impl CertificateReload {
    pub(crate) fn new(files: Option<Tls>, acceptors: Vec<Acceptor>, metrics: Arc<Metrics>) -> CertificateReload {
        CertificateReload { files, acceptors, metrics }
    }

    /// Gives the certificate and key of the files to connections that are set up from now on, and returns whether it did. If they can't be used, the
    /// old ones stay; the log has the reason, and `splay_tls_reloads` counts it. Blocks.
    pub fn reload(&self) -> bool {
        let Some(files) = &self.files else {
            tracing::info!("there is nothing to reload: the server has no certificate");
            return false;
        };
        let replaced = self.replace(files);
        match &replaced {
            Ok(()) => tracing::info!(certificate = %files.certificate.display(), "the certificate was reloaded"),
            Err(error) => tracing::error!(%error, "the certificate was not reloaded: the old one stays"),
        }
        self.metrics.tls_reload(if replaced.is_ok() { "ok" } else { "failed" });
        replaced.is_ok()
    }

    fn replace(&self, files: &Tls) -> Result<()> {
        let certificate = Certificate::read(files)?;
        let configs = self.acceptors.iter().map(|acceptor| certificate.config(acceptor.protocol));
        let configs = configs.collect::<Result<Vec<_>>>()?;
        self.acceptors.iter().zip(configs).for_each(|(acceptor, config)| acceptor.replace(config));
        Ok(())
    }
}

/// A certificate, those that lead to its root, and its key.
struct Certificate<'a> {
    path: &'a Path,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// What a client's certificate has to be, if it needs one.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// Accepts the certificates of clients that those of a PEM file vouch for.
fn client_verifier(authority: &Path) -> Result<Arc<dyn ClientCertVerifier>> {
    let fault = |reason: String| Error::Tls { path: authority.to_owned(), reason };
    let listed = CertificateDer::pem_file_iter(authority).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    for certificate in listed.map_err(|error| fault(error.to_string()))? {
        roots.add(certificate).map_err(|error| fault(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fault("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| fault(error.to_string()))
}

impl Certificate<'_> {
    fn read(tls: &Tls) -> Result<Certificate<'_>> {
        let fault = |path: &Path, reason: String| Error::Tls { path: path.to_owned(), reason };
        let chain = CertificateDer::pem_file_iter(&tls.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| fault(&tls.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(fault(&tls.certificate, "it holds no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| fault(&tls.key, error.to_string()))?;
        let clients = tls.client_authority.as_deref().map(client_verifier).transpose()?;
        Ok(Certificate { path: &tls.certificate, chain, key, clients })
    }

    fn config(&self, protocol: &[u8]) -> Result<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| match &self.clients {
                Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
                None => builder.with_no_client_auth(),
            })
            .and_then(|builder| builder.with_single_cert(self.chain.clone(), self.key.clone_key()))
            .map_err(|error| Error::Tls { path: self.path.to_owned(), reason: error.to_string() })?;
        // Clients of line protocol negotiate none.
        config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
        Ok(config)
    }
}
