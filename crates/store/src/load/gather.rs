//! Builds columns of rows that lie in several batches.
//!
//! Dictionaries are made anew: sorted, without repeats, so that within a segment the order of codes is the order of texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, DictionaryArray, Int32Array, MutableArrayData,
    PrimitiveArray, RecordBatch, StringArray, downcast_primitive, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int32Type, SchemaRef};

use super::order::{Order, Stretch};
use crate::error::Result;

/// Rows of a stretch, on average, from which on columns of other than fixed width are copied by stretches.
const STRETCH_ROWS_MIN: usize = 4;

/// The rows of an order. All batches have `schema`'s types.
pub(crate) fn gather(schema: &SchemaRef, batches: &[RecordBatch], order: &Order) -> Result<RecordBatch> {
    let column = |position: usize| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(position).as_ref()).collect();
        match schema.field(position).data_type() {
            DataType::Dictionary(_, _) => Ok(gather_symbols(&parts, order)),
            other => gather_column(other, &parts, order),
        }
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn gather_column(data_type: &DataType, parts: &[&dyn Array], order: &Order) -> Result<ArrayRef> {
    macro_rules! fixed {
        ($kind:ty) => {
            return Ok(gather_fixed::<$kind>(data_type, parts, order))
        };
    }
    downcast_primitive! {
        data_type => (fixed),
        _ => {}
    }
    let stretches = order.stretches();
    if order.rows() < stretches.len() * STRETCH_ROWS_MIN {
        let single = |stretch: &Stretch| {
            let batch = stretch.batch();
            stretch.range().map(move |row| (batch, row))
        };
        let picks: Vec<(usize, usize)> = stretches.iter().flat_map(single).collect();
        return Ok(interleave(parts, &picks)?);
    }
    let data: Vec<_> = parts.iter().map(|part| part.to_data()).collect();
    let mut copied = MutableArrayData::new(data.iter().collect(), false, order.rows());
    for stretch in stretches {
        let rows = stretch.range();
        copied.try_extend(stretch.batch(), rows.start, rows.end)?;
    }
    Ok(make_array(copied.freeze()))
}

fn gather_fixed<T: ArrowPrimitiveType>(data_type: &DataType, parts: &[&dyn Array], order: &Order) -> ArrayRef {
    let values: Vec<&[T::Native]> = parts.iter().map(|part| &part.as_primitive::<T>().values()[..]).collect();
    let mut copied: Vec<T::Native> = Vec::with_capacity(order.rows());
    for stretch in order.stretches() {
        let rows = &values[stretch.batch()][stretch.range()];
        match rows {
            // The call of a copy costs more than the copy of one.
            [one] => copied.push(*one),
            rows => copied.extend_from_slice(rows),
        }
    }
    let gathered = PrimitiveArray::<T>::new(copied.into(), gather_nulls(parts, order));
    Arc::new(gathered.with_data_type(data_type.clone()))
}

/// Which of the rows are null, or `None` if none of the batches has a null.
fn gather_nulls(parts: &[&dyn Array], order: &Order) -> Option<NullBuffer> {
    if parts.iter().all(|part| part.null_count() == 0) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(order.rows());
    for stretch in order.stretches() {
        let rows = stretch.range();
        match parts[stretch.batch()].nulls() {
            None => valid.append_n(rows.len(), true),
            Some(nulls) => valid.append_buffer(&nulls.inner().slice(rows.start, rows.len())),
        }
    }
    Some(NullBuffer::new(valid.finish()))
}

fn gather_symbols(parts: &[&dyn Array], order: &Order) -> ArrayRef {
    let parts: Vec<&DictionaryArray<Int32Type>> = parts.iter().map(|part| part.as_dictionary()).collect();
    let mut used: Vec<Vec<bool>> = parts.iter().map(|part| vec![false; part.values().len()]).collect();
    for stretch in order.stretches() {
        let (keys, used) = (parts[stretch.batch()].keys(), &mut used[stretch.batch()]);
        for row in stretch.range().filter(|row| keys.is_valid(*row)) {
            used[keys.value(row) as usize] = true;
        }
    }
    let (texts, maps) = unify(&parts, &used);
    let has_nulls = parts.iter().any(|part| part.logical_null_count() > 0);
    let mut codes: Vec<i32> = Vec::with_capacity(order.rows());
    let mut valid = has_nulls.then(|| BooleanBufferBuilder::new(order.rows()));
    for stretch in order.stretches() {
        let (keys, map) = (parts[stretch.batch()].keys(), &maps[stretch.batch()]);
        let code = |row: usize| map[keys.value(row) as usize];
        match &mut valid {
            None => codes.extend(stretch.range().map(|row| code(row).unwrap_or(0))),
            Some(valid) => {
                for row in stretch.range() {
                    let code = keys.is_valid(row).then(|| code(row)).flatten();
                    valid.append(code.is_some());
                    codes.push(code.unwrap_or(0));
                }
            }
        }
    }
    let nulls = valid.map(|mut valid| NullBuffer::new(valid.finish()));
    Arc::new(DictionaryArray::new(Int32Array::new(codes.into(), nulls), Arc::new(texts)))
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
