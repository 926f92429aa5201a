//! A table's state at one epoch: the result of applying the log's records.

use std::collections::{BTreeMap, HashMap};

use super::format::{Commit, FileEntry, Head, Operation, Source};
use super::history::{History, added_by};
use crate::error::{Error, Result};
use crate::schema::TableSpec;
use crate::tier::Tier;
use crate::write_down_position::WriteDownPosition;

/// A table at one epoch.
#[derive(Debug, Clone)]
pub(crate) struct TableState {
    pub(crate) epoch: u64,
    pub(crate) spec: TableSpec,
    /// Segments by path; the order of paths within a partition is the order of their rows.
    pub(crate) files: BTreeMap<String, FileEntry>,
    /// Sources by digest, with the epoch that loaded them.
    pub(crate) sources: HashMap<String, (Source, u64)>,
    pub(crate) captured: WriteDownPosition,
    pub(crate) history: History,
    pub(crate) dropped: bool,
}

impl TableState {
    /// The state after the first record of a log.
    pub(crate) fn first(commit: Commit, path: &std::path::Path) -> Result<TableState> {
        let Some(spec) = commit.spec.clone() else {
            return Err(Error::corrupt(path, 0, "a first record with a schema", "one without"));
        };
        let (captured, history) = (WriteDownPosition::default(), History::since(&commit));
        let mut state = TableState {
            epoch: 0,
            spec,
            files: BTreeMap::new(),
            sources: HashMap::new(),
            captured,
            history,
            dropped: false,
        };
        state.apply(commit, path)?;
        Ok(state)
    }

    /// Adds one record.
    pub(crate) fn apply(&mut self, mut commit: Commit, path: &std::path::Path) -> Result<()> {
        let inconsistent = |what: String| Error::corrupt(path, 0, "records that fit each other", what);
        if commit.operation != Operation::Snapshot && commit.epoch != self.epoch + 1 && self.epoch != 0 {
            return Err(inconsistent(format!("epoch {} after {}", commit.epoch, self.epoch)));
        }
        let mut former = None;
        if let Some(spec) = &commit.spec {
            spec.validate()?;
            former = (self.epoch != 0 && self.spec.name != spec.name).then(|| self.spec.name.clone());
            self.spec = spec.clone();
        }
        let mut removed_files = Vec::with_capacity(commit.remove.len());
        for removed in &commit.remove {
            let Some(entry) = self.files.remove(removed) else {
                return Err(inconsistent(format!("the removal of {removed}, which isn't there")));
            };
            removed_files.push(entry);
        }
        let mut unloaded: Vec<(Source, u64)> =
            commit.unload.iter().filter_map(|digest| self.sources.remove(digest)).collect();
        unloaded.extend(commit.sources.iter().filter_map(|(source, _)| self.sources.remove(&source.digest)));
        if let Some(history) = commit.history.take() {
            self.history = history;
        } else {
            self.history.note(&commit, removed_files, unloaded, self.dropped).map_err(inconsistent)?;
        }
        if let Some(name) = former {
            self.history.note_name(name, self.captured);
        }
        self.dropped = commit.dropped || self.dropped && commit.spec.is_none();
        for entry in commit.add {
            if !is_segment_path(&entry.path) {
                return Err(inconsistent(format!("the path {:?}", entry.path)));
            }
            if let Some(key) = entry.object.as_deref().filter(|key| !is_object_key(key)) {
                return Err(inconsistent(format!("the object {key:?}")));
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

    /// HEAD of a table in this state in a folder, where its log has a number and a length.
    pub(crate) fn head(&self, folder: &str, log: u64, length: u64) -> Head {
        let is_named = self.spec.name != folder || self.history.has_former_names();
        let name = is_named.then(|| self.spec.name.as_str().into());
        Head { log, length, epoch: self.epoch, dropped: self.dropped, name, segments: self.segments_version() }
    }

    /// The version of HEAD that the table's segments need.
    fn segments_version(&self) -> u32 {
        let retired = self.history.retired().values().map(|retired| &retired.entry);
        let mut entries = self.files.values().chain(retired);
        let encrypted = entries.clone().any(|entry| entry.key.is_some());
        let dense = entries.any(|entry| entry.tier == Tier::Dense)
            || self.spec.tiers.iter().any(|rule| rule.tier == Tier::Dense);
        Head::segments_of(self.object_keys().next().is_some(), dense, encrypted)
    }

    /// Keys of the objects that the table has, or keeps.
    pub(crate) fn object_keys(&self) -> impl Iterator<Item = &str> {
        let retired = self.history.retired().values().map(|retired| &retired.entry);
        self.files.values().chain(retired).filter_map(|entry| entry.object.as_deref())
    }

    /// Whether there is a table of this name, as far as case is left aside.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        !self.dropped && self.spec.name.eq_ignore_ascii_case(name)
    }

    /// The captured rows of a former name of the table that are in its files; `None` if the table never had the name or has it now.
    pub(crate) fn former(&self, name: &str) -> Option<WriteDownPosition> {
        let before = self.history.former(name);
        let at_drop = (self.dropped && self.spec.name.eq_ignore_ascii_case(name)).then_some(self.captured);
        before.into_iter().chain(at_drop).reduce(WriteDownPosition::max)
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
            captured: Some(self.captured).filter(|captured| *captured != WriteDownPosition::default()),
            keep: false,
            forget: Vec::new(),
            unload: Vec::new(),
            rows: (0, 0),
            duplicates: 0,
            undoes: None,
            dropped: self.dropped,
            history: Some(self.history.shortened()),
        }
    }

    /// Whether the segment of a path, which the table has or keeps, is an object.
    pub(crate) fn is_object(&self, path: &str) -> bool {
        let retired = || self.history.retired().get(path).map(|retired| &retired.entry);
        self.files.get(path).or_else(retired).is_some_and(|entry| entry.object.is_some())
    }

    /// Whether a path names a file of the table, or one that is kept.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.history.retired().contains_key(path)
    }

