//! `lag` and `lead` by offsets that are computed for each row or may be null, and `fill`.
//!
//! `over_frames.rs` plans them; what a window is ordered by is an argument of `fill`. Both take whole partitions, whatever the frame.
//!
//! - `lag(x, n)` is null for a null `n`, and looks ahead for a negative one. Without such a row the result is the third argument. With
//!   `IGNORE NULLS` only rows with a value count.
//! - `fill(x) OVER (ORDER BY k)` puts values in the place of nulls, on the straight line over `k` through the values around; in front of the first
//!   and behind the last on the line through the two that are nearest, or the one that there is. At the key of a neighbour it takes that value.
//!   Values and keys that are NaN or infinite are no neighbours, and a row without a finite key stays null.
//!
//! Source: duckdb.org/docs/stable/sql/functions/window_functions. There `fill` keeps the type of whole numbers; here it is a `Float64`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, UInt64Array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;

/// The name of `fill`, with the value alone as it is written, and the key of its window once it is planned.
pub(super) const FILL: &str = "fill";

/// A function of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Lag,
    Lead,
    Fill,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OffsetFunction {
    kind: Kind,
    ignores_nulls: bool,
    signature: Signature,
}

impl OffsetFunction {
    pub(super) fn new(kind: Kind, ignores_nulls: bool) -> OffsetFunction {
        OffsetFunction { kind, ignores_nulls, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl WindowUDFImpl for OffsetFunction {
    fn name(&self) -> &str {
        match (self.kind, self.ignores_nulls) {
            (Kind::Lag, false) => "lag_by_row",
            (Kind::Lag, true) => "lag_by_row_without_nulls",
            (Kind::Lead, false) => "lead_by_row",
            (Kind::Lead, true) => "lead_by_row_without_nulls",
            (Kind::Fill, _) => FILL,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, arg_types) {
            (Kind::Fill, [x, key]) => {
                if !x.is_numeric() {
                    return plan_err!("fill takes numbers, not a {x}");
                }
                Ok(vec![DataType::Float64, measure(key)?])
            }
            (Kind::Fill, _) => plan_err!("fill takes one value, OVER an order"),
            (_, [x, n]) if n.is_integer() || n.is_null() => Ok(vec![x.clone(), DataType::Int64]),
            (_, [x, n, _]) if n.is_integer() || n.is_null() => Ok(vec![x.clone(), DataType::Int64, x.clone()]),
            (_, [_, n, ..]) => plan_err!("the offset of lag and lead is a whole number, not a {n}"),
            _ => plan_err!("lag and lead take (x, n, default)"),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(x) = args.get_input_field(0) else { return plan_err!("{} takes a value", self.name()) };
        Ok(Arc::new(Field::new(args.name(), x.data_type().clone(), true)))
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator { kind: self.kind, ignores_nulls: self.ignores_nulls }))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// The type in which distances of keys are measured: nanoseconds of times, whole numbers, or floats.
fn measure(key: &DataType) -> Result<DataType> {
    match key {
        DataType::Timestamp(_, zone) => Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())),
        DataType::Date32 | DataType::Date64 => Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        DataType::UInt64 => Ok(DataType::Float64),
        key if key.is_integer() => Ok(DataType::Int64),
        key if key.is_numeric() => Ok(DataType::Float64),
        key => plan_err!("fill needs an order by numbers or times, not by a {key}"),
    }
}

#[derive(Debug)]
struct Evaluator {
    kind: Kind,
    ignores_nulls: bool,
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], _num_rows: usize) -> Result<ArrayRef> {
        match (self.kind, values) {
            (Kind::Fill, [x, key]) => Ok(Arc::new(filled(x.as_primitive::<Float64Type>(), &Keys::of(key)?))),
            (kind @ (Kind::Lag | Kind::Lead), [x, n, default @ ..]) => {
                let places = match self.ignores_nulls {
                    true => places_among_values(x, n.as_primitive(), kind == Kind::Lag),
                    false => places(x.len(), n.as_primitive(), kind == Kind::Lag),
                };
                shifted(x, n.as_primitive(), &places, default.first())
            }
            _ => exec_err!("a window function lacks a column to work on"),
        }
    }
}

/// The row that is so many rows before each one, or behind it; null where there is none.
fn places(rows: usize, offsets: &Int64Array, is_before: bool) -> UInt64Array {
    let place = |(row, offset): (usize, Option<i64>)| {
        let place = row as i128 + distance(offset?, is_before);
        usize::try_from(place).ok().filter(|place| *place < rows).map(|place| place as u64)
    };
    offsets.iter().enumerate().map(place).collect()
}

