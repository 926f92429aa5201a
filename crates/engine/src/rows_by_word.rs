//! The first row of each word among the keys of a table: the core of lookup tables.
//!
//! - A word stands for its distance from the least one, in the greatest unit that divides all distances (`word_units.rs`).
//!   Words that are close together are found by place, all others by hash.
//! - A place of the hash table holds the distance and the row, so a look-up reads one cache line. Distances below 2^32 are
//!   stored in half of the memory.
//! - The highest bits of a hash are its place. Threads fill the table together: each reads all words and inserts those
//!   whose places are in its own part of the table, so nothing is moved and no lock is taken.
//! - Look-ups handle some hundred words at a time in loops that only wait for memory and don't branch, so the processor
//!   has many reads in flight. Words whose place another one occupies are searched for afterwards.

use std::fmt::Debug;
use std::hash::BuildHasher;

use arrow::buffer::NullBuffer;
use hashbrown::DefaultHashBuilder;

use crate::error::{Error, Result};
use crate::hashed::hash;
use crate::parallel;
use crate::word_units::WordUnits;

/// Stands for the row of a key that has none.
pub(crate) const MISSING: u32 = u32::MAX;

/// Places for each word up to which rows are found by place.
const PLACES_OF_WORD_MAX: usize = 4;

/// Words that are hashed and looked up together.
const WORDS_TOGETHER: usize = 1_024;

/// Binary logarithm of the fewest places of a hash table.
const PLACE_BITS_MIN: u32 = 6;

/// The first row of each word.
#[derive(Debug)]
pub(crate) struct RowsByWord {
    units: WordUnits,
    rows: WordRows,
    repeats: bool,
}

#[derive(Debug)]
enum WordRows {
    /// The row of each distance, or [`MISSING`].
    ByPlace(Vec<u32>),
    Near(RowsByHash<u32>),
    Far(RowsByHash<u64>),
}

/// The first row of each distance, in open addressing: at the place of its hash or at one of the next, cyclically within a part.
#[derive(Debug)]
struct RowsByHash<W> {
    seed: u64,
    /// Places of all parts, at least twice as many as words, and a power of two.
    places: Vec<WordSlot<W>>,
    /// Places of a part, which are a power of two.
    part_len: usize,
}

/// A distance and its row, which is [`MISSING`] where the place is free.
#[derive(Debug, Clone, Copy)]
struct WordSlot<W> {
    distance: W,
    row: u32,
}

/// A distance as a table stores it.
trait Distance: Copy + Default + PartialEq + Debug + Send + Sync {
    /// The stored form; `None` if it is too narrow, so that the table has no such distance.
    fn stored(distance: u64) -> Option<Self>;
}

impl Distance for u32 {
    #[inline(always)]
    fn stored(distance: u64) -> Option<u32> {
        u32::try_from(distance).ok()
    }
}

impl Distance for u64 {
    #[inline(always)]
    fn stored(distance: u64) -> Option<u64> {
        Some(distance)
    }
}

impl RowsByWord {
    /// The rows of some words, of which null has none.
    ///
    /// # Errors
    /// [`Error::RepeatedKey`] if a word has several rows, unless words `may_repeat`.
    pub fn new(words: &[u64], nulls: Option<&NullBuffer>, may_repeat: bool, threads: usize) -> Result<RowsByWord> {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let places_max = (words.len() - nulls.map_or(0, NullBuffer::null_count)).saturating_mul(PLACES_OF_WORD_MAX);
        let units = WordUnits::of(words, nulls, places_max);
        let keys = TableWords { words, nulls, units: &units };
        let (rows, repeats) = match units.count() {
            Some(places) if places <= places_max => keys.by_place(places)?,
            Some(places) if u32::try_from(places).is_ok() => {
                let (rows, repeats) = RowsByHash::new(&keys, threads)?;
                (WordRows::Near(rows), repeats)
            }
            _ => {
                let (rows, repeats) = RowsByHash::new(&keys, threads)?;
                (WordRows::Far(rows), repeats)
            }
        };
        if repeats && !may_repeat { Err(Error::RepeatedKey) } else { Ok(RowsByWord { units, rows, repeats }) }
    }

