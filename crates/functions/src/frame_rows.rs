//! Which rows of a partition are in the frame of each row: bounds in rows, in groups of peers, or by distance of the key, less what is excluded.
//!
//! A distance is a number of a numeric key, or an interval without months of a time or date. A null key is in the frame of null keys alone.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::compute::{CastOptions, SortOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalUnit, TimeUnit};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use splay_store::canonical;

const NANOSECONDS_OF_A_DAY: i64 = 86_400_000_000_000;

/// What a frame is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    Rows,
    Groups,
    Range,
}

impl Units {
    pub fn of(units: WindowFrameUnits) -> Units {
        match units {
            WindowFrameUnits::Rows => Units::Rows,
            WindowFrameUnits::Groups => Units::Groups,
            WindowFrameUnits::Range => Units::Range,
        }
    }
}

/// The rows that a frame excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exclusion {
    Nothing,
    CurrentRow,
    /// The row and its peers.
    Group,
    /// Its peers without it.
    Ties,
}

/// One end of a frame.
#[derive(Debug)]
pub(super) enum FrameEdge {
    First,
    Last,
    CurrentRow,
    /// A distance behind the row; before it if negative. One offset a row, or one for all.
    Offset {
        offsets: ArrayRef,
        is_before: bool,
    },
}

impl FrameEdge {
    /// A bound of the statement, with the offset of each row in the place of its own.
    pub fn new(bound: &WindowFrameBound, row_offsets: Option<ArrayRef>, rows: usize) -> Result<FrameEdge> {
        let offset = |value: &ScalarValue, is_before| -> Result<FrameEdge> {
            let mut offsets = match &row_offsets {
                Some(offsets) => Arc::clone(offsets),
                None => value.to_array_of_size(rows)?,
            };
            if offsets.data_type().is_integer() {
                offsets = cast(&offsets, &DataType::Int64)?;
            }
            Ok(FrameEdge::Offset { offsets, is_before })
        };
        match bound {
            WindowFrameBound::CurrentRow => Ok(FrameEdge::CurrentRow),
            WindowFrameBound::Preceding(value) if value.is_null() && row_offsets.is_none() => Ok(FrameEdge::First),
            WindowFrameBound::Following(value) if value.is_null() && row_offsets.is_none() => Ok(FrameEdge::Last),
            WindowFrameBound::Preceding(value) => offset(value, true),
            WindowFrameBound::Following(value) => offset(value, false),
        }
    }
}

/// The key of a window by which distances are measured.
#[derive(Debug)]
enum Keys {
    Whole(Int64Array),
    Float(Float64Array),
}

/// The frames of the rows of a partition, which is in the order of its window.
#[derive(Debug)]
pub(super) struct Frames {
    units: Units,
    bounds: [FrameEdge; 2],
    /// The number of each row's group of peers, and where each group begins, with the end behind them.
    group_of: Vec<usize>,
    groups: Vec<usize>,
    distances: Option<Distances>,
}

#[derive(Debug)]
struct Distances {
    keys: Keys,
    offsets: [Option<Keys>; 2],
    descending: bool,
}

impl Frames {
    pub fn new(
        units: Units,
        bounds: [FrameEdge; 2],
        keys: &[ArrayRef],
        options: &[SortOptions],
        rows: usize,
    ) -> Result<Frames> {
        for bound in &bounds {
            check_offsets(bound, units)?;
        }
        let (mut group_of, mut groups) = (Vec::with_capacity(rows), Vec::new());
        let by_key = (!keys.is_empty()).then(|| by_value(keys, Some(options))).transpose()?;
        for row in 0..rows {
            let is_new = match &by_key {
                Some(keys) => row == 0 || keys.row(row) != keys.row(row - 1),
                None => row == 0,
            };
            if is_new {
                groups.push(row);
            }
            group_of.push(groups.len() - 1);
        }
        groups.push(rows);
        let has_offset = bounds.iter().any(|bound| matches!(bound, FrameEdge::Offset { .. }));
        let distances = match (units, keys, has_offset) {
            (Units::Range, [key], true) => Some(Distances::new(key, &bounds, options)?),
            (Units::Range, _, true) => return exec_err!("RANGE with an offset needs one key to order by"),
            _ => None,
        };
        Ok(Frames { units, bounds, group_of, groups, distances })
    }

    /// The rows of a row's frame: three ranges, of which some may be empty.
    pub fn rows(&self, row: usize, exclusion: Exclusion) -> [Range<usize>; 3] {
        let end = self.group_of.len();
        let frame = self.place(0, row).min(end)..self.place(1, row).min(end);
        let frame = if frame.start < frame.end { frame } else { 0..0 };
        let peers = self.peers(row);
        let without = |hole: Range<usize>| {
            [frame.start..hole.start.clamp(frame.start, frame.end), hole.end.clamp(frame.start, frame.end)..frame.end]
        };
        match exclusion {
            Exclusion::Nothing => [frame, 0..0, 0..0],
            Exclusion::CurrentRow => tidied(without(row..row + 1), 0..0),
            Exclusion::Group => tidied(without(peers), 0..0),
            Exclusion::Ties => {
                let is_inside = frame.contains(&row);
                tidied(without(peers), if is_inside { row..row + 1 } else { 0..0 })
            }
        }
    }

