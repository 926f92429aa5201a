//! Counts of distinct values per group.
//!
//! Values are 64-bit words; texts and types without a word are numbered in the order of their first occurrence.
//!
//! - The first groups have a hash table each, which stays in cache while rows of that group come. As long as a
//!   group's values ascend, as times do, they are only appended to a list.
//! - The values of all further groups are entries of one shared table.
//! - Adjacent equal values are looked up once.
//! - Numbers of texts, and in the first groups whole numbers from some way before the first value on, have a bit per group instead of an
//!   entry, as far as bits take less memory than entries: the first thousands always, and all up to the greatest once a group has many of them.
//!
//! The threads' counts are merged at the end. A group that only one thread has seen keeps its count; its values
//! aren't read again.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use hashbrown::{DefaultHashBuilder, HashTable};

use super::accumulate::{Accumulator, RowGroups, same};
use super::groups::words_of;
use super::keys::TextWords;
use super::row_numbers::RowNumbers;
use super::texts::Texts;
use crate::error::Result;
use crate::hashed::hash;

/// Numbers that have a bit in each group.
const BITS_MIN: u64 = 4096;

/// Entries of a group from which on further bits may take their place, and numbers up to the greatest for each of them: a table has this many bits
/// an entry.
const ENTRIES_MIN: usize = 1024;
const NUMBERS_OF_ENTRY_MAX: u64 = 128;

/// Groups whose whole numbers have bits, and which have tables of their own: of more groups these would take more than one table.
const OWN_GROUPS_MAX: usize = 1024;

/// The different values of one group.
#[derive(Debug, Default)]
struct Values {
    /// As long as each is greater than the one before.
    ascending: Vec<u64>,
    /// All, once one wasn't.
    table: HashTable<u64>,
}

/// The numbers of one group below a limit.
#[derive(Debug, Clone)]
struct Bits {
    words: Vec<u64>,
    limit: u64,
}

impl Default for Bits {
    fn default() -> Bits {
        Bits { words: Vec::new(), limit: BITS_MIN }
    }
}

impl Values {
    /// Takes in a value; whether it is new.
    #[inline]
    fn take(&mut self, word: u64, seed: u64) -> bool {
        if self.table.is_empty() {
            match self.ascending.last() {
                Some(last) if *last == word => return false,
                Some(last) if *last > word => self.fill_table(seed),
                _ => {
                    self.ascending.push(word);
                    return true;
                }
            }
        }
        let entry = self.table.entry(hash(seed, &[word]), |member| *member == word, |member| hash(seed, &[*member]));
        match entry {
            hashbrown::hash_table::Entry::Occupied(_) => false,
            hashbrown::hash_table::Entry::Vacant(place) => {
                place.insert(word);
                true
            }
        }
    }

    #[cold]
    fn fill_table(&mut self, seed: u64) {
        let hash_of = |member: &u64| hash(seed, &[*member]);
        self.table.reserve(2 * self.ascending.len(), hash_of);
        for word in std::mem::take(&mut self.ascending) {
            self.table.insert_unique(hash_of(&word), word, hash_of);
        }
    }

    fn len(&self) -> usize {
        self.ascending.len() + self.table.len()
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        self.ascending.iter().chain(&self.table).copied()
    }
}

/// Counts of different values.
#[derive(Debug)]
pub(super) struct DistinctCount {
    counts: Vec<u64>,
    /// The distinct values of the first groups.
    own: Vec<Values>,
    own_values: usize,
    /// The distinct values of all further groups.
    seen: HashTable<(u64, u32)>,
    /// By group: of all groups of texts, of the first ones of whole numbers.
    bits: Vec<Bits>,
    bits_bytes: usize,
    /// The greatest number that had no bit.
    greatest: u64,
    seed: u64,
    texts: Texts,
    of_dictionary: TextWords,
    /// Row numbers of values that are neither words nor texts.
    rows: Option<RowNumbers>,
    /// Whether words are numbers in the order of first sight, as those of texts.
    is_numbered: bool,
    /// Whether whole numbers may have bits, and the one whose bit is the first, once one was seen.
    has_numbers: bool,
    base: Option<u64>,
    last: Option<(u64, u32)>,
    /// What others have counted, and which group of ours each of theirs is.
    others: Vec<(DistinctCount, Vec<u32>)>,
}

