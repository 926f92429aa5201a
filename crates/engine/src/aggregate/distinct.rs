//! Counts of distinct values per group.
//!
//! Values are 64-bit words; texts and types without a word are numbered in the order of their first occurrence.
//!
//! - The first groups have a hash table each, which stays in cache while rows of that group come. As long as a
//!   group's values ascend, as times do, they are only appended to a list.
//! - The values of all further groups are entries of one shared table.
//! - Adjacent equal values are looked up once, and the values of many rows together, so that no look-up waits for the
//!   memory of the one before.
//! - Numbers of texts, and in the first groups whole numbers from some way before the first value on, have a bit per group instead of an
//!   entry, as far as bits take less memory than entries: the first thousands always, and all up to the greatest once a group has many of them.
//!
//! The threads' counts are merged at the end. A group that only one thread has seen keeps its count; its values
//! aren't read again. What the others have in their tables is looked up by all threads, and only what is missing is added.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use hashbrown::DefaultHashBuilder;

use super::accumulate::{Accumulator, RowGroups, same};
use super::groups::words_of;
use super::keys::TextWords;
use super::row_numbers::RowNumbers;
use super::texts::Texts;
use crate::error::Result;
use crate::hashed::{ValueSet, hash};
use crate::parallel;

/// Numbers that have a bit in each group.
const BITS_MIN: u64 = 4096;

/// Entries of a group from which on further bits may take their place, and numbers up to the greatest for each of them: a table has this many bits
/// an entry.
const ENTRIES_MIN: usize = 1024;
const NUMBERS_OF_ENTRY_MAX: u64 = 128;

/// Groups whose whole numbers have bits, and which have tables of their own: of more groups these would take more than one table.
const OWN_GROUPS_MAX: usize = 1024;

/// Values that are looked up together: the places of all of them are read before the first is looked for.
const PENDING_MAX: usize = 256;

/// Bytes of a group's table up to which a value is looked up at once: the table is in the cache while rows of the group come one behind the other.
const NEAR_BYTES_MAX: usize = 1 << 17;

/// Rows of a run from which on its values have a table of their own while the run is read.
const RUN_ROWS_MIN: usize = 64;

/// Rows of a run for each whole number between its least and its greatest from which on bits are cheaper than a table.
const NUMBERS_OF_ROW_MAX: u64 = 16;

/// Values of others that a thread looks up at once.
const VALUES_OF_TASK: usize = 1 << 14;

/// A value of a group.
type GroupValue = (u64, u32);

/// What is in no group: the mark of a free place.
const NO_VALUE: GroupValue = (0, u32::MAX);

/// The different values of one group.
#[derive(Debug)]
struct Values {
    /// As long as each is greater than the one before, or they are those of one run of rows.
    list: Vec<u64>,
    is_ascending: bool,
    /// All, once there are others.
    table: ValueSet<u64>,
}

impl Default for Values {
    fn default() -> Values {
        Values { list: Vec::new(), is_ascending: true, table: ValueSet::new(0) }
    }
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

impl Bits {
    fn has(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|place| self.words.get(place));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

impl Values {
    /// Takes in a value with its hash; whether it is new.
    #[inline]
    fn take(&mut self, word: u64, hash: u64, seed: u64) -> bool {
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
        self.table.insert(word, hash, |member| hash_of_word(seed, *member))
    }

    /// Moves what was listed into the table.
    #[cold]
    fn fill_table(&mut self, seed: u64) {
        let hash_of = |member: &u64| hash_of_word(seed, *member);
        self.table.reserve(2 * self.list.len(), hash_of);
        for word in std::mem::take(&mut self.list) {
            self.table.insert(word, hash_of(&word), hash_of);
        }
    }

    fn has(&self, word: u64, hash: u64) -> bool {
        match self.list.last() {
            Some(last) if self.is_ascending => word <= *last && self.list.binary_search(&word).is_ok(),
            Some(_) => self.list.contains(&word),
            None => self.table.has(word, hash),
        }
    }

