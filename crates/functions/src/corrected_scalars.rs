//! DataFusion's scalar functions where its answers are wrong for some values.
//!
//! - `date_part` of a difference of times takes it apart into days, hours, minutes and seconds, as of an interval. DataFusion 55.2 counts whole
//!   minutes in all, and nanoseconds in 32 bits, which hold 2.1 seconds. Of intervals the parts of a minute are whole, too.
//! - The `epoch` of a time or of a difference is the float nearest to the quotient. DataFusion rounds nanoseconds to a float first.
//! - `round(x, n)` is `x` where `n` is beyond its digits, and computes in 64 bits. DataFusion's factor overflows, and has 24 bits for a `real`.
//! - `to_timestamp` of a float out of range, or of NaN, is an error. DataFusion gives the last time there is, or 1970.
//! - `length`, `octet_length`, `bit_length` and `ascii` of a symbol are numbers. DataFusion makes dictionaries of numbers, which have no sign and no
//!   absolute value.
//! - `coalesce`, `nvl` and `nvl2` read a text beside times, dates or booleans as one of them: `coalesce(d, '1970-01-01')`. DataFusion has no type for both.
//!
//! Everything else is left to DataFusion.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array, Int32Array, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationNanosecondType, FieldRef, Float32Type, Float64Type, Int32Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions::core::{coalesce, nvl, nvl2};
use datafusion::functions::datetime::{date_part, to_timestamp};
use datafusion::functions::math::round;
use datafusion::functions::string::{ascii, bit_length, octet_length};
use datafusion::functions::unicode::character_length;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Floats up to here are whole numbers that have all whole numbers below them.
const EXACT: u64 = 1 << 53;

/// All of this file.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut functions =
        vec![parts(), corrected(round(), rounded), corrected(to_timestamp(&ConfigOptions::default()), time_of_seconds)];
    let of_texts = [character_length(), octet_length(), bit_length(), ascii()];
    let of_one_type = [coalesce(), nvl(), nvl2()];
    functions.extend(of_texts.into_iter().chain(of_one_type).map(|function| corrected(function, |_| Ok(None))));
    functions
}

/// The type of a function's values, of a dictionary of numbers that of the numbers.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) if values.is_numeric() => values.as_ref().clone(),
        other => other.clone(),
    }
}

/// `date_part`, which `EXTRACT` calls, too.
pub(super) fn parts() -> ScalarUDF {
    corrected(date_part(), part)
}

/// What a call gives; none if that is what DataFusion's function gives.
type Correction = fn(&ScalarFunctionArgs) -> Result<Option<ArrayRef>>;

fn corrected(inner: Arc<ScalarUDF>, answer: Correction) -> ScalarUDF {
    ScalarUDF::from(CorrectedScalar { inner, answer })
}

/// A function of DataFusion's with other answers for some arguments.
#[derive(Debug)]
struct CorrectedScalar {
    inner: Arc<ScalarUDF>,
    answer: Correction,
}

impl PartialEq for CorrectedScalar {
    fn eq(&self, other: &CorrectedScalar) -> bool {
        self.inner == other.inner
    }
}

impl Eq for CorrectedScalar {}

impl std::hash::Hash for CorrectedScalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for CorrectedScalar {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(plain(&self.inner.return_type(types)?))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.inner.return_field_from_args(args)?;
        let data_type = plain(field.data_type());
        if data_type == *field.data_type() {
            return Ok(field);
        }
        Ok(Arc::new(field.as_ref().clone().with_data_type(data_type)))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(&texts_as_others(types))
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        match (self.answer)(&args)? {
            None => {
                let data_type = args.return_field.data_type().clone();
                let values = self.inner.invoke_with_args(args)?;
                if values.data_type() == data_type { Ok(values) } else { values.cast_to(&data_type, None) }
            }
            Some(one) if is_scalar => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)),
            Some(values) => Ok(ColumnarValue::Array(values)),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }
}

/// Types in which a text beside a time, a date or a boolean is one of them.
fn texts_as_others(types: &[DataType]) -> Vec<DataType> {
    let other = types.iter().find(|of| of.is_temporal() || **of == DataType::Boolean);
    let typed = |of: &DataType| match other {
        Some(other) if matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => other.clone(),
        _ => of.clone(),
    };
    types.iter().map(typed).collect()
}

/// Rows of an argument: one if all arguments are constants.
fn values(args: &ScalarFunctionArgs, place: usize) -> Result<ArrayRef> {
    let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    args.args[place].to_array(if is_scalar { 1 } else { args.number_rows })
}

