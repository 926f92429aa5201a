//! `first(x ORDER BY …)` and `last(x ORDER BY …)`: the value of the first or last row of a group.
//!
//! Invariants:
//! - by position: a null in the first or last row is the answer, unless the call says `IGNORE NULLS`,
//! - no rows gives null,
//! - rows that tie in the `ORDER BY` are taken in the order in which they arrive; [`super::RowOrderRule`] adds the row
//!   position of the table as the last sort key, so that this is the order of the table for any number of streams,
//! - without an `ORDER BY` the rule supplies the row position alone. Where there is none to supply (rows from a join, a
//!   union, another aggregate), the call is refused when the query is planned, because the order in which rows reach an
//!   aggregate is then an accident of execution. As window functions both follow the order of the frame.
//!
//! DataFusion's own `last_value` was not used because within a batch it gives the first of tied rows.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, new_empty_array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature, Volatility,
};

use super::order_keys::{IntegerKeys, OrderKeys, RowKeys};

/// `first` or `last`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RowPick {
    name: &'static str,
    signature: Signature,
}

const FIRST: &str = "first";
const LAST: &str = "last";

impl RowPick {
    pub(super) fn first() -> Self {
        Self::new(FIRST)
    }

    pub(super) fn last() -> Self {
        Self::new(LAST)
    }

    fn new(name: &'static str) -> Self {
        Self { name, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn picks_last(&self) -> bool {
        self.name == LAST
    }

    /// What the call asks for, with the types and directions of its `ORDER BY`.
    fn request(&self, args: &AccumulatorArgs) -> Result<Request> {
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT …)", self.name);
        }
        Ok(Request {
            pick: Pick { last: self.picks_last(), ignore_nulls: args.ignore_nulls },
            of: args.return_field.data_type().clone(),
            key_types: args.order_bys.iter().map(|order| order.expr.data_type(args.schema)).collect::<Result<_>>()?,
            key_options: args.order_bys.iter().map(|order| order.options).collect(),
        })
    }

    fn of_frame(&self, args: &AccumulatorArgs, sliding: bool) -> Result<FramePick> {
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT …)", self.name);
        }
        Ok(FramePick {
            pick: Pick { last: self.picks_last(), ignore_nulls: args.ignore_nulls },
            null: ScalarValue::try_new_null(args.return_field.data_type())?,
            sliding,
            kept: VecDeque::new(),
            added: 0,
            removed: 0,
        })
    }
}

