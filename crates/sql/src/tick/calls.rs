//! DataFusion's functions as the engine calls them.

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::function::PartitionEvaluatorArgs;
use datafusion::logical_expr::{ColumnarValue, PartitionEvaluator, ScalarFunctionArgs, ScalarUDF, WindowUDF};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use splay_engine::{Error, PartitionFunction, Result, ScalarFunction, Value};
use splay_functions::LOCAL_DATE;
use splay_store::one_nan;

use crate::bounds::most_bytes;

/// Largest result of a call in bytes, if its size depends on more than the bytes of the arguments. Some 65,536 rows are evaluated at once.
const RESULT_BYTES_MAX: usize = 16 << 20;

/// A scalar function with the types of its arguments.
#[derive(Debug)]
pub(super) struct ScalarCall {
    pub function: Arc<ScalarUDF>,
    pub arguments: Vec<FieldRef>,
    pub result: FieldRef,
    pub options: Arc<ConfigOptions>,
}

impl ScalarFunction for ScalarCall {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn call(&self, arguments: &[Value], rows: usize) -> Result<Value> {
        let args = arguments
            .iter()
            .map(|value| {
                Ok(match value {
                    Value::Array(array) => ColumnarValue::Array(with_one_nan(array)),
                    Value::Scalar(one) => ColumnarValue::Scalar(
                        ScalarValue::try_from_array(&with_one_nan(one), 0).map_err(function_error)?,
                    ),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let all_constant = args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let bytes = most_bytes(self.name(), &args, rows).map_err(function_error)?;
        let needed = usize::try_from(bytes).unwrap_or(usize::MAX);
        if needed > RESULT_BYTES_MAX {
            return Err(Error::Memory { needed, limit: RESULT_BYTES_MAX });
        }
        let result = self.function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields: self.arguments.clone(),
            number_rows: if all_constant { 1 } else { rows },
            return_field: Arc::clone(&self.result),
            config_options: Arc::clone(&self.options),
        });
        Ok(match result.map_err(function_error)? {
            ColumnarValue::Array(array) if all_constant && array.len() == 1 => Value::Scalar(array),
            ColumnarValue::Array(array) => Value::Array(array),
            ColumnarValue::Scalar(value) => Value::Scalar(value.to_array().map_err(function_error)?),
        })
    }

    /// The grain in nanoseconds, counted from the epoch, within which a part of a time, its text or its local date stays the same.
    fn grain(&self, arguments: &[Option<&ArrayRef>]) -> Option<i64> {
        let (part_text, instant) = match (arguments, self.name()) {
            ([Some(part), None], "date_part" | "date_trunc") => (part, 1),
            ([None, Some(format)], "to_char") => (format, 0),
            ([None, Some(zone), rest @ ..], LOCAL_DATE) => {
                let Ok(ScalarValue::Utf8(Some(zone))) = ScalarValue::try_from_array(zone, 0) else { return None };
                // Days may start at any minute.
                return Some(if rest.is_empty() { DAY.min(grain_of_zone(&zone)) } else { MINUTE });
            }
            _ => return None,
        };
        let DataType::Timestamp(TimeUnit::Nanosecond, zone) = self.arguments.get(instant)?.data_type() else {
            return None;
        };
        let Ok(ScalarValue::Utf8(Some(part_text))) = ScalarValue::try_from_array(part_text, 0) else { return None };
        let grain = if instant == 1 { grain_of_part(&part_text)? } else { grain_of_format(&part_text)? };
        Some(grain.min(zone.as_deref().map_or(i64::MAX, grain_of_zone)))
    }
}

/// Arguments of a function of DataFusion, which compares floats by their bits: kernels compute NaNs with signs.
pub(super) fn with_one_nan(values: &ArrayRef) -> ArrayRef {
    one_nan(values).unwrap_or_else(|| Arc::clone(values))
}

const MINUTE: i64 = 60_000_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The grain in nanoseconds, counted from the epoch, of a part of a time in UTC.
fn grain_of_part(part: &str) -> Option<i64> {
    match part.to_lowercase().as_str() {
        "minute" => Some(MINUTE),
        "hour" => Some(HOUR),
        "day" | "dow" | "doy" | "isodow" | "week" | "month" | "quarter" | "year" | "isoyear" => Some(DAY),
        _ => None,
    }
}

/// The period within which the text of a time in this format doesn't change. `None` for formats with seconds and unknown formats.
fn grain_of_format(format: &str) -> Option<i64> {
    let mut grain = DAY;
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign == '%' {
            grain = grain.min(match signs.next()? {
                'M' | 'R' => MINUTE,
                'H' | 'I' | 'k' | 'l' | 'p' | 'P' => HOUR,
                'Y' | 'C' | 'y' | 'q' | 'm' | 'b' | 'B' | 'h' | 'd' | 'e' | 'a' | 'A' | 'w' | 'u' | 'U' | 'W' | 'G'
                | 'g' | 'V' | 'j' | 'D' | 'F' | '%' => DAY,
                _ => return None,
            });
        }
    }
    Some(grain)
}

/// The grain in nanoseconds, counted from the epoch, within which a zone's offset is constant. Since 1973 the offsets of all named zones have been
/// whole quarters of an hour; other zones state theirs in minutes.
fn grain_of_zone(zone: &str) -> i64 {
    match zone {
        "UTC" => i64::MAX,
        zone if zone.starts_with(['+', '-']) => MINUTE,
        _ => 15 * MINUTE,
    }
}

/// A window function that is evaluated on a whole partition.
#[derive(Debug)]
pub(super) struct WindowCall {
    function: Arc<WindowUDF>,
    /// The type of each argument, and its value if it is a constant.
    arguments: Vec<(DataType, Option<ScalarValue>)>,
    ignore_nulls: bool,
    needs_peers: bool,
}

impl WindowCall {
    /// The function for arguments of some types.
    ///
    /// # Errors
    /// The function's own complaint about its arguments.
    pub fn new(
        function: Arc<WindowUDF>,
        arguments: Vec<(DataType, Option<ScalarValue>)>,
        ignore_nulls: bool,
    ) -> Result<WindowCall> {
        let mut call = WindowCall { function, arguments, ignore_nulls, needs_peers: false };
        call.needs_peers = call.evaluator()?.include_rank();
        Ok(call)
    }

