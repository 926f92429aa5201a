//! Chooses between two columns row by row, by a mask.
//!
//! - Values of fixed width are chosen 64 rows at a time by a word of the mask, in a loop without branches; a word of
//!   zeros or of ones copies one side as it is. Arrow's `zip` copies run by run, and value by value where one side is
//!   a constant.
//! - If one side is null, the other's values stay in place, and only the validity is computed.
//! - Texts, lists and choices between two constants use `zip`.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, Datum, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::kernels::zip;
use arrow::compute::nullif;
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::error::Result;

/// Rows that one word of a mask covers.
const WORD_ROWS: usize = 64;

/// A side of the choice: an array, or one value for all rows.
#[derive(Clone, Copy)]
struct ChoiceSide<'a> {
    values: &'a dyn Array,
    /// Whether its one value holds for all rows.
    is_one: bool,
}

/// `then` where the mask is set, and `otherwise` elsewhere. The mask has no nulls, and both sides have one type.
pub(crate) fn choose(mask: &BooleanArray, then: &dyn Datum, otherwise: &dyn Datum) -> Result<ArrayRef> {
    let [left, right] = [then, otherwise].map(|datum| {
        let (values, is_one) = datum.get();
        ChoiceSide { values, is_one }
    });
    let of = left.values.data_type();
    let has_rows = |side: ChoiceSide<'_>| side.values.len() == if side.is_one { 1 } else { mask.len() };
    let is_choice = of == right.values.data_type() && has_rows(left) && has_rows(right);
    if !is_choice || left.is_one && right.is_one {
        return Ok(zip::zip(mask, then, otherwise)?);
    }
    if right.is_null() {
        return Ok(nullif(left.values, &BooleanArray::new(!mask.values(), None))?);
    }
    if left.is_null() {
        return Ok(nullif(right.values, mask)?);
    }
    let set = mask.values();
    if *of == DataType::Boolean {
        let bits = |side: ChoiceSide<'_>| bits(side, set.len(), |side| side.values.as_boolean().values().clone());
        let values = by_mask(set, bits(left), bits(right));
        return Ok(Arc::new(BooleanArray::new(values, valid(set, left, right))));
    }
    let values = match of.primitive_width() {
        None => return Ok(zip::zip(mask, then, otherwise)?),
        Some(1) => choose_fixed::<u8>(set, left, right),
        Some(2) => choose_fixed::<u16>(set, left, right),
        Some(4) => choose_fixed::<u32>(set, left, right),
        Some(8) => choose_fixed::<u64>(set, left, right),
        Some(16) => choose_fixed::<i128>(set, left, right),
        Some(_) => return Ok(zip::zip(mask, then, otherwise)?),
    };
    let nulls = valid(set, left, right);
    Ok(make_array(ArrayData::builder(of.clone()).len(set.len()).add_buffer(values).nulls(nulls).build()?))
}

impl ChoiceSide<'_> {
    /// Whether it is null in all rows.
    fn is_null(self) -> bool {
        self.is_one && self.values.is_null(0)
    }
}

/// The bits of a side, one for each row.
fn bits(side: ChoiceSide<'_>, rows: usize, of_values: impl FnOnce(ChoiceSide<'_>) -> BooleanBuffer) -> BooleanBuffer {
    let bits = of_values(side);
    match side.is_one {
        true if bits.value(0) => BooleanBuffer::new_set(rows),
        true => BooleanBuffer::new_unset(rows),
        false => bits,
    }
}

fn by_mask(set: &BooleanBuffer, left: BooleanBuffer, right: BooleanBuffer) -> BooleanBuffer {
    let left = set & &left;
    &left | &(&!set & &right)
}

/// The rows with a value; `None` if all have one.
fn valid(set: &BooleanBuffer, left: ChoiceSide<'_>, right: ChoiceSide<'_>) -> Option<NullBuffer> {
    if left.values.null_count() == 0 && right.values.null_count() == 0 {
        return None;
    }
    let [left, right] = [left, right].map(|side| {
        bits(side, set.len(), |side| match side.values.nulls() {
            Some(nulls) => nulls.inner().clone(),
            None => BooleanBuffer::new_set(side.values.len()),
        })
    });
    Some(NullBuffer::new(by_mask(set, left, right))).filter(|nulls| nulls.null_count() > 0)
}