    /// Whether a word has several rows.
    pub fn repeats(&self) -> bool {
        self.repeats
    }

    /// The first row of each word, or [`MISSING`].
    pub fn find(&self, words: &[u64]) -> Vec<u32> {
        match &self.rows {
            WordRows::ByPlace(rows) => {
                let row = |place: usize| rows.get(place).copied().unwrap_or(MISSING);
                self.units.map(words, |distance| usize::try_from(distance).map_or(MISSING, row))
            }
            WordRows::Near(rows) => rows.find(words, &self.units),
            WordRows::Far(rows) => rows.find(words, &self.units),
        }
    }
}

/// The words of a table.
struct TableWords<'a> {
    words: &'a [u64],
    nulls: Option<&'a NullBuffer>,
    units: &'a WordUnits,
}

impl TableWords<'_> {
    fn is_valid(&self, row: u32) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(row as usize))
    }

    /// The row of each of so many distances, and whether a word has several.
    fn by_place(&self, places: usize) -> Result<(WordRows, bool)> {
        let (mut rows, mut repeats) = (vec![MISSING; places], false);
        for (word, row) in self.words.iter().zip(0..).filter(|(_, row)| self.is_valid(*row)) {
            let place = usize::try_from(self.units.distance(*word)).ok();
            match place.and_then(|place| rows.get_mut(place)) {
                Some(free) if *free == MISSING => *free = row,
                Some(_) => repeats = true,
                None => return Err(Error::Unsupported("a key outside of its range".to_owned())),
            }
        }
        Ok((WordRows::ByPlace(rows), repeats))
    }
}

impl<W: Distance> RowsByHash<W> {
    /// The rows of some keys, and whether a key has several.
    fn new(keys: &TableWords<'_>, threads: usize) -> Result<(RowsByHash<W>, bool)> {
        let rows = keys.words.len();
        let threads = parallel::threads_for(rows, 0, threads);
        let len = (2 * rows).next_power_of_two().max(1 << PLACE_BITS_MIN);
        let part_len = len / threads.next_power_of_two().min(len);
        let seed = DefaultHashBuilder::default().hash_one(rows);
        let mut places = vec![WordSlot { distance: W::default(), row: MISSING }; len];
        let shift = u64::BITS - len.ilog2();
        let parts = places.chunks_mut(part_len).enumerate();
        let repeats = parallel::each_of(parts, threads, |(number, places)| {
            let mut part = TablePart { first: number * part_len, places, count: 0, repeats: false };
            part.fill(keys, |distance| place_of(seed, shift, distance))?;
            Ok(part.repeats)
        })?;
        Ok((RowsByHash { seed, places, part_len }, repeats.contains(&true)))
    }

    /// The first row of each word, or [`MISSING`].
    fn find(&self, words: &[u64], units: &WordUnits) -> Vec<u32> {
        let shift = u64::BITS - self.places.len().ilog2();
        let mut rows = Vec::with_capacity(words.len());
        let mut numbers = Vec::with_capacity(WORDS_TOGETHER);
        let mut collisions = vec![0; WORDS_TOGETHER];
        for words in words.chunks(WORDS_TOGETHER) {
            numbers.clear();
            numbers.extend(words.iter().map(|word| place_of(self.seed, shift, units.distance(*word))));
            let (start, mut count) = (rows.len(), 0);
            rows.extend(words.iter().zip(&numbers).enumerate().map(|(at, (word, number))| {
                let (place, distance) = (self.places[*number], W::stored(units.distance(*word)));
                let is_it = distance == Some(place.distance);
                collisions[count] = at;
                count += usize::from(!is_it & (place.row != MISSING) & distance.is_some());
                if is_it { place.row } else { MISSING }
            }));
            for at in &collisions[..count] {
                if let Some(distance) = W::stored(units.distance(words[*at])) {
                    rows[start + at] = self.next(distance, numbers[*at]);
                }
            }
        }
        rows
    }

