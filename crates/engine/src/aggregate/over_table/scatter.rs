//! Groups of very many values, in two passes: rows are dealt out to parts by a hash of their keys, and each part is grouped by itself.
//!
//! A table of a million groups misses the cache several times a row, and what threads have found in it has to be put together. The groups of one
//! part fit into a cache, and no two threads meet in it. Rows go through memory once more, in blocks whose columns are put in the order of the
//! parts; of so many rows at a time as the statement's memory allows. At the end the groups of all parts are put in the order of their first rows.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::DefaultHashBuilder;

use super::blocks::starts_of;
use super::columns::BlockColumns;
use super::scattered::{DealtBlock, PartState, put_together};
use super::{State, TableAggregate, same_arguments, same_filters};
use crate::aggregate::Key;
use crate::aggregate::groups::words_of;
use crate::codes::Conditions;
use crate::error::{Error, Result};
use crate::expr::{Columns, Expr};
use crate::hashed::hash;
use crate::kept::Kept;
use crate::parallel;
use crate::reads::Reads;
use crate::table::{Ahead, Block, Cover, CoverColumns, deal, times_of};

/// Groups of a thread from which on they may be dealt out to parts.
pub(super) const GROUPS_MIN: usize = 1 << 16;

/// Rows of a group, on average, below which that pays.
pub(super) const ROWS_OF_GROUP_MAX: usize = 8;

/// Parts, as many as a byte's quarter tells apart.
pub(super) const PARTS: usize = 64;

/// Rows that are dealt out at once.
const BLOCK_ROWS: usize = 1 << 14;

/// The part of a statement's memory that rows may take which are dealt out and not yet grouped.
const DEALT_OF_MEMORY: usize = 8;

/// Fewest rows that are dealt out before they are grouped.
const ROUND_ROWS_MIN: usize = 1 << 16;

/// Texts of a dictionary up to which each part knows them all.
const DICTIONARY_MAX: usize = 1 << 12;

/// Whether what is asked can be computed part by part.
pub(super) fn takes(asked: &TableAggregate<'_>) -> bool {
    let picks_cells = asked.aggregates.iter().any(|one| one.pivot.is_some() && one.function.picks().is_some());
    asked.keys.iter().any(|key| matches!(key, Key::Value(_))) && !picks_cells
}

/// How blocks are dealt out.
pub(super) struct Dealing<'a> {
    pub asked: &'a TableAggregate<'a>,
    /// For each argument of each aggregate the number of the first one with the same values.
    pub same: Vec<Vec<usize>>,
    /// For each aggregate the number of the first filter that holds for the same rows.
    pub same_filters: Vec<usize>,
    hasher: DefaultHashBuilder,
    seed: u64,
    /// Whether first and last ask where rows stand, and when they were.
    needs_positions: bool,
    needs_times: bool,
}

/// Keys and results, a row for each group.
pub(super) fn scattered(asked: &TableAggregate<'_>, covers: Vec<Cover>) -> Result<Vec<ArrayRef>> {
    let hasher = DefaultHashBuilder::default();
    let picks = || asked.aggregates.iter().filter_map(|aggregate| aggregate.function.picks());
    let dealing = Dealing {
        asked,
        same: same_arguments(asked),
        same_filters: same_filters(asked),
        seed: hasher.hash_one(asked.keys.len()),
        hasher,
        needs_positions: picks().next().is_some(),
        needs_times: picks().any(|(_, by_time)| by_time),
    };
    let rows: usize = covers.iter().map(Cover::wanted).sum();
    let round_rows = (asked.memory_bytes / DEALT_OF_MEMORY / dealing.row_bytes()).max(ROUND_ROWS_MIN);
    let threads = asked.threads.max(1);
    let tasks = deal(covers, rows.div_ceil(threads).min(round_rows.div_ceil(threads)).max(1));
    let columns = State::new(asked)?.columns();
    let mut parts = (0..PARTS).map(|_| PartState::new(asked)).collect::<Result<Vec<_>>>()?;
    let (mut first_row, mut first_cover) = (0, 0);
    for round in tasks.chunks(threads) {
        let mut begins = Vec::with_capacity(round.len());
        for covers in round {
            begins.push((first_row, first_cover));
            first_row += covers.iter().map(Cover::wanted).sum::<usize>() as u64;
            first_cover += covers.len();
        }
        let dealt = parallel::each(round.len(), threads, |task| dealing.task(&round[task], begins[task], &columns))?;
        let dealt: Vec<DealtBlock> = dealt.into_iter().flatten().collect();
        parts = parallel::each_of(parts.into_iter().enumerate(), threads, |(number, mut part)| {
            for block in &dealt {
                asked.stop.check()?;
                part.take(&dealing, block, number)?;
            }
            Ok(part)
        })?;
        let needed = parts.iter().map(PartState::bytes).sum();
        let limit = asked.memory_bytes / 2;
        if needed > limit {
            return Err(Error::Memory { needed, limit });
        }
    }
    let covers: Vec<&Cover> = tasks.iter().flatten().collect();
    put_together(asked, parts, &covers, rows)
}

