//! Bytes of the manifest: HEAD, the log's header, and its frames. Described in docs/format/manifest.md.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::history::History;
use crate::error::{Error, Result};
use crate::little_endian::{u32_at, u64_at};
use crate::schema::{NAME_BYTES_MAX, TableSpec, validate_name};
use crate::tier::Tier;
use crate::write_down_position::WriteDownPosition;

/// Newest version of HEAD and log. 1: symbols of a partition were never spread over its segments, and nothing was captured. 2: removed
/// files weren't kept, and no commit could be undone. 3: there was no tier `fast`. 4: dates began at midnight, each had a partition, and
/// there were no reference tables. 5: a table was called as its folder. 6: all files of a table were in its folder. 7: there was no tier `dense`.
/// 8: no file was encrypted.
pub(crate) const VERSION: u32 = 9;

/// Version of a HEAD of a table that has dense files and no encrypted ones.
const VERSION_WITH_DENSE: u32 = 8;

/// Version of a HEAD of a table that has files in the object store and no dense ones.
const VERSION_WITH_OBJECTS: u32 = 7;

/// Version of a HEAD that says a name, of a table whose files are all in its folder.
const VERSION_WITHOUT_OBJECTS: u32 = 6;

/// Version of logs, and of a HEAD that says no name: the last one that hadn't any.
const VERSION_WITHOUT_NAME: u32 = 5;

const HEAD_MAGIC: &[u8; 8] = b"SPLAYHED";
/// Without a name.
const HEAD_BYTES: usize = 40;
/// The offset of the name's length, if HEAD has a name.
const HEAD_NAME_AT: usize = 36;
const LOG_MAGIC: &[u8; 8] = b"SPLAYLOG";

/// Length of a log's header.
pub(crate) const LOG_HEADER_BYTES: usize = 16;

const FRAME_HEADER_BYTES: usize = 8;

/// The content of HEAD: the first `length` bytes of log `log` are the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) log: u64,
    pub(crate) length: u64,
    pub(crate) epoch: u64,
    /// Whether the table was dropped: it is none, but its last commits can be undone.
    pub(crate) dropped: bool,
    /// The table's name, if it differs from the name of its folder or the table was renamed.
    pub(crate) name: Option<Arc<str>>,
    /// The version that its segments need: [`VERSION`] where one is encrypted, [`VERSION_WITH_DENSE`] where one is dense, or a rule names
    /// that tier, [`VERSION_WITH_OBJECTS`] where one is in the object store, kept ones among them; 0 for those that any version knows.
    pub(crate) segments: u32,
}

/// Bit of HEAD's version for a table that was dropped.
const DROPPED: u32 = 1 << 31;

impl Head {
    /// The version that readers need for the segments: with some in the object store, dense or encrypted.
    pub(crate) fn segments_of(objects: bool, dense: bool, encrypted: bool) -> u32 {
        match (objects, dense, encrypted) {
            (_, _, true) => VERSION,
            (_, true, false) => VERSION_WITH_DENSE,
            (true, false, false) => VERSION_WITH_OBJECTS,
            (false, false, false) => 0,
        }
    }

    /// Whether it says that there are segments in the object store, which it doesn't where some are dense or encrypted.
    pub(crate) fn has_objects(&self) -> bool {
        self.segments == VERSION_WITH_OBJECTS
    }

    /// Whether it says that there are dense segments, which it doesn't where some are encrypted.
    pub(crate) fn has_dense(&self) -> bool {
        self.segments == VERSION_WITH_DENSE
    }