/// Seconds of so many nanoseconds, as the nearest float.
#[expect(clippy::cast_precision_loss, reason = "the first is exact, and the other is rounded once")]
fn seconds(nanoseconds: i64) -> f64 {
    let length = nanoseconds.unsigned_abs();
    if length < EXACT {
        return nanoseconds as f64 / 1e9;
    }
    // More bits than a float has, and whether anything follows them.
    let wide = u128::from(length) << 64;
    let quotient = (wide / 1_000_000_000) | u128::from(wide % 1_000_000_000 != 0);
    let seconds = quotient as f64 * 2f64.powi(-64);
    if nanoseconds < 0 { -seconds } else { seconds }
}

fn part(args: &ScalarFunctionArgs) -> Result<Option<ArrayRef>> {
    let [ColumnarValue::Scalar(part), of] = args.args.as_slice() else { return Ok(None) };
    let Some(Some(part)) = part.try_as_str() else { return Ok(None) };
    let part = part.trim_matches(['\'', '"']).to_lowercase();
    match of.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) if part == "epoch" => {
            let times = values(args, 1)?;
            let seconds: Float64Array = times.as_primitive::<TimestampNanosecondType>().unary(seconds);
            Ok(Some(Arc::new(seconds)))
        }
        DataType::Duration(_) => {
            let lengths = cast(&values(args, 1)?, &DataType::Duration(TimeUnit::Nanosecond))?;
            let lengths = lengths.as_primitive::<DurationNanosecondType>();
            if part == "epoch" {
                return Ok(Some(Arc::new(lengths.unary::<_, Float64Type>(seconds))));
            }
            part_of_intervals(&lengths.unary(as_interval), &part)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            part_of_intervals(values(args, 1)?.as_primitive::<IntervalMonthDayNanoType>(), &part)
        }
        _ => Ok(None),
    }
}

/// A difference of times as days and the rest of a day, both with its sign.
#[expect(clippy::cast_possible_truncation, reason = "nanoseconds hold 106,751 days")]
fn as_interval(nanoseconds: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(0, (nanoseconds / DAY) as i32, nanoseconds % DAY)
}

/// A part of intervals; none of what isn't a part of them, which DataFusion refuses.
fn part_of_intervals(intervals: &PrimitiveArray<IntervalMonthDayNanoType>, part: &str) -> Result<Option<ArrayRef>> {
    const MINUTE: i64 = 60 * SECOND;
    let name = match part {
        "s" => "second",
        "ms" => "millisecond",
        "us" => "microsecond",
        "ns" => "nanosecond",
        part => part.strip_suffix('s').unwrap_or(part),
    };
    let of: fn(IntervalMonthDayNano) -> i64 = match name {
        "year" | "y" | "yr" => |interval| i64::from(interval.months / 12),
        "quarter" | "qtr" => |interval| i64::from(interval.months % 12 / 3 + 1),
        "month" | "mon" => |interval| i64::from(interval.months % 12),
        "week" | "w" => |interval| i64::from(interval.days / 7),
        "day" | "d" => |interval| i64::from(interval.days),
        "hour" | "h" | "hr" => |interval| interval.nanoseconds / (60 * MINUTE),
        "minute" | "m" | "min" => |interval| interval.nanoseconds / MINUTE % 60,
        "second" | "sec" => |interval| interval.nanoseconds / SECOND % 60,
        "millisecond" | "msec" | "msecond" => |interval| interval.nanoseconds % MINUTE / 1_000_000,
        "microsecond" | "usec" | "usecond" => |interval| interval.nanoseconds % MINUTE / 1_000,
        "nanosecond" | "nsec" | "nsecond" => {
            let parts: Int64Array = intervals.unary(|interval| interval.nanoseconds % MINUTE);
            return Ok(Some(Arc::new(parts)));
        }
        _ => return Ok(None),
    };
    // The hours of all nanoseconds that there are fit, too.
    #[expect(clippy::cast_possible_truncation, reason = "each part fits")]
    let parts: Int32Array = intervals.unary::<_, Int32Type>(|interval| of(interval) as i32);
    Ok(Some(Arc::new(parts)))
}

fn rounded(args: &ScalarFunctionArgs) -> Result<Option<ArrayRef>> {
    let data_type = args.args[0].data_type();
    if !matches!(data_type, DataType::Float32 | DataType::Float64) {
        return Ok(None);
    }
    let numbers = values(args, 0)?;
    let places = match args.args.get(1) {
        None => return Ok(Some(rounded_to(&numbers, RoundingPlaces::new(0)))),
        Some(ColumnarValue::Scalar(ScalarValue::Int32(Some(places)))) => {
            return Ok(Some(rounded_to(&numbers, RoundingPlaces::new(*places))));
        }
        Some(places) if places.data_type() == DataType::Int32 => values(args, 1)?,
        Some(_) => return Ok(None),
    };
    let places = places.as_primitive::<Int32Type>();
    Ok(Some(match numbers.as_primitive_opt::<Float32Type>() {
        #[expect(clippy::cast_possible_truncation, reason = "it is rounded to a float of its type")]
        Some(numbers) => {
            let to_places = |number: f32, places| RoundingPlaces::new(places).of(f64::from(number)) as f32;
            let rounded: Float32Array = arrow::compute::binary(numbers, places, to_places)?;
            Arc::new(rounded)
        }
        None => {
            let numbers = numbers.as_primitive::<Float64Type>();
            let to_places = |number: f64, places| RoundingPlaces::new(places).of(number);
            let rounded: Float64Array = arrow::compute::binary(numbers, places, to_places)?;
            Arc::new(rounded)
        }
    }))
}

