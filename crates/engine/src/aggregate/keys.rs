//! Keys that have to be looked at row by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};

use super::groups::{Texts, words_of};
use super::parted::Places;
use crate::codes::is_same;
use crate::error::{Error, Result};

/// Most combinations of keys that are looked up in a table.
const PLACES_MAX: usize = 1 << 16;

/// Rows for each whole number between the least and the greatest from which on these are looked up in a table.
const ROWS_OF_NUMBER: usize = 4;

/// A key whose values differ from row to row.
pub(super) struct ValueKey {
    /// Position among the keys.
    pub key: usize,
    words: KeyWords,
    nulls: Option<NullBuffer>,
    /// How many values there can be, null among them, where that is known.
    choices: Option<usize>,
}

enum KeyWords {
    /// Codes of a dictionary, and the word of each.
    Codes(ScalarBuffer<i32>, Arc<[Option<u64>]>),
    /// The word of each row, and the least one where there are few.
    Words(Vec<u64>, u64),
}

/// The words for the texts of the dictionary that came last, and for null: blocks of one segment have the same one.
#[derive(Debug, Default)]
pub(super) struct TextWords {
    dictionary: Option<ArrayRef>,
    /// Whether the words follow from the texts, and aren't those of the texts themselves.
    computed: bool,
    words: Arc<[Option<u64>]>,
}

impl TextWords {
    /// The words of the texts of a dictionary themselves.
    pub fn of_texts(&mut self, dictionary: &ArrayRef, texts: &mut Texts) -> Result<Arc<[Option<u64>]>> {
        self.of(dictionary, false, texts, || Ok(Arc::clone(dictionary)))
    }

    /// `values` gives the key's values for the texts, and for null last, if the dictionary is another one.
    fn of(
        &mut self,
        dictionary: &ArrayRef,
        computed: bool,
        texts: &mut Texts,
        values: impl FnOnce() -> Result<ArrayRef>,
    ) -> Result<Arc<[Option<u64>]>> {
        let is_known = self.dictionary.as_ref().is_some_and(|known| is_same(known, dictionary));
        if self.computed != computed || !is_known {
            self.computed = computed;
            self.words = optional_words(&values()?, texts)?.into();
            self.dictionary = Some(Arc::clone(dictionary));
        }
        Ok(Arc::clone(&self.words))
    }
}

/// The word of each value; `None` for null.
pub(super) fn optional_words(values: &ArrayRef, texts: &mut Texts) -> Result<Vec<Option<u64>>> {
    match values.data_type() {
        DataType::Dictionary(_, of) => optional_words(&cast(values, of)?, texts),
        DataType::Utf8 => {
            Ok(values.as_string::<i32>().iter().map(|text| text.map(|text| u64::from(texts.number(text)))).collect())
        }
        _ => {
            let words = words_of(values)?.into_iter().enumerate();
            Ok(words.map(|(row, word)| values.is_valid(row).then_some(word)).collect())
        }
    }
}

impl ValueKey {
    /// A key by its value in each row.
    pub fn new(key: usize, array: &ArrayRef, texts: &mut Texts, known: &mut TextWords) -> Result<ValueKey> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else {
                return Err(Error::Unsupported(format!("groups by a dictionary of {}", dictionary.keys().data_type())));
            };
            let values = || {
                let values = dictionary.values();
                Ok(arrow::compute::concat(&[values, &arrow::array::new_null_array(values.data_type(), 1)])?)
            };
            let words = known.of(dictionary.values(), false, texts, values)?;
            return Ok(ValueKey::coded(key, dictionary, words));
        }
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let (words, range) = match array.data_type() {
            DataType::Utf8 => {
                let values = array.as_string::<i32>().iter();
                (values.map(|value| value.map_or(0, |value| u64::from(texts.number(value)))).collect(), None)
            }
            DataType::Boolean => (words_of(array)?, Some((0, 1))),
            of if of.is_integer() || *of == DataType::Date32 => {
                let words = words_of(array)?;
                let range = narrow(&words, of.is_unsigned_integer());
                (words, range)
            }
            _ => (words_of(array)?, None),
        };
        let (least, choices) = range.map_or((0, None), |(least, span)| (least, Some(span + 2)));
        Ok(ValueKey { key, words: KeyWords::Words(words, least), nulls, choices })
    }

    /// A key that follows from codes. `values` gives its value for each text of their dictionary, and for null last.
    pub fn of_codes(
        key: usize,
        codes: &DictionaryArray<Int32Type>,
        texts: &mut Texts,
        known: &mut TextWords,
        values: impl FnOnce() -> Result<ArrayRef>,
    ) -> Result<ValueKey> {
        let words = known.of(codes.values(), true, texts, values)?;
        Ok(ValueKey::coded(key, codes, words))
    }

    fn coded(key: usize, codes: &DictionaryArray<Int32Type>, words: Arc<[Option<u64>]>) -> ValueKey {
        let nulls = codes.keys().nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let choices = Some(words.len());
        ValueKey { key, words: KeyWords::Codes(codes.keys().values().clone(), words), nulls, choices }
    }

    /// Small numbers for the values of the rows of several keys together; `None` if there may be many. The last number of a
    /// key is null's.
    pub fn places(values: &[ValueKey], rows: usize) -> Option<Places> {
        let choices = values.iter().try_fold(1usize, |all, value| all.checked_mul(value.choices?))?;
        if choices > PLACES_MAX {
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
        Some(Places { of_rows, choices })
    }

    /// The number of each row's value.
    fn begin(&self, places: &mut Vec<u16>) {
        let last = self.last();
        match &self.words {
            KeyWords::Codes(codes, _) => places.extend(codes.iter().map(|code| place(code.cast_unsigned(), last))),
            KeyWords::Words(words, least) => {
                let number = |word: &u64| u32::try_from(word.wrapping_sub(*least)).unwrap_or(u32::MAX);
                places.extend(words.iter().map(|word| place(number(word), last)));
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

    /// The number for null.
    fn last(&self) -> u16 {
        u16::try_from(self.choices.unwrap_or(0).saturating_sub(1)).unwrap_or(u16::MAX)
    }

    pub fn word(&self, row: usize) -> Option<u64> {
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match &self.words {
            KeyWords::Codes(codes, words) => {
                let code = usize::try_from(codes[row]).unwrap_or(usize::MAX);
                let own = if is_null { None } else { words.get(code) };
                own.or(words.last()).copied().flatten()
            }
            KeyWords::Words(_, _) if is_null => None,
            KeyWords::Words(words, _) => Some(words[row]),
        }
    }
}

/// The least of the words of whole numbers, and how much greater the greatest is, where the rows are [`ROWS_OF_NUMBER`] times as many.
fn narrow(words: &[u64], is_unsigned: bool) -> Option<(u64, usize)> {
    // So that unsigned numbers compare as signed ones do.
    let flip = if is_unsigned { 1 << 63 } else { 0 };
    let signed = |word: &u64| (word ^ flip).cast_signed();
    let (least, greatest) = (words.iter().map(signed).min()?, words.iter().map(signed).max()?);
    let span = usize::try_from(greatest.checked_sub(least)?).ok()?;
    let is_narrow = span.checked_mul(ROWS_OF_NUMBER)? < words.len();
    is_narrow.then_some((least.cast_unsigned() ^ flip, span))
}

#[expect(clippy::cast_possible_truncation, reason = "it is at most `last`")]
fn place(number: u32, last: u16) -> u16 {
    number.min(u32::from(last)) as u16
}

#[cfg(test)]
mod tests {
    use super::narrow;

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
