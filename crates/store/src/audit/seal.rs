//! Digests of records: BLAKE3, or keyed BLAKE3, which is a message authentication code as HMAC is.
//!
//! A sealed line is an object of JSON whose last member is `digest`: that of the same object without it.

use crate::error::{Error, Result};

/// Separates an object's other members from its digest.
const BEFORE_DIGEST: &[u8] = b",\"digest\":\"";

/// The bytes that follow the digest.
const BEHIND_DIGEST: &[u8] = b"\"}";

/// Digits of a digest.
const DIGITS: usize = 64;

/// Bytes of the shortest text that is taken for a key.
pub const KEY_BYTES_MIN: usize = 32;

/// A key that digests are made with.
#[derive(Clone, PartialEq, Eq)]
pub struct AuditKey {
    record: [u8; 32],
    head: [u8; 32],
    id: String,
}

impl std::fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuditKey({})", self.id)
    }
}

impl AuditKey {
    /// The key of a text; blanks around it don't count.
    ///
    /// # Errors
    /// [`Error::Refused`] for a text that is too short to be no guess.
    pub fn of(text: &str) -> Result<AuditKey> {
        let text = text.trim();
        if text.len() < KEY_BYTES_MIN {
            let reason = format!(
                "a key of the audit log has at least {KEY_BYTES_MIN} bytes, such as openssl rand -hex 32 gives"
            );
            return Err(Error::Refused { reason });
        }
        let derive = |purpose: &str| blake3::derive_key(purpose, text.as_bytes());
        let id = blake3::Hash::from_bytes(derive("SplayDB 2026-11 audit log: name of the key")).to_hex();
        Ok(AuditKey {
            record: derive("SplayDB 2026-11 audit log: records"),
            head: derive("SplayDB 2026-11 audit log: head"),
            id: id[..16].to_owned(),
        })
    }

    /// The id of a key in files, which reveals nothing of the key.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// How digests are made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seal<'a> {
    Plain,
    Record(&'a AuditKey),
    /// Heads are sealed with a key of their own. Otherwise the digest of a record could be presented as that of a head, to hide that the end was
    /// cut off.
    Head(&'a AuditKey),
}

impl<'a> Seal<'a> {
    pub(super) fn of_records(key: Option<&'a AuditKey>) -> Seal<'a> {
        key.map_or(Seal::Plain, Seal::Record)
    }

    pub(super) fn of_head(key: Option<&'a AuditKey>) -> Seal<'a> {
        key.map_or(Seal::Plain, Seal::Head)
    }

    fn digest(self, bytes: &[u8]) -> blake3::Hash {
        match self {
            Seal::Plain => blake3::hash(bytes),
            Seal::Record(key) => blake3::keyed_hash(&key.record, bytes),
            Seal::Head(key) => blake3::keyed_hash(&key.head, bytes),
        }
    }

    /// An object with its digest behind, and the digest.
    pub(super) fn seal(self, mut object: Vec<u8>) -> (Vec<u8>, String) {
        let digest = self.digest(&object).to_hex().to_string();
        debug_assert_eq!(object.last(), Some(&b'}'));
        object.pop();
        object.extend_from_slice(BEFORE_DIGEST);
        object.extend_from_slice(digest.as_bytes());
        object.extend_from_slice(BEHIND_DIGEST);
        (object, digest)
    }

    /// Whether a line is unchanged since it was sealed.
    pub(super) fn is_sound(self, line: &SealedLine) -> bool {
        blake3::Hash::from_hex(&line.digest).is_ok_and(|digest| digest == self.digest(&line.object))
    }
}

/// A line taken apart.
#[derive(Debug)]
pub(super) struct SealedLine {
    /// The object without its digest.
    pub(super) object: Vec<u8>,
    pub(super) digest: String,
}

impl SealedLine {
    /// `None` if the line has no seal.
    pub(super) fn of(line: &[u8]) -> Option<SealedLine> {
        let rest = line.strip_suffix(BEHIND_DIGEST)?;
        let (rest, digest) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
        let object = rest.strip_suffix(BEFORE_DIGEST)?;
        let is_digit = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let digest = Some(digest).filter(|digest| digest.iter().all(is_digit))?;
        let digest = std::str::from_utf8(digest).ok()?.to_owned();
        Some(SealedLine { object: [object, b"}"].concat(), digest })
    }
}
