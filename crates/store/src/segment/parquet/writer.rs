//! Writes Parquet segments.
//!
//! Each column gets the encoding that is smallest on a sample of its values. A codec that saves little isn't used,
//! because every reader pays for it.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::{modules, physical_types};
use crate::encryption::FileKey;
use crate::error::Result;
use crate::schema::{ColumnType, TableSpec};

/// How much a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// Encodings alone, where those suffice.
    Fast,
    /// zstd behind them.
    Small,
}

/// Rows of a row group: what a writer holds in memory before it writes.
const GROUP_ROWS: usize = 1 << 20;

/// Rows of each run of a sample, and the most runs that a sample has.
const SAMPLE_RUN_ROWS: usize = 4096;
const SAMPLE_RUNS: usize = 4;

/// A column's encoding and codec.
#[derive(Debug, Clone, Copy, PartialEq)]
struct EncodingChoice {
    dictionary: bool,
    /// Without a dictionary, or once that is full.
    encoding: Encoding,
    codec: Compression,
}

impl Strength {
    /// Rows of a page: what is decoded at least.
    fn page_rows(self) -> usize {
        match self {
            Strength::Fast => 4096,
            Strength::Small => 8192,
        }
    }

    /// Codecs, and the share of the bytes that each may leave of those of the one before it. LZ4 takes `fast` a tenth further, and
    /// makes reading it several times slower.
    fn codecs(self) -> Vec<(Compression, f64)> {
        let zstd = Compression::ZSTD(ZstdLevel::try_new(3).unwrap_or_default());
        match self {
            Strength::Fast => vec![(Compression::UNCOMPRESSED, 1.0)],
            Strength::Small => vec![(Compression::UNCOMPRESSED, 1.0), (zstd, 0.97)],
        }
    }
}

/// Writes rows, with each column in the type and encoding that suits it; encrypted, if there is a key.
pub(crate) fn write(
    sink: impl Write + Send,
    spec: &TableSpec,
    rows: &RecordBatch,
    strength: Strength,
    key: Option<&FileKey>,
) -> Result<()> {
    let rows = physical_types::columns(rows, spec.publish)?;
    let mut properties = common(spec, strength.page_rows());
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let Some(path) = leaf(field) else { continue };
        let choice = choose(column, strength, spec.publish.is_some())?;
        properties = with_choice(properties, path, choice);
    }
    if let Some(key) = key {
        properties = properties.with_file_encryption_properties(modules::properties(key)?);
    }
    let mut properties = properties.build();
    add_encoded_arrow_schema_to_metadata(&physical_types::declared(rows.schema_ref(), spec.publish), &mut properties);
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(sink, rows.schema(), options)?;
    writer.write(&rows)?;
    writer.close()?;
    Ok(())
}

