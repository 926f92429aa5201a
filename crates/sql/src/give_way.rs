//! Joins that give way, so that a statement whose answer was dropped ends soon.
//!
//! A task is stopped where it waits. A join that makes many rows of few, or passes over many pairs, seldom does: it polls its
//! inputs once for millions of pairs. So the streams into and out of every join wait for a turn of the executor once they have
//! been at work for [`TURN`]. What is left is the work on one batch of each input.

use std::fmt::{self, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};

use crate::walk::Walk;

/// Time after which a stream gives way. A turn costs about a microsecond.
const TURN: Duration = Duration::from_millis(10);

/// The same plan with joins that give way.
pub(crate) fn give_way(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| {
        if !is_join(&node) {
            return Ok(Transformed::no(node));
        }
        let inputs = node.children().into_iter().map(GiveWayExec::over).collect();
        Ok(Transformed::yes(GiveWayExec::over(&with_inputs(node, inputs)?)))
    };
    plan.transform_up(wrap).map(|transformed| transformed.data)
}

fn with_inputs(join: Arc<dyn ExecutionPlan>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    join.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Whether it is one of DataFusion's joins.
pub(crate) fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SymmetricHashJoinExec>()
}

/// Hands on the batches of its input, and gives way now and then.
#[derive(Debug)]
struct GiveWayExec {
    input: Arc<dyn ExecutionPlan>,
}

impl GiveWayExec {
    fn over(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        if input.is::<GiveWayExec>() { Arc::clone(input) } else { Arc::new(GiveWayExec { input: Arc::clone(input) }) }
    }
}

impl DisplayAs for GiveWayExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("GiveWayExec")
    }
}

impl ExecutionPlan for GiveWayExec {
    fn name(&self) -> &'static str {
        "GiveWayExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
            [input] => Ok(GiveWayExec::over(input)),
            _ => internal_err!("GiveWayExec has one child"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(GivingWay { input: self.input.execute(partition, context)?, since: None }))
    }
}

struct GivingWay {
    input: SendableRecordBatchStream,
    /// When the turn began.
    since: Option<Instant>,
}

impl Stream for GivingWay {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= TURN {
            self.since = None;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.input.poll_next_unpin(context);
        if polled.is_pending() {
            self.since = None;
        }
        polled
    }
}

impl RecordBatchStream for GivingWay {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
