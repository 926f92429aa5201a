//! The first row of each word among the keys of a table: the core of lookup tables.
//!
//! - Words that are close together are found by place, all others by hash.
//! - Words by hash stand in parts by the highest bits of their hashes. Each thread reads all words and builds its own
//!   part, so nothing is moved and no lock is taken. Small tables have one part.
//! - Hashes come first, then places, then entries, for some hundred words at a time: each of these loops only waits for
//!   memory, so the processor has many reads in flight.

use std::hash::BuildHasher;

use arrow::buffer::NullBuffer;
use hashbrown::DefaultHashBuilder;

use crate::error::{Error, Result};
use crate::hashed::{NumbersByHash, half, hash};
use crate::lookup::MISSING;
use crate::parallel;

/// Places for each word up to which rows are found by place.
const PLACES_OF_WORD_MAX: usize = 4;

/// Words that are hashed and looked up together.
const WORDS_TOGETHER: usize = 1_024;

/// The first row of each word.
#[derive(Debug)]
pub(crate) enum RowsByWord {
    /// For each word from the least on its first row, or [`MISSING`].
    ByPlace {
        least: u64,
        rows: Vec<u32>,
        repeats: bool,
    },
    ByHash {
        seed: u64,
        parts: Vec<Part>,
    },
}

/// The words whose hashes have the same highest bits.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Each word once, with the first of its rows.
    entries: Vec<(u64, u32)>,
    /// Positions among the entries.
    positions: NumbersByHash,
    repeats: bool,
}

impl RowsByWord {
    /// The rows of some words, of which null has none.
    ///
    /// # Errors
    /// [`Error::RepeatedKey`] if a word has several rows, unless words `may_repeat`.
    pub fn new(words: &[u64], nulls: Option<&NullBuffer>, may_repeat: bool, threads: usize) -> Result<RowsByWord> {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if let Some((least, places)) = places(words, nulls) {
            return RowsByWord::by_place(words, nulls, (least, places), may_repeat);
        }
        let seed = DefaultHashBuilder::default().hash_one(words.len());
        let threads = parallel::threads_for(words.len(), 0, threads);
        let parts = threads.next_power_of_two();
        let parts = parallel::each(parts, threads, |part| Part::new(words, nulls, (seed, part, parts), may_repeat))?;
        Ok(RowsByWord::ByHash { seed, parts })
    }

    fn by_place(
        words: &[u64],
        nulls: Option<&NullBuffer>,
        (least, places): (u64, usize),
        may_repeat: bool,
    ) -> Result<RowsByWord> {
        let (mut rows, mut repeats) = (vec![MISSING; places], false);
        for (word, row) in words.iter().zip(0..) {
            if nulls.is_some_and(|nulls| nulls.is_null(row as usize)) {
                continue;
            }
            match rows.get_mut(place(*word, least)) {
                Some(free) if *free == MISSING => *free = row,
                _ if may_repeat => repeats = true,
                _ => return Err(Error::RepeatedKey),
            }
        }
        Ok(RowsByWord::ByPlace { least, rows, repeats })
    }

    /// Whether a word has several rows.
    pub fn repeats(&self) -> bool {
        match self {
            RowsByWord::ByPlace { repeats, .. } => *repeats,
            RowsByWord::ByHash { parts, .. } => parts.iter().any(|part| part.repeats),
        }
    }

    /// The first row of each word, or [`MISSING`].
    pub fn find(&self, words: &[u64]) -> Vec<u32> {
        match self {
            RowsByWord::ByPlace { least, rows, .. } => {
                words.iter().map(|word| rows.get(place(*word, *least)).copied().unwrap_or(MISSING)).collect()
            }
            RowsByWord::ByHash { seed, parts } => match parts.as_slice() {
                [part] => found(words, *seed, |_| part),
                parts => found(words, *seed, |hash| &parts[part_of(hash, parts.len())]),
            },
        }
    }
}

/// The first row of each word, or [`MISSING`], in the part that `part` gives for a hash.
fn found<'a>(words: &[u64], seed: u64, part: impl Fn(u64) -> &'a Part) -> Vec<u32> {
    let mut rows = Vec::with_capacity(words.len());
    let (mut hashes, mut positions) = (Vec::new(), Vec::new());
    for words in words.chunks(WORDS_TOGETHER) {
        hashes.clear();
        hashes.extend(words.iter().map(|word| hash(seed, &[*word])));
        positions.clear();
        positions.extend(hashes.iter().map(|hash| part(*hash).positions.first_of(half(*hash))));
        rows.extend(words.iter().zip(&hashes).zip(&positions).map(|((word, hash), position)| {
            let part = part(*hash);
            match part.entries.get(*position as usize) {
                None => MISSING,
                Some((entry_word, row)) if entry_word == word => *row,
                Some(_) => part.row(*word, *hash),
            }
        }));
    }
    rows
}

