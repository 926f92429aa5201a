//! `vwap(price, size)`, `wavg(weight, x)` and `wsum(weight, x)`.
//!
//! `wavg` = Σ(weight·x) / Σ(weight), `wsum` = Σ(weight·x), `vwap(price, size)` = `wavg(size, price)`. A pair with a null
//! on either side is left out. No pairs gives null; for an average, weights that add up to zero do too. Every number
//! becomes `Float64`, so sums do not overflow; NaN and infinity follow IEEE 754.
//!
//! Sums are taken in the order of arrival, so the last bits may depend on the number of execution streams.
//!
//! Source: code.kx.com/q/ref/avg (wavg), code.kx.com/q/ref/sum (wsum).

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Expr, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use crate::folds::{self, Fold, FoldRule, GroupsFold, RowsFold, StoredFold};
use crate::frame_fold::FrameFold;

/// One of the weighted aggregates.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct WeightedAggregate {
    name: &'static str,
    /// Which of the two arguments is the weight.
    weight: usize,
    average: bool,
    signature: Signature,
}

impl WeightedAggregate {
    pub(super) fn vwap() -> Self {
        Self::new("vwap", 1, true)
    }

    pub(super) fn wavg() -> Self {
        Self::new("wavg", 0, true)
    }

    pub(super) fn wsum() -> Self {
        Self::new("wsum", 0, false)
    }

    fn new(name: &'static str, weight: usize, average: bool) -> Self {
        Self { name, weight, average, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn rule(&self) -> Rule {
        Rule { weight: self.weight, average: self.average }
    }

    fn refuse_distinct(&self, args: &AccumulatorArgs) -> Result<()> {
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT …)", self.name);
        }
        Ok(())
    }
}

impl AggregateUDFImpl for WeightedAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        if arg_types.len() != 2 {
            return plan_err!("{} takes two numbers, got {} arguments", self.name, arg_types.len());
        }
        match arg_types.iter().find(|data_type| !data_type.is_numeric() && !data_type.is_null()) {
            Some(other) => plan_err!("{} takes two numbers, not a {other}", self.name),
            None => Ok(vec![DataType::Float64; 2]),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(folds::state_fields(args.name, ["weighted", "weight", "pairs"]))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(RowsFold::new(self.rule())))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(FrameFold::new(self.rule(), DataType::Float64)))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(GroupsFold::new(self.rule())))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let name = self.name;
        // DISTINCT is refused here, because a rewrite of DISTINCT aggregates would fail on two arguments with an error of its own.
        Some(Box::new(move |call, _info| match call.params.distinct {
            true => not_impl_err!("{name}(DISTINCT …)"),
            false => Ok(Expr::AggregateFunction(call)),
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The weights, the values and the rows in which neither is null.
type WeightedColumns<'a> = (&'a Float64Array, &'a Float64Array, Option<NullBuffer>);

/// What to add up and what to answer.
#[derive(Debug, Clone, Copy)]
struct Rule {
    weight: usize,
    average: bool,
}

impl Rule {
    /// Tells the weights from the values.
    fn columns<'a>(&self, values: &'a [ArrayRef]) -> Result<WeightedColumns<'a>> {
        let [first, second] = values else { return exec_err!("a weighted aggregate has two columns") };
        let (weight, x) = if self.weight == 0 { (first, second) } else { (second, first) };
        let both = NullBuffer::union(weight.nulls(), x.nulls());
        Ok((weight.as_primitive::<Float64Type>(), x.as_primitive::<Float64Type>(), both))
    }
}

/// The state of one group.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    weighted: f64,
    weight: f64,
    pairs: u64,
}

impl Sums {
    #[inline]
    fn add_pair(&mut self, weight: f64, x: f64) {
        self.weighted += weight * x;
        self.weight += weight;
        self.pairs += 1;
    }
}

impl Fold for Sums {
    #[inline]
    fn join(&mut self, behind: &Sums) {
        self.weighted += behind.weighted;
        self.weight += behind.weight;
        self.pairs += behind.pairs;
    }
}

impl StoredFold<3> for Sums {
    fn store(&self) -> [f64; 3] {
        [self.weighted, self.weight, self.pairs as f64]
    }

    fn load([weighted, weight, pairs]: [f64; 3]) -> Sums {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was a number of rows")]
        let pairs = pairs as u64;
        Sums { weighted, weight, pairs }
    }
}

impl FoldRule for Rule {
    type Fold = Sums;

    fn fold_each(&self, values: &[ArrayRef], mut each: impl FnMut(Sums)) -> Result<()> {
        let (weight, x, both) = self.columns(values)?;
        for row in 0..weight.len() {
            let mut sums = Sums::default();
            if both.as_ref().is_none_or(|both| both.is_valid(row)) {
                sums.add_pair(weight.value(row), x.value(row));
            }
            each(sums);
        }
        Ok(())
    }

    fn answer(&self, sums: &Sums) -> Option<f64> {
        match (self.average, sums.pairs) {
            (_, 0) => None,
            (false, _) => Some(sums.weighted),
            (true, _) if sums.weight == 0.0 => None,
            (true, _) => Some(sums.weighted / sums.weight),
        }
    }
}
