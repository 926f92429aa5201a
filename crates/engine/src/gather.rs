//! Gathers rows of several parts into one array, in a given order.
//!
//! Idea: an order often consists of few stretches of rows of one part each, as after a merge of runs. These are read one after the other and
//! concatenated. Otherwise each part is read once, for all its rows, and the values are interleaved by place.
//!
//! Cost: one read of a row list per part or stretch, and one copy of each value, or two if values are interleaved.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Int32Type};
use splay_store::RowList;

use crate::dictionaries::{concat_arrays, one_dictionary};
use crate::error::Result;

/// The position that stands for a missing row.
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

/// Most stretches, each of rows of one part, that are concatenated.
const STRETCHES_MAX: usize = 64;

/// The rows that are to be gathered.
#[derive(Debug)]
pub(crate) enum Gather {
    /// Stretches of rows of one part each, null for a missing row. Read in this order they are the result.
    Stretches(Vec<(u32, RowList)>),
    Many {
        /// The rows of each part.
        by_part: Vec<(u32, RowList)>,
        /// For each row the index of its part in `by_part`, and its place there; the index behind the last for a missing row.
        indices: Vec<(usize, usize)>,
        has_nothing: bool,
    },
}

impl Gather {
    pub fn new(positions: &[u64]) -> Gather {
        match stretches(positions) {
            Some(stretches) => {
                let rows = stretches.into_iter().map(|(part, rows)| (part, rows_of_part(&positions[rows])));
                Gather::Stretches(rows.collect())
            }
            None => Gather::by_part(positions),
        }
    }

    fn by_part(positions: &[u64]) -> Gather {
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
        let by_part = by_part.into_iter().map(|(part, rows)| (part, UInt32Array::from(rows).into())).collect();
        Gather::Many { by_part, indices, has_nothing }
    }

    /// The number of rows that aren't missing.
    pub fn matched_rows(&self) -> usize {
        let parts = match self {
            Gather::Stretches(parts) | Gather::Many { by_part: parts, .. } => parts,
        };
        parts.iter().map(|(_, rows)| rows.rows().len() - rows.rows().null_count()).sum()
    }

    /// Gathers computed values; a missing row gives null. `read` evaluates rows of one part, and isn't called for
    /// missing rows, which an expression might turn into a value.
    pub fn computed(
        &self,
        data_type: &DataType,
        mut read: impl FnMut(u32, &RowList) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        self.stored(data_type, |part, rows| {
            if rows.rows().null_count() == 0 {
                return read(part, rows);
            }
            let existing: UInt32Array = rows.rows().iter().flatten().map(Some).collect();
            let places = rows.rows().iter().scan(0, |next, row| {
                *next += u32::from(row.is_some());
                Some(row.map(|_| *next - 1))
            });
            Ok(take(&read(part, &existing.into())?, &places.collect::<UInt32Array>(), None)?)
        })
    }

