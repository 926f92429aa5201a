//! Numbers for values of types without a 64-bit word, such as structs and lists: equal values are those with equal
//! bytes in Arrow's row format.

use std::hash::BuildHasher;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::Result;

/// Values that were seen, by number.
#[derive(Debug)]
pub(super) struct ValueNumbers {
    converter: RowConverter,
    /// Hashes and numbers.
    numbers: HashTable<(u64, u32)>,
    hasher: DefaultHashBuilder,
    /// The bytes of all values one behind the other, and where each ends.
    all: Vec<u8>,
    ends: Vec<usize>,
}

impl ValueNumbers {
    /// `None` for types that the row format doesn't know.
    pub fn of(data_type: &DataType) -> Option<ValueNumbers> {
        let field = SortField::new(data_type.clone());
        if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
            return None;
        }
        Some(ValueNumbers {
            converter: RowConverter::new(vec![field]).ok()?,
            numbers: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            all: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// The bytes of values, one row each.
    pub fn rows(&self, array: &ArrayRef) -> Result<Rows> {
        Ok(self.converter.convert_columns(std::slice::from_ref(array))?)
    }

    /// The number of a value.
    pub fn number(&mut self, value: &[u8]) -> u64 {
        let hash = self.hasher.hash_one(value);
        let is_it = |(own, number): &(u64, u32)| *own == hash && self.value(*number as usize) == value;
        if let Some((_, number)) = self.numbers.find(hash, is_it) {
            return u64::from(*number);
        }
        let number = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.numbers.insert_unique(hash, (hash, number), |(hash, _)| *hash);
        self.all.extend_from_slice(value);
        self.ends.push(self.all.len());
        u64::from(number)
    }

    /// All values by number.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| self.value(number))
    }

    /// Bytes that they take, more or less.
    pub fn bytes(&self) -> usize {
        self.all.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.numbers.capacity() * (size_of::<(u64, u32)>() + 1)
    }

    fn value(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[number]]
    }
}
