//! As-of joins of rows in memory with a table, along the table's order.
//!
//! - The rows of a symbol are found by the directory, the row that stood by galloping over its times: what a left row costs
//!   is the logarithm of its distance from the one before it, whatever the size of the table.
//! - Nothing of the right is sorted or copied, unless segments overlap in time or a filter leaves rows out.
//! - Left rows may come in any order, and keep it.

mod chain;
mod keys;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, StringArray, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::HashMap;

use self::chain::{Chain, Right, Searched};
use self::keys::LeftKey;
use crate::asof::MatchRule;
use crate::error::{Error, Result};
use crate::expr::{Chosen, Expr, Value};
use crate::frame::Frame;
use crate::gather::{Gather, NOTHING};
use crate::plan::Scan;
use crate::run::Setting;
use crate::table::{count, instants, times_of};

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
    /// What must equal the right's symbol. Without it the right must have no symbols, or be asked for one of them.
    pub symbol: Option<Expr>,
    /// Further left values, each with the position of the right column that must equal it.
    pub keys: Vec<(Expr, usize)>,
    /// Which right row matches.
    pub rule: MatchRule,
    /// Whether left rows without a match are left out.
    pub inner: bool,
}

/// Left rows in their order, with the outputs of their matches behind their columns.
pub(crate) fn join(input: Vec<Frame>, join: &AsofJoin, setting: &Setting<'_>) -> Result<Vec<Frame>> {
    let snapshot = setting.tables.get(join.scan.table);
    let snapshot = snapshot.ok_or_else(|| Error::Unsupported("a table that isn't there".to_owned()))?;
    let right = Right::new(snapshot, &join.scan, setting.constants, setting.memory_bytes / 2)?;
    let rows: usize = input.iter().map(Frame::len).sum();
    check_memory(rows, join, setting.memory_bytes / 2)?;
    let parallel = setting.threads > 1 && rows >= PARALLEL_ROWS;
    let chunk_rows = if parallel { CHUNK_ROWS.min(rows.div_ceil(setting.threads)) } else { CHUNK_ROWS };
    let chunks: Vec<Frame> = input
        .iter()
        .flat_map(|frame| {
            // A frame without rows still says of what types they are.
            let starts = (0..frame.len().max(1)).step_by(chunk_rows.max(1));
            starts.map(|start| frame.slice(start, chunk_rows)).collect::<Vec<_>>()
        })
        .collect();
    let (constants, stop) = (setting.constants, setting.stop);
    let run = |chunks: &[Frame]| -> Result<Vec<(Frame, usize)>> {
        let mut joiner = Joiner { join, right: &right, constants, chains: HashMap::new() };
        let chunk = |chunk| stop.check().and_then(|()| joiner.chunk(chunk));
        chunks.iter().map(chunk).collect()
    };
    // Neighbouring chunks often share a symbol.
    let parts: Vec<&[Frame]> = match parallel {
        true => chunks.chunks(chunks.len().div_ceil(4 * setting.threads)).collect(),
        false => vec![&chunks],
    };
    let joined = crate::parallel::each(parts.len(), setting.threads, |part| run(parts[part]))?;
    let joined: Vec<(Frame, usize)> = joined.into_iter().flatten().collect();
    let mut stats = count(snapshot, &[])?;
    stats.rows.kept = joined.iter().map(|(_, found)| *found as u64).sum();
    setting.scanned.borrow_mut().push(stats);
    Ok(joined.into_iter().map(|(frame, _)| frame).collect())
}

fn check_memory(rows: usize, join: &AsofJoin, limit: usize) -> Result<()> {
    let width: usize = join.types.iter().map(|data_type| data_type.primitive_width().unwrap_or(16)).sum();
    let needed = rows.saturating_mul(width + size_of::<u64>());
    if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
}

/// Joins chunks of left rows one after the other.
struct Joiner<'a> {
    join: &'a AsofJoin,
    right: &'a Right<'a>,
    constants: &'a [ArrayRef],
    /// The right rows of each symbol that came by.
    chains: HashMap<String, Chain>,
}

