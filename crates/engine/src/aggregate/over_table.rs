//! Aggregation over a table, along the order of its rows.
//!
//! - The symbol is constant in a span, and a bucket is a range of rows found by galloping: no row is hashed for either.
//! - Where all arguments are plain columns, whole blocks of 1,024 rows are taken from their summaries, and only the rows at the
//!   edges of a range are read. First and last read one row of each group.
//! - Otherwise filters and arguments are evaluated over blocks of rows that stay in cache.
//! - Large work is dealt out to threads by rows; each has its own groups, which are merged in the order of the rows.

use std::cell::RefCell;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::DataType;
use hashbrown::HashMap;
use splay_store::{BLOCK_ROWS, ColumnSummaries, TableSnapshot, ValueKind};

use super::accumulate::{Accumulator, Assigned, NO_GROUP, Run, accumulator};
use super::groups::{Groups, Texts, key_column};
use super::keys::{Numbered, ValueKey};
use super::picks::{Picks, Positions};
use super::{Aggregate, AggregateFunction, Buckets, Key};
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Columns, Expr, Value, holds};
use crate::gather::position;
use crate::table::{Block, Cover, CoverColumns, PickedColumns, date_position};

/// Rows whose filters and arguments are evaluated at once.
const BLOCK_ROWS_MAX: usize = 4_096;

/// Rows from which on a second thread pays.
const PARALLEL_ROWS: usize = 100_000;

/// Rows of a group, on average, from which on a block is put in the order of its groups.
const RUN_ROWS_MIN: usize = 16;

/// Rows of a symbol and date, on average, from which on each is read by itself.
const SPAN_ROWS_MIN: usize = 256;

/// What is asked of a table.
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
}

/// Whether each span must be of one symbol: for the symbol itself, which a filter may ask for, and because time rises only
/// within one.
pub(crate) fn needs_symbols(keys: &[Key], aggregates: &[Aggregate]) -> bool {
    let filtered = aggregates.iter().any(|aggregate| aggregate.filter.is_some());
    keys.iter().any(|key| matches!(key, Key::Symbol | Key::Bucket(_))) || picks_by_time(aggregates) || filtered
}

fn picks_by_time(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().any(|aggregate| matches!(aggregate.function.picks(), Some((_, true))))
}

/// Keys and results, a row for each group.
pub(crate) fn over_table(asked: &TableAggregate<'_>, covers: Vec<Cover>) -> Result<Vec<ArrayRef>> {
    let rows: usize = covers.iter().map(Cover::wanted).sum();
    let covers = if matches!(asked.keys.first(), Some(Key::Symbol)) { by_symbol(covers, rows)? } else { covers };
    let tasks = if rows >= PARALLEL_ROWS && asked.threads > 1 && worth_threads(asked) {
        deal(covers, rows.div_ceil(asked.threads))
    } else {
        vec![covers]
    };
    // Covers are numbered over all tasks, so that positions of rows compare between them.
    let firsts: Vec<usize> = tasks
        .iter()
        .scan(0, |next, covers| {
            let first = *next;
            *next += covers.len();
            Some(first)
        })
        .collect();
    let run = |covers: &[Cover], first: usize| -> Result<State<'_>> {
        let mut state = State::new(asked)?;
        for (number, cover) in covers.iter().enumerate() {
            state
                .cover(&CoverColumns::new(asked.snapshot, cover), u32::try_from(first + number).unwrap_or(u32::MAX))?;
        }
        Ok(state)
    };
    let mut states = Vec::with_capacity(tasks.len());
    if let [covers] = tasks.as_slice() {
        states.push(run(covers, 0));
    } else {
        states.resize_with(tasks.len(), || Err(Error::Unsupported("a task that didn't run".to_owned())));
        rayon::scope(|scope| {
            for ((state, covers), first) in states.iter_mut().zip(&tasks).zip(&firsts) {
                scope.spawn(move |_| *state = run(covers, *first));
            }
        });
    }
    let mut states = states.into_iter();
    let mut all = match states.next() {
        Some(state) => state?,
        None => State::new(asked)?,
    };
    for state in states {
        all.merge(state?)?;
    }
    let covers: Vec<&Cover> = tasks.iter().flatten().collect();
    all.finish(&covers)
}

