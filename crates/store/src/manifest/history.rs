//! The history of a table: its commits, and the replaced files that are still retained.
//!
//! - A commit that retains the files it removes makes them *retired*: on disk, unread by readers of the current
//!   state, and listed here. With them the table can be read as it was, and a commit can be undone.
//! - A later commit lists retired files as forgotten, and only then are they removed. So no crash can leave a file in
//!   the history that doesn't exist.
//! - Each date records the last commit whose removed files are gone: states of the date from that commit on can be
//!   read.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::format::{Commit, FileEntry, Operation, Source};
use crate::error::{Error, Result};
use crate::schema::TableSpec;
use crate::write_down_position::WriteDownPosition;

/// Notes of captures and compactions that a new log takes over; of other commits it takes all.
const ROUTINE_NOTES_MAX: usize = 1_000;

/// The earlier states of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    /// First commit from which on there is a note of each.
    since: u64,
    commits: BTreeMap<u64, CommitNote>,
    retired: BTreeMap<String, RetiredFile>,
    /// By date: the last commit that removed files which are gone.
    #[serde(rename = "gone")]
    last_erasure: BTreeMap<i32, u64>,
    /// Schemas, with the commit that set each one.
    specs: BTreeMap<u64, TableSpec>,
    /// The newest partition that the table's retention has removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expired: Option<i32>,
    /// The commit that made the table anew after it was dropped; 0 if it wasn't.
    #[serde(default, skip_serializing_if = "super::format::is_none")]
    made: u64,
    /// Names that the table had, with the captured rows that its files had when it lost them: those that the journal has under the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    formerly: BTreeMap<String, WriteDownPosition>,
}

/// The record of a commit's change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommitNote {
    /// Nanoseconds since the epoch, by the writer's clock.
    pub(crate) at: i64,
    pub(crate) operation: Operation,
    /// Rows added and rows removed, if the commit records them.
    pub(crate) rows: (u64, u64),
    /// Rows that it left out as duplicates.
    #[serde(default, skip_serializing_if = "super::format::is_none")]
    pub(crate) duplicates: u64,
    /// The commit that it undid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undoes: Option<u64>,
    /// By date: files that it added and files that it removed. Only of commits that can be undone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) dates: BTreeMap<i32, (u32, u32)>,
    /// Sources whose rows it took from the table, and those that it loaded again, with the commits that had loaded them. Only of commits that can be
    /// undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unloaded: Vec<(Source, u64)>,
}

/// A commit by which the table's retention has removed rows.
#[derive(Debug)]
pub(crate) struct Expiry<'a> {
    pub(crate) commit: u64,
    /// That commit, or the last one that made it apply again after it was undone.
    pub(crate) in_force_since: u64,
    pub(crate) note: &'a CommitNote,
}

/// A file that the table no longer has, and that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetiredFile {
    pub(crate) entry: FileEntry,
    /// The commit that removed it.
    pub(crate) removed: u64,
    /// When that was.
    pub(crate) at: i64,
}

impl History {
    /// Before the first commit of a log: nothing is known of what was before it.
    pub(crate) fn since(first: &Commit) -> History {
        let since = if first.operation == Operation::Snapshot { first.epoch } else { 1 };
        History { since, ..History::default() }
    }

    /// Notes a commit, with the files and the sources that it took from the table.
    pub(crate) fn note(
        &mut self,
        commit: &Commit,
        removed: Vec<FileEntry>,
        unloaded: Vec<(Source, u64)>,
        was_dropped: bool,
    ) -> Result<(), String> {
        let mut dates: BTreeMap<i32, (u32, u32)> = BTreeMap::new();
        commit.add.iter().for_each(|entry| dates.entry(entry.date).or_default().0 += 1);
        for entry in removed {
            dates.entry(entry.date).or_default().1 += 1;
            if commit.keep {
                let retired = RetiredFile { removed: commit.epoch, at: commit.at, entry };
                self.retired.insert(retired.entry.path.clone(), retired);
            } else {
                self.last_erasure.insert(entry.date, commit.epoch);
            }
        }
        for path in &commit.forget {
            let Some(retired) = self.retired.remove(path) else {
                return Err(format!("the end of {path}, which wasn't kept"));
            };
            let erased_at = self.last_erasure.entry(retired.entry.date).or_default();
            *erased_at = (*erased_at).max(retired.removed);
        }
        if let Some(spec) = &commit.spec {
            self.specs.insert(commit.epoch, spec.clone());
        }
        if !commit.operation.changes_rows() {
            dates.clear();
        }
        let (at, operation, rows, undoes) = (commit.at, commit.operation, commit.rows, commit.undoes);
        let duplicates = commit.duplicates;
        let last = dates.keys().next_back().copied();
        let unloaded = if commit.keep { unloaded } else { Vec::new() };
        self.commits.insert(commit.epoch, CommitNote { at, operation, rows, duplicates, undoes, dates, unloaded });
        let is_made_anew = was_dropped && commit.spec.is_some() && undoes.is_none();
        if is_made_anew {
            self.made = commit.epoch;
        }
        if is_made_anew || undoes.is_some() {
            self.expired = self.find_expired();
        } else if operation == Operation::Expire {
            self.expired = self.expired.max(last);
        }
        Ok(())
    }

