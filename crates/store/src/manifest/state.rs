//! A table's state at one epoch: what the log's records add up to.

use std::collections::{BTreeMap, HashMap};

use super::format::{Captured, Commit, FileEntry, Operation, Source};
use crate::error::{Error, Result};
use crate::schema::TableSpec;

/// A table at one epoch.
#[derive(Debug, Clone)]
pub(crate) struct TableState {
    pub(crate) epoch: u64,
    pub(crate) spec: TableSpec,
    /// Segments by path; the order of paths within a partition is the order of their rows.
    pub(crate) files: BTreeMap<String, FileEntry>,
    /// Sources by digest, with the epoch that loaded them.
    pub(crate) sources: HashMap<String, (Source, u64)>,
    pub(crate) captured: Captured,
}

impl TableState {
    /// The state after the first record of a log.
    pub(crate) fn first(commit: Commit, path: &std::path::Path) -> Result<TableState> {
        let Some(spec) = commit.spec.clone() else {
            return Err(Error::corrupt(path, 0, "a first record with a schema", "one without"));
        };
        let captured = Captured::default();
        let mut state = TableState { epoch: 0, spec, files: BTreeMap::new(), sources: HashMap::new(), captured };
        state.apply(commit, path)?;
        Ok(state)
    }

    /// Adds one record.
    pub(crate) fn apply(&mut self, commit: Commit, path: &std::path::Path) -> Result<()> {
        let inconsistent = |what: String| Error::corrupt(path, 0, "records that fit each other", what);
        if commit.operation != Operation::Snapshot && commit.epoch != self.epoch + 1 && self.epoch != 0 {
            return Err(inconsistent(format!("epoch {} after {}", commit.epoch, self.epoch)));
        }
        if let Some(spec) = commit.spec {
            spec.validate()?;
            self.spec = spec;
        }
        for removed in &commit.remove {
            if self.files.remove(removed).is_none() {
                return Err(inconsistent(format!("the removal of {removed}, which isn't there")));
            }
        }
        for entry in commit.add {
            if !is_segment_path(&entry.path) {
                return Err(inconsistent(format!("the path {:?}", entry.path)));
            }
            if let Some(twice) = self.files.insert(entry.path.clone(), entry) {
                return Err(inconsistent(format!("{} twice", twice.path)));
            }
        }
        for (source, epoch) in commit.sources {
            let epoch = if epoch == 0 { commit.epoch } else { epoch };
            self.sources.insert(source.digest.clone(), (source, epoch));
        }
        if let Some(captured) = commit.captured {
            if captured.sequence < self.captured.sequence || captured.cut < self.captured.cut {
                return Err(inconsistent(format!("captured rows up to {captured:?} after {:?}", self.captured)));
            }
            self.captured = captured;
        }
        self.epoch = commit.epoch;
        Ok(())
    }

    /// The state as the first record of a new log.
    pub(crate) fn snapshot(&self, at: i64) -> Commit {
        Commit {
            epoch: self.epoch,
            at,
            operation: Operation::Snapshot,
            spec: Some(self.spec.clone()),
            add: self.files.values().cloned().collect(),
            remove: Vec::new(),
            sources: self.sources.values().cloned().collect(),
            captured: Some(self.captured).filter(|captured| *captured != Captured::default()),
        }
    }
}

/// Whether a path has the form `date=.../name`, so that no record can lead out of the table's folder.
fn is_segment_path(path: &str) -> bool {
    path.split_once('/').is_some_and(|(folder, name)| {
        folder.starts_with("date=") && !folder.contains("..") && !name.contains('/') && !name.starts_with('.')
    })
}
