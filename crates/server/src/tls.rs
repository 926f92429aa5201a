//! TLS: rustls with ring, versions 1.2 and 1.3.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Result};
use crate::settings::Tls;

/// Accepts TLS connections.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    pub(crate) fn accept(&self, stream: TcpStream) -> tokio_rustls::Accept<TcpStream> {
        self.0.accept(stream)
    }
}

/// An acceptor for connections that speak `protocol`.
///
/// # Errors
/// [`Error::Tls`] if certificate or key can't be used.
pub(crate) fn acceptor(tls: &Tls, protocol: &[u8]) -> Result<Acceptor> {
    let certificates = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| Error::Tls { path: tls.certificate.clone(), reason: error.to_string() })?;
    if certificates.is_empty() {
        return Err(Error::Tls { path: tls.certificate.clone(), reason: "it holds no certificate".to_owned() });
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| Error::Tls { path: tls.key.clone(), reason: error.to_string() })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(certificates, key))
        .map_err(|error| Error::Tls { path: tls.certificate.clone(), reason: error.to_string() })?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
}
