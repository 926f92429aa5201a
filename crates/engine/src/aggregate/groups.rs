//! Groups: maps the values of the keys to a group number, and group numbers back to key columns.
//!
//! A key is one 64-bit word: the bits of a number, or the number of a text among the texts seen so far. One more word
//! has a bit for each null key. So a lookup hashes a few words, whatever the types of the keys.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, PrimitiveArray, StringArray, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use hashbrown::DefaultHashBuilder;

use super::dense::DenseGroups;
use super::keys::TextWords;
use crate::error::{Error, Result};
use crate::hashed::{NONE, NumbersByHash, half, hash};
use crate::parallel;
use crate::texts::Texts;

/// Groups whose key words share an allocation: new groups get new allocations, and existing words are never moved.
const CHUNK_GROUPS: usize = 1 << 12;

/// The groups that were seen, in the order of their first row.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Keys of a group, and the word of nulls.
    stride: usize,
    /// Of [`CHUNK_GROUPS`] groups each.
    chunks: Vec<Vec<u64>>,
    /// The words of nulls of all groups together.
    nulls: u64,
    /// Groups by half of the bits of the hashes of their words: the first `hashed` ones.
    table: NumbersByHash,
    hashed: usize,
    /// Differs from one statement to the next, so that nobody can choose keys that collide.
    seed: u64,
    len: usize,
    /// Whether each group's words are greater than those of the one before, as they come from rows in order: then a group that
    /// is greater still is new, and no hash is needed.
    ascending: bool,
    /// Scratch: the hashes of rows, and their groups.
    hashes: Vec<u32>,
    existing: Vec<u32>,
}

impl Groups {
    pub fn new(keys: usize) -> Groups {
        Groups {
            stride: keys + 1,
            chunks: Vec::new(),
            nulls: 0,
            table: NumbersByHash::default(),
            hashed: 0,
            seed: DefaultHashBuilder::default().hash_one(keys),
            len: 0,
            ascending: true,
            hashes: Vec::new(),
            existing: Vec::new(),
        }
    }

    /// Groups of so many words each, which are found by hashes that the caller has: by [`Groups::find_hashed`] alone.
    pub fn of_hashed(stride: usize) -> Groups {
        Groups { stride, ascending: false, ..Groups::new(0) }
    }

    /// Makes room in the table for more groups.
    pub fn reserve(&mut self, groups: usize) {
        self.table.reserve(groups);
    }

    /// Words of a group.
    pub fn stride(&self) -> usize {
        self.stride
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether each group was greater than the one before, so that none was looked for.
    pub fn are_ascending(&self) -> bool {
        self.ascending
    }

    /// The words of a group.
    pub fn words(&self, group: usize) -> &[u64] {
        words(&self.chunks, self.stride, group)
    }

    /// The word of each group at a position.
    pub fn words_of(&self, position: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.len);
        self.chunks.iter().for_each(|chunk| words.extend(chunk.chunks_exact(self.stride).map(|words| words[position])));
        words
    }

    /// The group of some words, made if it wasn't seen.
    pub fn find(&mut self, words: &[u64]) -> u32 {
        let seed = self.seed;
        self.find_by(words, |words| half(hash(seed, words)))
    }

    /// The groups of rows whose words are adjacent. New groups are created.
    pub fn find_rows(&mut self, words: &[u64], mut take: impl FnMut(u32)) {
        let (stride, seed) = (self.stride, self.seed);
        if self.ascending {
            return words.chunks_exact(stride).for_each(|words| take(self.find(words)));
        }
        // Hashes of neighbours don't wait for each other, nor do their look-ups for memory.
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(words.chunks_exact(stride).map(|words| half(hash(seed, words))));
        self.find_hashed(words, &hashes, take);
        self.hashes = hashes;
    }

