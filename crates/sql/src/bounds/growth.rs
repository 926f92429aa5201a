//! Upper bounds for the result size and the steps of a function call, before it runs.
//!
//! Most functions return about as many bytes as they get. [`GrowthRule::of`] lists those whose result depends on the
//! *value* of an argument (`repeat('x', 1000000000)`), on the product of two lengths (`replace`), or on the number of
//! arguments. [`GrowthRule::bytes`] is an upper bound for text and for lists of fixed-size values, and close to one for
//! others. It reads the arguments of each row once, which costs little compared with the call.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use super::size::{span_bytes, text_length};

/// Approximate size of a number's text in a list.
const NUMBER_BYTES: u64 = 24;

/// Most bytes of a character.
const CHARACTER_BYTES: u64 = 4;

/// The overhead of an array beside its values, in bytes.
const ARRAY_BYTES: u64 = 512;

const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;

/// The rule by which the result of a function grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum GrowthRule {
    /// `repeat(text, count)`.
    Repeat,
    /// `lpad(text, length, fill)`.
    Pad,
    /// `replace(text, from, to)`.
    Replace,
    /// `regexp_replace(text, pattern, to)`.
    RegexpReplace,
    /// `range(from, to, step)`.
    Range,
    /// `array_repeat(value, count)`.
    ArrayRepeat,
    /// `array_resize(list, length, value)`.
    ArrayResize,
    /// `array_replace_all(list, from, to)`.
    ArrayReplace,
    /// `array_to_string(list, delimiter, null)`.
    ArrayToString,
    /// `string_to_array(text, delimiter, null)`.
    StringToArray,
    /// `to_char(time, format)`.
    Format,
    /// `printf(format, …)`.
    Written,
    /// `concat_ws(delimiter, …)`.
    Join,
    /// All arguments, concatenated.
    Sum,
    /// `map(keys, values)`.
    Map,
    /// A small result, for which each pattern is compiled: `regexp_count(text, pattern)`.
    Pattern,
    /// A small result after steps for each pair of elements, or of characters: `levenshtein`.
    Pairs,
}

impl GrowthRule {
    /// The rule for a function of DataFusion; `None` if its result is never much larger than the arguments.
    pub(super) fn of(function: &str) -> Option<GrowthRule> {
        Some(match function {
            "repeat" => GrowthRule::Repeat,
            "lpad" | "rpad" => GrowthRule::Pad,
            "replace" => GrowthRule::Replace,
            "regexp_replace" => GrowthRule::RegexpReplace,
            "range" | "generate_series" => GrowthRule::Range,
            "array_repeat" => GrowthRule::ArrayRepeat,
            "array_resize" => GrowthRule::ArrayResize,
            "array_replace" | "array_replace_n" | "array_replace_all" => GrowthRule::ArrayReplace,
            "array_to_string" => GrowthRule::ArrayToString,
            "string_to_array" => GrowthRule::StringToArray,
            "to_char" => GrowthRule::Format,
            "printf" | "format" => GrowthRule::Written,
            "concat_ws" => GrowthRule::Join,
            "||" | "concat" | "make_array" | "array_concat" | "array_append" | "array_prepend" | "array_union"
            | "arrays_zip" | "overlay" | "translate" => GrowthRule::Sum,
            "map" => GrowthRule::Map,
            "regexp_count" | "regexp_extract_all" | "regexp_instr" | "regexp_like" | "regexp_match" => {
                GrowthRule::Pattern
            }
            "levenshtein" | "array_has_all" | "array_has_any" => GrowthRule::Pairs,
            _ => return None,
        })
    }

    /// The largest size of the result in bytes.
    pub(super) fn bytes(self, args: &[ColumnarValue], rows: usize) -> Result<u64> {
        let call = Call::new(args, rows);
        match self {
            GrowthRule::Repeat => call.repeat(),
            GrowthRule::Pad => call.pad(),
            GrowthRule::Replace => call.replace(),
            GrowthRule::RegexpReplace => call.regexp_replace(),
            GrowthRule::Range => call.range(),
            GrowthRule::ArrayRepeat => call.array_repeat(),
            GrowthRule::ArrayResize => call.array_resize(),
            GrowthRule::ArrayReplace => call.array_replace(),
            GrowthRule::ArrayToString => call.array_to_string(),
            GrowthRule::StringToArray => call.string_to_array(),
            GrowthRule::Format => call.format(),
            GrowthRule::Written => call.formatted_text(),
            GrowthRule::Join => call.join(),
            GrowthRule::Sum => call.all(),
            GrowthRule::Map => call.map(),
            GrowthRule::Pattern | GrowthRule::Pairs => Ok(0),
        }
    }

