//! Small tables that values are looked up in, as a join to a list of values or to a small table does.
//!
//! The columns of the table are constants, of which each run may bring others. A key that is there twice would make two rows of one: such
//! a table is refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use hashbrown::HashMap;

use crate::aggregate::words_of;
use crate::error::{Error, Result};
use crate::per_run::PerRun;

/// In the place of a row where there is none.
const MISSING: u32 = u32::MAX;

/// Rows by a key that each has for itself.
#[derive(Debug)]
pub struct LookupTable {
    /// Number of the constant that holds the keys.
    keys: usize,
    /// Numbers of the constants that hold the columns.
    columns: Vec<usize>,
    rows: PerRun<Rows>,
}

/// Rows by key. One without a key is never found.
#[derive(Debug)]
enum Rows {
    Texts(HashMap<String, u32>),
    Words(DataType, HashMap<u64, u32>),
    /// Words close together: the least, and for each from there on its row, or [`MISSING`].
    Places(DataType, u64, Vec<u32>),
}

/// Places for each key up to which rows are found by place.
const PLACES_OF_KEY_MAX: usize = 4;

impl LookupTable {
    /// A table of constants by their numbers.
    #[must_use]
    pub fn new(keys: usize, columns: Vec<usize>) -> LookupTable {
        LookupTable { keys, columns, rows: PerRun::default() }
    }

    /// Whether keys of two types are found by each other.
    #[must_use]
    pub fn takes(one: &DataType, other: &DataType) -> bool {
        let is_word = match one {
            DataType::Boolean | DataType::Date32 | DataType::Float32 | DataType::Float64 => true,
            DataType::Decimal128(_, _) => true,
            DataType::Timestamp(unit, _) | DataType::Time64(unit) => *unit == TimeUnit::Nanosecond,
            other => other.is_integer(),
        };
        is_word && plain(one) == plain(other) || is_text(one) && is_text(other)
    }

    /// Whether each key is there once.
    #[must_use]
    pub fn are_unique(keys: &ArrayRef) -> bool {
        Rows::new(keys).is_ok()
    }

    /// The row of each key; null where there is none.
    fn find(&self, keys: &ArrayRef, constants: &[ArrayRef]) -> Result<UInt32Array> {
        let of = &constants[self.keys];
        self.rows.get(of, || Rows::new(of))?.find(keys)
    }

    /// Whether there is a row for each key.
    pub(crate) fn has(&self, keys: &ArrayRef, constants: &[ArrayRef]) -> Result<ArrayRef> {
        let rows = self.find(keys, constants)?;
        let found = rows.nulls().map_or_else(|| BooleanBuffer::new_set(rows.len()), |nulls| nulls.inner().clone());
        Ok(Arc::new(BooleanArray::new(found, None)))
    }

    /// A column's texts for each key, as codes; `None` of other columns.
    pub(crate) fn coded(&self, keys: &ArrayRef, column: usize, constants: &[ArrayRef]) -> Result<Option<ArrayRef>> {
        let texts = &constants[self.columns[column]];
        if *texts.data_type() != DataType::Utf8 {
            return Ok(None);
        }
        let rows = self.find(keys, constants)?;
        let codes = cast(&rows, &DataType::Int32)?;
        Ok(Some(Arc::new(DictionaryArray::try_new(codes.as_primitive::<Int32Type>().clone(), Arc::clone(texts))?)))
    }

    /// A column's values for each key.
    pub(crate) fn column(&self, keys: &ArrayRef, column: usize, constants: &[ArrayRef]) -> Result<ArrayRef> {
        let rows = self.find(keys, constants)?;
        Ok(take(&constants[self.columns[column]], &rows, None)?)
    }
}

impl Rows {
    fn new(keys: &ArrayRef) -> Result<Rows> {
        let twice = || Error::Unsupported("a join to a table in which a key is there twice".to_owned());
        if is_text(keys.data_type()) {
            let keys = cast(keys, &DataType::Utf8)?;
            let mut rows = HashMap::with_capacity(keys.len());
            for (key, row) in keys.as_string::<i32>().iter().zip(0..) {
                if key.is_some_and(|key| rows.insert(key.to_owned(), row).is_some()) {
                    return Err(twice());
                }
            }
            return Ok(Rows::Texts(rows));
        }
        let words = words_of(keys)?;
        let words: Vec<(u64, u32)> =
            words.into_iter().zip(0..).enumerate().filter(|(at, _)| keys.is_valid(*at)).map(|(_, key)| key).collect();
        if let Some((least, places)) = places(&words) {
            let mut rows = vec![MISSING; places];
            for (word, row) in words {
                let place = usize::try_from(word.wrapping_sub(least)).unwrap_or(usize::MAX);
                if std::mem::replace(&mut rows[place], row) != MISSING {
                    return Err(twice());
                }
            }
            return Ok(Rows::Places(plain(keys.data_type()), least, rows));
        }
        let mut rows = HashMap::with_capacity(words.len());
        for (word, row) in words {
            if rows.insert(word, row).is_some() {
                return Err(twice());
            }
        }
        Ok(Rows::Words(plain(keys.data_type()), rows))
    }

