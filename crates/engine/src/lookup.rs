//! Lookup tables: maps key values to rows of a small table, for joins to a list of values or to a small table.
//!
//! The table's columns are constants that each run supplies. Keys must be unique, because a lookup gives at most one
//! row: a table with a duplicate key is refused, and the statement runs by another plan.

mod packed_keys;

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, StringArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int32Type, TimeUnit, UInt32Type};
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};

use crate::binary_op::BinaryOp;
use crate::error::{Error, Result};
use crate::key_words::words_of;
use crate::operators::holds;
use crate::parallel;
use crate::per_run::PerRun;
use crate::rows_by_word::{MISSING, RowsByWord};
use crate::translations::numbers_in;
use crate::value::Value;

use packed_keys::RowsByKeys;

/// Finds rows by a unique key of one or several columns.
#[derive(Debug)]
pub struct LookupTable {
    /// Numbers of the constants that hold the key columns; none if rows are found by their number.
    keys: Vec<usize>,
    /// Numbers of the constants that hold the columns.
    columns: Vec<usize>,
    /// Whether the first row of duplicate keys is found; otherwise a table with duplicates is refused.
    first: bool,
    rows: PerRun<KeyRows>,
}

/// The rows by key. A null key is never found.
#[derive(Debug)]
enum KeyRows {
    Texts(RowsByText),
    Words(DataType, RowsByWord),
    /// By several columns.
    Several(RowsByKeys),
}

/// Texts of a dictionary per key up to which keys are found by its codes.
const TEXTS_OF_KEY_MAX: usize = 64;

/// Up to this many keys, each is searched for by itself instead of translating a whole dictionary.
pub(crate) const FEW_KEYS_MAX: usize = 64;

/// Texts of a dictionary per row up to which the texts are looked up instead of the rows.
const TEXTS_OF_ROW_MAX: usize = 8;

impl LookupTable {
    /// A table of constants by their numbers.
    #[must_use]
    pub fn new(keys: Vec<usize>, columns: Vec<usize>) -> LookupTable {
        LookupTable { keys, columns, first: false, rows: PerRun::default() }
    }

    /// A table whose rows are found by their number, the result of [`Expr::Find`](crate::Expr::Find).
    #[must_use]
    pub fn by_number(columns: Vec<usize>) -> LookupTable {
        LookupTable::new(Vec::new(), columns)
    }

    /// A table that gives the number of the first row of duplicate keys. A key of one column may have any type; types that [`LookupTable::takes`]
    /// refuses are searched for one by one.
    pub(crate) fn of_first(keys: Vec<usize>) -> LookupTable {
        LookupTable { first: true, ..LookupTable::new(keys, Vec::new()) }
    }

    /// The columns of the key.
    pub(crate) fn key_columns(&self, constants: &[ArrayRef]) -> Vec<ArrayRef> {
        self.keys.iter().map(|key| Arc::clone(&constants[*key])).collect()
    }

