//! Aggregates that are computed from others, which several of them share.
//!
//! | | from |
//! | --- | --- |
//! | `sum(x + c)`, `sum(x - c)`, `sum(c - x)` of whole numbers of at most 32 bits and a constant | `sum(x)` and `count(x)` |
//! | `avg(x)` of floats beside `sum(x)` | `sum(x)` and `count(x)` |
//!
//! Sums that don't fit are refused, and DataFusion computes them as they are written.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::AggregateFunction as AggregateCall;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use splay_engine::{Aggregate, AggregateFunction, BinaryOp, Expr as TickExpr};

use super::convert::UnsupportedExpr;
use super::recognise::Recogniser;

/// Aggregates to compute, and the expressions of those that are asked for over them.
pub(super) struct SharedAggregates {
    pub computed: Vec<Aggregate>,
    pub outputs: Vec<TickExpr>,
}

impl Recogniser<'_> {
    /// The aggregates of calls with results of some types. First and last without an order of their own need rows that `have_order`.
    pub(super) fn shared_aggregates(
        &mut self,
        calls: &[Expr],
        types: &[DataType],
        schema: &DFSchema,
        have_order: bool,
    ) -> Result<SharedAggregates, UnsupportedExpr> {
        let mut all = SharedAggregates { computed: Vec::with_capacity(calls.len()), outputs: Vec::new() };
        for (call, data_type) in calls.iter().zip(types) {
            let moved = moved_sum(call, schema);
            let of_call = moved.as_ref().map_or(call, |moved| &moved.sum);
            let aggregate = self.call(of_call, schema, data_type, have_order)?;
            let output = match moved {
                None => all.add(aggregate),
                Some(MovedSum { constant, op, is_first, .. }) => {
                    let count = all.add_same(count_of(&aggregate), self);
                    let sum = all.add_same(aggregate, self);
                    let moved = binary(BinaryOp::Multiply, self.convert(&constant, schema)?, count);
                    if is_first { binary(op, moved, sum) } else { binary(op, sum, moved) }
                }
            };
            all.outputs.push(output);
        }
        self.divide_sums(&mut all);
        Ok(all)
    }

    /// Replaces averages by sums that are computed anyway.
    fn divide_sums(&self, all: &mut SharedAggregates) {
        for place in 0..all.computed.len() {
            let average = &all.computed[place];
            if average.function != AggregateFunction::Average || average.data_type != DataType::Float64 {
                continue;
            }
            let sum = Aggregate { function: AggregateFunction::Sum, ..average.clone() };
            let Some(sum) = all.place_of(&sum, self) else { continue };
            let count = count_of(average);
            let mean = |count: TickExpr| {
                let count = TickExpr::Cast(Box::new(count), DataType::Float64);
                binary(BinaryOp::Divide, TickExpr::Column(sum), count)
            };
            let mean = match all.place_of(&count, self) {
                Some(known) => mean(TickExpr::Column(known)),
                None => {
                    all.computed[place] = count;
                    mean(TickExpr::Column(place))
                }
            };
            let is_average = |output: &&mut TickExpr| matches!(**output, TickExpr::Column(of) if of == place);
            all.outputs.iter_mut().filter(is_average).for_each(|output| *output = mean.clone());
        }
    }
}

impl SharedAggregates {
    /// Adds an aggregate, and returns its column.
    fn add(&mut self, aggregate: Aggregate) -> TickExpr {
        self.computed.push(aggregate);
        TickExpr::Column(self.computed.len() - 1)
    }

    /// Adds an aggregate if there is none like it, and returns its column.
    fn add_same(&mut self, aggregate: Aggregate, recogniser: &Recogniser<'_>) -> TickExpr {
        match self.place_of(&aggregate, recogniser) {
            Some(place) => TickExpr::Column(place),
            None => self.add(aggregate),
        }
    }

    fn place_of(&self, aggregate: &Aggregate, recogniser: &Recogniser<'_>) -> Option<usize> {
        let same = |one, other| recogniser.constants.are_same(one, other);
        self.computed.iter().position(|other| other.is_same_by(aggregate, &same))
    }
}

/// How many values an aggregate of numbers has.
fn count_of(aggregate: &Aggregate) -> Aggregate {
    let without_cast = |argument: &TickExpr| match argument {
        TickExpr::Cast(inner, _) => inner.as_ref().clone(),
        other => other.clone(),
    };
    let arguments = aggregate.arguments.iter().map(without_cast).collect();
    Aggregate { function: AggregateFunction::Count, arguments, data_type: DataType::Int64, ..aggregate.clone() }
}

fn binary(op: BinaryOp, left: TickExpr, right: TickExpr) -> TickExpr {
    TickExpr::Binary(op, Box::new(left), Box::new(right))
}

/// A sum of values that a constant is added to, or subtracted from.
struct MovedSum {
    /// The sum of the values alone.
    sum: Expr,
    constant: Expr,
    op: BinaryOp,
    /// The constant is the first operand.
    is_first: bool,
}

fn moved_sum(call: &Expr, schema: &DFSchema) -> Option<MovedSum> {
    let call: &AggregateCall = match call {
        Expr::Alias(alias) => return moved_sum(&alias.expr, schema),
        Expr::AggregateFunction(call) if call.func.name() == "sum" && !call.params.distinct => call,
        _ => return None,
    };
    let [Expr::BinaryExpr(BinaryExpr { left, op, right })] = call.params.args.as_slice() else { return None };
    let op = match op {
        Operator::Plus => BinaryOp::Add,
        Operator::Minus => BinaryOp::Subtract,
        _ => return None,
    };
    let (value, constant, is_first) = match (left.as_ref(), right.as_ref()) {
        (value, constant @ Expr::Literal(_, _)) => (value, constant, false),
        (constant @ Expr::Literal(_, _), value) => (value, constant, true),
        _ => return None,
    };
    // Of these no sum with a constant is out of range that the sum of all isn't.
    let Expr::Cast(cast) = value else { return None };
    let is_narrow =
        |data_type: &DataType| data_type.is_integer() && data_type.primitive_width().is_some_and(|bytes| bytes <= 4);
    if *cast.field.data_type() != DataType::Int64
        || !cast.expr.get_type(schema).is_ok_and(|data_type| is_narrow(&data_type))
        || !matches!(constant.get_type(schema), Ok(DataType::Int64))
    {
        return None;
    }
    let mut sum = call.clone();
    sum.params.args = vec![value.clone()];
    Some(MovedSum { sum: Expr::AggregateFunction(sum), constant: constant.clone(), op, is_first })
}
