//! A pass-through operator that inspects each batch of its input: to yield, or to reserve memory.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};

/// The work of a [`PassExec`] on the batches that it hands on.
pub(crate) trait PassThrough: Debug + Clone + PartialEq + Send + Sync + 'static {
    /// The operator's name in `EXPLAIN`.
    const NAME: &'static str;
    /// Whether the operator keeps the order of its input.
    const KEEPS_ORDER: bool = true;

    /// Returns the input's batches, unchanged.
    fn stream(&self, input: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream;
}

/// An operator that passes the batches of its input through a passage.
#[derive(Debug)]
pub(crate) struct PassExec<P> {
    input: Arc<dyn ExecutionPlan>,
    passage: P,
}

impl<P: PassThrough> PassExec<P> {
    /// The input below a passage; without a second one if it has it already.
    pub(crate) fn over(input: &Arc<dyn ExecutionPlan>, passage: &P) -> Arc<dyn ExecutionPlan> {
        if input.downcast_ref::<PassExec<P>>().is_some_and(|there| there.passage == *passage) {
            return Arc::clone(input);
        }
        Arc::new(PassExec { input: Arc::clone(input), passage: passage.clone() })
    }
}

/// The operator with other inputs.
pub(crate) fn with_inputs(
    operator: &Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(operator).replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The plan without the operators that [`PassExec::over`] put into it.
///
/// # Errors
/// Those of DataFusion for an operator that doesn't take its own inputs again.
pub(crate) fn without<P: PassThrough>(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_down(|operator| {
        let inputs = operator.children();
        if !inputs.iter().any(|input| input.is::<PassExec<P>>()) {
            return Ok(Transformed::no(operator));
        }
        let below = |input: &Arc<dyn ExecutionPlan>| match input.children().as_slice() {
            [below] if input.is::<PassExec<P>>() => Arc::clone(below),
            _ => Arc::clone(input),
        };
        let inputs = inputs.into_iter().map(below).collect();
        with_inputs(&operator, inputs).map(Transformed::yes)
    })?;
    Ok(plan.data)
}

impl<P: PassThrough> DisplayAs for PassExec<P> {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(P::NAME)
    }
}

impl<P: PassThrough> ExecutionPlan for PassExec<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![P::KEEPS_ORDER]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.as_slice() {
            [input] => Ok(PassExec::over(input, &self.passage)),
            _ => internal_err!("{} has one child", P::NAME),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        Ok(self.passage.stream(input, &context))
    }
}
