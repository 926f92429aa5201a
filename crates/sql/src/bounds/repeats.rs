//! Reserves memory for rows that joins and `unnest` repeat, before they do.
//!
//! A join copies rows of its inputs into batches of a fixed number of rows, whatever the size of a row; `unnest`
//! copies a row once for each element of its lists. Neither reserves memory. So an operator below records the widest
//! row of each input, and reserves a batch of such rows until the input's stream ends; for `unnest` it reserves the
//! expanded size of the last batch. Keys of dictionaries are repeated, not their texts. Below 1 MiB nothing is
//! reserved.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::unnest::UnnestExec;
use futures::{Stream, StreamExt};
use splay_functions::walk::Walk;

use super::reserve::RESERVED_FROM;
use super::size::{elements, repeated_bytes, text_length};
use crate::pass::{PassExec, PassThrough, with_inputs};

/// Copies of a batch in memory: the one that is being built, and one that the reader holds.
const COPIES: u64 = 2;

/// Wraps the inputs of joins and of `unnest` so that repeated rows are counted. `is_join` tells which nodes are joins.
pub(crate) fn count_repeats(
    plan: Arc<dyn ExecutionPlan>,
    is_join: impl Fn(&Arc<dyn ExecutionPlan>) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| {
        let repeats = match node.downcast_ref::<UnnestExec>() {
            Some(unnest) => {
                let lists = unnest.list_column_indices().iter();
                RepeatedParts::Elements(lists.map(|list| (list.index_in_input_schema, list.depth)).collect())
            }
            // A nested-loop join reads its inputs again when a reservation of memory fails. A repartitioned input can't be read twice: DataFusion
            // panics with "partition not used yet".
            None if is_join(&node) && !node.is::<NestedLoopJoinExec>() => RepeatedParts::Rows,
            None => return Ok(Transformed::no(node)),
        };
        let inputs = node.children().into_iter().map(|input| repeats.over(input)).collect();
        Ok(Transformed::yes(with_inputs(&node, inputs)?))
    };
    plan.transform_up(wrap).map(|transformed| transformed.data)
}

/// The parts of a batch that an operator repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RepeatedParts {
    /// Any of its rows, up to as many times as a batch has rows.
    Rows,
    /// Each of its rows, as often as the longest of its lists has elements. Lists are given by column and depth.
    Elements(Vec<(usize, usize)>),
}

impl RepeatedParts {
    /// The input with reservations for its batches, if any row may be wide.
    fn over(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match self {
            RepeatedParts::Rows if !has_long_values(&input.schema()) => Arc::clone(input),
            _ => PassExec::over(input, self),
        }
    }
}

impl PassThrough for RepeatedParts {
    const NAME: &'static str = "RepeatedExec";

    fn stream(&self, input: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let name = match self {
            RepeatedParts::Rows => "rows that a join repeats",
            RepeatedParts::Elements(_) => "rows that unnest repeats",
        };
        let reservation = MemoryConsumer::new(name).register(context.memory_pool());
        let batch_rows = context.session_config().batch_size() as u64;
        Box::pin(RepeatBoundStream { input, repeats: self.clone(), widest: 0, batch_rows, reservation })
    }
}

/// Whether values of a column may have any length.
fn has_long_values(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| is_long(field.data_type()))
}

fn is_long(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, _) | DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(_) => false,
        DataType::FixedSizeList(item, _) => is_long(item.data_type()),
        other => other.primitive_width().is_none(),
    }
}

struct RepeatBoundStream {
    input: SendableRecordBatchStream,
    repeats: RepeatedParts,
    /// The size of the widest row so far in bytes.
    widest: u64,
    batch_rows: u64,
    reservation: MemoryReservation,
}

impl RepeatBoundStream {
    /// Reserves memory for the rows that are built from a batch.
    fn ask(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes = match &self.repeats {
            RepeatedParts::Rows => {
                self.widest = self.widest.max(widest(batch));
                self.widest.saturating_mul(self.batch_rows)
            }
            RepeatedParts::Elements(lists) => unnested_bytes(batch, lists),
        };
        let bytes = if bytes < RESERVED_FROM { 0 } else { bytes.saturating_mul(COPIES) };
        self.reservation.try_resize(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

/// Bytes of the widest row of a batch, as far as lengths differ; no less than the widest has.
fn widest(batch: &RecordBatch) -> u64 {
    let of = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => longest(column.as_string::<i32>().value_offsets()),
        DataType::Binary => longest(column.as_binary::<i32>().value_offsets()),
        // Views are repeated, not the bytes behind them.
        DataType::Utf8View | DataType::BinaryView => 0,
        DataType::LargeUtf8 | DataType::LargeBinary => {
            (0..column.len()).map(|row| text_length(column, row)).max().unwrap_or(0)
        }
        other if is_long(other) => (0..column.len()).map(|row| repeated_bytes(column, row..row + 1)).max().unwrap_or(0),
        _ => 0,
    };
    batch.columns().iter().map(of).sum()
}

fn longest(offsets: &[i32]) -> u64 {
    offsets.windows(2).map(|pair| u64::from(pair[1].abs_diff(pair[0]))).max().unwrap_or(0)
}

/// The size of a batch whose rows are repeated for each element of their lists.
fn unnested_bytes(batch: &RecordBatch, lists: &[(usize, usize)]) -> u64 {
    let mut bytes = 0_u64;
    for row in 0..batch.num_rows() {
        let times = lists.iter().map(|(column, depth)| inner(batch.column(*column), row, *depth)).max().unwrap_or(1);
        let is_list = |column: usize| lists.iter().any(|(list, _)| *list == column);
        let columns = batch.columns().iter().enumerate();
        let row_bytes = |(column, values): (usize, &ArrayRef)| match is_list(column) {
            // Its elements, each once, have the place of a number at least.
            true => 16,
            false => repeated_bytes(values, row..row + 1).max(1),
        };
        let width: u64 = columns.map(row_bytes).sum();
        bytes = bytes.saturating_add(width.saturating_mul(times));
    }
    bytes
}

/// Elements of a row's list at a depth.
fn inner(list: &ArrayRef, row: usize, depth: usize) -> u64 {
    let mut at = (Arc::clone(list), row..row + 1);
    for _ in 0..depth.max(1) {
        match elements(&at.0, at.1.clone()) {
            Some(next) => at = next,
            None => break,
        }
    }
    at.1.len() as u64
}

impl Stream for RepeatBoundStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.input.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(batch))) = &polled
            && let Err(error) = self.ask(batch)
        {
            return Poll::Ready(Some(Err(error)));
        }
        polled
    }
}

impl RecordBatchStream for RepeatBoundStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
