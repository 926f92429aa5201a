//! Builds columns of rows picked from several batches.
//!
//! Dictionaries are made anew: sorted, without repeats, so that within a segment the order of codes is the order of texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int32Type, SchemaRef};

use crate::error::Result;

/// A row: number of the batch, row within it.
pub(crate) type Pick = (usize, usize);

/// The picked rows, in the order of the picks. All batches have `schema`'s types.
pub(crate) fn gather(schema: &SchemaRef, batches: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch> {
    let column = |position: usize| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(position).as_ref()).collect();
        if matches!(schema.field(position).data_type(), DataType::Dictionary(_, _)) {
            return Ok(gather_symbols(&parts, picks));
        }
        Ok(interleave(&parts, picks)?)
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn gather_symbols(parts: &[&dyn Array], picks: &[Pick]) -> ArrayRef {
    let parts: Vec<&DictionaryArray<Int32Type>> = parts.iter().map(|part| part.as_dictionary()).collect();
    let key = |(batch, row): &Pick| {
        let keys = parts[*batch].keys();
        keys.is_valid(*row).then(|| keys.value(*row) as usize)
    };
    let mut used: Vec<Vec<bool>> = parts.iter().map(|part| vec![false; part.values().len()]).collect();
    for pick in picks {
        if let Some(key) = key(pick) {
            used[pick.0][key] = true;
        }
    }
    let (texts, maps) = unify(&parts, &used);
    let has_nulls = parts.iter().any(|part| part.logical_null_count() > 0);
    let code = |pick: &Pick| key(pick).and_then(|key| maps[pick.0][key]);
    let codes: Vec<i32> = picks.iter().map(|pick| code(pick).unwrap_or(0)).collect();
    let nulls = has_nulls.then(|| picks.iter().map(|pick| code(pick).is_some()).collect::<NullBuffer>());
    let keys = Int32Array::new(codes.into(), nulls);
    Arc::new(DictionaryArray::new(keys, Arc::new(texts)))
}

/// One sorted list of the used texts of all parts, and for each part the place of its entries in that list; `None` for an
/// entry that is null or not used.
pub(crate) fn unify(parts: &[&DictionaryArray<Int32Type>], used: &[Vec<bool>]) -> (StringArray, Vec<Vec<Option<i32>>>) {
    let mut all = BTreeMap::new();
    for (part, used) in parts.iter().zip(used) {
        let texts = part.values().as_string::<i32>();
        for (text, _) in texts.iter().zip(used).filter(|(_, used)| **used) {
            if let Some(text) = text {
                all.insert(text, 0);
            }
        }
    }
    for (rank, code) in all.values_mut().enumerate() {
        *code = i32::try_from(rank).unwrap_or(i32::MAX);
    }
    let map = |part: &&DictionaryArray<Int32Type>| {
        part.values().as_string::<i32>().iter().map(|text| text.and_then(|text| all.get(text).copied())).collect()
    };
    let maps = parts.iter().map(map).collect();
    (StringArray::from_iter_values(all.keys()), maps)
}
