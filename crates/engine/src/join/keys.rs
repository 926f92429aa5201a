//! Further keys of a join: what must be equal besides the symbol.
//!
//! Texts are compared by their codes in the right's dictionary, everything else as whole numbers. A null equals nothing.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use hashbrown::HashMap;

use super::dictionaries::{Dictionaries, Translations};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::frame::Frame;

/// A right column over the rows of a part.
pub(super) struct KeyColumn {
    values: Values,
    nulls: Option<NullBuffer>,
}

enum Values {
    /// Codes of a dictionary.
    Codes(ScalarBuffer<i32>, StringArray),
    Numbers(ScalarBuffer<i64>),
}

impl KeyColumn {
    pub fn new(array: &ArrayRef) -> Result<KeyColumn> {
        let nulls = array.logical_nulls();
        let values = match array.data_type() {
            DataType::Dictionary(_, _) | DataType::Utf8 => {
                let array = coded(array)?;
                let array = array.as_dictionary::<Int32Type>();
                Values::Codes(array.keys().values().clone(), array.values().as_string::<i32>().clone())
            }
            _ => Values::Numbers(numbers(array)?.as_primitive::<Int64Type>().values().clone()),
        };
        Ok(KeyColumn { values, nulls })
    }

    fn at(&self, row: usize) -> i64 {
        match &self.values {
            Values::Codes(codes, _) => i64::from(codes[row]),
            Values::Numbers(numbers) => numbers[row],
        }
    }

    fn has(&self, row: usize, wanted: i64) -> bool {
        self.at(row) == wanted && self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// The last row with these values.
    pub fn last_equal(keys: &[KeyColumn], wanted: &[i64], rows: Range<usize>) -> Option<usize> {
        if let Some((codes, wanted)) = only_code(keys, wanted) {
            let chunks = codes[rows.clone()].rchunks(CODES_AT_ONCE);
            let ends = (0..).map(|chunk| rows.end - chunk * CODES_AT_ONCE);
            return chunks.zip(ends).find(|(chunk, _)| has_code(chunk, wanted)).and_then(|(chunk, end)| {
                chunk.iter().rposition(|code| *code == wanted).map(|place| end - chunk.len() + place)
            });
        }
        rows.rev().find(|row| keys.iter().zip(wanted).all(|(key, wanted)| key.has(*row, *wanted)))
    }

    /// The first row with these values.
    pub fn first_equal(keys: &[KeyColumn], wanted: &[i64], mut rows: Range<usize>) -> Option<usize> {
        if let Some((codes, wanted)) = only_code(keys, wanted) {
            let chunks = codes[rows.clone()].chunks(CODES_AT_ONCE);
            let starts = rows.step_by(CODES_AT_ONCE);
            return chunks
                .zip(starts)
                .find(|(chunk, _)| has_code(chunk, wanted))
                .and_then(|(chunk, start)| chunk.iter().position(|code| *code == wanted).map(|place| start + place));
        }
        rows.find(|row| keys.iter().zip(wanted).all(|(key, wanted)| key.has(*row, *wanted)))
    }
}

/// Codes that are compared without a look at what came of each.
const CODES_AT_ONCE: usize = 32;

/// The codes and the wanted one, if that is all there is to compare.
fn only_code<'k>(keys: &'k [KeyColumn], wanted: &[i64]) -> Option<(&'k [i32], i32)> {
    match (keys, wanted) {
        ([KeyColumn { values: Values::Codes(codes, _), nulls: None }], [wanted]) => {
            Some((codes, i32::try_from(*wanted).ok()?))
        }
        _ => None,
    }
}

fn has_code(codes: &[i32], wanted: i32) -> bool {
    codes.iter().fold(false, |has, code| has | (*code == wanted))
}

/// Rows of a part dealt out by their keys.
pub(super) enum Split {
    /// By the codes of one column: those of a code from its start to the next one's.
    Codes {
        starts: Vec<u32>,
        rows: Vec<u32>,
    },
    Values(HashMap<Vec<i64>, Vec<u32>>),
}

impl Split {
    pub fn new(keys: &[KeyColumn], rows: usize) -> Split {
        match keys {
            // A dictionary is of a whole segment, and may be larger than the part.
            [KeyColumn { values: Values::Codes(codes, texts), nulls }] if texts.len() <= rows => {
                Split::of_codes(codes, texts.len(), nulls.as_ref())
            }
            _ => Split::of_values(keys, rows),
        }
    }

    fn of_codes(codes: &[i32], texts: usize, nulls: Option<&NullBuffer>) -> Split {
        let with_code = || {
            let numbered = codes.iter().zip(0u32..).enumerate();
            numbered.filter_map(move |(row, (code, number))| {
                let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
                let code = usize::try_from(*code).ok().filter(|code| is_valid && *code < texts)?;
                Some((code, number))
            })
        };
        // First how many each has, then where each begins; where the next of each goes, is where it ends at last.
        let mut starts = vec![0u32; texts + 2];
        with_code().for_each(|(code, _)| starts[code + 2] += 1);
        for place in 2..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut rows = vec![0; starts.last().map_or(0, |rows| *rows as usize)];
        for (code, number) in with_code() {
            rows[starts[code + 1] as usize] = number;
            starts[code + 1] += 1;
        }
        Split::Codes { starts, rows }
    }

