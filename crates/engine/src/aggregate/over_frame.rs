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

/// Keys and results, a row for each group. First and last go by the order of the frame's rows.
pub(crate) fn over_frame(
    frame: &Frame,
    keys: &[Expr],
    key_types: &[DataType],
    aggregates: &[Aggregate],
    constants: &[ArrayRef],
) -> Result<Vec<ArrayRef>> {
    let mut grouping = Grouping::new(keys);
    let rows = grouping.rows(frame, constants)?;
    let Grouping { groups, texts, .. } = grouping;
    let mut columns = Vec::with_capacity(keys.len() + aggregates.len());
    for (key, data_type) in key_types.iter().enumerate() {
        columns.push(key_column(&groups, key, &texts[key], data_type)?);
    }
    for aggregate in aggregates {
        columns.push(aggregated(frame, aggregate, &rows, groups.len(), constants)?);
    }
    Ok(columns)
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
            None => kept.insert(accumulator_of(aggregate, &arguments)?),
        };
        accumulator.grow(grouping.groups.len());
        accumulator.update(&arguments, Assigned::Rows(&rows))?;
        of_frames.push(rows);
    }
    let Some(kept) = kept else { return Ok(Vec::new()) };
    let results = kept.finish()?;
    of_frames.into_iter().map(|rows| Ok(take(&results, &UInt32Array::from(rows), None)?)).collect()
}

fn arguments(frame: &Frame, aggregate: &Aggregate, constants: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let evaluate = |argument: &Expr| argument.evaluate(frame, constants)?.into_array(frame.len());
    aggregate.arguments.iter().map(evaluate).collect()
}

fn accumulator_of(aggregate: &Aggregate, arguments: &[ArrayRef]) -> Result<Box<dyn Accumulator>> {
    let types: Vec<DataType> = arguments.iter().map(|array| array.data_type().clone()).collect();
    accumulator(aggregate, &types)
}

fn aggregated(
    frame: &Frame,
    aggregate: &Aggregate,
    rows: &[u32],
    groups: usize,
    constants: &[ArrayRef],
) -> Result<ArrayRef> {
    let only: Vec<u32>;
    let rows = match &aggregate.filter {
        None => rows,
        Some(filter) => {
            let mask = condition(filter, frame, constants)?;
            only =
                rows.iter().enumerate().map(|(row, group)| if mask.value(row) { *group } else { NO_GROUP }).collect();
            &only
        }
    };
    let arguments = arguments(frame, aggregate, constants)?;
    match aggregate.function.picks() {
        Some((_, true)) => return Err(Error::Unsupported("a first or last by time of rows in memory".to_owned())),
        Some((last, false)) => {
            let mut picks = Picks::new(last, false);
            picks.grow(groups);
            picks.update(Assigned::Rows(rows), Positions::From(0), None);
            return picks.finish(&aggregate.data_type, |_, picked| rows_of(&arguments[0], picked));
        }
        None => {}
    }
    let mut accumulator = accumulator_of(aggregate, &arguments)?;
    accumulator.grow(groups);
    accumulator.update(&arguments, Assigned::Rows(rows))?;
    accumulator.finish()
}
