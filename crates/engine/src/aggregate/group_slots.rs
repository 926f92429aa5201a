//! Rows of a block reordered by group, where a small number gives each row's group within a span.

use std::cell::OnceCell;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type};

use super::accumulate::{GroupRun, NO_GROUP};
use crate::error::Result;
use crate::filter_mask::pieces;

/// Rows of a group and stretch, on average, from which on a block is put in the order of its groups.
const RUN_ROWS_MIN: usize = 16;

/// Fewest rows that a mask keeps per piece, on average, for which pieces are added whole.
const KEPT_ROWS_MIN: usize = 6;

/// Places that are added up at once, so that a sum needn't wait for the one before.
const LANES: usize = 4;

/// Rows from which on lanes pay.
const LANES_ROWS_MIN: usize = 64;

/// A small number for the values of each row's keys.
#[derive(Debug)]
pub(crate) struct RowSlots {
    pub of_rows: Vec<u16>,
    /// How many numbers there can be.
    pub choices: usize,
}

/// Assigns groups to rows. Each stretch of rows numbers its groups anew, by small numbers (*places*).
#[derive(Debug)]
pub(crate) struct GroupSlots {
    places: RowSlots,
    stretches: Vec<Range<usize>>,
    /// The group of each place of each stretch, or [`NO_GROUP`].
    groups: Vec<u32>,
    /// Rows of each place of each stretch.
    counts: Vec<u32>,
}

impl GroupSlots {
    /// `find` gives the group of a row, given the number of its stretch.
    pub fn new(
        places: RowSlots,
        stretches: Vec<Range<usize>>,
        mut find: impl FnMut(usize, usize) -> Result<u32>,
    ) -> Result<GroupSlots> {
        let choices = places.choices;
        let mut groups = vec![NO_GROUP; choices * stretches.len()];
        let mut counts = vec![0; choices * stretches.len()];
        let mut lanes = Vec::new();
        for (number, rows) in stretches.iter().enumerate() {
            let of_rows = &places.of_rows[rows.clone()];
            let all = number * choices..(number + 1) * choices;
            let (groups, counts) = (&mut groups[all.clone()], &mut counts[all]);
            sums(of_rows, of_rows.iter().map(|_| 1u32), |one, other| one + other, choices, &mut lanes);
            counts.copy_from_slice(&lanes[..choices]);
            // Groups are made in the order of their first rows.
            let mut unseen = counts.iter().filter(|count| **count > 0).count();
            for (row, place) in rows.clone().zip(of_rows) {
                if unseen == 0 {
                    break;
                }
                let group = &mut groups[*place as usize];
                if *group == NO_GROUP {
                    *group = find(number, row)?;
                    unseen -= 1;
                }
            }
        }
        Ok(GroupSlots { places, stretches, groups, counts })
    }

    /// Rows whose groups are known; `None` if these are too many to be put in order.
    pub fn of_groups(rows: &[u32], groups: usize) -> Option<GroupSlots> {
        let none = u16::try_from(groups).ok().filter(|_| groups * RUN_ROWS_MIN <= rows.len())?;
        let of_rows: Vec<u16> = rows.iter().map(|group| u16::try_from(*group).unwrap_or(none).min(none)).collect();
        let mut counts = vec![0; groups + 1];
        of_rows.iter().for_each(|place| counts[*place as usize] += 1);
        let groups = (0..u32::from(none)).chain([NO_GROUP]).collect();
        let places = RowSlots { of_rows, choices: usize::from(none) + 1 };
        Some(GroupSlots { stretches: vec![0..rows.len()], places, groups, counts })
    }

    pub fn len(&self) -> usize {
        self.places.of_rows.len()
    }

    /// Calls `visit` with row and group of each row that belongs to one.
    pub fn each(&self, mut visit: impl FnMut(usize, u32)) {
        for (rows, groups) in self.stretches.iter().zip(self.groups.chunks(self.places.choices)) {
            for row in rows.clone() {
                let group = groups[self.places.of_rows[row] as usize];
                if group != NO_GROUP {
                    visit(row, group);
                }
            }
        }
    }