    fn len(&self) -> usize {
        self.list.len() + self.table.len()
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        self.list.iter().copied().chain(self.table.iter())
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

fn hash_of_word(seed: u64, word: u64) -> u64 {
    hash(seed, &[word])
}

fn hash_of_value(seed: u64, (word, group): GroupValue) -> u64 {
    hash(seed, &[word, u64::from(group)])
}

/// Counts of different values.
#[derive(Debug)]
pub(super) struct DistinctCount {
    counts: Vec<u64>,
    /// The distinct values of the first groups.
    own: Vec<Values>,
    own_values: usize,
    /// The distinct values of all further groups.
    seen: ValueSet<GroupValue>,
    /// Values without a bit that haven't been looked up yet.
    pending: Vec<GroupValue>,
    /// Scratch: the values of a run.
    of_run: ValueSet<u64>,
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
            || matches!(data_type, DataType::Timestamp(unit, _) | DataType::Time64(unit) if *unit == TimeUnit::Nanosecond)
            || data_type.is_integer();
        let seed = std::hash::BuildHasher::hash_one(&DefaultHashBuilder::default(), 0);
        let rows = if has_texts || is_word { None } else { Some(RowNumbers::of(data_type)?) };
        Some(DistinctCount {
            counts: Vec::new(),
            own: Vec::new(),
            own_values: 0,
            seen: ValueSet::new(NO_VALUE),
            pending: Vec::new(),
            of_run: ValueSet::new(0),
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
            self.note(group, number);
        }
    }

    /// Takes in a word that isn't the number of a text.
    #[inline]
    fn take_word(&mut self, group: usize, word: u64) {
        if self.has_numbers && group < OWN_GROUPS_MAX {
            let base = *self.base.get_or_insert(word.wrapping_sub(BITS_MIN / 2));
            if self.take_bit(group, word.wrapping_sub(base)) {
                return;
            }
        }
        self.note(group, word);
    }

    /// Takes in the words of a run of rows.
    fn take_run(&mut self, group: usize, words: &[u64]) {
        let is_first = self.own.get(group).is_some_and(|own| own.len() == 0) && self.counts[group] == 0;
        if !is_first || words.len() < RUN_ROWS_MIN || self.has_numbers && are_near(words) {
            return words.iter().for_each(|word| self.take_word(group, *word));
        }
        let mut values = Vec::new();
        let is_ascending = words.is_sorted();
        if is_ascending {
            values.extend_from_slice(words);
            values.dedup();
        } else {
            let hash_of = |word: &u64| hash_of_word(self.seed, *word);
            self.of_run.restart(words.len());
            values.extend(words.iter().filter(|word| self.of_run.insert(**word, hash_of(word), hash_of)));
        }
        values.shrink_to_fit();
        if let Some(bits) = self.bits.get_mut(group) {
            // All are entries, however near they are to the base.
            bits.limit = 0;
        }
        self.own_values += values.len();
        self.counts[group] = values.len() as u64;
        self.own[group] = Values { list: values, is_ascending, ..Values::default() };
    }

    /// Notes a value that is to be looked up.
    #[inline]
    fn note(&mut self, group: usize, word: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "groups are numbered in 32 bits")]
        let value = (word, group as u32);
        let last = self.last.replace(value);
        if last == Some(value) {
            return;
        }
        // A group's rows come one behind the other, or there are few groups.
        let is_near = last.is_some_and(|(_, last)| last == value.1)
            && self.own.get(group).is_some_and(|own| own.table.bytes() <= NEAR_BYTES_MAX);
        if is_near {
            return self.take_noted(value, hash_of_word(self.seed, word));
        }
        self.pending.push(value);
        if self.pending.len() == PENDING_MAX {
            self.look_up();
        }
    }

