//! Small constant tables that values are looked up in, as a join to a list of values does.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::HashMap;

use crate::error::{Error, Result};

/// Rows by a text that each has for itself.
#[derive(Debug)]
pub struct LookupTable {
    rows: HashMap<String, i32>,
    columns: Vec<ArrayRef>,
}

impl LookupTable {
    /// A table of these columns, whose rows are found by `keys`. A row without a key is never found; `None` if two rows have the
    /// same key.
    #[must_use]
    pub fn new(keys: &[Option<String>], columns: Vec<ArrayRef>) -> Option<LookupTable> {
        let mut rows = HashMap::with_capacity(keys.len());
        for (key, row) in keys.iter().zip(0..) {
            if let Some(key) = key
                && rows.insert(key.clone(), row).is_some()
            {
                return None;
            }
        }
        Some(LookupTable { rows, columns })
    }

    /// The row of each key; null where there is none.
    fn find(&self, keys: &ArrayRef) -> Result<Int32Array> {
        let row = |text: Option<&str>| text.and_then(|text| self.rows.get(text).copied());
        match keys.data_type() {
            DataType::Dictionary(_, _) => {
                let keys = keys.as_dictionary_opt::<Int32Type>();
                let Some((codes, texts)) =
                    keys.and_then(|keys| Some((keys.keys(), keys.values().as_string_opt::<i32>()?)))
                else {
                    return Err(Error::Unsupported("a join by such a dictionary".to_owned()));
                };
                // Each text is looked up once.
                let of_code: Int32Array = texts.iter().map(row).collect();
                Ok(take(&of_code, codes, None)?.as_primitive::<Int32Type>().clone())
            }
            DataType::Utf8 => Ok(keys.as_string::<i32>().iter().map(row).collect()),
            other => Err(Error::Unsupported(format!("a join by a {other}"))),
        }
    }

    /// Whether there is a row for each key.
    pub(crate) fn has(&self, keys: &ArrayRef) -> Result<ArrayRef> {
        let rows = self.find(keys)?;
        Ok(Arc::new(BooleanArray::from_iter((0..rows.len()).map(|row| Some(rows.is_valid(row))))))
    }

    /// A column's values for each key.
    pub(crate) fn column(&self, keys: &ArrayRef, column: usize) -> Result<ArrayRef> {
        let rows: UInt32Array = self.find(keys)?.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        Ok(take(&self.columns[column], &rows, None)?)
    }
}

/// The keys of a table as texts; `None` if they aren't texts.
#[must_use]
pub fn texts(values: &ArrayRef) -> Option<Vec<Option<String>>> {
    let is_text = matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let values = is_text.then(|| cast(values, &DataType::Utf8).ok()).flatten()?;
    let texts: &StringArray = values.as_string();
    Some(texts.iter().map(|text| text.map(str::to_owned)).collect())
}
