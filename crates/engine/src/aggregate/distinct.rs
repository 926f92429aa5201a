//! Counts of distinct values per group.
//!
//! Values are 64-bit words; texts and types without a word are numbered in the order of their first occurrence.
//!
//! - Each of the first groups has a set of its own ([`DistinctValues`]).
//! - The values of all further groups are entries of one shared table. The values of many rows are looked up together,
//!   so that the waits for memory overlap.
//! - Adjacent equal values are looked up once.
//! - Small numbers are bits instead of entries, where bits take less memory. This applies to the numbers of texts, and
//!   in the first groups to whole numbers, counted from a little before the first value. Bits cover the first few
//!   thousand numbers from the start, and all numbers up to the greatest once a group has many entries.
//!
//! The threads' counts are merged at the end. A group that only one thread has seen keeps its count; its values aren't
//! read again.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use hashbrown::DefaultHashBuilder;

use super::accumulate::{Accumulator, RowGroups, same};
use super::distinct_values::DistinctValues;
use super::keys::TextWords;
use super::row_numbers::ValueNumbers;
use crate::error::Result;
use crate::hashed::{ValueSet, hash};
use crate::key_words::words_of;
use crate::texts::Texts;

/// Range of numbers for which every group has bits, however few of them occur.
const BITS_MIN: u64 = 4096;
const BITS_HALF: u64 = BITS_MIN / 2;

/// From this number of entries on a group may replace them by more bits, if it then has at most
/// [`NUMBERS_OF_ENTRY_MAX`] bits per entry: an entry of the table takes that many bits.
const ENTRIES_MIN: usize = 1024;
const NUMBERS_OF_ENTRY_MAX: u64 = 128;

/// Groups with bits and tables of their own. For more groups, these would take more memory than one shared table.
const OWN_GROUPS_MAX: usize = 1024;

/// Values that are looked up together: the memory of all their slots is requested before the first is compared.
const PENDING_MAX: usize = 256;

/// Rows of a run from which on its values have a table of their own while the run is read.
const RUN_ROWS_MIN: usize = 64;

/// Rows of a run for each whole number between its least and its greatest from which on bits are cheaper than a table.
const NUMBERS_OF_ROW_MAX: u64 = 16;

/// A value of a group.
type GroupValue = (u64, u32);

/// What is in no group: the mark of a free place.
const NO_VALUE: GroupValue = (0, u32::MAX);

/// The numbers of one group below a limit.
#[derive(Debug, Clone)]
struct GroupBits {
    words: Vec<u64>,
    limit: u64,
}

impl Default for GroupBits {
    fn default() -> GroupBits {
        GroupBits { words: Vec::new(), limit: BITS_MIN }
    }
}

/// The whole number whose bit is the first one, by the number that came first: small ones, as sizes and counters are, may be followed by any from
/// zero on, others by those from some way before them on.
fn base_of(word: u64) -> u64 {
    const SMALL_MAX: u64 = 1 << 20;
    match word {
        BITS_HALF..SMALL_MAX => 0,
        _ => word.wrapping_sub(BITS_HALF),
    }
}

/// Whether whole numbers are so near each other that their bits are fewer than the bytes of a table.
fn are_near(words: &[u64]) -> bool {
    let (least, greatest) = words
        .iter()
        .map(|word| word.cast_signed())
        .fold((i64::MAX, i64::MIN), |(least, greatest), word| (least.min(word), greatest.max(word)));
    greatest.abs_diff(least) < (words.len() as u64).saturating_mul(NUMBERS_OF_ROW_MAX).max(BITS_MIN)
}

fn hash_of_value(seed: u64, (word, group): GroupValue) -> u64 {
    hash(seed, &[word, u64::from(group)])
}

/// Counts of different values.
#[derive(Debug)]
pub(super) struct DistinctCount {
    /// Values of each group that have bits or are in `seen`.
    counts: Vec<u64>,
    /// The other values of the first groups.
    own: Vec<DistinctValues>,
    /// The distinct values of all further groups.
    seen: ValueSet<GroupValue>,
    /// Values of these that haven't been looked up yet.
    pending: Vec<GroupValue>,
    /// Scratch: the values of a run, or of a part.
    scratch: ValueSet<u64>,
    /// By group: of all groups of texts, of the first ones of whole numbers.
    bits: Vec<GroupBits>,
    bits_bytes: usize,
    /// The greatest number that had no bit.
    greatest: u64,
    seed: u64,
    texts: Texts,
    of_dictionary: TextWords,
    /// Row numbers of values that are neither words nor texts.
    rows: Option<ValueNumbers>,
    /// Whether words are numbers in the order of first sight, as those of texts.
    is_numbered: bool,
    /// Whether whole numbers may have bits, and the one whose bit is the first, once one was seen.
    has_numbers: bool,
    base: Option<u64>,
    last: Option<GroupValue>,
    /// What others have counted, and which group of ours each of theirs is.
    others: Vec<(DistinctCount, Vec<u32>)>,
    threads: usize,
}

