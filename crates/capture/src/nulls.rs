//! Columns of nulls. Those of one type share their memory: a table has many columns, and rows may name few of them.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::DataType;

/// Columns of nulls for a number of rows, one of each type.
#[derive(Debug)]
pub(crate) struct NullColumns {
    rows: usize,
    made: Vec<ArrayRef>,
}

impl NullColumns {
    pub(crate) fn new(rows: usize) -> NullColumns {
        NullColumns { rows, made: Vec::new() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The column of a type.
    pub(crate) fn of(&mut self, data_type: &DataType) -> ArrayRef {
        if let Some(cached) = self.made.iter().find(|column| column.data_type() == data_type) {
            return ArrayRef::clone(cached);
        }
        let column = new_null_array(data_type, self.rows);
        self.made.push(ArrayRef::clone(&column));
        column
    }
}