    /// Calls `visit` with the first row, or the last, of each group of each stretch.
    pub fn ends(&self, last: bool, mut visit: impl FnMut(usize, u32)) {
        let choices = self.places.choices;
        let by_stretch = self.groups.chunks(choices).zip(self.counts.chunks(choices));
        let mut is_seen = vec![false; choices];
        for (rows, (groups, counts)) in self.stretches.iter().zip(by_stretch) {
            is_seen.fill(false);
            let mut unseen = counts.iter().filter(|count| **count > 0).count();
            let mut look = |row: usize| {
                let place = usize::from(self.places.of_rows[row]);
                if !std::mem::replace(&mut is_seen[place], true) {
                    unseen -= 1;
                    if groups[place] != NO_GROUP {
                        visit(row, groups[place]);
                    }
                }
                unseen == 0
            };
            _ = if last { rows.clone().rev().any(&mut look) } else { rows.clone().any(&mut look) };
        }
    }

    /// The group of a row. `behind` counts the spans that end before it, and carries over to the next call, for a later
    /// row.
    pub fn group(&self, row: usize, behind: &mut usize) -> Option<u32> {
        *behind += self.stretches[*behind..].iter().take_while(|stretch| stretch.end <= row).count();
        self.stretches.get(*behind).filter(|stretch| stretch.start <= row)?;
        let place = usize::from(self.places.of_rows[row]);
        Some(self.groups[*behind * self.places.choices + place])
    }

    /// Calls `visit` with each group of each stretch and its rows in it.
    pub fn counts(&self, mut visit: impl FnMut(usize, u64)) {
        for (group, count) in self.groups.iter().zip(&self.counts) {
            if *count > 0 && *group != NO_GROUP {
                visit(*group as usize, u64::from(*count));
            }
        }
    }

    /// Sums a value per row. `visit` gets group, sum and number of rows, separately for each span.
    pub fn sums<S: Copy + Default, I: Iterator<Item = S>>(
        &self,
        values: impl Fn(Range<usize>) -> I,
        add: impl Fn(S, S) -> S + Copy,
        mut visit: impl FnMut(usize, S, u64),
    ) {
        let choices = self.places.choices;
        let mut lanes = Vec::new();
        let by_stretch = self.groups.chunks(choices).zip(self.counts.chunks(choices));
        for (rows, (groups, counts)) in self.stretches.iter().zip(by_stretch) {
            sums(&self.places.of_rows[rows.clone()], values(rows.clone()), add, choices, &mut lanes);
            for ((group, count), sum) in groups.iter().zip(counts).zip(&lanes) {
                if *count > 0 && *group != NO_GROUP {
                    visit(*group as usize, *sum, u64::from(*count));
                }
            }
        }
    }

    /// The rows in the order of stretch and group; `None` if runs would be short.
    pub fn ordered(&self) -> Option<RowsByGroup> {
        let runs = self.counts.iter().filter(|count| **count > 0).count();
        if runs * RUN_ROWS_MIN > self.len() || self.len() > usize::from(u16::MAX) {
            return None;
        }
        let mut ordered =
            RowsByGroup { runs: Vec::with_capacity(runs), to: vec![0; self.len()], from: OnceCell::new() };
        let choices = self.places.choices;
        let by_stretch = self.groups.chunks(choices).zip(self.counts.chunks(choices));
        let mut next = vec![0u16; choices];
        let mut start = 0;
        for (rows, (groups, counts)) in self.stretches.iter().zip(by_stretch) {
            for ((group, count), next) in groups.iter().zip(counts).zip(&mut next) {
                *next = u16::try_from(start).unwrap_or(u16::MAX);
                let end = start + *count as usize;
                if *count > 0 && *group != NO_GROUP {
                    ordered.runs.push(GroupRun { group: *group, start, end });
                }
                start = end;
            }
            for (to, place) in ordered.to[rows.clone()].iter_mut().zip(&self.places.of_rows[rows.clone()]) {
                let next = &mut next[*place as usize];
                *to = *next;
                *next += 1;
            }
        }
        Some(ordered)
    }
}

