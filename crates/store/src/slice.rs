//! Slices of a database at fixed commits: the part of a statement's tables that one process of many reads.
//!
//! - A [`PinnedCommits`] database shows every table at one commit, whatever is committed meanwhile: the first access to a
//!   table pins it, or the caller passes the commits. Captured rows that aren't written down are in no commit, so it
//!   doesn't contain them.
//! - A [`Slice`] excludes rows by symbol and by partition. Adjacent slices are disjoint and complete: rows without a
//!   symbol are in the slice that has no first symbol.
//! - Tables that can't be cut along an axis are whole in each slice: tables without symbols along the symbols,
//!   reference tables along both.
//! - A slice reads the symbol directories of its segments, and no data.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::database::{CommitSource, Database, Partition, SnapshotSource, Table, TableSnapshot};
use crate::error::{Error, Result};
use crate::schema::TableSpec;
use crate::segment::Segment;
use crate::select::Bounds;

/// Rows by partition and symbol. Both must hold; the default is all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// First and last partition, by the date that it begins with; `None` for all.
    pub dates: Option<(i32, i32)>,
    /// Symbols; `None` for all.
    pub symbols: Option<SymbolRange>,
}

/// Symbols in the order of their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolRange {
    /// The first one; `None` from the beginning, and with rows that have no symbol.
    pub from: Option<String>,
    /// The first one that isn't in it any more; `None` to the end.
    pub until: Option<String>,
}

impl SymbolRange {
    /// Whether it has the rows of a symbol, or those without one.
    #[must_use]
    pub fn contains(&self, symbol: Option<&str>) -> bool {
        let Some(symbol) = symbol else { return self.from.is_none() };
        self.from.as_deref().is_none_or(|from| from <= symbol)
            && self.until.as_deref().is_none_or(|until| symbol < until)
    }
}

/// A commit of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitPin {
    /// Its number.
    pub commit: u64,
    /// A digest of the table's columns and files at this commit. Diverged copies of a table have different digests
    /// under the same commit number.
    pub digest: String,
}

/// The commits at which tables are read, and the rows of them that are read.
#[derive(Debug, Default)]
pub struct PinnedCommits {
    commits: Mutex<BTreeMap<String, CommitPin>>,
    /// Whether the commits are complete, so that no further table is pinned.
    is_complete: bool,
    slice: Slice,
}

impl PinnedCommits {
    /// Pins each table at the commit that it has when it is first looked at.
    #[must_use]
    pub fn at_first_sight() -> PinnedCommits {
        PinnedCommits::default()
    }

    /// Reads a slice of tables at given commits, and no other table.
    #[must_use]
    pub fn to(commits: BTreeMap<String, CommitPin>, slice: Slice) -> PinnedCommits {
        PinnedCommits { commits: Mutex::new(commits), is_complete: true, slice }
    }

    /// The pinned commits, by the table's folder, or by folder and past state.
    #[must_use]
    pub fn commits(&self) -> BTreeMap<String, CommitPin> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A table at its pinned commit, or at the one that the statement names.
    fn pinned_snapshot(&self, table: &Table, at_commit: Option<u64>) -> Result<TableSnapshot> {
        let name = at_commit.map_or_else(|| table.folder().to_owned(), |commit| format!("{}@{commit}", table.folder()));
        let pinned_commit = self.commits.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let snapshot = match (pinned_commit, self.is_complete) {
            (Some(pin), _) => {
                let snapshot = table.whole_at_commit(pin.commit)?;
                if snapshot.digest() != pin.digest {
                    let (table, commit) = (table.name(), pin.commit);
                    let reason = format!(
                        "commit {commit} of {table} is another one here: this isn't the same database, or a copy that went its own way"
                    );
                    return Err(Error::Refused { reason });
                }
                snapshot
            }
            (None, true) => {
                let reason = format!("the commit at which {} is to be read isn't given", table.name());
                return Err(Error::Refused { reason });
            }
            (None, false) => {
                let snapshot = match at_commit {
                    Some(commit) => table.whole_at_commit(commit)?,
                    None => table.stored()?,
                };
                let pin = CommitPin { commit: snapshot.epoch(), digest: snapshot.digest() };
                let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
                // Another thread may have pinned it meanwhile: all of a statement read that.
                let pin = commits.entry(name).or_insert(pin).clone();
                drop(commits);
                if pin.commit == snapshot.epoch() { snapshot } else { table.whole_at_commit(pin.commit)? }
            }
        };
        snapshot.slice(&self.slice)
    }
}

impl SnapshotSource for PinnedCommits {
    fn snapshot(&self, table: &Table) -> Result<TableSnapshot> {
        self.pinned_snapshot(table, None)
    }
}

impl CommitSource for PinnedCommits {
    fn snapshot_at(&self, table: &Table, commit: u64) -> Result<TableSnapshot> {
        self.pinned_snapshot(table, Some(commit))
    }
}