/// Writes rows for other tools, in the table's own types: times as deltas, all else as dictionaries while they stay small, zstd behind
/// all.
pub(crate) fn write_plain(sink: impl Write + Send, spec: &TableSpec, rows: &RecordBatch) -> Result<()> {
    let mut properties = common(spec, Strength::Small.page_rows());
    properties = properties.set_compression(Compression::ZSTD(ZstdLevel::default()));
    for column in spec.shown_columns() {
        if matches!(column.column_type, ColumnType::Timestamp | ColumnType::Time) {
            let path = ColumnPath::new(vec![column.name.clone()]);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    let mut writer = ArrowWriter::try_new(sink, rows.schema(), Some(properties.build()))?;
    writer.write(rows)?;
    writer.close()?;
    Ok(())
}

/// Order, statistics, and sizes of pages.
fn common(spec: &TableSpec, page_rows: usize) -> WriterPropertiesBuilder {
    let key = |position: usize| SortingColumn {
        column_idx: i32::try_from(position).unwrap_or(i32::MAX),
        descending: false,
        nulls_first: true,
    };
    let time = (!spec.has_hidden_time()).then(|| spec.time_position());
    let order = spec.symbol_position().into_iter().chain(time).map(key).collect();
    WriterProperties::builder()
        .set_sorting_columns(Some(order))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(page_rows)
}

fn with_choice(
    properties: WriterPropertiesBuilder,
    path: ColumnPath,
    choice: EncodingChoice,
) -> WriterPropertiesBuilder {
    properties
        .set_column_dictionary_enabled(path.clone(), choice.dictionary)
        .set_column_encoding(path.clone(), choice.encoding)
        .set_column_compression(path, choice.codec)
}

/// The path of a column's values in the file's schema.
fn leaf(field: &Field) -> Option<ColumnPath> {
    let name = field.name().clone();
    match field.data_type() {
        DataType::FixedSizeList(item, _) => Some(ColumnPath::new(vec![name, "list".to_owned(), item.name().clone()])),
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => None,
        _ => Some(ColumnPath::new(vec![name])),
    }
}

/// Encodings that may suit a type, that of a full dictionary first.
fn encodings(data_type: &DataType) -> Vec<(bool, Encoding)> {
    use Encoding::{BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, PLAIN};
    match data_type {
        DataType::Boolean => vec![(false, PLAIN)],
        DataType::Dictionary(..) => vec![(true, PLAIN)],
        DataType::Utf8 => vec![(true, DELTA_LENGTH_BYTE_ARRAY), (false, DELTA_LENGTH_BYTE_ARRAY)],
        DataType::Float32 | DataType::Float64 => vec![(true, PLAIN), (false, PLAIN), (false, BYTE_STREAM_SPLIT)],
        DataType::FixedSizeList(item, _) => encodings(item.data_type()),
        // Longer decimals are bytes to Parquet.
        DataType::Decimal128(digits, _) if *digits > 18 => vec![(true, PLAIN), (false, PLAIN)],
        _ => {
            vec![(true, DELTA_BINARY_PACKED), (false, DELTA_BINARY_PACKED), (false, PLAIN), (false, BYTE_STREAM_SPLIT)]
        }
    }
}

/// The choice that makes the fewest bytes of a sample; of those that all engines read, if the file is published.
fn choose(column: &ArrayRef, strength: Strength, is_published: bool) -> Result<EncodingChoice> {
    let sample = sample(column)?;
    let mut best: Option<(EncodingChoice, f64)> = None;
    for (dictionary, encoding) in encodings(column.data_type()) {
        // Streams of bytes save nothing without a codec, and are put together byte by byte. Spark doesn't read them, and DuckDB 1.5
        // those of floats only.
        if encoding == Encoding::BYTE_STREAM_SPLIT && (strength == Strength::Fast || is_published) {
            continue;
        }
        // Bytes of the codec before, as long as it counts.
        let mut without: Option<f64> = None;
        for (codec, at_most) in strength.codecs() {
            let choice = EncodingChoice { dictionary, encoding, codec };
            let bytes = encoded_bytes(&sample, choice, strength)? as f64;
            if without.is_some_and(|without| bytes > without * at_most) {
                continue;
            }
            without = Some(bytes);
            if best.is_none_or(|(_, least)| bytes < least) {
                best = Some((choice, bytes));
            }
        }
    }
    let none = EncodingChoice { dictionary: false, encoding: Encoding::PLAIN, codec: Compression::UNCOMPRESSED };
    Ok(best.map_or(none, |(choice, _)| choice))
}

/// Some runs of a column, spread over it.
fn sample(column: &ArrayRef) -> Result<ArrayRef> {
    let rows = column.len();
    if rows <= SAMPLE_RUN_ROWS * SAMPLE_RUNS {
        return Ok(Arc::clone(column));
    }
    let start = |run: usize| run * (rows - SAMPLE_RUN_ROWS) / (SAMPLE_RUNS - 1);
    let runs: Vec<ArrayRef> = (0..SAMPLE_RUNS).map(|run| column.slice(start(run), SAMPLE_RUN_ROWS)).collect();
    Ok(concat(&runs.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
}

/// Bytes that a column takes in an encoding.
fn encoded_bytes(column: &ArrayRef, choice: EncodingChoice, strength: Strength) -> Result<usize> {
    let schema = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
    let Some(path) = leaf(schema.field(0)) else { return Ok(usize::MAX) };
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(strength.page_rows());
    let options = ArrowWriterOptions::new()
        .with_properties(with_choice(properties, path, choice).build())
        .with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options)?;
    writer.write(&RecordBatch::try_new(schema, vec![Arc::clone(column)])?)?;
    let written = writer.close()?;
    let chunks = written.row_groups().iter().flat_map(|group| group.columns());
    Ok(chunks.map(|chunk| usize::try_from(chunk.compressed_size()).unwrap_or(usize::MAX)).sum())
}
