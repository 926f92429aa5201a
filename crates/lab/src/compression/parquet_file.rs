//! Parquet files of one column, by encoding, codec and rows of a page.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, Decimal128Type, Field, Schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::column::{Column, unsupported};
use super::numbers::{self, NumericForm};
use super::scheme::{BlockReader, Scheme, SchemeId};
use crate::writers::write_parquet;
use crate::{Error, Result};

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 8_192;
/// Digits of a decimal that is stored in 8 bytes.
const DIGITS: u8 = 18;
/// Pages are cut by rows, so that their bytes don't matter.
const PAGE_BYTES_MAX: usize = 1 << 30;

/// How the values of a page are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEncoding {
    /// `PLAIN`.
    Plain,
    /// `RLE_DICTIONARY`, with `PLAIN` once the dictionary is full.
    Dictionary,
    /// `DELTA_BINARY_PACKED` for numbers, `DELTA_LENGTH_BYTE_ARRAY` for texts.
    Delta,
    /// `DELTA_BYTE_ARRAY`: texts without the beginning that they share with the one before.
    DeltaTexts,
    /// `BYTE_STREAM_SPLIT`.
    ByteStreamSplit,
    /// Decimal floats as `DECIMAL(18, k)`, by `DELTA_BINARY_PACKED`.
    DecimalDelta,
    /// Decimal floats as `DECIMAL(18, k)`, by `BYTE_STREAM_SPLIT`.
    DecimalSplit,
}

impl PageEncoding {
    /// All of them.
    pub const ALL: [PageEncoding; 7] = [
        PageEncoding::Plain,
        PageEncoding::Dictionary,
        PageEncoding::Delta,
        PageEncoding::DeltaTexts,
        PageEncoding::ByteStreamSplit,
        PageEncoding::DecimalDelta,
        PageEncoding::DecimalSplit,
    ];

    fn name(self) -> &'static str {
        match self {
            PageEncoding::Plain => "plain",
            PageEncoding::Dictionary => "dictionary",
            PageEncoding::Delta => "delta",
            PageEncoding::DeltaTexts => "delta of texts",
            PageEncoding::ByteStreamSplit => "byte stream split",
            PageEncoding::DecimalDelta => "decimal delta",
            PageEncoding::DecimalSplit => "decimal byte stream split",
        }
    }

    fn is_decimal(self) -> bool {
        matches!(self, PageEncoding::DecimalDelta | PageEncoding::DecimalSplit)
    }

    /// Parquet's encoding of a type; nothing if it has none.
    fn of(self, data_type: &DataType) -> Option<Encoding> {
        let is_text = matches!(data_type, DataType::Utf8 | DataType::Binary);
        let is_float = matches!(data_type, DataType::Float32 | DataType::Float64);
        let is_number = numbers::layout(data_type).is_some() && data_type != &DataType::Boolean;
        let is_split = is_number && !matches!(data_type, DataType::Float16);
        match self {
            PageEncoding::Plain => Some(Encoding::PLAIN),
            PageEncoding::Dictionary => (data_type != &DataType::Boolean).then_some(Encoding::PLAIN),
            PageEncoding::Delta if is_text => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            PageEncoding::Delta => {
                (is_number && !is_float && data_type != &DataType::Float16).then_some(Encoding::DELTA_BINARY_PACKED)
            }
            PageEncoding::DeltaTexts => is_text.then_some(Encoding::DELTA_BYTE_ARRAY),
            PageEncoding::ByteStreamSplit => is_split.then_some(Encoding::BYTE_STREAM_SPLIT),
            PageEncoding::DecimalDelta => is_float.then_some(Encoding::DELTA_BINARY_PACKED),
            PageEncoding::DecimalSplit => is_float.then_some(Encoding::BYTE_STREAM_SPLIT),
        }
    }
}

/// The codec of a page and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCodec {
    /// None.
    None,
    /// Snappy.
    Snappy,
    /// `LZ4_RAW`.
    Lz4,
    /// Gzip, level 0 to 9.
    Gzip(u32),
    /// Brotli, level 0 to 11.
    Brotli(u32),
    /// Zstandard, level 1 to 22.
    Zstd(i32),
}

impl PageCodec {
    fn name(self) -> &'static str {
        match self {
            PageCodec::None => "none",
            PageCodec::Snappy => "snappy",
            PageCodec::Lz4 => "lz4",
            PageCodec::Gzip(_) => "gzip",
            PageCodec::Brotli(_) => "brotli",
            PageCodec::Zstd(_) => "zstd",
        }
    }

    fn level(self) -> Option<i64> {
        match self {
            PageCodec::Gzip(level) | PageCodec::Brotli(level) => Some(i64::from(level)),
            PageCodec::Zstd(level) => Some(i64::from(level)),
            _ => None,
        }
    }

    /// The codec as Parquet's writer names it.
    pub(crate) fn compression(self) -> parquet::errors::Result<Compression> {
        Ok(match self {
            PageCodec::None => Compression::UNCOMPRESSED,
            PageCodec::Snappy => Compression::SNAPPY,
            PageCodec::Lz4 => Compression::LZ4_RAW,
            PageCodec::Gzip(level) => Compression::GZIP(GzipLevel::try_new(level)?),
            PageCodec::Brotli(level) => Compression::BROTLI(BrotliLevel::try_new(level)?),
            PageCodec::Zstd(level) => Compression::ZSTD(ZstdLevel::try_new(level)?),
        })
    }
}

/// Parquet files.
#[derive(Debug)]
pub struct ParquetScheme {
    encoding: PageEncoding,
    codec: PageCodec,
    page_rows: usize,
    id: SchemeId,
}

