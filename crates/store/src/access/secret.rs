//! Passwords and tokens: generation, digests, comparison.

use std::sync::OnceLock;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};

use super::scram::ScramVerifier;
use crate::error::{Error, Result};

/// The cost of a new password's hash, as OWASP advises for Argon2id: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;

/// The most that a stored hash may cost: bytes of a file don't size an allocation unchecked.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
const PASSES_MAX: u32 = 16;

/// Bytes of a salt, a hash and a token.
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const TOKEN_BYTES: usize = 32;

/// Bytes of the longest password.
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

/// What is stored of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Password {
    /// Its Argon2id hash.
    Argon2id(Argon2id),
    /// A verifier that a client computed, with which PostgreSQL's clients don't have to send the password.
    Scram(Scram),
}

/// An Argon2id hash.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2id {
    memory_kib: u32,
    passes: u32,
    salt: String,
    hash: String,
}

/// A verifier for SCRAM-SHA-256.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scram {
    scram: ScramVerifier,
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// The Argon2id hash of a password, with a new salt; takes some 20 milliseconds and 19 MiB. Of a text that is a verifier for SCRAM-SHA-256, as
    /// PostgreSQL's clients send it in place of the password, that verifier.
    ///
    /// # Errors
    /// [`Error::Refused`] for an empty or very long password, and without random bytes.
    pub fn new(password: &str) -> Result<Password> {
        if let Some(scram) = ScramVerifier::parse(password) {
            return Ok(Password::Scram(Scram { scram }));
        }
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Err(refusal(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes")));
        }
        let salt = random::<SALT_BYTES>()?;
        Password::with(password, &salt, MEMORY_KIB, PASSES)
    }

    pub(super) fn with(password: &str, salt: &[u8], memory_kib: u32, passes: u32) -> Result<Password> {
        let hash = hash(password, salt, memory_kib, passes).ok_or_else(|| refusal("the password can't be hashed"))?;
        let (salt, hash) = (hex(salt), hash.to_hex().to_string());
        Ok(Password::Argon2id(Argon2id { memory_kib, passes, salt, hash }))
    }

    /// Whether this is the password. Compares in constant time.
    #[must_use]
    pub fn is(&self, password: &str) -> bool {
        let is_short = password.len() <= PASSWORD_BYTES_MAX;
        match self {
            Password::Argon2id(hash) => is_short && hash.is(password),
            // Clients prepare passwords so before they compute a verifier, where that is possible.
            Password::Scram(Scram { scram }) => {
                is_short && stringprep::saslprep(password).map_or_else(|_| scram.is(password), |text| scram.is(&text))
            }
        }
    }

    /// The verifier for SCRAM-SHA-256, if that is what is stored.
    #[must_use]
    pub fn verifier(&self) -> Option<&ScramVerifier> {
        match self {
            Password::Argon2id(_) => None,
            Password::Scram(Scram { scram }) => Some(scram),
        }
    }

    /// Something that differs once the password or its hash does, for a cache of passwords that were right.
    #[must_use]
    pub fn mark(&self) -> String {
        match self {
            Password::Argon2id(hash) => hash.hash.clone(),
            Password::Scram(Scram { scram }) => scram.to_string(),
        }
    }

    /// Whether the hash is well formed and its cost within bounds. A verifier is, or it can't be read.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Password::Argon2id(hash) => hash.is_sound(),
            Password::Scram(_) => true,
        }
    }

    /// A hash that no password has. It is compared for users that don't exist, so that the answer takes as long as for others.
    pub(super) fn nobodys() -> &'static Password {
        static NOBODYS: OnceLock<Password> = OnceLock::new();
        NOBODYS.get_or_init(|| {
            Password::Argon2id(Argon2id {
                memory_kib: MEMORY_KIB,
                passes: PASSES,
                salt: hex(&[0; SALT_BYTES]),
                hash: hex(&[0; HASH_BYTES]),
            })
        })
    }
}

impl Argon2id {
    fn is(&self, password: &str) -> bool {
        let Some(salt) = from_hex(&self.salt).filter(|_| self.is_sound()) else { return false };
        let stored_hash = blake3::Hash::from_hex(&self.hash);
        let computed_hash = hash(password, &salt, self.memory_kib, self.passes);
        matches!((stored_hash, computed_hash), (Ok(stored_hash), Some(computed_hash)) if stored_hash == computed_hash)
    }

    fn is_sound(&self) -> bool {
        (8..=MEMORY_KIB_MAX).contains(&self.memory_kib)
            && (1..=PASSES_MAX).contains(&self.passes)
            && from_hex(&self.salt).is_some_and(|salt| (8..=64).contains(&salt.len()))
            && blake3::Hash::from_hex(&self.hash).is_ok()
    }
}

fn refusal(reason: impl Into<String>) -> Error {
    Error::Refused { reason: reason.into() }
}

/// The Argon2id hash. A type whose values are compared in constant time.
fn hash(password: &str, salt: &[u8], memory_kib: u32, passes: u32) -> Option<blake3::Hash> {
    let params = Params::new(memory_kib, passes, 1, Some(HASH_BYTES)).ok()?;
    let mut blocks = vec![Block::default(); params.block_count()];
    let mut hash = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into_with_memory(password.as_bytes(), salt, &mut hash, &mut blocks).ok()?;
    Some(blake3::Hash::from_bytes(hash))
}

/// A token and its digest. The token is for its user, and shown once.
#[derive(Clone)]
pub struct Secret {
    /// The token: 32 random bytes in hex.
    pub token: String,
    /// BLAKE3 of it, in hex. Enough, since there is nothing to guess.
    pub blake3: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("blake3", &self.blake3).finish_non_exhaustive()
    }
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Refused`] without random bytes.
    pub fn generate() -> Result<Secret> {
        let token = hex(&random::<TOKEN_BYTES>()?);
        let blake3 = blake3::hash(token.as_bytes()).to_hex().to_string();
        Ok(Secret { token, blake3 })
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| refusal(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
