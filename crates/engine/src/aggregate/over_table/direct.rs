//! Aggregates over plain columns: from block summaries where a whole block is in one group, otherwise over slices of
//! the mapped columns.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use splay_store::{BLOCK_ROWS, ColumnSummaries, TableSnapshot, ValueKind};

use super::columns::BlockColumns;
use super::{AggregateSlot, BLOCK_ROWS_MAX, TableAggregate, TableGroups};
use crate::aggregate::accumulate::{Accumulator, GroupRun, RowGroups};
use crate::aggregate::picks::Positions;
use crate::aggregate::{Aggregate, Key};
use crate::binary_op::BinaryOp;
use crate::error::Result;
use crate::expr::Expr;
use crate::gather::position;
use crate::table::{Cover, CoverColumns};
use crate::value::texts_of;

/// Most runs of a cover that are read separately.
const RUNS_APART_MAX: usize = 64;

/// Rows of a cover for each row needed from which on the runs are read separately, so that the rows between them are never read.
const ROWS_BETWEEN_MIN: usize = 4;

impl TableGroups<'_> {
    /// Whether nothing has to be evaluated for each row.
    pub(super) fn is_direct(&self) -> bool {
        self.aggregation.predicate.is_none()
            && !self.looks_at_values()
            && self.aggregation.aggregates.iter().zip(&self.only_symbols).all(|(aggregate, only)| {
                let picks = aggregate.function.picks().is_some();
                aggregate.pivot.is_none()
                    && (aggregate.filter.is_none() || only.is_some())
                    && (picks || aggregate.arguments.iter().all(|a| self.plain(a).is_some()))
            })
    }

    /// Whether a key has to be evaluated row by row.
    fn looks_at_values(&self) -> bool {
        let by_value = |(key, of_key): (usize, &Key)| match of_key {
            Key::Value(_) => !self.cuts.is_step(key) && !self.symbol_keys.has(key),
            Key::Bucket(_) => self.aggregation.by_rows,
            Key::Symbol | Key::Date => false,
        };
        self.aggregation.keys.iter().enumerate().any(by_value)
    }

    /// The stored column that an argument is, maybe as a wider number.
    fn plain(&self, argument: &Expr) -> Option<usize> {
        let spec = self.aggregation.snapshot.spec();
        match argument {
            Expr::Column(position) if *position < spec.columns.len() => Some(*position),
            Expr::Cast(inner, to) => {
                let position = self.plain(inner).filter(|_| matches!(inner.as_ref(), Expr::Column(_)))?;
                let from = spec.columns[position].column_type.arrow();
                // Casts that every value passes.
                let widens = match to {
                    DataType::Float64 => from.is_integer() || from == DataType::Float32,
                    DataType::Int64 => from.is_signed_integer(),
                    DataType::UInt64 => from.is_unsigned_integer(),
                    _ => false,
                };
                widens.then_some(position)
            }
            _ => None,
        }
    }

    /// Aggregates plain columns: from summaries where there are any, otherwise over slices of the mapped columns.
    pub(super) fn direct(&mut self, columns: &CoverColumns<'_>, number: u32) -> Result<()> {
        let cover = columns.cover();
        let first = cover.rows.start;
        self.runs.clear();
        let times = if self.needs_times() { Some(columns.times()?) } else { None };
        let mut of_span = Vec::with_capacity(cover.spans.len());
        for span in &cover.spans {
            self.set_symbol(cover, span.run)?;
            let rows = span.rows.start - first..span.rows.end - first;
            let start = self.runs.len();
            self.cut(rows, times)?;
            of_span.push(start..self.runs.len());
        }
        self.grow()?;
        let all = std::mem::take(&mut self.runs);
        let all_cut = whole_blocks(&all, first);
        let slots = self.slots.iter_mut().zip(self.aggregation.aggregates).zip(&self.only_symbols);
        for ((slot, aggregate), only) in slots {
            let (of_symbols, of_symbols_cut);
            let (runs, (whole, edges)) = match only {
                None => (&all, &all_cut),
                Some(symbols) => {
                    of_symbols = runs_of(cover, &of_span, &all, symbols)?;
                    of_symbols_cut = whole_blocks(&of_symbols, first);
                    (&of_symbols, &of_symbols_cut)
                }
            };
            match slot {
                AggregateSlot::Picks(picks) => {
                    picks.update(RowGroups::Runs(runs), Positions::From(position(number, 0)), times)
                }
                AggregateSlot::Accumulator(accumulator) if aggregate.arguments.is_empty() => {
                    accumulator.update(&[], RowGroups::Runs(runs))?;
                }
                AggregateSlot::Accumulator(accumulator) => {
                    let plain = plain_of(self.aggregation.snapshot, &aggregate.arguments[0]);
                    let summaries = match plain {
                        Some(column) if !whole.is_empty() && accumulator.takes_summaries() => {
                            summaries(self.aggregation.snapshot, cover, column)?
                        }
                        _ => None,
                    };
                    match summaries {
                        Some(summaries) => {
                            let edges = by_summaries(accumulator.as_mut(), summaries, whole, edges, first);
                            over_runs(self.aggregation, columns, accumulator.as_mut(), aggregate, &edges)?;
                        }
                        None => over_runs(self.aggregation, columns, accumulator.as_mut(), aggregate, runs)?,
                    }
                }
            }
        }
        self.runs = all;
        Ok(())
    }

    /// Adds the runs of a span: one, or one for each stretch of time.
    pub(super) fn cut(&mut self, rows: Range<usize>, times: Option<&[i64]>) -> Result<()> {
        let Some(times) = times.filter(|_| !self.cuts.is_empty()) else {
            if !rows.is_empty() {
                let group = self.groups.find(&self.words);
                self.runs.push(GroupRun { group, start: rows.start, end: rows.end });
            }
            return Ok(());
        };
        let TableGroups { cuts, groups, runs, words, texts, aggregation, .. } = self;
        cuts.each(rows, times, |rows, cut| {
            cuts.set(cut, words, texts, aggregation.constants)?;
            runs.push(GroupRun { group: groups.find(words), start: rows.start, end: rows.end });
            Ok(())
        })
    }
}