impl Dealing<'_> {
    /// Bytes that a row takes between the passes, more or less.
    fn row_bytes(&self) -> usize {
        let arguments: usize = self.same.iter().map(Vec::len).sum();
        8 * (self.asked.keys.len() + 1) + 16 * arguments + 40
    }

    /// Deals out the rows of some covers, of which the first row and the first cover have these numbers.
    fn task(
        &self,
        covers: &[Cover],
        (mut first_row, first_cover): (u64, usize),
        columns: &[(usize, crate::table::Part)],
    ) -> Result<Vec<DealtBlock>> {
        let (snapshot, uncounted) = (self.asked.snapshot, Reads::default());
        let mut ahead = Ahead::new(snapshot, covers, columns.to_vec(), &uncounted);
        let (mut conditions, mut dealt) = (Conditions::default(), Vec::new());
        for (number, cover) in covers.iter().enumerate() {
            ahead.before(number)?;
            let columns = CoverColumns::new(snapshot, cover);
            for block in cover.blocks_with_gaps(BLOCK_ROWS) {
                self.asked.stop.check()?;
                let number = u32::try_from(first_cover + number).unwrap_or(u32::MAX);
                dealt.extend(self.block(&columns, number, &block, first_row, &mut conditions)?);
                first_row += block.wanted() as u64;
                self.asked.stop.add_rows(block.wanted());
            }
        }
        Ok(dealt)
    }

    /// The rows of a block in the order of their parts; `None` if none passes the filter.
    fn block<'s>(
        &'s self,
        columns: &CoverColumns<'_>,
        number: u32,
        block: &Block,
        first_row: u64,
        conditions: &mut Conditions<'s>,
    ) -> Result<Option<DealtBlock>> {
        let (asked, constants) = (self.asked, self.asked.constants);
        let mut chunk = BlockColumns::new(columns, block);
        let mut rows_of_block: Option<Vec<u32>> = None;
        if let Some(predicate) = asked.predicate {
            let mask = conditions.hold(predicate, &chunk, constants)?;
            let kept = Kept::new(mask);
            if kept.rows() == 0 {
                return Ok(None);
            }
            if kept.rows() < chunk.wanted() {
                let rows = kept.mask().values().set_indices();
                rows_of_block = Some(rows.map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect());
                chunk.kept = Some(kept);
            }
        }
        let rows = chunk.rows();
        let (mut words, stride) = (vec![0; rows * (asked.keys.len() + 1)], asked.keys.len() + 1);
        let mut texts = Vec::new();
        for key in 0..asked.keys.len() {
            texts.extend(self.key(key, &chunk, &mut words)?.map(|array| (key, array)));
        }
        let parts: Vec<u8> =
            words.chunks_exact(stride).map(|words| (hash(self.seed, words) >> 58).to_le_bytes()[0]).collect();
        let (starts, order) = by_part(&parts);
        let order = UInt32Array::from(order);
        let in_order = |array: &ArrayRef| Ok::<ArrayRef, Error>(take(array, &order, None)?);
        let mut ordered = Vec::with_capacity(words.len());
        for row in order.values() {
            let start = *row as usize * stride;
            ordered.extend_from_slice(&words[start..start + stride]);
        }
        // What stood for a text only told its part.
        for (key, _) in &texts {
            ordered.chunks_exact_mut(stride).for_each(|words| words[*key] = 0);
        }
        let texts = texts.into_iter().map(|(key, array)| Ok((key, in_order(&array)?))).collect::<Result<Vec<_>>>()?;
        let mut arguments: Vec<Option<ArrayRef>> = vec![None; self.same.iter().map(Vec::len).sum()];
        let mut masks: Vec<Option<BooleanArray>> = vec![None; self.same_filters.len()];
        for ((aggregate, same), filter) in asked.aggregates.iter().zip(&self.same).zip(&self.same_filters) {
            if aggregate.function.picks().is_none() {
                for (argument, number) in aggregate.arguments.iter().zip(same) {
                    if arguments[*number].is_none() {
                        let values = argument.evaluate(&chunk, constants)?.into_array(rows)?;
                        arguments[*number] = Some(in_order(&values)?);
                    }
                }
            }
            if let (Some(condition), None) = (&aggregate.filter, &masks[*filter]) {
                let mask: ArrayRef = Arc::new(conditions.hold(condition, &chunk, constants)?);
                masks[*filter] = Some(in_order(&mask)?.as_boolean().clone());
            }
        }
        let row_of = |row: &u32| rows_of_block.as_ref().map_or(*row, |rows| rows[*row as usize]);
        let sequence: Vec<u64> = order.values().iter().map(|row| first_row + u64::from(row_of(row))).collect();
        let first = chunk.first_position(number);
        let positions = match self.needs_positions.then(|| chunk.positions(number)) {
            None => Vec::new(),
            Some(Some(positions)) => order.values().iter().map(|row| positions[*row as usize]).collect(),
            Some(None) => order.values().iter().map(|row| first + u64::from(*row)).collect(),
        };
        let times = match self.needs_times {
            true => {
                let times = chunk.column(asked.snapshot.spec().time_position())?.into_array(rows)?;
                let times = times_of(&times)?;
                order.values().iter().map(|row| times[*row as usize]).collect()
            }
            false => Vec::new(),
        };
        Ok(Some(DealtBlock { starts, words: ordered, texts, arguments, masks, sequence, positions, times }))
    }

    /// Writes the words of a key, or of a text its hash; then the texts.
    fn key(&self, key: usize, chunk: &BlockColumns<'_>, words: &mut [u64]) -> Result<Option<ArrayRef>> {
        let (spec, stride) = (self.asked.snapshot.spec(), self.asked.keys.len() + 1);
        let rows = words.chunks_exact_mut(stride);
        let array = match &self.asked.keys[key] {
            Key::Date => {
                let date = chunk.columns.cover().date as u64;
                rows.for_each(|words| words[key] = date);
                return Ok(None);
            }
            Key::Bucket(buckets) => {
                let times = chunk.column(spec.time_position())?.into_array(chunk.rows())?;
                let starts = starts_of(buckets.as_ref(), times_of(&times)?)?;
                rows.zip(starts.values()).for_each(|(words, start)| words[key] = start.cast_unsigned());
                return Ok(None);
            }
            Key::Symbol => {
                let symbol = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol));
                let symbol = symbol.ok_or_else(|| Error::Unsupported("a table without symbols".to_owned()))?;
                chunk.column(symbol)?.into_array(chunk.rows())?
            }
            Key::Value(expr) => self.values(expr, chunk)?,
        };
        let array = match array.data_type() {
            DataType::Dictionary(_, of) => {
                let is_small = array.as_dictionary_opt::<Int32Type>().is_some_and(|coded| {
                    *coded.values().data_type() == DataType::Utf8 && coded.values().len() <= DICTIONARY_MAX
                });
                if is_small { array } else { cast(&array, of)? }
            }
            _ => array,
        };
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = &nulls {
            for (row, words) in words.chunks_exact_mut(stride).enumerate() {
                words[stride - 1] |= u64::from(nulls.is_null(row)) << key;
            }
        }
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let rows = words.chunks_exact_mut(stride).enumerate().filter(|(row, _)| is_valid(*row));
        let of_text = |text: &str| self.hasher.hash_one(text);
        if let Some(coded) = array.as_dictionary_opt::<Int32Type>() {
            let of_codes: Vec<u64> =
                coded.values().as_string::<i32>().iter().map(|text| text.map_or(0, of_text)).collect();
            let codes = coded.keys().values();
            rows.for_each(|(row, words)| words[key] = usize::try_from(codes[row]).map_or(0, |code| of_codes[code]));
            return Ok(Some(array));
        }
        if let Some(values) = array.as_string_opt::<i32>() {
            rows.for_each(|(row, words)| words[key] = of_text(values.value(row)));
            return Ok(Some(array));
        }
        let own = words_of(&array)?;
        rows.for_each(|(row, words)| words[key] = own[row]);
        Ok(None)
    }

    fn values(&self, expr: &Expr, chunk: &BlockColumns<'_>) -> Result<ArrayRef> {
        match expr.evaluate_coded(chunk, self.asked.constants)? {
            Some(coded) => Ok(coded),
            None => expr.evaluate(chunk, self.asked.constants)?.into_array(chunk.rows()),
        }
    }
}

/// Where the rows of each part begin, and the rows in the order of their parts, those of a part as they came.
fn by_part(parts: &[u8]) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; PARTS + 1];
    parts.iter().for_each(|part| starts[usize::from(*part) + 1] += 1);
    for part in 0..PARTS {
        starts[part + 1] += starts[part];
    }
    let (mut next, mut order) = (starts.clone(), vec![0; parts.len()]);
    for (row, part) in (0u32..).zip(parts) {
        let place = &mut next[usize::from(*part)];
        order[*place as usize] = row;
        *place += 1;
    }
    (starts, order)
}

/// Columns of several parts as one, in an order.
pub(super) fn in_order(columns: &[ArrayRef], order: &UInt32Array) -> Result<ArrayRef> {
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    Ok(take(&concat(&columns)?, order, None)?)
}
