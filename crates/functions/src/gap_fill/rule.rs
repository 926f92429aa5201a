//! The rule that turns `GROUP BY time_bucket_gapfill(…)` into an aggregate over `time_bucket` with a [`GapFill`] on top.
//!
//! Works on one `SELECT` at a time, which is planned as a projection over windows and filters (`QUALIFY`, `HAVING`) over the
//! aggregate. Gaps are filled right above the aggregate, so everything else sees the made rows. Each call of `locf` and
//! `interpolate` becomes a column of the gap fill, under the name the call had.
//!
//! A call that remains is in a place where it has no meaning, and is refused.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::logical_plan::{Aggregate, Extension, LogicalPlan, Projection};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use super::bounds::{self, BoundKind, TimeBound};
use super::calls::{BucketArguments, Extent, FillKind, bucket_arguments, fill_argument};
use super::node::{Fill, GapFill, Grid};
use crate::arguments::is_text;
use crate::time_bucket::TimeBucket;
use crate::walk::{Walk, WalkPlan};

/// Plans gap fills. Register it once per session, after DataFusion's own analyzer rules.
#[derive(Debug)]
pub struct GapFillRule;

impl AnalyzerRule for GapFillRule {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.rewrite_steps_down(rewrite_select)?;
        let mut plan = rewritten.data;
        if rewritten.transformed {
            // Counts of made rows are null, which the plans above don't know yet.
            plan = plan.rewrite_steps_up(|plan| Ok(Transformed::yes(plan.recompute_schema()?)))?.data;
        }
        refuse_rest(&plan)?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "gap_fill"
    }
}

fn rewrite_select(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let Some(aggregate) = aggregate_of(&plan) else { return Ok(Transformed::no(plan)) };
    let mut calls = Vec::new();
    collect_calls(&plan, &mut calls)?;
    let filled = fill(aggregate, &calls)?;
    Ok(Transformed::yes(replace_aggregate(plan, &calls, filled)?))
}

/// The aggregate of a `SELECT`, if it groups by `time_bucket_gapfill`.
fn aggregate_of(select: &LogicalPlan) -> Option<&Aggregate> {
    let mut plan = match select {
        LogicalPlan::Projection(projection) => &*projection.input,
        other => other,
    };
    loop {
        plan = match plan {
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Window(window) => &window.input,
            LogicalPlan::Aggregate(aggregate) => {
                let fills = aggregate.group_expr.iter().any(|group| bucket_arguments(unaliased(group)).is_some());
                return fills.then_some(aggregate);
            }
            _ => return None,
        };
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// The different calls of `locf` and `interpolate` above the aggregate.
fn collect_calls(select: &LogicalPlan, calls: &mut Vec<Expr>) -> Result<()> {
    let mut plan = select;
    while !matches!(plan, LogicalPlan::Aggregate(_)) {
        for expr in plan.expressions() {
            expr.apply(|expr| {
                if fill_argument(expr).is_none() {
                    return Ok(TreeNodeRecursion::Continue);
                }
                if !calls.contains(expr) {
                    calls.push(expr.clone());
                }
                Ok(TreeNodeRecursion::Jump)
            })?;
        }
        let [input] = plan.inputs()[..] else { return plan_err!("a SELECT with a gap fill reads one plan") };
        plan = input;
    }
    Ok(())
}

/// The same `SELECT` over the filled aggregate.
fn replace_aggregate(plan: LogicalPlan, calls: &[Expr], filled: LogicalPlan) -> Result<LogicalPlan> {
    if matches!(plan, LogicalPlan::Aggregate(_)) {
        return Ok(filled);
    }
    let [input] = plan.inputs()[..] else { return plan_err!("a SELECT with a gap fill reads one plan") };
    let input = replace_aggregate(input.clone(), calls, filled)?;
    let exprs = plan.expressions().into_iter().map(|expr| replace_calls(expr, calls)).collect::<Result<_>>()?;
    plan.with_new_exprs(exprs, vec![input])
}

/// Puts columns in the place of calls. A column is called what the call was, so names derived from it don't change.
fn replace_calls(expr: Expr, calls: &[Expr]) -> Result<Expr> {
    let replaced = expr.transform_down(|expr| {
        if calls.contains(&expr) {
            let column = Expr::Column(Column::from_name(expr.schema_name().to_string()));
            return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
        }
        Ok(Transformed::no(expr))
    })?;
    Ok(replaced.data)
}

/// The aggregate, over `time_bucket`, with its gaps filled.
fn fill(aggregate: &Aggregate, calls: &[Expr]) -> Result<LogicalPlan> {
    let buckets: Vec<(usize, Extent, &[Expr])> = aggregate
        .group_expr
        .iter()
        .enumerate()
        .filter_map(|(position, group)| {
            bucket_arguments(unaliased(group)).map(|(extent, args)| (position, extent, args))
        })
        .collect();
    let [(time_position, extent, [width, time, rest @ ..])] = buckets[..] else {
        return plan_err!("a GROUP BY takes one time_bucket_gapfill(interval, time, …)");
    };
    let zone_first = match rest.first() {
        Some(third) => is_text(&third.get_type(aggregate.input.schema())?),
        None => false,
    };
    let placed = match extent {
        Extent::Series => BucketArguments::new(rest, zone_first),
        Extent::Whole => BucketArguments::of_sample(rest, is_null_literal),
    };
    let Some(placed) = placed else {
        return plan_err!("time_bucket_gapfill has too many arguments");
    };

    let grid: Vec<Expr> = [Some(width), placed.zone, placed.origin].into_iter().flatten().cloned().collect();
    let bucket = {
        let [width, place @ ..] = &grid[..] else { return plan_err!("time_bucket_gapfill has a width") };
        let args = [width, time].into_iter().chain(place).cloned().collect();
        ScalarUDF::from(TimeBucket::new()).call(args)
    };
    let origin = placed.origin.filter(|origin| extent == Extent::Whole && bounds::is_subquery(origin));
    let calendar = bounds::calendar_of_filters(&aggregate.input, time)?;
    let grid = match origin {
        // Where the first row of all says it, so does the first bucket.
        Some(_) => Grid { expressions: vec![width.clone()], extent, begins_with_rows: true, calendar },
        None if grid.iter().all(bounds::is_constant) => {
            Grid { expressions: grid, extent, begins_with_rows: false, calendar }
        }
        None => return plan_err!("the width, zone and origin of time_bucket_gapfill must be constants"),
    };
    let mut groups = aggregate.group_expr.clone();
    let name = groups[time_position].schema_name().to_string();
    groups[time_position] = bucket.alias(name);
    let bounds = range(&placed, time, aggregate, extent)?;
    let plain = Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregate.aggr_expr.clone())?;
    let keys = (0..plain.group_expr.len()).filter(|position| *position != time_position).collect();

    let input = with_fill_columns(LogicalPlan::Aggregate(plain), calls)?;
    let first_fill = input.schema().fields().len() - calls.len();
    let fills = calls.iter().enumerate().filter_map(|(position, call)| {
        fill_argument(call).map(|(kind, _)| Fill { column: first_fill + position, kind })
    });
    let node = GapFill::new(input, grid, bounds, time_position, keys, aggregate.group_expr.len(), fills.collect())?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// Whether an expression is a null literal, with or without casts and aliases around it.
pub fn is_null_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Alias(alias) => is_null_literal(&alias.expr),
        Expr::Cast(cast) => is_null_literal(&cast.expr),
        _ => false,
    }
}