/// Covers of one symbol after the other, each by date, so that groups come in order. The rows of each symbol stay in theirs.
fn by_symbol(covers: Vec<Cover>, rows: usize) -> Result<Vec<Cover>> {
    let spans: usize = covers.iter().map(|cover| cover.spans.len()).sum();
    let has_dates = covers.windows(2).any(|pair| pair[0].date != pair[1].date);
    if !has_dates || rows < spans * SPAN_ROWS_MIN {
        return Ok(covers);
    }
    let mut numbered = Vec::with_capacity(spans);
    for cover in &covers {
        let index = cover.segment.index()?;
        for span in &cover.spans {
            let Some(run) = span.run else { return Ok(covers) };
            numbered.push((index.symbol(run)?, cover, span));
        }
    }
    numbered.sort_by_key(|(symbol, _, _)| *symbol);
    let of_span = |(_, cover, span): (Option<&str>, &Cover, &crate::table::Span)| Cover {
        segment: std::sync::Arc::clone(&cover.segment),
        date: cover.date,
        rows: span.rows.clone(),
        spans: vec![span.clone()],
    };
    Ok(numbered.into_iter().map(of_span).collect())
}

fn bucket_of(buckets: &dyn Buckets, instant: i64) -> Result<(i64, i64)> {
    buckets.bucket(instant).ok_or_else(|| Error::Function(format!("the instant {instant} ns has no bucket")))
}

/// Counts of rows and picks touch hardly any rows.
fn worth_threads(asked: &TableAggregate<'_>) -> bool {
    let light = |aggregate: &Aggregate| {
        let counts = aggregate.function == AggregateFunction::CountRows;
        aggregate.filter.is_none() && (counts || aggregate.function.picks().is_some())
    };
    let by_value = asked.keys.iter().any(|key| matches!(key, Key::Value(_)));
    asked.predicate.is_some() || by_value || !asked.aggregates.iter().all(light)
}

