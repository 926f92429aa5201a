//! Copies the rows that pass a filter from several parts of a column into one array, each value once.
//!
//! If few rows pass, they are copied by row number. Otherwise masks are read 64 rows at a time and values are
//! compressed without a branch (`compress.rs`), so the cost doesn't depend on how passing and failing rows alternate.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, DictionaryArray, PrimitiveArray, StringArray,
    downcast_primitive_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::Int32Type;
use arrow::error::ArrowError;

use crate::compress::{self, SLACK_BYTES, append};
use crate::dictionaries::concat_arrays;
use crate::error::Result;
use crate::filter_mask::FilterMask;
use crate::value::Value;

/// A part of a column and the mask of the rows to keep; without a mask all are kept.
pub(crate) type MaskedPart<'a> = (&'a ArrayRef, Option<&'a FilterMask>);

/// The kept rows of at least one part.
pub(crate) fn filtered_rows(parts: &[MaskedPart<'_>]) -> Result<ArrayRef> {
    let first: &dyn Array = parts[0].0.as_ref();
    if let Some(coded) = first.as_any_dictionary_opt().and_then(|_| codes(parts)) {
        return Ok(coded);
    }
    if first.as_boolean_opt().is_some() {
        return Ok(Arc::new(truth_values(&typed(parts, |array| array.as_boolean_opt())?)));
    }
    if first.as_string_opt::<i32>().is_some() {
        return Ok(Arc::new(texts(&typed(parts, |array| array.as_string_opt::<i32>())?)?));
    }
    Ok(downcast_primitive_array!(
        first => Arc::new(numbers_like(first, parts)?),
        _ => of_any_type(parts)?,
    ))
}

/// The general way, by Arrow's kernels: for lists, structures and different dictionaries.
fn of_any_type(parts: &[MaskedPart<'_>]) -> Result<ArrayRef> {
    let filtered = parts.iter().map(|(values, mask)| match mask {
        Some(mask) => Ok(mask.arrow().filter(values)?),
        None => Ok(Arc::clone(values)),
    });
    concat_arrays(filtered.collect::<Result<_>>()?, parts[0].0.data_type())
}

type TypedPart<'a, A> = (&'a A, Option<&'a FilterMask>);

/// The parts as arrays of one type.
fn typed<'a, A>(
    parts: &[MaskedPart<'a>],
    cast: impl Fn(&'a dyn Array) -> Option<&'a A>,
) -> Result<Vec<TypedPart<'a, A>>, ArrowError> {
    let other = |array: &dyn Array| ArrowError::CastError(format!("a part of another type: {}", array.data_type()));
    let parts = parts.iter().map(|&(array, mask)| match cast(array.as_ref()) {
        Some(typed) => Ok((typed, mask)),
        None => Err(other(array)),
    });
    parts.collect()
}

/// How many rows of parts are kept.
fn rows_of<A: Array>(parts: &[TypedPart<'_, A>]) -> usize {
    parts.iter().map(|(array, mask)| mask.map_or(array.len(), |mask| mask.rows())).sum()
}

/// The codes of parts that share one dictionary; `None` for other parts.
fn codes(parts: &[MaskedPart<'_>]) -> Option<ArrayRef> {
    let coded = typed(parts, |array| array.as_dictionary_opt::<Int32Type>()).ok()?;
    let values = coded[0].0.values();
    let is_same = |other: &ArrayRef| Arc::ptr_eq(other, values) || other.to_data().ptr_eq(&values.to_data());
    if !coded[1..].iter().all(|(part, _)| is_same(part.values())) {
        return None;
    }
    let keys = numbers(&coded.iter().map(|(part, mask)| (part.keys(), *mask)).collect::<Vec<_>>());
    // SAFETY: each key is that of a dictionary array with these values.
    Some(Arc::new(unsafe { DictionaryArray::new_unchecked(keys, Arc::clone(values)) }))
}

fn numbers_like<T: ArrowPrimitiveType>(
    first: &PrimitiveArray<T>,
    parts: &[MaskedPart<'_>],
) -> Result<PrimitiveArray<T>, ArrowError> {
    let parts = typed(parts, |array| array.as_primitive_opt::<T>())?;
    Ok(numbers(&parts).with_data_type(first.data_type().clone()))
}

fn numbers<T: ArrowPrimitiveType>(parts: &[TypedPart<'_, PrimitiveArray<T>>]) -> PrimitiveArray<T> {
    let mut values = Vec::with_capacity(rows_of(parts) + SLACK_BYTES / size_of::<T::Native>());
    for (part, mask) in parts {
        match mask {
            Some(mask) => match mask.numbers() {
                Some(rows) => values.extend(rows.iter().map(|row| part.values()[*row as usize])),
                None => append(&mut values, part.values(), mask.words()),
            },
            None => values.extend_from_slice(part.values()),
        }
    }
    let nulls = validity(parts);
    PrimitiveArray::new(values.into(), nulls)
}

fn truth_values(parts: &[TypedPart<'_, BooleanArray>]) -> BooleanArray {
    let mut bits = BitWriter::with_capacity(rows_of(parts));
    for (part, mask) in parts {
        bits.append(part.values(), *mask);
    }
    BooleanArray::new(bits.finish(), validity(parts))
}

/// The nulls of the remaining rows, if there are any.
fn validity<A: Array>(parts: &[TypedPart<'_, A>]) -> Option<NullBuffer> {
    if parts.iter().all(|(part, _)| part.null_count() == 0) {
        return None;
    }
    let mut bits = BitWriter::with_capacity(rows_of(parts));
    for (part, mask) in parts {
        match part.nulls() {
            Some(nulls) => bits.append(nulls.inner(), *mask),
            None => bits.append_ones(mask.map_or(part.len(), |mask| mask.rows())),
        }
    }
    Some(NullBuffer::new(bits.finish())).filter(|nulls| nulls.null_count() > 0)
}

fn texts(parts: &[TypedPart<'_, StringArray>]) -> Result<StringArray, ArrowError> {
    let mut offsets: Vec<i32> = Vec::with_capacity(rows_of(parts) + 1);
    offsets.push(0);
    let mut bytes: Vec<u8> = Vec::new();
    for (part, mask) in parts {
        let (starts, data) = (part.value_offsets(), part.value_data());
        let place = |row: usize| usize::try_from(starts[row]).unwrap_or(0);
        let share = mask.map_or(1.0, |mask| mask.rows() as f64 / part.len().max(1) as f64);
        #[expect(clippy::cast_possible_truncation, reason = "a share of a length")]
        bytes.reserve(((place(part.len()) - place(0)) as f64 * share) as usize);
        let mut copy = |rows: Range<usize>| {
            let (from, to) = (bytes.len(), place(rows.start));
            bytes.extend_from_slice(&data[to..place(rows.end)]);
            let end = i32::try_from(bytes.len()).map_err(|_| ArrowError::OffsetOverflowError(bytes.len()))?;
            // If the last end fits, so does every end before it.
            let shift = end - starts[rows.end];
            debug_assert_eq!(i64::from(shift), from as i64 - to as i64);
            offsets.extend(starts[rows.start + 1..=rows.end].iter().map(|start| start + shift));
            Ok::<(), ArrowError>(())
        };
        match mask {
            Some(mask) if mask.numbers().is_some() => {
                let mut rows = mask.numbers().unwrap_or_default().iter().map(|row| *row as usize);
                rows.try_for_each(|row| copy(row..row + 1))?;
            }
            Some(mask) => {
                for (number, word) in mask.words().iter().enumerate() {
                    runs(*word).try_for_each(|run| copy(number * 64 + run.start..number * 64 + run.end))?;
                }
            }
            None => copy(0..part.len())?,
        }
    }
    let offsets = OffsetBuffer::new(offsets.into());
    // SAFETY: each text is that of an array of texts, and stands where its offsets say.
    Ok(unsafe { StringArray::new_unchecked(offsets, bytes.into(), validity(parts)) })
}

/// The runs of set bits in a word, ascending.
fn runs(mut word: u64) -> impl Iterator<Item = Range<usize>> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let start = word.trailing_zeros();
        let length = (!(word >> start)).trailing_zeros().min(64 - start);
        word = if start + length == 64 { 0 } else { word >> (start + length) << (start + length) };
        Some(start as usize..(start + length) as usize)
    })
}

/// Appends bits to a buffer.
struct BitWriter {
    words: Vec<u64>,
    bits: usize,
}

impl BitWriter {
    fn with_capacity(bits: usize) -> BitWriter {
        BitWriter { words: Vec::with_capacity(bits.div_ceil(64) + 1), bits: 0 }
    }

    /// Appends the lowest `count` bits of a word; its other bits must be zero.
    fn push(&mut self, word: u64, count: u32) {
        let filled = self.bits % 64;
        match self.words.last_mut() {
            Some(last) if filled > 0 => {
                *last |= word << filled;
                if filled + count as usize > 64 {
                    self.words.push(word >> (64 - filled));
                }
            }
            _ if count > 0 => self.words.push(word),
            _ => {}
        }
        self.bits += count as usize;
    }

    #[expect(clippy::cast_possible_truncation, reason = "a word has 64 bits")]
    fn append_ones(&mut self, mut count: usize) {
        while count > 0 {
            let some = count.min(64);
            self.push(u64::MAX >> (64 - some), some as u32);
            count -= some;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a word has 64 bits")]
    fn append(&mut self, bits: &BooleanBuffer, filter: Option<&FilterMask>) {
        let chunks = bits.bit_chunks();
        match filter {
            Some(filter) if filter.numbers().is_some() => {
                for rows in filter.numbers().unwrap_or_default().chunks(64) {
                    let bit = |(place, row): (usize, &u32)| u64::from(bits.value(*row as usize)) << place;
                    self.push(rows.iter().enumerate().map(bit).fold(0, |word, bit| word | bit), rows.len() as u32);
                }
            }
            Some(filter) => {
                let compressed = compress::bits();
                for (bits, mask) in chunks.iter_padded().zip(filter.words()) {
                    self.push(compressed(bits, *mask), mask.count_ones());
                }
            }
            None => {
                chunks.iter().for_each(|word| self.push(word, 64));
                self.push(chunks.remainder_bits(), (bits.len() % 64) as u32);
            }
        }
    }

    fn finish(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.bits)
    }
}

impl FilterMask {
    /// The kept rows of a column that is as long as the mask.
    pub fn filter(&self, column: &ArrayRef) -> Result<ArrayRef> {
        filtered_rows(&[(column, Some(self))])
    }

    /// Filters a column or a constant.
    pub fn filter_value(&self, value: Value) -> Result<Value> {
        Ok(match value {
            Value::Array(array) => Value::Array(self.filter(&array)?),
            scalar => scalar,
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, ListArray, TimestampNanosecondArray};
    use arrow::compute::{concat, filter};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    fn columns(first: usize, rows: usize, shared: &ArrayRef) -> Vec<ArrayRef> {
        let rows = first..first + rows;
        let text = |row: usize| (row % 7 > 0).then(|| ["", "N", "Quote", "µ€"][row % 4]);
        let own: DictionaryArray<Int32Type> = rows.clone().map(text).collect();
        let keys = rows.clone().map(|row| (row % 5 > 0).then_some((row % 3) as i32)).collect();
        vec![
            Arc::new(rows.clone().map(|row| (row % 5 > 0).then_some(row as f64)).collect::<Float64Array>()),
            Arc::new(
                TimestampNanosecondArray::from_iter_values(rows.clone().map(|row| row as i64)).with_timezone("UTC"),
            ),
            Arc::new(own),
            Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::clone(shared))),
            Arc::new(rows.clone().map(text).collect::<StringArray>()),
            Arc::new(StringArray::from_iter_values(rows.clone().map(|row| row.to_string()))),
            Arc::new(rows.clone().map(|row| (row % 3 > 0).then_some(row % 2 > 0)).collect::<BooleanArray>()),
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(
                rows.map(|row| (row % 4 > 0).then(|| vec![Some(row as i64); row % 3])),
            )),
        ]
    }

    /// Masks of parts, or none for one of which all rows are kept.
    fn check(masks: &[Result<Vec<bool>, usize>]) {
        let shared: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let rows = |mask: &Result<Vec<bool>, usize>| mask.as_ref().map_or_else(|rows| *rows, |mask| mask.len());
        let mut first = 0;
        let parts: Vec<Vec<ArrayRef>> = masks
            .iter()
            .map(|mask| {
                first += rows(mask) + 1;
                // Slices that begin within a word.
                columns(first, rows(mask) + 3, &shared).iter().map(|column| column.slice(3, rows(mask))).collect()
            })
            .collect();
        let part_masks: Vec<Option<FilterMask>> = masks
            .iter()
            .map(|mask| {
                // A mask that begins within a word, too.
                let mask = mask.as_ref().ok()?;
                let longer: BooleanArray = [false; 5].iter().chain(mask).map(|bit| Some(*bit)).collect();
                Some(FilterMask::new(longer.slice(5, mask.len())))
            })
            .collect();
        for column in 0..parts[0].len() {
            let masked_parts: Vec<MaskedPart<'_>> =
                parts.iter().zip(&part_masks).map(|(part, mask)| (&part[column], mask.as_ref())).collect();
            let expected: Vec<ArrayRef> = masked_parts
                .iter()
                .map(|(part, mask)| match mask {
                    Some(mask) => filter(part, mask.mask()).unwrap(),
                    None => Arc::clone(part),
                })
                .collect();
            let expected: Vec<&dyn Array> = expected.iter().map(AsRef::as_ref).collect();
            let (actual, expected) = (filtered_rows(&masked_parts).unwrap(), concat(&expected).unwrap());
            assert_eq!(actual.data_type(), expected.data_type());
            actual.to_data().validate_full().unwrap();
            let plain = |array: &ArrayRef| match array.as_dictionary_opt::<Int32Type>() {
                Some(coded) => arrow::compute::cast(coded, coded.values().data_type()).unwrap(),
                None => Arc::clone(array),
            };
            assert_eq!(&plain(&actual), &plain(&expected), "column {column}");
        }
    }

    #[test]
    fn all_rows_none_and_no_rows_at_all() {
        for masks in [
            vec![Ok(vec![true; 300])],
            vec![Ok(vec![false; 300])],
            vec![Ok(vec![])],
            vec![Err(0)],
            vec![Err(130), Err(1)],
        ] {
            check(&masks);
        }
        check(&[Ok(vec![true; 128]), Err(64), Ok(vec![false; 64]), Ok([vec![true; 63], vec![false]].concat())]);
    }

    #[test]
    fn runs_of_bits() {
        assert_eq!(runs(u64::MAX).collect::<Vec<_>>(), [0..64]);
        assert_eq!(runs(1 << 63 | 0b110).collect::<Vec<_>>(), [1..3, 63..64]);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_arrow_keeps(parts in prop::collection::vec((prop::collection::vec(0usize..90, 0..12), 1usize..9, prop::bool::weighted(0.2)), 1..5)) {
            // Runs of kept rows and of others in turns; now and then rows in turns.
            let masks: Vec<Result<Vec<bool>, usize>> = parts.iter().map(|(lengths, every, is_whole)| {
                let bits: Vec<bool> = lengths.iter().enumerate().flat_map(|(number, length)| {
                    (0..*length).map(move |row| if number % every == 1 { row % 2 == 0 } else { number % 2 == 0 })
                }).collect();
                if *is_whole { Err(bits.len()) } else { Ok(bits) }
            }).collect();
            check(&masks);
        }
    }
}
