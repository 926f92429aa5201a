//! Lists of constants, as in `IN`: tested by hash, whatever the length of the list.
//!
//! The constant holds all values of the list. A run builds the table at its first test and caches it as long as its
//! constants live. Numbers are found by a bit each, or as in a join's lookup table (`rows_by_word.rs`). Values are equal if
//! their bits are, after floats are brought to one form of zero and NaN: so `IN` finds what a chain of `=` finds.
//!
//! The list of a join's keys is a hint: it narrows what is read, and rows that the join leaves out anyway may pass. It is
//! tested no longer once most rows pass, and not at all if it is long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int32Array, new_empty_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, IntervalUnit, TimeUnit};
use hashbrown::HashSet;

use crate::compare;
use crate::error::{Error, Result};
use crate::key_words::words_of;
use crate::own_type::own_list;
use crate::per_run::PerRun;
use crate::rows_by_word::{MISSING, RowsByWord};
use crate::word_units::WordUnits;

/// Number of values up to which a list is searched linearly.
const SHORT_MAX: usize = 8;

/// Bits of a bit set that are always allowed, and those for each value.
const BITS_MIN: usize = 1 << 20;
const BITS_OF_VALUE_MAX: usize = 128;

/// Most values of a hint that is tested: a table of these stays in the cache.
const HINT_VALUES_MAX: usize = 1 << 18;

/// Rows that show how many of all pass a hint, and the part of them, as a divisor, up to which the hint is tested further.
const HINT_ROWS: usize = 1 << 16;
const HINT_PART_MAX: usize = 2;

/// A list of constants.
#[derive(Debug)]
pub struct ValueList {
    constant: usize,
    is_hint: bool,
    tables: PerRun<ListTable>,
    /// Tables for values of types narrower than the list's.
    own_tables: PerRun<Option<ListTable>>,
}

impl ValueList {
    /// A list of the values of a constant, which is an array.
    #[must_use]
    pub fn new(constant: usize) -> ValueList {
        ValueList { constant, is_hint: false, tables: PerRun::default(), own_tables: PerRun::default() }
    }

    /// The list of the keys of a join: rows with others may pass.
    #[must_use]
    pub fn hint(constant: usize) -> ValueList {
        ValueList { is_hint: true, ..ValueList::new(constant) }
    }

    /// Number of the constant that holds the values.
    pub(crate) fn constant(&self) -> usize {
        self.constant
    }