    /// The row of a distance that isn't at its place.
    fn next(&self, distance: W, place: usize) -> u32 {
        let (last, part) = (self.part_len - 1, place & !(self.part_len - 1));
        let mut next = (1..self.part_len).map(|further| self.places[part + ((place + further) & last)]);
        next.find(|place| place.distance == distance || place.row == MISSING).map_or(MISSING, |place| place.row)
    }
}

/// A part of a hash table that one thread fills.
struct TablePart<'a, W> {
    /// The number of its first place.
    first: usize,
    places: &'a mut [WordSlot<W>],
    count: usize,
    repeats: bool,
}

impl<W: Distance> TablePart<'_, W> {
    /// Inserts the keys whose places are in this part.
    fn fill(&mut self, keys: &TableWords<'_>, place_of: impl Fn(u64) -> usize) -> Result<()> {
        let (mut own, mut first) = (Vec::with_capacity(WORDS_TOGETHER), 0);
        for words in keys.words.chunks(WORDS_TOGETHER) {
            own.clear();
            for (word, row) in words.iter().zip(first..) {
                let distance = keys.units.distance(*word);
                let place = place_of(distance).wrapping_sub(self.first);
                if place < self.places.len()
                    && keys.is_valid(row)
                    && let Some(distance) = W::stored(distance)
                {
                    own.push((place, WordSlot { distance, row }));
                }
            }
            first += u32::try_from(words.len()).unwrap_or(MISSING);
            // Reads the places, so that they are in the cache below.
            own.iter().for_each(|(place, _)| _ = std::hint::black_box(self.places[*place].row));
            own.iter().try_for_each(|(place, entry)| self.insert(*place, *entry))?;
        }
        Ok(())
    }

    fn insert(&mut self, mut place: usize, entry: WordSlot<W>) -> Result<()> {
        while self.places[place].row != MISSING {
            if self.places[place].distance == entry.distance {
                self.repeats = true;
                return Ok(());
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        self.count += 1;
        // A search ends at a free place.
        if self.count == self.places.len() {
            return Err(Error::Unsupported("a join by keys whose hashes are alike".to_owned()));
        }
        self.places[place] = entry;
        Ok(())
    }
}

/// The place of a distance: the highest bits of its hash.
#[inline(always)]
fn place_of(seed: u64, shift: u32, distance: u64) -> usize {
    usize::try_from(hash(seed, &[distance]) >> shift).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Words of few and of many values, close together and far apart, with and without nulls, in one part and in several.
    #[test]
    fn the_first_row_of_each_word_is_found() {
        for (rows, values) in [(0, 1), (1, 1), (1_000, 7), (1_000, u64::MAX), (200_000, 300), (200_000, u64::MAX)] {
            let words: Vec<u64> = (0..rows).map(|row| hash(7, &[hash(row, &[3]) % values]) % values).collect();
            for nulls in [None, Some(NullBuffer::from_iter((0..rows).map(|row| row % 5 != 1)))] {
                let mut expected: HashMap<u64, u32> = HashMap::new();
                let mut repeats = false;
                for (word, row) in words.iter().zip(0u32..) {
                    if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row as usize)) {
                        repeats |= *expected.entry(*word).or_insert(row) != row;
                    }
                }
                let probes: Vec<u64> = words.iter().flat_map(|word| [*word, word ^ 1]).collect();
                let expected: Vec<u32> =
                    probes.iter().map(|word| expected.get(word).copied().unwrap_or(MISSING)).collect();
                for threads in [1, 2, 5] {
                    let table = RowsByWord::new(&words, nulls.as_ref(), true, threads).unwrap();
                    assert_eq!(table.find(&probes), expected);
                    assert_eq!(table.repeats(), repeats);
                    let unique = RowsByWord::new(&words, nulls.as_ref(), false, threads);
                    assert_eq!(matches!(unique, Err(Error::RepeatedKey)), repeats);
                }
            }
        }
    }
}
