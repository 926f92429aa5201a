//! Window functions over frames whose rows are already in the windows' order, as those of a table by symbol and time
//! are.
//!
//! Idea: each frame is processed by itself, without a sort, a copy or a concatenation. If a partition continues in
//! another run, the few rows before a run are read along if the function needs no more; otherwise the runs of that
//! partition are concatenated.
//!
//! Invariant: each partition consists of long runs of rows, one per date for example, over which the order keys
//! ascend. This is checked for every input, about a nanosecond per row, and never assumed.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{partition, take};
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::HashMap;

use super::{PartitionEnd, WindowCall, WindowFunction, over_partition};
use crate::aggregate::{GroupRun, RowGroups, accumulator_of, arguments, group_rows};
use crate::dictionaries::concat_arrays;
use crate::error::{Error, Result};
use crate::execution_context::{ExecutionContext, check_memory};
use crate::expr::Expr;
use crate::frame::{Frame, SortKey};
use crate::order::plain_numbers;
use crate::parallel;
use crate::value::Value;

/// Fewest rows per stretch, on average, for which rows in order are worth it; with shorter ones, sorting is as fast. Up
/// to `STRETCHES_MIN` stretches any length is accepted.
const STRETCH_ROWS_MIN: usize = 4;
const STRETCHES_MIN: usize = 256;

/// Fewest rows, on average, per stretch that is only a part of its partition. With more such stretches, combining them
/// costs more than a sort.
const PIECE_ROWS_MIN: usize = 64;

/// Results by call and frame; `None` if the rows aren't in the order of some call.
pub(super) fn in_order(
    frames: &[Frame],
    calls: &[WindowCall],
    context: &ExecutionContext<'_>,
) -> Result<Option<Vec<Vec<ArrayRef>>>> {
    let rows: usize = frames.iter().map(Frame::len).sum();
    let threads = parallel::threads_for(rows.saturating_mul(calls.len()), 0, context.threads);
    let mut orders: Vec<(&WindowCall, Partitions)> = Vec::new();
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        let place = match orders.iter().position(|(other, _)| has_same_order(call, other, context.constants)) {
            Some(place) => place,
            None => {
                let Some(partitions) = Partitions::of(frames, call, threads, context)? else { return Ok(None) };
                orders.push((call, partitions));
                orders.len() - 1
            }
        };
        results.push(place);
    }
    // What goes on in another frame may be put together, arguments and results.
    let arguments: usize = calls.iter().map(|call| call.inputs().count() + 1).max().unwrap_or(0);
    let types = calls.iter().map(|call| &call.data_type).chain(std::iter::repeat_n(&DataType::Float64, arguments));
    check_memory(rows, types, context.memory_bytes / 2)?;
    let results = calls.iter().zip(results).map(|(call, place)| {
        let over = CallOverFrames { frames, partitions: &orders[place].1, call, threads, context };
        if let Some(end) = call.end_of_partition() {
            return over.ends_of_partitions(end);
        }
        match &call.function {
            _ if call.is_of_partition() => over.whole_partitions(),
            WindowFunction::Frame(_, frame) => match frame.last_rows() {
                Some(before) => over.last_rows(before),
                None => over.partitions(),
            },
            WindowFunction::Partition(_) => over.partitions(),
        }
    });
    results.collect::<Result<_>>().map(Some)
}

/// Whether two calls look at rows in the same order.
pub(super) fn has_same_order(one: &WindowCall, other: &WindowCall, constants: &[ArrayRef]) -> bool {
    let same_key = |(one, other): (&SortKey, &SortKey)| {
        (one.descending, one.nulls_first) == (other.descending, other.nulls_first)
            && one.expr.is_same(&other.expr, constants)
    };
    one.partition_by.len() == other.partition_by.len()
        && one.order_by.len() == other.order_by.len()
        && one.partition_by.iter().zip(&other.partition_by).all(|(one, other)| one.is_same(other, constants))
        && one.order_by.iter().zip(&other.order_by).all(same_key)
}

/// Rows of a frame that are of one partition.
#[derive(Debug, Clone)]
struct PartitionRows {
    rows: Range<usize>,
    partition: u32,
    /// The frame and the stretch in which the partition was before.
    before: Option<(usize, usize)>,
    /// Whether the partition continues in a later stretch.
    goes_on: bool,
}

