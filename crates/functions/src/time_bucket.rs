//! `time_bucket(width, time [, zone] [, origin])`: the start of the bucket that a time falls into.
//!
//! Shapes: one value out per row in; `Timestamp(Nanosecond, zone of the input)`; null in any argument gives null.
//! An origin that isn't constant, as that of a sub-query is, counts for its row.
//! Order: kept. With a constant width, zone and origin the output is sorted as the time is, so a group by over ordered
//! rows needs no sort.
//!
//! The kernel remembers the last bucket: rows sorted by time cost two comparisons each, others one division.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_empty_array, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampNanosecondType};
use chrono_tz::Tz;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::{is_text, ordering_of_second, time_type, width_type};
use crate::grid::{Bucket, DAY_NS, DefaultOrigin, Grid, MINUTE_NS};
use crate::zone::ZonedGrid;

/// The scalar function `time_bucket`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeBucket {
    signature: Signature,
}

impl TimeBucket {
    pub(super) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [width, time] => Ok(vec![width_type(self.name(), width)?, time_type(self.name(), time)?]),
            [width, time, third] => Ok(vec![
                width_type(self.name(), width)?,
                time_type(self.name(), time)?,
                if is_text(third) { DataType::Utf8 } else { time_type(self.name(), third)? },
            ]),
            [width, time, zone, origin] if is_text(zone) => Ok(vec![
                width_type(self.name(), width)?,
                time_type(self.name(), time)?,
                DataType::Utf8,
                time_type(self.name(), origin)?,
            ]),
            _ => plan_err!(
                "time_bucket takes (interval, time), (interval, time, zone or origin) or (interval, time, zone, origin)"
            ),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.get(1) {
            Some(time) => Ok(time.clone()),
            None => plan_err!("time_bucket takes at least (interval, time)"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [width, time, rest @ ..] = args.args.as_slice() else {
            return exec_err!("time_bucket takes at least (interval, time)");
        };
        if let [constants @ .., ColumnarValue::Array(origins)] = rest
            && matches!(origins.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _))
        {
            return bucket_from_column(width, time, constants, origins, args.number_rows);
        }
        let Some(placement) = Placement::from_constants(rest)? else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(args.return_type())?));
        };
        bucket_columns(width, time, &placement, DefaultOrigin::Epoch, args.number_rows)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(ordering_of_second(inputs))
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        Ok(ordering_of_second(inputs) != SortProperties::Unordered)
    }

    fn preimage(&self, args: &[Expr], lit_expr: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        bucket_preimage(args, lit_expr, info, DefaultOrigin::Epoch)
    }
}

/// Which clock buckets are cut on and where they are counted from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Placement {
    zone: Option<Tz>,
    /// Nanoseconds on the clock of the buckets: local time if there is a zone.
    origin: Option<i64>,
}

impl Placement {
    /// Reads the arguments after the time: a zone, an origin, or a zone and an origin. `None` if one is null.
    ///
    /// # Errors
    /// If an argument is not constant or the zone is unknown.
    pub(super) fn from_constants(args: &[ColumnarValue]) -> Result<Option<Self>> {
        let mut placement = Self::default();
        for arg in args {
            let ColumnarValue::Scalar(value) = arg else {
                return exec_err!("the zone and the origin of a time bucket must be constants");
            };
            match value {
                value if value.is_null() => return Ok(None),
                ScalarValue::Utf8(Some(name)) => placement.zone = Some(parse_zone(name)?),
                ScalarValue::TimestampNanosecond(Some(origin), label) => {
                    // An origin with a zone label is an instant; one without is a reading of the buckets' clock.
                    placement.origin = Some(match (placement.zone, label) {
                        (Some(zone), Some(_)) => ZonedGrid::local(zone, *origin),
                        _ => *origin,
                    });
                }
                other => return exec_err!("a time bucket cannot be placed by a {}", other.data_type()),
            }
        }
        Ok(Some(placement))
    }

    /// The same with another origin, an instant.
    pub(super) fn counted_from(self, origin: i64) -> Self {
        let origin = self.zone.map_or(origin, |zone| ZonedGrid::local(zone, origin));
        Self { origin: Some(origin), ..self }
    }

    /// The buckets of this width.
    ///
    /// # Errors
    /// As [`Grid::new`].
    pub(super) fn timeline(&self, width: IntervalMonthDayNano, default: DefaultOrigin) -> Result<Timeline> {
        let grid = Grid::new(width, self.origin, default)?;
        Ok(self.zone.map_or(Timeline::Even(grid), |zone| Timeline::Zoned(ZonedGrid { grid, zone })))
    }
}

