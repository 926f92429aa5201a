//! Sign-ins of browsers, from their beginning to the end of the session.
//!
//! - The server stores nothing for a sign-in that has begun, so nobody can fill its memory: the browser has a cookie
//!   of random bytes and the time, and state, nonce and PKCE's verifier are keyed digests of it. A browser with
//!   another cookie can't complete the sign-in, and without the server's key nobody can redeem its code.
//! - For a completed sign-in the server stores the digest of a random token, which is the browser's cookie.
//! - Both belong to this process: after a restart people sign in again.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use lru::LruCache;

use super::ProviderUser;
use crate::error::{Error, Result};

/// Seconds within which a sign-in at the provider has to be completed.
pub(super) const SIGN_IN_SECONDS: i64 = 600;

/// Sessions that are kept; the one not used for longest goes first.
const SESSIONS_MAX: usize = 4096;

/// Digest of a session's token.
pub(crate) type SessionMark = [u8; 32];

/// Somebody who has signed in.
#[derive(Debug, Clone)]
pub(super) struct SignedIn {
    pub(super) person: ProviderUser,
    /// Seconds since the epoch.
    pub(super) until: i64,
}

/// Derives the parts of a sign-in from secrets, and keeps the sessions.
pub(super) struct Logins {
    key: [u8; 32],
    sessions: Mutex<LruCache<SessionMark, SignedIn>>,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logins")
    }
}

/// A sign-in that has begun.
pub(super) struct PendingSignIn<'a> {
    key: &'a [u8; 32],
    cookie: String,
}

impl PendingSignIn<'_> {
    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    fn part(&self, name: &str) -> blake3::Hash {
        blake3::Hasher::new_keyed(self.key)
            .update(name.as_bytes())
            .update(&[0])
            .update(self.cookie.as_bytes())
            .finalize()
    }

    /// The state that the provider sends back with the browser.
    pub(super) fn state(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.part("state").as_bytes())
    }

    /// The nonce that the ID token must hold.
    pub(super) fn nonce(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.part("nonce").as_bytes())
    }

    /// The verifier that is sent when the code is redeemed.
    pub(super) fn verifier(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.part("verifier").as_bytes())
    }

    /// The challenge for the provider, which is a digest of the verifier.
    pub(super) fn challenge(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.verifier().as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(digest.as_ref())
    }

    /// Whether a browser comes back from this sign-in. Compares in constant time.
    pub(super) fn is_answered_by(&self, state: &str) -> bool {
        let digest = BASE64_URL_SAFE_NO_PAD.decode(state).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        digest.is_some_and(|digest| blake3::Hash::from_bytes(digest) == self.part("state"))
    }
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random { reason: error.to_string() })?;
    Ok(bytes)
}

impl Logins {
    pub(super) fn new() -> Result<Logins> {
        let sessions = LruCache::new(NonZeroUsize::new(SESSIONS_MAX).unwrap_or(NonZeroUsize::MIN));
        Ok(Logins { key: random()?, sessions: Mutex::new(sessions) })
    }

    /// Begins a sign-in, at a time in seconds since the epoch.
    pub(super) fn begin(&self, now: i64) -> Result<PendingSignIn<'_>> {
        let cookie = format!("{}.{now}", BASE64_URL_SAFE_NO_PAD.encode(random()?));
        Ok(PendingSignIn { key: &self.key, cookie })
    }

    /// The sign-in of a cookie, unless it took too long.
    pub(super) fn pending(&self, cookie: &str, now: i64) -> Option<PendingSignIn<'_>> {
        let at: i64 = cookie.split_once('.').filter(|_| cookie.len() <= 128)?.1.parse().ok()?;
        let age = now.checked_sub(at)?;
        (0..=SIGN_IN_SECONDS).contains(&age).then(|| PendingSignIn { key: &self.key, cookie: cookie.to_owned() })
    }

    pub(super) fn mark(&self, token: &str) -> SessionMark {
        *blake3::Hasher::new_keyed(&self.key).update(b"session\0").update(token.as_bytes()).finalize().as_bytes()
    }

    /// Stores that a user has signed in. Returns the token of his session.
    pub(super) fn end(&self, signed_in: SignedIn) -> Result<String> {
        let token = BASE64_URL_SAFE_NO_PAD.encode(random()?);
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).put(self.mark(&token), signed_in);
        Ok(token)
    }

    pub(super) fn session(&self, mark: &SessionMark) -> Option<SignedIn> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(mark).cloned()
    }

    /// Ends the session of a token; whose it was.
    pub(super) fn sign_out(&self, token: &str) -> Option<SignedIn> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop(&self.mark(token))
    }
}

/// Names and roles, shared by all requests of a user.
pub(super) fn shared_texts(texts: Vec<String>) -> Arc<[String]> {
    Arc::from(texts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_is_ended_by_the_browser_that_began_it_and_in_time() {
        let logins = Logins::new().unwrap();
        let begun = logins.begin(1000).unwrap();
        let (cookie, state) = (begun.cookie().to_owned(), begun.state());
        let again = logins.pending(&cookie, 1000 + SIGN_IN_SECONDS).unwrap();
        assert!(again.is_answered_by(&state) && again.nonce() == begun.nonce() && again.verifier() == begun.verifier());
        assert!(again.verifier().len() == 43 && again.nonce() != again.state() && again.verifier() != again.state());
        let other = logins.begin(1000).unwrap();
        assert!(!other.is_answered_by(&state) && !again.is_answered_by("") && !again.is_answered_by(&state[1..]));
        for (cookie, now) in
            [(&*cookie, 1001 + SIGN_IN_SECONDS), (&cookie, 999), ("x", 1000), ("", 0), (&cookie[1..], 1000)]
        {
            let begun = logins.pending(cookie, now);
            assert!(begun.is_none_or(|begun| !begun.is_answered_by(&state)), "{cookie} {now}");
        }
        // Another time in the cookie is another sign-in.
        let later = cookie.replace(".1000", ".1001");
        assert!(!logins.pending(&later, 1001).unwrap().is_answered_by(&state));
    }

    #[test]
    fn a_session_lasts_until_its_end() {
        let logins = Logins::new().unwrap();
        let person = ProviderUser { name: Arc::from("ann"), roles: shared_texts(Vec::new()) };
        let token = logins.end(SignedIn { person, until: 5 }).unwrap();
        let mark = logins.mark(&token);
        assert_eq!(&*logins.session(&mark).unwrap().person.name, "ann");
        assert!(logins.session(&logins.mark("x")).is_none());
        assert_eq!(&*logins.sign_out(&token).unwrap().person.name, "ann");
        assert!(logins.session(&mark).is_none() && logins.sign_out(&token).is_none());
    }
}
