//! `xbar(width, x [, origin])`: the multiple of `width` at or below `x`, for numbers and for times.
//!
//! Numbers: whole numbers give `Int64`, any other mix gives `Float64`. Null in gives null, NaN gives NaN, width zero
//! leaves `x` as it is, a negative width is an error. Floats: a quotient within 2^-43 of a whole number counts as that
//! number, as comparisons in kdb+ do, so that a price on a 0.1 grid stays on its own step, and the multiple of a width such
//! as 0.1 or 0.25 is the float that its decimal form reads as.
//!
//! Times: as `time_bucket`, counted from 2000-01-01T00:00Z.
//!
//! Source: code.kx.com/q/ref/xbar and the comparison tolerance of code.kx.com/q/basics/precision.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::{is_text, ordering_of_second, time_type, width_type};
use crate::grid::DefaultOrigin;
use crate::time_bucket::{Placement, bucket_columns, bucket_preimage};

/// How near a quotient must be to a whole number to count as one.
const TOLERANCE: f64 = 1.0 / (1_u64 << 43) as f64;

/// The scalar function `xbar`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Xbar {
    signature: Signature,
}

impl Xbar {
    pub(super) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Xbar {
    fn name(&self) -> &str {
        "xbar"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [width, x] if is_number(width) && is_number(x) => {
                let number = if is_whole(width) && is_whole(x) { DataType::Int64 } else { DataType::Float64 };
                Ok(vec![number.clone(), number])
            }
            [width, time] if is_width(width) => {
                Ok(vec![width_type(self.name(), width)?, time_type(self.name(), time)?])
            }
            [width, time, origin] if is_width(width) => Ok(vec![
                width_type(self.name(), width)?,
                time_type(self.name(), time)?,
                time_type(self.name(), origin)?,
            ]),
            _ => plan_err!("xbar takes (number, number), (interval, time) or (interval, time, origin)"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.get(1) {
            Some(x) => Ok(x.clone()),
            None => plan_err!("xbar takes at least (width, x)"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [width, x, rest @ ..] = args.args.as_slice() else {
            return exec_err!("xbar takes at least (width, x)");
        };
        match args.return_type() {
            DataType::Int64 | DataType::Float64 => numbers(width, x, args.number_rows),
            _ => match Placement::from_constants(rest)? {
                Some(placement) => bucket_columns(width, x, &placement, DefaultOrigin::Kdb, args.number_rows),
                None => Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(args.return_type())?)),
            },
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(ordering_of_second(inputs))
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        Ok(ordering_of_second(inputs) != SortProperties::Unordered)
    }

    fn preimage(&self, args: &[Expr], lit_expr: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        bucket_preimage(args, lit_expr, info, DefaultOrigin::Kdb)
    }
}

fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_null()
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null()
}

fn is_width(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_)) || is_text(data_type)
}

fn numbers(width: &ColumnarValue, x: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
    let all_constant = matches!((width, x), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if all_constant { 1 } else { rows };
    let x = x.to_array(rows)?;
    let array: ArrayRef = match (width, x.data_type()) {
        (ColumnarValue::Scalar(value), _) if value.is_null() => {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(x.data_type())?));
        }
        (ColumnarValue::Scalar(ScalarValue::Int64(Some(width))), DataType::Int64) => {
            let width = *width;
            check_width(width < 0)?;
            Arc::new(x.as_primitive::<Int64Type>().try_unary::<_, Int64Type, _>(|x| floor_whole(width, x))?)
        }
        (ColumnarValue::Scalar(ScalarValue::Float64(Some(width))), DataType::Float64) => {
            let grid = FloatGrid::new(*width)?;
            Arc::new(x.as_primitive::<Float64Type>().unary::<_, Float64Type>(|x| grid.floor(x)))
        }
        (_, DataType::Int64) => {
            let widths = width.to_array(rows)?;
            let pairs = widths.as_primitive::<Int64Type>().iter().zip(x.as_primitive::<Int64Type>());
            let floored = pairs.map(|pair| match pair {
                (Some(width), Some(x)) => {
                    check_width(width < 0)?;
                    floor_whole(width, x).map(Some)
                }
                _ => Ok(None),
            });
            Arc::new(floored.collect::<Result<Int64Array>>()?)
        }
        _ => {
            let widths = width.to_array(rows)?;
            let pairs = widths.as_primitive::<Float64Type>().iter().zip(x.as_primitive::<Float64Type>());
            let floored = pairs.map(|pair| match pair {
                (Some(width), Some(x)) => Ok(Some(FloatGrid::new(width)?.floor(x))),
                _ => Ok(None),
            });
            Arc::new(floored.collect::<Result<Float64Array>>()?)
        }
    };
    if all_constant {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

fn check_width(negative: bool) -> Result<()> {
    if negative {
        return exec_err!("the width of xbar must not be negative");
    }
    Ok(())
}

fn floor_whole(width: i64, x: i64) -> Result<i64> {
    if width == 0 {
        return Ok(x);
    }
    x.checked_sub(x.rem_euclid(width))
        .ok_or_else(|| exec_datafusion_err!("xbar of {x} by {width} is below the smallest 64-bit integer"))
}

/// A width with what can be worked out once for a column.
#[derive(Debug, Clone, Copy)]
struct FloatGrid {
    width: f64,
    /// Steps per one, if that is a whole number: `7 / 10` is the float that is written 0.7, `7 * 0.1` is not.
    steps_per_one: Option<f64>,
}

impl FloatGrid {
    fn new(width: f64) -> Result<Self> {
        check_width(width < 0.0)?;
        let steps = 1.0 / width;
        let whole = steps.is_finite() && steps >= 1.0 && is_near(steps, steps.round());
        Ok(Self { width, steps_per_one: whole.then(|| steps.round()) })
    }

    fn floor(self, x: f64) -> f64 {
        if self.width == 0.0 {
            return x;
        }
        let quotient = x / self.width;
        if !quotient.is_finite() {
            return if self.width.is_nan() { f64::NAN } else { x };
        }
        let nearest = quotient.round();
        let step = if is_near(quotient, nearest) { nearest } else { quotient.floor() };
        self.steps_per_one.map_or(step * self.width, |steps| step / steps)
    }
}

fn is_near(x: f64, whole: f64) -> bool {
    (x - whole).abs() <= TOLERANCE * x.abs().max(1.0)
}
