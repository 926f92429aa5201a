//! Groups with dense keys, found by direct addressing instead of a hash.
//!
//! Each key is a word. A table has one slot for each combination of words, so a row's group takes one load. This needs
//! words that lie close together (dictionary codes, numbered texts, most whole numbers), or whose distances from the
//! least are multiples of one unit (starts of buckets).
//!
//! Invariant: the table covers the words of all blocks so far. If a block has words outside, a larger table replaces
//! this one. It extends twice as far on that side, so this happens only a few times.
//!
//! As long as every group has been created here, an empty slot means a new group, and nothing is hashed. Otherwise a
//! group without a slot is looked up by its hash.

use super::accumulate::NO_GROUP;
use super::keys::{ValueKey, WordBounds};

/// Most slots: these take as much memory as a hash table of a million groups.
const PLACES_MAX: usize = 1 << 22;

/// Most slots per row so far: a large table doesn't pay for few rows.
const PLACES_OF_ROW_MAX: usize = 32;

/// How often the table may be replaced by a larger one.
const GROWTHS_MAX: usize = 32;

/// The groups of rows by the words of their keys.
#[derive(Debug, Default)]
pub(super) struct DenseGroups {
    places_max: usize,
    /// By key.
    reaches: Vec<KeyDomain>,
    groups: Vec<u32>,
    /// Groups that were made here.
    len: usize,
    /// Scratch: the place of each row.
    places: Vec<u32>,
    rows_seen: usize,
    growths: usize,
}

/// The range of words for which a key has places. The first place is that of null.
#[derive(Debug, Clone, Copy)]
struct KeyDomain {
    bounds: WordBounds,
    /// Words, and null.
    choices: usize,
}

impl KeyDomain {
    /// `None` for more words than there can be places for.
    fn of(bounds: WordBounds) -> Option<KeyDomain> {
        let choices = usize::try_from(bounds.steps()).ok()?.checked_add(2)?;
        Some(KeyDomain { bounds, choices })
    }

    /// The word at a place; `None` for null.
    fn word(&self, place: usize) -> Option<u64> {
        place.checked_sub(1).map(|step| self.bounds.word(step as u64))
    }

    /// The place of a word. It must be within the bounds.
    fn place(&self, word: Option<u64>) -> usize {
        word.map_or(0, |word| usize::try_from(self.bounds.step(word)).unwrap_or(usize::MAX).saturating_add(1))
    }
}

/// The place of the same words among those of other domains. `translate` gives a word there, by the number of its key.
fn place_among(place: usize, from: &[KeyDomain], to: &[KeyDomain], translate: impl Fn(usize, u64) -> u64) -> usize {
    let (mut rest, mut stride, mut among) = (place, 1, 0);
    // The last key's places stand side by side.
    for (key, (from, to)) in from.iter().zip(to).enumerate().rev() {
        let word = from.word(rest % from.choices).map(|word| translate(key, word));
        among += to.place(word) * stride;
        rest /= from.choices;
        stride *= to.choices;
    }
    among
}

/// Places for all combinations.
fn places(reaches: &[KeyDomain]) -> Option<usize> {
    reaches.iter().try_fold(1usize, |all, reach| all.checked_mul(reach.choices))
}

/// The place of each row among those of all keys that there can be, and how many places these are; `None` if they are more than `places_max`.
pub(super) fn places_of_rows(values: &[ValueKey], rows: usize, places_max: usize) -> Option<(Vec<u32>, usize)> {
    let reaches = values.iter().map(|value| KeyDomain::of(value.bounds()?)).collect::<Option<Vec<_>>>()?;
    let count = places(&reaches).filter(|count| *count <= places_max)?;
    let mut of_rows = vec![0; rows];
    for (value, reach) in values.iter().zip(&reaches) {
        value.add_places(&reach.bounds, reach.choices, &mut of_rows);
    }
    Some((of_rows, count))
}

/// A part of what keys reach that they may grow on by.
const ROOMS: [u64; 4] = [1, 4, 16, 64];

impl DenseGroups {
    /// An empty set of groups, whose table may take at most this many bytes.
    pub fn within(bytes: usize) -> DenseGroups {
        DenseGroups { places_max: PLACES_MAX.min(bytes / size_of::<u32>()), ..DenseGroups::default() }
    }

    /// The number of groups that were created here. If it is the number of all groups, no other group exists.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Passes the group of each row of a block to `take`. Returns false, and passes nothing, if the words are too far
    /// apart for a table.
    ///
    /// `find` returns the group of a row whose slot is empty. Its second argument is true if the group is certainly
    /// new: all `group_count` groups were created here, so every existing group has a slot.
    pub fn rows(
        &mut self,
        values: &[ValueKey],
        rows: usize,
        group_count: usize,
        mut find: impl FnMut(usize, bool) -> u32,
        mut take: impl FnMut(u32),
    ) -> bool {
        let are_all_here = self.len == group_count;
        self.rows_seen = self.rows_seen.saturating_add(rows);
        if !self.reach(values) {
            return false;
        }
        self.places.clear();
        self.places.resize(rows, 0);
        for (value, reach) in values.iter().zip(&self.reaches) {
            value.add_places(&reach.bounds, reach.choices, &mut self.places);
        }
        for (row, place) in self.places.iter().enumerate() {
            let group = &mut self.groups[*place as usize];
            if *group == NO_GROUP {
                *group = find(row, are_all_here);
                self.len += usize::from(are_all_here);
            }
            take(*group);
        }
        true
    }