fn plain_of(snapshot: &TableSnapshot, argument: &Expr) -> Option<usize> {
    match argument {
        Expr::Column(position) if *position < snapshot.spec().columns.len() => Some(*position),
        Expr::Cast(inner, _) => plain_of(snapshot, inner),
        _ => None,
    }
}

/// Summaries of a column by block, if they are of the column's present kind.
fn summaries<'a>(snapshot: &TableSnapshot, cover: &'a Cover, column: usize) -> Result<Option<&'a ColumnSummaries>> {
    let column = &snapshot.spec().columns[column];
    let kind = ValueKind::of(&column.column_type.arrow());
    let found = cover.segment.index()?.by_block(&column.name)?;
    Ok(found.filter(|summaries| Some(summaries.kind()) == kind))
}

/// The blocks that lie entirely in a run, with the run's group, and the rest of the runs.
fn whole_blocks(runs: &[GroupRun], first: usize) -> (Vec<(u32, Range<usize>)>, Vec<GroupRun>) {
    let (mut whole, mut edges) = (Vec::new(), Vec::with_capacity(runs.len()));
    for run in runs {
        let (start, end) = ((first + run.start).div_ceil(BLOCK_ROWS), (first + run.end) / BLOCK_ROWS);
        if start >= end {
            edges.push(*run);
            continue;
        }
        whole.push((run.group, start..end));
        edges.push(GroupRun { end: start * BLOCK_ROWS - first, ..*run });
        edges.push(GroupRun { start: end * BLOCK_ROWS - first, ..*run });
    }
    edges.retain(|run| run.start < run.end);
    (whole, edges)
}

/// Takes in the summaries of whole blocks; gives the runs that are left, with those of blocks whose summary didn't do.
fn by_summaries(
    accumulator: &mut dyn Accumulator,
    summaries: &ColumnSummaries,
    whole: &[(u32, Range<usize>)],
    edges: &[GroupRun],
    first: usize,
) -> Vec<GroupRun> {
    let mut left = edges.to_vec();
    for (group, blocks) in whole {
        for block in blocks.clone() {
            let summary = summaries.get(block);
            if !accumulator.update_summary(*group, summaries.kind(), &summary) {
                let start = block * BLOCK_ROWS - first;
                left.push(GroupRun { group: *group, start, end: start + BLOCK_ROWS });
            }
        }
    }
    left
}