    /// The keys that have rows, if they are of one column.
    pub(crate) fn keys<'a>(&self, constants: &'a [ArrayRef]) -> Option<&'a ArrayRef> {
        match self.keys.as_slice() {
            [keys] => constants.get(*keys),
            _ => None,
        }
    }

    /// The row of each key of one column, or [`MISSING`].
    pub(crate) fn rows(&self, keys: &ArrayRef, constants: &[ArrayRef]) -> Result<Vec<u32>> {
        let of = self.keys(constants).ok_or_else(of_another_width)?;
        let result = self.rows.get(of, || KeyRows::new(of, self.first, 1)).and_then(|rows| rows.find(keys));
        match result {
            Err(Error::Unsupported(_)) if self.first => first_equal(keys, of),
            result => result,
        }
    }

    /// Builds the table by some threads, and refuses one with a duplicate key even if no look-up meets it.
    ///
    /// # Errors
    /// [`Error::RepeatedKey`] for such a table.
    pub fn check(&self, constants: &[ArrayRef], threads: usize) -> Result<()> {
        if self.keys.is_empty() { Ok(()) } else { self.prepared(&self.key_columns(constants), threads).map(drop) }
    }

    /// The table of some keys, built before others ask for it.
    fn prepared(&self, keys: &[ArrayRef], threads: usize) -> Result<Arc<KeyRows>> {
        let first = keys.first().ok_or_else(of_another_width)?;
        self.rows.prepare(first, || KeyRows::by_columns(keys, self.first, threads))
    }

    /// For each row of the table the first one with its key, or [`MISSING`]; `None` if no two rows have the same.
    pub(crate) fn first_of_each(&self, constants: &[ArrayRef], threads: usize) -> Result<Option<Vec<u32>>> {
        let keys = self.key_columns(constants);
        let rows = self.prepared(&keys, threads)?;
        if !rows.repeats() {
            return Ok(None);
        }
        let count = keys.first().map_or(0, |key| key.len());
        parallel::by_rows(count, threads, |range| {
            let keys: Vec<ArrayRef> = keys.iter().map(|key| key.slice(range.start, range.len())).collect();
            rows.find_several(&keys)
        })
        .map(Some)
    }

    /// The number of the row of each key, which has as many columns as those of the table; null where there is none.
    pub(crate) fn numbers(&self, keys: &[ArrayRef], constants: &[ArrayRef]) -> Result<UInt32Array> {
        Ok(numbered(self.first_rows(keys, constants)?))
    }

    /// The number of the row of each key, or of the first with it, or [`MISSING`].
    pub(crate) fn first_rows(&self, keys: &[ArrayRef], constants: &[ArrayRef]) -> Result<Vec<u32>> {
        let of = self.key_columns(constants);
        let (Some(first), true) = (of.first(), of.len() == keys.len()) else { return Err(of_another_width()) };
        // What is read for a run is read at once, so that the first column tells for which one these are.
        self.rows.get(first, || KeyRows::by_columns(&of, self.first, 1))?.find_several(keys)
    }

    /// Whether keys of one type can be looked up among keys of another.
    #[must_use]
    pub fn takes(one: &DataType, other: &DataType) -> bool {
        let is_word = match one {
            DataType::Boolean | DataType::Date32 | DataType::Float32 | DataType::Float64 => true,
            DataType::Decimal128(_, _) => true,
            DataType::Timestamp(_, _) => true,
            DataType::Time64(unit) => *unit == TimeUnit::Nanosecond,
            other => other.is_integer(),
        };
        is_word && plain(one) == plain(other) || is_text(one) && is_text(other)
    }

    /// Whether the keys are unique.
    #[must_use]
    pub fn are_unique(keys: &[ArrayRef]) -> bool {
        KeyRows::by_columns(keys, false, 1).is_ok()
    }

    /// The row of each key; null where there is none.
    fn find(&self, keys: &ArrayRef, constants: &[ArrayRef]) -> Result<UInt32Array> {
        if self.keys.is_empty() {
            return keys.as_primitive_opt::<UInt32Type>().cloned().ok_or_else(of_another_width);
        }
        Ok(numbered(self.rows(keys, constants)?))
    }

    /// Whether there is a row for each key.
    pub(crate) fn has(&self, keys: &ArrayRef, constants: &[ArrayRef]) -> Result<ArrayRef> {
        let rows = self.find(keys, constants)?;
        let is_present = rows.nulls().map_or_else(|| BooleanBuffer::new_set(rows.len()), |nulls| nulls.inner().clone());
        Ok(Arc::new(BooleanArray::new(is_present, None)))
    }

    /// A text column's values for each key, as codes; `None` for other columns.
    pub(crate) fn coded(&self, keys: &ArrayRef, column: usize, constants: &[ArrayRef]) -> Result<Option<ArrayRef>> {
        let Some(texts) = self.columns.get(column).map(|column| &constants[*column]) else { return Ok(None) };
        if *texts.data_type() != DataType::Utf8 {
            return Ok(None);
        }
        let rows = self.find(keys, constants)?;
        let codes = cast(&rows, &DataType::Int32)?;
        Ok(Some(Arc::new(DictionaryArray::try_new(codes.as_primitive::<Int32Type>().clone(), Arc::clone(texts))?)))
    }

    /// A column's values for each key; from a table that gives numbers, the number or [`MISSING`].
    pub(crate) fn column(&self, keys: &ArrayRef, column: usize, constants: &[ArrayRef]) -> Result<ArrayRef> {
        if self.first {
            return Ok(Arc::new(UInt32Array::from(self.rows(keys, constants)?)));
        }
        let rows = self.find(keys, constants)?;
        Ok(take(&constants[self.columns[column]], &rows, None)?)
    }
}