/// The part of the words with a hash.
#[inline]
fn part_of(hash: u64, parts: usize) -> usize {
    // Parts are a power of two and fewer than there are high bits for.
    usize::try_from(hash >> u32::BITS).unwrap_or(0) >> (u32::BITS - parts.ilog2())
}

impl Part {
    fn new(
        words: &[u64],
        nulls: Option<&NullBuffer>,
        (seed, number, parts): (u64, usize, usize),
        may_repeat: bool,
    ) -> Result<Part> {
        let mut part = Part::default();
        // Hashes are even, so parts are too.
        part.positions.reserve(words.len() / parts);
        part.entries.reserve(words.len() / parts);
        let (mut own, mut first) = (Vec::with_capacity(WORDS_TOGETHER), 0);
        for words in words.chunks(WORDS_TOGETHER) {
            own.clear();
            for (word, row) in words.iter().zip(first..) {
                let hash = hash(seed, &[*word]);
                if part_of(hash, parts) == number && nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                    own.push((half(hash), *word, row));
                }
            }
            first += u32::try_from(words.len()).unwrap_or(MISSING);
            own.iter().for_each(|(hash, _, _)| part.positions.prefetch(*hash));
            for (hash, word, row) in &own {
                let next = u32::try_from(part.entries.len()).unwrap_or(MISSING);
                let entries = &part.entries;
                match part.positions.find_or_add(*hash, next, |position| entries[position as usize].0 == *word) {
                    None => part.entries.push((*word, *row)),
                    Some(_) if may_repeat => part.repeats = true,
                    Some(_) => return Err(Error::RepeatedKey),
                }
            }
        }
        Ok(part)
    }

    #[cold]
    fn row(&self, word: u64, hash: u64) -> u32 {
        let position = self.positions.find(half(hash), |position| self.entries[position as usize].0 == word);
        position.map_or(MISSING, |position| self.entries[position as usize].1)
    }
}

/// The place of a word; none has one beyond all places.
#[inline]
fn place(word: u64, least: u64) -> usize {
    usize::try_from(word.wrapping_sub(least)).unwrap_or(usize::MAX)
}

/// The least of some words, of which null doesn't count, and how many places there are from it to the greatest; `None` if these are far more
/// than there are words.
fn places(words: &[u64], nulls: Option<&NullBuffer>) -> Option<(u64, usize)> {
    let (least, distance) = range(words, nulls)?;
    let places = usize::try_from(distance).ok()?.checked_add(1)?;
    let count = words.len() - nulls.map_or(0, NullBuffer::null_count);
    (places <= count.checked_mul(PLACES_OF_WORD_MAX)?).then_some((least, places))
}

/// The first of some words on the circle of all words, of which null doesn't count, and the distance from it to the last: whole numbers near zero
/// are close together, with a sign or without. `None` without words, or if they are more than half of the circle apart.
pub(crate) fn range(words: &[u64], nulls: Option<&NullBuffer>) -> Option<(u64, u64)> {
    let first = match nulls {
        None => *words.first()?,
        Some(nulls) => words[nulls.valid_indices().next()?],
    };
    // Wrapping differences stay small for negative numbers as well.
    let difference = |word: &u64| word.wrapping_sub(first).cast_signed();
    let widened = |(low, high): (i64, i64), difference: i64| (low.min(difference), high.max(difference));
    let (below, above) = match nulls {
        None => words.iter().map(difference).fold((0, 0), widened),
        Some(nulls) => nulls.valid_indices().map(|row| difference(&words[row])).fold((0, 0), widened),
    };
    let distance = above.checked_sub(below)?.cast_unsigned();
    Some((first.wrapping_add_signed(below), distance))
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

    #[test]
    fn the_range_of_words_is_one_on_their_circle() {
        let words = |numbers: &[i64]| numbers.iter().map(|number| number.cast_unsigned()).collect::<Vec<_>>();
        assert_eq!(range(&[], None), None);
        assert_eq!(range(&words(&[3, -2, 1]), None), Some(((-2i64).cast_unsigned(), 5)));
        assert_eq!(range(&words(&[i64::MIN, i64::MAX]), None), Some((i64::MAX.cast_unsigned(), 1)));
        assert_eq!(range(&words(&[i64::MIN, 0, i64::MAX]), None), None);
        let nulls = NullBuffer::from(vec![false, true, true]);
        assert_eq!(range(&words(&[900, 7, 9]), Some(&nulls)), Some((7, 2)));
        assert_eq!(range(&words(&[900]), Some(&NullBuffer::new_null(1))), None);
    }
}
