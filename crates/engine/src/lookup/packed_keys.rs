//! Keys of several columns as one word per row, for lookup tables.
//!
//! - Each value of a column has a code: its distance from the least value (`word_units.rs`) or, for texts and for
//!   values that are far apart, the position of its first occurrence. The codes of a row are packed into its word.
//! - Invariant: two rows of the table have the same word if and only if their keys are equal. A key that no row of the
//!   table can have gets [`NO_WORD`].
//! - If the codes of some columns fill the word, the words so far are numbered, and their numbers take the place of
//!   these codes.

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Int32Type};

use super::{KeyRows, is_text, plain};
use crate::error::{Error, Result};
use crate::key_words::words_of;
use crate::parallel;
use crate::rows_by_word::{MISSING, RowsByWord};
use crate::word_units::WordUnits;

/// In the place of a word of a key that no row has.
const NO_WORD: u64 = u64::MAX;

/// Most bits of a word, so that none is [`NO_WORD`].
const WORD_BITS_MAX: u32 = u64::BITS - 1;

/// Most bits of a row's number.
const ROW_BITS_MAX: u32 = 31;

/// The first row of each key of several columns.
#[derive(Debug)]
pub(crate) struct RowsByKeys {
    columns: Vec<KeyColumn>,
    rows: RowsByWord,
}

/// A column of a key.
#[derive(Debug)]
struct KeyColumn {
    /// Numbers of the words of the columns before, where these leave no room for this one's codes.
    numbers: Option<RowsByWord>,
    codes: Codes,
    /// Bits of a code.
    bits: u32,
}

#[derive(Debug)]
enum Codes {
    /// Distances from the least value, up to that of the greatest.
    Distances { data_type: DataType, units: WordUnits, greatest: u64 },
    /// The first position of a value among those of the table.
    Positions(KeyRows),
}

impl RowsByKeys {
    /// The first row of each key.
    ///
    /// # Errors
    /// [`Error::RepeatedKey`] if a key has several rows, unless keys `may_repeat`.
    pub fn new(keys: &[ArrayRef], may_repeat: bool, threads: usize) -> Result<RowsByKeys> {
        let rows = keys.first().map_or(0, |key| key.len());
        let row_bits = bits_below(rows as u64);
        if row_bits > ROW_BITS_MAX {
            return Err(Error::Unsupported("a join by several keys with so many rows".to_owned()));
        }
        let (mut columns, mut words, mut bits) = (Vec::with_capacity(keys.len()), vec![0; rows], 0);
        for key in keys {
            let (codes, code_bits) = Codes::new(key, WORD_BITS_MAX.saturating_sub(bits).max(row_bits), threads)?;
            let numbers = if bits + code_bits > WORD_BITS_MAX {
                bits = row_bits;
                Some(RowsByWord::new(&words, nulls_of(&words).as_ref(), true, threads)?)
            } else {
                None
            };
            bits += code_bits;
            let column = KeyColumn { numbers, codes, bits: code_bits };
            words = parallel::by_rows(rows, threads, |rows| {
                column.add(&words[rows.clone()], &key.slice(rows.start, rows.len()))
            })?;
            columns.push(column);
        }
        let rows = RowsByWord::new(&words, nulls_of(&words).as_ref(), may_repeat, threads)?;
        Ok(RowsByKeys { columns, rows })
    }

    /// Columns of a key.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Whether a key has several rows.
    pub fn repeats(&self) -> bool {
        self.rows.repeats()
    }

    /// The first row of each key, or [`MISSING`].
    pub fn find(&self, keys: &[ArrayRef]) -> Result<Vec<u32>> {
        let mut words = vec![0; keys.first().map_or(0, |key| key.len())];
        for (column, key) in self.columns.iter().zip(keys) {
            words = column.add(&words, key)?;
        }
        Ok(self.rows.find(&words))
    }
}

impl KeyColumn {
    /// The words of the columns before with the codes of this one's values behind.
    fn add(&self, words: &[u64], keys: &ArrayRef) -> Result<Vec<u64>> {
        let numbers = self.numbers.as_ref().map(|numbers| numbers.find(words));
        let numbers = numbers.map(|rows| rows.into_iter().map(code).collect::<Vec<u64>>());
        let words = numbers.as_deref().unwrap_or(words);
        let with = |(word, code): (&u64, u64)| match (*word, code) {
            (NO_WORD, _) | (_, NO_WORD) => NO_WORD,
            (word, code) => word << self.bits | code,
        };
        let mut words: Vec<u64> = match &self.codes {
            Codes::Distances { data_type, units, greatest } => {
                if *data_type != plain(keys.data_type()) {
                    return Err(Error::Unsupported(format!("a join by a {}", keys.data_type())));
                }
                let code = |distance: u64| if distance <= *greatest { distance } else { NO_WORD };
                words.iter().zip(units.map(&words_of(keys)?, code)).map(with).collect()
            }
            Codes::Positions(rows) => words.iter().zip(rows.find(keys)?.into_iter().map(code)).map(with).collect(),
        };
        if let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
            (!nulls.inner()).set_indices().for_each(|row| words[row] = NO_WORD);
        }
        Ok(words)
    }
}

