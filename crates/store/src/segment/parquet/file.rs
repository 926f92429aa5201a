//! An open Parquet segment: mapped bytes, checked when they are first touched.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::basic::{CompressionCodec, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};

use super::super::checksum::CheckedFile;
use super::super::guarded;
use super::super::page_memory::{self, PageKey};
use super::column::ParquetColumn;
use super::modules::Cipher;
use crate::encryption::EncryptionKeys;
use crate::error::{Error, Result};
use crate::storage::{MappedBytes, out_of_io};

/// An opened file.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    /// Tells it from all others that the process opens.
    number: u64,
    file: Arc<CheckedFile>,
    /// How it is decrypted, if it is encrypted.
    cipher: Option<Cipher>,
    /// The footer.
    metadata: ArrowReaderMetadata,
    /// The footer with the lists of pages, for what the `parquet` crate reads.
    listed: OnceLock<ArrowReaderMetadata>,
    /// By position; none for a column that the `parquet` crate reads.
    columns: Vec<OnceLock<Option<ParquetColumn>>>,
}

impl ParquetFile {
    pub(crate) fn open(file: Arc<CheckedFile>, rows: u64, keys: &EncryptionKeys) -> Result<ParquetFile> {
        let cipher = Cipher::open(&file, keys)?;
        let metadata = load(&file, cipher.as_ref(), PageIndexPolicy::Skip)?;
        let row_count = metadata.metadata().file_metadata().num_rows();
        if u64::try_from(row_count).ok() != Some(rows) {
            return Err(Error::corrupt(&file.path, 0, format!("{rows} rows"), format!("{row_count} rows")));
        }
        if let Some(remote) = file.as_remote() {
            remote.set_stretches(chunks(&metadata));
        }
        let columns = metadata.schema().fields().iter().map(|_| OnceLock::new()).collect();
        Ok(ParquetFile { number: page_memory::new_file(), file, cipher, metadata, listed: OnceLock::new(), columns })
    }