    /// Whether a folder has such files.
    pub(crate) fn has_folder(&self, folder: &str) -> bool {
        let mut paths = self.files.keys().chain(self.history.retired().keys());
        paths.any(|path| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// The files of a date as they were after a commit, in their order; `None` if some of them are gone.
    pub(crate) fn files_at(&self, date: i32, epoch: u64) -> Result<Option<Vec<FileEntry>>> {
        if self.history.last_erasure(date) > epoch {
            return Ok(None);
        }
        let retired = self.history.retired().values().filter(|retired| retired.removed > epoch);
        let mut files = Vec::new();
        for entry in self.files.values().chain(retired.map(|retired| &retired.entry)) {
            if entry.date == date && added_by(entry)? <= epoch {
                files.push(entry.clone());
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Some(files))
    }

    /// The table as it was after a commit; `None` if some of its files are gone.
    pub(crate) fn at(&self, epoch: u64) -> Result<Option<TableState>> {
        let Some(spec) = self.history.spec_at(epoch).filter(|_| epoch >= self.history.readable_from()) else {
            return Ok(None);
        };
        let retired = self.history.retired().values().filter(|retired| retired.removed > epoch);
        let mut files = BTreeMap::new();
        for entry in self.files.values().chain(retired.map(|retired| &retired.entry)) {
            if added_by(entry)? <= epoch {
                files.insert(entry.path.clone(), entry.clone());
            }
        }
        let sources = self.sources.iter().filter(|(_, (_, by))| *by <= epoch);
        let sources = sources.map(|(digest, source)| (digest.clone(), source.clone())).collect();
        let history = self.history.clone();
        Ok(Some(TableState {
            epoch,
            // Callers look the table up by its present name.
            spec: TableSpec { name: self.spec.name.clone(), ..spec.clone() },
            files,
            sources,
            captured: self.captured,
            history,
            dropped: false,
        }))
    }
}

/// Whether a key has the form `table/date=.../name`, so that no record can lead to other objects.
fn is_object_key(key: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '\\']))
}

/// Whether a path has the form `date=.../name`, so that no record can lead out of the table's folder.
fn is_segment_path(path: &str) -> bool {
    path.split_once('/').is_some_and(|(folder, name)| {
        folder.starts_with("date=") && !folder.contains("..") && !name.contains('/') && !name.starts_with('.')
    })
}
