//! The crypto tables as Parquet: the doubles of the CSV form, times in nanoseconds UTC, text as dictionaries.
//!
//! Invariant: at most one row group of 65,536 rows is in memory (its pages compressed), and one batch of 4,096 rows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use chrono::NaiveDate;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::WrittenFile;
use super::book::{BookSide, LEVELS};
use super::crypto_rows::{RowWriter, SIDES, Snapshot, Trade, level_columns, midnight_ns};
use super::decimal::to_double;
use super::instruments::{EXCHANGES, INSTRUMENTS};
use crate::{Error, Result};

/// Rows handed to the encoder at once.
const BATCH_ROWS: usize = 4_096;
/// Rows of a row group.
const ROW_GROUP_ROWS: usize = 65_536;

/// The columns that both tables begin with.
#[derive(Debug, Default)]
struct Start {
    times: Vec<i64>,
    symbols: Vec<i32>,
    exchanges: Vec<i32>,
}

impl Start {
    fn fields() -> Vec<Field> {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        vec![Field::new("timestamp", time, false), text_field("symbol"), text_field("exchange")]
    }

    fn push(&mut self, midnight: i64, time: u64, symbol: usize, exchange: usize) {
        self.times.push(midnight + time.cast_signed() * 1_000);
        self.symbols.push(key(symbol));
        self.exchanges.push(key(exchange));
    }

    fn take(&mut self) -> std::result::Result<Vec<ArrayRef>, ParquetError> {
        let times = TimestampNanosecondArray::from(std::mem::take(&mut self.times)).with_timezone("UTC");
        let symbols = text_array(&mut self.symbols, INSTRUMENTS.iter().map(|instrument| instrument.symbol))?;
        let exchanges = text_array(&mut self.exchanges, EXCHANGES.into_iter())?;
        Ok(vec![Arc::new(times), symbols, exchanges])
    }
}

fn text_field(name: &str) -> Field {
    Field::new(name, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), false)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a position in a list of at most five")]
fn key(position: usize) -> i32 {
    position as i32
}

fn text_array<'a>(
    keys: &mut Vec<i32>,
    values: impl Iterator<Item = &'a str>,
) -> std::result::Result<ArrayRef, ParquetError> {
    let values = Arc::new(StringArray::from_iter_values(values));
    let array = DictionaryArray::<Int32Type>::try_new(Int32Array::from(std::mem::take(keys)), values)?;
    Ok(Arc::new(array))
}

fn double_array(values: &mut Vec<f64>) -> ArrayRef {
    Arc::new(Float64Array::from(std::mem::take(values)))
}

/// Rows of one kind, gathered as columns.
pub(crate) trait Columns<Row>: Default {
    /// The columns in order.
    fn fields() -> Vec<Field>;
    /// Adds a row; `midnight` is the day's start in nanoseconds since the epoch.
    fn push(&mut self, row: &Row, midnight: i64);
    /// Gives the columns and starts again.
    fn take(&mut self) -> std::result::Result<Vec<ArrayRef>, ParquetError>;
}

/// The columns of `trades`.
#[derive(Debug, Default)]
pub(crate) struct TradeColumns {
    start: Start,
    sides: Vec<i32>,
    prices: Vec<f64>,
    amounts: Vec<f64>,
    ids: Vec<i64>,
}

impl Columns<Trade> for TradeColumns {
    fn fields() -> Vec<Field> {
        let mut fields = Start::fields();
        fields.push(text_field("side"));
        fields.push(Field::new("price", DataType::Float64, false));
        fields.push(Field::new("amount", DataType::Float64, false));
        fields.push(Field::new("id", DataType::Int64, false));
        fields
    }

    fn push(&mut self, row: &Trade, midnight: i64) {
        let instrument = &INSTRUMENTS[row.symbol];
        self.start.push(midnight, row.time, row.symbol, row.exchange);
        self.sides.push(i32::from(row.buying));
        self.prices.push(to_double(row.price, instrument.price_decimals));
        self.amounts.push(to_double(row.amount, instrument.size_decimals));
        self.ids.push(row.id.cast_signed());
    }

