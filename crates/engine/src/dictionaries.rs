//! Arrays with dictionaries: concatenates them, and gives them a common dictionary.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, StringArray, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::HashMap;

use crate::error::{Error, Result};

/// Concatenates arrays. Several dictionaries become one without duplicate values.
pub(crate) fn concat_arrays(parts: Vec<ArrayRef>, data_type: &DataType) -> Result<ArrayRef> {
    let parts = one_dictionary(parts)?;
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(match parts.as_slice() {
        [] => new_empty_array(data_type),
        parts => concat(parts)?,
    })
}

/// Gives dictionary arrays one common dictionary without duplicate texts. Other arrays stay as they are.
pub(crate) fn one_dictionary(parts: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let values = |array: &ArrayRef| array.as_any_dictionary_opt().map(|dictionary| Arc::clone(dictionary.values()));
    let Some(first) = parts.first().and_then(values) else { return Ok(parts) };
    let is_first = |array: &ArrayRef| values(array).is_some_and(|other| other.to_data().ptr_eq(&first.to_data()));
    if parts.iter().all(is_first) {
        return Ok(parts);
    }
    let coded: Option<Vec<&DictionaryArray<Int32Type>>> = parts.iter().map(|part| part.as_dictionary_opt()).collect();
    let Some(coded) = coded else {
        return Err(Error::Unsupported(format!("dictionaries of {}", parts[0].data_type())));
    };
    if coded.iter().any(|part| part.values().as_string_opt::<i32>().is_none()) {
        return behind_each_other(&coded);
    }
    // The distinct texts of all parts, and the new codes of each part.
    let mut texts: Vec<&str> = Vec::new();
    let mut codes_by_text: HashMap<&str, i32> = HashMap::new();
    // Keyed by dictionary, because many parts may share one.
    let mut mappings: HashMap<(*const u8, usize), Vec<i32>> = HashMap::new();
    let identity = |values: &StringArray| (values.offsets().inner().inner().as_ptr(), values.len());
    for part in &coded {
        let values = part.values().as_string::<i32>();
        mappings.entry(identity(values)).or_insert_with(|| {
            let new = |code| {
                *codes_by_text.entry(values.value(code)).or_insert_with(|| {
                    texts.push(values.value(code));
                    i32::try_from(texts.len() - 1).unwrap_or(i32::MAX)
                })
            };
            (0..values.len()).map(new).collect()
        });
    }
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let mapped = coded.iter().map(|part| {
        let keys = part.keys();
        let mapping = mappings.get(&identity(part.values().as_string::<i32>())).map_or(&[][..], Vec::as_slice);
        let is_same = mapping.iter().zip(0..).all(|(new, old)| *new == old);
        let keys = if is_same {
            keys.clone()
        } else {
            // The code of a null may be any number.
            let new = |code: i32| usize::try_from(code).ok().and_then(|code| mapping.get(code)).copied().unwrap_or(0);
            Int32Array::new(keys.values().iter().map(|code| new(*code)).collect(), keys.nulls().cloned())
        };
        Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(&texts))?) as ArrayRef)
    });
    mapped.collect()
}

/// Dictionaries of values other than texts, as functions make them of symbols: their values are concatenated.
fn behind_each_other(parts: &[&DictionaryArray<Int32Type>]) -> Result<Vec<ArrayRef>> {
    let values: Vec<&dyn Array> = parts.iter().map(|part| part.values().as_ref()).collect();
    let values = concat(&values)?;
    let mut before = 0;
    let shifted = parts.iter().map(|part| {
        let keys = part.keys().unary::<_, Int32Type>(|code| code.wrapping_add(before));
        before += i32::try_from(part.values().len()).unwrap_or(i32::MAX);
        Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(&values))?) as ArrayRef)
    });
    shifted.collect()
}

/// Whether two dictionaries are the same bytes.
pub(crate) fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    Arc::ptr_eq(one, other) || one.to_data().ptr_eq(&other.to_data())
}
