//! Outer, semi and anti joins, and joins without an equality.
//!
//! A right join is a left join with its sides swapped. A full join is a left join followed by the right's unmatched
//! rows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Column, JoinType, NullEquality, ScalarValue, internal_err};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Filter, Join, Projection, Union};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};
use splay_engine::{Expr as TickExpr, Plan};

use super::combine::{KeyedSide, equalities, filtered, is_of, literal_columns, unsupported, with_filter};
use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{Recogniser, Stage, types};
use super::sizes::Size;
use super::subqueries::has_one_row;
use crate::joins::asof_parts;

/// The column that marks a row's side, and its values.
const SIDE: &str = "__side";
const LEFT: i64 = 0;
const RIGHT: i64 = 1;

impl Recogniser<'_> {
    /// A full join: a left join, followed by the right rows without a match.
    pub(super) fn full(&mut self, join: &Join) -> Result<Stage, UnsupportedExpr> {
        let (pairs, rest) = equalities(join)?;
        if pairs.is_empty() || !rest.is_empty() {
            return unknown("a full join without an equality, or with other conditions");
        }
        let of_left = Join { join_type: JoinType::Left, ..join.clone() };
        let matched = self.lookup(&of_left, &join.left)?.into_plan(&join.schema);
        let mut outputs = Vec::with_capacity(join.schema.fields().len());
        for data_type in types(join.left.schema()) {
            outputs.push(self.constant(ScalarValue::try_from(&data_type))?);
        }
        outputs.extend((0..join.right.schema().fields().len()).map(TickExpr::Column));
        let right = self.with_keys_of(&join.right, &pairs, &join.left, false)?.into_plan(join.right.schema());
        Ok(Stage::Frame(Plan::Union { inputs: vec![matched, Plan::Project { input: Box::new(right), outputs }] }))
    }

    /// A semi or anti join: the left rows with, or without, a match on the right.
    pub(super) fn with_or_without(&mut self, join: &Join, left: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        let (pairs, rest) = equalities(join)?;
        if pairs.is_empty() || !rest.is_empty() {
            return unknown(format!("a {} join without an equality, or with other conditions", join.join_type));
        }
        if join.null_equality == NullEquality::NullEqualsNull {
            return self.stage(&grouped_by_sides(join)?);
        }
        let pairs: Vec<(Expr, Expr)> = pairs.into_iter().map(|(left, right)| (right, left)).collect();
        self.with_keys_of(left, &pairs, &join.right, join.join_type == JoinType::LeftSemi)
    }

    /// The rows of a plan whose keys another plan has, or doesn't have. In `pairs` the other's key is first.
    fn with_keys_of(
        &mut self,
        plan: &LogicalPlan,
        pairs: &[(Expr, Expr)],
        other: &LogicalPlan,
        has: bool,
    ) -> Result<Stage, UnsupportedExpr> {
        let stage = self.stage(plan)?;
        if let Some(keys) = self.keys_by_time(pairs, plan.schema(), other, has)? {
            return Ok(self.with_keys_by_time(stage, plan.schema(), keys));
        }
        let is_match = self.keys_among(pairs, plan.schema(), other)?;
        let predicate = if has { is_match } else { TickExpr::Not(Box::new(is_match)) };
        Ok(match stage {
            Stage::Frame(input) => Stage::Frame(filtered(input, predicate)),
            Stage::Table { mut scan, columns } => {
                self.require(&mut scan, predicate.substitute(&columns));
                Stage::Table { scan, columns }
            }
        })
    }

    /// A join without equalities: each left row with every right row that passes the condition.
    pub(super) fn with_every_row(
        &mut self,
        join: &Join,
        left: &LogicalPlan,
        listed: Option<Vec<ArrayRef>>,
        rest: Vec<Expr>,
    ) -> Result<Stage, UnsupportedExpr> {
        let is_inner = join.join_type == JoinType::Inner;
        let condition = conjunction(rest).map(|rest| self.convert(&rest, &join.schema)).transpose()?;
        let (of_left, of_right) = (Size::of(left), Size::of(&join.right));
        let is_large = of_right.is_large() && !of_right.is_filtered;
        let columns = match listed {
            Some(columns) => columns.into_iter().map(|column| self.constants.column(column)).collect(),
            None if is_large && is_inner && !of_left.is_large() => {
                return self.stage(&with_sides_swapped(join, None)?);
            }
            None if is_large => return unknown("a join without an equality to a large table"),
            _ => match self.stage(&join.right)? {
                Stage::Frame(plan) if is_inner && has_one_row(&plan) => {
                    return self.with_one_row(left, plan, join, condition);
                }
                stage => self.side(stage, &join.right, &[])?.0,
            },
        };
        let stage = self.stage(left)?;
        let side = KeyedSide { keys: &[], columns, is_inner, condition };
        Ok(Stage::Frame(self.with_all(stage, Vec::new(), side, join.left.schema())))
    }

    /// Rows joined with a query of one row, whose columns become constants that are computed first.
    fn with_one_row(
        &mut self,
        left: &LogicalPlan,
        one: Plan,
        join: &Join,
        condition: Option<TickExpr>,
    ) -> Result<Stage, UnsupportedExpr> {
        let side = self.add_side(one, join.right.schema());
        let width = join.right.schema().fields().len();
        let values = (0..width).map(|column| TickExpr::Constant(self.constants.side(side, column)));
        let values: Vec<TickExpr> = values.collect();
        Ok(match self.stage(left)? {
            Stage::Table { mut scan, mut columns } => {
                columns.extend(values);
                if let Some(condition) = condition {
                    self.require(&mut scan, condition.substitute(&columns));
                }
                Stage::Table { scan, columns }
            }
            Stage::Frame(input) => {
                let own = (0..join.left.schema().fields().len()).map(TickExpr::Column);
                let outputs = own.chain(values).collect();
                let joined = Plan::Project { input: Box::new(input), outputs };
                Stage::Frame(match condition {
                    Some(condition) => filtered(joined, condition),
                    None => joined,
                })
            }
        })
    }
}