/// Cuts covers into parts of about `rows` wanted rows each, in their order.
fn deal(covers: Vec<Cover>, rows: usize) -> Vec<Vec<Cover>> {
    let mut parts = vec![Vec::new()];
    let mut filled = 0;
    for mut cover in covers {
        loop {
            let room = rows.saturating_sub(filled).max(1);
            let wanted = cover.wanted();
            if wanted <= room {
                filled += wanted;
                last(&mut parts).push(cover);
                break;
            }
            let (head, rest) = split(cover, room);
            last(&mut parts).push(head);
            parts.push(Vec::new());
            filled = 0;
            cover = rest;
        }
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { vec![Vec::new()] } else { parts }
}

fn last(parts: &mut Vec<Vec<Cover>>) -> &mut Vec<Cover> {
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    let end = parts.len() - 1;
    &mut parts[end]
}

/// Cuts a cover after some of its wanted rows.
fn split(mut cover: Cover, rows: usize) -> (Cover, Cover) {
    let (mut head, mut left) = (Vec::new(), rows);
    let mut tail = Vec::new();
    for span in cover.spans.drain(..) {
        if span.rows.len() <= left {
            left -= span.rows.len();
            head.push(span);
        } else if left > 0 {
            let middle = span.rows.start + left;
            left = 0;
            let mut front = span.clone();
            front.rows.end = middle;
            head.push(front);
            let mut back = span;
            back.rows.start = middle;
            tail.push(back);
        } else {
            tail.push(span);
        }
    }
    let bounds = |spans: &[crate::table::Span]| {
        let start = spans.first().map_or(0, |span| span.rows.start);
        start..spans.last().map_or(start, |span| span.rows.end)
    };
    let front = Cover { rows: bounds(&head), spans: head, ..cover.clone() };
    let back = Cover { rows: bounds(&tail), spans: tail, ..cover };
    (front, back)
}

/// One of the aggregates at work.
enum Slot {
    Kept(Box<dyn Accumulator>),
    Picked(Picks),
}

/// The groups of one thread.
struct State<'a> {
    asked: &'a TableAggregate<'a>,
    groups: Groups,
    /// By key; empty for those that aren't texts.
    texts: Vec<Texts>,
    slots: Vec<Slot>,
    /// By key, what is known of the dictionary that came last.
    numbered: Vec<Numbered>,
    /// The symbols that a slot's filter asks for, where it asks for nothing else.
    only_symbols: Vec<Option<Vec<String>>>,
    /// For each argument of each slot the number of the first one with the same values.
    same: Vec<Vec<usize>>,
    /// Whether putting a block in the order of its groups is made good by what the kernels gain.
    gains_by_order: bool,
    /// Position of the bucket among the keys.
    bucket: Option<(usize, &'a dyn Buckets)>,
    words: Vec<u64>,
    /// Scratch: runs of the block at work.
    runs: Vec<Run>,
    rows: Vec<u32>,
}

impl<'a> State<'a> {
    fn new(asked: &'a TableAggregate<'a>) -> Result<State<'a>> {
        let slots = asked.aggregates.iter().map(|aggregate| slot(asked, aggregate)).collect::<Result<Vec<_>>>()?;
        let bucket = asked.keys.iter().enumerate().find_map(|(position, key)| match key {
            Key::Bucket(buckets) => Some((position, buckets.as_ref())),
            _ => None,
        });
        let keys = asked.keys.len();
        let mut state = State {
            asked,
            groups: Groups::new(keys),
            texts: (0..keys).map(|_| Texts::default()).collect(),
            slots,
            numbered: (0..keys).map(|_| Numbered::default()).collect(),
            only_symbols: asked.aggregates.iter().map(|aggregate| only_symbols(asked, aggregate)).collect(),
            same: same_arguments(asked),
            gains_by_order: gains_by_order(asked.aggregates),
            bucket,
            words: vec![0; keys + 1],
            runs: Vec::new(),
            rows: Vec::new(),
        };
        if keys == 0 {
            // Without keys there is one group, of nothing if need be.
            state.groups.find(&[0]);
            state.grow();
        }
        Ok(state)
    }

    fn grow(&mut self) {
        for slot in &mut self.slots {
            match slot {
                Slot::Kept(accumulator) => accumulator.grow(self.groups.len()),
                Slot::Picked(picks) => picks.grow(self.groups.len()),
            }
        }
    }

    fn cover(&mut self, columns: &CoverColumns<'_>, number: u32) -> Result<()> {
        self.set_date(columns.cover().date);
        if self.is_direct() {
            self.direct(columns, number)?;
            return self.check_memory();
        }
        for block in columns.cover().blocks(BLOCK_ROWS_MAX) {
            self.block(columns, number, &block)?;
            self.check_memory()?;
        }
        Ok(())
    }

    /// Gives up before groups take more memory than the statement may have.
    fn check_memory(&self) -> Result<()> {
        let held = |slot: &Slot| match slot {
            Slot::Kept(accumulator) => accumulator.held_bytes(),
            Slot::Picked(_) => 0,
        };
        // A group's words, its place in the table, and about three words for each aggregate.
        let width = 8 * self.words.len() + 16 + 24 * self.slots.len();
        let needed = width * self.groups.len() + self.slots.iter().map(held).sum::<usize>();
        // Merging and answering hold the groups a second time.
        let limit = self.asked.memory_bytes / 2 / self.asked.threads.max(1);
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    fn set_date(&mut self, date: i32) {
        for (position, key) in self.asked.keys.iter().enumerate() {
            if matches!(key, Key::Date) {
                self.words[position] = date as u64;
            }
        }
    }

    /// Sets the words of a span's symbol.
    fn set_symbol(&mut self, cover: &Cover, run: Option<usize>) -> Result<()> {
        let nulls = self.asked.keys.len();
        for (position, key) in self.asked.keys.iter().enumerate() {
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
        let by_time = |slot: &Slot| matches!(slot, Slot::Picked(picks) if picks.by_time());
        self.bucket.is_some() || self.slots.iter().any(by_time)
    }

    /// Whether nothing has to be evaluated for each row.
    fn is_direct(&self) -> bool {
        self.asked.predicate.is_none()
            && !self.asked.keys.iter().any(|key| matches!(key, Key::Value(_)))
            && self.asked.aggregates.iter().zip(&self.only_symbols).all(|(aggregate, only)| {
                let picks = aggregate.function.picks().is_some();
                (aggregate.filter.is_none() || only.is_some())
                    && (picks || aggregate.arguments.iter().all(|a| self.plain(a).is_some()))
            })
    }

    /// The stored column that an argument is, maybe as a wider number.
    fn plain(&self, argument: &Expr) -> Option<usize> {
        let spec = self.asked.snapshot.spec();
        match argument {
            Expr::Column(position) if *position < spec.columns.len() => Some(*position),
            Expr::Cast(inner, to) => {
                let position = self.plain(inner).filter(|_| matches!(inner.as_ref(), Expr::Column(_)))?;
                let from = spec.columns[position].column_type.arrow();
                // Casts that every value passes.
                let widens = match to {
                    DataType::Float64 => from.is_integer(),
                    DataType::Int64 => from.is_signed_integer(),
                    DataType::UInt64 => from.is_unsigned_integer(),
                    _ => false,
                };
                widens.then_some(position)
            }
            _ => None,
        }
    }

    /// Aggregates plain columns: by summaries where they are, else by slices of the columns as they are mapped.
    fn direct(&mut self, columns: &CoverColumns<'_>, number: u32) -> Result<()> {
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
        self.grow();
        let all = std::mem::take(&mut self.runs);
        let all_cut = whole_blocks(&all, first);
        let slots = self.slots.iter_mut().zip(self.asked.aggregates).zip(&self.only_symbols);
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
                Slot::Picked(picks) => picks.update(Assigned::Runs(runs), Positions::From(position(number, 0)), times),
                Slot::Kept(accumulator) if aggregate.arguments.is_empty() => {
                    accumulator.update(&[], Assigned::Runs(runs))?;
                }
                Slot::Kept(accumulator) => {
                    let plain = plain_of(self.asked.snapshot, &aggregate.arguments[0]);
                    let summaries = match plain {
                        Some(column) if !whole.is_empty() && accumulator.takes_summaries() => {
                            summaries(self.asked.snapshot, cover, column)?
                        }
                        _ => None,
                    };
                    match summaries {
                        Some(summaries) => {
                            let edges = by_summaries(accumulator.as_mut(), summaries, whole, edges, first);
                            over_runs(self.asked, columns, accumulator.as_mut(), aggregate, &edges)?;
                        }
                        None => over_runs(self.asked, columns, accumulator.as_mut(), aggregate, runs)?,
                    }
                }
            }
        }
        self.runs = all;
        Ok(())
    }

    /// Adds the runs of a span: one, or one for each bucket.
    fn cut(&mut self, rows: Range<usize>, times: Option<&[i64]>) -> Result<()> {
        let (Some((key, buckets)), Some(times)) = (self.bucket, times) else {
            if !rows.is_empty() {
                let group = self.groups.find(&self.words);
                self.runs.push(Run { group, start: rows.start, end: rows.end });
            }
            return Ok(());
        };
        let mut start = rows.start;
        while start < rows.end {
            let (bucket, bucket_end) = bucket_of(buckets, times[start])?;
            self.words[key] = bucket.cast_unsigned();
            let end = gallop(times, start + 1..rows.end, bucket_end);
            let group = self.groups.find(&self.words);
            self.runs.push(Run { group, start, end });
            start = end;
        }
        Ok(())
    }

    /// Aggregates a block of rows whose filter, keys and arguments are evaluated.
    fn block(&mut self, columns: &CoverColumns<'_>, number: u32, block: &Block) -> Result<()> {
        let cover = columns.cover();
        let mut chunk = BlockColumns { columns, rows: block.rows.clone(), mask: None, kept: block.rows.len() };
        let mut positions: Option<Vec<u64>> = None;
        if let Some(predicate) = self.asked.predicate {
            let mask = predicate.evaluate(&chunk, self.asked.constants)?.into_array(block.rows.len())?;
            let mask = holds(&mask)?;
            chunk.kept = mask.true_count();
            if chunk.kept == 0 {
                return Ok(());
            }
            if chunk.kept < block.rows.len() {
                let start = block.rows.start - cover.rows.start;
                positions = Some(mask.values().set_indices().map(|row| position(number, start + row)).collect());
                chunk.mask = Some(mask);
            }
        }
        let times = match self.needs_times() {
            true => Some(chunk.column(self.asked.snapshot.spec().time_position())?.into_array(chunk.kept)?),
            false => None,
        };
        let times = times.as_ref().map(crate::table::times_of).transpose()?;
        let values = self.value_keys(&chunk)?;
        let places = ValueKey::places(&values, chunk.kept);
        self.runs.clear();
        self.rows.clear();
        let mut start = 0;
        for span in &block.spans {
            self.set_symbol(cover, span.run)?;
            let end = start + chunk.kept_of(span.rows.start - block.rows.start..span.rows.end - block.rows.start);
            if values.is_empty() {
                self.cut(start..end, times)?;
            } else {
                self.cut_by_values(start..end, times, &values, places.as_ref())?;
            }
            start = end;
        }
        self.grow();
        let runs = std::mem::take(&mut self.runs);
        let rows = std::mem::take(&mut self.rows);
        let positions = match &positions {
            Some(positions) => Positions::Listed(positions),
            None => Positions::From(position(number, block.rows.start - cover.rows.start)),
        };
        let as_they_stand = if values.is_empty() { Assigned::Runs(&runs) } else { Assigned::Rows(&rows) };
        self.pick(&chunk, as_they_stand, positions, times)?;
        let grouped =
            if values.is_empty() || !self.gains_by_order { None } else { Grouped::new(&rows, self.groups.len()) };
        match &grouped {
            Some(Grouped { runs, order: Some(order) }) => {
                self.keep(&OrderedColumns { block: &chunk, order, taken: RefCell::default() }, Assigned::Runs(runs))?;
            }
            Some(Grouped { runs, order: None }) => self.keep(&chunk, Assigned::Runs(runs))?,
            None => self.keep(&chunk, as_they_stand)?,
        }
        (self.runs, self.rows) = (runs, rows);
        Ok(())
    }

    /// Offers the rows of a block to those slots that pick some.
    fn pick(
        &mut self,
        chunk: &BlockColumns<'_>,
        assigned: Assigned<'_>,
        positions: Positions<'_>,
        times: Option<&[i64]>,
    ) -> Result<()> {
        for (slot, aggregate) in self.slots.iter_mut().zip(self.asked.aggregates) {
            if let Slot::Picked(picks) = slot {
                let only;
                let assigned = match filtered(aggregate, chunk, assigned, self.asked.constants)? {
                    Some(rows) => {
                        only = rows;
                        Assigned::Rows(&only)
                    }
                    None => assigned,
                };
                picks.update(assigned, positions, times);
            }
        }
        Ok(())
    }

    /// Takes the rows of a block into the other slots.
    fn keep(&mut self, chunk: &dyn Columns, assigned: Assigned<'_>) -> Result<()> {
        let mut evaluated: Vec<Option<ArrayRef>> = vec![None; self.same.iter().map(Vec::len).sum()];
        for ((slot, aggregate), same) in self.slots.iter_mut().zip(self.asked.aggregates).zip(&self.same) {
            if let Slot::Kept(accumulator) = slot {
                let only;
                let assigned = match filtered(aggregate, chunk, assigned, self.asked.constants)? {
                    Some(rows) => {
                        only = rows;
                        Assigned::Rows(&only)
                    }
                    None => assigned,
                };
                let mut arguments = Vec::with_capacity(same.len());
                for (argument, number) in aggregate.arguments.iter().zip(same) {
                    let array = match &evaluated[*number] {
                        Some(known) => known,
                        None => {
                            let value = argument.evaluate(chunk, self.asked.constants)?.into_array(chunk.rows())?;
                            evaluated[*number].insert(value)
                        }
                    };
                    arguments.push(ArrayRef::clone(array));
                }
                accumulator.update(&arguments, assigned)?;
            }
        }
        Ok(())
    }

    /// The words of the keys that are values, row by row.
    fn value_keys(&mut self, chunk: &BlockColumns<'_>) -> Result<Vec<ValueKey>> {
        let mut keys = Vec::new();
        for (position, key) in self.asked.keys.iter().enumerate() {
            if let Key::Value(expr) = key {
                let array = match expr.evaluate_coded(chunk, self.asked.constants)? {
                    Some(coded) => coded,
                    None => expr.evaluate(chunk, self.asked.constants)?.into_array(chunk.kept)?,
                };
                let (texts, numbered) = (&mut self.texts[position], &mut self.numbered[position]);
                keys.push(ValueKey::new(position, &array, texts, numbered)?);
            }
        }
        Ok(keys)
    }

    /// Finds the group of each row of a span. `places` has a small number for the values of each row, and how many there are.
    fn cut_by_values(
        &mut self,
        rows: Range<usize>,
        times: Option<&[i64]>,
        values: &[ValueKey],
        places: Option<&(Vec<u32>, usize)>,
    ) -> Result<()> {
        self.rows.resize(rows.start, NO_GROUP);
        let mut local: Vec<u32> = Vec::new();
        let mut start = rows.start;
        while start < rows.end {
            let mut end = rows.end;
            if let (Some((key, buckets)), Some(times)) = (self.bucket, times) {
                let (bucket, bucket_end) = bucket_of(buckets, times[start])?;
                self.words[key] = bucket.cast_unsigned();
                end = gallop(times, start + 1..rows.end, bucket_end);
            }
            // With few choices the groups of this stretch are looked up in a small table, each found by hash but once.
            match places.filter(|(_, choices)| *choices <= (end - start).max(64)) {
                Some((places, choices)) => {
                    local.clear();
                    local.resize(*choices, NO_GROUP);
                    for (row, place) in (start..end).zip(&places[start..end]) {
                        let mut group = local[*place as usize];
                        if group == NO_GROUP {
                            group = self.find_row(values, row);
                            local[*place as usize] = group;
                        }
                        self.rows.push(group);
                    }
                }
                None => {
                    for row in start..end {
                        let group = self.find_row(values, row);
                        self.rows.push(group);
                    }
                }
            }
            start = end;
        }
        Ok(())
    }

    fn find_row(&mut self, values: &[ValueKey], row: usize) -> u32 {
        let nulls = self.asked.keys.len();
        for value in values {
            let word = value.word(row);
            self.words[value.key] = word.unwrap_or(0);
            self.words[nulls] &= !(1 << value.key);
            self.words[nulls] |= u64::from(word.is_none()) << value.key;
        }
        self.groups.find(&self.words)
    }

    fn merge(&mut self, other: State<'_>) -> Result<()> {
        let mut mapping = Vec::with_capacity(other.groups.len());
        let keys = self.asked.keys.len();
        let mut texts: Vec<Vec<u32>> = vec![Vec::new(); keys];
        for (key, of_key) in texts.iter_mut().enumerate() {
            of_key.extend(other.texts[key].iter().map(|text| self.texts[key].number(text)));
        }
        let mut words = vec![0; keys + 1];
        for group in 0..other.groups.len() {
            words.copy_from_slice(other.groups.words(group));
            for (key, of_key) in texts.iter().enumerate() {
                if !of_key.is_empty() && words[keys] & (1 << key) == 0 {
                    words[key] = u64::from(of_key[usize::try_from(words[key]).unwrap_or(0)]);
                }
            }
            mapping.push(self.groups.find(&words));
        }
        self.grow();
        for (ours, theirs) in self.slots.iter_mut().zip(other.slots) {
            match (ours, theirs) {
                (Slot::Kept(ours), Slot::Kept(theirs)) => ours.merge(theirs, &mapping)?,
                (Slot::Picked(ours), Slot::Picked(theirs)) => ours.merge(&theirs, &mapping),
                _ => return Err(Error::Unsupported("a merge of two kinds of aggregates".to_owned())),
            }
        }
        Ok(())
    }

    fn finish(self, covers: &[&Cover]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.asked.keys.len() + self.slots.len());
        for (key, data_type) in self.asked.key_types.iter().enumerate() {
            columns.push(key_column(&self.groups, key, &self.texts[key], data_type)?);
        }
        for (slot, aggregate) in self.slots.into_iter().zip(self.asked.aggregates) {
            columns.push(match slot {
                Slot::Kept(accumulator) => accumulator.finish()?,
                Slot::Picked(picks) => picks.finish(&aggregate.data_type, |number, rows| {
                    let cover = covers[number as usize];
                    let picked = PickedColumns { columns: &CoverColumns::new(self.asked.snapshot, cover), rows };
                    aggregate.arguments[0].evaluate(&picked, self.asked.constants)?.into_array(rows.len())
                })?,
            });
        }
        Ok(columns)
    }
}

