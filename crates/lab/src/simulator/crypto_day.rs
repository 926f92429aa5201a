//! One day of the crypto tables: its files, and its events in the order of their times.
//!
//! Invariant: rows never go back in time; at equal times books come before trades of the same symbol, so a trade meets
//! the book of its own instant.

use std::iter::Peekable;
use std::path::Path;

use chrono::NaiveDate;

use super::activity::{Arrivals, CRYPTO_CLOCK, full_day_minutes};
use super::crypto::STREAMS_OF_DAY;
use super::crypto_csv::CsvWriter;
use super::crypto_parquet::{BookColumns, ParquetTable, TradeColumns};
use super::crypto_rows::{RowWriter, Snapshot, Trade};
use super::instruments::INSTRUMENTS;
use super::market::Market;
use super::random::{Random, Stream};
use super::{FileFormat, Progress, WrittenFile};
use crate::Result;

/// How many rows a day has.
pub(super) struct DayPlan {
    /// The number of the day over all periods, for its seeds.
    pub(super) number: u64,
    /// Trades of each symbol, on the first exchange.
    pub(super) trades: Vec<u64>,
    /// Books of each symbol on each exchange.
    pub(super) books: Vec<Vec<u64>>,
}

/// The files of a day.
pub(super) struct Files {
    pub(super) trades: Option<Box<dyn RowWriter<Trade>>>,
    pub(super) books: Box<dyn RowWriter<Snapshot>>,
}

impl Files {
    /// Closes the files.
    pub(super) fn finish(self) -> Result<Vec<WrittenFile>> {
        let trades = self.trades.map(RowWriter::finish).transpose()?;
        let books = self.books.finish()?;
        Ok(trades.into_iter().chain([books]).collect())
    }
}

/// Creates a `trades` file; the format gives its ending.
pub(super) fn open_trades(stem: &Path, date: NaiveDate, format: FileFormat) -> Result<Box<dyn RowWriter<Trade>>> {
    Ok(match format {
        FileFormat::Csv => Box::new(CsvWriter::create::<Trade>(&stem.with_extension("csv"), date)?),
        FileFormat::Parquet => Box::new(ParquetTable::<TradeColumns>::create(&stem.with_extension("parquet"), date)?),
    })
}

/// Creates a `books` file; the format gives its ending.
pub(super) fn open_books(stem: &Path, date: NaiveDate, format: FileFormat) -> Result<Box<dyn RowWriter<Snapshot>>> {
    Ok(match format {
        FileFormat::Csv => Box::new(CsvWriter::create::<Snapshot>(&stem.with_extension("csv"), date)?),
        FileFormat::Parquet => Box::new(ParquetTable::<BookColumns>::create(&stem.with_extension("parquet"), date)?),
    })
}

/// The events of one table of one symbol on one exchange.
struct Source {
    times: Peekable<Arrivals>,
    symbol: usize,
    exchange: usize,
    is_trade: bool,
}

/// Writes the day's rows in the order of their times; equal times in the order of the sources.
pub(super) fn write_day(
    seed: u64,
    plan: &DayPlan,
    markets: &mut [Market],
    files: &mut Files,
    progress: &mut Progress<'_>,
) -> Result<()> {
    markets.iter_mut().for_each(Market::start_day);
    let mut sources = sources(seed, plan);
    while let Some((time, index)) = earliest(&mut sources) {
        let source = &mut sources[index];
        source.times.next();
        let market = &mut markets[source.symbol];
        match &mut files.trades {
            Some(trades) if source.is_trade => trades.write(&market.trade(time, source.exchange))?,
            _ => files.books.write(&market.snapshot(time, source.exchange))?,
        }
        progress.add_row();
    }
    Ok(())
}

/// Books before trades: a trade meets the book of its own instant.
fn sources(seed: u64, plan: &DayPlan) -> Vec<Source> {
    let mut sources = Vec::new();
    for (symbol, exchanges) in plan.books.iter().enumerate() {
        let stream = plan.number * STREAMS_OF_DAY + symbol as u64;
        let minutes = full_day_minutes(&mut Random::new(seed, Stream::Activity, stream));
        for (exchange, rows) in exchanges.iter().enumerate() {
            let random = Random::new(seed, Stream::QuoteTimes, stream + (exchange * INSTRUMENTS.len()) as u64);
            let times = Arrivals::new(*rows, &minutes, CRYPTO_CLOCK, random).peekable();
            sources.push(Source { times, symbol, exchange, is_trade: false });
        }
        let random = Random::new(seed, Stream::TradeTimes, stream);
        let times = Arrivals::new(plan.trades[symbol], &minutes, CRYPTO_CLOCK, random).peekable();
        sources.push(Source { times, symbol, exchange: 0, is_trade: true });
    }
    sources
}

fn earliest(sources: &mut [Source]) -> Option<(u64, usize)> {
    let times = sources.iter_mut().enumerate().filter_map(|(index, source)| Some((*source.times.peek()?, index)));
    times.min()
}
