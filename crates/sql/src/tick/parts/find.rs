//! Finds the parts of a statement that have tick plans.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::logical_plan::{Extension, Join};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Subquery};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use splay_engine::{AggregateFunction, Expr as TickExpr, Key, Plan};
use splay_functions::walk::{Walk, WalkPlan};

use super::node::TickPart;
use super::{DataFusionPart, StatementPart};
use crate::dates;
use crate::joins::asof_parts;
use crate::tick::has_own_calendar;
use crate::tick::recognise::recognise;

/// The plan of a statement, before joins are converted, with tick plans for those parts that have one. A statement that has one as
/// a whole is left as it is: it is here because the engine refused it, or because it is explained.
///
/// # Errors
/// Those of DataFusion for a plan that can't be rebuilt.
pub(crate) fn with_tick_parts(plan: LogicalPlan, state: &Arc<SessionState>, has_joins: bool) -> Result<LogicalPlan> {
    let plan = dates::compute(plan)?;
    let options = Arc::new(state.config_options().as_ref().clone());
    let finder = Finder { state, options, has_joins };
    let whole = match &plan {
        LogicalPlan::Explain(explain) => &explain.plan,
        LogicalPlan::Analyze(analyze) => &analyze.input,
        plan => plan,
    };
    // A statement whose calendar is a table never runs as a whole.
    if !has_own_calendar(&plan)?
        && finder.coerce_types(whole).is_some_and(|whole| recognise(&whole, &finder.options, false).is_ok())
    {
        return Ok(plan);
    }
    finder.replace(plan, false).map(|replaced| replaced.data)
}

/// The plan of a part of a statement, whose joins are converted and dates computed, with tick plans for those parts of it that have one.
///
/// # Errors
/// As [`with_tick_parts`].
pub(crate) fn with_tick_parts_of(plan: LogicalPlan, state: &Arc<SessionState>) -> Result<LogicalPlan> {
    let options = Arc::new(state.config_options().as_ref().clone());
    Finder { state, options, has_joins: false }.replace(plan, false).map(|replaced| replaced.data)
}

struct Finder<'a> {
    state: &'a Arc<SessionState>,
    options: Arc<ConfigOptions>,
    has_joins: bool,
}

