//! Sums, averages, spreads and relations of floats over moving frames, which DataFusion computes by subtracting what leaves a frame: there an
//! infinity, a NaN or a number that swallows all others never leaves. Here rows are folded (`frame_fold.rs`), by the kernels' own folds.

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;
use splay_engine::{Moments, Pair};

use crate::folds::{Fold, FoldRule, StoredFold};
use crate::frame_fold::FrameFold;

/// The state of a moving frame of an aggregate of floats; none for other aggregates and types.
pub(super) fn frame(name: &str, args: &AccumulatorArgs<'_>) -> Option<Box<dyn Accumulator>> {
    if !args.expr_fields.iter().all(|field| field.data_type().is_floating()) {
        return None;
    }
    let result = args.return_field.data_type().clone();
    if let Some(total) = Total::named(name) {
        return Some(Box::new(FrameFold::new(total, result)));
    }
    if let Some(spread) = SpreadRule::named(name) {
        return Some(Box::new(FrameFold::new(spread, result)));
    }
    PairFunction::named(name).map(|relation| Box::new(FrameFold::new(relation, result)) as Box<dyn Accumulator>)
}

fn floats(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// Gives `each` the fold of each value, or that of nothing.
fn fold_values<F: Fold>(values: &[ArrayRef], one: impl Fn(f64) -> F, each: impl FnMut(F)) -> Result<()> {
    let [values] = values else { return exec_err!("this aggregate has one column") };
    floats(values)?.iter().map(|value| value.map(&one).unwrap_or_default()).for_each(each);
    Ok(())
}

/// `sum` and `avg`.
#[derive(Debug)]
struct Total {
    is_average: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: u64,
}

impl Fold for Sum {
    fn join(&mut self, behind: &Sum) {
        self.sum += behind.sum;
        self.count += behind.count;
    }
}

impl Total {
    fn named(name: &str) -> Option<Total> {
        matches!(name, "sum" | "avg").then_some(Total { is_average: name == "avg" })
    }
}

impl FoldRule for Total {
    type Fold = Sum;

    fn fold_each(&self, values: &[ArrayRef], each: impl FnMut(Sum)) -> Result<()> {
        fold_values(values, |value| Sum { sum: value, count: 1 }, each)
    }

    fn answer(&self, Sum { sum, count }: &Sum) -> Option<f64> {
        (*count > 0).then(|| if self.is_average { sum / *count as f64 } else { *sum })
    }
}

/// Variances and deviations.
#[derive(Debug)]
struct SpreadRule {
    is_of_sample: bool,
    is_root: bool,
}

impl SpreadRule {
    fn named(name: &str) -> Option<SpreadRule> {
        let (is_of_sample, is_root) = match name {
            "var" | "var_samp" => (true, false),
            "var_pop" => (false, false),
            "stddev" | "stddev_samp" => (true, true),
            "stddev_pop" => (false, true),
            _ => return None,
        };
        Some(SpreadRule { is_of_sample, is_root })
    }
}

impl Fold for Moments {
    fn join(&mut self, behind: &Moments) {
        Moments::join(self, *behind);
    }
}

impl FoldRule for SpreadRule {
    type Fold = Moments;

    fn fold_each(&self, values: &[ArrayRef], each: impl FnMut(Moments)) -> Result<()> {
        fold_values(values, Moments::one, each)
    }

    fn answer(&self, moments: &Moments) -> Option<f64> {
        moments.spread(self.is_of_sample, self.is_root)
    }
}

/// What comes of two columns, of which a row counts where neither is null. Of a regression the first is `y`.
#[derive(Debug)]
pub(super) enum PairFunction {
    Covariance { is_of_sample: bool },
    Correlation,
    Slope,
    Intercept,
    R2,
    Count,
    MeanOfX,
    MeanOfY,
    SquaresOfX,
    SquaresOfY,
    Products,
}

impl PairFunction {
    fn named(name: &str) -> Option<PairFunction> {
        Some(match name {
            "covar_samp" => PairFunction::Covariance { is_of_sample: true },
            "covar_pop" => PairFunction::Covariance { is_of_sample: false },
            "corr" => PairFunction::Correlation,
            "regr_slope" => PairFunction::Slope,
            "regr_intercept" => PairFunction::Intercept,
            "regr_r2" => PairFunction::R2,
            "regr_count" => PairFunction::Count,
            "regr_avgx" => PairFunction::MeanOfX,
            "regr_avgy" => PairFunction::MeanOfY,
            "regr_sxx" => PairFunction::SquaresOfX,
            "regr_syy" => PairFunction::SquaresOfY,
            "regr_sxy" => PairFunction::Products,
            _ => return None,
        })
    }
}

impl Fold for Pair {
    fn join(&mut self, behind: &Pair) {
        Pair::join(self, *behind);
    }
}

impl StoredFold<6> for Pair {
    fn store(&self) -> [f64; 6] {
        self.numbers()
    }

    fn load(numbers: [f64; 6]) -> Pair {
        Pair::of_numbers(numbers)
    }
}

impl FoldRule for PairFunction {
    type Fold = Pair;

    fn fold_each(&self, values: &[ArrayRef], each: impl FnMut(Pair)) -> Result<()> {
        let [left, right] = values else { return exec_err!("this aggregate has two columns") };
        let (left, right) = (floats(left)?, floats(right)?);
        let pair =
            |(left, right): (Option<f64>, Option<f64>)| left.zip(right).map(|(left, right)| Pair::one(left, right));
        left.iter().zip(&right).map(|row| pair(row).unwrap_or_default()).for_each(each);
        Ok(())
    }

    fn answer(&self, pair: &Pair) -> Option<f64> {
        let (y, x, products) = (pair.left(), pair.right(), pair.products());
        let slope = || (x.count() > 1.0 && x.squares() != 0.0).then(|| products / x.squares());
        let any = |value: f64| (x.count() > 0.0).then_some(value);
        match self {
            PairFunction::Covariance { is_of_sample } => pair.covariance(*is_of_sample),
            PairFunction::Correlation => pair.correlation(),
            PairFunction::Slope => slope(),
            PairFunction::Intercept => slope().map(|slope| y.mean() - slope * x.mean()),
            PairFunction::R2 => {
                slope().filter(|_| y.squares() != 0.0).map(|_| products * products / (x.squares() * y.squares()))
            }
            PairFunction::Count => Some(x.count()),
            PairFunction::MeanOfX => any(x.mean()),
            PairFunction::MeanOfY => any(y.mean()),
            PairFunction::SquaresOfX => any(x.squares()),
            PairFunction::SquaresOfY => any(y.squares()),
            PairFunction::Products => any(products),
        }
    }
}
