//! Builds the index of a segment from its rows.

use arrow::array::RecordBatch;

use super::directory::Directory;
use super::format::{SectionKind, assemble};
use super::summary::{Summary, ValueKind, summarise};
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
    let directory = Directory::of(spec, rows);
    let mut sections = vec![
        (SectionKind::Checksums, 0, words(checksums.iter().map(|crc| crc.to_le_bytes()))),
        (SectionKind::SymbolOffsets, 0, words(directory.offsets.iter().map(|offset| offset.to_le_bytes()))),
        (SectionKind::SymbolTexts, 0, directory.texts.to_vec()),
        (SectionKind::SymbolRows, 0, words(directory.rows.iter().map(|row| row.to_le_bytes()))),
        (SectionKind::SymbolNull, 0, vec![u8::from(directory.first_is_null)]),
    ];
    let (mut names, mut number) = (Vec::new(), 0);
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let Some(by_block) = summarise(column) else { continue };
        sections.push((
            SectionKind::BlockSummaries,
            number,
            words(words_of(&by_block).iter().map(|w| w.to_le_bytes())),
        ));
        let kind = ValueKind::of(field.data_type()).unwrap_or(ValueKind::Signed);
        names.extend_from_slice(&(kind as u32).to_le_bytes());
        names.extend_from_slice(&u32::try_from(field.name().len()).unwrap_or(0).to_le_bytes());
        names.extend_from_slice(field.name().as_bytes());
        number += 1;
    }
    sections.push((SectionKind::ColumnNames, 0, names));
    assemble(rows.num_rows() as u64, &sections)
}

/// Summaries column by column: the counts of all blocks, then the least values of all, and so on.
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

fn words<const N: usize>(items: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    items.flatten().collect()
}