/// All numbers to the same places.
fn rounded_to(numbers: &ArrayRef, places: RoundingPlaces) -> ArrayRef {
    match numbers.as_primitive_opt::<Float32Type>() {
        #[expect(clippy::cast_possible_truncation, reason = "it is rounded to a float of its type")]
        Some(numbers) => {
            let rounded: Float32Array = numbers.unary(|number| places.of(f64::from(number)) as f32);
            Arc::new(rounded)
        }
        None => {
            let rounded: Float64Array = numbers.as_primitive::<Float64Type>().unary(|number| places.of(number));
            Arc::new(rounded)
        }
    }
}

/// The places behind the point to round to, or before it if below zero.
#[derive(Debug, Clone, Copy)]
struct RoundingPlaces {
    factor: f64,
    are_before: bool,
}

impl RoundingPlaces {
    fn new(places: i32) -> RoundingPlaces {
        RoundingPlaces { factor: 10f64.powi(places.saturating_abs()), are_before: places < 0 }
    }

    /// A number rounded to these places.
    #[inline]
    fn of(self, number: f64) -> f64 {
        if self.are_before {
            let rounded = (number / self.factor).round() * self.factor;
            return if number.is_finite() && !rounded.is_finite() { 0.0 } else { rounded };
        }
        let scaled = number * self.factor;
        #[expect(clippy::cast_precision_loss, reason = "a power of two is exact")]
        let has_no_such_place = scaled.abs() >= EXACT as f64;
        let rounded = scaled.round() / self.factor;
        if has_no_such_place || rounded.is_nan() { number } else { rounded }
    }
}

fn time_of_seconds(args: &ScalarFunctionArgs) -> Result<Option<ArrayRef>> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let [seconds] = args.args.as_slice() else { return Ok(None) };
    if !seconds.data_type().is_floating() {
        return Ok(None);
    }
    let seconds = cast(&values(args, 0)?, &DataType::Float64)?;
    for seconds in seconds.as_primitive::<Float64Type>().iter().flatten() {
        let nanoseconds = seconds * 1e9;
        if !(-LIMIT..LIMIT).contains(&nanoseconds) {
            return exec_err!("to_timestamp: {seconds} seconds since 1970 are no time between 1677 and 2262");
        }
    }
    Ok(None)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_the_nearest_float() {
        assert_eq!(seconds(1_704_067_201_750_000_000), 1_704_067_201.75);
        assert_eq!(seconds(-1_704_067_201_750_000_000), -1_704_067_201.75);
        assert_eq!(seconds(1_704_067_201_123_456_789), 1_704_067_201.123_456_8);
        assert_eq!(seconds(i64::MIN), -9_223_372_036.854_776);
        assert_eq!(seconds(1), 1e-9);
        assert_eq!(seconds(0), 0.0);
    }

    #[test]
    fn differences_are_taken_apart_with_their_sign() {
        let parts = |nanoseconds| as_interval(nanoseconds);
        assert_eq!(parts(29 * 3_600 * SECOND), IntervalMonthDayNano::new(0, 1, 5 * 3_600 * SECOND));
        assert_eq!(parts(-29 * 3_600 * SECOND), IntervalMonthDayNano::new(0, -1, -5 * 3_600 * SECOND));
    }

    #[test]
    fn rounding_leaves_what_has_no_such_place() {
        let cases = [
            (1e308, 2, 1e308),
            (1e300, 20, 1e300),
            (123.456, 400, 123.456),
            (0.0, 400, 0.0),
            (4_025_155.0, 12, 4_025_155.0),
            (2.345, 1, 2.3),
            (-2.5, 0, -3.0),
            (1_250.0, -2, 1_300.0),
            (1e308, -400, 0.0),
            (f64::INFINITY, 2, f64::INFINITY),
            (f64::NEG_INFINITY, -2, f64::NEG_INFINITY),
        ];
        for (number, places, expected) in cases {
            assert_eq!(RoundingPlaces::new(places).of(number), expected, "{number} to {places}");
        }
        assert!(RoundingPlaces::new(2).of(f64::NAN).is_nan() && RoundingPlaces::new(-2).of(f64::NAN).is_nan());
    }
}
