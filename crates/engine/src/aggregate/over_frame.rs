//! Aggregation over rows in memory, by hash.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::Aggregate;
use super::accumulate::{Accumulator, Assigned, NO_GROUP, accumulator};
use super::groups::{Groups, Texts, key_column};
use super::keys::{TextWords, ValueKey};
use super::picks::{Picks, Positions, rows_of};
use crate::codes::condition;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::frame::Frame;
use crate::gather::position;
use crate::run::Setting;

/// The group of each row by some keys, and how many groups there are.
pub(crate) fn group_rows(frame: &Frame, keys: &[Expr], constants: &[ArrayRef]) -> Result<(Vec<u32>, usize)> {
    let mut grouping = Grouping::new(keys);
    let rows = grouping.rows(frame, constants)?;
    Ok((rows, grouping.groups.len()))
}

/// Groups of the rows of several frames.
struct Grouping<'a> {
    keys: &'a [Expr],
    groups: Groups,
    /// By key.
    texts: Vec<Texts>,
    words: Vec<TextWords>,
}

impl<'a> Grouping<'a> {
    fn new(keys: &'a [Expr]) -> Grouping<'a> {
        let mut groups = Groups::new(keys.len());
        if keys.is_empty() {
            // Without keys there is one group, of nothing if need be.
            groups.find(&[0]);
        }
        let (texts, words) = keys.iter().map(|_| (Texts::default(), TextWords::default())).unzip();
        Grouping { keys, groups, texts, words }
    }

    /// The group of each row of a frame.
    fn rows(&mut self, frame: &Frame, constants: &[ArrayRef]) -> Result<Vec<u32>> {
        let keys = self.keys.len();
        if keys == 0 {
            return Ok(vec![0; frame.len()]);
        }
        let mut values = Vec::with_capacity(keys);
        for (position, key) in self.keys.iter().enumerate() {
            let array = key.evaluate(frame, constants)?.into_array(frame.len())?;
            values.push(ValueKey::new(position, &array, &mut self.texts[position], &mut self.words[position])?);
        }
        let mut words = vec![0; keys + 1];
        let groups = &mut self.groups;
        let mut find = |row: usize| {
            words[keys] = 0;
            for value in &values {
                let word = value.word(row);
                words[value.key] = word.unwrap_or(0);
                words[keys] |= u64::from(word.is_none()) << value.key;
            }
            groups.find(&words)
        };
        let Some(places) = ValueKey::places(&values, frame.len()).filter(|places| places.choices <= frame.len()) else {
            return Ok((0..frame.len()).map(find).collect());
        };
        let mut known = vec![NO_GROUP; places.choices];
        let group = |(row, place): (usize, &u16)| {
            let known = &mut known[*place as usize];
            if *known == NO_GROUP {
                *known = find(row);
            }
            *known
        };
        Ok(places.of_rows.iter().enumerate().map(group).collect())
    }
}

/// Keys and results, a row for each group. First and last go by the order of the frames and their rows. There must be a frame, from
/// which the types are learnt.
pub(crate) fn over_frames(
    frames: &[Frame],
    keys: &[Expr],
    key_types: &[DataType],
    aggregates: &[Aggregate],
    setting: &Setting<'_>,
) -> Result<Vec<ArrayRef>> {
    let mut grouping = Grouping::new(keys);
    // With the types of their arguments.
    let mut slots: Vec<Option<(Vec<DataType>, Slot)>> = aggregates.iter().map(|_| None).collect();
    for (number, frame) in (0u32..).zip(frames) {
        setting.stop.check()?;
        let rows = grouping.rows(frame, setting.constants)?;
        let groups = grouping.groups.len();
        let grouped = Grouped { frame, number, rows: &rows, groups, constants: setting.constants };
        for (aggregate, slot) in aggregates.iter().zip(&mut slots) {
            let arguments = arguments(frame, aggregate, setting.constants)?;
            let types = arguments.iter().map(|array| array.data_type().clone()).collect::<Vec<_>>();
            let (known, slot) = match slot {
                Some(known) => known,
                None => slot.insert((types.clone(), Slot::new(aggregate, &arguments, setting.threads)?)),
            };
            if *known != types {
                return Err(Error::Unsupported(format!("an aggregate of {known:?} and {types:?}")));
            }
            slot.update(aggregate, arguments, &grouped)?;
            slot.check_memory(setting.memory_bytes / 2)?;
        }
    }
    let Grouping { groups, texts, .. } = grouping;
    let mut columns = Vec::with_capacity(keys.len() + aggregates.len());
    for (key, data_type) in key_types.iter().enumerate() {
        columns.push(key_column(&groups, key, &texts[key], data_type)?);
    }
    for (aggregate, slot) in aggregates.iter().zip(slots) {
        let Some((_, slot)) = slot else { return Err(Error::Unsupported("an aggregate of no rows".to_owned())) };
        columns.push(slot.finish(aggregate)?);
    }
    Ok(columns)
}

/// A frame with the group of each of its rows.
struct Grouped<'a> {
    frame: &'a Frame,
    /// Which of the frames it is.
    number: u32,
    rows: &'a [u32],
    /// How many groups there are by now.
    groups: usize,
    constants: &'a [ArrayRef],
}

