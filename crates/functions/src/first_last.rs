//! `first(x ORDER BY …)` and `last(x ORDER BY …)`: the value of the first or last row of a group.
//!
//! Invariants:
//! - by position: a null in the first or last row is the answer, unless the call says `IGNORE NULLS`,
//! - no rows gives null,
//! - rows that tie in the `ORDER BY` are taken in the order in which they arrive; [`RowOrderRule`](crate::RowOrderRule) adds the row
//!   position of the table as the last sort key, so that this is the order of the table for any number of streams,
//! - without an `ORDER BY` the rule supplies the row position alone. Where there is none to supply (rows from a join, a
//!   union, another aggregate), the call is refused when the query is planned, because the order in which rows reach an
//!   aggregate is then an accident of execution. As window functions both follow the order of the frame.
//!
//! DataFusion's own `last_value` was not used because within a batch it gives the first of tied rows.

use std::collections::VecDeque;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Expr, GroupsAccumulator, Signature, Volatility};

use crate::order_keys::{IntegerKeys, RowKeys};
use crate::pick_groups::{PickGroups, PickRule, SinglePick};

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
            pick: PickRule { last: self.picks_last(), ignore_nulls: args.ignore_nulls },
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
            pick: PickRule { last: self.picks_last(), ignore_nulls: args.ignore_nulls },
            null: ScalarValue::try_new_null(args.return_field.data_type())?,
            sliding,
            candidates: VecDeque::new(),
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
            return Ok(Box::new(SinglePick::new(request.integer_groups())));
        }
        Ok(Box::new(SinglePick::new(request.row_groups()?)))
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
            if call.params.distinct {
                return not_impl_err!("{name}(DISTINCT …)");
            }
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
    pick: PickRule,
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

/// A window frame, whose rows come in the order of the frame.
///
/// Holds the rows that can still be the answer with their positions; `added` and `removed` count rows of the frame.
#[derive(Debug)]
struct FramePick {
    pick: PickRule,
    null: ScalarValue,
    /// Whether rows leave at the front; if not, `first` needs no successor.
    sliding: bool,
    candidates: VecDeque<(u64, ScalarValue)>,
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
                self.candidates.clear();
            } else if !self.sliding && !self.candidates.is_empty() {
                continue;
            }
            self.candidates.push_back((position, ScalarValue::try_from_array(x, row)?));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.removed += values.first().map_or(0, |column| column.len() as u64);
        while self.candidates.front().is_some_and(|(position, _)| *position < self.removed) {
            self.candidates.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let answer = if self.pick.last { self.candidates.back() } else { self.candidates.front() };
        Ok(answer.map_or(&self.null, |(_, value)| value).clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.candidates.capacity() * size_of::<(u64, ScalarValue)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        exec_err!("first and last without ORDER BY cannot be split over streams")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        exec_err!("first and last without ORDER BY cannot be split over streams")
    }
}
