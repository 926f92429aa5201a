//! Window frames: which rows around a row belong to its frame.
//!
//! A frame has two bounds, each with its own kind, so that `ROWS`, `RANGE` and `GROUPS` need no distinction. In the
//! order of the window each bound moves only forward from row to row, so one pass over a partition finds all frames.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, Scalar, UInt64Array, make_comparator};
use arrow::compute::kernels::numeric;
use arrow::compute::{SortColumn, SortOptions, cast, partition};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};

use crate::error::{Error, Result};
use crate::order::numbers;
use crate::shift::shifted;
use crate::value::Value;

/// Where a frame begins or ends.
#[derive(Debug, Clone)]
pub enum FrameBound {
    /// With the partition.
    Unbounded,
    /// This many rows behind the row, or before it if below zero.
    Rows(i64),
    /// By groups of peers: this many groups before or behind the row's own. Peers are rows that are equal in the order.
    Peers(i64),
    /// With the rows whose order key is so far from that of the row. There is one order key.
    Distance {
        /// How far: an array of one value.
        by: ArrayRef,
        /// Whether towards the first row.
        preceding: bool,
    },
}

/// Which rows a frame holds: those between two bounds.
#[derive(Debug, Clone)]
pub struct WindowFrame {
    /// Where it begins.
    pub start: FrameBound,
    /// Where it ends.
    pub end: FrameBound,
}

impl WindowFrame {
    /// All rows of the partition.
    pub const WHOLE: WindowFrame = WindowFrame { start: FrameBound::Unbounded, end: FrameBound::Unbounded };

    /// From the first row of the partition to the row itself.
    pub const RUNNING: WindowFrame = WindowFrame { start: FrameBound::Unbounded, end: FrameBound::Rows(0) };

    /// Whether it is all of the partition.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!((&self.start, &self.end), (FrameBound::Unbounded, FrameBound::Unbounded))
    }

    /// Whether it holds the first row of the partition, whatever its own row is.
    pub(super) fn begins_with_partition(&self) -> bool {
        matches!(self.start, FrameBound::Unbounded) && reaches_row(&self.end, |by| by >= 0)
    }

    /// Whether it holds the last row of the partition, whatever its own row is.
    pub(super) fn ends_with_partition(&self) -> bool {
        matches!(self.end, FrameBound::Unbounded) && reaches_row(&self.start, |by| by <= 0)
    }

    /// How many rows before the row it holds with it, where that is all.
    pub(super) fn last_rows(&self) -> Option<usize> {
        match (&self.start, &self.end) {
            (FrameBound::Rows(start), FrameBound::Rows(0)) => usize::try_from(start.checked_neg()?).ok(),
            _ => None,
        }
    }

    /// Whether the order keys say which rows it holds.
    pub(super) fn needs_order(&self) -> bool {
        [&self.start, &self.end]
            .into_iter()
            .any(|bound| matches!(bound, FrameBound::Peers(_) | FrameBound::Distance { .. }))
    }
}

/// Whether a bound doesn't leave its own row out, given the distances that don't.
fn reaches_row(bound: &FrameBound, distance: impl Fn(i64) -> bool) -> bool {
    match bound {
        FrameBound::Unbounded => true,
        FrameBound::Rows(by) | FrameBound::Peers(by) => distance(*by),
        FrameBound::Distance { .. } => false,
    }
}

/// Rows that are equal in the order, group by group.
pub(super) fn peers(order: &[SortColumn], rows: usize) -> Result<Vec<Range<usize>>> {
    if rows == 0 {
        return Ok(Vec::new());
    }
    if order.is_empty() {
        return Ok(std::iter::once(0..rows).collect());
    }
    Ok(partition(&order.iter().map(|key| ArrayRef::clone(&key.values)).collect::<Vec<_>>())?.ranges())
}

/// Like [`peers`], for adjacent partitions from the first row on: no run of peers crosses a partition's end.
pub(super) fn peers_within(order: &[SortColumn], partitions: &[Range<usize>]) -> Result<Vec<Range<usize>>> {
    let rows = partitions.last().map_or(0, |last| last.end);
    let mut cut = Vec::new();
    let mut partitions = partitions.iter();
    let mut end = 0;
    for mut equal in peers(order, rows)? {
        while equal.start < equal.end {
            while end <= equal.start {
                end = partitions.next().map_or(rows, |partition| partition.end);
            }
            let here = equal.start..equal.end.min(end);
            equal.start = here.end;
            cut.push(here);
        }
    }
    Ok(cut)
}

/// The rows of the frames of a partition.
pub(super) enum FrameRanges {
    /// By the number of the row alone.
    Shifted { start: Option<i64>, end: Option<i64>, rows: usize },
    /// First row and the one behind the last, for each row.
    Listed(Vec<(u32, u32)>),
}

