//! Windows over frames whose rows stand in the windows' order, as those of a table by symbol and time do.
//!
//! Each partition must be one stretch of rows, over as many frames as it takes, and within it the order keys must ascend. That is
//! looked at, never assumed. Then each frame is worked on by itself. A partition that goes on in the next frame takes a few rows along
//! where these are enough; else that partition alone is put together. Symbols over several dates are several stretches, and
//! sorted.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{partition, take};
use arrow::datatypes::{DataType, Int32Type};

use super::{FrameFunction, FrameRows, WindowCall, WindowFunction, framed, over_partition};
use crate::aggregate::{Assigned, Run, accumulator_of, arguments, group_rows};
use crate::error::{Error, Result};
use crate::expr::{Expr, Value};
use crate::frame::{Frame, SortKey, joined};
use crate::order::plain_numbers;
use crate::parallel;
use crate::run::{Setting, check_memory};

/// Rows of a stretch, on average, from which on frames are looked at further, if they have more than some stretches.
const STRETCH_ROWS_MIN: usize = 4;
const STRETCHES_MIN: usize = 256;

/// Results by call and frame; `None` where rows don't stand in the order of a call.
pub(super) fn in_order(
    frames: &[Frame],
    calls: &[WindowCall],
    setting: &Setting<'_>,
) -> Result<Option<Vec<Vec<ArrayRef>>>> {
    let rows = frames.iter().map(Frame::len).sum();
    let threads = parallel::threads_for(rows, 0, setting.threads);
    let mut known: Vec<(&WindowCall, Partitions)> = Vec::new();
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        let place = match known.iter().position(|(other, _)| has_same_order(call, other, setting.constants)) {
            Some(place) => place,
            None => {
                let Some(partitions) = Partitions::of(frames, call, threads, setting)? else { return Ok(None) };
                known.push((call, partitions));
                known.len() - 1
            }
        };
        results.push(place);
    }
    // What goes on in another frame may be put together, arguments and results.
    let arguments: usize = calls.iter().map(|call| call.arguments.len() + 1).max().unwrap_or(0);
    let types = calls.iter().map(|call| &call.data_type).chain(std::iter::repeat_n(&DataType::Float64, arguments));
    check_memory(rows, types, setting.memory_bytes / 2)?;
    let results = calls.iter().zip(results).map(|(call, place)| {
        let over = Over { frames, partitions: &known[place].1, call, threads, setting };
        match call.function {
            WindowFunction::Frame(_, FrameRows::Whole) => over.whole_partitions(),
            WindowFunction::Frame(function, FrameRows::Last(before)) => over.last_rows(function, before),
            _ => over.partitions(),
        }
    });
    results.collect::<Result<_>>().map(Some)
}

