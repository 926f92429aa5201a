//! Aggregation over rows in memory, by hash.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::DataType;

use super::accumulate::{Accumulator, GroupRun, NO_GROUP, RowGroups, accumulator, update};
use super::dense::{self, DenseGroups};
use super::first_by::PicksByKeys;
use super::group_slots::runs_as_they_stand;
use super::groups::{GroupIndex, Groups, key_column, merged};
use super::keys::{TextWords, ValueKey};
use super::picks::{Picks, Positions, rows_of};
use super::pivot::{self, RowCells, check_cells};
use super::{Aggregate, AggregateFunction};
use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::expr::Expr;
use crate::expr::codes::condition;
use crate::frame::Frame;
use crate::gather::position;
use crate::parallel;
use crate::texts::Texts;

/// The group of each row by some keys, and how many groups there are.
pub(crate) fn group_rows(frame: &Frame, keys: &[Expr], constants: &[ArrayRef]) -> Result<(Vec<u32>, usize)> {
    let mut grouping = Grouping::new(keys);
    let rows = grouping.rows(frame, constants)?;
    Ok((rows, grouping.groups.len()))
}

/// A number for each row, which rows have in common if and only if their keys are equal, and a bound of these numbers. In contrast to groups, the
/// numbers don't follow the order of the rows, and not each of them needs to have rows.
pub(crate) fn key_numbers(frame: &Frame, keys: &[Expr], constants: &[ArrayRef]) -> Result<(Vec<u32>, usize)> {
    let mut grouping = Grouping::new(keys);
    let values = grouping.values(frame, constants)?;
    match dense::places_of_rows(&values, frame.len(), frame.len()) {
        Some(numbers) => Ok(numbers),
        None => {
            let rows = grouping.groups_of(&values, frame.len());
            Ok((rows, grouping.groups.len()))
        }
    }
}

/// Rows whose keys are written as words at once.
const BLOCK_ROWS: usize = 4_096;

/// Most bytes of a table of groups by place.
const PLACES_BYTES_MAX: usize = 4 << 20;

/// Groups of the rows of several frames.
struct Grouping<'a> {
    keys: &'a [Expr],
    groups: Groups,
    /// By key.
    texts: Vec<Texts>,
    words: Vec<TextWords>,
    dense: DenseGroups,
}

impl<'a> Grouping<'a> {
    fn new(keys: &'a [Expr]) -> Grouping<'a> {
        let mut groups = Groups::new(keys.len());
        if keys.is_empty() {
            // Without keys there is one group, of nothing if need be.
            groups.find(&[0]);
        }
        let (texts, words) = keys.iter().map(|_| (Texts::default(), TextWords::of_places())).unzip();
        Grouping { keys, groups, texts, words, dense: DenseGroups::within(PLACES_BYTES_MAX) }
    }

    fn index(&mut self) -> GroupIndex<'_> {
        let Grouping { groups, texts, dense, words, .. } = self;
        GroupIndex { groups, texts, dense, words }
    }

    /// The group of each row of a frame.
    fn rows(&mut self, frame: &Frame, constants: &[ArrayRef]) -> Result<Vec<u32>> {
        let values = self.values(frame, constants)?;
        Ok(self.groups_of(&values, frame.len()))
    }

    /// The keys of the rows of a frame.
    fn values(&mut self, frame: &Frame, constants: &[ArrayRef]) -> Result<Vec<ValueKey>> {
        let mut values = Vec::with_capacity(self.keys.len());
        for (position, key) in self.keys.iter().enumerate() {
            let array = key.evaluate(frame, constants)?.into_array(frame.len())?;
            values.push(ValueKey::new(position, &array, &mut self.texts[position], &mut self.words[position])?);
        }
        Ok(values)
    }

    /// The group of each row, of which there are `count`.
    fn groups_of(&mut self, values: &[ValueKey], count: usize) -> Vec<u32> {
        let keys = self.keys.len();
        if keys == 0 {
            return vec![0; count];
        }
        let (mut words, stride) = (vec![0; keys + 1], keys + 1);
        let group_count = self.groups.len();
        let groups = &mut self.groups;
        let find = |row: usize, is_new: bool| {
            words[keys] = 0;
            for value in values {
                let word = value.word(row);
                words[value.key] = word.unwrap_or(0);
                words[keys] |= u64::from(word.is_none()) << value.key;
            }
            if is_new { groups.add_new(&words) } else { groups.find(&words) }
        };
        let mut of_rows = Vec::with_capacity(count);
        if !self.dense.rows(values, count, group_count, find, |group| of_rows.push(group)) {
            let mut words = Vec::new();
            for start in (0..count).step_by(BLOCK_ROWS) {
                words.clear();
                words.resize(BLOCK_ROWS.min(count - start) * stride, 0);
                values.iter().for_each(|value| value.write(start, &mut words, stride));
                self.groups.find_rows(&words, |group| of_rows.push(group));
            }
        }
        of_rows
    }
}

