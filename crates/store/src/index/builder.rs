//! Makes an index from a segment's rows.

use arrow::array::{Array, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;

use super::format::{SectionKind, assemble};
use super::summary::{Summarised, Summary, ValueKind, summarise};
use crate::schema::TableSpec;

/// In a stored summary's count: its sum is unknown, its first value is null, its last value is null.
pub(super) const SUM_UNKNOWN: u64 = 1 << 63;
pub(super) const FIRST_NULL: u64 = 1 << 62;
pub(super) const LAST_NULL: u64 = 1 << 61;
pub(super) const COUNT_MASK: u64 = LAST_NULL - 1;

/// Words of a stored summary: count with marks, min, max, sum, first, last.
pub(super) const SUMMARY_WORDS: usize = 6;

/// The bytes of the index of a segment with these rows, and the digest for the manifest. Rows are in the table's order.
pub(crate) fn build(spec: &TableSpec, rows: &RecordBatch, checksums: &[u32]) -> (Vec<u8>, String) {
    let runs = symbol_runs(spec, rows);
    let mut sections = vec![(SectionKind::Checksums, 0, words(checksums.iter().map(|crc| crc.to_le_bytes())))];
    sections.extend(directory(&runs, rows.num_rows()));
    let mut names = Vec::new();
    let mut number = 0;
    let ends: Vec<usize> = runs.iter().skip(1).map(|run| run.first).chain([rows.num_rows()]).collect();
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let Some(Summarised { by_run, by_block }) = summarise(column, &ends) else { continue };
        sections.push((SectionKind::SymbolSummaries, number, bytes_of(&words_of(&by_run))));
        sections.push((SectionKind::BlockSummaries, number, bytes_of(&words_of(&by_block))));
        let kind = ValueKind::of(field.data_type()).unwrap_or(ValueKind::Signed);
        names.extend_from_slice(&(kind as u32).to_le_bytes());
        names.extend_from_slice(&u32::try_from(field.name().len()).unwrap_or(0).to_le_bytes());
        names.extend_from_slice(field.name().as_bytes());
        number += 1;
    }
    sections.push((SectionKind::ColumnNames, 0, names));
    assemble(rows.num_rows() as u64, &sections)
}

/// Rows of equal symbol.
struct Run {
    symbol: Option<String>,
    first: usize,
}

/// The runs of equal symbols; one run without a symbol where the table has no symbol column.
fn symbol_runs(spec: &TableSpec, rows: &RecordBatch) -> Vec<Run> {
    let Some(column) = spec.symbol_position() else { return vec![Run { symbol: None, first: 0 }] };
    let column = rows.column(column).as_dictionary::<Int32Type>();
    let texts = column.values().as_string::<i32>();
    let keys = column.keys();
    let mut runs = Vec::new();
    let mut row = 0;
    while row < keys.len() {
        let symbol = keys.is_valid(row).then(|| texts.value(keys.value(row) as usize).to_owned());
        runs.push(Run { symbol, first: row });
        row = run_end(keys, texts, row);
    }
    runs
}

/// The row behind the run that begins at `start`: galloping, since runs are long.
fn run_end(keys: &Int32Array, texts: &StringArray, start: usize) -> usize {
    // A dictionary that was read from Parquet may hold a text twice.
    let text = |row: usize| keys.is_valid(row).then(|| texts.value(keys.value(row) as usize));
    let own = text(start);
    let same = |row: usize| text(row) == own;
    let (mut low, mut step) = (start, 1);
    while low + step < keys.len() && same(low + step) {
        low += step;
        step *= 2;
    }
    let mut high = (low + step).min(keys.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if same(middle) { low = middle } else { high = middle }
    }
    high
}

fn directory(runs: &[Run], rows: usize) -> Vec<(SectionKind, u32, Vec<u8>)> {
    let mut offsets = vec![0u32];
    let mut texts = Vec::new();
    for run in runs {
        texts.extend_from_slice(run.symbol.as_deref().unwrap_or_default().as_bytes());
        offsets.push(u32::try_from(texts.len()).unwrap_or(u32::MAX));
    }
    let first_is_null = runs.first().is_some_and(|run| run.symbol.is_none());
    let first_rows = runs.iter().map(|run| run.first as u64).chain([rows as u64]);
    vec![
        (SectionKind::SymbolOffsets, 0, words(offsets.iter().map(|offset| offset.to_le_bytes()))),
        (SectionKind::SymbolTexts, 0, texts),
        (SectionKind::SymbolRows, 0, words(first_rows.map(u64::to_le_bytes))),
        (SectionKind::SymbolNull, 0, vec![u8::from(first_is_null)]),
    ]
}

/// Summaries as they are kept: the counts of all, then the least values of all, and so on.
pub(super) fn words_of(summaries: &[Summary]) -> Vec<u64> {
    let count = |s: &Summary| {
        s.count
            | if s.sum.is_none() { SUM_UNKNOWN } else { 0 }
            | if s.first.is_none() { FIRST_NULL } else { 0 }
            | if s.last.is_none() { LAST_NULL } else { 0 }
    };
    let mut words = Vec::with_capacity(summaries.len() * SUMMARY_WORDS);
    words.extend(summaries.iter().map(count));
    words.extend(summaries.iter().map(|summary| summary.min));
    words.extend(summaries.iter().map(|summary| summary.max));
    words.extend(summaries.iter().map(|summary| summary.sum.unwrap_or_default()));
    words.extend(summaries.iter().map(|summary| summary.first.unwrap_or_default()));
    words.extend(summaries.iter().map(|summary| summary.last.unwrap_or_default()));
    words
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words<const N: usize>(items: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    items.flatten().collect()
}