    /// Whether even a few rows may take long, because each has its own pattern.
    pub(super) fn is_slow(self, args: &[ColumnarValue]) -> bool {
        matches!(self, GrowthRule::Pattern | GrowthRule::RegexpReplace)
            && matches!(args.get(1), Some(ColumnarValue::Array(_)))
    }

    /// The number of steps of the call, if it is larger than the result.
    pub(super) fn steps(self, args: &[ColumnarValue], rows: usize) -> Result<u64> {
        if self != GrowthRule::Pairs {
            return Ok(0);
        }
        let call = Call::new(args, rows);
        let (left, right) = (call.sizes(0)?, call.sizes(1)?);
        Ok(call.sum(|row| left.at(row).saturating_mul(right.at(row))))
    }
}

/// One number for all rows, or a number for each row.
enum RowValues<T> {
    One(T),
    Each(Vec<T>),
}

impl<T: Copy + Default> RowValues<T> {
    fn at(&self, row: usize) -> T {
        match self {
            RowValues::One(number) => *number,
            RowValues::Each(numbers) => numbers.get(row).copied().unwrap_or_default(),
        }
    }
}

/// The arguments of a call.
struct Call<'a> {
    args: &'a [ColumnarValue],
    /// Rows of the result: one if all arguments are constants.
    rows: usize,
}

