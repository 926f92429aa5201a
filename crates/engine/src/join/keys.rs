//! Further keys of a join by time: those besides the symbol.
//!
//! Equal keys get one number, on both sides, in all segments and for all dictionaries, so searches compare numbers.
//! Texts are numbered; all other types are compared as whole numbers. A null equals nothing.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use hashbrown::HashMap;

use super::dictionaries::ByDictionary;
use crate::aggregate::{Groups, TextWords, ValueKey};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::frame::Frame;
use crate::texts::Texts;

/// The number of keys of which one is null.
const NO_NUMBER: u32 = u32::MAX;

/// What is added to a whole number near zero for its number as a single key.
const NEAR_ZERO: i64 = 1 << 30;

/// The first number of whole numbers that are far from zero.
const FAR_FROM_ZERO: u32 = 1 << 31;

/// Numbers of the further keys of a join, of all rows that came by.
pub(super) struct KeyNumbers {
    /// Expressions of the left, and positions of the columns of the right that must equal them.
    keys: Vec<(Expr, usize)>,
    groups: Groups,
    /// By key.
    texts: Vec<Texts>,
    words: Vec<CachedWords>,
    /// Numbers of the texts of each dictionary, if there is a single key.
    of_codes: ByDictionary<Vec<u32>>,
    /// Numbers and texts whose memory was counted.
    counted: usize,
}

/// The words of texts of a key.
#[derive(Default)]
struct CachedWords {
    of_dictionaries: ByDictionary<TextWords>,
    of_texts: TextWords,
}

impl KeyNumbers {
    pub fn new(keys: &[(Expr, usize)]) -> KeyNumbers {
        KeyNumbers {
            keys: keys.to_vec(),
            groups: Groups::new(keys.len()),
            texts: keys.iter().map(|_| Texts::default()).collect(),
            words: keys.iter().map(|_| CachedWords::default()).collect(),
            of_codes: ByDictionary::default(),
            counted: 0,
        }
    }

    /// Whether the join has no further keys.
    pub fn are_none(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many numbers and texts there are more than when this was last asked.
    pub fn take_new(&mut self) -> usize {
        let count = self.groups.len() + self.texts.iter().map(Texts::len).sum::<usize>();
        count - std::mem::replace(&mut self.counted, count)
    }

    /// The key numbers of left rows.
    pub fn of_left(&mut self, left: &Frame, constants: &[ArrayRef]) -> Result<LeftKeys> {
        if self.are_none() {
            return Ok(LeftKeys { numbers: None });
        }
        let of = |(key, _): &(Expr, usize)| key.evaluate(left, constants)?.into_array(left.len());
        let columns = self.keys.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(LeftKeys { numbers: Some(self.of_columns(&columns)?) })
    }

    /// The key numbers of right rows. `read` gives the values of a column.
    pub fn of_right(&mut self, read: impl Fn(usize) -> Result<ArrayRef>) -> Result<Vec<u32>> {
        let columns = self.keys.iter().map(|(_, column)| read(*column)).collect::<Result<Vec<_>>>()?;
        self.of_columns(&columns)
    }

    fn of_columns(&mut self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        let columns = columns.iter().map(whole_numbers).collect::<Result<Vec<_>>>()?;
        if let [column] = columns.as_slice() {
            if let Some(values) = column.as_primitive_opt::<Int64Type>() {
                return Ok(self.of_whole_numbers(values));
            }
            if let Some(numbers) = self.of_codes(column) {
                return Ok(numbers);
            }
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let stride = columns.len() + 1;
        let mut words = vec![0; rows * stride];
        for (key, column) in columns.iter().enumerate() {
            self.write(key, column, &mut words, stride)?;
        }
        let mut numbers = Vec::with_capacity(rows);
        if columns.len() == 1 {
            // The number of the text is as good.
            numbers.extend(
                words.chunks_exact(stride).map(|words| if words[1] == 0 { number(words[0]) } else { NO_NUMBER }),
            );
            return Ok(numbers);
        }
        self.groups.find_rows(&words, |group| numbers.push(group));
        for (number, words) in numbers.iter_mut().zip(words.chunks_exact(stride)) {
            if words[stride - 1] != 0 {
                *number = NO_NUMBER;
            }
        }
        Ok(numbers)
    }

    /// The numbers of a single integer key. Values near zero have theirs without a look-up.
    fn of_whole_numbers(&mut self, values: &Int64Array) -> Vec<u32> {
        let near =
            |value: i64| u32::try_from(value.checked_add(NEAR_ZERO)?).ok().filter(|number| *number < FAR_FROM_ZERO);
        let all = values.values().iter().enumerate();
        let numbers = all.map(|(row, value)| match near(*value) {
            _ if values.is_null(row) => NO_NUMBER,
            Some(number) => number,
            None => FAR_FROM_ZERO + self.groups.find(&[value.cast_unsigned(), 0]),
        });
        numbers.collect()
    }

    /// The numbers of a single key by the codes of its texts. `None` if it has no codes, or if its dictionary has more texts than there are rows.
    fn of_codes(&mut self, column: &ArrayRef) -> Option<Vec<u32>> {
        let coded = column.as_dictionary_opt::<Int32Type>()?;
        let dictionary = coded.values().as_string_opt().filter(|texts| texts.len() <= coded.len())?;
        let texts = &mut self.texts[0];
        let of_codes = self.of_codes.get_or_insert_with(dictionary, || texts.numbers(dictionary, NO_NUMBER));
        let codes = coded.keys().values().iter();
        let of_code = |code: &i32| usize::try_from(*code).ok().and_then(|code| of_codes.get(code)).copied();
        let mut numbers: Vec<u32> = codes.map(|code| of_code(code).unwrap_or(NO_NUMBER)).collect();
        if let Some(nulls) = coded.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
            (!nulls.inner()).set_indices().for_each(|row| numbers[row] = NO_NUMBER);
        }
        Some(numbers)
    }

    /// Writes the words of a key to its places among those of all keys, and in the last word of a row which are null.
    fn write(&mut self, key: usize, column: &ArrayRef, words: &mut [u64], stride: usize) -> Result<()> {
        let texts = &mut self.texts[key];
        let CachedWords { of_dictionaries, of_texts } = &mut self.words[key];
        let text_words = match column.as_dictionary_opt::<Int32Type>().and_then(|coded| coded.values().as_string_opt())
        {
            Some(dictionary) => of_dictionaries.get_or_insert_with(dictionary, TextWords::default),
            None => of_texts,
        };
        ValueKey::new(key, column, texts, text_words)?.write(0, words, stride);
        Ok(())
    }
}

/// The numbers of the further keys of left rows.
pub(super) struct LeftKeys {
    /// `None` if the join has none: then all rows have the same.
    numbers: Option<Vec<u32>>,
}

impl LeftKeys {
    /// The number of a row's keys; `None` if one of them is null.
    pub fn number(&self, row: usize) -> Option<u32> {
        self.numbers.as_ref().map_or(Some(0), |numbers| Some(numbers[row]).filter(|number| *number != NO_NUMBER))
    }