    /// Notes a name that the table has no longer.
    pub(crate) fn note_name(&mut self, name: String, captured: WriteDownPosition) {
        self.formerly.insert(name, captured);
    }

    /// Whether the table had another name.
    pub(crate) fn has_former_names(&self) -> bool {
        !self.formerly.is_empty()
    }

    /// The captured rows that the files had when the table lost a name, if it had it.
    pub(crate) fn former(&self, name: &str) -> Option<WriteDownPosition> {
        let same = self.formerly.iter().filter(|(former, _)| former.eq_ignore_ascii_case(name));
        same.map(|(_, captured)| *captured).reduce(WriteDownPosition::max)
    }

    /// The commits by which the table's retention has removed rows since the table was created, without those that were undone.
    pub(crate) fn expiries(&self) -> Vec<Expiry<'_>> {
        let undone: HashMap<u64, u64> =
            self.commits.iter().filter_map(|(by, note)| Some((note.undoes?, *by))).collect();
        let of_table = self.commits.range(self.made..).filter(|(_, note)| note.operation == Operation::Expire);
        let in_force = of_table.filter_map(|(commit, note)| {
            // Each undoes the one before.
            let (mut last, mut is_in_force) = (*commit, true);
            while let Some(by) = undone.get(&last) {
                (last, is_in_force) = (*by, !is_in_force);
            }
            is_in_force.then_some(Expiry { commit: *commit, in_force_since: last, note })
        });
        in_force.collect()
    }

    /// The newest partition that these commits removed.
    fn find_expired(&self) -> Option<i32> {
        self.expiries().into_iter().filter_map(|expiry| expiry.note.dates.keys().next_back().copied()).max()
    }

    /// The newest partition that the table's retention has removed.
    pub(crate) fn expired(&self) -> Option<i32> {
        self.expired
    }

    /// The history as a new log begins with it.
    pub(crate) fn shortened(&self) -> History {
        let mut short = self.clone();
        let routine = |note: &CommitNote| !note.operation.changes_rows();
        let of_routine: Vec<u64> =
            self.commits.iter().filter(|(_, note)| routine(note)).map(|(epoch, _)| *epoch).collect();
        if let Some(last) = of_routine.len().checked_sub(ROUTINE_NOTES_MAX + 1).map(|place| of_routine[place]) {
            short.commits.retain(|epoch, note| *epoch > last || !routine(note));
            short.since = short.since.max(last + 1);
        }
        for (epoch, note) in &mut short.commits {
            let is_gone =
                |(date, (_, removed)): (&i32, &(u32, u32))| *removed > 0 && self.last_erasure(*date) >= *epoch;
            if note.dates.iter().any(is_gone) {
                // Without the files that it removed it can't be undone.
                note.unloaded.clear();
            }
        }
        short
    }

    /// Sources that are on record for the undo of commits.
    pub(crate) fn unloaded(&self) -> usize {
        self.commits.values().map(|note| note.unloaded.len()).sum()
    }

    pub(crate) fn commits(&self) -> &BTreeMap<u64, CommitNote> {
        &self.commits
    }

    pub(crate) fn retired(&self) -> &BTreeMap<String, RetiredFile> {
        &self.retired
    }

    /// Paths of the retired files that were removed before an instant.
    pub(crate) fn retired_before(&self, at: i64) -> Vec<String> {
        self.retired.iter().filter(|(_, retired)| retired.at < at).map(|(path, _)| path.clone()).collect()
    }

    /// The last commit of a date whose removed files are gone; 0 if there is none.
    pub(crate) fn last_erasure(&self, date: i32) -> u64 {
        self.last_erasure.get(&date).copied().unwrap_or(0)
    }

    /// The last commit that made files of any date go.
    pub(crate) fn readable_from(&self) -> u64 {
        let first_spec = self.specs.keys().next().copied().unwrap_or(u64::MAX);
        self.last_erasure.values().copied().max().unwrap_or(0).max(first_spec)
    }

    /// The schema as it was at a commit.
    pub(crate) fn spec_at(&self, epoch: u64) -> Option<&TableSpec> {
        self.specs.range(..=epoch).next_back().map(|(_, spec)| spec)
    }

    /// The last commit at or before an instant; `None` if that is longer ago than the notes go back.
    pub(crate) fn epoch_at(&self, at: i64) -> Option<u64> {
        let before = self.commits.iter().rev().find(|(_, note)| note.at <= at).map(|(epoch, _)| *epoch)?;
        (before >= self.since).then_some(before)
    }
}

/// Number of the commit that added a file, which its name begins with.
pub(crate) fn added_by(entry: &FileEntry) -> Result<u64> {
    let name = entry.path.rsplit('/').next().unwrap_or_default();
    let number = name.split('.').next().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| Error::corrupt(&entry.path, 0, "a name that begins with the number of a commit", name))
}
