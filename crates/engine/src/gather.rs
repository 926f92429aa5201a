//! Values of rows that stand in several parts, put together in an order of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Int32Type};

use crate::error::Result;
use crate::frame::one_dictionary;

/// Position of no row.
pub(crate) const NOTHING: u64 = u64::MAX;

/// The position of a row of a part: positions of later parts, and of later rows of a part, are greater.
pub(crate) fn position(part: u32, row: usize) -> u64 {
    (u64::from(part) << 32) | row as u64
}

/// The part and the row of a position.
#[expect(clippy::cast_possible_truncation, reason = "both halves of a word")]
pub(crate) fn place(position: u64) -> (u32, u32) {
    ((position >> 32) as u32, (position & u64::from(u32::MAX)) as u32)
}

/// Which rows are to be put together.
#[derive(Debug)]
pub(crate) enum Gather {
    /// Rows of one part, null where there is none: read in their order, they are the result.
    One(u32, UInt32Array),
    Many {
        /// The rows of each part.
        by_part: Vec<(u32, UInt32Array)>,
        /// For each row the number of its part in `by_part`, and its place there; the number behind the last for no row.
        indices: Vec<(usize, usize)>,
        has_nothing: bool,
    },
}

impl Gather {
    pub fn new(positions: &[u64]) -> Gather {
        let mut parts = positions.iter().filter(|position| **position != NOTHING).map(|position| place(*position).0);
        let first = parts.next();
        if let Some(first) = first
            && parts.all(|part| part == first)
        {
            let rows: Vec<u32> = positions.iter().map(|position| place(*position).1).collect();
            let found = BooleanBuffer::collect_bool(positions.len(), |row| positions[row] != NOTHING);
            let nulls = Some(NullBuffer::new(found)).filter(|nulls| nulls.null_count() > 0);
            // What stands for no row must be a row nevertheless, for who looks at the numbers alone.
            let rows = if nulls.is_some() {
                rows.iter().map(|row| if *row == u32::MAX { 0 } else { *row }).collect()
            } else {
                rows
            };
            return Gather::One(first, UInt32Array::new(rows.into(), nulls));
        }
        let mut by_part: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut places = Vec::with_capacity(positions.len());
        for position in positions {
            places.push((*position != NOTHING).then(|| {
                let (part, row) = place(*position);
                let rows = by_part.entry(part).or_default();
                rows.push(row);
                (part, rows.len() - 1)
            }));
        }
        let numbers: BTreeMap<u32, usize> = by_part.keys().enumerate().map(|(number, part)| (*part, number)).collect();
        let nothing = (by_part.len(), 0);
        let indices = places.iter().map(|place| place.map_or(nothing, |(part, row)| (numbers[&part], row))).collect();
        let has_nothing = by_part.is_empty() || places.iter().any(Option::is_none);
        let by_part = by_part.into_iter().map(|(part, rows)| (part, UInt32Array::from(rows))).collect();
        Gather::Many { by_part, indices, has_nothing }
    }

    /// Rows that are no nothing.
    pub fn found(&self) -> usize {
        match self {
            Gather::One(_, rows) => rows.len() - rows.null_count(),
            Gather::Many { by_part, .. } => by_part.iter().map(|(_, rows)| rows.len()).sum(),
        }
    }

    /// The values of the rows, null where there is none. `read` gives the values of some rows of a part; it isn't asked for
    /// those of no row, which what is computed might give a value.
    pub fn computed(
        &self,
        data_type: &DataType,
        mut read: impl FnMut(u32, &UInt32Array) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        match self {
            Gather::One(part, rows) if rows.null_count() > 0 => {
                let found: UInt32Array = rows.iter().flatten().map(Some).collect();
                let places = rows.iter().scan(0, |next, row| {
                    *next += u32::from(row.is_some());
                    Some(row.map(|_| *next - 1))
                });
                Ok(take(&read(*part, &found)?, &places.collect::<UInt32Array>(), None)?)
            }
            other => other.stored(data_type, read),
        }
    }

