//! Running and moving window functions under the names of kdb+: `sums`, `prds`, `maxs`, `mins`, `avgs`, `msum`, `mavg`,
//! `mdev`, `mmax`, `mmin`, `mcount`, `ema`, and `wilder`.
//!
//! They work over the whole window partition in the order of the `OVER` clause and take no notice of its frame. Moving ones
//! look at the last `n` *rows*. The arithmetic is that of `splay_engine::moving`.
//!
//! - Nulls are left out. A sum of nothing is 0 and a product of nothing 1, as in kdb+; anything else of nothing is null.
//! - `n` is a constant whole number, zero or above; a window of no rows is one of nothing.
//! - A null gives a null `ema` or `wilder` and leaves the rows behind it alone, where kdb+ loses the rest of the series.
//! - Sums of whole numbers and decimals are exact and fail where they don't fit; all else is `Float64`.
//!
//! Source: code.kx.com/q/ref/sum, /prd, /max, /min, /avg, /dev, /count, /ema. `wilder` is J. W. Wilder's, 1978.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, Schema,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    ColumnarValue, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use splay_engine::moving::{self, Extreme};

/// Every function of this file.
pub(super) fn functions() -> Vec<WindowUDF> {
    Kind::ALL
        .into_iter()
        .map(|(name, kind)| {
            WindowUDF::from(MovingFunction { name, kind, signature: Signature::user_defined(Volatility::Immutable) })
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sums,
    Products,
    Averages,
    Extremes(Extreme),
    MovingSum,
    MovingAverage,
    MovingDeviation,
    MovingExtreme(Extreme),
    MovingCount,
    Exponential,
    Wilder,
}

impl Kind {
    const ALL: [(&'static str, Kind); 13] = [
        ("sums", Kind::Sums),
        ("prds", Kind::Products),
        ("avgs", Kind::Averages),
        ("maxs", Kind::Extremes(Extreme::Greatest)),
        ("mins", Kind::Extremes(Extreme::Least)),
        ("msum", Kind::MovingSum),
        ("mavg", Kind::MovingAverage),
        ("mdev", Kind::MovingDeviation),
        ("mmax", Kind::MovingExtreme(Extreme::Greatest)),
        ("mmin", Kind::MovingExtreme(Extreme::Least)),
        ("mcount", Kind::MovingCount),
        ("ema", Kind::Exponential),
        ("wilder", Kind::Wilder),
    ];

    fn is_running(self) -> bool {
        matches!(self, Kind::Sums | Kind::Products | Kind::Averages | Kind::Extremes(_))
    }

    /// Whether any type with an order is welcome, or any type at all.
    fn takes_anything(self) -> bool {
        matches!(self, Kind::Extremes(_) | Kind::MovingExtreme(_) | Kind::MovingCount)
    }

    /// The type that the first argument is read as; also that of the answer, but for a count.
    fn input(self, name: &str, x: &DataType) -> Result<DataType> {
        if self.takes_anything() && !x.is_null() {
            return Ok(x.clone());
        }
        let exact = matches!(self, Kind::Sums | Kind::MovingSum);
        match x {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale)
                if exact =>
            {
                Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale))
            }
            x if exact && x.is_integer() => Ok(DataType::Int64),
            x if x.is_numeric() || x.is_null() => Ok(DataType::Float64),
            other => plan_err!("{name} takes a number, not a {other}"),
        }
    }

    fn output(self, x: &DataType) -> DataType {
        if self == Kind::MovingCount { DataType::Int64 } else { x.clone() }
    }

    fn is_nullable(self) -> bool {
        !matches!(self, Kind::Sums | Kind::Products | Kind::MovingSum | Kind::MovingCount)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MovingFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl WindowUDFImpl for MovingFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name;
        match (arg_types, self.kind) {
            ([x], kind) if kind.is_running() => Ok(vec![kind.input(name, x)?]),
            (_, kind) if kind.is_running() => plan_err!("{name} takes one argument"),
            ([x, alpha], Kind::Exponential) if alpha.is_numeric() || alpha.is_null() => {
                Ok(vec![self.kind.input(name, x)?, DataType::Float64])
            }
            (_, Kind::Exponential) => plan_err!("ema takes (x, alpha), alpha being the share of the new value"),
            ([x, n], kind) if n.is_integer() || n.is_null() => Ok(vec![kind.input(name, x)?, DataType::Int64]),
            _ => plan_err!("{name} takes (x, n), n being a whole number of rows"),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(x) = args.get_input_field(0) else { return plan_err!("{} takes at least one argument", self.name) };
        Ok(Arc::new(Field::new(args.name(), self.kind.output(x.data_type()), self.kind.is_nullable())))
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        if args.ignore_nulls() {
            return plan_err!("{} has no IGNORE NULLS: nulls are left out as it is", self.name);
        }
        let second = args.input_exprs().get(1).and_then(constant);
        let rows = match (self.kind, second) {
            (kind, _) if kind.is_running() => 0,
            (Kind::Exponential, alpha) => {
                if let Some(ScalarValue::Float64(Some(alpha))) = alpha {
                    check_alpha(alpha)?;
                }
                0
            }
            (_, Some(ScalarValue::Int64(Some(n)))) => self.window_rows(n)?,
            _ => return plan_err!("the second argument of {}, its number of rows, must be a constant", self.name),
        };
        Ok(Box::new(MovingEvaluator { name: self.name, kind: self.kind, rows }))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::None
    }
}

impl MovingFunction {
    fn window_rows(&self, n: i64) -> Result<usize> {
        let least = if self.kind == Kind::Wilder { 1 } else { 0 };
        match usize::try_from(n) {
            Ok(rows) if rows >= least => Ok(rows),
            _ => plan_err!("the number of rows of {} is at least {least}, not {n}", self.name),
        }
    }
}

/// The value of an expression that looks at no column.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    match expr.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty()))) {
        Ok(ColumnarValue::Scalar(value)) => Some(value),
        _ => None,
    }
}