fn slot(asked: &TableAggregate<'_>, aggregate: &Aggregate) -> Result<Slot> {
    Ok(match aggregate.function.picks() {
        Some((last, by_time)) => Slot::Picked(Picks::new(last, by_time)),
        None => {
            let empty = EmptyColumns { snapshot: asked.snapshot };
            let types = aggregate
                .arguments
                .iter()
                .map(|argument| Ok(argument.evaluate(&empty, asked.constants)?.data_type().clone()))
                .collect::<Result<Vec<_>>>()?;
            Slot::Kept(accumulator(aggregate, &types)?)
        }
    })
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

/// Blocks that lie whole in a run, by the run's group, and what is left of the runs.
fn whole_blocks(runs: &[Run], first: usize) -> (Vec<(u32, Range<usize>)>, Vec<Run>) {
    let (mut whole, mut edges) = (Vec::new(), Vec::with_capacity(runs.len()));
    for run in runs {
        let (start, end) = ((first + run.start).div_ceil(BLOCK_ROWS), (first + run.end) / BLOCK_ROWS);
        if start >= end {
            edges.push(*run);
            continue;
        }
        whole.push((run.group, start..end));
        edges.push(Run { end: start * BLOCK_ROWS - first, ..*run });
        edges.push(Run { start: end * BLOCK_ROWS - first, ..*run });
    }
    edges.retain(|run| run.start < run.end);
    (whole, edges)
}

/// Takes in the summaries of whole blocks; gives the runs that are left, with those of blocks whose summary didn't do.
fn by_summaries(
    accumulator: &mut dyn Accumulator,
    summaries: &ColumnSummaries,
    whole: &[(u32, Range<usize>)],
    edges: &[Run],
    first: usize,
) -> Vec<Run> {
    let mut left = edges.to_vec();
    for (group, blocks) in whole {
        for block in blocks.clone() {
            let summary = summaries.get(block);
            if !accumulator.update_summary(*group, summaries.kind(), &summary) {
                let start = block * BLOCK_ROWS - first;
                left.push(Run { group: *group, start, end: start + BLOCK_ROWS });
            }
        }
    }
    left
}

/// Takes in runs of plain columns.
fn over_runs(
    asked: &TableAggregate<'_>,
    columns: &CoverColumns<'_>,
    accumulator: &mut dyn Accumulator,
    aggregate: &Aggregate,
    runs: &[Run],
) -> Result<()> {
    let as_stored = aggregate.arguments.iter().map(|argument| match argument {
        Expr::Column(position) => columns.column(*position).map(Some),
        _ => Ok(None),
    });
    let as_stored = as_stored.collect::<Result<Option<Vec<_>>>>()?;
    if let Some(stored) = as_stored {
        let arguments: Vec<ArrayRef> = stored.into_iter().cloned().collect();
        return accumulator.update(&arguments, Assigned::Runs(runs));
    }
    // A cast costs a copy, so it is made of the runs' rows alone.
    let first = columns.cover().rows.start;
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min(start + BLOCK_ROWS_MAX);
            let chunk = BlockColumns { columns, rows: first + start..first + end, mask: None, kept: end - start };
            let arguments = aggregate
                .arguments
                .iter()
                .map(|argument| argument.evaluate(&chunk, asked.constants)?.into_array(end - start))
                .collect::<Result<Vec<_>>>()?;
            accumulator.update(&arguments, Assigned::Runs(&[Run { group: run.group, start: 0, end: end - start }]))?;
            start = end;
        }
    }
    Ok(())
}