/// 1972-01-08T00:00:00, from which on the clocks of all zones are whole minutes from UTC. Liberia's came last, the day before.
const WHOLE_MINUTES_NS: i64 = 737 * DAY_NS;

/// A grid with its clock.
#[derive(Debug, Clone, Copy)]
pub enum Timeline {
    /// Buckets of a width of time.
    Even(Grid),
    /// Buckets of the clock of a zone.
    Zoned(ZonedGrid),
}

impl Timeline {
    /// The bucket of `t`, or `None` if its start is out of range.
    pub(super) fn bucket(&self, t: i64) -> Option<Bucket> {
        match self {
            Self::Even(grid) => grid.bucket(t),
            Self::Zoned(grid) => grid.bucket(t),
        }
    }

    /// Whether a bucket begins at an instant.
    pub fn begins_at(&self, t: i64) -> bool {
        self.bucket(t).is_some_and(|bucket| bucket.start == t)
    }

    /// Whether each bucket from an instant on certainly consists of whole buckets of another timeline: the bucket of a time is that of the start
    /// of its finer bucket.
    pub fn is_made_of(&self, finer: &Timeline, from: i64) -> bool {
        match (self, finer) {
            (Self::Even(coarse), Self::Even(fine)) => coarse.is_made_of(fine),
            (Self::Zoned(coarse), Self::Zoned(fine)) => coarse.zone == fine.zone && coarse.grid.is_made_of(&fine.grid),
            // Buckets of a clock begin at whole minutes of UTC, as far as they do on that clock.
            (Self::Zoned(coarse), Self::Even(fine)) => {
                let unit = if from >= WHOLE_MINUTES_NS { MINUTE_NS } else { MINUTE_NS / 60 };
                fine.width().is_some_and(|width| unit % width == 0) && coarse.grid.is_made_of(fine)
            }
            (Self::Even(_), Self::Zoned(_)) => false,
        }
    }
}

/// Buckets `time` by `width`, either of which may be a column.
pub(super) fn bucket_columns(
    width: &ColumnarValue,
    time: &ColumnarValue,
    placement: &Placement,
    default: DefaultOrigin,
    rows: usize,
) -> Result<ColumnarValue> {
    let all_constant = matches!((width, time), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let times = time.to_array(if all_constant { 1 } else { rows })?;
    let array = match width {
        ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(width))) => {
            bucket_by_constant(&times, placement.timeline(*width, default)?)?
        }
        ColumnarValue::Scalar(value) if value.is_null() => {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(times.data_type())?));
        }
        ColumnarValue::Scalar(value) => return exec_err!("a bucket width is an interval, not a {}", value.data_type()),
        ColumnarValue::Array(widths) => bucket_by_column(&times, widths, placement, default)?,
    };
    if all_constant {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

/// Buckets `time` by a width that is constant or a column, from an origin that is a column. Rows of one origin in a row share its buckets.
fn bucket_from_column(
    width: &ColumnarValue,
    time: &ColumnarValue,
    constants: &[ColumnarValue],
    origins: &ArrayRef,
    rows: usize,
) -> Result<ColumnarValue> {
    let (times, widths) = (time.to_array(rows)?, width.to_array(rows)?);
    let mut parts: Vec<ArrayRef> = Vec::new();
    let origin = |row: usize| ScalarValue::try_from_array(origins, row);
    let values = origins.as_primitive::<TimestampNanosecondType>();
    let mut start = 0;
    while start < rows {
        let is_same =
            |row: &usize| values.is_null(*row) == values.is_null(start) && values.value(*row) == values.value(start);
        let end = (start + 1..rows).find(|row| !is_same(row)).unwrap_or(rows);
        let place: Vec<ColumnarValue> =
            constants.iter().cloned().chain([ColumnarValue::Scalar(origin(start)?)]).collect();
        let part = times.slice(start, end - start);
        parts.push(match Placement::from_constants(&place)? {
            None => new_null_array(part.data_type(), part.len()),
            Some(placement) => {
                let width = match width {
                    ColumnarValue::Array(_) => ColumnarValue::Array(widths.slice(start, end - start)),
                    constant => constant.clone(),
                };
                let part = ColumnarValue::Array(part);
                bucket_columns(&width, &part, &placement, DefaultOrigin::Epoch, end - start)?.into_array(end - start)?
            }
        });
        start = end;
    }
    match parts.len() {
        0 => Ok(ColumnarValue::Array(new_empty_array(times.data_type()))),
        1 => Ok(ColumnarValue::Array(parts.swap_remove(0))),
        _ => Ok(ColumnarValue::Array(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)),
    }
}

fn bucket_by_constant(times: &ArrayRef, timeline: Timeline) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let starts = match timeline {
        Timeline::Even(grid) => starts_of(times, |t| grid.bucket(t))?,
        Timeline::Zoned(grid) => starts_of(times, |t| grid.bucket(t))?,
    };
    Ok(Arc::new(starts))
}

