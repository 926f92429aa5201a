//! The shared token, and the addresses on which a server may listen.
//!
//! A cluster has one token, which executors, schedulers and clients read from a file. It is sent unencrypted: between machines, a private network
//! or a proxy with TLS has to protect it. Without a token a server listens only on loopback.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use crate::error::{Error, Result};

/// The shortest token. Shorter ones could be guessed.
const LENGTH_MIN: usize = 16;

/// The message of a refusal, by which a scheduler tells it from other failures of an executor.
pub(crate) const OTHER_TOKEN: &str = "the token of the cluster is another one";

/// The token of a cluster, or that it has none.
#[derive(Clone, Default)]
pub struct Token(Option<Arc<MetadataValue<Ascii>>>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Token(…)" } else { "Token(none)" })
    }
}

impl Token {
    /// Reads it from a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Settings`] for one that is too short or has other characters than a header may have.
    pub fn read(path: Option<&Path>) -> Result<Token> {
        let Some(path) = path else { return Ok(Token(None)) };
        let act = || format!("read the token in {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io { act: act(), source })?;
        Token::of(text.trim()).map_err(|reason| Error::settings(format!("{}: {reason}", path.display())))
    }

    fn of(text: &str) -> std::result::Result<Token, String> {
        if text.len() < LENGTH_MIN {
            return Err(format!("a token has at least {LENGTH_MIN} characters"));
        }
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {text}").parse().map_err(|_| "a token has plain characters alone".to_owned())?;
        value.set_sensitive(true);
        Ok(Token(Some(Arc::new(value))))
    }

    /// Refuses an address that others reach, without a token.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn check_listening(&self, address: SocketAddr) -> Result<()> {
        match address.ip().is_loopback() || self.0.is_some() {
            true => Ok(()),
            false => Err(Error::settings(format!(
                "{address} can be reached from other machines: give the cluster a token with --token-file, or listen on 127.0.0.1"
            ))),
        }
    }

    /// The value of the header `authorization`.
    #[must_use]
    pub fn header(&self) -> Option<&MetadataValue<Ascii>> {
        self.0.as_deref()
    }

    /// Checks that a request has the token, in a time that doesn't depend on the first wrong character.
    ///
    /// # Errors
    /// `Unauthenticated`.
    pub fn check(&self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        let Some(token) = &self.0 else { return Ok(request) };
        let shown = request.metadata().get("authorization").map(MetadataValue::as_bytes).unwrap_or_default();
        let token = token.as_bytes();
        let difference =
            shown.iter().zip(token).fold(shown.len() ^ token.len(), |all, (one, other)| all | usize::from(one ^ other));
        match difference {
            0 => Ok(request),
            _ => Err(Status::unauthenticated(OTHER_TOKEN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_without_a_token_listen_only_on_loopback() {
        let (own, any) = ("127.0.0.1:1".parse().unwrap(), "0.0.0.0:1".parse().unwrap());
        assert!(Token::default().check_listening(own).is_ok());
        assert!(Token::default().check_listening(any).is_err());
        assert!(Token::of("0123456789abcdef").unwrap().check_listening(any).is_ok());
    }

    #[test]
    fn other_tokens_and_none_are_refused() {
        let token = Token::of("0123456789abcdef").unwrap();
        let shown = |text: Option<&str>| {
            let mut request = Request::new(());
            if let Some(text) = text {
                request.metadata_mut().insert("authorization", text.parse().unwrap());
            }
            token.check(request).is_ok()
        };
        assert!(shown(Some("Bearer 0123456789abcdef")));
        for wrong in
            [None, Some(""), Some("Bearer 0123456789abcdeg"), Some("Bearer 0123456789abcdef0"), Some("Bearer ")]
        {
            assert!(!shown(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn a_token_is_long_and_never_shown() {
        assert!(Token::of("short").is_err());
        assert!(!format!("{:?}", Token::of("0123456789abcdef").unwrap()).contains("0123"));
    }
}