/// Counts and single sums cost less row by row than the order does.
fn gains_by_order(aggregates: &[Aggregate]) -> bool {
    let kept = aggregates.iter().map(|aggregate| aggregate.function).filter(|function| function.picks().is_none());
    let weights = kept.map(|function| match function {
        AggregateFunction::CountRows | AggregateFunction::Count => 0,
        AggregateFunction::Sum | AggregateFunction::Average => 1,
        _ => 2,
    });
    weights.sum::<usize>() >= 3
}

fn same_arguments(asked: &TableAggregate<'_>) -> Vec<Vec<usize>> {
    let mut known: Vec<&Expr> = Vec::new();
    let number = |argument| {
        let first = known.iter().position(|one| one.is_same(argument, asked.constants));
        known.push(argument);
        first.unwrap_or(known.len() - 1)
    };
    let mut numbers =
        asked.aggregates.iter().flat_map(|aggregate| &aggregate.arguments).map(number).collect::<Vec<_>>();
    let mut rest = numbers.drain(..);
    asked.aggregates.iter().map(|aggregate| rest.by_ref().take(aggregate.arguments.len()).collect()).collect()
}

/// The symbols that an aggregate's filter asks for, if it asks for nothing else.
fn only_symbols(asked: &TableAggregate<'_>, aggregate: &Aggregate) -> Option<Vec<String>> {
    let spec = asked.snapshot.spec();
    let position = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol))?;
    let mut symbols = Vec::new();
    list_symbols(aggregate.filter.as_ref()?, position, asked.constants, &mut symbols).then_some(symbols)
}