    pub(crate) fn mapped(&self) -> Option<&MappedBytes> {
        self.file.mapped()
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The footer, as Parquet has it.
    pub(crate) fn footer(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// Bytes of a column, those of its dictionaries among them, and how they are encoded: the type in the file, encodings, codec.
    pub(crate) fn column_storage(&self, position: usize) -> (u64, u64, String) {
        let (mut bytes, mut dictionary_bytes, mut words) = (0, 0, Vec::new());
        let metadata = self.metadata.metadata();
        for group in metadata.row_groups() {
            let Some(chunk) = group.columns().get(position) else { continue };
            let lists = [chunk.column_index_length(), chunk.offset_index_length()];
            let listed: u64 = lists.into_iter().flatten().filter_map(|length| u64::try_from(length).ok()).sum();
            bytes += u64::try_from(chunk.compressed_size()).unwrap_or(0) + listed;
            let dictionary = chunk.dictionary_page_offset().map_or(0, |start| chunk.data_page_offset() - start);
            dictionary_bytes += u64::try_from(dictionary).unwrap_or(0);
            let mut of_chunk = vec![match self.schema().field(position).data_type() {
                DataType::Decimal128(_, digits) => format!("whole numbers / 10^{digits}"),
                DataType::Timestamp(unit, _) | DataType::Time64(unit) => format!("{unit:?}s").to_lowercase(),
                _ => "values".to_owned(),
            }];
            let is_coded = chunk.dictionary_page_offset().is_some();
            of_chunk.extend(is_coded.then(|| "dictionary".to_owned()));
            // Levels of nulls are always RLE, dictionaries and their codes are said already.
            let others = chunk.encodings().filter(|encoding| {
                !matches!(encoding, Encoding::RLE | Encoding::RLE_DICTIONARY)
                    && (!is_coded || *encoding != Encoding::PLAIN)
            });
            of_chunk.extend(others.map(|encoding| encoding.to_string().to_lowercase().replace('_', " ")));
            if chunk.compression_codec() != CompressionCodec::UNCOMPRESSED {
                of_chunk.push(format!("{:?}", chunk.compression_codec()).to_lowercase());
            }
            let of_chunk = of_chunk.join(", ");
            if !words.contains(&of_chunk) {
                words.push(of_chunk);
            }
        }
        (bytes, dictionary_bytes, words.join("; "))
    }

    /// Whether [`ParquetFile::decode`] reads a column.
    pub(crate) fn decodes(&self, position: usize) -> Result<bool> {
        Ok(self.column(position)?.is_some())
    }

    /// The rows of the page that holds a row of a column; `None` for a column that [`ParquetFile::read`] reads.
    pub(crate) fn page_rows(&self, position: usize, row: usize) -> Result<Option<Range<usize>>> {
        Ok(self.column(position)?.and_then(|column| column.page_rows(row)))
    }

    /// A range of rows of a column, as `data_type` or in the type that the file declares; `None` for a column that [`ParquetFile::read`]
    /// reads.
    pub(crate) fn decode(&self, position: usize, rows: Range<usize>, data_type: &DataType) -> Result<Option<ArrayRef>> {
        let Some(column) = self.column(position)? else { return Ok(None) };
        let read = |rows| column.read(&self.file, self.cipher.as_ref(), rows, data_type);
        let Some(page) = column.page_rows(rows.start) else { return read(rows).map(Some) };
        let key = PageKey { file: self.number, position, first_row: page.start };
        page_memory::rows_of(key, page, rows, data_type, read).map(Some)
    }

    /// The places of a column's pages.
    #[cfg(test)]
    pub(crate) fn page_places(&self, position: usize) -> Result<Vec<Range<usize>>> {
        Ok(self.column(position)?.map(ParquetColumn::page_places).unwrap_or_default())
    }

    /// Asks for the bytes of a range of rows of a column, without waiting for them.
    pub(crate) fn read_ahead(&self, position: usize, rows: &Range<usize>) {
        if let Ok(Some(column)) = self.column(position) {
            column.read_ahead(&self.file, rows);
        }
    }

    fn column(&self, position: usize) -> Result<Option<&ParquetColumn>> {
        let Some(place) = self.columns.get(position) else { return Err(Error::Poisoned) };
        if let Some(opened) = place.get() {
            return Ok(opened.as_ref());
        }
        let stored = self.schema().field(position).data_type();
        let opened = ParquetColumn::open(&self.file, self.cipher.as_ref(), self.metadata.metadata(), position, stored)?;
        Ok(place.get_or_init(|| opened).as_ref())
    }

    /// Reads columns, given by ascending position, of a range of rows in batches of at most `batch_rows`.
    pub(crate) fn read(&self, columns: &[usize], rows: Range<usize>, batch_rows: usize) -> Result<ParquetBatches> {
        let (groups, first) = self.row_groups(&rows);
        let metadata = match self.listed.get() {
            Some(listed) => listed,
            None => {
                let listed = load(&self.file, self.cipher.as_ref(), PageIndexPolicy::Optional)?;
                self.listed.get_or_init(|| listed)
            }
        };
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(Chunks(Arc::clone(&self.file)), metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let selection =
            RowSelection::from(vec![RowSelector::skip(rows.start - first), RowSelector::select(rows.len())]);
        let builder = builder.with_row_groups(groups).with_projection(mask).with_row_selection(selection);
        let build = || builder.with_batch_size(batch_rows).build().map_err(|e| unpack(e, &self.file));
        let reader = guarded(&self.file.path, build)?;
        Ok(ParquetBatches { file: Arc::clone(&self.file), reader: Some(reader) })
    }

    /// The error for a file that gave another number of rows than its metadata says.
    pub(crate) fn short(&self, expected: usize, found: usize) -> Error {
        Error::corrupt(&self.file.path, 0, format!("{expected} rows"), format!("{found} rows"))
    }

    /// The row groups that hold a range, and the first row of the first of them.
    fn row_groups(&self, rows: &Range<usize>) -> (Vec<usize>, usize) {
        let (mut groups, mut first, mut start) = (Vec::new(), 0, 0);
        for (number, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let end = start + usize::try_from(group.num_rows()).unwrap_or(0);
            if start < rows.end && end > rows.start {
                if groups.is_empty() {
                    first = start;
                }
                groups.push(number);
            }
            start = end;
        }
        (groups, first)
    }
}

/// The bytes of each column in each row group, as the footer gives them.
fn chunks(metadata: &ArrowReaderMetadata) -> impl Iterator<Item = Range<usize>> {
    let chunks = metadata.metadata().row_groups().iter().flat_map(|group| group.columns());
    chunks.map(|chunk| {
        let place = |offset: i64| usize::try_from(offset).unwrap_or(usize::MAX);
        let dictionary = chunk.dictionary_page_offset().unwrap_or(i64::MAX);
        let start = place(chunk.data_page_offset().min(dictionary));
        start..start.saturating_add(place(chunk.compressed_size()))
    })
}

/// The file's footer, with or without its lists of pages.
fn load(file: &Arc<CheckedFile>, cipher: Option<&Cipher>, lists: PageIndexPolicy) -> Result<ArrowReaderMetadata> {
    let mut options =
        ArrowReaderOptions::new().with_column_index_policy(PageIndexPolicy::Skip).with_offset_index_policy(lists);
    if let Some(cipher) = cipher {
        options = options.with_file_decryption_properties(Arc::clone(&cipher.properties));
    }
    let load = || ArrowReaderMetadata::load(&Chunks(Arc::clone(file)), options).map_err(|e| unpack(e, file));
    guarded(&file.path, load)
}

/// Batches of a Parquet segment.
pub(crate) struct ParquetBatches {
    file: Arc<CheckedFile>,
    /// Gone behind the last batch, and where it gave up.
    reader: Option<ParquetRecordBatchReader>,
}

impl Iterator for ParquetBatches {
    type Item = Result<arrow::array::RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let batch = match guarded(&self.file.path, || Ok(reader.next())) {
            Ok(batch) => batch?,
            Err(error) => return Some(Err(error)),
        };
        self.reader = Some(reader);
        Some(batch.map_err(|error| match error {
            arrow::error::ArrowError::ParquetError(text) => Error::corrupt(&self.file.path, 0, "sound pages", text),
            other => Error::Arrow(other),
        }))
    }
}

/// Parquet's view of a checked file.
struct Chunks(Arc<CheckedFile>);

/// Bytes from a position on, of unknown length. They are fetched and checked as they are read.
struct BytesFrom {
    file: Arc<CheckedFile>,
    at: usize,
}

impl std::io::Read for BytesFrom {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let end = self.at.saturating_add(buffer.len()).min(self.file.len());
        let bytes = self.file.bytes(self.at.min(end)..end).map_err(std::io::Error::other)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at = end;
        Ok(bytes.len())
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl ChunkReader for Chunks {
    type T = std::io::BufReader<BytesFrom>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let at = usize::try_from(start).map_err(|e| ParquetError::External(Box::new(e)))?;
        Ok(std::io::BufReader::new(BytesFrom { file: Arc::clone(&self.0), at }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let start = usize::try_from(start).map_err(|e| ParquetError::External(Box::new(e)))?;
        let end = start.checked_add(length).ok_or_else(|| ParquetError::EOF("a length beyond the file".to_owned()))?;
        self.0.bytes(start..end).map_err(|e| ParquetError::External(Box::new(e)))
    }
}

fn unpack(error: ParquetError, file: &CheckedFile) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<std::io::Error>() {
                // The error came from reading the bytes.
                Ok(io) => out_of_io("read", &file.path)(*io),
                Err(other) => Error::corrupt(&file.path, 0, "a Parquet file", other.to_string()),
            },
        },
        other => Error::corrupt(&file.path, 0, "a Parquet file", other.to_string()),
    }
}
