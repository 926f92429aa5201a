//! What a window operator holds counts against the statement's memory.
//!
//! `WindowAggExec` of DataFusion collects all rows of its input and copies them into one batch before it gives a row, and asks no pool. So its input is
//! counted, twice, from the moment at which it takes a batch until it is done.

use std::fmt::{self, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};

use crate::walk::Walk;
use super::size::span_bytes;

/// The rows as they came, and the batch that they are copied into.
const COPIES: usize = 2;

/// The same plan with the inputs of its window operators counted.
pub(crate) fn count_windows(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| match node.children().as_slice() {
        [input] if node.is::<WindowAggExec>() => {
            let input = CountedExec::over(input);
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(Arc::clone(&node).replace_children(vec![input], options)?))
        }
        _ => Ok(Transformed::no(node)),
    };
    plan.transform_up(wrap).map(|transformed| transformed.data)
}

/// Hands on the batches of its input, and counts them as held.
#[derive(Debug)]
struct CountedExec {
    input: Arc<dyn ExecutionPlan>,
}

impl CountedExec {
    fn over(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        if input.is::<CountedExec>() { Arc::clone(input) } else { Arc::new(CountedExec { input: Arc::clone(input) }) }
    }
}

impl DisplayAs for CountedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CountedExec")
    }
}

impl ExecutionPlan for CountedExec {
    fn name(&self) -> &'static str {
        "CountedExec"
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
            [input] => Ok(CountedExec::over(input)),
            _ => internal_err!("CountedExec has one child"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new("WindowAggExec").register(context.memory_pool());
        Ok(Box::pin(Counted { input: self.input.execute(partition, context)?, held }))
    }
}

struct Counted {
    input: SendableRecordBatchStream,
    held: MemoryReservation,
}

impl Stream for Counted {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.input.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(batch))) = &polled
            && let Err(error) = self.held.try_grow(bytes(batch) * COPIES)
        {
            return Poll::Ready(Some(Err(error)));
        }
        polled
    }
}

impl RecordBatchStream for Counted {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Bytes of the rows of a batch, however large the buffers are that they stand in.
fn bytes(batch: &RecordBatch) -> usize {
    let bytes: u64 = batch.columns().iter().map(|column| span_bytes(column, 0..column.len())).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX / COPIES)
}
