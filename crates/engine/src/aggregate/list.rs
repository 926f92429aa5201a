//! Lists of the values of a group, in the order of the rows or of sort keys, as a list or concatenated to one text.
//!
//! Values and sort keys stay in the arrays in which they arrive, and each row notes its group. At the end one sort,
//! by group first, orders all rows.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::builder::GenericStringBuilder;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, OffsetSizeTrait, UInt32Array, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortColumn, SortOptions, cast, concat, partition, take};
use arrow::datatypes::DataType;
use splay_store::in_form;

use super::accumulate::{Accumulator, RowGroups, same};
use crate::error::{Error, Result};
use crate::order::order_by;
use crate::stop::Stop;

/// Which values of a group make up its list, and in which order.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The sort options of each argument after the first. Values that tie keep the order of their rows.
    pub orders: Vec<SortOptions>,
    /// Whether equal values are listed once. The first order is then that of the values themselves.
    pub is_distinct: bool,
    /// The separator of values that are concatenated to a text; nulls are skipped. `None` for a list.
    pub separator: Option<String>,
}

/// As plans show it.
impl Debug for Listing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let distinct = if self.is_distinct { ", distinct" } else { "" };
        let text = if self.separator.is_some() { ", as a text" } else { "" };
        write!(f, "by {} keys{distinct}{text}", self.orders.len())
    }
}

/// The lists of groups.
#[derive(Debug)]
pub(super) struct GroupLists {
    listing: Listing,
    data_type: DataType,
    threads: usize,
    groups: usize,
    /// The group of each row.
    of_rows: Vec<u32>,
    /// The values and the keys of the rows, as they came.
    columns: Vec<Vec<ArrayRef>>,
    bytes: usize,
}

impl GroupLists {
    /// Lists of a type, of arguments of some types; `None` for other types than lists of the values or texts of them.
    pub fn new(listing: &Listing, data_type: &DataType, arguments: &[DataType], threads: usize) -> Option<GroupLists> {
        let value = arguments.first()?;
        let is_made = match (data_type, &listing.separator) {
            (DataType::List(item), None) => item.data_type() == value,
            (DataType::Utf8 | DataType::LargeUtf8, Some(_)) => is_text(value),
            _ => false,
        };
        let columns = vec![Vec::new(); arguments.len()];
        (is_made && arguments.len() == listing.orders.len() + 1).then(|| GroupLists {
            listing: listing.clone(),
            data_type: data_type.clone(),
            threads,
            groups: 0,
            of_rows: Vec::new(),
            columns,
            bytes: 0,
        })
    }

    /// The row numbers sorted by group and keys; `None` if the rows are sorted already. For `DISTINCT`, only the first of equal rows of a group.
    fn order(&self, values: &ArrayRef, keys: &[ArrayRef]) -> Result<Option<Vec<u32>>> {
        let groups: ArrayRef = Arc::new(UInt32Array::from(self.of_rows.clone()));
        let orders = std::iter::once(SortOptions::default()).chain(self.listing.orders.iter().copied());
        // Both zeros are one value, so that the first of them stands for both.
        let keys = keys.iter().map(|key| in_form(Arc::clone(key)));
        let columns = std::iter::once(Arc::clone(&groups)).chain(keys).zip(orders);
        let columns: Vec<SortColumn> =
            columns.map(|(values, order)| SortColumn { values, options: Some(order) }).collect();
        let order = order_by(&columns, None, self.threads, Stop::NEVER)?;
        if !self.listing.is_distinct || self.of_rows.is_empty() {
            return Ok(order);
        }
        let in_order = |array: &ArrayRef| match &order {
            Some(order) => Ok(take(array, &UInt32Array::from(order.clone()), None)?),
            None => Ok::<ArrayRef, Error>(Arc::clone(array)),
        };
        let columns = [in_order(&groups)?, in_order(&in_form(Arc::clone(values)))?];
        let firsts = partition(&columns)?.ranges().into_iter().map(|rows| rows.start);
        let row = |place: usize| match &order {
            Some(order) => order[place],
            None => u32::try_from(place).unwrap_or(u32::MAX),
        };
        Ok(Some(firsts.map(row).collect()))
    }

