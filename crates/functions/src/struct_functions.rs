//! `min` and `max` of structs, in the order of `ORDER BY`: by their fields one after the other, a null field behind all others.
//!
//! DataFusion 55.2 compares so until it meets a null field, and goes on as if the structs were equal there, or less.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// The least or the greatest struct.
#[derive(Debug)]
pub(super) struct StructExtreme {
    data_type: DataType,
    is_greatest: bool,
    /// An array of the one that was found.
    extreme: Option<ArrayRef>,
}

impl StructExtreme {
    pub(super) fn new(data_type: &DataType, is_greatest: bool) -> StructExtreme {
        StructExtreme { data_type: data_type.clone(), is_greatest, extreme: None }
    }
}

impl Accumulator for StructExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, ..] = values else { return Ok(()) };
        let better = if self.is_greatest { Ordering::Greater } else { Ordering::Less };
        let options = SortOptions { descending: false, nulls_first: false };
        let compare = make_comparator(values, values, options)?;
        let rows = (0..values.len()).filter(|row| values.is_valid(*row));
        let best = rows.reduce(|best, row| if compare(row, best) == better { row } else { best });
        let Some(best) = best else { return Ok(()) };
        let is_better = match &self.extreme {
            Some(extreme) => make_comparator(values, extreme, options)?(best, 0) == better,
            None => true,
        };
        if is_better {
            // A copy, so that the batch isn't held.
            self.extreme = Some(ScalarValue::try_from_array(values, best)?.to_array()?);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.extreme {
            Some(extreme) => ScalarValue::try_from_array(extreme, 0),
            None => ScalarValue::try_new_null(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.extreme.as_ref().map_or(0, |extreme| extreme.get_array_memory_size())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StructArray};
    use arrow::datatypes::{Field, Fields};

    use super::*;

    #[test]
    fn a_null_field_is_behind_all_others() {
        let fields = Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None, Some(2)])),
            Arc::new(Int64Array::from(vec![5, 7, 1, 2, 9])),
        ];
        let values: ArrayRef = Arc::new(StructArray::new(fields, columns, None));
        for (is_greatest, expected) in [(true, 1), (false, 0)] {
            let mut picked = StructExtreme::new(values.data_type(), is_greatest);
            (0..5).for_each(|row| picked.update_batch(&[values.slice(row, 1)]).unwrap());
            let mut whole = StructExtreme::new(values.data_type(), is_greatest);
            whole.update_batch(&[Arc::clone(&values)]).unwrap();
            let expected = ScalarValue::try_from_array(&values, expected).unwrap();
            assert_eq!((picked.evaluate().unwrap(), whole.evaluate().unwrap()), (expected.clone(), expected));
        }
    }
}