fn list_symbols(filter: &Expr, position: usize, constants: &[ArrayRef], symbols: &mut Vec<String>) -> bool {
    match filter {
        Expr::Binary(BinaryOp::Or, left, right) => {
            list_symbols(left, position, constants, symbols) && list_symbols(right, position, constants, symbols)
        }
        Expr::Binary(BinaryOp::Equal, left, right) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Constant(constant)) | (Expr::Constant(constant), Expr::Column(column))
                if *column == position =>
            {
                // What equals null is no symbol.
                crate::plan::text(&constants[*constant]).map(|text| symbols.extend(text)).is_ok()
            }
            _ => false,
        },
        _ => false,
    }
}

/// The runs of those spans whose symbol is one of a few.
fn runs_of(cover: &Cover, of_span: &[Range<usize>], runs: &[Run], symbols: &[String]) -> Result<Vec<Run>> {
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

/// The rows of a block by group.
struct Grouped {
    runs: Vec<Run>,
    /// The rows in the order of the runs; `None` if they stand so.
    order: Option<UInt32Array>,
}

impl Grouped {
    /// `None` if there are so many groups that runs would be short.
    fn new(rows: &[u32], groups: usize) -> Option<Grouped> {
        let changes = rows.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if changes * RUN_ROWS_MIN < rows.len() {
            let mut runs: Vec<Run> = Vec::with_capacity(changes + 1);
            for (row, group) in rows.iter().enumerate() {
                match runs.last_mut().filter(|run| run.group == *group) {
                    Some(run) => run.end = row + 1,
                    None => runs.push(Run { group: *group, start: row, end: row + 1 }),
                }
            }
            runs.retain(|run| run.group != NO_GROUP);
            return Some(Grouped { runs, order: None });
        }
        if groups * RUN_ROWS_MIN > rows.len() {
            return None;
        }
        let mut ends = vec![0u32; groups + 1];
        // Rows without a group come last, and are in no run.
        let place = |group: u32| (group as usize).min(groups);
        rows.iter().for_each(|group| ends[place(*group)] += 1);
        let mut runs = Vec::new();
        let mut start = 0;
        for (group, end) in (0u32..).zip(&mut ends) {
            let count = std::mem::replace(end, start);
            if count > 0 && (group as usize) < groups {
                runs.push(Run { group, start: start as usize, end: (start + count) as usize });
            }
            start += count;
        }
        let mut order = vec![0u32; rows.len()];
        for (row, group) in (0u32..).zip(rows) {
            let next = &mut ends[place(*group)];
            order[*next as usize] = row;
            *next += 1;
        }
        Some(Grouped { runs, order: Some(order.into()) })
    }
}

/// Columns of a block in another order.
struct OrderedColumns<'a> {
    block: &'a BlockColumns<'a>,
    order: &'a UInt32Array,
    /// What was put in order before, for several aggregates ask for it.
    taken: RefCell<HashMap<usize, Value>>,
}

