//! Keys that depend on the symbol alone, such as a column of the instrument that rows are joined to.
//!
//! Such a key is computed once for each symbol of a segment, not for each row. All rows of a run then have the same
//! key, so that the run is aggregated as for a grouping by symbol: from summaries of blocks, or over slices of columns.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int32Type};
use splay_store::{Segment, TableSnapshot};

use super::TableAggregate;
use super::cuts::is_step;
use crate::aggregate::Key;
use crate::aggregate::keys::{TextWords, optional_words};
use crate::error::Result;
use crate::expr::Expr;
use crate::expr::codes::unless_refused;
use crate::table::{Cover, SegmentSymbols, Span};
use crate::texts::Texts;

/// Runs of a segment for each that is needed, up to which keys are computed for all of them.
const RUNS_OF_SPAN_MAX: usize = 8;

/// Runs from which on keys are computed for all of a segment's.
const RUNS_MANY: usize = 64;

/// The keys that follow from the symbol alone.
pub(super) struct SymbolKeys<'a> {
    /// Positions among all keys.
    keys: Vec<(usize, &'a Expr)>,
    of_runs: Option<RunWords>,
}

/// The keys of runs of the last segment.
struct RunWords {
    segment: Arc<Segment>,
    runs: Range<usize>,
    /// By key, the word of each run, `None` for null. There are none if evaluation fails for a symbol that the filter may exclude: then keys
    /// are evaluated row by row.
    words: Option<Vec<Vec<Option<u64>>>>,
}

/// The keys that read the symbol and nothing else, with their positions. None where another key has to be looked at row by row in any case: then
/// groups of all keys together may be found by place (`dense.rs`).
pub(super) fn of_symbols<'a>(
    keys: &'a [Key],
    snapshot: &TableSnapshot,
    constants: &[ArrayRef],
) -> Vec<(usize, &'a Expr)> {
    let spec = snapshot.spec();
    let mut found = Vec::new();
    for (position, key) in keys.iter().enumerate() {
        let Key::Value(expr) = key else { continue };
        match spec.symbol_position() {
            Some(symbol) if expr.only_column() == Some(symbol) => found.push((position, expr)),
            _ if is_step(key, spec.time_position(), constants) => {}
            _ => return Vec::new(),
        }
    }
    found
}

impl<'a> SymbolKeys<'a> {
    pub fn new(aggregation: &'a TableAggregate<'a>) -> SymbolKeys<'a> {
        let keys = match aggregation.by_rows {
            true => Vec::new(),
            false => of_symbols(aggregation.keys, aggregation.snapshot, aggregation.constants),
        };
        SymbolKeys { keys, of_runs: None }
    }

    /// Whether a key has one value in each run.
    pub fn has(&self, key: usize) -> bool {
        let are_refused = self.of_runs.as_ref().is_some_and(|of_runs| of_runs.words.is_none());
        !are_refused && self.keys.iter().any(|(position, _)| *position == key)
    }

    /// Computes the keys of a cover's runs, unless they are cached.
    pub fn enter(
        &mut self,
        cover: &Cover,
        texts: &mut [Texts],
        text_words: &mut [TextWords],
        constants: &[ArrayRef],
    ) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let run_of = |span: Option<&Span>| span.and_then(|span| span.run);
        let ends = run_of(cover.spans.first()).zip(run_of(cover.spans.last()));
        let needed = ends.map_or(0..0, |(first, last)| first..last + 1);
        let has_needed = |cached: &RunWords| {
            Arc::ptr_eq(&cached.segment, &cover.segment)
                && cached.runs.start <= needed.start
                && needed.end <= cached.runs.end
        };
        if self.of_runs.as_ref().is_some_and(has_needed) {
            return Ok(());
        }
        let index = cover.segment.index()?;
        // A symbol has the same keys in each segment, and covers of one symbol come date by date.
        if let Some(cached) = self.of_runs.as_mut().filter(|cached| cached.runs.len() == 1 && cached.words.is_some())
            && needed.len() == 1
            && cached.segment.index()?.symbol(cached.runs.start)? == index.symbol(needed.start)?
        {
            (cached.segment, cached.runs) = (Arc::clone(&cover.segment), needed);
            return Ok(());
        }
        let all = index.symbols()?;
        // The second cover of a segment pays for all its runs.
        let came_before = self.of_runs.as_ref().is_some_and(|cached| Arc::ptr_eq(&cached.segment, &cover.segment));
        let are_few = needed.len() < RUNS_MANY && cover.spans.len() * RUNS_OF_SPAN_MAX < all && !came_before;
        let (runs, symbols) = match are_few {
            true => (needed.clone(), SegmentSymbols::of_runs(index, &needed)?),
            false => (0..all, SegmentSymbols::of(index)?),
        };
        let words = self
            .keys
            .iter()
            .map(|(key, expr)| words(expr, &symbols, &mut texts[*key], &mut text_words[*key], constants));
        let words = if ends.is_some() { unless_refused(words.collect::<Result<Vec<_>>>())? } else { None };
        self.of_runs = Some(RunWords { segment: Arc::clone(&cover.segment), runs, words });
        Ok(())
    }

    /// Sets the words of a run.
    pub fn set(&self, run: usize, words: &mut [u64]) {
        let Some(RunWords { runs, words: Some(cached), .. }) = &self.of_runs else { return };
        let nulls = words.len() - 1;
        for ((key, _), of_runs) in self.keys.iter().zip(cached) {
            let word = run.checked_sub(runs.start).and_then(|run| of_runs.get(run)).copied().flatten();
            words[*key] = word.unwrap_or(0);
            words[nulls] = words[nulls] & !(1 << key) | u64::from(word.is_none()) << key;
        }
    }
}

/// The word of a key for each symbol, `None` for null.
fn words(
    expr: &Expr,
    symbols: &SegmentSymbols,
    texts: &mut Texts,
    text_words: &mut TextWords,
    constants: &[ArrayRef],
) -> Result<Vec<Option<u64>>> {
    let values = expr.evaluate_key(symbols, constants)?;
    match values.as_dictionary_opt::<Int32Type>() {
        // Texts that are looked up for several segments are numbered once.
        Some(coded) if *coded.values().data_type() == DataType::Utf8 => {
            if text_words.are_few(coded.values(), coded.len()) {
                return optional_words(&values, texts);
            }
            let of_texts = text_words.of_texts(coded.values(), texts)?;
            let word = |code: i32| usize::try_from(code).ok().and_then(|code| of_texts.get(code)).copied().flatten();
            Ok(coded.keys().iter().map(|code| code.and_then(word)).collect())
        }
        _ => optional_words(&values, texts),
    }
}
