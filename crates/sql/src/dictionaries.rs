//! Removes duplicate values from dictionaries, as consumers of Arrow expect: pandas' categories must be distinct.
//!
//! Concatenated batches may have concatenated dictionaries, with equal values in both parts.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Dictionaries of a column that are remembered: about as many as segments are read concurrently.
const DICTIONARIES_MAX: usize = 8;

/// Makes dictionaries distinct, and remembers the distinct ones, because batches of a segment share their dictionary.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// By column, the last dictionaries that were examined and found distinct.
    distinct: Vec<VecDeque<ArrayRef>>,
}

impl Distinct {
    /// The same rows, without duplicate values in any text dictionary.
    ///
    /// # Errors
    /// Those of Arrow, for a damaged dictionary.
    pub(crate) fn batch(&mut self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        self.distinct.resize(batch.num_columns(), VecDeque::new());
        let mut changed = None;
        for (place, column) in batch.columns().iter().enumerate() {
            if let Some(column) = self.rebuilt(place, column)? {
                changed.get_or_insert_with(|| batch.columns().to_vec())[place] = column;
            }
        }
        match changed {
            Some(columns) => RecordBatch::try_new(batch.schema(), columns),
            None => Ok(batch),
        }
    }

    fn rebuilt(&mut self, place: usize, column: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
        let Some(values) = column.as_any_dictionary_opt().map(|dictionary| dictionary.values()) else {
            return Ok(None);
        };
        let Some(texts) = values.as_string_opt::<i32>() else { return Ok(None) };
        let distinct = &mut self.distinct[place];
        if distinct.iter().any(|distinct| is_same(distinct, values)) {
            return Ok(None);
        }
        let mut seen = HashSet::with_capacity(texts.len());
        if texts.iter().all(|text| text.is_some() && seen.insert(text)) {
            distinct.truncate(DICTIONARIES_MAX - 1);
            distinct.push_front(Arc::clone(values));
            return Ok(None);
        }
        let plain = cast(column, &DataType::Utf8)?;
        cast(&plain, column.data_type()).map(Some)
    }
}

/// Whether two dictionaries are the same memory.
fn is_same(left: &ArrayRef, right: &ArrayRef) -> bool {
    Arc::ptr_eq(left, right) || left.to_data().ptr_eq(&right.to_data())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int32Array, StringArray};
    use arrow::datatypes::Int32Type;

    fn batch(keys: Vec<Option<i32>>, values: &ArrayRef) -> RecordBatch {
        let column = DictionaryArray::<Int32Type>::new(Int32Array::from(keys), Arc::clone(values));
        RecordBatch::try_from_iter([("sym", Arc::new(column) as ArrayRef)]).unwrap()
    }

    fn texts(batch: &RecordBatch) -> Vec<Option<String>> {
        let plain = cast(batch.column(0), &DataType::Utf8).unwrap();
        plain.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn values_that_stand_twice_or_are_null_are_made_one() {
        for values in [vec![Some("A"), Some("B"), Some("A")], vec![Some("A"), None, Some("B")]] {
            let values: ArrayRef = Arc::new(StringArray::from(values));
            let before = batch(vec![Some(0), Some(1), Some(2), None, Some(2)], &values);
            let after = Distinct::default().batch(before.clone()).unwrap();
            assert_eq!(texts(&after), texts(&before));
            assert_eq!(after.schema(), before.schema());
            let dictionary = after.column(0).as_dictionary::<Int32Type>();
            let values: Vec<Option<&str>> = dictionary.values().as_string::<i32>().iter().collect();
            assert_eq!(values, [Some("A"), Some("B")]);
        }
    }

    #[test]
    fn distinct_dictionaries_are_handed_on_and_remembered() {
        let mut distinct = Distinct::default();
        let dictionaries: Vec<ArrayRef> =
            (0..20).map(|n| Arc::new(StringArray::from(vec![format!("A{n}"), "B".to_owned()])) as ArrayRef).collect();
        for values in dictionaries.iter().chain(&dictionaries) {
            let before = batch(vec![Some(1), Some(0)], values);
            let after = distinct.batch(before.clone()).unwrap();
            assert!(Arc::ptr_eq(after.column(0), before.column(0)));
            assert!(distinct.distinct[0].len() <= DICTIONARIES_MAX);
        }
    }
}
