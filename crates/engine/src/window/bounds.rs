//! Window frames: which rows around a row belong to its frame.
//!
//! A frame is two bounds, each of its own kind, so that `ROWS`, `RANGE` and `GROUPS` are not told apart. In the order of the window
//! neither bound goes back from row to row, so that all frames of a partition are found by walking along it once.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, Scalar, make_comparator};
use arrow::compute::kernels::numeric;
use arrow::compute::{SortColumn, cast, partition};
use arrow::datatypes::DataType;

use crate::error::{Error, Result};
use crate::expr::Value;
use crate::order::numbers;
use crate::shift::shifted;

/// Where a frame begins or ends.
#[derive(Debug, Clone)]
pub enum FrameBound {
    /// With the partition.
    Unbounded,
    /// So many rows behind the row, or before it if below zero.
    Rows(i64),
    /// With the peers that are so many groups of peers behind those of the row, or before them. Peers are rows that are equal in
    /// the order.
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

/// The same for partitions that follow each other from the first row on, cut where these are.
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
    /// The frames of a partition of so many rows that stand in order.
    pub fn of(frame: &WindowFrame, order: &[SortColumn], rows: usize) -> Result<FrameRanges> {
        let by_rows = |bound: &FrameBound| match bound {
            FrameBound::Unbounded => Some(None),
            FrameBound::Rows(rows) => Some(Some(*rows)),
            _ => None,
        };
        if let (Some(start), Some(end)) = (by_rows(&frame.start), by_rows(&frame.end)) {
            return Ok(FrameRanges::Shifted { start, end, rows });
        }
        let starts = bounds(&frame.start, Side::Start, order, rows)?;
        let ends = bounds(&frame.end, Side::End, order, rows)?;
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

/// So many rows further, within the partition.
#[inline]
fn moved(row: usize, by: i64, rows: usize) -> usize {
    row.saturating_add_signed(isize::try_from(by).unwrap_or(if by < 0 { isize::MIN } else { isize::MAX })).min(rows)
}

/// Which bound of a frame is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

/// The bound of each row's frame: its first row, or the one behind its last.
fn bounds(bound: &FrameBound, side: Side, order: &[SortColumn], rows: usize) -> Result<Vec<u32>> {
    let number =
        |row: usize| u32::try_from(row).map_err(|_| Error::Unsupported("a partition of so many rows".to_owned()));
    let all = number(rows)?;
    Ok(match bound {
        FrameBound::Unbounded => vec![if side == Side::Start { 0 } else { all }; rows],
        FrameBound::Rows(by) => {
            let first = usize::from(side == Side::End);
            (0..rows).map(|row| number(moved(row + first, *by, rows))).collect::<Result<_>>()?
        }
        FrameBound::Peers(by) => {
            let groups = peers(order, rows)?;
            let mut bounds = Vec::with_capacity(rows);
            for (place, group) in groups.iter().enumerate() {
                let wanted = i64::try_from(place).unwrap_or(i64::MAX).saturating_add(*by);
                let bound = match (usize::try_from(wanted).map(|wanted| groups.get(wanted)), side) {
                    (Ok(Some(found)), Side::Start) => found.start,
                    (Ok(Some(found)), Side::End) => found.end,
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
fn by_distance(key: &SortColumn, by: &ArrayRef, preceding: bool, side: Side, rows: usize) -> Result<Vec<u32>> {
    let options = key.options.unwrap_or_default();
    let (keys, by) = (wide(&key.values)?, wide(by)?);
    let targets = away(&keys, &by, preceding != options.descending)?;
    if targets.data_type() != keys.data_type() {
        return Err(Error::Unsupported(format!("a distance of {} from {}", by.data_type(), keys.data_type())));
    }
    let limit = if side == Side::Start { Ordering::Less } else { Ordering::Equal };
    if keys.null_count() == 0
        && let (Some(keys), Some(targets)) = (numbers(&keys), numbers(&targets))
    {
        let turn = |number: u64| if options.descending { !number } else { number };
        return Ok(walk(rows, |other, row| turn(keys[other]).cmp(&turn(targets[row])) <= limit));
    }
    let compare = make_comparator(&keys, &targets, options)?;
    Ok(walk(rows, |other, row| compare(other, row) <= limit))
}

/// Whole numbers in as many bits as hold all distances from them; the others as they are.
fn wide(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::UInt64 => Err(Error::Unsupported("a distance between unsigned numbers".to_owned())),
        data_type if data_type.is_integer() => Ok(cast(values, &DataType::Int64)?),
        _ => Ok(ArrayRef::clone(values)),
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
    let (mut place, mut found) = (0, Vec::with_capacity(rows));
    for row in 0..rows {
        while place < rows && passes(place, row) {
            place += 1;
        }
        // So many rows fit, as the caller has seen.
        found.push(u32::try_from(place).unwrap_or(u32::MAX));
    }
    found
}