impl KeyRows {
    /// The rows of the keys of one column, of equal ones the first, if they `may_repeat`.
    pub(crate) fn new(keys: &ArrayRef, may_repeat: bool, threads: usize) -> Result<KeyRows> {
        if is_text(keys.data_type()) {
            return RowsByText::new(keys, may_repeat)?.map(KeyRows::Texts).ok_or(Error::RepeatedKey);
        }
        let rows = RowsByWord::new(&words_of(keys)?, keys.nulls(), may_repeat, threads)?;
        Ok(KeyRows::Words(plain(keys.data_type()), rows))
    }

    /// The rows of keys of one or more columns, of equal ones the first, if they `may_repeat`.
    fn by_columns(keys: &[ArrayRef], may_repeat: bool, threads: usize) -> Result<KeyRows> {
        match keys {
            [] => Err(of_another_width()),
            [key] => KeyRows::new(key, may_repeat, threads),
            keys => Ok(KeyRows::Several(RowsByKeys::new(keys, may_repeat, threads)?)),
        }
    }

    /// Whether a key has several rows.
    fn repeats(&self) -> bool {
        match self {
            KeyRows::Texts(rows) => rows.repeats,
            KeyRows::Words(_, rows) => rows.repeats(),
            KeyRows::Several(rows) => rows.repeats(),
        }
    }

    /// The row of each key of as many columns as the table has, or [`MISSING`].
    fn find_several(&self, keys: &[ArrayRef]) -> Result<Vec<u32>> {
        match (self, keys) {
            (KeyRows::Several(rows), keys) if keys.len() == rows.width() => rows.find(keys),
            (KeyRows::Several(_), _) => Err(of_another_width()),
            (rows, [key]) => rows.find(key),
            _ => Err(of_another_width()),
        }
    }

    /// The row of each key of one column, or [`MISSING`].
    pub(crate) fn find(&self, keys: &ArrayRef) -> Result<Vec<u32>> {
        let refused = || Error::Unsupported(format!("a join by a {}", keys.data_type()));
        match self {
            KeyRows::Texts(rows) => {
                if let Some(coded) = keys.as_dictionary_opt::<Int32Type>().filter(|coded| rows.pays(coded)) {
                    // Each text is looked up once.
                    let texts = coded.values().as_string_opt::<i32>().ok_or_else(refused)?;
                    let of_code =
                        rows.of_codes.get(coded.values(), || Ok(rows.of_dictionary(coded.values(), texts)))?;
                    let of = |code: Option<i32>| code.and_then(|code| of_code.get(usize::try_from(code).ok()?));
                    return Ok(coded.keys().iter().map(|code| of(code).copied().unwrap_or(MISSING)).collect());
                }
                if *keys.data_type() != DataType::Utf8 && is_text(keys.data_type()) {
                    let keys = cast(keys, &DataType::Utf8)?;
                    return Ok(rows.find(keys.as_string::<i32>()));
                }
                Ok(rows.find(keys.as_string_opt::<i32>().ok_or_else(refused)?))
            }
            KeyRows::Words(data_type, rows) if *data_type == plain(keys.data_type()) => {
                Ok(valid(keys, rows.find(&words_of(keys)?)))
            }
            KeyRows::Words(_, _) => Err(refused()),
            KeyRows::Several(_) => Err(of_another_width()),
        }
    }
}

/// Rows by text.
#[derive(Debug)]
pub(crate) struct RowsByText {
    texts: StringArray,
    /// The row of each text, and the dictionary of the texts; none if the texts are the rows.
    rows: Option<(Vec<u32>, ArrayRef)>,
    /// Numbers of the texts by hash; none if the texts are in ascending order, like the symbols of a table.
    by_hash: Option<(DefaultHashBuilder, HashTable<u32>)>,
    /// Whether a text has several rows.
    repeats: bool,
    /// Results of look-ups by dictionary: the row of each text.
    of_codes: PerRun<Vec<u32>>,
    /// Address of the dictionary whose rows were last looked up one by one, and the number of these rows.
    apart: Mutex<(usize, usize)>,
}