impl Columns for OrderedColumns<'_> {
    fn rows(&self) -> usize {
        self.order.len()
    }

    fn column(&self, position: usize) -> Result<Value> {
        if let Some(value) = self.taken.borrow().get(&position) {
            return Ok(value.clone());
        }
        let value = match self.block.column(position)? {
            Value::Array(array) => Value::Array(take(&array, self.order, None)?),
            scalar => scalar,
        };
        self.taken.borrow_mut().insert(position, value.clone());
        Ok(value)
    }
}

/// The groups of the rows that an aggregate's filter keeps; `None` without a filter.
fn filtered(
    aggregate: &Aggregate,
    chunk: &dyn Columns,
    assigned: Assigned<'_>,
    constants: &[ArrayRef],
) -> Result<Option<Vec<u32>>> {
    let Some(filter) = &aggregate.filter else { return Ok(None) };
    let mask = filter.evaluate(chunk, constants)?.into_array(chunk.rows())?;
    Ok(Some(masked(assigned, &holds(&mask)?)))
}

/// The same groups without the rows that a mask leaves out.
fn masked(assigned: Assigned<'_>, mask: &BooleanArray) -> Vec<u32> {
    let mut groups = vec![NO_GROUP; mask.len()];
    let mut runs: &[Run] = &[];
    for row in mask.values().set_indices() {
        groups[row] = match assigned {
            Assigned::Rows(rows) => rows[row],
            Assigned::Runs(all) => {
                if runs.is_empty() {
                    runs = all;
                }
                while let [run, rest @ ..] = runs
                    && run.end <= row
                    && !rest.is_empty()
                {
                    runs = rest;
                }
                match runs {
                    [run, ..] if run.start <= row && row < run.end => run.group,
                    _ => NO_GROUP,
                }
            }
        };
    }
    groups
}

