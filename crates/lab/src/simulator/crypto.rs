//! The crypto month: trades and books of three symbols, a day a file, the symbols interleaved by time.
//!
//! Three periods, as in the paper: the month on one exchange, a day of books on five exchanges (NBBO day), and a day for
//! loading (write day). Each has markets of its own; those of the month live through its days.

use chrono::{Days, NaiveDate};

use super::activity::apportion;
use super::crypto_day::{DayPlan, Files, open_books, open_trades, write_day};
use super::instruments::{EXCHANGE_WEIGHTS, EXCHANGES, INSTRUMENTS, Instrument, WRITE_BOOKS, WRITE_TRADES};
use super::market::Market;
use super::random::{Random, Stream};
use super::settings::{DAYS_MAX, create_folder};
use super::{CryptoSettings, FileFormat, Progress, WrittenFile};
use crate::Result;

/// The streams of a day have indexes from its number times this.
pub(super) const STREAMS_OF_DAY: u64 = 64;

/// Writes the crypto month; `progress` gets the rows written so far, of all files together.
///
/// Tables: `trades(timestamp, symbol, exchange, side, price, amount, id)` and `books(timestamp, symbol, exchange,
/// b1p..b20p, b1s..b20s, a1p..a20p, a1s..a20s)`; rows in time order, symbols interleaved, equal times occur. Times are
/// whole microseconds UTC; prices are dollars on the symbol's grid (0.01, USDT-USD 0.00001), sizes coins to 8 decimals
/// (USDT-USD 4). `side` is `buy` or `sell`; `id` rises strictly through the trades of a symbol; a trade is at the best
/// price of the symbol's last book.
///
/// Files, in `settings.out`, with the rows of scale 1:
/// - `trades_<date>.csv` and `books_<date>.csv` (or `.parquet`) from 2022-06-18 to 2022-07-17, COINBASE: together
///   19,580,000 trades and 30,640,000 books;
/// - `books_2022-07-20.csv` (or `.parquet`), five exchanges: 2,760,000 books;
/// - `write/trades.csv` and `write/books.csv`, 2022-06-01, always CSV: 1,000,000 trades and 1,500,000 books.
///
/// # Errors
/// [`Error::Setting`](crate::Error::Setting) before anything is written; [`Error::Io`](crate::Error::Io) or
/// [`Error::Parquet`](crate::Error::Parquet) if a file cannot be written, which leaves incomplete files behind.
pub fn generate_crypto(settings: &CryptoSettings, progress: &mut dyn FnMut(u64)) -> Result<Vec<WrittenFile>> {
    settings.validate()?;
    create_folder(&settings.out)?;
    let mut progress = Progress::new(progress);
    let mut written = write_month(settings, &mut progress)?;
    if settings.days.is_none() {
        written.extend(write_nbbo_day(settings, &mut progress)?);
        written.extend(write_write_day(settings, &mut progress)?);
    }
    progress.finish();
    Ok(written)
}

/// Writes the write day alone: `write/trades.csv` and `write/books.csv`, the same bytes as [`generate_crypto`] gives them.
///
/// # Errors
/// As [`generate_crypto`].
pub fn generate_write_day(settings: &CryptoSettings, progress: &mut dyn FnMut(u64)) -> Result<Vec<WrittenFile>> {
    settings.validate()?;
    create_folder(&settings.out)?;
    let mut progress = Progress::new(progress);
    let written = write_write_day(settings, &mut progress)?;
    progress.finish();
    Ok(written)
}

/// The parts of the data set; the number is part of the seed and therefore of the bytes.
#[derive(Debug, Clone, Copy)]
enum Period {
    Month = 0,
    NbboDay = 1,
    WriteDay = 2,
}