impl RowsByText {
    /// Indexes texts. Of duplicates it takes the first if they `may_repeat`; otherwise it returns `None`.
    fn new(keys: &ArrayRef, may_repeat: bool) -> Result<Option<RowsByText>> {
        if let Some(coded) = keys.as_dictionary_opt::<Int32Type>()
            && (coded.len() > FEW_KEYS_MAX || coded.values().len() <= coded.len() * TEXTS_OF_KEY_MAX)
            && let Some(texts) = coded.values().as_string_opt::<i32>().filter(|texts| rises(texts))
        {
            let (mut rows, mut repeats) = (vec![MISSING; texts.len()], false);
            for (code, row) in coded.keys().iter().zip(0..) {
                let Some(code) = code else { continue };
                match rows.get_mut(usize::try_from(code).unwrap_or(usize::MAX)) {
                    Some(free) if *free == MISSING => *free = row,
                    _ if may_repeat => repeats = true,
                    _ => return Ok(None),
                }
            }
            let rows = Some((rows, Arc::clone(coded.values())));
            return Ok(Some(RowsByText { rows, repeats, ..RowsByText::of(texts.clone()) }));
        }
        let texts = cast(keys, &DataType::Utf8)?.as_string::<i32>().clone();
        if rises(&texts) {
            return Ok(Some(RowsByText::of(texts)));
        }
        let (hasher, mut repeats) = (DefaultHashBuilder::default(), false);
        let mut by_hash: HashTable<u32> = HashTable::with_capacity(texts.len());
        for (text, row) in texts.iter().zip(0..) {
            let Some(text) = text else { continue };
            let hash_of = |row: &u32| hasher.hash_one(texts.value(*row as usize));
            match by_hash.entry(hasher.hash_one(text), |row| texts.value(*row as usize) == text, hash_of) {
                Entry::Vacant(free) => drop(free.insert(row)),
                Entry::Occupied(_) if may_repeat => repeats = true,
                Entry::Occupied(_) => return Ok(None),
            }
        }
        Ok(Some(RowsByText { by_hash: Some((hasher, by_hash)), repeats, ..RowsByText::of(texts) }))
    }

    /// Texts in ascending order, each of which is its own row.
    fn of(texts: StringArray) -> RowsByText {
        let (of_codes, apart) = (PerRun::default(), Mutex::default());
        RowsByText { texts, rows: None, by_hash: None, repeats: false, of_codes, apart }
    }

    /// The row of each text, or [`MISSING`].
    fn find(&self, texts: &StringArray) -> Vec<u32> {
        let numbers = self.numbers(texts);
        match &self.rows {
            Some((rows, _)) => rows_of(&numbers, rows),
            None => numbers,
        }
    }

    /// Whether looking up all texts of a dictionary pays, compared with the texts of these rows.
    fn pays(&self, coded: &DictionaryArray<Int32Type>) -> bool {
        let (dictionary, rows) = (coded.values(), coded.len());
        let are_few = |rows: usize| dictionary.len() > rows.saturating_mul(TEXTS_OF_ROW_MAX);
        if !are_few(rows) || self.of_codes.has(dictionary) {
            return true;
        }
        // Many blocks of few rows add up.
        let mut apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(dictionary).cast::<()>().addr();
        *apart = (address, if apart.0 == address { apart.1.saturating_add(rows) } else { rows });
        !are_few(apart.1)
    }

    /// The row of each text of a dictionary, cached because a later statement may use the same dictionary.
    fn of_dictionary(&self, dictionary: &ArrayRef, texts: &StringArray) -> Vec<u32> {
        match &self.rows {
            Some((rows, of)) => rows_of(&numbers_in(dictionary, of, || self.numbers(texts)), rows),
            None => self.numbers(texts),
        }
    }

    /// The number of each text here, or [`MISSING`].
    fn numbers(&self, texts: &StringArray) -> Vec<u32> {
        let mut from = 0;
        let mut number = |text: &str| match &self.by_hash {
            Some((hasher, numbers)) => {
                let same = |row: &u32| self.texts.value(*row as usize) == text;
                numbers.find(hasher.hash_one(text), same).copied().unwrap_or(MISSING)
            }
            None => self.search(text, &mut from).unwrap_or(MISSING),
        };
        texts.iter().map(|text| text.map_or(MISSING, &mut number)).collect()
    }

