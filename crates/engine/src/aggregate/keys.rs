//! Keys that have to be looked at row by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Int32Type};

use super::groups::{Texts, words_of};
use crate::error::{Error, Result};

/// Most combinations of keys that are looked up in a table.
const PLACES_MAX: usize = 1 << 16;

/// A key whose values differ from row to row.
pub(super) struct ValueKey {
    /// Position among the keys.
    pub key: usize,
    words: KeyWords,
    nulls: Option<NullBuffer>,
    /// How many values there can be, null among them, where that is known.
    pub choices: Option<usize>,
}

enum KeyWords {
    /// Codes of a dictionary, and the word of each.
    Codes(ScalarBuffer<i32>, Arc<[u32]>),
    Words(Vec<u64>),
}

/// The numbers of the texts of the dictionary that came last: blocks of one segment have the same one.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    values: Option<ArrayRef>,
    numbers: Arc<[u32]>,
}

impl Numbered {
    fn of(&mut self, values: &ArrayRef, texts: &mut Texts) -> Result<Arc<[u32]>> {
        let is_known = self.values.as_ref().is_some_and(|known| known.to_data().ptr_eq(&values.to_data()));
        if !is_known {
            let Some(array) = values.as_string_opt::<i32>() else {
                return Err(Error::Unsupported(format!("groups by a dictionary of {}", values.data_type())));
            };
            self.numbers = array.iter().map(|value| value.map_or(0, |value| texts.number(value))).collect();
            self.values = Some(Arc::clone(values));
        }
        Ok(Arc::clone(&self.numbers))
    }
}

impl ValueKey {
    pub fn new(key: usize, array: &ArrayRef, texts: &mut Texts, numbered: &mut Numbered) -> Result<ValueKey> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let Some(codes) = dictionary.keys().as_primitive_opt::<Int32Type>() else {
                return Err(Error::Unsupported(format!("groups by a {}", array.data_type())));
            };
            let numbers = numbered.of(dictionary.values(), texts)?;
            let choices = Some(numbers.len() + 1);
            return Ok(ValueKey { key, words: KeyWords::Codes(codes.values().clone(), numbers), nulls, choices });
        }
        let (words, choices) = match array.data_type() {
            DataType::Utf8 => {
                let values = array.as_string::<i32>().iter();
                (values.map(|value| value.map_or(0, |value| u64::from(texts.number(value)))).collect(), None)
            }
            DataType::Boolean => (words_of(array)?, Some(3)),
            _ => (words_of(array)?, None),
        };
        Ok(ValueKey { key, words: KeyWords::Words(words), nulls, choices })
    }

    /// Small numbers for the values of the rows of several keys together, and how many there can be; `None` if there may be
    /// many. The last number of a key is null's.
    pub fn places(values: &[ValueKey], rows: usize) -> Option<(Vec<u32>, usize)> {
        let choices = values.iter().try_fold(1usize, |all, value| all.checked_mul(value.choices?))?;
        if choices > PLACES_MAX {
            return None;
        }
        let mut places = vec![0; rows];
        values.iter().for_each(|value| value.add_codes(&mut places));
        Some((places, choices))
    }

    fn add_codes(&self, places: &mut [u32]) {
        let stride = u32::try_from(self.choices.unwrap_or(0)).unwrap_or(0);
        let last = stride.saturating_sub(1);
        match &self.words {
            KeyWords::Codes(codes, _) => {
                for (place, code) in places.iter_mut().zip(codes.iter()) {
                    *place = *place * stride + code.cast_unsigned().min(last);
                }
            }
            KeyWords::Words(words) => {
                for (place, word) in places.iter_mut().zip(words) {
                    *place = *place * stride + u32::try_from(*word).unwrap_or(last).min(last);
                }
            }
        }
        if let Some(nulls) = &self.nulls {
            for row in (!nulls.inner()).set_indices() {
                places[row] = places[row] / stride * stride + last;
            }
        }
    }

    pub fn word(&self, row: usize) -> Option<u64> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match &self.words {
            KeyWords::Codes(codes, numbers) => u64::from(numbers[usize::try_from(codes[row]).unwrap_or(0)]),
            KeyWords::Words(words) => words[row],
        })
    }
}
