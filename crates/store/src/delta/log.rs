//! The Delta log of a table: read up to its last version, and extended by one.
//!
//! `TABLE/_delta_log/00000000000000000012.json` is version 12. Every 32nd version has a checkpoint, so readers don't
//! read all versions.

use std::collections::BTreeMap;

use super::action::{Add, CommitInfo, DeltaAction, Metadata};
use super::{checkpoint, transaction};
use crate::error::{Error, Result};
use crate::storage::{self, Storage};

/// The log's folder within the table's.
pub(super) const FOLDER: &str = "_delta_log";

/// The file in which readers look for the last checkpoint.
const LAST_CHECKPOINT: &str = "_last_checkpoint";

/// Versions from one checkpoint to the next.
const CHECKPOINT_VERSIONS: u64 = 32;

/// Digits of a version in a file's name.
const DIGITS: usize = 20;

/// A Delta log up to its last version.
#[derive(Debug)]
pub(super) struct DeltaLog {
    folder: String,
    /// The last version; `None` if there is none yet.
    pub(super) version: Option<u64>,
    checkpoint: Option<u64>,
    pub(super) metadata: Option<Metadata>,
    /// By path.
    pub(super) files: BTreeMap<String, Add>,
    /// The rest that a checkpoint says.
    others: Vec<DeltaAction>,
}

/// The version in the name of a file with an ending.
fn version_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let is_version = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_version.then(|| digits.parse().ok()).flatten()
}

impl DeltaLog {
    /// Reads the log of a table's folder, which need not exist. Removes what an interrupted publication left.
    pub(super) fn open(storage: &dyn Storage, table: &str) -> Result<DeltaLog> {
        let folder = format!("{table}/{FOLDER}");
        let entries = storage.list(&folder)?;
        for entry in entries.iter().filter(|entry| entry.name.ends_with(".tmp") && !entry.is_dir) {
            storage.remove(&format!("{folder}/{}", entry.name))?;
        }
        let versions = |ending| entries.iter().filter_map(move |entry| version_of(&entry.name, ending));
        let checkpoint = versions(checkpoint::ENDING).max();
        let (metadata, files, others) = (None, BTreeMap::new(), Vec::new());
        let mut log = DeltaLog { folder, version: checkpoint, checkpoint, metadata, files, others };
        if let Some(version) = checkpoint {
            let path = format!("{}/{version:020}{}", log.folder, checkpoint::ENDING);
            checkpoint::read(storage, &path)?.into_iter().for_each(|action| log.apply(action));
        }
        let mut later: Vec<u64> = versions(".json").filter(|version| Some(*version) > checkpoint).collect();
        later.sort_unstable();
        for version in later {
            let path = log.path_of(version);
            if version != log.next_version() {
                let shown = storage.display_path(&path);
                return Err(log.damage(&shown, &format!("version {}", log.next_version()), version.to_string()));
            }
            log.read_version(storage, &path)?;
            log.version = Some(version);
        }
        if log.version.is_some() {
            log.check_owner(storage)?;
            // Its writer may have died before the name was durable, and readers have seen it since.
            storage.sync_dir(&log.folder)?;
        }
        Ok(log)
    }

    pub(super) fn next_version(&self) -> u64 {
        self.version.map_or(0, |version| version + 1)
    }

    fn path_of(&self, version: u64) -> String {
        format!("{}/{version:020}.json", self.folder)
    }

    fn damage(&self, path: &std::path::Path, expected: &str, found: String) -> Error {
        let way = format!("{found} (the next publication makes the log anew if the folder {FOLDER} is removed)");
        Error::corrupt(path, 0, expected, way)
    }