/// The first row of `rows` at or after an instant, or their end: by steps that double, then by halves.
fn gallop(times: &[i64], rows: Range<usize>, instant: i64) -> usize {
    let (mut low, mut step) = (rows.start, 1);
    while low + step <= rows.end && times[low + step - 1] < instant {
        low += step;
        step *= 2;
    }
    let high = rows.end.min(low + step);
    low + times[low..high].partition_point(|time| *time < instant)
}

/// Columns of a block, of the rows that a mask keeps.
struct BlockColumns<'a> {
    columns: &'a CoverColumns<'a>,
    /// Rows of the segment.
    rows: Range<usize>,
    mask: Option<BooleanArray>,
    kept: usize,
}

impl BlockColumns<'_> {
    /// How many of some rows of the block are kept.
    fn kept_of(&self, rows: Range<usize>) -> usize {
        match &self.mask {
            None => rows.len(),
            Some(mask) => mask.values().slice(rows.start, rows.len()).count_set_bits(),
        }
    }
}

impl Columns for BlockColumns<'_> {
    fn rows(&self) -> usize {
        self.kept
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == self.columns.date_position() {
            return Ok(Value::Scalar(self.columns.date()));
        }
        let start = self.rows.start - self.columns.cover().rows.start;
        let column = self.columns.column(position)?.slice(start, self.rows.len());
        Ok(Value::Array(match &self.mask {
            None => column,
            Some(mask) => filter(&column, mask)?,
        }))
    }
}

/// Columns of no rows, to learn types.
struct EmptyColumns<'a> {
    snapshot: &'a TableSnapshot,
}

impl Columns for EmptyColumns<'_> {
    fn rows(&self) -> usize {
        0
    }

    fn column(&self, position: usize) -> Result<Value> {
        let data_type = if position == date_position(self.snapshot) {
            DataType::Date32
        } else {
            self.snapshot.spec().columns[position].column_type.arrow()
        };
        Ok(Value::Array(arrow::array::new_empty_array(&data_type)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_finds_what_a_search_finds() {
        let times: Vec<i64> = (0..200).map(|row| row / 3 * 5).collect();
        for start in [0, 1, 7, 150, 199, 200] {
            for instant in -3..350 {
                let expected = start + times[start..].partition_point(|time| *time < instant);
                assert_eq!(gallop(&times, start..times.len(), instant), expected, "from {start} to {instant}");
            }
        }
    }

    #[test]
    fn whole_blocks_and_edges_make_up_the_runs() {
        let runs = [Run { group: 0, start: 0, end: 100 }, Run { group: 1, start: 100, end: 5000 }];
        let (whole, edges) = whole_blocks(&runs, 1000);
        assert_eq!(whole, [(1, 2..5)]);
        let rows: usize = edges.iter().map(|run| run.end - run.start).sum();
        assert_eq!(rows + 3 * BLOCK_ROWS, 5000);
        assert_eq!(edges[1], Run { group: 1, start: 100, end: 2 * BLOCK_ROWS - 1000 });
    }
}