    /// Whether values of a type can be looked up.
    #[must_use]
    pub fn takes(data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8 | DataType::Boolean | DataType::Date32 | DataType::Decimal128(_, _) => true,
            DataType::Float32 | DataType::Float64 => true,
            DataType::Timestamp(_, _) => true,
            DataType::Time64(unit) => *unit == TimeUnit::Nanosecond,
            DataType::Interval(unit) => *unit == IntervalUnit::MonthDayNano,
            DataType::Dictionary(_, values) => **values == DataType::Utf8,
            other => other.is_integer(),
        }
    }

    /// The values of the list.
    pub(crate) fn values<'a>(&self, constants: &'a [ArrayRef]) -> &'a ArrayRef {
        &constants[self.constant]
    }

    /// Whether the list contains each value, for values of a narrower type than the list's: instead of widening them, it compares them with the
    /// constants that their type can hold. `None` if the types don't allow it.
    pub(crate) fn contains_own(&self, values: &ArrayRef, constants: &[ArrayRef]) -> Result<Option<ArrayRef>> {
        let (list, own) = (self.values(constants), values.data_type());
        if self.is_hint && distinct_max(list) > HINT_VALUES_MAX {
            return Ok(Some(all(values.len())));
        }
        if list.is_empty() || own == list.data_type() {
            return Ok(None);
        }
        let table = self.own_tables.get(list, || own_list(own, list)?.map(|list| ListTable::new(&list)).transpose())?;
        match table.as_ref() {
            Some(table) if table.list.data_type() == own => self.tested(table, values).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether the list contains each value: null for null, and for values that aren't found in a list with a null.
    pub(crate) fn contains(&self, values: &ArrayRef, constants: &[ArrayRef]) -> Result<ArrayRef> {
        let list = self.values(constants);
        if list.is_empty() {
            // An empty list contains nothing, not even null.
            return Ok(Arc::new(BooleanArray::new(BooleanBuffer::new_unset(values.len()), None)));
        }
        if !are_alike(values.data_type(), list.data_type()) {
            return Err(Error::Unsupported(format!("a {} in a list of {}", values.data_type(), list.data_type())));
        }
        if self.is_hint && distinct_max(list) > HINT_VALUES_MAX {
            return Ok(all(values.len()));
        }
        self.tested(self.tables.get(list, || ListTable::new(list))?.as_ref(), values)
    }

    fn tested(&self, table: &ListTable, values: &ArrayRef) -> Result<ArrayRef> {
        if !self.is_hint {
            return Ok(Arc::new(table.contains(values)?));
        }
        // Relaxed: whatever is tested, the join gives the same rows.
        let (tested, passed) = (&table.tested, &table.passed);
        let rows = tested.load(Ordering::Relaxed);
        if rows >= HINT_ROWS && passed.load(Ordering::Relaxed) > rows / HINT_PART_MAX {
            return Ok(all(values.len()));
        }
        let contains = table.contains(values)?;
        tested.fetch_add(contains.len(), Ordering::Relaxed);
        passed.fetch_add(contains.true_count(), Ordering::Relaxed);
        Ok(Arc::new(contains))
    }
}

/// Most values that a list can have which differ.
fn distinct_max(list: &ArrayRef) -> usize {
    list.as_any_dictionary_opt().map_or(list.len(), |coded| coded.values().len().saturating_add(1).min(list.len()))
}

/// The values of a list, and null if it has nulls. Of a dictionary each once, however often its code occurs.
fn plain(list: &ArrayRef) -> Result<ArrayRef> {
    let Some(coded) = list.as_dictionary_opt::<Int32Type>() else {
        return Ok(match list.data_type() {
            DataType::Dictionary(_, values) => arrow::compute::cast(list, values)?,
            _ => Arc::clone(list),
        });
    };
    let (keys, mut occurs) = (coded.keys(), vec![false; coded.values().len()]);
    for row in 0..keys.len() {
        if keys.is_valid(row)
            && let Ok(code) = usize::try_from(keys.value(row))
            && let Some(occurs) = occurs.get_mut(code)
        {
            *occurs = true;
        }
    }
    let codes = (0i32..).zip(&occurs).filter(|(_, occurs)| **occurs).map(|(code, _)| Some(code));
    let null = (keys.null_count() > 0).then_some(None);
    Ok(take(coded.values(), &codes.chain(null).collect::<Int32Array>(), None)?)
}

fn all(rows: usize) -> ArrayRef {
    Arc::new(BooleanArray::new(BooleanBuffer::new_set(rows), None))
}

/// Whether values of two types are equal if their bits are.
fn are_alike(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Dictionary(_, values), other) | (other, DataType::Dictionary(_, values)) => are_alike(values, other),
        (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
        (one, other) => one == other,
    }
}

#[derive(Debug)]
struct ListTable {
    /// The values of a short list; empty for others.
    list: ArrayRef,
    entries: Entries,
    has_null: bool,
    /// Rows that were tested, and those that passed.
    tested: AtomicUsize,
    passed: AtomicUsize,
}

#[derive(Debug)]
enum Entries {
    Short(Vec<u64>),
    Words(RowsByWord),
    /// For words in a small range: a bit for each distance, and an unset one behind the greatest.
    Bits(WordUnits, BooleanBuffer),
    Decimals(HashSet<i128>),
    /// The empty text stands apart: an empty `Box<str>` has no bytes that can be read, and comparing with it is slow.
    Texts {
        has_empty: bool,
        others: HashSet<Box<str>>,
    },
}

/// A bit set for words in a small range; `None` for other words.
fn bits(words: &[u64]) -> Option<Entries> {
    let limit = words.len().saturating_mul(BITS_OF_VALUE_MAX).max(BITS_MIN);
    let units = WordUnits::of(words, None, limit);
    let count = units.count().filter(|count| *count <= limit)?;
    let mut bits = BooleanBufferBuilder::new(count + 1);
    bits.append_n(count + 1, false);
    for word in words {
        bits.set_bit(usize::try_from(units.distance(*word)).ok()?, true);
    }
    Some(Entries::Bits(units, bits.finish()))
}

