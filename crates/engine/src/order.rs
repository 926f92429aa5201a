//! Sort orders of rows, by keys packed into numbers.
//!
//! Idea: each key becomes an unsigned number with the key's order, cut to as many bits as its values need, and as
//! many keys as fit are packed into 64 bits. Rows are sorted by this number, by radix sort for many rows. Only rows
//! that tie compare further keys; if most tie, the further keys are sorted first. A text of few distinct values
//! becomes its rank, any other its first bytes after the common prefix, behind which `text_sort.rs` goes on. Other types
//! use Arrow's row format.
//!
//! Invariant: the sort is stable, so rows that tie in all keys keep their order. Columns that are sorted already
//! return no order at all.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{SortColumn, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::row::{RowConverter, SortField};

use crate::error::{Error, Result};
use crate::natives::natives;
use crate::parallel;
use crate::stop::Stop;
use crate::text_sort::{Alike, TextSort};
use crate::texts::Texts;
use crate::total_order::TotalOrder;

/// The row numbers in sorted order, tied rows in their old order; `None` if the rows are sorted already. With `fetch` only the first
/// that many.
pub(crate) fn order(columns: &[SortColumn], fetch: Option<usize>) -> Result<Option<Vec<u32>>> {
    order_by(columns, fetch, 1, Stop::NEVER)
}

/// The same with a number of threads, until it is stopped.
pub(crate) fn order_by(
    columns: &[SortColumn],
    fetch: Option<usize>,
    threads: usize,
    stop: Stop<'_>,
) -> Result<Option<Vec<u32>>> {
    let Some(rows) = columns.first().map(|column| column.values.len()) else { return Ok(None) };
    if u32::try_from(rows).is_err() {
        return Err(Error::Unsupported("a sort of so many rows".to_owned()));
    }
    if stand_in_order(columns) {
        return Ok(None);
    }
    let few = fetch.filter(|fetch| *fetch < rows / 8);
    // If rows are in the order of the further columns already, a stable sort by the first suffices.
    let columns = match columns {
        [first, rest @ ..] if few.is_none() && !rest.is_empty() && stand_in_order(rest) => std::slice::from_ref(first),
        columns => columns,
    };
    // For few rows, the first column alone decides which rows are examined further.
    let leading_columns = if few.is_some() { 1 } else { columns.len() };
    let Some(LeadingKeys { keys, used, is_exact }) = leading(&columns[..leading_columns]) else {
        return by_rows(columns, fetch).map(Some);
    };
    if let Some(fetch) = few {
        return first_of(columns, &keys, is_exact, fetch).map(Some);
    }
    let in_order = keys.is_sorted();
    let rest = &columns[used..];
    if in_order && (rest.is_empty() || keys.windows(2).all(|pair| pair[0] < pair[1])) {
        return Ok(None);
    }
    let threads = parallel::threads_for(rows, 0, threads);
    stop.check()?;
    let mut numbered: Vec<(u64, u32)> = keys.iter().zip(0..).map(|(key, row)| (*key, row)).collect();
    if is_exact && !rest.is_empty() && mostly_tie(&keys) {
        // Sorts by the further columns first; rows with equal keys keep that order.
        if let Some(order) = order_by(rest, None, threads, stop)? {
            numbered = order.into_iter().map(|row| (keys[row as usize], row)).collect();
        }
        sort(&mut numbered, threads, stop)?;
        numbered.truncate(fetch.unwrap_or(rows));
        return Ok(Some(numbered.into_iter().map(|(_, row)| row).collect()));
    }
    if !in_order {
        sort(&mut numbered, threads, stop)?;
    }
    stop.check()?;
    let (rest, tied) = match is_exact {
        true if rest.is_empty() => (rest, Vec::new()),
        true => (rest, ties(&numbered)),
        false => (&columns[1..], settle_texts(&mut numbered, &columns[0], threads, stop)?),
    };
    if !rest.is_empty() {
        settle_ties(&mut numbered, tied, |tied| order_by(&take_rows(rest, tied)?, None, threads, stop))?;
    }
    if in_order && numbered.is_sorted_by_key(|(_, row)| *row) {
        return Ok(None);
    }
    numbered.truncate(fetch.unwrap_or(rows));
    Ok(Some(numbered.into_iter().map(|(_, row)| row).collect()))
}

/// Keys that are sampled to estimate whether most rows have an equal key, and the number of equal pairs that this takes.
const SAMPLE_ROWS: usize = 1024;
const SAME_MIN: usize = 8;