    /// Rows by their keys; rows with a null among them are in none. Without keys all are together.
    pub fn rows_by_keys(&self, rows: Range<usize>) -> Vec<Vec<usize>> {
        if self.numbers.is_none() {
            return vec![rows.collect()];
        }
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut by_keys: Vec<Vec<usize>> = Vec::new();
        for row in rows {
            let Some(number) = self.number(row) else { continue };
            let place = *places.entry(number).or_insert(by_keys.len());
            match by_keys.get_mut(place) {
                Some(rows) => rows.push(row),
                None => by_keys.push(vec![row]),
            }
        }
        by_keys
    }
}

/// Numbers that are compared before any result of a comparison is used.
const NUMBERS_AT_ONCE: usize = 32;

/// Numbers between the least and the greatest for each row, up to which places are counted for them.
const NUMBERS_OF_ROW: usize = 2;

fn has(numbers: &[u32], target: u32) -> bool {
    numbers.iter().fold(false, |has, number| has | (*number == target))
}

/// The last row with a number.
pub(super) fn last_equal(numbers: &[u32], target: u32, rows: Range<usize>) -> Option<usize> {
    let chunks = numbers[rows.clone()].rchunks(NUMBERS_AT_ONCE);
    let ends = (0..).map(|chunk| rows.end - chunk * NUMBERS_AT_ONCE);
    chunks.zip(ends).find(|(chunk, _)| has(chunk, target)).and_then(|(chunk, end)| {
        chunk.iter().rposition(|number| *number == target).map(|place| end - chunk.len() + place)
    })
}

/// The first row with a number.
pub(super) fn first_equal(numbers: &[u32], target: u32, rows: Range<usize>) -> Option<usize> {
    let chunks = numbers[rows.clone()].chunks(NUMBERS_AT_ONCE);
    let starts = rows.step_by(NUMBERS_AT_ONCE);
    let (chunk, start) = chunks.zip(starts).find(|(chunk, _)| has(chunk, target))?;
    chunk.iter().position(|number| *number == target).map(|place| start + place)
}

/// Rows of a part by the numbers of their keys.
pub(super) enum RowsByNumber {
    /// Numbers that are close to each other: the rows of each from `least` on begin where `starts` says, and end where those of the next begin.
    Close { least: u32, starts: Vec<u32>, rows: Vec<u32> },
    /// Others: a number, and in the lower half the row, ascending.
    Apart(Vec<u64>),
}

impl RowsByNumber {
    pub fn new(numbers: &[u32]) -> RowsByNumber {
        let numbered = || numbers.iter().copied().zip(0u32..).filter(|(number, _)| *number != NO_NUMBER);
        let (least, greatest) =
            numbered().fold((NO_NUMBER, 0), |(least, most), (number, _)| (least.min(number), most.max(number)));
        let span = greatest.saturating_sub(least) as usize;
        if span > numbers.len().saturating_mul(NUMBERS_OF_ROW) {
            let mut rows: Vec<u64> = numbered().map(|(number, row)| entry(number, row as usize)).collect();
            rows.sort_unstable();
            return RowsByNumber::Apart(rows);
        }
        // First how many each has, then where each begins; where the next of each goes, is where it ends at last.
        let mut starts = vec![0u32; span + 3];
        let place = |number: u32| number.saturating_sub(least) as usize;
        numbered().for_each(|(number, _)| starts[place(number) + 2] += 1);
        for place in 2..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut rows = vec![0; starts.last().map_or(0, |rows| *rows as usize)];
        for (number, row) in numbered() {
            let next = &mut starts[place(number) + 1];
            rows[*next as usize] = row;
            *next += 1;
        }
        RowsByNumber::Close { least, starts, rows }
    }