impl Call<'_> {
    fn new(args: &[ColumnarValue], rows: usize) -> Call<'_> {
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        Call { args, rows: if is_constant { 1 } else { rows } }
    }

    fn sum(&self, row_bytes: impl Fn(usize) -> u64) -> u64 {
        (0..self.rows).fold(0, |sum, row| sum.saturating_add(row_bytes(row)))
    }

    /// An argument as an array: of one value if it is a constant.
    fn array(&self, position: usize) -> Result<Option<(ArrayRef, bool)>> {
        Ok(match self.args.get(position) {
            None => None,
            Some(ColumnarValue::Array(array)) => Some((Arc::clone(array), false)),
            Some(ColumnarValue::Scalar(value)) => Some((value.to_array()?, true)),
        })
    }

    /// A number for each value of an argument; zero if the argument is missing.
    fn numbers<T: Default>(&self, position: usize, number: impl Fn(&dyn Array, usize) -> T) -> Result<RowValues<T>> {
        Ok(match self.array(position)? {
            None => RowValues::One(T::default()),
            Some((one, true)) => RowValues::One(number(&one, 0)),
            Some((all, false)) => RowValues::Each((0..all.len()).map(|row| number(&all, row)).collect()),
        })
    }

    /// The size of each text in bytes.
    fn texts(&self, position: usize) -> Result<RowValues<u64>> {
        self.numbers(position, text_length)
    }

    /// The size of each value in bytes.
    fn values(&self, position: usize) -> Result<RowValues<u64>> {
        self.numbers(position, |array, row| span_bytes(array, row..row + 1))
    }

    /// The size of each text in bytes, or the number of elements of each list.
    fn sizes(&self, position: usize) -> Result<RowValues<u64>> {
        self.numbers(position, |array, row| {
            elements(array, row).map_or_else(|| text_length(array, row), |(_, range)| range.len() as u64)
        })
    }

    /// Whole numbers; negative ones become zero.
    fn counts(&self, position: usize) -> Result<RowValues<u64>> {
        let Some((array, is_one)) = self.array(position)? else { return Ok(RowValues::One(0)) };
        let numbers = cast(&array, &DataType::Int64)?;
        let numbers: &Int64Array = numbers.as_primitive::<Int64Type>();
        let count = |row| if numbers.is_null(row) { 0 } else { u64::try_from(numbers.value(row)).unwrap_or(0) };
        Ok(if is_one { RowValues::One(count(0)) } else { RowValues::Each((0..numbers.len()).map(count).collect()) })
    }

    fn repeat(&self) -> Result<u64> {
        let (texts, counts) = (self.texts(0)?, self.counts(1)?);
        Ok(self.sum(|row| texts.at(row).saturating_mul(counts.at(row))))
    }

    fn pad(&self) -> Result<u64> {
        let (texts, lengths) = (self.texts(0)?, self.counts(1)?);
        let width = if self.is_ascii(2) { 1 } else { CHARACTER_BYTES };
        Ok(self.sum(|row| {
            let length = lengths.at(row);
            let text_bytes = texts.at(row).min(length.saturating_mul(CHARACTER_BYTES));
            text_bytes.saturating_add(length.saturating_mul(width))
        }))
    }

    /// Whether an argument is missing, or is a constant of one-byte characters.
    fn is_ascii(&self, position: usize) -> bool {
        match self.args.get(position) {
            None => true,
            Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten().is_some_and(str::is_ascii),
            Some(ColumnarValue::Array(_)) => false,
        }
    }

    fn replace(&self) -> Result<u64> {
        let (texts, from, to) = (self.texts(0)?, self.texts(1)?, self.texts(2)?);
        Ok(self.sum(|row| {
            let places = texts.at(row) / from.at(row).max(1) + 1;
            texts.at(row).saturating_add(places.saturating_mul(to.at(row)))
        }))
    }

    /// Each group of the pattern matches at most the whole text, however many places match.
    fn regexp_replace(&self) -> Result<u64> {
        let (texts, to) = (self.texts(0)?, self.texts(2)?);
        Ok(self.sum(|row| {
            let (text, to) = (texts.at(row), to.at(row));
            let groups = to / 2;
            (text + 1).saturating_mul(to).saturating_add(text.saturating_mul(groups + 1))
        }))
    }

    fn range(&self) -> Result<u64> {
        let at = |position: usize| self.numbers(position, steps_of);
        let is_from_zero = self.args.len() == 1;
        let (from, to) = if is_from_zero { (RowValues::One(0), at(0)?) } else { (at(0)?, at(1)?) };
        let step = if self.args.len() > 2 { at(2)? } else { RowValues::One(1) };
        Ok(self.sum(|row| {
            let (way, step) = (to.at(row) - from.at(row), step.at(row));
            // A series that never reaches its end is empty or an error.
            if step == 0 || way.signum() * step.signum() < 0 {
                return 0;
            }
            u64::try_from(way / step + 1).unwrap_or(u64::MAX).saturating_mul(8)
        }))
    }

    fn array_repeat(&self) -> Result<u64> {
        let (values, counts) = (self.values(0)?, self.counts(1)?);
        Ok(self.sum(|row| values.at(row).max(1).saturating_mul(counts.at(row))))
    }

    fn array_resize(&self) -> Result<u64> {
        let (lists, lengths, values) = (self.values(0)?, self.counts(1)?, self.values(2)?);
        Ok(self.sum(|row| lists.at(row).saturating_add(values.at(row).max(8).saturating_mul(lengths.at(row)))))
    }

    fn array_replace(&self) -> Result<u64> {
        let (lists, lengths, to) = (self.values(0)?, self.sizes(0)?, self.values(2)?);
        Ok(self.sum(|row| lists.at(row).saturating_add(lengths.at(row).saturating_mul(to.at(row)))))
    }

    fn array_to_string(&self) -> Result<u64> {
        let lists = self.numbers(0, |array, row| (span_bytes(array, row..row + 1), leaves(array, row..row + 1)))?;
        let (delimiters, nulls) = (self.texts(1)?, self.texts(2)?);
        Ok(self.sum(|row| {
            let (bytes, elements) = lists.at(row);
            let each = delimiters.at(row).saturating_add(nulls.at(row)).saturating_add(NUMBER_BYTES);
            bytes.saturating_add(elements.saturating_mul(each))
        }))
    }

    fn string_to_array(&self) -> Result<u64> {
        let (texts, delimiters) = (self.texts(0)?, self.texts(1)?);
        Ok(self.sum(|row| {
            let elements = texts.at(row) / delimiters.at(row).max(1) + 1;
            texts.at(row).saturating_add(elements.saturating_mul(4))
        }))
    }

    fn format(&self) -> Result<u64> {
        let formats = self.texts(1)?;
        Ok(self.sum(|row| formats.at(row).saturating_add(2).saturating_mul(16)))
    }

    /// Each directive may write any of the values, or a number of any width.
    fn formatted_text(&self) -> Result<u64> {
        let directives = match self.args.first() {
            Some(ColumnarValue::Scalar(format)) => {
                format.try_as_str().flatten().map_or(0, |format| format.matches(['%', '{']).count())
            }
            _ => 0,
        };
        let formats = self.texts(0)?;
        let wide = self.sum(|row| formats.at(row).saturating_mul(64));
        Ok(self.all()?.saturating_mul(directives as u64 + 1).saturating_add(wide))
    }

    fn join(&self) -> Result<u64> {
        let delimiters = self.texts(0)?;
        let places = self.args.len() as u64;
        Ok(self.all()?.saturating_add(self.sum(|row| delimiters.at(row).saturating_mul(places))))
    }

    /// The function builds an array for each row, and then concatenates them.
    fn map(&self) -> Result<u64> {
        let arrays: u64 = self.args.iter().map(|arg| arrays_of(&arg.data_type())).sum();
        Ok(self.all()?.saturating_add(arrays.saturating_mul(self.rows as u64).saturating_mul(ARRAY_BYTES)))
    }

    fn all(&self) -> Result<u64> {
        self.args.iter().try_fold(0u64, |sum, arg| {
            let bytes = match arg {
                ColumnarValue::Array(array) => span_bytes(array, 0..array.len()),
                ColumnarValue::Scalar(value) => {
                    let one = value.to_array()?;
                    span_bytes(&one, 0..1).saturating_mul(self.rows as u64)
                }
            };
            Ok(sum.saturating_add(bytes))
        })
    }
}

