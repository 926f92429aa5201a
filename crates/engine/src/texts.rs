//! Texts that were seen, numbered in the order of their first occurrence.
//!
//! Texts of many rows are looked up in steps: first the keys and hashes of all, then their entries, then the keys of
//! the texts behind these entries. Within a step the reads are independent, so that they overlap if the table is larger
//! than the cache.

use std::hash::BuildHasher;

use arrow::array::{Array, StringArray};
use hashbrown::DefaultHashBuilder;

use crate::hashed::{NumbersByHash, half, hash};

/// Rows whose texts are looked up together: so few that their keys and hashes fit the first-level cache.
const ROWS_AT_ONCE: usize = 512;

/// Bytes of a text that the words of a key hold.
const SHORT_BYTES_MAX: usize = 16;

/// Texts by number.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    table: NumbersByHash,
    keys: Vec<TextKey>,
    seed: u64,
    hasher: DefaultHashBuilder,
    /// All texts one behind the other, and where each ends.
    all: String,
    ends: Vec<usize>,
    scratch: TextScratch,
}

/// Keys and hashes of the rows that are looked up together, and the numbers that were found for them.
#[derive(Debug, Default)]
struct TextScratch {
    keys: Vec<TextKey>,
    hashes: Vec<u32>,
    existing: Vec<u32>,
}

/// What tells texts apart: their length, and their bytes if they are short, from which they could be put together again. Of longer ones the
/// words are a hash, and who finds one compares the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextKey {
    words: [u64; 2],
    bytes: u64,
}

impl TextKey {
    /// The first bytes of a short text and its last ones overlap where it has fewer than both together.
    #[inline]
    fn of(text: &[u8], hasher: &DefaultHashBuilder) -> TextKey {
        let of_four = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        let of_eight = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let words = match text.len() {
            0 => [0, 0],
            1..=3 => [u64::from(text[0]) << 8 | u64::from(text[text.len() / 2]), u64::from(text[text.len() - 1])],
            4..=7 => [of_four(text.first_chunk()), of_four(text.last_chunk())],
            8..=SHORT_BYTES_MAX => [of_eight(text.first_chunk()), of_eight(text.last_chunk())],
            _ => [hasher.hash_one(text), 0],
        };
        TextKey { words, bytes: text.len() as u64 }
    }

    fn hash(&self, seed: u64) -> u32 {
        half(hash(seed ^ self.bytes, &self.words))
    }

    fn is_short(&self) -> bool {
        self.bytes <= SHORT_BYTES_MAX as u64
    }
}

impl Texts {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        let key = TextKey::of(text.as_bytes(), &self.hasher);
        let seed = self.seed_or_new();
        self.find_or_add(text, key, seed)
    }

    /// The numbers of the texts of rows, and of rows without one `of_null`.
    pub fn numbers<N: Copy + From<u32>>(&mut self, texts: &StringArray, of_null: N) -> Vec<N> {
        match texts.null_count() {
            0 => self.numbers_by(texts.len(), |row| Some(texts.value(row)), of_null),
            _ => self.numbers_by(texts.len(), |row| texts.is_valid(row).then(|| texts.value(row)), of_null),
        }
    }

    /// The numbers here of all texts of others, by their numbers there.
    pub fn numbers_of(&mut self, others: &Texts) -> Vec<u32> {
        self.numbers_by(others.len(), |other| Some(others.text(number(other))), 0)
    }

    fn numbers_by<'t, N: Copy + From<u32>>(
        &mut self,
        rows: usize,
        text: impl Fn(usize) -> Option<&'t str>,
        of_null: N,
    ) -> Vec<N> {
        let mut numbers = Vec::with_capacity(rows);
        let seed = self.seed_or_new();
        let mut scratch = std::mem::take(&mut self.scratch);
        let TextScratch { keys, hashes, existing } = &mut scratch;
        for start in (0..rows).step_by(ROWS_AT_ONCE) {
            let rows = start..rows.min(start + ROWS_AT_ONCE);
            keys.clear();
            keys.extend(rows.clone().map(|row| TextKey::of(text(row).unwrap_or_default().as_bytes(), &self.hasher)));
            hashes.clear();
            hashes.extend(keys.iter().map(|key| key.hash(seed)));
            self.table.first(hashes, existing);
            for ((row, key), number) in rows.zip(&*keys).zip(&*existing) {
                let Some(text) = text(row) else {
                    numbers.push(of_null);
                    continue;
                };
                let is_it =
                    self.keys.get(*number as usize) == Some(key) && (key.is_short() || self.text(*number) == text);
                numbers.push(N::from(if is_it { *number } else { self.find_or_add(text, *key, seed) }));
            }
        }
        self.scratch = scratch;
        numbers
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// All texts by number.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..number(self.ends.len())).map(|number| self.text(number))
    }

    /// Bytes that they take, more or less: of each its key, its end, and two entries of the table.
    pub fn bytes(&self) -> usize {
        self.all.capacity() + self.ends.capacity() * (size_of::<usize>() + size_of::<TextKey>() + 16)
    }

    pub fn text(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[number]]
    }

    /// Differs from one statement to the next, so that nobody can choose texts that collide.
    fn seed_or_new(&mut self) -> u64 {
        if self.seed == 0 {
            self.seed = self.hasher.hash_one(0) | 1;
        }
        self.seed
    }

    fn find_or_add(&mut self, text: &str, key: TextKey, seed: u64) -> u32 {
        let next = number(self.ends.len());
        let (keys, ends, all) = (&self.keys, &self.ends, &self.all);
        let is_it = |number: u32| {
            let number = number as usize;
            let start = || number.checked_sub(1).map_or(0, |before| ends[before]);
            keys[number] == key && (key.is_short() || all[start()..ends[number]] == *text)
        };
        if let Some(existing) = self.table.find_or_add(key.hash(seed), next, is_it) {
            return existing;
        }
        self.keys.push(key);
        self.all.push_str(text);
        self.ends.push(self.all.len());
        next
    }
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_have_one_number_each() {
        let letters = ["", "a", "aa", "ab", "ba", "aba", "abb", "\0", "\0\0", "a\0"];
        let longer = (4..24).flat_map(|length| {
            let text = "abcdefghijklmnopqrstuvwx"[..length].to_owned();
            let whole = text.clone();
            (0..length).map(move |place| format!("{}X{}", &text[..place], &text[place + 1..])).chain([whole])
        });
        let all: Vec<String> = letters.into_iter().map(str::to_owned).chain(longer.collect::<Vec<_>>()).collect();
        let mut texts = Texts::default();
        for _ in 0..2 {
            for (place, text) in all.iter().enumerate() {
                assert_eq!(texts.number(text) as usize, place, "{text:?}");
            }
        }
        assert_eq!(texts.iter().collect::<Vec<_>>(), all);
        // The same many at a time, new ones and others among each other.
        let rows: Vec<Option<&str>> =
            (0..3 * all.len()).map(|row| (row % 7 > 0).then(|| all[row * row % all.len()].as_str())).collect();
        let (mut at_once, mut one_by_one) = (Texts::default(), Texts::default());
        for rows in rows.chunks(600) {
            let numbers = at_once.numbers(&StringArray::from(rows.to_vec()), u32::MAX);
            let expected = rows.iter().map(|text| text.map_or(u32::MAX, |text| one_by_one.number(text)));
            assert_eq!(numbers, expected.collect::<Vec<_>>());
        }
        assert!(at_once.iter().eq(one_by_one.iter()));
    }
}
