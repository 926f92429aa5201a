//! Joins that give way, so that a statement whose answer was dropped ends soon.
//!
//! A task is stopped where it waits. A join that makes many rows of few, or passes over many pairs, seldom does: it polls its
//! inputs once for millions of pairs. So the streams into and out of every join wait for a turn of the executor once they have
//! been at work for [`TURN`]. What is left is the work on one batch of each input.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use futures::{Stream, StreamExt};

use crate::pass::{PassExec, Passage, with_inputs};
use crate::walk::Walk;

/// Time after which a stream gives way. A turn costs about a microsecond.
const TURN: Duration = Duration::from_millis(10);

/// The same plan with joins that give way.
pub(crate) fn give_way(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| {
        if !is_join(&node) {
            return Ok(Transformed::no(node));
        }
        let inputs = node.children().into_iter().map(|input| PassExec::over(input, &GiveWay)).collect();
        Ok(Transformed::yes(PassExec::over(&with_inputs(&node, inputs)?, &GiveWay)))
    };
    plan.transform_up(wrap).map(|transformed| transformed.data)
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

/// Gives way now and then.
#[derive(Debug, Clone, PartialEq)]
struct GiveWay;

impl Passage for GiveWay {
    const NAME: &'static str = "GiveWayExec";

    fn stream(&self, input: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
        Box::pin(GivingWay { input, since: None })
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