/// The bounds that the call gives, and for the sides it leaves open those of `WHERE`.
fn range(placed: &BucketArguments, time: &Expr, aggregate: &Aggregate, extent: Extent) -> Result<Vec<TimeBound>> {
    let schema = aggregate.input.schema();
    let time_type = time.get_type(schema)?;
    let mut bounds = match extent {
        Extent::Series => bounds::of_filters(&aggregate.input, time),
        Extent::Whole => Vec::new(),
    };
    for (argument, kind) in [(placed.start, BoundKind::From), (placed.finish, BoundKind::Before)] {
        let Some(at) = argument.filter(|at| !is_null_literal(at)) else { continue };
        if !bounds::is_constant(at) {
            return plan_err!("the start and the finish of time_bucket_gapfill must be constants, not {at}");
        }
        bounds.retain(|bound| bound.kind.is_start() != kind.is_start());
        bounds.push(TimeBound { kind, at: at.clone() });
    }
    if let Some(bound) = bounds.iter().find(|bound| bounds::is_subquery(&bound.at)) {
        return plan_err!(
            "time_bucket_gapfill takes its range from constants, not from the sub-query {}: give start and finish in the call",
            bound.at
        );
    }
    let cast = |bound: TimeBound| Ok(TimeBound { at: bound.at.cast_to(&time_type, schema)?, ..bound });
    bounds.into_iter().map(cast).collect()
}

/// The columns of the aggregate, and behind them what is to be filled by `locf` and `interpolate`.
fn with_fill_columns(aggregate: LogicalPlan, calls: &[Expr]) -> Result<LogicalPlan> {
    if calls.is_empty() {
        return Ok(aggregate);
    }
    let schema = Arc::clone(aggregate.schema());
    let mut exprs: Vec<Expr> = schema.iter().map(Expr::from).collect();
    for call in calls {
        let Some((_, x)) = fill_argument(call) else { continue };
        if x.column_refs().into_iter().any(|column| !schema.has_column(column)) {
            return plan_err!("{call} must be over aggregates and group keys of its own SELECT");
        }
        exprs.push(x.clone().alias(call.schema_name().to_string()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(aggregate))?))
}

fn refuse_rest(plan: &LogicalPlan) -> Result<()> {
    plan.walk_steps(|node| {
        node.walk_expressions(|expr| {
            expr.apply(|expr| {
                if bucket_arguments(expr).is_some() {
                    return plan_err!(
                        "time_bucket_gapfill(…) must be a whole key of GROUP BY, outside GROUPING SETS and other expressions"
                    );
                }
                match fill_argument(expr) {
                    Some((FillKind::Previous, _)) => {
                        plan_err!("locf(x) is allowed only in the SELECT list of a query with GROUP BY time_bucket_gapfill(…)")
                    }
                    Some((FillKind::Linear, _)) => {
                        plan_err!("interpolate(x) is allowed only in the SELECT list of a query with GROUP BY time_bucket_gapfill(…)")
                    }
                    None => Ok(TreeNodeRecursion::Continue),
                }
            })
        })
    })?;
    Ok(())
}