impl DistinctCount {
    /// `None` for types whose values are neither words nor have Arrow's row format.
    pub fn of(data_type: &DataType) -> Option<DistinctCount> {
        let has_texts = match data_type {
            DataType::Utf8 => true,
            DataType::Dictionary(codes, values) => **codes == DataType::Int32 && **values == DataType::Utf8,
            _ => false,
        };
        let is_word = matches!(data_type, DataType::Boolean | DataType::Date32 | DataType::Float32 | DataType::Float64)
            || matches!(data_type, DataType::Decimal128(_, _))
            || matches!(data_type, DataType::Timestamp(unit, _) | DataType::Time64(unit) if *unit == TimeUnit::Nanosecond)
            || data_type.is_integer();
        let seed = std::hash::BuildHasher::hash_one(&DefaultHashBuilder::default(), 0);
        let rows = if has_texts || is_word { None } else { Some(RowNumbers::of(data_type)?) };
        Some(DistinctCount {
            counts: Vec::new(),
            own: Vec::new(),
            own_values: 0,
            seen: HashTable::new(),
            bits: Vec::new(),
            bits_bytes: 0,
            greatest: 0,
            seed,
            texts: Texts::default(),
            of_dictionary: TextWords::default(),
            is_numbered: has_texts || rows.is_some(),
            rows,
            has_numbers: data_type.is_integer() || *data_type == DataType::Date32 || *data_type == DataType::Boolean,
            base: None,
            last: None,
            others: Vec::new(),
        })
    }

    /// Takes in the text or value with a number.
    #[inline]
    fn take_number(&mut self, group: usize, number: u64) {
        if !self.take_bit(group, number) {
            self.take_far(group, number, number);
        }
    }

    /// Takes in a word that isn't the number of a text.
    #[inline]
    fn take_word(&mut self, group: usize, word: u64) {
        if self.has_numbers && group < OWN_GROUPS_MAX {
            let base = *self.base.get_or_insert(word.wrapping_sub(BITS_MIN / 2));
            let number = word.wrapping_sub(base);
            if !self.take_bit(group, number) {
                self.take_far(group, word, number);
            }
        } else {
            self.take(group, word);
        }
    }