impl DistinctCount {
    /// `None` for types whose values are neither words nor have Arrow's row format.
    pub fn of(data_type: &DataType, threads: usize) -> Option<DistinctCount> {
        let has_texts = match data_type {
            DataType::Utf8 => true,
            DataType::Dictionary(codes, values) => **codes == DataType::Int32 && **values == DataType::Utf8,
            _ => false,
        };
        let is_word = matches!(data_type, DataType::Boolean | DataType::Date32 | DataType::Float32 | DataType::Float64)
            || matches!(data_type, DataType::Decimal128(_, _))
            || matches!(data_type, DataType::Timestamp(_, _) | DataType::Time64(TimeUnit::Nanosecond))
            || data_type.is_integer();
        let seed = std::hash::BuildHasher::hash_one(&DefaultHashBuilder::default(), 0);
        let rows = if has_texts || is_word { None } else { Some(ValueNumbers::of(data_type)?) };
        Some(DistinctCount {
            counts: Vec::new(),
            own: Vec::new(),
            seen: ValueSet::new(NO_VALUE),
            pending: Vec::new(),
            scratch: ValueSet::new(0),
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
            threads,
        })
    }

    /// Takes in the text or value with a number.
    #[inline]
    fn take_number(&mut self, group: usize, number: u64) {
        if !self.take_bit(group, number) {
            self.take_entry(group, number);
        }
    }

    /// Takes in a word that isn't the number of a text.
    #[inline]
    fn take_word(&mut self, group: usize, word: u64) {
        if self.has_numbers && group < OWN_GROUPS_MAX {
            let base = *self.base.get_or_insert_with(|| base_of(word));
            if self.take_bit(group, word.wrapping_sub(base)) {
                return;
            }
        }
        self.take_entry(group, word);
    }

    /// Takes in the words of a run of rows.
    fn take_run(&mut self, group: usize, words: &[u64]) {
        let is_first = self.own.get(group).is_some_and(|own| own.len() == 0) && self.counts[group] == 0;
        if !is_first || words.len() < RUN_ROWS_MIN || self.has_numbers && are_near(words) {
            return words.iter().for_each(|word| self.take_word(group, *word));
        }
        if let Some(bits) = self.bits.get_mut(group) {
            // All are entries, however near they are to the base.
            bits.limit = 0;
        }
        self.own[group] = DistinctValues::of_run(words, self.seed, &mut self.scratch);
    }

    /// Takes in a value without a bit.
    #[inline]
    fn take_entry(&mut self, group: usize, word: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "groups are numbered in 32 bits")]
        let value = (word, group as u32);
        if self.last.replace(value) == Some(value) {
            return;
        }
        if let Some(own) = self.own.get_mut(group) {
            let is_stored = own.take(word, self.seed, &mut self.scratch);
            if is_stored && group < self.bits.len() {
                self.count_entries(group, word);
            }
            return;
        }
        self.pending.push(value);
        if self.pending.len() == PENDING_MAX {
            self.look_up();
        }
    }

    /// Looks up the values of further groups.
    fn look_up(&mut self) {
        let hash_of = |value: &GroupValue| hash_of_value(self.seed, *value);
        let mut hashes = [0; PENDING_MAX];
        for (value, hash) in self.pending.iter().zip(&mut hashes) {
            *hash = hash_of(value);
            self.seen.prefetch(*hash);
        }
        for (value, hash) in self.pending.drain(..).zip(hashes) {
            self.counts[value.1 as usize] += u64::from(self.seen.insert(value, hash, hash_of));
        }
    }

    /// Takes in a number that has a bit; false for another.
    #[inline]
    fn take_bit(&mut self, group: usize, number: u64) -> bool {
        let bits = &mut self.bits[group];
        if number >= bits.limit {
            return false;
        }
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

    /// Whenever a group's entries have doubled, it is seen whether bits would take less.
    fn count_entries(&mut self, group: usize, word: u64) {
        self.greatest = self.greatest.max(word.wrapping_sub(self.base_of_bits()));
        let entries = self.own[group].len();
        if entries >= ENTRIES_MIN && entries.is_power_of_two() {
            // Of texts each that was numbered may come again.
            let numbers = self.greatest.max(self.texts.len() as u64);
            if numbers <= NUMBERS_OF_ENTRY_MAX * entries as u64 {
                self.widen(group, (numbers + 1).next_power_of_two());
            }
        }
    }

    /// Gives a group bits for the numbers below a limit, and removes its entries for these numbers.
    #[cold]
    fn widen(&mut self, group: usize, limit: u64) {
        let values = std::mem::take(&mut self.own[group]);
        self.bits[group].limit = limit;
        self.last = None;
        let base = self.base_of_bits();
        for word in values.iter() {
            if !self.take_bit(group, word.wrapping_sub(base)) {
                self.own[group].take(word, self.seed, &mut self.scratch);
            }
        }
    }

    /// The word whose number is zero.
    fn base_of_bits(&self) -> u64 {
        if self.is_numbered { 0 } else { self.base.unwrap_or(0) }
    }
}