fn has_same_order(one: &WindowCall, other: &WindowCall, constants: &[ArrayRef]) -> bool {
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
struct Stretch {
    rows: Range<usize>,
    partition: u32,
}

/// Where partitions stand in frames, each in one stretch, or one that goes on in the frames that follow.
struct Partitions {
    of_frames: Vec<Vec<Stretch>>,
    count: usize,
}

/// What a frame shows of its partitions.
struct Look {
    ranges: Vec<Range<usize>>,
    /// The partition keys of the first row of each.
    keys: Frame,
    order: Vec<ScalarBuffer<i64>>,
}

impl Partitions {
    fn of(frames: &[Frame], call: &WindowCall, threads: usize, setting: &Setting<'_>) -> Result<Option<Partitions>> {
        let looks = parallel::each(frames.len(), threads, |number| {
            setting.stop.check()?;
            Look::at(&frames[number], call, setting.constants)
        })?;
        let Some(looks) = looks.into_iter().collect::<Option<Vec<Look>>>() else { return Ok(None) };
        let Some(first) = looks.first() else { return Ok(None) };
        let types: Vec<DataType> = first.keys.columns().iter().map(|column| column.data_type().clone()).collect();
        let keys = Frame::concat(looks.iter().map(|look| look.keys.clone()).collect(), &types)?;
        let columns: Vec<Expr> = (0..types.len()).map(Expr::Column).collect();
        let numbers = match group_rows(&keys, &columns, setting.constants) {
            Ok((numbers, _)) => numbers,
            // Keys that aren't hashed can be sorted.
            Err(Error::Unsupported(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut numbers = numbers.into_iter();
        let (mut of_frames, mut count) = (Vec::with_capacity(looks.len()), 0);
        // The last stretch that was seen, and its last row.
        let mut last: Option<(u32, &Look, usize)> = None;
        for look in &looks {
            let mut stretches: Vec<Stretch> = Vec::with_capacity(look.ranges.len());
            for (rows, number) in look.ranges.iter().zip(numbers.by_ref()) {
                match last {
                    Some((known, before, row)) if known == number => {
                        if !ascends_from(&before.order, row, &look.order, rows.start) {
                            return Ok(None);
                        }
                    }
                    // A partition that was left before stands in several places.
                    _ if (number as usize) < count => return Ok(None),
                    _ => count += 1,
                }
                last = Some((number, look, rows.end - 1));
                match stretches.last_mut().filter(|stretch| stretch.partition == number) {
                    Some(stretch) => stretch.rows.end = rows.end,
                    None => stretches.push(Stretch { rows: rows.clone(), partition: number }),
                }
            }
            of_frames.push(stretches);
        }
        Ok(Some(Partitions { of_frames, count }))
    }

    /// Whether the first partition of a frame began in an earlier one.
    fn goes_on(&self, frame: usize) -> bool {
        let first = self.of_frames[frame].first();
        first.is_some_and(|first| {
            let last = self.of_frames[..frame].iter().rev().find_map(|stretches| stretches.last());
            last.is_some_and(|last| last.partition == first.partition)
        })
    }

    /// The partitions that go on from one frame in another: for each of their stretches the frame and the rows.
    fn crossing(&self) -> Vec<Vec<(usize, Range<usize>)>> {
        let mut crossing: Vec<(u32, Vec<(usize, Range<usize>)>)> = Vec::new();
        for (frame, stretches) in self.of_frames.iter().enumerate() {
            let ends = stretches.first().into_iter().chain(stretches.last().filter(|_| stretches.len() > 1));
            for stretch in ends {
                match crossing.last_mut().filter(|(partition, _)| *partition == stretch.partition) {
                    Some((_, pieces)) => pieces.push((frame, stretch.rows.clone())),
                    None => crossing.push((stretch.partition, vec![(frame, stretch.rows.clone())])),
                }
            }
        }
        crossing.into_iter().map(|(_, pieces)| pieces).filter(|pieces| pieces.len() > 1).collect()
    }
}

impl Look {
    /// `None` if the rows of a partition don't ascend, or that can't be told.
    fn at(frame: &Frame, call: &WindowCall, constants: &[ArrayRef]) -> Result<Option<Look>> {
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
        // Partitions of few rows are sorted as fast as they are looked at.
        if ranges.len() * STRETCH_ROWS_MIN > rows + STRETCHES_MIN || !ranges.iter().all(|rows| ascends(&order, rows)) {
            return Ok(None);
        }
        let firsts = ranges.iter().map(|rows| u32::try_from(rows.start).unwrap_or(u32::MAX));
        let keys = Frame::new(keys, rows).take(&firsts.collect::<UInt32Array>())?;
        Ok(Some(Look { ranges, keys, order }))
    }
}

/// The codes of a dictionary whose texts are no nulls, else the values.
fn codes(values: &ArrayRef) -> ArrayRef {
    match values.as_any_dictionary_opt().filter(|dictionary| dictionary.values().null_count() == 0) {
        Some(dictionary) => arrow::array::make_array(dictionary.keys().to_data()),
        None => ArrayRef::clone(values),
    }
}

/// Whether codes change more often than there are texts, so that some stand in several places.
fn are_scattered(values: &ArrayRef) -> bool {
    values.as_dictionary_opt::<Int32Type>().is_some_and(|dictionary| {
        let codes = dictionary.keys().values();
        let changes = codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // Null is one value more, and what stands for it may be any code.
        dictionary.keys().null_count() == 0 && changes > dictionary.values().len()
    })
}

/// Whether rows stand in the order of some keys.
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
struct Over<'a> {
    frames: &'a [Frame],
    partitions: &'a Partitions,
    call: &'a WindowCall,
    threads: usize,
    setting: &'a Setting<'a>,
}

impl Over<'_> {
    /// The arguments over some rows of a frame.
    fn arguments(&self, frame: usize, rows: &Range<usize>) -> Result<Vec<ArrayRef>> {
        let rows = self.frames[frame].slice(rows.start, rows.len());
        let evaluate = |argument: &Expr| {
            argument.evaluate(&rows, self.setting.constants).and_then(|value: Value| value.into_array(rows.len()))
        };
        self.call.arguments.iter().map(evaluate).collect()
    }

    fn each_frame(&self, work: impl Fn(usize, &[Stretch]) -> Result<ArrayRef> + Sync) -> Result<Vec<ArrayRef>> {
        parallel::each(self.frames.len(), self.threads, |frame| {
            self.setting.stop.check()?;
            work(frame, &self.partitions.of_frames[frame])
        })
    }

    /// Aggregates of whole partitions, at each of their rows.
    fn whole_partitions(&self) -> Result<Vec<ArrayRef>> {
        let aggregate = over_partition(self.call)?;
        let parts = parallel::each(self.frames.len(), self.threads, |frame| {
            self.setting.stop.check()?;
            let arguments = arguments(&self.frames[frame], &aggregate, self.setting.constants)?;
            let mut accumulator = accumulator_of(&aggregate, &arguments, 1)?;
            let stretches = &self.partitions.of_frames[frame];
            let runs = stretches.iter().zip(0..).map(|(stretch, group)| Run {
                group,
                start: stretch.rows.start,
                end: stretch.rows.end,
            });
            accumulator.grow(stretches.len());
            accumulator.update(&arguments, Assigned::Runs(&runs.collect::<Vec<_>>()))?;
            Ok(accumulator)
        })?;
        let mut parts = parts.into_iter().zip(&self.partitions.of_frames);
        // Partitions are numbered from the first frame on.
        let Some((mut all, _)) = parts.next() else { return Ok(Vec::new()) };
        all.grow(self.partitions.count);
        for (part, stretches) in parts {
            let numbers: Vec<u32> = stretches.iter().map(|stretch| stretch.partition).collect();
            all.merge(part, &numbers)?;
        }
        let results = all.finish()?;
        self.each_frame(|frame, stretches| {
            let mut numbers = Vec::with_capacity(self.frames[frame].len());
            stretches.iter().for_each(|stretch| numbers.resize(stretch.rows.end, stretch.partition));
            Ok(take(&results, &UInt32Array::from(numbers), None)?)
        })
    }

    /// Aggregates of a row and some before it: of a partition that goes on, those rows are taken along.
    fn last_rows(&self, function: FrameFunction, before: usize) -> Result<Vec<ArrayRef>> {
        let frame_rows = FrameRows::Last(before);
        self.each_frame(|frame, stretches| {
            let rows = self.frames[frame].len();
            let (mut parts, mut start) = (Vec::new(), 0);
            if let Some(first) = stretches.first().filter(|_| self.partitions.goes_on(frame)) {
                let (mut arguments, along) = self.rows_before(frame, first.partition, before)?;
                arguments.push(self.arguments(frame, &first.rows)?);
                let argument = self.together(arguments)?;
                let all = std::iter::once(0..along + first.rows.len()).collect::<Vec<_>>();
                parts.push(framed(function, frame_rows, argument.first(), &all)?.slice(along, first.rows.len()));
                start = first.rows.end;
            }
            if start < rows {
                let arguments = self.arguments(frame, &(start..rows))?;
                parts.push(framed(function, frame_rows, arguments.first(), &ranges_from(stretches, start))?);
            }
            joined(parts, &self.call.data_type)
        })
    }

    /// The arguments of the last rows of a partition before a frame, in pieces, and how many rows those are.
    fn rows_before(&self, frame: usize, partition: u32, count: usize) -> Result<(Vec<Vec<ArrayRef>>, usize)> {
        let (mut pieces, mut left) = (Vec::new(), count);
        for earlier in (0..frame).rev() {
            let Some(last) = self.partitions.of_frames[earlier].last() else { continue };
            if left == 0 || last.partition != partition {
                break;
            }
            let rows = last.rows.end.saturating_sub(left).max(last.rows.start)..last.rows.end;
            left -= rows.len();
            pieces.push(self.arguments(earlier, &rows)?);
        }
        pieces.reverse();
        Ok((pieces, count - left))
    }

    /// Anything else, partition by partition: those that go on in another frame are put together.
    fn partitions(&self) -> Result<Vec<ArrayRef>> {
        let crossing = self.partitions.crossing();
        let crossed = parallel::each(crossing.len(), self.threads, |number| {
            self.setting.stop.check()?;
            let pieces = &crossing[number];
            let arguments =
                pieces.iter().map(|(frame, rows)| self.arguments(*frame, rows)).collect::<Result<Vec<_>>>()?;
            let rows = pieces.iter().map(|(_, rows)| rows.len()).sum::<usize>();
            self.computed(&self.together(arguments)?, &std::iter::once(0..rows).collect::<Vec<_>>())
        })?;
        // By frame, where a piece stands in it and its results.
        let mut of_frames: Vec<Vec<(Range<usize>, ArrayRef)>> = vec![Vec::new(); self.frames.len()];
        for (pieces, results) in crossing.iter().zip(crossed) {
            let mut start = 0;
            for (frame, rows) in pieces {
                of_frames[*frame].push((rows.clone(), results.slice(start, rows.len())));
                start += rows.len();
            }
        }
        self.each_frame(|frame, stretches| {
            let (mut parts, mut inner) = (Vec::new(), 0..self.frames[frame].len());
            let (mut head, mut tail) = (None, None);
            for (rows, results) in &of_frames[frame] {
                if rows.start == 0 {
                    inner.start = rows.end;
                    head = Some(ArrayRef::clone(results));
                } else {
                    inner.end = rows.start;
                    tail = Some(ArrayRef::clone(results));
                }
            }
            parts.extend(head);
            if !inner.is_empty() {
                let own: Vec<Stretch> =
                    stretches.iter().filter(|stretch| stretch.rows.start < inner.end).cloned().collect();
                parts.push(self.computed(&self.arguments(frame, &inner)?, &ranges_from(&own, inner.start))?);
            }
            parts.extend(tail);
            joined(parts, &self.call.data_type)
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
            joined(parts, &data_type)
        };
        (0..self.call.arguments.len()).map(column).collect()
    }

    /// The results for rows of whole partitions, which follow each other.
    fn computed(&self, arguments: &[ArrayRef], partitions: &[Range<usize>]) -> Result<ArrayRef> {
        match &self.call.function {
            WindowFunction::Frame(function, frame) => framed(*function, *frame, arguments.first(), partitions),
            WindowFunction::Partition(function) => {
                let parts = partitions.iter().map(|rows| {
                    let arguments: Vec<ArrayRef> =
                        arguments.iter().map(|argument| argument.slice(rows.start, rows.len())).collect();
                    function.call(&arguments, rows.len())
                });
                joined(parts.collect::<Result<_>>()?, &self.call.data_type)
            }
        }
    }
}

/// The rows of stretches from a row on, counted from there.
fn ranges_from(stretches: &[Stretch], start: usize) -> Vec<Range<usize>> {
    let later = stretches.iter().filter(|stretch| stretch.rows.start >= start);
    later.map(|stretch| stretch.rows.start - start..stretch.rows.end - start).collect()
}
