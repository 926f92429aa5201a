//! First and last: only the positions of the rows are kept, and the rows are read at the end, one for each group.

use arrow::array::ArrayRef;
use arrow::compute::take;
use arrow::datatypes::DataType;
use splay_store::RowList;

use super::accumulate::Assigned;
use crate::error::Result;
use crate::gather::{Gather, NOTHING};

/// Where rows stand: the number of what they were read from, and the row in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Positions<'a> {
    /// Row `n` of the arguments stands at this position plus `n`.
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

/// The first or the last row of each group, by position, or by time and then position.
#[derive(Debug)]
pub(crate) struct Picks {
    rows: Vec<u64>,
    /// Time of each group's row; empty if rows go by position alone.
    times: Vec<i64>,
    by_time: bool,
    last: bool,
    /// Cells of a group, one behind the other: of a pivot one for each value.
    width: usize,
}

impl Picks {
    pub fn new(last: bool, by_time: bool) -> Picks {
        Picks { rows: Vec::new(), times: Vec::new(), by_time, last, width: 1 }
    }

    /// The same for so many cells of each group. Rows are offered to cells, whose number is that of the group times the cells, and their place.
    pub fn with_width(self, width: usize) -> Picks {
        Picks { width, ..self }
    }

    pub fn by_time(&self) -> bool {
        self.by_time
    }

    pub fn grow(&mut self, groups: usize) {
        self.rows.resize(groups * self.width, NOTHING);
        if self.by_time {
            self.times.resize(groups * self.width, 0);
        }
    }

    #[inline]
    fn offer(&mut self, group: usize, time: i64, position: u64) {
        let known = self.rows[group];
        if self.by_time {
            if known == NOTHING || ((time, position) < (self.times[group], known)) != self.last {
                (self.times[group], self.rows[group]) = (time, position);
            }
        } else if known == NOTHING || (position < known) != self.last {
            self.rows[group] = position;
        }
    }

    /// Takes rows in. `times` are those of the rows; within a run they don't fall. Without them rows go by position.
    pub fn update(&mut self, assigned: Assigned<'_>, positions: Positions<'_>, times: Option<&[i64]>) {
        let times = times.filter(|_| self.by_time);
        let time = |row: usize| times.map_or(0, |times| times[row]);
        match assigned {
            Assigned::Runs(runs) => {
                for run in runs.iter().filter(|run| run.start < run.end) {
                    let row = if self.last { run.end - 1 } else { run.start };
                    self.offer(run.group as usize, time(row), positions.at(row));
                }
            }
            // Of one symbol, so that within a stretch times don't fall either.
            Assigned::Places(parted) => parted.ends(self.last, |row, group| {
                self.offer(group as usize, time(row), positions.at(row));
            }),
            Assigned::Rows(_) | Assigned::Listed(_) => {
                assigned.each(None, |group, row| self.offer(group, time(row), positions.at(row)))
            }
        }
    }

    pub fn merge(&mut self, other: &Picks, groups: &[u32]) {
        for (from, row) in other.rows.iter().enumerate().filter(|(_, row)| **row != NOTHING) {
            let group = groups[from / self.width] as usize;
            let time = if self.by_time { other.times[from] } else { 0 };
            self.offer(group * self.width + from % self.width, time, *row);
        }
    }

    /// The values of the picked rows. `read` gives the values of some rows of a part.
    pub fn finish(self, data_type: &DataType, read: impl FnMut(u32, &RowList) -> Result<ArrayRef>) -> Result<ArrayRef> {
        Gather::new(&self.rows).computed(data_type, read)
    }
}

/// Some rows of an array.
pub(crate) fn rows_of(array: &ArrayRef, rows: &RowList) -> Result<ArrayRef> {
    Ok(take(array, rows.rows(), None)?)
}