/// Whether most rows have a key that another row has, judged by a sample.
fn mostly_tie(keys: &[u64]) -> bool {
    let step = (keys.len() / SAMPLE_ROWS).max(1);
    let mut sample: Vec<u64> = keys.iter().step_by(step).copied().collect();
    sample.sort_unstable();
    let seen = sample.len();
    sample.dedup();
    let same = seen - sample.len();
    // If every value had k rows, the sample would have about k * seen^2 / (2 * rows) equal pairs. So they tie where k exceeds 1.
    same >= SAME_MIN && same.saturating_mul(2 * keys.len()) > seen * seen
}

/// Bits that must be left for a further key.
const KEY_BITS_MIN: u32 = 4;

/// Rows from which on radix sort is used.
const DIGITS_ROWS: usize = 2048;

/// Bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Sorts by the numbers: each thread sorts a part, then the parts are merged.
fn sort(numbered: &mut Vec<(u64, u32)>, threads: usize, stop: Stop<'_>) -> Result<()> {
    let mut rows_of_part = numbered.len().div_ceil(threads.max(1)).max(1);
    parallel::each_of(numbered.chunks_mut(rows_of_part), threads, |part| sort_part(part, stop))?;
    while rows_of_part < numbered.len() {
        let mut merged = Vec::with_capacity(numbered.len());
        for pair in numbered.chunks(2 * rows_of_part) {
            stop.check()?;
            let (first, second) = pair.split_at(rows_of_part.min(pair.len()));
            merge(first, second, &mut merged);
        }
        *numbered = merged;
        rows_of_part *= 2;
    }
    Ok(())
}

/// Merges two sorted parts. Of equal keys those of the first part come first.
fn merge(first: &[(u64, u32)], second: &[(u64, u32)], merged: &mut Vec<(u64, u32)>) {
    let (mut one, mut other) = (0, 0);
    while one < first.len() && other < second.len() {
        // The side that is next can't be predicted, so there is no branch.
        let takes_other = second[other].0 < first[one].0;
        merged.push(if takes_other { second[other] } else { first[one] });
        other += usize::from(takes_other);
        one += usize::from(!takes_other);
    }
    merged.extend_from_slice(&first[one..]);
    merged.extend_from_slice(&second[other..]);
}

fn sort_part(numbered: &mut [(u64, u32)], stop: Stop<'_>) -> Result<()> {
    let breaks = numbered.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
    if numbered.len() < DIGITS_ROWS || breaks < numbered.len() / 64 {
        // Groups of several dates come as sorted stretches, which this sort merges.
        numbered.sort_by_key(|(key, _)| *key);
        return Ok(());
    }
    // From the lowest digit to the highest, each time keeping the order of rows with equal digits.
    let all = numbered.iter().fold(0, |all, (key, _)| all | key);
    let mut other = vec![(0, 0); numbered.len()];
    let (mut from, mut to) = (&mut *numbered, other.as_mut_slice());
    let mut is_swapped = false;
    for shift in (0..u64::BITS - all.leading_zeros()).step_by(DIGIT_BITS as usize) {
        stop.check()?;
        let digit = |key: u64| usize::try_from((key >> shift) & ((1 << DIGIT_BITS) - 1)).unwrap_or(0);
        let mut places = vec![0usize; 1 << DIGIT_BITS];
        from.iter().for_each(|(key, _)| places[digit(*key)] += 1);
        if places.contains(&from.len()) {
            // All rows have the same digit.
            continue;
        }
        let mut start = 0;
        for place in &mut places {
            start += std::mem::replace(place, start);
        }
        for (key, row) in from.iter() {
            let place = &mut places[digit(*key)];
            to[*place] = (*key, *row);
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
        is_swapped = !is_swapped;
    }
    if is_swapped {
        to.copy_from_slice(from);
    }
    Ok(())
}

/// Whether rows are sorted by some columns, for types that are compared directly. It stops at the first row out of order.
fn stand_in_order(columns: &[SortColumn]) -> bool {
    let Some(plain) = columns.iter().map(PlainColumn::of).collect::<Option<Vec<PlainColumn>>>() else { return false };
    let rows = columns.first().map_or(0, |column| column.values.len());
    if let [PlainColumn::Numbers(numbers)] = plain.as_slice() {
        return numbers.is_sorted();
    }
    let order = |row: usize| {
        let orders = plain.iter().map(|column| column.compare(row - 1, row));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    };
    (1..rows).all(|row| order(row).is_le())
}

/// Like [`stand_in_order`] for the rows at the positions `rows`: whether each of `parts`, a range of these positions,
/// is sorted. Parts aren't compared with each other.
pub(crate) fn stand_in_order_at(columns: &[SortColumn], rows: &[u32], parts: &[Range<usize>]) -> bool {
    let Some(plain) = columns.iter().map(PlainColumn::of).collect::<Option<Vec<PlainColumn>>>() else { return false };
    let order = |pair: &[u32]| {
        let orders = plain.iter().map(|column| column.compare(pair[0] as usize, pair[1] as usize));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    };
    parts.iter().all(|part| rows[part.clone()].windows(2).all(|pair| order(pair).is_le()))
}

/// A column whose neighbours are compared directly: ascending, without nulls.
enum PlainColumn {
    Numbers(ScalarBuffer<i64>),
    /// Codes, and their texts.
    Texts(ScalarBuffer<i32>, StringArray),
}

impl PlainColumn {
    fn of(column: &SortColumn) -> Option<PlainColumn> {
        if column.options.is_some_and(|options| options.descending) {
            return None;
        }
        let array = &column.values;
        match array.as_dictionary_opt::<Int32Type>() {
            Some(dictionary) => {
                let texts = dictionary.values().as_string_opt::<i32>()?;
                let has_nulls = array.null_count() > 0 || texts.null_count() > 0;
                (!has_nulls).then(|| PlainColumn::Texts(dictionary.keys().values().clone(), texts.clone()))
            }
            None => plain_numbers(array).map(PlainColumn::Numbers),
        }
    }

    fn compare(&self, row: usize, next: usize) -> std::cmp::Ordering {
        match self {
            PlainColumn::Numbers(numbers) => numbers[row].cmp(&numbers[next]),
            PlainColumn::Texts(codes, _) if codes[row] == codes[next] => std::cmp::Ordering::Equal,
            PlainColumn::Texts(codes, texts) => {
                let text = |row: usize| usize::try_from(codes[row]).map_or("", |code| texts.value(code));
                text(row).cmp(text(next))
            }
        }
    }
}

/// A column of times or whole numbers without nulls.
pub(crate) fn plain_numbers(values: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    if values.null_count() > 0 {
        return None;
    }
    match values.data_type() {
        DataType::Int64 => Some(values.as_primitive::<Int64Type>().values().clone()),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(values.as_primitive::<TimestampNanosecondType>().values().clone())
        }
        _ => None,
    }
}

