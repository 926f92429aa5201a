//! Groupings in two halves: aggregates over each slice, then aggregates over the slices' results.
//!
//! | Aggregate | of each slice | of all |
//! | --- | --- | --- |
//! | `count` | `count` | `sum`, 0 where there is none |
//! | `sum`, `min`, `max` | the same | the same |
//! | `avg` | `sum` of floats, `count` | their quotient |
//!
//! Sums of floats are formed in another order than in one go. Sums of decimals, whose type grows, and all other aggregates aren't split.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit};

/// Aggregates whose answer doesn't depend on the order of the rows.
const UNORDERED: [&str; 5] = ["count", "sum", "min", "max", "avg"];

/// The two halves of a grouping.
pub(super) struct TwoPhaseGrouping {
    /// The part of the plan that each slice computes.
    pub(super) first: LogicalPlan,
    groups: usize,
    /// The final aggregates, over the columns of the first phase that follow its groups.
    last: Vec<FinalAggregate>,
    original: Aggregate,
}

enum FinalAggregate {
    Count(usize),
    Sum(usize),
    /// Aggregated by the same function.
    Same(AggregateFunction, usize),
    Mean(usize, usize),
}

/// Whether the aggregates of a grouping don't depend on the order of the rows.
pub(super) fn is_unordered(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().all(|expr| match expr.clone().unalias() {
        Expr::AggregateFunction(call) => UNORDERED.contains(&call.func.name()) && call.params.order_by.is_empty(),
        _ => false,
    })
}

/// The halves of a grouping, or the reason why it can't be split.
pub(super) fn halves(aggregate: &Aggregate) -> Result<Result<TwoPhaseGrouping, String>> {
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Ok(Err("grouping sets aren't split".to_owned()));
    }
    let schema = aggregate.input.schema();
    let mut first: Vec<Expr> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut place = |call: Expr| match first.iter().position(|partial| partial.clone().unalias() == call) {
        Some(place) => place,
        None => {
            // The name of a sum of floats doesn't tell it from that of the whole numbers that they are made of.
            let name = call.schema_name().to_string();
            let is_taken = names.contains(&name);
            names.push(name);
            first.push(if is_taken { call.alias(format!("half {}", first.len())) } else { call });
            first.len() - 1
        }
    };
    let mut last = Vec::new();
    for expr in &aggregate.aggr_expr {
        let Expr::AggregateFunction(call) = expr.clone().unalias() else {
            return Ok(Err("an aggregate that isn't split".to_owned()));
        };
        let (name, params) = (call.func.name().to_owned(), &call.params);
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(Err(format!("{name} of distinct or ordered values isn't split")));
        }
        let data_type = Expr::AggregateFunction(call.clone()).get_type(schema)?;
        last.push(match name.as_str() {
            "count" => FinalAggregate::Count(place(Expr::AggregateFunction(call))),
            "sum" if matches!(data_type, DataType::Float64 | DataType::Int64 | DataType::UInt64) => {
                FinalAggregate::Sum(place(Expr::AggregateFunction(call)))
            }
            "min" | "max" => FinalAggregate::Same(call.clone(), place(Expr::AggregateFunction(call))),
            "avg" if data_type == DataType::Float64 && params.args[0].get_type(schema)?.is_numeric() => {
                if params.args[0].get_type(schema)?.is_decimal() {
                    return Ok(Err("means of decimals aren't split".to_owned()));
                }
                let filtered = |made: Expr| match made {
                    Expr::AggregateFunction(mut made) => {
                        made.params.filter = params.filter.clone();
                        Expr::AggregateFunction(made)
                    }
                    other => other,
                };
                let argument = params.args[0].clone();
                let total = place(filtered(sum(cast(argument.clone(), DataType::Float64))));
                FinalAggregate::Mean(total, place(filtered(count(argument))))
            }
            name => return Ok(Err(format!("{name} isn't split"))),
        });
    }
    let plan = Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), first)?;
    let groups = aggregate.group_expr.len();
    Ok(Ok(TwoPhaseGrouping { first: LogicalPlan::Aggregate(plan), groups, last, original: aggregate.clone() }))
}

impl TwoPhaseGrouping {
    /// The grouping over the rows of all slices; `None` if a type would change.
    pub(super) fn over(&self, leaf: LogicalPlan) -> Result<Option<LogicalPlan>> {
        let of_leaf: Vec<Expr> = leaf.schema().columns().into_iter().map(Expr::Column).collect();
        let (groups, values) = of_leaf.split_at(self.groups);
        let mut calls: Vec<Expr> = Vec::new();
        let mut place = |call: Expr| match calls.iter().position(|existing| *existing == call) {
            Some(place) => place,
            None => {
                calls.push(call);
                calls.len() - 1
            }
        };
        let places: Vec<(usize, Option<usize>)> = self
            .last
            .iter()
            .map(|last| match last {
                FinalAggregate::Count(at) | FinalAggregate::Sum(at) => (place(sum(values[*at].clone())), None),
                FinalAggregate::Same(call, at) => {
                    let args = vec![values[*at].clone()];
                    let func = Arc::clone(&call.func);
                    (
                        place(Expr::AggregateFunction(AggregateFunction::new_udf(
                            func,
                            args,
                            false,
                            None,
                            Vec::new(),
                            None,
                        ))),
                        None,
                    )
                }
                FinalAggregate::Mean(total, number) => {
                    let total = place(sum(values[*total].clone()));
                    (total, Some(place(sum(values[*number].clone()))))
                }
            })
            .collect();
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(leaf), groups.to_vec(), calls)?);
        let columns: Vec<Expr> = grouped.schema().columns().into_iter().map(Expr::Column).collect();
        let (groups, made) = columns.split_at(self.groups);
        let schema = &self.original.schema;
        let mut outputs: Vec<Expr> = groups.to_vec();
        for (last, (place, number)) in self.last.iter().zip(&places) {
            let value = made[*place].clone();
            outputs.push(match (last, number) {
                (FinalAggregate::Count(_), _) => coalesce(vec![value, lit(0_i64)]),
                (FinalAggregate::Mean(..), Some(number)) => value / cast(made[*number].clone(), DataType::Float64),
                _ => value,
            });
        }
        let named = outputs.into_iter().enumerate().map(|(position, expr)| {
            let (qualifier, field) = schema.qualified_field(position);
            match &expr {
                Expr::Column(column) if *column == Column::new(qualifier.cloned(), field.name()) => expr,
                _ => expr.alias_qualified(qualifier.cloned(), field.name()),
            }
        });
        let plan = Projection::try_new(named.collect(), Arc::new(grouped))?;
        let types_agree = plan
            .schema
            .fields()
            .iter()
            .zip(schema.fields())
            .all(|(made, original)| made.data_type() == original.data_type());
        Ok(types_agree.then_some(LogicalPlan::Projection(plan)))
    }
}