    /// Whether there are encrypted segments.
    pub(crate) fn has_encrypted(&self) -> bool {
        self.segments == VERSION
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(HEAD_MAGIC);
        let version = match (self.segments, &self.name) {
            (0, Some(_)) => VERSION_WITHOUT_OBJECTS,
            (0, None) => VERSION_WITHOUT_NAME,
            (segments, _) => segments,
        };
        let version = if self.dropped { version | DROPPED } else { version };
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&self.log.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        if let Some(name) = &self.name {
            // A name has at most 128 bytes.
            bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(name.as_bytes());
        } else if self.segments > 0 {
            bytes.push(0);
        }
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], path: &std::path::Path) -> Result<Head> {
        let bad = |offset, expected: &str, found: String| Error::corrupt(path, offset, expected, found);
        if !(HEAD_BYTES..=HEAD_BYTES + 1 + NAME_BYTES_MAX).contains(&bytes.len()) {
            return Err(bad(0, "40 to 169 bytes", format!("{} bytes", bytes.len())));
        }
        if !bytes.starts_with(HEAD_MAGIC) {
            return Err(bad(0, "SPLAYHED", String::from_utf8_lossy(&bytes[..8]).into_owned()));
        }
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return Err(bad(body.len() as u64, "the checksum of the bytes before", "another".to_owned()));
        }
        let (version, dropped) = (u32_at(bytes, 8) & !DROPPED, u32_at(bytes, 8) & DROPPED != 0);
        if version > VERSION {
            return Err(Error::FormatVersion { path: path.to_path_buf(), found: version, supported: VERSION });
        }
        let name = match (version > VERSION_WITHOUT_NAME, &body[HEAD_NAME_AT..]) {
            (false, []) | (true, [0]) => None,
            (true, [length, name @ ..]) if name.len() == usize::from(*length) => {
                let text = std::str::from_utf8(name).ok().filter(|name| validate_name("table", name).is_ok());
                let found = || bad(37, "the name of a table", String::from_utf8_lossy(name).into_owned());
                Some(text.ok_or_else(found)?.into())
            }
            (_, rest) => {
                return Err(bad(36, "a name of the length before it, or none", format!("{} bytes", rest.len())));
            }
        };
        let segments = if version > VERSION_WITHOUT_OBJECTS { version } else { 0 };
        Ok(Head {
            log: u64_at(bytes, 12),
            length: u64_at(bytes, 20),
            epoch: u64_at(bytes, 28),
            dropped,
            name,
            segments,
        })
    }
}

/// The first bytes of every log.
pub(crate) fn log_header() -> [u8; LOG_HEADER_BYTES] {
    let mut bytes = [0; LOG_HEADER_BYTES];
    bytes[..8].copy_from_slice(LOG_MAGIC);
    bytes[8..12].copy_from_slice(&VERSION_WITHOUT_NAME.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn check_log_header(bytes: &[u8], path: &std::path::Path) -> Result<()> {
    let header = bytes.get(..LOG_HEADER_BYTES).ok_or_else(|| {
        Error::corrupt(path, 0, format!("a header of {LOG_HEADER_BYTES} bytes"), format!("{} bytes", bytes.len()))
    })?;
    if header[..8] != *LOG_MAGIC || crc32c::crc32c(&header[..12]).to_le_bytes() != header[12..] {
        return Err(Error::corrupt(path, 0, "the header of a manifest log", "other bytes"));
    }
    let version = u32_at(header, 8);
    if version > VERSION {
        return Err(Error::FormatVersion { path: path.to_path_buf(), found: version, supported: VERSION });
    }
    Ok(())
}

/// The kind of a commit, for people who read the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    Load,
    /// Captured rows were written down.
    Capture,
    Compact,
    Schema,
    Delete,
    /// Rows replaced others.
    Replace,
    Update,
    /// The period of the partitions changed; the rows are the same.
    Partition,
    /// Dates beyond the table's retention were removed.
    Expire,
    /// The change of another commit was undone.
    Undo,
    /// The table was dropped, with all of its rows.
    Drop,
    /// Files that were kept for undo were removed.
    Forget,
    /// All of the table's state in one record, first in a log.
    Snapshot,
}

impl Operation {
    /// Whether the table may have other rows afterwards than those that were captured, so that there is something to undo.
    pub(crate) fn changes_rows(self) -> bool {
        use Operation::{Delete, Drop, Expire, Load, Replace, Undo, Update};
        matches!(self, Load | Delete | Replace | Update | Expire | Undo | Drop)
    }

    /// The word that people read.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Operation::Load => "load",
            Operation::Capture => "capture",
            Operation::Compact => "compact",
            Operation::Schema => "schema",
            Operation::Delete => "delete",
            Operation::Replace => "replace",
            Operation::Update => "update",
            Operation::Partition => "partition",
            Operation::Expire => "expire",
            Operation::Undo => "undo",
            Operation::Drop => "drop",
            Operation::Forget => "forget",
            Operation::Snapshot => "snapshot",
        }
    }
}