    /// Takes in a number that has a bit; false for another.
    #[inline]
    fn take_bit(&mut self, group: usize, number: u64) -> bool {
        let bits = &mut self.bits[group];
        if number >= bits.limit {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are bits up to the limit")]
        let (place, bit) = ((number / 64) as usize, 1 << (number % 64));
        if bits.words.len() <= place {
            self.bits_bytes += 8 * (place + 1 - bits.words.len());
            bits.words.resize(place + 1, 0);
        }
        if bits.words[place] & bit == 0 {
            bits.words[place] |= bit;
            self.counts[group] += 1;
        }
        true
    }

    /// Takes in a word whose number has no bit. Whenever a group's entries have doubled, it is seen whether bits would take less.
    fn take_far(&mut self, group: usize, word: u64, number: u64) {
        if !self.take(group, word) {
            return;
        }
        self.greatest = self.greatest.max(number);
        let entries = self.own[group].len();
        if entries >= ENTRIES_MIN && entries.is_power_of_two() {
            // Of texts each that was numbered may come again.
            let numbers = self.greatest.max(self.texts.len() as u64);
            if numbers <= NUMBERS_OF_ENTRY_MAX * entries as u64 {
                self.widen(group, (numbers + 1).next_power_of_two());
            }
        }
    }

    /// Gives a group bits up to a limit, in the place of the entries below it.
    #[cold]
    fn widen(&mut self, group: usize, limit: u64) {
        let values = std::mem::take(&mut self.own[group]);
        self.own_values -= values.len();
        self.counts[group] -= values.len() as u64;
        self.bits[group].limit = limit;
        self.last = None;
        let base = self.base_of_bits();
        for word in values.iter() {
            if !self.take_bit(group, word.wrapping_sub(base)) {
                self.take(group, word);
            }
        }
    }

    /// The word whose number is zero.
    fn base_of_bits(&self) -> u64 {
        if self.is_numbered { 0 } else { self.base.unwrap_or(0) }
    }

    /// Takes in a word as an entry; whether the group has a table of its own and the word is new there.
    #[inline]
    fn take(&mut self, group: usize, word: u64) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "groups are numbered in 32 bits")]
        let value = (word, group as u32);
        if self.last == Some(value) {
            return false;
        }
        self.last = Some(value);
        let seed = self.seed;
        if let Some(own) = self.own.get_mut(group) {
            let is_new = own.take(word, seed);
            self.own_values += usize::from(is_new);
            self.counts[group] += u64::from(is_new);
            return is_new;
        }
        let hash_of = |(word, group): &(u64, u32)| hash(seed, &[*word, u64::from(*group)]);
        let entry = self.seen.entry(hash_of(&value), |member| *member == value, hash_of);
        if let hashbrown::hash_table::Entry::Vacant(place) = entry {
            place.insert(value);
            self.counts[group] += 1;
        }
        false
    }
}

impl DistinctCount {
    /// Puts together what others have counted: counts of groups that one alone has seen, and values of all else.
    fn settle(&mut self) {
        let others = std::mem::take(&mut self.others);
        let mut counted: Vec<u8> = self.counts.iter().map(|count| u8::from(*count > 0)).collect();
        for (other, groups) in &others {
            let of_them = other.counts.iter().zip(groups).filter(|(count, _)| **count > 0);
            of_them.for_each(|(_, group)| counted[*group as usize] = counted[*group as usize].saturating_add(1));
        }
        for (other, groups) in &others {
            let is_shared = |group: usize| counted[groups[group] as usize] > 1;
            let alone = (0..other.counts.len()).filter(|group| other.counts[*group] > 0 && !is_shared(*group));
            alone.for_each(|group| self.counts[groups[group] as usize] = other.counts[group]);
            self.take_values(other, groups, is_shared);
        }
    }

    /// Adds the values of another accumulator's groups, of those alone that `is_asked` selects.
    fn take_values(&mut self, other: &DistinctCount, groups: &[u32], is_asked: impl Fn(usize) -> bool) {
        let numbers: Vec<u64> = match (&mut self.rows, &other.rows) {
            (Some(ours), Some(theirs)) => theirs.iter().map(|value| ours.number(value)).collect(),
            _ => self.texts.numbers_of(&other.texts).into_iter().map(u64::from).collect(),
        };
        let mut take = |group: usize, word: u64| {
            let group = groups[group] as usize;
            match self.is_numbered {
                true => self.take_number(group, numbers[usize::try_from(word).unwrap_or(0)]),
                false => self.take_word(group, word),
            }
        };
        for (group, values) in other.own.iter().enumerate().filter(|(group, _)| is_asked(*group)) {
            values.iter().for_each(|word| take(group, word));
        }
        let seen = other.seen.iter().filter(|(_, group)| is_asked(*group as usize));
        seen.for_each(|(word, group)| take(*group as usize, *word));
        // What has bits is the number of a text, or how far from the base a number is.
        let base = other.base_of_bits();
        for (group, bits) in other.bits.iter().enumerate().filter(|(group, _)| is_asked(*group)) {
            for (place, word) in bits.words.iter().enumerate().filter(|(_, word)| **word > 0) {
                let set = (0..64).filter(|bit| word >> bit & 1 == 1);
                set.for_each(|bit| take(group, base.wrapping_add((place * 64 + bit) as u64)));
            }
        }
    }
}

