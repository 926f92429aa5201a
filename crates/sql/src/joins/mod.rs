//! Joins by time: as-of, window and horizon.
//!
//! A statement passes through these stages; one without such joins passes the first alone, which looks at its bytes.
//!
//! | Stage | File |
//! | --- | --- |
//! | text: our spellings become marked plain joins | `syntax.rs`, `durations.rs` |
//! | parsed statement: marked joins are nested, `*` and groups completed | `statement.rs` |
//! | names: conditions are taken apart | `relation.rs`, `marker.rs`, `window_relation.rs` |
//! | logical plan: nodes of our own, with the order of the right's rows | `convert.rs`, `asof_node.rs`, `window_*.rs` |
//! | optimiser: filters reach both sides | `filters.rs` |
//! | physical plan: operators | `planner.rs`, `asof_join.rs`, `asof_stream.rs`, `right_side.rs`, `align.rs` |
//!
//! What the joins mean is in `docs/reference/joins.md`, why they are planned so in ADR 9.

mod align;
mod asof_join;
mod asof_node;
mod asof_stream;
mod convert;
mod durations;
mod filters;
mod float_order;
mod marker;
mod picks;
mod planner;
mod relation;
mod right_side;
mod statement;
mod syntax;
mod window_convert;
mod window_join;
mod window_node;
mod window_relation;
mod window_stream;

pub(crate) use asof_node::{asof_with_left, left_of_asof};
pub(crate) use convert::{AsofParts, asof_parts, convert};
pub(crate) use planner::{JoinPlanner, register};
pub(crate) use statement::{arrange, is_by_time};
pub(crate) use syntax::rewrite;
pub(crate) use window_convert::{WindowParts, window_parts};

use std::fmt::Display;
use std::sync::Arc;

use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;

use splay_engine::asof::{Direction, MatchRule};

/// Whether a plan is one of our joins, whose streams are read side by side rather than one after the other.
pub(crate) fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<asof_join::AsofJoinExec>() || plan.is::<window_join::WindowJoinExec>()
}

/// A join by time, as far as it concerns who runs it on parts of its inputs.
pub(crate) struct TimeJoin<'p> {
    pub(crate) left: &'p LogicalPlan,
    pub(crate) right: &'p LogicalPlan,
    /// Equal keys, as pairs of a left and a right expression.
    pub(crate) keys: &'p [(Expr, Expr)],
    /// The column that numbers the left's rows, of a window join. The left's own columns come first, as in every join by time.
    pub(crate) left_row: Option<usize>,
}

/// The join by time that a node is.
pub(crate) fn time_join(plan: &LogicalPlan) -> Option<TimeJoin<'_>> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    let node = extension.node.as_any();
    if let Some(node) = node.downcast_ref::<asof_node::AsofNode>() {
        return Some(TimeJoin { left: &node.left, right: &node.right, keys: &node.keys, left_row: None });
    }
    let node = node.downcast_ref::<window_node::WindowNode>()?;
    let left_row = Some(node.left.schema().fields().len());
    Some(TimeJoin { left: &node.left, right: &node.right, keys: &node.keys, left_row })
}

/// A rule as `EXPLAIN` shows it.
fn describe(rule: MatchRule, left: &dyn Display, right: &dyn Display) -> String {
    let (direction, op) = match (rule.direction, rule.inclusive) {
        (Direction::Backward, true) => ("backward", ">="),
        (Direction::Backward, false) => ("backward", ">"),
        (Direction::Forward, true) => ("forward", "<="),
        (Direction::Forward, false) => ("forward", "<"),
        (Direction::Nearest, _) => ("nearest", "~"),
    };
    let tolerance = rule.tolerance.map_or("none".to_owned(), |steps| steps.to_string());
    format!("direction={direction}, match=[{left} {op} {right}], tolerance={tolerance}")
}
