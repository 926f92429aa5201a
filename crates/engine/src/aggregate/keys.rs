//! Keys that have to be looked at row by row.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int32Type};

use super::groups::{Texts, words_of};
use crate::error::{Error, Result};

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
    Codes(Vec<i32>, Vec<u32>),
    Words(Vec<u64>),
}

impl ValueKey {
    pub fn new(key: usize, array: &ArrayRef, texts: &mut Texts) -> Result<ValueKey> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let codes = dictionary.keys().as_primitive_opt::<Int32Type>();
            let values = dictionary.values().as_string_opt::<i32>();
            let (Some(codes), Some(values)) = (codes, values) else {
                return Err(Error::Unsupported(format!("groups by a {}", array.data_type())));
            };
            let numbers: Vec<u32> = values.iter().map(|value| value.map_or(0, |value| texts.number(value))).collect();
            let choices = Some(numbers.len() + 1);
            return Ok(ValueKey { key, words: KeyWords::Codes(codes.values().to_vec(), numbers), nulls, choices });
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

    pub fn stride(&self) -> usize {
        self.choices.unwrap_or(0)
    }

    /// A small number for the value of a row; the last one is null's.
    pub fn code(&self, row: usize) -> usize {
        let last = self.stride().saturating_sub(1);
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return last;
        }
        match &self.words {
            KeyWords::Codes(codes, _) => usize::try_from(codes[row]).unwrap_or(last).min(last),
            KeyWords::Words(words) => usize::try_from(words[row]).unwrap_or(last).min(last),
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