/// The chosen values of sides whose values are as wide as a `T`.
fn choose_fixed<T: ArrowNativeType>(set: &BooleanBuffer, left: ChoiceSide<'_>, right: ChoiceSide<'_>) -> Buffer {
    let [left_data, right_data] = [left, right].map(|side| side.values.to_data());
    let (left_values, right_values) = (left_data.buffer::<T>(0), right_data.buffer::<T>(0));
    let [left_word, right_word] =
        [left_values, right_values].map(|values| [values.first().copied().unwrap_or_default(); WORD_ROWS]);
    let mut chosen: Vec<T> = Vec::with_capacity(set.len());
    let words = set.bit_chunks();
    let last = std::iter::once(words.remainder_bits()).filter(|_| words.remainder_len() > 0);
    for word in words.iter().chain(last) {
        let start = chosen.len();
        let rows = start..set.len().min(start + WORD_ROWS);
        let left = if left.is_one { &left_word[..rows.len()] } else { &left_values[rows.clone()] };
        let right = if right.is_one { &right_word[..rows.len()] } else { &right_values[rows] };
        match word {
            0 => chosen.extend_from_slice(right),
            u64::MAX => chosen.extend_from_slice(left),
            _ => {
                let sides = left.iter().zip(right).enumerate();
                chosen.extend(sides.map(|(row, (left, right))| if word >> row & 1 == 1 { *left } else { *right }));
            }
        }
    }
    Buffer::from_vec(chosen)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use arrow::array::{Scalar, new_null_array};
    use arrow::compute::cast;

    /// Arrays of each type, also slices of larger buffers, beside constants and nulls, with masks of runs and of single bits.
    #[test]
    fn what_is_chosen_is_what_zip_chooses() {
        let types = [
            DataType::Boolean,
            DataType::Int8,
            DataType::UInt16,
            DataType::Float32,
            DataType::Date32,
            DataType::Int64,
            DataType::Float64,
            DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some("UTC".into())),
            DataType::Decimal128(20, 3),
            DataType::Decimal256(50, 3),
            DataType::Utf8,
        ];
        let mut state = 5u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        };
        for rows in [0, 1, 63, 64, 65, 200, 1_000] {
            for of in &types {
                let mut array = |nulls: bool| {
                    let values = (0..rows + 3).map(|_| {
                        let byte = random();
                        (!nulls || byte > 60).then_some(i64::from(byte % 100))
                    });
                    let values = values.collect::<arrow::array::Int64Array>();
                    let narrow = cast(&values, &DataType::Int32).unwrap();
                    let of_type = cast(&values, of).or_else(|_| cast(&narrow, of)).unwrap();
                    of_type.slice(3, rows)
                };
                let arrays = [array(false), array(true), array(true)];
                let one = |array: &ArrayRef| if rows > 0 { array.slice(0, 1) } else { new_null_array(of, 1) };
                let mut datums: Vec<Box<dyn Datum>> = Vec::new();
                for array in &arrays {
                    datums.push(Box::new(Arc::clone(array)));
                    datums.push(Box::new(Scalar::new(one(array))));
                }
                datums.push(Box::new(Scalar::new(new_null_array(of, 1))));
                let mut bytes = (0..rows + 5).map(|_| random()).collect::<Vec<_>>().into_iter();
                let masks = [
                    BooleanArray::from(vec![true; rows]),
                    BooleanArray::from(vec![false; rows]),
                    bytes.by_ref().map(|byte| Some(byte & 1 == 1)).collect::<BooleanArray>().slice(5, rows),
                    (0..rows).map(|row| Some(row / 70 % 2 == 0)).collect(),
                ];
                for mask in &masks {
                    for (left, right) in datums.iter().flat_map(|left| datums.iter().map(move |right| (left, right))) {
                        let ours = choose(mask, left.as_ref(), right.as_ref()).unwrap();
                        let theirs = zip::zip(mask, left.as_ref(), right.as_ref()).unwrap();
                        assert_eq!(&ours, &theirs, "{of}, {rows} rows");
                    }
                }
            }
        }
    }
}