    /// The same where `read` gives null for null.
    pub fn stored(
        &self,
        data_type: &DataType,
        mut read: impl FnMut(u32, &UInt32Array) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        let (by_part, indices, has_nothing) = match self {
            Gather::One(part, rows) => return read(*part, rows),
            Gather::Many { by_part, indices, has_nothing } => (by_part, indices, has_nothing),
        };
        let arrays = by_part.iter().map(|(part, rows)| read(*part, rows)).collect::<Result<Vec<_>>>()?;
        let mut arrays = one_dictionary(arrays)?;
        if let Some(coded) = interleaved_codes(&arrays, indices)? {
            return Ok(coded);
        }
        if *has_nothing {
            arrays.push(new_null_array(data_type, 1));
        }
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&arrays, indices)?)
    }
}

/// Dictionaries of the same values put together as one of these values: Arrow's kernel would write them behind each other.
fn interleaved_codes(arrays: &[ArrayRef], indices: &[(usize, usize)]) -> Result<Option<ArrayRef>> {
    let codes: Option<Vec<&DictionaryArray<Int32Type>>> =
        arrays.iter().map(|array| array.as_dictionary_opt()).collect();
    let Some(codes) = codes else { return Ok(None) };
    let Some(first) = codes.first() else { return Ok(None) };
    let code = |(part, row): &(usize, usize)| {
        let keys = codes.get(*part)?.keys();
        keys.is_valid(*row).then(|| keys.value(*row))
    };
    let keys: Int32Array = indices.iter().map(code).collect();
    Ok(Some(Arc::new(DictionaryArray::try_new(keys, Arc::clone(first.values()))?)))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn gathered(positions: &[u64]) -> Vec<Option<i64>> {
        let read = |part: u32, rows: &UInt32Array| {
            let values: ArrayRef =
                Arc::new(Int64Array::from_iter_values((0..10).map(|row| i64::from(part) * 100 + row)));
            Ok(take(&values, rows, None)?)
        };
        let gather = Gather::new(positions);
        let column = gather.stored(&DataType::Int64, read).unwrap();
        let never_null = |part: u32, rows: &UInt32Array| {
            assert_eq!(rows.null_count(), 0);
            read(part, rows)
        };
        assert_eq!(&gather.computed(&DataType::Int64, never_null).unwrap(), &column);
        column.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn rows_come_in_the_order_that_was_asked_for() {
        let asked = [position(1, 3), position(0, 2), NOTHING, position(1, 0), position(0, 2)];
        assert_eq!(gathered(&asked), [Some(103), Some(2), None, Some(100), Some(2)]);
        assert_eq!(gathered(&[position(2, 5), NOTHING, position(2, 1)]), [Some(205), None, Some(201)]);
        assert_eq!(gathered(&[NOTHING, NOTHING]), [None, None]);
        assert_eq!(gathered(&[]), []);
    }

    #[test]
    fn dictionaries_of_several_parts_hold_no_value_twice() {
        let text = |row: usize| ["N", "P", "Q"][row % 3];
        let parts: Vec<ArrayRef> = (0..2)
            .map(|part| {
                Arc::new((0..500).map(|row| Some(text(row + part))).collect::<DictionaryArray<Int32Type>>()) as _
            })
            .collect();
        let read = |part: u32, rows: &UInt32Array| Ok(take(&parts[part as usize], rows, None)?);
        let asked: Vec<u64> =
            (0..900).map(|row| if row == 7 { NOTHING } else { position(row % 2, row as usize / 2) }).collect();
        let column = Gather::new(&asked).stored(parts[0].data_type(), read).unwrap();
        let column = column.as_dictionary::<Int32Type>();
        assert_eq!(column.values().len(), 3);
        for (row, found) in column.downcast_dict::<arrow::array::StringArray>().unwrap().into_iter().enumerate() {
            let expected = (row != 7).then(|| text(row / 2 + row % 2));
            assert_eq!(found, expected, "row {row}");
        }
    }
}