impl ListTable {
    fn new(list: &ArrayRef) -> Result<ListTable> {
        let list = plain(list)?;
        let entries = match list.data_type() {
            DataType::Utf8 => {
                let texts = || list.as_string::<i32>().iter().flatten();
                let mut others: HashSet<Box<str>> = HashSet::new();
                for text in texts().filter(|text| !text.is_empty()) {
                    // Allocates only for those that are new.
                    others.get_or_insert_with(text, |text| Box::from(text));
                }
                Entries::Texts { has_empty: texts().any(str::is_empty), others }
            }
            DataType::Decimal128(_, _) => {
                Entries::Decimals(list.as_primitive::<Decimal128Type>().iter().flatten().collect())
            }
            _ => {
                let nulls = list.nulls().filter(|nulls| nulls.null_count() > 0);
                let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
                let words = words_of(&list)?;
                let words = words.iter().copied().enumerate();
                let words: Vec<u64> = words.filter(|(row, _)| is_valid(*row)).map(|(_, word)| word).collect();
                match words.len() {
                    0..=SHORT_MAX => Entries::Short(words),
                    _ => match bits(&words) {
                        Some(bits) => bits,
                        None => Entries::Words(RowsByWord::new(&words, None, true, 1)?),
                    },
                }
            }
        };
        let has_null = list.null_count() > 0;
        // A copy: the cache identifies the run by the constant's array, so the table must not keep that array alive.
        let list = match &entries {
            Entries::Short(_) => list.slice(0, list.len()),
            _ => new_empty_array(list.data_type()),
        };
        Ok(ListTable { list, entries, has_null, tested: AtomicUsize::new(0), passed: AtomicUsize::new(0) })
    }

