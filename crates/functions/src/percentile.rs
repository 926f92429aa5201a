//! `percentile_cont` (`quantile_cont`) with all digits of a double: DataFusion 55.2 cuts the weight between two values to six
//! (`INTERPOLATION_PRECISION`).
//!
//! DataFusion's accumulators collect the values of a group, which their state shows as a list; the percentile of that list is computed here.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, ColumnarValue, EmitTo, GroupsAccumulator};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use num_traits::AsPrimitive;

/// The share of the values that a call asks for, counted from the least; of a descending order from the greatest.
///
/// # Errors
/// For a share that isn't a constant from 0 to 1.
pub(super) fn share(args: &AccumulatorArgs<'_>) -> Result<f64> {
    let Some(share) = args.exprs.get(1).and_then(constant_share) else {
        return plan_err!("the share of percentile_cont is a constant from 0 to 1");
    };
    let is_descending = args.order_bys.first().is_some_and(|key| key.options.descending);
    Ok(if is_descending { 1.0 - share } else { share })
}

/// The value of an argument that reads no column; `None` for anything else.
pub(super) fn constant(argument: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match argument.evaluate(&none) {
        Ok(ColumnarValue::Scalar(value)) => Some(value),
        _ => None,
    }
}

/// A constant from 0 to 1; `None` for anything else.
pub(super) fn constant_share(share: &Arc<dyn PhysicalExpr>) -> Option<f64> {
    match constant(share)?.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(share)) => share.filter(|share| (0.0..=1.0).contains(share)),
        _ => None,
    }
}

/// A percentile of what an accumulator of DataFusion's collects.
#[derive(Debug)]
pub(super) struct Percentile<T> {
    pub inner: T,
    pub share: f64,
    /// Whether each value counts once; such an accumulator keeps its values when it shows them.
    pub is_distinct: bool,
}

/// The percentiles of lists, null of empty ones.
fn percentiles(lists: &ArrayRef, share: f64) -> Result<ArrayRef> {
    let Some(lists) = lists.as_list_opt::<i32>() else { return exec_err!("a percentile of {}", lists.data_type()) };
    Ok(match lists.value_type() {
        DataType::Float16 => of_lists::<Float16Type>(lists, share),
        DataType::Float32 => of_lists::<Float32Type>(lists, share),
        DataType::Float64 => of_lists::<Float64Type>(lists, share),
        other => return exec_err!("a percentile of {other}"),
    })
}

/// The value so far on the line from one value to another, computed as doubles.
pub(super) fn on_line<N: AsPrimitive<f64>>(low: N, high: N, weight: f64) -> N
where
    f64: AsPrimitive<N>,
{
    (low.as_() * (1.0 - weight) + high.as_() * weight).as_()
}

fn of_lists<T: ArrowPrimitiveType<Native: AsPrimitive<f64>>>(lists: &ListArray, share: f64) -> ArrayRef
where
    f64: AsPrimitive<T::Native>,
{
    let of_list = |list: Option<ArrayRef>| {
        let mut values: Vec<T::Native> = list?.as_primitive::<T>().iter().flatten().collect();
        let (low, high, weight) = around(&mut values, share)?;
        // The bounds themselves where the line between them isn't needed: of infinities it is no number.
        Some(if weight > 0.0 && !low.is_eq(high) { on_line(low, high, weight) } else { low })
    };
    Arc::new(lists.iter().map(of_list).collect::<PrimitiveArray<T>>())
}

/// The values around a share of all values, and how far it is from the first to the second; `None` of no values.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place lies among the values")]
fn around<T: ArrowNativeTypeOp>(values: &mut [T], share: f64) -> Option<(T, T, f64)> {
    let place = values.len().checked_sub(1)? as f64 * share;
    let (_, low, above) = values.select_nth_unstable_by(place.floor() as usize, |one, other| one.compare(*other));
    let low = *low;
    let high = above.iter().copied().min_by(|one, other| one.compare(*other)).unwrap_or(low);
    Some((low, high, place - place.floor()))
}

impl Accumulator for Percentile<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.inner.state()?;
        let Some(values) = state.first() else { return exec_err!("a percentile without values") };
        let values = values.to_array()?;
        let percentile = ScalarValue::try_from_array(&percentiles(&values, self.share)?, 0)?;
        if !self.is_distinct {
            // A frame goes on with them.
            self.inner.merge_batch(&[values])?;
        }
        Ok(percentile)
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
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Percentile<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let state = self.inner.state(emit_to)?;
        let Some(values) = state.first() else { return exec_err!("a percentile without values") };
        percentiles(values, self.share)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_between_the_values_around_it() {
        let mut values = [4.0, 1.0, f64::INFINITY, 2.0];
        assert_eq!(around(&mut values, 0.5), Some((2.0, 4.0, 0.5)));
        assert_eq!(around(&mut values, 1.0), Some((f64::INFINITY, f64::INFINITY, 0.0)));
        assert_eq!(around(&mut values[..1], 0.3), Some((1.0, 1.0, 0.0)));
        assert_eq!(around::<f64>(&mut [], 0.5), None);
    }

    #[test]
    fn percentiles_have_all_digits() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some(
            (0..101).map(|value| Some(f64::from(value))),
        )]));
        let of = percentiles(&lists, 0.123_456_789_012).unwrap();
        assert_eq!(of.as_primitive::<Float64Type>().value(0), 12.345_678_901_2);
    }
}