    /// The groups of rows whose words are adjacent and have these hashes. New groups are created.
    pub fn find_hashed(&mut self, words: &[u64], hashes: &[u32], mut take: impl FnMut(u32)) {
        self.fill_table();
        let mut existing = std::mem::take(&mut self.existing);
        self.existing_of_rows(words, hashes, &mut existing);
        for ((words, hash), existing) in words.chunks_exact(self.stride).zip(hashes).zip(&existing) {
            take(if *existing == NONE { self.find_by(words, |_| *hash) } else { *existing });
        }
        self.existing = existing;
    }

    fn find_by(&mut self, words: &[u64], hash: impl FnOnce(&[u64]) -> u32) -> u32 {
        debug_assert_eq!(words.len(), self.stride);
        // Rows are ordered, so the next row is mostly of the last group.
        if self.len > 0 && are_same(self.words(self.len - 1), words) {
            return number(self.len - 1);
        }
        if self.ascending {
            if self.len == 0 || self.words(self.len - 1) < words {
                return self.add(words);
            }
            self.ascending = false;
        }
        self.fill_table();
        let (hash, stride, chunks) = (hash(words), self.stride, &self.chunks);
        let is_it = |group: u32| are_same(self::words(chunks, stride, group as usize), words);
        match self.table.find_or_add(hash, number(self.len), is_it) {
            Some(group) => group,
            None => {
                self.hashed += 1;
                self.add(words)
            }
        }
    }

    /// Makes a group that wasn't seen before, as the caller knows. Its hash isn't needed until another one is looked for.
    pub fn add_new(&mut self, words: &[u64]) -> u32 {
        self.ascending = self.ascending && (self.len == 0 || self.words(self.len - 1) < words);
        self.add(words)
    }

    /// The group of some words among those of the table.
    fn existing(&self, words: &[u64], hash: u32) -> Option<u32> {
        self.table.find(hash, |group| are_same(self.words(group as usize), words))
    }

    /// The groups of rows among those of the table, or [`NONE`].
    fn existing_of_rows(&self, words: &[u64], hashes: &[u32], groups: &mut Vec<u32>) {
        self.table.first(hashes, groups);
        for ((words, hash), group) in words.chunks_exact(self.stride).zip(hashes).zip(groups) {
            if *group != NONE && !are_same(self.words(*group as usize), words) {
                *group = self.existing(words, *hash).unwrap_or(NONE);
            }
        }
    }

    fn add(&mut self, words: &[u64]) -> u32 {
        if self.len.is_multiple_of(CHUNK_GROUPS) {
            let room = if self.len > 0 { CHUNK_GROUPS * self.stride } else { 0 };
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend_from_slice(words);
        }
        self.nulls |= words[self.stride - 1];
        self.len += 1;
        number(self.len - 1)
    }

    /// Puts the groups into the table that aren't there yet.
    fn fill_table(&mut self) {
        if self.hashed == self.len {
            return;
        }
        self.table.reserve(2 * (self.len - self.hashed));
        for group in self.hashed..self.len {
            self.table.insert(half(hash(self.seed, self.words(group))), number(group));
        }
        self.hashed = self.len;
    }
}

fn words(chunks: &[Vec<u64>], stride: usize, group: usize) -> &[u64] {
    let start = group % CHUNK_GROUPS * stride;
    &chunks[group / CHUNK_GROUPS][start..start + stride]
}

/// Groups, with what tells a row's group.
pub(super) struct GroupIndex<'a> {
    pub groups: &'a mut Groups,
    /// By key; empty for keys that aren't texts.
    pub texts: &'a mut [Texts],
    pub dense: &'a mut DenseGroups,
    /// By key.
    pub words: &'a [TextWords],
}

