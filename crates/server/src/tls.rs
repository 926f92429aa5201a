//! TLS: rustls with ring, versions 1.2 and 1.3.
//!
//! - The listeners of a server share one certificate, which may be replaced while they run. Connections that are set up
//!   from then on get the new one, and those that are open keep theirs.
//! - Files that can't be used replace nothing, so that no listener is without a certificate, and all have the same.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
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
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream)
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
        Ok(Certificate { path: &tls.certificate, chain, key })
    }

    fn config(&self, protocol: &[u8]) -> Result<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(self.chain.clone(), self.key.clone_key()))
            .map_err(|error| Error::Tls { path: self.path.to_owned(), reason: error.to_string() })?;
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}
