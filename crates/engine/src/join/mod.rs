//! As-of and window joins of rows in memory with a table, along the table's order; equality joins (`by_keys.rs`).
//!
//! - The symbol directory gives the rows of a symbol, and galloping over its times the row in effect: a left row
//!   costs the logarithm of its distance from the previous one, whatever the size of the table.
//! - The right side is neither sorted nor copied, unless segments overlap in time or a filter removes rows.
//! - Left rows may come in any order, and keep it.

mod by_keys;
mod chain;
mod dictionaries;
mod equal_times;
mod key_range;
mod keys;
mod windows;

pub use by_keys::KeyJoin;
pub(crate) use by_keys::join_by_keys;
pub use windows::WindowJoin;
pub(crate) use windows::window_join;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, StringArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet};
use splay_store::TableSnapshot;

use self::chain::{ChainSearch, RightKeys, RightTable, SymbolChain};
use self::equal_times::pairs_of;
use self::keys::KeyNumbers;
use crate::asof::MatchRule;
use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::expr::{EvaluatedColumns, Expr};
use crate::filter_mask::FilterMask;
use crate::frame::Frame;
use crate::gather::{Gather, NOTHING};
use crate::reads::column_bytes;
use crate::row_count::RowCount;
use crate::scan::{Scan, table};
use crate::table::{count, instants, times_of};
use crate::value::Value;

/// Left rows that are joined at once.
const CHUNK_ROWS: usize = 65_536;

/// Left rows from which on a second thread pays.
const PARALLEL_ROWS: usize = 16_384;

/// What is joined to each left row.
#[derive(Debug, Clone)]
pub struct AsofJoin {
    /// The right rows.
    pub scan: Scan,
    /// What is taken of a match, over the columns of the right table.
    pub outputs: Vec<Expr>,
    /// Types of the outputs.
    pub types: Vec<DataType>,
    /// The left time, a timestamp in nanoseconds. It is compared with the time of the right table.
    pub time: Expr,
    /// The value that the right's symbol must equal. Without it the right table has no symbols, or its scan selects
    /// one.
    pub symbol: Option<Expr>,
    /// Further left values, each with the position of the right column that must equal it.
    pub keys: Vec<(Expr, usize)>,
    /// Which right row matches.
    pub rule: MatchRule,
    /// Whether all right rows of the same time match instead of one, whatever the rule.
    pub all_of_time: bool,
    /// Whether left rows without a match are left out.
    pub inner: bool,
}

/// Left rows in their order, with the outputs of their matches behind their columns.
pub(crate) fn join(input: Vec<Frame>, join: &AsofJoin, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let (snapshot, right) = right_of(&join.scan, context)?;
    let rows: usize = input.iter().map(Frame::len).sum();
    check_memory(rows, join, context.memory_bytes / 2)?;
    let pairs = pairs_of(join, context.memory_bytes / 2);
    let joiner = || AsofJoiner {
        join,
        right: &right,
        constants: context.constants,
        chains: HashMap::new(),
        numbers: KeyNumbers::new(&join.keys),
        pairs: &pairs,
    };
    let joined = in_chunks(&input, (CHUNK_ROWS, PARALLEL_ROWS), context, joiner, AsofJoiner::chunk)?;
    let mut stats = count(snapshot, &[])?;
    stats.rows.selected = joined.iter().map(|(_, found)| *found as u64).sum();
    // All columns of the matches on the right are read, and a time for each left row.
    let mut columns = HashSet::new();
    join.outputs.iter().for_each(|output| output.visit_columns(&mut |column| _ = columns.insert(column)));
    let row_bytes: u64 = columns.iter().map(|column| column_bytes(snapshot, *column)).sum();
    let time_bytes = column_bytes(snapshot, snapshot.spec().time_position());
    context.reads.add_bytes(stats.rows.selected * row_bytes + rows as u64 * time_bytes);
    context.reads.add_scan(stats);
    Ok(joined.into_iter().map(|(frame, _)| frame).collect())
}

/// The right table of a join.
fn right_of<'a>(scan: &'a Scan, context: &ExecutionContext<'a>) -> Result<(&'a TableSnapshot, RightTable<'a>)> {
    let snapshot = table(scan, context)?;
    Ok((snapshot, RightTable::new(snapshot, scan, context.constants, context.memory_bytes / 2)?))
}