impl DistinctCount {
    /// Puts together what others have counted, and counts what is in parts: afterwards each group's count is known.
    fn settle(&mut self) -> Result<()> {
        self.look_up();
        let mut others = std::mem::take(&mut self.others);
        let mut counted: Vec<u8> = (0..self.counts.len()).map(|group| u8::from(self.has(group))).collect();
        for (other, groups) in &mut others {
            other.look_up();
            let of_them = groups.iter().enumerate().filter(|(theirs, _)| other.has(*theirs));
            of_them.for_each(|(_, group)| counted[*group as usize] = counted[*group as usize].saturating_add(1));
        }
        for (other, groups) in &mut others {
            let is_shared = |group: usize| counted[groups[group] as usize] > 1;
            for group in (0..groups.len()).filter(|group| !is_shared(*group)) {
                self.counts[groups[group] as usize] += other.count(group)?;
            }
            self.take_values(other, groups, is_shared);
        }
        self.look_up();
        for group in 0..self.own.len() {
            self.counts[group] = self.count(group)?;
        }
        self.own.clear();
        Ok(())
    }

    /// Whether a group has values.
    fn has(&self, group: usize) -> bool {
        self.counts[group] > 0 || self.own.get(group).is_some_and(|own| own.len() > 0)
    }

    /// How many different values a group has.
    fn count(&mut self, group: usize) -> Result<u64> {
        let own = match self.own.get_mut(group) {
            Some(own) => {
                own.check(self.seed, self.threads)?;
                own.len() as u64
            }
            None => 0,
        };
        Ok(self.counts[group] + own)
    }

    /// Adds the values of another accumulator's groups, of those alone that `is_requested` selects.
    fn take_values(&mut self, other: &DistinctCount, groups: &[u32], is_requested: impl Fn(usize) -> bool) {
        let numbers: Vec<u64> = match (&mut self.rows, &other.rows) {
            (Some(ours), Some(theirs)) => theirs.iter().map(|value| ours.number(value)).collect(),
            _ => self.texts.numbers_of(&other.texts).into_iter().map(u64::from).collect(),
        };
        for (group, values) in other.own.iter().enumerate().filter(|(group, _)| is_requested(*group)) {
            let group = groups[group] as usize;
            let ours = self.own.get_mut(group).filter(|_| !self.is_numbered && !self.has_numbers);
            if !ours.is_some_and(|ours| ours.take_ascending(values)) {
                values.iter().for_each(|word| self.take_of_other(group, word, &numbers));
            }
        }
        let seen = other.seen.iter().filter(|(_, group)| is_requested(*group as usize));
        seen.for_each(|(word, group)| self.take_of_other(groups[group as usize] as usize, word, &numbers));
        // What has bits is the number of a text, or how far from the base a number is.
        let base = other.base_of_bits();
        for (group, bits) in other.bits.iter().enumerate().filter(|(group, _)| is_requested(*group)) {
            let group = groups[group] as usize;
            for (place, word) in bits.words.iter().enumerate().filter(|(_, word)| **word > 0) {
                for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                    self.take_of_other(group, base.wrapping_add((place * 64 + bit) as u64), &numbers);
                }
            }
        }
    }

    /// Takes in a word of another. Those of texts are numbers there, of which `numbers` has ours.
    #[inline]
    fn take_of_other(&mut self, group: usize, word: u64, numbers: &[u64]) {
        match self.is_numbered {
            true => self.take_number(group, numbers[usize::try_from(word).unwrap_or(0)]),
            false => self.take_word(group, word),
        }
    }
}