/// Sums by place, of more than a few rows in several lanes that are added together at the end: `lanes` then begins with the sum
/// of each place.
fn sums<S: Copy + Default>(
    places: &[u16],
    values: impl Iterator<Item = S>,
    add: impl Fn(S, S) -> S,
    choices: usize,
    lanes: &mut Vec<S>,
) {
    lanes.clear();
    if places.len() < LANES_ROWS_MIN {
        lanes.resize(choices, S::default());
        for (place, value) in places.iter().zip(values) {
            let lane = &mut lanes[*place as usize];
            *lane = add(*lane, value);
        }
        return;
    }
    lanes.resize(choices * LANES, S::default());
    for (row, (place, value)) in places.iter().zip(values).enumerate() {
        let lane = &mut lanes[*place as usize * LANES + row % LANES];
        *lane = add(*lane, value);
    }
    for place in 0..choices {
        let all = &lanes[place * LANES..(place + 1) * LANES];
        lanes[place] = all[1..].iter().fold(all[0], |sum, lane| add(sum, *lane));
    }
}

/// Rows in the order of their groups.
#[derive(Debug)]
pub(crate) struct RowsByGroup {
    /// Rows without a group are in none.
    pub runs: Vec<GroupRun>,
    /// Where each row goes.
    to: Vec<u16>,
    /// Which row comes to each place.
    from: OnceCell<UInt32Array>,
}

impl RowsByGroup {
    /// The values of the rows in the order of the runs.
    pub fn put(&self, array: &ArrayRef) -> Result<ArrayRef> {
        Ok(match array.data_type() {
            DataType::Float64 if array.null_count() == 0 => self.scattered::<Float64Type>(array),
            DataType::Int64 if array.null_count() == 0 => self.scattered::<Int64Type>(array),
            _ => take(array, self.from(), None)?,
        })
    }

    fn scattered<T: ArrowPrimitiveType>(&self, array: &ArrayRef) -> ArrayRef {
        let values = array.as_primitive::<T>().values();
        let mut ordered = vec![T::Native::default(); values.len()];
        for (to, value) in self.to.iter().zip(values) {
            ordered[*to as usize] = *value;
        }
        std::sync::Arc::new(PrimitiveArray::<T>::new(ordered.into(), None))
    }

    fn from(&self) -> &UInt32Array {
        self.from.get_or_init(|| {
            let mut from = vec![0; self.to.len()];
            for (row, to) in (0u32..).zip(&self.to) {
                from[*to as usize] = row;
            }
            from.into()
        })
    }
}

/// The runs of consecutive rows of one group; `None` if there are too many runs.
pub(crate) fn runs_as_they_stand(rows: &[u32]) -> Option<Vec<GroupRun>> {
    let changes = rows.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if changes * RUN_ROWS_MIN >= rows.len() {
        return None;
    }
    let mut runs: Vec<GroupRun> = Vec::with_capacity(changes + 1);
    for (row, group) in rows.iter().enumerate() {
        match runs.last_mut().filter(|run| run.group == *group) {
            Some(run) => run.end = row + 1,
            None => runs.push(GroupRun { group: *group, start: row, end: row + 1 }),
        }
    }
    runs.retain(|run| run.group != NO_GROUP);
    Some(runs)
}