/// The first rows in the order of some columns; `keys` are those of the first column. Takes the rows with lesser keys than the last row, and of those
/// tied with it the first by the further columns.
fn first_of(columns: &[SortColumn], keys: &[u64], is_exact: bool, fetch: usize) -> Result<Vec<u32>> {
    let Some(last) = fetch.checked_sub(1) else { return Ok(Vec::new()) };
    let rough = rough_bound(keys, last);
    let candidates: Vec<(u64, u32)> =
        keys.iter().zip(0..).filter(|(key, _)| **key <= rough).map(|(key, row)| (*key, row)).collect();
    let mut of_candidates: Vec<u64> = candidates.iter().map(|(key, _)| *key).collect();
    let bound = *of_candidates.select_nth_unstable(last).1;
    let rows_where = |passes: fn(&u64, &u64) -> bool| -> Vec<u32> {
        candidates.iter().filter(|(key, _)| passes(key, &bound)).map(|(_, row)| *row).collect()
    };
    if !is_exact {
        // All of them may be tied again, and then all are sorted.
        let mut first = first_in_order(rows_where(u64::le), columns, None)?;
        first.truncate(fetch);
        return Ok(first);
    }
    let mut first = first_in_order(rows_where(u64::lt), columns, None)?;
    let remaining = fetch.saturating_sub(first.len());
    first.extend(first_in_order(rows_where(|key, bound| key == bound), &columns[1..], Some(remaining))?);
    Ok(first)
}

/// The first `fetch` of some rows in the order of some columns, or all of them; without columns, in their old order.
fn first_in_order(mut rows: Vec<u32>, columns: &[SortColumn], fetch: Option<usize>) -> Result<Vec<u32>> {
    if rows.len() > 1
        && !columns.is_empty()
        && let Some(places) = order(&take_rows(columns, &rows)?, fetch)?
    {
        return Ok(places.into_iter().map(|place| rows[place as usize]).collect());
    }
    rows.truncate(fetch.unwrap_or(usize::MAX));
    Ok(rows)
}

/// A key that is at or behind a position of the order, estimated from a sample.
fn rough_bound(keys: &[u64], number: usize) -> u64 {
    let step = (keys.len() / SAMPLE_ROWS.max(4 * (number + 1))).max(1);
    let mut sample: Vec<u64> = keys.iter().step_by(step).copied().collect();
    if sample.len() > number { *sample.select_nth_unstable(number).1 } else { u64::MAX }
}