    fn of_values(keys: &[KeyColumn], rows: usize) -> Split {
        let mut by_keys: HashMap<Vec<i64>, Vec<u32>> = HashMap::new();
        let mut values = Vec::with_capacity(keys.len());
        for (row, number) in (0..rows).zip(0u32..) {
            if keys.iter().any(|key| key.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))) {
                continue;
            }
            values.clear();
            values.extend(keys.iter().map(|key| key.at(row)));
            match by_keys.get_mut(&values) {
                Some(list) => list.push(number),
                None => _ = by_keys.insert(values.clone(), vec![number]),
            }
        }
        Split::Values(by_keys)
    }

    /// The rows with these values.
    pub fn list(&self, wanted: &[i64]) -> &[u32] {
        match self {
            Split::Codes { starts, rows } => {
                let code = wanted.first().and_then(|code| usize::try_from(*code).ok());
                let ends = code.and_then(|code| starts.get(code..code + 2));
                ends.map_or(&[], |ends| &rows[ends[0] as usize..ends[1] as usize])
            }
            Split::Values(by_keys) => by_keys.get(wanted).map_or(&[], Vec::as_slice),
        }
    }

    /// The last row with these values before a row.
    pub fn last_before(&self, wanted: &[i64], end: usize) -> Option<usize> {
        let list = self.list(wanted);
        let place = list.partition_point(|row| (*row as usize) < end).checked_sub(1)?;
        Some(list[place] as usize)
    }

    /// The first row with these values from a row on.
    pub fn first_from(&self, wanted: &[i64], first: usize) -> Option<usize> {
        let list = self.list(wanted);
        list.get(list.partition_point(|row| (*row as usize) < first)).map(|row| *row as usize)
    }
}

/// The further keys of left rows.
pub(super) struct LeftKeys {
    columns: Vec<LeftKey>,
    /// Numbers of the keys that were asked for, if they are more than a code.
    numbers: HashMap<Box<[i64]>, usize>,
    /// Scratch: the keys of a row.
    own: Vec<i64>,
}

impl LeftKeys {
    /// The further keys of a join over some left rows.
    pub fn new(keys: &[(Expr, usize)], left: &Frame, constants: &[ArrayRef]) -> Result<LeftKeys> {
        let of = |(key, column): &(Expr, usize)| {
            LeftKey::new(&key.evaluate(left, constants)?.into_array(left.len())?, *column)
        };
        let columns = keys.iter().map(of).collect::<Result<_>>()?;
        Ok(LeftKeys { columns, numbers: HashMap::new(), own: Vec::new() })
    }

    /// Whether the join has none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether they are one text with a code, which is its number.
    pub fn is_a_code(&self) -> bool {
        matches!(self.columns.as_slice(), [LeftKey { values: Values::Codes(..), .. }])
    }

    /// Of each its position in the right table.
    pub fn right_columns(&self) -> impl ExactSizeIterator<Item = usize> {
        self.columns.iter().map(|key| key.column)
    }

    /// A number that two rows share if their keys are equal, counted from zero and not far beyond how many there are; `None` if one
    /// of them is null.
    pub fn number(&mut self, row: usize) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        if let [key @ LeftKey { values: Values::Codes(..), .. }] = self.columns.as_slice() {
            return usize::try_from(key.own(row)?).ok();
        }
        self.own.clear();
        for key in &self.columns {
            self.own.push(key.own(row)?);
        }
        if let Some(number) = self.numbers.get(self.own.as_slice()) {
            return Some(*number);
        }
        let number = self.numbers.len();
        self.numbers.insert(self.own.as_slice().into(), number);
        Some(number)
    }

    /// Rows by their keys; rows with a null among them are in none. Without keys all are together.
    pub fn rows_by_keys(&mut self, rows: Range<usize>) -> Vec<Vec<usize>> {
        if self.is_empty() {
            return vec![rows.collect()];
        }
        let mut places: HashMap<usize, usize> = HashMap::new();
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

    /// Sets `wanted` to the keys of a row as right columns write them; false if one of the columns can't have its key.
    pub fn translate(
        &mut self,
        row: usize,
        right: &[KeyColumn],
        dictionaries: &Dictionaries,
        wanted: &mut Vec<i64>,
    ) -> bool {
        wanted.clear();
        for (key, column) in self.columns.iter_mut().zip(right) {
            let Some(value) = key.wanted(row, column, dictionaries) else { return false };
            wanted.push(value);
        }
        true
    }
}

/// A further key of left rows.
struct LeftKey {
    /// Position of the right column that must equal it.
    column: usize,
    values: Values,
    nulls: Option<NullBuffer>,
    /// What the texts of the left are in dictionaries of the right.
    translations: Translations,
}

impl LeftKey {
    fn new(array: &ArrayRef, column: usize) -> Result<LeftKey> {
        let KeyColumn { values, nulls } = KeyColumn::new(array)?;
        Ok(LeftKey { column, values, nulls, translations: Translations::default() })
    }

    /// The key of a row as the left writes it; `None` for null.
    fn own(&self, row: usize) -> Option<i64> {
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!is_null).then(|| match &self.values {
            Values::Codes(codes, _) => i64::from(codes[row]),
            Values::Numbers(numbers) => numbers[row],
        })
    }

    /// The key of a row as a right column writes it; `None` if the column can't have it.
    fn wanted(&mut self, row: usize, right: &KeyColumn, dictionaries: &Dictionaries) -> Option<i64> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match (&self.values, &right.values) {
            (Values::Numbers(numbers), Values::Numbers(_)) => Some(numbers[row]),
            (Values::Codes(codes, texts), Values::Codes(_, right_texts)) => {
                let place = usize::try_from(codes[row]).ok()?;
                self.translations.to(right_texts, dictionaries).code(texts, place).map(i64::from)
            }
            _ => None,
        }
    }
}

fn coded(array: &ArrayRef) -> Result<ArrayRef> {
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Ok(if *array.data_type() == text { Arc::clone(array) } else { cast(array, &text)? })
}

/// Whole numbers, dates and booleans as 64-bit integers.
fn numbers(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
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
