//! Two-pass grouping for very many groups: the first pass partitions rows by a hash of their keys, the second groups
//! each part.
//!
//! A hash table of a million groups misses the cache several times per row, and merging the tables of several threads
//! misses it again. The groups of one part fit into the cache, and no group is in two parts. Cost: rows are written
//! to memory once more, in blocks whose columns are reordered by part, as many rows at a time as the statement's
//! memory allows. At the end the groups of all parts are sorted by their first rows.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::DefaultHashBuilder;
use splay_store::canonical;

use super::blocks::starts_of;
use super::columns::BlockColumns;
use super::key_layout::{KeyLayout, bits_of};
use super::scattered_rows::{PartState, PartitionedBlock, put_together};
use super::{EmptyColumns, TableAggregate, TableGroups, same_arguments, same_filters};
use crate::aggregate::Key;
use crate::error::{Error, Result};
use crate::expr::InputColumns;
use crate::expr::codes::BlockConditions;
use crate::filter_mask::FilterMask;
use crate::hashed::{half, mixed};
use crate::key_words::words_of;
use crate::parallel;
use crate::reads::Reads;
use crate::table::{Cover, CoverColumns, Prefetch, RowBlock, deal, times_of};

/// Groups of a thread from which on they may be dealt out to parts.
pub(super) const GROUPS_MIN: usize = 1 << 16;

/// Rows of a group, on average, below which that pays.
pub(super) const ROWS_OF_GROUP_MAX: usize = 8;

/// Parts, as many as a byte's quarter tells apart.
pub(super) const PARTS: usize = 64;

/// Rows that are dealt out at once: as many as have words of so many bytes, which stay in the cache, but no more and no fewer than pays.
const BLOCK_BYTES: usize = 1 << 19;
const BLOCK_ROWS: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 14;

/// The part of a statement's memory that rows may take which are dealt out and not yet grouped.
const DEALT_OF_MEMORY: usize = 8;

/// Fewest rows that are dealt out before they are grouped.
const ROUND_ROWS_MIN: usize = 1 << 16;

/// Texts of a dictionary up to which each part knows them all.
const DICTIONARY_MAX: usize = 1 << 12;

/// Whether an aggregation can be computed part by part.
pub(super) fn takes(aggregation: &TableAggregate<'_>) -> bool {
    let picks_cells = aggregation.aggregates.iter().any(|one| one.pivot.is_some() && one.function.picks().is_some());
    aggregation.keys.iter().any(|key| matches!(key, Key::Value(_))) && !picks_cells
}

/// How blocks are dealt out.
pub(super) struct ScatterPlan<'a> {
    pub aggregation: &'a TableAggregate<'a>,
    /// For each argument of each aggregate, the number of the first argument with the same values.
    pub same: Vec<Vec<usize>>,
    /// For each aggregate, the number of the first filter with the same rows.
    pub same_filters: Vec<usize>,
    pub layout: KeyLayout,
    hasher: DefaultHashBuilder,
    seed: u64,
    /// Whether first and last ask when rows were.
    needs_times: bool,
}

/// Keys and results, a row for each group.
pub(super) fn scattered(aggregation: &TableAggregate<'_>, covers: Vec<Cover>) -> Result<Vec<ArrayRef>> {
    let hasher = DefaultHashBuilder::default();
    let mut picks = aggregation.aggregates.iter().filter_map(|aggregate| aggregate.function.picks());
    let dealing = ScatterPlan {
        aggregation,
        same: same_arguments(aggregation),
        same_filters: same_filters(aggregation),
        layout: key_layout(aggregation)?,
        seed: hasher.hash_one(aggregation.keys.len()),
        hasher,
        needs_times: picks.any(|(_, by_time)| by_time),
    };
    let rows: usize = covers.iter().map(Cover::selected_rows).sum();
    let round_rows = (aggregation.memory_bytes / DEALT_OF_MEMORY / dealing.row_bytes()).max(ROUND_ROWS_MIN);
    let threads = aggregation.threads.max(1);
    let tasks = deal(covers, rows.div_ceil(threads).min(round_rows.div_ceil(threads)).max(1));
    let columns = TableGroups::new(aggregation)?.columns();
    let mut parts = (0..PARTS).map(|_| PartState::new(aggregation, &dealing.layout)).collect::<Result<Vec<_>>>()?;
    let mut first_cover = 0;
    for round in tasks.chunks(threads) {
        let mut begins = Vec::with_capacity(round.len());
        for covers in round {
            begins.push(first_cover);
            first_cover += covers.len();
        }
        let dealt = parallel::each(round.len(), threads, |task| dealing.task(&round[task], begins[task], &columns))?;
        let dealt: Vec<PartitionedBlock> = dealt.into_iter().flatten().collect();
        parts = parallel::each_of(parts.into_iter().enumerate(), threads, |(number, mut part)| {
            part.expect_rows(dealt.iter().map(|block| block.rows_of(number)).sum());
            for block in &dealt {
                aggregation.stop.check()?;
                part.take(&dealing, block, number)?;
            }
            Ok(part)
        })?;
        let needed = parts.iter().map(PartState::bytes).sum();
        let limit = aggregation.memory_bytes / 2;
        if needed > limit {
            return Err(Error::Memory { needed, limit });
        }
    }
    let covers: Vec<&Cover> = tasks.iter().flatten().collect();
    put_together(aggregation, &dealing.layout, parts, &covers)
}

