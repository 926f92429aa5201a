//! Registers the joins, and plans their nodes as operators.

use std::sync::Arc;

use arrow::compute::SortOptions;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, SortExpr, UserDefinedLogicalNode};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use splay_functions::RowOrder;

use super::align::AlignStreams;
use super::asof_join::{AsofJoinExec, AsofSettings, SideKeys};
use super::asof_node::AsofNode;
use super::filters::FiltersThroughJoins;
use super::relation::MarkedJoinPlanner;
use super::window_join::{WindowJoinExec, WindowSettings};
use super::window_node::WindowNode;

/// Makes a session plan our joins, over tables whose rows have an order.
pub(crate) fn register(state: SessionState, tables: Arc<dyn RowOrder>) -> Result<SessionState> {
    let mut rules = state.optimizers().to_vec();
    // Behind the rule that brings filters down to our joins, and before the one that puts projections between.
    let behind = rules.iter().position(|rule| rule.name() == "push_down_filter").map_or(0, |position| position + 1);
    rules.insert(behind, Arc::new(FiltersThroughJoins));
    let mut state = SessionStateBuilder::new_from_existing(state)
        .with_optimizer_rules(rules)
        .with_physical_optimizer_rule(Arc::new(AlignStreams))
        .build();
    state.register_relation_planner(Arc::new(MarkedJoinPlanner { tables }))?;
    Ok(state)
}

/// Plans the nodes of our joins.
pub(crate) struct JoinPlanner;

#[async_trait]
impl ExtensionPlanner for JoinPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let [left, right] = physical_inputs else { return Ok(None) };
        let expression = |expr: &Expr, schema: &DFSchema| planner.create_physical_expr(expr, schema, session, context);
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        if let Some(node) = node.as_any().downcast_ref::<AsofNode>() {
            let settings = Arc::new(asof_settings(node, expression)?);
            return Ok(Some(Arc::new(AsofJoinExec::new(left, right, settings, false))));
        }
        if let Some(node) = node.as_any().downcast_ref::<WindowNode>() {
            let settings = Arc::new(window_settings(node, session.config().batch_size(), expression)?);
            return Ok(Some(Arc::new(WindowJoinExec::new(left, right, settings, false))));
        }
        Ok(None)
    }
}

/// The keys of a side as expressions over its batches.
fn side_keys<'a>(
    keys: impl Iterator<Item = &'a Expr>,
    time: &Expr,
    order: &[SortExpr],
    expression: impl Fn(&Expr) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<SideKeys> {
    let order = order.iter().map(|key| {
        let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
        Ok(PhysicalSortExpr::new(expression(&key.expr)?, options))
    });
    Ok(SideKeys {
        order: order.collect::<Result<_>>()?,
        keys: keys.map(&expression).collect::<Result<_>>()?,
        time: expression(time)?,
        sorted_by: expression(rising_with(time))?,
    })
}

/// What `time` rises with: of a column plus or minus a stretch the column, by which rows are often sorted already.
fn rising_with(time: &Expr) -> &Expr {
    match time {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right })
            if matches!(left.as_ref(), Expr::Column(_)) && is_stretch(right) =>
        {
            left
        }
        time => time,
    }
}

/// Whether an expression is a fixed stretch of time. Days and months aren't: on a clock that goes back, the later of two
/// instants may be the earlier one a day on.
fn is_stretch(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => interval.months == 0 && interval.days == 0,
        ScalarValue::IntervalDayTime(Some(interval)) => interval.days == 0,
        ScalarValue::DurationNanosecond(Some(_)) => true,
        _ => false,
    }
}

fn asof_settings(
    node: &AsofNode,
    expression: impl Fn(&Expr, &DFSchema) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<AsofSettings> {
    let left = side_keys(node.keys.iter().map(|(left, _)| left), &node.left_time, &[], |expr| {
        expression(expr, node.left.schema())
    })?;
    let right = side_keys(node.keys.iter().map(|(_, right)| right), &node.right_time, &node.order, |expr| {
        expression(expr, node.right.schema())
    })?;
    Ok(AsofSettings {
        join_type: node.join_type,
        rule: node.rule,
        left,
        right,
        is_order_complete: node.is_order_complete,
        visible: node.visible(),
        schema: Arc::clone(node.schema.inner()),
    })
}

fn window_settings(
    node: &WindowNode,
    batch_rows: usize,
    expression: impl Fn(&Expr, &DFSchema) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<WindowSettings> {
    let left = side_keys(node.keys.iter().map(|(left, _)| left), &node.begin.0, &[], |expr| {
        expression(expr, node.left.schema())
    })?;
    let right = side_keys(node.keys.iter().map(|(_, right)| right), &node.right_time, &node.order, |expr| {
        expression(expr, node.right.schema())
    })?;
    Ok(WindowSettings {
        left,
        end: expression(&node.end.0, node.left.schema())?,
        begin_inclusive: node.begin.1,
        end_inclusive: node.end.1,
        prevailing: node.prevailing,
        right,
        visible: node.visible(),
        schema: Arc::clone(node.schema.inner()),
        batch_rows,
    })
}