    fn peers(&self, row: usize) -> Range<usize> {
        let group = self.group_of[row];
        self.groups[group]..self.groups[group + 1]
    }

    /// Where the frame of a row begins, or the place behind its end.
    fn place(&self, side: usize, row: usize) -> usize {
        let is_end = side == 1;
        match &self.bounds[side] {
            FrameEdge::First => 0,
            FrameEdge::Last => self.group_of.len(),
            FrameEdge::CurrentRow => match (self.units, is_end) {
                (Units::Rows, _) => row + usize::from(is_end),
                (_, false) => self.peers(row).start,
                (_, true) => self.peers(row).end,
            },
            FrameEdge::Offset { offsets, is_before } => {
                if let Some(distances) = &self.distances {
                    return distances.place(side, row, *is_before, self.peers(row));
                }
                let offset = offsets.as_primitive::<Int64Type>().value(row);
                let offset = i128::from(if *is_before { -offset } else { offset });
                let from = if self.units == Units::Rows { row } else { self.group_of[row] };
                let place = from as i128 + offset + i128::from(is_end);
                let most = if self.units == Units::Rows { self.group_of.len() } else { self.groups.len() - 1 };
                let place = usize::try_from(place.max(0)).unwrap_or(most).min(most);
                if self.units == Units::Rows { place } else { self.groups[place] }
            }
        }
    }
}

/// Ranges with the non-empty ones first, in the order of rows.
fn tidied([before, behind]: [Range<usize>; 2], between: Range<usize>) -> [Range<usize>; 3] {
    let mut parts = [before, between, behind];
    for part in &mut parts {
        if part.start >= part.end {
            *part = 0..0;
        }
    }
    parts.sort_by_key(|part| (part.start >= part.end, part.start));
    parts
}

fn check_offsets(bound: &FrameEdge, units: Units) -> Result<()> {
    let FrameEdge::Offset { offsets, .. } = bound else { return Ok(()) };
    if offsets.null_count() > 0 {
        return exec_err!("an offset of a frame is null");
    }
    if units == Units::Range {
        return Ok(());
    }
    match offsets.as_primitive_opt::<Int64Type>() {
        Some(offsets) if offsets.values().iter().all(|offset| *offset >= 0) => Ok(()),
        Some(_) => exec_err!("an offset of a frame is negative"),
        None => exec_err!("an offset in rows or groups is a whole number, not a {}", offsets.data_type()),
    }
}

/// Numbers beside dates as days. Beside times they are refused.
fn days(offsets: &ArrayRef, key: &DataType) -> Result<ArrayRef> {
    let Some(texts) = offsets.as_string_opt::<i32>() else { return Ok(Arc::clone(offsets)) };
    let is_number = texts.iter().flatten().any(|text| text.trim().parse::<f64>().is_ok());
    match key {
        DataType::Date32 | DataType::Date64 if is_number => {
            let days = texts.iter().map(|text| text.map(|text| format!("{} days", text.trim())));
            Ok(Arc::new(days.collect::<StringArray>()))
        }
        key if key.is_temporal() && is_number => {
            exec_err!("a number isn't a distance of times: write an interval, as in INTERVAL '5 seconds'")
        }
        _ => Ok(Arc::clone(offsets)),
    }
}

impl Distances {
    fn new(key: &ArrayRef, bounds: &[FrameEdge; 2], options: &[SortOptions]) -> Result<Distances> {
        let keys = Keys::of_keys(key)?;
        let mut offsets = [None, None];
        for (bound, into) in bounds.iter().zip(&mut offsets) {
            if let FrameEdge::Offset { offsets, .. } = bound {
                let offsets = days(offsets, key.data_type())?;
                let measured = keys.measured(&offsets, key.data_type().is_temporal())?;
                if measured.is_negative() {
                    return exec_err!("an offset of a frame is negative");
                }
                *into = Some(measured);
            }
        }
        Ok(Distances { keys, offsets, descending: options.first().is_some_and(|options| options.descending) })
    }

    fn place(&self, side: usize, row: usize, is_before: bool, peers: Range<usize>) -> usize {
        let is_end = side == 1;
        let Some(offsets) = &self.offsets[side] else { return peers.start };
        if self.keys.array().is_null(row) {
            return if is_end { peers.end } else { peers.start };
        }
        let grows = is_before == self.descending;
        let to = |other: usize| {
            let order = self.keys.compare(other, row, offsets, grows);
            if self.descending { order.reverse() } else { order }
        };
        let valid = self.keys.valid();
        let among = |index: usize| valid.start + index;
        let (mut low, mut high) = (0, valid.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let order = to(among(middle));
            let goes_right = order == Ordering::Less || (is_end && order == Ordering::Equal);
            if goes_right { low = middle + 1 } else { high = middle }
        }
        among(low)
    }
}