fn write_month(settings: &CryptoSettings, progress: &mut Progress<'_>) -> Result<Vec<WrittenFile>> {
    let mut markets = open_markets(settings, Period::Month, 1, |instrument| instrument.price_month);
    let trades = INSTRUMENTS.map(|instrument| rows_of_days(settings, 0, instrument.trades));
    let books = INSTRUMENTS.map(|instrument| rows_of_days(settings, 1, instrument.books));
    let mut written = Vec::new();
    for index in 0..settings.days.unwrap_or(DAYS_MAX) {
        let date = june(18) + Days::new(u64::from(index));
        let of_day = |rows: &Vec<u64>| rows[index as usize];
        let plan = DayPlan {
            number: u64::from(index),
            trades: trades.iter().map(of_day).collect(),
            books: books.iter().map(|rows| vec![of_day(rows)]).collect(),
        };
        let trades_path = settings.out.join(format!("trades_{date}"));
        let books_path = settings.out.join(format!("books_{date}"));
        let mut files = Files {
            trades: Some(open_trades(&trades_path, date, settings.format)?),
            books: open_books(&books_path, date, settings.format)?,
        };
        write_day(settings.seed, &plan, &mut markets, &mut files, progress)?;
        written.extend(files.finish()?);
    }
    Ok(written)
}

fn write_nbbo_day(settings: &CryptoSettings, progress: &mut Progress<'_>) -> Result<Vec<WrittenFile>> {
    let mut markets = open_markets(settings, Period::NbboDay, EXCHANGES.len(), |instrument| instrument.price_nbbo);
    let of_exchanges =
        |instrument: &Instrument| apportion(scaled(instrument.nbbo_books, settings.scale), &EXCHANGE_WEIGHTS);
    let plan = DayPlan {
        number: u64::from(DAYS_MAX),
        trades: vec![0; INSTRUMENTS.len()],
        books: INSTRUMENTS.iter().map(of_exchanges).collect(),
    };
    let date = june(18) + Days::new(32);
    let books = open_books(&settings.out.join(format!("books_{date}")), date, settings.format)?;
    let mut files = Files { trades: None, books };
    write_day(settings.seed, &plan, &mut markets, &mut files, progress)?;
    files.finish()
}

fn write_write_day(settings: &CryptoSettings, progress: &mut Progress<'_>) -> Result<Vec<WrittenFile>> {
    let folder = settings.out.join("write");
    create_folder(&folder)?;
    let mut markets = open_markets(settings, Period::WriteDay, 1, |instrument| instrument.price_write);
    let trades =
        apportion(scaled(WRITE_TRADES, settings.scale), &INSTRUMENTS.map(|instrument| instrument.trades as f64));
    let books = apportion(scaled(WRITE_BOOKS, settings.scale), &INSTRUMENTS.map(|instrument| instrument.books as f64));
    let plan =
        DayPlan { number: u64::from(DAYS_MAX) + 1, trades, books: books.into_iter().map(|rows| vec![rows]).collect() };
    let mut files = Files {
        trades: Some(open_trades(&folder.join("trades"), june(1), FileFormat::Csv)?),
        books: open_books(&folder.join("books"), june(1), FileFormat::Csv)?,
    };
    write_day(settings.seed, &plan, &mut markets, &mut files, progress)?;
    files.finish()
}

fn june(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2022, 6, day).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "rows times a scale checked to be at most 10^5 fit u64")]
fn scaled(rows: u64, scale: f64) -> u64 {
    (rows as f64 * scale).round() as u64
}

/// The rows of each day of the month for a symbol's table: some days are busier.
fn rows_of_days(settings: &CryptoSettings, table: u64, rows: u64) -> Vec<u64> {
    let mut random = Random::new(settings.seed, Stream::Days, table);
    let weights: Vec<f64> = (0..DAYS_MAX).map(|_| 0.7 + 0.6 * random.fraction()).collect();
    apportion(scaled(rows, settings.scale), &weights)
}

fn open_markets(
    settings: &CryptoSettings,
    period: Period,
    venues: usize,
    price: impl Fn(&Instrument) -> u64,
) -> Vec<Market> {
    let open = |(symbol, instrument): (usize, &'static Instrument)| {
        let index = period as u64 * STREAMS_OF_DAY + symbol as u64;
        Market::new(instrument, symbol, venues, price(instrument), Random::new(settings.seed, Stream::Market, index))
    };
    INSTRUMENTS.iter().enumerate().map(open).collect()
}