impl Database {
    /// This database with the tables at the commits of `pinned`.
    #[must_use]
    pub fn pinned(&self, pinned: Arc<PinnedCommits>) -> Database {
        Database { pinned: Some(pinned), ..self.clone() }
    }
}

impl TableSpec {
    /// Whether slices by symbol have parts of the table.
    #[must_use]
    pub fn is_cut_by_symbol(&self) -> bool {
        self.symbol.is_some() && self.reference.is_none()
    }

    /// Whether slices by date have parts of it.
    #[must_use]
    pub fn is_cut_by_date(&self) -> bool {
        self.reference.is_none()
    }
}

impl TableSnapshot {
    /// A digest of the columns and files of this commit.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for column in &self.spec().columns {
            add(column.name.as_bytes());
            add(format!("{:?}", column.column_type).as_bytes());
        }
        for entry in self.entries() {
            // The tier and the object aren't part of a segment's identity: its digest is that of the file at this path.
            add(entry.path.as_bytes());
            add(&entry.rows.to_le_bytes());
            add(entry.digest.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The rows of a slice, as a snapshot.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a damaged index whose segment is damaged too.
    pub fn slice(&self, slice: &Slice) -> Result<TableSnapshot> {
        let spec = self.spec();
        let dates = slice.dates.filter(|_| spec.is_cut_by_date());
        let symbols = slice.symbols.as_ref().filter(|_| spec.is_cut_by_symbol());
        if dates.is_none() && symbols.is_none() {
            return Ok(self.clone());
        }
        let dates = dates.map_or_else(Bounds::default, |(min, max)| Bounds { min, max });
        let mut partitions = Vec::new();
        for partition in self.partitions().iter().filter(|partition| dates.contains(partition.date)) {
            let mut segments = Vec::new();
            for segment in partition.segments.iter() {
                segments.extend(match symbols {
                    None => Some(Arc::clone(segment)),
                    Some(symbols) => within(segment, symbols)?,
                });
            }
            if !segments.is_empty() {
                partitions.push(Partition::new(spec, partition.date, segments));
            }
        }
        Ok(self.of_partitions(partitions))
    }

    /// Symbols that split the rows into about equal ranges: the first symbol of each range but the first, ascending. Of
    /// many partitions it samples some.
    ///
    /// # Errors
    /// As [`TableSnapshot::slice`].
    pub fn symbol_bounds(&self, ranges: usize) -> Result<Vec<String>> {
        let step = self.partitions().len().div_ceil(PARTITIONS_SAMPLED).max(1);
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        let (mut all, mut filled) = (0, 0);
        for segment in self.partitions().iter().step_by(step).flat_map(|partition| partition.segments.iter()) {
            let index = segment.index()?;
            for run in 0..index.symbols()? {
                let count = index.symbol_rows(run)?;
                let count = count.end - count.start;
                all += count;
                match index.symbol(run)? {
                    Some(symbol) => *rows.entry(symbol.to_owned()).or_default() += count,
                    None => filled += count,
                }
            }
        }
        let share = all.div_ceil(ranges.max(1) as u64).max(1);
        let mut bounds = Vec::new();
        for (symbol, count) in rows {
            if filled >= share && bounds.len() + 1 < ranges {
                bounds.push(symbol);
                filled = 0;
            }
            filled += count;
        }
        Ok(bounds)
    }
}

/// Partitions whose symbols are counted.
const PARTITIONS_SAMPLED: usize = 16;

/// The rows of a segment that lie in a range, if there are any.
fn within(segment: &Arc<Segment>, symbols: &SymbolRange) -> Result<Option<Arc<Segment>>> {
    // If the first and the last row of a segment have symbols within the range, so have all rows between.
    if let Some((first, last)) = &segment.entry().symbols {
        if symbols.contains(Some(first)) && symbols.contains(Some(last)) {
            return Ok(Some(Arc::clone(segment)));
        }
        let is_before = symbols.from.as_ref().is_some_and(|from| last < from);
        if is_before || symbols.until.as_ref().is_some_and(|until| first >= until) {
            return Ok(None);
        }
    }
    let index = segment.index()?;
    let mut ends = Vec::new();
    for run in 0..index.symbols()? {
        if !symbols.contains(index.symbol(run)?) {
            ends.push((run, index.symbol_rows(run)?.start));
        }
    }
    match ends.len() {
        0 => Ok(Some(Arc::clone(segment))),
        _ => Ok(Some(Arc::new(segment.cut(&ends)?)).filter(|cut| cut.rows() > 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_ranges_have_each_symbol_once_and_the_first_those_without_one() {
        let ranges = [(None, Some("B")), (Some("B"), Some("IBM")), (Some("IBM"), None)]
            .map(|(from, until)| SymbolRange { from: from.map(str::to_owned), until: until.map(str::to_owned) });
        for symbol in [None, Some(""), Some("A"), Some("AZ"), Some("B"), Some("BRK"), Some("IBM"), Some("Ä")] {
            assert_eq!(ranges.iter().filter(|range| range.contains(symbol)).count(), 1, "{symbol:?}");
        }
        assert!(ranges[0].contains(None));
    }
}