/// Chunks of left rows, each joined by a joiner of its thread. With them comes what that counted. `sizes` are the most rows of a
/// chunk, and the rows from which on a second thread pays.
fn in_chunks<J>(
    input: &[Frame],
    sizes: (usize, usize),
    context: &ExecutionContext<'_>,
    joiner: impl Fn() -> J + Sync,
    join: impl Fn(&mut J, &Frame) -> Result<(Frame, usize)> + Sync,
) -> Result<Vec<(Frame, usize)>> {
    let rows: usize = input.iter().map(Frame::len).sum();
    let (chunk_rows, parallel_rows) = sizes;
    let parallel = context.threads > 1 && rows >= parallel_rows;
    let chunk_rows = if parallel { chunk_rows.min(rows.div_ceil(context.threads)) } else { chunk_rows };
    let chunks: Vec<Frame> = input
        .iter()
        .flat_map(|frame| {
            // A frame without rows still says of what types they are.
            let starts = (0..frame.len().max(1)).step_by(chunk_rows.max(1));
            starts.map(|start| frame.slice(start, chunk_rows)).collect::<Vec<_>>()
        })
        .collect();
    let stop = context.stop;
    stop.expect_rows(rows as u64);
    let joined = |joiner: &mut J, chunk: &Frame| {
        stop.check()?;
        join(joiner, chunk).inspect(|_| stop.add_rows(chunk.len()))
    };
    let run = |chunks: &[Frame]| -> Result<Vec<(Frame, usize)>> {
        let mut joiner = joiner();
        chunks.iter().map(|chunk| joined(&mut joiner, chunk)).collect()
    };
    // Neighbouring chunks often share a symbol.
    let parts: Vec<&[Frame]> = match parallel {
        true => chunks.chunks(chunks.len().div_ceil(4 * context.threads)).collect(),
        false => vec![&chunks],
    };
    let joined = crate::parallel::each(parts.len(), context.threads, |part| run(parts[part]))?;
    Ok(joined.into_iter().flatten().collect())
}

/// Pairs of the places of left rows, which ascend, and what each is joined with; of rows that are joined with nothing there is one with `none`.
fn with_unmatched<T: Copy>(places: &[u32], joined: &[T], rows: usize, none: T) -> (Vec<u32>, Vec<T>) {
    let most = places.len().saturating_add(rows);
    let (mut all_places, mut all_joined) = (Vec::with_capacity(most), Vec::with_capacity(most));
    let mut next = 0;
    for row in (0u32..).take(rows) {
        let own = places[next..].iter().take_while(|place| **place == row).count();
        all_joined.extend_from_slice(&joined[next..next + own]);
        if own == 0 {
            all_joined.push(none);
        }
        all_places.resize(all_joined.len(), row);
        next += own;
    }
    (all_places, all_joined)
}

/// An expression over some rows, of whose columns `read` gives those that it looks at.
fn evaluate_over(
    expr: &Expr,
    width: usize,
    rows: usize,
    constants: &[ArrayRef],
    mut read: impl FnMut(usize) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let mut columns = vec![None; width];
    let mut failed = None;
    expr.visit_columns(&mut |column| match read(column) {
        Ok(values) => columns[column] = Some(Value::Array(values)),
        Err(error) => failed = Some(error),
    });
    match failed {
        Some(error) => Err(error),
        None => expr.evaluate(&EvaluatedColumns { columns, rows }, constants)?.into_array(rows),
    }
}

fn check_memory(rows: usize, join: &AsofJoin, limit: usize) -> Result<()> {
    let needed = rows.saturating_mul(row_bytes(join));
    if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
}

/// Bytes of what is taken of a match, and of where it stands.
fn row_bytes(join: &AsofJoin) -> usize {
    let width: usize = join.types.iter().map(|data_type| data_type.primitive_width().unwrap_or(16)).sum();
    width + size_of::<u64>()
}

/// Joins chunks of left rows one after the other.
struct AsofJoiner<'a> {
    join: &'a AsofJoin,
    right: &'a RightTable<'a>,
    constants: &'a [ArrayRef],
    /// The right rows of each symbol that came by.
    chains: HashMap<String, SymbolChain>,
    /// Numbers of the further keys of the rows that came by.
    numbers: KeyNumbers,
    /// Pairs of rows of equal times, of all joiners together.
    pairs: &'a RowCount,
}