    /// Looks up what was noted.
    fn look_up(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let mut hashes = [0; PENDING_MAX];
        for (value, hash) in pending.iter().zip(&mut hashes) {
            *hash = self.hash_of(*value);
            match self.own.get(value.1 as usize) {
                Some(own) => own.table.prefetch(*hash),
                None => self.seen.prefetch(*hash),
            }
        }
        for (value, hash) in pending.iter().zip(hashes) {
            self.take_noted(*value, hash);
        }
        self.pending = pending;
        self.pending.clear();
    }

    fn hash_of(&self, value: GroupValue) -> u64 {
        if (value.1 as usize) < self.own.len() {
            hash_of_word(self.seed, value.0)
        } else {
            hash_of_value(self.seed, value)
        }
    }

    /// Takes in a value that had no bit when it was noted.
    fn take_noted(&mut self, value: GroupValue, hash: u64) {
        let (word, group, seed) = (value.0, value.1 as usize, self.seed);
        let Some(own) = self.own.get_mut(group) else {
            self.counts[group] += u64::from(self.seen.insert(value, hash, |member| hash_of_value(seed, *member)));
            return;
        };
        let number = word.wrapping_sub(if self.is_numbered { 0 } else { self.base.unwrap_or(0) });
        // Bits may have come since.
        if self.bits.get(group).is_some_and(|bits| number < bits.limit) {
            self.take_bit(group, number);
            return;
        }
        let is_new = own.take(word, hash, seed);
        self.own_values += usize::from(is_new);
        self.counts[group] += u64::from(is_new);
        if is_new && group < self.bits.len() {
            self.count_entries(group, number);
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

    /// Whenever a group's entries have doubled, it is seen whether bits would take less.
    fn count_entries(&mut self, group: usize, number: u64) {
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
                let hash = hash_of_word(self.seed, word);
                let is_new = self.own[group].take(word, hash, self.seed);
                self.own_values += usize::from(is_new);
                self.counts[group] += u64::from(is_new);
            }
        }
    }

    /// The word whose number is zero.
    fn base_of_bits(&self) -> u64 {
        if self.is_numbered { 0 } else { self.base.unwrap_or(0) }
    }
}

impl DistinctCount {
    /// Puts together what others have counted: counts of groups that one alone has seen, and values of all else. If nothing comes after it,
    /// counts are all that is right then.
    fn settle(&mut self, is_end: bool) -> Result<()> {
        self.look_up();
        let others = std::mem::take(&mut self.others);
        let mut counted: Vec<u8> = self.counts.iter().map(|count| u8::from(*count > 0)).collect();
        for (other, groups) in &others {
            let of_them = other.counts.iter().zip(groups).filter(|(count, _)| **count > 0);
            of_them.for_each(|(_, group)| counted[*group as usize] = counted[*group as usize].saturating_add(1));
        }
        for (number, (other, groups)) in others.iter().enumerate() {
            let is_shared = |group: usize| counted[groups[group] as usize] > 1;
            let alone = (0..other.counts.len()).filter(|group| other.counts[*group] > 0 && !is_shared(*group));
            alone.for_each(|group| self.counts[groups[group] as usize] = other.counts[group]);
            self.take_values(other, groups, is_shared, is_end && number + 1 == others.len())?;
        }
        Ok(())
    }

