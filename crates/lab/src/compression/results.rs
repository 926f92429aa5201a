//! A table of results: a row for each scheme and column. It has the columns of q's compression tests under their names there, and ours.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int16Type, Int64Type, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;

use crate::writers::{write_csv, write_parquet};

use crate::{Error, Result};

/// What was measured of a scheme and a column. Times are means over the runs and lists.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurement {
    /// The column, or the generated list.
    pub data: String,
    /// The name of the scheme.
    pub scheme: String,
    /// Its family: `blocks`, `encoding`, `pco`, `fsst`, `parquet`, `arrow`.
    pub family: String,
    /// Its codec of bytes.
    pub codec: String,
    /// Its encoding of values.
    pub encoding: String,
    /// The logarithm to 2 of the bytes of a logical block; 0 for none.
    pub lbs: Option<i64>,
    /// The algorithm by q's number: 0 none, 1 LZ, 2 gzip, 3 snappy, 4 lz4hc, 5 zstd.
    pub alg: Option<i64>,
    /// The level.
    pub lvl: Option<i64>,
    /// Rows of a page, batch or block.
    pub block_rows: Option<i64>,
    /// The type by q's number.
    pub data_type: i16,
    /// How many values.
    pub data_count: i64,
    /// Milliseconds to encode and to write the file.
    pub write_time: f64,
    /// Milliseconds to read the file and to decode it.
    pub read_time: f64,
    /// Bytes of the values uncompressed by bytes of the file.
    pub comp_factor: f64,
    /// Milliseconds of the whole test, checks included.
    pub test_time: f64,
    /// Milliseconds to read the file, decode it, and run the statement.
    pub query_time: Option<f64>,
    /// Microseconds to read and decode a block at random, from the page cache.
    pub block_time: Option<f64>,
    /// Bytes by which memory in use grew at most while writing and reading.
    pub memory: Option<i64>,
    /// Bytes of the file.
    pub bytes: i64,
    /// Bytes of the values uncompressed.
    pub plain_bytes: i64,
    /// Whether the file was read from the device: the page cache had none of it.
    pub is_cold: bool,
    /// How many lists and runs the times are means of.
    pub runs: i64,
    /// CRC-32C of the values, by which results are known to be of other data.
    pub digest: i64,
}

/// The columns of a table of results.
#[must_use]
pub fn schema() -> SchemaRef {
    use DataType::{Boolean, Float64, Int16, Int64, Utf8};
    let column = |(name, data_type, is_nullable): (&str, DataType, bool)| Field::new(name, data_type, is_nullable);
    let columns = [
        ("data", Utf8, false),
        ("lbs", Int64, true),
        ("alg", Int64, true),
        ("lvl", Int64, true),
        ("dataType", Int16, false),
        ("dataCount", Int64, false),
        ("writeTime", Float64, false),
        ("readTime", Float64, false),
        ("compFactor", Float64, false),
        ("testTime", Float64, false),
        ("queryTime", Float64, true),
        ("scheme", Utf8, false),
        ("family", Utf8, false),
        ("codec", Utf8, false),
        ("encoding", Utf8, false),
        ("blockRows", Int64, true),
        ("blockTime", Float64, true),
        ("memory", Int64, true),
        ("bytes", Int64, false),
        ("plainBytes", Int64, false),
        ("cold", Boolean, false),
        ("runs", Int64, false),
        ("digest", Int64, false),
    ];
    Arc::new(Schema::new(columns.map(column).to_vec()))
}

