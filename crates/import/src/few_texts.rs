//! Whether texts become `symbol` in a new table: by how many of them differ in a sample of the rows.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

/// Rows of a sample.
pub const SAMPLE_ROWS: usize = 10_000;

/// Longest text of a symbol.
const SYMBOL_BYTES_MAX: usize = 32;

/// Texts that may always differ, and never.
const DISTINCT_MIN: usize = 64;
const DISTINCT_MAX: usize = 4096;

/// Rows for each text that differs from others.
const ROWS_OF_TEXT: usize = 4;

/// Whether a column is one of symbols, given the texts that differ and the longest text of some rows.
pub(crate) fn are_symbols(distinct: usize, bytes_max: usize, rows: usize) -> bool {
    distinct <= (rows / ROWS_OF_TEXT).clamp(DISTINCT_MIN, DISTINCT_MAX) && bytes_max <= SYMBOL_BYTES_MAX
}

/// Texts of a sample.
#[derive(Debug, Default)]
pub struct TextSample {
    distinct: HashSet<String>,
    bytes_max: usize,
    rows: usize,
}

impl TextSample {
    /// Takes in values of a column, of which others than texts are left out.
    pub fn add(&mut self, values: &ArrayRef) {
        let Ok(texts) = cast(values, &DataType::Utf8) else { return };
        self.rows += texts.len();
        for text in texts.as_string::<i32>().iter().flatten() {
            self.bytes_max = self.bytes_max.max(text.len());
            if self.distinct.len() <= DISTINCT_MAX && !self.distinct.contains(text) {
                self.distinct.insert(text.to_owned());
            }
        }
    }

    /// Whether the column is one of symbols: if there is a text, and not too many differ or are long.
    #[must_use]
    pub fn is_of_symbols(&self) -> bool {
        !self.distinct.is_empty() && are_symbols(self.distinct.len(), self.bytes_max, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, LargeStringArray, StringArray, StringViewArray};

    use super::*;

    fn is_of_symbols(values: ArrayRef) -> bool {
        let mut sample = TextSample::default();
        sample.add(&values);
        sample.is_of_symbols()
    }

    #[test]
    fn texts_are_symbols_where_few_differ_and_none_is_long() {
        let texts = |rows: usize, distinct: usize| (0..rows).map(move |row| format!("T{}", row % distinct));
        assert!(is_of_symbols(Arc::new(StringArray::from_iter_values(texts(10_000, 2_500)))));
        assert!(!is_of_symbols(Arc::new(StringArray::from_iter_values(texts(10_000, 2_501)))));
        assert!(is_of_symbols(Arc::new(LargeStringArray::from_iter_values(texts(64, 64)))));
        assert!(!is_of_symbols(Arc::new(StringViewArray::from_iter_values(texts(65, 65)))));
        let long =
            |bytes: usize| -> ArrayRef { Arc::new(StringArray::from(vec![None, Some("x".repeat(bytes).as_str())])) };
        assert!(is_of_symbols(long(32)) && !is_of_symbols(long(33)));
        assert!(!is_of_symbols(Arc::new(StringArray::from(vec![None::<&str>; 3]))), "nothing says what it will hold");
        assert!(is_of_symbols(Arc::new(Int64Array::from(vec![1]))), "as texts");
    }
}
