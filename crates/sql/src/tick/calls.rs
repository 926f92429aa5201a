//! DataFusion's functions as the engine calls them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::function::PartitionEvaluatorArgs;
use datafusion::logical_expr::{ColumnarValue, PartitionEvaluator, ScalarFunctionArgs, ScalarUDF, WindowUDF};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use splay_engine::{Error, PartitionFunction, Result, ScalarFunction, Value};

use crate::functions::LOCAL_DATE;

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
                    Value::Array(array) => ColumnarValue::Array(Arc::clone(array)),
                    Value::Scalar(one) => ColumnarValue::Scalar(ScalarValue::try_from_array(one, 0).map_err(said)?),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let all_constant = args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let result = self.function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields: self.arguments.clone(),
            number_rows: if all_constant { 1 } else { rows },
            return_field: Arc::clone(&self.result),
            config_options: Arc::clone(&self.options),
        });
        Ok(match result.map_err(said)? {
            ColumnarValue::Array(array) if all_constant && array.len() == 1 => Value::Scalar(array),
            ColumnarValue::Array(array) => Value::Array(array),
            ColumnarValue::Scalar(value) => Value::Scalar(value.to_array().map_err(said)?),
        })
    }

    /// Of parts of times and of their texts.
    fn grain(&self, arguments: &[Option<&ArrayRef>]) -> Option<i64> {
        let (said, instant) = match (arguments, self.name()) {
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
        let Ok(ScalarValue::Utf8(Some(said))) = ScalarValue::try_from_array(said, 0) else { return None };
        let grain = if instant == 1 { grain_of_part(&said)? } else { grain_of_format(&said)? };
        Some(grain.min(zone.as_deref().map_or(i64::MAX, grain_of_zone)))
    }
}

const MINUTE: i64 = 60_000_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Nanoseconds, counted from the epoch, in which a part of the time of UTC stays the same.
fn grain_of_part(part: &str) -> Option<i64> {
    match part.to_lowercase().as_str() {
        "minute" => Some(MINUTE),
        "hour" => Some(HOUR),
        "day" | "dow" | "doy" | "isodow" | "week" | "month" | "quarter" | "year" | "isoyear" => Some(DAY),
        _ => None,
    }
}

/// The same of the text of a time. Formats with seconds, and those that aren't known, have none.
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

/// Nanoseconds, counted from the epoch, in which a zone's clock stands as far from UTC. From 1973 on those of all named zones are whole quarters
/// of an hour away; others say by how many minutes.
fn grain_of_zone(zone: &str) -> i64 {
    match zone {
        "UTC" => i64::MAX,
        zone if zone.starts_with(['+', '-']) => MINUTE,
        _ => 15 * MINUTE,
    }
}

/// A window function that looks at a whole partition.
#[derive(Debug)]
pub(super) struct WindowCall {
    function: Arc<WindowUDF>,
    /// Type of each argument, and its value if that is a constant.
    arguments: Vec<(DataType, Option<ScalarValue>)>,
    ignore_nulls: bool,
    needs_peers: bool,
}

impl WindowCall {
    /// The function of arguments of some types.
    ///
    /// # Errors
    /// What the function says against its arguments.
    pub fn new(
        function: Arc<WindowUDF>,
        arguments: Vec<(DataType, Option<ScalarValue>)>,
        ignore_nulls: bool,
    ) -> Result<WindowCall> {
        let mut call = WindowCall { function, arguments, ignore_nulls, needs_peers: false };
        call.needs_peers = call.evaluator()?.include_rank();
        Ok(call)
    }

    /// Whether it looks at frames, row by row.
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
        self.function.partition_evaluator_factory(args).map_err(said)
    }
}

impl PartitionFunction for WindowCall {
    fn call(&self, arguments: &[ArrayRef], rows: usize, peers: &[Range<usize>]) -> Result<ArrayRef> {
        let mut evaluator = self.evaluator()?;
        let result = match self.needs_peers {
            true => evaluator.evaluate_all_with_rank(rows, peers),
            false => evaluator.evaluate_all(arguments, rows),
        };
        let result = result.map_err(said)?;
        if result.len() == rows { Ok(result) } else { Err(Error::Function("a result of another length".to_owned())) }
    }

    fn numbers_rows(&self) -> bool {
        self.function.name() == "row_number"
    }

    fn needs_peers(&self) -> bool {
        self.needs_peers
    }
}

fn said(error: datafusion::error::DataFusionError) -> Error {
    Error::Function(error.to_string())
}
