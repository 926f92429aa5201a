//! Keys that are evaluated row by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};

use super::decimal_scale::DecimalScale;
use super::group_slots::RowSlots;
use crate::dictionaries::is_same;
use crate::error::{Error, Result};
use crate::key_words::words_of;
use crate::texts::Texts;
use crate::vector::vectorized;
use crate::word_units::gcd;

/// Most combinations of keys that are looked up in a table.
const PLACES_MAX: usize = 1 << 16;

/// Rows for each whole number between the least and the greatest from which on these are looked up in a table.
const ROWS_OF_NUMBER: usize = 4;

/// A key whose values differ from row to row.
pub(crate) struct ValueKey {
    /// Position among the keys.
    pub key: usize,
    words: KeyWords,
    nulls: Option<NullBuffer>,
    /// How many values there can be, null among them, where that is known.
    choices: Option<usize>,
    /// Between which words all of its rows are, where that is known.
    bounds: Option<WordBounds>,
}

/// The least and the greatest of some key words, in the order of the values that they encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordBounds {
    least: u64,
    greatest: u64,
    /// Mask by which words are XORed before they are compared, so that unsigned words compare as signed ones.
    flip: u64,
    /// All words are multiples of this from the least, as starts of buckets are multiples of their width; 0 of one word. It is looked for where words are
    /// far apart.
    unit: u64,
}

/// How far apart words are from which on a unit is looked for.
const SPAN_OF_UNIT_MIN: u64 = 1 << 16;

/// Most multiples of a unit for which it is looked for: there are no places for more.
const STEPS_OF_UNIT_MAX: u64 = 1 << 22;

impl WordBounds {
    /// The bounds of some words; `None` if there are no words.
    fn of(words: impl Iterator<Item = u64> + Clone, is_unsigned: bool) -> Option<WordBounds> {
        let flip = if is_unsigned { 1 << 63 } else { 0 };
        let all = words.clone();
        let (least, greatest) = vectorized(
            #[inline(always)]
            || {
                let (mut least, mut greatest) = (i64::MAX, i64::MIN);
                for word in all {
                    let signed = (word ^ flip).cast_signed();
                    (least, greatest) = (least.min(signed), greatest.max(signed));
                }
                (least, greatest)
            },
        );
        if least > greatest {
            return None;
        }
        let word = |signed: i64| signed.cast_unsigned() ^ flip;
        let (least, greatest) = (word(least), word(greatest));
        let unit = match greatest.wrapping_sub(least) {
            0 => 0,
            near if near < SPAN_OF_UNIT_MIN => 1,
            span => unit_of(words, least, span),
        };
        Some(WordBounds { least, greatest, flip, unit })
    }

    /// How many words there are between the least and the greatest, and one of these.
    pub fn steps(&self) -> u64 {
        self.greatest.wrapping_sub(self.least) / self.unit.max(1)
    }

    /// The bounds of the numbers of texts up to one.
    pub fn of_numbers(greatest: u64) -> WordBounds {
        WordBounds { least: 0, greatest, flip: 0, unit: 1 }
    }

    /// The word that is some steps from the least one.
    pub fn word(&self, steps: u64) -> u64 {
        self.least.wrapping_add(steps.wrapping_mul(self.unit.max(1)))
    }

    /// How many words are between the least and another one, and one of these.
    pub fn step(&self, word: u64) -> u64 {
        let from_least = word.wrapping_sub(self.least);
        if self.unit <= 1 { from_least } else { from_least / self.unit }
    }

    /// These bounds, widened by `steps` words on each side where they reach beyond the former ones.
    pub fn beyond(&self, former: &WordBounds, steps: u64) -> WordBounds {
        let signed = |word: u64| (word ^ self.flip).cast_signed();
        let (mut least, mut greatest) = (signed(self.least), signed(self.greatest));
        let room = steps.saturating_mul(self.unit.max(1));
        if least < signed(former.least) {
            least = least.checked_sub_unsigned(room).unwrap_or(least);
        }
        if greatest > signed(former.greatest) {
            greatest = greatest.checked_add_unsigned(room).unwrap_or(greatest);
        }
        let word = |signed: i64| signed.cast_unsigned() ^ self.flip;
        WordBounds { least: word(least), greatest: word(greatest), ..*self }
    }

