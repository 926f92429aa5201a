//! Verifiers of passwords for SCRAM-SHA-256 (RFC 5802, RFC 7677), written as PostgreSQL's clients do:
//! `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`, with salt and keys in base64.
//!
//! A verifier proves a password to both sides without either sending it. Whoever has one can try out passwords, but can't log in by it.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::hmac::{self, HMAC_SHA256};
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use serde::{Deserialize, Serialize};

/// The name of the mechanism, and the first part of a verifier.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// Iterations that verifiers may have: RFC 7677 asks for 4,096, and bytes of a file don't size work unchecked.
const ITERATIONS_MIN: u32 = 4_096;
const ITERATIONS_MAX: u32 = 10_000_000;

/// Iterations of a password that nobody has, as PostgreSQL's clients choose them.
const ITERATIONS_USUAL: NonZeroU32 = NonZeroU32::new(ITERATIONS_MIN).unwrap();

const SALT_BYTES_MIN: usize = 8;
const SALT_BYTES_MAX: usize = 64;

type Key = [u8; SHA256_OUTPUT_LEN];

/// What a server keeps of a password for SCRAM-SHA-256.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScramVerifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramVerifier")
    }
}

impl fmt::Display for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored_key, server_key] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64_STANDARD.encode(bytes));
        write!(f, "{SCRAM_SHA_256}${}:{salt}${stored_key}:{server_key}", self.iterations)
    }
}

impl From<ScramVerifier> for String {
    fn from(verifier: ScramVerifier) -> String {
        verifier.to_string()
    }
}

impl TryFrom<String> for ScramVerifier {
    type Error = &'static str;

    fn try_from(text: String) -> Result<ScramVerifier, &'static str> {
        ScramVerifier::parse(&text).ok_or("not a SCRAM-SHA-256 verifier")
    }
}

impl ScramVerifier {
    /// Reads a verifier; `None` if a text is none, or has an unusual salt or number of iterations.
    #[must_use]
    pub fn parse(text: &str) -> Option<ScramVerifier> {
        let (cost, keys) = text.strip_prefix(SCRAM_SHA_256)?.strip_prefix('$')?.split_once('$')?;
        let ((iterations, salt), (stored_key, server_key)) = (cost.split_once(':')?, keys.split_once(':')?);
        let bytes = |text: &str| BASE64_STANDARD.decode(text).ok();
        let key = |text: &str| Key::try_from(bytes(text)?).ok();
        let iterations: u32 = iterations.parse().ok()?;
        let salt = bytes(salt)?;
        let is_usual = (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations)
            && (SALT_BYTES_MIN..=SALT_BYTES_MAX).contains(&salt.len());
        let (stored_key, server_key) = (key(stored_key)?, key(server_key)?);
        is_usual.then_some(ScramVerifier { iterations: NonZeroU32::new(iterations)?, salt, stored_key, server_key })
    }

    /// The verifier of a password, which clients normalise before (SASLprep). Takes milliseconds for each 4,096 iterations.
    #[must_use]
    pub fn of(password: &str, salt: &[u8], iterations: NonZeroU32) -> ScramVerifier {
        let mut salted = [0; SHA256_OUTPUT_LEN];
        pbkdf2::derive(PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut salted);
        let stored_key = sha256(&hmac_sha256(&salted, b"Client Key"));
        ScramVerifier { iterations, salt: salt.to_vec(), stored_key, server_key: hmac_sha256(&salted, b"Server Key") }
    }

    /// A verifier that no password is known for, always the same for a name and a key: what clients who name a user that doesn't exist are asked
    /// with.
    #[must_use]
    pub fn nobodys(name: &str, key: &[u8]) -> ScramVerifier {
        let of = |what: &str| hmac_sha256(key, format!("{what} {}", name.to_lowercase()).as_bytes());
        let salt = of("salt")[..16].to_vec();
        ScramVerifier { iterations: ITERATIONS_USUAL, salt, stored_key: of("stored"), server_key: of("server") }
    }

    /// Whether this is the password. Compares in constant time.
    #[must_use]
    pub fn is(&self, password: &str) -> bool {
        let other = ScramVerifier::of(password, &self.salt, self.iterations);
        is_equal(&other.stored_key, &self.stored_key)
    }

    /// The salt, which clients are told.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The iterations, which clients are told.
    #[must_use]
    pub fn iterations(&self) -> NonZeroU32 {
        self.iterations
    }

    /// Whether a client's proof is that of the password for these messages (`AuthMessage` of RFC 5802).
    #[must_use]
    pub fn proves(&self, messages: &str, proof: &[u8]) -> bool {
        let signature = hmac_sha256(&self.stored_key, messages.as_bytes());
        let Ok(proof) = Key::try_from(proof) else { return false };
        let client_key: Key = std::array::from_fn(|at| proof[at] ^ signature[at]);
        is_equal(&sha256(&client_key), &self.stored_key)
    }

    /// The server's signature of these messages, which proves to the client that the server has the verifier.
    #[must_use]
    pub fn signature(&self, messages: &str) -> [u8; SHA256_OUTPUT_LEN] {
        hmac_sha256(&self.server_key, messages.as_bytes())
    }
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), message);
    std::array::from_fn(|at| tag.as_ref()[at])
}

fn sha256(bytes: &[u8]) -> Key {
    let hash = digest(&SHA256, bytes);
    std::array::from_fn(|at| hash.as_ref()[at])
}

/// Compares in constant time.
fn is_equal(one: &Key, other: &Key) -> bool {
    blake3::Hash::from_bytes(*one) == blake3::Hash::from_bytes(*other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    const MESSAGES: &str = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
        r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
        c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    #[test]
    fn the_example_of_the_rfc_is_proved() {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::of("pencil", &salt, ITERATIONS_USUAL);
        let proof = BASE64_STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        assert!(verifier.proves(MESSAGES, &proof));
        let signature = BASE64_STANDARD.encode(verifier.signature(MESSAGES));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert!(verifier.is("pencil") && !verifier.is("pencils") && !verifier.is(""));
        let again = ScramVerifier::parse(&verifier.to_string()).unwrap();
        assert!(again == verifier && format!("{again:?}") == "ScramVerifier");
        for at in 0..proof.len() {
            let mut wrong = proof.clone();
            wrong[at] ^= 1;
            assert!(!verifier.proves(MESSAGES, &wrong));
        }
        assert!(
            !verifier.proves(&MESSAGES.replace("n=user", "n=other"), &proof) && !verifier.proves(MESSAGES, &proof[1..])
        );
    }

    #[test]
    fn texts_that_are_no_verifier_are_refused() {
        let sound = ScramVerifier::of("x", &[7; 16], ITERATIONS_USUAL).to_string();
        assert!(ScramVerifier::parse(&sound).is_some());
        for wrong in [
            String::new(),
            "SCRAM-SHA-256".to_owned(),
            sound.replace("256$4096", "256$4095"),
            sound.replace("256$4096", "256$4294967295"),
            sound.replace("SHA-256", "SHA-1"),
            sound.replace("BwcHBwcHBwcHBwcHBwcHBw==", "Bwc="),
            sound[..sound.len() - 4].to_owned(),
            sound.replace(':', ";"),
        ] {
            assert!(ScramVerifier::parse(&wrong).is_none(), "{wrong}");
        }
    }
}