    /// Takes in the groups of another table, whose groups follow on ours: for each of theirs which of ours it is, where those that we don't have get the
    /// next numbers. `numbers` are by key: for the texts of the others their numbers here; empty for keys that aren't texts. `None` if the
    /// words of both are too far apart.
    pub fn merge(&mut self, other: &DenseGroups, numbers: &[Vec<u32>]) -> Option<Vec<u32>> {
        if self.reaches.len() != other.reaches.len() || self.reaches.len() != numbers.len() {
            return None;
        }
        let translate = |key: usize, word: u64| match numbers[key].as_slice() {
            [] => word,
            numbers => {
                usize::try_from(word).ok().and_then(|word| numbers.get(word)).map_or(0, |number| u64::from(*number))
            }
        };
        let domain = |(key, (ours, theirs)): (usize, (&KeyDomain, &KeyDomain))| {
            let theirs = match numbers[key].iter().max() {
                Some(greatest) => WordBounds::of_numbers(u64::from(*greatest)),
                None => theirs.bounds,
            };
            KeyDomain::of(ours.bounds.with(&theirs)?)
        };
        let reaches = self.reaches.iter().zip(&other.reaches).enumerate().map(domain).collect::<Option<Vec<_>>>()?;
        if places(&reaches).is_none_or(|places| places > self.places_max) {
            return None;
        }
        self.extend(reaches);
        let mut places = vec![0; other.len];
        for (place, group) in other.groups.iter().enumerate().filter(|(_, group)| **group != NO_GROUP) {
            *places.get_mut(*group as usize)? = place;
        }
        let mut mapping = Vec::with_capacity(places.len());
        for place in places {
            let group = self.groups.get_mut(place_among(place, &other.reaches, &self.reaches, translate))?;
            if *group == NO_GROUP {
                *group = u32::try_from(self.len).ok()?;
                self.len += 1;
            }
            mapping.push(*group);
        }
        Some(mapping)
    }

    /// Replaces the table by one for other words, among which those so far are.
    fn extend(&mut self, reaches: Vec<KeyDomain>) {
        let mut groups = vec![NO_GROUP; places(&reaches).unwrap_or(0)];
        for (place, group) in self.groups.iter().enumerate().filter(|(_, group)| **group != NO_GROUP) {
            groups[place_among(place, &self.reaches, &reaches, |_, word| word)] = *group;
        }
        (self.groups, self.reaches) = (groups, reaches);
    }

    /// Whether there is a place for each of the words of some keys, made where there is none.
    fn reach(&mut self, values: &[ValueKey]) -> bool {
        let covers = |(value, reach): (&ValueKey, &KeyDomain)| {
            value.bounds().is_none_or(|bounds| reach.bounds.with(&bounds) == Some(reach.bounds))
        };
        if self.reaches.len() == values.len() && values.iter().zip(&self.reaches).all(covers) {
            // A key without bounds has no values in any row, or its bounds aren't known.
            return values.iter().all(|value| value.bounds().is_some());
        }
        let mut reaches = Vec::with_capacity(values.len());
        for (key, value) in values.iter().enumerate() {
            let Some(mut bounds) = value.bounds() else { return false };
            if let Some(reach) = self.reaches.get(key) {
                let Some(both) = bounds.with(&reach.bounds) else { return false };
                bounds = both;
            }
            let Some(reach) = KeyDomain::of(bounds) else { return false };
            reaches.push(reach);
        }
        let limit = self.places_max.min(self.rows_seen.saturating_mul(PLACES_OF_ROW_MAX));
        if self.growths >= GROWTHS_MAX || places(&reaches).is_none_or(|places| places > limit) {
            return false;
        }
        // What grew may grow on, as far as there are places.
        let further = |part: u64| {
            let grown = reaches.iter().zip(&self.reaches);
            let reaches = grown
                .map(|(reach, former)| KeyDomain::of(reach.bounds.beyond(&former.bounds, reach.bounds.steps() / part)));
            let reaches = reaches.collect::<Option<Vec<_>>>()?;
            places(&reaches).is_some_and(|places| places <= self.places_max).then_some(reaches)
        };
        if self.reaches.len() == reaches.len()
            && let Some(grown) = ROOMS.into_iter().find_map(further)
        {
            reaches = grown;
        }
        self.growths += usize::from(!self.reaches.is_empty());
        self.extend(reaches);
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
    use arrow::util::display::array_value_to_string;
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::groups::{GroupIndex, Groups, merged};
    use crate::aggregate::keys::TextWords;
    use crate::texts::Texts;

    /// What one thread has of some keys.
    struct Thread {
        groups: Groups,
        texts: Vec<Texts>,
        words: Vec<TextWords>,
        dense: DenseGroups,
    }

    impl Thread {
        fn new(keys: usize) -> Thread {
            let (texts, words) = (0..keys).map(|_| (Texts::default(), TextWords::of_places())).unzip();
            Thread { groups: Groups::new(keys), texts, words, dense: DenseGroups::within(1 << 20) }
        }

        /// The group of each row of a block, by place or, if `by_hash` or the words are too far apart, by hash.
        fn rows(&mut self, block: &[ArrayRef], by_hash: bool) -> Vec<u32> {
            let keys = block
                .iter()
                .enumerate()
                .map(|(key, array)| ValueKey::new(key, array, &mut self.texts[key], &mut self.words[key]).unwrap());
            let keys: Vec<ValueKey> = keys.collect();
            let words = |row: usize| -> Vec<u64> {
                let nulls = keys.iter().map(|key| u64::from(key.word(row).is_none()) << key.key).sum();
                keys.iter().map(|key| key.word(row).unwrap_or(0)).chain([nulls]).collect()
            };
            let (count, group_count, mut rows) = (block[0].len(), self.groups.len(), Vec::new());
            let groups = &mut self.groups;
            let find = |row: usize, is_new: bool| match is_new {
                true => groups.add_new(&words(row)),
                false => groups.find(&words(row)),
            };
            if by_hash || !self.dense.rows(&keys, count, group_count, find, |group| rows.push(group)) {
                rows = (0..count).map(|row| self.groups.find(&words(row))).collect();
            }
            rows
        }

        fn index(&mut self) -> GroupIndex<'_> {
            GroupIndex { groups: &mut self.groups, texts: &mut self.texts, dense: &mut self.dense, words: &self.words }
        }
    }