fn starts_of(
    times: &PrimitiveArray<TimestampNanosecondType>,
    bucket: impl Fn(i64) -> Option<Bucket>,
) -> Result<PrimitiveArray<TimestampNanosecondType>> {
    let mut starts = Vec::with_capacity(times.len());
    let mut current = Bucket { start: 0, end: 0 };
    for (row, &t) in times.values().iter().enumerate() {
        if t < current.start || t >= current.end {
            if times.is_null(row) {
                starts.push(0);
                continue;
            }
            current = bucket(t).ok_or_else(|| out_of_range(t))?;
        }
        starts.push(current.start);
    }
    Ok(PrimitiveArray::new(starts.into(), times.nulls().cloned()).with_data_type(times.data_type().clone()))
}

fn bucket_by_column(
    times: &ArrayRef,
    widths: &ArrayRef,
    placement: &Placement,
    default: DefaultOrigin,
) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
    let mut current: Option<(IntervalMonthDayNano, Timeline)> = None;
    let mut starts = Vec::with_capacity(times.len());
    for (t, width) in times.iter().zip(widths) {
        let (Some(t), Some(width)) = (t, width) else {
            starts.push(None);
            continue;
        };
        let timeline = match current {
            Some((last_width, timeline)) if last_width == width => timeline,
            _ => placement.timeline(width, default)?,
        };
        current = Some((width, timeline));
        starts.push(Some(timeline.bucket(t).ok_or_else(|| out_of_range(t))?.start));
    }
    Ok(Arc::new(PrimitiveArray::<TimestampNanosecondType>::from(starts).with_data_type(times.data_type().clone())))
}

fn out_of_range(t: i64) -> datafusion::error::DataFusionError {
    exec_datafusion_err!("the bucket of {t} ns begins before the first representable time, 1677-09-21")
}

/// The times that fall into the bucket named by a literal, so that filters on buckets prune like filters on times.
pub(super) fn bucket_preimage(
    args: &[Expr],
    lit_expr: &Expr,
    info: &SimplifyContext,
    default: DefaultOrigin,
) -> Result<PreimageResult> {
    let [width, time, rest @ ..] = args else { return Ok(PreimageResult::None) };
    let (Some(ScalarValue::IntervalMonthDayNano(Some(width))), Some(ScalarValue::TimestampNanosecond(Some(t), label))) =
        (width.as_literal(), lit_expr.as_literal())
    else {
        return Ok(PreimageResult::None);
    };
    let constants: Option<Vec<ColumnarValue>> =
        rest.iter().map(|arg| arg.as_literal().cloned().map(ColumnarValue::Scalar)).collect();
    let Some(placement) = constants.map(|args| Placement::from_constants(&args)).transpose()?.flatten() else {
        return Ok(PreimageResult::None);
    };
    if info.get_data_type(time)? != DataType::Timestamp(TimeUnit::Nanosecond, label.clone()) {
        return Ok(PreimageResult::None);
    }
    // A literal inside a bucket is never a result, and a bucket cut off by the end of time has no upper bound.
    let Some(bucket) = placement.timeline(*width, default)?.bucket(*t).filter(|b| b.start == *t && b.end < i64::MAX)
    else {
        return Ok(PreimageResult::None);
    };
    let bound = |t| ScalarValue::TimestampNanosecond(Some(t), label.clone());
    let interval = Box::new(Interval::try_new(bound(bucket.start), bound(bucket.end))?);
    Ok(PreimageResult::Range { expr: time.clone(), interval })
}

fn parse_zone(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        exec_datafusion_err!(
            "unknown time zone '{name}': zones have names such as 'America/New_York', an origin is written TIMESTAMP '2000-01-01'"
        )
    })
}
