//! Reads an index from mapped bytes. Each section is checked against its checksum when it is first used, and only then.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use arrow::buffer::{Buffer, ScalarBuffer};

use super::builder::SUMMARY_WORDS;
use super::columns::{ColumnSummaries, Columns};
use super::format::{self, BLOCK_ROWS, Section, SectionKind};
use crate::error::{Error, Result};

/// The index of one segment.
#[derive(Debug)]
pub struct SegmentIndex {
    path: PathBuf,
    bytes: Buffer,
    rows: u64,
    sections: Vec<Section>,
    directory: OnceLock<Directory>,
    columns: OnceLock<Columns>,
    /// Runs whose last rows don't count, with the row where they end; ascending.
    ends: Vec<(usize, u64)>,
}

#[derive(Debug)]
struct Directory {
    offsets: ScalarBuffer<u32>,
    texts: Buffer,
    rows: ScalarBuffer<u64>,
    first_is_null: bool,
}

impl SegmentIndex {
    /// Opens an index; `digest` is what the manifest says of its header and table.
    pub(crate) fn open(bytes: Buffer, digest: &str, rows: u64, path: PathBuf) -> Result<SegmentIndex> {
        let (found, sections) = format::parse(&bytes, digest, &path)?;
        if found != rows {
            return Err(Error::corrupt(path, 16, format!("{rows} rows"), format!("{found} rows")));
        }
        let (directory, columns, ends) = (OnceLock::new(), OnceLock::new(), Vec::new());
        Ok(SegmentIndex { path, bytes, rows, sections, directory, columns, ends })
    }

    /// The same index, with runs that end earlier: ascending by run, each with the row where it ends now.
    pub(crate) fn cut(&self, ends: Vec<(usize, u64)>) -> SegmentIndex {
        let (path, bytes, sections) = (self.path.clone(), self.bytes.clone(), self.sections.clone());
        let (directory, columns) = (OnceLock::new(), OnceLock::new());
        SegmentIndex { path, bytes, rows: self.rows, sections, directory, columns, ends }
    }

    /// The runs that were cut, with their ends.
    pub(crate) fn ends(&self) -> &[(usize, u64)] {
        &self.ends
    }