    /// The number of a text among texts in ascending order. It gallops from the previous result, because the texts that are looked up are often
    /// ascending, too.
    fn search(&self, text: &str, from: &mut usize) -> Option<u32> {
        let (len, is_before) = (self.texts.len(), |number: usize| self.texts.value(number) < text);
        let mut low = if *from > 0 && is_before(*from - 1) { *from } else { 0 };
        let mut step = 1;
        while low + step <= len && is_before(low + step - 1) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(len);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        *from = low;
        (low < len && self.texts.value(low) == text).then(|| u32::try_from(low).unwrap_or(MISSING))
    }
}

/// The rows of numbers, some of which are [`MISSING`].
fn rows_of(numbers: &[u32], rows: &[u32]) -> Vec<u32> {
    numbers.iter().map(|number| rows.get(*number as usize).copied().unwrap_or(MISSING)).collect()
}

fn of_another_width() -> Error {
    Error::Unsupported("a key of another number of columns".to_owned())
}

/// Numbers of rows, null for those that are missing.
pub(crate) fn numbered(mut rows: Vec<u32>) -> UInt32Array {
    if !rows.contains(&MISSING) {
        return UInt32Array::from(rows);
    }
    let has = BooleanBuffer::collect_bool(rows.len(), |at| rows[at] != MISSING);
    // Without a branch, which would be guessed wrong where half of the rows are missing.
    rows.iter_mut().for_each(|row| *row = if *row == MISSING { 0 } else { *row });
    UInt32Array::new(rows.into(), Some(NullBuffer::new(has)))
}

/// Whether the texts are strictly ascending and none is null.
fn rises(texts: &StringArray) -> bool {
    texts.null_count() == 0 && (1..texts.len()).all(|at| texts.value(at - 1) < texts.value(at))
}

/// The number of the first of some values that each key equals, or [`MISSING`].
fn first_equal(keys: &ArrayRef, values: &ArrayRef) -> Result<Vec<u32>> {
    let mut rows = vec![MISSING; keys.len()];
    let keys = Value::Array(Arc::clone(keys));
    for (at, row) in (0..values.len()).zip(0..) {
        let equal = BinaryOp::Equal.apply(&keys, &Value::Scalar(values.slice(at, 1)))?.into_array(rows.len())?;
        let equal = holds(&equal)?;
        equal.values().set_indices().for_each(|key| rows[key] = rows[key].min(row));
    }
    Ok(rows)
}

/// The rows of keys; a null key has none.
fn valid(keys: &ArrayRef, mut rows: Vec<u32>) -> Vec<u32> {
    if let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
        (0..rows.len()).filter(|at| nulls.is_null(*at)).for_each(|at| rows[at] = MISSING);
    }
    rows
}

