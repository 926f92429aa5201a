//! The rows that a mask keeps, taken out of columns.
//!
//! Where a filter asks for what changes with the symbol, a price for one, kept rows stand in runs, which are copied as such. Others are
//! Arrow's to pick one by one.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder, DictionaryArray, PrimitiveArray,
    downcast_primitive_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::Int32Type;

use crate::error::Result;
use crate::expr::Value;

/// Rows of a run, on average, from which on runs are copied.
const RUN_ROWS: usize = 16;

/// What keeps rows of columns.
#[derive(Debug)]
pub(crate) struct Kept {
    mask: BooleanArray,
    rows: usize,
    /// The kept rows, if they stand in runs.
    runs: Option<Vec<Range<usize>>>,
    /// Whether several columns are filtered, so that it pays to find the rows once.
    are_many: bool,
    picked: OnceLock<FilterPredicate>,
}

impl Kept {
    /// What keeps the rows where `mask` is true, of so many columns. A mask has no nulls.
    pub fn new(mask: BooleanArray, columns: usize) -> Kept {
        let rows = mask.true_count();
        let runs = pieces(mask.values(), rows / RUN_ROWS);
        Kept { mask, rows, runs, are_many: columns > 1, picked: OnceLock::new() }
    }

    /// How many rows are kept.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn mask(&self) -> &BooleanArray {
        &self.mask
    }

    /// The kept rows of a column that is as long as the mask.
    pub fn filter(&self, column: &ArrayRef) -> Result<ArrayRef> {
        if let Some(runs) = &self.runs
            && let Some(copied) = self.copied(column, runs)?
        {
            return Ok(copied);
        }
        let picked = self.picked.get_or_init(|| {
            let filter = FilterBuilder::new(&self.mask);
            if self.are_many { filter.optimize().build() } else { filter.build() }
        });
        Ok(picked.filter(column)?)
    }

    /// The same of a column that may have one value for all rows.
    pub fn filter_value(&self, value: Value) -> Result<Value> {
        Ok(match value {
            Value::Array(array) => Value::Array(self.filter(&array)?),
            scalar => scalar,
        })
    }

    /// The same of runs; `None` of columns whose values aren't of one width.
    fn copied(&self, column: &ArrayRef, runs: &[Range<usize>]) -> Result<Option<ArrayRef>> {
        if let Some(coded) = column.as_any().downcast_ref::<DictionaryArray<Int32Type>>() {
            let codes = self.values(coded.keys(), runs);
            return Ok(Some(Arc::new(DictionaryArray::try_new(codes, Arc::clone(coded.values()))?)));
        }
        let column: &dyn Array = column.as_ref();
        Ok(downcast_primitive_array!(
            column => Some(Arc::new(self.values(column, runs))),
            _ => None,
        ))
    }

    fn values<T: ArrowPrimitiveType>(&self, column: &PrimitiveArray<T>, runs: &[Range<usize>]) -> PrimitiveArray<T> {
        let mut values = Vec::with_capacity(self.rows);
        for run in runs {
            values.extend_from_slice(&column.values()[run.clone()]);
        }
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| {
            let mut valid = BooleanBufferBuilder::new(self.rows);
            for run in runs {
                valid.append_buffer(&nulls.inner().slice(run.start, run.len()));
            }
            NullBuffer::new(valid.finish())
        });
        PrimitiveArray::new(values.into(), nulls).with_data_type(column.data_type().clone())
    }
}

/// The runs of rows that a mask keeps, if there are no more than `most`.
pub(crate) fn pieces(mask: &BooleanBuffer, most: usize) -> Option<Vec<Range<usize>>> {
    let (mut begun, mut before) = (0, 0);
    for word in mask.bit_chunks().iter_padded() {
        begun += (word & !(word << 1 | before)).count_ones() as usize;
        before = word >> 63;
    }
    (begun <= most).then(|| mask.set_slices().map(|(start, end)| start..end).collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringArray, TimestampNanosecondArray};
    use arrow::compute::filter;
    use proptest::prelude::*;

    use super::*;

    fn columns(rows: i32) -> Vec<ArrayRef> {
        let text = |row: i32| (row % 7 > 0).then(|| ["N", "Q", "Z"][row as usize % 3]);
        vec![
            Arc::new((0..rows).map(|row| (row % 5 > 0).then_some(f64::from(row))).collect::<Float64Array>()),
            Arc::new((0..rows).map(text).collect::<DictionaryArray<Int32Type>>()),
            Arc::new((0..rows).map(text).collect::<StringArray>()),
            Arc::new((0..rows).map(|row| (row % 3 > 0).then_some(row % 2 > 0)).collect::<BooleanArray>()),
            Arc::new(TimestampNanosecondArray::from_iter_values((0..rows).map(i64::from)).with_timezone("UTC")),
        ]
    }

    fn check(mask: &BooleanArray) {
        // A mask that begins within a word.
        let (mask, from) = (mask.slice(mask.len().min(3), mask.len().saturating_sub(3)), mask.len().min(3));
        let kept = Kept::new(mask.clone(), 2);
        assert_eq!(kept.rows(), mask.true_count());
        for column in columns(i32::try_from(from + mask.len()).unwrap()) {
            let column = column.slice(from, mask.len());
            let (found, expected) = (kept.filter(&column).unwrap(), filter(&column, &mask).unwrap());
            assert_eq!(&found, &expected);
            assert_eq!(found.data_type(), column.data_type());
        }
    }

    #[test]
    fn few_runs_are_found_and_many_are_not() {
        let found = |bits: Vec<bool>| pieces(&BooleanBuffer::from(bits), 2);
        assert_eq!(found([vec![false; 70], vec![true; 90]].concat()), Some(vec![70..160]));
        assert_eq!(found([vec![true; 64], vec![true; 64]].concat()), Some(vec![0..128]), "over the end of a word");
        assert_eq!(found([vec![true; 64], vec![false], vec![true; 3]].concat()), Some(vec![0..64, 65..68]));
        assert_eq!(found(vec![true, false, true, false, true]), None);
        assert_eq!(found(vec![]), Some(vec![]));
    }

    #[test]
    fn all_and_none() {
        check(&BooleanArray::from(vec![true; 300]));
        check(&BooleanArray::from(vec![false; 300]));
        check(&BooleanArray::from(Vec::<bool>::new()));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_arrow_keeps(lengths in prop::collection::vec(0usize..200, 0..40), every in 1usize..9) {
            // Runs of kept rows and of others in turns; now and then rows in turns.
            let bits = lengths.iter().enumerate().flat_map(|(number, length)| {
                (0..*length).map(move |row| if number % every == 1 { row % 2 == 0 } else { number % 2 == 0 })
            });
            check(&bits.map(Some).collect::<BooleanArray>());
        }
    }
}