    fn take(&mut self) -> std::result::Result<Vec<ArrayRef>, ParquetError> {
        let mut arrays = self.start.take()?;
        arrays.push(text_array(&mut self.sides, SIDES.into_iter())?);
        arrays.push(double_array(&mut self.prices));
        arrays.push(double_array(&mut self.amounts));
        arrays.push(Arc::new(Int64Array::from(std::mem::take(&mut self.ids))));
        Ok(arrays)
    }
}

/// The columns of `books`.
#[derive(Debug)]
pub(crate) struct BookColumns {
    start: Start,
    /// In the order of [`level_columns`].
    levels: Vec<Vec<f64>>,
}

impl Default for BookColumns {
    fn default() -> Self {
        Self { start: Start::default(), levels: vec![Vec::new(); 4 * LEVELS] }
    }
}

impl BookColumns {
    fn push_side(&mut self, first: usize, side: &BookSide, price_decimals: usize, size_decimals: usize) {
        for level in 0..LEVELS {
            self.levels[first + level].push(to_double(side.price(level), price_decimals));
            self.levels[first + LEVELS + level].push(to_double(side.size(level), size_decimals));
        }
    }
}

impl Columns<Snapshot> for BookColumns {
    fn fields() -> Vec<Field> {
        let mut fields = Start::fields();
        fields.extend(level_columns().map(|name| Field::new(name, DataType::Float64, false)));
        fields
    }

    fn push(&mut self, row: &Snapshot, midnight: i64) {
        let instrument = &INSTRUMENTS[row.symbol];
        self.start.push(midnight, row.time, row.symbol, row.exchange);
        self.push_side(0, &row.book.bids, instrument.price_decimals, instrument.size_decimals);
        self.push_side(2 * LEVELS, &row.book.asks, instrument.price_decimals, instrument.size_decimals);
    }

    fn take(&mut self) -> std::result::Result<Vec<ArrayRef>, ParquetError> {
        let mut arrays = self.start.take()?;
        arrays.extend(self.levels.iter_mut().map(double_array));
        Ok(arrays)
    }
}

/// A Parquet file under construction.
pub(crate) struct ParquetTable<C> {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    columns: C,
    midnight: i64,
    batch_rows: usize,
    rows: u64,
}

impl<C> ParquetTable<C> {
    /// Creates the file.
    pub(crate) fn create<Row>(path: &Path, date: NaiveDate) -> Result<Self>
    where
        C: Columns<Row>,
    {
        let file = File::create(path).map_err(Error::io(path, "create"))?;
        let schema: SchemaRef = Arc::new(Schema::new(C::fields()));
        let open = || {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
                .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                .build();
            ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
        };
        let writer = open().map_err(Error::parquet(path))?;
        let midnight = midnight_ns(date);
        Ok(Self { path: path.to_path_buf(), schema, writer, columns: C::default(), midnight, batch_rows: 0, rows: 0 })
    }

    fn flush<Row>(&mut self) -> Result<()>
    where
        C: Columns<Row>,
    {
        self.batch_rows = 0;
        let arrays = self.columns.take();
        let batch = arrays.and_then(|arrays| Ok(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?));
        batch.and_then(|batch| self.writer.write(&batch)).map_err(Error::parquet(&self.path))
    }
}

impl<Row, C: Columns<Row>> RowWriter<Row> for ParquetTable<C> {
    fn write(&mut self, row: &Row) -> Result<()> {
        self.columns.push(row, self.midnight);
        self.batch_rows += 1;
        self.rows += 1;
        if self.batch_rows < BATCH_ROWS { Ok(()) } else { self.flush() }
    }

    fn finish(mut self: Box<Self>) -> Result<WrittenFile> {
        self.flush()?;
        self.writer.close().map_err(Error::parquet(&self.path))?;
        Ok(WrittenFile { path: self.path, rows: self.rows })
    }
}