    /// The bounds that include both; `None` if one orders words as signed numbers and the other as unsigned.
    pub fn with(&self, other: &WordBounds) -> Option<WordBounds> {
        let signed = |word: u64| (word ^ self.flip).cast_signed();
        let least = if signed(other.least) < signed(self.least) { other.least } else { self.least };
        let greatest = if signed(other.greatest) > signed(self.greatest) { other.greatest } else { self.greatest };
        let between = signed(self.least).abs_diff(signed(other.least));
        let unit = gcd(gcd(self.unit, other.unit), between);
        (self.flip == other.flip).then_some(WordBounds { least, greatest, flip: self.flip, unit })
    }
}

/// The greatest unit of which all words are multiples from the least; 1 once it is too small to be of use.
fn unit_of(words: impl Iterator<Item = u64>, least: u64, span: u64) -> u64 {
    let (mut unit, mut last) = (0, least);
    for word in words {
        if word == last {
            continue;
        }
        unit = gcd(word.wrapping_sub(least), unit);
        last = word;
        if unit == 1 || unit > 0 && span / unit > STEPS_OF_UNIT_MAX {
            return 1;
        }
    }
    unit
}

enum KeyWords {
    /// Codes of a dictionary, and the word of each.
    Codes(ScalarBuffer<i32>, Arc<[Option<u64>]>),
    /// The word of each row, and the least one where there are few.
    Words(ScalarBuffer<u64>, u64),
    /// The word of each row of floats that are multiples of a power of ten, the multiples as words, and the least of these where there are few.
    Multiples(ScalarBuffer<u64>, Vec<u64>, u64),
}

impl KeyWords {
    /// What the places of rows follow from, of keys without codes.
    fn of_places(&self) -> &[u64] {
        match self {
            KeyWords::Codes(_, _) => &[],
            KeyWords::Words(words, _) => words,
            KeyWords::Multiples(_, multiples, _) => multiples,
        }
    }
}

/// The words for the texts of the dictionary that came last, and for null: blocks of one segment have the same one.
#[derive(Debug, Default)]
pub(crate) struct TextWords {
    dictionary: Option<ArrayRef>,
    /// Whether the words follow from the texts, and aren't those of the texts themselves.
    computed: bool,
    words: Arc<[Option<u64>]>,
    bounds: Option<WordBounds>,
    /// Rows whose texts were numbered one by one.
    rows: usize,
    /// The last dictionary with a text that what the key is computed by refuses, though it may be in no row.
    refused: Option<ArrayRef>,
    /// Of which power of ten floats are multiples, where groups are found by place.
    scale: Option<DecimalScale>,
}

impl TextWords {
    /// For keys whose groups are found by place.
    pub fn of_places() -> TextWords {
        TextWords { scale: Some(DecimalScale::default()), ..TextWords::default() }
    }

    /// The decimal digits of floats whose groups are found by place.
    pub fn digits(&self) -> Option<u8> {
        self.scale.as_ref().and_then(DecimalScale::digits)
    }

    /// Whether it is cheaper to number these rows one by one, because all rows of this dictionary together are fewer than its texts.
    pub fn are_few(&mut self, dictionary: &ArrayRef, rows: usize) -> bool {
        let is_cached = || self.dictionary.as_ref().is_some_and(|cached| is_same(cached, dictionary));
        if self.rows.saturating_add(rows) > dictionary.len() / 2 || is_cached() {
            return false;
        }
        self.rows += rows;
        true
    }

    /// Whether what a key is computed by has refused a text of a dictionary.
    pub fn has_refused(&self, dictionary: &ArrayRef) -> bool {
        self.refused.as_ref().is_some_and(|refused| is_same(refused, dictionary))
    }

    /// Notes that it has.
    pub fn refuse(&mut self, dictionary: &ArrayRef) {
        self.refused = Some(Arc::clone(dictionary));
    }

