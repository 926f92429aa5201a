//! Passwords and tokens: generation, digests, comparison.

use std::sync::OnceLock;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};

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

/// An Argon2id hash of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Password {
    memory_kib: u32,
    passes: u32,
    salt: String,
    hash: String,
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// The hash of a password, with a new salt. Takes some 20 milliseconds and 19 MiB.
    ///
    /// # Errors
    /// [`Error::Refused`] for an empty or very long password, and without random bytes.
    pub fn new(password: &str) -> Result<Password> {
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Err(refusal(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes")));
        }
        let salt = random::<SALT_BYTES>()?;
        Password::with(password, &salt, MEMORY_KIB, PASSES)
    }

    pub(super) fn with(password: &str, salt: &[u8], memory_kib: u32, passes: u32) -> Result<Password> {
        let hash = hash(password, salt, memory_kib, passes).ok_or_else(|| refusal("the password can't be hashed"))?;
        Ok(Password { memory_kib, passes, salt: hex(salt), hash: hash.to_hex().to_string() })
    }

    /// Whether this is the password. Compares in constant time.
    #[must_use]
    pub fn is(&self, password: &str) -> bool {
        let Some(salt) = from_hex(&self.salt).filter(|_| self.is_sound() && password.len() <= PASSWORD_BYTES_MAX)
        else {
            return false;
        };
        let stored_hash = blake3::Hash::from_hex(&self.hash);
        let computed_hash = hash(password, &salt, self.memory_kib, self.passes);
        matches!((stored_hash, computed_hash), (Ok(stored_hash), Some(computed_hash)) if stored_hash == computed_hash)
    }

    /// Something that differs once the password or its hash does, for a cache of passwords that were right.
    #[must_use]
    pub fn mark(&self) -> &str {
        &self.hash
    }

    /// Whether the hash is well formed and its cost within bounds.
    pub(super) fn is_sound(&self) -> bool {
        (8..=MEMORY_KIB_MAX).contains(&self.memory_kib)
            && (1..=PASSES_MAX).contains(&self.passes)
            && from_hex(&self.salt).is_some_and(|salt| (8..=64).contains(&salt.len()))
            && blake3::Hash::from_hex(&self.hash).is_ok()
    }

    /// A hash that no password has. It is compared for users that don't exist, so that the answer takes as long as for others.
    pub(super) fn nobodys() -> &'static Password {
        static NOBODYS: OnceLock<Password> = OnceLock::new();
        NOBODYS.get_or_init(|| Password {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: hex(&[0; SALT_BYTES]),
            hash: hex(&[0; HASH_BYTES]),
        })
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