/// One of the aggregates at work.
enum Slot {
    Kept(Box<dyn Accumulator>),
    /// With the values of each frame, of which some are the result.
    Picked(Picks, Vec<ArrayRef>),
}

impl Slot {
    fn new(aggregate: &Aggregate, arguments: &[ArrayRef], threads: usize) -> Result<Slot> {
        match aggregate.function.picks() {
            Some((_, true)) => Err(Error::Unsupported("a first or last by time of rows in memory".to_owned())),
            Some((last, false)) => Ok(Slot::Picked(Picks::new(last, false), Vec::new())),
            None => Ok(Slot::Kept(accumulator_of(aggregate, arguments, threads)?)),
        }
    }

    /// Takes the rows of a frame in.
    fn update(&mut self, aggregate: &Aggregate, arguments: Vec<ArrayRef>, grouped: &Grouped<'_>) -> Result<()> {
        let Grouped { frame, number, rows, groups, constants } = *grouped;
        let only: Vec<u32>;
        let rows = match &aggregate.filter {
            None => rows,
            Some(filter) => {
                let mask = condition(filter, frame, constants)?;
                let kept = |(row, group): (usize, &u32)| if mask.value(row) { *group } else { NO_GROUP };
                only = rows.iter().enumerate().map(kept).collect();
                &only
            }
        };
        match self {
            Slot::Kept(accumulator) => {
                accumulator.grow(groups);
                accumulator.update(&arguments, Assigned::Rows(rows))
            }
            Slot::Picked(picks, values) => {
                picks.grow(groups);
                picks.update(Assigned::Rows(rows), Positions::From(position(number, 0)), None);
                values.extend(arguments);
                Ok(())
            }
        }
    }

    fn check_memory(&self, limit: usize) -> Result<()> {
        let needed = match self {
            Slot::Kept(accumulator) => accumulator.held_bytes(),
            Slot::Picked(_, _) => 0,
        };
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    fn finish(self, aggregate: &Aggregate) -> Result<ArrayRef> {
        match self {
            Slot::Kept(accumulator) => accumulator.finish(),
            Slot::Picked(picks, values) => {
                picks.finish(&aggregate.data_type, |frame, rows| rows_of(&values[frame as usize], rows))
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
    let mut kept: Option<Box<dyn Accumulator>> = None;
    for frame in frames {
        let rows = grouping.rows(frame, constants)?;
        let arguments = arguments(frame, aggregate, constants)?;
        let accumulator = match &mut kept {
            Some(accumulator) => accumulator,
            None => kept.insert(accumulator_of(aggregate, &arguments, 1)?),
        };
        accumulator.grow(grouping.groups.len());
        accumulator.update(&arguments, Assigned::Rows(&rows))?;
        of_frames.push(rows);
    }
    let Some(kept) = kept else { return Ok(Vec::new()) };
    let results = kept.finish()?;
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