    /// The words of the texts of a dictionary themselves, and of null.
    pub fn of_texts(&mut self, dictionary: &ArrayRef, texts: &mut Texts) -> Result<Arc<[Option<u64>]>> {
        self.of(dictionary, false, texts, || Ok(Arc::clone(dictionary)))
    }

    /// `values` gives the key's values for the texts, and where they are `computed` for null last, if the dictionary is another one.
    fn of(
        &mut self,
        dictionary: &ArrayRef,
        computed: bool,
        texts: &mut Texts,
        values: impl FnOnce() -> Result<ArrayRef>,
    ) -> Result<Arc<[Option<u64>]>> {
        let is_cached = self.dictionary.as_ref().is_some_and(|cached| has_same_texts(cached, dictionary));
        if self.computed != computed || !is_cached {
            let values = values()?;
            let mut words = optional_words(&values, texts)?;
            if !computed {
                words.push(None);
            }
            self.words = words.into();
            self.computed = computed;
            self.bounds = match values.data_type() {
                DataType::Float32 | DataType::Float64 => None,
                of => WordBounds::of(self.words.iter().flatten().copied(), of.is_unsigned_integer()),
            };
        }
        // Blocks that follow have this very array.
        self.dictionary = Some(Arc::clone(dictionary));
        Ok(Arc::clone(&self.words))
    }
}

/// Whether two dictionaries hold the same texts in the same order, as those of one table's segments often do.
fn has_same_texts(one: &ArrayRef, other: &ArrayRef) -> bool {
    if is_same(one, other) {
        return true;
    }
    let (Some(one), Some(other)) = (one.as_string_opt::<i32>(), other.as_string_opt::<i32>()) else { return false };
    one.len() == other.len() && one == other
}

/// The word of each value; `None` for null.
pub(super) fn optional_words(values: &ArrayRef, texts: &mut Texts) -> Result<Vec<Option<u64>>> {
    match values.data_type() {
        DataType::Dictionary(_, of) => optional_words(&cast(values, of)?, texts),
        DataType::Utf8 => {
            let numbers = texts.numbers(values.as_string::<i32>(), 0u64).into_iter().enumerate();
            Ok(numbers.map(|(row, number)| values.is_valid(row).then_some(number)).collect())
        }
        _ => {
            let words = words_of(values)?;
            Ok(words.iter().enumerate().map(|(row, word)| values.is_valid(row).then_some(*word)).collect())
        }
    }
}