    /// Rows of the segment.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Checks every section, and that nothing stands between them or behind the last.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut end = format::HEADER_BYTES + self.sections.len() * format::ENTRY_BYTES + 4;
        for section in &self.sections {
            self.content(section)?;
            let gap = self.bytes.get(end..to_usize(section.offset));
            if gap.is_none_or(|gap| gap.iter().any(|byte| *byte != 0)) {
                return Err(Error::corrupt(&self.path, end as u64, "zeros up to the next section", "other bytes"));
            }
            end = to_usize(section.offset + section.length);
        }
        if end != self.bytes.len() {
            return Err(Error::corrupt(&self.path, end as u64, "the file's end", "more bytes"));
        }
        self.directory().map(|_| ())?;
        self.columns().map(|_| ())
    }

    /// Checksums of the segment's blocks.
    pub(crate) fn checksums(&self) -> Result<ScalarBuffer<u32>> {
        let buffer = self.section(SectionKind::Checksums, 0)?;
        let len = buffer.len() / 4;
        Ok(ScalarBuffer::new(buffer, 0, len))
    }

    /// How many runs of equal symbols the segment has.
    ///
    /// # Errors
    /// [`Error::Corrupt`], as every call here.
    pub fn symbols(&self) -> Result<usize> {
        Ok(self.directory()?.rows.len() - 1)
    }

    /// Symbol of a run; `None` for the run of rows without one.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn symbol(&self, run: usize) -> Result<Option<&str>> {
        let directory = self.directory()?;
        Ok(if run == 0 && directory.first_is_null { None } else { Some(directory.text(run)) })
    }

    /// Rows of a run.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn symbol_rows(&self, run: usize) -> Result<Range<u64>> {
        let rows = &self.directory()?.rows;
        if self.ends.is_empty() {
            return Ok(rows[run]..rows[run + 1]);
        }
        let cut = self.ends.binary_search_by_key(&run, |(run, _)| *run).map(|at| self.ends[at].1);
        Ok(rows[run]..cut.unwrap_or(rows[run + 1]))
    }

    /// The row at which a run ends if it isn't cut.
    pub(crate) fn full_end(&self, run: usize) -> Result<u64> {
        Ok(self.directory()?.rows[run + 1])
    }

    /// The run of a symbol, by binary search.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn find_symbol(&self, symbol: &str) -> Result<Option<usize>> {
        let directory = self.directory()?;
        let (mut low, mut high) = (usize::from(directory.first_is_null), directory.rows.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            // UTF-8 sorts as its bytes do.
            match directory.bytes(middle).cmp(symbol.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// The run of a symbol, or of the rows without one.
    pub(crate) fn find_run(&self, symbol: Option<&str>) -> Result<Option<usize>> {
        match symbol {
            Some(symbol) => self.find_symbol(symbol),
            None => Ok(self.directory()?.first_is_null.then_some(0)),
        }
    }

    /// Summaries of a column by run of equal symbols; `None` if the column has none, or runs were cut. Costs a search by name once they were
    /// read.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn by_symbol(&self, column: &str) -> Result<Option<&ColumnSummaries>> {
        if !self.ends.is_empty() {
            return Ok(None);
        }
        let columns = self.columns()?;
        let Some(number) = columns.find(column) else { return Ok(None) };
        let read = &columns.get(number).by_symbol;
        match read.get() {
            Some(summaries) => Ok(Some(summaries)),
            None => {
                let summaries = self.summaries(SectionKind::SymbolSummaries, number, self.symbols()?)?;
                Ok(Some(read.get_or_init(|| summaries)))
            }
        }
    }

    /// Summaries of a column by block of [`BLOCK_ROWS`] rows; `None` if the column has none. Costs a search by name once they
    /// were read.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn by_block(&self, column: &str) -> Result<Option<&ColumnSummaries>> {
        let columns = self.columns()?;
        let Some(number) = columns.find(column) else { return Ok(None) };
        let read = &columns.get(number).by_block;
        match read.get() {
            Some(summaries) => Ok(Some(summaries)),
            None => {
                let blocks = to_usize(self.rows).div_ceil(BLOCK_ROWS);
                let summaries = self.summaries(SectionKind::BlockSummaries, number, blocks)?;
                Ok(Some(read.get_or_init(|| summaries)))
            }
        }
    }

    fn summaries(&self, kind: SectionKind, number: usize, len: usize) -> Result<ColumnSummaries> {
        let buffer = self.section(kind, u32::try_from(number).unwrap_or(u32::MAX))?;
        if buffer.len() != len * SUMMARY_WORDS * 8 {
            return Err(self.bad(format!("{len} summaries"), format!("{} bytes", buffer.len())));
        }
        let words = ScalarBuffer::new(buffer, 0, len * SUMMARY_WORDS);
        Ok(ColumnSummaries::new(self.columns()?.get(number).kind, words, len))
    }

    fn columns(&self) -> Result<&Columns> {
        if let Some(columns) = self.columns.get() {
            return Ok(columns);
        }
        let bytes = self.section(SectionKind::ColumnNames, 0)?;
        let columns = Columns::parse(&bytes).ok_or_else(|| self.bad("column names", "other bytes"))?;
        Ok(self.columns.get_or_init(|| columns))
    }

    fn directory(&self) -> Result<&Directory> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let (offsets, rows) = (self.section(SectionKind::SymbolOffsets, 0)?, self.section(SectionKind::SymbolRows, 0)?);
        let (offset_count, row_count) = (offsets.len() / 4, rows.len() / 8);
        let directory = Directory {
            offsets: ScalarBuffer::new(offsets, 0, offset_count),
            texts: self.section(SectionKind::SymbolTexts, 0)?,
            rows: ScalarBuffer::new(rows, 0, row_count),
            first_is_null: self.section(SectionKind::SymbolNull, 0)?.first() == Some(&1),
        };
        directory.check(self.rows).map_err(|what| self.bad("a sound symbol directory", what))?;
        Ok(self.directory.get_or_init(|| directory))
    }

    fn section(&self, kind: SectionKind, column: u32) -> Result<Buffer> {
        let found = self.sections.iter().find(|section| section.kind == kind && section.column == column);
        let section = found.ok_or_else(|| self.bad(format!("a section of {kind:?}"), "none"))?;
        self.content(section)
    }

    fn content(&self, section: &Section) -> Result<Buffer> {
        // Bounds were checked when the table was read.
        let (offset, length) = (to_usize(section.offset), to_usize(section.length));
        let content = self.bytes.slice_with_length(offset, length);
        if crc32c::crc32c(&content) != section.crc {
            return Err(Error::corrupt(&self.path, section.offset, "the section's checksum", "another"));
        }
        Ok(content)
    }

    fn bad(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::corrupt(&self.path, 0, expected, found)
    }
}

impl Directory {
    fn bytes(&self, run: usize) -> &[u8] {
        &self.texts[self.offsets[run] as usize..self.offsets[run + 1] as usize]
    }

    fn text(&self, run: usize) -> &str {
        std::str::from_utf8(self.bytes(run)).unwrap_or_default()
    }

    fn check(&self, rows: u64) -> Result<(), &'static str> {
        if self.rows.is_empty() || self.offsets.len() != self.rows.len() {
            return Err("lists of other lengths");
        }
        if !self.rows.is_sorted() || self.rows[0] != 0 || self.rows.last() != Some(&rows) {
            return Err("rows out of order");
        }
        if !self.offsets.is_sorted() || self.offsets.last().map(|end| *end as usize) != Some(self.texts.len()) {
            return Err("text offsets out of order");
        }
        if std::str::from_utf8(&self.texts).is_err() {
            return Err("text that isn't UTF-8");
        }
        Ok(())
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
