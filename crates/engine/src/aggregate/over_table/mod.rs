//! Aggregation over a table, along the order of its rows.
//!
//! - Nothing is hashed by row: within a span of rows, the symbol and keys that depend on it alone (`keys_of_symbol.rs`)
//!   are constant, and galloping finds the rows of a time bucket.
//! - If all arguments are plain columns, whole blocks of 1,024 rows are taken from their summaries, and only the rows
//!   at the edges of a range are read (`direct.rs`). First and last read one row of each group.
//! - Otherwise filters and arguments are evaluated over blocks of rows that stay in cache (`blocks.rs`).
//! - If a symbol, or an interval of a time key, has only a few rows, keys are evaluated row by row (`by_rows.rs`).
//! - If the number of groups turns out to be very large, the aggregation restarts in two passes (`scatter.rs`).
//! - Threads share large inputs by rows (`table/deal.rs`). Each has its own groups, which are merged in the order of
//!   the rows.

mod blocks;
mod by_rows;
mod by_symbol;
mod columns;
mod cuts;
mod direct;
mod key_layout;
mod keys_of_symbol;
mod scatter;
mod scattered_rows;

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use splay_store::TableSnapshot;

use self::by_rows::by_rows;
use self::by_symbol::by_symbol;
use self::columns::EmptyColumns;
use self::cuts::{Cuts, is_step};
use self::direct::only_symbols;
use self::keys_of_symbol::{SymbolKeys, of_symbols};
use self::scatter::{GROUPS_MIN, ROWS_OF_GROUP_MAX, scattered};
use super::accumulate::{Accumulator, GroupRun, accumulator};
use super::dense::DenseGroups;
use super::groups::{GroupIndex, Groups, key_column, merged};
use super::keys::TextWords;
use super::picks::Picks;
use super::pivot::{self, check_cells};
use super::{Aggregate, AggregateFunction, Key};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::expr::codes::BlockConditions;
use crate::parallel;
use crate::reads::Reads;
use crate::stop::Stop;
use crate::table::{Cover, CoverColumns, PickedColumns, Prefetch, PrefetchPart, date_position, deal};
use crate::texts::Texts;

/// Fewest rows that are grouped in two passes.
const ROWS_SCATTERED_MIN: usize = 1 << 18;

/// Rows whose filters and arguments are evaluated at once.
const BLOCK_ROWS_MAX: usize = 4_096;

/// A grouping of a table's rows: source, filter, keys and aggregates.
#[derive(Debug)]
pub(crate) struct TableAggregate<'a> {
    pub snapshot: &'a TableSnapshot,
    pub predicate: Option<&'a Expr>,
    pub keys: &'a [Key],
    pub key_types: &'a [DataType],
    pub aggregates: &'a [Aggregate],
    pub constants: &'a [ArrayRef],
    pub threads: usize,
    pub memory_bytes: usize,
    pub stop: Stop<'a>,
    pub reads: &'a Reads,
    /// Whether keys of the time are evaluated row by row, because they change with nearly every row.
    pub by_rows: bool,
}

/// Whether each span must be of one symbol: for the symbol itself, which a filter may ask for, and because time rises only
/// within one.
pub(crate) fn needs_symbols(
    snapshot: &TableSnapshot,
    keys: &[Key],
    aggregates: &[Aggregate],
    constants: &[ArrayRef],
) -> bool {
    let time = snapshot.spec().time_position();
    let filtered = aggregates.iter().any(|aggregate| aggregate.filter.is_some());
    let by_time = |key: &Key| matches!(key, Key::Bucket(_)) || is_step(key, time, constants);
    keys.iter().any(|key| matches!(key, Key::Symbol) || by_time(key))
        || !of_symbols(keys, snapshot, constants).is_empty()
        || picks_by_time(aggregates)
        || filtered
}

fn picks_by_time(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().any(|aggregate| matches!(aggregate.function.picks(), Some((_, true))))
}

/// Keys and results, a row for each group.
pub(crate) fn over_table(aggregation: &TableAggregate<'_>, covers: Vec<Cover>) -> Result<Vec<ArrayRef>> {
    match by_rows(aggregation, &covers)? {
        Some((keys, covers)) => over_covers(&TableAggregate { keys: &keys, by_rows: true, ..*aggregation }, covers),
        None => over_covers(aggregation, covers),
    }
}