    /// Whether the function evaluates frames row by row.
    pub fn needs_frames(&self) -> Result<bool> {
        Ok(self.evaluator()?.uses_window_frame())
    }

    fn evaluator(&self) -> Result<Box<dyn PartitionEvaluator>> {
        let expr = |(position, (_, constant)): (usize, &(DataType, Option<ScalarValue>))| match constant {
            Some(value) => Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>,
            None => Arc::new(Column::new("argument", position)) as Arc<dyn PhysicalExpr>,
        };
        let exprs: Vec<Arc<dyn PhysicalExpr>> = self.arguments.iter().enumerate().map(expr).collect();
        let field = |(data_type, _): &(DataType, Option<ScalarValue>)| {
            Arc::new(Field::new("argument", data_type.clone(), true))
        };
        let fields: Vec<FieldRef> = self.arguments.iter().map(field).collect();
        let args = PartitionEvaluatorArgs::new(&exprs, &fields, false, self.ignore_nulls);
        self.function.partition_evaluator_factory(args).map_err(function_error)
    }
}

impl PartitionFunction for WindowCall {
    fn call(&self, arguments: &[ArrayRef], rows: usize, peers: &[Range<usize>]) -> Result<ArrayRef> {
        let mut evaluator = self.evaluator()?;
        let result = match self.needs_peers {
            true => evaluator.evaluate_all_with_rank(rows, peers),
            false => evaluator.evaluate_all(arguments, rows),
        };
        let result = result.map_err(function_error)?;
        if result.len() == rows { Ok(result) } else { Err(Error::Function("a result of another length".to_owned())) }
    }