/// Takes in runs of plain columns.
fn over_runs(
    aggregation: &TableAggregate<'_>,
    columns: &CoverColumns<'_>,
    accumulator: &mut dyn Accumulator,
    aggregate: &Aggregate,
    runs: &[GroupRun],
) -> Result<()> {
    let first = columns.cover().rows.start;
    let selected: usize = runs.iter().map(|run| run.end - run.start).sum();
    if let [Expr::Column(position)] = aggregate.arguments.as_slice()
        && runs.len() <= RUNS_APART_MAX
        && selected * ROWS_BETWEEN_MIN < columns.cover().rows.len()
        && !columns.has_read(*position)
    {
        let reader = columns.cover().segment.column(aggregation.snapshot.spec(), *position)?;
        for run in runs {
            let rows = GroupRun { group: run.group, start: 0, end: run.end - run.start };
            accumulator.update(&[reader.read(first + run.start..first + run.end)?], RowGroups::Runs(&[rows]))?;
        }
        return Ok(());
    }
    let as_stored = aggregate.arguments.iter().map(|argument| match argument {
        Expr::Column(position) => columns.column(*position).map(Some),
        _ => Ok(None),
    });
    let as_stored = as_stored.collect::<Result<Option<Vec<_>>>>()?;
    if let Some(stored) = as_stored {
        let arguments: Vec<ArrayRef> = stored.into_iter().cloned().collect();
        return accumulator.update(&arguments, RowGroups::Runs(runs));
    }
    // A cast costs a copy, so it is made of the runs' rows alone.
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min(start + BLOCK_ROWS_MAX);
            let chunk = BlockColumns::of_rows(columns, first + start..first + end);
            let arguments = aggregate
                .arguments
                .iter()
                .map(|argument| argument.evaluate(&chunk, aggregation.constants)?.into_array(end - start))
                .collect::<Result<Vec<_>>>()?;
            accumulator
                .update(&arguments, RowGroups::Runs(&[GroupRun { group: run.group, start: 0, end: end - start }]))?;
            start = end;
        }
    }
    Ok(())
}

/// The symbols that an aggregate's filter asks for, if it asks for nothing else.
pub(super) fn only_symbols(aggregation: &TableAggregate<'_>, aggregate: &Aggregate) -> Option<Vec<String>> {
    let spec = aggregation.snapshot.spec();
    let position = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol))?;
    let mut symbols = Vec::new();
    list_symbols(aggregate.filter.as_ref()?, position, aggregation.constants, &mut symbols).then_some(symbols)
}

fn list_symbols(filter: &Expr, position: usize, constants: &[ArrayRef], symbols: &mut Vec<String>) -> bool {
    match filter {
        Expr::Binary(BinaryOp::Or, left, right) => {
            list_symbols(left, position, constants, symbols) && list_symbols(right, position, constants, symbols)
        }
        Expr::In(value, list) => {
            let is_symbol = matches!(value.as_ref(), Expr::Column(column) if *column == position);
            is_symbol && texts_of(list.values(constants)).map(|texts| symbols.extend(texts)).is_ok()
        }
        Expr::Binary(BinaryOp::Equal, left, right) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Constant(constant)) | (Expr::Constant(constant), Expr::Column(column))
                if *column == position =>
            {
                // What equals null is no symbol.
                texts_of(&constants[*constant]).map(|texts| symbols.extend(texts)).is_ok()
            }
            _ => false,
        },
        _ => false,
    }
}

/// The runs of those spans whose symbol is one of a few.
fn runs_of(cover: &Cover, of_span: &[Range<usize>], runs: &[GroupRun], symbols: &[String]) -> Result<Vec<GroupRun>> {
    let index = cover.segment.index()?;
    let mut chosen = Vec::new();
    for (span, range) in cover.spans.iter().zip(of_span) {
        let symbol = span.run.map(|run| index.symbol(run)).transpose()?.flatten();
        if symbol.is_some_and(|symbol| symbols.iter().any(|one| one == symbol)) {
            chosen.extend_from_slice(&runs[range.clone()]);
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_and_edges_make_up_the_runs() {
        let runs = [GroupRun { group: 0, start: 0, end: 100 }, GroupRun { group: 1, start: 100, end: 5000 }];
        let (whole, edges) = whole_blocks(&runs, 1000);
        assert_eq!(whole, [(1, 2..5)]);
        let rows: usize = edges.iter().map(|run| run.end - run.start).sum();
        assert_eq!(rows + 3 * BLOCK_ROWS, 5000);
        assert_eq!(edges[1], GroupRun { group: 1, start: 100, end: 2 * BLOCK_ROWS - 1000 });
    }
}
