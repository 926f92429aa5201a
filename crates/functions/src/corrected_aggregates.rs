//! DataFusion's aggregates where its answers depend on the order of rows, or wrap.
//!
//! - `min` and `max` of floats go by the total order of IEEE 754, in which the NaN without a sign is above infinity. DataFusion 55.2 takes a group's NaN or drops
//!   it, by what stands before and behind it (`groups_accumulator` of `min_max.rs`), and gives the least finite number for a group of
//!   infinities alone.
//! - `min` and `max` of structs take a null field for greater than all others, as `ORDER BY` does (`struct_functions.rs`).
//! - `sum` of whole numbers ends in an error where 64 bits don't hold it. DataFusion's wraps.
//! - `sum` of booleans counts those that are true.
//! - `avg` of decimals is rounded, half away from zero. DataFusion's cuts off what its four further digits don't hold.
//! - `bit_xor` of a frame that has lost its rows is null. DataFusion's is 0.
//! - `corr` keeps means and distances from them, as everywhere. DataFusion's, of groups, subtracts sums of squares, which leaves no digit of numbers far
//!   from zero such as times; and of one NaN it makes null, of two NaN.
//! - `percentile_cont` interpolates with all digits (`percentile.rs`). DataFusion's weight has six.
//! - Sums, averages, spreads and relations of floats over moving frames forget what has left (`moving_floats.rs`). DataFusion's don't.
//!
//! The first three are DataFusion's own accumulators over other values: of floats over integers of the same order, of whole numbers over
//! decimals of 38 digits, of decimals over such with a digit more. Can go once DataFusion does so: <https://github.com/apache/datafusion/issues/8737>.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type,
};
use datafusion::common::types::{NativeType, logical_boolean, logical_int64};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::bit_and_or_xor::bit_xor_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_count_udaf, regr_intercept_udaf, regr_r2_udaf, regr_slope_udaf, regr_sxx_udaf,
    regr_sxy_udaf, regr_syy_udaf,
};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::var_pop_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, TypeSignature, TypeSignatureClass,
};

use crate::folds::{self, GroupsFold, RowsFold};
use crate::moving_floats::{self, PairFunction};
use crate::percentile::{self, Percentile};
use crate::struct_functions::StructExtreme;

/// Holds the sum of as many 64-bit numbers as there can be rows.
const WIDE: DataType = DataType::Decimal128(38, 0);

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// All but those of `spread.rs`.
pub(super) fn aggregates() -> Vec<AggregateUDF> {
    let regressions = [
        regr_slope_udaf(),
        regr_intercept_udaf(),
        regr_r2_udaf(),
        regr_count_udaf(),
        regr_avgx_udaf(),
        regr_avgy_udaf(),
        regr_sxx_udaf(),
        regr_syy_udaf(),
        regr_sxy_udaf(),
    ];
    let inner = [min_udaf(), max_udaf(), sum_udaf(), avg_udaf(), bit_xor_udaf(), var_pop_udaf()];
    let inner = inner.into_iter().chain([percentile_cont_udaf()]);
    inner.chain(regressions).map(corrected).collect()
}

/// An aggregate of DataFusion's with the answers of this file.
pub(super) fn corrected(inner: Arc<AggregateUDF>) -> AggregateUDF {
    let signature = (inner.name() == "sum").then(|| with_booleans(inner.signature()));
    AggregateUDF::from(CorrectedAggregate { inner, signature })
}

/// An aggregate of DataFusion's over other values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CorrectedAggregate {
    inner: Arc<AggregateUDF>,
    /// What it takes, if that isn't what DataFusion's takes.
    signature: Option<Signature>,
}

/// A signature that takes booleans, too, as whole numbers.
fn with_booleans(signature: &Signature) -> Signature {
    let whole = TypeSignatureClass::Native(logical_int64());
    let booleans = vec![TypeSignatureClass::Native(logical_boolean())];
    let boolean = TypeSignature::Coercible(vec![Coercion::new_implicit(whole, booleans, NativeType::Int64)]);
    Signature::one_of(vec![signature.type_signature.clone(), boolean], signature.volatility)
}