fn over_covers(aggregation: &TableAggregate<'_>, covers: Vec<Cover>) -> Result<Vec<ArrayRef>> {
    let rows: usize = covers.iter().map(Cover::selected_rows).sum();
    let covers = if matches!(aggregation.keys.first(), Some(Key::Symbol)) { by_symbol(covers, rows)? } else { covers };
    let pieces: usize = covers.iter().map(|cover| cover.spans.len()).sum();
    let threads = match worth_threads(aggregation) {
        true => parallel::threads_for_aggregates(rows, aggregation.aggregates.len(), pieces, aggregation.threads),
        false => 1,
    };
    let tasks = if threads > 1 { deal(covers, rows.div_ceil(threads)) } else { vec![covers] };
    // Covers are numbered over all tasks, so that positions of rows compare between them.
    let firsts: Vec<usize> = tasks
        .iter()
        .scan(0, |next, covers| {
            let first = *next;
            *next += covers.len();
            Some(first)
        })
        .collect();
    let many = AtomicBool::new(false);
    let may_be_many = rows >= ROWS_SCATTERED_MIN && scatter::takes(aggregation);
    let states = parallel::each(tasks.len(), aggregation.threads, |task| {
        let mut state = TableGroups::new(aggregation)?;
        state.many = may_be_many.then_some(&many);
        state.rows = tasks[task].iter().map(Cover::selected_rows).sum();
        let mut ahead = Prefetch::new(aggregation.snapshot, &tasks[task], state.columns(), aggregation.reads);
        for (number, cover) in (firsts[task]..).zip(&tasks[task]) {
            ahead.before(number - firsts[task])?;
            state.cover(&CoverColumns::new(aggregation.snapshot, cover), u32::try_from(number).unwrap_or(u32::MAX))?;
        }
        Ok(state)
    })?;
    // Relaxed: the states were handed over by a lock.
    if many.load(Ordering::Relaxed) {
        drop(states);
        return scattered(aggregation, tasks.into_iter().flatten().collect());
    }
    let mut states = states.into_iter();
    let mut all = match states.next() {
        Some(state) => state,
        None => TableGroups::new(aggregation)?,
    };
    for state in states {
        all.merge(state)?;
    }
    let covers: Vec<&Cover> = tasks.iter().flatten().collect();
    all.finish(&covers)
}

/// Counts of rows and picks touch hardly any rows.
fn worth_threads(aggregation: &TableAggregate<'_>) -> bool {
    let light = |aggregate: &Aggregate| {
        let counts = aggregate.function == AggregateFunction::CountRows;
        aggregate.filter.is_none() && aggregate.pivot.is_none() && (counts || aggregate.function.picks().is_some())
    };
    let by_value = aggregation.keys.iter().any(|key| matches!(key, Key::Value(_)));
    aggregation.predicate.is_some() || by_value || !aggregation.aggregates.iter().all(light)
}

/// The state of one aggregate.
enum AggregateSlot {
    Accumulator(Box<dyn Accumulator>),
    Picks(Picks),
}

impl AggregateSlot {
    /// Bytes that are held beside a few words for each group.
    fn heap_bytes(&self) -> usize {
        match self {
            AggregateSlot::Accumulator(accumulator) => accumulator.heap_bytes(),
            AggregateSlot::Picks(_) => 0,
        }
    }
}

/// The part of a statement's memory that tables of groups by place may take.
const PLACES_OF_MEMORY: usize = 16;

/// Bytes that the aggregates of a state hold from which on they are merged by threads.
const HELD_BYTES_OF_THREADS: usize = 1 << 20;

/// The groups of one thread.
struct TableGroups<'a> {
    aggregation: &'a TableAggregate<'a>,
    groups: Groups,
    /// Where all keys are values, row by row.
    dense: DenseGroups,
    /// By key; empty for those that aren't texts.
    texts: Vec<Texts>,
    slots: Vec<AggregateSlot>,
    /// By key, the words of the dictionary that was read last.
    text_words: Vec<TextWords>,
    /// The symbols that a slot's filter asks for, where it asks for nothing else.
    only_symbols: Vec<Option<Vec<String>>>,
    /// For each argument of each slot the number of the first one with the same values.
    same: Vec<Vec<usize>>,
    /// For each slot the number of the first filter that holds for the same rows; of one without a filter nothing asks.
    same_filters: Vec<usize>,
    /// Whether putting a block in the order of its groups is made good by what the kernels gain.
    gains_by_order: bool,
    cuts: Cuts<'a>,
    symbol_keys: SymbolKeys<'a>,
    /// Rows whose groups were found by hash.
    hashed: usize,
    /// Rows of its covers, and those of them that were looked at.
    rows: usize,
    seen: usize,
    /// Set once there are so many groups that the grouping starts again in two passes; `None` if it may not.
    many: Option<&'a AtomicBool>,
    conditions: BlockConditions<'a>,
    words: Vec<u64>,
    /// Scratch: the words of the rows of a block.
    row_words: Vec<u64>,
    /// Scratch: runs of the block at work.
    runs: Vec<GroupRun>,
}

