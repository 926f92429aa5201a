//! Parts of a statement that run as tick plans when the whole doesn't.
//!
//! DataFusion runs, for example, a join of two groupings, a comparison of rows with a mean, or a union with a step
//! that the engine lacks; each grouping in it that has a tick plan becomes a leaf of DataFusion's plan.
//!
//! ```text
//! Join: Full                        Join: Full
//!   Aggregate: by symbol     ──►      TickPart: AggregateTable: by [symbol]
//!     TableScan: quote                TickPart: AggregateTable: by [symbol]
//!   Aggregate: by symbol
//!     TableScan: trade
//! ```
//!
//! Only groupings become parts, because they reduce many rows to few; other rows stream through DataFusion. And only
//! those that the engine computes faster and that can't fail. If the engine refuses one while it runs, DataFusion
//! plans it.

mod exec;
mod find;
mod node;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use splay_engine::{Plan, StepCosts};
use splay_store::{FilesInPlace, TableSnapshot};

pub(crate) use self::exec::{PartRun as PartRan, TickPartExec};
pub(crate) use self::find::{with_tick_parts, with_tick_parts_of};
pub(crate) use self::node::TickPartPlanner;
use crate::planner;

/// A part of a statement, with everything that either way of running it needs.
#[derive(Debug)]
struct StatementPart {
    plan: Plan,
    constants: Vec<ArrayRef>,
    /// The tables as the statement sees them.
    tables: Vec<TableSnapshot>,
    /// The files that it reads in place.
    files: Vec<Arc<dyn FilesInPlace>>,
    schema: SchemaRef,
    general: DataFusionPart,
}

impl StatementPart {
    /// The steps of the tick plan on one line, the last one first, with their cost if it has run.
    fn steps(&self, costs: Option<&StepCosts>) -> String {
        let steps = costs.map_or_else(|| self.plan.to_string(), |costs| self.plan.with_costs(costs).to_string());
        steps.lines().map(str::trim).collect::<Vec<_>>().join(" <- ")
    }
}

/// The part as a plan of DataFusion's, for the case that the engine refuses it.
struct DataFusionPart {
    plan: LogicalPlan,
    has_joins: bool,
    state: Arc<SessionState>,
}

impl DataFusionPart {
    async fn physical(&self) -> Result<Arc<dyn ExecutionPlan>> {
        planner::physical(&self.state, self.plan.clone(), self.has_joins).await
    }
}

impl std::fmt::Debug for DataFusionPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataFusionPart")
            .field("plan", &self.plan)
            .field("has_joins", &self.has_joins)
            .finish_non_exhaustive()
    }
}
