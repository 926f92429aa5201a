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

/// Calls up to which each aggregate is compared with all others.
const CALLS_MAX: usize = 256;

/// The aggregates to compute, and the expressions over them that give the requested ones.
#[derive(Default)]
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
        let are_few = calls.len() <= CALLS_MAX;
        let moved: Vec<_> = calls.iter().map(|call| moved_sum(call, schema).filter(|_| are_few)).collect();
        let mut aggregates = Vec::with_capacity(calls.len());
        for ((call, moved), data_type) in calls.iter().zip(&moved).zip(types) {
            let call = moved.as_ref().map_or(call, |moved| &moved.sum);
            aggregates.push(self.call(call, schema, data_type, have_order)?);
        }
        let sum_beside = |mean| if are_few { self.sum_beside(mean, &aggregates) } else { None };
        let sums: Vec<Option<Aggregate>> = aggregates.iter().map(sum_beside).collect();
        let are_shared = moved.iter().any(Option::is_some) || sums.iter().any(Option::is_some);
        let mut all = SharedAggregates::default();
        for ((aggregate, moved), sum) in aggregates.into_iter().zip(moved).zip(sums) {
            let output = match (moved, sum) {
                (Some(MovedSum { constant, op, is_first, .. }), _) => {
                    let count = self.shared(count_of(&aggregate), &mut all);
                    let sum = self.shared(aggregate, &mut all);
                    let moved = binary(BinaryOp::Multiply, self.convert(&constant, schema)?, count);
                    if is_first { binary(op, moved, sum) } else { binary(op, sum, moved) }
                }
                (None, Some(sum)) => {
                    let (count, sum) = (self.shared(count_of(&sum), &mut all), self.shared(sum, &mut all));
                    binary(BinaryOp::Divide, sum, TickExpr::Cast(Box::new(count), DataType::Float64))
                }
                (None, None) if are_shared => self.shared(aggregate, &mut all),
                (None, None) => all.add(aggregate),
            };
            all.outputs.push(output);
        }
        Ok(all)
    }

    /// The sum of the same values, if an aggregate is a mean of floats and the sum is computed anyway.
    fn sum_beside(&self, mean: &Aggregate, aggregates: &[Aggregate]) -> Option<Aggregate> {
        if mean.function != AggregateFunction::Average || mean.data_type != DataType::Float64 {
            return None;
        }
        let sum = Aggregate { function: AggregateFunction::Sum, ..mean.clone() };
        aggregates.iter().any(|other| self.are_same(other, &sum)).then_some(sum)
    }

    /// The column of an aggregate, which is added unless there is one like it.
    fn shared(&self, aggregate: Aggregate, all: &mut SharedAggregates) -> TickExpr {
        match all.computed.iter().position(|other| self.are_same(other, &aggregate)) {
            Some(place) => TickExpr::Column(place),
            None => all.add(aggregate),
        }
    }

    fn are_same(&self, one: &Aggregate, other: &Aggregate) -> bool {
        one.is_same_by(other, &|one, other| self.constants.are_same(one, other))
    }
}

impl SharedAggregates {
    /// Adds an aggregate, and returns its column.
    fn add(&mut self, aggregate: Aggregate) -> TickExpr {
        self.computed.push(aggregate);
        TickExpr::Column(self.computed.len() - 1)
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