/// Keys and results, a row for each group. First and last follow the order of the frames and of their rows. There must be at least one frame,
/// because the types are taken from it.
pub(crate) fn over_frames(
    frames: Vec<Frame>,
    keys: &[Expr],
    key_types: &[DataType],
    aggregates: &[Aggregate],
    context: &ExecutionContext<'_>,
) -> Result<Vec<ArrayRef>> {
    let rows: usize = frames.iter().map(Frame::len).sum();
    let threads = parallel::threads_for_aggregates(rows, aggregates.len(), 0, context.threads);
    // Neighbouring frames are one thread's, so that groups come in the order of their first rows.
    let parts = dealt(frames, rows.div_ceil(threads).max(1));
    let firsts = parts.iter().scan(0, |next, part| Some(std::mem::replace(next, *next + part.len())));
    let firsts: Vec<usize> = firsts.collect();
    let states = parallel::each_of(firsts.into_iter().zip(parts), threads, |(first, frames)| {
        let mut state = ThreadGroups::new(keys, aggregates);
        for (number, frame) in (first..).zip(frames) {
            // What was taken out of its columns is dropped with it, and its memory is there for the next one.
            state.take(&frame, number, context, context.memory_bytes / 2 / threads)?;
        }
        Ok(state)
    })?;
    let mut states = states.into_iter();
    let mut all = states.next().unwrap_or_else(|| ThreadGroups::new(keys, aggregates));
    for state in states {
        all.merge(state, threads)?;
    }
    all.finish(key_types, threads, context.constants)
}

/// Splits frames into parts of about this many rows.
fn dealt(frames: Vec<Frame>, rows: usize) -> Vec<Vec<Frame>> {
    let mut parts = vec![Vec::new()];
    let mut room = rows;
    for frame in frames {
        let mut start = 0;
        // A frame without rows still says of what types they are.
        while start < frame.len().max(1) {
            if room == 0 {
                parts.push(Vec::new());
                room = rows;
            }
            let piece = match room {
                room if start == 0 && frame.len() <= room => frame.clone(),
                room => frame.slice(start, room.min(frame.len() - start)),
            };
            start += piece.len().max(1);
            room -= piece.len();
            if let Some(part) = parts.last_mut() {
                part.push(piece);
            }
        }
    }
    parts
}

/// The groups of one thread, with the state of their aggregates.
struct ThreadGroups<'a> {
    grouping: Grouping<'a>,
    aggregates: &'a [Aggregate],
    /// With the types of their arguments, once a frame came by.
    slots: Vec<Option<(Vec<DataType>, FrameSlot)>>,
}