impl FrameRanges {
    /// The frames of an ordered partition of `rows` rows.
    pub fn of(frame: &WindowFrame, order: &[SortColumn], rows: usize) -> Result<FrameRanges> {
        let by_rows = |bound: &FrameBound| match bound {
            FrameBound::Unbounded => Some(None),
            FrameBound::Rows(rows) => Some(Some(*rows)),
            _ => None,
        };
        if let (Some(start), Some(end)) = (by_rows(&frame.start), by_rows(&frame.end)) {
            return Ok(FrameRanges::Shifted { start, end, rows });
        }
        let starts = bounds(&frame.start, FrameSide::Start, order, rows)?;
        let ends = bounds(&frame.end, FrameSide::End, order, rows)?;
        if starts.iter().zip(&ends).any(|(start, end)| start > end) {
            return Err(Error::Unsupported("a frame that ends before it begins".to_owned()));
        }
        Ok(FrameRanges::Listed(starts.into_iter().zip(ends).collect()))
    }

    /// The first row of a row's frame and the one behind its last.
    #[inline]
    pub fn at(&self, row: usize) -> (usize, usize) {
        match self {
            FrameRanges::Shifted { start, end, rows } => {
                let end = end.map_or(*rows, |by| moved(row + 1, by, *rows));
                (start.map_or(0, |by| moved(row, by, *rows)).min(end), end)
            }
            FrameRanges::Listed(ranges) => (ranges[row].0 as usize, ranges[row].1 as usize),
        }
    }
}

/// The row at this distance, within the partition.
#[inline]
fn moved(row: usize, by: i64, rows: usize) -> usize {
    row.saturating_add_signed(isize::try_from(by).unwrap_or(if by < 0 { isize::MIN } else { isize::MAX })).min(rows)
}

/// Which bound of a frame is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameSide {
    Start,
    End,
}

/// The bound of each row's frame: its first row, or the one behind its last.
fn bounds(bound: &FrameBound, side: FrameSide, order: &[SortColumn], rows: usize) -> Result<Vec<u32>> {
    let number =
        |row: usize| u32::try_from(row).map_err(|_| Error::Unsupported("a partition of so many rows".to_owned()));
    let all = number(rows)?;
    Ok(match bound {
        FrameBound::Unbounded => vec![if side == FrameSide::Start { 0 } else { all }; rows],
        FrameBound::Rows(by) => {
            let first = usize::from(side == FrameSide::End);
            (0..rows).map(|row| number(moved(row + first, *by, rows))).collect::<Result<_>>()?
        }
        FrameBound::Peers(by) => {
            let groups = peers(order, rows)?;
            let mut bounds = Vec::with_capacity(rows);
            for (place, group) in groups.iter().enumerate() {
                let target = i64::try_from(place).unwrap_or(i64::MAX).saturating_add(*by);
                let bound = match (usize::try_from(target).map(|target| groups.get(target)), side) {
                    (Ok(Some(target_group)), FrameSide::Start) => target_group.start,
                    (Ok(Some(target_group)), FrameSide::End) => target_group.end,
                    (Ok(None), _) => rows,
                    (Err(_), _) => 0,
                };
                bounds.resize(group.end, number(bound)?);
            }
            bounds
        }
        FrameBound::Distance { by, preceding } => {
            let [key] = order else { return Err(Error::Unsupported("a distance by several keys".to_owned())) };
            by_distance(key, by, *preceding, side, rows)?
        }
    })
}

/// The bounds that lie so far from the key of each row.
fn by_distance(key: &SortColumn, by: &ArrayRef, preceding: bool, side: FrameSide, rows: usize) -> Result<Vec<u32>> {
    let options = key.options.unwrap_or_default();
    if key.values.data_type().is_integer() && by.data_type().is_integer() {
        return by_number(&key.values, by, preceding != options.descending, side, options, rows);
    }
    let (keys, by) = (ArrayRef::clone(&key.values), ArrayRef::clone(by));
    let targets = away(&keys, &by, preceding != options.descending)?;
    if targets.data_type() != keys.data_type() {
        return Err(Error::Unsupported(format!("a distance of {} from {}", by.data_type(), keys.data_type())));
    }
    let limit = if side == FrameSide::Start { Ordering::Less } else { Ordering::Equal };
    if keys.null_count() == 0
        && let (Some(keys), Some(targets)) = (numbers(&keys), numbers(&targets))
    {
        let turn = |number: u64| if options.descending { !number } else { number };
        return Ok(walk(rows, |other, row| turn(keys[other]).cmp(&turn(targets[row])) <= limit));
    }
    let compare = make_comparator(&keys, &targets, options)?;
    Ok(walk(rows, |other, row| compare(other, row) <= limit))
}