impl Keys {
    fn of_keys(key: &ArrayRef) -> Result<Keys> {
        let of = key.data_type();
        Ok(match of {
            of if of.is_integer() && *of != DataType::UInt64 => Keys::Whole(whole(key)?),
            DataType::Timestamp(_, zone) => {
                let fine = cast(key, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?;
                Keys::Whole(whole(&fine)?)
            }
            DataType::Date32 | DataType::Date64 => {
                Keys::Whole(whole(&cast(key, &DataType::Timestamp(TimeUnit::Nanosecond, None))?)?)
            }
            of if of.is_numeric() => Keys::Float(cast(key, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            of => return exec_err!("RANGE with an offset over a {of}"),
        })
    }

    /// Offsets in the measure of the keys.
    fn measured(&self, offsets: &ArrayRef, is_time: bool) -> Result<Keys> {
        match (self, offsets.data_type()) {
            // As the statement has it.
            (keys, DataType::Utf8) => {
                let number = if matches!(keys, Keys::Whole(_)) { DataType::Int64 } else { DataType::Float64 };
                let to = if is_time { DataType::Interval(IntervalUnit::MonthDayNano) } else { number };
                let options = CastOptions { safe: false, ..CastOptions::default() };
                keys.measured(&cast_with_options(offsets, &to, &options)?, is_time)
            }
            (Keys::Whole(_), DataType::Interval(_)) => {
                let fine = cast(offsets, &DataType::Interval(IntervalUnit::MonthDayNano))?;
                let fine = fine.as_primitive::<arrow::datatypes::IntervalMonthDayNanoType>();
                let length = |value: &arrow::datatypes::IntervalMonthDayNano| {
                    let days = i64::from(value.days).checked_mul(NANOSECONDS_OF_A_DAY);
                    match days.and_then(|days| days.checked_add(value.nanoseconds)) {
                        Some(length) if value.months == 0 => Ok(length),
                        _ => exec_err!("an offset of a frame is an interval without months"),
                    }
                };
                Ok(Keys::Whole(fine.values().iter().map(length).collect::<Result<Vec<_>>>()?.into()))
            }
            (Keys::Whole(_), of) if of.is_integer() && !is_time => Ok(Keys::Whole(whole(offsets)?)),
            (Keys::Float(_), of) if of.is_numeric() => {
                Ok(Keys::Float(cast(offsets, &DataType::Float64)?.as_primitive::<Float64Type>().clone()))
            }
            (_, of) => exec_err!("a {of} isn't a distance of the key that the window is ordered by"),
        }
    }

    fn array(&self) -> &dyn Array {
        match self {
            Keys::Whole(values) => values,
            Keys::Float(values) => values,
        }
    }

    /// The rows whose key isn't null; nulls are at one end.
    fn valid(&self) -> Range<usize> {
        let array = self.array();
        let nulls = array.null_count();
        if nulls > 0 && array.is_null(0) { nulls..array.len() } else { 0..array.len() - nulls }
    }

    fn is_negative(&self) -> bool {
        match self {
            Keys::Whole(values) => values.values().iter().any(|value| *value < 0),
            Keys::Float(values) => values.values().iter().any(|value| *value < 0.0 || value.is_nan()),
        }
    }

    /// How the key of a row compares with that of another, moved by its offset.
    fn compare(&self, row: usize, other: usize, offsets: &Keys, grows: bool) -> Ordering {
        match (self, offsets) {
            (Keys::Whole(keys), Keys::Whole(offsets)) => {
                let offset = i128::from(offsets.value(other));
                let moved = i128::from(keys.value(other)) + if grows { offset } else { -offset };
                i128::from(keys.value(row)).cmp(&moved)
            }
            (Keys::Float(keys), Keys::Float(offsets)) => {
                let offset = offsets.value(other);
                // Without the sign of a zero.
                let moved = keys.value(other) + if grows { offset } else { -offset } + 0.0;
                (keys.value(row) + 0.0).total_cmp(&moved)
            }
            _ => Ordering::Equal,
        }
    }
}

fn whole(values: &ArrayRef) -> Result<Int64Array> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(values, &DataType::Int64, &options)?.as_primitive::<Int64Type>().clone())
}

/// Rows by the values of some columns, in an order.
pub(super) fn by_value(columns: &[ArrayRef], options: Option<&[SortOptions]>) -> Result<Rows> {
    let option = |place: usize| options.and_then(|options| options.get(place)).copied().unwrap_or_default();
    let columns: Vec<ArrayRef> =
        columns.iter().map(|column| canonical(column).unwrap_or_else(|| Arc::clone(column))).collect();
    let field =
        |(place, column): (usize, &ArrayRef)| SortField::new_with_options(column.data_type().clone(), option(place));
    let converter = RowConverter::new(columns.iter().enumerate().map(field).collect())?;
    Ok(converter.convert_columns(&columns)?)
}
