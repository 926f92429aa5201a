//! Window joins of rows in memory with a table: aggregates over the right rows in a window around each left row.
//!
//! - The rows of a symbol ascend in time, so a window is a range of them, found by galloping from the previous
//!   window.
//! - Aggregates run over these ranges in place, which costs a few tenths of a nanosecond per row and aggregate. The
//!   right side isn't copied, unless segments overlap in time or a filter removes rows.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use hashbrown::HashMap;

use super::chain::{PartRows, RightKeys, RightTable, SymbolChain};
use super::keys::KeyNumbers;
use super::{LeftSymbols, chain_of, evaluate_over, in_chunks, right_of, runs_of};
use crate::aggregate::{Accumulator, Aggregate, GroupRun, Picks, Positions, RowGroups, accumulator};
use crate::asof::{WindowRule, window_rows};
use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::expr::codes::condition;
use crate::expr::{EvaluatedColumns, Expr};
use crate::frame::Frame;
use crate::gather::position;
use crate::reads::Reads;
use crate::scan::Scan;
use crate::stop::Stop;
use crate::table::{count, instants, times_of};
use crate::value::Value;

/// Left rows that are joined at once, and from which on a second thread pays.
const CHUNK_ROWS: usize = 8_192;

/// Gap between two windows, in rows, from which on the rows between aren't read.
const GAP_ROWS: usize = 1_024;

/// Pairs of a window and a row of it that are worked on between two looks at whether to stop, and at the memory.
const PAIRS_MAX: usize = 1 << 20;

/// What is joined to each left row.
#[derive(Debug, Clone)]
pub struct WindowJoin {
    /// The right rows.
    pub scan: Scan,
    /// The first and the last time of a window, timestamps in nanoseconds over the left; and whether each belongs to it.
    pub begin: (Expr, bool),
    /// See `begin`.
    pub end: (Expr, bool),
    /// What else belongs to a window.
    pub rule: WindowRule,
    /// The value that the right's symbol must equal. Without it the right table has no symbols, or its scan selects
    /// one.
    pub symbol: Option<Expr>,
    /// Further left values, each with the position of the right column that must equal it.
    pub keys: Vec<(Expr, usize)>,
    /// What is computed of the rows in a window, over the columns of the right table.
    pub aggregates: Vec<Aggregate>,
}

/// Left rows in their order, with the aggregates of their windows behind their columns.
pub(crate) fn window_join(input: &[Frame], join: &WindowJoin, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let (snapshot, right) = right_of(&join.scan, context)?;
    let rows: usize = input.iter().map(Frame::len).sum();
    let limit = context.memory_bytes / 2;
    let needed = rows.saturating_mul(join.aggregates.len()).saturating_mul(3 * size_of::<u64>());
    if needed > limit {
        return Err(Error::Memory { needed, limit });
    }
    let joiner = || WindowJoiner {
        join,
        right: &right,
        constants: context.constants,
        stop: context.stop,
        reads: &context.reads,
        held_bytes_max: limit / context.threads.max(1),
        chains: HashMap::new(),
        numbers: KeyNumbers::new(&join.keys),
    };
    let joined = in_chunks(input, (CHUNK_ROWS, CHUNK_ROWS), context, joiner, WindowJoiner::chunk)?;
    let mut stats = count(snapshot, &[])?;
    stats.rows.selected = joined.iter().map(|(_, found)| *found as u64).sum();
    context.reads.add_scan(stats);
    Ok(joined.into_iter().map(|(frame, _)| frame).collect())
}

/// Joins chunks of left rows one after the other.
struct WindowJoiner<'a> {
    join: &'a WindowJoin,
    right: &'a RightTable<'a>,
    constants: &'a [ArrayRef],
    stop: Stop<'a>,
    reads: &'a Reads,
    held_bytes_max: usize,
    /// The right rows of each symbol that came by.
    chains: HashMap<String, SymbolChain>,
    /// Numbers of the further keys of the rows that came by.
    numbers: KeyNumbers,
}