/// Like [`by_distance`] for whole numbers, whose bounds may lie outside the range of their type. Nulls are peers of each other.
fn by_number(
    keys: &ArrayRef,
    by: &ArrayRef,
    less: bool,
    side: FrameSide,
    options: SortOptions,
    rows: usize,
) -> Result<Vec<u32>> {
    let (keys, by) = (WholeNumbers::of(keys)?, WholeNumbers::of(by)?.at(0));
    let Some(by) = by else { return Err(Error::Unsupported("a distance of null".to_owned())) };
    let limit = if side == FrameSide::Start { Ordering::Less } else { Ordering::Equal };
    let by = if less { -by } else { by };
    if let Some((keys, targets)) = keys.moved(by) {
        let turn = |order: Ordering| if options.descending { order.reverse() } else { order };
        return Ok(walk(rows, |other, row| turn(keys[other].cmp(&targets[row])) <= limit));
    }
    Ok(walk(rows, |other, row| {
        let order = match (keys.at(other), keys.at(row)) {
            (Some(other), Some(key)) if options.descending => (key + by).cmp(&other),
            (Some(other), Some(key)) => other.cmp(&(key + by)),
            (None, None) => Ordering::Equal,
            (None, Some(_)) if options.nulls_first => Ordering::Less,
            (Some(_), None) if !options.nulls_first => Ordering::Less,
            _ => Ordering::Greater,
        };
        order <= limit
    }))
}

/// Whole numbers.
enum WholeNumbers {
    Signed(Int64Array),
    Unsigned(UInt64Array),
}

impl WholeNumbers {
    fn of(values: &ArrayRef) -> Result<WholeNumbers> {
        Ok(match values.as_primitive_opt::<UInt64Type>() {
            Some(values) => WholeNumbers::Unsigned(values.clone()),
            None => WholeNumbers::Signed(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
        })
    }

    /// The number of a row, in as many bits as hold all sums of two.
    fn at(&self, row: usize) -> Option<i128> {
        match self {
            WholeNumbers::Signed(values) => values.is_valid(row).then(|| values.value(row).into()),
            WholeNumbers::Unsigned(values) => values.is_valid(row).then(|| values.value(row).into()),
        }
    }

    /// The numbers, and the numbers plus a distance; `None` if one of them is null or doesn't fit into a signed 64-bit
    /// number.
    fn moved(&self, by: i128) -> Option<(&[i64], Vec<i64>)> {
        let (WholeNumbers::Signed(values), Ok(by)) = (self, i64::try_from(by)) else { return None };
        let moved = || values.values().iter().map(|value| value.checked_add(by)).collect::<Option<Vec<_>>>();
        (values.null_count() == 0).then(moved).flatten().map(|moved| (&values.values()[..], moved))
    }
}

/// The keys less or more than they are by a distance.
fn away(keys: &ArrayRef, by: &ArrayRef, less: bool) -> Result<ArrayRef> {
    if let Some(moved) = shifted(&Value::Array(ArrayRef::clone(keys)), &Value::Scalar(ArrayRef::clone(by)), less) {
        return moved.into_array(keys.len());
    }
    let by = Scalar::new(ArrayRef::clone(by));
    Ok(if less { numeric::sub(keys, &by)? } else { numeric::add(keys, &by)? })
}

/// For each row the first row from the one of the row before on that isn't passed.
fn walk(rows: usize, passes: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let (mut place, mut first_rows) = (0, Vec::with_capacity(rows));
    for row in 0..rows {
        while place < rows && passes(place, row) {
            place += 1;
        }
        // The caller has checked that the number of rows fits.
        first_rows.push(u32::try_from(place).unwrap_or(u32::MAX));
    }
    first_rows
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn sizes(keys: ArrayRef, descending: bool, nulls_first: bool, bounds: [(ArrayRef, bool); 2]) -> Vec<usize> {
        let rows = keys.len();
        let order = [SortColumn { values: keys, options: Some(SortOptions { descending, nulls_first }) }];
        let [start, end] = bounds.map(|(by, preceding)| FrameBound::Distance { by, preceding });
        let frames = FrameRanges::of(&WindowFrame { start, end }, &order, rows).unwrap();
        (0..rows).map(|row| frames.at(row)).map(|(start, end)| end - start).collect()
    }

    #[test]
    fn bounds_may_be_beyond_the_range_of_keys() {
        let signed = |keys: Vec<Option<i64>>| Arc::new(Int64Array::from(keys)) as ArrayRef;
        let one = |by: i64| signed(vec![Some(by)]);
        let last = i64::MAX;
        let up = signed(vec![Some(i64::MIN), Some(5), Some(last - 7), Some(last), None, None]);
        assert_eq!(sizes(up, false, false, [(one(5), true), (one(20), false)]), [1, 1, 2, 1, 2, 2]);
        let ahead = signed(vec![Some(5), Some(last - 7), Some(last)]);
        assert_eq!(sizes(ahead, false, false, [(one(7), false), (one(20), false)]), [0, 1, 0]);
        let down = signed(vec![None, Some(last), Some(last - 7), Some(i64::MIN)]);
        assert_eq!(sizes(down, true, true, [(one(20), true), (one(5), false)]), [1, 1, 2, 1]);
        let plain = signed(vec![Some(9), Some(7), Some(1)]);
        assert_eq!(sizes(plain, true, true, [(one(2), true), (one(6), false)]), [2, 3, 1]);
        let unsigned = |keys: Vec<u64>| Arc::new(UInt64Array::from(keys)) as ArrayRef;
        let keys = unsigned(vec![3, u64::MAX - 5, u64::MAX]);
        assert_eq!(sizes(keys, false, false, [(unsigned(vec![10]), true), (unsigned(vec![3]), true)]), [0, 0, 1]);
    }
}