/// Where the keys stand in the words of rows, by the types that they have here.
fn key_layout(aggregation: &TableAggregate<'_>) -> Result<KeyLayout> {
    let empty = EmptyColumns { snapshot: aggregation.snapshot };
    let bits = |key: &Key| match key {
        Key::Date | Key::Bucket(_) => Ok(u64::BITS),
        Key::Symbol => Ok(bits_of(&DataType::Utf8)),
        Key::Value(expr) => Ok(bits_of(expr.evaluate_key(&empty, aggregation.constants)?.data_type())),
    };
    Ok(KeyLayout::new(&aggregation.keys.iter().map(bits).collect::<Result<Vec<_>>>()?))
}

impl ScatterPlan<'_> {
    /// Bytes that a row takes between the passes, more or less.
    fn row_bytes(&self) -> usize {
        let arguments: usize = self.same.iter().map(Vec::len).sum();
        8 * self.layout.words() + 16 * arguments + 48
    }

    /// Rows of a block.
    fn block_rows(&self) -> usize {
        (BLOCK_BYTES / 8 / self.layout.words()).clamp(*BLOCK_ROWS.start(), *BLOCK_ROWS.end())
    }

    /// Scatters the rows of some covers. `first_cover` is the number of the first one.
    fn task(
        &self,
        covers: &[Cover],
        first_cover: usize,
        columns: &[(usize, crate::table::PrefetchPart)],
    ) -> Result<Vec<PartitionedBlock>> {
        let (snapshot, uncounted) = (self.aggregation.snapshot, Reads::default());
        let mut ahead = Prefetch::new(snapshot, covers, columns.to_vec(), &uncounted);
        let (mut conditions, mut dealt) = (BlockConditions::default(), Vec::new());
        for (number, cover) in covers.iter().enumerate() {
            ahead.before(number)?;
            let columns = CoverColumns::new(snapshot, cover);
            for block in cover.blocks_with_gaps(self.block_rows()) {
                self.aggregation.stop.check()?;
                let number = u32::try_from(first_cover + number).unwrap_or(u32::MAX);
                dealt.extend(self.block(&columns, number, &block, &mut conditions)?);
                self.aggregation.stop.add_rows(block.selected_rows());
            }
        }
        Ok(dealt)
    }

    /// The rows of a block in the order of their parts; `None` if none passes the filter.
    fn block<'s>(
        &'s self,
        columns: &CoverColumns<'_>,
        number: u32,
        block: &RowBlock,
        conditions: &mut BlockConditions<'s>,
    ) -> Result<Option<PartitionedBlock>> {
        let (aggregation, constants) = (self.aggregation, self.aggregation.constants);
        let mut chunk = BlockColumns::new(columns, block);
        if let Some(predicate) = aggregation.predicate {
            let mask = conditions.hold(predicate, &chunk, constants)?;
            let filter = FilterMask::new(mask);
            if filter.rows() == 0 {
                return Ok(None);
            }
            if filter.rows() < chunk.selected_rows() {
                chunk.filter = Some(filter);
            }
        }
        let rows = chunk.rows();
        let mut words: Vec<Vec<u64>> = vec![vec![0; rows]; self.layout.words()];
        // What stands for a text here tells its part; its number is added there.
        let mut texts: Vec<(usize, ArrayRef, Vec<u64>)> = Vec::new();
        for key in 0..aggregation.keys.len() {
            texts.extend(self.key(key, &chunk, &mut words)?.map(|(array, hashes)| (key, array, hashes)));
        }
        let mut hashes = vec![self.seed; rows];
        for of_rows in words.iter().chain(texts.iter().map(|(_, _, of_texts)| of_texts)) {
            hashes.iter_mut().zip(of_rows).for_each(|(hash, word)| *hash = mixed(*hash, *word));
        }
        let parts: Vec<u8> = hashes.iter().map(|hash| (hash >> 58).to_le_bytes()[0]).collect();
        let (starts, order) = by_part(&parts);
        let order = UInt32Array::from(order);
        let in_order = |array: &ArrayRef| Ok::<ArrayRef, Error>(take(array, &order, None)?);
        let hashes = order.values().iter().map(|row| half(hashes[*row as usize])).collect();
        let mut ordered = vec![0; rows * words.len()];
        for (position, of_rows) in words.iter().enumerate() {
            for (words, row) in ordered.chunks_exact_mut(self.layout.words()).zip(order.values()) {
                words[position] = of_rows[*row as usize];
            }
        }
        let texts =
            texts.into_iter().map(|(key, array, _)| Ok((key, in_order(&array)?))).collect::<Result<Vec<_>>>()?;
        let mut arguments: Vec<Option<ArrayRef>> = vec![None; self.same.iter().map(Vec::len).sum()];
        let mut masks: Vec<Option<BooleanArray>> = vec![None; self.same_filters.len()];
        for ((aggregate, same), filter) in aggregation.aggregates.iter().zip(&self.same).zip(&self.same_filters) {
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
        let first = chunk.first_position(number);
        let positions = match chunk.positions(number) {
            Some(positions) => order.values().iter().map(|row| positions[*row as usize]).collect(),
            None => order.values().iter().map(|row| first + u64::from(*row)).collect(),
        };
        let times = match self.needs_times {
            true => {
                let times = chunk.column(aggregation.snapshot.spec().time_position())?.into_array(rows)?;
                let times = times_of(&times)?;
                order.values().iter().map(|row| times[*row as usize]).collect()
            }
            false => Vec::new(),
        };
        Ok(Some(PartitionedBlock { starts, words: ordered, hashes, texts, arguments, masks, positions, times }))
    }

    /// Adds a key to the words of rows; the values of a text, and their hashes, are what comes back.
    fn key(
        &self,
        key: usize,
        chunk: &BlockColumns<'_>,
        words: &mut [Vec<u64>],
    ) -> Result<Option<(ArrayRef, Vec<u64>)>> {
        let spec = self.aggregation.snapshot.spec();
        let array = match &self.aggregation.keys[key] {
            Key::Date => {
                let dates = vec![chunk.columns.cover().date as u64; chunk.rows()];
                self.layout.add(key, &dates, &DataType::Date32, None, words)?;
                return Ok(None);
            }
            Key::Bucket(buckets) => {
                let times = chunk.column(spec.time_position())?.into_array(chunk.rows())?;
                Arc::new(starts_of(buckets.as_ref(), times_of(&times)?)?)
            }
            Key::Symbol => chunk.column(symbol_position(self.aggregation)?)?.into_array(chunk.rows())?,
            Key::Value(expr) => expr.evaluate_key(chunk, self.aggregation.constants)?,
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
        let of_text = |text: &str| self.hasher.hash_one(text);
        let mut hashes: Vec<u64> = if let Some(coded) = array.as_dictionary_opt::<Int32Type>() {
            let of_codes: Vec<u64> =
                coded.values().as_string::<i32>().iter().map(|text| text.map_or(0, of_text)).collect();
            let word = |code: &i32| usize::try_from(*code).ok().and_then(|code| of_codes.get(code)).copied();
            coded.keys().values().iter().map(|code| word(code).unwrap_or(0)).collect()
        } else if let Some(values) = array.as_string_opt::<i32>() {
            (0..values.len()).map(|row| of_text(values.value(row))).collect()
        } else {
            let of_rows = words_of(&array)?;
            self.layout.add(key, &of_rows, array.data_type(), nulls.as_ref(), words)?;
            return Ok(None);
        };
        self.layout.add(key, &[], array.data_type(), nulls.as_ref(), words)?;
        for row in nulls.iter().flat_map(|nulls| (!nulls.inner()).set_indices().collect::<Vec<_>>()) {
            hashes[row] = 0;
        }
        Ok(Some((array, hashes)))
    }
}

/// The position of the table's symbol column.
fn symbol_position(aggregation: &TableAggregate<'_>) -> Result<usize> {
    let spec = aggregation.snapshot.spec();
    let symbol = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol));
    symbol.ok_or_else(|| Error::Unsupported("a table without symbols".to_owned()))
}

/// The values of a key in rows of a cover; `None` if they follow from the words of the groups as well.
pub(super) fn key_values(
    aggregation: &TableAggregate<'_>,
    key: usize,
    rows: &dyn InputColumns,
) -> Result<Option<ArrayRef>> {
    let found = match &aggregation.keys[key] {
        Key::Symbol => rows.column(symbol_position(aggregation)?)?.into_array(rows.rows())?,
        Key::Value(expr) => expr.evaluate_key(rows, aggregation.constants)?,
        Key::Date | Key::Bucket(_) => return Ok(None),
    };
    Ok(Some(canonical(&found).unwrap_or(found)))
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
