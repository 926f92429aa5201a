//! Window functions: a value for each row from the rows around it.
//!
//! - Rows are mostly in the order of the windows. Each frame is then processed by itself, and nothing is sorted,
//!   copied or concatenated (`in_order.rs`).
//! - Otherwise the functions' columns are sorted by partition keys and order keys, each partition is processed as
//!   slices, and the results return to the rows' original places (`sorted.rs`). Calls with the same order share one
//!   sort.
//! - Aggregates over whole partitions are groups (`aggregate/`), and need no order. The first and the last value of a partition are read once.
//! - If few rows of each partition are needed, the others are removed first (`first.rs`).

mod bounds;
mod first;
mod framed;
mod in_order;
mod sorted;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::compute::{SortColumn, SortOptions};
use arrow::datatypes::DataType;
use splay_store::in_form;

use self::bounds::peers_within;
pub use self::bounds::{FrameBound, WindowFrame};
use self::first::{first_rows, wants_few};
use self::framed::framed;
use self::in_order::in_order;
use self::sorted::in_sorted_order;
use crate::aggregate::{Aggregate, AggregateFunction, at_each_row};
use crate::binary_op::BinaryOp;
use crate::dictionaries::concat_arrays;
use crate::error::{Error, Result};
use crate::execution_context::{ExecutionContext, check_memory};
use crate::expr::Expr;
use crate::frame::{Frame, SortKey};
use crate::frame_steps::{in_parts, over_frames, whole};
use crate::stop::Stop;

/// A function over a window.
#[derive(Debug, Clone)]
pub struct WindowCall {
    /// What is computed.
    pub function: WindowFunction,
    /// The function's arguments.
    pub arguments: Vec<Expr>,
    /// Rows that are equal in all of these are looked at together.
    pub partition_by: Vec<Expr>,
    /// Their order.
    pub order_by: Vec<SortKey>,
    /// Type of the result.
    pub data_type: DataType,
    /// For row numbers: a comparison with a constant. Rows whose number doesn't satisfy it may be left out.
    pub first: Option<(BinaryOp, usize)>,
}

impl WindowCall {
    /// Whether its results are the numbers of the rows in their partition.
    #[must_use]
    pub fn numbers_rows(&self) -> bool {
        matches!(&self.function, WindowFunction::Partition(function) if function.numbers_rows())
    }

    /// Whether it is an aggregate of each partition as a whole.
    fn is_of_partition(&self) -> bool {
        matches!(&self.function, WindowFunction::Frame(FrameFunction::Aggregate(_), frame) if frame.is_whole())
    }

    /// The end of a partition whose row has the value of all its rows, as for `first_value` of frames that begin with the partition. `None` if the
    /// values of its rows may differ.
    fn end_of_partition(&self) -> Option<PartitionEnd> {
        match &self.function {
            WindowFunction::Frame(FrameFunction::Value { nth: 1, ignore_nulls: false }, frame)
                if frame.begins_with_partition() =>
            {
                Some(PartitionEnd::First)
            }
            WindowFunction::Frame(FrameFunction::Value { nth: -1, ignore_nulls: false }, frame)
                if frame.ends_with_partition() =>
            {
                Some(PartitionEnd::Last)
            }
            _ => None,
        }
    }

    /// Whether the values of the order keys are read, and not only the order of the rows used.
    fn needs_order(&self) -> bool {
        match &self.function {
            WindowFunction::Partition(function) => function.needs_peers(),
            WindowFunction::Frame(_, frame) => self.end_of_partition().is_none() && frame.needs_order(),
        }
    }

    /// The expressions that are evaluated for each row: the arguments and, if needed, the order keys after them.
    fn inputs(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.order_by.iter().map(|key| &key.expr).filter(|_| self.needs_order());
        self.arguments.iter().chain(keys)
    }

    /// The values for the rows of partitions that are sorted and follow each other from the first row on.
    fn values(&self, inputs: &[ArrayRef], partitions: &[Range<usize>], stop: Stop) -> Result<ArrayRef> {
        let (arguments, keys) = inputs.split_at(self.arguments.len());
        let option = |key: &SortKey| SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        let keys = keys.iter().zip(&self.order_by);
        let order: Vec<SortColumn> = keys
            .map(|(values, key)| SortColumn { values: in_form(ArrayRef::clone(values)), options: Some(option(key)) })
            .collect();
        let values = match &self.function {
            WindowFunction::Frame(function, frame) => {
                let frame = if self.end_of_partition().is_some() { &WindowFrame::WHOLE } else { frame };
                framed(function, frame, arguments, &order, partitions, &self.data_type)?
            }
            WindowFunction::Partition(function) => {
                let peers = match function.needs_peers() {
                    true => peers_within(&order, partitions)?,
                    false => Vec::new(),
                };
                if let Some(values) = function.call_all(arguments, partitions, &peers)? {
                    stop.check()?;
                    values
                } else {
                    self.by_partition(function.as_ref(), arguments, partitions, &peers, stop)?
                }
            }
        };
        match *values.data_type() == self.data_type {
            true => Ok(values),
            false => Err(Error::Unsupported(format!("a window of {} as {}", values.data_type(), self.data_type))),
        }
    }