impl ValueKey {
    /// A key by its value in each row.
    pub fn new(key: usize, array: &ArrayRef, texts: &mut Texts, text_words: &mut TextWords) -> Result<ValueKey> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else {
                return Err(Error::Unsupported(format!("groups by a dictionary of {}", dictionary.keys().data_type())));
            };
            if let Some(values) = dictionary.values().as_string_opt::<i32>()
                && text_words.are_few(dictionary.values(), dictionary.len())
            {
                let nulls = array.logical_nulls();
                let number = |(row, code): (usize, &i32)| match usize::try_from(*code) {
                    Ok(code) if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => {
                        u64::from(texts.number(values.value(code)))
                    }
                    _ => 0,
                };
                let words = dictionary.keys().values().iter().enumerate().map(number).collect();
                return Ok(ValueKey::of_numbers(key, words, nulls, texts));
            }
            let words = text_words.of_texts(dictionary.values(), texts)?;
            return Ok(ValueKey::coded(key, dictionary, words, text_words.bounds));
        }
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let of = array.data_type();
        if *of == DataType::Utf8 {
            let words = texts.numbers(array.as_string::<i32>(), 0).into();
            return Ok(ValueKey::of_numbers(key, words, nulls, texts));
        }
        let words = words_of(array)?;
        if let Some(multiples) = multiples(of, &words, nulls.as_ref(), text_words) {
            let bounds = WordBounds::of(multiples.iter().copied(), false);
            let range = bounds.as_ref().and_then(|bounds| narrow(bounds, words.len()));
            let (least, choices) = range.map_or((0, None), |(least, span)| (least, Some(span + 2)));
            return Ok(ValueKey { key, words: KeyWords::Multiples(words, multiples, least), nulls, choices, bounds });
        }
        let bounds = match of {
            DataType::Float32 | DataType::Float64 => None,
            of => WordBounds::of(words.iter().copied(), of.is_unsigned_integer()),
        };
        let range = match of {
            DataType::Boolean => Some((0, 1)),
            _ => bounds.as_ref().and_then(|bounds| narrow(bounds, words.len())),
        };
        let (least, choices) = range.map_or((0, None), |(least, span)| (least, Some(span + 2)));
        Ok(ValueKey { key, words: KeyWords::Words(words, least), nulls, choices, bounds })
    }

    /// A key by the numbers of texts.
    fn of_numbers(key: usize, words: ScalarBuffer<u64>, nulls: Option<NullBuffer>, texts: &Texts) -> ValueKey {
        // Texts are numbered as they come, so that any of those that were seen may be in the rows.
        let (choices, greatest) = (Some(texts.len() + 1), texts.len().saturating_sub(1) as u64);
        let bounds = Some(WordBounds::of_numbers(greatest));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        ValueKey { key, words: KeyWords::Words(words, 0), nulls, choices, bounds }
    }

    /// A key that follows from codes. `values` gives its value for each text of their dictionary, and for null last.
    pub fn of_codes(
        key: usize,
        codes: &DictionaryArray<Int32Type>,
        texts: &mut Texts,
        text_words: &mut TextWords,
        values: impl FnOnce() -> Result<ArrayRef>,
    ) -> Result<ValueKey> {
        let words = text_words.of(codes.values(), true, texts, values)?;
        Ok(ValueKey::coded(key, codes, words, text_words.bounds))
    }

    fn coded(
        key: usize,
        codes: &DictionaryArray<Int32Type>,
        words: Arc<[Option<u64>]>,
        bounds: Option<WordBounds>,
    ) -> ValueKey {
        let nulls = codes.keys().nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let choices = Some(words.len());
        ValueKey { key, words: KeyWords::Codes(codes.keys().values().clone(), words), nulls, choices, bounds }
    }

    /// Between which words those of its rows are, where that is known.
    pub fn bounds(&self) -> Option<WordBounds> {
        self.bounds
    }

    /// Small numbers for the values of the rows of several keys together; `None` if there may be more than so many. The last number of a
    /// key is null's.
    pub fn places(values: &[ValueKey], rows: usize, places_max: usize) -> Option<RowSlots> {
        let choices = values.iter().try_fold(1usize, |all, value| all.checked_mul(value.choices?))?;
        if choices > PLACES_MAX.min(places_max) {
            return None;
        }
        let mut of_rows = Vec::with_capacity(rows);
        match values {
            [] => of_rows.resize(rows, 0),
            [first, rest @ ..] => {
                first.begin(&mut of_rows);
                rest.iter().for_each(|value| value.add(&mut of_rows));
            }
        }
        Some(RowSlots { of_rows, choices })
    }

    /// The number of each row's value.
    fn begin(&self, places: &mut Vec<u16>) {
        let last = self.last();
        match &self.words {
            KeyWords::Codes(codes, _) => places.extend(codes.iter().map(|code| place(code.cast_unsigned(), last))),
            KeyWords::Words(_, least) | KeyWords::Multiples(_, _, least) => {
                let (words, start) = (self.words.of_places(), places.len());
                places.resize(start + words.len(), 0);
                vectorized(
                    #[inline(always)]
                    || {
                        for (place, word) in places[start..].iter_mut().zip(words) {
                            #[expect(clippy::cast_possible_truncation, reason = "it is at most `last`")]
                            let number = word.wrapping_sub(*least).min(u64::from(last)) as u16;
                            *place = number;
                        }
                    },
                );
            }
        }
        if let Some(nulls) = &self.nulls {
            (!nulls.inner()).set_indices().for_each(|row| places[row] = last);
        }
    }

    /// Adds the number of each row's value to those of the keys before.
    fn add(&self, places: &mut [u16]) {
        let mut own = Vec::with_capacity(places.len());
        self.begin(&mut own);
        let stride = self.last().wrapping_add(1);
        for (place, own) in places.iter_mut().zip(own) {
            *place = place.wrapping_mul(stride).wrapping_add(own);
        }
    }

    /// Adds the places of each row's word to those of the keys before: null's is the first of `choices`, that of `least` the next.
    pub fn add_places(&self, reach: &WordBounds, choices: usize, places: &mut [u32]) {
        let stride = u32::try_from(choices).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "no word is further from the least than there are places")]
        let place = |word: u64| reach.step(word) as u32 + 1;
        match &self.words {
            // A dictionary of many texts isn't gone through for a few rows.
            KeyWords::Codes(codes, words) if codes.len() < words.len() => {
                for (row, at) in places[..codes.len()].iter_mut().enumerate() {
                    *at = *at * stride + self.word(row).map_or(0, place);
                }
            }
            KeyWords::Codes(codes, words) => {
                let of_codes: Vec<u32> = words.iter().map(|word| word.map_or(0, place)).collect();
                let of_null = of_codes.last().copied().unwrap_or(0);
                for (row, (at, code)) in places.iter_mut().zip(codes).enumerate() {
                    let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                    let own = usize::try_from(*code).ok().filter(|_| !is_null).and_then(|code| of_codes.get(code));
                    *at = *at * stride + own.copied().unwrap_or(of_null);
                }
            }
            KeyWords::Words(_, _) | KeyWords::Multiples(_, _, _) => match &self.nulls {
                // A division is made where the word changes.
                None if reach.unit > 1 => {
                    let mut last = (reach.least, place(reach.least));
                    for (at, word) in places.iter_mut().zip(self.words.of_places()) {
                        if *word != last.0 {
                            last = (*word, place(*word));
                        }
                        *at = *at * stride + last.1;
                    }
                }
                None => {
                    let words = self.words.of_places();
                    vectorized(
                        #[inline(always)]
                        || {
                            for (at, word) in places.iter_mut().zip(words) {
                                #[expect(clippy::cast_possible_truncation, reason = "as of `place`")]
                                let own = word.wrapping_sub(reach.least) as u32 + 1;
                                *at = *at * stride + own;
                            }
                        },
                    );
                }
                Some(nulls) => {
                    for (row, (at, word)) in places.iter_mut().zip(self.words.of_places()).enumerate() {
                        *at = *at * stride + if nulls.is_valid(row) { place(*word) } else { 0 };
                    }
                }
            },
        }
    }

    /// The number for null.
    fn last(&self) -> u16 {
        u16::try_from(self.choices.unwrap_or(0).saturating_sub(1)).unwrap_or(u16::MAX)
    }

    /// Writes the word of each row into the words of rows, which have `stride` words each, from row `start` on; sets a
    /// bit in a row's last word for a null.
    pub fn write(&self, start: usize, words: &mut [u64], stride: usize) {
        let rows = words.chunks_exact_mut(stride);
        match (&self.words, &self.nulls) {
            (KeyWords::Words(own, _) | KeyWords::Multiples(own, _, _), None) => {
                rows.zip(&own[start..]).for_each(|(words, own)| words[self.key] = *own);
            }
            _ => {
                for (row, words) in (start..).zip(rows) {
                    let own = self.word(row);
                    words[self.key] = own.unwrap_or(0);
                    words[stride - 1] |= u64::from(own.is_none()) << self.key;
                }
            }
        }
    }

    pub fn word(&self, row: usize) -> Option<u64> {
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match &self.words {
            KeyWords::Codes(codes, words) => {
                let code = usize::try_from(codes[row]).unwrap_or(usize::MAX);
                let own = if is_null { None } else { words.get(code) };
                own.or(words.last()).copied().flatten()
            }
            KeyWords::Words(_, _) | KeyWords::Multiples(_, _, _) if is_null => None,
            KeyWords::Words(words, _) | KeyWords::Multiples(words, _, _) => Some(words[row]),
        }
    }
}