impl WindowJoiner<'_> {
    /// The joined rows, and how many right rows were looked at.
    fn chunk(&mut self, left: &Frame) -> Result<(Frame, usize)> {
        let bounds = self.bounds(left)?;
        let symbols = LeftSymbols::of(self.join.symbol.as_ref(), left, self.constants)?;
        let keys = self.numbers.of_left(left, self.constants)?;
        let mut results = WindowResults::new(self, left.len())?;
        for (rows, symbol) in runs_of(symbols.as_ref(), left.len(), self.right)? {
            let chain = chain_of(&mut self.chains, self.right, symbol)?;
            // The right rows with some further keys ascend in time too, so that they are as rows of a symbol of their own.
            let rows = keys.rows_by_keys(rows);
            let mut lists: Vec<WindowList> =
                rows.into_iter().map(|rows| WindowList::new(rows, &bounds, self.join.rule)).collect();
            let mut keyed = RightKeys { right: self.right, keys: &keys, numbers: &mut self.numbers };
            // The row that prevails is the last one before the begin, in whichever part it is: the last parts are looked at first.
            for number in (0..chain.len()).rev() {
                for list in &mut lists {
                    self.stop.check()?;
                    list.look_into(chain, number, &mut keyed)?;
                }
            }
            for list in lists {
                for (part, windows) in list.found.into_iter().rev() {
                    for windows in together(&windows) {
                        results.add(&part, windows, self.stop)?;
                    }
                }
            }
        }
        let looked_at = results.looked_at;
        let mut joined = left.clone();
        results.finish()?.into_iter().for_each(|column| joined.push(column));
        Ok((joined, looked_at))
    }

    /// The first and the last time of each left row's window; `None` for one that is empty.
    fn bounds(&self, left: &Frame) -> Result<Vec<Option<(i64, i64)>>> {
        let times = |(expr, inclusive): &(Expr, bool), step: i64| -> Result<Vec<Option<i64>>> {
            let array = instants(&expr.evaluate(left, self.constants)?.into_array(left.len())?)?;
            let is_valid = |nulls: Option<&NullBuffer>, row| nulls.is_none_or(|nulls| nulls.is_valid(row));
            let step = if *inclusive { 0 } else { step };
            let time = |(row, time): (usize, &i64)| is_valid(array.nulls(), row).then(|| time.checked_add(step))?;
            Ok(times_of(&array)?.iter().enumerate().map(time).collect())
        };
        let (begins, ends) = (times(&self.join.begin, 1)?, times(&self.join.end, -1)?);
        let bounds =
            begins.into_iter().zip(ends).map(|(begin, end)| begin.zip(end).filter(|(begin, end)| begin <= end));
        Ok(bounds.collect())
    }
}

/// Left rows of one symbol with equal keys, and where their windows lie.
pub(super) struct WindowList {
    /// Numbers of the rows.
    rows: Vec<usize>,
    bounds: Vec<Option<(i64, i64)>>,
    /// The least begin and the greatest end; `None` if all windows are empty.
    reach: Option<(i64, i64)>,
    /// Whether a row that prevails is still looked for.
    wants_prevailing: Vec<bool>,
    /// By part, the last one first; the group of a window is the number of its row.
    pub found: Vec<(PartRows, Vec<GroupRun>)>,
}

impl WindowList {
    pub fn new(rows: Vec<usize>, bounds: &[Option<(i64, i64)>], rule: WindowRule) -> WindowList {
        let bounds: Vec<_> = rows.iter().map(|row| bounds[*row]).collect();
        let least = bounds.iter().flatten().map(|(begin, _)| *begin).min();
        let reach = least.zip(bounds.iter().flatten().map(|(_, end)| *end).max());
        let wants_prevailing = bounds.iter().map(|bounds| rule.prevailing && bounds.is_some()).collect();
        WindowList { rows, bounds, reach, wants_prevailing, found: Vec::new() }
    }

    /// Looks for windows in a part. Later parts were looked into before.
    pub fn look_into(&mut self, chain: &mut SymbolChain, number: usize, keyed: &mut RightKeys<'_, '_>) -> Result<()> {
        let (earliest, latest) = chain.times(number);
        let Some((least, _)) = self.reach.filter(|(_, greatest)| earliest <= *greatest) else { return Ok(()) };
        let is_before = latest < least;
        if is_before && !self.wants_prevailing.contains(&true) {
            return Ok(());
        }
        let found = match keyed.numbers.are_none() {
            true => chain.rows(number, keyed.right)?,
            false => chain.rows_of_keys(number, keyed, self.rows[0], is_before)?,
        };
        let Some((times, rows)) = found else { return Ok(()) };
        let mut windows = Vec::new();
        let mut place = 0;
        window_rows(WindowRule { prevailing: false }, self.bounds.iter().copied(), &times, |range| {
            let mut range = range;
            if let (true, Some((begin, _))) = (self.wants_prevailing[place], self.bounds[place]) {
                if times.get(range.start) == Some(&begin) {
                    self.wants_prevailing[place] = false;
                } else if range.start > 0 {
                    self.wants_prevailing[place] = false;
                    range.start -= 1;
                }
            }
            if let (false, Ok(group)) = (range.is_empty(), u32::try_from(self.rows[place])) {
                windows.push(GroupRun { group, start: range.start, end: range.end });
            }
            place += 1;
        });
        if !windows.is_empty() {
            self.found.push((rows, windows));
        }
        Ok(())
    }
}