impl PartitionRows {
    /// Whether it is all of its partition.
    fn is_whole(&self) -> bool {
        self.before.is_none() && !self.goes_on
    }
}

/// Where the rows of each partition are in the frames.
struct Partitions {
    of_frames: Vec<Vec<PartitionRows>>,
    count: usize,
}

/// What a frame shows of its partitions.
struct FramePartitions {
    ranges: Vec<Range<usize>>,
    /// The partition keys of the first row of each.
    keys: Frame,
    order: Vec<ScalarBuffer<i64>>,
}

impl Partitions {
    fn of(
        frames: &[Frame],
        call: &WindowCall,
        threads: usize,
        context: &ExecutionContext<'_>,
    ) -> Result<Option<Partitions>> {
        let looks = parallel::each(frames.len(), threads, |number| {
            context.stop.check()?;
            FramePartitions::at(&frames[number], call, context.constants)
        })?;
        let Some(looks) = looks.into_iter().collect::<Option<Vec<FramePartitions>>>() else { return Ok(None) };
        let Some(first) = looks.first() else { return Ok(None) };
        let types: Vec<DataType> = first.keys.types().cloned().collect();
        let keys = Frame::concat(looks.iter().map(|look| look.keys.clone()).collect(), &types)?;
        let columns: Vec<Expr> = (0..types.len()).map(Expr::Column).collect();
        let numbers = match group_rows(&keys, &columns, context.constants) {
            Ok((numbers, _)) => numbers,
            // Keys that aren't hashed can be sorted.
            Err(Error::Unsupported(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut numbers = numbers.into_iter();
        let mut of_frames: Vec<Vec<PartitionRows>> = Vec::with_capacity(looks.len());
        // By partition its last stretch so far.
        let mut last: Vec<(usize, usize)> = Vec::new();
        for (frame, look) in looks.iter().enumerate() {
            let mut stretches: Vec<PartitionRows> = Vec::with_capacity(look.ranges.len());
            for (rows, partition) in look.ranges.iter().zip(numbers.by_ref()) {
                let place = (frame, stretches.len());
                let before = last.get(partition as usize).copied();
                match before {
                    None => last.push(place),
                    Some(last_place) => {
                        let earlier = match last_place.0 == frame {
                            true => stretches.get_mut(last_place.1),
                            false => {
                                of_frames.get_mut(last_place.0).and_then(|stretches| stretches.get_mut(last_place.1))
                            }
                        };
                        let Some(earlier) = earlier else { return Ok(None) };
                        let end = earlier.rows.end;
                        if !ascends_from(&looks[last_place.0].order, end - 1, &look.order, rows.start) {
                            return Ok(None);
                        }
                        // Codes that differ may stand for one text.
                        if last_place.0 == frame && end == rows.start {
                            earlier.rows.end = rows.end;
                            continue;
                        }
                        earlier.goes_on = true;
                        last[partition as usize] = place;
                    }
                }
                stretches.push(PartitionRows { rows: rows.clone(), partition, before, goes_on: false });
            }
            of_frames.push(stretches);
        }
        let pieces = of_frames.iter().flatten().filter(|stretch| !stretch.is_whole()).count();
        let rows = frames.iter().map(Frame::len).sum::<usize>();
        let are_short = pieces > STRETCHES_MIN + rows / PIECE_ROWS_MIN;
        Ok((!are_short).then_some(Partitions { of_frames, count: last.len() }))
    }

    /// The stretches, as frame and rows, of each partition that has several.
    fn in_pieces(&self) -> Vec<Vec<(usize, Range<usize>)>> {
        let mut pieces: Vec<Vec<(usize, Range<usize>)>> = vec![Vec::new(); self.count];
        for (frame, stretches) in self.of_frames.iter().enumerate() {
            for stretch in stretches.iter().filter(|stretch| !stretch.is_whole()) {
                pieces[stretch.partition as usize].push((frame, stretch.rows.clone()));
            }
        }
        pieces.retain(|pieces| !pieces.is_empty());
        pieces
    }
}

impl FramePartitions {
    /// `None` if the rows of a partition don't ascend, or if that can't be determined.
    fn at(frame: &Frame, call: &WindowCall, constants: &[ArrayRef]) -> Result<Option<FramePartitions>> {
        let rows = frame.len();
        let mut order = Vec::with_capacity(call.order_by.len());
        for key in &call.order_by {
            let values = key.expr.evaluate(frame, constants)?.into_array(rows)?;
            match plain_numbers(&values).filter(|_| !key.descending) {
                Some(values) => order.push(values),
                None => return Ok(None),
            }
        }
        let mut keys = Vec::with_capacity(call.partition_by.len());
        for key in &call.partition_by {
            keys.push(key.evaluate(frame, constants)?.into_array(rows)?);
        }
        let ranges = match (rows, keys.as_slice()) {
            (0, _) => Vec::new(),
            (_, []) => std::iter::once(0..rows).collect(),
            (_, [one]) if are_scattered(one) => return Ok(None),
            // Codes that differ may stand for one text; that is seen when the texts of stretches are compared.
            _ => partition(&keys.iter().map(codes).collect::<Vec<_>>())?.ranges(),
        };
        if are_short(ranges.len(), rows) || !ranges.iter().all(|rows| ascends(&order, rows)) {
            return Ok(None);
        }
        let firsts = ranges.iter().map(|rows| u32::try_from(rows.start).unwrap_or(u32::MAX));
        let keys = Frame::new(keys, rows).take(&firsts.collect::<UInt32Array>())?;
        Ok(Some(FramePartitions { ranges, keys, order }))
    }
}

/// The codes of a dictionary whose texts are no nulls, else the values.
fn codes(values: &ArrayRef) -> ArrayRef {
    match values.as_any_dictionary_opt().filter(|dictionary| dictionary.values().null_count() == 0) {
        Some(dictionary) => arrow::array::make_array(dictionary.keys().to_data()),
        None => ArrayRef::clone(values),
    }
}

/// Whether codes change too often for what follows to be worth it, which is seen at once.
fn are_scattered(values: &ArrayRef) -> bool {
    values.as_dictionary_opt::<Int32Type>().is_some_and(|dictionary| {
        let changes = dictionary.keys().values().windows(2).filter(|pair| pair[0] != pair[1]).count();
        // What stands for null may be any code.
        dictionary.keys().null_count() == 0 && are_short(changes, values.len())
    })
}

/// Whether stretches are so short that sorting the rows is as fast as going through them.
fn are_short(stretches: usize, rows: usize) -> bool {
    stretches * STRETCH_ROWS_MIN > rows + STRETCHES_MIN
}

/// Whether rows are in the order of some keys.
fn ascends(order: &[ScalarBuffer<i64>], rows: &Range<usize>) -> bool {
    match order {
        [] => true,
        [one] => one[rows.clone()].is_sorted(),
        _ => (rows.start + 1..rows.end).all(|row| ascends_from(order, row - 1, order, row)),
    }
}

/// Whether a row may come after another.
fn ascends_from(before: &[ScalarBuffer<i64>], row: usize, order: &[ScalarBuffer<i64>], next: usize) -> bool {
    before.iter().map(|key| key[row]).le(order.iter().map(|key| key[next]))
}

/// A call over frames.
struct CallOverFrames<'a> {
    frames: &'a [Frame],
    partitions: &'a Partitions,
    call: &'a WindowCall,
    threads: usize,
    context: &'a ExecutionContext<'a>,
}

impl CallOverFrames<'_> {
    /// What the call looks at, over some rows of a frame.
    fn inputs(&self, frame: usize, rows: &Range<usize>) -> Result<Vec<ArrayRef>> {
        let rows = self.frames[frame].slice(rows.start, rows.len());
        let evaluate = |argument: &Expr| {
            argument.evaluate(&rows, self.context.constants).and_then(|value: Value| value.into_array(rows.len()))
        };
        self.call.inputs().map(evaluate).collect()
    }

    fn each_frame(&self, work: impl Fn(usize, &[PartitionRows]) -> Result<ArrayRef> + Sync) -> Result<Vec<ArrayRef>> {
        parallel::each(self.frames.len(), self.threads, |frame| {
            self.context.stop.check()?;
            work(frame, &self.partitions.of_frames[frame])
        })
    }

    /// Aggregates of whole partitions, at each of their rows.
    fn whole_partitions(&self) -> Result<Vec<ArrayRef>> {
        let aggregate = over_partition(self.call)?;
        let parts = parallel::each(self.frames.len(), self.threads, |frame| {
            self.context.stop.check()?;
            let arguments = arguments(&self.frames[frame], &aggregate, self.context.constants)?;
            let mut accumulator = accumulator_of(&aggregate, &arguments, 1)?;
            let stretches = &self.partitions.of_frames[frame];
            // What the others have is merged into what the first one has, so that this goes by partition.
            let group = |(number, stretch): (u32, &PartitionRows)| if frame == 0 { stretch.partition } else { number };
            let runs = (0..).zip(stretches).map(|(number, stretch)| GroupRun {
                group: group((number, stretch)),
                start: stretch.rows.start,
                end: stretch.rows.end,
            });
            accumulator.grow(if frame == 0 { self.partitions.count } else { stretches.len() });
            accumulator.update(&arguments, RowGroups::Runs(&runs.collect::<Vec<_>>()))?;
            Ok(accumulator)
        })?;
        let mut parts = parts.into_iter().zip(&self.partitions.of_frames);
        let Some((mut all, _)) = parts.next() else { return Ok(Vec::new()) };
        for (part, stretches) in parts {
            let numbers: Vec<u32> = stretches.iter().map(|stretch| stretch.partition).collect();
            all.merge(part, &numbers)?;
        }
        self.at_each_row(&all.finish()?, |partition| partition)
    }

    /// The values of the first or the last row of each partition, at each of its rows.
    fn ends_of_partitions(&self, end: PartitionEnd) -> Result<Vec<ArrayRef>> {
        let mut places = vec![0; self.partitions.count];
        let mut rows_of_frames: Vec<Vec<u32>> = Vec::with_capacity(self.frames.len());
        let mut place = 0;
        for stretches in &self.partitions.of_frames {
            let mut rows = Vec::new();
            for stretch in stretches {
                let row = match end {
                    PartitionEnd::First => stretch.before.is_none().then_some(stretch.rows.start),
                    PartitionEnd::Last => (!stretch.goes_on).then_some(stretch.rows.end.saturating_sub(1)),
                };
                let Some(row) = row else { continue };
                let row = u32::try_from(row).map_err(|_| Error::Unsupported("a frame of so many rows".to_owned()))?;
                rows.push(row);
                places[stretch.partition as usize] = place;
                place += 1;
            }
            rows_of_frames.push(rows);
        }
        let values = self.each_frame(|frame, _| {
            let inputs = self.inputs(frame, &(0..self.frames[frame].len()))?;
            let Some(argument) = inputs.first() else { return Err(Error::Unsupported("a row of nothing".to_owned())) };
            Ok(take(argument, &UInt32Array::from(rows_of_frames[frame].clone()), None)?)
        })?;
        let values = concat_arrays(values, &self.call.data_type)?;
        self.at_each_row(&values, |partition| places[partition as usize])
    }

    /// Values of partitions at each of their rows, given the place of each partition's value.
    fn at_each_row(&self, values: &ArrayRef, place: impl Fn(u32) -> u32 + Sync) -> Result<Vec<ArrayRef>> {
        self.each_frame(|frame, stretches| {
            let mut places = Vec::with_capacity(self.frames[frame].len());
            stretches.iter().for_each(|stretch| places.resize(stretch.rows.end, place(stretch.partition)));
            Ok(take(values, &UInt32Array::from(places), None)?)
        })
    }

    /// Aggregates of a row and some before it: where a partition goes on, those rows are taken along.
    fn last_rows(&self, before: usize) -> Result<Vec<ArrayRef>> {
        self.each_frame(|frame, stretches| {
            self.in_parts(
                frame,
                stretches,
                |stretch| stretch.before.is_none(),
                |stretch| {
                    let (mut arguments, along) = self.rows_before(stretch, before)?;
                    arguments.push(self.inputs(frame, &stretch.rows)?);
                    let inputs = self.together(arguments)?;
                    let all = std::iter::once(0..along + stretch.rows.len()).collect::<Vec<_>>();
                    Ok(self.values(&inputs, &all)?.slice(along, stretch.rows.len()))
                },
            )
        })
    }

    /// The results for the rows of a frame: of stretches that need nothing else together, of the others one by one.
    fn in_parts(
        &self,
        frame: usize,
        stretches: &[PartitionRows],
        is_alone: impl Fn(&PartitionRows) -> bool,
        mut other: impl FnMut(&PartitionRows) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        let mut parts = Vec::new();
        for neighbours in stretches.chunk_by(|one, next| is_alone(one) && is_alone(next)) {
            let [first, .., last] = neighbours else {
                let [one] = neighbours else { continue };
                parts.push(match is_alone(one) {
                    true => self.values(&self.inputs(frame, &one.rows)?, &[0..one.rows.len()])?,
                    false => other(one)?,
                });
                continue;
            };
            let all = first.rows.start..last.rows.end;
            let ranges = neighbours.iter().map(|stretch| stretch.rows.start - all.start..stretch.rows.end - all.start);
            parts.push(self.values(&self.inputs(frame, &all)?, &ranges.collect::<Vec<_>>())?);
        }
        concat_arrays(parts, &self.call.data_type)
    }

    /// The arguments of the last rows of a partition before a stretch, in pieces, and how many rows those are.
    fn rows_before(&self, stretch: &PartitionRows, count: usize) -> Result<(Vec<Vec<ArrayRef>>, usize)> {
        let (mut pieces, mut remaining) = (Vec::new(), count);
        let mut before = stretch.before;
        while let Some((frame, number)) = before.filter(|_| remaining > 0) {
            let earlier = &self.partitions.of_frames[frame][number];
            let rows = earlier.rows.end.saturating_sub(remaining).max(earlier.rows.start)..earlier.rows.end;
            remaining -= rows.len();
            pieces.push(self.inputs(frame, &rows)?);
            before = earlier.before;
        }
        pieces.reverse();
        Ok((pieces, count - remaining))
    }

    /// Anything else, partition by partition: those in several stretches are put together.
    fn partitions(&self) -> Result<Vec<ArrayRef>> {
        let in_pieces = self.partitions.in_pieces();
        let computed = parallel::each(in_pieces.len(), self.threads, |number| {
            self.context.stop.check()?;
            let pieces = &in_pieces[number];
            let arguments = pieces.iter().map(|(frame, rows)| self.inputs(*frame, rows)).collect::<Result<Vec<_>>>()?;
            let rows = pieces.iter().map(|(_, rows)| rows.len()).sum::<usize>();
            self.values(&self.together(arguments)?, &std::iter::once(0..rows).collect::<Vec<_>>())
        })?;
        // By frame and first row.
        let mut results: HashMap<(usize, usize), ArrayRef> = HashMap::new();
        for (pieces, computed) in in_pieces.iter().zip(computed) {
            let mut start = 0;
            for (frame, rows) in pieces {
                results.insert((*frame, rows.start), computed.slice(start, rows.len()));
                start += rows.len();
            }
        }
        self.each_frame(|frame, stretches| {
            self.in_parts(frame, stretches, PartitionRows::is_whole, |stretch| {
                let result = results.get(&(frame, stretch.rows.start)).map(ArrayRef::clone);
                result.ok_or_else(|| Error::Unsupported("a stretch without results".to_owned()))
            })
        })
    }

    /// Arguments of pieces of rows, one behind the other.
    fn together(&self, mut pieces: Vec<Vec<ArrayRef>>) -> Result<Vec<ArrayRef>> {
        if pieces.len() == 1 {
            return Ok(pieces.swap_remove(0));
        }
        let column = |number: usize| {
            let parts: Vec<ArrayRef> = pieces.iter().map(|piece| ArrayRef::clone(&piece[number])).collect();
            let data_type = parts[0].data_type().clone();
            concat_arrays(parts, &data_type)
        };
        (0..self.call.inputs().count()).map(column).collect()
    }

    /// The results for rows of whole partitions, which follow each other.
    fn values(&self, inputs: &[ArrayRef], partitions: &[Range<usize>]) -> Result<ArrayRef> {
        self.call.values(inputs, partitions, self.context.stop)
    }
}
