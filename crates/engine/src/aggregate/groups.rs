//! Groups: from the values of the keys to a number, and back to columns of keys.
//!
//! A key is one word of 64 bits: the bits of a number, or the number of a text among the texts seen. Which keys are null
//! stands in one word more. So a group is found by hashing a few words, whatever the keys' types are.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, PrimitiveArray, StringArray, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use splay_store::canonical;

use crate::error::{Error, Result};
use crate::shift::plain;

/// A group by the hash of its words, of which half stands here: most of what isn't the same is told apart, and a table that grows is filled,
/// without a look at the words, which are far away.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u32,
    group: u32,
}

impl Entry {
    /// What the table goes by. It looks at the upper bits and the lower ones.
    fn spread(self) -> u64 {
        spread(self.hash)
    }
}

fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The groups that were seen, in the order of their first row.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Keys of a group, and the word of nulls.
    stride: usize,
    words: Vec<u64>,
    table: HashTable<Entry>,
    /// Differs from one statement to the next, so that nobody can choose keys that collide.
    seed: u64,
    len: usize,
    /// Whether each group's words are greater than those of the one before, as they come from rows in order: then a group that
    /// is greater still is new, and the table isn't needed.
    ascending: bool,
}

impl Groups {
    pub fn new(keys: usize) -> Groups {
        let (seed, table) = (DefaultHashBuilder::default().hash_one(keys), HashTable::new());
        Groups { stride: keys + 1, words: Vec::new(), table, seed, len: 0, ascending: true }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The words of a group.
    pub fn words(&self, group: usize) -> &[u64] {
        &self.words[group * self.stride..(group + 1) * self.stride]
    }

    /// The group of some words, made if it wasn't seen.
    pub fn find(&mut self, words: &[u64]) -> u32 {
        debug_assert_eq!(words.len(), self.stride);
        // Rows are ordered, so the next row is mostly of the last group.
        if self.len > 0 && are_same(self.words(self.len - 1), words) {
            return number(self.len - 1);
        }
        if self.ascending {
            if self.len == 0 || self.words(self.len - 1) < words {
                return self.add(words);
            }
            self.fill_table();
        }
        let (stride, stored) = (self.stride, &self.words);
        let at = |group: u32| &stored[group as usize * stride..(group as usize + 1) * stride];
        let hash = half(hash(self.seed, words));
        let is_it = |entry: &Entry| entry.hash == hash && are_same(at(entry.group), words);
        if let Some(known) = self.table.find(spread(hash), is_it) {
            return known.group;
        }
        let entry = Entry { hash, group: number(self.len) };
        self.table.insert_unique(spread(hash), entry, |entry| entry.spread());
        self.add(words)
    }

    fn add(&mut self, words: &[u64]) -> u32 {
        self.words.extend_from_slice(words);
        self.len += 1;
        number(self.len - 1)
    }

    /// From now on groups are found by the table.
    fn fill_table(&mut self) {
        self.ascending = false;
        self.table.reserve(2 * self.len, |entry| entry.spread());
        for group in 0..self.len {
            let hash = half(hash(self.seed, self.words(group)));
            self.table.insert_unique(spread(hash), Entry { hash, group: number(group) }, |entry| entry.spread());
        }
    }
}

/// Takes in the groups that others found: for each of theirs, in order, which of ours it is. Texts are by key, and empty for keys
/// that aren't texts.
pub(super) fn merged(
    groups: &mut Groups,
    texts: &mut [Texts],
    other_groups: &Groups,
    other_texts: &[Texts],
) -> Vec<u32> {
    let keys = texts.len();
    let numbers: Vec<Vec<u32>> = texts
        .iter_mut()
        .zip(other_texts)
        .map(|(texts, others)| others.iter().map(|text| texts.number(text)).collect())
        .collect();
    let mut words = vec![0; keys + 1];
    let group = |group| {
        words.copy_from_slice(other_groups.words(group));
        for (key, numbers) in numbers.iter().enumerate() {
            if !numbers.is_empty() && words[keys] & (1 << key) == 0 {
                words[key] = u64::from(numbers[usize::try_from(words[key]).unwrap_or(0)]);
            }
        }
        groups.find(&words)
    };
    (0..other_groups.len()).map(group).collect()
}

/// A hash of a few words: each is multiplied in, and the halves of the product are folded, as in foldhash and wyhash.
pub(super) fn hash(seed: u64, words: &[u64]) -> u64 {
    // The digits of the golden ratio: bits without a pattern.
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
    words.iter().fold(seed, |hash, word| {
        let product = u128::from(hash ^ word) * FACTOR;
        #[expect(clippy::cast_possible_truncation, reason = "the halves are folded")]
        let folded = (product >> 64) as u64 ^ product as u64;
        folded.rotate_left(23)
    })
}

/// Half of the bits of a hash, to which all contribute.
#[expect(clippy::cast_possible_truncation, reason = "the halves are folded")]
fn half(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// Whether words are equal; of the few that a group has, without a call.
fn are_same(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// Texts that were seen, by number.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// Short texts by their bytes, which are compared where they stand.
    short: HashTable<ShortText>,
    seed: u64,
    /// Longer ones.
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
    /// Of the texts alone.
    bytes: usize,
}

/// The bytes of a text of at most [`SHORT_BYTES_MAX`], from which it could be put together again, and its number.
#[derive(Debug, Clone, Copy)]
struct ShortText {
    words: [u64; 2],
    bytes: u32,
    number: u32,
}

/// Bytes of a text that two words hold.
const SHORT_BYTES_MAX: usize = 16;

impl ShortText {
    /// `None` for a longer text. Its first bytes and its last ones overlap where it has fewer than both together.
    fn of(text: &[u8]) -> Option<ShortText> {
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        let words = match text.len() {
            0 => [0, 0],
            1..=3 => [u64::from(text[0]) << 8 | u64::from(text[text.len() / 2]), u64::from(text[text.len() - 1])],
            4..=7 => [word(text.first_chunk()?), word(text.last_chunk()?)],
            8..=SHORT_BYTES_MAX => [text.first_chunk()?, text.last_chunk()?].map(|bytes| u64::from_le_bytes(*bytes)),
            _ => return None,
        };
        Some(ShortText { words, bytes: u32::try_from(text.len()).ok()?, number: 0 })
    }

    fn hash(&self, seed: u64) -> u64 {
        hash(seed ^ u64::from(self.bytes), &self.words)
    }

    fn is_same(&self, other: &ShortText) -> bool {
        self.words == other.words && self.bytes == other.bytes
    }
}

impl Texts {
    pub fn number(&mut self, text: &str) -> u32 {
        let next = number(self.texts.len());
        if let Some(short) = ShortText::of(text.as_bytes()) {
            if self.texts.is_empty() {
                self.seed = DefaultHashBuilder::default().hash_one(0);
            }
            let seed = self.seed;
            let entry = self.short.entry(short.hash(seed), |known| known.is_same(&short), |known| known.hash(seed));
            match entry {
                hashbrown::hash_table::Entry::Occupied(known) => return known.get().number,
                hashbrown::hash_table::Entry::Vacant(place) => place.insert(ShortText { number: next, ..short }),
            };
            self.bytes += text.len();
            self.texts.push(Arc::from(text));
            return next;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.bytes += text.len();
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, next);
        next
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// All texts by number.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(AsRef::as_ref)
    }

    /// Bytes that they take, more or less.
    pub fn bytes(&self) -> usize {
        self.bytes + self.texts.capacity() * (3 * size_of::<Arc<str>>() + 8)
    }

    fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }
}

/// A column of keys from the words of the groups.
#[expect(clippy::cast_possible_truncation, reason = "a word holds a value of the type that it becomes again")]
pub(crate) fn key_column(groups: &Groups, key: usize, texts: &Texts, data_type: &DataType) -> Result<ArrayRef> {
    let keys = groups.stride - 1;
    let words = || (0..groups.len()).map(|group| groups.words(group)[key]);
    let is_null = |group: usize| groups.words(group)[keys] & (1 << key) != 0;
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(groups.len(), |group| !is_null(group)));
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    Ok(match data_type {
        DataType::Null => new_null_array(data_type, groups.len()),
        DataType::Boolean => {
            let values = BooleanBuffer::collect_bool(groups.len(), |group| groups.words(group)[key] != 0);
            Arc::new(arrow::array::BooleanArray::new(values, nulls))
        }
        DataType::Utf8 => {
            let texts = (0..groups.len()).map(|group| {
                (!is_null(group)).then(|| texts.text(u32::try_from(groups.words(group)[key]).unwrap_or(0)))
            });
            Arc::new(texts.collect::<StringArray>())
        }
        DataType::Dictionary(_, of) if **of != DataType::Utf8 => cast(&key_column(groups, key, texts, of)?, data_type)?,
        DataType::Dictionary(_, _) => {
            // Numbers of the texts that occur, in the order of first occurrence.
            let mut local: Vec<i32> = vec![-1; texts.texts.len()];
            let mut values: Vec<&str> = Vec::new();
            let codes: Vec<i32> = (0..groups.len())
                .map(|group| {
                    if is_null(group) {
                        return 0;
                    }
                    let text = usize::try_from(groups.words(group)[key]).unwrap_or(0);
                    if local[text] < 0 {
                        local[text] = i32::try_from(values.len()).unwrap_or(i32::MAX);
                        values.push(&texts.texts[text]);
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
        DataType::Timestamp(_, _) => primitive::<TimestampNanosecondType>(words(), nulls, data_type, u64::cast_signed),
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

/// The words of a column of numbers.
pub(crate) fn words_of(array: &ArrayRef) -> Result<Vec<u64>> {
    let formed = canonical(array);
    let array = formed.as_ref().unwrap_or(array);
    macro_rules! words {
        ($type:ty, $word:expr) => {
            arrow::array::AsArray::as_primitive::<$type>(array.as_ref()).values().iter().map($word).collect()
        };
    }
    Ok(match array.data_type() {
        DataType::Boolean => arrow::array::AsArray::as_boolean(array.as_ref()).values().iter().map(u64::from).collect(),
        DataType::Int8 => words!(Int8Type, |value| *value as u64),
        DataType::Int16 => words!(Int16Type, |value| *value as u64),
        DataType::Int32 => words!(Int32Type, |value| *value as u64),
        DataType::Date32 => words!(Date32Type, |value| *value as u64),
        DataType::Int64 => words!(Int64Type, |value| value.cast_unsigned()),
        DataType::Time64(arrow::datatypes::TimeUnit::Nanosecond) => {
            words!(Time64NanosecondType, |value| value.cast_unsigned())
        }
        DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, _) => {
            words!(TimestampNanosecondType, |value| value.cast_unsigned())
        }
        DataType::UInt8 => words!(UInt8Type, |value| u64::from(*value)),
        DataType::UInt16 => words!(UInt16Type, |value| u64::from(*value)),
        DataType::UInt32 => words!(UInt32Type, |value| u64::from(*value)),
        DataType::UInt64 => words!(UInt64Type, |value| *value),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = arrow::array::AsArray::as_primitive::<IntervalMonthDayNanoType>(array.as_ref()).values();
            let words = intervals.iter().map(|interval| plain(*interval).map(i64::cast_unsigned));
            let refused = || Error::Unsupported("groups by intervals of days or months".to_owned());
            words.collect::<Option<_>>().ok_or_else(refused)?
        }
        DataType::Decimal128(_, _) => {
            let values = arrow::array::AsArray::as_primitive::<Decimal128Type>(array.as_ref());
            #[expect(clippy::cast_possible_truncation, reason = "what doesn't fit is seen by what comes back")]
            let (low, fits) = (|value: i128| value as i64, |value: i128| i128::from(value as i64) == value);
            if values.values().iter().fold(true, |all, value| all & fits(*value)) {
                return Ok(values.values().iter().map(|value| low(*value).cast_unsigned()).collect());
            }
            // What stands for null may be any number.
            let word = |(row, value): (usize, &i128)| match i64::try_from(*value) {
                Ok(value) => Some(value.cast_unsigned()),
                Err(_) => values.is_null(row).then_some(0),
            };
            let words = values.values().iter().enumerate().map(word).collect::<Option<_>>();
            words.ok_or_else(|| Error::Unsupported("decimals of more than 18 digits as words".to_owned()))?
        }
        DataType::Float32 => words!(Float32Type, |value| u64::from(value.to_bits())),
        DataType::Float64 => words!(Float64Type, |value| value.to_bits()),
        other => return Err(Error::Unsupported(format!("groups by a {other}"))),
    })
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
        let mut known: Vec<[u64; 3]> = Vec::new();
        for number in 0..3000 {
            let words = words(number * 17 % 3000);
            let expected = known.iter().position(|one| *one == words).unwrap_or_else(|| {
                known.push(words);
                known.len() - 1
            });
            assert_eq!(groups.find(&words) as usize, expected);
        }
        assert_eq!(groups.len(), known.len());
    }

    #[test]
    fn texts_of_any_length_have_one_number_each() {
        let mut texts = Texts::default();
        let letters = ["", "a", "aa", "ab", "ba", "aba", "abb", "\0", "\0\0", "a\0"];
        let longer = (4..24).flat_map(|length| {
            let text = "abcdefghijklmnopqrstuvwx"[..length].to_owned();
            let whole = text.clone();
            (0..length).map(move |place| format!("{}X{}", &text[..place], &text[place + 1..])).chain([whole])
        });
        let all: Vec<String> = letters.into_iter().map(str::to_owned).chain(longer.collect::<Vec<_>>()).collect();
        for _ in 0..2 {
            for (place, text) in all.iter().enumerate() {
                assert_eq!(texts.number(text) as usize, place, "{text:?}");
            }
        }
        assert_eq!(texts.iter().collect::<Vec<_>>(), all);
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
