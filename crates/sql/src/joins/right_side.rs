//! The right side of an as-of or window join as it streams by: the batches that may still be needed, with their keys and
//! times.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DynComparator, Int64Array, RecordBatch, make_comparator};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use futures::StreamExt;

use super::asof_join::{KEY_ORDER, SideKeys, TIME_ORDER};

/// A batch with what its rows are ordered by.
pub(super) struct KeyedBatch {
    pub(super) rows: RecordBatch,
    pub(super) keys: Vec<ArrayRef>,
    pub(super) times: Int64Array,
    /// Columns that order rows of equal times.
    order: Vec<ArrayRef>,
}

impl KeyedBatch {
    pub(super) fn new(side: &SideKeys, rows: RecordBatch, with_order: bool) -> Result<KeyedBatch> {
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&rows)?.into_array(rows.num_rows());
        let keys = side.keys.iter().map(evaluate).collect::<Result<_>>()?;
        let times = whole_numbers(&evaluate(&side.time)?)?;
        let order = if with_order { &side.order[..] } else { &[] };
        let order = order.iter().map(|sort| evaluate(&sort.expr)).collect::<Result<_>>()?;
        Ok(KeyedBatch { rows, keys, times, order })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// The row behind those from `from` that belong to the same group.
    ///
    /// `same` compares the keys of this batch with themselves.
    pub(super) fn group_end(&self, same: &[DynComparator], from: usize) -> usize {
        first_from(from, self.len(), |row| compare(same, from, row) == Ordering::Equal)
    }

    /// Whether a key of the row is null.
    pub(super) fn has_null_key(&self, row: usize) -> bool {
        self.keys.iter().any(|key| key.is_null(row) || key.logical_nulls().is_some_and(|nulls| nulls.is_null(row)))
    }

    /// The end of the rows from `from` to `end` that have a time; rows without a time are last in their group.
    pub(super) fn times_end(&self, from: usize, end: usize) -> usize {
        if self.times.null_count() == 0 { end } else { first_from(from, end, |row| self.times.is_valid(row)) }
    }

    /// A batch without columns of the answer, to compare the next one with.
    fn outline(&self) -> Outline {
        Outline { keys: self.keys.clone(), times: self.times.clone(), order: self.order.clone() }
    }
}

/// The keys of a batch that may have been let go.
struct Outline {
    keys: Vec<ArrayRef>,
    times: Int64Array,
    order: Vec<ArrayRef>,
}

/// The first row of `from..end` for which `holds`, true for a prefix, doesn't hold. Doubles its step.
pub(super) fn first_from(from: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut lower, mut step) = (from, 1);
    while lower < end {
        let probe = (lower + step).min(end);
        if !holds(probe - 1) {
            let (mut low, mut high) = (lower, probe - 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if holds(middle) { low = middle + 1 } else { high = middle }
            }
            return low;
        }
        lower = probe;
        step *= 2;
    }
    end
}

