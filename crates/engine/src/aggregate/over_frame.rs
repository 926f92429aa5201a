//! Aggregation over rows in memory, by hash.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::Aggregate;
use super::accumulate::{Accumulator, Assigned, NO_GROUP, accumulator};
use super::groups::{Groups, Texts, key_column};
use super::keys::{Numbered, ValueKey};
use super::picks::{Picks, Positions, rows_of};
use crate::error::{Error, Result};
use crate::expr::{Expr, holds};
use crate::frame::Frame;

/// The group of each row by some keys, and how many groups there are.
pub(crate) fn group_rows(frame: &Frame, keys: &[Expr], constants: &[ArrayRef]) -> Result<(Vec<u32>, usize)> {
    let Grouping { rows, groups, .. } = group(frame, keys, constants)?;
    Ok((rows, groups.len()))
}

struct Grouping {
    /// The group of each row.
    rows: Vec<u32>,
    groups: Groups,
    texts: Vec<Texts>,
}

fn group(frame: &Frame, keys: &[Expr], constants: &[ArrayRef]) -> Result<Grouping> {
    let mut texts: Vec<Texts> = keys.iter().map(|_| Texts::default()).collect();
    let mut values = Vec::with_capacity(keys.len());
    for (position, key) in keys.iter().enumerate() {
        let array = key.evaluate(frame, constants)?.into_array(frame.len())?;
        values.push(ValueKey::new(position, &array, &mut texts[position], &mut Numbered::default())?);
    }
    let mut groups = Groups::new(keys.len());
    let mut words = vec![0; keys.len() + 1];
    if keys.is_empty() {
        groups.find(&words);
        return Ok(Grouping { rows: vec![0; frame.len()], groups, texts });
    }
    let mut find = |row: usize| {
        words[keys.len()] = 0;
        for value in &values {
            let word = value.word(row);
            words[value.key] = word.unwrap_or(0);
            words[keys.len()] |= u64::from(word.is_none()) << value.key;
        }
        groups.find(&words)
    };
    let rows = match ValueKey::places(&values, frame.len()).filter(|(_, choices)| *choices <= frame.len()) {
        Some((places, choices)) => {
            let mut known = vec![NO_GROUP; choices];
            let mut group = |(row, place): (usize, &u32)| {
                let known = &mut known[*place as usize];
                if *known == NO_GROUP {
                    *known = find(row);
                }
                *known
            };
            places.iter().enumerate().map(&mut group).collect()
        }
        None => (0..frame.len()).map(find).collect(),
    };
    Ok(Grouping { rows, groups, texts })
}

/// Keys and results, a row for each group. First and last go by the order of the frame's rows.
pub(crate) fn over_frame(
    frame: &Frame,
    keys: &[Expr],
    key_types: &[DataType],
    aggregates: &[Aggregate],
    constants: &[ArrayRef],
) -> Result<Vec<ArrayRef>> {
    let Grouping { rows, groups, texts } = group(frame, keys, constants)?;
    let mut columns = Vec::with_capacity(keys.len() + aggregates.len());
    for (key, data_type) in key_types.iter().enumerate() {
        columns.push(key_column(&groups, key, &texts[key], data_type)?);
    }
    for aggregate in aggregates {
        columns.push(aggregated(frame, aggregate, &rows, groups.len(), constants)?);
    }
    Ok(columns)
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
            let mask = filter.evaluate(frame, constants)?.into_array(frame.len())?;
            let mask = holds(&mask)?;
            only =
                rows.iter().enumerate().map(|(row, group)| if mask.value(row) { *group } else { NO_GROUP }).collect();
            &only
        }
    };
    let arguments = aggregate
        .arguments
        .iter()
        .map(|argument| argument.evaluate(frame, constants)?.into_array(frame.len()))
        .collect::<Result<Vec<_>>>()?;
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
    let types: Vec<DataType> = arguments.iter().map(|array| array.data_type().clone()).collect();
    let mut accumulator: Box<dyn Accumulator> = accumulator(aggregate, &types)?;
    accumulator.grow(groups);
    accumulator.update(&arguments, Assigned::Rows(rows))?;
    accumulator.finish()
}