    /// Whole numbers around one that differs between blocks, multiples of a minute, prices of two decimal digits, texts.
    fn column(kind: u8, values: &[Option<u8>], base: i64) -> ArrayRef {
        let numbers = values.iter().map(|value| value.map(|value| base * 40 + i64::from(value)));
        match kind {
            0 => Arc::new(numbers.collect::<Int64Array>()),
            1 => Arc::new(numbers.map(|value| value.map(|value| value * 60_000_000_000 + 7)).collect::<Int64Array>()),
            2 => Arc::new(numbers.map(|value| value.map(|value| value as f64 / 100.0)).collect::<Float64Array>()),
            _ => Arc::new(numbers.map(|value| value.map(|value| format!("t{}", value % 90))).collect::<StringArray>()),
        }
    }

    fn blocks() -> impl Strategy<Value = Vec<(Vec<Vec<Option<u8>>>, i64, bool)>> {
        let value = || prop::option::weighted(0.9, 0u8..30);
        let block =
            (prop::collection::vec(prop::collection::vec(value(), 3), 1..60), -3i64..4, prop::bool::weighted(0.1));
        prop::collection::vec(block, 0..6)
    }

    proptest! {
        /// Groups of two threads, numbered by their first rows, those of the second behind those of the first.
        #[test]
        fn groups_by_place_are_those_of_the_keys(
            kinds in prop::collection::vec(0u8..4, 1..4),
            blocks in prop::array::uniform2(blocks()),
        ) {
            let mut expected: HashMap<Vec<Option<String>>, u32> = HashMap::new();
            let mut threads = [Thread::new(kinds.len()), Thread::new(kinds.len())];
            let mut found: [Vec<Vec<u32>>; 2] = [Vec::new(), Vec::new()];
            let mut expected_groups: [Vec<Vec<u32>>; 2] = [Vec::new(), Vec::new()];
            for (number, blocks) in blocks.iter().enumerate() {
                for (rows, base, by_hash) in blocks {
                    let column = |(key, kind): (usize, &u8)| {
                        column(*kind, &rows.iter().map(|row| row[key]).collect::<Vec<_>>(), *base)
                    };
                    let block: Vec<ArrayRef> = kinds.iter().enumerate().map(column).collect();
                    found[number].push(threads[number].rows(&block, *by_hash));
                    let group = |row: usize| {
                        let shown = |array: &ArrayRef| array.is_valid(row).then(|| array_value_to_string(array, row).unwrap());
                        let next = u32::try_from(expected.len()).unwrap();
                        *expected.entry(block.iter().map(shown).collect()).or_insert(next)
                    };
                    expected_groups[number].push((0..rows.len()).map(group).collect());
                }
            }
            let [mut ours, mut theirs] = threads;
            let mapping = merged(ours.index(), theirs.index(), 1).unwrap();
            prop_assert_eq!(&found[0], &expected_groups[0]);
            let mapped: Vec<Vec<u32>> =
                found[1].iter().map(|rows| rows.iter().map(|group| mapping[*group as usize]).collect()).collect();
            prop_assert_eq!(&mapped, &expected_groups[1]);
            prop_assert_eq!(ours.groups.len(), expected.len());
            // Found by hash afterwards, too.
            for group in 0..ours.groups.len() {
                let words = ours.groups.words(group).to_vec();
                prop_assert_eq!(ours.groups.find(&words) as usize, group);
            }
        }
    }
}