/// Takes in the groups that others found: for each of theirs, in order, which of ours it is. Where all groups of both have places, theirs are looked up
/// by place, otherwise by hash. Theirs differ from each other, so that so many threads look up their hashes, and those that aren't there are new.
pub(super) fn merged(ours: GroupIndex<'_>, other: GroupIndex<'_>, threads: usize) -> Result<Vec<u32>> {
    let GroupIndex { groups, texts, dense, words } = ours;
    let (keys, stride) = (texts.len(), groups.stride);
    let numbers: Vec<Vec<u32>> =
        texts.iter_mut().zip(&*other.texts).map(|(texts, others)| texts.numbers_of(others)).collect();
    let translate = |chunk: &mut [u64]| {
        for words in chunk.chunks_exact_mut(stride) {
            for (key, numbers) in numbers.iter().enumerate() {
                if !numbers.is_empty() && words[keys] & (1 << key) == 0 {
                    words[key] = u64::from(numbers[usize::try_from(words[key]).unwrap_or(0)]);
                }
            }
        }
    };
    let (len, mut chunks) = (other.groups.len, std::mem::take(&mut other.groups.chunks));
    let have_places = groups.len == dense.len() && len == other.dense.len();
    let have_same_unit = words.iter().zip(other.words).all(|(ours, theirs)| ours.digits() == theirs.digits());
    if have_places
        && have_same_unit
        && !(groups.ascending && other.groups.ascending)
        && let Some(mapping) = dense.merge(other.dense, &numbers)
    {
        chunks.iter_mut().for_each(|chunk| translate(chunk));
        for (words, group) in chunks.iter().flat_map(|chunk| chunk.chunks_exact(stride)).zip(&mapping) {
            if *group as usize == groups.len {
                groups.add_new(words);
            }
        }
        return Ok(mapping);
    }
    if groups.ascending {
        let goes_on = chunks.first_mut().is_none_or(|chunk| {
            let mut first = chunk[..stride].to_vec();
            translate(&mut first);
            groups.len == 0 || groups.words(groups.len - 1) <= first.as_slice()
        });
        if goes_on {
            chunks.iter_mut().for_each(|chunk| translate(chunk));
            return Ok(chunks
                .iter()
                .flat_map(|chunk| chunk.chunks_exact(stride))
                .map(|words| groups.find(words))
                .collect());
        }
        groups.ascending = false;
    }
    groups.fill_table();
    let ours = &*groups;
    let look_up = |mut chunk: Vec<u64>| {
        translate(&mut chunk);
        let hashes: Vec<u32> = chunk.chunks_exact(stride).map(|words| half(hash(ours.seed, words))).collect();
        let mut existing = Vec::with_capacity(hashes.len());
        ours.existing_of_rows(&chunk, &hashes, &mut existing);
        Ok((chunk, hashes, existing))
    };
    let threads = parallel::threads_for(len, 0, threads);
    let looked_up: Vec<(Vec<u64>, Vec<u32>, Vec<u32>)> = parallel::each_of(chunks.into_iter(), threads, look_up)?;
    let mut mapping = Vec::with_capacity(len);
    for (chunk, hashes, existing) in looked_up {
        for ((words, hash), existing) in chunk.chunks_exact(stride).zip(hashes).zip(existing) {
            mapping.push(match existing {
                NONE => {
                    groups.table.insert(hash, number(groups.len));
                    groups.hashed += 1;
                    groups.add(words)
                }
                existing => existing,
            });
        }
    }
    Ok(mapping)
}

