//! An equity day in the layout of the NYSE Daily TAQ files.
//!
//! Symbols are simulated one after another in the order of their names, each from its own seed, each in one pass over
//! the time that writes quotes, NBBO and trades together: that is the order of the published files, and all the memory
//! needed is a symbol's busiest minute.

use std::path::Path;

use super::activity::{Arrivals, EQUITY_CLOCK, apportion, equity_minutes};
use super::gzip_table::GzipTable;
use super::price::PriceWalk;
use super::prints::{Kind, PrintTimes, Prints};
use super::random::{Random, Stream};
use super::settings::create_folder;
use super::taq_rows::{NBBO_HEADER, QUOTE_HEADER, Stamp, TRADE_HEADER, push_nbbo, push_quote, push_trade};
use super::tickers::{Ticker, tickers};
use super::venue_quotes::{DAILY_DEVIATION, Nbbo, VenueQuotes};
use super::{Progress, TaqSettings, WrittenFile};
use crate::Result;

/// The time in which the price moves by its daily deviation: 04:00 to 20:00, in nanoseconds.
const DAY_NS: u64 = 16 * 3_600 * 1_000_000_000;
/// The step of the sequence is drawn from 1 to this.
const SEQUENCE_STEP_MAX: u64 = 40;
/// A venue's clock is ahead of the processor's time stamp by 10 microseconds and up to this more, in nanoseconds.
const TRANSIT_NS_MAX: u64 = 400_000;

/// Writes an equity day; `progress` gets the rows written so far, of all files together.
///
/// Files, in `settings.out`, all `|`-separated gzip with a header line and a trailer `END|YYYYMMDD|<rows>|...`, ordered
/// by symbol, time, sequence:
/// - `EQY_US_ALL_TRADE_YYYYMMDD.gz`: exactly `settings.trades` rows, 15 columns;
/// - `SPLITS_US_ALL_BBO_X_YYYYMMDD.gz` for each first letter X of the symbols: together exactly `settings.quotes` rows,
///   23 columns;
/// - `EQY_US_ALL_NBBO_YYYYMMDD.gz`: a row for each quote that changed the NBBO, 30 columns.
///
/// Times are nanoseconds of New York, 04:00 to 20:00; prices are dollars on a grid of one cent; trade volumes are
/// shares, quote sizes round lots. `Sequence_Number` rises strictly through the day of a symbol, over quotes and trades
/// together, so the quote prevailing at a trade is the symbol's last one with a smaller number. Activity falls with the
/// symbol's rank (Zipf); the first symbol is `AAPL`.
///
/// # Errors
/// [`Error::Setting`](crate::Error::Setting) before anything is written; [`Error::Io`](crate::Error::Io) if a file cannot
/// be written, which leaves incomplete files behind.
pub fn generate_taq(settings: &TaqSettings, progress: &mut dyn FnMut(u64)) -> Result<Vec<WrittenFile>> {
    settings.validate()?;
    create_folder(&settings.out)?;
    let mut day = Day::create(settings, Progress::new(progress))?;
    let weights: Vec<f64> = (0..settings.symbols).map(|rank| 1.0 / f64::from(rank + 2)).collect();
    let quotes = apportion(settings.quotes, &weights);
    let trades = apportion(settings.trades, &weights);
    for ticker in tickers(settings.symbols, settings.seed) {
        day.open_letter(&ticker)?;
        let rank = usize::try_from(ticker.rank).unwrap_or(usize::MAX);
        SymbolDay::new(ticker, quotes[rank], trades[rank], settings.seed).write(&mut day)?;
    }
    day.finish()
}

/// The files of the day.
struct Day<'a> {
    out: &'a Path,
    date: String,
    trades: GzipTable,
    nbbo: GzipTable,
    /// The quotes of the current first letter.
    quotes: Option<(char, GzipTable)>,
    written: Vec<WrittenFile>,
    progress: Progress<'a>,
}

impl<'a> Day<'a> {
    fn create(settings: &'a TaqSettings, progress: Progress<'a>) -> Result<Self> {
        let out = settings.out.as_path();
        let date = settings.date.format("%Y%m%d").to_string();
        let trades = GzipTable::create(&out.join(format!("EQY_US_ALL_TRADE_{date}.gz")), TRADE_HEADER)?;
        let nbbo = GzipTable::create(&out.join(format!("EQY_US_ALL_NBBO_{date}.gz")), NBBO_HEADER)?;
        Ok(Self { out, date, trades, nbbo, quotes: None, written: Vec::new(), progress })
    }

    /// Turns to the quotes file of the ticker's first letter.
    fn open_letter(&mut self, ticker: &Ticker) -> Result<()> {
        let letter = ticker.name.chars().next().unwrap_or('A');
        if self.quotes.as_ref().is_some_and(|(open, _)| *open == letter) {
            return Ok(());
        }
        self.close_letter()?;
        let path = self.out.join(format!("SPLITS_US_ALL_BBO_{letter}_{}.gz", self.date));
        self.quotes = Some((letter, GzipTable::create(&path, QUOTE_HEADER)?));
        Ok(())
    }