/// A left join with a condition on the right side only, which is applied to the right side before the join.
pub(super) fn with_narrowed_right(join: &Join) -> Result<Join, UnsupportedExpr> {
    if literal_columns(&join.right)?.is_some() {
        return Ok(join.clone());
    }
    let (mut of_right, mut rest) = (Vec::new(), Vec::new());
    for condition in join.filter.iter().flat_map(|filter| split_conjunction_owned(filter.clone())) {
        let is_right = is_of(&condition, join.right.schema())?;
        if is_right { of_right.push(condition) } else { rest.push(condition) }
    }
    Ok(Join { right: with_filter(of_right, &join.right)?, filter: conjunction(rest), ..join.clone() })
}

/// A join below a filter by some conditions, with inner joins in place of outer ones whose added rows the conditions drop, as `b.x > 3` does of `a LEFT
/// JOIN b`; `None` if there are none.
pub(super) fn with_inner_joins(join: &Join, conditions: &[Expr]) -> Result<Option<Join>, UnsupportedExpr> {
    if asof_parts(join).map_err(unsupported)?.is_some() {
        return Ok(None);
    }
    let (mut join, mut is_changed) = (join.clone(), false);
    if join.join_type.is_outer()
        && let Some(predicate) = conjunction(conditions.iter().cloned())
    {
        let filter = Filter::try_new(predicate, Arc::new(LogicalPlan::Join(join.clone()))).map_err(unsupported)?;
        let rewritten = EliminateOuterJoin::new().rewrite(LogicalPlan::Filter(filter), &OptimizerContext::new());
        if let LogicalPlan::Filter(filter) = rewritten.map_err(unsupported)?.data
            && let LogicalPlan::Join(inner) = filter.input.as_ref()
        {
            is_changed = inner.join_type != join.join_type;
            join = inner.clone();
        }
    }
    let mut conditions = conditions.to_vec();
    if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing {
        let (keys, rest) = equalities(&join)?;
        conditions.extend(keys.into_iter().flat_map(|(left, right)| [left.is_not_null(), right.is_not_null()]));
        conditions.extend(rest);
    }
    // Rows of the other side are also there if the conditions don't hold for them.
    let keeps_left = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    let keeps_right = matches!(join.join_type, JoinType::Inner | JoinType::Right);
    for side in [(&mut join.left, keeps_left), (&mut join.right, keeps_right)] {
        let (side, true) = side else { continue };
        let LogicalPlan::Join(below) = side.as_ref() else { continue };
        let mut of_side = Vec::new();
        for condition in &conditions {
            if is_of(condition, &below.schema)? {
                of_side.push(condition.clone());
            }
        }
        if let Some(inner) = with_inner_joins(below, &of_side)? {
            (*side, is_changed) = (Arc::new(LogicalPlan::Join(inner)), true);
        }
    }
    Ok(is_changed.then_some(join))
}