impl Accumulator for DistinctCount {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.own.resize_with(groups.min(OWN_GROUPS_MAX), DistinctValues::default);
        if self.is_numbered {
            self.bits.resize(groups, GroupBits::default());
        } else if self.has_numbers {
            self.bits.resize(groups.min(OWN_GROUPS_MAX), GroupBits::default());
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
        match assigned {
            RowGroups::Runs(runs) if array.null_count() == 0 => {
                runs.iter().for_each(|run| self.take_run(run.group as usize, &words[run.start..run.end]));
            }
            _ => assigned.each(array.nulls(), |group, row| self.take_word(group, words[row])),
        }
        Ok(())
    }

    fn heap_bytes(&self) -> usize {
        let own: usize = self.own.iter().map(DistinctValues::bytes).sum();
        let others = self.others.iter().map(|(other, groups)| other.heap_bytes() + groups.len() * size_of::<u32>());
        let rows = self.rows.as_ref().map_or(0, ValueNumbers::bytes);
        own + self.seen.bytes() + self.texts.bytes() + rows + self.bits_bytes + others.sum::<usize>()
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let mut other = same::<DistinctCount>(other)?;
        for (third, theirs) in std::mem::take(&mut other.others) {
            self.others.push((third, theirs.into_iter().map(|group| groups[group as usize]).collect()));
        }
        other.look_up();
        self.others.push((*other, groups.to_vec()));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        self.settle()?;
        Ok(Arc::new(Int64Array::from_iter_values(self.counts.into_iter().map(u64::cast_signed))))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Float64Array, StringArray};
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::GroupRun;

    fn counts(accumulator: DistinctCount) -> Vec<i64> {
        Box::new(accumulator).finish().unwrap().as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
    }

    fn filled(array: &ArrayRef, groups: &[u32]) -> DistinctCount {
        let mut accumulator = DistinctCount::of(array.data_type(), 2).unwrap();
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
            let mut accumulator = DistinctCount::of(array.data_type(), 2).unwrap();
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
            let mut accumulator = DistinctCount::of(&DataType::Int64, 2).unwrap();
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

    proptest! {
        /// Rows of three groups come in blocks, as runs or one by one, to two accumulators.
        #[test]
        fn runs_and_single_rows_count_the_same_values(
            blocks in prop::collection::vec((0..3u32, any::<bool>(), 0..3u8, any::<i64>(), 1..300usize), 1..12),
            are_floats in any::<bool>(),
        ) {
            let of = if are_floats { DataType::Float64 } else { DataType::Int64 };
            let mut accumulators = [DistinctCount::of(&of, 2).unwrap(), DistinctCount::of(&of, 2).unwrap()];
            accumulators.iter_mut().for_each(|one| one.grow(3));
            let mut expected = vec![std::collections::BTreeSet::<i64>::new(); 3];
            for (number, (group, as_run, kind, seed, rows)) in blocks.into_iter().enumerate() {
                let value = |row: usize| match kind {
                    0 => row as i64 / 2,
                    1 => seed.wrapping_mul(row as i64 % 97) >> 40,
                    _ => (row as i64).wrapping_mul(seed | 1) >> 20,
                };
                let values: Vec<i64> = (0..rows).map(value).collect();
                expected[group as usize].extend(&values);
                let array: ArrayRef = match are_floats {
                    true => Arc::new(Float64Array::from_iter_values(values.iter().map(|value| *value as f64))),
                    false => Arc::new(Int64Array::from(values)),
                };
                let run = [GroupRun { group, start: 0, end: rows }];
                let single = vec![group; rows];
                let assigned = if as_run { RowGroups::Runs(&run) } else { RowGroups::Rows(&single) };
                accumulators[number % 2].update(&[array], assigned).unwrap();
            }
            let [mut one, other] = accumulators;
            one.merge(Box::new(other), &[0, 1, 2]).unwrap();
            let expected: Vec<i64> = expected.iter().map(|values| i64::try_from(values.len()).unwrap()).collect();
            prop_assert_eq!(counts(one), expected);
        }
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
