//! First and last rows of groups in a given order, over rows in memory. Among rows that tie, `first` takes the first
//! in arrival order and `last` the last.

use arrow::array::{ArrayRef, new_empty_array};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use splay_store::{RowList, in_form};

use super::accumulate::RowGroups;
use super::picks::{Picks, Positions};
use crate::error::{Error, Result};
use crate::order::numbers;

/// Bytes of a group's row and its key, if that is a number.
const KEY_BYTES: usize = size_of::<u64>() + size_of::<u128>();

/// Keys that are sampled to estimate the bytes of all keys.
const KEYS_SAMPLED: usize = 1_024;

/// The first or the last row of each group, by keys and then position.
#[derive(Debug)]
pub(super) enum PicksByKeys {
    /// By a key that is a number; nulls are below or above all of them.
    Number(Picks<u128>, SortOptions),
    /// By bytes in the order of the keys.
    Bytes(Picks<Vec<u8>>, RowConverter),
}

impl PicksByKeys {
    /// The picks for `width` cells of each group, by keys of these types.
    pub fn new(last: bool, width: usize, keys: &[(DataType, SortOptions)]) -> Result<PicksByKeys> {
        if let [(data_type, options)] = keys
            && has_numbers(data_type)
        {
            return Ok(PicksByKeys::Number(Picks::new(last, true).with_width(width), *options));
        }
        let fields = keys.iter().map(|(data_type, options)| SortField::new_with_options(data_type.clone(), *options));
        let converter = RowConverter::new(fields.collect())?;
        Ok(PicksByKeys::Bytes(Picks::new(last, true).with_width(width), converter))
    }

    pub fn grow(&mut self, groups: usize) {
        match self {
            PicksByKeys::Number(picks, _) => picks.grow(groups),
            PicksByKeys::Bytes(picks, _) => picks.grow(groups),
        }
    }

    /// Takes rows in with their keys.
    pub fn update(&mut self, assigned: RowGroups<'_>, positions: Positions<'_>, keys: Vec<ArrayRef>) -> Result<()> {
        let mut keys: Vec<ArrayRef> = keys.into_iter().map(in_form).collect();
        match self {
            PicksByKeys::Number(picks, options) => {
                let words = keys.pop().and_then(|key| words(&key, *options));
                let words =
                    words.ok_or_else(|| Error::Unsupported("a first or last by a key of another type".to_owned()))?;
                picks.update_each(assigned, positions, |row| &words[row]);
            }
            PicksByKeys::Bytes(picks, converter) => {
                let rows = converter.convert_columns(&keys)?;
                picks.update_each(assigned, positions, |row| rows.row(row).data());
            }
        }
        Ok(())
    }

    /// Merges the groups of another state, whose rows follow ours; `groups` maps each of its groups to one of ours.
    pub fn merge(&mut self, other: &PicksByKeys, groups: &[u32]) -> Result<()> {
        match (self, other) {
            (PicksByKeys::Number(ours, _), PicksByKeys::Number(theirs, _)) => ours.merge(theirs, groups),
            (PicksByKeys::Bytes(ours, _), PicksByKeys::Bytes(theirs, _)) => ours.merge(theirs, groups),
            _ => return Err(Error::Unsupported("a merge of two kinds of aggregates".to_owned())),
        }
        Ok(())
    }

    /// Bytes of the keys, by a few of them.
    pub fn heap_bytes(&self) -> usize {
        match self {
            PicksByKeys::Number(picks, _) => picks.keys().len() * KEY_BYTES,
            PicksByKeys::Bytes(picks, _) => {
                let keys = picks.keys();
                let step = (keys.len() / KEYS_SAMPLED).max(1);
                let (mut bytes, mut sampled) = (0, 0);
                for key in keys.iter().step_by(step) {
                    (bytes, sampled) = (bytes + key.capacity(), sampled + 1);
                }
                keys.len() * (KEY_BYTES + size_of::<Vec<u8>>() + bytes / sampled.max(1))
            }
        }
    }

    /// The values of the picked rows.
    pub fn finish(self, data_type: &DataType, read: impl FnMut(u32, &RowList) -> Result<ArrayRef>) -> Result<ArrayRef> {
        match self {
            PicksByKeys::Number(picks, _) => picks.finish(data_type, read),
            PicksByKeys::Bytes(picks, _) => picks.finish(data_type, read),
        }
    }
}

/// Whether all values of a type are numbers that compare as they do, in whichever array they stand.
fn has_numbers(data_type: &DataType) -> bool {
    // Codes compare within their own dictionary alone, and decimals may have more digits than a number.
    !matches!(data_type, DataType::Dictionary(_, _) | DataType::Decimal128(_, _))
        && numbers(&new_empty_array(data_type)).is_some()
}

/// Numbers in the order of a key, with nulls below or above all of them.
fn words(key: &ArrayRef, options: SortOptions) -> Option<Vec<u128>> {
    const ABOVE: u128 = 1 << 64;
    let mut numbers = numbers(key)?;
    if options.descending {
        numbers.iter_mut().for_each(|number| *number = !*number);
    }
    let (nulls, of_values) = if options.nulls_first { (0, ABOVE) } else { (ABOVE, 0) };
    let words = numbers.into_iter().map(|number| of_values | u128::from(number));
    Some(match key.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => words.collect(),
        Some(valid) => words.zip(&valid).map(|(word, is_valid)| if is_valid { word } else { nulls }).collect(),
    })
}
