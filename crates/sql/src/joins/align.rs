//! Partitions both sides of a join at the same symbols instead of by hash.
//!
//! DataFusion brings equal keys together by repartitioning row by row, and then sorts again. If both sides are scans
//! of our tables, neither is needed: stream i of each side reads the same range of symbols, in stored order.
//!
//! - This rule runs last, over a plan that is already correct. A plan that it doesn't understand completely stays as
//!   it is.
//! - If the order of a scan isn't the one that the join needs, each stream is sorted.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use splay_functions::walk::Walk;

use super::asof_join::{AsofJoinExec, SideKeys};
use super::window_join::WindowJoinExec;
use crate::scan::TickScanExec;

/// The rule.
#[derive(Debug)]
pub(super) struct AlignStreams;

impl PhysicalOptimizerRule for AlignStreams {
    fn name(&self) -> &str {
        "align_joined_streams"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let streams = config.execution.target_partitions;
        let aligned = plan.transform_down(|plan| match align(&plan, streams)? {
            Some(aligned) => Ok(Transformed::yes(aligned)),
            None => Ok(Transformed::no(plan)),
        })?;
        Ok(aligned.data)
    }
}

/// The join with its sides aligned, if `plan` is one that can be.
fn align(plan: &Plan, streams: usize) -> Result<Option<Plan>> {
    // The operators above were planned for this number of streams: above a single one, for example, nothing merges.
    let streams = streams.min(plan.output_partitioning().partition_count());
    let aligned: Plan = if let Some(join) = plan.downcast_ref::<AsofJoinExec>().filter(|join| !join.is_aligned()) {
        let sides = Sides { left: &join.left, right: &join.right, keys: (&join.settings.left, &join.settings.right) };
        let Some((left, right)) = sides.align(streams)? else { return Ok(None) };
        Arc::new(AsofJoinExec::new(left, right, Arc::clone(&join.settings), true))
    } else if let Some(join) = plan.downcast_ref::<WindowJoinExec>().filter(|join| !join.is_aligned()) {
        let sides = Sides { left: &join.left, right: &join.right, keys: (&join.settings.left, &join.settings.right) };
        let Some((left, right)) = sides.align(streams)? else { return Ok(None) };
        Arc::new(WindowJoinExec::new(left, right, Arc::clone(&join.settings), true))
    } else {
        return Ok(None);
    };
    // What stands above may rest on any of the orders.
    for order in plan.equivalence_properties().oeq_class().iter() {
        if !aligned.equivalence_properties().ordering_satisfy(order.iter().cloned())? {
            return Ok(None);
        }
    }
    Ok(Some(aligned))
}

type Plan = Arc<dyn ExecutionPlan>;

struct Sides<'a> {
    left: &'a Plan,
    right: &'a Plan,
    keys: (&'a SideKeys, &'a SideKeys),
}

impl Sides<'_> {
    fn align(&self, streams: usize) -> Result<Option<(Plan, Plan)>> {
        for (left_key, right_key) in self.keys.0.keys.iter().zip(&self.keys.1.keys) {
            let (Some(left_key), Some(right_key)) =
                (left_key.downcast_ref::<Column>(), right_key.downcast_ref::<Column>())
            else {
                continue;
            };
            let mut scans = Vec::new();
            let is_known = find_scans(self.left, left_key.index(), &mut scans)
                && find_scans(self.right, right_key.index(), &mut scans);
            if !is_known {
                continue;
            }
            let Some(largest) = scans.iter().copied().max_by_key(|scan| scan.rows()) else { continue };
            let bounds = largest.symbol_bounds(streams)?;
            let (left, right) = (rebuild(self.left, &bounds)?, rebuild(self.right, &bounds)?);
            return Ok(match (left, right) {
                (Some(left), Some(right)) => Some((sorted(left, self.keys.0)?, sorted(right, self.keys.1)?)),
                _ => None,
            });
        }
        Ok(None)
    }
}

/// Whether a node only moves rows between streams, or sorts them.
fn only_moves(plan: &Plan) -> bool {
    let is_limited = plan.fetch().is_some();
    let moves = plan.is::<SortPreservingMergeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>();
    moves && !is_limited
}

/// The scans below `plan` whose symbols are its column `column`; false if the way there isn't known through and through.
fn find_scans<'a>(plan: &'a Plan, column: usize, scans: &mut Vec<&'a TickScanExec>) -> bool {
    if let Some(scan) = plan.downcast_ref::<TickScanExec>() {
        let is_symbol = scan.can_split_by_symbol(column);
        if is_symbol {
            scans.push(scan);
        }
        return is_symbol;
    }
    if let Some(join) = plan.downcast_ref::<AsofJoinExec>() {
        let key = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
        let mut pairs = join.settings.left.keys.iter().zip(&join.settings.right.keys);
        let Some((_, right)) = pairs.find(|(left, _)| key(left) == Some(column)) else { return false };
        let Some(right) = key(right) else { return false };
        return find_scans(&join.left, column, scans) && find_scans(&join.right, right, scans);
    }
    let children = plan.children();
    let [child] = children.as_slice() else { return false };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(expr) = projection.expr().get(column) else { return false };
        let Some(below) = expr.expr.downcast_ref::<Column>() else { return false };
        return find_scans(child, below.index(), scans);
    }
    let is_plain_filter = plan
        .downcast_ref::<FilterExec>()
        .is_some_and(|filter| filter.projection().is_none() && filter.fetch().is_none());
    (only_moves(plan) || is_plain_filter || plan.is::<CooperativeExec>()) && find_scans(child, column, scans)
}

/// Rebuilds the plan over scans that are split at `bounds`. Called only for plans that [`find_scans`] understands.
fn rebuild(plan: &Plan, bounds: &[String]) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<TickScanExec>() {
        // A join may read much before it gives a row; the scan has to let others run.
        return Ok(Some(Arc::new(CooperativeExec::new(Arc::new(scan.split_by_symbol(bounds)?)))));
    }
    if let Some(join) = plan.downcast_ref::<AsofJoinExec>() {
        let (left, right) = (rebuild(&join.left, bounds)?, rebuild(&join.right, bounds)?);
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        let (left, right) = (sorted(left, &join.settings.left)?, sorted(right, &join.settings.right)?);
        return Ok(Some(Arc::new(AsofJoinExec::new(left, right, Arc::clone(&join.settings), true))));
    }
    let children = plan.children();
    let [child] = children.as_slice() else { return Ok(None) };
    let Some(below) = rebuild(child, bounds)? else { return Ok(None) };
    if only_moves(plan) || plan.is::<CooperativeExec>() {
        return Ok(Some(below));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![below], options).map(Some)
}

/// A side sorted within each stream, if it isn't.
fn sorted(plan: Plan, side: &SideKeys) -> Result<Plan> {
    let requirement = side.requirement();
    if plan.equivalence_properties().ordering_satisfy_requirement(requirement.clone())? {
        return Ok(plan);
    }
    Ok(Arc::new(SortExec::new(LexOrdering::from(requirement), plan).with_preserve_partitioning(true)))
}