/// Windows in stretches that lie near each other.
fn together(windows: &[GroupRun]) -> Vec<&[GroupRun]> {
    let mut stretches = Vec::new();
    let mut rest = windows;
    while let Some(first) = rest.first() {
        let (mut start, mut end) = (first.start, first.end);
        let near = rest.iter().take_while(|run| {
            let is_near = run.start <= end + GAP_ROWS && run.end + GAP_ROWS >= start;
            if is_near {
                (start, end) = (start.min(run.start), end.max(run.end));
            }
            is_near
        });
        let (stretch, behind) = rest.split_at(near.count());
        stretches.push(stretch);
        rest = behind;
    }
    stretches
}

/// Windows in stretches of no more pairs of a window and a row of it than are worked on at once, or of one window.
fn by_pairs(runs: &[GroupRun]) -> Vec<&[GroupRun]> {
    let mut stretches = Vec::new();
    let mut rest = runs;
    while let Some(first) = rest.first() {
        let mut pairs = first.end - first.start;
        let more = rest[1..].iter().take_while(|run| {
            pairs = pairs.saturating_add(run.end - run.start);
            pairs <= PAIRS_MAX
        });
        let (stretch, behind) = rest.split_at(1 + more.count());
        stretches.push(stretch);
        rest = behind;
    }
    stretches
}

/// The state of one aggregate.
enum WindowSlot {
    Accumulator(Box<dyn Accumulator>),
    Picked(Picks),
}

/// The aggregates of a chunk's windows, a group for each left row.
struct WindowResults<'a> {
    join: &'a WindowJoin,
    right: &'a RightTable<'a>,
    constants: &'a [ArrayRef],
    reads: &'a Reads,
    held_bytes_max: usize,
    slots: Vec<WindowSlot>,
    /// Columns of the right that accumulators and filters look at.
    columns: BTreeSet<usize>,
    /// Parts that were picked from, by number.
    parts: Vec<PartRows>,
    looked_at: usize,
}