impl Joiner<'_> {
    /// The joined rows, and how many have a match.
    fn chunk(&mut self, left: &Frame) -> Result<(Frame, usize)> {
        let positions = self.positions(left)?;
        let (mut columns, gather, rows) = if self.join.inner && positions.contains(&NOTHING) {
            let found: Vec<u64> = positions.iter().copied().filter(|position| *position != NOTHING).collect();
            let mask: BooleanArray = positions.iter().map(|position| Some(*position != NOTHING)).collect();
            let columns = left.columns().iter().map(|column| filter(column, &mask)).collect::<Result<Vec<_>, _>>()?;
            (columns, Gather::new(&found), found.len())
        } else {
            (left.columns().to_vec(), Gather::new(&positions), positions.len())
        };
        for (output, data_type) in self.join.outputs.iter().zip(&self.join.types) {
            columns.push(match output {
                Expr::Column(column) => {
                    gather.stored(data_type, |source, rows| self.right.take(source, *column, rows))?
                }
                // What nobody looks at.
                Expr::Constant(_) if *data_type == DataType::Null => new_null_array(data_type, rows),
                Expr::Constant(_) => gather.computed(data_type, |_, rows| self.evaluate(output, Vec::new(), rows))?,
                computed => {
                    let read = |source: u32, rows: &UInt32Array| {
                        let mut columns = vec![None; self.right.width()];
                        let mut failed = None;
                        computed.visit_columns(&mut |column| match self.right.take(source, column, rows) {
                            Ok(values) => columns[column] = Some(Value::Array(values)),
                            Err(error) => failed = Some(error),
                        });
                        match failed {
                            Some(error) => Err(error),
                            None => self.evaluate(computed, columns, rows),
                        }
                    };
                    gather.computed(data_type, read)?
                }
            });
        }
        Ok((Frame::new(columns, rows), gather.found()))
    }

    fn evaluate(&self, output: &Expr, columns: Vec<Option<Value>>, rows: &UInt32Array) -> Result<ArrayRef> {
        output.evaluate(&Chosen { columns, rows: rows.len() }, self.constants)?.into_array(rows.len())
    }

    /// For each left row where its match stands.
    fn positions(&mut self, left: &Frame) -> Result<Vec<u64>> {
        let evaluate = |expr: &Expr| expr.evaluate(left, self.constants)?.into_array(left.len());
        let times = evaluate(&self.join.time)?;
        let times = instants(&times)?;
        let timed = times.nulls();
        let times = times_of(&times)?;
        let mut keys = Vec::with_capacity(self.join.keys.len());
        for (key, column) in &self.join.keys {
            keys.push(LeftKey::new(&evaluate(key)?, *column)?);
        }
        let symbols =
            self.join.symbol.as_ref().map(evaluate).transpose()?.map(|array| Symbols::new(&array)).transpose()?;
        let runs = match &symbols {
            Some(symbols) => symbols.runs(),
            None => vec![(0..left.len(), self.right.only_symbol()?)],
        };
        let mut positions = vec![NOTHING; left.len()];
        for (run, symbol) in runs {
            // A table has symbols or it hasn't, so that the empty one stands for none.
            let name = symbol.unwrap_or_default();
            let chain = match self.chains.get_mut(name) {
                Some(chain) => chain,
                None => self.chains.entry(name.to_owned()).or_insert(self.right.chain(symbol)?),
            };
            let mut searched = Searched { right: self.right, rule: self.join.rule, keys: &mut keys };
            let found = &mut positions[run.clone()];
            if timed.is_none() && chain.find_all(&searched, &times[run.clone()], |row, place| found[row] = place)? {
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

/// The left's symbols.
struct Symbols {
    array: DictionaryArray<Int32Type>,
    values: StringArray,
    nulls: Option<NullBuffer>,
}

impl Symbols {
    fn new(array: &ArrayRef) -> Result<Symbols> {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let array = if *array.data_type() == text { Arc::clone(array) } else { cast(array, &text)? };
        let array = array.as_dictionary::<Int32Type>().clone();
        let (values, nulls) = (array.values().as_string::<i32>().clone(), array.logical_nulls());
        Ok(Symbols { array, values, nulls })
    }

    /// Stretches of rows with one symbol; rows without a symbol are in none.
    fn runs(&self) -> Vec<(Range<usize>, Option<&str>)> {
        let codes = self.array.keys().values();
        let mut runs = Vec::new();
        let mut start = 0;
        while start < codes.len() {
            let code = codes[start];
            let is_null = |row: usize| self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let nothing = is_null(start);
            let mut end = start + 1;
            while end < codes.len() && is_null(end) == nothing && (nothing || codes[end] == code) {
                end += 1;
            }
            if !nothing && let Ok(code) = usize::try_from(code) {
                runs.push((start..end, Some(self.values.value(code))));
            }
            start = end;
        }
        runs
    }
}
