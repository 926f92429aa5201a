//! The index of a segment: read lazily from its file, or built lazily for rows in memory.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::{Buffer, ScalarBuffer};

use super::columns::{ColumnSummaries, SummarisedColumn, SummarisedColumns};
use super::directory::Directory;
use super::file::IndexFile;
use super::format::{self, BLOCK_ROWS, SectionKind};
use super::summary::summarise;
use crate::error::Result;
use crate::schema::TableSpec;

/// The index of one segment.
#[derive(Debug)]
pub struct SegmentIndex {
    content: Content,
    rows: u64,
    directory: OnceLock<Arc<Directory>>,
    columns: OnceLock<Arc<SummarisedColumns>>,
    /// Runs whose last rows don't count, with the row where they end; ascending.
    ends: Vec<(usize, u64)>,
}

/// The source of the index.
#[derive(Debug, Clone)]
enum Content {
    File(IndexFile),
    Rows(RecordBatch, Arc<Directory>),
}

impl SegmentIndex {
    /// Opens an index. `digest` is the digest of its header and table that the manifest has.
    pub(crate) fn open(bytes: Buffer, digest: &str, rows: u64, path: PathBuf) -> Result<SegmentIndex> {
        let content = Content::File(IndexFile::open(bytes, digest, rows, path)?);
        Ok(SegmentIndex { content, rows, directory: OnceLock::new(), columns: OnceLock::new(), ends: Vec::new() })
    }

    /// Opens an index whose bytes were checked as a whole.
    pub(crate) fn open_plain(bytes: Buffer, rows: u64, path: PathBuf) -> Result<SegmentIndex> {
        let digest = format::digest(&bytes);
        SegmentIndex::open(bytes, &digest, rows, path)
    }

    /// The index of rows in memory, in the table's order. Columns are summarised when that is first asked for.
    pub(crate) fn of_rows(spec: &TableSpec, rows: RecordBatch) -> SegmentIndex {
        let (count, directory) = (rows.num_rows() as u64, Arc::new(Directory::of(spec, &rows)));
        let content = Content::Rows(rows, directory);
        SegmentIndex { content, rows: count, directory: OnceLock::new(), columns: OnceLock::new(), ends: Vec::new() }
    }

    /// This index with runs that end earlier. `ends` has the run and the row where it ends now, ascending by run.
    pub(crate) fn cut(&self, ends: Vec<(usize, u64)>) -> SegmentIndex {
        let (directory, columns) = (self.directory.clone(), self.columns.clone());
        SegmentIndex { content: self.content.clone(), rows: self.rows, directory, columns, ends }
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

    /// Checks everything in it.
    pub(crate) fn verify(&self) -> Result<()> {
        if let Content::File(file) = &self.content {
            file.verify()?;
            file.columns()?;
        }
        self.directory()?;
        self.columns().map(|_| ())
    }

    /// Checks what nothing can be found without: the directory of symbols.
    pub(crate) fn verify_directory(&self) -> Result<()> {
        self.directory().map(|_| ())
    }

    /// Checksums of the segment's blocks; rows in memory have none.
    pub(crate) fn checksums(&self) -> Result<ScalarBuffer<u32>> {
        match &self.content {
            Content::File(file) => file.checksums(),
            Content::Rows(..) => Ok(Vec::new().into()),
        }
    }

    /// How many runs of equal symbols the segment has.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), as every call here.
    pub fn symbols(&self) -> Result<usize> {
        Ok(self.directory()?.len())
    }

    /// Symbol of a run; `None` for the run of rows without one.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn symbol(&self, run: usize) -> Result<Option<&str>> {
        let directory = self.directory()?;
        Ok(if run == 0 && directory.first_is_null { None } else { Some(directory.text(run)) })
    }

    /// The symbols of all runs, an empty text for rows without one: the same array each time, as long as the segment is open.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn symbol_texts(&self) -> Result<&ArrayRef> {
        Ok(self.directory()?.array())
    }

    /// Rows of a run.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn symbol_rows(&self, run: usize) -> Result<Range<u64>> {
        let rows = self.directory()?.run(run);
        if self.ends.is_empty() {
            return Ok(rows);
        }
        let cut = self.ends.binary_search_by_key(&run, |(run, _)| *run).map(|at| self.ends[at].1);
        Ok(rows.start..cut.unwrap_or(rows.end))
    }

    /// The row at which a run ends if it isn't cut.
    pub(crate) fn full_end(&self, run: usize) -> Result<u64> {
        Ok(self.directory()?.run(run).end)
    }

    /// The run of a symbol, by binary search.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn find_symbol(&self, symbol: &str) -> Result<Option<usize>> {
        Ok(self.directory()?.find(symbol))
    }

    /// The run of a symbol, or of the rows without one.
    pub(crate) fn find_run(&self, symbol: Option<&str>) -> Result<Option<usize>> {
        match symbol {
            Some(symbol) => self.find_symbol(symbol),
            None => Ok(self.directory()?.first_is_null.then_some(0)),
        }
    }

    /// Summaries of a column by block of [`BLOCK_ROWS`] rows; `None` if the column has none. Costs a search by name once they
    /// were read.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn by_block(&self, column: &str) -> Result<Option<&ColumnSummaries>> {
        let columns = self.columns()?;
        let Some(number) = columns.find(column) else { return Ok(None) };
        let read = &columns.get(number).by_block;
        if read.get().is_none() {
            self.summarise(number)?;
        }
        Ok(read.get().filter(|summaries| !summaries.is_empty()))
    }

    /// Summarises all columns of rows in memory, so that no reader has to.
    pub(crate) fn summarise_all(&self) -> Result<()> {
        for number in 0..self.columns()?.len() {
            self.summarise(number)?;
        }
        Ok(())
    }

    /// Fills in the summaries of a column.
    fn summarise(&self, number: usize) -> Result<()> {
        let SummarisedColumn { name, kind, by_block } = self.columns()?.get(number);
        let summaries = match &self.content {
            Content::File(file) => {
                let blocks = usize::try_from(self.rows).unwrap_or(usize::MAX).div_ceil(BLOCK_ROWS);
                match file.summaries(SectionKind::BlockSummaries, number, *kind, blocks) {
                    // Without them more is read, and the rows are the same.
                    Err(error) if error.is_damage() => {
                        tracing::warn!(%error, "summaries in an index are unusable; blocks are read instead");
                        ColumnSummaries::of(*kind, &[])
                    }
                    result => result?,
                }
            }
            Content::Rows(rows, _) => match rows.column_by_name(name).and_then(summarise) {
                Some(made) => ColumnSummaries::of(*kind, &made),
                None => return Ok(()),
            },
        };
        // Somebody else may have been first, with the same.
        let _ = by_block.set(summaries);
        Ok(())
    }

    fn columns(&self) -> Result<&SummarisedColumns> {
        if let Some(columns) = self.columns.get() {
            return Ok(columns);
        }
        let columns = match &self.content {
            Content::File(file) => match file.columns() {
                Err(error) if error.is_damage() => {
                    tracing::warn!(%error, "column names in an index are unusable; blocks are read instead of summaries");
                    SummarisedColumns::none()
                }
                result => result?,
            },
            Content::Rows(rows, _) => SummarisedColumns::of(rows),
        };
        Ok(self.columns.get_or_init(|| Arc::new(columns)))
    }

    fn directory(&self) -> Result<&Directory> {
        let file = match &self.content {
            Content::File(file) => file,
            Content::Rows(_, directory) => return Ok(directory),
        };
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let directory = file.directory()?;
        Ok(self.directory.get_or_init(|| Arc::new(directory)))
    }
}