/// Whether words are equal; of the few that a group has, without a call.
fn are_same(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// A column of keys from the words of the groups.
pub(crate) fn key_column(groups: &Groups, key: usize, texts: &Texts, data_type: &DataType) -> Result<ArrayRef> {
    let keys = groups.stride - 1;
    let is_valid = |group: usize| groups.words(group)[keys] & (1 << key) == 0;
    let nulls =
        (groups.nulls & (1 << key) != 0).then(|| NullBuffer::new(BooleanBuffer::collect_bool(groups.len(), is_valid)));
    column_of(&groups.words_of(key), nulls, texts, data_type)
}

/// A column of values from their words.
#[expect(clippy::cast_possible_truncation, reason = "a word holds a value of the type that it becomes again")]
pub(super) fn column_of(
    of_groups: &[u64],
    nulls: Option<NullBuffer>,
    texts: &Texts,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let words = || of_groups.iter().copied();
    let is_null = |group: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(group));
    Ok(match data_type {
        DataType::Null => new_null_array(data_type, of_groups.len()),
        DataType::Boolean => {
            let values = BooleanBuffer::collect_bool(of_groups.len(), |group| of_groups[group] != 0);
            Arc::new(arrow::array::BooleanArray::new(values, nulls))
        }
        DataType::Utf8 => {
            let text =
                |(group, word): (usize, &u64)| (!is_null(group)).then(|| texts.text(u32::try_from(*word).unwrap_or(0)));
            let texts = of_groups.iter().enumerate().map(text);
            Arc::new(texts.collect::<StringArray>())
        }
        DataType::Dictionary(_, of) if **of != DataType::Utf8 => {
            cast(&column_of(of_groups, nulls, texts, of)?, data_type)?
        }
        DataType::Dictionary(_, _) => {
            // Numbers of the texts that occur, in the order of first occurrence.
            let mut local: Vec<i32> = vec![-1; texts.len()];
            let mut values: Vec<&str> = Vec::new();
            let codes: Vec<i32> = (0..of_groups.len())
                .map(|group| {
                    if is_null(group) {
                        return 0;
                    }
                    let text = usize::try_from(of_groups[group]).unwrap_or(0);
                    if local[text] < 0 {
                        local[text] = i32::try_from(values.len()).unwrap_or(i32::MAX);
                        values.push(texts.text(number(text)));
                    }
                    local[text]
                })
                .collect();
            let codes = Int32Array::new(codes.into(), nulls);
            let dictionary = DictionaryArray::try_new(codes, Arc::new(StringArray::from(values)))?;
            cast(&dictionary, data_type)?
        }
        DataType::Int8 => primitive::<Int8Type>(words(), nulls, data_type, |word| word as i8),
        DataType::Int16 => primitive::<Int16Type>(words(), nulls, data_type, |word| word as i16),
        DataType::Int32 => primitive::<Int32Type>(words(), nulls, data_type, |word| word as i32),
        DataType::Date32 => primitive::<Date32Type>(words(), nulls, data_type, |word| word as i32),
        DataType::Int64 => primitive::<Int64Type>(words(), nulls, data_type, u64::cast_signed),
        DataType::Time64(_) => primitive::<Time64NanosecondType>(words(), nulls, data_type, u64::cast_signed),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => primitive::<TimestampSecondType>(words(), nulls, data_type, u64::cast_signed),
            TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(words(), nulls, data_type, u64::cast_signed),
            TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(words(), nulls, data_type, u64::cast_signed),
            TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(words(), nulls, data_type, u64::cast_signed),
        },
        DataType::UInt8 => primitive::<UInt8Type>(words(), nulls, data_type, |word| word as u8),
        DataType::UInt16 => primitive::<UInt16Type>(words(), nulls, data_type, |word| word as u16),
        DataType::UInt32 => primitive::<UInt32Type>(words(), nulls, data_type, |word| word as u32),
        DataType::UInt64 => primitive::<UInt64Type>(words(), nulls, data_type, |word| word),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let interval = |word: u64| IntervalMonthDayNano { months: 0, days: 0, nanoseconds: word.cast_signed() };
            primitive::<IntervalMonthDayNanoType>(words(), nulls, data_type, interval)
        }
        DataType::Decimal128(_, _) => {
            primitive::<Decimal128Type>(words(), nulls, data_type, |word| i128::from(word.cast_signed()))
        }
        DataType::Float32 => primitive::<Float32Type>(words(), nulls, data_type, |word| f32::from_bits(word as u32)),
        DataType::Float64 => primitive::<Float64Type>(words(), nulls, data_type, f64::from_bits),
        other => return Err(Error::Unsupported(format!("groups by a {other}"))),
    })
}