    fn contains(&self, values: &ArrayRef) -> Result<BooleanArray> {
        if let Some(coded) = values.as_dictionary_opt::<Int32Type>() {
            if coded.values().len() > coded.len() {
                return self.contains(&arrow::compute::cast(values, coded.values().data_type())?);
            }
            // Each text is looked up once.
            let of_texts = self.contains(coded.values())?;
            return Ok(take(&of_texts, coded.keys(), None)?.as_boolean().clone());
        }
        let is_in_list = match &self.entries {
            Entries::Texts { has_empty, others } => {
                let values = values.as_string::<i32>();
                let is_listed = |text: &str| if text.is_empty() { *has_empty } else { others.contains(text) };
                BooleanBuffer::collect_bool(values.len(), |row| values.is_valid(row) && is_listed(values.value(row)))
            }
            Entries::Decimals(decimals) => {
                let values = values.as_primitive::<Decimal128Type>().values();
                BooleanBuffer::collect_bool(values.len(), |row| decimals.contains(&values[row]))
            }
            Entries::Short(list) => match compare::is_one_of(values, &self.list) {
                Some(is_in_list) => is_in_list,
                None => {
                    let words = words_of(values)?;
                    BooleanBuffer::collect_bool(words.len(), |row| list.contains(&words[row]))
                }
            },
            Entries::Bits(units, bits) => {
                let (words, last) = (words_of(values)?, bits.len() - 1);
                let place = |word: u64| usize::try_from(units.distance(word)).map_or(last, |place| place.min(last));
                BooleanBuffer::collect_bool(words.len(), |row| bits.value(place(words[row])))
            }
            Entries::Words(list) => {
                let rows = list.find(&words_of(values)?);
                BooleanBuffer::collect_bool(rows.len(), |row| rows[row] != MISSING)
            }
        };
        let nulls = values.nulls().cloned();
        let nulls = match self.has_null {
            true => NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(is_in_list.clone()))),
            false => nulls,
        };
        Ok(BooleanArray::new(is_in_list, nulls))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Float64Array, Int64Array, StringArray};

    use super::*;
    use crate::per_run::release;

    fn contained(values: ArrayRef, list: ArrayRef) -> Vec<Option<bool>> {
        let lists = ValueList::new(0);
        lists.contains(&values, &[list]).unwrap().as_boolean().iter().collect()
    }

    #[test]
    fn nulls_are_those_of_sql() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let list: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert_eq!(contained(Arc::clone(&values), list), [Some(true), None, Some(false)]);
        let list: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(contained(Arc::clone(&values), list), [Some(true), None, None]);
        assert_eq!(contained(Arc::clone(&values), Arc::new(Int64Array::from(vec![None]))), [None, None, None]);
        let nothing: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        assert_eq!(contained(values, nothing), [Some(false); 3], "null isn't in a list of nothing");
    }

    #[test]
    fn numbers_close_together_are_found_by_bits_and_others_by_hash() {
        for (step, base) in [(1, -7), (3, i64::MIN), (1 << 40, -9), (2, i64::MAX - 40)] {
            let list: Vec<i64> = (0..20).map(|place: i64| base + place * step).collect();
            let probes: Vec<i64> =
                list.iter().flat_map(|value| [*value, value.wrapping_sub(1), value ^ (1 << 62)]).collect();
            let expected: Vec<Option<bool>> = probes.iter().map(|value| Some(list.contains(value))).collect();
            let of = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
            assert_eq!(contained(of(probes), of(list)), expected);
        }
    }

    #[test]
    fn floats_are_equal_where_comparisons_say_so() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 1.0]));
        for more in [0, 20] {
            let list = [-0.0, f64::NAN].into_iter().chain((0..more).map(|value| f64::from(value) + 100.0));
            let list: ArrayRef = Arc::new(list.collect::<Float64Array>());
            assert_eq!(contained(Arc::clone(&values), list), [Some(true), Some(true), Some(true), Some(false)]);
        }
    }

    #[test]
    fn texts_are_found_by_code_and_row_by_row() {
        let texts = [Some("a"), None, Some("b"), Some("c"), Some("a")];
        let list: ArrayRef = Arc::new(StringArray::from(vec!["c", "a", "zz"]));
        let expected = [Some(true), None, Some(false), Some(true), Some(true)];
        let coded: ArrayRef = Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>());
        assert_eq!(contained(Arc::clone(&coded), Arc::clone(&list)), expected);
        assert_eq!(contained(coded.slice(0, 2), Arc::clone(&list)), expected[..2]);
        assert_eq!(contained(Arc::new(texts.into_iter().collect::<StringArray>()), list), expected);
    }

    #[test]
    fn a_dictionary_that_repeats_itself_is_a_list_of_what_occurs_in_it() {
        let rows = [Some("a"), Some("b"), Some("a"), None, Some("c")].into_iter().cycle();
        let many: DictionaryArray<Int32Type> = rows.take(3 * HINT_VALUES_MAX).collect();
        let probes = [Some("a"), Some("c"), Some("d"), None];
        let probes: ArrayRef = Arc::new(probes.into_iter().collect::<StringArray>());
        let found = contained(Arc::clone(&probes), Arc::new(many.clone()));
        assert_eq!(found, [Some(true), Some(true), None, None], "a null in the list");
        // Its first two rows hold two of the three texts and no null.
        let found = contained(Arc::clone(&probes), Arc::new(many.slice(0, 2)));
        assert_eq!(found, [Some(true), Some(false), Some(false), None]);
        let hint = ValueList::hint(0).contains(&probes, &[Arc::new(many.slice(0, 2))]).unwrap();
        assert_eq!(hint.as_boolean().true_count(), 1);
        let hint = ValueList::hint(0).contains(&probes, &[Arc::new(many)]).unwrap();
        assert_eq!(hint.as_boolean().true_count(), 2, "three texts are few, in however many rows");
    }

    #[test]
    fn texts_of_any_length_and_bytes_are_told_apart() {
        let long = "x".repeat(200);
        let listed = ["", "a", "aa", "ab", "ba", "é", "éa", "A", "!", long.as_str(), &long[..63], &long[..62]];
        let others = ["b", "aaa", "\u{0}", "aé", "bb", "c", "@", &long[..61], &long[..64], &long[..199], "a "];
        for count in 0..=listed.len() {
            let list: ArrayRef = Arc::new(StringArray::from_iter_values(&listed[..count]));
            let probes = listed.iter().chain(&others);
            let expected: Vec<Option<bool>> = probes.clone().map(|text| Some(listed[..count].contains(text))).collect();
            let probes: ArrayRef = Arc::new(StringArray::from_iter_values(probes));
            assert_eq!(contained(probes, list), expected, "{count}");
        }
    }

    #[test]
    fn each_run_looks_in_its_own_list() {
        let lists = ValueList::new(0);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        for round in 0..100 {
            let list: ArrayRef = Arc::new(Int64Array::from((round..round + 5).collect::<Vec<_>>()));
            let constants = vec![list];
            let contained = lists.contains(&values, &constants).unwrap();
            assert_eq!(contained.as_boolean().value(0), (round..round + 5).contains(&7));
            release(constants);
        }
        assert_eq!(lists.tables.len(), 0, "those of runs that are over go");
    }
}