    fn read_version(&mut self, storage: &dyn Storage, path: &str) -> Result<()> {
        let bytes = storage.read(path)?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let action: DeltaAction = serde_json::from_slice(line).map_err(|error| {
                self.damage(&storage.display_path(path), "actions of a Delta log", error.to_string())
            })?;
            self.apply(action);
        }
        Ok(())
    }

    fn apply(&mut self, mut action: DeltaAction) {
        if let Some(remove) = action.remove.take() {
            self.files.remove(&remove.path);
        }
        if let Some(add) = action.add.take() {
            self.files.insert(add.path.clone(), add);
        }
        if let Some(metadata) = action.meta_data.take() {
            self.metadata = Some(metadata);
        }
        if action.protocol.is_some() {
            self.others.retain(|other| other.protocol.is_none());
            self.others.push(DeltaAction { protocol: action.protocol.take(), ..DeltaAction::default() });
        }
        if let Some(txn) = action.txn.take() {
            let is_same = |other: &DeltaAction| other.txn.as_ref().is_some_and(|former| former.app_id == txn.app_id);
            self.others.retain(|other| !is_same(other));
            self.others.push(DeltaAction { txn: Some(txn), ..DeltaAction::default() });
        }
    }

    /// Refuses a Delta table that others made in the table's folder.
    fn check_owner(&self, storage: &dyn Storage) -> Result<()> {
        let protocol = self.others.iter().find_map(|action| action.protocol.as_ref());
        if protocol.is_some_and(super::Protocol::is_ours) && self.metadata.is_some() {
            return Ok(());
        }
        let shown = storage.display_path(&self.folder);
        Err(self.damage(&shown, "the log of a table that SplayDB publishes", "that of another Delta table".to_owned()))
    }

    /// Adds a version, durably. It exists completely or not at all, and never replaces another one.
    pub(super) fn commit(mut self, storage: &dyn Storage, epoch: u64, actions: Vec<DeltaAction>) -> Result<()> {
        let version = self.next_version();
        let mut lines = vec![commit_info(epoch), transaction(epoch)];
        lines.extend(actions);
        let mut text = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut text, line)
                .map_err(|error| Error::Arrow(arrow::error::ArrowError::from_external_error(Box::new(error))))?;
            text.push(b'\n');
        }
        storage.create_dir(&self.folder)?;
        storage.sync_dir(storage::parent(&self.folder))?;
        create_whole(storage, &self.path_of(version), &text)?;
        lines.into_iter().for_each(|action| self.apply(action));
        self.version = Some(version);
        if version >= self.checkpoint.unwrap_or(0) + CHECKPOINT_VERSIONS {
            self.write_checkpoint(storage, version)?;
        }
        Ok(())
    }

    fn write_checkpoint(&self, storage: &dyn Storage, version: u64) -> Result<()> {
        let metadata = DeltaAction { meta_data: self.metadata.clone(), ..DeltaAction::default() };
        let files = self.files.values().map(|add| DeltaAction { add: Some(add.clone()), ..DeltaAction::default() });
        let actions: Vec<DeltaAction> = self.others.iter().cloned().chain([metadata]).chain(files).collect();
        let bytes = checkpoint::encode(&actions)?;
        storage::replace(storage, &format!("{}/{version:020}{}", self.folder, checkpoint::ENDING), &bytes)?;
        let last = serde_json::json!({"version": version, "size": actions.len()}).to_string();
        storage::replace(storage, &format!("{}/{LAST_CHECKPOINT}", self.folder), last.as_bytes())
    }
}

fn commit_info(epoch: u64) -> DeltaAction {
    let info = CommitInfo {
        timestamp: crate::write::now() / 1_000_000,
        operation: "PUBLISH".to_owned(),
        operation_parameters: [("commit".to_owned(), epoch.to_string().into())].into(),
        engine_info: Some(concat!("SplayDB/", env!("CARGO_PKG_VERSION")).to_owned()),
    };
    DeltaAction { commit_info: Some(info), ..DeltaAction::default() }
}

/// Creates a file, durably and atomically: it exists with all of its bytes or not at all. Fails if it exists.
fn create_whole(storage: &dyn Storage, path: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{path}.tmp");
    let mut file = storage.create(&temporary)?;
    file.write(bytes)?;
    file.sync()?;
    drop(file);
    match storage.link(&temporary, path) {
        Ok(()) => storage.remove(&temporary)?,
        // A file system without second names. The writer's lock keeps others of ours away.
        Err(error) if matches!(storage.identity(path), Err(absent) if absent.is_not_found()) => {
            tracing::debug!(path, %error, "a version gets its name by a rename");
            storage.rename(&temporary, path)?;
        }
        Err(error) => return Err(error),
    }
    storage.sync_dir(storage::parent(path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_versions_are_versions() {
        assert_eq!(version_of("00000000000000000012.json", ".json"), Some(12));
        for name in [
            "12.json",
            "00000000000000000012.json.tmp",
            "+0000000000000000012.json",
            "0000000000000000012a.json",
            "99999999999999999999.json",
        ] {
            assert_eq!(version_of(name, ".json"), None, "{name}");
        }
    }
}
