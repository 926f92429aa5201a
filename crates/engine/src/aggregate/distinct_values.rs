//! The distinct values of one group, in a form that depends on how many they are.
//!
//! - Ascending values, such as times, are a list.
//! - Other values are in a hash table while it fits into the second-level cache, or into the third-level cache if most
//!   values repeat.
//! - Beyond that, values are appended to parts by their hash. Whenever a part has doubled, its repeated values are
//!   removed, with a table that fits into the cache.
//!
//! So no look-up waits for memory, and threads process different parts at the same time.

use crate::error::Result;
use crate::hashed::{ValueSet, hash};
use crate::parallel;

/// Bytes of a table up to which it stays in the cache, and of one whose values come again.
const TABLE_BYTES_MAX: usize = 1 << 18;
const REPEATED_BYTES_MAX: usize = 1 << 21;

/// How often values come, on average, that come again.
const REPEATED_MIN: usize = 3;

/// Parts, as many as six bits of a hash tell apart.
const PARTS: usize = 64;

/// Values of a part that may be repeated ones, whatever its size.
const UNCHECKED_MIN: usize = 1024;

/// Parts that a thread processes at once.
const PARTS_OF_TASK: usize = 8;

/// The different values of one group.
#[derive(Debug)]
pub(super) struct DistinctValues {
    /// As long as each is greater than the one before, or they are those of one run of rows.
    list: Vec<u64>,
    is_ascending: bool,
    /// All, once there are others.
    table: ValueSet<u64>,
    /// How many were looked up in the table.
    looked_up: usize,
    /// All, once the table is too large.
    parts: Vec<ValuesPart>,
    /// Values in the parts, repeated ones among them.
    in_parts: usize,
}

/// Values with the same first bits of their hashes.
#[derive(Debug, Default)]
struct ValuesPart {
    values: Vec<u64>,
    /// How many of the first values differ from each other; those behind them may be repeated.
    checked: usize,
}

impl Default for DistinctValues {
    fn default() -> DistinctValues {
        DistinctValues {
            list: Vec::new(),
            is_ascending: true,
            table: ValueSet::new(0),
            looked_up: 0,
            parts: Vec::new(),
            in_parts: 0,
        }
    }
}

impl DistinctValues {
    /// The values of a run of rows.
    pub fn of_run(words: &[u64], seed: u64, scratch: &mut ValueSet<u64>) -> DistinctValues {
        let mut list = Vec::new();
        let is_ascending = words.is_sorted();
        if is_ascending {
            list.extend_from_slice(words);
            list.dedup();
        } else {
            scratch.restart(words.len());
            list.extend(words.iter().filter(|word| add(scratch, **word, seed)));
        }
        list.shrink_to_fit();
        DistinctValues { list, is_ascending, ..DistinctValues::default() }
    }

    /// Takes in a value; whether one more is held than before: a new one, or one in parts of which that isn't known yet.
    #[inline]
    pub fn take(&mut self, word: u64, seed: u64, scratch: &mut ValueSet<u64>) -> bool {
        if !self.parts.is_empty() {
            self.append(word, seed, scratch);
            return true;
        }
        if self.table.is_empty() {
            match self.list.last() {
                Some(last) if *last == word => return false,
                Some(last) if !self.is_ascending || *last > word => self.fill_table(seed),
                _ => {
                    self.list.push(word);
                    return true;
                }
            }
        }
        self.looked_up += 1;
        let is_new = add(&mut self.table, word, seed);
        if is_new && self.table.bytes() > TABLE_BYTES_MAX {
            let repeats = self.looked_up >= REPEATED_MIN * self.table.len();
            if !repeats || self.table.bytes() > REPEATED_BYTES_MAX {
                self.divide(seed);
            }
        }
        is_new
    }

    /// Moves what was listed into the table.
    #[cold]
    fn fill_table(&mut self, seed: u64) {
        self.table.reserve(2 * self.list.len(), |member| hash(seed, &[*member]));
        for word in std::mem::take(&mut self.list) {
            add(&mut self.table, word, seed);
        }
    }

    /// Moves what the table has into parts.
    #[cold]
    fn divide(&mut self, seed: u64) {
        let values = std::mem::replace(&mut self.table, ValueSet::new(0));
        self.parts.resize_with(PARTS, ValuesPart::default);
        for word in values.iter() {
            self.parts[part_of(word, seed)].values.push(word);
        }
        self.parts.iter_mut().for_each(|part| part.checked = part.values.len());
        self.in_parts = values.len();
    }

    #[inline]
    fn append(&mut self, word: u64, seed: u64, scratch: &mut ValueSet<u64>) {
        let part = &mut self.parts[part_of(word, seed)];
        part.values.push(word);
        self.in_parts += 1;
        if part.values.len() - part.checked >= part.checked.max(UNCHECKED_MIN) {
            self.in_parts -= part.values.len();
            part.check(seed, scratch);
            self.in_parts += part.values.len();
        }
    }