/// Floats as multiples of a power of ten, if they are and groups are found by place.
fn multiples(of: &DataType, words: &[u64], nulls: Option<&NullBuffer>, text_words: &mut TextWords) -> Option<Vec<u64>> {
    let scale = text_words.scale.as_mut()?;
    #[expect(clippy::cast_possible_truncation, reason = "the word holds a float32")]
    let value = |word: &u64| match of {
        DataType::Float32 => f64::from(f32::from_bits(*word as u32)),
        _ => f64::from_bits(*word),
    };
    let mut values: Vec<f64> = match of {
        DataType::Float32 | DataType::Float64 => words.iter().map(value).collect(),
        _ => return None,
    };
    if let Some(nulls) = nulls {
        // What stands for a null is any value.
        let valid = nulls.inner().set_indices().next().map_or(0.0, |row| values[row]);
        (!nulls.inner()).set_indices().for_each(|row| values[row] = valid);
    }
    let multiples = match of {
        #[expect(clippy::cast_possible_truncation, reason = "it is compared as a float32")]
        DataType::Float32 => scale.multiples(&values, |quotient, value| quotient as f32 == value as f32),
        _ => scale.multiples(&values, |quotient, value| quotient == value),
    };
    multiples.map(|multiples| multiples.into_iter().map(i64::cast_unsigned).collect())
}