/// The places of rows with equal keys.
fn ties(numbered: &[(u64, u32)]) -> Vec<Range<usize>> {
    let mut start = 0;
    let stretches = numbered.chunk_by(|one, other| one.0 == other.0).map(|stretch| {
        start += stretch.len();
        start - stretch.len()..start
    });
    stretches.filter(|places| places.len() > 1).collect()
}

/// Sorts rows whose keys are the first bytes of texts by the whole texts, and returns the places of rows with equal ones.
fn settle_texts(
    numbered: &mut [(u64, u32)],
    column: &SortColumn,
    threads: usize,
    stop: Stop<'_>,
) -> Result<Vec<Range<usize>>> {
    let texts = column.values.as_string_opt::<i32>();
    let texts = texts.ok_or_else(|| Error::Unsupported("texts of another type".to_owned()))?;
    let alike = ties(numbered).into_iter().map(|places| Alike { places, bytes: 0 }).collect();
    let sorting = TextSort::new(texts, column.options.is_some_and(|options| options.descending));
    sorting.settle(numbered, alike, threads, |rows| sort(rows, threads, stop), |rows| sort_part(rows, stop))
}

/// Sorts rows at tied places by further columns, whose order `order` gives.
fn settle_ties(
    numbered: &mut [(u64, u32)],
    places: Vec<Range<usize>>,
    order: impl FnOnce(&[u32]) -> Result<Option<Vec<u32>>>,
) -> Result<()> {
    let mut tied = Vec::new();
    let mut stretches = Vec::with_capacity(places.len());
    for places in places {
        stretches.push((places.start, tied.len(), places.len()));
        tied.extend(numbered[places].iter().map(|(_, row)| *row));
    }
    if tied.is_empty() {
        return Ok(());
    }
    let Some(order) = order(&tied)? else { return Ok(()) };
    let mut ranks = vec![0u32; tied.len()];
    for (rank, place) in (0..).zip(&order) {
        ranks[*place as usize] = rank;
    }
    let mut ranked: Vec<(u32, u32)> = Vec::new();
    for (start, first, rows) in stretches {
        ranked.clear();
        ranked.extend((first..first + rows).map(|place| (ranks[place], tied[place])));
        ranked.sort_unstable();
        for ((_, row), (_, sorted)) in numbered[start..start + rows].iter_mut().zip(&ranked) {
            *row = *sorted;
        }
    }
    Ok(())
}

fn take_rows(columns: &[SortColumn], rows: &[u32]) -> Result<Vec<SortColumn>> {
    let rows = UInt32Array::from(rows.to_vec());
    let chosen = columns
        .iter()
        .map(|column| Ok(SortColumn { values: take(&column.values, &rows, None)?, options: column.options }));
    chosen.collect()
}

/// Sorts by Arrow's row format, whose bytes compare as the rows do.
fn by_rows(columns: &[SortColumn], fetch: Option<usize>) -> Result<Vec<u32>> {
    let fields = columns.iter().map(|column| {
        SortField::new_with_options(column.values.data_type().clone(), column.options.unwrap_or_default())
    });
    let converter = RowConverter::new(fields.collect())?;
    let values: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(&column.values)).collect();
    let keys = converter.convert_columns(&values)?;
    let mut order: Vec<u32> = (0..).take(keys.num_rows()).collect();
    // Equal rows as they stand.
    let compare = |one: &u32, other: &u32| keys.row(*one as usize).cmp(&keys.row(*other as usize)).then(one.cmp(other));
    if let Some(fetch) = fetch.filter(|fetch| *fetch < order.len()) {
        order.select_nth_unstable_by(fetch, compare);
        order.truncate(fetch);
    }
    order.sort_unstable_by(compare);
    Ok(order)
}

/// Numbers with the order of the first column; `None` if its type has none.
pub(crate) fn first_keys(columns: &[SortColumn]) -> Option<Vec<u64>> {
    let first = columns.first()?;
    if first.values.logical_null_count() > 0 {
        return OrderKey::new(first).map(|part| part.values);
    }
    let mut keys = numbers(&first.values).or_else(|| ranks(&first.values))?;
    if first.options.is_some_and(|options| options.descending) {
        keys.iter_mut().for_each(|key| *key = !*key);
    }
    Some(keys)
}

/// Keys of leading columns.
struct LeadingKeys {
    keys: Vec<u64>,
    /// How many columns the keys encode.
    used: usize,
    /// Whether equal keys mean equal values in all of these columns. If not, rows of equal keys remain to be compared; a lesser key comes first in
    /// any case.
    is_exact: bool,
}

