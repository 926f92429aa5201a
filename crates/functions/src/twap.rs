//! `twap(price, time [ORDER BY …])`: the average of a price weighted by how long it stood.
//!
//! A price stands from its row to the next one, so the last row of a group has no weight: Σ priceᵢ·(timeᵢ₊₁ − timeᵢ) / (last
//! time − first time). Rows that are all of one time give the price of the last.
//!
//! - Rows count by `time`, then by `ORDER BY`, then in the order of the table, which [`RowOrderRule`](crate::RowOrderRule) supplies: of rows at
//!   one time the last stands. Without any order (rows of a join, a union, another aggregate) the call is refused.
//! - A row with a null on either side is left out: the price before it goes on standing. No rows give null.
//! - Rows of a group are held until it is complete.
//!
//! Source: the step function of QuestDB's `twap` and of kdb+'s time-weighted averages, `(next[time]-time) wavg price`.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Float64Array, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Expr, Signature, Volatility};

use crate::arguments::time_type;
use crate::order_keys::{IntegerKeys, OrderKeys, RowKeys};

/// The aggregate `twap`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Twap {
    signature: Signature,
}

impl Twap {
    pub(super) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Twap {
    fn name(&self) -> &str {
        "twap"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [price, time] if price.is_numeric() || price.is_null() => {
                Ok(vec![DataType::Float64, time_type(self.name(), time)?])
            }
            _ => plan_err!("twap takes (price, time)"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |name, of| {
            let item = Field::new_list_field(of, false);
            Arc::new(Field::new_list(format_state_name(args.name, name), item, false))
        };
        Ok(vec![
            list("times", DataType::Int64),
            list("prices", DataType::Float64),
            list("order_keys", DataType::Binary),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("twap(DISTINCT …)");
        }
        let types: Vec<DataType> =
            args.order_bys.iter().map(|order| order.expr.data_type(args.schema)).collect::<Result<_>>()?;
        let options: Vec<_> = args.order_bys.iter().map(|order| order.options).collect();
        if IntegerKeys::supports(&types) {
            return Ok(Box::new(TwapAccumulator::new(IntegerKeys::new(options))));
        }
        Ok(Box::new(TwapAccumulator::new(RowKeys::new(&types, &options)?)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _satisfied: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        Some(Box::new(|call, _info| {
            if call.params.distinct {
                return not_impl_err!("twap(DISTINCT …)");
            }
            if call.params.order_by.is_empty() {
                return plan_err!(
                    "twap(price, time) needs an ORDER BY here, as in twap(price, ts ORDER BY ts): rows at one time have no order of their own"
                );
            }
            Ok(Expr::AggregateFunction(call))
        }))
    }
}

/// One row of a group.
#[derive(Debug, Clone)]
struct PriceRow<K> {
    time: i64,
    key: K,
    price: f64,
}

/// One group. Rows that come in order are added at each evaluation, so a running average costs no more than one over all rows.
#[derive(Debug)]
struct TwapAccumulator<O: OrderKeys> {
    keys: O,
    rows: Vec<PriceRow<O::Key>>,
    /// Σ price · time stood of the first `added` rows, which are in order.
    area: f64,
    added: usize,
    /// Bytes of keys on the heap.
    heap_size: usize,
}

impl<O: OrderKeys> TwapAccumulator<O> {
    fn new(keys: O) -> Self {
        Self { keys, rows: Vec::new(), area: 0.0, added: 0, heap_size: 0 }
    }

    fn push(&mut self, time: i64, key: O::Key, price: f64) {
        self.heap_size += O::heap_size(&key);
        self.rows.push(PriceRow { time, key, price });
    }

    /// Sorts if need be, and adds up what isn't yet.
    fn add_up(&mut self) {
        let place = |row: &PriceRow<O::Key>| (row.time, row.key.clone());
        let from = self.added.saturating_sub(1);
        if !self.rows[from..].is_sorted_by_key(place) {
            // Stable: rows without a difference in their keys stay as they came.
            self.rows.sort_by(|one, other| (one.time, &one.key).cmp(&(other.time, &other.key)));
            (self.area, self.added) = (0.0, 0);
        }
        let from = self.added.saturating_sub(1);
        for pair in self.rows[from..].windows(2) {
            let stood = i128::from(pair[1].time) - i128::from(pair[0].time);
            if stood > 0 {
                self.area += pair[0].price * stood as f64;
            }
        }
        self.added = self.rows.len();
    }
}

impl<O: OrderKeys> Accumulator for TwapAccumulator<O> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [price, time, order @ ..] = values else { return exec_err!("twap has a price and a time") };
        let price = price.as_primitive::<Float64Type>();
        let DataType::Timestamp(TimeUnit::Nanosecond, _) = time.data_type() else {
            return internal_err!("twap has a time in nanoseconds, not a {}", time.data_type());
        };
        let time = time.as_primitive::<TimestampNanosecondType>();
        let keys = if order.is_empty() { None } else { Some(self.keys.batch(order)?) };
        let nothing = if keys.is_none() { Some(O::from_bytes(&[0; 32])?) } else { None };
        for row in 0..price.len() {
            if price.is_null(row) || time.is_null(row) {
                continue;
            }
            let Some(key) = keys.as_ref().map(|keys| O::key(keys, row)).or_else(|| nothing.clone()) else { continue };
            self.push(time.value(row), key, price.value(row));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.add_up();
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else {
            return Ok(ScalarValue::Float64(None));
        };
        let whole = (i128::from(last.time) - i128::from(first.time)) as f64;
        Ok(ScalarValue::from(if whole > 0.0 { self.area / whole } else { last.price }))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.capacity() * size_of::<PriceRow<O::Key>>() + self.heap_size
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let times = Int64Array::from_iter_values(self.rows.iter().map(|row| row.time));
        let prices = Float64Array::from_iter_values(self.rows.iter().map(|row| row.price));
        let keys = BinaryArray::from_iter_values(self.rows.iter().map(|row| O::to_bytes(&row.key)));
        let list = |values: ArrayRef| -> Result<ScalarValue> {
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, values, None)?)))
        };
        Ok(vec![list(Arc::new(times))?, list(Arc::new(prices))?, list(Arc::new(keys))?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [times, prices, keys] = states else { return exec_err!("twap has three state columns") };
        let (times, prices, keys) = (times.as_list::<i32>(), prices.as_list::<i32>(), keys.as_list::<i32>());
        for group in 0..times.len() {
            let (times, prices, keys) = (times.value(group), prices.value(group), keys.value(group));
            let (times, prices) = (times.as_primitive::<Int64Type>(), prices.as_primitive::<Float64Type>());
            let keys = keys.as_binary::<i32>();
            for row in 0..times.len() {
                self.push(times.value(row), O::from_bytes(keys.value(row))?, prices.value(row));
            }
        }
        Ok(())
    }
}