impl Codes {
    /// Codes for some values, and how many bits they have: of distances at most `bits_max`.
    fn new(keys: &ArrayRef, bits_max: u32, threads: usize) -> Result<(Codes, u32)> {
        if !is_text(keys.data_type()) {
            let nulls = keys.nulls().filter(|nulls| nulls.null_count() > 0);
            let units = WordUnits::of(&words_of(keys)?, nulls, keys.len());
            if let Some(greatest) = units.greatest()
                && let Some(bits) = greatest.checked_add(1).map(bits_below).filter(|bits| *bits <= bits_max)
            {
                return Ok((Codes::Distances { data_type: plain(keys.data_type()), units, greatest }, bits));
            }
        }
        // The texts of a dictionary are fewer than its rows.
        let dictionary = keys.as_dictionary_opt::<Int32Type>().map(DictionaryArray::values);
        let values = dictionary.filter(|texts| texts.len() < keys.len()).unwrap_or(keys);
        Ok((Codes::Positions(KeyRows::new(values, true, threads)?), bits_below(values.len() as u64)))
    }
}

/// The code of a value at a position.
fn code(row: u32) -> u64 {
    if row == MISSING { NO_WORD } else { u64::from(row) }
}

/// Bits of the numbers below another one.
fn bits_below(end: u64) -> u32 {
    u64::BITS - end.saturating_sub(1).leading_zeros()
}

/// Null where there is no word.
fn nulls_of(words: &[u64]) -> Option<NullBuffer> {
    let has = BooleanBuffer::collect_bool(words.len(), |row| words[row] != NO_WORD);
    Some(NullBuffer::new(has)).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray, TimestampNanosecondArray};
    use arrow::compute::concat;
    use proptest::prelude::*;

    use super::*;

    /// Columns of few and of many values: near and far numbers, floats, times, texts, texts of a dictionary.
    fn column(kind: u8, values: &[Option<u8>]) -> ArrayRef {
        let far = |value: u8| i64::from(value).wrapping_mul(0x0123_4567_89ab_cdef);
        let text = |value: u8| format!("t{}", value % 50);
        match kind {
            0 => {
                Arc::new(values.iter().map(|value| value.map(|value| i64::from(value % 7) - 3)).collect::<Int64Array>())
            }
            1 => Arc::new(values.iter().map(|value| value.map(far)).collect::<Int64Array>()),
            2 => {
                Arc::new(values.iter().map(|value| value.map(|value| f64::from(value) / 8.0)).collect::<Float64Array>())
            }
            3 => {
                let times = values.iter().map(|value| value.map(|value| i64::from(value) * 3_600_000_000_000));
                Arc::new(times.collect::<TimestampNanosecondArray>())
            }
            4 => Arc::new(values.iter().map(|value| value.map(text)).collect::<StringArray>()),
            _ => {
                let texts: Vec<Option<String>> = values.iter().map(|value| value.map(text)).collect();
                Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_row_of_each_key_is_found(
            kinds in prop::collection::vec(0u8..6, 2..6),
            rows in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, 0u8..4), 5), 0..60),
            probes in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, 0u8..5), 5), 0..60),
            spread in 1u8..40,
            threads in 1usize..3,
        ) {
            let values = |rows: &[Vec<Option<u8>>], place: usize| -> Vec<Option<u8>> {
                rows.iter().map(|row| row[place].map(|value| value.wrapping_mul(spread))).collect()
            };
            let columns = |rows: &[Vec<Option<u8>>]| -> Vec<ArrayRef> {
                kinds.iter().enumerate().map(|(place, kind)| column(*kind, &values(rows, place))).collect()
            };
            let (keys, others) = (columns(&rows), columns(&probes));
            // Those that are there, and others.
            let probe_columns: Vec<ArrayRef> =
                keys.iter().zip(&others).map(|(key, other)| concat(&[key, other]).unwrap()).collect();
            let shown = |columns: &[ArrayRef], row: usize| -> Option<Vec<String>> {
                columns.iter().map(|column| {
                    let value = arrow::util::display::array_value_to_string(column, row).unwrap();
                    column.logical_nulls().is_none_or(|nulls| nulls.is_valid(row)).then_some(value)
                }).collect()
            };
            let mut firsts: HashMap<Vec<String>, u32> = HashMap::new();
            let mut repeats = false;
            for (row, number) in (0..rows.len()).zip(0u32..) {
                if let Some(key) = shown(&keys, row) {
                    repeats |= *firsts.entry(key).or_insert(number) != number;
                }
            }
            let expected: Vec<u32> = (0..rows.len() + probes.len())
                .map(|row| shown(&probe_columns, row).and_then(|key| firsts.get(&key).copied()).unwrap_or(MISSING))
                .collect();
            let table = RowsByKeys::new(&keys, true, threads).unwrap();
            prop_assert_eq!(table.find(&probe_columns).unwrap(), expected);
            prop_assert_eq!(table.repeats(), repeats);
            prop_assert_eq!(RowsByKeys::new(&keys, false, threads).is_err(), repeats);
        }
    }

    #[test]
    fn a_full_word_is_replaced_by_its_number() {
        let rows: i32 = 70_000;
        let far = |factor: i64| -> ArrayRef {
            // The squares leave no unit but one.
            let value = |number: i64| number.wrapping_mul(factor).wrapping_add(number * number);
            Arc::new((0..rows).map(|row| value(i64::from(row % 300))).collect::<Int64Array>())
        };
        let own: ArrayRef = Arc::new((0..rows).map(i64::from).collect::<Int64Array>());
        // 59 bits each, and 17 for the row.
        let keys = [far(1 << 50), far(1 << 51), own];
        for threads in [1, 2] {
            let table = RowsByKeys::new(&keys, false, threads).unwrap();
            assert_eq!(table.columns.iter().filter(|column| column.numbers.is_some()).count(), 1);
            assert_eq!(table.find(&keys).unwrap(), (0..rows.unsigned_abs()).collect::<Vec<u32>>());
        }
    }
}