/// The number of arrays in an array of a type.
fn arrays_of(data_type: &DataType) -> u64 {
    let within = match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => arrays_of(field.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| arrays_of(field.data_type())).sum(),
        DataType::Dictionary(_, _) => 1,
        _ => 0,
    };
    within + 1
}

/// The values of a list and the range of its elements in them.
fn elements(array: &dyn Array, row: usize) -> Option<(ArrayRef, Range<usize>)> {
    super::size::elements(array, row..row + 1)
}

/// Values within lists, however deep.
fn leaves(array: &dyn Array, rows: Range<usize>) -> u64 {
    match super::size::elements(array, rows.clone()) {
        Some((values, range)) => leaves(&values, range).max(1),
        None => rows.len() as u64,
    }
}

/// An end or a step of a series in units of its type; a step of time in nanoseconds, with months of the shortest length.
fn steps_of(array: &dyn Array, row: usize) -> i128 {
    if array.is_null(row) {
        return 0;
    }
    let whole = |data_type: &DataType| {
        let numbers = cast(&array.slice(row, 1), data_type).and_then(|array| cast(&array, &DataType::Int64));
        numbers.map_or(0, |numbers| i128::from(numbers.as_primitive::<Int64Type>().value(0)))
    };
    match array.data_type() {
        DataType::Interval(_) => match array.as_primitive_opt::<IntervalMonthDayNanoType>() {
            Some(steps) => {
                let step = steps.value(row);
                let days = i128::from(step.months) * 28 + i128::from(step.days);
                days * NANOSECONDS_PER_DAY + i128::from(step.nanoseconds)
            }
            None => 1,
        },
        DataType::Date32 => whole(&DataType::Int32) * NANOSECONDS_PER_DAY,
        DataType::Date64 => whole(&DataType::Int64) * 1_000_000,
        DataType::Timestamp(unit, _) => whole(&DataType::Int64) * nanoseconds(*unit),
        _ => whole(&DataType::Int64),
    }
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The size of a constant in bytes.
pub(super) fn constant_bytes(value: &ScalarValue) -> u64 {
    value.to_array().map_or(0, |array| span_bytes(&array, 0..1))
}