    /// The rows with a number, ascending.
    pub fn list(&self, number: u32) -> Vec<usize> {
        match self {
            RowsByNumber::Close { .. } => self.close(number).iter().map(|row| *row as usize).collect(),
            RowsByNumber::Apart(rows) => {
                let of_number = rows[self.apart_before(number, 0)..].iter().take_while(|found| is_of(**found, number));
                of_number.map(|found| row(*found)).collect()
            }
        }
    }

    pub fn has(&self, number: u32) -> bool {
        self.first_from(number, 0).is_some()
    }

    /// The last row with a number before a row.
    pub fn last_before(&self, number: u32, end: usize) -> Option<usize> {
        match self {
            RowsByNumber::Close { .. } => {
                let rows = self.close(number);
                let place = rows.partition_point(|row| (*row as usize) < end).checked_sub(1)?;
                Some(rows[place] as usize)
            }
            RowsByNumber::Apart(rows) => {
                let found = rows[self.apart_before(number, end).checked_sub(1)?];
                is_of(found, number).then(|| row(found))
            }
        }
    }

    /// The first row with a number from a row on.
    pub fn first_from(&self, number: u32, first: usize) -> Option<usize> {
        match self {
            RowsByNumber::Close { .. } => {
                let rows = self.close(number);
                rows.get(rows.partition_point(|row| (*row as usize) < first)).map(|row| *row as usize)
            }
            RowsByNumber::Apart(rows) => {
                let found = *rows.get(self.apart_before(number, first))?;
                is_of(found, number).then(|| row(found))
            }
        }
    }

    /// The rows of a number, of numbers that are close.
    fn close(&self, number: u32) -> &[u32] {
        let RowsByNumber::Close { least, starts, rows } = self else { return &[] };
        let place = number.checked_sub(*least).map(|place| place as usize);
        let ends = place.and_then(|place| starts.get(place..place + 2));
        ends.map_or(&[], |ends| &rows[ends[0] as usize..ends[1] as usize])
    }

    /// How many entries are before a row of a number, of numbers that are apart.
    fn apart_before(&self, number: u32, row: usize) -> usize {
        let RowsByNumber::Apart(rows) = self else { return 0 };
        let target = entry(number, row);
        rows.partition_point(|entry| *entry < target)
    }
}

fn entry(number: u32, row: usize) -> u64 {
    (u64::from(number) << 32).saturating_add(row as u64)
}

fn is_of(entry: u64, number: u32) -> bool {
    entry >> 32 == u64::from(number)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is a row of a part")]
fn row(entry: u64) -> usize {
    entry as u32 as usize
}

/// The number of a text, of which there are no more than numbers.
fn number(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(NO_NUMBER)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, _) | DataType::Utf8)
}

