//! Blocks filters of physical plans at operators whose columns have a name twice.
//!
//! Columns of physical plans have no relation, so a join's output may have one name twice. DataFusion 55.2 pushes
//! filters below projections and other operators by column name, and takes the first match, which may be another
//! column: filters of the plan, and those that joins create at run time. If an operator's columns have a name twice,
//! this blocks all filters at it. Can go once `FilterRemapper` of `filter_pushdown.rs` works by position.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;

use crate::pass::{PassExec, PassThrough, with_inputs, without};

/// The barrier above an operator whose columns have a name twice, while filters are moved.
#[derive(Debug, Clone, PartialEq)]
struct Barrier;

impl PassThrough for Barrier {
    const NAME: &'static str = "BarrierExec";

    fn stream(&self, input: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        input
    }
}

/// Applies a rule that moves filters, and keeps it from moving any by a duplicate name.
///
/// # Errors
/// Those of the rule.
pub(crate) fn move_filters(
    plan: Arc<dyn ExecutionPlan>,
    rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let barred = plan.transform_up(|operator| {
        let inputs = operator.children();
        if !inputs.iter().any(|input| has_name_twice(input)) {
            return Ok(Transformed::no(operator));
        }
        let above = |input: &Arc<dyn ExecutionPlan>| match has_name_twice(input) {
            true => PassExec::over(input, &Barrier),
            false => Arc::clone(input),
        };
        let inputs = inputs.into_iter().map(above).collect();
        with_inputs(&operator, inputs).map(Transformed::yes)
    })?;
    let moved = rule(barred.data)?;
    if !barred.transformed {
        return Ok(moved);
    }
    without::<Barrier>(moved)
}

fn has_name_twice(operator: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = operator.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name().as_str()))
}