    fn find(&self, keys: &ArrayRef) -> Result<UInt32Array> {
        let refused = || Error::Unsupported(format!("a join by a {}", keys.data_type()));
        match self {
            Rows::Texts(rows) => {
                let row = |text: Option<&str>| text.and_then(|text| rows.get(text).copied());
                if let Some(coded) = keys.as_dictionary_opt::<Int32Type>() {
                    // Each text is looked up once.
                    let texts = coded.values().as_string_opt::<i32>().ok_or_else(refused)?;
                    let of_code: UInt32Array = texts.iter().map(row).collect();
                    return Ok(take(&of_code, coded.keys(), None)?.as_primitive().clone());
                }
                Ok(keys.as_string_opt::<i32>().ok_or_else(refused)?.iter().map(row).collect())
            }
            Rows::Words(data_type, rows) if *data_type == plain(keys.data_type()) => {
                Ok(found(keys, words_of(keys)?.iter().map(|word| rows.get(word).copied().unwrap_or(MISSING))))
            }
            Rows::Places(data_type, least, rows) if *data_type == plain(keys.data_type()) => {
                let row = |word: &u64| {
                    let place = usize::try_from(word.wrapping_sub(*least)).unwrap_or(usize::MAX);
                    rows.get(place).copied().unwrap_or(MISSING)
                };
                Ok(found(keys, words_of(keys)?.iter().map(row)))
            }
            Rows::Words(_, _) | Rows::Places(_, _, _) => Err(refused()),
        }
    }
}

/// The rows of keys, null for those that have none and for those that are null.
fn found(keys: &ArrayRef, rows: impl Iterator<Item = u32>) -> UInt32Array {
    let mut found: Vec<u32> = rows.collect();
    let has = BooleanBuffer::collect_bool(found.len(), |at| found[at] != MISSING && keys.is_valid(at));
    found.iter_mut().filter(|row| **row == MISSING).for_each(|row| *row = 0);
    UInt32Array::new(found.into(), Some(NullBuffer::new(has)))
}

/// The least of some words, and how many places there are from it to the greatest; `None` if these are far more than there are words.
fn places(words: &[(u64, u32)]) -> Option<(u64, usize)> {
    let (first, _) = words.first()?;
    // Of negative numbers, too, the differences are small.
    let far = |(word, _): &(u64, u32)| word.wrapping_sub(*first).cast_signed();
    let (below, above) = (words.iter().map(far).min()?, words.iter().map(far).max()?);
    let places = usize::try_from(above.checked_sub(below)?).ok()?.checked_add(1)?;
    (places <= words.len().checked_mul(PLACES_OF_KEY_MAX)?).then(|| (first.wrapping_add_signed(below), places))
}

/// A type without its time zone: instants are equal whatever it is.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn rows_are_found_by_numbers_and_texts() {
        let fees: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5]));
        let numbers = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let texts = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let cases = [
            (numbers(&[Some(-2), None, Some(3)]), numbers(&[Some(3), None, Some(4), Some(-2)])),
            (
                numbers(&[Some(i64::MAX), None, Some(i64::MIN)]),
                numbers(&[Some(i64::MIN), None, Some(0), Some(i64::MAX)]),
            ),
            (numbers(&[Some(-7), None, Some(3)]), numbers(&[Some(3), None, Some(4), Some(-7)])),
            (texts(&[Some("a"), None, Some("c")]), texts(&[Some("c"), None, Some("x"), Some("a")])),
        ];
        for (keys, asked) in cases {
            let table = LookupTable::new(1, vec![0]);
            let constants = [Arc::clone(&fees), keys];
            let found = table.column(&asked, 0, &constants).unwrap();
            let found: Vec<Option<f64>> = found.as_primitive::<arrow::datatypes::Float64Type>().iter().collect();
            assert_eq!(found, [Some(2.5), None, None, Some(0.5)]);
            let has = table.has(&asked, &constants).unwrap();
            assert_eq!(has.as_boolean().values().iter().collect::<Vec<_>>(), [true, false, false, true]);
        }
        assert!(!LookupTable::are_unique(&numbers(&[Some(1), Some(1)])));
        assert!(LookupTable::are_unique(&numbers(&[None, None])), "null is no key");
    }
}
