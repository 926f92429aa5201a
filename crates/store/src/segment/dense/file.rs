//! An open dense segment: mapped bytes, checked when they are first touched.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};

use super::super::checksum::CheckedFile;
use super::super::page_memory::{self, PageKey};
use super::chunk::DenseColumn;
use super::format::{FOOTER_BYTES_MAX, Footer, MAGIC, TAIL_BYTES};
use crate::error::{Error, Result};
use crate::little_endian::u32_at;
use crate::storage::MappedBytes;

/// An opened file.
#[derive(Debug)]
pub(crate) struct DenseFile {
    /// Tells it from all others that the process opens.
    number: u64,
    file: Arc<CheckedFile>,
    schema: SchemaRef,
    columns: Vec<DenseColumn>,
}

impl DenseFile {
    pub(crate) fn open(file: Arc<CheckedFile>, rows: u64) -> Result<DenseFile> {
        let footer = footer(&file)?;
        if footer.rows != rows {
            return Err(Error::corrupt(&file.path, 0, format!("{rows} rows"), format!("{} rows", footer.rows)));
        }
        let schema = Arc::new(footer.schema());
        let wrong = |found: String| Error::corrupt(&file.path, 0, "columns of a dense segment", found);
        let count = usize::try_from(rows).map_err(|error| wrong(error.to_string()))?;
        let mut number = 0;
        let columns =
            footer.columns.into_iter().map(|column| DenseColumn::open(column, count, file.len(), &mut number));
        let columns = columns.collect::<Result<_, String>>().map_err(wrong)?;
        Ok(DenseFile { number: page_memory::new_file(), file, schema, columns })
    }

    pub(crate) fn mapped(&self) -> Option<&MappedBytes> {
        self.file.mapped()
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Bytes of a column, those of its dictionary among them, and how it is kept.
    pub(crate) fn column_storage(&self, position: usize) -> (u64, u64, String) {
        self.columns.get(position).map(DenseColumn::storage).unwrap_or_default()
    }

    /// The rows of the page that holds a row of a column.
    pub(crate) fn page_rows(&self, position: usize, row: usize) -> Option<Range<usize>> {
        self.columns.get(position).and_then(|column| column.page_rows(row))
    }

    /// A range of rows of a column, as `data_type` or in the type that the file declares.
    pub(crate) fn decode(&self, position: usize, rows: Range<usize>, data_type: &DataType) -> Result<ArrayRef> {
        let Some(column) = self.columns.get(position) else { return Err(Error::Poisoned) };
        let read = |rows| column.read(&self.file, self.number, rows, data_type);
        let Some(page) = column.page_rows(rows.start) else { return read(rows) };
        let key = PageKey { file: self.number, position, first_row: page.start };
        page_memory::rows_of(key, page, rows, data_type, read)
    }

    /// Asks for the bytes of a range of rows of a column, without waiting for them.
    pub(crate) fn read_ahead(&self, position: usize, rows: &Range<usize>) {
        if let Some(column) = self.columns.get(position) {
            column.read_ahead(&self.file, self.number, rows);
        }
    }
}

/// Reads and checks the footer, which describes the file's columns.
fn footer(file: &CheckedFile) -> Result<Footer> {
    let length = file.len();
    let wrong =
        |offset: usize, expected: &str, found: String| Error::corrupt(&file.path, offset as u64, expected, found);
    let Some(tail_start) = length.checked_sub(TAIL_BYTES).filter(|start| *start >= MAGIC.len()) else {
        return Err(wrong(0, "a dense segment", format!("{length} bytes")));
    };
    let tail = file.bytes(tail_start..length)?;
    if tail[TAIL_BYTES - MAGIC.len()..] != *MAGIC || file.bytes(0..MAGIC.len())?[..] != *MAGIC {
        return Err(wrong(0, "SPLAYDN1 at both ends", "other bytes".to_owned()));
    }
    let (stored, plain) = (u32_at(&tail, 0) as usize, u32_at(&tail, 4) as usize);
    let Some(start) = tail_start.checked_sub(stored).filter(|start| *start >= MAGIC.len()) else {
        return Err(wrong(tail_start, "a footer within the file", format!("a footer of {stored} bytes")));
    };
    if plain > FOOTER_BYTES_MAX {
        return Err(wrong(tail_start, "a footer within its limit", format!("a footer of {plain} bytes")));
    }
    let bytes = file.bytes(start..tail_start)?;
    if crc32c::crc32c(&bytes) != u32_at(&tail, 8) {
        return Err(wrong(start, "the checksum of the footer", "another checksum".to_owned()));
    }
    let text = decompress(&bytes, plain).map_err(|found| wrong(start, "a compressed footer", found))?;
    serde_json::from_slice(&text).map_err(|error| wrong(start, "a footer of a dense segment", error.to_string()))
}

/// Decompresses bytes of zstd to at most `most` bytes. It allocates the size that the frame says, but no more than that.
pub(super) fn decompress(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let content_size = zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten();
    match content_size.and_then(|length| usize::try_from(length).ok()) {
        Some(length) if length <= most => {
            zstd::bulk::decompress(bytes, length).map_err(|error| format!("zstd: {error}"))
        }
        Some(length) => Err(format!("{length} bytes before compression, of at most {most}")),
        None => Err("a frame that doesn't say its length".to_owned()),
    }
}