/// Measurements as rows of [`schema`].
///
/// # Errors
/// None that a caller could mend.
pub fn to_batch(rows: &[Measurement]) -> Result<RecordBatch> {
    let texts =
        |of: fn(&Measurement) -> &String| -> ArrayRef { Arc::new(StringArray::from_iter_values(rows.iter().map(of))) };
    let longs =
        |of: fn(&Measurement) -> Option<i64>| -> ArrayRef { Arc::new(rows.iter().map(of).collect::<Int64Array>()) };
    let floats =
        |of: fn(&Measurement) -> Option<f64>| -> ArrayRef { Arc::new(rows.iter().map(of).collect::<Float64Array>()) };
    let columns = vec![
        texts(|row| &row.data),
        longs(|row| row.lbs),
        longs(|row| row.alg),
        longs(|row| row.lvl),
        Arc::new(rows.iter().map(|row| Some(row.data_type)).collect::<Int16Array>()),
        longs(|row| Some(row.data_count)),
        floats(|row| Some(row.write_time)),
        floats(|row| Some(row.read_time)),
        floats(|row| Some(row.comp_factor)),
        floats(|row| Some(row.test_time)),
        floats(|row| row.query_time),
        texts(|row| &row.scheme),
        texts(|row| &row.family),
        texts(|row| &row.codec),
        texts(|row| &row.encoding),
        longs(|row| row.block_rows),
        floats(|row| row.block_time),
        longs(|row| row.memory),
        longs(|row| Some(row.bytes)),
        longs(|row| Some(row.plain_bytes)),
        Arc::new(rows.iter().map(|row| Some(row.is_cold)).collect::<BooleanArray>()),
        longs(|row| Some(row.runs)),
        longs(|row| Some(row.digest)),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// Rows of a table of results.
///
/// # Errors
/// [`Error::Arrow`] if a column is missing or has another type.
pub fn from_batch(batch: &RecordBatch) -> Result<Vec<Measurement>> {
    let batch = in_order(batch)?;
    let column = |name: &str| batch.column_by_name(name).unwrap_or_else(|| batch.column(0));
    let text = |name: &str, row: usize| column(name).as_string::<i32>().value(row).to_owned();
    let long = |name: &str, row: usize| {
        let column = column(name).as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let float = |name: &str, row: usize| {
        let column = column(name).as_primitive::<Float64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let measurement = |row: usize| Measurement {
        data: text("data", row),
        scheme: text("scheme", row),
        family: text("family", row),
        codec: text("codec", row),
        encoding: text("encoding", row),
        lbs: long("lbs", row),
        alg: long("alg", row),
        lvl: long("lvl", row),
        block_rows: long("blockRows", row),
        data_type: column("dataType").as_primitive::<Int16Type>().value(row),
        data_count: long("dataCount", row).unwrap_or_default(),
        write_time: float("writeTime", row).unwrap_or(f64::NAN),
        read_time: float("readTime", row).unwrap_or(f64::NAN),
        comp_factor: float("compFactor", row).unwrap_or(f64::NAN),
        test_time: float("testTime", row).unwrap_or(f64::NAN),
        query_time: float("queryTime", row),
        block_time: float("blockTime", row),
        memory: long("memory", row),
        bytes: long("bytes", row).unwrap_or_default(),
        plain_bytes: long("plainBytes", row).unwrap_or_default(),
        is_cold: column("cold").as_boolean().value(row),
        runs: long("runs", row).unwrap_or_default(),
        digest: long("digest", row).unwrap_or_default(),
    };
    Ok((0..batch.num_rows()).map(measurement).collect())
}

/// The columns of [`schema`] of a batch that may have them in another order or with wider types.
fn in_order(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = schema();
    let columns = schema.fields().iter().map(|field| {
        let place = batch.schema().index_of(field.name())?;
        Ok(arrow::compute::cast(batch.column(place), field.data_type())?)
    });
    Ok(RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<Vec<_>>>()?)?)
}

/// Saves a table of results as Parquet, or as CSV if the name ends so. The file appears when it is whole.
///
/// # Errors
/// [`Error::Io`], [`Error::Parquet`].
pub fn save(path: &Path, rows: &[Measurement]) -> Result<()> {
    let batch = to_batch(rows)?;
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let mut file = File::create(part).map_err(Error::io(part, "create"))?;
    if is_csv(path) {
        write_csv(&batch.schema(), std::slice::from_ref(&batch), &mut file)?;
    } else {
        let properties = WriterProperties::default();
        write_parquet(&batch.schema(), std::slice::from_ref(&batch), properties, &mut file)
            .map_err(Error::parquet(path))?;
    }
    std::fs::rename(part, path).map_err(Error::io(path, "rename to"))
}

/// Loads a table of results.
///
/// # Errors
/// [`Error::Io`] if there is no such file, [`Error::Results`] if it is no table of results.
pub fn load(path: &Path) -> Result<Vec<Measurement>> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    let unusable = |reason: String| Error::Results { path: path.to_path_buf(), reason };
    let read = || -> std::result::Result<Vec<RecordBatch>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        if is_csv(path) {
            let reader = arrow::csv::ReaderBuilder::new(schema()).with_header(true).build(&file);
            return reader.map_err(|e| text(&e))?.collect::<std::result::Result<_, _>>().map_err(|e| text(&e));
        }
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| builder.build());
        reader.map_err(|e| text(&e))?.collect::<std::result::Result<_, _>>().map_err(|e| text(&e))
    };
    let batches = read().map_err(unusable)?;
    let rows = batches.iter().map(from_batch).collect::<Result<Vec<_>>>();
    Ok(rows.map_err(|error| unusable(error.to_string()))?.concat())
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

/// Batches of results as one.
///
/// # Errors
/// [`Error::Arrow`] if they have other columns.
pub fn concatenated(batches: &[RecordBatch]) -> Result<Vec<Measurement>> {
    Ok(batches.iter().map(from_batch).collect::<Result<Vec<_>>>()?.concat())
}