fn check_alpha(alpha: f64) -> Result<()> {
    if alpha > 0.0 && alpha <= 1.0 {
        return Ok(());
    }
    exec_err!(
        "the alpha of ema is above 0 and at most 1, not {alpha}; for N periods it is 2.0 / (N + 1), and 2 / (N + 1) is a division of whole numbers"
    )
}

#[derive(Debug)]
struct MovingEvaluator {
    name: &'static str,
    kind: Kind,
    /// Rows of the window of a moving function.
    rows: usize,
}

impl PartitionEvaluator for MovingEvaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], _num_rows: usize) -> Result<ArrayRef> {
        let Some(x) = values.first() else { return exec_err!("{} has a column to work on", self.name) };
        let n = self.rows;
        Ok(match self.kind {
            Kind::Sums | Kind::MovingSum => return self.sums(x),
            Kind::Extremes(extreme) => moving::running_extreme(x, extreme)?,
            Kind::MovingExtreme(extreme) => moving::moving_extreme(x, n, extreme)?,
            Kind::MovingCount => {
                let nulls = x.logical_nulls();
                let is_valid = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                Arc::new(moving::moving_count(x.len(), is_valid, n))
            }
            Kind::Products => Arc::new(moving::running_product(floats(x))),
            Kind::Averages => Arc::new(moving::running_average(floats(x))),
            Kind::MovingAverage => Arc::new(moving::moving_average(floats(x), n)),
            Kind::MovingDeviation => Arc::new(moving::moving_deviation(floats(x), n)),
            Kind::Wilder => Arc::new(moving::wilder(floats(x), n)),
            Kind::Exponential => {
                let Some(alphas) = values.get(1) else { return exec_err!("ema takes (x, alpha)") };
                let alphas = floats(alphas);
                alphas.iter().flatten().try_for_each(check_alpha)?;
                Arc::new(moving::exponential(floats(x), alphas))
            }
        })
    }
}

impl MovingEvaluator {
    fn sums(&self, x: &ArrayRef) -> Result<ArrayRef> {
        let moves = self.kind == Kind::MovingSum;
        let sums: Option<ArrayRef> = match x.data_type() {
            DataType::Int64 => {
                let x = x.as_primitive::<Int64Type>();
                let sums = if moves { moving::moving_sum_exact(x, self.rows) } else { moving::running_sum_exact(x) };
                sums.map(|sums| Arc::new(sums) as ArrayRef)
            }
            DataType::Decimal128(precision, _) => {
                let (x, precision) = (x.as_primitive::<Decimal128Type>(), *precision);
                let sums = if moves { moving::moving_sum_exact(x, self.rows) } else { moving::running_sum_exact(x) };
                sums.filter(|sums| sums.validate_decimal_precision(precision).is_ok())
                    .map(|sums| Arc::new(sums) as ArrayRef)
            }
            _ if moves => Some(Arc::new(moving::moving_sum(floats(x), self.rows))),
            _ => Some(Arc::new(moving::running_sum(floats(x)))),
        };
        sums.ok_or_else(|| exec_datafusion_err!("a sum of {} doesn't fit a {}", self.name, x.data_type()))
    }
}

fn floats(x: &ArrayRef) -> &Float64Array {
    x.as_primitive::<Float64Type>()
}
