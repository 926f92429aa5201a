//! A part as a node of the logical plan, and its physical planning.
//!
//! It has no input, so no optimizer rule can move a filter or a limit into it, where the engine wouldn't see it.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::StatementPart;
use super::exec::TickPartExec;

/// A part whose rows the engine computes.
#[derive(Debug, Clone)]
pub(super) struct TickPart {
    pub part: Arc<StatementPart>,
    pub schema: DFSchemaRef,
}

impl PartialEq for TickPart {
    fn eq(&self, other: &TickPart) -> bool {
        Arc::ptr_eq(&self.part, &other.part)
    }
}

impl Eq for TickPart {}

impl Hash for TickPart {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.part).hash(state);
    }
}

impl PartialOrd for TickPart {
    fn partial_cmp(&self, other: &TickPart) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for TickPart {
    fn name(&self) -> &str {
        "TickPart"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TickPart: {}", self.part.steps(None))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<TickPart> {
        if exprs.is_empty() && inputs.is_empty() { Ok(self.clone()) } else { internal_err!("a tick part is a leaf") }
    }
}

/// Plans the parts of a statement that the engine runs.
pub(crate) struct TickPartPlanner;

#[async_trait]
impl ExtensionPlanner for TickPartPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        _physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<TickPart>() else { return Ok(None) };
        Ok(Some(Arc::new(TickPartExec::new(Arc::clone(&node.part)))))
    }
}