impl Accumulator for DistinctCount {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.own.resize_with(groups.min(OWN_GROUPS_MAX), Values::default);
        if self.is_numbered {
            self.bits.resize(groups, Bits::default());
        } else if self.has_numbers {
            self.bits.resize(groups.min(OWN_GROUPS_MAX), Bits::default());
        }
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let array = &arguments[0];
        if let Some(coded) = array.as_dictionary_opt::<Int32Type>() {
            let words = self.of_dictionary.of_texts(coded.values(), &mut self.texts)?;
            let codes = coded.keys();
            assigned.each(codes.nulls(), |group, row| {
                let code = usize::try_from(codes.values()[row]).unwrap_or(usize::MAX);
                if let Some(Some(number)) = words.get(code) {
                    self.take_number(group, *number);
                }
            });
            return Ok(());
        }
        if let Some(texts) = array.as_string_opt::<i32>() {
            let numbers: Vec<u64> = self.texts.numbers(texts, 0);
            assigned.each(array.nulls(), |group, row| self.take_number(group, numbers[row]));
            return Ok(());
        }
        if let Some(mut numbers) = self.rows.take() {
            let rows = numbers.rows(array)?;
            assigned.each(array.logical_nulls().as_ref(), |group, row| {
                let number = numbers.number(rows.row(row).data());
                self.take_number(group, number);
            });
            self.rows = Some(numbers);
            return Ok(());
        }
        let words = words_of(array)?;
        assigned.each(array.nulls(), |group, row| self.take_word(group, words[row]));
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        // A table is filled to between seven sixteenths and seven eighths.
        let own = self.own_values * 2 * (size_of::<u64>() + 1) + self.own.len() * size_of::<Values>();
        let others = self.others.iter().map(|(other, groups)| other.held_bytes() + groups.len() * size_of::<u32>());
        let rows = self.rows.as_ref().map_or(0, RowNumbers::bytes);
        let seen = self.seen.capacity() * (size_of::<(u64, u32)>() + 1);
        own + seen + self.texts.bytes() + rows + self.bits_bytes + others.sum::<usize>()
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let mut other = same::<DistinctCount>(other)?;
        other.settle();
        self.others.push((*other, groups.to_vec()));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        self.settle();
        Ok(Arc::new(Int64Array::from_iter_values(self.counts.into_iter().map(u64::cast_signed))))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Float64Array, StringArray};

    use super::*;

    fn counts(accumulator: DistinctCount) -> Vec<i64> {
        Box::new(accumulator).finish().unwrap().as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
    }

    fn filled(array: &ArrayRef, groups: &[u32]) -> DistinctCount {
        let mut accumulator = DistinctCount::of(array.data_type()).unwrap();
        accumulator.grow(3);
        accumulator.update(&[Arc::clone(array)], RowGroups::Rows(groups)).unwrap();
        accumulator
    }

    #[test]
    fn nulls_do_not_count_and_zeros_are_one() {
        let values = [Some(0.0), Some(-0.0), None, Some(1.0), Some(f64::NAN), Some(f64::NAN), Some(1.0)];
        let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        assert_eq!(counts(filled(&values, &[0, 0, 0, 0, 0, 0, 1])), [3, 1, 0]);
    }

    #[test]
    fn numbers_near_each_other_and_far_from_each_other_are_counted_once() {
        let numbers = |from: i64, step: i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..6_000).map(|place| from + place * step)))
        };
        // Groups of which the first have bits, and the last has none.
        let groups: Vec<u32> = (0..6_000).map(|row| row % 3 * 600).collect();
        let filled = |array: ArrayRef| {
            let mut accumulator = DistinctCount::of(array.data_type()).unwrap();
            accumulator.grow(1_201);
            accumulator.update(&[Arc::clone(&array)], RowGroups::Rows(&groups)).unwrap();
            accumulator.update(&[array], RowGroups::Rows(&groups)).unwrap();
            accumulator
        };
        let mut all = filled(numbers(-3_000, 1));
        // The last group becomes the first and the other way round: all of its values but these are new.
        let mapping: Vec<u32> = (0..1_201).rev().collect();
        all.merge(Box::new(filled(numbers(0, 1))), &mapping).unwrap();
        let found = counts(all);
        // Each group has every third number: of -3000 to 2999 one, of 0 to 5999 another, which share those of 0 to 2999 if both have the same rest.
        let rests =
            |from: i64, group: i64| (0..6_000).filter(move |place| place % 3 == group).map(move |place| from + place);
        for group in 0..3 {
            let both: std::collections::BTreeSet<i64> = rests(-3_000, group).chain(rests(0, 2 - group)).collect();
            assert_eq!(found[usize::try_from(group).unwrap() * 600], i64::try_from(both.len()).unwrap());
        }
    }

    #[test]
    fn values_of_several_threads_are_counted_once() {
        const GROUPS: u32 = 1_400;
        let part = |from: i64, step: i64, groups: u32| {
            let numbers: ArrayRef =
                Arc::new(Int64Array::from_iter_values((0..20_000).map(|place| (from + place * step) << 14)));
            let of_rows: Vec<u32> = (0..20_000).map(|row| row % groups).collect();
            let mut accumulator = DistinctCount::of(&DataType::Int64).unwrap();
            accumulator.grow(GROUPS as usize);
            accumulator.update(&[numbers], RowGroups::Rows(&of_rows)).unwrap();
            (accumulator, of_rows)
        };
        // Ascending, descending, and of groups that the others don't have or that have another number.
        let parts = [(0, 1, 7), (19_000, 1, 7), (30_000, -1, GROUPS), (5, 3, 1), (-7, 2, 900)];
        let mapping = |number: u32| -> Vec<u32> { (0..GROUPS).map(|group| (group + number * 350) % GROUPS).collect() };
        let mut expected = vec![std::collections::BTreeSet::new(); GROUPS as usize];
        let mut all: Option<DistinctCount> = None;
        for (number, (from, step, groups)) in (0..).zip(parts) {
            let (found, of_rows) = part(from, step, groups);
            let mapping = mapping(number);
            for (place, group) in (0..).zip(of_rows) {
                expected[mapping[group as usize] as usize].insert(from + place * step);
            }
            match &mut all {
                None => all = Some(found),
                Some(all) => all.merge(Box::new(found), &mapping).unwrap(),
            }
        }
        let expected: Vec<i64> = expected.iter().map(|values| i64::try_from(values.len()).unwrap()).collect();
        assert_eq!(counts(all.unwrap()), expected);
    }

    #[test]
    fn texts_of_several_dictionaries_are_told_apart_by_what_they_are() {
        let texts = |texts: &[&str]| -> Vec<ArrayRef> {
            let coded = texts.iter().copied().collect::<DictionaryArray<Int32Type>>();
            vec![Arc::new(coded), Arc::new(StringArray::from(texts.to_vec()))]
        };
        for (one, other) in texts(&["a", "b", "a"]).into_iter().zip(texts(&["b", "c", "d"])) {
            let mut all = filled(&one, &[0, 0, 1]);
            // Numbers are given anew, and the first of them have bits.
            let more = filled(&other, &[0, 0, 1]);
            all.merge(Box::new(more), &[0, 2, 1]).unwrap();
            assert_eq!(counts(all), [3, 1, 1]);
        }
    }

    #[test]
    fn texts_may_be_more_than_have_bits() {
        let texts = |from: usize| -> ArrayRef {
            Arc::new((from..from + 6_000).map(|number| Some(number.to_string())).collect::<StringArray>())
        };
        let mut all = filled(&texts(0), &[1; 6_000]);
        all.merge(Box::new(filled(&texts(3_000), &[0; 6_000])), &[1, 0, 2]).unwrap();
        assert_eq!(counts(all), [0, 9_000, 0]);
    }
}