    /// Gathers stored values, for which `read` gives null for a missing row.
    pub fn stored(
        &self,
        data_type: &DataType,
        mut read: impl FnMut(u32, &RowList) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        let (by_part, indices, has_nothing) = match self {
            Gather::Stretches(stretches) => {
                let arrays = stretches.iter().map(|(part, rows)| read(*part, rows)).collect::<Result<Vec<_>>>()?;
                return concat_arrays(arrays, data_type);
            }
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

/// Positions that are examined together; most often they lie in one part.
const LOOK_ROWS: usize = 64;

/// Stretches of positions in one part, missing rows included; `None` if there are many stretches, or all rows are missing.
fn stretches(positions: &[u64]) -> Option<Vec<(u32, Range<usize>)>> {
    let mut stretches: Vec<(u32, Range<usize>)> = Vec::new();
    for (block, together) in positions.chunks(LOOK_ROWS).enumerate() {
        let is_of = |part: u32| together.iter().all(|position| *position == NOTHING || place(*position).0 == part);
        if stretches.last().is_some_and(|(part, _)| is_of(*part)) {
            continue;
        }
        for (number, position) in (block * LOOK_ROWS..).zip(together).filter(|(_, position)| **position != NOTHING) {
            let (part, _) = place(*position);
            let is_full = stretches.len() == STRETCHES_MAX;
            match stretches.last_mut() {
                Some((current, _)) if *current == part => {}
                Some(_) if is_full => return None,
                Some((_, rows)) => {
                    rows.end = number;
                    stretches.push((part, number..positions.len()));
                }
                None => stretches.push((part, 0..positions.len())),
            }
        }
    }
    Some(stretches).filter(|stretches| !stretches.is_empty())
}

/// The rows of positions in one part, null for a missing row.
fn rows_of_part(positions: &[u64]) -> RowList {
    if !positions.contains(&NOTHING) {
        return UInt32Array::new(positions.iter().map(|position| place(*position).1).collect(), None).into();
    }
    let validity = BooleanBuffer::collect_bool(positions.len(), |row| positions[row] != NOTHING);
    // A missing row still has a valid number, for readers that look only at the numbers.
    let row = |position: &u64| if *position == NOTHING { 0 } else { place(*position).1 };
    UInt32Array::new(positions.iter().map(row).collect(), Some(NullBuffer::new(validity))).into()
}

/// Interleaves dictionary arrays that share one dictionary, and keeps it: Arrow's kernel would concatenate the dictionaries.
pub(crate) fn interleaved_codes(arrays: &[ArrayRef], indices: &[(usize, usize)]) -> Result<Option<ArrayRef>> {
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
        let read = |part: u32, rows: &RowList| {
            let values: ArrayRef =
                Arc::new(Int64Array::from_iter_values((0..10).map(|row| i64::from(part) * 100 + row)));
            Ok(take(&values, rows.rows(), None)?)
        };
        let gather = Gather::new(positions);
        let column = gather.stored(&DataType::Int64, read).unwrap();
        assert_eq!(&Gather::by_part(positions).stored(&DataType::Int64, read).unwrap(), &column);
        let never_null = |part: u32, rows: &RowList| {
            assert_eq!(rows.rows().null_count(), 0);
            read(part, rows)
        };
        assert_eq!(&gather.computed(&DataType::Int64, never_null).unwrap(), &column);
        column.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn rows_come_in_the_order_that_was_asked_for() {
        let positions = [position(1, 3), position(0, 2), NOTHING, position(1, 0), position(0, 2)];
        assert_eq!(gathered(&positions), [Some(103), Some(2), None, Some(100), Some(2)]);
        assert_eq!(gathered(&[position(2, 5), NOTHING, position(2, 1)]), [Some(205), None, Some(201)]);
        assert_eq!(gathered(&[NOTHING, NOTHING]), [None, None]);
        assert_eq!(gathered(&[]), []);
        let long = [NOTHING, position(3, 1), NOTHING, position(3, 0), position(1, 9), NOTHING];
        assert_eq!(gathered(&long), [None, Some(301), None, Some(300), Some(109), None]);
        let parts = 2 * u32::try_from(STRETCHES_MAX).unwrap();
        let many: Vec<u64> = (0..parts).flat_map(|part| [position(part, 2), NOTHING]).collect();
        let expected: Vec<_> = (0..i64::from(parts)).flat_map(|part| [Some(part * 100 + 2), None]).collect();
        assert_eq!(gathered(&many), expected);
    }

    #[test]
    fn dictionaries_of_several_parts_hold_no_value_twice() {
        let text = |row: usize| ["N", "P", "Q"][row % 3];
        let parts: Vec<ArrayRef> = (0..2)
            .map(|part| {
                Arc::new((0..500).map(|row| Some(text(row + part))).collect::<DictionaryArray<Int32Type>>()) as _
            })
            .collect();
        let read = |part: u32, rows: &RowList| Ok(take(&parts[part as usize], rows.rows(), None)?);
        let positions: Vec<u64> =
            (0..900).map(|row| if row == 7 { NOTHING } else { position(row % 2, row as usize / 2) }).collect();
        let column = Gather::new(&positions).stored(parts[0].data_type(), read).unwrap();
        let column = column.as_dictionary::<Int32Type>();
        assert_eq!(column.values().len(), 3);
        for (row, actual) in column.downcast_dict::<arrow::array::StringArray>().unwrap().into_iter().enumerate() {
            let expected = (row != 7).then(|| text(row / 2 + row % 2));
            assert_eq!(actual, expected, "row {row}");
        }
    }
}