    /// How many rows each group has among some.
    fn lengths(&self, rows: Option<&[u32]>) -> Vec<usize> {
        let mut lengths = vec![0; self.groups];
        match rows {
            Some(rows) => rows.iter().for_each(|row| lengths[self.of_rows[*row as usize] as usize] += 1),
            None => self.of_rows.iter().for_each(|group| lengths[*group as usize] += 1),
        }
        lengths
    }
}

impl Accumulator for GroupLists {
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let before = self.of_rows.len();
        let mut rows = Vec::new();
        let nulls = self.listing.separator.as_ref().and_then(|_| arguments.first()?.logical_nulls());
        assigned.each(nulls.as_ref(), |group, row| {
            #[expect(clippy::cast_possible_truncation, reason = "groups and rows of a frame are numbered in 32 bits")]
            let (group, row) = (group as u32, row as u32);
            self.of_rows.push(group);
            rows.push(row);
        });
        if rows.is_empty() {
            return Ok(());
        }
        self.bytes += (self.of_rows.len() - before) * size_of::<u32>();
        let all = arguments.first().map_or(0, |array| array.len());
        let is_all = rows.len() == all && rows.iter().zip(0..).all(|(row, place)| *row == place);
        let rows = UInt32Array::from(rows);
        for (column, argument) in self.columns.iter_mut().zip(arguments) {
            let own = if is_all { Arc::clone(argument) } else { take(argument, &rows, None)? };
            // Texts of dictionaries are those of the table.
            let data = own.as_any_dictionary_opt().map_or(own.to_data(), |coded| coded.keys().to_data());
            self.bytes += data.get_slice_memory_size()?;
            column.push(own);
        }
        Ok(())
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<GroupLists>(other)?;
        self.of_rows.extend(other.of_rows.iter().map(|group| groups[*group as usize]));
        self.columns.iter_mut().zip(other.columns).for_each(|(ours, theirs)| ours.extend(theirs));
        self.bytes += other.bytes;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        if self.of_rows.is_empty() {
            return Ok(arrow::array::new_null_array(&self.data_type, self.groups));
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(concat(&column.iter().map(AsRef::as_ref).collect::<Vec<_>>())?);
        }
        let Some((values, keys)) = columns.split_first() else { return Ok(new_empty_array(&self.data_type)) };
        let order = self.order(values, keys)?;
        let lengths = self.lengths(order.as_deref());
        let values = match order {
            Some(order) => take(values, &UInt32Array::from(order), None)?,
            None => Arc::clone(values),
        };
        let nulls: NullBuffer = lengths.iter().map(|length| *length > 0).collect();
        match (&self.data_type, &self.listing.separator) {
            (DataType::List(item), None) => {
                let offsets = OffsetBuffer::from_lengths(lengths);
                Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, Some(nulls))?))
            }
            (DataType::Utf8, Some(separator)) => texts::<i32>(&values, &lengths, separator),
            (DataType::LargeUtf8, Some(separator)) => texts::<i64>(&values, &lengths, separator),
            _ => Err(Error::Unsupported(format!("a list as a {}", self.data_type))),
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8),
    }
}