impl<'a> TableGroups<'a> {
    fn new(aggregation: &'a TableAggregate<'a>) -> Result<TableGroups<'a>> {
        let slots =
            aggregation.aggregates.iter().map(|aggregate| slot(aggregation, aggregate)).collect::<Result<Vec<_>>>()?;
        let keys = aggregation.keys.len();
        let mut state = TableGroups {
            aggregation,
            groups: Groups::new(keys),
            dense: DenseGroups::within(aggregation.memory_bytes / PLACES_OF_MEMORY / aggregation.threads.max(1)),
            texts: (0..keys).map(|_| Texts::default()).collect(),
            slots,
            text_words: (0..keys).map(|_| TextWords::of_places()).collect(),
            only_symbols: aggregation.aggregates.iter().map(|aggregate| only_symbols(aggregation, aggregate)).collect(),
            same: same_arguments(aggregation),
            same_filters: same_filters(aggregation),
            gains_by_order: gains_by_order(aggregation.aggregates),
            cuts: Cuts::new(aggregation),
            symbol_keys: SymbolKeys::new(aggregation),
            hashed: 0,
            rows: 0,
            seen: 0,
            many: None,
            conditions: BlockConditions::default(),
            words: vec![0; keys + 1],
            row_words: Vec::new(),
            runs: Vec::new(),
        };
        if keys == 0 {
            // Without keys there is one group, of nothing if need be.
            state.groups.find(&[0]);
            state.grow()?;
        }
        Ok(state)
    }

    /// The columns that are read, and how much of each.
    fn columns(&self) -> Vec<(usize, PrefetchPart)> {
        let (snapshot, direct) = (self.aggregation.snapshot, self.is_direct());
        let mut columns: Vec<(usize, PrefetchPart)> = Vec::new();
        let mut add = |position: usize, part: PrefetchPart| match columns.iter_mut().find(|column| column.0 == position)
        {
            Some(column) if part == PrefetchPart::Whole => column.1 = part,
            Some(_) => {}
            None if position < date_position(snapshot) => columns.push((position, part)),
            None => {}
        };
        if self.needs_times() {
            add(snapshot.spec().time_position(), PrefetchPart::Whole);
        }
        let keys = self.aggregation.keys.iter().enumerate();
        let values = keys.filter_map(|(position, key)| match key {
            Key::Value(expr) if !self.symbol_keys.has(position) => Some(expr),
            _ => None,
        });
        values
            .chain(self.aggregation.predicate)
            .for_each(|expr| expr.visit_columns(&mut |column| add(column, PrefetchPart::Whole)));
        for (slot, aggregate) in self.slots.iter().zip(self.aggregation.aggregates) {
            let by_summaries = matches!(slot, AggregateSlot::Accumulator(accumulator) if accumulator.takes_summaries());
            let part =
                if direct && by_summaries && self.cuts.is_empty() { PrefetchPart::Edges } else { PrefetchPart::Whole };
            for expr in aggregate.arguments.iter().chain(aggregate.filter.as_ref().filter(|_| !direct)) {
                expr.visit_columns(&mut |column| add(column, part));
            }
        }
        columns
    }

    fn grow(&mut self) -> Result<()> {
        check_cells(self.aggregation.aggregates, self.groups.len(), self.memory_limit())?;
        for slot in &mut self.slots {
            match slot {
                AggregateSlot::Accumulator(accumulator) => accumulator.grow(self.groups.len()),
                AggregateSlot::Picks(picks) => picks.grow(self.groups.len()),
            }
        }
        Ok(())
    }

    fn cover(&mut self, columns: &CoverColumns<'_>, number: u32) -> Result<()> {
        self.aggregation.stop.check()?;
        self.set_date(columns.cover().date);
        self.symbol_keys.enter(columns.cover(), &mut self.texts, &mut self.text_words, self.aggregation.constants)?;
        if self.is_direct() {
            self.direct(columns, number)?;
            self.aggregation.stop.add_rows(columns.cover().selected_rows());
            return self.check_memory();
        }
        for block in columns.cover().blocks_with_gaps(BLOCK_ROWS_MAX) {
            self.aggregation.stop.check()?;
            self.block(columns, number, &block)?;
            self.seen += block.selected_rows();
            if self.are_many() {
                return Ok(());
            }
            self.aggregation.stop.add_rows(block.selected_rows());
            self.check_memory()?;
        }
        Ok(())
    }

    /// Whether this thread or another one has found too many groups for one pass.
    fn are_many(&self) -> bool {
        let Some(many) = self.many else { return false };
        let groups = self.groups.len();
        let by_hash = |least: usize| groups >= least && self.hashed >= least && !self.groups.are_ascending();
        // As many as there will be where nearly each row is one, if it goes on so.
        let will_be = groups.saturating_mul(self.rows) / self.seen.max(1) >= GROUPS_MIN;
        let is_slow = by_hash(GROUPS_MIN) && self.hashed <= groups * ROWS_OF_GROUP_MAX
            || by_hash(GROUPS_MIN / 8) && self.hashed <= groups + groups / 4 && will_be;
        // Relaxed: whoever hears of it late does some more work in vain.
        if is_slow {
            many.store(true, Ordering::Relaxed);
        }
        many.load(Ordering::Relaxed)
    }

    /// Gives up before groups take more memory than the statement may have.
    fn check_memory(&self) -> Result<()> {
        // A group's words, its place in the table, and about three words for each aggregate.
        let width = 8 * self.words.len() + 16 + 24 * self.slots.len();
        let needed = width * self.groups.len() + self.slots.iter().map(AggregateSlot::heap_bytes).sum::<usize>();
        let limit = self.memory_limit();
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    fn memory_limit(&self) -> usize {
        // Merging and answering hold the groups a second time.
        self.aggregation.memory_bytes / 2 / self.aggregation.threads.max(1)
    }

    fn set_date(&mut self, date: i32) {
        for (position, key) in self.aggregation.keys.iter().enumerate() {
            if matches!(key, Key::Date) {
                self.words[position] = date as u64;
            }
        }
    }

    /// Sets the words of a span's symbol.
    fn set_symbol(&mut self, cover: &Cover, run: Option<usize>) -> Result<()> {
        let nulls = self.aggregation.keys.len();
        if let Some(run) = run {
            self.symbol_keys.set(run, &mut self.words);
        }
        for (position, key) in self.aggregation.keys.iter().enumerate() {
            if let (Key::Symbol, Some(run)) = (key, run) {
                match cover.segment.index()?.symbol(run)? {
                    Some(symbol) => {
                        self.words[position] = u64::from(self.texts[position].number(symbol));
                        self.words[nulls] &= !(1 << position);
                    }
                    None => {
                        self.words[position] = 0;
                        self.words[nulls] |= 1 << position;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the rows' times are looked at.
    fn needs_times(&self) -> bool {
        let by_time = |slot: &AggregateSlot| matches!(slot, AggregateSlot::Picks(picks) if picks.by_time());
        !self.cuts.is_empty() || self.slots.iter().any(by_time)
    }

    fn merge(&mut self, mut other: TableGroups<'_>) -> Result<()> {
        let threads = self.aggregation.threads;
        let mapping = merged(self.index(), other.index(), threads)?;
        self.grow()?;
        let threads = threads_over(&other.slots, mapping.len(), threads);
        let slots = self.slots.iter_mut().zip(other.slots);
        parallel::each_of(slots, threads, |(ours, theirs)| match (ours, theirs) {
            (AggregateSlot::Accumulator(ours), AggregateSlot::Accumulator(theirs)) => ours.merge(theirs, &mapping),
            (AggregateSlot::Picks(ours), AggregateSlot::Picks(theirs)) => {
                ours.merge(&theirs, &mapping);
                Ok(())
            }
            _ => Err(Error::Unsupported("a merge of two kinds of aggregates".to_owned())),
        })?;
        Ok(())
    }

    fn index(&mut self) -> GroupIndex<'_> {
        let TableGroups { groups, texts, dense, text_words, .. } = self;
        GroupIndex { groups, texts, dense, words: text_words }
    }

    fn finish(self, covers: &[&Cover]) -> Result<Vec<ArrayRef>> {
        let (aggregation, groups) = (self.aggregation, self.groups.len());
        let types = aggregation.key_types;
        let threads = parallel::threads_for(groups * types.len(), 0, aggregation.threads);
        let mut columns =
            parallel::each(types.len(), threads, |key| key_column(&self.groups, key, &self.texts[key], &types[key]))?;
        let threads = threads_over(&self.slots, groups, aggregation.threads);
        let slots = self.slots.into_iter().zip(aggregation.aggregates);
        let results = parallel::each_of(slots, threads, |(slot, aggregate)| {
            let results = match slot {
                AggregateSlot::Accumulator(accumulator) => accumulator.finish(),
                AggregateSlot::Picks(picks) => picks.finish(&aggregate.data_type, |number, rows| {
                    let columns = &CoverColumns::new(aggregation.snapshot, covers[number as usize]);
                    let picked = PickedColumns { columns, rows: rows.rows() };
                    aggregate.arguments[0].evaluate(&picked, aggregation.constants)?.into_array(rows.rows().len())
                }),
            };
            pivot::columns(aggregate, results?, aggregation.constants)
        })?;
        columns.extend(results.into_iter().flatten());
        Ok(columns)
    }
}

/// Threads that merge or finish some slots. First and last read a row of each group, which misses the cache; values that groups hold, such as
/// distinct ones, are processed one by one.
fn threads_over(slots: &[AggregateSlot], groups: usize, threads: usize) -> usize {
    let slot_bytes = slots.iter().map(AggregateSlot::heap_bytes).sum::<usize>();
    if slot_bytes >= HELD_BYTES_OF_THREADS { threads } else { parallel::threads_for(groups * slots.len(), 0, threads) }
}

fn slot(aggregation: &TableAggregate<'_>, aggregate: &Aggregate) -> Result<AggregateSlot> {
    Ok(match aggregate.function.picks() {
        Some((last, by_time)) => AggregateSlot::Picks(Picks::new(last, by_time).with_width(aggregate.width())),
        None => {
            let empty = EmptyColumns { snapshot: aggregation.snapshot };
            let types = aggregate
                .arguments
                .iter()
                .map(|argument| Ok(argument.evaluate(&empty, aggregation.constants)?.data_type().clone()))
                .collect::<Result<Vec<_>>>()?;
            AggregateSlot::Accumulator(accumulator(aggregate, &types, aggregation.threads)?)
        }
    })
}

/// Counts and a few sums cost less row by row than the order does.
fn gains_by_order(aggregates: &[Aggregate]) -> bool {
    // A pivot adds each row to a cell of its own.
    let accumulated =
        aggregates.iter().filter(|aggregate| aggregate.pivot.is_none()).map(|aggregate| &aggregate.function);
    let accumulated = accumulated.filter(|function| function.picks().is_none());
    let weights = accumulated.map(|function| match function {
        AggregateFunction::CountRows | AggregateFunction::Count | AggregateFunction::CountDistinct => 0,
        AggregateFunction::Sum | AggregateFunction::Average => 1,
        AggregateFunction::Min
        | AggregateFunction::Max
        | AggregateFunction::WeightedAverage
        | AggregateFunction::WeightedSum => 2,
        _ => 3,
    });
    weights.sum::<usize>() >= 3
}

fn same_arguments(aggregation: &TableAggregate<'_>) -> Vec<Vec<usize>> {
    let arguments = aggregation.aggregates.iter().flat_map(|aggregate| &aggregate.arguments);
    let mut rest = firsts(aggregation, arguments).into_iter();
    aggregation.aggregates.iter().map(|aggregate| rest.by_ref().take(aggregate.arguments.len()).collect()).collect()
}

fn same_filters(aggregation: &TableAggregate<'_>) -> Vec<usize> {
    let filters = aggregation.aggregates.iter().filter_map(|aggregate| aggregate.filter.as_ref());
    let mut rest = firsts(aggregation, filters).into_iter();
    let number = |aggregate: &Aggregate| aggregate.filter.as_ref().and_then(|_| rest.next()).unwrap_or(0);
    aggregation.aggregates.iter().map(number).collect()
}

/// For each expression the number of the first one with the same values.
fn firsts<'e>(aggregation: &TableAggregate<'_>, exprs: impl Iterator<Item = &'e Expr>) -> Vec<usize> {
    let mut seen: Vec<&Expr> = Vec::new();
    let number = |expr| {
        let first = seen.iter().position(|one| one.is_same(expr, aggregation.constants));
        seen.push(expr);
        first.unwrap_or(seen.len() - 1)
    };
    exprs.map(number).collect()
}