/// The keys of as many leading columns as fit a word; `None` if the first has no such key.
fn leading(columns: &[SortColumn]) -> Option<LeadingKeys> {
    let (first, rest) = columns.split_first()?;
    let Some(OrderKey { values: mut keys, mut bits }) = OrderKey::new(first) else {
        return Some(LeadingKeys { keys: leading_texts(first)?, used: 0, is_exact: false });
    };
    let mut used = 1;
    for column in rest {
        // Hardly a column needs so few bits, and finding out costs a pass over it.
        if bits + KEY_BITS_MIN > u64::BITS {
            break;
        }
        let Some(part) = OrderKey::new(column).filter(|part| bits + part.bits <= u64::BITS) else { break };
        for (key, value) in keys.iter_mut().zip(&part.values) {
            // A part of 64 bits fills the whole word: there is no key before it then.
            *key = key.checked_shl(part.bits).unwrap_or(0) | value;
        }
        bits += part.bits;
        used += 1;
    }
    Some(LeadingKeys { keys, used, is_exact: true })
}

/// Keys of texts in the order of their first bytes, with one of its own for null.
fn leading_texts(column: &SortColumn) -> Option<Vec<u64>> {
    OrderKey::of(column, prefixes(&column.values)?).map(|key| key.values)
}

/// The seven bytes of each text after the common prefix, by which the texts are sorted first. An eighth byte would
/// leave no room for nulls.
fn prefixes(array: &ArrayRef) -> Option<Vec<u64>> {
    let texts = array.as_string_opt::<i32>()?;
    let of = |row: usize| if texts.is_valid(row) { texts.value(row).as_bytes() } else { &[] };
    let rows = || (0..texts.len()).filter(|row| texts.is_valid(*row));
    let first = rows().next().map_or(&[][..], of);
    let shared = rows().try_fold(first.len(), |shared, row| {
        let same = first[..shared].iter().zip(of(row)).take_while(|(one, other)| one == other).count();
        (same > 0).then_some(same)
    });
    let shared = shared.unwrap_or(0);
    let prefix = |row: usize| {
        let mut bytes = [0; 8];
        let rest = of(row).get(shared..).unwrap_or_default();
        let length = rest.len().min(7);
        bytes[1..=length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(bytes)
    };
    Some((0..texts.len()).map(prefix).collect())
}

/// The sort keys of one column.
struct OrderKey {
    /// Numbers with the key's order, from 0.
    values: Vec<u64>,
    bits: u32,
}

impl OrderKey {
    fn new(column: &SortColumn) -> Option<OrderKey> {
        OrderKey::of(column, numbers(&column.values).or_else(|| ranks(&column.values))?)
    }

    /// The key of a column whose values are in the order of these numbers.
    fn of(column: &SortColumn, mut values: Vec<u64>) -> Option<OrderKey> {
        let array = &column.values;
        let options = column.options.unwrap_or_default();
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let (mut least, mut greatest) = (u64::MAX, 0);
        match &nulls {
            None => values.iter().for_each(|value| (least, greatest) = (least.min(*value), greatest.max(*value))),
            Some(_) => values.iter().enumerate().filter(|(row, _)| valid(*row)).for_each(|(_, value)| {
                (least, greatest) = (least.min(*value), greatest.max(*value));
            }),
        }
        // A column of nothing but nulls has no least and no greatest value.
        let (least, greatest) = if least <= greatest { (least, greatest) } else { (0, 0) };
        let span = greatest - least;
        if options.descending {
            values.iter_mut().for_each(|value| *value = greatest.wrapping_sub(*value));
        } else {
            values.iter_mut().for_each(|value| *value = value.wrapping_sub(least));
        }
        let mut top = span;
        if nulls.is_some() {
            top = span.checked_add(1)?;
            for (row, value) in values.iter_mut().enumerate() {
                *value = match (valid(row), options.nulls_first) {
                    (true, true) => value.wrapping_add(1),
                    (true, false) => *value,
                    (false, true) => 0,
                    (false, false) => top,
                };
            }
        }
        Some(OrderKey { values, bits: u64::BITS - top.leading_zeros() })
    }
}

/// The values as unsigned numbers with the same order; the numbers at nulls are arbitrary.
pub(crate) fn numbers(array: &ArrayRef) -> Option<Vec<u64>> {
    const SIGN: u64 = 1 << 63;
    fn signed<T: ArrowPrimitiveType>(array: &ArrayRef, wide: impl Fn(T::Native) -> i64) -> Vec<u64> {
        array.as_primitive::<T>().values().iter().map(|value| wide(*value).cast_unsigned() ^ SIGN).collect()
    }
    fn unsigned<T: ArrowPrimitiveType<Native: Into<u64>>>(array: &ArrayRef) -> Vec<u64> {
        array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect()
    }
    Some(match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(u64::from).collect(),
        DataType::Int8 => signed::<Int8Type>(array, i64::from),
        DataType::Int16 => signed::<Int16Type>(array, i64::from),
        DataType::Int32 => signed::<Int32Type>(array, i64::from),
        DataType::Date32 => signed::<Date32Type>(array, i64::from),
        DataType::Int64 => signed::<Int64Type>(array, |value| value),
        DataType::Timestamp(_, _) | DataType::Time64(_) | DataType::Date64 | DataType::Duration(_) => {
            natives::<i64>(array).iter().map(|value| value.cast_unsigned() ^ SIGN).collect()
        }
        DataType::Time32(_) => {
            natives::<i32>(array).iter().map(|value| i64::from(*value).cast_unsigned() ^ SIGN).collect()
        }
        // Decimals rarely have more digits than fit 64 bits.
        DataType::Decimal128(_, _) => {
            let number = |value: &i128| i64::try_from(*value).ok().map(|value| value.cast_unsigned() ^ SIGN);
            return natives::<i128>(array).iter().map(number).collect();
        }
        DataType::Float32 => signed::<Float32Type>(array, |value| i64::from(value.key())),
        DataType::Float64 => signed::<Float64Type>(array, TotalOrder::key),
        DataType::UInt8 => unsigned::<UInt8Type>(array),
        DataType::UInt16 => unsigned::<UInt16Type>(array),
        DataType::UInt32 => unsigned::<UInt32Type>(array),
        DataType::UInt64 => unsigned::<UInt64Type>(array),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_dictionary_opt::<Int32Type>()?;
            let texts = dictionary.values().as_string_opt::<i32>()?;
            let mut sorted: Vec<usize> = (0..texts.len()).collect();
            sorted.sort_by_key(|code| texts.value(*code));
            let mut ranks = vec![0u64; texts.len()];
            // Texts that are equal have one rank.
            let mut rank = 0;
            for (place, code) in sorted.iter().enumerate() {
                rank += u64::from(place > 0 && texts.value(sorted[place - 1]) != texts.value(*code));
                ranks[*code] = rank;
            }
            let rank = |code: &i32| usize::try_from(*code).ok().and_then(|code| ranks.get(code)).copied().unwrap_or(0);
            dictionary.keys().values().iter().map(rank).collect()
        }
        _ => return None,
    })
}