fn primitive<T: ArrowPrimitiveType>(
    words: impl Iterator<Item = u64>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    value: impl Fn(u64) -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = words.map(value).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_again_whatever_their_order() {
        let mut groups = Groups::new(2);
        let words = |number: u64| [number % 7, (number * 31 % 1000) << 32, u64::from(number % 13 == 0)];
        let mut existing: Vec<[u64; 3]> = Vec::new();
        for number in 0..3000 {
            let words = words(number * 17 % 3000);
            let expected = existing.iter().position(|one| *one == words).unwrap_or_else(|| {
                existing.push(words);
                existing.len() - 1
            });
            assert_eq!(groups.find(&words) as usize, expected);
        }
        assert_eq!(groups.len(), existing.len());
    }

    /// Groups of others, some of which are known and whose texts have other numbers, get the numbers that they would get one by one.
    #[test]
    fn groups_of_others_are_found_or_new() {
        const COUNT: u64 = 110_000;
        let found = |from: u64, is_ascending: bool| {
            let (mut groups, mut texts) = (Groups::new(2), vec![Texts::default(), Texts::default()]);
            for number in from..from + COUNT {
                let number = if is_ascending { number } else { number * 7_919 % 250_000 };
                let text = u64::from(texts[1].number(&(number % 4_001).to_string()));
                groups.find(&[number, if number % 5 == 0 { 0 } else { text }, u64::from(number % 5 == 0) << 1]);
            }
            (groups, texts)
        };
        for (first, second) in [
            ((0, false), (60_000, false)),
            ((0, true), (60_000, true)),
            ((0, true), (COUNT, true)),
            ((9, true), (9, false)),
        ] {
            let (mut expected, mut expected_texts) = found(first.0, first.1);
            let (mut other, mut other_texts) = found(second.0, second.1);
            let one_by_one: Vec<u32> = (0..other.len())
                .map(|group| {
                    let mut words = other.words(group).to_vec();
                    if words[2] == 0 {
                        let text = other_texts[1].text(u32::try_from(words[1]).unwrap());
                        words[1] = u64::from(expected_texts[1].number(text));
                    }
                    expected.find(&words)
                })
                .collect();
            let (mut groups, mut texts) = found(first.0, first.1);
            // The order in which texts of new groups are numbered doesn't matter to groups.
            let (mut dense, mut other_dense) = (DenseGroups::default(), DenseGroups::default());
            let ours = GroupIndex { groups: &mut groups, texts: &mut texts, dense: &mut dense, words: &[] };
            let theirs =
                GroupIndex { groups: &mut other, texts: &mut other_texts, dense: &mut other_dense, words: &[] };
            let mapping = merged(ours, theirs, 2).unwrap();
            assert_eq!(mapping, one_by_one);
            assert_eq!(groups.len(), expected.len());
            let again: Vec<u32> = (0..groups.len())
                .map(|group| groups.words(group).to_vec())
                .collect::<Vec<_>>()
                .iter()
                .map(|words| groups.find(words))
                .collect();
            assert!(again.iter().zip(0..).all(|(found, group)| *found == group), "groups are found again");
        }
    }

    /// The table looks at the upper bits and the lower ones: neither may repeat for words that are alike.
    #[test]
    fn hashes_of_words_that_are_alike_are_not() {
        for shift in [0, 20, 40, 60] {
            let hashes = || (0..4096u64).map(move |number| hash(7, &[number << shift, 3, 0]));
            let distinct = |part: &dyn Fn(u64) -> u64, rows: u64| {
                let mut parts: Vec<u64> = hashes().take(usize::try_from(rows).unwrap()).map(part).collect();
                parts.sort_unstable();
                parts.dedup();
                parts.len()
            };
            let rows = if shift == 60 { 16 } else { 4096 };
            assert_eq!(distinct(&|hash| hash, rows), usize::try_from(rows).unwrap());
            if shift < 60 {
                assert!(distinct(&|hash| hash % 4096, rows) > 2300, "lower bits, by {shift}");
                assert!(distinct(&|hash| hash >> 57, rows) == 128, "upper bits, by {shift}");
            }
        }
    }
}
