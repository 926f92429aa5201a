//! `vwap(price, size)`, `wavg(weight, x)` and `wsum(weight, x)`.
//!
//! `wavg` = Σ(weight·x) / Σ(weight), `wsum` = Σ(weight·x), `vwap(price, size)` = `wavg(size, price)`. A pair with a null
//! on either side is left out. No pairs gives null; for an average, weights that add up to zero do too. Every number
//! becomes `Float64`, so sums do not overflow; NaN and infinity follow IEEE 754.
//!
//! Sums are taken in the order of arrival, so the last bits may depend on the number of execution streams.
//!
//! Source: code.kx.com/q/ref/avg (wavg), code.kx.com/q/ref/sum (wsum).

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::weighted_frame::WeightedFrame;

/// One of the weighted aggregates.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Weighted {
    name: &'static str,
    /// Which of the two arguments is the weight.
    weight: usize,
    average: bool,
    signature: Signature,
}

impl Weighted {
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

impl AggregateUDFImpl for Weighted {
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
        match arg_types.iter().find(|given| !given.is_numeric() && !given.is_null()) {
            Some(other) => plan_err!("{} takes two numbers, not a {other}", self.name),
            None => Ok(vec![DataType::Float64; 2]),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "weighted"), DataType::Float64, false)),
            Arc::new(Field::new(format_state_name(args.name, "weight"), DataType::Float64, false)),
            Arc::new(Field::new(format_state_name(args.name, "pairs"), DataType::UInt64, false)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(WeightedAccumulator { rule: self.rule(), sums: Sums::default() }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(WeightedFrame::new(self.rule())))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(WeightedGroups { rule: self.rule(), sums: Vec::new() }))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let name = self.name;
        // Said here because a rewrite of DISTINCT aggregates would fail on two arguments with an error of its own.
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
pub(super) struct Rule {
    weight: usize,
    average: bool,
}

impl Rule {
    /// Tells the weights from the values.
    pub(super) fn columns<'a>(&self, values: &'a [ArrayRef]) -> Result<WeightedColumns<'a>> {
        let [first, second] = values else { return exec_err!("a weighted aggregate has two columns") };
        let (weight, x) = if self.weight == 0 { (first, second) } else { (second, first) };
        let both = NullBuffer::union(weight.nulls(), x.nulls());
        Ok((weight.as_primitive::<Float64Type>(), x.as_primitive::<Float64Type>(), both))
    }

    pub(super) fn answer(&self, sums: &Sums) -> Option<f64> {
        match (self.average, sums.pairs) {
            (_, 0) => None,
            (false, _) => Some(sums.weighted),
            (true, _) if sums.weight == 0.0 => None,
            (true, _) => Some(sums.weighted / sums.weight),
        }
    }
}

/// The state of one group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub weighted: f64,
    pub weight: f64,
    pub pairs: u64,
}

impl Sums {
    #[inline]
    pub(super) fn add_pair(&mut self, weight: f64, x: f64) {
        self.weighted += weight * x;
        self.weight += weight;
        self.pairs += 1;
    }

    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        self.weighted += other.weighted;
        self.weight += other.weight;
        self.pairs += other.pairs;
    }
}

/// Sums as state columns: weighted, weight, pairs.
fn to_state(sums: &[Sums]) -> Vec<ArrayRef> {
    vec![
        Arc::new(sums.iter().map(|s| s.weighted).collect::<Float64Array>()),
        Arc::new(sums.iter().map(|s| s.weight).collect::<Float64Array>()),
        Arc::new(sums.iter().map(|s| s.pairs).collect::<UInt64Array>()),
    ]
}

fn from_state(states: &[ArrayRef]) -> Result<impl Iterator<Item = Sums> + '_> {
    let [weighted, weight, pairs] = states else { return exec_err!("a weighted aggregate has three state columns") };
    let weighted = weighted.as_primitive::<Float64Type>().values();
    let weight = weight.as_primitive::<Float64Type>().values();
    let pairs = pairs.as_primitive::<UInt64Type>().values();
    Ok(weighted.iter().zip(weight).zip(pairs).map(|((weighted, weight), pairs)| Sums {
        weighted: *weighted,
        weight: *weight,
        pairs: *pairs,
    }))
}

/// One group, rows only added.
#[derive(Debug)]
struct WeightedAccumulator {
    rule: Rule,
    sums: Sums,
}

impl Accumulator for WeightedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (weight, x, both) = self.rule.columns(values)?;
        let pairs = weight.values().iter().zip(x.values());
        match both.filter(|both| both.null_count() > 0) {
            None => pairs.for_each(|(weight, x)| self.sums.add_pair(*weight, *x)),
            Some(both) => pairs.zip(&both).filter(|(_, valid)| *valid).for_each(|((weight, x), _)| {
                self.sums.add_pair(*weight, *x);
            }),
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.rule.answer(&self.sums)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.sums.weighted.into(), self.sums.weight.into(), self.sums.pairs.into()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        from_state(states)?.for_each(|sums| self.sums.add(&sums));
        Ok(())
    }
}

/// All groups at once.
#[derive(Debug)]
struct WeightedGroups {
    rule: Rule,
    sums: Vec<Sums>,
}

impl GroupsAccumulator for WeightedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_num_groups, Sums::default());
        let (weight, x, both) = self.rule.columns(values)?;
        let rows = group_indices.iter().zip(weight.values().iter().zip(x.values()));
        if both.is_none() && opt_filter.is_none() {
            rows.for_each(|(group, (weight, x))| self.sums[*group].add_pair(*weight, *x));
            return Ok(());
        }
        for (row, (group, (weight, x))) in rows.enumerate() {
            let wanted = opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if wanted && both.as_ref().is_none_or(|both| both.is_valid(row)) {
                self.sums[*group].add_pair(*weight, *x);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        Ok(Arc::new(sums.iter().map(|sums| self.rule.answer(sums)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(to_state(&emit_to.take_needed(&mut self.sums)))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.sums.resize(total_num_groups, Sums::default());
        for (group, sums) in group_indices.iter().zip(from_state(values)?) {
            self.sums[*group].add(&sums);
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let mut each_row = Self { rule: self.rule, sums: Vec::with_capacity(rows) };
        each_row.update_batch(values, &(0..rows).collect::<Vec<_>>(), opt_filter, rows)?;
        Ok(to_state(&each_row.sums))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<Sums>()
    }
}