impl ParquetScheme {
    /// A scheme.
    #[must_use]
    pub fn new(encoding: PageEncoding, codec: PageCodec, page_rows: u32) -> ParquetScheme {
        let level = codec.level().map(|level| format!(" {level}")).unwrap_or_default();
        let (shown, codec_name) = (encoding.name(), codec.name());
        let name = format!("parquet {shown}, {codec_name}{level}, pages of {page_rows} rows");
        let id = SchemeId {
            name,
            family: "parquet",
            codec: codec_name,
            encoding: shown,
            level: codec.level(),
            block_rows: Some(i64::from(page_rows)),
            ..SchemeId::default()
        };
        ParquetScheme { encoding, codec, page_rows: page_rows as usize, id }
    }

    fn properties(&self, encoding: Encoding) -> parquet::errors::Result<WriterProperties> {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(self.encoding == PageEncoding::Dictionary)
            .set_compression(self.codec.compression()?)
            .set_data_page_row_count_limit(self.page_rows)
            .set_write_batch_size(self.page_rows.min(1_024))
            .set_data_page_size_limit(PAGE_BYTES_MAX)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        Ok(properties.set_encoding(encoding).build())
    }
}

/// The column as it is stored, which for decimals is another type.
fn stored(column: &Column, encoding: PageEncoding) -> Result<ArrayRef> {
    if !encoding.is_decimal() {
        return Ok(Arc::clone(column.values()));
    }
    let decimals = numbers::decimals(column);
    let (numbers, digits) = decimals.ok_or_else(|| unsupported("", column, "its values are no decimal floats"))?;
    let numbers: Decimal128Array = numbers.into_iter().map(i128::from).collect();
    let scale = i8::try_from(digits).unwrap_or(0);
    let numbers = numbers.with_precision_and_scale(DIGITS, scale)?;
    let data = numbers.into_data().into_builder().nulls(column.values().nulls().cloned());
    Ok(arrow::array::make_array(data.build()?))
}

/// The column as it was.
fn restored(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(DIGITS, scale) = values.data_type() else { return Ok(Arc::clone(values)) };
    if values.data_type() == data_type {
        return Ok(Arc::clone(values));
    }
    let form = u8::try_from(*scale).map_err(|error| Error::damaged(0, error)).and_then(NumericForm::from_byte)?;
    let numbers = values.as_primitive::<Decimal128Type>();
    let numbers = numbers.values().iter().map(|number| i64::try_from(*number));
    let numbers = numbers.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| Error::damaged(0, error))?;
    let data = numbers::to_values(&numbers, form, data_type)?.to_data().into_builder().nulls(values.nulls().cloned());
    Ok(arrow::array::make_array(data.build()?))
}

impl Scheme for ParquetScheme {
    fn id(&self) -> &SchemeId {
        &self.id
    }

    fn encode(&self, column: &Column) -> Result<Vec<u8>> {
        let named = |reason: &str| unsupported(&self.id.name, column, reason);
        let encoding = self.encoding.of(column.data_type());
        let encoding = encoding.ok_or_else(|| named("Parquet has no such encoding of the type"))?;
        let values = stored(column, self.encoding).map_err(|error| match error {
            Error::Unsupported { reason, .. } => named(&reason),
            other => other,
        })?;
        let field = Field::new(column.name(), values.data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values])?;
        let failed = || Error::codec(&self.id.name);
        let properties = self.properties(encoding).map_err(failed())?;
        let mut file = Vec::new();
        write_parquet(&batch.schema(), std::slice::from_ref(&batch), properties, &mut file).map_err(failed())?;
        Ok(file)
    }

    fn decode(&self, file: &[u8], data_type: &DataType) -> Result<Vec<ArrayRef>> {
        guarded(|| {
            let builder =
                ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::copy_from_slice(file)).map_err(unreadable)?;
            let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
            batches(reader, data_type)
        })
    }

    fn open<'a>(&'a self, file: &'a File, _: u64, data_type: &'a DataType) -> Result<Box<dyn BlockReader + 'a>> {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = guarded(|| ArrowReaderMetadata::load(file, options).map_err(unreadable))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        let rows = usize::try_from(rows).map_err(|error| Error::damaged(0, error))?;
        Ok(Box::new(Pages { file, metadata, rows, page_rows: self.page_rows, data_type }))
    }
}

fn unreadable(error: impl ToString) -> Error {
    Error::damaged(0, error)
}

/// Runs a decoder of another library, whose panic on damaged bytes becomes an error.
pub fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(Error::damaged(0, "the decoder gave up")))
}

fn batches(reader: impl RecordBatchReader, data_type: &DataType) -> Result<Vec<ArrayRef>> {
    let column = |batch: std::result::Result<RecordBatch, _>| {
        let batch = batch.map_err(unreadable)?;
        let column = batch.columns().first().ok_or_else(|| Error::damaged(0, "there is no column"))?;
        restored(column, data_type)
    };
    reader.map(column).collect()
}

struct Pages<'a> {
    file: &'a File,
    metadata: ArrowReaderMetadata,
    rows: usize,
    page_rows: usize,
    data_type: &'a DataType,
}

impl BlockReader for Pages<'_> {
    fn blocks(&self) -> usize {
        self.rows.div_ceil(self.page_rows)
    }

    fn read(&mut self, block: usize) -> Result<usize> {
        let start = block * self.page_rows;
        let rows = self.page_rows.min(self.rows.saturating_sub(start));
        let page = RowSelection::from(vec![RowSelector::skip(start), RowSelector::select(rows)]);
        guarded(|| {
            let file = self.file.try_clone().map_err(unreadable)?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
            let reader = builder.with_row_selection(page).with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
            let read = batches(reader, self.data_type)?;
            let sizes = read.iter().map(|values| values.to_data().get_slice_memory_size());
            Ok(sizes.sum::<std::result::Result<usize, _>>()?)
        })
    }
}