/// So many of the texts each as one; null of none.
fn texts<O: OffsetSizeTrait>(values: &ArrayRef, lengths: &[usize], separator: &str) -> Result<ArrayRef> {
    let values = cast(values, &DataType::LargeUtf8)?;
    let values = values.as_string::<i64>();
    let bytes = values.value_data().len() + separator.len() * values.len();
    if O::from_usize(bytes).is_none() {
        return Err(Error::Unsupported("texts of more than 2 GiB put together".to_owned()));
    }
    let mut all = GenericStringBuilder::<O>::with_capacity(lengths.len(), bytes);
    let mut start = 0;
    let mut text = String::new();
    for length in lengths {
        text.clear();
        for row in start..start + length {
            if row > start {
                text.push_str(separator);
            }
            text.push_str(values.value(row));
        }
        all.append_option((*length > 0).then_some(text.as_str()));
        start += length;
    }
    Ok(Arc::new(all.finish()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringArray};
    use arrow::datatypes::{Field, Float64Type, Int64Type};

    use super::*;
    use crate::aggregate::accumulate::NO_GROUP;

    const DOWN: SortOptions = SortOptions { descending: true, nulls_first: false };

    fn list_of(data_type: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(data_type, true)))
    }

    fn filled(listing: &Listing, of: &DataType, arguments: &[ArrayRef], groups: &[u32]) -> GroupLists {
        let types: Vec<DataType> = arguments.iter().map(|array| array.data_type().clone()).collect();
        let mut lists = GroupLists::new(listing, of, &types, 1).unwrap();
        lists.grow(3);
        lists.update(arguments, RowGroups::Rows(groups)).unwrap();
        lists
    }

    fn numbers(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn values_stand_in_order_of_keys_and_then_of_rows() {
        let values = numbers(&[Some(1), None, Some(3), Some(4), Some(5)]);
        let keys = numbers(&[Some(1), Some(2), Some(2), None, Some(9)]);
        let listing = Listing { orders: vec![DOWN], ..Listing::default() };
        let of = list_of(DataType::Int64);
        let mut all = filled(&listing, &of, &[Arc::clone(&values), Arc::clone(&keys)], &[0, 0, 0, 0, NO_GROUP]);
        all.merge(Box::new(filled(&listing, &of, &[values, keys], &[1, 1, NO_GROUP, 0, 0])), &[2, 0, 1]).unwrap();
        let lists = Box::new(all).finish().unwrap();
        let lists = lists.as_list::<i32>();
        let list = |group: usize| lists.value(group).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(list(0), [None, Some(3), None, Some(1), Some(1), Some(4)]);
        assert!(lists.is_null(1));
        assert_eq!(list(2), [Some(5), Some(4)]);
    }

    #[test]
    fn equal_values_are_there_once_and_texts_without_nulls() {
        let values: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("")]));
        let listing =
            Listing { orders: vec![SortOptions::default()], is_distinct: true, separator: Some("-".to_owned()) };
        let all = filled(&listing, &DataType::Utf8, &[Arc::clone(&values), values], &[0, 1, 0, 0, 2]);
        let texts = Box::new(all).finish().unwrap();
        assert_eq!(texts.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a-b"), None, Some("")]);
    }

    #[test]
    fn both_zeros_are_one_value_and_all_nans_another() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN, 0.0, -f64::NAN, -0.0]));
        let listing = Listing { orders: vec![SortOptions::default()], is_distinct: true, ..Listing::default() };
        let of = list_of(DataType::Float64);
        let lists = filled(&listing, &of, &[Arc::clone(&floats), floats], &[0, 0, 0, 0, 1]);
        let lists = Box::new(lists).finish().unwrap();
        let lists = lists.as_list::<i32>();
        let bits = |group: usize| {
            lists.value(group).as_primitive::<Float64Type>().iter().flatten().map(f64::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(bits(0), [-0.0, f64::NAN].map(f64::to_bits));
        assert_eq!(bits(1), [(-0.0f64).to_bits()]);
    }

    #[test]
    fn other_types_are_refused() {
        let plain = Listing::default();
        assert!(GroupLists::new(&plain, &DataType::Utf8, &[DataType::Utf8], 1).is_none());
        assert!(GroupLists::new(&plain, &list_of(DataType::Int64), &[DataType::Int32], 1).is_none());
        let joined = Listing { separator: Some(String::new()), ..Listing::default() };
        assert!(GroupLists::new(&joined, &DataType::Utf8, &[DataType::Int64], 1).is_none());
    }
}
