//! Keeps sorts above limits with an `OFFSET`.
//!
//! - **The rule.** While DataFusion moves sorts, a barrier that no order passes stands above each limit with an offset,
//!   except the limit whose rows are the statement's answer.
//! - **The reason.** If the rows of a limit have to be sorted by other or by further keys, DataFusion 55.2 sorts below
//!   the limit. With other keys the limit then skips other rows. With further keys the offset is subtracted twice from
//!   the number of rows (`pushdown_requirement_to_children` of `sort_pushdown.rs`).
//! - **It can go** once DataFusion considers the offset when it moves sorts.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;

use crate::pass::{PassExec, PassThrough, with_inputs, without};

/// The rule that moves sorts.
pub(crate) const MOVES_SORTS: &str = "EnsureRequirements";

/// Operators that preserve the rows of the answer, if they are the first of a plan.
const OF_ANSWER: [&str; 4] =
    ["CoalescePartitionsExec", "OutputRequirementExec", "ProjectionExec", "SortPreservingMergeExec"];

/// The barrier above a limit with an offset, while sorts are moved.
#[derive(Debug, Clone, PartialEq)]
struct Barrier;

impl PassThrough for Barrier {
    const NAME: &'static str = "OffsetBarrierExec";
    const KEEPS_ORDER: bool = false;

    fn stream(&self, input: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        input
    }
}

/// Applies a rule that moves sorts, and keeps it from moving any below a limit with an offset.
///
/// # Errors
/// Those of the rule.
pub(crate) fn move_sorts(
    plan: Arc<dyn ExecutionPlan>,
    rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(barred) = add_barriers(&plan, true)? else { return rule(plan) };
    without::<Barrier>(rule(barred)?)
}

/// The plan with barriers; `None` if it needs none.
fn add_barriers(operator: &Arc<dyn ExecutionPlan>, is_answer: bool) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_answer = is_answer && OF_ANSWER.contains(&operator.name());
    let mut is_changed = false;
    let mut inputs = Vec::new();
    for input in operator.children() {
        let below = add_barriers(input, is_answer)?;
        let skips = input.downcast_ref::<GlobalLimitExec>().is_some_and(|limit| limit.skip() > 0);
        is_changed |= below.is_some() || (skips && !is_answer);
        let input = below.unwrap_or_else(|| Arc::clone(input));
        inputs.push(if skips && !is_answer { PassExec::over(&input, &Barrier) } else { input });
    }
    if is_changed { with_inputs(operator, inputs).map(Some) } else { Ok(None) }
}