/// The parts of runs that a mask keeps, if it keeps rows in few pieces. Neither runs nor pieces overlap, and both ascend.
pub(crate) fn filtered_runs(runs: &[GroupRun], mask: &BooleanBuffer) -> Option<Vec<GroupRun>> {
    let pieces = pieces(mask, mask.len() / KEPT_ROWS_MIN)?;
    let mut filtered = Vec::with_capacity(runs.len() + pieces.len());
    let mut behind = 0;
    for run in runs {
        behind += pieces[behind..].iter().take_while(|piece| piece.end <= run.start).count();
        let within = pieces[behind..].iter().take_while(|piece| piece.start < run.end);
        filtered.extend(within.map(|piece| GroupRun {
            start: piece.start.max(run.start),
            end: piece.end.min(run.end),
            ..*run
        }));
    }
    Some(filtered)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array};

    use super::*;

    /// Two stretches: rows 0 to 60 with places 0 and 2, rows 60 to 200 with place 2 alone, which is another group there.
    fn parted() -> GroupSlots {
        let of_rows = (0..200u16).map(|row| if row < 60 && row % 3 == 0 { 0 } else { 2 }).collect();
        let places = RowSlots { of_rows, choices: 3 };
        let found = |stretch: usize, row: usize| Ok(u32::try_from(stretch * 10 + row).unwrap());
        GroupSlots::new(places, vec![0..60, 60..200], found).unwrap()
    }

    #[test]
    fn counts_and_sums_are_those_of_the_rows() {
        let parted = parted();
        let mut counts = Vec::new();
        parted.counts(|group, count| counts.push((group, count)));
        assert_eq!(counts, [(0, 20), (1, 40), (70, 140)]);
        let mut sums = Vec::new();
        parted.sums(|rows| rows, |one, other| one + other, |group, sum, count| sums.push((group, sum, count)));
        for (last, expected) in [(false, [(0, 0), (1, 1), (60, 70)]), (true, [(59, 1), (57, 0), (199, 70)])] {
            let mut ends = Vec::new();
            parted.ends(last, |row, group| ends.push((row, group)));
            assert_eq!(ends, expected);
        }
        let of_first: usize = (0..60).filter(|row| row % 3 == 0).sum();
        assert_eq!(sums, [(0, of_first, 20), (1, (0..60).sum::<usize>() - of_first, 40), (70, (60..200).sum(), 140)]);
    }

    #[test]
    fn rows_in_order_keep_theirs_within_a_group() {
        let ordered = parted().ordered().unwrap();
        assert_eq!(
            ordered.runs.iter().map(|run| (run.group, run.start, run.end)).collect::<Vec<_>>(),
            [(0, 0, 20), (1, 20, 60), (70, 60, 200)]
        );
        let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..200).map(f64::from)));
        let others: ArrayRef = Arc::new((0..200).map(|row| (row % 7 != 0).then_some(row)).collect::<Int32Array>());
        let (floats, others) = (ordered.put(&floats).unwrap(), ordered.put(&others).unwrap());
        let floats: Vec<f64> = floats.as_primitive::<Float64Type>().values().to_vec();
        assert!(floats[..20].iter().all(|row| row % 3.0 == 0.0));
        for run in &ordered.runs {
            assert!(floats[run.start..run.end].is_sorted());
        }
        for (at, row) in floats.iter().enumerate() {
            assert_eq!(others.is_null(at), row % 7.0 == 0.0);
        }
    }

    #[test]
    fn short_runs_are_not_put_in_order() {
        let places = RowSlots { of_rows: (0..100).map(|row| row % 10).collect(), choices: 10 };
        let parted = GroupSlots::new(places, vec![0..100], |_, row| Ok(u32::try_from(row).unwrap())).unwrap();
        assert!(parted.ordered().is_none());
        let rows: Vec<u32> = (0..100).map(|row| if row < 50 { 3 } else { NO_GROUP }).collect();
        assert_eq!(runs_as_they_stand(&rows).unwrap(), [GroupRun { group: 3, start: 0, end: 50 }]);
        let none = BooleanBuffer::new_unset(100);
        assert_eq!(filtered_runs(&[GroupRun { group: 3, start: 0, end: 50 }], &none).unwrap(), []);
        assert!(GroupSlots::of_groups(&rows, 7).is_none());
        let parted = GroupSlots::of_groups(&rows, 4).unwrap();
        assert_eq!(parted.ordered().unwrap().runs, [GroupRun { group: 3, start: 0, end: 50 }]);
        let mut seen = Vec::new();
        parted.each(|row, group| seen.push((row, group)));
        assert_eq!(seen, (0..50).map(|row| (row, 3)).collect::<Vec<_>>());
    }
}