    /// The values of a function that is called for one partition after the other. `peers` are those of all of them.
    fn by_partition(
        &self,
        function: &dyn PartitionFunction,
        arguments: &[ArrayRef],
        partitions: &[Range<usize>],
        mut peers: &[Range<usize>],
        stop: Stop<'_>,
    ) -> Result<ArrayRef> {
        let parts = partitions.iter().map(|rows| {
            stop.check()?;
            let arguments: Vec<ArrayRef> =
                arguments.iter().map(|argument| argument.slice(rows.start, rows.len())).collect();
            let (own, others) = peers.split_at(peers.iter().take_while(|one| one.end <= rows.end).count());
            peers = others;
            let own: Vec<Range<usize>> = own.iter().map(|one| one.start - rows.start..one.end - rows.start).collect();
            function.call(&arguments, rows.len(), &own)
        });
        concat_arrays(parts.collect::<Result<_>>()?, &self.data_type)
    }
}

/// A row of a partition in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartitionEnd {
    First,
    Last,
}

/// What is computed of a window.
#[derive(Debug, Clone)]
pub enum WindowFunction {
    /// Anything that looks at a whole partition.
    Partition(Arc<dyn PartitionFunction>),
    /// Something of the rows of each row's frame.
    Frame(FrameFunction, WindowFrame),
}

/// A window function from outside the engine.
pub trait PartitionFunction: Debug + Send + Sync {
    /// The values for the rows of one partition, which are in order. `peers` are the rows that are equal in the order, if those
    /// are needed.
    ///
    /// # Errors
    /// [`Error::Function`] with the function's own words.
    fn call(&self, arguments: &[ArrayRef], rows: usize, peers: &[Range<usize>]) -> Result<ArrayRef>;

    /// The values for the rows of partitions that follow each other from the first row on, if it can tell them in one pass. `peers` are those of
    /// all partitions, cut where these are.
    ///
    /// # Errors
    /// As [`PartitionFunction::call`].
    fn call_all(
        &self,
        _arguments: &[ArrayRef],
        _partitions: &[Range<usize>],
        _peers: &[Range<usize>],
    ) -> Result<Option<ArrayRef>> {
        Ok(None)
    }

    /// Whether the values are the numbers of the rows, from 1.
    fn numbers_rows(&self) -> bool {
        false
    }

    /// Whether it looks at which rows are equal in the order.
    fn needs_peers(&self) -> bool {
        false
    }
}

/// What is computed of the rows of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameFunction {
    /// An aggregate, as of a group; other frames than whole partitions have those of [`AggregateFunction::has_frames`].
    Aggregate(AggregateFunction),
    /// The value of one row, null where there is none.
    Value {
        /// Which row: from 1 on from the first one, below zero from the last one, which is -1.
        nth: i64,
        /// Whether rows whose value is null aren't counted.
        ignore_nulls: bool,
    },
}

/// The frames with a column more for each call. Rows that only few are wanted of may be left out.
pub(crate) fn windows(
    mut frames: Vec<Frame>,
    calls: &[WindowCall],
    context: &ExecutionContext<'_>,
) -> Result<Vec<Frame>> {
    if wants_few(calls, context.constants) {
        let row_total = AtomicUsize::new(0);
        frames = over_frames(in_parts(&frames, context), context, |frame| {
            match first_rows(&frame, calls, context.constants)? {
                Some(rows) => {
                    // Relaxed: nothing but the sum matters.
                    let all = row_total.fetch_add(rows.len(), Ordering::Relaxed).saturating_add(rows.len());
                    check_memory(all, frame.types(), context.memory_bytes / 2)?;
                    frame.take(&rows)
                }
                None => Ok(frame),
            }
        })?;
    } else if let Some(results) = in_order(&frames, calls, context)? {
        return Ok(with_columns(frames, results));
    } else if calls.iter().all(WindowCall::is_of_partition) {
        match calls.iter().map(|call| of_partitions(&frames, call, context)).collect::<Result<Vec<_>>>() {
            Ok(results) => return Ok(with_columns(frames, results)),
            // Keys that aren't hashed can be sorted.
            Err(Error::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let mut frame = whole(frames.clone(), context)?;
    if let Some(rows) = first_rows(&frame, calls, context.constants)? {
        frame = frame.take(&rows)?;
        let results = in_sorted_order(&frame, calls, context)?;
        results.into_iter().for_each(|result| frame.push(result));
        return Ok(vec![frame]);
    }
    // The rows stand as they came: columns that no call looks at needn't be put together.
    let results = in_sorted_order(&frame, calls, context)?;
    let lengths: Vec<usize> = frames.iter().map(Frame::len).collect();
    let cut = |result: ArrayRef| -> Vec<ArrayRef> {
        let begins = lengths.iter().scan(0, |next, rows| Some(std::mem::replace(next, *next + rows)));
        begins.zip(&lengths).map(|(begin, rows)| result.slice(begin, *rows)).collect()
    };
    Ok(with_columns(frames, results.into_iter().map(cut).collect()))
}

/// The results of a call over whole partitions, by frame.
fn of_partitions(frames: &[Frame], call: &WindowCall, context: &ExecutionContext<'_>) -> Result<Vec<ArrayRef>> {
    context.stop.check()?;
    at_each_row(frames, &call.partition_by, &over_partition(call)?, context.constants)
}

/// The frames with further columns, by column and frame.
fn with_columns(mut frames: Vec<Frame>, columns: Vec<Vec<ArrayRef>>) -> Vec<Frame> {
    for column in columns {
        frames.iter_mut().zip(column).for_each(|(frame, column)| frame.push(column));
    }
    frames
}

/// The aggregate that a call computes over each whole partition.
fn over_partition(call: &WindowCall) -> Result<Aggregate> {
    let WindowFunction::Frame(FrameFunction::Aggregate(function), _) = &call.function else {
        return Err(Error::Unsupported("a window that depends on an order".to_owned()));
    };
    let (function, arguments) = (function.clone(), call.arguments.clone());
    Ok(Aggregate::new(function, arguments, call.data_type.clone()))
}
