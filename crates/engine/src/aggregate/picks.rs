//! `first` and `last`: the state is the position of a row; the rows are read at the end, one for each group.

use std::borrow::Borrow;

use arrow::array::ArrayRef;
use arrow::compute::take;
use arrow::datatypes::DataType;
use splay_store::RowList;

use super::accumulate::RowGroups;
use crate::error::Result;
use crate::gather::{Gather, NOTHING};

/// Positions of rows: the number of the part that they were read from, and the row in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Positions<'a> {
    /// Row `n` of the arguments has this position plus `n`.
    From(u64),
    /// The position of each row.
    Listed(&'a [u64]),
}

impl Positions<'_> {
    fn at(&self, row: usize) -> u64 {
        match self {
            Positions::From(first) => first + row as u64,
            Positions::Listed(positions) => positions[row],
        }
    }
}

/// The first or the last row of each group, by position, or by a key and then position. For tables the key is the time.
#[derive(Debug)]
pub(crate) struct Picks<K = i64> {
    rows: Vec<u64>,
    /// Key of each group's row; empty if position alone decides.
    keys: Vec<K>,
    by_key: bool,
    last: bool,
    /// Cells of a group, one behind the other: of a pivot one for each value.
    width: usize,
}

impl<K: Clone + Default + Ord> Picks<K> {
    pub fn new(last: bool, by_key: bool) -> Picks<K> {
        Picks { rows: Vec::new(), keys: Vec::new(), by_key, last, width: 1 }
    }

    /// With `width` cells per group. The number of a cell is that of its group times the width, plus its place.
    pub fn with_width(self, width: usize) -> Picks<K> {
        Picks { width, ..self }
    }

    pub fn grow(&mut self, groups: usize) {
        self.rows.resize(groups * self.width, NOTHING);
        if self.by_key {
            self.keys.resize(groups * self.width, K::default());
        }
    }

    #[inline]
    fn offer<Q>(&mut self, group: usize, key: &Q, position: u64)
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        let picked = self.rows[group];
        if self.by_key {
            if picked == NOTHING || ((key, position) < (self.keys[group].borrow(), picked)) != self.last {
                key.clone_into(&mut self.keys[group]);
                self.rows[group] = position;
            }
        } else if picked == NOTHING || (position < picked) != self.last {
            self.rows[group] = position;
        }
    }

    /// Adds rows in any order, each with its key.
    pub fn update_each<'k, Q>(
        &mut self,
        assigned: RowGroups<'_>,
        positions: Positions<'_>,
        key: impl Fn(usize) -> &'k Q,
    ) where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized + 'k,
    {
        let RowGroups::Runs(runs) = assigned else {
            return assigned.each(None, |group, row| self.offer(group, key(row), positions.at(row)));
        };
        // The row of a run is found before the group's state is looked at.
        for run in runs.iter().filter(|run| run.start < run.end) {
            let first = (key(run.start), positions.at(run.start), run.start);
            let (_, _, row) = (run.start + 1..run.end).fold(first, |picked, row| {
                let (key, position) =
                    if self.by_key { (key(row), positions.at(row)) } else { (picked.0, positions.at(row)) };
                if ((key, position) < (picked.0, picked.1)) != self.last { (key, position, row) } else { picked }
            });
            self.offer(run.group as usize, key(row), positions.at(row));
        }
    }

    pub fn merge(&mut self, other: &Picks<K>, groups: &[u32]) {
        let nothing = K::default();
        for (from, row) in other.rows.iter().enumerate().filter(|(_, row)| **row != NOTHING) {
            let group = groups[from / self.width] as usize;
            let key = if self.by_key { &other.keys[from] } else { &nothing };
            self.offer::<K>(group * self.width + from % self.width, key, *row);
        }
    }

    /// The keys of the picked rows.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The values of the picked rows. `read` gives the values of some rows of a part.
    pub fn finish(self, data_type: &DataType, read: impl FnMut(u32, &RowList) -> Result<ArrayRef>) -> Result<ArrayRef> {
        Gather::new(&self.rows).computed(data_type, read)
    }
}

impl Picks {
    /// Whether the time decides which row is picked.
    pub fn by_time(&self) -> bool {
        self.by_key
    }

    /// Adds rows. `times` are those of the rows and never decrease within a run. Without them position alone decides.
    pub fn update(&mut self, assigned: RowGroups<'_>, positions: Positions<'_>, times: Option<&[i64]>) {
        let times = times.filter(|_| self.by_key);
        let time = |row: usize| times.map_or(&0, |times| &times[row]);
        match assigned {
            RowGroups::Runs(runs) => {
                for run in runs.iter().filter(|run| run.start < run.end) {
                    let row = if self.last { run.end - 1 } else { run.start };
                    self.offer(run.group as usize, time(row), positions.at(row));
                }
            }
            // Each stretch is of one symbol, so its times don't fall.
            RowGroups::Places(parted) => parted.ends(self.last, |row, group| {
                self.offer(group as usize, time(row), positions.at(row));
            }),
            RowGroups::Rows(_) | RowGroups::Listed(_) => self.update_each(assigned, positions, time),
        }
    }
}

/// Some rows of an array.
pub(crate) fn rows_of(array: &ArrayRef, rows: &RowList) -> Result<ArrayRef> {
    Ok(take(array, rows.rows(), None)?)
}