impl<'a> WindowResults<'a> {
    fn new(joiner: &WindowJoiner<'a>, groups: usize) -> Result<WindowResults<'a>> {
        let WindowJoiner { join, right, constants, reads, held_bytes_max, .. } = *joiner;
        let mut columns = BTreeSet::new();
        let mut slots = Vec::with_capacity(join.aggregates.len());
        for aggregate in &join.aggregates {
            let mut slot = match aggregate.function.picks() {
                // The rows of a window ascend in time.
                Some((last, _)) => WindowSlot::Picked(Picks::new(last, false)),
                None => {
                    let of_nothing = |argument: &Expr| -> Result<_> {
                        let values = evaluate_over(argument, right.width(), 0, constants, |column| right.none(column))?;
                        Ok(values.data_type().clone())
                    };
                    let types = aggregate.arguments.iter().map(of_nothing).collect::<Result<Vec<_>>>()?;
                    aggregate.arguments.iter().for_each(|argument| {
                        argument.visit_columns(&mut |column| _ = columns.insert(column));
                    });
                    WindowSlot::Accumulator(accumulator(aggregate, &types, 1)?)
                }
            };
            if let Some(filter) = &aggregate.filter {
                filter.visit_columns(&mut |column| _ = columns.insert(column));
            }
            match &mut slot {
                WindowSlot::Accumulator(accumulator) => accumulator.grow(groups),
                WindowSlot::Picked(picks) => picks.grow(groups),
            }
            slots.push(slot);
        }
        let (parts, looked_at) = (Vec::new(), 0);
        Ok(WindowResults { join, right, constants, reads, held_bytes_max, slots, columns, parts, looked_at })
    }

    /// Takes windows of a part in that lie near each other.
    fn add(&mut self, part: &PartRows, windows: &[GroupRun], stop: Stop<'_>) -> Result<()> {
        let (Some(start), Some(end)) =
            (windows.iter().map(|run| run.start).min(), windows.iter().map(|run| run.end).max())
        else {
            return Ok(());
        };
        let runs: Vec<GroupRun> =
            windows.iter().map(|run| GroupRun { start: run.start - start, end: run.end - start, ..*run }).collect();
        let chosen = self.read(&part.slice(start..end), end - start)?;
        let number = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        for (aggregate, slot) in self.join.aggregates.iter().zip(&mut self.slots) {
            let mask =
                aggregate.filter.as_ref().map(|filter| condition(filter, &chosen, self.constants)).transpose()?;
            let evaluate = |argument: &Expr| argument.evaluate(&chosen, self.constants)?.into_array(chosen.rows);
            let arguments = match slot {
                WindowSlot::Accumulator(_) => aggregate.arguments.iter().map(evaluate).collect::<Result<Vec<_>>>()?,
                WindowSlot::Picked(_) => Vec::new(),
            };
            for runs in by_pairs(&runs) {
                stop.check()?;
                let listed: Vec<(u32, u32)>;
                let assigned = match &mask {
                    None => RowGroups::Runs(runs),
                    Some(mask) => {
                        let pairs = runs.iter().flat_map(|run| (run.start..run.end).map(|row| (row, run.group)));
                        let passing = pairs.filter(|(row, _)| mask.value(*row));
                        listed = passing.filter_map(|(row, group)| Some((u32::try_from(row).ok()?, group))).collect();
                        RowGroups::Listed(&listed)
                    }
                };
                match slot {
                    WindowSlot::Accumulator(accumulator) => {
                        accumulator.update(&arguments, assigned)?;
                        let (needed, limit) = (accumulator.heap_bytes(), self.held_bytes_max);
                        if needed > limit {
                            return Err(Error::Memory { needed, limit });
                        }
                    }
                    WindowSlot::Picked(picks) => picks.update(assigned, Positions::From(position(number, start)), None),
                }
            }
        }
        self.looked_at += end - start;
        if self.slots.iter().any(|slot| matches!(slot, WindowSlot::Picked(_))) {
            self.parts.push(part.clone());
        }
        Ok(())
    }

    /// The columns of some rows that accumulators and filters look at.
    fn read(&self, rows: &PartRows, count: usize) -> Result<EvaluatedColumns> {
        // What is computed of them has as many rows.
        let arguments: usize = self.join.aggregates.iter().map(|aggregate| aggregate.arguments.len() + 1).sum();
        let needed = count.saturating_mul((self.columns.len() + arguments) * size_of::<u64>());
        let limit = self.held_bytes_max;
        if needed > limit {
            return Err(Error::Memory { needed, limit });
        }
        let mut columns = vec![None; self.right.width()];
        let mut row_bytes = 0;
        for column in &self.columns {
            columns[*column] = Some(Value::Array(self.right.column(rows, *column)?));
            row_bytes += self.right.column_bytes(*column);
        }
        self.reads.add_bytes(count as u64 * row_bytes);
        Ok(EvaluatedColumns { columns, rows: count })
    }

    /// A column for each aggregate.
    fn finish(self) -> Result<Vec<ArrayRef>> {
        let WindowResults { join, right, constants, slots, parts, .. } = self;
        let mut columns = Vec::with_capacity(slots.len());
        for (aggregate, slot) in join.aggregates.iter().zip(slots) {
            columns.push(match slot {
                WindowSlot::Accumulator(accumulator) => accumulator.finish()?,
                WindowSlot::Picked(picks) => picks.finish(&aggregate.data_type, |part, rows| {
                    let read = |column| right.column_at(&parts[part as usize], column, rows);
                    evaluate_over(&aggregate.arguments[0], right.width(), rows.rows().len(), constants, read)
                })?,
            });
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn windows_far_from_each_other_are_looked_at_apart() {
        let runs = |ranges: &[Range<usize>]| -> Vec<GroupRun> {
            let runs =
                ranges.iter().zip(0..).map(|(range, group)| GroupRun { group, start: range.start, end: range.end });
            runs.collect()
        };
        let near = runs(&[0..10, 500..600, 20..30, 9_000..9_010, 9_005..9_020, 0..5]);
        let counts: Vec<usize> = together(&near).iter().map(|stretch| stretch.len()).collect();
        assert_eq!(counts, [3, 2, 1]);
        assert!(together(&[]).is_empty());
        let wide = runs(&[0..PAIRS_MAX, 5..9, 0..PAIRS_MAX - 4, 0..1, 0..3 * PAIRS_MAX, 7..7]);
        let counts: Vec<usize> = by_pairs(&wide).iter().map(|stretch| stretch.len()).collect();
        assert_eq!(counts, [1, 2, 1, 1, 1]);
    }
}