/// Whole numbers, dates, instants and booleans as 64-bit integers, whatever their type is on either side; texts as they are.
fn whole_numbers(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, of) if **of != DataType::Utf8 => Ok(cast(array, &DataType::Utf8)?),
        of if is_text(of) => Ok(Arc::clone(array)),
        DataType::Date32 => Ok(cast(&cast(array, &DataType::Int32)?, &DataType::Int64)?),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::Boolean
        | DataType::Timestamp(_, _) => Ok(cast(array, &DataType::Int64)?),
        other => Err(Error::Unsupported(format!("a join by a {other}"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{BooleanArray, Date32Array, DictionaryArray, Int16Array, StringArray};
    use proptest::prelude::*;

    use super::*;

    fn numbers_of(columns: usize) -> KeyNumbers {
        KeyNumbers::new(&(0..columns).map(|column| (Expr::Column(column), column)).collect::<Vec<_>>())
    }

    fn coded(texts: &[Option<&str>]) -> ArrayRef {
        Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>())
    }

    #[test]
    fn equal_keys_have_one_number_whatever_their_type_and_dictionary() {
        let mut texts = numbers_of(1);
        let one = texts.of_columns(&[coded(&[Some("N"), Some("Q"), None, Some("N")])]).unwrap();
        let other = texts.of_columns(&[coded(&[Some("Z"), Some("Q"), Some("N")])]).unwrap();
        let sparse: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(
            vec![Some(0), None, Some(2), Some(3)].into(),
            Arc::new(StringArray::from(vec![Some("N"), Some("X"), Some("Z"), None, Some("Q"), Some("Y")])),
        ));
        let found = texts.of_columns(&[Arc::clone(&sparse)]).unwrap();
        assert_eq!(found, [one[0], NO_NUMBER, other[0], NO_NUMBER]);
        let rows: ArrayRef = arrow::compute::concat(&[&sparse, &sparse]).unwrap();
        assert_eq!(texts.of_columns(&[rows]).unwrap(), [found.clone(), found].concat());
        let plain = texts.of_columns(&[Arc::new(StringArray::from(vec![Some("Q"), None, Some("N")]))]).unwrap();
        assert_eq!((one[0], one[1], one[2]), (one[3], other[1], NO_NUMBER));
        assert_eq!((other[2], plain[0], plain[1], plain[2]), (one[0], one[1], NO_NUMBER, one[0]));
        assert!(!one.contains(&other[0]));

        let far = [i64::MIN, -(1 << 30) - 1, -(1 << 30), -1, 0, (1 << 30) - 1, 1 << 30, i64::MAX];
        let mut whole = numbers_of(1);
        let far: ArrayRef = Arc::new(far.map(Some).into_iter().chain([None]).collect::<Int64Array>());
        let (one, other) = (whole.of_columns(&[Arc::clone(&far)]).unwrap(), whole.of_columns(&[far]).unwrap());
        assert_eq!((&one, one[8], one.iter().collect::<std::collections::HashSet<_>>().len()), (&other, NO_NUMBER, 9));
        let small: ArrayRef = Arc::new(Int16Array::from(vec![-1, 0]));
        assert_eq!(whole.of_columns(&[small]).unwrap(), one[3..5]);

        let mut mixed = numbers_of(2);
        let left: [ArrayRef; 2] = [Arc::new(Int16Array::from(vec![Some(-1), Some(7), None])), coded(&[Some("a"); 3])];
        let right: [ArrayRef; 2] = [Arc::new(Int64Array::from(vec![7, -1, 65_535])), coded(&[Some("a"); 3])];
        let (left, right) = (mixed.of_columns(&left).unwrap(), mixed.of_columns(&right).unwrap());
        assert_eq!((left[0], left[1], left[2]), (right[1], right[0], NO_NUMBER));
        assert!(!left.contains(&right[2]));

        let other: [ArrayRef; 2] =
            [Arc::new(Date32Array::from(vec![Some(3), None])), Arc::new(BooleanArray::from(vec![Some(true), None]))];
        assert_eq!(numbers_of(2).of_columns(&other).unwrap()[1], NO_NUMBER);
        let floats: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![1.0]));
        assert!(matches!(numbers_of(1).of_columns(&[floats]), Err(Error::Unsupported(_))));
        assert!(numbers_of(1).of_columns(&[coded(&[])]).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn rows_of_a_number_are_found_by_scan_and_by_split(
            numbers in prop::collection::vec(prop_oneof![0u32..9, Just(NO_NUMBER), any::<u32>()], 0..200),
            target in prop_oneof![0u32..10, any::<u32>()],
            bounds in (0usize..201, 0usize..201),
        ) {
            prop_assume!(target != NO_NUMBER);
            let rows = bounds.0.min(bounds.1).min(numbers.len())..bounds.0.max(bounds.1).min(numbers.len());
            let all: Vec<usize> = (0..numbers.len()).filter(|row| numbers[*row] == target).collect();
            let within = || all.iter().copied().filter(|row| rows.contains(row));
            prop_assert_eq!(last_equal(&numbers, target, rows.clone()), within().next_back());
            prop_assert_eq!(first_equal(&numbers, target, rows.clone()), within().next());
            let split = RowsByNumber::new(&numbers);
            prop_assert_eq!(split.list(target), all.clone());
            prop_assert_eq!(split.has(target), !all.is_empty());
            prop_assert_eq!(split.last_before(target, rows.end), all.iter().copied().rfind(|row| *row < rows.end));
            prop_assert_eq!(split.first_from(target, rows.start), all.iter().copied().find(|row| *row >= rows.start));
        }
    }
}
