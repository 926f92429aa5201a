//! `head.json`: the number and digest of the last record, stored apart from the records.

use serde::{Deserialize, Serialize};

use super::chain::{ChainPosition, VERSION};
use super::seal::{AuditKey, Seal, SealedLine};
use super::time_text;
use crate::error::Result;
use crate::storage::{self, Storage};

/// Name of the file.
pub(super) const FILE: &str = "head.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogHead {
    pub(super) version: u32,
    pub(super) chain: String,
    /// Number of the last record.
    pub(super) n: u64,
    pub(super) time: String,
    /// Digest of the last record.
    pub(super) last: String,
    /// The id of the key that the head is sealed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// The content of a head's file.
#[derive(Debug)]
pub(super) enum StoredHead {
    None,
    /// Something else.
    Damaged,
    /// One, and its seal.
    Some(LogHead, SealedLine),
}

impl LogHead {
    pub(super) fn read(storage: &dyn Storage) -> Result<StoredHead> {
        let bytes = match storage.read(FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(StoredHead::None),
            Err(error) => return Err(error),
        };
        let line = bytes.strip_suffix(b"\n").and_then(SealedLine::of);
        let parsed = line.and_then(|line| Some((serde_json::from_slice::<LogHead>(&line.object).ok()?, line)));
        Ok(parsed.map_or(StoredHead::Damaged, |(head, line)| StoredHead::Some(head, line)))
    }

    pub(super) fn position(&self) -> ChainPosition {
        ChainPosition { n: self.n, digest: self.last.clone() }
    }

    /// Replaces the previous head, durably.
    pub(super) fn write(
        storage: &dyn Storage,
        (chain, position): (&str, &ChainPosition),
        key: Option<&AuditKey>,
        now: i64,
    ) -> Result<()> {
        let head = LogHead {
            version: VERSION,
            chain: chain.to_owned(),
            n: position.n,
            time: time_text(now),
            last: position.digest.clone(),
            key: key.map(|key| key.id().to_owned()),
        };
        let object = serde_json::to_vec(&head).unwrap_or_else(|_| b"{}".to_vec());
        let (mut line, _) = Seal::of_head(key).seal(object);
        line.push(b'\n');
        storage::replace(storage, FILE, &line)
    }
}
