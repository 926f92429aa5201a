//! The lines of a Delta log, as far as a publication writes or reads them: the names and types of Delta's protocol.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::manifest::FileEntry;

/// The feature that the protocol asks writers for. No other program has it, so that none writes, and above all none removes files.
pub(super) const WRITER_FEATURE: &str = "splayManaged";

/// Name of a file's tag that tells its bytes from others that had the path.
const DIGEST: &str = "splay.digest";

/// One line: one of these is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeltaAction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit_info: Option<CommitInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) meta_data: Option<Metadata>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) txn: Option<DeltaTransaction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) add: Option<Add>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remove: Option<Remove>,
}

/// The writer of a version and its reason, for people who read the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitInfo {
    #[serde(default)]
    pub(super) timestamp: i64,
    #[serde(default)]
    pub(super) operation: String,
    #[serde(default)]
    pub(super) operation_parameters: BTreeMap<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) engine_info: Option<String>,
}

/// The features that readers and writers must support.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub(super) min_reader_version: i32,
    pub(super) min_writer_version: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reader_features: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) writer_features: Option<Vec<String>>,
}

impl Protocol {
    /// The oldest one for readers, and one for writers that they refuse.
    pub(super) fn ours() -> Protocol {
        let writer_features = Some(vec![WRITER_FEATURE.to_owned()]);
        Protocol { min_reader_version: 1, min_writer_version: 7, reader_features: None, writer_features }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.writer_features.iter().flatten().any(|feature| feature == WRITER_FEATURE)
    }
}

/// The description of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) format: DeltaFormat,
    pub(super) schema_string: String,
    #[serde(default)]
    pub(super) partition_columns: Vec<String>,
    #[serde(default)]
    pub(super) configuration: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created_time: Option<i64>,
}

/// The files' format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DeltaFormat {
    provider: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
}

impl Default for DeltaFormat {
    fn default() -> DeltaFormat {
        DeltaFormat { provider: "parquet".to_owned(), options: BTreeMap::new() }
    }
}

/// How far a writer has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeltaTransaction {
    pub(super) app_id: String,
    pub(super) version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_updated: Option<i64>,
}

/// A file that counts from a version on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub(super) path: String,
    #[serde(default)]
    pub(super) partition_values: BTreeMap<String, Option<String>>,
    pub(super) size: i64,
    #[serde(default)]
    pub(super) modification_time: i64,
    #[serde(default)]
    pub(super) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<BTreeMap<String, Option<String>>>,
}

impl Add {
    /// The file of a segment. Segments' paths have no sign that a URI would write another way.
    pub(super) fn of(
        entry: &FileEntry,
        modified_ns: i64,
        partition_values: BTreeMap<String, Option<String>>,
        stats: String,
    ) -> Add {
        Add {
            path: entry.path.clone(),
            partition_values,
            size: i64::try_from(entry.bytes).unwrap_or(i64::MAX),
            modification_time: modified_ns / 1_000_000,
            data_change: true,
            stats: Some(stats),
            tags: Some([(DIGEST.to_owned(), Some(entry.digest.clone()))].into()),
        }
    }

    /// Whether it is the file of a segment, and not of another one that had its path before a table was put back.
    pub(super) fn is_of(&self, entry: &FileEntry) -> bool {
        let digest = self.tags.as_ref().and_then(|tags| tags.get(DIGEST)).and_then(Option::as_deref);
        self.path == entry.path
            && u64::try_from(self.size) == Ok(entry.bytes)
            && digest.is_none_or(|digest| digest == entry.digest)
    }
}

/// A file that counts no longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove {
    pub(super) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deletion_timestamp: Option<i64>,
    #[serde(default)]
    pub(super) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) partition_values: Option<BTreeMap<String, Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<i64>,
}

impl Remove {
    pub(super) fn of(add: &Add, at: i64) -> Remove {
        Remove {
            path: add.path.clone(),
            deletion_timestamp: Some(at / 1_000_000),
            data_change: true,
            extended_file_metadata: Some(true),
            partition_values: Some(add.partition_values.clone()),
            size: Some(add.size),
        }
    }
}

/// A random number in the form in which Delta tables have theirs (UUID, version 4).
pub(super) fn random_id() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::io("make", "a random number")(std::io::Error::other(error)))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}