/// One segment of a table, as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path within the table's folder: `date=2013-10-07/00000012.000001.arrow`.
    pub path: String,
    /// How the rows are kept.
    #[serde(rename = "format")]
    pub tier: Tier,
    /// Partition, in days since 1970-01-01.
    pub date: i32,
    /// Rows.
    pub rows: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// BLAKE3 of the list of block checksums, in hex.
    pub digest: String,
    /// Length of the index file in bytes.
    pub index_bytes: u64,
    /// BLAKE3 of the index's header and section table, in hex.
    pub index_digest: String,
    /// Earliest time of a row, in nanoseconds since the epoch.
    pub time_min: i64,
    /// Latest time of a row.
    pub time_max: i64,
    /// Symbol of the first and of the last row; null symbols and tables without one have none.
    pub symbols: Option<(String, String)>,
    /// Key of the object that has the segment's bytes; `None` where the file does. The index is a file in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Id of the key under which the segment and its index are encrypted; `None` for those in plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl FileEntry {
    /// Path of the index file within the table's folder.
    #[must_use]
    pub fn index_path(&self) -> String {
        let stem = self.path.rsplit_once('.').map_or(self.path.as_str(), |(stem, _)| stem);
        format!("{stem}.index")
    }
}

/// Something that was loaded, remembered so that it isn't loaded twice by mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The source's name for people, usually that of a file.
    pub name: String,
    /// BLAKE3 of its bytes in hex.
    pub digest: String,
    /// Rows that came from it.
    pub rows: u64,
}

/// One record of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) epoch: u64,
    /// Nanoseconds since the epoch, by the writer's clock.
    pub(crate) at: i64,
    pub(crate) operation: Operation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<TableSpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) add: Vec<FileEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) remove: Vec<String>,
    /// Sources with the epoch that loaded them; 0 means this commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<(Source, u64)>,
    /// Captured rows that are in the files from now on, if this commit says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) captured: Option<WriteDownPosition>,
    /// Whether the removed files stay on disk, so that the commit can be undone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) keep: bool,
    /// Paths of files that were kept until now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) forget: Vec<String>,
    /// Digests of sources whose rows the table no longer has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unload: Vec<String>,
    /// Rows added and rows removed.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub(crate) rows: (u64, u64),
    /// Rows that were left out as duplicates.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) duplicates: u64,
    /// The commit that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undoes: Option<u64>,
    /// Whether the table is dropped from now on. A commit with a schema makes it anew.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) dropped: bool,
    /// The earlier states, in a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<History>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_none(count: &u64) -> bool {
    *count == 0
}

fn is_nothing(rows: &(u64, u64)) -> bool {
    *rows == (0, 0)
}

impl Commit {
    /// The record as a frame: length, checksum, JSON.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Serialising plain data to memory can't fail: no map keys that aren't strings, no fallible writer.
        let payload = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
        bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// Reads the frame at `offset` and returns it with the offset behind it.
    pub(crate) fn decode(bytes: &[u8], offset: usize, path: &std::path::Path) -> Result<(Commit, usize)> {
        let bad = |expected: &str, found: String| Error::corrupt(path, offset as u64, expected, found);
        let rest = &bytes[offset..];
        if rest.len() < FRAME_HEADER_BYTES {
            return Err(bad("a frame", format!("{} bytes", rest.len())));
        }
        let (length, crc) = (u32_at(rest, 0) as usize, u32_at(rest, 4));
        let payload = rest[FRAME_HEADER_BYTES..]
            .get(..length)
            .ok_or_else(|| bad("a whole frame", format!("a length of {length} with {} bytes left", rest.len() - 8)))?;
        if crc32c::crc32c(payload) != crc {
            return Err(bad("the frame's checksum", "another".to_owned()));
        }
        let commit = serde_json::from_slice(payload).map_err(|e| bad("a commit", e.to_string()))?;
        Ok((commit, offset + FRAME_HEADER_BYTES + length))
    }
}