impl<'a> ThreadGroups<'a> {
    fn new(keys: &'a [Expr], aggregates: &'a [Aggregate]) -> ThreadGroups<'a> {
        ThreadGroups { grouping: Grouping::new(keys), aggregates, slots: aggregates.iter().map(|_| None).collect() }
    }

    /// Takes in the frame with a number.
    fn take(&mut self, frame: &Frame, number: usize, context: &ExecutionContext<'_>, bytes_max: usize) -> Result<()> {
        context.stop.check()?;
        let rows = self.grouping.rows(frame, context.constants)?;
        let groups = self.grouping.groups.len();
        check_cells(self.aggregates, groups, bytes_max)?;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let runs = runs_as_they_stand(&rows);
        let grouped =
            GroupedFrame { frame, number, rows: &rows, runs: runs.as_deref(), groups, constants: context.constants };
        for (aggregate, slot) in self.aggregates.iter().zip(&mut self.slots) {
            let arguments = arguments(frame, aggregate, context.constants)?;
            let types = arguments.iter().map(|array| array.data_type().clone()).collect::<Vec<_>>();
            let (seen_types, slot) = match slot {
                Some(seen_types) => seen_types,
                None => slot.insert((types.clone(), FrameSlot::new(aggregate, &arguments, context.threads)?)),
            };
            if *seen_types != types {
                return Err(of_two_types(seen_types, &types));
            }
            slot.update(aggregate, arguments, &grouped)?;
            slot.check_memory(bytes_max)?;
        }
        Ok(())
    }

    /// Takes in what another has of the frames that follow.
    fn merge(&mut self, other: ThreadGroups<'_>, threads: usize) -> Result<()> {
        let mut theirs = other.grouping;
        let mapping = merged(self.grouping.index(), theirs.index(), threads)?;
        let groups = self.grouping.groups.len();
        for (ours, theirs) in self.slots.iter_mut().zip(other.slots) {
            match (ours, theirs) {
                (Some((seen_types, ours)), Some((types, theirs))) if *seen_types == types => {
                    ours.merge(theirs, &mapping, groups)?;
                }
                (Some((seen_types, _)), Some((types, _))) => return Err(of_two_types(seen_types, &types)),
                _ => return Err(Error::Unsupported("an aggregate of no rows".to_owned())),
            }
        }
        Ok(())
    }

    fn finish(self, key_types: &[DataType], threads: usize, constants: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let Grouping { groups, texts, .. } = self.grouping;
        let mut columns =
            parallel::each(key_types.len(), threads, |key| key_column(&groups, key, &texts[key], &key_types[key]))?;
        let slots = self.aggregates.iter().zip(self.slots);
        let results = parallel::each_of(slots, threads, |(aggregate, slot)| match slot {
            Some((_, slot)) => pivot::columns(aggregate, slot.finish(aggregate)?, constants),
            None => Err(Error::Unsupported("an aggregate of no rows".to_owned())),
        })?;
        columns.extend(results.into_iter().flatten());
        Ok(columns)
    }
}

fn of_two_types(one: &[DataType], other: &[DataType]) -> Error {
    Error::Unsupported(format!("an aggregate of {one:?} and {other:?}"))
}

/// A frame with the group of each of its rows.
struct GroupedFrame<'a> {
    frame: &'a Frame,
    /// Which of the frames it is.
    number: u32,
    rows: &'a [u32],
    /// The rows of each group as runs, if rows of a group mostly follow each other.
    runs: Option<&'a [GroupRun]>,
    /// How many groups there are by now.
    groups: usize,
    constants: &'a [ArrayRef],
}

/// The state of one aggregate.
enum FrameSlot {
    Accumulator(Box<dyn Accumulator>),
    /// With the values of each frame, of which some are the result.
    Picked(Picks, Vec<ArrayRef>),
    PickedByKeys(PicksByKeys, Vec<ArrayRef>),
}

impl FrameSlot {
    fn new(aggregate: &Aggregate, arguments: &[ArrayRef], threads: usize) -> Result<FrameSlot> {
        if let AggregateFunction::FirstBy(orders) | AggregateFunction::LastBy(orders) = &aggregate.function {
            let types = arguments.iter().skip(1).map(|key| key.data_type().clone());
            let keys: Vec<(DataType, SortOptions)> = types.zip(orders.iter().copied()).collect();
            let last = matches!(aggregate.function, AggregateFunction::LastBy(_));
            return Ok(FrameSlot::PickedByKeys(PicksByKeys::new(last, aggregate.width(), &keys)?, Vec::new()));
        }
        match aggregate.function.picks() {
            Some((_, true)) => Err(Error::Unsupported("a first or last by time of rows in memory".to_owned())),
            Some((last, false)) => {
                Ok(FrameSlot::Picked(Picks::new(last, false).with_width(aggregate.width()), Vec::new()))
            }
            None => Ok(FrameSlot::Accumulator(accumulator_of(aggregate, arguments, threads)?)),
        }
    }

    /// Takes the rows of a frame in.
    fn update(
        &mut self,
        aggregate: &Aggregate,
        mut arguments: Vec<ArrayRef>,
        grouped: &GroupedFrame<'_>,
    ) -> Result<()> {
        let GroupedFrame { frame, number, rows, runs, groups, constants } = *grouped;
        let only: Vec<u32>;
        let (rows, runs) = match &aggregate.filter {
            None => (rows, runs),
            Some(filter) => {
                let mask = condition(filter, frame, constants)?;
                let passing = |(row, group): (usize, &u32)| if mask.value(row) { *group } else { NO_GROUP };
                only = rows.iter().enumerate().map(passing).collect();
                (&only[..], None)
            }
        };
        if let FrameSlot::Accumulator(accumulator) = self {
            accumulator.grow(groups);
            let assigned = runs.map_or(RowGroups::Rows(rows), RowGroups::Runs);
            return update(accumulator.as_mut(), aggregate, &arguments, assigned);
        }
        let cells = match aggregate.pivot.as_ref().and_then(|_| arguments.pop()) {
            Some(places) => Some(RowCells::new(RowGroups::Rows(rows), &places, aggregate.width())?),
            None => None,
        };
        let assigned = cells.as_ref().map_or(RowGroups::Rows(rows), RowCells::assigned);
        let positions = Positions::From(position(number, 0));
        let keys = arguments.split_off(1.min(arguments.len()));
        match self {
            FrameSlot::Picked(picks, values) => {
                picks.grow(groups);
                picks.update(assigned, positions, None);
                values.extend(arguments);
            }
            FrameSlot::PickedByKeys(picks, values) => {
                picks.grow(groups);
                picks.update(assigned, positions, keys)?;
                values.extend(arguments);
            }
            FrameSlot::Accumulator(_) => {}
        }
        Ok(())
    }