/// As [`places`], where only rows with a value count. The row itself is no row away, whether or not it has one.
fn places_among_values(x: &ArrayRef, offsets: &Int64Array, is_before: bool) -> UInt64Array {
    let nulls = x.logical_nulls();
    let has_value = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
    let valid_rows: Vec<usize> = (0..x.len()).filter(has_value).collect();
    // How many of them stand before the row.
    let mut before = 0;
    let place = |(row, offset): (usize, Option<i64>)| {
        while valid_rows.get(before).is_some_and(|valid_row| *valid_row < row) {
            before += 1;
        }
        let number = match distance(offset?, is_before) {
            0 => return Some(row as u64),
            distance if distance < 0 => before as i128 + distance,
            distance => (before + usize::from(has_value(&row))) as i128 + distance - 1,
        };
        valid_rows.get(usize::try_from(number).ok()?).map(|place| *place as u64)
    };
    offsets.iter().enumerate().map(place).collect()
}

/// Rows to go, less than none for those before.
fn distance(offset: i64, is_before: bool) -> i128 {
    if is_before { -i128::from(offset) } else { i128::from(offset) }
}

fn shifted(x: &ArrayRef, offsets: &Int64Array, places: &UInt64Array, default: Option<&ArrayRef>) -> Result<ArrayRef> {
    let rows = x.len();
    let offset_values = take(x, places, None)?;
    let Some(default) = default else { return Ok(offset_values) };
    let is_outside: BooleanArray = (0..rows).map(|row| Some(places.is_null(row) && offsets.is_valid(row))).collect();
    Ok(zip(&is_outside, default, &offset_values)?)
}

/// The keys of a window's rows.
enum Keys {
    Whole(Int64Array),
    Float(Float64Array),
}

impl Keys {
    fn of(key: &ArrayRef) -> Result<Keys> {
        Ok(match key.data_type() {
            DataType::Float64 => Keys::Float(key.as_primitive::<Float64Type>().clone()),
            _ => Keys::Whole(cast(key, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
        })
    }

    fn is_finite(&self, row: usize) -> bool {
        match self {
            Keys::Whole(keys) => keys.is_valid(row),
            Keys::Float(keys) => keys.is_valid(row) && keys.value(row).is_finite(),
        }
    }

    fn distance(&self, from: usize, to: usize) -> f64 {
        match self {
            Keys::Whole(keys) => (i128::from(keys.value(to)) - i128::from(keys.value(from))) as f64,
            Keys::Float(keys) => keys.value(to) - keys.value(from),
        }
    }
}

fn filled(x: &Float64Array, keys: &Keys) -> Float64Array {
    let is_known = |row: &usize| x.is_valid(*row) && x.value(*row).is_finite() && keys.is_finite(*row);
    let valid_rows: Vec<usize> = (0..x.len()).filter(is_known).collect();
    // How many of them stand before the row.
    let mut before = 0;
    let value = |row: usize| {
        while valid_rows.get(before).is_some_and(|valid_row| *valid_row < row) {
            before += 1;
        }
        if x.is_valid(row) || !keys.is_finite(row) {
            return x.is_valid(row).then(|| x.value(row));
        }
        let from = before.saturating_sub(1).min(valid_rows.len().saturating_sub(2));
        let (first, second) = match (valid_rows.get(from), valid_rows.get(from + 1)) {
            (Some(first), Some(second)) => (*first, *second),
            (Some(only), None) => return Some(x.value(*only)),
            _ => return None,
        };
        let (whole, part) = (keys.distance(first, second), keys.distance(first, row));
        // Exact at the neighbours.
        if whole == 0.0 || part == 0.0 {
            return Some(x.value(first));
        }
        if part == whole {
            return Some(x.value(second));
        }
        Some(x.value(first) + (x.value(second) - x.value(first)) * (part / whole))
    };
    (0..x.len()).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_lie_on_the_line_between_their_neighbours() {
        let x = Float64Array::from(vec![
            None,
            Some(1.0),
            None,
            Some(f64::INFINITY),
            None,
            Some(3.0),
            None,
            Some(5.0),
            None,
        ]);
        let keys = Keys::Whole(Int64Array::from(vec![1, 2, 4, 5, 6, 7, 7, 9, 11]));
        let expected = [0.6, 1.0, 1.8, f64::INFINITY, 2.6, 3.0, 3.0, 5.0, 7.0];
        for (value, expected) in filled(&x, &keys).iter().zip(expected) {
            assert!(value.is_some_and(|value| value == expected || (value - expected).abs() < 1e-12));
        }
        let ties = Float64Array::from(vec![Some(1.0), Some(3.0), None]);
        assert_eq!(filled(&ties, &Keys::Whole(Int64Array::from(vec![2, 2, 3]))).value(2).to_bits(), 1f64.to_bits());
        let one = Float64Array::from(vec![None, Some(2.0), None]);
        assert_eq!(filled(&one, &Keys::Whole(Int64Array::from(vec![None, Some(1), Some(2)]))).null_count(), 1);
    }
}