/// Rows of texts from which on distinct texts are ranked, and rows per text that this takes.
const TEXT_ROWS_MIN: usize = 256;
const ROWS_OF_TEXT_MIN: usize = 8;

/// The rank of each row's text among all texts of a column; `None` if there are many texts.
fn ranks(array: &ArrayRef) -> Option<Vec<u64>> {
    let texts = array.as_string_opt::<i32>()?;
    if texts.len() < TEXT_ROWS_MIN {
        return None;
    }
    let mut distinct = Texts::default();
    let mut numbers = Vec::with_capacity(texts.len());
    for start in (0..texts.len()).step_by(TEXT_ROWS_MIN) {
        let rows = texts.slice(start, TEXT_ROWS_MIN.min(texts.len() - start));
        numbers.extend(distinct.numbers(&rows, 0u32));
        // In the first batch each row may have its own text.
        if distinct.len() > texts.len() / ROWS_OF_TEXT_MIN {
            return None;
        }
    }
    let distinct: Vec<&str> = distinct.iter().collect();
    let mut sorted: Vec<usize> = (0..distinct.len()).collect();
    sorted.sort_unstable_by_key(|number| distinct[*number]);
    let mut ranks = vec![0; distinct.len()];
    sorted.iter().zip(0..).for_each(|(number, rank)| ranks[*number] = rank);
    // A column of nothing but nulls has no text.
    Some(numbers.into_iter().map(|number| ranks.get(number as usize).copied().unwrap_or(0)).collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal128Array, DictionaryArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    };
    use arrow::compute::{SortOptions, lexsort_to_indices};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sort_that_is_stopped_ends() {
        let column = |values: ArrayRef| SortColumn { values, options: None };
        let numbers: ArrayRef = Arc::new((0..10_000i64).map(|row| row * 7919 % 10_007).collect::<Int64Array>());
        let texts: StringArray =
            (0..10_000i64).map(|row| Some(format!("of one beginning {}", row * 7919 % 101))).collect();
        for columns in [vec![column(Arc::clone(&numbers))], vec![column(Arc::new(texts)), column(numbers)]] {
            let looks = std::sync::atomic::AtomicUsize::new(0);
            let count = || looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            order_by(&columns, None, 1, Stop::when(&|| count() == usize::MAX)).unwrap();
            let all = looks.swap(0, std::sync::atomic::Ordering::Relaxed);
            assert!(all > 2, "{all}");
            // Wherever it looks, the sort ends there.
            for last in 0..all {
                looks.store(0, std::sync::atomic::Ordering::Relaxed);
                let stopped = order_by(&columns, None, 1, Stop::when(&|| count() >= last));
                assert!(matches!(stopped, Err(Error::Stopped)), "{last} of {all}");
            }
        }
    }

    fn options() -> impl Strategy<Value = SortOptions> {
        (any::<bool>(), any::<bool>()).prop_map(|(descending, nulls_first)| SortOptions { descending, nulls_first })
    }

    proptest! {
        #[test]
        fn orders_are_those_of_the_row_format(
            rows in prop::collection::vec(
                (
                    prop::option::of(prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), -9.0..9.0f64]),
                    prop::option::of(prop_oneof![Just(i64::MIN), Just(i64::MAX), -5..5i64]),
                    prop::option::of("[a-c]{0,2}"),
                    -4..4i64,
                ),
                0..60,
            ),
            by in (options(), options(), options(), options()),
            picked in prop::collection::vec(0..7usize, 1..4),
            fetch in prop::option::of(0..8usize),
            is_presorted in any::<bool>(),
        ) {
            let mut rows = rows;
            if is_presorted {
                // The rows are sorted by other keys first, so that further keys are often in order.
                rows.sort_by(|one, other| (&one.2, one.3).cmp(&(&other.2, other.3)));
            }
            let long = |row: &(_, _, Option<String>, i64)| row.2.as_ref().map(|text| format!("the same {text}{:09}", row.3 + 5));
            let decimal = |row: &(_, Option<i64>, _, i64)| row.1.map(|value| i128::from(value) * if row.3 == 3 { 1 << 40 } else { 1 });
            let columns: [(ArrayRef, SortOptions); 7] = [
                (Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>()), by.0),
                (Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()), by.1),
                (Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<DictionaryArray<Int32Type>>()), by.2),
                (Arc::new(rows.iter().map(|row| Some(row.3)).collect::<TimestampNanosecondArray>()), by.3),
                // A type that isn't encoded as a number.
                (Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringArray>()), by.2),
                (Arc::new(rows.iter().map(long).collect::<StringArray>()), by.3),
                (Arc::new(rows.iter().map(decimal).collect::<Decimal128Array>()), by.0),
            ];
            let columns: Vec<SortColumn> = picked
                .iter()
                .map(|column| SortColumn { values: Arc::clone(&columns[*column].0), options: Some(columns[*column].1) })
                .collect();
            let mut expected = by_rows(&columns, None).unwrap();
            expected.truncate(fetch.unwrap_or(rows.len()));
            let mut actual = order(&columns, fetch).unwrap().unwrap_or_else(|| (0..rows.len() as u32).collect());
            actual.truncate(fetch.unwrap_or(rows.len()));
            prop_assert_eq!(actual, expected);
        }
    }

    proptest! {
        #[test]
        fn texts_that_begin_alike_are_in_the_order_of_the_row_format(
            rows in prop::collection::vec(
                prop::option::weighted(0.95, prop::collection::vec(
                    prop::sample::select(vec!["a", "b", "\0", "ü", "aaaaaaa", "aaaaaa\0", "aaaaaaaaaaaaaaaaaaaaa"]), 0..5,
                )),
                0..300,
            ),
            by in (options(), options()),
            repeat in 1..200usize,
            threads in 1..4usize,
        ) {
            let texts = rows.iter().map(|row| row.as_ref().map(|parts| parts.concat()));
            let texts: StringArray = texts.cycle().take(rows.len() * if repeat > 190 { 500 } else { 1 }).collect();
            let numbers: Int64Array = (0..texts.len()).map(|row| Some((row * 7 % 5) as i64)).collect();
            let columns: [(ArrayRef, SortOptions); 2] = [(Arc::new(texts), by.0), (Arc::new(numbers), by.1)];
            let columns: Vec<SortColumn> =
                columns.into_iter().map(|(values, options)| SortColumn { values, options: Some(options) }).collect();
            for columns in [&columns[..1], &columns] {
                let expected = by_rows(columns, None).unwrap();
                // Without the ranks of texts of few values.
                let leading = leading_texts(&columns[0]).unwrap();
                let mut numbered: Vec<(u64, u32)> = leading.into_iter().zip(0..).collect();
                sort(&mut numbered, threads, Stop::NEVER).unwrap();
                let tied = settle_texts(&mut numbered, &columns[0], threads, Stop::NEVER).unwrap();
                settle_ties(&mut numbered, tied, |tied| order(&take_rows(&columns[1..], tied).unwrap(), None)).unwrap();
                prop_assert_eq!(numbered.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), expected.clone());
                let actual = order_by(columns, None, threads, Stop::NEVER).unwrap();
                prop_assert_eq!(actual.unwrap_or_else(|| (0..expected.len() as u32).collect()), expected);
            }
        }
    }

    #[test]
    fn many_rows_are_sorted_by_digits() {
        let mut random = 7u64;
        let mut next = move |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for bound in [2, 3000, 1 << 31] {
            let mut rows: Vec<(u64, u32)> = (0..5000).map(|row| (next(bound) << 20 | next(bound), row)).collect();
            let mut expected = rows.clone();
            expected.sort_by_key(|(key, _)| *key);
            for threads in [1, 2, 3, 7] {
                let mut rows = rows.clone();
                sort(&mut rows, threads, Stop::NEVER).unwrap();
                assert_eq!(rows, expected, "{threads} threads");
            }
            sort(&mut rows, 2, Stop::NEVER).unwrap();
            sort(&mut rows, 3, Stop::NEVER).unwrap();
            assert_eq!(rows, expected, "what is sorted stays");
        }
    }

    #[test]
    fn texts_of_few_values_and_keys_that_tie_are_in_the_order_of_the_row_format() {
        let scattered = |row: u64, below: u64| (row.wrapping_mul(6_364_136_223_846_793_005) >> 33) % below;
        let texts = |rows: u64, many: u64| -> ArrayRef {
            let text = |row| {
                (scattered(row + 3, 11) > 0)
                    .then(|| format!("{}{}", "long ".repeat(row as usize % 3), scattered(row, many)))
            };
            Arc::new((0..rows).map(text).collect::<StringArray>())
        };
        let numbers = |rows: u64, below: u64| -> ArrayRef {
            Arc::new(
                (0..rows)
                    .map(|row| (scattered(row + 5, 9) > 0).then(|| scattered(row + 1, below) as i64))
                    .collect::<Int64Array>(),
            )
        };
        let alike = |rows: u64| -> ArrayRef {
            let text = |row| (row % 5 > 0).then(|| format!("{}0000000{row}", if row % 5 == 1 { "B" } else { "A" }));
            Arc::new((0..rows).map(text).collect::<StringArray>())
        };
        for (rows, many) in [(300, 20), (5_000, 40), (5_000, 4_000), (120_000, 300)] {
            let texts_alone = [SortColumn { values: alike(rows), options: None }];
            let expected = by_rows(&texts_alone, None).unwrap();
            assert_eq!(order(&texts_alone, Some(9)).unwrap().unwrap(), expected[..9], "texts that begin alike");
            let all = [texts(rows, many), numbers(rows, 3), numbers(rows, u64::MAX), texts(rows, 5), numbers(rows, 1)];
            for (number, picked) in
                [[0, 1, 2], [1, 2, 0], [3, 2, 1], [1, 0, 2], [4, 1, 3], [2, 0, 1]].into_iter().enumerate()
            {
                let options = |place: usize| SortOptions {
                    descending: (number + place) % 2 == 0,
                    nulls_first: (number + place) % 3 == 0,
                };
                let columns: Vec<SortColumn> = picked
                    .iter()
                    .map(|column| SortColumn { values: Arc::clone(&all[*column]), options: Some(options(*column)) })
                    .collect();
                let expected = by_rows(&columns, None).unwrap();
                for threads in [1, 2] {
                    assert_eq!(
                        order_by(&columns, None, threads, Stop::NEVER).unwrap().unwrap(),
                        expected,
                        "{rows} rows, {picked:?}"
                    );
                }
                for fetch in [0, 1, 7, 30] {
                    assert_eq!(
                        order(&columns, Some(fetch)).unwrap().unwrap(),
                        expected[..fetch],
                        "{rows} rows, {picked:?}, {fetch}"
                    );
                }
            }
        }
    }

    #[test]
    fn full_words_stand_side_by_side() {
        let extremes: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN, 0, i64::MIN]));
        let others: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 3, i64::MIN]));
        let columns: Vec<SortColumn> =
            [extremes, others].map(|values| SortColumn { values, options: None }).into_iter().collect();
        assert_eq!(order(&columns, None).unwrap().unwrap(), [3, 1, 2, 0]);
        assert_eq!(lexsort_to_indices(&columns, None).unwrap().values().to_vec(), [3, 1, 2, 0]);
    }
}