impl Finder<'_> {
    /// `is_narrowed` says that a filter from above gets down to the tables: DataFusion reads fewer rows than the part would.
    fn replace(&self, plan: LogicalPlan, is_narrowed: bool) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            // Its parts run once in each round, and over rows in their present order.
            LogicalPlan::RecursiveQuery(_) | LogicalPlan::Extension(_) => return Ok(Transformed::no(plan)),
            LogicalPlan::Join(join) if asof_parts(join)?.is_some() => return Ok(Transformed::no(plan)),
            LogicalPlan::Aggregate(_) if !is_narrowed => {
                if let Some(part) = self.part(&plan) {
                    return Ok(Transformed::yes(part));
                }
            }
            _ => {}
        }
        let is_narrowed = is_narrowed || narrows(&plan);
        let plan = plan.map_children(|child| self.replace(child, is_narrowed))?;
        match &plan.data {
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) => {
                plan.transform_data(|plan| self.in_expressions(plan))
            }
            _ => Ok(plan),
        }
    }

    /// Like [`Self::replace`], within scalar sub-queries that run once each.
    fn in_expressions(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let is_value = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(query) if query.outer_ref_columns.is_empty());
        if !plan.expressions().iter().any(|expr| expr.exists(|expr| Ok(is_value(expr))).unwrap_or(false)) {
            return Ok(Transformed::no(plan));
        }
        plan.rewrite_expressions(|expr| {
            expr.transform_down(|expr| match expr {
                Expr::ScalarSubquery(query) if query.outer_ref_columns.is_empty() => {
                    let replaced = self.replace(Arc::unwrap_or_clone(query.subquery), false)?;
                    Ok(replaced
                        .update_data(|plan| Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..query })))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    }

    fn part(&self, plan: &LogicalPlan) -> Option<LogicalPlan> {
        let coerced = self.coerce_types(plan)?;
        if !cannot_fail(&coerced).unwrap_or(false) {
            return None;
        }
        let recognised = recognise(&coerced, &self.options, false).ok()?;
        if !is_fast(&recognised.plan) || !recognised.sides.is_empty() {
            return None;
        }
        let constants = recognised.constants.bind(&[]).ok()?;
        let part = StatementPart {
            plan: recognised.plan,
            constants,
            tables: recognised.tables.into_iter().map(|(_, snapshot)| snapshot).collect(),
            files: recognised.files.into_iter().map(|(_, files)| files).collect(),
            schema: Arc::clone(plan.schema().inner()),
            general: DataFusionPart { plan: plan.clone(), has_joins: self.has_joins, state: Arc::clone(self.state) },
        };
        let node = TickPart { part: Arc::new(part), schema: Arc::clone(plan.schema()) };
        Some(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// The plan with coerced types, if that changes the type of none of its columns.
    fn coerce_types(&self, plan: &LogicalPlan) -> Option<LogicalPlan> {
        let coerced = TypeCoercion::new().analyze(plan.clone(), &self.options).ok()?;
        let types = |schema: &Schema| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        (types(coerced.schema().as_arrow()) == types(plan.schema().as_arrow())).then_some(coerced)
    }
}

/// Whether the engine computes a grouping faster than DataFusion: by codes, along the order of the rows, or as a whole.
fn is_fast(plan: &Plan) -> bool {
    let Plan::AggregateTable { keys, key_types, aggregates, .. } = plan else { return false };
    if aggregates.iter().any(|aggregate| matches!(aggregate.function, AggregateFunction::External(_))) {
        return false;
    }
    let is_by_symbol = keys.iter().any(|key| matches!(key, Key::Symbol));
    keys.iter().zip(key_types).all(|(key, data_type)| match key {
        Key::Symbol | Key::Date => true,
        Key::Bucket(_) => is_by_symbol,
        Key::Value(value) => matches!((value, data_type), (TickExpr::Column(_), DataType::Dictionary(_, _))),
    })
}

/// Whether no expression over the groups can fail. DataFusion leaves out unused expressions; the engine would compute them, and an error of an
/// unused one would fail the statement.
fn cannot_fail(plan: &LogicalPlan) -> Result<bool> {
    let mut is_safe = true;
    plan.apply(|node| {
        if let ([input], false) = (node.inputs().as_slice(), matches!(node, LogicalPlan::Filter(_))) {
            for expr in node.expressions() {
                is_safe &= !expr.exists(|expr| Ok(!is_safe_step(expr, input.schema())))?;
            }
        }
        Ok(if is_safe { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_safe)
}

/// Whether a step of an expression can't fail.
fn is_safe_step(expr: &Expr, schema: &DFSchema) -> bool {
    let is =
        |expr: &Expr, is_type: fn(&DataType) -> bool| expr.get_type(schema).is_ok_and(|data_type| is_type(&data_type));
    match expr {
        Expr::Column(_)
        | Expr::Literal(_, _)
        | Expr::Alias(_)
        | Expr::AggregateFunction(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::Like(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Case(_) => true,
        // A literal that doesn't fit the type isn't recognised.
        Expr::Cast(cast) if matches!(*cast.expr, Expr::Literal(_, _)) => true,
        Expr::Cast(cast) => match cast.field.data_type() {
            DataType::Float64 => is(&cast.expr, DataType::is_numeric),
            DataType::Int64 => is(&cast.expr, |from| from.is_integer() && *from != DataType::UInt64),
            DataType::UInt64 => is(&cast.expr, DataType::is_unsigned_integer),
            _ => false,
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Plus | Operator::Minus | Operator::Multiply => is(left, is_number) && is(right, is_number),
            // Only whole numbers fail at a division by zero.
            Operator::Divide => is(left, DataType::is_floating) || is(right, DataType::is_floating),
            op => {
                use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
                matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | And | Or)
            }
        },
        Expr::ScalarFunction(call) => matches!(call.func.name(), "time_bucket" | "xbar" | "date_bin" | "date_trunc"),
        _ => false,
    }
}

/// Whether sums and products of a type wrap or round instead of failing.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating()
}

/// Whether a filter or a join's condition can be pushed below a grouping.
fn narrows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => reach_groupings(&filter.predicate, &filter.input),
        // A condition on both sides stays at the join.
        LogicalPlan::Join(join) => join.filter.iter().flat_map(split_conjunction).any(|condition| {
            let is_of =
                |side: &LogicalPlan| condition.column_refs().iter().all(|column| side.schema().has_column(column));
            [&join.left, &join.right].into_iter().any(|side| is_of(side) && reach_groupings(condition, side))
        }),
        _ => false,
    }
}

/// Whether a predicate over the output of a plan may become one over the input of a grouping in it.
fn reach_groupings(predicate: &Expr, plan: &LogicalPlan) -> bool {
    predicate.column_refs().into_iter().any(|column| match plan.schema().maybe_index_of_column(column) {
        Some(position) => reaches_grouping(plan, position),
        None => true,
    })
}

/// Whether a predicate over one column reaches a grouping.
fn reaches_grouping(plan: &LogicalPlan, position: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => false,
        // The rows that a limit keeps depend on all rows.
        LogicalPlan::Limit(_) => false,
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && reaches_grouping(&sort.input, position),
        LogicalPlan::SubqueryAlias(alias) => reaches_grouping(&alias.input, position),
        LogicalPlan::Filter(filter) => reaches_grouping(&filter.input, position),
        LogicalPlan::Projection(projection) => reach_groupings(&projection.expr[position], &projection.input),
        LogicalPlan::Aggregate(aggregate) => position < aggregate.group_expr.len(),
        LogicalPlan::Join(join) => reaches_grouping_of_join(join, position),
        LogicalPlan::Union(union) => union.inputs.iter().any(|input| reaches_grouping(input, position)),
        _ => true,
    }
}

/// Whether a predicate reaches a grouping below a join, through the column or the one that equals it on the other side.
fn reaches_grouping_of_join(join: &Join, position: usize) -> bool {
    let (left, right) = (join.left.schema().fields().len(), join.right.schema().fields().len());
    if join.schema.fields().len() != left + right {
        return true;
    }
    let (own, other, position) =
        if position < left { (&join.left, &join.right, position) } else { (&join.right, &join.left, position - left) };
    let column = Column::from(own.schema().qualified_field(position));
    // A condition on a column also holds for a column that equals it, but not for an expression computed from either.
    let equal = |one: &Expr, another: &Expr| match (one, another) {
        (Expr::Column(one), Expr::Column(equal)) => {
            *one == column && other.schema().has_column(equal) && reach_groupings(another, other)
        }
        _ => false,
    };
    reaches_grouping(own, position)
        || join.on.iter().any(|(one, another)| equal(one, another) || equal(another, one))
        || join.filter.iter().flat_map(split_conjunction).any(|condition| match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => equal(left, right) || equal(right, left),
            _ => false,
        })
}
