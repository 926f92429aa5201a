//! Counts the rows that window operators hold against the statement's memory.
//!
//! DataFusion's `WindowAggExec` collects all rows of its input and copies them into one batch before it returns a
//! row, without a reservation. So its input is counted twice, from the arrival of a batch until the operator is done.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::WindowAggExec;
use futures::{Stream, StreamExt};
use splay_functions::walk::Walk;

use super::size::span_bytes;
use crate::pass::{PassExec, PassThrough, with_inputs};

/// The rows as they arrive, and the batch into which they are copied.
const COPIES: usize = 2;

/// Wraps the inputs of a plan's window operators so that their rows are counted.
pub(crate) fn count_windows(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| match node.children().as_slice() {
        [input] if node.is::<WindowAggExec>() => {
            let inputs = vec![PassExec::over(input, &BatchMemoryCounter)];
            Ok(Transformed::yes(with_inputs(&node, inputs)?))
        }
        _ => Ok(Transformed::no(node)),
    };
    plan.transform_up(wrap).map(|transformed| transformed.data)
}

/// Counts batches as held memory.
#[derive(Debug, Clone, PartialEq)]
struct BatchMemoryCounter;

impl PassThrough for BatchMemoryCounter {
    const NAME: &'static str = "CountedExec";

    fn stream(&self, input: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let reservation = MemoryConsumer::new("WindowAggExec").register(context.memory_pool());
        Box::pin(CountedStream { input, reservation })
    }
}

struct CountedStream {
    input: SendableRecordBatchStream,
    reservation: MemoryReservation,
}

impl Stream for CountedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.input.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(batch))) = &polled
            && let Err(error) = self.reservation.try_grow(bytes(batch) * COPIES)
        {
            return Poll::Ready(Some(Err(error)));
        }
        polled
    }
}

impl RecordBatchStream for CountedStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Bytes of the rows of a batch, without the rest of their shared buffers.
fn bytes(batch: &RecordBatch) -> usize {
    let bytes: u64 = batch.columns().iter().map(|column| span_bytes(column, 0..column.len())).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX / COPIES)
}