impl CorrectedAggregate {
    /// The types of the values that are aggregated in the place of others, and of what comes of them; none if they are the same.
    fn stand_in(&self, of: &DataType, result: &DataType) -> Option<(DataType, DataType)> {
        let same = |data_type: DataType| Some((data_type.clone(), data_type));
        match (self.inner.name(), result) {
            ("sum", DataType::Int64 | DataType::UInt64) => same(WIDE),
            ("min" | "max", DataType::Float16) => same(DataType::Int16),
            ("min" | "max", DataType::Float32) => same(DataType::Int32),
            ("min" | "max", DataType::Float64) => same(DataType::Int64),
            ("avg", _) => {
                let scale = decimal_scale(of)?;
                let wide = |scale| DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale);
                Some((wide(scale.checked_add(1)?), wide(decimal_scale(result)?.checked_add(1)?)))
            }
            _ => None,
        }
    }

    fn is_correlation(&self, is_distinct: bool) -> bool {
        self.inner.name() == "corr" && !is_distinct
    }

    /// Whether it is a percentile of values, which those of no type aren't.
    fn is_percentile(&self, args: &AccumulatorArgs<'_>) -> bool {
        self.inner.name() == "percentile_cont"
            && args.expr_fields.first().is_some_and(|field| !field.data_type().is_null())
    }

    /// The type of the structs that the least or the greatest is looked for among.
    fn structs<'a>(&self, args: &AccumulatorArgs<'a>) -> Option<&'a DataType> {
        let of = args.expr_fields.first()?.data_type();
        (matches!(self.inner.name(), "min" | "max") && matches!(of, DataType::Struct(_))).then_some(of)
    }

    /// What `make` makes for the arguments of the call, over the stand-in where there is one.
    fn made<T>(
        &self,
        args: AccumulatorArgs<'_>,
        make: impl FnOnce(AccumulatorArgs<'_>) -> Result<T>,
        over: impl FnOnce(StandInAccumulator<T>) -> T,
    ) -> Result<T> {
        let result = args.return_field.data_type().clone();
        let of = args.expr_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        let Some((of, stand_in)) = self.stand_in(&of, &result) else { return make(args) };
        let field = |field: &FieldRef, to: &DataType| Arc::new(field.as_ref().clone().with_data_type(to.clone()));
        let fields: Vec<FieldRef> = args.expr_fields.iter().map(|one| field(one, &of)).collect();
        let return_field = field(&args.return_field, &stand_in);
        let inner = make(AccumulatorArgs { return_field, expr_fields: &fields, ..args })?;
        Ok(over(StandInAccumulator { inner, of, result }))
    }
}

fn decimal_scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// An accumulator over the stand-ins of its values, whose state is that of the stand-ins.
#[derive(Debug)]
struct StandInAccumulator<T> {
    inner: T,
    /// The type of the stand-ins.
    of: DataType,
    result: DataType,
}

impl<T> StandInAccumulator<T> {
    fn values(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        values.iter().map(|values| stand_in(values, &self.of)).collect()
    }

    fn result(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self.result {
            DataType::Float16 => {
                floats::<Int16Type, Float16Type>(values, |key| F16::from_bits(bits16(key).cast_unsigned()))
            }
            DataType::Float32 => {
                floats::<Int32Type, Float32Type>(values, |key| f32::from_bits(bits32(key).cast_unsigned()))
            }
            DataType::Float64 => {
                floats::<Int64Type, Float64Type>(values, |key| f64::from_bits(bits64(key).cast_unsigned()))
            }
            _ => {
                let options = CastOptions { safe: false, ..CastOptions::default() };
                let cast = cast_with_options(values, &self.result, &options);
                cast.map_err(|_| exec_datafusion_err!("the result is out of the range of {}", self.result))?
            }
        })
    }
}

// Integers in the order of the floats whose bits they are, and back: those of negative floats inverted but for the sign.
macro_rules! orders {
    ($($name:ident, $bits:ty);*) => {$(
        fn $name(bits: $bits) -> $bits {
            bits ^ (((bits >> (<$bits>::BITS - 1)).cast_unsigned()) >> 1).cast_signed()
        }
    )*};
}

orders!(bits16, i16; bits32, i32; bits64, i64);

fn floats<From: ArrowPrimitiveType, To: ArrowPrimitiveType>(
    values: &ArrayRef,
    value: impl Fn(From::Native) -> To::Native,
) -> ArrayRef {
    Arc::new(values.as_primitive::<From>().unary::<_, To>(value)) as Arc<PrimitiveArray<To>>
}

