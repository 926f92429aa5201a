//! Groups with dense keys, found by direct addressing instead of a hash.
//!
//! Each key is a word. Where the words of all keys lie close together (dictionary codes, numbered texts, most whole
//! numbers), or are multiples of one unit from the least (starts of buckets), a table has one slot for each combination of words, and a row's group is one load from it.
//!
//! Invariant: the table covers the words of the blocks so far. A block with words outside empties the table, so that
//! each group is hashed once more; the table then reaches twice as far on that side, so this happens only a few
//! times.

use super::accumulate::NO_GROUP;
use super::keys::{ValueKey, WordBounds};

/// Most places: these take as much memory as a hash table of a million groups.
const PLACES_MAX: usize = 1 << 22;

/// Most places for each row so far: few rows don't pay for many.
const PLACES_OF_ROW_MAX: usize = 32;

/// How often the table may be emptied.
const EMPTIED_MAX: usize = 32;

/// The groups of rows by the words of their keys.
#[derive(Debug, Default)]
pub(super) struct DenseGroups {
    places_max: usize,
    /// By key.
    reaches: Vec<KeyDomain>,
    groups: Vec<u32>,
    /// Scratch: the place of each row.
    places: Vec<u32>,
    rows_seen: usize,
    emptied: usize,
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
}

/// Places for all combinations.
fn places(reaches: &[KeyDomain]) -> Option<usize> {
    reaches.iter().try_fold(1usize, |all, reach| all.checked_mul(reach.choices))
}

/// A part of what keys reach that they may grow on by.
const ROOMS: [u64; 4] = [1, 4, 16, 64];

impl DenseGroups {
    /// An empty set of groups, whose table may take at most this many bytes.
    pub fn within(bytes: usize) -> DenseGroups {
        DenseGroups { places_max: PLACES_MAX.min(bytes / size_of::<u32>()), ..DenseGroups::default() }
    }

    /// The group of each row of a block, to which `find` gives those that weren't seen; false where the words are too far apart.
    pub fn rows(
        &mut self,
        values: &[ValueKey],
        rows: usize,
        mut find: impl FnMut(usize) -> u32,
        mut take: impl FnMut(u32),
    ) -> bool {
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
                *group = find(row);
            }
            take(*group);
        }
        true
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
        if self.emptied >= EMPTIED_MAX || places(&reaches).is_none_or(|places| places > limit) {
            return false;
        }
        // What grew may grow on, as far as there are places.
        let further = |part: u64| {
            let grown = reaches.iter().zip(&self.reaches);
            let reaches = grown
                .map(|(reach, known)| KeyDomain::of(reach.bounds.beyond(&known.bounds, reach.bounds.steps() / part)));
            let reaches = reaches.collect::<Option<Vec<_>>>()?;
            places(&reaches).is_some_and(|places| places <= self.places_max).then_some(reaches)
        };
        if self.reaches.len() == reaches.len()
            && let Some(grown) = ROOMS.into_iter().find_map(further)
        {
            reaches = grown;
        }
        let needed = places(&reaches).unwrap_or(0);
        self.emptied += usize::from(!self.reaches.is_empty());
        self.groups.clear();
        self.groups.resize(needed, NO_GROUP);
        self.reaches = reaches;
        true
    }
}
