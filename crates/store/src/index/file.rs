//! The index as bytes of a file. Each section is checked against its checksum when it is first used, and only then.

use std::path::PathBuf;
use std::sync::OnceLock;

use arrow::buffer::{Buffer, ScalarBuffer};

use super::builder::SUMMARY_WORDS;
use super::columns::{ColumnSummaries, SummarisedColumns};
use super::directory::Directory;
use super::format::{self, Section, SectionKind};
use super::summary::ValueKind;
use crate::error::{Error, Result};

/// An index file whose header and table of sections are sound.
#[derive(Debug, Clone)]
pub(super) struct IndexFile {
    path: PathBuf,
    bytes: Buffer,
    rows: u64,
    sections: Vec<Section>,
}

impl IndexFile {
    pub(super) fn open(bytes: Buffer, digest: &str, rows: u64, path: PathBuf) -> Result<IndexFile> {
        let (row_count, sections) = format::parse(&bytes, digest, &path)?;
        if row_count != rows {
            return Err(Error::corrupt(path, 16, format!("{rows} rows"), format!("{row_count} rows")));
        }
        Ok(IndexFile { path, bytes, rows, sections })
    }

    /// Checks every section, and that nothing stands between them or behind the last.
    pub(super) fn verify(&self) -> Result<()> {
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
        Ok(())
    }

    /// Checksums of the segment's blocks.
    pub(super) fn checksums(&self) -> Result<ScalarBuffer<u32>> {
        let buffer = self.section(SectionKind::Checksums, 0)?;
        let len = buffer.len() / 4;
        Ok(ScalarBuffer::new(buffer, 0, len))
    }

    /// Summaries of a column, of which there are `len`.
    pub(super) fn summaries(
        &self,
        section: SectionKind,
        number: usize,
        kind: ValueKind,
        len: usize,
    ) -> Result<ColumnSummaries> {
        let buffer = self.section(section, u32::try_from(number).unwrap_or(u32::MAX))?;
        if buffer.len() != len * SUMMARY_WORDS * 8 {
            return Err(self.bad(format!("{len} summaries"), format!("{} bytes", buffer.len())));
        }
        let words = ScalarBuffer::new(buffer, 0, len * SUMMARY_WORDS);
        Ok(ColumnSummaries::new(kind, words, len))
    }

    pub(super) fn columns(&self) -> Result<SummarisedColumns> {
        let bytes = self.section(SectionKind::ColumnNames, 0)?;
        SummarisedColumns::parse(&bytes).ok_or_else(|| self.bad("column names", "other bytes"))
    }

    pub(super) fn directory(&self) -> Result<Directory> {
        let (offsets, rows) = (self.section(SectionKind::SymbolOffsets, 0)?, self.section(SectionKind::SymbolRows, 0)?);
        let (offset_count, row_count) = (offsets.len() / 4, rows.len() / 8);
        let directory = Directory {
            offsets: ScalarBuffer::new(offsets, 0, offset_count),
            texts: self.section(SectionKind::SymbolTexts, 0)?,
            rows: ScalarBuffer::new(rows, 0, row_count),
            first_is_null: self.section(SectionKind::SymbolNull, 0)?.first() == Some(&1),
            array: OnceLock::new(),
        };
        directory.check(self.rows).map_err(|what| self.bad("a sound symbol directory", what))?;
        Ok(directory)
    }

    fn section(&self, kind: SectionKind, column: u32) -> Result<Buffer> {
        let entry = self.sections.iter().find(|section| section.kind == kind && section.column == column);
        let section = entry.ok_or_else(|| self.bad(format!("a section of {kind:?}"), "none"))?;
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

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
