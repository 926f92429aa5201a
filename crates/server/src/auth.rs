//! Who may do what: bearer tokens, of which only BLAKE3 digests are kept.
//!
//! - A token is 32 random bytes, so a fast digest is enough: there is nothing to guess (docs/guide/serve.md).
//! - Digests are compared in constant time, all of them at each request.
//! - No token appears in an error, a log or a URL.

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::{Auth, Role, Token};

/// The subprotocol of WebSockets that clients name who send their token as another one.
pub(crate) const PROTOCOL: &str = "splay";

/// What the subprotocol begins with that is a token: web pages can give a WebSocket no other header.
const PROTOCOL_TOKEN: &str = "splay.bearer.";

/// The tokens that are accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens {
    tokens: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    digest: blake3::Hash,
    roles: Vec<Role>,
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
        let known = |token: Token| {
            let digest = blake3::Hash::from_hex(&token.blake3).map_err(|_| Error::Setting {
                setting: format!("token {:?}", token.name),
                reason: "blake3 is not a digest of 64 hexadecimal digits; `splay token` makes one".to_owned(),
            })?;
            Ok(Known { name: token.name, digest, roles: token.roles })
        };
        Ok(Tokens { tokens: tokens.into_iter().map(known).collect::<Result<_>>()? })
    }

    /// Whether everybody may do everything.
    pub(crate) fn are_none(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether the sender of these headers may do what needs `role`.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Forbidden`].
    pub(crate) fn check(&self, headers: &HeaderMap, role: Role) -> Outcome<()> {
        let values = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
        self.check_value(values, role)
    }

    /// The same for an upgrade to a WebSocket, where the token may be a subprotocol instead: `splay.bearer.` and the token as
    /// unpadded base64url.
    ///
    /// # Errors
    /// As [`Tokens::check`].
    pub(crate) fn check_upgrade(&self, headers: &HeaderMap, role: Role) -> Outcome<()> {
        match protocol_token(headers) {
            Some(token) if !headers.contains_key(header::AUTHORIZATION) => {
                self.check_value(Some(&format!("Bearer {token}")), role)
            }
            _ => self.check(headers, role),
        }
    }

    /// The same for the value of an `authorization` header: `Bearer T`, InfluxDB's `Token T`, or `Basic` with the token as
    /// password.
    pub(crate) fn check_value(&self, value: Option<&str>, role: Role) -> Outcome<()> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        let unauthorized = |text| Err(Problem::new(Code::Unauthorized, text));
        let Some(value) = value else { return unauthorized("a token is needed: Authorization: Bearer TOKEN") };
        let Some(token) = token_of(value) else { return unauthorized("the authorization header holds no token") };
        let Some(known) = self.find(&token) else {
            tracing::warn!("a request with an unknown token was refused");
            return unauthorized("the token is not known");
        };
        if known.roles.contains(&role) {
            return Ok(());
        }
        tracing::warn!(token = known.name, ?role, "a request was refused that its token doesn't allow");
        let role = if role == Role::Read { "read" } else { "write" };
        Err(Problem::new(Code::Forbidden, format!("the token doesn't allow to {role}")))
    }

    /// What the holder of a token may do; nothing if it isn't known.
    pub(crate) fn roles_of(&self, token: &str) -> Option<&[Role]> {
        self.find(token).map(|known| known.roles.as_slice())
    }

    fn find(&self, token: &str) -> Option<&Known> {
        let digest = blake3::hash(token.as_bytes());
        // Not `find`, which would stop at the first.
        self.tokens.iter().fold(None, |found, known| if known.digest == digest { Some(known) } else { found })
    }
}

/// The token among the subprotocols of a WebSocket.
fn protocol_token(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let mut tokens =
        protocols.flat_map(|names| names.split(',')).filter_map(|name| name.trim().strip_prefix(PROTOCOL_TOKEN));
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(tokens.next()?).ok()?).ok()
}

/// The token of an `authorization` header.
pub(crate) fn token_of(value: &str) -> Option<String> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token") {
        return (!rest.is_empty()).then(|| rest.to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
        return pair.split_once(':').map(|(_, password)| password.to_owned());
    }
    None
}

/// A new token and its digest.
#[derive(Clone)]
pub struct NewToken {
    /// The token: for the client, and shown once.
    pub token: String,
    /// Its digest: for the settings.
    pub blake3: String,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("blake3", &self.blake3).finish_non_exhaustive()
    }
}

impl NewToken {
    /// A token of 32 random bytes, as hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Random`].
    pub fn generate() -> Result<NewToken> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| Error::Random { reason: error.to_string() })?;
        let token = blake3::Hash::from_bytes(bytes).to_hex().to_string();
        let blake3 = blake3::hash(token.as_bytes()).to_hex().to_string();
        Ok(NewToken { token, blake3 })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tokens(roles: Vec<Role>) -> Tokens {
        let blake3 = blake3::hash(b"secret").to_hex().to_string();
        let token = Token { name: "test".to_owned(), blake3, roles };
        Tokens::read(&Auth { tokens: vec![token], token_file: None }).unwrap()
    }

    #[test]
    fn the_right_token_is_accepted_in_every_spelling() {
        let tokens = tokens(vec![Role::Read]);
        for value in ["Bearer secret", "bearer  secret ", "Token secret", "Basic dXNlcjpzZWNyZXQ="] {
            tokens.check_value(Some(value), Role::Read).unwrap();
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let tokens = tokens(vec![Role::Read]);
        for value in ["", "Bearer", "Bearer ", "Bearer secre", "secret", "Basic !!!", "Digest secret"] {
            assert_eq!(tokens.check_value(Some(value), Role::Read).unwrap_err().code, Code::Unauthorized, "{value}");
        }
        assert_eq!(tokens.check_value(None, Role::Read).unwrap_err().code, Code::Unauthorized);
        assert_eq!(tokens.check_value(Some("Bearer secret"), Role::Write).unwrap_err().code, Code::Forbidden);
    }

    #[test]
    fn a_token_among_subprotocols_is_as_good_as_a_header() {
        let tokens = tokens(vec![Role::Read]);
        let check = |protocols: &str, role| {
            let mut headers = HeaderMap::new();
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
            tokens.check_upgrade(&headers, role).map_err(|problem| problem.code)
        };
        let right = "splay, splay.bearer.c2VjcmV0";
        assert_eq!(check(right, Role::Read), Ok(()));
        assert_eq!(check(right, Role::Write), Err(Code::Forbidden));
        for wrong in
            ["splay", "splay.bearer.", "splay.bearer.c2VjcmU", "splay.bearer.c2VjcmV0==", "splay.bearer.!", "secret"]
        {
            assert_eq!(check(wrong, Role::Read), Err(Code::Unauthorized), "{wrong}");
        }
        let mut both = HeaderMap::new();
        both.insert(header::SEC_WEBSOCKET_PROTOCOL, right.parse().unwrap());
        both.insert(header::AUTHORIZATION, "Bearer wrong".parse().unwrap());
        assert!(tokens.check_upgrade(&both, Role::Read).is_err(), "the header goes first");
    }

    #[test]
    fn a_new_token_fits_its_digest() {
        let (one, other) = (NewToken::generate().unwrap(), NewToken::generate().unwrap());
        assert_ne!(one.token, other.token);
        assert_eq!(blake3::hash(one.token.as_bytes()).to_hex().as_str(), one.blake3);
        assert!(!format!("{one:?}").contains(&one.token));
    }
}
