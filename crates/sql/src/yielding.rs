//! Makes joins yield to the executor, so that a statement whose answer was dropped ends soon.
//!
//! A task can only be cancelled where it awaits. A join that makes many rows from few, or scans many pairs, seldom
//! does: it polls its inputs once for millions of pairs. So the streams into and out of every join wait for a turn of
//! the executor after [`TURN`] of work, and those into it split their batches into pieces of less than [`PIECE`] of
//! work.

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
use splay_functions::walk::Walk;

use crate::pass::{PassExec, PassThrough, with_inputs};

/// Time after which a stream yields. Each yield costs about a microsecond.
const TURN: Duration = Duration::from_millis(10);

/// The work on a piece at most, if a row isn't more. A nested loop takes thrice as long for each pair of pieces below some 700 rows, which
/// are 300 ms of work where the other table has 300,000.
const PIECE: Duration = Duration::from_millis(400);

/// Rows of the first piece: 32 million pairs with 2 million rows of the other table.
const FIRST_ROWS: usize = 16;

/// Wraps the joins of a plan so that they yield.
pub(crate) fn with_yields(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let wrap = |node: Arc<dyn ExecutionPlan>| {
        if !is_join(&node) {
            return Ok(Transformed::no(node));
        }
        let inputs = node.children().into_iter().map(|input| PassExec::over(input, &YieldPoint::IntoJoin)).collect();
        Ok(Transformed::yes(PassExec::over(&with_inputs(&node, inputs)?, &YieldPoint::OutOfJoin)))
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

/// Yields from time to time.
#[derive(Debug, Clone, PartialEq)]
enum YieldPoint {
    /// Also splits batches into pieces.
    IntoJoin,
    OutOfJoin,
}

impl PassThrough for YieldPoint {
    const NAME: &'static str = "GiveWayExec";

    fn stream(&self, input: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
        let pieces = (*self == YieldPoint::IntoJoin).then(BatchSplitter::default);
        Box::pin(YieldingStream { input, since: None, pieces })
    }
}

struct YieldingStream {
    input: SendableRecordBatchStream,
    /// The beginning of the turn.
    since: Option<Instant>,
    pieces: Option<BatchSplitter>,
}

impl YieldingStream {
    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let Some(pieces) = &mut self.pieces else { return self.input.poll_next_unpin(context) };
        pieces.measure();
        if pieces.rest.is_none() {
            match self.input.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(batch))) => pieces.rest = Some(batch),
                other => return other,
            }
        }
        Poll::Ready(pieces.next().map(Ok))
    }
}

impl Stream for YieldingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= TURN {
            self.since = None;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.poll_input(context);
        if polled.is_pending() {
            self.since = None;
        }
        polled
    }
}

impl RecordBatchStream for YieldingStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Splits batches into pieces: of half as many rows after a slow piece, of more rows after a quick one. The number of pairs that a row forms isn't
/// known in advance.
struct BatchSplitter {
    /// The rest of a batch.
    rest: Option<RecordBatch>,
    rows: usize,
    /// When the join was given its last piece, and how many rows that had.
    last_piece: Option<(Instant, usize)>,
}

impl Default for BatchSplitter {
    fn default() -> BatchSplitter {
        BatchSplitter { rest: None, rows: FIRST_ROWS, last_piece: None }
    }
}

impl BatchSplitter {
    /// Called when the join asks for more: chooses the length of the next piece by the time since the last one.
    ///
    /// A client that reads slowly counts as work. Pieces are then small for no need, while nobody waits for them.
    fn measure(&mut self) {
        if let Some((at, rows)) = self.last_piece.take() {
            self.choose(rows, at.elapsed());
        }
    }

    fn choose(&mut self, rows: usize, took: Duration) {
        self.rows = if took > PIECE {
            (rows / 2).max(1)
        } else if took < PIECE / 16 {
            self.rows.max(rows.saturating_mul(8))
        } else if took < PIECE / 2 {
            self.rows.max(rows.saturating_mul(2))
        } else {
            self.rows
        };
    }

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.rest.take()?;
        let rows = self.rows.min(batch.num_rows());
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.last_piece = Some((Instant::now(), rows));
        Some(batch.slice(0, rows))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use arrow::record_batch::RecordBatchOptions;

    use super::*;

    #[test]
    fn pieces_are_the_rows_of_their_batches_in_order() {
        let mut pieces = BatchSplitter::default();
        let mut values = Vec::new();
        let mut lengths = Vec::new();
        for first in [0, 100, 100, 107] {
            let ends = if first == 0 { 100 } else { 107 };
            let column: Int64Array = (first..ends).collect();
            pieces.rest = Some(RecordBatch::try_from_iter([("x", Arc::new(column) as _)]).expect("a batch"));
            while let Some(piece) = pieces.next() {
                lengths.push(piece.num_rows());
                values.extend_from_slice(piece.column(0).as_primitive::<Int64Type>().values());
                pieces.choose(piece.num_rows(), Duration::ZERO);
            }
        }
        assert_eq!(lengths, [16, 84, 7, 7, 0]);
        assert_eq!(values, (0..107).chain(100..107).collect::<Vec<i64>>());
    }

    #[test]
    fn a_batch_without_columns_keeps_its_count() {
        let mut pieces = BatchSplitter::default();
        let options = RecordBatchOptions::new().with_row_count(Some(50));
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        pieces.rest = Some(RecordBatch::try_new_with_options(schema, vec![], &options).expect("a batch"));
        let rows: Vec<usize> = std::iter::from_fn(|| pieces.next()).map(|piece| piece.num_rows()).collect();
        assert_eq!(rows, [16, 16, 16, 2]);
    }

    #[test]
    fn pieces_shrink_to_a_row_and_grow_again() {
        let mut pieces = BatchSplitter::default();
        let mut rows = 8192;
        for _ in 0..20 {
            pieces.choose(rows, PIECE * 2);
            rows = pieces.rows;
        }
        assert_eq!(rows, 1, "a row that is much work is the least piece");
        pieces.choose(1, PIECE);
        assert_eq!(pieces.rows, 1);
        pieces.choose(1, PIECE / 4);
        assert_eq!(pieces.rows, 2);
        pieces.choose(2, Duration::ZERO);
        assert_eq!(pieces.rows, 16);
    }
}