impl AggregateUDFImpl for RowPick {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x] => Ok(x.clone()),
            _ => plan_err!("{} takes one argument", self.name),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(args.return_field.as_ref().clone().with_name(format_state_name(args.name, "value"))),
            Arc::new(Field::new(format_state_name(args.name, "order_key"), DataType::Binary, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.order_bys.is_empty() {
            return Ok(Box::new(self.of_frame(&args, false)?));
        }
        let request = self.request(&args)?;
        if IntegerKeys::supports(&request.key_types) {
            return Ok(Box::new(SinglePick { groups: request.integer_groups() }));
        }
        Ok(Box::new(SinglePick { groups: request.row_groups()? }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(self.of_frame(&args, true)?))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.order_bys.is_empty() && !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let request = self.request(&args)?;
        if IntegerKeys::supports(&request.key_types) {
            return Ok(Box::new(request.integer_groups()));
        }
        Ok(Box::new(request.row_groups()?))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _satisfied: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let name = self.name;
        Some(Box::new(move |call, _info| {
            if call.params.order_by.is_empty() {
                return plan_err!(
                    "{name}(x) needs an ORDER BY here, as in {name}(x ORDER BY ts): these rows have no order of their own"
                );
            }
            Ok(Expr::AggregateFunction(call))
        }))
    }

    fn supports_null_handling_clause(&self) -> bool {
        true
    }
}

/// One call of `first` or `last` with an `ORDER BY`.
struct Request {
    pick: Pick,
    of: DataType,
    key_types: Vec<DataType>,
    key_options: Vec<SortOptions>,
}

impl Request {
    fn integer_groups(self) -> PickGroups<IntegerKeys> {
        PickGroups::new(self.pick, self.of, IntegerKeys::new(self.key_options))
    }

    fn row_groups(self) -> Result<PickGroups<RowKeys>> {
        let keys = RowKeys::new(&self.key_types, &self.key_options)?;
        Ok(PickGroups::new(self.pick, self.of, keys))
    }
}

/// Which of two rows wins.
#[derive(Debug, Clone, Copy)]
struct Pick {
    last: bool,
    ignore_nulls: bool,
}

impl Pick {
    /// Whether a row that compares so with the one held, and arrived after it, takes its place.
    fn replaces(self, later: Ordering) -> bool {
        if self.last { later.is_ge() } else { later.is_lt() }
    }
}

/// The row held for one group.
#[derive(Debug, Clone)]
struct Held<K> {
    key: K,
    value: ScalarValue,
}

/// All groups at once. Each batch is first reduced to one row per group, so values are copied once per group and batch.
#[derive(Debug)]
struct PickGroups<O: OrderKeys> {
    pick: Pick,
    of: DataType,
    keys: O,
    held: Vec<Option<Held<O::Key>>>,
    /// Bytes of keys and values on the heap.
    heap_size: usize,
    /// The best row of each group in the current batch, `usize::MAX` for none; kept to be used again.
    best: Vec<usize>,
}

impl<O: OrderKeys> PickGroups<O> {
    fn new(pick: Pick, of: DataType, keys: O) -> Self {
        Self { pick, of, keys, held: Vec::new(), heap_size: 0, best: Vec::new() }
    }

    /// The groups that occur in a batch, with the best row of each left in `self.best`.
    fn reduce(
        &mut self,
        batch: &O::Batch,
        group_indices: &[usize],
        takes_part: impl Fn(usize) -> bool,
        total_num_groups: usize,
    ) -> Vec<usize> {
        self.held.resize(total_num_groups, None);
        self.best.resize(total_num_groups, usize::MAX);
        let mut touched = Vec::new();
        for (row, &group) in group_indices.iter().enumerate() {
            if !takes_part(row) {
                continue;
            }
            let best = &mut self.best[group];
            if *best == usize::MAX {
                touched.push(group);
                *best = row;
            } else if self.pick.replaces(O::compare(batch, row, *best)) {
                *best = row;
            }
        }
        touched
    }

    fn offer(&mut self, group: usize, key: O::Key, values: &ArrayRef, row: usize) -> Result<()> {
        if let Some(held) = &self.held[group] {
            if !self.pick.replaces(key.cmp(&held.key)) {
                return Ok(());
            }
            self.heap_size -= O::heap_size(&held.key) + held.value.size();
        }
        let mut value = ScalarValue::try_from_array(values, row)?;
        value.compact();
        self.heap_size += O::heap_size(&key) + value.size();
        self.held[group] = Some(Held { key, value });
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Option<Held<O::Key>>> {
        let taken = emit_to.take_needed(&mut self.held);
        self.best.truncate(self.held.len());
        let sizes = taken.iter().flatten().map(|held| O::heap_size(&held.key) + held.value.size());
        self.heap_size -= sizes.sum::<usize>();
        taken
    }

    fn values(&self, taken: &[Option<Held<O::Key>>]) -> Result<ArrayRef> {
        if taken.is_empty() {
            return Ok(new_empty_array(&self.of));
        }
        let null = ScalarValue::try_new_null(&self.of)?;
        ScalarValue::iter_to_array(taken.iter().map(|held| held.as_ref().map_or(&null, |held| &held.value).clone()))
    }
}

impl<O: OrderKeys> GroupsAccumulator for PickGroups<O> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let [x, order @ ..] = values else { return exec_err!("first and last have a value column") };
        let batch = self.keys.batch(order)?;
        let skip_nulls = self.pick.ignore_nulls;
        let takes_part = |row: usize| {
            opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) && !(skip_nulls && x.is_null(row))
        };
        for group in self.reduce(&batch, group_indices, takes_part, total_num_groups) {
            let row = std::mem::replace(&mut self.best[group], usize::MAX);
            self.offer(group, O::key(&batch, row), x, row)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let taken = self.take(emit_to);
        self.values(&taken)
    }

    /// The value and the key bytes; a group without rows has a null key.
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = self.take(emit_to);
        let keys: BinaryArray = taken.iter().map(|held| held.as_ref().map(|held| O::to_bytes(&held.key))).collect();
        Ok(vec![self.values(&taken)?, Arc::new(keys)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        let [x, keys] = values else { return exec_err!("first and last have two state columns") };
        self.held.resize(total_num_groups, None);
        for (row, (&group, key)) in group_indices.iter().zip(keys.as_binary::<i32>()).enumerate() {
            if let Some(key) = key {
                self.offer(group, O::from_bytes(key)?, x, row)?;
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let [x, order @ ..] = values else { return exec_err!("first and last have a value column") };
        let batch = self.keys.batch(order)?;
        let keys: BinaryArray = (0..x.len())
            .map(|row| {
                let wanted = opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                    && !(self.pick.ignore_nulls && x.is_null(row));
                wanted.then(|| O::to_bytes(&O::key(&batch, row)))
            })
            .collect();
        Ok(vec![Arc::clone(x), Arc::new(keys)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.held.capacity() * size_of::<Option<Held<O::Key>>>()
            + self.best.capacity() * size_of::<usize>()
            + self.heap_size
    }
}

/// A query without GROUP BY, as one group.
#[derive(Debug)]
struct SinglePick<O: OrderKeys> {
    groups: PickGroups<O>,
}

impl<O: OrderKeys> SinglePick<O> {
    /// Makes the one group exist even if no row came.
    fn touch(&mut self) {
        self.groups.held.resize_with(1, || None);
    }
}

impl<O: OrderKeys> Accumulator for SinglePick<O> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |column| column.len());
        self.groups.update_batch(values, &vec![0; rows], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.touch();
        ScalarValue::try_from_array(&self.groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.touch();
        let columns = self.groups.state(EmitTo::All)?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |column| column.len());
        self.groups.merge_batch(states, &vec![0; rows], 1)
    }
}

/// A window frame, whose rows come in the order of the frame.
///
/// Holds the rows that can still be the answer with their positions; `added` and `removed` count rows of the frame.
#[derive(Debug)]
struct FramePick {
    pick: Pick,
    null: ScalarValue,
    /// Whether rows leave at the front; if not, `first` needs no successor.
    sliding: bool,
    kept: VecDeque<(u64, ScalarValue)>,
    added: u64,
    removed: u64,
}

impl Accumulator for FramePick {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(x) = values.first() else { return exec_err!("first and last have a value column") };
        for row in 0..x.len() {
            let position = self.added;
            self.added += 1;
            if self.pick.ignore_nulls && x.is_null(row) {
                continue;
            }
            if self.pick.last {
                self.kept.clear();
            } else if !self.sliding && !self.kept.is_empty() {
                continue;
            }
            self.kept.push_back((position, ScalarValue::try_from_array(x, row)?));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.removed += values.first().map_or(0, |column| column.len() as u64);
        while self.kept.front().is_some_and(|(position, _)| *position < self.removed) {
            self.kept.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let answer = if self.pick.last { self.kept.back() } else { self.kept.front() };
        Ok(answer.map_or(&self.null, |(_, value)| value).clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.kept.capacity() * size_of::<(u64, ScalarValue)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        exec_err!("first and last without ORDER BY cannot be split over streams")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        exec_err!("first and last without ORDER BY cannot be split over streams")
    }
}
