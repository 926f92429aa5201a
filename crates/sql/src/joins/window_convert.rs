//! Aggregates over a window join.
//!
//! A left row whose window is empty has one row without a right row. No aggregate may count it, so each gets a filter.
//! `first` and `last` follow the order of the right side's rows, if it is known.

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::logical_expr::{Expr, LogicalPlan, and};
use splay_functions::walk::Walk;

use super::statement::LEFT_ROW;
use super::window_node::{IN_WINDOW, WINDOW_ROW, WindowNode};

/// What a select over a window join asks for, before its aggregates are completed.
pub(crate) struct WindowParts<'a> {
    pub(crate) left: &'a LogicalPlan,
    /// With columns for the order of its rows.
    pub(crate) right: &'a LogicalPlan,
    /// Equal keys, as pairs of a left and a right expression.
    pub(crate) keys: &'a [(Expr, Expr)],
    pub(crate) right_time: &'a Expr,
    /// The first and last time of the window, over the left; and whether each lies in it.
    pub(crate) begin: &'a (Expr, bool),
    pub(crate) end: &'a (Expr, bool),
    pub(crate) prevailing: bool,
    /// Whether the order of right rows of equal times is known.
    pub(crate) is_ordered: bool,
    /// Columns of the join: the left's, the number of the left row, then these of the right.
    pub(crate) of_right: Vec<usize>,
    pub(crate) schema: &'a DFSchema,
    /// Conditions on the joined rows, which may read the left alone.
    pub(crate) filters: Vec<&'a Expr>,
}

/// The parts of a select over a window join; `None` for another one.
pub(crate) fn window_parts(aggregate: &Aggregate) -> Option<WindowParts<'_>> {
    let mut filters = Vec::new();
    let mut input = aggregate.input.as_ref();
    while let LogicalPlan::Filter(filter) = input {
        filters.push(&filter.predicate);
        input = &filter.input;
    }
    let LogicalPlan::Extension(extension) = input else { return None };
    let node = extension.node.as_any().downcast_ref::<WindowNode>()?;
    Some(WindowParts {
        left: &node.left,
        right: &node.right,
        keys: &node.keys,
        right_time: &node.right_time,
        begin: &node.begin,
        end: &node.end,
        prevailing: node.prevailing,
        is_ordered: node.is_order_complete,
        of_right: node.visible(),
        schema: &node.schema,
        filters,
    })
}

/// Completes the aggregates of a select over a window join; leaves all other nodes as they are.
pub(super) fn complete(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Transformed::no(plan)) };
    let is_grouped = aggregate.group_expr.contains(&Expr::Column(Column::from_name(LEFT_ROW)));
    let Some(is_ordered) = is_grouped.then(|| window_below(&aggregate.input)).transpose()?.flatten() else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let calls = aggregate.aggr_expr.into_iter().map(|call| complete_call(call, is_ordered)).collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, aggregate.group_expr, calls)?)))
}

/// Whether the right's rows are in a known order, if a window join lies below the filters.
fn window_below(plan: &LogicalPlan) -> Result<Option<bool>> {
    match plan {
        LogicalPlan::Extension(extension) => {
            Ok(extension.node.as_any().downcast_ref::<WindowNode>().map(|node| node.is_order_complete))
        }
        LogicalPlan::Filter(filter) => {
            let below = window_below(&filter.input)?;
            if below.is_some() {
                refuse_right(&filter.predicate, &filter.input)?;
            }
            Ok(below)
        }
        _ => Ok(None),
    }
}

/// A `WHERE` on the right would take left rows away.
fn refuse_right(predicate: &Expr, input: &LogicalPlan) -> Result<()> {
    let mut plan = input;
    while let LogicalPlan::Filter(filter) = plan {
        plan = &filter.input;
    }
    let LogicalPlan::Extension(extension) = plan else { return Ok(()) };
    let Some(node) = extension.node.as_any().downcast_ref::<WindowNode>() else { return Ok(()) };
    match predicate.column_refs().into_iter().find(|column| !node.left.schema().has_column(column)) {
        Some(column) => {
            plan_err!("a WHERE over a WINDOW JOIN can't read {column}: put the condition into ON, or into FILTER")
        }
        None => Ok(()),
    }
}

/// A call that counts no row without a right row, under the name that it had.
fn complete_call(call: Expr, is_ordered: bool) -> Result<Expr> {
    let name = call.schema_name().to_string();
    let in_window = Expr::Column(Column::from_name(IN_WINDOW));
    let completed = call.transform_down(|expr| match expr {
        Expr::AggregateFunction(mut call) => {
            call.params.filter = Some(Box::new(match call.params.filter.take() {
                Some(filter) => and(*filter, in_window.clone()),
                None => in_window.clone(),
            }));
            if is_ordered && splay_functions::is_ordered(call.func.name()) {
                call.params.order_by.push(Expr::Column(Column::from_name(WINDOW_ROW)).sort(true, false));
            }
            Ok(Transformed::new(Expr::AggregateFunction(call), true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(match completed.data {
        expr if expr.schema_name().to_string() == name => expr,
        expr => expr.alias(name),
    })
}