/// Times as whole numbers.
pub(super) fn whole_numbers(times: &ArrayRef) -> Result<Int64Array> {
    let times = match times.data_type() {
        // Has no cast of its own to the wider type.
        DataType::Date32 | DataType::Time32(_) => cast(&cast(times, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(times, &DataType::Int64)?,
    };
    Ok(times.as_primitive::<Int64Type>().clone())
}

pub(super) fn comparators(left: &[ArrayRef], right: &[ArrayRef]) -> Result<Vec<DynComparator>> {
    comparators_by(left, right, KEY_ORDER)
}

fn comparators_by(left: &[ArrayRef], right: &[ArrayRef], options: SortOptions) -> Result<Vec<DynComparator>> {
    let pairs = left.iter().zip(right);
    Ok(pairs.map(|(left, right)| make_comparator(left, right, options)).collect::<Result<_, _>>()?)
}

pub(super) fn compare(comparators: &[DynComparator], left: usize, right: usize) -> Ordering {
    let mut each = comparators.iter().map(|compare| compare(left, right));
    each.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

/// A held batch.
pub(super) struct RightBatch {
    pub(super) batch: KeyedBatch,
    /// Number of the batch, by which the rows taken of it are known.
    pub(super) number: u64,
    /// Comparison with the left batch at work; renewed for each.
    to_left: Option<(u64, Vec<DynComparator>)>,
    /// Whether the first row ties with the last one of the batch before.
    begins_with_tie: bool,
    /// Rows before it aren't needed.
    pub(super) start: usize,
    bytes: usize,
}

impl RightBatch {
    /// How a right row's keys compare with those of a left row.
    fn compare(&mut self, left: &KeyedBatch, left_number: u64, left_row: usize, row: usize) -> Result<Ordering> {
        if self.to_left.as_ref().is_none_or(|(number, _)| *number != left_number) {
            self.to_left = Some((left_number, comparators(&self.batch.keys, &left.keys)?));
        }
        let comparators = self.to_left.as_ref().map_or(&[][..], |(_, comparators)| comparators);
        Ok(compare(comparators, row, left_row))
    }
}

/// The rows of one group that are held: a range of each batch, in order.
pub(super) struct RightGroup {
    pub(super) ranges: Vec<std::ops::Range<usize>>,
    /// Whether no more rows of the group can come.
    pub(super) is_closed: bool,
}

/// The right side.
pub(super) struct RightSide {
    stream: SendableRecordBatchStream,
    side: SideKeys,
    /// Whether ties matter because nothing orders them.
    watches_ties: bool,
    pub(super) batches: VecDeque<RightBatch>,
    last: Option<Outline>,
    loaded: u64,
    is_done: bool,
    /// Bytes of the held batches.
    pub(super) bytes: usize,
}

impl RightSide {
    pub(super) fn new(stream: SendableRecordBatchStream, side: SideKeys, watches_ties: bool) -> RightSide {
        let batches = VecDeque::new();
        RightSide { stream, side, watches_ties, batches, last: None, loaded: 0, is_done: false, bytes: 0 }
    }

    /// Holds one more batch; false at the end.
    pub(super) async fn load(&mut self) -> Result<bool> {
        loop {
            if self.is_done {
                return Ok(false);
            }
            let Some(rows) = self.stream.next().await.transpose()? else {
                self.is_done = true;
                return Ok(false);
            };
            if rows.num_rows() == 0 {
                continue;
            }
            let batch = KeyedBatch::new(&self.side, rows, self.watches_ties)?;
            let mut begins_with_tie = false;
            if self.watches_ties {
                if let Some(last) = &self.last {
                    begins_with_tie = self.ties(last, last.times.len() - 1, &batch.outline(), 0)?;
                }
                self.last = Some(batch.outline());
            }
            let bytes = slice_bytes(&batch.rows);
            self.bytes += bytes;
            self.loaded += 1;
            self.batches.push_back(RightBatch {
                batch,
                number: self.loaded,
                to_left: None,
                begins_with_tie,
                start: 0,
                bytes,
            });
            return Ok(true);
        }
    }

    /// Whether two rows have equal keys and times and nothing that orders them.
    fn ties(&self, one: &Outline, row: usize, other: &Outline, other_row: usize) -> Result<bool> {
        let is_equal = |one: &[ArrayRef], other: &[ArrayRef]| -> Result<bool> {
            Ok(compare(&comparators_by(one, other, TIME_ORDER)?, row, other_row) == Ordering::Equal)
        };
        Ok(one.times.value(row) == other.times.value(other_row)
            && is_equal(&one.keys, &other.keys)?
            && is_equal(&one.order, &other.order)?)
    }

    /// Whether a held row ties with the row before it.
    pub(super) fn ties_with_row_before(&self, position: usize, row: usize) -> Result<bool> {
        let right_batch = &self.batches[position];
        if row == 0 {
            return Ok(right_batch.begins_with_tie);
        }
        if right_batch.batch.times.value(row) != right_batch.batch.times.value(row - 1) {
            return Ok(false);
        }
        let outline = right_batch.batch.outline();
        self.ties(&outline, row - 1, &outline, row)
    }

    fn drop_front(&mut self) {
        if let Some(front) = self.batches.pop_front() {
            self.bytes -= front.bytes;
        }
    }

    /// Lets go of what comes before the group of a left row.
    pub(super) async fn skip_to(&mut self, left: &KeyedBatch, left_number: u64, left_row: usize) -> Result<()> {
        loop {
            let Some(front) = self.batches.front_mut() else {
                if self.load().await? {
                    continue;
                }
                return Ok(());
            };
            let rows = front.batch.len();
            if front.start >= rows || front.compare(left, left_number, left_row, rows - 1)? == Ordering::Less {
                self.drop_front();
                continue;
            }
            // Makes the comparators; with them the search can't fail.
            front.compare(left, left_number, left_row, rows - 1)?;
            let Some((_, comparators)) = &front.to_left else { return Ok(()) };
            front.start = first_from(front.start, rows, |row| compare(comparators, row, left_row) == Ordering::Less);
            return Ok(());
        }
    }

    /// The held rows of the group of a left row, without those whose time is null.
    pub(super) fn group(&mut self, left: &KeyedBatch, left_number: u64, left_row: usize) -> Result<RightGroup> {
        let mut group = RightGroup { ranges: Vec::with_capacity(self.batches.len()), is_closed: self.is_done };
        for right_batch in &mut self.batches {
            let (start, rows) = (right_batch.start, right_batch.batch.len());
            let is_whole =
                start < rows && right_batch.compare(left, left_number, left_row, rows - 1)? == Ordering::Equal;
            let end = match &right_batch.to_left {
                _ if is_whole => rows,
                Some((_, comparators)) => {
                    first_from(start, rows, |row| compare(comparators, row, left_row) == Ordering::Equal)
                }
                None => start,
            };
            let timed = right_batch.batch.times_end(start, end);
            group.ranges.push(start..timed);
            if timed < rows {
                group.is_closed = true;
                break;
            }
        }
        Ok(group)
    }

    /// Lets go of the first `count` rows of a group.
    pub(super) fn release(&mut self, group: &RightGroup, mut count: usize) {
        for range in &group.ranges {
            let released = count.min(range.len());
            let Some(front) = self.batches.front_mut() else { return };
            front.start = range.start + released;
            count -= released;
            if front.start < front.batch.len() {
                return;
            }
            self.drop_front();
        }
    }
}

/// Bytes of the rows themselves, not of the files or buffers that they are slices of.
pub(super) fn slice_bytes(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
}

/// The held rows of a group as one slice of times.
pub(super) fn window_times<'a>(right: &'a RightSide, group: &RightGroup, copied: &'a mut Vec<i64>) -> &'a [i64] {
    let mut filled = group.ranges.iter().enumerate().filter(|(_, range)| !range.is_empty());
    match (filled.next(), filled.next()) {
        (None, _) => &[],
        (Some((position, range)), None) => &right.batches[position].batch.times.values()[range.clone()],
        _ => {
            copied.clear();
            for (right_batch, range) in right.batches.iter().zip(&group.ranges) {
                copied.extend_from_slice(&right_batch.batch.times.values()[range.clone()]);
            }
            copied
        }
    }
}

/// A row of a group as the position of its batch and its row there.
pub(super) fn locate(group: &RightGroup, mut row: usize) -> Result<(usize, usize)> {
    for (position, range) in group.ranges.iter().enumerate() {
        if row < range.len() {
            return Ok((position, range.start + row));
        }
        row -= range.len();
    }
    Err(DataFusionError::Internal("a match outside of its group".to_owned()))
}