/// The stand-ins of some values.
fn stand_in(values: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float16 => floats::<Float16Type, Int16Type>(values, |value| bits16(value.to_bits().cast_signed())),
        DataType::Float32 => floats::<Float32Type, Int32Type>(values, |value| bits32(value.to_bits().cast_signed())),
        DataType::Float64 => floats::<Float64Type, Int64Type>(values, |value| bits64(value.to_bits().cast_signed())),
        _ => cast(values, of)?,
    })
}

impl Accumulator for StandInAccumulator<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&self.values(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&self.result(&value)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&self.values(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// An accumulator over a frame whose value is null once all values have left it.
#[derive(Debug)]
struct NullWhenEmpty {
    inner: Box<dyn Accumulator>,
    /// Values that aren't null.
    values: usize,
}

fn count(values: &[ArrayRef]) -> usize {
    values.first().map_or(0, |values| values.len() - values.null_count())
}

impl Accumulator for NullWhenEmpty {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values += count(values);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
        if self.values == 0 { ScalarValue::try_new_null(&value.data_type()) } else { Ok(value) }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values += count(states);
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values = self.values.saturating_sub(count(values));
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for StandInAccumulator<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(&self.values(values)?, group_indices, opt_filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let values = self.inner.evaluate(emit_to)?;
        self.result(&values)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.values(values)?, opt_filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

impl AggregateUDFImpl for CorrectedAggregate {
    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_correlation(args.is_distinct) {
            return Ok(Box::new(RowsFold::new(PairFunction::Correlation)));
        }
        if self.is_percentile(&args) {
            let (share, is_distinct) = (percentile::share(&args)?, args.is_distinct);
            return Ok(Box::new(Percentile { inner: self.inner.accumulator(args)?, share, is_distinct }));
        }
        if let Some(of) = self.structs(&args) {
            return Ok(Box::new(StructExtreme::new(of, self.inner.name() == "max")));
        }
        self.made(args, |args| self.inner.accumulator(args), |made| Box::new(made))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if self.is_correlation(args.is_distinct) {
            return Ok(Box::new(GroupsFold::new(PairFunction::Correlation)));
        }
        if self.is_percentile(&args) {
            let share = percentile::share(&args)?;
            let inner = self.inner.create_groups_accumulator(args)?;
            return Ok(Box::new(Percentile { inner, share, is_distinct: false }));
        }
        self.made(args, |args| self.inner.create_groups_accumulator(args), |made| Box::new(made))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_percentile(&args) {
            return self.accumulator(args);
        }
        if self.structs(&args).is_some() {
            return exec_err!("{} of structs over moving frames isn't supported", self.inner.name());
        }
        // Which there is of 64-bit numbers alone.
        if args.is_distinct {
            return self.inner.create_sliding_accumulator(args);
        }
        if let Some(frame) = moving_floats::frame(self.inner.name(), &args) {
            return Ok(frame);
        }
        if self.inner.name() == "bit_xor" {
            let inner = self.inner.create_sliding_accumulator(args)?;
            return Ok(Box::new(NullWhenEmpty { inner, values: 0 }));
        }
        self.made(args, |args| self.inner.create_sliding_accumulator(args), |made| Box::new(made))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if self.is_correlation(args.is_distinct) {
            let names = ["rows", "mean", "squares", "other_mean", "other_squares", "products"];
            return Ok(folds::state_fields(args.name, names));
        }
        let of = args.input_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        let Some((of, stand_in)) = self.stand_in(&of, args.return_field.data_type()) else {
            return self.inner.state_fields(args);
        };
        let field = |field: &FieldRef, to: &DataType| Arc::new(field.as_ref().clone().with_data_type(to.clone()));
        let return_field = field(&args.return_field, &stand_in);
        if self.inner.name() == "avg" {
            let input_fields: Vec<FieldRef> = args.input_fields.iter().map(|one| field(one, &of)).collect();
            return self.inner.state_fields(StateFieldsArgs { return_field, input_fields: &input_fields, ..args });
        }
        if args.is_distinct && self.inner.name() == "sum" {
            return self.inner.state_fields(StateFieldsArgs { return_field, ..args });
        }
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, self.name()), stand_in, true))])
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.signature.as_ref().unwrap_or_else(|| self.inner.signature())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.structs(&args).is_none() && self.inner.groups_accumulator_supported(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        // The least and the greatest would be DataFusion's.
        if self.inner.name() == "percentile_cont" { None } else { self.inner.simplify() }
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        literal: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.simplify_expr_op_literal(function, arg, op, literal, arg_is_left)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