/// A join, possibly with a filter above it, with its sides swapped and the columns in their old order: a right join is a left one then.
pub(super) fn with_sides_swapped(join: &Join, predicate: Option<&Expr>) -> Result<LogicalPlan, UnsupportedExpr> {
    if asof_parts(join).map_err(unsupported)?.is_some() {
        return unknown("a right join by time");
    }
    let join_type = join.join_type.swap();
    let swapped = Join {
        left: Arc::clone(&join.right),
        right: Arc::clone(&join.left),
        on: join.on.iter().map(|(left, right)| (right.clone(), left.clone())).collect(),
        join_type,
        schema: Arc::new(build_join_schema(join.right.schema(), join.left.schema(), &join_type).map_err(unsupported)?),
        ..join.clone()
    };
    let mut plan = LogicalPlan::Join(swapped);
    if let Some(predicate) = predicate {
        plan = LogicalPlan::Filter(Filter::try_new(predicate.clone(), Arc::new(plan)).map_err(unsupported)?);
    }
    let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
    let projection = Projection::try_new_with_schema(columns, Arc::new(plan), Arc::clone(&join.schema));
    projection.map(LogicalPlan::Projection).map_err(unsupported)
}

/// `INTERSECT` and `EXCEPT`, which are such joins by all columns of different rows, as groups of the rows of both sides: those that have rows of
/// both, or of the left alone. As keys of groups nulls are equal.
fn grouped_by_sides(join: &Join) -> Result<LogicalPlan, UnsupportedExpr> {
    let LogicalPlan::Distinct(Distinct::All(left)) = join.left.as_ref() else {
        return unknown("INTERSECT ALL or EXCEPT ALL");
    };
    let columns = join.schema.columns();
    let is_column = |(column, (own, _)): (&Column, &(Expr, Expr))| matches!(own, Expr::Column(own) if own == column);
    if columns.len() != join.on.len() || !columns.iter().zip(&join.on).all(is_column) {
        return unknown("a semi or anti join by IS NOT DISTINCT FROM, on some columns only");
    }
    let names: Vec<String> = (0..columns.len()).map(|number| format!("__column_{number}")).collect();
    let of_side = |plan: &Arc<LogicalPlan>, keys: Vec<Expr>, side: i64| {
        let keys = keys.into_iter().zip(&names).map(|(key, name)| key.alias(name));
        let outputs = keys.chain([lit(side).alias(SIDE)]).collect();
        Projection::try_new(outputs, Arc::clone(plan)).map(|side| Arc::new(LogicalPlan::Projection(side)))
    };
    let below = left.schema().columns().into_iter().map(Expr::Column).collect();
    let of_right = join.on.iter().map(|(_, other)| other.clone()).collect();
    let grouped = || -> datafusion::error::Result<LogicalPlan> {
        let union = Union::try_new(vec![of_side(left, below, LEFT)?, of_side(&join.right, of_right, RIGHT)?])?;
        let keys: Vec<Expr> = names.iter().map(|name| Expr::Column(Column::from_name(name))).collect();
        let side = || Expr::Column(Column::from_name(SIDE));
        let ends = vec![min(side()), max(side())];
        let groups = Aggregate::try_new(Arc::new(LogicalPlan::Union(union)), keys, ends)?;
        let of_groups: Vec<Expr> = groups.schema.columns().into_iter().map(Expr::Column).collect();
        let (keys, ends) = of_groups.split_at(names.len());
        let [first, last] = ends else { return internal_err!("two aggregates") };
        let is_wanted = match join.join_type {
            JoinType::LeftSemi => first.clone().eq(lit(LEFT)).and(last.clone().eq(lit(RIGHT))),
            _ => last.clone().eq(lit(LEFT)),
        };
        let groups = Filter::try_new(is_wanted, Arc::new(LogicalPlan::Aggregate(groups)))?;
        let groups = Arc::new(LogicalPlan::Filter(groups));
        Projection::try_new_with_schema(keys.to_vec(), groups, Arc::clone(&join.schema)).map(LogicalPlan::Projection)
    };
    grouped().map_err(unsupported)
}
