//! What joins and `unnest` repeat is asked for before they make it.
//!
//! A join puts rows of its inputs into batches of a fixed number of rows, whatever a row takes; `unnest` puts a row there once for each element of its
//! lists. Neither asks the statement's pool. So the widest row of each input of a join is noted as it passes by, and what a batch of such rows takes is
//! reserved until the input's stream ends; of `unnest` what becomes of the batch that it was given last. Keys of dictionaries are
//! repeated, not their texts. Below 1 MiB nothing is reserved.

use std::fmt::{self, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};

use crate::walk::Walk;
use super::reserve::RESERVED_FROM;
use super::size::{elements, repeated_bytes, text_length};

/// A batch that is being made, and one that somebody holds.
const COPIES: u64 = 2;

/// The same plan with inputs of joins and of `unnest` looked at. `is_join` says what a join is.
pub(crate) fn count_repeats(
    plan: Arc<dyn ExecutionPlan>,
    is_join: impl Fn(&Arc<dyn ExecutionPlan>) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| {
        let repeats = match node.downcast_ref::<UnnestExec>() {
            Some(unnest) => {
                let lists = unnest.list_column_indices().iter();
                Repeats::Elements(lists.map(|list| (list.index_in_input_schema, list.depth)).collect())
            }
            // One by a condition alone reads its inputs anew when it is told that there is no memory, which a repartitioned one can't do:
            // DataFusion panics then ("partition not used yet").
            None if is_join(&node) && !node.is::<NestedLoopJoinExec>() => Repeats::Rows,
            None => return Ok(Transformed::no(node)),
        };
        let inputs = node.children().into_iter().map(|input| RepeatedExec::over(input, &repeats)).collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(Arc::clone(&node).replace_children(inputs, options)?))
    };
    plan.transform_up(wrap).map(|transformed| transformed.data)
}

/// What is repeated of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Repeats {
    /// Any of its rows, as often as a batch has rows.
    Rows,
    /// Each of its rows, as often as the longest of its lists in these columns has elements at these depths.
    Elements(Vec<(usize, usize)>),
}

/// Hands on the batches of its input, and asks for what is made of them.
#[derive(Debug)]
struct RepeatedExec {
    input: Arc<dyn ExecutionPlan>,
    repeats: Repeats,
}

impl RepeatedExec {
    fn over(input: &Arc<dyn ExecutionPlan>, repeats: &Repeats) -> Arc<dyn ExecutionPlan> {
        let is_known = input.downcast_ref::<RepeatedExec>().is_some_and(|known| known.repeats == *repeats);
        if is_known || (*repeats == Repeats::Rows && !has_long_values(&input.schema())) {
            return Arc::clone(input);
        }
        Arc::new(RepeatedExec { input: Arc::clone(input), repeats: repeats.clone() })
    }
}

/// Whether values of a column may be of any length.
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

impl DisplayAs for RepeatedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("RepeatedExec")
    }
}

impl ExecutionPlan for RepeatedExec {
    fn name(&self) -> &'static str {
        "RepeatedExec"
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
            [input] => Ok(RepeatedExec::over(input, &self.repeats)),
            _ => internal_err!("RepeatedExec has one child"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let name = match self.repeats {
            Repeats::Rows => "rows that a join repeats",
            Repeats::Elements(_) => "rows that unnest repeats",
        };
        let held = MemoryConsumer::new(name).register(context.memory_pool());
        let batch_rows = context.session_config().batch_size() as u64;
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Repeated { input, repeats: self.repeats.clone(), widest: 0, batch_rows, held }))
    }
}

struct Repeated {
    input: SendableRecordBatchStream,
    repeats: Repeats,
    /// Bytes of the widest row so far.
    widest: u64,
    batch_rows: u64,
    held: MemoryReservation,
}

impl Repeated {
    /// Asks for what is made of a batch.
    fn ask(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes = match &self.repeats {
            Repeats::Rows => {
                self.widest = self.widest.max(widest(batch));
                self.widest.saturating_mul(self.batch_rows)
            }
            Repeats::Elements(lists) => unnested(batch, lists),
        };
        let bytes = if bytes < RESERVED_FROM { 0 } else { bytes.saturating_mul(COPIES) };
        self.held.try_resize(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

/// Bytes of the widest row of a batch, as far as lengths differ; no less than the widest has.
fn widest(batch: &RecordBatch) -> u64 {
    let of = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => longest(column.as_string::<i32>().value_offsets()),
        DataType::Binary => longest(column.as_binary::<i32>().value_offsets()),
        // Views are repeated, not what they point to.
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

/// Bytes of a batch once each row stands there for each of its lists' elements.
fn unnested(batch: &RecordBatch, lists: &[(usize, usize)]) -> u64 {
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

impl Stream for Repeated {
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

impl RecordBatchStream for Repeated {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
