//! DataFusion's aggregates as the engine calls them: those without an engine kernel.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue, not_impl_err};
use datafusion::logical_expr::expr::AggregateFunction as AggregateCall;
use datafusion::logical_expr::{Accumulator, EmitTo, Expr, ExprSchemable, GroupsAccumulator};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use splay_engine::{AggregateKernel, Error, KernelAccumulator, Result};

use super::convert::{UnsupportedExpr, unknown};

/// An aggregate of DataFusion with the types of its arguments.
#[derive(Debug)]
pub(super) struct AggregateOf {
    expr: Arc<AggregateFunctionExpr>,
    arguments: Vec<DataType>,
}

impl AggregateOf {
    /// The aggregate of a call with the type of its result; its arguments are those of the call.
    pub fn new(call: &AggregateCall, schema: &DFSchema, result: &DataType) -> Result<AggregateOf, UnsupportedExpr> {
        let (name, params) = (call.func.name(), &call.params);
        if depends_on_order(name) {
            return unknown(format!("the aggregate {name}, whose result depends on the order of the rows"));
        }
        if !params.order_by.is_empty() && !call.func.supports_within_group_clause() {
            return unknown(format!("the aggregate {name} with an ORDER BY in the call"));
        }
        let failed = |error: DataFusionError| UnsupportedExpr(format!("the aggregate {name}: {error}"));
        let types =
            params.args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let fields = types.iter().enumerate();
        let fields: Vec<Field> =
            fields.map(|(number, of)| Field::new(format!("a{number}"), of.clone(), true)).collect();
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> = Vec::with_capacity(types.len());
        for (number, arg) in params.args.iter().enumerate() {
            exprs.push(match arg {
                Expr::Literal(value, None) => Arc::new(Literal::new(value.clone())),
                arg if !arg.any_column_refs() => return unknown(format!("{name} of a constant that isn't a literal")),
                _ => Arc::new(Column::new(&format!("a{number}"), number)),
            });
        }
        let mut order = Vec::with_capacity(params.order_by.len());
        for key in &params.order_by {
            let Some(place) = params.args.iter().position(|arg| *arg == key.expr) else {
                return unknown(format!("the aggregate {name} ordered by something other than its arguments"));
            };
            let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
            order.push(PhysicalSortExpr { expr: Arc::clone(&exprs[place]), options });
        }
        let expr = AggregateExprBuilder::new(Arc::clone(&call.func), exprs)
            .schema(Arc::new(Schema::new(fields)))
            .alias(name)
            .order_by(order)
            .with_distinct(params.distinct)
            .build()
            .map_err(failed)?;
        if expr.field().data_type() != result {
            return unknown(format!("the aggregate {name} with a result of type {result}"));
        }
        Ok(AggregateOf { expr: Arc::new(expr), arguments: types })
    }
}

/// Whether the result depends on the order of the rows.
fn depends_on_order(name: &str) -> bool {
    matches!(
        name,
        "any_value"
            | "array_agg"
            | "first"
            | "first_value"
            | "grouping"
            | "last"
            | "last_value"
            | "nth_value"
            | "string_agg"
            | "twap"
    )
}

impl AggregateKernel for AggregateOf {
    fn name(&self) -> &str {
        self.expr.fun().name()
    }

    fn accumulator(&self) -> Result<Box<dyn KernelAccumulator>> {
        let state: Box<dyn GroupsAccumulator> = if self.expr.groups_accumulator_supported() {
            self.expr.create_groups_accumulator().map_err(failed)?
        } else {
            // An error appears here instead of at the first row.
            self.expr.create_accumulator().map_err(failed)?;
            Box::new(StatePerGroup { expr: Arc::clone(&self.expr), states: Vec::new(), bytes: 0 })
        };
        let mut state = State { state, arguments: self.arguments.clone() };
        state.expect_empty_groups()?;
        Ok(Box::new(state))
    }
}

/// A state for each group, for an aggregate without a `GroupsAccumulator`. Rows of one group are passed without a copy.
struct StatePerGroup {
    expr: Arc<AggregateFunctionExpr>,
    states: Vec<Box<dyn Accumulator>>,
    bytes: usize,
}

impl StatePerGroup {
    fn grow(&mut self, total: usize) -> Result<(), DataFusionError> {
        while self.states.len() < total {
            let state = self.expr.create_accumulator()?;
            self.bytes += state.size();
            self.states.push(state);
        }
        Ok(())
    }

