//! Dictionaries whose values are distinct, as pandas' categories have to be.
//!
//! Where a statement joins batches to one, their dictionaries may stand one behind the other, with equal values in both.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Makes dictionaries distinct, and remembers those that are: neighbours often share one.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// By column, the values that were looked at last and found distinct.
    known: Vec<Option<ArrayRef>>,
}

impl Distinct {
    /// The same rows, with no value twice in any dictionary of text.
    ///
    /// # Errors
    /// Those of Arrow, for a dictionary that is damaged.
    pub(crate) fn batch(&mut self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        self.known.resize(batch.num_columns(), None);
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
        if self.known[place].as_ref().is_some_and(|known| known.to_data().ptr_eq(&values.to_data())) {
            return Ok(None);
        }
        let mut seen = HashSet::with_capacity(texts.len());
        if texts.iter().all(|text| text.is_some() && seen.insert(text)) {
            self.known[place] = Some(Arc::clone(values));
            return Ok(None);
        }
        let plain = cast(column, &DataType::Utf8)?;
        cast(&plain, column.data_type()).map(Some)
    }
}
