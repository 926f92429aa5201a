//! Bounds planning: each DataFusion rule checks at each node whether the statement is cancelled or late, and a rule
//! that enlarges a plan is held to a limit of its size.
//!
//! Some rules take time, or produce a plan, that grows faster than the statement: a filter that is pushed through
//! nested projections `x + x as x` doubles at each, so it stays where it would become too large. Rules that the
//! optimiser calls per node are checked between nodes, the others between rules.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use super::check_time;
use super::constants::BoundConstants;
use super::pushdown::expands_too_far;
use crate::equal_names::move_filters;
use crate::limits;
use crate::narrowing_casts::HideNarrowingCasts;
use crate::offset_limits::{MOVES_SORTS, move_sorts};

/// Name of the rule that moves filters to what they filter.
const MOVES_FILTERS: &str = "FilterPushdown";

/// Wraps the state's rules so that they check the bounds. Rules that are added later aren't wrapped.
pub(crate) fn register(state: SessionState) -> SessionState {
    let analyzers = state.analyzer().rules.iter().map(|rule| Arc::new(BoundedRule(Arc::clone(rule))) as _).collect();
    let mut optimizers: Vec<Arc<dyn OptimizerRule + Send + Sync>> =
        state.optimizers().iter().map(|rule| Arc::new(BoundedRule(Arc::clone(rule))) as _).collect();
    optimizers.push(Arc::new(BoundConstants));
    let mut physical: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        state.physical_optimizers().iter().map(|rule| Arc::new(BoundedRule(Arc::clone(rule))) as _).collect();
    // Behind the first rule that moves filters, before those that ask what filters say of the order.
    let behind = physical.iter().position(|rule| rule.name() == MOVES_FILTERS).map_or(0, |place| place + 1);
    physical.insert(behind, Arc::new(HideNarrowingCasts));
    SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(analyzers)
        .with_optimizer_rules(optimizers)
        .with_physical_optimizer_rules(physical)
        .build()
}

/// A rule that first checks the bounds of the statement.
#[derive(Debug)]
struct BoundedRule<R: ?Sized>(Arc<R>);

impl AnalyzerRule for BoundedRule<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_time()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for BoundedRule<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_time()?;
        let is_left_out = match self.0.name() {
            "push_down_filter" => limits::grows_below_projection(&plan, false)? || filters_row_of_no_rows(&plan),
            "eliminate_outer_join" => limits::grows_below_projection(&plan, true)?,
            _ => false,
        };
        if is_left_out {
            return Ok(Transformed::no(plan));
        }
        let rewritten = self.0.rewrite(plan, config)?;
        if rewritten.transformed {
            match self.0.apply_order() {
                Some(_) => limits::check_node(&rewritten.data)?,
                None => limits::check_plan(&rewritten.data)?,
            }
        }
        Ok(rewritten)
    }
}

/// Whether a condition without columns filters an aggregate that gives a row even of no rows. DataFusion 55.2 moves it
/// below, where it removes the rows and not that one: `HAVING 5 < (SELECT …)`. No other condition could go below.
fn filters_row_of_no_rows(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else { return false };
    aggregate.group_expr.iter().all(|key| matches!(key, Expr::GroupingSet(_)))
        && split_conjunction(&filter.predicate).into_iter().any(|condition| condition.column_refs().is_empty())
}

impl BoundedRule<dyn PhysicalOptimizerRule + Send + Sync> {
    /// Applies the rule to the plan. The plan stays right if filters are anywhere above their columns, and sorts above limits.
    fn within(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_time()?;
        if self.0.name() == MOVES_SORTS {
            return move_sorts(plan, rule);
        }
        if !self.0.name().starts_with(MOVES_FILTERS) {
            return rule(plan);
        }
        if expands_too_far(&plan)? { Ok(plan) } else { move_filters(plan, rule) }
    }
}

impl PhysicalOptimizerRule for BoundedRule<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.within(plan, |plan| self.0.optimize(plan, config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.within(plan, |plan| self.0.optimize_with_context(plan, context))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use datafusion::error::DataFusionError;
    use datafusion::execution::memory_pool::UnboundedMemoryPool;
    use datafusion::prelude::SessionContext;

    use super::super::StatementBounds;
    use super::*;
    use crate::error::Error;

    fn is_cancelled(error: &DataFusionError) -> bool {
        matches!(error.find_root(), DataFusionError::External(source) if matches!(source.downcast_ref(), Some(Error::Cancelled)))
    }

    #[tokio::test]
    async fn no_rule_begins_once_a_statement_is_over() {
        let state = register(SessionContext::new().state());
        let plan = state.create_logical_plan("select 1 + x from (values (1), (2)) as t(x) where x > 1").await.unwrap();
        let bounds = StatementBounds::new(Arc::new(UnboundedMemoryPool::default()));
        let optimized = bounds.clone().within(async { state.optimize(&plan) }).await.unwrap();
        bounds.is_over.store(true, Ordering::Relaxed);
        let error = bounds.clone().within(async { state.optimize(&plan) }).await.unwrap_err();
        assert!(is_cancelled(&error), "{error}");
        let planned =
            bounds.within(async { state.query_planner().create_physical_plan(&optimized, &state).await }).await;
        assert!(is_cancelled(&planned.unwrap_err()));
    }
}
