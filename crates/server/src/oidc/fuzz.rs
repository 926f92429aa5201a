//! Targets for fuzzing: any bytes as a token, as a provider's key, and as claims. All are refused or read, without a panic.

use serde_json::Value;

use super::find;
use super::jwt::{Claims, ExpectedClaims, Key, UnverifiedToken, texts};

/// A token, and whatever key would be for it.
pub(crate) fn token(bytes: &[u8], keys: &[Key]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(unverified) = UnverifiedToken::parse(text) else { return };
    let named: Vec<&Key> = keys.iter().filter(|key| key.is_for(&unverified.header)).collect();
    let _ = unverified.verify(named.into_iter());
    // An algorithm that a header can't choose doesn't verify, and doesn't panic either.
    let _ = unverified.verify(keys.iter());
}

/// A key, and a token that it may be for.
pub(crate) fn key(bytes: &[u8], tokens: &[String]) {
    let Some(key) = serde_json::from_slice::<Value>(bytes).ok().as_ref().and_then(Key::of) else { return };
    for unverified in tokens.iter().filter_map(|token| UnverifiedToken::parse(token).ok()) {
        if key.is_for(&unverified.header) {
            let _ = unverified.verify(std::iter::once(&key));
        }
    }
}

/// Claims of a token whose signature was right.
pub(crate) fn claims(bytes: &[u8]) {
    let Ok(claims) = serde_json::from_slice::<Claims>(bytes) else { return };
    let (issuer, ours) = ("https://login.example.com", ["splay".to_owned()]);
    for sign_in in [None, Some(("splay", "n"))] {
        let _ = ExpectedClaims { issuer, audiences: &ours, sign_in, now: 1_800_000_000 }.check(&claims);
    }
    for name in ["sub", "groups", "realm_access.roles", "a.b.c.d"] {
        let _ = texts(find(&claims, name));
    }
}

#[cfg(test)]
mod tests {
    use splay_mutate::{Memory, Run};

    use super::super::tests::{Signer, claims as sample, signers};
    use crate::oidc::jwt::Key;

    const MEMORY: Memory = Memory { fixed: 4 << 20, each: 1 << 6 };

    fn run(samples: Vec<Vec<u8>>, words: &'static [&'static [u8]], target: impl Fn(&[u8])) {
        Run { inputs: 30_000, bytes_max: 1 << 12, memory: MEMORY, words, ..Run::default() }.feed(&samples, target);
    }

    #[test]
    fn any_token_is_refused_or_read() {
        let signers = signers();
        let keys: Vec<Key> = signers.iter().filter_map(|signer| Key::of(&signer.public)).collect();
        let samples = signers.iter().map(|signer| signer.token(&sample()).into_bytes()).collect();
        run(samples, &[b".", b"..", b"eyJ", b"eyJhbGciOiJub25lIn0", b"e30"], |bytes| super::token(bytes, &keys));
    }

    #[test]
    fn any_key_is_left_out_or_read() {
        let signers = signers();
        let tokens: Vec<String> = signers.iter().map(|signer: &Signer| signer.token(&sample())).collect();
        let samples = signers.iter().map(|signer| signer.public.to_string().into_bytes()).collect();
        run(
            samples,
            &[b"\"RSA\"", b"\"n\"", b"\"e\":\"AQAB\"", b"\"EC\"", b"\"OKP\"", b"\"P-384\"", b"AAAA"],
            |bytes| {
                super::key(bytes, &tokens);
            },
        );
    }

    #[test]
    fn any_claims_are_refused_or_read() {
        let words: &[&[u8]] =
            &[b"\"exp\"", b"1e999", b"-1", b"9223372036854775807", b"null", b"[", b"{", b"\"aud\"", b"\"azp\""];
        run(vec![sample().to_string().into_bytes()], words, super::claims);
    }
}