    fn close_letter(&mut self) -> Result<()> {
        if let Some((_, table)) = self.quotes.take() {
            self.written.push(table.finish(&self.date)?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<WrittenFile>> {
        self.close_letter()?;
        self.written.push(self.trades.finish(&self.date)?);
        self.written.push(self.nbbo.finish(&self.date)?);
        self.progress.finish();
        Ok(self.written)
    }
}

/// The simulation of one symbol.
struct SymbolDay {
    ticker: Ticker,
    random: Random,
    walk: PriceWalk,
    quotes: VenueQuotes,
    prints: Prints,
    nbbo: Option<Nbbo>,
    quote_times: std::iter::Peekable<Arrivals>,
    print_times: PrintTimes,
    sequence: u64,
    trade_id: u64,
}

impl SymbolDay {
    fn new(ticker: Ticker, quotes: u64, trades: u64, seed: u64) -> Self {
        let of_symbol = |stream| Random::new(seed, stream, ticker.rank);
        let mut random = of_symbol(Stream::Market);
        let minutes = equity_minutes(&mut of_symbol(Stream::Activity));
        let quote_times = Arrivals::new(quotes, &minutes, EQUITY_CLOCK, of_symbol(Stream::QuoteTimes)).peekable();
        let usual = |rest| Arrivals::new(rest, &minutes, EQUITY_CLOCK, of_symbol(Stream::TradeTimes));
        let print_times = PrintTimes::new(trades, &mut random, usual);
        let mut walk = PriceWalk::new(ticker.close_cents, DAILY_DEVIATION, DAY_NS);
        walk.start_at(EQUITY_CLOCK.start);
        Self {
            walk,
            quotes: VenueQuotes::new(ticker.listing, ticker.rank, quotes, ticker.close_cents),
            prints: Prints::new(ticker.listing),
            nbbo: None,
            quote_times,
            print_times,
            sequence: random.below(1_000),
            trade_id: 0,
            random,
            ticker,
        }
    }

    /// Quotes before trades of the same instant, and no trade before the first quote.
    fn write(mut self, day: &mut Day<'_>) -> Result<()> {
        loop {
            match (self.quote_times.peek().copied(), self.print_times.peek()) {
                (None, None) => return Ok(()),
                (Some(quote), Some(print)) if quote > print && self.nbbo.is_none() => {
                    self.quote_times.next();
                    self.write_quote(print, day)?;
                }
                (Some(quote), print) if print.is_none_or(|print| quote <= print) => {
                    self.quote_times.next();
                    self.write_quote(quote, day)?;
                }
                _ => {
                    if let Some((time, kind)) = self.print_times.next() {
                        self.write_trade(time, kind, day)?;
                    }
                }
            }
            day.progress.add_row();
        }
    }

    fn write_quote(&mut self, time: u64, day: &mut Day<'_>) -> Result<()> {
        let fair = self.walk.advance(time, &mut self.random);
        let quote = self.quotes.requote(fair, &mut self.random);
        let nbbo = self.quotes.nbbo();
        let changed = nbbo.filter(|_| nbbo != self.nbbo);
        self.nbbo = nbbo;
        let participant_time = self.next_stamp(time);
        let stamp = self.stamp(time, participant_time);
        if let Some((_, table)) = &mut day.quotes {
            table.push(|out| push_quote(out, &stamp, &quote, changed.is_some()))?;
        }
        if let Some(nbbo) = changed {
            day.nbbo.push(|out| push_nbbo(out, &stamp, &quote, &nbbo))?;
            day.progress.add_row();
        }
        Ok(())
    }

    fn write_trade(&mut self, time: u64, kind: Kind, day: &mut Day<'_>) -> Result<()> {
        let nbbo = self.nbbo.unwrap_or_else(|| self.unseen_nbbo());
        let print = self.prints.draw(time, kind, &nbbo, &mut self.random);
        let participant_time = self.next_stamp(time);
        self.trade_id += 1;
        let stamp = self.stamp(time, participant_time);
        day.trades.push(|out| push_trade(out, &stamp, self.trade_id, &print))
    }

    /// What a symbol without any quote trades at: a cent around the day before's price.
    fn unseen_nbbo(&self) -> Nbbo {
        let bid = self.ticker.close_cents.cast_signed();
        let venue = self.quotes.venues()[0];
        Nbbo { bid_venue: venue, bid, bid_lots: 1, offer_venue: venue, offer: bid + 1, offer_lots: 1 }
    }

    /// Moves the sequence on and draws the participant's time.
    fn next_stamp(&mut self, time: u64) -> u64 {
        self.sequence += 1 + self.random.below(SEQUENCE_STEP_MAX);
        time - 10_000 - self.random.below(TRANSIT_NS_MAX)
    }

    fn stamp(&self, time: u64, participant_time: u64) -> Stamp<'_> {
        let source = if self.ticker.listing == b'Q' { b'N' } else { b'C' };
        Stamp { time, participant_time, symbol: &self.ticker.name, sequence: self.sequence, source }
    }
}