    /// Calls `take_in` with each group and the rows of it.
    fn by_group(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        mut take_in: impl FnMut(&mut dyn Accumulator, &[ArrayRef]) -> Result<(), DataFusionError>,
    ) -> Result<(), DataFusionError> {
        let mut order: Vec<u32> = (0u32..).take(groups.len()).collect();
        let ordered;
        let values = if groups.is_sorted() {
            values
        } else {
            order.sort_by_key(|row| groups[*row as usize]);
            let rows = UInt32Array::from(order.clone());
            ordered = values.iter().map(|array| take(array, &rows, None)).collect::<Result<Vec<_>, _>>()?;
            &ordered
        };
        let mut start = 0;
        for rows in order.chunk_by(|one, other| groups[*one as usize] == groups[*other as usize]) {
            let state = &mut self.states[groups[rows[0] as usize]];
            let values: Vec<ArrayRef> = values.iter().map(|array| array.slice(start, rows.len())).collect();
            let before = state.size();
            take_in(state.as_mut(), &values)?;
            self.bytes = (self.bytes + state.size()).saturating_sub(before);
            start += rows.len();
        }
        Ok(())
    }
}

impl GroupsAccumulator for StatePerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        _filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<(), DataFusionError> {
        self.grow(total)?;
        self.by_group(values, groups, |state, values| state.update_batch(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), DataFusionError> {
        self.grow(total)?;
        self.by_group(states, groups, |state, values| state.merge_batch(values))
    }

    fn evaluate(&mut self, _emit_to: EmitTo) -> Result<ArrayRef, DataFusionError> {
        let values = self.states.iter_mut().map(|state| state.evaluate()).collect::<Result<Vec<_>, _>>()?;
        match values.is_empty() {
            true => Ok(new_empty_array(self.expr.field().data_type())),
            false => ScalarValue::iter_to_array(values),
        }
    }

    fn state(&mut self, _emit_to: EmitTo) -> Result<Vec<ArrayRef>, DataFusionError> {
        let states = self.states.iter_mut().map(|state| state.state()).collect::<Result<Vec<_>, _>>()?;
        let width = states.first().map_or(0, Vec::len);
        let column = |number: usize| ScalarValue::iter_to_array(states.iter().map(|state| state[number].clone()));
        (0..width).map(column).collect()
    }

    fn convert_to_state(
        &self,
        _values: &[ArrayRef],
        _filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>, DataFusionError> {
        not_impl_err!("states of single rows")
    }

    fn size(&self) -> usize {
        self.bytes
    }
}

/// The state of an aggregate.
struct State {
    state: Box<dyn GroupsAccumulator>,
    arguments: Vec<DataType>,
}

impl State {
    /// Makes room for groups, which may have no rows yet.
    fn grow(&mut self, total: usize) -> Result<()> {
        self.state.update_batch(&self.nothing(), &[], None, total).map_err(failed)
    }

    /// Makes the state record which groups have values: without a filter DataFusion assumes that each group has a row.
    fn expect_empty_groups(&mut self) -> Result<()> {
        let filter = BooleanArray::from(Vec::<bool>::new());
        self.state.update_batch(&self.nothing(), &[], Some(&filter), 0).map_err(failed)
    }

    fn nothing(&self) -> Vec<ArrayRef> {
        self.arguments.iter().map(new_empty_array).collect()
    }
}

impl KernelAccumulator for State {
    fn update(&mut self, arguments: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.state.update_batch(arguments, groups, None, total).map_err(failed)
    }

    fn merge(&mut self, other: Box<dyn KernelAccumulator>, groups: &[usize], total: usize) -> Result<()> {
        let other = other.into_any().downcast::<State>();
        let mut other = other.map_err(|_| Error::Unsupported("a merge of two kinds of aggregates".to_owned()))?;
        if groups.is_empty() {
            return Ok(());
        }
        other.grow(groups.len())?;
        let state = other.state.state(EmitTo::All).map_err(failed)?;
        self.state.merge_batch(&state, groups, total).map_err(failed)
    }

    fn finish(mut self: Box<Self>, total: usize) -> Result<ArrayRef> {
        self.grow(total)?;
        let result = self.state.evaluate(EmitTo::All).map_err(failed)?;
        if result.len() == total { Ok(result) } else { Err(Error::Function("a result of another length".to_owned())) }
    }

    fn heap_bytes(&self) -> usize {
        self.state.size()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn failed(error: DataFusionError) -> Error {
    Error::Function(error.to_string())
}
