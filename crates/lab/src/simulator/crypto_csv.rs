//! The crypto tables as CSV: a header line, times as `2022-06-18T00:00:00.123456Z`, floats as their short decimals.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use super::WrittenFile;
use super::book::{BookSide, LEVELS};
use super::crypto_rows::{RowWriter, SIDES, Snapshot, Trade, level_columns};
use super::decimal::{push_short, push_utc_time, push_whole};
use super::instruments::{EXCHANGES, INSTRUMENTS, Instrument};
use crate::{Error, Result};

/// The file is written in pieces of about this many bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// No row is longer.
const ROW_BYTES_MAX: usize = 4_096;

/// A row that has a CSV form.
pub(crate) trait CsvRow {
    /// The header, without the end of the line.
    fn header() -> String;
    /// Appends the fields, without the end of the line; `date` is `2022-06-18T`.
    fn push(&self, out: &mut Vec<u8>, date: &[u8]);
}

impl CsvRow for Trade {
    fn header() -> String {
        "timestamp,symbol,exchange,side,price,amount,id".to_owned()
    }

    fn push(&self, out: &mut Vec<u8>, date: &[u8]) {
        let instrument = &INSTRUMENTS[self.symbol];
        push_start(out, date, self.time, instrument, self.exchange);
        out.extend_from_slice(SIDES[usize::from(self.buying)].as_bytes());
        out.push(b',');
        push_short(out, self.price, instrument.price_decimals);
        out.push(b',');
        push_short(out, self.amount, instrument.size_decimals);
        out.push(b',');
        push_whole(out, self.id);
    }
}

impl CsvRow for Snapshot {
    fn header() -> String {
        let columns: Vec<String> = level_columns().collect();
        format!("timestamp,symbol,exchange,{}", columns.join(","))
    }

    fn push(&self, out: &mut Vec<u8>, date: &[u8]) {
        let instrument = &INSTRUMENTS[self.symbol];
        push_start(out, date, self.time, instrument, self.exchange);
        push_side(out, &self.book.bids, instrument);
        push_side(out, &self.book.asks, instrument);
        // Every level ends with a comma; the row's last has none.
        out.pop();
    }
}

fn push_start(out: &mut Vec<u8>, date: &[u8], time: u64, instrument: &Instrument, exchange: usize) {
    out.extend_from_slice(date);
    push_utc_time(out, time);
    out.push(b',');
    out.extend_from_slice(instrument.symbol.as_bytes());
    out.push(b',');
    out.extend_from_slice(EXCHANGES[exchange].as_bytes());
    out.push(b',');
}

fn push_side(out: &mut Vec<u8>, side: &BookSide, instrument: &Instrument) {
    for level in 0..LEVELS {
        push_short(out, side.price(level), instrument.price_decimals);
        out.push(b',');
    }
    for level in 0..LEVELS {
        push_short(out, side.size(level), instrument.size_decimals);
        out.push(b',');
    }
}

/// A CSV file under construction.
#[derive(Debug)]
pub(crate) struct CsvWriter {
    path: PathBuf,
    file: File,
    date: Vec<u8>,
    buffer: Vec<u8>,
    rows: u64,
}

impl CsvWriter {
    /// Creates the file and writes its header.
    pub(crate) fn create<Row: CsvRow>(path: &Path, date: NaiveDate) -> Result<Self> {
        let file = File::create(path).map_err(Error::io(path, "create"))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + ROW_BYTES_MAX);
        buffer.extend_from_slice(Row::header().as_bytes());
        buffer.push(b'\n');
        let date = date.format("%Y-%m-%dT").to_string().into_bytes();
        Ok(Self { path: path.to_path_buf(), file, date, buffer, rows: 0 })
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all(&self.buffer).map_err(Error::io(&self.path, "write"))?;
        self.buffer.clear();
        Ok(())
    }
}

impl<Row: CsvRow> RowWriter<Row> for CsvWriter {
    fn write(&mut self, row: &Row) -> Result<()> {
        row.push(&mut self.buffer, &self.date);
        self.buffer.push(b'\n');
        self.rows += 1;
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn finish(mut self: Box<Self>) -> Result<WrittenFile> {
        self.flush()?;
        Ok(WrittenFile { path: self.path, rows: self.rows })
    }
}