    fn call_all(
        &self,
        arguments: &[ArrayRef],
        partitions: &[Range<usize>],
        peers: &[Range<usize>],
    ) -> Result<Option<ArrayRef>> {
        let number = |rows: usize| rows as u64 + 1;
        Ok(match self.function.name() {
            "row_number" => {
                let numbers = partitions.iter().flat_map(|rows| (0..rows.len()).map(number));
                Some(Arc::new(UInt64Array::from_iter_values(numbers)))
            }
            "rank" => {
                let ranks =
                    PartitionRanks::of(partitions, peers).flat_map(|rank| repeat_n(number(rank.before), rank.rows));
                Some(Arc::new(UInt64Array::from_iter_values(ranks)))
            }
            "dense_rank" => {
                let ranks = PartitionRanks::of(partitions, peers)
                    .flat_map(|rank| repeat_n(number(rank.peers_before), rank.rows));
                Some(Arc::new(UInt64Array::from_iter_values(ranks)))
            }
            "lag" => self.shift_rows(arguments, partitions, 1)?,
            "lead" => self.shift_rows(arguments, partitions, -1)?,
            _ => None,
        })
    }

    fn numbers_rows(&self) -> bool {
        self.function.name() == "row_number"
    }

    fn needs_peers(&self) -> bool {
        self.needs_peers
    }
}

/// Average rows of a partition below which partitions are shifted together.
const SHIFTED_ROWS_MAX: usize = 256;

impl WindowCall {
    /// Shifts values within partitions by the second argument, or by one row; null where the partition ends. `None` if DataFusion has to do it.
    fn shift_rows(&self, arguments: &[ArrayRef], partitions: &[Range<usize>], sign: i64) -> Result<Option<ArrayRef>> {
        let (Some(values), false) = (arguments.first(), self.ignore_nulls) else { return Ok(None) };
        let by = match self.arguments.get(1) {
            None => Some(1),
            Some((_, constant)) => constant.as_ref().and_then(|by| match by.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(by)) => by,
                _ => None,
            }),
        };
        let is_null = |default: &(DataType, Option<ScalarValue>)| default.1.as_ref().is_some_and(ScalarValue::is_null);
        let rows = partitions.last().map_or(0, |last| last.end);
        let (Some(by), true, true) = (
            by.and_then(|by| by.checked_mul(sign)),
            self.arguments.get(2).is_none_or(is_null),
            rows < partitions.len().saturating_mul(SHIFTED_ROWS_MAX),
        ) else {
            return Ok(None);
        };
        let source = |rows: &Range<usize>, row: usize| {
            let source = i64::try_from(row).ok()?.checked_sub(by)?;
            usize::try_from(source)
                .ok()
                .filter(|source| rows.contains(source))
                .and_then(|source| u32::try_from(source).ok())
        };
        let sources = partitions.iter().flat_map(|rows| rows.clone().map(move |row| source(rows, row)));
        Ok(Some(take(values, &sources.collect::<UInt32Array>(), None)?))
    }
}

/// The rows of a partition with equal sort keys.
struct Rank {
    rows: usize,
    /// The number of rows of the partition before them, and the number of such ranks.
    before: usize,
    peers_before: usize,
}

/// The ranks of consecutive partitions.
struct PartitionRanks;

impl PartitionRanks {
    fn of(partitions: &[Range<usize>], peers: &[Range<usize>]) -> impl Iterator<Item = Rank> {
        let mut starts = partitions.iter().map(|rows| rows.start).peekable();
        let (mut start, mut number) = (0, 0);
        peers.iter().map(move |equal| {
            number += 1;
            while let Some(next) = starts.next_if(|next| *next <= equal.start) {
                (start, number) = (next, 0);
            }
            Rank { rows: equal.len(), before: equal.start - start, peers_before: number }
        })
    }
}