    /// Takes in the values of those groups of another for which that is asked.
    fn take_values(
        &mut self,
        other: &DistinctCount,
        groups: &[u32],
        is_asked: impl Fn(usize) -> bool,
        is_end: bool,
    ) -> Result<()> {
        let numbers: Vec<u64> = match (&mut self.rows, &other.rows) {
            (Some(ours), Some(theirs)) => theirs.iter().map(|value| ours.number(value)).collect(),
            _ => self.texts.numbers_of(&other.texts).into_iter().map(u64::from).collect(),
        };
        // What has bits is the number of a text, or how far from the base a number is.
        let base = other.base_of_bits();
        for (group, bits) in other.bits.iter().enumerate().filter(|(group, _)| is_asked(*group)) {
            let ours = groups[group] as usize;
            for (place, word) in bits.words.iter().enumerate().filter(|(_, word)| **word > 0) {
                for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                    let word = base.wrapping_add((place * 64 + bit) as u64);
                    match self.is_numbered {
                        true => self.take_number(ours, numbers[usize::try_from(word).unwrap_or(0)]),
                        false => self.take_word(ours, word),
                    }
                }
            }
        }
        self.look_up();
        // What others have is looked up in tables.
        for (group, _) in other.counts.iter().enumerate().filter(|(group, _)| is_asked(*group)) {
            let seed = self.seed;
            if let Some(own) = self.own.get_mut(groups[group] as usize).filter(|own| !own.is_ascending) {
                own.fill_table(seed);
            }
        }
        let own = other.own.iter().zip(0u32..).flat_map(|(values, group)| values.iter().map(move |word| (word, group)));
        let entries = own.chain(other.seen.iter()).filter(|(_, group)| is_asked(*group as usize));
        let ours = |(word, group): GroupValue| match self.is_numbered {
            true => (numbers[usize::try_from(word).unwrap_or(0)], groups[group as usize]),
            false => (word, groups[group as usize]),
        };
        let entries: Vec<GroupValue> = entries.map(ours).collect();
        let tasks = entries.len().div_ceil(VALUES_OF_TASK);
        let missing = parallel::each(tasks, self.threads, |task| {
            let end = entries.len().min((task + 1) * VALUES_OF_TASK);
            Ok(self.missing(&entries[task * VALUES_OF_TASK..end]))
        })?;
        for (word, group) in missing.into_iter().flatten() {
            match (is_end, self.is_numbered) {
                (true, _) => self.counts[group as usize] += 1,
                (false, true) => self.take_number(group as usize, word),
                (false, false) => self.take_word(group as usize, word),
            }
        }
        self.look_up();
        Ok(())
    }

    /// Those of some values that aren't there.
    fn missing(&self, values: &[GroupValue]) -> Vec<GroupValue> {
        let (mut missing, mut hashes) = (Vec::new(), [0; PENDING_MAX]);
        let base = self.base_of_bits();
        for values in values.chunks(PENDING_MAX) {
            for (value, hash) in values.iter().zip(&mut hashes) {
                *hash = self.hash_of(*value);
                match self.own.get(value.1 as usize) {
                    Some(own) => own.table.prefetch(*hash),
                    None => self.seen.prefetch(*hash),
                }
            }
            for (value, hash) in values.iter().zip(hashes) {
                let (number, group) = (value.0.wrapping_sub(base), value.1 as usize);
                let bits = self.bits.get(group).filter(|bits| number < bits.limit);
                let is_there = match (bits, self.own.get(group)) {
                    (Some(bits), _) => bits.has(number),
                    (None, Some(own)) => own.has(value.0, hash),
                    (None, None) => self.seen.has(*value, hash),
                };
                if !is_there {
                    missing.push(*value);
                }
            }
        }
        missing
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
        match assigned {
            RowGroups::Runs(runs) if array.null_count() == 0 => {
                runs.iter().for_each(|run| self.take_run(run.group as usize, &words[run.start..run.end]));
            }
            _ => assigned.each(array.nulls(), |group, row| self.take_word(group, words[row])),
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        // A table is filled to between a third and two thirds.
        let own = self.own_values * 2 * size_of::<u64>() + self.own.len() * size_of::<Values>();
        let others = self.others.iter().map(|(other, groups)| other.held_bytes() + groups.len() * size_of::<u32>());
        let rows = self.rows.as_ref().map_or(0, RowNumbers::bytes);
        let seen = self.seen.bytes();
        own + seen + self.texts.bytes() + rows + self.bits_bytes + others.sum::<usize>()
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let mut other = same::<DistinctCount>(other)?;
        other.settle(false)?;
        self.others.push((*other, groups.to_vec()));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        self.settle(true)?;
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