/// A type without its time zone: instants are equal whatever it is.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    }
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
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
        for (keys, probes) in cases {
            let table = LookupTable::new(vec![1], vec![0]);
            let constants = [Arc::clone(&fees), keys];
            let column_values = table.column(&probes, 0, &constants).unwrap();
            let column_values: Vec<Option<f64>> =
                column_values.as_primitive::<arrow::datatypes::Float64Type>().iter().collect();
            assert_eq!(column_values, [Some(2.5), None, None, Some(0.5)]);
            let has = table.has(&probes, &constants).unwrap();
            assert_eq!(has.as_boolean().values().iter().collect::<Vec<_>>(), [true, false, false, true]);
        }
        assert!(!LookupTable::are_unique(&[numbers(&[Some(1), Some(1)])]));
        assert!(LookupTable::are_unique(&[numbers(&[None, None])]), "null is no key");
    }

    #[test]
    fn rows_are_found_by_several_columns() {
        let numbers = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let texts = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let keys = [
            texts(&[Some("a"), Some("b"), Some("a"), None, Some("a"), Some("b")]),
            numbers(&[Some(1), Some(1), Some(2), Some(1), None, Some(i64::MIN)]),
            numbers(&[Some(5), Some(5), Some(5), Some(5), Some(5), Some(9)]),
        ];
        let probes = [
            texts(&[Some("b"), Some("a"), Some("a"), Some("b"), None, Some("b"), Some("c"), Some("a")]),
            numbers(&[Some(1), Some(2), None, Some(i64::MIN), Some(1), Some(2), Some(1), Some(1)]),
            numbers(&[Some(5), Some(5), Some(5), Some(9), Some(5), Some(5), Some(5), Some(9)]),
        ];
        let expected = [
            vec![Some(1), Some(2), None, Some(5), None, None, None, Some(0)],
            vec![Some(1), Some(2), None, Some(5), None, None, None, None],
        ];
        for (width, expected) in (2..).zip(expected) {
            let table = LookupTable::new((0..width).collect(), vec![1]);
            let row_numbers = table.numbers(&probes[..width], &keys).unwrap();
            assert_eq!(row_numbers.iter().collect::<Vec<_>>(), expected);
            assert!(LookupTable::are_unique(&keys[..width]));
            let by_number = LookupTable::by_number(vec![1]);
            let values = by_number.column(&(Arc::new(row_numbers) as ArrayRef), 0, &keys).unwrap();
            assert_eq!(values.as_primitive::<arrow::datatypes::Int64Type>().iter().nth(3), Some(Some(i64::MIN)));
        }
        let twice = [texts(&[Some("a"), Some("a"), Some("a")]), numbers(&[Some(1), Some(2), Some(1)])];
        assert!(!LookupTable::are_unique(&twice));
        let with_nulls = [texts(&[Some("a"), Some("a"), None]), numbers(&[None, None, Some(1)])];
        assert!(LookupTable::are_unique(&with_nulls), "null is no key");
    }

    /// Texts that rise, those of dictionaries and all others, asked for in any order.
    #[test]
    fn texts_are_found_however_they_stand() {
        let names: Vec<String> = (0..200).map(|number| format!("S{:03}", number * 37 % 1000)).collect();
        let mut rising: Vec<&str> = names.iter().map(String::as_str).collect();
        rising.sort_unstable();
        let standing: [Vec<&str>; 2] = [rising, names.iter().map(String::as_str).collect()];
        let plain = |texts: &[&str]| Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
        let coded = |texts: &ArrayRef| {
            let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            cast(texts, &data_type).unwrap()
        };
        // Codes of a dictionary that rises, in no order.
        let shuffled = |texts: &[&str]| {
            let codes = arrow::array::Int32Array::from_iter_values((0..200).map(|row| row * 7 % 200));
            Arc::new(DictionaryArray::new(codes, plain(texts))) as ArrayRef
        };
        for texts in &standing {
            for keys in [plain(texts), coded(&plain(texts)), shuffled(texts)] {
                let shown = cast(&keys, &DataType::Utf8).unwrap();
                let row_of = |name: &str| shown.as_string::<i32>().iter().position(|key| key == Some(name));
                for step in [1, 3, 199] {
                    let probes: Vec<String> = (0..1000).map(|number| format!("S{:03}", number * step % 1000)).collect();
                    let probes = plain(&probes.iter().map(String::as_str).collect::<Vec<_>>());
                    for probes in [coded(&probes), Arc::clone(&probes)] {
                        let table = LookupTable::new(vec![0], vec![0]);
                        let row_numbers = table.rows(&probes, &[Arc::clone(&keys)]).unwrap();
                        let names = cast(&probes, &DataType::Utf8).unwrap();
                        let expected = names.as_string::<i32>().iter().map(|name| row_of(name.unwrap()));
                        let expected: Vec<u32> =
                            expected.map(|row| row.map_or(MISSING, |row| u32::try_from(row).unwrap())).collect();
                        assert_eq!(row_numbers, expected);
                    }
                }
            }
        }
        for texts in [["a", "a", "b"], ["b", "a", "b"]] {
            let (plain, coded) = (plain(&texts), coded(&plain(&texts)));
            assert!(!LookupTable::are_unique(&[Arc::clone(&plain)]) && !LookupTable::are_unique(&[Arc::clone(&coded)]));
            let first = LookupTable::of_first(vec![0]);
            let rows = first.rows(&plain, &[coded]).unwrap();
            assert_eq!(
                rows,
                texts.map(|text| u32::try_from(texts.iter().position(|one| *one == text).unwrap()).unwrap())
            );
        }
    }
}