fn function_error(error: datafusion::error::DataFusionError) -> Error {
    Error::Function(error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{DictionaryArray, Float32Array, Int64Array, StringArray};
    use arrow::datatypes::Int32Type;
    use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
    use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
    use datafusion::functions_window::row_number::row_number_udwf;

    use super::*;

    /// Partitions of 1 to 5 rows, and one of many at the end.
    fn partitions(last: usize) -> Vec<Range<usize>> {
        let lengths = (0..40).map(|number| 1 + number * 7 % 5).chain([last]);
        let ends = lengths.scan(0, |end, rows| {
            *end += rows;
            Some(*end - rows..*end)
        });
        ends.collect()
    }

    /// DataFusion's result for each partition by itself.
    fn one_by_one(
        call: &WindowCall,
        values: &[ArrayRef],
        partitions: &[Range<usize>],
        peers: &[Range<usize>],
    ) -> ArrayRef {
        let parts = partitions.iter().map(|rows| {
            let values: Vec<ArrayRef> = values.iter().map(|array| array.slice(rows.start, rows.len())).collect();
            let own = peers.iter().filter(|one| rows.contains(&one.start));
            let own: Vec<Range<usize>> = own.map(|one| one.start - rows.start..one.end - rows.start).collect();
            call.call(&values, rows.len(), &own).unwrap()
        });
        let parts: Vec<ArrayRef> = parts.collect();
        arrow::compute::concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn offsets_in_many_partitions_are_those_of_each() {
        let partitions = partitions(9);
        let rows = partitions.last().unwrap().end;
        let text = |row: usize| (row % 4 > 0).then(|| format!("T{}", row % 11));
        let columns: [ArrayRef; 4] = [
            Arc::new((0..rows).map(|row| (row % 3 > 0).then_some(row as i64)).collect::<Int64Array>()),
            Arc::new((0..rows).map(|row| Some(row as f32 / 2.0)).collect::<Float32Array>()),
            Arc::new((0..rows).map(text).collect::<StringArray>()),
            Arc::new(
                (0..rows)
                    .map(text)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(Option::as_deref)
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ];
        for values in &columns {
            let offsets =
                [-4, -1, 0, 1, 2, 300, i64::MAX].map(|by| vec![(DataType::Int64, Some(ScalarValue::Int64(Some(by))))]);
            for offset in offsets.into_iter().chain([vec![]]) {
                for function in [lag_udwf(), lead_udwf()] {
                    let arguments: Vec<_> =
                        [(values.data_type().clone(), None)].into_iter().chain(offset.clone()).collect();
                    let call = WindowCall::new(Arc::clone(&function), arguments, false).unwrap();
                    let values_by_row = call.call_all(&[Arc::clone(values)], &partitions, &[]).unwrap().unwrap();
                    let expected = one_by_one(&call, &[Arc::clone(values)], &partitions, &[]);
                    assert_eq!(&values_by_row, &expected, "{} {offset:?} of {}", function.name(), values.data_type());
                }
            }
        }
        // Another value than null, and nulls that are passed over, are DataFusion's.
        let offset = (DataType::Int64, Some(ScalarValue::Int64(Some(1))));
        let default = (DataType::Int64, Some(ScalarValue::Int64(Some(7))));
        for (default, ignores) in [(Some(default), false), (None, true)] {
            let arguments = [(DataType::Int64, None), offset.clone()].into_iter().chain(default).collect();
            let call = WindowCall::new(lag_udwf(), arguments, ignores).unwrap();
            assert!(call.call_all(&[Arc::clone(&columns[0])], &partitions, &[]).unwrap().is_none());
        }
    }

    #[test]
    fn ranks_in_many_partitions_are_those_of_each() {
        for last in [1, 700] {
            let partitions = partitions(last);
            let cut = |rows: &Range<usize>| {
                let middle = rows.start + rows.len() / 2;
                [rows.start..middle, middle..rows.end].into_iter().filter(|one| !one.is_empty()).collect::<Vec<_>>()
            };
            let peers: Vec<Range<usize>> = partitions.iter().flat_map(cut).collect();
            for function in [rank_udwf(), dense_rank_udwf(), row_number_udwf()] {
                let call = WindowCall::new(Arc::clone(&function), Vec::new(), false).unwrap();
                let ranks = call.call_all(&[], &partitions, &peers).unwrap().unwrap();
                assert_eq!(&ranks, &one_by_one(&call, &[], &partitions, &peers), "{}", function.name());
            }
        }
    }
}