    /// Takes in what another has of the frames that follow; `numbers` says which of `groups` groups each of its groups is.
    fn merge(&mut self, other: FrameSlot, numbers: &[u32], groups: usize) -> Result<()> {
        match (self, other) {
            (FrameSlot::Accumulator(ours), FrameSlot::Accumulator(theirs)) => {
                ours.grow(groups);
                ours.merge(theirs, numbers)
            }
            (FrameSlot::Picked(ours, values), FrameSlot::Picked(theirs, more)) => {
                ours.grow(groups);
                ours.merge(&theirs, numbers);
                values.extend(more);
                Ok(())
            }
            (FrameSlot::PickedByKeys(ours, values), FrameSlot::PickedByKeys(theirs, more)) => {
                ours.grow(groups);
                ours.merge(&theirs, numbers)?;
                values.extend(more);
                Ok(())
            }
            _ => Err(Error::Unsupported("a merge of two kinds of aggregates".to_owned())),
        }
    }

    fn check_memory(&self, limit: usize) -> Result<()> {
        let needed = match self {
            FrameSlot::Accumulator(accumulator) => accumulator.heap_bytes(),
            FrameSlot::Picked(_, _) => 0,
            FrameSlot::PickedByKeys(picks, _) => picks.heap_bytes(),
        };
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    fn finish(self, aggregate: &Aggregate) -> Result<ArrayRef> {
        let data_type = &aggregate.data_type;
        match self {
            FrameSlot::Accumulator(accumulator) => accumulator.finish(),
            FrameSlot::Picked(picks, values) => {
                picks.finish(data_type, |frame, rows| rows_of(&values[frame as usize], rows))
            }
            FrameSlot::PickedByKeys(picks, values) => {
                picks.finish(data_type, |frame, rows| rows_of(&values[frame as usize], rows))
            }
        }
    }
}

/// An aggregate over all rows of a partition, at each of its rows: a column for each frame.
pub(crate) fn at_each_row(
    frames: &[Frame],
    keys: &[Expr],
    aggregate: &Aggregate,
    constants: &[ArrayRef],
) -> Result<Vec<ArrayRef>> {
    let mut grouping = Grouping::new(keys);
    let mut of_frames = Vec::with_capacity(frames.len());
    let mut of_all: Option<Box<dyn Accumulator>> = None;
    for frame in frames {
        let rows = grouping.rows(frame, constants)?;
        let arguments = arguments(frame, aggregate, constants)?;
        let accumulator = match &mut of_all {
            Some(accumulator) => accumulator,
            None => of_all.insert(accumulator_of(aggregate, &arguments, 1)?),
        };
        accumulator.grow(grouping.groups.len());
        accumulator.update(&arguments, RowGroups::Rows(&rows))?;
        of_frames.push(rows);
    }
    let Some(accumulator) = of_all else { return Ok(Vec::new()) };
    let results = accumulator.finish()?;
    of_frames.into_iter().map(|rows| Ok(take(&results, &UInt32Array::from(rows), None)?)).collect()
}

/// An aggregate's arguments over the rows of a frame.
pub(crate) fn arguments(frame: &Frame, aggregate: &Aggregate, constants: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let evaluate = |argument: &Expr| argument.evaluate(frame, constants)?.into_array(frame.len());
    aggregate.arguments.iter().map(evaluate).collect()
}

/// The accumulator of an aggregate of some arguments. First and last have none.
pub(crate) fn accumulator_of(
    aggregate: &Aggregate,
    arguments: &[ArrayRef],
    threads: usize,
) -> Result<Box<dyn Accumulator>> {
    let types: Vec<DataType> = arguments.iter().map(|array| array.data_type().clone()).collect();
    accumulator(aggregate, &types, threads)
}
