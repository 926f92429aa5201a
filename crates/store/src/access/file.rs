//! `access.json`: its bytes and their validation.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Access, Quota, Role};
use crate::error::{Error, Result};

/// Newest version of the file that this release reads and writes.
const VERSION: u32 = 3;

/// The version of a file with these: one without verifiers, priorities and quotas is read by releases that know none.
fn version(access: &Access) -> u32 {
    let has_verifier = |role: &Role| role.password.as_ref().is_some_and(|password| password.verifier().is_some());
    let has_priority = |role: &Role| role.quotas.contains_key(&Quota::StatementPriority);
    match access.roles.iter().any(|role| has_verifier(role) || has_priority(role)) {
        true => VERSION,
        false if access.roles.iter().any(|role| !role.quotas.is_empty()) => 2,
        false => 1,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    version: u32,
    /// BLAKE3 of `access` as compact JSON.
    blake3: String,
    access: Access,
}

fn digest(access: &Access) -> Result<String> {
    let text = serde_json::to_vec(access).map_err(|error| Error::Refused { reason: error.to_string() })?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

/// Parses the bytes of the file.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::FormatVersion`]. No error shows what is in the file.
pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Access> {
    // The parser's message isn't used, because it may quote the file.
    let damaged = |error: serde_json::Error| {
        let found = format!("something else in line {}, column {}", error.line(), error.column());
        Error::corrupt(path, 0, "the list of users and roles", found)
    };
    let file: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    let version = file["version"].as_u64().unwrap_or(0);
    if version > u64::from(VERSION) {
        let found = u32::try_from(version).unwrap_or(u32::MAX);
        return Err(Error::FormatVersion { path: path.to_path_buf(), found, supported: VERSION });
    }
    let file: AccessFile = serde_json::from_value(file).map_err(damaged)?;
    let found = digest(&file.access)?;
    if found != file.blake3 {
        return Err(Error::corrupt(path, 0, format!("users and roles of BLAKE3 {}", file.blake3), found));
    }
    if let Some(role) =
        file.access.roles.iter().find(|role| role.password.as_ref().is_some_and(|secret| !secret.is_sound()))
    {
        return Err(Error::corrupt(path, 0, "a password's hash", format!("none for {:?}", role.name)));
    }
    let is_unsound = |role: &&Role| role.quotas.iter().any(|(quota, value)| !quota.is_sound(*value));
    if let Some(role) = file.access.roles.iter().find(is_unsound) {
        return Err(Error::corrupt(path, 0, "quotas that can be held to", format!("others of {:?}", role.name)));
    }
    Ok(file.access)
}

/// The file's bytes.
pub(crate) fn bytes(access: Access) -> Result<Vec<u8>> {
    let file = AccessFile { version: version(&access), blake3: digest(&access)?, access };
    serde_json::to_vec_pretty(&file).map_err(|error| Error::Refused { reason: error.to_string() })
}
