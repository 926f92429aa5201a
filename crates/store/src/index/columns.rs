//! The summarised columns of an index: found by name, their summaries read once.

use std::sync::OnceLock;

use arrow::array::RecordBatch;
use arrow::buffer::ScalarBuffer;

use super::builder::{COUNT_MASK, FIRST_NULL, LAST_NULL, SUM_UNKNOWN, words_of};
use super::summary::{Summary, ValueKind};
use crate::little_endian::u32_at;

/// Summaries of one column by block.
#[derive(Debug, Clone)]
pub struct ColumnSummaries {
    kind: ValueKind,
    words: ScalarBuffer<u64>,
    len: usize,
}

impl ColumnSummaries {
    /// `words` holds [`SUMMARY_WORDS`](super::builder::SUMMARY_WORDS) for each of `len` summaries.
    pub(super) fn new(kind: ValueKind, words: ScalarBuffer<u64>, len: usize) -> ColumnSummaries {
        ColumnSummaries { kind, words, len }
    }

    /// Summaries that were just computed, not read from a file.
    pub(super) fn of(kind: ValueKind, summaries: &[Summary]) -> ColumnSummaries {
        ColumnSummaries::new(kind, words_of(summaries).into(), summaries.len())
    }

    /// How the values are to be read. That of the segment: a column that was widened since has another one in the table.
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The summary at `position`.
    ///
    /// # Panics
    /// If there are no more than `position`.
    #[must_use]
    pub fn get(&self, position: usize) -> Summary {
        assert!(position < self.len, "summary {position} of {}", self.len);
        let word = |field: usize| self.words[field * self.len + position];
        let marks = word(0);
        let unless = |mark: u64, value: u64| (marks & mark == 0).then_some(value);
        Summary {
            count: marks & COUNT_MASK,
            min: word(1),
            max: word(2),
            sum: unless(SUM_UNKNOWN, word(3)),
            first: unless(FIRST_NULL, word(4)),
            last: unless(LAST_NULL, word(5)),
        }
    }

    /// First values of all, as raw bits: for a time column the sampled timestamps.
    #[must_use]
    pub fn firsts(&self) -> &[u64] {
        &self.words[4 * self.len..5 * self.len]
    }
}

/// The summaries of one column. Its sections are checked at the first use, and kept.
#[derive(Debug)]
pub(super) struct SummarisedColumn {
    pub(super) name: String,
    pub(super) kind: ValueKind,
    pub(super) by_block: OnceLock<ColumnSummaries>,
}

impl SummarisedColumn {
    fn new(name: String, kind: ValueKind) -> SummarisedColumn {
        SummarisedColumn { name, kind, by_block: OnceLock::new() }
    }
}

/// All summarised columns.
#[derive(Debug)]
pub(super) struct SummarisedColumns {
    /// The columns, in the order in which the sections number them.
    columns: Vec<SummarisedColumn>,
    /// Numbers in the order of names without case.
    sorted: Vec<usize>,
}

impl SummarisedColumns {
    /// Reads the section of column names; `None` if it is something else.
    pub(super) fn parse(mut rest: &[u8]) -> Option<SummarisedColumns> {
        let mut columns = Vec::new();
        while !rest.is_empty() {
            let words = rest.get(..8)?;
            let kind = ValueKind::from_number(u32_at(words, 0))?;
            let end = 8usize.checked_add(usize::try_from(u32_at(words, 4)).ok()?)?;
            let name = std::str::from_utf8(rest.get(8..end)?).ok()?.to_owned();
            columns.push(SummarisedColumn::new(name, kind));
            rest = &rest[end..];
        }
        Some(SummarisedColumns::new(columns))
    }

    /// No columns: nothing is summarised.
    pub(super) fn none() -> SummarisedColumns {
        SummarisedColumns::new(Vec::new())
    }

    /// The columns of rows in memory that are summarised.
    pub(super) fn of(rows: &RecordBatch) -> SummarisedColumns {
        let fields = rows.schema_ref().fields().iter();
        let kinds = fields.filter_map(|field| Some((field.name().clone(), ValueKind::of(field.data_type())?)));
        SummarisedColumns::new(kinds.map(|(name, kind)| SummarisedColumn::new(name, kind)).collect())
    }

    fn new(columns: Vec<SummarisedColumn>) -> SummarisedColumns {
        let mut sorted: Vec<usize> = (0..columns.len()).collect();
        sorted.sort_by(|left, right| folded_bytes(&columns[*left].name).cmp(folded_bytes(&columns[*right].name)));
        SummarisedColumns { columns, sorted }
    }

    /// Number of the column of that name, in whatever case.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let place =
            self.sorted.partition_point(|number| folded_bytes(&self.columns[*number].name).lt(folded_bytes(name)));
        self.sorted.get(place).copied().filter(|number| self.columns[*number].name.eq_ignore_ascii_case(name))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn get(&self, number: usize) -> &SummarisedColumn {
        &self.columns[number]
    }
}

fn folded_bytes(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| byte.to_ascii_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn section(names: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for name in names {
            bytes.extend_from_slice(&(ValueKind::Float as u32).to_le_bytes());
            bytes.extend_from_slice(&u32::try_from(name.len()).unwrap().to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    #[test]
    fn columns_are_found_in_any_case() {
        let names = ["Price", "ask", "Bid", "askSize", "a"];
        let columns = SummarisedColumns::parse(&section(&names)).unwrap();
        for (number, name) in names.iter().enumerate() {
            for spelled in [name.to_lowercase(), name.to_uppercase(), (*name).to_owned()] {
                assert_eq!(columns.find(&spelled), Some(number), "{spelled}");
            }
        }
        for unknown in ["", "as", "asks", "zzz", "pricé"] {
            assert_eq!(columns.find(unknown), None, "{unknown}");
        }
        assert_eq!(SummarisedColumns::parse(&[]).unwrap().find("price"), None);
    }

    #[test]
    fn names_that_are_cut_or_of_no_kind_are_refused() {
        let bytes = section(&["price", "size"]);
        for length in (1..bytes.len()).filter(|length| *length != 13) {
            assert!(SummarisedColumns::parse(&bytes[..length]).is_none(), "cut to {length}");
        }
        let mut unknown = bytes.clone();
        unknown[0] = 9;
        assert!(SummarisedColumns::parse(&unknown).is_none());
        let mut endless = bytes;
        endless[4..8].copy_from_slice(&[0xff; 4]);
        assert!(SummarisedColumns::parse(&endless).is_none());
    }
}
