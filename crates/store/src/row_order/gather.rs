//! Gathers columns of rows from several batches.
//!
//! Dictionaries are rebuilt: sorted, without repeats, so within a segment the order of codes is the order of texts.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, DictionaryArray, Int32Array, MutableArrayData,
    PrimitiveArray, RecordBatch, StringArray, downcast_primitive, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use hashbrown::HashMap;

use super::order::{BatchOrder, BatchRange};
use crate::background;
use crate::error::Result;

/// Rows of a range, on average, from which on columns of other than fixed width are copied by ranges.
const RANGE_ROWS_MIN: usize = 4;

/// The rows of an order. All batches have `schema`'s types.
pub(crate) fn gather(schema: &SchemaRef, batches: &[RecordBatch], order: &BatchOrder) -> Result<RecordBatch> {
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

fn gather_column(data_type: &DataType, parts: &[&dyn Array], order: &BatchOrder) -> Result<ArrayRef> {
    macro_rules! fixed {
        ($kind:ty) => {
            return Ok(gather_fixed::<$kind>(data_type, parts, order))
        };
    }
    downcast_primitive! {
        data_type => (fixed),
        _ => {}
    }
    let batch_ranges = order.batch_ranges();
    if order.rows() < batch_ranges.len() * RANGE_ROWS_MIN {
        let single = |batch_range: &BatchRange| {
            let batch = batch_range.batch();
            batch_range.range().map(move |row| (batch, row))
        };
        let picks: Vec<(usize, usize)> = batch_ranges.iter().flat_map(single).collect();
        return Ok(interleave(parts, &picks)?);
    }
    let data: Vec<_> = parts.iter().map(|part| part.to_data()).collect();
    let mut copied = MutableArrayData::new(data.iter().collect(), false, order.rows());
    for batch_range in batch_ranges {
        let rows = batch_range.range();
        background::did(rows.len());
        copied.try_extend(batch_range.batch(), rows.start, rows.end)?;
    }
    Ok(make_array(copied.freeze()))
}

/// The ranges of an order; each counts as work that is done.
fn batch_ranges(order: &BatchOrder) -> impl Iterator<Item = &BatchRange> {
    order.batch_ranges().iter().inspect(|batch_range| background::did(batch_range.range().len()))
}

fn gather_fixed<T: ArrowPrimitiveType>(data_type: &DataType, parts: &[&dyn Array], order: &BatchOrder) -> ArrayRef {
    let values: Vec<&[T::Native]> = parts.iter().map(|part| &part.as_primitive::<T>().values()[..]).collect();
    let mut copied: Vec<T::Native> = Vec::with_capacity(order.rows());
    for batch_range in batch_ranges(order) {
        let rows = &values[batch_range.batch()][batch_range.range()];
        match rows {
            // The call of a copy costs more than the copy of one.
            [one] => copied.push(*one),
            rows => copied.extend_from_slice(rows),
        }
    }
    let gathered = PrimitiveArray::<T>::new(copied.into(), gather_nulls(parts, order));
    Arc::new(gathered.with_data_type(data_type.clone()))
}

/// The nulls of the rows, or `None` if no batch has a null.
fn gather_nulls(parts: &[&dyn Array], order: &BatchOrder) -> Option<NullBuffer> {
    if parts.iter().all(|part| part.null_count() == 0) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(order.rows());
    for batch_range in batch_ranges(order) {
        let rows = batch_range.range();
        match parts[batch_range.batch()].nulls() {
            None => valid.append_n(rows.len(), true),
            Some(nulls) => valid.append_buffer(&nulls.inner().slice(rows.start, rows.len())),
        }
    }
    Some(NullBuffer::new(valid.finish()))
}

fn gather_symbols(parts: &[&dyn Array], order: &BatchOrder) -> ArrayRef {
    let parts: Vec<&DictionaryArray<Int32Type>> = parts.iter().map(|part| part.as_dictionary()).collect();
    let keys: Vec<&[i32]> = parts.iter().map(|part| &part.keys().values()[..]).collect();
    let mut used: Vec<Vec<bool>> = parts.iter().map(|part| vec![false; part.values().len()]).collect();
    let has_nulls = parts.iter().any(|part| part.logical_null_count() > 0);
    for batch_range in batch_ranges(order) {
        let (part, used) = (parts[batch_range.batch()], &mut used[batch_range.batch()]);
        if has_nulls {
            let keys = part.keys();
            batch_range.range().filter(|row| keys.is_valid(*row)).for_each(|row| used[keys.value(row) as usize] = true);
        } else {
            keys[batch_range.batch()][batch_range.range()].iter().for_each(|key| used[*key as usize] = true);
        }
    }
    let (texts, maps) = unify(&parts, &used);
    let mut codes: Vec<i32> = Vec::with_capacity(order.rows());
    let mut valid = has_nulls.then(|| BooleanBufferBuilder::new(order.rows()));
    for batch_range in batch_ranges(order) {
        let map = &maps[batch_range.batch()];
        let code = |key: i32| map[key as usize];
        match (&mut valid, &keys[batch_range.batch()][batch_range.range()]) {
            (None, [one]) => codes.push(code(*one).unwrap_or(0)),
            (None, some) => codes.extend(some.iter().map(|key| code(*key).unwrap_or(0))),
            (Some(valid), some) => {
                let nulls = parts[batch_range.batch()].keys();
                for (row, key) in batch_range.range().zip(some) {
                    let code = nulls.is_valid(row).then(|| code(*key)).flatten();
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
    // Batches mostly have the same texts: each is looked up, and only those that differ are sorted.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut maps: Vec<Vec<Option<usize>>> = Vec::with_capacity(parts.len());
    for (part, used) in parts.iter().zip(used) {
        let texts = part.values().as_string::<i32>();
        let mut map = Vec::with_capacity(texts.len());
        for (text, used) in texts.iter().zip(used) {
            let next = numbers.len();
            map.push(text.filter(|_| *used).map(|text| *numbers.entry(text).or_insert(next)));
        }
        maps.push(map);
    }
    let mut sorted: Vec<(&str, usize)> = numbers.into_iter().collect();
    sorted.sort_unstable();
    let mut codes = vec![0; sorted.len()];
    for (code, (_, number)) in sorted.iter().enumerate() {
        codes[*number] = i32::try_from(code).unwrap_or(i32::MAX);
    }
    let coded = |map: Vec<Option<usize>>| map.into_iter().map(|number| number.map(|number| codes[number])).collect();
    (StringArray::from_iter_values(sorted.iter().map(|(text, _)| text)), maps.into_iter().map(coded).collect())
}
