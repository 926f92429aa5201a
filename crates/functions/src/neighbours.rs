//! Window functions that look at the row before: `deltas`, `ratios`, `log_return`, `differ`, `fills`.
//!
//! All of them work over the whole window partition in the order of the `OVER` clause and take no notice of its frame.
//! A partition is held in memory while it is worked on, and computed a column at a time.
//!
//! | Function | First row | Other rows |
//! | --- | --- | --- |
//! | `deltas(x)` | `x`; null for times | `x - prev x` |
//! | `deltas(x, first)` | `first` | `x - prev x` |
//! | `ratios(x [, first])` | `x`, or `first` | `x / prev x`, `Float64` |
//! | `log_return(x)` | null | `ln(x) - ln(prev x)` |
//! | `differ(x)` | true | whether `x` is not `prev x`; two nulls do not differ, nor do two NaN |
//! | `fills(x)` | `x` | `x`, or the last `x` that is not null |
//!
//! Source: code.kx.com/q/ref/deltas, code.kx.com/q/ref/ratios, code.kx.com/q/ref/differ, code.kx.com/q/ref/fills.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::kernels::numeric::{div, sub};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;

/// `deltas`, `ratios`, `log_return`, `differ` and `fills`.
pub(super) fn functions() -> Vec<WindowUDF> {
    [Kind::Deltas, Kind::Ratios, Kind::LogReturn, Kind::Differ, Kind::Fills]
        .into_iter()
        .map(|kind| WindowUDF::from(Neighbour { kind, signature: Signature::user_defined(Volatility::Immutable) }))
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Deltas,
    Ratios,
    LogReturn,
    Differ,
    Fills,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Neighbour {
    kind: Kind,
    signature: Signature,
}

impl WindowUDFImpl for Neighbour {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Deltas => "deltas",
            Kind::Ratios => "ratios",
            Kind::LogReturn => "log_return",
            Kind::Differ => "differ",
            Kind::Fills => "fills",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let (x, first) = match (arg_types, self.kind) {
            ([x], _) => (x, None),
            ([x, first], Kind::Deltas | Kind::Ratios) => (x, Some(first)),
            (_, Kind::Deltas | Kind::Ratios) => return plan_err!("{name} takes (x) or (x, value for the first row)"),
            _ => return plan_err!("{name} takes one argument"),
        };
        let x = match self.kind {
            Kind::Deltas => delta_input(x)?,
            Kind::Ratios | Kind::LogReturn if x.is_numeric() || x.is_null() => DataType::Float64,
            Kind::Ratios | Kind::LogReturn => return plan_err!("{name} takes a number, not a {x}"),
            Kind::Differ | Kind::Fills => x.clone(),
        };
        match first {
            None => Ok(vec![x]),
            Some(_) => Ok(vec![x.clone(), self.output(&x)]),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(x) = args.get_input_field(0) else { return plan_err!("{} takes at least one argument", self.name()) };
        Ok(Arc::new(Field::new(args.name(), self.output(x.data_type()), self.kind != Kind::Differ)))
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(NeighbourEvaluator { kind: self.kind }))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::None
    }
}

impl Neighbour {
    fn output(&self, x: &DataType) -> DataType {
        match (self.kind, x) {
            (Kind::Deltas, DataType::Timestamp(unit, _)) => DataType::Duration(*unit),
            (Kind::Deltas | Kind::Fills, x) => x.clone(),
            (Kind::Ratios | Kind::LogReturn, _) => DataType::Float64,
            (Kind::Differ, _) => DataType::Boolean,
        }
    }
}

/// Whole numbers are subtracted as `Int64`, decimals as they are, dates as nanoseconds.
fn delta_input(x: &DataType) -> Result<DataType> {
    match x {
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => Ok(DataType::Float64),
        x if x.is_integer() => Ok(DataType::Int64),
        x if x.is_decimal() => Ok(x.clone()),
        DataType::Timestamp(_, _) | DataType::Duration(_) => Ok(x.clone()),
        DataType::Date32 | DataType::Date64 => Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        other => plan_err!("deltas takes a number or a time, not a {other}"),
    }
}

#[derive(Debug)]
struct NeighbourEvaluator {
    kind: Kind,
}

impl PartitionEvaluator for NeighbourEvaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        let Some(x) = values.first() else { return exec_err!("a window function has a column to work on") };
        let first_value = values.get(1).map(|first| first.slice(0, num_rows.min(1)));
        match self.kind {
            Kind::Deltas => deltas(x, first_value),
            Kind::Ratios => with_first(x, first_value, |now, before| Ok(div(now, before)?)),
            Kind::LogReturn => Ok(Arc::new(log_returns(x.as_primitive::<Float64Type>()))),
            Kind::Differ => differ(x),
            Kind::Fills => fills(x),
        }
    }
}

/// The first row as given or as it is, and `step(row, row before)` for the others.
fn with_first(
    x: &ArrayRef,
    first_value: Option<ArrayRef>,
    step: impl FnOnce(&ArrayRef, &ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let rows = x.len();
    if rows == 0 {
        return Ok(first_value.unwrap_or_else(|| Arc::clone(x)));
    }
    let steps = step(&x.slice(1, rows - 1), &x.slice(0, rows - 1))?;
    let first = match first_value {
        Some(first) => cast(&first, steps.data_type())?,
        // A time has no difference from nothing.
        None if x.data_type() != steps.data_type() => ScalarValue::try_new_null(steps.data_type())?.to_array()?,
        None => x.slice(0, 1),
    };
    Ok(concat(&[&*first, &*steps])?)
}

fn deltas(x: &ArrayRef, first_value: Option<ArrayRef>) -> Result<ArrayRef> {
    with_first(x, first_value, |now, before| {
        let steps = sub(now, before)?;
        // A difference of decimals comes back one digit wider.
        Ok(if x.data_type().is_decimal() { cast(&steps, x.data_type())? } else { steps })
    })
}

fn log_returns(x: &Float64Array) -> Float64Array {
    let mut before: Option<f64> = None;
    x.iter()
        .map(|now| {
            let now = now.map(f64::ln);
            let step = now.zip(before).map(|(now, before)| now - before);
            before = now;
            step
        })
        .collect()
}

fn differ(x: &ArrayRef) -> Result<ArrayRef> {
    let rows = x.len();
    if rows == 0 {
        return Ok(Arc::new(BooleanArray::from(Vec::<bool>::new())));
    }
    // Adding zero makes the two zeros of floats one value.
    let x: ArrayRef = match x.data_type() {
        DataType::Float64 => Arc::new(x.as_primitive::<Float64Type>().unary::<_, Float64Type>(|x| x + 0.0)),
        _ => Arc::clone(x),
    };
    let changed = distinct(&x.slice(1, rows - 1), &x.slice(0, rows - 1))?;
    Ok(concat(&[&BooleanArray::from(vec![true]), &changed])?)
}

fn fills(x: &ArrayRef) -> Result<ArrayRef> {
    // A dictionary may hold null entries, so the nulls of the values count, not those of the keys.
    let Some(nulls) = x.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(Arc::clone(x)) };
    let mut last: Option<u64> = None;
    let rows: UInt64Array = nulls
        .iter()
        .zip(0_u64..)
        .map(|(valid, row)| {
            if valid {
                last = Some(row);
            }
            last
        })
        .collect();
    Ok(take(x, &rows, None)?)
}
