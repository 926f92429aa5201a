//! TLS as a client: which certificates of servers are trusted.
//!
//! - One that a certificate of a PEM file vouches for, if it is valid at this time and for the server's name.
//! - One that is in the file itself, on the same conditions. `openssl req -x509` makes certificates that are those of an authority, too
//!   (`CA:TRUE`), and webpki accepts such a one from no server; whoever names it as the authority trusts its key anyway.
//! - The client shows a certificate of its own, if the environment names one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{AlertDescription, CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};

/// The files in which systems keep the certificates that they trust.
const SYSTEM_AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The variable of the environment that names the PEM file of the client's own certificate and its key.
const CLIENT_CERTIFICATE: &str = "SPLAY_CLIENT_CERTIFICATE";

/// TLS with servers that a PEM file's certificates vouch for, by default those that the system trusts.
///
/// # Errors
/// [`Error::Tls`] for a file without certificates; [`Error::Setting`] about `setting` if there is no file.
pub(crate) fn connector(authority: Option<&Path>, setting: &str) -> Result<TlsConnector> {
    let of_system = || SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    let none = || Error::Setting {
        setting: setting.to_owned(),
        reason: "the system has no list of certificates: name a PEM file with those that vouch for the server's"
            .to_owned(),
    };
    trusting(authority.or_else(of_system).ok_or_else(none)?)
}

fn trusting(authority: &Path) -> Result<TlsConnector> {
    let wrong = |reason: String| Error::Tls { path: authority.to_path_buf(), reason };
    let listed = CertificateDer::pem_file_iter(authority)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // A system's list may have old ones that can't be read.
    roots.add_parsable_certificates(listed.iter().cloned());
    if roots.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AuthorityVerifier { webpki, listed }));
    let config = match std::env::var_os(CLIENT_CERTIFICATE).map(PathBuf::from) {
        None => config.with_no_client_auth(),
        Some(path) => {
            let wrong = |reason: String| Error::Tls { path: path.clone(), reason };
            let (chain, key) = client_certificate(&path)?;
            config.with_client_auth_cert(chain, key).map_err(|error| wrong(error.to_string()))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The certificate that is shown to servers that ask for one, those that lead to its root, and its key.
fn client_certificate(path: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let wrong = |reason: String| Error::Tls { path: path.to_path_buf(), reason };
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong(error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(format!("its key can't be read: {error}")))?;
    Ok((chain, key))
}

/// As webpki verifies, and for a certificate that is both a server's and an authority's if it is listed.
#[derive(Debug)]
struct AuthorityVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    /// The certificates of the file.
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for AuthorityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // webpki has verified the time before, and verifies the name afterwards.
            Err(rustls::Error::InvalidCertificate(fault))
                if is_of_authority(&fault)
                    && self.listed.iter().any(|listed| listed.as_ref() == end_entity.as_ref()) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether webpki refused a server's certificate because it is that of an authority. rustls passes this error on as it is, and without webpki
/// among the dependencies its text tells it.
fn is_of_authority(fault: &CertificateError) -> bool {
    matches!(fault, CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity")
}

/// The reason for which TLS with `host` failed, behind "it answered, but"; `None` if there was no answer.
pub(crate) fn handshake_fault(error: &io::Error, host: &str) -> Option<String> {
    Some(match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(fault) => format!("its certificate {}", certificate_fault(fault, host)),
        rustls::Error::InvalidMessage(_) => "it doesn't speak TLS: has it an address with http://?".to_owned(),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            format!(
                "it asks for a certificate of the client: name the PEM file of one and its key in {CLIENT_CERTIFICATE}"
            )
        }
        other => format!("TLS with it failed: {other}"),
    })
}

fn certificate_fault(fault: &CertificateError, host: &str) -> String {
    use CertificateError as Fault;
    match fault {
        Fault::UnknownIssuer => {
            "is signed by no authority that is trusted here: name the PEM file of its authority, or of the certificate itself, as the \
             authority (--authority of the command)"
                .to_owned()
        }
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            format!("isn't for {host}: its subjectAltName has to name the host")
        }
        Fault::Expired | Fault::ExpiredContext { .. } => "has expired".to_owned(),
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "isn't valid yet".to_owned(),
        Fault::BadEncoding => "can't be read".to_owned(),
        fault if is_of_authority(fault) => {
            "is that of an authority (CA:TRUE), which counts as a server's only if it is named as the authority itself (--authority of the \
             command): name it so, or make one with basicConstraints=critical,CA:FALSE"
                .to_owned()
        }
        other => format!("isn't accepted: {other}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;

    /// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -addext
    /// subjectAltName=DNS:localhost,IP:127.0.0.1 -days 3650` of November 2026, with CA:TRUE as openssl has it by default.
    const OF_AUTHORITY: &str = include_str!("authority/ca-true.pem");

    /// Another one of the same kind.
    const OTHER: &str = include_str!("authority/other.pem");

    fn verified(listed: &[&str], host: &'static str, seconds: u64) -> Result<(), String> {
        let read = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        let listed: Vec<_> = listed.iter().map(|text| read(text)).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(listed.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let name = ServerName::try_from(host).unwrap();
        let verifier = AuthorityVerifier { webpki, listed };
        match verifier.verify_server_cert(&read(OF_AUTHORITY), &[], &name, &[], now) {
            Ok(_) => Ok(()),
            Err(error) => Err(handshake_fault(&io::Error::other(error), host).unwrap()),
        }
    }

    #[test]
    fn a_servers_own_certificate_is_its_authority() {
        let (before, within, after) = (1_700_000_000, 1_900_000_000, 2_200_000_000);
        for host in ["localhost", "127.0.0.1"] {
            verified(&[OF_AUTHORITY], host, within).unwrap();
            verified(&[OTHER, OF_AUTHORITY], host, within).unwrap();
        }
        let fault = verified(&[OF_AUTHORITY], "ticks.example.com", within).unwrap_err();
        assert!(fault.contains("isn't for ticks.example.com"), "{fault}");
        assert!(verified(&[OF_AUTHORITY], "localhost", before).unwrap_err().contains("isn't valid yet"));
        assert!(verified(&[OF_AUTHORITY], "localhost", after).unwrap_err().contains("has expired"));
        let fault = verified(&[OTHER], "localhost", within).unwrap_err();
        assert!(fault.contains("--authority") && fault.contains("CA:TRUE"), "{fault}");
    }
}
