//! Tokens of the settings, stored as BLAKE3 digests, and the credentials that clients send. `callers.rs` maps both to
//! users.
//!
//! - A token is 32 random bytes, so a fast digest is enough: it can't be guessed (docs/guide/serve.md).
//! - Digests are compared in constant time, all of them at each request.
//! - No token appears in an error, a log or a URL.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::settings::{Auth, Role, Token};

/// The subprotocol of WebSockets that clients name who send their token as another one.
pub(crate) const PROTOCOL: &str = "splay";

/// The prefix of a subprotocol that is a token: web pages can give a WebSocket no other header.
const PROTOCOL_TOKEN: &str = "splay.bearer.";

/// The tokens that are accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens {
    tokens: Vec<TokenEntry>,
}

#[derive(Debug, Clone)]
struct TokenEntry {
    name: Arc<str>,
    digest: blake3::Hash,
    roles: Arc<[Role]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    tokens: Vec<Token>,
}

impl Tokens {
    /// The tokens of the settings and of the file that they name.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Setting`].
    pub(crate) fn read(auth: &Auth) -> Result<Tokens> {
        let mut tokens = auth.tokens.clone();
        if let Some(path) = &auth.token_file {
            let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
            let file: TokenFile = toml::from_str(&text).map_err(|error| Error::Setting {
                // The text of the error would show the file's lines.
                setting: path.display().to_string(),
                reason: error.message().to_owned(),
            })?;
            tokens.extend(file.tokens);
        }
        let entry = |token: Token| {
            let digest = blake3::Hash::from_hex(&token.blake3).map_err(|_| Error::Setting {
                setting: format!("token {:?}", token.name),
                reason: "blake3 is not a digest of 64 hexadecimal digits; `splay token` makes one".to_owned(),
            })?;
            Ok(TokenEntry { name: Arc::from(token.name), digest, roles: Arc::from(token.roles) })
        };
        Ok(Tokens { tokens: tokens.into_iter().map(entry).collect::<Result<_>>()? })
    }

    /// Whether everybody may do everything.
    pub(crate) fn are_none(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The name of a token and the roles that it has; `None` for an unknown one.
    pub(crate) fn of(&self, token: &str) -> Option<(Arc<str>, Arc<[Role]>)> {
        self.find(token).map(|entry| (Arc::clone(&entry.name), Arc::clone(&entry.roles)))
    }

    fn find(&self, token: &str) -> Option<&TokenEntry> {
        let digest = blake3::hash(token.as_bytes());
        // All tokens are compared, so that the time doesn't depend on the position of a match.
        self.tokens.iter().fold(None, |matching, entry| if entry.digest == digest { Some(entry) } else { matching })
    }
}

/// The token among the subprotocols of a WebSocket: `splay.bearer.` and the token as unpadded base64url.
pub(crate) fn protocol_token(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let mut tokens =
        protocols.flat_map(|names| names.split(',')).filter_map(|name| name.trim().strip_prefix(PROTOCOL_TOKEN));
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(tokens.next()?).ok()?).ok()
}

/// The content of an `authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// `Bearer T`, or InfluxDB's `Token T`.
    Token(String),
    /// `Basic`: a user and his password, or a token in its place.
    Basic { user: String, password: String },
}

/// The credentials of an `authorization` header; none of one that can't be read.
pub(crate) fn credentials(value: &str) -> Option<Credentials> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token") {
        return (!rest.is_empty()).then(|| Credentials::Token(rest.to_owned()));
    }
    if scheme.eq_ignore_ascii_case("basic") {
        // Drivers of Flight SQL that are written in Go leave the padding out.
        let pair = String::from_utf8(BASE64_STANDARD_NO_PAD.decode(rest.trim_end_matches('=')).ok()?).ok()?;
        let (user, password) = pair.split_once(':')?;
        return Some(Credentials::Basic { user: user.to_owned(), password: password.to_owned() });
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tokens(roles: Vec<Role>) -> Tokens {
        let blake3 = blake3::hash(b"secret").to_hex().to_string();
        let token = Token { name: "test".to_owned(), blake3, roles };
        Tokens::read(&Auth { tokens: vec![token], ..Auth::default() }).unwrap()
    }

    #[test]
    fn a_token_has_its_roles_and_others_none() {
        let tokens = tokens(vec![Role::Read]);
        let (name, roles) = tokens.of("secret").unwrap();
        assert_eq!((&*name, &*roles), ("test", &[Role::Read][..]));
        for token in ["", "secre", "secrets"] {
            assert!(tokens.of(token).is_none(), "{token}");
        }
    }

    #[test]
    fn credentials_are_read_in_every_spelling() {
        let token = |token: &str| Some(Credentials::Token(token.to_owned()));
        let basic = Some(Credentials::Basic { user: "user".to_owned(), password: "secret".to_owned() });
        for (value, expected) in [
            ("Bearer secret", token("secret")),
            ("bearer  secret ", token("secret")),
            ("Token secret", token("secret")),
            ("Basic dXNlcjpzZWNyZXQ=", basic.clone()),
            ("Basic dXNlcjpzZWNyZXQ", basic),
            ("", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("secret", None),
            ("Basic !!!", None),
            ("Basic dXNlcg==", None),
            ("Digest secret", None),
        ] {
            assert!(credentials(value) == expected, "{value}");
        }
    }

    #[test]
    fn a_token_may_be_a_subprotocol() {
        let token = |protocols: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
            protocol_token(&headers)
        };
        assert_eq!(token("splay, splay.bearer.c2VjcmV0").as_deref(), Some("secret"));
        for wrong in ["splay", "splay.bearer.c2VjcmV0==", "splay.bearer.!", "secret"] {
            assert_eq!(token(wrong), None, "{wrong}");
        }
    }
}