/// The least of some words, and how much greater the greatest is, where the rows are [`ROWS_OF_NUMBER`] times as many.
fn narrow(bounds: &WordBounds, rows: usize) -> Option<(u64, usize)> {
    let span = usize::try_from(bounds.greatest.wrapping_sub(bounds.least)).ok()?;
    let is_narrow = span.checked_mul(ROWS_OF_NUMBER)? < rows;
    is_narrow.then_some((bounds.least, span))
}

#[expect(clippy::cast_possible_truncation, reason = "it is at most `last`")]
fn place(number: u32, last: u16) -> u16 {
    number.min(u32::from(last)) as u16
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array, StringArray};

    use super::*;

    /// Prices have places as whole numbers do, and the words of the floats that they are; other floats have none.
    #[test]
    fn floats_that_are_multiples_have_places() {
        let prices: ArrayRef = Arc::new(Float64Array::from_iter(
            (0..400).map(|row| (row % 50 != 7).then_some(f64::from(row % 30) / 100.0 + 20.0)),
        ));
        let key = ValueKey::new(0, &prices, &mut Texts::default(), &mut TextWords::of_places()).unwrap();
        assert_eq!(key.bounds().map(|bounds| bounds.steps()), Some(29));
        let places = ValueKey::places(std::slice::from_ref(&key), 400, 1_000).unwrap();
        for row in 0..400 {
            let price = f64::from(row % 30) / 100.0 + 20.0;
            assert_eq!(key.word(row as usize), (row % 50 != 7).then_some(price.to_bits()));
            assert_eq!(places.of_rows[row as usize], if row % 50 == 7 { 30 } else { (row % 30) as u16 });
        }
        for (array, mut text_words) in [
            (prices, TextWords::default()),
            (Arc::new(Float64Array::from(vec![0.1 + 0.2])) as ArrayRef, TextWords::of_places()),
        ] {
            assert_eq!(ValueKey::new(0, &array, &mut Texts::default(), &mut text_words).unwrap().bounds(), None);
        }
    }

    /// Few rows of a large dictionary are numbered one by one, later ones by all its texts: as the texts themselves are.
    #[test]
    fn codes_have_the_numbers_of_their_texts() {
        let text = |code: i32| (code % 50 != 7).then(|| format!("T{:03}", code * 7 % 400));
        let dictionary: ArrayRef = Arc::new((0..400).map(text).collect::<StringArray>());
        let (mut texts, mut text_words) = (Texts::default(), TextWords::default());
        let (mut of_plain, mut plain_words) = (Texts::default(), TextWords::default());
        let mut first = Vec::new();
        for block in 0..40 {
            let codes: Int32Array =
                (0..23).map(|row| (row % 9 > 0).then_some((block * 31 + row * row * 17) % 400)).collect();
            let coded: ArrayRef = Arc::new(DictionaryArray::new(codes, Arc::clone(&dictionary)));
            let plain = cast(&coded, &DataType::Utf8).unwrap();
            let of_codes = ValueKey::new(0, &coded, &mut texts, &mut text_words).unwrap();
            let of_texts = ValueKey::new(0, &plain, &mut of_plain, &mut plain_words).unwrap();
            for row in 0..coded.len() {
                assert_eq!(of_codes.word(row).is_some(), of_texts.word(row).is_some());
                let number = of_codes.word(row).map(|word| texts.iter().nth(word as usize).unwrap().to_owned());
                let expected = of_texts.word(row).map(|word| of_plain.iter().nth(word as usize).unwrap().to_owned());
                assert_eq!(number, expected, "block {block}, row {row}");
            }
            first.push(matches!(of_codes.words, KeyWords::Words(_, _)));
        }
        assert!(first[0] && !first[39], "all texts are numbered once that costs less");
    }

    #[test]
    fn words_that_are_multiples_of_a_unit_are_counted_by_it() {
        const MINUTE: u64 = 60_000_000_000;
        let of = |words: &[u64]| WordBounds::of(words.iter().copied(), false).unwrap();
        let minutes = |numbers: &[i64]| -> Vec<u64> {
            numbers.iter().map(|number| (number * MINUTE.cast_signed() + 7).cast_unsigned()).collect()
        };
        let day = of(&minutes(&[3, 0, 0, -5, 6, 1_435]));
        assert_eq!((day.unit, day.steps(), day.step(minutes(&[0])[0])), (MINUTE, 1_440, 5));
        let hours = of(&minutes(&[60, 120, 600]));
        assert_eq!((hours.unit, hours.steps()), (60 * MINUTE, 9));
        // The union of both, of bounds with those of one word, and of words that are no multiples of the unit.
        assert_eq!(day.with(&hours), Some(day), "hours are minutes");
        assert_eq!(hours.with(&of(&minutes(&[180]))), Some(hours));
        assert_eq!(of(&minutes(&[180])).steps(), 0);
        assert_eq!(hours.with(&of(&minutes(&[61]))).unwrap().unit, MINUTE);
        assert_eq!(hours.with(&of(&[1])).unwrap().unit, 6);
        assert_eq!(of(&[0, 1 << 40, (1 << 41) + 1]).unit, 1);
        assert_eq!(of(&[0, 1_000, 1_000 << 30]).unit, 1, "too many steps");
        // Further by steps, not beyond what a word holds.
        let further = day.beyond(&hours, 10);
        assert_eq!((further.steps(), further.with(&day)), (1_460, Some(further)));
        let extreme = of(&[(i64::MIN + 3).cast_unsigned(), 3]);
        assert_eq!(extreme.beyond(&hours, 1).least, extreme.least);
        assert_eq!(extreme.steps(), 1);
    }

    fn narrow(words: &[u64], is_unsigned: bool) -> Option<(u64, usize)> {
        super::narrow(&WordBounds::of(words.iter().copied(), is_unsigned)?, words.len())
    }

    #[test]
    fn numbers_close_together_are_narrow_wherever_they_are() {
        let near = |base: u64| (0..64).map(|row| base.wrapping_add(row % 8)).collect::<Vec<u64>>();
        for (base, is_unsigned) in [
            (0, true),
            (0, false),
            (u64::MAX - 3, false),
            (1 << 63, false),
            ((1 << 63) - 4, true),
            (u64::MAX - 7, true),
        ] {
            assert_eq!(narrow(&near(base), is_unsigned), Some((base, 7)), "{base}");
        }
        assert_eq!(narrow(&near(u64::MAX - 3), true), None);
        assert_eq!(narrow(&near((1 << 63) - 4), false), None);
        assert_eq!(narrow(&[0, 1 << 63], false), None);
        assert_eq!(narrow(&(0..64).collect::<Vec<u64>>(), false), None);
        assert_eq!(narrow(&[], false), None);
        assert_eq!(narrow(&[7], false), Some((7, 0)));
    }
}