impl AsofJoiner<'_> {
    /// The joined rows, and how many have a match.
    fn chunk(&mut self, left: &Frame) -> Result<(Frame, usize)> {
        if self.join.all_of_time {
            let (rows, positions) = self.pairs_of(left)?;
            return self.with_outputs(left.take(&rows.into())?, &Gather::new(&positions));
        }
        let positions = self.positions(left)?;
        let (joined, gather) = if self.join.inner && positions.contains(&NOTHING) {
            let found: Vec<u64> = positions.iter().copied().filter(|position| *position != NOTHING).collect();
            let mask: BooleanArray = positions.iter().map(|position| Some(*position != NOTHING)).collect();
            (left.filter_mask(FilterMask::new(mask))?, Gather::new(&found))
        } else {
            (left.clone(), Gather::new(&positions))
        };
        self.with_outputs(joined, &gather)
    }

    /// Left rows with what is taken of their matches.
    fn with_outputs(&self, mut joined: Frame, gather: &Gather) -> Result<(Frame, usize)> {
        let rows = joined.len();
        for (output, data_type) in self.join.outputs.iter().zip(&self.join.types) {
            joined.push(match output {
                Expr::Column(column) => {
                    gather.stored(data_type, |source, rows| self.right.take(source, *column, rows))?
                }
                // What nobody looks at.
                Expr::Constant(_) if *data_type == DataType::Null => new_null_array(data_type, rows),
                computed => gather.computed(data_type, |source, rows| {
                    let read = |column| self.right.take(source, column, rows);
                    evaluate_over(computed, self.right.width(), rows.rows().len(), self.constants, read)
                })?,
            });
        }
        Ok((joined, gather.matched_rows()))
    }

    /// For each left row where its match stands.
    fn positions(&mut self, left: &Frame) -> Result<Vec<u64>> {
        let evaluate = |expr: &Expr| expr.evaluate(left, self.constants)?.into_array(left.len());
        let times = evaluate(&self.join.time)?;
        let times = instants(&times)?;
        let timed = times.nulls();
        let times = times_of(&times)?;
        let keys = self.numbers.of_left(left, self.constants)?;
        let symbols = LeftSymbols::of(self.join.symbol.as_ref(), left, self.constants)?;
        let runs = runs_of(symbols.as_ref(), left.len(), self.right)?;
        let mut positions = vec![NOTHING; left.len()];
        for (run, symbol) in runs {
            let chain = chain_of(&mut self.chains, self.right, symbol)?;
            let keyed = RightKeys { right: self.right, keys: &keys, numbers: &mut self.numbers };
            let mut searched = ChainSearch { rule: self.join.rule, keyed };
            let found = &mut positions[run.clone()];
            if timed.is_none() && chain.find_all(&mut searched, &times[run.clone()], |row, place| found[row] = place)? {
                continue;
            }
            for row in run {
                if timed.is_none_or(|nulls| nulls.is_valid(row))
                    && let Some(found) = chain.find(&mut searched, times[row], row)?
                {
                    positions[row] = found;
                }
            }
        }
        Ok(positions)
    }
}

/// The right rows of a symbol, from those that came by.
fn chain_of<'c>(
    chains: &'c mut HashMap<String, SymbolChain>,
    right: &RightTable<'_>,
    symbol: Option<&str>,
) -> Result<&'c mut SymbolChain> {
    // A table has symbols or it hasn't, so that the empty one stands for none.
    match chains.entry_ref(symbol.unwrap_or_default()) {
        EntryRef::Occupied(occupied) => Ok(occupied.into_mut()),
        EntryRef::Vacant(new) => Ok(new.insert(right.chain(symbol)?)),
    }
}

/// The left's symbols.
struct LeftSymbols {
    array: DictionaryArray<Int32Type>,
    values: StringArray,
    nulls: Option<NullBuffer>,
}

/// Stretches of left rows of one symbol. Without a symbol column all rows have the symbol to which the right side is restricted.
fn runs_of<'s>(
    symbols: Option<&'s LeftSymbols>,
    rows: usize,
    right: &'s RightTable<'_>,
) -> Result<Vec<(Range<usize>, Option<&'s str>)>> {
    match symbols {
        Some(symbols) => Ok(symbols.runs()),
        None => Ok(vec![(0..rows, right.only_symbol()?)]),
    }
}

impl LeftSymbols {
    fn of(symbol: Option<&Expr>, left: &Frame, constants: &[ArrayRef]) -> Result<Option<LeftSymbols>> {
        let Some(symbol) = symbol else { return Ok(None) };
        LeftSymbols::new(&symbol.evaluate(left, constants)?.into_array(left.len())?).map(Some)
    }

    fn new(array: &ArrayRef) -> Result<LeftSymbols> {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let array = if *array.data_type() == text { Arc::clone(array) } else { cast(array, &text)? };
        let array = array.as_dictionary::<Int32Type>().clone();
        let (values, nulls) = (array.values().as_string::<i32>().clone(), array.logical_nulls());
        Ok(LeftSymbols { array, values, nulls })
    }

    /// Stretches of rows with one symbol; rows without a symbol are in none.
    fn runs(&self) -> Vec<(Range<usize>, Option<&str>)> {
        let codes = self.array.keys().values();
        match &self.nulls {
            None => self.runs_of(codes, 0).collect(),
            Some(nulls) => {
                nulls.valid_slices().flat_map(|(start, end)| self.runs_of(&codes[start..end], start)).collect()
            }
        }
    }

    /// Stretches of equal codes; the first code is that of row `start`.
    fn runs_of<'s>(&'s self, codes: &'s [i32], start: usize) -> impl Iterator<Item = (Range<usize>, Option<&'s str>)> {
        let runs = codes.chunk_by(|one, next| one == next).scan(start, |next, run| {
            let rows = *next..*next + run.len();
            *next = rows.end;
            Some((rows, run[0]))
        });
        runs.filter_map(|(rows, code)| Some((rows, Some(self.values.value(usize::try_from(code).ok()?)))))
    }
}