    /// Frees all parts of repeated values.
    pub fn check(&mut self, seed: u64, threads: usize) -> Result<()> {
        let tasks = self.parts.chunks_mut(PARTS_OF_TASK);
        let threads = parallel::threads_for(self.in_parts, 0, threads);
        parallel::each_of(tasks, threads, |parts| {
            let mut scratch = ValueSet::new(0);
            parts.iter_mut().for_each(|part| part.check(seed, &mut scratch));
            Ok(())
        })?;
        self.in_parts = self.parts.iter().map(|part| part.values.len()).sum();
        Ok(())
    }

    /// Takes in the values of another group, if those of both are ascending lists; false if they aren't, and nothing was done.
    pub fn take_ascending(&mut self, other: &DistinctValues) -> bool {
        let (Some(ours), Some(theirs)) = (self.ascending(), other.ascending()) else { return false };
        let mut both = Vec::with_capacity(ours.len() + theirs.len());
        let (mut ours, mut theirs) = (ours.iter().copied().peekable(), theirs.iter().copied().peekable());
        while let (Some(one), Some(other)) = (ours.peek().copied(), theirs.peek().copied()) {
            both.push(one.min(other));
            if one <= other {
                ours.next();
            }
            if other <= one {
                theirs.next();
            }
        }
        both.extend(ours.chain(theirs));
        self.list = both;
        true
    }

    fn ascending(&self) -> Option<&[u64]> {
        (self.is_ascending && self.table.is_empty() && self.parts.is_empty()).then_some(&self.list)
    }

    /// How many there are, once the parts were checked.
    pub fn len(&self) -> usize {
        self.list.len() + self.table.len() + self.in_parts
    }

    /// Bytes that they take, more or less: tables are filled to between an eighth and a half, lists to more than half.
    pub fn bytes(&self) -> usize {
        size_of::<DistinctValues>() + self.table.bytes() + (self.list.len() + self.in_parts) * size_of::<u64>() * 3 / 2
    }

    /// All of them, some perhaps more than once.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let in_parts = self.parts.iter().flat_map(|part| part.values.iter().copied());
        self.list.iter().copied().chain(self.table.iter()).chain(in_parts)
    }
}

impl ValuesPart {
    /// Frees the part of repeated values.
    fn check(&mut self, seed: u64, scratch: &mut ValueSet<u64>) {
        if self.checked < self.values.len() {
            scratch.restart(self.values.len());
            self.values.retain(|word| add(scratch, *word, seed));
            self.checked = self.values.len();
        }
    }
}

#[inline]
fn add(set: &mut ValueSet<u64>, word: u64, seed: u64) -> bool {
    set.insert(word, hash(seed, &[word]), |member| hash(seed, &[*member]))
}

/// The part of a value: the bits of its hash that say no place in a table.
#[inline]
fn part_of(word: u64, seed: u64) -> usize {
    usize::from((hash(seed, &[word]) >> 58).to_le_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that come again, in no order.
    fn word(row: u64) -> u64 {
        row.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 250_007 * 7
    }

    #[test]
    fn values_are_counted_in_every_form() {
        for rows in [0, 1, 500, 30_000, 600_000] {
            let (mut values, mut scratch) = (DistinctValues::default(), ValueSet::new(0));
            let count = (0..rows).filter(|row| values.take(word(*row), 11, &mut scratch)).count();
            values.check(11, 2).unwrap();
            let expected: std::collections::BTreeSet<u64> = (0..rows).map(word).collect();
            assert_eq!(values.len(), expected.len());
            assert!(
                values.parts.is_empty() == (rows < 30_000) && (!values.parts.is_empty() || count == expected.len())
            );
            let mut found: Vec<u64> = values.iter().collect();
            found.sort_unstable();
            assert!(found.iter().eq(&expected));
        }
    }

    #[test]
    fn values_that_come_again_stay_in_a_table() {
        let (mut values, mut scratch) = (DistinctValues::default(), ValueSet::new(0));
        for row in 0..500_000 {
            values.take(row % 100_000 % (row / 4 + 1), 5, &mut scratch);
        }
        assert!(values.parts.is_empty() && values.len() == 100_000);
    }

    #[test]
    fn ascending_lists_become_one() {
        let of = |words: &[u64]| DistinctValues::of_run(words, 3, &mut ValueSet::new(0));
        let mut one = of(&[1, 1, 2, 5, 9]);
        assert!(one.take_ascending(&of(&[0, 2, 2, 9, 12])));
        assert_eq!(one.iter().collect::<Vec<_>>(), [0, 1, 2, 5, 9, 12]);
        assert!(one.take_ascending(&of(&[])));
        assert!(!one.take_ascending(&of(&[4, 3])));
        assert_eq!(one.len(), 6);
    }
}
